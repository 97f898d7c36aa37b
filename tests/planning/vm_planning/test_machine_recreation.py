"""Tests of re-created machines: their VMs are created again, in place if possible."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.impact.guard_rails import (
    apply_limits,
    list_broken_limits,
    parse_guard_rail_limits,
)
from nexusform.plans.plan import Mode, PlacementAction, PlacementTotal, StepKind
from nexusform.state.objects import InstanceState, State
from tests.planning.harness import (
    RACKS,
    at,
    build_state,
    build_state_after,
    cluster,
    is_empty,
    list_actions,
    list_errors,
    list_places,
    list_rows,
    list_triggers,
    plan,
    pool,
    require_success,
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
def _build_state() -> State:
    return build_state(TEXT)


def list_vms_on_rack(state: State, rack: str) -> set[str]:
    return {
        name for name, (machine, _) in list_places(state).items() if machine.startswith(rack + "-")
    }


def get_total(result: PlanResult) -> PlacementTotal:
    (figures,) = [each for each in result.plan.figures.placement_totals if each.kind == "vm"]
    return figures


def expect_re_creation(names: set[str]) -> dict[str, tuple[str, str]]:
    return dict.fromkeys(names, ("move", "machine_replaced"))


def is_re_created_in_place(result: PlanResult) -> bool:
    moved = [row for row in list_rows(result).values() if row.action is PlacementAction.MOVE]
    return bool(moved) and all(row.source == row.target for row in moved)


def test_vms_of_replaced_rack_are_re_created_in_place(state: State) -> None:
    result = require_success(plan(TEXT, state, replaces=("nexus_rack.r[0]",)))
    names = list_vms_on_rack(state, "r0")
    assert list_triggers(result) == expect_re_creation(names)
    assert is_re_created_in_place(result)
    figures = get_total(result)
    assert (figures.recreated, figures.moved, figures.unchanged) == (
        len(names),
        0,
        figures.before - len(names),
    )
    assert list_broken_limits(
        apply_limits(result.plan, parse_guard_rail_limits("moved:0,removed:0"))
    ) == ("moved:0",)
    assert is_empty(require_success(plan(TEXT, build_state_after(result, state))))


def test_vms_are_released_before_rack_delete_and_created_after_it(state: State) -> None:
    result = require_success(plan(TEXT, state, replaces=("nexus_rack.r[0]",)))
    steps = {
        (result.plan.changes[step.change].address, step.kind): step for step in result.plan.steps
    }
    release = steps[at("nexus_kubernetes_cluster.a"), StepKind.RELEASE]
    delete = steps[at("nexus_rack.r[0]"), StepKind.DELETE]
    create = steps[at("nexus_rack.r[0]"), StepKind.CREATE]
    update = steps[at("nexus_kubernetes_cluster.a"), StepKind.UPDATE]
    assert release.id in delete.waits_for
    assert delete.id in create.waits_for
    assert create.id in update.waits_for


def test_tainted_rack_re_creates_its_vms(state: State) -> None:
    address = at("nexus_rack.r[0]")
    rack = state.instances[address].current
    assert rack is not None
    tainted = state.replace_instance(address, InstanceState(replace(rack, tainted=True)))
    result = require_success(plan(TEXT, tainted))
    assert list_triggers(result) == expect_re_creation(list_vms_on_rack(state, "r0"))


def test_changed_rack_argument_re_creates_vms(state: State) -> None:
    text = TEXT.replace(
        "machine_count = 4", 'machine_count = 4\n  availability_zone = "z${count.index}"'
    )
    result = require_success(plan(text, state))
    assert list_triggers(result) == expect_re_creation(set(list_places(state)))
    after = vms(build_state_after(result, state)).values()
    assert {vm["availability_zone"] for vm in after} == {"z0", "z1", "z2"}


def test_replace_triggered_by_re_creates_vms() -> None:
    sku = 'resource "nexus_vm_sku" "x" {\n vcpus = %s\n memory_gib = 8\n disk_gib = 10\n}\n'
    state = build_state(sku % 2 + TRIGGERED)
    result = require_success(plan(sku % 4 + TRIGGERED, state))
    assert list_triggers(result) == expect_re_creation(set(list_places(state)))


def test_replaced_site_re_creates_its_racks_and_vms(state: State) -> None:
    result = require_success(plan(TEXT, state, replaces=("nexus_site.s",)))
    assert {
        address for address, action in list_actions(result).items() if action == "delete-create"
    } == {"nexus_site.s", "nexus_rack.r[0]", "nexus_rack.r[1]", "nexus_rack.r[2]"}
    assert list_triggers(result) == expect_re_creation(set(list_places(state)))
    assert is_re_created_in_place(result)


def test_replaced_machine_re_creates_its_vms() -> None:
    own = """
resource "nexus_bare_metal_machine" "own" {
  rack_id     = nexus_rack.r[1].id
  name        = "r1-bm04"
  slot        = 4
  machine_sku = "bom-1.7.3"
}
"""
    state = build_state(TEXT + own)
    names = {name for name, (machine, _) in list_places(state).items() if machine == "r1-bm04"}
    assert names
    result = require_success(plan(TEXT + own, state, replaces=("nexus_bare_metal_machine.own",)))
    assert list_triggers(result) == expect_re_creation(names)
    with_rack = require_success(plan(TEXT + own, state, replaces=("nexus_rack.r[1]",)))
    assert list_actions(with_rack)["nexus_bare_metal_machine.own"] == "delete-create"
    assert list_triggers(with_rack) == expect_re_creation(list_vms_on_rack(state, "r1"))


def test_rack_at_another_address_is_deleted_and_created(state: State) -> None:
    text = OWN_RACKS + 'resource "nexus_site" "s" {}\n' + BOTH
    result = require_success(plan(text, state))
    assert list_triggers(result) == expect_re_creation(set(list_places(state)))
    moved = "".join(
        f"moved {{\n  from = nexus_rack.r[{n}]\n  to = nexus_rack.x{n}\n}}\n" for n in range(3)
    )
    assert list_triggers(require_success(plan(text + moved, state))) == {}


def test_missing_rack_is_re_created(state: State) -> None:
    result = require_success(plan(TEXT, state, refreshed_objects={at("nexus_rack.r[1]"): None}))
    assert list_actions(result)["nexus_rack.r[1]"] == "create"
    assert list_triggers(result) == expect_re_creation(list_vms_on_rack(state, "r1"))


def test_changed_hardware_needs_new_placement(state: State) -> None:
    text = TEXT.replace(
        "machine_count = 4",
        'machine_count = 4\n  availability_zone = "z${count.index}"\n'
        "  machine {\n    numa_cells = 1\n    cpus_per_cell = 8\n    memory_gib_per_cell = 32\n"
        "    ephemeral_disk_gib = 500\n  }",
    )
    result = plan(text, state)
    assert {problem.id for problem in list_errors(result)} == {"insufficient-capacity"}


def test_cordoned_machine_gets_no_vms_after_replacement() -> None:
    text = 'resource "nexus_site" "s" {}\n' + OWN_RACKS + BOTH
    state = build_state(text)
    names = {name for name, (machine, _) in list_places(state).items() if machine == "r0-bm01"}
    assert names
    cordoned = text.replace(
        "machine_count = 4",
        'machine_count = 4\n  machine_override "r0-bm01" {\n    cordoned = true\n  }',
        1,
    )
    result = require_success(plan(cordoned, state, replaces=("nexus_rack.x0",)))
    after = build_state_after(result, state)
    assert {list_places(after)[name][0] for name in names}.isdisjoint({"r0-bm01"})
    assert list_triggers(result) == expect_re_creation(list_vms_on_rack(state, "r0"))


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"targets": ("nexus_rack.r",)}, "Add -target='nexus_kubernetes_cluster.a'"),
        (
            {"excludes": ("nexus_kubernetes_cluster.b",)},
            "Omit -exclude='nexus_kubernetes_cluster.b'",
        ),
    ],
)
def test_replacing_rack_of_unselected_vms_is_rejected(
    state: State, options: dict[str, Any], remedy: str
) -> None:
    result = plan(TEXT, state, replaces=("nexus_rack.r[0]",), **options)
    (problem,) = list_errors(result)
    assert problem.id == "deleted-machine-with-vms"
    assert "nexus_rack.r[0] is re-created with this plan" in problem.detail
    assert remedy in problem.detail
    figures = get_total(result)
    assert figures.host_lost > 0
    assert figures.before == len(list_places(state))
    assert list_broken_limits(apply_limits(result.plan, parse_guard_rail_limits("moved:0"))) == (
        "moved:0",
    )


def test_destroyed_site_is_not_re_created(state: State) -> None:
    result = require_success(plan(TEXT, state, mode=Mode.DESTROY))
    assert get_total(result).removed == len(list_places(state))
