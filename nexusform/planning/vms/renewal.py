"""Machines that are made anew around the VMs on them: they, their rack or their site are destroyed and
created in one plan, or were found to be gone and are created once more.

Such a machine comes back under its name, and what stood on it does not: it is created again, where it stood
if that may be (docs/decisions/0012).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from nexusform.address import Address
from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.vms.sites import Renewal, SitePlan, inventory_of
from nexusform.plans.plan import Action
from nexusform.scheduling.racks.vms import Machine
from nexusform.scheduling.world import Inventory

_CREATED = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


def renewed_machines(blocks: Blocks, sites: Mapping[str, SitePlan]) -> dict[str, dict[str, Renewal]]:
    """By site and name, the machines that stood, do not stand through this plan, and are there after it; on
    the `sites` of this plan.
    """
    gone = {str(address) for address in _gone(blocks)}
    if not gone:
        return {}
    types = blocks.request.registries.resource_types
    instances = blocks.prior.state.instances.items()
    recorded = ((address, each.current.attributes) for address, each in instances if each.current is not None)
    before = inventory_of(recorded, types)
    causes = _causes(before, blocks, gone)
    renewed: dict[str, dict[str, Renewal]] = {}
    for site_id, name, cause, machine in _under(before, causes):
        now = sites[site_id].machines.get(name) if site_id in sites else None
        if now is not None:
            is_alike = _hardware(machine) == _hardware(now)
            renewed.setdefault(site_id, {})[name] = Renewal(cause, is_alike=is_alike)
    return renewed


def _gone(blocks: Blocks) -> Iterator[Address]:
    """What of the state offers machines and is destroyed in this plan, or was found to be gone."""
    for address, recorded in blocks.prior.state.instances.items():
        kind = blocks.request.registries.resource_types.get(address.type)
        if recorded.current is None or kind is None or kind.offer is None:
            continue
        instance = blocks.instances.get(address)
        is_found_gone = blocks.prior.object(address) is None
        if is_found_gone or (
            instance is not None and (instance.replaced or instance.action is Action.DELETE)
        ):
            yield address


def _causes(before: Inventory, blocks: Blocks, gone: set[str]) -> Mapping[tuple[str, ...], str]:
    """By what is made anew, a site (its id), a rack (its id) or a machine (rack and name), the address of the
    one that comes.
    """
    created = {str(each.address) for each in blocks.instances.values() if each.action in _CREATED}
    coming = {key: address for key, address in _offers(blocks.inventory) if address in created}
    return {key: coming[key] for key, address in _offers(before) if address in gone and key in coming}


def _offers(inventory: Inventory) -> Iterator[tuple[tuple[str, ...], str]]:
    """What is offered, and by whom."""
    for address, site in inventory.sites.items():
        yield (site.id,), address
    for address, rack in inventory.racks.items():
        yield (rack.id,), address
    for address, offer in inventory.machines.items():
        yield (offer.rack_id, offer.machine.name), address


def _under(
    before: Inventory, causes: Mapping[tuple[str, ...], str]
) -> Iterator[tuple[str, str, str, Machine]]:
    """The machines (site, name) that stood on what is made anew, and why; a machine's own resource says it
    before its rack does, and that before its site.
    """
    site_of_rack = {rack.id: rack.site_id for rack in before.racks.values()}
    for rack in before.racks.values():
        cause = causes.get((rack.id,)) or causes.get((rack.site_id,))
        for machine in rack.machines if cause else ():
            yield rack.site_id, machine.name, str(cause), machine
    for offer in before.machines.values():
        site_id = site_of_rack.get(offer.rack_id, "")
        own = causes.get((offer.rack_id, offer.machine.name))
        cause = own or causes.get((offer.rack_id,)) or causes.get((site_id,))
        if cause:
            yield site_id, offer.machine.name, cause, offer.machine


def _hardware(machine: Machine) -> Machine:
    """A machine without where it stands, and whether it takes VMs."""
    return replace(machine, rack="", availability_zone="", slot=0, refusal="")
