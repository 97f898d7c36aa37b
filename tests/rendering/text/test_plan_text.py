from __future__ import annotations

import json
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.plans.plan import (
    Action,
    Drift,
    InventoryRead,
    Mode,
    Observations,
    OutputChange,
    PlacementAction,
    PlacementChange,
    PlacementFigures,
    Plan,
    PlannedOptions,
    PlanStart,
    RootValues,
)
from nexusform.rendering.notation.colours import PLAIN, strip_colours
from nexusform.rendering.report.placement_rows import ShownPlacements
from nexusform.rendering.report.report_tree import Row, Section, Table
from nexusform.rendering.text.plan_text import PlanTextOptions, render_plan
from nexusform.rendering.text.report_text import render_plan_section
from nexusform.schemas.value_types import DYNAMIC
from tests.rendering.pieces import ALL_PLANS

Golden = Callable[[str, str], None]


def render_details(**more: Any) -> PlanTextOptions:
    return PlanTextOptions(details=True, **more)


@pytest.mark.parametrize("name", ALL_PLANS)
def test_plan_matches_reviewed_file(name: str, plans: SimpleNamespace, golden: Golden) -> None:
    plan = getattr(plans, name)()
    options = render_details(width=110, registries=plans.registries)
    golden(f"plan/{name}.txt", render_plan(plan, plans.files, options))


@pytest.mark.parametrize("name", ALL_PLANS)
@pytest.mark.parametrize("detail", list(ShownPlacements))
def test_colour_adds_only_escapes(
    name: str, detail: ShownPlacements, plans: SimpleNamespace
) -> None:
    plan = getattr(plans, name)()
    plain = render_plan(plan, plans.files, render_details(placements=detail))
    coloured = render_plan(plan, plans.files, render_details(placements=detail, colour=True))
    assert "\x1b" not in plain
    assert "\x1b[" in coloured
    assert strip_colours(coloured) == plain


def test_all_placements_and_none(plans: SimpleNamespace, golden: Golden) -> None:
    plan = plans.changed_placements()
    everything = render_plan(
        plan, {}, render_details(width=110, placements=ShownPlacements.ALL, hints=False)
    )
    golden("plan/placements_all.txt", everything)
    nothing = render_plan(plan, {}, render_details(placements=ShownPlacements.NONE))
    assert "Predicted" not in nothing
    assert "rack7-bm14" not in nothing
    assert "Placements: 0 to place, 1 to move, 3 to remove, 174 kept." in nothing
    assert "see below" not in nothing


@pytest.mark.parametrize("name", ALL_PLANS)
@pytest.mark.parametrize("width", [50, 64, 80])
def test_no_line_ends_with_blanks(name: str, width: int, plans: SimpleNamespace) -> None:
    lines = render_plan(getattr(plans, name)(), plans.files, render_details(width=width)).split(
        "\n"
    )
    assert [line for line in lines if line != line.rstrip()] == []


@pytest.mark.parametrize("width", [30, 60, 80, 100])
def test_tables_fit_the_width(width: int, plans: SimpleNamespace) -> None:
    text = render_plan(
        plans.added_cluster(), {}, render_details(width=width, diagnostics=False, hints=False)
    )
    table = [line for line in text.split("\n") if "NC_P46_224_v1" in line and "+" not in line]
    assert table
    assert all(len(line) <= max(width, 66) for line in table)


# --- text used by tools ---

ATLANTIS = re.compile(
    r"Plan: (?:(\d+) to import, )?(\d+) to add, (\d+) to change, (\d+) to destroy\."
)


def test_atlantis_finds_the_counts(plans: SimpleNamespace) -> None:
    text = render_plan(plans.every_action(), {}, render_details())
    found = ATLANTIS.search(text.replace(", 1 to forget", ""))
    assert found is not None
    assert found.groups() == ("2", "5", "2", "13")
    assert re.search(r"^Plan: \d", text, re.MULTILINE)


def test_plan_line_without_imports_and_forgets(plans: SimpleNamespace) -> None:
    text = render_plan(plans.added_cluster(), {}, render_details())
    assert re.findall(r"Plan: \d+ to add, \d+ to change, \d+ to destroy.", text) == [
        "Plan: 1 to add, 0 to change, 0 to destroy."
    ]


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        (Mode.NORMAL, "No changes. Your infrastructure matches the configuration."),
        (Mode.REFRESH_ONLY, "No changes. Your infrastructure still matches the configuration."),
        (Mode.DESTROY, "No changes. No objects need to be destroyed."),
    ],
)
def test_no_changes(mode: Mode, sentence: str, plans: SimpleNamespace) -> None:
    kept = plans.change(plans.d, Action.NO_OP, {"id": "x"}, {"id": "x"})
    text = render_plan(
        Plan(
            options=PlannedOptions(mode=mode),
            changes=(kept,),
            figures=PlacementFigures(unchanged_count=178),
        ),
        {},
        render_details(),
    )
    assert text.startswith(sentence)
    assert "Plan:" not in text
    assert "Placements: 0 to place, 0 to move, 0 to remove, 178 kept." in text
    assert "nexusform apply" not in text


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        (Mode.NORMAL, "No changes. The selected resources match the configuration."),
        (Mode.REFRESH_ONLY, "No changes. The selected resources still match the configuration."),
        (Mode.DESTROY, "No changes. No selected object needs to be destroyed."),
    ],
)
def test_partial_plan_without_changes_says_so(
    mode: Mode, sentence: str, plans: SimpleNamespace
) -> None:
    kept = plans.change(plans.d, Action.NO_OP, {"id": "x"}, {"id": "x"})
    made = Plan(
        options=PlannedOptions(mode=mode, excludes=("nexus_rack.r",)),
        changes=(kept,),
        figures=PlacementFigures(unchanged_count=178),
    )
    assert render_plan(made, {}, render_details()).startswith(sentence)
    assert render_plan(made, {}, PlanTextOptions()).startswith(sentence)


def test_old_inventory_limits_the_claim_of_no_changes() -> None:
    inventories = (InventoryRead("a", "2026-02-20T06:00:00Z", is_stale=True),)
    old = Plan(
        start=PlanStart(timestamp="2026-02-28T14:00:00Z"),
        observed=Observations(inventories=inventories),
    )
    for options in (render_details(), PlanTextOptions()):
        text = " ".join(render_plan(old, {}, options).split())
        assert text.startswith(
            "No changes. What was read matches the configuration. The inventory is 8 days old: "
        )
    partial = replace(old, options=replace(old.options, targets=("nexus_rack.r",)))
    assert render_plan(partial, {}).startswith(
        "No changes. The selected resources match the configuration."
    )
    assert "The inventory is 8 days old" in render_plan(partial, {})
    destroy = replace(old, options=replace(old.options, mode=Mode.DESTROY))
    assert render_plan(destroy, {}).startswith("No changes. No objects need to be destroyed.")
    current = replace(
        old,
        observed=replace(old.observed, inventories=(InventoryRead("a", "2026-02-28T06:00:00Z"),)),
    )
    assert render_plan(current, {}).startswith(
        "No changes. Your infrastructure matches the configuration."
    )


def test_tfcmt_finds_the_addresses_by_action(plans: SimpleNamespace) -> None:
    text = render_plan(plans.every_action(), {}, render_details())
    assert re.findall(r"^ *# (.*) will be created$", text, re.MULTILINE) == ["nexus_rack.a"]
    assert "nexus_rack.old[2]" in re.findall(r"^ *# (.*) will be destroyed$", text, re.MULTILINE)
    assert re.findall(r"^ *# (.*) must be replaced$", text, re.MULTILINE)[0] == "nexus_rack.j"
    assert re.findall(r"^ *# (.*?) has moved to (.*?)$", text, re.MULTILINE) == [
        ("nexus_rack.s0", "nexus_rack.s")
    ]


# --- other output ---


def test_unchanged_objects_are_omitted(plans: SimpleNamespace) -> None:
    assert "nexus_rack.t" not in render_plan(plans.every_action(), {}, render_details())


def test_next_step_is_printed(plans: SimpleNamespace) -> None:
    plan = plans.added_cluster()
    assert "-out option" in render_plan(plan, {}, render_details())
    saved = render_plan(plan, {}, render_details(saved_path="my.plan"))
    assert 'nexusform apply "my.plan"' in saved
    assert "-out option" not in saved
    taken = render_plan(plan, {}, render_details(saved_path="my.plan", take_ownership=True))
    assert 'nexusform apply -take-ownership "my.plan"' in taken
    unsaved = " ".join(render_plan(plan, {}, render_details(take_ownership=True)).split())
    assert 'if you run "nexusform apply -take-ownership" now.' in unsaved
    assert "-out option" not in render_plan(plan, {}, render_details(hints=False))


def test_failed_plan_shows_only_its_errors(plans: SimpleNamespace) -> None:
    plan = plans.added_cluster()
    failed = replace(
        plan,
        errored=True,
        root_values=replace(plan.root_values, outputs=plans.outputs_only().root_values.outputs),
    )
    text = render_plan(failed, plans.files, render_details())
    assert text.startswith("Planning failed.")
    assert "Advice: zones-pinned" in text
    for part in (
        "Plan:",
        "Placements:",
        "will be created",
        "Changes to Outputs",
        "nexusform apply",
    ):
        assert part not in text


def test_control_characters_never_reach_the_terminal(plans: SimpleNamespace) -> None:
    text = render_plan(plans.every_shape(), {}, render_details(colour=True))
    assert "\x07" not in text
    assert "\\u0007" in text
    assert "\\u001b[31m" in text


@pytest.mark.parametrize("width", [20, 100])
def test_control_characters_of_notes_and_sentences_never_reach_the_terminal(width: int) -> None:
    row = Row(("a cell", "another cell"), note="note \x07")
    table = Table(("first header", "second header"), (row,), caption="caption \x1b[31m")
    parts = render_plan_section(Section("", ("sentence \x9b",), table=table), width, PLAIN)
    assert all(character.isprintable() or character == "\n" for character in "".join(parts))


def test_secrets_are_not_shown(plans: SimpleNamespace) -> None:
    plan = plans.every_shape()
    text = render_plan(replace(plan, changes=plan.changes[:1]), {}, render_details())
    for secret in ('"old"', '"new"', '"s1"', '"s2"'):
        assert secret not in text


def test_moves_are_highlighted_and_many_are_folded(plans: SimpleNamespace) -> None:
    plan = plans.changed_placements()
    text = render_plan(plan, {}, render_details(colour=True, width=120))
    assert "\x1b[1;33m1 to move\x1b[0m" in text
    row = plan.placements[0]
    many = tuple(replace(row, object=f"cluster-d-pool1-{i}", number=i) for i in range(12))
    folded = render_plan(replace(plan, placements=many), {}, render_details(width=120))
    assert "cluster-d-pool1-0..11" in folded
    assert "12 VMs on 1 machine" in folded


@pytest.mark.parametrize("depth", [90, 99, 100, 300, 490])
def test_very_deep_values_are_rendered_without_a_crash(depth: int, plans: SimpleNamespace) -> None:
    deep: Any = []
    for _ in range(depth):
        deep = [deep]
    text = json.dumps({"a": deep})
    thing = plans.address("thing", "x")
    plan = Plan(
        changes=(
            plans.change(thing, Action.CREATE, None, {"id": "x", "deep": deep}),
            plans.change(
                thing, Action.UPDATE, {"id": "x", "json": text}, {"id": "x", "json": text + " "}
            ),
        ),
        root_values=RootValues(
            outputs=(OutputChange("deep", Action.CREATE, None, deep, DYNAMIC, False),)
        ),
    )
    shown = render_plan(plan, {}, render_details())
    assert ("(nested too deeply to be shown)" in shown) is (depth >= 100)


def test_machines_are_counted_for_new_racks_and_listed_for_changed_ones(
    plans: SimpleNamespace,
) -> None:
    rack = plans.address("nexus_rack", "r")
    before = {"id": "r", "machines": {f"m{i}": {"slot": i} for i in range(16)}}
    after = before | {"machines": before["machines"] | {"m16": {"slot": 16}}}
    new = render_plan(
        Plan(changes=(plans.change(rack, Action.CREATE, None, before),)), {}, render_details()
    )
    assert "+ machines = (16 machines)" in new
    more = render_plan(
        Plan(changes=(plans.change(rack, Action.UPDATE, before, after),)), {}, render_details()
    )
    assert "+ m16 = {" in more
    assert "# (16 unchanged attributes hidden)" in more


@pytest.mark.of_domains("fleet")
def test_place_released_and_taken_again_is_not_kept(plans: SimpleNamespace) -> None:
    # A replaced placement releases its clusters and picks again: every row counts.
    web = plans.address("fleet_cluster_resource_placement", "web")
    before = {
        "id": "old",
        "bindings": {"east": {"state": "Bound"}, "west": {"state": "Bound", "score": 1}},
    }
    after = {
        "id": "new",
        "bindings": {"east": {"state": "Bound"}, "west": {"state": "Bound", "score": 2}},
    }
    rows = [
        PlacementChange(web, "binding", cluster, action, None, None, trigger, pool="web")
        for action, trigger in (
            (PlacementAction.REMOVE, "placement_removed"),
            (PlacementAction.PLACE, "placement_created"),
        )
        for cluster in ("east", "west")
    ]
    plan = Plan(changes=(plans.change(web, Action.REPLACE, before, after),), placements=tuple(rows))
    assert "bindings = (2 to place, 2 to remove, see below)" in render_plan(
        plan, {}, render_details()
    )


def test_nodes_of_a_deleted_cluster_are_counted(plans: SimpleNamespace) -> None:
    nodes = {f"d-pool1-{i}": {"machine": f"rack1-bm{i:02}", "rack": "rack1"} for i in range(9)}
    before = {"id": "lab/d", "name": "d", "nodes": nodes}
    drift = (Drift(plans.address("nexus_kubernetes_cluster", "d"), before, None),)
    shown = render_plan(
        Plan(options=PlannedOptions(mode=Mode.REFRESH_ONLY), observed=Observations(drift=drift)),
        {},
        render_details(),
    )
    assert "- nodes = (9 removed)" in shown
    assert "rack1-bm03" not in shown
