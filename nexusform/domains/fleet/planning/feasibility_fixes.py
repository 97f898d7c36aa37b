"""Proposals for bindings with waiting pods: more nodes, another cluster, or an affinity without the cluster."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from nexusform.diagnostics.phrases import format_count, format_list
from nexusform.domains.fleet.planning.fleet_outcome import FleetOutcome
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.scheduling.bindings import PlacementType
from nexusform.domains.fleet.types.fleet_member_cluster import MEMBER_LABEL
from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.planning.pod_feasibility import find_candidate_feasibility
from nexusform.domains.pods.planning.pod_phase import PodPhase
from nexusform.placements.vm_demands import PoolDemand
from nexusform.planning.phases import ProposedFix
from nexusform.planning.plan_request import ArgumentAdjustment
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.plans.plan import Feasibility, FeasibilityResult
from nexusform.resources.address import Address

_REQUIRED: Final = "required_during_scheduling_ignored_during_execution"
_MAX_CLUSTERS: Final = 2  # other clusters tried per binding
_MAX_EXTRA_NODES: Final = 2  # new nodes may be on other machines, racks and zones than the predicted ones


def suggest_feasibility_fixes(
    rows: Sequence[Feasibility], outcome: FleetOutcome, pods: PodPhase, vms: Iterable[VmObject], limit: int
) -> Iterator[ProposedFix]:
    """Yield the proposals for the waiting rows of a plan: first the pool counts, then other clusters for the first
    `limit` rows.
    """
    waiting = [row for row in rows if row.is_waiting]
    vms = tuple(vms)
    for extra in range(_MAX_EXTRA_NODES):
        # A proposal per cluster and pools with missing nodes, for all its placements with these pools.
        groups: dict[tuple[str, tuple[str, ...]], list[Feasibility]] = {}
        for row in waiting:
            if row.missing_pools and row.cluster in outcome.clusters and row.site_capacity != "no":
                groups.setdefault((row.cluster, tuple(row.missing_pools)), []).append(row)
        for (cluster, pools), group in groups.items():
            found = {pool: _find_pool(vms, outcome.clusters[cluster].id, pool) for pool in pools}
            texts, edits, counts = [], [], []
            for pool, pair in found.items():
                if pair is None:
                    break
                address, demand = pair
                existing = len(demand.numbers)
                count = existing + extra + max(row.missing_pools[pool] for row in group)
                argument = str(demand.count_path[-1])
                texts.append(f"{argument} = {count:,} (now {existing:,}) in pool {pool} of {address}")
                counts.append({"address": str(address), "pool": pool, argument: count, "sku": demand.sku.name})
                edits.append(ArgumentAdjustment(address, demand.count_path, count))
            if len(edits) == len(pools):
                bindings = frozenset((row.placement, row.cluster) for row in group)
                yield ProposedFix("count", format_list(texts), tuple(edits), bindings, bindings, {"counts": counts})
        if not extra:
            yield from _suggest_replacements(waiting[:limit], outcome, pods)
            yield from _suggest_affinity_exclusions(rows, outcome)


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


def _suggest_replacements(rows: Iterable[Feasibility], outcome: FleetOutcome, pods: PodPhase) -> Iterator[ProposedFix]:
    """Yield proposals with another cluster by name."""
    for row in rows:
        placement = outcome.placements[row.placement]
        if not _can_use_pick_fixed(placement):
            continue
        selected = [binding.cluster for binding in placement.bindings]
        for cluster in _list_clusters_with_capacity(placement, outcome, pods):
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
            yield ProposedFix("cluster", text, tuple(edits), solves, runs, change)


def _can_use_pick_fixed(placement: PlacementPlan) -> bool:
    """Return whether the clusters may be given by name: of PickFixed, or of a new PickN. The type of an existing
    placement is immutable.
    """
    if not isinstance((placement.spec.instance.config or {}).get("policy"), dict):
        return False
    kind = placement.spec.configuration.placement_type
    return kind is PlacementType.PICK_FIXED or (kind is PlacementType.PICK_N and placement.spec.is_new)


def _list_clusters_with_capacity(placement: PlacementPlan, outcome: FleetOutcome, pods: PodPhase) -> list[str]:
    """Return the other clusters with capacity for the pods of a placement, the largest capacity first."""
    workloads = collect_workloads(placement.selection.manifests).workloads
    selected = {binding.cluster for binding in placement.bindings}
    candidates: list[tuple[int, str]] = []
    for name, cluster in outcome.clusters.items():
        if name not in selected:
            assessment = find_candidate_feasibility(pods, cluster, workloads, tries_nodes=False)
            if assessment.result is FeasibilityResult.RUNS:
                candidates.append((-(assessment.replicas_max or 0), name))
    return [name for _, name in sorted(candidates)[:_MAX_CLUSTERS]]


def _suggest_affinity_exclusions(rows: Iterable[Feasibility], outcome: FleetOutcome) -> Iterator[ProposedFix]:
    """Yield a proposal per PickAll or existing PickN placement: an affinity without its clusters with waiting pods."""
    groups: dict[Address, list[Feasibility]] = {}
    for row in rows:
        if row.is_selected:
            groups.setdefault(row.placement, []).append(row)
    for address, group in groups.items():
        placement = outcome.placements[address]
        policy, kind = _get_editable_policy(placement), placement.spec.configuration.placement_type
        is_all = kind is PlacementType.PICK_ALL
        if policy is None or not (is_all or (kind is PlacementType.PICK_N and not placement.spec.is_new)):
            continue
        clusters = sorted(row.cluster for row in group if row.is_waiting)
        if not clusters or (is_all and len(clusters) == len(group)):
            continue
        condition = f"{MEMBER_LABEL} NotIn {json.dumps(clusters)}"
        text = f"leave out {format_list(clusters)}: required cluster_affinity of {address} with {condition}"
        if is_all:
            text += f" ({format_count(len(group) - len(clusters), 'cluster')} left)"
        change = {"excluded_clusters": clusters, "label": MEMBER_LABEL, "operator": "NotIn"}
        edit = ArgumentAdjustment(
            address, ("policy",), {**policy, "affinity": _exclude_clusters(policy.get("affinity"), clusters)}
        )
        yield ProposedFix(
            "affinity",
            text,
            (edit,),
            frozenset((address, name) for name in clusters),
            frozenset(),
            change,
            completed=address,
            fewer_clusters=len(clusters) if is_all else 0,
        )


def _get_editable_policy(placement: PlacementPlan) -> Mapping[str, Any] | None:
    """Return the policy block of a placement; None if it cannot be edited: it is in a manifest, or a new one."""
    config = placement.spec.instance.config or {}
    policy = config.get("policy")
    if policy is None and placement.spec.is_new and not config.get("manifest"):
        return {"placement_type": PlacementType.PICK_ALL.value}
    return policy if isinstance(policy, dict) else None


def _exclude_clusters(affinity: Mapping[str, Any] | None, clusters: Sequence[str]) -> Mapping[str, Any]:
    """Return an affinity with one more condition in each required term: the terms are alternatives."""
    expression = {"key": MEMBER_LABEL, "operator": "NotIn", "values": list(clusters)}
    cluster_affinity = (affinity or {}).get("cluster_affinity") or {}
    terms: Sequence[Mapping[str, Any]] = (cluster_affinity.get(_REQUIRED) or {}).get("cluster_selector_term") or ({},)
    extended = []
    for term in terms:
        selector = term.get("label_selector") or {}
        expressions = [*(selector.get("match_expression") or ()), expression]
        extended.append({**term, "label_selector": {**selector, "match_expression": expressions}})
    return {"cluster_affinity": {**cluster_affinity, _REQUIRED: {"cluster_selector_term": extended}}}
