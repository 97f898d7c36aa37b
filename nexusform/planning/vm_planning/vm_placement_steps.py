"""Steps for the VMs of one object.

Existing VMs are counted, actions decided, VMs removed, others placed.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from nexusform.placements.vm_demands import (
    NO_DEMAND,
    PlacedVm,
    PoolDemand,
    VmDemand,
    index_pools,
    index_vms,
)
from nexusform.planning.instances.instance import Instance
from nexusform.planning.vm_planning import site_plans
from nexusform.planning.vm_planning.vm_context import VmContext
from nexusform.planning.vm_planning.vm_object import (
    HEAL,
    MACHINE_FORGOTTEN,
    MACHINE_REMOVED,
    MACHINE_REPLACED,
    ROLLING,
    PriorVms,
    RequestedVms,
    VmKey,
    VmObject,
    VmSituation,
    compute_vm_actions,
)
from nexusform.plans.plan import Action
from nexusform.scheduling.racks.rules import hints as hint_rule
from nexusform.scheduling.racks.uncertainty.arrivals import Arrival, GroupMembership
from nexusform.scheduling.racks.vms import Hint, HintScope, NoFitReason, Placement, VmName, VmSku
from nexusform.state.objects import ObjectState


def build_vm_object(
    instance: Instance, context: VmContext, recorded: ObjectState | None = None
) -> VmObject:
    """Build the VM object of an instance, and reserve the capacity of its prior VMs.

    Deposed objects use no capacity: every plan removes their VMs. `recorded` is the object in
    state, `instance.prior` the one observed by its provider.
    """
    handlers = instance.type.vms
    assert handlers is not None
    # A new instance.
    if instance.prior is None:
        return VmObject(instance)
    attributes = instance.prior.attributes
    demand, _ = handlers.build_demand(attributes, context.prior_context, instance.address)
    existing = index_vms(handlers.list_existing_vms(attributes))
    recorded_placements: dict[VmKey, Placement] = {}
    # VMs may be observed elsewhere.
    if recorded is not None and recorded.attributes is not attributes:
        recorded_placements = find_moved_vms(
            existing, handlers.list_existing_vms(recorded.attributes)
        )
    vm_object = VmObject(
        instance,
        PriorVms(
            demand or NO_DEMAND,
            existing,
            handlers.list_unplaced_vms(attributes),
            recorded_placements,
        ),
    )
    site = context.sites.get(vm_object.prior.site_id)
    # Without its site, no machine has capacity to reserve.
    if site is None:
        return vm_object
    pools = index_pools(vm_object.prior_pools)
    skus = context.prior_context.get_skus(site.id)
    for key, vm in existing.items():
        pool = pools.get(vm.pool)
        sku = site_plans.find_sku(vm, pool, skus)
        reserve_vm_capacity(
            vm_object, key, site, site_plans.build_vm_name(vm_object.prior.demand, pool, *key), sku
        )
    return vm_object


def reserve_vm_capacity(
    vm_object: VmObject, key: VmKey, site: site_plans.SitePlan, name: VmName, sku: VmSku
) -> None:
    """Reserve the capacity of an existing VM on its machine, if the machine exists."""
    reservation = site.place_existing_vm(name, sku, vm_object.get_prior_placement(key))
    if reservation is not None:
        handle, _ = reservation
        vm_object.placements.reservations[key] = (site, handle)


def find_moved_vms(
    existing: Mapping[VmKey, PlacedVm], recorded: Iterable[PlacedVm]
) -> dict[VmKey, Placement]:
    """Return the recorded (former) placements of VMs now observed on another machine."""
    moved = {}
    for vm in recorded:
        observed = existing.get((vm.pool, vm.number))
        if observed is not None and observed.placement.machine != vm.placement.machine:
            moved[vm.pool, vm.number] = vm.placement
    return moved


def decide_actions(vm_object: VmObject, demand: VmDemand, context: VmContext) -> None:
    """Decide which VMs are removed, re-created or new; the others stay.

    The demand is NO_DEMAND if the instance is removed. The VMs of a forgotten instance
    keep running, unmanaged.
    """
    if vm_object.instance.action is Action.FORGET:
        vm_object.forget(
            _find_common_trigger(vm_object), build_machine_trigger_finder(context, vm_object)
        )
        return
    site = context.sites.get(demand.site_id)
    situation = VmSituation(
        common_trigger=_find_common_trigger(vm_object),
        healed_names=context.healed_names.get(str(vm_object.instance.address), frozenset()),
        find_machine_trigger=build_machine_trigger_finder(context, vm_object),
        unplaced=vm_object.prior.unplaced,
    )
    actions = compute_vm_actions(
        tuple(vm_object.prior.existing.values()), vm_object.prior.demand, demand, situation
    )
    vm_object.request = RequestedVms(demand, site, actions)
    for key in actions.unchanged:
        assert site is not None, "without its site, its machine is missing"
        vm = vm_object.prior.existing[key]
        placement = site_plans.refresh_rack_and_zone(
            site.machines[vm.placement.machine], vm.placement
        )
        # Its machine has a new rack or zone.
        if placement is not vm.placement:
            vm = replace(vm, placement=placement)
            vm_object.placements.relocated.add(key)
        vm_object.placements.vms[key] = vm
    _update_vfs_of_unchanged_vms(vm_object)


def build_machine_trigger_finder(context: VmContext, vm_object: VmObject) -> Callable[[str], str]:
    """Return a function from a machine to the reason to move an object's VMs away.

    The machine is a name, the reason a trigger, "" to keep them.
    """
    return partial(_find_machine_trigger, context, vm_object.prior.site_id)


def _find_machine_trigger(context: VmContext, site_id: str, machine: str) -> str:
    """Return the reason (trigger) to move the VMs of a machine, "" to keep them.

    MACHINE_FORGOTTEN: it keeps running, but nexusform no longer manages it.
    """
    site = context.sites.get(site_id)
    # With its whole site.
    trigger = MACHINE_REMOVED
    if site is not None:
        trigger = site.find_machine_trigger(machine)
    # A machine neither planned nor in state was forgotten, by this plan or before.
    if trigger == MACHINE_REMOVED and not context.is_recorded_machine(site_id, machine):
        return MACHINE_FORGOTTEN
    return trigger


def _update_vfs_of_unchanged_vms(vm_object: VmObject) -> None:
    """Update the SR-IOV VFs used by unchanged VMs to those of their pool.

    Only VFs change without a re-creation. Each VM of a pool with another number of VFs is released
    at the scheduler, and added again with the new SKU.
    """
    # Virtual functions per VM, by pool.
    vfs_before = {pool.pool: pool.sku.vfs for pool in vm_object.prior_pools}
    pools = vm_object.pools
    changed_pools = index_pools(
        pool for pool in pools if pool.sku.vfs != vfs_before.get(pool.pool, pool.sku.vfs)
    )
    for key in vm_object.request.actions.unchanged:
        pool_name, number = key
        if pool_name not in changed_pools or key not in vm_object.placements.reservations:
            continue
        site, _ = vm_object.placements.reservations[key]
        _release_vm_capacity(vm_object, key)
        pool = changed_pools[pool_name]
        name = site_plans.build_vm_name(vm_object.request.demand, pool, pool_name, number)
        reserve_vm_capacity(vm_object, key, site, name, pool.sku)


def _find_common_trigger(vm_object: VmObject) -> str:
    """Return the trigger for every VM of the instance, "" for individual triggers."""
    if vm_object.instance.is_removed:
        # A pool as a resource of its own.
        if vm_object.prior.demand.parent_id:
            return "pool_removed"
        return "cluster_removed"
    if vm_object.instance.is_replaced:
        is_requested = vm_object.instance.decision.reason == "replace_by_request"
        return "requested" if is_requested else "cluster_replaced"
    return ""


def release_vm_capacity(vm_object: VmObject) -> None:
    """Free the capacity of all removed or re-created VMs.

    VMs under create_before_destroy keep it until the new VMs exist, those of a Kubernetes upgrade
    (rolling) until their object is updated.
    """
    if vm_object.instance.action is Action.REPLACE_CREATE_FIRST:
        return
    for key in [*vm_object.request.actions.removals, *vm_object.request.actions.recreations]:
        if vm_object.is_released_early(key):
            if key in vm_object.placements.reservations:
                vm_object.placements.reservations[key][0].has_removals = True
            _release_vm_capacity(vm_object, key)


def _release_vm_capacity(vm_object: VmObject, key: VmKey) -> None:
    """Free the capacity of a VM, if it has any."""
    reservation = vm_object.placements.reservations.pop(key, None)
    if reservation is not None:
        site, handle = reservation
        site.release(handle)


class _RequestedVm(NamedTuple):
    # One VM of the demand: its pool, number in it, name, and the name of the pool with the number.
    pool: PoolDemand
    number: int | str
    name: str
    key: VmKey


def _iterate_requested_vms(vm_object: VmObject, keys: Container[VmKey]) -> Iterator[_RequestedVm]:
    """Yield those of the requested VMs with one of these keys.

    They come pool by pool, in the order of the demand.
    """
    # Most objects have no such VM, and some have thousands of others.
    for pool in vm_object.pools if keys else ():
        for number, name in zip(pool.numbers, pool.names, strict=True):
            key = (pool.pool, number)
            if key in keys:
                yield _RequestedVm(pool, number, name, key)


def restore_vm_locations(vm_object: VmObject) -> None:
    """Re-create the VMs of re-created machines at their location if possible.

    This comes before anything else is placed, so that their capacity is not allocated to others.
    The rest is placed later, by the rule.
    """
    site = vm_object.request.site
    if site is None:
        return
    keys = {
        key
        for key, trigger in vm_object.request.actions.recreations.items()
        if trigger == MACHINE_REPLACED
    }
    skus_before = {pool.pool: pool.sku for pool in vm_object.prior_pools}
    for vm in _iterate_requested_vms(vm_object, keys):
        demand = site_plans.build_demand(vm_object.request.demand, vm.pool, vm.number)
        is_unchanged = skus_before.get(vm.pool.pool) == vm.pool.sku
        result = site.restore(
            demand, vm_object.get_prior_placement(vm.key), is_unchanged=is_unchanged
        )
        # None: the location is not available.
        if result is not None:
            handle, placement = result
            _record_placement(vm_object, vm, handle, placement)
            vm_object.placements.restored.add(vm.key)


def place_recreated_vms(vm_object: VmObject, context: VmContext) -> None:
    """Place the VMs to re-create, except those restored at their location.

    First come the VMs with the old VM removed already. Those of a Kubernetes upgrade follow, in
    batches per pool.
    """
    recreations = vm_object.request.actions.recreations
    upgraded_vms: dict[str, list[_RequestedVm]] = {}  # by pool
    for vm in _iterate_requested_vms(vm_object, recreations):
        trigger = recreations[vm.key]
        # A Kubernetes upgrade.
        if trigger == ROLLING:
            upgraded_vms.setdefault(vm.pool.pool, []).append(vm)
        elif vm.key not in vm_object.placements.restored:
            last_resort = None
            if trigger == HEAL and vm.key in vm_object.prior.existing:
                # A healed VM returns to its machine only if no other machine accepts it.
                last_resort = vm_object.get_prior_placement(vm.key).machine
            _place_vm(vm_object, vm, context, last_resort=last_resort)
    for pool_vms in upgraded_vms.values():
        _replace_in_batches(vm_object, pool_vms, context)


def _replace_in_batches(
    vm_object: VmObject, pool_vms: Sequence[_RequestedVm], context: VmContext
) -> None:
    """Replace VMs of one pool batch by batch.

    Without surge, the old VMs of a batch are released first and make room for the new ones.
    With surge, they are released after the new ones are placed. An old VM without a successor
    keeps its machine.
    """
    # Pool of all of them.
    pool = pool_vms[0].pool
    for start in range(0, len(pool_vms), pool.batch_size):
        batch = pool_vms[start : start + pool.batch_size]
        if not pool.surge_size:
            for vm in batch:
                _release_vm_capacity(vm_object, vm.key)
        for vm in batch:
            _place_vm(vm_object, vm, context)
        for vm in batch:
            if vm.key not in vm_object.placements.failures:
                # If it is not released yet.
                _release_vm_capacity(vm_object, vm.key)
            elif not pool.surge_size:
                _restore_vm_capacity(vm_object, vm.key, context)


def _restore_vm_capacity(vm_object: VmObject, key: VmKey, context: VmContext) -> None:
    """Reserve the capacity of a prior VM again: it keeps its machine."""
    site = vm_object.request.site
    assert site is not None, "a demand without its site is invalid"
    vm = vm_object.prior.existing.get(key)
    # It waits for a machine, so it had no capacity.
    if vm is None:
        return
    pool = index_pools(vm_object.prior_pools).get(vm.pool)
    name = site_plans.build_vm_name(vm_object.prior.demand, pool, *key)
    sku = site_plans.find_sku(vm, pool, context.prior_context.get_skus(site.id))
    reserve_vm_capacity(vm_object, key, site, name, sku)


def place_new_vms(vm_object: VmObject, context: VmContext) -> None:
    """Place the new VMs of one instance."""
    for vm in _iterate_requested_vms(vm_object, vm_object.request.actions.additions):
        _place_vm(vm_object, vm, context)


def _place_vm(
    vm_object: VmObject, vm: _RequestedVm, context: VmContext, *, last_resort: str | None = None
) -> None:
    """Place a VM on its pinned machine or by the placement rule, or record that it fits nowhere.

    `last_resort` is the machine of a VM to re-create: it returns there only if no
    other machine fits.
    """
    pool = vm.pool
    site = vm_object.request.site
    assert site is not None, "a demand without its site is invalid"
    # The user names the machine; the placement rule may reject it, with a warning.
    if pool.pinned_machine:
        demand = site_plans.build_demand(vm_object.request.demand, pool, vm.number)
        handle, placement, rejection = site.place_pinned_vm(demand, pool.pinned_machine)
        _record_placement(vm_object, vm, handle, placement)
        if rejection:
            vm_object.placements.pin_rejections.append(rejection)
        return
    shortage = vm_object.placements.pool_shortages.get(pool.pool)
    # Whether the user wants the placement of this VM explained; `explain` None means every VM.
    is_requested = (
        context.explain is not None
        and (str(vm_object.instance.address), vm.name) in context.explain
    )
    if shortage is not None and last_resort is None and not pool.groups and not is_requested:
        # The next VM of a pool has the same demand: after one failure it fails, too.
        vm_object.placements.failures[vm.key] = shortage
        site.record_failure(site_plans.build_demand(vm_object.request.demand, pool, vm.number))
        return
    incoming_hints = context.hints.list_incoming_hints(vm_object)
    groups = build_group_memberships(vm_object, pool)
    group_hints = [hint for _, hint in groups if hint is not None]
    hints = [*group_hints, *(binding.hint for binding in incoming_hints)]
    demand = site_plans.build_demand(vm_object.request.demand, pool, vm.number, last_resort, hints)
    if context.explain is None or is_requested:
        vm_object.placements.explanations[vm.key] = site.scheduler.explain(demand)
    arrival = None
    # A platform of its own starts the VMs of all pools at once.
    if site.scheduler.profile.platform:
        arrival = _build_arrival(vm_object, pool, [membership for membership, _ in groups])
    answer = site.place(
        demand, is_decided=vm_object.request.demand.provenance == "decided", arrival=arrival
    )
    if not isinstance(answer, NoFitReason):
        handle, placement = answer
        _record_placement(vm_object, vm, handle, placement)
        return
    vm_object.placements.failures[vm.key] = answer
    # Hard hints rejected the last machines.
    if answer.binding == hint_rule.FILTER.name:
        vm_object.placements.binding_hints[:] = [
            *incoming_hints,
            *context.hints.list_own_hints(vm_object),
        ]
    # With any, the next VM of the pool may still fit.
    if not pool.hints and not pool.groups:
        vm_object.placements.pool_shortages[pool.pool] = answer


def _record_placement(
    vm_object: VmObject, vm: _RequestedVm, handle: int, placement: Placement
) -> None:
    """Record the location of a VM placed by this plan.

    Its handle at the scheduler of the site is recorded, too.
    """
    vm_object.placements.new_handles[vm.key] = handle
    vm_object.placements.vms[vm.key] = PlacedVm(
        pool=vm.pool.pool,
        number=vm.number,
        name=vm.name,
        sku_name=vm.pool.sku.name,
        placement=placement,
        provenance=vm_object.request.demand.provenance,
        trigger=vm_object.get_trigger(vm.key),
    )


def build_group_hints(vm_object: VmObject, pool: PoolDemand) -> list[Hint]:
    """Return the placement groups of a pool as hints for its next VM."""
    hints = (hint for _, hint in build_group_memberships(vm_object, pool))
    return [hint for hint in hints if hint is not None]


def build_group_memberships(
    vm_object: VmObject, pool: PoolDemand
) -> list[tuple[GroupMembership, Hint | None]]:
    """Return the placement groups of a pool, with the hint for its next VM.

    The hint has the machines and racks to prefer, or avoid. A group without a placed VM has none. A
    group for a whole site is left out.
    """
    memberships: list[tuple[GroupMembership, Hint | None]] = []
    for group in pool.groups:
        # All VMs of an object are on one site anyway.
        if group.scope == "site":
            continue
        # Numbers of VMs of the group.
        machines: Counter[str] = Counter()
        racks: Counter[str] = Counter()
        existing: Counter[tuple[str, str]] = Counter()
        for key, vm in vm_object.placements.vms.items():
            if vm.pool in group.pools:
                machines[vm.placement.machine] += 1
                racks[vm.placement.rack] += 1
                if key not in vm_object.placements.new_handles:
                    existing[vm.placement.machine, vm.placement.rack] += 1
        membership = GroupMembership(
            key=(str(vm_object.instance.address), group),
            name=group.name,
            is_affinity=group.is_affinity,
            is_hard=group.is_hard,
            scope=HintScope.RACK if group.scope == "rack" else HintScope.MACHINE,
            max_vms=group.max_vms,
            existing=tuple((*location, number) for location, number in existing.items()),
        )
        memberships.append((membership, membership.build_hint(machines, racks)))
    return memberships


def _build_arrival(
    vm_object: VmObject, pool: PoolDemand, groups: Sequence[GroupMembership]
) -> Arrival:
    """Build the arrival of a VM: after the VMs of awaited pools and objects."""
    address = str(vm_object.instance.address)
    own_stages = ((address, name) for name in pool.awaited)
    return Arrival((address, pool.pool), vm_object.awaited.union(own_stages), tuple(groups))
