"""Parser of expressions: precedence, terms, traversals and splats.

Each method parses one construct from the token stream and returns its node; a syntax error is
reported and unwinds (token_stream.MalformedSyntaxError).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from nexusform.language.syntax import syntax_nodes as syntax
from nexusform.language.syntax.scanner import END, IDENT, NUMBER, OPEN_HEREDOC, OPEN_QUOTE, STRING
from nexusform.language.syntax.token_stream import (
    MAX_NUMBER_LENGTH,
    MalformedSyntaxError,
    TokenStream,
    parse_exact_number,
)
from nexusform.language.template_parser import TemplateParser

if TYPE_CHECKING:
    from nexusform.language.collection_parser import CollectionParser

_PRECEDENCE = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("==", "!="), 3),
    **dict.fromkeys(("<", ">", "<=", ">="), 4),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "/", "%"), 6),
}
_KEYWORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_INVALID_NUMBER = "Failed to recognize the value of this number literal."


class ExpressionParser:
    """Parser of expressions from a token stream."""

    def __init__(self, stream: TokenStream) -> None:
        self.stream = stream
        self.templates = TemplateParser(stream, self.parse_expression)

    @cached_property
    def collections(self) -> CollectionParser:
        """Parser of tuples and objects; it is imported for the first one."""
        from nexusform.language.collection_parser import CollectionParser

        return CollectionParser(self.stream, self.parse_expression)

    def parse_expression(self) -> syntax.Expression:
        """Parse any expression: a conditional or a simpler one."""
        stream = self.stream
        # `reach`: greatest nesting depth, now of this expression alone.
        outer_reach = stream.reach
        stream.reach = 0
        stream.enter_level()
        result = self._parse_binary_operation(minimum=1)
        # `result` is the condition of `? a : b`.
        if stream.peek() == "?":
            mark = stream.read_token()
            # The conditional is a node above its condition.
            stream.add_nesting_levels()
            then = self.parse_expression()
            detail = (
                "The conditional operator (...?...:...) requires a false expression, delimited by "
                "a colon."
            )
            stream.require_token(":", "missing-false-expression-in-conditional", detail, since=mark)
            otherwise = self.parse_expression()
            result = syntax.Conditional(
                result, then, otherwise, result.span.extend_to(otherwise.span)
            )
        # Leave the level.
        stream.depth -= 1
        # For the enclosing expression.
        stream.reach = max(outer_reach, stream.reach)
        return result

    def _parse_binary_operation(self, minimum: int) -> syntax.Expression:
        """Parse operands joined by operators of at least this precedence."""
        stream = self.stream
        left = self._parse_operand_with_steps()
        while True:
            operator = stream.peek()
            # 0: no operator.
            precedence = _PRECEDENCE.get(operator, 0)
            if precedence < minimum:
                return left
            stream.read_token()
            # The operation is a node above its left operand.
            stream.add_nesting_levels()
            # Equal operators group from the left.
            right = self._parse_binary_operation(minimum=precedence + 1)
            left = syntax.Binary(operator, left, right, left.span.extend_to(right.span))

    def _parse_operand_with_steps(self) -> syntax.Expression:
        """Parse one operand with everything that follows it: `a.b[0]`, `f(x).y`, `-z`."""
        stream = self.stream
        kind = stream.peek()
        if kind == IDENT:
            return self._parse_keyword_call_or_traversal()
        if kind == STRING:
            index = stream.read_token()
            text = syntax.StringLiteral(
                self.templates.decode_string(index), stream.build_span(index, index)
            )
            return self._parse_traversal_steps(text, stream.index)
        if kind == NUMBER:
            return self._parse_traversal_steps(self._parse_number(), stream.index)
        if kind in {OPEN_QUOTE, OPEN_HEREDOC}:
            return self._parse_traversal_steps(self.templates.parse_quoted(), stream.index)
        if kind == "[":
            return self._parse_traversal_steps(self.collections.parse_tuple(), stream.index)
        if kind == "{":
            return self._parse_traversal_steps(self.collections.parse_object(), stream.index)
        if kind == "(":
            return self._parse_traversal_steps(self._parse_parentheses(), stream.index)
        if kind in {"-", "!"}:
            index = stream.read_token()
            stream.enter_level()
            operand = self._parse_operand_with_steps()
            # Leave the level.
            stream.depth -= 1
            return syntax.Unary(
                kind, operand, stream.build_span(index, index).extend_to(operand.span)
            )
        diagnostic_id = "invalid-expression"
        found = "an invalid expression token"
        if kind == END:
            diagnostic_id = "missing-expression"
            found = "the end of the file"
        raise stream.report_error(
            diagnostic_id, f"Expected the start of an expression, but found {found}."
        )

    def _parse_parentheses(self) -> syntax.Expression:
        """Parse `( expression )`; newlines are ignored inside."""
        stream = self.stream
        outer = stream.skip_newlines
        stream.skip_newlines = True
        try:
            first = stream.read_token()
            inner = self.parse_expression()
            detail = "Expected a closing parenthesis to terminate the expression."
            last = stream.require_token(")", "unbalanced-parentheses", detail, since=first)
        finally:
            stream.skip_newlines = outer
        return syntax.Parentheses(inner, stream.build_span(first, last))

    def _parse_number(self) -> syntax.Expression:
        """Parse a number without rounding.

        A malformed, long or very large one is an error.
        """
        stream = self.stream
        index = stream.read_token()
        word = stream.tokens.get_text(index)
        value = parse_exact_number(word)
        # "1.e5" is a number in Python alone.
        if value is None or ".e" in word.lower():
            raise stream.report_error("invalid-number-literal", _INVALID_NUMBER, index)
        return syntax.Literal(value, stream.build_span(index, index))

    def _parse_keyword_call_or_traversal(self) -> syntax.Expression:
        """Parse a function call, a keyword, or a reference (a name), with the steps after it."""
        stream = self.stream
        index = stream.read_token()
        name = stream.tokens.get_text(index)
        following = stream.peek()
        span = stream.build_span(index, index)
        if following in {"(", "::"}:
            return self._parse_traversal_steps(self._parse_function_call(index), stream.index)
        if name in _KEYWORDS:
            return self._parse_traversal_steps(syntax.Literal(_KEYWORDS[name], span), stream.index)
        root = syntax.Traversal(syntax.TraverseRoot(name, span), (), span)
        if following in {".", "["}:
            return self._parse_traversal_steps(root, stream.index)
        # A name alone.
        return root

    def _parse_function_call(self, first: int) -> syntax.Expression:
        """Parse the rest of a call `name(...)` or `scope::name(...)`.

        Its first name is at the token `first`.
        """
        stream = self.stream
        last = first
        name = stream.tokens.get_text(first)
        while stream.peek() == "::":
            stream.read_token()
            detail = (
                "Function scope resolution symbol :: must be followed by a function name in this "
                "scope."
            )
            last = stream.require_token(IDENT, "missing-function-name", detail, since=first)
            name = f"{name}::{stream.tokens.get_text(last)}"
        detail = (
            "Function selector must be followed by an open parenthesis to begin the function call."
        )
        stream.require_token("(", "missing-open-parenthesis", detail, since=first)
        outer = stream.skip_newlines
        stream.skip_newlines = True
        try:
            arguments, expand = self._parse_call_arguments(first)
            closing = stream.read_token()
        finally:
            stream.skip_newlines = outer
        name_span = stream.build_span(first, last)
        return syntax.Call(name, arguments, expand, stream.build_span(first, closing), name_span)

    def _parse_call_arguments(self, first: int) -> tuple[tuple[syntax.Expression, ...], bool]:
        """Parse the arguments up to the closing parenthesis.

        Return them and whether the last is expanded.
        """
        stream = self.stream
        arguments: list[syntax.Expression] = []
        while stream.peek() != ")":
            arguments.append(self.parse_expression())
            following = stream.peek()
            if following == "...":
                mark = stream.read_token()
                if stream.peek() != ")":
                    detail = (
                        "An expanded function argument (with ...) must be immediately followed by "
                        "closing parentheses."
                    )
                    raise stream.report_error(
                        "missing-closing-parenthesis", detail, mark, since=first
                    )
                return tuple(arguments), True
            if following == ",":
                stream.read_token()
            elif following != ")":
                raise self._report_missing_separator(following, first)
        return tuple(arguments), False

    def _report_missing_separator(self, kind: str, first: int) -> Exception:
        """Report a token in place of a comma or ")" in the call from token `first`.

        Return the exception to raise.
        """
        if kind == END:
            opening = first
            while self.stream.tokens.kinds[opening] != "(":
                opening += 1
            self.stream.add_problem(
                "unterminated-function-call",
                "There is no closing parenthesis for this function call before the end of the "
                "file. This "
                "may be caused by incorrect parenthesis nesting elsewhere in this file.",
                self.stream.build_span(first, opening),
            )
            return MalformedSyntaxError()
        detail = "A comma is required to separate each function argument from the next."
        return self.stream.report_error("missing-argument-separator", detail, since=first)

    def _parse_traversal_steps(self, source: syntax.Expression, index: int) -> syntax.Expression:
        """Parse the traversal steps, indexes and splats after a term `source`.

        They begin at the token `index`.
        """
        stream = self.stream
        if stream.tokens.kinds[index] not in {".", "["} and not stream.skip_newlines:
            # No steps; a step may follow newlines only inside brackets.
            return source
        steps: list[syntax.Step] = []
        while True:
            kind = stream.peek()
            if kind == ".":
                dot = stream.read_token()
                # The splat takes the steps so far as its source.
                if stream.peek() == "*":
                    source = self._parse_attribute_splat(_append_traversal_steps(source, steps))
                    steps = []
                    # The splat is a node above its source.
                    stream.add_nesting_levels()
                else:
                    steps.append(self._parse_attribute(dot))
            elif kind == "[":
                source, steps = self._parse_index_or_full_splat(source, steps)
            else:
                return _append_traversal_steps(source, steps)

    def _parse_attribute(self, dot: int) -> syntax.Step:
        """Parse `.name` or the legacy `.0` after its dot."""
        stream = self.stream
        kind = stream.peek()
        if kind == NUMBER:
            index = stream.read_token()
            word = stream.tokens.get_text(index)
            if len(word) > MAX_NUMBER_LENGTH:
                raise stream.report_error("invalid-number-literal", _INVALID_NUMBER, index)
            # Such as "0.1": two indexes in a row are one number.
            if not word.isdigit():
                first, _, second = word.partition(".")
                detail = (
                    "When using the legacy index syntax, chaining two indexes together is not "
                    "permitted. "
                    f"Use the proper index syntax instead, like [{first}][{second}]."
                )
                raise stream.report_error("invalid-legacy-index-syntax", detail, index, since=dot)
            return syntax.TraverseAttribute(word, stream.build_span(dot, index))
        if kind == "*":
            detail = (
                "A splat expression (*) cannot be used inside another attribute-only splat "
                "expression."
            )
            raise stream.report_error("nested-splat-expression-not-allowed", detail, since=dot)
        if kind != IDENT:
            raise stream.report_error(
                "invalid-attribute-name", "An attribute name is required after a dot.", since=dot
            )
        index = stream.read_token()
        return syntax.TraverseAttribute(
            stream.tokens.get_text(index), stream.build_span(dot, index)
        )

    def _parse_attribute_splat(self, source: syntax.Expression) -> syntax.Expression:
        """Parse `.*` with its attribute steps, after the dot."""
        stream = self.stream
        star = stream.read_token()
        marker = stream.build_span(star - 1, star)
        steps: list[syntax.Step] = []
        while stream.peek() == ".":
            steps.append(self._parse_attribute(stream.read_token()))
        element = _append_traversal_steps(syntax.SplatElement(marker), steps)
        return syntax.Splat(source, element, legacy=True, span=source.span.extend_to(element.span))

    def _parse_index_or_full_splat(
        self, source: syntax.Expression, steps: list[syntax.Step]
    ) -> tuple[syntax.Expression, list[syntax.Step]]:
        """Parse `[key]` or `[*]` after `source` and its `steps`.

        Return the source with a further step for a constant key. Otherwise return a splat, or an
        index by another key, as the new source without steps.
        """
        stream = self.stream
        opening = stream.read_token()
        if stream.peek() == "*":
            splat = self._parse_full_splat(_append_traversal_steps(source, steps), opening)
            return splat, []
        outer = stream.skip_newlines
        stream.skip_newlines = True
        try:
            key = self.parse_expression()
            detail = 'The index operator must end with a closing bracket ("]").'
            closing = stream.require_token(
                "]", "missing-close-bracket-on-index", detail, since=opening
            )
            span = stream.build_span(opening, closing)
        finally:
            stream.skip_newlines = outer
        constant = key.value if isinstance(key, (syntax.StringLiteral, syntax.Literal)) else None
        if constant is not None and not isinstance(constant, bool):
            steps.append(syntax.TraverseIndex(constant, span))
            return source, steps
        # The index is a node above its collection.
        stream.add_nesting_levels()
        collection = _append_traversal_steps(source, steps)
        return syntax.Index(collection, key, collection.span.extend_to(span)), []

    def _parse_full_splat(self, source: syntax.Expression, opening: int) -> syntax.Expression:
        """Parse `[*]` and everything after it, applied to each element."""
        stream = self.stream
        star = stream.read_token()
        detail = (
            "The star for a full splat operator must be immediately followed by a closing bracket "
            '("]").'
        )
        closing = stream.require_token(
            "]", "missing-close-bracket-on-splat-index", detail, since=star
        )
        marker = stream.build_span(opening, closing)
        stream.enter_level()
        element = self._parse_traversal_steps(syntax.SplatElement(marker), stream.index)
        # Leave the level.
        stream.depth -= 1
        # The splat is a node above its source.
        stream.add_nesting_levels()
        return syntax.Splat(source, element, legacy=False, span=source.span.extend_to(element.span))


def _append_traversal_steps(
    source: syntax.Expression, steps: list[syntax.Step]
) -> syntax.Expression:
    """Return an expression that applies the steps to `source`.

    A traversal gets longer, others are wrapped.
    """
    if not steps:
        return source
    span = source.span.extend_to(steps[-1].span)
    if isinstance(source, syntax.Traversal):
        return syntax.Traversal(source.root, (*source.steps, *steps), span)
    if isinstance(source, syntax.RelativeTraversal):
        return syntax.RelativeTraversal(source.source, (*source.steps, *steps), span)
    return syntax.RelativeTraversal(source, tuple(steps), span)
