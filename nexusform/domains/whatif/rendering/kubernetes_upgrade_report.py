"""Report of `simulate kubernetes-upgrade`, as text and as data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from nexusform.diagnostics.phrases import format_count, format_list
from nexusform.domains.whatif.questions.kubernetes_upgrade import KubernetesUpgrade, NodeUpgradeBatch, PoolUpgrade
from nexusform.json_data.record_forms import RecordForm
from nexusform.rendering.answers.explanation_text import REPLACEMENT_FORM, format_short_location
from nexusform.rendering.notation.sample_text import build_sampled_capacity, describe_sampled_capacity
from nexusform.rendering.report.report_tree import Report, Row, Section, Table
from nexusform.snapshots.availability import VmReplacement


def build_kubernetes_upgrade_report(upgrade: KubernetesUpgrade, origin: str) -> Report:
    """Build the report: summary, pools, and every batch."""
    version = f", now {upgrade.version}" if upgrade.version else ""
    rows = tuple(_build_pool_row(pool) for pool in upgrade.pools if pool.count)
    heads = ("pool", "SKU", "VMs", "at once", "min up", "verdict")
    pool_section = Section("Pools", table=Table(heads, rows, frozenset({2})), is_finding=upgrade.has_findings)
    sections = [pool_section]
    sections += [_build_blocked_section(pool) for pool in upgrade.pools if pool.is_blocked]
    sections += [_build_batch_section(pool) for pool in upgrade.pools if pool.batches]
    return Report(
        f"Kubernetes upgrade of {upgrade.cluster_id}{version} ({origin})",
        _build_summary(upgrade),
        upgrade.has_findings,
        tuple(_describe_upgrade(upgrade)),
        tuple(sections),
    )


def _build_summary(upgrade: KubernetesUpgrade) -> str:
    """Build the summary: success, or the blocker."""
    samples = upgrade.samples
    if samples is not None and 0 < samples.numa_sampling.fitting_count < samples.numa_sampling.sample_count:
        pairs = zip(upgrade.pools, samples.pools, strict=True)
        names = format_list(pool.pool for pool, missing in pairs if missing.maximum)
        return (
            f"The upgrade fits in {samples.numa_sampling.fitting_count:,} of "
            f"{samples.numa_sampling.sample_count:,} samples (NUMA use unknown); the others have no "
            f"surge capacity for {names}."
        )
    if upgrade.blocked_pools:
        names = format_list(pool.pool for pool in upgrade.blocked_pools)
        return f"The upgrade does not fit: no surge capacity for {names}."
    course = upgrade.build_course()
    if course.budgets:
        return f"The upgrade is blocked: {format_list(course.budgets)} allows no eviction, so drains time out."
    if course.lost_pools:
        return f"The upgrade fits, but no node of {format_list(course.lost_pools)} is up."
    return "The upgrade fits: every batch has surge capacity."


def _describe_upgrade(upgrade: KubernetesUpgrade) -> Iterable[str]:
    """Build sentences about the upgrade."""
    yield (
        "The control plane is upgraded first, one node at a time, then the pools. New VMs of a batch "
        "are placed before the old ones are deleted."
    )
    timeouts = sorted({pool.drain_timeout for pool in upgrade.pools if not pool.is_control_plane})
    if timeouts:
        seconds = format_list(f"{timeout:,}" for timeout in timeouts)
        yield f"Each old node is drained first, for at most {seconds} seconds."
    if upgrade.samples is not None:
        yield f"NUMA cells: {describe_sampled_capacity(upgrade.samples)}"
    if upgrade.blocked_pools:
        yield ("Azure stops an upgrade without capacity for a surge VM. Later batches are simulated anyway.")


def _build_pool_row(pool: PoolUpgrade) -> Row:
    course = pool.course
    up = f"{course.minimum_up} of {pool.count}"
    # Describe the result for a pool.
    if pool.is_blocked:
        result = f"blocked in batch {pool.batches[-1].number}"
    elif course.has_lost_quorum:
        result = f"quorum lost (needs {course.quorum})"
    else:
        result = "no node up" if course.is_lost else "fits"
    cells = (pool.pool, pool.sku, str(pool.count), _format_surge(pool), up, result)
    return Row(cells, pool.is_blocked or course.is_lost)


def _format_surge(pool: PoolUpgrade) -> str:
    """Format the surge or unavailability of a pool: `+2 (surge 10%)`, `-1`."""
    if pool.surge:
        return f"+{pool.surge} (surge {pool.max_surge})" if "%" in pool.max_surge else f"+{pool.surge}"
    configured = pool.max_unavailable
    return f"-{pool.unavailable} (unavailable {configured})" if "%" in configured else f"-{pool.unavailable}"


def _build_blocked_section(pool: PoolUpgrade) -> Section:
    """Build the section of a batch without capacity, with suggested fixes."""
    batch = pool.batches[-1]
    missing = [move.vm.name for move in batch.moves if move.placement is None]
    prefix = f"Batch {batch.number} of {pool.pool} ({_format_surge(pool)})"
    line = f"{prefix} has no capacity for {format_list(missing)}. {pool.reason}"
    return Section(f"What blocks {pool.pool}", (line, *_suggest_fixes(pool)), is_finding=True)


def _suggest_fixes(pool: PoolUpgrade) -> Iterable[str]:
    """Suggest fixes for a blocked pool."""
    if pool.fitting_surge:
        yield f'max_surge = "{pool.fitting_surge}" fits for every batch.'
    if pool.fits_in_place:
        yield (
            'max_surge = "0" with max_unavailable = "1" fits: the old VM is deleted first, so one '
            "node less is up per batch."
        )
    if pool.is_control_plane:
        yield f"Free a cell for one more {pool.sku}; a control plane always surges by one."
    elif not pool.fitting_surge and not pool.fits_in_place:
        yield "Tested smaller surges, and max_surge 0 with max_unavailable 1: none fits."


def _build_batch_section(pool: PoolUpgrade) -> Section:
    """Build the section of a pool: one row per node with current and new machine."""
    rows: list[Row] = []
    for batch in pool.batches:
        rows += [_build_move_row(batch, move) for move in batch.moves]
    heads = ("batch", "node", "runs on", "new VM on")
    title = f"{pool.pool}: {format_count(len(pool.batches), 'batch', 'batches')}"
    return Section(title, table=Table(heads, tuple(rows), frozenset({0})), is_folded=True, is_finding=pool.is_blocked)


def _build_move_row(batch: NodeUpgradeBatch, move: VmReplacement) -> Row:
    location_text = format_short_location(move.placement) if move.placement is not None else "no capacity"
    return Row(
        (str(batch.number), move.vm.name, format_short_location(move.vm.placement), location_text), not batch.fits
    )


_BATCH: Final = RecordForm(NodeUpgradeBatch, "batch=number up fits nodes=moves", nodes=REPLACEMENT_FORM)
_POOL: Final = RecordForm(
    PoolUpgrade,
    "pool vm_sku_name=sku vms=count max_surge max_unavailable surge unavailable drain_timeout "
    "fewest_up=course.minimum_up "
    "blocked=is_blocked reason? fitting_surge? fits_in_place availability_lost=course.is_lost batches",
    batches=_BATCH,
)


def _has_surge_capacity(upgrade: KubernetesUpgrade) -> bool:
    return not upgrade.blocked_pools


# Upgrade as JSON data.
KUBERNETES_UPGRADE: Final = RecordForm(
    KubernetesUpgrade,
    "cluster_id site_id kubernetes_version=version? fits=. blocking_budgets=disruptions.budgets pools samples",
    fits=_has_surge_capacity,
    pools=_POOL,
    samples=build_sampled_capacity,
)
