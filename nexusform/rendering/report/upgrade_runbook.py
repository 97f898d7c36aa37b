"""Runbook of the upgrade of a cluster, for plans and `simulate kubernetes-upgrade`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nexusform.diagnostics.phrases import format_count, format_list
from nexusform.plans.maintenance import PoolNodeRecreation, Upgrade

_SECONDS_PER_MINUTE: Final = 60


def build_upgrade_runbook(upgrade: Upgrade) -> tuple[str, ...]:
    """Build the steps in order: obstacles to remove first, then every pool. Nothing for pools re-created at once."""
    if not upgrade.is_rolling:
        return ()
    return (*_build_preparation_steps(upgrade), *map(_describe_pool, upgrade.pools))


def _build_preparation_steps(upgrade: Upgrade) -> Iterator[str]:
    if upgrade.budgets:
        yield f"Let {format_list(upgrade.budgets)} allow one eviction, or drains time out."
    for pool in upgrade.blocked_pools:
        yield f"Free capacity for {pool.pool}: batch {pool.failed_batch} does not fit."
    if upgrade.single_replicas:
        yield f"Run a second replica of {format_list(upgrade.single_replicas)}, or plan for their downtime."
    for pool in upgrade.pools:
        if pool.is_lost:
            reason = f"its quorum of {pool.quorum} is lost" if pool.has_lost_quorum else "no node is up"
            yield f"Plan a maintenance window for {pool.pool}: {reason} for some time."


def _describe_pool(pool: PoolNodeRecreation) -> str:
    nodes = f"{format_count(pool.vms, 'node')} in {format_count(pool.batches, 'batch', 'batches')}"
    pace = "new nodes first" if pool.surges else f"at least {pool.minimum_up:,} up"
    minutes = -(-pool.drain_timeout // _SECONDS_PER_MINUTE)
    drains = "" if pool.is_control_plane else f", each drain up to {format_count(minutes, 'minute')}"
    return f"Azure upgrades {pool.pool}: {nodes}, {pace}{drains}."
