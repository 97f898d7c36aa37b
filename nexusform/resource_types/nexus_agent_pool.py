"""nexus_agent_pool: a pool added to an NKS cluster by its own resource."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem
from nexusform.interfaces.plugins import ResourceContext, ResourceType, UnplacedVms, VmHandlers
from nexusform.json_data.plain_data import get_mapping
from nexusform.placements.consequences import (
    LOSS_WITH_UNKNOWN_DATA,
    ConsequenceSeverity,
    ConsequenceTable,
    DataFate,
    Outcome,
)
from nexusform.placements.vm_demands import PlacedVm, VmDemand
from nexusform.resource_types.kubelet_block import check_kubelet
from nexusform.resource_types.nexus_kubernetes_cluster import build_vm_owner
from nexusform.resource_types.nks_pools import (
    MAXIMUM_NODES,
    NODES,
    POOL_ARGUMENTS,
    POOL_BLOCKS,
    POOL_PROPERTIES,
    add_node_labels,
    build_node_reader,
    build_nodes,
    build_pool_demand,
    check_pool_name,
    check_upgrade_settings,
    find_lost_taints,
    list_existing_vms,
    list_unplaced_nodes,
)
from nexusform.resource_types.shared_arguments import (
    build_id_attribute,
    build_id_builder,
    build_name_attribute,
    build_parent_attribute,
    build_required_argument,
    check_azure_block,
    check_skus,
    check_whole_numbers,
)
from nexusform.resources.address import Address
from nexusform.scheduling.racks.vms import CONTROL_PLANE
from nexusform.schemas.block_schema import BlockSchema
from nexusform.schemas.value_types import NUMBER

_SCHEMA: Final = BlockSchema(
    {
        "id": build_id_attribute("<cluster id>/<pool>"),
        "kubernetes_cluster_id": build_parent_attribute(
            "nexus_kubernetes_cluster", " that the pool belongs to"
        ),
        "name": build_name_attribute("pool"),
        "node_count": build_required_argument(
            NUMBER, "Number of nodes.", minimum=0, maximum=MAXIMUM_NODES
        ),
        **POOL_ARGUMENTS,
        "nodes": NODES,
    },
    POOL_BLOCKS,
    "A pool of worker nodes of an NKS cluster, as a separate resource.",
)
build_id: Final = build_id_builder("kubernetes_cluster_id", "name")


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Check the rules for a pool beyond its schema."""
    problems = check_whole_numbers(attributes, ("node_count", "sriov_vfs"))
    problems += check_upgrade_settings(attributes, path=())
    problems += check_kubelet(attributes.get("kubelet"), ("kubelet",))
    problems += check_azure_block(attributes, POOL_PROPERTIES, path=())
    if attributes.get("name") == CONTROL_PLANE:
        problems.append(
            Problem(
                ("name",),
                "invalid-agent-pool-name",
                f'"{CONTROL_PLANE}" is reserved for the control plane.',
            )
        )
    elif isinstance(attributes.get("name"), str):
        problems += check_pool_name(attributes["name"], ("name",))
    return problems


def compute_demand(
    attributes: Mapping[str, Any], context: ResourceContext, _address: Address
) -> tuple[VmDemand | None, list[Problem]]:
    """Return the demand for the pool's VMs, as VMs of its cluster.

    The demand is None if there are problems of its cluster, name or SKU.
    """
    cluster_id = str(attributes["kubernetes_cluster_id"])
    name = str(attributes["name"])
    cluster = context.find_cluster(cluster_id)
    if cluster is None:
        detail = (
            f'No cluster has the id "{cluster_id}". Refer to the cluster, for example '
            "nexus_kubernetes_cluster.NAME.id, or use the id of a declared one: <site>/<cluster>."
        )
        return None, [Problem(("kubernetes_cluster_id",), "unknown-cluster", detail)]
    if name in get_mapping(cluster, "agent_pool"):
        detail = (
            f'The cluster "{cluster_id}" has an agent_pool block "{name}" already. Rename or '
            "remove one of them."
        )
        return None, [Problem(("name",), "duplicate-agent-pool", detail)]
    cluster_name = str(cluster["name"])
    count = int(attributes["node_count"])
    pool, problems = build_pool_demand(
        cluster_name, name, count, attributes, path=(), context=context
    )
    if pool is None:
        return None, problems
    demand = VmDemand(
        site_id=str(cluster["site_id"]),
        owner=build_vm_owner(cluster),
        cluster=cluster_name,
        pools=(pool,),
        version=cluster.get("kubernetes_version"),
        parent_id=cluster_id,
    )
    return demand, []


def build_computed_attributes(
    attributes: Mapping[str, Any],
    _context: ResourceContext,
    vms: Sequence[PlacedVm],
    unplaced: UnplacedVms,
) -> dict[str, Any]:
    """Return the attribute `nodes`, also with the `unplaced` ones, without a machine."""
    return {
        "nodes": build_nodes(vms, unplaced, {str(attributes["name"]): attributes["vm_sku_name"]})
    }


def find_unknown_skus(attributes: Mapping[str, Any], known_skus: Collection[str]) -> list[Problem]:
    """Return the problem of an unknown VM SKU of the pool."""
    return check_skus([(("vm_sku_name",), attributes.get("vm_sku_name"))], known_skus)


def build_displayed_value(attributes: Mapping[str, Any], name: str) -> Any:
    """Return an attribute as seen by expressions: `nodes` with their labels, others as stored."""
    value = attributes.get(name)
    if name != "nodes" or not isinstance(value, Mapping):
        return value  # as stored
    return add_node_labels(value, _get_single_pool_by_name(attributes), cluster={})


def _get_single_pool_by_name(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    return {str(attributes["name"]): attributes}


NEXUS_AGENT_POOL: Final = ResourceType(
    "nexus_agent_pool",
    4,
    _SCHEMA,
    build_id,
    check=check,
    vms=VmHandlers(
        compute_demand,
        list_existing_vms,
        build_computed_attributes,
        find_unknown_skus,
        build_node_reader(_get_single_pool_by_name),
        list_unplaced_nodes,
    ),
    present=build_displayed_value,
    # All nodes of a replaced pool are re-created.
    consequences=ConsequenceTable(
        delete=LOSS_WITH_UNKNOWN_DATA,
        replace=Outcome(ConsequenceSeverity.TEMPORARY, DataFate.UNKNOWN),
        find_weakening=lambda change: find_lost_taints(change.before, change.after),
    ),
)
