"""Rounds of random fleets beside a running hub: from the dump before, each plan foretells the bindings and
every word of the status after, and from the dump after, nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.domains.fleet.planning.hub_dumps import configuration, key_of
from tests.domains.fleet.planning.test_hub_stories import Dump, foretold, held, told
from tests.planning.harness import errors, plan, warnings

ROUNDS: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("rounds_beside_a_hub.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("beside", ROUNDS, ids=lambda beside: str(beside["name"]).replace(" ", "-"))
@pytest.mark.parametrize("begin", ["written", "after"])
def test_plan_predicts_bindings_and_messages(beside: Mapping[str, Any], begin: str) -> None:
    name = beside["placement"]
    end = {key_of(body): body for body in [*beside["stays"], *beside["after"]]}
    result = plan(_with_failing(beside["fails"]), files_there=Dump([*beside["stays"], *beside[begin]]))
    assert not errors(result)
    assert foretold(result)[name] == held(end)[name]
    (after,) = (
        change.after
        for change in result.plan.changes
        if change.address.type == "fleet_cluster_resource_placement" and change.after
    )
    status = end["ClusterResourcePlacement", "", name]["status"]
    wanted = told(name, status["conditions"], status["placementStatuses"])
    assert told(name, after["conditions"], after["placement_statuses"]) == wanted


def test_override_snapshots_that_were_not_captured_are_named_and_change_nothing() -> None:
    beside = next(each for each in ROUNDS if "held up goes on" in each["name"])
    quiet = [*beside["stays"], *beside["written"]]
    objects = [body for body in quiet if not body["kind"].endswith("OverrideSnapshot")]
    result = plan(_with_failing(beside["fails"]), files_there=Dump(objects))
    assert not errors(result)
    missing = [each.detail for each in warnings(result) if each.id == "not-captured"]
    assert len(missing) == 1
    assert "ResourceOverrideSnapshot s11-d/o0-0 was not captured" in missing[0]
    assert foretold(result) == {"s11-d": {"m1": ("Bound", 3), "m2": ("Bound", 3)}}


def _with_failing(fails: Sequence[str]) -> str:
    """The configuration over a dump, with members on which nothing can be applied."""
    named = f"  name       = each.key\n  apply_fails = contains({json.dumps(fails)}, each.key)\n"
    return configuration().replace("  name       = each.key\n", named, 1) if fails else configuration()
