"""TaintToleration: NoSchedule and NoExecute keep away, PreferNoSchedule costs points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nexusform.domains.pods.scheduling.rules.scale import to_hundred
from nexusform.domains.pods.scheduling.workloads import Node, PodSpec
from nexusform.kubernetes.matching import NO_SCHEDULE, Taint, is_tolerated, tolerates, untolerated

REASON: Final = "node(s) had untolerated taint(s)"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"


def refuse(pod: PodSpec, node: Node) -> str | None:
    """A reason when a taint of the node keeps the pod away."""
    return None if keeping_away(pod, node) is None else REASON


def keeping_away(pod: PodSpec, node: Node) -> Taint | None:
    """The first taint of a node that keeps a pod away."""
    if not node.taints:
        return None
    hard = (taint for taint in node.taints if taint.effect in (NO_SCHEDULE, NO_EXECUTE))
    return untolerated(hard, pod.tolerations)


def evicting(pod: PodSpec, node: Node) -> Taint | None:
    """The first taint of a node that evicts a pod which runs there."""
    hard = (taint for taint in node.taints if taint.effect == NO_EXECUTE)
    return untolerated(hard, pod.tolerations)


def all_evicting(pod: PodSpec, node: Node) -> list[Taint]:
    """The taints of a node that evict a pod which runs there, at once or after a time."""
    lasting = [each for each in pod.tolerations if each.seconds is None]
    hard = (taint for taint in node.taints if taint.effect == NO_EXECUTE)
    return [taint for taint in hard if not is_tolerated(taint, lasting)]


def stays_for(pod: PodSpec, node: Node) -> int | None:
    """How many seconds a pod stays on a node that evicts it; None for ever. Of each taint the first
    toleration counts, of several the shortest time (pkg/controller/tainteviction).
    """
    if not node.taints:
        return None
    times: list[int] = []
    for taint in node.taints:
        if taint.effect != NO_EXECUTE:
            continue
        toleration = next((each for each in pod.tolerations if tolerates(each, taint)), None)
        if toleration is None:
            return 0
        if toleration.seconds is not None:
            times.append(max(0, toleration.seconds))
    return min(times, default=None)


def raw(pod: PodSpec, node: Node) -> int:
    """How many PreferNoSchedule taints of the node the pod does not tolerate."""
    if not node.taints:
        return 0
    soft = [toleration for toleration in pod.tolerations if toleration.effect in ("", PREFER_NO_SCHEDULE)]
    return sum(taint.effect == PREFER_NO_SCHEDULE and not is_tolerated(taint, soft) for taint in node.taints)


def scores(raws: Sequence[int]) -> list[int]:
    """Fewest such taints is best: 100 for none, 0 for the most."""
    return [100 - score for score in to_hundred(raws)]


def written(taint: Taint) -> str:
    """A taint as kubectl writes it: `dedicated=core:NoSchedule`."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"
