"""In which order pods are tried, and in which order surplus pods go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from nexusform.scheduling.pods.model import StandingPod, Workload


def queue_order(workloads: Iterable[Workload]) -> list[Workload]:
    """DaemonSets first, then by priority, highest first; else as given (creation, then document order)."""
    return sorted(workloads, key=lambda w: (w.kind != "DaemonSet", -w.pod.priority))


def removal_order(kind: str, pods: Sequence[StandingPod]) -> list[StandingPod]:
    """Who goes first when a workload shrinks.

    A StatefulSet loses its highest ordinals. A ReplicaSet loses Pending pods, then those on nodes with
    most of its pods (as they stand before anything goes), then the newest.
    """
    if kind == "StatefulSet":
        return sorted(pods, key=lambda pod: -pod.number)
    company = Counter(pod.node for pod in pods if pod.node)
    return sorted(pods, key=lambda pod: (bool(pod.node), -company[pod.node], -pod.age, -pod.number))


def free_numbers(taken: Iterable[int], first: int, count: int) -> list[int]:
    """The lowest `count` numbers from `first` on that nobody has."""
    used = set(taken)
    free: list[int] = []
    number = first
    while len(free) < count:
        if number not in used:
            free.append(number)
        number += 1
    return free
