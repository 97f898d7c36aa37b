"""Objects of placements and manifests on clusters, before and after a plan."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from nexusform.domains.fleet.importers.fleet_records import FleetPlacement, HubObjects
from nexusform.domains.fleet.planning.fleet_snapshot import select_instances
from nexusform.domains.fleet.planning.foreign_field_merge import build_object
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.planning.placement_records import list_cluster_objects, read_bindings
from nexusform.domains.fleet.planning.planned_hub import get_hub_manifests, read_prior_object
from nexusform.domains.fleet.planning.resource_selection import HubIndex, select_resources
from nexusform.domains.fleet.scheduling.bindings import (
    collect_clusters,
    collect_clusters_with_resources,
    select_scheduled_bindings,
)
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import get_text
from nexusform.planning.instances.instance import Instance
from nexusform.plans.plan import Action, ContentEffect
from nexusform.resources.address import Address

_NOTHING: Final[tuple[Manifest, ...]] = ()


class ClusterContent(NamedTuple):
    """Objects of a placement or manifest on one cluster, before and after the plan.

    `cluster` is its name in reports, `cluster_id` its id (of a member with an unknown cluster, the
    name). `ending` is the effect on an object that is missing afterwards: all of them, if the
    placement ends or leaves the cluster. With `is_recreated`, all objects are deleted before the
    cluster gets those of `after`. `owner` names the object of the hub that has those of `after`.
    `recreated_workloads` are keys of workloads that are re-created. `object_id` is the type and id
    of the placement or manifest: one that is deleted may be created again at another address.
    """

    address: Address
    cluster: str
    cluster_id: str
    before: tuple[Manifest, ...]
    after: tuple[Manifest, ...]
    ending: ContentEffect = ContentEffect.REMOVED
    is_recreated: bool = False
    owner: str = ""
    recreated_workloads: frozenset[str] = frozenset()
    object_id: tuple[str, str] = ("", "")

    @property
    def is_changed(self) -> bool:
        """Whether the content ends, stays unmanaged, or changes."""
        is_recreated = self.is_recreated or bool(self.recreated_workloads)
        return is_recreated or self.before != self.after


class MemberEnds(NamedTuple):
    """Members on which the objects of a placement stay when its binding ends, by name.

    `forgotten` ones leave the state only. A member that leaves the fleet keeps its objects, unless
    its cluster is `destroyed`, too.
    """

    forgotten: frozenset[str] = frozenset()
    destroyed: frozenset[str] = frozenset()

    def keeps_objects(self, placement: PlacementPlan, cluster: str) -> bool:
        """Return whether the objects of a placement stay on a cluster that it leaves."""
        members = placement.selection.clusters
        leaves_fleet = (
            cluster not in members.labels
            or cluster in members.leaving
            or cluster in placement.rejoining_members
        )
        return cluster in self.forgotten or (leaves_fleet and cluster not in self.destroyed)


def list_placement_contents(
    placement: PlacementPlan,
    cluster_ids: Mapping[str, str],
    ends: MemberEnds,
    recreated_workloads: frozenset[str],
) -> Iterator[ClusterContent]:
    """Yield the content of each cluster that a planned placement has before or after the plan."""
    # With External, staged runs distribute what is re-created on the hub.
    recreated = frozenset() if placement.spec.is_external else recreated_workloads
    address = placement.spec.instance.address
    applied = placement.current.applied.on_cluster
    final = placement.compute_final_resources()
    # Their bindings may stay until a rollout removes them.
    departing = placement.departed_clusters & collect_clusters(
        select_scheduled_bindings(placement.spec.prior_bindings)
    )
    for cluster in sorted({*applied, *final}):
        before = applied[cluster].manifests if cluster in applied else _NOTHING
        after = final[cluster].manifests if cluster in final else _NOTHING
        content = ClusterContent(
            address,
            cluster,
            cluster_ids.get(cluster, cluster),
            before,
            after,
            owner=_name_owner(placement.spec.instance),
            object_id=_get_object_id(placement.spec.instance),
        )
        is_deleted_first = cluster in placement.evicted_clusters or (
            cluster in placement.rejoining_members and cluster in ends.destroyed
        )
        if cluster in applied and (cluster not in final or cluster in departing):
            stays = ends.keeps_objects(placement, cluster)
            ending = ContentEffect.STAYS if stays else ContentEffect.LEFT
            yield content._replace(after=_NOTHING, ending=ending)
        elif before and is_deleted_first:
            # The cluster gets the objects again.
            yield content._replace(ending=ContentEffect.LEFT, is_recreated=True)
        else:
            yield content._replace(recreated_workloads=recreated if before else frozenset())


def _name_owner(instance: Instance) -> str:
    """Return a name of the object of the hub: another one for one that is created first."""
    is_second = instance.action is Action.REPLACE_CREATE_FIRST
    return f"{instance.address} (new)" if is_second else str(instance.address)


def _get_object_id(instance: Instance) -> tuple[str, str]:
    """Return type and id of an object; its address in place of an unknown id."""
    values = instance.before if instance.is_removed else instance.planned
    object_id = get_text(values, "id")
    return (instance.address.type, object_id or str(instance.address))


def join_recreated_contents(contents: Iterable[ClusterContent]) -> Iterator[ClusterContent]:
    """Yield the contents; one that ends and its successor on the same cluster as one."""
    contents = tuple(contents)
    successors = {
        (content.object_id, content.cluster): content for content in contents if not content.before
    }
    ended = {
        (content.object_id, content.cluster): content
        for content in contents
        if content.ending is ContentEffect.LEFT
    }
    for content in contents:
        key = (content.object_id, content.cluster)
        if content is ended.get(key) and key in successors:
            successor = successors[key]
            # At another address, it is created after the deletion.
            is_moved = successor.address != content.address
            owner = content.owner if is_moved else successor.owner
            yield content._replace(after=successor.after, owner=owner, is_recreated=True)
        elif content is not successors.get(key) or key not in ended:
            yield content


def list_unplanned_contents(
    instances: Iterable[Instance], planned: Collection[Address], cluster_ids: Mapping[str, str]
) -> Iterator[ClusterContent]:
    """Yield the contents in state of placements: those that end, and those outside of the plan.

    `planned` are the placements whose contents after the plan are known.
    """
    instances = tuple(instances)
    hub: HubIndex | None = None
    for instance in select_instances(instances, PlanningKind.PLACEMENT):
        is_lost = instance.loses_prior_object
        if instance.before is None or (not is_lost and instance.address in planned):
            continue
        recorded = list_cluster_objects(instance.before, instance.prior_note)
        if recorded is None:
            # An imported placement: its clusters have what it selects.
            hub = hub or HubIndex(_list_prior_manifests(instances))
            recorded = _select_objects(instance, hub)
        for cluster, manifests in sorted(recorded.items()):
            content = ClusterContent(
                instance.address,
                cluster,
                cluster_ids.get(cluster, cluster),
                manifests,
                manifests,
                owner=str(instance.address),
                object_id=_get_object_id(instance),
            )
            yield _end_content(content, instance) if is_lost else content


def _end_content(content: ClusterContent, instance: Instance) -> ClusterContent:
    """Return a content that ends with its object; one that is only forgotten stays."""
    is_forgotten = instance.action is Action.FORGET
    ending = ContentEffect.STAYS if is_forgotten else ContentEffect.LEFT
    return content._replace(after=_NOTHING, ending=ending)


def _list_prior_manifests(instances: Iterable[Instance]) -> Sequence[Manifest]:
    """Return the objects on the hub in state."""
    manifests: list[Manifest] = []
    for instance in select_instances(instances, PlanningKind.MANIFEST):
        if instance.before is not None:
            manifests += get_hub_manifests(read_prior_object(instance))
    return manifests


def _select_objects(instance: Instance, hub: HubIndex) -> dict[str, tuple[Manifest, ...]]:
    """Return the objects that a placement in state selects, for each of its clusters."""
    placement = read_prior_object(instance)
    if not isinstance(placement, FleetPlacement):
        return {}
    objects = select_resources(placement, hub)
    clusters = collect_clusters_with_resources(read_bindings(instance.before))
    return dict.fromkeys(clusters, objects)


def list_direct_contents(instances: Iterable[Instance]) -> Iterator[ClusterContent]:
    """Yield the content of each manifest that a cluster gets without a placement."""
    for instance in select_instances(instances, PlanningKind.MANIFEST):
        before = _read_direct_objects(instance, is_prior=True)
        after = _read_direct_objects(instance, is_prior=False)
        if before.cluster_id:
            content = _build_direct_content(instance, before.cluster_id)._replace(
                before=before.manifests
            )
            if instance.loses_prior_object:
                yield _end_content(content, instance)
            elif before.cluster_id == after.cluster_id:
                yield content._replace(after=after.manifests)
            else:
                yield content._replace(ending=ContentEffect.LEFT)
        is_added = instance.is_replaced or before.cluster_id != after.cluster_id
        if after.cluster_id and is_added:
            content = _build_direct_content(instance, after.cluster_id)
            yield content._replace(after=after.manifests, owner=_name_owner(instance))


def _build_direct_content(instance: Instance, cluster_id: str) -> ClusterContent:
    """Build an empty content of a manifest on a cluster."""
    name = cluster_id.rpartition("/")[2]
    return ClusterContent(
        instance.address,
        name,
        cluster_id,
        _NOTHING,
        _NOTHING,
        owner=str(instance.address),
        object_id=_get_object_id(instance),
    )


def _read_direct_objects(instance: Instance, *, is_prior: bool) -> HubObjects:
    """Return the objects of a manifest in state or after the plan; none on the hub alone.

    A manifest with errors, or outside of the plan, stays as it is.
    """
    attributes = instance.before
    if not is_prior:
        is_kept = instance.is_invalid or (instance.planned is None and not instance.is_removed)
        attributes = instance.before if is_kept else instance.planned
    fleet_object = None if attributes is None else build_object(instance, attributes)
    return fleet_object if isinstance(fleet_object, HubObjects) else HubObjects(_NOTHING, "")
