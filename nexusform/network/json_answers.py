"""JSON answers of servers with limited depth."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from nexusform.network.read_limits import MAX_DEPTH

_BRACKETS: Final = b"[]{}"
_OTHER_BYTES: Final = bytes(byte for byte in range(256) if byte not in _BRACKETS)
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')


def parse_json(content: bytes) -> Any:
    """Parse a JSON document in UTF-8. Raises ValueError with a message."""
    if _estimate_json_depth(content) > MAX_DEPTH and _estimate_json_depth(_STRING.sub(b"", content)) > MAX_DEPTH:
        raise ValueError(f"it nests deeper than {MAX_DEPTH} levels")
    try:
        return json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None


def _estimate_json_depth(content: bytes) -> int:
    """Return an upper bound of the depth: the levels of bracket pairs, and the unpaired brackets."""
    brackets = content.translate(None, _OTHER_BYTES)
    for level in range(MAX_DEPTH):
        shorter = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if shorter == brackets:
            return level + brackets.count(b"[") + brackets.count(b"{")
        brackets = shorter
    return MAX_DEPTH + len(brackets)
