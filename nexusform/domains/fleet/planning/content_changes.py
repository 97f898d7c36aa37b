"""Objects and pods that end or are re-created on clusters because placements change their content.

Source: a running hub empties the Works of removed objects, and members delete the objects.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from nexusform.diagnostics.phrases import group_by
from nexusform.domains.fleet.importers.api_defaults import add_api_server_defaults
from nexusform.domains.fleet.planning.override_rendering import (
    ObjectIdentity,
    collect_namespace_names,
    collect_object_identities,
    expand_envelopes,
    get_object_identity,
)
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.domains.pods.pod_kind import POD
from nexusform.domains.pods.scheduling.cluster_records import Strategy, Workload
from nexusform.json_data.plain_data import get_value_at_path
from nexusform.plans.plan import ContentChange, ContentEffect, PlacementAction, PlacementChange
from nexusform.resources.address import Address


class ClusterContent(NamedTuple):
    """Objects of a placement on one of its clusters before and after the plan."""

    placement: PlacementPlan
    cluster: str
    before: tuple[Manifest, ...]
    after: tuple[Manifest, ...]


class _ObjectEffect(NamedTuple):
    """Effect on one object, and its affected pods.

    `is_workload` means that it runs pods, even if their number is unknown.
    """

    manifest: Manifest
    effect: ContentEffect
    is_workload: bool
    pods: int


def find_content_changes(
    placements: Sequence[PlacementPlan],
    recreated_workloads: Collection[str],
    known_clusters: Collection[str],
) -> Iterator[ContentChange]:
    """Yield the removed objects and the changed pods of each placement and cluster.

    Clusters that a placement leaves have binding rows instead. An object that another
    placement keeps there is not removed; a removed Namespace takes all objects in it along.
    `recreated_workloads` are keys of workloads re-created on the hub. Pods of
    `known_clusters` have rows.
    """
    contents = list(list_cluster_contents(placements))
    changed_clusters = {
        content.cluster
        for content in contents
        if content.before != content.after or recreated_workloads
    }
    contents_by_cluster = group_by(contents, lambda content: content.cluster)
    comparison = _ContentComparison(recreated_workloads)
    for cluster in sorted(changed_clusters):
        cluster_contents = contents_by_cluster[cluster]
        kept: set[ObjectIdentity] = set()
        namespaces: set[str] = set()
        for content in cluster_contents:
            kept |= collect_object_identities(content.after)
            namespaces |= collect_namespace_names(expand_envelopes(content.before))
        removed_namespaces = namespaces - collect_namespace_names(kept)
        for content in cluster_contents:
            for effect in comparison.find_effects(content, removed_namespaces):
                is_removed = effect.effect is ContentEffect.REMOVED
                is_kept = get_object_identity(effect.manifest) in kept
                in_removed_namespace = effect.manifest.namespace in removed_namespaces
                if is_removed and is_kept and not in_removed_namespace:
                    continue
                yield ContentChange(
                    address=content.placement.spec.instance.address,
                    cluster=cluster,
                    object=effect.manifest.title,
                    effect=effect.effect,
                    pod_kind=POD if effect.is_workload else "",
                    pods=effect.pods,
                    has_rows=cluster in known_clusters,
                )


def find_left_objects(
    placements: Mapping[Address, PlacementPlan],
    rows: Iterable[PlacementChange],
    forgotten_members: Collection[str],
) -> Iterator[ContentChange]:
    """Yield the objects that are deleted on the clusters that placements leave.

    `rows` are those of bindings. On `forgotten_members` (names), and on members that leave the
    fleet, all objects stay; on others those that another placement keeps there.
    """
    departures: list[tuple[PlacementPlan, str]] = []
    for row in rows:
        placement = placements.get(row.address)
        if placement is None or row.action is not PlacementAction.REMOVE:
            continue
        members = placement.selection.clusters
        is_member = row.object in members.labels and row.object not in members.leaving
        if is_member and row.object not in forgotten_members:
            departures.append((placement, row.object))
    if not departures:
        return
    kept: dict[str, set[ObjectIdentity]] = {}
    for placement in placements.values():
        for cluster, resources in placement.compute_final_resources().items():
            identities = collect_object_identities(resources.manifests)
            kept.setdefault(cluster, set()).update(identities)
    for placement, cluster in departures:
        applied = placement.current.applied.on_cluster.get(cluster)
        for manifest in expand_envelopes(applied.manifests if applied is not None else ()):
            if get_object_identity(manifest) not in kept.get(cluster, ()):
                yield ContentChange(
                    address=placement.spec.instance.address,
                    cluster=cluster,
                    object=manifest.title,
                    effect=ContentEffect.LEFT,
                )


def list_cluster_contents(placements: Sequence[PlacementPlan]) -> Iterator[ClusterContent]:
    """Yield the content of each cluster that a placement has before and after the plan."""
    for placement in placements:
        applied = placement.current.applied.on_cluster
        if not applied:
            continue
        for cluster, resources in placement.compute_final_resources().items():
            before = applied.get(cluster)
            if before is not None and cluster not in placement.released_clusters:
                yield ClusterContent(placement, cluster, before.manifests, resources.manifests)


class _ContentComparison:
    """Comparison of contents; clusters with the same content share it."""

    def __init__(self, recreated_workloads: Collection[str]) -> None:
        self._recreated_workloads = recreated_workloads
        # By the contents' ids and whether workloads may be re-created.
        self._effects: dict[tuple[int, int, bool, frozenset[str]], list[_ObjectEffect]] = {}

    def find_effects(
        self, content: ClusterContent, removed_namespaces: Collection[str]
    ) -> list[_ObjectEffect]:
        """Return the effects on the objects of a content."""
        # With External, staged runs distribute changes.
        is_recreating = bool(self._recreated_workloads) and not content.placement.spec.is_external
        namespaces = frozenset(removed_namespaces)
        key = (id(content.before), id(content.after), is_recreating, namespaces)
        if key not in self._effects:
            recreated = self._recreated_workloads if is_recreating else ()
            self._effects[key] = list(_compare_contents(content, recreated, namespaces))
        return self._effects[key]


def _compare_contents(
    content: ClusterContent,
    recreated_workloads: Collection[str],
    removed_namespaces: Collection[str],
) -> Iterator[_ObjectEffect]:
    """Yield the effects on the objects before the plan, in their order."""
    before = tuple(expand_envelopes(content.before))
    after = {
        get_object_identity(manifest): manifest for manifest in expand_envelopes(content.after)
    }
    workloads_before = collect_workloads(before).by_key
    workloads_after = collect_workloads(tuple(after.values())).by_key
    for manifest in before:
        workload = workloads_before.get(manifest.workload_key)
        new_manifest = after.get(get_object_identity(manifest))
        if new_manifest is None or manifest.namespace in removed_namespaces:
            runs_pods = workload is not None and workload.replicas > 0
            pods = _count_known_pods(workload) if workload is not None else 0
            yield _ObjectEffect(manifest, ContentEffect.REMOVED, runs_pods, pods)
            continue
        new_workload = workloads_after.get(manifest.workload_key)
        if workload is not None and new_workload is not None:
            is_recreated = manifest.workload_key in recreated_workloads
            has_new_template = new_manifest is not manifest and _has_new_template(
                manifest, new_manifest, new_workload
            )
            yield from _compare_replicas(
                manifest, workload, new_workload, is_rolled_out=is_recreated or has_new_template
            )


def _compare_replicas(
    manifest: Manifest, before: Workload, after: Workload, *, is_rolled_out: bool
) -> Iterator[_ObjectEffect]:
    """Yield the effects on the pods of a workload: those that end, and those re-created."""
    ended = before.replicas - after.replicas
    if ended > 0:
        effect = ContentEffect.SCALED_IN if after.replicas else ContentEffect.STOPPED
        yield _ObjectEffect(manifest, effect, is_workload=True, pods=ended)
    remaining = min(before.replicas, after.replicas)
    if is_rolled_out and remaining:
        pods = min(_count_known_pods(before), _count_known_pods(after))
        yield _ObjectEffect(manifest, ContentEffect.ROLLED_OUT, is_workload=True, pods=pods)


def _count_known_pods(workload: Workload) -> int:
    """Return the pods of a workload; 0 for a DaemonSet, which has one per node."""
    return 0 if workload.kind == "DaemonSet" else workload.replicas


def _has_new_template(before: Manifest, after: Manifest, workload: Workload) -> bool:
    """Return whether a changed pod template makes the controller re-create the pods."""
    if workload.strategy is Strategy.ON_DELETE or workload.is_paused:
        return False
    return _read_template(before) != _read_template(after)


def _read_template(manifest: Manifest) -> Mapping[str, object] | None:
    """Return the pod template with the API server's defaults; None without one."""
    template = get_value_at_path(add_api_server_defaults(manifest.body), "spec", "template")
    return template if isinstance(template, Mapping) else None
