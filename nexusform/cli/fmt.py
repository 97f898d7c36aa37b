"""`nexusform fmt`."""

from __future__ import annotations

import sys
from typing import Final

import click
from msgspec import Struct

from nexusform.cli.arguments import group, positionals, switch
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of
from nexusform.diagnostics import has_errors
from nexusform.workflow.formatting import STDIN, Formatting, decoded, format_paths

FAILED: Final = 2
UNFORMATTED: Final = 3


class FmtArguments(Struct, frozen=True, kw_only=True):
    """What `fmt` takes."""

    paths: tuple[str, ...] = positionals(metavar="[PATH]...")
    list_files: bool = switch("Do not list changed files", default=True, flag="list")
    write: bool = switch("Do not write the files", default=True)
    diff: bool = switch("Show a diff")
    check: bool = switch("Only check; exit with 3 if a file needs formatting")
    recursive: bool = switch("Include subdirectories")
    view: ViewFlags = group(ViewFlags)


@command("fmt", FmtArguments)
def fmt(arguments: FmtArguments) -> int:
    """Format *.nf.hcl, *.nfvars.hcl and *.nftest.hcl files.

    PATH is a file, a directory (default: this one), or - for stdin. Exit code 0, 2 for an error, 3
    if -check found an unformatted file.
    """
    paths, check, diff = arguments.paths, arguments.check, arguments.diff
    if "-" in paths:
        if len(paths) > 1:
            raise click.UsageError("- stands for stdin and goes with no other path.")
        list_files, write = False, False
        formatting = _format_stdin()
    else:
        list_files, write = arguments.list_files, arguments.write and not check
        confinement = place_of().confinement
        formatting = format_paths(
            paths or (".",), recursive=arguments.recursive, write=write, confinement=confinement
        )
    screen = arguments.view.screen()
    screen.diagnostics(formatting.problems, formatting.sources)
    for file in formatting.files:
        if list_files and file.changed:
            screen.out(file.source.name)
        if diff:
            screen.out(file.difference, end="")
        if not (list_files or write or diff or check):
            sys.stdout.write(file.text)
            if file.source.name == STDIN and not file.text.endswith("\n"):
                # An editor that pipes a region through must not glue the next line to it.
                sys.stdout.write("\n")
    if has_errors(formatting.problems):
        return FAILED
    return UNFORMATTED if check and any(file.changed for file in formatting.files) else 0


def _format_stdin() -> Formatting:
    formatting = Formatting()
    source = decoded(sys.stdin.buffer.read(), STDIN, formatting.problems)
    if source is not None:
        formatting.add(source)
    return formatting
