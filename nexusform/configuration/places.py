"""From a path into a value to the text that wrote that part of it."""

from __future__ import annotations

from nexusform.language.syntax import (
    Expression,
    Literal,
    ObjectCons,
    Parentheses,
    StringLiteral,
    Traversal,
    TupleCons,
)
from nexusform.plain_data import Path, PathStep
from nexusform.source import Span


def inside(expression: Expression, path: Path) -> Span:
    """The span of the part of a written collection that a path leads to, as far as it is written."""
    for step in path:
        while isinstance(expression, Parentheses):
            expression = expression.inner
        part = _part(expression, step)
        if part is None:
            break
        expression = part
    return expression.span


def _part(expression: Expression, step: PathStep) -> Expression | None:
    if isinstance(expression, TupleCons) and isinstance(step, int) and step < len(expression.items):
        return expression.items[step]
    if isinstance(expression, ObjectCons):
        for key, value in expression.items:
            if _key_text(key.expression, bare=key.bare) == step:
                return value
    return None


def _key_text(expression: Expression, *, bare: bool) -> str | None:
    match expression:
        case Traversal(root, ()) if bare:
            return root.name
        case StringLiteral(text):
            return text
        case Literal(value) if isinstance(value, int):
            return str(value)
    return None
