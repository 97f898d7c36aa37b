"""Who was seen on a machine that is made anew, or that goes while another one comes to its slot.

What a provider saw there belongs to no resource, so nothing says that it goes: the machine that comes to the
slot has it, under whatever name, until somebody looks again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.instances.instance import Instance
from nexusform.planning.vms.sites import inventory_of
from nexusform.plans.room.occupancy import note_of, noted
from nexusform.ports import FORGOTTEN
from nexusform.scheduling.world import Inventory, Occupied

Slot: TypeAlias = tuple[str, int]  # id of the rack, number


class _Described(Struct, frozen=True):
    # A machine and the resource (address) that describes it.
    site_id: str
    name: str
    slot: Slot
    address: str


def hand_on(blocks: Blocks) -> None:
    """Note at every machine that comes who was seen on the one whose slot it takes."""
    instances = blocks.instances.values()
    leaving = [
        instance for instance in instances if (instance.going or instance.replaced) and _seen_on(instance)
    ]
    if not leaving:
        return
    slot_of = {(machine.site_id, machine.name): machine.slot for machine in _described(_standing(blocks))}
    coming = {machine.slot: machine for machine in _described(blocks.inventory)}
    handed_on: dict[str, list[Occupied]] = {}  # by what describes the machine that comes
    for instance in leaving:
        for site_id, occupied in _seen_on(instance):
            slot = slot_of.get((site_id, occupied.machine))
            successor = coming.get(slot) if slot is not None else None
            if successor is not None:
                renamed = replace(occupied, machine=successor.name)
                handed_on.setdefault(successor.address, []).append(renamed)
                blocks.inventory.unmanaged.setdefault(site_id, []).append(renamed)
    by_address = {str(instance.address): instance for instance in instances}
    for address, renamed_vms in handed_on.items():
        successor_instance = by_address[address]
        # Under the old names it is what stood before.
        seen_before = [occupied for _, occupied in _seen_on(successor_instance)]
        successor_instance.private = note_of(dict.fromkeys([*seen_before, *renamed_vms]))


def _standing(blocks: Blocks) -> Inventory:
    """The racks and machines that stand before the plan."""
    prior = blocks.prior
    objects = ((address, prior.object(address)) for address in prior.instances)
    attributes = ((address, current.attributes) for address, current in objects if current is not None)
    return inventory_of(attributes, blocks.request.registries.resource_types)


def _seen_on(instance: Instance) -> list[tuple[str, Occupied]]:
    """Who was seen on a rack or machine that stands, each with the id of the site. Forgotten VMs nobody saw:
    they go with their machine.
    """
    prior = instance.prior
    if prior is None or not prior.private:
        return []
    seen = {name: rows for name, rows in prior.private.items() if name != FORGOTTEN}
    return noted(instance.type, prior.attributes, seen)


def _described(inventory: Inventory) -> Iterator[_Described]:
    """Every machine; one with a resource of its own after the one that its rack makes in that slot."""
    sites: dict[str, str] = {}
    for address, rack in inventory.racks.items():
        sites[rack.id] = rack.site_id
        for machine in rack.machines:
            yield _Described(rack.site_id, machine.name, (rack.id, machine.slot), address)
    for address, offer in inventory.machines.items():
        slot = (offer.rack_id, offer.machine.slot)
        yield _Described(sites.get(offer.rack_id, ""), offer.machine.name, slot, address)
