"""`nexusform workspace ...`."""

from __future__ import annotations

from typing import Any, Final

import click

from nexusform.cli.commands import Entry, LazyGroup, command, option, switch
from nexusform.cli.flags import lock_flags, locking_of, place_of
from nexusform.cli.screen import Screen
from nexusform.diagnostics import has_errors
from nexusform.state.model import State
from nexusform.workflow import workspaces
from nexusform.workflow.state_commands import Session, decode_pushed

workspace: Final = LazyGroup(
    "workspace",
    {
        "list": Entry("nexusform.cli.workspace:list_workspaces", "List the workspaces"),
        "show": Entry("nexusform.cli.workspace:show", "Say which one is selected"),
        "new": Entry("nexusform.cli.workspace:new", "Make a workspace and select it"),
        "select": Entry("nexusform.cli.workspace:select", "Select a workspace"),
        "delete": Entry("nexusform.cli.workspace:delete", "Delete a workspace"),
    },
    summary="Work with several states of one configuration.",
)


def _tell(screen: Screen, found: workspaces.Workspaces) -> bool:
    """Print what was found; whether it went well."""
    screen.diagnostics(found.diagnostics, found.sources)
    return not has_errors(found.diagnostics)


@command("list", summary="List the workspaces")
def list_workspaces() -> int:
    """List the workspaces; the selected one is marked."""
    screen = Screen()
    place = place_of({})
    found = workspaces.list_workspaces(place)
    if not _tell(screen, found):
        return 1
    for name in found.names:
        screen.out(f"{'*' if name == place.workspace else ' '} {name}")
    return 0


@command("show", summary="Say which one is selected")
def show() -> int:
    """Print the name of the selected workspace."""
    Screen().out(place_of({}).workspace)
    return 0


@command("new", summary="Make a workspace and select it")
@lock_flags
@option("state", "Begin with this state document instead of an empty state", metavar="FILE", default="")
@click.argument("name")
def new(name: str, state: str, **given: Any) -> int:
    """Make the workspace NAME and select it."""
    screen = Screen()
    content = _given_state(screen, state) if state else None
    if state and content is None:
        return 1
    found = workspaces.make(
        place_of({}), name, locking_of(given), state=content, session=Session(waiting=screen.out)
    )
    if not _tell(screen, found):
        return 1
    screen.out(f'Created and switched to workspace "{name}"!')
    if content is None:
        screen.out(
            "\nYou're now on a new, empty workspace. Workspaces isolate their state,\n"
            'so if you run "nexusform plan" nexusform will not see any existing state\n'
            "for this configuration."
        )
    return 0


def _given_state(screen: Screen, file: str) -> State | None:
    from nexusform.cli.state_edit import read_document
    from nexusform.diagnostics import error

    try:
        data = read_document(file)
    except OSError as problem:
        detail = f"{file} cannot be read: {problem.strerror or problem}."
        screen.diagnostics([error("file-cannot-be-read", detail)], {})
        return None
    state, problems, sources = decode_pushed(data, file)
    screen.diagnostics(problems, sources)
    return state


@command("select", summary="Select a workspace")
@switch("or-create", "Make it when it does not exist")
@click.argument("name")
def select(name: str, or_create: bool) -> int:
    """Select the workspace NAME for the commands to come."""
    screen = Screen()
    if not _tell(screen, workspaces.select(place_of({}), name, create=or_create)):
        return 1
    screen.out(f'Switched to workspace "{name}".')
    return 0


@command("delete", summary="Delete a workspace")
@switch("force", "Also when its state still holds objects, which are then forgotten")
@lock_flags
@click.argument("name")
def delete(name: str, force: bool, **given: Any) -> int:
    """Delete the workspace NAME and its state."""
    screen = Screen()
    found = workspaces.delete(
        place_of({}), name, locking_of(given), force=force, session=Session(waiting=screen.out)
    )
    if not _tell(screen, found):
        return 1
    screen.out(f'Deleted workspace "{name}"!')
    return 0
