"""The tree of an expression, as text and as JSON data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nexusform.plain_data import to_plain
from nexusform.planning.names.origins import Part
from nexusform.rendering.answers.console_text import console_type, console_value
from nexusform.rendering.notation.colours import harmless, wrap
from nexusform.rendering.notation.hcl_text import SENSITIVE
from nexusform.value_types import type_to_json

_LONGEST_VALUE = 60
_LONGEST_TYPE = 40


def tree_text(part: Part, width: int) -> str:
    """The tree, a part on a line or two, what it is made of indented below."""
    return "".join(f"{line}\n" for line in _lines(part, 0, width))


def _lines(part: Part, indent: int, width: int) -> Iterator[str]:
    margin = " " * indent
    room = max(width - indent - 4, 30)
    first, *rest = wrap(harmless(part.text), room)
    where = f"  [{part.place.filename}:{part.place.start.line}]" if part.place is not None else ""
    result = f"= {_value(part)}  ({_type(part)})"
    if not rest and len(first) + len(result) + len(where) + 1 <= room:
        yield f"{margin}{first} {result}{where}"
    else:
        yield f"{margin}{first}"
        yield from (f"{margin}{line}" for line in rest)
        yield from (f"{margin}    {line}" for line in wrap(f"{result}{where}", room))
    for reason in part.reasons:
        yield from (f"{margin}    {line}" for line in wrap(harmless(f"! {reason}"), room))
    for each in part.parts:
        yield from _lines(each, indent + 2, width)
    if part.omitted:
        yield f"{margin}  ... and {part.omitted} more"
    if part.repeated:
        yield f"{margin}  (what it is made of stands above)"


def _value(part: Part) -> str:
    if part.hidden:
        return SENSITIVE
    text = " ".join(console_value(part.value).split())
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def _type(part: Part) -> str:
    text = " ".join(console_type(part.value.type).split())
    words = [text if len(text) <= _LONGEST_TYPE else f"{text[: _LONGEST_TYPE - 3]}..."]
    if part.hidden:
        return "sensitive"
    if part.value.has_marks:
        words.append("sensitive" if part.value.marks else "partly sensitive")
    if not part.value.is_wholly_known:
        words.append("partly unknown" if part.value.is_known else "unknown")
    return ", ".join(words)


def tree_document(part: Part) -> dict[str, Any]:
    """The tree as JSON data; values that are sensitive or not wholly known are left out."""
    value = part.value
    shown = value.is_wholly_known and not value.has_marks and not part.hidden
    known = "yes" if value.is_wholly_known else "partly" if value.is_known else "no"
    place = part.place
    told = {} if part.hidden else {"type": type_to_json(value.type), "known": known}
    return {
        "expression": part.text,
        **({} if place is None else {"file": place.filename, "line": place.start.line}),
        **told,
        "sensitive": value.has_marks or part.hidden,
        **({"value": to_plain(value)[0]} if shown else {}),
        "reasons": [
            {"mark": mark, "why": why} for mark, _, why in (each.partition(": ") for each in part.reasons)
        ],
        "parts": [tree_document(each) for each in part.parts],
        "omitted": part.omitted,
        "repeated": part.repeated,
    }
