"""What would have to change for a VM to stand elsewhere, in lines and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nexusform.scheduling.racks.vms import Demand
from nexusform.whatif.elsewhere import Need, Way
from nexusform.words import counted, form, listed

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
    again = f"that re-places all {pool_size} VMs of the pool" if pool_size > 1 else "that re-places the VM"
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
            return f"{count} {has} room without the hard placement hint: {machines}."
        case Need.RULE:
            reasons = _first_of([f"{way.machine} ({way.rule})" for way in ways], listed)
            return f"{count} {has} room, but a rule refuses: {reasons}."
        case Need.HARDWARE:
            return f"A SKU that its hardware lists would fit {count} more: {machines}; {again}."
        case Need.SIZE:
            return f"A smaller SKU would fit {count} more: {machines}; {again}."


def _first_of(texts: Sequence[str], join: Callable[[Sequence[str]], str]) -> str:
    more = f" and {len(texts) - _MOST_NAMES} more" if len(texts) > _MOST_NAMES else ""
    return f"{join(texts[:_MOST_NAMES])}{more}"


def _leave_line(ways: Sequence[Way]) -> str:
    """The machines from which the fewest VMs would have to leave."""
    fewest = min(len(way.leaving) for way in ways)
    best = [way for way in ways if len(way.leaving) == fewest]
    machines = _first_of([f"{way.machine} ({listed(way.leaving, 3)})" for way in best], ", ".join)
    others = len(ways) - len(best)
    rest = f"; {others} more if several did" if others else ""
    count = counted(len(best), "machine")
    return f"{count} would have room if {counted(fewest, 'VM')} left: {machines}{rest}."


def _by_rack(ways: Iterable[Way]) -> str:
    counts = Counter(way.rack for way in ways)
    return listed((f"{rack} ({count})" for rack, count in counts.items()), 8)


def elsewhere_document(ways: Iterable[Way]) -> list[dict[str, Any]]:
    """The same as data, machine by machine."""
    return [_way_document(way) for way in ways]


def _way_document(way: Way) -> dict[str, Any]:
    return {
        "machine": way.machine,
        "rack": way.rack,
        "availability_zone": way.zone,
        "needs": [{"kind": need.value, "text": _WORDS[need]} for need in way.needs],
        "leaving": list(way.leaving),
    }
