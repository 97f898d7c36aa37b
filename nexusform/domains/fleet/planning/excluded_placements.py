"""Bindings and pods outside the plan's targets (excluded or forgotten).

Their node or member may be missing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.fleet.planning.binding_rows import KIND as BINDING
from nexusform.domains.fleet.planning.fleet_snapshot import select_instances
from nexusform.domains.fleet.planning.placement_records import read_bindings
from nexusform.domains.fleet.scheduling.watcher import Trigger
from nexusform.domains.pods.planning.manifest_blocks import collect_prior_members
from nexusform.domains.pods.planning.node_clusters import NodeCluster
from nexusform.domains.pods.planning.object_pods import parse_pod_number
from nexusform.domains.pods.planning.pod_rows import parse_pod_record
from nexusform.domains.pods.pod_kind import LEFT_OBJECTS, PodLocation
from nexusform.doubts.doubt import Doubt
from nexusform.interfaces.plugins import PlanningKind, PluginRegistries
from nexusform.json_data.plain_data import get_mapping, get_text, get_value_at_path
from nexusform.planning.instances.block_planner import BlockPlanner
from nexusform.planning.preparation.prior_state import PriorState
from nexusform.planning.vm_planning.site_plans import build_inventory, build_sites
from nexusform.planning.vm_planning.vm_object import VmObject
from nexusform.plans.plan import FORGOTTEN_REASON, Action, PlacementAction, PlacementChange
from nexusform.resources.address import Address
from nexusform.state.objects import InstanceState

_NODE_REMOVED: Final = "node_removed"
_BINDING_REMOVED: Final = "binding_removed"
_EXCLUDED_REASON: Final = "its resource is excluded from this plan"
_FORGOTTEN_REASON: Final = "its resource is only removed from state"


class _ExclusionContext(Struct, frozen=True):
    """Context of excluded objects.

    Clusters by id, cluster ids by member, removed nodes and members, and existing node names by
    cluster id. Clusters absent from `existing_nodes` are unknown. `is_member_missing` is True for
    members missing from the fleet. `reason` explains the exclusion.
    """

    clusters: Mapping[str, NodeCluster]
    members: Mapping[str, str]
    removed_nodes: frozenset[tuple[str, str]]
    removed_members: frozenset[str]
    existing_nodes: Mapping[str, AbstractSet[str]]
    is_member_missing: Callable[[str], bool]
    reason: str = _EXCLUDED_REASON

    def explain_lost_node(self, cluster_id: str, node: str | None) -> str:
        """Return why the node of a pod is missing, or removed by this plan; "" if it stays."""
        if (cluster_id, node) in self.removed_nodes:
            return f"its node is removed or re-created, and {self.reason}"
        # If the nodes are not known, none is missing.
        node_names = self.existing_nodes.get(cluster_id, {node})
        return "its node does not exist" if node and node not in node_names else ""

    def explain_lost_member(self, member: str) -> str:
        """Return why the member of a binding is missing, or removed by this plan; "" if not."""
        if member in self.removed_members:
            return f"its member is removed from the fleet, and {self.reason}"
        return "its member is not in the fleet" if self.is_member_missing(member) else ""


def build_excluded_rows(
    blocks: BlockPlanner,
    vms: Sequence[VmObject],
    clusters: Mapping[str, NodeCluster],
    known_members: AbstractSet[str] | None,
) -> Iterator[PlacementChange]:
    """Build a row per binding and pod of the objects not planned (-target, -exclude).

    `known_members` are the names of all members, or None if a hub was not read.
    """
    prior = _list_current_attributes(blocks.prior.instances)
    excluded = {
        address: values for address, values in prior.items() if not blocks.selection.has(address)
    }
    context = _build_exclusion_context(blocks, vms, clusters, known_members)
    yield from _build_excluded_placement_rows(excluded, blocks.request.registries, context)


def list_forgotten_object_losses(
    blocks: BlockPlanner, vms: Sequence[VmObject], clusters: Mapping[str, NodeCluster]
) -> Iterator[PlacementChange]:
    """Yield the lost bindings and pods of objects forgotten by a `removed` block.

    These objects are removed from state only. The bindings and pods are lost because the plan
    removes or re-creates the member of the binding, or the node of the pod.
    """
    forgotten = {
        address: instance.before
        for address, instance in blocks.instances.items()
        if instance.action is Action.FORGET and instance.before is not None
    }
    if not forgotten:
        return
    context = _build_exclusion_context(
        blocks, vms, clusters, known_members=None, reason=_FORGOTTEN_REASON
    )
    rows = _build_excluded_placement_rows(forgotten, blocks.request.registries, context)
    yield from (row for row in rows if row.action is PlacementAction.LOSE)


def keep_pods_of_lost_members(
    rows: Sequence[PlacementChange],
    blocks: BlockPlanner,
    vms: Sequence[VmObject],
    clusters: Mapping[str, NodeCluster],
) -> Iterator[PlacementChange]:
    """Yield the rows, with FORGET for what keeps running on members that the state loses.

    A forgotten member keeps its bindings and pods. A member that leaves the fleet keeps the pods:
    its agent leaves all objects of the hub there. If the placement goes in the same plan, or the
    member joins again, what becomes of the pods is uncertain. Pods on removed nodes stay REMOVE.
    Source: KubeFleet pkg/controllers/workapplier/controller.go (Leave).
    """
    # By member name (in rows of bindings) and by cluster name (of pods).
    forgotten_cluster_ids: dict[str, str] = {}
    # Cluster ids of the members that leave, by the same names.
    departing_cluster_ids: dict[str, str] = {}
    for instance in select_instances(blocks.instances.values(), PlanningKind.MEMBER):
        if instance.loses_prior_object:
            name = get_text(instance.before, "name")
            cluster_id = get_text(instance.before, "kubernetes_cluster_id") or name
            is_forgotten = instance.action is Action.FORGET
            cluster_ids = forgotten_cluster_ids if is_forgotten else departing_cluster_ids
            cluster_ids |= {name: cluster_id, cluster_id.rpartition("/")[2]: cluster_id}
    if not (forgotten_cluster_ids or departing_cluster_ids):
        yield from rows
        return
    context = _build_exclusion_context(
        blocks, vms, clusters, known_members=None, reason=_FORGOTTEN_REASON
    )
    # Placements (address) that lose their member, by cluster id. One that is joined again may take
    # over the pods, or create others.
    joined = {(row.address, row.object) for row in rows if row.action is PlacementAction.PLACE}
    departures = {
        (row.address, departing_cluster_ids[row.object])
        for row in rows
        if row.trigger == Trigger.CLUSTER_LEFT
        and row.object in departing_cluster_ids
        and (row.address, row.object) not in joined
    }
    for row in rows:
        departing_id = _find_cluster_of_removed_pod(row, departing_cluster_ids, context)
        if row.action is not PlacementAction.REMOVE:
            yield row
        elif (row.address, departing_id) in departures:
            # Reachable or not, the member deletes nothing.
            yield replace(row, action=PlacementAction.FORGET, reason=FORGOTTEN_REASON, scores={})
        elif _find_cluster_of_removed_pod(row, forgotten_cluster_ids, context) or (
            row.trigger == Trigger.CLUSTER_LEFT and row.object in forgotten_cluster_ids
        ):
            yield replace(row, action=PlacementAction.FORGET, reason=FORGOTTEN_REASON)
        elif departing_id:
            yield row.add_doubt(Doubt("pod", row.object, reason=LEFT_OBJECTS))
        else:
            yield row


def _find_cluster_of_removed_pod(
    row: PlacementChange, cluster_ids: Mapping[str, str], context: _ExclusionContext
) -> str:
    """Return the id of the cluster on which a pod loses its binding, but not its node; else ""."""
    # Other triggers remove the pod itself, or its node.
    if not isinstance(row.source, PodLocation) or row.trigger != _BINDING_REMOVED:
        return ""
    cluster_id = cluster_ids.get(row.source.cluster, "")
    return "" if context.explain_lost_node(cluster_id, row.source.node) else cluster_id


def _build_exclusion_context(
    blocks: BlockPlanner,
    vms: Sequence[VmObject],
    clusters: Mapping[str, NodeCluster],
    known_members: AbstractSet[str] | None,
    reason: str = _EXCLUDED_REASON,
) -> _ExclusionContext:
    """Build the facts that decide if an excluded binding or pod is lost.

    A member is missing if neither the state nor `known_members` has it. If `known_members` is None
    (a hub was not read), no member counts as missing.
    """
    instances = blocks.prior.instances
    registries = blocks.request.registries
    recorded_members = _collect_member_names(instances, registries)
    # The node names before the plan, by cluster id.
    existing_nodes: dict[str, set[str]] = {}
    for vm_object in vms:
        # None: no VMs before the plan.
        if vm_object.prior.demand is not None:
            names = existing_nodes.setdefault(vm_object.prior.demand.cluster_id, set())
            for vm in vm_object.prior.existing.values():
                names.update(vm.names)
    # The members removed from the fleet, re-created ones included. Forgotten members stay
    # on the hub.
    members = select_instances(blocks.instances.values(), PlanningKind.MEMBER)
    removed_members = [item for item in members if item.is_destroyed]
    return _ExclusionContext(
        clusters=clusters,
        members=collect_prior_members(instances, registries),
        removed_nodes=frozenset(_find_removed_nodes(vms)),
        removed_members=frozenset(
            str(get_value_at_path(member.before, "name")) for member in removed_members
        ),
        existing_nodes=existing_nodes,
        is_member_missing=lambda member: (
            known_members is not None and member not in known_members | recorded_members
        ),
        reason=reason,
    )


def find_lost_rows(prior: PriorState, registries: PluginRegistries) -> Iterator[PlacementChange]:
    """Build a row for every binding and pod in state whose member or node is missing.

    They are missing in the refreshed state.
    """
    objects = _list_current_attributes(prior.instances)
    context = _ExclusionContext(
        clusters={},
        members=collect_prior_members(prior.instances, registries),
        removed_nodes=frozenset(),
        removed_members=frozenset(),
        existing_nodes=_collect_refreshed_node_names(objects, prior, registries),
        is_member_missing=find_missing_members(prior, registries).__contains__,
    )
    rows = _build_excluded_placement_rows(objects, registries, context)
    yield from (row for row in rows if row.action is PlacementAction.LOSE)


def _collect_refreshed_node_names(
    objects: Mapping[Address, Mapping[str, Any]], prior: PriorState, registries: PluginRegistries
) -> dict[str, set[str]]:
    """Return the node names of the refreshed `objects` by cluster id.

    Nodes on missing machines are left out. A cluster in state that no longer exists has no names,
    so all of its nodes are missing.
    """
    types = registries.resource_types
    sites, _conflicts = build_sites(build_inventory(objects.items(), types))
    existing_nodes: dict[str, set[str]] = {}
    for address, instance in prior.state.instances.items():
        if (
            registries.get_kind(address.type) is PlanningKind.CLUSTER
            and instance.current is not None
        ):
            existing_nodes[str(instance.current.attributes.get("id"))] = set()
    for address, attributes in objects.items():
        resource_type = types.get(address.type)
        if resource_type is None or resource_type.vms is None:
            # A type without VMs has no nodes.
            continue
        object_id = get_text(attributes, "id")  # `site/...`
        # The latter for a cluster itself.
        cluster_id = get_text(attributes, "cluster_id") or object_id
        names = existing_nodes.setdefault(cluster_id, set())
        site = sites.get(object_id.partition("/")[0])
        for vm in resource_type.vms.list_existing_vms(attributes):
            if site is not None and vm.placement.machine in site.machines:
                names.update(vm.names)
    return existing_nodes


def _build_excluded_placement_rows(
    objects: Mapping[Address, Mapping[str, Any]],
    registries: PluginRegistries,
    context: _ExclusionContext,
) -> Iterator[PlacementChange]:
    """Build the rows of bindings and pods of `objects` (attributes).

    They are kept, or lost with their member or node.
    """
    for address, attributes in objects.items():
        workloads = get_mapping(attributes, "workloads")
        kind = registries.get_kind(address.type)
        if kind is PlanningKind.PLACEMENT:
            for binding in read_bindings(attributes):
                reason = context.explain_lost_member(binding.cluster)
                row = PlacementChange(
                    address=address,
                    kind=BINDING,
                    object=binding.cluster,
                    action=PlacementAction.KEEP,
                    source=binding,
                    target=binding,
                    trigger="",
                    cluster=binding.cluster,
                    reason=_EXCLUDED_REASON,
                )
                yield _mark_if_lost(row, reason, Trigger.CLUSTER_LEFT)
            # The cluster id of an unknown member is its name.
            for member, member_workloads in workloads.items():
                cluster_id = context.members.get(member, member)
                reason = context.explain_lost_member(member)
                yield from _build_excluded_pod_rows(
                    address, cluster_id, member_workloads, context, reason
                )
        elif kind is PlanningKind.MANIFEST:
            cluster_id = get_text(attributes, "cluster_id")
            yield from _build_excluded_pod_rows(address, cluster_id, workloads, context)


def _mark_if_lost(row: PlacementChange, reason: str, trigger: str) -> PlacementChange:
    """Return the row of a kept binding or pod, as a lost one if there is a `reason`."""
    if not reason:
        return row
    return replace(
        row, action=PlacementAction.LOSE, target=None, trigger=str(trigger), reason=reason
    )


def _find_removed_nodes(vms: Iterable[VmObject]) -> Iterator[tuple[str, str]]:
    """Yield the nodes removed, re-created under the same name, or lost in this plan.

    Cluster id, name.
    """
    for vm_object in vms:
        demand = vm_object.prior.demand
        if demand is None:
            # Without VMs before.
            continue
        actions = vm_object.request.actions
        for key in (*actions.removals, *actions.recreations, *actions.losses):
            # others have no node yet.
            if key in vm_object.prior.existing:
                yield demand.cluster_id, vm_object.prior.existing[key].name


def _list_current_attributes(
    instances: Mapping[Address, InstanceState],
) -> dict[Address, Mapping[str, Any]]:
    """Return the attributes of existing objects by address."""
    return {
        address: item.current.attributes
        for address, item in instances.items()
        if item.current is not None
    }


def _collect_member_names(
    instances: Mapping[Address, InstanceState], registries: PluginRegistries
) -> frozenset[str]:
    """Return the names of the fleet's members among the existing objects."""
    objects = _list_current_attributes(instances).items()
    members = [
        values
        for address, values in objects
        if registries.get_kind(address.type) is PlanningKind.MEMBER
    ]
    return frozenset(str(values.get("name")) for values in members)


def find_missing_members(prior: PriorState, registries: PluginRegistries) -> frozenset[str]:
    """Return the members in state missing from the refreshed state.

    A provider did not find them.
    """
    return _collect_member_names(prior.state.instances, registries) - _collect_member_names(
        prior.instances, registries
    )


def _build_excluded_pod_rows(
    address: Address,
    cluster_id: str,
    workloads: Mapping[str, Mapping[str, Mapping[str, Any]]],
    context: _ExclusionContext,
    member_reason: str = "",
) -> Iterator[PlacementChange]:
    """Build the rows of pods on one cluster: kept, lost with their node, or lost with the member.

    `member_reason` explains the loss of the member, "" if it exists.
    """
    known_cluster = context.clusters.get(cluster_id)
    # Without known nodes.
    cluster = cluster_id.rpartition("/")[2]
    site_id = ""
    if known_cluster is not None:
        cluster = known_cluster.name
        site_id = known_cluster.site_id
    for workload, pods in workloads.items():
        for name, values in pods.items():
            pod_record = parse_pod_record(values)
            # Without a node: not scheduled.
            location = PodLocation(cluster, state=pod_record.state)
            if pod_record.node:
                location = PodLocation(
                    cluster, pod_record.node, pod_record.machine, pod_record.availability_zone
                )
            node_reason = context.explain_lost_node(cluster_id, pod_record.node)
            row = PlacementChange(
                address=address,
                kind="pod",
                object=name,
                action=PlacementAction.KEEP,
                source=location,
                target=location,
                trigger="",
                pool=f"{cluster}/{workload}",
                number=parse_pod_number(workload, name),
                site_id=site_id,
                reason=_EXCLUDED_REASON,
            )
            trigger = _NODE_REMOVED if node_reason else _BINDING_REMOVED
            yield _mark_if_lost(row, node_reason or member_reason, trigger)
