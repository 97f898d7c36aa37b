"""`nexusform validate`: errors of the configuration."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.cli.arguments import (
    declare_flag_group,
    declare_positionals,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.shared_flags import ViewFlags, create_context, declare_variable_flags
from nexusform.diagnostics.diagnostic import Diagnostic, build_error, has_errors
from nexusform.files.external_files import ArgumentFile
from nexusform.rendering.notation.colours import Painter
from nexusform.workflow.opening.directory_validation import (
    TEST_DIRECTORY,
    DirectoryValidation,
    validate_directory,
)


class ValidateArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `validate`."""

    paths: tuple[str, ...] = declare_positionals(
        metavar="[PATH]...", file=ArgumentFile("configuration")
    )
    as_json: bool = declare_switch_flag("Print a JSON document", flag="json")
    no_tests: bool = declare_switch_flag("Skip the test files")
    portable: bool = declare_switch_flag("Warn about syntax that the Python package hcl2 rejects")
    test_directory: str = declare_text_flag(
        "Find test files in DIR, not tests",
        metavar="DIR",
        default=TEST_DIRECTORY,
        file=ArgumentFile("tests"),
    )
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("validate", ValidateArguments)
def validate(arguments: ValidateArguments) -> int:
    """Find all errors that need no state and no placement.

    Exit code 0 or 1.

    PATH is the directory of a root module (default: this one), or a file in it. -var and -var-file
    set constant variables: those in the source of a module. Others count as any value.
    """
    validation = DirectoryValidation(diagnostics=(), sources={})
    # List the root module directories of the paths once each; by default this one.
    directories: dict[str, None] = {}
    for path in arguments.paths or (".",):
        if Path(path).is_dir():
            directories[os.path.normpath(path)] = None
        elif Path(path).exists():
            directories[str(Path(path).parent)] = None
        else:
            raise click.UsageError(f'No such file or directory: "{path}".')
    for directory in directories:
        test_directory = None if arguments.no_tests else arguments.test_directory
        context = replace(create_context(variables=arguments.variables), directory=directory)
        validation = validation.merge(
            validate_directory(context, test_directory, portable=arguments.portable)
        )
    unread_problems = _list_unread_files(arguments.paths, validation.sources)
    validation = validation.merge(DirectoryValidation(tuple(unread_problems), sources={}))
    if arguments.as_json:
        from nexusform.rendering.json.json_diagnostics import build_validation_document
        from nexusform.rendering.notation.json_values import encode_document

        document = build_validation_document(validation.diagnostics, validation.sources)
        sys.stdout.write(encode_document(document, pretty=True).decode())
    else:
        screen = arguments.view.create_screen()
        diagnostics = validation.diagnostics
        screen.print_diagnostics(diagnostics, validation.sources)
        if not has_errors(diagnostics):
            success = Painter(screen.colour)("Success!", "bold", "green")
            with_warnings = (
                ", but there were some validation warnings as shown above" if diagnostics else ""
            )
            screen.print_wrapped(f"{success} The configuration is valid{with_warnings}.")
    return 1 if has_errors(validation.diagnostics) else 0


def _list_unread_files(paths: Iterable[str], sources: Iterable[str]) -> Iterator[Diagnostic]:
    """Yield an error for each file among the paths that the validation did not read."""
    # Links may be loops, which `Path.resolve` does not accept.
    read_paths = set(map(os.path.realpath, sources))
    for path in paths:
        if not Path(path).is_dir() and os.path.realpath(path) not in read_paths:
            detail = (
                f'"{path}" was not read: it is neither a file of the configuration (*.nf.hcl, '
                "*.nf.json) nor one of its test files. Variable files are checked by `nexusform "
                "plan -var-file=FILE`."
            )
            yield build_error("file-not-validated", detail)
