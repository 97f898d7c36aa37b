"""The answer to `simulate kubernetes-upgrade -to=V`, for people and as data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from nexusform.domains.whatif.questions.kubernetes_upgrade_hops import ClusterHops, Hop, UpgradePath
from nexusform.domains.whatif.questions.kubernetes_versions import SOURCE
from nexusform.domains.whatif.rendering.kubernetes_upgrade_outline import KUBERNETES_UPGRADE
from nexusform.json_forms import Form
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.words import counted, form, listed


def upgrade_path_outline(path: UpgradePath, origin: str) -> Outline:
    """The verdict, then the hops of every cluster in order."""
    names = listed(cluster.cluster for cluster in path.clusters)
    return Outline(
        f"Kubernetes {path.target} for {names} on {path.site_id} ({origin})",
        _verdict(path),
        path.bad,
        tuple(_facts(path)),
        tuple(_hops(cluster) for cluster in path.clusters),
    )


def _verdict(path: UpgradePath) -> str:
    hops = [hop for cluster in path.clusters for hop in cluster.hops]
    if not hops:
        return "Nothing to do: that is the version now."
    blocked = [(cluster, hop) for cluster in path.clusters for hop in cluster.hops if not hop.surge_fits]
    if blocked:
        cluster, hop = blocked[0]
        pools = listed(pool.pool for pool in hop.upgrade.blocked)
        no_room = f"no room for the surge of {pools}" if pools else "room for the surge in some draws only"
        return f"It does not go through: {cluster.cluster} stops at {hop.start} -> {hop.end}, {no_room}."
    missing = [hop for hop in hops if hop.not_offered]
    if missing:
        return f"It does not go through: the site has no version {missing[0].end}."
    if path.bad:
        bad = sum(hop.bad for hop in hops)
        return f"Every surge fits, but {counted(bad, 'hop')} {form(bad, 'takes', 'take')} something down."
    return f"It goes through in {counted(len(hops), 'hop')}: every surge fits."


def _facts(path: UpgradePath) -> Iterable[str]:
    """How it goes, and what is known of versions."""
    yield "No minor version may be skipped; each hop starts from where the one before leaves the VMs."
    if len(path.clusters) > 1:
        order = ", ".join(cluster.cluster for cluster in path.clusters)
        fits = all(hop.surge_fits for cluster in path.clusters for hop in cluster.hops)
        if fits:
            yield f"In this order every surge fits: {order}."
        else:
            which = "each order" if path.all_tried else f"{path.tried} orders"
            yield f"In no order does every surge fit ({which} tried); shown as asked: {order}."
    hops = [hop for cluster in path.clusters for hop in cluster.hops]
    if any(hop.supported_until for hop in hops):
        yield "Ends of support by the day: as the site's catalog kubernetesVersions tells them."
    if not all(hop.supported_until for hop in hops):
        yield f"Ends of support by the month: {SOURCE}; long-term support counts."
    if hops and hops[0].offered is None:
        yield "Which versions the site has was not captured."


def _hops(cluster: ClusterHops) -> Section:
    """A row per hop, and what breaks."""
    rows = tuple(_row(hop) for hop in cluster.hops)
    heads = ("from", "to", "surge", "batches", "drains, hours", "support of it ends")
    table = Table(heads, rows, frozenset({3, 4}))
    lines = tuple(line for hop in cluster.hops for line in _breaks(hop))
    return Section(f"{cluster.cluster}", lines, table=table, bad=cluster.bad)


def _row(hop: Hop) -> Row:
    cells = (
        hop.start,
        str(hop.end),
        "fits" if hop.surge_fits else "no room",
        f"{hop.batches:,}",
        f"up to {hop.drain_hours:.1f}",
        hop.end_of_support or "not known",
    )
    return Row(cells, hop.bad)


def _breaks(hop: Hop) -> Iterable[str]:
    """What a hop takes down, and what stops it."""
    front = f"{hop.start} -> {hop.end}: "
    for pool in hop.upgrade.blocked:
        yield f"{front}{pool.pool}: {pool.reason}"
    if hop.upgrade.budgets:
        yield f"{front}{listed(hop.upgrade.budgets)} lets no pod be evicted, so drains time out."
    if hop.lost:
        yield f"{front}nothing of {listed(hop.lost)} is up (or no quorum) meanwhile."
    if hop.single:
        yield f"{front}down while their node is drained, with one replica: {listed(hop.single, 5)}."
    if hop.not_offered:
        yield f"{front}the site has no {hop.end}: the platform refuses it."
    elif hop.offered:
        yield f"{front}the site has {listed(hop.offered, 4)}."
    if hop.needs_a_bundle_between:
        yield f"{front}etcd 3.5 to 3.6 is likely to fail: go by a version bundle of 4.4 or 4.5 first."


def _hours(hours: float) -> float:
    return round(hours, 3)


def _told_by(hop: Hop) -> str | None:
    """Who says when support ends: the site, or Microsoft's list."""
    if hop.supported_until:
        return "site"
    return "list" if hop.end_of_support else None


_HOP: Final = Form(
    Hop,
    "from=start to=end surge_fits batches drain_hours end_of_support "
    "end_of_support_told_by=. offered blocking_budgets=upgrade.budgets lost "
    "single_replicas=single needs_a_bundle_between upgrade",
    to=str,
    drain_hours=_hours,
    end_of_support_told_by=_told_by,
    upgrade=KUBERNETES_UPGRADE,
)
_PATH: Final = Form(
    UpgradePath,
    "site_id to=target orders_tried=tried clusters",
    to=str,
    clusters=Form(ClusterHops, "cluster_id hops", hops=_HOP),
)


def upgrade_path_document(path: UpgradePath) -> dict[str, Any]:
    """The hops as JSON data."""
    return {**_PATH(path), "end_of_support_source": SOURCE}
