"""Tests of placement accounting.

A plan accounts for every pre-existing VM, for any edit and selection.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nexusform.planning.conclusion.placement_accounting import compute_totals
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.impact.guard_rails import (
    apply_limits,
    list_broken_limits,
    parse_guard_rail_limits,
)
from nexusform.plans.plan import Mode, PlacementAction, PlacementTotal, Plan
from nexusform.state.objects import State
from tests.planning.harness import (
    RACKS,
    agent_pool,
    at,
    build_all_types,
    build_state,
    build_state_after,
    cluster,
    list_errors,
    plan,
    pool,
    require_success,
    vms,
)

STRANDED = "deleted-machine-with-vms"
SITE = RACKS + cluster("a", pools=pool("p", 5), count=3) + cluster("b", pools=pool("q", 4))
OWN = agent_pool("own", "nexus_kubernetes_cluster.b.id", 3)
TEXT = SITE + OWN
FORGET = "\nremoved {{\n from = {}\n lifecycle {{\n destroy = false\n }}\n}}\n"


@pytest.fixture(scope="module")
def state() -> State:
    return build_state(TEXT)


def get_total(result: PlanResult, kind: str = "vm") -> PlacementTotal:
    (figures,) = [each for each in result.plan.figures.placement_totals if each.kind == kind]
    return figures


def count_on_rack(state: State, rack: str) -> int:
    return sum(vm["rack"] == rack for vm in vms(state).values())


def is_balanced(figures: PlacementTotal) -> bool:
    parts = (figures.unchanged, figures.moved, figures.recreated, figures.removed)
    before = sum(parts) + figures.host_lost + figures.forgotten
    after = figures.unchanged + figures.moved + figures.recreated + figures.added
    return (figures.before, figures.after) == (before, after)


def remove_third_rack(text: str) -> str:
    return text.replace("= 3\n", "= 2\n", 1)


# --- deleting a machine with VMs on it ----------------------------------------------------------


def test_deleting_only_a_rack_is_rejected_with_a_row_per_vm(state: State) -> None:
    result = plan(remove_third_rack(TEXT), state, targets=("nexus_rack.r",))
    lost = [row for row in result.plan.placements if row.action is PlacementAction.LOSE]
    rack = lost[0].source.rack  # type: ignore[union-attr]
    assert len(lost) == count_on_rack(state, rack) > 0
    assert {row.trigger for row in lost} == {"machine_removed"}
    figures = get_total(result)
    assert is_balanced(figures)
    assert (figures.before, figures.host_lost) == (len(vms(state)), len(lost))
    (problem,) = list_errors(result)
    assert problem.id == STRANDED
    assert "-target='nexus_kubernetes_cluster.a'" in problem.detail


def test_plan_with_rack_and_clusters_moves_the_vms(state: State) -> None:
    targets = [
        "nexus_rack.r",
        "nexus_kubernetes_cluster.a",
        "nexus_kubernetes_cluster.b",
        "nexus_agent_pool.own",
    ]
    figures = get_total(
        require_success(plan(remove_third_rack(TEXT), state, targets=tuple(targets)))
    )
    assert figures.moved > 0
    assert figures.host_lost == 0


def test_error_names_the_exclusion_stranding_vms(state: State) -> None:
    (problem,) = list_errors(
        plan(remove_third_rack(TEXT), state, excludes=("nexus_kubernetes_cluster.b",))
    )
    assert problem.id == STRANDED
    assert "Omit -exclude='nexus_kubernetes_cluster.b'" in problem.detail


def test_error_on_destroyed_rack_suggests_removal_from_configuration(state: State) -> None:
    result = plan(TEXT, state, mode=Mode.DESTROY, targets=("nexus_rack.r[2]",))
    (problem,) = list_errors(result)
    assert problem.id == STRANDED
    assert "remove nexus_rack.r[2] from the configuration" in problem.detail
    assert "-target" not in problem.detail
    assert is_balanced(get_total(result))


def test_vms_outside_the_selection_are_counted_as_unchanged(state: State) -> None:
    figures = get_total(require_success(plan(TEXT, state, targets=("nexus_site.s",))))
    assert (figures.unchanged, figures.before) == (len(vms(state)), len(vms(state)))


def test_rack_missing_after_refresh_is_no_error(state: State) -> None:
    """The loss has already happened: the plan counts it and warns of it."""
    gone = {at("nexus_rack.r[1]"): None}
    refreshed = require_success(plan(TEXT, state, mode=Mode.REFRESH_ONLY, refreshed_objects=gone))
    figures = get_total(refreshed)
    assert (
        figures.host_lost
        == sum(row.action is PlacementAction.LOSE for row in refreshed.plan.placements)
        > 0
    )
    assert is_balanced(figures)


# --- forgotten VMs -------------------------------------------------------------------------------


def test_vms_of_forgotten_cluster_keep_running(state: State) -> None:
    text = TEXT.replace(
        cluster("a", pools=pool("p", 5), count=3), FORGET.format("nexus_kubernetes_cluster.a")
    )
    result = require_success(plan(text, state))
    figures = get_total(result)
    assert (figures.forgotten, figures.removed) == (8, 0)
    assert {row.action for row in result.plan.placements} == {PlacementAction.FORGET}


# --- guard rails ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "limits", "broken"),
    [
        (
            remove_third_rack(TEXT),
            {"targets": ("nexus_rack.r",)},
            "moved:0,risk:0",
            ("moved:0", "risk:0"),
        ),
        (TEXT, {"mode": Mode.DESTROY}, "moved:0,removed:0", ("removed:0",)),
        (SITE, {}, "moved:0,removed:2", ("removed:2",)),
        (SITE, {}, "moved:0,removed:3", ()),
        (SITE + FORGET.format("nexus_agent_pool.own"), {}, "removed:0", ("removed:0",)),
    ],
)
def test_guard_rails_count_removed_vms_and_lost_hosts(
    state: State, text: str, options: dict[str, Any], limits: str, broken: tuple[str, ...]
) -> None:
    result = plan(text, state, **options)
    assert list_broken_limits(apply_limits(result.plan, parse_guard_rail_limits(limits))) == broken


# --- invariants ----------------------------------------------------------------------------------

_EDITS = (
    ("count       = 5", "count       = 2"),
    ("count       = 5", "count       = 9"),
    ('"NC_G6_28_v1"', '"NC_G12_56_v1"'),
    (OWN, ""),
    (OWN, FORGET.format("nexus_agent_pool.own")),
    (cluster("a", pools=pool("p", 5), count=3), ""),
    (cluster("a", pools=pool("p", 5), count=3), FORGET.format("nexus_kubernetes_cluster.a")),
    ("= 3\n", "= 2\n"),
    ("= 3\n", "= 4\n"),
)
_ADDRESSES = (
    "nexus_rack.r",
    "nexus_rack.r[0]",
    "nexus_rack.r[2]",
    "nexus_site.s",
    "nexus_kubernetes_cluster.a",
    "nexus_kubernetes_cluster.b",
    "nexus_agent_pool.own",
)
_EDITED = st.lists(st.sampled_from(_EDITS), max_size=3)
_PICKED = st.lists(st.sampled_from(_ADDRESSES), max_size=2, unique=True).map(tuple)
_REPLACED = st.sampled_from(
    ((), ("nexus_kubernetes_cluster.b",), ("nexus_kubernetes_cluster.a:a-p-1",))
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    _EDITED,
    st.sampled_from(["all", "target", "exclude"]),
    _PICKED,
    _REPLACED,
    st.sampled_from(list(Mode)),
)
def test_every_vm_is_counted_exactly_once(
    state: State,
    edits: list[tuple[str, str]],
    how: str,
    picked: tuple[str, ...],
    replaces: tuple[str, ...],
    mode: Mode,
) -> None:
    text = TEXT
    for old, new in edits:
        text = text.replace(old, new, 1)
    options: dict[str, Any] = {"mode": mode}
    if mode is not Mode.REFRESH_ONLY and how != "all":
        options["targets" if how == "target" else "excludes"] = picked
    if mode is Mode.NORMAL:
        options["replaces"] = replaces
    result = plan(text, state, **options)
    held = [figures for figures in result.plan.figures.placement_totals if figures.kind == "vm"]
    if result.plan.errored and not held:
        assert "unbalanced-plan-totals" not in {problem.id for problem in list_errors(result)}
        return
    (figures,) = held
    assert is_balanced(figures)
    assert figures.before == len(vms(state))
    if result.plan.errored:
        return
    assert figures.host_lost == 0
    after = state if mode is Mode.REFRESH_ONLY else build_state_after(result, state)
    assert figures.after == len(vms(after))
    gone = Counter(
        row.object for row in result.plan.placements if row.action in ("remove", "forget")
    )
    assert set(vms(state)) - set(vms(after)) <= set(gone)


def test_missing_placement_row_is_reported(state: State) -> None:
    whole: Plan = require_success(plan(SITE, state)).plan
    types = build_all_types().resource_types
    assert compute_totals(whole.changes, whole.placements, types).mistakes == ()
    part = replace(whole, placements=whole.placements[1:])
    (mistake,) = compute_totals(part.changes, part.placements, types).mistakes
    assert f'"{whole.placements[0].object}"' in mistake


# --- rejected plans ------------------------------------------------------------------------------

FIVE = "count       = 5"
ZONE = 'availability_zones = ["9"]'
REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    (
        "unknown-site",
        TEXT.replace('"a" {\n  site_id = nexus_site.s.id', '"a" {\n  site_id = "x"'),
        {},
    ),
    ("insufficient-capacity", TEXT.replace("count       = 5", "count       = 500"), {}),
    ("nothing-to-target", TEXT, {"targets": ("nexus_rack.nowhere",)}),
    ("incompatible-options", TEXT, {"targets": ("nexus_rack.r",), "excludes": ("nexus_site.s",)}),
    (
        "unknown-availability-zone",
        TEXT.replace("count       = 5", 'count = 5\n availability_zones = ["9"]'),
        {},
    ),
]


@pytest.mark.parametrize(("kind", "text", "options"), REFUSED, ids=[each[0] for each in REFUSED])
def test_rejected_plan_accounts_for_existing_vms(
    state: State, kind: str, text: str, options: dict[str, Any]
) -> None:
    result = plan(text, state, **options)
    assert kind in {problem.id for problem in list_errors(result)}
    figures = get_total(result)
    assert is_balanced(figures)
    assert figures.before == len(vms(state))


# --- suggested fixes are tested ------------------------------------------------------------------


def test_suggested_target_is_marked_if_its_plan_is_rejected_too(state: State) -> None:
    zoned = TEXT.replace("count       = 4", 'count       = 4\n    availability_zones = ["r2"]')
    standing = build_state(zoned)
    result = plan(
        remove_third_rack(zoned), standing, targets=("nexus_rack.r",), suggested_fixes=True
    )
    (problem,) = list_errors(result)
    assert "That plan is rejected too" in problem.detail
    assert 'No rack of site s is in zone "r2"' in problem.detail
    plain = plan(remove_third_rack(TEXT), state, targets=("nexus_rack.r",), suggested_fixes=True)
    (problem,) = list_errors(plain)
    assert "refused as well" not in problem.detail
    require_success(
        plan(
            remove_third_rack(TEXT),
            state,
            targets=("nexus_rack.r", *problem.extra["selection"]["targets"]),
        )
    )


def test_error_names_a_forgotten_site(state: State) -> None:
    text = TEXT.replace('resource "nexus_site" "s" {}', "").replace("nexus_site.s.id", '"s"')
    result = plan(text + FORGET.format("nexus_site.s"), state, targets=("nexus_site.s",))
    refused = [problem.detail for problem in list_errors(result) if problem.id == STRANDED]
    details = {detail.partition(",")[0] for detail in refused}
    assert details == {"nexus_site.s is forgotten with this plan"}
    assert {row.trigger for row in result.plan.placements} == {"machine_forgotten"}
