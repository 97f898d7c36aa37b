"""data kubernetes_manifests: files and folders of a hub's objects, by kind, ready for for_each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from nexusform.diagnostics import Problem, Severity
from nexusform.documents.times import parse_time
from nexusform.documents.yaml_text import Node, YamlDocument, problem_at
from nexusform.domains.fleet.importers.fleet_documents import FleetDocument, read_fleet_object
from nexusform.domains.fleet.importers.fleet_members import (
    MemberView,
    newest_heartbeat,
    read_member,
    time_problems,
)
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.fleet.scheduling.validation import check_name, check_taints, sentence
from nexusform.domains.fleet.types.fleet_reading import read_taints
from nexusform.domains.pods.importers.kubernetes_manifests import (
    INVALID,
    Manifest,
    envelope_problems,
    is_envelope,
    is_fleet_group,
    read_manifests,
)
from nexusform.plain_data import Path
from nexusform.ports import DataAnswer, FileProblem, ReadContext, ResourceType
from nexusform.schema import Attribute, BlockSchema
from nexusform.value_types import BOOL, STRING, ListType, MapType, ObjectType, SetType

MEMBER: Final = "MemberCluster"
_TEXTS: Final = MapType(STRING)
_ENDINGS: Final = (".yaml", ".yml", ".json")
# Kind of the fleet's API -> the attribute that holds its objects.
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
MEMBER_TYPE: Final = ObjectType.of(
    {
        "labels": _TEXTS,
        "taints": ListType(ObjectType.of({"key": STRING, "value": STRING, "effect": STRING})),
        "health": STRING,
        "properties": _TEXTS,
        "resources": ObjectType.of({"total": _TEXTS, "allocatable": _TEXTS, "available": _TEXTS}),
        "namespaces": SetType(STRING),
    }
)


def computed(of: Any, description: str) -> Attribute:
    """An attribute that reading gives."""
    return Attribute(of, description, computed=True)


_SCHEMA: Final = BlockSchema(
    {
        "id": computed(STRING, "The directory, or the first file."),
        "directory": Attribute(
            STRING,
            "Directory with .yaml, .yml and .json files, without subdirectories.",
            optional=True,
        ),
        "files": Attribute(ListType(STRING), "Files, instead of directory.", optional=True),
        "lenient": Attribute(
            BOOL,
            "Correct known mistakes of printed manifests. Set it next to each manifest too.",
            optional=True,
        ),
        "observed_at": Attribute(
            STRING,
            "Time of the export (RFC 3339). Default: the newest heartbeat.",
            optional=True,
        ),
        **{
            attribute: computed(_TEXTS, f"{kind} manifests by id, for {API_KINDS[kind].type_name}.")
            for kind, attribute in ATTRIBUTES.items()
        },
        "member_clusters": computed(MapType(MEMBER_TYPE), "MemberClusters by name."),
        "hub_objects": computed(
            _TEXTS, 'Other objects as yaml_body of fleet_hub_manifest, by "<kind> <namespace>/<name>".'
        ),
    },
    description="Objects of a hub from files, by kind.",
)


def identify(attributes: Mapping[str, Any]) -> str:
    """The directory, or the first file."""
    files = attributes.get("files") or [""]
    return str(attributes.get("directory") or files[0])


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """What to read must be said in one way, and the time must be one."""
    problems = []
    directory, files = attributes.get("directory"), attributes.get("files")
    if (directory is None) == (files is None):
        kind = "missing-required-argument" if files is None else "conflicting-arguments"
        problems.append(Problem((), kind, 'Say what to read: either "directory" or "files".'))
    time = attributes.get("observed_at")
    if isinstance(time, str) and parse_time(time) is None:
        text = f'Write a time such as "2026-01-31T12:00:00Z", not "{time}".'
        problems.append(Problem(("observed_at",), "invalid-duration", text))
    return problems


class Reading:
    """The objects of the files, and what is wrong with them. `shown`: a hub shows them, so what it makes
    itself is among them, and one object may stand twice.
    """

    def __init__(self, *, lenient: bool, shown: bool = False) -> None:
        self.lenient = lenient
        self.shown = shown
        self.manifests: list[Manifest] = []
        self.problems: list[Problem] = []
        self._files: set[str] = set()

    def read(self, name: str, content: bytes, path: Path) -> None:
        """Take a file; `path` is the argument that names it."""
        reading = read_manifests(name, content)
        self.manifests += reading.manifests
        self.take(reading.findings, path)
        for manifest in reading.manifests:
            self.take(self._findings(manifest), path)

    def take(self, findings: Iterable[Problem], path: Path) -> None:
        """Say findings about a file at the argument that names it."""
        for each in findings:
            place = f"{each.file}:{each.line}" if each.line else each.file
            self.problems.append(Problem(path, each.id, f"{place}: {each.detail}", each.severity))

    def _findings(self, manifest: Manifest) -> Iterable[Problem]:
        """What is wrong with a manifest: of the fleet, or of a kind of Kubernetes."""
        if is_envelope(manifest) or not is_fleet_group(manifest.group):
            from nexusform.domains.pods.importers.kubernetes_schemas import schema_problems

            problems = [*schema_problems(manifest)]
            return [*envelope_problems(manifest), *problems] if is_envelope(manifest) else problems
        api = API_KINDS.get(manifest.kind)
        if api is None and self.shown:
            return ()
        if api is None:
            text = f"{manifest.title} is made by the hub itself; take it out of the files."
            return (problem_at(manifest.file, manifest.place, INVALID, text),)
        document = YamlDocument(manifest.body, manifest.place)
        fleet = read_fleet_object(manifest.file, document, api, BlockSchema({}), lenient=self.lenient)
        if manifest.kind != MEMBER:
            return fleet.findings
        times = time_problems(Node.of(document))
        wrong = [problem_at(manifest.file, place, INVALID, text) for place, text in times]
        return [*fleet.findings, *wrong, *_member_problems(manifest.file, fleet)]


def _member_problems(file: str, member: FleetDocument) -> Iterable[Problem]:
    """What the API and the webhook refuse of a member's name and taints."""
    names = [each.below("metadata") for each in check_name(member.name)]
    for each in (*names, *check_taints(read_taints(member.values.get("taint")))):
        if not member.is_judged(each.path):
            yield Problem((), INVALID, sentence(each.detail), file=file, line=member.line(each.path))


def read(attributes: Mapping[str, Any], context: ReadContext) -> DataAnswer:
    """Read the files, and sort what is in them by kind."""
    reading = Reading(lenient=attributes.get("lenient") is True)
    argument = read_files(reading, attributes, context, f": no file that ends in {', '.join(_ENDINGS)}.")
    if argument is None:
        return DataAnswer({}, reading.problems)
    values = sorted_by_kind(reading, argument, attributes)
    if any(problem.severity is Severity.ERROR for problem in reading.problems):
        return DataAnswer({}, reading.problems)
    return DataAnswer({"id": identify(attributes), **values}, reading.problems)


def read_files(
    reading: Reading, attributes: Mapping[str, Any], context: ReadContext, why_nothing: str
) -> Path | None:
    """Read the files that the arguments name. The argument that does; None when the directory cannot be read.

    `why_nothing` ends the sentence that is said when no file holds an object.
    """
    directory = attributes.get("directory")
    try:
        names = attributes.get("files") or _names_of(str(directory), context)
    except FileProblem as problem:
        reading.problems.append(Problem(("directory",), "unreadable-file", str(problem)))
        return None
    for at, name in enumerate(names):
        path: Path = ("directory",) if directory is not None else ("files", at)
        try:
            reading.read(name, context.files.read(name), path)
        except FileProblem as problem:
            reading.problems.append(Problem(path, "unreadable-file", str(problem)))
    argument: Path = ("directory",) if directory is not None else ("files",)
    if not reading.manifests and not reading.problems:
        text = f"There is no object in {identify(attributes)}{why_nothing}"
        reading.problems.append(Problem(argument, INVALID, text))
    return argument


def _names_of(directory: str, context: ReadContext) -> list[str]:
    """The files of a directory that are read. Raises FileProblem."""
    base = directory.rstrip("/") or "/"
    return [f"{base}/{name}" for name in context.files.glob(base, "*") if name.endswith(_ENDINGS)]


def sorted_by_kind(reading: Reading, argument: Path, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The computed attributes: the objects by kind, and the members."""
    texts: dict[str, dict[str, str]] = {name: {} for name in (*ATTRIBUTES.values(), "hub_objects")}
    members: dict[str, Manifest] = {}
    seen: dict[tuple[str, str, str, str], Manifest] = {}
    for manifest in reading.manifests:
        key = (manifest.group, manifest.kind, manifest.namespace, manifest.name)
        other = seen.setdefault(key, manifest)
        if other is not manifest and reading.shown:
            continue
        if other is not manifest:
            text = f"{manifest.title} stands in {other.file}:{other.line} already."
            twice = problem_at(manifest.file, manifest.place, "duplicate-kubernetes-object", text)
            reading.take([twice], argument)
            continue
        if is_fleet_group(manifest.group) and manifest.kind == MEMBER:
            members[manifest.name] = manifest
            continue
        fleet = ATTRIBUTES.get(manifest.kind) if is_fleet_group(manifest.group) else None
        in_namespace = f"{manifest.namespace}/" if manifest.namespace else ""
        name = f"{in_namespace}{manifest.name}"
        body = json.dumps(manifest.body, ensure_ascii=False, indent=2)
        texts[fleet or "hub_objects"][name if fleet else f"{manifest.kind} {name}"] = body
    observed_at = attributes.get("observed_at")
    now = (
        parse_time(observed_at)
        if isinstance(observed_at, str)
        else newest_heartbeat(m.body for m in members.values())
    )
    return {**texts, "member_clusters": _members(members, now, reading, argument)}


def _members(
    members: Mapping[str, Manifest], now: datetime | None, reading: Reading, argument: Path
) -> dict[str, Any]:
    """The members as the data source shows them; one that says nothing of its health counts as healthy."""
    views = {name: read_member(Node(m.body, m.place), now) for name, m in members.items()}
    silent = [name for name, view in views.items() if not view.says_health]
    if silent:
        text = f"Nothing is said of the health of {', '.join(silent)} (no status): taken for Healthy."
        reading.problems.append(Problem(argument, "health-of-a-member-is-unknown", text, Severity.WARNING))
    return {name: _shown(view) for name, view in views.items()}


def _shown(view: MemberView) -> dict[str, Any]:
    return {
        "labels": dict(view.labels),
        "taints": [dict(taint) for taint in view.taints],
        "health": str(view.health),
        "properties": dict(view.properties),
        "resources": {
            "total": dict(view.total),
            "allocatable": dict(view.allocatable),
            "available": dict(view.available),
        },
        "namespaces": None if view.namespaces is None else list(view.namespaces),
    }


KUBERNETES_MANIFESTS: Final = ResourceType(
    "kubernetes_manifests", 0, _SCHEMA, identify, mode="data", check=check, read=read
)
