"""`nexusform explore`."""

from __future__ import annotations

import webbrowser
from typing import Final

import click
from msgspec import Struct

from nexusform.cli.arguments import group, number, switch
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of, state_flag, variable_flags

_LAST_PORT: Final = 65_535


class ExploreArguments(Struct, frozen=True, kw_only=True):
    """What `explore` takes."""

    port: int | None = number("Use this local port (default: a free one)", default=None)
    open: bool = switch("Do not open a browser", default=True)
    variables: tuple[tuple[str, str], ...] = variable_flags()
    state: str = state_flag()
    view: ViewFlags = group(ViewFlags)


@command("explore", ExploreArguments)
def explore(arguments: ExploreArguments) -> int:
    """Explore the plan in a local browser, with other counts and racks.

    Every change is planned on the recorded state, without a lock. Nothing is applied. Literal
    values can be written back to the files after a diff. Press Ctrl-C to end.
    """
    if not 0 <= (arguments.port or 0) <= _LAST_PORT:
        raise click.UsageError(f"-port: a port is a number from 1 to {_LAST_PORT}; 0 takes a free one.")
    from nexusform.domains.explorer.exploration import explored
    from nexusform.domains.explorer.server import ExplorerServer

    screen = arguments.view.screen()
    with explored(place_of(arguments.state, arguments.variables)) as (exploration, diagnostics, sources):
        screen.diagnostics(diagnostics, sources)
        if exploration is None:
            return 1
        try:
            server = ExplorerServer(exploration, arguments.port or 0)
        except OSError as problem:
            screen.err(f"Error: port {arguments.port} cannot be used: {problem.strerror}.")
            return 1
        screen.out(f"Exploring at {server.url}\nNothing is applied. Press Ctrl-C to end.")
        if arguments.open and screen.live:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            screen.out("\nEnded.")
        finally:
            server.server_close()
    return 0
