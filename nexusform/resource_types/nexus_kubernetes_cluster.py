"""nexus_kubernetes_cluster: an NKS cluster, its control plane and its agent pools."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem
from nexusform.diagnostics.phrases import enclose, join_texts
from nexusform.interfaces.plugins import (
    PlanningKind,
    ResourceContext,
    ResourceType,
    UnplacedVms,
    VmHandlers,
)
from nexusform.json_data.plain_data import Path, get_mapping
from nexusform.placements.consequences import LOSS_WITH_UNKNOWN_DATA, ConsequenceTable, ObjectChange
from nexusform.placements.vm_demands import PlacedVm, PoolDemand, VmDemand
from nexusform.resource_types.kubelet_block import KUBELET_BLOCK, check_kubelet
from nexusform.resource_types.nks_pools import (
    MAXIMUM_NODES,
    NODES,
    POOL_ARGUMENTS,
    POOL_BLOCKS,
    POOL_PROPERTIES,
    SKU,
    ZONES,
    add_node_labels,
    build_node_kubelet,
    build_node_reader,
    build_nodes,
    build_pool_demand,
    check_control_plane_sku,
    check_pool_name,
    check_upgrade_settings,
    compute_capacity,
    find_lost_taints,
    list_existing_vms,
    list_unplaced_nodes,
)
from nexusform.resource_types.shared_arguments import (
    AZURE_BLOCK,
    build_id_attribute,
    build_id_builder,
    build_name_attribute,
    build_optional_argument,
    build_parent_attribute,
    build_required_argument,
    check_azure_block,
    check_even_control_plane,
    check_skus,
    check_whole_numbers,
    get_known_blocks,
    is_set_and_known,
)
from nexusform.resources.address import Address
from nexusform.scheduling.racks.vms import CONTROL_PLANE
from nexusform.schemas.block_schema import (
    AttributeSchema,
    BlockSchema,
    NestedBlock,
    Nesting,
    OnChange,
    get_order_attribute,
)
from nexusform.schemas.value_types import NUMBER, STRING, ListType, ObjectType

_AMOUNTS: Final = ObjectType.create({"cpu": STRING, "memory": STRING})
CAPACITY: Final = ObjectType.create({"total": _AMOUNTS, "allocatable": _AMOUNTS})

_SCHEMA: Final = BlockSchema(
    {
        "id": build_id_attribute("<site>/<cluster>"),
        "site_id": build_parent_attribute("nexus_site"),
        "name": build_name_attribute("cluster"),
        "kubernetes_version": build_optional_argument(
            STRING, "Kubernetes version. A change re-places all VMs in a rolling upgrade."
        ),
        "hardware_label_keys": AttributeSchema(
            ListType(STRING),
            "Extra label keys with the machine's name on every worker.",
            optional=True,
            default=[],
        ),
        "nodes": NODES,
        "node_count": AttributeSchema(NUMBER, "Nodes, control plane included.", computed=True),
        "capacity": AttributeSchema(
            CAPACITY, "vCPUs and memory of all nodes.", computed=True, predicted=True
        ),
    },
    {
        "control_plane": NestedBlock(
            BlockSchema(
                {
                    "count": build_required_argument(
                        NUMBER, "Number of nodes.", minimum=1, maximum=MAXIMUM_NODES
                    ),
                    "vm_sku_name": replace(SKU, on_change=OnChange.REPLACE),
                    "availability_zones": replace(ZONES, on_change=OnChange.REPLACE),
                }
            ),
            Nesting.SINGLE,
            "The control plane.",
            min_items=1,
            max_items=1,
        ),
        "agent_pool": NestedBlock(
            BlockSchema(
                {
                    "count": build_required_argument(
                        NUMBER, "Number of nodes.", minimum=0, maximum=MAXIMUM_NODES
                    ),
                    **POOL_ARGUMENTS,
                },
                POOL_BLOCKS,
            ),
            Nesting.MAP,
            "A pool of worker nodes. Pools are placed in block order.",
            label="name",
        ),
        "kubelet": KUBELET_BLOCK,
        "azure": AZURE_BLOCK,
    },
    "An NKS cluster with VMs of the site as nodes.",
)
build_id: Final = build_id_builder("site_id", "name")
# Properties of a cluster's body set by its arguments.
_ARGUMENT_PROPERTIES: Final = frozenset(
    {"kubernetesVersion", "controlPlaneNodeConfiguration", "initialAgentPoolConfigurations"}
)


def build_vm_owner(attributes: Mapping[str, Any]) -> str:
    """Return the name of the cluster as the owner of VMs in the scheduler.

    Its form is `nks:<site>/<cluster>`.
    """
    return f"nks:{build_id(attributes)}"


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Check the rules for a cluster beyond its schema."""
    problems: list[Problem] = []
    version = attributes.get("kubernetes_version")
    if is_set_and_known(version):
        from nexusform.kubernetes.releases.kubernetes_versions import parse_version

        if parse_version(str(version)) is None:
            detail = (
                f'"{version}" is not a Kubernetes version. Write one such as "1.30.3", or remove '
                "the line."
            )
            problems.append(Problem(("kubernetes_version",), "invalid-kubernetes-version", detail))
    plane = get_known_blocks(attributes, "control_plane")
    problems += check_whole_numbers(plane, ("count",), ("control_plane",))
    problems += check_even_control_plane(plane.get("count"), ("control_plane", "count"))
    problems += check_kubelet(attributes.get("kubelet"), ("kubelet",))
    problems += check_azure_block(attributes, _ARGUMENT_PROPERTIES, path=())
    pools = get_known_blocks(attributes, "agent_pool")
    for name, pool in pools.items():
        path = ("agent_pool", name)
        problems += check_whole_numbers(pool, ("count", "sriov_vfs"), path)
        problems += check_upgrade_settings(pool, path)
        problems += check_kubelet(pool.get("kubelet"), (*path, "kubelet"))
        problems += check_azure_block(pool, POOL_PROPERTIES, path)
        if name == CONTROL_PLANE or "|" in name or "/" in name or not name:
            detail = (
                f'"{name}" cannot be the name of an agent pool: it must not be empty or '
                f'"{CONTROL_PLANE}", nor hold "|" or "/".'
            )
            problems.append(Problem(path, "invalid-agent-pool-name", detail))
        else:
            problems += check_pool_name(name, path)
    counts = [pool.get("count") for pool in pools.values()]
    nodes = sum(count for count in counts if isinstance(count, int))
    if nodes > MAXIMUM_NODES:
        detail = f"A cluster has at most {MAXIMUM_NODES} nodes; the pools of this one have {nodes}."
        problems.append(Problem(("agent_pool",), "invalid-value-for-argument", detail))
    return problems


def list_pools(attributes: Mapping[str, Any]) -> list[str]:
    """Return the agent pools in source order."""
    pools = get_mapping(attributes, "agent_pool")
    order = attributes.get(get_order_attribute("agent_pool")) or sorted(pools)
    return [name for name in order if name in pools]


def compute_demand(
    attributes: Mapping[str, Any], context: ResourceContext, _address: Address
) -> tuple[VmDemand | None, list[Problem]]:
    """Return the demand of the control plane, then of the pools in source order.

    Return None if there are problems.
    """
    cluster = str(attributes["name"])
    problems: list[Problem] = []
    demands: list[PoolDemand] = []
    pools = get_mapping(attributes, "agent_pool")
    pool_blocks: list[tuple[str, Any, Path]] = [
        (CONTROL_PLANE, attributes["control_plane"], ("control_plane",))
    ]
    pool_blocks += [(name, pools[name], ("agent_pool", name)) for name in list_pools(attributes)]
    for name, values, path in pool_blocks:
        pool, pool_problems = build_pool_demand(
            cluster, name, int(values["count"]), values, path, context
        )
        problems += pool_problems
        if pool is not None:
            demands.append(pool)
    if problems:
        return None, problems
    return VmDemand(
        site_id=str(attributes["site_id"]),
        owner=build_vm_owner(attributes),
        cluster=cluster,
        pools=tuple(demands),
        version=attributes.get("kubernetes_version"),
    ), []


def build_computed_attributes(
    attributes: Mapping[str, Any],
    context: ResourceContext,
    vms: Sequence[PlacedVm],
    unplaced: UnplacedVms,
) -> dict[str, Any]:
    """Return `nodes` (also the `unplaced` ones, without a machine), `node_count` and `capacity`."""
    pools = _get_pools(attributes)
    sku_names = {CONTROL_PLANE: attributes["control_plane"]["vm_sku_name"]}
    sku_names |= {pool: values["vm_sku_name"] for pool, values in pools.items()}
    skus = {pool: context.find_sku(name) for pool, name in sku_names.items()}
    kubelets = {pool: build_node_kubelet(pools.get(pool, {}), attributes) for pool in sku_names}
    nodes = build_nodes(vms, unplaced, sku_names)
    return {
        "nodes": nodes,
        "node_count": len(nodes),
        "capacity": compute_capacity(vms, skus, kubelets),
    }


def _get_pools(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    return get_mapping(attributes, "agent_pool")


def _find_weaker_pools(change: ObjectChange) -> str:
    """Return `loses taint dedicated=upf:NoSchedule, so other pods may come to pool p`; or ""."""
    pools = _get_pools(change.after)
    endings = [
        enclose("", find_lost_taints(pool, pools[name]), f" to pool {name}")
        for name, pool in _get_pools(change.before).items()
        if name in pools
    ]
    return join_texts(endings, "; ")


def find_unsuitable_skus(
    attributes: Mapping[str, Any], numa_cells: Mapping[str, int]
) -> list[Problem]:
    """Return the problems of unknown VM SKUs, and of one that no control plane can have."""
    plane_sku = get_known_blocks(attributes, "control_plane").get("vm_sku_name")
    sku_names: list[tuple[Path, Any]] = [(("control_plane", "vm_sku_name"), plane_sku)]
    for name, pool in get_known_blocks(attributes, "agent_pool").items():
        sku_names.append((("agent_pool", name, "vm_sku_name"), pool.get("vm_sku_name")))
    problems = check_skus(sku_names, numa_cells)
    if isinstance(plane_sku, str):
        problems += check_control_plane_sku(
            plane_sku, numa_cells.get(plane_sku, 1), ("control_plane",)
        )
    return problems


def build_displayed_value(attributes: Mapping[str, Any], name: str) -> Any:
    """Return an attribute as seen by expressions: `nodes` with their labels, others as stored."""
    value = attributes.get(name)
    if name != "nodes" or not isinstance(value, Mapping):
        return value  # as stored
    return add_node_labels(value, _get_pools(attributes), attributes)


def keep_version(
    attributes: Mapping[str, Any], prior: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Problem]]:
    """Return `{"kubernetes_version": RUNNING}` if the cluster keeps its version.

    Return {} if another one is requested or it is unknown. It keeps 1.30.3 for no request, for
    `v1.30.3`, and for the less exact `1.30`.
    """
    running = prior.get("kubernetes_version")
    requested = attributes.get("kubernetes_version")
    if not isinstance(running, str) or not running:
        # No version is recorded.
        return {}, []
    if requested is None:
        return {"kubernetes_version": running}, []
    if not isinstance(requested, str):
        # Unknown in this plan.
        return {}, []
    from nexusform.kubernetes.releases.kubernetes_versions import (
        VersionStep,
        determine_upgrade_kind,
        parse_version,
    )

    start = parse_version(running)
    end = parse_version(requested)
    if start is None or end is None:
        # An invalid version.
        return {}, []
    if determine_upgrade_kind(start, end) is not VersionStep.NONE:
        return {}, []  # another version
    return {"kubernetes_version": running}, []


NEXUS_KUBERNETES_CLUSTER: Final = ResourceType(
    "nexus_kubernetes_cluster",
    4,
    _SCHEMA,
    build_id,
    check=check,
    adjust=keep_version,
    vms=VmHandlers(
        compute_demand,
        list_existing_vms,
        build_computed_attributes,
        find_unsuitable_skus,
        build_node_reader(_get_pools),
        list_unplaced_nodes,
    ),
    present=build_displayed_value,
    kind=PlanningKind.CLUSTER,
    # Volumes of the platform may outlive their cluster.
    consequences=ConsequenceTable(
        delete=LOSS_WITH_UNKNOWN_DATA,
        replace=LOSS_WITH_UNKNOWN_DATA,
        find_weakening=_find_weaker_pools,
    ),
)
