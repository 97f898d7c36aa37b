"""no-surge-room: a Kubernetes upgrade of the pool would not find room for its surge VMs.

An upgrade adds `max_surge` VMs before it removes any (the control plane one); without room for them
it fails.
"""

from __future__ import annotations

from typing import Final

from nexusform.advice.facts import NAMED, Facts, PoolFacts, finding
from nexusform.diagnostics import Diagnostic
from nexusform.scheduling.racks.vms import Interval
from nexusform.words import counted, form, listed

ID: Final = "no-surge-room"


def rule(facts: Facts) -> list[Diagnostic]:
    """One finding for every pool that could not be upgraded, on sites where this plan places VMs."""
    touched = {pool.site_id for pool in facts.pools if pool.new_numbers}
    findings: list[Diagnostic] = []
    for pool in facts.pools:
        site = facts.site(pool)
        needed = pool.surge
        if not needed or pool.site_id not in touched or site.count_free is None:
            continue
        free = site.count_free(pool.demand(0))
        if free.least < needed:
            findings.append(finding(ID, _detail(pool, needed, free), pool, brief=_brief(pool, needed, free)))
    return findings


def _would(needed: int, free: Interval) -> str:
    """Whether it is certain that an upgrade fails, where the cells of VMs are not known."""
    return "would" if free.most < needed else "may"


def _brief(pool: PoolFacts, needed: int, free: Interval) -> str:
    where = f" in the zones {listed(sorted(pool.zones), NAMED)}" if pool.zones else ""
    room = f"{free} of {needed} {pool.sku.name} fit" if free.most else f"no {pool.sku.name} fits"
    return f"{pool.cluster}/{pool.pool}: an upgrade {_would(needed, free)} fail, {room}{where}"


def _detail(pool: PoolFacts, needed: int, free: Interval) -> str:
    where = f" in the zones {listed(sorted(pool.zones), NAMED)}" if pool.zones else ""
    room = f"{free} {form(free.most, 'more fits', 'more fit')}" if free.most else "no more fits"
    if not free.exact:
        room += " (the NUMA cells of VMs that stand are not known)"
    ways = [f"keep the room of {counted(needed - free.least, 'VM')} free (a lower count)"]
    if pool.zones:
        ways.append("widen availability_zones")
    if not pool.is_control_plane:
        ways.append('set max_surge = "0" and max_unavailable = "1": an upgrade then takes VMs away first')
    return (
        f"An upgrade of {pool.cluster} adds {counted(needed, 'VM')} of {pool.sku.name} to {pool.pool} first, "
        f"and {room}{where}. The upgrade {_would(needed, free)} fail. Ways out: {'; or '.join(ways)}."
    )
