"""Arguments that are read as text instead of being evaluated: names, references, relative paths.

In JSON syntax they are strings whose content is native syntax.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Position,
    SourceFile,
    Span,
    build_error,
    has_errors,
)
from nexusform.json_data.plain_data import ConversionProblem, PathStep
from nexusform.language.evaluation_run import Scope
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.parser import parse_expression
from nexusform.language.references import list_child_expressions
from nexusform.language.syntax import syntax_nodes as syntax
from nexusform.language.syntax.scanner import describe_span
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.schemas.value_types import BOOL, NUMBER, STRING, ListType, Type
from nexusform.values.typed_value import DYNAMIC_UNKNOWN, Value

if TYPE_CHECKING:
    from fractions import Fraction

_Result = TypeVar("_Result")
_NAME = re.compile(r"[^\W\d][\w-]*")
NAME_RULE = (
    "A name must start with a letter or underscore and may contain only letters, digits, "
    "underscores, and dashes."
)
_REFERENCE_RULE = (
    "A single static variable reference is required: only attribute access and indexing with "
    "constant keys. No calculations, function calls, template expressions, etc are allowed here."
)


def is_valid_name(text: str) -> bool:
    """Check whether the text is a valid block name."""
    return _NAME.fullmatch(text) is not None


def check_name(label: syntax.Label, diagnostic_id: str, problems: list[Diagnostic]) -> bool:
    """Check whether a label is a name; otherwise add a diagnostic."""
    if is_valid_name(label.value):
        return True
    problems.append(build_error(diagnostic_id, NAME_RULE, label.span))
    return False


def format_block_header(block: syntax.Block) -> str:
    """Format the header of a block as in diagnostics: `resource "type" "name"`."""
    return " ".join([block.type, *(f'"{label.value}"' for label in block.labels)])


def describe_duplicate(kind: str, name: str, earlier: Span, rule: str) -> str:
    """Return the detail of the error about a second declaration of a name.

    It ends with `rule`.
    """
    return f'{kind} "{name}" was already declared at {describe_span(earlier)}. {rule}'


def unpack_result(result: tuple[_Result, list[Diagnostic]], problems: list[Diagnostic]) -> _Result:
    """Return the first part of a result, and add its diagnostics to `problems`."""
    value, new_problems = result
    problems.extend(new_problems)
    return value


def unwrap_quoted_expression(
    expression: syntax.Expression, problems: list[Diagnostic]
) -> syntax.Expression | None:
    """Return the expression itself, or the parsed expression in a string (as in JSON).

    Return None after a syntax error.
    """
    if not isinstance(expression, syntax.StringLiteral):
        return expression
    span = expression.span
    # After the quotation mark.
    start = Position(span.start.line, span.start.column + 1, span.start.byte + 1)
    return unpack_result(
        parse_expression(SourceFile(span.filename, expression.value), start), problems
    )


def parse_reference(
    expression: syntax.Expression, problems: list[Diagnostic]
) -> syntax.Traversal | None:
    """Return the reference, also a quoted one, without a prefix `resource`.

    Report others, and return None.
    """
    previous_count = len(problems)
    unquoted = unwrap_quoted_expression(expression, problems)
    if isinstance(unquoted, syntax.Traversal):
        return unquoted.remove_resource_prefix()
    # No syntax error was reported.
    if len(problems) == previous_count:
        problems.append(build_error("invalid-expression", _REFERENCE_RULE, expression.span))
    return None


def get_expression(attribute: syntax.Attribute | None) -> syntax.Expression | None:
    """Return the expression of an argument; None without the argument."""
    return None if attribute is None else attribute.expression


def list_static_items(
    attribute: syntax.Attribute, problems: list[Diagnostic]
) -> tuple[syntax.Expression, ...]:
    """Return the items of a list in brackets; none, and an error, for another expression."""
    if isinstance(attribute.expression, syntax.TupleCons):
        return attribute.expression.items
    detail = "A static list expression is required: write the elements in brackets, [a, b]."
    problems.append(build_error("invalid-expression", detail, attribute.expression.span))
    return ()


def parse_references(
    attribute: syntax.Attribute | None, problems: list[Diagnostic]
) -> tuple[syntax.Traversal, ...]:
    """Parse the references of `depends_on` and similar arguments.

    Invalid ones are reported and omitted.
    """
    if attribute is None:
        return ()
    traversals = []
    for expression in list_static_items(attribute, problems):
        traversal = parse_reference(expression, problems)
        if traversal is not None:
            traversals.append(traversal)
    return tuple(traversals)


def get_bare_keyword(attribute: syntax.Attribute) -> str:
    """Return an argument's only word, bare (`all`) or in quotes (JSON).

    Return "" for another expression.
    """
    match attribute.expression:
        case syntax.Traversal(root, ()):
            return root.name
        case syntax.StringLiteral(value):
            return value
    return ""


def parse_relative_path(
    traversal: syntax.Traversal, problems: list[Diagnostic]
) -> tuple[PathStep, ...] | None:
    """Return the steps of a path into an object, `agent_pool["np1"].count`.

    Return None, and add an error, for another key.
    """
    steps: list[PathStep] = [traversal.root.name]
    for step in traversal.steps:
        if isinstance(step, syntax.TraverseAttribute):
            # `.0` is an index in old syntax.
            steps.append(int(step.name) if step.name.isdecimal() else step.name)
        elif isinstance(step.key, (str, int)):
            steps.append(step.key)
        else:
            detail = "An index must be a whole number or a string."
            problems.append(build_error("invalid-expression", detail, step.span))
            return None
    return tuple(steps)


def find_single_block(
    blocks: Iterable[syntax.Block], kind: str, problems: list[Diagnostic]
) -> syntax.Block | None:
    """Return the first block of a type that is allowed once, None without one.

    Further ones are reported.
    """
    matches = [block for block in blocks if block.type == kind]
    for duplicate in matches[1:]:
        detail = (
            f'Only one "{kind}" block is allowed here. Another was given at '
            f"{describe_span(matches[0].header_span)}."
        )
        headline = f"Duplicate {kind} block"
        problems.append(
            build_error("duplicate-block", detail, duplicate.header_span, headline=headline)
        )
    return matches[0] if matches else None


class _EmptyScope:
    """Scope without names."""

    functions: Mapping[str, Any] = {}

    def lookup(self, traversal: syntax.Traversal) -> tuple[Value, int, list[Diagnostic]]:
        """Return an unknown value for all steps, and an error: no references are allowed."""
        problem = build_error(
            "variables-not-allowed", "Variables may not be used here.", traversal.span
        )
        return DYNAMIC_UNKNOWN, len(traversal.steps), [problem]


EMPTY_SCOPE: Final = _EmptyScope()


_CONSTANT_NODES: Final = (
    syntax.Literal,
    syntax.StringLiteral,
    syntax.TupleCons,
    syntax.ObjectCons,
    syntax.Parentheses,
    syntax.Unary,
)


def is_constant_value(expression: syntax.Expression) -> bool:
    """Check whether the expression consists of literals alone (no reference or call).

    Bare object keys are texts.
    """
    if not isinstance(expression, _CONSTANT_NODES):
        return False
    if isinstance(expression, syntax.ObjectCons) and any(
        key.is_ambiguous for key, _ in expression.items
    ):
        # An error when it is evaluated.
        return False
    return all(map(is_constant_value, list_child_expressions(expression)))


def is_null_literal(expression: syntax.Expression) -> bool:
    """Check whether the expression is a null without references, as in `name = null`."""
    if not is_constant_value(expression):
        return False
    value, problems = evaluate_constant(expression)
    return not problems and value.is_null


def evaluate_constant(
    expression: syntax.Expression, scope: Scope = EMPTY_SCOPE
) -> tuple[Value, list[Diagnostic]]:
    """Evaluate an expression without references and functions, or with those of a scope."""
    value, problems = evaluate_expression(expression, scope)
    if problems:
        from nexusform.language.type_expressions import check_function_calls

        # With a better reason for calls.
        problems = check_function_calls(problems)
    return value, problems


def _evaluate_as_type(
    attribute: syntax.Attribute | None,
    type_: Type,
    problems: list[Diagnostic],
    scope: Scope = EMPTY_SCOPE,
) -> Any:
    """Return the raw value of a constant argument, or UNKNOWN.

    It is None if absent, null or reported as invalid.
    """
    if attribute is None:
        return None
    value, diagnostics = evaluate_constant(attribute.expression, scope)
    problems.extend(diagnostics)
    if has_errors(diagnostics):
        return None  # reported
    try:
        return convert_value(value, type_).raw
    except ConversionProblem as problem:
        detail = f'Inappropriate value for "{attribute.name}": {describe_problem(problem)}.'
        problems.append(build_error("unsuitable-value-type", detail, attribute.expression.span))
        return None


def evaluate_number(
    attribute: syntax.Attribute | None, problems: list[Diagnostic]
) -> int | Fraction | None:
    """Evaluate a constant number; None if it is absent or invalid."""
    number: int | Fraction | None = _evaluate_as_type(attribute, NUMBER, problems)
    return number


def evaluate_string(
    attribute: syntax.Attribute | None, problems: list[Diagnostic], scope: Scope = EMPTY_SCOPE
) -> str | None:
    """Evaluate a constant string argument; None if it is absent, null, invalid or unknown."""
    text = _evaluate_as_type(attribute, STRING, problems, scope)
    return text if isinstance(text, str) else None


def evaluate_text(attribute: syntax.Attribute | None, problems: list[Diagnostic]) -> str:
    """Evaluate a constant string argument; "" if it is absent or invalid."""
    return evaluate_string(attribute, problems) or ""


def evaluate_required_text(
    attribute: syntax.Attribute | None, problems: list[Diagnostic], scope: Scope = EMPTY_SCOPE
) -> str | None:
    """Evaluate a required constant string argument.

    Return None if the argument is absent, null, invalid or unknown.
    """
    previous_count = len(problems)
    text = _evaluate_as_type(attribute, STRING, problems, scope)
    if isinstance(text, str):
        return text
    # It is null; the rest is reported.
    if text is None and attribute is not None and len(problems) == previous_count:
        detail = f'Inappropriate value for "{attribute.name}": it may not be null.'
        problems.append(build_error("unsuitable-value-type", detail, attribute.expression.span))
    return None


def evaluate_bool(
    attribute: syntax.Attribute | None, problems: list[Diagnostic], *, default: bool
) -> bool:
    """Evaluate a constant bool argument; the default if it is absent, null or invalid."""
    flag = _evaluate_as_type(attribute, BOOL, problems)
    return flag if isinstance(flag, bool) else default


def evaluate_string_list(
    attribute: syntax.Attribute | None, problems: list[Diagnostic]
) -> tuple[str, ...]:
    """Evaluate a constant list of strings, without nulls; an absent or invalid one is empty."""
    values = _evaluate_as_type(attribute, ListType(STRING), problems) or ()
    return tuple(value.raw for value in values if isinstance(value.raw, str))
