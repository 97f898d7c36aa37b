"""Machines re-created under their VMs.

They, their rack or their site are destroyed and created in one plan, or were found missing and are
created again. Such a machine keeps its name, its VMs are lost and created again, at the same
location if possible (docs/decisions/0012). Nothing removes unmanaged VMs: the new machine in the
slot gets them, under any name, until the next observation.
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.json_data.plain_data import get_mapping
from nexusform.planning.instances.block_planner import BlockPlanner
from nexusform.planning.instances.instance import Instance
from nexusform.planning.vm_planning.site_plans import (
    MachineRecreation,
    SitePlan,
    build_object_inventory,
    index_sites_by_rack,
)
from nexusform.plans.plan import Action
from nexusform.plans.site_capacity.occupancy import build_unmanaged_vms_note, read_recorded_vms
from nexusform.resources.address import Address
from nexusform.scheduling.racks.vms import Machine
from nexusform.scheduling.site_inventory import OccupiedCapacity, PlanInventory
from nexusform.schemas.block_schema import FORGOTTEN_KEY

_CREATE_ACTIONS = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


def find_recreated_machines(
    blocks: BlockPlanner, sites: Mapping[str, SitePlan]
) -> dict[str, dict[str, MachineRecreation]]:
    """Return the machines that exist before and after the plan, but are re-created.

    The result is by site id and machine name. This plan deletes and creates the machine resource,
    the rack or the site of each. That resource is the cause.
    """
    # Sites, racks and machines.
    removed = set(map(str, _iterate_removed_machine_owners(blocks)))
    if not removed:
        return {}
    types = blocks.request.registries.resource_types
    before = build_object_inventory(blocks.prior.state.list_current_objects(), types)
    # The address of each new site, rack or machine, by (site id,), (rack id,) or (rack
    # id, machine name).
    created = {
        str(instance.address)
        for instance in blocks.instances.values()
        if instance.action in _CREATE_ACTIONS
    }
    created_by_key = {
        key: address for key, address in _iterate_offers(blocks.inventory) if address in created
    }
    # Address of the new resource for each removed one created again.
    causes = {
        key: created_by_key[key]
        for key, address in _iterate_offers(before)
        if address in removed and key in created_by_key
    }
    recreated: dict[str, dict[str, MachineRecreation]] = {}
    for site_id, name, cause, machine in _iterate_affected_machines(before, causes):
        # Else the new rack has no machine of this name.
        if site_id in sites and name in sites[site_id].machines:
            new_machine = sites[site_id].machines[name]
            # Only the hardware is compared, so the old machine gets the location and schedulability
            # of the new one.
            old_hardware = replace(
                machine,
                rack=new_machine.rack,
                availability_zone=new_machine.availability_zone,
                slot=new_machine.slot,
                unschedulable_reasons=new_machine.unschedulable_reasons,
            )
            has_same_hardware = old_hardware == new_machine
            recreated.setdefault(site_id, {})[name] = MachineRecreation(
                cause, has_same_hardware=has_same_hardware
            )
    return recreated


def _iterate_removed_machine_owners(blocks: BlockPlanner) -> Iterator[Address]:
    """Yield the sites, racks and machines in state that this plan destroys.

    Those that a provider found missing are included.
    """
    for address, _ in blocks.prior.state.list_current_objects():
        resource_type = blocks.request.registries.resource_types.get(address.type)
        if resource_type is None or resource_type.add_to_inventory is None:
            continue
        instance = blocks.instances.get(address)
        is_missing = blocks.prior.get_object(address) is None
        if is_missing or (instance is not None and instance.is_destroyed):
            yield address


def _iterate_offers(inventory: PlanInventory) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield (ids, address) per site, rack or machine.

    The ids are (site id,), (rack id,) or (rack id, machine name).
    """
    for address, site in inventory.sites.items():
        yield (site.id,), address
    for address, rack in inventory.racks.items():
        yield (rack.id,), address
    for address, offer in inventory.machines.items():
        yield (offer.rack_id, offer.machine.name), address


def _iterate_affected_machines(
    before: PlanInventory,
    # By the ids of a site, rack or machine.
    causes: Mapping[tuple[str, ...], str],
) -> Iterator[tuple[str, str, str, Machine]]:
    """Yield the machines before the plan that are re-created.

    Site id, name, address of the cause, machine. The cause is the re-created machine resource, else
    its rack, else its site. A machine listed in a rack has no resource of its own.
    """
    site_of_rack = index_sites_by_rack(before)
    for rack in before.racks.values():
        cause = causes.get((rack.id,)) or causes.get((rack.site_id,))
        # The rack stays, with its site.
        if cause is None:
            continue
        for machine in rack.machines:
            yield rack.site_id, machine.name, cause, machine
    for offer in before.machines.values():
        site_id = site_of_rack.get(offer.rack_id, "")
        own_cause = causes.get((offer.rack_id, offer.machine.name))
        cause = own_cause or causes.get((offer.rack_id,)) or causes.get((site_id,))
        if cause:
            yield site_id, offer.machine.name, cause, offer.machine


# Id of the rack, number.
Slot: TypeAlias = tuple[str, int]


class _MachineRecord(Struct, frozen=True):
    # A machine and the address of its resource.
    site_id: str
    name: str
    slot: Slot
    address: str


def transfer_unmanaged_vms(blocks: BlockPlanner) -> None:
    """Move the records of unmanaged VMs from removed machines to planned ones.

    They stay in the same slot of the rack.

    The new records are in the inventory of the plan. They are also in the private note of the
    resource (rack or machine) that offers the planned machine.
    """
    instances = blocks.instances.values()
    # Each with its site id.
    vms_on_removed_machines: list[tuple[str, OccupiedCapacity]] = []
    for instance in instances:
        if instance.loses_prior_object:
            vms_on_removed_machines += _list_observed_unmanaged_vms(instance)
    if not vms_on_removed_machines:
        return
    types = blocks.request.registries.resource_types
    prior_machines = _iterate_machines(build_object_inventory(blocks.prior.objects.items(), types))
    slot_of = {(machine.site_id, machine.name): machine.slot for machine in prior_machines}
    planned_machines = {machine.slot: machine for machine in _iterate_machines(blocks.inventory)}
    # By the address of the new machine.
    transferred: dict[str, list[OccupiedCapacity]] = {}
    for site_id, occupied in vms_on_removed_machines:
        slot = slot_of.get((site_id, occupied.machine))
        successor = planned_machines.get(slot) if slot is not None else None
        if successor is not None:
            renamed = replace(occupied, machine=successor.name)
            transferred.setdefault(successor.address, []).append(renamed)
            blocks.inventory.unmanaged.setdefault(site_id, []).append(renamed)
    by_address = {str(instance.address): instance for instance in instances}
    for address, renamed_vms in transferred.items():
        successor_instance = by_address[address]
        prior_vms = [occupied for _, occupied in _list_observed_unmanaged_vms(successor_instance)]
        successor_instance.private = build_unmanaged_vms_note(
            dict.fromkeys([*prior_vms, *renamed_vms])
        )


def _list_observed_unmanaged_vms(instance: Instance) -> list[tuple[str, OccupiedCapacity]]:
    """Return the VMs observed by a provider on an existing rack or machine, with the site id.

    Forgotten VMs are left out.
    """
    notes = {name: rows for name, rows in instance.prior_note.items() if name != FORGOTTEN_KEY}
    return read_recorded_vms(instance.type, get_mapping(instance.before), notes)


def _iterate_machines(inventory: PlanInventory) -> Iterator[_MachineRecord]:
    """Yield the machines of racks, then those with a resource of their own.

    A slot may have one of each: then the last one counts.
    """
    site_by_rack: dict[str, str] = {}
    for address, rack in inventory.racks.items():
        site_by_rack[rack.id] = rack.site_id
        for machine in rack.machines:
            yield _MachineRecord(rack.site_id, machine.name, (rack.id, machine.slot), address)
    for address, offer in inventory.machines.items():
        slot = (offer.rack_id, offer.machine.slot)
        yield _MachineRecord(site_by_rack.get(offer.rack_id, ""), offer.machine.name, slot, address)
