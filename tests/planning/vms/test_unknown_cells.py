"""Tests of plans on machines with VMs of unknown NUMA cells."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.applying.answer_comparison import compare_answer
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.planning.verification.state_consistency import check_consistency
from nexusform.plans.numa_sampling import NumaSampling
from nexusform.rendering.notation.sample_text import build_samples_document, describe_numa_samples
from nexusform.rendering.page.svg_map import render_svg
from nexusform.rendering.pull_request.plan_comment import render_markdown
from nexusform.scheduling.racks.vms import Placement, build_standalone_demand
from nexusform.state.objects import EMPTY, InstanceState, State
from tests.planning.harness import (
    at,
    build_all_types,
    build_state,
    cluster,
    is_empty,
    list_errors,
    list_places,
    list_rows,
    list_warnings,
    plan,
    pool,
    require_success,
    vms,
)
from tests.worlds.small_worlds import build_racks, get_site

BIG = "NC_P46_224_v1"
ALONE = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.s.id
  machine_count = 0
}
"""


def build_machine(*sizes: tuple[int, int]) -> str:
    """Return a machine with two cells of 48 vCPUs and 224 GiB, and VMs.

    The VMs have the given vCPUs and GiB.
    """
    blocks = "".join(
        (
            f'  occupied {{\n    name = "x{number}"\n    cpu_cores = {cpus}\n    memory_gib = '
            f"{memory}\n  }}\n"
        )
        for number, (cpus, memory) in enumerate(sizes)
    )
    return f"""
resource "nexus_bare_metal_machine" "m" {{
  rack_id     = nexus_rack.r.id
  slot        = 1
  machine_sku = "bom-1.7.3"
{blocks}}}
"""


# fill one cell, or split both.
FOUR = [(12, 56)] * 4


def test_plan_shows_the_first_sample_with_capacity_for_everything() -> None:
    result = require_success(
        plan(ALONE + build_machine(*FOUR) + cluster("a", plane=BIG), samples=50)
    )
    draws = result.plan.figures.numa_sampling
    assert draws is not None
    assert (draws.machines, draws.sample_count) == (1, 50)
    assert 0 < draws.fitting_count < 50
    assert describe_numa_samples(draws) == (
        f"unknown on 1 machine; everything fits in {draws.fitting_count} of 50 sampled layouts, "
        f"sample {draws.displayed_sample} is shown. Shares are of these samples; no location there "
        "is certain."
    )
    [row] = list_rows(result).values()
    assert row.target == Placement("m", "r", "r", ())
    # There is only one machine; nevertheless nothing depending on samples is reported as certain.
    [table] = result.plan.figures.placement_tables
    assert (table.racks_certain, table.machines_certain) == (0, 0)


def test_fitting_sample_is_found_without_repetitions() -> None:
    result = require_success(
        plan(ALONE + build_machine(*FOUR) + cluster("a", plane=BIG), samples=0)
    )
    draws = result.plan.figures.numa_sampling
    assert draws is not None
    assert draws == NumaSampling(1, draws.displayed_sample, fits_packed=True)
    assert isinstance(draws.displayed_sample, int)
    assert describe_numa_samples(result.plan.figures.numa_sampling).endswith(
        "no other layout was sampled."
    )


def test_plan_fitting_in_no_sample_is_rejected() -> None:
    result = plan(ALONE + build_machine(*FOUR) + cluster("a", plane=BIG, count=2), samples=20)
    assert [problem.id for problem in list_errors(result)] == ["insufficient-capacity"]


def test_known_cells_need_no_samples() -> None:
    result = require_success(plan(build_racks(2) + cluster("a", plane=BIG), samples=10))
    assert result.plan.figures.numa_sampling is None
    assert {
        tuple(vm["numa_cells"]) for vm in vms(build_state(build_racks(2) + cluster("a"))).values()
    } == {(0,)}


def set_cells(state: State, cells: Any) -> State:
    """Return the state with these `numa_cells` for every node of cluster a."""
    address = at("nexus_kubernetes_cluster.a")
    current = state.instances[address].current
    assert current is not None
    nodes = {
        name: {**node, "numa_cells": cells} for name, node in current.attributes["nodes"].items()
    }
    changed = replace(current, attributes={**current.attributes, "nodes": nodes})
    return replace(state, instances={**state.instances, address: InstanceState(changed)})


def test_missing_cells_are_unknown_and_keep_their_capacity() -> None:
    files = build_racks(1) + cluster("a", pools=pool("p", 4, "NC_G12_56_v1"), plane="NC_G2_8_v1")
    state = build_state(files)
    known = get_site(state).scheduler.count_free_slots
    # Not recorded, or impossible for the machine or the SKU.
    for cells in ([], None, [7], [0, 1]):
        unknown = set_cells(state, cells)
        site = get_site(unknown)
        assert len(list(site.scheduler.list_vms())) == 5
        small = build_standalone_demand(site.skus["NC_G24_112_v1"])
        seen = site.scheduler.count_free_slots(small)
        assert seen.minimum <= known(small).minimum <= seen.maximum < 4
        assert is_empty(plan(files, unknown))


def mark_as_observed(state: State) -> State:
    """Return the state with every node of cluster a marked as observed."""
    address = at("nexus_kubernetes_cluster.a")
    current = state.instances[address].current
    assert current is not None
    nodes = {
        name: {**node, "provenance": "observed"}
        for name, node in current.attributes["nodes"].items()
    }
    changed = replace(current, attributes={**current.attributes, "nodes": nodes})
    return replace(state, instances={**state.instances, address: InstanceState(changed)})


def test_impossible_observed_cells_are_a_finding() -> None:
    state = set_cells(build_state(build_racks(1) + cluster("a")), [7])
    types = build_all_types().resource_types
    providers = ["simulated"]
    for recorded in (state, mark_as_observed(state)):
        [finding] = check_consistency(recorded, types, providers)
        assert finding.id == "impossible-numa-cells"
        assert "r1-bm01 has no cell 7" in finding.detail


def build_hardware(cells: int, more: str = "") -> str:
    """Return the arguments of a rack with machines of that many cells."""
    return f"""machine {{
    numa_cells          = {cells}
    cpus_per_cell       = 48
    memory_gib_per_cell = 224
    ephemeral_disk_gib  = 3500
  }}
  {more}"""


EVACUATE = 'machine_override "r1-bm01" {\n    evacuate = true\n  }'
SPARE = """
resource "nexus_bare_metal_machine" "spare" {
  rack_id     = nexus_rack.r1.id
  slot        = 9
  machine_sku = "bom-1.7.3"
}
"""


def test_removed_cells_are_an_error_unless_their_vms_move() -> None:
    vms_in_both_cells = cluster("a", plane="NC_P22_112_v1", count=3)
    state = build_state(build_racks(1, more=build_hardware(2)) + vms_in_both_cells)
    one_cell = build_racks(1, more=build_hardware(1)) + vms_in_both_cells
    [error] = list_errors(plan(one_cell, state))
    assert error.id == "machine-smaller-than-vms"
    words = (
        "r1-bm01 has 2 NUMA cells, and 1 after this plan. 1 VM uses the removed cells: "
        "a-control-plane-2"
    )
    assert words in error.detail
    evacuated = build_racks(1, more=build_hardware(1, EVACUATE)) + SPARE + vms_in_both_cells
    moved = build_state(evacuated, state)
    assert {vm["machine"] for vm in vms(moved).values()} == {"spare"}


def test_state_with_removed_cells_is_recoverable() -> None:
    files = build_racks(1) + cluster("a")
    damaged = set_cells(build_state(files), [7])
    assert is_empty(plan(files, damaged))
    recovered = build_state(build_racks(1, more=EVACUATE) + SPARE + cluster("a"), damaged)
    assert list_places(recovered) == {"a-control-plane-0": ("spare", (0,))}


def test_other_number_of_cells_of_a_declared_sku_is_an_error() -> None:
    def build_sku(cells: int) -> str:
        return (
            'resource "nexus_vm_sku" "x" {\n  vcpus = 8\n  memory_gib = 32\n  numa_cells = '
            f"{cells}\n}}\n"
        )

    files = build_racks(1) + cluster("a", pools=pool("p", 2, "x"))
    state = build_state(files + build_sku(1))
    [error] = list_errors(plan(files + build_sku(2), state))
    assert error.id == "vm-sku-cells-changed"
    assert "2 VMs of x use another number of NUMA cells: a-p-0, a-p-1" in error.detail
    assert error.subject is not None
    assert error.subject.start.line > files.count("\n")
    unchanged = files + build_sku(1)
    [finding] = check_consistency(
        set_cells(state, [0, 1]), build_all_types().resource_types, ["simulated"]
    )[:1]
    assert "is recorded in 2 cells" in finding.detail
    assert is_empty(plan(unchanged, state))


FOUR_SMALL_CELLS = """machine {
    numa_cells          = 4
    cpus_per_cell       = 24
    memory_gib_per_cell = 112
    ephemeral_disk_gib  = 3500
  }"""


def test_vms_without_a_possible_layout_are_a_finding() -> None:
    two = cluster("a", plane=BIG, count=2)
    state = set_cells(build_state(build_racks(1) + two), None)
    types = build_all_types().resource_types
    providers = ["simulated"]
    assert check_consistency(state, types, providers) == []
    shrunk = build_state(build_racks(1, more=FOUR_SMALL_CELLS) + two, state)
    [problem] = check_consistency(shrunk, types, providers)
    assert problem.id == "overcommitted-site"
    assert "r1-bm01" in problem.detail


def test_vm_observed_on_another_machine_has_unknown_cells() -> None:
    schema = build_all_types().resource_types["nexus_kubernetes_cluster"].schema
    node = {"machine": "m1", "rack": "r", "numa_cells": [1], "provenance": "predicted"}
    answer = {"nodes": {"a-p-0": {**node, "machine": "m2"}}}
    agreement = compare_answer(
        "x", schema, {"nodes": {"a-p-0": node}}, answer, [("nodes", "a-p-0", "machine")]
    )
    there = agreement.attributes["nodes"]["a-p-0"]
    assert (there["machine"], there["numa_cells"], there["provenance"]) == ("m2", None, "observed")


def test_maps_show_vms_with_unknown_cells() -> None:
    drawn = render_svg(
        require_success(
            add_site_capacity(
                plan(ALONE + build_machine(*FOUR) + cluster("a", plane=BIG)), build_all_types()
            )
        ).plan
    )
    left_edges = [float(left) for left in re.findall(r'<rect class="vm kept" x="([\d.]+)"', drawn)]
    assert len(set(left_edges)) == 4, "they are drawn side by side"
    assert drawn.count('class="vm placed"') >= 1


def list_uncertain_capacity(result: PlanResult) -> list[str]:
    return [
        problem.detail for problem in list_warnings(result) if problem.id == "uncertain-capacity"
    ]


def test_plan_fitting_in_some_samples_gives_a_warning() -> None:
    result = require_success(
        plan(ALONE + build_machine(*FOUR) + cluster("a", plane=BIG), samples=50)
    )
    draws = result.plan.figures.numa_sampling
    assert draws is not None
    [detail] = list_uncertain_capacity(result)
    assert f"in {draws.fitting_count} of 50 samples" in detail
    comment = render_markdown(result.plan, {})
    assert f"; everything fits in {draws.fitting_count} of 50 sampled layouts." in comment
    assert f"a: everything fits in {draws.fitting_count} of 50 samples of NUMA cells" in comment
    assert "Before this plan s takes 0 to 1 x NC_P46_224_v1, each SKU alone." in detail
    # A certain fit gives no warning. Without repetitions, a first sample without a fit is
    # enough for one.
    assert not list_uncertain_capacity(
        plan(ALONE + build_machine(*FOUR) + cluster("a", plane="NC_G6_28_v1"), samples=50)
    )
    [detail] = list_uncertain_capacity(
        plan(ALONE + build_machine(*FOUR) + cluster("a", plane=BIG), samples=0)
    )
    assert "no others were tested" in detail


# The first sample leaves one cell of this machine free.
LUCKY = ALONE + build_machine(*FOUR).replace('"m"', '"a"')
TWO = LUCKY + build_machine().replace('"m"', '"n"').replace("slot        = 1", "slot        = 2")


def get_count_fix(files: str, state: State = EMPTY) -> dict[str, Any]:
    [misfit] = list_errors(plan(files, state, samples=50, suggested_fixes=True))
    way: dict[str, Any] = next(
        way for way in misfit.extra["fit"]["suggested_fixes"] if way["kind"] == "count"
    )
    return way


def test_fix_reports_fitting_samples_and_the_certain_count() -> None:
    way = get_count_fix(TWO + cluster("a", plane=BIG, count=5))
    assert way["counts"][0]["count"] == 3
    assert re.search(
        r"It fits in \d+ of 50 samples of the unknown NUMA cells .*\. 2 is certain\.$", way["text"]
    )
    unlucky = TWO.replace('"a"', '"m"')
    assert get_count_fix(unlucky + cluster("a", plane=BIG, count=5))["counts"][0]["count"] == 3
    # With another SKU in the plan the exact count is unknown, only the one for all samples.
    mixed = cluster("a", plane="NC_G6_28_v1", pools=pool("p", 5, BIG))
    assert re.search(r" 1 fits in all of them\.$", get_count_fix(TWO + mixed)["text"])


def test_fix_says_if_no_count_is_certain() -> None:
    way = get_count_fix(LUCKY + cluster("a", plane=BIG, count=2))
    assert way["text"].endswith("No count fits in every sample.")


# --- layouts of VMs outside the samples -----------------------------------------------------------


def build_machines(count: int, *sizes: tuple[int, int], first: int = 1) -> str:
    """Return several such machines, each in its own slot."""
    return "".join(
        build_machine(*sizes)
        .replace('"m"', f'"m{slot}"')
        .replace("slot        = 1", f"slot        = {slot}")
        .replace('name = "x', f'name = "m{slot}x')
        for slot in range(first, first + count)
    )


EIGHT = ALONE + build_machines(8, *FOUR)


@pytest.mark.parametrize("wanted", range(1, 9))
@pytest.mark.parametrize("samples", [0, 20])
def test_possible_fit_is_not_rejected(wanted: int, samples: int) -> None:
    result = require_success(plan(EIGHT + build_large_cluster(wanted), samples=samples))
    draws = result.plan.figures.numa_sampling
    assert draws is not None
    assert len(list_rows(result)) == wanted
    assert (draws.fits_packed, draws.fits_spread) == (True, False)
    if isinstance(draws.displayed_sample, str):
        assert (draws.displayed_sample, draws.fitting_count) == ("packed", 0)
    [detail] = (
        list_uncertain_capacity(result)
        if draws.fitting_count < draws.sample_count or draws.displayed_sample
        else ["takes 0 to 8 x"]
    )
    assert "takes 0 to 8 x" in detail


def build_large_cluster(count: int) -> str:
    return cluster("a", plane=BIG, count=count)


def test_count_above_the_maximum_of_all_layouts_is_rejected() -> None:
    result = plan(EIGHT + build_large_cluster(9), samples=20, suggested_fixes=True)
    [misfit] = list_errors(result)
    assert misfit.summary == "9 x NC_P46_224_v1 do not fit: 8 of 9 placed"
    [way] = [way for way in misfit.extra["fit"]["suggested_fixes"] if way["kind"] == "count"]
    assert way["counts"][0]["count"] == 8
    assert "with VMs packed as Azure packs them" in way["text"]


HALF = 'resource "nexus_vm_sku" "half" {\n  vcpus = 24\n  memory_gib = 112\n}\n'
# Packed in this order, the first kind leaves no half cell; spread, the second kind leaves none.
NOT_PACKED = [(12, 56), (12, 56), (12, 56), (36, 168)]
NOT_SPREAD = [(12, 56), (36, 168), (24, 112)]


def test_roomiest_layout_is_shown_if_packed_and_spread_do_not_fit() -> None:
    mixed = build_machines(6, *NOT_PACKED) + build_machines(6, *NOT_SPREAD, first=7)
    result = require_success(
        plan(ALONE + HALF + mixed + cluster("a", plane="half", count=12), samples=20)
    )
    draws = result.plan.figures.numa_sampling
    assert draws is not None
    assert (draws.displayed_sample, draws.fitting_count, draws.fits_packed, draws.fits_spread) == (
        "roomiest",
        0,
        False,
        False,
    )
    [detail] = list_uncertain_capacity(result)
    assert detail.startswith(
        "Everything fits with the most capacity left on each machine, and in 0"
    )
    assert "s takes 0 to 12 x half" in detail


def test_layouts_are_part_of_plan_data() -> None:
    result = require_success(plan(EIGHT + build_large_cluster(8), samples=20))
    assert result.plan.figures.numa_sampling is not None
    assert build_samples_document(result.plan.figures.numa_sampling) == {
        "machines_with_unknown_cells": 8,
        "displayed_sample": "packed",
        "fitting": 0,
        "runs": 20,
        "packed": True,
        "spread": False,
    }
    assert describe_numa_samples(result.plan.figures.numa_sampling).startswith(
        "unknown on 8 machines; everything fits in 0 of 20 sampled layouts, layout `packed` is "
        "shown."
    )
