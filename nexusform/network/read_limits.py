"""Limits of one exchange with a server: time, bytes, pages and the depth of JSON."""

from __future__ import annotations

import json
import re
import time
from typing import Any, Final, Protocol

from nexusform.files.regular_files import FileTooLarge
from nexusform.network.deadlines import extend_deadline, read_deadline

CONNECT_SECONDS: Final = 10.0
# Bytes of one answer, and of all pages of a list, decoded.
MAX_ANSWER_BYTES: Final = 1 << 28
# Memory of one parsed document, and of all pages of a list, as estimated by `estimate_memory`.
MAX_MEMORY: Final = 1 << 30
# Pages of one list.
MAX_PAGES: Final = 20_000
# Levels of a JSON document.
MAX_DEPTH: Final = 512
# Bytes of an unsuccessful answer.
MAX_ERROR_BYTES: Final = 1 << 20
_BRACKETS: Final = b"[]{}"
_OTHER_BYTES: Final = bytes(byte for byte in range(256) if byte not in _BRACKETS)
# Bytes of memory for a character of a JSON document outside of its strings.
_MEMORY_OF_MARKS: Final = {b",": 50, b":": 50, b"{": 150, b"[": 60}
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')


class ReadByteLimit:
    """Remaining bytes of one read, also in pieces: it bounds the memory of the reader."""

    __slots__ = ("_maximum", "_remaining")

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._remaining = maximum

    def reserve(self, size: int) -> None:
        """Count bytes, and extend the time limit of the operation for them.

        Raises FileTooLarge above the maximum.
        """
        extend_deadline(size)
        self.count(size)

    def read_all(self, body: ResponseBody, announced: int = 0) -> bytes:
        """Read a body to its end; `announced` is its declared length (0: unknown).

        Raises FileTooLarge.
        """
        self.check(announced)
        extend_deadline(announced)
        # One byte more shows an excess.
        content = body.read(self._remaining + 1)
        self.count(len(content))
        return content

    def check(self, size: int) -> None:
        """Raise FileTooLarge if this many bytes more would exceed the maximum."""
        if size > self._remaining:
            raise FileTooLarge(self._maximum)

    def count(self, size: int) -> None:
        """Count bytes already read.

        Raises FileTooLarge.
        """
        self._remaining -= size
        if self._remaining < 0:
            raise FileTooLarge(self._maximum)


class ResponseBody(Protocol):
    """Body of a server's answer."""

    def read(self, size: int, /) -> bytes:
        """Return at most this number of bytes; fewer at the end."""


class PageLimits:
    """Limits of a list in pages: their number, total bytes and time, and continuation tokens."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._reading = ReadByteLimit(MAX_ANSWER_BYTES)
        self._memory = 0
        # Of the pages so far, to detect a loop.
        self._tokens: set[str] = set()
        # 0: the limit of one operation.
        self._ends_at = time.monotonic() + (seconds or read_deadline())

    def add_page(self, content: bytes, token: str) -> str:
        """Count a page and the token of the next page ("": none).

        Return the exceeded limit, or "".
        """
        size = len(content)
        # A second per MiB, as for operations.
        self._ends_at += size / (1 << 20)
        try:
            self._reading.reserve(size)
        except FileTooLarge:
            return f"its pages have more than {MAX_ANSWER_BYTES >> 20} MiB"
        self._memory += estimate_memory(content)
        if self._memory > MAX_MEMORY:
            return f"its pages take more than {MAX_MEMORY >> 20:,} MiB of memory"
        if token and token in self._tokens:
            return "its pages repeat"
        self._tokens.add(token)
        if len(self._tokens) > MAX_PAGES:
            return f"it has more than {MAX_PAGES:,} pages"
        # Another page follows, but its time is over.
        if token and time.monotonic() > self._ends_at:
            return "its pages do not end in time"
        return ""


def parse_json(content: bytes) -> Any:
    """Parse a JSON document in UTF-8, of limited depth and memory.

    Raises ValueError with a message.
    """
    # Brackets within strings count only in the fast first estimate.
    if (
        _estimate_json_depth(content) > MAX_DEPTH
        and _estimate_json_depth(_STRING.sub(b"", content)) > MAX_DEPTH
    ):
        raise ValueError(f"it nests deeper than {MAX_DEPTH} levels")
    if estimate_memory(content) > MAX_MEMORY:
        raise ValueError(f"it takes more than {MAX_MEMORY >> 20:,} MiB of memory")
    try:
        return json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None


def estimate_memory(content: bytes) -> int:
    """Return the memory of a parsed JSON document in bytes, at most three times too much.

    Its text counts once. Small documents, and those far below the limit, count marks in strings.
    """
    memory = _count_memory(content)
    if memory > MAX_MEMORY:
        memory = _count_memory(_STRING.sub(b'""', content)) + len(content)
    return memory


def _count_memory(content: bytes) -> int:
    """Return the bytes of a text and of the objects that its marks start."""
    marks = sum(content.count(mark) * size for mark, size in _MEMORY_OF_MARKS.items())
    return len(content) + marks


def _estimate_json_depth(content: bytes) -> int:
    """Return an upper bound of the depth.

    The bound is the levels of removed bracket pairs, plus the unpaired brackets.
    """
    brackets = content.translate(None, _OTHER_BYTES)
    for level in range(MAX_DEPTH):
        shorter = brackets.replace(b"[]", b"").replace(b"{}", b"")
        # No pair is left.
        if shorter == brackets:
            return level + brackets.count(b"[") + brackets.count(b"{")
        brackets = shorter
    return MAX_DEPTH + len(brackets)
