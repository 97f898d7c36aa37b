"""Changes of fleet members (leave, drain, join, edit): resulting placements, pods and capacity.

The scheduling of a plan runs over the current placements, hub objects and pods, with only the
members changed. Changes that happen without the edits are separated.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from operator import attrgetter
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import group_by
from nexusform.domains.fleet.importers.fleet_records import (
    FleetEviction,
    FleetMember,
    FleetPlacement,
)
from nexusform.domains.fleet.planning.binding_rows import build_binding_rows
from nexusform.domains.fleet.planning.fleet_outcome import build_placement_warnings
from nexusform.domains.fleet.planning.fleet_snapshot import (
    FleetMemberState,
    ObservedHub,
    build_member,
    build_member_clusters,
    parse_member_record,
)
from nexusform.domains.fleet.planning.placement_iterations import run_iterations
from nexusform.domains.fleet.planning.placement_phase import execute_evictions, plan_rollouts
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan, create_placement_plan
from nexusform.domains.fleet.planning.placement_spec import build_placement_spec
from nexusform.domains.fleet.planning.planned_hub import build_planned_hub
from nexusform.domains.fleet.planning.selected_resources import select_placement_resources
from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    BindingState,
    CycleAbort,
    Member,
    PlacementType,
    ResourceUsage,
    SchedulingStatus,
)
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.domains.fleet.scheduling.placement_explanation import (
    SchedulingDrift,
    compute_policy_drift,
    find_eligible_members,
)
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.domains.pods.planning.cluster_observation import ObservedCluster
from nexusform.domains.pods.planning.manifest_blocks import (
    collect_prior_members,
    list_prior_pods,
    parse_objects,
)
from nexusform.domains.pods.planning.node_clusters import NodeCluster, build_existing_clusters
from nexusform.domains.pods.planning.pod_phase import PodPhase
from nexusform.domains.pods.pod_kind import PodLocation
from nexusform.domains.pods.types.fleet_object_type import FleetObjectType
from nexusform.domains.whatif.questions.fleet_edits import (
    MemberEdit,
    MemberEditKind,
    SimulatedFleet,
    SimulatedMember,
    apply_member_edits,
)
from nexusform.domains.whatif.questions.pod_snapshot import NO_OBSERVATIONS, ClusterObservations
from nexusform.interfaces.plugins import PlanningKind, PluginRegistries
from nexusform.json_data.plain_data import get_mapping, get_text
from nexusform.planning.instances.instance import ActionDecision, EvaluatedArguments, Instance
from nexusform.planning.vm_planning.site_plans import SiteObject
from nexusform.plans.plan import PlacementAction, PlacementChange
from nexusform.resources.address import Address
from nexusform.state.objects import InstanceState, ObjectState

# Members of a simulation share one address: nothing is recorded for them.
_MEMBER: Final = Address((), "managed", "fleet_member_cluster", "simulated")

# Plan warnings contained in the answer as data.
_WARNINGS_AS_DATA: Final = ("unfulfilled-placement", "schedule-drift")
_NANO: Final = 10**9
_NANO_PER_MILLI: Final = 10**6


class ScheduledPlacement(Struct, frozen=True):
    """State of a placement.

    `clusters`: scheduled clusters without those in removal.
    """

    address: Address
    key: str
    kind: PlacementType
    is_external: bool
    clusters: tuple[str, ...]
    is_fulfilled: bool


class PlacementOutcome(Struct, frozen=True):
    """Result for one placement.

    `rows`: its bindings. `unrelated`: binding changes also without the edits, too. `pods`: changed
    pods. `status`: scheduler status after the edits. `fresh`: difference of a newly created
    placement. `abort`: reason of a scheduler abort caused by the edits.
    """

    before: ScheduledPlacement
    after: ScheduledPlacement
    rows: tuple[PlacementChange, ...]
    pods: tuple[PlacementChange, ...]
    status: SchedulingStatus | None
    fresh: SchedulingDrift
    abort: CycleAbort | None = None
    unrelated: tuple[PlacementChange, ...] = ()

    @property
    def gained(self) -> tuple[str, ...]:
        """Names of the clusters with a binding after the edits only."""
        return tuple(sorted(set(self.after.clusters) - set(self.before.clusters)))

    @property
    def lost(self) -> tuple[str, ...]:
        """Names of the clusters with a binding before the edits only."""
        return tuple(sorted(set(self.before.clusters) - set(self.after.clusters)))

    @property
    def unchanged(self) -> tuple[PlacementChange, ...]:
        """Rows of clusters kept although something changed, such as the labels of a member.

        The trigger of the row.
        """
        return tuple(row for row in self.rows if row.action is PlacementAction.KEEP and row.trigger)

    @property
    def pending(self) -> tuple[PlacementChange, ...]:
        """Rows of pods without a node."""
        return tuple(
            row
            for row in self.pods
            if isinstance(row.target, PodLocation) and row.target.node is None
        )

    @property
    def has_findings(self) -> bool:
        """Whether the placement ends with too few clusters, none or pending pods.

        A scheduler abort is one, too.
        """
        lacks_clusters = self.loses_all_clusters or self.falls_short
        return lacks_clusters or bool(self.pending) or self.abort is not None

    @property
    def falls_short(self) -> bool:
        """Whether the placement is no longer fulfilled."""
        return self.before.is_fulfilled and not self.after.is_fulfilled

    @property
    def loses_all_clusters(self) -> bool:
        """Whether the placement is no longer on any cluster."""
        return bool(self.before.clusters) and not self.after.clusters


class MemberCapacity(Struct, frozen=True):
    """Resources of a member before and after the edits: None if it is not in the fleet."""

    name: str
    before: ResourceUsage | None
    after: ResourceUsage | None
    is_derived: bool


class FleetSimulation(Struct, frozen=True):
    """Result of a simulation: `warnings` caused by the edits, `remaining` bindings.

    Placement, drained member.
    """

    edits: tuple[MemberEdit, ...]
    placements: tuple[PlacementOutcome, ...]
    members: tuple[MemberCapacity, ...]
    warnings: tuple[Diagnostic, ...]
    remaining: tuple[tuple[str, str], ...] = ()

    @property
    def has_findings(self) -> bool:
        """Whether a placement has findings, or stays on a drained member (`remaining`).

        The drain cannot evict it.
        """
        return any(placement.has_findings for placement in self.placements) or bool(self.remaining)

    @property
    def affected_members(self) -> set[str]:
        """Members with an edit or with a changed placement."""
        names = {edit.member for edit in self.edits}
        return names.union(*(placement.gained + placement.lost for placement in self.placements))


class FleetSnapshot(Struct, frozen=True):
    """Objects of a fleet.

    `records`: parsed objects of the instances. `observed`: clusters listed by kubectl, by id.
    """

    instances: Mapping[Address, Instance]
    records: Mapping[Address, object]
    states: Mapping[Address, InstanceState]
    registries: PluginRegistries
    members: SimulatedFleet
    observed: Mapping[str, ObservedCluster] = field(default_factory=dict)


def build_fleet_snapshot(
    site_objects: Iterable[SiteObject],
    registries: PluginRegistries,
    catalogue: str,
    observations: ClusterObservations = NO_OBSERVATIONS,
) -> FleetSnapshot:
    """Build the snapshot of a fleet from objects in state and observed clusters.

    `catalogue`: version of the SKUs.
    """
    ordered_objects = sorted(site_objects, key=lambda site_object: site_object.creation)
    snapshot = _build_snapshot_without_members(ordered_objects, registries)
    clusters = build_existing_clusters(ordered_objects, registries, catalogue)
    observed = dict(_match_observed_clusters(clusters, snapshot.states, registries, observations))
    clusters |= {cluster_id: observation.cluster for cluster_id, observation in observed.items()}
    snapshot = replace(snapshot, observed=observed)
    # The managed pods come from manifests and placements, so they need no members. The members need
    # the pods: the rest of the used capacity belongs to unmanaged pods.
    managed_pods = _build_pods(snapshot, clusters, members={})
    members = dict(_build_members(snapshot, clusters, managed_pods))
    return replace(snapshot, members=SimulatedFleet(members, clusters))


def _build_snapshot_without_members(
    site_objects: Iterable[SiteObject], registries: PluginRegistries
) -> FleetSnapshot:
    """Build a snapshot of the objects alone, still without members and clusters.

    Objects of unknown types are left out. Each object has a state. Those of the fleet also have an
    instance, and a record: the parsed member, placement or other object.
    """
    states: dict[Address, InstanceState] = {}
    instances: dict[Address, Instance] = {}
    records: dict[Address, object] = {}
    for site_object in site_objects:
        address = site_object.address
        kind = registries.resource_types.get(site_object.address.type)
        if kind is None:
            continue
        object_state = ObjectState(
            site_object.attributes, site_object.creation, private=site_object.note
        )
        states[address] = InstanceState(object_state)
        if isinstance(kind, FleetObjectType):
            attributes = dict(site_object.attributes)
            records[address] = kind.build_fleet_object(attributes)
            arguments = EvaluatedArguments(attributes)
            decision = ActionDecision(planned=attributes)
            instances[address] = Instance(
                address, kind, object_state, arguments=arguments, decision=decision
            )
    return FleetSnapshot(instances, records, states, registries, members=SimulatedFleet({}, {}))


def _match_observed_clusters(
    clusters: Mapping[str, NodeCluster],
    states: Mapping[Address, InstanceState],
    registries: PluginRegistries,
    observations: ClusterObservations,
) -> Iterator[tuple[str, ObservedCluster]]:
    """Yield the id and the match of each cluster listed by kubectl.

    Its nodes and workloads are matched with the state.
    """
    if not observations.clusters:
        return
    # The keys of workloads applied to clusters, by cluster id.
    workload_keys: dict[str, set[str]] = {}
    for prior in list_prior_pods(states, registries, collect_prior_members(states, registries)):
        workload_keys.setdefault(prior.cluster_id, set()).update(prior.workloads)
    for cluster_id in observations.clusters:
        observed = observations.bind_cluster(
            cluster_id, clusters.get(cluster_id), workload_keys.get(cluster_id, ())
        )
        assert observed is not None, "the cluster is observed"
        yield cluster_id, observed


def _build_members(
    snapshot: FleetSnapshot, clusters: Mapping[str, NodeCluster], managed_pods: PodPhase
) -> Iterator[tuple[str, SimulatedMember]]:
    """Yield pairs of name and member.

    If a member's nodes are unknown, its last recorded resources apply.
    """
    for address, record in snapshot.records.items():
        # Another object of the fleet.
        if not isinstance(record, FleetMember):
            continue
        # private data in state: the member as seen by the last plan.
        note = snapshot.instances[address].prior_note
        last_member = parse_member_record(record.name, note) if "labels" in note else None
        cluster = clusters.get(record.cluster_id or record.name)
        if cluster is not None:
            # All pods of a cluster listed by kubectl are known.
            unmanaged = (0, 0)
            if cluster.id not in snapshot.observed:
                unmanaged = _infer_unmanaged_usage(record, cluster, last_member, managed_pods)
            yield record.name, SimulatedMember(record, cluster, unmanaged_requests=unmanaged)
        elif record.cluster_id and last_member is not None:
            # Its nodes are unknown here.
            former = replace(
                record,
                cluster_id="",
                properties=last_member.properties,
                resources=last_member.resources,
            )
            yield record.name, SimulatedMember(former)
        else:
            # Neither nodes nor recorded resources: those of its block apply, if any.
            yield record.name, SimulatedMember(record)


def _infer_unmanaged_usage(
    record: FleetMember, cluster: NodeCluster, last_member: Member | None, pods: PodPhase
) -> tuple[int, int]:
    """Infer the requests of pods not managed by nexusform: (millicores, bytes).

    They are how much less was available at the last plan (as recorded) than with the managed pods
    alone. Return (0, 0) if they are unknown.
    """
    # Nothing is recorded yet.
    if last_member is None:
        return 0, 0
    managed_usage = build_member(record, cluster, pods.sum_requests(cluster.id)).resources
    # Its nodes have changed.
    if managed_usage.allocatable != last_member.resources.allocatable:
        return 0, 0
    cpu = _compute_amount_reduction("cpu", managed_usage, last_member.resources)
    memory = _compute_amount_reduction("memory", managed_usage, last_member.resources)
    return max(0, cpu // _NANO_PER_MILLI), max(0, memory // _NANO)  # from nano-units


def _compute_amount_reduction(
    name: str, managed_usage: ResourceUsage, last_usage: ResourceUsage
) -> int:
    """Compute how much less was available at the last plan than with managed pods only.

    The amount is in nano-units, and 0 if it is unknown.
    """
    available_last = last_usage.available.get(name)
    return (
        managed_usage.available[name].nano - available_last.nano
        if available_last is not None
        else 0
    )


def simulate_member_edits(snapshot: FleetSnapshot, edits: Sequence[MemberEdit]) -> FleetSimulation:
    """Compare the scheduling without and with the edits.

    Raises DiagnosticsError for invalid edits.
    """
    members = apply_member_edits(snapshot.members, edits)
    drained = list(
        dict.fromkeys(edit.member for edit in edits if edit.kind is MemberEditKind.DRAIN)
    )
    baseline = _run_scheduling(snapshot, snapshot.members.members, drained=())
    result = _run_scheduling(snapshot, members, drained)
    baseline_details = {(diagnostic.id, diagnostic.detail) for diagnostic in baseline.diagnostics}
    # Without those contained in the answer as data.
    new_diagnostics = [
        diagnostic
        for diagnostic in result.diagnostics
        if (diagnostic.id, diagnostic.detail) not in baseline_details
        and diagnostic.id not in _WARNINGS_AS_DATA
    ]
    # Placements (key, member) still on a drained member, as they were not evicted.
    states = [_build_state(placement, placement.bindings) for placement in result.placements]
    remaining = [
        (state.key, cluster)
        for cluster, state in product(drained, states)
        if cluster in state.clusters
    ]
    # The resources of every member without and with the edits, also of leaving ones; None for
    # non-members.
    capacities: list[MemberCapacity] = []
    for name in sorted(result.members, key=str.encode):
        member = result.members[name]
        before = _get_planned_resources(baseline.members.get(name))
        after = _get_planned_resources(member)
        # computed from its nodes.
        is_derived = member.cluster is not None
        capacities.append(MemberCapacity(name, before, after, is_derived=is_derived))
    return FleetSimulation(
        edits=tuple(edits),
        placements=tuple(_build_outcomes(baseline, result)),
        members=tuple(capacities),
        warnings=tuple(new_diagnostics),
        remaining=tuple(remaining),
    )


class _SchedulingRun(Struct, frozen=True):
    # Placements after scheduling, their rows, the rows of all pods, and the members.
    placements: tuple[PlacementPlan, ...]
    rows: tuple[PlacementChange, ...]
    pods: tuple[PlacementChange, ...]
    members: Mapping[str, FleetMemberState]
    member_list: MemberList
    diagnostics: tuple[Diagnostic, ...]


def _run_scheduling(
    snapshot: FleetSnapshot, members_after: Mapping[str, SimulatedMember], drained: Sequence[str]
) -> _SchedulingRun:
    """Run fleet scheduling once, as if `members_after` were all members.

    Previous members missing there leave. Placements bound to `drained` members get evictions.
    Return the resulting placements, pods and members.
    """
    clusters = dict(snapshot.members.clusters)
    clusters |= {
        member.cluster.id: member.cluster
        for member in members_after.values()
        if member.cluster is not None
    }
    pods = _build_pods(snapshot, clusters, members_after)
    # No hub is read, so nothing is observed.
    hub = build_planned_hub(snapshot.instances.values(), ObservedHub())
    members = _build_member_states(snapshot.members.members, members_after, pods)
    # Build the placements before their first scheduling.
    member_clusters = build_member_clusters(members)
    placements: list[PlacementPlan] = []
    for address, record in snapshot.records.items():
        if isinstance(record, FleetPlacement):
            spec = build_placement_spec(snapshot.instances[address], record)
            resources = select_placement_resources(spec, hub, member_clusters)
            placements.append(create_placement_plan(spec, resources))
    hub.evictions += _build_drain_evictions(placements, drained)
    diagnostics = list(
        execute_evictions({placement.key: placement for placement in placements}, hub)
    )
    iterations = run_iterations(placements, members, pods, hub.collect_direct_objects(members))
    diagnostics += plan_rollouts(placements)
    rows = tuple(
        chain.from_iterable(build_binding_rows(placement, members) for placement in placements)
    )
    diagnostics += build_placement_warnings(placements, members, iterations, ObservedHub())
    return _SchedulingRun(
        tuple(placements),
        rows,
        tuple(pods.rows),
        members,
        iterations.member_list,
        tuple(diagnostics),
    )


def _build_member_states(
    members_before: Mapping[str, SimulatedMember],
    members_after: Mapping[str, SimulatedMember],
    pods: PodPhase,
) -> dict[str, FleetMemberState]:
    """Build the states of all members of a run by name.

    A leaving member has no planned state (None).
    """
    states: dict[str, FleetMemberState] = {}
    for name in dict.fromkeys((*members_before, *members_after)):
        current = members_after.get(name)
        before = _build_member(members_before.get(name), pods)
        after = _build_member(current, pods)
        states[name] = FleetMemberState(_MEMBER, FleetMember(name), previous=before, planned=after)
        if current is not None:
            states[name].configuration = current.record
            states[name].cluster = current.cluster
    return states


class _ClusterPods(PodPhase):
    # Pods, with requests of unmanaged pods by cluster id.
    unmanaged_requests: Mapping[str, tuple[int, int]] = {}

    def sum_requests(self, cluster_name: str) -> tuple[int, int]:
        """Sum the requests of a cluster's planned and unmanaged pods.

        CPU in millicores, memory in bytes.
        """
        cpu, memory = super().sum_requests(cluster_name)
        other_cpu, other_memory = self.unmanaged_requests.get(cluster_name, (0, 0))
        return cpu + other_cpu, memory + other_memory


def _build_pods(
    snapshot: FleetSnapshot,
    clusters: Mapping[str, NodeCluster],
    members: Mapping[str, SimulatedMember],
) -> PodPhase:
    """Build the existing pods of all clusters.

    Place those of manifests applied without a placement.

    `members` are the members of the run: their clusters, and the requests of their unmanaged pods.
    """
    # cluster ids by member name.
    clusters_before = collect_prior_members(snapshot.states, snapshot.registries)
    clusters_now: dict[str, str] = {}
    # millicores and bytes, by cluster id.
    unmanaged_requests: dict[str, tuple[int, int]] = {}
    for name, member in members.items():
        if member.cluster is not None:
            clusters_now[name] = member.cluster.id
            unmanaged_requests[member.cluster.id] = member.unmanaged_requests
    prior = list_prior_pods(snapshot.states, snapshot.registries, clusters_before)
    pods = _ClusterPods(
        clusters, prior, {**clusters_before, **clusters_now}, observed_clusters=snapshot.observed
    )
    pods.unmanaged_requests = unmanaged_requests
    # Manifests applied without a placement, by cluster id: address and objects.
    direct_objects: dict[str, list[tuple[str, tuple[Manifest, ...]]]] = {}
    for address, instance in snapshot.instances.items():
        cluster_id = get_text(instance.before, "cluster_id")
        if instance.type.kind is PlanningKind.MANIFEST and cluster_id:
            objects = parse_objects(get_mapping(instance.before))
            direct_objects.setdefault(cluster_id, []).append((str(address), objects))
    for cluster_id, own_objects in direct_objects.items():
        pods.place_objects(cluster_id, own_objects)
    return pods


def _build_member(member: SimulatedMember | None, pods: PodPhase) -> Member | None:
    """Build a member for the scheduler, with resources from its nodes and pods.

    None (no member) stays None.
    """
    if member is None:
        return None
    requests = pods.sum_requests(member.cluster.id) if member.cluster is not None else (0, 0)
    return build_member(member.record, member.cluster, requests)


def _build_drain_evictions(
    placements: Sequence[PlacementPlan], drained: Sequence[str]
) -> Iterator[tuple[Instance, FleetEviction]]:
    """Build the evictions of drained members from cluster-scoped placements.

    KubeFleet's tools/fleet does the same.
    """
    for cluster in drained:
        for placement in placements:
            bound_clusters = {binding.cluster for binding in placement.spec.prior_bindings}
            if (
                not placement.spec.configuration.namespace and cluster in bound_clusters
            ):  # "": cluster-scoped
                name = f"drain-eviction-{placement.key}-{cluster}"
                yield placement.spec.instance, FleetEviction(name, placement.key, cluster)


# Key of the binding or pod of a row.
_build_row_key: Final = attrgetter("address", "kind", "pool", "object")


def _build_outcomes(baseline: _SchedulingRun, result: _SchedulingRun) -> Iterator[PlacementOutcome]:
    """Build the result of each placement by comparing both runs.

    `baseline` without the edits, `result` with them.
    """
    baseline_rows = (*baseline.rows, *baseline.pods)
    baseline_by_key = {
        _build_row_key(row): row for row in baseline_rows if row.action is not PlacementAction.KEEP
    }
    bindings = group_by(result.rows, lambda row: row.address)
    changed_pods = [row for row in result.pods if row.action is not PlacementAction.KEEP]
    pods = group_by(changed_pods, lambda row: row.address)
    baseline_placements = {placement.address: placement for placement in baseline.placements}
    for placement in result.placements:
        baseline_placement = baseline_placements[placement.address]
        rows, unrelated_rows = _split_rows(
            bindings.get(placement.spec.instance.address, []), baseline_by_key
        )
        pod_rows, _ = _split_rows(pods.get(placement.spec.instance.address, []), baseline_by_key)
        # Drift: a newly created placement would get other clusters. It is reported only if the
        # edits cause it.
        drift, eligible = _compute_policy_drift(placement, result.member_list)
        baseline_drift, baseline_eligible = _compute_policy_drift(
            baseline_placement, baseline.member_list
        )
        newly_ineligible = baseline_eligible - eligible
        # Drift without the edits is the same, and the edits do not add a reason: a lost cluster
        # made ineligible.
        is_old_drift = drift == baseline_drift and newly_ineligible.isdisjoint(drift.lost_clusters)
        # By the scheduler, as for a newly created placement.
        is_picked_now = bool(placement.scheduling.pick_triggers)
        no_drift = SchedulingDrift(gained_clusters=(), lost_clusters=())
        yield PlacementOutcome(
            before=_build_state(baseline_placement, baseline_placement.spec.prior_bindings),
            after=_build_state(placement, placement.bindings),
            rows=tuple(rows),
            pods=tuple(pod_rows),
            status=placement.scheduling.status,
            fresh=no_drift if is_picked_now or is_old_drift else drift,
            # The edits do not cause an abort of the run without them.
            abort=placement.scheduling.abort
            if baseline_placement.scheduling.abort is None
            else None,
            unrelated=tuple(unrelated_rows),
        )


def _split_rows(
    rows: Iterable[PlacementChange],
    baseline_by_key: Mapping[tuple[Address, str, str, str], PlacementChange],
) -> tuple[list[PlacementChange], list[PlacementChange]]:
    """Return the rows caused by the edits, and the rows equal to one without the edits."""
    caused: list[PlacementChange] = []
    unrelated: list[PlacementChange] = []
    for row in rows:
        group = unrelated if baseline_by_key.get(_build_row_key(row)) == row else caused
        group.append(row)
    return caused, unrelated


def _compute_policy_drift(
    placement: PlacementPlan, member_list: MemberList
) -> tuple[SchedulingDrift, frozenset[str]]:
    """Compute the drift of current bindings.

    The difference to those of a newly created placement on these members.

    Also return the members allowed by its policy.
    """
    spec = placement.spec
    policy = placement.spec.resolve_policy(member_list)
    namespace = spec.configuration.namespace
    drift = compute_policy_drift(
        placement.bindings, member_list, policy, spec.policy_snapshot, namespace
    )
    return drift, find_eligible_members(member_list, policy, namespace)


def _build_state(placement: PlacementPlan, bindings: Iterable[Binding]) -> ScheduledPlacement:
    """Build the state of a placement after its scheduling, without unscheduled bindings.

    These are in removal.
    """
    scheduled = [binding for binding in bindings if binding.state is not BindingState.UNSCHEDULED]
    cluster_names = sorted(binding.cluster for binding in scheduled)
    configuration = placement.spec.configuration
    return ScheduledPlacement(
        address=placement.spec.instance.address,
        key=configuration.key,
        kind=configuration.placement_type,
        is_external=placement.spec.is_external,
        clusters=tuple(cluster_names),
        is_fulfilled=placement.scheduling.is_fulfilled,
    )


def _get_planned_resources(state: FleetMemberState | None) -> ResourceUsage | None:
    """Return the resources of a member after a run, None for a non-member."""
    return state.planned.resources if state is not None and state.planned is not None else None
