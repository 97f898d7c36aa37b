"""What a VM offers to pods once it registers as a node: its size minus what is kept back, and devices.

The kernel takes its share before anybody sees the memory: 64 bytes per page of 4 KiB (1/64, the kernel's
table of pages) and about 128 MiB for its image, firmware and first RAM disk; the sizes that published nodes
of 3.5 and 7 GiB print agree within 20 MiB. It is inferred. kubelet keeps `memory.available` 100Mi and
`nodefs.available` 10 % for its evictions (kubernetes.io, "Node-pressure Eviction", default hard thresholds).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from nexusform.scheduling.catalogue import allocatable_cpus
from nexusform.scheduling.racks.vms import VmSku

# With more NUMA cells kubelet does not start under a policy.
MOST_CELLS: Final = 8
STORAGE: Final = "ephemeral-storage"
HUGEPAGES: Final = "hugepages-"
MIB: Final = 2**20
GIB: Final = 2**30
EVICTION_MEMORY: Final = 100 * MIB
_OS, _ARCH = "linux", "amd64"
_CONTROL_PLANE: Final = {
    "node-role.kubernetes.io/control-plane": "",
    "node.kubernetes.io/exclude-from-external-load-balancers": "",
}
_KERNEL_FIXED: Final = 128 * MIB
_BYTES_PER_KERNEL_BYTE: Final = 64
_EVICTION_STORAGE_PER_CENT: Final = 10


class TopologyPolicy(StrEnum):
    """How kubelet's topology manager treats a pod whose CPUs, hugepages and devices lie in several cells."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


# The policies under which pods are refused.
REFUSING: Final = (TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE)


class Platform(StrEnum):
    """Who made the node: NKS, or kubeadm as Tacker's driver calls it."""

    NKS = "nks"
    KUBEADM = "kubeadm"


class Reserve(Struct, frozen=True):
    """An amount that is kept from pods: milli-CPUs, bytes of memory and of ephemeral storage."""

    cpu: int = 0
    memory: int = 0
    storage: int = 0


class Kubelet(Struct, frozen=True):
    """What the kubelet of a node keeps back and offers, and how it treats NUMA cells.

    `reserved_cpus` are numbers of CPUs; None = the platform's habit. It goes before the CPUs of `reserved`
    (kube-reserved and system-reserved together), as in kubelet. `extended` are further resources by name:
    one amount per cell of the node, or one for the whole node. `cells` 0 = nobody declared them.
    """

    platform: Platform = Platform.NKS
    eviction_memory: int = EVICTION_MEMORY
    reserved: Reserve = Reserve()
    reserved_cpus: frozenset[int] | None = None
    extended: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    policy: TopologyPolicy = TopologyPolicy.NONE
    cells: int = 0


class NodeSize(Struct, frozen=True):
    """What a node offers: milli-CPUs, bytes of memory, and further resources in their own units."""

    cpu: int
    memory: int
    others: Mapping[str, int] = field(default_factory=dict)


def registered_labels(name: str, *, control_plane: bool) -> dict[str, str]:
    """The labels that kubelet gives its node, and kubeadm a control plane's."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": _OS,
        "kubernetes.io/arch": _ARCH,
        "beta.kubernetes.io/os": _OS,
        "beta.kubernetes.io/arch": _ARCH,
    }
    return labels | _CONTROL_PLANE if control_plane else labels


def capacity(sku: VmSku) -> NodeSize:
    """The size of the VM."""
    return NodeSize(1000 * sku.vcpus, sku.memory_mib * MIB)


def allocatable(sku: VmSku, kubelet: Kubelet) -> NodeSize:
    """What pods may ask of a node of this SKU; never below 0."""
    vm_size = capacity(sku)
    resources = extended(sku, kubelet)
    pages = sum(sum(per_cell) for name, per_cell in resources.items() if name.startswith(HUGEPAGES))
    kept_memory = kernel_share(vm_size.memory) + kubelet.reserved.memory + kubelet.eviction_memory + pages
    others = {name: sum(per_cell) for name, per_cell in resources.items()}
    if sku.disk_gib:
        storage = sku.disk_gib * GIB
        evicting = storage * _EVICTION_STORAGE_PER_CENT // 100
        others[STORAGE] = max(0, storage - evicting - kubelet.reserved.storage)
    cpu = vm_size.cpu - _reserved_cpu(sku, kubelet)
    return NodeSize(max(0, cpu), max(0, vm_size.memory - kept_memory), others)


def kernel_share(memory: int) -> int:
    """What the kernel takes of so many bytes before the node registers, in whole MiB."""
    pages = -(-memory // (_BYTES_PER_KERNEL_BYTE * MIB)) * MIB
    return pages + _KERNEL_FIXED


def extended(sku: VmSku, kubelet: Kubelet) -> dict[str, tuple[int, ...]]:
    """The further resources of a node: its SKU's, and what its kubelet says of them."""
    return {**dict(sku.extended), **kubelet.extended}


def reserved_cpus(sku: VmSku, kubelet: Kubelet) -> frozenset[int]:
    """The numbers of the CPUs that no pod gets for itself."""
    if kubelet.reserved_cpus is not None:
        return kubelet.reserved_cpus
    if kubelet.platform is Platform.KUBEADM:
        return frozenset()
    return frozenset(range(sku.vcpus - allocatable_cpus(sku)))


def _reserved_cpu(sku: VmSku, kubelet: Kubelet) -> int:
    """CPU in milli that pods do not get."""
    # kubelet's reservedSystemCPUs stands in for the CPUs of its other two reserves.
    by_number = 1000 * len(reserved_cpus(sku, kubelet))
    return by_number or kubelet.reserved.cpu
