"""Tests of forgotten VMs: they keep their capacity reserved until it is explicitly released."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.planning.vm_planning.forgotten_vms import (
    add_forgotten_vms,
    list_forgotten_vms,
    release_forgotten_vm,
)
from nexusform.plans.impact.guard_rails import (
    apply_limits,
    list_broken_limits,
    parse_guard_rail_limits,
)
from nexusform.plans.impact.object_effects import describe_lost_vms
from nexusform.plans.plan import Mode
from nexusform.plans.site_capacity.occupancy import list_changed_racks
from nexusform.rendering.page.html_page import render_html
from nexusform.rendering.report.rack_map import ChangeMark, build_rack_maps
from nexusform.schemas.block_schema import FORGOTTEN_KEY
from nexusform.state.objects import State
from nexusform.state.state_edits import remove_instances
from tests.planning.harness import (
    RACKS,
    at,
    build_all_types,
    build_state,
    build_state_after,
    cluster,
    is_empty,
    list_errors,
    list_places,
    list_warnings,
    plan,
    require_success,
)

BIG = "NC_P46_224_v1"
SMALL = RACKS.replace("= 3\n", "= 1\n", 1)
OLD = cluster("old", plane=BIG, count=3)
NEW = cluster("new", plane=BIG, count=6)
GROUND = "forgotten-vms-without-machine"
MACHINE = """
resource "nexus_bare_metal_machine" "own" {
  rack_id     = nexus_rack.r[0].id
  name        = "r0-bm04"
  slot        = 4
  machine_sku = "bom-1.7.3"
}
"""
FORGET = (
    "\nremoved {\n from = nexus_kubernetes_cluster.old\n lifecycle {\n destroy = false\n }\n}\n"
)


def build_state_with_forgotten_vms() -> State:
    state = build_state(SMALL + OLD)
    return build_state_after(require_success(plan(SMALL + FORGET, state)), state)


def list_cells(state: State, prefix: str) -> set[tuple[str, tuple[int, ...]]]:
    return {place for name, place in list_places(state).items() if name.startswith(prefix)}


def test_forgotten_vms_keep_their_capacity_in_later_plans() -> None:
    before = list_cells(build_state(SMALL + OLD), "old")
    state = build_state_with_forgotten_vms()
    assert [name for _, name in list_forgotten_vms(state)] == [
        f"old-control-plane-{n}" for n in range(3)
    ]
    assert is_empty(require_success(plan(SMALL, state)))
    five = build_state(SMALL + NEW.replace("count       = 6", "count       = 5"), state)
    assert list_cells(five, "new").isdisjoint(before)
    # Four machines have two cells each, so five are free.
    assert {each.id for each in list_errors(plan(SMALL + NEW, state))} == {"insufficient-capacity"}


def test_vms_removed_from_state_keep_their_capacity() -> None:
    state = build_state(SMALL + OLD)
    address = at("nexus_kubernetes_cluster.old")
    after = remove_instances(add_forgotten_vms(state, [address], build_all_types()), [address])
    assert list(list_forgotten_vms(after)) == list(
        list_forgotten_vms(build_state_with_forgotten_vms())
    )
    notes = [
        each.instances[at("nexus_rack.r[0]")].current
        for each in (after, build_state_with_forgotten_vms())
    ]
    assert (
        len({str((note.private or {})[FORGOTTEN_KEY]) for note in notes if note is not None}) == 1
    )


def test_vm_without_a_named_size_removed_from_state_keeps_its_capacity() -> None:
    vm = """
resource "nexus_virtual_machine" "v" {
  site_id    = nexus_site.s.id
  cpu_cores  = 8
  memory_gib = 64
  disk_gib   = 100
}
"""
    state = build_state(SMALL + vm)
    after = add_forgotten_vms(state, [at("nexus_virtual_machine.v")], build_all_types())
    current = after.instances[at("nexus_rack.r[0]")].current
    assert current is not None
    ((_, name, *size),) = (current.private or {})[FORGOTTEN_KEY]
    assert (name, size[:3]) == ("v", [8, 64, 100])


def test_released_vm_frees_its_capacity() -> None:
    state = build_state_with_forgotten_vms()
    rack = at("nexus_rack.r[0]")
    assert release_forgotten_vm(state, rack, "nobody") is None
    freed = release_forgotten_vm(state, rack, "old-control-plane-1")
    assert freed is not None
    require_success(plan(SMALL + NEW, freed))
    for name in ("old-control-plane-0", "old-control-plane-2"):
        freed = release_forgotten_vm(freed, rack, name) or freed
    assert list(list_forgotten_vms(freed)) == []
    current = freed.instances[rack].current
    assert current is not None
    assert FORGOTTEN_KEY not in (current.private or {})


def test_re_imported_vms_are_counted_once() -> None:
    state = build_state_with_forgotten_vms()
    again = build_state(SMALL + OLD)
    address = at("nexus_kubernetes_cluster.old")
    imported = state.replace_instance(address, again.instances[address])
    require_success(plan(SMALL + OLD + NEW.replace("count       = 6", "count       = 5"), imported))


@pytest.mark.parametrize(
    ("text", "options", "happens"),
    [
        (SMALL, {"mode": Mode.DESTROY}, "is destroyed"),
        (SMALL, {"replaces": ("nexus_rack.r[0]",)}, "is re-created"),
        ('resource "nexus_site" "s" {}', {}, "is destroyed"),
        (SMALL.replace("machine_count = 4", "machine_count = 0"), {}, "loses machines"),
    ],
)
def test_losing_the_machine_of_forgotten_vms_is_reported(
    text: str, options: dict[str, Any], happens: str
) -> None:
    result = require_success(plan(text, build_state_with_forgotten_vms(), **options))
    (told,) = [each for each in list_warnings(result) if each.id == GROUND]
    assert f"nexus_rack.r[0] {happens}, and 3 VMs that no resource manages" in told.detail
    assert told.brief == f"nexus_rack.r[0]: {happens} under 3 forgotten VMs"
    made = add_site_capacity(result, build_all_types()).plan
    # Guard rails count them, and the map shows none of them as unchanged.
    assert list_broken_limits(apply_limits(made, parse_guard_rail_limits("moved:0,removed:0"))) == (
        "moved:0",
        "removed:0",
    )
    assert (
        list_broken_limits(apply_limits(made, parse_guard_rail_limits("moved:3,removed:3"))) == ()
    )
    assert describe_lost_vms(made) == ["3 forgotten VMs lose their machine"]
    (site,) = build_rack_maps(made)
    assert [(vm.mark, vm.after) for vm in site.vms] == [(ChangeMark.REMOVED, None)] * 3
    assert [rack.removed_count for rack in list_changed_racks(made.site_records.sites)] == [3]


@pytest.mark.parametrize("options", [{}, {"replaces": ("nexus_rack.r[0]",)}])
def test_forgotten_vms_without_machine_are_not_recorded_any_longer(options: dict[str, Any]) -> None:
    text = SMALL if options else SMALL.replace("machine_count = 4", "machine_count = 0")
    state = build_state_with_forgotten_vms()
    after = build_state_after(require_success(plan(text, state, **options)), state)
    assert list(list_forgotten_vms(after)) == []
    assert list_warnings(require_success(plan(text, after))) == []
    # New machines of the same names are empty.
    require_success(plan(SMALL + NEW, after))


def test_machine_moved_to_another_resource_keeps_forgotten_vms() -> None:
    """The machine exists throughout the plan, under either resource."""
    text = SMALL.replace("machine_count = 4", "machine_count = 3") + MACHINE
    assert [
        each.id
        for each in list_warnings(require_success(plan(text, build_state_with_forgotten_vms())))
    ] == []


def test_no_warning_if_the_machine_stays() -> None:
    assert list_warnings(require_success(plan(SMALL, build_state_with_forgotten_vms()))) == []


def test_new_vms_with_names_of_forgotten_vms_are_separate() -> None:
    """The forgotten VMs keep running, so capacity is reserved for both.

    The duplicate names are reported.
    """
    result = require_success(plan(SMALL + OLD, build_state_with_forgotten_vms()))
    (told,) = [each for each in list_warnings(result) if each.id == "duplicate-running-vms"]
    assert told.brief == "nexus_kubernetes_cluster.old: 3 VMs of the same names run already"
    assert "3 VMs run already under names that nexus_kubernetes_cluster.old uses" in told.detail
    assert [
        each.id
        for each in list_warnings(
            require_success(
                plan(SMALL + NEW.replace("= 6", "= 5"), build_state_with_forgotten_vms())
            )
        )
    ] == []
    room = add_site_capacity(result, build_all_types()).plan.site_records.capacity
    (row,) = [each for each in room if each.sku == BIG]
    assert row.after is not None
    # Four machines with two cells each: three forgotten VMs, three new ones.
    assert row.after.free == 2


def test_page_reports_forgotten_vms_with_lost_machine() -> None:
    made = add_site_capacity(
        require_success(plan('resource "nexus_site" "s" {}', build_state_with_forgotten_vms())),
        build_all_types(),
    ).plan
    page = render_html(made, {}, build_all_types())
    assert "<dt>Impact</dt><dd>3 forgotten VMs lose their machine</dd>" in page
