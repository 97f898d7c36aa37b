"""Random fleets are scheduled as KubeFleet's own scheduler schedules them, or never exact.

Drawn are members with several taints and properties, also unreadable ones, members that are not
available or leave, policies with tolerations and weights, and bindings in any state.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from nexusform.domains.fleet.scheduling.bindings import Binding
from nexusform.planning.conclusion.plan_result import PlanResult
from tests.domains.fleet.judge.judge import (
    CASES,
    FIRST_SEED,
    ask_judge,
    build_scheduling_question,
    complete_snapshots,
    needs_judge,
)
from tests.domains.fleet.planning.observed_fleet import build_binding, build_fleet, plan_fleet
from tests.planning.harness import list_errors

pytestmark = needs_judge
NOW: Final = datetime(2026, 11, 21, 2, 10, tzinfo=UTC)
REGIONS: Final = ("east", "west", "north")
COUNT: Final = "kubernetes-fleet.io/node-count"
COST: Final = "kubernetes.azure.com/per-cpu-core-cost"
CPU: Final = "resources.kubernetes-fleet.io/available-cpu"
MEMORY: Final = "resources.kubernetes-fleet.io/total-memory"
Body = dict[str, Any]


def format_time(minutes: float) -> str:
    return (NOW - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def draw_agent(draw: random.Random) -> list[Body]:
    """Draw the status of a member's agent: mostly healthy, else silent, unhealthy or not joined."""
    state = draw.choice(["healthy"] * 6 + ["silent", "late", "unhealthy", "ill", "apart", "none"])
    if state == "none":
        return []
    joined = {"type": "Joined", "status": "True", "lastTransitionTime": format_time(60)}
    healthy = {"type": "Healthy", "status": "True", "lastTransitionTime": format_time(60)}
    if state in ("unhealthy", "ill"):
        since = format_time(20 if state == "unhealthy" else 2)
        healthy |= {"status": "False", "lastTransitionTime": since}
    conditions = [healthy] if state == "apart" else [joined, healthy]
    heartbeat = format_time({"silent": 20, "late": 3}.get(state, 0))
    return [{"type": "MemberAgent", "lastReceivedHeartbeat": heartbeat, "conditions": conditions}]


def draw_member(draw: random.Random, name: str) -> Body:
    labels = {"region": draw.choice(REGIONS), "tier": draw.choice(("gold", "base"))}
    if draw.random() < 0.3:
        del labels[draw.choice(sorted(labels))]
    taints = [
        {"key": key, "value": draw.choice(["", "x", "y"]), "effect": "NoSchedule"}
        for key in draw.sample(("a", "b", "c"), draw.choice((0, 0, 0, 1, 2, 3)))
    ]
    properties = {}
    for kind, values in ((COUNT, ("1", "3", "5", "9")), (COST, ("0.3", "300m", "0.25", "1"))):
        if draw.random() < 0.85:
            properties[kind] = {"value": draw.choice(values), "observationTime": format_time(1)}
    if properties and draw.random() < 0.01:
        properties[draw.choice(sorted(properties))]["value"] = "many"
    total = draw.choice((8, 16, 64))
    amounts = {"cpu": str(total), "memory": f"{4 * total}Gi"}
    free = {"cpu": f"{draw.randint(0, 4 * total) * 250}m", "memory": f"{draw.randint(0, total)}Gi"}
    body: Body = {
        "apiVersion": "cluster.kubernetes-fleet.io/v1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": {**labels, "kubernetes-fleet.io/member-name": name}},
        "spec": {
            "identity": {"kind": "ServiceAccount", "name": "x", "namespace": "fleet-system"},
            "taints": taints,
        },
        "status": {
            "agentStatus": draw_agent(draw),
            "properties": properties,
            "resourceUsage": {"capacity": amounts, "allocatable": amounts, "available": free},
        },
    }
    if draw.random() < 0.05:
        body["metadata"] |= {"deletionTimestamp": format_time(0), "finalizers": ["a.test/b"]}
    return body


def draw_requirement(draw: random.Random) -> Body:
    """Draw what a label or a property has to be."""
    operator = draw.choice(["In", "NotIn", "Exists", "DoesNotExist"])
    key = draw.choice(["region", "tier"])
    values = draw.sample(["east", "west", "gold", "base"], 2) if "In" in operator else []
    return {"key": key, "operator": operator, **({"values": values} if values else {})}


def draw_term(draw: random.Random) -> Body:
    term: Body = {}
    if draw.random() < 0.6:
        term["labelSelector"] = draw.choice(
            [
                {"matchLabels": {"region": draw.choice(REGIONS)}},
                {"matchExpressions": [draw_requirement(draw)]},
                {},
            ]
        )
    if draw.random() < 0.5:
        limits = {COUNT: ("3", "5"), COST: ("0.3", "0.5"), CPU: ("4", "8500m"), MEMORY: ("64Gi",)}
        term["propertySelector"] = {
            "matchExpressions": [
                {
                    "name": name,
                    "operator": draw.choice(["Gt", "Ge", "Lt", "Le", "Eq", "Ne"]),
                    "values": [draw.choice(limits[name])],
                }
                for name in draw.sample(sorted(limits), draw.randint(1, 2))
            ]
        }
    return term


def draw_preference(draw: random.Random) -> Body:
    preference: Body = {}
    if draw.random() < 0.6:
        preference["labelSelector"] = {"matchLabels": {"tier": draw.choice(("gold", "base"))}}
    if draw.random() < 0.6:
        order = draw.choice(("Ascending", "Descending"))
        name = draw.choice((COUNT, COST, CPU, MEMORY))
        preference["propertySorter"] = {"name": name, "sortOrder": order}
    return {"weight": draw.choice((-100, -33, 0, 7, 50, 100)), "preference": preference}


def draw_toleration(draw: random.Random, key: str) -> Body:
    toleration = draw.choice(
        [
            {"key": key, "operator": "Exists"},
            {"key": key, "operator": "Equal", "value": draw.choice(["", "x", "y"])},
            {"key": key, "value": "x"},
            # An empty key tolerates every taint.
            {"operator": "Exists"} if key == "a" else {"key": key, "operator": "Exists"},
        ]
    )
    return {**toleration, **draw.choice([{}, {"effect": "NoSchedule"}])}


def draw_policy(draw: random.Random, kind: str) -> Body:
    policy: Body = {"placementType": kind}
    if kind == "PickFixed":
        names = [f"m{number}" for number in range(1, 10)]
        return {**policy, "clusterNames": draw.sample(names, draw.randint(1, 4))}
    affinity: Body = {}
    if draw.random() < 0.5:
        terms = [draw_term(draw) for _ in range(draw.randint(1, 2))]
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"clusterSelectorTerms": terms}
    if kind == "PickN":
        policy["numberOfClusters"] = draw.randint(0, 6)
        if draw.random() < 0.6:
            preferred = [draw_preference(draw) for _ in range(draw.randint(1, 3))]
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
        if draw.random() < 0.4:
            policy["topologySpreadConstraints"] = [
                {
                    "topologyKey": key,
                    **draw.choice([{}, {"maxSkew": 1}, {"maxSkew": 2}]),
                    **draw.choice([{}, {"whenUnsatisfiable": "ScheduleAnyway"}]),
                }
                for key in draw.sample(("region", "tier"), draw.randint(1, 2))
            ]
    if affinity:
        policy["affinity"] = {"clusterAffinity": affinity}
    if draw.random() < 0.5:
        keys = draw.sample(("a", "b", "c"), draw.randint(1, 2))
        policy["tolerations"] = [draw_toleration(draw, key) for key in keys]
    return policy


def draw_bindings(draw: random.Random, names: list[str], kind: str) -> list[Body]:
    """Draw bindings in any state, of this policy or an earlier one, perhaps of no member."""
    bound = draw.sample([*names, *draw.choice([[], [], ["gone"]])], draw.randint(0, len(names)))
    bindings = []
    for cluster in sorted(bound):
        state = draw.choice(["Bound", "Bound", "Bound", "Scheduled", "Unscheduled"])
        previous = draw.choice(["Bound", "Scheduled"]) if state == "Unscheduled" else ""
        binding = build_binding(cluster, state=state, previous_state=previous)
        binding["spec"]["schedulingPolicySnapshotName"] = draw.choice(["web-0", "web-1", "web-1"])
        decision: Body = {"clusterName": cluster, "selected": True, "reason": "picked"}
        if kind != "PickFixed":
            scores = {
                "affinityScore": draw.choice((-7, 0, 50)),
                "priorityScore": draw.choice((0, 1)),
            }
            decision["clusterScore"] = scores
        binding["spec"]["clusterDecision"] = decision
        if state == "Scheduled":
            del binding["spec"]["resourceSnapshotName"]
            binding["status"]["conditions"].clear()
        bindings.append(binding)
    return bindings


def draw_fleet(draw: random.Random) -> list[Mapping[str, Any]]:
    """Draw the objects of a hub whose scheduler has not seen the present placement."""
    names = [f"m{number}" for number in range(1, draw.randint(2, 9))]
    members = [draw_member(draw, name) for name in names]
    kind = draw.choice(["PickAll", "PickFixed", "PickN", "PickN", "PickN"])
    earlier = draw_policy(draw, kind)
    policy = earlier if draw.random() < 0.5 else draw_policy(draw, kind)
    if kind == "PickN":
        policy = {**policy, "numberOfClusters": draw.randint(0, 6)}
    limits = {"maxUnavailable": "100%", "maxSurge": "100%"}
    objects = build_fleet(
        draw_bindings(draw, names, kind),
        policy=policy,
        strategy={"type": "RollingUpdate", "rollingUpdate": limits},
        members=(),
    )
    for body in objects:
        if body["kind"] == "ClusterResourcePlacement":
            body["metadata"]["generation"] = 2
        if body["kind"] == "ClusterSchedulingPolicySnapshot":
            body["metadata"]["name"] = "web-1"
            body["metadata"]["labels"]["kubernetes-fleet.io/policy-index"] = "1"
            body["spec"]["policy"] = {k: v for k, v in earlier.items() if k != "numberOfClusters"}
            labels = {**body["metadata"]["labels"], "kubernetes-fleet.io/policy-index": "0"}
            del labels["kubernetes-fleet.io/is-latest-snapshot"]
            first = {**body, "metadata": {**body["metadata"], "name": "web-0", "labels": labels}}
            members.append(first)
    return [*members, *objects]


def read_answer(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return snapshot and scores by selected cluster."""
    return {
        cluster: (int(item["snapshot"].rpartition("-")[2]), item["affinity"], item["spread"])
        for cluster, item in answer["bindings"].items()
        if item["state"] != "Unscheduled"
    }


def read_prediction(result: PlanResult) -> tuple[dict[str, Any], bool]:
    """Return the same of a plan, and whether it is exact."""
    rows = [row for row in result.plan.placements if row.kind == "binding"]
    predicted = {
        row.object: (
            row.target.policy_snapshot,
            row.target.affinity_score,
            row.target.topology_spread_score,
        )
        for row in rows
        if isinstance(row.target, Binding) and row.target.state != "Unscheduled"
    }
    return predicted, not any("depends_on" in row.scores for row in rows)


def read_words(result: PlanResult) -> tuple[str, set[str]]:
    """Return the words about the placement and about each rejected cluster that has some."""
    (change,) = (
        item
        for item in result.plan.changes
        if item.address.type == "fleet_cluster_resource_placement"
    )
    assert change.after is not None
    statuses = [item["conditions"][0] for item in change.after["placement_statuses"]]
    rejected = {item["message"] for item in statuses if item["status"] == "False"}
    conditions = change.after["conditions"]
    return conditions[0]["message"] if conditions else "", rejected


def generalize(words: str) -> str:
    """Return the words of a hub as a plan says them: without minutes, after a member has left."""
    words = re.sub(r"[\d.]+ minutes ago", "more than 5 minutes ago", words)
    return re.sub(
        r'Cluster ("\w+") is not eligible .*: cluster has left the fleet',
        r"Specified cluster \1 is not found",
        words,
    )


def test_random_fleets() -> None:
    draw = random.Random(FIRST_SEED + 2)
    fleets = [draw_fleet(draw) for _ in range(CASES)]
    answers = ask_judge("scheduling", map(build_scheduling_question, fleets))
    exact = 0
    for objects, answer in zip(fleets, answers, strict=True):
        question = json.dumps(build_scheduling_question(objects))
        complete_snapshots(objects, answer["hash"])
        result = plan_fleet(objects)
        assert not list_errors(result), (list_errors(result), question)
        fields = {doubt.field for doubt in result.plan.ledger.unread}
        assert fields <= {"status.properties.value"}, (fields, question)
        predicted, is_exact = read_prediction(result)
        # No difference is known, not even where a plan has doubts.
        assert predicted == read_answer(answer), (answer, question)
        if not answer["failure"]:
            scheduled, rejected = read_words(result)
            assert scheduled == answer["scheduled"], question
            assert rejected <= set(map(generalize, answer["rejected"].values())), question
        exact += is_exact
    assert exact > len(fleets) / 3
