"""Staged update runs of a plan.

Values fixed at their start and recorded in their note, and their progress.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final

from msgspec import Struct, convert
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity, suggest_name
from nexusform.diagnostics.phrases import format_list, select_word_form
from nexusform.domains.fleet.importers.fleet_records import FleetOverride, FleetUpdateRun, RunRecord
from nexusform.domains.fleet.planning.binding_rows import build_run_timeline
from nexusform.domains.fleet.planning.override_rendering import (
    ClusterRenderer,
    collect_selection_keys,
    select_overrides,
)
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.planning.placement_records import ResourceSnapshot
from nexusform.domains.fleet.planning.planned_hub import PlannedHub
from nexusform.domains.fleet.scheduling.bindings import BindingState, index_by_cluster
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.domains.fleet.scheduling.placement_status import format_run_status_text
from nexusform.domains.fleet.scheduling.staged_update import (
    APPROVAL,
    RunProblem,
    RunState,
    RunStepKind,
    StagedRunOutcome,
    StagedRunPlan,
    initialize_staged_run,
    list_run_steps,
    simulate_staged_run,
)
from nexusform.json_data.plain_data import get_list, get_mapping, get_value_at_path, list_texts
from nexusform.planning.instances.instance import Instance

# Of a failure after which a hub tries again.
_RETRIED: Final = "need retry."


def execute_runs(
    placements: Sequence[PlacementPlan], hub: PlannedHub, member_list: MemberList
) -> Iterator[Diagnostic]:
    """Execute the staged runs of this plan in planning order; yield their errors and warnings."""
    by_key = {placement.key: placement for placement in placements}
    # Runs of this plan add further ones, which a hub may not have.
    existing = {key: placement.snapshot_store.snapshots for key, placement in by_key.items()}
    for instance, run in hub.runs:
        key = run.build_key(run.placement)
        yield from _execute_staged_run(
            instance, run, by_key.get(key), hub, member_list, existing.get(key, ())
        )


class _StagedRunInput(Struct, frozen=True):
    """Inputs of a run: stages, snapshot, values fixed at its start.

    `picked` are positions in `overrides` by cluster.
    """

    plan: StagedRunPlan
    snapshot: ResourceSnapshot
    record: RunRecord
    overrides: tuple[FleetOverride, ...]
    picked: Mapping[str, tuple[int, ...]]


def _execute_staged_run(
    instance: Instance,
    run: FleetUpdateRun,
    placement: PlacementPlan | None,
    hub: PlannedHub,
    member_list: MemberList,
    existing_snapshots: Sequence[ResourceSnapshot],
) -> Iterator[Diagnostic]:
    """Execute one staged run as far as possible.

    Update the placement's bindings, rollout and timelines, and record the progress in `private` of
    the instance. Yield warnings about the run. `existing_snapshots` are those before all runs.
    """
    if placement is None or not placement.spec.is_external:
        obstacle = "no such placement" if placement is None else "its strategy is not External"
        text = f"{run.placement}: {obstacle}."
        yield instance.build_diagnostic(Problem((), "empty-staged-run", text, Severity.WARNING))
        return
    record = _read_run_record(instance, run, hub)
    if record.ended:
        if record.failure:
            text = (
                f"The run failed earlier and never continues, whatever changes: {record.failure} "
                "Create another run, or replace this one with -replace."
            )
            problem = Problem((), "failed-staged-run", text, Severity.WARNING)
            yield instance.build_diagnostic(problem)
        return
    context = _build_run_context(run, placement, hub, member_list, record)
    if isinstance(context, Problem):
        yield instance.build_diagnostic(context)
        # A hub validates a run once, and a failure is final.
        if not context.detail.endswith(_RETRIED):
            instance.private = replace(record, ended=True, failure=context.detail).build_note()
        return
    # The hub may use this one instead.
    previous_snapshot: int | None = None
    if existing_snapshots and context.snapshot not in existing_snapshots:
        previous_snapshot = existing_snapshots[-1].index
        yield instance.build_diagnostic(
            _build_collection_problem(placement, run, context.snapshot.index, previous_snapshot)
        )
    # The values fixed at the start.
    instance.private = context.record.build_note()
    yield from _warn_unused_approvals(instance, run, context)
    # Only initialized, or stopped.
    if run.state is not RunState.RUN:
        return
    yield from _warn_skipped_stages(instance, context)
    yield from _warn_pruned_snapshot(instance, run, placement)
    yield from _warn_delete_only_run(instance, context)
    # later overrides do not change a started run.
    _lock_resources_of_run(placement, context)
    failures = _find_failed_clusters_of_run(placement, context)
    outcome = simulate_staged_run(
        context.plan,
        run.name,
        placement.bindings,
        context.snapshot.index,
        approved=run.approvals,
        failing=frozenset(failures),
        finished=frozenset(record.done),
    )
    handled_groups = [
        step.clusters for step in outcome.steps if step.kind is not RunStepKind.APPROVAL
    ]
    finished_clusters = sorted(
        {*record.done, *chain.from_iterable(handled_groups)} - {*outcome.blocking_clusters}
    )
    is_finished = not outcome.pending_approval and not outcome.blocking_clusters
    unreachable = placement.selection.clusters.unreachable
    instance.private = replace(
        context.record,
        done=tuple(finished_clusters),
        ended=is_finished,
        is_waiting=not unreachable.keys().isdisjoint(outcome.blocking_clusters),
    ).build_note()
    # Record in the placement: all steps as a timeline, the new bindings, and the clusters updated
    # by this plan.
    steps = list_run_steps(context.plan, run.name, frozenset(failures))
    timeline = build_run_timeline(
        placement, run.name, context.snapshot.index, steps, outcome, previous_snapshot
    )
    placement.bindings = outcome.bindings
    updates = [step.clusters for step in outcome.steps if step.kind is RunStepKind.UPDATE]
    # Not before this plan.
    newly_updated = set(chain.from_iterable(updates)) - {*record.done}
    run_text = format_run_status_text(run.resource_index, run.name)
    changed_clusters = _find_changed_clusters(placement, context, newly_updated)
    rollout = placement.rollout
    # A run that waits for a cluster continues once it is available.
    conditional_clusters = rollout.conditional_clusters
    awaited = placement.waiting_clusters | placement.retried_clusters
    if not awaited.isdisjoint(outcome.blocking_clusters):
        later_clusters = chain.from_iterable(step.clusters for step in steps[len(outcome.steps) :])
        conditional_clusters = conditional_clusters.union(later_clusters)
    placement.rollout = replace(
        rollout,
        timelines=(*rollout.timelines, timeline),
        clusters=rollout.clusters | newly_updated,
        conditional_clusters=conditional_clusters,
        run_by_cluster={**rollout.run_by_cluster, **dict.fromkeys(changed_clusters, run_text)},
        previous_snapshots=_update_previous_snapshots(placement, newly_updated, previous_snapshot),
    )
    for problem in _build_blocked_run_problems(outcome, failures):
        yield instance.build_diagnostic(problem)


def _update_previous_snapshots(
    placement: PlacementPlan, clusters: AbstractSet[str], previous_snapshot: int | None
) -> Mapping[str, int]:
    """Return the snapshots that runs may use instead of the planned ones, by cluster.

    A run updated `clusters`, with `previous_snapshot` as its other possible snapshot (None: its
    snapshot is certain).
    """
    snapshots = {
        cluster: index
        for cluster, index in placement.rollout.previous_snapshots.items()
        if cluster not in clusters
    }
    if previous_snapshot is not None:
        snapshots |= dict.fromkeys(clusters, previous_snapshot)
    return snapshots


def _build_collection_problem(
    placement: PlacementPlan, run: FleetUpdateRun, index: int, previous_index: int
) -> Problem:
    """Build the warning about a run that needs a new resource snapshot (`index`).

    A hub collects changes of content for a time that no object shows, and a run does not wait for
    it. Source: seen on a running hub with KubeFleet e160c1cd.
    """
    if run.resource_index is None:
        fact = (
            f"uncertain content: the run uses resource snapshot {previous_index} of "
            f"{placement.key} instead of the new {index} if the hub collects changes"
        )
        advice = (
            "KubeFleet does by default, and no object on the hub shows it. Check "
            "resourceSnapshotIndexUsed in the status of the run. If it is "
            f"{previous_index}, wait 30 seconds and start another run. Once snapshot {index} "
            f'exists, a run with resource_snapshot_index = "{index}" is certain.'
        )
    else:
        fact = (
            f"uncertain content: the hub rejects the run if resource snapshot {index} of "
            f"{placement.key} does not exist when it starts"
        )
        advice = (
            "An earlier run of this plan adds it, unless the hub collects changes, as KubeFleet "
            "does by default. Apply the earlier run first. Start this one once the snapshot exists."
        )
    text = f"{fact[0].upper()}{fact[1:]}. {advice}"
    return Problem((), "run-with-previous-content", text, Severity.WARNING, brief=fact)


def _build_blocked_run_problems(
    outcome: StagedRunOutcome, failures: dict[str, str]
) -> Iterator[Problem]:
    """Yield the warnings about an unfinished run.

    It stopped at failed clusters (with the causes in `failures`) or at an approval.
    """
    if outcome.blocking_clusters:
        blocking = outcome.blocking_clusters
        text = (
            f"The run stops at {format_list(blocking, 4)}: {failures[blocking[0]]}. Once the "
            "cluster is available or the member reachable, the run continues by itself. After an "
            "override failure, fix the override and create another run."
        )
        yield Problem((), "stuck-staged-run", text, Severity.WARNING)
    if outcome.pending_approval:
        approval = outcome.pending_approval
        advice = (
            f'To continue, add "{approval}" to its approvals, or add an approval request of that '
            "name."
        )
        text = f"The run stops before {approval}. {advice}"
        yield Problem((), "staged-run-awaiting-approval", text, Severity.WARNING)


def _find_changed_clusters(
    placement: PlacementPlan, context: _StagedRunInput, clusters: set[str]
) -> Iterator[str]:
    """Yield the `clusters` with a binding changed by a run.

    Others have its state, resource snapshot, overrides and apply strategy already: they keep the
    message of an earlier run.
    """
    prior = index_by_cluster(placement.spec.prior_bindings)
    changed_before = (
        placement.rollout.clusters
        | placement.released_clusters
        | placement.clusters_with_unknown_rollout
    )
    for cluster in clusters:
        binding = prior.get(cluster)
        resources = placement.current.applied.on_cluster.get(cluster)
        rendered = placement.snapshot_store.render_cluster(context.snapshot.index, cluster)
        if binding is None or resources is None or rendered is None or cluster in changed_before:
            # New, unknown, or changed by this plan already: not comparable.
            yield cluster
            continue
        apply_strategy = placement.spec.find_apply_strategy(cluster)
        before = (
            binding.state,
            binding.is_deleting,
            binding.resource_snapshot,
            resources.overrides,
            apply_strategy,
        )
        configured_strategy = placement.spec.configuration.apply
        after = (
            BindingState.BOUND,
            False,
            context.snapshot.index,
            rendered.overrides,
            configured_strategy,
        )
        if before != after:
            yield cluster


def _read_run_record(instance: Instance, run: FleetUpdateRun, hub: PlannedHub) -> RunRecord:
    """Return the values fixed at the start of a run, from a hub, else from state.

    The record is empty if the run has not started.
    """
    if instance.is_replaced or run.build_key(run.name) in hub.observed.pending_requests:
        # A new run, or one not processed by the hub yet.
        return RunRecord()
    observed = hub.observed.runs.get(run.build_key(run.name))
    recorded = convert(instance.prior_note, RunRecord)
    if observed is None:
        return recorded
    # Of override snapshots.
    names_by_cluster = get_mapping(hub.observed.run_overrides, run.build_key(run.name))
    names = sorted({*chain.from_iterable(names_by_cluster.values())})
    if not hub.observed.overrides.keys() >= set(names):
        # Some snapshots were not captured; use those recorded in state.
        return replace(observed, overrides=recorded.overrides, picked=recorded.picked)
    overrides = tuple(hub.observed.overrides[name] for name in names)
    position_of = {name: position for position, name in enumerate(names)}  # in `overrides`
    picked = {
        cluster: tuple(position_of[name] for name in picks)
        for cluster, picks in names_by_cluster.items()
    }
    return replace(observed, overrides=overrides, picked=picked)


def _warn_unused_approvals(
    instance: Instance, run: FleetUpdateRun, context: _StagedRunInput
) -> Iterator[Diagnostic]:
    """Warn about configured approvals without a stage requesting them.

    A stage with a task of type Approval requests `<run>-before-<stage>` before it starts, or
    `<run>-after-<stage>` after it ends.
    """
    # names of approval requests.
    requested: list[str] = []
    for stage in context.plan.stages:
        if any(task.type == APPROVAL for task in stage.before):
            requested.append(f"{run.name}-before-{stage.name}")
        if any(task.type == APPROVAL for task in stage.after):
            requested.append(f"{run.name}-after-{stage.name}")
    choice = (
        f"It requests {format_list(requested)}." if requested else "No stage requests an approval."
    )
    for name in sorted({*list_texts(instance.config, "approvals")} - {*requested}):
        text = f'The run never requests "{name}".{suggest_name(name, requested)} {choice}'
        problem = Problem(("approvals",), "useless-approval-request", text, Severity.WARNING)
        yield instance.build_diagnostic(problem)


def _warn_skipped_stages(instance: Instance, context: _StagedRunInput) -> Iterator[Diagnostic]:
    """Warn about stages skipped with their tasks because no cluster matches."""
    stages = context.plan.stages
    names = [stage.name for stage in stages if not stage.clusters and (stage.before or stage.after)]
    if names:
        noun = select_word_form(len(names), "stage")
        pronoun = select_word_form(len(names), "it", "them")
        cause = f"No cluster matches {noun} {format_list(names, 4)}."
        text = f"{cause} The run skips {pronoun} without approvals or waits."
        yield instance.build_diagnostic(Problem((), "skipped-run-stage", text, Severity.WARNING))


def _warn_pruned_snapshot(
    instance: Instance, run: FleetUpdateRun, placement: PlacementPlan
) -> Iterator[Diagnostic]:
    """Warn about a run with an old snapshot that a hub may have pruned.

    A running hub with a limit of 3 snapshots kept the numbers 4, 6 and 8 of 8.
    """
    newest = placement.snapshot_store.snapshots[-1].index
    limit = placement.spec.configuration.revision_history_limit
    observed_snapshots = get_list(placement.spec.observed_attributes, "resource_snapshots")
    observed_indexes = {int(snapshot["index"]) for snapshot in observed_snapshots}
    # Not an old one, or nothing is pruned yet.
    if run.resource_index in (None, newest) or newest < limit:
        return
    if run.resource_index in observed_indexes and newest in observed_indexes:
        # The hub has it and creates no snapshot that could evict it.
        return
    text = (
        f"The run uses resource snapshot {run.resource_index} of {run.placement}; the newest is "
        f"{newest}. A hub keeps about {limit} snapshots (revision_history_limit), so this one may "
        "be deleted. Check with kubectl get clusterresourcesnapshots, or add the old objects as "
        "new content."
    )
    summary = f"the hub may have deleted resource snapshot {run.resource_index}"
    path = (
        ("resource_snapshot_index",)
        if get_value_at_path(instance.config, "resource_snapshot_index")
        else ()
    )
    problem = Problem(path, "old-snapshot-unavailable", text, Severity.WARNING, brief=summary)
    yield instance.build_diagnostic(problem)


def _warn_delete_only_run(instance: Instance, context: _StagedRunInput) -> Iterator[Diagnostic]:
    """Warn about a run that only deletes: a hub executes it and reports a failure.

    Source: seen on a running hub ("no scheduled or to-be-deleted bindings found").
    """
    if context.plan.deletes and not context.plan.updated_clusters:
        text = (
            f"The run updates no cluster and only removes {format_list(context.plan.deletes, 4)}. "
            "The "
            "hub then reports Succeeded False, because no binding is left to check. This is not a "
            "failure."
        )
        summary = "the run only deletes; the hub then reports Succeeded False"
        yield instance.build_diagnostic(
            Problem((), "delete-only-staged-run", text, Severity.WARNING, brief=summary)
        )


def _find_failed_clusters_of_run(
    placement: PlacementPlan, context: _StagedRunInput
) -> dict[str, str]:
    """Return the clusters of a run with failing resources, each with the cause.

    Overrides may fail on all clusters of the run. A failing apply counts only on clusters not
    updated by the run yet. There, unreachable members and clusters that are not available count as
    failing: the run waits for them.
    """
    failures: dict[str, str] = {}
    unfinished = frozenset(context.plan.updated_clusters) - {*context.record.done}
    # Else nothing is applied.
    if not placement.spec.configuration.is_report_only:
        # Clusters that are not ready with earlier content may stay so with that of the run.
        failures = dict.fromkeys(
            sorted(unfinished & placement.waiting_clusters), "its resources are not available"
        )
        # As reported, and as configured.
        failing = unfinished & (placement.retried_clusters | placement.selection.clusters.failing)
        failures |= dict.fromkeys(sorted(failing), "applying the resources fails")
    unreachable = placement.selection.clusters.unreachable
    failures |= {name: unreachable[name] for name in sorted(unfinished & unreachable.keys())}
    for cluster in context.plan.updated_clusters:
        rendered = placement.snapshot_store.render_cluster(context.snapshot.index, cluster)
        if rendered is not None and rendered.failure:
            failures[cluster] = rendered.failure
    return failures


def _build_run_context(
    run: FleetUpdateRun,
    placement: PlacementPlan,
    hub: PlannedHub,
    member_list: MemberList,
    record: RunRecord,
) -> _StagedRunInput | Problem:
    """Build the inputs of a run, or a warning if a hub rejects it.

    `record` holds the values fixed at its start in an earlier plan; they are None for a new run.
    """
    stages = record.strategy
    if stages is None:
        strategy = hub.strategies.get(run.build_key(run.strategy))
        if strategy is None:
            text = f'The staged update strategy "{run.strategy}" does not exist.'
            return Problem((), "missing-staged-strategy", text, Severity.WARNING)
        stages = strategy.stages
    number = placement.spec.policy_snapshot.number_of_clusters
    requested_count = placement.spec.configuration.effective_policy.count_requested_clusters(number)
    plan = initialize_staged_run(
        placement.bindings,
        placement.spec.policy_snapshot,
        number=requested_count,
        is_fulfilled=placement.scheduling.is_fulfilled,
        members=member_list.members,
        stages=stages,
    )
    if isinstance(plan, RunProblem):
        return Problem((), "blocked-staged-run", f"{plan.message}.", Severity.WARNING)
    outdated_reason = _explain_outdated_run(run, placement, plan, record)
    if outdated_reason:
        text = f"{outdated_reason}. Create another run, or replace this one with -replace."
        return Problem((), "aborted-staged-run", text, Severity.WARNING)
    # The resource snapshot is the configured one, or the one fixed at the start of the run.
    index = record.resource_snapshot if run.resource_index is None else run.resource_index
    # A new run takes the latest selection.
    if index is None:
        index = placement.snapshot_store.add_snapshot(
            placement.spec.configuration.revision_history_limit
        ).index
    snapshot = placement.snapshot_store.find_snapshot(index)
    if snapshot is None:
        numbers = ", ".join(str(existing.index) for existing in placement.snapshot_store.snapshots)
        listing = f"Existing snapshots: {numbers}." if numbers else "No snapshot exists yet."
        advice = "A run without resource_snapshot_index selects one at its start."
        text = (
            f"no resourceSnapshots with index `{index}` found for placement `{placement.key}`. "
            f"{listing} {advice}"
        )
        return Problem((), "blocked-staged-run", text, Severity.WARNING)
    # positions in `overrides`.
    overrides = record.overrides
    positions_by_cluster = record.picked
    # Not fixed by an earlier plan or the hub.
    if overrides is None or positions_by_cluster is None:
        overrides, positions_by_cluster = _select_run_overrides(placement, plan, snapshot)
    new_record = RunRecord(
        policy_snapshot=plan.policy_snapshot,
        cluster_count=plan.cluster_count,
        resource_snapshot=index,
        strategy=stages,
        stages=tuple((stage.name, stage.clusters) for stage in plan.stages),
        apply=placement.spec.configuration.apply,
        overrides=overrides,
        picked=positions_by_cluster,
        done=record.done,
        objects=tuple(sorted(manifest.title for manifest in snapshot.objects)),
    )
    return _StagedRunInput(plan, snapshot, new_record, overrides, positions_by_cluster)


def _explain_outdated_run(
    run: FleetUpdateRun, placement: PlacementPlan, plan: StagedRunPlan, record: RunRecord
) -> str:
    """Return why a started run cannot continue, "" if it can.

    `record` has the policy snapshot, the number of clusters, the apply strategy and the stages with
    which it started; `plan` has those of a run started now. All must be equal.
    """
    # Values missing in the record count as unchanged; stages missing there are not compared.
    snapshot = plan.policy_snapshot if record.policy_snapshot is None else record.policy_snapshot
    count = plan.cluster_count if record.cluster_count is None else record.cluster_count
    if (snapshot, count) != (plan.policy_snapshot, plan.cluster_count):
        return (
            f"{run.name} started with policy snapshot {snapshot} and {count} cluster(s); the "
            "current "
            f"one is {plan.policy_snapshot} with {plan.cluster_count}"
        )
    if record.apply is not None and record.apply != placement.spec.configuration.apply:
        return f"The applyStrategy in the updateRun is outdated: {run.name} started with another"
    for number, (stage, (_name, clusters)) in enumerate(
        zip(plan.stages, record.stages or (), strict=False)
    ):
        if stage.clusters != clusters:
            listing = f"new: {', '.join(stage.clusters)}, existing: {', '.join(clusters)}"
            return f"The clusters in index `{number}` stage {stage.name} have changed, {listing}"
    return ""


def _select_run_overrides(
    placement: PlacementPlan, plan: StagedRunPlan, snapshot: ResourceSnapshot
) -> tuple[tuple[FleetOverride, ...], dict[str, tuple[int, ...]]]:
    """Return the overrides applied by a run, and their positions by cluster.

    A position counts within the returned overrides.
    """
    by_cluster: dict[str, Sequence[FleetOverride]] = {}
    selection = placement.selection
    keys = collect_selection_keys(snapshot.objects)
    for cluster in plan.updated_clusters:
        labels = selection.clusters.labels[cluster]
        cluster_overrides = select_overrides(selection.overrides, keys, labels)
        if cluster_overrides:
            by_cluster[cluster] = cluster_overrides
    # Overrides are not hashable (they contain mappings), so find them by identity.
    used_ids = set(map(id, chain.from_iterable(by_cluster.values())))
    run_overrides = tuple(override for override in selection.overrides if id(override) in used_ids)
    position_of = {id(override): position for position, override in enumerate(run_overrides)}
    return run_overrides, {
        cluster: tuple(position_of[id(override)] for override in overrides)
        for cluster, overrides in by_cluster.items()
    }


def _lock_resources_of_run(placement: PlacementPlan, context: _StagedRunInput) -> None:
    """Freeze the resources of the run's clusters.

    Its snapshot with the overrides selected at its start.
    """
    snapshot = context.snapshot
    labels = placement.selection.clusters.labels
    # By positions of overrides.
    renderers: dict[tuple[int, ...], ClusterRenderer] = {}
    for cluster in context.plan.updated_clusters:
        # Of its overrides in `context.overrides`.
        positions = context.picked.get(cluster, ())
        if positions not in renderers:
            cluster_overrides = tuple(context.overrides[position] for position in positions)
            renderers[positions] = ClusterRenderer(snapshot.objects, cluster_overrides, labels)
        placement.snapshot_store.lock_cluster(cluster, snapshot.index, renderers[positions])
