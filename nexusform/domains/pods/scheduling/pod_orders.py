"""Orders in which pods arrive at the scheduler, and in which controllers delete pods on scale-in.

Source of the latter: kubernetes pkg/controller/controller_utils.go, ActivePodsWithRanks,
and replica_set.go, getPodsRankedByRelatedPodsOnSameNode.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cmp_to_key, partial
from hashlib import blake2b
from itertools import count
from typing import Final

from msgspec import Struct

from nexusform.domains.pods.scheduling.cluster_records import ExistingPod, PodCondition, Workload

# Asynchronous hops of a controller until the pods exist; a Deployment creates a ReplicaSet first.
_HOPS: Final[Mapping[str, int]] = {"Pod": 0, "Deployment": 2}
# Time until a pod runs, in intervals between the creation of two objects.
_START_TIME: Final = 100
# Longest times of a hop and of the creation of one pod, likewise: a controller may be busy.
_SLOWNESS: Final = (0.7, 2)
# Every third sample mixes the pods of all workloads at random, as busy controllers do.
_MIXED_SAMPLES: Final = 3

# Any other phase is last.
_PHASE_RANKS: Final = {"Pending": 0, "Unknown": 1, "Running": 2}
_NANOSECONDS: Final = 10**9


def has_differing_concurrent_pods(workload: Workload) -> bool:
    """Return whether the pods of a workload differ, and arrive at the same time.

    They differ by node or ordinal.
    """
    return workload.kind == "DaemonSet" or (
        workload.kind == "StatefulSet" and not workload.is_ordered
    )


def count_controller_hops(key: str) -> int:
    """Return how many controllers act in turn until the pods of a workload exist.

    `key` is that of the workload.
    """
    # A key is namespace, kind and name.
    _, kind, _ = key.split("/", 2)
    return _HOPS.get(kind, 1)


class ArrivalOrder(Struct, frozen=True):
    """Order of arrival.

    Workloads arrive one after the other by `ranks` (keys, earliest first), or with a `sample`
    (from 1) pod by pod at drawn times after the creation of their objects in this order.
    `ordered_keys` are workloads with podManagementPolicy OrderedReady; pods of `claiming_keys`
    wait for their ResourceClaims. `has_slow_victims` means that evicted pods terminate after all
    others have arrived. `has_fast_replacements` means that their controllers replace them before
    the next pod arrives.
    """

    sample: int = 0
    ranks: tuple[str, ...] = ()
    ordered_keys: frozenset[str] = frozenset()
    has_slow_victims: bool = False
    claiming_keys: frozenset[str] = frozenset()
    has_fast_replacements: bool = False

    def select_next_workload(self, counts: Mapping[str, int]) -> str:
        """Return the workload of the next pod to arrive.

        It is the first by rank, or with a `sample` a random one. `counts` has the number of arrived
        pods by workload (-1: not started).
        """
        # An ordered StatefulSet with a pod waits until it runs, so others come first. If all are
        # such, none waits.
        ready_keys = [
            key for key, count in counts.items() if count < 1 or key not in self.ordered_keys
        ] or counts
        if not self.sample:
            return min(ready_keys, key=self.ranks.index)
        # These samples draw a workload for each pod; others draw times.
        if self.sample % _MIXED_SAMPLES == 0:
            step = sum(counts.values())
            return min(ready_keys, key=lambda key: self._hash_arrival_order(f"{step}|{key}"))
        # Ordered StatefulSets need no exception here: the arrival times of their pods
        # include the wait.
        return min(counts, key=lambda key: self._compute_arrival_time(key, counts[key]))

    def _compute_arrival_time(self, key: str, arrived_count: int) -> float:
        """Return the arrival time of a workload's next pod.

        The unit is the interval between the creation of two objects. `arrived_count` is the number
        of its pods so far (-1: not started). Objects are created in the order of `ranks`, their
        pods some hops later: one per controller in between.
        """
        # Four random numbers from 0 to 1. Three are equal for all pods of the workload: when its
        # object is created, how long a hop takes, and the time between two pods. `delay` is that of
        # this pod alone.
        interval, hop, pace = (byte / 256 for byte in self._hash_arrival_order(key)[:3])
        delay = self._hash_arrival_order(f"{arrived_count}|{key}")[0] / 256
        # Of the controllers in this sample.
        slowness = _SLOWNESS[self.sample % len(_SLOWNESS)]
        hops = count_controller_hops(key) + (key in self.claiming_keys)
        start = self.ranks.index(key) + interval / 4 + hops * hop * slowness
        earlier_count = max(0, arrived_count)
        # An OrderedReady StatefulSet: the next pod waits until the one before runs.
        if key in self.ordered_keys:
            return start + earlier_count * _START_TIME
        return start + (earlier_count + delay) * pace * slowness

    def compute_positions(self, workload: Workload, numbers: Sequence[int]) -> dict[int, int]:
        """Return the position of each pod in the order of arrival, by its number.

        Different pods are shuffled.
        """
        if not self.sample or not has_differing_concurrent_pods(workload):
            # In the order of their numbers.
            return {number: number for number in numbers}
        shuffled_numbers = sorted(
            numbers, key=lambda number: self._hash_arrival_order(f"{workload.key}|{number}")
        )
        return dict(zip(shuffled_numbers, count(), strict=False))

    def _hash_arrival_order(self, text: str) -> bytes:
        return blake2b(f"{self.sample}|{text}".encode(), digest_size=8).digest()


# Workload by workload in the order of the queue.
QUEUE_ORDER: Final = ArrivalOrder()


def sort_for_removal(
    pods: Sequence[ExistingPod], workload_nodes: Iterable[str], now: int = 0
) -> list[ExistingPod]:
    """Return the pods in the order of removal by a ReplicaSet.

    First are pods without a node, then those not ready, then those of the lowest deletion cost.
    Next are pods on nodes with most pods of the workload, then the last ready ones.
    `workload_nodes` has the node of each of its pods, of all templates. Times are compared by their
    order of magnitude before `now` (seconds since 1970).
    """
    pods_by_node = Counter(workload_nodes)
    compare = partial(_compare_for_removal, pods_by_node=pods_by_node, now=now)
    return sorted(pods, key=cmp_to_key(compare))


def _compare_for_removal(
    first: ExistingPod, second: ExistingPod, pods_by_node: Counter[str], now: int
) -> int:
    """Return a negative number if the first pod is removed first, a positive one if the second is.

    Observed conditions decide only between pods with equal sort keys; the age decides last.
    """
    first_key = _build_removal_sort_key(first, pods_by_node)
    second_key = _build_removal_sort_key(second, pods_by_node)
    # 1, 0 or -1: the lower key is removed first.
    difference = (first_key > second_key) - (first_key < second_key)
    if not difference and first.is_observed and second.is_observed:
        difference = _compare_conditions(first.condition, second.condition, now)
    if difference:
        return difference
    return -1 if (first.age, first.number) > (second.age, second.number) else 1  # newest first


def _compare_conditions(one: PodCondition, two: PodCondition, now: int) -> int:
    """Compare two observed pods: a negative number if `one` is removed before `two`.

    The number is positive if `one` is removed after `two`. Removed first is the pod that is ready
    later, else the one with more restarts, else the one created later. The result is 0 if all
    three are equal.
    """
    if one.is_ready and two.is_ready and one.ready_time != two.ready_time:
        return _compare_magnitudes(one.ready_time, two.ready_time, one, two, now)
    if one.restarts != two.restarts:
        return two.restarts - one.restarts
    if one.creation_time == two.creation_time:
        return 0
    return _compare_magnitudes(one.creation_time, two.creation_time, one, two, now)


def _build_removal_sort_key(pod: ExistingPod, pods_by_node: Counter[str]) -> tuple[int, ...]:
    """Return a sort key by the facts about a pod other than times.

    The pod with the lowest key is removed first. Removed first are pods without a node (False
    sorts before True), in an early phase, not ready, with the lowest deletion cost, and on a node
    with many pods.
    """
    condition = pod.condition
    phase = _PHASE_RANKS.get(condition.phase, len(_PHASE_RANKS))
    return (
        bool(pod.node),
        phase,
        condition.is_ready,
        condition.deletion_cost,
        -pods_by_node[pod.node],
    )


def _compare_magnitudes(
    first_time: int, second_time: int, one: PodCondition, two: PodCondition, now: int
) -> int:
    """Compare the times of pods `one` and `two`: the result is negative if `one` is removed first.

    The later time is removed first, as Kubernetes scales down: ages of the same order of magnitude
    are equal, then the uid decides. `now` is 0 if unknown.
    """
    if not first_time or not second_time:
        # An unknown time (0) is removed first.
        return first_time - second_time
    if not now:
        # The ages are unknown, so the exact times are compared.
        return second_time - first_time
    difference = _compute_magnitude(now - first_time) - _compute_magnitude(now - second_time)
    if difference:
        return difference
    return -1 if one.uid < two.uid else 1


def _compute_magnitude(seconds: int) -> int:
    """Return the whole part of the logarithm of a duration in nanoseconds.

    -1 if it is not positive.
    """
    return int(math.log2(seconds * _NANOSECONDS)) if seconds > 0 else -1
