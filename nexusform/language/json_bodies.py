"""JSON objects as bodies: a schema says which properties are arguments and which are blocks."""

from __future__ import annotations

from collections.abc import Iterator

from nexusform.diagnostics import Diagnostic, did_you_mean, error
from nexusform.language.body_schema import BodySchema, Content, missing_arguments, missing_label
from nexusform.language.json_syntax import COMMENT_NAME, expression_of
from nexusform.language.positions import describe
from nexusform.language.syntax import (
    Attribute,
    Block,
    JsonArray,
    JsonBody,
    JsonObject,
    JsonProperty,
    JsonScalar,
    JsonValue,
    Label,
)
from nexusform.source import Position, Span


def json_content(body: JsonBody, schema: BodySchema, *, partial: bool) -> tuple[Content, list[Diagnostic]]:
    """The arguments and blocks of a JSON body; blocks are in the order of the keys as written."""
    diagnostics: list[Diagnostic] = []
    attributes: dict[str, Attribute] = {}
    blocks: list[Block] = []
    for each in _body_properties(body):
        if each.name in schema.attributes:
            _add(each, attributes, diagnostics)
        elif each.name in schema.blocks:
            blocks += _Unpacking(each, schema.blocks[each.name], diagnostics).blocks()
        elif not partial:
            diagnostics.append(_extraneous(each, schema))
    end = end_of(body)
    diagnostics += missing_arguments(schema, attributes, end)
    return Content(attributes, tuple(blocks), end), diagnostics


def json_attributes(body: JsonBody) -> tuple[dict[str, Attribute], list[Diagnostic]]:
    """Every property of a JSON body as an argument."""
    diagnostics: list[Diagnostic] = []
    attributes: dict[str, Attribute] = {}
    for each in _body_properties(body):
        _add(each, attributes, diagnostics)
    return attributes, diagnostics


def end_of(body: JsonBody) -> Span:
    """The closing brace of a body (the last one, of several objects)."""
    span = body.objects[-1].span if body.objects else body.span
    end = span.end
    if span.start == end:
        return span
    return Span(span.filename, Position(end.line, end.column - 1, end.byte - 1), end)


def _body_properties(body: JsonBody) -> Iterator[JsonProperty]:
    for each in body.objects:
        for item in each.properties:
            if item.name != COMMENT_NAME:
                yield item


def _add(each: JsonProperty, attributes: dict[str, Attribute], diagnostics: list[Diagnostic]) -> None:
    earlier = attributes.get(each.name)
    if earlier is not None:
        diagnostics.append(
            error(
                "duplicate-argument",
                f'The argument "{each.name}" was already set at {describe(earlier.name_span)}. Each '
                "argument may be set only once.",
                each.name_span,
            )
        )
        return
    expression, problems = expression_of(each.value)
    diagnostics += problems
    span = each.name_span.to(each.value.span)
    attributes[each.name] = Attribute(each.name, expression, span, each.name_span)


def _extraneous(each: JsonProperty, schema: BodySchema) -> Diagnostic:
    hint = did_you_mean(each.name, [*schema.attributes, *schema.blocks])
    return error(
        "extraneous-json-object-property",
        f'No argument or block type is named "{each.name}".{hint}',
        each.name_span,
    )


class _Unpacking:
    """The blocks that one property stands for: a level of names per label, then bodies."""

    def __init__(
        self, block: JsonProperty, label_names: tuple[str, ...], diagnostics: list[Diagnostic]
    ) -> None:
        self.block = block
        self.label_names = label_names
        self.diagnostics = diagnostics

    def blocks(self) -> list[Block]:
        """All of them, in source order."""
        blocks: list[Block] = []
        self._unpack(self.block.value, (), blocks)
        return blocks

    def _unpack(self, value: JsonValue, labels: tuple[Label, ...], blocks: list[Block]) -> None:
        if len(labels) == len(self.label_names):
            self._bodies(value, labels, blocks)
            return
        for holder in _holders(value):
            if not isinstance(holder, JsonObject):
                self.diagnostics.append(self._wrong_label_level(holder, len(labels)))
                continue
            for each in holder.properties:
                if each.name != COMMENT_NAME:
                    self._unpack(each.value, (*labels, Label(each.name, each.name_span)), blocks)

    def _bodies(self, value: JsonValue, labels: tuple[Label, ...], blocks: list[Block]) -> None:
        name_span = labels[-1].span if labels else self.block.name_span
        for holder in _holders(value):
            if not isinstance(holder, JsonObject):
                self.diagnostics.append(self._wrong_body(holder))
                continue
            span = name_span.to(holder.span) if holder is value else holder.span
            body = JsonBody((holder,), holder.span)
            blocks.append(Block(self.block.name, labels, body, span, name_span, self.block.name_span))

    def _wrong_label_level(self, value: JsonValue, level: int) -> Diagnostic:
        if isinstance(value, JsonScalar):
            return error(
                "incorrect-json-value-type",
                f"A JSON object is required, whose keys represent the {self.block.name} block's "
                f"{self.label_names[level]}.",
                value.span,
            )
        return missing_label(self.block.name, self.label_names, level, value.span)

    def _wrong_body(self, value: JsonValue) -> Diagnostic:
        return error(
            "incorrect-json-value-type",
            "Either a JSON object or a JSON array of objects is required, representing the contents "
            f'of one or more "{self.block.name}" blocks.',
            value.span,
        )


def _holders(value: JsonValue) -> tuple[JsonValue, ...]:
    """The value, or the items of an array; null stands for no block at all."""
    items = value.items if isinstance(value, JsonArray) else (value,)
    return tuple(item for item in items if not (isinstance(item, JsonScalar) and item.value is None))
