"""Figures for the decision about a plan: impact, capacity, upgrades, confidence and guard rails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct, field

from nexusform.placement_kinds.placement_kind import VM
from nexusform.placement_kinds.registry import KINDS
from nexusform.placements.consequence_record import ConsequenceKind
from nexusform.plans.impact.guard_rails import has_default_of_fewer_samples, has_enough_samples
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
from nexusform.plans.plan import PlacementChange, Plan, is_fully_decided
from nexusform.plans.plan_checks import GuardRailResult
from nexusform.plans.site_capacity.occupancy import select_largest_sku_rows
from nexusform.scheduling.racks.vms import Interval

SUFFICIENT: Final = "sufficient"
INSUFFICIENT: Final = "insufficient"
_UNKNOWN: Final = "unknown"
_CLUSTER_REPLACED: Final = "cluster_replaced"


class ImpactSummary(Struct, frozen=True):
    """Numbers of affected objects of all kinds.

    `recreated` objects stay at their location, `forgotten` ones are among the `removed`. `max_down`
    is the largest number of VMs of one cluster down at a time. `drains` is None without drains.
    `stopped` VMs stop for machine actions, at most `max_stopped` at a time.
    """

    placed: int = 0
    recreated: int = 0
    moved: int = 0
    removed: int = 0
    forgotten: int = 0
    host_lost: int = 0
    max_down: int = 0
    drains: DrainSchedule | None = None
    stopped: int = 0
    max_stopped: int = 0

    @property
    def interrupted(self) -> int:
        """Number of objects that move, are re-created, stop or lose their host."""
        return self.recreated + self.moved + self.host_lost + self.stopped


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


class RuleVerification(Struct, frozen=True):
    """Replay of a site's history by the placement rule: `hits` of the VMs that were verified.

    Without verified VMs, the rule was not compared with the site.
    """

    site: str
    date: str = ""
    hits: int = 0
    verified_count: int = 0


class PlacementConfidenceSummary(Struct, frozen=True):
    """Numbers of placed VMs and pods, and of those with a certain location.

    `doubts` counts the other pods by the assumption behind their location, most frequent first.
    `uncertain_rollouts` are the causes of rollouts with uncertain content. `platforms` place the
    VMs, unless nexusform decides every location (`is_decided`). `samples` is the number of
    tie-break samples: `has_enough_samples` for a statement about certainty,
    `has_fewer_samples_by_default` for the size of the plan. `lacks_data` means that data on the
    sites of the VMs is missing. `verifications` are those of the sites that depend on the rule.
    `order_doubts` are clauses on orders of arrival that were not tried.
    """

    vms: int = 0
    exact_rack_counts: int = 0
    exact_machines: int = 0
    pods: int = 0
    certain_pods: int = 0
    doubts: Mapping[str, int] = field(default_factory=dict)
    uncertain_rollouts: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    is_decided: bool = False
    samples: int = 0
    has_enough_samples: bool = False
    has_fewer_samples_by_default: bool = False
    lacks_data: bool = False
    verifications: tuple[RuleVerification, ...] = ()
    order_doubts: tuple[str, ...] = ()


class SurgeVerdict(Struct, frozen=True):
    """Whether a cluster has capacity for the surge VMs of an upgrade after the plan.

    An unknown result may have a `condition`: `fits only if a-p-3 leaves r1-bm01`.
    """

    site: str
    cluster: str
    result: str
    condition: str = ""


class PlanDecisionSummary(Struct, frozen=True):
    """All figures for the decision about a plan.

    With `has_chosen_removals`, the platform chooses VMs to remove from pools.
    """

    impact: ImpactSummary = ImpactSummary()
    capacity: tuple[SpareCapacitySummary, ...] = ()
    upgrades: tuple[SurgeVerdict, ...] = ()
    confidence: PlacementConfidenceSummary = PlacementConfidenceSummary()
    guard_rails: tuple[GuardRailResult, ...] = ()
    has_chosen_removals: bool = False


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
            for row, after in select_largest_sku_rows(plan.site_records.capacity)
        ),
        upgrades=_build_surge_verdicts(plan, incomplete_sites),
        confidence=_build_confidence_figures(plan),
        guard_rails=plan.verdicts.guard_rails,
        has_chosen_removals=bool(plan.shrunk_pools),
    )


def sum_decisions(decisions: Sequence[PlanDecisionSummary]) -> PlanDecisionSummary:
    """Return the figures of several plans of different sites, without guard rails.

    Numbers of objects are sums; `max_down` and `max_stopped` are those of the worst plan, because
    the plans are applied one by one. Drains have no sum.
    """
    impacts = [decision.impact for decision in decisions]
    return PlanDecisionSummary(
        impact=ImpactSummary(
            placed=sum(impact.placed for impact in impacts),
            recreated=sum(impact.recreated for impact in impacts),
            moved=sum(impact.moved for impact in impacts),
            removed=sum(impact.removed for impact in impacts),
            forgotten=sum(impact.forgotten for impact in impacts),
            host_lost=sum(impact.host_lost for impact in impacts),
            max_down=max((impact.max_down for impact in impacts), default=0),
            stopped=sum(impact.stopped for impact in impacts),
            max_stopped=max((impact.max_stopped for impact in impacts), default=0),
        ),
        capacity=tuple(chain.from_iterable(decision.capacity for decision in decisions)),
        upgrades=tuple(chain.from_iterable(decision.upgrades for decision in decisions)),
        confidence=_sum_confidence([decision.confidence for decision in decisions]),
        has_chosen_removals=any(decision.has_chosen_removals for decision in decisions),
    )


def _sum_confidence(summaries: Sequence[PlacementConfidenceSummary]) -> PlacementConfidenceSummary:
    """Return the sums of several plans; what a plan without placed VMs says does not count."""
    doubts: Counter[str] = Counter()
    for summary in summaries:
        doubts.update(summary.doubts)
    placing = [summary for summary in summaries if summary.vms]
    platforms = chain.from_iterable(summary.platforms for summary in placing)
    return PlacementConfidenceSummary(
        vms=sum(summary.vms for summary in placing),
        exact_rack_counts=sum(summary.exact_rack_counts for summary in placing),
        exact_machines=sum(summary.exact_machines for summary in placing),
        pods=sum(summary.pods for summary in summaries),
        certain_pods=sum(summary.certain_pods for summary in summaries),
        doubts=dict(doubts.most_common()),
        platforms=tuple(sorted(set(platforms))),
        is_decided=bool(placing) and all(summary.is_decided for summary in placing),
        samples=min((summary.samples for summary in placing), default=0),
        has_enough_samples=all(summary.has_enough_samples for summary in placing),
        has_fewer_samples_by_default=any(
            summary.has_fewer_samples_by_default for summary in placing
        ),
        lacks_data=any(summary.lacks_data for summary in placing),
        verifications=tuple(chain.from_iterable(summary.verifications for summary in placing)),
        order_doubts=tuple(
            dict.fromkeys(chain.from_iterable(summary.order_doubts for summary in placing))
        ),
    )


def _find_sites_with_unknown_capacity(plan: Plan) -> frozenset[str]:
    """Return the ids of the sites whose spare capacity missing data may change."""
    ledger = plan.ledger
    site_ids = {row.site_id for row in plan.site_records.capacity}
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
    for row in plan.site_records.capacity:
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
    conditions = {
        (row.site, cluster): condition
        for row in plan.site_records.capacity
        if row.after is not None
        for cluster, condition in row.after.surge_conditions
    }
    return tuple(
        SurgeVerdict(
            site, cluster, result, conditions.get((site, cluster), "") if result == _UNKNOWN else ""
        )
        for (site, cluster), result in results.items()
    )


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
    for upgrade in plan.impact.upgrades:
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
        placed=count_objects_with_effects(counts, Effect.PLACED),
        recreated=count_objects_with_effects(counts, Effect.RECREATED),
        moved=count_objects_with_effects(counts, Effect.MOVED, Effect.UNPLACED),
        removed=count_objects_with_effects(counts, *REMOVAL_EFFECTS),
        forgotten=count_objects_with_effects(counts, Effect.FORGOTTEN),
        host_lost=count_objects_with_effects(counts, Effect.LOST) + plan.lost_unmanaged_count,
        max_down=max(down.values(), default=0),
        drains=_build_drains(plan, interrupted_vms),
        stopped=len(select_stopped_vms(plan.impact.machine_actions)),
        max_stopped=_count_most_stopped_vms(plan.impact.machine_actions),
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
    if not interrupted_vms and not plan.impact.upgrades:
        return None
    from nexusform.plans.impact.drain_schedule import build_drain_schedule

    return build_drain_schedule(plan, interrupted_vms)


def _select_interrupted_vms(plan: Plan) -> Iterable[PlacementChange]:
    """Yield the interrupted VMs, without those re-created pool by pool.

    The VMs of a cluster that is created again under another name or address are interrupted, too.
    """
    pools = list_upgrade_pools(plan)
    created_again = {
        consequence.address
        for consequence in plan.impact.consequences
        if consequence.kind is ConsequenceKind.REPLACED
    }
    for row in plan.placements:
        if row.kind != VM or is_upgrade_row(row, pools):
            continue
        effect = compute_effect(row)
        is_replaced = row.trigger == _CLUSTER_REPLACED or str(row.address) in created_again
        if effect in DISRUPTIVE_EFFECTS or (effect is Effect.REMOVED and is_replaced):
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
                causes[row.doubt or "ties"] += 1
    tables = [table for table in plan.figures.placement_tables if table.placed]
    placed_sites = {table.site_id for table in tables}
    return PlacementConfidenceSummary(
        vms=plan.placed_vms,
        exact_rack_counts=sum(table.racks_certain for table in plan.figures.placement_tables),
        exact_machines=sum(table.machines_certain for table in plan.figures.placement_tables),
        pods=pod_count,
        certain_pods=pod_count - causes.total(),
        doubts=dict(causes.most_common()),
        uncertain_rollouts=tuple(
            rollout.cause
            for rollout in plan.workloads.rollouts
            if rollout.previous_snapshot is not None
        ),
        platforms=tuple(sorted({table.platform or "Azure" for table in tables})),
        is_decided=is_fully_decided(tables),
        samples=plan.figures.samples,
        has_enough_samples=has_enough_samples(plan),
        has_fewer_samples_by_default=has_default_of_fewer_samples(plan),
        lacks_data=plan.ledger.select_sites(placed_sites).lacks_capacity_data,
        verifications=tuple(_list_verifications(plan)),
        order_doubts=tuple(dict.fromkeys(table.doubt for table in tables if table.doubt)),
    )


def _list_verifications(plan: Plan) -> Iterable[RuleVerification]:
    """Yield the verification of the placement rule for each site of placed VMs that it places.

    VMs of other platforms, and decided ones, do not depend on the rule.
    """
    # A site's id is its name.
    sites = dict.fromkeys(
        table.site_id
        for table in plan.figures.placement_tables
        if table.placed and not table.platform and table.provenance != "decided"
    )
    scores = {score.site: score for score in plan.figures.prediction_scores if score.verified_count}
    for site in sites:
        score = scores.get(site)
        yield (
            RuleVerification(site)
            if score is None
            else RuleVerification(site, score.date, score.hits, score.verified_count)
        )
