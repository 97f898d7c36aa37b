"""Objects of a cluster as its dump and the manifests of the plan have them, for a real scheduler.

A prediction has the objects as nexusform reads them. A check with these would repeat every wrong
reading, so it sends the originals. What is changed: names of nodes, owners and ids of the server.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field, json

from nexusform.diagnostics.diagnostic import Problem
from nexusform.domains.pods.importers.kubectl_snapshot import list_objects, parse_kubectl_files
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.domains.pods.planning.pod_phase import CheckablePrediction
from nexusform.domains.pods.scheduling.cluster_records import ExistingPod, PodSpec
from nexusform.domains.pods.scheduling.template_rollout import TEMPLATE_KEY
from nexusform.files.regular_files import read_regular
from nexusform.json_data.plain_data import get_list, get_mapping, get_text, list_mappings
from nexusform.kubernetes.dump_script import CLUSTER_KINDS

Body = dict[str, Any]
# The path of each kind that kube-scheduler or admission reads, {} for the namespace.
PATHS: Final[Mapping[str, str]] = {
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "LimitRange": "/api/v1/namespaces/{}/limitranges",
    "Service": "/api/v1/namespaces/{}/services",
    "ReplicationController": "/api/v1/namespaces/{}/replicationcontrollers",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "CSIDriver": "/apis/storage.k8s.io/v1/csidrivers",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "CSIStorageCapacity": "/apis/storage.k8s.io/v1/namespaces/{}/csistoragecapacities",
    "VolumeAttachment": "/apis/storage.k8s.io/v1/volumeattachments",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    # Volumes name claims, so they come last.
    "PersistentVolume": "/api/v1/persistentvolumes",
}
_MAX_BYTES: Final = 1 << 30
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
# Of the data that the plan has read.
_READ_PARTS: Final = ("nodes", "pods", "objects", "workloads")
_KEPT_METADATA: Final = ("name", "namespace", "labels", "annotations")
_TEMPLATE_KINDS: Final = (
    *("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"),
)


class ChangedDumpError(Exception):
    """Dump that cannot be read again, or differs from what the plan has read."""


class OriginalObjects(Struct):
    """Originals of a cluster: nodes by name in the plan, pods by namespace and name, and others.

    `templates` are pods of the plan by workload (key), without a name. `claim_templates` are those
    of StatefulSets by workload.
    """

    nodes: dict[str, Body] = field(default_factory=dict)
    pods: dict[str, Body] = field(default_factory=dict)
    others: list[Body] = field(default_factory=list)
    templates: dict[str, Body] = field(default_factory=dict)
    claim_templates: dict[str, list[Body]] = field(default_factory=dict)


def collect_original_objects(prediction: CheckablePrediction) -> OriginalObjects:
    """Return the originals of the objects behind a prediction.

    Raises ChangedDumpError.
    """
    originals = OriginalObjects()
    objects: dict[tuple[str, str, str], Body] = {}
    for body in _read_dump(prediction.dump):
        metadata = get_mapping(body, "metadata")
        name = str(metadata.get("name"))
        match body["kind"]:
            case "Node":
                plan_name = prediction.node_names.get(name)
                if plan_name is not None:
                    originals.nodes[plan_name] = clean_object(body, plan_name)
            case "Pod":
                originals.pods[f"{metadata.get('namespace', 'default')}/{name}"] = body
            case kind if kind in PATHS:
                renamed = _rename_nodes(body, prediction.node_names)
                objects[kind, get_text(metadata, "namespace"), name] = renamed
    for manifest in prediction.manifests:
        _add_manifest(originals, manifest)
        if manifest.kind in PATHS:
            key = (manifest.kind, manifest.namespace, manifest.name)
            objects[key] = {**_identify(manifest), **_copy(manifest.body)}
    order = list(PATHS)
    originals.others = sorted(
        map(_build_creatable_object, objects.values()), key=lambda body: order.index(body["kind"])
    )
    return originals


def _read_dump(dump: Mapping[str, Any]) -> list[Body]:
    """Return the objects of the files of `data kubernetes_nodes`; none without files.

    Raises ChangedDumpError if they differ from those that the plan has read.
    """
    directory = get_text(dump, "directory")
    paths = [str(path) for path in get_list(dump, "files")]
    if directory:
        names = (f"{directory.rstrip('/')}/{name}.json" for name in CLUSTER_KINDS.values())
        paths = [path for path in names if Path(path).is_file()]
    try:
        contents = [(path, read_regular(path, _MAX_BYTES)) for path in paths]
    except OSError as problem:
        raise ChangedDumpError(f'"{problem.filename}" cannot be read again.') from None
    if not contents:
        return []
    read_before = json.decode(get_text(dump, "objects"))
    read_again = json.decode(parse_kubectl_files(contents).encode())
    if any(read_before.get(part) != read_again.get(part) for part in _READ_PARTS):
        raise ChangedDumpError(f'The files of "{directory or paths[0]}" have changed. Plan again.')
    findings: list[Problem] = []
    return [
        _copy(body) for path, content in contents for body in list_objects(path, content, findings)
    ]


def _copy(value: Any) -> Any:
    """Return plain data with lists and mappings of its own."""
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(item) for item in value]
    return value


def _identify(manifest: Manifest) -> Body:
    """Return the API version, the kind and the metadata of a manifest."""
    version = f"{manifest.group}/{manifest.version}" if manifest.group else manifest.version
    return {"apiVersion": version, "kind": manifest.kind}


def _add_manifest(originals: OriginalObjects, manifest: Manifest) -> None:
    """Add the pods of a manifest of the plan."""
    key = f"{manifest.namespace or 'default'}/{manifest.kind}/{manifest.name}"
    if manifest.kind == "Pod":
        originals.templates[key] = _copy(manifest.body)
    elif manifest.kind in _TEMPLATE_KINDS:
        originals.templates[key] = _copy(get_mapping(manifest.body, "spec", "template"))
        originals.claim_templates[key] = [
            _copy(item) for item in list_mappings(manifest.body, "spec", "volumeClaimTemplates")
        ]


def clean_object(body: Mapping[str, Any], name: str = "") -> Body:
    """Return an object without the metadata that the server sets.

    `name` replaces its name, "" keeps it.
    """
    metadata = {key: body["metadata"][key] for key in _KEPT_METADATA if body["metadata"].get(key)}
    if name:
        metadata["name"] = name
    return {**body, "metadata": metadata}


def _rename_nodes(body: Body, names: Mapping[str, str]) -> Body:
    """Return an object about a node with the name of the node in the plan."""
    renamed = clean_object(body)
    metadata = renamed["metadata"]
    if body["kind"] == "CSINode":
        metadata["name"] = names.get(metadata["name"], metadata["name"])
    node = get_text(body, "spec", "nodeName")
    if node:
        renamed["spec"] = {**body["spec"], "nodeName": names.get(node, node)}
    selected_node = get_text(metadata, "annotations", _SELECTED_NODE)
    if selected_node:
        annotations = {_SELECTED_NODE: names.get(selected_node, selected_node)}
        metadata["annotations"] = {**metadata["annotations"], **annotations}
    return renamed


def _build_creatable_object(body: Body) -> Body:
    """Return an object as it can be created.

    A Service has its selector alone: addresses belong to the server.
    """
    cleaned = clean_object(body)
    if "{}" not in PATHS[body["kind"]]:
        cleaned["metadata"].pop("namespace", None)
    if body["kind"] != "Service":
        return cleaned
    selector = get_mapping(body, "spec", "selector")
    return {
        **cleaned,
        "spec": {"clusterIP": "None", **({"selector": selector} if selector else {})},
    }


def build_original_pod(body: Mapping[str, Any], spec: PodSpec, name: str, node: str = "") -> Body:
    """Return an original pod, or a template, under a name, on a node ("" to be scheduled).

    Its priority and the label of its template are those of the prediction. A pod to be scheduled
    evicts no other.
    """
    cleaned = clean_object({"metadata": {}, **_copy(body)})
    hashes = {key: value for key, value in spec.labels if key == TEMPLATE_KEY}
    labels = {**get_mapping(cleaned, "metadata", "labels"), **hashes}
    metadata = {
        **cleaned["metadata"],
        "name": name,
        "namespace": spec.namespace,
        "labels": {key: str(value) for key, value in labels.items()},
    }
    original = dict(get_mapping(body, "spec"))
    original |= {"priority": spec.priority, "preemptionPolicy": "Never"}
    original.pop("nodeName", None)
    if node:
        original["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": original}


def add_template_claims(
    pod: Body, workload: str, number: int, templates: Iterable[Body]
) -> list[Body]:
    """Add the volumes of claim templates to a pod of a StatefulSet, and return its claims."""
    namespace, _, owner = workload.split("/", 2)
    claims = []
    volumes = list(list_mappings(pod["spec"], "volumes"))
    for template in templates:
        volume = get_text(template, "metadata", "name")
        name = f"{volume}-{owner}-{number}"
        metadata = {**get_mapping(template, "metadata"), "name": name, "namespace": namespace}
        claims.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata,
                "spec": dict(get_mapping(template, "spec")),
            }
        )
        volumes = [item for item in volumes if item.get("name") != volume]
        volumes.append({"name": volume, "persistentVolumeClaim": {"claimName": name}})
    if claims:
        pod["spec"] = {**pod["spec"], "volumes": volumes}
    return claims


def pin_to_node(pod: Body, node: str) -> None:
    """Add the affinity to a node that the DaemonSet controller adds to its pods."""
    affinity = dict(get_mapping(pod, "spec", "affinity"))
    node_affinity = dict(get_mapping(affinity, "nodeAffinity"))
    own_field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms: Sequence[Mapping[str, Any]] = list_mappings(
        node_affinity, _REQUIRED, "nodeSelectorTerms"
    ) or [{}]
    pinned_terms = [
        {**term, "matchFields": [*list_mappings(term, "matchFields"), own_field]} for term in terms
    ]
    node_affinity[_REQUIRED] = {"nodeSelectorTerms": pinned_terms}
    pod["spec"]["affinity"] = {**affinity, "nodeAffinity": node_affinity}


def find_original_pod(originals: OriginalObjects, pod: ExistingPod) -> Body | None:
    """Return the original of an existing pod, None if no file lists it."""
    return originals.pods.get(f"{pod.spec.namespace}/{pod.condition.name}")


def is_sent_whole(sent: Any, received: Any) -> bool:
    """Return whether an answer of the server has all that was sent.

    A server drops fields of feature gates that are off.
    """
    if isinstance(sent, Mapping):
        members = received if isinstance(received, Mapping) else {}
        return all(is_sent_whole(value, members.get(key)) for key, value in sent.items())
    if isinstance(sent, list | tuple):
        items = received if isinstance(received, list) else []
        return len(items) >= len(sent) and all(map(is_sent_whole, sent, items))
    # Amounts are rewritten ("1000m" is "1"), and empty values are left out.
    return received is not None or sent in (None, "", False, 0)
