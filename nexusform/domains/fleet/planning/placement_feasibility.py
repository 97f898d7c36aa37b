"""Feasibility of every binding of a plan: its pods on the nodes of its cluster, and the site below them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from nexusform.domains.fleet.planning.outcome import FleetOutcome
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.scheduling.bindings import Binding, BindingState
from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.planning.feasibility import find_feasibility
from nexusform.domains.pods.planning.phase import PodPhase
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.plans.plan import Feasibility, FeasibilityResult
from nexusform.scheduling.racks.vms import Interval, build_standalone_demand

_NO_NODES: Final = "the nodes of the cluster are not known"
_UNKNOWN: Final = "unknown"


def list_feasibility(outcome: FleetOutcome, pods: PodPhase, vms: Iterable[VmObject]) -> Iterator[Feasibility]:
    """Yield a row per binding of a placement with pods, in the order of the plan."""
    vms = tuple(vms)
    for address, placement in outcome.placements.items():
        bindings = [binding for binding in placement.bindings if _is_selected(binding)]
        requested = _count_requested(placement) if bindings else None
        if requested is None:
            continue
        for binding in bindings:
            cluster = outcome.clusters.get(binding.cluster)
            assessment = find_feasibility(pods, placement.address, cluster) if cluster is not None else None
            if cluster is None or assessment is None:
                result = FeasibilityResult.UNKNOWN
                yield Feasibility(address, binding.cluster, result, reason=_NO_NODES, replicas_requested=requested)
                continue
            capacity = _UNKNOWN
            if assessment.missing_nodes is not None:
                capacity = _find_site_capacity(vms, cluster.id, assessment.pool, assessment.missing_nodes)
            yield Feasibility(
                address,
                binding.cluster,
                assessment.result,
                missing_nodes=assessment.missing_nodes,
                pool=assessment.pool,
                site_capacity=capacity,
                reason=assessment.reason,
                replicas_requested=assessment.replicas_requested,
                replicas_max=assessment.replicas_max,
                is_certain=assessment.is_certain,
            )


def _is_selected(binding: Binding) -> bool:
    return binding.state in (BindingState.SCHEDULED, BindingState.BOUND) and not binding.is_deleting


def _count_requested(placement: PlacementPlan) -> int | None:
    """Count the pods requested by the selected manifests; None without workloads."""
    workloads = collect_workloads(placement.selection.manifests).workloads
    return sum(workload.replicas for workload in workloads) if workloads else None


def _find_site_capacity(vms: Iterable[VmObject], cluster_id: str, pool: str, count: int) -> str:
    """Return "yes" if the site has capacity for this many VMs of a pool after the plan, "no" or "unknown"."""
    for vm_object in vms:
        demand, site = vm_object.request.demand, vm_object.request.site
        if demand is None or site is None or demand.owner.partition(":")[2] != cluster_id:
            continue
        for pool_demand in demand.pools:
            if pool_demand.pool == pool:
                constraints = pool_demand.constraints
                free = site.scheduler.count_free_slots(build_standalone_demand(pool_demand.sku, constraints))
                return _compare(free, count)
    return _UNKNOWN


def _compare(free: Interval, count: int) -> str:
    if free.minimum >= count:
        return "yes"
    return "no" if free.maximum < count else _UNKNOWN
