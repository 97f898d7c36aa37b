"""Outages of machines in a hypothetical plan: VMs down, and pools without quorum or node."""

from collections import defaultdict
from collections.abc import Iterable

from msgspec.structs import replace

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.edits import MachineOutage
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.plans.site_capacity.occupancy import (
    Outage,
    PoolAvailability,
    VmOwnerKind,
    get_owner_kind,
)
from nexusform.resources.address import compute_address_order


def list_site_pools(result: PlanResult, site_id: str) -> list[PoolAvailability]:
    """Return the pools of a site before the plan, in order of creation.

    Each is as if all of its VMs on existing machines were down.
    """
    machines = result.sites[site_id].machines
    objects = [
        vm_object
        for vm_object in result.objects.values()
        if vm_object.prior.site_id == site_id and vm_object.instance.prior is not None
    ]
    pools: dict[str, list[PoolAvailability]] = defaultdict(list)
    for vm_object in sorted(objects, key=_compute_creation_order):
        for pool in _list_pools(vm_object):
            down_vms = tuple(vm for vm in pool.down_vms if vm.placement.machine in machines)
            # Pools of a cluster in blocks of their own belong to it.
            pools[pool.cluster_id].append(replace(pool, total=len(down_vms), down_vms=down_vms))
    ordered_pools = [pool for group in pools.values() for pool in group]
    return [replace(pool, position=position) for position, pool in enumerate(ordered_pools)]


def list_outages(result: PlanResult, edits: Iterable[MachineOutage]) -> tuple[Outage, ...]:
    """Return the outages that these edits mean, in their order; none on a site without a plan.

    VMs on other machines that are off or not ready are down, too.
    """
    # Of each site, with the machines of each pool.
    pools_by_site: dict[str, list[tuple[PoolAvailability, frozenset[str]]]] = {}
    outages: list[Outage] = []
    for number, edit in enumerate(edits, 1):
        site = result.sites.get(edit.site_id)
        if site is None:
            continue
        if site.id not in pools_by_site:
            pools_by_site[site.id] = [
                (pool, frozenset(vm.placement.machine for vm in pool.down_vms))
                for pool in list_site_pools(result, site.id)
            ]
        machines = frozenset(edit.machines)
        off = {machine.name for machine in site.machines.values() if machine.is_down} - machines
        pools: list[PoolAvailability] = []
        for pool, machines_of_pool in pools_by_site[site.id]:
            if machines.isdisjoint(machines_of_pool):
                continue
            already_down = 0
            if not off.isdisjoint(machines_of_pool):
                already_down = sum(vm.placement.machine in off for vm in pool.down_vms)
            down_vms = tuple(vm for vm in pool.down_vms if vm.placement.machine in machines)
            pools.append(replace(pool, down_vms=down_vms, already_down=already_down))
        outages.append(Outage(site.id, number, edit.name, edit.machines, tuple(pools)))
    return tuple(outages)


def _compute_creation_order(vm_object: VmObject) -> tuple[object, ...]:
    """Return the sort key of an object: clusters before their pools, then by creation."""
    instance = vm_object.instance
    assert instance.prior is not None
    return (instance.type.phase, instance.prior.creation, compute_address_order(instance.address))


def _list_pools(vm_object: VmObject) -> Iterable[PoolAvailability]:
    """Yield the pools of an object before the plan, with all of their existing VMs."""
    instance = vm_object.instance
    assert instance.prior is not None
    attributes = instance.prior.attributes
    demand = vm_object.prior.demand
    kind = get_owner_kind(instance.address.type)
    for pool in demand.pools:
        existing = vm_object.prior.existing
        vms = tuple(existing[key] for key in pool.keys if key in existing)
        yield PoolAvailability(
            cluster_id=demand.parent_id or instance.type.build_id(attributes),
            # A VM outside of clusters has its own name.
            cluster=str(attributes["name"]) if kind is VmOwnerKind.VM else demand.cluster,
            kind=kind,
            pool=pool.pool,
            address=instance.address,
            is_control_plane=pool.is_control_plane,
            total=len(vms),
            down_vms=vms,
        )
