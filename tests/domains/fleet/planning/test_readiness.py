"""Tests of clusters that are not ready: what needs them is a condition, never exact."""

from __future__ import annotations

import pytest

from nexusform.domains.fleet.scheduling import eviction
from tests.domains.fleet.planning.observed_fleet import (
    NO_ANSWER,
    NOT_AVAILABLE,
    READY,
    build_binding,
    build_body,
    build_fleet,
    build_run,
    plan_fleet,
)
from tests.planning.harness import PlanResult, list_warnings

_CONDITIONS = [f"the availability of {names}" for names in ("m1", "m3", "m1, m2")]


def list_rows(result: PlanResult) -> dict[str, tuple[str, int | None, str]]:
    """Return action, snapshot after the plan, and condition by cluster."""
    return {
        row.object: (
            str(row.action),
            getattr(row.target, "resource_snapshot", None),
            condition if (condition := str(row.scores.get("depends_on"))) in _CONDITIONS else "",
        )
        for row in result.plan.placements
        if row.kind == "binding"
    }


@pytest.mark.parametrize("failure", [NOT_AVAILABLE, NO_ANSWER])
def test_bad_release_holds_the_other_clusters(failure: tuple[str, str]) -> None:
    result = plan_fleet(
        build_fleet(
            [build_binding("m1", failure, snapshot=1), build_binding("m2"), build_binding("m3")],
            newest=1,
        )
    )
    condition = "the availability of m1"
    assert list_rows(result) == {
        "m1": ("keep", 1, ""),
        "m2": ("keep", 0, condition),
        "m3": ("keep", 0, condition),
    }
    (change,) = (
        item
        for item in result.plan.changes
        if item.address.type == "fleet_cluster_resource_placement"
    )
    # An apply counts them neither as correct nor as wrong.
    assert change.private is not None
    assert change.private["conditional"] == ["m2", "m3"]
    (warning,) = (item for item in list_warnings(result) if item.id == "incomplete-rollout")
    assert "m1 is not available" in warning.detail
    assert "continues when it is available" in warning.detail


def test_clusters_that_are_not_available_come_first() -> None:
    result = plan_fleet(
        build_fleet(
            [build_binding("m1"), build_binding("m2"), build_binding("m3", NOT_AVAILABLE)], newest=1
        )
    )
    condition = "the availability of m3"
    assert list_rows(result) == {
        "m1": ("keep", 0, condition),
        "m2": ("keep", 0, condition),
        "m3": ("update", 1, ""),
    }


@pytest.mark.parametrize(
    ("failure", "message"),
    [(NOT_AVAILABLE, ""), (NO_ANSWER, ""), (NO_ANSWER, "Work object web-work has failed to apply")],
)
@pytest.mark.parametrize("snapshot", [0, 1])
def test_run_waits_for_a_cluster_that_was_not_ready(
    failure: tuple[str, str], message: str, snapshot: int
) -> None:
    """New content may end a failure or not, so what comes after is a condition."""
    run = build_run()
    run[0]["spec"]["stages"][0]["maxConcurrency"] = 1
    first = build_binding("m1", failure, snapshot=snapshot)
    first["status"]["conditions"][-1]["message"] = message
    bindings = [first, build_binding("m2"), build_binding("m3")]
    result = plan_fleet(build_fleet(bindings, newest=1, strategy={"type": "External"}, others=run))
    rows = list_rows(result)
    assert rows.pop("m1")[1] == 1
    assert rows == dict.fromkeys(("m2", "m3"), ("keep", 0, "the availability of m1"))


@pytest.mark.parametrize(
    ("max_unavailable", "left"), [("25%", {"m1", "m2"}), (1, set())], ids=["default", "one"]
)
def test_shrink_to_zero_without_available_clusters(
    max_unavailable: str | int, left: set[str]
) -> None:
    result = plan_fleet(
        build_fleet(
            [
                build_binding(name, NOT_AVAILABLE, state="Unscheduled", previous_state="Bound")
                for name in ("m1", "m2")
            ],
            policy={"placementType": "PickN", "numberOfClusters": 0},
            strategy={
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": max_unavailable},
            },
        )
    )
    rows = list_rows(result)
    assert {name for name, (action, _, _) in rows.items() if action == "keep"} == left
    for name in left:
        assert rows[name][2] == "the availability of m1, m2"


_BUDGET = build_body("ClusterResourcePlacementDisruptionBudget", "web", {"minAvailable": 2}, {})


def build_eviction(cluster: str) -> dict[str, object]:
    spec = {"placementName": "web", "clusterName": cluster}
    return build_body("ClusterResourcePlacementEviction", "e", spec, {})


def test_eviction_of_unavailable_cluster_needs_no_budget() -> None:
    result = plan_fleet(
        build_fleet(
            [build_binding("m1", NOT_AVAILABLE), build_binding("m2"), build_binding("m3", READY)],
            others=[_BUDGET, build_eviction("m1")],
        )
    )
    (change,) = (
        item for item in result.plan.changes if item.address.type == "fleet_placement_eviction"
    )
    assert change.private["predicted"]["message"] == eviction.FAILED
    # With m1 available the budget would allow it as well.
    assert change.private["predicted"] == {
        "executed": True,
        "message": eviction.FAILED,
        "certain": True,
    }


def test_eviction_blocked_by_an_unavailable_cluster_is_not_certain() -> None:
    result = plan_fleet(
        build_fleet(
            [build_binding("m1", NOT_AVAILABLE), build_binding("m2"), build_binding("m3")],
            others=[_BUDGET, build_eviction("m2")],
        )
    )
    rows = list_rows(result)
    assert rows["m2"] == ("keep", 0, "the availability of m1")
    (change,) = (
        item for item in result.plan.changes if item.address.type == "fleet_placement_eviction"
    )
    assert change.private["predicted"]["executed"] is False
    assert change.private["predicted"]["certain"] is False
