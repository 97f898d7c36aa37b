"""Explanation of a pod's placement: each node with its rejections, or with its points per rule."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct, field

from nexusform.domains.pods.scheduling.cluster_records import (
    DEFAULT_SEED,
    Cluster,
    ExistingPod,
    Pairs,
    PodSpec,
    Workload,
)
from nexusform.domains.pods.scheduling.pod_prediction import PodPredictor
from nexusform.domains.pods.scheduling.pod_spec_scheduler import PodSpecScheduler
from nexusform.domains.pods.scheduling.random_choices import RandomChoices, RandomFacts
from nexusform.domains.pods.scheduling.rules import taints
from nexusform.domains.pods.scheduling.scheduling_session import Observer, SchedulingSession
from nexusform.scheduling.placement_decision import Rejection


class NodeVerdict(Struct, frozen=True):
    """Result of one node for one pod.

    All rejections, or the weighted points per rule and their sum. `hints` add details per rejecting
    rule that Kubernetes omits, such as the taint.
    """

    node: str
    rejections: tuple[Rejection, ...]
    points: Mapping[str, int]
    total: int | None
    hints: Mapping[str, str] = field(default_factory=dict)


def explain(
    cluster: Cluster,
    existing_pods: Sequence[ExistingPod],
    workloads: Sequence[Workload],
    pod: tuple[str, int],
    *,
    seed: int = DEFAULT_SEED,
    lost_pods: Collection[tuple[str, int]] = (),
) -> tuple[NodeVerdict, ...]:
    """Return every node as evaluated when `pod` was last decided, highest total first.

    `pod` is a workload key and a number. The prediction is replayed. The result is empty if the
    prediction decides nothing about the pod (it is kept, or unknown).
    """
    evaluations: list[tuple[NodeVerdict, ...]] = []

    def record_evaluation(workload: str, number: int, scheduler: PodSpecScheduler) -> None:
        if (workload, number) == pod:
            evaluations.append(_build_node_verdicts(scheduler))

    run_prediction(
        cluster, existing_pods, workloads, record_evaluation, seed=seed, lost_pods=lost_pods
    )
    return evaluations[-1] if evaluations else ()


def run_prediction(
    cluster: Cluster,
    existing_pods: Sequence[ExistingPod],
    workloads: Sequence[Workload],
    observer: Observer,
    *,
    seed: int = DEFAULT_SEED,
    lost_pods: Collection[tuple[str, int]] = (),
) -> None:
    """Run a prediction again.

    The observer is called for every pod just before its decision.
    """
    PodPredictor(
        cluster,
        existing_pods,
        workloads,
        RandomChoices(RandomFacts(seed)),
        lost_pods,
        removed_workloads=(),
        observer=observer,
    ).run()


def evaluate_nodes(
    cluster: Cluster,
    existing_pods: Iterable[ExistingPod],
    spec: PodSpec,
    number: int = 0,
    volumes: Pairs = (),
) -> tuple[NodeVerdict, ...]:
    """Return the verdicts of all nodes on one more pod of a spec, highest total first.

    `volumes` are pairs of a claim and its volume.
    """
    pod = ExistingPod(workload="", number=number, node="", spec=spec, volumes=volumes)
    # A lost pod keeps its volumes.
    session = SchedulingSession(cluster, existing_pods, lost_pods=(pod,))
    return _build_node_verdicts(session.create_scheduler(spec, number))


def _build_node_verdicts(scheduler: PodSpecScheduler) -> tuple[NodeVerdict, ...]:
    """Return every node as evaluated by the scheduler, highest total first, rejected nodes last.

    Rejected nodes have no total.
    """
    points = scheduler.score_nodes()
    verdicts = []
    for node_index, node in enumerate(scheduler.cache.nodes):
        # Points by rule; none for a rejected node.
        by_rule = points.get(node_index, {})
        total = sum(by_rule.values()) if by_rule else None
        rejections = tuple(scheduler.list_rejections(node_index))
        taint = taints.find_untolerated_taint(scheduler.group.spec, node)
        # Details of rejections, by rule.
        hints = {}
        if taint is not None and any(rejection.rule == "taints" for rejection in rejections):
            hints["taints"] = taints.format_taint(taint)
        verdicts.append(NodeVerdict(node.name, rejections, by_rule, total, hints))
    return tuple(
        sorted(
            verdicts,
            key=lambda verdict: (verdict.total is None, -(verdict.total or 0), verdict.node),
        )
    )
