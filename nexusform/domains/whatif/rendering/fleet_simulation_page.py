"""Page of `simulate fleet`: the placement matrix before and after."""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.phrases import format_count
from nexusform.domains.fleet.rendering.fleet_parts import (
    MAX_GRID_COLUMNS,
    FleetMatrix,
    MatrixCell,
    render_binding_list,
    render_placement_grid,
    render_pods,
    render_reasons,
)
from nexusform.domains.fleet.scheduling.bindings import Binding
from nexusform.domains.whatif.questions.fleet_edits import MemberEditKind
from nexusform.domains.whatif.questions.fleet_simulation import FleetSimulation, PlacementOutcome
from nexusform.domains.whatif.rendering.fleet_simulation_report import select_placements
from nexusform.plans.plan import PlacementAction, PlacementChange
from nexusform.rendering.notation.markup import Part, build_element
from nexusform.rendering.page.page_elements import build_section
from nexusform.rendering.page.report_page import render_report_page
from nexusform.rendering.report.report_tree import Report

_NOTES: Final = {
    MemberEditKind.LEAVE: "leaves",
    MemberEditKind.DRAIN: "is drained",
    MemberEditKind.JOIN: "joins",
}


def render_fleet_page(simulation: FleetSimulation, report: Report) -> str:
    """Render the page, with a newline at its end."""
    pods = [row for placement in simulation.placements for row in placement.pods]
    rows = [row for placement in simulation.placements for row in _list_binding_rows(placement)]
    pod_table = render_pods(pods, "Pods one by one")
    return render_report_page(
        report, _render_matrices(simulation, rows), pod_table, rows=[*rows, *pods]
    )


def _render_matrices(simulation: FleetSimulation, rows: Sequence[PlacementChange]) -> Part:
    """Render matrices of placements before and after, with a column for each member.

    In a large fleet, only affected members have one. If even these are too many, list the changed
    bindings in `rows`. Return None without placements.
    """
    if not simulation.placements:
        return None
    members = {member.name for member in simulation.members}
    if len(members) > MAX_GRID_COLUMNS:
        members = simulation.affected_members
    if not members or len(members) > MAX_GRID_COLUMNS:
        changed_rows = [row for row in rows if row.action is not PlacementAction.KEEP]
        return build_section("fleet", "Fleet", render_binding_list(changed_rows))
    columns = tuple(sorted(members))
    # edits by member.
    notes: dict[str, str] = {}
    for edit in simulation.edits:
        note = _NOTES.get(edit.kind, f"other {edit.kind}")
        notes[edit.member] = f"{notes[edit.member]}, {note}" if edit.member in notes else note
    joining = {edit.member for edit in simulation.edits if edit.kind is MemberEditKind.JOIN}
    columns_before = tuple(name for name in columns if name not in joining)
    names = tuple(placement.after.key for placement in select_placements(simulation))
    cells_after = _build_cells_after(simulation)
    before = FleetMatrix(names, columns_before, _build_cells_before(simulation))
    after = FleetMatrix(names, columns, cells_after, notes)
    count = len(simulation.members) - len(columns)
    hidden_text = f"{format_count(count, 'other member')}: unchanged."
    return build_section(
        "fleet",
        "Fleet",
        build_element("p", hidden_text, class_="quiet") if count else None,
        build_element(
            "div",
            build_element("div", render_placement_grid(before, "Before"), class_="side"),
            build_element(
                "div",
                render_placement_grid(after, "After, with the scores of picked ones"),
                class_="side",
            ),
            class_="side-by-side",
        ),
        render_reasons(cells_after),
    )


def _list_binding_rows(placement: PlacementOutcome) -> tuple[PlacementChange, ...]:
    """List the binding rows of a placement: caused by the edits, and unrelated."""
    return (*placement.rows, *placement.unrelated)


def _build_cells_before(simulation: FleetSimulation) -> dict[tuple[str, str], MatrixCell]:
    """Build the cells of current bindings, by placement and cluster.

    Kept, without reasons and scores.
    """
    cells: dict[tuple[str, str], MatrixCell] = {}
    for placement in simulation.placements:
        for row in _list_binding_rows(placement):
            if isinstance(row.source, Binding):
                old_row = replace(
                    row,
                    action=PlacementAction.KEEP,
                    target=row.source,
                    trigger="",
                    reason="",
                    scores={},
                )
                cells[placement.after.key, row.object] = MatrixCell(old_row)
    return cells


def _build_cells_after(simulation: FleetSimulation) -> dict[tuple[str, str], MatrixCell]:
    """Build the cells of resulting bindings, with reasons of unselected clusters."""
    # By placement and cluster.
    cells: dict[tuple[str, str], MatrixCell] = {}
    for placement in simulation.placements:
        key = placement.after.key
        for row in _list_binding_rows(placement):
            cells[key, row.object] = MatrixCell(row)
        for decision in (
            placement.status.unselected_decisions if placement.status is not None else ()
        ):
            cells.setdefault((key, decision.cluster), MatrixCell(rejection=decision.reason))
    return cells
