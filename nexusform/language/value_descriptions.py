"""Notes about values next to a diagnostic: `is "a"`, `is list of string with 2 elements`."""

from collections.abc import Callable
from itertools import islice
from typing import Final

from nexusform.diagnostics.diagnostic import ValueNote
from nexusform.diagnostics.phrases import select_word_form
from nexusform.language.references import iterate_traversals
from nexusform.language.syntax.syntax_nodes import Expression, Traversal, TraverseAttribute
from nexusform.schemas.value_types import DYNAMIC, STRING, ObjectType, PrimitiveType, describe_type
from nexusform.values.typed_value import UNKNOWN, Value, format_number

_MAX_LENGTH: Final = 80
_MAX_NOTES: Final = 8


def describe_value(value: Value) -> str:
    """Describe the value in a few words; sensitive and ephemeral ones are not displayed."""
    if value.marks:
        return "has an ephemeral value" if value.is_ephemeral else "has a sensitive value"
    if value.raw is UNKNOWN:
        if value.type is DYNAMIC:
            return "will be known only after apply"
        return f"is a {describe_type(value.type)}, known only after apply"
    if value.raw is None:
        return "is null"
    if value.type == STRING:
        return f"is {quote_text(truncate_text(value.raw, _MAX_LENGTH))}"
    if isinstance(value.type, PrimitiveType):
        if isinstance(value.raw, bool):
            return f"is {str(value.raw).lower()}"
        return f"is {format_number(value.raw)}"
    return f"is {_describe_collection(value)}"


def truncate_text(text: str, max_length: int) -> str:
    """Return the start of a long text, with an ellipsis."""
    return text if len(text) <= max_length else f"{text[:max_length]}..."


def quote_text(text: str) -> str:
    """Return the text as a quoted string on one line."""
    for character, escape in (
        ("\\", "\\\\"),
        ('"', '\\"'),
        ("\n", "\\n"),
        ("\r", "\\r"),
        ("\t", "\\t"),
    ):
        text = text.replace(character, escape)
    return f'"{text}"'


def _describe_collection(value: Value) -> str:
    """Describe a value of several parts: its type, and their number."""
    name = describe_type(value.type)
    count = len(value.raw)
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
    return f"{name} with {count} {select_word_form(count, 'element')}"


def build_value_notes(
    expression: Expression, look_up: Callable[[Traversal], tuple[str, Value] | None]
) -> tuple[ValueNote, ...]:
    """Build one note for every reference in an expression, in order of appearance, without repeats.

    `look_up` returns the part of a reference that has a value, as text, and the value.
    """
    notes: dict[str, ValueNote] = {}
    for traversal in islice(iterate_traversals(expression), _MAX_NOTES):
        part = look_up(traversal)
        if part is not None:
            text, value = part
            notes.setdefault(text, ValueNote(text, describe_value(value)))
    return tuple(notes.values())


def format_traversal(traversal: Traversal) -> str:
    """Format the traversal as source text."""
    parts = [traversal.root.name]
    for step in traversal.steps:
        if isinstance(step, TraverseAttribute):
            parts.append(f".{step.name}")
        else:
            parts.append(f"[{quote_text(step.key) if isinstance(step.key, str) else step.key}]")
    return "".join(parts)
