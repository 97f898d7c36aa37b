"""Decision block of a plan: the same lines in text, comment and page.

They are at the end of the text, and at the top of comment and page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, select_errors
from nexusform.diagnostics.name_ranges import format_names, format_part_names
from nexusform.diagnostics.phrases import (
    compute_natural_sort_key,
    enclose,
    format_count,
    format_first_items,
    format_list,
    group_by,
    join_texts,
    select_word_form,
)
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placement_kinds.registry import KINDS
from nexusform.placements.consequence_record import Consequence
from nexusform.plans.impact.consequence_texts import describe_objects, describe_risks
from nexusform.plans.impact.consequence_views import (
    list_destroyed_objects,
    list_replaced_objects,
    list_unnamed_risks,
)
from nexusform.plans.impact.decision_figures import (
    INSUFFICIENT,
    SUFFICIENT,
    ImpactSummary,
    PlacementConfidenceSummary,
    PlanDecisionSummary,
    SpareCapacitySummary,
    SurgeVerdict,
    build_decision,
)
from nexusform.plans.impact.guard_rails import GUARD_RAIL, count_unpredicted_resources, format_limit
from nexusform.plans.impact.object_effects import (
    LOSS_EFFECTS,
    Effect,
    EffectCount,
    count_content_effects,
    count_effects,
    describe_lost_vms,
    format_effect_clauses,
    format_kind_counts,
    select_rows_outside_upgrades,
)
from nexusform.plans.plan import Action, PlacementAction, PlacementChange, Plan, Reversal
from nexusform.plans.plan_checks import GuardRailOutcome, GuardRailResult, ProgramCheck
from nexusform.rendering.report.placement_rows import list_vm_rows, select_vm_rows
from nexusform.scheduling.racks.vms import Interval

# Of the line that Atlantis and tfcmt search for.
COUNT_LABEL: Final = "Plan"
_MACHINE: Final = "nexus_bare_metal_machine"
_MAX_SITES: Final = 6
_MAX_ERRORS: Final = 3
# Limit of destroyed or replaced objects.
_MAX_OBJECTS: Final = 5
_MAX_NAMES: Final = 3
_MAX_RISKS: Final = 20
_SECONDS_PER_MINUTE: Final = 60
_MINUTES_PER_HOUR: Final = 60


class DecisionLine(Struct, frozen=True):
    """One line of the block, or several below one label."""

    label: str
    texts: tuple[str, ...]


def build_decision_lines(plan: Plan) -> tuple[DecisionLine, ...]:
    """Return the lines of the decision block of a plan.

    A failed plan has only its errors, changes made outside and guard rails.
    """
    if plan.errored:
        errors = format_count(len(select_errors(plan.diagnostics)), "error")
        failure = DecisionLine("Plan failed", (f"{errors}. No changes were made.",))
        guard_rails = _describe_plan_limits(plan) if plan.verdicts.guard_rails else ()
        further_lines = (
            DecisionLine("Changed outside", tuple(_describe_outside_changes(plan))),
            DecisionLine("Guard rails", guard_rails),
            DecisionLine("Next", (describe_merge(plan),)),
        )
        return (failure, *(line for line in further_lines if any(line.texts)))
    decision = build_decision(plan)
    # Not to be repeated as a risk.
    losses_in_impact = describe_lost_vms(plan)
    risks = [risk for risk in list_unnamed_risks(plan.impact) if risk.text not in losses_in_impact]
    partial_text = ""
    if plan.options.targets or plan.options.excludes:
        option = "-target" if plan.options.targets else "-exclude"
        changed = format_count(len(plan.changes) - plan.count(Action.NO_OP), "changed resource")
        partial_text = f"({option}): {changed}; others were not planned"
    lines = (
        DecisionLine("Partial plan", (partial_text,)),
        DecisionLine("Changed outside", tuple(_describe_outside_changes(plan))),
        DecisionLine("Destroys", tuple(_describe_objects(list_destroyed_objects(plan.impact)))),
        DecisionLine("Replaces", tuple(_describe_objects(list_replaced_objects(plan.impact)))),
        DecisionLine(
            "Impact",
            (
                describe_impact(collect_impact(plan), decision.impact),
                *_describe_drains(decision.impact),
                *_describe_changed_clusters(plan),
            ),
        ),
        DecisionLine("Overrides", tuple(_describe_overrides(plan))),
        DecisionLine("Risk", tuple(limit_risks(describe_risks(risks)))),
        DecisionLine("Blocked", tuple(list_blocking_reasons(plan))),
        DecisionLine("Capacity", tuple(describe_spare_capacity(decision.capacity))),
        DecisionLine("Upgrades", (describe_upgrade_capacity(decision),)),
        DecisionLine("Confidence", tuple(_describe_confidence(plan, decision.confidence))),
        DecisionLine("Not read", (plan.ledger.describe(),)),
        DecisionLine("Guard rails", _describe_plan_limits(plan)),
        *_build_previous_plan_line(plan),
        DecisionLine("Checked by", tuple(map(_describe_program_check, plan.verdicts.checks_by))),
        DecisionLine("Next", (describe_merge(plan),)),
    )
    return tuple(line for line in lines if any(line.texts))


def _describe_outside_changes(plan: Plan) -> Iterator[str]:
    """Yield what others changed since the last apply, and what a merge does to it.

    An example is `oslo-lab was deleted; a merge creates it again`. Equal changes share a text.
    """
    groups = group_by(
        plan.impact.outside_changes, lambda change: (change.reversal, change.arguments)
    )
    texts = []
    for (reversal, arguments), changes in groups.items():
        count = len(changes)
        names = format_names(change.name for change in changes)
        clause = f"{names} {select_word_form(count, 'was', 'were')} deleted"
        consequence = f"creates {select_word_form(count, 'it', 'them')} again"
        if reversal is Reversal.SETS_BACK:
            each = "" if count == 1 else " each"
            clause = f"{names}{each}: {format_first_items(arguments, _MAX_NAMES)}"
            consequence = f"sets {select_word_form(len(arguments), 'it', 'them')} back"
        subject = "the configuration" if plan.errored else "a merge"
        texts.append((f"{clause}; {subject} {consequence}", count))
    yield from _limit_texts(texts, _MAX_OBJECTS, "more object")


def list_named_lines(plan: Plan) -> tuple[DecisionLine, ...]:
    """Return the texts of the block that do not add up over plans, but name what they concern.

    Destroyed and replaced objects and risks are not among them: they are consequences.
    """
    outside = DecisionLine("Changed outside", tuple(_describe_outside_changes(plan)))
    if plan.errored:
        return (outside,) if outside.texts else ()
    decision = build_decision(plan)
    impact = collect_impact(plan)
    lines = (
        outside,
        DecisionLine(
            "Impact", (*impact.upgrades, *impact.losses, *_describe_drains(decision.impact))
        ),
        DecisionLine("Overrides", tuple(_describe_overrides(plan))),
        DecisionLine(
            "Confidence",
            (
                *_describe_further_confidence(plan),
                *_describe_binding_confidence(plan, decision.confidence),
            ),
        ),
        DecisionLine("Not read", (plan.ledger.describe(),)),
        DecisionLine("Checked by", tuple(map(_describe_program_check, plan.verdicts.checks_by))),
    )
    return tuple(line for line in lines if any(line.texts))


def limit_risks(sentences: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Yield the first sentences, and the number of the risks of the others."""
    return _limit_texts(sentences, _MAX_RISKS, "more risk")


def _describe_objects(objects: Sequence[Consequence]) -> Iterator[str]:
    """Yield the first objects with what runs on them, and the number of the others.

    Equal objects share a text if there are many.
    """
    titles = [(ended.title, 1) for ended in objects]
    if len(titles) > _MAX_OBJECTS:
        titles = describe_objects(objects)
    return limit_objects(titles)


def limit_objects(titles: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Yield the first titles, and the number of the objects of the others."""
    return _limit_texts(titles, _MAX_OBJECTS, "more object")


def _limit_texts(texts: Sequence[tuple[str, int]], maximum: int, noun: str) -> Iterator[str]:
    for text, _ in texts[:maximum]:
        yield text
    hidden_count = sum(count for _, count in texts[maximum:])
    if hidden_count:
        yield format_count(hidden_count, noun)


def _describe_content_losses(plan: Plan) -> list[str]:
    if not plan.workloads.content_changes:
        return []
    from nexusform.rendering.report.content_losses import describe_content_losses

    return describe_content_losses(plan)


def _describe_overrides(plan: Plan) -> Iterator[str]:
    """Yield a clause per value that an override changes on clusters."""
    if plan.workloads.content_changes:
        from nexusform.rendering.report.content_losses import describe_overridden_values

        yield from describe_overridden_values(plan)


def select_unnamed_rows(plan: Plan) -> list[PlacementChange]:
    """Return the rows outside of upgrades, without placements that leave clusters.

    Their names are in clauses of their own.
    """
    rows = list(select_rows_outside_upgrades(plan))
    if not any(KINDS[row.kind].by_resource for row in rows):
        return rows
    from nexusform.rendering.report.content_losses import list_departures

    departures = {(record.address, *record.where) for record in list_departures(plan)}
    return [
        row
        for row in rows
        if not (KINDS[row.kind].by_resource and (str(row.address), row.object) in departures)
    ]


def describe_left_clusters(plan: Plan) -> list[str]:
    """Return a clause per cluster that a placement leaves; [] for a plan without placements."""
    if not any(KINDS[row.kind].by_resource for row in plan.placements):
        return []
    from nexusform.rendering.report.content_losses import describe_departures

    return describe_departures(plan)


_VERBS: Final[Mapping[Effect, str]] = {
    Effect.PLACED: "to place",
    Effect.MOVED: "to move",
    Effect.RECREATED: "to re-create in place",
    Effect.REMOVED: "to remove",
    Effect.FORGOTTEN: "to forget",
}


class ImpactParts(Struct, frozen=True):
    """Parts of the line on the impact of a plan.

    `counts` are objects outside of upgrades, `waiting` those without a place. `upgrades` and
    `losses` are clauses with names, before and after the numbers. `clusters` is the number of
    clusters with changed VMs. `cordons` are clauses on machines to cordon.
    """

    counts: tuple[EffectCount, ...] = ()
    waiting: tuple[EffectCount, ...] = ()
    upgrades: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    unpredicted: int = 0
    clusters: int = 0
    has_upgrades: bool = False
    cordons: tuple[str, ...] = ()


def collect_impact(plan: Plan) -> ImpactParts:
    """Return the numbers and clauses of the line on the impact of a plan."""
    counts = count_content_effects(
        count_effects(select_unnamed_rows(plan)), plan.workloads.content_changes
    )
    clusters = {(row.site_id, row.cluster) for row in list_vm_rows(plan)}
    return ImpactParts(
        counts=counts,
        waiting=tuple(
            row for row in count_effects(plan.placements) if row.effect is Effect.WAITING
        ),
        upgrades=(*_describe_upgraded(plan), *describe_left_clusters(plan)),
        losses=(*describe_lost_vms(plan), *_describe_content_losses(plan)),
        unpredicted=count_unpredicted_resources(plan),
        clusters=len(clusters),
        has_upgrades=bool(plan.impact.upgrades),
        cordons=tuple(_describe_cordons(plan)),
    )


def describe_impact(parts: ImpactParts, figures: ImpactSummary) -> str:
    """Return the impact of a plan in one line.

    An example is `3 VMs to move (re-created), at most 1 down at a time; 2 pods wait`. Clauses about
    running objects share a part. Stopped and waiting objects follow, each after a semicolon. Other
    lines name destroyed and replaced objects.
    """
    clauses = [*parts.upgrades, *describe_effects(parts.counts, LOSS_EFFECTS), *parts.losses]
    # One at most.
    stop_clauses: list[str] = []
    if figures.stopped:
        stopped = format_count(figures.stopped, "VM")
        stop_clauses.append(
            f"{stopped} to stop for machine actions, at most {figures.max_stopped:,} at a time"
        )
    # No other running object is affected: move the clause on stopped VMs, if any, to the front.
    if not clauses:
        scope = " by the predicted changes" if parts.unpredicted else ""
        clauses = stop_clauses or [f"no running workload affected{scope}"]
        stop_clauses = []
    elif figures.max_down:
        scope = " per cluster" if parts.clusters > 1 else ""
        clauses.append(f"at most {figures.max_down:,} down at a time{scope}")
    elif parts.has_upgrades:
        # Each pool creates new VMs before it drains old ones.
        clauses.append("capacity never drops")
    further_clauses = [
        *stop_clauses,
        *parts.cordons,
        *format_effect_clauses(parts.waiting, [Effect.WAITING]),
    ]
    if parts.unpredicted:
        further_clauses.append(f"{format_count(parts.unpredicted, 'resource')} not predicted")
    return "; ".join([", ".join(clauses), *further_clauses])


def _describe_cordons(plan: Plan) -> Iterator[str]:
    """Yield one clause on cordoned machines: `2 machines to cordon, their 3 VMs stay`."""
    cordoned = {
        action.address: (action.site_id, action.machine)
        for action in plan.impact.machine_actions
        if not action.is_disruptive
    }
    for change in plan.changes:
        before = change.before or {}
        after = change.after or {}
        if change.address.type == _MACHINE and after.get("cordoned") and not before.get("cordoned"):
            site_id, *_, machine = change.id.split("/")
            cordoned[change.address] = (site_id, machine)
    if not cordoned:
        return
    machines = set(cordoned.values())
    staying = 0
    for site in plan.site_records.sites:
        placements = [vm.placement for pool in site.pools for vm in pool.after]
        placements += [vm.placement for vm in site.unmanaged_vms]
        staying += sum((site.id, placement.machine) in machines for placement in placements)
    machine_text = f"{format_count(len(machines), 'machine')} to cordon"
    owner = select_word_form(len(machines), "its", "their")
    verb = select_word_form(staying, "stays", "stay")
    vms = f"{owner} {format_count(staying, 'VM')} {verb}" if staying else "no VM runs there"
    yield f"{machine_text}, {vms}"


def describe_merge(plan: Plan) -> str:
    """Return what a merge of the change does, and when the plan expires.

    An example is `a merge applies this plan; it expires 2026-11-28 20:15 UTC`. Return "" if the
    pipeline does not say what a merge does.
    """
    step = plan.basis.after_merge
    if not step:
        return ""
    if plan.is_rejected:
        return "a merge applies nothing: this plan cannot be applied"
    if step == "none":
        return "a merge applies nothing"
    if not plan.has_changes:
        return "a merge changes nothing"
    if plan.basis.is_external:
        # The other tool knows when its plan expires.
        return "a merge applies the predicted changes"
    wave = step.removeprefix("wave:")
    subject = "this plan" if step == wave else f"wave {wave} of this plan"
    return f"a merge applies {subject}; {describe_expiry(plan.start.timestamp, plan.basis.max_age)}"


def describe_expiry(timestamp: str, max_age: float) -> str:
    """Return when a plan expires, by its timestamp and maximum age in seconds (0 for none)."""
    if not (max_age and timestamp):
        return "it does not expire"
    end = datetime.fromisoformat(timestamp) + timedelta(seconds=max_age)
    return f"it expires {end.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


# What drains at a time.
_PLURALS: Final = {"node": "nodes", "batch": "batches"}


def _describe_drains(impact: ImpactSummary) -> Iterator[str]:
    """Yield a clause on the longest drains; nothing without drains.

    An example is `drains take up to 8 h if every drain times out (4 clusters one after another, 2 h
    each at most; drain_timeout 30 min x 4 nodes)`. The clusters are those on the longest path of
    the apply. If all clusters drain at the same time, only the total is shown.
    """
    schedule = impact.drains
    if schedule is None:
        return
    longest = schedule.longest
    timeouts = ", ".join(
        f"{_format_minutes(equal.timeout)} x {format_count(equal.count, equal.noun, plural)}"
        for equal in longest.drains
        for plural in (_PLURALS[equal.noun],)
    )
    total = _format_minutes(schedule.seconds)
    durations = {cluster.seconds for cluster in schedule.clusters}
    scope = f"of {longest.cluster}: " if len(durations) > 1 else ""
    path = ""
    if schedule.path_length > 1:
        path = (
            f"{schedule.path_length:,} of {len(schedule.clusters):,} clusters one after another, "
            f"up to {_format_minutes(longest.seconds)} each; "
        )
    yield (
        f"drains take up to {total} if every drain times out "
        f"({path}{scope}drain_timeout {timeouts})"
    )


def _format_minutes(seconds: int) -> str:
    """Format seconds as `30 min`, `1.5 h` or `36 h`, rounded up."""
    minutes = -(-seconds // _SECONDS_PER_MINUTE)
    if minutes < _MINUTES_PER_HOUR:
        return f"{minutes} min"
    tenths = -(-minutes * 10 // _MINUTES_PER_HOUR)
    return f"{tenths / 10:,.1f}".removesuffix(".0") + " h"


_MIN_CLUSTERS: Final = 16
_MAX_CLUSTERS: Final = 3
_CHANGES: Final = tuple(action for action in PlacementAction if action is not PlacementAction.KEEP)


def _describe_changed_clusters(plan: Plan) -> Iterator[str]:
    """Yield one clause on the clusters of changed VMs: `new VMs in 3 of 40 clusters: a, b, c`.

    Yield nothing without changed VMs, or on sites with few clusters, because the list of changes
    has their names.
    """
    total = len(
        {(site.id, pool.cluster) for site in plan.site_records.sites for pool in site.pools}
    )
    rows = select_vm_rows(plan, *_CHANGES)
    # The changes name few clusters.
    if not rows or total <= _MIN_CLUSTERS:
        return
    changed = {(row.site_id, row.cluster) for row in rows}
    has_only_new_vms = {row.action for row in rows} == {PlacementAction.PLACE}
    verb = "new VMs" if has_only_new_vms else "VMs change"
    if len(changed) == total:
        yield f"{verb} in all {total:,} clusters"
    else:
        names = format_names(
            sorted({cluster for _, cluster in changed}, key=compute_natural_sort_key), _MAX_CLUSTERS
        )
        yield f"{verb} in {len(changed):,} of {total:,} clusters: {names}"


def _describe_upgraded(plan: Plan) -> list[str]:
    """Return a clause about the nodes re-created by upgrades of clusters; [] without any."""
    count = sum(upgrade.vms for upgrade in plan.impact.upgrades)
    if not count:
        return []
    from nexusform.rendering.report.upgrade_sentences import describe_upgrades

    return [
        (
            f"{format_count(count, 'VM')} to re-create "
            f"({format_list(describe_upgrades(plan.impact.upgrades))})"
        )
    ]


def describe_effects(counts: Sequence[EffectCount], effects: Iterable[Effect]) -> list[str]:
    """Return a clause per effect with objects: `3 VMs and 2 pods to move (re-created)`."""
    rows_by_effect = group_by(counts, lambda row: row.effect)
    clauses: list[str] = []
    for effect in effects:
        rows = rows_by_effect.get(effect)
        if not rows:
            continue
        if effect in _VERBS:
            clauses.append(_format_effect_clause(effect, rows))
        else:
            # UNPLACED or LOST: the objects lose their host.
            clauses += format_effect_clauses(rows, [effect])
    return clauses


def _format_effect_clause(effect: Effect, rows: Iterable[EffectCount]) -> str:
    """Format the numbers of objects by kind with the verb of their common effect.

    An example is `3 VMs and 2 pods to move (re-created)`. A note follows if the verb
    alone may mislead.
    """
    totals: Counter[str] = Counter()
    for row in rows:
        totals[row.kind] += row.count
    subjects = format_kind_counts(totals)
    note = ""
    if effect is Effect.FORGOTTEN:
        note = f" ({select_word_form(totals.total(), 'it keeps', 'they keep')} running, unmanaged)"
    elif effect is Effect.MOVED and VM in totals:
        note = " (re-created)"
    return f"{subjects} {_VERBS[effect]}{note}"


def describe_spare_capacity(rows: Sequence[SpareCapacitySummary]) -> Iterator[str]:
    """Yield `lab 46 -> 43 x NC_P46_224_v1 (37 -> 34 with one rack down)` per changed site.

    Equal sites share a line. Further lines count the sites beyond _MAX_SITES lines and the
    unchanged ones. If none changes, yield all.
    """
    rows_by_change = group_by(rows, lambda row: row.is_changed)
    listed_rows = rows_by_change.get(True, rows)
    groups = list(group_by(listed_rows, _format_capacity_figures).items())
    for text, equal_rows in groups[:_MAX_SITES]:
        names = format_names(row.site for row in equal_rows)
        # The figures are not a sum over the sites.
        yield f"{names} {text}" if len(equal_rows) == 1 else f"{names}: each {text}"
    hidden_count = sum(len(equal_rows) for _, equal_rows in groups[_MAX_SITES:])
    if hidden_count:
        yield f"{format_count(hidden_count, 'more site')} with other figures"
    if len(listed_rows) < len(rows):
        yield f"other {format_count(len(rows) - len(listed_rows), 'site')} unchanged"


def _format_capacity_figures(row: SpareCapacitySummary) -> str:
    """Format capacity before and after, or one figure each if unchanged.

    An example is `46 -> 43 x NC_P46_224_v1 (37 -> 34 with one rack down)`.
    """
    free = _format_figure_change(row.before, row.after)
    rack_down = _format_figure_change(row.rack_down_before, row.rack_down_after)
    text = f"{free} x {row.vm_sku_name} ({rack_down} with one rack down)"
    return f"at most {text}; data is missing" if row.lacks_data else text


def _format_figure_change(before: Interval | None, after: Interval) -> str:
    """Format `46 -> 43`; `43` if the figure is unchanged, or the site is new (no figure before)."""
    if before is None or before == after:
        return _format_amount(after)
    return f"{_format_amount(before)} -> {_format_amount(after)}"


def _format_amount(count: Interval) -> str:
    """Format a count, or its bounds if not exact."""
    if count.is_exact:
        return f"{count.minimum:,}"
    return (
        f"{count.minimum:,} or {count.maximum:,}"
        if count.maximum == count.minimum + 1
        else f"{count}"
    )


def describe_upgrade_capacity(decision: PlanDecisionSummary) -> str:
    """Return `surge capacity for every cluster`, or the clusters without it.

    An example is `no surge capacity for cluster-d; ...`. Next are clusters with unknown capacity,
    the cause, and the number of the others. Return "" without upgrades.
    """
    has_several_sites = len({upgrade.site for upgrade in decision.upgrades}) > 1

    def format_cluster(verdict: SurgeVerdict) -> str:
        return f"{verdict.site}/{verdict.cluster}" if has_several_sites else verdict.cluster

    # Of clusters, by result of the upgrade.
    names: dict[str, list[str]] = {}
    for upgrade in decision.upgrades:
        names.setdefault(upgrade.result, []).append(format_cluster(upgrade))
    if names.keys() == {SUFFICIENT}:
        return "surge capacity for every cluster"
    insufficient = names.get(INSUFFICIENT, [])
    sufficient = names.get(SUFFICIENT, [])
    # The only other result, by its cause.
    unknown: dict[str, list[str]] = {}
    incomplete_sites = {row.site for row in decision.capacity if row.lacks_data}
    for upgrade in decision.upgrades:
        if upgrade.result in {SUFFICIENT, INSUFFICIENT}:
            continue
        if upgrade.site in incomplete_sites:
            cause = "data is missing"
        elif upgrade.condition:
            cause = upgrade.condition
        elif decision.has_chosen_removals:
            cause = "it depends on the VMs that Azure removes"
        else:
            cause = "NUMA use unknown"
        unknown.setdefault(cause, []).append(format_cluster(upgrade))
    clauses = (
        enclose("no surge capacity for ", format_names(insufficient)),
        *(
            enclose("surge capacity unknown for ", format_names(clusters), f" ({cause})")
            for cause, clusters in unknown.items()
        ),
        f"sufficient for the other {len(sufficient):,}" if sufficient else "",
    )
    return join_texts(clauses, "; ")


def _describe_confidence(plan: Plan, figures: PlacementConfidenceSummary) -> Iterator[str]:
    """Yield clauses on the certainty of the predictions.

    An example is `rack counts exact for 168 of 215 VMs if the placement rule holds (not verified on
    lab: ...)`. Then yield what Azure chooses of removed VMs, the missing data, and the number of
    certain pods with the assumptions others depend on.
    """
    yield from describe_vm_confidence(figures)
    yield from _describe_further_confidence(plan)
    yield from describe_pod_confidence(figures)
    yield from _describe_binding_confidence(plan, figures)


def _describe_further_confidence(plan: Plan) -> Iterator[str]:
    """Yield clauses on removed VMs that Azure chooses, and on missing data."""
    yield from _describe_removal_confidence(plan)
    if plan.observed.missing_data:
        yield f"no data on {', '.join(plan.observed.missing_data)}"


def describe_pod_confidence(figures: PlacementConfidenceSummary) -> Iterator[str]:
    """Yield a clause on the certain pods, and the assumptions that the others depend on."""
    if figures.pods:
        text = (
            f"{figures.certain_pods:,} of {figures.pods:,} "
            f"{select_word_form(figures.pods, 'pod')} certain"
        )
        # `2 depend on a`, `1 on b`: only the first one has a verb.
        doubts: list[str] = []
        for assumption, count in figures.doubts.items():
            verb = "" if doubts else f" {select_word_form(count, 'depends', 'depend')}"
            doubts.append(f"{count:,}{verb} on {assumption}")
        yield join_texts((text, ", ".join(doubts)), "; ")


def _describe_binding_confidence(plan: Plan, figures: PlacementConfidenceSummary) -> Iterator[str]:
    """Yield clauses on the certainty of changed bindings, and of the content of rollouts."""
    # Of rollouts that may distribute the previous content.
    uncertain_bindings = {
        (rollout.address, cluster)
        for rollout in plan.workloads.rollouts
        if rollout.previous_snapshot is not None
        for step in rollout.steps
        for cluster in step.clusters
    }
    changed_rows = [
        row
        for row in plan.placements
        if KINDS[row.kind].by_resource
        and row.action in _CHANGES
        and (row.address, row.object) not in uncertain_bindings
    ]
    assumptions = Counter(row.doubt for row in changed_rows if row.doubt)
    kept_assumptions = Counter(
        row.doubt
        for row in plan.placements
        if row.action is PlacementAction.KEEP and KINDS[row.kind].by_resource and row.doubt
    )
    for noun, counts in (("changed binding", assumptions), ("kept binding", kept_assumptions)):
        for assumption, count in counts.items():
            verb = select_word_form(count, "depends", "depend")
            yield f"{format_count(count, noun)} {verb} on {assumption}"
    changed_bindings = len(changed_rows) - assumptions.total()
    if changed_bindings:
        yield (
            f"{format_count(changed_bindings, 'changed binding')} exact unless members change "
            "meanwhile"
        )
    if figures.uncertain_rollouts:
        count = len(figures.uncertain_rollouts)
        yield (
            f"content of {format_names(figures.uncertain_rollouts)} uncertain: new, or the "
            f"previous one if the hub collects changes when {select_word_form(count, 'it', 'they')}"
            f" {select_word_form(count, 'starts', 'start')}"
        )


def describe_vm_confidence(figures: PlacementConfidenceSummary) -> Iterator[str]:
    """Yield a clause on the certainty of the predicted locations of placed VMs.

    Yield nothing without such VMs. A rack count is exact if the pool has the same number of VMs on
    the rack in every sample; a machine if it is the same in every one.
    """
    # Numbers of VMs.
    placed = figures.vms
    rack_known = figures.exact_rack_counts
    machine_known = figures.exact_machines
    if not placed:
        return
    platforms = figures.platforms
    chooser = f"{' and '.join(platforms)} {select_word_form(len(platforms), 'picks', 'pick')}"
    if figures.is_decided:
        share = "" if machine_known == placed else f" for {machine_known:,} of {placed:,} VMs"
        yield f"exact{share}, if Tacker takes every location from the grants of nexusform"
        return
    if not figures.has_enough_samples:
        is_default = not figures.samples and figures.has_fewer_samples_by_default
        yield (
            "not computed for so many VMs; -samples=100 computes it"
            if is_default
            else f"not computed (-samples={figures.samples})"
        )
        return
    # Fewer samples may miss a rack or machine.
    drawn = f"; {figures.samples:,} samples" if figures.has_fewer_samples_by_default else ""
    untried = "".join(f"; {doubt}" for doubt in figures.order_doubts)
    if not rack_known:
        missing = "; data is missing" if figures.lacks_data else ""
        yield f"low; {chooser} rack and machine{missing}{untried}{drawn}"
    else:
        # Never `all 1` or `all 2`.
        is_all = rack_known == placed and placed > 2
        share = f"all {placed:,}" if is_all else f"{rack_known:,} of {placed:,}"
        counts = f"rack counts exact for {share} {select_word_form(placed, 'VM')}"
        rule = _describe_rule_verification(figures)
        if not machine_known:
            yield f"{counts}{rule}; {chooser} the machines{untried}{drawn}"
        elif machine_known == placed:
            yield f"{counts}, machines too{rule}{drawn}"
        else:
            yield f"{counts}, machines for {machine_known:,}{rule}; {chooser} the others{drawn}"


def _describe_rule_verification(figures: PlacementConfidenceSummary) -> str:
    """Return whether the placement rule was compared with the sites of placed VMs.

    Examples are ` if the placement rule holds (not verified on lab: nexusform reconcile
    -replay)` and ` (rule verified on lab 2026-11-20: 209 of 215 VMs)`. Return "" without sites that
    depend on the rule.
    """
    unverified = [row.site for row in figures.verifications if not row.verified_count]
    verified = [row for row in figures.verifications if row.verified_count]
    clauses = [
        f"rule verified on {join_texts((row.site, row.date), ' ')}: {row.hits:,} of "
        f"{format_count(row.verified_count, 'VM')}"
        for row in verified[:_MAX_NAMES]
    ]
    if unverified:
        names = format_first_items(unverified, _MAX_NAMES)
        clauses.append(f"not verified on {names}: nexusform reconcile -replay")
    condition = " if the placement rule holds" if unverified else ""
    return f"{condition}{enclose(' (', '; '.join(clauses), ')')}"


def _describe_removal_confidence(plan: Plan) -> Iterator[str]:
    """Yield a clause on the removed VMs that Azure chooses.

    A plan that only removes other VMs is exact.
    """
    removed = select_vm_rows(plan, PlacementAction.REMOVE)
    chosen_by_azure = [row for row in removed if row.chosen_by]
    if chosen_by_azure:
        count = len(chosen_by_azure)
        subject = select_word_form(count, "VM it removes", "VMs it removes")
        clusters = group_by(chosen_by_azure, lambda row: row.pool)
        pools = format_first_items(
            [
                format_part_names([row.cluster for row in rows], pool)
                for pool, rows in clusters.items()
            ],
            _MAX_NAMES,
        )
        # New VMs of the site depend on the choice.
        sites = {row.site_id for row in chosen_by_azure}
        consequence = (
            "the new VMs and the capacity are one possibility"
            if any(
                table.placed and table.site_id in sites for table in plan.figures.placement_tables
            )
            else "racks and capacity after it are ranges"
        )
        yield f"Azure chooses which {count:,} {subject} ({pools}): {consequence}"
    elif removed and not plan.placed_vms:
        yield "exact; the configuration names every removed VM"


_GUARD_RAIL_VERBS: Final = {
    GuardRailOutcome.BLOCKED: "BLOCKED by",
    GuardRailOutcome.UNKNOWN: "BLOCKED, unknown:",
    GuardRailOutcome.REVIEW: "REVIEW needed by",
}


def _describe_plan_limits(plan: Plan) -> tuple[str, ...]:
    """Return the clauses on the limits of one plan, or of a predicted change."""
    command = "predict" if plan.basis.is_external else "plan"
    return tuple(describe_guard_rails(plan.verdicts.guard_rails, f"nexusform {command} -details"))


def describe_guard_rails(results: Sequence[GuardRailResult], command: str) -> Iterator[str]:
    """Yield a clause for each limit that blocks the plan or asks for a review.

    A limit with an unknown result blocks it, too. Limits with one reason share a clause. Then yield
    one clause for the others: `passed moved:5, capacity:5`. Without limits yield `none set`.
    `command` lists the objects.
    """
    if not results:
        yield "none set"
    limits = group_by(results, lambda result: (result.result, result.reason))
    passed = []
    for (outcome, reason), equal_results in limits.items():
        names = ", ".join(format_limit(result.name, result.limit) for result in equal_results)
        if outcome == GuardRailOutcome.PASSED:
            passed.append(names)
        else:
            yield f"{_GUARD_RAIL_VERBS[outcome]} {names}: {reason}"
    if passed:
        yield f"passed {', '.join(passed)}"
    if any(result.result == GuardRailOutcome.BLOCKED for result in results):
        yield (f"to go on: {command} lists the objects; whoever sets -fail-on may raise the limit")


def _describe_program_check(check: ProgramCheck) -> str:
    """Return `kube-scheduler 1.34.4: 412 of 412 pods`, with readers, differences and gaps."""
    readers = f" (requests built by {format_list(check.readers, 3)})" if check.readers else ""
    text = (
        f"{check.program} {check.version}{readers}: {check.checked:,} of "
        f"{format_count(check.total, check.noun)}"
    )
    if check.differences:
        text += f", {format_count(len(check.differences), 'difference')}"
    return text + enclose("; not checked: ", format_list(check.not_checked))


def _build_previous_plan_line(plan: Plan) -> list[DecisionLine]:
    """Return the line with the differences to an earlier plan.

    An example is `Since 0123abc: 2 fewer moves; other placement of web-1`. Return [] without
    an earlier plan.
    """
    since = plan.verdicts.since
    if since is None:
        return []
    # Name the objects unless the differences of moves and removals explain all of them.
    has_uncounted_objects = len(since.objects) != abs(since.moved) + abs(since.removed)
    objects = format_first_items(since.objects, _MAX_NAMES) if has_uncounted_objects else ""
    clauses = (
        enclose(
            "", _format_difference(since.moved), f" {select_word_form(abs(since.moved), 'move')}"
        ),
        enclose(
            "",
            _format_difference(since.removed),
            f" {select_word_form(abs(since.removed), 'removal')}",
        ),
        enclose("capacity for ", _format_capacity_differences(since.capacity_by_site)),
        enclose("", format_names(since.clusters_no_longer_affected), " no longer affected"),
        enclose("other placement of ", objects),
        enclose("other change of ", format_first_items(since.resources, _MAX_NAMES)),
    )
    others = (
        "other outputs, findings or figures" if since.has_other_differences else "no difference"
    )
    return [DecisionLine(f"Since {since.ref}", (join_texts(clauses, "; ") or others,))]


def _format_difference(difference: int) -> str:
    """Format the difference of a later and an earlier number: `2 fewer`, `2 more`, ""."""
    if not difference:
        return ""
    return f"{abs(difference):,} {'fewer' if difference < 0 else 'more'}"


def _format_capacity_differences(differences: Mapping[str, int]) -> str:
    """Format `2 fewer`; of several sites `2 fewer on lab, 3 more on par1`."""
    if len(differences) == 1:
        return _format_difference(*differences.values())
    texts = [f"{_format_difference(count)} on {site}" for site, count in differences.items()]
    return format_first_items(texts, _MAX_NAMES)


def list_blocking_reasons(plan: Plan) -> list[str]:
    """Return clauses about the separation rules and errors blocking the plan.

    Guard rails are left out.
    """
    if not plan.is_rejected:
        # Nothing blocks the plan, not even a violated rule.
        return []
    reasons = [f"by separation rule {rule}" for rule in list_blocking_rules(plan)]
    errors = list(select_own_errors(plan))
    if errors:
        error_count = "an error" if len(errors) == 1 else f"{len(errors):,} errors"
        titles = list(dict.fromkeys(map(format_title, errors)))
        reasons.append(f"by {error_count}: {format_first_items(titles, _MAX_ERRORS, '; ')}")
    return reasons


def select_own_errors(plan: Plan) -> Iterator[Diagnostic]:
    """Yield the errors of a plan, except violations of separation rules and guard rails.

    These violations are reported on their own.
    """
    broken_rules = list_blocking_rules(plan)
    for diagnostic in select_errors(plan.diagnostics):
        # A violation has its rule's address.
        if diagnostic.id != GUARD_RAIL and diagnostic.address not in broken_rules:
            yield diagnostic


def format_title(diagnostic: Diagnostic) -> str:
    """Format an error as a short title."""
    text = diagnostic.brief or diagnostic.summary
    # The title continues a sentence, so it starts in lower case unless with an abbreviation.
    return text if text[1:2].isupper() else f"{text[:1].lower()}{text[1:]}"


def list_blocking_rules(plan: Plan) -> list[str]:
    """Return the addresses of separation rules blocking the plan.

    They have `deny`, and are violated in the plan or a sample.
    """
    verdicts = [
        verdict
        for verdict in plan.verdicts.separation_verdicts
        if verdict.satisfied in ("sometimes", "never")
    ]
    return [str(verdict.address) for verdict in verdicts if verdict.enforcement == "deny"]
