"""Tests of changes made outside of nexusform that a plan reverts."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.levels import PlacementImpact
from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.plans.plan import Plan
from nexusform.rendering.json.json_placements import (
    build_decision_document,
    build_summed_decision_document,
)
from nexusform.rendering.report.decision_lines import build_decision_lines
from nexusform.rendering.report.decision_record import build_decision_record
from nexusform.rendering.report.plan_verdict import compute_impact
from nexusform.state.objects import State
from tests.planning.harness import at, build_all_types, build_state, plan

TEXT = """
resource "nexus_site" "lab" {
  name = "lab"
}

resource "nexus_rack" "r" {
  count             = 3
  name              = "r${count.index + 1}"
  site_id           = nexus_site.lab.id
  availability_zone = count.index + 1
  machine_count     = 4
}

resource "nexus_kubernetes_cluster" "c" {
  name               = "oslo-lab"
  site_id            = nexus_site.lab.id
  kubernetes_version = "1.30.3"
  control_plane {
    count       = 3
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "fwd" {
    count       = 3
    vm_sku_name = "NC_P10_56_v1"
  }
}
"""
CLUSTER = "nexus_kubernetes_cluster.c"


@pytest.fixture(scope="module")
def state() -> State:
    return build_state(TEXT)


def plan_after(state: State, text: str = TEXT, **observed: Any) -> Plan:
    """Plan after others changed arguments of the cluster; without any, it was deleted."""
    old = state.instances[at(CLUSTER)].current
    assert old is not None
    found = replace(old, attributes={**old.attributes, **observed}) if observed else None
    result = plan(text, state, refreshed_objects={at(CLUSTER): found})
    return add_site_capacity(result, build_all_types()).plan


def list_lines(made: Plan) -> list[str]:
    return [
        text
        for line in build_decision_lines(made)
        if line.label == "Changed outside"
        for text in line.texts
    ]


def test_deleted_object_is_created_again(state: State) -> None:
    made = plan_after(state)
    assert list_lines(made) == ["oslo-lab was deleted; a merge creates it again"]
    assert compute_impact(made) is not PlacementImpact.NONE


def test_changed_count_is_set_back(state: State) -> None:
    old = state.instances[at(CLUSTER)].current
    assert old is not None
    pools = {"fwd": {**old.attributes["agent_pool"]["fwd"], "count": 2}}
    made = plan_after(state, agent_pool=pools)
    assert list_lines(made) == ["oslo-lab: fwd count 3 -> 2; a merge sets it back"]
    labels = [line.label for line in build_decision_lines(made)]
    assert labels[0] == "Changed outside"
    row = {
        "address": CLUSTER,
        "name": "oslo-lab",
        "reversal": "sets_back",
        "arguments": ["fwd count 3 -> 2"],
    }
    assert build_decision_document(made)["changed_outside"] == [row]
    records = {"oslo": build_decision_record(made)}
    summed = build_summed_decision_document(records, ())
    assert summed["changed_outside"] == [{"site": "oslo", **row}]
    assert compute_impact(made) is PlacementImpact.MOVES


def test_failed_plan_says_who_raised_the_version(state: State) -> None:
    made = plan_after(state, kubernetes_version="1.31.5")
    assert made.errored
    [row] = build_decision_document(made)["changed_outside"]
    assert row["arguments"] == ["kubernetes_version 1.30.3 -> 1.31.5"]
    assert list_lines(made) == [
        "oslo-lab: kubernetes_version 1.30.3 -> 1.31.5; the configuration sets it back"
    ]


def test_change_that_the_configuration_has_now_is_not_listed(state: State) -> None:
    text = TEXT.replace('"1.30.3"', '"1.31.5"')
    assert list_lines(plan_after(state, text, kubernetes_version="1.31.5")) == []
    # A computed attribute is read, not reverted.
    assert list_lines(plan_after(state, node_count=5)) == []
