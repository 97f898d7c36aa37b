"""Explanation of the placement of a VM as text, report and data, with the changes needed for other
locations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.phrases import format_count, format_list, select_form
from nexusform.json_data.record_forms import RecordForm
from nexusform.placement_kinds.kinds import build_location_document, format_location_text
from nexusform.placement_kinds.vm_kind import format_cells
from nexusform.plans.plan import PlacementChange
from nexusform.rendering.json.json_placements import REJECTION_FORM
from nexusform.rendering.notation.colours import Painter, escape_control_characters
from nexusform.rendering.notation.json_bounds import INTERVAL_FORM
from nexusform.rendering.report.report_tree import Report, Row, Section, Table
from nexusform.scheduling.decision import Certainty, Rejection
from nexusform.scheduling.racks.explanation import Explanation, RankedCandidate
from nexusform.scheduling.racks.rule import KeyPart
from nexusform.scheduling.racks.vms import Demand, Placement, VmSku
from nexusform.snapshots.machine_alternatives import MachineAlternative, Requirement

_INDENT = " " * 15
_UNKNOWN_CELLS_TEXT = "unknown: the site does not report the cells of its VMs"
# Limits of rejection lines and tied names without -every.
_MAX_LINES = 8
_MAX_TIED_NAMES = 6


def render_explanation(
    name: str,
    explanation: Explanation,
    certainty: Certainty | None = None,
    samples: int = 0,
    *,
    show_all: bool = False,
    colour: bool = False,
) -> str:
    """Render the five steps for one VM with a final newline. `name` is the display name of the VM. `show_all`
    lists each rejected machine of the site instead of those of the chosen rack and a count.
    """
    paint = Painter(colour)
    lines = [_render_title(name, explanation, paint), *_render_filters(explanation)]
    if explanation.placement is not None:
        lines += _render_rack(explanation)
        lines += _render_machine(explanation, show_all=show_all)
        lines.append(_render_cells(explanation, explanation.placement))
    if show_all or explanation.placement is None:
        lines += _render_rejections(explanation, show_all=show_all)
    if certainty is not None and samples:
        lines.append(format_vm_certainty(certainty, samples))
    return "\n".join(lines) + "\n"


def format_sku(sku: VmSku) -> str:
    """Format a SKU: `NC_P46_224_v1: 48 host vCPUs, 224 GiB, 1 cell`."""
    cells = f"{sku.numa_cells} {select_form(sku.numa_cells, 'cell')}"
    return f"{sku.name}: {sku.host_vcpus} host vCPUs, {sku.memory_gib} GiB, {cells}"


def _render_title(name: str, explanation: Explanation, paint: Painter) -> str:
    sku, target = format_sku(explanation.demand.sku), _describe_target(explanation)
    return (
        f"{paint(escape_control_characters(name), 'bold')} ({escape_control_characters(sku)}) -> "
        f"{escape_control_characters(target)}"
    )


def _describe_target(explanation: Explanation) -> str:
    return format_location_text(explanation.placement) if explanation.placement else "fits nowhere"


def _render_step(number: str, name: str, text: str) -> str:
    return f"  {number} {name:<9}: {escape_control_characters(text)}"


# --- steps 1 and 2 -----------------------------------------------------------------------------


def _render_filters(explanation: Explanation) -> list[str]:
    """Render a line per filter step in order; the first has the number of machines."""
    clauses: dict[str, list[str]] = {}
    for step in explanation.filters:
        if step.text:
            clauses.setdefault(step.line, []).append(step.text)
    lines: list[str] = []
    total = f"{explanation.total_machines:,} machines"
    for line, texts in clauses.items():
        opening = [] if lines else [total]
        lines.append(_render_step(line[0], line[2:], ", ".join([*opening, *texts])))
    return lines


# --- steps 3 to 5 ------------------------------------------------------------------------------


def _format_figures(keys: Iterable[KeyPart]) -> str:
    """Format the keys with a text."""
    return ", ".join(key.text for key in keys if key.text)


def _render_rack(explanation: Explanation) -> list[str]:
    """Render step 3: the rack and the second best."""
    tied = explanation.tied_racks
    lines = [_render_step("3", "rack", _describe_choice(explanation.racks[0], tied))]
    if len(tied) <= 1 and len(explanation.racks) > 1:
        lines.append(_render_next_best(explanation.racks[1]))
    return lines


def _describe_choice(best: RankedCandidate, tied: Sequence[RankedCandidate]) -> str:
    """Describe the chosen candidate with its keys and equal ones."""
    figures = _format_figures(best.keys)
    if len(tied) <= 1:
        return f"{best.name} ({figures})"
    names = format_list((ranked.name for ranked in tied), _MAX_TIED_NAMES)
    return f"{names} tie ({figures}): tie-break chose {best.name}"


def _render_next_best(second: RankedCandidate) -> str:
    return f"{_INDENT}next best: {escape_control_characters(f'{second.name} ({_format_figures(second.keys)})')}"


def _render_machine(explanation: Explanation, *, show_all: bool) -> list[str]:
    """Render step 4: the machine, the second best and the rejections."""
    tied = explanation.tied_machines
    lines = [_render_step("4", "machine", _describe_choice(explanation.machines[0], tied))]
    if len(tied) <= 1 and explanation.next_best is not None:
        lines.append(_render_next_best(explanation.next_best))
    if not show_all:
        lines += _render_rack_rejections(explanation)
    return lines


def _render_rack_rejections(explanation: Explanation) -> list[str]:
    """Render the rejected machines of the chosen rack and the number of others."""
    rack_machines = explanation.rack_machines
    rack_rejections = [rejection for rejection in explanation.rejections if rejection.candidate in rack_machines]
    lines = [f"{_INDENT}rejected : {text}" for text in _format_rejections(rack_rejections)[:_MAX_LINES]]
    other_count = len(explanation.rejections) - len(rack_rejections)
    if other_count:
        lines.append(f"{_INDENT}elsewhere: {other_count} machines rejected")
    return lines


def _render_cells(explanation: Explanation, placement: Placement) -> str:
    """Render step 5: the cells and their reason."""
    count = len(placement.cells)
    if not count:
        return _render_step("5", "cells", _UNKNOWN_CELLS_TEXT)
    cells = format_cells(placement)
    if len(explanation.fitting_cells) == count:
        reason = select_form(count, "is the only one that fits", "are the only ones that fit")
        return _render_step("5", "cells", f"{cells} {reason}")
    fitting = ", ".join(str(cell) for cell in sorted(explanation.fitting_cells))
    verb = select_form(count, "has", "have")
    return _render_step("5", "cells", f"{cells} {verb} the least free memory of those that fit ({fitting})")


# --- rejections and certainty --------------------------------------------------------------------


def _render_rejections(explanation: Explanation, *, show_all: bool) -> list[str]:
    """Render every reason with the rejected machines."""
    groups = _format_rejections(explanation.rejections)
    visible_groups = groups if show_all else groups[:_MAX_LINES]
    if not visible_groups:
        return []
    lines = [f"  rejected: {visible_groups[0]}", *(f"            {text}" for text in visible_groups[1:])]
    if len(groups) > len(visible_groups):
        lines.append(f"            and {len(groups) - len(visible_groups):,} more reasons")
    return lines


def _format_rejections(rejections: Iterable[Rejection]) -> list[str]:
    """Format machines with the same reason together: `rack7-bm01, bm02, bm03: fits: no cell of 224 GiB
    left`.
    """
    by_reason = _group_machines(rejections)
    return [
        escape_control_characters(f"{_format_machine_names(names)}: {rule}: {reason}")
        for (rule, reason), names in by_reason.items()
    ]


def _group_machines(rejections: Iterable[Rejection]) -> dict[tuple[str, str], list[str]]:
    """Group the names of rejected machines by rule and reason."""
    machines: dict[tuple[str, str], list[str]] = {}
    for rejection in rejections:
        machines.setdefault((rejection.rule, rejection.reason), []).append(rejection.candidate)
    return machines


def _format_machine_names(names: Sequence[str]) -> str:
    """Format names without repeated prefixes: `rack7-bm01, bm02`."""
    short_names: list[str] = []
    previous_prefix = ""
    for name in names:
        prefix, dash, end = name.rpartition("-")
        short_names.append(end if dash and prefix == previous_prefix else name)
        previous_prefix = prefix
    return ", ".join(short_names)


def format_vm_certainty(certainty: Certainty | None, samples: int) -> str:
    """Format the number of samples with the same location; "" without samples."""
    if certainty is None or not samples:
        return ""
    shares = (certainty.rack, certainty.machine, certainty.rack_count)
    rack, machine, count = (round(share * samples) for share in shares)
    return (
        f"Same rack in {rack} of {samples} samples, same machine in {machine}; as many VMs of its pool "
        f"on the rack in {count}."
    )


_RANKED_FORM: Final = RecordForm(RankedCandidate, "name keys tie_break=digest?")
_EXPLANATION_FORM: Final = RecordForm(
    Explanation,
    "vm_sku_name=demand.sku.name availability_zones=demand.zones to=placement seed "
    "machines_in_all=total_machines filters racks machines fitting_cells rejected=rejections",
    availability_zones=sorted,
    to=build_location_document,
    filters=RecordForm(Struct, "rule machines *whichever=interval", whichever=INTERVAL_FORM),
    racks=_RANKED_FORM,
    machines=_RANKED_FORM,
    rejected=REJECTION_FORM,
)


def build_explanation_document(
    name: str, explanation: Explanation, certainty: Certainty | None = None, samples: int = 0
) -> dict[str, Any]:
    """Build the explanation of a VM as JSON data: every ranked rack and machine, every rejection."""
    return {
        "object": name,
        **_EXPLANATION_FORM(explanation),
        "certainty": None if certainty is None else certainty.list_shares(),
        "samples": samples,
    }


# --- as an outline, for Markdown ---------------------------------------------------------------

_MAX_RANKED = 8


def build_explanation_report(
    name: str, explanation: Explanation, facts: Sequence[str], alternatives: Sequence[str]
) -> Report:
    """Build the five steps as tables; `facts` come first, `alternatives` are about other locations."""
    placement = explanation.placement
    sections = [_build_filter_section(explanation)]
    if placement is not None:
        sections.append(_build_ranking("Step 3: rack", explanation.racks))
        sections.append(_build_ranking(f"Step 4: machine of {placement.rack}", explanation.machines))
        fitting = ", ".join(str(cell) for cell in sorted(explanation.fitting_cells))
        chosen_cells = " and ".join(str(cell) for cell in placement.cells)
        line = f"Cells that fit: {fitting}. Chosen by least free memory, then lowest number: {chosen_cells}."
        if not placement.cells:
            line = f"The cells are {_UNKNOWN_CELLS_TEXT}."
        sections.append(Section("Step 5: cells", (line,)))
    if alternatives:
        sections.append(Section("To place it elsewhere", tuple(alternatives)))
    if explanation.rejections:
        sections.append(_build_rejection_section(explanation))
    title = f"{name} ({format_sku(explanation.demand.sku)})"
    return Report(title, _describe_target(explanation), placement is None, tuple(facts), tuple(sections))


def build_removal_report(row: PlacementChange) -> Report:
    """Build the report of a VM removed by a plan."""
    verdict = f"is removed, because {row.reason or row.trigger} ({row.trigger})"
    facts = [f"It runs on {format_location_text(row.source)}."] if row.source is not None else []
    if row.trigger == "scale_in" and row.provenance != "decided":
        facts.append("On a real site Azure picks the VMs to remove.")
    return Report(f"{row.object} ({row.sku})", verdict, is_finding=False, facts=tuple(facts))


# The removal as data.
REMOVAL_FORM: Final = RecordForm(
    PlacementChange, "address object action trigger reason current=source provenance?", current=build_location_document
)


def _build_filter_section(explanation: Explanation) -> Section:
    rows = [Row(("all machines", f"{explanation.total_machines:,}"))]
    rows += [Row((step.rule, f"{step.interval}")) for step in explanation.filters]
    table = Table(("filter", "machines left"), tuple(rows), frozenset({1}))
    return Section("Steps 1 and 2: what fits", table=table)


def _build_ranking(title: str, ranked: Sequence[RankedCandidate]) -> Section:
    """Build a table of the candidates, the best first."""
    lines: list[str] = []
    tied = sum(1 for candidate in ranked if candidate.digest)
    if tied:
        lines.append(f"The first {tied} tie; the tie-break chose {ranked[0].name}.")
    visible_candidates = ranked[:_MAX_RANKED]
    if len(ranked) > len(visible_candidates):
        lines.append(f"{format_count(len(ranked) - len(visible_candidates), 'more candidate')} ranked lower.")
    rows = tuple(
        Row((str(rank), candidate.name, _format_figures(candidate.keys)))
        for rank, candidate in enumerate(visible_candidates, 1)
    )
    table = Table(("rank", "name", "lowest first"), rows, frozenset({0}))
    return Section(title, tuple(lines), table=table)


def _build_rejection_section(explanation: Explanation) -> Section:
    by_reason = _group_machines(explanation.rejections)
    rows = tuple(Row((rule, reason, ", ".join(names))) for (rule, reason), names in by_reason.items())
    table = Table(("rule", "reason", "machines"), rows)
    return Section(f"{format_count(len(explanation.rejections), 'machine')} rejected", table=table, is_folded=True)


_MAX_NAMES = 4
_NEED_TEXTS: Mapping[Requirement, str] = {
    Requirement.OPEN: "the machine takes VMs again",
    Requirement.HARDWARE: "another SKU",
    Requirement.SIZE: "a smaller SKU",
    Requirement.LEAVE: "fewer VMs on the machine",
    Requirement.ZONE: "a wider availability_zones",
    Requirement.HINT: "another placement hint",
    Requirement.RULE: "a rule about the VMs there",
}
# The cheapest change first.
_NEED_ORDER = (
    None,
    Requirement.ZONE,
    Requirement.OPEN,
    Requirement.LEAVE,
    Requirement.HINT,
    Requirement.RULE,
    Requirement.SIZE,
    Requirement.HARDWARE,
)


def describe_alternatives(alternatives: Sequence[MachineAlternative], demand: Demand, pool_size: int) -> list[str]:
    """Return a line per single change needed for other machines, and one for machines with several.
    `pool_size` is the number of VMs re-placed by a change of pool arguments.
    """
    alternatives_by_need: dict[Requirement | None, list[MachineAlternative]] = {}
    multiple_count = 0
    for alternative in alternatives:
        if len(alternative.requirements) > 1:
            multiple_count += 1
        else:
            alternatives_by_need.setdefault(
                alternative.requirements[0] if alternative.requirements else None, []
            ).append(alternative)
    lines = [
        _describe_need(need, alternatives_by_need[need], demand, pool_size)
        for need in _NEED_ORDER
        if need in alternatives_by_need
    ]
    if multiple_count:
        lines.append(f"{format_count(multiple_count, 'machine')} would need several such changes.")
    return lines


def _describe_need(
    need: Requirement | None, alternatives: Sequence[MachineAlternative], demand: Demand, pool_size: int
) -> str:
    """Describe the machines available after one change."""
    count = format_count(len(alternatives), "machine")
    verb = select_form(len(alternatives), "has", "have")
    machines = format_list((alternative.machine for alternative in alternatives), _MAX_NAMES)
    consequence = f"that re-places all {pool_size:,} VMs of the pool" if pool_size > 1 else "that re-places the VM"
    match need:
        case None:
            return f"{count} {verb} capacity but a lower rank: {machines}."
        case Requirement.ZONE:
            zones = ", ".join(sorted(demand.zones or ()))
            return (
                f"{count} {verb} capacity in zones outside {{{zones}}}: "
                f"{_format_by_rack(alternatives)}. A wider "
                f"availability_zones allows them; {consequence}."
            )
        case Requirement.LEAVE:
            return _describe_departures(alternatives)
        case Requirement.OPEN:
            they_take = select_form(len(alternatives), "it takes", "they take")
            reasons = _join_first(
                [f"{alternative.machine} ({alternative.unschedulable_reason})" for alternative in alternatives],
                format_list,
            )
            return f"{count} {verb} capacity once {they_take} VMs: {reasons}."
        case Requirement.HINT:
            reasons = _join_first(
                [f"{alternative.machine} ({alternative.hint})" for alternative in alternatives], format_list
            )
            return f"{count} {verb} capacity without a hard placement hint: {reasons}."
        case Requirement.RULE:
            reasons = _join_first(
                [f"{alternative.machine} ({alternative.rule})" for alternative in alternatives], format_list
            )
            return f"{count} {verb} capacity, but a rule rejects the VM: {reasons}."
        case Requirement.HARDWARE:
            return f"A SKU of its hardware would fit {count} more: {machines}; {consequence}."
        case Requirement.SIZE:
            return f"A smaller SKU would fit {count} more: {machines}; {consequence}."


def _join_first(texts: Sequence[str], join: Callable[[Sequence[str]], str]) -> str:
    """Join the first texts and add the number of others."""
    remainder = f" and {len(texts) - _MAX_NAMES} more" if len(texts) > _MAX_NAMES else ""
    return f"{join(texts[:_MAX_NAMES])}{remainder}"


def _describe_departures(alternatives: Sequence[MachineAlternative]) -> str:
    """Describe the machines with the fewest VMs to remove."""
    minimum = min(len(alternative.removed_vms) for alternative in alternatives)
    best = [alternative for alternative in alternatives if len(alternative.removed_vms) == minimum]
    machines = _join_first(
        [f"{alternative.machine} ({format_list(alternative.removed_vms, 3)})" for alternative in best], ", ".join
    )
    other_count = len(alternatives) - len(best)
    other_note = f"; {other_count} more if several were removed" if other_count else ""
    count = format_count(len(best), "machine")
    return f"{count} would have capacity with {format_count(minimum, 'VM')} fewer: {machines}{other_note}."


def _format_by_rack(alternatives: Iterable[MachineAlternative]) -> str:
    """Format the racks of machines with counts."""
    counts = Counter(alternative.rack for alternative in alternatives)
    return format_list((f"{rack} ({count})" for rack, count in counts.items()), 8)


def _build_need(need: Requirement) -> dict[str, str]:
    return {"kind": need.value, "text": _NEED_TEXTS[need]}


_ALTERNATIVE_FORM: Final = RecordForm(
    MachineAlternative, "machine rack availability_zone=zone needs=requirements leaving=removed_vms", needs=_build_need
)


def build_alternatives_document(alternatives: Iterable[MachineAlternative]) -> list[dict[str, Any]]:
    """Build the changes needed for other locations as JSON data, by machine."""
    return [_ALTERNATIVE_FORM(alternative) for alternative in alternatives]
