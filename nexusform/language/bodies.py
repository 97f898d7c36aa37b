"""The one door through which a body is given meaning: arguments and blocks by schema.

Both syntaxes come through here, so what a configuration means does not depend on how it is
written. All complaints are returned; what could be understood is returned beside them.
"""

from __future__ import annotations

from nexusform.diagnostics import Diagnostic, did_you_mean, error
from nexusform.language.body_schema import (
    BodySchema,
    Content,
    extraneous_label,
    missing_arguments,
    missing_label,
)
from nexusform.language.json_bodies import json_attributes, json_content
from nexusform.language.syntax import Attribute, Block, Body, JsonBody
from nexusform.source import Position, Span

__all__ = ["BodySchema", "Content", "content", "just_attributes"]


def content(
    body: Body | JsonBody, schema: BodySchema, *, partial: bool = False
) -> tuple[Content, list[Diagnostic]]:
    """What a body holds of a schema. With `partial`, anything outside the schema is passed over."""
    if isinstance(body, JsonBody):
        return json_content(body, schema, partial=partial)
    diagnostics: list[Diagnostic] = []
    attributes: dict[str, Attribute] = {}
    blocks: list[Block] = []
    for attribute in body.attributes:
        if attribute.name in schema.attributes:
            attributes[attribute.name] = attribute
        elif attribute.name in schema.blocks or not partial:
            diagnostics.append(_unsupported_argument(attribute, schema))
    for block in body.blocks:
        labels = schema.blocks.get(block.type)
        if labels is None:
            if block.type in schema.attributes or not partial:
                diagnostics.append(_unsupported_block(block, schema))
            continue
        complaint = _label_complaint(block, labels)
        if complaint is None:
            blocks.append(block)
        else:
            diagnostics.append(complaint)
    diagnostics += missing_arguments(schema, attributes, _missing_place(body))
    return Content(attributes, tuple(blocks), body.end_span), diagnostics


def just_attributes(body: Body | JsonBody) -> tuple[dict[str, Attribute], list[Diagnostic]]:
    """Every argument of a body whose names are free (`locals`, variable files); no blocks allowed."""
    if isinstance(body, JsonBody):
        return json_attributes(body)
    complaints = [
        error(
            "unexpected-block",
            "Blocks are not allowed here. To set an argument to an object, write "
            f'"{block.type} = {{ ... }}" with the equals sign.',
            block.type_span,
            headline=f'Unexpected "{block.type}" block',
        )
        for block in body.blocks
    ]
    return {attribute.name: attribute for attribute in body.attributes}, complaints


def _unsupported_argument(attribute: Attribute, schema: BodySchema) -> Diagnostic:
    name = attribute.name
    if name in schema.blocks:
        labels = "".join(f' "{label.upper()}"' for label in schema.blocks[name])
        hint = (
            f' Did you mean to define a block of type "{name}"? If so, write "{name}{labels} '
            '{ ... }" without the equals sign.'
        )
    else:
        hint = did_you_mean(name, schema.attributes)
    return error(
        "unsupported-argument", f'An argument named "{name}" is not expected here.{hint}', attribute.name_span
    )


def _unsupported_block(block: Block, schema: BodySchema) -> Diagnostic:
    name = block.type
    if name in schema.attributes:
        hint = (
            f' Did you mean to define argument "{name}"? If so, use the equals sign to assign it a value: '
            f'"{name} = ...".'
        )
    else:
        hint = did_you_mean(name, schema.blocks)
    return error(
        "unsupported-block-type", f'Blocks of type "{name}" are not expected here.{hint}', block.type_span
    )


def _label_complaint(block: Block, labels: tuple[str, ...]) -> Diagnostic | None:
    count = len(block.labels)
    if count > len(labels):
        return extraneous_label(block.type, labels, block.labels[len(labels)].span)
    if count < len(labels):
        return missing_label(block.type, labels, count, _first_character(block.body.span))
    return None


def _missing_place(body: Body) -> Span:
    """The opening brace of a block, so that its header is shown; the end of a whole file."""
    if body.span.start.line == 1 and body.span.start.column == 1:
        return body.end_span
    return _first_character(body.span)


def _first_character(span: Span) -> Span:
    start = span.start
    return Span(span.filename, start, Position(start.line, start.column + 1, start.byte + 1))
