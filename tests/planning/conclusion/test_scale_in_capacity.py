"""Tests of a scale-in whose VMs Azure chooses: ranges of capacity and racks, no machine names."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import pytest

from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.plans.plan import Plan
from nexusform.rendering.report.placement_rows import ShownPlacements, build_placement_groups
from nexusform.scheduling.racks.vms import Interval, ScheduledVm, build_standalone_demand
from tests.planning.harness import (
    build_all_types,
    build_state,
    cluster,
    list_warnings,
    plan,
    pool,
    require_success,
)

RACKS = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  count         = 2
  name          = "r${count.index}"
  site_id       = nexus_site.s.id
  machine_count = 2
}
"""


def shrink(before: str, after: str) -> Plan:
    state = build_state(RACKS + cluster("a", pools=before))
    files = RACKS + cluster("a", pools=after)
    result = require_success(plan(files, state, includes_rejections=True))
    return add_site_capacity(result, build_all_types()).plan


class SkuChoices(NamedTuple):
    """Capacity for a SKU: the ranges of the plan, and a figure of each choice of removed VMs."""

    free: Interval
    free_after_rack_loss: Interval
    counts: set[int]
    counts_after_loss: set[int]


def measure_choices(
    sku: str,
    count: int,
    removed_count: int,
    select_choices: Callable[[list[ScheduledVm]], Iterable[Sequence[ScheduledVm]]],
) -> dict[str, SkuChoices]:
    """Shrink a pool, remove the VMs of each selected choice by hand, and count what fits then."""
    small = pool("p", count, sku)
    big = pool("big", 1, "NC_P46_224_v1")
    state = build_state(RACKS + cluster("a", pools=small + big))
    fewer = pool("p", count - removed_count, sku) + big
    result = require_success(plan(RACKS + cluster("a", pools=fewer), state))
    made = add_site_capacity(result, build_all_types())
    assert made.occupied_before is not None
    before = made.occupied_before["s"].site.scheduler
    vms = [vm for vm in before.list_vms() if vm.vm.pool == "p"]
    skus = {pool.sku.name: pool.sku for _, pool in made.occupied_before["s"].pools}
    rows = {row.sku: row.after for row in made.plan.site_records.capacity if row.after}
    measured = {}
    choices = list(select_choices(vms))
    for name, vm_sku in skus.items():
        counts = set()
        counts_after_loss = set()
        for removed in choices:
            scheduler = before.copy()
            for vm in removed:
                scheduler.release(vm.handle)
            by_rack = scheduler.count_free_slots_by_rack(build_standalone_demand(vm_sku))
            numbers = [count.minimum for count in by_rack.values()]
            counts.add(sum(numbers))
            counts_after_loss.add(sum(numbers) - max(numbers))
        free = rows[name].free_interval
        after_loss = rows[name].free_interval_after_rack_loss
        measured[name] = SkuChoices(free, after_loss, counts, counts_after_loss)
    return measured


@pytest.mark.parametrize(
    ("sku", "count", "removed_count"),
    [
        ("NC_G12_56_v1", 6, 2),
        ("NC_G12_56_v1", 9, 1),
        ("NC_G6_28_v1", 7, 3),
        ("NC_G24_112_v1", 5, 4),
        ("NC_P46_224_v1", 2, 1),
    ],
)
def test_capacity_is_the_exact_range_over_all_choices(
    sku: str, count: int, removed_count: int
) -> None:
    measured = measure_choices(
        sku, count, removed_count, lambda vms: itertools.combinations(vms, removed_count)
    )
    for name, row in measured.items():
        assert row.free == Interval(min(row.counts), max(row.counts)), name
        assert row.free_after_rack_loss.minimum <= min(row.counts_after_loss)
        assert row.free_after_rack_loss.maximum >= max(row.counts_after_loss)


def test_rows_name_no_machine_and_racks_have_a_range() -> None:
    made = shrink(pool("p", 6), pool("p", 4))
    removed = [row for row in made.placements if row.is_chosen_removal]
    assert len(removed) == 2
    assert [row.origin for row in removed] == [None, None]
    (table,) = [table for table in made.figures.placement_tables if table.pool == "p"]
    assert all(low < high for low, high in table.possible_vms_per_rack.values())
    groups = build_placement_groups(made, ShownPlacements.ALL)
    lines = list(itertools.chain.from_iterable(group.lines for group in groups))
    (line,) = [line for line in lines if line.symbol == "-"]
    assert line.label == "a/p: 2 of 6 VMs"
    assert line.origin == "r0, r1"
    assert line.remark == "(scale_in; Azure chooses which)"
    # The VMs of other pools stay.
    kept = {line.label: line.remark for line in lines if line.symbol != "-"}
    remark = "(Azure may remove it)"
    assert {label for label, text in kept.items() if text == remark} == {
        f"a-p-{number}" for number in range(4)
    }
    assert set(kept.values()) == {remark, ""}


def test_removed_pool_is_no_choice() -> None:
    made = shrink(pool("p", 3) + pool("q", 1), pool("q", 1))
    assert not any(row.chosen_by for row in made.placements)
    assert all(row.origin is not None for row in made.placements if row.action.value == "remove")


RULE = """
resource "nexus_separation_rule" "t" {
  scope       = "machine"
  enforcement = "warn"
  group {
    cluster_ids = [nexus_kubernetes_cluster.a.id]
  }
  group {
    cluster_ids = [nexus_kubernetes_cluster.OTHER.id]
  }
}
"""


def pin_control_plane(name: str, zones: str, pools: str = "") -> str:
    """Return a cluster with its control plane in these zones."""
    return cluster(name, pools=pools).replace("control_plane {", f"control_plane {{\n    {zones}")


FAR_RACK = """
resource "nexus_rack" "far" {
  name              = "far"
  site_id           = nexus_site.s.id
  availability_zone = "9"
  machine_count     = 1
}
"""
CHOICE_REASON = "Azure chooses which VMs of smaller pools stay, and one of them may share a machine"
NEAR = "availability_zones = [nexus_rack.r[0].availability_zone]"


def build_far_and_near_clusters(near_count: int) -> str:
    """Return clusters a and b in a rack near each other, and c far from them.

    Cluster a has a pool with this number of VMs.
    """
    racks = RACKS.replace("count         = 2", "count         = 1").replace(
        "machine_count = 2", "machine_count = 3"
    )
    far = pin_control_plane("c", 'availability_zones = ["9"]')
    near = pin_control_plane("a", NEAR, pool("p", near_count, "NC_P46_224_v1", NEAR))
    return racks + FAR_RACK + cluster("b") + far + near


@pytest.mark.parametrize(
    ("count", "other", "satisfied", "unchecked"),
    [
        # One of the pool's VMs shares the machine of b: it may stay or go.
        (1, "b", "unknown", (CHOICE_REASON,)),
        # Without a choice there is no doubt.
        (0, "b", "always", ()),
        # No VM of the pool is, or was, on the machine of c.
        (1, "c", "always", ()),
    ],
)
def test_rule_depends_on_the_vms_that_stay(
    count: int, other: str, satisfied: str, unchecked: tuple[str, ...]
) -> None:
    state = build_state(build_far_and_near_clusters(4))
    text = build_far_and_near_clusters(count) + RULE.replace("OTHER", other)
    result = require_success(plan(text, state))
    (verdict,) = result.plan.verdicts.separation_verdicts
    assert verdict.satisfied == satisfied
    assert verdict.unchecked == unchecked


def test_rule_of_new_vms_depends_on_the_vms_that_stay() -> None:
    state = build_state(build_far_and_near_clusters(4))
    rule = RULE.replace("cluster.a.", "cluster.c.").replace("OTHER", "d")
    text = build_far_and_near_clusters(1) + pin_control_plane("d", NEAR) + rule
    result = require_success(plan(text, state))
    (verdict,) = result.plan.verdicts.separation_verdicts
    reason = "the machines of 1 new member depend on the VMs that Azure removes"
    assert (verdict.satisfied, verdict.unchecked) == ("unknown", (reason,))
    assert any(f"holds: {reason}." in warning.detail for warning in list_warnings(result))
