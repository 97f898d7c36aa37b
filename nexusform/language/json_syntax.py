"""HCL's JSON syntax: files to bodies, JSON values to expressions.

Which properties of an object are arguments and which are blocks is decided by a schema
(bodies.content). A value in an argument's place is an expression: strings are templates, and so
are the names of object properties.
"""

from __future__ import annotations

from nexusform.diagnostics import Diagnostic, error
from nexusform.language.json_reader import read_json
from nexusform.language.parser import collector_off, parse_template, too_large
from nexusform.language.positions import Positions, describe
from nexusform.language.syntax import (
    Expression,
    JsonArray,
    JsonBody,
    JsonObject,
    JsonScalar,
    JsonValue,
    Literal,
    ObjectCons,
    ObjectKey,
    StringLiteral,
    TupleCons,
)
from nexusform.source import Position, SourceFile, Span

# The name of a property that is a comment, in objects that stand for bodies.
COMMENT_NAME = "//"


def parse_json_file(source: SourceFile) -> tuple[JsonBody, list[Diagnostic]]:
    """A `.nf.json` file's body: its root object, or the objects of its root array."""
    positions = Positions(source.name, source.text)
    refusal = too_large(source, positions)
    if refusal is not None:
        return JsonBody((), positions.span(0, 0)), [refusal]
    with collector_off():
        value, diagnostics = read_json(source.text, positions)
    if value is None:
        return JsonBody((), positions.span(0, 0)), diagnostics
    items = value.items if isinstance(value, JsonArray) else (value,)
    objects = tuple(item for item in items if isinstance(item, JsonObject))
    diagnostics += [_bad_root(item) for item in items if not isinstance(item, JsonObject)]
    return JsonBody(objects, value.span), diagnostics


def _bad_root(value: JsonValue) -> Diagnostic:
    return error(
        "Invalid JSON configuration",
        "A JSON configuration file must hold an object, or an array of objects, whose properties are "
        "arguments and blocks.",
        value.span,
    )


def expression_of(value: JsonValue) -> tuple[Expression, list[Diagnostic]]:
    """The expression that a JSON value in an argument's place means."""
    diagnostics: list[Diagnostic] = []
    return _expression(value, diagnostics), diagnostics


def _expression(value: JsonValue, diagnostics: list[Diagnostic]) -> Expression:
    if isinstance(value, JsonArray):
        return TupleCons(tuple(_expression(item, diagnostics) for item in value.items), value.span)
    if isinstance(value, JsonObject):
        return _object(value, diagnostics)
    if isinstance(value.value, str):
        return _string(value.value, value.span, diagnostics)
    return Literal(value.value, value.span)


def _object(value: JsonObject, diagnostics: list[Diagnostic]) -> Expression:
    items: list[tuple[ObjectKey, Expression]] = []
    seen: dict[str, Span] = {}
    for each in value.properties:
        earlier = seen.setdefault(each.name, each.name_span)
        if earlier is not each.name_span:
            diagnostics.append(
                error(
                    "Duplicate object attribute",
                    f'An attribute named "{each.name}" was already defined at {describe(earlier)}. '
                    "Remove one of "
                    "the two.",
                    each.name_span,
                )
            )
            continue
        key = _string(each.name, each.name_span, diagnostics)
        items.append((ObjectKey(key, bare=False, span=each.name_span), _expression(each.value, diagnostics)))
    return ObjectCons(tuple(items), value.span)


def _string(text: str, span: Span, diagnostics: list[Diagnostic]) -> Expression:
    if "${" not in text and "%{" not in text:
        return StringLiteral(text, span)
    begin = span.start
    start = Position(begin.line, begin.column + 1, begin.byte + 1)
    # Positions inside are exact as long as the text is written without escapes.
    exact = len(text.encode("utf-8", "replace")) == span.end.byte - begin.byte - 2
    source = SourceFile(span.filename, text)
    expression, problems = parse_template(source, start if exact else None, within=None if exact else span)
    diagnostics += problems
    return StringLiteral(text, span) if expression is None else expression


def scalar(value: JsonValue) -> str | None:
    """The text of a JSON string, None for any other value."""
    return value.value if isinstance(value, JsonScalar) and isinstance(value.value, str) else None
