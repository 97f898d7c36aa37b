"""Pools of nodes to re-create: Kubernetes upgrades batch by batch, other changes all at once."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity
from nexusform.diagnostics.phrases import format_first_items, select_word_form
from nexusform.placements.recreations import count_nodes_up
from nexusform.placements.vm_demands import PoolDemand, index_pools
from nexusform.planning.conclusion.vm_placement_rows import is_platform_scale_in
from nexusform.planning.vm_planning.site_plans import SitePlan, build_vm_name
from nexusform.planning.vm_planning.vm_object import ROLLING, VmKey, VmObject, find_changed_argument
from nexusform.plans.maintenance import DrainObstacles, PoolNodeRecreation, Upgrade
from nexusform.scheduling.racks.uncertainty.certainty import run_operations
from nexusform.scheduling.racks.uncertainty.operations import Token
from nexusform.scheduling.racks.vms import Placement

_Pool: TypeAlias = tuple[VmObject, PoolDemand]
_MAXIMUM_NAMED: Final = 4
# Of a pool: the address of its object, and its name there.
_Name: TypeAlias = tuple[str, str]


def build_upgrades(
    objects: Iterable[VmObject],
    obstacle_finders: Iterable[Callable[[str, Collection[str]], DrainObstacles]],
) -> Iterator[Upgrade]:
    """Yield an Upgrade per cluster and trigger: the reason to re-create whole pools.

    Pools with a resource of their own belong to their cluster. Each of `obstacle_finders` gets a
    cluster id and names of nodes, and returns the obstacles to draining these.
    """
    objects = list(objects)
    obstacle_finders = list(obstacle_finders)
    # By owner (cluster) and trigger.
    members_by_cluster: dict[tuple[str, str], list[_Pool]] = {}
    for vm_object in objects:
        for pool in vm_object.pools:
            trigger = _find_pool_trigger(vm_object, pool)
            # Plain VMs and those of VNFs are not nodes.
            if trigger and pool.count_path:
                members_by_cluster.setdefault((vm_object.request.demand.owner, trigger), []).append(
                    (vm_object, pool)
                )
    scale_ins = _ScaleInPools(objects)
    for (owner, trigger), members in members_by_cluster.items():
        # The owner is `<prefix>:<cluster id>`.
        _, _, cluster_id = owner.partition(":")
        # Nodes are names of the VMs to re-create.
        pools = []
        nodes = set[str]()
        for vm_object, pool in members:
            recreations = vm_object.request.actions.recreations
            nodes |= {
                name
                for key, name in zip(pool.keys, pool.names, strict=True)
                if recreations.get(key) == trigger
            }
            scale_in_pools = (
                scale_ins.find_dependencies(vm_object, pool) if trigger == ROLLING else ()
            )
            pools.append(_build_pool_upgrade(vm_object, pool, trigger, scale_in_pools))
        obstacles = [
            find_obstacles(cluster_id, frozenset(nodes)) for find_obstacles in obstacle_finders
        ]
        first_object, _ = members[0]
        yield _build_upgrade(first_object, trigger, pools, obstacles)


def check_blocked_upgrades(
    upgrades: Iterable[Upgrade], objects: Iterable[VmObject]
) -> Iterator[Diagnostic]:
    """Yield a warning for each Kubernetes upgrade with drains blocked by a PodDisruptionBudget."""
    instances = {vm_object.instance.address: vm_object.instance for vm_object in objects}
    for upgrade in upgrades:
        # Only an upgrade drains its nodes.
        if not (upgrade.is_rolling and upgrade.budgets):
            continue
        names = format_first_items(upgrade.budgets, _MAXIMUM_NAMED)
        count = len(upgrade.budgets)
        noun = select_word_form(count, "PodDisruptionBudget", "PodDisruptionBudgets")
        budgets = f"{noun} {names}"
        verb = select_word_form(len(upgrade.budgets), "allows", "allow")
        detail = (
            f"{budgets} {verb} no eviction now: drains of nodes of {upgrade.cluster} with such "
            "pods time out. Before the upgrade, allow one eviction (minAvailable, maxUnavailable), "
            "or run one more replica than the budget requires. `nexusform simulate "
            f"kubernetes-upgrade {upgrade.address}` shows every batch."
        )
        summary = f"{upgrade.cluster}: {names} {verb} no eviction, so drains time out"
        problem = Problem((), "blocked-upgrade", detail, Severity.WARNING, brief=summary)
        yield instances[upgrade.address].build_diagnostic(problem)


def _find_pool_trigger(vm_object: VmObject, pool: PoolDemand) -> str:
    """Return the reason to re-create a whole pool.

    The reason is a new Kubernetes version, else a changed argument, else "".
    """
    # Triggers of its VMs.
    triggers = {vm_object.request.actions.recreations.get(key, "") for key in pool.keys}
    argument_triggers = {name for name, _ in pool.triggers}
    # ROLLING means a new version. `min` picks one of several arguments in a fixed order.
    return ROLLING if ROLLING in triggers else min(triggers & argument_triggers, default="")


def _build_upgrade(
    first_object: VmObject,
    trigger: str,
    pools: Iterable[PoolNodeRecreation],
    all_obstacles: Sequence[DrainObstacles],
) -> Upgrade:
    """Build the record of the pools of one cluster re-created for one reason (`trigger`).

    `all_obstacles` are those to draining their nodes.
    """
    # Only a Kubernetes upgrade has versions.
    before = after = ""
    if trigger == ROLLING:
        before = first_object.prior.demand.version or ""
        after = first_object.request.demand.version or ""
    budgets: list[str] = []
    single_replicas: list[str] = []
    protected_workloads: list[str] = []
    for obstacles in all_obstacles:
        budgets += obstacles.budgets
        single_replicas += obstacles.single_replicas
        protected_workloads += obstacles.protected_workloads
    return Upgrade(
        address=first_object.instance.address,
        cluster=first_object.request.demand.cluster,
        site_id=first_object.request.demand.site_id,
        before=before,
        after=after,
        pools=tuple(pools),
        budgets=tuple(budgets),
        single_replicas=tuple(single_replicas),
        trigger=trigger,
        protected_workloads=tuple(protected_workloads),
    )


def _build_pool_upgrade(
    vm_object: VmObject, pool: PoolDemand, trigger: str, scale_in_pools: tuple[str, ...]
) -> PoolNodeRecreation:
    """Build the record of one pool re-created for `trigger`.

    If only the version changes, VMs are replaced batch by batch. With surge, the new VMs of a batch
    are created before its old ones are removed. Any other change removes all VMs first. VMs
    re-created for a reason of their own, such as a removed machine, are down meanwhile.
    """
    keys = pool.keys
    # The reason to re-create a VM, by its key.
    triggers = vm_object.request.actions.recreations
    recreated = [key for key in keys if triggers.get(key) == trigger]
    # VMs re-created for other reasons.
    other_count = sum(key in triggers and triggers[key] != trigger for key in keys)
    prior = index_pools(vm_object.prior_pools).get(pool.pool)
    # New nodes of a scale-out are neither up nor members of a quorum when old ones stop.
    existing_keys = {*vm_object.prior.existing, *(prior.keys if prior is not None else ())}
    is_rolling = trigger == ROLLING and not find_changed_argument(prior, pool)
    uses_surge = is_rolling and pool.surge_size > 0
    batch = pool.batch_size if is_rolling else len(recreated)
    # Batches count from 1.
    failed_batch = 0
    reason = ""
    for index, key in enumerate(recreated):
        if key in vm_object.placements.failures:
            failed_batch = index // batch + 1
            reason = vm_object.placements.failures[key].reason
            break
    batch_count = min(batch, len(recreated))
    # With surge, new VMs run before old ones stop.
    down_count = other_count + (0 if uses_surge else batch_count)
    up_counts = count_nodes_up(
        [_is_node_up(vm_object, key) for key in recreated], batch, surges=uses_surge
    )
    all_stay_up = uses_surge and not other_count
    return PoolNodeRecreation(
        pool=pool.pool,
        sku=pool.sku.name,
        vms=len(recreated),
        # Surge VMs of a batch, or VMs down at once.
        concurrent_vms=batch_count if all_stay_up else down_count,
        batches=-(-len(recreated) // batch),  # rounded up
        surges=all_stay_up,
        minimum_up=min(up_counts)
        + sum(_is_node_up(vm_object, key) for key in keys if key not in triggers),
        failed_batch=failed_batch,
        reason=reason,
        batch=batch,
        count=sum(key in existing_keys for key in keys),
        is_control_plane=pool.is_control_plane,
        drain_timeout=pool.drain_timeout,
        max_surge=pool.max_surge,
        max_unavailable=pool.max_unavailable,
        scale_in_pools=scale_in_pools,
    )


def _is_node_up(vm_object: VmObject, key: VmKey) -> bool:
    """Return whether a VM runs now: on a machine that is not observed off or not ready."""
    vm = vm_object.prior.existing.get(key)
    # It waits for a machine.
    if vm is None:
        return False
    site = vm_object.request.site
    machine = site.machines.get(vm.placement.machine) if site is not None else None
    return machine is None or not machine.is_down


class _ScaleInPools:
    """Pools with a scale-in of VMs chosen by the platform.

    With capacity for all of these VMs, any choice fits.
    """

    def __init__(self, objects: Iterable[VmObject]) -> None:
        """Collect the pools that lose VMs by a scale-in, with the platform choosing which ones."""
        # By site id.
        self._pools: dict[str, list[_Pool]] = {}
        # By site and excluded pool.
        self._outcomes: dict[tuple[str, _Name], Mapping[Token, Placement | None]] = {}
        for vm_object in objects:
            for prior in vm_object.prior_pools:
                if is_platform_scale_in(vm_object, prior):
                    self._pools.setdefault(vm_object.request.demand.site_id, []).append(
                        (vm_object, prior)
                    )

    def find_dependencies(self, vm_object: VmObject, pool: PoolDemand) -> tuple[str, ...]:
        """Return the names of other pools with a scale-in that this pool needs capacity from.

        The names are `cluster/pool`. The platform chooses the VMs to remove, so no machine is
        certain to get free. If the VMs of this pool fit even while all VMs of those pools remain,
        the result is ().
        """
        site = vm_object.request.site
        if site is None:
            return ()
        own_name = (str(vm_object.instance.address), pool.pool)
        pools = self._pools.get(site.id, [])
        other_pools = [
            (other, prior)
            for other, prior in pools
            if (str(other.instance.address), prior.pool) != own_name
        ]
        if not other_pools:
            return ()
        has_own_scale_in = len(other_pools) < len(pools)
        # No pool: all such pools share one cached outcome.
        excluded = own_name if has_own_scale_in else ("", "")
        outcome = self._place_with_remaining_vms(site, other_pools, excluded)
        # Of the VMs placed by this plan.
        handles = vm_object.placements.new_handles
        if all(
            outcome.get(handles[key]) is not None for key in pool.keys if key in handles
        ):  # all fit
            return ()
        return tuple(
            f"{other_object.prior.demand.cluster}/{prior.pool}"
            for other_object, prior in other_pools
        )

    def _place_with_remaining_vms(
        self, site: SitePlan, pools: Iterable[_Pool], excluded: _Name
    ) -> Mapping[Token, Placement | None]:
        """Return the placements of the plan if these pools were not scaled in.

        The VMs that a scale-in removes remain. `pools` are all pools of the site with a scale-in
        except the `excluded` one, so its name is enough for the cache.
        """
        key = (site.id, excluded)
        if key not in self._outcomes:
            scheduler = site.base.copy()
            for vm_object, prior in pools:
                for vm_key, trigger in vm_object.request.actions.removals.items():
                    pool_name, _ = vm_key
                    if (
                        pool_name == prior.pool
                        and trigger == "scale_in"
                        and vm_key in vm_object.prior.existing
                    ):
                        name = build_vm_name(vm_object.prior.demand, prior, *vm_key)
                        scheduler.add_existing(
                            name, prior.sku, vm_object.get_prior_placement(vm_key)
                        )
            self._outcomes[key] = run_operations(scheduler, site.operations)
        return self._outcomes[key]
