"""An export of `az networkcloud`: the standard files of a site, the commands that capture them, and what they
say. Frozen; ids are ARM ids as written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.plans.room.other_room import RuntimeVersion
from nexusform.scheduling.racks.vms import MachineSku, VmSku


class AzRack(Struct, frozen=True):
    """A compute rack. `machine_sku` is what its rack SKU stands for in the catalogue, or None."""

    name: str
    id: str
    availability_zone: str | None
    rack_sku_id: str | None
    machine_sku: str | None


class AzMachine(Struct, frozen=True):
    """A bare-metal machine, and the facts about it (resource_types/machine_facts.py), roles in plain words.

    `name` is the ARM name, `machine_name` the host name that operators set. `machine_sku` None: the catalogue
    does not have it; `hardware` then is what its SKU id names, or None.
    """

    name: str
    id: str
    rack: str
    slot: int
    machine_sku: str | None
    machine_sku_id: str | None
    machine_name: str | None
    facts: Mapping[str, Any]
    hardware: MachineSku | None = None

    @property
    def roles(self) -> tuple[str, ...]:
        """Its roles, sorted."""
        return tuple(self.facts["roles"])


class AzPlacement(Struct, frozen=True):
    """Where a VM stands. Azure does not report NUMA cells."""

    machine: str
    rack: str
    availability_zone: str | None


class AzShape(Struct, frozen=True):
    """What a VM takes on its machine: host vCPUs, GiB of memory and disk, how many NUMA cells."""

    cpu_cores: int
    memory_gib: int
    disk_gib: int
    numa_cells: int


class AzNode(Struct, frozen=True):
    """A node of an NKS cluster; `placement` None while it is not scheduled.

    `shape` is the larger of the node's own figures and those of its SKU. `is_second`: a further record of a
    node that stands elsewhere as well: nothing but room that is taken.
    """

    name: str
    cluster: str
    pool: str
    role: str
    vm_sku_name: str | None
    shape: AzShape
    placement: AzPlacement | None
    detailed_status: str | None = None
    created_at: str | None = None
    is_second: bool = False


class AzHint(Struct, frozen=True):
    """A placement hint of a virtual machine, as the platform stores it."""

    hint_type: str
    resource_id: str
    scheduling_execution: str
    scope: str


class AzVirtualMachine(Struct, frozen=True):
    """A plain virtual machine; `placement` None while it is not scheduled."""

    name: str
    id: str
    shape: AzShape
    placement: AzPlacement | None
    hints: tuple[AzHint, ...] = ()
    created_at: str | None = None


class AzTaint(Struct, frozen=True):
    """A taint; Azure packs value and effect into one text."""

    key: str
    value: str
    effect: str


class AzPool(Struct, frozen=True):
    """An agent pool. `availability_zones` () = all. `hugepages`: how many pages each node sets aside, and of
    which size ("2M" or "1G").
    """

    name: str
    id: str
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
    hugepages: tuple[int, str] = (0, "")


class AzCluster(Struct, frozen=True):
    """An NKS cluster with its pools in order of creation and its nodes by name. Without `pools_listed` its
    agent pools were not captured: they are those that it was made with, and those that nodes name. Without
    `nodes_listed` nothing says which nodes it has. `seconds` are further records of nodes, `upgrades` the
    Kubernetes versions that the platform offers it.
    """

    name: str
    id: str
    kubernetes_version: str | None
    control_plane_count: int
    control_plane_sku: str | None
    control_plane_zones: tuple[str, ...]
    pools: tuple[AzPool, ...]
    nodes: tuple[AzNode, ...]
    created_at: str | None = None
    pools_listed: bool = True
    nodes_listed: bool = True
    seconds: tuple[AzNode, ...] = ()
    upgrades: tuple[str, ...] = ()


class AzTrouble(Struct, frozen=True):
    """An object of which the platform says that it failed: its kind (StandardFile.kind), its name (with its
    cluster's for a pool), the state that says so ("" for nodes that lack) and the platform's reason.
    """

    kind: str
    name: str
    state: str
    reason: str = ""


class AzNetwork(Struct, frozen=True):
    """An L3 network: the key of its id, and how many IPv4 addresses its prefix has for hosts (None: it has
    no such prefix). The platform keeps some of these for its own.
    """

    name: str
    key: str
    addresses: int | None


class AzAppliance(Struct, frozen=True):
    """A storage appliance: GiB in all, and used; None where the platform does not say."""

    name: str
    capacity_gib: int | None
    used_gib: int | None


class AzClusterNetwork(Struct, frozen=True):
    """What a Kubernetes cluster says of its networks: the key of the id of the L3 network that its nodes have
    their addresses of, how many IPv4 addresses its pods have, those of its load balancers by pool; and how
    many nodes its body shows.
    """

    cluster: str
    node_network: str
    pod_addresses: int | None
    balancer_addresses: tuple[tuple[str, int], ...]
    nodes: int


class AzSupplies(Struct, frozen=True):
    """What a site has beside machines; None for a kind that was not captured. `volumes`: how many, and their
    MiB; `volume_sizes`: how many of each MiB. `versions`: the Kubernetes versions that clusters there may
    have, each with the day on which its support ends ("" where nobody told). `attached`: how many VMs are
    attached to each network, by the key of its id. `runtime`: the version of its machines.
    """

    networks: tuple[AzNetwork, ...] | None = None
    appliances: tuple[AzAppliance, ...] | None = None
    volumes: tuple[int, int] | None = None
    versions: tuple[tuple[str, str], ...] | None = None
    clusters: tuple[AzClusterNetwork, ...] = ()
    attached: tuple[tuple[str, int], ...] = ()
    runtime: RuntimeVersion | None = None
    volume_sizes: tuple[tuple[int, int], ...] = ()


class AzInventory(Struct, frozen=True):
    """A whole site: everything sorted by name.

    `vm_skus` are the SKUs of nodes that the catalogue does not have, with the largest figures seen.
    `exported_at` (RFC 3339) is None when nothing in the export tells its age; `age_certain` says
    that the export itself named it. `listed` are the kinds (StandardFile.kind) of which the export has a
    whole list: what that lacks is not there. `clusters_lacking` are clusters of which it has agent pools
    alone, by name, of this or another site. `troubles` are what the platform says is not well, `supplies`
    what there is beside machines.
    """

    racks: tuple[AzRack, ...] = ()
    machines: tuple[AzMachine, ...] = ()
    virtual_machines: tuple[AzVirtualMachine, ...] = ()
    clusters: tuple[AzCluster, ...] = ()
    vm_skus: tuple[VmSku, ...] = ()
    exported_at: str | None = None
    age_certain: bool = False
    listed: frozenset[str] = frozenset()
    clusters_lacking: tuple[str, ...] = ()
    troubles: tuple[AzTrouble, ...] = ()
    supplies: AzSupplies = AzSupplies()
    update_strategy: Mapping[str, Any] | None = None


class AzSite(Struct, frozen=True):
    """One Operator Nexus instance of an export, with its name."""

    name: str
    inventory: AzInventory


class StandardFile(Struct, frozen=True):
    """One kind of document.

    `several`: files with a word before the ending are read with it (`agent_pools.core.json`, one per
    cluster). `command` captures it; words in capitals are to be filled in.
    """

    kind: str
    name: str
    command: str
    required: bool = False
    several: bool = False


EXPORTED_AT: Final = "exported_at"

STANDARD_FILES: Final[tuple[StandardFile, ...]] = (
    StandardFile(
        "racks",
        "racks.json",
        "az networkcloud rack list --resource-group MANAGED_RESOURCE_GROUP --output json",
        required=True,
    ),
    StandardFile(
        "bare_metal_machines",
        "bare_metal_machines.json",
        "az networkcloud baremetalmachine list --resource-group MANAGED_RESOURCE_GROUP --output json",
        required=True,
    ),
    StandardFile(
        "virtual_machines",
        "virtual_machines.json",
        "az networkcloud virtualmachine list --output json",
    ),
    StandardFile(
        "kubernetes_clusters",
        "kubernetes_clusters.json",
        "az networkcloud kubernetescluster list --output json",
    ),
    StandardFile(
        "agent_pools",
        "agent_pools.json",
        "az networkcloud kubernetescluster agentpool list --kubernetes-cluster-name CLUSTER "
        "--resource-group RESOURCE_GROUP --output json",
        several=True,
    ),
    StandardFile(
        "clusters",
        "clusters.json",
        "az networkcloud cluster list --output json",
    ),
    StandardFile(
        "rack_skus",
        "rack_skus.json",
        "az networkcloud racksku list --output json",
    ),
    StandardFile(
        "l3_networks",
        "l3_networks.json",
        "az networkcloud l3network list --output json",
    ),
    StandardFile(
        "storage_appliances",
        "storage_appliances.json",
        "az networkcloud storageappliance list --output json",
    ),
    StandardFile(
        "volumes",
        "volumes.json",
        "az networkcloud volume list --output json",
    ),
    StandardFile(
        "kubernetes_versions",
        "kubernetes_versions.json",
        "az networkcloud kubernetesversion list --output json",
    ),
    StandardFile(
        "nodes",
        "nodes.json",
        "kubectl get nodes --output json",
        several=True,
    ),
    StandardFile(EXPORTED_AT, "exported_at", "date -u +%Y-%m-%dT%H:%M:%SZ"),
)
