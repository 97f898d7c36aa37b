"""Selected and current resources of a placement, and the hub's errors about selectors.

The selection is the second stage of the placement's plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from itertools import chain, product
from typing import Any, TypeAlias, TypeVar

from msgspec import Struct

from nexusform.domains.fleet.importers.fleet_records import (
    NAMESPACE_ONLY,
    WITH_RESOURCES,
    WITH_SELECTED,
    FleetOverride,
    FleetPlacement,
    ObjectSelector,
)
from nexusform.domains.fleet.planning.fleet_snapshot import MemberClusters
from nexusform.domains.fleet.planning.override_rendering import (
    ClusterRenderer,
    RenderedResources,
    collect_namespace_names,
)
from nexusform.domains.fleet.planning.placement_records import (
    AppliedResources,
    ResourceSnapshot,
    compute_content_hash,
)
from nexusform.domains.fleet.scheduling.watcher import Trigger
from nexusform.domains.pods.importers.manifest_parser import (
    Manifest,
    find_kind_exclusion,
    find_selection_exclusion,
    is_reserved_namespace,
    list_services,
)
from nexusform.kubernetes.matching import is_selected

T = TypeVar("T")


class ResourceSelectorProblem(Struct, frozen=True):
    """Error of a hub about a placement's selectors.

    It has the index of the selector, the hub's message, and a remedy.
    """

    selector: int
    message: str
    advice: str


ObjectKey: TypeAlias = tuple[str, str, str, str]


class HubIndex:
    """Index of a hub's selectable objects by the fields of selectors.

    A fleet may have a placement per namespace.
    """

    def __init__(self, hub: Sequence[Manifest], *, is_reserved: bool = False) -> None:
        self._hub = hub
        # Objects of reserved namespaces, which only a ResourcePlacement in them selects.
        self._is_reserved = is_reserved
        # Their Endpoints are never selected.
        services = list_services(hub)
        self._objects = [manifest for manifest in hub if self._is_selectable(manifest, services)]

    def _is_selectable(self, manifest: Manifest, services: Collection[tuple[str, str]]) -> bool:
        if not self._is_reserved:
            return find_selection_exclusion(manifest, services) is None
        is_in_reserved = is_reserved_namespace(manifest.namespace)
        return is_in_reserved and find_kind_exclusion(manifest, services) is None

    def get_index(self, placement: FleetPlacement) -> HubIndex:
        """Return the index of the objects that a placement may select."""
        return self._reserved_index if is_reserved_namespace(placement.namespace) else self

    @cached_property
    def _reserved_index(self) -> HubIndex:
        return HubIndex(self._hub, is_reserved=True)

    @cached_property
    def unique_index(self) -> HubIndex:
        """Index with each object once.

        Of several manifests with the same identity, the last one counts.
        """
        last = {manifest.identity: manifest for manifest in self._objects}
        if len(last) == len(self._objects):
            return self
        return HubIndex(list(last.values()), is_reserved=self._is_reserved)

    def select_objects(
        self, selector: ObjectSelector, namespaces: Collection[str]
    ) -> list[Manifest]:
        """Return the objects of a selector (name or labels) in these namespaces, in hub order.

        The namespace "" is the cluster scope. The indexes give the positions of the objects with a
        name, or else of all objects of the kind.
        """
        group = selector.group
        kind = selector.kind
        if selector.name:
            by_key = self._positions_by_key
            named = [
                by_key.get((group, kind, namespace, selector.name), ()) for namespace in namespaces
            ]
            return self._get_objects_at_positions(named)
        positions = [
            self._positions_by_kind.get((group, kind, namespace), ()) for namespace in namespaces
        ]
        objects_of_kind = self._get_objects_at_positions(positions)
        return [
            manifest for manifest in objects_of_kind if _has_selected_labels(selector, manifest)
        ]

    def list_namespaced(self, namespaces: Collection[str]) -> list[Manifest]:
        """Return all objects in these namespaces, in the hub's order."""
        positions = [self._positions_by_namespace.get(namespace, ()) for namespace in namespaces]
        return self._get_objects_at_positions(positions)

    def _get_objects_at_positions(self, lists: Sequence[Sequence[int]]) -> list[Manifest]:
        """Return the objects at these positions, each once and in the hub's order.

        Several ascending lists.
        """
        positions = lists[0] if len(lists) == 1 else sorted(set(chain.from_iterable(lists)))
        return [self._objects[position] for position in positions]

    @cached_property
    def _positions_by_key(self) -> Mapping[ObjectKey, list[int]]:
        return self._index_positions(lambda manifest: manifest.identity)

    @cached_property
    def _positions_by_kind(self) -> Mapping[tuple[str, str, str], list[int]]:
        return self._index_positions(
            lambda manifest: (manifest.group, manifest.kind, manifest.namespace)
        )

    @cached_property
    def _positions_by_namespace(self) -> Mapping[str, list[int]]:
        return self._index_positions(lambda manifest: manifest.namespace)

    def _index_positions(self, get_key: Callable[[Manifest], T]) -> Mapping[T, list[int]]:
        """Return the positions of the objects by a key, in ascending order."""
        positions: dict[T, list[int]] = {}
        for position, manifest in enumerate(self._objects):
            positions.setdefault(get_key(manifest), []).append(position)
        return positions


def select_resources(placement: FleetPlacement, hub: HubIndex) -> tuple[Manifest, ...]:
    """Return the hub objects selected by a placement, in selector order, each once.

    A selected namespace may add the objects inside: all of them, or only those that other
    selectors match (NamespaceWithResourceSelectors).
    """
    hub = hub.get_index(placement)
    by_key: dict[ObjectKey, Manifest] = {}
    # By selected namespace: True if all its objects are included.
    includes_all: dict[str, bool] = {}
    for selector in placement.selectors:
        for manifest in hub.select_objects(selector, (placement.namespace,)):
            by_key.setdefault(manifest.identity, manifest)
            is_namespace = (manifest.group, manifest.kind) == ("", "Namespace")
            if is_namespace and selector.scope != NAMESPACE_ONLY:
                # NamespaceWithResources, the default.
                is_complete = selector.scope != WITH_SELECTED
                # A namespace selected twice includes all if one of the selectors says so.
                includes_all[manifest.name] = includes_all.get(manifest.name, False) | is_complete
    # The objects in selected namespaces: all, or those of other selectors.
    for namespace, is_complete in includes_all.items():
        for manifest in hub.list_namespaced((namespace,)):
            if is_complete or any(
                _is_match(selector, manifest, namespace) for selector in placement.selectors
            ):
                by_key.setdefault(manifest.identity, manifest)
    return tuple(by_key.values())


def find_empty_selectors(placement: FleetPlacement, objects: Sequence[Manifest]) -> list[int]:
    """Return the indexes of selectors without a match.

    A match is in the placement's own namespace or a selected one.
    """
    namespaces = collect_namespace_names(objects) | {placement.namespace}
    empty_selectors = []
    for number, selector in enumerate(placement.selectors):
        pairs = product(objects, namespaces)
        if not any(_is_match(selector, manifest, namespace) for manifest, namespace in pairs):
            empty_selectors.append(number)
    return empty_selectors


def find_selector_problem(
    placement: FleetPlacement, hub: HubIndex
) -> ResourceSelectorProblem | None:
    """Return the first error of a hub: a selected reserved namespace, or an object selected twice.

    The result is None without one.
    Source: KubeFleet pkg/utils/controller/resource_selector_resolver.go.
    """
    # Each object once, even if several manifests define it.
    unique_index = hub.get_index(placement).unique_index
    # Selectors also search this namespace: the placement's own, or the one in its selector with the
    # scope WITH_SELECTED (a namespace with only its selected objects); "" without such a selector.
    content_namespace = placement.namespace
    for number, selector in enumerate(placement.selectors):
        if content_namespace or selector.scope != WITH_SELECTED or not selector.is_namespace:
            continue
        # Reserved ones are not in the index.
        namespaces = unique_index.select_objects(selector, {""})
        if len(namespaces) != 1:
            return _build_namespace_count_problem(placement, number, len(namespaces))
        content_namespace = namespaces[0].name
    selected_keys: set[ObjectKey] = set()
    for number, selector in enumerate(placement.selectors):
        is_namespace = selector.is_namespace and not placement.namespace
        includes_content = is_namespace and selector.scope == WITH_RESOURCES
        if includes_content and is_reserved_namespace(selector.name):
            # The double R is KubeFleet's.
            text = (
                f"invalid clusterRresourcePlacement {placement.key}: namespace {selector.name} is "
                "not "
                "allowed to propagate"
            )
            advice = "A placement cannot select the namespaces default, kube-* and fleet-*."
            return ResourceSelectorProblem(number, text, advice)
        manifests = unique_index.select_objects(selector, {placement.namespace, content_namespace})
        if includes_content:
            manifests += unique_index.list_namespaced(collect_namespace_names(manifests))
        for manifest in manifests:
            if manifest.identity in selected_keys:
                return _build_duplicate_problem(number, manifest)
            selected_keys.add(manifest.identity)
    return None


def _build_namespace_count_problem(
    placement: FleetPlacement, number: int, count: int
) -> ResourceSelectorProblem:
    """Build the problem of a selector with the scope NamespaceWithResourceSelectors.

    It must select exactly one namespace.
    """
    amount = f"{count} namespaces were selected" if count else "no namespaces were selected"
    text = (
        f"invalid clusterResourcePlacement {placement.key}: NamespaceWithResourceSelectors mode "
        f"requires exactly one namespace, but {amount}"
    )
    advice = "Select one existing namespace; default, kube-* and fleet-* are never selected."
    return ResourceSelectorProblem(number, text, advice)


def _build_duplicate_problem(number: int, manifest: Manifest) -> ResourceSelectorProblem:
    """Build the problem of the selector `number`: it selects an object again."""
    # As printed by Go.
    identifier = (
        f"{{Group:{manifest.group} Version:{manifest.version} Kind:{manifest.kind} "
        f"Name:{manifest.name} "
        f"Namespace:{manifest.namespace} Envelope:<nil>}}"
    )
    advice = f"{manifest.title}: an earlier selector already selects it; select it only once."
    return ResourceSelectorProblem(number, f"found duplicate resource {identifier}", advice)


def _is_match(selector: ObjectSelector, manifest: Manifest, namespace: str) -> bool:
    """Return True if a selector matches an object of this namespace ("": cluster scope)."""
    if manifest.namespace != namespace or (manifest.group, manifest.kind) != (
        selector.group,
        selector.kind,
    ):
        return False
    return (
        manifest.name == selector.name
        if selector.name
        else _has_selected_labels(selector, manifest)
    )


def _has_selected_labels(selector: ObjectSelector, manifest: Manifest) -> bool:
    return selector.labels is None or is_selected(selector.labels, manifest.labels)


def build_selected_object(manifest: Manifest) -> dict[str, Any]:
    """Build the item of a selected object in the attribute `selected_resources`."""
    return {
        "group": manifest.group,
        "version": manifest.version,
        "kind": manifest.kind,
        "namespace": manifest.namespace,
        "name": manifest.name,
    }


class ResourceSelection(Struct, frozen=True):
    """Selected objects and the overrides for them.

    `empty_selectors` are the indexes of selectors without a match; with a `selector_problem` a hub
    leaves the placement unchanged. `clusters` are the members.
    """

    manifests: tuple[Manifest, ...] = ()
    overrides: tuple[FleetOverride, ...] = ()
    empty_selectors: Sequence[int] = ()
    selector_problem: ResourceSelectorProblem | None = None
    clusters: MemberClusters = MemberClusters()


class CurrentResources(Struct, frozen=True):
    """Applied resources before the plan, and their differences from the selection.

    `staged_trigger` is the trigger of changes that only staged runs distribute.
    `is_selection_changed` means that a hub processes the placement because the plan changes its
    selection. `outdated_clusters` have bindings with outdated override snapshots,
    `differing_clusters` a changed result of overrides. `has_override_change` means that an override
    naming the placement changed, which starts a rollout.
    """

    applied: AppliedResources = AppliedResources()
    resources_changed: bool = False
    staged_trigger: Trigger | None = None
    is_selection_changed: bool = False
    outdated_clusters: frozenset[str] = frozenset()
    differing_clusters: frozenset[str] = frozenset()
    has_override_change: bool = False


class SnapshotStore:
    """Resource snapshots of a placement, and their rendered resources for each cluster.

    Plans and runs add snapshots. Resources distributed by a run stay fixed from its start.
    """

    def __init__(
        self, selection: ResourceSelection, snapshots: tuple[ResourceSnapshot, ...] = ()
    ) -> None:
        self.snapshots = snapshots
        self._selection = selection
        # By index of the snapshot.
        self._renderers: dict[int | None, ClusterRenderer] = {}
        # Of runs, by cluster: (snapshot, ...).
        self._locked_renderers: dict[str, tuple[int, ClusterRenderer]] = {}

    def add_snapshot(self, limit: int) -> ResourceSnapshot:
        """Return the snapshot of the current selection.

        It is the newest one if its objects are the same, else a new one. A new snapshot
        drops the oldest snapshots beyond `limit`, even those that bindings still use.
        Source: KubeFleet pkg/utils/controller/resource_snapshot_resolver.go.
        """
        objects = self._selection.manifests
        digest = compute_content_hash(objects)
        if self.snapshots and self.snapshots[-1].hash == digest:
            return self.snapshots[-1]
        index = self.snapshots[-1].index + 1 if self.snapshots else 0
        latest = ResourceSnapshot(index, digest, objects)
        # At most limit - 1, the new one is the last.
        kept = self.snapshots[max(0, len(self.snapshots) - limit + 1) :]
        self.snapshots = (*kept, latest)
        return latest

    @property
    def latest_index(self) -> int | None:
        """Index of the newest snapshot; None without one."""
        return self.snapshots[-1].index if self.snapshots else None

    def lock_cluster(self, cluster: str, index: int, renderer: ClusterRenderer) -> None:
        """Use this renderer from now on for a cluster with the snapshot of this index.

        A staged run requires it.
        """
        self._locked_renderers[cluster] = index, renderer

    def find_snapshot(self, index: int | None) -> ResourceSnapshot | None:
        """Return the snapshot with this index, None if missing."""
        return AppliedResources(self.snapshots).find_snapshot(index)

    def render_cluster(self, index: int | None, cluster: str) -> RenderedResources | None:
        """Return the resources of a snapshot for a cluster; None without snapshot or member."""
        # fixed at the start of a run.
        locked_index, renderer = self._locked_renderers.get(cluster, (None, None))
        if renderer is not None and locked_index == index:
            return renderer.render_cluster(cluster)
        if index not in self._renderers:
            snapshot = self.find_snapshot(index)
            if snapshot is None:
                return None
            selection = self._selection
            self._renderers[index] = ClusterRenderer(
                snapshot.objects, selection.overrides, selection.clusters.labels
            )
        return self._renderers[index].render_cluster(cluster)


class PlacementResources(Struct, frozen=True):
    """Selected resources, current resources and snapshots of a placement.

    `unnoticed` are those with new content that the hub takes only with new scheduling decisions.
    """

    selection: ResourceSelection
    current: CurrentResources
    snapshot_store: SnapshotStore
    unnoticed: PlacementResources | None = None
