"""Placements in state: computed attributes, and the private note.

The note has resource snapshots, and the resources on each cluster, every object once.

`snapshots`: [{"index", "hash", "objects": [hash...]}, ...], oldest first; a run may name these.

`content`: {cluster: {"objects": [hash...], "overrides", "failure", "said", "refused", "pending"}}.

`bodies`: {hash: body, ...}.

`cleared_later`: unreachable clusters that still have the objects of a removed binding.

`content` lists a cluster only if its resources differ from the snapshot of its binding: overrides
changed them, another owner has some (`refused`), the snapshot is pruned, or the member is
unreachable and has not applied it yet (`pending`).
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import asdict

from nexusform.documents.yaml_documents import parse_yaml
from nexusform.domains.fleet.importers.api_defaults import add_api_server_defaults
from nexusform.domains.fleet.importers.fleet_records import FleetPlacement
from nexusform.domains.fleet.importers.hub_objects import remove_server_fields
from nexusform.domains.fleet.planning.override_rendering import ObjectIdentity, RenderedResources
from nexusform.domains.fleet.scheduling.bindings import (
    SCHEDULED,
    Binding,
    BindingState,
    Condition,
    Decision,
    PolicySnapshot,
    SchedulingStatus,
    index_by_cluster,
)
from nexusform.domains.fleet.scheduling.eviction import EvictionResult
from nexusform.domains.fleet.scheduling.placement_status import (
    ClusterStatus,
    FailedObject,
    PlacementStatus,
)
from nexusform.domains.pods.importers.manifest_parser import (
    Manifest,
    build_manifest,
    format_canonical_json,
    is_created_by_owner,
    remove_namespace,
)
from nexusform.json_data.plain_data import get_list, get_mapping, get_text, get_value_at_path

SNAPSHOTS: Final = "snapshots"
_CONTENT = "content"
_BODIES = "bodies"
PREDICTED: Final = "predicted"
_Record = TypeVar("_Record", bound=Struct)
# Kinds with known availability, and data that is available once applied.
_TRACKED: Final = {
    "": {"Service", "Namespace", "ConfigMap", "Secret", "ServiceAccount"},
    "apps": {"Deployment", "StatefulSet", "DaemonSet"},
    "apiextensions.k8s.io": {"CustomResourceDefinition"},
    "policy": {"PodDisruptionBudget"},
    "rbac.authorization.k8s.io": {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"},
    "networking.k8s.io": {"NetworkPolicy"},
    "storage.k8s.io": {"StorageClass"},
    "scheduling.k8s.io": {"PriorityClass"},
    "placement.kubernetes-fleet.io": {"ClusterResourceEnvelope", "ResourceEnvelope"},
}


# Key of the private note: the hash of the last cycle's rejections.
REJECTIONS: Final = "rejections"
# Key of the private note: unreachable clusters that still have to remove the objects of a binding.
CLEARED_LATER: Final = "cleared_later"
# Key of the private note: clusters whose binding depends on when others are available.
CONDITIONAL: Final = "conditional"


class OwnershipConflict(Struct, frozen=True):
    """Object on a cluster owned by another: the owner's address, the hub's message.

    `is_race` means that no placement had the object before.
    """

    owner: str
    message: str
    is_race: bool = False

    @property
    def reason(self) -> str:
        """Reason in the hub's condition, derived from the start of the message."""
        return "NotTakenOver" if self.message.startswith("no ownership") else "FailedToTakeOver"


class ResourceSnapshot(Struct, frozen=True):
    """Selected objects at one time; `index` counts from 0."""

    index: int
    hash: str
    objects: tuple[Manifest, ...]


class AppliedResources(Struct, frozen=True):
    """Resource snapshots, oldest first, and the resources on each cluster with any."""

    snapshots: tuple[ResourceSnapshot, ...] = ()
    on_cluster: Mapping[str, RenderedResources] = {}

    @property
    def latest(self) -> ResourceSnapshot | None:
        """Newest snapshot, if any."""
        return self.snapshots[-1] if self.snapshots else None

    @property
    def failed_clusters(self) -> frozenset[str]:
        """Clusters with a failed override or envelope."""
        return frozenset(cluster for cluster, content in self.on_cluster.items() if content.failure)

    @property
    def pending_clusters(self) -> frozenset[str]:
        """Clusters with a change that was pending after the last plan."""
        return frozenset(
            cluster for cluster, content in self.on_cluster.items() if content.is_pending
        )

    def find_snapshot(self, index: int | None) -> ResourceSnapshot | None:
        """Return the snapshot with this index; None if it is missing or pruned."""
        return next((snapshot for snapshot in self.snapshots if snapshot.index == index), None)


def compute_body_hash(manifest: Manifest) -> str:
    """Return the hash identifying an object in the private data of its placement in state."""
    return sha256(format_canonical_json(manifest.body)).hexdigest()[:32]


class _ObjectBody:
    """Body of an object as a cache key: equal only to itself, because bodies are immutable."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body = body

    def __hash__(self) -> int:
        return id(self.body)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ObjectBody) and self.body is other.body


@lru_cache(maxsize=8192)
def _compute_comparable_hash(body: _ObjectBody, namespace: str) -> str:
    content = add_api_server_defaults(remove_server_fields(body.body))
    metadata = {
        name: value
        for name, value in get_mapping(content, "metadata").items()
        if value not in (None, {}, [])
    }
    # A server drops that of a cluster-scoped object.
    metadata.pop("namespace", None)
    if namespace:
        metadata["namespace"] = namespace
    return sha256(format_canonical_json({**content, "metadata": metadata})).hexdigest()


def compute_comparable_hash(manifest: Manifest) -> str:
    """Return a hash of an object as a hub stores it in a resource snapshot.

    It is hashed without the fields of servers, and with the defaults of the API server.
    """
    return _compute_comparable_hash(_ObjectBody(manifest.body), manifest.namespace)


def compute_content_hash(manifests: Iterable[Manifest]) -> str:
    """Return the hash of a resource snapshot with these objects, in any order.

    Equal hashes make no new snapshot, so no rollout. Source: KubeFleet
    pkg/utils/controller/resource_selector_resolver.go (generateRawContent, sortResources).
    """
    hashes = [
        [*manifest.identity, manifest.version, compute_comparable_hash(manifest)]
        for manifest in manifests
    ]
    return sha256(format_canonical_json(sorted(hashes))).hexdigest()


# Source: KubeFleet, resourceSortOrder in resource_selector_resolver.go.
_SNAPSHOT_ORDER: Final = (
    "PriorityClass", "Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange",
    "PodDisruptionBudget", "ServiceAccount", "Secret", "ConfigMap", "StorageClass",
    "PersistentVolume", "PersistentVolumeClaim", "CustomResourceDefinition", "ClusterRole",
    "ClusterRoleBinding", "Role", "RoleBinding", "Service", "DaemonSet", "Pod",
    "ReplicationController", "ReplicaSet", "Deployment", "HorizontalPodAutoscaler",
    "StatefulSet", "Job", "CronJob", "IngressClass", "Ingress", "APIService",
    "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
)  # fmt: skip
_KIND_POSITIONS: Final = {kind: position for position, kind in enumerate(_SNAPSHOT_ORDER)}


def sort_selected_objects(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Return objects in the order of a hub's resource snapshot.

    By kind, then group and version, then namespace and name; unknown kinds are last.
    """
    return sorted(
        manifests,
        key=lambda manifest: (
            _KIND_POSITIONS.get(manifest.kind, len(_SNAPSHOT_ORDER)),
            manifest.group,
            manifest.version,
            manifest.kind,
            f"{manifest.namespace}/{manifest.name}",
        ),
    )


def is_availability_tracked(manifests: Iterable[Manifest]) -> bool:
    """Return True if a hub tracks the availability of every object, by its kind."""
    return all(manifest.kind in _TRACKED.get(manifest.group, ()) for manifest in manifests)


def read_applied_resources(
    note: Mapping[str, Any], bindings: Iterable[Binding], known_objects: Mapping[str, Manifest] = {}
) -> AppliedResources:
    """Read the applied resources from the private data of a placement in state.

    `note` is the private data. The result is for the clusters of `bindings` with resources.

    Objects in `known_objects` (by hash) replace equal recorded ones: only they have source
    lines. Left out are objects created by their owners: earlier versions recorded them, but no
    hub selects them.
    """
    objects: dict[str, Manifest] = {}  # by hash
    identities = {manifest.identity for manifest in known_objects.values()}
    for digest, body in get_mapping(note, _BODIES).items():
        manifest = known_objects.get(digest) or build_manifest(body)
        if manifest is not None and manifest.identity not in identities:
            # Earlier versions recorded a namespace of custom cluster-scoped objects.
            without_namespace = remove_namespace(manifest)
            if without_namespace.identity in identities:
                manifest = known_objects.get(
                    compute_body_hash(without_namespace), without_namespace
                )
        if manifest is not None and not is_created_by_owner(manifest):
            objects[digest] = manifest
    snapshots = tuple(
        _read_snapshot(int(record["index"]), _select_objects(record["objects"], objects))
        for record in get_list(note, SNAPSHOTS)
    )
    by_index: dict[int | None, ResourceSnapshot] = {
        snapshot.index: snapshot for snapshot in snapshots
    }
    by_cluster = get_mapping(note, _CONTENT)
    on_cluster: dict[str, RenderedResources] = {}
    for binding in bindings:
        if not binding.has_resources:
            # Nothing is on the cluster.
            continue
        record = by_cluster.get(binding.cluster)
        snapshot = by_index.get(binding.resource_snapshot)
        # Its resources differ from the snapshot.
        if record is not None:
            on_cluster[binding.cluster] = RenderedResources(
                manifests=_select_objects(record["objects"], objects),
                digest=get_text(record, "overrides"),
                failure=get_text(record, "failure"),
                conflicting_objects=tuple(
                    ObjectIdentity(*fields) for fields in get_list(record, "refused")
                ),
                overrides=tuple(get_list(record, "picked")),
                reported_failure=get_text(record, "said"),
                is_pending=record.get("pending") is True,
            )
        elif snapshot is not None:
            on_cluster[binding.cluster] = RenderedResources(snapshot.objects)
    return AppliedResources(snapshots, on_cluster)


def _read_snapshot(index: int, objects: tuple[Manifest, ...]) -> ResourceSnapshot:
    """Return a recorded snapshot.

    Its hash is computed from the objects, because a state may have the hash of an earlier rule.
    """
    return ResourceSnapshot(index, compute_content_hash(objects), objects)


def _select_objects(
    digests: Iterable[str], objects: Mapping[str, Manifest]
) -> tuple[Manifest, ...]:
    """Return the objects with these hashes.

    Hashes missing in `objects` are left out: their objects are unreadable, or never selected.
    """
    return tuple(objects[digest] for digest in digests if digest in objects)


def write_applied_resources(
    applied: AppliedResources, bindings: Iterable[Binding]
) -> dict[str, Any]:
    """Return the applied resources on the clusters of `bindings` as private data for the state.

    Of its keys, "picked" has names of overrides, "refused" objects with other owners, and "said"
    the failure reported by the hub.
    """
    bodies = _ObjectBodyCollector()
    snapshots = [
        {
            "index": snapshot.index,
            "hash": snapshot.hash,
            "objects": bodies.add_manifests(snapshot.objects),
        }
        for snapshot in applied.snapshots
    ]
    # Of a snapshot's objects.
    digests_of = {snapshot["index"]: snapshot["objects"] for snapshot in snapshots}
    # Of clusters with differences from their snapshot.
    content: dict[str, Any] = {}
    for binding in bindings:
        rendered = applied.on_cluster.get(binding.cluster)
        # No resources on the cluster.
        if rendered is None:
            continue
        digests = bodies.add_manifests(rendered.manifests)
        has_differences = (
            rendered.digest or rendered.failure or rendered.overrides or rendered.is_pending
        )
        if has_differences or digests != digests_of.get(binding.resource_snapshot):
            content[binding.cluster] = {
                "objects": digests,
                "overrides": rendered.digest,
                "failure": rendered.failure,
            }
            content[binding.cluster]["picked"] = list(rendered.overrides)
            if rendered.reported_failure:
                content[binding.cluster]["said"] = rendered.reported_failure
            if rendered.conflicting_objects:
                content[binding.cluster]["refused"] = list(map(list, rendered.conflicting_objects))
            if rendered.is_pending:
                content[binding.cluster]["pending"] = True
    return {
        SNAPSHOTS: snapshots,
        _CONTENT: content,
        _BODIES: dict(sorted(bodies.by_digest.items())),
    }


class _ObjectBodyCollector:
    """Collector of object bodies, each once.

    Many clusters share lists and manifests, which are processed once.
    """

    def __init__(self) -> None:
        self.by_digest: dict[str, Any] = {}
        # Of each manifest, by its id().
        self._digests: dict[int, str] = {}
        # digests of each list of manifests, by its id().
        self._lists: dict[int, list[str]] = {}

    def add_manifests(self, manifests: Sequence[Manifest]) -> list[str]:
        """Add these objects and return their digests."""
        digests = self._lists.get(id(manifests))
        if digests is None:
            digests = self._lists[id(manifests)] = list(map(self._store_body, manifests))
        return digests

    def _store_body(self, manifest: Manifest) -> str:
        """Store the body of an object, unless stored already, and return its digest."""
        digest = self._digests.get(id(manifest))
        if digest is None:
            digest = self._digests[id(manifest)] = compute_body_hash(manifest)
            self.by_digest[digest] = manifest.body
        return digest


def list_cluster_objects(
    attributes: Mapping[str, Any], note: Mapping[str, Any] | None
) -> dict[str, tuple[Manifest, ...]] | None:
    """Return the objects of a placement in state by cluster.

    The result is None if its private data (`note`) does not have them.
    """
    if not note or SNAPSHOTS not in note:
        return None
    # Nothing is placed.
    if not note.get(_BODIES):
        return {}
    contents = read_applied_resources(note, read_bindings(attributes))
    return {cluster: rendered.manifests for cluster, rendered in contents.on_cluster.items()}


def remove_unselectable_objects(
    attributes: Mapping[str, Any], note: Mapping[str, Any] | None
) -> Mapping[str, Any]:
    """Return the attributes of a placement in state without objects created by their owners.

    Earlier versions recorded them and their pods, but no hub selects them.
    """
    recorded = map(build_manifest, get_mapping(note or {}, _BODIES).values())
    unselectable = [
        manifest for manifest in recorded if manifest is not None and is_created_by_owner(manifest)
    ]
    if not unselectable:
        return attributes
    identities = {manifest.identity for manifest in unselectable}
    keys = {manifest.workload_key for manifest in unselectable}
    return {
        **attributes,
        "selected_resources": [
            item
            for item in get_list(attributes, "selected_resources")
            if (item["group"], item["kind"], item["namespace"], item["name"]) not in identities
        ],
        "workloads": {
            cluster: {key: pods for key, pods in workloads.items() if key not in keys}
            for cluster, workloads in get_mapping(attributes, "workloads").items()
        },
    }


def read_bindings(attributes: Mapping[str, Any] | None) -> tuple[Binding, ...]:
    """Return the bindings of an object in state, in the order of cluster names.

    The result is () if none are known.
    """
    bindings = get_value_at_path(attributes, "bindings")
    return tuple(
        Binding(
            cluster=cluster,
            state=BindingState(values["state"]),
            # None: a binding on a hub without a known one.
            policy_snapshot=values.get("policy_snapshot") or 0,
            affinity_score=values.get("affinity_score"),
            topology_spread_score=values.get("topology_spread_score"),
            previous_state=BindingState(values["previous_state"])
            if values.get("previous_state")
            else None,
            resource_snapshot=values.get("resource_snapshot"),
            # Only a hub shows that.
            is_deleting=values.get("deleting") is True,
        )
        for cluster, values in (sorted(bindings.items()) if isinstance(bindings, Mapping) else ())
    )


def write_bindings(bindings: Iterable[Binding], provenance: Mapping[str, str]) -> dict[str, Any]:
    """Return bindings as an attribute.

    `provenance` is "observed" or "predicted" by cluster; others are predicted.
    """
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


def read_policy_snapshot(attributes: Mapping[str, Any]) -> PolicySnapshot | None:
    """Return the policy snapshot of an object in state; None if it has none."""
    values = attributes.get("policy_snapshot")
    if values is None:
        return None
    return PolicySnapshot(values["index"], values["hash"], values.get("number_of_clusters"))


def _build_text_record(kind: type[_Record], values: Mapping[str, Any]) -> _Record:
    """Build a record of texts: absent ones are empty, and unknown members are ignored."""
    return kind(**{name: get_text(values, name) for name in kind.__struct_fields__})


def read_conditions(values: Iterable[Mapping[str, Any]]) -> tuple[Condition, ...]:
    """Return the conditions of an object in state."""
    return tuple(_build_text_record(Condition, condition) for condition in values)


def build_status_attribute(status: ClusterStatus) -> dict[str, Any]:
    """Build the status of a cluster as an attribute."""
    attribute = {
        "cluster_name": status.cluster,
        "observed_resource_index": status.observed_resource_index,
        "conditions": list(map(asdict, status.conditions)),
    }
    if status.failed_objects:
        attribute["failed_placements"] = list(map(asdict, status.failed_objects))
    return attribute


def read_status(attributes: Mapping[str, Any]) -> PlacementStatus:
    """Return the status of an object in state."""
    clusters = tuple(
        ClusterStatus(
            cluster=get_text(status, "cluster_name"),
            conditions=read_conditions(status["conditions"]),
            observed_resource_index=status.get("observed_resource_index"),
            failed_objects=tuple(
                _build_text_record(FailedObject, failed)
                for failed in get_list(status, "failed_placements")
            ),
        )
        for status in get_list(attributes, "placement_statuses")
    )
    return PlacementStatus(read_conditions(get_list(attributes, "conditions")), clusters)


class SelectedObject(Struct, frozen=True):
    """Hub object selected by a placement; "" for a missing group or namespace."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str


class RecordedPlacement(Struct, frozen=True):
    """Placement in state.

    `api_version` is that of its manifest, "" for blocks.
    """

    configuration: FleetPlacement
    api_version: str
    bindings: tuple[Binding, ...]
    status: PlacementStatus
    selected_objects: tuple[SelectedObject, ...]


def read_placement(
    attributes: Mapping[str, Any], configuration: FleetPlacement
) -> RecordedPlacement:
    """Return a placement from state.

    `configuration` is read from the same attributes by its resource type.
    """
    selected_objects = (
        _build_text_record(SelectedObject, selected)
        for selected in get_list(attributes, "selected_resources")
    )
    documents = parse_yaml("manifest", get_text(attributes, "manifest")).documents
    api_version = get_text(documents[0].data, "apiVersion") if documents else ""
    return RecordedPlacement(
        configuration,
        api_version,
        read_bindings(attributes),
        read_status(attributes),
        tuple(selected_objects),
    )


def read_scheduling(
    attributes: Mapping[str, Any], bindings: Iterable[Binding]
) -> SchedulingStatus | None:
    """Return the last scheduling status of an object in state, with its current bindings.

    The result is None without conditions. Only messages of unselected clusters are known,
    without their names.
    """
    conditions = attributes.get("conditions")
    if not conditions:
        return None
    statuses = get_list(attributes, "placement_statuses")
    by_cluster = index_by_cluster(bindings)
    cluster_names = [get_text(status, "cluster_name") for status in statuses]
    unselected = [
        Decision(cluster="", is_selected=False, reason=str(status["conditions"][0]["message"]))
        for status in statuses
        # A position without a cluster.
        if not status.get("cluster_name") and status.get("conditions")
    ]
    # The first is Scheduled, with the kind as prefix.
    (scheduled,) = read_conditions(conditions[:1])
    return SchedulingStatus(
        Condition(SCHEDULED, scheduled.status, scheduled.reason, scheduled.message),
        tuple(by_cluster[name] for name in cluster_names if name in by_cluster),
        tuple(unselected),
    )


def hash_rejections(reasons: Mapping[str, str]) -> str:
    """Return the hash of the reasons of a scheduling cycle by rejected cluster; "" without any."""
    return sha256(format_canonical_json(reasons)).hexdigest()[:32] if reasons else ""


def hash_unselected_decisions(status: SchedulingStatus) -> str:
    """Return the hash of the rejections in a scheduling status."""
    return hash_rejections(
        {decision.cluster: decision.reason for decision in status.unselected_decisions}
    )


def write_eviction(name: str, eviction: EvictionResult) -> dict[str, Any]:
    """Return the result of an eviction, as recorded in `evictions` of its placement.

    `evictions` is an attribute of the placement.
    """
    return {
        "name": name,
        "cluster_name": eviction.cluster,
        "valid": eviction.is_valid,
        "executed": eviction.is_executed,
        "reason": eviction.message,
    }
