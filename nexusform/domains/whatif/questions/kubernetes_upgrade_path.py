"""Upgrade of clusters to a target version, hop by hop.

For several clusters of a site, an order with surge capacity for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, DiagnosticsError, build_error
from nexusform.domains.whatif.questions.kubernetes_upgrade import (
    KubernetesUpgrade,
    get_running_version,
    simulate_kubernetes_upgrade,
)
from nexusform.domains.whatif.questions.pod_outage import ClusterPods
from nexusform.kubernetes.releases.kubernetes_versions import (
    KubernetesVersion,
    OfferedVersions,
    VersionRejection,
    find_upgrade_hops,
    has_etcd_gap,
    parse_version,
    select_available_versions,
)
from nexusform.planning.hypothesis.start_points import StartPoint
from nexusform.plans.maintenance import Upgrade
from nexusform.snapshots.snapshot import (
    SiteSnapshot,
    VmOwnerSnapshot,
    build_snapshot,
    list_planned_objects,
)

_MAX_PASSES: Final = 120


class ClusterUpgradeHop(Struct, frozen=True):
    """One upgrade of one cluster.

    `available_versions` are the matching versions of the site, None if unknown. `supported_until`
    is the latest end of their support, "" if unknown.
    """

    start: str
    end: KubernetesVersion
    upgrade: KubernetesUpgrade
    needs_intermediate_bundle: bool = False
    available_versions: tuple[str, ...] | None = None
    supported_until: str = ""

    @property
    def end_of_support(self) -> str | None:
        """End of support of the target: as reported by the site, else by Microsoft's list."""
        return self.supported_until or self.end.end_of_support

    @property
    def course(self) -> Upgrade:
        """The hop as the upgrade of its plan."""
        return self.upgrade.course

    @property
    def batch_count(self) -> int:
        """Number of batches of nodes."""
        return sum(pool.batches for pool in self.course.pools)

    @property
    def has_surge_capacity(self) -> bool:
        """Whether every batch has capacity in every sample."""
        samples = self.upgrade.samples
        return not self.upgrade.blocked_pools and (samples is None or samples.is_certain)

    @property
    def has_findings(self) -> bool:
        """Whether the hop may fail, take workloads down, or need a step before it.

        The step is an intermediate version bundle.
        """
        return self.upgrade.has_findings or self.needs_intermediate_bundle


class ClusterHops(Struct, frozen=True):
    """Upgrade path of one cluster; no hops if it is at the target."""

    cluster_id: str
    cluster: str
    hops: tuple[ClusterUpgradeHop, ...]

    @property
    def fits(self) -> bool:
        """Whether every batch of every hop has capacity."""
        return all(hop.has_surge_capacity for hop in self.hops)

    @property
    def has_findings(self) -> bool:
        """Whether a hop has findings."""
        return any(hop.has_findings for hop in self.hops)


class SiteUpgradePath(Struct, frozen=True):
    """Clusters of one site in upgrade order with their hops.

    `tried_orders` is the number of prefixes of orders that were checked. With `is_exhaustive`
    all were checked.
    """

    site_id: str
    target: KubernetesVersion
    clusters: tuple[ClusterHops, ...]
    tried_orders: int = 1
    is_exhaustive: bool = True

    @property
    def has_findings(self) -> bool:
        """Whether a hop has findings."""
        return any(cluster.has_findings for cluster in self.clusters)

    def list_hops(self) -> list[tuple[ClusterHops, ClusterUpgradeHop]]:
        """Return the hops of all clusters in order, each with its cluster."""
        return [(cluster, hop) for cluster in self.clusters for hop in cluster.hops]


def find_upgrade_path(
    start: StartPoint,
    site: SiteSnapshot,
    clusters: Sequence[VmOwnerSnapshot],
    target_text: str,
    pods: Mapping[str, ClusterPods],
    today: str = "",
) -> SiteUpgradePath:
    """Find the upgrades (hops) of each cluster to a version.

    The clusters are in the first order with capacity for all, or else in the requested one. `today`
    (RFC 3339) decides if versions are still available. Raises DiagnosticsError for an invalid
    version, or for all unreachable targets at once.
    """
    target = parse_version(target_text)
    if target is None:
        detail = f'"{target_text}" is not a version. Write -to=1.31 or -to=1.31.4.'
        raise DiagnosticsError(build_error("invalid-kubernetes-version", detail))
    # The running version, then the hops.
    versions_by_cluster: dict[str, tuple[KubernetesVersion, ...]] = {}
    problems: list[Diagnostic] = []
    for cluster in clusters:
        try:
            versions_by_cluster[cluster.id] = _find_version_hops(cluster, target_text, site, today)
        except DiagnosticsError as error:
            problems += error.diagnostics
    if problems:
        raise DiagnosticsError(*problems)
    search = _OrderSearch(versions_by_cluster, pods)
    site_before = _SiteStart(start, site)
    order = search.find_order(site_before, list(clusters))
    if order is not None:
        return SiteUpgradePath(site.id, target, order, search.tried_orders)
    # Upgrade all clusters in the requested order, each on the site left by the previous ones.
    results: list[ClusterHops] = []
    for cluster in clusters:
        cluster_hops, site_before = _upgrade_cluster(
            site_before, cluster, versions_by_cluster[cluster.id], pods
        )
        results.append(cluster_hops)
    is_exhaustive = search.passes < _MAX_PASSES
    return SiteUpgradePath(site.id, target, tuple(results), search.tried_orders, is_exhaustive)


def _find_version_hops(
    cluster: VmOwnerSnapshot, target: str, site: SiteSnapshot, today: str
) -> tuple[KubernetesVersion, ...]:
    """Find the running version of a cluster and its hops.

    Raises DiagnosticsError if one is unknown.
    """
    version_text = get_running_version(cluster)
    version = parse_version(version_text)
    address = str(cluster.pools[0].address)
    if version is None:
        reason = f"{cluster.id} has no kubernetes_version"
        if version_text:
            reason = f'The kubernetes_version of {cluster.id} cannot be read ("{version_text}")'
        detail = f"{reason}. The hops to {target} are unknown. Set it in {address} and apply."
        raise DiagnosticsError(build_error("invalid-kubernetes-version", detail, address=address))
    offers = OfferedVersions(
        site.versions, site.upgrades.get(cluster.name, ()), site.available_until
    )
    hops = find_upgrade_hops(cluster.id, version_text, target, offers, today)
    if isinstance(hops, VersionRejection):
        raise DiagnosticsError(build_error(hops.id, hops.detail, address=address))
    return (version, *hops)


class _OrderSearch:
    """Search for an order with capacity for all.

    `tried_orders` counts the rejected prefixes and the result.
    """

    def __init__(
        self,
        versions_by_cluster: Mapping[str, Sequence[KubernetesVersion]],
        pods: Mapping[str, ClusterPods],
    ) -> None:
        """Start without a tried order.

        `versions_by_cluster` has, by cluster id, the running version and the hops.
        """
        self._versions_by_cluster = versions_by_cluster
        self._pods = pods
        self.tried_orders = 0
        self.passes = 0

    def find_order(
        self, start: _SiteStart, remaining: Sequence[VmOwnerSnapshot]
    ) -> tuple[ClusterHops, ...] | None:
        """Find an order of the remaining clusters.

        Return None if there is no order, or after _MAX_PASSES simulated upgrades.
        """
        # Every cluster has its place: the result counts as tried.
        if not remaining:
            self.tried_orders += 1
            return ()
        for cluster in remaining:
            if self.passes == _MAX_PASSES:
                return None
            self.passes += 1
            hops, next_start = _upgrade_cluster(
                start, cluster, self._versions_by_cluster[cluster.id], self._pods
            )
            if not hops.fits:
                self.tried_orders += 1
                continue
            following = self.find_order(
                next_start, [candidate for candidate in remaining if candidate.id != cluster.id]
            )
            if following is not None:
                return (hops, *following)
        return None


def _upgrade_cluster(
    start: _SiteStart,
    requested: VmOwnerSnapshot,
    path: Sequence[KubernetesVersion],
    pods: Mapping[str, ClusterPods],
) -> tuple[ClusterHops, _SiteStart]:
    """Upgrade a cluster along a path of versions, the running one first.

    Return its hops and the resulting site. A hop without capacity changes nothing: the
    platform stops it.
    """
    hops: list[ClusterUpgradeHop] = []
    for version, end in pairwise(path):
        site = start.site
        # The cluster as the previous hop left it.
        cluster = next(candidate for candidate in site.clusters if candidate.id == requested.id)
        upgrade = simulate_kubernetes_upgrade(
            start.point, site, cluster, pods.get(cluster.id), str(end)
        )
        # Etcd may fail without another version bundle in between.
        needs_bundle = has_etcd_gap(version, end)
        # None: not captured.
        available = select_available_versions(end, site.versions)
        supported_until = max(
            (site.supported_until.get(version, "") for version in available or ()), default=""
        )
        hops.append(
            ClusterUpgradeHop(str(version), end, upgrade, needs_bundle, available, supported_until)
        )
        if not upgrade.blocked_pools:
            start = start.apply(upgrade)
    return ClusterHops(requested.id, requested.name, tuple(hops)), start


class _SiteStart(Struct, frozen=True):
    """Site with the start point of its upgrades."""

    point: StartPoint
    site: SiteSnapshot

    def apply(self, upgrade: KubernetesUpgrade) -> _SiteStart:
        """Return the site after an upgrade that fits."""
        request = self.point.request
        objects = list_planned_objects(upgrade.after.plan, request.state)
        snapshot = build_snapshot(
            objects, request.registries, request.state.catalogue, request.recorded_machines
        )
        site = snapshot.sites[self.site.id]
        # Only the VMs differ.
        next_site = replace(self.site, clusters=site.clusters, scheduler=site.scheduler)
        return _SiteStart(self.point.replace_objects(objects), next_site)
