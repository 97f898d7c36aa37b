"""Parser of bodies: arguments and blocks, with recovery after errors."""

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Span
from nexusform.language.expression_parser import ExpressionParser
from nexusform.language.syntax import scanner
from nexusform.language.syntax.scanner import describe_span
from nexusform.language.syntax.syntax_nodes import Attribute, Block, Body, Label, Traversal
from nexusform.language.syntax.token_stream import MalformedSyntaxError, TokenStream

_CLOSERS_OF = {
    "{": "}",
    "(": ")",
    "[": "]",
    scanner.INTERPOLATION: scanner.SEQUENCE_END,
    scanner.DIRECTIVE: scanner.SEQUENCE_END,
    scanner.OPEN_QUOTE: scanner.CLOSE_QUOTE,
    scanner.OPEN_HEREDOC: scanner.CLOSE_HEREDOC,
}
_CLOSERS = frozenset(_CLOSERS_OF.values())
# Errors after which the rest of a file is skipped: it is probably not HCL.
_MAX_PROBLEMS = 100
_FOREIGN_QUOTES = frozenset({scanner.INVALID, "'", "`"})
_REQUIRED = "argument-or-block-definition-required"
_REQUIRED_DETAIL = "An argument or block definition is required here."
_EQUALS_SIGN_DETAIL = (
    f'{_REQUIRED_DETAIL} To set an argument, use the equals sign "=" to introduce the argument '
    "value."
)
_UNCLOSED = (
    "There is no closing brace for this block before the end of the file. This may be caused by "
    "incorrect "
    "brace nesting elsewhere in this file."
)


class _BodyItems(Struct):
    """Arguments and blocks of a body so far."""

    attributes: dict[str, Attribute] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)


class _OpenBrackets:
    """Open brackets, as their expected closing marks, innermost last."""

    def __init__(self) -> None:
        # Closing marks, the innermost one last.
        self.expected: list[str] = []
        # Of open brackets, by closing mark.
        self._counts = dict.fromkeys(_CLOSERS, 0)

    def open(self, closer: str) -> None:
        """Add an opened bracket, by its closing mark such as `}`."""
        self.expected.append(closer)
        self._counts[closer] += 1

    def close(self, closer: str) -> bool:
        """Close the innermost bracket with this closing mark, and all inside it.

        Return False if none is open.
        """
        if not self._counts[closer]:
            # A closing mark too many.
            return False
        innermost = ""
        while innermost != closer:
            innermost = self.expected.pop()
            self._counts[innermost] -= 1
        return True


class BodyParser:
    """Parser of bodies from a token stream.

    Only unrecoverable errors unwind.
    """

    def __init__(self, stream: TokenStream) -> None:
        self.stream = stream
        self.expressions = ExpressionParser(stream)

    def parse_file(self) -> Body:
        """Parse the body of a whole file."""
        stream = self.stream
        items = _BodyItems()
        while True:
            self._parse_items(items)
            if stream.peek() == scanner.END:
                break
            # Not raised: parsing continues.
            stream.report_error(_REQUIRED, _REQUIRED_DETAIL)
            # A closing brace too many.
            stream.read_token()
        size = len(stream.tokens.text)
        end = stream.positions.build_span(size, size)
        return _build_body(items, stream.positions.build_span(0, size), end)

    def _parse_items(self, items: _BodyItems) -> None:
        """Parse arguments and blocks up to a closing brace or the end of the file, exclusive."""
        stream = self.stream
        kinds = stream.tokens.kinds
        while True:
            kind = kinds[stream.index]
            if kind == scanner.IDENT:
                self._parse_item(items)
            elif kind == scanner.NEWLINE:
                stream.index += 1
            elif kind in {"}", scanner.END}:
                # The caller reads the brace.
                return
            else:
                self._report_invalid_item(kind)

    def _report_invalid_item(self, kind: str) -> None:
        """Report an item of a body that does not start with a name, and skip it.

        `kind` is that of its first token.
        """
        stream = self.stream
        first = stream.index
        if kind in {scanner.STRING, scanner.OPEN_QUOTE}:
            # The quotation mark.
            begin = stream.tokens.starts[first]
            detail = "Argument names must not be quoted."
            stream.add_problem(
                "invalid-argument-name", detail, stream.positions.build_span(begin, begin + 1)
            )
        else:
            stream.report_error(_REQUIRED, _REQUIRED_DETAIL)
        self._skip_malformed_item(first, error_index=first)

    def _parse_item(self, items: _BodyItems) -> None:
        """Parse one argument or block; after a malformed one parsing continues with the next.

        The token after the name decides: `=` begins the value of an argument, a label or `{`
        continues a block.
        """
        stream = self.stream
        first = stream.index
        # To be restored after an error.
        depth = stream.depth
        block = stream.block
        following = stream.tokens.kinds[first + 1]
        stream.index = first + 1
        # The nesting depth reached in the expressions of this item.
        stream.reach = 0
        try:
            if following == "=":
                self._parse_attribute(first, items)
            elif following in {"{", scanner.STRING, scanner.IDENT, scanner.OPEN_QUOTE}:
                self._parse_block(first, items)
            else:
                # Such a quote has a message of its own.
                index = first + 1 if following in _FOREIGN_QUOTES else first
                raise stream.report_error(_REQUIRED, _EQUALS_SIGN_DETAIL, index)
        except MalformedSyntaxError:
            # As outside of brackets.
            stream.skip_newlines = False
            stream.depth = depth
            stream.block = block
            self._skip_malformed_item(first, stream.index)

    def _parse_attribute(self, first: int, items: _BodyItems) -> None:
        """Parse one argument and the end of its line."""
        stream = self.stream
        attribute = self._parse_assignment(first)
        self._add_attribute(attribute, items)
        kind = stream.peek()
        if kind == scanner.NEWLINE:
            stream.index += 1
        elif kind == ",":
            detail = (
                "Argument definitions must be separated by newlines, not commas. An argument "
                "definition "
            )
            detail += "must end with a newline."
            raise stream.report_error("unexpected-comma-after-argument", detail, since=first)
        elif kind != scanner.END:
            # The end of the file ends the line, too.
            expression = attribute.expression
            if (
                isinstance(expression, Traversal)
                and expression.root.name == "if"
                and not expression.steps
            ):
                detail = (
                    'There is no "if" expression. Write a condition as in: condition ? value : '
                    "other_value."
                )
                raise stream.report_error("invalid-expression", detail, since=first)
            detail = "An argument definition must end with a newline."
            raise stream.report_error("missing-newline-after-argument", detail, since=first)

    def _parse_assignment(self, first: int) -> Attribute:
        """Parse `name = expression`, with the name at the token `first`."""
        stream = self.stream
        # After the name and the equals sign.
        stream.index = first + 2
        expression = self.expressions.parse_expression()
        name = stream.build_span(first, first)
        return Attribute(
            stream.tokens.get_text(first), expression, name.extend_to(expression.span), name
        )

    def _add_attribute(self, attribute: Attribute, items: _BodyItems) -> None:
        """Add an argument, or report an error if its name is already set."""
        earlier = items.attributes.setdefault(attribute.name, attribute)
        if earlier is not attribute:
            self.stream.add_problem(
                "attribute-redefined",
                f'The argument "{attribute.name}" was already set at '
                f"{describe_span(earlier.name_span)}. "
                "Each argument may be set only once.",
                attribute.name_span,
            )

    def _parse_block(self, first: int, items: _BodyItems) -> None:
        """Parse the block with its type at the token `first`, and the end of its last line."""
        stream = self.stream
        labels = self._parse_labels(first)
        opening = stream.read_token()
        # The type and the labels.
        header = stream.build_span(first, opening - 1)
        enclosing_block = stream.block
        stream.block = stream.tokens.text[
            stream.tokens.starts[first] : stream.tokens.ends[opening - 1]
        ]  # for messages
        stream.enter_level()
        body, closing = self._parse_block_body(first, opening)
        stream.depth -= 1
        stream.block = enclosing_block
        span = stream.build_span(first, closing)
        type_span = stream.build_span(first, first)
        items.blocks.append(
            Block(stream.tokens.get_text(first), labels, body, span, header, type_span)
        )
        kind = stream.peek()
        if kind == scanner.NEWLINE:
            stream.index += 1
        elif kind != scanner.END:
            detail = "A block definition must end with a newline."
            raise stream.report_error("missing-newline-after-block-definition", detail, since=first)

    def _parse_labels(self, first: int) -> tuple[Label, ...]:
        """Parse the labels up to the opening brace, exclusive."""
        stream = self.stream
        labels: list[Label] = []
        while True:
            kind = stream.peek()
            index = stream.index
            if kind == "{":
                return tuple(labels)
            if kind == scanner.STRING:
                text = self.expressions.templates.decode_string(stream.read_token())
                labels.append(Label(text, stream.build_span(index, index)))
            elif kind == scanner.IDENT:
                stream.read_token()
                labels.append(Label(stream.tokens.get_text(index), stream.build_span(index, index)))
            elif kind == scanner.OPEN_QUOTE:
                # A string with `${` or `%{`.
                labels.append(self._parse_quoted_label())
            else:
                raise self._report_invalid_block_header(kind, first)

    def _report_invalid_block_header(self, kind: str, first: int) -> MalformedSyntaxError:
        """Report the token found in place of a label or the opening brace.

        Return the exception to raise.
        """
        detail = 'Either a quoted string block label or an opening brace ("{") is expected here.'
        if kind == "=":
            detail = (
                'The equals sign "=" indicates an argument definition, and must not be used when '
                "defining a block."
            )
        elif kind == scanner.NEWLINE:
            detail = (
                'A block definition must have block content delimited by "{" and "}", starting on '
                "the same line as the block header."
            )
        return self.stream.report_error("invalid-block-definition", detail, since=first)

    def _parse_quoted_label(self) -> Label:
        """Parse a label in quotes with `${` or `%{`.

        Only an escaped one (`$${`) is text. A template sequence is reported as an error, and so is
        a missing closing quote.
        """
        stream = self.stream
        # The opening quote.
        first = stream.read_token()
        kinds = stream.tokens.kinds
        while kinds[stream.index] == scanner.QUOTED_TEXT:
            stream.index += 1
        # Of the token after the text.
        index = stream.index
        if kinds[index] == scanner.CLOSE_QUOTE:
            # Parse it again, as a template without sequences: a StringLiteral.
            stream.index = first
            template = self.expressions.templates.parse_quoted()
            return Label(getattr(template, "value", ""), stream.build_span(first, index))
        if kinds[index] in {scanner.INTERPOLATION, scanner.DIRECTIVE}:
            mark = stream.tokens.text[stream.tokens.starts[index]]
            detail = (
                "Template sequences are not allowed in this string. To include a literal "
                f'"{mark}", double '
                f'it (as "{mark}{mark}") to escape it.'
            )
            raise stream.report_error("invalid-string-literal", detail, index, since=first)
        detail = "Unable to find the closing quote mark before the end of the file."
        raise stream.report_error("unterminated-string-literal", detail, index, since=first)

    def _parse_block_body(self, first: int, opening: int) -> tuple[Body, int]:
        """Parse the body after the `{` at token `opening` of the block at `first`.

        Return it and its `}` (an index).
        """
        stream = self.stream
        items = _BodyItems()
        previous_count = len(stream.diagnostics)
        # No argument on the same line.
        if stream.tokens.kinds[stream.index] in {scanner.NEWLINE, "}", scanner.END}:
            self._parse_items(items)
        else:
            self._parse_single_argument(items)
        if stream.peek() != scanner.END:
            closing = stream.read_token()
        else:
            closing = stream.index
            # Else a new one explains the missing brace.
            if len(stream.diagnostics) == previous_count:
                brace = stream.build_span(opening, opening)
                header = stream.build_span(first, opening)
                stream.add_problem(
                    "unclosed-configuration-block", _UNCLOSED, subject=brace, context=header
                )
        end = stream.build_span(closing, closing)
        return _build_body(items, stream.build_span(opening, closing), end), closing

    def _parse_single_argument(self, items: _BodyItems) -> None:
        """Parse the only argument of a block on one line, up to the closing brace, exclusive."""
        stream = self.stream
        first = stream.index
        kind = stream.peek()
        # Nothing follows the END token.
        following = stream.tokens.kinds[min(first + 1, len(stream.tokens.kinds) - 1)]
        if kind != scanner.IDENT:
            raise stream.report_error(_REQUIRED, _REQUIRED_DETAIL)
        if following != "=":
            raise self._report_invalid_argument(first, following)
        self._add_attribute(self._parse_assignment(first), items)
        kind = stream.peek()
        if kind in {"}", scanner.END}:
            # The caller reads the brace, or reports its absence.
            return
        detail = (
            "A single-line block definition must end with a closing brace immediately after its "
            "single "
        )
        detail += "argument definition."
        if kind == ",":
            detail = (
                "Single-line block syntax can include only one argument definition. To define "
                "multiple "
                "arguments, use the multi-line block syntax with one argument definition per line."
            )
        elif kind == scanner.NEWLINE:
            detail = (
                "An argument definition on the same line as its containing block creates a "
                "single-line "
                "block definition, which must also be closed on the same line. Place the block's "
                "closing "
                "brace immediately after the argument definition."
            )
        raise stream.report_error("invalid-single-argument-block-definition", detail)

    def _report_invalid_argument(self, first: int, following: str) -> MalformedSyntaxError:
        """Report a name without `=` in a one-line block.

        With a label or brace after it, it seems a nested block.
        """
        stream = self.stream
        if following not in {scanner.STRING, scanner.OPEN_QUOTE, "{", scanner.IDENT}:
            return stream.report_error(_REQUIRED, _EQUALS_SIGN_DETAIL, first)
        stream.add_problem(
            "argument-definition-required",
            "A single-line block definition can contain only a single argument. If you meant to "
            "define "
            f'argument "{stream.tokens.get_text(first)}", use an equals sign to assign it a '
            "value. To "
            "define a nested block, place it on a line of its own within its parent block.",
            stream.build_span(first, first + 1),
        )
        return MalformedSyntaxError()

    def _skip_malformed_item(self, first: int, error_index: int) -> None:
        """Skip to the line after a malformed item, or to the end of the block.

        The item begins at `first` and fails at `error_index`. Brackets opened by the item are
        closed first, so that their content is not parsed as items. If they are never closed, skip
        to the next line.
        """
        stream = self.stream
        kinds = stream.tokens.kinds
        if len(stream.diagnostics) >= _MAX_PROBLEMS:
            # Enough problems: skip the rest of the file.
            stream.index = len(kinds) - 1
            return
        brackets = _OpenBrackets()
        for index in range(first, len(kinds)):
            # The end of a line closes a quoted string.
            kind = scanner.CLOSE_QUOTE if kinds[index] == scanner.QUOTED_NEWLINE else kinds[index]
            if kind in _CLOSERS_OF:
                brackets.open(_CLOSERS_OF[kind])
            elif kind in _CLOSERS:
                # It closes no bracket of the item.
                is_surplus = not brackets.close(kind)
                if is_surplus and kind == "}" and index >= error_index:
                    # The end of the enclosing block.
                    stream.index = index
                    return
            elif kind == scanner.NEWLINE and not brackets.expected and index >= error_index:
                stream.index = index + 1
                return
        # The end of the file: everything has been skipped, unless a bracket was never closed.
        stream.index = _find_next_line(kinds, error_index) if brackets.expected else len(kinds) - 1


def _find_next_line(kinds: list[str], index: int) -> int:
    """Return the index of the first token of the next line, or of the end of the file."""
    while kinds[index] not in {scanner.NEWLINE, scanner.END}:
        index += 1
    return index if kinds[index] == scanner.END else index + 1


def _build_body(items: _BodyItems, span: Span, end: Span) -> Body:
    """Build a body; `end` is its closing brace, or the end of the file."""
    return Body(tuple(items.attributes.values()), tuple(items.blocks), span, end)
