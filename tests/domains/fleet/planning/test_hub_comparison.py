"""Iterations of random fleets, compared with a running hub.

A plan from the earlier dump predicts the bindings and every message of the later status, and a plan
from the later dump predicts no change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.domains.fleet.planning.hub_dumps import build_configuration, get_object_key
from tests.domains.fleet.planning.test_hub_stories import (
    Dump,
    list_bindings,
    list_conditions,
    list_predicted_bindings,
)
from tests.planning.harness import list_errors, list_warnings, plan

ROUNDS: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("rounds_beside_a_hub.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("beside", ROUNDS, ids=lambda beside: str(beside["name"]).replace(" ", "-"))
@pytest.mark.parametrize("begin", ["written", "after"])
def test_plan_predicts_bindings_and_messages(beside: Mapping[str, Any], begin: str) -> None:
    name = beside["placement"]
    end = {get_object_key(body): body for body in [*beside["stays"], *beside["after"]]}
    result = plan(
        _build_failing_configuration(beside["fails"]),
        files_there=Dump([*beside["stays"], *beside[begin]]),
    )
    assert not list_errors(result)
    assert list_predicted_bindings(result)[name] == list_bindings(end)[name]
    (after,) = (
        change.after
        for change in result.plan.changes
        if change.address.type == "fleet_cluster_resource_placement" and change.after
    )
    status = end["ClusterResourcePlacement", "", name]["status"]
    wanted = list_conditions(name, status["conditions"], status["placementStatuses"])
    assert list_conditions(name, after["conditions"], after["placement_statuses"]) == wanted


def test_uncaptured_override_snapshots_are_named_without_changes() -> None:
    beside = next(each for each in ROUNDS if "held up goes on" in each["name"])
    quiet = [*beside["stays"], *beside["written"]]
    objects = [body for body in quiet if not body["kind"].endswith("OverrideSnapshot")]
    result = plan(_build_failing_configuration(beside["fails"]), files_there=Dump(objects))
    assert not list_errors(result)
    missing = [each.detail for each in list_warnings(result) if each.id == "not-captured"]
    assert len(missing) == 1
    assert "ResourceOverrideSnapshot s11-d/o0-0 was not captured" in missing[0]
    assert list_predicted_bindings(result) == {"s11-d": {"m1": ("Bound", 3), "m2": ("Bound", 3)}}


def _build_failing_configuration(fails: Sequence[str]) -> str:
    """Return the configuration for a dump, with members that fail every apply."""
    named = f"  name       = each.key\n  apply_fails = contains({json.dumps(fails)}, each.key)\n"
    return (
        build_configuration().replace("  name       = each.key\n", named, 1)
        if fails
        else build_configuration()
    )
