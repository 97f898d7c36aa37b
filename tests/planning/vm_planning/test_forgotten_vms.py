"""The room of VMs that were forgotten and run on is promised to nobody, until it is said to be free."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.interfaces.plugins import FORGOTTEN_KEY
from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.planning.vm_planning.forgotten_vms import add_forgotten_vms, list_forgotten_vms, release_forgotten_vm
from nexusform.plans.impact.guard_rails import apply_limits, list_broken_limits, parse_guard_rail_limits
from nexusform.plans.impact.object_effects import describe_lost_vms
from nexusform.plans.plan import Mode
from nexusform.plans.site_capacity.occupancy import list_changed_racks
from nexusform.rendering.page.html_page import render_html
from nexusform.rendering.page.rack_map import ChangeMark, build_rack_maps
from nexusform.state.objects import State
from nexusform.state.state_edits import remove_instances
from tests.planning.harness import (
    RACKS,
    all_types,
    applied,
    at,
    cluster,
    errors,
    good,
    is_empty,
    places,
    plan,
    state_of,
    warnings,
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
FORGET = "\nremoved {\n from = nexus_kubernetes_cluster.old\n lifecycle {\n destroy = false\n }\n}\n"


def forgotten() -> State:
    state = state_of(SMALL + OLD)
    return applied(good(plan(SMALL + FORGET, state)), state)


def cells(state: State, prefix: str) -> set[tuple[str, tuple[int, ...]]]:
    return {place for name, place in places(state).items() if name.startswith(prefix)}


def test_what_was_forgotten_keeps_its_room_in_later_plans() -> None:
    before = cells(state_of(SMALL + OLD), "old")
    state = forgotten()
    assert [name for _, name in list_forgotten_vms(state)] == [f"old-control-plane-{n}" for n in range(3)]
    assert is_empty(good(plan(SMALL, state)))
    five = state_of(SMALL + NEW.replace("count       = 6", "count       = 5"), state)
    assert cells(five, "new").isdisjoint(before)
    # Four machines of two cells each: five are left.
    assert {each.id for each in errors(plan(SMALL + NEW, state))} == {"insufficient-capacity"}


def test_so_does_what_was_taken_out_of_the_state() -> None:
    state = state_of(SMALL + OLD)
    address = at("nexus_kubernetes_cluster.old")
    after = remove_instances(add_forgotten_vms(state, [address], all_types()), [address])
    assert list(list_forgotten_vms(after)) == list(list_forgotten_vms(forgotten()))
    notes = [each.instances[at("nexus_rack.r[0]")].current for each in (after, forgotten())]
    assert len({str((note.private or {})[FORGOTTEN_KEY]) for note in notes if note is not None}) == 1


def test_one_that_is_gone_gives_its_room_back() -> None:
    state = forgotten()
    rack = at("nexus_rack.r[0]")
    assert release_forgotten_vm(state, rack, "nobody") is None
    freed = release_forgotten_vm(state, rack, "old-control-plane-1")
    assert freed is not None
    good(plan(SMALL + NEW, freed))
    for name in ("old-control-plane-0", "old-control-plane-2"):
        freed = release_forgotten_vm(freed, rack, name) or freed
    assert list(list_forgotten_vms(freed)) == []
    current = freed.instances[rack].current
    assert current is not None
    assert FORGOTTEN_KEY not in (current.private or {})


def test_vms_that_are_managed_again_are_counted_once() -> None:
    state = forgotten()
    again = state_of(SMALL + OLD)
    address = at("nexus_kubernetes_cluster.old")
    imported = state.replace_instance(address, again.instances[address])
    good(plan(SMALL + OLD + NEW.replace("count       = 6", "count       = 5"), imported))


@pytest.mark.parametrize(
    ("text", "options", "happens"),
    [
        (SMALL, {"mode": Mode.DESTROY}, "is destroyed"),
        (SMALL, {"replaces": ("nexus_rack.r[0]",)}, "is re-created"),
        ('resource "nexus_site" "s" {}', {}, "is destroyed"),
        (SMALL.replace("machine_count = 4", "machine_count = 0"), {}, "loses machines"),
    ],
)
def test_ground_that_goes_under_them_is_told(text: str, options: dict[str, Any], happens: str) -> None:
    result = good(plan(text, forgotten(), **options))
    (told,) = [each for each in warnings(result) if each.id == GROUND]
    assert f"nexus_rack.r[0] {happens}, and 3 VMs that no resource manages" in told.detail
    assert told.brief == f"nexus_rack.r[0]: {happens} under 3 forgotten VMs"
    made = add_site_capacity(result, all_types()).plan
    # No guard rail passes it, and the map lists none of them as staying.
    assert list_broken_limits(apply_limits(made, parse_guard_rail_limits("moved:0,removed:0"))) == (
        "moved:0",
        "removed:0",
    )
    assert list_broken_limits(apply_limits(made, parse_guard_rail_limits("moved:3,removed:3"))) == ()
    assert describe_lost_vms(made) == ["3 forgotten VMs lose their machine"]
    (site,) = build_rack_maps(made)
    assert [(vm.mark, vm.after) for vm in site.vms] == [(ChangeMark.REMOVED, None)] * 3
    assert [rack.removed_count for rack in list_changed_racks(made.sites)] == [3]


@pytest.mark.parametrize("options", [{}, {"replaces": ("nexus_rack.r[0]",)}])
def test_those_that_lost_their_machine_are_remembered_no_more(options: dict[str, Any]) -> None:
    text = SMALL if options else SMALL.replace("machine_count = 4", "machine_count = 0")
    state = forgotten()
    after = applied(good(plan(text, state, **options)), state)
    assert list(list_forgotten_vms(after)) == []
    assert warnings(good(plan(text, after))) == []
    # Machines that come under their names are empty.
    good(plan(SMALL + NEW, after))


def test_a_machine_that_another_resource_takes_over_keeps_them() -> None:
    """It stands through the plan, whoever describes it."""
    text = SMALL.replace("machine_count = 4", "machine_count = 3") + MACHINE
    assert [each.id for each in warnings(good(plan(text, forgotten())))] == []


def test_nothing_is_told_of_ground_that_stays() -> None:
    assert warnings(good(plan(SMALL, forgotten()))) == []


def test_vms_that_come_under_forgotten_names_are_others() -> None:
    """The forgotten ones run on, so the room of both is taken, and that they run already is told."""
    result = good(plan(SMALL + OLD, forgotten()))
    (told,) = [each for each in warnings(result) if each.id == "duplicate-running-vms"]
    assert told.brief == "nexus_kubernetes_cluster.old: 3 VMs of the same names run already"
    assert "3 VMs run already under names that nexus_kubernetes_cluster.old uses" in told.detail
    assert [each.id for each in warnings(good(plan(SMALL + NEW.replace("= 6", "= 5"), forgotten())))] == []
    room = add_site_capacity(result, all_types()).plan.capacity
    (row,) = [each for each in room if each.sku == BIG]
    assert row.after is not None
    # Four machines of two cells: three forgotten, three that come.
    assert row.after.free == 2


def test_the_page_reports_forgotten_vms_that_lose_their_machine() -> None:
    made = add_site_capacity(good(plan('resource "nexus_site" "s" {}', forgotten())), all_types()).plan
    page = render_html(made, {}, all_types())
    assert "<dt>Impact</dt><dd>3 forgotten VMs lose their machine; 1 object to destroy</dd>" in page
