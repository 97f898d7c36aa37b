"""Report of `simulate capacity`."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.phrases import format_count, format_list, select_word_form
from nexusform.domains.whatif.questions.capacity import (
    CapacityAnswer,
    MixAnswer,
    SkuCapacity,
    SkuCount,
    Totals,
    ZoneCapacity,
)
from nexusform.domains.whatif.questions.cell_fragmentation import FragmentationCounts
from nexusform.plans.site_capacity.site_resource_capacity import (
    LABELS,
    POD_BLOCK,
    SiteResourceCapacity,
)
from nexusform.rendering.notation.sample_text import describe_fit
from nexusform.rendering.report.report_tree import Report, Row, Section, Table
from nexusform.scheduling.racks.vms import VmSku, format_pool_name

_CELL_HEADS: Final = ("cells", "")
_FREE_HEADS: Final = ("resource", "free", "total", "share")


def build_capacity_report(answers: Sequence[CapacityAnswer], origin: str) -> Report:
    """Build the report of all sites, one after another."""
    has_findings = any(answer.has_findings for answer in answers)
    sections: list[Section] = []
    facts: list[str] = []
    summaries: list[str] = []
    for answer in answers:
        prefix = f"{answer.site_id}: " if len(answers) > 1 else ""
        facts += [f"{prefix}{fact}" for fact in _describe_counted_machines(answer)]
        sections += [
            replace(section, title=f"{prefix}{section.title}")
            for section in _build_sections(answer)
        ]
        summaries.append(prefix + _build_summary(answer))
    names = format_list(answer.site_id for answer in answers)
    title = f"Capacity of {names} ({origin})"
    verdict = f"{'; '.join(summaries)}."
    return Report(title, verdict, has_findings, facts=tuple(facts), sections=tuple(sections))


def _build_summary(answer: CapacityAnswer) -> str:
    """Build the summary of the capacity, or of the complete sets of a mix.

    An example is `4 more NC_P46_224_v1 fit, 2 with one rack down; ...`.
    """
    if answer.mix is not None:
        sets = answer.mix.sets
        sequential_sets = answer.mix.sequential_sets
        order = "" if sequential_sets == sets else f" at once, {sequential_sets} one after another"
        noun = select_word_form(sets.maximum, "set")
        return f"{sets} {noun} of {_format_sku_mix(answer.mix.parts)} {describe_fit(sets)}{order}"
    if not answer.sku_capacities:
        return "no SKU to count"
    capacity_texts = [
        f"{sku_capacity.current} more {sku_capacity.sku.title} {describe_fit(sku_capacity.current)}"
        # More would be too long for a summary.
        for sku_capacity in answer.sku_capacities[:4]
    ]
    rack_lost = f"{answer.sku_capacities[0].with_one_rack_down} with one rack down"
    # An inexact count has a comma itself.
    separator = "," if answer.sku_capacities[0].current.is_exact else ";"
    return "; ".join([f"{capacity_texts[0]}{separator} {rack_lost}", *capacity_texts[1:]])


def _format_sku_mix(parts: Iterable[SkuCount]) -> str:
    """Format one set of a mix: `3 x NC_P46_224_v1 + 1 x NC_G6_28_v1`."""
    return " + ".join(f"{part.count} x {part.sku.title}" for part in parts)


def _describe_counted_machines(answer: CapacityAnswer) -> Iterable[str]:
    """Build sentences about counted and uncounted machines."""
    totals = answer.totals
    zone_text = "" if answer.zones is None else f" in zones {', '.join(answer.zones)}"
    closed_count = sum(answer.closed.values())
    verb = select_word_form(totals.machines, "accepts", "accept")
    yield f"{format_count(totals.machines, 'machine')}{zone_text} {verb} new VMs."
    if answer.closed:
        causes = ", ".join(f"{count} {reason}" for reason, count in sorted(answer.closed.items()))
        verbs = select_word_form(
            closed_count, "accepts no new VMs and is", "accept no new VMs and are"
        )
        yield f"{format_count(closed_count, 'machine')} {verbs} not counted: {causes}."
    if answer.planned_racks:
        yield f"Planned racks (counted separately): {format_list(answer.planned_racks)}."
    yield "Each count assumes that only this SKU is added."
    # Build sentences about unknown values that affect the counts.
    if answer.machines_with_unknown_cells:
        yield (
            f"On {format_count(len(answer.machines_with_unknown_cells), 'machine')} NUMA use is "
            "unknown: N to M fit; N are certain."
        )
    if answer.overfull:
        names = format_list(answer.overfull, 5)
        yield f"VMs do not fit into the cells of {names}: counted as full."
    if answer.unplaced:
        verb = select_word_form(len(answer.unplaced), "VM has", "VMs have")
        names = format_list(answer.unplaced, 5)
        yield f"{len(answer.unplaced):,} {verb} no machine; their capacity is not counted: {names}."


def _build_free_section(totals: Totals) -> Section:
    """Build a row per resource of the machines that accept VMs: free, and in total."""
    shares = (
        ("vCPUs", totals.free_vcpus, totals.vcpus),
        ("GiB", totals.free_memory_gib, totals.memory_gib),
    )
    rows = tuple(
        Row((name, f"{free:,}", f"{total:,}", f"{100 * free / total:.0f} %" if total else ""))
        for name, free, total in shares
    )
    table = Table(_FREE_HEADS, rows, number_columns=frozenset({1, 2}))
    return Section("Free on machines that accept VMs", table=table, name="free")


def _build_sections(answer: CapacityAnswer) -> Iterable[Section]:
    """Build the sections of a site.

    They are about the mix, capacity by SKU, zone and lost rack, other resources,
    and fragmented cells.
    """
    if answer.mix is not None:
        yield _build_mix_section(answer.mix)
    yield _build_free_section(answer.totals)
    # Build the section with a row per SKU: additional VMs, and unusable capacity.
    planned = ("with planned racks",) if answer.planned_racks else ()
    counts = ("more", *planned, "one rack down")
    heads = ("SKU", *counts, "worst rack", "vCPUs left over", "GiB left over")
    rows = tuple(_build_sku_row(sku_capacity, answer) for sku_capacity in answer.sku_capacities)
    line = "Left over: free but unusable once the site is filled with that SKU."
    numbers = frozenset(range(1, len(heads))) - {len(counts) + 1}
    table = Table(heads, rows, number_columns=numbers)
    yield Section("Spare capacity by VM SKU", (line,), table=table, name="skus")
    # Build the section with a row per SKU and a column per availability zone; every SKU has the
    # same zones and racks.
    zones = answer.sku_capacities[0].zones if answer.sku_capacities else ()
    rows = tuple(
        Row((item.sku.title, *map(_format_zone, item.zones))) for item in answer.sku_capacities
    )
    lines = ("+N: additional in planned racks.",) if answer.planned_racks else ()
    table = _build_sku_table([zone.zone for zone in zones], rows)
    yield Section("By availability zone", lines, table=table, name="zones")
    racks = list(answer.sku_capacities[0].without_rack) if answer.sku_capacities else []
    rows = tuple(
        Row((item.sku.title, *map(str, item.without_rack.values())))
        for item in answer.sku_capacities
    )
    line = "Capacity of the other racks now. VMs of the lost rack are down and not re-created."
    table = _build_sku_table(racks, rows)
    yield Section("With this rack down", (line,), table=table, name="racks_down")
    yield from build_site_resource_sections(answer.other_capacities)
    cells = answer.fragmentation
    # No SKU to measure cells by.
    if cells.yardstick is None:
        return
    yield _build_fragmentation_section(cells, cells.yardstick)
    stranded_text = "None: some SKU fits in every cell with free vCPUs or memory."
    if cells.stranded_cells:
        stranded_text = (
            f"{cells.stranded_vcpus:,} vCPUs and {cells.stranded_memory_gib:,} GiB are free in "
            f"{format_count(cells.stranded_cells, 'cell')} where no SKU fits: vCPUs, memory or "
            "disk is used up."
        )
    yield Section("Stranded", (stranded_text,))


def _build_sku_row(sku_capacity: SkuCapacity, answer: CapacityAnswer) -> Row:
    """Build the row of a SKU: counts, worst rack, unusable capacity.

    A requested SKU without capacity is a finding.
    """
    planned = (f"{sku_capacity.with_planned}",) if answer.planned_racks else ()
    unusable = (f"{sku_capacity.unusable_vcpus}", f"{sku_capacity.unusable_memory_gib}")
    counts = (f"{sku_capacity.current}", *planned, f"{sku_capacity.with_one_rack_down}")
    return Row(
        (sku_capacity.sku.title, *counts, sku_capacity.worst_rack, *unusable),
        is_finding=answer.has_requested_skus and not sku_capacity.current.maximum,
    )


def _build_sku_table(heads: Sequence[str], rows: tuple[Row, ...]) -> Table:
    """Build a table with a row per SKU.

    All columns after the SKU are figures.
    """
    return Table(("SKU", *heads), rows, number_columns=frozenset(range(1, len(heads) + 1)))


def _format_zone(zone: ZoneCapacity) -> str:
    """Format the number of additional VMs in a zone: `3`, or `3 +2` with those of planned racks."""
    return f"{zone.current} +{zone.planned:,}" if zone.planned else f"{zone.current}"


def _build_mix_section(mix: MixAnswer) -> Section:
    """Build the section of a mix: sentences about complete sets, and a row per SKU."""
    sets = (
        f"{mix.sets} {select_word_form(mix.sets.maximum, 'whole set')} of "
        f"{_format_sku_mix(mix.parts)}"
    )
    lines = [f"{sets} {describe_fit(mix.sets)} if all VMs are placed at once, larger SKUs first."]
    if mix.short is not None:
        verb = select_word_form(mix.missing, "finds", "find")
        lines.append(
            f"One more set does not fit: {mix.missing} x {mix.short.name} {verb} no capacity."
        )
    if mix.sequential_sets != mix.sets:
        lines.append(
            f"One set after another, {mix.sequential_sets} {describe_fit(mix.sequential_sets)}."
        )
    if not mix.sets.is_exact:
        lines.append("These are bounds; the exact number lies between them.")
    rows = [
        Row(
            (
                part.sku.title,
                f"{part.count:,}",
                f"{part.count * mix.sets.minimum:,}",
                f"{additional}",
            )
        )
        for part, (_, additional) in zip(mix.parts, mix.remaining, strict=True)
    ]
    heads = ("SKU", "in a set", "in all", "more in addition")
    table = Table(heads, tuple(rows), number_columns=frozenset({1, 2, 3}))
    return Section(
        "Filled with the mix",
        tuple(lines),
        table=table,
        is_finding=not mix.sets.maximum,
        name="mix",
    )


def build_site_resource_sections(rows: Sequence[SiteResourceCapacity]) -> Iterable[Section]:
    """Build the section of capacity besides machines; nothing without captured data."""
    if not rows:
        return
    lines = (
        "Free addresses are upper bounds: Azure reserves some.",
        f"A node needs a block of at least {POD_BLOCK} pod addresses.",
        "Azure does not report the load-balancer addresses in use.",
        "PersistentVolumeClaims: those of pods known to nexusform, in addition to volumes.",
    )
    table_rows: list[Row] = []
    for row in rows:
        upgrade = f"+{row.surge:,}" if row.surge else ""
        # Format the remaining amount: `1 of 6`, `3,992 of 5,040 GiB`, `not captured`, or
        # `254, use not captured`.
        unit = f" {row.unit}" if row.unit == "GiB" else ""
        if row.total is None:
            remaining = "not captured"
        elif row.free is None:
            remaining = f"{row.total:,}{unit}, use not captured"
        else:
            remaining = f"{row.free:,} of {row.total:,}{unit}"
        table_rows.append(
            Row(
                (LABELS[row.kind], row.name or "-", remaining, upgrade),
                is_finding=row.is_insufficient,
            )
        )
    heads = ("resource", "of", "left", "during an upgrade")
    table = Table(heads, tuple(table_rows), number_columns=frozenset({2, 3}))
    yield Section("Other resources", lines, table=table, name="other_resources")


def _build_fragmentation_section(cells: FragmentationCounts, yardstick: VmSku) -> Section:
    """Build a row per kind of NUMA cell, and a line about fragmenting pools."""
    size = f"{yardstick.cpus_in_cell} vCPUs and {yardstick.memory_in_cell} GiB"
    kinds = (
        (cells.open, f"fit {size} now"),
        (cells.taken, "contain a VM of that size"),
        (cells.broken, "contain only smaller VMs and no longer fit it"),
        (cells.spoiled, "have capacity, but their machine lacks disk"),
        (cells.small, "do not fit it even when empty"),
        (cells.closed, "are on machines closed to new VMs"),
        (cells.unknown, "are on machines with unknown NUMA use"),
    )
    rows = tuple(Row((f"{count:,}", text)) for count, text in kinds if count)
    lines = [f"Of {format_count(cells.cells, 'NUMA cell')}, measured by {yardstick.name}:"]
    if cells.broken:
        pools = [
            f"{format_pool_name(pool.cluster, pool.pool)} ({pool.cells})"
            for pool in cells.broken_by
        ]
        lines.append(
            f"Fragmented by {format_list(pools, 6)}; {cells.broken_vcpus:,} vCPUs and "
            f"{cells.broken_memory_gib:,} GiB in them are free for smaller VMs only."
        )
    table = Table(_CELL_HEADS, rows, number_columns=frozenset({0}))
    return Section("Fragmentation", tuple(lines), table=table)
