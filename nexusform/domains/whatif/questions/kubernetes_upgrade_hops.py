"""Clusters on their way to a version: hop by hop, each from where the one before left the VMs; and for
several clusters of a site an order in which every surge fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain as joined
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, Refused, error
from nexusform.domains.whatif.questions.kubernetes_upgrade import (
    KubernetesUpgrade,
    simulate_kubernetes_upgrade,
)
from nexusform.domains.whatif.questions.kubernetes_versions import (
    KubernetesVersion,
    chain,
    etcd_stands_between,
    offered_for,
    read_version,
)
from nexusform.domains.whatif.questions.pods_down import ClusterPods
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.vms import Placement
from nexusform.worlds.world_view import Cluster, Pool, SiteView

_MOST_WALKS: Final = 120
_SECONDS: Final = 3600


class Hop(Struct, frozen=True):
    """One upgrade of one cluster. `single` are workloads of which one pod is all there is, `offered` the
    versions of the site that it may go to, None where nobody told what the site has; `supported_until` is the
    last day of support of the one of them that has it longest, "" where the site does not tell.
    """

    start: str
    end: KubernetesVersion
    upgrade: KubernetesUpgrade
    single: tuple[str, ...] = ()
    needs_a_bundle_between: bool = False
    offered: tuple[str, ...] | None = None
    supported_until: str = ""

    @property
    def end_of_support(self) -> str | None:
        """When support of what it leads to ends: as the site tells, else as Microsoft lists it."""
        return self.supported_until or self.end.end_of_support

    @property
    def batches(self) -> int:
        """How many batches of nodes it takes."""
        return sum(len(pool.batches) for pool in self.upgrade.pools)

    @property
    def drain_hours(self) -> float:
        """How long its drains may take: every batch of workers up to its pool's drain timeout."""
        pools = (pool for pool in self.upgrade.pools if not pool.control_plane)
        return sum(len(pool.batches) * pool.drain_timeout for pool in pools) / _SECONDS

    @property
    def surge_fits(self) -> bool:
        """Whether every batch finds room, whichever draw of cells it is."""
        drawn = self.upgrade.drawn
        return not self.upgrade.blocked and (drawn is None or drawn.certain)

    @property
    def lost(self) -> tuple[str, ...]:
        """Pools of which no node, or control planes of which no quorum, is up at some time."""
        return tuple(pool.pool for pool in self.upgrade.pools if pool.lost)

    @property
    def bad(self) -> bool:
        """Whether it does not go through, or takes something down."""
        return self.upgrade.bad or self.needs_a_bundle_between or self.not_offered

    @property
    def not_offered(self) -> bool:
        """Whether the site has no such version."""
        return self.offered is not None and not self.offered


class ClusterHops(Struct, frozen=True):
    """The way of one cluster; no hop where it is there already."""

    cluster_id: str
    cluster: str
    hops: tuple[Hop, ...]

    @property
    def fits(self) -> bool:
        """Whether every batch of every hop finds room."""
        return all(hop.surge_fits for hop in self.hops)

    @property
    def bad(self) -> bool:
        """Whether a hop is bad."""
        return any(hop.bad for hop in self.hops)


class UpgradePath(Struct, frozen=True):
    """Clusters of one site in the order in which they go, each with all its hops. `tried` are the beginnings
    of orders that were looked at, all there are where `all_tried`.
    """

    site_id: str
    target: KubernetesVersion
    clusters: tuple[ClusterHops, ...]
    tried: int = 1
    all_tried: bool = True

    @property
    def bad(self) -> bool:
        """Whether a hop of a cluster is bad."""
        return any(cluster.bad for cluster in self.clusters)


def find_path(
    site: SiteView, clusters: Sequence[Cluster], to: str, pods: Mapping[str, ClusterPods]
) -> UpgradePath:
    """The hops to a version: the first order of clusters in which everything fits, else the one as asked.
    Refused where it is no version, or where clusters do not lead there: all of them at once.
    """
    target = read_version(to)
    if target is None:
        detail = f'"{to}" is no version. Write -to=1.31 or -to=1.31.4.'
        raise Refused(error("invalid-kubernetes-version", detail))
    starts: dict[str, KubernetesVersion] = {}
    wrong: list[Diagnostic] = []
    for cluster in clusters:
        start = _start(cluster, target)
        if isinstance(start, Diagnostic):
            wrong.append(start)
        else:
            starts[cluster.id] = start
    if wrong:
        raise Refused(*wrong)
    search = _Search(starts, target, pods)
    found = search.order(site, list(clusters))
    if found is not None:
        return UpgradePath(site.id, target, found, search.tried)
    as_asked = _go(site, clusters, starts, target, pods)
    return UpgradePath(site.id, target, as_asked, search.tried, search.walks < _MOST_WALKS)


def _start(cluster: Cluster, target: KubernetesVersion) -> KubernetesVersion | Diagnostic:
    """The version that a cluster has, where an upgrade to the target starts from it."""
    written = next((pool.owner.version for pool in cluster.pools if pool.owner.version), "")
    version = read_version(written)
    address = str(cluster.pools[0].address) if cluster.pools else ""
    if version is None:
        has = (
            f'The kubernetes_version of {cluster.id} cannot be read ("{written}")'
            if written
            else (f"{cluster.id} has no kubernetes_version")
        )
        detail = f"{has}, so the hops to {target} are not known. Write it into {address} and apply."
        return error("invalid-kubernetes-version", detail, address=address)
    if (target.major, target.minor) < (version.major, version.minor) or version.major != target.major:
        detail = f"{cluster.id} is at {version}: an upgrade does not lead to {target}."
        return error("invalid-kubernetes-version", detail, address=address)
    return version


def _go(
    site: SiteView,
    order: Sequence[Cluster],
    starts: Mapping[str, KubernetesVersion],
    target: KubernetesVersion,
    pods: Mapping[str, ClusterPods],
) -> tuple[ClusterHops, ...]:
    """All clusters in this order, each from where the ones before left the site."""
    found: list[ClusterHops] = []
    for asked in order:
        hops, site = _walk(site, asked, starts[asked.id], target, pods)
        found.append(hops)
    return tuple(found)


class _Search:
    """Looks for an order in which everything fits, as asked where that does: who finds no room waits for
    others. `tried` counts the beginnings of orders that were ruled out, and the one that was found.
    """

    def __init__(
        self,
        starts: Mapping[str, KubernetesVersion],
        target: KubernetesVersion,
        pods: Mapping[str, ClusterPods],
    ) -> None:
        self._starts, self._target, self._pods = starts, target, pods
        self.tried = 0
        self.walks = 0

    def order(self, site: SiteView, waiting: Sequence[Cluster]) -> tuple[ClusterHops, ...] | None:
        """Those that wait in an order that fits from here; None where none is, or none was found in time."""
        if not waiting:
            self.tried += 1
            return ()
        for asked in waiting:
            if self.walks == _MOST_WALKS:
                return None
            self.walks += 1
            hops, after = _walk(site, asked, self._starts[asked.id], self._target, self._pods)
            if not hops.fits:
                self.tried += 1
                continue
            rest = self.order(after, [one for one in waiting if one.id != asked.id])
            if rest is not None:
                return (hops, *rest)
        return None


def _walk(
    site: SiteView,
    asked: Cluster,
    start: KubernetesVersion,
    target: KubernetesVersion,
    pods: Mapping[str, ClusterPods],
) -> tuple[ClusterHops, SiteView]:
    """One cluster with all its hops, and the site as they leave it."""
    hops: list[Hop] = []
    ends = [] if start == target else chain(start, target)
    for end in ends:
        cluster = next(one for one in site.clusters if one.id == asked.id)
        upgrade = simulate_kubernetes_upgrade(site, cluster, pods.get(cluster.id))
        between = etcd_stands_between(start, end)
        single, offered = _single(pods.get(cluster.id)), offered_for(end, site.versions)
        until = max((site.supported_until.get(version, "") for version in offered or ()), default="")
        hops.append(Hop(str(start), end, upgrade, single, between, offered, until))
        site = _after(site, cluster, upgrade)
        start = end
    return ClusterHops(asked.id, asked.name, tuple(hops)), site


def _single(pods: ClusterPods | None) -> tuple[str, ...]:
    """Workloads with one replica: a drain takes all that there is of them."""
    if pods is None:
        return ()
    return tuple(
        workload.key
        for workload in pods.workloads
        if workload.replicas == 1 and workload.kind not in ("DaemonSet", "Job")
    )


def _after(site: SiteView, cluster: Cluster, upgrade: KubernetesUpgrade) -> SiteView:
    """The site once the cluster is upgraded; a pool that is blocked keeps the VMs of the batch that is."""
    places: dict[tuple[str, str], Placement] = {}
    for pool in upgrade.pools:
        for move in joined.from_iterable(batch.moves for batch in pool.batches if batch.fits):
            if move.place is not None:
                places[pool.pool, move.vm.name] = move.place
    by_handle = {
        pool.handles[vm.name]: places[pool.name, vm.name]
        for pool in cluster.pools
        for vm in pool.vms
        if (pool.name, vm.name) in places
    }
    old = site.scheduler
    scheduler = RackScheduler(old.machines, old.spread, old.seed, split_seed=old.split_seed)
    handles: dict[int, int] = {}
    for vm in old.vms():
        handles[vm.handle] = scheduler.occupy(vm.vm, vm.sku, by_handle.get(vm.handle, vm.placement))

    def moved(pool: Pool, *, upgraded: bool) -> Pool:
        vms = pool.vms
        if upgraded:
            vms = tuple(replace(vm, placement=places.get((pool.name, vm.name), vm.placement)) for vm in vms)
        numbers = {name: handles[handle] for name, handle in pool.handles.items()}
        return replace(pool, vms=vms, handles=numbers)

    clusters = tuple(
        replace(one, pools=tuple(moved(pool, upgraded=one.id == cluster.id) for pool in one.pools))
        for one in site.clusters
    )
    return replace(site, scheduler=scheduler, clusters=clusters)
