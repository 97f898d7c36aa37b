"""Machines re-created under their VMs: they, their rack or their site are destroyed and created in one plan,
or were found missing and are created again. Such a machine keeps its name, its VMs are lost and created
again, at the same location if possible (docs/decisions/0042).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from nexusform.planning.instances.block_planner import BlockPlanner
from nexusform.planning.vm_planning.site_plans import MachineRecreation, SitePlan, build_inventory
from nexusform.plans.plan import Action
from nexusform.resources.address import Address
from nexusform.scheduling.racks.vms import Machine
from nexusform.scheduling.site_inventory import PlanInventory

_CREATE_ACTIONS = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


def find_recreated_machines(
    blocks: BlockPlanner, sites: Mapping[str, SitePlan]
) -> dict[str, dict[str, MachineRecreation]]:
    """Return the machines (site and name) that this plan deletes and creates again."""
    removed = {str(address) for address in _iterate_removed_machine_owners(blocks)}
    if not removed:
        return {}
    types = blocks.request.registries.resource_types
    instances = blocks.prior.state.instances.items()
    recorded = (
        (address, instance.current.attributes) for address, instance in instances if instance.current is not None
    )
    before = build_inventory(recorded, types)
    # The address of the new resource for each re-created site, rack or machine.
    created = {str(instance.address) for instance in blocks.instances.values() if instance.action in _CREATE_ACTIONS}
    created_by_key = {key: address for key, address in _iterate_offers(blocks.inventory) if address in created}
    causes = {
        key: created_by_key[key]
        for key, address in _iterate_offers(before)
        if address in removed and key in created_by_key
    }
    recreated: dict[str, dict[str, MachineRecreation]] = {}
    for site_id, name, cause, machine in _iterate_affected_machines(before, causes):
        new_machine = sites[site_id].machines.get(name) if site_id in sites else None
        if new_machine is not None:
            has_same_hardware = _copy_hardware_without_location(machine) == _copy_hardware_without_location(new_machine)
            recreated.setdefault(site_id, {})[name] = MachineRecreation(cause, has_same_hardware=has_same_hardware)
    return recreated


def _iterate_removed_machine_owners(blocks: BlockPlanner) -> Iterator[Address]:
    """Yield the recorded resources with machines that this plan destroys, or that were found missing."""
    for address, recorded in blocks.prior.state.instances.items():
        kind = blocks.request.registries.resource_types.get(address.type)
        if recorded.current is None or kind is None or kind.add_to_inventory is None:
            continue
        instance = blocks.instances.get(address)
        is_missing = blocks.prior.get_object(address) is None
        if is_missing or (instance is not None and (instance.is_replaced or instance.action is Action.DELETE)):
            yield address


def _iterate_offers(inventory: PlanInventory) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the offered sites, racks and machines with their address."""
    for address, site in inventory.sites.items():
        yield (site.id,), address
    for address, rack in inventory.racks.items():
        yield (rack.id,), address
    for address, offer in inventory.machines.items():
        yield (offer.rack_id, offer.machine.name), address


def _iterate_affected_machines(
    before: PlanInventory, causes: Mapping[tuple[str, ...], str]
) -> Iterator[tuple[str, str, str, Machine]]:
    """Yield the machines (site, name) on re-created resources, with the cause: their own resource, rack or site."""
    site_of_rack = {rack.id: rack.site_id for rack in before.racks.values()}
    for rack in before.racks.values():
        cause = causes.get((rack.id,)) or causes.get((rack.site_id,))
        for machine in rack.machines if cause else ():
            yield rack.site_id, machine.name, str(cause), machine
    for offer in before.machines.values():
        site_id = site_of_rack.get(offer.rack_id, "")
        own_cause = causes.get((offer.rack_id, offer.machine.name))
        cause = own_cause or causes.get((offer.rack_id,)) or causes.get((site_id,))
        if cause:
            yield site_id, offer.machine.name, cause, offer.machine


def _copy_hardware_without_location(machine: Machine) -> Machine:
    """Return a machine without its location and schedulability."""
    return replace(machine, rack="", availability_zone="", slot=0, unschedulable_reason="")
