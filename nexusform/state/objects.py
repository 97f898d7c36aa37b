"""State between runs.

A State is frozen: a change gives a new one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.doubts.doubt import Doubt
from nexusform.json_data.plain_data import Path, get_mapping
from nexusform.resources.address import Address
from nexusform.schemas.value_types import Type

# Of the schemas of all resource types. A state may have objects of a newer nexusform.
SCHEMA_VERSION: Final = 0


class ObjectState(Struct, frozen=True):
    """One object created by a provider.

    `attributes` is plain data of the type's schema; `sensitive` the paths in it that must not be
    displayed. `dependencies` are the direct ones, as resource addresses without instance keys
    (`module.a.nexus_rack.r`), sorted. `creation` is the object's creation number: unique in a
    state, growing; providers identify an object by (type, id, creation). `private` is internal data
    of the resource type, never displayed or compared. `skip_destroy` means that the object is
    forgotten, not destroyed, once its block is removed.
    """

    attributes: Mapping[str, Any]
    creation: int
    sensitive: tuple[Path, ...] = ()
    dependencies: tuple[str, ...] = ()
    tainted: bool = False
    create_before_destroy: bool = False
    provider: str = "simulated"
    schema_version: int = SCHEMA_VERSION
    private: Mapping[str, Any] | None = None
    skip_destroy: bool = False

    @property
    def note(self) -> Mapping[str, Any]:
        """Private data; empty without any."""
        return self.private or {}


class InstanceState(Struct, frozen=True):
    """Objects at one address: the current object, and deposed ones by their 8-hex key.

    An object is deposed if the old object of a create_before_destroy replacement is
    not destroyed yet.
    """

    current: ObjectState | None
    deposed: Mapping[str, ObjectState] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is no object."""
        return self.current is None and not self.deposed

    @property
    def all_objects(self) -> list[tuple[str, ObjectState]]:
        """The objects with their deposed keys: the current one first, with the key ""."""
        deposed_objects = sorted(self.deposed.items())
        return deposed_objects if self.current is None else [("", self.current), *deposed_objects]


EMPTY_INSTANCE = InstanceState(None)


def get_current_object(instance: InstanceState | None) -> ObjectState | None:
    """Return the current object of an instance.

    Return None without an instance or without a current object.
    """
    return instance.current if instance is not None else None


def iterate_current_objects(
    instances: Mapping[Address, InstanceState],
) -> Iterator[tuple[Address, ObjectState]]:
    """Yield the current objects with their addresses.

    Instances with deposed objects only are left out.
    """
    for address, instance in instances.items():
        if instance.current is not None:
            yield address, instance.current


def replace_note_entry(
    note: Mapping[str, Any] | None, key: str, value: Collection[Any]
) -> dict[str, Any] | None:
    """Return the private data `note` with `key` as its last entry; an empty value removes it.

    A note of None means no data.
    """
    # State may have been edited.
    entries = dict(get_mapping(note))
    entries.pop(key, None)
    if value:
        entries[key] = value
    return entries or None


class OutputState(Struct, frozen=True):
    """Root output: plain value, its type, and a sensitivity flag."""

    value: Any
    type: Type
    sensitive: bool = False


class State(Struct, frozen=True):
    """Complete state.

    `lineage` is the id of the state's history ("" before the first apply), `serial` grows by one
    per apply that changes something. `catalogue` is the version of the SKU catalogue used for the
    state. `applied_plans` are digests of the last 256 applied plan files. `last_creation` is the
    highest creation number ever assigned. `providers` holds the `identity` of the systems behind
    the providers, by name. `exports` holds the time of the inventories of the last apply, by the
    address of their reader. `unread` are the facts that its data sources did not read, of any site.
    """

    lineage: str = ""
    serial: int = 0
    nexusform_version: str = ""
    catalogue: str = ""
    instances: Mapping[Address, InstanceState] = field(default_factory=dict)
    outputs: Mapping[str, OutputState] = field(default_factory=dict)
    applied_plans: tuple[str, ...] = ()
    last_creation: int = 0
    check_results: tuple[Mapping[str, Any], ...] = ()
    providers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    exports: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[Doubt, ...] = ()

    def list_current_objects(self) -> Iterator[tuple[Address, ObjectState]]:
        """Return the current objects with their addresses."""
        return iterate_current_objects(self.instances)

    def replace_instance(self, address: Address, instance: InstanceState | None) -> State:
        """Return the state with one instance set or (None) removed."""
        instances = dict(self.instances)
        if instance is None or instance.is_empty:
            instances.pop(address, None)
        else:
            instances[address] = instance
        return replace(self, instances=instances)


EMPTY = State()
