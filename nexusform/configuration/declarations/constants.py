"""Evaluation of constant arguments: no references, no function calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from nexusform.diagnostics.diagnostic import Diagnostic, build_error, has_errors
from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.conversion import convert_value, describe_problem
from nexusform.language.evaluation_run import Scope
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.syntax import syntax_nodes as syntax
from nexusform.language.type_expressions import reject_function_calls
from nexusform.schemas.value_types import BOOL, NUMBER, STRING, ListType, Type
from nexusform.values.value import DYNAMIC_UNKNOWN, Value

if TYPE_CHECKING:
    from fractions import Fraction


class _EmptyScope:
    """Scope without names."""

    functions: Mapping[str, Any] = {}

    def lookup(self, traversal: syntax.Traversal) -> tuple[Value, int, list[Diagnostic]]:
        """Reject the reference."""
        problem = build_error("variables-not-allowed", "Variables may not be used here.", traversal.span)
        return DYNAMIC_UNKNOWN, len(traversal.steps), [problem]


EMPTY_SCOPE: Final = _EmptyScope()


def is_constant(expression: syntax.Expression) -> bool:
    """Check whether the expression consists of literals alone."""
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


def evaluate_constant(expression: syntax.Expression, scope: Scope = EMPTY_SCOPE) -> tuple[Value, list[Diagnostic]]:
    """Evaluate an expression without references, or with those of a scope."""
    value, problems = evaluate_expression(expression, scope)
    return value, reject_function_calls(problems)


def _evaluate_as_type(
    attribute: syntax.Attribute | None, type_: Type, problems: list[Diagnostic], scope: Scope = EMPTY_SCOPE
) -> Any:
    """Return the raw value of a constant argument; None if it is absent, null or invalid."""
    if attribute is None:
        return None
    value, diagnostics = evaluate_constant(attribute.expression, scope)
    problems.extend(diagnostics)
    if has_errors(diagnostics):
        return None
    try:
        return convert_value(value, type_).raw
    except ConversionProblem as problem:
        detail = f'Inappropriate value for "{attribute.name}": {describe_problem(problem)}.'
        problems.append(build_error("unsuitable-value-type", detail, attribute.expression.span))
        return None


def evaluate_number(attribute: syntax.Attribute | None, problems: list[Diagnostic]) -> int | Fraction | None:
    """Evaluate a constant number; None if it is absent or invalid."""
    number: int | Fraction | None = _evaluate_as_type(attribute, NUMBER, problems)
    return number


def evaluate_text(attribute: syntax.Attribute | None, problems: list[Diagnostic]) -> str | None:
    """Evaluate a constant string argument; None if it is absent or invalid."""
    text = _evaluate_as_type(attribute, STRING, problems)
    return text if isinstance(text, str) else None


def evaluate_required_text(
    attribute: syntax.Attribute | None, problems: list[Diagnostic], scope: Scope = EMPTY_SCOPE
) -> str | None:
    """Evaluate a required constant string argument; None if it is absent, null, invalid or unknown."""
    previous_count = len(problems)
    text = _evaluate_as_type(attribute, STRING, problems, scope)
    if isinstance(text, str):
        return text
    if text is None and attribute is not None and len(problems) == previous_count:
        detail = f'Inappropriate value for "{attribute.name}": it may not be null.'
        problems.append(build_error("unsuitable-value-type", detail, attribute.expression.span))
    return None


def evaluate_flag(attribute: syntax.Attribute | None, problems: list[Diagnostic], *, default: bool) -> bool:
    """Evaluate a constant bool argument."""
    flag = _evaluate_as_type(attribute, BOOL, problems)
    return flag if isinstance(flag, bool) else default


def evaluate_texts(attribute: syntax.Attribute | None, problems: list[Diagnostic]) -> tuple[str, ...]:
    """Evaluate a constant list of strings, without nulls."""
    values = _evaluate_as_type(attribute, ListType(STRING), problems)
    return tuple(v.raw for v in values or () if isinstance(v.raw, str))
