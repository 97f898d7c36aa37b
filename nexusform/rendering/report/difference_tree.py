"""What changed inside an object, as a tree: computed once, drawn by every format.

A value is walked with its type, so sets, maps and objects are told apart; without a schema the
data's own shape is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from msgspec import Struct

from nexusform.rendering.notation.colours import columns
from nexusform.rendering.notation.hcl_text import (
    NO_MARKS,
    TOO_DEEP,
    Marks,
    attribute_name,
    is_too_deep,
    quoted,
)
from nexusform.rendering.report.pairing import Pair, paired
from nexusform.value_types import DYNAMIC, ListType, MapType, ObjectType, SetType, TupleType, Type

IMPORTANT: Final = frozenset({"id", "name"})
CREATED, DELETED, CHANGED, SAME = "+", "-", "~", ""
# A labelled block whose VMs are deleted and created again because of it (an agent pool).
REPLACED: Final = "-/+"


class NodeKind(StrEnum):
    """How a node is drawn."""

    LEAF = "leaf"  # a primitive, null or unknown: `old`, `new`
    TEXT = "text"  # a string of several lines; children are its lines
    JSON = "json"  # a string that holds JSON; its one child is the structure
    LIST = "list"
    GAP = "gap"  # unchanged elements of a list left out at this place: `hidden`
    SET = "set"
    MAP = "map"
    OBJECT = "object"
    BLOCK = "block"  # a nested block, or the body of a resource
    SENSITIVE = "sensitive"
    CONDENSED = "condensed"  # `new` is text that stands for the value
    TURNED = "turned"  # another kind of value than before: two children, old and new


class Difference(NamedTuple):
    """One node: what it is, what happens to it ("+", "-", "~", "" = unchanged), and its parts.

    `hidden` counts unchanged parts left out, `hidden_blocks` unchanged nested blocks. `width` is
    the longest name among the parts, hidden ones too. `forces` marks what forces a replacement.
    `note` is "sensitive" or "exposed" when the mark itself changes.
    """

    kind: NodeKind
    symbol: str
    name: str = ""
    label: str = ""
    old: Any = None
    new: Any = None
    children: tuple[Difference, ...] = ()
    blocks: tuple[Difference, ...] = ()
    hidden: int = 0
    hidden_blocks: int = 0
    width: int = 0
    forces: bool = False
    note: str = ""


class _Absent:
    """Stands for "no such element"."""


ABSENT: Final = _Absent()


class Walk(Struct, frozen=True):
    """Options of one walk.

    `show_unchanged` keeps unchanged parts in the tree; `keep_null` takes a null for a value of its
    own (as in JSON) rather than for an attribute that is not there.
    """

    show_unchanged: bool = False
    keep_null: bool = False


def value_difference(name: str, old: Any, new: Any, of: Type, *, marks: Marks, walk: Walk) -> Difference:
    """The node of one value; ABSENT stands for "not there on this side"."""
    if is_too_deep(old) or is_too_deep(new):
        return leaf(name, _symbol(old, new, of), TOO_DEEP)
    return _named(name, old, new, of, marks=marks, walk=walk)


def _named(name: str, old: Any, new: Any, of: Type, *, marks: Marks, walk: Walk) -> Difference:
    """The node of one value with its name."""
    node = _node(old, new, of, marks, walk)
    forces = marks.forces is True and node.symbol != SAME
    if not name and not forces:
        return node
    return node._replace(name=name, forces=forces)


def _node(old: Any, new: Any, of: Type, marks: Marks, walk: Walk) -> Difference:
    """The node of a value without its name: by the kind that both sides have."""
    symbol = _symbol(old, new, of)
    if marks.old is True or marks.new is True:
        return Difference(NodeKind.SENSITIVE, symbol or _mark_symbol(marks), note=_mark_note(old, new, marks))
    classes = {side.__class__ for side in (old, new) if side is not ABSENT}
    if classes == {dict}:
        return _mapping(symbol, _present(old) or {}, _present(new) or {}, of, marks=marks, walk=walk)
    if classes == {list}:
        return _sequence(symbol, _present(old) or [], _present(new) or [], of, marks=marks, walk=walk)
    if classes == {str}:
        return _string(symbol, old, new, walk)
    if dict in classes or list in classes:
        old_node = _node(old, ABSENT, of, marks, walk)
        new_node = _node(ABSENT, new, of, marks, walk)
        return Difference(NodeKind.TURNED, symbol, children=(old_node, new_node))
    return Difference(NodeKind.LEAF, symbol, old=_present(old), new=_present(new))


def _present(plain: Any) -> Any:
    """A value, null where it is not there."""
    return None if plain is ABSENT else plain


def _symbol(old: Any, new: Any, of: Type) -> str:
    """What becomes of a value: it comes, goes, changes, or stays the same."""
    if old is ABSENT:
        return SAME if new is ABSENT else CREATED
    if new is ABSENT:
        return DELETED
    return SAME if same(old, new, of) else CHANGED


def _mark_symbol(marks: Marks) -> str:
    return SAME if marks.old is marks.new else CHANGED


def _mark_note(old: Any, new: Any, marks: Marks) -> str:
    """Whether a value becomes sensitive or stops being so; "" where neither."""
    if old is ABSENT or new is ABSENT or marks.old is marks.new:
        return ""
    return "sensitive" if marks.new is True else "exposed"


def same(old: Any, new: Any, of: Type = DYNAMIC) -> bool:
    """Whether two values are equal; `1` and `true` are not, where the type does not tell."""
    if old is new:
        return True
    if old != new:
        return False
    return of is not DYNAMIC or _same_kinds(old, new)


def _same_kinds(old: Any, new: Any) -> bool:
    """Whether equal values hold booleans in the same places: 1 equals true to Python."""
    if old.__class__ is dict:
        return all(_same_kinds(old[name], new[name]) for name in old)
    if old.__class__ is list:
        return all(map(_same_kinds, old, new))
    return (old.__class__ is bool) == (new.__class__ is bool)


# --- collections -------------------------------------------------------------------------------


def _mapping(
    symbol: str, old: dict[str, Any], new: dict[str, Any], of: Type, *, marks: Marks, walk: Walk
) -> Difference:
    """The node of a map or an object, a child per entry."""
    is_map = isinstance(of, MapType)
    types = dict(of.attributes) if isinstance(of, ObjectType) else {}
    element = of.element if isinstance(of, MapType) else DYNAMIC
    side_of = _element_of if is_map or walk.keep_null else attribute_of
    children: list[Difference] = []
    hidden = width = 0
    for name in sorted({**old, **new}):
        old_value, new_value = side_of(old, name), side_of(new, name)
        if old_value is ABSENT and new_value is ABSENT:
            continue
        width = max(width, name_width(name, quote=is_map))
        important = not is_map and name in IMPORTANT
        child_type, child_marks = types.get(name, element), marks.at(name, name)
        if not important and skips(old_value, new_value, child_type, marks=child_marks, walk=walk):
            hidden += 1
            continue
        child = _named(name, old_value, new_value, child_type, marks=child_marks, walk=walk)
        if important or is_shown(child, walk):
            children.append(child)
        else:
            hidden += 1
    return Difference(
        NodeKind.MAP if is_map else NodeKind.OBJECT,
        _with_marks(symbol, children),
        children=tuple(children),
        hidden=hidden,
        width=width,
    )


def _element_of(side: Mapping[str, Any], key: str) -> Any:
    return side.get(key, ABSENT)


def attribute_of(side: Mapping[str, Any], name: str) -> Any:
    """One side's value of an attribute; ABSENT where it is null, which is the same as not there."""
    plain = side.get(name)
    return ABSENT if plain is None else plain


def name_width(name: str, *, quote: bool = False) -> int:
    """How wide a name is left of `=`; with `quote` (map keys) without its two quotation marks."""
    if name.isidentifier():
        return len(name)
    return columns(quoted(name)) - 2 if quote else columns(attribute_name(name))


def skips(old: Any, new: Any, of: Type, *, marks: Marks, walk: Walk) -> bool:
    """Whether a part is plainly unchanged and hidden, so that no node need be made for it."""
    return marks is NO_MARKS and not walk.show_unchanged and same(old, new, of)


def is_shown(node: Difference, walk: Walk) -> bool:
    """Whether a part stands in the tree: one that differs, or any on request."""
    return walk.show_unchanged or node.symbol != SAME


def _with_marks(symbol: str, children: Sequence[Difference]) -> str:
    # Equal data may still differ in what is sensitive.
    return CHANGED if symbol == SAME and any(child.symbol for child in children) else symbol


def _sequence(
    symbol: str, old: list[Any], new: list[Any], of: Type, *, marks: Marks, walk: Walk
) -> Difference:
    """The node of a list or a tuple, its elements paired; of a set, see `_set`."""
    if isinstance(of, SetType):
        return _set(symbol, old, new, of, walk)
    children: list[Difference] = []
    for old_at, new_at in paired(old, new):
        element_type = _element_type(of, new_at if new_at is not None else old_at)
        old_element = ABSENT if old_at is None else old[old_at]
        new_element = ABSENT if new_at is None else new[new_at]
        children.append(_node(old_element, new_element, element_type, marks.at(old_at, new_at), walk))
    shown, hidden = _with_context(children, walk)
    return Difference(NodeKind.LIST, _with_marks(symbol, children), children=shown, hidden=hidden)


def _element_type(of: Type, index: int | None) -> Type:
    """The type of an element of a list or a tuple."""
    if isinstance(of, ListType):
        return of.element
    if isinstance(of, TupleType) and index is not None and index < len(of.elements):
        return of.elements[index]
    return DYNAMIC


def _with_context(children: Sequence[Difference], walk: Walk) -> tuple[tuple[Difference, ...], int]:
    """The elements of a list that are shown, and how many unchanged ones after them are not.

    A changed element is shown with one unchanged neighbour on each side; where elements are left out
    in between, a node says how many.
    """
    if walk.show_unchanged or all(child.symbol for child in children):
        return tuple(children), 0
    shown: list[Difference] = []
    hidden = 0
    for position, child in enumerate(children):
        around = children[max(position - 1, 0) : position + 2]
        if not any(neighbour.symbol for neighbour in around):
            hidden += 1
            continue
        if hidden:
            shown.append(Difference(NodeKind.GAP, SAME, hidden=hidden))
            hidden = 0
        shown.append(child)
    return tuple(shown), hidden


def _set(symbol: str, old: list[Any], new: list[Any], of: SetType, walk: Walk) -> Difference:
    """The node of a set."""
    children: list[Difference] = []
    for old_at, new_at in _set_pairs(old, new):
        old_element = ABSENT if old_at is None else old[old_at]
        new_element = ABSENT if new_at is None else new[new_at]
        children.append(_node(old_element, new_element, of.element, NO_MARKS, walk))
    shown = tuple(child for child in children if is_shown(child, walk))
    return Difference(NodeKind.SET, symbol, children=shown, hidden=len(children) - len(shown))


def _set_pairs(old: list[Any], new: list[Any]) -> list[Pair]:
    """Positions of the elements on each side, those that stay or leave first."""
    # Elements of a set are the same or they are not: none "changes".
    old_positions = {repr(element): position for position, element in enumerate(old)}
    new_positions = {repr(element): position for position, element in enumerate(new)}
    staying_or_leaving: list[Pair] = [
        (position, new_positions.get(text)) for text, position in old_positions.items()
    ]
    coming: list[Pair] = [
        (None, position) for text, position in new_positions.items() if text not in old_positions
    ]
    return staying_or_leaving + coming


# --- strings -----------------------------------------------------------------------------------


def _string(symbol: str, old: Any, new: Any, walk: Walk) -> Difference:
    """The node of a string: JSON inside it, several lines, or a leaf."""
    if _maybe_json(old) and _maybe_json(new):
        node = _json(symbol, old, new, walk)
        if node is not None:
            return node
    if any("\n" in text for text in (old, new) if text is not ABSENT):
        return _text(symbol, old, new)
    return Difference(NodeKind.LEAF, symbol, old=_present(old), new=_present(new))


def _maybe_json(text: Any) -> bool:
    """Whether a text might hold JSON, by how it begins; one that is not there might."""
    if text is ABSENT:
        return True
    # The first character alone tells most texts apart; only then is the whole of one stripped.
    return text[:1] in "{[ \n\t" and text.strip()[:1] in ("{", "[")


def _json(symbol: str, old: Any, new: Any, walk: Walk) -> Difference | None:
    """The node of strings that hold JSON; None where one of them does not."""
    import json

    try:
        old_json = ABSENT if old is ABSENT else json.loads(old)
        new_json = ABSENT if new is ABSENT else json.loads(new)
    except (ValueError, RecursionError):
        return None
    if is_too_deep(old_json) or is_too_deep(new_json):
        return None
    structure = _node(old_json, new_json, DYNAMIC, NO_MARKS, Walk(walk.show_unchanged, keep_null=True))
    return Difference(NodeKind.JSON, symbol, children=(structure,))


def _text(symbol: str, old: Any, new: Any) -> Difference:
    """The node of a text of several lines, a child per line."""
    old_lines = [] if old is ABSENT else old.split("\n")
    new_lines = [] if new is ABSENT else new.split("\n")
    lines = tuple(_line(old_lines, new_lines, pair) for pair in paired(old_lines, new_lines))
    return Difference(NodeKind.TEXT, symbol, children=lines)


def _line(old_lines: Sequence[str], new_lines: Sequence[str], pair: Pair) -> Difference:
    """One line of a text that stands on one side or on both."""
    old = None if pair[0] is None else old_lines[pair[0]]
    new = None if pair[1] is None else new_lines[pair[1]]
    if old is None:
        return Difference(NodeKind.LEAF, CREATED, new=new)
    if new is None:
        return Difference(NodeKind.LEAF, DELETED, old=old)
    return Difference(NodeKind.LEAF, SAME, old=old, new=new)


def leaf(name: str, symbol: str, text: str) -> Difference:
    """A node whose value is told by a text."""
    return Difference(NodeKind.CONDENSED, symbol, name=name, new=text)
