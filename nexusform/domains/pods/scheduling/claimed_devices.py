"""Devices in use during a prediction, by the claims of pods. Source: kubernetes
pkg/scheduler/framework/plugins/dynamicresources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from nexusform.domains.pods.scheduling.cluster_records import Cluster, ExistingPod, Node, PodSpec, VolumeNeed
from nexusform.domains.pods.scheduling.device_allocator import (
    ORDERED_POOLS,
    AllocationError,
    DeviceAllocation,
    DeviceAllocator,
)
from nexusform.domains.pods.scheduling.device_records import ClaimedUses, DeviceClaim, DeviceId
from nexusform.domains.pods.scheduling.rules.volume_binding import NO_DEVICES, UNAVAILABLE_CLAIM
from nexusform.domains.pods.scheduling.volume_binder import build_node_volume_need

# Versions of the scheduler that ran beside this allocation.
_TESTED_VERSIONS: Final = ((1, 34), (1, 37))
RANDOM: Final = "devices of nodes"
GATED: Final = "feature gates of devices"
_VERSION: Final = "the Kubernetes version"
_Identity = tuple[str, int, str]


class DeviceNodeRequirements(Struct, frozen=True):
    """Nodes with devices for a pod, as needs of volumes. `doubt`: the assumption behind it, "" if certain."""

    needs: tuple[VolumeNeed, ...] = ()
    doubt: str = ""


class ClaimedDevices:
    """Devices of a cluster and their claims."""

    def __init__(self, cluster: Cluster, existing_pods: Iterable[ExistingPod], seed: int) -> None:
        self._nodes, self._version = cluster.nodes, cluster.version
        self._node_by_name = {node.name: node for node in cluster.nodes}
        self._allocator = DeviceAllocator(cluster.devices.slices, cluster.version, seed)
        self._pools = {node.name: self._allocator.gather_pools(node) for node in cluster.nodes}
        self._has_gated_slices = any(item.is_gated for item in cluster.devices.slices)
        self._uses = dict(cluster.devices.allocations)
        self._claims_by_pod: dict[_Identity, tuple[str, ...]] = {}
        self._holders: dict[str, set[_Identity]] = {}
        self._random_nodes: set[str] = set()
        self._needs: dict[tuple[DeviceClaim, ...], DeviceNodeRequirements] = {}
        for pod in existing_pods:
            if not pod.node:
                continue
            for name, uses in pod.devices:
                self._uses[name] = uses
                self._add_claim_holder(pod, name)
            if pod.spec.device_claims and not pod.devices:
                self._random_nodes.add(pod.node)
        # Allocated claims without a known pod keep their devices.
        self._unheld_claims = self._uses.keys() - self._holders.keys()

    def compute_need(self, spec: PodSpec) -> DeviceNodeRequirements:
        """Return the nodes with devices for the claims of a pod."""
        claims = spec.device_claims
        if not claims:
            return DeviceNodeRequirements()
        need = self._needs.get(claims)
        if need is None:
            need = self._needs[claims] = self._compute_need(claims)
        return need

    def _compute_need(self, claims: tuple[DeviceClaim, ...]) -> DeviceNodeRequirements:
        error = next((claim.error for claim in claims if claim.error), "")
        if error:
            return DeviceNodeRequirements((VolumeNeed((), is_bound=True, error=error),))
        allocations: dict[str, DeviceAllocation | None] = {}
        try:
            for node in self._nodes:
                allocations[node.name] = self._allocate_claims_on_node(claims, node)
        except AllocationError as problem:
            return DeviceNodeRequirements((VolumeNeed((), is_bound=True, error=str(problem)),), RANDOM)
        allocated_names = [name for name, allocation in allocations.items() if allocation is not None]
        reachable_names = [node.name for node in self._nodes if self._has_allocated_claims(claims, node)]
        needs = []
        if len(allocated_names) < len(self._nodes):
            needs.append(build_node_volume_need(allocated_names, NO_DEVICES))
        if len(reachable_names) < len(self._nodes):
            names = [name for name in reachable_names if name in allocated_names]
            unallocated_names = [name for name in allocations if allocations[name] is None]
            needs.append(build_node_volume_need([*names, *unallocated_names], UNAVAILABLE_CLAIM))
        return DeviceNodeRequirements(tuple(needs), self._find_doubt(claims, allocations))

    def _find_doubt(self, claims: Iterable[DeviceClaim], allocations: Mapping[str, DeviceAllocation | None]) -> str:
        if self._version not in _TESTED_VERSIONS:
            return _VERSION
        if self._has_gated_slices and self._version < ORDERED_POOLS:
            return GATED
        scores = {allocation.score for allocation in allocations.values() if allocation is not None}
        has_unheld = any(claim.name in self._unheld_claims for claim in claims)
        if self._random_nodes or has_unheld or (len(scores) > 1 and self._version >= ORDERED_POOLS):
            return RANDOM
        return ""

    def _has_allocated_claims(self, claims: Iterable[DeviceClaim], node: Node) -> bool:
        """Return whether a node can use the allocated claims among these."""
        uses = [use for claim in claims if not claim.is_own for use in self._uses.get(claim.name, ())]
        return all(self._allocator.is_reachable(use.device, node) is not False for use in uses)

    def _allocate_claims_on_node(self, claims: Iterable[DeviceClaim], node: Node) -> DeviceAllocation | None:
        open_claims = self._select_unallocated(claims)
        if not open_claims:
            return DeviceAllocation(())
        return self._allocator.allocate(node, self._pools[node.name], open_claims, self._collect_used())

    def _select_unallocated(self, claims: Iterable[DeviceClaim]) -> Sequence[DeviceClaim]:
        return [claim for claim in claims if claim.is_own or claim.name not in self._uses]

    def _collect_used(self) -> set[DeviceId]:
        return {use.device for uses in self._uses.values() for use in uses if not use.has_admin_access}

    def allocate_claims(self, pod: ExistingPod) -> None:
        """Allocate the claims of a pod on its node, unless it holds them already."""
        claims = pod.spec.device_claims
        if not claims or pod.node not in self._node_by_name or _get_pod_identity(pod) in self._claims_by_pod:
            return
        try:
            allocation = self._allocate_claims_on_node(claims, self._node_by_name[pod.node])
        except AllocationError:
            allocation = None
        open_claims = self._select_unallocated(claims)
        for index, claim in enumerate(open_claims):
            if allocation is not None:
                self._uses[_build_claim_name(claim, pod)] = allocation.uses[index]
        if allocation is None or allocation.is_random:
            self._random_nodes.add(pod.node)
        for claim in claims:
            self._add_claim_holder(pod, _build_claim_name(claim, pod))
        self._needs.clear()

    def _add_claim_holder(self, pod: ExistingPod, name: str) -> None:
        identity = _get_pod_identity(pod)
        self._holders.setdefault(name, set()).add(identity)
        self._claims_by_pod[identity] = (*self._claims_by_pod.get(identity, ()), name)

    def release(self, pod: ExistingPod) -> None:
        """Release the claims of a pod; the last pod of a claim frees its devices."""
        for name in self._claims_by_pod.pop(_get_pod_identity(pod), ()):
            holders = self._holders[name]
            holders.discard(_get_pod_identity(pod))
            if not holders:
                self._uses.pop(name, None)
        self._needs.clear()

    def list_claims_of_pod(self, workload: str, number: int, template: str) -> ClaimedUses:
        """Return the claims of a pod with their devices."""
        names = self._claims_by_pod.get((workload, number, template), ())
        return tuple((name, self._uses.get(name, ())) for name in names)


def _get_pod_identity(pod: ExistingPod) -> _Identity:
    return (pod.workload, pod.number, pod.spec.template)


def _build_claim_name(claim: DeviceClaim, pod: ExistingPod) -> str:
    return f"{pod.workload}/{pod.number}/{pod.spec.template}/{claim.name}" if claim.is_own else claim.name
