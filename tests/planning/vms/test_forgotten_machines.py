"""Racks that are only forgotten, and forgotten VMs whose rack is not: what is said of both is true."""

from __future__ import annotations

import pytest

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.plan import Mode, PlacementAction, PlacementTotal
from nexusform.state.objects import State
from tests.planning.harness import RACKS, cluster, errors, good, places, plan, pool, rows, state_of, triggers, warnings

CLUSTER = cluster("a", pools=pool("p", 5), count=3)
TWO = RACKS.replace("= 3\n", "= 2\n", 1)
LAST = """
resource "nexus_rack" "last" {
  name          = "r2"
  site_id       = nexus_site.s.id
  machine_count = 4
}
"""
FORGET = "\nremoved {{\n from = {}\n lifecycle {{\n destroy = false\n }}\n}}\n"
STRANDED = "deleted-machine-with-vms"


@pytest.fixture(scope="module", name="state")
def _state() -> State:
    return state_of(TWO + LAST + CLUSTER)


def on_last(state: State) -> set[str]:
    names = {name for name, (machine, _) in places(state).items() if machine.startswith("r2-")}
    assert names
    return names


def total(result: PlanResult) -> PlacementTotal:
    (figures,) = [each for each in result.plan.placement_totals if each.kind == "vm"]
    return figures


def test_vms_leave_a_rack_that_nobody_manages_any_more(state: State) -> None:
    result = good(plan(TWO + FORGET.format("nexus_rack.last") + CLUSTER, state))
    assert triggers(result) == dict.fromkeys(on_last(state), ("move", "machine_forgotten"))


def test_one_that_is_forgotten_under_a_target_does_not_go(state: State) -> None:
    text = TWO + FORGET.format("nexus_rack.last") + CLUSTER
    result = plan(text, state, targets=("nexus_rack.last",))
    (problem,) = errors(result)
    assert problem.id == STRANDED
    assert "nexus_rack.last is forgotten with this plan" in problem.detail
    assert "goes" not in problem.detail
    assert "Add -target='nexus_kubernetes_cluster.a'" in problem.detail
    assert triggers(result) == dict.fromkeys(on_last(state), ("lose_machine", "machine_forgotten"))
    good(plan(text, state, targets=("nexus_rack.last", "nexus_kubernetes_cluster.a")))


def test_nor_does_one_that_was_taken_out_of_the_state(state: State) -> None:
    kept = {address: each for address, each in state.instances.items() if address.name != "last"}
    without = State(state.lineage, 2, "0.1", state.catalogue, kept)
    result = good(plan(TWO + CLUSTER, without, targets=("nexus_rack.r",)))
    assert {row.reason for row in rows(result).values()} == {"its machine is no longer managed"}
    (warning,) = [each for each in warnings(result) if each.id == "vms-on-missing-machine"]
    assert "neither the configuration nor the state contains" in warning.detail
    refreshed = good(plan(TWO + CLUSTER, without, mode=Mode.REFRESH_ONLY))
    assert {row.trigger for row in rows(refreshed).values()} == {"machine_forgotten"}


def test_a_rack_with_fewer_machines_loses_them(state: State) -> None:
    text = TWO + LAST.replace("machine_count = 4", "machine_count = 0") + CLUSTER
    (problem,) = errors(plan(text, state, targets=("nexus_rack.last",)))
    assert "nexus_rack.last loses machines with this plan" in problem.detail


def test_vms_cannot_be_forgotten_on_a_rack_that_goes(state: State) -> None:
    result = plan(TWO + FORGET.format("nexus_kubernetes_cluster.a"), state)
    (problem,) = errors(result)
    assert problem.id == STRANDED
    assert "nexus_kubernetes_cluster.a is only forgotten" in problem.detail
    lost = {name for name, row in rows(result).items() if row.action is PlacementAction.LOSE}
    assert lost == on_last(state)
    figures = total(result)
    assert (figures.loses_machine, figures.forgotten) == (len(lost), figures.before - len(lost))
    both = TWO + FORGET.format("nexus_kubernetes_cluster.a") + FORGET.format("nexus_rack.last")
    assert total(good(plan(both, state))).forgotten == figures.before


def test_nor_on_one_that_is_made_anew(state: State) -> None:
    text = TWO + LAST + FORGET.format("nexus_kubernetes_cluster.a")
    assert total(good(plan(text, state))).forgotten == len(places(state))
    (problem,) = errors(plan(text, state, replaces=("nexus_rack.last",)))
    assert "nexus_rack.last is re-created with this plan" in problem.detail
    assert "is only forgotten" in problem.detail
