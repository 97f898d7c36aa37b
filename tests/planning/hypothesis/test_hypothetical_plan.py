"""Tests of hypotheses: each kind of edit has an effect, and no such plan is saved or applied."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.applying.executor import execute_plan
from nexusform.diagnostics.diagnostic import DiagnosticsError
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.planning.edits import AddedBlocks, Edit, LostMachines, PlacementOrder, VmReplacement
from nexusform.planning.hypothesis import losses
from nexusform.planning.hypothesis.assumptions import parse_assumption
from nexusform.planning.hypothesis.hypothetical_plan import plan_hypothesis
from nexusform.planning.hypothesis.losses import list_loss_kinds
from nexusform.planning.plan_request import ArgumentAdjustment
from nexusform.planning.planner import make_plan
from nexusform.planning.verdicts.placement_fit import DOES_NOT_FIT
from nexusform.plans.plan import HypotheticalPlan, PlacementAction, Plan, build_hypothetical_plan
from nexusform.plans.saved.plan_file import write_plan_file
from nexusform.resources.address import parse_address
from tests.planning.harness import build_request, cluster, list_rows, pool
from tests.planning.hypothesis.power_domain import POWER_SUPPLY
from tests.worlds.small_worlds import build_applied_state, build_racks

FILES = build_racks(3, 3, 3) + cluster("a", count=3, pools=pool("p", 4))
CLUSTER = parse_address("nexus_kubernetes_cluster.a")
NEW = cluster("b", count=3) + cluster("c", count=3)


def locate_all(result: PlanResult) -> dict[str, tuple[str, str]]:
    """Return trigger and machine of each VM with a row."""
    return {
        name: (row.trigger, row.target.machine if row.target is not None else "")
        for name, row in list_rows(result).items()
    }


@pytest.mark.parametrize(
    ("edit", "triggers"),
    [
        (ArgumentAdjustment(CLUSTER, ("agent_pool", "p", "count"), 5), {"scale_out"}),
        (
            ArgumentAdjustment(CLUSTER, ("kubernetes_version",), "1.99"),
            {"kubernetes_version_changed"},
        ),
        (LostMachines("s", ("r1-bm01", "r1-bm02", "r1-bm03")), {"machine_lost"}),
        (VmReplacement("nexus_kubernetes_cluster.a:a-p-1"), {"heal"}),
    ],
)
def test_each_edit_has_an_effect(edit: Edit, triggers: set[str]) -> None:
    request = build_request(FILES, build_applied_state(FILES))
    hypothesis = plan_hypothesis(request, [edit])
    assert not list_rows(hypothesis.before)
    rows = locate_all(hypothesis.after)
    assert {trigger for trigger, _ in rows.values()} == triggers
    assert hypothesis.comparison is not None
    assert set(hypothesis.comparison.objects) == set(rows)


def test_added_and_removed_blocks() -> None:
    request = build_request(FILES, build_applied_state(FILES))
    added = build_request(FILES + cluster("b", count=3)).configuration
    removed = build_request(build_racks(3, 3, 3)).configuration
    rows = locate_all(plan_hypothesis(request, [AddedBlocks(added)]).after)
    assert {name.partition("-")[0] for name in rows} == {"b"}
    rows = locate_all(plan_hypothesis(request, [AddedBlocks(removed)]).after)
    assert {trigger for trigger, _ in rows.values()} == {"cluster_removed"}


def test_order_of_new_vms() -> None:
    request = build_request(build_racks(3, 3, 3) + NEW)
    addresses = (parse_address("nexus_kubernetes_cluster.c"),)
    hypothesis = plan_hypothesis(request, [PlacementOrder(addresses)])
    assert hypothesis.comparison is not None
    assert hypothesis.comparison.objects


def test_plan_without_edits_is_shared() -> None:
    request = build_request(FILES, build_applied_state(FILES))
    before = add_site_capacity(make_plan(request), request.registries)
    edit = LostMachines("s", ("r2-bm01",))
    shared = plan_hypothesis(request, [edit], before)
    assert shared.before is before
    assert shared.after.plan == plan_hypothesis(request, [edit]).after.plan


def test_lost_machines_have_no_capacity() -> None:
    request = build_request(FILES, build_applied_state(FILES))
    # It has no VM: only the capacity changes.
    empty = min({machine.name for machine in _list_machines(request)} - _list_used(request))
    after = plan_hypothesis(request, [LostMachines("s", (empty,))]).after
    assert not list_rows(after)
    assert all(
        row.after.free < row.before.free
        for row in after.plan.site_records.capacity
        if row.before and row.after
    )


def _list_machines(request: Any) -> list[Any]:
    return list(make_plan(request).sites["s"].machines.values())


def _list_used(request: Any) -> set[str]:
    vms = make_plan(request).objects[CLUSTER].prior.existing.values()
    return {vm.placement.machine for vm in vms}


def test_hypothetical_plan_is_neither_saved_nor_applied() -> None:
    plan = build_hypothetical_plan(Plan(), ["lost:rack/a/b"])
    # A changed copy stays hypothetical.
    for hypothetical in (plan, replace(plan, errored=True)):
        assert isinstance(hypothetical, HypotheticalPlan)
        with pytest.raises(TypeError, match="cannot be saved or applied"):
            write_plan_file(hypothetical, {})
        with pytest.raises(TypeError, match="cannot be saved or applied"):
            execute_plan(hypothetical, *[None] * 3, clock=None, listener=None)  # type: ignore[arg-type]
    assert write_plan_file(Plan(), {})


def test_every_result_of_a_hypothesis_is_hypothetical() -> None:
    request = build_request(FILES, build_applied_state(FILES))
    lost = LostMachines("s", tuple(machine.name for machine in _list_machines(request)))
    hypothesis = plan_hypothesis(request, [lost])
    # Nothing fits, and the plan says so: each VM is lost, and none is removed.
    assert hypothesis.after.unplaced
    assert not hypothesis.after.plan.errors
    rows = list_rows(hypothesis.after)
    assert rows
    assert {row.action for row in rows.values()} == {PlacementAction.LOSE}
    assert isinstance(hypothesis.after.plan, HypotheticalPlan)


def test_new_vms_without_capacity_are_a_finding_of_a_hypothesis() -> None:
    request = build_request(FILES, build_applied_state(FILES))
    edit = ArgumentAdjustment(CLUSTER, ("agent_pool", "p", "count"), 400)
    after = plan_hypothesis(request, [edit]).after
    assert not after.plan.errors
    [shortage] = after.unplaced
    placed = [row for row in list_rows(after).values() if row.action is PlacementAction.PLACE]
    # Its VMs of before stay, and as many as fit are added.
    assert shortage.placed_count == 4 + len(placed)
    assert shortage.missing_count > 0


def test_losses_of_a_site_have_names() -> None:
    before = make_plan(build_request(FILES, build_applied_state(FILES)))
    kinds = list_loss_kinds()
    assert {"s/r1", "s/r2", "s/r3"} == set(kinds["rack"].list_edits(before))
    assert {"s/r1-bm01", "s/r1/r1-bm01"} <= set(kinds["machine"].list_edits(before))
    assert {"a/a-p-0", "s/a/a-p-0"} <= set(kinds["node"].list_edits(before))


def test_new_kind_of_loss_is_one_file_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    request = build_request(FILES, build_applied_state(FILES))
    before = make_plan(request)
    types = request.registries.resource_types
    with pytest.raises(DiagnosticsError, match='there is no kind of loss "power-supply"'):
        parse_assumption("lost:power-supply/s/a", before, types)
    monkeypatch.setitem(losses._KINDS, "power-supply", lambda: POWER_SUPPLY)  # the line
    assumption = parse_assumption("lost:power-supply/s/a", before, types)
    rows = list_rows(plan_hypothesis(request, assumption.edits).after)
    assert rows
    for row in rows.values():
        assert row.trigger == "machine_lost"
        assert row.target is not None
        assert sorted(before.sites["s"].machines).index(row.target.machine) % 2
    with pytest.raises(DiagnosticsError, match=r'no power supply "s/c".*Known: s/a and s/b'):
        parse_assumption("lost:power-supply/s/c", before, types)


@pytest.mark.parametrize("word", list(losses._KINDS))
def test_dropped_kind_of_loss_is_rejected(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    request = build_request(FILES, build_applied_state(FILES))
    before = make_plan(request)
    name = next(iter(list_loss_kinds()[word].list_edits(before)))
    types = request.registries.resource_types
    assert parse_assumption(f"lost:{word}/{name}", before, types).edits
    monkeypatch.delitem(losses._KINDS, word)
    with pytest.raises(DiagnosticsError, match=f'there is no kind of loss "{word}"'):
        parse_assumption(f"lost:{word}/{name}", before, types)


def test_suggested_fixes_are_tested_under_the_assumptions() -> None:
    files = build_racks(1, 1) + cluster("a", pools=pool("p", 1, "NC_P46_224_v1"))
    request = replace(build_request(files), includes_remedies=True)
    edits = [
        ArgumentAdjustment(CLUSTER, ("control_plane", "count"), 3),
        ArgumentAdjustment(CLUSTER, ("control_plane", "vm_sku_name"), "NC_P46_224_v1"),
        ArgumentAdjustment(CLUSTER, ("agent_pool", "p", "count"), 4),
    ]
    after = plan_hypothesis(request, edits).after
    assert not after.plan.errors
    [error] = [problem for problem in after.plan.diagnostics if problem.id == DOES_NOT_FIT]
    fixes = {fix["kind"]: fix for fix in error.extra["fit"]["suggested_fixes"]}
    # The control plane takes three of the four cells.
    assert fixes["count"]["counts"][0]["count"] == 1
    for fix in fixes.values():
        changes = [
            ArgumentAdjustment(parse_address(edit["address"]), tuple(edit["path"]), edit["value"])
            for edit in fix["edits"]
        ]
        assert not plan_hypothesis(request, [*edits, *changes]).after.unplaced, fix["text"]
