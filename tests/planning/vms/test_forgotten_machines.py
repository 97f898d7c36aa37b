"""Tests of forgotten racks with managed VMs, and of forgotten VMs on managed racks."""

from __future__ import annotations

import pytest

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.plan import Mode, PlacementAction, PlacementTotal
from nexusform.state.objects import State
from tests.planning.harness import (
    RACKS,
    build_state,
    cluster,
    list_errors,
    list_places,
    list_rows,
    list_triggers,
    list_warnings,
    plan,
    pool,
    require_success,
)

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
def _build_state() -> State:
    return build_state(TWO + LAST + CLUSTER)


def list_vms_on_last_rack(state: State) -> set[str]:
    names = {name for name, (machine, _) in list_places(state).items() if machine.startswith("r2-")}
    assert names
    return names


def get_total(result: PlanResult) -> PlacementTotal:
    (figures,) = [each for each in result.plan.figures.placement_totals if each.kind == "vm"]
    return figures


def test_vms_move_off_a_forgotten_rack(state: State) -> None:
    result = require_success(plan(TWO + FORGET.format("nexus_rack.last") + CLUSTER, state))
    assert list_triggers(result) == dict.fromkeys(
        list_vms_on_last_rack(state), ("move", "machine_forgotten")
    )


def test_forgetting_a_targeted_rack_with_vms_is_rejected(state: State) -> None:
    text = TWO + FORGET.format("nexus_rack.last") + CLUSTER
    result = plan(text, state, targets=("nexus_rack.last",))
    (problem,) = list_errors(result)
    assert problem.id == STRANDED
    assert "nexus_rack.last is forgotten with this plan" in problem.detail
    assert "goes" not in problem.detail
    assert "Add -target='nexus_kubernetes_cluster.a'" in problem.detail
    assert list_triggers(result) == dict.fromkeys(
        list_vms_on_last_rack(state), ("host_lost", "machine_forgotten")
    )
    require_success(plan(text, state, targets=("nexus_rack.last", "nexus_kubernetes_cluster.a")))


def test_rack_removed_from_state_is_reported_as_unmanaged(state: State) -> None:
    kept = {address: each for address, each in state.instances.items() if address.name != "last"}
    without = State(state.lineage, 2, "0.1", state.catalogue, kept)
    result = require_success(plan(TWO + CLUSTER, without, targets=("nexus_rack.r",)))
    assert {row.reason for row in list_rows(result).values()} == {
        "its machine is no longer managed"
    }
    (warning,) = [each for each in list_warnings(result) if each.id == "vms-on-missing-machine"]
    assert "neither the configuration nor the state contains" in warning.detail
    refreshed = require_success(plan(TWO + CLUSTER, without, mode=Mode.REFRESH_ONLY))
    assert {row.trigger for row in list_rows(refreshed).values()} == {"machine_forgotten"}


def test_error_names_rack_with_fewer_machines(state: State) -> None:
    text = TWO + LAST.replace("machine_count = 4", "machine_count = 0") + CLUSTER
    (problem,) = list_errors(plan(text, state, targets=("nexus_rack.last",)))
    assert "nexus_rack.last loses machines with this plan" in problem.detail


def test_vms_on_a_deleted_rack_cannot_be_forgotten(state: State) -> None:
    result = plan(TWO + FORGET.format("nexus_kubernetes_cluster.a"), state)
    (problem,) = list_errors(result)
    assert problem.id == STRANDED
    assert "nexus_kubernetes_cluster.a is only forgotten" in problem.detail
    lost = {name for name, row in list_rows(result).items() if row.action is PlacementAction.LOSE}
    assert lost == list_vms_on_last_rack(state)
    figures = get_total(result)
    assert (figures.host_lost, figures.forgotten) == (len(lost), figures.before - len(lost))
    both = TWO + FORGET.format("nexus_kubernetes_cluster.a") + FORGET.format("nexus_rack.last")
    assert get_total(require_success(plan(both, state))).forgotten == figures.before


def test_vms_on_a_re_created_rack_cannot_be_forgotten(state: State) -> None:
    text = TWO + LAST + FORGET.format("nexus_kubernetes_cluster.a")
    assert get_total(require_success(plan(text, state))).forgotten == len(list_places(state))
    (problem,) = list_errors(plan(text, state, replaces=("nexus_rack.last",)))
    assert "nexus_rack.last is re-created with this plan" in problem.detail
    assert "is only forgotten" in problem.detail
