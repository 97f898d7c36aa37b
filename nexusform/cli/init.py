"""`nexusform init`."""

from __future__ import annotations

import sys

import click
from msgspec import Struct

from nexusform.cli.arguments import group, switch
from nexusform.cli.commands import command
from nexusform.cli.flags import LockFlags, ViewFlags, place_of
from nexusform.cli.screen import Screen, input_allowed
from nexusform.diagnostics import has_errors
from nexusform.rendering.notation.colours import Painter, hang
from nexusform.workflow.init import InitOptions, init_directory, missing_files, write_first_file


class InitArguments(Struct, frozen=True, kw_only=True):
    """What `init` takes."""

    reconfigure: bool = switch("Use the configured backend, forget the previous one")
    migrate_state: bool = switch("Copy the state from the previous backend")
    force_copy: bool = switch("With -migrate-state, overwrite an existing state")
    input: bool = switch("Do not offer a first configuration", default=True)
    upgrade: bool = switch("Accepted for compatibility, ignored")
    lock: LockFlags = group(LockFlags)
    view: ViewFlags = group(ViewFlags)


@command("init", InitArguments)
def init(arguments: InitArguments) -> int:
    """Check the configuration, prepare the backend and print a summary.

    Works without network. With the local backend, plan and apply do not need it.
    """
    if arguments.reconfigure and arguments.migrate_state:
        raise click.UsageError("-reconfigure and -migrate-state do not go together.")
    options = InitOptions(
        reconfigure=arguments.reconfigure,
        migrate=arguments.migrate_state or arguments.force_copy,
        force_copy=arguments.force_copy,
        locking=arguments.lock.locking(),
    )
    screen = arguments.view.screen()
    place = place_of()
    if input_allowed(arguments.input) and sys.stdin.isatty() and not _offer(screen, place.directory):
        return 1
    initialised = init_directory(place, options)
    screen.diagnostics(initialised.diagnostics, initialised.sources)
    if has_errors(initialised.diagnostics):
        return 1
    for line in initialised.lines:
        screen.out(hang(line, screen.width))
    paint = Painter(screen.colour)
    screen.out(f"\n{paint('nexusform has been successfully initialized!', 'bold', 'green')}")
    if not screen.in_automation:
        screen.out("\nNow `nexusform plan` shows what would change.")
    return 0


def _offer(screen: Screen, directory: str) -> bool:
    """Offer what a new directory lacks; whether nothing went wrong."""
    missing = missing_files(directory)
    if not missing:
        return True
    names = " and ".join(missing)
    answer = screen.ask(
        f"Write {names}?", "  Nothing stands there yet. Only 'yes' will be accepted to confirm."
    )
    for name in missing if answer == "yes" else ():
        try:
            write_first_file(directory, name)
        except OSError as problem:
            screen.err(f"Error: {name} cannot be written: {problem.strerror}.")
            return False
        screen.out(f"Wrote {name}.")
    return True
