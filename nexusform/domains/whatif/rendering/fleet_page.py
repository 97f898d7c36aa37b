"""The answer to `simulate fleet` as a page: the matrix of a plan's page, before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Final

from msgspec.structs import replace

from nexusform.domains.fleet.rendering.fleet_parts import (
    WIDEST_GRID,
    FleetMatrix,
    Square,
    grid,
    one_by_one,
    pods_of,
    reasons,
)
from nexusform.domains.fleet.scheduling.bindings import Binding
from nexusform.domains.whatif.questions.fleet import FleetSimulation, PlacementOutcome
from nexusform.domains.whatif.questions.fleet_edits import Edit, Verb
from nexusform.domains.whatif.rendering.fleet_outline import told_placements
from nexusform.plans.plan import PlacementAction, PlacementChange
from nexusform.rendering.answers.answer_page import answer_page
from nexusform.rendering.answers.outline import Outline
from nexusform.rendering.notation.markup import Markup, Part, element
from nexusform.rendering.page.page_data import simulation_data
from nexusform.rendering.page.page_parts import section
from nexusform.words import counted

_NOTES: Final = {Verb.LEAVE: "leaves", Verb.DRAIN: "is drained", Verb.JOIN: "joins"}


def fleet_page(simulation: FleetSimulation, outline: Outline) -> str:
    """The page with a newline at its end."""
    pods = list(chain.from_iterable(placement.pods for placement in simulation.placements))
    rows = _all_rows(simulation)
    data = simulation_data((), [*rows, *pods])
    return answer_page(outline, _matrices(simulation), data, pods_of(pods, "Pods one by one"))


def _matrices(simulation: FleetSimulation) -> Part:
    """Where placements are before and after, and why; nothing of a fleet without placements."""
    if not simulation.placements:
        return None
    columns = _columns(simulation)
    if not columns:
        moved = [row for row in _all_rows(simulation) if _moves(row)]
        return section("fleet", "Fleet", one_by_one(moved))
    notes = _notes(simulation.edits)
    joining = {edit.member for edit in simulation.edits if edit.verb is Verb.JOIN}
    columns_before = tuple(name for name in columns if name not in joining)
    names = tuple(placement.after.key for placement in told_placements(simulation))
    squares_after = _after(simulation)
    before = FleetMatrix(names, columns_before, _before(simulation))
    after = FleetMatrix(names, columns, squares_after, notes)
    return section(
        "fleet",
        "Fleet",
        _left_out(simulation, columns),
        element(
            "div",
            element("div", grid(before, "Before"), class_="side"),
            element("div", grid(after, "After, with the scores of picked ones"), class_="side"),
            class_="side-by-side",
        ),
        reasons(squares_after),
    )


def _columns(simulation: FleetSimulation) -> tuple[str, ...]:
    """The members by name; of a large fleet those to which anything happens, none where they are too many."""
    names = {member.name for member in simulation.members}
    if len(names) > WIDEST_GRID:
        names = {edit.member for edit in simulation.edits}
        for placement in simulation.placements:
            names |= {*placement.gained, *placement.lost}
    return tuple(sorted(names)) if len(names) <= WIDEST_GRID else ()


def _left_out(simulation: FleetSimulation, columns: tuple[str, ...]) -> Markup | None:
    count = len(simulation.members) - len(columns)
    if not count:
        return None
    return element("p", f"{counted(count, 'other member')}: nothing comes or goes there.", class_="quiet")


def _notes(edits: Iterable[Edit]) -> Mapping[str, str]:
    """What happens to each member, in short."""
    notes: dict[str, str] = {}
    for edit in edits:
        note = _NOTES.get(edit.verb, f"other {edit.verb}")
        notes[edit.member] = f"{notes[edit.member]}, {note}" if edit.member in notes else note
    return notes


def _moves(row: PlacementChange) -> bool:
    return row.action is not PlacementAction.KEEP


def _all_rows(simulation: FleetSimulation) -> list[PlacementChange]:
    """The rows of bindings of all placements."""
    return list(chain.from_iterable(map(_rows, simulation.placements)))


def _rows(placement: PlacementOutcome) -> tuple[PlacementChange, ...]:
    """The rows of its bindings: those that the edits bring about, and those that would come anyway."""
    return (*placement.rows, *placement.anyway)


def _before(simulation: FleetSimulation) -> dict[tuple[str, str], Square]:
    """The bindings as they stand, and nothing of why."""
    squares: dict[tuple[str, str], Square] = {}
    for placement in simulation.placements:
        for row in _rows(placement):
            if isinstance(row.source, Binding):
                stands = replace(
                    row, action=PlacementAction.KEEP, target=row.source, trigger="", reason="", scores={}
                )
                squares[placement.after.key, row.object] = Square(stands)
    return squares


def _after(simulation: FleetSimulation) -> dict[tuple[str, str], Square]:
    """The bindings as they are then with what became of them, and why other clusters have none."""
    squares: dict[tuple[str, str], Square] = {}
    for placement in simulation.placements:
        key = placement.after.key
        for row in _rows(placement):
            squares[key, row.object] = Square(row)
        for decision in placement.status.unselected if placement.status is not None else ():
            squares.setdefault((key, decision.cluster), Square(None, "", decision.reason))
    return squares
