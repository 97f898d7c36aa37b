"""What a block may say: attributes, nested blocks, and what a change of each means."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any

from msgspec import Struct, field

from nexusform.value_types import STRING, ListType, MapType, ObjectType, Type


class Nesting(StrEnum):
    """How repeated nested blocks read: one object (null when absent), a list in source order, or
    a map by the block's label (its source order is kept in the computed list `<block>_order`).
    """

    SINGLE = "single"
    LIST = "list"
    MAP = "map"


class OnChange(StrEnum):
    """What a changed argument does to the object: update it, replace it (r), or re-place the VMs
    of the pool it stands in (p).
    """

    UPDATE = "update"
    REPLACE = "replace"
    REPLACE_POOL = "replace_pool"


class Reference(Struct, frozen=True):
    """Whose objects an attribute names: those of `types`, the first that has one, whose attribute `by`
    holds the same.

    A text names one object, a map one for each of its keys, a list one for each of its items. Items that
    are objects are the same where all `fields` are.
    """

    types: tuple[str, ...]
    by: str = "id"
    fields: tuple[str, ...] = ()


class Attribute(Struct, frozen=True):
    """One argument or computed value.

    Exactly one of required, optional, computed-only holds; `computed` with `optional` means the
    user may set it and nexusform fills it in otherwise. `default` is plain data for an optional
    argument that is absent. `predicted` (pr): an observed value may differ without being an error.
    `decides_placement`: must be known in the plan. Checks on known values: `choices`, `minimum`
    and `maximum` (inclusive, numbers; whole ones in state unless `fractions` will do), `pattern`
    (whole match, strings) with `pattern_hint` in words. `shown_in` names computed attributes that show
    parts of the value: they are sensitive when it is. `refers_to` says whose objects it names: apply
    makes those first and removes them last, whether the configuration refers to them or writes their
    ids out.
    """

    type: Type
    description: str
    required: bool = False
    optional: bool = False
    computed: bool = False
    default: Any = None
    on_change: OnChange = OnChange.UPDATE
    predicted: bool = False
    decides_placement: bool = False
    sensitive: bool = False
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    fractions: bool = False
    pattern: str = ""
    pattern_hint: str = ""
    shown_in: tuple[str, ...] = ()
    refers_to: Reference | None = None

    @property
    def configurable(self) -> bool:
        """Whether users may write it."""
        return self.required or self.optional


class NestedBlock(Struct, frozen=True):
    """A nested block type. `label` names the label of MAP blocks. That blocks exclude each other is
    said by the resource type's own check.
    """

    schema: BlockSchema
    nesting: Nesting
    description: str
    label: str = ""
    min_items: int = 0
    max_items: int | None = None
    on_change: OnChange = OnChange.UPDATE


class BlockSchema(Struct, frozen=True):
    """The body of a block. `lengths`: figures that, where both are written, say how many a list has."""

    attributes: Mapping[str, Attribute]
    blocks: Mapping[str, NestedBlock] = field(default_factory=dict)
    description: str = ""
    lengths: Mapping[str, str] = field(default_factory=dict)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def order_attribute(block_type: str) -> str:
    """The computed attribute that keeps the source order of labelled blocks: list of labels."""
    return f"{block_type}_order"


@lru_cache(maxsize=1024)
def implied_type(schema: BlockSchema) -> ObjectType:
    """The object type of a whole body: configured and computed attributes, blocks, and the
    order lists of labelled blocks.
    """
    attributes: dict[str, Type] = {name: a.type for name, a in schema.attributes.items()}
    for name, block in schema.blocks.items():
        inner = implied_type(block.schema)
        if block.nesting is Nesting.SINGLE:
            attributes[name] = inner
        elif block.nesting is Nesting.LIST:
            attributes[name] = ListType(inner)
        else:
            attributes[name] = MapType(inner)
            attributes[order_attribute(name)] = ListType(STRING)
    return ObjectType.of(attributes)


def at_path(schema: BlockSchema, path: tuple[str | int, ...]) -> Attribute | NestedBlock | None:
    """The attribute or block that governs a path into a value of this schema, or None."""
    current = schema
    position = 0
    while position < len(path):
        name = path[position]
        if not isinstance(name, str):
            return None
        if name in current.attributes:
            return current.attributes[name]
        block = current.blocks.get(name)
        if block is None:
            return None
        position += 1 if block.nesting is Nesting.SINGLE else 2
        if position >= len(path):
            return block
        current = block.schema
    return None
