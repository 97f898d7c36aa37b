"""The body of a resource as a difference tree: attributes by name, then nested blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from nexusform.rendering.notation.marks import NO_MARKS, Marks
from nexusform.rendering.notation.sequences import paired
from nexusform.rendering.report.difference import (
    ABSENT,
    IMPORTANT,
    REPLACED,
    SAME,
    Difference,
    Kind,
    Walk,
    difference,
    leaf,
    name_width,
    same,
    skips,
)
from nexusform.schema import BlockSchema, NestedBlock, Nesting, order_attribute
from nexusform.value_types import DYNAMIC, Type
from nexusform.values import UNKNOWN

_PLAIN_WALK: Final = Walk()
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


def _body(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    schema: BlockSchema | None,
    *,
    marks: Marks,
    walk: Walk,
    condensed: Mapping[str, str],
) -> Difference:
    blocks = schema.blocks if schema else {}
    orders = {order_attribute(name): name for name, b in blocks.items() if b.nesting is Nesting.MAP}
    children: list[Difference] = []
    nested: list[Difference] = []
    hidden = hidden_blocks = width = 0
    for name in sorted({**old, **new}):
        if name in blocks:
            inner, left_out = _blocks(
                name,
                old.get(name),
                new.get(name),
                blocks[name],
                order=_label_order(name, old, new),
                marks=marks,
                walk=walk,
            )
            nested += inner
            hidden_blocks += left_out
            continue
        before, after = _absent(old.get(name)), _absent(new.get(name))
        if before is ABSENT and after is ABSENT:
            continue
        if name in orders and not _reordered(before, after):
            continue
        width = max(width, name_width(name))
        of, at_name = _type_of(schema, name), marks.at(name, name)
        if name not in IMPORTANT and skips(before, after, of, marks=at_name, walk=walk):
            hidden += 1
            continue
        child = _attribute(name, before, after, of, marks=at_name, walk=walk, condensed=condensed)
        if walk.show_unchanged or child.symbol != SAME or name in IMPORTANT:
            children.append(child)
        else:
            hidden += 1
    changed = any(c.symbol for c in children) or any(b.symbol for b in nested)
    return Difference(
        Kind.BLOCK,
        "~" if changed else SAME,
        children=tuple(children),
        blocks=tuple(nested),
        hidden=hidden,
        hidden_blocks=hidden_blocks,
        width=width,
    )


def _absent(plain: Any) -> Any:
    return ABSENT if plain is None else plain


def _type_of(schema: BlockSchema | None, name: str) -> Type:
    attribute = schema.attributes.get(name) if schema else None
    return attribute.type if attribute else DYNAMIC


def _attribute(
    name: str, old: Any, new: Any, of: Type, *, marks: Marks, walk: Walk, condensed: Mapping[str, str]
) -> Difference:
    if name in condensed and old is not new:
        symbol = "+" if old is ABSENT else "-" if new is ABSENT else SAME if old == new else "~"
        if symbol:
            return leaf(name, symbol, condensed[name])
    return difference(name, old, new, of, marks=marks, walk=walk)


def _reordered(old: Any, new: Any) -> bool:
    # The order list of labelled blocks says something only when blocks that stay swap places.
    if old.__class__ is not list or new.__class__ is not list:
        return False
    kept = set(old) & set(new)
    return [x for x in old if x in kept] != [x for x in new if x in kept]


def _blocks(
    name: str,
    old: Any,
    new: Any,
    block: NestedBlock,
    *,
    order: list[str],
    marks: Marks,
    walk: Walk,
) -> tuple[list[Difference], int]:
    if new is UNKNOWN:
        return [Difference(Kind.LEAF, "~" if old else "+", name=name, new=UNKNOWN)], 0
    inner = marks.at(name, name)
    if block.nesting is Nesting.SINGLE:
        found = [_block(name, "", old, new, block, marks=inner, walk=walk)] if old or new else []
    elif block.nesting is Nesting.LIST:
        before, after = old or [], new or []
        found = [
            _block(name, "", _part(before, i), _part(after, j), block, marks=inner.at(i, j), walk=walk)
            for i, j in paired(before, after)
        ]
    else:
        before, after = old or {}, new or {}
        found = [
            _block(
                name,
                label,
                before.get(label),
                after.get(label),
                block,
                marks=inner.at(label, label),
                walk=walk,
            )
            for label in order
        ]
    shown = [b for b in found if b.symbol or walk.show_unchanged]
    return shown, len(found) - len(shown)


def _part(items: list[Any], index: int | None) -> Any:
    return None if index is None else items[index]


def _label_order(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    # Labels in source order: those of the new side first, then those that go.
    found: dict[str, None] = {}
    for side in (new, old):
        present = side.get(name)
        if present.__class__ is dict:
            listed = side.get(order_attribute(name))
            first = [x for x in listed if x in present] if listed.__class__ is list else []
            found.update(dict.fromkeys([*first, *sorted(present)]))
    return list(found)


def _block(
    name: str, label: str, old: Any, new: Any, block: NestedBlock, *, marks: Marks, walk: Walk
) -> Difference:
    body = _body(old or {}, new or {}, block.schema, marks=marks, walk=walk, condensed=_NONE)
    symbol = "+" if old is None else "-" if new is None else body.symbol
    if symbol == SAME and not same(old, new):
        symbol = "~"
    if label and symbol == "~" and any(part.forces for part in (*body.children, *body.blocks)):
        symbol = REPLACED
    return Difference(
        Kind.BLOCK,
        symbol,
        name=name,
        label=label,
        children=body.children,
        blocks=body.blocks,
        hidden=body.hidden,
        hidden_blocks=body.hidden_blocks,
        width=body.width,
        forces=marks.forces is True,
    )
