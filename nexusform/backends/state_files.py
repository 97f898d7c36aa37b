"""State files of this machine: what goes wrong with them is said in words, and directories are made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from nexusform import regular_files
from nexusform.ports import BackendProblem
from nexusform.regular_files import NotRegular, sync_directory

LARGEST: Final = 1 << 30  # bytes of a state or a journal


@contextmanager
def explained(what: str, path: Path) -> Iterator[None]:
    """Turn an error of the operating system into a BackendProblem that says what could not be done."""
    try:
        yield
    except NotRegular:
        raise BackendProblem(
            f'"{path}" is not a regular file; state, journals and locks are kept in regular files only.'
        ) from None
    except OSError as problem:
        why = problem.strerror or str(problem)
        hint = _HINTS.get(type(problem), "")
        raise BackendProblem(f'Cannot {what} "{path}": {why}.{hint}') from None


_HINTS: Final[dict[type[OSError], str]] = {
    PermissionError: " Give this user the right to it, or use another path.",
    IsADirectoryError: " A file is needed there.",
    NotADirectoryError: " A part of the path is a file where a directory is needed.",
}


def read_file(path: Path) -> bytes | None:
    """The content of a regular file, None when there is none. Raises OSError."""
    try:
        return regular_files.read_regular(path, LARGEST, follow=False)
    except FileNotFoundError:
        return None


def make_directories(path: Path) -> list[Path]:
    """Make the directory and those above it; the ones made, outermost first. Raises OSError."""
    missing = []
    while not path.is_dir() and path != path.parent:
        missing.append(path)
        path = path.parent
    missing.reverse()
    for directory in missing:
        directory.mkdir(exist_ok=True)
        sync_directory(directory.parent)
    return missing
