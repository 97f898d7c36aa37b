"""Closed lists of the fields of the fleet's objects in a hub, and the facts that are not read.

Names and kinds of fields are those of KubeFleet's definitions (assets/fleet_fields.txt, written by
packaging/fleet_fields.py). A field is read or has no influence (`WITHOUT_INFLUENCE`); one that the
definitions lack is unread.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Final

from nexusform.documents.field_lists import FieldList
from nexusform.documents.field_validation import FieldKind
from nexusform.documents.object_schemas import (
    FieldTable,
    LocatedDoubt,
    ObjectSchema,
    build_unread_fact,
    locate_doubt,
    parse_field_table,
)
from nexusform.documents.yaml_documents import YamlDocument, describe_kind
from nexusform.domains.fleet.importers.fleet_export import HUB_CREATED_KINDS, PART_COUNT
from nexusform.domains.pods.importers.dump_fields import list_wrong_server_values
from nexusform.domains.pods.importers.manifest_parser import Manifest, is_fleet_group
from nexusform.doubts.doubt import Doubt
from nexusform.json_data.plain_data import (
    Path,
    escape_html,
    format_path,
    get_mapping,
    get_value_at_path,
    list_mappings,
)

_COPIES: Final = "copies of the bindings' status, which no controller of KubeFleet decides by"
_REPORTS: Final = "reports of members, which KubeFleet only copies to the placement's status"
_TIMES: Final = "a time that KubeFleet only writes"
# By reason, full names of fields in every API version. Fields below them have none either.
_FIELDS_WITHOUT_INFLUENCE: Final[Mapping[str, str]] = {
    _COPIES: (
        "ClusterResourcePlacement.status.placementStatuses.applicableClusterResourceOverrides "
        "ClusterResourcePlacement.status.placementStatuses.applicableResourceOverrides "
        "ClusterResourcePlacement.status.placementStatuses.conditions.observedGeneration "
        "ClusterResourcePlacement.status.placementStatuses.diffedPlacements "
        "ClusterResourcePlacement.status.placementStatuses.driftedPlacements "
        "ClusterResourcePlacement.status.placementStatuses.failedPlacements "
        "ResourcePlacement.status.placementStatuses.applicableClusterResourceOverrides "
        "ResourcePlacement.status.placementStatuses.applicableResourceOverrides "
        "ResourcePlacement.status.placementStatuses.conditions.observedGeneration "
        "ResourcePlacement.status.placementStatuses.diffedPlacements "
        "ResourcePlacement.status.placementStatuses.driftedPlacements "
        "ResourcePlacement.status.placementStatuses.failedPlacements"
    ),
    "a copy of a placement's status in a namespace": (
        "ClusterResourcePlacementStatus.sourceStatus ClusterResourcePlacementStatus.lastUpdatedTime"
    ),
    _REPORTS: (
        "ClusterResourceBinding.status.diffedPlacements "
        "ClusterResourceBinding.status.driftedPlacements "
        "ClusterResourceBinding.status.failedPlacements "
        "ResourceBinding.status.diffedPlacements "
        "ResourceBinding.status.driftedPlacements "
        "ResourceBinding.status.failedPlacements"
    ),
    "a hash of fields that are read": (
        "ClusterResourceOverrideSnapshot.spec.overrideHash "
        "ResourceOverrideSnapshot.spec.overrideHash"
    ),
    "a time from which a stage waits; no times are predicted": (
        "ClusterStagedUpdateRun.status.deletionStageStatus.conditions.lastTransitionTime "
        "ClusterStagedUpdateRun.status.stagesStatus.conditions.lastTransitionTime "
        "StagedUpdateRun.status.deletionStageStatus.conditions.lastTransitionTime "
        "StagedUpdateRun.status.stagesStatus.conditions.lastTransitionTime"
    ),
    "a time by which KubeFleet only reports a run as stuck": (
        "ClusterStagedUpdateRun.status.stagesStatus.clusters.conditions.lastTransitionTime "
        "StagedUpdateRun.status.stagesStatus.clusters.conditions.lastTransitionTime"
    ),
    "the envelope of a selected object, which is listed itself": (
        "ClusterResourcePlacement.status.selectedResources.envelope "
        "ResourcePlacement.status.selectedResources.envelope"
    ),
    _TIMES: (
        "ApprovalRequest.status.conditions.lastTransitionTime "
        "ClusterApprovalRequest.status.conditions.lastTransitionTime "
        "ClusterResourcePlacement.status.conditions.lastTransitionTime "
        "ClusterResourcePlacement.status.placementStatuses.conditions.lastTransitionTime "
        "ClusterStagedUpdateRun.status.deletionStageStatus.endTime "
        "ClusterStagedUpdateRun.status.deletionStageStatus.startTime "
        "ClusterStagedUpdateRun.status.stagesStatus.endTime "
        "ClusterStagedUpdateRun.status.stagesStatus.startTime "
        "MemberCluster.status.properties.observationTime "
        "MemberCluster.status.resourceUsage.observationTime "
        "ResourcePlacement.status.conditions.lastTransitionTime "
        "ResourcePlacement.status.placementStatuses.conditions.lastTransitionTime "
        "StagedUpdateRun.status.deletionStageStatus.endTime "
        "StagedUpdateRun.status.deletionStageStatus.startTime "
        "StagedUpdateRun.status.stagesStatus.endTime "
        "StagedUpdateRun.status.stagesStatus.startTime"
    ),
}
WITHOUT_INFLUENCE: Final[Mapping[str, str]] = {
    name: reason for reason, names in _FIELDS_WITHOUT_INFLUENCE.items() for name in names.split()
}
# Parts that a hub always writes soon after an object is created, by kind. A dump without one was
# changed or cut, or the hub has not decided yet. Seen in all objects of recorded hubs.
_DECIDED: Final = (("status", "conditions"),)
# Of a bound binding.
_CONTENT_NAME: Final = ("spec", "resourceSnapshotName")
_RECORDED_FOR: Final = (("metadata", "labels"), ("metadata", "annotations"))
_WRITTEN_PARTS: Final[Mapping[str, tuple[Path, ...]]] = {
    **dict.fromkeys(("ClusterResourcePlacement", "ResourcePlacement"), _DECIDED),
    **dict.fromkeys(
        ("ClusterResourceBinding", "ResourceBinding"),
        (
            *(("spec", name) for name in ("clusterDecision", "schedulingPolicySnapshotName")),
            _CONTENT_NAME,
            *_DECIDED,
        ),
    ),
    **dict.fromkeys(
        ("ClusterSchedulingPolicySnapshot", "SchedulingPolicySnapshot"),
        (("spec", "policyHash"), *_RECORDED_FOR, *_DECIDED),
    ),
    **dict.fromkeys(("ClusterResourceSnapshot", "ResourceSnapshot"), _RECORDED_FOR),
    "MemberCluster": (("metadata", "labels"),),
}
_CONTENT_HASH: Final = "kubernetes-fleet.io/resource-hash"
_ALWAYS_WRITTEN: Final = "every hub writes it, but the dump lacks it"


@cache
def read_fleet_schema() -> FieldTable:
    """Read assets/fleet_fields.txt."""
    path = resources.files("nexusform.domains.fleet.importers").joinpath(
        "assets", "fleet_fields.txt"
    )
    return parse_field_table(path.read_text(encoding="utf-8"))


@cache
def _get_list(type_name: str) -> FieldList:
    """Return the closed list of a type: the fields of its schema."""
    # Of VERSION.KIND.PATH.
    prefix = type_name.partition(".")[2]
    without_influence = {}
    read = set()
    for name in read_fleet_schema().types[type_name]:
        reason = WITHOUT_INFLUENCE.get(f"{prefix}.{name}")
        if reason is None:
            read.add(name)
        else:
            without_influence[name] = reason
    return FieldList(frozenset(read), without_influence)


def list_unread_facts(manifests: Iterable[Manifest]) -> Iterator[Doubt]:
    """List the facts of the fleet's objects that are not read; other objects have none."""
    table = read_fleet_schema()
    schema = ObjectSchema(lambda name: table.types.get(name, {}), _get_list)
    for manifest in manifests:
        type_name = table.kinds.get(f"{manifest.group}/{manifest.version} {manifest.kind}")
        document = YamlDocument(manifest.body, manifest.position)
        version = manifest.body.get("apiVersion")
        if not isinstance(version, str):
            reason = f"it is {describe_kind(version)}, not {FieldKind.TEXT.value}"
            doubt = Doubt("", field="apiVersion", reason=reason)
            line = document.find_position("apiVersion").line
            yield build_unread_fact(manifest.body, doubt, manifest.file, line)
        if type_name is None:
            if manifest.kind in HUB_CREATED_KINDS and is_fleet_group(manifest.group):
                doubt = Doubt("", field="apiVersion", reason=f"unknown: {version}")
                line = document.find_position("apiVersion").line
                yield build_unread_fact(manifest.body, doubt, manifest.file, line)
            continue
        for path, doubt in (
            *schema.list_unread_parts(manifest.body, type_name),
            *list_wrong_server_values(manifest.body, "metadata", "meta_v1.ObjectMeta"),
            *_list_missing_parts(manifest),
            *_list_incomplete_content(manifest),
        ):
            line = document.find_position(*path).line
            yield build_unread_fact(manifest.body, doubt, manifest.file, line)


def _list_missing_parts(manifest: Manifest) -> Iterator[LocatedDoubt]:
    """List the parts that an object lacks, although the hub writes them."""
    # A binding has no conditions before its rollout, and one that was never rolled out no content.
    state = get_value_at_path(manifest.body, "spec", "state")
    for path in _WRITTEN_PARTS.get(manifest.kind, ()):
        is_expected = path not in _DECIDED or state != "Scheduled"
        if path == _CONTENT_NAME:
            is_expected = state == "Bound"
        if is_expected and not get_value_at_path(manifest.body, *path):
            yield locate_doubt(path[:1], format_path(path), reason=_ALWAYS_WRITTEN)


def _list_incomplete_content(manifest: Manifest) -> Iterator[LocatedDoubt]:
    """List the content of a resource snapshot if it has another hash than the hub computed.

    The hash is in the first part of a snapshot and counts for all parts, so only a snapshot of one
    part is compared. A live hub is read without the values of Secrets.
    """
    annotations = get_mapping(manifest.body, "metadata", "annotations")
    content_hash = annotations.get(_CONTENT_HASH)
    resources = list_mappings(manifest.body, "spec", "selectedResources")
    has_secrets = any(item.get("kind") == "Secret" for item in resources)
    if not content_hash or annotations.get(PART_COUNT) != "1" or has_secrets:
        return
    text = json.dumps(
        {"selectedResources": resources}, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    if sha256(escape_html(text).encode("utf-8", "surrogatepass")).hexdigest() != content_hash:
        path = ("spec", "selectedResources")
        reason = "the hub has computed the hash of another content"
        yield locate_doubt(path, format_path(path), reason=reason)
