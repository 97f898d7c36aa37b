"""Figures for the decision about a plan: impact, capacity, upgrades, confidence and guard rails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from nexusform.placement_kinds.placement_kind import VM
from nexusform.placement_kinds.registry import KINDS
from nexusform.plans.impact.object_effects import (
    DISRUPTIVE_EFFECTS,
    REMOVAL_EFFECTS,
    Effect,
    compute_effect,
    count_objects_with_effects,
    count_plan_effects,
    is_upgrade_row,
    list_upgrade_pools,
)
from nexusform.plans.maintenance import DrainSchedule, PlannedMachineAction, select_stopped_vms
from nexusform.plans.plan import PlacementChange, Plan
from nexusform.plans.plan_checks import GuardRailResult
from nexusform.plans.site_capacity.occupancy import select_largest_sku_rows
from nexusform.scheduling.racks.vms import Interval

SUFFICIENT: Final = "sufficient"
INSUFFICIENT: Final = "insufficient"
_UNKNOWN: Final = "unknown"


class ImpactSummary(Struct, frozen=True):
    """Numbers of affected objects of all kinds.

    `recreated` objects stay at their location. `max_down` is the largest number of VMs of one
    cluster down at a time. `drains` is None without drains. `stopped` VMs stop for machine actions,
    at most `max_stopped` at a time.
    """

    recreated: int = 0
    moved: int = 0
    removed: int = 0
    host_lost: int = 0
    max_down: int = 0
    drains: DrainSchedule | None = None
    stopped: int = 0
    max_stopped: int = 0


class SpareCapacitySummary(Struct, frozen=True):
    """Spare capacity of a site for its largest VM SKU in use; None: no site before.

    Upper bounds if `lacks_data`.
    """

    site: str
    vm_sku_name: str
    before: Interval | None
    after: Interval
    rack_down_before: Interval | None
    rack_down_after: Interval
    lacks_data: bool = False

    @property
    def is_changed(self) -> bool:
        """Whether the plan changes the figures."""
        return (self.before, self.rack_down_before) != (self.after, self.rack_down_after)


class PlacementConfidenceSummary(Struct, frozen=True):
    """Numbers of placed VMs and pods, and of those with a certain location.

    `doubts` counts the other pods by the assumption behind their location, most frequent first.
    `uncertain_rollouts` are the causes of rollouts with uncertain content.
    """

    vms: int = 0
    exact_rack_counts: int = 0
    exact_machines: int = 0
    pods: int = 0
    certain_pods: int = 0
    doubts: Mapping[str, int] = field(default_factory=dict)
    uncertain_rollouts: tuple[str, ...] = ()


class SurgeVerdict(Struct, frozen=True):
    """Whether a cluster has capacity for the surge VMs of an upgrade after the plan."""

    site: str
    cluster: str
    result: str


class PlanDecisionSummary(Struct, frozen=True):
    """All figures for the decision about a plan."""

    impact: ImpactSummary
    capacity: tuple[SpareCapacitySummary, ...]
    upgrades: tuple[SurgeVerdict, ...]
    confidence: PlacementConfidenceSummary
    guard_rails: tuple[GuardRailResult, ...]


def build_decision(plan: Plan) -> PlanDecisionSummary:
    """Build the figures of a plan.

    They are affected objects, spare capacity per site, capacity for upgrades, and confidence.
    """
    incomplete_sites = _find_sites_with_unknown_capacity(plan)
    return PlanDecisionSummary(
        impact=_build_impact_figures(plan),
        capacity=tuple(
            SpareCapacitySummary(
                site=row.site,
                vm_sku_name=row.sku,
                before=row.before.free_interval if row.before else None,
                after=after.free_interval,
                rack_down_before=row.before.free_interval_after_rack_loss if row.before else None,
                rack_down_after=after.free_interval_after_rack_loss,
                lacks_data=row.site_id in incomplete_sites,
            )
            for row, after in select_largest_sku_rows(plan.capacity)
        ),
        upgrades=_build_surge_verdicts(plan, incomplete_sites),
        confidence=_build_confidence_figures(plan),
        guard_rails=plan.guard_rails,
    )


def _find_sites_with_unknown_capacity(plan: Plan) -> frozenset[str]:
    """Return the ids of the sites whose spare capacity missing data may change."""
    ledger = plan.ledger
    site_ids = {row.site_id for row in plan.capacity}
    return frozenset(
        site_id for site_id in site_ids if ledger.select_sites({site_id}).has_unknown_capacity
    )


def _build_surge_verdicts(plan: Plan, incomplete_sites: frozenset[str]) -> tuple[SurgeVerdict, ...]:
    """Return for each cluster whether the extra VMs of a rolling upgrade fit after the plan.

    The result is the worst one over the VM SKUs of its pools. On `incomplete_sites`, it is never
    better than unknown.
    """
    # By site and cluster.
    results: dict[tuple[str, str], str] = {}
    # Each row is of one site and SKU.
    for row in plan.capacity:
        # The plan removes the site, so its clusters have no later upgrade.
        if row.after is None:
            continue
        # Clusters with a pool of the SKU.
        best_result = _UNKNOWN if row.site_id in incomplete_sites else SUFFICIENT
        for cluster in row.after.clusters:
            results.setdefault((row.site, cluster), best_result)
        # The fit depends on unknown NUMA cells.
        for cluster in row.after.uncertain_surge_clusters:
            # A worse result for another SKU stays.
            if results.get((row.site, cluster)) != INSUFFICIENT:
                results[row.site, cluster] = _UNKNOWN
        # The extra VMs do not fit.
        for cluster in row.after.no_surge_clusters:
            results[row.site, cluster] = INSUFFICIENT
    return tuple(SurgeVerdict(site, cluster, result) for (site, cluster), result in results.items())


def _build_impact_figures(plan: Plan) -> ImpactSummary:
    """Count the objects affected by a plan, and the most VMs of one cluster down at once.

    In the worst case, all VMs outside of upgrades are down at the same time.
    """
    # Numbers of objects by effect, kind and state.
    counts = count_plan_effects(plan)
    # The most VMs down at a time, by cluster (site id, name).
    down: Counter[tuple[str, str]] = Counter()
    # All at once, as a worst case.
    interrupted_vms = list(_select_interrupted_vms(plan))
    # By pool (site id, cluster, name).
    interrupted_counts: Counter[tuple[str, str, str]] = Counter()
    for row in interrupted_vms:
        down[row.site_id, row.cluster] += 1
        interrupted_counts[row.site_id, row.cluster, row.pool] += 1
    for upgrade in plan.upgrades:
        # A surge adds VMs first. Interrupted VMs of a pool are among its concurrent ones.
        pool_counts = [
            0
            if pool.surges
            else max(
                pool.concurrent_vms
                - interrupted_counts[upgrade.site_id, upgrade.cluster, pool.pool],
                0,
            )
            for pool in upgrade.pools
        ]
        # A rolling upgrade handles one pool after another.
        most_down = max(pool_counts, default=0) if upgrade.is_rolling else sum(pool_counts)
        down[upgrade.site_id, upgrade.cluster] += most_down
    return ImpactSummary(
        recreated=count_objects_with_effects(counts, Effect.RECREATED),
        moved=count_objects_with_effects(counts, Effect.MOVED, Effect.UNPLACED),
        removed=count_objects_with_effects(counts, *REMOVAL_EFFECTS),
        host_lost=count_objects_with_effects(counts, Effect.LOST) + plan.lost_unmanaged_count,
        max_down=max(down.values(), default=0),
        drains=_build_drains(plan, interrupted_vms),
        stopped=len(select_stopped_vms(plan.machine_actions)),
        max_stopped=_count_most_stopped_vms(plan.machine_actions),
    )


def _count_most_stopped_vms(actions: Iterable[PlannedMachineAction]) -> int:
    """Return the largest number of a site's VMs that machine actions stop at one time.

    The actions run one after another.
    """
    maximum = 0
    # VMs still stopped when the next action begins.
    off_vms_by_site: dict[str, set[str]] = {}
    # In order of their maintenance windows.
    for action in actions:
        off_vms = off_vms_by_site.setdefault(action.site_id, set())
        maximum = max(maximum, len(off_vms.union(action.stopped_vms)))
        # These VMs start again after the action.
        off_vms.difference_update(action.stopped_vms)
        # The machine stays powered off, and its VMs with it.
        if action.leaves_off:
            off_vms.update(action.stopped_vms)
    return maximum


def _build_drains(plan: Plan, interrupted_vms: Sequence[PlacementChange]) -> DrainSchedule | None:
    """Build the schedule of the drains; None without any."""
    if not interrupted_vms and not plan.upgrades:
        return None
    from nexusform.plans.impact.drain_schedule import build_drain_schedule

    return build_drain_schedule(plan, interrupted_vms)


def _select_interrupted_vms(plan: Plan) -> Iterable[PlacementChange]:
    """Yield the interrupted VMs, without those re-created pool by pool."""
    pools = list_upgrade_pools(plan)
    for row in plan.placements:
        if (
            row.kind == VM
            and compute_effect(row) in DISRUPTIVE_EFFECTS
            and not is_upgrade_row(row, pools)
        ):
            yield row


def _build_confidence_figures(plan: Plan) -> PlacementConfidenceSummary:
    """Count placed VMs, certain racks and machines, and pods by certainty.

    Uncertain pods are counted by cause.

    The cause is the assumption behind the location (`depends_on`), or a tie of several nodes.
    """
    pod_count = 0
    # Causes of uncertain pods.
    causes: Counter[str] = Counter()
    for row in plan.placements:
        if KINDS[row.kind].runs_on_vms and "certain" in row.scores:
            pod_count += 1
            if not row.scores["certain"]:
                causes[str(row.scores.get("depends_on") or "ties")] += 1
    return PlacementConfidenceSummary(
        vms=plan.placed_vms,
        exact_rack_counts=sum(table.racks_certain for table in plan.placement_tables),
        exact_machines=sum(table.machines_certain for table in plan.placement_tables),
        pods=pod_count,
        certain_pods=pod_count - causes.total(),
        doubts=dict(causes.most_common()),
        uncertain_rollouts=tuple(
            rollout.cause for rollout in plan.rollouts if rollout.previous_snapshot is not None
        ),
    )
