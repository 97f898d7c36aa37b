"""Who uses what, whether the configuration refers to it or not.

By what arguments name (a schema says whose objects: `refers_to`), and by the machines of VMs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from nexusform.address import Address
from nexusform.planning.plan import Change
from nexusform.planning.vms.vm_object import VmObject
from nexusform.ports import Kind, ResourceType
from nexusform.schema import Reference

Types = Mapping[str, ResourceType]
Values = Mapping[str, Any]


class Uses:
    """What the objects of a plan use before and after it. Something may be named twice."""

    def __init__(self, changes: Sequence[Change], vms: Mapping[Address, VmObject], types: Types) -> None:
        current = [change for change in changes if not change.deposed]
        before = {change.address: change.before for change in current if change.before is not None}
        after = {change.address: change.after for change in current if change.after is not None}
        present = dict.fromkeys(change.address.type for change in changes)
        references = {name: _references(types[name]) for name in present if name in types}
        self._before = _NamedObjects(before, references)
        self._after = _NamedObjects(after, references)
        self._places_before = _racks_and_machines(before, types)
        self._by_text_after = {str(address): address for address in after}
        self._vms = vms

    def after(self, change: Change) -> Iterator[Address]:
        """What the object uses once it is made."""
        if change.after is not None:
            yield from self._after.named_by(change.address.type, change.after)
        yield from self._machines_taken(change.address)

    def before(self, change: Change) -> Iterator[Address]:
        """What the object used."""
        if change.before is not None:
            yield from self._before.named_by(change.address.type, change.before)
        yield from self._machines_held(change.address)

    def _machines_taken(self, address: Address) -> Iterator[Address]:
        """The racks and machines that make room for the VMs which this plan places."""
        vms = self._vms.get(address)
        if vms is None or vms.site is None:
            return
        machines = {vms.place_after(key).machine for key in vms.tokens}
        makers = {vms.site.offered_by.get(machine, "") for machine in machines}
        for maker in makers:
            if maker in self._by_text_after:
                yield self._by_text_after[maker]

    def _machines_held(self, address: Address) -> Iterator[Address]:
        """The racks and machines on which its VMs stood, by the ids that these had."""
        vms = self._vms.get(address)
        if vms is None or vms.prior_demand is None:
            return
        site = vms.prior_demand.site_id
        places = [vms.place_before(key) for key in vms.standing]
        racks = {f"{site}/{place.rack}" for place in places}
        machines = {f"{site}/{place.rack}/{place.machine}" for place in places}
        for maker in racks | machines:
            if maker in self._places_before:
                yield self._places_before[maker]


def _racks_and_machines(objects: Mapping[Address, Values], types: Types) -> dict[str, Address]:
    """What offers machines by its id: `<site>/<rack>`, `<site>/<rack>/<machine>`."""
    places: dict[str, Address] = {}
    for address, values in objects.items():
        resource_type = types.get(address.type)
        if resource_type is not None and resource_type.kind in (Kind.RACK, Kind.MACHINE):
            places[str(values.get("id"))] = address
    return places


# --- what arguments name -----------------------------------------------------------------------


def _references(resource_type: ResourceType) -> list[tuple[str, Reference]]:
    """The attributes of a type that name objects, and whose."""
    attributes = resource_type.schema.attributes.items()
    return [(name, attribute.refers_to) for name, attribute in attributes if attribute.refers_to is not None]


class _NamedObjects:
    """The objects on one side of a plan, by what references may call them."""

    def __init__(
        self, objects: Mapping[Address, Values], references: Mapping[str, Sequence[tuple[str, Reference]]]
    ) -> None:
        self._references = references
        self._named: dict[tuple[str, str], dict[Hashable, Address]] = {}
        asked: dict[str, dict[str, tuple[str, ...]]] = {}  # type -> attribute that names it -> fields
        for _, reference in (pair for pairs in references.values() for pair in pairs):
            for kind in reference.types:
                asked.setdefault(kind, {})[reference.by] = reference.fields
                self._named[kind, reference.by] = {}
        for address, values in objects.items():
            for attribute, fields in asked.get(address.type, {}).items():
                named = self._named[address.type, attribute]
                for name in _names(values.get(attribute), fields):
                    named.setdefault(name, address)

    def named_by(self, kind: str, values: Values) -> Iterator[Address]:
        """The objects that an object of this type names."""
        for argument, reference in self._references.get(kind, ()):
            for name in _names(values.get(argument), reference.fields):
                tables = (self._named[target, reference.by] for target in reference.types)
                address = next((table[name] for table in tables if name in table), None)
                if address is not None:
                    yield address


def _names(value: Any, fields: Iterable[str]) -> Iterator[Hashable]:
    """The names in a value (see schema.Reference); none while it is unknown."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
    elif isinstance(value, list):
        for item in value:
            yield tuple(str(item.get(field) or "") for field in fields) if isinstance(item, dict) else item
