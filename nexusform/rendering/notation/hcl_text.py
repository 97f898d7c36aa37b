"""Values as HCL-like text, what `output`, `console` and the stanzas of a plan print; and which parts of a
value are sensitive, or force a replacement: paths, seen from any part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from msgspec import Struct

from nexusform.exact_numbers import number_text
from nexusform.plain_data import Path, PathStep
from nexusform.rendering.notation.colours import harmless
from nexusform.value_types import DYNAMIC, ListType, MapType, ObjectType, SetType, TupleType, Type
from nexusform.values import UNKNOWN, number

KNOWN_AFTER_APPLY = "(known after apply)"
SENSITIVE = "(sensitive value)"
TOO_DEEP = "(nested too deeply to be shown)"

_IDENTIFIER = re.compile(r"[^\W\d][\w-]*")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


_MAX_DEPTH = 100


def is_too_deep(plain: Any, levels_left: int = _MAX_DEPTH) -> bool:
    """Whether a value nests deeper than is drawn: more than a hundred levels."""
    if plain.__class__ is not dict and plain.__class__ is not list:
        return False
    inner_values = plain.values() if plain.__class__ is dict else plain
    return not levels_left or any(is_too_deep(inner, levels_left - 1) for inner in inner_values)


def quoted(text: str) -> str:
    """A string as an HCL literal; control characters never come through."""
    escaped = text.translate(_ESCAPES)
    if "{" in escaped:
        escaped = escaped.replace("${", "$${").replace("%{", "%%{")
    return f'"{harmless(escaped)}"'


def attribute_name(name: str) -> str:
    """A name as it may stand left of `=`: bare when it is an identifier."""
    return name if _IDENTIFIER.fullmatch(name) else quoted(name)


def scalar(plain: Any) -> str:
    """A primitive, null or unknown value on one line."""
    if plain is None:
        return "null"
    if plain is UNKNOWN:
        return KNOWN_AFTER_APPLY
    if plain.__class__ is str:
        return quoted(plain)
    if plain.__class__ is bool:
        return "true" if plain else "false"
    return str(plain) if plain.__class__ is int else number_text(number(plain).raw)


def hcl_value(plain: Any, of: Type = DYNAMIC) -> str:
    """Plain data as HCL-like text, over several lines where it nests.

    With a type, collections say what they are (`tolist([`, `toset([`, `tomap({`), as OpenTofu
    prints outputs.
    """
    return TOO_DEEP if is_too_deep(plain) else _value(plain, of, 0)


def _value(plain: Any, of: Type, indent: int) -> str:
    """The text of a value that is known not to nest too deeply."""
    if plain.__class__ is str and "\n" in plain:
        return heredoc(plain, " " * indent)
    if plain.__class__ is dict:
        return _mapping(plain, of, indent)
    if plain.__class__ is list:
        return _sequence(plain, of, indent)
    return scalar(plain)


def heredoc(text: str, margin: str) -> str:
    """A text of several lines as `<<-EOT`, each line after `margin`."""
    lines = text.split("\n")
    end = "EOT"
    while any(line.strip() == end for line in lines):
        end += "_"
    if not lines[-1]:
        # The newline at the end of the text is the one before the end word.
        lines.pop()
    body = [f"{margin}{harmless(line)}" if line else "" for line in lines]
    return "\n".join([f"<<-{end}", *body, f"{margin}{end}"])


def _mapping(plain: dict[str, Any], of: Type, indent: int) -> str:
    """A map or an object, an entry to a line."""
    opening, closing = ("tomap({", "})") if isinstance(of, MapType) else ("{", "}")
    if not plain:
        return f"{opening}{closing}"
    margin = " " * (indent + 2)
    types = dict(of.attributes) if isinstance(of, ObjectType) else {}
    element = of.element if isinstance(of, MapType) else DYNAMIC
    lines = [
        f"{margin}{quoted(name)} = {_value(plain[name], types.get(name, element), indent + 2)}"
        for name in sorted(plain)
    ]
    return "\n".join([opening, *lines, " " * indent + closing])


_SEQUENCES = {ListType: ("tolist([", "])"), SetType: ("toset([", "])")}


def _sequence(plain: list[Any], of: Type, indent: int) -> str:
    """A list, set or tuple, an element to a line."""
    opening, closing = _SEQUENCES.get(of.__class__, ("[", "]"))
    if not plain:
        return f"{opening}{closing}"
    margin = " " * (indent + 2)
    lines = [
        f"{margin}{_value(element, _element(of, index), indent + 2)}," for index, element in enumerate(plain)
    ]
    return "\n".join([opening, *lines, " " * indent + closing])


def _element(of: Type, index: int) -> Type:
    """The type of an element of a list, set or tuple."""
    if isinstance(of, ListType | SetType):
        return of.element
    if isinstance(of, TupleType) and index < len(of.elements):
        return of.elements[index]
    return DYNAMIC


def trie(paths: Iterable[Path]) -> Any:
    """Paths as nested dicts by step: True where a path ends, None when there is no path."""
    root: Any = None
    for path in paths:
        if not path:
            return True
        root = {} if root is None else root
        node = root
        for step in path[:-1]:
            node = node.setdefault(step, {})
            if node is True:
                break
        else:
            node[path[-1]] = True
    return root


class Marks(Struct, frozen=True):
    """Paths as tries, seen from one value: True = this value, a dict = parts of it, None = none."""

    old: Any = None
    new: Any = None
    forces: Any = None

    @staticmethod
    def of(old: Iterable[Path] = (), new: Iterable[Path] = (), forces: Iterable[Path] = ()) -> Marks:
        """The marks of lists of paths."""
        marks = Marks(trie(old), trie(new), trie(forces))
        return NO_MARKS if marks == NO_MARKS else marks

    def at(self, old: PathStep | None, new: PathStep | None) -> Marks:
        """Seen from a part: its step on each side."""
        if self is NO_MARKS:
            return self
        inner = Marks(
            _down(self.old, old), _down(self.new, new), _down(self.forces, new if new is not None else old)
        )
        return NO_MARKS if inner == NO_MARKS else inner


NO_MARKS: Final = Marks()


def _down(trie: Any, step: PathStep | None) -> Any:
    """A trie seen from one step further in; None where no path goes there."""
    return trie.get(step) if trie.__class__ is dict else None
