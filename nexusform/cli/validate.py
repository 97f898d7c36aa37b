"""`nexusform validate`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.cli.arguments import group, positionals, switch, text
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of
from nexusform.diagnostics import has_errors
from nexusform.rendering.notation.colours import Painter
from nexusform.workflow.opening.validate import TEST_DIRECTORY, Validation, validate_directory


class ValidateArguments(Struct, frozen=True, kw_only=True):
    """What `validate` takes."""

    paths: tuple[str, ...] = positionals(metavar="[PATH]...")
    as_json: bool = switch("Print a JSON document", flag="json")
    no_tests: bool = switch("Skip the test files")
    portable: bool = switch("Warn about syntax that the Python package hcl2 rejects")
    test_directory: str = text("Find test files in DIR too", metavar="DIR", default=TEST_DIRECTORY)
    view: ViewFlags = group(ViewFlags)


@command("validate", ValidateArguments)
def validate(arguments: ValidateArguments) -> int:
    """Find all errors that need no state and no placement. Exit code 0 or 1.

    PATH is the directory of a root module (default: this one), or a file in it.
    """
    validation = Validation((), {})
    for directory in _directories(arguments.paths):
        validation = validation.and_also(_validated(directory, arguments))
    if arguments.as_json:
        _write_json(validation)
    else:
        _write_text(validation, arguments.view)
    return 1 if has_errors(validation.diagnostics) else 0


def _validated(directory: str, arguments: ValidateArguments) -> Validation:
    test_directory = None if arguments.no_tests else arguments.test_directory
    place = replace(place_of(), directory=directory)
    return validate_directory(place, test_directory, portable=arguments.portable)


def _directories(paths: Iterable[str]) -> list[str]:
    """The directories of root modules that the paths name, each once; where none is named, this one."""
    directories: dict[str, None] = {}
    for path in paths or (".",):
        if Path(path).is_dir():
            directories[os.path.normpath(path)] = None
        elif Path(path).exists():
            directories[str(Path(path).parent)] = None
        else:
            raise click.UsageError(f'There is no file or directory "{path}".')
    return list(directories)


def _write_json(validation: Validation) -> None:
    from nexusform.rendering.json.json_parts import validate_document
    from nexusform.rendering.notation.json_values import json_bytes

    document = validate_document(validation.diagnostics, validation.sources)
    sys.stdout.write(json_bytes(document, pretty=True).decode())


def _write_text(validation: Validation, view: ViewFlags) -> None:
    screen = view.screen()
    diagnostics = validation.diagnostics
    screen.diagnostics(diagnostics, validation.sources)
    if has_errors(diagnostics):
        return
    success = Painter(screen.colour)("Success!", "bold", "green")
    with_warnings = ", but there were some validation warnings as shown above" if diagnostics else ""
    screen.say(f"{success} The configuration is valid{with_warnings}.")
