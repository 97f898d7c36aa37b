"""Fleet phases of a plan: members, hub objects, placements, and findings.

Hub objects have their pods. The findings are on the completed plan.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import group_by
from nexusform.domains.fleet.planning.content_changes import (
    ClusterRows,
    find_content_changes,
    find_lost_volumes,
)
from nexusform.domains.fleet.planning.excluded_placements import (
    build_excluded_rows,
    find_lost_rows,
    keep_pods_of_lost_members,
    list_forgotten_object_losses,
)
from nexusform.domains.fleet.planning.fleet_outcome import FleetOutcome, build_destroy_outcome
from nexusform.domains.fleet.planning.fleet_snapshot import select_instances
from nexusform.domains.fleet.planning.left_objects import (
    LeftObjects,
    add_left_objects,
    read_left_objects,
    record_left_objects,
    warn_left_objects,
)
from nexusform.domains.fleet.planning.observation_times import OTHER_TIMES, warn_other_times
from nexusform.domains.fleet.planning.placement_feasibility import (
    list_binding_feasibility,
    suggest_feasibility_fixes,
)
from nexusform.domains.fleet.planning.placement_phase import plan_placements
from nexusform.domains.fleet.scheduling.watcher import Trigger
from nexusform.domains.pods.planning.cluster_observation import (
    ExternalClusters,
    check_unknown_clusters,
)
from nexusform.domains.pods.planning.external_clusters import collect_external_clusters
from nexusform.domains.pods.planning.manifest_blocks import (
    compute_state_demand,
    create_pod_phase,
    find_missing_namespaces,
    list_manifest_diagnostics,
    list_pod_risk_warnings,
    list_scheduled_pods,
    plan_fleet_objects,
    plan_members,
)
from nexusform.domains.pods.planning.node_clusters import NodeCluster
from nexusform.domains.pods.planning.pod_phase import PodPhase, list_unlocated_pods
from nexusform.domains.pods.pod_kind import POD
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import get_text
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.instances.block_planner import BlockPlanner
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.phases import DomainPhases, DomainPhasesResult, Instances, ScheduledPod
from nexusform.planning.preparation.planning_order import iterate_resource_blocks
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.plans.impact.object_effects import Effect, compute_effect
from nexusform.plans.plan import PlacementChange

# Rows of pods that no longer run as a part of the state.
_LOSSES: Final = (Effect.REMOVED, Effect.FORGOTTEN, Effect.LOST)


class PlannedFleet(Struct, frozen=True):
    """Planned placements and pods of a fleet, for explanations."""

    outcome: FleetOutcome
    pods: PodPhase


def find_planned_fleet(result: PlanResult) -> PlannedFleet | None:
    """Return the planned fleet of a result; None if there is none."""
    details = (contribution.detail for contribution in result.contributions)
    return next((detail for detail in details if isinstance(detail, PlannedFleet)), None)


def _plan_fleet(
    blocks: BlockPlanner, vms: Iterable[VmObject], evaluation: Evaluation
) -> DomainPhasesResult:
    """Plan hub objects, placements and pods, with the clusters of VMs planned before."""
    vms = tuple(vms)
    members = plan_members(blocks, evaluation)
    external = collect_external_clusters(blocks.request, evaluation)
    pods = create_pod_phase(blocks, vms, external)
    problems = plan_fleet_objects(blocks, evaluation, pods, members)
    outcome = plan_placements(blocks, evaluation, pods.clusters, pods)
    member_names = group_by(
        outcome.member_list.positions, lambda name: _find_cluster_id(name, outcome, pods)
    )
    other_times = dict(warn_other_times(blocks.request, evaluation, external, member_names))
    members_in_doubt = {**dict.fromkeys(other_times, OTHER_TIMES), **outcome.members_in_doubt}
    outcome = replace(outcome, members_in_doubt=members_in_doubt)
    left = _read_left_objects(blocks, outcome, pods)
    if blocks.request.verifies_certainty:
        pods.verify_certainty(
            blocks.request.now,
            find_missing_namespaces(pods, blocks.instances.values()),
            _find_clusters_in_doubt(outcome, pods),
            {*left, *_find_departed_clusters(outcome, pods)},
        )
    unknown_findings = check_unknown_clusters(external, pods.clusters, blocks.instances.values())
    diagnostics = (
        *external.diagnostics,
        *other_times.values(),
        *unknown_findings,
        *problems,
        *outcome.diagnostics,
    )
    return _build_fleet_contribution(blocks, vms, PlannedFleet(outcome, pods), left, diagnostics)


def _plan_removal(blocks: BlockPlanner, vms: Iterable[VmObject]) -> DomainPhasesResult:
    """Plan a destroy: only removals, without an evaluation of the configuration."""
    vms = tuple(vms)
    outcome = build_destroy_outcome(blocks.instances.values())
    pods = create_pod_phase(blocks, vms, ExternalClusters())
    left = _read_left_objects(blocks, outcome, pods)
    fleet = PlannedFleet(outcome, pods)
    return _build_fleet_contribution(blocks, vms, fleet, left, outcome.diagnostics)


def _build_fleet_contribution(
    blocks: BlockPlanner,
    vms: tuple[VmObject, ...],
    fleet: PlannedFleet,
    left: LeftObjects,
    diagnostics: tuple[Diagnostic, ...],
) -> DomainPhasesResult:
    """Combine the planned fleet with rows of objects outside the plan.

    The result has functions that answer later questions.

    Objects excluded by -target get rows of their own. Forgotten objects, only removed from state,
    keep running. If this plan removes their member or node, `lost_rows` replace their rows. `left`
    are the objects that earlier plans left on clusters.
    """
    pods = fleet.pods
    outcome = fleet.outcome
    pod_rows = pods.build_rows(_find_clusters_in_doubt(outcome, pods))
    if not blocks.request.includes_rejections:
        pod_rows = [replace(row, rejections=()) if row.rejections else row for row in pod_rows]
    planned_rows = (*outcome.rows, *pod_rows)
    rows = tuple(keep_pods_of_lost_members(planned_rows, blocks, vms, pods.clusters))
    row_keys = {_get_row_key(row) for row in rows}
    # The members known to this plan; None if it knows none, although a data block reads a hub.
    known_members: frozenset[str] | None = frozenset(outcome.member_list.positions)
    if not known_members and _has_hub_export(blocks):
        known_members = None
    excluded_rows = build_excluded_rows(blocks, vms, pods.clusters, known_members)
    outside_rows = tuple(row for row in excluded_rows if _get_row_key(row) not in row_keys)
    lost_rows = {
        _get_row_key(row): row for row in list_forgotten_object_losses(blocks, vms, pods.clusters)
    }
    final_rows = tuple(lost_rows.get(_get_row_key(row), row) for row in rows)
    instances = blocks.instances.values()
    staying_members = {
        pods.members.get(name, name): name for name in _collect_staying_members(blocks, outcome)
    }
    all_rows = (*final_rows, *outside_rows)
    record_left_objects(instances, add_left_objects(left, all_rows, instances, staying_members))
    diagnostics = (*diagnostics, *warn_left_objects(instances, left, final_rows))

    def collect_findings(instances: Instances, *, risks: bool) -> list[Diagnostic]:
        """Return the findings about manifests; with `risks` also the warnings about pods."""
        problems = list(list_manifest_diagnostics(pods, instances))
        return [*problems, *list_pod_risk_warnings(pods, instances)] if risks else problems

    def list_workloads() -> list[ScheduledPod]:
        """Return the pods after the plan, and the workloads on members with unknown nodes."""
        unlocated: list[ScheduledPod] = []
        for placement in outcome.placements.values():
            for binding in placement.bindings:
                resources = placement.compute_resources(binding, placement.rollout.clusters)
                if binding.cluster not in outcome.clusters and resources is not None:
                    unlocated += list_unlocated_pods(binding.cluster, resources.manifests)
        return [*pods.list_scheduled_pods(), *unlocated]

    get_cluster = _build_cluster_reader(fleet, all_rows)
    content_changes = (
        *find_content_changes(outcome.contents, get_cluster),
        *find_lost_volumes(outcome.contents, get_cluster, _collect_lost_nodes(pods.clusters, vms)),
        *outcome.content_changes,
    )
    feasibility = tuple(
        list_binding_feasibility(
            outcome,
            pods,
            vms,
            includes_losses=blocks.request.includes_losses,
            tries_nodes=blocks.request.verifies_certainty,
        )
    )
    return DomainPhasesResult(
        rows=all_rows,
        rollouts=outcome.rollouts,
        rejected_clusters=outcome.rejected_clusters,
        content_changes=content_changes,
        feasibility=feasibility,
        observed_attributes=outcome.observed_attributes,
        step_order=outcome.step_order,
        content_addresses=outcome.content_addresses,
        diagnostics=diagnostics,
        list_workloads=list_workloads,
        find_disruptions=pods.find_disruptions,
        collect_claims=pods.compute_storage_demand,
        collect_findings=collect_findings,
        suggest_fixes=lambda limit: suggest_feasibility_fixes(
            feasibility, outcome, pods, vms, limit
        ),
        detail=fleet,
    )


def _build_cluster_reader(
    fleet: PlannedFleet, rows: Iterable[PlacementChange]
) -> Callable[[str], ClusterRows]:
    """Return a function that returns what a plan knows of a cluster, by its id."""
    outcome = fleet.outcome
    lost = {
        (str(row.address), row.site_id, row.pool)
        for row in rows
        if row.kind == POD and compute_effect(row) in _LOSSES
    }
    unreachable = {
        _find_cluster_id(name, outcome, fleet.pods) for name in outcome.unreachable_members
    }

    def get_cluster(cluster_id: str) -> ClusterRows:
        cluster = fleet.pods.clusters.get(cluster_id)
        site_id = cluster.site_id if cluster is not None else ""
        name = cluster.name if cluster is not None else cluster_id.rpartition("/")[2]
        has_nodes = cluster is not None and cluster_id not in unreachable

        def has_rows(address: str, workload: str) -> bool:
            return has_nodes or (address, site_id, f"{name}/{workload}") in lost

        return ClusterRows(site_id, name, fleet.pods.list_objects(cluster_id), has_rows)

    return get_cluster


def _collect_lost_nodes(
    clusters: Mapping[str, NodeCluster], vms: Iterable[VmObject]
) -> dict[str, dict[str, str]]:
    """Return the nodes that lose their disks, by id of their cluster and by name.

    The values say what happens to them: `is re-created`. A node has two keys if the platform gives
    it another name.
    """
    removed: dict[tuple[str, str], list[str]] = {}
    for vm_object in vms:
        demand = vm_object.request.demand
        existing = vm_object.prior.existing
        names = [
            existing[key].name for key in vm_object.request.actions.removals if key in existing
        ]
        removed.setdefault((demand.site_id, demand.cluster), []).extend(names)
    lost_nodes: dict[str, dict[str, str]] = {}
    for cluster_id, cluster in clusters.items():
        lost = dict.fromkeys(removed.get((cluster.site_id, cluster.name), ()), "is removed")
        lost |= dict.fromkeys(cluster.recreated_nodes, "is re-created")
        lost |= {
            platform_name: lost[name]
            for platform_name, name in cluster.platform_names.items()
            if name in lost
        }
        if lost:
            lost_nodes[cluster_id] = lost
    return lost_nodes


def _find_clusters_in_doubt(outcome: FleetOutcome, pods: PodPhase) -> dict[str, str]:
    """Return the assumptions about members in doubt, by cluster id, also outside of the plan."""
    return {
        _find_cluster_id(name, outcome, pods): doubt
        for name, doubt in outcome.members_in_doubt.items()
    }


def _find_cluster_id(member: str, outcome: FleetOutcome, pods: PodPhase) -> str:
    """Return the id of a member's cluster, by default its name."""
    cluster = outcome.clusters.get(member)
    return pods.members.get(member, member) if cluster is None else cluster.id


def _find_departed_clusters(outcome: FleetOutcome, pods: PodPhase) -> set[str]:
    """Return the ids of the clusters with objects of placements whose member leaves the fleet."""
    return {
        pods.members.get(row.object, row.object)
        for row in outcome.rows
        if row.trigger == Trigger.CLUSTER_LEFT
    }


def _collect_staying_members(blocks: BlockPlanner, outcome: FleetOutcome) -> set[str]:
    """Return the names of the members that are in the fleet before and after the plan."""
    staying: set[str] = set()
    leaving: set[str] = set()
    for instance in select_instances(blocks.instances.values(), PlanningKind.MEMBER):
        names = leaving if instance.loses_prior_object else staying
        names.add(get_text(instance.before, "name"))
    # "": new members were not in the fleet before.
    return (staying | outcome.member_list.positions.keys()) - leaving - {""}


def _read_left_objects(blocks: BlockPlanner, outcome: FleetOutcome, pods: PodPhase) -> LeftObjects:
    """Return the objects that earlier plans left on clusters whose pods this plan does not read."""
    return read_left_objects(
        blocks.instances.values(),
        _collect_staying_members(blocks, outcome),
        outcome.members_in_doubt,
        pods.observed_cluster_ids,
    )


def _has_hub_export(blocks: BlockPlanner) -> bool:
    """Return whether a data block of the configuration reads a hub."""
    sources = blocks.request.registries.data_sources
    return any(
        block.mode == "data" and sources[block.type].kind is PlanningKind.HUB_EXPORT
        for block in iterate_resource_blocks(blocks.request.configuration)
    )


def _get_row_key(row: PlacementChange) -> tuple[object, ...]:
    """Return the identity of the binding or pod of a row, equal in all rows about it."""
    return (row.address, row.kind, row.pool, row.object)


PHASES: Final = DomainPhases(
    _plan_fleet, _plan_removal, list_scheduled_pods, compute_state_demand, find_lost_rows
)
