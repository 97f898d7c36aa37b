"""What stands: objects with their attributes, the sites that they describe, and VMs put on them.

The attributes may be those of the state, or those that a plan found or will leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from nexusform.address import Address
from nexusform.demands import PoolDemand, StandingVm, VmDemand
from nexusform.planning.plan import Plan
from nexusform.planning.vms.sites import SitePlan, build_sites, vm_name
from nexusform.planning.vms.surroundings import CLUSTER_TYPE, PlanSurroundings
from nexusform.ports import Registries, ResourceType
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST
from nexusform.scheduling.racks.model import Placement, VmSku
from nexusform.scheduling.world import Inventory
from nexusform.state.model import State


class Thing(Struct, frozen=True):
    """One object: its address, attributes (plain data) and creation number."""

    address: Address
    attributes: Mapping[str, Any]
    creation: int


class Ground(Struct, frozen=True):
    """The sites that things describe, by id and without any VM.

    `things` are those of known types, in the order given, with their type. `skus` are all VM SKUs that
    may be asked for; `surroundings` is what the demands of the things are read against.
    """

    sites: Mapping[str, SitePlan]
    things: tuple[tuple[ResourceType, Thing], ...]
    skus: Mapping[str, VmSku]
    surroundings: PlanSurroundings


def things_of_state(state: State) -> tuple[Thing, ...]:
    """What stands according to a state."""
    return tuple(
        Thing(address, instance.current.attributes, instance.current.creation)
        for address, instance in state.instances.items()
        if instance.current is not None
    )


def things_after(plan: Plan, prior: State) -> tuple[Thing, ...]:
    """What will stand when a plan has been applied to its prior state."""
    found = {thing.address: thing for thing in things_of_state(prior)}
    for address, refreshed in plan.refreshed.items():
        found.pop(address, None)
        if refreshed is not None:
            found[address] = Thing(address, refreshed.attributes, refreshed.creation)
    for old, _ in plan.moved:
        found.pop(old, None)
    for change in plan.changes:
        if change.deposed:
            continue
        found.pop(change.address, None)
        if change.after is not None:
            found[change.address] = Thing(change.address, change.after, change.creation)
    return tuple(found.values())


def lay_ground(things: Iterable[Thing], registries: Registries, catalogue: str = "") -> Ground:
    """Build the sites. `catalogue` is the SKU catalogue's version ("" or an unknown one = the newest)."""
    types = registries.resource_types
    known = tuple(
        (types[thing.address.type], thing)
        for thing in things
        if thing.address.mode == "managed" and thing.address.type in types
    )
    inventory = Inventory()
    for kind, thing in sorted(known, key=lambda pair: pair[0].phase):
        if kind.offer is not None:
            kind.offer(thing.attributes, str(thing.address), inventory)
    listed = (CATALOGUES.get(catalogue) or CATALOGUES[NEWEST]).vm_skus
    skus = {**listed, **{sku.name: sku for sku in inventory.skus.values()}}
    # Where hints point decides nothing any more: everybody has a place.
    surroundings = PlanSurroundings(skus, targets=lambda _id: (frozenset(), frozenset()))
    for kind, thing in known:
        if kind.name == CLUSTER_TYPE:
            surroundings.clusters.setdefault(kind.identify(thing.attributes), thing.attributes)
    return Ground(build_sites(inventory)[0], known, skus, surroundings)


def stand(
    site: SitePlan, wanted: VmDemand, pool: PoolDemand | None, vm: StandingVm, sku: VmSku
) -> tuple[int, Placement] | None:
    """Put a VM on its machine: the site scheduler's handle and the place, with the rack and the zone that
    the machine has now. None when the machine is not there any more.
    """
    machine = site.machines.get(vm.placement.machine)
    if machine is None:
        return None
    place = Placement(machine.name, machine.rack, machine.availability_zone, vm.placement.cells)
    return site.occupy(vm_name(wanted, pool, vm.pool, vm.number), sku, place), place
