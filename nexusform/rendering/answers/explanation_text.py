"""Explanation of a VM's placement as text, report and data.

It has the changes needed for other locations.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import (
    compute_natural_sort_key,
    enclose,
    format_count,
    format_first_items,
    format_list,
    format_ranges,
    group_by,
    join_texts,
    select_word_form,
)
from nexusform.placement_kinds.registry import format_location_text
from nexusform.placement_kinds.vm_kind import format_cells
from nexusform.plans.plan import InventoryRead, PlacementChange, PlacementTable
from nexusform.rendering.report.placement_rows import build_table_row
from nexusform.rendering.report.report_tree import Report, Row, Section, Table
from nexusform.resources.address import Address
from nexusform.scheduling.placement_decision import PlacementCertainty, Rejection
from nexusform.scheduling.racks.explanation import DecisionExplanation, RankedCandidate
from nexusform.scheduling.racks.rule import RankingFigure
from nexusform.scheduling.racks.vms import Demand, Interval, Placement, VmSku
from nexusform.snapshots.machine_alternatives import MachineAlternative, MachineObstacle


class VmCountByTrigger(Struct, frozen=True):
    """Number of VMs of a pool placed for one reason.

    `serial` is that of the apply, or None for this plan.
    """

    trigger: str
    serial: int | None
    count: int


class PoolPlacement(Struct, frozen=True):
    """One pool: its row of the placement table, its zones, VMs and origins.

    Zones are None for all.
    """

    address: Address
    table: PlacementTable
    zones: tuple[str, ...] | None
    origins: tuple[VmCountByTrigger, ...]
    objects: tuple[str, ...]

    @property
    def missing_count(self) -> int:
        """Number of VMs of the pool without a rack."""
        return self.table.total_count - sum(self.table.actual_vms_per_rack.values())


# Limits of the rejection lines and tied names of a step.
_MAX_LINES = 8
_MAX_TIED_NAMES = 6
_Note: TypeAlias = tuple[str, str]


def format_sku(sku: VmSku) -> str:
    """Format a SKU: `NC_P46_224_v1: 48 host vCPUs, 224 GiB, 1 cell`."""
    cells = f"{sku.numa_cells} {select_word_form(sku.numa_cells, 'cell')}"
    return f"{sku.name}: {sku.host_vcpus} host vCPUs, {sku.memory_gib} GiB, {cells}"


def _describe_decision_steps(explanation: DecisionExplanation) -> Iterator[_Note]:
    """Yield pairs such as `("3 rack", SENTENCE)`, to explain the choice of a machine for one VM.

    Steps 1 and 2 are the filters, with the number of machines left by each. If no machine is left,
    there are no others. Steps 3 to 5 choose the rack, the machine and its NUMA cells. Rejected
    machines of the chosen rack have their reason, those elsewhere are counted.
    """
    # Texts of the filters, by the name of the line they share, such as "1 fits".
    clauses: dict[str, list[str]] = {}
    for step in explanation.filters:
        if step.text:
            clauses.setdefault(step.line, []).append(step.text)
    # Opening of the first line.
    opening = f"{explanation.total_machines:,} machines, "
    for line, texts in clauses.items():
        yield line, f"{opening}{', '.join(texts)}"
        opening = ""
    # No machine passed the filters.
    if explanation.placement is None:
        return
    yield from _describe_choice("3 rack", explanation.racks, explanation.tied_racks)
    yield from _describe_choice("4 machine", explanation.machines, explanation.tied_machines)
    in_rack = [
        item for item in explanation.rejections if item.candidate in explanation.rack_machines
    ]
    for (rule, reason), names in islice(_group_machines(in_rack).items(), _MAX_LINES):
        yield "rejected", f"{', '.join(_remove_repeated_prefixes(names))}: {rule}: {reason}"
    if other_count := len(explanation.rejections) - len(in_rack):
        yield "elsewhere", f"{format_count(other_count, 'machine')} rejected"
    yield _describe_chosen_numa_cells(explanation, explanation.placement)


def _remove_repeated_prefixes(names: Iterable[str]) -> Iterator[str]:
    """Yield names without the prefix of the name before: `rack7-bm01`, `bm02`."""
    previous_prefix = ""
    for name in names:
        prefix, dash, end = name.rpartition("-")
        yield end if dash and prefix == previous_prefix else name
        previous_prefix = prefix


def _format_ranking_keys(keys: Iterable[RankingFigure]) -> str:
    """Join the texts of the figures used to rank a candidate.

    A figure with the text "" is not shown.
    """
    return join_texts(key.text for key in keys)


def _describe_choice(
    step: str, ranked: Sequence[RankedCandidate], tied: Sequence[RankedCandidate]
) -> Iterator[_Note]:
    """Yield (label, text) pairs on the best and second best rack or machine.

    After a tie, one pair names all tied.
    """
    best, *others = ranked
    figures = _format_ranking_keys(best.keys)
    if len(tied) > 1:
        names = format_list((candidate.name for candidate in tied), _MAX_TIED_NAMES)
        yield step, f"{names} tie ({figures}): tie-break chose {best.name}"
        return
    yield step, f"{best.name} ({figures})"
    if others:
        yield "next best", f"{others[0].name} ({_format_ranking_keys(others[0].keys)})"


def _describe_chosen_numa_cells(explanation: DecisionExplanation, placement: Placement) -> _Note:
    """Return a pair with the NUMA cells chosen for a VM, and the reason for this choice.

    The pair is a label and a text.
    """
    count = len(placement.cells)
    if not count:
        return "5 cells", "unknown: the site does not report the cells of its VMs"
    cells = format_cells(placement)
    if len(explanation.fitting_cells) == count:
        reason = select_word_form(count, "is the only one that fits", "are the only ones that fit")
        return "5 cells", f"{cells} {reason}"
    fitting = ", ".join(map(str, sorted(explanation.fitting_cells)))
    verb = select_word_form(count, "has", "have")
    return "5 cells", f"{cells} {verb} the least free memory of those that fit ({fitting})"


def _group_machines(rejections: Iterable[Rejection]) -> dict[tuple[str, str], list[str]]:
    """Group the names of rejected machines by rule and reason."""
    groups = group_by(rejections, lambda rejection: (rejection.rule, rejection.reason))
    return {
        cause: [rejection.candidate for rejection in rejected] for cause, rejected in groups.items()
    }


def format_vm_certainty(certainty: PlacementCertainty | None, samples: int) -> str:
    """Format in how many repeated runs of the placement (samples) a VM has the same location.

    Return "" without samples.
    """
    if certainty is None or not samples:
        return ""
    shares = (certainty.rack, certainty.machine, certainty.rack_count)
    rack, machine, rack_count = (round(share * samples) for share in shares)
    text = f"Same rack in {rack} of {samples} samples, same machine in {machine}; "
    return f"{text}as many VMs of its pool on the rack in {rack_count}."


_MAX_RANKED = 8


def build_explanation_report(
    name: str,
    explanation: DecisionExplanation,
    facts: Sequence[str],
    sections: Sequence[Section],
    *,
    is_long: bool = False,
    is_folded: bool = True,
) -> Report:
    """Explain the location of the VM `name`: `facts`, rules, and `sections` about other locations.

    A long report adds the ranked candidates and the rejected machines. If the VM fits nowhere,
    every report lists the rejected machines. With `is_folded`, this list is collapsed.
    """
    steps = [
        Section(
            "Rules, in order", notes=tuple(_describe_decision_steps(explanation)), name="rules"
        ),
        *sections,
    ]
    placement = explanation.placement
    if is_long and placement is not None:
        steps.append(_build_ranking_section("racks", "Racks, best first", explanation.racks))
        title = f"Machines of {placement.rack}, best first"
        steps.append(_build_ranking_section("machines", title, explanation.machines))
    if explanation.rejections and (is_long or placement is None):
        by_reason = _group_machines(explanation.rejections)
        rows = tuple(
            Row((rule, reason, ", ".join(names))) for (rule, reason), names in by_reason.items()
        )
        table = Table(("rule", "reason", "machines"), rows)
        rejected_title = f"{format_count(len(explanation.rejections), 'machine')} rejected"
        steps.append(Section(rejected_title, table=table, is_folded=is_folded, name="rejected"))
    title = f"{name} ({format_sku(explanation.demand.sku)})"
    verdict = "fits nowhere" if placement is None else format_location_text(placement)
    return Report(
        title, verdict, is_finding=placement is None, facts=tuple(facts), sections=tuple(steps)
    )


def build_removal_report(row: PlacementChange) -> Report:
    """Build the report of a VM removed by a plan."""
    verb = "may be removed" if row.chosen_by else "is removed"
    verdict = f"{verb}, because {row.reason or row.trigger} ({row.trigger})"
    facts: list[str] = []
    if row.source is not None:
        facts.append(f"It runs on {format_location_text(row.source)}.")
    return Report(f"{row.object} ({row.sku})", verdict, is_finding=False, facts=tuple(facts))


def _build_ranking_section(name: str, title: str, ranked: Sequence[RankedCandidate]) -> Section:
    """Build a table of ranked candidates, with lines on ties and the number of omitted ones.

    The best candidate comes first.
    """
    lines: list[str] = []
    # Only candidates tied with the best have one.
    tied_count = sum(bool(candidate.digest) for candidate in ranked)
    if tied_count:
        lines.append(f"The first {tied_count} tie; the tie-break chose {ranked[0].name}.")
    visible_candidates = ranked[:_MAX_RANKED]
    if len(ranked) > len(visible_candidates):
        lines.append(
            f"{format_count(len(ranked) - len(visible_candidates), 'more candidate')} ranked lower."
        )
    rows = tuple(
        Row((str(rank), candidate.name, _format_ranking_keys(candidate.keys)))
        for rank, candidate in enumerate(visible_candidates, 1)
    )
    # The rank is a number.
    table = Table(("rank", "name", "lowest first"), rows, number_columns=frozenset({0}))
    return Section(title, tuple(lines), table=table, name=name)


_MAX_NAMES = 4
_ALTERNATIVE_HEADERS: Final = ("machine", "rack", "zone", "needs", "without")
_LOCATION_HEADERS: Final = ("location", "rack", "machine", "zone", "cells")
_NEED_TEXTS: Mapping[MachineObstacle, str] = {
    MachineObstacle.OPEN: "the machine takes VMs again",
    MachineObstacle.HARDWARE: "another SKU",
    MachineObstacle.SIZE: "a smaller SKU",
    MachineObstacle.LEAVE: "fewer VMs on the machine",
    MachineObstacle.ZONE: "a wider availability_zones",
    MachineObstacle.HINT: "another placement hint",
    MachineObstacle.RULE: "a rule about the VMs there",
}
# Sentences about the machines available after one change, the cheapest change first.
_NEED_SENTENCES: Final[Mapping[MachineObstacle | None, str]] = {
    None: "{count} {have} capacity but a lower rank: {machines}.",
    MachineObstacle.ZONE: (
        "{count} {have} capacity in zones outside {{{zones}}}: {racks}. A wider availability_zones "
        "allows them; {consequence}."
    ),
    MachineObstacle.OPEN: "{count} {have} capacity once {they_take} VMs: {reasons}.",
    MachineObstacle.LEAVE: "",
    MachineObstacle.HINT: "{count} {have} capacity without a hard placement hint: {reasons}.",
    MachineObstacle.RULE: "{count} {have} capacity, but a rule rejects the VM: {reasons}.",
    MachineObstacle.SIZE: "A smaller SKU would fit {count} more: {machines}; {consequence}.",
    MachineObstacle.HARDWARE: (
        "A SKU of its hardware would fit {count} more: {machines}; {consequence}."
    ),
}


def describe_alternatives(
    alternatives: Sequence[MachineAlternative], demand: Demand, pool_size: int
) -> list[str]:
    """Return lines on other machines for a VM, a line per needed change.

    The first line has machines without need for a change; the others follow, the cheapest change
    first. A last line counts the machines with several needs. `pool_size` is the number of VMs
    in the pool.
    """
    # No need, or one.
    simple = [alternative for alternative in alternatives if len(alternative.requirements) < 2]
    alternatives_by_need = group_by(
        simple, lambda item: item.requirements[0] if item.requirements else None
    )
    # The cheapest change first.
    needs = sorted(alternatives_by_need, key=list(_NEED_SENTENCES).index)
    lines = [
        _describe_needed_change(need, alternatives_by_need[need], demand, pool_size)
        for need in needs
    ]
    other_count = len(alternatives) - len(simple)
    if other_count:
        lines.append(f"{format_count(other_count, 'machine')} would need several such changes.")
    return lines


def _describe_needed_removals(alternatives: Sequence[MachineAlternative]) -> str:
    """Return a sentence on the machines with capacity after the fewest removals of other VMs."""
    minimum = min(len(alternative.removed_vms) for alternative in alternatives)
    best = [alternative for alternative in alternatives if len(alternative.removed_vms) == minimum]
    machines = format_first_items(
        [
            f"{alternative.machine} ({format_list(alternative.removed_vms, 3)})"
            for alternative in best
        ],
        _MAX_NAMES,
    )
    other_note = enclose("; ", len(alternatives) - len(best), " more if several were removed")
    count = format_count(len(best), "machine")
    return (
        f"{count} would have capacity with {format_count(minimum, 'VM')} fewer: "
        f"{machines}{other_note}."
    )


def _describe_needed_change(
    need: MachineObstacle | None,
    alternatives: Sequence[MachineAlternative],
    demand: Demand,
    pool_size: int,
) -> str:
    """Return a sentence on the machines with capacity for a VM after the change `need`.

    A change is, for example, another zone or a smaller SKU. Without a need (None), the VM fits
    there already, but the machines rank lower. The change concerns all VMs of the pool; `pool_size`
    is their number.
    """
    if need is MachineObstacle.LEAVE:
        return _describe_needed_removals(alternatives)
    scope = f"all {pool_size:,} VMs of the pool" if pool_size > 1 else "the VM"
    # With one need, a machine has only one of the three texts.
    reasons = [
        f"{item.machine} ({item.unschedulable_reason or item.hint or item.rule})"
        for item in alternatives
    ]
    rack_counts = Counter(alternative.rack for alternative in alternatives)
    # Each sentence has some of these fields.
    return _NEED_SENTENCES[need].format(
        count=format_count(len(alternatives), "machine"),
        have=select_word_form(len(alternatives), "has", "have"),
        they_take=select_word_form(len(alternatives), "it takes", "they take"),
        machines=format_list((alternative.machine for alternative in alternatives), _MAX_NAMES),
        racks=format_list((f"{rack} ({count})" for rack, count in rack_counts.items()), 8),
        zones=", ".join(sorted(demand.zones or ())),
        reasons=format_list(reasons, _MAX_NAMES),
        consequence=f"that re-places {scope}",
    )


def build_alternatives_section(
    alternatives: Sequence[MachineAlternative], demand: Demand, pool_size: int, *, is_long: bool
) -> Section:
    """Build the section on other machines for a VM; a long one has a row per machine."""
    rows = [
        Row(
            (
                item.machine,
                item.rack,
                item.zone,
                join_texts(_NEED_TEXTS[need] for need in item.requirements),
                ", ".join(item.removed_vms),
            )
        )
        for item in alternatives
    ]
    title = "Each machine"
    table = Table(_ALTERNATIVE_HEADERS, tuple(rows), caption=title, fold_title=title)
    return Section(
        "To place it elsewhere",
        tuple(describe_alternatives(alternatives, demand, pool_size)),
        tables=(table,) if is_long and rows else (),
        name="elsewhere",
    )


def build_location_section(current: Placement | None, planned: Placement | None) -> Section:
    """Build a row for the current location of a VM, and one for that chosen by the rules."""
    locations = {"current": current, "by the rules": planned}
    rows = [
        Row(
            (
                name,
                location.rack,
                location.machine,
                location.availability_zone,
                format_cells(location),
            )
        )
        for name, location in locations.items()
        if location is not None
    ]
    return Section("Location", table=Table(_LOCATION_HEADERS, tuple(rows)), name="location")


class DomainAnswer(Struct, frozen=True):
    """Reports about objects of a domain, and diagnostics.

    `notes` are the diagnostics shown below the answer in text. With `allows_errors`, a
    configuration with errors is explained as far as possible. `inventories` are those
    behind the answer.
    """

    reports: tuple[Report, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    notes: tuple[Diagnostic, ...] = ()
    allows_errors: bool = False
    inventories: tuple[InventoryRead, ...] = ()


def format_spans(numbers: Iterable[int]) -> str:
    """Format ascending numbers as `1-3, 5`."""
    return format_ranges(numbers, "-", ", ")


_POOL_HEADERS = ("pool", "SKU", "count", "racks", "VMs per rack")
_SPREAD_RULE = (
    'The rack with the fewest VMs of the pool wins (with rack_spread = "cluster": of the cluster '
    "first), then a machine by the fewest VMs of the cluster."
)


def build_pools_report(address: str, pools: Sequence[PoolPlacement]) -> Report:
    """Build the answer about one or several pools at an address.

    How many VMs each has per rack, expected and actual. It names the first VM of each pool as an
    example for the next command. VMs without a rack make it a finding.
    """
    # The pools of a cluster have its address.
    has_several_clusters = len({pool.address for pool in pools}) > 1
    headers = ("cluster", *_POOL_HEADERS) if has_several_clusters else _POOL_HEADERS
    rows: list[Row] = []
    pool_sections: list[Section] = []
    racks: set[str] = set()
    for pool in pools:
        cluster, name, sku, count, expected_racks, actual_racks, expected_vms, actual_vms = (
            build_table_row(pool.table)
        )
        cells = (
            name,
            sku,
            count,
            f"{expected_racks} / {actual_racks}",
            f"{expected_vms} / {actual_vms}",
        )
        rows.append(
            Row(
                (cluster, *cells) if has_several_clusters else cells,
                is_finding=pool.missing_count > 0,
            )
        )
        pool_sections.append(_build_pool_section(pool, has_several_clusters))
        racks |= pool.table.rack_counts.keys()
    table = Table(headers, tuple(rows), number_columns=frozenset({headers.index("count")}))
    title = "How its pools spread (expected / actual)"
    sections = [Section(title, table=table, name="pools"), *pool_sections]
    examples = format_list([pool.objects[0] for pool in pools if pool.objects], 4)
    hint = f"To explain one placement: nexusform explain '{address}' OBJECT, such as {examples}."
    # `24 VMs on 8 racks`, or `20 of 24 VMs on 8 racks` if some have no rack.
    total = sum(pool.table.total_count for pool in pools)
    # VMs without a rack.
    missing = sum(pool.missing_count for pool in pools)
    vms = (
        f"{total - missing:,} of {format_count(total, 'VM')}"
        if missing
        else format_count(total, "VM")
    )
    verdict = f"{vms} on {format_count(len(racks), 'rack')}"
    return Report(
        address,
        verdict,
        is_finding=missing > 0,
        facts=(_SPREAD_RULE, hint),
        sections=tuple(sections),
    )


def _build_pool_section(pool: PoolPlacement, has_several_clusters: bool) -> Section:
    """Build a section on one pool.

    VMs per rack, zones, triggers of the placements, and names of its objects.
    """
    counts = pool.table.rack_counts
    racks = ", ".join(
        f"{rack} {Interval(*counts[rack])}" for rack in sorted(counts, key=compute_natural_sort_key)
    )
    zones = ", ".join(sorted(pool.zones, key=compute_natural_sort_key)) if pool.zones else "all"
    lines = [f"Racks: {racks or 'none'}.", f"Availability zones: {zones}."]
    if pool.origins:
        lines.append(f"Triggers: {'; '.join(map(_format_placement_cause, pool.origins))}.")
    lines.append(f"Objects: {format_list(pool.objects, 5)}.")
    name = f"{pool.table.cluster}/{pool.table.pool}" if has_several_clusters else pool.table.pool
    return Section(name, tuple(lines), name="pool")


def _format_placement_cause(cause: VmCountByTrigger) -> str:
    """Format a cause: `scale_out (3 VMs at serial 7)`."""
    time_text = "by this plan" if cause.serial is None else f"at serial {cause.serial}"
    return f"{cause.trigger} ({format_count(cause.count, 'VM')} {time_text})"
