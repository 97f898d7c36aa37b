"""TaintToleration and NodeUnschedulable.

Hard taints and cordons filter, PreferNoSchedule taints lower the score.
"""

from collections.abc import Sequence
from typing import Final

from nexusform.diagnostics.phrases import enclose
from nexusform.domains.pods.scheduling.cluster_records import Node, PodSpec
from nexusform.domains.pods.scheduling.rules import node_affinity
from nexusform.kubernetes.matching import (
    NO_SCHEDULE,
    Taint,
    is_matching_toleration,
    is_tolerated,
    select_untolerated_taint,
)

REASON: Final = "node(s) had untolerated taint(s)"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
_UNSCHEDULABLE: Final = "node(s) were unschedulable"
_CORDON: Final = Taint("node.kubernetes.io/unschedulable", value="", effect=NO_SCHEDULE)


def find_cordon_rejection(pod: PodSpec, node: Node) -> str | None:
    """Return a reason if the node is cordoned and the pod does not tolerate it."""
    if node.unschedulable and not is_tolerated(_CORDON, pod.tolerations):
        return _UNSCHEDULABLE
    return None


def find_rejection(pod: PodSpec, node: Node) -> str | None:
    """Return a reason if the pod does not tolerate a taint of the node."""
    return None if find_untolerated_taint(pod, node) is None else REASON


def select_taints(node: Node, *effects: str) -> list[Taint]:
    """Return the taints of a node with one of these effects."""
    return [taint for taint in node.taints if taint.effect in effects]


def find_untolerated_taint(pod: PodSpec, node: Node) -> Taint | None:
    """Return the first taint of a node against a new pod; None if all are tolerated."""
    return select_untolerated_taint(select_taints(node, NO_SCHEDULE, NO_EXECUTE), pod.tolerations)


def find_evicting_taint(pod: PodSpec, node: Node) -> Taint | None:
    """Return the first taint of a node against a running pod; None if all are tolerated."""
    return select_untolerated_taint(select_taints(node, NO_EXECUTE), pod.tolerations)


def list_evicting_taints(pod: PodSpec, node: Node) -> list[Taint]:
    """Return the taints of a node that evict a running pod, at once or after a time."""
    permanent_tolerations = [
        toleration for toleration in pod.tolerations if toleration.seconds is None
    ]
    return [
        taint
        for taint in select_taints(node, NO_EXECUTE)
        if not is_tolerated(taint, permanent_tolerations)
    ]


def compute_toleration_seconds(pod: PodSpec, node: Node) -> int | None:
    """Return after how many seconds a node evicts a pod; None for never.

    The first toleration per taint counts, and of several times the shortest one.
    Source: kubernetes pkg/controller/tainteviction.
    """
    times: list[int] = []
    for taint in select_taints(node, NO_EXECUTE):
        toleration = next(
            (item for item in pod.tolerations if is_matching_toleration(item, taint)), None
        )
        if toleration is None:
            # The pod is evicted at once.
            return 0
        if toleration.seconds is not None:
            times.append(max(0, toleration.seconds))
    return min(times, default=None)


def score(pod: PodSpec, node: Node) -> int:
    """Return the number of untolerated PreferNoSchedule taints of the node."""
    soft_taints = select_taints(node, PREFER_NO_SCHEDULE)
    soft_tolerations = [
        toleration
        for toleration in pod.tolerations
        if toleration.effect in ("", PREFER_NO_SCHEDULE)
    ]
    return sum(not is_tolerated(taint, soft_tolerations) for taint in soft_taints)


def normalize_scores(raws: Sequence[int]) -> list[int]:
    """Return 100 for nodes without such taints and 0 for those with the most."""
    return [100 - score for score in node_affinity.normalize_scores(raws)]


def format_taint(taint: Taint) -> str:
    """Format a taint as kubectl does: `dedicated=core:NoSchedule`."""
    return f"{taint.key}{enclose('=', taint.value)}:{taint.effect}"
