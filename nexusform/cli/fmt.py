"""`nexusform fmt`: canonical style."""

import sys
from typing import Final

import click
from msgspec import Struct

from nexusform.cli.arguments import declare_flag_group, declare_positionals, declare_switch_flag
from nexusform.cli.commands import define_command
from nexusform.cli.shared_flags import ViewFlags, create_context
from nexusform.diagnostics.diagnostic import has_errors
from nexusform.files.external_files import ArgumentFile
from nexusform.workflow.file_formatting import STDIN, FormattingResult, format_paths

EXIT_FAILED: Final = 2
EXIT_UNFORMATTED: Final = 3


class FmtArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `fmt`."""

    paths: tuple[str, ...] = declare_positionals(
        metavar="[PATH]...", file=ArgumentFile("configuration")
    )
    list_files: bool = declare_switch_flag("Do not list changed files", default=True, flag="list")
    write: bool = declare_switch_flag("Do not write the files", default=True)
    diff: bool = declare_switch_flag("Show a diff")
    check: bool = declare_switch_flag("Only check; exit with 3 if a file needs formatting")
    recursive: bool = declare_switch_flag("Include subdirectories")
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("fmt", FmtArguments)
def fmt(arguments: FmtArguments) -> int:
    """Format *.nf.hcl, *.nfvars.hcl and *.nftest.hcl files.

    PATH is a file, a directory (default: this one), or - for stdin. Exit code 0, 2 for an error, 3
    if -check found an unformatted file.
    """
    if "-" in arguments.paths:
        if len(arguments.paths) > 1:
            raise click.UsageError("- is stdin and cannot be combined with other paths.")
        # The result goes to stdout.
        list_files = False
        write = False
        formatting = FormattingResult()
        formatting.format_document(sys.stdin.buffer.read(), STDIN)
    else:
        # -check only reports.
        list_files = arguments.list_files
        write = arguments.write and not arguments.check
        formatting = format_paths(
            arguments.paths or (".",),
            recursive=arguments.recursive,
            write=write,
            confinement=create_context().confinement,
        )
    screen = arguments.view.create_screen()
    screen.print_diagnostics(formatting.problems, formatting.sources)
    # Nothing else shows the result.
    prints_text = not (list_files or write or arguments.diff or arguments.check)
    has_unformatted_file = False
    for file in formatting.files:
        has_unformatted_file |= file.is_changed
        if list_files and file.is_changed:
            screen.print_text(file.source.name)
        if arguments.diff:
            screen.print_text(file.difference, end="")
        if prints_text:
            # A region that an editor formats on stdin must not join the next line.
            needs_newline = file.source.name == STDIN and not file.text.endswith("\n")
            sys.stdout.write(f"{file.text}\n" if needs_newline else file.text)
    if has_errors(formatting.problems):
        return EXIT_FAILED
    return EXIT_UNFORMATTED if arguments.check and has_unformatted_file else 0
