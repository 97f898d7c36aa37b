"""Journal lines of a backend, independent of their storage.

A line that begins with `#` belongs to the backend. `#compacted DIGEST` means that the lines before
it are in the document with that SHA-256; it is written before the document, so that a crash between
the two leaves either a document without the digest (the lines count) or with it (they do not):
nothing counts twice. `#sealed ID` is written by a process that replaces the holder of a lock: a
former holder that resumes finds another end of the journal than expected, and its write is
rejected.
"""

import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

_MARK: Final = b"#compacted "
_BASE: Final = b"#base "
_SEAL: Final = b"#sealed "
WRITTEN_MARK: Final = b"#written"


class ForeignJournal(Exception):
    """The lines of a journal continue another document than the present one."""


def check_journal_records(records: Sequence[bytes]) -> None:
    """Raise a ValueError for an invalid record.

    A record is one line; lines with "#" are marks of the journal.
    """
    for record in records:
        if b"\n" in record or record.startswith(b"#"):
            raise ValueError("a journal record is one line that does not start with #")


def compute_document_digest(document: bytes) -> bytes:
    """Return the digest of a document in marks."""
    return hashlib.sha256(document).hexdigest().encode()


def build_compaction_mark(
    document: bytes, compute_digest: Callable[[bytes], bytes] = compute_document_digest
) -> bytes:
    """Return the line marking all previous lines as part of this document."""
    return _MARK + compute_digest(document)


def build_base_mark(
    document: bytes | None, compute_digest: Callable[[bytes], bytes] = compute_document_digest
) -> bytes:
    """Return the first line of a journal that continues this document; None: there is none."""
    return _BASE + compute_digest(document or b"")


def build_seal_record(lock_id: str) -> bytes:
    """Return the line written by a new lock holder.

    Because of it, writes of a former holder are rejected.
    """
    return _SEAL + lock_id.encode("unicode_escape")


def split_journal(texts: Iterable[bytes]) -> list[bytes]:
    """Return the lines in the texts of a journal, in order, without empty ones."""
    return [line for text in texts for line in text.split(b"\n") if line]


def list_pending_records(
    lines: Sequence[bytes],
    document: bytes | None,
    compute_digest: Callable[[bytes], bytes] = compute_document_digest,
) -> list[bytes]:
    """Return the records that are not in the document yet, in order.

    Raises ForeignJournal if they continue another document. Journals without a base mark, as those
    of other machines or earlier versions, do not tell.
    """
    digests = {compute_document_digest(document or b""), compute_digest(document or b"")}
    pending: list[bytes] = []
    # Those since the last compaction.
    kept: list[bytes] = []
    has_base = is_base = is_stored = False
    for line in lines:
        if line.startswith(_BASE):
            has_base = True
            is_base = is_base or line.removeprefix(_BASE) in digests
        elif line.startswith(_MARK):
            kept.clear()
            is_stored = False
            if line.removeprefix(_MARK) in digests:
                # The document has all records before it.
                pending.clear()
                is_base = True
        elif line == WRITTEN_MARK:
            is_stored = True
        elif not line.startswith(b"#"):
            pending.append(line)
            kept.append(line)
            # It continues the stored document.
            is_stored = False
    if is_base or not has_base:
        return pending
    if is_stored:
        # A later document has the stored one in it.
        return kept
    raise ForeignJournal


class LineBatcher:
    """Writer that combines concurrent lines into one write.

    `add_lines` returns when its own are durable. After a failed write the end of the journal is
    unknown: every later `add_lines` fails, too.
    """

    def __init__(self, write: Callable[[list[bytes]], None]) -> None:
        """Create a writer; `write` appends lines, durable on return.

        Calls of `add_lines` are numbered from 1.
        """
        self._write = write
        # For the pending lines.
        self._queue = threading.Lock()
        # One write at a time.
        self._writing = threading.Lock()
        # Lines of waiting calls, in order.
        self._pending: list[bytes] = []
        # The last call with its lines among the pending ones.
        self._last_added = 0
        # The last call with durable lines.
        self._last_written = 0
        self._failure: Exception | None = None

    def add_lines(self, lines: Sequence[bytes]) -> None:
        """Write the lines in order, together with other waiting ones.

        Raises the exceptions of `write`.
        """
        with self._queue:
            self._pending.extend(lines)
            self._last_added += 1
            # Of this call.
            number = self._last_added
        with self._writing:
            if self._failure is not None:
                # After a failed write the end of the journal is unknown.
                raise self._failure
            if self._last_written >= number:
                # An earlier caller has written our lines.
                return
            with self._queue:
                batch = self._pending
                self._pending = []
                # The last call with lines in this batch.
                reached = self._last_added
            try:
                self._write(batch)
            except Exception as failure:
                self._failure = failure
                raise
            self._last_written = reached


class JournalLineStore(Protocol):
    """Storage of the lines of a journal."""

    def add_lines(self, lines: Sequence[bytes]) -> None:
        """Append lines, durable on return; concurrent lines are combined into one write."""

    def list_lines(self) -> list[bytes]:
        """Return every line, in order."""


class LineJournalBackend(ABC):
    """Records of a backend with a journal of lines next to a document."""

    _journal: JournalLineStore

    def append(self, record: bytes) -> None:
        """Add one record to the journal, durable on return."""
        self.append_all([record])

    def append_all(self, records: Sequence[bytes]) -> None:
        """Add records in order, all durable on return."""
        check_journal_records(records)
        with self._convert_errors("write to the journal"):
            self._journal.add_lines(records)

    def read_journal(self) -> list[bytes]:
        """Return all records that are not in the document yet."""
        with self._convert_errors("read the journal"):
            lines = self._journal.list_lines()
        return list_pending_records(lines, self.read()) if lines else []

    def move_foreign_journal(self) -> str:
        """Return "": the journal is stored with its document, so it continues no other one."""
        return ""

    @abstractmethod
    def read(self) -> bytes | None:
        """Return the document, None if there is none."""

    @abstractmethod
    def _convert_errors(self, description: str) -> AbstractContextManager[None]:
        """Convert errors of the service to BackendProblem.

        `description` is a phrase like "read the state".
        """
