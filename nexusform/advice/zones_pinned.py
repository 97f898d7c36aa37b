"""zones-pinned: a pool names its availability zones.

Pinning is the main reason for VMs of one cluster to share a machine. It is right for a pool of two
or three VMs on non-adjacent racks: an upgrade proceeds rack by rack.
"""

from itertools import pairwise
from typing import Final

from msgspec import Struct

from nexusform.advice.lint_input import (
    MAXIMUM_ITEMS,
    LintInput,
    LintPool,
    LintSite,
    SiteUsage,
    build_finding,
)
from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import format_count, format_list, select_word_form

ID: Final = "zones-pinned"


def check(facts: LintInput) -> list[Diagnostic]:
    """Return one finding for every pool pinned to zones, with the cost of the pin.

    The cost is the difference to the plan without all pins of clusters that share machines.
    """
    findings: list[Diagnostic] = []
    for pool in facts.pools:
        site = facts.get_site(pool)
        if (
            not pool.zones
            or not facts.is_reported(pool)
            or _is_spread_by_zones(pool.count, pool.zones, site)
        ):
            # Not pinned, not part of the question, or pinned well.
            continue
        racks = site.list_racks(pool.zones)
        if racks and len(racks) == len(site.racks):
            # All racks of the site: no pin.
            continue
        cost = _measure_pin_cost(pool, site, facts)
        if cost.is_silent and not facts.includes_costless:
            continue
        limit = f"limited to {format_count(len(pool.zones), 'zone')}"
        summary = f"{pool.cluster}/{pool.pool}: {limit}, {cost.summary}"
        target = f"the zones {format_list(sorted(pool.zones), MAXIMUM_ITEMS)}"
        # Known from the machines of the site.
        if racks:
            target = (
                f"the {select_word_form(len(racks), 'rack')} {format_list(racks, MAXIMUM_ITEMS)}"
            )
        detail = (
            f"{pool.pool} of {pool.cluster} is pinned to {target}. {cost.text} Omit "
            "availability_zones, or name as many zones as possible."
        )
        findings.append(build_finding(ID, detail, pool, pool.zones_span, summary=summary))
    return findings


class _ZonePinCost(Struct, frozen=True):
    """Cost of a pin, as sentences and as a clause; silent without a known cost."""

    text: str
    summary: str
    is_silent: bool = False


def _is_spread_by_zones(count: int, zones: frozenset[str], site: LintSite) -> bool:
    """Return whether the zones of a small pool have several racks, none adjacent to another.

    A small pool has two or three VMs. If the racks of the zones are not known, several zones are
    enough. Return False for other pool sizes.
    """
    # Pinning is right for so few VMs only: an upgrade proceeds rack by rack.
    if count not in {2, 3}:
        return False
    racks = site.list_racks(zones)
    # The machines of the site are not known.
    if not racks:
        return len(zones) > 1
    positions = list(map(site.racks.index, racks))
    return len(racks) > 1 and all(
        next_position - position > 1 for position, next_position in pairwise(positions)
    )


def _measure_pin_cost(pool: LintPool, site: LintSite, facts: LintInput) -> _ZonePinCost:
    """Return the cost of a pin in this plan: machines that more VMs of the cluster share.

    Without new VMs the pin decides nothing. Without shared machines it costs nothing.
    """
    pinned_usage = site.usage
    if not pool.new_numbers or pinned_usage is None:
        return _ZonePinCost(
            "VMs of one cluster end up on one machine mostly because of pins, and growth and "
            "repairs find fewer machines.",
            "which are few racks",
        )
    # Machines with several VMs of the cluster, of which the pool has one.
    extra_shared = 0
    free_usage = pinned_usage
    if pool in facts.sharing_pins:
        if facts.usage_without_pins is None:
            return _ZonePinCost(
                "Its cost is unknown: without the pins of such pools, this plan has errors. "
                "Separation rules may need them.",
                "at unknown cost",
                is_silent=True,
            )
        free_usage = facts.usage_without_pins[site.id]
        extra_shared = pinned_usage.shared[pool.owner] - free_usage.shared.get(pool.owner, 0)
    if extra_shared <= 0:
        return _ZonePinCost(
            f"It costs nothing in this plan: no more machines run two VMs of {pool.cluster} than "
            "without it. Growth and repairs will find fewer machines.",
            "at no cost now",
            is_silent=True,
        )
    vm_text = f"{_format_shared_vm_count(pool, pinned_usage)} VMs of {pool.cluster}"
    vms = format_count(free_usage.vms.get(pool.owner, 0), "VM")
    machines = format_count(free_usage.machines.get(pool.owner, 0), "machine")
    pins = "the pin" if len(facts.sharing_pins) == 1 else "such pins"
    return _ZonePinCost(
        f"So {format_count(extra_shared, 'machine')} will run {vm_text}. Without {pins} all {vms} "
        f"fit on {machines}.",
        f"so {format_count(extra_shared, 'machine runs', 'machines run')} {vm_text}",
    )


def _format_shared_vm_count(pool: LintPool, usage: SiteUsage) -> str:
    # On the fullest machine.
    return "two" if usage.maximum.get(pool.owner, 0) == 2 else "two or more"
