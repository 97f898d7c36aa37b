"""Write a man page per command: `python packaging/man_pages.py DIRECTORY` (needs click-man)."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from click_man.core import write_man_pages

import nexusform
from nexusform.cli.command_groups import LazyGroup
from nexusform.cli.main import ROOT


def main(directory: str) -> None:
    """Write `nexusform.1`, `nexusform-plan.1`, ... into a directory, and create it if needed."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    write_man_pages("nexusform", loaded(ROOT), version=nexusform.__version__, target_dir=directory)


def loaded(command: click.Command) -> click.Command:
    """Return the command with all its imported subcommands, in the place expected by click-man.

    A page's first line is what `-help` says of its command, whole.
    """
    if not isinstance(command, LazyGroup):
        return command
    context = click.Context(command)
    below = {}
    for name, entry in command.table.items():
        subcommand = command.get_command(context, name)
        if subcommand is not None:
            below[name] = loaded(subcommand)
            below[name].short_help = entry.summary
    group = click.Group(command.name, commands=below, help=command.help, epilog=command.epilog)
    group.short_help = (command.help or "").partition("\n")[0]
    return group


if __name__ == "__main__":
    main(sys.argv[1])
