from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.plans.impact.object_effects import Effect
from nexusform.plans.plan import PlacementAction, PlacementChange, Plan
from nexusform.rendering.json.json_stream import create_placement_summary_event
from nexusform.rendering.notation.colours import Painter, strip_colours
from nexusform.rendering.report.placement_rows import (
    PlacementLine,
    ShownPlacements,
    build_placement_groups,
    build_placement_summaries,
    format_alternatives,
    get_action_text,
    get_leaving_verb,
)
from nexusform.rendering.text.plan_text import render_placement_counts
from nexusform.scheduling.racks.vms import Placement


def build_rows(
    plans: SimpleNamespace, places: list[tuple[str, str]], **more: Any
) -> tuple[PlacementChange, ...]:
    template = plans.added_cluster().placements[5]
    return tuple(
        replace(
            template,
            object=f"cluster-d-pool1-{number}",
            number=number,
            target=Placement(machine, rack, "1", (0,)),
            **more,
        )
        for number, (rack, machine) in enumerate(places)
    )


def build_binding(cluster: str, state: str = "Bound") -> Any:
    """Return a binding, for tests marked `of_domains("fleet")`."""
    from nexusform.domains.fleet.scheduling.bindings import Binding, BindingState

    return Binding(cluster, BindingState(state), 0)


def get_only_line(plan: Plan, detail: ShownPlacements = ShownPlacements.CHANGED) -> Any:
    (group,) = build_placement_groups(plan, detail)
    (line,) = group.lines
    return line


def test_single_vm_has_its_full_name(plans: SimpleNamespace) -> None:
    line = get_only_line(Plan(placements=build_rows(plans, [("rack4", "rack4-bm07")])))
    assert (line.label, line.target, line.trigger) == (
        "cluster-d-pool1-0",
        "rack4 / rack4-bm07 / cell 0",
        "new",
    )


@pytest.mark.parametrize(
    ("per_rack", "text"),
    [
        ({"rack1": 2, "rack2": 1}, "rack1-0, rack1-1, rack2-0"),
        ({"rack7": 12, "rack8": 12}, "rack7: 12 machines, rack8: 12 machines"),
        ({f"rack{i}": 3 for i in range(1, 9)}, "3 machines in each of 8 racks"),
        (
            {"rack1": 4, "rack2": 4, "rack3": 5, "rack6": 5, "rack10": 10, "rack9": 10},
            (
                "4 machines in each of rack1, rack2; 5 machines in each of rack3, rack6; "
                "10 machines in each of rack9, rack10"
            ),
        ),
        (
            {**{f"rack{i}": 2 for i in range(20)}, "rack99": 1},
            "1 machine in rack99; 2 machines in each of 20 racks",
        ),
    ],
)
def test_runs_list_their_racks(per_rack: dict[str, int], text: str, plans: SimpleNamespace) -> None:
    places = [(rack, f"{rack}-{i}") for rack, count in per_rack.items() for i in range(count)]
    line = get_only_line(Plan(placements=build_rows(plans, places)))
    assert line.target == text
    assert line.label == f"cluster-d-pool1-0..{len(places) - 1}"


def test_vms_on_shared_machines_are_reported(plans: SimpleNamespace) -> None:
    places = [("rack1", f"rack1-bm0{i % 3}") for i in range(6)]
    assert (
        get_only_line(Plan(placements=build_rows(plans, places))).target
        == "rack1: 6 VMs on 3 machines"
    )


def test_gaps_in_numbers_are_shown(plans: SimpleNamespace) -> None:
    found = build_rows(plans, [("rack1", f"m{i}") for i in range(8)])
    line = get_only_line(Plan(placements=(*found[:2], found[4], *found[6:])))
    assert line.label == "cluster-d-pool1-0..1,4,6..7"


def test_each_trigger_has_its_own_run(plans: SimpleNamespace) -> None:
    found = build_rows(plans, [("rack1", f"m{i}") for i in range(4)])
    mixed = (*found[:2], *(replace(r, trigger="heal") for r in found[2:]))
    (group,) = build_placement_groups(Plan(placements=mixed), ShownPlacements.CHANGED)
    assert [(line.trigger, line.count) for line in group.lines] == [("new", 2), ("heal", 2)]


def test_names_without_a_number_are_listed_or_counted(plans: SimpleNamespace) -> None:
    found = [
        replace(r, object=name, number=name)
        for r, name in zip(build_rows(plans, [("rack1", "m")] * 7), "gfedcba", strict=True)
    ]
    assert get_only_line(Plan(placements=tuple(found[:3]))).label == "e, f, g"
    assert get_only_line(Plan(placements=tuple(found))).label == "a and 6 more"


@pytest.mark.of_domains("fleet")
def test_bindings_are_folded_by_cluster(plans: SimpleNamespace) -> None:
    found = [
        replace(r, kind="binding", object=name, number=0, target=build_binding(name))
        for r, name in zip(
            build_rows(plans, [("", "")] * 3), ("east", "west", "north"), strict=True
        )
    ]
    line = get_only_line(Plan(placements=tuple(found)))
    assert (line.label, line.target) == ("3 clusters", "east, west, north")
    one = get_only_line(Plan(placements=tuple(found[:1])))
    assert (one.label, one.target) == ("east", "Bound")


@pytest.mark.of_domains("fleet")
def test_bindings_with_changed_state_are_folded_by_state(plans: SimpleNamespace) -> None:
    template = replace(build_rows(plans, [("", "")])[0], kind="binding", number=0)
    states = {
        "a": ("Scheduled", "Bound"),
        "b": ("Scheduled", "Bound"),
        "c": ("Bound", "Unscheduled"),
    }
    changed = tuple(
        replace(
            template,
            action=PlacementAction.UPDATE,
            object=cluster,
            source=build_binding(cluster, before),
            target=build_binding(cluster, after),
        )
        for cluster, (before, after) in states.items()
    )
    (group,) = build_placement_groups(Plan(placements=changed), ShownPlacements.CHANGED)
    assert [(line.label, line.origin, line.target) for line in group.lines] == [
        ("2 clusters", "Scheduled", "Bound: a, b"),
        ("c", "Bound", "Unscheduled"),
    ]


@pytest.mark.of_domains("fleet")
def test_forgotten_binding_stays_in_its_state(plans: SimpleNamespace) -> None:
    """The location of a single binding is its state, which it is not on."""
    row = replace(
        build_rows(plans, [("", "")])[0],
        kind="binding",
        object="east",
        number=0,
        action=PlacementAction.FORGET,
        source=build_binding("east"),
        target=None,
        trigger="forgotten",
    )
    line = get_only_line(Plan(placements=(row,)))
    assert (get_leaving_verb(line), line.origin) == ("is forgotten and stays", "Bound")
    both = replace(row, object="west", source=build_binding("west"))
    line = get_only_line(Plan(placements=(row, both)))
    assert (get_leaving_verb(line), line.origin) == ("are forgotten and stay on", "east, west")


@pytest.mark.of_domains("fleet")
def test_summaries_are_split_only_for_several_kinds(plans: SimpleNamespace) -> None:
    (total,) = build_placement_summaries(plans.added_cluster())
    assert (total.place, total.keep) == (53, 125)
    split = build_placement_summaries(plans.fleet_and_pods())
    assert [(s.kind, s.place, s.keep) for s in split] == [
        ("", 5, 12),
        ("vm", 0, 11),
        ("binding", 1, 1),
        ("pod", 4, 0),
    ]


def test_kept_rows_are_counted_once(plans: SimpleNamespace) -> None:
    plan = plans.changed_placements()
    assert any(r.action is PlacementAction.KEEP for r in plan.placements)
    assert build_placement_summaries(plan)[0].keep == plan.figures.unchanged_count


@pytest.mark.parametrize(
    ("numbers", "text"), [([], "0"), ([3, 3], "3"), ([4, 3], "3 or 4"), ([5, 3, 4, 4], "3, 4 or 5")]
)
def test_alternatives_are_written_in_words(numbers: list[int], text: str) -> None:
    assert format_alternatives(numbers) == text


def test_equal_origin_and_target_racks_are_listed_once(plans: SimpleNamespace) -> None:
    per_rack = [
        (f"rack{rack}", f"rack{rack}-{machine}") for rack in range(1, 9) for machine in range(3)
    ]
    placed = build_rows(plans, per_rack, action=PlacementAction.MOVE)
    moved = [
        replace(
            row,
            source=Placement(f"{row.target.rack}-9{row.number % 3}", row.target.rack, "1", (0,)),
        )
        for row in placed
        if isinstance(row.target, Placement)
    ]
    line = get_only_line(Plan(placements=tuple(moved)))
    assert (line.origin, line.target) == ("3 machines in each of 8 racks", "the same racks")
    elsewhere = [
        replace(row, source=Placement("m", f"other-{row.target.rack}", "1", (0,)))
        for row in placed
        if isinstance(row.target, Placement)
    ]
    shortened = [
        replace(row, source=replace(row.source, machine=f"m{row.number}"))
        for row in elsewhere
        if row.source
    ]
    line = get_only_line(Plan(placements=tuple(shortened)))
    assert (line.origin, line.target) == (
        "3 machines in each of 8 racks",
        "3 machines in each of 8 racks",
    )


@pytest.mark.of_domains("fleet")
def test_groups_are_ordered_by_vms_bindings_pods(plans: SimpleNamespace) -> None:
    plan = plans.fleet_and_pods()
    backwards = replace(plan, placements=tuple(reversed(plan.placements)))
    kinds = [group.kind for group in build_placement_groups(backwards, ShownPlacements.CHANGED)]
    assert kinds == sorted(kinds, key=["vm", "binding", "pod"].index)
    assert {"binding", "pod"} <= set(kinds)


@pytest.mark.of_domains("fleet")
@pytest.mark.parametrize(
    ("names", "verb"), [(("east",), "stays:"), (("east", "west", "north"), "stay:")]
)
def test_verb_agrees_with_the_count(
    names: tuple[str, ...], verb: str, plans: SimpleNamespace
) -> None:
    stands = {name: build_binding(name) for name in names}
    found = tuple(
        replace(
            row,
            kind="binding",
            object=name,
            number=0,
            action=PlacementAction.UPDATE,
            source=stands[name],
            target=stands[name],
            trigger="resources_changed",
        )
        for row, name in zip(build_rows(plans, [("", "")] * len(names)), names, strict=True)
    )
    line = get_only_line(Plan(placements=found))
    assert (line.count, get_action_text(line)) == (len(names), verb)


@pytest.mark.of_domains("fleet")
def test_losses_are_reported_by_kind(plans: SimpleNamespace) -> None:
    plan = plans.fleet_and_pods()
    lost = {"binding": PlacementAction.LOSE, "pod": PlacementAction.LOSE}
    rows = [replace(row, action=lost.get(row.kind, row.action)) for row in plan.placements]
    total = build_placement_summaries(replace(plan, placements=tuple(rows)))[0]
    assert total.losses == [("member", 3), ("node", 4)]
    (line, *_) = render_placement_counts((total,), Painter(colour=False), 200)
    assert line.endswith(", 3 lose their member, 4 lose their node.")


@pytest.mark.of_domains("fleet")
def test_counts_too_long_for_a_line_are_wrapped(plans: SimpleNamespace) -> None:
    """The event stream has the same text."""
    plan = plans.fleet_and_pods()
    lost = {"binding": PlacementAction.LOSE, "pod": PlacementAction.FORGET}
    rows = [replace(row, action=lost.get(row.kind, row.action)) for row in plan.placements]
    changed = replace(plan, placements=tuple(rows))
    total = build_placement_summaries(changed)[0]
    lines = render_placement_counts((total,), Painter(colour=False), 80)
    assert lines[:2] == [
        "Placements: 0 to place, 0 to move, 0 to remove, 12 kept, 3 lose their member,",
        "            4 forgotten.",
    ]
    painted = render_placement_counts((total,), Painter(colour=True), 80)
    assert [strip_colours(line) for line in painted] == lines
    told = create_placement_summary_event(changed, "")
    assert told["@message"] == " ".join(map(str.strip, lines[:2]))
    assert (told["placements"]["all"]["host_lost"], told["placements"]["all"]["forget"]) == (3, 4)


@pytest.mark.parametrize(
    ("origin", "count", "said"),
    [
        ("r1-bm01", 1, "is forgotten and stays on"),
        ("r1-bm01: 1, r1-bm02: 1", 2, "are forgotten and stay on"),
        ("Pending", 1, "is forgotten and stays"),
        ("Pending: 2", 2, "are forgotten and stay"),
    ],
)
def test_verb_for_forgotten_pods_depends_on_their_node(origin: str, count: int, said: str) -> None:
    line = PlacementLine(
        ".", PlacementAction.FORGET, Effect.FORGOTTEN, "upf-1", origin, "", "forgotten", count
    )
    assert get_leaving_verb(line) == said
