"""Devices of a cluster (ResourceSlices) and requests for them (ResourceClaims), as read by kube-scheduler's plugin
DynamicResources. Source: kubernetes staging/src/k8s.io/api/resource/v1/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from nexusform.kubernetes.matching import NodeSelectorTerm, Taint, Toleration

# An attribute: the name of its type ("string", "int", "bool", "version") and its value.
Attribute = tuple[str, str | int | bool]
# Driver, pool and name of a device.
DeviceId = tuple[str, str, str]
ALL_DEVICES: Final = 0


class AllocatedDevice(Struct, frozen=True):
    """Device of an allocated claim. With admin access, others may still get the device."""

    device: DeviceId
    has_admin_access: bool = False


# Claims of a pod (`namespace/name`), each with its devices.
ClaimedUses = tuple[tuple[str, tuple[AllocatedDevice, ...]], ...]


class Device(Struct, frozen=True):
    """Device of a slice. Capacities are in thousandths. `counters`: consumed amounts by counter set and counter.
    `terms`: the nodes of the device in a slice with a selection per device, None for all.
    """

    name: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    counters: Mapping[tuple[str, str], int] = field(default_factory=dict)
    terms: tuple[NodeSelectorTerm, ...] | None = None


class ResourceSlice(Struct, frozen=True):
    """ResourceSlice. `terms`: the nodes with its devices, None for all. `has_own_nodes`: each device has its own."""

    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    devices: tuple[Device, ...]
    terms: tuple[NodeSelectorTerm, ...] | None = None
    has_own_nodes: bool = False
    counters: Mapping[tuple[str, str], int] = field(default_factory=dict)

    @property
    def is_gated(self) -> bool:
        """Whether it uses features off by default before Kubernetes 1.36: taints, counters, nodes per device."""
        has_fields = any(device.taints or device.counters for device in self.devices)
        return has_fields or self.has_own_nodes or bool(self.counters)


class DeviceSubRequest(Struct, frozen=True):
    """One way to satisfy a request: a number of devices (ALL_DEVICES: all) selected by all of the CEL expressions."""

    name: str
    selectors: tuple[str, ...]
    count: int = 1
    has_admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()


class DeviceRequest(Struct, frozen=True):
    """Request of a claim: the first satisfiable alternative counts. `is_prioritized`: firstAvailable."""

    name: str
    alternatives: tuple[DeviceSubRequest, ...]
    is_prioritized: bool = False


class DeviceMatchConstraint(Struct, frozen=True):
    """Attribute with one value in all devices of the requests (all requests if empty)."""

    attribute: str
    requests: tuple[str, ...] = ()


class DeviceClaim(Struct, frozen=True):
    """ResourceClaim of a pod: `name` is `namespace/name`, or with `is_own` the name in the pod, as each pod gets
    its own claim from a template. `error`: why no pod with it gets a node.
    """

    name: str
    is_own: bool = False
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[DeviceMatchConstraint, ...] = ()
    error: str = ""


class DeviceInventory(Struct, frozen=True):
    """Slices of a cluster, and its allocated claims with their devices."""

    slices: tuple[ResourceSlice, ...] = ()
    allocations: Mapping[str, tuple[AllocatedDevice, ...]] = field(default_factory=dict)
