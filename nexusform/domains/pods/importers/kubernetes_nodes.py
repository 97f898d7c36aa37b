"""`kubectl get ns,nodes,pods,pvc,... -A -o json|yaml` -> a cluster as it is: its nodes as they registered,
what runs there, and the objects that decide about pods to come.

Only what decides about places is taken over: environments and arguments of pods are left behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from nexusform.diagnostics import Problem
from nexusform.documents.shapes import mapping_at, mappings_at, value_at
from nexusform.documents.yaml_text import INVALID, problem_at, read_yaml
from nexusform.domains.pods.importers.kubernetes_manifests import Fields, Manifest
from nexusform.domains.pods.importers.kubernetes_pod_spec import (
    Owner,
    Priorities,
    read_containers,
    read_pod_spec,
)
from nexusform.domains.pods.importers.kubernetes_resizing import CONTAINERS, as_allocated
from nexusform.domains.pods.importers.kubernetes_volumes import Storage, read_storage, read_volumes
from nexusform.domains.pods.scheduling.versions import version_of
from nexusform.domains.pods.scheduling.workloads import PodSpec, Seen
from nexusform.kubernetes.matching import Taint
from nexusform.kubernetes.quantity import Malformed, parse_quantity
from nexusform.scheduling.kubelet import NodeSize

COMMAND: Final = (
    "kubectl get ns,nodes,pods,pvc,pv,sc,pdb,quota,limits,priorityclasses -A -o json > cluster.json"
)
_OVER: Final = ("Succeeded", "Failed")
_POD: Final = (
    "nodeName",
    "nodeSelector",
    "affinity",
    "tolerations",
    "topologySpreadConstraints",
    "hostNetwork",
    "overhead",
    "priority",
    "resources",
    "volumes",
)
_CONTAINER: Final = ("name", "image", "resources", "ports", "restartPolicy")
# What else of a cluster decides about pods, and what of each object is kept.
_KEPT_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "Namespace": (),
    "PersistentVolumeClaim": ("spec",),
    "PersistentVolume": ("spec",),
    "StorageClass": ("provisioner", "volumeBindingMode", "allowedTopologies"),
    "PodDisruptionBudget": ("spec",),
    "ResourceQuota": ("spec",),
    "LimitRange": ("spec",),
    "PriorityClass": ("value", "globalDefault", "preemptionPolicy"),
}
# What of the identity and the status of some is kept beside that.
_OF_METADATA: Final[Mapping[str, tuple[str, ...]]] = {
    "PersistentVolumeClaim": ("uid", "deletionTimestamp"),
    "StorageClass": ("annotations",),
}
_OF_STATUS: Final[Mapping[str, tuple[str, ...]]] = {
    "PersistentVolumeClaim": ("phase", "capacity"),
    "PodDisruptionBudget": ("disruptionsAllowed", "disruptedPods", "expectedPods"),
}
_OF_CLAIMS: Final = ("pv.kubernetes.io/bind-completed", "volume.kubernetes.io/selected-node")
# Every cluster has some of these: files without any were printed by a shorter command.
NAMESPACE: Final = "Namespace"
_ALWAYS_THERE: Final = (NAMESPACE, "PriorityClass")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_NOT_OTHERS: Final = ("cpu", "memory", "pods")

_Object = Mapping[str, Any]


class ObservedNode(Struct, frozen=True):
    """A node as it registered: what it has, and what of that pods may ask for; the images that it has, with
    their sizes in bytes, and its kubelet's version, () where that is not told.
    """

    name: str
    provider_id: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    capacity: NodeSize
    allocatable: NodeSize
    pods: int
    images: Mapping[str, int] = field(default_factory=dict)
    version: tuple[int, ...] = ()


class ObservedPod(Struct, frozen=True):
    """A pod that holds room on a node. `workload` is the key of what controls it, "" for one that is
    terminating: its controller has given it up. `started` is when its kubelet took it on (UTC, as Kubernetes
    writes it), "" where none has yet. `seen` is how it was made; None where a resizing has changed that.
    """

    workload: str
    namespace: str
    name: str
    node: str
    spec: PodSpec
    started: str = ""
    seen: Seen | None = None


class Observation(Struct, frozen=True):
    """A cluster as kubectl printed it, nodes and pods in the order of their names. `promised` are pods
    without a node that wait for their victims to leave one. `lacks` are kinds of which every cluster has
    objects, and the files none: what claims and classes there are is not known then. `version` is that of
    Kubernetes, by the newest kubelet, else as it was said; () where nobody tells.
    """

    nodes: tuple[ObservedNode, ...] = ()
    pods: tuple[ObservedPod, ...] = ()
    promised: tuple[ObservedPod, ...] = ()
    objects: tuple[Manifest, ...] = ()
    lacks: tuple[str, ...] = ()
    version: tuple[int, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether what it does not show is not there."""
        return NAMESPACE not in self.lacks


class ClusterReading(Struct):
    """What files hold, cut down to what is needed, and what is wrong with them."""

    nodes: dict[str, _Object] = field(default_factory=dict)
    pods: dict[str, _Object] = field(default_factory=dict)
    objects: dict[str, _Object] = field(default_factory=dict)
    version: str = ""
    findings: list[Problem] = field(default_factory=list)

    def lacks(self) -> tuple[str, ...]:
        """The kinds of which every cluster has objects, and the files hold none."""
        return missing_kinds(self.objects.values())

    def text(self) -> str:
        """All of it as one JSON text, which `observation_of` reads."""
        data = {
            "nodes": sorted(self.nodes.items()),
            "pods": sorted(self.pods.items()),
            "objects": [body for _, body in sorted(self.objects.items())],
            "version": self.version,
        }
        return msgspec.json.encode(data, order="sorted").decode()


def read_cluster(files: Iterable[tuple[str, bytes]]) -> ClusterReading:
    """Read files by name; an object that several of them hold is taken from the last."""
    reading = ClusterReading()
    for name, content in files:
        for body in _objects(name, content, reading.findings):
            metadata = body["metadata"]
            if body.get("kind") == "Node":
                reading.nodes[str(metadata["name"])] = _node_as_needed(body)
            elif body.get("kind") == "Pod":
                reading.pods[f"{metadata.get('namespace', 'default')}/{metadata['name']}"] = _pod_as_needed(
                    body
                )
            elif body.get("kind") in _KEPT_OF:
                title = f"{body['kind']} {metadata.get('namespace', '')}/{metadata['name']}"
                reading.objects[title] = _object_as_needed(body)
    return reading


def missing_kinds(objects: Iterable[_Object]) -> tuple[str, ...]:
    """The kinds of which every cluster has objects, and these have none."""
    kinds = {body["kind"] for body in objects}
    return tuple(kind for kind in _ALWAYS_THERE if kind not in kinds)


def _objects(name: str, content: bytes, findings: list[Problem]) -> Iterator[dict[str, Any]]:
    """The objects of what `kubectl get` printed; one finding when it printed something else."""
    for document in _documents(name, content, findings):
        items = value_at(document, "items")
        for body in items if isinstance(items, list) else [document]:
            if value_at(body, "metadata", "name"):
                yield body
                continue
            detail = f"this is not what `{COMMAND}` prints: an object has a kind and metadata with a name."
            findings.append(problem_at(name, None, "invalid-kubernetes-manifest", detail))
            return


def _documents(name: str, content: bytes, findings: list[Problem]) -> list[Any]:
    """The documents of a text that is JSON or YAML."""
    if content.lstrip()[:1] != b"{":
        stream = read_yaml(name, content)
        findings += stream.findings
        return [document.data for document in stream.documents]
    try:
        return [msgspec.json.decode(content)]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        findings.append(problem_at(name, None, INVALID, f"this is no JSON: {problem}."))
        return []


def _kept(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: values[name] for name in names if values.get(name) is not None}


def _node_as_needed(body: _Object) -> _Object:
    metadata, spec, status = (mapping_at(body, part) for part in ("metadata", "spec", "status"))
    return {
        "labels": mapping_at(metadata, "labels"),
        **_kept(spec, ("providerID", "taints", "unschedulable")),
        **_kept(status, ("capacity", "allocatable")),
        "images": _image_sizes(status.get("images")),
        "version": str(value_at(status, "nodeInfo", "kubeletVersion") or ""),
    }


def _image_sizes(images: Any) -> dict[str, int]:
    """The images of a node by all their names, in bytes."""
    sizes: dict[str, int] = {}
    for image in mappings_at(images):
        size = image.get("sizeBytes")
        for name in image.get("names") or ():
            sizes[str(name)] = size if isinstance(size, int) else 0
    return sizes


def _object_as_needed(body: _Object) -> _Object:
    """An object with what decides about pods."""
    kind, whole = body["kind"], mapping_at(body, "metadata")
    metadata = _kept(whole, ("name", "namespace", "labels", *_OF_METADATA.get(kind, ())))
    if kind == "PersistentVolumeClaim":
        annotations = _kept(mapping_at(whole, "annotations"), _OF_CLAIMS)
        metadata |= {"annotations": annotations} if annotations else {}
        if any(owner.get("kind") == "Pod" for owner in mappings_at(whole, "ownerReferences")):
            metadata |= {"ownerReferences": [{"kind": "Pod"}]}
    status = _kept(mapping_at(body, "status"), _OF_STATUS.get(kind, ()))
    identity = {"apiVersion": str(body.get("apiVersion") or "v1"), "kind": kind}
    kept = {**identity, "metadata": metadata, **_kept(body, _KEPT_OF[kind])}
    return {**kept, "status": status} if status else kept


def _containers_as_needed(containers: Any) -> list[_Object]:
    return [_kept(container, _CONTAINER) for container in mappings_at(containers)]


def _is_resized(body: _Object) -> bool:
    """Whether some container holds another amount than it asks for."""
    spec = mapping_at(body, "spec")
    return any(as_allocated(body, name) != spec.get(name) for name in CONTAINERS)


def _pod_as_needed(body: _Object) -> _Object:
    """What of a pod is kept: what says whose it is, whether it runs, and what it asks for."""
    metadata, spec, status = (mapping_at(body, part) for part in ("metadata", "spec", "status"))
    owners = [owner for owner in mappings_at(metadata, "ownerReferences") if owner.get("controller")]
    containers = {name: _containers_as_needed(as_allocated(body, name)) for name in CONTAINERS}
    if not spec.get("nodeName"):
        spec = {**spec, "nodeName": status.get("nominatedNodeName")}
    return {
        "labels": mapping_at(metadata, "labels"),
        "owner": _kept(owners[0], ("kind", "name")) if owners else {},
        "terminating": metadata.get("deletionTimestamp") is not None,
        "phase": status.get("phase"),
        "promised": not value_at(body, "spec", "nodeName"),
        **({"resized": True} if _is_resized(body) else {}),
        **_kept(status, ("startTime",)),
        "spec": {**_kept(spec, _POD), **containers},
    }


# --- records -----------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def observation_of(text: str) -> Observation:
    """The records of a text that `ClusterReading.text` wrote; empty for any other."""
    try:
        data = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return Observation()
    nodes = [_node(name, body) for name, body in data["nodes"]]
    bodies = data.get("objects") or []
    objects = tuple(_manifest(body) for body in bodies)
    lacks = missing_kinds(bodies)
    storage = read_storage(objects, is_whole=NAMESPACE not in lacks)
    holding = [(name, body) for name, body in data["pods"] if _holds_room(body)]
    return Observation(
        nodes=tuple(nodes),
        pods=tuple(_pod(name, body, storage) for name, body in holding if not body.get("promised")),
        promised=tuple(_pod(name, body, storage) for name, body in holding if body.get("promised")),
        objects=objects,
        lacks=lacks,
        version=max((node.version for node in nodes), default=())
        or version_of(str(data.get("version") or "")),
    )


def _manifest(body: _Object) -> Manifest:
    """An object as it was kept."""
    group, _, version = body["apiVersion"].rpartition("/")
    metadata = body["metadata"]
    return Manifest(
        group=group,
        version=version,
        kind=body["kind"],
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata["name"]),
        labels={key: str(value) for key, value in mapping_at(metadata, "labels").items()},
        body=body,
        line=1,
    )


def _holds_room(body: _Object) -> bool:
    return body["phase"] not in _OVER and bool(body["spec"].get("nodeName"))


def _node(name: str, body: _Object) -> ObservedNode:
    """A node as it was kept."""
    capacity, allocatable = mapping_at(body, "capacity"), mapping_at(body, "allocatable")
    taints = tuple(
        Taint(str(taint.get("key")), str(taint.get("value") or ""), str(taint.get("effect")))
        for taint in mappings_at(body, "taints")
    )
    return ObservedNode(
        name=name,
        provider_id=str(body.get("providerID") or ""),
        labels={key: str(value) for key, value in body["labels"].items()},
        taints=taints,
        unschedulable=body.get("unschedulable") is True,
        capacity=_size(capacity),
        allocatable=_size(allocatable),
        pods=_amount(allocatable.get("pods")),
        images=body.get("images") or {},
        version=version_of(str(body.get("version") or "")),
    )


def _size(amounts: Mapping[str, Any]) -> NodeSize:
    others = {name: _amount(amount) for name, amount in amounts.items() if name not in _NOT_OTHERS}
    cpu = parse_quantity(str(amounts.get("cpu", "0")))
    return NodeSize(0 if isinstance(cpu, Malformed) else cpu.milli(), _amount(amounts.get("memory")), others)


def _amount(written: Any) -> int:
    quantity = parse_quantity(str(written)) if written is not None else None
    return 0 if quantity is None or isinstance(quantity, Malformed) else quantity.whole()


def _pod(title: str, body: _Object, storage: Storage) -> ObservedPod:
    """A pod as it was kept, its spec read as a manifest's is."""
    namespace, _, name = title.partition("/")
    kind, owner = _controller(name, body)
    spec = dict(body["spec"])
    node = str(spec.pop("nodeName"))
    if kind == "DaemonSet":
        spec["affinity"] = _without_pinning(mapping_at(spec, "affinity"))
    labels = body["labels"]
    manifest = Manifest(
        group="",
        version="v1",
        kind="Pod",
        namespace=namespace,
        name=name,
        labels=labels,
        body={"spec": spec},
        line=1,
    )
    # The API server has looked at it before: nothing is left to be found.
    root, metadata = (Fields(manifest, [], data) for data in (manifest.body, {"labels": labels}))
    whose = Owner(namespace=namespace, kind=kind, added={}, spreads=None, template="")
    read = read_pod_spec(metadata, root.at("spec"), whose, Priorities())
    terminating = body["terminating"] is True
    volumes = read_volumes(manifest, root.at("spec"), (), storage)
    read = msgspec.structs.replace(
        read,
        terminating=terminating,
        volumes=volumes.needs,
        claims=volumes.claims,
        exclusive=volumes.exclusive,
        disks=volumes.disks,
        claimed=volumes.claimed,
    )
    workload = "" if terminating else f"{namespace}/{kind}/{owner}"
    return ObservedPod(
        workload=workload,
        namespace=namespace,
        name=name,
        node=node,
        spec=read,
        started=str(body.get("startTime", "")),
        seen=None if body.get("resized") else Seen(_revision(labels), read_containers(root.at("spec"))),
    )


# Which template of its controller a pod was made from.
_REVISIONS: Final = ("pod-template-hash", "controller-revision-hash")


def _revision(labels: Mapping[str, Any]) -> str:
    return next((str(labels[name]) for name in _REVISIONS if name in labels), "")


def _controller(pod: str, body: _Object) -> tuple[str, str]:
    """Kind and name of what controls a pod: a Deployment in place of its ReplicaSet, itself for nobody."""
    kind, name = str(body["owner"].get("kind") or "Pod"), str(body["owner"].get("name") or pod)
    if kind == "Node":  # the kubelet's own, from a file on its node
        return "Pod", pod
    suffix = f"-{body['labels'].get('pod-template-hash')}"
    if kind == "ReplicaSet" and name.endswith(suffix):
        return "Deployment", name.removesuffix(suffix)
    return kind, name


def _without_pinning(affinity: Mapping[str, Any]) -> dict[str, Any]:
    """The node affinity that the DaemonSet was written with: its controller adds each pod's own node."""
    of_nodes = dict(mapping_at(affinity, "nodeAffinity"))
    terms = mappings_at(of_nodes.pop(_REQUIRED, None), "nodeSelectorTerms")
    written = [
        {"matchExpressions": term["matchExpressions"]} for term in terms if term.get("matchExpressions")
    ]
    if written:
        of_nodes[_REQUIRED] = {"nodeSelectorTerms": written}
    return {**affinity, "nodeAffinity": of_nodes}
