"""Expressions: precedence, terms, traversals and splats.

Each method reads one construct from the token stream and gives its node; a syntax error is noted
and unwinds (token_stream.MalformedError).
"""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal, InvalidOperation

from nexusform.language.collection_parser import CollectionParser
from nexusform.language.syntax import nodes as syntax
from nexusform.language.syntax.scanner import (
    END,
    IDENT,
    NUMBER,
    OPEN_HEREDOC,
    OPEN_QUOTE,
    STRING,
)
from nexusform.language.syntax.token_stream import MalformedError, TokenStream
from nexusform.language.template_parser import TemplateParser
from nexusform.source import Span

_PRECEDENCE = {
    "||": 1,
    "&&": 2,
    "==": 3,
    "!=": 3,
    "<": 4,
    ">": 4,
    "<=": 4,
    ">=": 4,
    "+": 5,
    "-": 5,
    "*": 6,
    "/": 6,
    "%": 6,
}
_KEYWORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_LONGEST_NUMBER = 4000
_LARGEST_EXPONENT = 10_000


class ExpressionParser:
    """Reads expressions from a token stream."""

    def __init__(self, stream: TokenStream) -> None:
        self.stream = stream
        self.templates = TemplateParser(stream, self.expression)
        self.collections = CollectionParser(stream, self.expression)

    def expression(self) -> syntax.Expression:
        """Any expression: a conditional or what stands in one."""
        stream = self.stream
        reach, stream.reach = stream.reach, 0
        stream.descend()
        condition = self._binary(1)
        result = condition
        if stream.peek() == "?":
            result = self._conditional(condition)
        stream.depth -= 1
        stream.reach = max(reach, stream.reach)
        return result

    def _conditional(self, condition: syntax.Expression) -> syntax.Expression:
        stream = self.stream
        mark = stream.take()
        stream.lengthen()
        then = self.expression()
        if stream.peek() != ":":
            raise stream.problem(
                "missing-false-expression-in-conditional",
                "The conditional operator (...?...:...) requires a false expression, delimited by a colon.",
                since=mark,
            )
        stream.take()
        otherwise = self.expression()
        return syntax.Conditional(condition, then, otherwise, condition.span.to(otherwise.span))

    def _binary(self, least: int) -> syntax.Expression:
        """Operands joined by operators that bind at least as tightly as `least`."""
        stream = self.stream
        left = self._term()
        while True:
            operator = stream.peek()
            precedence = _PRECEDENCE.get(operator, 0)
            if precedence < least:
                return left
            stream.take()
            stream.lengthen()
            right = self._binary(precedence + 1)
            left = syntax.Binary(operator, left, right, left.span.to(right.span))

    # --- terms ---------------------------------------------------------------------------------

    def _term(self) -> syntax.Expression:
        """One operand with everything that follows it: `a.b[0]`, `f(x).y`, `-z`."""
        stream = self.stream
        kind = stream.peek()
        if kind == IDENT:
            return self._named()
        if kind == STRING:
            index = stream.take()
            text = syntax.StringLiteral(self.templates.plain_string(index), stream.span(index, index))
            return self._followed(text, stream.index)
        if kind == NUMBER:
            return self._followed(self._number(), stream.index)
        if kind in {OPEN_QUOTE, OPEN_HEREDOC}:
            return self._followed(self.templates.quoted_or_heredoc(), stream.index)
        if kind == "[":
            return self._followed(self.collections.tuple_or_for(), stream.index)
        if kind == "{":
            return self._followed(self.collections.object_or_for(), stream.index)
        if kind == "(":
            return self._followed(self._parentheses(), stream.index)
        if kind in {"-", "!"}:
            return self._unary(kind)
        raise self._no_term(kind)

    def _no_term(self, kind: str) -> Exception:
        if kind == END:
            return self.stream.problem(
                "missing-expression",
                "Expected the start of an expression, but found the end of the file.",
            )
        return self.stream.problem(
            "invalid-expression",
            "Expected the start of an expression, but found an invalid expression token.",
        )

    def _unary(self, operator: str) -> syntax.Expression:
        stream = self.stream
        index = stream.take()
        stream.descend()
        operand = self._term()
        stream.depth -= 1
        return syntax.Unary(operator, operand, stream.span(index, index).to(operand.span))

    def _parentheses(self) -> syntax.Expression:
        stream = self.stream
        outer, stream.skip_newlines = stream.skip_newlines, True
        try:
            first = stream.take()
            inner = self.expression()
            if stream.peek() != ")":
                raise stream.problem(
                    "unbalanced-parentheses",
                    "Expected a closing parenthesis to terminate the expression.",
                    since=first,
                )
            last = stream.take()
        finally:
            stream.skip_newlines = outer
        return syntax.Parentheses(inner, stream.span(first, last))

    def _number(self) -> syntax.Expression:
        stream = self.stream
        index = stream.take()
        word = stream.tokens.word(index)
        span = stream.span(index, index)
        if len(word) <= _LONGEST_NUMBER:
            if word.isdigit():
                return syntax.Literal(int(word), span)
            if word.count(".") <= 1 and not word.lower().startswith("e", word.find(".") + 1):
                with suppress(InvalidOperation):  # two exponents, or one that no decimal holds
                    value = Decimal(word)
                    if abs(value.adjusted()) <= _LARGEST_EXPONENT:
                        return syntax.Literal(value, span)
        raise stream.problem(
            "invalid-number-literal", "Failed to recognize the value of this number literal.", index
        )

    def _named(self) -> syntax.Expression:
        """A keyword, a function call, or a traversal beginning with a name."""
        stream = self.stream
        index = stream.take()
        name = stream.tokens.word(index)
        following = stream.peek()
        span = stream.span(index, index)
        if following in {"(", "::"}:
            return self._followed(self._call(index), stream.index)
        if name in _KEYWORDS:
            return self._followed(syntax.Literal(_KEYWORDS[name], span), stream.index)
        root = syntax.Traversal(syntax.TraverseRoot(name, span), (), span)
        if following in {".", "["}:
            return self._followed(root, stream.index)
        return root

    # --- calls ---------------------------------------------------------------------------------

    def _call(self, first: int) -> syntax.Expression:
        stream = self.stream
        last = first
        name = stream.tokens.word(first)
        while stream.peek() == "::":
            stream.take()
            if stream.peek() != IDENT:
                raise stream.problem(
                    "missing-function-name",
                    "Function scope resolution symbol :: must be followed by a function name in this scope.",
                    since=first,
                )
            last = stream.take()
            name = f"{name}::{stream.tokens.word(last)}"
        if stream.peek() != "(":
            raise stream.problem(
                "missing-open-parenthesis",
                "Function selector must be followed by an open parenthesis to begin the function call.",
                since=first,
            )
        outer, stream.skip_newlines = stream.skip_newlines, True
        try:
            stream.take()
            arguments, expand = self._arguments(first)
            closing = stream.take()
        finally:
            stream.skip_newlines = outer
        return syntax.Call(name, arguments, expand, stream.span(first, closing), stream.span(first, last))

    def _arguments(self, first: int) -> tuple[tuple[syntax.Expression, ...], bool]:
        """The arguments up to the closing parenthesis, and whether the last is expanded."""
        stream = self.stream
        arguments: list[syntax.Expression] = []
        while stream.peek() != ")":
            arguments.append(self.expression())
            following = stream.peek()
            if following == "...":
                mark = stream.take()
                if stream.peek() != ")":
                    raise stream.problem(
                        "missing-closing-parenthesis",
                        "An expanded function argument (with ...) must be immediately followed by closing "
                        "parentheses.",
                        mark,
                        first,
                    )
                return tuple(arguments), True
            if following == ",":
                stream.take()
            elif following != ")":
                raise self._no_separator(following, first)
        return tuple(arguments), False

    def _no_separator(self, kind: str, first: int) -> Exception:
        if kind == END:
            opening = first
            while self.stream.tokens.kinds[opening] != "(":
                opening += 1
            self.stream.note(
                "unterminated-function-call",
                "There is no closing parenthesis for this function call before the end of the file. This "
                "may be caused by incorrect parenthesis nesting elsewhere in this file.",
                self.stream.span(first, opening),
            )
            return MalformedError()
        return self.stream.problem(
            "missing-argument-separator",
            "A comma is required to separate each function argument from the next.",
            since=first,
        )

    # --- what follows a term -------------------------------------------------------------------

    def _followed(self, source: syntax.Expression, at: int) -> syntax.Expression:
        """The term with the traversal steps, indexes and splats written after it."""
        stream = self.stream
        if stream.tokens.kinds[at] not in {".", "["} and not stream.skip_newlines:
            return source
        steps: list[syntax.Step] = []
        while True:
            kind = stream.peek()
            if kind == ".":
                dot = stream.take()
                if stream.peek() == "*":
                    source = self._attribute_splat(_joined(source, steps))
                    steps = []
                    stream.lengthen()
                else:
                    steps.append(self._attribute(dot))
            elif kind == "[":
                source, steps = self._bracket(source, steps)
            else:
                return _joined(source, steps)

    def _attribute(self, dot: int) -> syntax.Step:
        """`.name` or the legacy `.0`, its dot already read."""
        stream = self.stream
        kind = stream.peek()
        if kind == NUMBER:
            index = stream.take()
            word = stream.tokens.word(index)
            if not word.isdigit():
                first, _, second = word.partition(".")
                raise stream.problem(
                    "invalid-legacy-index-syntax",
                    "When using the legacy index syntax, chaining two indexes together is not permitted. "
                    f"Use the proper index syntax instead, like [{first}][{second}].",
                    index,
                    dot,
                )
            return syntax.TraverseAttribute(word, stream.span(dot, index))
        if kind == "*":
            raise stream.problem(
                "nested-splat-expression-not-allowed",
                "A splat expression (*) cannot be used inside another attribute-only splat expression.",
                since=dot,
            )
        if kind != IDENT:
            raise stream.problem(
                "invalid-attribute-name", "An attribute name is required after a dot.", since=dot
            )
        index = stream.take()
        return syntax.TraverseAttribute(stream.tokens.word(index), stream.span(dot, index))

    def _attribute_splat(self, source: syntax.Expression) -> syntax.Expression:
        """`.*` with the attribute steps that belong to it, the dot already read."""
        stream = self.stream
        star = stream.take()
        marker = stream.span(star - 1, star)
        steps: list[syntax.Step] = []
        while stream.peek() == ".":
            steps.append(self._attribute(stream.take()))
        each = _joined(syntax.SplatElement(marker), steps)
        return syntax.Splat(source, each, legacy=True, span=source.span.to(each.span))

    def _bracket(
        self, source: syntax.Expression, steps: list[syntax.Step]
    ) -> tuple[syntax.Expression, list[syntax.Step]]:
        """`[key]` or `[*]`; gives the new source and the steps that stand after it so far."""
        stream = self.stream
        opening = stream.take()
        if stream.peek() == "*":
            splat = self._full_splat(_joined(source, steps), opening)
            return splat, []
        outer, stream.skip_newlines = stream.skip_newlines, True
        try:
            key = self.expression()
            if stream.peek() != "]":
                raise stream.problem(
                    "missing-close-bracket-on-index",
                    'The index operator must end with a closing bracket ("]").',
                    since=opening,
                )
            span = stream.span(opening, stream.take())
        finally:
            stream.skip_newlines = outer
        if isinstance(key, syntax.StringLiteral):
            steps.append(syntax.TraverseIndex(key.value, span))
            return source, steps
        if isinstance(key, syntax.Literal) and key.value is not None and not isinstance(key.value, bool):
            steps.append(syntax.TraverseIndex(key.value, span))
            return source, steps
        stream.lengthen()
        collection = _joined(source, steps)
        return syntax.Index(collection, key, collection.span.to(span)), []

    def _full_splat(self, source: syntax.Expression, opening: int) -> syntax.Expression:
        """`[*]` and everything after it, which applies to each element."""
        stream = self.stream
        star = stream.take()
        if stream.peek() != "]":
            raise stream.problem(
                "missing-close-bracket-on-splat-index",
                'The star for a full splat operator must be immediately followed by a closing bracket ("]").',
                since=star,
            )
        marker: Span = stream.span(opening, stream.take())
        stream.descend()
        each = self._followed(syntax.SplatElement(marker), stream.index)
        stream.depth -= 1
        stream.lengthen()
        return syntax.Splat(source, each, legacy=False, span=source.span.to(each.span))


def _joined(source: syntax.Expression, steps: list[syntax.Step]) -> syntax.Expression:
    """The steps into a value: a longer traversal, or one relative to any other expression."""
    if not steps:
        return source
    span = source.span.to(steps[-1].span)
    if isinstance(source, syntax.Traversal):
        return syntax.Traversal(source.root, (*source.steps, *steps), span)
    if isinstance(source, syntax.RelativeTraversal):
        return syntax.RelativeTraversal(source.source, (*source.steps, *steps), span)
    return syntax.RelativeTraversal(source, tuple(steps), span)
