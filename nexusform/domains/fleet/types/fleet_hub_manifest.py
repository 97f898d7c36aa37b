"""fleet_hub_manifest: objects on the hub, as YAML, that placements may select."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from nexusform.diagnostics import Problem, Severity
from nexusform.documents.yaml_text import problem_at
from nexusform.domains.fleet.importers.fleet_model import HubObjects
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.fleet.types.fleet_reading import line_problems
from nexusform.domains.fleet.types.fleet_schemas import CLUSTER, FORCE_CONFLICTS, PODS, shown, text
from nexusform.domains.pods.importers.kubernetes_manifests import (
    INVALID,
    Manifest,
    ManifestReading,
    envelope_problems,
    is_envelope,
    is_fleet_group,
    read_manifests,
)
from nexusform.domains.pods.pod_kind import POD
from nexusform.plain_data import Path
from nexusform.ports import Kind, ResourceType
from nexusform.resource_types.shared_arguments import id_attribute
from nexusform.schema import BlockSchema
from nexusform.value_types import STRING, ListType, MapType, ObjectType

_SCHEMA: Final = BlockSchema(
    {
        "id": id_attribute("<hash of the objects' names>"),
        "yaml_body": text(
            "One or more Kubernetes YAML documents.", required=True, shown_in=("objects", "workloads")
        ),
        "force_conflicts": FORCE_CONFLICTS,
        "cluster_id": text(
            "Id of a cluster that gets the objects directly, without a placement.", refers_to=CLUSTER
        ),
        "objects": shown(
            ListType(
                ObjectType.of(
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
        "workloads": shown(PODS, "Pod placement by workload and pod (with cluster_id).", predicted=True),
    },
    description="Objects on the hub, selectable by placements.",
)


@lru_cache(maxsize=256)
def _read(body: str) -> ManifestReading:
    return read_manifests("yaml_body", body)


@lru_cache(maxsize=256)
def _refused(body: str) -> tuple[Problem, ...]:
    """What the API server refuses: of an object beside its schema, and of workloads that are right beside it
    what their controllers need, wherever their pods go. What other objects have a part in is looked at where
    they meet.
    """
    from nexusform.domains.pods.importers.kubernetes_schemas import schema_problems
    from nexusform.domains.pods.importers.kubernetes_workloads import workloads_of

    problems: list[Problem] = []
    right: list[Manifest] = []
    others: list[Manifest] = []
    for manifest in _read(body).manifests:
        wrong = [*schema_problems(manifest)]
        problems += wrong
        (others if _errors(wrong) else right).append(manifest)
    refused = _errors(workloads_of(right, others).findings)
    # Of one place the worst is told.
    places = {(each.line, each.column) for each in refused}
    return (*(each for each in problems if (each.line, each.column) not in places), *refused)


def _errors(findings: Iterable[Problem]) -> list[Problem]:
    return [each for each in findings if each.severity is Severity.ERROR]


def _reading(attributes: Mapping[str, Any]) -> ManifestReading:
    body = attributes.get("yaml_body")
    if not isinstance(body, str):
        return ManifestReading((), ())
    return _read(body)


def identify(attributes: Mapping[str, Any]) -> str:
    """A hash of the objects' names, with the cluster they go to."""
    if not isinstance(attributes.get("yaml_body"), str):
        return ""
    names = [f"{m.group}|{m.kind}|{m.namespace}|{m.name}" for m in _reading(attributes).manifests]
    text = "\n".join([str(attributes.get("cluster_id") or ""), *sorted(names)])
    return sha256(text.encode()).hexdigest()[:16]


def derive(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """`objects`."""
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
            for m in _reading(attributes).manifests
        ]
    }


def check(attributes: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with the YAML, each with its line, and objects that stand twice."""
    reading = _reading(attributes)
    body = attributes.get("yaml_body")
    findings = list(reading.findings)
    if isinstance(body, str):
        findings += _refused(body)
    for manifest in reading.manifests:
        findings += _not_for_the_hub(manifest)
    problems = line_problems(findings, "yaml_body")
    seen: dict[tuple[str, str, str, str], int] = {}
    for manifest in reading.manifests:
        key = (manifest.group, manifest.kind, manifest.namespace, manifest.name)
        if key in seen:
            text = f"yaml_body:{manifest.line}: {manifest.title} stands at line {seen[key]} already."
            problems.append(Problem(("yaml_body",), "duplicate-kubernetes-object", text, line=manifest.line))
        seen.setdefault(key, manifest.line)
    return problems


def _not_for_the_hub(manifest: Manifest) -> Iterator[Problem]:
    """Objects that act on the fleet itself have types of their own; here they would do nothing."""
    if is_envelope(manifest):
        yield from envelope_problems(manifest)
        return
    if not is_fleet_group(manifest.group):
        return
    api = API_KINDS.get(manifest.kind)
    if api is None:
        text = f"{manifest.title} is made by the hub itself; take it out."
    else:
        text = (
            f"{manifest.title} would do nothing here: it belongs to the fleet itself. "
            f'Write a resource "{api.type_name}" for it.'
        )
    yield problem_at(manifest.file, manifest.place, INVALID, text)


def secrets(attributes: Mapping[str, Any]) -> tuple[Path, ...]:
    """The text, where an object in it is a Secret, enveloped or not."""
    if "Secret" not in str(attributes.get("yaml_body")):
        return ()  # most texts: these need not be read for it
    parts: list[Any] = [manifest.body for manifest in _reading(attributes).manifests]
    while parts:
        part = parts.pop()
        if isinstance(part, Mapping):
            if part.get("kind") == "Secret" and ("data" in part or "stringData" in part):
                return (("yaml_body",),)
            parts += part.values()
        elif isinstance(part, list):
            parts += part
    return ()


def fleet(attributes: Mapping[str, Any]) -> HubObjects:
    """The objects and where they go."""
    return HubObjects(_reading(attributes).manifests, attributes.get("cluster_id") or "")


FLEET_HUB_MANIFEST: Final = ResourceType(
    "fleet_hub_manifest",
    5,
    _SCHEMA,
    identify,
    derive=derive,
    check=check,
    fleet=fleet,
    kind=Kind.MANIFEST,
    holds=(POD,),
    secrets=secrets,
)
