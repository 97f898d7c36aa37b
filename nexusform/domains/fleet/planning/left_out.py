"""What becomes of the bindings and pods of objects that -target or -exclude leaves out, or that are only
forgotten: nothing is asked of them, and the node or the member that they need may go all the same, or be gone
already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.domains.fleet.planning.contents import read_bindings
from nexusform.domains.fleet.planning.rows import KIND as BINDING
from nexusform.domains.fleet.scheduling.watcher import Trigger
from nexusform.domains.pods.planning.blocks import prior_members
from nexusform.domains.pods.planning.brought import pod_number
from nexusform.domains.pods.planning.nodes import NodeCluster
from nexusform.domains.pods.planning.rows import PodNote, read_note
from nexusform.domains.pods.pod_kind import PodPlace
from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.instances.instance import Instance
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.vms.sites import build_sites, inventory_of
from nexusform.planning.vms.vm_object import VmObject
from nexusform.plans.plan import FORGOTTEN, Action, PlacementAction, PlacementChange
from nexusform.ports import Kind, Registries
from nexusform.state.objects import InstanceState

_NODE_REMOVED: Final = "node_removed"
_MEMBER_LEFT: Final = "binding_removed"
_LEFT_OUT: Final = "what brought it is left out of this plan"
_FORGOTTEN: Final = "what brought it is only forgotten"
_NODE_IS_GONE: Final = "its node is not there"
_MEMBER_IS_GONE: Final = "its member is not in the fleet"


class _Ground(Struct, frozen=True):
    """What the left out stand on: clusters by id, members in state (name -> cluster id), what of it goes, and
    the names of the nodes that stand, by cluster id. Of clusters that are not among `standing` nothing is
    known. The fleet `lacks` members that it had. `alone` is why nothing is asked of what stands there.
    """

    clusters: Mapping[str, NodeCluster]
    members: Mapping[str, str]
    nodes_gone: frozenset[tuple[str, str]]
    members_gone: frozenset[str]
    standing: Mapping[str, AbstractSet[str]]
    lacks: Callable[[str], bool]
    alone: str = _LEFT_OUT

    def has_lost(self, cluster_id: str, node: str) -> str:
        """Why a pod on this node has lost it, or does in this plan; "" where it stands."""
        if (cluster_id, node) in self.nodes_gone:
            return f"its node is gone or made anew, and {self.alone}"
        standing = self.standing.get(cluster_id)
        return _NODE_IS_GONE if node and standing is not None and node not in standing else ""

    def has_left(self, member: str) -> str:
        """Why a binding to this member has lost it, or does in this plan; "" where it stands."""
        if member in self.members_gone:
            return f"its member leaves the fleet, and {self.alone}"
        return _MEMBER_IS_GONE if self.lacks(member) else ""


def left_out_rows(
    blocks: Blocks,
    vms: Iterable[VmObject],
    clusters: Mapping[str, NodeCluster],
    known_members: AbstractSet[str] | None,
) -> Iterator[PlacementChange]:
    """A row for every binding and pod of what the selection leaves out. `known_members` are those of the
    configuration and of hubs that were read, None where these are not known.
    """
    left_out = {
        address: instance.current.attributes
        for address, instance in blocks.prior.instances.items()
        if instance.current is not None and not blocks.selection.has(address)
    }
    ground = _ground(blocks, vms, clusters, known_members)
    yield from _rows_of(left_out, blocks.request.registries, ground)


def forgotten_and_lost(
    blocks: Blocks, vms: Iterable[VmObject], clusters: Mapping[str, NodeCluster]
) -> Iterator[PlacementChange]:
    """A row for every binding and pod that is forgotten and does not run on: the plan takes away, or makes
    anew, what it stands on.
    """
    forgotten = {
        address: instance.before
        for address, instance in blocks.instances.items()
        if instance.action is Action.FORGET and instance.before is not None
    }
    if not forgotten:
        return
    ground = _ground(blocks, vms, clusters, None, _FORGOTTEN)
    for row in _rows_of(forgotten, blocks.request.registries, ground):
        if row.action is PlacementAction.LOSE:
            yield row


def run_on_forgotten_members(
    rows: Iterable[PlacementChange],
    blocks: Blocks,
    vms: Iterable[VmObject],
    clusters: Mapping[str, NodeCluster],
) -> Iterator[PlacementChange]:
    """The rows of a plan. What it takes off members that are only forgotten runs on there: these stay on the
    hub, and nobody manages them any more. Pods whose node goes do not.
    """
    forgotten = dict(_forgotten_members(blocks.instances.values()))
    if not forgotten:
        yield from rows
        return
    ground = _ground(blocks, vms, clusters, None, _FORGOTTEN)
    for row in rows:
        if row.action is PlacementAction.REMOVE and _runs_on(row, forgotten, ground):
            yield replace(row, action=PlacementAction.FORGET, reason=FORGOTTEN)
        else:
            yield row


def _forgotten_members(instances: Iterable[Instance]) -> Iterator[tuple[str, str]]:
    """Members that are only forgotten, and the clusters that they stand for: names with the cluster's id."""
    for instance in instances:
        if instance.type.kind is Kind.MEMBER and instance.action is Action.FORGET and instance.before:
            name = str(instance.before.get("name"))
            cluster_id = str(instance.before.get("kubernetes_cluster_id") or name)
            yield name, cluster_id
            yield cluster_id.rpartition("/")[2], cluster_id


def _runs_on(row: PlacementChange, forgotten: Mapping[str, str], ground: _Ground) -> bool:
    """Whether a binding or pod that goes is on a forgotten member, and what it stands on stays."""
    if isinstance(row.source, PodPlace):
        cluster_id = forgotten.get(row.source.cluster, "")
        left = row.trigger == _MEMBER_LEFT and bool(cluster_id)
        return left and not ground.has_lost(cluster_id, row.source.node or "")
    return row.trigger == Trigger.CLUSTER_LEFT and row.object in forgotten


def _ground(
    blocks: Blocks,
    vms: Iterable[VmObject],
    clusters: Mapping[str, NodeCluster],
    known_members: AbstractSet[str] | None,
    alone: str = _LEFT_OUT,
) -> _Ground:
    vms = tuple(vms)
    instances, registries = blocks.prior.instances, blocks.request.registries
    named = _member_names(instances, registries)
    return _Ground(
        clusters,
        prior_members(instances, registries),
        frozenset(_nodes_gone(vms)),
        frozenset(_members_gone(blocks)),
        _standing(vms),
        lambda member: known_members is not None and member not in known_members | named,
        alone,
    )


def found_lost_rows(prior: Prior, registries: Registries) -> Iterator[PlacementChange]:
    """A row for every binding and pod of state whose member or node was found to be gone."""
    objects = {
        address: instance.current.attributes
        for address, instance in prior.instances.items()
        if instance.current is not None
    }
    standing = _found_standing(prior, objects, registries)
    members = prior_members(prior.instances, registries)
    found_gone = members_found_gone(prior, registries)
    ground = _Ground({}, members, frozenset(), frozenset(), standing, found_gone.__contains__)
    for row in _rows_of(objects, registries, ground):
        if row.action is PlacementAction.LOSE:
            yield row


def _rows_of(
    objects: Mapping[Address, Mapping[str, Any]], registries: Registries, ground: _Ground
) -> Iterator[PlacementChange]:
    for address, attributes in objects.items():
        workloads = attributes.get("workloads")
        kind = registries.kind_of(address.type)
        if kind is Kind.PLACEMENT:
            yield from _bindings(address, attributes, ground)
            for member, of_member in (workloads or {}).items():
                cluster_id = ground.members.get(member, member)
                yield from _pods(address, cluster_id, of_member, ground, ground.has_left(member))
        elif kind is Kind.MANIFEST and workloads:
            cluster_id = str(attributes.get("cluster_id") or "")
            yield from _pods(address, cluster_id, workloads, ground)


def _nodes_gone(vms: Iterable[VmObject]) -> Iterator[tuple[str, str]]:
    """The nodes (cluster id and name) that this plan takes away, or makes anew under their old name."""
    for each in vms:
        demand = each.before.demand
        if demand is None:
            continue
        cluster_id = demand.owner.partition(":")[2]
        for key in (*each.asked.moves.leave, *each.asked.moves.again, *each.asked.moves.lost):
            if key in each.before.standing:
                yield cluster_id, each.before.standing[key].name


def _standing(vms: Iterable[VmObject]) -> dict[str, set[str]]:
    """The nodes that stand before the plan, by cluster id."""
    nodes: dict[str, set[str]] = {}
    for each in vms:
        if each.before.demand is not None:
            names = nodes.setdefault(each.before.demand.owner.partition(":")[2], set())
            for vm in each.before.standing.values():
                names.update(vm.names)
    return nodes


def _found_standing(
    prior: Prior, objects: Mapping[Address, Mapping[str, Any]], registries: Registries
) -> dict[str, set[str]]:
    """The nodes of objects as they were found, by cluster id, but for those whose machine is not there. A
    cluster that was found to be gone has none.
    """
    types = registries.resource_types
    sites = build_sites(inventory_of(objects.items(), types))[0]
    nodes: dict[str, set[str]] = {}
    for address, instance in prior.state.instances.items():
        if registries.kind_of(address.type) is Kind.CLUSTER and instance.current is not None:
            nodes[str(instance.current.attributes.get("id"))] = set()
    for address, attributes in objects.items():
        resource_type = types.get(address.type)
        if resource_type is None or resource_type.vms is None:
            continue
        own_id = str(attributes.get("id") or "")
        names = nodes.setdefault(str(attributes.get("cluster_id") or own_id), set())
        site = sites.get(own_id.partition("/")[0])
        for vm in resource_type.vms.standing(attributes):
            if site is not None and vm.placement.machine in site.machines:
                names.update(vm.names)
    return nodes


def _member_names(instances: Mapping[Address, InstanceState], registries: Registries) -> frozenset[str]:
    """The members that a state holds."""
    return frozenset(
        str(instance.current.attributes.get("name"))
        for address, instance in instances.items()
        if registries.kind_of(address.type) is Kind.MEMBER and instance.current is not None
    )


def members_found_gone(prior: Prior, registries: Registries) -> frozenset[str]:
    """The members of state that a provider did not find."""
    return _member_names(prior.state.instances, registries) - _member_names(prior.instances, registries)


def _members_gone(blocks: Blocks) -> Iterator[str]:
    """The members that leave the fleet, also to join it anew. One that is forgotten stays on the hub."""
    for instance in blocks.instances.values():
        if instance.type.kind is not Kind.MEMBER or instance.action is Action.FORGET:
            continue
        if instance.going or instance.replaced:
            yield str((instance.before or {}).get("name"))


def _bindings(address: Address, attributes: Mapping[str, Any], ground: _Ground) -> Iterator[PlacementChange]:
    for binding in read_bindings(attributes):
        why = ground.has_left(binding.cluster)
        yield PlacementChange(
            address=address,
            kind=BINDING,
            object=binding.cluster,
            action=PlacementAction.LOSE if why else PlacementAction.KEEP,
            source=binding,
            target=None if why else binding,
            trigger="cluster_left" if why else "",
            cluster=binding.cluster,
            reason=why or _LEFT_OUT,
        )


def _pods(
    address: Address,
    cluster_id: str,
    workloads: Mapping[str, Mapping[str, Mapping[str, Any]]],
    ground: _Ground,
    left: str = "",
) -> Iterator[PlacementChange]:
    """The pods of an object on one cluster; `left` says why that is no member any more."""
    known = ground.clusters.get(cluster_id)
    cluster = known.name if known is not None else cluster_id.rpartition("/")[2]
    for workload, pods in workloads.items():
        for name, values in pods.items():
            note = read_note(values)
            place = _place(cluster, note)
            lost = ground.has_lost(cluster_id, note.node)
            why = lost or left
            yield PlacementChange(
                address=address,
                kind="pod",
                object=name,
                action=PlacementAction.LOSE if why else PlacementAction.KEEP,
                source=place,
                target=None if why else place,
                trigger=_NODE_REMOVED if lost else _MEMBER_LEFT if left else "",
                pool=f"{cluster}/{workload}",
                number=pod_number(workload, name),
                site_id=known.site_id if known is not None else "",
                reason=why or _LEFT_OUT,
            )


def _place(cluster: str, note: PodNote) -> PodPlace:
    """Where state has a pod."""
    if not note.node:
        return PodPlace(cluster, state=note.state)
    return PodPlace(cluster, note.node, note.machine, note.availability_zone)
