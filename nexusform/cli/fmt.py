"""`nexusform fmt`."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from nexusform.cli.commands import command, switch
from nexusform.cli.flags import view_flags
from nexusform.cli.screen import Screen
from nexusform.diagnostics import has_errors
from nexusform.workflow.formatting import STDIN, Formatting, decoded, format_paths

FAILED: Final = 2
UNFORMATTED: Final = 3


@command("fmt", summary="Rewrite files into canonical style")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@switch("list", "Do not list the files that are not in style", default=True, parameter="list_files")
@switch("write", "Leave the files as they are", default=True)
@switch("diff", "Show what changes")
@switch("check", "Change nothing; exit code 3 when a file is not in style")
@switch("recursive", "Directories below too")
@view_flags
def fmt(paths: tuple[str, ...], **given: Any) -> int:
    """Rewrite *.nf.hcl, *.nfvars.hcl and *.nftest.hcl files into canonical style.

    PATH is a file, a directory (default: this one), or - for stdin, which is formatted to stdout.
    Exit codes: 0, 2 for an error, 3 when -check found a file that is not in style.
    """
    screen = Screen(no_color=given["no_color"], compact_warnings=given["compact_warnings"])
    check, diff = given["check"], given["diff"]
    if "-" in paths:
        if len(paths) > 1:
            raise click.UsageError("- stands for stdin and goes with no other path.")
        done = _from_stdin()
        listed, write = False, False
    else:
        listed, write = given["list_files"], given["write"] and not check
        done = format_paths(paths or (".",), recursive=given["recursive"], write=write)
    screen.diagnostics(done.problems, done.sources)
    for file in done.files:
        if listed and file.changed:
            screen.out(file.source.name)
        if diff:
            screen.out(file.difference, end="")
        if not (listed or write or diff or check):
            sys.stdout.write(file.text)
    if has_errors(done.problems):
        return FAILED
    return UNFORMATTED if check and any(file.changed for file in done.files) else 0


def _from_stdin() -> Formatting:
    done = Formatting()
    source = decoded(sys.stdin.buffer.read(), STDIN, done.problems)
    if source is not None:
        done.add(source)
    return done
