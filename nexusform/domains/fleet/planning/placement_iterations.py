"""Iterations of a fleet's plan.

Queueing, scheduling cycles and pod prediction until nothing changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.fleet.importers.api_defaults import add_api_server_defaults
from nexusform.domains.fleet.planning.fleet_snapshot import (
    FleetMemberState,
    FleetPodPredictor,
    build_member,
    list_planned_members,
)
from nexusform.domains.fleet.planning.object_ownership import (
    DirectObjects,
    SharedObjects,
    assign_object_owners,
    find_shared_objects,
)
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.planning.predicted_status import has_new_decisions
from nexusform.domains.fleet.scheduling import scheduling_cycle
from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    Member,
    PlacementRequest,
    PlacementType,
    collect_clusters,
    index_by_cluster,
    select_scheduled_bindings,
)
from nexusform.domains.fleet.scheduling.member_list import BindingMasks, Mask, MemberList
from nexusform.domains.fleet.scheduling.placement_explanation import explain
from nexusform.domains.fleet.scheduling.profile import FILTERS
from nexusform.domains.fleet.scheduling.rules import cluster_affinity, cluster_eligibility
from nexusform.domains.fleet.scheduling.watcher import (
    MemberChange,
    SchedulingTriggers,
    Trigger,
    WatchedPlacement,
    enqueue_placements,
)
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.json_data.plain_data import get_mapping
from nexusform.planning.plan_request import PlanningStage, Progress
from nexusform.resources.address import Address
from nexusform.scheduling.placement_decision import Rejection

# far above the need of any fleet; guards against an endless loop.
MAX_ITERATIONS = 1000


def _ignore_progress_report(_stage: PlanningStage, _done: int, _of: int) -> None:
    """Ignore progress."""


class PlacementIterations(Struct):
    """State of the iterations.

    `member_list` is the fleet after the last iteration; `placed` are (placement address, cluster)
    pairs with predicted pods. `shared_objects` may be applied by several placements. `progress`
    reports the current placement of each pass. `defaulted_workloads` are pairs of a workload and
    its form with defaults, by the identity of the first: most clusters and passes share it.
    """

    member_list: MemberList
    placed: set[tuple[str, str]] = field(default_factory=set)
    shared_objects: SharedObjects = SharedObjects()
    progress: Progress = _ignore_progress_report
    defaulted_workloads: dict[int, tuple[Manifest, Manifest]] = field(default_factory=dict)

    def add_workload_defaults(self, manifest: Manifest) -> Manifest:
        """Return a workload with the API server's defaults outside its template.

        An apply sets them, too.
        """
        spec = get_mapping(manifest.body, "spec")
        if "template" not in spec:
            return manifest
        if id(manifest) not in self.defaulted_workloads:
            own_fields = {name: value for name, value in spec.items() if value is not None}
            defaults = get_mapping(add_api_server_defaults(manifest.body), "spec")
            workload = replace(manifest, body={**manifest.body, "spec": {**defaults, **own_fields}})
            # keeps the manifest alive: no id is reused.
            self.defaulted_workloads[id(manifest)] = (manifest, workload)
        return self.defaulted_workloads[id(manifest)][1]

    def list_rejections(
        self, placements: Sequence[PlacementPlan]
    ) -> dict[Address, tuple[Rejection, ...]]:
        """Return the rejections of clusters without a binding, by placement.

        They are for the members after the last iteration.
        """
        rejections: dict[Address, tuple[Rejection, ...]] = {}
        for placement in placements:
            bound = collect_clusters(placement.bindings)
            arguments = placement.build_scheduling_arguments(self.member_list)
            verdicts = explain(placement.bindings, *arguments).clusters
            unbound_rejections = [
                verdict.rejections for verdict in verdicts if verdict.cluster not in bound
            ]
            rejections[placement.spec.instance.address] = tuple(
                chain.from_iterable(unbound_rejections)
            )
        return rejections


def run_iterations(
    placements: Sequence[PlacementPlan],
    members: Mapping[str, FleetMemberState],
    pods: FleetPodPredictor,
    direct: DirectObjects,
    progress: Progress = _ignore_progress_report,
) -> PlacementIterations:
    """Plan the bindings of all placements.

    `direct` are the objects added to clusters without a placement.
    """
    previous_members = [
        member.previous for member in members.values() if member.previous is not None
    ]
    live = {
        name: item.cluster.live_workloads
        for name, item in members.items()
        if item.cluster is not None
    }
    start = PlacementIterations(
        MemberList(list_planned_members(members)),
        shared_objects=find_shared_objects(placements, direct, live),
        progress=progress,
    )
    iterations = _plan_rejoining_members(placements, members, pods, previous_members, start)
    return _plan_until_stable(
        placements, members, pods, previous_members, iterations, has_edits=True
    )


def _plan_rejoining_members(
    placements: Sequence[PlacementPlan],
    members: Mapping[str, FleetMemberState],
    pods: FleetPodPredictor,
    previous_members: list[Member],
    iterations: PlacementIterations,
) -> PlacementIterations:
    """Plan placements without their re-created members, as a hub does between leaving and joining.

    Then restore these members. An earlier plan may have re-created a member and excluded placements
    (-target). These `unnotified` placements are planned now; all others only if this plan
    re-creates a member.
    """
    bound = collect_clusters(
        chain.from_iterable(placement.spec.prior_bindings for placement in placements)
    )
    # The members after the plan, by name.
    rejoining: dict[str, Member | None] = {}
    recreates_member = False
    unnotified: set[str] = set()  # addresses
    for name, state in members.items():
        if name in bound and (state.is_rejoining or state.unnotified_placements):
            rejoining[name] = state.planned
            recreates_member |= state.is_rejoining
            unnotified |= state.unnotified_placements
    if not rejoining:
        return iterations
    # The other placements processed the earlier re-creations.
    if not recreates_member:
        placements = [placement for placement in placements if placement.address in unnotified]
    for name in rejoining:
        # left, until restored below.
        members[name].planned = None
    # With edits: the first iteration also queues placements changed by this plan.
    iterations = _plan_until_stable(
        placements, members, pods, previous_members, iterations, has_edits=True
    )
    for placement in placements:
        _release_members(placement, rejoining.keys())
    update_pod_predictions(placements, members, pods, iterations)
    for name, member in rejoining.items():
        members[name].planned = member
    return iterations


def _release_members(placement: PlacementPlan, rejoining: AbstractSet[str]) -> None:
    """Remove the bindings of a placement to members that left.

    Bindings kept by a blocked rollout are removed, too.
    """
    placement.rejoining_members = frozenset(
        collect_clusters(placement.spec.prior_bindings) & rejoining
    )
    placement.bindings = tuple(
        binding for binding in placement.bindings if binding.cluster not in rejoining
    )
    left_triggers = dict.fromkeys(placement.rejoining_members, Trigger.CLUSTER_LEFT)
    scheduling = placement.scheduling
    placement.scheduling = replace(
        scheduling, release_triggers={**scheduling.release_triggers, **left_triggers}
    )


def plan_after_staged_runs(
    placements: Sequence[PlacementPlan],
    members: Mapping[str, FleetMemberState],
    pods: FleetPodPredictor,
    iterations: PlacementIterations,
) -> PlacementIterations:
    """Predict the pods of staged runs.

    If members have other free resources then, plan the affected placements.
    """
    for placement in placements:
        # forget the prediction for clusters changed by a run.
        if placement.spec.is_external:
            iterations.placed.difference_update(
                (placement.address, name) for name in placement.rollout.clusters
            )
    update_pod_predictions(placements, members, pods, iterations)
    if not _recompute_member_resource_usage(members, pods):
        # No free resources changed.
        return iterations
    previous_members = list(iterations.member_list.members)
    return _plan_until_stable(
        placements, members, pods, previous_members, iterations, has_edits=False
    )


def _plan_until_stable(
    placements: Sequence[PlacementPlan],
    members: Mapping[str, FleetMemberState],
    pods: FleetPodPredictor,
    previous_members: list[Member],
    iterations: PlacementIterations,
    *,
    has_edits: bool,
) -> PlacementIterations:
    """Run iterations until nothing changes.

    Each one schedules the queued placements, then predicts their pods. The pods reduce the free
    resources of members for the next one. Later ones only add bindings, so the loop ends.
    Placements are queued by changes of members since they processed `previous_members`. With
    `has_edits`, the first iteration also queues changed placements, and those with members not
    processed yet by a hub's scheduler.
    """
    member_list = MemberList(list_planned_members(members))
    for _ in range(MAX_ITERATIONS):
        watched_placements = [
            WatchedPlacement(
                item.address, item.spec.configuration.placement_type, item.scheduling.is_fulfilled
            )
            for item in placements
        ]
        changes_by_address = enqueue_placements(
            previous_members, member_list.members, watched_placements
        )
        has_changed = False
        for number, placement in enumerate(placements, 1):
            iterations.progress(PlanningStage.PLACEMENTS, number, len(placements))
            if not placement.is_left_unchanged:
                changes = changes_by_address.get(placement.address, ())
                has_new_bindings = _schedule_if_queued(
                    placement, member_list, changes, has_edits=has_edits
                )
                has_changed |= has_new_bindings
                if placement.unnoticed is not None and (
                    has_new_bindings or has_new_decisions(placement)
                ):
                    _take_unnoticed_content(placement, iterations)
        update_pod_predictions(placements, members, pods, iterations)
        if not has_changed:
            break
        previous_members = list(member_list.members)
        if not _recompute_member_resource_usage(members, pods):
            break
        member_list = MemberList(list_planned_members(members))
        # edits queue placements once.
        has_edits = False
    return replace(iterations, member_list=member_list)


def _take_unnoticed_content(placement: PlacementPlan, iterations: PlacementIterations) -> None:
    """Let a placement take its unnoticed content, and predict its pods again.

    A hub selects the objects again when scheduling decisions change. Seen on a running hub: members
    that join or leave, also one that is rejected.
    """
    placement.take_unnoticed_content()
    iterations.placed -= {pair for pair in iterations.placed if pair[0] == placement.address}


def _schedule_if_queued(
    placement: PlacementPlan,
    member_list: MemberList,
    changes: tuple[MemberChange, ...],
    *,
    has_edits: bool,
) -> bool:
    """Schedule a placement if a reason queues it; return True if bindings changed.

    `changes` are the member changes queuing it. With `has_edits`, changes of the placement and
    members with an obsolete rejection queue it, too.
    """
    # A scheduled binding without a member may be from a time when the placement was not planned.
    scheduled = collect_clusters(select_scheduled_bindings(placement.bindings))
    is_queued_by_members = bool(changes) or not scheduled <= member_list.positions.keys()
    is_edited = has_edits and placement.needs_scheduling
    if has_edits and not is_queued_by_members and not is_edited:
        # Members rejected for obsolete reasons: an observed hub picks them at its
        # next cycle anyway.
        changes = find_stale_members(placement, member_list)
    if not (is_queued_by_members or is_edited or changes):
        return False
    return _run_scheduling_cycles_of_placement(placement, member_list, changes)


def _run_scheduling_cycles_of_placement(
    placement: PlacementPlan, member_list: MemberList, changes: tuple[MemberChange, ...]
) -> bool:
    """Run a placement's scheduling cycles and record them in it; return True if bindings changed.

    `changes` are the member changes queuing the placement. The first call also processes edits of
    the placement and evictions.
    """
    leaving_members = {
        change.member for change in changes if change.trigger is Trigger.CLUSTER_LEFT
    }
    leaving_members |= {member.name for member in member_list.members if member.is_leaving}
    bound = collect_clusters(placement.bindings)
    triggers = SchedulingTriggers(
        lost_bindings=placement.lost_bindings,
        departed_clusters=frozenset(
            (bound & leaving_members) | (bound - member_list.positions.keys())
        ),
        member_triggers={change.member: change.trigger for change in changes},
        default_trigger=placement.rollout_trigger,
    )
    bindings = placement.bindings
    if not placement.scheduling.has_run:
        triggers = replace(
            triggers,
            is_new=placement.spec.is_first_scheduling,
            policy_changed=placement.spec.policy_changed,
            number_increased=placement.spec.number_increased,
        )
        evicted = placement.evicted_clusters
        bindings = tuple(
            replace(binding, is_deleting=binding.cluster in evicted) for binding in bindings
        )
    result = scheduling_cycle.run_scheduling_cycles(
        bindings, *placement.build_scheduling_arguments(member_list)
    )
    previous_bindings = placement.bindings
    placement.bindings = result.bindings
    placement.scheduling = placement.scheduling.append_scheduling_cycles(
        result, triggers, bindings, member_list
    )
    return previous_bindings != placement.bindings


def update_pod_predictions(
    placements: Sequence[PlacementPlan],
    members: Mapping[str, FleetMemberState],
    pods: FleetPodPredictor,
    iterations: PlacementIterations,
) -> None:
    """Determine object owners, remove pods of removed bindings, and predict other pods.

    Bindings in `iterations.placed` have their pods from an earlier pass. All removals are first:
    they free resources on the nodes.
    """
    # Triples of a placement, its bindings after the rollout, and the clusters reached
    # by the rollout.
    placement_bindings: list[tuple[PlacementPlan, Sequence[Binding], AbstractSet[str]]] = []
    for placement in placements:
        # rolled out by staged runs, executed after the iterations.
        if placement.spec.is_external:
            placement_bindings.append((placement, placement.bindings, placement.rollout.clusters))
        else:
            rollout = placement.project_rollout()
            placement_bindings.append((placement, rollout.bindings, rollout.reached_clusters))
    assign_object_owners(placement_bindings, iterations.shared_objects)
    # A member that left runs them unmanaged, even if no rollout removes its binding.
    remaining_members = {name for name, member in members.items() if member.planned is not None}
    for placement, bindings, reached in placement_bindings:
        clusters_with_objects = {
            binding.cluster
            for binding in bindings
            if binding.cluster in remaining_members
            and placement.compute_resources(binding, reached) is not None
        }
        for cluster in _find_clusters_losing_pods(placement, clusters_with_objects, iterations):
            pods.remove_pods(placement.address, cluster)
            placement.workloads.pop(cluster, None)
    for number, (placement, bindings, reached) in enumerate(placement_bindings, 1):
        iterations.progress(PlanningStage.PLACEMENTS, number, len(placement_bindings))
        for binding in bindings:
            state = members.get(binding.cluster)
            is_placed = (placement.address, binding.cluster) in iterations.placed
            # Without a cluster: unknown nodes.
            if state is not None and state.cluster is not None and not is_placed:
                _predict_binding_pods(
                    placement, binding, reached, state.cluster.id, pods, iterations
                )


def _find_clusters_losing_pods(
    placement: PlacementPlan,
    clusters_with_objects: AbstractSet[str],
    iterations: PlacementIterations,
) -> Iterator[str]:
    """Yield the clusters with pods of a placement in state that this plan affects.

    This plan removes or re-creates these pods.
    """
    for cluster in get_mapping(placement.spec.instance.before, "workloads"):
        # The placement is replaced, or its binding is released, even if a new one follows.
        is_recreated = placement.spec.is_new or cluster in placement.released_clusters
        # An earlier pass removed the old ones.
        has_new_pods = (placement.address, cluster) in iterations.placed
        if cluster not in clusters_with_objects or (is_recreated and not has_new_pods):
            yield cluster


def _predict_binding_pods(
    placement: PlacementPlan,
    binding: Binding,
    reached: AbstractSet[str],
    cluster_id: str,
    pods: FleetPodPredictor,
    iterations: PlacementIterations,
) -> None:
    """Predict the pods of a binding with resources after the rollout to the clusters in `reached`.

    Record the pods in the placement, and the binding in `iterations.placed`.
    """
    cluster = binding.cluster
    resources = placement.compute_present_resources(binding, reached)
    if resources is None:
        # Nothing is applied there.
        return
    iterations.placed.add((placement.address, cluster))
    previous_resources = placement.current.applied.on_cluster.get(cluster)
    prior_workloads = get_mapping(placement.spec.prior_attributes, "workloads")
    prior_binding = index_by_cluster(placement.spec.prior_bindings).get(cluster)
    prior_snapshot = None if prior_binding is None else prior_binding.resource_snapshot
    same_snapshot = prior_snapshot == binding.resource_snapshot
    digest_changed = (
        previous_resources is not None and previous_resources.digest != resources.digest
    )
    workloads = pods.place_pods(
        placement.address,
        cluster_id,
        tuple(map(iterations.add_workload_defaults, resources.manifests)),
        get_mapping(prior_workloads, cluster),
        previous=previous_resources.manifests if previous_resources is not None else (),
        # With other objects, more than the overrides differs.
        overrides_changed=digest_changed and same_snapshot,
    )
    if workloads:
        placement.workloads[cluster] = workloads


def _recompute_member_resource_usage(
    members: Mapping[str, FleetMemberState], pods: FleetPodPredictor
) -> bool:
    """Recompute the members' figures derived from nodes and pods, in place.

    Return True if any changed.
    """
    has_changed = False
    for state in members.values():
        if state.cluster is None or state.planned is None:
            # nodes not known, or removed.
            continue
        updated: Member = build_member(
            state.configuration, state.cluster, pods.sum_requests(state.cluster.id)
        )
        has_changed |= updated != state.planned
        state.planned = updated
    return has_changed


# Start of the hub's message for a rejected member, and the change that makes it obsolete.
_OBSOLETE_REASONS: Final = (
    ("ClusterUnschedulable, taint &{", Trigger.TAINT_REMOVED),
    (f"ClusterUnschedulable, {cluster_affinity.REASON}", Trigger.CLUSTER_LABELS_CHANGED),
    ("ClusterUnschedulable, cluster is not connected", Trigger.CLUSTER_BECAME_ELIGIBLE),
    ("ClusterUnschedulable, cluster has left", Trigger.CLUSTER_BECAME_ELIGIBLE),
    ("ClusterUnschedulable, cluster has no namespace", Trigger.CLUSTER_PROPERTIES_CHANGED),
    ("ClusterUnschedulable, target namespace", Trigger.CLUSTER_PROPERTIES_CHANGED),
    ("Specified cluster ", Trigger.CLUSTER_JOINED),
)


def find_stale_members(
    placement: PlacementPlan, member_list: MemberList
) -> tuple[MemberChange, ...]:
    """Return the members to be picked by the next cycle of an observed hub.

    They are eligible, have no binding, and were rejected earlier for a reason no longer valid. A
    PickAll also picks members not reported at all. A fulfilled PickN or PickFixed picks none, since
    a hub's watcher does not queue it.
    """
    picks_all = placement.spec.configuration.placement_type is PlacementType.PICK_ALL
    if not placement.spec.observed_attributes or (
        placement.scheduling.is_fulfilled and not picks_all
    ):
        return ()
    rejections = get_mapping(placement.spec.observed_attributes, "rejections")
    bound_clusters = collect_clusters(placement.bindings)
    members = member_list.positions.keys()
    candidates = members if picks_all else members & rejections.keys()
    eligible = _select_individually_eligible_members(placement, member_list)  # bit mask
    changes: list[MemberChange] = []
    for name in sorted(candidates - bound_clusters):
        # None: the reported reason may still hold.
        trigger = _find_change_of_rejection(rejections.get(name))
        # The bit of this member.
        is_eligible = bool(eligible >> member_list.positions[name] & 1)
        if trigger is not None and is_eligible:
            changes.append(MemberChange(name, trigger))
    return tuple(changes)


def _find_change_of_rejection(reason: str | None) -> Trigger | None:
    """Return the change of a member able to make its rejection obsolete.

    The result is None for reasons about other members.
    """
    # The hub has not reported about the member yet.
    if reason is None:
        return Trigger.CLUSTER_JOINED
    if "is not eligible for resource placement yet" in reason:
        return Trigger.CLUSTER_BECAME_ELIGIBLE
    return next((trigger for start, trigger in _OBSOLETE_REASONS if reason.startswith(start)), None)


def _select_individually_eligible_members(
    placement: PlacementPlan, member_list: MemberList
) -> Mask:
    """Return a bit mask of the members accepted by every filter rule about a member alone."""
    policy = placement.spec.resolve_policy(member_list)
    namespace = placement.spec.configuration.namespace
    request = PlacementRequest(policy, namespace)
    # ignores taints and labels.
    if placement.spec.configuration.placement_type is PlacementType.PICK_FIXED:
        return cluster_eligibility.find_eligible(request, member_list, BindingMasks())
    eligible = member_list.all_members
    for rule in FILTERS:
        # depends on members only.
        if rule.is_static:
            mask = rule.module.find_eligible(request, member_list, BindingMasks())
            # An unreadable property stops the cycle: none is eligible.
            eligible &= mask if isinstance(mask, int) else 0
    return eligible
