"""What an export of `az networkcloud` says about a site. Frozen; ids are ARM ids as written."""

from __future__ import annotations

from dataclasses import dataclass

CONTROL_PLANE = "control-plane"


@dataclass(frozen=True, slots=True)
class AzRack:
    """A compute rack. `machine_sku` is what its rack SKU stands for in the catalogue, or None."""

    name: str
    id: str
    availability_zone: str | None
    rack_sku_id: str | None
    machine_sku: str | None


@dataclass(frozen=True, slots=True)
class AzMachine:
    """A bare-metal machine and the states that decide whether it takes new VMs.

    `name` is the ARM name, `machine_name` the host name that operators set. `roles` are plain
    ("compute-plane"). `machine_sku` None: neither its SKU id nor its rack's SKU is known.
    """

    name: str
    id: str
    rack: str
    slot: int
    machine_sku: str | None
    machine_sku_id: str | None
    machine_name: str | None
    roles: tuple[str, ...]
    cordon_status: str
    power_state: str
    ready_state: str
    detailed_status: str


@dataclass(frozen=True, slots=True)
class AzPlacement:
    """Where a VM stands.

    `cells` are inferred (Azure does not report them), ascending; () when the machine's hardware is
    not known.
    """

    machine: str
    rack: str
    availability_zone: str | None
    cells: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class AzShape:
    """What a VM takes on its machine: host vCPUs, GiB of memory and disk, how many NUMA cells."""

    cpu_cores: int
    memory_gib: int
    disk_gib: int
    numa_cells: int


@dataclass(frozen=True, slots=True)
class AzNode:
    """A node of an NKS cluster; `placement` None while it is not scheduled."""

    name: str
    cluster: str
    pool: str
    role: str
    vm_sku_name: str | None
    shape: AzShape
    placement: AzPlacement | None
    detailed_status: str | None = None
    created_at: str | None = None


@dataclass(frozen=True, slots=True)
class AzHint:
    """A placement hint of a virtual machine, as the platform stores it."""

    hint_type: str
    resource_id: str
    scheduling_execution: str
    scope: str


@dataclass(frozen=True, slots=True)
class AzVirtualMachine:
    """A plain virtual machine; `placement` None while it is not scheduled."""

    name: str
    id: str
    shape: AzShape
    placement: AzPlacement | None
    hints: tuple[AzHint, ...] = ()
    created_at: str | None = None


@dataclass(frozen=True, slots=True)
class AzTaint:
    """A taint; Azure packs value and effect into one text."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class AzPool:
    """An agent pool. `availability_zones` () = all."""

    name: str
    id: str
    cluster: str
    count: int
    vm_sku_name: str
    mode: str
    availability_zones: tuple[str, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[AzTaint, ...] = ()
    max_surge: str | None = None
    max_unavailable: str | None = None
    drain_timeout: int | None = None
    created_at: str | None = None


@dataclass(frozen=True, slots=True)
class AzCluster:
    """An NKS cluster with its pools in order of creation and its nodes by name."""

    name: str
    id: str
    kubernetes_version: str | None
    control_plane_count: int
    control_plane_sku: str | None
    control_plane_zones: tuple[str, ...]
    pools: tuple[AzPool, ...]
    nodes: tuple[AzNode, ...]
    created_at: str | None = None


@dataclass(frozen=True, slots=True)
class AzCapacity:
    """The only capacity that the platform reports: totals of the whole site."""

    cores_total: int | None
    cores_available: int | None
    memory_gb_total: int | None
    memory_gb_available: int | None


@dataclass(frozen=True, slots=True)
class AzInventory:
    """A whole site: everything sorted by name.

    `exported_at` (RFC 3339) is None when nothing in the export tells its age; `age_certain` says
    that the export itself named it.
    """

    racks: tuple[AzRack, ...] = ()
    machines: tuple[AzMachine, ...] = ()
    virtual_machines: tuple[AzVirtualMachine, ...] = ()
    clusters: tuple[AzCluster, ...] = ()
    capacity: AzCapacity | None = None
    exported_at: str | None = None
    age_certain: bool = False
