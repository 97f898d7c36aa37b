"""nexus_agent_pool: a pool added to an NKS cluster by its own resource."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from nexusform.address import Address
from nexusform.demands import PlacedVm, VmDemand
from nexusform.diagnostics import Problem
from nexusform.ports import ResourceType, Surroundings, Unplaced, VmFamily
from nexusform.resource_types.kubelet import kubelet_problems
from nexusform.resource_types.nexus_kubernetes_cluster import owner_of
from nexusform.resource_types.nks_pools import (
    MOST_NODES,
    NODES,
    POOL_ARGUMENTS,
    POOL_BLOCKS,
    POOL_SAYS,
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
    azure_problems,
    id_attribute,
    joined_id,
    name_attribute,
    parent_attribute,
    unknown_skus,
    whole_number_problems,
)
from nexusform.scheduling.racks.vms import CONTROL_PLANE
from nexusform.schema import Attribute, BlockSchema
from nexusform.value_types import NUMBER

_SCHEMA: Final = BlockSchema(
    {
        "id": id_attribute("<cluster id>/<pool>"),
        "kubernetes_cluster_id": parent_attribute("nexus_kubernetes_cluster", " that the pool belongs to"),
        "name": name_attribute("pool"),
        "node_count": Attribute(
            NUMBER,
            "Number of nodes.",
            required=True,
            minimum=0,
            maximum=MOST_NODES,
            decides_placement=True,
        ),
        **POOL_ARGUMENTS,
        "nodes": NODES,
    },
    POOL_BLOCKS,
    "A pool of worker nodes of an NKS cluster, as a separate resource.",
)


def identify(attributes: Mapping[str, Any]) -> str:
    """The id: `<cluster id>/<pool>`."""
    return joined_id(attributes.get("kubernetes_cluster_id"), attributes.get("name"))


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Everything about a pool that its schema cannot say."""
    problems = whole_number_problems(attributes, ("node_count", "sriov_vfs"))
    problems += upgrade_problems(attributes, ())
    problems += kubelet_problems(attributes.get("kubelet"), ("kubelet",))
    problems += azure_problems(attributes, POOL_SAYS, ())
    if attributes.get("name") == CONTROL_PLANE:
        problems.append(
            Problem(
                ("name",), "invalid-agent-pool-name", f'"{CONTROL_PLANE}" is reserved for the control plane.'
            )
        )
    elif isinstance(attributes.get("name"), str):
        problems += pool_name_problems(attributes["name"], ("name",))
    return problems


def demand(
    attributes: Mapping[str, Any], surroundings: Surroundings, _address: Address
) -> tuple[VmDemand | None, list[Problem]]:
    """The pool's VMs, counted as the cluster's."""
    cluster_id, name = str(attributes["kubernetes_cluster_id"]), str(attributes["name"])
    cluster = surroundings.cluster(cluster_id)
    if cluster is None:
        return None, [
            Problem(
                ("kubernetes_cluster_id",),
                "unknown-cluster",
                f'No cluster has the id "{cluster_id}". Refer to the cluster, for example '
                "nexus_kubernetes_cluster.NAME.id, or write the id of one that is declared: "
                "<site>/<cluster>.",
            )
        ]
    if name in (cluster.get("agent_pool") or {}):
        return None, [
            Problem(
                ("name",),
                "duplicate-agent-pool",
                f'The cluster "{cluster_id}" has an agent_pool block "{name}" already. Give one of the two '
                "another name, or remove it.",
            )
        ]
    pool, problems = pool_demand(
        str(cluster["name"]), name, int(attributes["node_count"]), attributes, (), surroundings
    )
    if pool is None:
        return None, problems
    version = cluster.get("kubernetes_version")
    return (
        VmDemand(
            site_id=str(cluster["site_id"]),
            owner=owner_of(cluster),
            cluster=str(cluster["name"]),
            pools=(pool,),
            version=version,
            parent_id=cluster_id,
        ),
        [],
    )


def assemble(
    attributes: Mapping[str, Any],
    _surroundings: Surroundings,
    placed: Sequence[PlacedVm],
    unplaced: Unplaced,
) -> dict[str, Any]:
    """`nodes`."""
    nodes = nodes_of(placed, unplaced, {str(attributes["name"]): attributes["vm_sku_name"]})
    return {"nodes": nodes}


def wrong_skus(attributes: Mapping[str, Any], known: Collection[str]) -> list[Problem]:
    """The VM SKU of the pool when nobody knows it."""
    return unknown_skus([(("vm_sku_name",), attributes.get("vm_sku_name"))], known)


def present(attributes: Mapping[str, Any], name: str) -> Any:
    """Nodes are read with their labels; hardware_label_keys belong to the cluster."""
    value = attributes.get(name)
    if name != "nodes" or not isinstance(value, Mapping):
        return value
    return with_labels(value, _pools(attributes), {})


def _pools(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    return {str(attributes["name"]): attributes}


NEXUS_AGENT_POOL: Final = ResourceType(
    "nexus_agent_pool",
    4,
    _SCHEMA,
    identify,
    check=check,
    vms=VmFamily(demand, standing_nodes, assemble, wrong_skus, node_reader(_pools), unplaced_nodes),
    present=present,
)
