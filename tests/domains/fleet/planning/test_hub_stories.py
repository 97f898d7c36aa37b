"""Every prefix of what a running hub did is a dump: it plans, and the plan foretells how the hub went on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.domains.fleet.planning.hub_dumps import Key, configuration, key_of, needs_recordings, played, recorded
from tests.kill_points import select_cases
from tests.planning.harness import PlanResult, errors, plan

pytestmark = needs_recordings

FOUR = {"lon1": {"env": "prod"}, "par1": {"env": "prod"}, "ams1": {"env": "prod"}, "fra1": {"env": "canary"}}
FIVE = {f"m{n}": {"region": "east" if n < 3 else "west", "order": str(2 * n)} for n in range(1, 6)}
TWO: dict[str, dict[str, str]] = {"b": {}, "m9": {}}
MEMBERS = {
    "run-applied-with-its-placement": TWO,
    **dict.fromkeys(("create-scale-policy", "external-run", "content-change", "failed-apply"), FOUR),
    **dict.fromkeys(("eviction", "member-leaves", "delete-held"), FOUR),
}
# From which prefix on a story has a turn that no dump shows beforehand (in one of them an override that
# webhooks refuse: that hub had none), and single prefixes that say less
# than the hub knew: an executed eviction whose binding the recording does not show going.
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
# Of these too little was recorded to know what comes; they plan.
PLANNED = ("content-change", "eviction", "failed-apply", "delete-held", "run-applied-with-its-placement")


class Dump:
    """A file that a data source reads."""

    def __init__(self, objects: Sequence[Mapping[str, Any]]) -> None:
        self.content = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode()

    def read(self, _path: str) -> bytes:
        return self.content

    def glob(self, _base: str, _pattern: str) -> list[str]:
        return []


def member(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    now = "2026-11-21T03:00:00Z"
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in ("Joined", "Healthy")]
    agent = {"type": "MemberAgent", "lastReceivedHeartbeat": now, "conditions": conditions}
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {"identity": {"kind": "ServiceAccount", "name": "x", "namespace": "fleet-system"}},
        "status": {"agentStatus": [agent]},
    }


def start_of(story: str, events: Sequence[Mapping[str, Any]]) -> dict[Key, Any]:
    """What was there before a story: its members, and what it first tells of as changed."""
    objects: dict[Key, Any] = {}
    seen: set[Key] = set()
    for event in events:
        if "event" in event:
            key = key_of(event["object"])
            if key not in seen and event["event"] != "ADDED":
                objects[key] = event["object"]
            seen.add(key)
    for name, labels in MEMBERS.get(story, FIVE).items():
        body = member(name, labels)
        objects[key_of(body)] = body
    return objects


Holds = dict[str, dict[str, tuple[str, int | None]]]


def held(objects: Mapping[Key, Any]) -> Holds:
    """Which placement holds which cluster in which state, with which resource snapshot, on the hub."""
    holds: Holds = {}
    for (kind, _, _), body in objects.items():
        if kind != "ClusterResourceBinding" or "deletionTimestamp" in body["metadata"]:
            continue
        owner = body["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"]
        spec = body["spec"]
        snapshot = (spec.get("resourceSnapshotName") or "").removeprefix(f"{owner}-").partition("-")[0]
        index = int(snapshot) if snapshot else None
        holds.setdefault(owner, {})[spec["targetCluster"]] = spec["state"], index
    return holds


def foretold(result: PlanResult) -> Holds:
    """The same after the plan."""
    holds: Holds = {}
    for change in result.plan.changes:
        if change.address.type == "fleet_cluster_resource_placement" and change.after:
            bindings = change.after["bindings"] or {}
            holds[change.after["id"]] = {
                cluster: (binding["state"], binding["resource_snapshot"]) for cluster, binding in bindings.items()
            }
    return holds


def end_of_turn(events: Sequence[Mapping[str, Any]], at: int) -> int | None:
    """The last event before somebody does the next thing; None where a request is still to come before."""
    marks = [n for n, event in enumerate(events) if "note" in event]
    marks = marks or [n for n, event in enumerate(events) if _writes(event)]
    end = next((mark - 1 for mark in marks if mark > at), len(events) - 1)
    to_come = any(_writes(event) for event in events[at + 1 : end + 1])
    return None if to_come or "note" in events[at] else end


def _writes(event: Mapping[str, Any]) -> bool:
    return "request" in event and event["request"]["method"] != "GET"


@pytest.mark.parametrize("story", select_cases(FORETOLD))
def test_every_prefix_predicts_the_next_hub_state(story: str) -> None:
    events = recorded(story)["events"]
    states = list(played(events, start_of(story, events)))
    planned = 0
    for at in range(KNOWN_AHEAD.get(story, len(states))):
        end = end_of_turn(events, at)
        if end is None or (story, at) in SAYS_LESS:
            continue
        result = plan(configuration(), files_there=Dump(list(states[at].values())))
        assert not errors(result), (at, errors(result))
        holds = foretold(result)
        assert holds == {key: held(states[end]).get(key, {}) for key in holds}, (at, events[at])
        planned += 1
    assert planned > 20


@pytest.mark.parametrize("story", PLANNED)
def test_every_prefix_plans(story: str) -> None:
    events = recorded(story)["events"]
    for at, objects in enumerate(played(events, start_of(story, events))):
        if at % 5 == 0 or at > len(events) - 4:
            result = plan(configuration(), files_there=Dump(list(objects.values())))
            assert not errors(result), (at, errors(result))


Told = dict[str, list[tuple[str, str, str, str]]]


def told(placement: str, conditions: Sequence[Mapping[str, Any]], clusters: Sequence[Mapping[str, Any]]) -> Told:
    """What a status says of a placement, and of each cluster."""
    parts = {placement: conditions} | {
        str(each.get("clusterName") or each.get("cluster_name") or ""): each["conditions"] for each in clusters
    }
    names = ("type", "status", "reason", "message")
    return {
        part: [(one[names[0]], one[names[1]], one[names[2]], one[names[3]]) for one in listed]
        for part, listed in parts.items()
    }


@pytest.mark.parametrize("story", ["create-scale-policy", "external-run", "run-resumes-after-another"])
def test_status_equals_the_status_of_the_hub(story: str) -> None:
    events = recorded(story)["events"]
    states = list(played(events, start_of(story, events)))
    ends = {end_of_turn(events, at): at for at in reversed(range(len(states)))}
    compared = 0
    for end, at in ends.items():
        if end is None:
            continue
        result = plan(configuration(), files_there=Dump(list(states[at].values())))
        for change in result.plan.changes:
            if change.address.type != "fleet_cluster_resource_placement" or not change.after:
                continue
            name, after = change.after["id"], change.after
            status = states[end]["ClusterResourcePlacement", "", name]["status"]
            wanted = told(name, status["conditions"], status["placementStatuses"])
            assert told(name, after["conditions"], after["placement_statuses"]) == wanted
            compared += 1
    assert compared >= 3
