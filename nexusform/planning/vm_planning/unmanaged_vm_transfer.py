"""Unmanaged VMs on a machine that is re-created, or replaced by another one in its slot. Observed VMs belong
to no resource, so nothing removes them: the new machine in the slot gets them, under any name, until the next
observation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.interfaces.plugins import FORGOTTEN_KEY
from nexusform.planning.instances.block_planner import BlockPlanner
from nexusform.planning.instances.instance import Instance
from nexusform.planning.vm_planning.site_plans import build_inventory
from nexusform.plans.site_capacity.occupancy import build_unmanaged_vms_note, read_recorded_vms
from nexusform.scheduling.site_inventory import OccupiedCapacity, PlanInventory

Slot: TypeAlias = tuple[str, int]  # id of the rack, number


class _MachineRecord(Struct, frozen=True):
    # A machine and the address of its resource.
    site_id: str
    name: str
    slot: Slot
    address: str


def transfer_unmanaged_vms(blocks: BlockPlanner) -> None:
    """Record at every new machine the unmanaged VMs of the previous machine in its slot."""
    instances = blocks.instances.values()
    removed = [
        instance
        for instance in instances
        if (instance.is_removed or instance.is_replaced) and _list_observed_unmanaged_vms(instance)
    ]
    if not removed:
        return
    slot_of = {
        (machine.site_id, machine.name): machine.slot for machine in _iterate_machines(_build_prior_inventory(blocks))
    }
    new_machines = {machine.slot: machine for machine in _iterate_machines(blocks.inventory)}
    transferred: dict[str, list[OccupiedCapacity]] = {}  # by the address of the new machine
    for instance in removed:
        for site_id, occupied in _list_observed_unmanaged_vms(instance):
            slot = slot_of.get((site_id, occupied.machine))
            successor = new_machines.get(slot) if slot is not None else None
            if successor is not None:
                renamed = replace(occupied, machine=successor.name)
                transferred.setdefault(successor.address, []).append(renamed)
                blocks.inventory.unmanaged.setdefault(site_id, []).append(renamed)
    by_address = {str(instance.address): instance for instance in instances}
    for address, renamed_vms in transferred.items():
        successor_instance = by_address[address]
        # The old names are those before the plan.
        prior_vms = [occupied for _, occupied in _list_observed_unmanaged_vms(successor_instance)]
        successor_instance.private = build_unmanaged_vms_note(dict.fromkeys([*prior_vms, *renamed_vms]))


def _build_prior_inventory(blocks: BlockPlanner) -> PlanInventory:
    """Build the inventory before the plan."""
    prior = blocks.prior
    objects = ((address, prior.get_object(address)) for address in prior.instances)
    attributes = ((address, current.attributes) for address, current in objects if current is not None)
    return build_inventory(attributes, blocks.request.registries.resource_types)


def _list_observed_unmanaged_vms(instance: Instance) -> list[tuple[str, OccupiedCapacity]]:
    """Return the VMs observed on an existing rack or machine, each with the site id, without forgotten ones."""
    prior = instance.prior
    if prior is None or not prior.private:
        return []
    notes = {name: rows for name, rows in prior.private.items() if name != FORGOTTEN_KEY}
    return read_recorded_vms(instance.type, prior.attributes, notes)


def _iterate_machines(inventory: PlanInventory) -> Iterator[_MachineRecord]:
    """Yield every machine; one with its own resource after its rack's machine in that slot."""
    sites: dict[str, str] = {}
    for address, rack in inventory.racks.items():
        sites[rack.id] = rack.site_id
        for machine in rack.machines:
            yield _MachineRecord(rack.site_id, machine.name, (rack.id, machine.slot), address)
    for address, offer in inventory.machines.items():
        slot = (offer.rack_id, offer.machine.slot)
        yield _MachineRecord(sites.get(offer.rack_id, ""), offer.machine.name, slot, address)
