"""JSON answers of servers with limited depth."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from nexusform.network.budget import MAX_DEPTH

_BRACKETS: Final = b"[]{}"
_OTHER_BYTES: Final = bytes(byte for byte in range(256) if byte not in _BRACKETS)
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"')


def parse_json(content: bytes) -> Any:
    """Parse a JSON document in UTF-8. Raises ValueError with a message."""
    try:
        document = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except RecursionError:
        raise ValueError(f"it nests deeper than {MAX_DEPTH} levels") from None
    except ValueError:
        raise ValueError("it is not JSON") from None
    if _is_too_deep(content) and _is_too_deep(_STRING.sub(b"", content)):
        raise ValueError(f"it nests deeper than {MAX_DEPTH} levels")
    return document


def _is_too_deep(content: bytes) -> bool:
    """Return whether pairs of brackets are left after removing one level at a time."""
    brackets = content.translate(None, _OTHER_BYTES)
    for _ in range(MAX_DEPTH):
        shorter = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if shorter == brackets:
            break
        brackets = shorter
    return bool(brackets)
