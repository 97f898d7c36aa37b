"""Objects that a pod needs on its cluster, and whether they are there.

One table of references has every field of a pod that names an object. One inventory answers for
placed, planned and observed objects: there, not there, not read, or absent but may come.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from nexusform.domains.pods.importers.api_resources import ApiKinds
from nexusform.domains.pods.importers.manifest_parser import (
    Manifest,
    is_fleet_group,
    select_custom_definitions,
)
from nexusform.domains.pods.scheduling.cluster_records import NeedEffect, ObjectNeed
from nexusform.json_data.plain_data import (
    get_list,
    get_mapping,
    get_text,
    get_value_at_path,
    list_mappings,
)

CONFIG_MAP: Final = "ConfigMap"
SECRET: Final = "Secret"  # noqa: S105
SERVICE_ACCOUNT: Final = "ServiceAccount"
DEFINITION: Final = "CustomResourceDefinition"
_NAMESPACE: Final = "Namespace"
_CLAIM: Final = "PersistentVolumeClaim"
_CLASS: Final = "StorageClass"
_RUNTIME: Final = "RuntimeClass"
_PRIORITY: Final = "PriorityClass"
_NETWORK: Final = "NetworkAttachmentDefinition"
DATA_VOLUME: Final = "DataVolume"
SRIOV_KINDS: Final = ("SriovNetwork", "SriovIBNetwork", "OVSNetwork")
# Kinds whose controllers create an object of the same name: KubeVirt's Containerized Data Importer
# claims, the SR-IOV network operator networks of Multus.
_PROVIDERS: Final[Mapping[str, tuple[str, ...]]] = {_CLAIM: (DATA_VOLUME,), _NETWORK: SRIOV_KINDS}
# Kinds that no rule of scheduling reads: they matter only to the pods that name them.
NAMED_KINDS: Final = frozenset(
    {CONFIG_MAP, SECRET, SERVICE_ACCOUNT, DEFINITION, DATA_VOLUME, *SRIOV_KINDS}
)
_CLUSTER_SCOPED: Final = frozenset({_NAMESPACE, _CLASS, _RUNTIME, _PRIORITY, DEFINITION})
# Of the API server itself, and of its controllers in every namespace.
_BUILT_IN_OBJECTS: Final = frozenset(
    {
        *((_NAMESPACE, name) for name in ("default", "kube-system", "kube-public")),
        (_NAMESPACE, "kube-node-lease"),
        *((_PRIORITY, name) for name in ("system-cluster-critical", "system-node-critical")),
        (SERVICE_ACCOUNT, "default"),
        (CONFIG_MAP, "kube-root-ca.crt"),
    }
)
_TOKEN_TYPE: Final = "kubernetes.io/service-account-token"  # noqa: S105
_TOKEN_KEYS: Final = frozenset({"token", "ca.crt", "namespace"})
_SECTIONS: Final = ("initContainers", "containers")
# Sources of volumes with a reference to a Secret.
_DRIVER_SECRETS: Final = (
    *("cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"),
)
_EACH: Final = "*"
_MAX_DEPTH: Final = 24
# Workloads whose containers may create an object that their arguments or environment name.
_WORKLOAD_KINDS: Final = frozenset(
    {"Pod", "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"}
)
_SCRIPT_KINDS: Final = frozenset({"Job", "CronJob"})
_WORD: Final = re.compile(r"[A-Za-z0-9.-]+")
# API groups whose custom resources create no ConfigMap and no Secret.
_PASSIVE_GROUPS: Final = frozenset(
    {
        "cilium.io", "crd.projectcalico.org", "gateway.networking.k8s.io", "k8s.cni.cncf.io",
        "keda.sh", "monitoring.coreos.com", "networking.istio.io", "projectcalico.org",
        "security.istio.io",
    }
)  # fmt: skip
# API groups of aggregated API servers: their kinds have no CustomResourceDefinition.
_AGGREGATED_GROUPS: Final = ("projectcalico.org", "packages.operators.coreos.com")
_AGGREGATED_DOMAIN: Final = ".openshift.io"


class NeedAnswer(StrEnum):
    """Answer about an object on a cluster."""

    THERE = "there"
    NOT_THERE = "not there"
    NOT_READ = "not read"
    # Absent, but a controller, container or extension of the cluster may provide it.
    MAY_COME = "may come"


def find_provided_object(manifest: Manifest) -> tuple[str, str, str] | None:
    """Find the object that a controller creates for another: kind, namespace and name."""
    match manifest.group, manifest.kind:
        case "cdi.kubevirt.io", "DataVolume":
            return _CLAIM, manifest.namespace, manifest.name
        case "sriovnetwork.openshift.io", kind if kind in SRIOV_KINDS:
            namespace = get_text(manifest.body, "spec", "networkNamespace") or manifest.namespace
            return _NETWORK, namespace, manifest.name
    return None


class ObjectReference(Struct, frozen=True):
    """Field of a pod spec that names an object.

    `path` leads to the reference ("*": each item of a list). `name` is its field with the name;
    `keys` the path to the names of required keys.
    """

    path: tuple[str, ...]
    kind: str
    name: str = "name"
    keys: tuple[str, ...] = ()
    effect: NeedEffect = NeedEffect.START


def _list_container_references() -> Iterator[ObjectReference]:
    """Yield the references of containers to ConfigMaps and Secrets."""
    for section in _SECTIONS:
        value = (section, _EACH, "env", _EACH, "valueFrom")
        yield ObjectReference((*value, "configMapKeyRef"), CONFIG_MAP, keys=("key",))
        yield ObjectReference((*value, "secretKeyRef"), SECRET, keys=("key",))
        environment = (section, _EACH, "envFrom", _EACH)
        yield ObjectReference((*environment, "configMapRef"), CONFIG_MAP)
        yield ObjectReference((*environment, "secretRef"), SECRET)


_VOLUME: Final = ("volumes", _EACH)
_SOURCE: Final = (*_VOLUME, "projected", "sources", _EACH)
_ITEM_KEYS: Final = ("items", _EACH, "key")
_CREATION: Final = NeedEffect.CREATION
# The table: each field of a pod spec that names an object.
REFERENCES: Final = (
    ObjectReference((), SERVICE_ACCOUNT, "serviceAccountName", effect=_CREATION),
    ObjectReference((), SERVICE_ACCOUNT, "serviceAccount", effect=_CREATION),
    ObjectReference((), _RUNTIME, "runtimeClassName", effect=_CREATION),
    ObjectReference((), _PRIORITY, "priorityClassName", effect=_CREATION),
    ObjectReference(("imagePullSecrets", _EACH), SECRET, effect=NeedEffect.IMAGES),
    *_list_container_references(),
    ObjectReference((*_VOLUME, "configMap"), CONFIG_MAP, keys=_ITEM_KEYS),
    ObjectReference((*_VOLUME, "secret"), SECRET, "secretName", _ITEM_KEYS),
    ObjectReference((*_SOURCE, "configMap"), CONFIG_MAP, keys=_ITEM_KEYS),
    ObjectReference((*_SOURCE, "secret"), SECRET, keys=_ITEM_KEYS),
    ObjectReference((*_SOURCE, "clusterTrustBundle"), "ClusterTrustBundle"),
    ObjectReference((*_VOLUME, "persistentVolumeClaim"), _CLAIM, "claimName"),
    ObjectReference(
        (*_VOLUME, "ephemeral", "volumeClaimTemplate", "spec"), _CLASS, "storageClassName"
    ),
    ObjectReference((*_VOLUME, "csi", "nodePublishSecretRef"), SECRET),
    ObjectReference((*_VOLUME, "azureFile"), SECRET, "secretName"),
    *(ObjectReference((*_VOLUME, driver, "secretRef"), SECRET) for driver in _DRIVER_SECRETS),
)


def list_pod_needs(
    namespace: str,
    spec: Mapping[str, Any],
    networks: Iterable[tuple[str, str]],
    claim_templates: Iterable[Mapping[str, Any]],
) -> tuple[ObjectNeed, ...]:
    """Return the objects that a pod names in its spec after admission, each once.

    `networks` are those of Multus by namespace and name, `claim_templates` those of a StatefulSet.
    An optional reference is no need.
    """
    needs = dict.fromkeys(_list_referenced_objects(namespace, spec))
    for network_namespace, name in networks:
        needs[ObjectNeed(_NETWORK, network_namespace, name)] = None
    for template in claim_templates:
        class_name = get_text(template, "spec", "storageClassName")
        if class_name:
            needs[ObjectNeed(_CLASS, "", class_name)] = None
    return tuple(needs)


def _list_referenced_objects(namespace: str, spec: Mapping[str, Any]) -> Iterator[ObjectNeed]:
    """Yield the objects that the fields of the table name, and their keys."""
    for row in REFERENCES:
        for reference in _select_parts(spec, row.path):
            name = get_text(reference, row.name)
            if not name or (row.path and reference.get("optional") is True):
                continue
            place = "" if row.kind in _CLUSTER_SCOPED else namespace
            keys = list(_select_parts(reference, row.keys)) if row.keys else []
            for key in filter(None, map(_get_key, keys)):
                yield ObjectNeed(row.kind, place, name, key, row.effect)
            if not keys:
                yield ObjectNeed(row.kind, place, name, effect=row.effect)


def _get_key(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _select_parts(data: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """Yield the parts at a path; "*" takes each item of a list."""
    if not path:
        if isinstance(data, Mapping | str):
            yield data
        return
    first, *rest = path
    if first == _EACH:
        items = data if isinstance(data, list) else []
        for item in items:
            yield from _select_parts(item, tuple(rest))
    else:
        yield from _select_parts(get_value_at_path(data, first), tuple(rest))


def list_definition_needs(manifests: Iterable[Manifest]) -> tuple[ObjectNeed, ...]:
    """Return the CustomResourceDefinitions needed by custom resources among objects.

    The plural of a kind is not known here, so it is the guess of Kubernetes.
    """
    needs = {
        ObjectNeed(DEFINITION, "", f"{_guess_plural(item.kind)}.{item.group}"): None
        for item in manifests
        if is_custom_resource(item)
    }
    return tuple(needs)


def is_custom_resource(manifest: Manifest) -> bool:
    """Return whether an object is of a kind that a CustomResourceDefinition defines."""
    is_qualified = "." in manifest.group and not is_fleet_group(manifest.group)
    return is_qualified and not ApiKinds().has_group(manifest.group)


def _may_be_aggregated(name: str) -> bool:
    """Return whether an API server of an extension may serve a kind, by its definition's name."""
    group = name.partition(".")[2]
    return group in _AGGREGATED_GROUPS or group.endswith(_AGGREGATED_DOMAIN)


def _guess_plural(kind: str) -> str:
    """Return the plural of a kind as Kubernetes guesses it (UnsafeGuessKindToResource)."""
    name = kind.lower()
    if name.endswith(("s", "x", "ch", "sh")):
        return f"{name}es"
    return f"{name.removesuffix('y')}ies" if name.endswith("y") else f"{name}s"


class ClusterInventory:
    """Objects of one cluster: those that a plan places, and those read from it.

    `read_kinds` were listed whole, so an object of them that is missing here does not exist.
    `namespaces` are known to exist.
    """

    def __init__(
        self,
        manifests: Iterable[Manifest],
        read_kinds: Collection[str],
        namespaces: Collection[str] = (),
    ) -> None:
        self._read_kinds = frozenset(read_kinds)
        self._namespaces = frozenset(namespaces)
        self._objects: dict[tuple[str, str, str], Manifest] = {}
        self._definitions: set[str] = set()
        self._custom_groups: set[str] = set()
        # Classes of volumes without a claim.
        self._volume_classes: set[str] = set()
        self._creators: list[Manifest] = []
        self._provided: set[tuple[str, str, str]] = set()
        for manifest in manifests:
            self._add_object(manifest)

    def _add_object(self, manifest: Manifest) -> None:
        namespace = "" if manifest.kind in _CLUSTER_SCOPED else manifest.namespace
        self._objects.setdefault((manifest.kind, namespace, manifest.name), manifest)
        if manifest.kind == DEFINITION and any(select_custom_definitions([manifest])):
            names = get_mapping(manifest.body, "spec", "names")
            group = get_text(manifest.body, "spec", "group")
            self._definitions.add(f"{_guess_plural(get_text(names, 'kind'))}.{group}")
        if manifest.kind == "PersistentVolume" and not manifest.group:
            self._volume_classes.add(get_text(manifest.body, "spec", "storageClassName"))
        provided = find_provided_object(manifest)
        if provided is not None:
            self._provided.add(provided)
        is_custom = is_custom_resource(manifest) and manifest.group not in _PASSIVE_GROUPS
        if is_custom or manifest.kind in _WORKLOAD_KINDS:
            self._creators.append(manifest)

    def find_answer(self, need: ObjectNeed) -> NeedAnswer:
        """Return whether a needed object or its key is on the cluster."""
        if self._has_object(need):
            return NeedAnswer.THERE
        if need.kind not in self._read_kinds:
            return NeedAnswer.NOT_READ
        is_aggregated = need.kind == DEFINITION and _may_be_aggregated(need.name)
        if is_aggregated or self._has_creator(need) or self._has_provider(need):
            return NeedAnswer.MAY_COME
        return NeedAnswer.NOT_THERE

    def list_pull_secrets(self, account: ObjectNeed) -> tuple[ObjectNeed, ...]:
        """Return the Secrets that admission copies from a ServiceAccount into pods without any."""
        manifest = self._objects.get((account.kind, account.namespace, account.name))
        if manifest is None:
            return ()
        secrets = list_mappings(manifest.body, "imagePullSecrets")
        names = [get_text(secret, "name") for secret in secrets]
        return tuple(
            ObjectNeed(SECRET, account.namespace, name, effect=NeedEffect.IMAGES)
            for name in filter(None, names)
        )

    def list_class_needs(self, need: ObjectNeed) -> tuple[ObjectNeed, ...]:
        """Return the StorageClass of a claim without a volume; empty for other needs."""
        claim = self._objects.get((need.kind, need.namespace, need.name))
        if need.kind != _CLAIM or claim is None:
            return ()
        class_name = get_text(claim.body, "spec", "storageClassName")
        has_volume = bool(get_text(claim.body, "spec", "volumeName"))
        if has_volume or not class_name or class_name in self._volume_classes:
            return ()
        return (ObjectNeed(_CLASS, "", class_name),)

    def _has_object(self, need: ObjectNeed) -> bool:
        if (need.kind, need.name) in _BUILT_IN_OBJECTS:
            return True
        if need.kind == DEFINITION:
            return need.name in self._definitions
        if need.kind == _NAMESPACE and need.name in self._namespaces:
            return True
        found = self._objects.get((need.kind, need.namespace, need.name))
        if need.kind == _CLASS and need.name in self._volume_classes:
            return True
        if found is None or not need.key:
            return found is not None
        return need.key in _list_keys(found)

    def _has_provider(self, need: ObjectNeed) -> bool:
        """Return whether a controller creates the object, also if its source was not read."""
        if (need.kind, need.namespace, need.name) in self._provided:
            return True
        return any(kind not in self._read_kinds for kind in _PROVIDERS.get(need.kind, ()))

    def _has_creator(self, need: ObjectNeed) -> bool:
        """Return whether a custom resource or workload of the namespace may create the object.

        Custom resources without a namespace may create objects in every namespace.
        """
        if need.kind not in (CONFIG_MAP, SECRET):
            return False
        return any(
            creator.namespace in ("", need.namespace) and _can_create(creator, need.name)
            for creator in self._creators
        )


def _list_keys(manifest: Manifest) -> frozenset[str]:
    """Return the keys of a ConfigMap or Secret."""
    sections = ("data", "binaryData", "stringData")
    keys = frozenset(key for section in sections for key in get_mapping(manifest.body, section))
    return keys | _TOKEN_KEYS if manifest.body.get("type") == _TOKEN_TYPE else keys


def _can_create(creator: Manifest, name: str) -> bool:
    """Return whether an object may create another of this name.

    A custom resource has the same name or the first part of it, or names it in its spec. A
    container names it in its arguments or environment.
    """
    if creator.kind not in _WORKLOAD_KINDS:
        # ExternalSecrets and SealedSecrets create a Secret of their own name.
        if name == creator.name or name.startswith(f"{creator.name}-"):
            return True
        parts = {key: value for key, value in creator.body.items() if key != "metadata"}
        return _has_text(parts, name)
    pod = _get_pod_spec(creator)
    containers = [item for section in _SECTIONS for item in list_mappings(pod, section)]
    for container in containers:
        texts = [*_list_texts(container, "command"), *_list_texts(container, "args")]
        values = [item.get("value") for item in list_mappings(container, "env")]
        if _has_text([*texts, *values], name):
            return True
        # A script of a Job: kubectl create secret generic NAME.
        if creator.kind in _SCRIPT_KINDS and any(name in _WORD.findall(text) for text in texts):
            return True
    return False


def _get_pod_spec(workload: Manifest) -> Mapping[str, Any]:
    """Return the spec of a workload's pods."""
    if workload.kind == "Pod":
        return get_mapping(workload.body, "spec")
    path = ("spec", "jobTemplate") if workload.kind == "CronJob" else ()
    return get_mapping(workload.body, *path, "spec", "template", "spec")


def _list_texts(container: Mapping[str, Any], field: str) -> list[str]:
    return [text for text in get_list(container, field) if isinstance(text, str)]


def _has_text(data: Any, name: str, depth: int = 0) -> bool:
    """Return whether a value is a name, or an argument that ends with it."""
    if isinstance(data, str):
        return data == name or data.endswith(f"={name}")
    if depth > _MAX_DEPTH:
        return False
    values = data.values() if isinstance(data, Mapping) else data if isinstance(data, list) else ()
    return any(_has_text(value, name, depth + 1) for value in values)
