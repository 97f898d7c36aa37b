"""Records of an `az networkcloud` export: standard files, capture commands, resources.

All are frozen; ids are ARM ids as captured, `created_at` is "" if unknown.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.phrases import format_first_items
from nexusform.domains.azure.importers.arm_resources import find_group
from nexusform.doubts.doubt import Doubt
from nexusform.plans.site_capacity.site_resource_capacity import SiteResources
from nexusform.scheduling.racks.vms import MachineSku, VmSku

_SUBSCRIPTION: Final = re.compile(r"/subscriptions/([^/]+)/")


class AzRack(Struct, frozen=True):
    """Compute rack.

    `machine_sku` is the catalogue's hardware for its rack SKU, or None.
    """

    name: str
    id: str
    availability_zone: str | None
    rack_sku_id: str | None
    machine_sku: str | None
    detailed_status: str = ""


class AzMachine(Struct, frozen=True):
    """Bare-metal machine with its facts, such as its sorted roles.

    The facts are described in resource_types/machine_facts.py. `name` is the ARM name, and
    `machine_name` the host name set by operators. If `machine_sku` is None (absent in the
    catalogue), `hardware` is the size in its SKU id, or None.
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
    status_message: str | None = None
    runtime_version: str = ""

    def find_hardware(self, machine_skus: Mapping[str, MachineSku]) -> MachineSku | None:
        """Return the hardware of its machine SKU in a catalogue, else its own size, else None.

        None means that it is unknown.
        """
        return machine_skus.get(self.machine_sku or "", self.hardware)


class AzVmLocation(Struct, frozen=True):
    """Location of a VM.

    Azure does not report NUMA cells.
    """

    machine: str
    rack: str
    availability_zone: str | None


class AzVmSize(Struct, frozen=True):
    """Size of a VM on its machine: host vCPUs, GiB of memory and disk, number of NUMA cells."""

    cpu_cores: int
    memory_gib: int
    disk_gib: int
    numa_cells: int


class AzNode(Struct, frozen=True):
    """Node of an NKS cluster; `placement` is None until it is scheduled.

    `shape` is the larger of the node's own size and its SKU's. With `is_duplicate` it is a further
    record of a node on another machine, which only occupies capacity. `unlisted_machine` is the
    name of its machine if the list of machines lacks it; it has no placement then.
    """

    name: str
    cluster: str
    pool: str
    role: str
    vm_sku_name: str
    shape: AzVmSize
    placement: AzVmLocation | None
    detailed_status: str | None = None
    created_at: str = ""
    is_duplicate: bool = False
    unlisted_machine: str = ""


class AzHint(Struct, frozen=True):
    """Placement hint of a virtual machine, as stored by the platform."""

    hint_type: str
    resource_id: str
    scheduling_execution: str
    scope: str


class AzVirtualMachine(Struct, frozen=True):
    """Plain virtual machine; `placement` is None until it is scheduled.

    `unlisted_machine` is as in AzNode.
    """

    name: str
    id: str
    shape: AzVmSize
    placement: AzVmLocation | None
    hints: tuple[AzHint, ...] = ()
    created_at: str = ""
    unlisted_machine: str = ""


class AzTaint(Struct, frozen=True):
    """Taint; Azure joins value and effect in one string."""

    key: str
    value: str
    effect: str


class AzPool(Struct, frozen=True):
    """Agent pool.

    `availability_zones` () means all. `hugepages` are the pages per node and their size
    ("2M" or "1G").
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
    created_at: str = ""
    hugepages: tuple[int, str] = (0, "")


class AzCluster(Struct, frozen=True):
    """NKS cluster with pools in creation order and nodes by name.

    Without `has_pool_list` not all agent pools were captured: the others are the initial ones and
    those referenced by nodes. Without `has_node_list` the nodes are unknown. `duplicate_nodes` are
    further records of nodes. `unlisted_pools` are the names of pools that only nodes show, beside a
    list of the others.
    """

    name: str
    id: str
    kubernetes_version: str | None
    control_plane_count: int
    control_plane_sku: str | None
    control_plane_zones: tuple[str, ...]
    pools: tuple[AzPool, ...]
    nodes: tuple[AzNode, ...]
    created_at: str = ""
    has_pool_list: bool = True
    has_node_list: bool = True
    duplicate_nodes: tuple[AzNode, ...] = ()
    unlisted_pools: tuple[str, ...] = ()


class AzFailure(Struct, frozen=True):
    """Failed object: kind, name (a pool's includes its cluster), state, and Azure's reason.

    The reason is "" for missing nodes.
    """

    kind: str
    name: str
    state: str
    reason: str = ""


class AzInventory(Struct, frozen=True):
    """One site, everything sorted by name.

    `vm_skus` are SKUs of nodes absent in the catalogue, with the largest observed size.
    `exported_at` (RFC 3339) is None if the age is unknown. With `is_age_certain`, the export itself
    has the time. `listed_kinds` are kinds (StandardFile.kind) with a complete list.
    `unlisted_clusters` are clusters with captured agent pools only, by name. `failures` are
    reported by the platform. With `lacks_machines`, other resources show more machines than the
    list. `unread` are facts of the site that are not read. `status` is the detailed status of the
    Nexus cluster, "" if unknown.
    """

    racks: tuple[AzRack, ...] = ()
    machines: tuple[AzMachine, ...] = ()
    virtual_machines: tuple[AzVirtualMachine, ...] = ()
    clusters: tuple[AzCluster, ...] = ()
    vm_skus: tuple[VmSku, ...] = ()
    exported_at: str | None = None
    is_age_certain: bool = False
    listed_kinds: frozenset[str] = frozenset()
    unlisted_clusters: tuple[str, ...] = ()
    failures: tuple[AzFailure, ...] = ()
    supplies: SiteResources = SiteResources()
    update_strategy: Mapping[str, Any] | None = None
    lacks_machines: bool = False
    racks_without_machines: frozenset[str] = frozenset()
    unread: tuple[Doubt, ...] = ()
    status: str = ""
    status_message: str = ""

    @property
    def subscription_id(self) -> str:
        """Subscription of all machines in lower case, "" if unknown."""
        subscription_ids = {
            find_group(_SUBSCRIPTION, machine.id.lower()) for machine in self.machines
        }
        return subscription_ids.pop() if len(subscription_ids) == 1 else ""

    @property
    def vms_on_unlisted_machines(self) -> list[AzNode | AzVirtualMachine]:
        """VMs and nodes on machines that the list of machines lacks."""
        nodes = chain.from_iterable(cluster.nodes for cluster in self.clusters)
        vms: list[AzNode | AzVirtualMachine] = [*nodes, *self.virtual_machines]
        return [vm for vm in vms if vm.unlisted_machine]


def format_names(items: Iterable[Any], max_items: int) -> str:
    """Format the first names of clusters, sites or SKUs, and the number of further ones."""
    return format_first_items([item.name for item in items], max_items)


class AzSite(Struct, frozen=True):
    """One Operator Nexus instance of an export, with its name."""

    name: str
    inventory: AzInventory


class ExportFileKind(Struct, frozen=True):
    """One kind of document.

    With `has_several_files`, files with an infix are read, too (`agent_pools.core.json`, one per
    cluster). `command` captures it; words in capitals are placeholders.
    """

    kind: str
    name: str
    command: str
    has_several_files: bool = False


EXPORTED_AT: Final = "exported_at"


def _make_az_list(kind: str, resource: str, options: str = "", **flags: bool) -> ExportFileKind:
    return ExportFileKind(
        kind, f"{kind}.json", f"az networkcloud {resource} list {options}--output json", **flags
    )


_GROUP: Final = "--resource-group MANAGED_RESOURCE_GROUP "
_CLUSTER: Final = "--kubernetes-cluster-name CLUSTER --resource-group RESOURCE_GROUP "

STANDARD_FILES: Final[tuple[ExportFileKind, ...]] = (
    _make_az_list("racks", "rack", _GROUP),
    _make_az_list("bare_metal_machines", "baremetalmachine", _GROUP),
    _make_az_list("virtual_machines", "virtualmachine"),
    _make_az_list("kubernetes_clusters", "kubernetescluster"),
    _make_az_list("agent_pools", "kubernetescluster agentpool", _CLUSTER, has_several_files=True),
    _make_az_list("clusters", "cluster"),
    _make_az_list("rack_skus", "racksku"),
    _make_az_list("l3_networks", "l3network"),
    _make_az_list("l2_networks", "l2network"),
    _make_az_list("trunked_networks", "trunkednetwork"),
    _make_az_list("storage_appliances", "storageappliance"),
    _make_az_list("volumes", "volume"),
    _make_az_list("kubernetes_versions", "kubernetesversion"),
    ExportFileKind(
        "nodes", "nodes.json", "kubectl get nodes --output json", has_several_files=True
    ),
    ExportFileKind(EXPORTED_AT, "exported_at", "date -u +%Y-%m-%dT%H:%M:%SZ"),
)
