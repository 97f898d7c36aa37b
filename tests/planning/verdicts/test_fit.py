"""When Insufficient capacity: every pool that fails is named with what stood in the way, and what is offered
as a way out works when it is followed.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.state.objects import EMPTY, State
from tests.planning.harness import (
    RACKS,
    applied,
    cluster,
    errors,
    good,
    line_of,
    places,
    plan,
    pool,
    state_of,
    triggers,
)
from tests.planning.site_model import Block, Pool, Rack, Site, document
from tests.planning.test_stability import PLANE_SKUS, POOL_SKUS, ZONES

BIG, HALF, SMALL = "NC_P46_224_v1", "NC_P22_112_v1", "NC_G6_28_v1"
SITES = int(os.environ.get("NF_TEST_SITES", "25"))


def rack(name: str, machines: int, more: str = "") -> str:
    return f"""
resource "nexus_rack" "{name}" {{
  site_id       = nexus_site.s.id
  machine_count = {machines}
  {more}
}}
"""


SITE = 'resource "nexus_site" "s" {}\n'


def misfits(result: PlanResult) -> dict[tuple[str, str], Diagnostic]:
    """The errors about room by address and pool."""
    return {(d.address, d.extra["fit"]["pool"]): d for d in errors(result) if d.id == "insufficient-capacity"}


def ways(result: PlanResult) -> dict[str, dict[str, Any]]:
    found = errors(result)[0].extra["fit"]["suggested_fixes"]
    return {way["kind"]: way for way in found}


# --- what is said ----------------------------------------------------------------------------------


def test_every_pool_that_fails_is_named_with_how_many_fit() -> None:
    text = SITE + rack("r", 2)
    text += cluster("a", pools=pool("p", 9, BIG) + pool("q", 2, SMALL)) + cluster("b", pools=pool("p", 1, BIG))
    result = plan(text)
    found = misfits(result)
    assert set(found) == {("nexus_kubernetes_cluster.a", "p"), ("nexus_kubernetes_cluster.b", "p")}
    first = found["nexus_kubernetes_cluster.a", "p"]
    assert first.summary == f"9 x {BIG} do not fit: 3 of 9 placed"
    assert line_of(first)[1] == text[: text.index('agent_pool "p"')].count("\n") + 1
    # q fits beside what p left.
    assert "a-q-1" in triggers(result)


def test_the_errors_hold_nothing_else_and_nothing_is_applied() -> None:
    result = plan(SITE + rack("r", 1) + cluster("a", pools=pool("p", 9, BIG)))
    assert [d.id for d in errors(result)] == ["insufficient-capacity"]
    assert result.plan.errored


def test_cells_broken_by_smaller_vms() -> None:
    text = SITE + rack("r", 1) + cluster("a", count=2) + cluster("b", plane=BIG, count=2)
    detail = misfits(plan(text))["nexus_kubernetes_cluster.b", "control-plane"].detail
    assert "No NUMA cell with 48 vCPUs and 224 GiB is free" in detail
    assert "a/control-plane" in detail


def test_two_cells_of_one_machine() -> None:
    text = SITE + rack("r", 1) + cluster("a", pools=pool("p", 1, "NC_E94_448_v1"))
    assert "2 NUMA cells" in errors(plan(text))[0].detail


def test_the_disk() -> None:
    size = 'resource "nexus_vm_sku" "wide" {\n vcpus = 2\n memory_gib = 2\n disk_gib = 1500\n}\n'
    text = SITE + size + rack("r", 1) + cluster("a", pools=pool("p", 3, "wide"))
    found = errors(plan(text))[0]
    assert "disk" in found.detail
    assert "2 of 3" in found.summary


def test_no_machine_that_takes_new_vms() -> None:
    off = 'machine_override "r-bm01" {\n cordoned = true\n}\nmachine_override "r-bm02" {\n evacuate = true\n}'
    detail = errors(plan(SITE + rack("r", 2, off) + cluster("a")))[0].detail
    assert "None of the 2 machines" in detail


def test_hardware_that_does_not_list_the_sku() -> None:
    detail = errors(plan(RACKS + cluster("a", pools=pool("p", 1, "NC_P54_224_v1"))))[0].detail
    assert "bom-2.0" in detail
    assert "bom-1.7.3" in detail
    assert "NC_P46_224_v1" in detail
    detail = errors(plan(RACKS + cluster("a", pools=pool("p", 1, "NC_G56_224_v1"))))[0].detail
    assert "NC_G48_224_v1" in detail


def test_no_machine_at_all() -> None:
    assert "no machine" in errors(plan(SITE + cluster("a")))[0].detail.lower()


def test_zones_are_named() -> None:
    text = RACKS + cluster("a", pools=pool("p", 20, BIG, 'availability_zones = ["r1", "r0"]'))
    assert "r0, r1" in errors(plan(text))[0].detail


# --- what is offered -------------------------------------------------------------------------------


def test_the_largest_count_that_fits() -> None:
    text = SITE + rack("r", 3) + cluster("a", pools=pool("p", 9, BIG))
    way = ways(plan(text, suggested_fixes=True))["count"]
    assert way["counts"][0]["count"] == 5
    good(plan(text.replace("count       = 9", "count       = 5")))
    assert plan(text.replace("count       = 9", "count       = 6")).plan.errored


def test_the_count_of_a_separate_pool_is_its_node_count() -> None:
    text = (
        SITE
        + rack("r", 3)
        + cluster("a")
        + f"""
resource "nexus_agent_pool" "own" {{
  kubernetes_cluster_id = nexus_kubernetes_cluster.a.id
  node_count            = 9
  vm_sku_name           = "{BIG}"
}}
"""
    )
    assert ways(plan(text, suggested_fixes=True))["count"]["counts"][0]["node_count"] == 5


def test_counts_are_never_below_what_stands() -> None:
    before = SITE + rack("r", 3) + cluster("a", pools=pool("p", 4, HALF))
    after = before.replace(HALF, BIG).replace("machine_count = 3", "machine_count = 2")
    result = plan(after, state_of(before), suggested_fixes=True)
    assert "count" not in ways(result)


def test_the_smallest_widening_of_zones() -> None:
    text = "".join(rack(f"r{i}", 2) for i in range(4)) + SITE
    text += cluster("a", pools=pool("p", 10, BIG, 'availability_zones = ["r0"]'))
    way = ways(plan(text, suggested_fixes=True))["zones"]
    zones = way["zones"][0]["availability_zones"]
    assert len(zones) == 3
    listed = ", ".join(f'"{z}"' for z in zones)
    good(plan(text.replace('["r0"]', f"[{listed}]")))


def test_widening_says_how_many_standing_vms_it_re_places() -> None:
    text = "".join(rack(f"r{i}", 2) for i in range(3)) + SITE
    text += cluster("a", pools=pool("p", 3, BIG, 'availability_zones = ["r0"]'))
    state = state_of(text)
    result = plan(text.replace("count       = 3", "count       = 6"), state, suggested_fixes=True)
    assert ways(result)["zones"]["replaced_vms"] == 3
    assert "3 existing VMs" in errors(result)[0].detail


def test_a_planned_rack_made_active() -> None:
    text = SITE + rack("r", 1) + rack("far", 1, 'status = "planned"') + rack("next", 4, 'status = "planned"')
    text += cluster("a", pools=pool("p", 8, BIG))
    way = ways(plan(text, suggested_fixes=True))["racks"]
    assert [r["address"] for r in way["racks"]] == ["nexus_rack.next"]
    good(plan(text.replace('machine_count = 4\n  status = "planned"', "machine_count = 4")))


def test_larger_first_is_offered_when_it_helps() -> None:
    small, large = cluster("a", pools=pool("p", 3)), cluster("b", plane=BIG, pools=pool("p", 4, BIG))
    text = SITE + rack("r", 3)
    result = plan(text + small + large, suggested_fixes=True)
    way = ways(result)["order"]
    assert way["order"] == ["nexus_kubernetes_cluster.b"]
    good(plan(text + large + small))


def test_a_smaller_sku_comes_last() -> None:
    text = SITE + rack("r", 1) + cluster("a", pools=pool("p", 3, BIG))
    result = plan(text, suggested_fixes=True)
    kinds = list(ways(result))
    assert kinds == ["count", "sku"]
    good(plan(text.replace(BIG, ways(result)["sku"]["vm_sku_name"])))
    assert "No changes were made" in errors(result)[0].detail


def test_nothing_is_offered_that_does_not_work() -> None:
    text = SITE + rack("r", 1) + cluster("a", plane="NC_G48_224_v1", count=1, pools=pool("p", 1, "NC_E94_448_v1"))
    result = plan(text, suggested_fixes=True)
    for way in ways(result).values():
        assert way["kind"] == "sku", way


def test_pools_that_fail_together_get_counts_for_all_of_them() -> None:
    text = SITE + rack("r", 3) + cluster("a", pools=pool("p", 5, BIG)) + cluster("b", pools=pool("p", 5, HALF))
    result = plan(text + cluster("c", pools=pool("p", 9, BIG)), suggested_fixes=True)
    if "count" in ways(result):
        assert {c["address"] for c in ways(result)["count"]["counts"]} == {d.address for d in errors(result)}


def test_every_error_carries_the_same_ways_out() -> None:
    text = SITE + rack("r", 2) + cluster("a", pools=pool("p", 9, BIG)) + cluster("b", pools=pool("p", 2, BIG))
    result = plan(text, suggested_fixes=True)
    listed = [d.extra["fit"]["suggested_fixes"] for d in errors(result)]
    assert len(listed) == 2
    assert listed[0] == listed[1]


# --- any site --------------------------------------------------------------------------------------

pools = st.builds(Pool, st.sampled_from("pq"), st.integers(1, 9), st.sampled_from(POOL_SKUS), st.sampled_from(ZONES))


@st.composite
def crowded_sites(draw: st.DrawFn) -> Site:
    racks = tuple(Rack(name, draw(st.integers(1, 2))) for name in ("r1", "r2", "r3"))
    blocks = []
    for name in draw(st.sampled_from(("a", "ab", "ba"))):
        plane = Pool("control-plane", draw(st.integers(1, 2)), draw(st.sampled_from(PLANE_SKUS)))
        own = draw(st.lists(pools, min_size=1, max_size=2, unique_by=lambda p: p.name))
        blocks.append(Block(name, (plane, *own)))
    return Site(racks, tuple(blocks))


def followed(site: Site, way: dict[str, Any]) -> Site:
    """The site after somebody did what a way out says."""
    if way["kind"] == "order":
        first = [b for a in way["order"] for b in site.blocks if b.address == a]
        return replace(site, blocks=(*first, *(b for b in site.blocks if b not in first)))
    changes: dict[tuple[str, str], dict[str, Any]] = {}
    for item in way.get("counts", ()):
        changes[item["address"], item["pool"]] = {"count": item["count"]}
    for item in way.get("zones", ()):
        changes[item["address"], item["pool"]] = {"zones": tuple(item["availability_zones"])}
    blocks = [
        replace(b, pools=tuple(replace(p, **changes.get((b.address, p.name), {})) for p in b.pools))
        for b in site.blocks
    ]
    return replace(site, blocks=tuple(blocks))


def attempt(site: Site, state: State = EMPTY, *, suggested_fixes: bool = False) -> PlanResult:
    return plan({"main.nf.json": document(site)}, state, suggested_fixes=suggested_fixes)


@settings(
    max_examples=SITES,
    deadline=None,
    derandomize="NF_TEST_SITES" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(crowded_sites())
def test_every_way_out_works_and_the_count_is_the_largest(site: Site) -> None:
    result = attempt(site, suggested_fixes=True)
    assume(result.plan.errored)
    found = misfits(result)
    assert len(found) == len(errors(result))
    for kind, way in ways(result).items():
        event(kind)
        if kind == "sku":
            failing = set(found)
            blocks = [
                replace(
                    b,
                    pools=tuple(
                        replace(p, sku=way["vm_sku_name"]) if (b.address, p.name) in failing else p for p in b.pools
                    ),
                )
                for b in site.blocks
            ]
            good(attempt(replace(site, blocks=tuple(blocks))))
            continue
        after = followed(site, way)
        good(attempt(after))
        if kind == "count" and len(way["counts"]) == 1:
            one_more = {**way, "counts": [{**way["counts"][0], "count": way["counts"][0]["count"] + 1}]}
            assert attempt(followed(site, one_more)).plan.errored


def test_a_failing_plan_leaves_standing_vms_in_its_rows_alone() -> None:
    text = SITE + rack("r", 2) + cluster("a", pools=pool("p", 2, BIG))
    state = state_of(text)
    result = plan(text.replace("count       = 2", "count       = 9"), state)
    assert result.plan.errored
    assert {what for what, _ in triggers(result).values()} == {"place"}
    assert len(places(state)) == 3


def test_what_refers_to_a_vm_that_does_not_fit_hides_nothing() -> None:
    text = RACKS + cluster("a", pools=pool("p", 400))
    text += 'output "o" {\n  value = nexus_kubernetes_cluster.a.nodes["a-p-399"].machine\n}\n'
    (told,) = errors(plan(text))
    assert "do not fit" in told.summary
    text += (
        'resource "nexus_virtual_machine" "v" {\n  site_id    = nexus_site.s.id\n  cpu_cores  = 2\n'
        "  memory_gib = 4\n  disk_gib   = 4\n"
        '  machine    = nexus_kubernetes_cluster.a.nodes["a-p-399"].machine\n}\n'
    )
    assert "do not fit" in errors(plan(text))[0].summary


def test_a_broken_rack_is_told_without_what_follows_from_it() -> None:
    text = RACKS.replace("machine_count = 4", "machine_count = 400") + cluster("a", pools=pool("p", 1))
    text += 'output "o" {\n  value = nexus_kubernetes_cluster.a.nodes["a-p-0"].machine\n}\n'
    assert {told.summary for told in errors(plan(text))} == {"Invalid value for argument"}


# --- hints of other VMs ----------------------------------------------------------------------------


def machine(name: str, more: str = "", sku: str = 'machine_sku = "bom-1.7.3"') -> str:
    return f"""
resource "nexus_rack" "{name}" {{
  site_id       = nexus_site.s.id
  machine_count = 0
}}
resource "nexus_bare_metal_machine" "{name}" {{
  rack_id = nexus_rack.{name}.id
  name    = "{name}"
  slot    = 1
  {more or sku}
}}
"""


def hinted(scope: str = "Machine", memory: int = 16) -> str:
    return f"""
resource "nexus_virtual_machine" "first" {{
  site_id    = nexus_site.s.id
  cpu_cores  = 4
  memory_gib = {memory}
  disk_gib   = 10
}}
resource "nexus_virtual_machine" "far" {{
  site_id    = nexus_site.s.id
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 10
  placement_hint {{
    hint_type            = "AntiAffinity"
    resource_id          = nexus_virtual_machine.first.id
    scheduling_execution = "Hard"
    scope                = "{scope}"
  }}
}}
"""


EVACUATED = 'evacuate = true\n  machine_sku = "bom-1.7.3"'
SMALL_MACHINE = """machine {
    numa_cells          = 1
    cpus_per_cell       = 48
    memory_gib_per_cell = 32
    ephemeral_disk_gib  = 100
  }"""


def evacuated(text: str, more: str = "") -> tuple[PlanResult, str, State]:
    """`first` loses its machine: the plan (with `more`), what it is made from, and the state before."""
    state = state_of(text)
    stood = places(state)["first"][0]
    block = text.index(f'name    = "{stood}"')
    after = text[:block] + text[block:].replace('machine_sku = "bom-1.7.3"', EVACUATED, 1) + more
    return plan(after, state, suggested_fixes=True), after, state


def test_a_standing_vms_hard_hint_in_the_way_may_be_made_soft() -> None:
    result, text, state = evacuated(SITE + machine("a") + machine("b") + hinted())
    assert list(ways(result)) == ["hint"]
    way = ways(result)["hint"]
    assert way["text"] == (
        'scheduling_execution = "Soft" in the placement_hint of nexus_virtual_machine.far: it fits. '
        "It re-places 1 existing VM."
    )
    assert way["edits"] == [
        {"address": "nexus_virtual_machine.far", "path": ["placement_hint", 0, "scheduling_execution"], "value": "Soft"}
    ]
    followed = good(plan(text.replace('"Hard"', '"Soft"'), state))
    assert set(triggers(followed)) == {"first", "far"}


def test_the_vm_whose_hint_stands_in_the_way_may_be_placed_anew_too() -> None:
    text = SITE + machine("a") + machine("b") + hinted(memory=100)
    result, after, state = evacuated(text, machine("c", SMALL_MACHINE))
    assert list(ways(result)) == ["replace", "hint"]
    way = ways(result)["replace"]
    assert way["replace"] == ["nexus_virtual_machine.far:far"]
    followed = applied(plan(after, state, replaces=tuple(way["replace"])), state)
    assert {name: machine for name, (machine, _) in places(followed).items()} == {
        "first": places(state)["far"][0],
        "far": "c",
    }


def test_a_hint_in_the_way_may_ask_for_less() -> None:
    text = SITE + machine("a") + machine("b") + hinted("Rack")
    rack = places(state_of(text))["far"][0]
    second = f"""
resource "nexus_bare_metal_machine" "second" {{
  rack_id     = nexus_rack.{rack}.id
  name        = "second"
  slot        = 2
  machine_sku = "bom-1.7.3"
}}
"""
    result, after, state = evacuated(text, second)
    texts = [way["text"].partition(":")[0] for way in errors(result)[0].extra["fit"]["suggested_fixes"]]
    hint = "in the placement_hint of nexus_virtual_machine.far"
    assert texts == [f'scheduling_execution = "Soft" {hint}', f'scope = "Machine" {hint}']
    good(plan(after.replace('"Rack"', '"Machine"'), state))
