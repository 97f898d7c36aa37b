"""Command `nexusform explore`."""

import webbrowser
from typing import Final

import click
from msgspec import Struct

from nexusform.cli.arguments import declare_flag_group, declare_number, declare_switch_flag
from nexusform.cli.commands import define_command
from nexusform.cli.shared_flags import (
    ViewFlags,
    create_context,
    declare_state_flag,
    declare_variable_flags,
)

_LAST_PORT: Final = 65_535


class ExploreArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `explore`."""

    port: int = declare_number("Use this local port (default: a free one)", default=0)
    open: bool = declare_switch_flag("Do not open a browser", default=True)
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()
    state: str = declare_state_flag()
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("explore", ExploreArguments)
def explore(arguments: ExploreArguments) -> int:
    """Explore the plan in a local browser, with other counts and racks.

    Every change is planned on the recorded state, without a lock. Nothing is applied. Literal
    values can be written back to the files after a diff. Press Ctrl-C to end.
    """
    if not 0 <= arguments.port <= _LAST_PORT:
        raise click.UsageError(
            f"-port: must be a number from 1 to {_LAST_PORT}, or 0 for a free port."
        )
    from nexusform.domains.explorer.plan_exploration import open_exploration
    from nexusform.domains.explorer.server import ExplorerServer

    screen = arguments.view.create_screen()
    with open_exploration(
        create_context(arguments.state, arguments.variables, requires_state=True)
    ) as (exploration, diagnostics, sources):
        screen.print_diagnostics(diagnostics, sources)
        if exploration is None:
            return 1
        try:
            server = ExplorerServer(exploration, arguments.port)
        except OSError as problem:
            screen.print_error(f"Error: port {arguments.port} cannot be used: {problem.strerror}.")
            return 1
        screen.print_text(f"Hypothetical plan at {server.url}")
        screen.print_text("Nothing is applied. Press Ctrl-C to end.")
        if arguments.open and screen.is_live:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            screen.print_text("\nEnded.")
        finally:
            server.server_close()
    return 0
