"""Part of an expression with its value and reasons, as a tree for the console."""

from __future__ import annotations

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Span
from nexusform.values.typed_value import Value


class TracedExpression(Struct, frozen=True):
    """One part of an expression.

    `text` is its source and `span` its position (None: in the evaluated expression itself); `reasons` explain
    why its value is sensitive, unknown or an error (`has_failed`: it has no value). `parts` are its own
    parts, `omitted` counts omitted iterations of a loop. `is_hidden`: its value would reveal a sensitive one.
    `is_repeated`: its parts are already listed above.
    """

    text: str
    value: Value
    span: Span | None = None
    reasons: tuple[str, ...] = ()
    parts: tuple[TracedExpression, ...] = ()
    omitted: int = 0
    is_hidden: bool = False
    is_repeated: bool = False
    has_failed: bool = False
