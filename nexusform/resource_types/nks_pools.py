"""Common parts of the pools of an NKS cluster: arguments, checks, demand, and nodes.

A pool may be in any block.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem
from nexusform.diagnostics.phrases import enclose, format_list
from nexusform.interfaces.plugins import ResourceContext, UnplacedVms
from nexusform.json_data.plain_data import (
    Path,
    get_mapping,
    get_text,
    has_unknown_part,
    list_mappings,
)
from nexusform.kubernetes.matching import Taint, select_weaker_taints, validate_dns_subdomain
from nexusform.kubernetes.quantity import QuantityFormat, build_cpu_quantity, build_quantity
from nexusform.placements.node_properties import CONTROL_PLANE_TAINT, NodeProperties
from nexusform.placements.vm_demands import PlacedVm, PoolDemand
from nexusform.resource_types.kubelet_block import KUBELET_BLOCK, build_kubelet
from nexusform.resource_types.machine_facts import VFS, add_vfs_to_sku
from nexusform.resource_types.shared_arguments import (
    POOL_AZURE_BLOCK,
    build_optional_argument,
    build_required_argument,
    build_unknown_sku_problem,
    get_known_blocks,
)
from nexusform.scheduling.kubelet import (
    GIB,
    KubeletConfiguration,
    NodeSize,
    Platform,
    compute_allocatable,
    list_registered_labels,
)
from nexusform.scheduling.kubelet import compute_capacity as vm_size
from nexusform.scheduling.racks.vms import CONTROL_PLANE, Placement, PlacementConstraints, VmSku
from nexusform.schemas.block_schema import (
    AttributeSchema,
    BlockSchema,
    NestedBlock,
    Nesting,
    OnChange,
)
from nexusform.schemas.value_types import NUMBER, STRING, ListType, MapType, ObjectType, SetType

ZONE_LABEL: Final = "topology.kubernetes.io/zone"
MACHINE_LABEL: Final = "topology.kubernetes.io/baremetalmachine"

# More nodes than any pool has; a limit, so that a typing error cannot exhaust memory.
MAXIMUM_NODES: Final = 1_000_000

_POOL: Final = OnChange.REPLACE_POOL

ZONES: Final = build_optional_argument(
    SetType(STRING),
    "Availability zones (racks) for its VMs. Default or empty: all.",
    on_change=_POOL,
)
SKU: Final = build_required_argument(STRING, "VM SKU of the nodes.", on_change=_POOL)
POOL_ARGUMENTS: Final[Mapping[str, AttributeSchema]] = {
    "vm_sku_name": SKU,
    "availability_zones": ZONES,
    "mode": build_optional_argument(
        STRING,
        "Purpose of the pool.",
        default="User",
        choices=("User", "System", "NotApplicable"),
        on_change=_POOL,
    ),
    "labels": build_optional_argument(MapType(STRING), "Labels of the nodes.", on_change=_POOL),
    "sriov_vfs": VFS,
}
# Properties of a pool's body set by its arguments.
POOL_PROPERTIES: Final = frozenset(
    {"count", "vmSkuName", "availabilityZones", "mode", "labels", "taints", "upgradeSettings"}
)
_DRAIN_SECONDS: Final = 1800
POOL_BLOCKS: Final[Mapping[str, NestedBlock]] = {
    "taint": NestedBlock(
        BlockSchema(
            {
                "key": build_required_argument(STRING, "Key of the taint."),
                "value": build_optional_argument(STRING, "Value.", default=""),
                "effect": build_required_argument(
                    STRING,
                    "Effect on pods without a toleration.",
                    choices=("NoSchedule", "PreferNoSchedule", "NoExecute"),
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
                "max_surge": build_optional_argument(
                    STRING,
                    "VMs added at once: a count, or percent of the pool rounded up.",
                    default="1",
                    pattern=r"\d+%?",
                    pattern_hint='a count such as "1" or percent such as "33%"',
                ),
                "max_unavailable": build_optional_argument(
                    STRING,
                    "VMs removed at once: a count, or percent of the pool.",
                    default="0",
                    pattern=r"\d+%?",
                    pattern_hint='a count such as "1" or percent such as "33%"',
                ),
                "drain_timeout": AttributeSchema(
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
NODE: Final = ObjectType.create(
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
NODES: Final = AttributeSchema(
    MapType(NODE),
    (
        "Nodes by name: `pool`, `role`, `rack`, `machine`, `availability_zone`, `numa_cells`, "
        "`vm_sku_name`, `labels`."
    ),
    computed=True,
    predicted=True,
)


def build_placement_constraints(values: Mapping[str, Any]) -> PlacementConstraints:
    """Return the placement constraints of a pool other than its SKU: the zones."""
    return PlacementConstraints(get_zones(values))


def get_zones(values: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the zones of a pool; None = all."""
    zones = values.get("availability_zones")
    return frozenset(zones) if zones else None


def check_upgrade_settings(values: Mapping[str, Any], path: Path) -> Iterable[Problem]:
    """Yield a problem unless surge or unavailable is above zero."""
    settings = get_known_blocks(values, "upgrade_settings")
    amounts = [settings.get("max_surge"), settings.get("max_unavailable")]
    # "0", "0%" or "00".
    if all(isinstance(amount, str) and not amount.rstrip("%").strip("0") for amount in amounts):
        detail = (
            "max_surge and max_unavailable are both zero, so no VM can be upgraded. Set one of "
            "them to at least 1."
        )
        yield Problem((*path, "upgrade_settings"), "invalid-upgrade-settings", detail)


def check_pool_name(name: str, path: Path) -> list[Problem]:
    """Return the problems of a pool name.

    The names of its nodes contain it (`<cluster>-<pool>-1`).
    """
    # Azure has pools with capitals: the kubelet converts them to lower case when a node registers.
    rules = validate_dns_subdomain(f"c-{name.lower()}-1")
    if not rules:
        # The names are valid.
        return []
    problem = f'"{name[:80]}" cannot be the name of an agent pool: its nodes are named after it.'
    return [
        Problem(
            path, "invalid-agent-pool-name", f"{problem} Kubernetes rule for names: {rules[0]}."
        )
    ]


def check_control_plane_sku(name: str, numa_cells: int, path: Path) -> list[Problem]:
    """Return the problem of a SKU for a control plane that spans several NUMA cells."""
    if numa_cells <= 1:
        return []
    detail = (
        f"{name} spans {numa_cells} NUMA cells; such SKUs are for agent pools only. Take a G or P "
        "SKU."
    )
    return [Problem((*path, "vm_sku_name"), "unsupported-control-plane-sku", detail)]


def build_pool_demand(
    cluster: str,
    pool: str,
    count: int,
    values: Mapping[str, Any],
    path: Path,
    context: ResourceContext,
) -> tuple[PoolDemand | None, list[Problem]]:
    """Return the demand of one pool; None with a problem for a wrong VM SKU.

    `values` are its arguments, and `path` is their location in the resource: () for a pool with a
    resource of its own.
    """
    name = str(values.get("vm_sku_name"))
    sku = context.find_sku(name)
    if sku is None:
        return None, [
            build_unknown_sku_problem(name, (*path, "vm_sku_name"), context.list_sku_names())
        ]
    if pool == CONTROL_PLANE:
        problems = check_control_plane_sku(name, sku.numa_cells, path)
        if problems:
            return None, problems
    sku = add_vfs_to_sku(sku, values)
    settings = get_mapping(values, "upgrade_settings")
    numbers = tuple(range(count))
    seconds = settings.get("drain_timeout")
    demand = PoolDemand(
        pool=pool,
        numbers=numbers,
        names=tuple(f"{cluster}-{pool}-{number}" for number in numbers),
        sku=sku,
        constraints=build_placement_constraints(values),
        # A changed control plane replaces its whole cluster, so it has no triggers of its own.
        triggers=_build_recreation_triggers(values) if pool != CONTROL_PLANE else (),
        path=path,
        max_surge=str(settings.get("max_surge") or "1"),
        max_unavailable=str(settings.get("max_unavailable") or "0"),
        is_system=values.get("mode") == "System",
        is_control_plane=pool == CONTROL_PLANE,
        drain_timeout=seconds if isinstance(seconds, int) else _DRAIN_SECONDS,
        count_path=(*path, "count") if path else ("node_count",),
    )
    return demand, []


def _build_recreation_triggers(values: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return for each argument with changes that re-create the pool's VMs, first the strongest.

    Each result has a trigger and a value.
    """
    return (
        ("sku_changed", values.get("vm_sku_name")),
        ("zones_changed", get_zones(values)),
        ("labels_changed", get_mapping(values, "labels")),
        ("taints_changed", values.get("taint") or []),
        ("mode_changed", values.get("mode")),
    )


def build_nodes(
    vms: Iterable[PlacedVm], unplaced: UnplacedVms, sku_names: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """Return the nodes by name: placed VMs, then the recorded nodes without a machine.

    `sku_names` are by pool.
    """
    # One list for all nodes in these cells.
    cells: dict[tuple[int, ...], list[int]] = {}
    nodes = {
        vm.name: _build_node(
            vm, sku_names[vm.pool], cells.setdefault(vm.placement.cells, list(vm.placement.cells))
        )
        for vm in vms
    }
    for record in unplaced.values():
        nodes[record["name"]] = {key: value for key, value in record.items() if key != "name"}
    return nodes


def _build_node(vm: PlacedVm, sku_name: str, cells: list[int]) -> dict[str, Any]:
    """Build the entry of a node in the state.

    `cells` are its NUMA cells. It has no labels: they are derived on reading.
    """
    placement = vm.placement
    return {
        "role": "ControlPlane" if vm.pool == CONTROL_PLANE else "Worker",
        "pool": vm.pool,
        "number": vm.number,
        "vm_sku_name": sku_name,
        "machine": placement.machine,
        "rack": placement.rack,
        "availability_zone": placement.availability_zone,
        "numa_cells": cells or None,  # None: unknown
        "platform_name": vm.platform_name,
        "provenance": vm.provenance,
    }


def list_existing_vms(attributes: Mapping[str, Any]) -> tuple[PlacedVm, ...]:
    """Return the VMs of the nodes of a prior object; nodes without a machine use no capacity."""
    nodes = attributes.get("nodes")
    if not isinstance(nodes, Mapping):
        # It was not created.
        return ()
    return tuple(
        PlacedVm(
            pool=node["pool"],
            number=node["number"],
            name=name,
            sku_name=node["vm_sku_name"],
            placement=Placement(
                node["machine"],
                node["rack"],
                node["availability_zone"],
                tuple(node.get("numa_cells") or ()),
            ),
            provenance=node.get("provenance", "predicted"),
            platform_name=node.get("platform_name"),
        )
        for name, node in nodes.items()
        if node.get("machine")
    )


def list_unplaced_nodes(attributes: Mapping[str, Any]) -> UnplacedVms:
    """Return the nodes of a prior object without a machine, by pool and number.

    The nodes have their names.
    """
    nodes = attributes.get("nodes")
    if not isinstance(nodes, Mapping):
        # It was not created.
        return {}
    unplaced_nodes = [
        {**node, "name": name} for name, node in nodes.items() if not node.get("machine")
    ]
    return {(node["pool"], node["number"]): node for node in unplaced_nodes}


def add_node_labels(
    nodes: Mapping[str, Mapping[str, Any]],
    pools: Mapping[str, Mapping[str, Any]],
    cluster: Mapping[str, Any],
) -> dict[str, Any]:
    """Return nodes as read by expressions, with `labels` ({} without a machine).

    `pools` are the arguments of the pools by name, `cluster` those of the cluster (empty for a
    separate pool: it does not know them).
    """
    labelled_nodes: dict[str, Any] = {name: {**node, "labels": {}} for name, node in nodes.items()}
    for vm in list_existing_vms({"nodes": nodes}):
        labelled_nodes[vm.name]["labels"] = dict(build_node_properties(vm, pools, cluster).labels)
    return labelled_nodes


def build_node_reader(
    get_pools: Callable[[Mapping[str, Any]], Mapping[str, Any]],
) -> Callable[[Mapping[str, Any], PlacedVm, Mapping[str, Any]], NodeProperties]:
    """Return a function for the node properties of a VM.

    `get_pools` returns the pools of its object by name.
    """

    def read_node(
        attributes: Mapping[str, Any], vm: PlacedVm, cluster: Mapping[str, Any]
    ) -> NodeProperties:
        return build_node_properties(vm, get_pools(attributes), cluster)

    return read_node


def build_node_properties(
    vm: PlacedVm, pools: Mapping[str, Mapping[str, Any]], cluster: Mapping[str, Any]
) -> NodeProperties:
    """Build the node attributes of a VM.

    `pools` are the arguments of the agent pools by name, `cluster` those of their cluster. A
    control plane gets no labels of a pool, and none of `hardware_label_keys`.
    """
    pool = pools.get(vm.pool, {})
    is_control_plane = vm.pool == CONTROL_PLANE
    labels = {} if is_control_plane else dict(get_mapping(pool, "labels"))
    labels |= list_registered_labels(vm.name, control_plane=is_control_plane)
    labels["node.kubernetes.io/instance-type"] = vm.sku_name
    labels[ZONE_LABEL] = vm.placement.availability_zone
    labels[MACHINE_LABEL] = vm.placement.machine
    labels["kubernetes.io/hostname"] = vm.name
    kubelet = build_node_kubelet(pool, cluster)
    if is_control_plane:
        return NodeProperties(labels, (CONTROL_PLANE_TAINT,), kubelet)
    labels |= dict.fromkeys(cluster.get("hardware_label_keys") or (), vm.placement.machine)
    return NodeProperties(labels, _read_taints(pool), kubelet)


def _read_taints(pool: Mapping[str, Any]) -> tuple[Taint, ...]:
    return tuple(
        Taint(*(get_text(taint, name) for name in ("key", "value", "effect")))
        for taint in list_mappings(pool, "taint")
    )


def find_lost_taints(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return `loses taint dedicated=upf:NoSchedule, so other pods may come`; "" for none.

    `before` and `after` are the arguments of a pool. Nothing is lost while its taints are unknown.
    """
    if has_unknown_part(after.get("taint")):
        return ""
    lost = select_weaker_taints(_read_taints(before), _read_taints(after))
    return enclose(
        "loses taint ", format_list(taint.title for taint in lost), ", so other pods may come"
    )


def build_node_kubelet(pool: Mapping[str, Any], cluster: Mapping[str, Any]) -> KubeletConfiguration:
    """Build the kubelet of a pool's nodes: the pool's block overrides its cluster's."""
    return build_kubelet(Platform.NKS, cluster.get("kubelet"), pool.get("kubelet"))


def compute_capacity(
    vms: Iterable[PlacedVm],
    skus: Mapping[str, VmSku | None],
    kubelets: Mapping[str, KubeletConfiguration],
) -> dict[str, Any]:
    """Compute the total and the allocatable CPU and memory of the nodes, as quantities.

    The quantities are those of Kubernetes. `skus` (None: unknown) and `kubelets` are by name of the
    pool; nodes of unknown size count as nothing.
    """
    total: list[NodeSize] = []
    allocatable_sizes: list[NodeSize] = []
    for vm in vms:
        sku = skus[vm.pool]
        if sku is not None:
            total.append(vm_size(sku))
            allocatable_sizes.append(compute_allocatable(sku, kubelets[vm.pool]))
    return {"total": _sum_node_sizes(total), "allocatable": _sum_node_sizes(allocatable_sizes)}


def _sum_node_sizes(sizes: Sequence[NodeSize]) -> dict[str, str]:
    """Return the total CPU and memory as quantities of Kubernetes, whole GiB as such."""
    cpu = sum(size.cpu for size in sizes)  # in milli-CPUs
    memory = sum(size.memory for size in sizes)  # in bytes
    whole_gib, remaining_bytes = divmod(memory, GIB)
    memory_text = (
        str(build_quantity(memory, QuantityFormat.BINARY)) if remaining_bytes else f"{whole_gib}Gi"
    )
    return {"cpu": str(build_cpu_quantity(cpu)), "memory": memory_text}
