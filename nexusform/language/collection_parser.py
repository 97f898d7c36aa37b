"""Tuples, objects and for expressions: what stands between `[ ]` and `{ }`."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from nexusform.language.syntax import nodes as syntax
from nexusform.language.syntax.scanner import END, IDENT, NEWLINE
from nexusform.language.syntax.token_stream import MalformedError, TokenStream

_KEYWORD_NAMES = {True: "true", False: "false", None: "null"}
_INVALID_FOR = "invalid-for-expression"


class _ForParts(Struct):
    """What a for expression says, before it is known to build a tuple or an object."""

    key_name: str | None
    value_name: str
    collection: syntax.Expression
    key: syntax.Expression | None
    value: syntax.Expression
    ellipsis: int | None
    condition: syntax.Expression | None


class CollectionParser:
    """Reads tuple and object constructors from a token stream."""

    def __init__(self, stream: TokenStream, parse_expression: Callable[[], syntax.Expression]) -> None:
        self.stream = stream
        self.parse_expression = parse_expression

    # --- tuples --------------------------------------------------------------------------------

    def tuple_or_for(self) -> syntax.Expression:
        """`[a, b]` or `[for v in c : e]`; newlines do not count inside."""
        stream = self.stream
        outer, stream.skip_newlines = stream.skip_newlines, True
        try:
            opening = stream.take()
            if stream.peek_is_word("for"):
                parts = self._for_parts(opening)
                closing = self._for_end(opening, "]")
                return self._for_tuple(parts, opening, closing)
            items, closing = self._items(opening)
        finally:
            stream.skip_newlines = outer
        return syntax.TupleCons(tuple(items), stream.span(opening, closing))

    def _items(self, opening: int) -> tuple[list[syntax.Expression], int]:
        stream = self.stream
        items: list[syntax.Expression] = []
        while stream.peek() != "]":
            items.append(self.parse_expression())
            kind = stream.peek()
            if kind == ",":
                stream.take()
            elif kind == END:
                raise self._unterminated("tuple", "bracket", opening)
            elif kind != "]":
                raise stream.problem(
                    "missing-item-separator",
                    "Expected a comma to mark the beginning of the next item.",
                    since=opening,
                )
        return items, stream.take()

    def _unterminated(self, what: str, bracket: str, opening: int) -> MalformedError:
        return self.stream.problem(
            "unterminated-constructor",
            f"There is no corresponding closing {bracket} before the end of the file. This may be caused by "
            f"incorrect {bracket} nesting elsewhere in this file.",
            opening,
            headline=f"Unterminated {what} constructor expression",
        )

    # --- objects -------------------------------------------------------------------------------

    def object_or_for(self) -> syntax.Expression:
        """`{ k = v }` or `{for k, v in c : k => v}`; newlines separate items of the former."""
        stream = self.stream
        outer, stream.skip_newlines = stream.skip_newlines, True
        try:
            opening = stream.take()
            after = stream.index
            if stream.peek_is_word("for"):
                parts = self._for_parts(opening)
                closing = self._for_end(opening, "}")
                return self._for_object(parts, opening, closing)
            stream.index = after  # peeking went past newlines, which count from here on
            stream.skip_newlines = False
            items, closing = self._properties(opening)
        finally:
            stream.skip_newlines = outer
        return syntax.ObjectCons(tuple(items), stream.span(opening, closing))

    def _properties(self, opening: int) -> tuple[list[tuple[syntax.ObjectKey, syntax.Expression]], int]:
        stream = self.stream
        items: list[tuple[syntax.ObjectKey, syntax.Expression]] = []
        while True:
            while stream.peek() == NEWLINE:
                stream.take()
            if stream.peek() == "}":
                return items, stream.take()
            if stream.peek() == END:
                raise self._unterminated("object", "brace", opening)
            key = self._key(opening)
            items.append((key, self.parse_expression()))
            kind = stream.peek()
            if kind in {",", NEWLINE}:
                stream.take()
            elif kind == END:
                raise self._unterminated("object", "brace", opening)
            elif kind != "}":
                raise stream.problem(
                    "missing-attribute-separator",
                    "Expected a newline or comma to mark the beginning of the next attribute.",
                    since=opening,
                )

    def _key(self, opening: int) -> syntax.ObjectKey:
        """A key and the `=` or `:` after it."""
        stream = self.stream
        expression = self.parse_expression()
        if stream.peek() not in {"=", ":"}:
            raise self._no_value(opening)
        stream.take()
        span = expression.span
        if isinstance(expression, syntax.Traversal):
            return syntax.ObjectKey(expression, bare=not expression.steps, span=span)
        if isinstance(expression, syntax.Literal) and (
            expression.value is None or isinstance(expression.value, bool)
        ):
            name = syntax.TraverseRoot(_KEYWORD_NAMES[expression.value], span)
            return syntax.ObjectKey(syntax.Traversal(name, (), span), bare=True, span=span)
        return syntax.ObjectKey(expression, bare=False, span=span)

    def _no_value(self, opening: int) -> MalformedError:
        stream = self.stream
        kind = stream.peek()
        if kind == END:
            return self._unterminated("object", "brace", opening)
        if kind in {NEWLINE, ","}:
            return stream.problem(
                "missing-attribute-value",
                'Expected an attribute value, introduced by an equals sign ("=").',
                since=opening,
            )
        detail = 'Expected an equals sign ("=") to mark the beginning of the attribute value.'
        if kind == IDENT:
            detail += (
                " If you intended to give an attribute name containing periods or spaces, write the name in "
                "quotes to create a string literal."
            )
        return stream.problem("missing-key-value-separator", detail, since=opening)

    # --- for -----------------------------------------------------------------------------------

    def _for_parts(self, opening: int) -> _ForParts:
        """From the word `for` up to the closing bracket."""
        stream = self.stream
        stream.take()
        key_name, value_name = (
            None,
            self._for_name("For expression requires variable name after 'for'.", opening),
        )
        if stream.peek() == ",":
            stream.take()
            key_name = value_name
            value_name = self._for_name("For expression requires value variable name after comma.", opening)
        if not stream.peek_is_word("in"):
            raise stream.problem(
                _INVALID_FOR,
                "For expression requires the 'in' keyword after its name declarations.",
                since=opening,
            )
        stream.take()
        collection = self.parse_expression()
        if stream.peek() != ":":
            raise stream.problem(
                _INVALID_FOR,
                "For expression requires a colon after the collection expression.",
                since=opening,
            )
        stream.take()
        key, value = None, self.parse_expression()
        if stream.peek() == "=>":
            stream.take()
            key, value = value, self.parse_expression()
        ellipsis = stream.take() if stream.peek() == "..." else None
        condition = None
        if stream.peek_is_word("if"):
            stream.take()
            condition = self.parse_expression()
        return _ForParts(key_name, value_name, collection, key, value, ellipsis, condition)

    def _for_name(self, complaint: str, opening: int) -> str:
        if self.stream.peek() != IDENT:
            raise self.stream.problem(_INVALID_FOR, complaint, since=opening)
        return self.stream.tokens.word(self.stream.take())

    def _for_end(self, opening: int, closing: str) -> int:
        if self.stream.peek() != closing:
            raise self.stream.problem(
                _INVALID_FOR, "Extra characters after the end of the 'for' expression.", since=opening
            )
        return self.stream.take()

    def _for_tuple(self, parts: _ForParts, opening: int, closing: int) -> syntax.Expression:
        stream = self.stream
        span = stream.span(opening, closing)
        if parts.key is not None:
            stream.note(
                _INVALID_FOR, "Key expression is not valid when building a tuple.", parts.key.span, span
            )
        if parts.ellipsis is not None:
            stream.note(
                _INVALID_FOR,
                "Grouping ellipsis (...) cannot be used when building a tuple.",
                stream.span(parts.ellipsis, parts.ellipsis),
                span,
            )
        return syntax.ForTuple(
            parts.key_name, parts.value_name, parts.collection, parts.value, parts.condition, span
        )

    def _for_object(self, parts: _ForParts, opening: int, closing: int) -> syntax.Expression:
        span = self.stream.span(opening, closing)
        if parts.key is None:
            self.stream.note(
                _INVALID_FOR, "Key expression is required when building an object.", parts.value.span, span
            )
        return syntax.ForObject(
            parts.key_name,
            parts.value_name,
            parts.collection,
            parts.key or parts.value,
            parts.value,
            parts.ellipsis is not None,
            parts.condition,
            span,
        )
