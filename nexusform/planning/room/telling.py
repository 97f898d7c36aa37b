"""A plan with what it says of its sites: who stands on them, and the room that is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from nexusform.address import Address
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.occupancy import PoolVms, SiteMachine, SiteRack, SiteVms
from nexusform.planning.room.headroom import headroom
from nexusform.planning.room.sides import HousedVm, OccupiedSite, Side, occupied_sites
from nexusform.ports import Registries
from nexusform.scheduling.racks.model import VmSku


def with_room(result: PlanResult, registries: Registries) -> PlanResult:
    """The result with `sites` and `room` in its plan. A plan in error has what stands, and no room."""
    plan = result.plan
    order = {change.address: position for position, change in enumerate(plan.changes)}
    before = occupied_sites(plan, result.objects, registries, Side.BEFORE)
    if plan.errored:
        return replace(result, plan=replace(plan, sites=_sites(before, before, order)))
    after = occupied_sites(plan, result.objects, registries, Side.AFTER)
    room = headroom(before, after)
    return replace(result, plan=replace(plan, sites=_sites(before, after, order), room=room))


def _sites(
    before: Mapping[str, OccupiedSite],
    after: Mapping[str, OccupiedSite],
    order: Mapping[Address, int],
) -> tuple[SiteVms, ...]:
    return tuple(_site(before.get(i), after.get(i), order) for i in sorted({*before, *after}))


def _site(old: OccupiedSite | None, new: OccupiedSite | None, order: Mapping[Address, int]) -> SiteVms:
    present = new or old
    assert present is not None, "a site stands on one side at least"
    outsiders = {(vm.placement.machine, vm.name): vm for side in (old, new) if side for vm in side.outsiders}
    return SiteVms(
        present.site.id,
        present.site.name,
        _racks(old, new),
        _machines(old, new),
        _pools(old.vms if old else (), new.vms if new else (), order),
        tuple(outsiders.values()),
    )


def _racks(old: OccupiedSite | None, new: OccupiedSite | None) -> tuple[SiteRack, ...]:
    racks = {rack.name: rack for side in (old, new) if side for rack in side.site.racks}
    return tuple(SiteRack(rack.name, rack.availability_zone, rack.planned) for rack in racks.values())


def _machines(old: OccupiedSite | None, new: OccupiedSite | None) -> tuple[SiteMachine, ...]:
    before = old.site.machines if old else {}
    after = new.site.machines if new else {}
    names = dict.fromkeys((*before, *after))
    return tuple(SiteMachine(after.get(n) or before[n], n in before, n in after) for n in names)


_PoolKey: TypeAlias = tuple[Address, str, VmSku]


def _pools(
    before: Iterable[HousedVm], after: Iterable[HousedVm], order: Mapping[Address, int]
) -> tuple[PoolVms, ...]:
    """By resource in the plan's order; in a resource the pools that stand after it, then those that leave."""
    old, new = _by_pool(before), _by_pool(after)
    keys = sorted(dict.fromkeys((*new, *old)), key=lambda key: order[key[0]])
    return tuple(_pool(old.get(key, []), new.get(key, [])) for key in keys)


def _by_pool(vms: Iterable[HousedVm]) -> dict[_PoolKey, list[HousedVm]]:
    pools: dict[_PoolKey, list[HousedVm]] = {}
    for housed in vms:
        pools.setdefault((housed.address, housed.vm.pool, housed.sku), []).append(housed)
    return pools


def _pool(before: Sequence[HousedVm], after: Sequence[HousedVm]) -> PoolVms:
    first = (after or before)[0]
    old = {housed.vm.name: housed.vm for housed in before}
    new = {housed.vm.name: housed.vm for housed in after}
    return PoolVms(
        first.address,
        first.cluster,
        first.vm.pool,
        first.sku,
        kept=tuple(vm for name, vm in new.items() if old.get(name) == vm),
        left=tuple(vm for name, vm in old.items() if new.get(name) != vm),
        came=tuple(vm for name, vm in new.items() if old.get(name) != vm),
    )
