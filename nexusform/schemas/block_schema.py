"""Schemas of blocks: attributes, nested blocks, and the effect of changes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct, field

from nexusform.schemas.value_types import (
    BOOL,
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    TupleType,
    Type,
)

# Keys of the private data of any object in state; `COMMON_PRIVATE` has their schemas.
# Unmanaged VMs of a rack or machine: rows with the fields of `OccupiedCapacity`.
UNMANAGED_KEY: Final = "unmanaged"
# VMs removed from state that are still running, in such rows, until a provider reads the site.
FORGOTTEN_KEY: Final = "forgotten"
# Facts of a site that nexusform does not read: rows with the first fields of `Doubt`.
UNREAD_KEY: Final = "unread"
# Failed change of an object, in the provider's own fields, with a `message` for people. It is
# pending until the provider reads or completes it. With `in_progress` it is still in progress.
UNFINISHED_KEY: Final = "unfinished"
# VMs by their placement: rows of the serial of the state then, the trigger, and the names.
PLACED_KEY: Final = "placed"
# Machines that VMs had to leave, by name of the VM.
PREVIOUS_MACHINES_KEY: Final = "previous_machines"


class Nesting(StrEnum):
    """Representation of nested blocks.

    They are one object (null if absent), a list in source order, or a map by the block's label. The
    source order of a map is kept in the computed list `<block>_order`.
    """

    SINGLE = "single"
    LIST = "list"
    MAP = "map"


class OnChange(StrEnum):
    """Effect of a changed argument.

    Update the object, replace it (r), or re-place its pool's VMs (p).
    """

    UPDATE = "update"
    REPLACE = "replace"
    REPLACE_POOL = "replace_pool"


class ObjectReference(Struct, frozen=True):
    """Reference of an attribute to objects.

    The objects are those of `types` (the first with a match) with an equal attribute `by`. A text
    refers to one object, a map to one for each key, a list to one for each item. Items that are
    objects are equal if all `fields` are.
    """

    types: tuple[str, ...]
    by: str = "id"
    fields: tuple[str, ...] = ()


class AttributeSchema(Struct, frozen=True):
    """Argument or computed value.

    Exactly one of required, optional, computed-only applies; `computed` with `optional` means that
    the user may set it and nexusform computes it otherwise. `default` is plain data for an absent
    optional argument. `predicted` (pr): an observed value may differ without an error.
    `decides_placement`: must be known in the plan. Checks of known values: `choices`, `minimum` and
    `maximum` (inclusive, numbers; whole ones in state unless `allows_fractions`), `pattern` (whole
    match, strings) with `pattern_hint` in words. `displayed_in` are attributes with parts of the
    value: they are sensitive if it is. `refers_to` are the referenced objects: apply creates those
    first and removes them last, for references and literal ids alike. `observed`: read from the
    site, never planned; an argument, if optional, only under provider simulated.
    `is_ignored_if_observed`: a configured value is no error there, but only counts until the object
    is observed. `instead` is the advice for a configured computed attribute. `write_only`: sent,
    but in no plan, state or journal; may be ephemeral. `secret_fields` matches the names of the
    attribute and of fields in its value that are sensitive in every configuration.
    `allows_sensitive`: may be sensitive although it decides placements. `earlier_keys`: names that
    keys of the elements of a map had in earlier states, with their present names. `member_choices`:
    values of members of the objects in a map; null is one only if listed. `required_members`:
    members that objects in the value have in every state, as dotted names without list positions
    and keys of maps. The readers of other members have a default. `optional_elements`: number of
    the last elements of its tuples that may be absent in state. `fractional_elements`: positions of
    numbers in its tuples that may have a fraction; the others are whole.
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
    allows_fractions: bool = False
    pattern: str = ""
    pattern_hint: str = ""
    displayed_in: tuple[str, ...] = ()
    refers_to: ObjectReference | None = None
    observed: bool = False
    is_ignored_if_observed: bool = False
    instead: str = ""
    write_only: bool = False
    secret_fields: re.Pattern[str] | None = None
    allows_sensitive: bool = False
    earlier_keys: Mapping[str, str] = field(default_factory=dict)
    member_choices: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    required_members: tuple[str, ...] = ()
    optional_elements: int = 0
    fractional_elements: tuple[int, ...] = ()

    @property
    def is_configurable(self) -> bool:
        """True if users may set it."""
        return self.required or self.optional


class NestedBlock(Struct, frozen=True):
    """Nested block type.

    `label` names the label of MAP blocks. The type itself checks mutually exclusive blocks.
    """

    schema: BlockSchema
    nesting: Nesting
    description: str
    label: str = ""
    min_items: int = 0
    max_items: int | None = None
    on_change: OnChange = OnChange.UPDATE


class BlockSchema(Struct, frozen=True):
    """Body of a block.

    `lengths` maps count arguments to their list: if both are set, they must agree. `private` are
    the entries of this type in the private data of its objects in state, besides COMMON_PRIVATE.
    """

    attributes: Mapping[str, AttributeSchema]
    blocks: Mapping[str, NestedBlock] = field(default_factory=dict)
    description: str = ""
    lengths: Mapping[str, str] = field(default_factory=dict)
    private: Mapping[str, AttributeSchema] = field(default_factory=dict)

    @property
    def write_only_names(self) -> tuple[str, ...]:
        """Names of its write-only arguments."""
        return tuple(name for name, attribute in self.attributes.items() if attribute.write_only)

    # By identity: it is a key of caches, and its mappings have no hash.
    __hash__ = object.__hash__
    __eq__ = object.__eq__


def get_order_attribute(block_type: str) -> str:
    """Return the name of the computed attribute with the labels of these blocks in source order."""
    return f"{block_type}_order"


@lru_cache(maxsize=1024)
def compute_implied_type(schema: BlockSchema) -> ObjectType:
    """Compute the object type of a whole body: configured and computed attributes, and blocks."""
    attributes: dict[str, Type] = {
        name: attribute.type for name, attribute in schema.attributes.items()
    }
    for name, block in schema.blocks.items():
        block_type = compute_implied_type(block.schema)
        if block.nesting is Nesting.SINGLE:
            attributes[name] = block_type
        elif block.nesting is Nesting.LIST:
            attributes[name] = ListType(block_type)
        else:
            # By label; a map has no order: the labels in source order are a separate list.
            attributes[name] = MapType(block_type)
            attributes[get_order_attribute(name)] = ListType(STRING)
    return ObjectType.create(attributes)


def find_schema(
    schema: BlockSchema, path: tuple[str | int, ...]
) -> AttributeSchema | NestedBlock | None:
    """Find the attribute or the block at a path; None without one.

    The path may lead into the value of the attribute.
    """
    current = schema
    position = 0
    while position < len(path):
        name = path[position]
        if not isinstance(name, str):
            # A number in place of a name.
            return None
        if name in current.attributes:
            return current.attributes[name]
        block = current.blocks.get(name)
        if block is None:
            return None
        # Also the number or the label of the block.
        position += 1 if block.nesting is Nesting.SINGLE else 2
        if position >= len(path):
            return block
        current = block.schema
    return None


def make_private_entry(
    kind: ListType | MapType | ObjectType,
    description: str,
    *,
    optional_elements: int = 0,
    fractional_elements: tuple[int, ...] = (),
) -> AttributeSchema:
    """Return the schema of an entry; the elements are those of its rows (see AttributeSchema)."""
    return AttributeSchema(
        kind,
        description,
        computed=True,
        optional_elements=optional_elements,
        fractional_elements=fractional_elements,
    )


# Machine, name, cores, memory, disk, number of cells; then the numbers of the cells, if known.
_VM_ROWS: Final = ListType(
    TupleType((STRING, STRING, NUMBER, NUMBER, NUMBER, NUMBER, ListType(NUMBER)))
)
# The memory.
_FRACTIONAL: Final = (3,)
COMMON_PRIVATE: Final[Mapping[str, AttributeSchema]] = {
    UNMANAGED_KEY: make_private_entry(
        _VM_ROWS, "Unmanaged VMs.", optional_elements=1, fractional_elements=_FRACTIONAL
    ),
    FORGOTTEN_KEY: make_private_entry(
        _VM_ROWS, "Forgotten VMs.", optional_elements=1, fractional_elements=_FRACTIONAL
    ),
    UNREAD_KEY: make_private_entry(
        ListType(TupleType((STRING, STRING, STRING, STRING, NUMBER, STRING, STRING))),
        "Unread facts: kind, name, field, file, line, influence, reason.",
    ),
    UNFINISHED_KEY: make_private_entry(
        ObjectType.create({"message": STRING, "brief": STRING, "in_progress": BOOL}),
        "Failed change.",
    ),
    PLACED_KEY: make_private_entry(
        ListType(TupleType((NUMBER, STRING, ListType(STRING)))), "Placements of VMs."
    ),
    PREVIOUS_MACHINES_KEY: make_private_entry(MapType(STRING), "Machines left by VMs."),
}
