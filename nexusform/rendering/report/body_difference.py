"""Difference tree of a resource body: attributes by name, then nested blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from nexusform.json_data.plain_data import Path
from nexusform.rendering.notation.hcl_text import NO_MARKS, PathMarks
from nexusform.rendering.report import difference_tree
from nexusform.rendering.report.difference_tree import (
    ABSENT,
    CHANGED,
    CREATED,
    DELETED,
    REPLACED,
    SAME,
    DifferenceNode,
    DifferenceOptions,
    NodeKind,
)
from nexusform.rendering.report.pairing import pair_elements
from nexusform.schemas.block_schema import BlockSchema, NestedBlock, Nesting, get_order_attribute
from nexusform.schemas.value_types import DYNAMIC, Type
from nexusform.values.value import UNKNOWN

_DEFAULT_OPTIONS: Final = DifferenceOptions()
_NAMED_KINDS: Final = frozenset({NodeKind.BLOCK, NodeKind.OBJECT, NodeKind.MAP, NodeKind.LIST, NodeKind.SET})
_NO_CONDENSED_TEXTS: Final[Mapping[str, str]] = {}


def compare_objects(
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    schema: BlockSchema | None,
    *,
    marks: PathMarks = NO_MARKS,
    options: DifferenceOptions = _DEFAULT_OPTIONS,
    condensed_texts: Mapping[str, str] = _NO_CONDENSED_TEXTS,
) -> DifferenceNode:
    """Compute the difference tree of a whole object. `condensed` maps changed attributes to replacement
    texts. Without a schema every property is an attribute. None on a side means that the object does not
    exist there.
    """
    return _compare_bodies(
        before or {}, after or {}, schema, marks=marks, options=options, condensed_texts=condensed_texts
    )


def sort_by_source_order(tree: DifferenceNode, source_order: Sequence[Path]) -> DifferenceNode:
    """Return the tree with its parts in source order; parts outside the source follow by name."""
    return _sort_node(tree, compute_ranks(source_order), ()) if source_order else tree


def compute_ranks(source_order: Iterable[Path]) -> dict[Path, int]:
    """Map every path to its position in the source order."""
    return {path: number for number, path in enumerate(source_order)}


def _sort_node(node: DifferenceNode, ranks: Mapping[Path, int], path: Path) -> DifferenceNode:
    """Return a node with its parts sorted; list elements keep their order."""
    if node.kind not in _NAMED_KINDS:
        return node
    last = len(ranks)

    def build_part_path(part: DifferenceNode) -> Path:
        return tuple(step for step in (*path, part.name, part.label) if step)

    def get_rank(part: DifferenceNode) -> int:
        return ranks.get(build_part_path(part), last)

    children = tuple(_sort_node(part, ranks, build_part_path(part)) for part in sorted(node.children, key=get_rank))
    blocks = tuple(_sort_node(part, ranks, build_part_path(part)) for part in sorted(node.blocks, key=get_rank))
    return node._replace(children=children, blocks=blocks)


def _compare_bodies(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    schema: BlockSchema | None,
    *,
    marks: PathMarks,
    options: DifferenceOptions,
    condensed_texts: Mapping[str, str],
) -> DifferenceNode:
    """Compare attributes and nested blocks in order of name; keep those that differ or must be shown."""
    block_types = schema.blocks if schema else {}
    names = sorted({**old, **new})
    attributes = _compare_attributes(
        [name for name in names if name not in block_types],
        old,
        new,
        schema,
        marks=marks,
        options=options,
        condensed_texts=condensed_texts,
    )
    blocks: list[DifferenceNode] = []
    for name in names:
        if name in block_types:
            blocks += _compare_blocks(
                name, old, new, block_types[name], marks=marks.select_part(name, name), options=options
            )
    visible_blocks = tuple(block for block in blocks if difference_tree.is_visible(block, options))
    return attributes._replace(
        symbol=CHANGED if any(part.symbol for part in (*attributes.children, *visible_blocks)) else SAME,
        blocks=visible_blocks,
        hidden_blocks=len(blocks) - len(visible_blocks),
    )


# --- attributes --------------------------------------------------------------------------------


def _compare_attributes(
    names: Iterable[str],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    schema: BlockSchema | None,
    *,
    marks: PathMarks,
    options: DifferenceOptions,
    condensed_texts: Mapping[str, str],
) -> DifferenceNode:
    """Compare the attributes of a body; symbol and blocks are added later."""
    order_attributes = _list_order_attributes(schema)
    children: list[DifferenceNode] = []
    hidden_count = width = 0
    for name in names:
        before, after = difference_tree.get_attribute(old, name), difference_tree.get_attribute(new, name)
        if before is ABSENT and after is ABSENT:
            continue
        if name in order_attributes and not _is_reordered(before, after):
            continue
        width = max(width, difference_tree.measure_name_width(name))
        is_important = name in difference_tree.IMPORTANT
        attribute_type, own_marks = _get_type(schema, name), marks.select_part(name, name)
        if not is_important and difference_tree.can_skip(
            before, after, attribute_type, marks=own_marks, options=options
        ):
            hidden_count += 1
            continue
        child = _create_condensed_leaf(name, before, after, condensed_texts)
        if child is None:
            child = difference_tree.compare_values(
                name, before, after, attribute_type, marks=own_marks, options=options
            )
        if is_important or difference_tree.is_visible(child, options):
            children.append(child)
        else:
            hidden_count += 1
    return DifferenceNode(NodeKind.BLOCK, SAME, children=tuple(children), hidden=hidden_count, width=width)


def _list_order_attributes(schema: BlockSchema | None) -> frozenset[str]:
    """Return the attributes with the source order of labelled blocks."""
    if schema is None:
        return frozenset()
    block_names = (name for name, block in schema.blocks.items() if block.nesting is Nesting.MAP)
    return frozenset(get_order_attribute(name) for name in block_names)


def _is_reordered(old: Any, new: Any) -> bool:
    # The order list of labelled blocks matters only when remaining blocks swap positions.
    if old.__class__ is not list or new.__class__ is not list:
        return False
    common_labels = set(old) & set(new)
    return [label for label in old if label in common_labels] != [label for label in new if label in common_labels]


def _get_type(schema: BlockSchema | None, name: str) -> Type:
    attribute = schema.attributes.get(name) if schema else None
    return attribute.type if attribute else DYNAMIC


def _create_condensed_leaf(name: str, old: Any, new: Any, condensed_texts: Mapping[str, str]) -> DifferenceNode | None:
    """Return a leaf with the replacement text of a changed attribute, or None without such a text."""
    if name not in condensed_texts or old is new or old == new:
        return None
    text = condensed_texts[name]
    if old is ABSENT:
        return difference_tree.create_leaf(name, CREATED, text)
    return difference_tree.create_leaf(name, DELETED if new is ABSENT else CHANGED, text)


# --- blocks ------------------------------------------------------------------------------------


def _compare_blocks(
    name: str,
    old_body: Mapping[str, Any],
    new_body: Mapping[str, Any],
    block: NestedBlock,
    *,
    marks: PathMarks,
    options: DifferenceOptions,
) -> list[DifferenceNode]:
    """Compare the nested blocks of one type, including unchanged ones; `marks` are relative to the blocks."""
    old, new = old_body.get(name), new_body.get(name)
    if new is UNKNOWN:
        return [DifferenceNode(NodeKind.LEAF, CHANGED if old else CREATED, name=name, new=UNKNOWN)]
    match block.nesting:
        case Nesting.SINGLE:
            return [_compare_block(name, "", old, new, block, marks=marks, options=options)] if old or new else []
        case Nesting.LIST:
            return _compare_block_list(name, old or [], new or [], block, marks=marks, options=options)
        case Nesting.MAP:
            labels = _list_labels(name, old_body, new_body)
            return _compare_block_map(name, labels, old or {}, new or {}, block, marks=marks, options=options)


def _compare_block_list(
    name: str, old: list[Any], new: list[Any], block: NestedBlock, *, marks: PathMarks, options: DifferenceOptions
) -> list[DifferenceNode]:
    """Compare blocks without labels, paired like list elements."""
    blocks: list[DifferenceNode] = []
    for i, j in pair_elements(old, new):
        before = None if i is None else old[i]
        after = None if j is None else new[j]
        blocks.append(_compare_block(name, "", before, after, block, marks=marks.select_part(i, j), options=options))
    return blocks


def _compare_block_map(
    name: str,
    labels: Iterable[str],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    block: NestedBlock,
    *,
    marks: PathMarks,
    options: DifferenceOptions,
) -> list[DifferenceNode]:
    """Compare labelled blocks with the same label."""
    return [
        _compare_block(
            name, label, old.get(label), new.get(label), block, marks=marks.select_part(label, label), options=options
        )
        for label in labels
    ]


def _list_labels(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """List labels in source order: those of the new side first, then removed ones."""
    labels: dict[str, None] = {}
    for side in (new, old):
        blocks = side.get(name)
        if blocks.__class__ is not dict:
            continue
        order = side.get(get_order_attribute(name))
        if order.__class__ is list:
            labels.update((label, None) for label in order if label in blocks)
        labels.update(dict.fromkeys(sorted(blocks)))
    return list(labels)


def _compare_block(
    name: str, label: str, old: Any, new: Any, block: NestedBlock, *, marks: PathMarks, options: DifferenceOptions
) -> DifferenceNode:
    """Compare one nested block."""
    body = _compare_bodies(
        old or {}, new or {}, block.schema, marks=marks, options=options, condensed_texts=_NO_CONDENSED_TEXTS
    )
    symbol = _compute_block_symbol(old, new, body.symbol)
    if label and symbol == CHANGED and any(part.forces_replacement for part in (*body.children, *body.blocks)):
        symbol = REPLACED
    return body._replace(symbol=symbol, name=name, label=label, forces_replacement=marks.replacement is True)


def _compute_block_symbol(old: Any, new: Any, body_symbol: str) -> str:
    if old is None:
        return CREATED
    if new is None:
        return DELETED
    # Parts omitted from a body may still differ, such as null and a missing attribute.
    return CHANGED if body_symbol == SAME and not difference_tree.is_equal(old, new) else body_symbol
