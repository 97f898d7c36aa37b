"""`variable`, `locals` and `output` blocks: the names through which values come in and go out; and
`condition` with its `error_message`, wherever they stand: validation, pre- and postcondition, assert.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from nexusform.configuration.declared.configuration import Condition, Local, Output, Variable
from nexusform.configuration.declared.constants import constant, constant_flag, constant_text
from nexusform.configuration.written import NAME_RULE, as_expression, check_name, is_name, references
from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.language.bodies import BodySchema, content, just_attributes
from nexusform.language.conversion import convert, describe
from nexusform.language.references import traversals
from nexusform.language.syntax.nodes import Attribute, Block, JsonBody, Traversal, TraverseAttribute
from nexusform.language.type_expressions import type_expression
from nexusform.plain_data import ConversionProblem
from nexusform.source import Span
from nexusform.value_types import DYNAMIC, ListType, MapType, Type
from nexusform.values import NULL, Value

VARIABLE_FACE = BodySchema(
    attributes=dict.fromkeys(("type", "default", "description", "sensitive", "nullable"), False),
    blocks={"validation": ()},
)
OUTPUT_FACE = BodySchema(
    attributes={"value": True, "description": False, "sensitive": False, "depends_on": False},
    blocks={"precondition": ()},
)
_RESERVED = ("source", "version", "providers", "count", "for_each", "lifecycle", "depends_on", "locals")


def decode_variable(block: Block, problems: list[Diagnostic]) -> Variable | None:
    """A `variable` block; None when its name is none."""
    label = block.labels[0]
    if not check_name(label, "invalid-variable-name", problems):
        return None
    if label.value in _RESERVED:
        problems.append(
            error(
                "invalid-variable-name",
                f'The variable name "{label.value}" is reserved due to its special meaning inside '
                "module blocks.",
                label.span,
            )
        )
        return None
    parts, wrong = content(block.body, VARIABLE_FACE)
    problems.extend(wrong)
    arguments = parts.attributes
    of = _type(arguments.get("type"), problems, json=isinstance(block.body, JsonBody))
    nullable = constant_flag(arguments.get("nullable"), problems, default=True)
    return Variable(
        name=label.value,
        type=of,
        default=_default(arguments.get("default"), of, problems, nullable=nullable),
        description=constant_text(arguments.get("description"), problems) or "",
        sensitive=constant_flag(arguments.get("sensitive"), problems, default=False),
        nullable=nullable,
        validations=_decode_validations(parts.blocks, label.value, problems),
        span=block.header_span,
        is_typed="type" in arguments,
    )


_SHORT_TYPES: Final[Mapping[str, Type]] = {"list": ListType(DYNAMIC), "map": MapType(DYNAMIC)}


def _type(attribute: Attribute | None, problems: list[Diagnostic], *, json: bool) -> Type:
    """The type that a variable is declared with; the open one without any."""
    if attribute is None:
        return DYNAMIC
    written = as_expression(attribute.expression, problems) if json else attribute.expression
    if written is None:
        return DYNAMIC
    # As a whole constraint, `list` and `map` are short for a list and a map of anything.
    if isinstance(written, Traversal) and not written.steps and written.root.name in _SHORT_TYPES:
        return _SHORT_TYPES[written.root.name]
    type_, wrong = type_expression(written)
    problems.extend(wrong)
    return type_ if type_ is not None else DYNAMIC


def _default(
    attribute: Attribute | None, of: Type, problems: list[Diagnostic], *, nullable: bool
) -> Value | None:
    """The default of a variable; None without one, null for one that is wrong."""
    if attribute is None:
        return None
    value, wrong = constant(attribute.expression)
    problems.extend(wrong)
    if has_errors(wrong):
        return NULL  # there is a default, only a wrong one: not a required variable
    fault = ""
    try:
        value = convert(value, of)
    except ConversionProblem as problem:
        fault = (
            f"This default value is not compatible with the variable's type constraint: {describe(problem)}."
        )
    if not fault and value.is_null and not nullable:
        fault = "A null default value is not valid when nullable = false."
    if fault:
        problems.append(error("invalid-default-value-for-variable", fault, attribute.expression.span))
        return NULL
    return value


def decode_locals(block: Block, problems: list[Diagnostic]) -> list[Local]:
    """The names of a `locals` block."""
    attributes, wrong = just_attributes(block.body)
    problems.extend(wrong)
    names: list[Local] = []
    for name, attribute in attributes.items():
        if is_name(name):
            names.append(Local(name, attribute.expression, attribute.span))
        else:
            problems.append(error("invalid-local-value-name", NAME_RULE, attribute.name_span))
    return names


def decode_output(block: Block, problems: list[Diagnostic]) -> Output | None:
    """An `output` block; None when its name is none or it has no value."""
    label = block.labels[0]
    named = check_name(label, "invalid-output-name", problems)
    parts, wrong = content(block.body, OUTPUT_FACE)
    problems.extend(wrong)
    arguments = parts.attributes
    value = arguments.get("value")
    sensitive = constant_flag(arguments.get("sensitive"), problems, default=False)
    text = constant_text(arguments.get("description"), problems) or ""
    depends_on = references(arguments.get("depends_on"), problems)
    preconditions = decode_conditions(parts.blocks, "precondition", problems)
    if value is None or not named:
        return None
    return Output(
        name=label.value,
        expression=value.expression,
        description=text,
        sensitive=sensitive,
        depends_on=depends_on,
        preconditions=preconditions,
        span=block.header_span,
    )


def _decode_validations(
    blocks: Iterable[Block], name: str, problems: list[Diagnostic]
) -> tuple[Condition, ...]:
    # Each must be about the variable, whatever else it refers to.
    validations = decode_conditions(blocks, "validation", problems)
    for validation in validations:
        used = traversals(validation.condition)
        if used and not any(_is_variable(each, name) for each in used):
            detail = (
                f'The condition for variable "{name}" must refer to var.{name}, whose values it is to test.'
            )
            at = validation.condition.span
            problems.append(error("invalid-variable-validation-condition", detail, at))
    return validations


def _is_variable(traversal: Traversal, name: str) -> bool:
    first = traversal.steps[0] if traversal.steps else None
    return traversal.root.name == "var" and isinstance(first, TraverseAttribute) and first.name == name


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
