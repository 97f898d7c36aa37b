"""Parser of tuples, objects and for expressions: the content of `[ ]` and `{ }`."""

from collections.abc import Callable

from msgspec import Struct

from nexusform.language.syntax import syntax_nodes as syntax
from nexusform.language.syntax.scanner import END, IDENT, NEWLINE
from nexusform.language.syntax.token_stream import MalformedSyntaxError, TokenStream

_KEYWORD_NAMES = {True: "true", False: "false", None: "null"}
_INVALID_FOR = "invalid-for-expression"
_EXTRA_AFTER_FOR = "Extra characters after the end of the 'for' expression."


class _ForParts(Struct):
    """Parts of a for expression, before its kind (tuple or object) is known."""

    key_name: str | None
    value_name: str
    collection: syntax.Expression
    key: syntax.Expression | None
    value: syntax.Expression
    ellipsis: int | None
    condition: syntax.Expression | None


class CollectionParser:
    """Parser of tuple and object constructors from a token stream."""

    def __init__(
        self, stream: TokenStream, parse_expression: Callable[[], syntax.Expression]
    ) -> None:
        self.stream = stream
        self.parse_expression = parse_expression

    def parse_tuple(self) -> syntax.Expression:
        """Parse `[a, b]` or `[for v in c : e]`; newlines are ignored inside."""
        stream = self.stream
        outer = stream.skip_newlines
        stream.skip_newlines = True
        try:
            opening = stream.read_token()
            if stream.is_next_word("for"):
                parts = self._parse_for_expression(opening)
                closing = stream.require_token("]", _INVALID_FOR, _EXTRA_AFTER_FOR, since=opening)
                span = stream.build_span(opening, closing)
                if parts.key is not None:
                    detail = "Key expression is not valid when building a tuple."
                    stream.add_problem(_INVALID_FOR, detail, parts.key.span, span)
                if parts.ellipsis is not None:
                    detail = "Grouping ellipsis (...) cannot be used when building a tuple."
                    stream.add_problem(
                        _INVALID_FOR,
                        detail,
                        stream.build_span(parts.ellipsis, parts.ellipsis),
                        span,
                    )
                return syntax.ForTuple(
                    parts.key_name,
                    parts.value_name,
                    parts.collection,
                    parts.value,
                    parts.condition,
                    span,
                )
            items, closing = self._parse_items(opening)
        finally:
            stream.skip_newlines = outer
        return syntax.TupleCons(tuple(items), stream.build_span(opening, closing))

    def _parse_items(self, opening: int) -> tuple[list[syntax.Expression], int]:
        """Parse the items of a tuple.

        Return them, and the index of the closing bracket.
        """
        stream = self.stream
        items: list[syntax.Expression] = []
        while stream.peek() != "]":
            items.append(self.parse_expression())
            kind = stream.peek()
            if kind == ",":
                stream.read_token()
            elif kind == END:
                raise self._report_unterminated("tuple", "bracket", opening)
            elif kind != "]":
                detail = "Expected a comma to mark the beginning of the next item."
                raise stream.report_error("missing-item-separator", detail, since=opening)
        return items, stream.read_token()

    def _report_unterminated(
        self, constructor: str, bracket: str, opening: int
    ) -> MalformedSyntaxError:
        """Report a bracket (named `bracket`) without its closing one, at its token.

        Return the exception to raise.
        """
        return self.stream.report_error(
            "unterminated-constructor",
            f"There is no corresponding closing {bracket} before the end of the file. This may be "
            "caused by "
            f"incorrect {bracket} nesting elsewhere in this file.",
            opening,
            headline=f"Unterminated {constructor} constructor expression",
        )

    def parse_object(self) -> syntax.Expression:
        """Parse an object `{ k = v }` or `{for k, v in c : k => v}`.

        Newlines or commas separate the items.
        """
        stream = self.stream
        # Restored after the object.
        outer_setting = stream.skip_newlines
        stream.skip_newlines = True
        try:
            opening = stream.read_token()
            if stream.is_next_word("for"):
                return self._parse_object_for(opening)
            # A newline separates two items.
            stream.skip_newlines = False
            items, closing = self._parse_object_items(opening)
        finally:
            stream.skip_newlines = outer_setting
        return syntax.ObjectCons(tuple(items), stream.build_span(opening, closing))

    def _parse_object_for(self, opening: int) -> syntax.ForObject:
        """Parse the rest of `{for k, v in c : k => v}`, from `for` to the closing brace."""
        parts = self._parse_for_expression(opening)
        closing = self.stream.require_token("}", _INVALID_FOR, _EXTRA_AFTER_FOR, since=opening)
        span = self.stream.build_span(opening, closing)
        if parts.key is None:
            detail = "Key expression is required when building an object."
            self.stream.add_problem(_INVALID_FOR, detail, parts.value.span, span)
        return syntax.ForObject(
            parts.key_name,
            parts.value_name,
            parts.collection,
            # A missing key is an error, reported above; the node needs one.
            key=parts.key or parts.value,
            value=parts.value,
            group=parts.ellipsis is not None,
            condition=parts.condition,
            span=span,
        )

    def _parse_object_items(
        self, opening: int
    ) -> tuple[list[tuple[syntax.ObjectKey, syntax.Expression]], int]:
        """Parse the items of an object.

        Return them, and the index of the closing brace.
        """
        stream = self.stream
        items: list[tuple[syntax.ObjectKey, syntax.Expression]] = []
        while True:
            while stream.peek() == NEWLINE:
                stream.read_token()
            if stream.peek() == "}":
                return items, stream.read_token()
            if stream.peek() == END:
                raise self._report_unterminated("object", "brace", opening)
            key = self._parse_key(opening)
            items.append((key, self.parse_expression()))
            kind = stream.peek()
            if kind in {",", NEWLINE}:
                stream.read_token()
            elif kind == END:
                raise self._report_unterminated("object", "brace", opening)
            elif kind != "}":
                detail = "Expected a newline or comma to mark the beginning of the next attribute."
                raise stream.report_error("missing-attribute-separator", detail, since=opening)

    def _parse_key(self, opening: int) -> syntax.ObjectKey:
        """Parse a key and the `=` or `:` after it."""
        stream = self.stream
        expression = self.parse_expression()
        if stream.peek() not in {"=", ":"}:
            raise self._report_missing_value(opening)
        stream.read_token()
        span = expression.span
        if isinstance(expression, syntax.Traversal):
            return syntax.ObjectKey(expression, bare=not expression.steps, span=span)
        # The keywords true, false and null are plain names here.
        if isinstance(expression, syntax.Literal) and (
            expression.value is None or isinstance(expression.value, bool)
        ):
            name = syntax.TraverseRoot(_KEYWORD_NAMES[expression.value], span)
            return syntax.ObjectKey(syntax.Traversal(name, (), span), bare=True, span=span)
        return syntax.ObjectKey(expression, bare=False, span=span)

    def _report_missing_value(self, opening: int) -> MalformedSyntaxError:
        """Report the token found in place of the `=` or `:` after a key.

        Return the exception to raise.
        """
        stream = self.stream
        kind = stream.peek()
        if kind == END:
            return self._report_unterminated("object", "brace", opening)
        if kind in {NEWLINE, ","}:
            detail = 'Expected an attribute value, introduced by an equals sign ("=").'
            return stream.report_error("missing-attribute-value", detail, since=opening)
        detail = 'Expected an equals sign ("=") to mark the beginning of the attribute value.'
        if kind == IDENT:
            detail += (
                " If you intended to give an attribute name containing periods or spaces, write "
                "the name in "
                "quotes to create a string literal."
            )
        return stream.report_error("missing-key-value-separator", detail, since=opening)

    def _parse_for_expression(self, opening: int) -> _ForParts:
        """Parse `for` in a tuple or object, up to the closing bracket.

        The caller checks for a key and `...`.
        """
        stream = self.stream
        stream.read_token()
        missing_in = "For expression requires the 'in' keyword after its name declarations."
        key_name, value_name = stream.read_loop_names(
            _INVALID_FOR, "For expression", missing_in, since=opening
        )
        collection = self.parse_expression()
        detail = "For expression requires a colon after the collection expression."
        stream.require_token(":", _INVALID_FOR, detail, since=opening)
        key = None
        value = self.parse_expression()
        # The expression before it is the key.
        if stream.peek() == "=>":
            stream.read_token()
            key = value
            value = self.parse_expression()
        ellipsis = stream.read_token() if stream.peek() == "..." else None
        condition = None
        if stream.is_next_word("if"):
            stream.read_token()
            condition = self.parse_expression()
        return _ForParts(key_name, value_name, collection, key, value, ellipsis, condition)
