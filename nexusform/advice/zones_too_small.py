"""zones-too-small: the zones of a pool have fewer machines than the pool has VMs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from nexusform.advice.lint_input import (
    MAXIMUM_ITEMS,
    LintInput,
    LintPool,
    LintSite,
    SiteUsage,
    build_finding,
)
from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import format_count, format_list

ID: Final = "zones-too-small"


def check(facts: LintInput) -> list[Diagnostic]:
    """Return one finding for every pool with VMs on shared machines because of its zones.

    Other racks have more machines.
    """
    findings: list[Diagnostic] = []
    small_pools: list[LintPool] = []
    zones_by_pool: dict[tuple[str, str], list[str]] = {}
    # By site and zones: many pools share both.
    machine_counts: dict[tuple[str, frozenset[str] | None], int] = {}
    for pool in facts.pools:
        if not pool.zones or not facts.is_reported(pool):
            continue
        site = facts.get_site(pool)
        for zones_to_count in (pool.zones, None):
            key = (pool.site_id, zones_to_count)
            if key not in machine_counts:
                machine_counts[key] = len(site.list_schedulable(zones_to_count))
        machine_count = machine_counts[pool.site_id, pool.zones]
        all_machines = machine_counts[pool.site_id, None]
        if machine_count >= min(pool.count, all_machines):
            # Wider zones would not help.
            continue
        zones_by_pool[pool.address, pool.pool] = _find_wider_zones(pool.count, pool.zones, site)
        small_pools.append(pool)
    # The wider zones are planned once for all pools.
    usage_by_site = _plan_wider_zones(small_pools, zones_by_pool, facts)
    for pool in small_pools:
        site = facts.get_site(pool)
        assert pool.zones is not None
        machine_count = machine_counts[pool.site_id, pool.zones]
        wider_zones = zones_by_pool[pool.address, pool.pool]
        machine_text = format_count(machine_count, "machine")
        zones = format_list(sorted(pool.zones), MAXIMUM_ITEMS)
        detail = (
            f"The zones {zones} have {machine_text} that accept new VMs, but {pool.pool} of "
            f"{pool.cluster} has {pool.count:,} VMs: some share a machine and fail together. "
            f"{_format_gain(pool, site, wider_zones, usage_by_site)}"
        )
        summary = (
            f"{pool.cluster}/{pool.pool}: {pool.count:,} VMs on {machine_text} of the zones "
            f"{zones}: some share one"
        )
        findings.append(build_finding(ID, detail, pool, pool.zones_span, summary=summary))
    return findings


def _find_wider_zones(count: int, zones: frozenset[str], site: LintSite) -> list[str]:
    """Return the fewest zones, including these, with a machine for each of `count` VMs.

    Zones with most machines are added first. If even all zones have too few machines, return all.
    """
    selected = set(zones)
    # Machines of all zones.
    machines = site.list_schedulable(None)
    sizes = Counter(
        machine.availability_zone
        for machine in machines
        if machine.availability_zone not in selected
    )
    machine_count = len(site.list_schedulable(frozenset(selected)))
    # The largest first, then by name.
    for zone, size in sorted(sizes.items(), key=lambda pair: (-pair[1], pair[0])):
        if machine_count >= count:
            break
        selected.add(zone)
        machine_count += size
    return sorted(selected)


def _plan_wider_zones(
    pools: Sequence[LintPool], zones: Mapping[tuple[str, str], list[str]], facts: LintInput
) -> Mapping[str, SiteUsage] | None:
    """Return the sites in the plan with these zones of all pools with new VMs, if it fits."""
    edits = [pool.edit_zones(zones[pool.address, pool.pool]) for pool in pools if pool.new_numbers]
    return facts.plan_trial(edits) if edits and facts.plan_trial is not None else None


def _format_gain(
    pool: LintPool,
    site: LintSite,
    wider_zones: list[str],
    usage_by_site: Mapping[str, SiteUsage] | None,
) -> str:
    """Return the effect of wider zones: as planned, or the number of their machines.

    The number stands in for the effect in `validate`, and for a pool without new VMs.
    """
    quoted = ", ".join(f'"{zone}"' for zone in wider_zones)
    zones = f"availability_zones = [{quoted}]"
    if usage_by_site is not None and pool.new_numbers:
        shared = usage_by_site[site.id].shared.get(pool.owner, 0)
        shared_text = (
            f"{format_count(shared, 'machine runs', 'machines run')} two or more"
            if shared
            else "none does"
        )
        return f"With {zones}, {shared_text} ({pool.cluster} as a whole)."
    # The sentence before names machines.
    return f"{zones} has {len(site.list_schedulable(frozenset(wider_zones)))}."
