"""Values and types as the console prints them; the tree of an expression, as text and as JSON data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from nexusform.exact_numbers import number_text
from nexusform.language.traced_part import TracedPart
from nexusform.plain_data import to_plain
from nexusform.rendering.notation.colours import harmless, wrap
from nexusform.rendering.notation.hcl_text import KNOWN_AFTER_APPLY, SENSITIVE, TOO_DEEP
from nexusform.value_types import (
    DYNAMIC,
    ListType,
    MapType,
    ObjectType,
    PrimitiveType,
    SetType,
    TupleType,
    Type,
    friendly_name,
    type_to_json,
)
from nexusform.values import UNKNOWN, Value

_DEEPEST = 100
_NAMES: dict[type, str] = {ListType: "list", SetType: "set", MapType: "map"}
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
_LONGEST_VALUE: Final = 60
_LONGEST_TYPE: Final = 40


def console_value(value: Value, indent: int = 0) -> str:
    """A value as text; what is sensitive or not known yet is said to be so."""
    if indent > 2 * _DEEPEST:
        return TOO_DEEP
    if value.raw is UNKNOWN:
        return KNOWN_AFTER_APPLY
    if value.is_sensitive:
        return SENSITIVE
    if value.is_null:
        return _null(value.type)
    if isinstance(value.raw, bool):
        return "true" if value.raw else "false"
    if isinstance(value.raw, str):
        return _heredoc(value.raw, indent) if "\n" in value.raw else _quoted(value.raw)
    if isinstance(value.raw, dict):
        return _wrapped("map", isinstance(value.type, MapType), _mapping(value.raw, indent))
    if isinstance(value.raw, (tuple, list, frozenset)):
        kind = _NAMES.get(type(value.type), "")
        return _wrapped(kind, bool(kind), _sequence(list(value.raw), indent))
    return number_text(value.raw)


def _null(of: Type) -> str:
    """`null` with its type, where that is known."""
    if of is DYNAMIC:
        return "null"
    if isinstance(of, PrimitiveType):
        return f"to{of.name}(null)"
    kind = _NAMES.get(type(of), "")
    if isinstance(of, (ListType, SetType, MapType)):
        return f"to{kind}(null) /* of {friendly_name(of.element)} */"
    return f"null /* {friendly_name(of)} */"


def _wrapped(kind: str, typed: bool, inner: str) -> str:
    """A collection as a call that makes it, `toset(...)`, where it has a type of its own."""
    return f"to{kind}({inner})" if typed else inner


def _mapping(entries: dict[str, Value], indent: int) -> str:
    """A map or an object, an entry to a line."""
    if not entries:
        return "{}"
    margin = " " * (indent + 2)
    lines = [
        f"{margin}{_quoted(name)} = {console_value(entries[name], indent + 2)}" for name in sorted(entries)
    ]
    return "\n".join(["{", *lines, " " * indent + "}"])


def _sequence(elements: list[Value], indent: int) -> str:
    """A list, set or tuple, an element to a line."""
    if not elements:
        return "[]"
    margin = " " * (indent + 2)
    lines = [f"{margin}{console_value(element, indent + 2)}," for element in elements]
    return "\n".join(["[", *lines, " " * indent + "]"])


def _quoted(text: str) -> str:
    return '"' + "".join(c if c.isprintable() and c not in '\\"' else _escaped(c) for c in text) + '"'


def _escaped(character: str) -> str:
    """A character as an escape in a string."""
    code = ord(character)
    escape = _ESCAPES.get(character)
    if escape is not None:
        return escape
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _heredoc(text: str, indent: int) -> str:
    """`indent` is that of the line that the value begins on; inside another value it is indented."""
    lines = text.split("\n")
    end = "EOT"
    while any(line.strip() == end for line in lines):
        end += "_"
    opening = f"<<-{end}" if indent else f"<<{end}"
    margin = " " * indent
    return "\n".join([opening, *(f"{margin}{_printable(line)}" for line in lines), f"{margin}{end}"])


def _printable(line: str) -> str:
    return "".join(c if c.isprintable() or c == "\t" else _escaped(c) for c in line)


def console_type(of: Type, indent: int = 0) -> str:
    """A type as text, one attribute or element on a line."""
    if indent > _DEEPEST:
        return TOO_DEEP
    if isinstance(of, ObjectType):
        if not of.attributes:
            return "object({})"
        inner = [
            f"{harmless(name)}: {console_type(kind, indent + 1)}" for name, kind in sorted(of.attributes)
        ]
        return _block("object({", inner, "})", indent)
    if isinstance(of, TupleType):
        if not of.elements:
            return "tuple([])"
        return _block("tuple([", [console_type(kind, indent + 1) for kind in of.elements], "])", indent)
    if isinstance(of, PrimitiveType):
        return of.name
    name = _NAMES[type(of)]
    if isinstance(of.element, (ObjectType, TupleType)):
        return _block(f"{name}(", [console_type(of.element, indent + 1)], ")", indent)
    return f"{name}({console_type(of.element, indent)})"


def _block(opening: str, inner: list[str], closing: str, indent: int) -> str:
    """The lines of a type between its brackets, set in."""
    margin = "    " * (indent + 1)
    return "\n".join([opening, *[f"{margin}{line}," for line in inner], "    " * indent + closing])


def tree_text(part: TracedPart, width: int) -> str:
    """The tree, a part on a line or two, what it is made of indented below."""
    return "".join(f"{line}\n" for line in _lines(part, 0, width))


def _lines(part: TracedPart, indent: int, width: int) -> Iterator[str]:
    """A part and, further in, what it is made of."""
    margin = " " * indent
    room = max(width - indent - 4, 30)
    first_line, *further_lines = wrap(harmless(part.text), room)
    where = f"  [{part.place.filename}:{part.place.start.line}]" if part.place is not None else ""
    outcome = "= (error)" if part.failed else f"= {_value(part)}  ({_type(part)})"
    if not further_lines and len(first_line) + len(outcome) + len(where) + 1 <= room:
        yield f"{margin}{first_line} {outcome}{where}"
    else:
        yield f"{margin}{first_line}"
        yield from (f"{margin}{line}" for line in further_lines)
        yield from (f"{margin}    {line}" for line in wrap(f"{outcome}{where}", room))
    for reason in part.reasons:
        yield from (f"{margin}    {line}" for line in wrap(harmless(f"! {reason}"), room))
    for inner_part in part.parts:
        yield from _lines(inner_part, indent + 2, width)
    if part.omitted:
        yield f"{margin}  ... and {part.omitted} more"
    if part.repeated:
        yield f"{margin}  (what it is made of stands above)"


def _value(part: TracedPart) -> str:
    """The value of a part on one line, shortened."""
    if part.hidden:
        return SENSITIVE
    text = " ".join(console_value(part.value).split())
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def _type(part: TracedPart) -> str:
    """The type of a part and what is not told of its value, on one line."""
    if part.hidden:
        return "sensitive"
    text = " ".join(console_type(part.value.type).split())
    words = [text if len(text) <= _LONGEST_TYPE else f"{text[: _LONGEST_TYPE - 3]}..."]
    if part.value.has_marks:
        words.append("sensitive" if part.value.marks else "partly sensitive")
    if not part.value.is_wholly_known:
        words.append("partly unknown" if part.value.is_known else "unknown")
    return ", ".join(words)


def _how_known(value: Value) -> str:
    """How much of a value is known: yes, partly, no."""
    if value.is_wholly_known:
        return "yes"
    return "partly" if value.is_known else "no"


def tree_document(part: TracedPart) -> dict[str, Any]:
    """The tree as JSON data; values that are sensitive or not wholly known are left out."""
    value, place = part.value, part.place
    document: dict[str, Any] = {"expression": part.text}
    if place is not None:
        document |= {"file": place.filename, "line": place.start.line}
    if not (part.hidden or part.failed):
        document["type"] = type_to_json(value.type)
        document["known"] = _how_known(value)
    document["sensitive"] = value.has_marks or part.hidden
    if part.failed:
        document["failed"] = True
    elif value.is_wholly_known and not document["sensitive"]:
        document["value"] = to_plain(value)[0]
    return document | {
        "reasons": [_reason_document(reason) for reason in part.reasons],
        "parts": [tree_document(inner_part) for inner_part in part.parts],
        "omitted": part.omitted,
        "repeated": part.repeated,
    }


def _reason_document(reason: str) -> dict[str, str]:
    mark, _, why = reason.partition(": ")
    return {"mark": mark, "why": why}
