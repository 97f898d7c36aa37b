"""State and journal files of this machine.

Error messages, directories, and append-only journals of lines; each line is on disk when `append`
returns (see journal_lines).
"""

import errno
import glob
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from shlex import quote
from threading import Lock
from typing import Final

from nexusform.backends import backend_definition
from nexusform.files import regular_files
from nexusform.files.directories import make_directories, open_parent
from nexusform.files.regular_files import (
    FileTooLarge,
    NotRegularFile,
    create_file,
    open_regular_file,
    remove_file,
    sync_directory,
    write_all_bytes,
)
from nexusform.interfaces.state_storage import BackendProblem

_CHUNK: Final = 65536


class JournalFile:
    """Journal at one path; threads may append concurrently and share the disk flush."""

    def __init__(
        self,
        path: Path,
        read_document: Callable[[], bytes | None],
        maximum_size: int = backend_definition.MAXIMUM_SIZE,
        *,
        compute_digest: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """Keep the path without opening the file; `maximum_size` limits the bytes of a read.

        `read_document` reads the document that the journal continues. `compute_digest` is of its
        content, by default of its bytes.
        """
        self._path = path
        self._read_document = read_document
        self._maximum_size = maximum_size
        self._compute_digest = compute_digest
        self._descriptor: int | None = None
        # One append at a time.
        self._writing = Lock()
        # One flush to the disk at a time.
        self._syncing = Lock()
        # The number of appends so far.
        self._written = 0
        # The last append already on the disk.
        self._synced = 0

    def append_lines(self, records: Sequence[bytes]) -> None:
        """Append lines in order, durable on return.

        Raises BackendProblem; ValueError if invalid.
        """
        from nexusform.backends.journal_lines import check_journal_records

        check_journal_records(records)
        if records:
            self._append_lines_durably(records)

    def mark_compacted(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Mark existing lines as part of the document; append those to keep.

        Raises BackendProblem.
        """
        # Otherwise there are no lines.
        if keep or self._descriptor is not None or os.path.lexists(self._path):
            from nexusform.backends.journal_lines import build_compaction_mark

            self._append_lines_durably(
                [build_compaction_mark(document, self._get_digest_function()), *keep]
            )

    def mark_base(self, document: bytes) -> None:
        """Let existing lines continue a document that is written without them.

        Raises BackendProblem, also if they continue another one than the present document.
        """
        # Otherwise there are no lines.
        if self._descriptor is not None or os.path.lexists(self._path):
            from nexusform.backends.journal_lines import build_base_mark

            self.list_pending()
            self._append_lines_durably([build_base_mark(document, self._get_digest_function())])

    def mark_written(self) -> None:
        """Mark the document of the last compaction as stored.

        Raises BackendProblem.
        """
        from nexusform.backends.journal_lines import WRITTEN_MARK

        self._append_lines_durably([WRITTEN_MARK])

    def remove(self) -> None:
        """Remove the file.

        Raises BackendProblem.
        """
        with self._writing, convert_os_errors("empty the journal", self._path):
            self._close_journal_file()
            with suppress(FileNotFoundError):
                remove_file(self._path)
                sync_directory(self._path.parent)

    def remove_with_copies(self) -> None:
        """Remove the file, and the files beside it that it was moved to.

        Raises BackendProblem.
        """
        self.remove()
        with convert_os_errors("delete the copies of the journal", self._path):
            for path in self._path.parent.glob(f"{glob.escape(self._path.name)}.old*"):
                remove_file(path, missing_ok=True)

    def remove_if_merged(self) -> None:
        """Remove the file of a killed run if the document has all its lines.

        Only the holder of the lock calls it. A problem is left to the next read of the journal.
        """
        with suppress(BackendProblem):
            if os.path.lexists(self._path) and not self.list_pending():
                self.remove()

    def move_if_foreign(self) -> str:
        """Move the file away if its lines continue another document.

        Return its new path, "" if it was not moved. Raises BackendProblem.
        """
        if self._find_pending() is not None:
            return ""
        with self._writing, convert_os_errors("move the journal", self._path):
            self._close_journal_file()
            kept_path = self._find_unused_path()
            directory, name = open_parent(self._path)
            with directory:
                directory.rename(name, kept_path.name)
                directory.sync()
        return str(kept_path)

    def list_pending(self) -> list[bytes]:
        """Return complete lines not in the document yet.

        Raises BackendProblem, also if they continue another document.
        """
        pending = self._find_pending()
        if pending is None:
            raise self._build_foreign_journal_problem()
        return pending

    def _find_pending(self) -> list[bytes] | None:
        """Return complete lines not in the document yet, None if they continue another one.

        Raises BackendProblem.
        """
        # Most runs have no journal.
        if not self._read_lines():
            return []
        from nexusform.backends.journal_lines import find_pending_records

        return find_pending_records(
            self._read_lines, self._read_document, self._get_digest_function()
        )

    def _read_lines(self) -> list[bytes]:
        """Return the complete lines, [] without a file."""
        with convert_os_errors("read the journal", self._path):
            data = read_file(self._path, self._maximum_size)
        # After the last newline there is nothing, or an incomplete line.
        return (data or b"").split(b"\n")[:-1]

    def _find_unused_path(self) -> Path:
        """Return the path of a file beside the journal that does not exist yet."""
        names = (f"{self._path.name}.old{number}" for number in chain([""], count(2)))
        paths = map(self._path.with_name, names)
        return next(path for path in paths if not os.path.lexists(path))

    def _build_foreign_journal_problem(self) -> BackendProblem:
        from nexusform.backends.journal_lines import build_foreign_journal_problem

        path = quote(str(self._path))
        kept_path = quote(str(self._find_unused_path()))
        return build_foreign_journal_problem(
            f'The journal "{self._path}"', f", or move the journal away: mv {path} {kept_path}"
        )

    def _get_digest_function(self) -> Callable[[bytes], bytes]:
        from nexusform.backends.journal_lines import compute_document_digest

        return self._compute_digest or compute_document_digest

    def _append_lines_durably(self, lines: Sequence[bytes]) -> None:
        """Append lines; one flush covers all lines written before it began."""
        with convert_os_errors("write to the journal", self._path):
            with self._writing:
                if self._descriptor is None:
                    make_directories(self._path.parent)
                    with suppress(FileExistsError):
                        os.close(create_file(self._path))
                    _remove_incomplete_line(self._path)
                    self._descriptor = open_regular_file(
                        self._path, os.O_WRONLY | os.O_APPEND, follow=False
                    )
                    sync_directory(self._path.parent)
                    if not os.fstat(self._descriptor).st_size:
                        lines = [self._build_base_mark(), *lines]
                descriptor = self._descriptor
                if not os.fstat(descriptor).st_nlink:
                    raise FileNotFoundError(
                        errno.ENOENT, "another process removed it during this run"
                    )
                try:
                    write_all_bytes(descriptor, b"\n".join([*lines, b""]))
                except OSError:
                    # The next call reopens it and removes the incomplete line.
                    self._close_journal_file()
                    raise
                self._written += 1
                # Number of this append.
                number = self._written
            with self._syncing:
                # Else the flush of another thread covers our lines.
                if self._synced < number:
                    # By now also lines of other threads.
                    reached = self._written
                    os.fsync(descriptor)
                    self._synced = reached

    def _build_base_mark(self) -> bytes:
        from nexusform.backends.journal_lines import build_base_mark

        return build_base_mark(self._read_document(), self._get_digest_function())

    def _close_journal_file(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _remove_incomplete_line(path: Path) -> None:
    """Remove the bytes after the last newline, found from the end.

    An interrupted process left them.
    """
    with os.fdopen(open_regular_file(path, os.O_RDWR, follow=False), "r+b") as file:
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
def convert_os_errors(description: str, path: Path) -> Iterator[None]:
    """Convert an error of the operating system to a BackendProblem.

    `description` is a phrase like "read the state".
    """
    try:
        yield
    except NotRegularFile:
        detail = f'"{path}" is not a regular file. State, journals and locks must be regular files.'
        raise BackendProblem(detail) from None
    except FileTooLarge as problem:
        raise backend_definition.build_size_problem(description, f'"{path}"', problem) from None
    except OSError as problem:
        hint = _HINTS.get(type(problem), "")
        raise BackendProblem(
            f'Cannot {description} "{path}": {problem.strerror or problem}.{hint}'
        ) from None


_HINTS: Final[dict[type[OSError], str]] = {
    PermissionError: " Grant this user access, or use another path.",
    IsADirectoryError: " It is a directory; use the path of a file.",
    NotADirectoryError: " A parent in the path is a file, not a directory.",
}


def read_file(path: Path, maximum_size: int) -> bytes | None:
    """Return the whole content of a regular file, None if it is missing.

    Raises OSError, also if it is too large.
    """
    try:
        return regular_files.read_regular(path, maximum_size, follow=False)
    except FileNotFoundError:
        return None
