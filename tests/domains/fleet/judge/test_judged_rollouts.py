"""Random rollouts and evictions are decided as KubeFleet's own code decides them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, Final

import pytest

from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.scheduling.rolling_update import RolloutProjection
from tests.domains.fleet.judge.judge import CASES, FIRST_SEED, ask_judge, needs_judge, select
from tests.domains.fleet.planning.observed_fleet import (
    build_binding,
    build_body,
    build_fleet,
    plan_fleet,
)
from tests.planning.harness import list_errors

pytestmark = needs_judge
# Steps of a binding with reasons of False, also one that no version of KubeFleet has.
REASONS: Final = {
    "Overridden": ("OverriddenFailed", "OverriddenPending", "Odd"),
    "WorkSynchronized": ("SyncWorkFailed", "WorkNotSynchronizedYet", "Odd"),
    "Applied": ("NotAllWorkHaveBeenApplied", "ApplyPending", "ApplyInProgress", "Odd"),
    "Available": ("NotAllWorkAreAvailable", "ResourceNotAvailableYet", "Odd"),
}


def draw_binding(draw: random.Random, cluster: str) -> dict[str, Any]:
    """Draw a binding in any state and with any progress."""
    failure = ("", "")
    if draw.random() < 0.5:
        step = draw.choice(list(REASONS))
        failure = (step, draw.choice(REASONS[step]))
    state = draw.choice(["Bound", "Bound", "Bound", "Scheduled", "Unscheduled"])
    binding = build_binding(
        cluster,
        failure,
        snapshot=draw.choice([0, 1]),
        state=state,
        previous_state="Bound" if state == "Unscheduled" else "",
    )
    conditions = binding["status"]["conditions"]
    for condition in conditions:
        condition["message"] = ""
    if state == "Scheduled":
        del binding["spec"]["resourceSnapshotName"]
        conditions.clear()
    elif draw.random() < 0.1:
        # Of an earlier generation, so not known.
        conditions[-1]["observedGeneration"] = 0
    return binding


def draw_fleet(draw: random.Random, *, allows_new: bool = True) -> list[Mapping[str, Any]]:
    """Draw the objects of a hub whose scheduler has nothing to do."""
    names = [f"m{number}" for number in range(1, draw.randint(2, 8))]
    bindings = [draw_binding(draw, name) for name in names]
    if not allows_new:
        bindings = [item for item in bindings if item["spec"]["state"] == "Bound"] or [
            build_binding(names[0])
        ]
    picked = [item for item in bindings if item["spec"]["state"] != "Unscheduled"]
    amounts = [0, 1, 2, "25%", "50%", "100%"]
    limits = {name: draw.choice(amounts) for name in ("maxUnavailable", "maxSurge")}
    return build_fleet(
        bindings,
        policy={"placementType": "PickN", "numberOfClusters": len(picked)},
        strategy={"type": "RollingUpdate", "rollingUpdate": limits},
        members=names,
        newest=1,
    )


def build_question(objects: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "placement": select(objects, "ClusterResourcePlacement")[0],
        "snapshot": {"metadata": {"name": "web-1-snapshot"}},
        "bindings": select(objects, "ClusterResourceBinding"),
    }


def test_first_wave_of_random_rollouts(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(FIRST_SEED)
    fleets = [draw_fleet(draw) for _ in range(CASES)]
    answers = ask_judge("rollout", map(build_question, fleets))
    projections: list[RolloutProjection] = []
    project = PlacementPlan.project_rollout

    def record_projection(placement: PlacementPlan) -> RolloutProjection:
        projections.append(project(placement))
        return projections[-1]

    monkeypatch.setattr(PlacementPlan, "project_rollout", record_projection)
    moved = 0
    for objects, answer in zip(fleets, answers, strict=True):
        result = plan_fleet(objects)
        assert not list_errors(result), list_errors(result)
        wave = projections[-1].waves[0] if projections[-1].waves else None
        expected = [sorted(answer[kind]) for kind in ("deleted", "updated", "bound")]
        predicted: list[list[str]] = [[], [], []]
        if wave is not None:
            parts = (wave.deleted_clusters, wave.updated_clusters, wave.bound_clusters)
            predicted = list(map(sorted, parts))
        assert predicted == expected, json.dumps(build_question(objects))
        # What a hub does at once depends on no other cluster.
        assert projections[-1].conditional_clusters.isdisjoint(chain.from_iterable(expected))
        moved += any(expected)
    assert moved > len(fleets) / 3


def test_random_evictions() -> None:
    draw = random.Random(FIRST_SEED + 1)
    questions: list[dict[str, Any]] = []
    fleets: list[list[Mapping[str, Any]]] = []
    for _ in range(CASES):
        objects = draw_fleet(draw, allows_new=False)
        bindings = select(objects, "ClusterResourceBinding")
        cluster = draw.choice(bindings)["spec"]["targetCluster"]
        spec = {"placementName": "web", "clusterName": cluster}
        eviction = build_body("ClusterResourcePlacementEviction", "e", spec, {})
        others = [eviction]
        question = {**build_question(objects), "eviction": select([eviction], eviction["kind"])[0]}
        if draw.random() < 0.8:
            name = draw.choice(["minAvailable", "maxUnavailable"])
            amount = {name: draw.choice([0, 1, 2, "50%", "100%"])}
            budget = build_body("ClusterResourcePlacementDisruptionBudget", "web", amount, {})
            others.append(budget)
            question["budget"] = select([budget], budget["kind"])[0]
        questions.append(question)
        fleets.append([*objects, *others])
    answers = ask_judge("eviction", questions)
    for objects, answer, question in zip(fleets, answers, questions, strict=True):
        result = plan_fleet(objects)
        (change,) = (
            item for item in result.plan.changes if item.address.type == "fleet_placement_eviction"
        )
        assert change.private is not None
        predicted = change.private["predicted"]
        assert {name: predicted[name] for name in answer} == answer, json.dumps(question)
    assert {answer["executed"] for answer in answers} == {True, False}
