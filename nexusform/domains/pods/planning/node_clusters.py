"""Clusters with their nodes, one record each, built from existing VMs for pods and fleets."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from nexusform.diagnostics.phrases import group_by
from nexusform.domains.pods.importers.live_workloads import LiveWorkload
from nexusform.domains.pods.scheduling.cluster_records import Node
from nexusform.domains.pods.scheduling.kubelet_admission import compute_cells
from nexusform.domains.pods.scheduling.scheduler_versions import parse_version
from nexusform.interfaces.plugins import PlanningKind, PluginRegistries, ResourceType
from nexusform.json_data.plain_data import get_text
from nexusform.placements.node_properties import CONTROL_PLANE_TAINT, NodeProperties
from nexusform.placements.vm_demands import PlacedVm, PoolDemand, VmDemand
from nexusform.planning.vm_planning.site_plans import SiteObject, build_site_layout
from nexusform.planning.vm_planning.vm_object import VmKey, VmObject
from nexusform.scheduling.kubelet import (
    MAX_CELLS,
    REJECTING_POLICIES,
    NodeSize,
    collect_extended_resources,
    compute_allocatable,
    compute_capacity,
    list_registered_labels,
    list_reserved_cpus,
)
from nexusform.scheduling.racks.vms import DEFAULT_SEED, Placement, VmSku

# Ordered: if a VNF has the id of an NKS cluster, the NKS cluster is used.
_KINDS: Final = ("nks", "vnf")


class NodeCluster(Struct, frozen=True):
    """Cluster with known nodes.

    `skus` are those of its nodes in order, `total_size` the sum of their registered sizes.
    `recreated_nodes` are re-created in this plan under their old names, `new_nodes` are created
    and not observed: pods of state on either are lost. `pools` are the agent pools of its nodes in
    order, () if not known; `empty_pools` has a possible node of each pool without nodes. `seed` is
    the tie-break seed of its site. `platform_names` maps the platform's VM names to ours.
    `version` is the Kubernetes version, major and minor, () if unknown. `live_workloads` are its
    observed controllers by key. With `has_chosen_removals` the platform chooses which nodes a
    smaller pool loses.
    """

    id: str
    name: str
    site_id: str
    nodes: tuple[Node, ...]
    skus: tuple[VmSku, ...] = ()
    total_size: NodeSize = NodeSize(0, 0)
    recreated_nodes: frozenset[str] = frozenset()
    new_nodes: frozenset[str] = frozenset()
    seed: int = DEFAULT_SEED
    node_by_name: Mapping[str, Node] = field(default_factory=dict)
    platform_names: Mapping[str, str] = field(default_factory=dict)
    version: tuple[int, ...] = ()
    pools: tuple[str, ...] = ()
    empty_pools: Mapping[str, Node] = field(default_factory=dict)
    live_workloads: Mapping[str, LiveWorkload] = field(default_factory=dict)
    has_chosen_removals: bool = False

    def find_place(self, name: str) -> tuple[str | None, str | None, str | None]:
        """Return name, machine and zone of a node; each is None without a node of this name."""
        node = self.node_by_name.get(name)
        return (node.name, node.machine, node.zone) if node is not None else (None, None, None)


def build_planned_clusters(objects: Iterable[VmObject]) -> dict[str, NodeCluster]:
    """Return the clusters of a plan by id: NKS clusters with their separate pools, and VNFs."""
    parts: list[_ClusterPart] = []
    for vm_object in objects:
        request = vm_object.request
        attributes = vm_object.instance.planned
        if not request.demand.site_id or vm_object.instance.is_removed or not attributes:
            # No nodes of a cluster after this plan.
            continue
        seed = request.site.scheduler.seed if request.site is not None else DEFAULT_SEED
        vms = tuple(vm_object.list_placed_vms())
        recreated_vms = frozenset(request.actions.recreations)
        new_vms = frozenset(request.actions.additions)
        kind = vm_object.instance.type
        parts.append(
            _ClusterPart(
                kind,
                attributes,
                request.demand,
                vms,
                recreated_vms,
                new_vms,
                seed,
                has_chosen_removals=bool(vm_object.list_chosen_removals()),
            )
        )
    return _build_clusters(parts)


def build_existing_clusters(
    objects: Iterable[SiteObject], registries: PluginRegistries, catalogue: str
) -> dict[str, NodeCluster]:
    """Return the clusters of another state by id, built from its `objects`.

    `catalogue` is the version of its SKUs.
    """
    context = build_site_layout(objects, registries, catalogue)
    parts: list[_ClusterPart] = []
    for kind, state_object in sorted(context.objects, key=lambda pair: pair[0].phase):
        if kind.vms is None:
            # Objects of this kind have no VMs.
            continue
        demand, _ = kind.vms.build_demand(
            state_object.attributes, context.context, state_object.address
        )
        if demand is None:
            # Its attributes are incomplete.
            continue
        site = context.sites.get(demand.site_id)
        seed = site.scheduler.seed if site is not None else DEFAULT_SEED
        vm_by_key = {
            (vm.pool, vm.number): vm for vm in kind.vms.list_existing_vms(state_object.attributes)
        }
        # The requested VMs among the existing ones, pool by pool.
        vms: list[PlacedVm] = []
        for pool in demand.pools:
            for number in pool.numbers:
                vm = vm_by_key.get((pool.pool, number))
                if vm is not None:
                    vms.append(vm)
        parts.append(_ClusterPart(kind, state_object.attributes, demand, tuple(vms), seed=seed))
    return _build_clusters(parts)


class _ClusterPart(Struct, frozen=True):
    # Contribution of one object to its cluster: its VMs, the re-created and the new
    # ones among them.
    type: ResourceType
    attributes: Mapping[str, Any]
    demand: VmDemand
    vms: tuple[PlacedVm, ...]
    recreated_vms: frozenset[VmKey] = frozenset()
    new_vms: frozenset[VmKey] = frozenset()
    seed: int = DEFAULT_SEED
    has_chosen_removals: bool = False


def _build_clusters(parts: Iterable[_ClusterPart]) -> dict[str, NodeCluster]:
    """Return the clusters by id from their parts.

    VMs of neither an NKS cluster nor a VNF have no cluster.
    """
    by_owner = group_by(parts, lambda part: part.demand.owner)
    clusters: dict[str, NodeCluster] = {}
    for owner in sorted(by_owner):
        kind, _, cluster_id = owner.partition(":")
        # An NKS cluster precedes a VNF of the same id.
        if kind in _KINDS and cluster_id not in clusters:
            clusters[cluster_id] = _build_cluster(cluster_id, by_owner[owner])
    return clusters


def _build_cluster(cluster_id: str, parts: list[_ClusterPart]) -> NodeCluster:
    """Return the cluster of a VNF, or of an NKS cluster and its separate pools.

    `parts` are the objects with its VMs. A pool without VMs gets a node without a machine in
    `empty_pools`: predictions copy it as an additional node.
    """
    first_part = parts[0]
    attributes = find_cluster_attributes((part.type.kind, part.attributes) for part in parts)
    nodes: list[Node] = []
    skus: list[VmSku] = []
    pool_names: list[str] = []
    recreated_nodes: set[str] = set()
    new_nodes: set[str] = set()
    # VM names by the names of their nodes on the platform.
    platform_names: dict[str, str] = {}
    # A possible node for each.
    empty_pools: dict[str, Node] = {}
    for part in parts:
        pools = {pool.pool: pool for pool in part.demand.pools}
        used_pools = {vm.pool for vm in part.vms}
        for name in sorted(pools.keys() - used_pools):
            no_location = Placement("", "", "", ())
            possible_vm = PlacedVm(
                name, 0, f"{cluster_id}-{name}", pools[name].sku.name, no_location
            )
            empty_pools[name] = _build_object_node(part, possible_vm, pools[name], attributes)
        for vm in part.vms:
            nodes.append(_build_object_node(part, vm, pools[vm.pool], attributes))
            skus.append(pools[vm.pool].sku)
            pool_names.append(vm.pool)
            if (vm.pool, vm.number) in part.recreated_vms:
                recreated_nodes.add(vm.name)
            elif (vm.pool, vm.number) in part.new_vms:
                new_nodes.add(vm.name)
            if vm.platform_name:
                platform_names[vm.platform_name] = vm.name
    return NodeCluster(
        id=cluster_id,
        name=first_part.demand.cluster,
        site_id=first_part.demand.site_id,
        nodes=tuple(nodes),
        skus=tuple(skus),
        total_size=sum_node_sizes(map(compute_capacity, skus)),
        recreated_nodes=frozenset(recreated_nodes),
        new_nodes=frozenset(new_nodes),
        seed=first_part.seed,
        node_by_name={node.name: node for node in nodes},
        platform_names=platform_names,
        version=parse_version(get_text(attributes, "kubernetes_version")),
        pools=tuple(pool_names),
        empty_pools=dict(sorted(empty_pools.items())),
        has_chosen_removals=any(part.has_chosen_removals for part in parts),
    )


def find_cluster_attributes(
    parts: Iterable[tuple[PlanningKind, Mapping[str, Any]]],
) -> Mapping[str, Any] | None:
    """Return the attributes of the object of kind CLUSTER; None without one, as in a VNF."""
    return next((attributes for kind, attributes in parts if kind is PlanningKind.CLUSTER), None)


def sum_node_sizes(sizes: Iterable[NodeSize]) -> NodeSize:
    """Return the total CPU and memory of several nodes, without their other resources."""
    cpu = memory = 0
    for size in sizes:
        cpu = cpu + size.cpu
        memory = memory + size.memory
    return NodeSize(cpu, memory)


def _build_object_node(
    part: _ClusterPart, vm: PlacedVm, pool: PoolDemand, cluster: Mapping[str, Any] | None
) -> Node:
    """Return the node of a part's VM.

    `cluster` are the attributes of its cluster, None for a VNF.
    """
    family = part.type.vms
    assert family is not None, "only clusters and VNFs have nodes"
    cluster_attributes = part.attributes if cluster is None else cluster
    return build_node(vm, pool.sku, family.describe_node(part.attributes, vm, cluster_attributes))


def build_node(vm: PlacedVm, sku: VmSku, properties: NodeProperties) -> Node:
    """Return the node of a VM.

    `properties` are its labels, taints and kubelet settings by its pool.
    """
    location = vm.placement
    kubelet = properties.kubelet
    size = compute_allocatable(sku, kubelet)
    cells: tuple[Mapping[str, int], ...] = ()
    # Under other policies NUMA cells have no effect on pods.
    if kubelet.policy in REJECTING_POLICIES:
        reserved_cpus = list_reserved_cpus(sku, kubelet)
        devices = collect_extended_resources(sku, kubelet)
        cells = compute_cells(
            sku.vcpus, reserved_cpus, devices, min(kubelet.cells or sku.numa_cells, MAX_CELLS)
        )
    is_control_plane = CONTROL_PLANE_TAINT in properties.taints
    return Node(
        name=vm.name,
        labels={
            **list_registered_labels(vm.name, control_plane=is_control_plane),
            **properties.labels,
        },
        taints=properties.taints,
        cpu=size.cpu,
        memory=size.memory,
        machine=location.machine,
        rack=location.rack,
        zone=location.availability_zone,
        other_resources=size.extended,
        policy=kubelet.policy,
        cells=cells,
    )
