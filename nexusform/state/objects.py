"""What nexusform remembers between runs. Frozen: a change gives a new State."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.plain_data import Path
from nexusform.value_types import Type


class ObjectState(Struct, frozen=True):
    """One object that a provider made.

    `attributes` is plain data of the type's schema; `sensitive` the paths in it that must not be
    shown. `dependencies` are the direct ones, as resource addresses without instance keys
    (`module.a.nexus_rack.r`), sorted. `creation` is the object's creation number: unique in a
    state, growing; providers know an object by (type, id, creation). `private` is the resource
    type's own note, never shown or compared.
    """

    attributes: Mapping[str, Any]
    creation: int
    sensitive: tuple[Path, ...] = ()
    dependencies: tuple[str, ...] = ()
    tainted: bool = False
    create_before_destroy: bool = False
    provider: str = "simulated"
    schema_version: int = 0
    private: Mapping[str, Any] | None = None


class InstanceState(Struct, frozen=True):
    """What stands at one address: the current object, and deposed ones by their 8-hex key (left
    over when the old object of a create_before_destroy replacement was not destroyed yet).
    """

    current: ObjectState | None
    deposed: Mapping[str, ObjectState] = field(default_factory=dict)


class OutputState(Struct, frozen=True):
    """A root output: plain value, its type, and whether it is sensitive."""

    value: Any
    type: Type
    sensitive: bool = False


class State(Struct, frozen=True):
    """All that is remembered.

    `lineage` is the id of the state's history ("" before the first apply), `serial` grows by one
    per apply that changes something. `catalogue` is the version of the SKU catalogue that the
    state was made with. `applied_plans` are digests of the last 256 applied plan files.
    `last_creation` is the highest creation number ever given.
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

    def with_instance(self, address: Address, instance: InstanceState | None) -> State:
        """The state with one instance put or (None) removed."""
        instances = dict(self.instances)
        if instance is None or (instance.current is None and not instance.deposed):
            instances.pop(address, None)
        else:
            instances[address] = instance
        return replace(self, instances=instances)


EMPTY = State()
