"""Conversion of hub objects as listed by `kubectl get`.

The result has placements with bindings, policies and resources, and managers of objects.

Sources: KubeFleet's apis/placement/v1beta1 (bindings, snapshots); labels and annotations of Flux
and Argo CD.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity, suggest_name
from nexusform.diagnostics.phrases import format_first_items, group_by
from nexusform.documents.scalars import parse_integer
from nexusform.documents.times import format_time, parse_time
from nexusform.documents.yaml_documents import build_problem
from nexusform.domains.fleet.importers.fleet_records import format_object_key
from nexusform.domains.pods.importers.manifest_parser import (
    INVALID,
    Manifest,
    build_manifest,
    is_fleet_group,
)
from nexusform.json_data.plain_data import (
    get_list,
    get_mapping,
    get_text,
    get_value_at_path,
    list_mappings,
)
from nexusform.kubernetes.dump_script import FLEET_KINDS, build_dump_script

_PREFIX: Final = "kubernetes-fleet.io/"
_LATEST: Final = f"{_PREFIX}is-latest-snapshot"
_PARENT: Final = f"{_PREFIX}parent-CRP"
_POLICY_INDEX: Final = f"{_PREFIX}policy-index"
_RESOURCE_INDEX: Final = f"{_PREFIX}resource-index"
PART_COUNT: Final = f"{_PREFIX}number-of-resource-snapshots"
_MAX_CAPTURE_TIME: Final = timedelta(hours=1)
UNREAD_OBJECTS: Final = "unread-fleet-objects"
_STATES: Final = ("Scheduled", "Bound", "Unscheduled")
# Rest of a snapshot's name after its placement's: index and part.
_POLICY_SUFFIX: Final = re.compile(r"-(\d{1,9})")
_RESOURCE_SUFFIX: Final = re.compile(r"-(\d{1,9})-(?:snapshot|\d+)")
_OVERRIDE_LISTS: Final = ("clusterResourceOverrideSnapshots", "resourceOverrideSnapshots")
_OVERRIDE_KINDS: Final = ("ClusterResourceOverrideSnapshot", "ResourceOverrideSnapshot")

BINDING_KINDS: Final = ("ClusterResourceBinding", "ResourceBinding")
_POLICY_SNAPSHOT_KINDS: Final = ("ClusterSchedulingPolicySnapshot", "SchedulingPolicySnapshot")
_RESOURCE_SNAPSHOT_KINDS: Final = ("ClusterResourceSnapshot", "ResourceSnapshot")
# Kinds created by the hub for a placement.
HUB_CREATED_KINDS: Final = frozenset(
    {*BINDING_KINDS, *_POLICY_SNAPSHOT_KINDS, *_RESOURCE_SNAPSHOT_KINDS}
)
PLACEMENT_KINDS: Final = ("ClusterResourcePlacement", "ResourcePlacement")

# Progress of a cluster with its binding. Source: KubeFleet pkg/controllers/rollout, and
# pkg/utils/binding for failed bindings. To a hub all but the first three are failed ones.
READY = "ready"
DIFF_REPORTED = "differences reported"
WAITING = "waiting"
UNAVAILABLE = "not available"
FAILED = "failed"
OVERRIDE_FAILED = "not overridden"
_CONDITION_STEPS: Final = ("Overridden", "WorkSynchronized", "Applied", "Available")
# KubeFleet's nonTerminalBindingFailureReasons. Every other reason is a failure.
PENDING_REASONS: Final = (
    "OverriddenPending", "WorkNotSynchronizedYet", "ApplyPending", "ResourceNotAvailableYet",
)  # fmt: skip
# A reason of other versions: nothing failed, but a hub counts it like a failure.
_IN_PROGRESS: Final = "ApplyInProgress"
_OVERRIDE_ERROR_PREFIX: Final = "Failed to apply the override rules on the resources: "


class ObservedBinding(Struct, frozen=True):
    """Observed binding of a placement; numbers are snapshot indexes, None if unknown.

    `deleting` means that it is in deletion. `readiness` is one of the constants READY to
    OVERRIDE_FAILED; if overrides failed, `failure` is the reason. `overrides` are names of override
    snapshots, `apply` is the apply strategy.
    """

    cluster: str
    state: str
    previous_state: str | None
    affinity_score: int | None
    topology_spread_score: int | None
    policy_snapshot: int | None
    resource_snapshot: int | None
    deleting: bool = False
    readiness: str = READY
    failure: str = ""
    overrides: tuple[str, ...] = ()
    apply: Mapping[str, Any] | None = None


class ObservedResourceSnapshot(Struct, frozen=True):
    """Selected objects of a placement at one time, with the index of the resource snapshot."""

    index: int
    objects: tuple[Manifest, ...]


class ObservedPlacement(Struct, frozen=True):
    """Observed placement: its object, bindings by cluster, policy and resource snapshots.

    The index, the policy (None: not set) and N are those of its latest policy snapshot. The latest
    resource snapshot is the last one.

    `policy_snapshot` and `policy_index` are None if no policy snapshot was captured.
    `captured_count` is the number of captured bindings, readable or not. `rejections` are the
    reasons of clusters not picked by the last scheduling.
    """

    manifest: Manifest
    bindings: Mapping[str, ObservedBinding] = field(default_factory=dict)
    policy_snapshot: Manifest | None = None
    policy_index: int | None = None
    policy: Mapping[str, Any] | None = None
    number_of_clusters: int | None = None
    snapshots: tuple[ObservedResourceSnapshot, ...] = ()
    captured_count: int = 0
    rejections: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Id: `<name>` or `<namespace>/<name>`."""
        return format_object_key(self.manifest.namespace, self.manifest.name)


def read_placements(manifests: Sequence[Manifest]) -> dict[str, ObservedPlacement]:
    """Return the placements by key, each with the objects created for it by the hub.

    Omit those in deletion.
    """
    placements = _select_existing_placements(manifests)
    names = {(manifest.namespace, manifest.name) for manifest in placements}
    created_objects = select_fleet_objects(manifests, HUB_CREATED_KINDS)
    created = group_by(
        created_objects, lambda item: format_object_key(item.namespace, _find_parent(item, names))
    )
    observed = (_read_placement(manifest, created) for manifest in placements)
    return {placement.key: placement for placement in observed}


def select_fleet_objects(manifests: Iterable[Manifest], kinds: Collection[str]) -> list[Manifest]:
    """Return the objects of these kinds of the fleet's API, in order.

    Kinds of other APIs may have the same names.
    """
    of_kinds = [manifest for manifest in manifests if manifest.kind in kinds]
    return [manifest for manifest in of_kinds if is_fleet_group(manifest.group)]


def _select_existing_placements(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Return the placements not in deletion."""
    return [
        item
        for item in select_fleet_objects(manifests, PLACEMENT_KINDS)
        if not is_deleting(item.body)
    ]


def _read_placement(manifest: Manifest, created: Mapping[str, list[Manifest]]) -> ObservedPlacement:
    """Return a placement with its bindings and snapshots, from the objects created for it.

    `created` has these objects by the key of the placement.
    """
    placement_objects = created.get(format_object_key(manifest.namespace, manifest.name), [])
    bindings = [
        _read_binding(item, manifest.name)
        for item in select_fleet_objects(placement_objects, BINDING_KINDS)
    ]
    by_cluster: dict[str, ObservedBinding] = {}
    # None for an unreadable one.
    for binding in bindings:
        # An evicted binding in deletion may have a successor on its cluster: the successor counts.
        if binding is not None and (binding.cluster not in by_cluster or not binding.deleting):
            by_cluster[binding.cluster] = binding
    snapshots = _read_snapshots(
        select_fleet_objects(placement_objects, _RESOURCE_SNAPSHOT_KINDS), manifest.name
    )
    placement = ObservedPlacement(
        manifest, by_cluster, snapshots=snapshots, captured_count=len(bindings)
    )
    policy_snapshots = select_fleet_objects(placement_objects, _POLICY_SNAPSHOT_KINDS)
    indexes = {
        item.name: _read_index(item, _POLICY_INDEX, _POLICY_SUFFIX, manifest.name)
        for item in policy_snapshots
    }
    policy = _find_latest(policy_snapshots, indexes)
    # None captured: the policy fields stay unset.
    if policy is None:
        return placement
    return replace(
        placement,
        policy_snapshot=policy,
        policy_index=indexes[policy.name],
        policy=_get_mapping(policy.body, "spec", "policy"),
        number_of_clusters=parse_integer(
            _read_annotations(policy).get("kubernetes-fleet.io/number-of-clusters")
        ),
        rejections={
            get_text(decision, "clusterName"): get_text(decision, "reason")
            for decision in list_mappings(policy.body, "status", "targetClusters")
            if decision.get("selected") is False
        },
    )


def build_manifests(bodies: Iterable[Mapping[str, Any]]) -> tuple[Manifest, ...]:
    """Return the manifests of these object bodies, without invalid ones."""
    manifests = map(build_manifest, bodies)
    return tuple(manifest for manifest in manifests if manifest is not None)


def _read_snapshots(
    manifests: Sequence[Manifest], owner: str
) -> tuple[ObservedResourceSnapshot, ...]:
    """Return the resource snapshots of a placement (`owner`), the latest last.

    A large one has several parts.
    """
    indexes = {
        snapshot.name: _read_index(snapshot, _RESOURCE_INDEX, _RESOURCE_SUFFIX, owner)
        for snapshot in manifests
    }
    objects: dict[int, list[Manifest]] = {}
    # The first part is named `web-2-snapshot`, further ones `web-2-0`, `web-2-1`.
    for manifest in sorted(
        manifests, key=lambda snapshot: (not snapshot.name.endswith("-snapshot"), snapshot.name)
    ):
        index = indexes[manifest.name]
        if index is not None:
            bodies = list_mappings(manifest.body, "spec", "selectedResources")
            objects.setdefault(index, []).extend(build_manifests(bodies))
    latest = _find_latest(manifests, indexes)
    latest_index = indexes[latest.name] if latest is not None else None
    ordered = sorted(objects, key=lambda index: (index == latest_index, index))
    return tuple(ObservedResourceSnapshot(index, tuple(objects[index])) for index in ordered)


def read_snapshot_objects(manifests: Sequence[Manifest], index: int) -> tuple[Manifest, ...]:
    """Return the objects in the resource snapshot of this index; () without it.

    `manifests` are all snapshots of one placement.
    """
    # The placement's name.
    for owner in {manifest.labels.get(_PARENT, "") for manifest in manifests}:
        for snapshot in _read_snapshots(manifests, owner):
            if snapshot.index == index:
                return snapshot.objects
    return ()


def _read_binding(manifest: Manifest, owner: str) -> ObservedBinding | None:
    """Read the binding of the placement named `owner`.

    Return None if its cluster or state is missing.
    """
    spec = get_mapping(manifest.body, "spec")
    cluster = spec.get("targetCluster")
    if not isinstance(cluster, str) or not get_text(spec, "state"):
        return None
    state = _read_state(spec)
    score = get_mapping(spec, "clusterDecision", "clusterScore")
    progress, message = _determine_binding_progress(manifest)
    previous_state = _read_annotations(manifest).get("kubernetes-fleet.io/previous-binding-state")
    return ObservedBinding(
        cluster=cluster,
        state=state,
        previous_state=previous_state
        if state == "Unscheduled" and previous_state in _STATES
        else None,
        affinity_score=parse_integer(score.get("affinityScore"), signed=True),
        topology_spread_score=parse_integer(
            score.get("priorityScore", score.get("topologySpreadScore")), signed=True
        ),
        policy_snapshot=_parse_snapshot_index(
            spec.get("schedulingPolicySnapshotName"), owner, _POLICY_SUFFIX
        ),
        resource_snapshot=_parse_snapshot_index(
            spec.get("resourceSnapshotName"), owner, _RESOURCE_SUFFIX
        ),
        deleting=is_deleting(manifest.body),
        readiness=progress,
        failure=message.removeprefix(_OVERRIDE_ERROR_PREFIX) if progress == OVERRIDE_FAILED else "",
        overrides=tuple(list_override_names(spec)),
        apply=_get_mapping(spec, "applyStrategy"),
    )


def _read_state(spec: Mapping[str, Any]) -> str:
    """Return the state in `spec` of a binding; of an unknown one, by whether it has content."""
    state = get_text(spec, "state")
    if state in _STATES:
        return state
    return "Bound" if get_text(spec, "resourceSnapshotName") else "Scheduled"


def list_override_names(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the override snapshots in `spec` of a binding, or of a run's cluster.

    A snapshot is given as `<name>` or `<namespace>/<name>`.
    """
    cluster_overrides, namespaced_overrides = _OVERRIDE_LISTS
    for entry in (*get_list(spec, cluster_overrides), *get_list(spec, namespaced_overrides)):
        yield (
            f"{entry.get('namespace')}/{entry.get('name')}"
            if isinstance(entry, Mapping)
            else str(entry)
        )


def _determine_binding_progress(binding: Manifest) -> tuple[str, str]:
    """Return the progress of a binding's cluster and the message of its first failure.

    The progress is one of the constants READY to OVERRIDE_FAILED; the message is "" without a
    failure. A cluster without a response, or with objects that do not become available, is
    UNAVAILABLE: a failure that may end at any time. Conditions of an earlier generation do not
    count.
    """
    generation = get_value_at_path(binding.body, "metadata", "generation")
    conditions: dict[str, Mapping[str, Any]] = {}
    for condition in list_conditions(binding.body):
        if condition.get("observedGeneration", generation) == generation:
            conditions[str(condition.get("type"))] = condition
    for step in _CONDITION_STEPS:
        condition = conditions.get(step, {})
        if condition.get("status") != "False" or condition.get("reason") in PENDING_REASONS:
            continue  # no failure
        message = get_text(condition, "message")
        if step == "Overridden":
            return OVERRIDE_FAILED, message
        # A failure and a missing response have the same reason; only their messages differ.
        is_unanswered = (
            condition.get("reason") == _IN_PROGRESS or "has not yet completed" in message
        )
        if step == "Available" or is_unanswered:
            return UNAVAILABLE, ""
        return FAILED, message
    # With strategy ReportDiff.
    if get_text(conditions, "DiffReported", "status") == "True":
        return DIFF_REPORTED, ""
    return READY if get_text(conditions, "Available", "status") == "True" else WAITING, ""


def list_conditions(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the conditions in an object's status."""
    return list_mappings(body, "status", "conditions")


def is_deleting(body: Mapping[str, Any]) -> bool:
    """Return True if an object is in deletion."""
    return bool(get_value_at_path(body, "metadata", "deletionTimestamp"))


def check_observed_bindings(manifests: Iterable[Manifest]) -> Iterator[Problem]:
    """Yield a problem for each observed binding with an unknown state or no target cluster.

    An unknown state is one of a newer hub: the binding is read by whether it has content.
    """
    for binding in select_fleet_objects(manifests, BINDING_KINDS):
        spec = get_mapping(binding.body, "spec")
        state = spec.get("state")
        cluster = get_text(spec, "targetCluster")
        position = binding.find_position("spec", "state")
        if not isinstance(state, str) or not state:
            text = (
                f"{binding.title}: spec.state is missing; it must be one of {', '.join(_STATES)}."
            )
            yield build_problem(binding.file, position, INVALID, text)
        elif state not in _STATES:
            text = (
                f'{binding.title}: spec.state "{state}" is unknown; it is read as '
                f"{_read_state(spec)}.{suggest_name(state, _STATES)}"
            )
            yield build_problem(binding.file, position, UNREAD_OBJECTS, text, Severity.WARNING)
        if not cluster:
            text = f"{binding.title}: spec.targetCluster is missing."
            yield build_problem(
                binding.file, binding.find_position("spec", "targetCluster"), INVALID, text
            )


# By the field with the snapshot's name: the snapshot kind for each kind of binding, in the
# order of BINDING_KINDS.
_USED_SNAPSHOTS: Final = {
    "schedulingPolicySnapshotName": _POLICY_SNAPSHOT_KINDS,
    "resourceSnapshotName": _RESOURCE_SNAPSHOT_KINDS,
}


def find_uncaptured_kinds(manifests: Sequence[Manifest]) -> frozenset[str]:
    """Return the kinds of snapshots that bindings use, but of which no snapshot was captured."""
    used_kinds = set()
    for binding in _select_active_bindings(manifests):
        spec = get_mapping(binding.body, "spec")
        for spec_field, kinds in _USED_SNAPSHOTS.items():
            if get_text(spec, spec_field):
                used_kinds.add(kinds[BINDING_KINDS.index(binding.kind)])
        used_kinds.update(_OVERRIDE_KINDS["/" in name] for name in list_override_names(spec))
    captured_kinds = {item.kind for item in manifests if is_fleet_group(item.group)}
    return frozenset(used_kinds - captured_kinds)


def build_missing_snapshot_warnings(manifests: Sequence[Manifest]) -> Iterator[Problem]:
    """Yield a warning for each snapshot used by bindings but not captured.

    There is only one warning for a kind of which no snapshot was captured.
    """
    captured = {
        (manifest.kind, manifest.namespace, manifest.name)
        for manifest in manifests
        if is_fleet_group(manifest.group)
    }
    placements = {
        (manifest.namespace, manifest.name) for manifest in _select_existing_placements(manifests)
    }
    owners_of_latest = {
        format_object_key(item.namespace, _find_parent(item, placements))
        for item in select_fleet_objects(manifests, _RESOURCE_SNAPSHOT_KINDS)
        if item.labels.get(_LATEST) == "true"
    }
    # bindings by field and missing snapshot.
    users: dict[tuple[str, tuple[str, str, str]], list[Manifest]] = {}
    for binding in _select_active_bindings(manifests):
        for spec_field, snapshot_kinds in _USED_SNAPSHOTS.items():
            name = get_text(binding.body, "spec", spec_field)
            snapshot = (snapshot_kinds[BINDING_KINDS.index(binding.kind)], binding.namespace, name)
            if name and snapshot not in captured:
                users.setdefault((spec_field, snapshot), []).append(binding)
    uncaptured_kinds = find_uncaptured_kinds(manifests)
    reported_kinds: set[str] = set()
    for (spec_field, (kind, _namespace, name)), bindings in users.items():
        first = bindings[0]
        other_count = len(bindings) - 1
        subject = (
            f"{first.title} and {other_count} more use" if other_count else f"{first.title} uses"
        )
        if kind in reported_kinds:
            # One warning covers a kind without any snapshot.
            continue
        is_pruned = False
        if kind not in uncaptured_kinds:
            text = f"{spec_field} {name} was not captured, so its content is unknown. {subject} it."
            # A hub deletes old content that a cluster still has; policies of picks are the latest.
            # The latest content stays.
            owner = format_object_key(first.namespace, _find_parent(first, placements))
            is_pruned = kind in _RESOURCE_SNAPSHOT_KINDS and owner in owners_of_latest
        else:
            text = f"No {kind} was captured, so the content of {name} is unknown. {subject} it."
            reported_kinds.add(kind)
        yield build_problem(
            first.file,
            first.find_position("spec", spec_field),
            "missing-snapshot" if is_pruned else "not-captured",
            text,
            Severity.WARNING,
        )


def build_missing_binding_warnings(manifests: Sequence[Manifest]) -> Iterator[Problem]:
    """Yield a warning for each placement that reports a cluster of which no binding was captured.

    A hub writes the status after the bindings. Without any binding, it is an error.
    """
    names = {(item.namespace, item.name) for item in _select_existing_placements(manifests)}
    clusters: dict[str, set[str]] = {}
    for binding in select_fleet_objects(manifests, BINDING_KINDS):
        key = format_object_key(binding.namespace, _find_parent(binding, names))
        clusters.setdefault(key, set()).add(get_text(binding.body, "spec", "targetCluster"))
    for placement in _select_existing_placements(manifests):
        captured = clusters.get(format_object_key(placement.namespace, placement.name), set())
        missing = [name for name in _list_reported_clusters(placement) if name not in captured]
        if captured and missing:
            text = (
                f"{placement.title} reports {format_first_items(missing, 4)}, but no binding of "
                "it there was captured. No change of a binding is certain. Capture all again."
            )
            yield build_problem(
                placement.file,
                placement.find_position("status"),
                "not-captured",
                text,
                Severity.WARNING,
            )


def _list_reported_clusters(placement: Manifest) -> Iterator[str]:
    """Yield the clusters that a placement reports as scheduled."""
    status = get_mapping(placement.body, "status")
    for item in list_mappings(status, "perClusterPlacementStatuses") or list_mappings(
        status, "placementStatuses"
    ):
        name = get_text(item, "clusterName")
        if name and any(
            get_text(condition, "type").endswith("Scheduled")
            and get_text(condition, "status") == "True"
            for condition in list_mappings(item, "conditions")
        ):
            yield name


def check_repeated_bindings(manifests: Sequence[Manifest]) -> Iterator[Problem]:
    """Yield a warning for each binding of a placement with another one on its cluster.

    A hub has one binding per cluster, besides those in deletion. Which of several it
    follows is unknown.
    """
    placements = {
        (manifest.namespace, manifest.name) for manifest in _select_existing_placements(manifests)
    }
    first_by_cluster: dict[tuple[str, str], Manifest] = {}
    for binding in _select_active_bindings(manifests):
        key = format_object_key(binding.namespace, _find_parent(binding, placements))
        cluster = get_text(binding.body, "spec", "targetCluster")
        first = first_by_cluster.setdefault((key, cluster), binding)
        if first.name != binding.name:
            text = (
                f"{binding.title}: {first.title} is a binding of placement {key} on {cluster}, "
                "too, so it is unknown which of them counts. Delete the wrong one on the hub, or "
                "keep the dump of one hub."
            )
            position = binding.find_position("spec", "targetCluster")
            yield build_problem(binding.file, position, "repeated-binding", text, Severity.WARNING)


_REQUIRED_NAMES: Final = (("apiVersion",), ("kind",), ("metadata", "name"))


def build_missing_part_warnings(manifests: Sequence[Manifest]) -> Iterator[Problem]:
    """Yield a warning for each resource snapshot of which some content was not read.

    Some parts were not captured: the first part has the number of all parts in an annotation. Or an
    object lacks its apiVersion, kind or name.
    """
    snapshots = select_fleet_objects(manifests, _RESOURCE_SNAPSHOT_KINDS)
    for snapshot in snapshots:
        entries = get_list(snapshot.body, "spec", "selectedResources")
        for number, entry in enumerate(entries):
            if not all(get_text(entry, *path) for path in _REQUIRED_NAMES):
                text = (
                    f"{snapshot.title}: spec.selectedResources[{number}] is not an object with "
                    "apiVersion, kind and name, so it is not read."
                )
                position = snapshot.find_position("spec", "selectedResources", number)
                yield build_problem(snapshot.file, position, UNREAD_OBJECTS, text, Severity.WARNING)
    parts = group_by(
        snapshots,
        lambda item: (item.kind, item.namespace, *map(item.labels.get, (_PARENT, _RESOURCE_INDEX))),
    )
    for group in parts.values():
        counts = [parse_integer(_read_annotations(item).get(PART_COUNT)) or 0 for item in group]
        names = {item.name for item in group}
        if max(counts) > len(names):
            first = group[counts.index(max(counts))]
            text = (
                f"{first.title}: {len(names)} of {max(counts)} parts were captured, so its content "
                "is incomplete."
            )
            yield build_problem(first.file, first.position, "not-captured", text, Severity.WARNING)


# Cluster-scoped kinds of which one command lists all objects.
_WHOLE_KINDS: Final = ("MemberCluster", "ClusterResourcePlacement")


def check_repeated_objects(manifests: Iterable[Manifest]) -> Iterator[Problem]:
    """Yield an error for the first object listed twice with another uid or resourceVersion.

    Without these fields, another content is an error. The files are then of several hubs, or
    of different times.
    """
    first_by_identity: dict[tuple[str, str, str, str], Manifest] = {}
    for manifest in manifests:
        first = first_by_identity.setdefault(manifest.identity, manifest)
        difference = _find_difference(first, manifest)
        if difference:
            text = (
                f"{manifest.title}: its {difference} is another one than at "
                f"{first.file}:{first.position.line}. The "
                "files are dumps of several hubs, or of different times. Keep one dump."
            )
            position = manifest.find_position("metadata", difference)
            yield build_problem(manifest.file, position, "several-dumps", text)
            return


def check_separate_lists(manifests: Iterable[Manifest]) -> Iterator[Problem]:
    """Yield an error for the first list of members or placements without one of another file.

    A hub lists all of them, so the files are of several hubs.
    """
    first_of_file: dict[tuple[str, str], Manifest] = {}
    names: dict[tuple[str, str], set[str]] = {}
    for manifest in select_fleet_objects(manifests, _WHOLE_KINDS):
        if manifest.is_listed:
            key = (manifest.kind, manifest.file)
            first_of_file.setdefault(key, manifest)
            names.setdefault(key, set()).add(manifest.name)
    for kind in _WHOLE_KINDS:
        files = [file for listed_kind, file in names if listed_kind == kind]
        for file in files[1:]:
            if names[kind, file].isdisjoint(names[kind, files[0]]):
                first = first_of_file[kind, file]
                text = (
                    f"{first.title}: {files[0]} lists other objects of the kind {kind}, and not "
                    "this one. One hub lists all of them, so the files are dumps of several hubs. "
                    "Keep one dump, or list all objects of the hub in one file."
                )
                yield build_problem(file, first.position, "several-dumps", text)
                return


def build_unlisted_warnings(manifests: Iterable[Manifest]) -> Iterator[Problem]:
    """Yield a warning for the first fleet object that is not an item of a list.

    Only a list has all objects of a kind, and only those of one hub.
    """
    for manifest in manifests:
        if is_fleet_group(manifest.group) and not manifest.is_listed:
            text = (
                f"{manifest.title} is not an item of a list, so the files may be of several hubs, "
                "or lack objects. No change of a binding is certain. Capture the hub with "
                "`nexusform inventory script -for=fleet`."
            )
            yield build_problem(
                manifest.file, manifest.position, "not-captured", text, Severity.WARNING
            )
            return


def warn_older_members(
    manifests: Iterable[Manifest], newest_heartbeat: datetime
) -> Iterator[Problem]:
    """Yield a warning for the first object much newer than all heartbeats of members.

    A member reports each minute by default, so its MemberCluster was captured earlier.
    """
    for manifest in select_fleet_objects(manifests, (*PLACEMENT_KINDS, *HUB_CREATED_KINDS)):
        texts = [get_text(manifest.body, "metadata", "creationTimestamp")]
        texts += [get_text(item, "lastTransitionTime") for item in list_conditions(manifest.body)]
        times = [time for time in map(parse_time, texts) if time is not None]
        if times and max(times) - newest_heartbeat > _MAX_CAPTURE_TIME:
            text = (
                f"{manifest.title} is of {format_time(max(times))}, but the newest heartbeat of a "
                f"MemberCluster is of {format_time(newest_heartbeat)}. Either the members were "
                "captured earlier, or none has reported since. No change of a binding is certain. "
                "Capture all objects at one time."
            )
            yield build_problem(
                manifest.file, manifest.position, "not-captured", text, Severity.WARNING
            )
            return


def _find_difference(first: Manifest, manifest: Manifest) -> str:
    """Return what shows that a dump does not list an object twice, "" if nothing does."""
    if first is manifest:
        return ""
    has_identity = False
    for name in ("uid", "resourceVersion"):
        values = {get_text(item.body, "metadata", name) for item in (first, manifest)} - {""}
        has_identity |= bool(values)
        if len(values) > 1:
            return name
    return "" if has_identity or first.body == manifest.body else "content"


def build_missing_placement_warnings(manifests: Sequence[Manifest]) -> Iterator[Problem]:
    """Yield a warning for the first binding of which no placement was captured."""
    placements = {
        (manifest.namespace, manifest.name)
        for manifest in select_fleet_objects(manifests, PLACEMENT_KINDS)
    }
    for binding in select_fleet_objects(manifests, BINDING_KINDS):
        name = _find_parent(binding, placements)
        if not is_deleting(binding.body) and (binding.namespace, name) not in placements:
            key = format_object_key(binding.namespace, name)
            text = (
                f"{binding.title} is of placement {key}, which was not captured. A plan would pick "
                "its clusters again."
            )
            yield build_problem(
                binding.file, binding.position, "not-captured", text, Severity.WARNING
            )
            return


def build_missing_member_warnings(manifests: Sequence[Manifest]) -> Iterator[Problem]:
    """Yield a warning for the first scheduled binding of which no MemberCluster was captured.

    A hub unschedules the bindings of a member soon after it has left. There is no warning
    without any member.
    """
    members = {item.name for item in select_fleet_objects(manifests, ("MemberCluster",))}
    for binding in _select_active_bindings(manifests):
        cluster = get_text(binding.body, "spec", "targetCluster")
        is_scheduled = get_text(binding.body, "spec", "state") != "Unscheduled"
        if members and is_scheduled and cluster not in members:
            text = (
                f"{binding.title} is on {cluster}, but no MemberCluster of this name was captured. "
                "The plan treats it as a member that has left. If it has not, capture all members."
            )
            position = binding.find_position("spec", "targetCluster")
            yield build_problem(binding.file, position, "not-captured", text, Severity.WARNING)
            return


def build_missing_override_warnings(manifests: Sequence[Manifest]) -> Iterator[Problem]:
    """Yield a warning for each kind of override snapshots used by bindings but not captured."""
    captured = {
        (manifest.kind, format_object_key(manifest.namespace, manifest.name))
        for manifest in manifests
        if is_fleet_group(manifest.group)
    }
    uncaptured_kinds = find_uncaptured_kinds(manifests)
    reported_kinds: set[str] = set()
    for binding in _select_active_bindings(manifests):
        for name in list_override_names(get_mapping(binding.body, "spec")):
            # Also an index: 1 is the namespaced kind.
            is_namespaced = "/" in name
            kind = _OVERRIDE_KINDS[is_namespaced]
            if kind in reported_kinds or (kind, name) in captured:
                # One warning per kind is enough.
                continue
            reported_kinds.add(kind)
            text = (
                f"{kind} {name} was not captured, so the configured override is used. "
                f"{binding.title} uses it."
            )
            location = binding.find_position("spec", _OVERRIDE_LISTS[is_namespaced])
            problem_id = "not-captured" if kind in uncaptured_kinds else "missing-snapshot"
            yield build_problem(binding.file, location, problem_id, text, Severity.WARNING)


def _select_active_bindings(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Return the bindings used by a plan.

    Those in deletion, or of placements missing or in deletion, are left out.
    """
    placements = {
        (manifest.namespace, manifest.name) for manifest in _select_existing_placements(manifests)
    }
    active_bindings: list[Manifest] = []
    for binding in select_fleet_objects(manifests, BINDING_KINDS):
        if is_deleting(binding.body):
            continue
        placement = (binding.namespace, _find_parent(binding, placements))
        if placement in placements:
            active_bindings.append(binding)
    return active_bindings


def _find_parent(manifest: Manifest, placements: Collection[tuple[str, str]]) -> str:
    """Return the name of the placement of an object created by a hub.

    The object's label decides, or else its own name.
    """
    label_value = manifest.labels.get(_PARENT)
    if label_value:
        return label_value
    names = [name for namespace, name in placements if namespace == manifest.namespace]
    prefixes = [name for name in names if manifest.name.startswith(f"{name}-")]
    # `web` for `web-2-snapshot`.
    name_without_index = re.sub(r"-\d+(?:-snapshot|-\d+)?$", "", manifest.name)
    return max(prefixes, key=len, default=name_without_index)


def _find_latest(
    snapshots: Sequence[Manifest], indexes: Mapping[str, int | None]
) -> Manifest | None:
    """Return the snapshot labelled as the latest; None without any snapshot.

    If none or several have the label, return the one with the highest index. `indexes` are by name
    of the snapshot, None if unknown.
    """
    labelled = [snapshot for snapshot in snapshots if snapshot.labels.get(_LATEST) == "true"]
    candidates = labelled or snapshots
    return max(
        candidates, key=lambda snapshot: (indexes[snapshot.name] or 0, snapshot.name), default=None
    )


def _read_index(
    snapshot: Manifest, label: str, suffix_pattern: re.Pattern[str], owner: str
) -> int | None:
    """Return the index of a snapshot in a label, else in its own name after the owner's name.

    The result is None if in neither.
    """
    label_index = parse_integer(snapshot.labels.get(label))
    return (
        _parse_snapshot_index(snapshot.name, owner, suffix_pattern)
        if label_index is None
        else label_index
    )


def _parse_snapshot_index(name: Any, owner: str, suffix_pattern: re.Pattern[str]) -> int | None:
    """Return the index in the name of a snapshot of `owner`: `web-2`, `web-2-snapshot`, `web-2-0`.

    The result is None for others.
    """
    if not isinstance(name, str) or not name.startswith(owner):
        return None
    # After the owner's name.
    match = suffix_pattern.fullmatch(name, len(owner))
    return int(match[1]) if match is not None else None


def _read_annotations(manifest: Manifest) -> Mapping[str, str]:
    annotations = get_mapping(manifest.body, "metadata", "annotations")
    return {name: str(value) for name, value in annotations.items()}


def _get_mapping(value: Any, *path: str) -> Mapping[str, Any] | None:
    inner = get_value_at_path(value, *path)
    return inner if isinstance(inner, Mapping) else None


AZURE_MANAGER: Final = "Azure Resource Manager"


def find_external_manager(manifest: Manifest) -> str:
    """Return the external manager of an object, such as `Flux Kustomization flux-system/apps`.

    The result is "" if unknown. Labels and annotations that name the managing object come first,
    then others with the prefix of a tool.
    """
    kustomize = "kustomize.toolkit.fluxcd.io"
    helm = "helm.toolkit.fluxcd.io"
    argo = "argocd.argoproj.io"
    labels = manifest.labels
    annotations = _read_annotations(manifest)
    # A Managed Fleet Namespace on an Azure hub creates objects with this label. An admission policy
    # rejects changes by others. Source: KubeFleet pkg/webhook/managedresource.
    # Azure Resource Manager.
    if labels.get("fleet.azure.com/managed-by") == "arm":
        return AZURE_MANAGER
    for prefix, kind in ((kustomize, "Kustomization"), (helm, "HelmRelease")):
        name = labels.get(f"{prefix}/name")
        if name:
            return f"Flux {kind} {labels.get(f'{prefix}/namespace', '')}/{name}"
    tracking_id = annotations.get(f"{argo}/tracking-id")
    if tracking_id:
        return (
            "Argo CD application "
            f"{tracking_id.partition(':')[0]}"
        )  # <application>:<group>/<kind>:<object>
    instance = labels.get(f"{argo}/instance")
    if instance:
        return f"Argo CD application {instance}"
    for prefix, manager in ((kustomize, "Flux"), (helm, "Flux"), (argo, "Argo CD")):
        if any(name.startswith(f"{prefix}/") for name in (*labels, *annotations)):
            return manager
    return ""


def build_export_script(directory: str) -> str:
    """Return the script that lists the objects of a fleet hub with kubectl, one file per kind."""
    return build_dump_script(directory, FLEET_KINDS)
