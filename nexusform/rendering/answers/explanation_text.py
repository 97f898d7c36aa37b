"""Why a VM is where it is, the scheduler's explanation, step by step, as text, outline and data; and what
would have to change for it to stand elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.json_forms import Form
from nexusform.placement_kinds.kinds import place_document, place_text
from nexusform.placement_kinds.vm_kind import cells_text
from nexusform.plans.plan import PlacementChange
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.rendering.json.json_placements import REFUSAL
from nexusform.rendering.notation.colours import Painter, harmless
from nexusform.rendering.notation.json_bounds import INTERVAL
from nexusform.scheduling.decision import Certainty, Refusal
from nexusform.scheduling.racks.explanation import Explanation, Ranked
from nexusform.scheduling.racks.rule import KeyPart
from nexusform.scheduling.racks.vms import Demand, Placement, VmSku
from nexusform.words import counted, form, listed
from nexusform.worlds.other_places import Need, Way

_INDENT = " " * 15
_NO_CELLS = "not known: nobody told those of the VMs that stand there"
# So many refusal lines and tied names are shown unless all are asked for.
_LINES = 8
_NAMES = 6


def render_explanation(
    name: str,
    explanation: Explanation,
    certainty: Certainty | None = None,
    tie_breaks: int = 0,
    *,
    every: bool = False,
    colour: bool = False,
) -> str:
    """The five steps for one VM, with a newline at the end.

    `name` is the VM's as shown. `every` lists each refused machine of the site rather than those of the
    chosen rack and a count.
    """
    paint = Painter(colour)
    lines = [_title(name, explanation, paint), *_filters(explanation)]
    if explanation.placement is not None:
        lines += _rack(explanation)
        lines += _machine(explanation, every=every)
        lines.append(_cells(explanation, explanation.placement))
    if every or explanation.placement is None:
        lines += _refusals(explanation, every=every)
    if certainty is not None and tie_breaks:
        lines.append(certainty_text(certainty, tie_breaks))
    return "\n".join(lines) + "\n"


def sku_text(sku: VmSku) -> str:
    """`NC_P46_224_v1: 48 host vCPUs, 224 GiB, 1 cell`."""
    cells = f"{sku.numa_cells} {form(sku.numa_cells, 'cell')}"
    return f"{sku.name}: {sku.host_vcpus} host vCPUs, {sku.memory_gib} GiB, {cells}"


def _title(name: str, explanation: Explanation, paint: Painter) -> str:
    sku, goes = sku_text(explanation.demand.sku), _goes(explanation)
    return f"{paint(harmless(name), 'bold')} ({harmless(sku)}) -> {harmless(goes)}"


def _goes(explanation: Explanation) -> str:
    return place_text(explanation.placement) if explanation.placement else "fits nowhere"


def _step(number: str, name: str, text: str) -> str:
    return f"  {number} {name:<9}: {harmless(text)}"


# --- steps 1 and 2 -----------------------------------------------------------------------------


def _filters(explanation: Explanation) -> list[str]:
    """A line for each step of the filters, in their order; the first says how many machines there are."""
    clauses: dict[str, list[str]] = {}
    for step in explanation.filters:
        if step.text:
            clauses.setdefault(step.line, []).append(step.text)
    lines: list[str] = []
    total = f"{explanation.total_machines:,} machines"
    for line, texts in clauses.items():
        opening = [] if lines else [total]
        lines.append(_step(line[0], line[2:], ", ".join([*opening, *texts])))
    return lines


# --- steps 3 to 5 ------------------------------------------------------------------------------


def _figures(keys: Iterable[KeyPart]) -> str:
    """The keys that are worth saying, in words."""
    return ", ".join(key.text for key in keys if key.text)


def _rack(explanation: Explanation) -> list[str]:
    """Step 3: the rack, and what came second."""
    tied = explanation.tied_racks
    lines = [_step("3", "rack", _choice(explanation.racks[0], tied))]
    if len(tied) <= 1 and len(explanation.racks) > 1:
        lines.append(_next_best(explanation.racks[1]))
    return lines


def _choice(best: Ranked, tied: Sequence[Ranked]) -> str:
    """What was chosen, with its keys, and among which equal ones."""
    figures = _figures(best.keys)
    if len(tied) <= 1:
        return f"{best.name} ({figures})"
    names = listed((ranked.name for ranked in tied), _NAMES)
    return f"{names} tie ({figures}): tie-break chose {best.name}"


def _next_best(second: Ranked) -> str:
    return f"{_INDENT}next best: {harmless(f'{second.name} ({_figures(second.keys)})')}"


def _machine(explanation: Explanation, *, every: bool) -> list[str]:
    """Step 4: the machine, what came second, and who was refused."""
    tied = explanation.tied_machines
    lines = [_step("4", "machine", _choice(explanation.machines[0], tied))]
    if len(tied) <= 1 and explanation.next_best is not None:
        lines.append(_next_best(explanation.next_best))
    if not every:
        lines += _refusals_in_rack(explanation)
    return lines


def _refusals_in_rack(explanation: Explanation) -> list[str]:
    """The machines of the chosen rack that were refused, and how many others."""
    rack_machines = explanation.rack_machines
    in_rack = [refusal for refusal in explanation.refusals if refusal.candidate in rack_machines]
    lines = [f"{_INDENT}refused  : {text}" for text in _grouped(in_rack)[:_LINES]]
    elsewhere = len(explanation.refusals) - len(in_rack)
    if elsewhere:
        lines.append(f"{_INDENT}elsewhere: {elsewhere} machines refused")
    return lines


def _cells(explanation: Explanation, placement: Placement) -> str:
    """Step 5: the cells, and why these."""
    count = len(placement.cells)
    if not count:
        return _step("5", "cells", _NO_CELLS)
    cells = cells_text(placement)
    if len(explanation.fitting_cells) == count:
        only = form(count, "is the only one that fits", "are the only ones that fit")
        return _step("5", "cells", f"{cells} {only}")
    fitting = ", ".join(str(cell) for cell in sorted(explanation.fitting_cells))
    has = form(count, "has", "have")
    return _step("5", "cells", f"{cells} {has} the least free memory of those that fit ({fitting})")


# --- refusals and certainty --------------------------------------------------------------------


def _refusals(explanation: Explanation, *, every: bool) -> list[str]:
    """Every reason with the machines it refused."""
    groups = _grouped(explanation.refusals)
    shown = groups if every else groups[:_LINES]
    if not shown:
        return []
    lines = [f"  refused: {shown[0]}", *(f"           {text}" for text in shown[1:])]
    if len(groups) > len(shown):
        lines.append(f"           and {len(groups) - len(shown):,} more reasons")
    return lines


def _grouped(refusals: Iterable[Refusal]) -> list[str]:
    """`rack7-bm01, bm02, bm03: fits: no cell of 224 GiB left`: machines with one reason together."""
    by_reason = _machines_by_reason(refusals)
    return [
        harmless(f"{_abbreviated(names)}: {rule}: {reason}") for (rule, reason), names in by_reason.items()
    ]


def _machines_by_reason(refusals: Iterable[Refusal]) -> dict[tuple[str, str], list[str]]:
    """The names of the machines that were refused, by rule and reason."""
    machines: dict[tuple[str, str], list[str]] = {}
    for refusal in refusals:
        machines.setdefault((refusal.rule, refusal.reason), []).append(refusal.candidate)
    return machines


def _abbreviated(names: Sequence[str]) -> str:
    """`rack7-bm01, bm02`: a front that repeats is left out."""
    shown: list[str] = []
    front = ""
    for name in names:
        prefix, dash, end = name.rpartition("-")
        shown.append(end if dash and prefix == front else name)
        front = prefix
    return ", ".join(shown)


def certainty_text(certainty: Certainty | None, tie_breaks: int) -> str:
    """In how many of the repeated tie-breaks the VM goes there; "" when nothing was repeated."""
    if certainty is None or not tie_breaks:
        return ""
    shares = (certainty.rack, certainty.machine, certainty.rack_count)
    rack, machine, count = (round(share * tie_breaks) for share in shares)
    return (
        f"Same rack in {rack} of {tie_breaks} tie-breaks, same machine in {machine}; as many VMs of its pool "
        f"on the rack in {count}."
    )


_RANKED: Final = Form(Ranked, "name keys tie_break=digest?")
_EXPLANATION: Final = Form(
    Explanation,
    "vm_sku_name=demand.sku.name availability_zones=demand.zones to=placement seed "
    "machines_in_all=total_machines filters racks machines fitting_cells rejected=refusals",
    availability_zones=sorted,
    to=place_document,
    filters=Form(Struct, "rule machines *whichever", whichever=INTERVAL),
    racks=_RANKED,
    machines=_RANKED,
    rejected=REFUSAL,
)


def explanation_document(
    name: str, explanation: Explanation, certainty: Certainty | None = None, tie_breaks: int = 0
) -> dict[str, Any]:
    """Why a VM is where it is, as JSON data: every ranked rack and machine in figures, every refusal."""
    return {
        "object": name,
        **_EXPLANATION(explanation),
        "certainty": None if certainty is None else certainty.shares(),
        "tie_breaks": tie_breaks,
    }


# --- as an outline, for Markdown ---------------------------------------------------------------

_MOST_RANKED = 8


def explanation_outline(
    name: str, explanation: Explanation, facts: Sequence[str], elsewhere: Sequence[str]
) -> Outline:
    """The five steps as tables; `facts` are sentences to say first, `elsewhere` those about other places."""
    place = explanation.placement
    sections = [_filter_section(explanation)]
    if place is not None:
        sections.append(_ranking("Step 3: rack", explanation.racks))
        sections.append(_ranking(f"Step 4: machine of {place.rack}", explanation.machines))
        fitting = ", ".join(str(cell) for cell in sorted(explanation.fitting_cells))
        chosen = " and ".join(str(cell) for cell in place.cells)
        line = f"Cells with room: {fitting}. The least free memory, then the lowest number: {chosen}."
        if not place.cells:
            line = f"The cells are {_NO_CELLS}."
        sections.append(Section("Step 5: cells", (line,)))
    if elsewhere:
        sections.append(Section("To stand elsewhere", tuple(elsewhere)))
    if explanation.refusals:
        sections.append(_refusal_section(explanation))
    title = f"{name} ({sku_text(explanation.demand.sku)})"
    return Outline(title, _goes(explanation), place is None, tuple(facts), tuple(sections))


def leaving_outline(row: PlacementChange) -> Outline:
    """Why a plan removes a VM."""
    verdict = f"is removed, because {row.reason or row.trigger} ({row.trigger})"
    facts = [f"It stands on {place_text(row.source)}."] if row.source is not None else []
    if row.trigger == "scale_in" and row.provenance != "decided":
        facts.append("On a real site the platform chooses which VMs of the pool go.")
    return Outline(f"{row.object} ({row.sku})", verdict, bad=False, facts=tuple(facts))


# The same as data.
LEAVING: Final = Form(
    PlacementChange,
    "address object action trigger reason stands=source provenance?",
    stands=place_document,
)


def _filter_section(explanation: Explanation) -> Section:
    rows = [Row(("all machines", f"{explanation.total_machines:,}"))]
    rows += [Row((step.rule, f"{step.whichever}")) for step in explanation.filters]
    table = Table(("filter", "machines left"), tuple(rows), frozenset({1}))
    return Section("Steps 1 and 2: what fits", table=table)


def _ranking(title: str, ranked: Sequence[Ranked]) -> Section:
    """A table of the candidates, the best first."""
    lines: list[str] = []
    tied = sum(1 for candidate in ranked if candidate.digest)
    if tied:
        lines.append(f"The first {tied} tie; the tie-break chose {ranked[0].name}.")
    shown = ranked[:_MOST_RANKED]
    if len(ranked) > len(shown):
        lines.append(f"{counted(len(ranked) - len(shown), 'more candidate')} ranked lower.")
    rows = tuple(
        Row((str(rank), candidate.name, _figures(candidate.keys))) for rank, candidate in enumerate(shown, 1)
    )
    table = Table(("rank", "name", "lowest first"), rows, frozenset({0}))
    return Section(title, tuple(lines), table=table)


def _refusal_section(explanation: Explanation) -> Section:
    by_reason = _machines_by_reason(explanation.refusals)
    rows = tuple(Row((rule, reason, ", ".join(names))) for (rule, reason), names in by_reason.items())
    table = Table(("rule", "reason", "machines"), rows)
    return Section(f"{counted(len(explanation.refusals), 'machine')} refused", table=table, folded=True)


_MOST_NAMES = 4
_WORDS: Mapping[Need, str] = {
    Need.OPEN: "the machine takes VMs again",
    Need.HARDWARE: "another SKU",
    Need.SIZE: "a smaller SKU",
    Need.LEAVE: "VMs leave",
    Need.ZONE: "a wider availability_zones",
    Need.HINT: "another placement hint",
    Need.RULE: "a rule about the VMs there",
}
# The cheapest change first.
_ORDER = (None, Need.ZONE, Need.OPEN, Need.LEAVE, Need.HINT, Need.RULE, Need.SIZE, Need.HARDWARE)


def elsewhere_lines(ways: Sequence[Way], demand: Demand, pool_size: int) -> list[str]:
    """A line for each single thing that would have to change, and one for machines that need more.

    `pool_size` is how many VMs a change of the pool's arguments re-places.
    """
    alone: dict[Need | None, list[Way]] = {}
    several = 0
    for way in ways:
        if len(way.needs) > 1:
            several += 1
        else:
            alone.setdefault(way.needs[0] if way.needs else None, []).append(way)
    lines = [_line(need, alone[need], demand, pool_size) for need in _ORDER if need in alone]
    if several:
        lines.append(f"{counted(several, 'machine')} would need more than one such change.")
    return lines


def _line(need: Need | None, ways: Sequence[Way], demand: Demand, pool_size: int) -> str:
    """What one change would bring: how many machines, and which."""
    count = counted(len(ways), "machine")
    has = form(len(ways), "has", "have")
    machines = listed((way.machine for way in ways), _MOST_NAMES)
    again = f"that re-places all {pool_size:,} VMs of the pool" if pool_size > 1 else "that re-places the VM"
    match need:
        case None:
            return f"{count} {has} room, and the rule only ranks others first: {machines}."
        case Need.ZONE:
            zones = ", ".join(sorted(demand.zones or ()))
            return (
                f"{count} {has} room in zones that are not among {{{zones}}}: {_by_rack(ways)}. A wider "
                f"availability_zones would let it go there; {again}."
            )
        case Need.LEAVE:
            return _leave_line(ways)
        case Need.OPEN:
            they_take = form(len(ways), "it takes", "they take")
            reasons = _first_of([f"{way.machine} ({way.refusal})" for way in ways], listed)
            return f"{count} {has} room once {they_take} VMs: {reasons}."
        case Need.HINT:
            reasons = _first_of([f"{way.machine} ({way.hint})" for way in ways], listed)
            return f"{count} {has} room without a hard placement hint: {reasons}."
        case Need.RULE:
            reasons = _first_of([f"{way.machine} ({way.rule})" for way in ways], listed)
            return f"{count} {has} room, but a rule refuses: {reasons}."
        case Need.HARDWARE:
            return f"A SKU that its hardware lists would fit {count} more: {machines}; {again}."
        case Need.SIZE:
            return f"A smaller SKU would fit {count} more: {machines}; {again}."


def _first_of(texts: Sequence[str], join: Callable[[Sequence[str]], str]) -> str:
    """The first of some texts, joined, and how many there are besides."""
    remainder = f" and {len(texts) - _MOST_NAMES} more" if len(texts) > _MOST_NAMES else ""
    return f"{join(texts[:_MOST_NAMES])}{remainder}"


def _leave_line(ways: Sequence[Way]) -> str:
    """The machines from which the fewest VMs would have to leave."""
    fewest = min(len(way.leaving) for way in ways)
    best = [way for way in ways if len(way.leaving) == fewest]
    machines = _first_of([f"{way.machine} ({listed(way.leaving, 3)})" for way in best], ", ".join)
    worse = len(ways) - len(best)
    aside = f"; {worse} more if several did" if worse else ""
    count = counted(len(best), "machine")
    return f"{count} would have room if {counted(fewest, 'VM')} left: {machines}{aside}."


def _by_rack(ways: Iterable[Way]) -> str:
    """The racks of machines, each with how many."""
    counts = Counter(way.rack for way in ways)
    return listed((f"{rack} ({count})" for rack, count in counts.items()), 8)


def _need(need: Need) -> dict[str, str]:
    return {"kind": need.value, "text": _WORDS[need]}


_WAY: Final = Form(Way, "machine rack availability_zone=zone needs leaving", needs=_need)


def elsewhere_document(ways: Iterable[Way]) -> list[dict[str, Any]]:
    """What would have to change for other places, as JSON data, machine by machine."""
    return [_WAY(way) for way in ways]
