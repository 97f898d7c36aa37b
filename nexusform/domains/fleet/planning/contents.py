"""What state holds of a placement, read and written: its computed attributes, and in its private note what it
brought where: resource snapshots with their objects, and what stands on each cluster. Every object once:
    {"snapshots": [{"index", "hash", "objects": [hash...]}, ...],   oldest first; a run may name these
     "content":   {cluster: {"objects": [hash...], "overrides", "failure", "said", "refused"}, ...},
     "bodies":    {hash: body, ...}}
A cluster stands in `content` only where it has something else than the objects of the snapshot that its
binding points to: overrides changed them, some belong to others (`refused`), or the snapshot is pruned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from nexusform.documents.yaml_text import read_yaml
from nexusform.domains.fleet.importers.api_defaults import with_defaults
from nexusform.domains.fleet.importers.fleet_model import FleetPlacement
from nexusform.domains.fleet.importers.hub_objects import as_written
from nexusform.domains.fleet.planning.overrides import Identity, Rendered
from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    BindingState,
    Condition,
    Decision,
    PolicySnapshot,
)
from nexusform.domains.fleet.scheduling.decisions import SCHEDULED, SchedulingStatus
from nexusform.domains.fleet.scheduling.eviction import Eviction
from nexusform.domains.fleet.scheduling.status import ClusterStatus, FailedObject, PlacementStatus
from nexusform.domains.pods.importers.kubernetes_manifests import (
    Manifest,
    canonical_text,
    fingerprint,
    manifest_of,
)
from nexusform.plain_data import has_unknown

SNAPSHOTS: Final = "snapshots"
_CONTENT, _BODIES = "content", "bodies"
_DIGITS: Final = 32
PREDICTED: Final = "predicted"
# Kinds whose availability is seen, and data that is available once applied; of others it is not known.
_TRACKED: Final = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("apps", "DaemonSet"),
        ("", "Service"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("policy", "PodDisruptionBudget"),
        ("", "Namespace"),
        ("", "ConfigMap"),
        ("", "Secret"),
        ("", "ServiceAccount"),
        ("rbac.authorization.k8s.io", "Role"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("networking.k8s.io", "NetworkPolicy"),
        ("storage.k8s.io", "StorageClass"),
        ("scheduling.k8s.io", "PriorityClass"),
        ("placement.kubernetes-fleet.io", "ClusterResourceEnvelope"),
        ("placement.kubernetes-fleet.io", "ResourceEnvelope"),
    }
)


class Loss(Struct, frozen=True):
    """Why a placement does not get an object on a cluster: who has it (an address), and what the hub says.
    `raced`: both come in this plan.
    """

    owner: str
    message: str
    raced: bool = False

    @property
    def reason(self) -> str:
        """What the hub calls it."""
        return "NotTakenOver" if self.message.startswith("no ownership") else "FailedToTakeOver"


class ResourceSnapshot(Struct, frozen=True):
    """What a placement selected at one time, under a number that counts from 0."""

    index: int
    hash: str
    objects: tuple[Manifest, ...]


class Contents(Struct, frozen=True):
    """The snapshots that are there, oldest first, and what stands on the clusters that have anything."""

    snapshots: tuple[ResourceSnapshot, ...] = ()
    on_cluster: Mapping[str, Rendered] = {}

    @property
    def latest(self) -> ResourceSnapshot | None:
        """The newest snapshot."""
        return self.snapshots[-1] if self.snapshots else None

    def snapshot(self, index: int | None) -> ResourceSnapshot | None:
        """The snapshot with a number; None when it never was, or is pruned."""
        return next((snapshot for snapshot in self.snapshots if snapshot.index == index), None)


def with_snapshot(
    snapshots: tuple[ResourceSnapshot, ...], objects: tuple[Manifest, ...], limit: int
) -> tuple[ResourceSnapshot, ...]:
    """The snapshots once these objects have one. Where they differ from the newest, room is made first: of
    all that are there, used or not, the newest `limit` less one are left.

    Source: KubeFleet pkg/utils/controller/resource_snapshot_resolver.go.
    """
    digest = fingerprint(objects)
    index = 0
    if snapshots:
        if snapshots[-1].hash == digest:
            return snapshots
        index = snapshots[-1].index + 1
    newest = snapshots[len(snapshots) - limit + 1 :] if len(snapshots) >= limit else snapshots
    return (*newest, ResourceSnapshot(index, digest, objects))


def body_hash(manifest: Manifest) -> str:
    """What an object is kept under."""
    return sha256(canonical_text(manifest.body)).hexdigest()[:_DIGITS]


def compared_hash(manifest: Manifest) -> str:
    """A hash of an object as a hub holds it: what a server adds to it makes no difference."""
    return sha256(canonical_text(with_defaults(as_written(manifest.body)))).hexdigest()


def availability_tracked(manifests: Iterable[Manifest]) -> bool:
    """Whether the availability of every object can be seen."""
    return all((manifest.group, manifest.kind) in _TRACKED for manifest in manifests)


def has_resources(binding: Binding) -> bool:
    """Whether a cluster has objects of a binding: it is bound, or waits for being deleted after it was."""
    if binding.state is BindingState.UNSCHEDULED:
        return binding.previous_state is BindingState.BOUND
    return binding.state is BindingState.BOUND


# --- in state: the note ------------------------------------------------------------------------


def is_noted(note: Mapping[str, Any]) -> bool:
    """Return whether state holds contents; an imported placement has none before its first plan."""
    return SNAPSHOTS in note


def read_contents(
    note: Mapping[str, Any], bindings: Iterable[Binding], known: Mapping[str, Manifest] | None = None
) -> Contents:
    """The contents that state noted. Objects that stand among `known` (by hash) are these, so that it is
    still told on which line they were written.
    """
    objects = _noted_objects(note, known or {})
    snapshots = tuple(
        ResourceSnapshot(int(noted["index"]), str(noted["hash"]), _objects(noted["objects"], objects))
        for noted in note.get(SNAPSHOTS) or ()
    )
    by_index = {snapshot.index: snapshot for snapshot in snapshots}
    by_cluster = note.get(_CONTENT) or {}
    on_cluster: dict[str, Rendered] = {}
    for binding in bindings:
        if not has_resources(binding):
            continue
        noted = by_cluster.get(binding.cluster)
        snapshot = by_index.get(-1 if binding.resource_snapshot is None else binding.resource_snapshot)
        if noted is not None:
            on_cluster[binding.cluster] = _noted_rendering(noted, objects)
        elif snapshot is not None:
            on_cluster[binding.cluster] = Rendered(snapshot.objects)
    return Contents(snapshots, on_cluster)


def _noted_objects(note: Mapping[str, Any], known: Mapping[str, Manifest]) -> dict[str, Manifest]:
    """The objects that a note speaks of, by hash."""
    objects: dict[str, Manifest] = {}
    for digest, body in (note.get(_BODIES) or {}).items():
        manifest = known.get(digest) or manifest_of(body)
        if manifest is not None:
            objects[digest] = manifest
    return objects


def _noted_rendering(noted: Mapping[str, Any], objects: Mapping[str, Manifest]) -> Rendered:
    """What a note says that one cluster has."""
    return Rendered(
        _objects(noted["objects"], objects),
        str(noted.get("overrides") or ""),
        str(noted.get("failure") or ""),
        tuple(Identity(*fields) for fields in noted.get("refused") or ()),
        tuple(noted["picked"]) if "picked" in noted else None,
        str(noted.get("said") or ""),
    )


def _objects(digests: Iterable[str], objects: Mapping[str, Manifest]) -> tuple[Manifest, ...]:
    return tuple(objects[digest] for digest in digests if digest in objects)


def write_contents(contents: Contents, bindings: Iterable[Binding]) -> dict[str, Any]:
    """The contents as members of a note, for the bindings as they stand."""
    bodies = _Bodies()
    snapshots = [
        {"index": snapshot.index, "hash": snapshot.hash, "objects": bodies.keep(snapshot.objects)}
        for snapshot in contents.snapshots
    ]
    digests_of = {snapshot["index"]: snapshot["objects"] for snapshot in snapshots}
    # Only of clusters that have anything else than their snapshot says.
    content: dict[str, Any] = {}
    for binding in bindings:
        rendered = contents.on_cluster.get(binding.cluster)
        if rendered is None:
            continue
        objects = bodies.keep(rendered.manifests)
        otherwise = rendered.digest or rendered.failure or rendered.overrides
        if otherwise or objects != digests_of.get(binding.resource_snapshot):
            content[binding.cluster] = {
                "objects": objects,
                "overrides": rendered.digest,
                "failure": rendered.failure,
            }
            if rendered.overrides is not None:
                content[binding.cluster]["picked"] = list(rendered.overrides)
            if rendered.said:
                content[binding.cluster]["said"] = rendered.said
            if rendered.refused:
                content[binding.cluster]["refused"] = [list(names) for names in rendered.refused]
    return {SNAPSHOTS: snapshots, _CONTENT: content, _BODIES: dict(sorted(bodies.by_digest.items()))}


class _Bodies:
    # The bodies of objects, each once. Many clusters share lists and manifests: each is looked at once.
    def __init__(self) -> None:
        self.by_digest: dict[str, Any] = {}
        self._digests: dict[int, str] = {}  # by the identity of a manifest
        self._lists: dict[int, list[str]] = {}  # by that of a list

    def keep(self, manifests: Sequence[Manifest]) -> list[str]:
        """The digests of these objects, whose bodies are kept."""
        digests = self._lists.get(id(manifests))
        if digests is None:
            digests = self._lists[id(manifests)] = [self._keep_one(manifest) for manifest in manifests]
        return digests

    def _keep_one(self, manifest: Manifest) -> str:
        digest = self._digests.get(id(manifest))
        if digest is None:
            digest = self._digests[id(manifest)] = body_hash(manifest)
            self.by_digest[digest] = manifest.body
        return digest


def objects_on_clusters(
    attributes: Mapping[str, Any], note: Mapping[str, Any] | None
) -> dict[str, tuple[Manifest, ...]] | None:
    """The objects of a placement of state on each cluster that has any; None when state does not tell."""
    if not note or not is_noted(note):
        return None
    if not note.get(_BODIES):
        return {}
    contents = read_contents(note, read_bindings(attributes))
    return {cluster: rendered.manifests for cluster, rendered in contents.on_cluster.items()}


# --- in state: attributes ----------------------------------------------------------------------


def read_bindings(attributes: Mapping[str, Any]) -> tuple[Binding, ...]:
    """The bindings of an object in state, in name order."""
    bindings = attributes.get("bindings")
    if not isinstance(bindings, Mapping):
        return ()
    return tuple(_binding(cluster, bindings[cluster]) for cluster in sorted(bindings))


def _binding(cluster: str, values: Mapping[str, Any]) -> Binding:
    previous = values.get("previous_state")
    return Binding(
        cluster=cluster,
        state=BindingState(values["state"]),
        policy_snapshot=int(values.get("policy_snapshot") or 0),
        affinity_score=_whole(values.get("affinity_score")),
        topology_spread_score=_whole(values.get("topology_spread_score")),
        previous_state=BindingState(previous) if previous else None,
        resource_snapshot=_whole(values.get("resource_snapshot")),
        deleting=values.get("deleting") is True,  # only a hub shows that
    )


def _whole(value: Any) -> int | None:
    return None if value is None else int(value)


def write_bindings(bindings: Iterable[Binding], provenance: Mapping[str, str]) -> dict[str, Any]:
    """Bindings as an attribute; `provenance` of those that stand as they stood."""
    return {
        binding.cluster: {
            "state": str(binding.state),
            "previous_state": str(binding.previous_state) if binding.previous_state else None,
            "affinity_score": binding.affinity_score,
            "topology_spread_score": binding.topology_spread_score,
            "policy_snapshot": binding.policy_snapshot,
            "resource_snapshot": binding.resource_snapshot,
            "provenance": provenance.get(binding.cluster, PREDICTED),
        }
        for binding in bindings
    }


def read_snapshot(attributes: Mapping[str, Any]) -> PolicySnapshot | None:
    """The policy snapshot of an object in state."""
    values = attributes.get("policy_snapshot")
    if not isinstance(values, Mapping) or has_unknown(dict(values)):
        return None
    return PolicySnapshot(int(values["index"]), str(values["hash"]), _whole(values.get("number_of_clusters")))


def write_snapshot(snapshot: PolicySnapshot) -> dict[str, Any]:
    """The policy snapshot as an attribute."""
    return {
        "index": snapshot.index,
        "hash": snapshot.hash,
        "number_of_clusters": snapshot.number_of_clusters,
    }


def write_conditions(conditions: Iterable[Condition]) -> list[dict[str, Any]]:
    """Conditions as an attribute."""
    return [
        {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
        }
        for condition in conditions
    ]


def read_conditions(values: Any) -> tuple[Condition, ...]:
    """Conditions of an object in state."""
    return tuple(
        Condition(
            str(condition["type"]),
            str(condition["status"]),
            str(condition["reason"]),
            str(condition["message"]),
        )
        for condition in values or ()
    )


def write_statuses(status: PlacementStatus) -> list[dict[str, Any]]:
    """A status per cluster, as an attribute."""
    return list(map(_cluster_status_attribute, status.clusters))


def _cluster_status_attribute(status: ClusterStatus) -> dict[str, Any]:
    attribute: dict[str, Any] = {
        "cluster_name": status.cluster,
        "observed_resource_index": status.observed_resource_index,
        "conditions": write_conditions(status.conditions),
    }
    if status.failed:
        attribute["failed_placements"] = [asdict(failed) for failed in status.failed]
    return attribute


def read_status(attributes: Mapping[str, Any]) -> PlacementStatus:
    """The status of an object in state."""
    statuses = attributes.get("placement_statuses") or ()
    clusters = tuple(map(_cluster_status, statuses))
    return PlacementStatus(read_conditions(attributes.get("conditions")), clusters)


def _cluster_status(attribute: Mapping[str, Any]) -> ClusterStatus:
    failed_placements = attribute.get("failed_placements") or ()
    return ClusterStatus(
        str(attribute["cluster_name"] or ""),
        read_conditions(attribute["conditions"]),
        _whole(attribute.get("observed_resource_index")),
        tuple(FailedObject(**failed) for failed in failed_placements),
    )


class SelectedObject(Struct, frozen=True):
    """An object of the hub that a placement brings; "" where it has no group or namespace."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str


class RecordedPlacement(Struct, frozen=True):
    """A placement as state has it. `api_version` is that of its manifest, "" when it is written as blocks."""

    written: FleetPlacement
    api_version: str
    bindings: tuple[Binding, ...]
    status: PlacementStatus
    selected: tuple[SelectedObject, ...]


def read_placement(attributes: Mapping[str, Any], written: FleetPlacement) -> RecordedPlacement:
    """A placement in state. `written` is what its resource type reads from the same attributes."""
    selected = attributes.get("selected_resources") or ()
    return RecordedPlacement(
        written,
        _api_version(attributes.get("manifest")),
        read_bindings(attributes),
        read_status(attributes),
        tuple(map(_selected_object, selected)),
    )


def _selected_object(attribute: Mapping[str, Any]) -> SelectedObject:
    names = SelectedObject.__struct_fields__
    return SelectedObject(**{name: attribute.get(name) or "" for name in names})


def _api_version(manifest: Any) -> str:
    """The apiVersion of a manifest as text; "" where there is none."""
    documents = read_yaml("manifest", manifest).documents if isinstance(manifest, str) else ()
    body = documents[0].data if documents else None
    version = body.get("apiVersion") if isinstance(body, dict) else None
    return version if isinstance(version, str) else ""


def read_scheduling(attributes: Mapping[str, Any], held: Iterable[Binding]) -> SchedulingStatus | None:
    """What the scheduler wrote last of an object in state, with its bindings as they stand now."""
    conditions = attributes.get("conditions")
    if not conditions:
        return None
    statuses = attributes.get("placement_statuses") or ()
    by_cluster = {binding.cluster: binding for binding in held}
    cluster_names = [str(status.get("cluster_name") or "") for status in statuses]
    unselected = [
        Decision("", False, str(status["conditions"][0]["message"]))
        for status in statuses
        if not status.get("cluster_name") and status.get("conditions")
    ]
    scheduled = read_conditions(conditions[:1])[0]
    return SchedulingStatus(
        Condition(SCHEDULED, scheduled.status, scheduled.reason, scheduled.message),
        tuple(by_cluster[name] for name in cluster_names if name in by_cluster),
        tuple(unselected),
    )


def is_fulfilled(attributes: Mapping[str, Any]) -> bool:
    """Whether the Scheduled condition of an object in state is True."""
    conditions = attributes.get("conditions")
    if not isinstance(conditions, list) or not conditions:
        return False
    return bool(conditions[0].get("status") == "True")


def write_eviction(name: str, eviction: Eviction) -> dict[str, Any]:
    """What became of an eviction, as the placement notes it."""
    return {
        "name": name,
        "cluster_name": eviction.cluster,
        "valid": eviction.valid,
        "executed": eviction.executed,
        "reason": eviction.message,
    }
