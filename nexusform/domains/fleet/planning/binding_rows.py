"""Placement rows of fleet bindings, and rollout timelines."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.phrases import format_duration
from nexusform.domains.fleet.planning.fleet_snapshot import FleetMemberState
from nexusform.domains.fleet.planning.placement_plan import NO_ROLLOUT_STEP, PlacementPlan
from nexusform.domains.fleet.planning.placement_records import read_bindings
from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    BindingState,
    PlacementRequest,
    PlacementType,
    build_selected_decision,
    index_by_cluster,
    split_clusters,
)
from nexusform.domains.fleet.scheduling.rolling_update import RolloutWave
from nexusform.domains.fleet.scheduling.staged_update import RunStep, RunStepKind, StagedRunOutcome
from nexusform.domains.fleet.scheduling.watcher import (
    Trigger,
    find_member_observations,
    find_queue_trigger,
)
from nexusform.domains.pods.pod_kind import UNREACHABLE_MEMBERS
from nexusform.doubts.doubt import Doubt
from nexusform.planning.instances.instance import Instance
from nexusform.plans.plan import (
    FORGOTTEN_REASON,
    Action,
    PlacementAction,
    PlacementChange,
    Rollout,
    RolloutStep,
)
from nexusform.resources.address import Address
from nexusform.scheduling.placement_decision import Rejection

KIND: Final = "binding"
_MAX_NAMES: Final = 4
_UNREAD_HUB: Final = "data of the hub that were not read"
_UNREAD_CONTENT: Final = "content that was not captured"
UNREAD_MEMBERS: Final = "members that were not read"
_OBSERVED = "observed"
_PREDICTED = "predicted"
REAPPLIED_REASON: Final = (
    "the apply strategy changed: all clusters are updated at once, regardless of max_unavailable"
)
KEPT_REASONS: Final[Mapping[PlacementType, str]] = {
    PlacementType.PICK_N: "a fulfilled PickN is not re-evaluated",
    PlacementType.PICK_ALL: "a PickAll re-evaluates its bindings only if its policy changes",
    PlacementType.PICK_FIXED: "a PickFixed keeps its listed clusters",
}
NOT_MOVED_REASON: Final = "existing bindings are not rescheduled"
CHANGE_REASONS: Final[Mapping[Trigger, str]] = {
    Trigger.RESOURCES_CHANGED: "the selected resources changed",
    Trigger.OVERRIDES_CHANGED: "overrides changed",
}
TRIGGER_REASONS: Final[Mapping[Trigger, str]] = {
    Trigger.PLACEMENT_CREATED: "the placement is new",
    Trigger.POLICY_CHANGED: "the policy changed",
    Trigger.NUMBER_INCREASED: "number_of_clusters increased",
    Trigger.NUMBER_DECREASED: "number_of_clusters decreased",
    Trigger.CLUSTER_JOINED: "a cluster joined the fleet",
    Trigger.CLUSTER_BECAME_ELIGIBLE: "a cluster became eligible",
    Trigger.CLUSTER_LABELS_CHANGED: "a cluster's labels changed",
    Trigger.CLUSTER_PROPERTIES_CHANGED: "a cluster's properties changed",
    Trigger.TAINT_REMOVED: "a taint was removed from a cluster",
    Trigger.CLUSTER_LEFT: "a cluster left the fleet",
    Trigger.EVICTED: "an eviction was executed",
    Trigger.BINDING_DELETED: "a binding was deleted on the hub",
    Trigger.PLACEMENT_REMOVED: "the placement is removed",
    Trigger.RESOURCES_CHANGED: "the selected resources changed; nothing is rescheduled",
    Trigger.STRATEGY_CHANGED: "the rollout strategy changed; nothing is rescheduled",
    Trigger.OVERRIDES_CHANGED: "overrides changed; nothing is rescheduled",
    Trigger.STAGED_RUN: "a staged run rolls it out",
}


def build_binding_rows(
    placement: PlacementPlan,
    members: Mapping[str, FleetMemberState],
    rejected: tuple[Rejection, ...] = (),
) -> Iterator[PlacementChange]:
    """Build the rows of one placement: removed bindings, then added and changed, then kept ones.

    `rejected` are the clusters not picked, with reasons; the row of every planned
    binding lists them.
    """
    unreachable = placement.selection.clusters.all_unreachable
    prior_bindings = index_by_cluster(placement.spec.prior_bindings)
    planned_bindings = index_by_cluster(placement.bindings)
    for cluster in sorted(prior_bindings):
        # A released binding (evicted, or its member re-created) is removed even if the cluster
        # is picked again.
        if cluster not in planned_bindings or cluster in placement.released_clusters:
            trigger = _find_removal_trigger(placement, cluster)
            step = placement.find_rollout_step(cluster)
            removed_row = _build_removed_row(
                placement.spec.instance.address, prior_bindings[cluster], trigger, step
            )
            yield _add_doubt(unreachable, _add_condition(placement, removed_row))
    for cluster in placement.hub_moves.removed_clusters:
        # The hub removed it since the last apply: a row without a change.
        if cluster not in planned_bindings:
            yield PlacementChange(
                address=placement.spec.instance.address,
                kind=KIND,
                object=cluster,
                action=PlacementAction.KEEP,
                source=None,
                target=None,
                trigger=str(Trigger.MOVED_ON_THE_HUB),
                cluster=cluster,
                reason="removed on the hub",
                provenance=_OBSERVED,
            )
    kept_rows = []
    for cluster, binding in sorted(planned_bindings.items()):
        # The binding after a released one is new: it has no prior.
        prior = prior_bindings.get(cluster) if cluster not in placement.released_clusters else None
        row = _build_current_binding_row(placement, prior, binding, members, rejected)
        row = _add_doubt_about_content(placement, _add_condition(placement, row))
        if row.action is PlacementAction.KEEP:
            kept_rows.append(row)
        else:
            yield _add_doubt(unreachable, row)
    yield from kept_rows


def _add_doubt(unreachable: Mapping[str, str], row: PlacementChange) -> PlacementChange:
    """Return the row of a change, uncertain if its member is `unreachable` (reason by name)."""
    if row.cluster not in unreachable:
        return row
    reason = f"unknown until the member is reachable: {unreachable[row.cluster]}"
    uncertain_row = row.add_doubt(Doubt("binding", row.object, reason=UNREACHABLE_MEMBERS))
    return replace(uncertain_row, reason=f"{row.reason}; {reason}")


def _add_condition(placement: PlacementPlan, row: PlacementChange) -> PlacementChange:
    """Return the row, uncertain if it depends on when waiting clusters are available."""
    uncertain_evictions = {
        eviction.cluster for _name, eviction in placement.evictions if not eviction.is_certain
    }
    if row.cluster not in placement.rollout.conditional_clusters | uncertain_evictions:
        return row
    assumption = f"the availability of {placement.format_awaited_clusters()}"
    return row.add_doubt(Doubt("binding", row.object, reason=assumption))


def _add_doubt_about_content(placement: PlacementPlan, row: PlacementChange) -> PlacementChange:
    """Return the row of an update, uncertain if the present content was not captured on a hub."""
    if row.action is not PlacementAction.UPDATE or not placement.spec.observed_attributes:
        return row
    prior = row.source
    if not isinstance(prior, Binding) or prior.resource_snapshot is None:
        return row
    if placement.snapshot_store.find_snapshot(prior.resource_snapshot) is not None:
        return row
    return add_doubt_about_hub(row, _UNREAD_CONTENT)


def add_doubt_about_hub(row: PlacementChange, assumption: str = _UNREAD_HUB) -> PlacementChange:
    """Return the row of a change as uncertain: not all objects of its hub were read."""
    if row.action is PlacementAction.KEEP or row.doubt:
        return row
    return row.add_doubt(Doubt("binding", row.object, reason=assumption))


def find_unread_members(
    rows: Iterable[PlacementChange], known_members: AbstractSet[str]
) -> set[str]:
    """Return the clusters of which no member was read or recorded.

    Their binding is removed, or changes because they left the fleet.
    """
    changed_rows = (row for row in rows if row.action is not PlacementAction.KEEP)
    return {
        row.cluster
        for row in changed_rows
        if row.action is PlacementAction.REMOVE or row.trigger == Trigger.CLUSTER_LEFT
    }.difference(known_members)


def add_doubt_about_members(row: PlacementChange, unread: AbstractSet[str]) -> PlacementChange:
    """Return the row of a binding, uncertain if it is removed from an `unread` member (name)."""
    is_in_doubt = row.action is PlacementAction.REMOVE and row.cluster in unread
    return add_doubt_about_hub(row, UNREAD_MEMBERS) if is_in_doubt else row


def build_removed_rows(
    instance: Instance, unreachable: Mapping[str, str]
) -> Iterator[PlacementChange]:
    """Build a row per binding of a removed or replaced placement.

    Bindings of a forgotten one stay on the hub. Those on `unreachable` members are uncertain.
    """
    for binding in read_bindings(instance.before):
        row = _build_removed_row(instance.address, binding, Trigger.PLACEMENT_REMOVED)
        if instance.action is Action.FORGET:
            yield replace(row, action=PlacementAction.FORGET, reason=FORGOTTEN_REASON)
        else:
            yield _add_doubt(unreachable, row)


def _find_removal_trigger(placement: PlacementPlan, cluster: str) -> Trigger:
    """Return the first trigger of a removal.

    Eviction or deletion, scheduling cycle, staged run, or changed policy.
    """
    # The latter: evicted or deleted.
    triggers = {**placement.scheduling.release_triggers, **placement.lost_bindings}
    if cluster in triggers:
        return triggers[cluster]
    is_removed_by_run = (
        placement.spec.is_external and placement.find_rollout_step(cluster) != NO_ROLLOUT_STEP
    )
    return Trigger.STAGED_RUN if is_removed_by_run else Trigger.POLICY_CHANGED


def _build_removed_row(
    address: Address,
    binding: Binding,
    trigger: Trigger,
    rollout_step: tuple[str, RolloutStep] = NO_ROLLOUT_STEP,
) -> PlacementChange:
    """Build the row of a removed binding.

    `rollout_step` is the cause of its rollout, and the step with the removal.
    """
    _cause, step = rollout_step
    return PlacementChange(
        address=address,
        kind=KIND,
        object=binding.cluster,
        action=PlacementAction.REMOVE,
        source=binding,
        target=None,
        trigger=str(trigger),
        cluster=binding.cluster,
        reason=_format_binding_reason(TRIGGER_REASONS.get(trigger, ""), rollout_step),
        scores=_get_scores(binding),
        stage=step.stage,
        group=step.group,
        waits_for=step.waits_for,
    )


def _format_binding_reason(reason: str, rollout_step: tuple[str, RolloutStep]) -> str:
    """Return the reason with a rollout's (cause, step).

    A step is for example `wave 2, after 60s` or `staged run r, stage prod, group 1`.
    """
    if rollout_step == NO_ROLLOUT_STEP:
        return reason
    cause, step = rollout_step
    # Only staged runs have stages. The groups of a rolling update are its waves.
    step_text = (
        f"{cause}, stage {step.stage}, group {step.group}" if step.stage else f"wave {step.group}"
    )
    wait = f", after {step.waits_for}" if step.waits_for else ""
    return f"{reason}; {step_text}{wait}" if reason else f"{step_text}{wait}"


def _get_scores(binding: Binding) -> dict[str, int]:
    """Return the scores of a binding at its pick, by name; {} without scores."""
    if binding.affinity_score is None or binding.topology_spread_score is None:
        # picked by name (PickFixed).
        return {}
    return {
        "topology_spread_score": binding.topology_spread_score,
        "affinity_score": binding.affinity_score,
    }


def _build_current_binding_row(
    placement: PlacementPlan,
    prior: Binding | None,
    binding: Binding,
    members: Mapping[str, FleetMemberState],
    rejected: tuple[Rejection, ...],
) -> PlacementChange:
    """Build the row of a binding after the plan; `prior` is None for a new one.

    `rejected` are the clusters not picked.
    """
    action, trigger, reason = _determine_binding_action(placement, prior, binding, members)
    rollout_step = placement.find_rollout_step(binding.cluster)
    _cause, step = rollout_step
    # Other reasons do not name the step.
    if action in (PlacementAction.PLACE, PlacementAction.UPDATE):
        reason = _format_binding_reason(reason, rollout_step)
        previous_snapshot = placement.rollout.previous_snapshots.get(binding.cluster)
        if previous_snapshot is not None:
            reason += (
                f"; uncertain: resource snapshot {binding.resource_snapshot} or {previous_snapshot}"
            )
    return PlacementChange(
        address=placement.spec.instance.address,
        kind=KIND,
        object=binding.cluster,
        action=action,
        source=prior,
        target=binding,
        trigger=trigger,
        cluster=binding.cluster,
        reason=reason,
        scores=_get_scores(binding),
        rejections=rejected,
        provenance=_OBSERVED if trigger == Trigger.MOVED_ON_THE_HUB else _PREDICTED,
        stage=step.stage,
        group=step.group,
        waits_for=step.waits_for,
    )


def _determine_binding_action(
    placement: PlacementPlan,
    prior: Binding | None,
    binding: Binding,
    members: Mapping[str, FleetMemberState],
) -> tuple[PlacementAction, str, str]:
    """Return (action, trigger, reason) for a binding after the plan.

    The trigger is "" if there is none. A new binding (`prior` None) is placed. A changed state,
    content or apply strategy updates it. Others are kept.
    """
    cluster = binding.cluster
    if prior is None:
        trigger = placement.scheduling.pick_triggers.get(cluster, Trigger.PLACEMENT_CREATED)
        reason = f"{TRIGGER_REASONS.get(trigger, '')}: {build_selected_decision(binding).reason}"
        return PlacementAction.PLACE, str(trigger), reason
    # Only then are changed overrides applied.
    is_rolled_out = cluster in placement.rollout.clusters
    has_new_overrides = is_rolled_out and placement.has_override_change(binding)
    has_new_resources = prior.resource_snapshot != binding.resource_snapshot
    if prior.state is not binding.state or has_new_resources or has_new_overrides:
        if binding.state is BindingState.UNSCHEDULED:
            trigger = _find_removal_trigger(placement, cluster)
        elif (
            prior.state is BindingState.UNSCHEDULED
            and cluster in placement.scheduling.pick_triggers
        ):
            # picked again before its removal.
            trigger = placement.scheduling.pick_triggers[cluster]
        else:
            # rolled out: bound, or with other resources or overrides.
            trigger = (
                Trigger.STAGED_RUN if placement.spec.is_external else placement.rollout_trigger
            )
        return PlacementAction.UPDATE, str(trigger), TRIGGER_REASONS.get(trigger, "")
    # It needs no rollout.
    if placement.spec.apply_strategy_changed and binding.has_resources:
        return PlacementAction.UPDATE, str(Trigger.STRATEGY_CHANGED), REAPPLIED_REASON
    if prior.policy_snapshot != binding.policy_snapshot:
        return (
            PlacementAction.KEEP,
            str(Trigger.POLICY_CHANGED),
            "picked again under the changed policy",
        )
    trigger_text, reason = _explain_keeping(placement, binding, members.get(cluster))
    return PlacementAction.KEEP, trigger_text, reason


def _explain_keeping(
    placement: PlacementPlan, binding: Binding, member: FleetMemberState | None
) -> tuple[str, str]:
    """Return (trigger, reason) for a kept binding: the first of several.

    Each is "" if there is none.
    """
    cause, step = placement.find_rollout_step(binding.cluster)
    # Of a staged run.
    if step.status == LATER:
        return str(
            Trigger.STAGED_RUN
        ), f"{_format_binding_reason('', (cause, step))}: not reached by this plan"
    # Changed resources or overrides need a staged run with strategy External.
    if placement.current.staged_trigger is not None and binding.has_resources:
        change = CHANGE_REASONS[placement.current.staged_trigger]
        return "", f"{change}; kept: with External, only a staged run applies it"
    replaced_cluster = placement.hub_moves.replaced_clusters.get(binding.cluster)
    # The hub picked this cluster since the last apply; "": it replaces no other.
    if replaced_cluster is not None:
        move_text = f"moved on the hub: {replaced_cluster} -> {binding.cluster}"
        return str(Trigger.MOVED_ON_THE_HUB), move_text if replaced_cluster else "added on the hub"
    is_orphan = (
        binding.state is BindingState.UNSCHEDULED and binding.cluster in placement.departed_clusters
    )
    # staged runs have no budget.
    if is_orphan and not placement.spec.is_external:
        return "", "its member left; the rollout budget does not allow its removal yet"
    if binding.cluster in placement.clusters_applied_later:
        reason = placement.selection.clusters.unreachable[binding.cluster]
        return "", f"an earlier change waits until the member is reachable: {reason}"
    if binding.cluster in placement.rollout.blocked_clusters:
        is_conditional = binding.cluster in placement.rollout.conditional_clusters
        awaited = placement.format_awaited_clusters()
        condition = f" until {awaited} is available" if is_conditional else ""
        return "", f"the rollout stops before it{condition}"
    if binding.cluster in placement.override_pending_clusters:
        return "", "kept: overrides are applied with the next change of content or bindings"
    return _explain_keeping_on_changed_member(placement, member)


def _explain_keeping_on_changed_member(
    placement: PlacementPlan, member: FleetMemberState | None
) -> tuple[str, str]:
    """Return (trigger, reason) for a binding kept although its member changed.

    Each is "" if there is none. The trigger is a change sufficient to reject the member in a new
    pick. Other changes have no trigger.
    """
    if member is None or member.planned is None or member.previous is None:
        # Unknown, removed or new: no change to explain.
        return "", ""
    if member.previous == member.planned:
        return "", ""
    request = PlacementRequest(
        placement.spec.configuration.effective_policy, placement.spec.configuration.namespace
    )
    changes = find_member_observations(member.previous, member.planned, request)
    if changes:
        return str(
            changes[0].trigger
        ), f"{changes[0].reason}; kept: {explain_kept_bindings(placement)}"
    # Any other change able to start a scheduling cycle needs a reason if no cycle of
    # this placement ran.
    if (
        find_queue_trigger(member.previous, member.planned) is not None
        and not placement.scheduling.has_run
    ):
        return "", f"kept: {explain_kept_bindings(placement)}"
    return "", ""


def explain_kept_bindings(placement: PlacementPlan) -> str:
    """Return why a placement keeps its bindings although a fresh scheduling would differ now."""
    kind = placement.spec.configuration.placement_type
    # An unfulfilled PickN is scheduled again, but only to add clusters.
    is_unfulfilled = kind is PlacementType.PICK_N and not placement.scheduling.is_fulfilled
    return NOT_MOVED_REASON if is_unfulfilled else KEPT_REASONS[kind]


DONE = "done"
PLANNED = "planned"
WAITING = "waiting"
BLOCKED = "stuck"
LATER = "later"
_UPDATE: Final = str(RunStepKind.UPDATE)


def build_rolling_timeline(placement: PlacementPlan) -> Rollout | None:
    """Build the timeline of a rolling update; None with one wave or none."""
    waves = placement.rollout.waves
    # No order to show.
    if len(waves) <= 1:
        return None
    steps = tuple(_build_wave_steps(waves, placement.failing_clusters))
    return Rollout(
        placement.spec.instance.address,
        "rolling update",
        placement.snapshot_store.latest_index,
        steps,
    )


def _build_wave_steps(
    waves: Sequence[RolloutWave], failing: frozenset[str]
) -> Iterator[RolloutStep]:
    """Yield the steps of every wave: delete, update, wait.

    Updates of `failing` clusters are another, blocked step.
    """
    start_seconds: float = 0
    # The wait after the previous wave.
    waits_for = ""
    for number, wave in enumerate(waves, 1):
        # Only runs have stages.
        build_step = partial(RolloutStep, stage="", group=number, start_seconds=start_seconds)
        updated = sorted((*wave.updated_clusters, *wave.bound_clusters))
        if wave.deleted_clusters:
            yield build_step(
                str(RunStepKind.DELETE), clusters=wave.deleted_clusters, waits_for=waits_for
            )
        failing_updates, working_updates = split_clusters(updated, failing)
        if working_updates:
            yield build_step(_UPDATE, clusters=working_updates, waits_for=waits_for)
        if failing_updates:
            yield build_step(_UPDATE, clusters=failing_updates, waits_for=waits_for, status=BLOCKED)
        waits_for = ""
        # Nothing waits after the last wave.
        if wave.wait_seconds and number < len(waves):
            yield build_step(str(RunStepKind.WAIT), wait_seconds=wave.wait_seconds)
            start_seconds += wave.wait_seconds
            waits_for = format_duration(wave.wait_seconds)


def build_run_timeline(
    placement: PlacementPlan,
    run: str,
    resource_snapshot: int,
    steps: Sequence[RunStep],
    outcome: StagedRunOutcome,
    previous_snapshot: int | None,
) -> Rollout:
    """Build the timeline of a staged run with its `outcome`.

    `placement` still has the bindings before the run. The hub may
    distribute `previous_snapshot` instead.
    """
    updated_clusters = {
        binding.cluster
        for binding in placement.bindings
        if binding.state is BindingState.BOUND and binding.resource_snapshot == resource_snapshot
    }
    timeline_steps = tuple(_build_run_steps(steps, frozenset(updated_clusters), outcome))
    return Rollout(
        placement.spec.instance.address,
        f"staged run {run}",
        resource_snapshot,
        timeline_steps,
        previous_snapshot,
    )


def _build_run_steps(
    steps: Sequence[RunStep], updated_clusters: frozenset[str], outcome: StagedRunOutcome
) -> Iterator[RolloutStep]:
    """Yield the rollout step of each step of a staged run.

    A step with clusters names the waits and approvals before it. Its group is its number in the
    stage, from 1. `updated_clusters` are up to date already.
    """
    start_seconds: float = 0
    # The longest wait before the next group: tasks run in parallel.
    pending_seconds: float = 0
    stage = ""
    group = 0
    # waits and approvals since the last step with clusters.
    conditions: list[str] = []
    for number, step in enumerate(steps):
        if step.stage != stage:
            stage = step.stage
            group = 0
        if step.kind is RunStepKind.APPROVAL:
            conditions.append(step.task)
        elif step.kind is RunStepKind.WAIT:
            pending_seconds = max(pending_seconds, step.wait_seconds)
            conditions.append(format_duration(step.wait_seconds))
        else:
            group += 1
            start_seconds = start_seconds + pending_seconds
            pending_seconds = 0
        has_conditions = bool(step.clusters and conditions)
        yield RolloutStep(
            kind=str(step.kind),
            stage=stage,
            # A task has none.
            group=group if step.clusters else 0,
            clusters=step.clusters,
            start_seconds=start_seconds,
            wait_seconds=step.wait_seconds,
            # "" except for an approval: its own name.
            waits_for=", ".join(conditions) if has_conditions else step.task,
            status=_determine_step_status(step, number, updated_clusters, outcome),
        )
        if has_conditions:
            conditions = []


def _determine_step_status(
    step: RunStep, number: int, updated_clusters: frozenset[str], outcome: StagedRunOutcome
) -> str:
    """Return the status of a step.

    Waiting for an approval, later, blocked, done before this plan, or planned. `number` is its
    index in the run. Clusters in `updated_clusters` were up to date before the plan.
    """
    steps_taken = len(outcome.steps)
    if number >= steps_taken:
        # Only the first step not taken can be the approval in the way of the run.
        is_next_approval = step.kind is RunStepKind.APPROVAL and number == steps_taken
        return WAITING if is_next_approval and outcome.pending_approval else LATER
    if not set(step.clusters).isdisjoint(outcome.blocking_clusters):
        return BLOCKED
    is_up_to_date = updated_clusters.issuperset(step.clusters)
    return DONE if is_up_to_date and step.kind is RunStepKind.UPDATE else PLANNED
