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
from nexusform.planning.occupancy import note_of, noted
from nexusform.planning.vms.sites import inventory_of
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
    leaving = [one for one in blocks.instances.values() if (one.going or one.replaced) and _seen_on(one)]
    if not leaving:
        return
    types, prior = blocks.request.registries.resource_types, blocks.prior
    standing = ((address, prior.object(address)) for address in prior.instances)
    before = inventory_of(((address, it.attributes) for address, it in standing if it is not None), types)
    slots = {(one.site_id, one.name): one.slot for one in _described(before)}
    successors = {one.slot: one for one in _described(blocks.inventory)}
    by_address = {str(one.address): one for one in blocks.instances.values()}
    came: dict[str, list[Occupied]] = {}
    for instance in leaving:
        for site_id, seen in _seen_on(instance):
            successor = successors.get(slots.get((site_id, seen.machine), ("", 0)))
            if successor is not None:
                came.setdefault(successor.address, []).append(replace(seen, machine=successor.name))
                blocks.inventory.unmanaged.setdefault(site_id, []).append(came[successor.address][-1])
    for address, occupied in came.items():
        successor_instance = by_address[address]
        # Under the old names it is what stood before.
        seen_before = [seen for _, seen in _seen_on(successor_instance)]
        successor_instance.private = note_of(dict.fromkeys([*seen_before, *occupied]))


def _seen_on(instance: Instance) -> list[tuple[str, Occupied]]:
    """Who was seen on a rack or machine that stands, each with the id of the site."""
    prior = instance.prior
    return [] if prior is None else noted(instance.type, prior.attributes, prior.private)


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
