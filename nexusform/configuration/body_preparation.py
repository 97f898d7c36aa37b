"""Validation of a block's body against its schema: once, for any number of evaluated instances."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import AnyBody, ResourceBlock
from nexusform.configuration.prepared_body import (
    NestedBlockGroup,
    PreparedArgument,
    PreparedBody,
    RepeatedBlock,
    StaticBlock,
    build_missing_argument_error,
    check_block_count,
)
from nexusform.configuration.resource_blocks import META_NAMES
from nexusform.configuration.static_arguments import EMPTY_SCOPE, is_constant_value, unpack_result
from nexusform.diagnostics.diagnostic import Diagnostic, Span, build_error
from nexusform.language.body_decoding import BodySchema, decode_body, get_first_character_span
from nexusform.language.syntax.syntax_nodes import Attribute, Block
from nexusform.schemas.block_schema import BlockSchema
from nexusform.values.typed_value import UNKNOWN

__all__ = ["PreparedBody", "build_prepared_body", "build_prepared_resource"]


def build_prepared_body(
    body: AnyBody, schema: BlockSchema, header: Span | None = None
) -> tuple[PreparedBody, list[Diagnostic]]:
    """Validate everything that is independent of values, once per block.

    Missing arguments are reported at `header`, or without it at the start of the body.
    """
    problems: list[Diagnostic] = []
    prepared = _prepare_new_body(
        body,
        schema,
        header or get_first_character_span(body.span),
        problems,
        build_body_schema(schema),
    )
    return prepared, problems


def build_prepared_resource(
    block: ResourceBlock, schema: BlockSchema
) -> tuple[PreparedBody, list[Diagnostic]]:
    """Prepare a resource or data block, as `build_prepared_body` does.

    Problems name their block.
    """
    problems: list[Diagnostic] = []
    body_schema = replace(build_body_schema(schema), extra_names=META_NAMES)
    prepared = _prepare_new_body(block.body, schema, block.header_span, problems, body_schema)
    return prepared, [replace(problem, block=block.header) for problem in problems]


def _prepare_new_body(
    body: AnyBody,
    schema: BlockSchema,
    location: Span,
    problems: list[Diagnostic],
    body_schema: BodySchema,
) -> PreparedBody:
    """Prepare a body: validate it against its schema once, for evaluation per instance.

    Constant arguments are evaluated here, into a template with the values of every instance. The
    others are evaluated for each instance, as are the blocks.
    """
    parts = unpack_result(decode_body(body, body_schema), problems)
    template: dict[str, Any] = {}
    for name, attribute in schema.attributes.items():
        # A computed attribute without a default has no value until it is configured or planned.
        if not attribute.computed or attribute.default is not None:
            template[name] = attribute.default
    arguments = _prepare_arguments(parts.attributes, schema, location, template, problems)
    # Arguments to evaluate for each instance.
    varying = []
    for argument in arguments.values():
        if is_constant_value(argument.attribute.expression):
            _add_constant_value(argument, template, problems)
        else:
            varying.append(argument)
    # Blocks by block type.
    items: dict[str, list[StaticBlock | RepeatedBlock]] = {name: [] for name in schema.blocks}
    for block in parts.blocks:
        _add_static_or_dynamic_block(block, schema, items, problems)
    for name, nested in schema.blocks.items():
        static_items = [
            (item.label, item.span) for item in items[name] if isinstance(item, StaticBlock)
        ]
        if len(static_items) == len(items[name]):
            # The number of blocks is known only if none of them is dynamic.
            problems.extend(check_block_count(nested, name, static_items, location))
    blocks = [
        NestedBlockGroup(name, nested, items[name], location)
        for name, nested in schema.blocks.items()
    ]
    sensitive_names = [name for name, attribute in schema.attributes.items() if attribute.sensitive]
    return PreparedBody(
        location,
        arguments,
        template=template,
        varying=varying,
        blocks=blocks,
        sensitive_names=sensitive_names,
        # A count and the list with as many items, to be compared at evaluation if both are set.
        lengths={
            count_name: list_name
            for count_name, list_name in schema.lengths.items()
            if _is_argument_set(arguments.get(count_name))
            and _is_argument_set(arguments.get(list_name))
        },
    )


def _is_argument_set(argument: PreparedArgument | None) -> bool:
    """Check whether an argument is set to something other than null.

    An argument with references counts as set.
    """
    if argument is None:
        return False
    if not is_constant_value(argument.attribute.expression):
        return True
    value, *_ = argument.evaluate(EMPTY_SCOPE)
    return value is not None


@lru_cache(maxsize=1024)
def build_body_schema(schema: BlockSchema) -> BodySchema:
    """Build the syntax schema of a block schema.

    Arguments, blocks with the names of their labels, computed names.
    """
    blocks: dict[str, tuple[str, ...]] = {
        name: (nested.label,) if nested.label else () for name, nested in schema.blocks.items()
    }
    # A dynamic block generates nested ones.
    if blocks:
        blocks["dynamic"] = ("type",)
    computed = frozenset(
        name for name, attribute in schema.attributes.items() if not attribute.is_configurable
    )
    # Required arguments are checked later.
    return BodySchema(dict.fromkeys(schema.attributes, False), blocks, computed)


def _prepare_arguments(
    attributes: Mapping[str, Attribute],
    schema: BlockSchema,
    location: Span,
    template: dict[str, Any],
    problems: list[Diagnostic],
) -> dict[str, PreparedArgument]:
    """Collect the configured arguments in the schema's order.

    Report computed arguments in the body, and missing required ones: these become UNKNOWN
    in the template.
    """
    arguments: dict[str, PreparedArgument] = {}
    for name, attribute_schema in schema.attributes.items():
        attribute = attributes.get(name)
        if attribute is None:
            if attribute_schema.required:
                problems.append(build_missing_argument_error(name, location))
                # The value is unknown in every instance.
                template[name] = UNKNOWN
        elif attribute_schema.is_configurable:
            arguments[name] = PreparedArgument(attribute, attribute_schema)
        else:
            remedy = (
                f"Delete this line. {attribute_schema.instead}"
                if attribute_schema.instead
                else "Remove the argument."
            )
            detail = f'Can\'t configure a value for "{name}": nexusform decides it. {remedy}'
            problems.append(
                build_error("value-for-unconfigurable-attribute", detail, attribute.name_span)
            )
    return arguments


def _add_constant_value(
    argument: PreparedArgument, template: dict[str, Any], problems: list[Diagnostic]
) -> None:
    """Evaluate an argument without references, and add its value to `template`.

    The template has the values of every instance. A missing required argument is reported here
    once, and becomes UNKNOWN, so that no later check reports it again.
    """
    # A constant has no sensitive or unknown parts.
    plain_value, _, _, new_problems = argument.evaluate(EMPTY_SCOPE)
    problems.extend(new_problems)
    name = argument.attribute.name
    # Null keeps the default, already in `template`.
    if plain_value is not None:
        template[name] = plain_value
    elif argument.schema.required:
        problems.append(build_missing_argument_error(name, argument.span))
        template[name] = UNKNOWN


def _add_static_or_dynamic_block(
    block: Block,
    schema: BlockSchema,
    items: dict[str, list[StaticBlock | RepeatedBlock]],
    problems: list[Diagnostic],
) -> None:
    """Add a static or dynamic block under its type.

    An unusable dynamic block is reported and not added.
    """
    if block.type != "dynamic":
        inner = schema.blocks[block.type].schema
        label = block.labels[0].value if block.labels else ""
        body = _prepare_new_body(
            block.body, inner, block.header_span, problems, build_body_schema(inner)
        )
        items[block.type].append(StaticBlock(label, body, block.header_span))
        return
    from nexusform.configuration.dynamic_blocks import read_dynamic_block

    label_names = {block_type: nested.label for block_type, nested in schema.blocks.items()}
    dynamic = read_dynamic_block(block, label_names, problems)
    if dynamic is not None:
        inner = schema.blocks[dynamic.type].schema
        body_schema = build_body_schema(inner)
        if dynamic.lacks_label:
            # Accept the label as an argument of the content: the missing label is already reported.
            misplaced_label = {label_names[dynamic.type]: False}  # not required
            body_schema = replace(
                body_schema, attributes={**body_schema.attributes, **misplaced_label}
            )
        body = _prepare_new_body(dynamic.content, inner, block.header_span, problems, body_schema)
        items[dynamic.type].append(RepeatedBlock(dynamic, body))
