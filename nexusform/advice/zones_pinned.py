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
    SimulationResult,
    build_finding,
)
from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import format_count, format_list, select_word_form

ID: Final = "zones-pinned"
MAXIMUM_SIMULATIONS: Final = 16


def check(facts: LintInput) -> list[Diagnostic]:
    """Return one finding for every pool pinned to zones, with the cost of the pin.

    The cost is measured by placing the VMs of the site with and without the pin, for the first
    pools of a plan.
    """
    findings: list[Diagnostic] = []
    # By site id.
    current_results: dict[str, SimulationResult] = {}
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
        reason = (
            "VMs of one cluster end up on one machine mostly because of pins, and growth and "
            "repairs find fewer "
            "machines."
        )
        # If not measured below.
        cost = _ZonePinCost(text=reason, summary="which are few racks")
        # Existing VMs are not placed again, with or without the pin.
        is_measurable = pool.new_numbers and len(findings) < MAXIMUM_SIMULATIONS
        if is_measurable and site.simulate is not None:
            pools = facts.list_pools(site.id)
            if site.id not in current_results:
                current_results[site.id] = site.simulate(pools)
            free_result = site.simulate(facts.list_pools_with_zones([pool], None))
            cost = _build_pin_cost(pool, current_results[site.id], free_result)
            if not cost.summary and not facts.includes_costless:
                # The pin costs nothing.
                continue
        limit = f"limited to {format_count(len(pool.zones), 'zone')}"
        summary = f"{pool.cluster}/{pool.pool}: {limit}, {cost.summary or 'at no cost now'}"
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
    """Cost of a pin, as sentences and as a clause; the clause is "" without a cost."""

    text: str
    summary: str = ""


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


def _build_pin_cost(
    pool: LintPool, pinned_result: SimulationResult, free_result: SimulationResult
) -> _ZonePinCost:
    """Format the cost of the pin in this plan, compared with `free_result`.

    `free_result` is a simulation without the pin.
    """
    # A shared machine runs two or more VMs of the cluster.
    extra_shared = pinned_result.shared.get(pool.owner, 0) - free_result.shared.get(pool.owner, 0)
    extra_unplaced = pinned_result.unplaced_count - free_result.unplaced_count
    # The text of the finding.
    sentences = []
    # The same for its one-line summary.
    clauses = []
    if extra_unplaced > 0:
        clause = f"{format_count(extra_unplaced, 'VM does', 'VMs do')} not fit"
        clauses.append(clause)
        sentences.append(f"So {clause}.")
    if extra_shared > 0:
        vm_text = f"{_format_shared_vm_count(pool, pinned_result)} VMs of {pool.cluster}"
        clauses.append(f"{format_count(extra_shared, 'machine runs', 'machines run')} {vm_text}")
        sentences.append(f"So {format_count(extra_shared, 'machine')} will run {vm_text}.")
    if not sentences:
        return _ZonePinCost(
            f"It costs nothing in this plan: no more machines run two VMs of {pool.cluster} than "
            "without "
            "it. Growth and repairs will find fewer machines."
        )
    # All VMs of the site fit without the pin.
    if not free_result.unplaced_count:
        vms = free_result.vms.get(pool.owner, 0)
        machines = free_result.machines.get(pool.owner, 0)
        sentences.append(
            f"Without the pin all {format_count(vms, 'VM')} fit on "
            f"{format_count(machines, 'machine')}."
        )
    return _ZonePinCost(text=" ".join(sentences), summary=f"so {' and '.join(clauses)}")


def _format_shared_vm_count(pool: LintPool, outcome: SimulationResult) -> str:
    # On the fullest machine.
    return "two" if outcome.maximum.get(pool.owner, 0) == 2 else "two or more"
