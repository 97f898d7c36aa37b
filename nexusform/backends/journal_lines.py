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
from collections.abc import Callable, Iterable, Sequence
from typing import Final

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
