"""Members of a fleet leave, are drained, join or change: which placements go where then, with pods and room.

The rounds of a plan are run over the placements, hub objects and pods as they stand, with nothing changed but
the members. What would happen without the edits, too, is left out.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.diagnostics import Diagnostic
from nexusform.domains.fleet.importers.fleet_model import FleetEviction, FleetMember, FleetPlacement
from nexusform.domains.fleet.planning.asked import asked_of
from nexusform.domains.fleet.planning.brought import prepare_resources
from nexusform.domains.fleet.planning.hub import Hub, read_hub
from nexusform.domains.fleet.planning.outcome import placement_warnings
from nexusform.domains.fleet.planning.phase import evict_once, roll_out_all
from nexusform.domains.fleet.planning.placement import PlacementPlan, begin
from nexusform.domains.fleet.planning.rounds import run_rounds
from nexusform.domains.fleet.planning.rows import binding_rows
from nexusform.domains.fleet.planning.world import (
    Clusters,
    FleetMemberState,
    ShownHub,
    clusters_of,
    member_of,
    remembered,
)
from nexusform.domains.fleet.scheduling.bindings import (
    Abort,
    Binding,
    BindingState,
    Member,
    PlacementType,
    ResourceUsage,
)
from nexusform.domains.fleet.scheduling.decisions import SchedulingStatus
from nexusform.domains.fleet.scheduling.explanation import PolicyDrift, drift, eligible
from nexusform.domains.fleet.scheduling.roster import Roster
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest
from nexusform.domains.pods.planning.blocks import objects_in, prior_members, prior_pods
from nexusform.domains.pods.planning.nodes import NodeCluster, standing_clusters
from nexusform.domains.pods.planning.observed import ObservedCluster
from nexusform.domains.pods.planning.phase import PodPhase
from nexusform.domains.pods.pod_kind import PodPlace
from nexusform.domains.whatif.questions.fleet_edits import Edit, Seat, Seats, Verb, edited
from nexusform.domains.whatif.questions.pod_view import NOTHING_SEEN, Sight
from nexusform.planning.instances.instance import Arguments, Decision, Instance
from nexusform.planning.vms.sites import Thing
from nexusform.plans.plan import PlacementAction, PlacementChange
from nexusform.ports import Kind, Registries
from nexusform.state.objects import InstanceState, ObjectState

# Members of a simulation need no address: nothing is noted of them.
_MEMBER: Final = Address((), "managed", "fleet_member_cluster", "simulated")

# Warnings of a plan that the answer has as data.
_SAID_OTHERWISE: Final = ("placement-is-not-fulfilled", "a-fresh-schedule-would-choose-otherwise")


class Standing(Struct, frozen=True):
    """A placement as it stands. `clusters` are those that it holds, not those that it is being taken from."""

    address: Address
    key: str
    kind: PlacementType
    external: bool
    clusters: tuple[str, ...]
    fulfilled: bool


def _waits(row: PlacementChange) -> bool:
    """Whether a pod finds no node."""
    return isinstance(row.target, PodPlace) and row.target.node is None


class PlacementOutcome(Struct, frozen=True):
    """What becomes of one placement. `rows` are its bindings, those that are kept too, `anyway` those that
    come or go without the edits, too; `pods` those of its pods to which something happens. `status` is what
    the scheduler says once it looked at it, `fresh` how a placement made anew would differ, `stopped` what
    stops the scheduler now and did not before.
    """

    before: Standing
    after: Standing
    rows: tuple[PlacementChange, ...]
    pods: tuple[PlacementChange, ...]
    status: SchedulingStatus | None
    fresh: PolicyDrift
    stopped: Abort | None = None
    anyway: tuple[PlacementChange, ...] = ()

    @property
    def gained(self) -> tuple[str, ...]:
        """The clusters that come."""
        return tuple(sorted(set(self.after.clusters) - set(self.before.clusters)))

    @property
    def lost(self) -> tuple[str, ...]:
        """The clusters that it holds no more."""
        return tuple(sorted(set(self.before.clusters) - set(self.after.clusters)))

    @property
    def kept(self) -> tuple[PlacementChange, ...]:
        """The clusters that are kept although something happened to them."""
        return tuple(row for row in self.rows if row.action is PlacementAction.KEEP and row.trigger)

    @property
    def pending(self) -> tuple[PlacementChange, ...]:
        """The pods that find no node."""
        return tuple(row for row in self.pods if _waits(row))

    @property
    def bad(self) -> bool:
        """Whether it ends on fewer clusters than it asks for, on none, with pods that find no node, or with
        the scheduler stopped.
        """
        emptied = bool(self.before.clusters) and not self.after.clusters
        short = self.before.fulfilled and not self.after.fulfilled
        return emptied or short or bool(self.pending) or self.stopped is not None


class MemberRoom(Struct, frozen=True):
    """A member before and after: None where it was not there, or is gone."""

    name: str
    before: ResourceUsage | None
    after: ResourceUsage | None
    derived: bool


class FleetSimulation(Struct, frozen=True):
    """The whole answer; `warnings` are those that would not be there without the edits. `staying` are
    placements (by key) that a drain leaves where they are, with the member.
    """

    edits: tuple[Edit, ...]
    placements: tuple[PlacementOutcome, ...]
    members: tuple[MemberRoom, ...]
    warnings: tuple[Diagnostic, ...]
    staying: tuple[tuple[str, str], ...] = ()

    @property
    def bad(self) -> bool:
        """Whether a placement falls short, or a drained member keeps some."""
        return any(placement.bad for placement in self.placements) or bool(self.staying)


class FleetWorld(Struct, frozen=True):
    """The objects of a fleet as they stand, to be simulated on any number of times. `observed` are the
    clusters that kubectl printed, by id.
    """

    instances: Mapping[Address, Instance]
    states: Mapping[Address, InstanceState]
    registries: Registries
    seats: Seats
    observed: Mapping[str, ObservedCluster] = field(default_factory=dict)


def fleet_world(
    things: Iterable[Thing], registries: Registries, catalogue: str, sight: Sight = NOTHING_SEEN
) -> FleetWorld:
    """Read the fleet from what stands, and what runs on clusters from what was seen of them."""
    in_order = sorted(things, key=lambda thing: thing.creation)
    states, instances = _as_prior(in_order, registries)
    clusters = standing_clusters(in_order, registries, catalogue)
    observed = dict(_observed(clusters, states, registries, sight))
    clusters |= {cluster_id: observation.cluster for cluster_id, observation in observed.items()}
    world = FleetWorld(instances, states, registries, Seats({}, {}), observed)
    pods = _pods(world, clusters, {})
    members = dict(_seats(instances.values(), clusters, pods, observed))
    return replace(world, seats=Seats(members, clusters))


def _as_prior(
    things: Iterable[Thing], registries: Registries
) -> tuple[dict[Address, InstanceState], dict[Address, Instance]]:
    """What stands as planning has it before a plan; of what belongs to a fleet the instances, too."""
    states: dict[Address, InstanceState] = {}
    instances: dict[Address, Instance] = {}
    for thing in things:
        kind = registries.resource_types.get(thing.address.type)
        if kind is None:
            continue
        standing = ObjectState(thing.attributes, thing.creation, private=thing.note)
        states[thing.address] = InstanceState(standing)
        if kind.fleet is not None:
            attributes = dict(thing.attributes)
            instances[thing.address] = Instance(
                thing.address,
                kind,
                standing,
                arguments=Arguments(attributes),
                decision=Decision(planned=attributes),
            )
    return states, instances


def _observed(
    clusters: Mapping[str, NodeCluster],
    states: Mapping[Address, InstanceState],
    registries: Registries,
    sight: Sight,
) -> Iterator[tuple[str, ObservedCluster]]:
    """The clusters that somebody looked at, by id."""
    brought = _workloads_brought(states, registries) if sight.clusters else {}
    for cluster_id in sight.clusters:
        observed = sight.bound(cluster_id, clusters.get(cluster_id), brought.get(cluster_id, ()))
        if observed is not None:
            yield cluster_id, observed


def _workloads_brought(
    states: Mapping[Address, InstanceState], registries: Registries
) -> dict[str, set[str]]:
    """The keys of the workloads that objects brought to clusters, by cluster id."""
    brought: dict[str, set[str]] = {}
    for prior in prior_pods(states, registries, prior_members(states, registries)):
        brought.setdefault(prior.cluster_id, set()).update(prior.workloads)
    return brought


def _seats(
    instances: Iterable[Instance],
    clusters: Mapping[str, NodeCluster],
    pods: PodPhase,
    observed: Container[str],
) -> Iterator[tuple[str, Seat]]:
    """The members by name. Where a member's nodes are in another state, its figures are those that it had
    last. Of clusters that were `observed` (ids) all that runs there is known.
    """
    for instance in instances:
        written = _fleet_record(instance)
        if not isinstance(written, FleetMember):
            continue
        note = instance.prior.private if instance.prior is not None else None
        last = remembered(written.name, note) if note and "labels" in note else None
        cluster = clusters.get(written.cluster_id) if written.cluster_id else None
        if cluster is not None:
            requests = (0, 0) if cluster.id in observed else _other_requests(written, cluster, last, pods)
            yield written.name, Seat(written, cluster, requests)
        elif written.cluster_id and last is not None:
            as_last = replace(written, cluster_id="", properties=last.properties, resources=last.resources)
            yield written.name, Seat(as_last)
        else:
            yield written.name, Seat(written)


def _fleet_record(instance: Instance) -> object:
    """What stands of an instance as its type reads it for the fleet; None of one that is not of a fleet."""
    return instance.type.fleet(instance.before or {}) if instance.type.fleet is not None else None


def _other_requests(
    written: FleetMember, cluster: NodeCluster, last: Member | None, pods: PodPhase
) -> tuple[int, int]:
    """What pods ask for that stood on the cluster when it was planned last and that no object brings: CPU in
    millicores and memory in bytes, 0 of each where that cannot be told.
    """
    if last is None:
        return 0, 0
    usage = member_of(written, cluster, pods.requests(cluster.id)).resources
    if usage.allocatable != last.resources.allocatable:
        return 0, 0
    cpu = _shortfall("cpu", usage, last.resources)
    memory = _shortfall("memory", usage, last.resources)
    return max(0, cpu // _NANO_PER_MILLI), max(0, memory // _NANO)


_NANO: Final = 10**9
_NANO_PER_MILLI: Final = 10**6


def _shortfall(name: str, usage: ResourceUsage, last: ResourceUsage) -> int:
    """How much less was available last than now, in nano-units; 0 where nobody noted it."""
    available_last = last.available.get(name)
    return usage.available[name].nano - available_last.nano if available_last is not None else 0


# --- simulating --------------------------------------------------------------------------------


def simulate_fleet(world: FleetWorld, edits: Sequence[Edit]) -> FleetSimulation | list[Diagnostic]:
    """What becomes of all placements; diagnostics where edits cannot be."""
    members, problems = edited(world.seats, edits)
    if problems:
        return problems
    drained = list(dict.fromkeys(edit.member for edit in edits if edit.verb is Verb.DRAIN))
    as_it_is = _played(world, world.seats.members, ())
    after = _played(world, members, drained)
    return FleetSimulation(
        tuple(edits),
        tuple(_outcomes(as_it_is, after)),
        tuple(_rooms(as_it_is, after)),
        tuple(_new_diagnostics(as_it_is, after)),
        tuple(_staying(after, drained)),
    )


class _Play(Struct, frozen=True):
    # The placements after the rounds, their rows, the rows of all pods, and the members.
    placements: tuple[PlacementPlan, ...]
    rows: tuple[PlacementChange, ...]
    pods: tuple[PlacementChange, ...]
    members: Mapping[str, FleetMemberState]
    roster: Roster
    diagnostics: tuple[Diagnostic, ...]


def _played(world: FleetWorld, seats: Mapping[str, Seat], drained: Sequence[str]) -> _Play:
    """Run the rounds over these members."""
    clusters = dict(world.seats.clusters)
    clusters |= {seat.cluster.id: seat.cluster for seat in seats.values() if seat.cluster is not None}
    pods = _pods(world, clusters, seats)
    hub = read_hub(world.instances.values(), ShownHub())
    members = _members(world.seats.members, seats, pods)
    placements = list(_begun(world.instances.values(), hub, clusters_of(members)))
    hub.evictions += _evictions(placements, drained)
    diagnostics = list(evict_once({placement.key: placement for placement in placements}, hub))
    rounds = run_rounds(placements, members, pods, hub.on_members(members))
    diagnostics += roll_out_all(placements)
    rows = tuple(chain.from_iterable(binding_rows(placement, members) for placement in placements))
    diagnostics += placement_warnings(placements, members, rounds)
    return _Play(tuple(placements), rows, tuple(pods.rows), members, rounds.roster, tuple(diagnostics))


class _Pods(PodPhase):
    # Pods with what else stands on the clusters: requests that nothing here brings, by cluster id.
    others: Mapping[str, tuple[int, int]] = {}

    def requests(self, cluster_name: str) -> tuple[int, int]:
        cpu, memory = super().requests(cluster_name)
        other_cpu, other_memory = self.others.get(cluster_name, (0, 0))
        return cpu + other_cpu, memory + other_memory


def _pods(world: FleetWorld, clusters: Mapping[str, NodeCluster], seats: Mapping[str, Seat]) -> PodPhase:
    """The pods that stand, and those of objects that go to one cluster without a placement."""
    clusters_before = prior_members(world.states, world.registries)
    clusters_now = {name: seat.cluster.id for name, seat in seats.items() if seat.cluster is not None}
    prior = prior_pods(world.states, world.registries, clusters_before)
    pods = _Pods(clusters, prior, {**clusters_before, **clusters_now}, observed=world.observed)
    pods.others = {seat.cluster.id: seat.others for seat in seats.values() if seat.cluster is not None}
    for cluster_id, objects in _objects_of_clusters(world.instances).items():
        pods.place_together(cluster_id, objects)
    return pods


def _objects_of_clusters(
    instances: Mapping[Address, Instance],
) -> dict[str, list[tuple[str, tuple[Manifest, ...]]]]:
    """By cluster id the manifests that go there without a placement: their address, and their objects."""
    by_cluster: dict[str, list[tuple[str, tuple[Manifest, ...]]]] = {}
    for address, instance in instances.items():
        arguments = instance.before or {}
        cluster_id = str(arguments.get("cluster_id") or "")
        if instance.type.kind is Kind.MANIFEST and cluster_id:
            objects = objects_in(str(arguments.get("yaml_body") or ""))
            by_cluster.setdefault(cluster_id, []).append((str(address), objects))
    return by_cluster


def _members(
    seats_before: Mapping[str, Seat], seats_after: Mapping[str, Seat], pods: PodPhase
) -> dict[str, FleetMemberState]:
    """The members of a play, with those that leave."""
    members: dict[str, FleetMemberState] = {}
    for name in dict.fromkeys((*seats_before, *seats_after)):
        seat = seats_after.get(name)
        member_before = _member(seats_before.get(name), pods)
        member_after = _member(seat, pods)
        written, cluster = (seat.written, seat.cluster) if seat is not None else (None, None)
        members[name] = FleetMemberState(_MEMBER, written, cluster, member_before, member_after)
    return members


def _member(seat: Seat | None, pods: PodPhase) -> Member | None:
    """A member with its figures as they follow from its nodes and pods; None where it is not there."""
    if seat is None:
        return None
    requests = pods.requests(seat.cluster.id) if seat.cluster is not None else (0, 0)
    return member_of(seat.written, seat.cluster, requests)


def _begun(instances: Iterable[Instance], hub: Hub, clusters: Clusters) -> Iterator[PlacementPlan]:
    """The placements before their first round."""
    for instance in instances:
        written = _fleet_record(instance)
        if isinstance(written, FleetPlacement):
            asked = asked_of(instance, written)
            yield begin(asked, *prepare_resources(asked, hub, clusters))


def _evictions(
    placements: Sequence[PlacementPlan], drained: Sequence[str]
) -> Iterator[tuple[Instance, FleetEviction]]:
    """What draining members evicts: every cluster placement that they hold.

    Source: KubeFleet tools/fleet/cmd/draincluster.
    """
    for cluster in drained:
        for placement in placements:
            held = {binding.cluster for binding in placement.asked.prior}
            if not placement.asked.written.namespace and cluster in held:
                name = f"drain-eviction-{placement.key}-{cluster}"
                yield placement.asked.instance, FleetEviction(name, placement.key, cluster)


# --- what it comes to --------------------------------------------------------------------------


_RowKey = tuple[Address, str, str, str]


def _key(row: PlacementChange) -> _RowKey:
    """Which binding or pod a row is about."""
    return row.address, row.kind, row.pool, row.object


def _outcomes(as_it_is: _Play, after: _Play) -> Iterator[PlacementOutcome]:
    """What becomes of each placement; a row that comes without the edits, too, is no consequence of them."""
    rows_as_it_is = (*as_it_is.rows, *as_it_is.pods)
    anyway = {_key(row): row for row in rows_as_it_is if row.action is not PlacementAction.KEEP}
    bindings = _by_address(after.rows)
    pods = _by_address(row for row in after.pods if row.action is not PlacementAction.KEEP)
    formers = {placement.address: placement for placement in as_it_is.placements}
    for placement in after.placements:
        former = formers[placement.address]
        binding_rows_of_it = bindings.get(placement.asked.instance.address, [])
        pod_rows_of_it = pods.get(placement.asked.instance.address, [])
        yield PlacementOutcome(
            before=_standing(former, former.asked.prior),
            after=_standing(placement, placement.held),
            rows=tuple(row for row in binding_rows_of_it if anyway.get(_key(row)) != row),
            pods=tuple(row for row in pod_rows_of_it if anyway.get(_key(row)) != row),
            status=placement.scheduled.status,
            fresh=_fresh(former, placement, as_it_is.roster, after.roster),
            stopped=placement.scheduled.abort if former.scheduled.abort is None else None,
            anyway=tuple(row for row in binding_rows_of_it if anyway.get(_key(row)) == row),
        )


def _by_address(rows: Iterable[PlacementChange]) -> dict[Address, list[PlacementChange]]:
    by_address: dict[Address, list[PlacementChange]] = {}
    for row in rows:
        by_address.setdefault(row.address, []).append(row)
    return by_address


def _new_diagnostics(as_it_is: _Play, after: _Play) -> Iterator[Diagnostic]:
    """What is said after the edits and not without them."""
    said_anyway = {(diagnostic.id, diagnostic.detail) for diagnostic in as_it_is.diagnostics}
    for diagnostic in after.diagnostics:
        is_new = (diagnostic.id, diagnostic.detail) not in said_anyway
        if is_new and diagnostic.id not in _SAID_OTHERWISE:
            yield diagnostic


def _fresh(
    former: PlacementPlan, placement: PlacementPlan, former_roster: Roster, roster: Roster
) -> PolicyDrift:
    """How a placement made anew would differ, where it would not before the edits, or would do without a
    cluster that could be picked before them. What was picked just now is the fresh choice itself.
    """
    fresh = _drift(placement, roster)
    barred = _eligible(former, former_roster) - _eligible(placement, roster)
    differs_anyway = fresh == _drift(former, former_roster) and barred.isdisjoint(fresh.lost)
    return PolicyDrift((), ()) if placement.scheduled.picked or differs_anyway else fresh


def _drift(placement: PlacementPlan, roster: Roster) -> PolicyDrift:
    """How a placement made anew over these members would differ from what is held."""
    policy, namespace = placement.asked.policy_in(roster), placement.asked.written.namespace
    return drift(placement.held, roster, policy, placement.asked.snapshot, namespace)


def _eligible(placement: PlacementPlan, roster: Roster) -> frozenset[str]:
    """The members that the placement's policy allows."""
    return eligible(roster, placement.asked.policy_in(roster), placement.asked.written.namespace)


def _standing(placement: PlacementPlan, bindings: Iterable[Binding]) -> Standing:
    """Where a placement stands with these bindings."""
    scheduled = [binding for binding in bindings if binding.state is not BindingState.UNSCHEDULED]
    held = sorted(binding.cluster for binding in scheduled)
    written = placement.asked.written
    return Standing(
        placement.asked.instance.address,
        written.key,
        written.kind,
        placement.asked.external,
        tuple(held),
        placement.scheduled.fulfilled,
    )


def _rooms(as_it_is: _Play, after: _Play) -> Iterator[MemberRoom]:
    """The resources of every member without the edits and after them; None where it is not a member."""
    for name in sorted({*as_it_is.members, *after.members}, key=str.encode):
        state = after.members[name]
        state_anyway = as_it_is.members.get(name)
        member_anyway = state_anyway.now if state_anyway is not None else None
        yield MemberRoom(
            name,
            member_anyway.resources if member_anyway is not None else None,
            state.now.resources if state.now is not None else None,
            state.cluster is not None,
        )


def _staying(play: _Play, drained: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The placements that drained members still hold."""
    for cluster in drained:
        for placement in play.placements:
            if cluster in _standing(placement, placement.held).clusters:
                yield placement.key, cluster
