"""Objects that may keep running on a cluster, although no object of the state has them any more.

The private note of the cluster in state names who left them, so that no later pod there is certain.
A plan that reads the nodes and pods of the cluster ends the record: it knows what runs there.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity
from nexusform.diagnostics.phrases import format_list
from nexusform.domains.fleet.importers.fleet_records import FleetPlacement
from nexusform.domains.fleet.planning.binding_rows import UNREAD_MEMBERS
from nexusform.domains.fleet.planning.fleet_snapshot import UNCLEARED_PLACEMENTS, select_instances
from nexusform.domains.fleet.planning.placement_records import CLEARED_LATER, read_bindings
from nexusform.domains.fleet.planning.planned_hub import read_prior_object
from nexusform.domains.fleet.planning.uncleared_members import collect_destroyed_clusters
from nexusform.domains.fleet.scheduling.bindings import collect_clusters_with_resources
from nexusform.domains.pods.planning.pod_phase import BINDING_REMOVED
from nexusform.domains.pods.pod_kind import LEFT_OBJECTS, POD, UNREACHABLE_MEMBERS, PodLocation
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import get_list, get_mapping, get_text, list_texts
from nexusform.planning.instances.instance import Instance
from nexusform.plans.plan import PlacementAction, PlacementChange

# By cluster id: the objects that left pods there, each with its member of the fleet. "": no member
# will delete them.
LeftObjects: TypeAlias = dict[str, dict[str, str]]
_LEFT_EARLIER: Final = "objects-left-on-cluster"
_LEFT_BY_MEMBER: Final = "member-leaves-objects"
_NOTE_KEY: Final = "left_objects"
# Removals of pods on these assumptions may not happen, or only later.
_LATE_REMOVALS: Final = (UNREACHABLE_MEMBERS, UNREAD_MEMBERS, LEFT_OBJECTS)


def read_left_objects(
    instances: Iterable[Instance],
    members: Collection[str],
    members_in_doubt: Collection[str],
    observed_clusters: Collection[str],
) -> LeftObjects:
    """Return the objects that earlier plans left on clusters, from the notes of these clusters.

    A member that stays in the fleet (`members`) has deleted them, unless it is in doubt. Of
    `observed_clusters` (ids) the plan reads what runs there.
    """
    left: LeftObjects = {}
    for instance in instances:
        recorded = get_mapping(instance.prior_note, _NOTE_KEY)
        cluster_id = get_text(instance.before, "id")
        if not recorded or instance.loses_prior_object or cluster_id in observed_clusters:
            continue
        owners = {
            owner: member if member in members else ""
            for owner, member in recorded.items()
            if member not in members or member in members_in_doubt
        }
        if owners:
            left[cluster_id] = owners
    return left


def add_left_objects(
    left: Mapping[str, Mapping[str, str]],
    rows: Iterable[PlacementChange],
    instances: Iterable[Instance],
    members: Mapping[str, str],
) -> LeftObjects:
    """Return the objects `left` on clusters with those that a plan leaves, by its rows of pods.

    `members` are the names of those that stay in the fleet, by cluster id.
    """
    # By site and name; the site of a cluster outside of the targets is unknown.
    cluster_ids: dict[tuple[str, str], str] = {}
    for instance in instances:
        if instance.type.vms is not None:
            cluster_id = get_text(instance.before, "id")
            site_id, _, name = cluster_id.rpartition("/")
            cluster_ids |= {(site_id, name): cluster_id, ("", name): cluster_id}
    combined = {cluster_id: dict(owners) for cluster_id, owners in left.items()}
    for row in rows:
        if row.kind != POD or not isinstance(row.source, PodLocation):
            continue
        cluster_id = cluster_ids.get((row.site_id, row.source.cluster), "")
        is_lost = row.action is PlacementAction.LOSE and row.trigger == BINDING_REMOVED
        if row.action is PlacementAction.FORGET or is_lost:
            combined.setdefault(cluster_id, {})[str(row.address)] = ""
        elif row.action is PlacementAction.REMOVE and (row.doubt in _LATE_REMOVALS):
            owners = combined.setdefault(cluster_id, {})
            owners.setdefault(str(row.address), members.get(cluster_id, ""))
    return combined


def record_left_objects(instances: Iterable[Instance], left: LeftObjects) -> None:
    """Record the objects left on clusters in the notes of these clusters."""
    for instance in instances:
        if instance.type.vms is None or instance.is_removed:
            continue
        note: Mapping[str, Any] = (
            instance.private if instance.private is not None else instance.prior_note
        )
        attributes = instance.planned if instance.planned is not None else instance.before
        # Nothing stays on a cluster that is replaced.
        owners = {} if instance.is_replaced else left.get(get_text(attributes, "id"), {})
        if owners != get_mapping(note, _NOTE_KEY):
            other_entries = {key: value for key, value in note.items() if key != _NOTE_KEY}
            instance.private = {**other_entries, _NOTE_KEY: owners} if owners else other_entries


def warn_left_objects(
    instances: Iterable[Instance], left: LeftObjects, rows: Iterable[PlacementChange]
) -> Iterator[Diagnostic]:
    """Yield a warning at each cluster with new pods beside objects `left` by earlier plans."""
    clusters_in_doubt = {
        (row.site_id, row.target.cluster)
        for row in rows
        if row.doubt == LEFT_OBJECTS and isinstance(row.target, PodLocation)
    }
    for instance in instances:
        cluster_id = get_text(instance.before, "id")
        site_id, _, name = cluster_id.partition("/")
        if cluster_id in left and (site_id, name) in clusters_in_doubt:
            owners = format_list(sorted(left[cluster_id]), 4)
            text = (
                f"Pods of {owners} may still run on {name}, but no object of the state has them. "
                "They may use the capacity that the plan gives to other pods. Read the cluster "
                "with data kubernetes_nodes: the plan then counts what runs there."
            )
            brief = f"pods of {owners} may still run on {name}"
            yield instance.build_diagnostic(
                Problem((), _LEFT_EARLIER, text, Severity.WARNING, brief=brief)
            )


def warn_leaving_members(instances: Sequence[Instance]) -> Iterator[Diagnostic]:
    """Yield a warning for each member that the plan removes from its fleet with objects on it.

    Source: KubeFleet pkg/controllers/workapplier/controller.go (Leave).
    """
    destroyed_clusters = collect_destroyed_clusters(instances)
    placements: dict[str, set[str]] = {}
    for instance in select_instances(instances, PlanningKind.PLACEMENT):
        placement = read_prior_object(instance) if instance.prior is not None else None
        if isinstance(placement, FleetPlacement):
            names = collect_clusters_with_resources(read_bindings(instance.before))
            names.update(get_list(instance.prior_note, CLEARED_LATER))
            for name in names:
                placements.setdefault(name, set()).add(placement.key)
    for instance in select_instances(instances, PlanningKind.MEMBER):
        name = get_text(instance.before, "name")
        is_destroyed_too = get_text(instance.before, "kubernetes_cluster_id") in destroyed_clusters
        keys = placements.get(name, set()) | set(
            list_texts(instance.prior_note, UNCLEARED_PLACEMENTS)
        )
        if instance.is_destroyed and keys and not is_destroyed_too:
            owners = format_list(sorted(keys), 4)
            text = (
                f"The plan removes member {name}, but Fleet leaves the objects of {owners} on its "
                "cluster. They keep running, unmanaged. To delete them, first apply a plan in "
                "which no placement selects the member. Or delete them there."
            )
            brief = f"the objects of {owners} stay on the cluster of {name}, unmanaged"
            yield instance.build_diagnostic(
                Problem((), _LEFT_BY_MEMBER, text, Severity.WARNING, brief=brief)
            )
