"""Selected and current resources of a placement: the second stage of its plan."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from nexusform.domains.fleet.importers.fleet_records import FleetOverride
from nexusform.domains.fleet.planning.fleet_snapshot import MemberClusters
from nexusform.domains.fleet.planning.override_rendering import ClusterRenderer, RenderedResources
from nexusform.domains.fleet.planning.placement_records import AppliedResources, ResourceSnapshot, add_snapshot
from nexusform.domains.fleet.planning.resource_selectors import ResourceSelectorProblem
from nexusform.domains.fleet.scheduling.watcher import Trigger
from nexusform.domains.pods.importers.manifest_parser import Manifest


class ResourceSelection(Struct, frozen=True):
    """Selected objects and the overrides for them. `empty_selectors` are the indexes of selectors without a
    match; with a `selector_problem` a hub leaves the placement unchanged. `clusters` are the members.
    """

    manifests: tuple[Manifest, ...] = ()
    overrides: tuple[FleetOverride, ...] = ()
    empty_selectors: Sequence[int] = ()
    selector_problem: ResourceSelectorProblem | None = None
    clusters: MemberClusters = MemberClusters()


class CurrentResources(Struct, frozen=True):
    """Applied resources before the plan, and their differences from the selection. `staged_trigger` is the
    trigger of changes that only staged runs distribute. `is_selection_changed`: a hub processes the placement
    because the plan changes its selection. `outdated_clusters` have bindings with outdated override
    snapshots, `differing_clusters` a changed result of overrides. `has_override_change`: an override naming
    the placement changed, which starts a rollout.
    """

    applied: AppliedResources = AppliedResources()
    resources_changed: bool = False
    staged_trigger: Trigger | None = None
    is_selection_changed: bool = False
    outdated_clusters: frozenset[str] = frozenset()
    differing_clusters: frozenset[str] = frozenset()
    has_override_change: bool = False


class SnapshotStore:
    """Resource snapshots of a placement, and their rendered resources for each cluster. Plans and runs add
    snapshots. Resources distributed by a run stay fixed from its start.
    """

    def __init__(self, selection: ResourceSelection, snapshots: tuple[ResourceSnapshot, ...] = ()) -> None:
        self.snapshots = snapshots
        self._selection = selection
        self._renderers: dict[int, ClusterRenderer] = {}
        self._locked_renderers: dict[str, tuple[int, ClusterRenderer]] = {}

    def add_snapshot(self, limit: int) -> ResourceSnapshot:
        """Return the snapshot of the current selection, a new one if it changed. `limit`: number of snapshots kept."""
        self.snapshots = add_snapshot(self.snapshots, self._selection.manifests, limit)
        return self.snapshots[-1]

    def lock_cluster(self, cluster: str, index: int, renderer: ClusterRenderer) -> None:
        """Use this renderer for a cluster and snapshot from now on."""
        self._locked_renderers[cluster] = index, renderer

    def find_snapshot(self, index: int | None) -> ResourceSnapshot | None:
        """Return the snapshot with this index, None if missing."""
        return AppliedResources(self.snapshots).find_snapshot(index)

    def render_cluster(self, index: int | None, cluster: str) -> RenderedResources | None:
        """Return the resources of a snapshot for a cluster; None without such a snapshot or member."""
        if index is None:
            return None
        number, renderer = self._locked_renderers.get(cluster, (None, None))
        if renderer is not None and number == index:
            return renderer.render_cluster(cluster)
        if index not in self._renderers:
            snapshot = self.find_snapshot(index)
            if snapshot is None:
                return None
            selection = self._selection
            self._renderers[index] = ClusterRenderer(snapshot.objects, selection.overrides, selection.clusters.labels)
        return self._renderers[index].render_cluster(cluster)
