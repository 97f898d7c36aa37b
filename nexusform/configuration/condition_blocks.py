"""`condition` with its `error_message`, wherever they stand: validation, pre- and postcondition, assert."""

from __future__ import annotations

from collections.abc import Iterable

from nexusform.configuration.configuration import Condition
from nexusform.diagnostics import Diagnostic, error
from nexusform.language.bodies import BodySchema, content
from nexusform.language.references import traversals
from nexusform.language.syntax import Block
from nexusform.source import Span

_FACE = BodySchema(attributes={"condition": True, "error_message": True})


def decode_conditions(
    blocks: Iterable[Block], kind: str, problems: list[Diagnostic]
) -> tuple[Condition, ...]:
    """The conditions of all blocks of one type; adds to `problems`."""
    conditions: list[Condition] = []
    for block in blocks:
        if block.type != kind:
            continue
        parts, wrong = content(block.body, _FACE)
        problems.extend(wrong)
        condition, message = parts.attributes.get("condition"), parts.attributes.get("error_message")
        if condition is not None and not traversals(condition.expression):
            problems.append(_refers_to_nothing(kind, condition.expression.span))
        if condition is not None and message is not None:
            conditions.append(Condition(condition.expression, message.expression, block.span))
    return tuple(conditions)


def _refers_to_nothing(kind: str, span: Span) -> Diagnostic:
    detail = (
        "The condition expression must refer to at least one object from elsewhere in the configuration, or "
        "else its result would not be checking anything."
    )
    return error("condition-refers-to-nothing", detail, span, headline=f"Invalid {kind} expression")
