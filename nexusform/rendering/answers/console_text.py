"""Values and types as the console prints them."""

from __future__ import annotations

from nexusform.language.numbers import number_text
from nexusform.rendering.notation.colours import harmless
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
    return f"to{kind}({inner})" if typed else inner


def _mapping(parts: dict[str, Value], indent: int) -> str:
    if not parts:
        return "{}"
    margin = " " * (indent + 2)
    lines = [f"{margin}{_quoted(name)} = {console_value(parts[name], indent + 2)}" for name in sorted(parts)]
    return "\n".join(["{", *lines, " " * indent + "}"])


def _sequence(parts: list[Value], indent: int) -> str:
    if not parts:
        return "[]"
    margin = " " * (indent + 2)
    lines = [f"{margin}{console_value(part, indent + 2)}," for part in parts]
    return "\n".join(["[", *lines, " " * indent + "]"])


def _quoted(text: str) -> str:
    return '"' + "".join(c if c.isprintable() and c not in '\\"' else _escaped(c) for c in text) + '"'


def _escaped(character: str) -> str:
    """A character as an escape in a string."""
    code = ord(character)
    known = _ESCAPES.get(character)
    if known is not None:
        return known
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
    margin = "    " * (indent + 1)
    return "\n".join([opening, *[f"{margin}{line}," for line in inner], "    " * indent + closing])
