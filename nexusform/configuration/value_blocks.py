"""`variable`, `locals` and `output` blocks, and `condition` with its `error_message`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from nexusform.configuration.declarations.configuration import (
    Condition,
    LocalValue,
    Output,
    Variable,
)
from nexusform.configuration.static_arguments import (
    NAME_RULE,
    check_name,
    evaluate_bool,
    evaluate_constant,
    evaluate_string,
    evaluate_text,
    is_valid_name,
    parse_references,
    unpack_result,
    unwrap_quoted_expression,
)
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Span,
    build_error,
    build_warning,
    has_errors,
    suggest_name,
)
from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.body_decoding import BodySchema, decode_attributes, decode_body
from nexusform.language.references import list_traversals
from nexusform.language.syntax.syntax_nodes import (
    Attribute,
    Block,
    Expression,
    JsonBody,
    ObjectCons,
    Parentheses,
    Traversal,
    TupleCons,
)
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.schemas.value_types import (
    DYNAMIC,
    ListType,
    MapType,
    ObjectType,
    SetType,
    TupleType,
    Type,
)
from nexusform.values.typed_value import NULL, Value

VARIABLE_SCHEMA = BodySchema(
    attributes=dict.fromkeys(
        (
            "type",
            "default",
            "description",
            "sensitive",
            "ephemeral",
            "nullable",
            "deprecated",
            "const",
        ),
        False,
    ),
    blocks={"validation": ()},
)
OUTPUT_SCHEMA = BodySchema(
    attributes={
        "value": True,
        **dict.fromkeys(
            ("description", "type", "sensitive", "ephemeral", "depends_on", "deprecated"), False
        ),
    },
    blocks={"precondition": ()},
)
_RESERVED = (
    "source",
    "version",
    "providers",
    "count",
    "for_each",
    "lifecycle",
    "depends_on",
    "locals",
)


def decode_variable_block(block: Block, problems: list[Diagnostic]) -> Variable | None:
    """Decode a `variable` block.

    Return None, with an error, for an invalid name, or one of a module argument.
    """
    label = block.labels[0]
    if not check_name(label, "invalid-variable-name", problems):
        return None  # reported
    if label.value in _RESERVED:
        detail = (
            f'The variable name "{label.value}" is reserved due to its special meaning inside '
            "module blocks."
        )
        problems.append(build_error("invalid-variable-name", detail, label.span))
        return None
    parts = unpack_result(decode_body(block.body, VARIABLE_SCHEMA), problems)
    arguments = parts.attributes
    type_problems: list[Diagnostic] = []
    variable_type = _decode_type(
        arguments.get("type"), type_problems, is_json=isinstance(block.body, JsonBody)
    )
    problems.extend(type_problems)
    nullable = evaluate_bool(arguments.get("nullable"), problems, default=True)
    validations = decode_condition_blocks(parts.blocks, "validation", problems)
    for validation in validations:
        references = list_traversals(validation.condition)
        # Without any reference, the general check of conditions has reported it.
        if references and not any(
            (t.root.name, t.first_name) == ("var", label.value) for t in references
        ):
            detail = (
                f'The condition for variable "{label.value}" must refer to var.{label.value}, the '
                "value to check."
            )
            span = validation.condition.span
            problems.append(build_error("invalid-variable-validation-condition", detail, span))
    default = _decode_default(arguments.get("default"), variable_type, problems, nullable=nullable)
    if default is None and has_errors(type_problems):
        # No second error about a required variable.
        default = NULL
    sensitive, ephemeral, const = (
        evaluate_bool(arguments.get(name), problems, default=False)
        for name in ("sensitive", "ephemeral", "const")
    )
    if const and (sensitive or ephemeral):
        word = "sensitive" if sensitive else "ephemeral"
        detail = (
            f'The variable "{label.value}" is const: its value selects modules, and the lock file '
            f"and messages show that. So it cannot be {word}."
        )
        problems.append(
            build_error("invalid-const-variable", detail, arguments["const"].expression.span)
        )
    return Variable(
        name=label.value,
        type=variable_type,
        default=default,
        description=evaluate_text(arguments.get("description"), problems),
        sensitive=sensitive,
        nullable=nullable,
        validations=validations,
        span=block.header_span,
        is_typed="type" in arguments,
        deprecated=_evaluate_deprecation(arguments.get("deprecated"), problems),
        ephemeral=ephemeral,
        const=const,
    )


def _evaluate_deprecation(attribute: Attribute | None, problems: list[Diagnostic]) -> str:
    """Evaluate the text of `deprecated`; "" if it is absent or invalid.

    An empty text is an error, as in OpenTofu: callers would see a warning without advice, or none.
    """
    text = evaluate_string(attribute, problems)
    if attribute is not None and text is not None and not text.strip():
        detail = (
            'The argument "deprecated" must not be empty. Say in it what to use instead, or remove '
            "it."
        )
        problems.append(build_error("invalid-deprecated-value", detail, attribute.expression.span))
        return ""
    return text or ""


def build_deprecated_variable_warning(variable: Variable, span: Span | None) -> Diagnostic:
    """Build the warning about a value for a deprecated variable."""
    detail = f'The variable "{variable.name}" is deprecated: {variable.deprecated}'
    return build_warning("deprecated-variable", detail, span)


_SHORT_TYPES: Final[Mapping[str, Type]] = {"list": ListType(DYNAMIC), "map": MapType(DYNAMIC)}


def _decode_type(attribute: Attribute | None, problems: list[Diagnostic], *, is_json: bool) -> Type:
    """Decode the type of a variable or output; DYNAMIC (any) without a valid one.

    In JSON the type is in quotes.
    """
    if attribute is None:
        return DYNAMIC
    expression = (
        unwrap_quoted_expression(attribute.expression, problems)
        if is_json
        else attribute.expression
    )
    if expression is None:
        # It is reported as a syntax error.
        return DYNAMIC
    # As a whole constraint, `list` and `map` are short for a list and a map of anything.
    if (
        isinstance(expression, Traversal)
        and not expression.steps
        and expression.root.name in _SHORT_TYPES
    ):
        return _SHORT_TYPES[expression.root.name]
    from nexusform.language.type_expressions import parse_type

    parsed_type = unpack_result(parse_type(expression), problems)
    return parsed_type if parsed_type is not None else DYNAMIC


def _decode_default(
    attribute: Attribute | None, variable_type: Type, problems: list[Diagnostic], *, nullable: bool
) -> Value | None:
    """Decode the default of a variable.

    Return None without a default (the variable is required), and NULL for an invalid one.
    """
    if attribute is None:
        return None
    value, new_problems = evaluate_constant(attribute.expression)
    problems.extend(new_problems)
    if has_errors(new_problems):
        # No second error about a required variable.
        return NULL
    reason = ""
    try:
        value = convert_value(value, variable_type)
    except ConversionProblem as problem:
        reason = (
            "This default value is not compatible with the variable's type constraint: "
            f"{describe_problem(problem)}."
        )
    if not reason and value.is_null and not nullable:
        reason = "A null default value is not valid when nullable = false."
    if reason:
        problems.append(
            build_error("invalid-default-value-for-variable", reason, attribute.expression.span)
        )
        return NULL
    problems.extend(list_ignored_attributes(attribute.expression, variable_type))
    return value


def list_ignored_attributes(expression: Expression, target: Type) -> Iterator[Diagnostic]:
    """Yield a warning for each attribute of an object constructor that its type does not have.

    The conversion drops it: a misspelt optional attribute would silently get its default.
    """
    if isinstance(expression, ObjectCons) and isinstance(target, ObjectType):
        for key, _ in expression.items:
            name = key.literal_text
            if name is not None and name not in target.names:
                hint = suggest_name(name, target.names)
                detail = f'The type of the variable has no attribute "{name}": it is ignored.{hint}'
                yield build_warning("ignored-object-attribute", detail, key.span)
    for part, part_type in _list_typed_parts(expression, target):
        yield from list_ignored_attributes(part, part_type)


def _list_typed_parts(expression: Expression, target: Type) -> Iterable[tuple[Expression, Type]]:
    """Return the parts of a constructor with the types that they are converted to."""
    if isinstance(expression, Parentheses):
        return [(expression.inner, target)]
    if isinstance(expression, TupleCons):
        if isinstance(target, TupleType):
            return zip(expression.items, target.elements, strict=False)
        if isinstance(target, ListType | SetType):
            return [(item, target.element) for item in expression.items]
    if isinstance(expression, ObjectCons):
        if isinstance(target, MapType):
            return [(value, target.element) for _, value in expression.items]
        if isinstance(target, ObjectType):
            types = dict(target.attributes)
            return [
                (value, types[key.literal_text])
                for key, value in expression.items
                if key.literal_text in types
            ]
    return ()


def decode_locals_block(block: Block, problems: list[Diagnostic]) -> list[LocalValue]:
    """Decode the values of a `locals` block.

    Values with an invalid name are reported and omitted.
    """
    attributes = unpack_result(decode_attributes(block.body), problems)
    local_values: list[LocalValue] = []
    for name, attribute in attributes.items():
        if is_valid_name(name):
            local_values.append(LocalValue(name, attribute.expression, attribute.span))
        else:
            problems.append(build_error("invalid-local-value-name", NAME_RULE, attribute.name_span))
    return local_values


def decode_output_block(block: Block, problems: list[Diagnostic]) -> Output | None:
    """Decode an `output` block; None if its name is invalid or it has no value."""
    label = block.labels[0]
    has_valid_name = check_name(label, "invalid-output-name", problems)
    parts = unpack_result(decode_body(block.body, OUTPUT_SCHEMA), problems)
    arguments = parts.attributes
    value = arguments.get("value")
    sensitive = evaluate_bool(arguments.get("sensitive"), problems, default=False)
    description = evaluate_text(arguments.get("description"), problems)
    deprecated = _evaluate_deprecation(arguments.get("deprecated"), problems)
    depends_on = parse_references(arguments.get("depends_on"), problems)
    preconditions = decode_condition_blocks(parts.blocks, "precondition", problems)
    is_ephemeral = evaluate_bool(arguments.get("ephemeral"), problems, default=False)
    value_type = _decode_type(
        arguments.get("type"), problems, is_json=isinstance(block.body, JsonBody)
    )
    if value is None or not has_valid_name:
        # Both are reported.
        return None
    return Output(
        name=label.value,
        expression=value.expression,
        description=description,
        sensitive=sensitive,
        depends_on=depends_on,
        preconditions=preconditions,
        span=block.header_span,
        deprecated=deprecated,
        ephemeral=is_ephemeral,
        type=value_type,
    )


_CONDITION_SCHEMA = BodySchema(attributes={"condition": True, "error_message": True})


def decode_condition_blocks(
    blocks: Iterable[Block], kind: str, problems: list[Diagnostic]
) -> tuple[Condition, ...]:
    """Decode the conditions of all blocks of type `kind`.

    Incomplete conditions are reported and omitted. Constant ones are reported.
    """
    conditions: list[Condition] = []
    for block in blocks:
        if block.type != kind:
            # The caller reads it.
            continue
        parts = unpack_result(decode_body(block.body, _CONDITION_SCHEMA), problems)
        condition = parts.attributes.get("condition")
        message = parts.attributes.get("error_message")
        if condition is not None and not list_traversals(condition.expression):
            detail = (
                "The condition expression must refer to at least one object from elsewhere in the "
                "configuration, or else its result would not be checking anything."
            )
            headline = f"Invalid {kind} expression"
            span = condition.expression.span
            problems.append(
                build_error("condition-refers-to-nothing", detail, span, headline=headline)
            )
        if condition is not None and message is not None:
            conditions.append(Condition(condition.expression, message.expression, block.span))
    return tuple(conditions)
