"""`nexusform workspace` commands."""

from typing import Final

from msgspec import Struct

from nexusform.cli.arguments import (
    declare_flag_group,
    declare_positional,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.command_groups import LazyGroup
from nexusform.cli.commands import define_command
from nexusform.cli.shared_flags import NoArguments, StateLockFlags, create_context
from nexusform.cli.terminal_screen import Screen
from nexusform.command_entry import CommandEntry
from nexusform.diagnostics.diagnostic import has_errors
from nexusform.files.external_files import ArgumentFile
from nexusform.workflow.states import workspaces
from nexusform.workflow.states.state_commands import StateCommandContext


def _print_diagnostics(screen: Screen, outcome: workspaces.Workspaces) -> bool:
    """Print the diagnostics; return whether there are no errors."""
    screen.print_diagnostics(outcome.diagnostics, outcome.sources)
    return not has_errors(outcome.diagnostics)


class ListWorkspacesArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `workspace list`."""

    as_json: bool = declare_switch_flag("Print a JSON document", flag="json")


@define_command("list", ListWorkspacesArguments)
def list_workspaces(arguments: ListWorkspacesArguments) -> int:
    """List the workspaces and mark the selected one."""
    screen = Screen()
    context = create_context()
    existing = workspaces.list_workspaces(context)
    if arguments.as_json:
        entries = [
            {"name": name, "is_current": name == context.workspace} for name in existing.names
        ]
        return screen.print_answer_document(
            existing.diagnostics, existing.sources, workspaces=entries
        )
    if not _print_diagnostics(screen, existing):
        return 1
    for name in existing.names:
        screen.print_text(f"{'*' if name == context.workspace else ' '} {name}")
    return 0


@define_command("show", NoArguments)
def show(_arguments: NoArguments) -> int:
    """Print the name of the selected workspace."""
    Screen().print_text(create_context().workspace)
    return 0


class NewWorkspaceArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `workspace new`."""

    lock: StateLockFlags = declare_flag_group(StateLockFlags)
    state: str = declare_text_flag(
        "Start with this state document", metavar="FILE", file=ArgumentFile("state")
    )
    name: str = declare_positional()


@define_command("new", NewWorkspaceArguments)
def new(arguments: NewWorkspaceArguments) -> int:
    """Create the workspace NAME and select it."""
    from nexusform.cli.state_edit import read_state_to_push

    screen = Screen()
    state = (
        read_state_to_push(screen, arguments.state, create_context()) if arguments.state else None
    )
    # The state is unreadable, as already printed.
    if arguments.state and state is None:
        return 1
    name = arguments.name
    session = StateCommandContext(on_wait=screen.print_text)
    locking = arguments.lock.build_options()
    outcome = workspaces.create_workspace(
        create_context(), name, locking, state=state, session=session
    )
    if not _print_diagnostics(screen, outcome):
        return 1
    screen.print_text(f'Created and switched to workspace "{name}"!')
    if state is None:
        screen.print_text(
            "\nYou're now on a new, empty workspace. Workspaces isolate their state,\n"
            'so if you run "nexusform plan" nexusform will not see any existing state\n'
            "for this configuration."
        )
    return 0


class SelectWorkspaceArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `workspace select`."""

    or_create: bool = declare_switch_flag("Create the workspace if it does not exist")
    name: str = declare_positional()


@define_command("select", SelectWorkspaceArguments)
def select(arguments: SelectWorkspaceArguments) -> int:
    """Select the workspace NAME for later commands."""
    screen = Screen()
    outcome = workspaces.select_workspace(
        create_context(), arguments.name, create=arguments.or_create
    )
    if not _print_diagnostics(screen, outcome):
        return 1
    screen.print_text(f'Switched to workspace "{arguments.name}".')
    return 0


class DeleteWorkspaceArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `workspace delete`."""

    force: bool = declare_switch_flag("Delete a non-empty workspace, forget its objects")
    lock: StateLockFlags = declare_flag_group(StateLockFlags)
    name: str = declare_positional()


@define_command("delete", DeleteWorkspaceArguments)
def delete(arguments: DeleteWorkspaceArguments) -> int:
    """Delete the workspace NAME and its state."""
    screen = Screen()
    outcome = workspaces.delete_workspace(
        create_context(),
        arguments.name,
        arguments.lock.build_options(),
        force=arguments.force,
        session=StateCommandContext(on_wait=screen.print_text),
    )
    if not _print_diagnostics(screen, outcome):
        return 1
    screen.print_text(f'Deleted workspace "{arguments.name}"!')
    return 0


workspace: Final = LazyGroup(
    "workspace",
    {
        "list": CommandEntry("List the workspaces", load=lambda: list_workspaces),
        "show": CommandEntry("Show the selected workspace", load=lambda: show),
        "new": CommandEntry("Create and select a workspace", load=lambda: new),
        "select": CommandEntry("Select a workspace", load=lambda: select),
        "delete": CommandEntry("Delete a workspace", load=lambda: delete),
    },
    summary="Manage workspaces.",
)
