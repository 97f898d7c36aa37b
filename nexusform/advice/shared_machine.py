"""shared-machine: VMs of one cluster had to share a machine, so they fail together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from nexusform.advice.facts import NAMED, Facts, PoolFacts, SiteFacts, finding
from nexusform.diagnostics import Diagnostic
from nexusform.words import counted, listed

ID: Final = "shared-machine"


def rule(facts: Facts) -> list[Diagnostic]:
    """One finding for every cluster of which this plan places VMs.

    Silent where pinned zones are the whole reason: zones-pinned says so.
    """
    owners: dict[str, list[PoolFacts]] = {}
    for pool in facts.pools:
        owners.setdefault(pool.owner, []).append(pool)
    findings: list[Diagnostic] = []
    for pools in owners.values():
        shared = _shared(pools)
        if not shared or not any(pool.new_numbers for pool in pools):
            continue
        site = facts.site(pools[0])
        if _pins_explain_it(pools, site, facts):
            continue
        houses = counted(len(shared), "machine houses", "machines house")
        quorum = _quorum(pools)
        brief = f"{pools[0].cluster}: {houses} two or more of its VMs{_short(quorum)}"
        findings.append(finding(ID, _detail(pools, shared, site) + quorum, _first_new(pools), brief=brief))
    return findings


def _quorum(pools: Sequence[PoolFacts]) -> str:
    """What the loss of one machine does to the control plane, where it takes the quorum; "" elsewhere."""
    planes = [pool for pool in pools if pool.is_control_plane and pool.count > 1]
    on_machine = Counter(vm.placement.machine for pool in planes for vm in pool.vms.values())
    count = sum(pool.count for pool in planes)
    for machine, vms in sorted(on_machine.items()):
        if vms > 1 and 2 * (count - vms) <= count:
            share = f"{vms} of the {count} control-plane VMs"
            return f" {machine} houses {share}: without it the control plane has no quorum."
    return ""


def _short(quorum: str) -> str:
    return "; the loss of one takes the control plane's quorum" if quorum else ""


def _first_new(pools: Sequence[PoolFacts]) -> PoolFacts:
    return next(pool for pool in pools if pool.new_numbers)


def _shared(pools: Sequence[PoolFacts]) -> dict[str, list[str]]:
    """Machines with more than one VM of the cluster: name -> the pools of its VMs, by machine name."""
    standing: dict[str, list[str]] = {}
    for pool in pools:
        for vm in pool.vms.values():
            standing.setdefault(vm.placement.machine, []).append(pool.pool)
    return {machine: names for machine, names in sorted(standing.items()) if len(names) > 1}


def _pins_explain_it(pools: Sequence[PoolFacts], site: SiteFacts, facts: Facts) -> bool:
    if site.rehearse is None or not any(pool.zones and pool.new_numbers for pool in pools):
        return False
    owner = pools[0].owner
    freed = [p.in_zones(None) if p.owner == owner else p for p in facts.on_site(site.id)]
    return not site.rehearse(freed).shared.get(owner, 0)


def _detail(pools: Sequence[PoolFacts], shared: dict[str, list[str]], site: SiteFacts) -> str:
    cluster = pools[0].cluster
    vms = sum(pool.count for pool in pools)
    take = len(site.schedulable(None))
    examples = listed(
        [f"{machine} ({listed(sorted(set(names)), NAMED)})" for machine, names in shared.items()], most=4
    )
    why = (
        f"The site has {counted(take, 'machine')} that take VMs, and {cluster} has {vms} VMs."
        if vms > take
        else "A rack is chosen before a machine, and in the racks chosen no machine without a VM of this "
        "cluster had the room left."
    )
    return (
        f"{counted(len(shared), 'machine houses', 'machines house')} two or more VMs of {cluster}, which "
        f"fail together: {examples}. {why} A lower count, or larger clusters created first, keeps them apart."
    )
