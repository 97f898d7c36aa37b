"""Proposals for bindings with waiting pods: more nodes in a pool, or another cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from nexusform.domains.fleet.planning.outcome import FleetOutcome
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.scheduling.bindings import PlacementType
from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.planning.feasibility import find_candidate_feasibility
from nexusform.domains.pods.planning.phase import PodPhase
from nexusform.placements.vm_demands import PoolDemand
from nexusform.planning.phases import FixProposal
from nexusform.planning.plan_request import ArgumentAdjustment
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.plans.plan import Feasibility, FeasibilityResult
from nexusform.resources.address import Address

_MAX_CLUSTERS: Final = 2  # other clusters tried per binding
_MAX_EXTRA_NODES: Final = 2  # new nodes may be on other machines, racks and zones than the predicted ones


def suggest_fixes(
    rows: Sequence[Feasibility], outcome: FleetOutcome, pods: PodPhase, vms: Iterable[VmObject]
) -> Iterator[FixProposal]:
    """Yield the proposals for the waiting rows of a plan: first the pool counts, then other clusters."""
    waiting = [row for row in rows if row.is_waiting]
    vms = tuple(vms)
    for extra in range(_MAX_EXTRA_NODES):
        yield from _suggest_counts(waiting, outcome, vms, extra)
        if not extra:
            yield from _suggest_clusters(waiting, outcome, pods)


def _suggest_counts(
    rows: Iterable[Feasibility], outcome: FleetOutcome, vms: Sequence[VmObject], extra: int
) -> Iterator[FixProposal]:
    """Yield a proposal per pool with missing nodes, for all placements on its cluster."""
    groups: dict[tuple[str, str], list[Feasibility]] = {}
    for row in rows:
        if row.missing_nodes and row.cluster in outcome.clusters and row.site_capacity != "no":
            groups.setdefault((row.cluster, row.pool), []).append(row)
    for (cluster, pool), group in groups.items():
        found = _find_pool(vms, outcome.clusters[cluster].id, pool)
        if found is None:
            continue
        address, demand = found
        existing = len(demand.numbers)
        count = existing + extra + max(row.missing_nodes or 0 for row in group)
        argument = str(demand.count_path[-1])
        text = f"{argument} = {count:,} (now {existing:,}) in pool {pool} of {address}"
        data = {"address": str(address), "pool": pool, argument: count, "sku": demand.sku.name}
        bindings = frozenset((row.placement, row.cluster) for row in group)
        edit = ArgumentAdjustment(address, demand.count_path, count)
        yield FixProposal("count", text, (edit,), bindings, bindings, {"counts": [data]})


def _find_pool(vms: Iterable[VmObject], cluster_id: str, pool: str) -> tuple[Address, PoolDemand] | None:
    """Find a pool with a count in the configuration."""
    for vm_object in vms:
        demand = vm_object.request.demand
        if demand is None or vm_object.is_removed or demand.owner.partition(":")[2] != cluster_id:
            continue
        for pool_demand in demand.pools:
            if pool_demand.pool == pool and pool_demand.count_path:
                return vm_object.instance.address, pool_demand
    return None


def _suggest_clusters(rows: Iterable[Feasibility], outcome: FleetOutcome, pods: PodPhase) -> Iterator[FixProposal]:
    """Yield proposals with another cluster by name."""
    for row in rows:
        placement = outcome.placements[row.placement]
        if not _can_name_clusters(placement):
            continue
        selected = [binding.cluster for binding in placement.bindings]
        for cluster in _list_candidates(placement, outcome, pods):
            names = sorted(cluster if name == row.cluster else name for name in selected)
            listed = ", ".join(f'"{name}"' for name in names)
            values: dict[str, Any] = {"cluster_names": names}
            text = f"cluster {cluster} instead of {row.cluster}: cluster_names = [{listed}]"
            if placement.spec.configuration.placement_type is not PlacementType.PICK_FIXED:
                values |= {"placement_type": PlacementType.PICK_FIXED.value, "number_of_clusters": None}
                text += ' and placement_type = "PickFixed", without number_of_clusters'
            edits = [ArgumentAdjustment(row.placement, ("policy", name), value) for name, value in values.items()]
            solves, runs = frozenset({(row.placement, row.cluster)}), frozenset({(row.placement, cluster)})
            change = {"cluster": cluster, "cluster_names": names}
            yield FixProposal("cluster", text, tuple(edits), solves, runs, change)


def _can_name_clusters(placement: PlacementPlan) -> bool:
    """Return whether the clusters may be given by name: of PickFixed, or of a new PickN. The type of an existing
    placement is immutable.
    """
    if not isinstance((placement.spec.instance.config or {}).get("policy"), dict):
        return False
    kind = placement.spec.configuration.placement_type
    return kind is PlacementType.PICK_FIXED or (kind is PlacementType.PICK_N and placement.spec.is_new)


def _list_candidates(placement: PlacementPlan, outcome: FleetOutcome, pods: PodPhase) -> list[str]:
    """Return the other clusters with capacity for the pods of a placement, the largest capacity first."""
    workloads = collect_workloads(placement.selection.manifests).workloads
    selected = {binding.cluster for binding in placement.bindings}
    candidates: list[tuple[int, str]] = []
    for name, cluster in outcome.clusters.items():
        if name not in selected:
            assessment = find_candidate_feasibility(pods, cluster, workloads)
            if assessment.result is FeasibilityResult.RUNS:
                candidates.append((-(assessment.replicas_max or 0), name))
    return [name for _, name in sorted(candidates)[:_MAX_CLUSTERS]]
