"""Clients that only some users need: imported when used, with a message that names the extra."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nexusform.ports import BackendProblem


@contextmanager
def needing(backend: str, extra: str) -> Iterator[None]:
    """Turn a missing package into a BackendProblem that says what to install."""
    try:
        yield
    except ImportError as missing:
        raise BackendProblem(
            f'The backend "{backend}" needs the package {missing.name}: pip install "nexusform[{extra}]".'
        ) from None
