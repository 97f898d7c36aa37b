"""Tree of the changes inside an object, computed once for all formats.

The type of a value separates sets, maps and objects; without a schema the shape of
the data decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

from msgspec import Struct

from nexusform.json_data.plain_data import Path, get_list
from nexusform.rendering.notation.colours import count_columns
from nexusform.rendering.notation.hcl_text import (
    NO_MARKS,
    TOO_DEEP,
    PathMarks,
    format_attribute_name,
    get_element_type,
    is_nested_too_deep,
    quote_string,
)
from nexusform.schemas.block_schema import BlockSchema, NestedBlock, Nesting, get_order_attribute
from nexusform.schemas.value_types import DYNAMIC, STRING, MapType, ObjectType, SetType, Type
from nexusform.values.typed_value import UNKNOWN

CREATED = "+"
DELETED = "-"
CHANGED = "~"
SAME = ""
# A labelled block (an agent pool) with all VMs deleted and created again.
REPLACED: Final = "-/+"
# Names that are shown even if unchanged.
_IDENTIFYING_NAMES: Final = frozenset({"id", "name"})


class NodeKind(StrEnum):
    """Kind of a node for drawing."""

    # A primitive, null or unknown: `old`, `new`.
    LEAF = "leaf"
    # A string of several lines; children are its lines.
    TEXT = "text"
    # A string with JSON; its one child is the structure.
    JSON = "json"
    LIST = "list"
    # Omitted unchanged list elements; `hidden` is their number.
    GAP = "gap"
    SET = "set"
    MAP = "map"
    OBJECT = "object"
    # A nested block, or the body of a resource.
    BLOCK = "block"
    SENSITIVE = "sensitive"
    # `new` is the replacement text of the value.
    CONDENSED = "condensed"
    # The kind of value changed: two children, old and new.
    TYPE_CHANGED = "turned"


class DifferenceNode(NamedTuple):
    """One node: its kind, its change ("+", "-", "~", "" = unchanged) and its parts.

    `hidden` counts omitted unchanged parts, `hidden_blocks` omitted unchanged nested blocks.
    `width` is the longest name among the parts, including hidden ones. `forces_replacement` marks a
    cause of replacement. `note` is "sensitive" or "exposed" when the sensitivity itself changes.
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
_Mapping: TypeAlias = Mapping[str, Any]
_NO_TEXTS: Final[Mapping[str, str]] = {}
_NO_SCHEMA: Final = BlockSchema({})


class Comparison(Struct, frozen=True):
    """Comparison of two sides.

    `show_unchanged` keeps unchanged parts in the tree; `keep_null` treats null as a value, as in
    JSON, and not as a missing attribute. The marks of a part are relative to it.
    """

    show_unchanged: bool = False
    keep_null: bool = False

    def compare_objects(
        self,
        before: _Mapping | None,
        after: _Mapping | None,
        schema: BlockSchema | None,
        marks: PathMarks = NO_MARKS,
        condensed_texts: Mapping[str, str] = _NO_TEXTS,
    ) -> DifferenceNode:
        """Compute the difference tree of a whole object: attributes and nested blocks by name.

        `condensed_texts` maps changed attributes to replacement texts. Without a schema every
        property is an attribute. The object does not exist on a side with None.
        """
        old = before or {}
        new = after or {}
        schema = schema or _NO_SCHEMA
        names = {**old, **new}.keys()

        def compare_attribute(
            name: str, old: Any, new: Any, value_type: Type, marks: PathMarks
        ) -> DifferenceNode:
            """Compare the values of one attribute.

            The comparison has no details if its change has a condensed text.
            """
            if name in condensed_texts and old != new:
                return DifferenceNode(
                    NodeKind.CONDENSED,
                    _compute_symbol(old, new, value_type),
                    name,
                    new=condensed_texts[name],
                )
            return self.compare_values(name, old, new, value_type, marks)

        # Blocks are compared below. Computed attributes record the order of blocks: omit those
        # without a change.
        omitted_names = {*schema.blocks, *_list_unchanged_orders(schema, old, new)}
        types = {name: attribute.type for name, attribute in schema.attributes.items()}
        body = self._compare_parts(
            NodeKind.BLOCK, names - omitted_names, old, new, types, marks, compare_attribute
        )
        blocks: list[DifferenceNode] = []
        for name in sorted(names & schema.blocks.keys()):
            # The step on both sides.
            block_marks = marks.select_part(name, name)
            blocks += self._compare_blocks(name, old, new, schema.blocks[name], block_marks)
        visible_blocks = tuple(filter(self._is_node_visible, blocks))
        return body._replace(
            symbol=_merge_symbols(SAME, (*body.children, *visible_blocks)),
            blocks=visible_blocks,
            hidden_blocks=len(blocks) - len(visible_blocks),
        )

    def compare_values(
        self, name: str, old: Any, new: Any, value_type: Type, marks: PathMarks = NO_MARKS
    ) -> DifferenceNode:
        """Compare two values; a missing one is ABSENT.

        The node has no parts if a value is nested too deep.
        """
        if is_nested_too_deep(old) or is_nested_too_deep(new):
            return DifferenceNode(
                NodeKind.CONDENSED, _compute_symbol(old, new, value_type), name, new=TOO_DEEP
            )
        return self._compare_named(name, old, new, value_type, marks)

    def _compare_named(
        self, name: str, old: Any, new: Any, value_type: Type, marks: PathMarks
    ) -> DifferenceNode:
        """Compare two values; add the name and a mark if the change forces replacement.

        A `name` of "" adds none.
        """
        node = self._build_node(old, new, value_type, marks)
        forces_replacement = marks.replacement is True and node.symbol != SAME
        return (
            node._replace(name=name, forces_replacement=forces_replacement)
            if name or forces_replacement
            else node
        )

    def _is_node_visible(self, node: DifferenceNode) -> bool:
        """Return whether a node is part of the tree.

        It differs, or unchanged parts are requested.
        """
        return self.show_unchanged or node.symbol != SAME

    def _compare_blocks(
        self,
        name: str,
        old_body: _Mapping,
        new_body: _Mapping,
        block: NestedBlock,
        marks: PathMarks,
    ) -> list[DifferenceNode]:
        """Return a node per nested block of the type `name`, from the bodies around them.

        A type has at most one block (SINGLE), a list of blocks, or blocks by label. Old and new
        blocks pair by label, or like elements of a list. All blocks are one node if they are
        unknown until apply.
        """
        old = old_body.get(name)
        new = new_body.get(name)
        # The number of blocks and their labels are unknown as well: one node for all.
        if new is UNKNOWN:
            return [
                DifferenceNode(NodeKind.LEAF, CHANGED if old else CREATED, name=name, new=UNKNOWN)
            ]
        if not old and not new:
            return []
        if block.nesting is Nesting.SINGLE:
            return [self._compare_block(name, "", old, new, block, marks)]
        nodes = []
        if block.nesting is Nesting.LIST:
            old = old or []
            new = new or []
            # None: no block on this side.
            for old_position, new_position in pair_elements(old, new):
                old_block = _get_element(old, old_position, default=None)
                new_block = _get_element(new, new_position, default=None)
                part_marks = marks.select_part(old_position, new_position)
                nodes.append(self._compare_block(name, "", old_block, new_block, block, part_marks))
        else:
            old = old or {}
            new = new or {}
            for label in _list_labels(name, old_body, new_body):
                label_marks = marks.select_part(label, label)
                nodes.append(
                    self._compare_block(
                        name, label, old.get(label), new.get(label), block, label_marks
                    )
                )
        return nodes

    def _compare_block(
        self, name: str, label: str, old: Any, new: Any, block: NestedBlock, marks: PathMarks
    ) -> DifferenceNode:
        """Compare one nested block; `old` or `new` is None if it is created or deleted.

        A changed block with a label is replaced if a part of it forces the replacement.
        """
        body = self.compare_objects(old, new, block.schema, marks)
        symbol = body.symbol
        if old is None:
            symbol = CREATED
        elif new is None:
            symbol = DELETED
        elif not _is_equal(old, new):
            # It is changed even if the body hides the difference, as of null and a missing
            # attribute.
            symbol = CHANGED
        if (
            label
            and symbol == CHANGED
            and any(part.forces_replacement for part in (*body.children, *body.blocks))
        ):
            # A labelled block, such as an agent pool, is replaced without its resource.
            symbol = REPLACED
        return body._replace(
            symbol=symbol, name=name, label=label, forces_replacement=marks.replacement is True
        )

    def _build_node(self, old: Any, new: Any, value_type: Type, marks: PathMarks) -> DifferenceNode:
        """Build the node of the difference of two values, without its name.

        A side is ABSENT if it has no value, as the old side of a new attribute. `marks` are True on
        a sensitive side. Two dicts or two lists are compared by part, two texts by line, and other
        values as a whole. The symbol of a node is "+", "-", "~" or "" (equal).
        """
        symbol = _compute_symbol(old, new, value_type)
        # The value is sensitive as a whole.
        if marks.old is True or marks.new is True:
            if marks.old is marks.new:
                return DifferenceNode(NodeKind.SENSITIVE, symbol)
            note = ""
            # An existing value becomes sensitive, or is no longer so.
            if old is not ABSENT and new is not ABSENT:
                note = "sensitive" if marks.new is True else "exposed"
            # Equal values count as changed.
            return DifferenceNode(NodeKind.SENSITIVE, symbol or CHANGED, note=note)
        # With one class, the values are compared in parts. An absent side counts as empty.
        value_classes = {side.__class__ for side in (old, new) if side is not ABSENT}
        if value_classes == {dict}:
            old_parts = _replace_absent(old, {})
            new_parts = _replace_absent(new, {})
            node = self._compare_mappings(old_parts, new_parts, value_type, marks)
            return node._replace(symbol=_merge_symbols(symbol, node.children))
        if value_classes == {list}:
            old_elements = _replace_absent(old, [])
            new_elements = _replace_absent(new, [])
            return self._compare_sequences(symbol, old_elements, new_elements, value_type, marks)
        if value_classes == {str}:
            return self._compare_strings(symbol, old, new)
        # A structure on one side only, or of another class.
        if dict in value_classes or list in value_classes:
            # One value is deleted, the other created.
            sides = ((old, ABSENT), (ABSENT, new))
            children = tuple(
                self._build_node(before, after, value_type, marks) for before, after in sides
            )
            return DifferenceNode(NodeKind.TYPE_CHANGED, symbol, children=children)
        return _create_leaf(symbol, old, new)

    def _compare_mappings(
        self, old: _Mapping, new: _Mapping, mapping_type: Type, marks: PathMarks
    ) -> DifferenceNode:
        """Compare maps or objects, with a child per entry."""
        names = {**old, **new}.keys()
        if isinstance(mapping_type, MapType):
            types = dict.fromkeys(names, mapping_type.element)
            return self._compare_parts(
                NodeKind.MAP, names, old, new, types, marks, self._compare_named
            )
        types = dict(mapping_type.attributes) if isinstance(mapping_type, ObjectType) else {}
        return self._compare_parts(
            NodeKind.OBJECT, names, old, new, types, marks, self._compare_named
        )

    def _compare_parts(
        self,
        kind: NodeKind,
        names: Iterable[str],
        old: _Mapping,
        new: _Mapping,
        types: Mapping[str, Type],
        marks: PathMarks,
        compare: Callable[[str, Any, Any, Type, PathMarks], DifferenceNode],
    ) -> DifferenceNode:
        """Compare the named parts of two objects or maps by `compare`.

        Return a node with the changed parts as children and the number of hidden, equal parts. An
        object shows its `id` and `name` even if equal. `width` is the width of the longest name, to
        align the values. The caller adds the symbol.
        """
        is_map = kind is NodeKind.MAP
        # In an object, a null attribute counts as absent.
        has_nulls = is_map or self.keep_null
        identifying_names = frozenset() if is_map else _IDENTIFYING_NAMES
        children: list[DifferenceNode] = []
        part_count = width = 0
        for name in sorted(names):
            old_value = _get_part_or_absent(old, name, has_nulls=has_nulls)
            new_value = _get_part_or_absent(new, name, has_nulls=has_nulls)
            if old_value is ABSENT and new_value is ABSENT:
                continue
            part_count += 1
            width = max(width, measure_name_width(name, quote=is_map))
            is_always_shown = self.show_unchanged or name in identifying_names
            part_type = types.get(name, DYNAMIC)
            part_marks = marks.select_part(name, name)
            if (
                not is_always_shown
                and part_marks is NO_MARKS
                and _is_equal(old_value, new_value, part_type)
            ):
                # Equal parts are hidden. Marks of sensitivity may differ: then `compare` is needed.
                continue
            child = compare(name, old_value, new_value, part_type, part_marks)
            if is_always_shown or child.symbol != SAME:
                children.append(child)
        hidden_count = part_count - len(children)
        return DifferenceNode(
            kind, SAME, children=tuple(children), hidden=hidden_count, width=width
        )

    def _compare_sequences(
        self, symbol: str, old: list[Any], new: list[Any], sequence_type: Type, marks: PathMarks
    ) -> DifferenceNode:
        """Compare lists, tuples or sets.

        Elements of lists are paired; changed ones appear with their neighbours.
        """
        if isinstance(sequence_type, SetType):
            return self._compare_sets(symbol, old, new, sequence_type.element)
        children: list[DifferenceNode] = []
        # None: no element on this side.
        for old_position, new_position in pair_elements(old, new):
            position = old_position if new_position is None else new_position
            # Of a tuple it depends on the position.
            element_type = get_element_type(sequence_type, position or 0)
            sides = (_get_element(old, old_position), _get_element(new, new_position))
            element_marks = marks.select_part(old_position, new_position)
            children.append(self._build_node(*sides, element_type, element_marks))
        visible, hidden_count = (
            (tuple(children), 0) if self.show_unchanged else _select_with_context(children)
        )
        return DifferenceNode(
            NodeKind.LIST, _merge_symbols(symbol, children), children=visible, hidden=hidden_count
        )

    def _compare_sets(
        self, symbol: str, old: list[Any], new: list[Any], element_type: Type
    ) -> DifferenceNode:
        """Compare sets.

        Their elements are added or removed, never changed; those of the old side come first.
        """
        # Elements can be unhashable.
        old_elements = {repr(element): element for element in old}
        new_elements = {repr(element): element for element in new}
        children = []
        for text in {**old_elements, **new_elements}:
            sides = (old_elements.get(text, ABSENT), new_elements.get(text, ABSENT))
            children.append(self._build_node(*sides, element_type, NO_MARKS))
        visible = tuple(filter(self._is_node_visible, children))
        return DifferenceNode(
            NodeKind.SET, symbol, children=visible, hidden=len(children) - len(visible)
        )

    def _compare_strings(self, symbol: str, old: Any, new: Any) -> DifferenceNode:
        """Compare two strings; one of them may be ABSENT.

        Strings with JSON objects or lists are compared by part. Other strings of several lines are
        compared by line, and short ones as a whole.
        """
        structures = (_parse_json(old), _parse_json(new))
        # Both are JSON, or absent; a null inside is kept as a value.
        if None not in structures:
            structure = Comparison(self.show_unchanged, keep_null=True).compare_values(
                "", *structures, DYNAMIC
            )
            return DifferenceNode(NodeKind.JSON, symbol, children=(structure,))
        old_lines, new_lines = ([] if text is ABSENT else text.split("\n") for text in (old, new))
        if len(old_lines) <= 1 and len(new_lines) <= 1:
            return _create_leaf(symbol, old, new)
        lines = []
        # Pairs of positions; None if there is no such line on this side.
        for i, j in pair_elements(old_lines, new_lines):
            old_line = _get_element(old_lines, i)
            new_line = _get_element(new_lines, j)
            lines.append(
                _create_leaf(_compute_symbol(old_line, new_line, STRING), old_line, new_line)
            )
        return DifferenceNode(NodeKind.TEXT, symbol, children=tuple(lines))


def _replace_absent(value: Any, default: Any = None) -> Any:
    """Return the value, or the default if it is absent."""
    return default if value is ABSENT else value


def _get_element(elements: Sequence[Any], position: int | None, default: Any = ABSENT) -> Any:
    """Return the element at a position, or the default for None."""
    return default if position is None else elements[position]


def _create_leaf(symbol: str, old: Any, new: Any) -> DifferenceNode:
    """Build the node of a value without parts; an absent side becomes None."""
    return DifferenceNode(NodeKind.LEAF, symbol, old=_replace_absent(old), new=_replace_absent(new))


def _compute_symbol(old: Any, new: Any, value_type: Type) -> str:
    """Return the symbol of a value by its sides.

    The symbol is CREATED, DELETED, CHANGED, or SAME (which is "").
    """
    if old is ABSENT:
        return CREATED
    if new is ABSENT:
        return DELETED
    return SAME if _is_equal(old, new, value_type) else CHANGED


def _merge_symbols(symbol: str, children: Sequence[DifferenceNode]) -> str:
    """Return the symbol of a value with children: its own, or CHANGED if only a child changes."""
    if symbol == SAME and any(child.symbol for child in children):
        # The values are equal, but the sensitivity of a child differs.
        return CHANGED
    return symbol


def _is_equal(old: Any, new: Any, value_type: Type = DYNAMIC) -> bool:
    """Return whether two values are equal.

    If the type is unknown, `1` and `true` differ.
    """
    if old is new:
        return True
    if old != new:
        return False
    # A type allows only one of `1` and `true`.
    return value_type is not DYNAMIC or is_equal_with_booleans(old, new)


def is_equal_with_booleans(old: Any, new: Any) -> bool:
    """Return whether equal values have booleans at the same positions.

    Python treats 1 and True as equal.
    """
    if old.__class__ is dict:
        return all(is_equal_with_booleans(old[name], new[name]) for name in old)
    if old.__class__ is list:
        return all(map(is_equal_with_booleans, old, new))
    return (old.__class__ is bool) == (new.__class__ is bool)


def _get_part_or_absent(side: _Mapping, name: str, *, has_nulls: bool) -> Any:
    """Return the value of a part, or ABSENT if it is missing.

    Without `has_nulls`, null counts as missing.
    """
    value = side.get(name, ABSENT)
    return ABSENT if value is None and not has_nulls else value


def measure_name_width(name: str, *, quote: bool = False) -> int:
    """Return the width of a name left of `=`.

    `quote` is for map keys: their quotation marks do not count.
    """
    if name.isidentifier():
        return len(name)
    return (
        count_columns(quote_string(name)) - 2
        if quote
        else count_columns(format_attribute_name(name))
    )


def _parse_json(text: Any) -> Any:
    """Return the structure of a JSON text.

    Return ABSENT for an absent text, and None if it is no container or too deep.
    """
    if text is ABSENT:
        return ABSENT
    # The first character excludes most texts without stripping them.
    if text[:1] not in "{[ \n\t" or text.strip()[:1] not in ("{", "["):
        return None
    import json

    try:
        structure = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return None if is_nested_too_deep(structure) else structure


def _list_unchanged_orders(schema: BlockSchema, old: _Mapping, new: _Mapping) -> Iterable[str]:
    """Yield the names of the computed attributes for the source order of labelled blocks.

    Attributes whose order changed are left out. Only labels on both sides count: an added or
    removed block does not change the order.
    """
    for name, block in schema.blocks.items():
        attribute = get_order_attribute(name)
        if block.nesting is Nesting.MAP:
            # It is empty if unknown.
            old_labels = get_list(old, attribute)
            new_labels = get_list(new, attribute)
            common_labels = set(old_labels) & set(new_labels)
            if sorted(common_labels, key=old_labels.index) == sorted(
                common_labels, key=new_labels.index
            ):
                yield attribute


def _list_labels(name: str, old: _Mapping, new: _Mapping) -> list[str]:
    """List the labels of the blocks of the type `name` in the order of the configuration.

    Those of the new side come first, then removed ones. A separate attribute of the body records
    this order; labels missing in it follow by name.
    """
    labels: dict[str, None] = {}
    for side in (new, old):
        blocks = side.get(name)
        # Missing on this side, or unknown.
        if blocks.__class__ is not dict:
            continue
        order = side.get(get_order_attribute(name))
        if order.__class__ is list:
            labels |= dict.fromkeys(label for label in order if label in blocks)
        # Labels without a recorded position are added.
        labels |= dict.fromkeys(sorted(blocks))
    return list(labels)


def _select_with_context(
    children: Sequence[DifferenceNode],
) -> tuple[tuple[DifferenceNode, ...], int]:
    """Return the visible list elements and the number of hidden ones after them.

    A changed element keeps one unchanged neighbour on each side. A node with a count replaces
    hidden elements in between.
    """
    visible_children: list[DifferenceNode] = []
    hidden_count = 0
    for position, child in enumerate(children):
        # The element itself, and one on each side.
        neighbours = children[max(position - 1, 0) : position + 2]
        if all(neighbour.symbol == SAME for neighbour in neighbours):
            hidden_count += 1
            continue
        if hidden_count:
            visible_children.append(DifferenceNode(NodeKind.GAP, SAME, hidden=hidden_count))
            hidden_count = 0
        visible_children.append(child)
    return tuple(visible_children), hidden_count


# A position on each side; None for an element of one side only.
_Pair: TypeAlias = tuple[int | None, int | None]


def pair_elements(before: Sequence[Any], after: Sequence[Any]) -> list[_Pair]:
    """Return pairs of positions (before, after) in display order.

    An element of one side only has None as its partner. From `["a", "b"]` to `["b", "c"]` they are
    `[(0, None), (1, 0), (None, 1)]`. Equal elements are pairs. Among the differing ones between
    them, objects (dicts) pair in order as changed objects; other elements are removed and added.
    """
    # No element has a partner.
    if not before or not after:
        return [(i, None) for i in range(len(before))] + [(None, j) for j in range(len(after))]
    from difflib import SequenceMatcher

    # The library difflib hashes its elements, but dicts are unhashable: it compares numbers of the
    # distinct elements instead. By text of the element.
    numbers: dict[str, int] = {}
    old, new = (
        [numbers.setdefault(repr(element), len(numbers)) for element in side]
        for side in (before, after)
    )
    pairs: list[_Pair] = []
    # The new side comes first: of several equal matches, difflib takes the earliest in
    # its first sequence.
    for tag, new_start, new_stop, old_start, old_stop in SequenceMatcher(
        None, new, old, autojunk=False
    ).get_opcodes():
        # Add the old elements of a range first, with their partners, then its new elements without
        # one. The next new element without a partner.
        j = new_start
        for i in range(old_start, old_stop):
            is_pair = j < new_stop and before[i].__class__ is dict and after[j].__class__ is dict
            if tag == "equal" or is_pair:
                pairs.append((i, j))
                j += 1
            else:
                pairs.append((i, None))
        pairs += [(None, position) for position in range(j, new_stop)]
    return pairs


_NAMED_KINDS: Final = frozenset(
    {NodeKind.BLOCK, NodeKind.OBJECT, NodeKind.MAP, NodeKind.LIST, NodeKind.SET}
)


def sort_by_source_order(tree: DifferenceNode, source_order: Sequence[Path]) -> DifferenceNode:
    """Return the tree with attributes, entries and blocks in source order.

    Those without a place in the source come last.
    """
    ranks = {path: number for number, path in enumerate(source_order)}

    def sort_parts(parts: Sequence[DifferenceNode], path: Path) -> tuple[DifferenceNode, ...]:
        """Sort the parts of the node at a path, and their parts in turn."""
        # A block has a label.
        paths: list[Path] = [(*path, *filter(None, (part.name, part.label))) for part in parts]
        order = sorted(
            range(len(parts)), key=lambda position: ranks.get(paths[position], len(ranks))
        )
        return tuple(sort_node(parts[position], paths[position]) for position in order)

    def sort_node(node: DifferenceNode, path: Path) -> DifferenceNode:
        """Sort the parts of a node with names, and their parts in turn."""
        if node.kind not in _NAMED_KINDS:
            return node
        return node._replace(
            children=sort_parts(node.children, path), blocks=sort_parts(node.blocks, path)
        )

    return sort_node(tree, ()) if ranks else tree
