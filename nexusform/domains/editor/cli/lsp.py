"""`nexusform lsp`."""

from __future__ import annotations

import os
import sys

from msgspec import Struct

from nexusform.cli.commands import command
from nexusform.cli.screen import Screen


class LspArguments(Struct, frozen=True, kw_only=True):
    """What `lsp` takes."""


@command("lsp", LspArguments, trusts=False)
def lsp(arguments: LspArguments) -> int:  # noqa: ARG001 - one face
    """Start the language server on stdin and stdout, for editors.

    Provides diagnostics, completion, hover, definitions, renaming, formatting and placement hints.
    """
    try:
        from nexusform.domains.editor.server import make_server
    except ImportError:
        Screen().err("Error: The language server needs the extra editor: pip install 'nexusform[editor]'.")
        return 1
    # When the editor leaves, the server closes what it writes to; stdout stays open for what comes after.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        make_server().start_io(stdout=answers)
    return 0
