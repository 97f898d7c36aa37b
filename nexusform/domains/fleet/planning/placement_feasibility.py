"""Feasibility of every binding of a plan: its pods on the nodes of its cluster, and the site below them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.fleet.planning.fleet_outcome import FleetOutcome
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.scheduling.bindings import Binding, BindingState
from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.planning.pod_feasibility import (
    ClusterLossEffects,
    ClusterPodCapacity,
    ObjectFeasibility,
    find_candidate_feasibility,
    find_object_feasibility,
)
from nexusform.domains.pods.planning.pod_phase import PodPhase
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.plans.plan import Feasibility, FeasibilityResult
from nexusform.resources.address import Address
from nexusform.scheduling.racks.vms import Interval, build_standalone_demand

_NO_NODES: Final = "the nodes of the cluster are not known"
_UNKNOWN: Final = "unknown"


class _AdditionalNodes(Struct, frozen=True):
    """Additional nodes of a pool on a site. `free`: number of such VMs with capacity after the plan."""

    site: str
    cluster_id: str
    pool: str
    sku: str
    free: Interval
    count: int


def list_binding_feasibility(
    outcome: FleetOutcome, pods: PodPhase, vms: Iterable[VmObject], *, includes_losses: bool
) -> Iterator[Feasibility]:
    """Yield a row per binding of a placement with pods, in the order of the plan. With `includes_losses`, add the
    effect of one machine or rack down, and a row per rejected cluster with known nodes.
    """
    rows = list(_build_rows_without_capacity(outcome, pods))
    if includes_losses:
        rows = [*_add_loss_effects(rows, outcome, pods), *_build_rejected_cluster_rows(outcome, pods)]
        order = {address: number for number, address in enumerate(outcome.placements)}
        rows.sort(key=lambda row: order[row.placement])
    vms = tuple(vms) if any(row.missing_nodes for row in rows) else ()
    additions = [list(_list_added_nodes(vms, row, outcome)) for row in rows]
    known = [addition for items in additions for addition in items]
    for row, items in zip(rows, additions, strict=True):
        capacities = {_evaluate_site_capacity(addition, known) for addition in items}
        if len(items) < len(row.missing_pools):
            capacities.add(_UNKNOWN)
        yield replace(row, site_capacity=_combine_site_capacities(capacities)) if capacities else row


def _build_rows_without_capacity(outcome: FleetOutcome, pods: PodPhase) -> Iterator[Feasibility]:
    """Yield the rows without the capacity of sites."""
    capacities: dict[str, ClusterPodCapacity] = {}
    for address, placement in outcome.placements.items():
        bindings = [binding for binding in placement.bindings if _is_active_binding(binding)]
        requested = _count_requested_pods(placement) if bindings else None
        if requested is None:
            continue
        for binding in bindings:
            cluster = outcome.clusters.get(binding.cluster)
            assessment = None
            if cluster is not None:
                if cluster.id not in capacities:
                    capacities[cluster.id] = ClusterPodCapacity(pods, cluster)
                assessment = find_object_feasibility(placement.address, capacities[cluster.id])
            if assessment is None:
                is_known = cluster is None and _has_no_requested_pods(placement)
                result = FeasibilityResult.RUNS if is_known else FeasibilityResult.UNKNOWN
                reason = "" if is_known else _NO_NODES
                yield Feasibility(
                    address, binding.cluster, result, reason=reason, replicas_requested=requested, is_certain=is_known
                )
                continue
            yield _build_feasibility_row(address, binding.cluster, assessment)


def _add_loss_effects(rows: Iterable[Feasibility], outcome: FleetOutcome, pods: PodPhase) -> Iterator[Feasibility]:
    """Yield the rows with the effect of one machine or rack down."""
    losses_by_cluster: dict[str, ClusterLossEffects] = {}
    for row in rows:
        cluster = outcome.clusters.get(row.cluster)
        address = outcome.placements[row.placement].address
        workloads = pods.list_workloads(address, cluster.id) if cluster is not None else ()
        if cluster is None or not workloads:
            yield row
            continue
        if row.cluster not in losses_by_cluster:
            losses_by_cluster[row.cluster] = ClusterLossEffects(pods, cluster)
        losses, keys = losses_by_cluster[row.cluster], {workload.key for workload in workloads}
        machine, rack = losses.find_machine_effect(keys), losses.find_rack_effect(keys)
        yield replace(row, one_machine_down=machine, one_rack_down=rack)


def _build_rejected_cluster_rows(outcome: FleetOutcome, pods: PodPhase) -> Iterator[Feasibility]:
    """Yield a row per cluster rejected by a placement with pods, if its nodes are known."""
    for rejected in outcome.rejected_clusters:
        placement, cluster = outcome.placements[rejected.address], outcome.clusters.get(rejected.cluster)
        workloads = collect_workloads(placement.selection.manifests).workloads
        if cluster is None or not workloads or pods.list_workloads(placement.address, cluster.id):
            continue
        assessment = find_candidate_feasibility(pods, cluster, workloads)
        yield _build_feasibility_row(rejected.address, rejected.cluster, assessment, is_selected=False)


def _build_feasibility_row(
    address: Address, cluster: str, assessment: ObjectFeasibility, *, is_selected: bool = True
) -> Feasibility:
    missing = assessment.missing_nodes
    return Feasibility(
        address,
        cluster,
        assessment.result,
        missing_nodes=sum(missing.values()) or None,
        pool=next(iter(missing)) if len(missing) == 1 else "",
        missing_by_pool=missing if len(missing) > 1 else {},
        reason=assessment.reason,
        replicas_requested=assessment.replicas_requested,
        replicas_max=assessment.replicas_max,
        is_certain=assessment.is_certain,
        is_selected=is_selected,
    )


def _is_active_binding(binding: Binding) -> bool:
    return binding.state in (BindingState.SCHEDULED, BindingState.BOUND) and not binding.is_deleting


def _count_requested_pods(placement: PlacementPlan) -> int | None:
    """Count the pods requested by the selected manifests; None without workloads."""
    workloads = collect_workloads(placement.selection.manifests).workloads
    return sum(workload.replicas for workload in workloads) if workloads else None


def _has_no_requested_pods(placement: PlacementPlan) -> bool:
    """Return whether the selected manifests request no pods on any cluster: 0 replicas, and no DaemonSet."""
    workloads = collect_workloads(placement.selection.manifests).workloads
    return all(workload.replicas == 0 and workload.kind != "DaemonSet" for workload in workloads)


def _combine_site_capacities(capacities: Container[str]) -> str:
    """Return the capacity of a site for all pools of a row together."""
    return next(capacity for capacity in ("no", _UNKNOWN, "yes") if capacity in capacities)


def _list_added_nodes(vms: Iterable[VmObject], row: Feasibility, outcome: FleetOutcome) -> Iterator[_AdditionalNodes]:
    """Yield the additional nodes of a row by pool, as far as site and pool are known."""
    if not row.missing_pools:
        return
    cluster = outcome.clusters[row.cluster]
    for vm_object in vms:
        demand, site = vm_object.request.demand, vm_object.request.site
        if demand is None or site is None or demand.owner.partition(":")[2] != cluster.id:
            continue
        for pool_demand in demand.pools:
            if pool_demand.pool in row.missing_pools:
                standalone = build_standalone_demand(pool_demand.sku, pool_demand.constraints)
                free = site.scheduler.count_free_slots(standalone)
                names = (demand.site_id, cluster.id, pool_demand.pool, pool_demand.sku.title)
                yield _AdditionalNodes(*names, free, row.missing_pools[pool_demand.pool])


def _evaluate_site_capacity(addition: _AdditionalNodes, additions: Iterable[_AdditionalNodes]) -> str:
    """Return "yes" if a site has capacity for an addition beside those of other bindings, "no" or "unknown".

    Bindings of one pool may share new nodes: at least the largest addition is needed, at most the sum.
    """
    on_site = [other for other in additions if other.site == addition.site]
    same_sku = [other for other in on_site if other.sku == addition.sku]
    largest: dict[tuple[str, str], int] = {}
    for other in same_sku:
        key = other.cluster_id, other.pool
        largest[key] = max(largest.get(key, 0), other.count)
    if sum(largest.values()) > addition.free.maximum:
        return "no"
    is_enough = sum(other.count for other in same_sku) <= addition.free.minimum
    return "yes" if is_enough and len(same_sku) == len(on_site) else _UNKNOWN
