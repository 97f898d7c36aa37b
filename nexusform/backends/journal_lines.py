"""Journal lines of a backend, independent of their storage.

A line that begins with `#` belongs to the backend. `#compacted DIGEST` means that the lines
before it are in the document with that SHA-256; it is written before the document, so that a
crash between the two leaves either a document without the digest (the lines count) or with it
(they do not): nothing counts twice. `#sealed ID` is written by a process that replaces the holder
of a lock: a former holder that resumes finds another end of the journal than expected, and its
write is rejected.
"""

import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from nexusform.interfaces.state_storage import BackendProblem

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
    has_base = is_base = is_stored = is_compacted = False
    for line in lines:
        if line.startswith(_BASE):
            has_base = True
            is_base = is_base or line.removeprefix(_BASE) in digests
        elif line.startswith(_MARK):
            kept.clear()
            is_stored = False
            is_compacted = line.removeprefix(_MARK) in digests
            if is_compacted:
                # The document has all records before it.
                pending.clear()
                is_base = True
        elif line == WRITTEN_MARK:
            # What came before the stored document does not count for an older one.
            is_stored = has_base = True
            pending = kept.copy()
            is_base = is_compacted
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


def find_pending_records(
    read_lines: Callable[[], list[bytes]],
    read_document: Callable[[], bytes | None],
    compute_digest: Callable[[bytes], bytes] = compute_document_digest,
) -> list[bytes] | None:
    """Return the records that are not in the document yet; None if they continue another one."""
    lines = read_lines()
    # Without lines the document is not read.
    while lines:
        document = read_document()
        try:
            return list_pending_records(lines, document, compute_digest)
        except ForeignJournal:
            # An apply in progress marks a document before it writes it.
            earlier_lines = lines
            lines = read_lines()
            if lines == earlier_lines:
                return None
    return []


def build_foreign_journal_problem(journal: str, alternative: str = "") -> BackendProblem:
    """Build the error about a journal that continues another document.

    `alternative` is another way than `apply -discard` to move the journal away.
    """
    return BackendProblem(
        f"{journal} has changes of an interrupted apply that began on another state: the state was "
        "written by another machine or replaced since, so these changes are not added to it. To "
        "continue with the state as it is, run `nexusform apply -discard` in a directory with the "
        f"`backend` block of this state{alternative}. Objects that this apply created and the "
        "state lacks can then be imported."
    )


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
            # Number of this call.
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

    def has_lines(self) -> bool:
        """Return whether there is any line."""

    def keep_copy(self, lines: Sequence[bytes]) -> str:
        """Write the lines beside the journal, where nothing else is; return the location."""


class LineJournalBackend(ABC):
    """Records of a backend with a journal of lines next to a document."""

    _journal: JournalLineStore
    # Whether the journal names the document that new records continue.
    _has_named_document = False

    def append(self, record: bytes) -> None:
        """Add one record to the journal, durable on return."""
        self.append_all([record])

    def append_all(self, records: Sequence[bytes]) -> None:
        """Add records in order, all durable on return."""
        check_journal_records(records)
        if not records:
            return
        marks = [] if self._has_named_document else [build_base_mark(self._read_continued())]
        with self._convert_errors("write to the journal"):
            self._journal.add_lines([*marks, *records])
        self._has_named_document = True

    def read_journal(self) -> list[bytes]:
        """Return all records that are not in the document yet.

        Raises BackendProblem, also if they continue another document.
        """
        pending = self._find_pending()
        if pending is None:
            raise build_foreign_journal_problem(f"The journal of {self.describe()}")
        return pending

    def move_foreign_journal(self) -> str:
        """Copy a journal that continues another document, and let it continue the present one.

        Return the location of the copy, "" if there is no such journal.
        """
        if self._find_pending() is not None:
            return ""
        document = self.read()
        with self._convert_errors("move the journal"):
            location = self._journal.keep_copy(self._journal.list_lines())
            self._journal.add_lines([build_compaction_mark(document or b""), WRITTEN_MARK])
        return location

    def _find_pending(self) -> list[bytes] | None:
        """Return the records that are not in the document; None if they continue another one."""
        with self._convert_errors("read the journal"):
            return find_pending_records(
                self._journal.list_lines, self.read, _compute_digest_without_line_ends
            )

    def _read_continued(self) -> bytes | None:
        """Return the document that the journal continues.

        Raises BackendProblem if it continues another one.
        """
        self.read_journal()
        return self.read()

    def _mark_base(self, document: bytes) -> None:
        """Let existing lines continue a document that is written without them."""
        with self._convert_errors("write to the journal"):
            has_lines = self._journal.has_lines()
        if has_lines:
            self.read_journal()
            with self._convert_errors("write to the journal"):
                self._journal.add_lines([build_base_mark(document)])

    @abstractmethod
    def describe(self) -> str:
        """Describe the location for messages."""

    @abstractmethod
    def read(self) -> bytes | None:
        """Return the document, None if there is none."""

    @abstractmethod
    def _convert_errors(self, description: str) -> AbstractContextManager[None]:
        """Convert errors of the service to BackendProblem.

        `description` is a phrase like "read the state".
        """


def _compute_digest_without_line_ends(document: bytes) -> bytes:
    """Return the digest of a document as written: s3 adds a line end when a lock is replaced."""
    return compute_document_digest(document.rstrip(b"\n"))
