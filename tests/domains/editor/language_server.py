"""Run `nexusform lsp` in a process forked from one with the server loaded (tests/commands.py)."""

from __future__ import annotations

import sys

import nexusform.domains.editor.server  # noqa: F401 - loaded once
from nexusform.cli.main import main as run


def main() -> None:
    """Run the language server."""
    sys.argv = ["nexusform", "lsp"]
    run()
