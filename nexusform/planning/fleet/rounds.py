"""The rounds of a fleet's plan: who is queued and why, cycles until they settle, pods, and again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.importers.fleet_model import EXTERNAL
from nexusform.planning.fleet.overrides import render
from nexusform.planning.fleet.placement import PlacementPlan
from nexusform.planning.fleet.world import FleetMemberState, Pods, Render, member_of
from nexusform.scheduling.decision import Refusal
from nexusform.scheduling.fleet import cycle
from nexusform.scheduling.fleet.explanation import Explanation, explain
from nexusform.scheduling.fleet.model import Binding, BindingState, Member
from nexusform.scheduling.fleet.roster import Roster
from nexusform.scheduling.fleet.watcher import MemberChange, Occasion, Trigger, queued

MOST_ROUNDS = 1000


class Rounds(Struct):
    """`roster` is the fleet as it stood after the last round; `placed` are the (placement, cluster) whose
    pods were looked at.
    """

    roster: Roster
    placed: set[tuple[str, str]] = field(default_factory=set)

    def explanation(self, placement: PlacementPlan) -> Explanation:
        """What every rule says of every cluster after the last round."""
        return explain(
            placement.held,
            self.roster,
            placement.policy_in(self.roster),
            placement.snapshot,
            placement.written.namespace,
        )

    def refusals(self, placements: Sequence[PlacementPlan]) -> dict[Address, tuple[Refusal, ...]]:
        """The clusters that each placement's rules refuse."""
        refusals: dict[Address, tuple[Refusal, ...]] = {}
        for placement in placements:
            held = {binding.cluster for binding in placement.held}
            verdicts = [each for each in self.explanation(placement).clusters if each.cluster not in held]
            refused = chain.from_iterable(verdict.refusals for verdict in verdicts)
            refusals[placement.instance.address] = tuple(refused)
        return refusals


def run_rounds(
    placements: Sequence[PlacementPlan], members: Mapping[str, FleetMemberState], pods: Pods
) -> Rounds:
    """Settle all placements. It ends because later rounds only ever add bindings."""
    before = [member.before for member in members.values() if member.before is not None]
    roster = _roster(members)
    placed: set[tuple[str, str]] = set()
    edits = True
    for _ in range(MOST_ROUNDS):
        watched = [placement.watched() for placement in placements]
        changes_of = {each.placement: each.changes for each in queued(before, roster.members, watched)}
        changed = False
        for placement in placements:
            changes = changes_of.get(placement.address, ())
            dangling = _dangling(placement, roster)
            if changes or dangling or (edits and placement.queued_by_itself):
                changed |= _settle(placement, roster, changes, members)
        edits = False
        place_pods(placements, members, pods, placed)
        if not changed:
            break
        before = list(roster.members)
        if not _refreshed(members, pods):
            break
        roster = _roster(members)
    return Rounds(roster, placed)


def _roster(members: Mapping[str, FleetMemberState]) -> Roster:
    return Roster([member.now for member in members.values() if member.now is not None])


def _dangling(placement: PlacementPlan, roster: Roster) -> bool:
    """Whether it holds a cluster that is gone, also one that left when this placement was not planned."""
    return any(
        binding.cluster not in roster.position and binding.state is not BindingState.UNSCHEDULED
        for binding in placement.held
    )


def _settle(
    placement: PlacementPlan,
    roster: Roster,
    changes: tuple[MemberChange, ...],
    members: Mapping[str, FleetMemberState],
) -> bool:
    leaving = {change.member for change in changes if change.trigger is Trigger.CLUSTER_LEFT}
    leaving |= {member.name for member in roster.members if member.leaving}
    held_clusters = [binding.cluster for binding in placement.held]
    occasion = Occasion(
        created=placement.created and not placement.ran,
        policy_changed=placement.policy_changed and not placement.ran,
        number_increased=placement.number_increased and not placement.ran,
        evicted=placement.evicted,
        left=frozenset(
            cluster for cluster in held_clusters if cluster in leaving or cluster not in roster.position
        ),
        members={change.member: change.trigger for change in changes if change.member in members},
        other=placement.other_trigger,
    )
    held = placement.held
    if not placement.ran and placement.evicted:
        held = tuple(replace(binding, deleting=binding.cluster in placement.evicted) for binding in held)
    result = cycle.settle(
        held, roster, placement.policy_in(roster), placement.snapshot, placement.written.namespace
    )
    return placement.take(result, occasion)


def place_pods(
    placements: Sequence[PlacementPlan],
    members: Mapping[str, FleetMemberState],
    pods: Pods,
    placed: set[tuple[str, str]],
) -> None:
    """Predict the pods of bindings that this plan has not looked at yet; those of bindings that are gone
    have left before.
    """
    for placement in placements:
        with_objects = {binding.cluster for binding in placement.held if _has_objects(placement, binding)}
        for cluster in (placement.instance.before or {}).get("workloads") or {}:
            anew = placement.created or cluster in placement.evicted
            if cluster not in with_objects or (anew and (placement.address, cluster) not in placed):
                pods.leave(placement.address, cluster)
    for placement in placements:
        prior = placement.prior_attributes.get("workloads") or {}
        for binding in placement.held:
            state = members.get(binding.cluster)
            key = (placement.address, binding.cluster)
            if state is None or state.cluster is None or key in placed:
                continue
            if not _has_objects(placement, binding):
                continue
            placed.add(key)
            rendered = placement.renders.get(binding.cluster)
            workloads = pods.place(
                placement.address,
                state.cluster.id,
                rendered.manifests if rendered is not None else placement.selected,
                prior.get(binding.cluster) or {},
                hub=placement.selected,
                overridden=binding.cluster in placement.outdated,
                render=_renderer(placement, state),
            )
            if workloads:
                placement.workloads[binding.cluster] = workloads


def _renderer(placement: PlacementPlan, state: FleetMemberState) -> Render | None:
    """What the placement's overrides make of objects on one cluster; None without any."""
    now = state.now
    if not placement.overrides or now is None:
        return None
    return lambda manifests: render(manifests, placement.overrides, now.name, now.labels).manifests


def _has_objects(placement: PlacementPlan, binding: Binding) -> bool:
    """Whether the cluster of a binding has the objects, or will have when the rollout has settled. Under
    External only a staged run brings or takes them.
    """
    if placement.written.strategy != EXTERNAL or binding.state is BindingState.BOUND:
        return binding.state is not BindingState.UNSCHEDULED
    return binding.cluster in (placement.prior_attributes.get("workloads") or {})


def _refreshed(members: Mapping[str, FleetMemberState], pods: Pods) -> bool:
    """Read the derived figures anew; whether any of them changed."""
    changed = False
    for state in members.values():
        if state.written is None or state.cluster is None or state.now is None:
            continue
        now: Member = member_of(state.written, state.cluster, pods.requests(state.cluster.id))
        changed |= now != state.now
        state.now = now
    return changed
