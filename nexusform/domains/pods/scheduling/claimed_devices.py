"""Devices in use during a prediction, and the allocation of devices for claims on one node.

A search tries all candidates in order and uses the first solution.

Sources: kubernetes pkg/scheduler/framework/plugins/dynamicresources and
staging/src/k8s.io/dynamic-resource-allocation/structured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import group_by
from nexusform.domains.pods.scheduling.cel_device_selectors import (
    CelSelectorError,
    is_device_selected,
)
from nexusform.domains.pods.scheduling.cluster_records import (
    ALL_DEVICES,
    AllocatedDevice,
    Attribute,
    ClaimedUses,
    Cluster,
    Device,
    DeviceClaim,
    DeviceId,
    DeviceMatchConstraint,
    DeviceRequest,
    DeviceSubRequest,
    ExistingPod,
    Node,
    PodIdentity,
    PodSpec,
    ResourceSlice,
    VolumeNeed,
)
from nexusform.domains.pods.scheduling.random_choices import RandomChoices, shuffle_slices
from nexusform.domains.pods.scheduling.rules.node_affinity import is_any_term_satisfied
from nexusform.domains.pods.scheduling.rules.volume_binding import NO_DEVICES, UNAVAILABLE_CLAIM
from nexusform.domains.pods.scheduling.volume_binder import build_node_volume_need
from nexusform.kubernetes.matching import is_tolerated

# Versions of the scheduler that ran beside this allocation.
_TESTED_VERSIONS: Final = ((1, 34), (1, 37))
RANDOM: Final = "devices of nodes"
GATED: Final = "feature gates of devices"
_VERSION: Final = "the Kubernetes version"
# From this version on, pools and slices are tried in the order of their names, before at random.
_ORDERED_POOLS: Final = (1, 36)
_MOST_DEVICES: Final = 32
# The scheduler stops after 10 seconds.
_MOST_STEPS: Final = 20_000
_RANKS: Final = 8


class DeviceNodeRequirements(Struct, frozen=True):
    """Nodes with devices for a pod, as needs of volumes.

    `doubt` is the assumption behind them, "" if they are certain.
    """

    needs: tuple[VolumeNeed, ...] = ()
    doubt: str = ""


class ClaimedDevices:
    """Devices of a cluster and their claims."""

    def __init__(
        self, cluster: Cluster, existing_pods: Iterable[ExistingPod], choices: RandomChoices
    ) -> None:
        """Record the devices in use.

        These are the devices of allocated claims of the cluster, and those of existing pods.
        """
        self._nodes = cluster.nodes
        self._version = cluster.version
        self._node_by_name = cluster.node_by_name
        self._allocator = DeviceAllocator(cluster.devices.slices, cluster.version, choices)
        self._pools = {node.name: self._allocator.gather_pools(node) for node in cluster.nodes}
        # With fields of a feature gate.
        self._has_gated_slices = any(item.is_gated for item in cluster.devices.slices)
        # Devices by claim.
        self._uses = dict(cluster.devices.allocations)
        self._claims_by_pod: dict[PodIdentity, tuple[str, ...]] = {}
        # Pods by the claim whose devices they use.
        self._holders: dict[str, set[PodIdentity]] = {}
        # Their pods have unknown or randomly chosen devices.
        self._uncertain_nodes: set[str] = set()
        # Results for the devices in use now.
        self._needs: dict[tuple[DeviceClaim, ...], DeviceNodeRequirements] = {}
        for pod in existing_pods:
            for name, uses in pod.devices:
                self._uses[name] = uses
                self._add_claim_holder(pod, name)
            # It has devices, but they are not recorded.
            if pod.spec.device_claims and not pod.devices:
                self._uncertain_nodes.add(pod.node)
        # Allocated claims without a known pod keep their devices.
        self._unheld_claims = self._uses.keys() - self._holders.keys()

    def compute_need(self, spec: PodSpec) -> DeviceNodeRequirements:
        """Return the nodes with devices for the claims of a pod.

        The result is kept until a claim changes.
        """
        claims = spec.device_claims
        if not claims:
            return DeviceNodeRequirements()
        need = self._needs.get(claims)
        if need is None:
            need = self._needs[claims] = self._compute_need(claims)
        return need

    def _compute_need(self, claims: tuple[DeviceClaim, ...]) -> DeviceNodeRequirements:
        """Return the nodes permitted by claims, with the assumption behind them.

        They are given as needs of volumes, as the scheduler checks both alike. A node must have
        enough free devices for the unallocated claims, and reach the devices of the allocated
        ones. If a claim has an error, or the allocation fails, no node is permitted: a need
        without terms, `VolumeNeed(())`.
        """
        errors = [claim.error for claim in claims if claim.error]
        if errors:
            return DeviceNodeRequirements((VolumeNeed((), is_bound=True, error=errors[0]),))
        try:
            # By node: the devices for the claims, None if too few are free.
            allocations = {node.name: self._find_free_devices(claims, node) for node in self._nodes}
        except AllocationError as problem:
            return DeviceNodeRequirements(
                (VolumeNeed((), is_bound=True, error=str(problem)),), doubt=RANDOM
            )
        scores = {
            name: allocation.score
            for name, allocation in allocations.items()
            if allocation is not None
        }
        needs = []
        # Some node has too few free devices.
        if len(scores) < len(allocations):
            needs.append(build_node_volume_need(scores, NO_DEVICES))
        reachable_names = {
            node.name for node in self._nodes if self._can_use_allocated_claims(claims, node)
        }
        # Some node cannot use an allocated device.
        if len(reachable_names) < len(allocations):
            # A node gets one reason only: this need accepts the nodes rejected by the need above.
            names = [name for name in allocations if name in reachable_names or name not in scores]
            needs.append(build_node_volume_need(names, UNAVAILABLE_CLAIM))
        return DeviceNodeRequirements(tuple(needs), self._find_doubt(claims, set(scores.values())))

    def _find_doubt(self, claims: Iterable[DeviceClaim], scores: Collection[int]) -> str:
        """Return the assumption behind allocations, such as RANDOM, "" if certain.

        It exists if devices are chosen at random. `scores` are the different scores of nodes: a
        node gets more for earlier alternatives of its requests.
        """
        if self._version not in _TESTED_VERSIONS:
            return _VERSION
        # The features are off by default.
        if self._has_gated_slices and self._version < _ORDERED_POOLS:
            return GATED
        # The devices of some pods are unknown.
        if self._uncertain_nodes:
            return RANDOM
        # No known pod uses it: it may be released.
        if any(claim.name in self._unheld_claims for claim in claims):
            return RANDOM
        # They change the choice of a node.
        has_scores = len(scores) > 1 and self._version >= _ORDERED_POOLS
        return RANDOM if has_scores else ""

    def _can_use_allocated_claims(self, claims: Iterable[DeviceClaim], node: Node) -> bool:
        """Return whether a node can use the devices of the allocated claims among these.

        Unknown ones are allowed.
        """
        # A claim from a template (`is_own`) is new for each pod, so it is not allocated yet.
        uses = [
            use for claim in claims if not claim.is_own for use in self._uses.get(claim.name, ())
        ]
        return all(self._allocator.is_reachable(use.device, node) for use in uses)

    def _find_free_devices(
        self, claims: Iterable[DeviceClaim], node: Node
    ) -> DeviceAllocation | None:
        """Return free devices of a node for every unallocated claim; None if a claim finds none."""
        open_claims = self._select_unallocated(claims)
        all_uses = chain.from_iterable(self._uses.values())
        # Admin access leaves a device free.
        used_devices = {use.device for use in all_uses if not use.has_admin_access}
        return self._allocator.allocate(node, self._pools[node.name], open_claims, used_devices)

    def _select_unallocated(self, claims: Iterable[DeviceClaim]) -> Sequence[DeviceClaim]:
        """Return the claims to allocate; one from a template (`is_own`) is new for each pod."""
        return [claim for claim in claims if claim.is_own or claim.name not in self._uses]

    def allocate_claims(self, pod: ExistingPod) -> None:
        """Allocate new claims of a pod on its node.

        Unknown devices make later allocations there uncertain.
        """
        claims = pod.spec.device_claims
        if not claims or pod.node not in self._node_by_name or pod.identity in self._claims_by_pod:
            # Nothing to allocate, or not on a node of the cluster.
            return
        try:
            allocation = self._find_free_devices(claims, self._node_by_name[pod.node])
        except AllocationError:
            # An existing pod has devices, but it is unknown which.
            allocation = None
        open_claims = self._select_unallocated(claims)
        if allocation is not None:
            for claim, uses in zip(open_claims, allocation.uses, strict=True):
                self._uses[_build_claim_name(claim, pod)] = uses
        if allocation is None or allocation.is_random:
            self._uncertain_nodes.add(pod.node)
        for claim in claims:
            self._add_claim_holder(pod, _build_claim_name(claim, pod))
        # Cached results for the devices in use before.
        self._needs.clear()

    def _add_claim_holder(self, pod: ExistingPod, name: str) -> None:
        """Record that a pod uses a claim (name): it holds the devices until it is released."""
        self._holders.setdefault(name, set()).add(pod.identity)
        self._claims_by_pod[pod.identity] = (*self._claims_by_pod.get(pod.identity, ()), name)

    def release(self, pod: ExistingPod) -> None:
        """Release the claims of a pod; the last pod of a claim frees its devices."""
        for name in self._claims_by_pod.pop(pod.identity, ()):
            self._holders[name].discard(pod.identity)
            if not self._holders[name]:
                self._uses.pop(name, None)
        self._needs.clear()

    def list_claims_of_pod(self, workload: str, number: int, template: str) -> ClaimedUses:
        """Return the claims of a pod with their devices."""
        names = self._claims_by_pod.get((workload, number, template), ())
        return tuple((name, self._uses.get(name, ())) for name in names)


def _build_claim_name(claim: DeviceClaim, pod: ExistingPod) -> str:
    """Return the name of a claim in records; a claim from a template is named after its pod."""
    return (
        f"{pod.workload}/{pod.number}/{pod.spec.template}/{claim.name}"
        if claim.is_own
        else claim.name
    )


class AllocationError(Exception):
    """The scheduler stops with an error, or the search is too long here."""


class CandidateDevice(Struct, frozen=True):
    """Device of a pool, with its slice."""

    id: DeviceId
    device: Device
    slice: ResourceSlice

    @property
    def counters(self) -> dict[tuple[str, str, str, str], int]:
        """Amounts consumed by the device, by driver, pool, counter set and counter."""
        return self.slice.get_own_counters(self.device.counters)


class DeviceSlicePool(Struct, frozen=True):
    """Slices of a pool for a node, and all of its newest slices."""

    slices: tuple[ResourceSlice, ...]
    all_slices: tuple[ResourceSlice, ...]

    @property
    def duplicate_name(self) -> str:
        """Name of two devices of the pool, "" without any."""
        names = Counter(device.name for item in self.slices for device in item.devices)
        return next((name for name, count in names.items() if count > 1), "")


class DeviceAllocation(Struct, frozen=True):
    """Devices by claim; `score` counts preferred alternatives.

    `is_random` means that they may depend on the order of slices.
    """

    uses: tuple[tuple[AllocatedDevice, ...], ...]
    score: int = 0
    is_random: bool = False


class DeviceAllocator:
    """Slices of a cluster.

    `allocate` finds devices for claims on a node; `choices` order the slices.
    """

    def __init__(
        self, slices: Iterable[ResourceSlice], version: tuple[int, ...], choices: RandomChoices
    ) -> None:
        """Index the devices of each pool.

        `version` is the one of the scheduler.
        """
        self._choices = choices
        # Pools are searched by name, else at random.
        self._is_ordered = version >= _ORDERED_POOLS
        sorted_slices = sorted(slices, key=lambda item: item.name)
        by_pool = group_by(sorted_slices, lambda item: (item.driver, item.pool))
        # Of each pool, the slices of its newest generation alone.
        self._pools: list[list[ResourceSlice]] = []
        for _, pool in sorted(by_pool.items()):
            newest_generation = max(item.generation for item in pool)
            self._pools.append([item for item in pool if item.generation == newest_generation])
        # The slice and the record of each device, by its id.
        self._slice_by_device = {
            item.get_device_id(device): (item, device)
            for item in chain.from_iterable(self._pools)
            for device in item.devices
        }

    def gather_pools(self, node: Node) -> list[DeviceSlicePool]:
        """Return the pools with devices for a node in search order.

        They are ordered by name, or at random before Kubernetes 1.36.
        """
        pools: list[DeviceSlicePool] = []
        for pool in self._pools:
            slices = tuple(item for item in pool if _has_devices_for(item, node))
            if slices:
                pools.append(DeviceSlicePool(slices, tuple(pool)))
        if self._is_ordered or not pools:
            return pools
        names = tuple(item.name for pool in pools for item in pool.slices)
        search_order = self._choices.ask(partial(shuffle_slices, node.name, names)).index
        pools = [
            replace(
                pool, slices=tuple(sorted(pool.slices, key=lambda item: search_order(item.name)))
            )
            for pool in pools
        ]
        return sorted(pools, key=lambda pool: search_order(pool.slices[0].name))

    def is_reachable(self, device: DeviceId, node: Node) -> bool:
        """Return whether a node can use a device; an unknown device is allowed."""
        if device not in self._slice_by_device:
            return True
        item, record = self._slice_by_device[device]
        return _is_device_for_node(item, record, node)

    def allocate(
        self,
        node: Node,
        pools: Sequence[DeviceSlicePool],
        claims: Sequence[DeviceClaim],
        used: Collection[DeviceId],
    ) -> DeviceAllocation | None:
        """Return the devices for claims on a node with these pools.

        The result is None if not all claims can be allocated.
        """
        search = _AllocationSearch(node, pools, claims, used)
        if not search.allocate_request(claim_index=0, request_index=0):
            return None
        # Devices by claim.
        uses = tuple(map(tuple, search.uses))
        return DeviceAllocation(
            uses, search.score, is_random=not self._is_ordered and search.is_random()
        )


def _is_device_for_node(item: ResourceSlice, device: Device, node: Node) -> bool:
    """Return whether a node can use a device of a slice."""
    return is_any_term_satisfied(device.terms if item.has_own_nodes else item.terms, node)


def _has_devices_for(item: ResourceSlice, node: Node) -> bool:
    """Return whether a slice, or some device of a slice with nodes per device, is for a node."""
    if item.has_own_nodes:
        return any(is_any_term_satisfied(device.terms, node) for device in item.devices)
    return is_any_term_satisfied(item.terms, node)


class _AllocationSearch:
    """State of one search: the devices chosen so far."""

    def __init__(
        self,
        node: Node,
        pools: Sequence[DeviceSlicePool],
        claims: Sequence[DeviceClaim],
        used: Collection[DeviceId],
    ) -> None:
        """Prepare the search for devices of claims on a node.

        `used` are the devices of other claims. Some devices consume counters of their slice: an
        amount shared with other devices, such as memory of one GPU. `_available` has what the used
        devices leave of each counter. An AllocationError is raised for claims for all devices of
        an incomplete pool.
        """
        self._node = node
        self._pools = pools
        self._claims = claims
        self._used = used
        self.uses: list[list[AllocatedDevice]] = [[] for _ in claims]
        self.score = 0
        self._steps = 0  # candidates tried
        # Uses of each device by the claims so far.
        self._taken: Counter[DeviceId] = Counter()
        # Values of the attributes of constraints, by claim and position of the constraint.
        self._values: dict[tuple[int, int], list[Attribute]] = {}
        # Of `_available`, by the devices taken.
        self._consumed: Counter[tuple[str, str, str, str]] = Counter()
        # Free amounts by driver, pool, counter set and counter, without those of devices in use
        # by other claims.
        slices = list(chain.from_iterable(pool.all_slices for pool in pools))
        amounts: dict[tuple[str, str, str, str], int] = {}
        for item in slices:
            amounts |= item.get_own_counters(item.counters)
        self._available = Counter(amounts)
        for item in slices:
            for device in item.devices:
                if item.get_device_id(device) in used:
                    self._available.subtract(item.get_own_counters(device.counters))
        # By id of the alternative.
        self._candidates: dict[int, list[CandidateDevice]] = {}
        for claim in claims:
            for request in claim.requests:
                self._check_request(claim, request)

    def _check_request(self, claim: DeviceClaim, request: DeviceRequest) -> None:
        """Raise an AllocationError if a request for all devices cannot be evaluated.

        This is so if a pool is incomplete, or if a selector fails.
        """
        for alternative in request.alternatives:
            if alternative.count != ALL_DEVICES:
                # Some devices may be found without the missing ones.
                continue
            for pool in self._pools:
                # Some slices are missing.
                is_incomplete = len(pool.all_slices) != pool.all_slices[0].slice_count
                if is_incomplete or pool.duplicate_name:
                    text = "a pool is incomplete or invalid"
                    raise AllocationError(f"claim {claim.name}, request {request.name}: {text}")
            # This raises the error of a selector.
            self._list_candidates(alternative)

    def is_random(self) -> bool:
        """Return whether the order of slices may decide.

        Some request has candidates in several of them.
        """
        return any(
            len({id(item.slice) for item in candidates}) > 1
            for candidates in self._candidates.values()
        )

    def allocate_request(self, claim_index: int, request_index: int) -> bool:
        """Allocate a request and all later requests (recursively); return whether all get devices.

        The first alternative is used, unless it leaves too few devices for the later requests: then
        the next one.
        """
        if claim_index >= len(self._claims):
            # No claim is left.
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
                    # All of none is no allocation.
                    continue
            if len(self.uses[claim_index]) + count > _MOST_DEVICES:
                # There are too many for one claim.
                continue
            if self._allocate_devices(claim_index, request_index, alternative, count):
                if request.is_prioritized:
                    # More for an earlier alternative.
                    self.score += _RANKS - rank
                return True
        return False

    def _allocate_devices(
        self,
        claim_index: int,
        request_index: int,
        alternative: DeviceSubRequest,
        count: int,
        first: int = 0,
    ) -> bool:
        """Allocate the devices of a request, then those of all later requests.

        It starts with the device number `first`, and calls itself. Return whether all get devices.
        If not, the devices taken are given back. `count` is the number of devices.
        """
        if first >= count:
            return self.allocate_request(claim_index, request_index + 1)
        candidates = self._list_candidates(alternative)
        is_all = alternative.count == ALL_DEVICES
        # Each device number has its own candidate.
        if is_all:
            candidates = candidates[first : first + 1]
        for candidate in candidates:
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise AllocationError("too many combinations of devices")
            if not self._is_usable(claim_index, alternative, candidate):
                # The next candidate; with all devices requested there is none.
                continue
            request = self._claims[claim_index].requests[request_index]
            if not self._record_constraint_values(claim_index, request, alternative, candidate):
                if is_all:
                    raise AllocationError(
                        f"request {request.name}: a constraint prevents the use of all devices"
                    )
                continue
            self._move(claim_index, alternative, candidate, sign=1)
            if self._allocate_devices(claim_index, request_index, alternative, count, first + 1):
                return True
            # Later requests need this device.
            self._move(claim_index, alternative, candidate, sign=-1)
            for index, _ in self._list_constraints(claim_index, request, alternative):
                self._values[claim_index, index].pop()
        return False

    def _list_candidates(self, alternative: DeviceSubRequest) -> list[CandidateDevice]:
        """Return the devices of the node selected by an alternative of a request, in use or not.

        The result is cached. Raise an AllocationError if a selector fails, or if two devices of a
        pool have the same name.
        """
        if id(alternative) in self._candidates:
            return self._candidates[id(alternative)]  # found before
        candidates: list[CandidateDevice] = []
        for pool in self._pools:
            if pool.duplicate_name:
                raise AllocationError(
                    f"pool {pool.slices[0].pool} has two devices {pool.duplicate_name}"
                )
            for item in pool.slices:
                # A slice for the node may also have devices for other nodes.
                candidates += [
                    CandidateDevice(item.get_device_id(device), device, item)
                    for device in item.devices
                    if _is_selected(alternative, item, device)
                    and _is_device_for_node(item, device, self._node)
                ]
        self._candidates[id(alternative)] = candidates
        return candidates

    def _is_usable(
        self, claim_index: int, alternative: DeviceSubRequest, candidate: CandidateDevice
    ) -> bool:
        """Return whether a device may be allocated.

        It is free, its counters suffice, and its taints are tolerated.
        """
        # It need not be free, but is used only once per claim.
        if alternative.has_admin_access:
            if any(use.device == candidate.id for use in self.uses[claim_index]):
                return False
        elif candidate.id in self._used or self._taken[candidate.id]:
            # Before, or in this search.
            return False
        for counter, amount in candidate.counters.items():
            if self._consumed[counter] + amount > self._available[counter]:
                # The devices taken so far leave too little of a shared amount.
                return False
        return all(
            is_tolerated(taint, alternative.tolerations) for taint in candidate.device.taints
        )

    def _move(
        self, claim_index: int, alternative: DeviceSubRequest, candidate: CandidateDevice, sign: int
    ) -> None:
        """Add a device to a claim (sign 1), or remove the last one (sign -1)."""
        if sign > 0:
            self.uses[claim_index].append(
                AllocatedDevice(candidate.id, alternative.has_admin_access)
            )
        else:
            self.uses[claim_index].pop()
        self._taken[candidate.id] += sign
        for key, amount in candidate.counters.items():
            self._consumed[key] += sign * amount

    def _record_constraint_values(
        self,
        claim_index: int,
        request: DeviceRequest,
        alternative: DeviceSubRequest,
        candidate: CandidateDevice,
    ) -> bool:
        """Return whether a device satisfies the constraints of a claim.

        Its attributes are recorded only if it does.
        """
        new_values: list[tuple[list[Attribute], Attribute]] = []
        for index, constraint in self._list_constraints(claim_index, request, alternative):
            known_values = self._values.setdefault((claim_index, index), [])
            value = find_device_attribute(candidate, constraint.attribute)
            # All known values are equal.
            if value is None or (known_values and value != known_values[0]):
                return False
            new_values.append((known_values, value))
        for known_values, value in new_values:
            known_values.append(value)
        return True

    def _list_constraints(
        self, claim_index: int, request: DeviceRequest, alternative: DeviceSubRequest
    ) -> Iterator[tuple[int, DeviceMatchConstraint]]:
        """Yield the constraints about an alternative, by their positions.

        They name its request, or no request.
        """
        # A constraint may name one or the other.
        names = {request.name, f"{request.name}/{alternative.name}"}
        for index, constraint in enumerate(self._claims[claim_index].constraints):
            if not constraint.requests or names.intersection(constraint.requests):
                yield index, constraint


def _is_selected(alternative: DeviceSubRequest, item: ResourceSlice, device: Device) -> bool:
    """Return whether all selectors of an alternative select a device.

    Raise an error if one fails on it.
    """
    try:
        return all(
            is_device_selected(selector, item.driver, device) for selector in alternative.selectors
        )
    except CelSelectorError as problem:
        raise AllocationError(str(problem)) from problem


def find_device_attribute(candidate: CandidateDevice, name: str) -> Attribute | None:
    """Return an attribute of a device by its full name (`domain/name`).

    The result is None if it has no such attribute.
    """
    attributes = candidate.device.attributes
    if name in attributes:
        return attributes[name]
    domain, _, identifier = name.partition("/")
    # A device may omit the domain of its driver.
    is_own_domain = domain == candidate.slice.driver
    return attributes.get(identifier) if is_own_domain else None
