"""Tree of the changes inside an object, computed once for all formats. The type of a value separates sets,
maps and objects; without a schema the shape of the data decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from msgspec import Struct

from nexusform.rendering.notation.colours import count_columns
from nexusform.rendering.notation.hcl_text import (
    NO_MARKS,
    TOO_DEEP,
    PathMarks,
    format_attribute_name,
    is_too_deep,
    quote_string,
)
from nexusform.rendering.report.pairing import Pair, pair_elements
from nexusform.schemas.value_types import DYNAMIC, ListType, MapType, ObjectType, SetType, TupleType, Type

IMPORTANT: Final = frozenset({"id", "name"})
CREATED, DELETED, CHANGED, SAME = "+", "-", "~", ""
# A labelled block (an agent pool) with all VMs deleted and created again.
REPLACED: Final = "-/+"


class NodeKind(StrEnum):
    """Kind of a node for drawing."""

    LEAF = "leaf"  # a primitive, null or unknown: `old`, `new`
    TEXT = "text"  # a string of several lines; children are its lines
    JSON = "json"  # a string with JSON; its one child is the structure
    LIST = "list"
    GAP = "gap"  # omitted unchanged list elements: `hidden`
    SET = "set"
    MAP = "map"
    OBJECT = "object"
    BLOCK = "block"  # a nested block, or the body of a resource
    SENSITIVE = "sensitive"
    CONDENSED = "condensed"  # `new` is the replacement text of the value
    TYPE_CHANGED = "turned"  # the kind of value changed: two children, old and new


class DifferenceNode(NamedTuple):
    """One node: its kind, its change ("+", "-", "~", "" = unchanged) and its parts. `hidden` counts omitted
    unchanged parts, `hidden_blocks` omitted unchanged nested blocks. `width` is the longest name among the
    parts, including hidden ones. `forces_replacement` marks a cause of replacement. `note` is "sensitive" or
    "exposed" when the sensitivity itself changes.
    """

    kind: NodeKind
    symbol: str
    name: str = ""
    label: str = ""
    old: Any = None
    new: Any = None
    children: tuple[DifferenceNode, ...] = ()
    blocks: tuple[DifferenceNode, ...] = ()
    hidden: int = 0
    hidden_blocks: int = 0
    width: int = 0
    forces_replacement: bool = False
    note: str = ""


class _Absent:
    """Marker for a missing element."""


ABSENT: Final = _Absent()


class DifferenceOptions(Struct, frozen=True):
    """Options of a comparison. `show_unchanged` keeps unchanged parts in the tree; `keep_null` treats null as
    a value, as in JSON, and not as a missing attribute.
    """

    show_unchanged: bool = False
    keep_null: bool = False


def compare_values(
    name: str, old: Any, new: Any, value_type: Type, *, marks: PathMarks, options: DifferenceOptions
) -> DifferenceNode:
    """Compare two values and return their node; ABSENT means a missing value."""
    if is_too_deep(old) or is_too_deep(new):
        return create_leaf(name, _compute_symbol(old, new, value_type), TOO_DEEP)
    return _compare_named(name, old, new, value_type, marks=marks, options=options)


def _compare_named(
    name: str, old: Any, new: Any, value_type: Type, *, marks: PathMarks, options: DifferenceOptions
) -> DifferenceNode:
    """Compare two values and return their node with its name."""
    node = _build_node(old, new, value_type, marks, options)
    forces_replacement = marks.replacement is True and node.symbol != SAME
    if not name and not forces_replacement:
        return node
    return node._replace(name=name, forces_replacement=forces_replacement)


def _build_node(old: Any, new: Any, value_type: Type, marks: PathMarks, options: DifferenceOptions) -> DifferenceNode:
    """Build the node of a value without its name, by the kind of both sides."""
    symbol = _compute_symbol(old, new, value_type)
    if marks.old is True or marks.new is True:
        return DifferenceNode(
            NodeKind.SENSITIVE, symbol or _compute_mark_symbol(marks), note=_compute_mark_note(old, new, marks)
        )
    classes = {side.__class__ for side in (old, new) if side is not ABSENT}
    if classes == {dict}:
        return _compare_mappings(
            symbol, _replace_absent(old) or {}, _replace_absent(new) or {}, value_type, marks=marks, options=options
        )
    if classes == {list}:
        return _compare_sequences(
            symbol, _replace_absent(old) or [], _replace_absent(new) or [], value_type, marks=marks, options=options
        )
    if classes == {str}:
        return _compare_strings(symbol, old, new, options)
    if dict in classes or list in classes:
        old_node = _build_node(old, ABSENT, value_type, marks, options)
        new_node = _build_node(ABSENT, new, value_type, marks, options)
        return DifferenceNode(NodeKind.TYPE_CHANGED, symbol, children=(old_node, new_node))
    return DifferenceNode(NodeKind.LEAF, symbol, old=_replace_absent(old), new=_replace_absent(new))


def _replace_absent(plain: Any) -> Any:
    """Return the value, or None if it is absent."""
    return None if plain is ABSENT else plain


def _compute_symbol(old: Any, new: Any, value_type: Type) -> str:
    """Return the symbol of a value: created, deleted, changed or unchanged."""
    if old is ABSENT:
        return SAME if new is ABSENT else CREATED
    if new is ABSENT:
        return DELETED
    return SAME if is_equal(old, new, value_type) else CHANGED


def _compute_mark_symbol(marks: PathMarks) -> str:
    return SAME if marks.old is marks.new else CHANGED


def _compute_mark_note(old: Any, new: Any, marks: PathMarks) -> str:
    """Return "sensitive" or "exposed" if the sensitivity of a value changes, else ""."""
    if old is ABSENT or new is ABSENT or marks.old is marks.new:
        return ""
    return "sensitive" if marks.new is True else "exposed"


def is_equal(old: Any, new: Any, value_type: Type = DYNAMIC) -> bool:
    """Return whether two values are equal. Without a type, `1` and `true` differ."""
    if old is new:
        return True
    if old != new:
        return False
    return value_type is not DYNAMIC or _has_same_booleans(old, new)


def _has_same_booleans(old: Any, new: Any) -> bool:
    """Return whether equal values have booleans at the same positions. Python treats 1 and True as equal."""
    if old.__class__ is dict:
        return all(_has_same_booleans(old[name], new[name]) for name in old)
    if old.__class__ is list:
        return all(map(_has_same_booleans, old, new))
    return (old.__class__ is bool) == (new.__class__ is bool)


# --- collections -------------------------------------------------------------------------------


def _compare_mappings(
    symbol: str,
    old: dict[str, Any],
    new: dict[str, Any],
    mapping_type: Type,
    *,
    marks: PathMarks,
    options: DifferenceOptions,
) -> DifferenceNode:
    """Compare maps or objects, with a child per entry."""
    is_map = isinstance(mapping_type, MapType)
    types = dict(mapping_type.attributes) if isinstance(mapping_type, ObjectType) else {}
    element = mapping_type.element if isinstance(mapping_type, MapType) else DYNAMIC
    get_side = _get_element if is_map or options.keep_null else get_attribute
    children: list[DifferenceNode] = []
    hidden_count = width = 0
    for name in sorted({**old, **new}):
        old_value, new_value = get_side(old, name), get_side(new, name)
        if old_value is ABSENT and new_value is ABSENT:
            continue
        width = max(width, measure_name_width(name, quote=is_map))
        is_important = not is_map and name in IMPORTANT
        child_type, child_marks = types.get(name, element), marks.select_part(name, name)
        if not is_important and can_skip(old_value, new_value, child_type, marks=child_marks, options=options):
            hidden_count += 1
            continue
        child = _compare_named(name, old_value, new_value, child_type, marks=child_marks, options=options)
        if is_important or is_visible(child, options):
            children.append(child)
        else:
            hidden_count += 1
    return DifferenceNode(
        NodeKind.MAP if is_map else NodeKind.OBJECT,
        _merge_symbols(symbol, children),
        children=tuple(children),
        hidden=hidden_count,
        width=width,
    )


def _get_element(side: Mapping[str, Any], key: str) -> Any:
    return side.get(key, ABSENT)


def get_attribute(side: Mapping[str, Any], name: str) -> Any:
    """Return the value of an attribute, or ABSENT if it is null or missing."""
    plain = side.get(name)
    return ABSENT if plain is None else plain


def measure_name_width(name: str, *, quote: bool = False) -> int:
    """Return the width of a name left of `=`; with `quote` (map keys) without its quotation marks."""
    if name.isidentifier():
        return len(name)
    return count_columns(quote_string(name)) - 2 if quote else count_columns(format_attribute_name(name))


def can_skip(old: Any, new: Any, value_type: Type, *, marks: PathMarks, options: DifferenceOptions) -> bool:
    """Return whether a part is unchanged and hidden, so that it needs no node."""
    return marks is NO_MARKS and not options.show_unchanged and is_equal(old, new, value_type)


def is_visible(node: DifferenceNode, options: DifferenceOptions) -> bool:
    """Return whether a node is part of the tree: it differs, or unchanged parts are requested."""
    return options.show_unchanged or node.symbol != SAME


def _merge_symbols(symbol: str, children: Sequence[DifferenceNode]) -> str:
    # Equal data may differ in sensitivity.
    return CHANGED if symbol == SAME and any(child.symbol for child in children) else symbol


def _compare_sequences(
    symbol: str, old: list[Any], new: list[Any], sequence_type: Type, *, marks: PathMarks, options: DifferenceOptions
) -> DifferenceNode:
    """Compare lists or tuples by paired elements; `_compare_sets` handles sets."""
    if isinstance(sequence_type, SetType):
        return _compare_sets(symbol, old, new, sequence_type, options)
    children: list[DifferenceNode] = []
    for old_at, new_at in pair_elements(old, new):
        element_type = _get_element_type(sequence_type, new_at if new_at is not None else old_at)
        old_element = ABSENT if old_at is None else old[old_at]
        new_element = ABSENT if new_at is None else new[new_at]
        children.append(_build_node(old_element, new_element, element_type, marks.select_part(old_at, new_at), options))
    visible_children, hidden_count = _select_with_context(children, options)
    return DifferenceNode(
        NodeKind.LIST, _merge_symbols(symbol, children), children=visible_children, hidden=hidden_count
    )


def _get_element_type(sequence_type: Type, index: int | None) -> Type:
    """Return the type of an element of a list or a tuple."""
    if isinstance(sequence_type, ListType):
        return sequence_type.element
    if isinstance(sequence_type, TupleType) and index is not None and index < len(sequence_type.elements):
        return sequence_type.elements[index]
    return DYNAMIC


def _select_with_context(
    children: Sequence[DifferenceNode], options: DifferenceOptions
) -> tuple[tuple[DifferenceNode, ...], int]:
    """Return the visible list elements and the number of hidden ones after them. A changed element keeps one
    unchanged neighbour on each side. A node with a count replaces hidden elements in between.
    """
    if options.show_unchanged or all(child.symbol for child in children):
        return tuple(children), 0
    visible_children: list[DifferenceNode] = []
    hidden_count = 0
    for position, child in enumerate(children):
        neighbours = children[max(position - 1, 0) : position + 2]
        if not any(neighbour.symbol for neighbour in neighbours):
            hidden_count += 1
            continue
        if hidden_count:
            visible_children.append(DifferenceNode(NodeKind.GAP, SAME, hidden=hidden_count))
            hidden_count = 0
        visible_children.append(child)
    return tuple(visible_children), hidden_count


def _compare_sets(
    symbol: str, old: list[Any], new: list[Any], set_type: SetType, options: DifferenceOptions
) -> DifferenceNode:
    children: list[DifferenceNode] = []
    for old_at, new_at in _pair_set_elements(old, new):
        old_element = ABSENT if old_at is None else old[old_at]
        new_element = ABSENT if new_at is None else new[new_at]
        children.append(_build_node(old_element, new_element, set_type.element, NO_MARKS, options))
    visible_children = tuple(child for child in children if is_visible(child, options))
    return DifferenceNode(NodeKind.SET, symbol, children=visible_children, hidden=len(children) - len(visible_children))


def _pair_set_elements(old: list[Any], new: list[Any]) -> list[Pair]:
    """Return the positions of the elements on each side, those of the old side first."""
    # Elements of a set are added or removed, never changed.
    old_positions = {repr(element): position for position, element in enumerate(old)}
    new_positions = {repr(element): position for position, element in enumerate(new)}
    old_pairs: list[Pair] = [(position, new_positions.get(text)) for text, position in old_positions.items()]
    added_pairs: list[Pair] = [
        (None, position) for text, position in new_positions.items() if text not in old_positions
    ]
    return old_pairs + added_pairs


# --- strings -----------------------------------------------------------------------------------


def _compare_strings(symbol: str, old: Any, new: Any, options: DifferenceOptions) -> DifferenceNode:
    """Compare strings: embedded JSON, several lines, or a leaf."""
    if _may_be_json(old) and _may_be_json(new):
        node = _compare_json(symbol, old, new, options)
        if node is not None:
            return node
    if any("\n" in text for text in (old, new) if text is not ABSENT):
        return _compare_texts(symbol, old, new)
    return DifferenceNode(NodeKind.LEAF, symbol, old=_replace_absent(old), new=_replace_absent(new))


def _may_be_json(text: Any) -> bool:
    """Return whether the start of a text allows JSON. An absent text allows it."""
    if text is ABSENT:
        return True
    # The first character excludes most texts without stripping them.
    return text[:1] in "{[ \n\t" and text.strip()[:1] in ("{", "[")


def _compare_json(symbol: str, old: Any, new: Any, options: DifferenceOptions) -> DifferenceNode | None:
    """Compare strings of JSON; return None if one of them is not JSON."""
    import json

    try:
        old_json = ABSENT if old is ABSENT else json.loads(old)
        new_json = ABSENT if new is ABSENT else json.loads(new)
    except (ValueError, RecursionError):
        return None
    if is_too_deep(old_json) or is_too_deep(new_json):
        return None
    structure = _build_node(
        old_json, new_json, DYNAMIC, NO_MARKS, DifferenceOptions(options.show_unchanged, keep_null=True)
    )
    return DifferenceNode(NodeKind.JSON, symbol, children=(structure,))


def _compare_texts(symbol: str, old: Any, new: Any) -> DifferenceNode:
    """Compare multi-line texts, with a child per line."""
    old_lines = [] if old is ABSENT else old.split("\n")
    new_lines = [] if new is ABSENT else new.split("\n")
    lines = tuple(_build_line_node(old_lines, new_lines, pair) for pair in pair_elements(old_lines, new_lines))
    return DifferenceNode(NodeKind.TEXT, symbol, children=lines)


def _build_line_node(old_lines: Sequence[str], new_lines: Sequence[str], pair: Pair) -> DifferenceNode:
    """Build the node of one line, present on one side or both."""
    old = None if pair[0] is None else old_lines[pair[0]]
    new = None if pair[1] is None else new_lines[pair[1]]
    if old is None:
        return DifferenceNode(NodeKind.LEAF, CREATED, new=new)
    if new is None:
        return DifferenceNode(NodeKind.LEAF, DELETED, old=old)
    return DifferenceNode(NodeKind.LEAF, SAME, old=old, new=new)


def create_leaf(name: str, symbol: str, text: str) -> DifferenceNode:
    """Create a node with a text in place of its value."""
    return DifferenceNode(NodeKind.CONDENSED, symbol, name=name, new=text)
