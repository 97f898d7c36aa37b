"""Pods while nodes are down: lost pods, replacements on other nodes, and pending pods.

Deployments, StatefulSets, ReplicaSets and Jobs get replacements on the remaining nodes; a bare Pod
waits for its node; a DaemonSet's pod follows its node. Replacements may evict pods of lower
priority. Pods are not moved back afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import DiagnosticsError, build_error, suggest_name
from nexusform.diagnostics.phrases import format_list
from nexusform.domains.pods.scheduling.cluster_records import Cluster, ExistingPod, Workload
from nexusform.domains.pods.scheduling.pod_outcomes import PREEMPTED, PodOutcome
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.preemption import compute_eviction_limits

# No known pods.
NO_PODS: Final[Mapping[str, ClusterPods]] = MappingProxyType({})
_BARE = "Pod"
_DAEMONS = "DaemonSet"
_MAX_NAMES: Final = 20


class ClusterPods(Struct, frozen=True):
    """Pods of one cluster.

    Nodes are named like the VMs; `existing` are the current pods. `doubts` return whether a gap of
    the snapshot may change the outcome of a pod.
    """

    cluster_id: str
    cluster: Cluster
    workloads: tuple[Workload, ...]
    existing: tuple[ExistingPod, ...]
    doubts: tuple[Callable[[PodOutcome], bool], ...] = ()


# Pods of a cluster without known pods.
NO_CLUSTER_PODS: Final = ClusterPods("", Cluster("", nodes=()), workloads=(), existing=())


class PodMove(Struct, frozen=True):
    """Pod with a lost node, and its node meanwhile ("" = none, with `reason`).

    With `is_certain` this holds in every run, without a doubt about the snapshot.
    """

    pod: str
    old_node: str
    node: str
    reason: str = ""
    is_certain: bool = True


class WorkloadOutcome(StrEnum):
    """Result for a workload, from best to worst."""

    UNTOUCHED = "untouched"
    KEPT = "kept"
    # All pods were lost at once and replaced.
    RESTARTED = "restarted"
    # Some pods have no node.
    REDUCED = "reduced"
    LOST = "lost"


_RANK = list(WorkloadOutcome)


class WorkloadImpact(Struct, frozen=True):
    """Impact of nodes down on one workload.

    `before` are the pods running before, `at_once` those still running immediately, and `running`
    those running after replacement. `pending` counts all pods without a node, including earlier
    ones but not a DaemonSet's. `blocking_budgets` are budgets violated by a drain, and
    `blocking_reasons` has a sentence for each.
    """

    cluster_id: str
    workload: str
    replicas: int
    before: int
    at_once: int
    running: int
    moves: tuple[PodMove, ...]
    pending: int = 0
    blocking_budgets: tuple[str, ...] = ()
    blocking_reasons: tuple[str, ...] = ()

    @property
    def is_certain(self) -> bool:
        """Whether every scheduler run has this result for each of its pods."""
        return all(move.is_certain for move in self.moves)

    def determine_outcome(self, *, is_drained: bool) -> WorkloadOutcome:
        """Determine the result.

        If all pods are lost at once without a drain, none runs until its replacement: LOST.
        """
        # All pods are gone at the same time.
        is_restarted = self.before > 0 and self.at_once == 0
        # No pod runs after the replacement, either.
        is_lost = self.before > 0 and self.running == 0
        if is_lost:
            return WorkloadOutcome.LOST
        if is_restarted and not is_drained:
            return WorkloadOutcome.LOST
        if self.pending:
            return WorkloadOutcome.REDUCED
        return WorkloadOutcome.RESTARTED if is_restarted else WorkloadOutcome.KEPT


class WorkloadVerdict(Struct, frozen=True):
    """Result for a workload over all waves.

    With `is_certain`, it is independent of random scheduler choices.
    """

    cluster_id: str
    workload: str
    replicas: int
    minimum_at_once: int
    minimum_running: int
    maximum_pending: int
    waves: tuple[int, ...]
    outcome: WorkloadOutcome
    is_certain: bool
    blocking_budgets: tuple[str, ...] = ()


class PodsSimulation(Struct):
    """Pods of one cluster through waves of nodes going down and up."""

    pods: ClusterPods
    is_drained: bool
    existing: tuple[ExistingPod, ...] = ()
    # Waves with lost pods (number and impact) by workload key.
    _impacts: dict[str, list[tuple[int, WorkloadImpact]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Start with the current pods.

        Each wave replaces `existing`.
        """
        self.existing = self.pods.existing

    def run_outage_wave(self, number: int, down: Collection[str]) -> tuple[WorkloadImpact, ...]:
        """Take these nodes down and up again, as the wave with this number.

        Return the affected workloads.
        """
        workloads, meanwhile = simulate_nodes_down(
            self.pods, self.existing, down, is_drained=self.is_drained
        )
        for impact in workloads:
            self._impacts.setdefault(impact.workload, []).append((number, impact))
        self.existing = simulate_nodes_up(self.pods, meanwhile)
        return workloads

    def build_verdicts(self) -> tuple[WorkloadVerdict, ...]:
        """Build the verdict of every workload, in the cluster's order."""
        return tuple(self._build_workload_verdict(workload) for workload in self.pods.workloads)

    def _build_workload_verdict(self, workload: Workload) -> WorkloadVerdict:
        """Build the verdict of one workload over all waves.

        Fewest running pods, most pending ones, worst result.
        """
        # (number of the wave, impact), without unaffected waves.
        waves = self._impacts.get(workload.key, [])
        impacts = [impact for _, impact in waves]
        # Before the first wave.
        running = _count_running(self.pods.existing)[workload.key]
        outcomes = [impact.determine_outcome(is_drained=self.is_drained) for impact in impacts]
        budgets = chain.from_iterable(impact.blocking_budgets for impact in impacts)
        return WorkloadVerdict(
            cluster_id=self.pods.cluster_id,
            workload=workload.key,
            replicas=impacts[0].replicas if impacts else running,
            minimum_at_once=min((impact.at_once for impact in impacts), default=running),
            minimum_running=min((impact.running for impact in impacts), default=running),
            maximum_pending=max((impact.pending for impact in impacts), default=0),
            waves=tuple(number for number, _ in waves),
            # The worst one.
            outcome=max(outcomes, key=_RANK.index, default=WorkloadOutcome.UNTOUCHED),
            is_certain=all(impact.is_certain for impact in impacts),
            blocking_budgets=tuple(dict.fromkeys(budgets)),
        )


def simulate_nodes_down(
    pods: ClusterPods,
    existing: Sequence[ExistingPod],
    nodes_down: Collection[str],
    *,
    is_drained: bool,
) -> tuple[tuple[WorkloadImpact, ...], tuple[ExistingPod, ...]]:
    """Simulate `nodes_down`: drained by evictions if `is_drained`, else lost at once.

    `existing` are the pods before. Return the impact on each workload with affected pods (lost or
    preempted), and all pods afterwards.
    """
    nodes = tuple(node for node in pods.cluster.nodes if node.name not in nodes_down)
    prediction = predict(
        replace(pods.cluster, nodes=nodes), existing, _select_controlled_workloads(pods)
    )
    # By workload key and pod number.
    preempted = {
        (outcome.workload, outcome.number): outcome
        for outcome in (*prediction.outcomes, *prediction.displaced_outcomes)
        if outcome.trigger == PREEMPTED
    }
    # By workload key: lost, or preempted by replacements of others.
    affected_pods: dict[str, list[ExistingPod]] = {}
    for pod in existing:
        if pod.node in nodes_down or (pod.workload, pod.number) in preempted:
            affected_pods.setdefault(pod.workload, []).append(pod)
    pods_after = prediction.list_existing_pods()
    # Numbers by workload key.
    running_before = _count_running(existing)
    running_after = _count_running(pods_after)
    impacts: list[WorkloadImpact] = []
    for workload in pods.workloads:
        # All of its pods stay.
        if workload.key not in affected_pods:
            continue
        outcomes = prediction.list_outcomes(workload.key)
        outcome_by_number = {outcome.number: outcome for outcome in outcomes}
        # Moves of each affected pod.
        moves: list[PodMove] = []
        lost_pods: list[ExistingPod] = []
        for pod in affected_pods[workload.key]:
            moves.append(
                _build_move(
                    pod,
                    outcome_by_number.get(pod.number),
                    preempted.get((pod.workload, pod.number)),
                    pods.doubts,
                )
            )
            if pod.node in nodes_down:
                lost_pods.append(pod)
        # Sentence by budget.
        violations: Mapping[str, str] = {}
        lost_at_once = len(lost_pods)
        # Budgets limit evictions. Without a drain there are none; pods of DaemonSets always stop
        # with their node.
        if is_drained and workload.kind != _DAEMONS:
            without_node = sum(not move.node for move in moves)
            limits = compute_eviction_limits(
                pods.cluster.budgets, existing, lost_pods, without_node
            )
            violations, lost_at_once = limits.violations, limits.pods_at_once
        before = running_before[workload.key]
        # The other affected pods.
        preempted_count = len(moves) - len(lost_pods)
        # The prediction leaves a bare Pod on its lost node. In fact, nothing re-creates it.
        bare_count = len(lost_pods) if workload.kind == _BARE else 0
        impact = WorkloadImpact(
            cluster_id=pods.cluster_id,
            workload=workload.key,
            replicas=before if workload.kind == _DAEMONS else workload.replicas,
            before=before,
            at_once=before - preempted_count - lost_at_once,
            running=running_after[workload.key] - bare_count,
            moves=tuple(moves),
            pending=bare_count or sum(outcome.is_pending for outcome in outcomes),
            blocking_budgets=tuple(violations),
            blocking_reasons=tuple(violations.values()),
        )
        impacts.append(impact)
    return tuple(impacts), pods_after


def _select_controlled_workloads(pods: ClusterPods) -> list[Workload]:
    """Select the workloads with a controller: all but bare Pods."""
    return [workload for workload in pods.workloads if workload.kind != _BARE]


def simulate_nodes_up(
    pods: ClusterPods, existing: Sequence[ExistingPod]
) -> tuple[ExistingPod, ...]:
    """Return every pod once all nodes are up again: pending pods get a node, others stay."""
    return predict(pods.cluster, existing, _select_controlled_workloads(pods)).list_existing_pods()


def remove_nodes(pods: ClusterPods, names: Collection[str]) -> ClusterPods:
    """Return the pods of a cluster without these nodes.

    Its controllers have re-created the pods elsewhere.
    """
    _, existing = simulate_nodes_down(pods, pods.existing, names, is_drained=False)
    nodes = tuple(node for node in pods.cluster.nodes if node.name not in names)
    return replace(pods, cluster=replace(pods.cluster, nodes=nodes), existing=existing)


def _count_running(pods: Iterable[ExistingPod]) -> Counter[str]:
    """Count the pods with a node by key of their workload."""
    return Counter(pod.workload for pod in pods if pod.node)


def _build_move(
    pod: ExistingPod,
    outcome: PodOutcome | None,
    preemption: PodOutcome | None,
    doubts: Iterable[Callable[[PodOutcome], bool]],
) -> PodMove:
    """Build the move of a pod with a lost node, or of one with a `preemption`.

    `outcome` is its prediction, if any.
    """
    kind = pod.workload.split("/")[1]  # of <namespace>/<kind>/<name>
    if kind == _BARE:
        reason = "is evicted and not re-created" if preemption is not None else "waits for its node"
        return PodMove(pod.name, pod.node, node="", reason=f"a bare Pod {reason}")
    # A DaemonSet's pod is never placed on another node. A preempted one may run again on
    # its own node.
    if outcome is None or (kind == _DAEMONS and preemption is None):
        return PodMove(
            pod.name, pod.node, node="", reason="a DaemonSet's pod is deleted with its node"
        )
    is_certain = outcome.is_certain and not any(is_affected(outcome) for is_affected in doubts)
    return PodMove(pod.name, pod.node, outcome.node, outcome.reason, is_certain)


class NodeDrainEffects(Struct, frozen=True):
    """Effects of the drain of a node on the workloads of its cluster."""

    cluster_id: str
    node: str
    workloads: tuple[WorkloadImpact, ...]

    @property
    def lost_workloads(self) -> tuple[WorkloadImpact, ...]:
        """Workloads with fewer running pods after the drain, or without any pod for a time."""
        kept = (WorkloadOutcome.UNTOUCHED, WorkloadOutcome.KEPT)
        return tuple(
            impact
            for impact in self.workloads
            if impact.determine_outcome(is_drained=True) not in kept
        )

    @property
    def blocking_budgets(self) -> tuple[str, ...]:
        """Budgets violated by the evictions: the drain waits for them."""
        return tuple(
            dict.fromkeys(chain.from_iterable(impact.blocking_budgets for impact in self.workloads))
        )


def find_observed_node(clusters: Mapping[str, ClusterPods], text: str) -> tuple[ClusterPods, str]:
    """Find the only node of this name or id (`CLUSTER/NAME`), with its cluster's pods.

    Raises DiagnosticsError.
    """
    # Cluster and name.
    nodes_by_id: dict[str, tuple[ClusterPods, str]] = {}
    for cluster_id, pods in clusters.items():
        nodes_by_id |= {
            f"{cluster_id}/{node.name}": (pods, node.name) for node in pods.cluster.nodes
        }
    matches = {
        node_id: (pods, name)
        for node_id, (pods, name) in nodes_by_id.items()
        if text in (node_id, name)
    }
    if len(matches) == 1:
        return next(iter(matches.values()))
    if matches:
        detail = (
            f'Several clusters have a node "{text}"; use an id: {format_list(matches, _MAX_NAMES)}.'
        )
        raise DiagnosticsError(build_error("ambiguous-name", detail, headline="Ambiguous node"))
    if not nodes_by_id:
        detail = "No data kubernetes_nodes lists a cluster. Add one with the output of kubectl."
        raise DiagnosticsError(build_error("nothing-to-simulate", detail))
    suggestion = suggest_name(text, [name for _, name in nodes_by_id.values()])
    detail = (
        f'There is no node "{text}".{suggestion} Known: '
        f"{format_list(sorted(nodes_by_id), _MAX_NAMES)}."
    )
    raise DiagnosticsError(build_error("unknown-node", detail))


def simulate_node_drain(pods: ClusterPods, node: str) -> NodeDrainEffects:
    """Simulate the drain of a node.

    Pods of DaemonSets stay.
    """
    impacts, _ = simulate_nodes_down(pods, pods.existing, {node}, is_drained=True)
    drained = tuple(impact for impact in impacts if "/DaemonSet/" not in impact.workload)
    return NodeDrainEffects(pods.cluster_id, node, drained)
