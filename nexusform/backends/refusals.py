"""What all backends refuse alike: a client that is not installed, names of workspaces, and more than is read
into memory.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from nexusform.backends.deadlines import allow_for
from nexusform.regular_files import TooLarge
from nexusform.state_ports import BackendProblem

LARGEST: Final = 1 << 30  # bytes of a state or a journal, where the operator allows no more
LARGEST_LOCK: Final = 1 << 16  # bytes of what says who holds a lock
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


def too_large(what: str, place: str, problem: TooLarge) -> BackendProblem:
    """What could not be read where: `what` reads "read the state"."""
    raising = "If it is meant to be so large, raise the limit: -limit=file_mib=N or NF_LIMIT_FILE_MIB=N."
    return BackendProblem(f"Cannot {what} {place}: {problem.strerror}. {raising}")


@contextmanager
def needing(backend: str, extra: str) -> Iterator[None]:
    """Turn a missing package into a BackendProblem that says what to install."""
    try:
        yield
    except ImportError as missing:
        raise BackendProblem(
            f'The backend "{backend}" needs the package {missing.name}: pip install "nexusform[{extra}]".'
        ) from None


class Reading:
    """How many bytes one reading may still take: whoever may write there must not fill the reader's memory.

    A journal in pieces is one reading.
    """

    __slots__ = ("_left", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most

    def take(self, size: int) -> None:
        """Set so many bytes aside, before they are read. Raises TooLarge, with the whole bound."""
        allow_for(size)
        self._set_aside(size)

    def take_all(self, body: Body, announced: int = 0) -> bytes:
        """Read a body to its end; `announced` is how long it says that it is. Raises TooLarge."""
        if announced > self._left:
            raise TooLarge(self._most)
        allow_for(announced)
        content = body.read(self._left + 1)
        self._set_aside(len(content))
        return content

    def _set_aside(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TooLarge(self._most)


class Body(Protocol):
    """What a server answers with."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; fewer at the end."""
        ...
