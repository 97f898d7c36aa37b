"""The answer to `simulate capacity`, for people and as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

from msgspec.structs import replace

from nexusform.domains.whatif.questions.capacity import CapacityAnswer, MixAnswer, MixPart, SkuRoom, ZoneRoom
from nexusform.domains.whatif.questions.fragmentation import Fragmentation
from nexusform.json_forms import Form
from nexusform.plans.room.other_room import POD_BLOCK, WORDS, OtherRoom
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.rendering.json.json_placements import other_room_documents
from nexusform.rendering.notation.json_bounds import INTERVAL
from nexusform.rendering.notation.places import fits_text
from nexusform.scheduling.racks.vms import Interval, VmSku
from nexusform.words import counted, form, listed


def capacity_outline(answers: Sequence[CapacityAnswer], origin: str) -> Outline:
    """Every site's room, one after the other."""
    bad = any(answer.bad for answer in answers)
    sections: list[Section] = []
    facts: list[str] = []
    for answer in answers:
        front = f"{answer.site_id}: " if len(answers) > 1 else ""
        facts += [f"{front}{fact}" for fact in _facts(answer)]
        sections += [_titled(section, front) for section in _sections(answer)]
    names = listed(answer.site_id for answer in answers)
    verdict = "; ".join(_verdict(answer, len(answers) > 1) for answer in answers)
    return Outline(f"Capacity of {names} ({origin})", f"{verdict}.", bad, tuple(facts), tuple(sections))


def _titled(section: Section, front: str) -> Section:
    return replace(section, title=f"{front}{section.title}")


def _verdict(answer: CapacityAnswer, several: bool) -> str:
    """`4 more NC_P46_224_v1 fit, 2 with any one rack lost; ...`, or how many whole sets of a mix do."""
    front = f"{answer.site_id}: " if several else ""
    if answer.mix is not None:
        sets = answer.mix.sets
        return f"{front}{_sets(sets, 'set')} of {_mix_text(answer.mix.parts)} {fits_text(sets)}"
    if not answer.rooms:
        return f"{front}no SKU to count"
    shown = answer.rooms[:4]
    rooms = [f"{room.now} more {room.sku.title} {fits_text(room.now)}" for room in shown]
    rack_lost = f"{answer.rooms[0].with_a_rack_lost} with any one rack lost"
    comma = "," if answer.rooms[0].now.exact else ";"
    return front + "; ".join([f"{rooms[0]}{comma} {rack_lost}", *rooms[1:]])


def _sets(count: Interval, noun: str) -> str:
    """`3 whole sets`, `3 to 5 sets`."""
    return f"{count} {form(count.most, noun)}"


def _mix_text(parts: Iterable[MixPart]) -> str:
    return " + ".join(f"{part.count} x {part.sku.title}" for part in parts)


def _facts(answer: CapacityAnswer) -> Iterable[str]:
    """Sentences on the machines that are counted, and on those that are not."""
    figures = answer.figures
    where = "" if answer.zones is None else f" in zones {', '.join(answer.zones)}"
    yield (
        f"{counted(figures.machines, 'machine')}{where} take new VMs; free are "
        f"{_share(figures.free_vcpus, figures.vcpus, 'vCPUs')} and "
        f"{_share(figures.free_memory_gib, figures.memory_gib, 'GiB')}."
    )
    if answer.closed:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(answer.closed.items()))
        yield f"{counted(sum(answer.closed.values()), 'machine')} take none and are left out: {reasons}."
    if answer.planned_racks:
        yield f"Planned racks, counted apart: {listed(answer.planned_racks)}."
    yield "Each count stands for its SKU alone, nothing else being placed."
    yield from _not_known(answer)


def _not_known(answer: CapacityAnswer) -> Iterable[str]:
    """What bears on the counts and nobody told."""
    if answer.loose:
        yield (
            f"On {counted(len(answer.loose), 'machine')} the NUMA cells of VMs are not known: N to M fit, "
            "whichever legal split it is; N are certain."
        )
    if answer.overfull:
        named = listed(answer.overfull, 5)
        yield f"These VMs do not fit into the cells of {named} in any way: counted as full."
    if answer.homeless:
        takes = form(len(answer.homeless), "VM has", "VMs have")
        named = listed(answer.homeless, 5)
        yield f"{len(answer.homeless):,} {takes} no machine, and their room is not counted: {named}."


def _share(free: float, total: int, unit: str) -> str:
    """`1,200 of 4,800 vCPUs (25 %)`."""
    percent = f" ({100 * free / total:.0f} %)" if total else ""
    return f"{free:,} of {total:,} {unit}{percent}"


# --- sections ----------------------------------------------------------------------------------


def _sections(answer: CapacityAnswer) -> Iterable[Section]:
    if answer.mix is not None:
        yield _mix(answer.mix)
    yield _rooms(answer)
    yield _zones(answer)
    yield _lost(answer)
    yield from other_sections(answer.other)
    yield from _fragmentation(answer.fragmentation)


def _rooms(answer: CapacityAnswer) -> Section:
    """A row per SKU: how many more fit, and what no VM of it can use."""
    planned = ("with planned racks",) if answer.planned_racks else ()
    counts = ("more", *planned, "a rack lost")
    heads = ("SKU", *counts, "worst rack", "left over")
    rows = tuple(_room_row(room, answer) for room in answer.rooms)
    line = "Left over is what stays free and unusable once the site is filled with that SKU."
    table = Table(heads, rows, frozenset(range(1, len(counts) + 1)))
    return Section("More VMs of one SKU", (line,), table=table)


def _room_row(room: SkuRoom, answer: CapacityAnswer) -> Row:
    planned = (f"{room.with_planned}",) if answer.planned_racks else ()
    left_over = f"{room.rest_vcpus} vCPUs, {room.rest_memory_gib} GiB"
    counts = (f"{room.now}", *planned, f"{room.with_a_rack_lost}")
    return Row((room.sku.title, *counts, room.worst_rack, left_over), answer.asked and not room.now.most)


def _zones(answer: CapacityAnswer) -> Section:
    """A row per SKU, a column per availability zone."""
    zones = answer.rooms[0].zones if answer.rooms else ()
    rows = tuple(_zone_row(room) for room in answer.rooms)
    lines = ("+N: in planned racks, besides.",) if answer.planned_racks else ()
    table = _table_by_sku([zone.zone for zone in zones], rows)
    return Section("By availability zone", lines, table=table)


def _table_by_sku(heads: Sequence[str], rows: tuple[Row, ...]) -> Table:
    return Table(("SKU", *heads), rows, frozenset(range(1, len(heads) + 1)))


def _zone_row(room: SkuRoom) -> Row:
    return Row((room.sku.title, *(_zone_cell(zone) for zone in room.zones)))


def _zone_cell(zone: ZoneRoom) -> str:
    return f"{zone.now} +{zone.planned:,}" if zone.planned else f"{zone.now}"


def _lost(answer: CapacityAnswer) -> Section:
    """A row per SKU, a column per rack that might be lost."""
    racks = list(answer.rooms[0].without_rack) if answer.rooms else []
    rows = tuple(_rack_lost_row(room) for room in answer.rooms)
    line = "What the other racks hold as they stand; the lost rack's VMs are down and not created elsewhere."
    return Section("With this rack lost", (line,), table=_table_by_sku(racks, rows))


def _rack_lost_row(room: SkuRoom) -> Row:
    return Row((room.sku.title, *(f"{count}" for count in room.without_rack.values())))


def _mix(mix: MixAnswer) -> Section:
    """How many whole sets of a mix fit, and what fits beside them."""
    sets = f"{_sets(mix.sets, 'whole set')} of {_mix_text(mix.parts)}"
    lines = [f"{sets} {fits_text(mix.sets)} when the VMs are placed at once, larger SKUs first."]
    if mix.short is not None:
        verb = form(mix.missing, "finds", "find")
        lines.append(f"One set more does not: {mix.missing} x {mix.short.name} {verb} no room.")
    if mix.one_by_one != mix.sets:
        lines.append(f"Set after set, as they would grow, {mix.one_by_one} {fits_text(mix.one_by_one)}.")
    if not mix.sets.exact:
        lines.append("These are bounds: the truth lies inside, and may not reach them.")
    rows = [
        Row((part.sku.title, f"{part.count:,}", f"{part.count * mix.sets.least:,}", f"{beside}"))
        for part, (_, beside) in zip(mix.parts, mix.left, strict=True)
    ]
    heads = ("SKU", "in a set", "in all", "more beside them")
    table = Table(heads, tuple(rows), frozenset({1, 2, 3}))
    return Section("Filled with the mix", tuple(lines), table=table, bad=not mix.sets.most)


def other_sections(rows: Sequence[OtherRoom]) -> Iterable[Section]:
    """A row for each thing that may run out beside machines; nothing where no provider looked."""
    if not rows:
        return
    lines = (
        "What is left is what is left at most: the platform keeps some addresses for its own.",
        f"A node takes a block of {POD_BLOCK} pod addresses at least.",
        "Which services have addresses of load balancers, Azure does not tell.",
        "Claims of pods are those of what nexusform knows to run there, on top of volumes.",
    )
    cells = tuple(_other_row(row) for row in rows)
    table = Table(("beside machines", "of", "left", "an upgrade"), cells, frozenset({2, 3}))
    yield Section("Beside machines", lines, table=table)


def _other_row(row: OtherRoom) -> Row:
    upgrade = f"+{row.surge:,}" if row.surge else ""
    return Row((WORDS[row.kind], row.name or "-", left_of(row), upgrade), row.lacks)


def left_of(row: OtherRoom) -> str:
    """`1 of 6`, `3,992 of 5,040 GiB`, `not captured`, `254, use not captured`."""
    unit = f" {row.unit}" if row.unit == "GiB" else ""
    if row.total is None:
        return "not captured"
    if row.free is None:
        return f"{row.total:,}{unit}, use not captured"
    return f"{row.free:,} of {row.total:,}{unit}"


def _fragmentation(cells: Fragmentation) -> Iterable[Section]:
    if cells.yardstick is None:
        return
    yield Section("Fragmentation", tuple(_fragmentation_lines(cells, cells.yardstick)))
    yield Section("Stranded", (_stranded_line(cells),))


def _fragmentation_lines(cells: Fragmentation, yardstick: VmSku) -> Iterable[str]:
    """NUMA cells by what they can still take, and which pools break them."""
    size = f"{yardstick.cpus_in_cell} vCPUs and {yardstick.memory_in_cell} GiB"
    kinds = (
        (cells.open, f"can take {size} now"),
        (cells.taken, "hold a VM of that size"),
        (cells.broken, "hold only smaller VMs and cannot take it any more"),
        (cells.spoiled, "have the room, but their machine has no disk left for it"),
        (cells.small, "cannot take it even when empty"),
        (cells.closed, "are on machines that take no new VMs"),
        (cells.unknown, "are on machines with VMs whose cells are not known"),
    )
    yield f"Of {counted(cells.cells, 'NUMA cell')}, seen from {yardstick.name}:"
    for count, text in kinds:
        if count:
            yield f"  {count:,} {text}"
    if cells.broken:
        pools = [f"{pool.cluster}/{pool.pool} ({pool.cells})" for pool in cells.broken_by]
        yield (
            f"Broken by {listed(pools, 6)}; {cells.broken_vcpus:,} vCPUs and "
            f"{cells.broken_memory_gib:,} GiB are free in them, for smaller VMs only."
        )


def _stranded_line(cells: Fragmentation) -> str:
    """What is free and of no use to any SKU."""
    if not cells.stranded_cells:
        return "Nothing: wherever vCPUs or memory are free, some SKU still fits."
    return (
        f"{cells.stranded_vcpus:,} vCPUs and {cells.stranded_memory_gib:,} GiB are free in "
        f"{counted(cells.stranded_cells, 'cell')} where no SKU fits any more: the other of the two, or "
        "the disk, is used up."
    )


# --- data --------------------------------------------------------------------------------------


_ZONE: Final = Form(
    ZoneRoom, "availability_zone=zone racks more=now.least more_in_planned_racks=planned *now", now=INTERVAL
)
_SKU: Final = Form(
    SkuRoom,
    "vm_sku_name=sku.name [sriov_vfs=sku.vfs] more=now.least more_with_planned_racks=with_planned.least "
    "more_with_any_one_rack_lost=with_a_rack_lost.least worst_rack? left_over=. zones "
    "rack_lost=without_rack *now with_planned_racks=with_planned "
    "with_any_one_rack_lost=with_a_rack_lost with_rack_lost=without_rack",
    left_over="vcpus=rest_vcpus.most memory_gib=rest_memory_gib.most",
    zones=_ZONE,
    rack_lost=attrgetter("least"),
    now=INTERVAL,
    with_planned_racks=INTERVAL,
    with_any_one_rack_lost=INTERVAL,
    with_rack_lost=INTERVAL,
)
_FRAGMENTATION: Final = Form(
    Fragmentation,
    "yardstick cells open taken broken without_disk=spoiled too_small=small closed unknown broken_by "
    "free_in_broken_cells=. stranded=.",
    yardstick=attrgetter("name"),
    broken_by="cluster pool cells",
    free_in_broken_cells="vcpus=broken_vcpus memory_gib=broken_memory_gib",
    stranded="cells=stranded_cells vcpus=stranded_vcpus memory_gib=stranded_memory_gib",
)
_SITE: Final = Form(
    CapacityAnswer,
    "site_id availability_zones=zones machines=figures.machines closed_machines=closed "
    "machines_with_unknown_cells=loose overfull_machines=overfull vms_without_a_machine=homeless "
    "planned_racks vcpus=figures memory_gib=figures vm_skus=rooms fragmentation",
    vcpus="total=vcpus free=free_vcpus",
    memory_gib="total=memory_gib free=free_memory_gib",
    vm_skus=_SKU,
    fragmentation=_FRAGMENTATION,
)


def capacity_document(answers: Sequence[CapacityAnswer]) -> dict[str, Any]:
    """The room of sites, as JSON data."""
    return {"sites": [_site_document(answer) for answer in answers]}


def _site_document(answer: CapacityAnswer) -> dict[str, Any]:
    other = {"room_other": other_room_documents(answer.other)} if answer.other else {}
    return {**_SITE(answer), **other, "mix": None if answer.mix is None else _mix_document(answer.mix)}


def _mix_document(mix: MixAnswer) -> dict[str, Any]:
    return {
        "set": [{"vm_sku_name": part.sku.name, "count": part.count} for part in mix.parts],
        "sets": mix.sets.least,
        "sets_one_after_another": mix.one_by_one.least,
        "short": None if mix.short is None else {"vm_sku_name": mix.short.name, "missing": mix.missing},
        "more_beside_them": {sku.name: beside.least for sku, beside in mix.left},
        **INTERVAL(mix.sets),
        "one_after_another": INTERVAL(mix.one_by_one),
        "bounds": not mix.sets.exact,
    }
