"""JSON text to JSON values that know where they stand.

Python's json module tells no positions, drops repeated names and rounds numbers; configuration
needs all three, so this reads tokens itself.
"""

from __future__ import annotations

import re
from decimal import Decimal

from nexusform.diagnostics import Diagnostic, error
from nexusform.language.positions import Positions
from nexusform.language.string_literals import normalized
from nexusform.language.syntax import JsonArray, JsonObject, JsonProperty, JsonScalar, JsonValue
from nexusform.language.token_stream import MAX_DEPTH
from nexusform.source import Span

_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
    "([^"\\\x00-\x1f]*)"                                # 1 string without escapes
    |("(?:[^"\\\x00-\x1f]|\\.)*")                       # 2 string
    |([{}\[\]:,])                                       # 3 punctuation
    |(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(?![\w.])   # 4 number
    |([A-Za-z_]\w*)                                     # 5 keyword
    |(.)                                                # 6 anything else
    |\Z)""",
    re.VERBOSE,
)
# The commonest property, a plain string, in one step with the comma or brace after it.
_MEMBER = re.compile(
    r"""[ \t\r\n]*"([^"\\\x00-\x1f]*)"[ \t\r\n]*:[ \t\r\n]*"([^"\\\x00-\x1f]*)"[ \t\r\n]*([,}])"""
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_SIMPLE = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_KEYWORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
_LONGEST_NUMBER = 4000
_LARGEST_EXPONENT = 10_000

_PLAIN, _ESCAPED, _MARK, _NUMBER, _WORD, _ODD, _END = 1, 2, 3, 4, 5, 6, 7


class MalformedJsonError(Exception):
    """Unwinds from the first mistake to `read_json`; never leaves this file."""

    def __init__(self, detail: str, begin: int, end: int) -> None:
        self.detail = detail
        self.begin = begin
        self.end = end


class _Reader:
    """One pass over a text; `group` and `begin`, `end` describe the token at hand."""

    def __init__(self, text: str, positions: Positions) -> None:
        self.text = text
        self.positions = positions
        self.at = 1 if text.startswith("\ufeff") else 0
        self.depth = 0
        self.group = _END
        self.word = ""
        self.begin = self.at
        self.advance()

    def advance(self) -> None:
        """Go to the next token."""
        match = _TOKEN.match(self.text, self.at)
        group = match.lastindex if match else None
        if match is None or group is None:
            self.group, self.word = _END, ""
            self.begin = self.at = len(self.text)
            return
        self.group = group
        self.word = match.group(group)
        begin, end = match.span(group)
        if group == _PLAIN:
            begin, end = begin - 1, end + 1
        self.begin, self.at = begin, end

    def span(self) -> Span:
        """Where the token at hand stands."""
        return self.positions.span(self.begin, self.at)

    def wrong(self, detail: str) -> MalformedJsonError:
        """A complaint about the token at hand."""
        return MalformedJsonError(detail, self.begin, self.at)

    def value(self) -> JsonValue:
        """The value that begins at the token at hand."""
        group = self.group
        if group in {_PLAIN, _ESCAPED}:
            scalar = JsonScalar(self.string(), self.span())
        elif group == _NUMBER:
            scalar = JsonScalar(self._number(), self.span())
        elif group == _WORD and self.word in _KEYWORDS:
            scalar = JsonScalar(_KEYWORDS[self.word], self.span())
        elif group == _MARK and self.word in "{[":
            return self._compound()
        else:
            raise self._no_value()
        self.advance()
        return scalar

    def _no_value(self) -> MalformedJsonError:
        if self.group == _END:
            return self.wrong("The text ends where a JSON value is expected.")
        if self.group == _WORD:
            return self.wrong(
                f'"{self.word}" is not a JSON value. The only words that may stand without quotation '
                "marks are true, false and null."
            )
        if self.word == '"':
            return self.wrong("This string has no closing quotation mark on its line.")
        if self.word == "'":
            return self.wrong('Strings in JSON are written in double quotes (").')
        return self.wrong(
            "A JSON value is expected here: an object, array, string, number, true, false or null."
        )

    def _compound(self) -> JsonValue:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.wrong(f"Objects and arrays may be nested at most {MAX_DEPTH} levels deep.")
        value: JsonValue = self._object() if self.word == "{" else self._array()
        self.depth -= 1
        return value

    def _object(self) -> JsonObject:
        begin = self.begin
        properties: list[JsonProperty] = []
        self._plain_members(properties)
        while self.word != "}" or self.group != _MARK:
            if self.group not in {_PLAIN, _ESCAPED}:
                raise self._no_name()
            name, place = self.string(), self.span()
            self.advance()
            if self.word != ":" or self.group != _MARK:
                raise self.wrong(f'A colon (":") is expected after the property name "{name}".')
            self.advance()
            properties.append(JsonProperty(name, self.value(), place))
            if self._separator("}", "property", begin):
                before = len(properties)
                self._plain_members(properties)
                if len(properties) == before:
                    self._no_closing("}", "property")
        end = self.at
        self.advance()
        return JsonObject(tuple(properties), self.positions.span(begin, end))

    def _plain_members(self, properties: list[JsonProperty]) -> None:
        """Go on from a brace or comma: over plain string properties, to the token after them."""
        next_member, text, span = _MEMBER.match, self.text, self.positions.span
        match = next_member(text, self.at)
        comma = False
        while match is not None:
            name, value, mark = match.groups()
            begin, end = match.span(1)
            place = span(begin - 1, end + 1)
            begin, end = match.span(2)
            scalar = JsonScalar(normalized(value), span(begin - 1, end + 1))
            properties.append(JsonProperty(normalized(name), scalar, place))
            self.at = match.end()
            comma = mark == ","
            if not comma:
                self.at -= 1
                break
            match = next_member(text, self.at)
        self.advance()
        if comma:
            self._no_closing("}", "property")

    def _no_name(self) -> MalformedJsonError:
        if self.group == _END:
            return self.wrong("The text ends inside an object: its closing brace is missing.")
        return self.wrong("A property name in double quotes is expected here.")

    def _array(self) -> JsonArray:
        begin = self.begin
        items: list[JsonValue] = []
        self.advance()
        while self.word != "]" or self.group != _MARK:
            items.append(self.value())
            if self._separator("]", "item", begin):
                self.advance()
                self._no_closing("]", "item")
        end = self.at
        self.advance()
        return JsonArray(tuple(items), self.positions.span(begin, end))

    def _separator(self, closing: str, what: str, begin: int) -> bool:
        """Whether a comma follows, which is left at hand; otherwise the closing bracket does."""
        if self.group == _MARK and self.word == closing:
            return False
        if self.group == _END:
            kind = "object" if closing == "}" else "array"
            raise MalformedJsonError(f"This {kind} is never closed.", begin, begin + 1)
        if self.group != _MARK or self.word != ",":
            raise self.wrong(f'A comma or the closing "{closing}" is expected after this {what}.')
        return True

    def _no_closing(self, closing: str, what: str) -> None:
        """Complain about a closing bracket at hand, after a comma."""
        if self.group == _MARK and self.word == closing:
            raise self.wrong(f"JSON allows no comma after the last {what}.")

    def string(self) -> str:
        """The meaning of the string at hand."""
        if self.group == _PLAIN:
            return normalized(self.word)
        begin = self.begin

        def replace(escape: re.Match[str]) -> str:
            code, letter = escape.groups()
            if code:
                return chr(int(code, 16))
            if letter not in _SIMPLE:
                raise MalformedJsonError(
                    f'"\\{letter}" is not a JSON escape sequence.',
                    begin + 1 + escape.start(),
                    begin + 1 + escape.end(),
                )
            return _SIMPLE[letter]

        decoded = _ESCAPE.sub(replace, self.word[1:-1])
        # Characters beyond the basic plane are written as two escapes, to be joined here.
        whole = decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return normalized(whole)

    def _number(self) -> int | Decimal:
        word = self.word
        if len(word) <= _LONGEST_NUMBER:
            if word.lstrip("-").isdigit():
                return int(word)
            value = Decimal(word)
            if abs(value.adjusted()) <= _LARGEST_EXPONENT:
                return value
        raise self.wrong("This number is too long or too large.")


def read_json(text: str, positions: Positions) -> tuple[JsonValue | None, list[Diagnostic]]:
    """The value a JSON text holds; None, and one diagnostic, when it is not JSON."""
    try:
        reader = _Reader(text, positions)
        value = reader.value()
        if reader.group != _END:
            raise reader.wrong("Nothing may stand after the JSON value.")
    except MalformedJsonError as problem:
        subject = positions.span(problem.begin, problem.end)
        return None, [error("invalid-json-syntax", problem.detail, subject)]
    return value, []
