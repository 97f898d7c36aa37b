"""Templates: quoted strings, heredocs and template files, with `${ }` and `%{ }` sequences.

A template is first read as a flat row of pieces, because `~` markers and the flush heredoc `<<-`
work on literal pieces as written; then the directives give the row its shape.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from nexusform.diagnostics import did_you_mean
from nexusform.language.syntax import scanner
from nexusform.language.syntax.nodes import (
    Expression,
    StringLiteral,
    Template,
    TemplateFor,
    TemplateIf,
    TemplateWrap,
)
from nexusform.language.syntax.positions import describe
from nexusform.language.syntax.token_stream import MalformedError, TokenStream, decode_plain, decode_quoted
from nexusform.source import Span

# What counts as white space for `~` and `<<-`.
_SPACE = (
    " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_ENDS = {"if": "endif", "for": "endfor"}
_KEYWORDS = ("if", "for", "else", "endif", "endfor")


class _Text(Struct):
    """A literal piece; `begin` and `end` are character offsets."""

    value: str
    begin: int
    end: int


class _Interpolation(Struct):
    """`${ expression }`."""

    expression: Expression


class _Directive(Struct):
    """`%{ keyword ... }`; the names only of a `for`."""

    keyword: str
    span: Span
    expression: Expression | None = None
    key_name: str | None = None
    value_name: str = ""


_Piece = _Text | _Interpolation | _Directive


class _Open(Struct):
    """A directive whose end has not come yet, and the parts read for it."""

    directive: _Directive | None
    parts: list[Expression] = field(default_factory=list)
    then: list[Expression] | None = None  # the first branch, once `else` has come


class TemplateParser:
    """Reads templates from a token stream; expressions inside are left to `parse_expression`."""

    def __init__(self, stream: TokenStream, parse_expression: Callable[[], Expression]) -> None:
        self.stream = stream
        self.parse_expression = parse_expression

    def quoted_or_heredoc(self) -> Expression:
        """A template from its opening mark to its closing mark."""
        stream = self.stream
        first = stream.take()
        closing = (
            scanner.CLOSE_QUOTE if stream.tokens.kinds[first] == scanner.OPEN_QUOTE else scanner.CLOSE_HEREDOC
        )
        pieces, last = self._pieces(closing, first)
        if stream.tokens.word(first).startswith("<<-"):
            _flush(pieces)
        return self._tree(pieces, stream.span(first, last), stream.span(last, last))

    def bare(self) -> Expression:
        """A whole text as a template."""
        stream = self.stream
        pieces, last = self._pieces(scanner.END, 0)
        span = stream.positions.span(stream.tokens.starts[0], stream.tokens.ends[last])
        return self._tree(pieces, span, stream.span(last, last))

    def plain_string(self, index: int) -> str:
        """The meaning of a STRING token, which holds no template sequences."""
        tokens = self.stream.tokens
        return self._decoded(tokens.starts[index] + 1, tokens.ends[index] - 1)

    def _decoded(self, begin: int, end: int) -> str:
        stream = self.stream

        def complain(problem: str, first: int, last: int) -> None:
            stream.note(
                "invalid-escape-sequence", problem, stream.positions.span(begin + first, begin + last)
            )

        return decode_quoted(stream.tokens.text[begin:end], complain)

    # --- pieces --------------------------------------------------------------------------------

    def _pieces(self, closing: str, first: int) -> tuple[list[_Piece], int]:
        """The pieces up to the closing token, and that token's index."""
        stream = self.stream
        tokens = stream.tokens
        pieces: list[_Piece] = []
        trim = False
        while True:
            index = stream.index
            kind = tokens.kinds[index]
            if kind == closing:
                stream.take()
                return pieces, index
            if kind in {scanner.QUOTED_TEXT, scanner.PLAIN_TEXT}:
                stream.index += 1
                pieces.append(self._text(index, kind, trim=trim))
                trim = False
            elif kind in {scanner.INTERPOLATION, scanner.DIRECTIVE}:
                if tokens.word(index).endswith("~"):
                    _trim_end(pieces)
                piece, trim = self._sequence(kind)
                pieces.append(piece)
            else:
                # A heredoc is left open where it begins: the end of the file says nothing.
                heredoc = closing == scanner.CLOSE_HEREDOC
                end = self._heredoc_end(first) if heredoc else ""
                raise stream.problem(
                    "unterminated-template-string",
                    f"No closing marker was found for the string.{end}",
                    first if heredoc else index,
                    first,
                )

    def _heredoc_end(self, first: int) -> str:
        """How the heredoc that begins at a token would end."""
        marker = self.stream.tokens.word(first).lstrip("<-").strip()
        return (
            f' A heredoc ends at a line that holds "{marker}" and nothing else, with a line break behind it.'
        )

    def _text(self, index: int, kind: str, *, trim: bool) -> _Text:
        tokens = self.stream.tokens
        begin, end = tokens.starts[index], tokens.ends[index]
        value = (
            self._decoded(begin, end) if kind == scanner.QUOTED_TEXT else decode_plain(tokens.text[begin:end])
        )
        return _Text(value.lstrip(_SPACE) if trim else value, begin, end)

    def _sequence(self, kind: str) -> tuple[_Piece, bool]:
        """A `${ }` or `%{ }`, and whether its end trims the text after it."""
        stream = self.stream
        outer, stream.skip_newlines = stream.skip_newlines, True
        try:
            first = stream.take()
            piece: _Piece
            if kind == scanner.INTERPOLATION:
                if stream.peek() == scanner.SEQUENCE_END:
                    raise stream.problem(
                        "missing-expression",
                        'Nothing stands between "${" and "}". Write the expression whose value belongs here, '
                        'or "$${" where these characters themselves are meant.',
                        since=first,
                    )
                piece = _Interpolation(self.parse_expression())
                last = self._sequence_end(first)
            else:
                directive = self._directive(first)
                last = self._sequence_end(first, directive.keyword)
                directive.span = stream.span(first, last)
                piece = directive
        finally:
            stream.skip_newlines = outer
        return piece, stream.tokens.word(last) == "~}"

    def _sequence_end(self, first: int, keyword: str = "") -> int:
        stream = self.stream
        kind = stream.peek()
        if kind == scanner.SEQUENCE_END:
            return stream.take()
        if keyword:
            raise stream.problem(
                "extra-characters-in-marker",
                "Expected a closing brace to end the sequence, but found extra characters.",
                since=first,
                headline=f"Extra characters in {keyword} marker",
            )
        raise self._unclosed(kind, first)

    def _unclosed(self, kind: str, first: int) -> MalformedError:
        stream = self.stream
        if kind in {scanner.END, scanner.CLOSE_QUOTE, scanner.OPEN_QUOTE}:
            where = "file" if kind == scanner.END else "quoted template"
            stream.note(
                "unclosed-template-interpolation-sequence",
                f"There is no closing brace for this interpolation sequence before the end of the {where}. "
                "This might be caused by incorrect nesting inside the given expression.",
                stream.span(first, first),
            )
            return MalformedError()
        detail = (
            "Expected a closing brace to end the interpolation expression, but found extra characters.\n\n"
            "This can happen when you include interpolation syntax for another language, such as shell "
            "scripting, but forget to escape the interpolation start token. If this is an embedded sequence "
            'for another language, escape it by starting with "$${" instead of just "${".'
        )
        if kind == ":":
            detail = (
                "Template interpolation doesn't expect a colon at this location. Did you intend this to be a "
                "literal sequence to be processed as part of another language? If so, you can escape it by "
                'starting with "$${" instead of just "${".'
            )
        return stream.problem("extra-characters-after-interpolation-expression", detail, since=first)

    def _directive(self, first: int) -> _Directive:
        stream = self.stream
        if stream.peek() != scanner.IDENT:
            raise stream.problem(
                "invalid-template-directive",
                'A template directive keyword ("if", "for", etc) is expected at the beginning of a '
                "%{ sequence.",
                since=first,
            )
        at = stream.take()
        keyword = stream.tokens.word(at)
        if keyword not in _KEYWORDS:
            raise stream.problem(
                "invalid-template-control-keyword",
                f'"{keyword}" is not a valid template control keyword.{did_you_mean(keyword, _KEYWORDS)}',
                at,
                first,
            )
        directive = _Directive(keyword, stream.span(first, at))
        if keyword == "if":
            directive.expression = self.parse_expression()
        elif keyword == "for":
            self._for_names(directive)
            directive.expression = self.parse_expression()
        return directive

    def _for_names(self, directive: _Directive) -> None:
        """The names that a for directive binds."""
        stream = self.stream
        directive.value_name = self._for_name("For directive requires variable name after 'for'.")
        if stream.peek() == ",":
            stream.take()
            directive.key_name = directive.value_name
            directive.value_name = self._for_name("For directive requires value variable name after comma.")
        if not stream.peek_is_word("in"):
            raise stream.problem("invalid-for-directive", "For directive requires 'in' keyword after names.")
        stream.take()

    def _for_name(self, complaint: str) -> str:
        if self.stream.peek() != scanner.IDENT:
            raise self.stream.problem("invalid-for-directive", complaint)
        return self.stream.tokens.word(self.stream.take())

    # --- shape ---------------------------------------------------------------------------------

    def _tree(self, pieces: list[_Piece], span: Span, end: Span) -> Expression:
        """The expression that a row of pieces makes; `end` is the mark that closes the template."""
        if len(pieces) == 1 and isinstance(pieces[0], _Interpolation):
            return TemplateWrap(pieces[0].expression, span)
        pieces = _melded(pieces)
        if not pieces:
            return StringLiteral("", span)
        if len(pieces) == 1 and isinstance(pieces[0], _Text):
            return StringLiteral(pieces[0].value, span)
        stack = [_Open(None)]
        deepest = 0
        for piece in pieces:
            self._place(piece, stack)
            deepest = max(deepest, len(stack) - 1)
        self.stream.lengthen(deepest)
        if len(stack) > 1:
            self._unfinished(stack[-1], span, end)
        return Template(tuple(stack[0].parts), span)

    def _place(self, piece: _Piece, stack: list[_Open]) -> None:
        """Put a piece where it belongs: into the innermost open directive, or open or close one."""
        if isinstance(piece, _Text):
            place = self.stream.positions.span(piece.begin, piece.end)
            stack[-1].parts.append(StringLiteral(piece.value, place))
        elif isinstance(piece, _Interpolation):
            stack[-1].parts.append(piece.expression)
        elif piece.keyword in _ENDS:
            stack.append(_Open(piece))
        else:
            self._close(piece, stack)

    def _close(self, end: _Directive, stack: list[_Open]) -> None:
        """`else`, `endif` or `endfor`."""
        opened = stack[-1]
        start = opened.directive
        if start is None:
            raise self._unexpected(end, "The control directives within this template are unbalanced.")
        if end.keyword == "else":
            if start.keyword == "for":
                raise self._unexpected(end, "An else clause is not expected for a for directive.")
            if opened.then is not None:
                raise self._unexpected(
                    end, f"Already in the else clause for the if started at {describe(start.span)}."
                )
            opened.then, opened.parts = opened.parts, []
            return
        if end.keyword != _ENDS[start.keyword]:
            raise self._unexpected(
                end,
                f"Expecting an {_ENDS[start.keyword]} directive for the {start.keyword} started at "
                f"{describe(start.span)}.",
            )
        stack.pop()
        stack[-1].parts.append(_finished(opened, start, end.span))

    def _unexpected(self, end: _Directive, detail: str) -> MalformedError:
        self.stream.note(
            "unexpected-directive", detail, end.span, headline=f"Unexpected {end.keyword} directive"
        )
        return MalformedError()

    def _unfinished(self, opened: _Open, span: Span, end: Span) -> None:
        start = opened.directive
        assert start is not None
        self.stream.note(
            "unexpected-end-of-template",
            f"The {start.keyword} directive at {describe(start.span)} is missing its corresponding "
            f"{_ENDS[start.keyword]} directive.",
            end,
            span,
        )
        raise MalformedError


def _finished(opened: _Open, start: _Directive, end: Span) -> Expression:
    """The expression of a directive that is closed."""
    assert start.expression is not None
    span = start.span.to(end)
    if start.keyword == "for":
        return TemplateFor(start.key_name, start.value_name, start.expression, tuple(opened.parts), span)
    if opened.then is None:
        return TemplateIf(start.expression, tuple(opened.parts), (), span)
    return TemplateIf(start.expression, tuple(opened.then), tuple(opened.parts), span)


def _trim_end(pieces: list[_Piece]) -> None:
    """`${~` and `%{~` take the white space at the end of the literal piece before them."""
    if pieces and isinstance(pieces[-1], _Text):
        pieces[-1].value = pieces[-1].value.rstrip(_SPACE)


def _flush(pieces: list[_Piece]) -> None:
    """Take the indentation that all lines of a `<<-` heredoc share off each of them.

    Every white-space character counts as one. Blank lines do not count, and a line that begins
    with a sequence has no indentation. Whether a piece begins a line is decided after trimming.
    """
    leading: list[_Text] = []
    least: int | None = None
    newline = True
    for piece in pieces:
        text = piece if isinstance(piece, _Text) else None
        if newline:
            newline = False
            if text is None:
                least = 0
            elif text.value.strip(_SPACE) or not text.value.endswith("\n"):
                indent = len(text.value) - len(text.value.lstrip(_SPACE))
                leading.append(text)
                least = indent if least is None else min(least, indent)
        if text is not None and text.value.endswith("\n"):
            newline = True
    for text in leading:
        text.value = text.value[least or 0 :]
        text.begin += least or 0


def _melded(pieces: list[_Piece]) -> list[_Piece]:
    """The pieces with neighbouring literals joined."""
    joined: list[_Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(piece, _Text) and isinstance(last, _Text):
            last.value += piece.value
            last.end = piece.end
        else:
            joined.append(piece)
    return joined
