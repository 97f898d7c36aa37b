"""Resources a VM offers to pods as a node: its size minus reserved amounts, and devices.

The kernel takes its share before memory is reported: 64 bytes per page of 4 KiB (1/64, the page
table) and about 128 MiB for its image, firmware and first RAM disk. The sizes printed by
published nodes of 3.5 and 7 GiB agree within 20 MiB. It is inferred. kubelet keeps
`memory.available` 100Mi and `nodefs.available` 10 % for evictions (kubernetes.io, "Node-pressure
Eviction", default hard thresholds).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from nexusform.scheduling.racks.vms import VmSku
from nexusform.scheduling.sku_catalogue import compute_allocatable_cpus

# A kubelet does not start under a policy with more NUMA cells.
MAX_CELLS: Final = 8
STORAGE: Final = "ephemeral-storage"
HUGEPAGES: Final = "hugepages-"
MIB: Final = 2**20
GIB: Final = 2**30
EVICTION_MEMORY: Final = 100 * MIB
_KERNEL_FIXED: Final = 128 * MIB
_BYTES_PER_KERNEL_BYTE: Final = 64
_OS = "linux"
_ARCH = "amd64"


class TopologyPolicy(StrEnum):
    """Treatment of a pod by kubelet's topology manager if its resources lie in several cells."""

    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


# Policies under which pods are rejected.
REJECTING_POLICIES: Final = (TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE)


class Platform(StrEnum):
    """Installer of the node: NKS, or kubeadm as called by Tacker's driver."""

    NKS = "nks"
    KUBEADM = "kubeadm"


class Reserve(Struct, frozen=True):
    """Amount reserved from pods: milli-CPUs, bytes of memory and of ephemeral storage."""

    cpu: int = 0
    memory: int = 0
    storage: int = 0


class KubeletConfiguration(Struct, frozen=True):
    """Reserved and offered resources of a node's kubelet, and its NUMA policy.

    `reserved_cpus` are CPU numbers; None = the platform's default. They replace the CPUs of
    `reserved` (kube-reserved and system-reserved together), as in kubelet. `extended` are further
    resources by name: one amount per cell of the node, or one for the whole node. `cells` is 0 if
    it is not declared.
    """

    platform: Platform = Platform.NKS
    eviction_memory: int = EVICTION_MEMORY
    reserved: Reserve = Reserve()
    reserved_cpus: frozenset[int] | None = None
    extended: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    policy: TopologyPolicy = TopologyPolicy.NONE
    cells: int = 0


class NodeSize(Struct, frozen=True):
    """Size of a node: milli-CPUs, bytes of memory, and further resources in their own units."""

    cpu: int
    memory: int
    extended: Mapping[str, int] = field(default_factory=dict)


def list_registered_labels(name: str, *, control_plane: bool) -> dict[str, str]:
    """Return the labels set by kubelet on its node, and by kubeadm on a control plane node."""
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": _OS,
        "kubernetes.io/arch": _ARCH,
        "beta.kubernetes.io/os": _OS,
        "beta.kubernetes.io/arch": _ARCH,
    }
    if control_plane:
        labels["node-role.kubernetes.io/control-plane"] = ""
        labels["node.kubernetes.io/exclude-from-external-load-balancers"] = ""
    return labels


def compute_capacity(sku: VmSku) -> NodeSize:
    """Return the CPUs (milli-CPUs) and memory (bytes) of a node of this SKU."""
    return NodeSize(1000 * sku.vcpus, sku.memory_mib * MIB)


def compute_allocatable(sku: VmSku, kubelet: KubeletConfiguration) -> NodeSize:
    """Return the resources for pods of a node of this SKU.

    They are its size less the memory of the kernel and of hugepages, and less the amounts reserved
    by kubelet. No figure is below 0.
    """
    vm_size = compute_capacity(sku)
    resources = collect_extended_resources(sku, kubelet)
    pages = sum(
        sum(per_cell) for name, per_cell in resources.items() if name.startswith(HUGEPAGES)
    )  # bytes
    reserved_memory = (
        compute_kernel_memory(vm_size.memory)
        + kubelet.reserved.memory
        + kubelet.eviction_memory
        + pages
    )
    extended = {name: sum(per_cell) for name, per_cell in resources.items()}
    if sku.disk_gib:
        storage = sku.disk_gib * GIB
        # Default of kubelet for evictions (`nodefs.available`).
        eviction_per_cent = 10
        eviction_storage = storage * eviction_per_cent // 100
        extended[STORAGE] = max(0, storage - eviction_storage - kubelet.reserved.storage)
    # The setting reservedSystemCPUs of kubelet replaces the CPUs of its other two reserves.
    reserved_by_number = 1000 * len(list_reserved_cpus(sku, kubelet))  # in milli-CPUs
    reserved_cpu = reserved_by_number or kubelet.reserved.cpu
    cpu = vm_size.cpu - reserved_cpu
    return NodeSize(max(0, cpu), max(0, vm_size.memory - reserved_memory), extended)


def compute_kernel_memory(memory: int) -> int:
    """Return the bytes the kernel takes of this memory before the node registers, in whole MiB."""
    page_table = -(-memory // (_BYTES_PER_KERNEL_BYTE * MIB)) * MIB  # rounded up
    return page_table + _KERNEL_FIXED


def collect_extended_resources(
    sku: VmSku, kubelet: KubeletConfiguration
) -> dict[str, tuple[int, ...]]:
    """Return the extended resources of a node: amounts per NUMA cell by name.

    Those of kubelet replace the SKU's.
    """
    return {**dict(sku.extended), **kubelet.extended}


def list_reserved_cpus(sku: VmSku, kubelet: KubeletConfiguration) -> frozenset[int]:
    """Return the numbers of the CPUs never assigned to pods exclusively."""
    if kubelet.reserved_cpus is not None:
        return kubelet.reserved_cpus
    if kubelet.platform is Platform.KUBEADM:
        # A node of kubeadm reserves none, one of NKS two on most SKUs.
        return frozenset()
    return frozenset(range(sku.vcpus - compute_allocatable_cpus(sku)))
