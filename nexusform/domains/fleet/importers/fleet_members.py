"""Observed MemberCluster objects -> values of fleet_member_cluster. Health follows from the member agent's
conditions and its last heartbeat, in the order and with the limits of KubeFleet's
pkg/scheduler/clustereligibilitychecker at e160c1cd.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct, field

from nexusform.documents.times import parse_time
from nexusform.documents.yaml_documents import Node, TextPosition
from nexusform.domains.fleet.scheduling.bindings import Health

_NO_LOCATION: Final = TextPosition(0, 0)


class ObservedMember(Struct, frozen=True):
    """Observed member; `namespaces` None: not collected. Without `has_health` it counts as Healthy."""

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    health: Health = Health.HEALTHY
    properties: Mapping[str, str] = field(default_factory=dict)
    total: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    available: Mapping[str, str] = field(default_factory=dict)
    namespaces: tuple[str, ...] | None = None
    has_health: bool = True


def find_newest_heartbeat(members: Iterable[Mapping[str, Any]]) -> datetime | None:
    """Return the newest heartbeat of MemberCluster objects, the minimum time of their export."""
    times = (
        parse_time(_find_agent(Node(body, _NO_LOCATION)).get_node("lastReceivedHeartbeat").text) for body in members
    )
    return max((time for time in times if time is not None), default=None)


def read_member_cluster(root: Node, now: datetime | None) -> ObservedMember:
    """Read a MemberCluster; `now` is the time of observation."""
    status = root.get_node("status")
    usage = status.get_node("resourceUsage")
    properties = {name: node.get_node("value") for name, node in status.get_node("properties").list_fields()}
    labels = _read_string_map(root.get_node("metadata", "labels"))
    labels.pop("kubernetes-fleet.io/member-name", None)  # added by the hub
    namespaces = None  # not collected
    if not _find_condition(status, "NamespaceCollectionSucceeded").is_absent:
        namespaces = tuple(sorted(name for name, _ in status.get_node("namespaces").list_fields()))
    return ObservedMember(
        labels=labels,
        taints=tuple(
            {"key": "", "value": "", "effect": "NoSchedule", **_read_string_map(taint)}
            for taint in root.get_node("spec", "taints").list_items()
        ),
        health=_determine_member_health(root, now),
        properties={name: str(node.data) for name, node in properties.items() if not node.is_absent},
        total=_read_string_map(usage.get_node("capacity")),
        allocatable=_read_string_map(usage.get_node("allocatable")),
        available=_read_string_map(usage.get_node("available")),
        namespaces=namespaces,
        has_health=not status.is_absent,
    )


def read_member_health(body: Mapping[str, Any], now: datetime | None) -> Health:
    """Return the health of a MemberCluster; `now` is the time of observation."""
    return _determine_member_health(Node(body, _NO_LOCATION), now)


def check_member_times(root: Node) -> Iterator[tuple[TextPosition, str]]:
    """Yield the location and message of each invalid time that affects a MemberCluster's health."""
    agent = _find_agent(root)
    healthy = _find_condition(agent, "Healthy")
    for parent, name in ((agent, "lastReceivedHeartbeat"), (healthy, "lastTransitionTime")):
        node = parent.get_node(name)
        if not node.is_absent and parse_time(node.text) is None:
            text = f'{name} "{node.data}" is not a time. Use a form such as "2026-01-31T10:00:00Z".'
            yield node.position, text


def _read_string_map(node: Node) -> dict[str, str]:
    return {name: str(value.data) for name, value in node.list_fields() if not value.is_absent}


def _find_agent(root: Node) -> Node:
    """Return the status of the member agent; an empty node if absent."""
    return _find_item(root.get_node("status", "agentStatus"), "MemberAgent")


def _find_condition(node: Node, kind: str) -> Node:
    """Return the condition of a type; an empty node if absent."""
    return _find_item(node.get_node("conditions"), kind)


def _find_item(items: Node, kind: str) -> Node:
    found = (item for item in items.list_items() if item.get_node("type").text == kind)
    return next(found, Node(None, items.position))


def _is_older_than_limit(time: datetime | None, now: datetime | None) -> bool:
    return time is None or (now is not None and now - time > timedelta(minutes=5))  # now None: unknown, so not old


def _determine_member_health(root: Node, now: datetime | None) -> Health:
    """Return the first reason against eligibility as health; without one Healthy, or RecentlyUnhealthy (eligible)."""
    if not root.get_node("metadata", "deletionTimestamp").is_absent:
        return Health.LEAVING
    if root.get_node("status").is_absent:
        return Health.HEALTHY  # not captured
    agent = _find_agent(root)
    if agent.is_absent:
        return Health.NO_AGENT
    joined, healthy = _find_condition(agent, "Joined"), _find_condition(agent, "Healthy")
    if _is_older_than_limit(parse_time(agent.get_node("lastReceivedHeartbeat").text), now):
        return Health.NO_HEARTBEAT
    if joined.get_node("status").text != "True":
        return Health.NOT_JOINED
    if healthy.is_absent:  # the agent has not reported it yet
        return Health.NO_HEALTH
    if healthy.get_node("status").text == "True":
        return Health.HEALTHY
    is_prolonged = _is_older_than_limit(parse_time(healthy.get_node("lastTransitionTime").text), now)
    return Health.UNHEALTHY if is_prolonged else Health.RECENTLY_UNHEALTHY
