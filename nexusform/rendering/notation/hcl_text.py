"""HCL-like text of values for `output`, `console` and plan blocks.

Tries of sensitive or replacing paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.names import escape_control_characters
from nexusform.json_data.plain_data import Path, PathStep
from nexusform.rendering.notation.colours import indent_lines
from nexusform.schemas.value_types import (
    DYNAMIC,
    ListType,
    MapType,
    ObjectType,
    SetType,
    TupleType,
    Type,
)
from nexusform.values.typed_value import UNKNOWN, build_number, format_number

KNOWN_AFTER_APPLY = "(known after apply)"
SENSITIVE = "(sensitive value)"
EPHEMERAL = "(ephemeral value)"
TOO_DEEP = "(nested too deeply to be shown)"

_IDENTIFIER = re.compile(r"[^\W\d][\w-]*")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})

_MAX_DEPTH = 100


def is_nested_too_deep(plain: Any, levels_left: int = _MAX_DEPTH) -> bool:
    """Return whether a value nests deeper than a hundred levels."""
    if plain.__class__ is not dict and plain.__class__ is not list:
        return False
    inner_values = plain.values() if plain.__class__ is dict else plain
    return not levels_left or any(
        is_nested_too_deep(inner, levels_left - 1) for inner in inner_values
    )


def quote_string(text: str) -> str:
    """Quote a string as an HCL literal with escaped control characters."""
    escaped = text.translate(_ESCAPES)
    if "{" in escaped:
        escaped = escaped.replace("${", "$${").replace("%{", "%%{")
    return f'"{escape_control_characters(escaped)}"'


def format_attribute_name(name: str) -> str:
    """Return a name as written left of `=`, bare if it is an identifier."""
    return name if _IDENTIFIER.fullmatch(name) else quote_string(name)


def format_scalar(plain: Any) -> str:
    """Format a scalar as in a configuration: `"text"`, `true`, `3`, `null`.

    An unknown value is `(known after apply)`. Numbers other than integers have their shortest
    decimal text, without an exponent.
    """
    if plain is None:
        return "null"
    if plain is UNKNOWN:
        return KNOWN_AFTER_APPLY
    if plain.__class__ is str:
        return quote_string(plain)
    if plain.__class__ is bool:
        return "true" if plain else "false"
    return str(plain) if plain.__class__ is int else format_number(build_number(plain).raw)


def render_hcl_value(plain: Any, value_type: Type = DYNAMIC) -> str:
    """Render plain data as HCL-like text, on several lines if nested.

    With a type, collections are labelled (`tolist([`, `toset([`, `tomap({`) as in OpenTofu outputs.

    An object with a set gives:

        {
          "zones" = toset([
            "1",
          ])
        }
    """
    return TOO_DEEP if is_nested_too_deep(plain) else _render_value(plain, value_type, 0)


def _render_value(plain: Any, value_type: Type, indent: int) -> str:
    """Render a value of limited depth as an expression.

    The type of the value labels collections (`tomap({`). Lines after the first are indented
    by `indent` spaces.
    """
    if plain.__class__ is str and "\n" in plain:
        return render_heredoc(plain, " " * indent)
    if plain.__class__ is dict:
        # Render a map or an object, one entry per line.
        opening = "{"
        closing = "}"
        element: Type = DYNAMIC
        if isinstance(value_type, MapType):
            opening = "tomap({"
            closing = "})"
            element = value_type.element
        types = dict(value_type.attributes) if isinstance(value_type, ObjectType) else {}
        lines = [
            (
                f"{quote_string(name)} = "
                f"{_render_value(plain[name], types.get(name, element), indent + 2)}"
            )
            for name in sorted(plain)
        ]
        return add_brackets(opening, lines, closing, indent, 2)
    if plain.__class__ is list:
        # Render a list, set or tuple, one element per line.
        opening, closing = _SEQUENCE_BRACKETS.get(value_type.__class__, ("[", "]"))
        lines = [
            f"{_render_value(element, get_element_type(value_type, index), indent + 2)},"
            for index, element in enumerate(plain)
        ]
        return add_brackets(opening, lines, closing, indent, 2)
    return format_scalar(plain)


def add_brackets(opening: str, lines: Sequence[str], closing: str, indent: int, step: int) -> str:
    """Render lines between brackets.

    `indent` spaces precede the closing bracket, and `step` more precede a line.
    """
    if not lines:
        return f"{opening}{closing}"
    return "\n".join([opening, *indent_lines(lines, " " * (indent + step)), " " * indent + closing])


def choose_heredoc_end(lines: Iterable[str]) -> str:
    """Return the end word of a heredoc.

    It is `EOT`, or `EOT_`, `EOT__` and so on if a line of the text is the same word.
    """
    words = set(map(str.strip, lines))
    end = "EOT"
    while end in words:
        end += "_"
    return end


def render_heredoc(text: str, margin: str) -> str:
    """Render a multi-line text as `<<-EOT`, each line after `margin`."""
    lines = text.split("\n")
    end = choose_heredoc_end(lines)
    if not lines[-1]:
        # The newline at the end of the text is the one before the end word.
        lines.pop()
    body = [f"{margin}{escape_control_characters(line)}" if line else "" for line in lines]
    return "\n".join([f"<<-{end}", *body, f"{margin}{end}"])


_SEQUENCE_BRACKETS: Final[Mapping[type, tuple[str, str]]] = {
    ListType: ("tolist([", "])"),
    SetType: ("toset([", "])"),
}


def get_element_type(sequence_type: Type, index: int) -> Type:
    """Return the type of an element of a list, set or tuple; DYNAMIC if it is not known."""
    if isinstance(sequence_type, ListType | SetType):
        return sequence_type.element
    if isinstance(sequence_type, TupleType) and index < len(sequence_type.elements):
        return sequence_type.elements[index]
    return DYNAMIC


def build_path_trie(paths: Iterable[Path]) -> Any:
    """Build nested dicts of paths by step, with True at the end of each path.

    The paths `("a", 0)` and `("b",)` give `{"a": {0: True}, "b": True}`. The empty path means the
    whole value: just True. Return None without paths.
    """
    root: Any = None
    for path in paths:
        if not path:
            # The whole value.
            return True
        root = {} if root is None else root
        node = root
        for step in path[:-1]:
            node = node.setdefault(step, {})
            # A shorter path covers this one.
            if node is True:
                break
        else:
            # No shorter path.
            node[path[-1]] = True
    return root


class PathMarks(Struct, frozen=True):
    """Tries of paths relative to one value.

    A trie is True for this value, a dict for parts of it, and None without marks.
    """

    old: Any = None
    new: Any = None
    replacement: Any = None

    @staticmethod
    def create(
        old: Iterable[Path] = (), new: Iterable[Path] = (), replacement: Iterable[Path] = ()
    ) -> PathMarks:
        """Create the marks from paths.

        The paths are sensitive before (`old`) or after (`new`), or force a replacement.
        """
        marks = PathMarks(build_path_trie(old), build_path_trie(new), build_path_trie(replacement))
        return NO_MARKS if marks == NO_MARKS else marks

    def select_part(self, old: PathStep | None, new: PathStep | None) -> PathMarks:
        """Return the marks of a part, given its name or position before and after the change.

        A side without the part has None.
        """
        if self is NO_MARKS:
            return self
        inner = PathMarks(
            _get_subtrie(self.old, old),
            _get_subtrie(self.new, new),
            # A removed part has no new step.
            _get_subtrie(self.replacement, new if new is not None else old),
        )
        return NO_MARKS if inner == NO_MARKS else inner


NO_MARKS: Final = PathMarks()


def _get_subtrie(trie: Any, step: PathStep | None) -> Any:
    """Return the trie of the paths through a step; None if no path leads there."""
    # True or None has no paths of parts.
    return trie.get(step) if trie.__class__ is dict else None
