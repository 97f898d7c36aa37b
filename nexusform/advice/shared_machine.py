"""shared-machine: VMs of one cluster share a machine, so they fail together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from nexusform.advice.lint_input import MAXIMUM_ITEMS, LintInput, LintPool, LintSite, build_finding
from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.phrases import format_count, format_list

ID: Final = "shared-machine"


def check(facts: LintInput) -> list[Diagnostic]:
    """Return one finding for every cluster with VMs placed by this plan. Silent if pinned zones are the only
    reason, reported by zones-pinned.
    """
    owners: dict[str, list[LintPool]] = {}
    for pool in facts.pools:
        owners.setdefault(pool.owner, []).append(pool)
    findings: list[Diagnostic] = []
    for pools in owners.values():
        # Machines with more than one VM of the cluster: name -> the pools of its VMs, by machine name.
        pools_by_machine: dict[str, list[str]] = {}
        for pool in pools:
            for vm in pool.vms.values():
                pools_by_machine.setdefault(vm.placement.machine, []).append(pool.pool)
        shared = {machine: names for machine, names in sorted(pools_by_machine.items()) if len(names) > 1}
        if not shared or not any(pool.new_numbers for pool in pools):
            continue
        site = facts.get_site(pools[0])
        if site.simulate is None or not any(pool.zones and pool.new_numbers for pool in pools):
            is_caused_by_pins = False
        else:
            owner = pools[0].owner
            unpinned = [p.replace_zones(None) if p.owner == owner else p for p in facts.list_pools(site.id)]
            is_caused_by_pins = not site.simulate(unpinned).shared.get(owner, 0)
        if is_caused_by_pins:
            continue
        machine_text = format_count(len(shared), "machine runs", "machines run")
        quorum = _format_quorum_loss(pools)
        quorum_clause = "; losing one breaks control-plane quorum" if quorum else ""
        summary = f"{pools[0].cluster}: {machine_text} two or more of its VMs{quorum_clause}"
        first_new = next(pool for pool in pools if pool.new_numbers)
        findings.append(build_finding(ID, _format_detail(pools, shared, site) + quorum, first_new, summary=summary))
    return findings


def _format_quorum_loss(pools: Sequence[LintPool]) -> str:
    """Format the loss of quorum if one machine with control plane VMs fails; "" for none."""
    planes = [pool for pool in pools if pool.is_control_plane and pool.count > 1]
    on_machine = Counter(vm.placement.machine for pool in planes for vm in pool.vms.values())
    count = sum(pool.count for pool in planes)
    for machine, vms in sorted(on_machine.items()):
        if vms > 1 and 2 * (count - vms) <= count:
            share = f"{vms} of the {count} control-plane VMs"
            return f" {machine} runs {share}: losing it breaks the quorum of the control plane."
    return ""


def _format_detail(pools: Sequence[LintPool], shared: dict[str, list[str]], site: LintSite) -> str:
    cluster = pools[0].cluster
    vms = sum(pool.count for pool in pools)
    schedulable_count = len(site.list_schedulable(None))
    examples = format_list(
        [f"{machine} ({format_list(sorted(set(names)), MAXIMUM_ITEMS)})" for machine, names in shared.items()],
        max_items=4,
    )
    reason = (
        f"The site has {format_count(schedulable_count, 'machine')} that accept VMs, but {cluster} has {vms} VMs."
        if vms > schedulable_count
        else "Racks are selected first. In the selected racks, no machine without a VM of this cluster had "
        "enough capacity."
    )
    return (
        f"{format_count(len(shared), 'machine runs', 'machines run')} two or more VMs of {cluster}, "
        f"which fail together: {examples}. {reason} Lower the count, or create larger clusters first."
    )
