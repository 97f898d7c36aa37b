"""Random staged runs end as KubeFleet's own controller ends them, or are never exact.

Drawn are stages, approvals, waits, orders, and bindings in the middle of a rollout. Members that
are not available before a run stay so, or all get available.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

from nexusform.domains.fleet.scheduling.bindings import Binding
from nexusform.planning.conclusion.plan_result import PlanResult
from tests.domains.fleet.judge.judge import (
    CASES,
    FIRST_SEED,
    ask_judge,
    build_scheduling_question,
    complete_snapshots,
    needs_judge,
    select,
)
from tests.domains.fleet.planning.observed_fleet import (
    NO_ANSWER,
    NOT_AVAILABLE,
    READY,
    build_binding,
    build_body,
    build_fleet,
    plan_fleet,
)
from tests.planning.harness import list_errors

pytestmark = needs_judge
Body = dict[str, Any]


def draw_stage(draw: random.Random, name: str, selector: Body | None) -> Body:
    stage: Body = {"name": name}
    if selector is not None:
        stage["labelSelector"] = selector
    if draw.random() < 0.5:
        stage["sortingLabelKey"] = "order"
    if draw.random() < 0.7:
        stage["maxConcurrency"] = draw.choice([1, 2, "50%", "34%", "100%"])
    if draw.random() < 0.15:
        stage["beforeStageTasks"] = [{"type": "Approval"}]
    after = []
    if draw.random() < 0.2:
        after.append({"type": "TimedWait", "waitTime": "1h"})
    if draw.random() < 0.15:
        after.append({"type": "Approval"})
    if after:
        stage["afterStageTasks"] = after
    return stage


def draw_strategy(draw: random.Random) -> Body:
    """Draw stages that have each cluster once, or rarely none or two for a cluster."""
    regions = [{"matchLabels": {"region": name}} for name in ("east", "west")]
    selectors: list[Body | None] = list(draw.choice([[{}], regions, regions[::-1]]))
    if draw.random() < 0.15:
        selectors = [*selectors, draw.choice([None, regions[0]])]
    stages = [draw_stage(draw, f"s{n}", item) for n, item in enumerate(selectors)]
    return build_body("ClusterStagedUpdateStrategy", "s", {"stages": stages}, {})


def draw_binding(draw: random.Random, name: str) -> Body:
    state = draw.choice(["Bound", "Bound", "Bound", "Scheduled", "Unscheduled"])
    failure = draw.choice([READY, READY, READY, READY, NOT_AVAILABLE, NO_ANSWER])
    binding = build_binding(
        name,
        failure,
        snapshot=draw.choice([0, 0, 1]),
        state=state,
        previous_state="Bound" if state == "Unscheduled" else "",
    )
    scores = {"affinityScore": 0, "priorityScore": 0}
    decision = {"clusterName": name, "selected": True, "reason": "picked", "clusterScore": scores}
    binding["spec"]["clusterDecision"] = decision
    if state == "Scheduled":
        del binding["spec"]["resourceSnapshotName"]
        binding["status"]["conditions"].clear()
    return binding


def draw_fleet(draw: random.Random) -> list[Mapping[str, Any]]:
    """Draw the objects of a hub with a staged run that it has not seen."""
    names = [f"m{number}" for number in range(1, draw.randint(2, 7))]
    bindings = [draw_binding(draw, name) for name in names]
    picked = [item for item in bindings if item["spec"]["state"] != "Unscheduled"]
    spec = {
        "placementName": "web",
        "stagedRolloutStrategyName": "s",
        "resourceSnapshotIndex": draw.choice(["1", "1", "1", "1", "0"]),
        "state": draw.choice(["Run"] * 7 + ["Initialize"]),
    }
    objects = build_fleet(
        bindings,
        policy={"placementType": "PickN", "numberOfClusters": len(picked)},
        strategy={"type": "External"},
        members=names,
        newest=1,
        others=[draw_strategy(draw), build_body("ClusterStagedUpdateRun", "r", spec, {})],
    )
    for body in objects:
        if body["kind"] == "MemberCluster":
            body["metadata"]["labels"] |= {"region": draw.choice(["east", "west"])}
            if draw.random() < 0.99:
                body["metadata"]["labels"]["order"] = str(draw.randint(0, 12))
    return objects


def build_question(objects: list[Mapping[str, Any]], *, get_ready: bool) -> Body:
    """Build the question of a run; with `get_ready` every member gets available."""
    bindings = select(objects, "ClusterResourceBinding")
    return {
        "placement": select(objects, "ClusterResourcePlacement")[0],
        "policy": select(objects, "ClusterSchedulingPolicySnapshot")[0],
        "snapshots": select(objects, "ClusterResourceSnapshot"),
        "strategy": select(objects, "ClusterStagedUpdateStrategy")[0],
        "run": select(objects, "ClusterStagedUpdateRun")[0],
        "bindings": bindings,
        "members": select(objects, "MemberCluster"),
        "ready": [
            item["spec"]["targetCluster"]
            for item in bindings
            if get_ready or all(each["status"] == "True" for each in item["status"]["conditions"])
        ],
    }


def draw_fleets(draw: random.Random, count: int) -> list[list[Mapping[str, Any]]]:
    fleets = [draw_fleet(draw) for _ in range(count)]
    answers = ask_judge("scheduling", map(build_scheduling_question, fleets))
    for objects, answer in zip(fleets, answers, strict=True):
        complete_snapshots(objects, answer["hash"])
    return fleets


def read_prediction(result: PlanResult) -> tuple[dict[str, list[str]], set[str]]:
    """Return state and snapshot by cluster, and the clusters that are not exact."""
    rows = [row for row in result.plan.placements if row.kind == "binding"]
    predicted = {
        row.object: [
            str(row.target.state),
            ""
            if row.target.resource_snapshot is None
            else f"web-{row.target.resource_snapshot}-snapshot",
        ]
        for row in rows
        if isinstance(row.target, Binding)
    }
    return predicted, {row.object for row in rows if "depends_on" in row.scores}


def list_differences(predicted: Mapping[str, Any], expected: Mapping[str, Any]) -> set[str]:
    clusters = predicted.keys() | expected.keys()
    return {name for name in clusters if predicted.get(name) != expected.get(name)}


def test_random_runs() -> None:
    draw = random.Random(FIRST_SEED + 5)
    fleets = draw_fleets(draw, CASES)
    silent = ask_judge("run", [build_question(fleet, get_ready=False) for fleet in fleets])
    ready = ask_judge("run", [build_question(fleet, get_ready=True) for fleet in fleets])
    moved = 0
    for objects, if_silent, if_ready in zip(fleets, silent, ready, strict=True):
        question = json.dumps(build_question(objects, get_ready=False))
        result = plan_fleet(objects)
        assert not list_errors(result), (list_errors(result), question)
        predicted, doubtful = read_prediction(result)
        # A plan tells what happens if those that are not available stay so.
        assert not list_differences(predicted, if_silent["bindings"]), (if_silent, question)
        differing = list_differences(predicted, if_ready["bindings"])
        assert differing <= doubtful, (differing, doubtful, if_ready, question)
        moved += any(each[1] == "web-1-snapshot" for each in if_silent["bindings"].values())
    assert moved > len(fleets) / 2
