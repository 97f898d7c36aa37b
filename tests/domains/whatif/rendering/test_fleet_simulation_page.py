"""Tests of the page of `simulate fleet`: the matrix of the fleet before and after."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from nexusform.domains.whatif.questions.fleet_edits import MemberEditKind, parse_member_edits
from nexusform.domains.whatif.questions.fleet_simulation import (
    build_fleet_snapshot,
    simulate_member_edits,
)
from nexusform.domains.whatif.rendering.fleet_simulation_page import render_fleet_page
from nexusform.domains.whatif.rendering.fleet_simulation_report import build_fleet_report
from nexusform.snapshots.snapshot import list_state_objects
from nexusform.state.objects import State
from tests.domains.fleet.planning.fleet_harness import (
    build_hub,
    build_member,
    build_node_count,
    build_pick_n,
    build_placement,
)
from tests.domains.whatif.questions.test_fleet_simulation import build_members_with_nodes
from tests.planning.harness import build_all_types, build_state_after, plan

NONE = "\N{EN DASH}"
MEMBERS = ("c1", "c2", "c3", "c4")


class _MatrixParser(HTMLParser):
    """Parser of the matrices of a page: by caption, rows of texts."""

    def __init__(self) -> None:
        super().__init__()
        self.by_caption: dict[str, list[list[str]]] = {}
        self._rows: list[list[str]] | None = None
        self._in_caption = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._rows = [] if dict(attrs).get("class") == "matrix" else None
        self._in_caption = tag == "caption"
        if self._rows is None:
            return
        if tag == "tr":
            self._rows.append([])
        if tag in ("th", "td"):
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._rows = None
        self._in_caption = False

    def handle_data(self, data: str) -> None:
        if self._rows is None:
            return
        if self._in_caption:
            self.by_caption[data] = self._rows
        elif self._rows and self._rows[-1]:
            self._rows[-1][-1] = f"{self._rows[-1][-1]} {data}".strip()


@pytest.fixture(scope="module")
def two_of_four() -> State:
    members = "".join(
        build_member(name, {"ring": name[-1]}, build_node_count(name[-1])) for name in MEMBERS
    )
    return build_state_after(plan(build_hub() + members + build_placement(build_pick_n(2))))


def render_page(state: State, **flags: str) -> str:
    edits = parse_member_edits(
        {verb: [flags[verb.value]] for verb in MemberEditKind if verb.value in flags}
    )
    simulation = simulate_member_edits(
        build_fleet_snapshot(list_state_objects(state), build_all_types(), state.catalogue), edits
    )
    return render_fleet_page(simulation, build_fleet_report(simulation, "state serial 1"))


def test_fleet_is_drawn_before_and_after(two_of_four: State) -> None:
    page = render_page(two_of_four, leave="c4", join="c5", label="c1:ring=9")
    tables = _MatrixParser()
    tables.feed(page)
    assert tables.by_caption == {
        "Before": [["Placement", *MEMBERS], ["p", NONE, NONE, "Bound", "Bound"]],
        "After, with the scores of picked ones": [
            ["Placement", "c1 other label", "c2", "c3", "c4 leaves", "c5 joins"],
            [
                "p",
                "not picked",
                "not picked",
                "Bound affinity 0, spread 0",
                "\N{MINUS SIGN} Bound affinity 0, spread 0",
                "+ Bound affinity 0, spread 0",
            ],
        ],
    }


def test_every_cell_has_a_reason(two_of_four: State) -> None:
    page = render_page(two_of_four, leave="c4", taint="c1:gone=soon:NoSchedule")
    # A removed binding is deleted once its successor is ready.
    assert (
        'data-tip="cluster_left: a cluster left the fleet; wave 2" data-head="c4 (leaves)"' in page
    )
    assert "taint &amp;{Key:gone Value:soon Effect:NoSchedule} cannot be tolerated" in page
    assert "Why each cluster is picked or not (3 reasons)" in page


def test_only_changes_of_large_fleet_are_drawn() -> None:
    names = [f"c{number:02}" for number in range(60)]
    members = "".join(build_member(name, {}, build_node_count("1")) for name in names)
    state = build_state_after(plan(build_hub() + members + build_placement(build_pick_n(2))))
    page = render_page(state, leave="c59")
    tables = _MatrixParser()
    tables.feed(page)
    assert tables.by_caption["Before"] == [["Placement", "c57", "c59"], ["p", NONE, "Bound"]]
    assert "58 other members: unchanged." in page


def test_pods_are_counted_first_and_listed_last() -> None:
    state = build_state_after(plan(build_members_with_nodes("a", "c")))
    page = render_page(state, leave="c")
    titles = re.findall(r"<h2[^>]*>([^<]*)</h2>", page)
    assert [title for title in titles if "Pods" in title] == ["Pods (finding)", "Pods one by one"]
    assert titles[-1] == "Pods one by one"
    assert "web-0" in page[page.index("Pods one by one") :]


def test_only_changed_placements_are_listed() -> None:
    members = "".join(
        build_member(name, {"ring": name[-1]}, build_node_count(name[-1])) for name in MEMBERS
    )
    many = "".join(build_placement(build_pick_n(1), name=f"p{number}") for number in range(30))
    state = build_state_after(plan(build_hub() + members + many))
    edits = parse_member_edits({MemberEditKind.LEAVE: ["c4"]})
    simulation = simulate_member_edits(
        build_fleet_snapshot(list_state_objects(state), build_all_types(), state.catalogue), edits
    )
    changed = [each for each in simulation.placements if each.gained or each.lost]
    assert len(simulation.placements) == 30
    (section,) = [
        each for each in build_fleet_report(simulation, "").sections if each.title == "Placements"
    ]
    assert len(section.table.rows if section.table else ()) == len(changed)
    others = 30 - len(changed)
    noun = "other placements" if changed else "placements"
    assert section.lines == ((f"{others} {noun} unchanged.",) if others else ())
