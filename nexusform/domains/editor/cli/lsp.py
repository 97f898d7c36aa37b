"""Command `nexusform lsp`."""

import os
import sys

from msgspec import Struct

from nexusform.cli.commands import define_command
from nexusform.cli.terminal_screen import Screen
from nexusform.diagnostics.missing_packages import describe_missing_package


class LspArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `lsp`."""


@define_command("lsp", LspArguments, has_trust_flags=False, has_own_sandbox=True)
def lsp(arguments: LspArguments) -> int:  # noqa: ARG001 - each command has arguments
    """Start the language server on stdin and stdout, for editors.

    Provides diagnostics, completion, hover, definitions, renaming, formatting and placement hints.
    """
    try:
        from nexusform.domains.editor.server import create_server
    except ImportError as problem:
        package = describe_missing_package(problem)
        Screen().print_error(f"Error: The language server needs {package}.")
        return 1
    # When the editor disconnects, the server closes its output; the duplicate keeps stdout open.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as output:
        create_server().start_io(stdout=output)
    return 0
