"""Placement rows of a plan: each VM's action, reason and certainty.

For the tables of the Nexus document, a plan also has a row per pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.doubts.ledger import DoubtLedger, PlacedPool
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placements.vm_demands import MACHINE_LOST, PoolDemand, index_pools
from nexusform.planning.conclusion.plan_result import ExplainedVm
from nexusform.planning.vm_planning.site_plans import SitePlan
from nexusform.planning.vm_planning.vm_object import ROLLING, VmKey, VmObject
from nexusform.plans.plan import FORGOTTEN_REASON, PlacementAction, PlacementChange, PlacementTable
from nexusform.scheduling.racks.uncertainty.certainty import PoolCertainty, SamplingResult
from nexusform.scheduling.racks.vms import Placement

if TYPE_CHECKING:
    from nexusform.scheduling.racks.explanation import DecisionExplanation

# Certainty of a pool that was not sampled.
_NO_CERTAINTY: Final = PoolCertainty("", "", 0, {}, (), is_tie_certain=False)
OBSERVED_ELSEWHERE = "observed_elsewhere"
# What the machine of a VM with an alternative depends on.
ARRIVAL_ORDER: Final = "arrival order"
# Platform that chooses the VMs of a smaller pool.
_PLATFORM: Final = "Azure"
_NO_SCORES: Final[Mapping[str, float]] = {}
_CHOICE_REASON: Final = f"the pool's count was lowered; {_PLATFORM} chooses the VMs to remove"
REASONS: Mapping[str, str] = {
    "new": "new",
    "scale_out": "the pool's count was raised",
    "scale_in": "the pool's count was lowered; the highest numbers are removed",
    "sku_changed": "the pool's VM SKU changed",
    "zones_changed": "the pool's availability zones changed",
    "labels_changed": "the pool's labels changed",
    "taints_changed": "the pool's taints changed",
    "mode_changed": "the pool's mode changed",
    "kubernetes_version_changed": "the cluster's kubernetes_version changed",
    "machine_removed": "its machine was removed",
    "machine_forgotten": "its machine is no longer managed",
    "machine_evacuated": "its machine is evacuated",
    "machine_replaced": "its machine is re-created",
    MACHINE_LOST: "-assume loses its machine",
    "node_deleted": "the node was deleted outside nexusform",
    "pool_removed": "its pool was removed",
    "cluster_replaced": "its cluster or VM is replaced",
    "cluster_removed": "its cluster was removed",
    "requested": "-replace names its resource",
    "heal": "-replace names this VM",
    OBSERVED_ELSEWHERE: "it runs elsewhere than recorded in state, and stays there",
}


def build_placement_changes(
    objects: Iterable[VmObject],
    certainty: Mapping[str, SamplingResult],
    ledger: DoubtLedger,
    *,
    everything: bool,
    has_unplaced: bool,
) -> Iterator[PlacementChange]:
    """Yield a row per changed VM of each object, with the reason (trigger).

    With `has_unplaced`, also for existing VMs that fit nowhere in a hypothetical plan.

    Removed, lost (without their machine) and forgotten (no longer managed) VMs come first. Then
    follow VMs placed by the plan or observed on another machine. With `everything`, add unchanged
    VMs, and the machines rejected for each VM: on a large site up to a million.
    """
    for vm_object in objects:
        actions = vm_object.request.actions
        # VMs re-created with another name or on another site: the old VM is removed.
        renamed_vms = {
            key: trigger
            for key, trigger in actions.recreations.items()
            if _is_vm_renamed(vm_object, key)
        }
        # An upgrade removes no old VM without a new one.
        unplaced = {
            key: trigger
            for key, trigger in actions.recreations.items()
            if has_unplaced and key in vm_object.placements.failures and trigger != ROLLING
        }
        lost = {key: trigger for key, trigger in unplaced.items() if trigger == MACHINE_LOST}
        removed = {key: trigger for key, trigger in unplaced.items() if key not in lost}
        triggers_by_action = {
            PlacementAction.REMOVE: {**actions.removals, **renamed_vms, **removed},
            PlacementAction.LOSE: {**actions.losses, **lost},
            PlacementAction.FORGET: actions.forgets,
        }
        chosen_removals = frozenset(vm_object.list_chosen_removals())
        for action, triggers in triggers_by_action.items():
            for key, trigger in triggers.items():
                row = _build_row_of_removed_vm(vm_object, key, action, trigger)
                if key in chosen_removals:
                    row = replace(row, chosen_by=_PLATFORM, reason=_CHOICE_REASON)
                yield row
        # VMs placed or moved.
        is_changed = vm_object.placements.new_handles or vm_object.prior.recorded_placements
        if everything or is_changed:
            yield from _list_current_vm_rows(vm_object, certainty, ledger, everything=everything)


def build_unplaced_vm_rows(objects: Iterable[VmObject]) -> Iterator[PlacementChange]:
    """Yield a row per existing VM that a failed plan re-creates and that fits nowhere."""
    for vm_object in objects:
        for key, trigger in vm_object.request.actions.recreations.items():
            if key not in vm_object.placements.vms:
                yield _build_row_of_removed_vm(vm_object, key, PlacementAction.MOVE, trigger)


def _build_row_of_removed_vm(
    vm_object: VmObject, key: VmKey, action: PlacementAction, trigger: str
) -> PlacementChange:
    """Build the row of a VM in state without a new location; `trigger` is the reason."""
    # The names of a VM without a machine, else {}
    unplaced_record = vm_object.prior.unplaced.get(key, {})
    pool_name, number = key
    pool = index_pools(vm_object.prior_pools).get(pool_name)
    row = PlacementChange(
        address=vm_object.instance.address,
        kind=VM,
        object=str(unplaced_record.get("name")),
        action=action,
        source=None,
        target=None,
        trigger=trigger,
        cluster=vm_object.prior.demand.cluster,
        pool=pool_name,
        number=number,
        sku=pool.sku.name if pool is not None else "",
        site_id=vm_object.prior.site_id,
        reason=FORGOTTEN_REASON if action is PlacementAction.FORGET else REASONS.get(trigger, ""),
        platform_name=unplaced_record.get("platform_name") or "",
    )
    vm = vm_object.prior.existing.get(key)
    # It had no machine.
    if vm is None:
        return row
    return replace(
        row,
        object=vm.name,
        source=vm.placement,
        sku=vm.sku_name,
        provenance=vm.provenance,
        platform_name=vm.platform_name or "",
    )


def _is_vm_renamed(vm_object: VmObject, key: VmKey) -> bool:
    """Return whether an existing VM is re-created under another name or site.

    It is removed and a new one placed.
    """
    vm = vm_object.prior.existing.get(key)
    if vm is None:
        return False
    if vm_object.prior.site_id != vm_object.request.demand.site_id:
        return True
    pool = index_pools(vm_object.pools).get(vm.pool)
    return pool is None or vm.name not in pool.names


def _list_current_vm_rows(
    vm_object: VmObject,
    certainty: Mapping[str, SamplingResult],
    ledger: DoubtLedger,
    *,
    everything: bool,
) -> Iterator[PlacementChange]:
    """Yield a row per VM that exists after the plan and has a location.

    Without `everything`, unchanged VMs are omitted. The rest are VMs placed by this plan (with a
    handle), and VMs observed at another location than recorded in state.
    """
    site_certainty = certainty.get(vm_object.request.demand.site_id, SamplingResult())
    for pool in vm_object.pools:
        # A host that an unread fact may change has no certainty.
        is_certain = ledger.has_certain_hosts(build_placed_pool_of_object(vm_object, pool))
        for key in pool.keys:
            has_location = key in vm_object.placements.vms
            is_changed = (
                key in vm_object.placements.new_handles
                or key in vm_object.prior.recorded_placements
            )
            if has_location and (everything or is_changed):
                yield _build_row_of_current_vm(
                    vm_object,
                    pool,
                    key,
                    site_certainty if is_certain else SamplingResult(),
                    everything=everything,
                )


def _build_row_of_current_vm(
    vm_object: VmObject,
    pool: PoolDemand,
    key: VmKey,
    certainty: SamplingResult,
    *,
    everything: bool,
) -> PlacementChange:
    """Build the row of a VM with a location after the plan.

    It has the rejected machines only with `everything`.
    """
    vm = vm_object.placements.vms[key]
    demand = vm_object.request.demand
    action, source = _determine_vm_action(vm_object, key)
    trigger = vm_object.get_trigger(key)
    # By this plan.
    is_placed = key in vm_object.placements.new_handles
    # A read found it on another machine.
    if not is_placed and key in vm_object.prior.recorded_placements:
        source = vm_object.prior.recorded_placements[key]
        trigger = OBSERVED_ELSEWHERE
    explanation = vm_object.placements.explanations.get(key)
    # Azure may remove it in place of a VM with a higher number.
    is_removable = action is PlacementAction.KEEP and any(
        name == pool.pool for name, _ in vm_object.list_chosen_removals()
    )
    scores: Mapping[str, Any] = _collect_deciding_scores(explanation)
    handle = vm_object.placements.new_handles.get(key)
    alternative = certainty.alternatives.get(handle) if handle is not None else None
    if alternative:
        scores = {**scores, "depends_on": ARRIVAL_ORDER, "otherwise": alternative}
    return PlacementChange(
        address=vm_object.instance.address,
        kind=VM,
        object=vm.name,
        action=action,
        source=source,
        target=vm.placement,
        trigger=trigger,
        cluster=demand.cluster,
        pool=pool.pool,
        number=vm.number,
        sku=pool.sku.name,
        site_id=demand.site_id,
        reason=_CHOICE_REASON if is_removable else REASONS.get(trigger, ""),
        scores=scores,
        certainty=certainty.vms.get(vm_object.placements.new_handles[key]) if is_placed else None,
        provenance=vm.provenance,
        rejections=explanation.rejections if explanation is not None and everything else (),
        platform_name=vm_object.prior.existing.get(key, vm).platform_name or "",
        chosen_by=_PLATFORM if is_removable else "",
    )


def _determine_vm_action(
    vm_object: VmObject, key: VmKey
) -> tuple[PlacementAction, Placement | None]:
    """Return the action on a VM that exists after the plan, and its placement before the plan.

    The placement is None if it had none. A VM placed by this plan is moved if it was in state
    before, with or without a machine. A renamed VM counts as new.
    """
    existing_vm = vm_object.prior.existing.get(key)
    source = existing_vm.placement if existing_vm is not None else None
    # This plan does not place it.
    if key not in vm_object.placements.new_handles:
        return PlacementAction.KEEP, source
    has_waited = key in vm_object.prior.unplaced
    keeps_name = existing_vm is not None and not _is_vm_renamed(vm_object, key)
    if has_waited or keeps_name:
        return PlacementAction.MOVE, source
    return PlacementAction.PLACE, None


def _collect_deciding_scores(explanation: DecisionExplanation | None) -> Mapping[str, float]:
    """Return the scores of the chosen rack, then of the chosen machine, by rule.

    The result is empty without an explanation.
    """
    if explanation is None or not explanation.racks or not explanation.machines:
        # One object for all VMs.
        return _NO_SCORES
    # Racks are in order of preference.
    chosen_rack = explanation.racks[0]
    chosen_machine = explanation.machines[0]
    scores = {f"rack.{key.rule}": key.value for key in chosen_rack.keys}
    scores |= {f"machine.{key.rule}": key.value for key in chosen_machine.keys}
    return scores


def collect_explanations(objects: Iterable[VmObject]) -> tuple[ExplainedVm, ...]:
    """Return the recorded explanations of VM locations, each with the trigger of the placement."""
    explained_vms = []
    for vm_object in objects:
        # None is requested: do not build the names of all its VMs.
        if not vm_object.placements.explanations:
            continue
        names = vm_object.requested_names
        for key, explanation in vm_object.placements.explanations.items():
            trigger = vm_object.get_trigger(key)
            explained_vms.append(
                ExplainedVm(vm_object.instance.address, names[key], explanation, trigger)
            )
    return tuple(explained_vms)


def build_placement_tables(
    objects: Iterable[VmObject],
    sites: Mapping[str, SitePlan],
    certainty: Mapping[str, SamplingResult],
    ledger: DoubtLedger,
) -> Iterator[PlacementTable]:
    """Yield a row per pool of every unchanged or added cluster.

    VMs without a cluster have one row per block, at the position of its first VM: the placement
    rule treats them as one pool.
    """
    zones = {
        site_id: _build_site_zones(site, certainty.get(site_id, SamplingResult()))
        for site_id, site in sites.items()
    }
    # By site id, owner (the block, for VMs without a cluster) and pool.
    members_by_row: dict[tuple[str, str, str], list[tuple[VmObject, PoolDemand]]] = {}
    for vm_object in objects:
        for pool in vm_object.pools:
            owner = pool.rule_pool or str(vm_object.instance.address)
            row_key = (vm_object.request.demand.site_id, owner, pool.pool)
            members_by_row.setdefault(row_key, []).append((vm_object, pool))
    for (site_id, _, _), members in members_by_row.items():
        yield _build_table_row(
            members,
            zones.get(site_id, _SiteZones()),
            certainty.get(site_id, SamplingResult()),
            ledger,
        )


def list_placed_pools(objects: Iterable[VmObject]) -> Iterator[PlacedPool]:
    """Yield the pools with VMs placed by the plan."""
    for vm_object in objects:
        for pool in vm_object.pools:
            if not vm_object.placements.new_handles.keys().isdisjoint(pool.keys):
                yield build_placed_pool_of_object(vm_object, pool)


def build_placed_pool_of_object(vm_object: VmObject, pool: PoolDemand) -> PlacedPool:
    """Build the pool of a VM object for the ledger of unread facts."""
    demand = vm_object.request.demand
    return PlacedPool(
        demand.site_id,
        str(vm_object.instance.address),
        pool.pool,
        is_decided=demand.provenance == "decided",
        untried=vm_object.placements.doubts.get(pool.pool, ""),
    )


def _compute_minimum_on_rack(vm_object: VmObject, pool: PoolDemand) -> int | None:
    """Return how many VMs remain at least on a used rack.

    Return None unless the platform chooses the VMs to remove.
    """
    if not is_platform_scale_in(vm_object, pool):
        return None
    removed_count = sum(name == pool.pool for name, _ in vm_object.request.actions.removals)
    # It may remove all of the VMs from one rack.
    return max(min(_count_prior_vms_per_rack(vm_object, pool).values()) - removed_count, 0)


class _SiteZones(Struct, frozen=True):
    """Zones of a site: the number of racks with a schedulable machine, by zone.

    `with_unknown_cells` are the zones of racks with unknown NUMA cells, None that of another rack.
    """

    rack_counts: Counter[str] = field(default_factory=Counter)
    with_unknown_cells: frozenset[str | None] = frozenset()

    def count_racks(self, zones: frozenset[str] | None) -> int:
        """Return the number of racks in some zones; None is all zones."""
        if zones is None:
            return self.rack_counts.total()
        return sum(self.rack_counts[zone] for zone in zones)


def _build_site_zones(site: SitePlan, certainty: SamplingResult) -> _SiteZones:
    """Count the racks of a site by zone, once for all pools."""
    zones = {
        machine.rack: machine.availability_zone
        for machine in site.machines.values()
        if not machine.unschedulable_reason
    }
    with_unknown_cells = {
        zones.get(site.machines[name].rack) for name in certainty.uncertain_machines
    }
    return _SiteZones(Counter(zones.values()), frozenset(with_unknown_cells))


def _build_table_row(
    members: Sequence[tuple[VmObject, PoolDemand]],
    zones: _SiteZones,
    certainty: SamplingResult,
    ledger: DoubtLedger,
) -> PlacementTable:
    """Build the row of one pool.

    `members` are its VM objects and pools: several for a block of plain VMs (without a cluster),
    else one. `zones` are those of its site.
    """
    # All members have its owner and site.
    vm_object, pool = members[0]
    demand = vm_object.request.demand
    # One per VM: its object, and its pool and number.
    keys: list[tuple[VmObject, VmKey]] = []
    for owner, member_pool in members:
        keys += [(owner, key) for key in member_pool.keys]
    vms_per_rack = Counter(
        owner.get_placement(key).rack for owner, key in keys if key in owner.placements.vms
    )
    # The platform spreads VMs evenly. VMs without a place are on no rack.
    spread_count = vms_per_rack.total() or len(keys)
    expected_racks = min(spread_count, zones.count_racks(pool.zones))
    minimum_on_rack, remainder = divmod(spread_count, expected_racks) if expected_racks else (0, 0)
    # The pool of plain VMs is their block.
    rule_pool = pool.rule_pool or pool.pool
    sampled = certainty.pools.get((demand.owner, rule_pool), _NO_CERTAINTY)
    # With unknown NUMA cells on an allowed rack, nothing about the pool is certain.
    has_unknown_cells = any(map(pool.is_zone_allowed, zones.with_unknown_cells))
    is_read = all(
        ledger.has_certain_hosts(build_placed_pool_of_object(owner, member_pool))
        for owner, member_pool in members
    )
    pool_certainty = sampled if is_read and not has_unknown_cells else _NO_CERTAINTY
    # Restored VMs return to their location without a decision.
    placed_count = sum(
        1
        for owner, key in keys
        if key in owner.placements.new_handles and key not in owner.placements.restored
    )
    # VMs on racks with the same count in all samples.
    racks_certain = pool_certainty.vms_on_certain_counts
    machines_certain = pool_certainty.vms_on_certain_machines
    # The locations are configured: nothing is sampled.
    if demand.provenance == "decided" and is_read:
        racks_certain = machines_certain = placed_count
    sizes = {member_pool.sku.name for _, member_pool in members}
    return PlacementTable(
        address=vm_object.instance.address,
        site_id=demand.site_id,
        cluster=demand.cluster,
        pool=pool.pool,
        vm_sku_name=pool.sku.name if len(sizes) == 1 else f"{len(sizes)} sizes",
        total_count=len(keys),
        expected_racks=expected_racks,
        actual_racks=len(vms_per_rack),
        expected_vms_per_rack=(minimum_on_rack, minimum_on_rack + (remainder > 0)),
        actual_vms_per_rack=dict(sorted(vms_per_rack.items())),
        placed=placed_count,
        racks_certain=racks_certain,
        machines_certain=machines_certain,
        certain_racks=pool_certainty.certain_racks,
        tied_classes=f"{sampled.tied_classes:x}" if sampled.tied_classes else "",
        is_tie_certain=pool_certainty.is_tie_certain,
        minimum_remaining_on_rack=_compute_minimum_on_rack(vm_object, pool),
        possible_vms_per_rack=_compute_possible_counts(vm_object, pool, vms_per_rack),
        provenance=demand.provenance,
        # Plain VMs and VNFs have no count path; only nodes of an agent pool have a drain timeout.
        drain_timeout=pool.drain_timeout if pool.count_path and not pool.is_control_plane else 0,
        platform=vm_object.request.site.scheduler.profile.platform
        if vm_object.request.site is not None
        else "",
        doubt=next(
            filter(None, (owner.placements.doubts.get(member.pool) for owner, member in members)),
            "",
        ),
    )


def _compute_possible_counts(
    vm_object: VmObject, pool: PoolDemand, vms_per_rack: Counter[str]
) -> dict[str, tuple[int, int]]:
    """Return the fewest and the most VMs of each rack after a scale-in; {} without a choice.

    `vms_per_rack` is the outcome for one choice of VMs.
    """
    removed_keys = [key for key in vm_object.list_chosen_removals() if key[0] == pool.pool]
    if not removed_keys:
        return {}
    existing = vm_object.prior.existing
    with_candidates = vms_per_rack + Counter(
        existing[key].placement.rack for key in removed_keys if key in existing
    )
    removed_count = len(removed_keys)
    remaining_count = with_candidates.total() - removed_count
    return {
        rack: (max(count - removed_count, 0), min(count, remaining_count))
        for rack, count in sorted(with_candidates.items())
    }


def is_platform_scale_in(vm_object: VmObject, pool: PoolDemand) -> bool:
    """Return whether the platform chooses the VMs that a scale-in removes, and it matters.

    It matters if some VMs share a rack.
    """
    if not any(name == pool.pool for name, _ in vm_object.list_chosen_removals()):
        return False
    vms_per_rack = _count_prior_vms_per_rack(vm_object, pool)
    return max(vms_per_rack.values()) > 1


def _count_prior_vms_per_rack(vm_object: VmObject, pool: PoolDemand) -> Counter[str]:
    return Counter(
        vm.placement.rack for vm in vm_object.prior.existing.values() if vm.pool == pool.pool
    )
