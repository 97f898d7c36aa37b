"""What happens to the VMs of one object, in this order: they stand, it is considered which of them leave,
are placed anew or are new, those that leave do, and then the others are placed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from nexusform.demands import GroupRule, PlacedVm, PoolDemand, VmDemand
from nexusform.planning.instances.instance import Instance
from nexusform.planning.vms.sites import at_machine, demand_for, sku_of, vm_name
from nexusform.planning.vms.vm_object import (
    MACHINE_FORGOTTEN,
    MACHINE_REMOVED,
    MACHINE_REPLACED,
    ROLLING,
    Situation,
    VmKey,
    VmObject,
    VmsAsked,
    VmsBefore,
    compare,
)
from nexusform.planning.vms.vm_world import VmWorld
from nexusform.plans.plan import Action
from nexusform.scheduling.racks.explanation import Shortage
from nexusform.scheduling.racks.rules import hints as hint_rule
from nexusform.scheduling.racks.vms import Hint, HintScope, Placement


def stand(instance: Instance, world: VmWorld, recorded: Mapping[str, Any] | None = None) -> VmObject:
    """Put the prior VMs of an instance where they stand. Deposed objects hold no room: their VMs
    leave in every plan. `recorded` are its attributes in state, which may not be what was observed.
    """
    family = instance.type.vms
    assert family is not None
    if instance.prior is None:
        return VmObject(instance)
    attributes = instance.prior.attributes
    demand, _ = family.demand(attributes, world.before, instance.address)
    standing = {(vm.pool, vm.number): vm for vm in family.standing(attributes)}
    elsewhere: dict[VmKey, Placement] = {}
    if recorded is not None and recorded is not attributes:
        elsewhere = _elsewhere(standing, family.standing(recorded))
    vms = VmObject(instance, VmsBefore(demand, standing, family.unplaced(attributes), elsewhere))
    for vm in standing.values():
        _hold_room(vms, vm, world)
    return vms


def _elsewhere(standing: Mapping[VmKey, PlacedVm], recorded: Iterable[PlacedVm]) -> dict[VmKey, Placement]:
    """Where state has the VMs that stand on another machine."""
    elsewhere = {}
    for vm in recorded:
        observed = standing.get((vm.pool, vm.number))
        if observed is not None and observed.placement.machine != vm.placement.machine:
            elsewhere[vm.pool, vm.number] = vm.placement
    return elsewhere


def _hold_room(vms: VmObject, vm: PlacedVm, world: VmWorld) -> None:
    """Book a VM that stands on its machine, so that nobody else is placed there while it stays."""
    demand = vms.before.demand
    site = world.sites.get(demand.site_id) if demand is not None else None
    if demand is None or site is None:
        return
    pool = next((pool for pool in demand.pools if pool.pool == vm.pool), None)
    name = vm_name(demand, pool, vm.pool, vm.number)
    housed = site.house(name, sku_of(vm, pool, world.before.skus), vm.placement)
    if housed is not None:
        handle, _ = housed
        vms.housing.held[vm.pool, vm.number] = (site, handle)


def consider(vms: VmObject, demand: VmDemand | None, world: VmWorld) -> None:
    """Work out who leaves, who is placed anew and who is new; `demand` None: the instance goes."""
    if vms.instance.action is Action.FORGET:
        vms.be_forgotten(_trigger_of_all(vms), machine_trigger(world, vms))
        return
    site = world.sites.get(demand.site_id) if demand is not None else None
    situation = Situation(
        _trigger_of_all(vms),
        world.heal.get(str(vms.instance.address), frozenset()),
        machine_trigger(world, vms),
        vms.before.unplaced,
    )
    moves = compare(tuple(vms.before.standing.values()), vms.before.demand, demand, situation)
    vms.asked = VmsAsked(demand, site, moves)
    for key in moves.stay:
        standing = vms.before.standing[key]
        placed = vms.housing.placed[key] = _as_it_stands_now(vms, standing)
        if placed is not standing:
            vms.housing.renamed_around.add(key)
    _hold_new_vfs(vms)


def machine_trigger(world: VmWorld, vms: VmObject) -> Callable[[str], str]:
    """Why the VMs of an object on a machine must be placed anew, by the site that they stand on."""
    site_id = vms.before.demand.site_id if vms.before.demand is not None else ""
    site = world.sites.get(site_id)

    def trigger(machine: str) -> str:
        found = site.machine_trigger(machine) if site is not None else MACHINE_REMOVED
        was_forgotten = found == MACHINE_REMOVED and not world.was_managed(site_id, machine)
        return MACHINE_FORGOTTEN if was_forgotten else found

    return trigger


def _hold_new_vfs(vms: VmObject) -> None:
    """What VMs that stay take of a machine's VFs is as their pool says now."""
    if vms.asked.demand is None:
        return
    vfs_before = {pool.pool: pool.sku.vfs for pool in vms.prior_pools}
    changed = {
        pool.pool: pool
        for pool in vms.pools
        if pool.pool in vfs_before and pool.sku.vfs != vfs_before[pool.pool]
    }
    for key in vms.asked.moves.stay:
        pool_name, number = key
        if pool_name not in changed or key not in vms.housing.held:
            continue
        site, _ = vms.housing.held[key]
        _release(vms, key)
        pool = changed[pool_name]
        name = vm_name(vms.asked.demand, pool, pool_name, number)
        housed = site.house(name, pool.sku, vms.before.standing[key].placement)
        if housed is not None:
            handle, _ = housed
            vms.housing.held[key] = (site, handle)


def _trigger_of_all(vms: VmObject) -> str:
    """What happens to every VM of the instance, "" where each has its own reasons."""
    if vms.going:
        in_cluster = vms.before.demand is not None and vms.before.demand.parent_id
        return "pool_removed" if in_cluster else "cluster_removed"
    if vms.instance.replaced:
        return "requested" if vms.instance.decision.reason == "replace_by_request" else "cluster_replaced"
    return ""


def _as_it_stands_now(vms: VmObject, vm: PlacedVm) -> PlacedVm:
    """A VM that stays: its machine may have got another rack or zone around it."""
    machine = vms.asked.site.machines.get(vm.placement.machine) if vms.asked.site is not None else None
    place = at_machine(machine, vm.placement) if machine is not None else vm.placement
    return vm if place is vm.placement else replace(vm, placement=place)


def leave(vms: VmObject) -> None:
    """Free the room of all VMs that leave or are placed anew. VMs under create_before_destroy stay until
    their successors stand, rolling ones until their turn.
    """
    if vms.keeps_old:
        return
    for key in [*vms.asked.moves.leave, *vms.asked.moves.again]:
        if vms.leaves_early(key):
            _release(vms, key)


def _release(vms: VmObject, key: VmKey) -> None:
    """Free the room that a VM holds, if it holds any."""
    held = vms.housing.held.pop(key, None)
    if held is not None:
        site, handle = held
        site.release(handle)


def put_back(vms: VmObject) -> None:
    """Create the VMs again whose machine is made anew, where they stood, as far as that may be: before
    anything else is placed, so that nobody takes the room that they had.
    """
    again = {key: why for key, why in vms.asked.moves.again.items() if why == MACHINE_REPLACED}
    if not again or vms.asked.site is None or vms.asked.demand is None:
        return
    skus_before = {pool.pool: pool.sku for pool in vms.prior_pools}
    for pool, names in _of_pools(vms, again):
        for number, name in names.items():
            key = (pool.pool, number)
            demand = demand_for(vms.asked.demand, pool, number)
            as_it_was = skus_before.get(pool.pool) == pool.sku
            housed = vms.asked.site.put_back(demand, vms.place_before(key), as_it_was=as_it_was)
            if housed is not None:
                vms.housing.tokens[key], placement = housed
                vms.housing.placed[key] = _decided(vms, pool, number, name, placement)
                vms.housing.put_back.add(key)


def place_again(vms: VmObject, world: VmWorld) -> None:
    """Place the VMs that must be placed anew: those whose old VM has left, then rolling ones in batches."""
    triggers = {key: why for key, why in vms.asked.moves.again.items() if key not in vms.housing.put_back}
    for pool, names in _of_pools(vms, triggers):
        for number, name in names.items():
            trigger = triggers[pool.pool, number]
            if trigger != ROLLING:
                # A VM that is healed goes back to the machine it was on only where no other takes it.
                standing = vms.before.standing.get((pool.pool, number)) if trigger == "heal" else None
                old_machine = standing.placement.machine if standing is not None else None
                _place(vms, pool, number, name, world, last_resort=old_machine)
    for pool, names in _of_pools(vms, triggers):
        rolling = {number: name for number, name in names.items() if triggers[pool.pool, number] == ROLLING}
        _roll(vms, pool, rolling, world)


def _roll(vms: VmObject, pool: PoolDemand, names: Mapping[int | str, str], world: VmWorld) -> None:
    """A batch at a time: with surge the new VMs stand before the old leave, without it after."""
    numbers = list(names)
    for start in range(0, len(numbers), pool.batch):
        batch = numbers[start : start + pool.batch]
        if not pool.surge:
            for number in batch:
                _release(vms, (pool.pool, number))
        for number in batch:
            _place(vms, pool, number, names[number], world)
        for number in batch:
            if pool.surge and (pool.pool, number) not in vms.housing.failed:
                _release(vms, (pool.pool, number))


def place_new(vms: VmObject, world: VmWorld) -> None:
    """Place the new VMs of one instance."""
    for pool, names in _of_pools(vms, vms.asked.moves.arrive):
        for number, name in names.items():
            _place(vms, pool, number, name, world)


def _of_pools(vms: VmObject, keys: Mapping[VmKey, str]) -> Iterator[tuple[PoolDemand, dict[int | str, str]]]:
    """The numbers and names of these VMs, pool by pool, in the order of the demand."""
    for pool in vms.pools if keys else ():
        vm_names = zip(pool.numbers, pool.names, strict=True)
        names = {number: name for number, name in vm_names if (pool.pool, number) in keys}
        if names:
            yield pool, names


def _place(
    vms: VmObject,
    pool: PoolDemand,
    number: int | str,
    name: str,
    world: VmWorld,
    *,
    last_resort: str | None = None,
) -> None:
    """Decide the place of one VM: pinned, or asked of its site, or failed."""
    key = (pool.pool, number)
    if vms.asked.demand is None or vms.asked.site is None:
        return
    if pool.pinned:
        _pin(vms, pool, number, name)
        return
    shortage = vms.housing.short.get(pool.pool)
    asked = world.explain is not None and (str(vms.instance.address), name) in world.explain
    if shortage is not None and last_resort is None and not pool.groups and not asked:
        # The next VM of a pool asks for the same: where one found no room, it finds none.
        vms.housing.failed[key] = shortage
        vms.asked.site.miss(demand_for(vms.asked.demand, pool, number))
        return
    of_others = world.hints.of_others(vms)
    hints = [*group_hints(vms, pool), *(binding.hint for binding in of_others)]
    demand = demand_for(vms.asked.demand, pool, number, last_resort, hints)
    if world.explain is None or asked:
        vms.housing.explained[key] = vms.asked.site.explain(demand)
    answer = vms.asked.site.place(demand, decided=vms.asked.demand.provenance == "decided")
    if not isinstance(answer, Shortage):
        vms.housing.tokens[key], placement = answer
        vms.housing.placed[key] = _decided(vms, pool, number, name, placement)
        return
    vms.housing.failed[key] = answer
    if answer.binding == hint_rule.FILTER.name:
        vms.housing.bound_by[:] = [*of_others, *world.hints.of_itself(vms)]
    if not pool.hints and not pool.groups:
        vms.housing.short[pool.pool] = answer


def _pin(vms: VmObject, pool: PoolDemand, number: int | str, name: str) -> None:
    """Put a VM on the machine that the user names. The placement rule is bent here: where it would refuse
    the machine, the VM is counted there all the same, and the user is told.
    """
    assert vms.asked.site is not None
    assert vms.asked.demand is not None
    if pool.pinned not in vms.asked.site.machines:
        return
    key = (pool.pool, number)
    demand = demand_for(vms.asked.demand, pool, number)
    vms.housing.tokens[key], placement, refusal = vms.asked.site.pin(demand, pool.pinned)
    vms.housing.placed[key] = _decided(vms, pool, number, name, placement)
    if refusal:
        vms.housing.crowded.append(refusal)


def _decided(vms: VmObject, pool: PoolDemand, number: int | str, name: str, placement: Placement) -> PlacedVm:
    """The record of a VM that this plan places."""
    assert vms.asked.demand is not None
    trigger = vms.trigger_of((pool.pool, number))
    return PlacedVm(
        pool.pool, number, name, pool.sku.name, placement, vms.asked.demand.provenance, came=trigger
    )


def group_hints(vms: VmObject, pool: PoolDemand) -> list[Hint]:
    """The pool's placement groups as hints, seen from where their VMs stand by now."""
    hints = []
    for group in pool.groups:
        places = [vm.placement for vm in vms.housing.placed.values() if vm.pool in group.pools]
        if places and group.scope != "site":
            hints.append(_group_hint(group, places))
    return hints


def _group_hint(group: GroupRule, places: list[Placement]) -> Hint:
    """Together: wherever one of the group is. Apart: nowhere that holds as many as may share a place."""
    least = 1 if group.affinity else group.most
    machines = Counter(place.machine for place in places)
    racks = Counter(place.rack for place in places)
    return Hint(
        group.affinity,
        group.hard,
        HintScope.RACK if group.scope == "rack" else HintScope.MACHINE,
        frozenset(name for name, count in machines.items() if count >= least),
        frozenset(name for name, count in racks.items() if count >= least),
        group.name,
    )
