"""Tests of objects on a hub that no block has: they act in the prediction, and have one line."""

from __future__ import annotations

from typing import Any

from nexusform.domains.fleet.planning.unmanaged_objects import UNMANAGED
from tests.domains.fleet.planning.hub_dumps import ATTRIBUTES, build_configuration
from tests.domains.fleet.planning.observed_fleet import (
    build_binding,
    build_body,
    build_fleet,
    build_run,
)
from tests.domains.fleet.planning.test_hub_stories import Dump
from tests.domains.fleet.planning.test_readiness import list_rows
from tests.planning.harness import PlanResult, list_errors, list_warnings, plan

THREE = ("m1", "m2", "m3")
EXTERNAL = {"type": "External"}


def plan_without_blocks(objects: list[Any]) -> PlanResult:
    """Plan a dump with blocks for its placements, members and manifests only."""
    without = [name for name in ATTRIBUTES if not name.endswith("_placements")]
    text = build_configuration()
    for name in without:
        block = f'resource "{ATTRIBUTES[name]}" "all" {{\n  for_each = '
        start = text.index(block)
        text = text[:start] + text[text.index("\n}\n", start) + 3 :]
    result = plan(text, files_there=Dump(objects))
    assert not list_errors(result)
    return result


def list_lines(result: PlanResult) -> list[str]:
    return [item.brief for item in list_warnings(result) if item.id == UNMANAGED]


def test_staged_run_moves_content() -> None:
    objects = build_fleet(
        [build_binding(name) for name in THREE], strategy=EXTERNAL, newest=1, others=build_run()
    )
    result = plan_without_blocks(objects)
    assert {name: row[:2] for name, row in list_rows(result).items()} == dict.fromkeys(
        THREE, ("update", 1)
    )
    assert list_lines(result) == [
        "On the hub, not here: cluster staged update run r: moves content of web to m1, m2, m3"
    ]


def test_run_that_waits_moves_nothing() -> None:
    objects = build_fleet(
        [build_binding(name) for name in THREE],
        strategy=EXTERNAL,
        newest=1,
        others=build_run(state="Initialize"),
    )
    result = plan_without_blocks(objects)
    assert {row[:2] for row in list_rows(result).values()} == {("keep", 0)}
    assert not list_lines(result)


def test_run_of_a_rolling_update_is_named() -> None:
    objects = build_fleet([build_binding(name) for name in THREE], others=build_run())
    (warning,) = [
        item for item in list_warnings(plan_without_blocks(objects)) if item.id != UNMANAGED
    ]
    assert warning.detail == (
        "On the hub, not here: cluster staged update run r: web: its strategy is not External."
    )


def test_eviction_removes_a_cluster() -> None:
    eviction = build_body(
        "ClusterResourcePlacementEviction", "e", {"placementName": "web", "clusterName": "m2"}, {}
    )
    policy = {"placementType": "PickN", "numberOfClusters": 2}
    objects = build_fleet(
        [build_binding("m2"), build_binding("m3")], policy=policy, others=[eviction]
    )
    result = plan_without_blocks(objects)
    removed = [row.object for row in result.plan.placements if row.action == "remove"]
    assert removed == ["m2"]
    assert list_lines(result) == ["On the hub, not here: placement eviction e: removes web from m2"]


def test_blocked_eviction_is_named() -> None:
    budget = build_body("ClusterResourcePlacementDisruptionBudget", "web", {"minAvailable": 3}, {})
    eviction = build_body(
        "ClusterResourcePlacementEviction", "e", {"placementName": "web", "clusterName": "m2"}, {}
    )
    objects = build_fleet([build_binding(name) for name in THREE], others=[budget, eviction])
    result = plan_without_blocks(objects)
    assert {row[0] for row in list_rows(result).values()} == {"keep"}
    (warning,) = (item for item in list_warnings(result) if item.id == "eviction-not-executed")
    assert warning.detail.startswith("On the hub, not here: placement eviction e: Eviction is")


def test_override_deletes_the_object_on_new_clusters() -> None:
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "web"}
    override = build_body(
        "ClusterResourceOverride",
        "o",
        {
            "clusterResourceSelectors": [selector],
            "policy": {
                "overrideRules": [
                    {"clusterSelector": {"clusterSelectorTerms": []}, "overrideType": "Delete"}
                ]
            },
        },
        {},
    )
    objects = build_fleet([build_binding(name) for name in THREE[:2]], others=[override])
    result = plan_without_blocks(objects)
    assert list_lines(result) == [
        "On the hub, not here: override o: deletes Namespace web on 3 clusters"
    ]
    (change,) = [
        item
        for item in result.plan.changes
        if item.address.type == "fleet_cluster_resource_placement"
    ]
    assert change.after is not None
    assert set(change.after["bindings"]) == {*THREE}
