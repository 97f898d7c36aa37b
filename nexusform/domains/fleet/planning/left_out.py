"""What becomes of the bindings and pods of objects that -target or -exclude leaves out: nothing is asked of
them, and the node or the member that they need may go all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from nexusform.address import Address
from nexusform.domains.fleet.planning.contents import read_bindings
from nexusform.domains.fleet.planning.rows import KIND as BINDING
from nexusform.domains.pods.planning.blocks import prior_members
from nexusform.domains.pods.planning.brought import pod_number
from nexusform.domains.pods.planning.nodes import NodeCluster
from nexusform.domains.pods.planning.rows import PodNote, read_note
from nexusform.domains.pods.pod_kind import PodPlace
from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.plan import Action, PlacementAction, PlacementChange
from nexusform.planning.vms.vm_object import VmObject
from nexusform.ports import Kind

_LEFT_OUT: Final = "what brought it is left out of this plan"
_NODE_GOES: Final = f"its node is gone or made anew, and {_LEFT_OUT}"
_MEMBER_GOES: Final = f"its member leaves the fleet, and {_LEFT_OUT}"


class _Ground(Struct, frozen=True):
    # What the left out stand on: clusters by id, members in state (name -> cluster id), and what of it goes.
    clusters: Mapping[str, NodeCluster]
    members: Mapping[str, str]
    nodes_gone: frozenset[tuple[str, str]]
    members_gone: frozenset[str]


def left_out_rows(
    blocks: Blocks, vms: Iterable[VmObject], clusters: Mapping[str, NodeCluster]
) -> Iterator[PlacementChange]:
    """A row for every binding and pod of what the selection leaves out."""
    instances = blocks.prior.instances
    registries = blocks.request.registries
    ground = _Ground(
        clusters,
        prior_members(instances, registries),
        frozenset(_nodes_gone(vms)),
        frozenset(_members_gone(blocks)),
    )
    for address, instance in instances.items():
        if instance.current is None or blocks.selection.has(address):
            continue
        attributes = instance.current.attributes
        workloads = attributes.get("workloads")
        kind = registries.kind_of(address.type)
        if kind is Kind.PLACEMENT:
            yield from _bindings(address, attributes, ground)
            for member, of_member in (workloads or {}).items():
                cluster_id = ground.members.get(member, member)
                yield from _pods(address, member, cluster_id, of_member, ground)
        elif kind is Kind.MANIFEST and workloads:
            cluster_id = str(attributes.get("cluster_id") or "")
            cluster = clusters.get(cluster_id)
            name = cluster.name if cluster is not None else cluster_id.rpartition("/")[2]
            yield from _pods(address, name, cluster_id, workloads, ground)


def _nodes_gone(vms: Iterable[VmObject]) -> Iterator[tuple[str, str]]:
    """The nodes (cluster id and name) that this plan takes away, or makes anew under their old name."""
    for each in vms:
        demand = each.prior_demand
        if demand is None:
            continue
        cluster_id = demand.owner.partition(":")[2]
        for key in (*each.moves.leave, *each.moves.again, *each.moves.lost):
            if key in each.standing:
                yield cluster_id, each.standing[key].name


def _members_gone(blocks: Blocks) -> Iterator[str]:
    """The members that leave the fleet. One that is forgotten stays on the hub."""
    for instance in blocks.instances.values():
        if instance.type.kind is not Kind.MEMBER or instance.action is Action.FORGET:
            continue
        if instance.going:
            yield str((instance.before or {}).get("name"))


def _bindings(address: Address, attributes: Mapping[str, Any], ground: _Ground) -> Iterator[PlacementChange]:
    for binding in read_bindings(attributes):
        is_lost = binding.cluster in ground.members_gone
        yield PlacementChange(
            address=address,
            kind=BINDING,
            object=binding.cluster,
            action=PlacementAction.LOSE if is_lost else PlacementAction.KEEP,
            source=binding,
            target=None if is_lost else binding,
            trigger="cluster_left" if is_lost else "",
            cluster=binding.cluster,
            reason=_MEMBER_GOES if is_lost else _LEFT_OUT,
        )


def _pods(
    address: Address,
    cluster: str,
    cluster_id: str,
    workloads: Mapping[str, Mapping[str, Mapping[str, Any]]],
    ground: _Ground,
) -> Iterator[PlacementChange]:
    known = ground.clusters.get(cluster_id)
    for workload, pods in workloads.items():
        for name, values in pods.items():
            note = read_note(values)
            place = _place(cluster, note)
            is_lost = (cluster_id, note.node) in ground.nodes_gone
            yield PlacementChange(
                address=address,
                kind="pod",
                object=name,
                action=PlacementAction.LOSE if is_lost else PlacementAction.KEEP,
                source=place,
                target=None if is_lost else place,
                trigger="node_removed" if is_lost else "",
                pool=f"{cluster}/{workload}",
                number=pod_number(workload, name),
                site_id=known.site_id if known is not None else "",
                reason=_NODE_GOES if is_lost else _LEFT_OUT,
            )


def _place(cluster: str, note: PodNote) -> PodPlace:
    """Where state has a pod."""
    if not note.node:
        return PodPlace(cluster, state=note.state)
    return PodPlace(cluster, note.node, note.machine, note.availability_zone)
