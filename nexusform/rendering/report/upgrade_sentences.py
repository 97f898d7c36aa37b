"""Sentences about cluster upgrades: feasibility, batches, disruptions and the runbook."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from nexusform.diagnostics.name_ranges import format_names
from nexusform.diagnostics.phrases import (
    enclose,
    format_count,
    format_first_items,
    format_list,
    group_by,
    join_texts,
    select_word_form,
)
from nexusform.plans.impact.object_effects import build_cluster_formatter
from nexusform.plans.maintenance import PoolNodeRecreation, Upgrade

_MAX_NAMES: Final = 4
_MAX_TITLE_NAMES: Final = 2
_SECONDS_PER_MINUTE: Final = 60


def describe_upgrades(upgrades: Sequence[Upgrade]) -> list[str]:
    """Return clauses about upgraded clusters.

    Each blocked upgrade has a clause. The other rolling upgrades have one per new version. Each
    cluster with re-created nodes but no new version has one. Of many blocked or re-created clusters
    return only their number.
    """
    format_cluster = build_cluster_formatter(upgrades)
    # A blocked upgrade is known to stop halfway: at a budget without evictions, or for
    # lack of capacity.
    by_state = group_by(
        upgrades, lambda row: row.is_rolling and bool(row.budgets or row.blocked_pools)
    )
    blocked = by_state.get(True, [])
    # `the upgrade of amf to 1.30.5 is blocked`
    clauses = [
        f"the upgrade of {format_cluster(row)} to {row.after} {_format_verdict(row)}"
        for row in blocked
    ]
    if len(blocked) > _MAX_TITLE_NAMES:
        clauses = [f"the upgrades of {len(blocked):,} clusters cannot complete"]
    unblocked = by_state.get(False, [])
    by_version = group_by(unblocked, lambda upgrade: upgrade.after if upgrade.is_rolling else "")
    # Of nodes, without a new version.
    recreations = by_version.pop("", [])
    for version, version_upgrades in by_version.items():
        names = list(dict.fromkeys(map(format_cluster, version_upgrades)))
        count = len(names)
        cluster_text = (
            format_list(names) if count <= _MAX_TITLE_NAMES else format_count(count, "cluster")
        )
        clauses.append(
            f"{cluster_text} {select_word_form(count, 'is', 'are')} upgraded to {version}"
        )
    if len(recreations) <= _MAX_TITLE_NAMES:
        for upgrade in recreations:
            verb = select_word_form(upgrade.vms, "is", "are")
            clauses.append(
                f"{format_count(upgrade.vms, 'node')} of {format_cluster(upgrade)} {verb} "
                "re-created"
            )
        return clauses
    nodes = format_count(sum(upgrade.vms for upgrade in recreations), "node")
    clusters = {(upgrade.site_id, upgrade.cluster) for upgrade in recreations}
    return [*clauses, f"{nodes} of {format_count(len(clusters), 'cluster')} are re-created"]


def fold_upgrades(upgrades: Sequence[Upgrade]) -> list[list[Upgrade]]:
    """Group upgrades that differ in the name of their cluster only."""
    groups = group_by(
        upgrades,
        lambda upgrade: (upgrade.is_rolling, describe_upgrade_course(upgrade), upgrade.pools),
    )
    return list(groups.values())


def build_upgrade_notes(upgrades: Sequence[Upgrade]) -> Iterator[tuple[str, str]]:
    """Yield the heading and the sentences of each upgrade, or of several equal ones."""
    format_cluster = build_cluster_formatter(upgrades)
    for equal_upgrades in fold_upgrades(upgrades):
        first_upgrade = equal_upgrades[0]
        names = format_names(map(format_cluster, equal_upgrades))
        scope = ", each" if len(equal_upgrades) > 1 else ""
        heading = f"{'Upgrade of' if first_upgrade.is_rolling else 'Re-creation in'} {names}{scope}"
        yield heading, describe_upgrade_course(first_upgrade)


def describe_upgrade_course(upgrade: Upgrade) -> str:
    """Return sentences about an upgrade: batches, blocking budgets, and single replicas.

    Single replicas are workloads without a second replica.
    """
    sentences = [
        _describe_rolling_upgrade(upgrade)
        if upgrade.is_rolling
        else _describe_pool_recreation(upgrade)
    ]
    noun = select_word_form(len(upgrade.budgets), "Budget")
    sentences.append(
        enclose(
            f"{noun} ", format_first_items(upgrade.budgets, _MAX_NAMES), ": no pod may be evicted."
        )
    )
    single = "is down while its only pod moves"
    plural = "are down while their only pods move"
    verb = select_word_form(len(upgrade.single_replicas), single, plural)
    sentences.append(
        enclose("", format_first_items(upgrade.single_replicas, _MAX_NAMES), f" {verb}.")
    )
    return join_texts(sentences, " ")


def _describe_rolling_upgrade(upgrade: Upgrade) -> str:
    """Return the hop of an upgrade and its verdict.

    An example is `1.29.4 -> 1.30.1 fits: 9 nodes in 3 batches, ...`, or `to 1.30.1 ...` if the old
    version is unknown. At the end is the largest surge if all pools surge, else the nodes down and
    up of each pool without surge.
    """
    after = upgrade.after or "no version"
    versions = f"{upgrade.before} -> {after}" if upgrade.before else f"to {after}"
    batches = sum(pool.batches for pool in upgrade.pools)
    nodes = f"{format_count(upgrade.vms, 'node')} in {format_count(batches, 'batch', 'batches')}"
    pools_without_surge = [pool for pool in upgrade.pools if not pool.surges]
    if pools_without_surge:
        availability = "; ".join(
            (
                f"{pool.pool}: at most {pool.concurrent_vms:,} down at a time, at least "
                f"{pool.minimum_up:,} up"
            )
            for pool in pools_without_surge[:_MAX_NAMES]
        )
    else:
        maximum_surge = max((pool.concurrent_vms for pool in upgrade.pools), default=0)
        availability = f"max surge {maximum_surge:,}, capacity never drops"
    return f"{versions} {_format_verdict(upgrade)}: {nodes}, {availability}."


def _describe_pool_recreation(upgrade: Upgrade) -> str:
    """Return a clause per re-created pool, and the trigger.

    An example is `pool2: all 24 nodes are down at once (sku_changed).` A clause has the remaining
    nodes, and a lack of capacity.
    """
    pools = []
    for pool in upgrade.pools:
        node_text = f"all {format_count(pool.vms, 'node')}" if pool.vms > 1 else "its node"
        remaining_note = f", {format_count(pool.minimum_up, 'other')} up" if pool.minimum_up else ""
        blocked_note = ", and capacity is too low for all" if pool.failed_batch else ""
        verb = select_word_form(pool.vms, "is", "are")
        pools.append(f"{pool.pool}: {node_text} {verb} down at once{remaining_note}{blocked_note}")
    return f"{'; '.join(pools)} ({upgrade.trigger})."


def _format_verdict(upgrade: Upgrade) -> str:
    """Return `stops at batch 2 of pool1` without capacity for a batch.

    Otherwise return `is blocked` (by budgets), a doubt about capacity, or both. Return `fits`
    without any problem.
    """
    if upgrade.blocked_pools:
        pool = upgrade.blocked_pools[0]
        return f"stops at batch {pool.failed_batch} of {pool.pool}"
    blocked = "is blocked" if upgrade.budgets else ""
    smaller_pools = tuple(
        dict.fromkeys(chain.from_iterable(pool.scale_in_pools for pool in upgrade.pools))
    )
    selection = enclose(
        "the VMs of ", format_first_items(smaller_pools, _MAX_NAMES), " that Azure removes"
    )
    doubt = enclose("may lack surge capacity, depending on ", selection)
    return join_texts((blocked, doubt), ", and ") or "fits"


def build_upgrade_runbook(upgrade: Upgrade) -> tuple[str, ...]:
    """Build the steps of a user in order: obstacles to remove first, then every pool."""
    # All nodes are re-created at once.
    if not upgrade.is_rolling:
        return ()
    steps: list[str] = []
    if upgrade.budgets:
        steps.append(f"Let {format_list(upgrade.budgets)} allow one eviction, or drains time out.")
    steps += [
        f"Free capacity for {pool.pool}: batch {pool.failed_batch} does not fit."
        for pool in upgrade.blocked_pools
    ]
    if upgrade.single_replicas:
        names = format_list(upgrade.single_replicas)
        steps.append(f"Run a second replica of {names}, or plan for their downtime.")
    for pool in upgrade.pools:
        if pool.is_lost:
            reason = (
                f"its quorum of {pool.quorum} is lost" if pool.has_lost_quorum else "no node is up"
            )
            steps.append(f"Plan a maintenance window for {pool.pool}: {reason} for some time.")
    return (*steps, *map(_describe_pool, upgrade.pools))


def _describe_pool(pool: PoolNodeRecreation) -> str:
    """Return the step of one pool.

    An example is `Azure upgrades pool1: 9 nodes in 3 batches, new nodes first, ...`.
    """
    nodes = f"{format_count(pool.vms, 'node')} in {format_count(pool.batches, 'batch', 'batches')}"
    pace = "new nodes first" if pool.surges else f"at least {pool.minimum_up:,} up"
    minutes = -(-pool.drain_timeout // _SECONDS_PER_MINUTE)  # rounded up
    drains = (
        "" if pool.is_control_plane else f", each drain up to {format_count(minutes, 'minute')}"
    )
    return f"Azure upgrades {pool.pool}: {nodes}, {pace}{drains}."
