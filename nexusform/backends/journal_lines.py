"""What the lines of a journal mean to a backend, wherever they are kept.

A line that begins with `#` is the backend's own. `#compacted DIGEST` says that what stands before it is in
the document with that SHA-256; it is written before the document, so that a crash between the two leaves
either a document without the digest (the lines count) or with it (they do not): nothing counts twice.
`#sealed ID` is written by whoever takes over a lock: a former holder that wakes up finds that the journal
does not end where it believes, and its write is refused.
"""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

_MARK: Final = b"#compacted "
_SEAL: Final = b"#sealed "


def check_records(records: Sequence[bytes]) -> None:
    """Raise a ValueError for what is not a line of a journal."""
    for record in records:
        if b"\n" in record or record.startswith(b"#"):
            raise ValueError("a journal record is one line that does not begin with #")


def compaction_mark(document: bytes) -> bytes:
    """The line that says: everything so far is in this document."""
    return _MARK + hashlib.sha256(document).hexdigest().encode()


def seal(lock_id: str) -> bytes:
    """The line by which the holder of a lock takes the journal over."""
    return _SEAL + lock_id.encode("unicode_escape")


def lines_of(texts: Iterable[bytes]) -> list[bytes]:
    """The lines of the pieces that a journal is kept in, in order."""
    lines: list[bytes] = []
    for text in texts:
        lines += [line for line in text.split(b"\n") if line]
    return lines


def pending(lines: Sequence[bytes], document: bytes | None) -> list[bytes]:
    """The records that are not in the document yet, in order."""
    mark = compaction_mark(document or b"")
    start = max((at + 1 for at, line in enumerate(lines) if line == mark), default=0)
    return [line for line in lines[start:] if not line.startswith(b"#")]


class Gathering:
    """Lines that are ready together go out in one write; `add` returns when its own are durable.

    After a write that failed nobody knows where the journal ends: every later `add` fails, too.
    """

    def __init__(self, write: Callable[[list[bytes]], None]) -> None:
        self._write = write
        self._queue = threading.Lock()
        self._writing = threading.Lock()
        self._waiting: list[bytes] = []
        self._came = 0
        self._went = 0
        self._failure: Exception | None = None

    def add(self, lines: Sequence[bytes]) -> None:
        """Write the lines, in order, together with what others wait for. Raises what `write` raises."""
        with self._queue:
            self._waiting.extend(lines)
            self._came += 1
            mine = self._came
        with self._writing:
            if self._failure is not None:
                raise self._failure
            if self._went >= mine:
                return  # somebody before us took our lines along
            with self._queue:
                batch, self._waiting = self._waiting, []
                reached = self._came
            try:
                self._write(batch)
            except Exception as failure:
                self._failure = failure
                raise
            self._went = reached


class LineStore(Protocol):
    """Where the lines of a journal are kept."""

    def add(self, lines: Sequence[bytes]) -> None:
        """Write lines at the end, durable on return; what threads bring at once goes out in one piece."""

    def lines(self) -> list[bytes]:
        """Every line, in order."""
        ...


class KeepsLines(ABC):
    """The records of a backend whose journal is lines beside a document."""

    _journal: LineStore

    def append(self, record: bytes) -> None:
        """Add one record to the journal, durable on return."""
        self.append_all([record])

    def append_all(self, records: Sequence[bytes]) -> None:
        """Add records in order, all durable on return."""
        check_records(records)
        with self._explained("write to the journal"):
            self._journal.add(records)

    def journal(self) -> list[bytes]:
        """All records that are not in the document yet."""
        with self._explained("read the journal"):
            lines = self._journal.lines()
        return pending(lines, self.read()) if lines else []

    @abstractmethod
    def read(self) -> bytes | None:
        """The document, None when there is none."""

    @abstractmethod
    def _explained(self, what: str) -> AbstractContextManager[None]:
        """Turn what the service or the network says into a BackendProblem."""
