"""Report of `simulate kubernetes-upgrade`, also of `-to=V`, as text and as data."""

from collections.abc import Collection, Iterable

from nexusform.diagnostics.phrases import enclose, format_count, format_list, select_word_form
from nexusform.domains.whatif.questions.kubernetes_upgrade import KubernetesUpgrade, PoolUpgrade
from nexusform.domains.whatif.questions.kubernetes_upgrade_path import (
    ClusterHops,
    ClusterUpgradeHop,
    SiteUpgradePath,
)
from nexusform.kubernetes.releases.kubernetes_versions import SOURCE
from nexusform.placement_kinds.vm_kind import format_short_location
from nexusform.rendering.notation.sample_text import describe_sampled_capacity
from nexusform.rendering.report.report_tree import Report, Row, Section, Table


def build_kubernetes_upgrade_report(upgrade: KubernetesUpgrade, origin: str) -> Report:
    """Build the report: summary, pools, blocked batches with fixes, and every batch."""
    version = enclose(", now ", upgrade.version)
    # Without empty pools.
    rows = tuple(_build_pool_row(pool) for pool in upgrade.pools if pool.course.count)
    heads = ("pool", "SKU", "VMs", "at once", "min up", "verdict")
    table = Table(heads, rows, number_columns=frozenset({2, 4}))
    sections = [Section("Pools", table=table, is_finding=upgrade.has_findings, name="pools")]
    sections += [_build_blocked_section(pool) for pool in upgrade.pools if pool.is_blocked]
    sections += [_build_batch_section(pool) for pool in upgrade.pools if pool.batches]
    return Report(
        title=f"Kubernetes upgrade of {upgrade.cluster_id}{version} ({origin})",
        verdict=_build_summary(upgrade),
        is_finding=upgrade.has_findings,
        facts=tuple(_describe_upgrade(upgrade)),
        sections=tuple(sections),
    )


def _build_summary(upgrade: KubernetesUpgrade) -> str:
    """Build the summary: the first problem, else success.

    The upgrade may fit in some samples of NUMA cells only.
    """
    samples = upgrade.samples
    if (
        samples is not None
        and 0 < samples.numa_sampling.fitting_count < samples.numa_sampling.sample_count
    ):
        pools_with_missing_vms = zip(upgrade.pools, samples.pools, strict=True)
        names = format_list(
            pool.course.pool for pool, missing_vms in pools_with_missing_vms if missing_vms.maximum
        )
        return (
            f"The upgrade fits in {samples.numa_sampling.fitting_count:,} of "
            f"{samples.numa_sampling.sample_count:,} samples (NUMA use unknown); the others have "
            f"no surge capacity for {names}."
        )
    if upgrade.blocked_pools:
        names = format_list(pool.course.pool for pool in upgrade.blocked_pools)
        return f"The upgrade does not fit: no surge capacity for {names}."
    course = upgrade.course
    if course.budgets:
        return f"The upgrade is blocked: {_describe_blocking_budgets(course.budgets)}"
    if course.lost_pools:
        return f"The upgrade fits, but no node of {format_list(course.lost_pools)} is up."
    return "The upgrade fits: every batch has the surge capacity it needs."


def _describe_upgrade(upgrade: KubernetesUpgrade) -> Iterable[str]:
    """Build sentences about the upgrade."""
    yield (
        "The control plane is upgraded first, one node at a time, then the pools. Surge VMs of a "
        "batch are placed before the old ones are deleted."
    )
    courses = [pool.course for pool in upgrade.pools]
    timeouts = sorted({course.drain_timeout for course in courses if not course.is_control_plane})
    if timeouts:
        seconds = format_list(f"{timeout:,}" for timeout in timeouts)
        yield f"Each old node is drained first, for at most {seconds} seconds."
    if upgrade.samples is not None:
        yield f"NUMA cells: {describe_sampled_capacity(upgrade.samples)}"
    if upgrade.blocked_pools:
        yield (
            "Azure stops an upgrade without capacity for a surge VM. Later pools are simulated "
            "anyway."
        )


def _build_pool_row(pool: PoolUpgrade) -> Row:
    """Build the row of a pool: SKU, VMs, VMs replaced at once, fewest VMs up, and the result."""
    course = pool.course
    if pool.is_blocked:
        result = f"blocked in batch {pool.batches[-1].number}"
    elif course.has_lost_quorum:
        result = f"quorum lost (needs {course.quorum})"
    else:
        result = "no node up" if course.is_lost else "fits"
    counts = (f"{course.count:,}", _format_surge(pool), f"{course.minimum_up:,}")
    cells = (course.pool, course.sku, *counts, result)
    # The pool loses its quorum, or every node.
    return Row(cells, is_finding=pool.is_blocked or course.is_lost)


def _format_surge(pool: PoolUpgrade) -> str:
    """Format the VMs replaced at once.

    Examples are `+2` (new ones first), `-1` (old ones deleted first) and `+2 (surge 10%)`.
    """
    text = f"-{pool.unavailable}"
    name = "unavailable"
    configured = pool.max_unavailable
    if pool.surge:
        text = f"+{pool.surge}"
        name = "surge"
        configured = pool.max_surge
    return f"{text} ({name} {configured})" if "%" in configured else text


def _build_blocked_section(pool: PoolUpgrade) -> Section:
    """Build the section of a batch without capacity, with suggested fixes."""
    batch = pool.batches[-1]
    course = pool.course
    prefix = f"Batch {batch.number} of {course.pool} ({_format_surge(pool)})"
    line = f"{prefix} has no capacity for {format_list(batch.missing_names)}. {course.reason}"
    lines = (line, *_suggest_fixes(pool))
    return Section(f"What blocks {course.pool}", lines, is_finding=True, name="blocked")


def _suggest_fixes(pool: PoolUpgrade) -> Iterable[str]:
    """Suggest fixes for a blocked pool."""
    if pool.fitting_surge:
        yield f'max_surge = "{pool.fitting_surge}" fits for every batch.'
    if pool.fits_in_place:
        yield (
            'max_surge = "0" with max_unavailable = "1" fits: the old VM is deleted first, so one '
            "node less is up per batch."
        )
    if pool.course.is_control_plane:
        yield f"Free a cell for one more {pool.course.sku}; a control plane always surges by one."
    elif not pool.fitting_surge and not pool.fits_in_place:
        yield "Tested smaller surges, and max_surge 0 with max_unavailable 1: none fits."


def _build_batch_section(pool: PoolUpgrade) -> Section:
    """Build the section of a pool: one row per node with current and new machine."""
    rows: list[Row] = []
    for batch in pool.batches:
        for move in batch.moves:
            location_text = (
                format_short_location(move.placement)
                if move.placement is not None
                else "no capacity"
            )
            cells = (
                str(batch.number),
                f"{batch.up:,}",
                move.vm.name,
                format_short_location(move.vm.placement),
                location_text,
            )
            rows.append(Row(cells, is_finding=not batch.fits))
    heads = ("batch", "up", "node", "runs on", "new VM on")
    title = f"{pool.course.pool}: {format_count(len(pool.batches), 'batch', 'batches')}"
    table = Table(heads, tuple(rows), number_columns=frozenset({0, 1}))
    return Section(title, table=table, is_folded=True, is_finding=pool.is_blocked, name="batches")


def build_upgrade_path_report(path: SiteUpgradePath, origin: str) -> Report:
    """Build the report: summary, then the hops of every cluster in order."""
    names = format_list(cluster.cluster for cluster in path.clusters)
    return Report(
        title=f"Kubernetes {path.target} for {names} on {path.site_id} ({origin})",
        verdict=_build_path_summary(path),
        is_finding=path.has_findings,
        facts=tuple(_describe_order_and_versions(path)),
        sections=tuple(map(_build_cluster_section, path.clusters)),
    )


def _build_path_summary(path: SiteUpgradePath) -> str:
    """Build the summary: nothing to do, the first hop that may not end, losses, or success."""
    hops = path.list_hops()
    if not hops:
        return "Nothing to do: already at this version."
    for cluster, hop in hops:
        if not hop.has_surge_capacity:
            pools = format_list(pool.course.pool for pool in hop.upgrade.blocked_pools)
            reason = (
                f"no surge capacity for {pools}" if pools else "surge capacity in some samples only"
            )
            return (
                f"The upgrade does not fit: {cluster.cluster} stops at {hop.start} -> {hop.end}, "
                f"{reason}."
            )
    for cluster, hop in hops:
        obstacle = "it needs another version bundle first." if hop.needs_intermediate_bundle else ""
        if hop.course.budgets:
            obstacle = _describe_blocking_budgets(hop.course.budgets)
        if obstacle:
            return (
                f"Every surge fits, but {cluster.cluster} may stop at {hop.start} -> {hop.end}: "
                f"{obstacle}"
            )
    count = sum(bool(hop.course.lost_pools) for _, hop in hops)
    if count:
        verb = select_word_form(count, "takes", "take")
        return f"Every surge fits, but {format_count(count, 'hop')} {verb} workload down."
    return f"The upgrade fits in {format_count(len(hops), 'hop')}: every surge fits."


def _describe_blocking_budgets(budgets: Collection[str]) -> str:
    """Describe PodDisruptionBudgets that block drains."""
    verb = select_word_form(len(budgets), "allows", "allow")
    return f"{format_list(budgets)} {verb} no eviction, so drains time out."


def _describe_order_and_versions(path: SiteUpgradePath) -> Iterable[str]:
    """Build sentences about order and versions."""
    yield "Minor versions cannot be skipped. Each hop starts from the result of the previous one."
    if len(path.clusters) > 1:
        order = ", ".join(cluster.cluster for cluster in path.clusters)
        orders_text = "each order" if path.is_exhaustive else f"{path.tried_orders} orders"
        if all(cluster.fits for cluster in path.clusters):
            yield f"Every surge fits in this order: {order}."
        else:
            yield (
                f"No tested order fits every surge ({orders_text} tested); shown in the given "
                f"order: {order}."
            )
    hops = [hop for _, hop in path.list_hops()]
    # "": not reported by the site.
    ends_of_support = {hop.supported_until for hop in hops}
    if ends_of_support - {""}:
        yield "End-of-support dates by day: from the site's kubernetesVersions catalog."
    if "" in ends_of_support:
        yield f"End-of-support dates by month: {SOURCE}, with long-term support."
    if hops and hops[0].available_versions is None:
        yield "The site's Kubernetes versions were not captured."


def _build_cluster_section(cluster: ClusterHops) -> Section:
    """Build the section of a cluster: one row per hop, and its findings."""
    rows: list[Row] = []
    lines: list[str] = []
    for hop in cluster.hops:
        surge_text = "fits" if hop.has_surge_capacity else "no capacity"
        drain_text = f"up to {hop.course.drain_hours:.1f}"
        end_of_support = hop.end_of_support or "not known"
        cells = (
            hop.start,
            str(hop.end),
            surge_text,
            f"{hop.batch_count:,}",
            drain_text,
            end_of_support,
        )
        rows.append(Row(cells, is_finding=hop.has_findings))
        lines += _describe_hop_losses_and_blockers(hop)
    heads = ("from", "to", "surge", "batches", "drains, hours", "end of support")
    table = Table(heads, tuple(rows), number_columns=frozenset({3, 4}))
    return Section(
        cluster.cluster, tuple(lines), table=table, is_finding=cluster.has_findings, name="hops"
    )


def _describe_hop_losses_and_blockers(hop: ClusterUpgradeHop) -> Iterable[str]:
    """Describe a hop (one upgrade).

    The texts are about blockers by capacity or budgets, losses, and problems of its version.
    """
    prefix = f"{hop.start} -> {hop.end}: "
    for pool in hop.upgrade.blocked_pools:
        yield f"{prefix}{pool.course.pool}: {pool.course.reason}"
    course = hop.course
    if course.budgets:
        yield f"{prefix}{_describe_blocking_budgets(course.budgets)}"
    if course.lost_pools:
        yield f"{prefix}no node (or no quorum) of {format_list(course.lost_pools)} is up meanwhile."
    if course.single_replicas:
        names = format_list(course.single_replicas, 5)
        yield f"{prefix}down while their node is drained, with one replica: {names}."
    if hop.available_versions:
        # Versions matching the target.
        yield f"{prefix}the site has {format_list(hop.available_versions, 4)}."
    if hop.needs_intermediate_bundle:
        yield (
            f"{prefix}etcd 3.5 to 3.6 is likely to fail: upgrade to a version bundle of 4.4 or 4.5 "
            "first."
        )
