"""Pods when nodes are down: which fall over, where they fit meanwhile, which stay Pending.

Deployments, StatefulSets, ReplicaSets and Jobs get replacements on the nodes that are left; a bare Pod
waits for its node; a DaemonSet's pod goes and comes with its node. Replacements evict pods of lower
priority where nothing else helps. Nobody is moved back afterwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.forecast import PREEMPTED, PodOutcome, Prediction
from nexusform.domains.pods.scheduling.preemption import allowed_now, holds
from nexusform.domains.pods.scheduling.scheduler import predict
from nexusform.domains.pods.scheduling.workloads import Budget, Cluster, StandingPod, Workload

NO_PODS: Final[Mapping[str, ClusterPods]] = MappingProxyType({})  # nothing is known of any cluster's
_BARE = "Pod"
_DAEMONS = "DaemonSet"


class ClusterPods(Struct, frozen=True):
    """What runs on one cluster. Nodes are named as the VMs are; `standing` are the pods as they stand."""

    cluster_id: str
    cluster: Cluster
    workloads: tuple[Workload, ...]
    standing: tuple[StandingPod, ...]


class PodMove(Struct, frozen=True):
    """A pod that lost its node: where it runs meanwhile ("" = nowhere, and `reason` says why).

    `certain`: any run of the scheduler would decide so; otherwise it is one outcome among several.
    """

    pod: str
    was: str
    node: str
    reason: str = ""
    certain: bool = True


class PodsOutcome(StrEnum):
    """What happens to a workload, from best to worst."""

    UNTOUCHED = "untouched"
    KEPT = "kept"
    RESTARTED = "restarted"  # every pod went at once, and was replaced
    REDUCED = "reduced"  # some pods have no node meanwhile
    LOST = "lost"


_RANK = list(PodsOutcome)


class WorkloadLeft(Struct, frozen=True):
    """One workload while nodes are down: pods that ran before, that run the moment the nodes go
    (`at_once`), and that run after replacements. `pending` are all that wait for a node meanwhile, also those
    that had none before; a DaemonSet's go with theirs and wait for nothing. `held_up_by` are budgets that a
    drain cannot satisfy.
    """

    cluster_id: str
    workload: str
    replicas: int
    before: int
    at_once: int
    running: int
    moves: tuple[PodMove, ...]
    pending: int = 0
    held_up_by: tuple[str, ...] = ()

    @property
    def certain(self) -> bool:
        """Whether any run of the scheduler would decide so for each of its pods."""
        return all(move.certain for move in self.moves)

    def outcome(self, *, drained: bool) -> PodsOutcome:
        """In a word. Without a drain nothing runs until replacements do, so losing every pod is a loss."""
        all_at_once = self.before > 0 and self.at_once == 0
        none_left = self.before > 0 and self.running == 0
        if none_left or (all_at_once and not drained):
            return PodsOutcome.LOST
        if self.pending:
            return PodsOutcome.REDUCED
        return PodsOutcome.RESTARTED if all_at_once else PodsOutcome.KEPT


class WorkloadVerdict(Struct, frozen=True):
    """A workload over all waves. `certain`: no lot of the scheduler could change what is said."""

    cluster_id: str
    workload: str
    replicas: int
    fewest_at_once: int
    fewest: int
    most_pending: int
    waves: tuple[int, ...]
    outcome: PodsOutcome
    certain: bool
    held_up_by: tuple[str, ...] = ()


class PodsWalk(Struct):
    """The pods of one cluster through waves of nodes that go down and come back."""

    pods: ClusterPods
    drained: bool
    standing: tuple[StandingPod, ...] = ()
    # Per workload key the waves in which it lost pods, by their numbers.
    _hits: dict[str, list[tuple[int, WorkloadLeft]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.standing = self.pods.standing

    def wave(self, number: int, down: Collection[str]) -> tuple[WorkloadLeft, ...]:
        """Take these nodes down and bring them back; the workloads that lost pods."""
        workloads, meanwhile = take_down(self.pods, self.standing, down, drained=self.drained)
        for left in workloads:
            self._hits.setdefault(left.workload, []).append((number, left))
        self.standing = bring_back(self.pods, meanwhile)
        return workloads

    def verdicts(self) -> tuple[WorkloadVerdict, ...]:
        """Every workload, in the order of the cluster's."""
        return tuple(self._verdict(workload) for workload in self.pods.workloads)

    def _verdict(self, workload: Workload) -> WorkloadVerdict:
        """One workload over all waves; one that lost no pods is as it was before."""
        hits = self._hits.get(workload.key, [])
        lefts = [left for _, left in hits]
        running = _running(self.pods.standing)[workload.key]
        outcomes = [left.outcome(drained=self.drained) for left in lefts]
        budgets = chain.from_iterable(left.held_up_by for left in lefts)
        return WorkloadVerdict(
            cluster_id=self.pods.cluster_id,
            workload=workload.key,
            replicas=lefts[0].replicas if lefts else running,
            fewest_at_once=min((left.at_once for left in lefts), default=running),
            fewest=min((left.running for left in lefts), default=running),
            most_pending=max((left.pending for left in lefts), default=0),
            waves=tuple(number for number, _ in hits),
            outcome=max(outcomes, key=_RANK.index, default=PodsOutcome.UNTOUCHED),
            certain=all(left.certain for left in lefts),
            held_up_by=tuple(dict.fromkeys(budgets)),
        )


def take_down(
    pods: ClusterPods, standing: Sequence[StandingPod], down: Collection[str], *, drained: bool
) -> tuple[tuple[WorkloadLeft, ...], tuple[StandingPod, ...]]:
    """The workloads that lose pods when these nodes go, and every pod as it stands meanwhile."""
    fall = _fall(pods, standing, down)
    lefts = tuple(
        _left(pods, workload, fall, drained=drained)
        for workload in pods.workloads
        if workload.key in fall.lost
    )
    return lefts, fall.after


class _Fall(Struct, frozen=True):
    """Nodes that go (`down`): the pods before, what becomes of them, and the pods meanwhile. By workload key,
    `lost` are the pods of these nodes and those `evicted` to make room for them; `ran` and `runs` count the
    pods that have a node before and meanwhile.
    """

    before: Sequence[StandingPod]
    down: Collection[str]
    prediction: Prediction
    after: tuple[StandingPod, ...]
    evicted: Mapping[tuple[str, int], PodOutcome]
    lost: Mapping[str, Sequence[StandingPod]]
    ran: Counter[str]
    runs: Counter[str]


def _fall(pods: ClusterPods, standing: Sequence[StandingPod], down: Collection[str]) -> _Fall:
    """Let the scheduler decide without these nodes."""
    nodes = tuple(node for node in pods.cluster.nodes if node.name not in down)
    prediction = predict(replace(pods.cluster, nodes=nodes), standing, _controlled(pods))
    evicted = {
        (outcome.workload, outcome.number): outcome
        for outcome in (*prediction.outcomes, *prediction.displaced)
        if outcome.trigger == PREEMPTED
    }
    lost: dict[str, list[StandingPod]] = {}
    for pod in standing:
        if pod.node in down or (pod.workload, pod.number) in evicted:
            lost.setdefault(pod.workload, []).append(pod)
    after = prediction.standing()
    return _Fall(standing, down, prediction, after, evicted, lost, _running(standing), _running(after))


def _left(pods: ClusterPods, workload: Workload, fall: _Fall, *, drained: bool) -> WorkloadLeft:
    """A workload that lost pods."""
    gone = fall.lost[workload.key]
    outcomes = fall.prediction.of(workload.key)
    by_number = {outcome.number: outcome for outcome in outcomes}
    moves = tuple(
        _move(pod, by_number.get(pod.number), fall.evicted.get((pod.workload, pod.number))) for pod in gone
    )
    with_their_nodes = [pod for pod in gone if pod.node in fall.down]
    budgets: tuple[str, ...] = ()
    if drained:
        budgets = _held_up(pods.cluster.budgets, workload, fall.before, with_their_nodes, moves)
    before = fall.ran[workload.key]
    # A bare Pod stands in the prediction as it stood, and nothing makes it anew.
    bare = len(with_their_nodes) if workload.kind == _BARE else 0
    return WorkloadLeft(
        cluster_id=pods.cluster_id,
        workload=workload.key,
        replicas=before if workload.kind == _DAEMONS else workload.replicas,
        before=before,
        at_once=before - len(moves),
        running=fall.runs[workload.key] - bare,
        moves=moves,
        pending=bare or sum(outcome.pending for outcome in outcomes),
        held_up_by=budgets,
    )


def _controlled(pods: ClusterPods) -> list[Workload]:
    """The workloads that something makes anew: all but bare Pods."""
    return [workload for workload in pods.workloads if workload.kind != _BARE]


def bring_back(pods: ClusterPods, standing: Sequence[StandingPod]) -> tuple[StandingPod, ...]:
    """Every pod once all nodes are up again: Pending ones find a node, others stay where they are."""
    return predict(pods.cluster, standing, _controlled(pods)).standing()


def _running(standing: Iterable[StandingPod]) -> Counter[str]:
    return Counter(pod.workload for pod in standing if pod.node)


def _move(pod: StandingPod, outcome: PodOutcome | None, victim: PodOutcome | None) -> PodMove:
    """Where a pod is that lost its node or, as a victim, its place to a more important one."""
    kind = pod.workload.split("/")[1]
    if kind == _BARE:
        why = "is evicted, and nobody makes it anew" if victim is not None else "waits for its node"
        return PodMove(pod.name, pod.node, "", f"a bare Pod {why}")
    if outcome is None or (kind == _DAEMONS and victim is None):
        return PodMove(pod.name, pod.node, "", "a DaemonSet's pod goes with its node")
    return PodMove(pod.name, pod.node, outcome.node, outcome.reason, outcome.certain)


# --- budgets -----------------------------------------------------------------------------------


def strict_budgets(pods: ClusterPods) -> tuple[Budget, ...]:
    """The budgets that allow no eviction at all as things stand."""
    strict: list[Budget] = []
    for budget in pods.cluster.budgets:
        allowed = allowed_now(budget, pods.standing)
        if allowed is not None and allowed <= 0:
            strict.append(budget)
    return tuple(strict)


def _held_up(
    budgets: Iterable[Budget],
    workload: Workload,
    standing: Sequence[StandingPod],
    gone: Sequence[StandingPod],
    moves: Sequence[PodMove],
) -> tuple[str, ...]:
    """Budgets that cannot be honoured: none may go, or those that went leave too few running."""
    if workload.kind == _DAEMONS:
        return ()
    names = []
    without_node = sum(not move.node for move in moves)
    for budget in budgets:
        if not any(holds(budget, pod) for pod in gone):
            continue
        allowed = allowed_now(budget, standing)
        if allowed is not None and (allowed <= 0 or without_node > allowed):
            names.append(f"{budget.namespace}/{budget.name}")
    return tuple(names)
