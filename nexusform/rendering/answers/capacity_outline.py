"""The answer to `simulate capacity`, for people and as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.scheduling.racks.model import VmSku
from nexusform.whatif.capacity import CapacityAnswer, SkuRoom, ZoneRoom
from nexusform.whatif.fragmentation import Fragmentation
from nexusform.whatif.mix import MixAnswer, MixPart
from nexusform.words import counted, listed


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
    front = f"{answer.site_id}: " if several else ""
    if answer.mix is not None:
        sets = answer.mix.sets
        return f"{front}{counted(sets, 'set')} of {_mix_text(answer.mix.parts)} {_fits(sets)}"
    texts = [f"{room.now:,} more {room.sku.name} {_fits(room.now)}" for room in answer.rooms[:4]]
    texts[:1] = [f"{text}, {answer.rooms[0].with_a_rack_lost:,} with any one rack lost" for text in texts[:1]]
    return front + ("; ".join(texts) or "no SKU to count")


def _fits(count: int) -> str:
    return "fits" if count == 1 else "fit"


def _mix_text(parts: Iterable[MixPart]) -> str:
    return " + ".join(f"{part.count} x {part.sku.name}" for part in parts)


def _facts(answer: CapacityAnswer) -> Iterable[str]:
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


def _share(free: int, total: int, unit: str) -> str:
    percent = f" ({100 * free / total:.0f} %)" if total else ""
    return f"{free:,} of {total:,} {unit}{percent}"


# --- sections ----------------------------------------------------------------------------------


def _sections(answer: CapacityAnswer) -> Iterable[Section]:
    if answer.mix is not None:
        yield _mix(answer.mix)
    yield _rooms(answer)
    yield _zones(answer)
    yield _lost(answer)
    yield from _fragmentation(answer.fragmentation)


def _rooms(answer: CapacityAnswer) -> Section:
    planned = bool(answer.planned_racks)
    heads = [
        "SKU",
        "more",
        *(["with planned racks"] if planned else []),
        "a rack lost",
        "worst rack",
        "left over",
    ]
    rows = []
    for room in answer.rooms:
        cells = [room.sku.name, f"{room.now:,}", *([f"{room.with_planned:,}"] if planned else [])]
        cells += [f"{room.with_a_rack_lost:,}", room.worst_rack]
        cells.append(f"{room.rest_vcpus:,} vCPUs, {room.rest_memory_gib:,} GiB")
        rows.append(Row(tuple(cells), answer.asked and room.now == 0))
    figures = frozenset(k for k, head in enumerate(heads) if head not in {"SKU", "worst rack", "left over"})
    told = "Left over is what stays free and unusable once the site is filled with that SKU."
    return Section("More VMs of one SKU", (told,), table=Table(tuple(heads), tuple(rows), figures))


def _zones(answer: CapacityAnswer) -> Section:
    zones = answer.rooms[0].zones if answer.rooms else ()
    heads = ("SKU", *(zone.zone for zone in zones))
    rows = tuple(Row((room.sku.name, *(_zone_cell(zone) for zone in room.zones))) for room in answer.rooms)
    lines = ("+N: in planned racks, besides.",) if answer.planned_racks else ()
    return Section("By availability zone", lines, table=Table(heads, rows, frozenset(range(1, len(heads)))))


def _zone_cell(zone: ZoneRoom) -> str:
    return f"{zone.now:,} +{zone.planned:,}" if zone.planned else f"{zone.now:,}"


def _lost(answer: CapacityAnswer) -> Section:
    racks = list(answer.rooms[0].without_rack) if answer.rooms else []
    heads = ("SKU", *racks)
    rows = tuple(
        Row((room.sku.name, *(f"{count:,}" for count in room.without_rack.values()))) for room in answer.rooms
    )
    told = "What the other racks hold as they stand; the lost rack's VMs are down and not created elsewhere."
    table = Table(heads, rows, frozenset(range(1, len(heads))))
    return Section("With this rack lost", (told,), table=table)


def _mix(mix: MixAnswer) -> Section:
    sets = f"{counted(mix.sets, 'whole set')} of {_mix_text(mix.parts)}"
    lines = [f"{sets} {_fits(mix.sets)} when the VMs are placed at once, larger SKUs first."]
    if mix.short is not None:
        verb = "finds" if mix.missing == 1 else "find"
        lines.append(f"One set more does not: {mix.missing} x {mix.short.name} {verb} no room.")
    if mix.one_by_one != mix.sets:
        lines.append(f"Set after set, as they would grow, {mix.one_by_one:,} {_fits(mix.one_by_one)}.")
    rows = [
        Row((part.sku.name, f"{part.count:,}", f"{part.count * mix.sets:,}", f"{more:,}"))
        for part, (_, more) in zip(mix.parts, mix.left, strict=True)
    ]
    heads = ("SKU", "in a set", "in all", "more beside them")
    table = Table(heads, tuple(rows), frozenset({1, 2, 3}))
    return Section("Filled with the mix", tuple(lines), table=table, bad=mix.sets == 0)


def _fragmentation(found: Fragmentation) -> Iterable[Section]:
    if found.yardstick is None:
        return
    name = found.yardstick.name
    kinds = (
        (found.open, f"can take {_a(found.yardstick)} now"),
        (found.taken, "hold a VM of that size"),
        (found.broken, "hold only smaller VMs and cannot take it any more"),
        (found.spoiled, "have the room, but their machine has no disk left for it"),
        (found.small, "cannot take it even when empty"),
        (found.closed, "are on machines that take no new VMs"),
    )
    lines = [f"Of {counted(found.cells, 'NUMA cell')}, seen from {name}:"]
    lines += [f"  {count:,} {text}" for count, text in kinds if count]
    if found.broken:
        culprits = [f"{b.cluster}/{b.pool} ({b.cells})" for b in found.broken_by]
        lines.append(
            f"Broken by {listed(culprits, 6)}; {found.broken_vcpus:,} vCPUs and "
            f"{found.broken_memory_gib:,} GiB are free in them, for smaller VMs only."
        )
    yield Section("Fragmentation", tuple(lines))
    if found.stranded_cells:
        text = (
            f"{found.stranded_vcpus:,} vCPUs and {found.stranded_memory_gib:,} GiB are free in "
            f"{counted(found.stranded_cells, 'cell')} where no SKU fits any more: the other of the two, or "
            "the disk, is used up."
        )
    else:
        text = "Nothing: wherever vCPUs or memory are free, some SKU still fits."
    yield Section("Stranded", (text,))


def _a(sku: VmSku) -> str:
    return f"{sku.cpus_in_cell} vCPUs and {sku.memory_in_cell} GiB"


# --- data --------------------------------------------------------------------------------------


def capacity_document(answers: Sequence[CapacityAnswer]) -> dict[str, Any]:
    """The same as data."""
    return {"sites": [_site(answer) for answer in answers]}


def _site(answer: CapacityAnswer) -> dict[str, Any]:
    figures = answer.figures
    return {
        "site_id": answer.site_id,
        "availability_zones": None if answer.zones is None else list(answer.zones),
        "machines": figures.machines,
        "closed_machines": dict(answer.closed),
        "planned_racks": list(answer.planned_racks),
        "vcpus": {"total": figures.vcpus, "free": figures.free_vcpus},
        "memory_gib": {"total": figures.memory_gib, "free": figures.free_memory_gib},
        "vm_skus": [_sku(room) for room in answer.rooms],
        "fragmentation": _cells(answer.fragmentation),
        "mix": None if answer.mix is None else _mix_data(answer.mix),
    }


def _sku(room: SkuRoom) -> dict[str, Any]:
    return {
        "vm_sku_name": room.sku.name,
        "more": room.now,
        "more_with_planned_racks": room.with_planned,
        "more_with_any_one_rack_lost": room.with_a_rack_lost,
        "worst_rack": room.worst_rack or None,
        "left_over": {"vcpus": room.rest_vcpus, "memory_gib": room.rest_memory_gib},
        "zones": [
            {
                "availability_zone": zone.zone,
                "racks": list(zone.racks),
                "more": zone.now,
                "more_in_planned_racks": zone.planned,
            }
            for zone in room.zones
        ],
        "rack_lost": dict(room.without_rack),
    }


def _cells(found: Fragmentation) -> dict[str, Any]:
    return {
        "yardstick": None if found.yardstick is None else found.yardstick.name,
        "cells": found.cells,
        "open": found.open,
        "taken": found.taken,
        "broken": found.broken,
        "without_disk": found.spoiled,
        "too_small": found.small,
        "closed": found.closed,
        "broken_by": [{"cluster": b.cluster, "pool": b.pool, "cells": b.cells} for b in found.broken_by],
        "free_in_broken_cells": {"vcpus": found.broken_vcpus, "memory_gib": found.broken_memory_gib},
        "stranded": {
            "cells": found.stranded_cells,
            "vcpus": found.stranded_vcpus,
            "memory_gib": found.stranded_memory_gib,
        },
    }


def _mix_data(mix: MixAnswer) -> dict[str, Any]:
    return {
        "set": [{"vm_sku_name": part.sku.name, "count": part.count} for part in mix.parts],
        "sets": mix.sets,
        "sets_one_after_another": mix.one_by_one,
        "short": None if mix.short is None else {"vm_sku_name": mix.short.name, "missing": mix.missing},
        "more_beside_them": {sku.name: more for sku, more in mix.left},
    }
