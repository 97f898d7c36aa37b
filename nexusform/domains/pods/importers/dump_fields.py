"""Closed lists of the fields of Kubernetes objects in dumps, and the facts that are not read.

Names and types of fields are those of Kubernetes 1.37 (assets/kubernetes_fields.txt). The lists
below say which fields of pods and nodes have no influence on the node of a pod. All fields of other
types are read, or used by other controllers than those of pods. A field that the schema lacks is
unread, and so is an unknown version of a kind.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from msgspec.structs import replace

from nexusform.documents.json_positions import find_json_lines
from nexusform.documents.unread_facts import FieldList, Influence, UnreadFact, build_field_list
from nexusform.domains.pods.importers.kubernetes_schemas import (
    find_kind_type,
    get_type_fields,
    list_kind_names,
)

_Path = tuple[str | int, ...]
_ON_NODE: Final = "the containers, on the node of their pod"
_CONTAINER: Final = build_field_list(
    "name image resources ports restartPolicy restartPolicyRules",
    {
        _ON_NODE: (
            "args command env envFrom imagePullPolicy lifecycle livenessProbe readinessProbe "
            "resizePolicy securityContext startupProbe stdin stdinOnce terminationMessagePath "
            "terminationMessagePolicy tty volumeDevices volumeMounts workingDir"
        )
    },
)
LISTS: Final[Mapping[str, FieldList]] = {
    "core_v1.PodSpec": build_field_list(
        "nodeName nodeSelector affinity tolerations topologySpreadConstraints hostNetwork overhead "
        "priority resources volumes schedulingGates schedulerName preemptionPolicy resourceClaims "
        "priorityClassName activeDeadlineSeconds hostUsers containers initContainers",
        {
            _ON_NODE: (
                "automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks "
                "ephemeralContainers hostAliases hostIPC hostPID hostname hostnameOverride "
                "imagePullSecrets os restartPolicy securityContext serviceAccount "
                "serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain "
                "terminationGracePeriodSeconds"
            ),
            "its effect is in the conditions of the pod": "readinessGates",
            "admission has added its overhead and node selector": "runtimeClassName",
        },
        {Influence.ORDER: "evictionResponders"},
    ),
    "core_v1.Container": _CONTAINER,
    "core_v1.NodeSpec": build_field_list(
        "providerID taints unschedulable",
        {"addresses of pods": "podCIDR podCIDRs", "deprecated": "externalID configSource"},
    ),
}
# Fields that are not checked: of the server, or of any kind.
_UNCHECKED: Final = ("metadata", "status")


@cache
def _get_list(type_name: str) -> FieldList:
    """Return the closed list of a type: by hand, else all fields of its schema."""
    return LISTS.get(type_name) or FieldList(frozenset(get_type_fields(type_name)))


def list_unread_facts(
    file: str, content: bytes, objects: Iterable[tuple[_Path, Mapping[str, Any]]]
) -> list[UnreadFact]:
    """List the facts of objects of a file that are not read; each object has its path."""
    found: list[tuple[_Path, UnreadFact]] = []
    for path, body in objects:
        for part_path, field_name, influence in _list_unread_parts(body):
            metadata = body["metadata"]
            namespace = metadata.get("namespace")
            name = f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])
            fact = UnreadFact(str(body["kind"]), name, field_name, file, 0, influence)
            found.append(((*path, *part_path), fact))
    if not found:
        return []
    paths = [path for path, _ in found]
    lines: Mapping[_Path, int] = {}
    if content.lstrip()[:1] == b"{":
        lines = find_json_lines(content.decode("utf-8", "replace"), paths)
    return [replace(fact, line=lines.get(path, 0)) for path, fact in found]


def _list_unread_parts(body: Mapping[str, Any]) -> Iterator[tuple[_Path, str, Influence]]:
    """List path, field and influence of the unread parts of an object.

    An unknown version of a known kind is one. Custom objects have no schema; their readers know
    their fields.
    """
    version = str(body.get("apiVersion") or "v1")
    type_name = find_kind_type(version, str(body["kind"]))
    if type_name is None:
        group = version.rpartition("/")[0]
        if any(
            kind == body["kind"] and known_version.rpartition("/")[0] == group
            for known_version, kind in list_kind_names()
        ):
            yield ("apiVersion",), f"apiVersion {version}", Influence.PLACEMENT
        return
    fields = {name: part for name, part in body.items() if name not in _UNCHECKED}
    yield from _walk_fields(fields, type_name, (), "")


def _walk_fields(
    fields: Mapping[str, Any], type_name: str, path: _Path, prefix: str
) -> Iterator[tuple[_Path, str, Influence]]:
    """List path, field and influence of the unread parts of a value of a type."""
    field_list = _get_list(type_name)
    types = get_type_fields(type_name)
    present = {name: part for name, part in fields.items() if part not in (None, "", [], {})}
    for name, influence in field_list.list_unread(present):
        yield (*path, name), f"{prefix}{name}", influence
    for name, part in present.items():
        part_type = types.get(name, "").lstrip("[{")
        if name in field_list.read and "." in part_type:
            for step, item in _list_objects(part, types[name]):
                yield from _walk_fields(item, part_type, (*path, name, *step), f"{prefix}{name}.")


def _list_objects(value: Any, kind: str) -> Iterator[tuple[_Path, Mapping[str, Any]]]:
    """List the objects in a value of a kind, each with its path in the value."""
    parts: Iterable[tuple[_Path, Any]] = [((), value)]
    if kind.startswith("[") and isinstance(value, list):
        parts = (((index,), item) for index, item in enumerate(value))
    elif kind.startswith("{") and isinstance(value, Mapping):
        parts = (((key,), item) for key, item in value.items())
    for path, item in parts:
        if isinstance(item, Mapping):
            yield path, item
