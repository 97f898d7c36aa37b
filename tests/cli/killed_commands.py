"""Command killed at a durable call of its local backend.

`main` of a separate process (tests/commands.py).
"""

from __future__ import annotations

import os
import sys
from typing import Any

DIED = 77


def main() -> None:
    """Run the command given after the number of the call."""
    from nexusform.backends.local_file import LocalBackend
    from nexusform.cli.main import run_command_line

    _, _, _, call, *words = sys.argv
    left = int(call)

    def wrap_method(name: str) -> None:
        whole = getattr(LocalBackend, name)

        def count_and_call(self: LocalBackend, *values: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os._exit(DIED)
            return whole(self, *values)

        setattr(LocalBackend, name, count_and_call)

    wrap_method("append_all")
    wrap_method("write")
    sys.exit(run_command_line(words))
