"""Tests of placement tables: pools of clusters, and the VMs of a block as one pool."""

from __future__ import annotations

import pytest

from nexusform.rendering.report.placement_rows import ShownPlacements, build_placement_groups
from tests.planning.harness import build_state, cluster, plan, pool, require_success

VMS = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  count         = 2
  name          = "r${count.index}"
  site_id       = nexus_site.s.id
  machine_count = 4
}
resource "nexus_virtual_machine" "v" {
  count      = 5
  name       = "v${count.index}"
  site_id    = nexus_site.s.id
  cpu_cores  = 4
  memory_gib = count.index == 4 ? 32 : 16
  disk_gib   = 10
}
"""


def test_vms_of_a_block_form_one_pool_in_tables() -> None:
    made = plan(VMS, samples=20).plan
    (table,) = made.figures.placement_tables
    assert (table.cluster, table.total_count, table.placed) == ("nexus_virtual_machine.v", 5, 5)
    assert table.expected_racks == table.actual_racks == 2
    assert table.expected_vms_per_rack == (2, 3)
    assert sorted(table.actual_vms_per_rack.values()) == [2, 3]
    assert table.vm_sku_name == "2 sizes"


def test_certain_racks_of_plain_vms_are_counted_once() -> None:
    made = plan(VMS.replace("count         = 2", "count         = 1"), samples=20).plan
    (table,) = made.figures.placement_tables
    assert (table.racks_certain, table.certain_racks) == (5, ("r0",))
    assert table.machines_certain < 5


def test_lines_of_a_block_are_folded_like_pool_lines() -> None:
    made = plan(VMS, samples=20).plan
    (group,) = build_placement_groups(made, ShownPlacements.CHANGED)
    (line,) = group.lines
    assert (line.label, line.count) == ("v0..4", 5)
    (group,) = build_placement_groups(made, ShownPlacements.ALL)
    assert [line.label for line in group.lines] == ["v0", "v1", "v2", "v3", "v4"]


RACKS_OF_FOUR = VMS[: VMS.index('resource "nexus_virtual_machine"')]


@pytest.mark.parametrize(
    ("before", "after", "worst"),
    [
        (pool("p", 6), pool("p", 5), 2),
        # No VM left.
        (pool("p", 6), pool("p", 0), None),
        # The other VMs are all re-created.
        (pool("p", 6), pool("p", 4, "NC_G12_56_v1"), None),
        # One VM on each rack: every removal has the same result.
        (pool("p", 2), pool("p", 1), None),
    ],
)
def test_worst_case_of_scale_in_is_reported_if_outcomes_differ(
    before: str, after: str, worst: int | None
) -> None:
    state = build_state(RACKS_OF_FOUR + cluster("a", pools=before))
    made = require_success(plan(RACKS_OF_FOUR + cluster("a", pools=after), state)).plan
    tables = {table.pool: table for table in made.figures.placement_tables}
    assert tables["p"].minimum_remaining_on_rack == worst
