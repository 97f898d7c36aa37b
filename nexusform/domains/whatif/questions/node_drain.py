"""Drain of a node of a cluster listed by kubectl: the pods to evict, and their nodes meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, build_error, suggest_name
from nexusform.diagnostics.phrases import format_list
from nexusform.domains.whatif.questions.pod_outage import (
    ClusterPods,
    WorkloadImpact,
    WorkloadOutcome,
    simulate_nodes_down,
)

_MAX_NAMES: Final = 20


class NodeDrainEffects(Struct, frozen=True):
    """Effects of the drain of a node on the workloads of its cluster."""

    cluster_id: str
    node: str
    workloads: tuple[WorkloadImpact, ...]

    @property
    def lost_workloads(self) -> tuple[WorkloadImpact, ...]:
        """Workloads with fewer pods than before, or without a pod at once."""
        kept = (WorkloadOutcome.UNTOUCHED, WorkloadOutcome.KEPT)
        return tuple(item for item in self.workloads if item.determine_outcome(is_drained=True) not in kept)

    @property
    def blocking_budgets(self) -> tuple[str, ...]:
        """Budgets violated by the evictions: the drain waits for them."""
        return tuple(dict.fromkeys(name for item in self.workloads for name in item.blocking_budgets))


def find_observed_node(clusters: Mapping[str, ClusterPods], text: str) -> tuple[ClusterPods, str] | Diagnostic:
    """Find a node by name, or by `CLUSTER/NAME`."""
    ids = {
        f"{cluster_id}/{node.name}": (pods, node.name)
        for cluster_id, pods in clusters.items()
        for node in pods.cluster.nodes
    }
    matches = [item for node_id, item in ids.items() if text in (node_id, item[1])]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = [node_id for node_id, item in ids.items() if item[1] == text]
        detail = f'Several clusters have a node "{text}"; use an id: {format_list(names, _MAX_NAMES)}.'
        return build_error("ambiguous-name", detail, headline="Ambiguous node")
    if not ids:
        detail = "No data kubernetes_nodes lists a cluster. Add one with the output of kubectl."
        return build_error("nothing-to-simulate", detail)
    names = [node for _, node in ids.values()]
    detail = f'There is no node "{text}".{suggest_name(text, names)} Known: {format_list(sorted(ids), _MAX_NAMES)}.'
    return build_error("unknown-node", detail)


def simulate_node_drain(pods: ClusterPods, node: str) -> NodeDrainEffects:
    """Simulate the drain of a node. Pods of DaemonSets stay."""
    impacts, _ = simulate_nodes_down(pods, pods.existing, {node}, is_drained=True)
    drained = tuple(impact for impact in impacts if "/DaemonSet/" not in impact.workload)
    return NodeDrainEffects(pods.cluster_id, node, drained)
