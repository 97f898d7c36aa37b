"""no-surge-capacity: a Kubernetes upgrade of the pool would lack capacity for its surge VMs. An upgrade adds
`max_surge` VMs before it removes any (the control plane one); without capacity for them it fails.
"""

from __future__ import annotations

from typing import Final

from nexusform.advice.lint_input import MAXIMUM_ITEMS, LintInput, LintPool, build_finding
from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import format_count, format_list, select_word_form
from nexusform.scheduling.racks.vms import Interval

ID: Final = "no-surge-capacity"


def check(facts: LintInput) -> list[Diagnostic]:
    """Return one finding for every pool that could not be upgraded, on sites with VMs placed by this plan."""
    changed_sites = {pool.site_id for pool in facts.pools if pool.new_numbers}
    findings: list[Diagnostic] = []
    for pool in facts.pools:
        site = facts.get_site(pool)
        needed = pool.surge
        if not needed or pool.site_id not in changed_sites or site.count_free is None:  # None in `validate`
            continue
        free = site.count_free(pool.build_demand(number=0))  # alike for every VM; at least `minimum`
        if free.minimum < needed:
            findings.append(
                build_finding(ID, _format_detail(pool, needed, free), pool, summary=_format_summary(pool, needed, free))
            )
    return findings


def _format_certainty(needed: int, free: Interval) -> str:
    """Format whether the failure is certain, or depends on unknown cells of VMs."""
    return "would" if free.maximum < needed else "may"


def _format_summary(pool: LintPool, needed: int, free: Interval) -> str:
    zone_text = f" in the zones {format_list(sorted(pool.zones), MAXIMUM_ITEMS)}" if pool.zones else ""
    capacity_text = f"{free} of {needed} {pool.sku.name} fit" if free.maximum else f"no {pool.sku.name} fits"
    return f"{pool.cluster}/{pool.pool}: an upgrade {_format_certainty(needed, free)} fail, {capacity_text}{zone_text}"


def _format_detail(pool: LintPool, needed: int, free: Interval) -> str:
    """Format the missing capacity of a pool for `needed` surge VMs, with remedies. `free` counts the VMs with room."""
    zone_text = f" in the zones {format_list(sorted(pool.zones), MAXIMUM_ITEMS)}" if pool.zones else ""
    capacity_text = (
        f"{free} {select_word_form(free.maximum, 'more fits', 'more fit')}" if free.maximum else "no more fits"
    )
    if not free.is_exact:
        capacity_text += " (the NUMA cells of existing VMs are unknown)"
    remedies = [f"keep capacity free for {format_count(needed - free.minimum, 'VM')} (a lower count)"]
    if pool.zones:
        remedies.append("widen availability_zones")
    if not pool.is_control_plane:
        remedies.append('set max_surge = "0" and max_unavailable = "1": an upgrade then removes VMs first')
    return (
        f"An upgrade of {pool.cluster} adds {format_count(needed, 'VM')} of {pool.sku.name} to "
        f"{pool.pool} first, and {capacity_text}{zone_text}. The upgrade "
        f"{_format_certainty(needed, free)} fail. Suggested fixes: {'; or '.join(remedies)}."
    )
