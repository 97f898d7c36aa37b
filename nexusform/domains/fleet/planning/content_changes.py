"""Objects and pods that end, stay unmanaged or are re-created on clusters, by their contents.

The content of a placement or manifest on a cluster is compared before and after the plan. An object
of a placement that ends or leaves the cluster is compared with none. Source: a running hub empties
the Works of removed objects, and members delete the objects.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import group_by
from nexusform.domains.fleet.importers.api_defaults import add_api_server_defaults
from nexusform.domains.fleet.planning.cluster_contents import (
    ClusterContent,
    join_recreated_contents,
)
from nexusform.domains.fleet.planning.override_rendering import (
    ObjectIdentity,
    collect_namespace_names,
    collect_object_identities,
    expand_envelopes,
    get_object_identity,
)
from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.importers.manifest_parser import Manifest, select_custom_definitions
from nexusform.domains.pods.importers.object_outcomes import (
    NeededObjects,
    StorageObjects,
    compute_end,
    compute_scale_in,
    describe_extent,
    describe_weaker_limits,
    list_local_volumes,
    needs_pods_to_hurt,
)
from nexusform.domains.pods.pod_kind import POD
from nexusform.domains.pods.scheduling.cluster_records import Strategy, Workload
from nexusform.json_data.plain_data import get_mapping, get_text, get_value_at_path
from nexusform.placements.consequences import ConsequenceSeverity, DataFate, Outcome
from nexusform.plans.plan import ContentChange, ContentEffect


class ClusterRows(NamedTuple):
    """Cluster of contents, and what the plan knows of it.

    `site_id` and `name` are those in the rows of its pods; `objects` are known on it after the
    plan. `has_rows(address, workload)` returns whether the changes of a workload's pods are rows.
    """

    site_id: str
    name: str
    objects: Sequence[Manifest]
    has_rows: Callable[[str, str], bool]


class _ObjectEffect(NamedTuple):
    """Effect on one object, and its affected pods.

    `is_workload` means that it runs pods, even if their number is unknown. `remaining` pods of a
    smaller workload stay. An object that `returns` is created again after its end. `extent` is how
    a limit becomes weaker.
    """

    manifest: Manifest
    effect: ContentEffect
    is_workload: bool
    pods: int
    returns: bool = False
    remaining: int = 0
    extent: str = ""


class _Takers(Struct, frozen=True):
    """Objects that take others along when they end: Namespaces, and definitions of kinds."""

    namespaces: frozenset[str] = frozenset()
    # Group and kind.
    kinds: frozenset[tuple[str, str]] = frozenset()

    def takes(self, manifest: Manifest) -> bool:
        """Return whether an object ends with its Namespace or with the definition of its kind."""
        in_namespace = manifest.namespace in self.namespaces
        return in_namespace or (manifest.group, manifest.kind) in self.kinds


def find_content_changes(
    contents: Iterable[ClusterContent], get_cluster: Callable[[str], ClusterRows]
) -> Iterator[ContentChange]:
    """Yield the objects that end or stay unmanaged, and the changed pods, by cluster and content.

    An object that another content keeps on the cluster is not removed, unless its Namespace or the
    definition of its kind ends. An object of several contents ends once.
    """
    by_cluster = group_by(join_recreated_contents(contents), lambda content: content.cluster_id)
    comparison = _ContentComparison()
    for cluster_id in sorted(by_cluster):
        cluster_contents = by_cluster[cluster_id]
        if any(content.is_changed for content in cluster_contents):
            cluster = get_cluster(cluster_id)
            yield from _find_cluster_changes(cluster_contents, cluster, comparison)


def find_lost_volumes(
    contents: Iterable[ClusterContent],
    get_cluster: Callable[[str], ClusterRows],
    lost_nodes: Mapping[str, Mapping[str, str]],
) -> Iterator[ContentChange]:
    """Yield the claims, or volumes without one, whose data is on the disk of a lost node.

    `lost_nodes` are the nodes by id of their cluster and name, with what happens to them: `is
    re-created`.
    """
    if not lost_nodes:
        return
    by_cluster = group_by(contents, lambda content: content.cluster_id)
    for cluster_id in sorted(by_cluster.keys() & lost_nodes.keys()):
        yield from _find_lost_volumes(
            by_cluster[cluster_id], get_cluster(cluster_id), lost_nodes[cluster_id]
        )


def _find_lost_volumes(
    contents: Sequence[ClusterContent], cluster: ClusterRows, lost_nodes: Mapping[str, str]
) -> Iterator[ContentChange]:
    """Yield the lost claims and volumes of one cluster."""
    # The first content that has an object owns it; those of none belong to the first one.
    owners = {
        get_object_identity(manifest): (manifest, content)
        for content in reversed(contents)
        for manifest in expand_envelopes(content.before)
    }
    objects = {get_object_identity(manifest): manifest for manifest in cluster.objects}
    objects |= {identity: manifest for identity, (manifest, _) in owners.items()}
    for volume in list_local_volumes(objects.values()):
        lost = [node for node in volume.nodes if node in lost_nodes]
        # On one of several nodes, the data may be elsewhere.
        if not lost or len(lost) < len(volume.nodes):
            continue
        claim = next((item for item in objects.values() if volume.is_bound_to(item)), None)
        subject = claim if claim is not None else volume.manifest
        _, owner = owners.get(get_object_identity(subject), (subject, contents[0]))
        yield ContentChange(
            address=owner.address,
            cluster=owner.cluster,
            object=subject.title,
            effect=ContentEffect.LOSES_DATA,
            site_id=cluster.site_id,
            data=DataFate.LOST,
            extent=f"node {lost[0]} {lost_nodes[lost[0]]}",
        )


def _find_cluster_changes(
    contents: Sequence[ClusterContent], cluster: ClusterRows, comparison: "_ContentComparison"
) -> Iterator[ContentChange]:
    """Yield the changes of one cluster."""
    owners = _collect_owners(contents)
    takers = _find_takers(contents, owners.keys())
    outcomes = _ClusterOutcomes(contents, cluster, takers)
    reported: set[ObjectIdentity] = set()
    for content in contents:
        for effect in comparison.find_effects(content, takers):
            identity = get_object_identity(effect.manifest)
            ends = effect.effect in (ContentEffect.REMOVED, ContentEffect.LEFT)
            if ends and (
                owners.get(identity, set()) - {str(content.address)} or identity in reported
            ):
                # Another content keeps it, or ends it, too.
                continue
            if ends:
                reported.add(identity)
            outcome = outcomes.compute(effect)
            key = effect.manifest.workload_key
            yield ContentChange(
                address=content.address,
                cluster=content.cluster,
                object=effect.manifest.title,
                effect=effect.effect,
                pod_kind=POD if effect.is_workload else "",
                pods=effect.pods,
                has_rows=cluster.has_rows(str(content.address), key),
                site_id=cluster.site_id,
                workload=f"{cluster.name}/{key}",
                severity=outcome.severity,
                data=outcome.data,
                extent=describe_extent(effect.manifest) if ends else effect.extent,
                remaining=effect.remaining,
            )


def _collect_owners(contents: Iterable[ClusterContent]) -> dict[ObjectIdentity, set[str]]:
    """Return the contents that have each object on their cluster after the plan, by their owner."""
    owners: dict[ObjectIdentity, set[str]] = {}
    for content in contents:
        stays = content.ending is ContentEffect.STAYS
        for identity in collect_object_identities(content.before if stays else content.after):
            owners.setdefault(identity, set()).add(content.owner)
    return owners


def _find_takers(contents: Iterable[ClusterContent], kept: Collection[ObjectIdentity]) -> _Takers:
    """Return the ended objects that take others along."""
    namespaces: set[str] = set()
    kinds: set[tuple[str, str]] = set()
    for content in contents:
        if content.ending is ContentEffect.STAYS:
            continue
        before = [
            manifest
            for manifest in expand_envelopes(content.before)
            if get_object_identity(manifest) not in kept
        ]
        namespaces |= collect_namespace_names(before)
        for definition in select_custom_definitions(before):
            spec = get_mapping(definition.body, "spec")
            kinds.add((get_text(spec, "group"), get_text(spec, "names", "kind")))
    return _Takers(frozenset(namespaces), frozenset(kinds))


class _ClusterOutcomes:
    """Outcomes of the ends of objects of a cluster."""

    def __init__(
        self, contents: Sequence[ClusterContent], cluster: ClusterRows, takers: _Takers
    ) -> None:
        self._contents = contents
        self._cluster = cluster
        self._takers = takers
        self._needed: NeededObjects | None = None
        self._storage: StorageObjects | None = None

    def compute(self, effect: _ObjectEffect) -> Outcome:
        """Return the severity of an effect, and the fate of the data."""
        manifest = effect.manifest
        if effect.effect in (ContentEffect.SCALED_IN, ContentEffect.STOPPED):
            return compute_scale_in(manifest, self._get_storage(), remaining=effect.remaining)
        if effect.effect not in _ENDS_OR_WEAKENINGS:
            return Outcome()
        outcome = compute_end(
            manifest,
            self._get_storage(),
            runs_pods=effect.is_workload,
            is_needed=needs_pods_to_hurt(manifest) and self._get_needed().has_need(manifest),
            ends_with_namespace=manifest.namespace in self._takers.namespaces,
        )
        if effect.returns and outcome.data not in (DataFate.LOST, DataFate.UNKNOWN):
            return replace(outcome, severity=ConsequenceSeverity.NONE)
        return outcome

    def _get_storage(self) -> StorageObjects:
        if self._storage is None:
            before = chain.from_iterable(content.before for content in self._contents)
            self._storage = StorageObjects((*expand_envelopes(before), *self._cluster.objects))
        return self._storage

    def _get_needed(self) -> NeededObjects:
        """Return what the pods need that run on the cluster after the plan."""
        if self._needed is None:
            after = chain.from_iterable(
                content.before if content.ending is ContentEffect.STAYS else content.after
                for content in self._contents
            )
            remaining = {
                get_object_identity(manifest): manifest
                for manifest in (*expand_envelopes(after), *self._cluster.objects)
                if not self._takers.takes(manifest)
            }
            self._needed = NeededObjects(tuple(remaining.values()))
        return self._needed


_ENDS_OR_WEAKENINGS: Final = (ContentEffect.REMOVED, ContentEffect.LEFT, ContentEffect.WEAKENED)


class _ContentComparison:
    """Comparison of contents; clusters with the same content share it."""

    def __init__(self) -> None:
        # By the contents' ids, what becomes of them, and what takes objects along.
        self._effects: dict[
            tuple[int, int, ContentEffect, bool, frozenset[str], _Takers], list[_ObjectEffect]
        ] = {}

    def find_effects(self, content: ClusterContent, takers: _Takers) -> list[_ObjectEffect]:
        """Return the effects on the objects of a content."""
        ids = (id(content.before), id(content.after))
        fate = (content.ending, content.is_recreated)
        key = (*ids, *fate, content.recreated_workloads, takers)
        if key not in self._effects:
            self._effects[key] = list(_compare_contents(content, takers))
        return self._effects[key]


def _compare_contents(content: ClusterContent, takers: _Takers) -> Iterator[_ObjectEffect]:
    """Yield the effects on the objects before the plan, in their order."""
    before = tuple(expand_envelopes(content.before))
    after = {
        get_object_identity(manifest): manifest for manifest in expand_envelopes(content.after)
    }
    workloads_before = collect_workloads(before).by_key
    workloads_after = collect_workloads(tuple(after.values())).by_key
    stays = content.ending is ContentEffect.STAYS
    for manifest in before:
        workload = workloads_before.get(manifest.workload_key)
        new_manifest = after.get(get_object_identity(manifest))
        if new_manifest is None or (takers.takes(manifest) and not stays):
            runs_pods = workload is not None and workload.replicas > 0
            pods = _count_known_pods(workload) if workload is not None else 0
            yield _ObjectEffect(manifest, content.ending, runs_pods, pods)
            continue
        if content.is_recreated:
            yield _ObjectEffect(manifest, content.ending, is_workload=False, pods=0, returns=True)
        weakening = describe_weaker_limits(manifest, new_manifest)
        if weakening:
            yield _ObjectEffect(
                manifest, ContentEffect.WEAKENED, is_workload=False, pods=0, extent=weakening
            )
        new_workload = workloads_after.get(manifest.workload_key)
        if workload is not None and new_workload is not None:
            is_recreated = (
                content.is_recreated or manifest.workload_key in content.recreated_workloads
            )
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
        yield _ObjectEffect(
            manifest, effect, is_workload=True, pods=ended, remaining=after.replicas
        )
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
