"""`nexusform validate`."""

from __future__ import annotations

import sys
from typing import Any

from nexusform.cli import flags
from nexusform.cli.commands import command, option, switch
from nexusform.cli.screen import Screen
from nexusform.diagnostics import has_errors
from nexusform.rendering.notation.colours import Painter
from nexusform.workflow.testing_files import DEFAULT_DIRECTORY
from nexusform.workflow.validate import validate_directory


@command("validate", summary="Find every mistake in the configuration")
@switch("json", "As a JSON document", parameter="as_json")
@switch("no-tests", "Without looking at the test files")
@switch("portable", "Warn where tools built on the Python package hcl2 could not read on")
@option("test-directory", "Where test files are, besides here", metavar="DIR", default=DEFAULT_DIRECTORY)
@flags.view_flags
def validate(**given: Any) -> int:
    """Find every mistake that can be found without state and placement. Exit code 0 or 1."""
    directory = None if given["no_tests"] else given["test_directory"]
    found = validate_directory(flags.place_of(given), directory, portable=given["portable"])
    wrong = has_errors(found.diagnostics)
    if given["as_json"]:
        from nexusform.rendering.json.diagnostic_json import validate_document
        from nexusform.rendering.notation.json_writer import json_bytes

        sys.stdout.write(
            json_bytes(validate_document(found.diagnostics, found.sources), pretty=True).decode()
        )
        return 1 if wrong else 0
    screen = Screen(no_color=given["no_color"], compact_warnings=given["compact_warnings"])
    screen.diagnostics(found.diagnostics, found.sources)
    if wrong:
        return 1
    paint = Painter(screen.colour)
    with_warnings = ", but there were some validation warnings as shown above" if found.diagnostics else ""
    screen.out(f"{paint('Success!', 'bold', 'green')} The configuration is valid{with_warnings}.")
    return 0
