"""Parser of HCL's native syntax.

`parse_file` parses a configuration file, `parse_expression` one expression, `parse_template` a
template without quotes. All return the parsed part together with every problem; none raises.
docs/decisions/0001-hcl-parser.md explains why this is a separate parser. `check_with_hcl2` reports
whether the package hcl2 can parse a file.

Trees are cached between runs as bytes (`encode_tree`, `decode_tree`). The form is JSON, never code:
every node is an array that starts with the name of its class, according to the annotations of the
nodes. Anything else is rejected.
"""

from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import cache
from typing import Final

import msgspec
from msgspec import Struct

from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Position,
    SourceFile,
    Span,
    build_error,
    build_warning,
    has_errors,
)
from nexusform.language.body_parser import BodyParser
from nexusform.language.expression_parser import ExpressionParser
from nexusform.language.syntax.scanner import (
    END,
    CharacterPositions,
    FixedPosition,
    Tokens,
    scan_template,
    scan_text,
)
from nexusform.language.syntax.syntax_nodes import Body, Expression, JsonBody
from nexusform.language.syntax.token_stream import MalformedSyntaxError, TokenStream

# Incremented whenever the same text may give another tree; caches of trees depend on it.
SYNTAX_VERSION = 1

# Characters; a larger file is rejected, because parsing would take minutes.
MAX_SOURCE_LENGTH = 64 * 1024 * 1024
_FORMAT: Final = f"nexusform-tree-2.{SYNTAX_VERSION}"


def parse_file(source: SourceFile) -> tuple[Body, list[Diagnostic]]:
    """Parse a configuration file.

    Return its body and the problems of its syntax, in the order of the text. With errors the body
    contains the parsed part, to display context; it must not be used for plans.
    """
    positions = CharacterPositions(source.name, source.text)
    rejection = check_source_length(source, positions)
    if rejection is not None:
        empty_span = positions.build_span(0, 0)
        return Body((), (), empty_span, empty_span), [rejection]
    stream = TokenStream(scan_text(source.text), positions, diagnostics=[])
    body = BodyParser(stream).parse_file()
    return body, sort_by_position(stream.diagnostics)


def parse_expression(
    source: SourceFile, start: Position | None = None
) -> tuple[Expression | None, list[Diagnostic]]:
    """Parse one expression from the whole text; newlines are ignored.

    `start` is the start position of the text, if it is a part of a file. The expression is None if
    there are errors.
    """

    def read(stream: TokenStream) -> Expression:
        """Parse the expression, and report anything after it."""
        stream.skip_newlines = True
        expression = ExpressionParser(stream).parse_expression()
        if stream.peek() != END:
            raise stream.report_error(
                "extra-characters-after-expression",
                "An expression was successfully parsed, but extra characters were found after it.",
            )
        return expression

    return _parse_text_as_expression(
        source, CharacterPositions(source.name, source.text, start), scan_text, read
    )


def parse_template(
    source: SourceFile, start: Position | None = None, *, within: Span | None = None
) -> tuple[Expression | None, list[Diagnostic]]:
    """Parse the whole text as a template without quotes, as in a template file.

    Backslashes are literal. `start` is the start position of the text, if it is a part of a file.
    If its source has another form (a JSON string with escapes), `within` is the span of every node
    and diagnostic. The expression is None if there are errors.
    """
    positions = (
        CharacterPositions(source.name, source.text, start)
        if within is None
        else FixedPosition(within)
    )
    return _parse_text_as_expression(
        source,
        positions,
        scan_template,
        lambda stream: ExpressionParser(stream).templates.parse_bare(),
    )


def _parse_text_as_expression(
    source: SourceFile,
    positions: CharacterPositions,
    scanner: Callable[[str], Tokens],
    read: Callable[[TokenStream], Expression],
) -> tuple[Expression | None, list[Diagnostic]]:
    """Parse the expression of a whole text.

    Return it, None if there are errors, and all diagnostics.
    """
    rejection = check_source_length(source, positions)
    if rejection is not None:
        return None, [rejection]
    stream = TokenStream(scanner(source.text), positions, diagnostics=[])
    try:
        expression: Expression | None = read(stream)
    except MalformedSyntaxError:
        expression = None
    return (None if has_errors(stream.diagnostics) else expression), sort_by_position(
        stream.diagnostics
    )


def check_source_length(source: SourceFile, positions: CharacterPositions) -> Diagnostic | None:
    """Return the error for a file longer than MAX_SOURCE_LENGTH, or None."""
    if len(source.text) <= MAX_SOURCE_LENGTH:
        return None
    return build_error(
        "file-too-large",
        f"{source.name} has {len(source.text):,} characters; a configuration file may have at most "
        f"{MAX_SOURCE_LENGTH:,}. Split it into several files of the same directory.",
        positions.build_span(0, 0),
    )


def check_with_hcl2(source: SourceFile) -> Diagnostic | None:
    """Return a warning at the position where hcl2 stops parsing a file of native syntax, or None.

    Use it only for files that `parse_file` parses without errors; it takes several times as long.
    docs/language-differences.md lists alternatives.
    """
    import hcl2
    from lark.exceptions import LarkError, UnexpectedInput

    text = source.text
    try:
        hcl2.parses_to_tree(text)
    except UnexpectedInput as problem:
        offset = problem.pos_in_stream
    except LarkError:
        # Without a position.
        offset = 0
    else:
        return None
    # Else it stops at the end.
    begin = offset if offset is not None and 0 <= offset < len(text) else len(text)
    return build_warning(
        "not-readable-with-hcl2",
        "This is valid HCL, but tools built on the Python package hcl2 stop reading here. "
        "docs/language-differences.md lists the forms to stay clear of.",
        CharacterPositions(source.name, text).build_span(begin, min(begin + 1, len(text))),
    )


def sort_by_position(problems: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Sort by file name and position in the file; problems without a position are first."""
    return sorted(
        problems,
        key=lambda problem: (
            (problem.subject.filename, problem.subject.start.byte) if problem.subject else ("", -1)
        ),
    )


class _CachedSyntaxTree(Struct, array_like=True):
    format: str
    body: Body | JsonBody


def encode_tree(body: Body | JsonBody) -> bytes:
    """Encode a tree as bytes; equal trees give equal bytes."""
    return msgspec.json.Encoder(decimal_format="number").encode(_CachedSyntaxTree(_FORMAT, body))


def decode_tree(data: bytes) -> Body | JsonBody | None:
    """Decode the tree of `encode_tree`; None if the bytes are not a tree of this version."""
    try:
        stored = _build_stored_tree_decoder().decode(data)
    except (msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError):
        # A damaged cache: the text is parsed again.
        return None
    return stored.body if stored.format == _FORMAT else None


@cache
def _build_stored_tree_decoder() -> msgspec.json.Decoder[_CachedSyntaxTree]:
    return msgspec.json.Decoder(_CachedSyntaxTree, float_hook=Decimal)
