"""Kubernetes YAML -> manifests: the objects that a text names, as plain data with their places.

Lists are flattened; envelopes are unwrapped on request, since the hub holds the envelope and the
members hold what is in it. `Fields` is a careful walk through a manifest's body: what has the wrong type is a
finding, not a crash.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity
from nexusform.documents.shapes import Holds, Shape, fault_of, mapping_at
from nexusform.documents.text_places import TextPlace
from nexusform.documents.yaml_text import YamlDocument, problem_at, read_yaml
from nexusform.kubernetes.quantity import LARGEST_INT32

INVALID: Final = "invalid-kubernetes-manifest"
DEPRECATED: Final = "deprecated-envelope"
ENVELOPE_ANNOTATION: Final = "kubernetes-fleet.io/envelope-configmap"
ENVELOPE_KINDS: Final = frozenset({"ClusterResourceEnvelope", "ResourceEnvelope"})
MOST_IN_ENVELOPE: Final = 50
_ENVELOPE_KEYS: Final = frozenset({"apiVersion", "kind", "metadata", "data", "status"})
NOWHERE: Final = TextPlace(0, 0)

_CLUSTER_SCOPED: Final = frozenset(
    {
        "Namespace", "Node", "PersistentVolume", "ComponentStatus",
        "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "APIService",
        "StorageClass", "CSIDriver", "CSINode", "VolumeAttachment", "VolumeAttributesClass",
        "PriorityClass", "RuntimeClass", "IngressClass", "IPAddress", "ServiceCIDR", "GatewayClass",
        "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
        "CertificateSigningRequest", "ClusterTrustBundle", "FlowSchema", "PriorityLevelConfiguration",
        "ResourceSlice", "DeviceClass", "PodSecurityPolicy",
        "MemberCluster", "ClusterResourcePlacement", "ClusterResourceEnvelope", "ClusterResourceOverride",
        "ClusterStagedUpdateRun", "ClusterStagedUpdateStrategy", "ClusterApprovalRequest",
        "ClusterResourcePlacementEviction", "ClusterResourcePlacementDisruptionBudget",
    }
)  # fmt: skip


class Manifest(Struct, frozen=True):
    """One object: what identifies it, its labels and its body as plain data (not to be changed).

    `namespace` is "" for objects of the cluster. `group` is "" for the core API. `line` counts from 1.
    """

    group: str
    version: str
    kind: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    body: Mapping[str, Any]
    line: int
    file: str = ""
    place: TextPlace = TextPlace(1, 1)

    @property
    def title(self) -> str:
        """`Kind namespace/name`, for people."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    def find(self, *path: str | int) -> TextPlace:
        """Where the value at a path of the body was written, or the nearest part above it."""
        return YamlDocument(self.body, self.place).find(*path)


class ManifestReading(Struct, frozen=True):
    """The manifests of a text in its order, and everything that is wrong with it."""

    manifests: tuple[Manifest, ...]
    findings: tuple[Problem, ...]


def read_manifests(file: str, content: str | bytes) -> ManifestReading:
    """All objects of a YAML text, as `kubectl apply` takes them: a key that stands twice is an error.

    `file` names the text in findings.
    """
    stream = read_yaml(file, content)
    findings = [replace(problem, severity=Severity.ERROR) for problem in stream.findings]
    reader = _ManifestReader(file, findings)
    for document in stream.documents:
        reader.read(document)
    return ManifestReading(tuple(reader.manifests), tuple(findings))


def manifest_from(body: Mapping[str, Any], like: Manifest) -> Manifest | None:
    """The manifest of a changed body (an override's result), placed like the one it came from.

    None when the change took away what identifies an object.
    """
    reader = _ManifestReader(like.file, [])
    reader.read(YamlDocument(dict(body), like.place))
    return reader.manifests[0] if len(reader.manifests) == 1 else None


def manifest_of(body: Mapping[str, Any]) -> Manifest | None:
    """The manifest of a body that was kept, of which nothing tells any more where it was written."""
    reader = _ManifestReader("", [])
    reader.read(YamlDocument(dict(body), NOWHERE))
    return reader.manifests[0] if len(reader.manifests) == 1 else None


def is_envelope(manifest: Manifest) -> bool:
    """Whether an object is one of the fleet's envelopes."""
    return manifest.kind in ENVELOPE_KINDS and is_fleet_group(manifest.group)


def envelope_problems(envelope: Manifest) -> Iterator[Problem]:
    """What the API refuses of an envelope."""
    data = mapping_at(envelope.body, "data")
    count = len(data)
    text = ""
    if envelope.version != "v1beta1":
        text = f'apiVersion is "{envelope.group}/{envelope.version}"; a hub has envelopes as v1beta1.'
    elif not 1 <= count <= MOST_IN_ENVELOPE:
        text = f"data must be a mapping of 1 to {MOST_IN_ENVELOPE} objects."
    elif not all(isinstance(item, dict) for item in data.values()):
        text = "data holds the objects themselves as mappings, not their text."
    if text:
        yield problem_at(envelope.file, envelope.find("data"), INVALID, f"{envelope.title}: {text}")
    for key in envelope.body:
        if key not in _ENVELOPE_KEYS:
            unknown = f'{envelope.title}: unknown field "{key}"; its objects stand below data.'
            yield problem_at(envelope.file, envelope.find(key), INVALID, unknown)


def unwrapped(manifests: Iterable[Manifest]) -> ManifestReading:
    """The objects as members get them: every envelope replaced by what is in it."""
    objects: list[Manifest] = []
    findings: list[Problem] = []
    for manifest in manifests:
        if is_envelope(manifest):
            inner = _from_envelope(manifest)
        elif is_configmap_envelope(manifest):
            inner = _from_configmap(manifest)
        else:
            objects.append(manifest)
            continue
        objects += inner.manifests
        findings += inner.findings
    return ManifestReading(tuple(objects), tuple(findings))


def is_configmap_envelope(manifest: Manifest) -> bool:
    """Whether a ConfigMap is the older form of envelope."""
    annotations = mapping_at(mapping_at(manifest.body, "metadata").get("annotations"))
    return (manifest.group, manifest.kind) == ("", "ConfigMap") and ENVELOPE_ANNOTATION in annotations


def is_fleet_group(group: str) -> bool:
    """Whether an API group is the fleet's own. Objects of other groups beside it (networking.fleet.azure.com)
    are placed like any.
    """
    return group in _FLEET_GROUPS


_FLEET_GROUPS: Final = ("placement.kubernetes-fleet.io", "cluster.kubernetes-fleet.io", "fleet.azure.com")
_NETWORKING: Final = "networking.fleet.azure.com"


def is_reserved(namespace: str) -> bool:
    """Whether a namespace is never propagated, nor anything in it."""
    return namespace == "default" or namespace.startswith(("kube-", "fleet-"))


def never_selected(manifest: Manifest, services: Collection[tuple[str, str]] = ()) -> str | None:
    """Why a placement never selects an object; None when it may.

    `services`: (namespace, name) of the Services on the hub, whose Endpoints are not copied.
    """
    namespace = manifest.name if (manifest.group, manifest.kind) == ("", "Namespace") else manifest.namespace
    if is_reserved(namespace):
        return f"namespace {namespace} is reserved: default, kube-* and fleet-* are never selected"
    kind = (manifest.group, manifest.kind)
    if is_fleet_group(manifest.group) and manifest.kind not in ENVELOPE_KINDS:
        return f"{manifest.kind} belongs to the fleet itself"
    if kind in _NEVER or manifest.group == "metrics.k8s.io":
        return f"objects of kind {manifest.kind} are never selected"
    return _made_by_clusters(manifest, services)


_NEVER: Final = frozenset(
    {
        ("", "Pod"),
        ("", "Node"),
        ("", "Event"),
        ("events.k8s.io", "Event"),
        ("coordination.k8s.io", "Lease"),
        ("multicluster.x-k8s.io", "ServiceImport"),
        (_NETWORKING, "ServiceImport"),
        (_NETWORKING, "TrafficManagerProfile"),
        (_NETWORKING, "TrafficManagerBackend"),
    }
)


def _made_by_clusters(manifest: Manifest, services: Collection[tuple[str, str]]) -> str | None:
    """Why an object is made by every cluster itself and never selected; None for all others."""
    own = "every cluster makes its own"
    match manifest.group, manifest.kind:
        case "", "ConfigMap" if manifest.name == "kube-root-ca.crt":
            return f"ConfigMap kube-root-ca.crt is never selected: {own}"
        case "", "ServiceAccount" if manifest.name == "default":
            return f"ServiceAccount default is never selected: {own}"
        case "", "Secret" if manifest.body.get("type") == "kubernetes.io/service-account-token":
            return f"service account tokens are never selected: {own}"
        case "", "Endpoints" if (manifest.namespace, manifest.name) in services:
            return f"the Endpoints of Service {manifest.name} are never selected: {own}"
        case "discovery.k8s.io", "EndpointSlice" if (
            "endpointslice.kubernetes.io/managed-by" in manifest.labels
        ):
            return f"a managed EndpointSlice is never selected: {own}"
    return None


class _ManifestReader:
    def __init__(self, file: str, findings: list[Problem]) -> None:
        self.file = file
        self.findings = findings
        self.manifests: list[Manifest] = []

    def read(self, document: YamlDocument) -> None:
        """Take one document: an object, or the items of a list of objects."""
        body = document.data
        if not isinstance(body, dict):
            self._say(document.place, "a manifest is a mapping with apiVersion, kind and metadata.")
            return
        kind, items = body.get("kind"), body.get("items")
        if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
            places = document.place.children.get("items", document.place).children
            for at, item in enumerate(items):
                self.read(YamlDocument(item, places.get(at, document.place)))
            return
        manifest = self._manifest(body, document)
        if manifest is not None:
            self.manifests.append(manifest)

    def _manifest(self, body: dict[str, Any], document: YamlDocument) -> Manifest | None:
        """An object with its labels; None, and a finding, without version, kind or name."""
        metadata = body.get("metadata")
        if metadata is not None and not isinstance(metadata, dict):
            self._say(document.find("metadata"), "metadata is a mapping.")
            return None
        metadata = metadata or {}
        version, kind, name = body.get("apiVersion"), body.get("kind"), metadata.get("name")
        missing = [
            what
            for what, value in (("apiVersion", version), ("kind", kind), ("metadata.name", name))
            if not isinstance(value, str) or not value
        ]
        if missing:
            self._say(document.place, self._what_is_missing(missing, body, metadata))
            return None
        group, _, short = str(version).rpartition("/")
        namespace = metadata.get("namespace")
        if namespace is not None and not isinstance(namespace, str):
            self._say(document.find("metadata", "namespace"), "metadata.namespace is a text; quote it.")
            namespace = str(namespace)
        return Manifest(
            group=group,
            version=short,
            kind=str(kind),
            namespace=_namespace(group, str(kind), namespace),
            name=str(name),
            labels=self._labels(metadata.get("labels"), document),
            body=body,
            line=document.place.line,
            file=self.file,
            place=document.place,
        )

    def _what_is_missing(self, missing: list[str], body: dict[str, Any], metadata: dict[str, Any]) -> str:
        kind = body.get("kind")
        who = f"this {kind}" if isinstance(kind, str) and kind else "this document"
        text = f"{who} has no {' and no '.join(missing)} (a text)."
        if "metadata.name" in missing and "generateName" in metadata:
            text += " generateName makes up a name in the cluster; give it one here."
        return text

    def _labels(self, labels: Any, document: YamlDocument) -> dict[str, str]:
        """Labels as texts; what is none is said."""
        if labels is None:
            return {}
        if not isinstance(labels, dict):
            self._say(document.find("metadata", "labels"), "metadata.labels is a mapping of texts.")
            return {}
        texts = {}
        for key, value in labels.items():
            if not isinstance(value, str):
                place = document.find("metadata", "labels", key)
                self._say(place, f'the value of label "{key}" is not a text; quote it.')
            texts[key] = plain_text(value)
        return texts

    def _say(self, place: TextPlace, detail: str) -> None:
        self.findings.append(problem_at(self.file, place, INVALID, detail))


def plain_text(value: Any) -> str:
    """A scalar as the text that was meant: true, 1.5, the empty text for null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _namespace(group: str, kind: str, written: str | None) -> str:
    # Kinds that nobody knows and that name no namespace are taken for objects of the cluster.
    if kind in _CLUSTER_SCOPED:
        return ""
    built_in = "." not in group or group.endswith(".k8s.io")
    return written or ("default" if built_in else "")


def _from_envelope(envelope: Manifest) -> ManifestReading:
    reader = _ManifestReader(envelope.file, [])
    for key, item in mapping_at(envelope.body, "data").items():
        reader.read(YamlDocument(item, envelope.find("data", key)))
    return ManifestReading(tuple(reader.manifests), tuple(reader.findings))


def _from_configmap(envelope: Manifest) -> ManifestReading:
    """The objects inside an envelope that is a ConfigMap."""
    detail = f"{envelope.title} is an envelope of the obsolete kind; write a ResourceEnvelope instead."
    findings = [problem_at(envelope.file, envelope.place, DEPRECATED, detail, Severity.WARNING)]
    objects: list[Manifest] = []
    for key, text in mapping_at(envelope.body, "data").items():
        if isinstance(text, str):
            inner = read_manifests(f"{envelope.file}:{key}", text)
            objects += inner.manifests
            findings += inner.findings
    return ManifestReading(tuple(objects), tuple(findings))


_EMPTY: Final[Mapping[str, Any]] = {}
_MAPPING: Final = Shape(Holds.OBJECT)
_LIST: Final = Shape(Holds.LIST)
_TEXT: Final = Shape(Holds.TEXT)
_FLAG: Final = Shape(Holds.FLAG)


class Fields:
    """A mapping of a manifest at a path. Absent parts read as empty; wrong ones are noted once."""

    def __init__(
        self, manifest: Manifest, findings: list[Problem], data: Mapping[str, Any], *path: str | int
    ) -> None:
        self.manifest = manifest
        self.findings = findings
        self.data = data
        self.path = path

    def __contains__(self, key: str) -> bool:
        return self.data.get(key) is not None

    def say(
        self,
        key: str,
        detail: str,
        severity: Severity = Severity.ERROR,
        *,
        brief: str = "",
        id: str = INVALID,  # noqa: A002 - as diagnostics call it
    ) -> None:
        """Note what is wrong with a key, naming the object. `brief` says it in a few words, where `detail`
        after the key is too long for a line.
        """
        path = (*self.path, key) if key else self.path
        name = ".".join(str(step) for step in path)
        where = self.manifest.find(*path)
        text = f"{self.manifest.title}: {name} {detail}"
        short = f"{self.manifest.title}: {brief or f'{key} {detail}'.strip()}"
        self.findings.append(problem_at(self.manifest.file, where, id, text, severity, short))

    def at(self, key: str) -> Fields:
        """The mapping under a key."""
        value = self._held(key, _MAPPING)
        return Fields(self.manifest, self.findings, value or _EMPTY, *self.path, key)

    def _held(self, key: str, shape: Shape) -> Any:
        """What stands under a key; None, and a finding, where it is of another shape. Other scalars are read
        as the text that was meant.
        """
        value = self.data.get(key)
        fault = None if value is None else fault_of(value, shape)
        if fault is None:
            return value
        self.say(key, fault.detail, Severity.WARNING if fault.meant else Severity.ERROR)
        return fault.meant or None

    def each(self, key: str) -> Iterator[Fields]:
        """The mappings of a list under a key. A single mapping in its place is read as one item."""
        value = self.data.get(key)
        if isinstance(value, dict):
            self.say(key, "must be a list; it is read as a list of one.", Severity.WARNING)
            yield Fields(self.manifest, self.findings, value, *self.path, key)
            return
        for at, item in enumerate(self.list(key)):
            if isinstance(item, dict):
                yield Fields(self.manifest, self.findings, item, *self.path, key, at)
            else:
                self.say(key, f"must be a list of mappings (item {at + 1} is none).")

    def list(self, key: str) -> list[Any]:
        """The items of a list under a key."""
        items: list[Any] | None = self._held(key, _LIST)
        return items or []

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; other scalars are read as the text that was meant."""
        items = self.list(key)
        if any(isinstance(item, (dict, list)) for item in items):
            self.say(key, "must be a list of texts.")
        elif any(not isinstance(item, str) for item in items):
            self.say(key, "must be a list of texts; quote its items.", Severity.WARNING)
        return tuple(plain_text(item) for item in items if not isinstance(item, (dict, list)))

    def text(self, key: str, default: str = "") -> str:
        """A text; other scalars are read as the text that was meant."""
        value: str | None = self._held(key, _TEXT)
        return default if value is None else value

    def whole(self, key: str, default: int, least: int = 0) -> int:
        """A whole number that is not below `least`, and an int32 as all that are read so."""
        if key not in self:
            return default
        value: int | None = self._held(key, Shape(Holds.WHOLE, least=least, most=LARGEST_INT32))
        return default if value is None else value

    def flag(self, key: str) -> bool:
        """A boolean; absent is false."""
        return self._held(key, _FLAG) is True

    def one_of(self, key: str, choices: tuple[str, ...], default: str) -> str:
        """One of some words."""
        value = self.text(key, default)
        fault = None if value in choices else fault_of(value, Shape(Holds.TEXT, choices=choices))
        if fault is not None:
            self.say(key, fault.detail)
            return default
        return value

    def pairs(self, key: str) -> dict[str, str]:
        """A mapping of texts, as labels are."""
        inner = self.at(key)
        return {name: inner.text(name) for name in inner.data}


def fingerprint(manifests: Iterable[Manifest]) -> str:
    """A hash of what the objects say (not of how they are written)."""
    contents: list[list[Any]] = []
    for manifest in manifests:
        names = [manifest.group, manifest.kind, manifest.namespace, manifest.name, manifest.version]
        contents.append([*names, manifest.body])
    return sha256(canonical_text(contents)).hexdigest()


def canonical_text(value: Any) -> bytes:
    """A document as the same text, however it is written."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")
