"""What the pools of an NKS cluster have in common, wherever they are written: arguments, checks,
demand, and nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from nexusform.demands import CONTROL_PLANE_TAINT, NodeMarks, PlacedVm, PoolDemand
from nexusform.diagnostics import Problem
from nexusform.kubernetes.matching import Taint, dns_subdomain_problems
from nexusform.kubernetes.quantity import Form, cpu_quantity, make_quantity
from nexusform.plain_data import Path
from nexusform.ports import Surroundings, Unplaced
from nexusform.resource_types.hardware import VFS, with_vfs
from nexusform.resource_types.kubelet import KUBELET_BLOCK, kubelet_of
from nexusform.resource_types.shared_arguments import POOL_AZURE_BLOCK, unknown_sku
from nexusform.scheduling.kubelet import GIB, Kubelet, NodeSize, Platform, allocatable, registered_labels
from nexusform.scheduling.kubelet import capacity as vm_size
from nexusform.scheduling.racks.vms import CONTROL_PLANE, Placement, Terms, VmSku
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting, OnChange
from nexusform.value_types import NUMBER, STRING, ListType, MapType, ObjectType, SetType

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
MACHINE_LABEL: Final = "topology.kubernetes.io/baremetalmachine"
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
INSTANCE_TYPE_LABEL: Final = "node.kubernetes.io/instance-type"

# More nodes than any pool has; a bound, so that a slip cannot exhaust memory.
MOST_NODES: Final = 1_000_000

_POOL: Final = OnChange.REPLACE_POOL

ZONES: Final = Attribute(
    SetType(STRING),
    "Availability zones (racks) for its VMs. Default or empty: all.",
    optional=True,
    on_change=_POOL,
    decides_placement=True,
)
SKU: Final = Attribute(STRING, "VM SKU of the nodes.", required=True, on_change=_POOL, decides_placement=True)
POOL_ARGUMENTS: Final[Mapping[str, Attribute]] = {
    "vm_sku_name": SKU,
    "availability_zones": ZONES,
    "mode": Attribute(
        STRING,
        "Purpose of the pool.",
        optional=True,
        default="User",
        choices=("User", "System", "NotApplicable"),
        on_change=_POOL,
        decides_placement=True,
    ),
    "labels": Attribute(
        MapType(STRING), "Labels of the nodes.", optional=True, on_change=_POOL, decides_placement=True
    ),
    "sriov_vfs": VFS,
}
# What of a pool's body its arguments say.
POOL_SAYS: Final = frozenset(
    {"count", "vmSkuName", "availabilityZones", "mode", "labels", "taints", "upgradeSettings"}
)
_DRAIN_SECONDS: Final = 1800
POOL_BLOCKS: Final[Mapping[str, NestedBlock]] = {
    "taint": NestedBlock(
        BlockSchema(
            {
                "key": Attribute(STRING, "Key of the taint.", required=True, decides_placement=True),
                "value": Attribute(STRING, "Value.", optional=True, default="", decides_placement=True),
                "effect": Attribute(
                    STRING,
                    "Effect on pods without a toleration.",
                    required=True,
                    choices=("NoSchedule", "PreferNoSchedule", "NoExecute"),
                    decides_placement=True,
                ),
            }
        ),
        Nesting.LIST,
        "A taint of the nodes.",
        on_change=_POOL,
    ),
    "upgrade_settings": NestedBlock(
        BlockSchema(
            {
                "max_surge": Attribute(
                    STRING,
                    "VMs added at once: a count, or percent of the pool rounded up.",
                    optional=True,
                    default="1",
                    decides_placement=True,
                    pattern=r"\d+%?",
                    pattern_hint='a count such as "1" or per cent such as "33%"',
                ),
                "max_unavailable": Attribute(
                    STRING,
                    "VMs removed at once: a count, or percent of the pool.",
                    optional=True,
                    default="0",
                    decides_placement=True,
                    pattern=r"\d+%?",
                    pattern_hint='a count such as "1" or per cent such as "33%"',
                ),
                "drain_timeout": Attribute(
                    NUMBER,
                    "Drain timeout of a node in seconds.",
                    optional=True,
                    default=_DRAIN_SECONDS,
                    minimum=60,
                    maximum=86_400,
                ),
            }
        ),
        Nesting.SINGLE,
        "Replacement of VMs during an upgrade.",
    ),
    "kubelet": KUBELET_BLOCK,
    "azure": POOL_AZURE_BLOCK,
}
NODE: Final = ObjectType.of(
    {
        "role": STRING,
        "pool": STRING,
        "number": NUMBER,
        "vm_sku_name": STRING,
        "machine": STRING,
        "rack": STRING,
        "availability_zone": STRING,
        "numa_cells": ListType(NUMBER),
        "labels": MapType(STRING),
        "platform_name": STRING,
        "provenance": STRING,
    }
)
NODES: Final = Attribute(
    MapType(NODE),
    "Nodes by name, with machine and NUMA cells.",
    computed=True,
    predicted=True,
)


def terms_of(values: Mapping[str, Any]) -> Terms:
    """What a pool's arguments ask of the placement rule beside the SKU."""
    return Terms(zones_of(values))


def zones_of(values: Mapping[str, Any]) -> frozenset[str] | None:
    """The zones of a pool; None = all."""
    zones = values.get("availability_zones")
    return frozenset(zones) if zones else None


def upgrade_problems(values: Mapping[str, Any], path: Path) -> Iterable[Problem]:
    """An upgrade needs room to move: surge or unavailable above zero."""
    settings = values.get("upgrade_settings")
    if not isinstance(settings, dict):
        return
    amounts = [settings.get("max_surge"), settings.get("max_unavailable")]
    if all(isinstance(a, str) and a.rstrip("%").strip("0") == "" for a in amounts):
        yield Problem(
            (*path, "upgrade_settings"),
            "invalid-upgrade-settings",
            "max_surge and max_unavailable are both zero, so no VM could ever be upgraded. Make one of "
            "them at least 1.",
        )


def pool_name_problems(name: str, path: Path) -> list[Problem]:
    """What is wrong with the name of a pool, which its nodes carry in theirs (`<cluster>-<pool>-1`)."""
    # Azure has pools with capitals: the kubelet writes them small when a node registers.
    rules = dns_subdomain_problems(f"c-{name.lower()}-1")
    if not rules:
        return []
    detail = (
        f'"{name[:80]}" cannot be the name of an agent pool: its nodes are named after it, and of '
        f"their names Kubernetes says: {rules[0]}."
    )
    return [Problem(path, "invalid-agent-pool-name", detail)]


def pool_demand(
    cluster: str, pool: str, count: int, values: Mapping[str, Any], path: Path, surroundings: Surroundings
) -> tuple[PoolDemand | None, list[Problem]]:
    """What one pool wants. `values` are its arguments, `path` where they stand."""
    name = str(values.get("vm_sku_name"))
    sku = surroundings.sku(name)
    if sku is None:
        return None, [unknown_sku(name, (*path, "vm_sku_name"), surroundings.sku_names())]
    if pool == CONTROL_PLANE and sku.numa_cells > 1:
        return None, [
            Problem(
                (*path, "vm_sku_name"),
                "vm-sku-not-allowed-for-a-control-plane",
                f"{name} spans {sku.numa_cells} NUMA cells; such SKUs are for agent pools only. Take a G "
                "or P SKU.",
            )
        ]
    sku = with_vfs(sku, values)
    settings = values.get("upgrade_settings") or {}
    numbers = tuple(range(count))
    return (
        PoolDemand(
            pool,
            numbers,
            tuple(f"{cluster}-{pool}-{n}" for n in numbers),
            sku,
            terms_of(values),
            _triggers(values) if pool != CONTROL_PLANE else (),
            path,
            max_surge=str(settings.get("max_surge") or "1"),
            max_unavailable=str(settings.get("max_unavailable") or "0"),
            system=values.get("mode") == "System",
            control_plane=pool == CONTROL_PLANE,
            drain_timeout=_drain_timeout(settings),
            count_path=(*path, "count") if path else ("node_count",),
        ),
        [],
    )


def _drain_timeout(settings: Mapping[str, Any]) -> int:
    """It decides no placement, so it may be unknown in a plan."""
    seconds = settings.get("drain_timeout")
    return seconds if isinstance(seconds, int) else _DRAIN_SECONDS


def _triggers(values: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """What re-places the pool's VMs when it changes, in order of precedence."""
    return (
        ("sku_changed", values.get("vm_sku_name")),
        ("zones_changed", zones_of(values)),
        ("labels_changed", values.get("labels") or {}),
        ("taints_changed", values.get("taint") or []),
        ("mode_changed", values.get("mode")),
    )


def nodes_of(
    vms: Iterable[PlacedVm], unplaced: Unplaced, sku_names: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """The nodes by name, those without a machine last; `sku_names` are those of the pools."""
    nodes = {vm.name: _node(vm, sku_names[vm.pool]) for vm in vms}
    for record in unplaced.values():
        nodes[record["name"]] = {key: value for key, value in record.items() if key != "name"}
    return nodes


def _node(vm: PlacedVm, sku_name: str) -> dict[str, Any]:
    """A node as state keeps it; labels are derived when read."""
    place = vm.placement
    return {
        "role": "ControlPlane" if vm.pool == CONTROL_PLANE else "Worker",
        "pool": vm.pool,
        "number": vm.number,
        "vm_sku_name": sku_name,
        "machine": place.machine,
        "rack": place.rack,
        "availability_zone": place.availability_zone,
        "numa_cells": list(place.cells) or None,
        "platform_name": vm.platform_name,
        "provenance": vm.provenance,
    }


def standing_nodes(attributes: Mapping[str, Any]) -> tuple[PlacedVm, ...]:
    """The VMs behind the nodes of a prior object; nodes without a machine hold no room."""
    nodes = attributes.get("nodes")
    if not isinstance(nodes, Mapping):
        return ()
    return tuple(
        PlacedVm(
            pool=node["pool"],
            number=node["number"],
            name=name,
            sku_name=node["vm_sku_name"],
            placement=_place_of(node),
            provenance=node.get("provenance", "predicted"),
            platform_name=node.get("platform_name"),
        )
        for name, node in nodes.items()
        if node.get("machine")
    )


def _place_of(node: Mapping[str, Any]) -> Placement:
    cells = tuple(node.get("numa_cells") or ())
    return Placement(node["machine"], node["rack"], node["availability_zone"], cells)


def unplaced_nodes(attributes: Mapping[str, Any]) -> Unplaced:
    """The nodes of a prior object that have no machine."""
    nodes = attributes.get("nodes")
    if not isinstance(nodes, Mapping):
        return {}
    return {
        (n["pool"], n["number"]): {**n, "name": name} for name, n in nodes.items() if not n.get("machine")
    }


def with_labels(
    nodes: Mapping[str, Mapping[str, Any]],
    pools: Mapping[str, Mapping[str, Any]],
    cluster: Mapping[str, Any],
) -> dict[str, Any]:
    """Nodes as expressions read them. `pools` are the arguments of the pools by name, `cluster` those of
    the cluster (empty for a separate pool, which does not know them).
    """
    shown: dict[str, Any] = {name: {**node, "labels": {}} for name, node in nodes.items()}
    for vm in standing_nodes({"nodes": nodes}):
        marks = node_marks(vm, pools, cluster)
        shown[vm.name] = {**nodes[vm.name], "labels": dict(marks.labels)}
    return shown


def node_reader(
    pools_of: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> Callable[[Mapping[str, Any], PlacedVm, Mapping[str, Any]], NodeMarks]:
    """How a type says what one of its VMs is as a node: its arguments hold these pools."""

    def node(attributes: Mapping[str, Any], vm: PlacedVm, cluster: Mapping[str, Any]) -> NodeMarks:
        return node_marks(vm, pools_of(attributes), cluster)

    return node


def node_marks(vm: PlacedVm, pools: Mapping[str, Mapping[str, Any]], cluster: Mapping[str, Any]) -> NodeMarks:
    """A VM as a node. `pools` are the arguments of the agent pools by name, `cluster` those of the cluster
    that they belong to.
    """
    pool, control_plane = pools.get(vm.pool, {}), vm.pool == CONTROL_PLANE
    labels = {} if control_plane else dict(pool.get("labels") or {})
    labels |= registered_labels(vm.name, control_plane=control_plane)
    labels[INSTANCE_TYPE_LABEL] = vm.sku_name
    labels[ZONE_LABEL] = vm.placement.availability_zone
    labels[MACHINE_LABEL] = vm.placement.machine
    labels[HOSTNAME_LABEL] = vm.name
    kubelet = node_kubelet(pool, cluster)
    if control_plane:
        return NodeMarks(labels, (CONTROL_PLANE_TAINT,), kubelet)
    labels |= dict.fromkeys(cluster.get("hardware_label_keys") or (), vm.placement.machine)
    taints = tuple(
        Taint(str(taint["key"]), str(taint.get("value") or ""), str(taint["effect"]))
        for taint in pool.get("taint") or ()
    )
    return NodeMarks(labels, taints, kubelet)


def node_kubelet(pool: Mapping[str, Any], cluster: Mapping[str, Any]) -> Kubelet:
    """The kubelet of a pool's nodes: what the pool says goes before what its cluster says."""
    return kubelet_of(Platform.NKS, cluster.get("kubelet"), pool.get("kubelet"))


def capacity(
    vms: Iterable[PlacedVm], skus: Mapping[str, VmSku | None], kubelets: Mapping[str, Kubelet]
) -> dict[str, Any]:
    """CPU and memory of the nodes in all, and what of them pods may ask for, as Kubernetes quantities.

    `skus` (None: not known) and `kubelets` are those of the pools; nodes of unknown size count as nothing.
    """
    total: list[NodeSize] = []
    left_to_pods: list[NodeSize] = []
    for vm in vms:
        sku = skus[vm.pool]
        if sku is not None:
            total.append(vm_size(sku))
            left_to_pods.append(allocatable(sku, kubelets[vm.pool]))
    return {"total": _amounts(total), "allocatable": _amounts(left_to_pods)}


def _amounts(sizes: Sequence[NodeSize]) -> dict[str, str]:
    cpu, memory = sum(size.cpu for size in sizes), sum(size.memory for size in sizes)
    in_gib, rest = divmod(memory, GIB)
    written = str(make_quantity(memory, Form.BINARY)) if rest else f"{in_gib}Gi"
    return {"cpu": str(cpu_quantity(cpu)), "memory": written}
