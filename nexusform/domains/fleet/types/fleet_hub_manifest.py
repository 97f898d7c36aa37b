"""fleet_hub_manifest: objects on the hub as YAML, selectable by placements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.documents.yaml_documents import build_problem
from nexusform.domains.fleet.importers.fleet_model import HubObjects
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.fleet.types.fleet_arguments import build_line_problems
from nexusform.domains.fleet.types.fleet_schemas import CLUSTER, FORCE_CONFLICTS, PODS, make_computed, make_text
from nexusform.domains.pods.importers.manifest_parser import (
    INVALID,
    Manifest,
    ManifestReading,
    is_envelope,
    is_fleet_group,
    list_envelope_problems,
    parse_manifests,
)
from nexusform.domains.pods.pod_kind import POD
from nexusform.interfaces.plugins import PlanningKind, ResourceType
from nexusform.json_data.plain_data import Path
from nexusform.resource_types.shared_arguments import build_id_attribute
from nexusform.schemas.block_schema import BlockSchema
from nexusform.schemas.value_types import STRING, ListType, MapType, ObjectType

_SCHEMA: Final = BlockSchema(
    {
        "id": build_id_attribute("<hash of the objects' names>"),
        "yaml_body": make_text(
            "One or more Kubernetes YAML documents.", required=True, displayed_in=("objects", "workloads")
        ),
        "force_conflicts": FORCE_CONFLICTS,
        "cluster_id": make_text(
            "Id of a cluster that gets the objects directly, without a placement.", refers_to=CLUSTER
        ),
        "objects": make_computed(
            ListType(
                ObjectType.create(
                    {
                        "group": STRING,
                        "version": STRING,
                        "kind": STRING,
                        "namespace": STRING,
                        "name": STRING,
                        "labels": MapType(STRING),
                    }
                )
            ),
            "The objects, in source order.",
        ),
        "workloads": make_computed(PODS, "Pod placement by workload and pod (with cluster_id).", predicted=True),
    },
    description="Objects on the hub, selectable by placements.",
)


@lru_cache(maxsize=256)
def _parse_body(body: str) -> ManifestReading:
    return parse_manifests("yaml_body", body)


@lru_cache(maxsize=256)
def _validate_objects(body: str) -> tuple[Problem, ...]:
    """Return the errors of the API server: schema errors of each object, and controller requirements of valid
    workloads. References between objects are validated elsewhere.
    """
    from nexusform.domains.pods.importers.kubernetes_schemas import list_schema_problems
    from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads

    problems: list[Problem] = []
    valid: list[Manifest] = []
    invalid: list[Manifest] = []
    for manifest in _parse_body(body).manifests:
        object_problems = [*list_schema_problems(manifest)]
        problems += object_problems
        (invalid if _filter_errors(object_problems) else valid).append(manifest)
    workload_errors = _filter_errors(collect_workloads(valid, invalid).findings)
    # Per location only the most severe problem is reported.
    error_locations = {(problem.line, problem.column) for problem in workload_errors}
    return (
        *(problem for problem in problems if (problem.line, problem.column) not in error_locations),
        *workload_errors,
    )


def _filter_errors(findings: Iterable[Problem]) -> list[Problem]:
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def _read_manifests(attributes: Mapping[str, Any]) -> ManifestReading:
    body = attributes.get("yaml_body")
    if not isinstance(body, str):
        return ManifestReading((), ())
    return _parse_body(body)


def identify(attributes: Mapping[str, Any]) -> str:
    """Return a hash of the objects' names and their cluster."""
    if not isinstance(attributes.get("yaml_body"), str):
        return ""
    names = [f"{m.group}|{m.kind}|{m.namespace}|{m.name}" for m in _read_manifests(attributes).manifests]
    text = "\n".join([str(attributes.get("cluster_id") or ""), *sorted(names)])
    return sha256(text.encode()).hexdigest()[:16]


def derive(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Compute `objects`."""
    return {
        "objects": [
            {
                "group": m.group,
                "version": m.version,
                "kind": m.kind,
                "namespace": m.namespace,
                "name": m.name,
                "labels": dict(m.labels),
            }
            for m in _read_manifests(attributes).manifests
        ]
    }


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the YAML with their lines, and duplicate objects."""
    reading = _read_manifests(attributes)
    body = attributes.get("yaml_body")
    findings = list(reading.findings)
    if isinstance(body, str):
        findings += _validate_objects(body)
    for manifest in reading.manifests:
        findings += _check_fleet_objects(manifest)
    problems = build_line_problems(findings, "yaml_body")
    lines_by_key: dict[tuple[str, str, str, str], int] = {}
    for manifest in reading.manifests:
        key = (manifest.group, manifest.kind, manifest.namespace, manifest.name)
        if key in lines_by_key:
            text = f"yaml_body:{manifest.line}: {manifest.title} is already defined at line {lines_by_key[key]}."
            problems.append(Problem(("yaml_body",), "duplicate-kubernetes-object", text, line=manifest.line))
        lines_by_key.setdefault(key, manifest.line)
    return problems


def _check_fleet_objects(manifest: Manifest) -> Iterator[Problem]:
    """Yield errors for fleet objects with resource types of their own; they have no effect here."""
    if is_envelope(manifest):
        yield from list_envelope_problems(manifest)
        return
    if not is_fleet_group(manifest.group):
        return
    api = API_KINDS.get(manifest.kind)
    if api is None:
        text = f"{manifest.title} is created by the hub itself. Remove it."
    else:
        text = f'{manifest.title} has no effect here. Use a resource "{api.type_name}" instead.'
    yield build_problem(manifest.file, manifest.position, INVALID, text)


def find_secret_paths(attributes: Mapping[str, Any]) -> tuple[Path, ...]:
    """Return the path of the text if it contains a Secret, also in an envelope."""
    if "Secret" not in str(attributes.get("yaml_body")):
        return ()  # most texts need no parsing
    parts: list[Any] = [manifest.body for manifest in _read_manifests(attributes).manifests]
    while parts:
        part = parts.pop()
        if isinstance(part, Mapping):
            if part.get("kind") == "Secret" and ("data" in part or "stringData" in part):
                return (("yaml_body",),)
            parts += part.values()
        elif isinstance(part, list):
            parts += part
    return ()


def build_hub_objects(attributes: Mapping[str, Any]) -> HubObjects:
    """Return the objects and their cluster."""
    return HubObjects(_read_manifests(attributes).manifests, attributes.get("cluster_id") or "")


FLEET_HUB_MANIFEST: Final = ResourceType(
    "fleet_hub_manifest",
    5,
    _SCHEMA,
    identify,
    derive=derive,
    check=check,
    build_fleet_object=build_hub_objects,
    kind=PlanningKind.MANIFEST,
    placement_kinds=(POD,),
    list_secrets=find_secret_paths,
)
