"""Saying what a value is beside a diagnostic: `is "a"`, `is list of string with 2 elements`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics import ValueNote
from nexusform.exact_numbers import number_text
from nexusform.language.syntax.nodes import (
    Expression,
    ForObject,
    ForTuple,
    TemplateFor,
    Traversal,
    TraverseAttribute,
)
from nexusform.source import Span
from nexusform.value_types import DYNAMIC, STRING, ObjectType, PrimitiveType, TupleType, friendly_name
from nexusform.values import UNKNOWN, Value

_LONGEST: Final = 80
_MOST_NOTES: Final = 8


def describe_value(value: Value) -> str:
    """The value in a few words, as a statement about it; sensitive ones are not shown."""
    if value.is_sensitive:
        return "has a sensitive value"
    if value.raw is UNKNOWN:
        if value.type is DYNAMIC:
            return "will be known only after apply"
        return f"is a {friendly_name(value.type)}, known only after apply"
    if value.raw is None:
        return "is null"
    if isinstance(value.type, PrimitiveType):
        return f"is {_primitive_text(value)}"
    return f"is {_counted(value)}"


def _primitive_text(value: Value) -> str:
    if value.type == STRING:
        text = value.raw if len(value.raw) <= _LONGEST else value.raw[:_LONGEST] + "..."
        return quoted(text)
    return str(value.raw).lower() if isinstance(value.raw, bool) else number_text(value.raw)


def quoted(text: str) -> str:
    """The text as a quoted string on one line."""
    for character, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(character, escape)
    return f'"{text}"'


def _counted(value: Value) -> str:
    """A value of several parts in words: its type, and how many there are."""
    name, count = friendly_name(value.type), len(value.raw)
    if isinstance(value.type, ObjectType):
        if count == 0:
            return "object with no attributes"
        return (
            f'object with 1 attribute "{next(iter(value.raw))}"'
            if count == 1
            else f"object with {count} attributes"
        )
    if count == 0:
        return f"empty {name}"
    if isinstance(value.type, TupleType) or count != 1:
        return f"{name} with {count} element{'s' if count != 1 else ''}"
    return f"{name} with 1 element"


def value_notes(
    expression: Expression, look_up: Callable[[Traversal], tuple[str, Value] | None]
) -> tuple[ValueNote, ...]:
    """One note for every reference in an expression, in order of appearance, without repeats.

    `look_up` gives the part of a reference that has a value, as text, and the value.
    """
    notes: dict[str, ValueNote] = {}
    for traversal in islice(_traversals(expression), _MOST_NOTES):
        part = look_up(traversal)
        if part is not None:
            text, value = part
            notes.setdefault(text, ValueNote(text, describe_value(value)))
    return tuple(notes.values())


def traversal_text(traversal: Traversal) -> str:
    """The traversal as it would be written."""
    parts = [traversal.root.name]
    for step in traversal.steps:
        if isinstance(step, TraverseAttribute):
            parts.append(f".{step.name}")
        else:
            parts.append(f"[{quoted(step.key) if isinstance(step.key, str) else step.key}]")
    return "".join(parts)


def _traversals(node: Any, inner: frozenset[str] = frozenset()) -> Iterable[Traversal]:
    """The references of an expression; `inner` are the names of the for expressions around it, which
    stand for one value after another.
    """
    if isinstance(node, Traversal):
        if node.root.name not in inner:
            yield node
    elif isinstance(node, tuple):
        for item in node:
            yield from _traversals(item, inner)
    elif isinstance(node, Struct) and not isinstance(node, Span):
        if getattr(node, "bare", False):
            return
        named = inner
        if isinstance(node, ForTuple | ForObject | TemplateFor):
            named = inner | {node.value_name, node.key_name or node.value_name}
        for name in node.__struct_fields__:
            names = inner if name == "collection" else named
            yield from _traversals(getattr(node, name), names)
