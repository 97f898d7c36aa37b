"""Sections that domains add to the report of a plan, and their long lists of rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nexusform.diagnostics.phrases import group_by
from nexusform.domain_table import find_domains
from nexusform.plans.plan import PlacementAction, Plan
from nexusform.rendering.report.folding import fold_instances
from nexusform.rendering.report.report_tree import Row, Section, Text, get_plain_text

ACTION_SIGNS: Final[Mapping[PlacementAction, str]] = {
    PlacementAction.PLACE: "+",
    PlacementAction.MOVE: "~",
    PlacementAction.REMOVE: "\N{MINUS SIGN}",
    PlacementAction.UPDATE: "~",
    PlacementAction.LOSE: "!",
    PlacementAction.FORGET: ".",
    PlacementAction.KEEP: "",
}
_MAX_ROWS: Final = 2000


def build_domain_sections(plan: Plan) -> Mapping[str, tuple[Section, ...]]:
    """Build the sections of the domains with objects in a plan, by `plan_sections` of the entry.

    The key of a section is its place: after the "map", or after the "vms".
    """
    types = {change.address.type for change in plan.changes}
    types.update(row.address.type for row in plan.placements)
    kinds = {row.kind for row in plan.placements}
    sections: dict[str, tuple[Section, ...]] = {}
    for domain in find_domains().values():
        if types.isdisjoint(domain.resource_types) and kinds.isdisjoint(domain.placement_kinds):
            continue
        for place, target in domain.plan_sections.items():
            section: Section = domain.load_object(target)(plan)
            sections[place] = (*sections.get(place, ()), section)
    return sections


def fold_equal_rows(rows: Iterable[Row]) -> list[tuple[list[str], tuple[Text, ...]]]:
    """Return the names of rows with equal cells, and these cells; names are the first cells."""
    rows_by_cells = group_by(rows, lambda row: row.cells[1:])
    return [
        (fold_instances(get_plain_text(row.cells[0]) for row in equal_rows), cells)
        for cells, equal_rows in rows_by_cells.items()
    ]


def limit_rows(rows: Sequence[Row]) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """Return the first rows of a long table, and a sentence if there are more."""
    hint = (f"The first {_MAX_ROWS:,} of {len(rows):,} are listed.",)
    return tuple(rows[:_MAX_ROWS]), hint if len(rows) > _MAX_ROWS else ()
