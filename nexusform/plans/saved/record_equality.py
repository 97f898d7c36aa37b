"""Equality of two records, down to the class of every value and without copies. A record read from a file
equals the one that was written: tuples in plain data have become lists, mappings dicts, and source spans have
another directory. These count as equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Span


def is_equal_record(first: Any, second: Any) -> bool:
    """Return whether both values are equal; 1, 1.0 and true are not."""
    waiting = [(first, second)]
    while waiting:
        left, right = waiting.pop()
        pairs = _pair_compared_parts(left, right)
        if pairs is None:
            return False
        waiting += [pair for pair in pairs if not _is_equal_scalar(*pair)]
    return True


_DISPLAY_FIELDS: Final = frozenset({"written"})  # fields for display only
_SCALARS: Final = frozenset({str, int, float, bool})


def _is_equal_scalar(left: Any, right: Any) -> bool:
    """Return whether the values need no further comparison."""
    if left is right:
        return True
    kind = left.__class__
    return kind in _SCALARS and kind is right.__class__ and bool(left == right)


def _pair_compared_parts(left: Any, right: Any) -> Iterable[tuple[Any, Any]] | None:
    """Return the pairs of parts to compare for two values; None if the values differ."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return zip(left, right, strict=True) if len(left) == len(right) else None
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        if left.keys() != right.keys():
            return None
        return [(value, right[name]) for name, value in left.items()]
    if isinstance(left, str) and isinstance(right, str):
        return () if left == right else None  # a member of an enum is read as a text
    if not isinstance(left, right.__class__) and not isinstance(right, left.__class__):
        return None
    if isinstance(left, Span):
        return ()
    if isinstance(left, Struct):
        names = [name for name in left.__struct_fields__ if name not in _DISPLAY_FIELDS]
        return [(getattr(left, name), getattr(right, name)) for name in names]
    return () if left.__class__ is right.__class__ and left == right else None
