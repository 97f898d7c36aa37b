"""shared-machine: VMs of one cluster share a machine, so they fail together."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from nexusform.advice.lint_input import MAXIMUM_ITEMS, LintInput, LintPool, LintSite, build_finding
from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import format_count, format_list, group_by

ID: Final = "shared-machine"


def check(facts: LintInput) -> list[Diagnostic]:
    """Return a finding for every cluster with several of its VMs on the same machine.

    `advise` checks all clusters, a plan those with VMs placed by it. Clusters with such machines
    only because of pinned zones are left to the rule zones-pinned.
    """
    findings: list[Diagnostic] = []
    for pools in group_by(facts.pools, lambda pool: pool.owner).values():
        reported_pools = [pool for pool in pools if facts.is_reported(pool)]
        shared = _find_shared_machines(pools)
        if not shared or not reported_pools:
            continue
        site = facts.get_site(pools[0])
        has_new_pins = any(pool.zones and pool.new_numbers for pool in pools)
        if has_new_pins and facts.usage_without_pins is not None:
            without_pins = facts.usage_without_pins[site.id]
            # Only the pins cause it.
            if not without_pins.shared.get(pools[0].owner, 0):
                # The rule zones-pinned reports it.
                continue
        machine_text = format_count(len(shared), "machine runs", "machines run")
        quorum = _format_quorum_loss(pools)
        quorum_clause = "; losing one breaks control-plane quorum" if quorum else ""
        summary = f"{pools[0].cluster}: {machine_text} two or more of its VMs{quorum_clause}"
        detail = f"{_format_detail(pools, shared, site)}{quorum}"
        findings.append(build_finding(ID, detail, reported_pools[0], summary=summary))
    return findings


def _find_shared_machines(pools: Iterable[LintPool]) -> dict[str, list[str]]:
    """Return the pool of each VM on machines with several VMs of a cluster.

    The keys are the machines: `{"rack1-bm01": ["a", "a"]}`.
    """
    pools_by_machine: dict[str, list[str]] = {}
    for pool in pools:
        for vm in pool.vms.values():
            pools_by_machine.setdefault(vm.placement.machine, []).append(pool.pool)
    return {machine: names for machine, names in sorted(pools_by_machine.items()) if len(names) > 1}


def _format_quorum_loss(pools: Sequence[LintPool]) -> str:
    """Return a sentence about the first machine needed for the quorum of a control plane, or "".

    The control plane is that of the cluster. A quorum is a majority of the control-plane VMs. A
    single VM has no quorum to lose.
    """
    control_plane = next((pool for pool in pools if pool.is_control_plane), None)
    if control_plane is None:
        return ""
    total = control_plane.count
    vm_counts = Counter(vm.placement.machine for vm in control_plane.vms.values())
    for machine, count in sorted(vm_counts.items()):
        has_majority_without_it = 2 * (total - count) > total
        if count > 1 and not has_majority_without_it:
            share = f"{count} of the {total} control-plane VMs"
            return f" {machine} runs {share}: losing it breaks the quorum of the control plane."
    return ""


def _format_detail(pools: Sequence[LintPool], shared: dict[str, list[str]], site: LintSite) -> str:
    """Format a cluster's shared machines, with the reason and the remedy.

    `shared` has the pools of the VMs of each machine.
    """
    cluster = pools[0].cluster
    vm_count = sum(pool.count for pool in pools)
    schedulable_count = len(site.list_schedulable(None))
    examples = format_list(
        [
            f"{machine} ({format_list(sorted(set(names)), MAXIMUM_ITEMS)})"
            for machine, names in shared.items()
        ],
        max_items=4,
    )
    reason = (
        "Racks are selected first. In the selected racks, no machine without a VM of this cluster "
        "had enough capacity."
    )
    if vm_count > schedulable_count:
        machine_text = format_count(schedulable_count, "machine")
        reason = f"The site has {machine_text} that accept VMs, but {cluster} has {vm_count} VMs."
    return (
        f"{format_count(len(shared), 'machine runs', 'machines run')} two or more VMs of "
        f"{cluster}, which fail together: {examples}. {reason} Lower the count, or create larger "
        "clusters first."
    )
