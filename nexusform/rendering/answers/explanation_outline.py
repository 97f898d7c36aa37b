"""Why a VM is where it is, as an outline: for Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nexusform.rendering.answers.explanation_text import placement_place, sku_text
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.scheduling.racks.explanation import Explanation, Ranked
from nexusform.words import counted

_MOST_RANKED = 8


def explanation_outline(
    name: str, explanation: Explanation, facts: Sequence[str], elsewhere: Sequence[str]
) -> Outline:
    """The five steps as tables; `facts` are sentences to say first, `elsewhere` those about other places."""
    place = explanation.placement
    goes = placement_place(place) if place is not None else "fits nowhere"
    sections = [_filters(explanation)]
    if place is not None:
        sections.append(_ranking("Step 3: rack", explanation.racks))
        sections.append(_ranking(f"Step 4: machine of {place.rack}", explanation.machines))
        fitting = ", ".join(str(cell) for cell in sorted(explanation.fitting_cells))
        chosen = " and ".join(str(cell) for cell in place.cells)
        line = f"Cells with room: {fitting}. The least free memory, then the lowest number: {chosen}."
        sections.append(Section("Step 5: cells", (line,)))
    if elsewhere:
        sections.append(Section("To stand elsewhere", tuple(elsewhere)))
    if explanation.refusals:
        sections.append(_refusals(explanation))
    title = f"{name} ({sku_text(explanation.demand.sku)})"
    return Outline(title, goes, place is None, tuple(facts), tuple(sections))


def _filters(explanation: Explanation) -> Section:
    rows = [Row(("all machines", f"{explanation.total_machines:,}"))]
    rows += [Row((left.rule, f"{left.machines:,}")) for left in explanation.filters]
    return Section(
        "Steps 1 and 2: what fits", table=Table(("filter", "machines left"), tuple(rows), frozenset({1}))
    )


def _ranking(title: str, ranked: Sequence[Ranked]) -> Section:
    tied = sum(1 for one in ranked if one.digest)
    lines = (f"The first {tied} tie; the tie-break chose {ranked[0].name}.",) if tied else ()
    shown = ranked[:_MOST_RANKED]
    left_out = len(ranked) - len(shown)
    if left_out:
        lines = (*lines, f"{counted(left_out, 'more candidate')} ranked lower.")
    rows = tuple(Row((str(k), one.name, _keys(one))) for k, one in enumerate(shown, 1))
    table = Table(("rank", "name", "lowest first"), rows, frozenset({0}))
    return Section(title, lines, table=table)


def _keys(ranked: Ranked) -> str:
    return ", ".join(key.text for key in ranked.keys if key.text)


def _refusals(explanation: Explanation) -> Section:
    rows = tuple(_rows(explanation))
    table = Table(("rule", "reason", "machines"), rows)
    return Section(f"{counted(len(explanation.refusals), 'machine')} refused", table=table, folded=True)


def _rows(explanation: Explanation) -> Iterable[Row]:
    groups: dict[tuple[str, str], list[str]] = {}
    for refusal in explanation.refusals:
        groups.setdefault((refusal.rule, refusal.reason), []).append(refusal.candidate)
    for (rule, reason), names in groups.items():
        yield Row((rule, reason, ", ".join(names)))
