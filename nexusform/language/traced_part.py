"""A part of an expression with its value, and why it has that one: a tree that the console shows."""

from __future__ import annotations

from msgspec import Struct

from nexusform.source import Span
from nexusform.values import Value


class TracedPart(Struct, frozen=True):
    """One part of an expression.

    `text` is how it is written and `place` where (None: in the expression that was asked about); `reasons`
    say what made its value sensitive, unknown or an error (`failed`: it has no value). `parts` are what it
    is made of, `omitted` counts those of a loop that are left out. `hidden`: its value would tell of a
    sensitive one. `repeated`: its parts stand further up already.
    """

    text: str
    value: Value
    place: Span | None = None
    reasons: tuple[str, ...] = ()
    parts: tuple[TracedPart, ...] = ()
    omitted: int = 0
    hidden: bool = False
    repeated: bool = False
    failed: bool = False
