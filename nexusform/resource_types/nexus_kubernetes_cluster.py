"""nexus_kubernetes_cluster: an NKS cluster, its control plane and its agent pools."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from nexusform.address import Address
from nexusform.demands import PlacedVm, PoolDemand, VmDemand
from nexusform.diagnostics import Problem
from nexusform.plain_data import Path
from nexusform.ports import Kind, ResourceType, Surroundings, Unplaced, VmFamily
from nexusform.resource_types.kubelet import KUBELET_BLOCK, kubelet_problems
from nexusform.resource_types.nks_pools import (
    MOST_NODES,
    NODES,
    POOL_ARGUMENTS,
    POOL_BLOCKS,
    POOL_SAYS,
    SKU,
    ZONES,
    capacity,
    node_kubelet,
    node_reader,
    nodes_of,
    pool_demand,
    pool_name_problems,
    standing_nodes,
    unplaced_nodes,
    upgrade_problems,
    with_labels,
)
from nexusform.resource_types.shared_arguments import (
    AZURE_BLOCK,
    azure_problems,
    even_control_plane,
    id_attribute,
    joined_id,
    name_attribute,
    parent_attribute,
    unknown_skus,
    whole_number_problems,
)
from nexusform.scheduling.racks.vms import CONTROL_PLANE
from nexusform.schema import Attribute, BlockSchema, NestedBlock, Nesting, OnChange, order_attribute
from nexusform.value_types import NUMBER, STRING, ListType, ObjectType

_AMOUNTS: Final = ObjectType.of({"cpu": STRING, "memory": STRING})
CAPACITY: Final = ObjectType.of({"total": _AMOUNTS, "allocatable": _AMOUNTS})

_SCHEMA: Final = BlockSchema(
    {
        "id": id_attribute("<site>/<cluster>"),
        "site_id": parent_attribute("nexus_site"),
        "name": name_attribute("cluster"),
        "kubernetes_version": Attribute(
            STRING,
            "Kubernetes version. A change re-places all VMs in a rolling upgrade.",
            optional=True,
            decides_placement=True,
        ),
        "hardware_label_keys": Attribute(
            ListType(STRING),
            "Extra label keys with the machine's name on every worker.",
            optional=True,
            default=[],
        ),
        "nodes": NODES,
        "node_count": Attribute(NUMBER, "Nodes, control plane included.", computed=True),
        "capacity": Attribute(CAPACITY, "vCPUs and memory of all nodes.", computed=True, predicted=True),
    },
    {
        "control_plane": NestedBlock(
            BlockSchema(
                {
                    "count": Attribute(
                        NUMBER,
                        "Number of nodes.",
                        required=True,
                        minimum=1,
                        maximum=MOST_NODES,
                        decides_placement=True,
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
                    "count": Attribute(
                        NUMBER,
                        "Number of nodes.",
                        required=True,
                        minimum=0,
                        maximum=MOST_NODES,
                        decides_placement=True,
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


# What of a cluster's body its arguments say.
_SAYS: Final = frozenset(
    {"kubernetesVersion", "controlPlaneNodeConfiguration", "initialAgentPoolConfigurations"}
)


def identify(attributes: Mapping[str, Any]) -> str:
    """The id: `<site>/<cluster>`."""
    return joined_id(attributes.get("site_id"), attributes.get("name"))


def owner_of(attributes: Mapping[str, Any]) -> str:
    """Under which owner the cluster's VMs count."""
    return f"nks:{identify(attributes)}"


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Everything about a cluster that its schema cannot say."""
    problems: list[Problem] = []
    plane = attributes.get("control_plane")
    if isinstance(plane, dict):
        problems += whole_number_problems(plane, ("count",), ("control_plane",))
        problems += even_control_plane(plane.get("count"), ("control_plane", "count"))
    problems += kubelet_problems(attributes.get("kubelet"), ("kubelet",))
    problems += azure_problems(attributes, _SAYS, ())
    pools = attributes.get("agent_pool")
    for name, pool in pools.items() if isinstance(pools, dict) else ():
        path = ("agent_pool", name)
        problems += whole_number_problems(pool, ("count", "sriov_vfs"), path)
        problems += upgrade_problems(pool, path)
        problems += kubelet_problems(pool.get("kubelet"), (*path, "kubelet"))
        problems += azure_problems(pool, POOL_SAYS, path)
        if name == CONTROL_PLANE or "|" in name or "/" in name or not name:
            problems.append(
                Problem(
                    path,
                    "invalid-agent-pool-name",
                    f'"{name}" cannot be the name of an agent pool: it must not be empty or '
                    f'"{CONTROL_PLANE}", nor hold "|" or "/".',
                )
            )
        else:
            problems += pool_name_problems(name, path)
    counts = [pool.get("count") for pool in pools.values()] if isinstance(pools, dict) else []
    nodes = sum(count for count in counts if isinstance(count, int))
    if nodes > MOST_NODES:
        detail = f"A cluster has at most {MOST_NODES} nodes; the pools of this one have {nodes}."
        problems.append(Problem(("agent_pool",), "invalid-value-for-argument", detail))
    return problems


def pool_order(attributes: Mapping[str, Any]) -> list[str]:
    """The agent pools in source order."""
    pools = attributes.get("agent_pool") or {}
    order = attributes.get(order_attribute("agent_pool")) or sorted(pools)
    return [name for name in order if name in pools]


def demand(
    attributes: Mapping[str, Any], surroundings: Surroundings, _address: Address
) -> tuple[VmDemand | None, list[Problem]]:
    """The control plane, then the pools in source order."""
    cluster = str(attributes["name"])
    problems: list[Problem] = []
    demands: list[PoolDemand] = []
    pools = attributes.get("agent_pool") or {}
    pool_blocks: list[tuple[str, Any, Path]] = [
        (CONTROL_PLANE, attributes["control_plane"], ("control_plane",))
    ]
    pool_blocks += [(name, pools[name], ("agent_pool", name)) for name in pool_order(attributes)]
    for name, values, path in pool_blocks:
        pool, more = pool_demand(cluster, name, int(values["count"]), values, path, surroundings)
        problems += more
        if pool is not None:
            demands.append(pool)
    if problems:
        return None, problems
    version = attributes.get("kubernetes_version")
    return VmDemand(
        site_id=str(attributes["site_id"]),
        owner=owner_of(attributes),
        cluster=cluster,
        pools=tuple(demands),
        version=version,
    ), []


def assemble(
    attributes: Mapping[str, Any],
    surroundings: Surroundings,
    placed: Sequence[PlacedVm],
    unplaced: Unplaced,
) -> dict[str, Any]:
    """`nodes`, `node_count` and `capacity`."""
    pools = _pools(attributes)
    names = {CONTROL_PLANE: attributes["control_plane"]["vm_sku_name"]}
    names |= {pool: values["vm_sku_name"] for pool, values in pools.items()}
    skus = {pool: surroundings.sku(name) for pool, name in names.items()}
    kubelets = {pool: node_kubelet(pools.get(pool, {}), attributes) for pool in names}
    nodes = nodes_of(placed, unplaced, names)
    return {
        "nodes": nodes,
        "node_count": len(nodes),
        "capacity": capacity(placed, skus, kubelets),
    }


def _pools(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    return attributes.get("agent_pool") or {}


def wrong_skus(attributes: Mapping[str, Any], known: Collection[str]) -> list[Problem]:
    """The VM SKUs of the control plane and the pools that nobody knows."""
    plane, pools = attributes.get("control_plane"), attributes.get("agent_pool")
    named: list[tuple[Path, Any]] = []
    if isinstance(plane, dict):
        named.append((("control_plane", "vm_sku_name"), plane.get("vm_sku_name")))
    for name, pool in pools.items() if isinstance(pools, dict) else ():
        named.append((("agent_pool", name, "vm_sku_name"), pool.get("vm_sku_name")))
    return unknown_skus(named, known)


def present(attributes: Mapping[str, Any], name: str) -> Any:
    """Nodes are read with their labels."""
    value = attributes.get(name)
    if name != "nodes" or not isinstance(value, Mapping):
        return value
    return with_labels(value, _pools(attributes), attributes)


NEXUS_KUBERNETES_CLUSTER: Final = ResourceType(
    "nexus_kubernetes_cluster",
    4,
    _SCHEMA,
    identify,
    check=check,
    vms=VmFamily(demand, standing_nodes, assemble, wrong_skus, node_reader(_pools), unplaced_nodes),
    present=present,
    kind=Kind.CLUSTER,
)
