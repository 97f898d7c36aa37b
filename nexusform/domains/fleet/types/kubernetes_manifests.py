"""data kubernetes_manifests: hub objects in files and directories, by kind.

They are for use with for_each.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity, has_errors
from nexusform.diagnostics.phrases import format_count, format_first_items, format_list
from nexusform.documents.times import parse_time
from nexusform.documents.yaml_documents import Node, YamlDocument, build_problem
from nexusform.domains.fleet.importers.fleet_documents import FleetDocument, read_fleet_object
from nexusform.domains.fleet.importers.fleet_export import UNREAD_OBJECTS
from nexusform.domains.fleet.importers.fleet_records import format_object_key
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.fleet.importers.hub_objects import remove_unknown_parts
from nexusform.domains.fleet.importers.hub_records import (
    ObservedMember,
    check_member_times,
    find_newest_heartbeat,
    read_member_cluster,
)
from nexusform.domains.fleet.scheduling.fleet_api_validation import (
    check_name,
    check_taints,
    format_sentence,
)
from nexusform.domains.fleet.types.fleet_arguments import read_taints
from nexusform.domains.fleet.types.fleet_schemas import make_computed
from nexusform.domains.pods.importers.kubectl_kind_files import list_dump_errors
from nexusform.domains.pods.importers.manifest_parser import (
    INVALID,
    Manifest,
    is_envelope,
    is_fleet_group,
    list_envelope_problems,
    parse_manifests,
    resolve_namespaces,
)
from nexusform.interfaces.plugins import DataResult, FileProblem, ReadContext, ResourceType
from nexusform.json_data.plain_data import Path, get_list, get_text
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import BOOL, STRING, ListType, MapType, ObjectType, SetType

MEMBER: Final = "MemberCluster"
_TEXTS: Final = MapType(STRING)
_MAX_KINDS: Final = 4
# KubeFleet's proposal FEP-0001 uses such a group.
_NEWER_GROUPS: Final = ("kubefleet.dev", ".kubernetes-fleet.io")
# Groups of objects by which other projects place content on clusters.
_OTHER_HUBS: Final = {
    "cluster.open-cluster-management.io": "Open Cluster Management",
    "work.open-cluster-management.io": "Open Cluster Management",
    "policy.karmada.io": "Karmada",
    "cluster.karmada.io": "Karmada",
    "work.karmada.io": "Karmada",
    "fleet.cattle.io": "Rancher Fleet",
    "core.kubefed.io": "KubeFed",
    "apps.clusternet.io": "Clusternet",
    "clusters.clusternet.io": "Clusternet",
}
_HUB_KIND_ENDINGS: Final = ("Binding", "Snapshot", "Work", "Status", "InternalMemberCluster")
_SUFFIXES: Final = (".yaml", ".yml", ".json")
# Attribute of the objects of each fleet API kind.
ATTRIBUTES: Final[Mapping[str, str]] = {
    "ClusterResourcePlacement": "cluster_resource_placements",
    "ResourcePlacement": "resource_placements",
    "ClusterResourceOverride": "cluster_resource_overrides",
    "ResourceOverride": "resource_overrides",
    "ClusterResourcePlacementDisruptionBudget": "placement_disruption_budgets",
    "ClusterResourcePlacementEviction": "placement_evictions",
    "ClusterStagedUpdateStrategy": "cluster_staged_update_strategies",
    "StagedUpdateStrategy": "staged_update_strategies",
    "ClusterStagedUpdateRun": "cluster_staged_update_runs",
    "StagedUpdateRun": "staged_update_runs",
    "ClusterApprovalRequest": "cluster_approval_requests",
    "ApprovalRequest": "approval_requests",
}
MEMBER_TYPE: Final = ObjectType.create(
    {
        "labels": _TEXTS,
        "taints": ListType(ObjectType.create({"key": STRING, "value": STRING, "effect": STRING})),
        "health": STRING,
        "properties": _TEXTS,
        "resources": ObjectType.create(
            {"total": _TEXTS, "allocatable": _TEXTS, "available": _TEXTS}
        ),
        "namespaces": SetType(STRING),
    }
)


def make_file_arguments(files: str, lenient: str) -> dict[str, AttributeSchema]:
    """Return the id and the arguments of a data source that reads files.

    `files` and `lenient` are descriptions.
    """
    return {
        "id": make_computed(STRING, "The directory, or the first file."),
        "directory": AttributeSchema(
            STRING,
            "Directory with .yaml, .yml and .json files, without subdirectories.",
            optional=True,
        ),
        "files": AttributeSchema(ListType(STRING), files, optional=True),
        "lenient": AttributeSchema(BOOL, lenient, optional=True),
        "observed_at": AttributeSchema(
            STRING, "Time of the export (RFC 3339). Default: the newest heartbeat.", optional=True
        ),
    }


_SCHEMA: Final = BlockSchema(
    {
        **make_file_arguments(
            "Files, instead of directory.",
            "Correct known mistakes of printed manifests. Set it next to each manifest too.",
        ),
        "namespace": AttributeSchema(
            STRING,
            "Namespace of objects without one, as kubectl apply -n. Cluster-scoped objects "
            "keep none.",
            optional=True,
        ),
        **{
            attribute: make_computed(
                _TEXTS, f"{kind} manifests by id, for {API_KINDS[kind].type_name}."
            )
            for kind, attribute in ATTRIBUTES.items()
        },
        "member_clusters": make_computed(MapType(MEMBER_TYPE), "MemberClusters by name."),
        "hub_objects": make_computed(
            _TEXTS,
            'Other objects as yaml_body of fleet_hub_manifest, by "<kind> <namespace>/<name>".',
        ),
    },
    description="Objects of a hub from files, by kind.",
)


def build_id(attributes: Mapping[str, Any]) -> str:
    """Return the directory, or the first file."""
    files = attributes.get("files") or [""]
    return str(attributes.get("directory") or files[0])


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the arguments: exactly one source, and a valid time."""
    problems = []
    directory = attributes.get("directory")
    files = attributes.get("files")
    if (directory is None) == (files is None):
        kind = "missing-required-argument" if files is None else "conflicting-arguments"
        problems.append(Problem((), kind, 'Set either "directory" or "files".'))
    time = attributes.get("observed_at")
    if isinstance(time, str) and parse_time(time) is None:
        text = f'"{time}" is not a time. Use a form such as "2026-01-31T12:00:00Z".'
        problems.append(Problem(("observed_at",), "invalid-duration", text))
    return problems


class ManifestReader:
    """Reader of manifest files.

    With `is_observed`, objects of a hub may include generated ones and duplicates. `namespace` is
    that of objects without one.
    """

    def __init__(self, *, lenient: bool, is_observed: bool = False, namespace: str = "") -> None:
        self.lenient = lenient
        self.namespace = namespace
        # read from a hub: objects created by the hub itself are allowed.
        self.is_observed = is_observed
        self.manifests: list[Manifest] = []
        # Of a dump: fleet objects of newer kinds or versions.
        self.unknown_objects: list[Manifest] = []
        # Of known objects, as texts.
        self.unknown_parts: list[str] = []
        self.problems: list[Problem] = []

    def add_file(self, name: str, content: bytes, argument_path: Path) -> None:
        """Add the objects and problems of a file.

        Problems show its `name`, and refer to the argument with this name: ("directory",)
        or ("files", 0).
        """
        reading = parse_manifests(name, content)
        self.report_findings(reading.findings, argument_path)
        for manifest in reading.manifests:
            if self.is_observed and _is_unknown_fleet_object(manifest):
                self.unknown_objects.append(manifest)
                continue
            known = self._remove_unknown_parts(manifest)
            self.manifests.append(known)
            self.report_findings(self._check_manifest(known), argument_path)

    def _remove_unknown_parts(self, manifest: Manifest) -> Manifest:
        """Return an observed fleet object without unknown fields and values; note their paths."""
        is_known = is_fleet_group(manifest.group) and manifest.kind in API_KINDS
        if not self.is_observed or not is_known:
            return manifest
        body, removed = remove_unknown_parts(manifest.body)
        location = f"{manifest.file}:{manifest.line}"
        self.unknown_parts += [f"{path} of {manifest.title} ({location})" for path in removed]
        return replace(manifest, body=body) if removed else manifest

    def report_unknown_objects(self, argument_path: Path) -> None:
        """Report the fleet objects that were not read, and parts of others, in one warning each."""
        if self.unknown_parts:
            count = format_count(len(self.unknown_parts), "field or value", "fields or values")
            text = (
                f"{count} of a newer hub, not read: "
                f"{format_first_items(self.unknown_parts, _MAX_KINDS)}. The plan continues without "
                "them."
            )
            self.problems.append(Problem(argument_path, UNREAD_OBJECTS, text, Severity.WARNING))
        other_hubs = {
            project
            for item in self.manifests
            for group, project in _OTHER_HUBS.items()
            if item.group.endswith(group)
        }
        if self.is_observed and other_hubs:
            text = (
                f"The dump has objects of {format_list(sorted(other_hubs))}, another kind of hub. "
                "nexusform reads hubs of KubeFleet: clusters and placements of others are not read."
            )
            self.problems.append(Problem(argument_path, UNREAD_OBJECTS, text, Severity.WARNING))
        if self.unknown_objects:
            kinds = sorted(
                {f"{item.kind} {item.group}/{item.version}" for item in self.unknown_objects}
            )
            text = (
                f"{format_count(len(self.unknown_objects), 'fleet object')} of kinds or versions "
                f"unknown to nexusform, not read: {format_list(kinds, _MAX_KINDS)}. The plan "
                "continues without them."
            )
            self.problems.append(Problem(argument_path, UNREAD_OBJECTS, text, Severity.WARNING))

    def resolve_namespaces(self, argument_path: Path) -> None:
        """Set the namespaces of the objects of all files, since any of them may define a kind."""
        resolved = resolve_namespaces(self.manifests, self.namespace)
        self.manifests = list(resolved.manifests)
        self.report_findings(resolved.findings, argument_path)

    def report_findings(self, findings: Iterable[Problem], path: Path) -> None:
        """Report findings about a file at the path of its argument."""
        for finding in findings:
            location = f"{finding.file}:{finding.line}" if finding.line else finding.file
            self.problems.append(
                Problem(path, finding.id, f"{location}: {finding.detail}", finding.severity)
            )

    def _check_manifest(self, manifest: Manifest) -> Iterable[Problem]:
        """Return the problems of an object.

        By the fleet's API if it is of the fleet, else by its Kubernetes schema.
        """
        if is_envelope(manifest) or not is_fleet_group(manifest.group):
            from nexusform.domains.pods.importers.kubernetes_schemas import list_schema_problems

            envelope_problems = list_envelope_problems(manifest) if is_envelope(manifest) else ()
            return [*envelope_problems, *list_schema_problems(manifest)]
        api = API_KINDS.get(manifest.kind)
        if api is None and self.is_observed:
            # created by the hub: bindings, snapshots, Works.
            return ()
        if api is None:
            text = f"{manifest.title} is created by the hub itself. Remove it from the files."
            return (build_problem(manifest.file, manifest.position, INVALID, text),)
        document = YamlDocument(manifest.body, manifest.position)
        fleet = read_fleet_object(
            manifest.file, document, api, BlockSchema({}), lenient=self.lenient
        )
        if manifest.kind != MEMBER:
            return fleet.findings
        # In the status: not read above.
        time_errors = check_member_times(Node.create_document_node(document))
        time_findings = [
            build_problem(manifest.file, location, INVALID, text) for location, text in time_errors
        ]
        return [*fleet.findings, *time_findings, *_check_member(manifest.file, fleet)]


def _is_unknown_fleet_object(manifest: Manifest) -> bool:
    """Return whether an observed object belongs to a fleet, but its kind or version is unknown.

    Bindings, snapshots and Works are created by the hub, and read elsewhere.
    """
    if not is_fleet_group(manifest.group):
        return manifest.group.endswith(_NEWER_GROUPS)
    if is_envelope(manifest):
        return False
    api = API_KINDS.get(manifest.kind)
    if api is not None:
        return manifest.group == api.group and manifest.version not in api.versions
    return not manifest.kind.endswith(_HUB_KIND_ENDINGS)


def _check_member(file: str, member: FleetDocument) -> Iterable[Problem]:
    """Yield the errors of the API and the webhook about a member's name and taints."""
    names = [finding.prepend_path("metadata") for finding in check_name(member.name)]
    for finding in (*names, *check_taints(read_taints(get_list(member.values, "taint")))):
        if not member.is_part_reported(finding.path):
            yield Problem(
                (),
                INVALID,
                format_sentence(finding.detail),
                file=file,
                line=member.find_line(finding.path),
            )


def read_manifests_data(attributes: Mapping[str, Any], context: ReadContext) -> DataResult:
    """Read the files and sort their objects by kind."""
    reader = ManifestReader(
        lenient=attributes.get("lenient") is True, namespace=get_text(attributes, "namespace")
    )
    argument = read_files(
        reader, attributes, context, f": no file name ends in {', '.join(_SUFFIXES)}."
    )
    if argument is None:  # unreadable directory
        return DataResult(attributes={}, problems=reader.problems)
    values = group_objects_by_kind(reader, argument, attributes)
    # incomplete data would be misleading.
    if has_errors(reader.problems):
        return DataResult(attributes={}, problems=reader.problems)
    return DataResult({"id": build_id(attributes), **values}, reader.problems)


def read_files(
    reader: ManifestReader, attributes: Mapping[str, Any], context: ReadContext, empty_reason: str
) -> Path | None:
    """Read the files of `directory` or `files` (only one is set) into `reader`.

    Return the path of this argument, for problems; None if the directory is unreadable.
    `empty_reason` completes the message about files without objects.
    """
    # None if `files` is set.
    directory = attributes.get("directory")
    try:
        base = str(directory).rstrip("/") or "/"
        names = attributes.get("files") or [
            f"{base}/{name}"
            for name in context.files.find_files(base, "*")
            if name.endswith(_SUFFIXES)
        ]
    except FileProblem as problem:
        reader.problems.append(Problem(("directory",), "unreadable-file", str(problem)))
        return None
    reader.problems += list_dump_errors(directory, context)
    argument_path: Path = ("directory",) if directory is not None else ("files",)
    for index, name in enumerate(names):
        # The item in `files`.
        path = argument_path if directory is not None else (*argument_path, index)
        try:
            reader.add_file(name, context.files.read(name), path)
        except FileProblem as problem:
            reader.problems.append(Problem(path, "unreadable-file", str(problem)))
    reader.resolve_namespaces(argument_path)
    reader.report_unknown_objects(argument_path)
    if not reader.manifests and not reader.problems:
        text = f"No object found in {build_id(attributes)}{empty_reason}"
        reader.problems.append(Problem(argument_path, INVALID, text))
    return argument_path


def group_objects_by_kind(
    reader: ManifestReader, argument: Path, attributes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the computed attributes: objects by kind, and members.

    Of duplicates the first counts. Later ones are reported, unless they were observed on a hub.
    Problems refer to `argument`.
    """
    texts: dict[str, dict[str, str]] = {name: {} for name in (*ATTRIBUTES.values(), "hub_objects")}
    members: dict[str, Manifest] = {}
    first_by_key: dict[tuple[str, str, str, str], Manifest] = {}
    for manifest in reader.manifests:
        key = manifest.identity
        first = first_by_key.setdefault(key, manifest)
        if first is not manifest:
            if not reader.is_observed:
                text = f"{manifest.title} is already defined in {first.file}:{first.line}."
                duplicate = build_problem(
                    manifest.file, manifest.position, "duplicate-kubernetes-object", text
                )
                reader.report_findings([duplicate], argument)
            continue
        if is_fleet_group(manifest.group) and manifest.kind == MEMBER:
            members[manifest.name] = manifest
            continue
        attribute = ATTRIBUTES.get(manifest.kind) if is_fleet_group(manifest.group) else None
        body = json.dumps(manifest.body, ensure_ascii=False, indent=2)
        if attribute is None:
            texts["hub_objects"][manifest.title] = body
        else:
            texts[attribute][format_object_key(manifest.namespace, manifest.name)] = body
    observation_time = find_observation_time(members.values(), attributes)
    return {**texts, "member_clusters": _build_members(members, observation_time, reader, argument)}


def find_observation_time(
    manifests: Iterable[Manifest], attributes: Mapping[str, Any]
) -> datetime | None:
    """Return the time of the argument `observed_at`, or the newest heartbeat of a member.

    The result is None without either.
    """
    observed_at = attributes.get("observed_at")
    if isinstance(observed_at, str):
        return parse_time(observed_at)
    return find_newest_heartbeat(
        manifest.body
        for manifest in manifests
        if is_fleet_group(manifest.group) and manifest.kind == MEMBER
    )


def _build_members(
    members: Mapping[str, Manifest],
    observation_time: datetime | None,
    reader: ManifestReader,
    argument: Path,
) -> dict[str, Any]:
    """Return the members as values of the data source.

    Without a reported health they count as healthy.
    """
    observed = {
        name: read_member_cluster(Node(m.body, m.position), observation_time)
        for name, m in members.items()
    }
    unreported = [name for name, member in observed.items() if not member.has_health]
    if unreported:
        text = f"No status of {', '.join(unreported)}: assumed Healthy."
        reader.problems.append(Problem(argument, "unknown-member-health", text, Severity.WARNING))
    return {name: _build_member(member) for name, member in observed.items()}


def _build_member(member: ObservedMember) -> dict[str, Any]:
    """Build the JSON object of an observed member."""
    return {
        "labels": dict(member.labels),
        "taints": [dict(taint) for taint in member.taints],
        "health": member.health.value,
        "properties": dict(member.properties),
        "resources": {
            name: dict(getattr(member, name)) for name in ("total", "allocatable", "available")
        },
        "namespaces": None if member.namespaces is None else list(member.namespaces),
    }


KUBERNETES_MANIFESTS: Final = ResourceType(
    "kubernetes_manifests", 0, _SCHEMA, build_id, mode="data", check=check, read=read_manifests_data
)
