"""Snapshot of a cluster from `kubectl get ns,nodes,pods,pvc,... -A -o json|yaml`.

Registered nodes, running pods, and objects that affect placement. Only data relevant for placement
is kept: environments and arguments of pods are dropped.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Problem
from nexusform.diagnostics.phrases import enclose
from nexusform.documents.yaml_documents import INVALID_JSON, build_problem, parse_yaml
from nexusform.domains.pods.importers import device_objects, kubernetes_pod_spec, pod_conditions
from nexusform.domains.pods.importers.device_objects import DeviceObjects
from nexusform.domains.pods.importers.dump_fields import is_custom_namesake, list_unread_facts
from nexusform.domains.pods.importers.kubernetes_pod_spec import PodOwner, Priorities
from nexusform.domains.pods.importers.kubernetes_volumes import (
    Storage,
    collect_storage,
    parse_amount,
    parse_volumes,
)
from nexusform.domains.pods.importers.live_workloads import (
    LIVE_KINDS,
    LiveWorkload,
    build_live_workload,
    get_controller_reference,
    reduce_live_workload,
    select_present_fields,
)
from nexusform.domains.pods.importers.manifest_parser import (
    Fields,
    Manifest,
    build_truncation_problem,
    get_integer,
    is_truncated_list,
)
from nexusform.domains.pods.importers.object_needs import (
    CONFIG_MAP,
    DATA_VOLUME,
    DEFINITION,
    SECRET,
    SERVICE_ACCOUNT,
    SRIOV_KINDS,
)
from nexusform.domains.pods.importers.pod_conditions import CONTAINERS
from nexusform.domains.pods.scheduling.cluster_records import (
    ClaimedUses,
    ObservedPodTemplate,
    PodCondition,
    PodSpec,
)
from nexusform.domains.pods.scheduling.scheduler_versions import parse_version
from nexusform.doubts.doubt import Doubt
from nexusform.json_data.plain_data import (
    Path,
    format_path,
    get_list,
    get_mapping,
    get_text,
    get_value_at_path,
    list_mappings,
)
from nexusform.kubernetes.dump_script import CLUSTER_KINDS, COMMAND, COMMAND_KINDS
from nexusform.kubernetes.matching import LabelSelector, Taint
from nexusform.kubernetes.quantity import read_quantity_or_zero
from nexusform.scheduling.kubelet import NodeSize

_FINISHED_PHASES: Final = ("Succeeded", "Failed")
_POD_FIELDS: Final = (
    *(
        "nodeName",
        "nodeSelector",
        "affinity",
        "tolerations",
        "topologySpreadConstraints",
        "hostNetwork",
        "overhead",
    ),
    *(
        "priority",
        "resources",
        "volumes",
        "schedulingGates",
        "schedulerName",
        "preemptionPolicy",
        "resourceClaims",
    ),
    *("priorityClassName", "activeDeadlineSeconds", "hostUsers"),
)
_CONTAINER_FIELDS: Final = (
    *("name", "image", "resources", "ports", "restartPolicy", "restartPolicyRules"),
)
# Further kinds that affect pods, and the fields kept of each.
_SPEC_KINDS: Final = (
    *(
        "PersistentVolumeClaim",
        "PersistentVolume",
        "PodDisruptionBudget",
        "ResourceQuota",
        "LimitRange",
        "Service",
    ),
    *(
        "HorizontalPodAutoscaler",
        "ScaledObject",
        "VerticalPodAutoscaler",
        "MutatingAdmissionPolicy",
    ),
    *("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    *("CSINode", "CSIDriver", "VolumeAttachment"),
    *("DeviceClass", "ResourceSlice", "ResourceClaim", "ResourceClaimTemplate"),
)
KEPT_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "Namespace": (),
    "NetworkAttachmentDefinition": (),
    "StorageClass": ("provisioner", "volumeBindingMode", "allowedTopologies"),
    "PriorityClass": ("value", "globalDefault", "preemptionPolicy"),
    "RuntimeClass": ("overhead", "scheduling"),
    "CSIStorageCapacity": ("nodeTopology", "storageClassName", "capacity", "maximumVolumeSize"),
    "MutatingWebhookConfiguration": ("webhooks",),
    "ValidatingWebhookConfiguration": ("webhooks",),
    SERVICE_ACCOUNT: ("imagePullSecrets",),
    **dict.fromkeys((CONFIG_MAP, SECRET), ("data", "binaryData", "stringData")),
    DEFINITION: ("spec",),
    DATA_VOLUME: (),
    **dict.fromkeys(SRIOV_KINDS, ("spec",)),
    **dict.fromkeys(_SPEC_KINDS, ("spec",)),
}
# Further metadata and status fields kept of some kinds.
_KEPT_METADATA: Final[Mapping[str, tuple[str, ...]]] = {
    "Namespace": ("deletionTimestamp",),
    "PersistentVolumeClaim": ("uid", "deletionTimestamp"),
    "PersistentVolume": ("deletionTimestamp",),
    "StorageClass": ("annotations", "creationTimestamp"),
    "NetworkAttachmentDefinition": ("annotations",),
}
_KEPT_STATUS: Final[Mapping[str, tuple[str, ...]]] = {
    "PersistentVolumeClaim": ("phase", "capacity"),
    "PersistentVolume": ("phase",),
    "ResourceClaim": ("allocation",),
    "ResourceQuota": ("used",),
    "PodDisruptionBudget": (
        "disruptionsAllowed",
        "disruptedPods",
        "expectedPods",
        "currentHealthy",
        "desiredHealthy",
    ),
}
_KEPT_CLAIM_ANNOTATIONS: Final = (
    "pv.kubernetes.io/bind-completed",
    "volume.kubernetes.io/selected-node",
)
# Annotations of a Namespace that admission plugins may apply to its pods: PodNodeSelector,
# PodTolerationRestriction, and the one of OpenShift. Whether they run is in no object.
RESTRICTING_ANNOTATIONS: Final = frozenset(
    {
        "scheduler.alpha.kubernetes.io/node-selector",
        "scheduler.alpha.kubernetes.io/defaultTolerations",
        "scheduler.alpha.kubernetes.io/tolerationsWhitelist",
        "openshift.io/node-selector",
    }
)
# Kinds whose fields are read.
_CHECKED_KINDS: Final = frozenset({"Node", "Pod", *KEPT_FIELDS, *LIVE_KINDS})
# Every cluster has objects of these kinds: files without any come from a shorter command.
NAMESPACE: Final = "Namespace"
# A namespace with pods on every cluster.
SYSTEM_NAMESPACE: Final = "kube-system"
_MANDATORY_KINDS: Final = (NAMESPACE, "PriorityClass")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_BASIC_RESOURCES: Final = ("cpu", "memory", "pods")

# Kinds with pods spread by default, and labels that differ among the pods of one set.
_SPREAD_KINDS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")
_POD_LABELS: Final = (
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "controller-revision-hash",
)
# Labels with the template revision of a pod.
_REVISION_LABELS: Final = ("pod-template-hash", "controller-revision-hash")

_Object = Mapping[str, Any]


class ObservedNode(Struct, frozen=True):
    """Registered node: capacity, allocatable resources, images and kubelet version.

    Sizes of images are in bytes. The version is () if unknown. `ready` is the status of its Ready
    condition ("" without one), `heartbeat` its newest heartbeat in seconds since 1970.
    `coming_taints` are the keys of those that its conditions lead to. `declared_features` are those
    of its kubelet.
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
    ready: str = ""
    heartbeat: int = 0
    coming_taints: tuple[str, ...] = ()
    is_terminating: bool = False
    declared_features: tuple[str, ...] = ()


class ObservedPod(Struct, frozen=True):
    """Pod with resources on a node.

    `workload` is the key of its controller, "" for a terminating pod. `start_time` is its start
    time (UTC, as in Kubernetes), "" before the start. `template` is its observed template; None
    after a resize. `devices` are its allocated ResourceClaims with their devices.
    """

    workload: str
    namespace: str
    name: str
    node: str
    spec: PodSpec
    start_time: str = ""
    template: ObservedPodTemplate | None = None
    condition: PodCondition = PodCondition()
    devices: ClaimedUses = ()


class KubectlSnapshot(Struct, frozen=True):
    """Cluster as listed by kubectl, nodes and pods sorted by name.

    `nominated_pods` have no node yet and wait for their victims; `waiting_pods` have no node
    either. `workloads` are the live controllers by key. `has_pods` means that the files list pods,
    finished ones included. `missing_kinds` are mandatory kinds without objects in the files: claims
    and classes are unknown then. `version` is the one of Kubernetes, by the newest kubelet, else as
    configured; () if unknown. `duplicates` are listed twice with different contents, `unlisted` is
    the first object outside of a list, `unread_kinds` have no file, `listed_kinds` were listed
    whole, and `unread_fields` (such as `Pod spec.future`) have no reader.
    """

    nodes: tuple[ObservedNode, ...] = ()
    pods: tuple[ObservedPod, ...] = ()
    nominated_pods: tuple[ObservedPod, ...] = ()
    waiting_pods: tuple[ObservedPod, ...] = ()
    workloads: Mapping[str, LiveWorkload] = field(default_factory=dict)
    objects: tuple[Manifest, ...] = ()
    missing_kinds: tuple[str, ...] = ()
    version: tuple[int, ...] = ()
    has_pods: bool = False
    duplicates: tuple[str, ...] = ()
    unlisted: str = ""
    unread_kinds: tuple[str, ...] = ()
    listed_kinds: frozenset[str] = frozenset()
    unread_fields: tuple[str, ...] = ()

    @property
    def observation_time(self) -> int:
        """Newest heartbeat of a node in seconds since 1970, 0 if unknown."""
        return max((node.heartbeat for node in self.nodes), default=0)

    @property
    def oldest_ready_node(self) -> ObservedNode | None:
        """Ready node with the oldest heartbeat, None if unknown.

        A ready node reports at least every five minutes.
        """
        nodes = (node for node in self.nodes if node.ready == "True" and node.heartbeat)
        return min(nodes, key=lambda node: node.heartbeat, default=None)

    @property
    def is_complete(self) -> bool:
        """Whether objects missing here do not exist.

        A shorter kubectl command (without Namespaces) lists few kinds, and one for a
        namespace few objects.
        """
        return NAMESPACE not in self.missing_kinds and not self.has_some_namespaces

    @property
    def has_some_namespaces(self) -> bool:
        """Whether kubectl listed the pods of some namespaces only.

        The system namespace always has pods.
        """
        namespaces = {item.name for item in self.objects if item.kind == NAMESPACE}
        pod_namespaces = {pod.namespace for pod in self.pods}
        is_expected = SYSTEM_NAMESPACE in (namespaces or {SYSTEM_NAMESPACE})
        return bool(pod_namespaces) and is_expected and SYSTEM_NAMESPACE not in pod_namespaces


class KubectlOutput(Struct):
    """Content of kubectl files reduced to the required fields, and the problems found.

    `duplicates` (titles) are listed twice with different contents; `unlisted` is the first object
    outside of a list, "" for none. `unread` are facts of the objects that are not read.
    """

    nodes: dict[str, _Object] = field(default_factory=dict)
    pods: dict[str, _Object] = field(default_factory=dict)
    objects: dict[str, _Object] = field(default_factory=dict)
    workloads: dict[str, _Object] = field(default_factory=dict)
    version: str = ""
    duplicates: list[str] = field(default_factory=list)
    unlisted: str = ""
    unread_kinds: list[str] = field(default_factory=list)
    unread: list[Doubt] = field(default_factory=list)
    findings: list[Problem] = field(default_factory=list)

    def list_unlisted_kinds(self) -> list[str]:
        """Return the kinds possibly not listed by kubectl.

        These are kinds without an object here that are not certainly part of its command.
        """
        kinds = {key.split("/")[1] for key in self.workloads} | {
            body["kind"] for body in self.objects.values()
        }
        # Every cluster has objects of some kinds. Without them, the files come from
        # a shorter command.
        is_shorter_command = bool(find_missing_kinds(self.objects.values()))
        listed_kinds = ("Node", "Pod") if is_shorter_command else COMMAND_KINDS
        return sorted(CLUSTER_KINDS.keys() - kinds.union(listed_kinds))

    def add_object(self, body: dict[str, Any]) -> _Object | None:
        """Add an object in place of one of its name, and return its content.

        The result is None for a kind without an effect on pods.
        """
        kind = body.get("kind")
        metadata = body["metadata"]
        if kind == "Node":
            content = _keep_needed_node_fields(body)
            self.nodes[str(metadata["name"])] = content
        elif kind == "Pod":
            content = _reduce_pod(body)
            self.pods[f"{metadata.get('namespace', 'default')}/{metadata['name']}"] = content
        elif kind in KEPT_FIELDS:
            content = _keep_needed_object_fields(body)
            self.objects[f"{kind} {metadata.get('namespace', '')}/{metadata['name']}"] = content
        elif kind in LIVE_KINDS:
            content = reduce_live_workload(body)
            self.workloads[content["key"]] = content
        else:
            return None
        return content

    def encode(self) -> str:
        """Return the content as one JSON text for `parse_snapshot`."""
        data: dict[str, Any] = {
            "nodes": sorted(self.nodes.items()),
            "pods": sorted(self.pods.items()),
            "objects": [body for _, body in sorted(self.objects.items())],
            "workloads": [body for _, body in sorted(self.workloads.items())],
            "version": self.version,
        }
        if self.duplicates:
            data["duplicates"] = sorted(set(self.duplicates))
        if self.unlisted:
            data["unlisted"] = self.unlisted
        if self.unread_kinds:
            data["unread"] = sorted(self.unread_kinds)
        # Files read by earlier versions have no such list: nothing is known to be absent then.
        data["listed"] = sorted(CLUSTER_KINDS.keys() - set(self.unread_kinds))
        if self.unread:
            fields = dict.fromkeys(f"{fact.kind} {fact.field}" for fact in self.unread)
            data["unread_fields"] = sorted(fields)
        return msgspec.json.encode(data, order="sorted").decode()


def parse_kubectl_files(files: Iterable[tuple[str, bytes]], version: str = "") -> KubectlOutput:
    """Parse files by name; the last file wins for duplicate objects.

    Kinds without an effect on pods are skipped. `version` is the one of Kubernetes, if no kubelet
    shows it; "" if unknown.
    """
    reading = KubectlOutput(version=version)
    identities: dict[str, tuple[str, _Object]] = {}
    checked: list[tuple[str, bytes, list[tuple[Path, dict[str, Any]]]]] = []
    for name, content in files:
        listed: list[tuple[Path, dict[str, Any]]] = []
        for path, body in _list_located_objects(name, content, reading.findings):
            metadata = body["metadata"]
            if body.get("kind") in _CHECKED_KINDS:
                listed.append((path, body))
            reduced = reading.add_object(body)
            if reduced is None:
                continue
            name_in_namespace = "/".join(
                filter(None, (get_text(metadata, "namespace"), str(metadata["name"])))
            )
            title = f"{body['kind']} {name_in_namespace}"
            # Objects of one name in two clusters have other uids.
            identity = (get_text(metadata, "uid"), reduced)
            if identities.setdefault(title, identity) != identity:
                reading.duplicates.append(title)
            if "items" not in path:
                reading.unlisted = reading.unlisted or title
        checked.append((name, content, listed))
    cluster_version = _find_version(
        [get_text(node, "version") for node in reading.nodes.values()], version
    )
    for name, content, listed in checked:
        reading.unread += list_unread_facts(name, content, listed, cluster_version)
    return reading


def _find_version(kubelets: Iterable[str], configured: str) -> tuple[int, ...]:
    """Return the version of Kubernetes: the newest kubelet's, else the configured one."""
    return max(map(parse_version, kubelets), default=()) or parse_version(configured)


def find_missing_kinds(objects: Iterable[_Object]) -> tuple[str, ...]:
    """Return the mandatory kinds without any object among these."""
    kinds = {body["kind"] for body in objects}
    return tuple(kind for kind in _MANDATORY_KINDS if kind not in kinds)


def list_objects(name: str, content: bytes, findings: list[Problem]) -> Iterator[dict[str, Any]]:
    """Yield the objects of a `kubectl get` output; one finding for any other text."""
    for _, body in _list_located_objects(name, content, findings):
        yield body


def _list_located_objects(
    name: str, content: bytes, findings: list[Problem]
) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the objects of a `kubectl get` output with their paths, but no custom namesakes.

    Any other text gives one finding.
    """
    documents = _parse_documents(name, content, findings)
    for number, document in enumerate(documents):
        items = get_value_at_path(document, "items")
        if is_truncated_list(document):
            findings.append(build_truncation_problem(name, None))
        start: Path = (number,) if len(documents) > 1 else ()
        listed: list[tuple[Path, Any]] = [(start, document)]
        if items is not None:
            listed = [((*start, "items"), items)]
        if isinstance(items, list):
            listed = [((*start, "items", index), item) for index, item in enumerate(items)]
        for path, body in listed:
            if get_value_at_path(body, "metadata", "name") and isinstance(body.get("kind"), str):
                if not is_custom_namesake(body):
                    yield path, body
                continue
            place = enclose(" (", format_path(path), ")")
            detail = (
                f"this is not the output of `{COMMAND} > cluster.json`: an object{place} needs a "
                "kind and metadata with a name."
            )
            findings.append(build_problem(name, None, "invalid-kubernetes-manifest", detail))
            return


def _parse_documents(name: str, content: bytes, findings: list[Problem]) -> list[Any]:
    """Return the documents of a file, JSON if it begins with `{`, else YAML.

    Invalid JSON adds a finding only.
    """
    if content.lstrip()[:1] != b"{":
        stream = parse_yaml(name, content)
        findings += stream.findings
        documents = [document.data for document in stream.documents]
        if any("items" in data and "kind" not in data for data in map(get_mapping, documents)):
            detail = (
                "this file is truncated: a List of kubectl ends with its kind. Create it again."
            )
            findings.append(build_problem(name, None, "truncated-file", detail))
        return documents
    try:
        return [msgspec.json.decode(content)]
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        if "truncated" in str(problem):
            error_id = "truncated-file"
            detail = "this file is truncated: create it again."
        else:
            error_id = INVALID_JSON
            detail = f"this is not JSON: {problem}."
            if "trailing characters" in str(problem):
                detail += (
                    " A file has one document: write the output of each kubectl command into a "
                    "file of its own, and list all of them in files."
                )
        findings.append(build_problem(name, None, error_id, detail))
        return []


def _keep_needed_node_fields(body: _Object) -> _Object:
    """Return the fields of a node that `_build_node` requires, with its images as sizes by name."""
    metadata, spec, status = (get_mapping(body, part) for part in ("metadata", "spec", "status"))
    # In bytes, of each image by all its names.
    sizes: dict[str, int] = {}
    for image in list_mappings(status, "images"):
        for name in get_list(image, "names"):
            sizes[str(name)] = get_integer(image, "sizeBytes", 0)
    return {
        "labels": get_mapping(metadata, "labels"),
        **select_present_fields(spec, ("providerID", "taints", "unschedulable")),
        **select_present_fields(status, ("capacity", "allocatable", "declaredFeatures")),
        "images": sizes,
        "version": get_text(status, "nodeInfo", "kubeletVersion"),
        **{
            name: value
            for name, value in pod_conditions.reduce_node_condition(body).items()
            if value
        },
    }


def _keep_needed_object_fields(body: _Object) -> _Object:
    """Return the fields of an object with an effect on pods.

    The tables of this module list them by kind.
    """
    kind = body["kind"]
    full_metadata = get_mapping(body, "metadata")
    metadata = select_present_fields(
        full_metadata, ("name", "namespace", "labels", *_KEPT_METADATA.get(kind, ()))
    )
    if kind == "PersistentVolumeClaim":
        annotations = select_present_fields(
            get_mapping(full_metadata, "annotations"), _KEPT_CLAIM_ANNOTATIONS
        )
        metadata |= {"annotations": annotations} if annotations else {}
        # The claim of an ephemeral volume ends with its pod.
        if any(
            owner.get("kind") == "Pod" for owner in list_mappings(full_metadata, "ownerReferences")
        ):
            metadata |= {"ownerReferences": [{"kind": "Pod"}]}
    if kind == NAMESPACE:
        annotations = select_present_fields(
            get_mapping(full_metadata, "annotations"), sorted(RESTRICTING_ANNOTATIONS)
        )
        metadata |= {"annotations": annotations} if annotations else {}
    status = select_present_fields(get_mapping(body, "status"), _KEPT_STATUS.get(kind, ()))
    identity = {"apiVersion": str(body.get("apiVersion") or "v1"), "kind": kind}
    content = select_present_fields(body, KEPT_FIELDS[kind])
    if kind in (CONFIG_MAP, SECRET):
        # The keys alone: no value of a Secret enters a state or a plan.
        content = {section: dict.fromkeys(values, "") for section, values in content.items()}
    elif kind == DEFINITION:
        # Earlier scripts of `inventory script` wrote no group.
        identity["apiVersion"] = "apiextensions.k8s.io/v1"
        names = {"kind": get_text(body, "spec", "names", "kind")}
        content = {"spec": {"group": get_text(body, "spec", "group"), "names": names}}
    reduced = {**identity, "metadata": metadata, **content}
    return {**reduced, "status": status} if status else reduced


def _reduce_pod(body: _Object) -> _Object:
    """Return the required parts of a pod as plain data.

    A pod that is `promised` has no node in its spec yet. A node nominated for it then becomes
    the one of its spec. If it is `resized`, its resources were changed in place, so they differ
    from its spec.
    """
    metadata, spec, status = (get_mapping(body, part) for part in ("metadata", "spec", "status"))
    containers: dict[str, list[_Object]] = {}
    is_resized = False
    for section in CONTAINERS:
        # Containers with their actual requests.
        allocated = pod_conditions.apply_allocated_requests(body, section)
        containers[section] = [
            select_present_fields(item, _CONTAINER_FIELDS) for item in list_mappings(allocated)
        ]
        is_resized = is_resized or allocated != spec.get(section)
    pod_resources = pod_conditions.apply_allocated_pod_requests(body)
    is_resized = is_resized or pod_resources != get_mapping(spec, "resources")
    if pod_resources:
        spec = {**spec, "resources": pod_resources}
    # A node may be reserved for the pod until its victims are gone.
    if not spec.get("nodeName"):
        spec = {**spec, "nodeName": status.get("nominatedNodeName")}
    claim_names = device_objects.find_claim_names(body)
    return {
        "labels": get_mapping(metadata, "labels"),
        "owner": select_present_fields(get_controller_reference(metadata), ("kind", "name")),
        "terminating": metadata.get("deletionTimestamp") is not None,
        "phase": status.get("phase"),
        "promised": not get_value_at_path(body, "spec", "nodeName"),
        **({"resized": True} if is_resized else {}),
        **select_present_fields(status, ("startTime",)),
        **({"claims": claim_names} if claim_names else {}),
        "condition": pod_conditions.reduce_pod_condition(body),
        "spec": {**select_present_fields(spec, _POD_FIELDS), **containers},
    }


@lru_cache(maxsize=32)
def parse_snapshot(text: str) -> KubectlSnapshot:
    """Parse a text written by `KubectlOutput.encode`.

    Return an empty snapshot for a text not in JSON.
    """
    try:
        data = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return KubectlSnapshot()
    nodes = [_build_node(name, body) for name, body in data["nodes"]]
    bodies = get_list(data, "objects")
    objects = tuple(map(_build_observed_manifest, bodies))
    missing_kinds = find_missing_kinds(bodies)
    # Every cluster has Namespaces: without one, objects were not listed.
    is_complete = NAMESPACE not in missing_kinds
    storage = collect_storage(objects, is_complete=is_complete)
    devices = device_objects.collect_device_objects(objects)
    build_pod = partial(_build_pod, storage=storage, devices=devices, is_complete=is_complete)
    pods: list[ObservedPod] = []
    nominated_pods: list[ObservedPod] = []
    waiting_pods: list[ObservedPod] = []
    for name, body in data["pods"]:
        if body["phase"] in _FINISHED_PHASES:
            # It uses nothing any more.
            continue
        pod = build_pod(name, body)
        if not pod.node:
            waiting_pods.append(pod)
        else:
            # A promised pod only reserves the node.
            (nominated_pods if body.get("promised") else pods).append(pod)
    return KubectlSnapshot(
        nodes=tuple(nodes),
        pods=tuple(pods),
        nominated_pods=tuple(nominated_pods),
        waiting_pods=tuple(waiting_pods),
        workloads={body["key"]: build_live_workload(body) for body in get_list(data, "workloads")},
        has_pods=bool(data["pods"]),
        duplicates=tuple(get_list(data, "duplicates")),
        unlisted=get_text(data, "unlisted"),
        unread_kinds=tuple(get_list(data, "unread")),
        listed_kinds=frozenset(get_list(data, "listed")).difference(missing_kinds),
        unread_fields=tuple(get_list(data, "unread_fields")),
        objects=objects,
        missing_kinds=missing_kinds,
        version=_find_version(
            [get_text(body, "version") for _, body in data["nodes"]], get_text(data, "version")
        ),
    )


def _build_observed_manifest(body: _Object) -> Manifest:
    """Return an object of the snapshot as a manifest; its line number has no meaning."""
    group, _, version = body["apiVersion"].rpartition("/")
    metadata = body["metadata"]
    return Manifest(
        group=group,
        version=version,
        kind=body["kind"],
        namespace=get_text(metadata, "namespace"),
        name=str(metadata["name"]),
        labels={key: str(value) for key, value in get_mapping(metadata, "labels").items()},
        body=body,
        line=1,
    )


def _build_node(name: str, body: _Object) -> ObservedNode:
    """Return a node as registered, from the fields kept by `_keep_needed_node_fields`."""
    capacity = get_mapping(body, "capacity")
    allocatable = get_mapping(body, "allocatable")
    return ObservedNode(
        name=name,
        provider_id=get_text(body, "providerID"),
        labels={key: str(value) for key, value in body["labels"].items()},
        taints=kubernetes_pod_spec.parse_taints(body),
        unschedulable=body.get("unschedulable") is True,
        capacity=_parse_node_size(capacity),
        allocatable=_parse_node_size(allocatable),
        pods=parse_amount(allocatable.get("pods")),
        images=get_mapping(body, "images"),
        version=parse_version(get_text(body, "version")),
        ready=get_text(body, "ready"),
        heartbeat=int(body.get("heartbeat", 0)),
        coming_taints=tuple(get_list(body, "coming_taints")),
        is_terminating=body.get("terminating") is True,
        declared_features=tuple(map(str, get_list(body, "declaredFeatures"))),
    )


def _parse_node_size(amounts: Mapping[str, Any]) -> NodeSize:
    """Return CPU (in milli), memory (in bytes) and other resources.

    An invalid amount counts as 0.
    """
    other_resources = {
        name: parse_amount(amount)
        for name, amount in amounts.items()
        if name not in _BASIC_RESOURCES
    }
    cpu = read_quantity_or_zero(amounts.get("cpu")).round_to_milli()
    return NodeSize(cpu, parse_amount(amounts.get("memory")), other_resources)


def _build_spread_selector(kind: str, labels: Mapping[str, str]) -> LabelSelector | None:
    """Return the selector for kube-scheduler's default spreading.

    It has the labels that are equal in all pods of a controller.
    """
    if kind not in _SPREAD_KINDS:
        # The kube-scheduler spreads no other pods by default.
        return None
    shared_labels = {key: value for key, value in labels.items() if key not in _POD_LABELS}
    return LabelSelector(tuple(sorted(shared_labels.items()))) if shared_labels else None


def _build_pod(
    title: str, body: _Object, *, storage: Storage, devices: DeviceObjects, is_complete: bool
) -> ObservedPod:
    """Return the record of a pod stored in a snapshot.

    `title` is its namespace/name. Its spec is parsed like a manifest's.
    """
    namespace, _, name = title.partition("/")
    kind, owner_name = _find_controller(name, body)
    spec = dict(body["spec"])
    node = str(spec.pop("nodeName", ""))
    # Its controller adds an affinity to the node of the pod.
    if kind == "DaemonSet":
        spec["affinity"] = _remove_node_pinning(get_mapping(spec, "affinity"))
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
    # Findings (the empty list) are not read: the API server has validated the pod.
    root, metadata = (Fields(manifest, [], data) for data in (manifest.body, {"labels": labels}))
    selector = _build_spread_selector(kind, labels)
    pod_owner = PodOwner(
        namespace=namespace, kind=kind, added_labels={}, spread_selector=selector, template=""
    )
    pod_spec = kubernetes_pod_spec.parse_pod_spec(
        metadata, root.get_mapping("spec"), pod_owner, Priorities()
    )
    is_terminating = body["terminating"] is True
    volumes = parse_volumes(manifest, root.get_mapping("spec"), templates=(), storage=storage)
    device_claims = device_objects.parse_device_claims(
        namespace, root.get_mapping("spec"), devices, is_complete=is_complete
    )
    pod_spec = msgspec.structs.replace(
        device_objects.add_claims(pod_spec, volumes, device_claims), is_terminating=is_terminating
    )
    # The template is unknown: a resized pod no longer has the resources of its template.
    template = None
    if not body.get("resized"):
        revision = next((str(labels[key]) for key in _REVISION_LABELS if key in labels), "")
        containers = kubernetes_pod_spec.parse_containers(root.get_mapping("spec"))
        template = ObservedPodTemplate(revision, containers)
    # A terminating pod counts for no controller.
    workload = "" if is_terminating else f"{namespace}/{kind}/{owner_name}"
    claim_names = [f"{namespace}/{claim}" for claim in get_list(body, "claims")]
    return ObservedPod(
        workload=workload,
        namespace=namespace,
        name=name,
        node=node,
        spec=pod_spec,
        start_time=str(body.get("startTime", "")),
        template=template,
        condition=PodCondition(**get_mapping(body, "condition")),
        devices=device_objects.list_allocated_claims(claim_names, devices),
    )


def _find_controller(pod: str, body: _Object) -> tuple[str, str]:
    """Return kind and name of a pod's controller: a Deployment for its ReplicaSet.

    Without a controller, they are those of the pod itself.
    """
    kind = str(body["owner"].get("kind", "Pod"))
    name = str(body["owner"].get("name", pod))
    # A static pod: kubelet runs it from a file on its node.
    if kind == "Node":
        return "Pod", pod
    suffix = f"-{body['labels'].get('pod-template-hash')}"
    if kind == "ReplicaSet" and name.endswith(suffix):
        return "Deployment", name.removesuffix(suffix)
    return kind, name


def _remove_node_pinning(affinity: Mapping[str, Any]) -> dict[str, Any]:
    """Return the affinity of a DaemonSet's pod as configured.

    Its controller adds the pod's own node as matchFields.
    """
    node_affinity = dict(get_mapping(affinity, "nodeAffinity"))
    terms = list_mappings(node_affinity.pop(_REQUIRED, None), "nodeSelectorTerms")
    expressions = [term["matchExpressions"] for term in terms if term.get("matchExpressions")]
    if expressions:
        node_affinity[_REQUIRED] = {
            "nodeSelectorTerms": [{"matchExpressions": item} for item in expressions]
        }
    return {**affinity, "nodeAffinity": node_affinity}
