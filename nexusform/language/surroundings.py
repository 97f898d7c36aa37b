"""What the language asks of the outside: files to read and the time.

Declared here because file() and timestamp() need them and language stands below ports, which
names them again. Implementations live in workflow; tests pass their own.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class FileProblem(Exception):
    """A file that cannot be read or made; the message is for the user."""


class NoDirectory(FileProblem):
    """That there is no such directory."""


class Files(Protocol):
    """Bounded reads of regular files (never a device or a pipe). Paths are relative to the
    directory where the command runs unless absolute. Every method may raise FileProblem.
    """

    def read(self, path: str) -> bytes:
        """The whole content; refused above the size cap."""
        ...

    def exists(self, path: str) -> bool:
        """Whether a regular file stands there."""
        ...

    def glob(self, base: str, pattern: str) -> list[str]:
        """Regular files below `base` matching the pattern (`*`, `**`, `?`, `[]`, `{}`), as
        sorted slash-separated paths relative to `base`. Raises NoDirectory.
        """
        ...

    def absolute(self, path: str) -> str:
        """The absolute, cleaned form of a path."""
        ...

    def expand_home(self, path: str) -> str:
        """`~` at the start replaced by the home directory."""
        ...


class Clock(Protocol):
    """Time: the only source of it."""

    def now(self) -> datetime:
        """The current time, UTC."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
