"""Prediction of one recorded decision of a fleet hub.

A decision is about the clusters of a placement after a change.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from nexusform.documents.yaml_documents import Node, TextPosition
from nexusform.domains.fleet.importers.fleet_records import FleetPlacement
from nexusform.domains.fleet.importers.hub_records import find_newest_heartbeat, read_member_cluster
from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    BindingState,
    Member,
    select_scheduled_bindings,
)
from nexusform.domains.fleet.scheduling.fleet_api_validation import parse_resource_usage
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.domains.fleet.scheduling.policy_snapshots import build_next_snapshot
from nexusform.domains.fleet.scheduling.scheduling_cycle import run_scheduling_cycles
from nexusform.domains.fleet.scheduling.watcher import WatchedPlacement, enqueue_placements
from nexusform.domains.fleet.types.fleet_member_cluster import MEMBER_LABEL
from nexusform.domains.fleet.types.fleet_placements import FLEET_CLUSTER_RESOURCE_PLACEMENT
from nexusform.json_data.plain_data import get_list
from nexusform.kubernetes.matching import Taint


def decide_placement(snapshot: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    """Return `{clusters: {NAME: {affinity, topologySpread}}, fulfilled}` after a change.

    `snapshot` has the MemberCluster objects `members`, the ClusterResourcePlacement `placement`
    (null if it is new), its `bindings` {cluster, state, affinity, topologySpread}, and
    `fulfilled`. `request` has both objects after the change. Raises KeyError, TypeError and
    ValueError if a case is incomplete.
    """
    members = _read_members(request["members"])
    member_list = MemberList(members)
    placement = _read_placement(request["placement"])
    previous = _read_placement(snapshot["placement"]) if snapshot.get("placement") else None
    last_snapshot = build_next_snapshot(previous=None, policy=previous.policy) if previous else None
    policy_snapshot = build_next_snapshot(last_snapshot, placement.policy)
    bindings = tuple(map(_read_binding, get_list(snapshot, "bindings")))
    is_fulfilled = bool(snapshot.get("fulfilled"))
    watched = WatchedPlacement(placement.name, placement.placement_type, is_fulfilled)
    is_edited = previous is None or policy_snapshot != last_snapshot
    if is_edited or enqueue_placements(_read_members(snapshot["members"]), members, [watched]):
        result = run_scheduling_cycles(
            bindings, member_list, placement.effective_policy, policy_snapshot
        )
        bindings = result.bindings
        # None: no cycle wrote a status, so `is_fulfilled` stays.
        if result.status is not None:
            is_fulfilled = result.status.is_fulfilled
    selected = select_scheduled_bindings(bindings)
    scores = {
        binding.cluster: {
            "affinity": binding.affinity_score,
            "topologySpread": binding.topology_spread_score,
        }
        for binding in sorted(selected, key=lambda binding: binding.cluster)
    }
    return {"clusters": scores, "fulfilled": is_fulfilled}


def _read_members(bodies: Iterable[Mapping[str, Any]]) -> list[Member]:
    """Return the members of MemberCluster objects.

    The newest heartbeat among them is the time of the recording.
    """
    bodies = list(bodies)
    now = find_newest_heartbeat(bodies)
    members = []
    for body in bodies:
        observed = read_member_cluster(Node(body, TextPosition(0, 0)), now)
        usage, _problems = parse_resource_usage(
            observed.total, observed.allocatable, observed.available
        )
        name = body["metadata"]["name"]
        members.append(
            Member(
                name=name,
                labels={**observed.labels, MEMBER_LABEL: name},
                taints=tuple(Taint(**taint) for taint in observed.taints),
                properties=observed.properties,
                resources=usage,
                health=observed.health,
                namespaces=None if observed.namespaces is None else frozenset(observed.namespaces),
            )
        )
    return members


def _read_placement(body: Mapping[str, Any]) -> FleetPlacement:
    """Return the placement of a ClusterResourcePlacement object."""
    read_object = FLEET_CLUSTER_RESOURCE_PLACEMENT.build_fleet_object
    placement = read_object({"name": body["metadata"]["name"], "manifest": json.dumps(body)})
    assert isinstance(placement, FleetPlacement), "an object of this type"
    return placement


def _read_binding(item: Mapping[str, Any]) -> Binding:
    """Return a recorded binding.

    It is of the first policy snapshot; an Unscheduled one was Bound before.
    """
    state = BindingState(item["state"])
    return Binding(
        cluster=item["cluster"],
        state=state,
        policy_snapshot=0,
        affinity_score=item.get("affinity"),
        topology_spread_score=item.get("topologySpread"),
        previous_state=BindingState.BOUND if state is BindingState.UNSCHEDULED else None,
        resource_snapshot=0 if state is BindingState.BOUND else None,
    )
