"""zones-pinned: a pool names its availability zones.

Pinning is the main reason for VMs of one cluster to share a machine. It is right for a pool of two
or three VMs on racks no two of which are neighbours: an upgrade takes rack after rack.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from msgspec import Struct

from nexusform.advice.facts import NAMED, Facts, Outcome, PoolFacts, Rehearse, SiteFacts, finding
from nexusform.diagnostics import Diagnostic
from nexusform.words import counted, form, listed

ID: Final = "zones-pinned"
MAX_REHEARSALS: Final = 16


def rule(facts: Facts) -> list[Diagnostic]:
    """One finding for every pinned pool, with what the pin costs in this plan (or would cost again)."""
    findings: list[Diagnostic] = []
    as_written: dict[str, Outcome] = {}
    for pool in facts.pools:
        site = facts.site(pool)
        if not pool.zones or not pool.new_numbers or _is_spread_by_hand(pool, site):
            continue
        cost = _UNMEASURED
        if site.rehearse is not None and len(findings) < MAX_REHEARSALS:
            if site.id not in as_written:
                as_written[site.id] = site.rehearse(facts.on_site(site.id))
            cost = _measured(pool, facts, as_written[site.id], site.rehearse)
            if not cost.brief and not facts.costless:
                continue
        brief = f"{pool.cluster}/{pool.pool}: {cost.brief or 'pinned, which costs nothing today'}"
        findings.append(finding(ID, _detail(pool, site, cost.words), pool, pool.zones_span, brief=brief))
    return findings


class _Cost(Struct, frozen=True):
    """What a pin costs, in sentences and in a clause; the clause is "" when it costs nothing."""

    words: str
    brief: str = ""


_UNMEASURED: Final = _Cost("", "pinned to few racks")


def _measured(pool: PoolFacts, facts: Facts, pinned: Outcome, rehearse: Rehearse) -> _Cost:
    """What the pin costs: the site's pools are played once more without it."""
    pools = facts.on_site(pool.site_id)
    freed = rehearse([other.in_zones(None) if other is pool else other for other in pools])
    tell = _cost_again if facts.is_replayed(pool.site_id) else _cost
    return tell(pool, pinned, freed)


def _detail(pool: PoolFacts, site: SiteFacts, cost: str) -> str:
    zones, racks = sorted(pool.zones or ()), site.racks_in(pool.zones)
    where = f"the {form(len(racks), 'rack')} {listed(racks, NAMED)}" if racks else ""
    pinned_to = where or f"the zones {listed(zones, NAMED)}"
    return (
        f"{pool.pool} of {pool.cluster} is pinned to {pinned_to}. {cost or _why(pool, site)} "
        "Leave availability_zones out, or name as many zones as you can."
    )


def _is_spread_by_hand(pool: PoolFacts, site: SiteFacts) -> bool:
    """Two or three VMs on racks no two of which are neighbours (or, no racks known, on several zones)."""
    if pool.count not in {2, 3}:
        return False
    racks = site.racks_in(pool.zones)
    if racks:
        places = [site.racks.index(rack) for rack in racks]
        return len(racks) > 1 and all(b - a > 1 for a, b in pairwise(places))
    return len(pool.zones or ()) > 1


def _why(pool: PoolFacts, site: SiteFacts) -> str:
    if site.machines and set(site.racks_in(pool.zones)) == set(site.racks):
        return "These are all racks of the site: the pin only keeps the pool off racks added later."
    return (
        "VMs of one cluster end up on one machine mostly because of pins, and growth and repairs find "
        "fewer machines."
    )


def _cost(pool: PoolFacts, pinned: Outcome, freed: Outcome) -> _Cost:
    shared = pinned.shared.get(pool.owner, 0) - freed.shared.get(pool.owner, 0)
    unplaced = pinned.unplaced - freed.unplaced
    words = []
    costs = []
    if unplaced > 0:
        costs.append(f"{counted(unplaced, 'VM does', 'VMs do')} not fit because of it")
        words.append(f"{costs[-1]}.")
    if shared > 0:
        several = f"{_several(pool, pinned)} VMs of {pool.cluster} because of it"
        costs.append(f"{counted(shared, 'machine houses', 'machines house')} {several}")
        words.append(f"{counted(shared, 'machine')} will house {several}.")
    if not words:
        return _Cost(
            f"It costs nothing in this plan: no more machines house two VMs of {pool.cluster} than without "
            "it. Growth and repairs will find fewer machines."
        )
    if not freed.unplaced:
        vms, machines = freed.vms.get(pool.owner, 0), freed.machines.get(pool.owner, 0)
        words.append(f"Without the pin all {counted(vms, 'VM')} fit on {counted(machines, 'machine')}.")
    return _Cost(" ".join(words), " and ".join(costs))


def _cost_again(pool: PoolFacts, pinned: Outcome, freed: Outcome) -> _Cost:
    """What the pin of VMs that may stand for long would cost: all of the site are placed again."""
    shared = pinned.shared.get(pool.owner, 0) - freed.shared.get(pool.owner, 0)
    unplaced = pinned.unplaced - freed.unplaced
    costs = []
    if unplaced > 0:
        costs.append(f"{counted(unplaced, 'VM')} would not fit because of it")
    if shared > 0:
        machines = counted(shared, "machine")
        costs.append(f"{machines} would house {_several(pool, pinned)} VMs of {pool.cluster} because of it")
    if not costs:
        return _Cost(
            "Were all VMs of the site placed again, it would cost nothing: no more machines would house two "
            f"VMs of {pool.cluster} than without it. Growth and repairs find fewer machines."
        )
    words = f"Were all VMs of the site placed again, {listed(costs, NAMED)}."
    brief = f"placed again, {' and '.join(costs)}"
    if freed.unplaced:
        return _Cost(words, brief)
    vms, on = freed.vms.get(pool.owner, 0), freed.machines.get(pool.owner, 0)
    freely = f"Without the pin all {counted(vms, 'VM')} would fit on {counted(on, 'machine')}."
    return _Cost(f"{words} {freely}", brief)


def _several(pool: PoolFacts, outcome: Outcome) -> str:
    return "two" if outcome.most.get(pool.owner, 0) == 2 else "two or more"
