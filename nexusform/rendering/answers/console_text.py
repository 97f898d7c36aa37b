"""Console output of values, types and expression trees, as text and JSON."""

from collections.abc import Iterator
from typing import Any, Final

from nexusform.diagnostics.names import escape_control_characters, format_code_point
from nexusform.diagnostics.phrases import enclose, join_texts
from nexusform.json_data.plain_data import convert_to_plain
from nexusform.language.evaluation_run import TracedExpression
from nexusform.rendering.notation.colours import indent_lines, wrap_lines
from nexusform.rendering.notation.hcl_text import (
    EPHEMERAL,
    KNOWN_AFTER_APPLY,
    SENSITIVE,
    TOO_DEEP,
    add_brackets,
    choose_heredoc_end,
)
from nexusform.rendering.report.finding_entries import format_location
from nexusform.schemas.value_types import (
    DYNAMIC,
    ListType,
    MapType,
    ObjectType,
    PrimitiveType,
    SetType,
    TupleType,
    Type,
    build_type_json,
    describe_type,
)
from nexusform.values.typed_value import UNKNOWN, Value, format_number

_MAX_DEPTH = 100
_COLLECTION_NAMES: dict[type, str] = {ListType: "list", SetType: "set", MapType: "map"}
_ESCAPES = {
    "\\": "\\\\",
    '"': '\\"',
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\v": "\\v",
}
_MAX_VALUE_LENGTH: Final = 60
_MAX_TYPE_LENGTH: Final = 40


def render_value(value: Value, indent: int = 0) -> str:
    """Render a value as text, with placeholders for sensitive and unknown values.

    Maps, objects and lists have a line per entry; lines after the first are indented
    by `indent` spaces.

    An object with a text and a set gives:

        {
          "name" = "a"
          "zones" = toset([
            "1",
          ])
        }
    """
    # Two columns per level.
    if indent > 2 * _MAX_DEPTH:
        return TOO_DEEP
    if value.raw is UNKNOWN:
        return KNOWN_AFTER_APPLY
    if value.marks:
        return SENSITIVE if value.is_sensitive else EPHEMERAL
    if value.is_null:
        return _render_null(value.type)
    if isinstance(value.raw, bool):
        return str(value.raw).lower()
    if isinstance(value.raw, str):
        return _render_heredoc(value.raw, indent) if "\n" in value.raw else _quote_string(value.raw)
    if isinstance(value.raw, dict):
        entries = sorted(value.raw.items())
        lines = [
            f"{_quote_string(name)} = {render_value(entry, indent + 2)}" for name, entry in entries
        ]
        return _wrap_in_conversion(value.type, add_brackets("{", lines, "}", indent, 2))
    if isinstance(value.raw, (tuple, list, frozenset)):
        lines = [f"{render_value(element, indent + 2)}," for element in value.raw]
        return _wrap_in_conversion(value.type, add_brackets("[", lines, "]", indent, 2))
    return format_number(value.raw)


def _render_null(value_type: Type) -> str:
    """Render `null` with its type: `tostring(null)`, `tolist(null) /* of string */`.

    An unknown type is omitted.
    """
    if value_type is DYNAMIC:
        return "null"
    if isinstance(value_type, PrimitiveType):
        return f"to{value_type.name}(null)"
    if isinstance(value_type, (ListType, SetType, MapType)):
        return (
            f"to{_COLLECTION_NAMES[type(value_type)]}(null) /* of "
            f"{describe_type(value_type.element)} */"
        )
    return f"null /* {describe_type(value_type)} */"


def _wrap_in_conversion(value_type: Type, inner: str) -> str:
    """Wrap the text of a list, set or map in its conversion function: `toset([...])`.

    Other texts are unchanged.
    """
    kind = _COLLECTION_NAMES.get(type(value_type))
    return f"to{kind}({inner})" if kind else inner


def _quote_string(text: str) -> str:
    return f'"{"".join(map(_escape_character, text))}"'


def _escape_character(character: str) -> str:
    r"""Escape a character for a quoted string: `\n`, `\x00`.

    Most printable characters are returned unchanged.
    """
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    return f"\\x{ord(character):02x}" if character.isascii() else format_code_point(character)


def _render_heredoc(text: str, indent: int) -> str:
    """Render a multi-line text as a heredoc.

    `indent` is the indentation of the value in spaces; 0 at the top level.
    """
    lines = text.split("\n")
    end = choose_heredoc_end(lines)
    # HCL strips the margin of the lines after `<<-`.
    opening = f"<<-{end}" if indent else f"<<{end}"
    margin = " " * indent
    escaped = (
        "".join(c if c.isprintable() or c == "\t" else _escape_character(c) for c in line)
        for line in lines
    )
    return "\n".join([opening, *indent_lines(escaped, margin), f"{margin}{end}"])


def render_type(value_type: Type, indent: int = 0) -> str:
    """Render a type as text, with a line per attribute or element.

    Lines after the first are indented by `indent` spaces, further ones inside of them by four more.

    The type of an object with a text and a set gives:

        object({
            name: string,
            zones: set(string),
        })
    """
    # Four columns per level.
    if indent > 4 * _MAX_DEPTH:
        return TOO_DEEP
    if isinstance(value_type, ObjectType):
        lines = [
            f"{escape_control_characters(name)}: {render_type(kind, indent + 4)},"
            for name, kind in sorted(value_type.attributes)
        ]
        return add_brackets("object({", lines, "})", indent, 4)
    if isinstance(value_type, TupleType):
        lines = [f"{render_type(kind, indent + 4)}," for kind in value_type.elements]
        return add_brackets("tuple([", lines, "])", indent, 4)
    if isinstance(value_type, PrimitiveType):
        return value_type.name
    name = _COLLECTION_NAMES[type(value_type)]
    if isinstance(value_type.element, (ObjectType, TupleType)):
        return add_brackets(
            f"{name}(", [f"{render_type(value_type.element, indent + 4)},"], ")", indent, 4
        )
    return f"{name}({render_type(value_type.element, indent)})"


def render_trace(part: TracedExpression, width: int) -> str:
    """Render an expression with its value as text, one or two lines.

    Its parts follow, indented in the same form.
    """
    return "".join(f"{line}\n" for line in _render_part_lines(part, 0, width))


def _render_part_lines(part: TracedExpression, indent: int, width: int) -> Iterator[str]:
    """Yield lines for a traced (sub)expression.

    They are its text with its result, reasons for a missing or hidden value, and its inner
    expressions with more indentation. Text and result share a line if `width` allows it.
    """
    margin = " " * indent
    # Results are indented by 4; deep parts exceed the width.
    line_width = max(width - indent - 4, 30)
    first_line, *further_lines = wrap_lines(escape_control_characters(part.text), line_width)
    location_note = enclose("  [", format_location(part.span), "]")
    outcome = "= (error)"
    if not part.has_failed:
        text = (
            SENSITIVE
            if part.is_hidden
            else _format_on_one_line(render_value(part.value), _MAX_VALUE_LENGTH)
        )
        outcome = f"= {text}  ({_format_part_type(part)})"
    if not further_lines and len(first_line) + len(outcome) + len(location_note) + 1 <= line_width:
        yield f"{margin}{first_line} {outcome}{location_note}"
    else:
        yield from indent_lines([first_line, *further_lines], margin)
        yield from indent_lines(
            wrap_lines(f"{outcome}{location_note}", line_width), f"{margin}    "
        )
    for reason in part.reasons:
        reason_lines = wrap_lines(escape_control_characters(f"! {reason}"), line_width)
        yield from indent_lines(reason_lines, f"{margin}    ")
    for inner_part in part.parts:
        yield from _render_part_lines(inner_part, indent + 2, width)
    if part.omitted:
        yield f"{margin}  ... and {part.omitted} more"
    if part.is_repeated:
        yield f"{margin}  (parts shown above)"


def _format_on_one_line(text: str, max_length: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= max_length else f"{line[: max_length - 3]}..."


def _format_part_type(part: TracedExpression) -> str:
    """Format the type of a part and its sensitive or unknown state on one line."""
    # Its value or type would reveal a sensitive value.
    if part.is_hidden:
        return "sensitive"
    texts = [_format_on_one_line(render_type(part.value.type), _MAX_TYPE_LENGTH)]
    # Its own marks, or those of its parts.
    if part.value.has_marks:
        texts.append("sensitive" if part.value.marks else "partly sensitive")
    texts.append(_UNKNOWN_TEXTS[_describe_known_parts(part.value)])
    return join_texts(texts)


# By the answer of `_describe_known_parts`.
_UNKNOWN_TEXTS: Final = {"yes": "", "partly": "partly unknown", "no": "unknown"}


def _describe_known_parts(value: Value) -> str:
    """Return "yes" for a known value, "partly" for one with unknown parts, else "no"."""
    if value.is_wholly_known:
        return "yes"
    return "partly" if value.is_known else "no"


def build_trace_document(part: TracedExpression) -> dict[str, Any]:
    """Build the tree of expressions as JSON data.

    A failed, sensitive or not fully known part has no value.
    """
    value = part.value
    span = part.span
    document: dict[str, Any] = {"expression": part.text}
    if span is not None:
        document |= {"file": span.filename, "line": span.start.line}
    if not (part.is_hidden or part.has_failed):
        document["type"] = build_type_json(value.type)
        document["known"] = _describe_known_parts(value)
    document["sensitive"] = value.has_marks or part.is_hidden
    if part.has_failed:
        document["failed"] = True
    elif value.is_wholly_known and not document["sensitive"]:
        document["value"] = convert_to_plain(value)[0]
    return document | {
        "reasons": list(map(_split_reason, part.reasons)),
        "parts": list(map(build_trace_document, part.parts)),
        "omitted": part.omitted,
        "repeated": part.is_repeated,
    }


def _split_reason(reason: str) -> dict[str, str]:
    """Split a reason such as `sensitive: TEXT`, `unknown: TEXT` or `error: TEXT`."""
    mark, _, text = reason.partition(": ")
    return {"mark": mark, "why": text}
