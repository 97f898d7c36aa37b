"""Whether two records say the same, to the class of every value and without making a copy of them.

A record that was read from a file is like the one that was written: tuples in plain data have become lists,
mappings dicts, and places in files are those of another directory. These are taken as alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.source import Span


def same(one: Any, other: Any) -> bool:
    """Whether both say the same; 1, 1.0 and true do not."""
    waiting = [(one, other)]
    while waiting:
        left, right = waiting.pop()
        pairs = _parts(left, right)
        if pairs is None:
            return False
        waiting += [pair for pair in pairs if not _is_same_scalar(*pair)]
    return True


_ONLY_TOLD: Final = frozenset({"written"})  # fields by which a plan is told, and nothing is done
_SCALARS: Final = frozenset({str, int, float, bool})


def _is_same_scalar(left: Any, right: Any) -> bool:
    """Whether nothing is left to be compared."""
    if left is right:
        return True
    kind = left.__class__
    return kind in _SCALARS and kind is right.__class__ and bool(left == right)


def _parts(left: Any, right: Any) -> Iterable[tuple[Any, Any]] | None:
    """What must be the same for two values to be the same; None when they are not."""
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
        names = [name for name in left.__struct_fields__ if name not in _ONLY_TOLD]
        return [(getattr(left, name), getattr(right, name)) for name in names]
    return () if left.__class__ is right.__class__ and left == right else None
