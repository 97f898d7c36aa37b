"""Tests of capacity errors: every failed pool is named with its cause.

Every suggested fix works.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.replanning import capacity_remedies
from nexusform.planning.verdicts import placement_fit
from nexusform.state.objects import EMPTY, State
from tests.kill_points import scale_count
from tests.planning.harness import (
    RACKS,
    build_state,
    build_state_after,
    cluster,
    get_line,
    list_errors,
    list_places,
    list_triggers,
    plan,
    pool,
    require_success,
)
from tests.planning.site_model import Block, Pool, Rack, Site, build_document
from tests.planning.test_stability import PLANE_SKUS, POOL_SKUS, ZONES

BIG = "NC_P46_224_v1"
HALF = "NC_P22_112_v1"
SMALL = "NC_G6_28_v1"
SITES = int(os.environ.get("NF_TEST_SITES") or scale_count(100))


def build_rack(name: str, machines: int, more: str = "") -> str:
    return f"""
resource "nexus_rack" "{name}" {{
  site_id       = nexus_site.s.id
  machine_count = {machines}
  {more}
}}
"""


SITE = 'resource "nexus_site" "s" {}\n'
SEVERITIES = ["none", "temporary", "lasting"]


def list_capacity_errors(result: PlanResult) -> dict[tuple[str, str], Diagnostic]:
    """Return the capacity errors by address and pool."""
    return {
        (d.address, d.extra["fit"]["pool"]): d
        for d in list_errors(result)
        if d.id == "insufficient-capacity"
    }


def list_suggested_fixes(result: PlanResult) -> dict[str, dict[str, Any]]:
    found = list_errors(result)[0].extra["fit"]["suggested_fixes"]
    return {way["kind"]: way for way in found}


# --- messages
# --------------------------------------------------------------------------------------


def test_every_failed_pool_is_named_with_its_placed_count() -> None:
    text = SITE + build_rack("r", 2)
    text += cluster("a", pools=pool("p", 9, BIG) + pool("q", 2, SMALL)) + cluster(
        "b", pools=pool("p", 1, BIG)
    )
    result = plan(text)
    found = list_capacity_errors(result)
    assert set(found) == {("nexus_kubernetes_cluster.a", "p"), ("nexus_kubernetes_cluster.b", "p")}
    first = found["nexus_kubernetes_cluster.a", "p"]
    assert first.summary == f"9 x {BIG} do not fit: 3 of 9 placed"
    assert get_line(first)[1] == text[: text.index('agent_pool "p"')].count("\n") + 1
    # q fits into the capacity left by p.
    assert "a-q-1" in list_triggers(result)


def test_first_of_several_pools_without_capacity_is_named() -> None:
    """Equal errors are shown once, so the first one has the totals of the site."""
    arguments = 'count = 4\n  name = "c-${count.index}"'
    clusters = cluster("c", arguments=arguments, plane=HALF, pools=pool("p", 1, BIG))
    result = plan(SITE + build_rack("r", 1) + clusters)
    errors = list_errors(result)
    totals = [d for d in errors if "pools without capacity" in d.detail]
    assert totals == errors[:1]
    assert len(result.unplaced) > len(errors)
    first = result.unplaced[0]
    assert f"{first.cluster}/{first.pool.pool} is the first of" in errors[0].detail
    assert f"{len(result.unplaced)} pools without capacity" in errors[0].detail
    placed = sum(len(vm_object.placements.vms) for vm_object in result.objects.values())
    requested = placed + sum(shortage.missing_count for shortage in result.unplaced)
    assert f": {placed} of {requested} VMs of the site are placed." in errors[0].detail


def test_single_pool_without_capacity_is_not_called_the_first() -> None:
    [error] = list_errors(plan(SITE + build_rack("r", 1) + cluster("a", pools=pool("p", 9, BIG))))
    assert "pools without capacity" not in error.detail


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the edits of each trial plan, as they are made."""
    edits: list[Any] = []
    plan_trial = capacity_remedies.plan_trial

    def record_trial(*arguments: Any) -> PlanResult:
        edits.append(arguments[2])
        return plan_trial(*arguments)

    monkeypatch.setattr(capacity_remedies, "plan_trial", record_trial)
    return edits


def test_no_other_count_is_tried_if_the_smallest_does_not_fit(trials: list[Any]) -> None:
    clusters = [cluster(f"c{number}", pools=pool("p", 40, HALF)) for number in range(8)]
    result = plan(SITE + build_rack("r", 1) + "".join(clusters), suggested_fixes=True)
    assert "count" not in list_suggested_fixes(result)
    counts = [[edit.value for edit in edits if edit.path[-1] == "count"] for edits in trials]
    assert [each for each in counts if len(each) > 1] == [[1] * len(result.unplaced)]


def test_pools_of_one_vm_have_no_smaller_count_to_try(trials: list[Any]) -> None:
    clusters = [cluster(f"c{number}", pools=pool("p", 1, HALF)) for number in range(6)]
    result = plan(SITE + build_rack("r", 1) + "".join(clusters), suggested_fixes=True)
    assert len(result.unplaced) > 1
    assert trials
    assert len(trials) == len({str(edits) for edits in trials})


def test_plan_without_capacity_is_not_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    repeat_with_samples = placement_fit.repeat_with_samples

    def record_call(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return repeat_with_samples(*arguments, **options)

    monkeypatch.setattr(placement_fit, "repeat_with_samples", record_call)
    text = SITE + build_rack("r", 1)
    assert plan(text + cluster("a", pools=pool("p", 1, BIG)), samples=20).plan.figures.samples == 20
    assert len(calls) == 1
    result = plan(text + cluster("a", pools=pool("p", 9, BIG)), samples=20)
    assert result.plan.errored
    assert result.plan.figures.samples == 0
    assert len(calls) == 1


def test_capacity_error_is_the_only_error() -> None:
    result = plan(SITE + build_rack("r", 1) + cluster("a", pools=pool("p", 9, BIG)))
    assert [d.id for d in list_errors(result)] == ["insufficient-capacity"]
    assert result.plan.errored


def test_cells_split_by_smaller_vms_are_reported() -> None:
    text = SITE + build_rack("r", 1) + cluster("a", count=2) + cluster("b", plane=BIG, count=2)
    detail = list_capacity_errors(plan(text))["nexus_kubernetes_cluster.b", "control-plane"].detail
    assert "No NUMA cell with 48 vCPUs and 224 GiB is free" in detail
    assert "a/control-plane" in detail


def test_two_cells_of_one_machine_are_reported() -> None:
    text = SITE + build_rack("r", 1) + cluster("a", pools=pool("p", 1, "NC_E94_448_v1"))
    assert "2 NUMA cells" in list_errors(plan(text))[0].detail


def test_missing_disk_space_is_reported() -> None:
    size = 'resource "nexus_vm_sku" "wide" {\n vcpus = 2\n memory_gib = 2\n disk_gib = 1500\n}\n'
    text = SITE + size + build_rack("r", 1) + cluster("a", pools=pool("p", 3, "wide"))
    found = list_errors(plan(text))[0]
    assert "disk" in found.detail
    assert "2 of 3" in found.summary


def test_no_schedulable_machine_is_reported() -> None:
    off = (
        'machine_override "r-bm01" {\n cordoned = true\n}\nmachine_override "r-bm02" {\n evacuate '
        "= true\n}"
    )
    detail = list_errors(plan(SITE + build_rack("r", 2, off) + cluster("a")))[0].detail
    assert "None of the 2 machines" in detail


def test_hardware_without_the_sku_is_reported() -> None:
    detail = list_errors(plan(RACKS + cluster("a", pools=pool("p", 1, "NC_P54_224_v1"))))[0].detail
    assert "bom-2.0" in detail
    assert "bom-1.7.3" in detail
    assert "NC_P46_224_v1" in detail
    detail = list_errors(plan(RACKS + cluster("a", pools=pool("p", 1, "NC_G56_224_v1"))))[0].detail
    assert "NC_G48_224_v1" in detail


def test_site_without_machines_is_reported() -> None:
    assert "no machine" in list_errors(plan(SITE + cluster("a")))[0].detail.lower()


def test_zones_are_named() -> None:
    text = RACKS + cluster("a", pools=pool("p", 20, BIG, 'availability_zones = ["r1", "r0"]'))
    assert "r0, r1" in list_errors(plan(text))[0].detail


# --- suggested fixes
# -------------------------------------------------------------------------------


def test_largest_fitting_count_is_suggested() -> None:
    text = SITE + build_rack("r", 3) + cluster("a", pools=pool("p", 9, BIG))
    way = list_suggested_fixes(plan(text, suggested_fixes=True))["count"]
    assert way["counts"][0]["count"] == 5
    require_success(plan(text.replace("count       = 9", "count       = 5")))
    assert plan(text.replace("count       = 9", "count       = 6")).plan.errored


def test_node_count_is_suggested_for_a_separate_pool() -> None:
    text = (
        SITE
        + build_rack("r", 3)
        + cluster("a")
        + f"""
resource "nexus_agent_pool" "own" {{
  kubernetes_cluster_id = nexus_kubernetes_cluster.a.id
  node_count            = 9
  vm_sku_name           = "{BIG}"
}}
"""
    )
    assert (
        list_suggested_fixes(plan(text, suggested_fixes=True))["count"]["counts"][0]["node_count"]
        == 5
    )


def test_suggested_counts_are_never_below_existing_vms() -> None:
    before = SITE + build_rack("r", 3) + cluster("a", pools=pool("p", 4, HALF))
    after = before.replace(HALF, BIG).replace("machine_count = 3", "machine_count = 2")
    result = plan(after, build_state(before), suggested_fixes=True)
    assert "count" not in list_suggested_fixes(result)


def test_smallest_set_of_added_zones_is_suggested() -> None:
    text = "".join(build_rack(f"r{i}", 2) for i in range(4)) + SITE
    text += cluster("a", pools=pool("p", 10, BIG, 'availability_zones = ["r0"]'))
    way = list_suggested_fixes(plan(text, suggested_fixes=True))["zones"]
    zones = way["zones"][0]["availability_zones"]
    assert len(zones) == 3
    listed = ", ".join(f'"{z}"' for z in zones)
    require_success(plan(text.replace('["r0"]', f"[{listed}]")))


def test_zone_fix_reports_re_created_vms() -> None:
    text = "".join(build_rack(f"r{i}", 2) for i in range(3)) + SITE
    text += cluster("a", pools=pool("p", 3, BIG, 'availability_zones = ["r0"]'))
    state = build_state(text)
    result = plan(text.replace("count       = 3", "count       = 6"), state, suggested_fixes=True)
    [price] = list_suggested_fixes(result)["zones"]["consequences"]
    assert (price["kind"], price["before"], price["after"]) == ("down", 3, 0)
    assert "a/p has no node for some time: all 3 nodes are" in list_errors(result)[0].detail


def test_zone_fix_names_one_re_created_vm_in_the_singular() -> None:
    text = "".join(build_rack(f"r{i}", 2) for i in range(3)) + SITE
    text += cluster("a", pools=pool("p", 1, BIG, 'availability_zones = ["r0"]'))
    result = plan(
        text.replace("count       = 1", "count       = 6"), build_state(text), suggested_fixes=True
    )
    price = "Temporary loss: a/p has no node for some time: its only node is re-created at once."
    assert list_suggested_fixes(result)["zones"]["text"].endswith(f": all 6 fit. {price}")


def test_fix_with_a_lasting_loss_comes_last() -> None:
    """More zones re-create the control plane; a planned rack costs nothing."""
    text = "".join(build_rack(f"r{i}", 2) for i in range(2)) + SITE
    text += build_rack("next", 4, 'status = "planned"\n  availability_zone = "r0"')
    zones = 'availability_zones = ["r0"]'
    plane = cluster("a", count=3, plane=BIG).replace("count       = 3", f"count = 3\n{zones}")
    before = text + plane
    after = before.replace("count = 3", "count = 5")
    result = plan(after, build_state(before), suggested_fixes=True)
    fixes = list_suggested_fixes(result)
    severities = {kind: fix["severity"] for kind, fix in fixes.items()}
    assert severities["racks"] == "none", severities
    assert severities["zones"] == "lasting", severities
    assert list(severities.values()) == sorted(severities.values(), key=SEVERITIES.index)
    assert not fixes["racks"]["consequences"]
    price = "Lasting loss: a is deleted and created again with 3 VMs."
    assert fixes["zones"]["text"].endswith(price)


def test_price_of_a_fix_has_only_what_the_fix_adds() -> None:
    """The plan destroys a cluster and evacuates a VM with each fix, and without any."""
    ended = cluster("ended", count=3)
    machines = SITE + build_machine("a") + build_machine("b") + build_machine("c")
    text = machines + ended + build_hinted_vms()
    result, after, state = plan_evacuation(text, "", (ended, build_machine("c")))
    [fix] = list_suggested_fixes(result).values()
    assert {price["address"] for price in fix["consequences"]} == {"nexus_virtual_machine.far"}
    followed = require_success(plan(after.replace('"Hard"', '"Soft"'), state))
    assert {"ended-control-plane-0", "first", "far"} <= set(list_triggers(followed))


def test_activating_a_planned_rack_is_suggested() -> None:
    text = (
        SITE
        + build_rack("r", 1)
        + build_rack("far", 1, 'status = "planned"')
        + build_rack("next", 4, 'status = "planned"')
    )
    text += cluster("a", pools=pool("p", 8, BIG))
    way = list_suggested_fixes(plan(text, suggested_fixes=True))["racks"]
    assert [r["address"] for r in way["racks"]] == ["nexus_rack.next"]
    require_success(
        plan(text.replace('machine_count = 4\n  status = "planned"', "machine_count = 4"))
    )
    # Neither rack alone has enough machines for ten VMs, both together have. A rack of another site
    # does not help.
    other_site = (
        (SITE + build_rack("at", 4, 'status = "planned"'))
        .replace('"s"', '"t"')
        .replace("site.s", "site.t")
    )
    pools = pool("p", 5, BIG) + pool("q", 5, BIG)
    more = text.replace(pool("p", 8, BIG), pools) + other_site
    way = list_suggested_fixes(plan(more, suggested_fixes=True))["racks"]
    assert [r["address"] for r in way["racks"]] == ["nexus_rack.far", "nexus_rack.next"]
    assert way["text"] == "far, next (planned) active: everything fits."


def test_placing_larger_vms_first_is_suggested_if_it_helps() -> None:
    small = cluster("a", pools=pool("p", 3))
    large = cluster("b", plane=BIG, pools=pool("p", 4, BIG))
    text = SITE + build_rack("r", 3)
    result = plan(text + small + large, suggested_fixes=True)
    way = list_suggested_fixes(result)["order"]
    assert way["order"] == ["nexus_kubernetes_cluster.b"]
    require_success(plan(text + large + small))


def test_smaller_sku_is_the_last_suggestion() -> None:
    text = SITE + build_rack("r", 1) + cluster("a", pools=pool("p", 3, BIG))
    result = plan(text, suggested_fixes=True)
    kinds = list(list_suggested_fixes(result))
    assert kinds == ["count", "sku"]
    require_success(plan(text.replace(BIG, list_suggested_fixes(result)["sku"]["vm_sku_name"])))
    assert "No changes were made" in list_errors(result)[0].detail


def test_only_working_fixes_are_suggested() -> None:
    text = (
        SITE
        + build_rack("r", 1)
        + cluster("a", plane="NC_G48_224_v1", count=1, pools=pool("p", 1, "NC_E94_448_v1"))
    )
    result = plan(text, suggested_fixes=True)
    for way in list_suggested_fixes(result).values():
        assert way["kind"] == "sku", way


def test_count_fix_covers_all_failed_pools() -> None:
    text = (
        SITE
        + build_rack("r", 3)
        + cluster("a", pools=pool("p", 5, BIG))
        + cluster("b", pools=pool("p", 5, HALF))
    )
    result = plan(text + cluster("c", pools=pool("p", 9, BIG)), suggested_fixes=True)
    if "count" in list_suggested_fixes(result):
        assert {c["address"] for c in list_suggested_fixes(result)["count"]["counts"]} == {
            d.address for d in list_errors(result)
        }


@pytest.mark.parametrize(("first", "second"), [(6, 2), (9, 9), (5, 1)])
def test_two_pools_that_fail_together_get_counts_that_fit_both(first: int, second: int) -> None:
    text = SITE + build_rack("r", 2)
    files = text + cluster("a", pools=pool("p", first, BIG) + pool("q", second, BIG))
    fix = list_suggested_fixes(plan(files, suggested_fixes=True))["count"]
    counts = {entry["pool"]: entry["count"] for entry in fix["counts"]}
    assert set(counts) == {"p", "q"}
    assert min(counts.values()) >= 1
    fixed = cluster("a", pools=pool("p", counts["p"], BIG) + pool("q", counts["q"], BIG))
    assert not plan(text + fixed).plan.errored
    # The cells left by the control plane.
    assert sum(counts.values()) == 3


def test_every_error_has_the_same_suggested_fixes() -> None:
    text = (
        SITE
        + build_rack("r", 2)
        + cluster("a", pools=pool("p", 9, BIG))
        + cluster("b", pools=pool("p", 2, BIG))
    )
    result = plan(text, suggested_fixes=True)
    listed = [d.extra["fit"]["suggested_fixes"] for d in list_errors(result)]
    assert len(listed) == 2
    assert listed[0] == listed[1]


# --- random sites
# ----------------------------------------------------------------------------------

pools = st.builds(
    Pool,
    st.sampled_from("pq"),
    st.integers(1, 9),
    st.sampled_from(POOL_SKUS),
    st.sampled_from(ZONES),
)


@st.composite
def crowded_sites(draw: st.DrawFn) -> Site:
    racks = tuple(Rack(name, draw(st.integers(1, 2))) for name in ("r1", "r2", "r3"))
    blocks = []
    for name in draw(st.sampled_from(("a", "ab", "ba"))):
        plane = Pool("control-plane", draw(st.integers(1, 2)), draw(st.sampled_from(PLANE_SKUS)))
        own = draw(st.lists(pools, min_size=1, max_size=2, unique_by=lambda p: p.name))
        blocks.append(Block(name, (plane, *own)))
    return Site(racks, tuple(blocks))


def apply_fix(site: Site, way: dict[str, Any]) -> Site:
    """Return the site with a suggested fix applied."""
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


def try_plan(site: Site, state: State = EMPTY, *, suggested_fixes: bool = False) -> PlanResult:
    return plan({"main.nf.json": build_document(site)}, state, suggested_fixes=suggested_fixes)


@settings(
    max_examples=SITES,
    deadline=None,
    derandomize="NF_TEST_SITES" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(crowded_sites())
def test_every_suggested_fix_works_and_the_count_is_the_largest(site: Site) -> None:
    result = try_plan(site, suggested_fixes=True)
    assume(result.plan.errored)
    found = list_capacity_errors(result)
    assert len(found) == len(list_errors(result))
    for kind, way in list_suggested_fixes(result).items():
        event(kind)
        if kind == "sku":
            failing = set(found)
            blocks = [
                replace(
                    b,
                    pools=tuple(
                        replace(p, sku=way["vm_sku_name"]) if (b.address, p.name) in failing else p
                        for p in b.pools
                    ),
                )
                for b in site.blocks
            ]
            require_success(try_plan(replace(site, blocks=tuple(blocks))))
            continue
        after = apply_fix(site, way)
        require_success(try_plan(after))
        if kind == "count" and len(way["counts"]) == 1:
            one_more = {
                **way,
                "counts": [{**way["counts"][0], "count": way["counts"][0]["count"] + 1}],
            }
            assert try_plan(apply_fix(site, one_more)).plan.errored


def test_failed_plan_has_no_rows_for_existing_vms() -> None:
    text = SITE + build_rack("r", 2) + cluster("a", pools=pool("p", 2, BIG))
    state = build_state(text)
    result = plan(text.replace("count       = 2", "count       = 9"), state)
    assert result.plan.errored
    assert {what for what, _ in list_triggers(result).values()} == {"place"}
    assert len(list_places(state)) == 3


def test_references_to_a_failed_vm_hide_no_error() -> None:
    text = RACKS + cluster("a", pools=pool("p", 400))
    text += 'output "o" {\n  value = nexus_kubernetes_cluster.a.nodes["a-p-399"].machine\n}\n'
    (told,) = list_errors(plan(text))
    assert "do not fit" in told.summary
    text += (
        'resource "nexus_virtual_machine" "v" {\n  site_id    = nexus_site.s.id\n  cpu_cores  = 2\n'
        "  memory_gib = 4\n  disk_gib   = 4\n"
        '  machine    = nexus_kubernetes_cluster.a.nodes["a-p-399"].machine\n}\n'
    )
    assert "do not fit" in list_errors(plan(text))[0].summary


def test_invalid_rack_is_the_only_reported_error() -> None:
    text = RACKS.replace("machine_count = 4", "machine_count = 400") + cluster(
        "a", pools=pool("p", 1)
    )
    text += 'output "o" {\n  value = nexus_kubernetes_cluster.a.nodes["a-p-0"].machine\n}\n'
    assert {told.summary for told in list_errors(plan(text))} == {"Invalid value for argument"}


# --- placement hints of other VMs
# ------------------------------------------------------------------


def build_machine(name: str, more: str = "", sku: str = 'machine_sku = "bom-1.7.3"') -> str:
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


def build_hinted_vms(scope: str = "Machine", memory: int = 16) -> str:
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


def plan_evacuation(
    text: str, more: str = "", removed: tuple[str, ...] = ()
) -> tuple[PlanResult, str, State]:
    """Evacuate the machine of `first`.

    Return the plan (with `more`, without `removed` blocks), its configuration, and the prior state.
    """
    state = build_state(text)
    stood = list_places(state)["first"][0]
    block = text.index(f'name    = "{stood}"')
    after = text[:block] + text[block:].replace('machine_sku = "bom-1.7.3"', EVACUATED, 1) + more
    for block_text in removed:
        after = after.replace(block_text, "")
    return plan(after, state, suggested_fixes=True), after, state


def test_softening_the_blocking_hint_of_an_existing_vm_is_suggested() -> None:
    result, text, state = plan_evacuation(
        SITE + build_machine("a") + build_machine("b") + build_hinted_vms()
    )
    assert list(list_suggested_fixes(result)) == ["hint"]
    way = list_suggested_fixes(result)["hint"]
    assert way["text"] == (
        'scheduling_execution = "Soft" in the placement_hint of nexus_virtual_machine.far: it '
        "fits. Lasting loss: VM far is deleted and created again; its data is lost."
    )
    assert way["edits"] == [
        {
            "address": "nexus_virtual_machine.far",
            "path": ["placement_hint", 0, "scheduling_execution"],
            "value": "Soft",
        }
    ]
    followed = require_success(plan(text.replace('"Hard"', '"Soft"'), state))
    assert set(list_triggers(followed)) == {"first", "far"}


def test_replacing_the_vm_with_the_blocking_hint_is_suggested() -> None:
    text = SITE + build_machine("a") + build_machine("b") + build_hinted_vms(memory=100)
    result, after, state = plan_evacuation(text, build_machine("c", SMALL_MACHINE))
    assert list(list_suggested_fixes(result)) == ["replace", "hint"]
    way = list_suggested_fixes(result)["replace"]
    assert way["replace"] == ["nexus_virtual_machine.far:far"]
    followed = build_state_after(plan(after, state, replaces=tuple(way["replace"])), state)
    assert {name: machine for name, (machine, _) in list_places(followed).items()} == {
        "first": list_places(state)["far"][0],
        "far": "c",
    }


def test_narrower_scope_for_the_blocking_hint_is_suggested() -> None:
    text = SITE + build_machine("a") + build_machine("b") + build_hinted_vms("Rack")
    rack = list_places(build_state(text))["far"][0]
    second = f"""
resource "nexus_bare_metal_machine" "second" {{
  rack_id     = nexus_rack.{rack}.id
  name        = "second"
  slot        = 2
  machine_sku = "bom-1.7.3"
}}
"""
    result, after, state = plan_evacuation(text, second)
    texts = [
        way["text"].partition(":")[0]
        for way in list_errors(result)[0].extra["fit"]["suggested_fixes"]
    ]
    hint = "in the placement_hint of nexus_virtual_machine.far"
    assert texts == [f'scheduling_execution = "Soft" {hint}', f'scope = "Machine" {hint}']
    require_success(plan(after.replace('"Rack"', '"Machine"'), state))


def test_repacking_is_named_only_if_a_site_has_existing_vms() -> None:
    hint = f"`nexusform simulate repack -sku={BIG} -want=7`"
    text = SITE + build_rack("r", 2) + cluster("a", pools=pool("p", 2, BIG))
    more = text.replace("count       = 2", "count       = 9")
    with_vms = plan(more, build_state(text), suggested_fixes=True)
    assert hint in list_errors(with_vms)[0].detail
    assert "simulate repack" not in list_errors(plan(more, suggested_fixes=True))[0].detail
    # Existing VMs without capacity elsewhere need none for new ones.
    both = SITE + build_rack("r", 1) + build_rack("q", 1) + cluster("a", pools=pool("p", 3, BIG))
    smaller = both.replace("machine_count = 1", "machine_count = 0", 1)
    moved = plan(smaller, build_state(both), suggested_fixes=True)
    assert "simulate repack" not in list_errors(moved)[0].detail


def test_repacking_is_named_only_for_a_sku_of_the_state() -> None:
    """The command reads the state: it knows neither the size of a plain VM nor a new SKU."""
    text = SITE + build_rack("r", 1) + cluster("a")
    state = build_state(text)
    plain = (
        text
        + """
resource "nexus_virtual_machine" "v" {
  count      = 3
  name       = "v${count.index}"
  site_id    = nexus_site.s.id
  cpu_cores  = 40
  memory_gib = 160
  disk_gib   = 100
}
"""
    )
    detail = list_errors(plan(plain, state, suggested_fixes=True))[0].detail
    assert "No fix was found." in detail
    assert "simulate repack" not in detail
    own_sku = """
resource "nexus_vm_sku" "own" {
  vcpus      = 40
  memory_gib = 160
}
"""
    more = text + own_sku + cluster("b", pools=pool("p", 3, "own"))
    assert "simulate repack" not in list_errors(plan(more, state, suggested_fixes=True))[0].detail
    known = build_state(text + own_sku)
    assert (
        "`nexusform simulate repack -sku=own -want=3`"
        in list_errors(plan(more, known, suggested_fixes=True))[0].detail
    )


def test_rack_with_an_error_causes_no_error_about_its_zone() -> None:
    """The rack is missing only because of its own error."""
    override = 'machine_override "nowhere" {\n    cordoned = true\n  }'
    zoned = cluster("a", pools=pool("p", 1, more='availability_zones = ["r"]'))
    result = plan(SITE + build_rack("r", 2, override) + zoned)
    assert [error.id for error in list_errors(result)] == ["unknown-machine"]
    # The zone of another rack is an error of its own once the racks have none.
    result = plan(SITE + build_rack("q", 2) + zoned)
    assert [error.id for error in list_errors(result)] == ["unknown-availability-zone"]
