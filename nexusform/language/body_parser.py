"""Bodies: arguments and blocks, and how reading goes on after a mistake in one of them."""

from __future__ import annotations

from msgspec import Struct, field

from nexusform.language.expression_parser import ExpressionParser
from nexusform.language.syntax import scanner
from nexusform.language.syntax.nodes import Attribute, Block, Body, Label, Traversal
from nexusform.language.syntax.positions import describe
from nexusform.language.syntax.token_stream import MalformedError, TokenStream
from nexusform.source import Span

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
# After this many mistakes the rest of a file is not looked at: it is probably not HCL at all.
_MOST_PROBLEMS = 100
_FOREIGN_QUOTES = frozenset({scanner.INVALID, "'", "`"})
_REQUIRED = "argument-or-block-definition-required"
_UNCLOSED = (
    "There is no closing brace for this block before the end of the file. This may be caused by incorrect "
    "brace nesting elsewhere in this file."
)


class _Items(Struct):
    """What a body has so far."""

    attributes: dict[str, Attribute] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)


class _Brackets:
    """The brackets open at some point, as the closing marks they wait for, innermost last."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        self._counts = dict.fromkeys(_CLOSERS, 0)

    def open(self, closer: str) -> None:
        """Enter a bracket."""
        self.waiting.append(closer)
        self._counts[closer] += 1

    def close(self, closer: str) -> bool:
        """Leave the innermost bracket that waits for this mark, and any inside it; False: none does."""
        if not self._counts[closer]:
            return False
        innermost = ""
        while innermost != closer:
            innermost = self.waiting.pop()
            self._counts[innermost] -= 1
        return True


class BodyParser:
    """Reads bodies from a token stream. Only mistakes that leave no way on unwind."""

    def __init__(self, stream: TokenStream) -> None:
        self.stream = stream
        self.expressions = ExpressionParser(stream)

    def file(self) -> Body:
        """The body that is the whole file."""
        stream = self.stream
        items = _Items()
        while True:
            self._items(items)
            if stream.peek() == scanner.END:
                break
            stream.problem(_REQUIRED, "An argument or block definition is required here.")
            stream.take()  # a closing brace too many
        size = len(stream.tokens.text)
        end = stream.positions.span(size, size)
        return _body(items, stream.positions.span(0, size), end)

    def _items(self, items: _Items) -> None:
        """Arguments and blocks up to a closing brace or the end of the file, which is not read."""
        stream = self.stream
        kinds = stream.tokens.kinds
        while True:
            kind = kinds[stream.index]
            if kind == scanner.IDENT:
                self._item(items)
            elif kind == scanner.NEWLINE:
                stream.index += 1
            elif kind in {"}", scanner.END}:
                return
            else:
                self._not_an_item(kind)

    def _not_an_item(self, kind: str) -> None:
        """Say what stands where an argument or a block should, and go on behind it."""
        stream = self.stream
        first = stream.index
        if kind in {scanner.STRING, scanner.OPEN_QUOTE}:
            begin = stream.tokens.starts[first]
            stream.note(
                "invalid-argument-name",
                "Argument names must not be quoted.",
                stream.positions.span(begin, begin + 1),
            )
        else:
            stream.problem(_REQUIRED, "An argument or block definition is required here.")
        self._skip_item(first, first)

    def _item(self, items: _Items) -> None:
        """One argument or block; behind what is malformed parsing goes on with the next one."""
        stream = self.stream
        first = stream.index
        depth, block = stream.depth, stream.block
        following = stream.tokens.kinds[first + 1]
        stream.index = first + 1
        stream.reach = 0
        try:
            if following == "=":
                self._attribute(first, items)
            elif following in {"{", scanner.STRING, scanner.IDENT, scanner.OPEN_QUOTE}:
                self._block(first, items)
            else:
                raise stream.problem(
                    _REQUIRED,
                    "An argument or block definition is required here. To set an argument, use the equals "
                    'sign "=" to introduce the argument value.',
                    first + 1 if following in _FOREIGN_QUOTES else first,
                )
        except MalformedError:
            stream.skip_newlines = False
            stream.depth, stream.block = depth, block
            self._skip_item(first, stream.index)

    def _attribute(self, first: int, items: _Items) -> None:
        """One argument and the end of its line."""
        stream = self.stream
        attribute = self._bare_attribute(first)
        self._add(attribute, items)
        kind = stream.peek()
        if kind == scanner.NEWLINE:
            stream.index += 1
        elif kind == ",":
            raise stream.problem(
                "unexpected-comma-after-argument",
                "Argument definitions must be separated by newlines, not commas. An argument definition "
                "must end with a newline.",
                since=first,
            )
        elif kind != scanner.END:
            written = attribute.expression
            if isinstance(written, Traversal) and written.root.name == "if" and not written.steps:
                raise stream.problem(
                    "invalid-expression",
                    'There is no "if" expression. Write a condition as in: condition ? value : other_value.',
                    since=first,
                )
            raise stream.problem(
                "missing-newline-after-argument",
                "An argument definition must end with a newline.",
                since=first,
            )

    def _bare_attribute(self, first: int) -> Attribute:
        """`name = expression`, the name already read."""
        stream = self.stream
        stream.index = first + 2
        expression = self.expressions.expression()
        name = stream.span(first, first)
        return Attribute(stream.tokens.word(first), expression, name.to(expression.span), name)

    def _add(self, attribute: Attribute, items: _Items) -> None:
        earlier = items.attributes.setdefault(attribute.name, attribute)
        if earlier is not attribute:
            self.stream.note(
                "attribute-redefined",
                f'The argument "{attribute.name}" was already set at {describe(earlier.name_span)}. Each '
                "argument may be set only once.",
                attribute.name_span,
            )

    # --- blocks --------------------------------------------------------------------------------

    def _block(self, first: int, items: _Items) -> None:
        """One block and the end of its last line."""
        stream = self.stream
        labels = self._labels(first)
        opening = stream.take()
        header = stream.span(first, opening - 1)
        outer = stream.block
        stream.block = stream.tokens.text[stream.tokens.starts[first] : stream.tokens.ends[opening - 1]]
        stream.descend()
        body, closing = self._block_body(first, opening)
        stream.depth -= 1
        stream.block = outer
        span = stream.span(first, closing)
        items.blocks.append(
            Block(stream.tokens.word(first), labels, body, span, header, stream.span(first, first))
        )
        kind = stream.peek()
        if kind == scanner.NEWLINE:
            stream.index += 1
        elif kind != scanner.END:
            raise stream.problem(
                "missing-newline-after-block-definition",
                "A block definition must end with a newline.",
                since=first,
            )

    def _labels(self, first: int) -> tuple[Label, ...]:
        """The labels up to the opening brace, which is not read."""
        stream = self.stream
        labels: list[Label] = []
        while True:
            kind = stream.peek()
            index = stream.index
            if kind == "{":
                return tuple(labels)
            if kind == scanner.STRING:
                text = self.expressions.templates.plain_string(stream.take())
                labels.append(Label(text, stream.span(index, index)))
            elif kind == scanner.IDENT:
                stream.take()
                labels.append(Label(stream.tokens.word(index), stream.span(index, index)))
            elif kind == scanner.OPEN_QUOTE:
                labels.append(self._quoted_label())
            else:
                raise self._bad_header(kind, first)

    def _bad_header(self, kind: str, first: int) -> MalformedError:
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
        return self.stream.problem("invalid-block-definition", detail, since=first)

    def _quoted_label(self) -> Label:
        """A label with `$` or `%` sequences in it, of which only the escaped ones are allowed."""
        stream = self.stream
        first = stream.take()
        kinds = stream.tokens.kinds
        while kinds[stream.index] == scanner.QUOTED_TEXT:
            stream.index += 1
        index = stream.index
        if kinds[index] == scanner.CLOSE_QUOTE:
            stream.index = first
            template = self.expressions.templates.quoted_or_heredoc()
            return Label(getattr(template, "value", ""), stream.span(first, index))
        if kinds[index] in {scanner.INTERPOLATION, scanner.DIRECTIVE}:
            mark = stream.tokens.text[stream.tokens.starts[index]]
            raise stream.problem(
                "invalid-string-literal",
                f'Template sequences are not allowed in this string. To include a literal "{mark}", double '
                f'it (as "{mark}{mark}") to escape it.',
                index,
                first,
            )
        raise stream.problem(
            "unterminated-string-literal",
            "Unable to find the closing quote mark before the end of the file.",
            index,
            first,
        )

    def _block_body(self, first: int, opening: int) -> tuple[Body, int]:
        """The body after an opening brace, and the index of its closing brace."""
        stream = self.stream
        items = _Items()
        problems = len(stream.diagnostics)
        if stream.tokens.kinds[stream.index] in {scanner.NEWLINE, "}", scanner.END}:
            self._items(items)
        else:
            self._only_argument(items)
        if stream.peek() != scanner.END:
            closing = stream.take()
        else:
            closing = stream.index
            if len(stream.diagnostics) == problems:  # else one of them explains the missing brace
                stream.note(
                    "unclosed-configuration-block",
                    _UNCLOSED,
                    stream.span(opening, opening),
                    stream.span(first, opening),
                )
        end = stream.span(closing, closing)
        return _body(items, stream.span(opening, closing), end), closing

    def _only_argument(self, items: _Items) -> None:
        """The one argument of a block written on a single line."""
        stream = self.stream
        first = stream.index
        kind = stream.peek()
        following = stream.tokens.kinds[min(first + 1, len(stream.tokens.kinds) - 1)]
        if kind != scanner.IDENT:
            raise stream.problem(_REQUIRED, "An argument or block definition is required here.")
        if following != "=":
            raise self._not_an_argument(first, following)
        self._add(self._bare_attribute(first), items)
        kind = stream.peek()
        if kind in {"}", scanner.END}:
            return
        detail = "A single-line block definition must end with a closing brace immediately after its single "
        detail += "argument definition."
        if kind == ",":
            detail = (
                "Single-line block syntax can include only one argument definition. To define multiple "
                "arguments, use the multi-line block syntax with one argument definition per line."
            )
        elif kind == scanner.NEWLINE:
            detail = (
                "An argument definition on the same line as its containing block creates a single-line "
                "block definition, which must also be closed on the same line. Place the block's closing "
                "brace immediately after the argument definition."
            )
        raise stream.problem("invalid-single-argument-block-definition", detail)

    def _not_an_argument(self, first: int, following: str) -> MalformedError:
        stream = self.stream
        if following not in {scanner.STRING, scanner.OPEN_QUOTE, "{", scanner.IDENT}:
            return stream.problem(
                _REQUIRED,
                "An argument or block definition is required here. To set an argument, use the equals sign "
                '"=" to introduce the argument value.',
                first,
            )
        stream.note(
            "argument-definition-required",
            "A single-line block definition can contain only a single argument. If you meant to define "
            f'argument "{stream.tokens.word(first)}", use an equals sign to assign it a value. To define a '
            "nested block, place it on a line of its own within its parent block.",
            stream.span(first, first + 1),
        )
        return MalformedError()

    # --- going on after a mistake --------------------------------------------------------------

    def _skip_item(self, first: int, wrong: int) -> None:
        """Go to the line after the item that begins at `first` and went wrong at `wrong`.

        Brackets opened by the item are closed first, so that what they hold is not taken for
        items; when they never close, the next line is as good as any.
        """
        stream = self.stream
        kinds = stream.tokens.kinds
        if len(stream.diagnostics) >= _MOST_PROBLEMS:
            stream.index = len(kinds) - 1
            return
        opened = _Brackets()
        for index in range(first, len(kinds)):
            kind = scanner.CLOSE_QUOTE if kinds[index] == scanner.QUOTED_NEWLINE else kinds[index]
            if kind in _CLOSERS_OF:
                opened.open(_CLOSERS_OF[kind])
            elif kind in _CLOSERS:
                if not opened.close(kind) and kind == "}" and index >= wrong:
                    stream.index = index  # the end of the block that the item stands in
                    return
            elif kind == scanner.NEWLINE and not opened.waiting and index >= wrong:
                stream.index = index + 1
                return
        # The end of the file: everything has been skipped, unless a bracket was never closed.
        stream.index = _next_line(kinds, wrong) if opened.waiting else len(kinds) - 1


def _next_line(kinds: list[str], index: int) -> int:
    while kinds[index] not in {scanner.NEWLINE, scanner.END}:
        index += 1
    return index if kinds[index] == scanner.END else index + 1


def _body(items: _Items, span: Span, end: Span) -> Body:
    return Body(tuple(items.attributes.values()), tuple(items.blocks), span, end)
