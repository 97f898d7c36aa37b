"""What a site holds when it is filled with a mix of SKUs: so many whole sets, and what is left."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.model import Demand, Terms, VmName, VmSku, anybodys

_OWNER = "what-if"


class MixPart(Struct, frozen=True):
    """So many VMs of a SKU in every set."""

    count: int
    sku: VmSku


class MixAnswer(Struct, frozen=True):
    """How often the mix fits, placed by the rule.

    `sets` whole sets fit when all VMs are placed at once, larger SKUs first, and `sets` + 1 do not;
    `one_by_one` fit when set follows set. `short` is the SKU of which the next set has too few, with how
    many were `missing`. `left` says how many more VMs of each SKU fit beside the `sets`.
    """

    parts: tuple[MixPart, ...]
    sets: int
    one_by_one: int
    short: VmSku | None
    missing: int
    left: tuple[tuple[VmSku, int], ...]


def fill_with_mix(
    scheduler: RackScheduler, parts: Sequence[MixPart], zones: frozenset[str] | None = None
) -> MixAnswer:
    """Find how many whole sets fit. Changes nothing."""
    ordered = tuple(sorted(parts, key=lambda p: (-p.sku.memory_gib, -p.sku.host_vcpus, p.sku.name)))
    fewest, most = 0, min(scheduler.count_free(anybodys(p.sku, Terms(zones))) // p.count for p in ordered)
    while fewest < most:
        middle = (fewest + most + 1) // 2
        if _placed(scheduler.copy(), ordered, middle, zones) is None:
            fewest = middle
        else:
            most = middle - 1
    beyond = _placed(scheduler.copy(), ordered, fewest + 1, zones)
    full = scheduler.copy()
    _placed(full, ordered, fewest, zones)
    return MixAnswer(
        tuple(parts),
        fewest,
        _one_by_one(scheduler.copy(), ordered, zones),
        beyond[0] if beyond else None,
        beyond[1] if beyond else 0,
        tuple((p.sku, full.count_free(anybodys(p.sku, Terms(zones)))) for p in parts),
    )


def _placed(
    scheduler: RackScheduler, parts: Sequence[MixPart], sets: int, zones: frozenset[str] | None
) -> tuple[VmSku, int] | None:
    """Place so many sets. None when all fit, else the first SKU that fell short, and by how many."""
    for index, part in enumerate(parts):
        for number in range(sets * part.count):
            if scheduler.attempt(_demand(index, part, number, zones)) is None:
                return part.sku, sets * part.count - number
    return None


def _one_by_one(scheduler: RackScheduler, parts: Sequence[MixPart], zones: frozenset[str] | None) -> int:
    sets = 0
    while True:
        for index, part in enumerate(parts):
            for number in range(sets * part.count, (sets + 1) * part.count):
                if scheduler.attempt(_demand(index, part, number, zones)) is None:
                    return sets
        sets += 1


def _demand(index: int, part: MixPart, number: int, zones: frozenset[str] | None) -> Demand:
    return Demand(VmName(_OWNER, _OWNER, f"{index}-{part.sku.name}", number), part.sku, Terms(zones))
