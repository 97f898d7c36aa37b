"""The rounds of a fleet's plan: who is queued and why, cycles until they settle, pods, and again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.domains.fleet.planning.not_looked_at import not_looked_at
from nexusform.domains.fleet.planning.ownership import Direct, Sharing, settle_owners, sharing_of
from nexusform.domains.fleet.planning.placement import PlacementPlan
from nexusform.domains.fleet.planning.world import FleetMemberState, Pods, member_of
from nexusform.domains.fleet.scheduling import cycle
from nexusform.domains.fleet.scheduling.bindings import Binding, BindingState, Member
from nexusform.domains.fleet.scheduling.explanation import PlacementExplanation, explain
from nexusform.domains.fleet.scheduling.roster import Roster
from nexusform.domains.fleet.scheduling.watcher import MemberChange, Occasion, Trigger, queued
from nexusform.planning.request import Progress, Stage
from nexusform.scheduling.decision import Refusal

# Far more than any fleet takes: a mistake of ours ends all the same.
MOST_ROUNDS = 1000


def _to_nobody(_stage: Stage, _done: int, _of: int) -> None:
    """Progress of which nobody wants to hear."""


class Rounds(Struct):
    """`roster` is the fleet as it stood after the last round; `placed` are the (placement, cluster) whose
    pods were looked at. `sharing`: the objects that several placements may bring to a cluster.
    `progress` is told at which placement each round is, and then at whose pods.
    """

    roster: Roster
    placed: set[tuple[str, str]] = field(default_factory=set)
    sharing: Sharing = Sharing()
    progress: Progress = _to_nobody

    def explanation(self, placement: PlacementPlan) -> PlacementExplanation:
        """What every rule says of every cluster after the last round."""
        return explain(
            placement.held,
            self.roster,
            placement.asked.policy_in(self.roster),
            placement.asked.snapshot,
            placement.asked.written.namespace,
        )

    def refusals(self, placements: Sequence[PlacementPlan]) -> dict[Address, tuple[Refusal, ...]]:
        """The clusters that each placement's rules refuse."""
        refusals: dict[Address, tuple[Refusal, ...]] = {}
        for placement in placements:
            held = {binding.cluster for binding in placement.held}
            verdicts = self.explanation(placement).clusters
            of_others = [verdict.refusals for verdict in verdicts if verdict.cluster not in held]
            refusals[placement.asked.instance.address] = tuple(chain.from_iterable(of_others))
        return refusals


def run_rounds(
    placements: Sequence[PlacementPlan],
    members: Mapping[str, FleetMemberState],
    pods: Pods,
    direct: Direct,
    progress: Progress = _to_nobody,
) -> Rounds:
    """Settle all placements. `direct` are the objects that clusters get without one."""
    members_before = [member.before for member in members.values() if member.before is not None]
    start = Rounds(_roster(members), sharing=sharing_of(placements, direct), progress=progress)
    rounds = _let_leave(placements, members, pods, members_before, start)
    return _settle_all(placements, members, pods, members_before, rounds, edits=True)


def _let_leave(
    placements: Sequence[PlacementPlan],
    members: Mapping[str, FleetMemberState],
    pods: Pods,
    members_before: list[Member],
    rounds: Rounds,
) -> Rounds:
    """Settle placements without the members that they hold and that are made anew: a hub does so as soon as
    a member has left, before it joins again.

    A member is made anew by this plan, or was so before it, unseen by some of the placements. In the second
    case those alone are settled. Afterwards all members are there again.
    """
    held = {binding.cluster for placement in placements for binding in placement.asked.prior}
    anew = {
        name: state.now
        for name, state in members.items()
        if name in held and (state.rejoins or state.not_seen_leaving)
    }
    if not anew:
        return rounds
    if not any(members[name].rejoins for name in anew):
        left_without = frozenset[str]().union(*(members[name].not_seen_leaving for name in anew))
        placements = [placement for placement in placements if placement.address in left_without]

    for name in anew:
        members[name].now = None
    rounds = _settle_all(placements, members, pods, members_before, rounds, edits=True)

    for placement in placements:
        clusters = {binding.cluster for binding in placement.asked.prior}
        placement.rejoined = frozenset(clusters.intersection(anew))
        placement.held = tuple(binding for binding in placement.held if binding.cluster not in anew)
        left = dict.fromkeys(placement.rejoined, Trigger.CLUSTER_LEFT)
        scheduled = placement.scheduled
        placement.scheduled = replace(scheduled, released={**scheduled.released, **left})
    place_pods(placements, members, pods, rounds)

    for name, member in anew.items():
        members[name].now = member
    return rounds


def after_runs(
    placements: Sequence[PlacementPlan], members: Mapping[str, FleetMemberState], pods: Pods, rounds: Rounds
) -> Rounds:
    """Predict the pods of what staged runs brought, also where others stood before, and settle what members
    queue whose figures changed by that.
    """
    placed = rounds.placed
    for placement in placements:
        if placement.asked.external:
            placed -= {(placement.address, cluster) for cluster in placement.rolled_out.clusters}
    place_pods(placements, members, pods, rounds)
    if not _refreshed(members, pods):
        return rounds
    return _settle_all(placements, members, pods, list(rounds.roster.members), rounds, edits=False)


def _settle_all(
    placements: Sequence[PlacementPlan],
    members: Mapping[str, FleetMemberState],
    pods: Pods,
    members_before: list[Member],
    rounds: Rounds,
    *,
    edits: bool,
) -> Rounds:
    """Rounds until nothing changes: it ends because later ones only ever add bindings. `members_before` are
    the members as placements saw them last; `edits`: what the plan itself edits queues placements, too, and
    so does what a hub's scheduler has still to see.

    A round runs the placements that something queues, then predicts their pods. Pods take room from their
    members, so that these look otherwise to the next round.
    """
    roster = _roster(members)
    for _ in range(MOST_ROUNDS):
        watched = [placement.watched() for placement in placements]
        queue = queued(members_before, roster.members, watched)
        changes_of = {entry.placement: entry.changes for entry in queue}
        changed = False
        for number, placement in enumerate(placements, 1):
            rounds.progress(Stage.PLACEMENTS, number, len(placements))
            if placement.offer.refused is not None:
                continue
            changes = changes_of.get(placement.address, ())
            is_queued = bool(changes) or _dangling(placement, roster)
            if edits and not is_queued:
                is_queued = placement.queued_by_itself
            if edits and not is_queued:
                changes = not_looked_at(placement, roster)
                is_queued = bool(changes)
            if is_queued:
                changed |= _settle(placement, roster, changes, members)
        edits = False  # they queue once
        place_pods(placements, members, pods, rounds)
        if not changed:
            break
        members_before = list(roster.members)
        if not _refreshed(members, pods):
            break
        roster = _roster(members)
    return replace(rounds, roster=roster)


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
    """Run the chain of cycles of one placement; whether its bindings change. That it is new, or was
    written otherwise, is an occasion of the first one alone.
    """
    leaving = {change.member for change in changes if change.trigger is Trigger.CLUSTER_LEFT}
    leaving |= {member.name for member in roster.members if member.leaving}
    held_clusters = {binding.cluster for binding in placement.held}
    is_first_cycle = not placement.scheduled.ran
    occasion = Occasion(
        created=placement.asked.first_time and is_first_cycle,
        policy_changed=placement.asked.policy_changed and is_first_cycle,
        number_increased=placement.asked.number_increased and is_first_cycle,
        evicted=placement.evicted,
        left=frozenset((held_clusters & leaving) | (held_clusters - roster.position.keys())),
        members={change.member: change.trigger for change in changes if change.member in members},
        other=placement.other_trigger,
    )
    held = placement.held
    if is_first_cycle and placement.evicted:
        held = tuple(replace(binding, deleting=binding.cluster in placement.evicted) for binding in held)
    settled = cycle.settle(
        held,
        roster,
        placement.asked.policy_in(roster),
        placement.asked.snapshot,
        placement.asked.written.namespace,
    )
    return placement.take(settled, occasion, held, roster)


def place_pods(
    placements: Sequence[PlacementPlan],
    members: Mapping[str, FleetMemberState],
    pods: Pods,
    rounds: Rounds,
) -> None:
    """Predict the pods of bindings that this plan has not looked at yet; those of bindings that are gone
    have left before.
    """
    holdings = [(placement, *_rollout(placement)) for placement in placements]
    settle_owners(holdings, rounds.sharing)
    # What a member had went with it, also where no rollout removes its binding.
    present = {name for name, member in members.items() if member.now is not None}
    for placement, bindings, rolled in holdings:
        with_objects = {
            binding.cluster
            for binding in bindings
            if binding.cluster in present and placement.content(binding, rolled) is not None
        }
        for cluster in _clusters_left(placement, with_objects, rounds):
            pods.leave(placement.address, cluster)
            placement.workloads.pop(cluster, None)
    for number, (placement, bindings, rolled) in enumerate(holdings, 1):
        rounds.progress(Stage.PLACEMENTS, number, len(holdings))
        for binding in bindings:
            state = members.get(binding.cluster)
            key = (placement.address, binding.cluster)
            if state is not None and state.cluster is not None and key not in rounds.placed:
                _place(placement, binding, rolled, state.cluster.id, pods, rounds.placed)


def _clusters_left(placement: PlacementPlan, with_objects: AbstractSet[str], rounds: Rounds) -> Iterator[str]:
    """The clusters that the placement had pods on and leaves, or comes to anew in this plan. What state
    holds counts also where the placement itself is made anew.
    """
    for cluster in (placement.asked.instance.before or {}).get("workloads") or {}:
        anew = placement.asked.created or cluster in placement.given_up
        if cluster not in with_objects or (anew and (placement.address, cluster) not in rounds.placed):
            yield cluster


def _rollout(placement: PlacementPlan) -> tuple[tuple[Binding, ...], AbstractSet[str]]:
    """The bindings once what is rolling out has settled, and the clusters that it reached. What staged runs
    do is seen once they are carried out.
    """
    if placement.asked.external:
        return placement.held, placement.rolled_out.clusters
    rollout = placement.roll_out()
    return rollout.bindings, rollout.reached


def _place(
    placement: PlacementPlan,
    binding: Binding,
    rolled: AbstractSet[str],
    cluster_id: str,
    pods: Pods,
    placed: set[tuple[str, str]],
) -> None:
    """Predict the pods of one binding."""
    cluster = binding.cluster
    content = placement.content(binding, rolled)
    if content is None:
        return
    placed.add((placement.address, cluster))
    content_before = placement.standing.contents.on_cluster.get(cluster)
    prior = placement.asked.prior_attributes.get("workloads") or {}
    same_snapshot = _snapshot_before(placement, cluster) == binding.resource_snapshot
    digest_changed = content_before is not None and content_before.digest != content.digest
    workloads = pods.place(
        placement.address,
        cluster_id,
        content.manifests,
        prior.get(cluster) or {},
        before=content_before.manifests if content_before is not None else (),
        overridden=digest_changed and same_snapshot,
    )
    if workloads:
        placement.workloads[cluster] = workloads


def _snapshot_before(placement: PlacementPlan, cluster: str) -> int | None:
    """The resource snapshot that a cluster had before the plan."""
    return next((b.resource_snapshot for b in placement.asked.prior if b.cluster == cluster), None)


def _refreshed(members: Mapping[str, FleetMemberState], pods: Pods) -> bool:
    """Read anew what members derive from their nodes and pods; whether any of it changed."""
    changed = False
    for state in members.values():
        if state.written is None or state.cluster is None or state.now is None:
            continue
        refreshed: Member = member_of(state.written, state.cluster, pods.requests(state.cluster.id))
        changed |= refreshed != state.now
        state.now = refreshed
    return changed
