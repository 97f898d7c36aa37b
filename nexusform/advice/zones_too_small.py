"""zones-too-small: the zones of a pool have fewer machines than the pool has VMs."""

from __future__ import annotations

from collections import Counter
from typing import Final

from nexusform.advice.facts import NAMED, Facts, PoolFacts, SiteFacts, finding
from nexusform.diagnostics import Diagnostic
from nexusform.words import counted, listed

ID: Final = "zones-too-small"


def rule(facts: Facts) -> list[Diagnostic]:
    """One finding for every pool whose VMs must share machines although other racks have more."""
    findings: list[Diagnostic] = []
    for pool in facts.pools:
        site = facts.site(pool)
        inside, all_machines = len(site.schedulable(pool.zones)), len(site.schedulable(None))
        if not pool.zones or not pool.new_numbers or inside >= min(pool.count, all_machines):
            continue
        wider = _wider(pool, site)
        enough = len(site.schedulable(frozenset(wider)))
        have, zones = counted(inside, "machine"), listed(sorted(pool.zones), NAMED)
        detail = (
            f"The zones {zones} have {have} that take new VMs, and {pool.pool} of {pool.cluster} has "
            f"{pool.count:,} VMs: some machines must house several, and they fail together. "
            f"{_gain(pool, site, wider, enough, facts)}"
        )
        brief = (
            f"{pool.cluster}/{pool.pool}: {pool.count:,} VMs on {have} of the zones {zones}: some share one"
        )
        findings.append(finding(ID, detail, pool, pool.zones_span, brief=brief))
    return findings


def _wider(pool: PoolFacts, site: SiteFacts) -> list[str]:
    """The fewest zones, those of the pool among them, that have a machine for every VM (or all)."""
    chosen = set(pool.zones or ())
    sizes = Counter(m.availability_zone for m in site.schedulable(None) if m.availability_zone not in chosen)
    have = len(site.schedulable(frozenset(chosen)))
    for zone, size in sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0])):
        if have >= pool.count:
            break
        chosen.add(zone)
        have += size
    return sorted(chosen)


def _gain(pool: PoolFacts, site: SiteFacts, wider: list[str], enough: int, facts: Facts) -> str:
    quoted = ", ".join(f'"{zone}"' for zone in wider)
    zones = f"availability_zones = [{quoted}]"
    if site.rehearse is not None:
        widened = [p.in_zones(frozenset(wider)) if p is pool else p for p in facts.on_site(site.id)]
        after = site.rehearse(widened)
        shared = after.shared.get(pool.owner, 0)
        left = f"{counted(shared, 'machine houses', 'machines house')} two or more" if shared else "none does"
        fits = "" if not after.unplaced else f" {counted(after.unplaced, 'VM')} of the site would not fit."
        return f"With {zones}, {left} ({pool.cluster} as a whole).{fits}"
    return f"{zones} has {enough}."
