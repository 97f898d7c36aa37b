"""Tests of the environment of the Nexus document.

They cover every row of its tables, for any order of applies. NF_TEST_SEEDS sets how many tie-break
seeds are tested.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import cache

import pytest

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.plan import PlacementTable
from nexusform.state.objects import EMPTY, State
from tests.planning.harness import (
    build_state,
    build_state_after,
    is_empty,
    list_places,
    list_triggers,
    plan,
    require_success,
    vms,
)

SEEDS = int(os.environ.get("NF_TEST_SEEDS", "6"))
XL = "NC_P46_224_v1"
HALF = "NC_P22_112_v1"
PLANE = "control-plane"

SITE = """
resource "nexus_site" "lab" {
  scheduler {
    tie_break_seed = SEED
  }
}
resource "nexus_rack" "rack" {
  count             = 8
  site_id           = nexus_site.lab.id
  name              = "rack${count.index + 1}"
  availability_zone = count.index + 1
  machine_count     = 16
}
"""


def build_cluster(name: str, plane: tuple[int, str], *pools: tuple[int, str, str]) -> str:
    text = f"""
resource "nexus_kubernetes_cluster" "{name}" {{
  site_id = nexus_site.lab.id
  name    = "cluster-{name}"
  control_plane {{
    count       = {plane[0]}
    vm_sku_name = "{plane[1]}"
  }}
"""
    for number, (count, sku, zones) in enumerate(pools, 1):
        text += f"""
  agent_pool "pool{number}" {{
    count              = {count}
    vm_sku_name        = "{sku}"
    availability_zones = {zones or "null"}
  }}
"""
    return text + "}\n"


CLUSTERS = {
    "a": build_cluster("a", (3, "NC_G12_56_v1"), (24, XL, ""), (6, "NC_G6_28_v1", "")),
    "b": build_cluster("b", (5, "NC_G24_112_v1"), (48, XL, ""), (24, HALF, "")),
    "c": build_cluster("c", (3, "NC_G12_56_v1"), (12, XL, "[1, 4]")),
    "d": build_cluster("d", (5, "NC_G24_112_v1"), (24, XL, "[7, 8]"), (24, HALF, "")),
    "e": build_cluster("e", (5, "NC_G24_112_v1"), (32, XL, "")),
}
# cluster, pool: total, expected racks, actual racks, expected VMs per rack, actual VMs per rack
ROWS = {
    ("a", PLANE): (3, 3, 3, (1, 1), {1}),
    ("a", "pool1"): (24, 8, 8, (3, 3), {3}),
    ("a", "pool2"): (6, 6, 6, (1, 1), {1}),
    ("b", PLANE): (5, 5, 5, (1, 1), {1}),
    ("b", "pool1"): (48, 8, 8, (6, 6), {6}),
    ("b", "pool2"): (24, 8, 8, (3, 3), {3}),
    ("c", PLANE): (3, 3, 3, (1, 1), {1}),
    ("c", "pool1"): (12, 2, 2, (6, 6), {6}),
    ("d", PLANE): (5, 5, 5, (1, 1), {1}),
    ("d", "pool1"): (24, 2, 2, (12, 12), {12}),
    ("d", "pool2"): (24, 8, 8, (3, 3), {3}),
    ("e", PLANE): (5, 5, 5, (1, 1), {1}),
    ("e", "pool1"): (32, 8, 8, (4, 4), {3, 4, 5}),
}


def build_configuration(names: str = "abcde", seed: int = 8) -> str:
    return SITE.replace("SEED", str(seed)) + "".join(CLUSTERS[name] for name in names)


@cache
def plan_environment(seed: int = 8) -> PlanResult:
    return require_success(plan(build_configuration(seed=seed)))


@cache
def build_applied_state() -> State:
    return build_state_after(plan_environment())


def list_tables(result: PlanResult) -> dict[tuple[str, str], PlacementTable]:
    return {
        (t.cluster.removeprefix("cluster-"), t.pool): t
        for t in result.plan.figures.placement_tables
    }


def build_row(table: PlacementTable) -> tuple[object, ...]:
    return (
        table.total_count,
        table.expected_racks,
        table.actual_racks,
        table.expected_vms_per_rack,
        set(table.actual_vms_per_rack.values()),
    )


def test_all_table_rows_match() -> None:
    assert {
        pool: build_row(table) for pool, table in list_tables(plan_environment()).items()
    } == ROWS


def test_racks_of_cluster_e_with_five_and_three_vms_match() -> None:
    counts = list_tables(plan_environment())["e", "pool1"].actual_vms_per_rack
    assert {rack for rack, n in counts.items() if n == 5} == {"rack3", "rack6"}
    assert {rack for rack, n in counts.items() if n == 3} == {"rack7", "rack8"}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_table_rows_match_for_every_seed(seed: int) -> None:
    found = list_tables(plan_environment(seed))
    for pool, expected in ROWS.items():
        if pool != ("e", "pool1"):
            assert build_row(found[pool]) == expected, pool
    fives = {rack for rack, n in found["e", "pool1"].actual_vms_per_rack.items() if n == 5}
    assert fives <= {"rack2", "rack3", "rack5", "rack6"}
    by_rack: dict[str, set[str]] = {}
    homes = Counter()
    for name, vm in vms(build_state_after(plan_environment(seed))).items():
        if name.startswith("cluster-d-pool2"):
            by_rack.setdefault(vm["rack"], set()).add(vm["machine"])
        if vm["vm_sku_name"] == XL:
            homes[vm["machine"], name.split("-")[1]] += 1
    assert [len(machines) for machines in by_rack.values()] == [3] * 8
    assert max(homes.values()) == 1
    shared = Counter(machine for machine, _ in homes)
    assert sum(1 for n in shared.values() if n == 2) in (58, 59)


def test_sequential_applies_give_the_same_places() -> None:
    state = EMPTY
    for many in range(1, 6):
        state = build_state(build_configuration("abcde"[:many]), state)
    assert list_places(state) == list_places(build_applied_state())


def test_plan_after_apply_is_empty() -> None:
    assert is_empty(require_success(plan(build_configuration(), build_applied_state())))


@pytest.mark.parametrize("left", ["bcde", "abde", "ace", "e", ""])
def test_removing_clusters_moves_no_vm(left: str) -> None:
    result = require_success(plan(build_configuration(left), build_applied_state()))
    assert {what for what, _ in list_triggers(result).values()} == {"remove"}
    after = build_state_after(result, build_applied_state())
    assert list_places(after).items() <= list_places(build_applied_state()).items()
    assert {name.split("-")[1] for name in list_places(after)} == set(left)


def test_planning_without_state_gives_the_same_places() -> None:
    assert list_places(build_state(build_configuration())) == list_places(build_applied_state())


def test_pool_1_of_cluster_c_runs_on_twelve_machines() -> None:
    found = [
        vm for name, vm in vms(build_applied_state()).items() if name.startswith("cluster-c-pool1")
    ]
    assert len({vm["machine"] for vm in found}) == 12
    assert Counter(vm["rack"] for vm in found) == {"rack1": 6, "rack4": 6}


def test_first_fix_for_a_full_site_is_a_smaller_count() -> None:
    more = build_configuration().replace("count              = 32", "count              = 100")
    result = plan(more, suggested_fixes=True)
    (found,) = [d for d in result.plan.diagnostics if d.id == "insufficient-capacity"]
    fit = found.extra["fit"]
    assert fit["requested"] == 100
    assert fit["suggested_fixes"][0]["kind"] == "count"
    largest = fit["suggested_fixes"][0]["counts"][0]["count"]
    require_success(plan(more.replace("= 100", f"= {largest}")))
    assert plan(more.replace("= 100", f"= {largest + 1}")).plan.errored


def test_certainty_is_reported_for_every_placement() -> None:
    result = require_success(plan(build_configuration("a"), samples=30))
    assert result.plan.figures.samples == 30
    found = list_tables(result)
    assert found["a", "pool1"].certain_racks == tuple(f"rack{n}" for n in range(1, 9))
    assert found["a", "pool1"].placed == 24
    for change in result.plan.placements:
        assert change.certainty is not None
        assert 0 <= change.certainty.machine <= change.certainty.rack <= 1


def test_certainty_covers_only_new_vms_and_can_be_disabled() -> None:
    more = build_configuration().replace("count              = 32", "count              = 33")
    result = require_success(plan(more, build_applied_state(), samples=10))
    assert [r.object for r in result.plan.placements if r.certainty is not None] == [
        "cluster-e-pool1-32"
    ]
    off = require_success(plan(more, build_applied_state(), samples=0))
    assert off.plan.figures.samples == 0
    assert all(r.certainty is None for r in off.plan.placements)


def test_default_number_of_samples() -> None:
    assert require_success(plan(build_configuration("a"), samples=None)).plan.figures.samples == 100
    assert (
        require_success(
            plan(build_configuration(), build_applied_state(), samples=None)
        ).plan.figures.samples
        == 0
    )


def test_worst_outcome_of_scale_in_is_reported() -> None:
    fewer = build_configuration().replace("count              = 48", "count              = 44")
    result = require_success(plan(fewer, build_applied_state()))
    assert set(list_triggers(result)) == {f"cluster-b-pool1-{n}" for n in range(44, 48)}
    assert list_tables(result)["b", "pool1"].minimum_remaining_on_rack == 2
    assert list_tables(result)["b", "pool2"].minimum_remaining_on_rack is None


def test_certainty_is_the_share_of_samples_with_the_same_place() -> None:
    runs = 8
    rows = require_success(plan(build_configuration("a"), samples=runs)).plan.placements
    single_runs = [
        require_success(plan(build_configuration("a"), samples=1, first_sample=run)).plan.placements
        for run in range(runs)
    ]
    shares = set()
    for position, row in enumerate(rows):
        same = [run[position].certainty for run in single_runs]
        racks = sum(certainty.rack for certainty in same if certainty is not None)
        machines = sum(certainty.machine for certainty in same if certainty is not None)
        assert row.certainty is not None
        assert (row.certainty.rack, row.certainty.machine) == (racks / runs, machines / runs)
        shares.add(row.certainty.rack)
    assert len(shares) > 2
