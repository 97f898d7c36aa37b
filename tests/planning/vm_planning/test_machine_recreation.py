"""Machines that are made anew with VMs on them: these come again, where they stood if that may be."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.impact.guard_rails import apply_limits, list_broken_limits, parse_guard_rail_limits
from nexusform.plans.plan import Mode, PlacementAction, PlacementTotal, StepKind
from nexusform.state.objects import InstanceState, State
from tests.planning.harness import (
    RACKS,
    actions,
    applied,
    at,
    cluster,
    errors,
    good,
    is_empty,
    places,
    plan,
    pool,
    rows,
    state_of,
    triggers,
    vms,
)

BOTH = cluster("a", pools=pool("p", 5), count=3) + cluster("b", pools=pool("q", 4))
TEXT = RACKS + BOTH
OWN_RACKS = "".join(
    f'resource "nexus_rack" "x{number}" {{\n  name = "r{number}"\n  site_id = nexus_site.s.id\n'
    "  machine_count = 4\n}\n"
    for number in range(3)
)
TRIGGERED = TEXT.replace(
    "machine_count = 4", "machine_count = 4\n lifecycle { replace_triggered_by = [nexus_vm_sku.x] }"
)


@pytest.fixture(scope="module", name="state")
def _state() -> State:
    return state_of(TEXT)


def on_rack(state: State, rack: str) -> set[str]:
    return {name for name, (machine, _) in places(state).items() if machine.startswith(rack + "-")}


def total(result: PlanResult) -> PlacementTotal:
    (figures,) = [each for each in result.plan.placement_totals if each.kind == "vm"]
    return figures


def again(names: set[str]) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(names, ("move", "machine_replaced"))


def stay_in_place(result: PlanResult) -> bool:
    moved = [row for row in rows(result).values() if row.action is PlacementAction.MOVE]
    return bool(moved) and all(row.source == row.target for row in moved)


def test_the_vms_of_a_rack_that_is_replaced_are_created_again_in_place(state: State) -> None:
    result = good(plan(TEXT, state, replaces=("nexus_rack.r[0]",)))
    names = on_rack(state, "r0")
    assert triggers(result) == again(names)
    assert stay_in_place(result)
    figures = total(result)
    assert (figures.recreated, figures.moves, figures.stays) == (len(names), 0, figures.before - len(names))
    assert list_broken_limits(apply_limits(result.plan, parse_guard_rail_limits("moved:0,removed:0"))) == ("moved:0",)
    assert is_empty(good(plan(TEXT, applied(result, state))))


def test_they_leave_before_the_rack_goes_and_come_after_it(state: State) -> None:
    result = good(plan(TEXT, state, replaces=("nexus_rack.r[0]",)))
    steps = {(result.plan.changes[step.change].address, step.kind): step for step in result.plan.steps}
    release = steps[at("nexus_kubernetes_cluster.a"), StepKind.RELEASE]
    delete = steps[at("nexus_rack.r[0]"), StepKind.DELETE]
    create = steps[at("nexus_rack.r[0]"), StepKind.CREATE]
    update = steps[at("nexus_kubernetes_cluster.a"), StepKind.UPDATE]
    assert release.id in delete.waits_for
    assert delete.id in create.waits_for
    assert create.id in update.waits_for


def test_a_tainted_rack_does_as_much(state: State) -> None:
    address = at("nexus_rack.r[0]")
    rack = state.instances[address].current
    assert rack is not None
    tainted = state.replace_instance(address, InstanceState(replace(rack, tainted=True)))
    result = good(plan(TEXT, tainted))
    assert triggers(result) == again(on_rack(state, "r0"))


def test_so_does_an_argument_that_replaces_it(state: State) -> None:
    text = TEXT.replace("machine_count = 4", 'machine_count = 4\n  availability_zone = "z${count.index}"')
    result = good(plan(text, state))
    assert triggers(result) == again(set(places(state)))
    after = vms(applied(result, state)).values()
    assert {vm["availability_zone"] for vm in after} == {"z0", "z1", "z2"}


def test_and_what_another_change_triggers() -> None:
    sku = 'resource "nexus_vm_sku" "x" {\n vcpus = %s\n memory_gib = 8\n disk_gib = 10\n}\n'
    state = state_of(sku % 2 + TRIGGERED)
    result = good(plan(sku % 4 + TRIGGERED, state))
    assert triggers(result) == again(set(places(state)))


def test_a_site_takes_its_racks_along(state: State) -> None:
    result = good(plan(TEXT, state, replaces=("nexus_site.s",)))
    assert {address for address, action in actions(result).items() if action == "delete-create"} == {
        "nexus_site.s",
        "nexus_rack.r[0]",
        "nexus_rack.r[1]",
        "nexus_rack.r[2]",
    }
    assert triggers(result) == again(set(places(state)))
    assert stay_in_place(result)


def test_a_machine_of_its_own_takes_its_vms_along() -> None:
    own = """
resource "nexus_bare_metal_machine" "own" {
  rack_id     = nexus_rack.r[1].id
  name        = "r1-bm04"
  slot        = 4
  machine_sku = "bom-1.7.3"
}
"""
    state = state_of(TEXT + own)
    names = {name for name, (machine, _) in places(state).items() if machine == "r1-bm04"}
    assert names
    result = good(plan(TEXT + own, state, replaces=("nexus_bare_metal_machine.own",)))
    assert triggers(result) == again(names)
    with_rack = good(plan(TEXT + own, state, replaces=("nexus_rack.r[1]",)))
    assert actions(with_rack)["nexus_bare_metal_machine.own"] == "delete-create"
    assert triggers(with_rack) == again(on_rack(state, "r1"))


def test_a_rack_under_another_address_is_destroyed_and_created(state: State) -> None:
    text = OWN_RACKS + 'resource "nexus_site" "s" {}\n' + BOTH
    result = good(plan(text, state))
    assert triggers(result) == again(set(places(state)))
    moved = "".join(f"moved {{\n  from = nexus_rack.r[{n}]\n  to = nexus_rack.x{n}\n}}\n" for n in range(3))
    assert triggers(good(plan(text + moved, state))) == {}


def test_a_rack_that_was_found_gone_is_made_anew(state: State) -> None:
    result = good(plan(TEXT, state, refreshed_objects={at("nexus_rack.r[1]"): None}))
    assert actions(result)["nexus_rack.r[1]"] == "create"
    assert triggers(result) == again(on_rack(state, "r1"))


def test_where_the_hardware_is_another_the_rule_decides(state: State) -> None:
    text = TEXT.replace(
        "machine_count = 4",
        'machine_count = 4\n  availability_zone = "z${count.index}"\n'
        "  machine {\n    numa_cells = 1\n    cpus_per_cell = 8\n    memory_gib_per_cell = 32\n"
        "    ephemeral_disk_gib = 500\n  }",
    )
    result = plan(text, state)
    assert {problem.id for problem in errors(result)} == {"insufficient-capacity"}


def test_a_machine_that_takes_no_vms_gets_none_back() -> None:
    text = 'resource "nexus_site" "s" {}\n' + OWN_RACKS + BOTH
    state = state_of(text)
    names = {name for name, (machine, _) in places(state).items() if machine == "r0-bm01"}
    assert names
    cordoned = text.replace(
        "machine_count = 4", 'machine_count = 4\n  machine_override "r0-bm01" {\n    cordoned = true\n  }', 1
    )
    result = good(plan(cordoned, state, replaces=("nexus_rack.x0",)))
    after = applied(result, state)
    assert {places(after)[name][0] for name in names}.isdisjoint({"r0-bm01"})
    assert triggers(result) == again(on_rack(state, "r0"))


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"targets": ("nexus_rack.r",)}, "Add -target='nexus_kubernetes_cluster.a'"),
        ({"excludes": ("nexus_kubernetes_cluster.b",)}, "Omit -exclude='nexus_kubernetes_cluster.b'"),
    ],
)
def test_vms_that_the_selection_leaves_out_forbid_it(state: State, options: dict[str, Any], remedy: str) -> None:
    result = plan(TEXT, state, replaces=("nexus_rack.r[0]",), **options)
    (problem,) = errors(result)
    assert problem.id == "deleted-machine-with-vms"
    assert "nexus_rack.r[0] is re-created with this plan" in problem.detail
    assert remedy in problem.detail
    figures = total(result)
    assert figures.loses_machine > 0
    assert figures.before == len(places(state))
    assert list_broken_limits(apply_limits(result.plan, parse_guard_rail_limits("moved:0"))) == ("moved:0",)


def test_a_destroyed_site_is_not_made_anew(state: State) -> None:
    result = good(plan(TEXT, state, mode=Mode.DESTROY))
    assert total(result).leaves == len(places(state))
