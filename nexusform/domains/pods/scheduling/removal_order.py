"""Order in which controllers delete the pods of a workload on scale-in. Source: kubernetes
pkg/controller/controller_utils.go, ActivePodsWithRanks, and replica_set.go, getPodsRankedByRelatedPodsOnSameNode.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cmp_to_key
from typing import Final

from nexusform.domains.pods.scheduling.cluster_records import ExistingPod, PodCondition

_PHASES: Final = ("Pending", "Unknown", "Running")
_RUNNING: Final = PodCondition()
_NANOSECONDS: Final = 10**9


def sort_for_removal(
    kind: str, pods: Sequence[ExistingPod], related_pods: Sequence[ExistingPod] = (), now: int = 0
) -> list[ExistingPod]:
    """Return the pods in the order of removal on scale-in. A StatefulSet removes its highest ordinals. A
    ReplicaSet first removes pods without a node, then those not ready, with the lowest deletion cost,
    share a node with most `related_pods` (of all templates of the workload, by default `pods`), or became ready
    last. Times are compared by their order of magnitude before `now` (seconds since 1970).
    """
    if kind == "StatefulSet":
        return sorted(pods, key=lambda pod: -pod.number)
    pods_by_node = Counter(pod.node for pod in related_pods or pods if pod.node)

    def compare(first: ExistingPod, second: ExistingPod) -> int:
        first_key, second_key = (
            _build_removal_sort_key(first, pods_by_node),
            _build_removal_sort_key(second, pods_by_node),
        )
        if first_key != second_key:
            return -1 if first_key < second_key else 1
        # Compare two pods by their times of readiness, restarts and creation; predicted pods by age.
        one, two = first.condition, second.condition
        if one is None or two is None:
            return -1 if (-first.age, -first.number) < (-second.age, -second.number) else 1
        if one.is_ready and two.is_ready and one.ready_time != two.ready_time:
            return _compare_magnitudes(one.ready_time, two.ready_time, one, two, now)
        if one.restarts != two.restarts:
            return two.restarts - one.restarts
        if one.creation_time != two.creation_time:
            return _compare_magnitudes(one.creation_time, two.creation_time, one, two, now)
        return -1 if (-first.age, -first.number) < (-second.age, -second.number) else 1

    return sorted(pods, key=cmp_to_key(compare))


def _build_removal_sort_key(pod: ExistingPod, pods_by_node: Counter[str]) -> tuple[int, ...]:
    """Return the deciding facts other than times, smallest first."""
    condition = pod.condition or _RUNNING
    phase = _PHASES.index(condition.phase) if condition.phase in _PHASES else len(_PHASES)
    return (bool(pod.node), phase, condition.is_ready, condition.deletion_cost, -pods_by_node[pod.node])


def _compare_magnitudes(first_time: int, second_time: int, one: PodCondition, two: PodCondition, now: int) -> int:
    """Compare two times by the logarithm of their distance from now: the later one is smaller."""
    if not now or not first_time or not second_time:
        return second_time - first_time if first_time and second_time else first_time - second_time
    magnitudes = [
        int(math.log2((now - time) * _NANOSECONDS)) if now > time else -1 for time in (first_time, second_time)
    ]
    if magnitudes[0] != magnitudes[1]:
        return magnitudes[0] - magnitudes[1]
    return -1 if one.uid < two.uid else 1
