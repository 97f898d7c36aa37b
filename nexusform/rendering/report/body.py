"""The body of a resource as a difference tree: attributes by name, then nested blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from nexusform.plain_data import Path
from nexusform.rendering.notation.hcl_text import NO_MARKS, Marks
from nexusform.rendering.report import difference_tree
from nexusform.rendering.report.difference_tree import (
    ABSENT,
    CHANGED,
    CREATED,
    DELETED,
    REPLACED,
    SAME,
    Difference,
    NodeKind,
    Walk,
)
from nexusform.rendering.report.pairing import paired
from nexusform.schema import BlockSchema, NestedBlock, Nesting, order_attribute
from nexusform.value_types import DYNAMIC, Type
from nexusform.values import UNKNOWN

_PLAIN_WALK: Final = Walk()
_WITH_NAMES: Final = frozenset({NodeKind.BLOCK, NodeKind.OBJECT, NodeKind.MAP, NodeKind.LIST, NodeKind.SET})
_NONE: Final[Mapping[str, str]] = {}


def body_difference(
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    schema: BlockSchema | None,
    *,
    marks: Marks = NO_MARKS,
    walk: Walk = _PLAIN_WALK,
    condensed: Mapping[str, str] = _NONE,
) -> Difference:
    """The tree of a whole object. `condensed` gives texts that stand for attributes that differ.

    Without a schema every property is an attribute. None on a side: the object is not there.
    """
    return _body(before or {}, after or {}, schema, marks=marks, walk=walk, condensed=condensed)


def in_written_order(tree: Difference, written: Sequence[Path]) -> Difference:
    """The tree with its parts in the order in which the configuration writes them; others follow by name."""
    return _in_order(tree, ranks_of(written), ()) if written else tree


def ranks_of(written: Iterable[Path]) -> dict[Path, int]:
    """The number of every place in the order of the text."""
    return {place: number for number, place in enumerate(written)}


def _in_order(node: Difference, ranks: Mapping[Path, int], place: Path) -> Difference:
    """A node with its parts in order; elements of lists keep theirs."""
    if node.kind not in _WITH_NAMES:
        return node
    last = len(ranks)

    def place_of(part: Difference) -> Path:
        return tuple(step for step in (*place, part.name, part.label) if step)

    def rank(part: Difference) -> int:
        return ranks.get(place_of(part), last)

    children = tuple(_in_order(part, ranks, place_of(part)) for part in sorted(node.children, key=rank))
    blocks = tuple(_in_order(part, ranks, place_of(part)) for part in sorted(node.blocks, key=rank))
    return node._replace(children=children, blocks=blocks)


def _body(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    schema: BlockSchema | None,
    *,
    marks: Marks,
    walk: Walk,
    condensed: Mapping[str, str],
) -> Difference:
    """Attributes and nested blocks that differ or are to be shown all the same, in order of name."""
    block_types = schema.blocks if schema else {}
    names = sorted({**old, **new})
    attributes = _attributes(
        [name for name in names if name not in block_types],
        old,
        new,
        schema,
        marks=marks,
        walk=walk,
        condensed=condensed,
    )
    blocks: list[Difference] = []
    for name in names:
        if name in block_types:
            blocks += _blocks(name, old, new, block_types[name], marks=marks.at(name, name), walk=walk)
    shown = tuple(block for block in blocks if difference_tree.is_shown(block, walk))
    return attributes._replace(
        symbol=CHANGED if any(part.symbol for part in (*attributes.children, *shown)) else SAME,
        blocks=shown,
        hidden_blocks=len(blocks) - len(shown),
    )


# --- attributes --------------------------------------------------------------------------------


def _attributes(
    names: Iterable[str],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    schema: BlockSchema | None,
    *,
    marks: Marks,
    walk: Walk,
    condensed: Mapping[str, str],
) -> Difference:
    """The body with its attributes alone, as yet without symbol and blocks."""
    order_attributes = _order_attributes(schema)
    children: list[Difference] = []
    hidden = width = 0
    for name in names:
        before, after = difference_tree.attribute_of(old, name), difference_tree.attribute_of(new, name)
        if before is ABSENT and after is ABSENT:
            continue
        if name in order_attributes and not _reordered(before, after):
            continue
        width = max(width, difference_tree.name_width(name))
        important = name in difference_tree.IMPORTANT
        of, own_marks = _type_of(schema, name), marks.at(name, name)
        if not important and difference_tree.skips(before, after, of, marks=own_marks, walk=walk):
            hidden += 1
            continue
        child = _condensed(name, before, after, condensed)
        if child is None:
            child = difference_tree.value_difference(name, before, after, of, marks=own_marks, walk=walk)
        if important or difference_tree.is_shown(child, walk):
            children.append(child)
        else:
            hidden += 1
    return Difference(NodeKind.BLOCK, SAME, children=tuple(children), hidden=hidden, width=width)


def _order_attributes(schema: BlockSchema | None) -> frozenset[str]:
    """The attributes that hold the source order of labelled blocks."""
    if schema is None:
        return frozenset()
    labelled = (name for name, block in schema.blocks.items() if block.nesting is Nesting.MAP)
    return frozenset(order_attribute(name) for name in labelled)


def _reordered(old: Any, new: Any) -> bool:
    # The order list of labelled blocks says something only when blocks that stay swap places.
    if old.__class__ is not list or new.__class__ is not list:
        return False
    staying = set(old) & set(new)
    return [label for label in old if label in staying] != [label for label in new if label in staying]


def _type_of(schema: BlockSchema | None, name: str) -> Type:
    attribute = schema.attributes.get(name) if schema else None
    return attribute.type if attribute else DYNAMIC


def _condensed(name: str, old: Any, new: Any, condensed: Mapping[str, str]) -> Difference | None:
    """The text that stands for an attribute, where there is one and the attribute differs."""
    if name not in condensed or old is new or old == new:
        return None
    text = condensed[name]
    if old is ABSENT:
        return difference_tree.leaf(name, CREATED, text)
    return difference_tree.leaf(name, DELETED if new is ABSENT else CHANGED, text)


# --- blocks ------------------------------------------------------------------------------------


def _blocks(
    name: str,
    old_body: Mapping[str, Any],
    new_body: Mapping[str, Any],
    block: NestedBlock,
    *,
    marks: Marks,
    walk: Walk,
) -> list[Difference]:
    """The nested blocks of one type, unchanged ones too; `marks` as seen from them."""
    old, new = old_body.get(name), new_body.get(name)
    if new is UNKNOWN:
        return [Difference(NodeKind.LEAF, CHANGED if old else CREATED, name=name, new=UNKNOWN)]
    match block.nesting:
        case Nesting.SINGLE:
            return [_block(name, "", old, new, block, marks=marks, walk=walk)] if old or new else []
        case Nesting.LIST:
            return _block_list(name, old or [], new or [], block, marks=marks, walk=walk)
        case Nesting.MAP:
            labels = _labels_in_order(name, old_body, new_body)
            return _block_map(name, labels, old or {}, new or {}, block, marks=marks, walk=walk)


def _block_list(
    name: str, old: list[Any], new: list[Any], block: NestedBlock, *, marks: Marks, walk: Walk
) -> list[Difference]:
    """Blocks that have no label: paired as elements of a list."""
    blocks: list[Difference] = []
    for i, j in paired(old, new):
        before = None if i is None else old[i]
        after = None if j is None else new[j]
        blocks.append(_block(name, "", before, after, block, marks=marks.at(i, j), walk=walk))
    return blocks


def _block_map(
    name: str,
    labels: Iterable[str],
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    block: NestedBlock,
    *,
    marks: Marks,
    walk: Walk,
) -> list[Difference]:
    """Blocks under labels: each with its namesake."""
    return [
        _block(name, label, old.get(label), new.get(label), block, marks=marks.at(label, label), walk=walk)
        for label in labels
    ]


def _labels_in_order(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Labels in source order: those of the new side first, then those that go."""
    labels: dict[str, None] = {}
    for side in (new, old):
        blocks = side.get(name)
        if blocks.__class__ is not dict:
            continue
        order = side.get(order_attribute(name))
        if order.__class__ is list:
            labels.update((label, None) for label in order if label in blocks)
        labels.update(dict.fromkeys(sorted(blocks)))
    return list(labels)


def _block(
    name: str, label: str, old: Any, new: Any, block: NestedBlock, *, marks: Marks, walk: Walk
) -> Difference:
    """One nested block that comes, goes or changes."""
    body = _body(old or {}, new or {}, block.schema, marks=marks, walk=walk, condensed=_NONE)
    symbol = _block_symbol(old, new, body.symbol)
    if label and symbol == CHANGED and any(part.forces for part in (*body.children, *body.blocks)):
        symbol = REPLACED
    return body._replace(symbol=symbol, name=name, label=label, forces=marks.forces is True)


def _block_symbol(old: Any, new: Any, body_symbol: str) -> str:
    if old is None:
        return CREATED
    if new is None:
        return DELETED
    # What a body leaves out, such as a null beside no attribute, may differ all the same.
    return CHANGED if body_symbol == SAME and not difference_tree.same(old, new) else body_symbol
