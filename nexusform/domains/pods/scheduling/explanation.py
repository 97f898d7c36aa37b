"""Why a pod is where it is: every node with all its reasons or with its points, rule by rule."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct, field

from nexusform.domains.pods.scheduling.rules import taints
from nexusform.domains.pods.scheduling.run import Run
from nexusform.domains.pods.scheduling.scheduler import Predictor
from nexusform.domains.pods.scheduling.session import Session
from nexusform.domains.pods.scheduling.workloads import (
    DEFAULT_SEED,
    Cluster,
    Node,
    Pairs,
    PodSpec,
    StandingPod,
    Workload,
)
from nexusform.scheduling.decision import Refusal


class NodeVerdict(Struct, frozen=True):
    """One node for one pod: all reasons against it, or its points per rule (weighted) and their sum. `hints`
    say of some rules that refuse it what Kubernetes does not say: which taint.
    """

    node: str
    refusals: tuple[Refusal, ...]
    points: Mapping[str, int]
    total: int | None
    hints: Mapping[str, str] = field(default_factory=dict)


def explain(
    cluster: Cluster,
    standing: Sequence[StandingPod],
    workloads: Sequence[Workload],
    pod: tuple[str, int],
    *,
    seed: int = DEFAULT_SEED,
    lost: Collection[tuple[str, int]] = (),
    removed: Collection[str] = (),
) -> tuple[NodeVerdict, ...]:
    """Every node as it stood when `pod` (workload key, number) was last decided, best total first.

    The prediction is replayed. Empty when it decided nothing about the pod (it stays, or is unknown).
    """
    looks: list[tuple[NodeVerdict, ...]] = []

    def look(workload: str, number: int, run: Run) -> None:
        if (workload, number) == pod:
            looks.append(_verdicts(run))

    Predictor(cluster, standing, workloads, seed, lost, removed, look).run()
    return looks[-1] if looks else ()


def consider(
    cluster: Cluster,
    standing: Iterable[StandingPod],
    spec: PodSpec,
    number: int = 0,
    volumes: Pairs = (),
) -> tuple[NodeVerdict, ...]:
    """Every node for one more pod of a spec beside what stands, best total first. `volumes` are its own."""
    pod = StandingPod("", number, "", spec, volumes=volumes)
    session = Session(cluster, standing, DEFAULT_SEED, lost=(pod,))
    return _verdicts(session.run_for(spec, number))


def _verdicts(run: Run) -> tuple[NodeVerdict, ...]:
    """Every node by what the run says of it, best total first."""
    points = run.scored()
    verdicts = []
    for at, node in enumerate(run.board.nodes):
        by_rule = points.get(at)
        total = None if by_rule is None else sum(by_rule.values())
        refusals = tuple(run.refusals(at))
        verdicts.append(NodeVerdict(node.name, refusals, by_rule or {}, total, _hints(run, node, refusals)))
    return tuple(sorted(verdicts, key=lambda v: (v.total is None, -(v.total or 0), v.node)))


def _hints(run: Run, node: Node, refusals: Iterable[Refusal]) -> dict[str, str]:
    """By rule, what keeps the pod away."""
    taint = taints.keeping_away(run.group.spec, node)
    if taint is None:
        return {}
    return {refusal.rule: taints.written(taint) for refusal in refusals if refusal.rule == "taints"}
