"""Orders of arrival of the pods of several workloads at the scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Final

from msgspec import Struct

from nexusform.domains.pods.scheduling.cluster_records import Workload

# Asynchronous hops of a controller until the pods exist; a Deployment creates a ReplicaSet first.
_HOPS: Final[Mapping[str, int]] = {"Pod": 0, "Deployment": 2}
# Time until a pod runs, in intervals between the creation of two objects.
_START_TIME: Final = 100
# Longest times of a hop and of the creation of one pod, likewise: a controller may be busy.
_SLOWNESS: Final = (0.7, 2)
# Every third sample mixes the pods of all workloads at random, as busy controllers do.
_MIXED_SAMPLES: Final = 3


def has_differing_concurrent_pods(workload: Workload) -> bool:
    """Return whether the pods of a workload differ and arrive at the same time."""
    return workload.kind == "DaemonSet" or (workload.kind == "StatefulSet" and not workload.is_ordered)


def count_controller_hops(key: str) -> int:
    """Return the asynchronous hops from a workload (key) to its pods."""
    return _HOPS.get(key.split("/")[1], 1)


class ArrivalOrder(Struct, frozen=True):
    """Order of arrival. Workloads arrive one after the other by `ranks` (keys, earliest first), or with a
    `sample` (from 1) pod by pod at drawn times after the creation of their objects in this order. `ordered_keys` are
    workloads with podManagementPolicy OrderedReady; pods of `claiming_keys` wait for their ResourceClaims.
    `has_slow_victims`: evicted pods terminate after all others have arrived. `has_fast_replacements`: their
    controllers replace them before the next pod arrives.
    """

    sample: int = 0
    ranks: tuple[str, ...] = ()
    ordered_keys: frozenset[str] = frozenset()
    has_slow_victims: bool = False
    claiming_keys: frozenset[str] = frozenset()
    has_fast_replacements: bool = False

    def select_next_workload(self, counts: Mapping[str, int]) -> str:
        """Return the workload of the next pod by the numbers of arrived pods (-1 before the first step)."""
        # The next pod of an ordered set waits until the one before runs.
        ready_keys = [key for key, count in counts.items() if count < 1 or key not in self.ordered_keys] or counts
        if not self.sample:
            return min(ready_keys, key=self.ranks.index)
        if self.sample % _MIXED_SAMPLES == 0:
            step = sum(counts.values())
            return min(ready_keys, key=lambda key: self._hash_arrival_order(f"{step}|{key}"))
        return min(counts, key=lambda key: self._compute_arrival_time(key, counts[key]))

    def _compute_arrival_time(self, key: str, count: int) -> float:
        """Return the time of arrival of a pod. Objects are created in order, and their pods some hops later."""
        interval, hop, pace = (part / 256 for part in self._hash_arrival_order(key)[:3])
        count, delay = max(0, count), self._hash_arrival_order(f"{count}|{key}")[0] / 256
        slowness = _SLOWNESS[self.sample % len(_SLOWNESS)]
        hops = count_controller_hops(key) + (key in self.claiming_keys)
        start = self.ranks.index(key) + interval / 4 + hops * hop * slowness
        # The next pod of an ordered set waits until the one before runs.
        return start + (count * _START_TIME if key in self.ordered_keys else (count + delay) * pace * slowness)

    def sort_pod_numbers(self, workload: Workload, numbers: Sequence[int]) -> dict[int, int]:
        """Return the position of each pod of a workload, by number. Different pods arrive in any order."""
        if not self.sample or not has_differing_concurrent_pods(workload):
            return {number: number for number in numbers}
        names = sorted(numbers, key=lambda number: self._hash_arrival_order(f"{workload.key}|{number}"))
        return {number: position for position, number in enumerate(names)}

    def _hash_arrival_order(self, text: str) -> bytes:
        return blake2b(f"{self.sample}|{text}".encode(), digest_size=8).digest()
