"""Each prefix of a recorded hub story is a dump.

It plans, and the plan predicts the later behaviour of the hub.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.domains.fleet.planning.hub_dumps import (
    Key,
    build_configuration,
    get_object_key,
    needs_recordings,
    read_recording,
    replay_events,
)
from tests.kill_points import select_cases
from tests.planning.harness import PlanResult, list_errors, plan

pytestmark = needs_recordings

FOUR = {
    "lon1": {"env": "prod"},
    "par1": {"env": "prod"},
    "ams1": {"env": "prod"},
    "fra1": {"env": "canary"},
}
FIVE = {f"m{n}": {"region": "east" if n < 3 else "west", "order": str(2 * n)} for n in range(1, 6)}
TWO: dict[str, dict[str, str]] = {"b": {}, "m9": {}}
MEMBERS = {
    "run-applied-with-its-placement": TWO,
    **dict.fromkeys(
        ("create-scale-policy", "external-run", "content-change", "failed-apply"), FOUR
    ),
    **dict.fromkeys(("eviction", "member-leaves", "delete-held"), FOUR),
}
# First prefixes of stories with a turn unpredictable from dumps (one has an override rejected by
# webhooks absent on that hub), and single prefixes with less data than the hub had: an executed
# eviction without a recorded deletion of its binding.
KNOWN_AHEAD = {"rollout-with-failing-members": 40, "override-of-defaulted-paths": 62}
SAYS_LESS = {("eviction-while-a-run-waits", 24)}
FORETOLD = (
    "create-scale-policy",
    "external-run",
    "override-without-placement",
    "override-fails-on-one",
    "override-of-defaulted-paths",
    "run-resumes-after-another",
    "run-aborted-by-changes",
    "eviction-while-a-run-waits",
    "evictions-with-budgets",
    "rollout-with-failing-members",
)
# The recordings of these are too sparse to predict from; they are only planned.
PLANNED = (
    "content-change",
    "eviction",
    "failed-apply",
    "delete-held",
    "run-applied-with-its-placement",
)


class Dump:
    """A file read by a data source."""

    def __init__(self, objects: Sequence[Mapping[str, Any]]) -> None:
        self.content = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode()

    def read(self, _path: str) -> bytes:
        return self.content

    def glob(self, _base: str, _pattern: str) -> list[str]:
        return []


def build_member(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    # Within five minutes of the heartbeats in the recordings, so that no member is unreachable.
    now = "2026-11-21T02:10:00Z"
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": now}
        for kind in ("Joined", "Healthy")
    ]
    agent = {"type": "MemberAgent", "lastReceivedHeartbeat": now, "conditions": conditions}
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {"identity": {"kind": "ServiceAccount", "name": "x", "namespace": "fleet-system"}},
        "status": {"agentStatus": [agent]},
    }


def build_start(story: str, events: Sequence[Mapping[str, Any]]) -> dict[Key, Any]:
    """Return the objects before a story: its members, and objects first reported as modified."""
    objects: dict[Key, Any] = {}
    seen: set[Key] = set()
    for event in events:
        if "event" in event:
            key = get_object_key(event["object"])
            if key not in seen and event["event"] != "ADDED":
                objects[key] = event["object"]
            seen.add(key)
    for name, labels in MEMBERS.get(story, FIVE).items():
        body = build_member(name, labels)
        objects[get_object_key(body)] = body
    return objects


Holds = dict[str, dict[str, tuple[str, int | None]]]


def list_bindings(objects: Mapping[Key, Any]) -> Holds:
    """Return state and resource snapshot per placement and cluster on the hub."""
    holds: Holds = {}
    for (kind, _, _), body in objects.items():
        if kind != "ClusterResourceBinding" or "deletionTimestamp" in body["metadata"]:
            continue
        owner = body["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"]
        spec = body["spec"]
        snapshot = (
            (spec.get("resourceSnapshotName") or "").removeprefix(f"{owner}-").partition("-")[0]
        )
        index = int(snapshot) if snapshot else None
        holds.setdefault(owner, {})[spec["targetCluster"]] = spec["state"], index
    return holds


def list_predicted_bindings(result: PlanResult) -> Holds:
    """Return state and resource snapshot per placement and cluster after the plan."""
    holds: Holds = {}
    for change in result.plan.changes:
        if change.address.type == "fleet_cluster_resource_placement" and change.after:
            bindings = change.after["bindings"] or {}
            holds[change.after["id"]] = {
                cluster: (binding["state"], binding["resource_snapshot"])
                for cluster, binding in bindings.items()
            }
    return holds


def list_uncertain_bindings(result: PlanResult) -> set[tuple[str, str]]:
    """Return (placement, cluster) of the bindings that depend on when others are available."""
    return {
        (str(row.address.key), row.object)
        for row in result.plan.placements
        if str(row.scores.get("depends_on", "")).startswith("the availability of ")
    }


def find_end_of_turn(events: Sequence[Mapping[str, Any]], at: int) -> int | None:
    """Return the last event before the next action of a user, or None.

    The result is None if a request is still to come.
    """
    marks = [n for n, event in enumerate(events) if "note" in event]
    marks = marks or [n for n, event in enumerate(events) if _is_write(event)]
    end = next((mark - 1 for mark in marks if mark > at), len(events) - 1)
    to_come = any(_is_write(event) for event in events[at + 1 : end + 1])
    return None if to_come or "note" in events[at] else end


def _is_write(event: Mapping[str, Any]) -> bool:
    return "request" in event and event["request"]["method"] != "GET"


@pytest.mark.parametrize("story", select_cases(FORETOLD))
def test_every_prefix_predicts_the_next_hub_state(story: str) -> None:
    events = read_recording(story)["events"]
    states = list(replay_events(events, build_start(story, events)))
    planned = 0
    for at in range(KNOWN_AHEAD.get(story, len(states))):
        end = find_end_of_turn(events, at)
        if end is None or (story, at) in SAYS_LESS:
            continue
        result = plan(build_configuration(), files_there=Dump(list(states[at].values())))
        assert not list_errors(result), (at, list_errors(result))
        predicted = list_predicted_bindings(result)
        observed = {key: list_bindings(states[end]).get(key, {}) for key in predicted}
        for key, cluster in list_uncertain_bindings(result):
            predicted[key].pop(cluster, None)
            observed[key].pop(cluster, None)
        assert predicted == observed, (at, events[at])
        planned += 1
    assert planned > 20


@pytest.mark.parametrize("story", PLANNED)
def test_every_prefix_plans(story: str) -> None:
    events = read_recording(story)["events"]
    for at, objects in enumerate(replay_events(events, build_start(story, events))):
        if at % 5 == 0 or at > len(events) - 4:
            result = plan(build_configuration(), files_there=Dump(list(objects.values())))
            assert not list_errors(result), (at, list_errors(result))


Told = dict[str, list[tuple[str, str, str, str]]]


def list_conditions(
    placement: str, conditions: Sequence[Mapping[str, Any]], clusters: Sequence[Mapping[str, Any]]
) -> Told:
    """Return the conditions of a placement, and of each cluster."""
    parts = {placement: conditions} | {
        str(each.get("clusterName") or each.get("cluster_name") or ""): each["conditions"]
        for each in clusters
    }
    names = ("type", "status", "reason", "message")
    return {
        part: [(one[names[0]], one[names[1]], one[names[2]], one[names[3]]) for one in listed]
        for part, listed in parts.items()
    }


@pytest.mark.parametrize(
    "story", ["create-scale-policy", "external-run", "run-resumes-after-another"]
)
def test_status_equals_the_status_of_the_hub(story: str) -> None:
    events = read_recording(story)["events"]
    states = list(replay_events(events, build_start(story, events)))
    ends = {find_end_of_turn(events, at): at for at in reversed(range(len(states)))}
    compared = 0
    for end, at in ends.items():
        if end is None:
            continue
        result = plan(build_configuration(), files_there=Dump(list(states[at].values())))
        for change in result.plan.changes:
            if change.address.type != "fleet_cluster_resource_placement" or not change.after:
                continue
            name = change.after["id"]
            after = change.after
            status = states[end]["ClusterResourcePlacement", "", name]["status"]
            wanted = list_conditions(name, status["conditions"], status["placementStatuses"])
            assert list_conditions(name, after["conditions"], after["placement_statuses"]) == wanted
            compared += 1
    assert compared >= 3
