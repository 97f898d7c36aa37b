"""Text to tree: the doors through which HCL's native syntax comes in.

`parse_file` reads a configuration file, `parse_expression` one expression, `parse_template` a template
without quotes. All give what could be read together with every problem met; none raises. Reasons for an own
parser: docs/decisions/0001-hcl-parser.md. `hcl2_complaint` says what the package hcl2 makes of a file.

A tree is kept between runs as bytes (`encode_tree`, `decode_tree`). The form is JSON, never code: every
node an array that begins with the name of its class, as the annotations in syntax.py have it. What does
not fit them is no tree.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import cache
from typing import Final

import msgspec
from msgspec import Struct

from nexusform.diagnostics import Diagnostic, error, has_errors, warning
from nexusform.language.body_parser import BodyParser
from nexusform.language.expression_parser import ExpressionParser
from nexusform.language.syntax.nodes import Body, Expression, JsonBody
from nexusform.language.syntax.positions import OnePlace, Positions
from nexusform.language.syntax.scanner import END, Tokens, scan, scan_template
from nexusform.language.syntax.token_stream import MalformedError, TokenStream
from nexusform.source import Position, SourceFile, Span

# Raised whenever the same text may give another tree; a cache of trees must ask for it.
SYNTAX_VERSION = 1

# A file larger than this (in characters) is refused instead of read for minutes.
LARGEST_SOURCE = 64 * 1024 * 1024


@contextmanager
def collector_off() -> Iterator[None]:
    """Without cyclic garbage collection, which costs as much as the parse and finds no cycles.

    What was made meanwhile then counts as old: freezing and unfreezing moves it to the oldest
    generation, where otherwise the next allocation would look through all of it.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            if gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def parse_file(source: SourceFile) -> tuple[Body, list[Diagnostic]]:
    """A configuration file's body and the problems of its syntax, in the order of the text.

    With errors the body holds what could be read, for showing context; it must not be used to
    plan.
    """
    positions = Positions(source.name, source.text)
    refusal = too_large(source, positions)
    if refusal is not None:
        nowhere = positions.span(0, 0)
        return Body((), (), nowhere, nowhere), [refusal]
    with collector_off():
        stream = TokenStream(scan(source.text), positions, [])
        body = BodyParser(stream).file()
    return body, _in_order(stream.diagnostics)


def parse_expression(
    source: SourceFile, start: Position | None = None
) -> tuple[Expression | None, list[Diagnostic]]:
    """One expression that is the whole text; newlines count for nothing.

    `start` is where the text begins, when it is a part of a file. The expression is None when
    there are errors.
    """

    def read(stream: TokenStream) -> Expression:
        stream.skip_newlines = True
        expression = ExpressionParser(stream).expression()
        if stream.peek() != END:
            raise stream.problem(
                "extra-characters-after-expression",
                "An expression was successfully parsed, but extra characters were found after it.",
            )
        return expression

    return _parse(source, Positions(source.name, source.text, start), scan, read)


def parse_template(
    source: SourceFile, start: Position | None = None, *, within: Span | None = None
) -> tuple[Expression | None, list[Diagnostic]]:
    """The whole text as a template without quotes, as in a template file; backslashes are plain.

    `start` is where the text begins, when it is a part of a file. When the text is written
    differently there (a JSON string with escapes), `within` is the place that every node and
    diagnostic gets. The expression is None when there are errors.
    """

    def read(stream: TokenStream) -> Expression:
        return ExpressionParser(stream).templates.bare()

    positions = Positions(source.name, source.text, start) if within is None else OnePlace(within)
    return _parse(source, positions, scan_template, read)


def _parse(
    source: SourceFile,
    positions: Positions,
    scanner: Callable[[str], Tokens],
    read: Callable[[TokenStream], Expression],
) -> tuple[Expression | None, list[Diagnostic]]:
    """The expression of a whole text, None when there are errors, and all diagnostics."""
    refusal = too_large(source, positions)
    if refusal is not None:
        return None, [refusal]
    with collector_off():
        stream = TokenStream(scanner(source.text), positions, [])
        try:
            expression: Expression | None = read(stream)
        except MalformedError:
            expression = None
    return (None if has_errors(stream.diagnostics) else expression), _in_order(stream.diagnostics)


def too_large(source: SourceFile, positions: Positions) -> Diagnostic | None:
    """The refusal of a file beyond LARGEST_SOURCE, or None."""
    if len(source.text) <= LARGEST_SOURCE:
        return None
    return error(
        "file-too-large",
        f"{source.name} has {len(source.text):,} characters; a configuration file may have at most "
        f"{LARGEST_SOURCE:,}. Split it into several files of the same directory.",
        positions.span(0, 0),
    )


def hcl2_complaint(source: SourceFile) -> Diagnostic | None:
    """A warning at the place where hcl2 stops reading a file of native syntax, None when it does not.

    To be asked only of files that `parse_file` reads without errors; it takes several times as
    long. docs/language-differences.md lists what to write instead.
    """
    import hcl2
    from lark.exceptions import LarkError, UnexpectedInput

    text = source.text
    try:
        with collector_off():
            hcl2.parses_to_tree(text)
    except UnexpectedInput as problem:
        at = problem.pos_in_stream
    except LarkError:
        at = 0
    else:
        return None
    begin = at if at is not None and 0 <= at < len(text) else len(text)
    return warning(
        "not-readable-with-hcl2",
        "This is valid HCL, but tools built on the Python package hcl2 stop reading here. "
        "docs/language-differences.md lists the forms to stay clear of.",
        Positions(source.name, text).span(begin, min(begin + 1, len(text))),
    )


def _in_order(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    return sorted(diagnostics, key=lambda each: each.subject.start.byte if each.subject else 0)


_FORMAT: Final = f"nexusform-tree-2.{SYNTAX_VERSION}"


class _Kept(Struct, array_like=True):
    format: str
    body: Body | JsonBody


def encode_tree(body: Body | JsonBody) -> bytes:
    """The bytes that stand for a tree; equal trees give equal bytes."""
    return msgspec.json.Encoder(decimal_format="number").encode(_Kept(_FORMAT, body))


def decode_tree(data: bytes) -> Body | JsonBody | None:
    """The tree that `encode` wrote, or None when the bytes are no tree of this version."""
    try:
        with collector_off():
            kept = _decoder().decode(data)
    except (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError):
        # A damaged cache is as good as none: the text is parsed again.
        return None
    return kept.body if kept.format == _FORMAT else None


@cache
def _decoder() -> msgspec.json.Decoder[_Kept]:
    return msgspec.json.Decoder(_Kept, float_hook=Decimal)
