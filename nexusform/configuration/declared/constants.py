"""Arguments that must be constants: no references, no function calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.language.conversion import convert, describe
from nexusform.language.evaluator import evaluate
from nexusform.language.syntax import nodes as syntax
from nexusform.language.type_expressions import no_calls
from nexusform.plain_data import ConversionProblem
from nexusform.value_types import BOOL, NUMBER, STRING, ListType, Type
from nexusform.values import DYNAMIC_UNKNOWN, Value

if TYPE_CHECKING:
    from fractions import Fraction


class _NoNames:
    """A scope in which nothing is known."""

    functions: Mapping[str, Any] = {}

    def lookup(self, traversal: syntax.Traversal) -> tuple[Value, int, list[Diagnostic]]:
        """Refuse the reference."""
        problem = error("variables-not-allowed", "Variables may not be used here.", traversal.span)
        return DYNAMIC_UNKNOWN, len(traversal.steps), [problem]


NO_NAMES: Final = _NoNames()


def is_constant(expression: syntax.Expression) -> bool:
    """Whether the expression is made of literals alone."""
    kind = expression.__class__
    if kind is syntax.StringLiteral or kind is syntax.Literal:
        return True
    if isinstance(expression, syntax.TupleCons):
        return all(is_constant(item) for item in expression.items)
    if isinstance(expression, syntax.ObjectCons):
        return all((k.bare or is_constant(k.expression)) and is_constant(v) for k, v in expression.items)
    if isinstance(expression, syntax.Parentheses):
        return is_constant(expression.inner)
    return isinstance(expression, syntax.Unary) and is_constant(expression.operand)


def constant(expression: syntax.Expression) -> tuple[Value, list[Diagnostic]]:
    """The value of an expression that may refer to nothing."""
    value, problems = evaluate(expression, NO_NAMES)
    return value, no_calls(problems)


def _of_type(attribute: syntax.Attribute | None, type_: Type, problems: list[Diagnostic]) -> Any:
    """The raw value of a constant argument; None when it is absent, null or wrong."""
    if attribute is None:
        return None
    value, diagnostics = constant(attribute.expression)
    problems.extend(diagnostics)
    if has_errors(diagnostics):
        return None
    try:
        return convert(value, type_).raw
    except ConversionProblem as problem:
        detail = f'Inappropriate value for "{attribute.name}": {describe(problem)}.'
        problems.append(error("unsuitable-value-type", detail, attribute.expression.span))
        return None


def constant_number(attribute: syntax.Attribute | None, problems: list[Diagnostic]) -> int | Fraction | None:
    """A constant number, None when it is absent or wrong."""
    number: int | Fraction | None = _of_type(attribute, NUMBER, problems)
    return number


def constant_text(attribute: syntax.Attribute | None, problems: list[Diagnostic]) -> str | None:
    """A constant string argument, None when it is absent or wrong."""
    text = _of_type(attribute, STRING, problems)
    return text if isinstance(text, str) else None


def required_text(attribute: syntax.Attribute | None, problems: list[Diagnostic]) -> str | None:
    """A constant string argument that may not be null, None when it is absent or wrong."""
    before = len(problems)
    text = constant_text(attribute, problems)
    if text is None and attribute is not None and len(problems) == before:
        detail = f'Inappropriate value for "{attribute.name}": it may not be null.'
        problems.append(error("unsuitable-value-type", detail, attribute.expression.span))
    return text


def constant_flag(attribute: syntax.Attribute | None, problems: list[Diagnostic], *, default: bool) -> bool:
    """A constant bool argument."""
    flag = _of_type(attribute, BOOL, problems)
    return flag if isinstance(flag, bool) else default


def constant_texts(attribute: syntax.Attribute | None, problems: list[Diagnostic]) -> tuple[str, ...]:
    """A constant list of strings, nulls left out."""
    values = _of_type(attribute, ListType(STRING), problems)
    return tuple(v.raw for v in values or () if isinstance(v.raw, str))
