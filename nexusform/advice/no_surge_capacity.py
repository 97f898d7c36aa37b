"""no-surge-capacity: a Kubernetes upgrade of the pool would lack capacity for its surge VMs.

An upgrade adds `max_surge` VMs before it removes any (the control plane one); without capacity for
them it fails. no-joint-surge-capacity: each pool of a cluster has it, but not all pools at once.
The control plane is upgraded before them.
"""

from typing import Final

from nexusform.advice.lint_input import MAXIMUM_ITEMS, LintInput, LintPool, build_finding
from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import format_count, format_list, group_by, select_word_form
from nexusform.scheduling.racks.vms import Interval

ID: Final = "no-surge-capacity"
JOINT_ID: Final = "no-joint-surge-capacity"


def check(facts: LintInput) -> list[Diagnostic]:
    """Return one finding for every pool without capacity for an upgrade.

    Only sites with VMs placed by this plan are checked. A rolling upgrade adds `pool.surge` VMs
    before it removes others, so the site needs capacity for as many more VMs.
    """
    changed_sites = {pool.site_id for pool in facts.pools if facts.is_reported(pool)}
    findings: list[Diagnostic] = []
    for pool in facts.pools:
        site = facts.get_site(pool)
        needed = pool.surge
        if not needed or pool.site_id not in changed_sites:
            continue
        # As in `validate`: the machines are not known.
        if site.count_free is None:
            continue
        # The number 0: all VMs of a pool are alike.
        free = site.count_free(pool.build_demand(number=0), site.known_counts)
        if free.minimum < needed:
            detail, summary = _format_shortage(pool, needed, free)
            findings.append(build_finding(ID, detail, pool, summary=summary))
    return findings


def _format_shortage(pool: LintPool, needed: int, free: Interval) -> tuple[str, str]:
    """Return the detail (with remedies) and the summary of a shortage.

    `needed` is the number of surge VMs, and `free` of them fit.
    """
    zone_text = (
        f" in the zones {format_list(sorted(pool.zones), MAXIMUM_ITEMS)}" if pool.zones else ""
    )
    # May: it depends on unknown cells of VMs.
    certainty = "would" if free.maximum < needed else "may"
    short_capacity = f"no {pool.sku.name} fits"
    capacity = "no more fits"
    if free.maximum:
        short_capacity = f"{free} of {needed} {pool.sku.name} fit"
        capacity = f"{free} {select_word_form(free.maximum, 'more fits', 'more fit')}"
    if not free.is_exact:
        capacity += " (the NUMA cells of existing VMs are unknown)"
    remedies = [
        f"keep capacity free for {format_count(needed - free.minimum, 'VM')} (a lower count)"
    ]
    if pool.zones:
        remedies.append("widen availability_zones")
    if not pool.is_control_plane:
        remedies.append(
            'set max_surge = "0" and max_unavailable = "1": an upgrade then removes VMs first'
        )
    detail = (
        f"An upgrade of {pool.cluster} adds {format_count(needed, 'VM')} of {pool.sku.name} to "
        f"{pool.pool} first, and {capacity}{zone_text}. The upgrade "
        f"{certainty} fail. Suggested fixes: {'; or '.join(remedies)}."
    )
    return (
        detail,
        f"{pool.cluster}/{pool.pool}: an upgrade {certainty} fail, {short_capacity}{zone_text}",
    )


def check_joint(facts: LintInput) -> list[Diagnostic]:
    """Return one finding for every cluster whose pools cannot be upgraded at once.

    Only sites with VMs placed by this plan are checked. A pool without capacity of its own is
    reported by no-surge-capacity.
    """
    changed_sites = {pool.site_id for pool in facts.pools if facts.is_reported(pool)}
    surging_pools = [
        pool
        for pool in facts.pools
        if pool.surge and not pool.is_control_plane and pool.site_id in changed_sites
    ]
    findings: list[Diagnostic] = []
    for pools in group_by(surging_pools, lambda pool: (pool.site_id, pool.owner)).values():
        site = facts.get_site(pools[0])
        if len(pools) < 2 or site.count_free is None or site.count_fitting is None:
            continue
        free_counts = [
            site.count_free(pool.build_demand(number=0), site.known_counts) for pool in pools
        ]
        if any(free.minimum < pool.surge for pool, free in zip(pools, free_counts, strict=True)):
            continue
        demands = [
            pool.build_demand(number) for pool in pools for number in pool.numbers[: pool.surge]
        ]
        fitting = site.count_fitting(demands)
        if fitting < len(demands):
            findings.append(_build_joint_finding(pools, len(demands), fitting))
    return findings


def _build_joint_finding(pools: list[LintPool], needed: int, fitting: int) -> Diagnostic:
    """Build the finding of a cluster: `needed` surge VMs, of which `fitting` fit together."""
    names = format_list([pool.pool for pool in pools], MAXIMUM_ITEMS)
    cluster = pools[0].cluster
    detail = (
        f"An upgrade of {cluster} adds {format_count(needed, 'VM')} to {names} first. One pool "
        f"after another fits; together {needed:,} are needed and {fitting:,} fit. Upgrade the "
        "pools one after another, or keep capacity free for "
        f"{format_count(needed - fitting, 'more VM')}."
    )
    summary = (
        f"{cluster}: an upgrade of {names} fits one after another; together {needed:,} needed, "
        f"{fitting:,} free"
    )
    return build_finding(JOINT_ID, detail, pools[0], summary=summary)
