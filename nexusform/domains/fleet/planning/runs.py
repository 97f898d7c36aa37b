"""Staged update runs of a plan: what each fixes when it begins, and how far it brings its placement.

A run waits for approvals across plans; what it fixed when it began is kept in its note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct, convert
from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, Problem, Severity, did_you_mean
from nexusform.domains.fleet.importers.fleet_export import FAILED
from nexusform.domains.fleet.importers.fleet_model import BegunRun, FleetOverride, FleetRun
from nexusform.domains.fleet.planning.contents import ResourceSnapshot
from nexusform.domains.fleet.planning.hub import Hub
from nexusform.domains.fleet.planning.overrides import Renders, picked
from nexusform.domains.fleet.planning.placement import PlacementPlan
from nexusform.domains.fleet.planning.rows import run_timeline
from nexusform.domains.fleet.scheduling.bindings import BindingState, PlacementType
from nexusform.domains.fleet.scheduling.roster import Roster
from nexusform.domains.fleet.scheduling.staged import (
    APPROVAL,
    RunPlan,
    RunProblem,
    RunState,
    StepKind,
    execute,
    initialize,
    steps_of,
)
from nexusform.domains.fleet.scheduling.status import run_words
from nexusform.planning.instances.instance import Instance
from nexusform.words import form, listed


def carry_out_runs(placements: Sequence[PlacementPlan], hub: Hub, roster: Roster) -> Iterator[Diagnostic]:
    """Carry out the staged runs of this plan, in planning order."""
    by_key = {placement.key: placement for placement in placements}
    for instance, run in hub.runs:
        yield from _run(instance, run, by_key.get(run.key_of(run.placement)), hub, roster)


class _Refused(Struct, frozen=True):
    """Why a run does nothing: the kind of warning, and its text."""

    kind: str
    text: str


class _Terms(Struct, frozen=True):
    """What a run goes by: what it fixed, and the stages that follow from it."""

    plan: RunPlan
    resource_snapshot: int
    fixed: BegunRun


def _run(
    instance: Instance, run: FleetRun, placement: PlacementPlan | None, hub: Hub, roster: Roster
) -> Iterator[Diagnostic]:
    """Carry out one staged run as far as it gets: the placement holds and has rolled out what it reaches."""

    def warned(kind: str, text: str) -> Diagnostic:
        return instance.problem(Problem((), kind, text, Severity.WARNING))

    if placement is None or not placement.asked.external:
        obstacle = "no such placement" if placement is None else "its strategy is not External"
        yield warned("staged-run-has-nothing-to-do", f"{run.placement}: {obstacle}.")
        return
    begun = _begun(instance, run, hub)
    if begun.ended:
        return
    terms = _terms(run, placement, hub, roster, begun)
    if isinstance(terms, _Refused):
        yield warned(terms.kind, terms.text)
        return
    instance.private = terms.fixed.note()
    yield from _useless_approvals(instance, run, terms)
    if run.state is not RunState.RUN:
        return
    yield from _skipped_stages(instance, terms)
    yield from _by_chance(instance, run, placement)
    yield from _only_deletes(instance, terms)
    _fix_overrides(placement, terms)
    failures = _failures(placement, terms)
    outcome = execute(
        terms.plan,
        run.name,
        placement.held,
        terms.resource_snapshot,
        approved=run.approvals,
        failing=frozenset(failures),
        finished=frozenset(begun.done),
    )
    updated = [step.clusters for step in outcome.steps if step.kind is not StepKind.APPROVAL]
    done = sorted({*begun.done, *chain.from_iterable(updated)} - {*outcome.stuck})
    ended = not outcome.waits_for and not outcome.stuck
    instance.private = replace(terms.fixed, done=tuple(done), ended=ended).note()
    steps = steps_of(terms.plan, run.name, frozenset(failures))
    timeline = run_timeline(placement, run.name, terms.resource_snapshot, steps, outcome)
    placement.rolled_out = placement.rolled_out.with_timeline(timeline)
    placement.held = outcome.bindings
    for step in outcome.steps:
        if step.kind is StepKind.UPDATE:
            updated_now = set(step.clusters) - {*begun.done}
            words = run_words(run.resource_index, run.name)
            changed = _changed_by(placement, terms, updated_now)
            rolled_out = placement.rolled_out
            brought_by = {**rolled_out.brought_by, **dict.fromkeys(changed, words)}
            clusters = rolled_out.clusters | updated_now
            placement.rolled_out = replace(rolled_out, clusters=clusters, brought_by=brought_by)
    if outcome.stuck:
        yield warned("staged-run-is-stuck", _stuck_text(outcome.stuck, failures))
    if outcome.waits_for:
        yield warned("staged-run-waits-for-an-approval", _waiting_text(outcome.waits_for))


def _changed_by(placement: PlacementPlan, terms: _Terms, clusters: set[str]) -> Iterator[str]:
    """Those of the clusters whose bindings a run changes: a hub leaves one that says all of it already as it
    is, with what it says of the run that brought it.
    """
    before = {binding.cluster: binding for binding in placement.asked.prior}
    for cluster in clusters:
        binding, content = before.get(cluster), placement.standing.contents.on_cluster.get(cluster)
        brought = placement.stock.rendered(terms.resource_snapshot, cluster)
        if (
            binding is None
            or binding.state is not BindingState.BOUND
            or binding.deleting
            or binding.resource_snapshot != terms.resource_snapshot
            or cluster in placement.rolled_out.clusters | placement.given_up
            or content is None
            or brought is None
            or not content.names_like(brought)
            or cluster in placement.unsure
            or placement.asked.applied_as(cluster) != placement.asked.written.apply
        ):
            yield cluster


def _stuck_text(stuck: Sequence[str], failures: Mapping[str, str]) -> str:
    return (
        f"The run goes no further than {listed(stuck, 4)}: {failures[stuck[0]]}. Where applying fails it "
        "goes on by itself once that is mended; where an override does, mend it and make another run."
    )


def _waiting_text(approval: str) -> str:
    return (
        f'The run stops before {approval}; add "{approval}" to its approvals, or write an approval request '
        "of that name, to go on."
    )


def _begun(instance: Instance, run: FleetRun, hub: Hub) -> BegunRun:
    """What a run fixed when it began: as a hub shows it, else as state noted it."""
    if instance.replaced or run.key_of(run.name) in hub.shown.asked:
        return BegunRun()
    shown = hub.shown.runs.get(run.key_of(run.name))
    noted = instance.prior.private if instance.prior is not None else None
    of_state = convert(noted or {}, BegunRun)
    if shown is None:
        return of_state
    overrides, per_cluster = _taken_along(run, hub)
    if overrides is None:  # not all of the snapshots were captured; state may have noted what they are
        overrides, per_cluster = of_state.overrides, of_state.picked
    return replace(shown, overrides=overrides, picked=per_cluster)


def _taken_along(
    run: FleetRun, hub: Hub
) -> tuple[tuple[FleetOverride, ...] | None, dict[str, tuple[int, ...]] | None]:
    """The overrides that a hub says a run took along, and by cluster which of them it gets, by position."""
    by_cluster = hub.shown.taken_along.get(run.key_of(run.name)) or {}
    names = sorted({*chain.from_iterable(by_cluster.values())})
    if any(name not in hub.shown.overrides for name in names):
        return None, None
    position_of = {name: position for position, name in enumerate(names)}
    positions = {
        cluster: tuple(position_of[name] for name in listed) for cluster, listed in by_cluster.items()
    }
    return tuple(hub.shown.overrides[name] for name in names), positions


def _useless_approvals(instance: Instance, run: FleetRun, terms: _Terms) -> Iterator[Diagnostic]:
    """The approvals of a run that none of its stages asks for."""
    written = (instance.config or {}).get("approvals")
    if not isinstance(written, list | tuple | set | frozenset):
        return
    asked_for: list[str] = []
    for stage in terms.plan.stages:
        if any(task.type == APPROVAL for task in stage.before):
            asked_for.append(f"{run.name}-before-{stage.name}")
        if any(task.type == APPROVAL for task in stage.after):
            asked_for.append(f"{run.name}-after-{stage.name}")
    choice = f"It asks for {listed(asked_for)}." if asked_for else "No stage of it asks for any."
    for name in sorted(set(written) - set(asked_for)):
        text = f'The run never asks for "{name}".{did_you_mean(name, asked_for)} {choice}'
        problem = Problem(("approvals",), "approval-request-is-of-no-use", text, Severity.WARNING)
        yield instance.problem(problem)


def _skipped_stages(instance: Instance, terms: _Terms) -> Iterator[Diagnostic]:
    """The stages that a run skips with their tasks, as nothing is to be updated in them."""
    stages = terms.plan.stages
    names = [stage.name for stage in stages if not stage.clusters and (stage.before or stage.after)]
    if names:
        text = (
            f"No cluster is in {form(len(names), 'stage')} {listed(names, 4)}: the run skips "
            f"{form(len(names), 'it', 'them')}, asks for no approval and waits for nothing there."
        )
        yield instance.problem(Problem((), "staged-run-skips-a-stage", text, Severity.WARNING))


def _by_chance(instance: Instance, run: FleetRun, placement: PlacementPlan) -> Iterator[Diagnostic]:
    """A warning where a run names an old snapshot of a placement that has had more than a hub keeps: which
    of them remain is chance. Seen on a running hub: of eight under a limit of three, 4, 6 and 8 remained.
    """
    newest, limit = placement.stock.snapshots[-1].index, placement.asked.written.revision_history_limit
    shown = {int(each["index"]) for each in placement.asked.shown.get("resource_snapshots") or ()}
    if run.resource_index in (None, newest) or newest < limit:
        return
    if run.resource_index in shown and newest in shown:
        return  # the hub has it, and makes none that could push it out
    text = (
        f"The run names resource snapshot {run.resource_index} of {run.placement}, which has had "
        f"{newest + 1}. A hub keeps about {limit} (revision_history_limit), and which old ones remain "
        "is chance: it may be gone. Look with kubectl get clusterresourcesnapshots, or bring the old "
        "objects back as new content."
    )
    brief = f"whether a hub still has resource snapshot {run.resource_index} is chance"
    path = ("resource_snapshot_index",) if (instance.config or {}).get("resource_snapshot_index") else ()
    problem = Problem(path, "old-snapshot-may-be-gone", text, Severity.WARNING, brief=brief)
    yield instance.problem(problem)


def _only_deletes(instance: Instance, terms: _Terms) -> Iterator[Diagnostic]:
    """A warning where a run updates no cluster: what it deletes goes, and a hub calls it failed all the same.
    Source: seen on a running hub ("no scheduled or to-be-deleted bindings found").
    """
    if terms.plan.deletes and not any(stage.clusters for stage in terms.plan.stages):
        text = (
            f"The run updates no cluster and removes {listed(terms.plan.deletes, 4)}. A hub does so and then "
            "says Succeeded False of it, as nothing is left to look at: that is no failure."
        )
        brief = "it only deletes, which a hub does and calls failed (Succeeded False)"
        yield instance.problem(Problem((), "staged-run-only-deletes", text, Severity.WARNING, brief=brief))


def _failures(placement: PlacementPlan, terms: _Terms) -> dict[str, str]:
    """The clusters of a run on which what it brings fails, and why."""
    failures = dict.fromkeys(_refusing(placement, terms), "what is applied there fails")
    for stage in terms.plan.stages:
        for cluster in stage.clusters:
            rendered = placement.stock.rendered(terms.resource_snapshot, cluster)
            if rendered is not None and rendered.failure:
                failures[cluster] = rendered.failure
    return failures


def _refusing(placement: PlacementPlan, terms: _Terms) -> frozenset[str]:
    """The clusters on which applying what a run brings fails: as the configuration says, or as a hub shows
    of what the run brought.
    """
    if placement.asked.written.report_diff:
        return frozenset()
    in_run = frozenset(chain.from_iterable(stage.clusters for stage in terms.plan.stages))
    shown = placement.asked.shown.get("bindings") or {}
    failed = {
        binding.cluster
        for binding in placement.asked.prior
        if binding.resource_snapshot == terms.resource_snapshot
        and (shown.get(binding.cluster) or {}).get("standing") == FAILED
    }
    return in_run & (failed | placement.offer.clusters.failing) - {*terms.fixed.done}


def _terms(
    run: FleetRun, placement: PlacementPlan, hub: Hub, roster: Roster, begun: BegunRun
) -> _Terms | _Refused:
    """What a run fixes when it begins; `begun` is what it fixed before, where it began in an earlier plan."""
    strategy = hub.strategies.get(run.key_of(run.strategy))
    if strategy is None and begun.strategy is None:
        text = f'There is no staged update strategy "{run.strategy}".'
        return _Refused("staged-run-has-no-strategy", text)
    stages = begun.strategy if strategy is None or begun.strategy is not None else strategy.stages
    plan = initialize(
        placement.held,
        placement.asked.snapshot,
        _cluster_count(placement),
        placement.scheduled.fulfilled,
        roster.members,
        stages or (),
    )
    if isinstance(plan, RunProblem):
        return _Refused("staged-run-cannot-begin", f"{plan.message}.")
    outdated = _outdated(run, placement, plan, begun)
    if outdated:
        return _Refused(
            "staged-run-is-aborted", f"{outdated}. Make another run, or replace it with -replace."
        )
    index = _resource_snapshot(run, placement, begun)
    snapshot = placement.stock.snapshot(index)
    if snapshot is None:
        text = f"no resourceSnapshots with index `{index}` found for placement `{placement.key}`"
        return _Refused("staged-run-cannot-begin", f"{text}.{_there_are(placement)}")
    overrides, per_cluster = begun.overrides, begun.picked
    if overrides is None or per_cluster is None:
        overrides, per_cluster = _overrides_of(placement, plan, snapshot)
    fixed = BegunRun(
        policy_snapshot=plan.policy_snapshot,
        cluster_count=plan.cluster_count,
        resource_snapshot=index,
        strategy=stages,
        stages=tuple((stage.name, stage.clusters) for stage in plan.stages),
        apply=placement.asked.written.apply,
        overrides=overrides,
        picked=per_cluster,
        done=begun.done,
    )
    return _Terms(plan, index, fixed)


def _outdated(run: FleetRun, placement: PlacementPlan, plan: RunPlan, begun: BegunRun) -> str:
    """Why a run that began earlier goes no further, "" when it does."""
    # What nobody noted is taken as it is now.
    snapshot = plan.policy_snapshot if begun.policy_snapshot is None else begun.policy_snapshot
    count = plan.cluster_count if begun.cluster_count is None else begun.cluster_count
    if (snapshot, count) != (plan.policy_snapshot, plan.cluster_count):
        return (
            f"{run.name} began under policy snapshot {snapshot} with {count} cluster(s); now it is "
            f"{plan.policy_snapshot} with {plan.cluster_count}"
        )
    if begun.apply is not None and begun.apply != placement.asked.written.apply:
        return f"The applyStrategy in the updateRun is outdated: {run.name} began with another"
    for number, (stage, (_, clusters)) in enumerate(zip(plan.stages, begun.stages or (), strict=False)):
        if stage.clusters != clusters:
            listing = f"new: {', '.join(stage.clusters)}, existing: {', '.join(clusters)}"
            return f"The clusters in index `{number}` stage {stage.name} have changed, {listing}"
    return ""


def _overrides_of(
    placement: PlacementPlan, plan: RunPlan, snapshot: ResourceSnapshot
) -> tuple[tuple[FleetOverride, ...], dict[str, tuple[int, ...]]]:
    """The overrides that a run takes along, and by cluster which of them it gets, by position among these."""
    by_cluster: dict[str, Sequence[FleetOverride]] = {}
    for cluster in chain.from_iterable(stage.clusters for stage in plan.stages):
        of_cluster = picked(
            placement.offer.overrides, snapshot.objects, placement.offer.clusters.labels[cluster]
        )
        if of_cluster:
            by_cluster[cluster] = of_cluster
    # Overrides hold mappings, so they are told apart by their identity.
    used = {id(override) for override in chain.from_iterable(by_cluster.values())}
    taken_along = tuple(override for override in placement.offer.overrides if id(override) in used)
    position_of = {id(override): position for position, override in enumerate(taken_along)}
    positions = {}
    for cluster, overrides in by_cluster.items():
        positions[cluster] = tuple(position_of[id(override)] for override in overrides)
    return taken_along, positions


def _fix_overrides(placement: PlacementPlan, terms: _Terms) -> None:
    """From now on its clusters get what the run brings, with the overrides that it took along."""
    overrides, snapshot = terms.fixed.overrides or (), placement.stock.snapshot(terms.resource_snapshot)
    assert snapshot is not None, "a run of a missing snapshot does not begin"
    renders: dict[tuple[int, ...], Renders] = {}
    for cluster in chain.from_iterable(stage.clusters for stage in terms.plan.stages):
        positions = (terms.fixed.picked or {}).get(cluster, ())
        if positions not in renders:
            of_cluster = tuple(overrides[position] for position in positions)
            renders[positions] = Renders(snapshot.objects, of_cluster, placement.offer.clusters.labels)
        placement.stock.fix(cluster, terms.resource_snapshot, renders[positions])


def _cluster_count(placement: PlacementPlan) -> int | None:
    """How many clusters the placement asks for; None: all."""
    if placement.asked.written.kind is PlacementType.PICK_N:
        return placement.asked.snapshot.number_of_clusters
    if placement.asked.written.kind is PlacementType.PICK_FIXED:
        return len(placement.asked.written.policy.cluster_names) if placement.asked.written.policy else 0
    return None


def _resource_snapshot(run: FleetRun, placement: PlacementPlan, begun: BegunRun) -> int:
    """The number of the snapshot that a run brings: the one it names, or the one it took when it began."""
    if run.resource_index is not None:
        return run.resource_index
    if begun.resource_snapshot is not None:
        return begun.resource_snapshot
    return placement.stock.take(placement.asked.written.revision_history_limit).index


def _there_are(placement: PlacementPlan) -> str:
    """Which snapshots a run may name."""
    numbers = [str(snapshot.index) for snapshot in placement.stock.snapshots]
    listed = f" There are: {', '.join(numbers)}." if numbers else " There is none yet."
    return f"{listed} A run without resource_snapshot_index takes one when it begins."
