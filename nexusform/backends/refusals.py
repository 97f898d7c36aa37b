"""What all backends refuse alike: a client that is not installed, and names of workspaces."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
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


@contextmanager
def needing(backend: str, extra: str) -> Iterator[None]:
    """Turn a missing package into a BackendProblem that says what to install."""
    try:
        yield
    except ImportError as missing:
        raise BackendProblem(
            f'The backend "{backend}" needs the package {missing.name}: pip install "nexusform[{extra}]".'
        ) from None
