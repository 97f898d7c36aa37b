"""State and journal files of this machine: what goes wrong with them is said in words, directories are
made, and a journal is a file of lines that only grows: each line is on disk when `append` returns (see
journal_lines).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Final

from nexusform import regular_files
from nexusform.backends import journal_lines, refusals
from nexusform.regular_files import NotRegular, TooLarge, create, open_regular, sync_directory, write_all
from nexusform.state_ports import BackendProblem

_CHUNK: Final = 65536


class JournalFile:
    """The journal at one path; threads may append at once and share the waiting for the disk."""

    def __init__(self, path: Path, largest: int = refusals.LARGEST) -> None:
        self._path = path
        self._largest = largest
        self._descriptor: int | None = None
        self._writing = Lock()
        self._syncing = Lock()
        self._written = 0
        self._synced = 0

    def append(self, records: Sequence[bytes]) -> None:
        """Add lines in order, all durable on return. Raises BackendProblem; ValueError for no lines."""
        journal_lines.check_records(records)
        if records:
            self._add(records)

    def mark_compacted(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Say that the lines so far are in this document, if there are any, and go on with those to keep.

        Raises BackendProblem.
        """
        if keep or self._descriptor is not None or os.path.lexists(self._path):
            self._add([journal_lines.compaction_mark(document), *keep])

    def remove(self) -> None:
        """Remove the file. Raises BackendProblem."""
        with self._writing, explained("empty the journal", self._path):
            self._close()
            with suppress(FileNotFoundError):
                self._path.unlink()
                sync_directory(self._path.parent)

    def pending(self, document: Callable[[], bytes | None]) -> list[bytes]:
        """The whole lines that are not in the document yet (read if need be). Raises BackendProblem."""
        with explained("read the journal", self._path):
            data = read_file(self._path, self._largest)
        if not data:
            return []
        lines = data.split(b"\n")[:-1]
        return journal_lines.pending(lines, document())

    def _add(self, lines: Sequence[bytes]) -> None:
        """Add lines; one sync serves all that were written before it began."""
        with explained("write to the journal", self._path):
            with self._writing:
                descriptor = self._open()
                try:
                    write_all(descriptor, b"\n".join([*lines, b""]))
                except OSError:
                    self._close()  # the next one opens it anew and cuts the torn line off
                    raise
                self._written += 1
                mine = self._written
            with self._syncing:
                # One sync serves every line that was written before it began.
                if self._synced < mine:
                    reached = self._written
                    os.fsync(descriptor)
                    self._synced = reached

    def _open(self) -> int:
        if self._descriptor is None:
            directory = self._path.parent
            make_directories(directory)
            self._descriptor = _opened(self._path)
            sync_directory(directory)
        return self._descriptor

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _opened(path: Path) -> int:
    """A descriptor for adding lines to the file, which is made when there is none; never through a link."""
    with suppress(FileExistsError):
        os.close(create(path))
    _cut_torn_line(path)
    return open_regular(path, os.O_WRONLY | os.O_APPEND, follow=False)


def _cut_torn_line(path: Path) -> None:
    """Cut off what stands after the last newline: the write of a process that was killed."""
    with os.fdopen(open_regular(path, os.O_RDWR, follow=False), "r+b") as file:
        size = end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _CHUNK)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            file.truncate(end)


@contextmanager
def explained(what: str, path: Path) -> Iterator[None]:
    """Turn an error of the operating system into a BackendProblem that says what could not be done."""
    try:
        yield
    except NotRegular:
        raise BackendProblem(
            f'"{path}" is not a regular file; state, journals and locks are kept in regular files only.'
        ) from None
    except TooLarge as problem:
        raise refusals.too_large(what, f'"{path}"', problem) from None
    except OSError as problem:
        why = problem.strerror or str(problem)
        hint = _HINTS.get(type(problem), "")
        raise BackendProblem(f'Cannot {what} "{path}": {why}.{hint}') from None


_HINTS: Final[dict[type[OSError], str]] = {
    PermissionError: " Give this user the right to it, or use another path.",
    IsADirectoryError: " A file is needed there.",
    NotADirectoryError: " A part of the path is a file where a directory is needed.",
}


def read_file(path: Path, largest: int) -> bytes | None:
    """The content of a regular file of at most so many bytes, None when there is none. Raises OSError."""
    try:
        return regular_files.read_regular(path, largest, follow=False)
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
