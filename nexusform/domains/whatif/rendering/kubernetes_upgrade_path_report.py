"""Report of `simulate kubernetes-upgrade -to=V`, as text and as data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from nexusform.diagnostics.phrases import format_count, format_list, select_word_form
from nexusform.domains.whatif.questions.kubernetes_upgrade_path import ClusterHops, ClusterUpgradeHop, SiteUpgradePath
from nexusform.domains.whatif.rendering.kubernetes_upgrade_report import KUBERNETES_UPGRADE
from nexusform.json_data.record_forms import RecordForm
from nexusform.kubernetes.releases.kubernetes_versions import SOURCE
from nexusform.rendering.report.report_tree import Report, Row, Section, Table
from nexusform.rendering.report.upgrade_sentences import build_upgrade_runbook


def build_upgrade_path_report(path: SiteUpgradePath, origin: str) -> Report:
    """Build the report: summary, then the hops of every cluster in order."""
    names = format_list(cluster.cluster for cluster in path.clusters)
    return Report(
        f"Kubernetes {path.target} for {names} on {path.site_id} ({origin})",
        _build_summary(path),
        path.has_findings,
        tuple(_describe_order_and_versions(path)),
        tuple(_build_cluster_section(cluster) for cluster in path.clusters),
    )


def _build_summary(path: SiteUpgradePath) -> str:
    hops = [hop for cluster in path.clusters for hop in cluster.hops]
    if not hops:
        return "Nothing to do: already at this version."
    blocked = [(cluster, hop) for cluster in path.clusters for hop in cluster.hops if not hop.has_surge_capacity]
    if blocked:
        cluster, hop = blocked[0]
        pools = format_list(pool.pool for pool in hop.upgrade.blocked_pools)
        reason = f"no surge capacity for {pools}" if pools else "surge capacity in some samples only"
        return f"The upgrade does not fit: {cluster.cluster} stops at {hop.start} -> {hop.end}, {reason}."
    if path.has_findings:
        count = sum(hop.has_findings for hop in hops)
        verb = select_word_form(count, "takes", "take")
        return f"Every surge fits, but {format_count(count, 'hop')} {verb} workload down."
    return f"The upgrade fits in {format_count(len(hops), 'hop')}: every surge fits."


def _describe_order_and_versions(path: SiteUpgradePath) -> Iterable[str]:
    """Build sentences about order and versions."""
    yield "Minor versions cannot be skipped. Each hop starts from the result of the previous one."
    if len(path.clusters) > 1:
        order = ", ".join(cluster.cluster for cluster in path.clusters)
        if all(cluster.fits for cluster in path.clusters):
            yield f"Every surge fits in this order: {order}."
        else:
            orders_text = "each order" if path.is_exhaustive else f"{path.tried_orders} orders"
            yield f"No tested order fits every surge ({orders_text} tested); shown in the given order: {order}."
    hops = [hop for cluster in path.clusters for hop in cluster.hops]
    if any(hop.supported_until for hop in hops):
        yield "End-of-support dates by day: from the site's kubernetesVersions catalog."
    if not all(hop.supported_until for hop in hops):
        yield f"End-of-support dates by month: {SOURCE}, with long-term support."
    if hops and hops[0].available_versions is None:
        yield "The site's Kubernetes versions were not captured."


def _build_cluster_section(cluster: ClusterHops) -> Section:
    """Build the section of a cluster: one row per hop, and its findings."""
    rows = tuple(_build_hop_row(hop) for hop in cluster.hops)
    heads = ("from", "to", "surge", "batches", "drains, hours", "end of support")
    table = Table(heads, rows, frozenset({3, 4}))
    lines = tuple(line for hop in cluster.hops for line in _describe_hop_problems(hop))
    return Section(f"{cluster.cluster}", lines, table=table, is_finding=cluster.has_findings)


def _build_hop_row(hop: ClusterUpgradeHop) -> Row:
    cells = (
        hop.start,
        str(hop.end),
        "fits" if hop.has_surge_capacity else "no capacity",
        f"{hop.batch_count:,}",
        f"up to {hop.course.drain_hours:.1f}",
        hop.end_of_support or "not known",
    )
    return Row(cells, hop.has_findings)


def _describe_hop_problems(hop: ClusterUpgradeHop) -> Iterable[str]:
    """Describe losses and blockers of a hop."""
    prefix = f"{hop.start} -> {hop.end}: "
    for pool in hop.upgrade.blocked_pools:
        yield f"{prefix}{pool.pool}: {pool.reason}"
    course = hop.course
    if course.budgets:
        yield f"{prefix}{format_list(course.budgets)} allows no eviction, so drains time out."
    if course.lost_pools:
        yield f"{prefix}no node (or no quorum) of {format_list(course.lost_pools)} is up meanwhile."
    if course.single_replicas:
        names = format_list(course.single_replicas, 5)
        yield f"{prefix}down while their node is drained, with one replica: {names}."
    if hop.available_versions:
        yield f"{prefix}the site has {format_list(hop.available_versions, 4)}."
    if hop.needs_intermediate_bundle:
        yield f"{prefix}etcd 3.5 to 3.6 is likely to fail: upgrade to a version bundle of 4.4 or 4.5 first."


def _get_support_source(hop: ClusterUpgradeHop) -> str | None:
    """Return the source of the end of support: "site", "list" or None."""
    if hop.supported_until:
        return "site"
    return "list" if hop.end_of_support else None


_HOP: Final = RecordForm(
    ClusterUpgradeHop,
    "from=start to=end surge_fits=has_surge_capacity batches=batch_count drain_hours=course.drain_hours end_of_support "
    "end_of_support_told_by=. offered=available_versions blocking_budgets=course.budgets lost=course.lost_pools "
    "single_replicas=course.single_replicas runbook=. needs_a_bundle_between=needs_intermediate_bundle upgrade",
    to=str,
    drain_hours=lambda hours: round(hours, 3),
    runbook=lambda hop: list(build_upgrade_runbook(hop.course)),
    end_of_support_told_by=_get_support_source,
    upgrade=KUBERNETES_UPGRADE,
)
_PATH: Final = RecordForm(
    SiteUpgradePath,
    "site_id to=target orders_tried=tried_orders clusters",
    to=str,
    clusters=RecordForm(ClusterHops, "cluster_id hops", hops=_HOP),
)


def build_upgrade_path_document(path: SiteUpgradePath) -> dict[str, Any]:
    """Build the hops as JSON data."""
    return {**_PATH(path), "end_of_support_source": SOURCE}
