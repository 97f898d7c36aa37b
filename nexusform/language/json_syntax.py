"""HCL's JSON syntax: text to JSON values, files to bodies, and JSON values to expressions.

JSON values have positions. Python's json module has no positions, drops repeated names and
rounds numbers; configuration needs all three, so this module reads tokens itself. A schema
decides which properties of an object are arguments and which are blocks
(body_decoding.decode_body). A value in an argument's position is an expression: strings are
templates, and so are the names of object properties.
"""

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Position, SourceFile, Span, build_error
from nexusform.language.parser import check_source_length, parse_template
from nexusform.language.syntax import syntax_nodes as syntax
from nexusform.language.syntax.scanner import CharacterPositions, describe_span
from nexusform.language.syntax.token_stream import normalize_text, parse_exact_number

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
_MAX_LEVELS = 512

_PLAIN = 1
_ESCAPED = 2
_PUNCTUATION = 3
_NUMBER = 4
_WORD = 5
_OTHER = 6
_END = 7
# The most common template, `${a.b.c}`, is built without the parser.
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_-]*)((?:\.[A-Za-z_][A-Za-z0-9_-]*)*)\}")


class MalformedJsonError(Exception):
    """Error that unwinds from the first problem to `parse_json_value`; never leaves this file."""

    def __init__(self, detail: str, begin: int, end: int) -> None:
        self.detail = detail
        self.begin = begin
        self.end = end


class _JsonReader:
    """Parser of one text; `kind`, `word`, `begin` and `offset` describe the current token.

    Its end. The kind is the group of _TOKEN; for punctuation it is the mark itself.
    """

    def __init__(self, text: str, positions: CharacterPositions) -> None:
        """Skip a byte order mark and load the first token."""
        self.text = text
        self.positions = positions
        # After a byte order mark.
        self.offset = 1 if text.startswith("\ufeff") else 0
        # Of open arrays and objects, to limit it.
        self.depth = 0
        # Of the current token: a group of _TOKEN (int), or punctuation itself (str).
        self.kind: Any = _END
        # Text of the current token.
        self.word = ""
        # Start of the current token; `offset` is its end.
        self.begin = self.offset
        self.load_token()

    def load_token(self) -> None:
        """Read the next token."""
        match = _TOKEN.match(self.text, self.offset)
        assert match is not None, "the pattern matches any text"
        group = match.lastindex
        # The end of the text.
        if group is None:
            self.kind = _END
            self.word = ""
            self.begin = self.offset = len(self.text)
            return
        self.word = match.group(group)
        self.kind = self.word if group == _PUNCTUATION else group
        begin, end = match.span(group)
        if group == _PLAIN:
            # The quotation marks.
            begin = begin - 1
            end = end + 1
        self.begin = begin
        self.offset = end

    def get_span(self) -> Span:
        """Return the span of the current token."""
        return self.positions.build_span(self.begin, self.offset)

    def build_error(self, detail: str) -> MalformedJsonError:
        """Build the error about the current token."""
        return MalformedJsonError(detail, self.begin, self.offset)

    def parse_value(self) -> syntax.JsonValue:
        """Parse the value at the current token, and load the token after it.

        Raises MalformedJsonError.
        """
        if self.kind in {_PLAIN, _ESCAPED}:
            scalar = syntax.JsonScalar(self.decode_string(), self.get_span())
        elif self.kind == _NUMBER:
            number = parse_exact_number(self.word)
            # Above the limits of length and exponent.
            if number is None:
                raise self.build_error("This number is too long or too large.")
            scalar = syntax.JsonScalar(number, self.get_span())
        elif self.kind == _WORD and self.word in _KEYWORDS:
            scalar = syntax.JsonScalar(_KEYWORDS[self.word], self.get_span())
        elif self.kind in {"{", "["}:
            self.depth += 1
            if self.depth > _MAX_LEVELS:
                raise self.build_error(
                    f"Objects and arrays may be nested at most {_MAX_LEVELS} levels deep."
                )
            value: syntax.JsonValue = (
                self._parse_object() if self.kind == "{" else self._parse_array()
            )
            self.depth -= 1
            # The token after its end is loaded.
            return value
        else:
            raise self._build_missing_value_error()
        self.load_token()
        return scalar

    def _build_missing_value_error(self) -> MalformedJsonError:
        """Build the error about the current token in place of a value."""
        if self.kind == _END:
            return self.build_error("The text ends where a JSON value is expected.")
        if self.kind == _WORD:
            detail = (
                f'"{self.word}" is not a JSON value. The only words without quotation marks are '
                "true, false and null."
            )
            return self.build_error(detail)
        if self.word == '"':
            return self.build_error("This string has no closing quotation mark on its line.")
        if self.word == "'":
            return self.build_error('Strings in JSON are written in double quotes (").')
        return self.build_error(
            "A JSON value is expected here: an object, array, string, number, true, false or null."
        )

    def _parse_object(self) -> syntax.JsonObject:
        """Parse an object from its opening brace on.

        Raises MalformedJsonError.
        """
        begin = self.begin
        properties: list[syntax.JsonProperty] = []
        # Fast for plain strings; the loop takes any other member.
        self._parse_plain_members(properties)
        while self.kind != "}":
            if self.kind not in {_PLAIN, _ESCAPED}:
                raise self.build_error(
                    "The text ends inside an object: its closing brace is missing."
                    if self.kind == _END
                    else "A property name in double quotes is expected here."
                )
            name = self.decode_string()
            name_span = self.get_span()
            self.load_token()
            if self.kind != ":":
                raise self.build_error(
                    f'A colon (":") is expected after the property name "{name}".'
                )
            self.load_token()
            properties.append(syntax.JsonProperty(name, self.parse_value(), name_span))
            if self._has_comma_before_next_item("}", "property", begin):
                previous_count = len(properties)
                self._parse_plain_members(properties)
                # Else a plain member follows the comma.
                if len(properties) == previous_count:
                    self._reject_trailing_comma("}", "property")
        end = self.offset
        self.load_token()
        return syntax.JsonObject(tuple(properties), self.positions.build_span(begin, end))

    def _parse_plain_members(self, properties: list[syntax.JsonProperty]) -> None:
        """Add the properties with plain strings after the current brace or comma.

        The token after them is loaded.
        """
        next_member = _MEMBER.match
        text = self.text
        span = self.positions.build_span
        match = next_member(text, self.offset)
        has_comma = False
        while match is not None:
            # The mark is the comma or brace after the value.
            name, value, mark = match.groups()
            begin, end = match.span(1)
            # With the quotation marks.
            name_span = span(begin - 1, end + 1)
            begin, end = match.span(2)
            value_span = span(begin - 1, end + 1)
            scalar = syntax.JsonScalar(normalize_text(value), value_span)
            properties.append(syntax.JsonProperty(normalize_text(name), scalar, name_span))
            self.offset = match.end()
            has_comma = mark == ","
            if not has_comma:
                # The brace is the next token.
                self.offset -= 1
                break
            match = next_member(text, self.offset)
        self.load_token()
        # After the last of these properties.
        if has_comma:
            self._reject_trailing_comma("}", "property")

    def _parse_array(self) -> syntax.JsonArray:
        """Parse an array from its opening bracket on.

        Raises MalformedJsonError.
        """
        begin = self.begin
        items: list[syntax.JsonValue] = []
        self.load_token()
        while self.kind != "]":
            items.append(self.parse_value())
            if self._has_comma_before_next_item("]", "item", begin):
                self.load_token()
                self._reject_trailing_comma("]", "item")
        end = self.offset
        self.load_token()
        return syntax.JsonArray(tuple(items), self.positions.build_span(begin, end))

    def _has_comma_before_next_item(self, closing: str, item: str, begin: int) -> bool:
        """Return True at a comma, False at the `closing` bracket.

        Raise an error at any other token. `begin` is the offset of the opening bracket, and `item`
        the word for a part in messages.
        """
        if self.kind == closing:
            return False
        if self.kind == _END:
            container = "object" if closing == "}" else "array"
            raise MalformedJsonError(f"This {container} is never closed.", begin, begin + 1)
        if self.kind != ",":
            raise self.build_error(
                f'A comma or the closing "{closing}" is expected after this {item}.'
            )
        return True

    def _reject_trailing_comma(self, closing: str, item: str) -> None:
        """Reject a closing bracket after a comma."""
        if self.kind == closing:
            raise self.build_error(f"JSON allows no comma after the last {item}.")

    def decode_string(self) -> str:
        """Decode the current string.

        Raises MalformedJsonError for an invalid escape.
        """
        if self.kind == _PLAIN:
            return normalize_text(self.word)
        # Without the quotation marks.
        decoded = _ESCAPE.sub(self._decode_escape, self.word[1:-1])
        # Characters beyond the basic plane are written as two escapes, to be joined here.
        joined = decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return normalize_text(joined)

    def _decode_escape(self, escape: re.Match[str]) -> str:
        """Decode an escape of the current string: hexadecimal digits or a letter.

        Raises MalformedJsonError.
        """
        code, letter = escape.groups()
        if code:
            return chr(int(code, 16))
        if letter not in _SIMPLE:
            detail = f'"\\{letter}" is not a JSON escape sequence.'
            # After the quotation mark.
            start = self.begin + 1
            raise MalformedJsonError(detail, start + escape.start(), start + escape.end())
        return _SIMPLE[letter]


def parse_json_value(
    text: str, positions: CharacterPositions
) -> tuple[syntax.JsonValue | None, list[Diagnostic]]:
    """Parse the value of a JSON text.

    Return None, and one diagnostic, if it is not JSON.
    """
    try:
        reader = _JsonReader(text, positions)
        value = reader.parse_value()
        if reader.kind != _END:
            raise reader.build_error("Unexpected text after the JSON value.")
    except MalformedJsonError as problem:
        subject = positions.build_span(problem.begin, problem.end)
        return None, [build_error("invalid-json-syntax", problem.detail, subject)]
    except RecursionError:
        # An interpreter with too low a limit for _MAX_LEVELS.
        subject = positions.build_span(reader.begin, reader.begin + 1)
        return None, [
            build_error("invalid-json-syntax", "Objects and arrays are nested too deeply.", subject)
        ]
    return value, []


def parse_json_file(source: SourceFile) -> tuple[syntax.JsonBody, list[Diagnostic]]:
    """Parse a `.nf.json` file to a body: its root object, or the objects of its root array.

    A root value of another kind is reported.
    """
    positions = CharacterPositions(source.name, source.text)
    rejection = check_source_length(source, positions)
    if rejection is not None:
        return syntax.JsonBody((), positions.build_span(0, 0)), [rejection]
    value, diagnostics = parse_json_value(source.text, positions)
    if value is None:
        return syntax.JsonBody((), positions.build_span(0, 0)), diagnostics
    items = value.items if isinstance(value, syntax.JsonArray) else (value,)
    objects: list[syntax.JsonObject] = []
    detail = (
        "A JSON configuration file must hold an object, or an array of objects, whose properties "
        "are arguments and "
        "blocks."
    )
    for item in items:
        if isinstance(item, syntax.JsonObject):
            objects.append(item)
        else:
            diagnostics.append(build_error("invalid-json-configuration", detail, item.span))
    return syntax.JsonBody(tuple(objects), value.span), diagnostics


def build_expression(
    value: syntax.JsonValue, *, has_templates: bool = True
) -> tuple[syntax.Expression, list[Diagnostic]]:
    """Build the expression of a JSON value in an argument's position.

    With `has_templates`, texts may be templates.
    """
    diagnostics: list[Diagnostic] = []
    convert_text: _ConvertText = (
        _convert_json_string_to_expression
        if has_templates
        else lambda text, span, _diagnostics: syntax.StringLiteral(text, span)
    )
    return _convert_value(value, diagnostics, convert_text), diagnostics


_ConvertText: TypeAlias = Callable[[str, Span, list[Diagnostic]], syntax.Expression]


def _convert_value(
    value: syntax.JsonValue, diagnostics: list[Diagnostic], convert_text: _ConvertText
) -> syntax.Expression:
    """Convert a JSON value to an expression, its texts and keys by `convert_text`.

    Repeated keys are reported.
    """
    if isinstance(value, syntax.JsonArray):
        items = tuple(_convert_value(item, diagnostics, convert_text) for item in value.items)
        return syntax.TupleCons(items, value.span)
    if isinstance(value, syntax.JsonObject):
        entries: list[tuple[syntax.ObjectKey, syntax.Expression]] = []
        known_names: dict[str, Span] = {}
        for json_property in value.properties:
            earlier = known_names.setdefault(json_property.name, json_property.name_span)
            # The name occurred before.
            if earlier is not json_property.name_span:
                detail = (
                    f'An attribute named "{json_property.name}" was already defined at '
                    f"{describe_span(earlier)}. Remove one of the two."
                )
                diagnostics.append(
                    build_error("duplicate-object-attribute", detail, json_property.name_span)
                )
                continue
            key = convert_text(json_property.name, json_property.name_span, diagnostics)
            object_key = syntax.ObjectKey(key, bare=False, span=json_property.name_span)
            entries.append(
                (object_key, _convert_value(json_property.value, diagnostics, convert_text))
            )
        return syntax.ObjectCons(tuple(entries), value.span)
    if isinstance(value.value, str):
        return convert_text(value.value, value.span, diagnostics)
    return syntax.Literal(value.value, value.span)


def _convert_json_string_to_expression(
    text: str, span: Span, diagnostics: list[Diagnostic]
) -> syntax.Expression:
    """Convert a text to an expression: a template if it contains `${` or `%{`.

    A text without them, or with an error, becomes a string literal.
    """
    if "${" not in text and "%{" not in text:
        return syntax.StringLiteral(text, span)
    begin = span.start
    # After the quotation mark.
    start = Position(begin.line, begin.column + 1, begin.byte + 1)
    # Positions inside are exact only if the text is as long as its source without the quotation
    # marks (no escapes).
    is_unescaped = len(text.encode("utf-8", "replace")) == span.end.byte - begin.byte - 2
    reference = _REFERENCE.fullmatch(text) if is_unescaped else None
    # Such as "${var.a}": the parser is not needed.
    if reference is not None and reference[1] not in _KEYWORDS:
        return _build_interpolated_reference(root=reference[1], steps=reference[2], span=span)
    source = SourceFile(span.filename, text)
    if is_unescaped:
        expression, problems = parse_template(source, start)
    else:
        # All problems have the span of the string.
        expression, problems = parse_template(source, within=span)
    diagnostics += problems
    return (
        syntax.StringLiteral(text, span) if expression is None else replace(expression, span=span)
    )


def _build_interpolated_reference(root: str, steps: str, span: Span) -> syntax.Expression:
    """Build the `${root.step.step}` that fills the string at `span`, all ASCII on one line.

    `steps` is ".step.step".
    """
    filename = span.filename
    start = span.start

    def build_span(begin: int, end: int) -> Span:
        """Build the span between two offsets in the source of the string."""
        first = Position(start.line, start.column + begin, start.byte + begin)
        return Span(filename, first, Position(start.line, start.column + end, start.byte + end))

    # After the quotation mark, the dollar sign and the brace.
    root_begin = 3
    offset = root_begin + len(root)
    traverse = syntax.TraverseRoot(root, build_span(root_begin, offset))
    attributes: list[syntax.TraverseAttribute] = []
    for name in steps.split(".")[1:]:
        end = offset + 1 + len(name)
        attributes.append(syntax.TraverseAttribute(name, build_span(offset, end)))
        offset = end
    return syntax.TemplateWrap(
        syntax.Traversal(traverse, tuple(attributes), build_span(root_begin, offset)), span
    )
