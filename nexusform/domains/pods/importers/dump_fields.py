"""Closed lists of the fields of Kubernetes objects in dumps, and the facts that are not read.

Names and types of fields are those of Kubernetes 1.37 (assets/kubernetes_fields.txt). The lists
below say which fields of pods and nodes have no influence on the node of a pod. All fields of other
types are read, or used by other controllers than those of pods. A field that the schema lacks is
unread, and so are an unknown version of a kind, and a field or kind that the version of the cluster
lacks (assets/kubernetes_field_versions.txt): another version than that of its kubelets decides.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from nexusform.documents.field_lists import FieldList, build_field_list
from nexusform.documents.json_positions import find_json_lines
from nexusform.documents.object_schemas import (
    ALWAYS_WRITTEN,
    LocatedDoubt,
    ObjectSchema,
    build_unread_fact,
    locate_doubt,
)
from nexusform.documents.yaml_documents import parse_yaml
from nexusform.domains.pods.importers.kubernetes_schemas import (
    explain_unknown_value,
    find_kind_type,
    get_type_fields,
    list_kind_names,
    list_unread_parts,
)
from nexusform.doubts.doubt import Doubt, Influence
from nexusform.json_data.plain_data import Path, format_path, get_mapping, get_value_at_path

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
    # A ratio of limits and requests is not checked.
    "core_v1.LimitRangeItem": build_field_list("type max min default defaultRequest", {}),
    "core_v1.NodeSpec": build_field_list(
        "providerID taints unschedulable",
        {"addresses of pods": "podCIDR podCIDRs", "deprecated": "externalID configSource"},
    ),
}
# Read fields of a status. The schema has none: their kinds are those of the API reference.
_SERVER_FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "core_v1.NodeStatus": {
        "allocatable": "{q",
        "capacity": "{q",
        "conditions": "[condition",
        "images": "[image",
        "declaredFeatures": "[s",
    },
    "core_v1.PodStatus": {
        "phase": "s",
        "nominatedNodeName": "s",
        "conditions": "[condition",
        "startTime": "s",
        "resourceClaimStatuses": "[a",
    },
    "condition": dict.fromkeys(("type", "status", "reason", "message", "lastHeartbeatTime"), "s"),
    "image": {"names": "[s", "sizeBytes": "i"},
}
# Parts that an API server, a kubelet or a controller always writes, by kind, beside the
# required fields of the API. A dump without one was changed or cut: the part was not read.
# Sources: Kubernetes 1.37, defaults and fields without omitempty in
# staging/src/k8s.io/api, and pkg/kubelet/kubelet_node_status.go.
_SPEC: Final = ("spec",)
_WRITTEN_PARTS: Final[Mapping[str, tuple[Path, ...]]] = {
    "Node": (
        *[("metadata", "labels", f"kubernetes.io/{name}") for name in ("hostname", "os", "arch")],
        _SPEC,
        *[("status", "allocatable", name) for name in ("cpu", "memory", "pods")],
    ),
    "Pod": (("metadata", "namespace"), ("status", "phase")),
    "Namespace": (("metadata", "labels", "kubernetes.io/metadata.name"),),
    "PodDisruptionBudget": (_SPEC,),
    "LimitRange": (("spec", "limits"),),
    "PriorityClass": (("value",),),
    "VolumeAttachment": (("spec", "nodeName"), ("spec", "source")),
    "CSIStorageCapacity": (("storageClassName",),),
    **dict.fromkeys(
        (
            *("ResourceQuota", "Service", "CSINode", "HorizontalPodAutoscaler"),
            *("ResourceSlice", "DeviceClass", "ResourceClaim", "ResourceClaimTemplate"),
        ),
        (_SPEC,),
    ),
}


@cache
def _get_list(type_name: str) -> FieldList:
    """Return the closed list of a type: by hand, else all fields of its schema."""
    return LISTS.get(type_name) or FieldList(frozenset(get_type_fields(type_name)))


def list_unread_facts(
    file: str,
    content: bytes,
    objects: Iterable[tuple[Path, Mapping[str, Any]]],
    version: tuple[int, ...],
) -> list[Doubt]:
    """List the facts of objects of a file that are not read; each object has its path.

    In a file of several documents, the path begins with the number of the document. `version` is
    the one of the cluster, () if unknown.
    """
    located_parts = [
        ((*path, *part_path), body, doubt)
        for path, body in objects
        for part_path, doubt in _list_unread_parts(body, version)
    ]
    if not located_parts:
        return []
    lines = _find_lines(file, content, [path for path, _, _ in located_parts])
    return [
        build_unread_fact(body, doubt, file, lines.get(path, 0))
        for path, body, doubt in located_parts
    ]


def _find_lines(file: str, content: bytes, paths: Collection[Path]) -> Mapping[Path, int]:
    """Find the lines of parts of a file in JSON or YAML, by path."""
    if content.lstrip()[:1] == b"{":
        return find_json_lines(content.decode("utf-8", "replace"), paths)
    documents = parse_yaml(file, content).documents
    lines: dict[Path, int] = {}
    for path in paths:
        number, part_path = (0, path) if len(documents) == 1 else (int(path[0]), path[1:])
        lines[path] = documents[number].find_position(*part_path).line
    return lines


def _list_unread_parts(
    body: Mapping[str, Any], cluster_version: tuple[int, ...]
) -> Iterator[LocatedDoubt]:
    """List the unread parts of an object.

    An unknown version of a known kind is one. Custom objects have no schema; their readers
    know their fields.
    """
    version = str(body.get("apiVersion") or "v1")
    type_name = find_kind_type(version, str(body["kind"]))
    if type_name is None:
        group = version.rpartition("/")[0]
        if any(
            kind == body["kind"] and known_version.rpartition("/")[0] == group
            for known_version, kind in list_kind_names()
        ):
            yield locate_doubt(("apiVersion",), f"apiVersion {version}")
        return
    yield from list_unread_parts(body, cluster_version, _get_list, is_stored=True)
    yield from list_wrong_server_values(body, "metadata", "meta_v1.ObjectMeta")
    yield from list_wrong_server_values(body, "status", f"{type_name}Status")
    kind = body["kind"]
    # The quota controller writes an amount for each limit. Without one, no pod is admitted.
    limits = get_mapping(body, "spec", "hard") if kind == "ResourceQuota" else {}
    used_amounts = [("status", "used", name) for name in limits]
    for path in (*_WRITTEN_PARTS.get(kind, ()), *used_amounts):
        # An empty spec is possible: of a node without taints and provider.
        empty_values: tuple[object, ...] = (None, "", []) if path == _SPEC else (None, "", [], {})
        if get_value_at_path(body, *path) in empty_values:
            parents = (path[:end] for end in range(len(path) - 1, 0, -1))
            parent = next((item for item in parents if get_mapping(body, *item)), ())
            yield locate_doubt(parent, format_path(path), reason=ALWAYS_WRITTEN)


@cache
def _list_builtin_groups() -> Mapping[str, frozenset[str]]:
    """List the API groups of Kubernetes' own kinds, by kind."""
    groups: dict[str, set[str]] = {}
    for version, kind in list_kind_names():
        groups.setdefault(kind, set()).add(version.rpartition("/")[0])
    return {kind: frozenset(names) for kind, names in groups.items()}


def is_custom_namesake(body: Mapping[str, Any]) -> bool:
    """Return whether an object is a custom one with the kind of a built-in object.

    An example is the Node of longhorn.io.
    """
    group = str(body.get("apiVersion") or "v1").rpartition("/")[0]
    builtin_groups = _list_builtin_groups().get(str(body.get("kind")))
    # Groups of custom kinds are domains. `extensions` had built-in kinds.
    return "." in group and builtin_groups is not None and group not in builtin_groups


def list_wrong_server_values(
    body: Mapping[str, Any], name: str, type_name: str
) -> Iterator[LocatedDoubt]:
    """List the values of a wrong kind in a part that servers set, and may add fields to."""
    schema = ObjectSchema(
        _get_server_fields, lambda _: None, explain_unknown_value=explain_unknown_value
    )
    yield from schema.list_unread_parts({name: body.get(name)}, "", {name: type_name})


def _get_server_fields(type_name: str) -> Mapping[str, str]:
    """Return the fields that a server sets, with their kinds."""
    return _SERVER_FIELDS.get(type_name) or get_type_fields(type_name)
