"""HCL's JSON syntax: text to JSON values that know where they stand, files to bodies, JSON values to
expressions.

Python's json module tells no positions, drops repeated names and rounds numbers; configuration needs all
three, so this reads tokens itself. Which properties of an object are arguments and which are blocks is
decided by a schema (bodies.content). A value in an argument's place is an expression: strings are
templates, and so are the names of object properties.
"""

from __future__ import annotations

import re
from contextlib import suppress
from decimal import Decimal, InvalidOperation

from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, error
from nexusform.language.parser import collector_off, parse_template, too_large
from nexusform.language.syntax import nodes as syntax
from nexusform.language.syntax.positions import Positions, describe
from nexusform.language.syntax.token_stream import normalized
from nexusform.source import Position, SourceFile, Span

_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
    "([^"\\\x00-\x1f]*)"                                # 1 string without escapes
    |("(?:[^"\\\x00-\x1f]++|\\.)*+")                     # 2 string
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
_MOST_LEVELS = 512
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

    def value(self) -> syntax.JsonValue:
        """The value that begins at the token at hand."""
        group = self.group
        if group in {_PLAIN, _ESCAPED}:
            scalar = syntax.JsonScalar(self.string(), self.span())
        elif group == _NUMBER:
            scalar = syntax.JsonScalar(self._number(), self.span())
        elif group == _WORD and self.word in _KEYWORDS:
            scalar = syntax.JsonScalar(_KEYWORDS[self.word], self.span())
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

    def _compound(self) -> syntax.JsonValue:
        self.depth += 1
        if self.depth > _MOST_LEVELS:
            raise self.wrong(f"Objects and arrays may be nested at most {_MOST_LEVELS} levels deep.")
        value: syntax.JsonValue = self._object() if self.word == "{" else self._array()
        self.depth -= 1
        return value

    def _object(self) -> syntax.JsonObject:
        begin = self.begin
        properties: list[syntax.JsonProperty] = []
        self._plain_members(properties)
        while self.word != "}" or self.group != _MARK:
            if self.group not in {_PLAIN, _ESCAPED}:
                raise self._no_name()
            name, place = self.string(), self.span()
            self.advance()
            if self.word != ":" or self.group != _MARK:
                raise self.wrong(f'A colon (":") is expected after the property name "{name}".')
            self.advance()
            properties.append(syntax.JsonProperty(name, self.value(), place))
            if self._separator("}", "property", begin):
                before = len(properties)
                self._plain_members(properties)
                if len(properties) == before:
                    self._no_closing("}", "property")
        end = self.at
        self.advance()
        return syntax.JsonObject(tuple(properties), self.positions.span(begin, end))

    def _plain_members(self, properties: list[syntax.JsonProperty]) -> None:
        """Go on from a brace or comma: over plain string properties, to the token after them."""
        next_member, text, span = _MEMBER.match, self.text, self.positions.span
        match = next_member(text, self.at)
        comma = False
        while match is not None:
            name, value, mark = match.groups()
            begin, end = match.span(1)
            place = span(begin - 1, end + 1)
            begin, end = match.span(2)
            scalar = syntax.JsonScalar(normalized(value), span(begin - 1, end + 1))
            properties.append(syntax.JsonProperty(normalized(name), scalar, place))
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

    def _array(self) -> syntax.JsonArray:
        begin = self.begin
        items: list[syntax.JsonValue] = []
        self.advance()
        while self.word != "]" or self.group != _MARK:
            items.append(self.value())
            if self._separator("]", "item", begin):
                self.advance()
                self._no_closing("]", "item")
        end = self.at
        self.advance()
        return syntax.JsonArray(tuple(items), self.positions.span(begin, end))

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
            with suppress(InvalidOperation):  # an exponent that no decimal holds
                value = Decimal(word)
                if abs(value.adjusted()) <= _LARGEST_EXPONENT:
                    return value
        raise self.wrong("This number is too long or too large.")


def read_json(text: str, positions: Positions) -> tuple[syntax.JsonValue | None, list[Diagnostic]]:
    """The value a JSON text holds; None, and one diagnostic, when it is not JSON."""
    try:
        reader = _Reader(text, positions)
        value = reader.value()
        if reader.group != _END:
            raise reader.wrong("Nothing may stand after the JSON value.")
    except MalformedJsonError as problem:
        subject = positions.span(problem.begin, problem.end)
        return None, [error("invalid-json-syntax", problem.detail, subject)]
    except RecursionError:  # where calls may not nest as deep as documents
        subject = positions.span(reader.begin, reader.begin + 1)
        return None, [error("invalid-json-syntax", "Objects and arrays are nested too deeply.", subject)]
    return value, []


# The commonest template by far, `${a.b.c}`, is made without the machinery of the parser.
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_-]*)((?:\.[A-Za-z_][A-Za-z0-9_-]*)*)\}")

# The name of a property that is a comment, in objects that stand for bodies.
COMMENT_NAME = "//"


def parse_json_file(source: SourceFile) -> tuple[syntax.JsonBody, list[Diagnostic]]:
    """A `.nf.json` file's body: its root object, or the objects of its root array."""
    positions = Positions(source.name, source.text)
    refusal = too_large(source, positions)
    if refusal is not None:
        return syntax.JsonBody((), positions.span(0, 0)), [refusal]
    with collector_off():
        value, diagnostics = read_json(source.text, positions)
    if value is None:
        return syntax.JsonBody((), positions.span(0, 0)), diagnostics
    items = value.items if isinstance(value, syntax.JsonArray) else (value,)
    objects = tuple(item for item in items if isinstance(item, syntax.JsonObject))
    diagnostics += [_bad_root(item) for item in items if not isinstance(item, syntax.JsonObject)]
    return syntax.JsonBody(objects, value.span), diagnostics


def _bad_root(value: syntax.JsonValue) -> Diagnostic:
    return error(
        "invalid-json-configuration",
        "A JSON configuration file must hold an object, or an array of objects, whose properties are "
        "arguments and blocks.",
        value.span,
    )


def expression_of(value: syntax.JsonValue) -> tuple[syntax.Expression, list[Diagnostic]]:
    """The expression that a JSON value in an argument's place means."""
    diagnostics: list[Diagnostic] = []
    return _expression(value, diagnostics), diagnostics


def _expression(value: syntax.JsonValue, diagnostics: list[Diagnostic]) -> syntax.Expression:
    if isinstance(value, syntax.JsonArray):
        return syntax.TupleCons(tuple(_expression(item, diagnostics) for item in value.items), value.span)
    if isinstance(value, syntax.JsonObject):
        return _object(value, diagnostics)
    if isinstance(value.value, str):
        return _string(value.value, value.span, diagnostics)
    return syntax.Literal(value.value, value.span)


def _object(value: syntax.JsonObject, diagnostics: list[Diagnostic]) -> syntax.Expression:
    """An object as an expression; its keys may be templates."""
    items: list[tuple[syntax.ObjectKey, syntax.Expression]] = []
    seen: dict[str, Span] = {}
    for each in value.properties:
        earlier = seen.setdefault(each.name, each.name_span)
        if earlier is not each.name_span:
            diagnostics.append(
                error(
                    "duplicate-object-attribute",
                    f'An attribute named "{each.name}" was already defined at {describe(earlier)}. Remove '
                    "one of the two.",
                    each.name_span,
                )
            )
            continue
        key = _string(each.name, each.name_span, diagnostics)
        items.append(
            (syntax.ObjectKey(key, bare=False, span=each.name_span), _expression(each.value, diagnostics))
        )
    return syntax.ObjectCons(tuple(items), value.span)


def _string(text: str, span: Span, diagnostics: list[Diagnostic]) -> syntax.Expression:
    """A text as an expression: a template where it holds a sequence."""
    if "${" not in text and "%{" not in text:
        return syntax.StringLiteral(text, span)
    begin = span.start
    start = Position(begin.line, begin.column + 1, begin.byte + 1)
    # Positions inside are exact as long as the text is written without escapes.
    exact = len(text.encode("utf-8", "replace")) == span.end.byte - begin.byte - 2
    plain = _REFERENCE.fullmatch(text) if exact else None
    if plain is not None and plain.group(1) not in _KEYWORDS:
        return _reference(plain.group(1), plain.group(2), span)
    source = SourceFile(span.filename, text)
    expression, problems = parse_template(source, start if exact else None, within=None if exact else span)
    diagnostics += problems
    return syntax.StringLiteral(text, span) if expression is None else replace(expression, span=span)


def _reference(root: str, steps: str, span: Span) -> syntax.Expression:
    """The `${root.step.step}` that fills the string at `span`; all of it is ASCII on one line."""
    filename, start = span.filename, span.start

    def place(begin: int, end: int) -> Span:
        first = Position(start.line, start.column + begin, start.byte + begin)
        return Span(filename, first, Position(start.line, start.column + end, start.byte + end))

    at = 3 + len(root)  # after the quotation mark, the dollar sign and the brace
    traverse = syntax.TraverseRoot(root, place(3, at))
    taken: list[syntax.TraverseAttribute] = []
    for name in steps.split(".")[1:]:
        end = at + 1 + len(name)
        taken.append(syntax.TraverseAttribute(name, place(at, end)))
        at = end
    return syntax.TemplateWrap(syntax.Traversal(traverse, tuple(taken), place(3, at)), span)
