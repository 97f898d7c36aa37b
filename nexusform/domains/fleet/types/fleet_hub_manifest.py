"""fleet_hub_manifest: objects on the hub as YAML, selectable by placements."""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.documents.yaml_documents import build_problem
from nexusform.domains.fleet.importers.fleet_records import HubObjects
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.fleet.types.fleet_arguments import build_line_problems, read_text
from nexusform.domains.fleet.types.fleet_schemas import (
    CLUSTER_OR_MEMBER,
    FORCE_CONFLICTS,
    PODS,
    make_computed,
    make_number,
    make_text,
)
from nexusform.domains.pods.importers.manifest_parser import (
    INVALID,
    MAX_KEPT_TEXTS,
    Manifest,
    ParsedManifests,
    is_envelope,
    is_fleet_group,
    list_envelope_problems,
    parse_body,
    parse_manifests,
)
from nexusform.domains.pods.pod_kind import POD
from nexusform.domains.pods.types.fleet_object_type import FleetObjectType
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import Path
from nexusform.placements.consequences import ConsequenceTable, ObjectTitles
from nexusform.resource_types.shared_arguments import build_id_attribute
from nexusform.schemas.block_schema import BlockSchema
from nexusform.schemas.value_types import STRING, ListType, MapType, ObjectType
from nexusform.values.typed_value import UNKNOWN

_TEXT: Final = "yaml_body"
_WRITE_ONLY: Final = "yaml_body_wo"
_VERSION: Final = "yaml_body_wo_version"
_NAMESPACE: Final = "namespace"
_SCHEMA: Final = BlockSchema(
    {
        "id": build_id_attribute("<hash of the objects' names>"),
        "yaml_body": make_text(
            "One or more Kubernetes YAML documents. With yaml_body_wo: its names and labels.",
            computed=True,
            displayed_in=("objects", "workloads"),
        ),
        "namespace": make_text(
            "Namespace of the objects without one, as kubectl apply -n. Cluster-scoped objects "
            "keep none."
        ),
        "yaml_body_wo": make_text(
            (
                "Like yaml_body, but write-only: in no plan, state or journal. Secrets, "
                "ConfigMaps and custom resources."
            ),
            write_only=True,
        ),
        "yaml_body_wo_version": make_number(
            "Number of the content of yaml_body_wo. A change sends it again."
        ),
        "force_conflicts": FORCE_CONFLICTS,
        "cluster_id": make_text(
            "Id of a cluster that gets the objects directly, without a placement.",
            refers_to=CLUSTER_OR_MEMBER,
        ),
        "objects": make_computed(
            ListType(
                ObjectType.create(
                    dict.fromkeys(("group", "version", "kind", "namespace", "name"), STRING)
                    | {"labels": MapType(STRING)}
                )
            ),
            "The objects, in source order.",
        ),
        "workloads": make_computed(
            PODS, "Pod placement by workload and pod (with cluster_id).", predicted=True
        ),
    },
    description="Objects on the hub, selectable by placements.",
)


@lru_cache(maxsize=MAX_KEPT_TEXTS)
def _validate_objects(body: str, namespace: str) -> tuple[Problem, ...]:
    """Return the errors of the API server.

    They are schema errors of each object, and controller requirements of valid workloads.
    References between objects are validated elsewhere.
    """
    from nexusform.domains.pods.importers.kubernetes_schemas import list_schema_problems
    from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads

    problems: list[Problem] = []
    valid: list[Manifest] = []
    invalid: list[Manifest] = []
    for manifest in parse_body(body, namespace).manifests:
        object_problems = [*list_schema_problems(manifest)]
        problems += object_problems
        group = invalid if _filter_errors(object_problems) else valid
        group.append(manifest)
    workload_errors = _filter_errors(collect_workloads(valid, invalid).findings)
    # Controller errors replace other problems at the same location.
    error_locations = {(problem.line, problem.column) for problem in workload_errors}
    other_problems = (
        problem for problem in problems if (problem.line, problem.column) not in error_locations
    )
    return (*other_problems, *workload_errors)


def _filter_errors(findings: Iterable[Problem]) -> list[Problem]:
    return [finding for finding in findings if finding.severity is Severity.ERROR]


def split_write_only_body(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Return {"yaml_body": TEXT} for a write-only body, and the problems.

    The text has the names and labels of its objects. TEXT is UNKNOWN if the body is unknown or has
    problems. Return {} for a configured yaml_body, which stays. The write-only body is
    yaml_body_wo, with a version to be raised for a new text. Problems never show the text.
    """
    body = attributes.get(_TEXT)
    secret = attributes.get(_WRITE_ONLY)
    version = attributes.get(_VERSION)
    # Without a write-only body: yaml_body must be set, and a version has no meaning.
    if secret is None and version is not None:
        return {}, [
            _build_argument_conflict(_VERSION, f"{_VERSION} has no effect without {_WRITE_ONLY}.")
        ]
    if secret is None and body is None:
        detail = (
            f'The argument "{_TEXT}" is required, but no definition was found. Set it, or '
            f'"{_WRITE_ONLY}".'
        )
        return {_TEXT: UNKNOWN}, [Problem((), "missing-required-argument", detail)]
    if secret is None:
        return {}, []
    # With a write-only body: it is the only body, and it has a version.
    if body is not None:
        return {_TEXT: UNKNOWN}, [
            _build_argument_conflict(_WRITE_ONLY, f"Set {_TEXT} or {_WRITE_ONLY}, not both.")
        ]
    if version is None:
        return {_TEXT: UNKNOWN}, [_build_argument_conflict(_WRITE_ONLY, f"Set {_VERSION} with it.")]
    if secret is UNKNOWN:
        return {_TEXT: UNKNOWN}, []
    # Only the ids and lines of findings are reported: their texts could show parts of the body.
    namespace = read_text(attributes, _NAMESPACE)
    reading = parse_manifests(_WRITE_ONLY, secret, namespace)
    findings = [*_filter_errors(reading.findings), *_validate_objects(secret, namespace)]
    problems = [_build_write_only_problem(finding.id, finding.line) for finding in findings]
    unsupported = [manifest for manifest in reading.manifests if not _can_be_write_only(manifest)]
    problems += [
        _build_write_only_problem("unsupported-write-only-object", manifest.line)
        for manifest in unsupported
    ]
    documents = [
        json.dumps(_build_saved_body(manifest), ensure_ascii=False)
        for manifest in reading.manifests
    ]
    return {_TEXT: UNKNOWN if problems else "\n---\n".join(documents)}, problems


def _can_be_write_only(manifest: Manifest) -> bool:
    """Return True for Secrets, ConfigMaps and custom resources.

    The group of these is neither of Kubernetes nor of the fleet.
    """
    # The core API.
    if not manifest.group:
        return manifest.kind in ("Secret", "ConfigMap")
    return (
        "." in manifest.group
        and not manifest.group.endswith("k8s.io")
        and not is_fleet_group(manifest.group)
    )


def _build_argument_conflict(name: str, detail: str) -> Problem:
    return Problem((name,), "conflicting-arguments", detail)


def _build_write_only_problem(kind: str, line: int) -> Problem:
    """Build an error about an object of a write-only body, without its secret text."""
    reason = (
        (
            "Secrets, ConfigMaps and custom resources can be write-only. Write other objects in "
            "yaml_body"
        )
        if kind == "unsupported-write-only-object"
        else "Its text is hidden. To see the problem, use test data in yaml_body"
    )
    return Problem(
        (_WRITE_ONLY,), kind, f"{_WRITE_ONLY}:{line}: this object is not valid here. {reason}."
    )


def _build_saved_body(manifest: Manifest) -> dict[str, Any]:
    """Return the saved part of an object of a write-only body: its kind, names and labels."""
    metadata = {
        "name": manifest.name,
        "namespace": manifest.namespace,
        "labels": dict(manifest.labels),
    }
    version = f"{manifest.group}/{manifest.version}" if manifest.group else manifest.version
    identity = {name: value for name, value in metadata.items() if value}
    return {"apiVersion": version, "kind": manifest.kind, "metadata": identity}


def _read_manifests(attributes: Mapping[str, Any]) -> ParsedManifests:
    body = attributes.get("yaml_body")
    return (
        parse_body(body, read_text(attributes, _NAMESPACE))
        if isinstance(body, str)
        else ParsedManifests(manifests=(), findings=())
    )


def build_id(attributes: Mapping[str, Any]) -> str:
    """Return a hash of the objects' names and their cluster."""
    if not isinstance(attributes.get("yaml_body"), str):  # not known
        return ""
    names = [
        f"{m.group}|{m.kind}|{m.namespace}|{m.name}" for m in _read_manifests(attributes).manifests
    ]
    text = "\n".join([read_text(attributes, "cluster_id"), *sorted(names)])
    return sha256(text.encode()).hexdigest()[:16]


def _build_object(manifest: Manifest) -> dict[str, Any]:
    """Build the JSON object of a manifest."""
    return {
        "group": manifest.group,
        "version": manifest.version,
        "kind": manifest.kind,
        "namespace": manifest.namespace,
        "name": manifest.name,
        "labels": dict(manifest.labels),
    }


def derive(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the computed attribute `objects`, with an entry for each object in the YAML."""
    return {"objects": list(map(_build_object, _read_manifests(attributes).manifests))}


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the YAML with their lines, and duplicate objects."""
    reading = _read_manifests(attributes)
    body = attributes.get("yaml_body")
    findings = list(reading.findings)
    # write-only bodies were validated by the reader.
    if isinstance(body, str) and attributes.get(_VERSION) is None:
        findings += _validate_objects(body, read_text(attributes, _NAMESPACE))
    for manifest in reading.manifests:
        findings += _check_fleet_object(manifest)
    problems = build_line_problems(findings, "yaml_body")
    lines_by_key: dict[tuple[str, str, str, str], int] = {}
    for manifest in reading.manifests:
        key = manifest.identity
        if key in lines_by_key:
            text = (
                f"yaml_body:{manifest.line}: {manifest.title} is already defined at line "
                f"{lines_by_key[key]}."
            )
            problems.append(
                Problem(("yaml_body",), "duplicate-kubernetes-object", text, line=manifest.line)
            )
        lines_by_key.setdefault(key, manifest.line)
    return problems


def _check_fleet_object(manifest: Manifest) -> Iterator[Problem]:
    """Yield the problems of an envelope, or an error for another fleet object.

    It has no effect here.
    """
    if is_envelope(manifest):
        yield from list_envelope_problems(manifest)
        return
    if not is_fleet_group(manifest.group):
        # An ordinary object.
        return
    api = API_KINDS.get(manifest.kind)
    if api is None:
        text = f"{manifest.title} is created by the hub itself. Remove it."
    else:
        text = f'{manifest.title} has no effect here. Use a resource "{api.type_name}" instead.'
    yield build_problem(manifest.file, manifest.position, INVALID, text)


def find_secret_paths(attributes: Mapping[str, Any]) -> tuple[Path, ...]:
    """Return the path of yaml_body if it contains a Secret with data, else ().

    Objects inside of others are searched, too, because an envelope contains the objects
    of a namespace.
    """
    if "Secret" not in str(attributes.get("yaml_body")):
        # Most texts need no parsing.
        return ()
    # Still to search.
    parts: list[Any] = [manifest.body for manifest in _read_manifests(attributes).manifests]
    while parts:
        part = parts.pop()
        if isinstance(part, Mapping):
            has_data = "data" in part or "stringData" in part
            if has_data and part.get("kind") == "Secret":
                return (("yaml_body",),)
            parts += part.values()
        elif isinstance(part, list):
            parts += part
    return ()


def build_hub_objects(attributes: Mapping[str, Any]) -> HubObjects:
    """Return the objects and their cluster.

    Objects of a write-only body, with only names and labels in state, get the version of the body
    as a field: a new version is a change of the object, and starts a rollout.
    """
    manifests = _read_manifests(attributes).manifests
    version = attributes.get(_VERSION)
    if version is not None:
        manifests = tuple(
            replace(item, body={**item.body, _VERSION: version}) for item in manifests
        )
    return HubObjects(manifests, read_text(attributes, "cluster_id"))


def list_titles(attributes: Mapping[str, Any]) -> ObjectTitles:
    """Return the titles of the objects, and that they are on the hub if no cluster has them."""
    titles = [manifest.title for manifest in _read_manifests(attributes).manifests]
    return ObjectTitles(titles, "" if read_text(attributes, "cluster_id") else "the hub")


FLEET_HUB_MANIFEST: Final = FleetObjectType(
    name="fleet_hub_manifest",
    phase=5,
    schema=_SCHEMA,
    build_id=build_id,
    derive=derive,
    check=check,
    build_fleet_object=build_hub_objects,
    kind=PlanningKind.MANIFEST,
    placement_kinds=(POD,),
    list_secrets=find_secret_paths,
    split_write_only_body=split_write_only_body,
    consequences=ConsequenceTable(list_titles=list_titles),
)
