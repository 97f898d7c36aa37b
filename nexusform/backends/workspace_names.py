"""What a workspace may be called, whatever keeps it."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from nexusform.ports import BackendProblem

DEFAULT: Final = "default"
_NAME: Final = re.compile(r"[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,89}")


def check_name(name: str) -> None:
    """Raise a BackendProblem unless the name can stand in a path and a URL as it is."""
    if _NAME.fullmatch(name) is None:
        raise BackendProblem(
            f'"{name}" cannot be the name of a workspace: use up to 90 letters, digits, "-", "_", "~" '
            'and ".", not beginning with a dot.'
        )


def check_deletable(name: str, existing: Collection[str]) -> None:
    """Raise a BackendProblem unless the workspace exists and is not the default one."""
    check_name(name)
    if name == DEFAULT:
        raise BackendProblem(f'The workspace "{DEFAULT}" cannot be deleted.')
    if name not in existing:
        raise BackendProblem(f'There is no workspace "{name}".')
