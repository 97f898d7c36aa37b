"""Feasibility of every binding: its pods on the nodes of its cluster, and the site below.

It includes proposals for waiting pods.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import format_count, format_list, group_by
from nexusform.domains.fleet.planning.fleet_outcome import FleetOutcome
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    PlacementType,
    collect_clusters,
    list_active_bindings,
    select_scheduled_bindings,
)
from nexusform.domains.fleet.types.fleet_member_cluster import MEMBER_LABEL
from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.planning.pod_feasibility import (
    ClusterLossEffects,
    ClusterPodCapacity,
    ObjectFeasibility,
    find_candidate_feasibility,
    find_object_feasibility,
    find_worst_loss,
)
from nexusform.domains.pods.planning.pod_phase import PodPhase
from nexusform.json_data.plain_data import get_list, get_mapping, get_value_at_path
from nexusform.placements.vm_demands import PoolDemand
from nexusform.planning.phases import ProposedFix
from nexusform.planning.plan_request import ArgumentAdjustment
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.plans.plan import Feasibility, FeasibilityResult, MissingObject
from nexusform.resources.address import Address
from nexusform.scheduling.racks.vms import Interval, build_standalone_demand

_NO_NODES: Final = "the nodes of the cluster are not known"
# Such as deleted by an override.
_NO_PODS: Final = "no pods of the placement are predicted on the cluster"
_LEAVING: Final = "its member is leaving the fleet"
_UNKNOWN: Final = "unknown"


class _AdditionalNodes(Struct, frozen=True):
    """Nodes missing in a pool (`count`), to be added on its site.

    `free` is the least and the greatest number of further VMs of the pool with capacity there
    after the plan.
    """

    site: str
    cluster_id: str
    pool: str
    sku: str
    free: Interval
    count: int


def list_binding_feasibility(
    outcome: FleetOutcome,
    pods: PodPhase,
    vms: Sequence[VmObject],
    *,
    includes_losses: bool,
    tries_nodes: bool,
) -> Iterator[Feasibility]:
    """Yield a row per binding of a placement with pods, in the order of the plan.

    With `tries_nodes`, count the missing nodes of its cluster, and whether the site has capacity
    for them. With
    `includes_losses`, add the effect of one machine or rack down, and a row per rejected cluster
    with known nodes.
    """
    rows = list(_build_rows_without_capacity(outcome, pods, tries_nodes=tries_nodes))
    if includes_losses:
        rows = [
            *_build_rows_with_loss_effects(rows, outcome, pods),
            *_build_rejected_cluster_rows(outcome, pods),
        ]
        order = {address: number for number, address in enumerate(outcome.placements)}
        rows.sort(key=lambda row: order[row.placement])
    # Of each row, one per pool.
    additions = [list(_list_added_nodes(vms, row, outcome)) for row in rows]
    # rows share the capacity of a site.
    all_additions = list(chain.from_iterable(additions))
    for row, row_additions in zip(rows, additions, strict=True):
        capacities = {
            _evaluate_site_capacity(addition, all_additions) for addition in row_additions
        }
        # The site of a pool is unknown.
        if len(row_additions) < len(row.missing_pools):
            capacities.add(_UNKNOWN)
        # All pools need their nodes, so the worst capacity counts; "" without missing nodes.
        worst = next(
            (capacity for capacity in ("no", _UNKNOWN, "yes") if capacity in capacities), ""
        )
        yield replace(row, site_capacity=worst) if worst else row


def _build_rows_without_capacity(
    outcome: FleetOutcome, pods: PodPhase, *, tries_nodes: bool
) -> Iterator[Feasibility]:
    """Yield a row per scheduled binding of a placement with workloads.

    Rows do not have the capacity of sites yet.
    """
    # By cluster id, shared by placements.
    capacities: dict[str, ClusterPodCapacity] = {}
    for address, placement in outcome.placements.items():
        bindings = select_scheduled_bindings(list_active_bindings(placement.bindings))
        if not bindings or not collect_workloads(placement.selection.manifests).workloads:
            continue
        # filled by _build_unassessed_row.
        figures: _ReplicaFigures = {}
        departed_clusters = placement.departed_clusters
        for binding in bindings:
            cluster = outcome.clusters.get(binding.cluster)
            if binding.cluster in departed_clusters:
                yield _build_unassessed_row(placement, binding, _LEAVING, figures)
                continue
            # A hub cannot observe its pods, nor change them.
            unreachability = placement.selection.clusters.unreachable.get(binding.cluster)
            if unreachability is not None:
                yield _build_unassessed_row(placement, binding, unreachability, figures)
                continue
            if cluster is None:
                yield _build_unassessed_row(placement, binding, _NO_NODES, figures)
                continue
            if cluster.id not in capacities:
                capacities[cluster.id] = ClusterPodCapacity(pods, cluster)
            assessment = find_object_feasibility(
                placement.address, capacities[cluster.id], tries_nodes=tries_nodes
            )
            if assessment is None:
                yield _build_unassessed_row(placement, binding, _NO_PODS, figures)
            else:
                yield _build_feasibility_row(address, binding.cluster, assessment)


# By the identity of a list of objects: the list, their requested replicas, and whether no pod
# needs a node.
_ReplicaFigures = dict[int, tuple[Sequence[object], int, bool]]


def _build_unassessed_row(
    placement: PlacementPlan, binding: Binding, reason: str, figures: _ReplicaFigures
) -> Feasibility:
    """Build the row of a binding without predicted pods, for this reason.

    If only the nodes are not known and no pod needs one (0 replicas), the placement runs. `figures`
    caches its counts by the id() of a list of objects: clusters without overrides share one list.
    """
    resources = placement.compute_resources(binding, placement.rollout.clusters)
    # The plan does not reach the cluster: as if the newest snapshot was rolled out.
    if resources is None:
        store = placement.snapshot_store
        resources = store.render_cluster(store.latest_index, binding.cluster)
    manifests = resources.manifests if resources is not None else ()
    if id(manifests) not in figures:
        workloads = collect_workloads(manifests).workloads
        needs_node = any(
            workload.replicas or workload.kind == "DaemonSet" for workload in workloads
        )
        replicas = sum(workload.replicas for workload in workloads)
        # The list stays referenced here, so no other list gets its id.
        figures[id(manifests)] = (manifests, replicas, bool(workloads) and not needs_node)
    _manifests, replicas, needs_no_node = figures[id(manifests)]
    is_known = reason == _NO_NODES and needs_no_node
    return Feasibility(
        placement.spec.instance.address,
        binding.cluster,
        FeasibilityResult.RUNS if is_known else FeasibilityResult.UNKNOWN,
        reason="" if is_known else reason,
        replicas_requested=replicas,
        is_certain=is_known,
    )


def _build_rows_with_loss_effects(
    rows: Iterable[Feasibility], outcome: FleetOutcome, pods: PodPhase
) -> Iterator[Feasibility]:
    """Yield the rows with the effects of one machine and one rack down.

    Rows without known nodes or pods have none, such as those of unreachable members.
    """
    losses_by_cluster: dict[str, ClusterLossEffects] = {}
    for row in rows:
        cluster = outcome.clusters.get(row.cluster)
        placement = outcome.placements[row.placement]
        is_unreachable = row.cluster in placement.selection.clusters.unreachable
        workloads = (
            pods.find_object_pods(placement.address, cluster.id).workloads
            if cluster is not None
            else ()
        )
        if cluster is None or is_unreachable or not workloads:
            yield row
            continue
        if row.cluster not in losses_by_cluster:
            losses_by_cluster[row.cluster] = ClusterLossEffects(pods, cluster)
        losses = losses_by_cluster[row.cluster]
        keys = {workload.key for workload in workloads}
        machine_effect = find_worst_loss(losses.by_machine, keys)
        rack_effect = find_worst_loss(losses.by_rack, keys)
        yield replace(row, one_machine_down=machine_effect, one_rack_down=rack_effect)


def _build_rejected_cluster_rows(outcome: FleetOutcome, pods: PodPhase) -> Iterator[Feasibility]:
    """Yield a row per cluster rejected by a placement with pods, if its nodes are known."""
    for rejected in outcome.rejected_clusters:
        placement = outcome.placements[rejected.address]
        cluster = outcome.clusters.get(rejected.cluster)
        workloads = collect_workloads(placement.selection.manifests).workloads
        if (
            cluster is None
            or not workloads
            or pods.find_object_pods(placement.address, cluster.id).workloads
        ):
            # nodes not known, no pods, or pods planned there.
            continue
        manifests = placement.selection.manifests
        assessment = find_candidate_feasibility(pods, cluster, workloads, manifests)
        yield _build_feasibility_row(
            rejected.address, rejected.cluster, assessment, is_selected=False
        )


def _build_feasibility_row(
    address: Address, cluster: str, assessment: ObjectFeasibility, *, is_selected: bool = True
) -> Feasibility:
    """Build the row of a placement (its address) on a cluster from an assessment."""
    missing = assessment.missing_nodes  # by pool
    return Feasibility(
        address,
        cluster,
        assessment.result,
        missing_nodes=sum(missing.values()) or None,
        # several are in `missing_by_pool`.
        pool=next(iter(missing)) if len(missing) == 1 else "",
        missing_by_pool=missing if len(missing) > 1 else {},
        reason=assessment.reason,
        replicas_requested=assessment.replicas_requested,
        replicas_max=assessment.replicas_max,
        is_certain=assessment.is_certain,
        is_selected=is_selected,
        missing=tuple(
            MissingObject(need.kind, need.namespace, need.name, need.key)
            for need in assessment.missing
        ),
        by=assessment.by,
    )


def _list_added_nodes(
    vms: Iterable[VmObject], row: Feasibility, outcome: FleetOutcome
) -> Iterator[_AdditionalNodes]:
    """Yield the nodes to add for a row by pool, as far as site and pool are known."""
    if not row.missing_pools:
        # None are needed.
        return
    cluster = outcome.clusters[row.cluster]
    for vm_object in vms:
        demand = vm_object.request.demand
        site = vm_object.request.site
        if demand is None or site is None or demand.cluster_id != cluster.id:
            # removed, or of another cluster.
            continue
        for pool_demand in demand.pools:
            if pool_demand.pool in row.missing_pools:
                # One VM on its own.
                standalone = build_standalone_demand(pool_demand.sku, pool_demand.constraints)
                yield _AdditionalNodes(
                    site=demand.site_id,
                    cluster_id=cluster.id,
                    pool=pool_demand.pool,
                    sku=pool_demand.sku.title,
                    free=site.scheduler.count_free_slots(standalone),
                    count=row.missing_pools[pool_demand.pool],
                )


def _evaluate_site_capacity(
    addition: _AdditionalNodes, additions: Iterable[_AdditionalNodes]
) -> str:
    """Return "yes" if a site has capacity for an addition, else "no" or "unknown".

    The `additions` of other bindings count. Bindings of one pool may share new nodes: at least the
    largest addition is needed, at most the sum. With 2 and 3 nodes for one pool these are 3 and 5:
    "no" with 2 free VMs at most, "yes" with 5 at least.
    """
    # By cluster and pool.
    largest: Counter[tuple[str, str]] = Counter()
    maximum_needed = 0
    has_other_sizes = False
    for other in additions:
        if other.site != addition.site:
            continue
        if other.sku != addition.sku:
            has_other_sizes = True
            continue
        key = other.cluster_id, other.pool
        largest[key] = max(largest[key], other.count)
        maximum_needed += other.count
    minimum_needed = largest.total()
    if minimum_needed > addition.free.maximum:
        return "no"
    # VMs of other sizes use the same machines, so the numbers of free VMs do not add up.
    is_enough = maximum_needed <= addition.free.minimum and not has_other_sizes
    return "yes" if is_enough else _UNKNOWN


_REQUIRED_AFFINITY: Final = "required_during_scheduling_ignored_during_execution"
# Other clusters tried per binding.
_MAX_OTHER_CLUSTERS: Final = 2


def suggest_feasibility_fixes(
    rows: Sequence[Feasibility],
    outcome: FleetOutcome,
    pods: PodPhase,
    vms: Sequence[VmObject],
    limit: int,
) -> Iterator[ProposedFix]:
    """Yield proposals for waiting rows (with pods without a node).

    Some raise pool counts by the missing nodes, or by one more. Some replace the cluster of a row,
    for the first `limit` rows. Some exclude the clusters by an affinity.
    """
    waiting = [row for row in rows if row.is_waiting]
    extendable = [row for row in waiting if row.missing_pools and row.site_capacity != "no"]
    yield from _suggest_pool_counts(extendable, outcome, vms, extra=0)
    yield from _suggest_replacements(waiting[:limit], outcome, pods)
    yield from _suggest_affinity_exclusions(rows, outcome)
    # New nodes may be on other machines, racks and zones than the predicted ones, so one more
    # may be needed.
    yield from _suggest_pool_counts(extendable, outcome, vms, extra=1)


def _suggest_pool_counts(
    rows: Iterable[Feasibility], outcome: FleetOutcome, vms: Sequence[VmObject], extra: int
) -> Iterator[ProposedFix]:
    """Yield a proposal for all rows with the same cluster and pools.

    It adds their missing nodes and `extra` ones.
    """
    for (cluster, pools), group in group_by(
        rows, lambda row: (row.cluster, tuple(row.missing_pools))
    ).items():
        candidates = [_find_pool(vms, outcome.clusters[cluster].id, pool) for pool in pools]
        adjustable_pools = [candidate for candidate in candidates if candidate is not None]
        # More nodes in some pools only would not suffice.
        if len(adjustable_pools) == len(pools):
            yield _build_count_fix(group, adjustable_pools, extra)


def _build_count_fix(
    rows: Sequence[Feasibility], pools: Iterable[tuple[Address, PoolDemand]], extra: int
) -> ProposedFix:
    """Build a proposal of counts for `pools`.

    A count adds up the existing VMs, those missing for the rows, and `extra` ones.
    """
    texts = []
    edits = []
    counts = []
    for address, demand in pools:
        existing = len(demand.numbers)
        count = existing + extra + max(row.missing_pools[demand.pool] for row in rows)
        argument = str(demand.count_path[-1])
        texts.append(
            f"{argument} = {count:,} (now {existing:,}) in pool {demand.pool} of {address}"
        )
        counts.append(
            {"address": str(address), "pool": demand.pool, argument: count, "sku": demand.sku.name}
        )
        edits.append(ArgumentAdjustment(address, demand.count_path, count))
    bindings = frozenset((row.placement, row.cluster) for row in rows)
    text = format_list(texts)
    return ProposedFix(
        "count", text, tuple(edits), solves=bindings, runs=bindings, change={"counts": counts}
    )


def _find_pool(
    vms: Iterable[VmObject], cluster_id: str, pool: str
) -> tuple[Address, PoolDemand] | None:
    """Return the address and demand of a cluster's pool.

    The result is None if the configuration has no count to change.
    """
    for vm_object in vms:
        demand = vm_object.request.demand
        if demand is None or demand.cluster_id != cluster_id:
            # removed, or of another cluster.
            continue
        for pool_demand in demand.pools:
            if pool_demand.pool == pool and pool_demand.count_path:
                return vm_object.instance.address, pool_demand
    return None


def _suggest_replacements(
    rows: Iterable[Feasibility], outcome: FleetOutcome, pods: PodPhase
) -> Iterator[ProposedFix]:
    """Yield proposals of a list of clusters (PickFixed).

    One with capacity replaces the cluster of a waiting row. With [east, west] selected and capacity
    in north, the proposal for a row of west is [east, north].
    """
    for row in rows:
        placement = outcome.placements[row.placement]
        kind = placement.spec.configuration.placement_type
        has_policy_block = isinstance(
            get_value_at_path(placement.spec.instance.config, "policy"), dict
        )
        # An existing placement keeps its type; a new PickN may become a PickFixed.
        can_be_fixed = kind is PlacementType.PICK_FIXED or (
            kind is PlacementType.PICK_N and placement.spec.is_new
        )
        if not has_policy_block or not can_be_fixed:
            # Nothing to edit.
            continue
        selected = collect_clusters(placement.bindings)
        for cluster in _list_clusters_with_capacity(placement, outcome, pods):
            names = sorted(cluster if name == row.cluster else name for name in selected)
            listed = ", ".join(f'"{name}"' for name in names)
            # Of the block policy.
            values: dict[str, Any] = {"cluster_names": names}
            text = f"cluster {cluster} instead of {row.cluster}: cluster_names = [{listed}]"
            if kind is not PlacementType.PICK_FIXED:
                values |= {
                    "placement_type": PlacementType.PICK_FIXED.value,
                    "number_of_clusters": None,
                }
                text += ' and placement_type = "PickFixed", without number_of_clusters'
            edits = [
                ArgumentAdjustment(row.placement, ("policy", name), value)
                for name, value in values.items()
            ]
            # The edits remove the binding to the row's cluster, and the new one must run.
            solves = frozenset({(row.placement, row.cluster)})
            runs = frozenset({(row.placement, cluster)})
            change = {"cluster": cluster, "cluster_names": names}
            yield ProposedFix(
                "cluster", text, tuple(edits), solves=solves, runs=runs, change=change
            )


def _list_clusters_with_capacity(
    placement: PlacementPlan, outcome: FleetOutcome, pods: PodPhase
) -> list[str]:
    """Return the unselected clusters with capacity for a placement, up to a limit.

    The capacity is that of their present nodes. Clusters with capacity for most
    replicas come first.
    """
    workloads = collect_workloads(placement.selection.manifests).workloads
    # By name of the cluster.
    maximum_replicas: dict[str, int] = {}
    for name in outcome.clusters.keys() - collect_clusters(placement.bindings):
        feasibility = find_candidate_feasibility(
            pods,
            outcome.clusters[name],
            workloads,
            placement.selection.manifests,
            tries_nodes=False,
        )
        if feasibility.result is FeasibilityResult.RUNS:
            maximum_replicas[name] = feasibility.replicas_max or 0
    return sorted(maximum_replicas, key=lambda name: (-maximum_replicas[name], name))[
        :_MAX_OTHER_CLUSTERS
    ]


def _suggest_affinity_exclusions(
    rows: Iterable[Feasibility], outcome: FleetOutcome
) -> Iterator[ProposedFix]:
    """Yield a proposal per PickAll or existing PickN placement.

    It proposes a required cluster affinity that leaves out the clusters with waiting pods. There is
    none for a new PickN: it may become a PickFixed instead.
    """
    selected = [row for row in rows if row.is_selected]
    for address, group in group_by(selected, lambda row: row.placement).items():
        placement = outcome.placements[address]
        policy = _get_extensible_policy(placement)
        is_all = placement.spec.configuration.placement_type is PlacementType.PICK_ALL
        if policy is None:
            continue
        clusters = sorted(row.cluster for row in group if row.is_waiting)
        # Nothing to leave out, or nothing left.
        if not clusters or (is_all and len(clusters) == len(group)):
            continue
        condition = f"{MEMBER_LABEL} NotIn {json.dumps(clusters)}"
        text = (
            f"leave out {format_list(clusters)}: required cluster_affinity of {address} with "
            f"{condition}"
        )
        if is_all:
            text += f" ({format_count(len(group) - len(clusters), 'cluster')} left)"
        change = {"excluded_clusters": clusters, "label": MEMBER_LABEL, "operator": "NotIn"}
        affinity = _exclude_clusters(policy.get("affinity"), clusters)
        edit = ArgumentAdjustment(address, ("policy",), {**policy, "affinity": affinity})
        yield ProposedFix(
            "affinity",
            text,
            (edit,),
            solves=frozenset((address, name) for name in clusters),
            # No other binding.
            runs=frozenset(),
            change=change,
            # All of its other bindings must run.
            completed=address,
            fewer_clusters=len(clusters) if is_all else 0,
        )


def _get_extensible_policy(placement: PlacementPlan) -> Mapping[str, Any] | None:
    """Return the policy block of a PickAll or of an existing PickN, to be extended by an affinity.

    The result is None for others. A new placement without a policy gets a block of type PickAll. A
    policy in a manifest cannot be edited.
    """
    kind = placement.spec.configuration.placement_type
    if kind is PlacementType.PICK_FIXED:
        return None
    # It may become a PickFixed instead.
    if kind is PlacementType.PICK_N and placement.spec.is_new:
        return None
    config = get_mapping(placement.spec.instance.config)
    policy = config.get("policy")
    is_without_policy = policy is None and not config.get("manifest")
    if is_without_policy and placement.spec.is_new:
        return {"placement_type": PlacementType.PICK_ALL.value}
    # None: an existing placement, or a manifest.
    return policy if isinstance(policy, dict) else None


def _exclude_clusters(
    affinity: Mapping[str, Any] | None, clusters: Sequence[str]
) -> Mapping[str, Any]:
    """Return an affinity excluding clusters.

    Each required term gets one more condition, because terms are alternatives.
    """
    expression = {"key": MEMBER_LABEL, "operator": "NotIn", "values": list(clusters)}
    cluster_affinity = get_mapping(affinity, "cluster_affinity")
    # Without terms: a new one.
    terms = get_list(cluster_affinity, _REQUIRED_AFFINITY, "cluster_selector_term") or ({},)
    extended = []
    for term in terms:
        selector = get_mapping(term, "label_selector")
        expressions = [*get_list(selector, "match_expression"), expression]
        extended.append({**term, "label_selector": {**selector, "match_expression": expressions}})
    return {
        "cluster_affinity": {
            **cluster_affinity,
            _REQUIRED_AFFINITY: {"cluster_selector_term": extended},
        }
    }
