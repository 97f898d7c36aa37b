"""The placement rows of fleet bindings: what happens on which cluster, and why; and rollouts as timelines:
what happens to which clusters at once, in which order, and what is waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from nexusform.address import Address
from nexusform.domains.fleet.planning.contents import has_resources, read_bindings
from nexusform.domains.fleet.planning.placement import PlacementPlan
from nexusform.domains.fleet.planning.world import FleetMemberState
from nexusform.domains.fleet.scheduling.bindings import Ask, Binding, BindingState, PlacementType, Policy
from nexusform.domains.fleet.scheduling.decisions import selected
from nexusform.domains.fleet.scheduling.rollout import Wave
from nexusform.domains.fleet.scheduling.staged import RunOutcome, RunStep, StepKind
from nexusform.domains.fleet.scheduling.watcher import Trigger, observations, trigger_for
from nexusform.planning.instances.instance import Instance
from nexusform.plans.plan import (
    FORGOTTEN,
    Action,
    PlacementAction,
    PlacementChange,
    Rollout,
    RolloutStep,
)
from nexusform.scheduling.decision import Refusal
from nexusform.words import duration

KIND: Final = "binding"
REAPPLIED: Final = (
    "the apply strategy changed: it reaches all clusters at once, whatever max_unavailable says"
)
KEPT: Final[Mapping[PlacementType, str]] = {
    PlacementType.PICK_N: "a fulfilled PickN is not re-evaluated",
    PlacementType.PICK_ALL: "a PickAll looks again at what it holds only when its policy changes",
    PlacementType.PICK_FIXED: "a PickFixed keeps the clusters that it names",
}
NOT_MOVED: Final = "what holds a placement already is not scheduled again"
CHANGES: Final[Mapping[Trigger, str]] = {
    Trigger.RESOURCES_CHANGED: "the selected resources changed",
    Trigger.OVERRIDES_CHANGED: "overrides changed",
}
REASONS: Final[Mapping[Trigger, str]] = {
    Trigger.PLACEMENT_CREATED: "the placement is new",
    Trigger.POLICY_CHANGED: "the policy changed",
    Trigger.NUMBER_INCREASED: "number_of_clusters was raised",
    Trigger.NUMBER_DECREASED: "number_of_clusters was lowered",
    Trigger.CLUSTER_JOINED: "a cluster joined the fleet",
    Trigger.CLUSTER_BECAME_ELIGIBLE: "a cluster became eligible",
    Trigger.CLUSTER_LABELS_CHANGED: "a cluster's labels changed",
    Trigger.CLUSTER_PROPERTIES_CHANGED: "a cluster's properties changed",
    Trigger.TAINT_REMOVED: "a cluster lost a taint",
    Trigger.CLUSTER_LEFT: "a cluster left the fleet",
    Trigger.EVICTED: "an eviction was executed",
    Trigger.BINDING_DELETED: "a binding was deleted on the hub",
    Trigger.PLACEMENT_REMOVED: "the placement is removed",
    Trigger.RESOURCES_CHANGED: "the selected resources changed; nothing is rescheduled",
    Trigger.STRATEGY_CHANGED: "the rollout strategy changed; nothing is rescheduled",
    Trigger.OVERRIDES_CHANGED: "overrides changed; nothing is rescheduled",
    Trigger.STAGED_RUN: "a staged run rolls it out",
}


def binding_rows(
    placement: PlacementPlan,
    members: Mapping[str, FleetMemberState],
    rejected: tuple[Refusal, ...] = (),
) -> Iterator[PlacementChange]:
    """The rows of one placement: what goes, then what comes or changes, then what is kept."""
    before = {binding.cluster: binding for binding in placement.asked.prior}
    after = {binding.cluster: binding for binding in placement.held}
    for cluster in sorted(before):
        if cluster not in after or cluster in placement.given_up:
            trigger, turn = _why_gone(placement, cluster), placement.turn_of(cluster)
            yield _removed(placement.asked.instance.address, before[cluster], trigger, turn)
    kept_rows = []
    for cluster, binding in sorted(after.items()):
        prior = before.get(cluster) if cluster not in placement.given_up else None
        row = _present(placement, prior, binding, members, rejected)
        if row.action is PlacementAction.KEEP:
            kept_rows.append(row)
        else:
            yield row
    yield from kept_rows


def removed_rows(instance: Instance) -> Iterator[PlacementChange]:
    """The bindings of a placement that goes, or of the object that a new one replaces; of one that is
    forgotten they stay on the hub.
    """
    for binding in read_bindings(instance.before or {}):
        row = _removed(instance.address, binding, Trigger.PLACEMENT_REMOVED)
        if instance.action is Action.FORGET:
            row = replace(row, action=PlacementAction.FORGET, reason=FORGOTTEN)
        yield row


def _why_gone(placement: PlacementPlan, cluster: str) -> Trigger:
    """Why a placement leaves a cluster: an eviction, else what its cycles noted, else what takes it away."""
    if cluster in placement.evicted:
        return Trigger.EVICTED
    if cluster in placement.scheduled.released:
        return placement.scheduled.released[cluster]
    by_run = placement.asked.external and placement.turn_of(cluster) is not None
    return Trigger.STAGED_RUN if by_run else Trigger.POLICY_CHANGED


def _removed(
    address: Address, binding: Binding, trigger: Trigger, turn: tuple[str, RolloutStep] | None = None
) -> PlacementChange:
    row = PlacementChange(
        address=address,
        kind=KIND,
        object=binding.cluster,
        action=PlacementAction.REMOVE,
        source=binding,
        target=None,
        trigger=str(trigger),
        cluster=binding.cluster,
        reason=_with_turn(REASONS.get(trigger, ""), turn),
        scores=_scores(binding),
    )
    return _in_turn(row, turn)


def _in_turn(row: PlacementChange, turn: tuple[str, RolloutStep] | None) -> PlacementChange:
    """A row that says when it is its binding's turn."""
    if turn is None:
        return row
    step = turn[1]
    return replace(row, stage=step.stage, group=step.group, waits_for=step.waits_for)


def _with_turn(reason: str, turn: tuple[str, RolloutStep] | None) -> str:
    """The reason, with the turn in words: `wave 2, after 60s`, `staged run r, stage prod, group 1`."""
    if turn is None:
        return reason
    cause, step = turn
    place = f"{cause}, stage {step.stage}, group {step.group}" if step.stage else f"wave {step.group}"
    wait = f", after {step.waits_for}" if step.waits_for else ""
    return f"{reason}; {place}{wait}" if reason else f"{place}{wait}"


def _scores(binding: Binding) -> dict[str, int]:
    if binding.affinity_score is None or binding.topology_spread_score is None:
        return {}
    return {
        "topology_spread_score": binding.topology_spread_score,
        "affinity_score": binding.affinity_score,
    }


def _present(
    placement: PlacementPlan,
    prior: Binding | None,
    binding: Binding,
    members: Mapping[str, FleetMemberState],
    rejected: tuple[Refusal, ...],
) -> PlacementChange:
    """The row of a binding that is there after the plan; `prior` is what it was, None where it is new."""
    action, trigger, reason = _what_happens(placement, prior, binding, members)
    turn = placement.turn_of(binding.cluster)
    if action in (PlacementAction.PLACE, PlacementAction.UPDATE):
        reason = _with_turn(reason, turn)
    row = PlacementChange(
        address=placement.asked.instance.address,
        kind=KIND,
        object=binding.cluster,
        action=action,
        source=prior,
        target=binding,
        trigger=trigger,
        cluster=binding.cluster,
        reason=reason,
        scores=_scores(binding),
        rejected=rejected,
    )
    return _in_turn(row, turn)


def _what_happens(
    placement: PlacementPlan,
    prior: Binding | None,
    binding: Binding,
    members: Mapping[str, FleetMemberState],
) -> tuple[PlacementAction, str, str]:
    """What happens to a binding, its trigger and the reason in words."""
    cluster = binding.cluster
    if prior is None:
        trigger = placement.scheduled.picked.get(cluster, Trigger.PLACEMENT_CREATED)
        return PlacementAction.PLACE, str(trigger), f"{REASONS.get(trigger, '')}: {selected(binding).reason}"
    rolled_overrides = cluster in placement.rolled_out.clusters and placement.reoverridden(binding)
    new_resources = prior.resource_snapshot != binding.resource_snapshot
    if prior.state is not binding.state or new_resources or rolled_overrides:
        trigger = _trigger_of_update(placement, prior, binding)
        return PlacementAction.UPDATE, str(trigger), REASONS.get(trigger, "")
    if placement.asked.reapplied and has_resources(binding):
        return PlacementAction.UPDATE, str(Trigger.STRATEGY_CHANGED), REAPPLIED
    if prior.policy_snapshot != binding.policy_snapshot:
        return PlacementAction.KEEP, str(Trigger.POLICY_CHANGED), "picked again under the changed policy"
    trigger_text, reason = _kept(placement, binding, members.get(cluster))
    return PlacementAction.KEEP, trigger_text, reason


def _trigger_of_update(placement: PlacementPlan, prior: Binding, binding: Binding) -> Trigger:
    """Why a binding that stays is changed: it is given up, picked again, or gets other resources."""
    if binding.state is BindingState.UNSCHEDULED:
        return _why_gone(placement, binding.cluster)
    if prior.state is BindingState.UNSCHEDULED and binding.cluster in placement.scheduled.picked:
        return placement.scheduled.picked[binding.cluster]
    return Trigger.STAGED_RUN if placement.asked.external else placement.other_trigger


def _kept(placement: PlacementPlan, binding: Binding, member: FleetMemberState | None) -> tuple[str, str]:
    """The trigger and the reason of a binding that stays. Triggers are what was observed of its cluster and
    must not move it, and a staged run that will come to it; the rest is why nothing happens, and such rows
    are listed with all that stay.
    """
    turn = placement.turn_of(binding.cluster) if placement.asked.external else None
    if turn is not None and turn[1].status == LATER:
        return str(Trigger.STAGED_RUN), f"{_with_turn('', turn)}: not reached by this plan"
    if placement.standing.left_to_runs is not None and has_resources(binding):
        change = CHANGES[placement.standing.left_to_runs]
        return "", f"{change}; kept: External, so a staged run has to bring it"
    moved = placement.moved_on_the_hub[0].get(binding.cluster)
    if moved is not None:
        how = f"moved on the hub: {moved} -> {binding.cluster}" if moved else "came on the hub"
        return str(Trigger.MOVED_ON_THE_HUB), how
    if (
        binding.state is BindingState.UNSCHEDULED
        and not placement.asked.external
        and binding.cluster in placement.left_members
    ):
        return "", "its member left; the binding goes when another cluster makes room"
    if binding.cluster in placement.overrides_wait:
        return "", "kept: overrides reach it with the next change of content or bindings"
    if member is None or member.now is None or member.before is None or member.before == member.now:
        return "", ""
    ask = Ask(placement.asked.written.policy or Policy(), placement.asked.written.namespace)
    changes = observations(member.before, member.now, ask)
    if changes:
        return str(changes[0].trigger), f"{changes[0].reason}; kept: {why_kept(placement)}"
    if trigger_for(member.before, member.now) is not None and not placement.scheduled.ran:
        return "", f"kept: {why_kept(placement)}"
    return "", ""


def why_kept(placement: PlacementPlan) -> str:
    """Why a placement does not leave what it holds, though it would be placed otherwise today."""
    kind = placement.asked.written.kind
    return NOT_MOVED if kind is PlacementType.PICK_N and not placement.scheduled.fulfilled else KEPT[kind]


# --- timelines -----------------------------------------------------------------------------------

DONE, PLANNED, WAITING, STUCK, LATER = "done", "planned", "waiting", "stuck", "later"
_UPDATE: Final = str(StepKind.UPDATE)


def rolling_timeline(placement: PlacementPlan) -> Rollout | None:
    """The waves of a rolling update; None where one wave does all."""
    waves = placement.rolled_out.waves
    if len(waves) <= 1:
        return None
    index = placement.stock.snapshots[-1].index if placement.stock.snapshots else None
    steps = tuple(_wave_steps(waves, placement.fails_now))
    return Rollout(placement.asked.instance.address, "rolling update", index, steps)


def _wave_steps(waves: Sequence[Wave], failing: frozenset[str]) -> Iterator[RolloutStep]:
    """The steps of every wave, with the seconds after which it begins: delete, update, wait for the next.
    Clusters on which what is brought fails stand apart.
    """
    begins: float = 0
    waited = ""
    for number, wave in enumerate(waves, 1):
        updated = tuple(sorted((*wave.updated, *wave.bound)))
        if wave.deleted:
            yield RolloutStep(str(StepKind.DELETE), "", number, wave.deleted, begins, waits_for=waited)
        fails = tuple(cluster for cluster in updated if cluster in failing)
        works = tuple(cluster for cluster in updated if cluster not in failing)
        if works:
            yield RolloutStep(_UPDATE, "", number, works, begins, waits_for=waited)
        if fails:
            yield RolloutStep(_UPDATE, "", number, fails, begins, waits_for=waited, status=STUCK)
        waited = ""
        if wave.wait_seconds and number < len(waves):
            yield RolloutStep(str(StepKind.WAIT), "", number, (), begins, wave.wait_seconds)
            begins += wave.wait_seconds
            waited = duration(wave.wait_seconds)


def run_timeline(
    placement: PlacementPlan, run: str, resource_snapshot: int, steps: Sequence[RunStep], outcome: RunOutcome
) -> Rollout:
    """All steps of a staged run, of which `outcome` says how far it gets in this plan. To be called while the
    placement holds what it held before the run.
    """
    up = {
        binding.cluster
        for binding in placement.held
        if binding.state is BindingState.BOUND and binding.resource_snapshot == resource_snapshot
    }
    listed = tuple(_run_steps(steps, frozenset(up), outcome))
    return Rollout(placement.asked.instance.address, f"staged run {run}", resource_snapshot, listed)


def _run_steps(steps: Sequence[RunStep], up: frozenset[str], outcome: RunOutcome) -> Iterator[RolloutStep]:
    """Every step with its place in time and what it waits for. `up` are the clusters that are done before."""
    begins: float = 0
    pending: float = 0  # the tasks of a stage are waited for side by side
    stage, group = "", 0
    waited: list[str] = []
    for number, step in enumerate(steps):
        if step.stage != stage:
            stage, group = step.stage, 0
        if step.kind is StepKind.APPROVAL:
            waited.append(step.task)
        elif step.kind is StepKind.WAIT:
            pending = max(pending, step.wait_seconds)
            waited.append(duration(step.wait_seconds))
        else:
            group += 1
            begins, pending = begins + pending, 0
        tells = bool(step.clusters and waited)
        yield RolloutStep(
            kind=str(step.kind),
            stage=stage,
            group=group if step.clusters else 0,
            clusters=step.clusters,
            begins=begins,
            wait_seconds=step.wait_seconds,
            waits_for=", ".join(waited) if tells else step.task,
            status=_step_status(step, number, up, outcome),
        )
        if tells:
            waited = []


def _step_status(step: RunStep, number: int, up: frozenset[str], outcome: RunOutcome) -> str:
    """How far this plan gets with a step, the `number`th of its run."""
    steps_taken = len(outcome.steps)
    if number >= steps_taken:
        asks_now = step.kind is StepKind.APPROVAL and number == steps_taken
        return WAITING if asks_now and outcome.waits_for else LATER
    if not set(step.clusters).isdisjoint(outcome.stuck):
        return STUCK
    return DONE if step.kind is StepKind.UPDATE and up.issuperset(step.clusters) else PLANNED
