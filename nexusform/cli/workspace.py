"""`nexusform workspace ...`."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from nexusform.cli.arguments import group, positional, switch, text
from nexusform.cli.commands import Entry, LazyGroup, command
from nexusform.cli.flags import LockFlags, NoArguments, place_of
from nexusform.cli.screen import Screen
from nexusform.diagnostics import has_errors
from nexusform.workflow.states import workspaces
from nexusform.workflow.states.state_commands import Session

workspace: Final = LazyGroup(
    "workspace",
    {
        "list": Entry("nexusform.cli.workspace:list_workspaces", "List the workspaces"),
        "show": Entry("nexusform.cli.workspace:show", "Show the selected workspace"),
        "new": Entry("nexusform.cli.workspace:new", "Create and select a workspace"),
        "select": Entry("nexusform.cli.workspace:select", "Select a workspace"),
        "delete": Entry("nexusform.cli.workspace:delete", "Delete a workspace"),
    },
    summary="Manage workspaces.",
)


def _tell(screen: Screen, outcome: workspaces.Workspaces) -> bool:
    """Print the diagnostics; whether it went well."""
    screen.diagnostics(outcome.diagnostics, outcome.sources)
    return not has_errors(outcome.diagnostics)


@command("list", NoArguments)
def list_workspaces(_arguments: NoArguments) -> int:
    """List the workspaces and mark the selected one."""
    screen = Screen()
    place = place_of()
    existing = workspaces.list_workspaces(place)
    if not _tell(screen, existing):
        return 1
    for name in existing.names:
        screen.out(f"{'*' if name == place.workspace else ' '} {name}")
    return 0


@command("show", NoArguments)
def show(_arguments: NoArguments) -> int:
    """Print the name of the selected workspace."""
    Screen().out(place_of().workspace)
    return 0


class NewWorkspaceArguments(Struct, frozen=True, kw_only=True):
    """What `workspace new` takes."""

    lock: LockFlags = group(LockFlags)
    state: str = text("Start with this state document", metavar="FILE")
    name: str = positional()


@command("new", NewWorkspaceArguments)
def new(arguments: NewWorkspaceArguments) -> int:
    """Create the workspace NAME and select it."""
    from nexusform.cli.state_edit import document_to_push

    screen = Screen()
    state = document_to_push(screen, arguments.state, place_of()) if arguments.state else None
    if arguments.state and state is None:
        return 1
    name, session = arguments.name, Session(waiting=screen.out)
    outcome = workspaces.make(place_of(), name, arguments.lock.locking(), state=state, session=session)
    if not _tell(screen, outcome):
        return 1
    screen.out(f'Created and switched to workspace "{name}"!')
    if state is None:
        screen.out(
            "\nYou're now on a new, empty workspace. Workspaces isolate their state,\n"
            'so if you run "nexusform plan" nexusform will not see any existing state\n'
            "for this configuration."
        )
    return 0


class SelectWorkspaceArguments(Struct, frozen=True, kw_only=True):
    """What `workspace select` takes."""

    or_create: bool = switch("Create the workspace if it does not exist")
    name: str = positional()


@command("select", SelectWorkspaceArguments)
def select(arguments: SelectWorkspaceArguments) -> int:
    """Select the workspace NAME for later commands."""
    screen = Screen()
    outcome = workspaces.select(place_of(), arguments.name, create=arguments.or_create)
    if not _tell(screen, outcome):
        return 1
    screen.out(f'Switched to workspace "{arguments.name}".')
    return 0


class DeleteWorkspaceArguments(Struct, frozen=True, kw_only=True):
    """What `workspace delete` takes."""

    force: bool = switch("Delete a non-empty workspace, forget its objects")
    lock: LockFlags = group(LockFlags)
    name: str = positional()


@command("delete", DeleteWorkspaceArguments)
def delete(arguments: DeleteWorkspaceArguments) -> int:
    """Delete the workspace NAME and its state."""
    screen = Screen()
    outcome = workspaces.delete(
        place_of(),
        arguments.name,
        arguments.lock.locking(),
        force=arguments.force,
        session=Session(waiting=screen.out),
    )
    if not _tell(screen, outcome):
        return 1
    screen.out(f'Deleted workspace "{arguments.name}"!')
    return 0
