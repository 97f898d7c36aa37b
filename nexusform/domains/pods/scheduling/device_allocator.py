"""Allocation of devices for the claims of a pod on one node: a search through all candidates in order, with the
first solution used. Source: kubernetes staging/src/k8s.io/dynamic-resource-allocation/structured (allocator).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Final

from msgspec import Struct

from nexusform.domains.pods.scheduling.cel_device_selectors import CelSelectorError, is_device_selected
from nexusform.domains.pods.scheduling.cluster_records import Node
from nexusform.domains.pods.scheduling.device_records import (
    ALL_DEVICES,
    AllocatedDevice,
    Attribute,
    Device,
    DeviceClaim,
    DeviceId,
    DeviceMatchConstraint,
    DeviceRequest,
    DeviceSubRequest,
    ResourceSlice,
)
from nexusform.domains.pods.scheduling.rules.node_affinity import is_term_satisfied
from nexusform.kubernetes.matching import EXISTS, NodeSelectorTerm, Taint, Toleration

# From this version on, pools and slices are tried in the order of their names, before at random.
ORDERED_POOLS: Final = (1, 36)
_MOST_DEVICES: Final = 32
# The scheduler stops after 10 seconds.
_MOST_STEPS: Final = 20_000
_RANKS: Final = 8


class AllocationError(Exception):
    """The scheduler stops with an error, or the search is too long here."""


class CandidateDevice(Struct, frozen=True):
    """Device of a pool, with its slice."""

    id: DeviceId
    device: Device
    slice: ResourceSlice


class DeviceSlicePool(Struct, frozen=True):
    """Slices of a pool for a node, and all of its newest slices."""

    slices: tuple[ResourceSlice, ...]
    all_slices: tuple[ResourceSlice, ...]

    @property
    def is_incomplete(self) -> bool:
        """Whether slices of the pool are missing."""
        return len(self.all_slices) != self.all_slices[0].slice_count

    @property
    def duplicate_name(self) -> str:
        """Name of two devices of the pool, "" without any."""
        names = Counter(device.name for item in self.slices for device in item.devices)
        return next((name for name, count in names.items() if count > 1), "")


class DeviceAllocation(Struct, frozen=True):
    """Devices by claim. `score` counts the preferred alternatives. `is_random`: another order of the slices may
    give other devices.
    """

    uses: tuple[tuple[AllocatedDevice, ...], ...]
    score: int = 0
    is_random: bool = False


class DeviceAllocator:
    """Slices of a cluster. `allocate` finds devices for claims on a node; `seed` draws the order of slices."""

    def __init__(self, slices: Iterable[ResourceSlice], version: tuple[int, ...], seed: int) -> None:
        self._is_ordered, self._seed = version >= ORDERED_POOLS, seed
        by_pool: dict[tuple[str, str], list[ResourceSlice]] = {}
        for item in sorted(slices, key=lambda item: item.name):
            by_pool.setdefault((item.driver, item.pool), []).append(item)
        self._pools = [_select_newest_slices(by_pool[key]) for key in sorted(by_pool)]
        self._slice_by_device = {
            (item.driver, item.pool, device.name): (item, device)
            for pool in self._pools
            for item in pool
            for device in item.devices
        }

    def gather_pools(self, node: Node) -> list[DeviceSlicePool]:
        """Return the pools with devices for a node."""
        pools: list[DeviceSlicePool] = []
        for pool in self._pools:
            slices = [item for item in pool if _has_devices_for(item, node)]
            if slices:
                pools.append(DeviceSlicePool(tuple(self._sort_slices(slices, node)), tuple(pool)))
        return pools if self._is_ordered else sorted(pools, key=lambda pool: self._draw(pool.slices[0], node))

    def _sort_slices(self, slices: list[ResourceSlice], node: Node) -> list[ResourceSlice]:
        return slices if self._is_ordered else sorted(slices, key=lambda item: self._draw(item, node))

    def _draw(self, item: ResourceSlice, node: Node) -> bytes:
        return blake2b(f"{self._seed}|{node.name}|{item.name}".encode(), digest_size=8).digest()

    def is_reachable(self, device: DeviceId, node: Node) -> bool | None:
        """Return whether a node can use a device; None for an unknown device."""
        if device not in self._slice_by_device:
            return None
        item, record = self._slice_by_device[device]
        return _is_node_matching(record.terms if item.has_own_nodes else item.terms, node)

    def allocate(
        self, node: Node, pools: Sequence[DeviceSlicePool], claims: Sequence[DeviceClaim], used: Collection[DeviceId]
    ) -> DeviceAllocation | None:
        """Return the devices for claims on a node with these pools; None if not all claims can be allocated."""
        search = _AllocationSearch(node, pools, claims, used)
        if not search.allocate_request(0, 0):
            return None
        return DeviceAllocation(
            tuple(tuple(uses) for uses in search.uses), search.score, not self._is_ordered and search.is_random()
        )


def _select_newest_slices(slices: Sequence[ResourceSlice]) -> list[ResourceSlice]:
    generation = max(item.generation for item in slices)
    return [item for item in slices if item.generation == generation]


def _has_devices_for(item: ResourceSlice, node: Node) -> bool:
    if item.has_own_nodes:
        return any(_is_node_matching(device.terms, node) for device in item.devices)
    return _is_node_matching(item.terms, node)


def _is_node_matching(terms: tuple[NodeSelectorTerm, ...] | None, node: Node) -> bool:
    return terms is None or any(is_term_satisfied(term, node) for term in terms)


class _AllocationSearch:
    """State of one search: the devices chosen so far."""

    def __init__(
        self, node: Node, pools: Sequence[DeviceSlicePool], claims: Sequence[DeviceClaim], used: Collection[DeviceId]
    ) -> None:
        self._node, self._pools, self._claims, self._used = node, pools, claims, used
        self.uses: list[list[AllocatedDevice]] = [[] for _ in claims]
        self.score = 0
        self._steps = 0
        self._taken: Counter[DeviceId] = Counter()
        # Values of the attributes of constraints, by claim and position of the constraint.
        self._values: dict[tuple[int, int], list[Attribute]] = {}
        self._consumed: Counter[tuple[str, str, str, str]] = Counter()
        # The counters of pools less those consumed by devices in use.
        available: dict[tuple[str, str, str, str], int] = {}
        for pool in pools:
            for item in pool.all_slices:
                for (counter_set, counter), amount in item.counters.items():
                    available[item.driver, item.pool, counter_set, counter] = amount
            for item, device in chain.from_iterable(
                ((item, device) for device in item.devices) for item in pool.all_slices
            ):
                if (item.driver, item.pool, device.name) in used:
                    for (counter_set, counter), amount in device.counters.items():
                        key = (item.driver, item.pool, counter_set, counter)
                        available[key] = available.get(key, 0) - amount
        self._available = available
        self._candidates: dict[int, list[CandidateDevice]] = {}
        for claim in claims:
            for request in claim.requests:
                self._check_request(claim, request)

    def _check_request(self, claim: DeviceClaim, request: DeviceRequest) -> None:
        for alternative in request.alternatives:
            if alternative.count != ALL_DEVICES:
                continue
            if any(pool.is_incomplete or pool.duplicate_name for pool in self._pools):
                raise AllocationError(f"claim {claim.name}, request {request.name}: a pool is incomplete or invalid")
            self._list_candidates(alternative)

    def is_random(self) -> bool:
        """Return whether some request has candidates in several slices."""
        for candidates in self._candidates.values():
            if len({(item.slice.driver, item.slice.pool, item.slice.name) for item in candidates}) > 1:
                return True
        return False

    def allocate_request(self, claim_index: int, request_index: int) -> bool:
        """Allocate a request of a claim and all later ones; return whether there are devices for all."""
        if claim_index >= len(self._claims):
            return True
        claim = self._claims[claim_index]
        if request_index >= len(claim.requests):
            return self.allocate_request(claim_index + 1, 0)
        request = claim.requests[request_index]
        for rank, alternative in enumerate(request.alternatives):
            count = alternative.count
            if count == ALL_DEVICES:
                count = len(self._list_candidates(alternative))
                if not count:
                    continue
            if len(self.uses[claim_index]) + count > _MOST_DEVICES:
                continue
            if self._allocate_devices(claim_index, request_index, alternative, count):
                self.score += _RANKS - rank if request.is_prioritized else 0
                return True
        return False

    def _allocate_devices(
        self, claim_index: int, request_index: int, alternative: DeviceSubRequest, count: int, first: int = 0
    ) -> bool:
        """Allocate the devices of a request from one (`first`) on, then all later requests."""
        if first >= count:
            return self.allocate_request(claim_index, request_index + 1)
        candidates = self._list_candidates(alternative)
        is_all = alternative.count == ALL_DEVICES
        for candidate in candidates[first : first + 1] if is_all else candidates:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise AllocationError("too many combinations of devices")
            if not self._is_usable(claim_index, alternative, candidate):
                continue
            request = self._claims[claim_index].requests[request_index]
            if not self._record_constraint_values(claim_index, request, alternative, candidate):
                if is_all:
                    raise AllocationError(f"request {request.name}: a constraint prevents the use of all devices")
                continue
            self._move(claim_index, alternative, candidate, 1)
            if self._allocate_devices(claim_index, request_index, alternative, count, first + 1):
                return True
            self._move(claim_index, alternative, candidate, -1)
            for index, _ in self._list_constraints(claim_index, request, alternative):
                self._values[claim_index, index].pop()
        return False

    def _list_candidates(self, alternative: DeviceSubRequest) -> list[CandidateDevice]:
        """Return the devices selected by an alternative, in use or not."""
        candidates = self._candidates.get(id(alternative))
        if candidates is None:
            candidates = self._candidates[id(alternative)] = list(self._select_devices(alternative))
        return candidates

    def _select_devices(self, alternative: DeviceSubRequest) -> Iterator[CandidateDevice]:
        for pool in self._pools:
            if pool.duplicate_name:
                raise AllocationError(f"pool {pool.slices[0].pool} has two devices {pool.duplicate_name}")
            for item in pool.slices:
                for device in item.devices:
                    try:
                        is_selected = all(
                            is_device_selected(selector, item.driver, device) for selector in alternative.selectors
                        )
                    except CelSelectorError as problem:
                        raise AllocationError(str(problem)) from problem
                    if is_selected and not (item.has_own_nodes and not _is_node_matching(device.terms, self._node)):
                        yield CandidateDevice((item.driver, item.pool, device.name), device, item)

    def _is_usable(self, claim_index: int, alternative: DeviceSubRequest, candidate: CandidateDevice) -> bool:
        """Return whether a device is free, has enough counters, and its taints are tolerated."""
        if alternative.has_admin_access:
            if any(use.device == candidate.id for use in self.uses[claim_index]):
                return False
        elif candidate.id in self._used or self._taken[candidate.id]:
            return False
        for (counter_set, counter), amount in candidate.device.counters.items():
            key = (candidate.slice.driver, candidate.slice.pool, counter_set, counter)
            if self._consumed[key] + amount > self._available.get(key, 0):
                return False
        return all(
            any(is_tolerated(toleration, taint) for toleration in alternative.tolerations)
            for taint in candidate.device.taints
        )

    def _move(self, claim_index: int, alternative: DeviceSubRequest, candidate: CandidateDevice, sign: int) -> None:
        """Add a device to a claim (sign 1), or remove the last one (sign -1)."""
        if sign > 0:
            self.uses[claim_index].append(AllocatedDevice(candidate.id, alternative.has_admin_access))
        else:
            self.uses[claim_index].pop()
        self._taken[candidate.id] += sign
        for (counter_set, counter), amount in candidate.device.counters.items():
            self._consumed[candidate.slice.driver, candidate.slice.pool, counter_set, counter] += sign * amount

    def _record_constraint_values(
        self, claim_index: int, request: DeviceRequest, alternative: DeviceSubRequest, candidate: CandidateDevice
    ) -> bool:
        """Record the attributes of a device for constraints, and return whether it satisfies them."""
        constraints = list(self._list_constraints(claim_index, request, alternative))
        values = [find_device_attribute(candidate, constraint.attribute) for _, constraint in constraints]
        for (index, _), value in zip(constraints, values, strict=True):
            known_values = self._values.get((claim_index, index))
            if value is None or (known_values and known_values[0] != value):
                return False
        for (index, _), value in zip(constraints, values, strict=True):
            assert value is not None
            self._values.setdefault((claim_index, index), []).append(value)
        return True

    def _list_constraints(
        self, claim_index: int, request: DeviceRequest, alternative: DeviceSubRequest
    ) -> Iterator[tuple[int, DeviceMatchConstraint]]:
        names = {request.name, f"{request.name}/{alternative.name}"}
        for index, constraint in enumerate(self._claims[claim_index].constraints):
            if not constraint.requests or names.intersection(constraint.requests):
                yield index, constraint


def find_device_attribute(candidate: CandidateDevice, name: str) -> Attribute | None:
    """Return an attribute of a device by its full name (`domain/name`); the driver is the default domain."""
    attributes = candidate.device.attributes
    if name in attributes:
        return attributes[name]
    domain, _, identifier = name.partition("/")
    return attributes.get(identifier) if domain == candidate.slice.driver else None


def is_tolerated(toleration: Toleration, taint: Taint) -> bool:
    """Return whether a toleration of a request matches a taint of a device."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == EXISTS or toleration.value == taint.value
