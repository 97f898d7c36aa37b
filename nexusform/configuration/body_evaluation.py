"""A block's body against its schema: checked once, evaluated as often as there are instances."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from nexusform.configuration.declared.configuration import AnyBody, ResourceBlock
from nexusform.configuration.declared.constants import NO_NAMES, is_constant
from nexusform.configuration.dynamic_blocks import read_dynamic
from nexusform.configuration.prepared_body import (
    Argument,
    BlockType,
    PreparedBody,
    Repeated,
    WrittenBlock,
    count_problems,
    missing_argument,
)
from nexusform.configuration.resource_blocks import META_NAMES
from nexusform.diagnostics import Diagnostic, error
from nexusform.language.bodies import BodySchema, content
from nexusform.language.syntax.nodes import Attribute, Block
from nexusform.schema import BlockSchema, Nesting
from nexusform.source import Position, Span
from nexusform.values import UNKNOWN

__all__ = ["PreparedBody", "prepare_body", "prepare_resource"]


def prepare_body(
    body: AnyBody, schema: BlockSchema, header: Span | None = None
) -> tuple[PreparedBody, list[Diagnostic]]:
    """Check what does not depend on values, once per block.

    `header` is where a missing argument is reported; without it, where the body begins.
    """
    problems: list[Diagnostic] = []
    prepared = _prepare(body, schema, header or _beginning(body), problems, body_face(schema))
    return prepared, problems


def prepare_resource(block: ResourceBlock, schema: BlockSchema) -> tuple[PreparedBody, list[Diagnostic]]:
    """As `prepare_body`, for a resource or data block: problems name the block they stand in."""
    problems: list[Diagnostic] = []
    face = replace(body_face(schema), beside=META_NAMES)
    prepared = _prepare(block.body, schema, block.header_span, problems, face)
    return prepared, [p if p.block else replace(p, block=block.header) for p in problems]


def _beginning(body: AnyBody) -> Span:
    start = body.span.start
    return Span(body.span.filename, start, Position(start.line, start.column + 1, start.byte + 1))


def _prepare(
    body: AnyBody, schema: BlockSchema, place: Span, problems: list[Diagnostic], face: BodySchema
) -> PreparedBody:
    """A body checked against its schema once, ready to be evaluated for each instance."""
    parts, wrong = content(body, face)
    problems.extend(wrong)
    # What stands in every instance; what nexusform computes stands there only when it is given.
    template: dict[str, Any] = {n: a.default for n, a in schema.attributes.items() if not a.computed}
    arguments = _arguments(parts.attributes, schema, place, template, problems)
    varying = []
    for argument in arguments.values():
        if is_constant(argument.attribute.expression):
            _settle(argument, template, problems)
        else:
            varying.append(argument)
    items: dict[str, list[WrittenBlock | Repeated]] = {name: [] for name in schema.blocks}
    for block in parts.blocks:
        _add_block(block, schema, items, problems)
    for name, nested in schema.blocks.items():
        written = [(item.label, item.span) for item in items[name] if isinstance(item, WrittenBlock)]
        if len(written) == len(items[name]):
            # None of them is dynamic: only then it is known how many there are.
            problems.extend(count_problems(nested, name, written, place))
    blocks = [BlockType(name, nested, items[name], place) for name, nested in schema.blocks.items()]
    secret = [n for n, a in schema.attributes.items() if a.sensitive]
    return PreparedBody(
        place,
        arguments,
        template=template,
        varying=varying,
        blocks=blocks,
        secret=secret,
        lengths={
            figure: listing
            for figure, listing in schema.lengths.items()
            if _is_said(arguments.get(figure)) and _is_said(arguments.get(listing))
        },
    )


def _is_said(argument: Argument | None) -> bool:
    """Whether an argument is written, and not as null."""
    if argument is None:
        return False
    return not is_constant(argument.attribute.expression) or argument.evaluate(NO_NAMES)[0] is not None


@lru_cache(maxsize=1024)
def body_face(schema: BlockSchema) -> BodySchema:
    """What the syntax must know of a schema: names, and which blocks have a label."""
    blocks: dict[str, tuple[str, ...]] = {
        name: (nested.label or "name",) if nested.nesting is Nesting.MAP else ()
        for name, nested in schema.blocks.items()
    }
    if blocks:
        blocks["dynamic"] = ("type",)
    computed = frozenset(
        name for name, each in schema.attributes.items() if not each.required and not each.optional
    )
    return BodySchema(dict.fromkeys(schema.attributes, False), blocks, computed)


def _arguments(
    attributes: Mapping[str, Attribute],
    schema: BlockSchema,
    place: Span,
    template: dict[str, Any],
    problems: list[Diagnostic],
) -> dict[str, Argument]:
    """The arguments written that may be written, in the schema's order."""
    arguments: dict[str, Argument] = {}
    for name, attribute_schema in schema.attributes.items():
        attribute = attributes.get(name)
        if attribute is None:
            if attribute_schema.required:
                problems.append(missing_argument(name, place))
                template[name] = UNKNOWN
        elif attribute_schema.configurable:
            arguments[name] = Argument(attribute, attribute_schema)
        else:
            detail = f'Can\'t configure a value for "{name}": nexusform decides it. Remove the argument.'
            problems.append(error("value-for-unconfigurable-attribute", detail, attribute.name_span))
    return arguments


def _settle(argument: Argument, template: dict[str, Any], problems: list[Diagnostic]) -> None:
    """Evaluate a constant now; its mistakes are told once, not per instance."""
    plain, _, _, wrong = argument.evaluate(NO_NAMES)
    problems.extend(wrong)
    name = argument.attribute.name
    if plain is not None:
        template[name] = plain
    elif argument.schema.required:
        problems.append(missing_argument(name, argument.span))
        template[name] = UNKNOWN


def _add_block(
    block: Block,
    schema: BlockSchema,
    items: dict[str, list[WrittenBlock | Repeated]],
    problems: list[Diagnostic],
) -> None:
    """Add a written block, or a dynamic one that is repeated, under its type."""
    if block.type != "dynamic":
        inner = schema.blocks[block.type].schema
        label = block.labels[0].value if block.labels else ""
        body = _prepare(block.body, inner, block.header_span, problems, body_face(inner))
        items[block.type].append(WrittenBlock(label, body, block.header_span))
        return
    labels = {n: b.label or "name" if b.nesting is Nesting.MAP else "" for n, b in schema.blocks.items()}
    dynamic = read_dynamic(block, labels, problems)
    if dynamic is not None:
        inner = schema.blocks[dynamic.type].schema
        body = _prepare(dynamic.content, inner, block.header_span, problems, body_face(inner))
        items[dynamic.type].append(Repeated(dynamic, body))
