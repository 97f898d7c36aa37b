"""Tests of bindings and pods that lose their member or node.

The plan omits their placement.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nexusform.planning.conclusion.placement_accounting import KINDS, collect_names
from nexusform.plans.impact.guard_rails import (
    apply_limits,
    list_broken_limits,
    parse_guard_rail_limits,
)
from nexusform.plans.plan import Mode, PlacementAction
from nexusform.rendering.report.placement_rows import build_placement_summaries
from nexusform.resources.address import parse_address
from nexusform.state.objects import State
from nexusform.workflow.opening.system_io import ConfinedFileAccess
from tests.planning.harness import build_all_types, build_state_after, plan, require_success

pytestmark = pytest.mark.of_domains("fleet")

EXAMPLES = Path(__file__).parents[3] / "examples"
EAST = 'nexus_kubernetes_cluster.edge["east"]'
MEMBER = 'fleet_member_cluster.edge["east"]'


@lru_cache
def read_example(example: str) -> dict[str, str]:
    folder = EXAMPLES / example
    files = (
        path for path in folder.rglob("*") if path.suffix in (".hcl", ".yaml", ".yml", ".json")
    )
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in files}


@lru_cache
def build_example_state(example: str) -> State:
    return build_state_after(
        require_success(plan(read_example(example), files_there=ConfinedFileAccess()))
    )


def shrink_example() -> dict[str, str]:
    files = read_example("end-to-end")
    return files | {"site.nf.hcl": files["site.nf.hcl"].replace("east  = 4", "east  = 1")}


def count_existing(state: State, kind: str) -> int:
    types = build_all_types().resource_types
    total = 0
    for address, instance in state.instances.items():
        resource_type = types[address.type]
        if instance.current is not None and (kind != "vm" or resource_type.vms is not None):
            total += collect_names(kind, resource_type, instance.current.attributes).total()
    return total


def test_pods_lose_deleted_node_if_their_placement_is_not_selected() -> None:
    state = build_example_state("end-to-end")
    result = require_success(
        plan(shrink_example(), state, files_there=ConfinedFileAccess(), targets=(EAST,))
    )
    lost = [row for row in result.plan.placements if row.action is PlacementAction.LOSE]
    assert {(row.kind, row.trigger) for row in lost} == {("pod", "node_removed")}
    gone = {row.object for row in result.plan.placements if row.action is PlacementAction.REMOVE}
    assert {row.source.node for row in lost} <= gone  # type: ignore[union-attr]
    totals = {total.kind: total for total in result.plan.figures.placement_totals}
    assert (totals["pod"].before, totals["pod"].host_lost) == (
        count_existing(state, "pod"),
        len(lost),
    )
    assert list_broken_limits(apply_limits(result.plan, parse_guard_rail_limits("moved:0"))) == (
        "moved:0",
    )


def test_binding_of_removed_member_is_lost_if_placement_is_not_selected() -> None:
    state = build_example_state("end-to-end")
    files = read_example("end-to-end")
    fleet = files["fleet.nf.hcl"].replace(
        "for_each              = nexus_kubernetes_cluster.edge",
        (
            "for_each              = { for k, v in nexus_kubernetes_cluster.edge : k => v if k != "
            '"east" }'
        ),
    )
    result = require_success(
        plan(
            files | {"fleet.nf.hcl": fleet},
            state,
            files_there=ConfinedFileAccess(),
            targets=(MEMBER,),
        )
    )
    lost = [row for row in result.plan.placements if row.action is PlacementAction.LOSE]
    assert {(row.kind, row.trigger) for row in lost} == {
        ("binding", "cluster_left"),
        ("pod", "binding_removed"),
    }
    assert [row.object for row in lost if row.kind == "binding"] == ["east"]
    assert {row.pool.partition("/")[0] for row in lost if row.kind == "pod"} == {"east"}


def test_later_plans_without_the_pods_still_report_them_as_lost() -> None:
    state = build_example_state("end-to-end")
    first = require_success(
        plan(shrink_example(), state, files_there=ConfinedFileAccess(), targets=(EAST,))
    )
    after = build_state_after(first, state)
    second = require_success(
        plan(shrink_example(), after, files_there=ConfinedFileAccess(), targets=("nexus_site.lab",))
    )
    lost = [row.object for row in first.plan.placements if row.action is PlacementAction.LOSE]
    again = [row for row in second.plan.placements if row.action is PlacementAction.LOSE]
    assert [row.object for row in again] == lost != []
    assert {row.reason for row in again} == {"its node does not exist"}
    totals = {total.kind: total for total in second.plan.figures.placement_totals}
    assert (totals["pod"].before, totals["pod"].host_lost) == (
        count_existing(after, "pod"),
        len(lost),
    )
    whole = require_success(plan(shrink_example(), after, files_there=ConfinedFileAccess()))
    moved = {row.object for row in whole.plan.placements if row.action is PlacementAction.MOVE}
    assert set(lost) <= moved


def test_later_plans_still_report_binding_of_removed_member_as_lost() -> None:
    state = build_example_state("end-to-end")
    files = read_example("end-to-end")
    fleet = files["fleet.nf.hcl"].replace(
        "for_each              = nexus_kubernetes_cluster.edge",
        (
            "for_each              = { for k, v in nexus_kubernetes_cluster.edge : k => v if k != "
            '"east" }'
        ),
    )
    files = files | {"fleet.nf.hcl": fleet}
    after = build_state_after(
        require_success(plan(files, state, files_there=ConfinedFileAccess(), targets=(MEMBER,))),
        state,
    )
    second = require_success(
        plan(files, after, files_there=ConfinedFileAccess(), targets=("nexus_site.lab",))
    )
    (lost,) = [
        row
        for row in second.plan.placements
        if row.kind == "binding" and row.action is PlacementAction.LOSE
    ]
    assert (lost.object, lost.reason) == ("east", "its member is not in the fleet")


@pytest.mark.parametrize(("gone", "kinds"), [(EAST, {"pod"}), (MEMBER, {"binding"})])
def test_refresh_only_lists_bindings_and_pods_of_missing_objects(
    gone: str, kinds: set[str]
) -> None:
    state = build_example_state("end-to-end")
    result = require_success(
        plan(
            read_example("end-to-end"),
            state,
            files_there=ConfinedFileAccess(),
            mode=Mode.REFRESH_ONLY,
            refreshed_objects={parse_address(gone): None},
        )
    )
    lost = [row for row in result.plan.placements if row.action is PlacementAction.LOSE]
    assert {row.kind for row in lost} >= kinds
    totals = {total.kind: total for total in result.plan.figures.placement_totals}
    for kind in kinds:
        assert totals[kind].before == count_existing(state, kind)
        assert totals[kind].host_lost == sum(row.kind == kind for row in lost)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
@pytest.mark.parametrize("example", ["end-to-end", "fleet"])
def test_totals_include_every_binding_and_pod_for_any_selection(
    example: str, data: st.DataObject
) -> None:
    state = build_example_state(example)
    addresses = sorted({str(address) for address in state.instances})
    picked = tuple(
        data.draw(st.lists(st.sampled_from(addresses), min_size=1, max_size=3, unique=True))
    )
    how = data.draw(st.sampled_from(["targets", "excludes"]))
    mode = data.draw(st.sampled_from([Mode.NORMAL, Mode.DESTROY]))
    files = shrink_example() if example == "end-to-end" else read_example(example)
    result = plan(files, state, files_there=ConfinedFileAccess(), mode=mode, **{how: picked})
    assert "unbalanced-plan-totals" not in {each.id for each in result.plan.diagnostics}
    if result.plan.errored:
        return
    in_text = {summary.kind: summary for summary in build_placement_summaries(result.plan)}
    totals = {total.kind: total for total in result.plan.figures.placement_totals}
    for kind in KINDS:
        assert (totals[kind].before if kind in totals else 0) == count_existing(state, kind)
        if kind in totals and len(in_text) > 1:
            assert in_text[kind].lose == totals[kind].host_lost
            assert in_text[kind].remove == totals[kind].removed
            assert in_text[kind].keep + in_text[kind].update == totals[kind].unchanged
