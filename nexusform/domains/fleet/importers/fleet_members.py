"""MemberCluster objects as a hub shows them -> what a fleet_member_cluster says of them.

Health follows from the member agent's conditions and its last heartbeat, by the order and the limits of
KubeFleet's pkg/scheduler/clustereligibilitychecker at e160c1cd.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct, field

from nexusform.documents.text_places import TextPlace
from nexusform.documents.times import parse_time
from nexusform.documents.yaml_text import Node
from nexusform.domains.fleet.scheduling.bindings import Health

_NOWHERE: Final = TextPlace(0, 0)
_LIMIT: Final = timedelta(minutes=5)
_AUTOMATIC: Final = "kubernetes-fleet.io/member-name"


class MemberView(Struct, frozen=True):
    """A member as it is shown; `namespaces` None = they are not collected. `says_health`: whether anything
    is said of its health, which is Healthy otherwise.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    health: Health = Health.HEALTHY
    properties: Mapping[str, str] = field(default_factory=dict)
    total: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    available: Mapping[str, str] = field(default_factory=dict)
    namespaces: tuple[str, ...] | None = None
    says_health: bool = True


def newest_heartbeat(members: Iterable[Mapping[str, Any]]) -> datetime | None:
    """The newest heartbeat in some MemberCluster objects: an export is not older than that."""
    times = (_time(_agent(Node(body, _NOWHERE)).at("lastReceivedHeartbeat")) for body in members)
    return max((time for time in times if time is not None), default=None)


def read_member(root: Node, now: datetime | None) -> MemberView:
    """A MemberCluster; `now` is when it was shown."""
    status = root.at("status")
    usage = status.at("resourceUsage")
    properties = {name: node.at("value") for name, node in status.at("properties").fields()}
    labels = _texts(root.at("metadata", "labels"))
    labels.pop(_AUTOMATIC, None)
    return MemberView(
        labels=labels,
        taints=tuple(
            {"key": "", "value": "", "effect": "NoSchedule", **_texts(taint)}
            for taint in root.at("spec", "taints").items()
        ),
        health=_health(root, now),
        properties={name: str(node.data) for name, node in properties.items() if not node.absent},
        total=_texts(usage.at("capacity")),
        allocatable=_texts(usage.at("allocatable")),
        available=_texts(usage.at("available")),
        namespaces=_namespaces(status),
        says_health=not status.absent,
    )


def health_of(body: Mapping[str, Any], now: datetime | None) -> Health:
    """How a hub sees a MemberCluster; `now` is when it was shown."""
    return _health(Node(body, _NOWHERE), now)


def time_problems(root: Node) -> Iterator[tuple[TextPlace, str]]:
    """The times of a MemberCluster by which its health goes that are none: where, and what to say."""
    agent = _agent(root)
    healthy = _condition(agent, "Healthy")
    nodes = [("lastReceivedHeartbeat", agent.at("lastReceivedHeartbeat"))]
    if healthy is not None:
        nodes.append(("lastTransitionTime", healthy.at("lastTransitionTime")))
    for name, node in nodes:
        if not node.absent and _time(node) is None:
            text = f'{name} is "{node.data}", which is no time; write one such as "2026-01-31T10:00:00Z".'
            yield node.place, text


def _texts(node: Node) -> dict[str, str]:
    return {name: str(below.data) for name, below in node.fields() if not below.absent}


def _namespaces(status: Node) -> tuple[str, ...] | None:
    collected = _condition(status, "NamespaceCollectionSucceeded")
    if collected is None:
        return None
    return tuple(sorted(name for name, _ in status.at("namespaces").fields()))


def _agent(root: Node) -> Node:
    """The status of the member agent; empty where there is none."""
    for agent in root.at("status", "agentStatus").items():
        if agent.at("type").text == "MemberAgent":
            return agent
    return Node(None, root.place)


def _condition(node: Node, kind: str) -> Node | None:
    for condition in node.at("conditions").items():
        if condition.at("type").text == kind:
            return condition
    return None


def _time(node: Node) -> datetime | None:
    return parse_time(node.text) if node.text else None


def _is_long_ago(time: datetime | None, now: datetime | None) -> bool:
    return time is None or (now is not None and now - time > _LIMIT)


def _health(root: Node, now: datetime | None) -> Health:
    """The first reason why the member is not eligible."""
    if not root.at("metadata", "deletionTimestamp").absent:
        return Health.LEAVING
    if root.at("status").absent:
        return Health.HEALTHY
    agent = _agent(root)
    joined, healthy = _condition(agent, "Joined"), _condition(agent, "Healthy")
    if agent.absent:
        return Health.NO_AGENT
    if _is_long_ago(_time(agent.at("lastReceivedHeartbeat")), now):
        return Health.NO_HEARTBEAT
    if joined is None or joined.at("status").text != "True":
        return Health.NOT_JOINED
    if healthy is None:
        return Health.NO_HEALTH
    if healthy.at("status").text == "True":
        return Health.HEALTHY
    lasting = _is_long_ago(_time(healthy.at("lastTransitionTime")), now)
    return Health.UNHEALTHY if lasting else Health.RECENTLY_UNHEALTHY
