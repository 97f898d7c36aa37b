"""Parser of templates: quoted strings, heredocs and template files.

They may have `${ }` and `%{ }` sequences. A template is first parsed to a flat list of pieces,
because `~` markers and the flush heredoc `<<-` work on literal pieces; then the directives give the
list its structure.
"""

from collections.abc import Callable

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Span, suggest_name
from nexusform.language.syntax import scanner
from nexusform.language.syntax.scanner import describe_span
from nexusform.language.syntax.syntax_nodes import (
    Expression,
    StringLiteral,
    Template,
    TemplateFor,
    TemplateIf,
    TemplateWrap,
)
from nexusform.language.syntax.token_stream import (
    MalformedSyntaxError,
    TokenStream,
    decode_plain,
    decode_quoted_text,
)

# White space for `~` and `<<-`.
_SPACE = (
    " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_ENDS = {"if": "endif", "for": "endfor"}
_KEYWORDS = ("if", "for", "else", "endif", "endfor")


class _LiteralText(Struct):
    """Literal piece; `begin` and `end` are character offsets."""

    value: str
    begin: int
    end: int


class _Interpolation(Struct):
    """`${ expression }`."""

    expression: Expression


class _Directive(Struct):
    """`%{ keyword ... }`; names only for a `for`."""

    keyword: str
    span: Span
    expression: Expression | None = None
    key_name: str | None = None
    value_name: str = ""


_Piece = _LiteralText | _Interpolation | _Directive


class _OpenDirective(Struct):
    """Directive without its end so far, and the parts parsed for it."""

    directive: _Directive | None
    parts: list[Expression] = field(default_factory=list)
    # The first branch, after `else`.
    then: list[Expression] | None = None


class TemplateParser:
    """Parser of templates from a token stream; `parse_expression` parses the expressions inside."""

    def __init__(self, stream: TokenStream, parse_expression: Callable[[], Expression]) -> None:
        self.stream = stream
        self.parse_expression = parse_expression

    def parse_quoted(self) -> Expression:
        """Parse a quoted string or heredoc, from its opening mark to its closing mark."""
        stream = self.stream
        first = stream.read_token()
        closing = (
            scanner.CLOSE_QUOTE
            if stream.tokens.kinds[first] == scanner.OPEN_QUOTE
            else scanner.CLOSE_HEREDOC
        )
        pieces, last = self._parse_pieces(closing, first)
        # Its text may be indented.
        if stream.tokens.get_text(first).startswith("<<-"):
            _remove_shared_heredoc_indent(pieces)
        return self._build_template_expression(
            pieces, stream.build_span(first, last), stream.build_span(last, last)
        )

    def parse_bare(self) -> Expression:
        """Parse a whole text as a template."""
        stream = self.stream
        pieces, last = self._parse_pieces(scanner.END, first=0)
        span = stream.positions.build_span(stream.tokens.starts[0], stream.tokens.ends[last])
        return self._build_template_expression(pieces, span, stream.build_span(last, last))

    def decode_string(self, index: int) -> str:
        """Decode a STRING token, which has no template sequences."""
        tokens = self.stream.tokens
        # Without the quotation marks.
        return self._decode_text(tokens.starts[index] + 1, tokens.ends[index] - 1)

    def _decode_text(self, begin: int, end: int) -> str:
        """Decode the escapes of a text in quotes, from `begin` to `end`.

        Invalid ones are reported.
        """
        stream = self.stream

        def report_escape(problem: str, first: int, last: int) -> None:
            """Report an escape between two offsets in the text."""
            span = stream.positions.build_span(begin + first, begin + last)
            stream.add_problem("invalid-escape-sequence", problem, span)

        return decode_quoted_text(stream.tokens.text[begin:end], report_escape)

    def _parse_pieces(self, closing: str, first: int) -> tuple[list[_Piece], int]:
        """Parse the pieces after the token `first`.

        Return them, and the index of the token of kind `closing`.
        """
        stream = self.stream
        tokens = stream.tokens
        pieces: list[_Piece] = []
        # Whether the last piece is a sequence (`${ }`, `%{ }`) with `~}`, which
        # removes later blanks.
        trim = False
        while True:
            index = stream.index
            kind = tokens.kinds[index]
            if kind == closing:
                stream.read_token()
                return pieces, index
            if kind in {scanner.QUOTED_TEXT, scanner.PLAIN_TEXT}:
                stream.index += 1
                begin = tokens.starts[index]
                end = tokens.ends[index]
                is_quoted = kind == scanner.QUOTED_TEXT
                text = (
                    self._decode_text(begin, end)
                    if is_quoted
                    else decode_plain(tokens.text[begin:end])
                )
                pieces.append(_LiteralText(text.lstrip(_SPACE) if trim else text, begin, end))
                trim = False
            elif kind in {scanner.INTERPOLATION, scanner.DIRECTIVE}:
                last = pieces[-1] if pieces else None
                if tokens.get_text(index).endswith("~") and isinstance(last, _LiteralText):
                    last.value = last.value.rstrip(_SPACE)
                piece, trim = self._parse_sequence(kind)
                pieces.append(piece)
            else:
                raise self._report_unterminated(closing, first, index)

    def _report_unterminated(self, closing: str, first: int, index: int) -> MalformedSyntaxError:
        """Report a string or heredoc from token `first` on, unclosed at token `index`.

        Return the exception.
        """
        detail = "No closing marker was found for the string."
        if closing == scanner.CLOSE_HEREDOC:
            marker = self.stream.tokens.get_text(first).lstrip("<-").strip()
            detail += (
                f' A heredoc ends at a line that contains only "{marker}" and ends with a line '
                "break."
            )
            # An open heredoc is reported at its start: the end of the file is not helpful.
            index = first
        return self.stream.report_error("unterminated-template-string", detail, index, since=first)

    def _parse_sequence(self, kind: str) -> tuple[_Piece, bool]:
        """Parse a `${ }` or `%{ }`.

        Return it, and whether its end trims the text after it.
        """
        stream = self.stream
        outer = stream.skip_newlines
        stream.skip_newlines = True
        try:
            first = stream.read_token()
            piece: _Piece
            if kind == scanner.INTERPOLATION:
                if stream.peek() == scanner.SEQUENCE_END:
                    raise stream.report_error(
                        "missing-expression",
                        'There is no expression between "${" and "}". Write one, or write "$${" '
                        "for the "
                        "characters themselves.",
                        since=first,
                    )
                piece = _Interpolation(self.parse_expression())
                last = self._parse_sequence_end(first)
            else:
                directive = self._parse_directive(first)
                last = self._parse_sequence_end(first, directive.keyword)
                directive.span = stream.build_span(first, last)
                piece = directive
        finally:
            stream.skip_newlines = outer
        return piece, stream.tokens.get_text(last) == "~}"

    def _parse_sequence_end(self, first: int, keyword: str = "") -> int:
        """Read the closing brace, and return its index.

        `keyword` is "if", "for", ... in a `%{ }`, "" in a `${ }`.
        """
        stream = self.stream
        kind = stream.peek()
        if kind == scanner.SEQUENCE_END:
            return stream.read_token()
        if keyword:
            detail = "Expected a closing brace to end the sequence, but found extra characters."
            headline = f"Extra characters in {keyword} marker"
            raise stream.report_error(
                "extra-characters-in-marker", detail, since=first, headline=headline
            )
        raise self._report_unclosed_sequence(kind, first)

    def _report_unclosed_sequence(self, kind: str, first: int) -> MalformedSyntaxError:
        """Report the token found in place of the closing brace of a `${`.

        Return the exception to raise.
        """
        stream = self.stream
        # A quote was meant to close the template.
        if kind in {scanner.END, scanner.CLOSE_QUOTE, scanner.OPEN_QUOTE}:
            container = "file" if kind == scanner.END else "quoted template"
            stream.add_problem(
                "unclosed-template-interpolation-sequence",
                "There is no closing brace for this interpolation sequence before the end of the "
                f"{container}. This might be caused by incorrect nesting inside the given "
                "expression.",
                stream.build_span(first, first),
            )
            return MalformedSyntaxError()
        detail = (
            "Expected a closing brace to end the interpolation expression, but found extra "
            "characters.\n\n"
            "This can happen when you include interpolation syntax for another language, such as "
            "shell "
            "scripting, but forget to escape the interpolation start token. If this is an "
            "embedded sequence "
            'for another language, escape it by starting with "$${" instead of just "${".'
        )
        if kind == ":":
            detail = (
                "Template interpolation doesn't expect a colon at this location. Did you intend "
                "this to be a "
                "literal sequence to be processed as part of another language? If so, you can "
                "escape it by "
                'starting with "$${" instead of just "${".'
            )
        return stream.report_error(
            "extra-characters-after-interpolation-expression", detail, since=first
        )

    def _parse_directive(self, first: int) -> _Directive:
        """Parse the `%{` at token `first` up to its closing brace.

        Keyword, `for` names, and `if` or `for` value.
        """
        stream = self.stream
        detail = (
            'A template directive keyword ("if", "for", etc) is expected at the beginning of a %{ '
            "sequence."
        )
        index = stream.require_token(
            scanner.IDENT, "invalid-template-directive", detail, since=first
        )
        keyword = stream.tokens.get_text(index)
        if keyword not in _KEYWORDS:
            detail = (
                f'"{keyword}" is not a valid template control '
                f"keyword.{suggest_name(keyword, _KEYWORDS)}"
            )
            raise stream.report_error(
                "invalid-template-control-keyword", detail, index, since=first
            )
        directive = _Directive(keyword, stream.build_span(first, index))
        if keyword == "if":
            directive.expression = self.parse_expression()
        elif keyword == "for":
            missing_in = "For directive requires 'in' keyword after names."
            names = stream.read_loop_names("invalid-for-directive", "For directive", missing_in)
            directive.key_name, directive.value_name = names
            directive.expression = self.parse_expression()
        return directive

    def _build_template_expression(self, pieces: list[_Piece], span: Span, end: Span) -> Expression:
        """Build the expression of a list of pieces.

        `span` is the whole template, `end` its closing mark.
        """
        if len(pieces) == 1 and isinstance(pieces[0], _Interpolation):
            # Its value keeps its type.
            return TemplateWrap(pieces[0].expression, span)
        pieces = _merge_adjacent_literals(pieces)
        if not pieces:
            return StringLiteral("", span)
        if len(pieces) == 1 and isinstance(pieces[0], _LiteralText):
            return StringLiteral(pieces[0].value, span)
        # The template itself, then its open directives, innermost last.
        stack = [_OpenDirective(None)]
        # Largest number of nested directives.
        deepest = 0
        for piece in pieces:
            if isinstance(piece, _LiteralText):
                literal_span = self.stream.positions.build_span(piece.begin, piece.end)
                stack[-1].parts.append(StringLiteral(piece.value, literal_span))
            elif isinstance(piece, _Interpolation):
                stack[-1].parts.append(piece.expression)
            elif piece.keyword in _ENDS:
                # The start of an `if` or `for`.
                stack.append(_OpenDirective(piece))
            else:
                # `else`, `endif` or `endfor`.
                self._process_directive_end(piece, stack)
            deepest = max(deepest, len(stack) - 1)
        self.stream.add_nesting_levels(deepest)
        # A directive is still open.
        if len(stack) > 1:
            start = stack[-1].directive
            assert start is not None
            detail = (
                f"The {start.keyword} directive at {describe_span(start.span)} is missing its "
                "corresponding "
                f"{_ENDS[start.keyword]} directive."
            )
            self.stream.add_problem("unexpected-end-of-template", detail, end, span)
            raise MalformedSyntaxError
        return Template(tuple(stack[0].parts), span)

    def _process_directive_end(self, end: _Directive, stack: list[_OpenDirective]) -> None:
        """Apply an `else`, `endif` or `endfor` (`end`) to the innermost open directive.

        It is the last one of the stack.
        """
        open_directive = stack[-1]
        start = open_directive.directive
        # The template itself: no directive is open.
        if start is None:
            raise self._report_unexpected(
                end, "The control directives within this template are unbalanced."
            )
        if end.keyword == "else":
            if start.keyword == "for":
                raise self._report_unexpected(
                    end, "An else clause is not expected for a for directive."
                )
            if open_directive.then is not None:
                detail = (
                    f"Already in the else clause for the if started at {describe_span(start.span)}."
                )
                raise self._report_unexpected(end, detail)
            # Further parts are those of `else`.
            open_directive.then = open_directive.parts
            open_directive.parts = []
            return
        if end.keyword != _ENDS[start.keyword]:
            raise self._report_unexpected(
                end,
                f"Expecting an {_ENDS[start.keyword]} directive for the {start.keyword} started at "
                f"{describe_span(start.span)}.",
            )
        stack.pop()
        stack[-1].parts.append(_build_directive_expression(open_directive, start, end.span))

    def _report_unexpected(self, end: _Directive, detail: str) -> MalformedSyntaxError:
        """Report an `else` or end of a directive in a wrong place.

        Return the exception to raise.
        """
        headline = f"Unexpected {end.keyword} directive"
        self.stream.add_problem("unexpected-directive", detail, end.span, headline=headline)
        return MalformedSyntaxError()


def _build_directive_expression(
    open_directive: _OpenDirective, start: _Directive, end: Span
) -> Expression:
    """Build the expression of a complete `%{ if }` or `%{ for }`."""
    assert start.expression is not None
    span = start.span.extend_to(end)
    if start.keyword == "for":
        return TemplateFor(
            start.key_name, start.value_name, start.expression, tuple(open_directive.parts), span
        )
    # `parts` are those read since the `else`.
    then = open_directive.then
    otherwise = open_directive.parts
    # There was no `else`: they are those of the `if`.
    if then is None:
        then = open_directive.parts
        otherwise = []
    return TemplateIf(start.expression, tuple(then), tuple(otherwise), span)


def _remove_shared_heredoc_indent(pieces: list[_Piece]) -> None:
    """Remove the shared indentation of all lines of a `<<-` heredoc.

    Every white-space character counts as one. Blank lines are ignored, and a line that starts with
    a sequence has no indentation. A line break removed by `~` starts no line.
    """
    # Texts at the start of a line that is not blank.
    leading: list[_LiteralText] = []
    # Widths of the white space before them; 0 for a sequence at the start of a line.
    indents: list[int] = []
    is_line_start = True
    for piece in pieces:
        if isinstance(piece, _LiteralText):
            ends_line = piece.value.endswith("\n")
            is_blank = ends_line and not piece.value.strip(_SPACE)
            if is_line_start and not is_blank:
                leading.append(piece)
                indents.append(len(piece.value) - len(piece.value.lstrip(_SPACE)))
            is_line_start = ends_line
        elif is_line_start:
            indents.append(0)
            is_line_start = False
    shared_indent = min(indents, default=0)
    for text in leading:
        text.value = text.value[shared_indent:]
        text.begin += shared_indent


def _merge_adjacent_literals(pieces: list[_Piece]) -> list[_Piece]:
    """Join literal pieces in a row: the lines of a heredoc are separate pieces."""
    joined: list[_Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(piece, _LiteralText) and isinstance(last, _LiteralText):
            last.value += piece.value
            last.end = piece.end
        else:
            joined.append(piece)
    return joined
