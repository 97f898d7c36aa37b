"""HCL's JSON syntax: files to bodies, JSON values to expressions.

Which properties of an object are arguments and which are blocks is decided by a schema
(bodies.content). A value in an argument's place is an expression: strings are templates, and so
are the names of object properties.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, error
from nexusform.language.json_reader import read_json
from nexusform.language.parser import collector_off, parse_template, too_large
from nexusform.language.positions import Positions, describe
from nexusform.language.syntax import (
    Expression,
    JsonArray,
    JsonBody,
    JsonObject,
    JsonValue,
    Literal,
    ObjectCons,
    ObjectKey,
    StringLiteral,
    TemplateWrap,
    Traversal,
    TraverseAttribute,
    TraverseRoot,
    TupleCons,
)
from nexusform.source import Position, SourceFile, Span

# The commonest template by far, `${a.b.c}`, is made without the machinery of the parser.
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_-]*)((?:\.[A-Za-z_][A-Za-z0-9_-]*)*)\}")
_KEYWORDS = frozenset({"true", "false", "null"})

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
        "invalid-json-configuration",
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
                    "duplicate-object-attribute",
                    f'An attribute named "{each.name}" was already defined at {describe(earlier)}. Remove '
                    "one of the two.",
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
    plain = _REFERENCE.fullmatch(text) if exact else None
    if plain is not None and plain.group(1) not in _KEYWORDS:
        return _reference(plain.group(1), plain.group(2), span)
    source = SourceFile(span.filename, text)
    expression, problems = parse_template(source, start if exact else None, within=None if exact else span)
    diagnostics += problems
    return StringLiteral(text, span) if expression is None else replace(expression, span=span)


def _reference(root: str, steps: str, span: Span) -> Expression:
    """The `${root.step.step}` that fills the string at `span`; all of it is ASCII on one line."""
    filename, start = span.filename, span.start

    def place(begin: int, end: int) -> Span:
        first = Position(start.line, start.column + begin, start.byte + begin)
        return Span(filename, first, Position(start.line, start.column + end, start.byte + end))

    at = 3 + len(root)  # after the quotation mark, the dollar sign and the brace
    traverse = TraverseRoot(root, place(3, at))
    taken: list[TraverseAttribute] = []
    for name in steps.split(".")[1:]:
        end = at + 1 + len(name)
        taken.append(TraverseAttribute(name, place(at, end)))
        at = end
    return TemplateWrap(Traversal(traverse, tuple(taken), place(3, at)), span)
