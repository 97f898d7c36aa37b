"""Parsing of Kubernetes YAML into manifests: the objects as plain data with their text positions.

Lists are flattened. Envelopes are unwrapped on request, since the hub stores the envelope and the
members store its content. `Fields` reads a manifest's body with checks: a value of the wrong type
is a finding, not a crash.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.documents.field_validation import FieldKind, FieldShape, validate_value
from nexusform.documents.yaml_documents import TextPosition, YamlDocument, build_problem, parse_yaml
from nexusform.json_data.plain_data import get_mapping, get_text
from nexusform.kubernetes.quantity import MAX_INT32

INVALID: Final = "invalid-kubernetes-manifest"
_IGNORED_ENVELOPE: Final = "ignored-envelope"
_ENVELOPE_ANNOTATION: Final = "kubernetes-fleet.io/envelope-configmap"
ENVELOPE_KINDS: Final = frozenset({"ClusterResourceEnvelope", "ResourceEnvelope"})
MAX_ENVELOPE_OBJECTS: Final = 50
# A plan reads all texts several times, in turns: with fewer than its manifests it parses all again.
MAX_KEPT_TEXTS: Final = 16_384
_ENVELOPE_KEYS: Final = frozenset({"apiVersion", "kind", "metadata", "data", "status"})
NO_POSITION: Final = TextPosition(0, 0)

_CLUSTER_SCOPED: Final = frozenset(
    {
        "Namespace", "Node", "PersistentVolume", "ComponentStatus",
        "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "APIService",
        "StorageClass", "CSIDriver", "CSINode", "VolumeAttachment", "VolumeAttributesClass",
        "PriorityClass", "RuntimeClass", "IngressClass", "IPAddress", "ServiceCIDR", "GatewayClass",
        "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
        "CertificateSigningRequest", "ClusterTrustBundle", "FlowSchema",
        "PriorityLevelConfiguration",
        "ResourceSlice", "DeviceClass", "DeviceTaintRule", "StorageVersionMigration",
        "PodSecurityPolicy",
        "MemberCluster", "ClusterResourcePlacement", "ClusterResourceEnvelope",
        "ClusterResourceOverride",
        "ClusterStagedUpdateRun", "ClusterStagedUpdateStrategy", "ClusterApprovalRequest",
        "ClusterResourcePlacementEviction", "ClusterResourcePlacementDisruptionBudget",
    }
)  # fmt: skip
DEFAULT_NAMESPACE: Final = "default"
_CLUSTER: Final = "Cluster"
_CRD: Final = ("apiextensions.k8s.io", "CustomResourceDefinition")
_FLEET_GROUPS: Final = (
    "placement.kubernetes-fleet.io",
    "cluster.kubernetes-fleet.io",
    "fleet.azure.com",
)
_NETWORKING: Final = "networking.fleet.azure.com"
_UNSELECTABLE_KINDS: Final = (
    *(
        ("", "Pod"),
        ("", "Node"),
        ("", "Event"),
        ("events.k8s.io", "Event"),
        ("coordination.k8s.io", "Lease"),
    ),
    *(("multicluster.x-k8s.io", "ServiceImport"), (_NETWORKING, "ServiceImport")),
    *((_NETWORKING, "TrafficManagerProfile"), (_NETWORKING, "TrafficManagerBackend")),
)


class Manifest(Struct, frozen=True):
    """Kubernetes object: its identity, its labels and its body as plain data (immutable).

    `namespace` is "" for cluster-scoped objects. `group` is "" for the core API. `line` counts from
    1. `is_listed` means that it is an item of a list, as printed by `kubectl get`.
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
    position: TextPosition = TextPosition(1, 1)
    is_listed: bool = False

    @property
    def title(self) -> str:
        """Display name: `Kind namespace/name`."""
        return (
            f"{self.kind} {self.namespace}/{self.name}"
            if self.namespace
            else f"{self.kind} {self.name}"
        )

    @property
    def workload_key(self) -> str:
        """Key of a workload: `<namespace>/<kind>/<name>`."""
        return f"{self.namespace}/{self.kind}/{self.name}"

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Group, kind, namespace and name."""
        return self.group, self.kind, self.namespace, self.name

    @property
    def is_namespace(self) -> bool:
        """Whether the object is a Namespace of the core API."""
        return (self.group, self.kind) == ("", "Namespace")

    def find_position(self, *path: str | int) -> TextPosition:
        """Return the text position of the value at a path, or of the nearest part above it."""
        return YamlDocument(self.body, self.position).find_position(*path)


class ParsedManifests(Struct, frozen=True):
    """Manifests of a text in order, and the problems found."""

    manifests: tuple[Manifest, ...]
    findings: tuple[Problem, ...]


def parse_manifests(file: str, content: str | bytes, namespace: str = "") -> ParsedManifests:
    """Parse all objects of a YAML text like `kubectl apply -n NAMESPACE`.

    All findings are errors, and name the text by `file`. "": no namespace is set.
    """
    stream = parse_yaml(file, content)
    findings = [replace(problem, severity=Severity.ERROR) for problem in stream.findings]
    reader = _ManifestReader(file, findings)
    for document in stream.documents:
        reader.add_document(document)
    resolved = resolve_namespaces(reader.manifests, namespace)
    return replace(resolved, findings=(*findings, *resolved.findings))


@lru_cache(maxsize=MAX_KEPT_TEXTS)
def parse_body(body: str, namespace: str) -> ParsedManifests:
    """Parse the objects of the argument `yaml_body`, once per text."""
    return parse_manifests("yaml_body", body, namespace)


def read_custom_scopes(manifests: Iterable[Manifest]) -> dict[tuple[str, str], str]:
    """Return the scope of custom kinds by group and kind: Namespaced or Cluster.

    The CustomResourceDefinitions among the objects define them.
    """
    scopes: dict[tuple[str, str], str] = {}
    for definition in select_custom_definitions(manifests):
        spec = get_mapping(definition.body, "spec")
        kind = get_text(get_mapping(spec, "names"), "kind")
        scopes[get_text(spec, "group"), kind] = get_text(spec, "scope")
    return scopes


def select_custom_definitions(manifests: Iterable[Manifest]) -> Iterator[Manifest]:
    """Yield the CustomResourceDefinitions among objects."""
    for manifest in manifests:
        if (manifest.group, manifest.kind) == _CRD:
            yield manifest


def resolve_namespaces(manifests: Sequence[Manifest], namespace: str = "") -> ParsedManifests:
    """Return the objects with their namespaces, and the findings, like `kubectl apply -n`.

    Objects without a namespace get `namespace`, and in another namespace they are an error.
    Cluster-scoped objects have none. CustomResourceDefinitions among the objects give the scope of
    their kinds. A kind of unknown scope counts as namespaced if `namespace` is set.
    """
    scopes = read_custom_scopes(manifests)
    if not scopes and not namespace:
        return ParsedManifests(tuple(manifests), ())
    objects: list[Manifest] = []
    findings: list[Problem] = []
    for manifest in manifests:
        scope = scopes.get((manifest.group, manifest.kind), "")
        if not scope and is_cluster_scoped(manifest.group, manifest.kind):
            scope = _CLUSTER
        own_namespace = get_text(get_mapping(manifest.body, "metadata"), "namespace")
        if scope == _CLUSTER:
            objects.append(remove_namespace(manifest))
        elif not namespace:
            resolved_namespace = own_namespace or (DEFAULT_NAMESPACE if scope else "")
            objects.append(replace(manifest, namespace=resolved_namespace or manifest.namespace))
        elif own_namespace in ("", namespace):
            objects.append(_set_namespace(manifest, namespace))
        else:
            detail = (
                f'{manifest.title}: metadata.namespace is "{own_namespace}", but namespace = '
                f'"{namespace}" is set. Remove one of them.'
            )
            position = manifest.find_position("metadata", "namespace")
            findings.append(build_problem(manifest.file, position, INVALID, detail))
            objects.append(manifest)
    return ParsedManifests(tuple(objects), tuple(findings))


def lacks_namespace(manifest: Manifest) -> bool:
    """Return whether a namespaced object names no namespace, so that it is in default."""
    written = get_mapping(manifest.body, "metadata").get("namespace")
    return manifest.namespace == DEFAULT_NAMESPACE and not written


def _set_namespace(manifest: Manifest, namespace: str) -> Manifest:
    metadata = {**get_mapping(manifest.body, "metadata"), "namespace": namespace}
    return replace(manifest, namespace=namespace, body={**manifest.body, "metadata": metadata})


def remove_namespace(manifest: Manifest) -> Manifest:
    """Return a cluster-scoped object without a namespace; a server drops that."""
    metadata = get_mapping(manifest.body, "metadata")
    if "namespace" not in metadata:
        return replace(manifest, namespace="")
    kept = {name: value for name, value in metadata.items() if name != "namespace"}
    return replace(manifest, namespace="", body={**manifest.body, "metadata": kept})


def build_changed_manifest(body: Mapping[str, Any], original: Manifest) -> Manifest | None:
    """Return the manifest of a body changed by an override, at the original's position.

    The result is None without an identity.
    """
    return build_manifest(body, original.file, original.position)


def build_manifest(
    body: Mapping[str, Any], file: str = "", position: TextPosition = NO_POSITION
) -> Manifest | None:
    """Return the manifest of a body.

    Return None unless the body is exactly one object (or a list of one).
    """
    reader = _ManifestReader(file, findings=[])
    reader.add_document(YamlDocument(dict(body), position))
    return reader.manifests[0] if len(reader.manifests) == 1 else None


def is_envelope(manifest: Manifest) -> bool:
    """Return whether an object is a fleet envelope."""
    return manifest.kind in ENVELOPE_KINDS and is_fleet_group(manifest.group)


def list_envelope_problems(envelope: Manifest) -> Iterator[Problem]:
    """Yield the problems of an envelope by the API's rules.

    At most one is about its version or data; those of unknown fields follow.
    """
    data = get_mapping(envelope.body, "data")
    count = len(data)
    text = ""
    if envelope.version != "v1beta1":
        text = (
            f'apiVersion is "{envelope.group}/{envelope.version}"; a hub serves envelopes as '
            "v1beta1."
        )
    elif not 1 <= count <= MAX_ENVELOPE_OBJECTS:
        text = f"data must be a mapping of 1 to {MAX_ENVELOPE_OBJECTS} objects."
    elif not all(isinstance(item, dict) for item in data.values()):
        text = "data holds the objects themselves as mappings, not their text."
    if text:
        yield build_problem(
            envelope.file, envelope.find_position("data"), INVALID, f"{envelope.title}: {text}"
        )
    for key in envelope.body:
        if key not in _ENVELOPE_KEYS:
            detail = f'{envelope.title}: unknown field "{key}"; write its objects below data.'
            yield build_problem(envelope.file, envelope.find_position(key), INVALID, detail)


def unwrap_envelopes(manifests: Iterable[Manifest]) -> ParsedManifests:
    """Return the objects as applied to members, and findings about envelopes.

    Each envelope is replaced by its content. A ConfigMap envelope of older versions is applied as a
    ConfigMap: KubeFleet ignores its annotation since May 2025.
    """
    objects: list[Manifest] = []
    findings: list[Problem] = []
    for manifest in manifests:
        if is_envelope(manifest):
            reader = _ManifestReader(manifest.file, findings)
            for key, item in get_mapping(manifest.body, "data").items():
                reader.add_document(YamlDocument(item, manifest.find_position("data", key)))
            objects += reader.manifests
            continue
        objects.append(manifest)
        annotations = get_mapping(manifest.body, "metadata", "annotations")
        if (manifest.group, manifest.kind) == (
            "",
            "ConfigMap",
        ) and _ENVELOPE_ANNOTATION in annotations:
            detail = (
                f"{manifest.title} is no longer an envelope: KubeFleet ignores its annotation "
                f"{_ENVELOPE_ANNOTATION}. Members get the ConfigMap, and none of the objects in "
                "it. Write a ResourceEnvelope instead."
            )
            findings.append(
                build_problem(
                    manifest.file, manifest.position, _IGNORED_ENVELOPE, detail, Severity.WARNING
                )
            )
    return ParsedManifests(tuple(objects), tuple(findings))


def is_fleet_group(group: str) -> bool:
    """Return whether an API group belongs to the fleet; networking.fleet.azure.com does not."""
    return group in _FLEET_GROUPS


def is_reserved_namespace(namespace: str) -> bool:
    """Return whether a namespace and its objects are never propagated."""
    return namespace == "default" or namespace.startswith(("kube-", "fleet-"))


def select_manifests(manifests: Iterable[Manifest], group: str, kind: str) -> list[Manifest]:
    """Return the manifests of one kind."""
    return [manifest for manifest in manifests if (manifest.group, manifest.kind) == (group, kind)]


def list_services(manifests: Iterable[Manifest]) -> set[tuple[str, str]]:
    """Return the Services among these manifests, by namespace and name."""
    return {(item.namespace, item.name) for item in select_manifests(manifests, "", "Service")}


def find_selection_exclusion(
    manifest: Manifest, services: Collection[tuple[str, str]] = ()
) -> str | None:
    """Return why a cluster resource placement never selects an object, None if it may.

    `services` are the Services on the hub as pairs of namespace and name.
    """
    namespace = manifest.name if manifest.is_namespace else manifest.namespace
    if is_reserved_namespace(namespace):
        return f"namespace {namespace} is reserved: default, kube-* and fleet-* are never selected"
    return find_kind_exclusion(manifest, services)


def find_kind_exclusion(
    manifest: Manifest, services: Collection[tuple[str, str]] = ()
) -> str | None:
    """Return why no placement selects an object of this kind or name, None if one may.

    The namespace does not matter: a ResourcePlacement may be in a reserved one.
    """
    kind = (manifest.group, manifest.kind)
    if is_fleet_group(manifest.group) and manifest.kind not in ENVELOPE_KINDS:
        return f"{manifest.kind} belongs to the fleet itself"
    if kind in _UNSELECTABLE_KINDS or manifest.group == "metrics.k8s.io":
        return f"objects of kind {manifest.kind} are never selected"
    return _explain_unselectable_object(manifest, services)


def _explain_unselectable_object(
    manifest: Manifest, services: Collection[tuple[str, str]]
) -> str | None:
    """Return why a placement never selects an object created by each cluster itself.

    The result is None for other objects.
    """
    reason = "every cluster creates its own"
    if is_created_by_owner(manifest):
        return f"{manifest.title} is never selected: its owner creates it"
    match manifest.group, manifest.kind:
        case "", "ConfigMap" if manifest.name == "kube-root-ca.crt":
            return f"ConfigMap kube-root-ca.crt is never selected: {reason}"
        case "", "ServiceAccount" if manifest.name == "default":
            return f"ServiceAccount default is never selected: {reason}"
        case "", "Secret" if manifest.body.get("type") == "kubernetes.io/service-account-token":
            return f"service account tokens are never selected: {reason}"
        case "", "Endpoints" if (manifest.namespace, manifest.name) in services:
            return f"the Endpoints of Service {manifest.name} are never selected: {reason}"
        case "discovery.k8s.io", "EndpointSlice" if (
            "endpointslice.kubernetes.io/managed-by" in manifest.labels
        ):
            return f"a managed EndpointSlice is never selected: {reason}"
    return None


def is_created_by_owner(manifest: Manifest) -> bool:
    """Return whether an object is a ReplicaSet or ControllerRevision with an owner.

    Source: KubeFleet ShouldPropagateObj.
    """
    is_revision = manifest.group == "apps" and manifest.kind in ("ReplicaSet", "ControllerRevision")
    return is_revision and bool(get_mapping(manifest.body, "metadata").get("ownerReferences"))


def is_truncated_list(body: object) -> bool:
    """Return whether a list of an API server is a page: more objects remain."""
    metadata = get_mapping(body, "metadata")
    return bool(metadata.get("continue") or metadata.get("remainingItemCount"))


def build_truncation_problem(file: str, position: TextPosition | None) -> Problem:
    """Return the error about a list that is a page."""
    detail = (
        "this list is not complete: more objects remain. List all with `kubectl get "
        "--chunk-size=0`."
    )
    return build_problem(file, position, "truncated-file", detail)


class _ManifestReader:
    def __init__(self, file: str, findings: list[Problem]) -> None:
        self.file = file
        self.findings = findings
        self.manifests: list[Manifest] = []

    def add_document(self, document: YamlDocument, *, is_listed: bool = False) -> None:
        """Parse one document: an object (`is_listed` in a list), or the items of a list."""
        body = document.data
        if not isinstance(body, dict):
            self._report(
                document.position, "a manifest is a mapping with apiVersion, kind and metadata."
            )
            return
        kind = body.get("kind")
        items = body.get("items")
        if isinstance(kind, str) and kind.endswith("List") and isinstance(items, list):
            if is_truncated_list(body):
                position = document.find_position("metadata")
                self.findings.append(build_truncation_problem(self.file, position))
            item_positions = document.position.children.get("items", document.position).children
            for index, item in enumerate(items):
                item_document = YamlDocument(item, item_positions.get(index, document.position))
                self.add_document(item_document, is_listed=True)
            return
        manifest = self._build_manifest(body, document)
        if manifest is not None:
            self.manifests.append(replace(manifest, is_listed=True) if is_listed else manifest)

    def _build_manifest(self, body: dict[str, Any], document: YamlDocument) -> Manifest | None:
        """Return the object of a document.

        The result is None if apiVersion, kind, name or metadata is invalid (reported).
        """
        if not isinstance(body.get("metadata"), dict | None):
            self._report(document.find_position("metadata"), "metadata is a mapping.")
            return None
        metadata = get_mapping(body, "metadata")
        version = body.get("apiVersion")
        kind = body.get("kind")
        name = metadata.get("name")
        missing_keys = [
            key
            for key, value in (("apiVersion", version), ("kind", kind), ("metadata.name", name))
            if not isinstance(value, str) or not value
        ]
        if missing_keys:
            subject = f"this {kind}" if isinstance(kind, str) and kind else "this document"
            text = f"{subject} has no {' and no '.join(missing_keys)} (a text)."
            if "metadata.name" in missing_keys and "generateName" in metadata:
                text += " generateName creates a name in the cluster; set metadata.name instead."
            if kind == "Kustomization":
                text += (
                    " Use the objects that it builds: `kubectl kustomize DIRECTORY > objects.yaml`."
                )
            self._report(document.position, text)
            return None
        # "" is the core group.
        group, _, short_version = str(version).rpartition("/")
        namespace = metadata.get("namespace")
        if not isinstance(namespace, str | None):
            self._report(
                document.find_position("metadata", "namespace"),
                "metadata.namespace is a text; quote it.",
            )
            namespace = str(namespace)
        return Manifest(
            group=group,
            version=short_version,
            kind=str(kind),
            namespace=_resolve_namespace(group, str(kind), namespace),
            name=str(name),
            labels=self._parse_labels(metadata.get("labels"), document),
            body=body,
            line=document.position.line,
            file=self.file,
            position=document.position,
        )

    def _parse_labels(self, labels: Any, document: YamlDocument) -> dict[str, str]:
        """Return the labels as texts; other values are reported and converted."""
        if not isinstance(labels, dict | None):
            self._report(
                document.find_position("metadata", "labels"),
                "metadata.labels is a mapping of texts.",
            )
        texts = {}
        for key, value in get_mapping(labels).items():
            if not isinstance(value, str):
                position = document.find_position("metadata", "labels", key)
                self._report(position, f'the value of label "{key}" is not a text; quote it.')
            texts[key] = format_scalar(value)
        return texts

    def _report(self, position: TextPosition, detail: str) -> None:
        self.findings.append(build_problem(self.file, position, INVALID, detail))


def format_scalar(value: Any) -> str:
    """Format a scalar as text: true, 1.5, "" for null."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def get_integer(fields: Mapping[str, Any], key: str, default: int) -> int:
    """Return the integer under a key; a default for any other value."""
    value = fields.get(key)
    return value if isinstance(value, int) else default


def _resolve_namespace(group: str, kind: str, namespace: str | None) -> str:
    """Return the namespace of an object.

    The result is "" if it is cluster-scoped, as are unknown kinds without a namespace.
    """
    if is_cluster_scoped(group, kind):
        return ""
    return namespace or (DEFAULT_NAMESPACE if _is_built_in_group(group) else "")


def is_cluster_scoped(group: str, kind: str) -> bool:
    """Return whether a kind of Kubernetes or of the fleet is cluster-scoped."""
    return kind in _CLUSTER_SCOPED and (_is_built_in_group(group) or is_fleet_group(group))


def _is_built_in_group(group: str) -> bool:
    """Return whether a group is of Kubernetes itself: "apps", "networking.k8s.io"."""
    return "." not in group or group.endswith(".k8s.io")


_EMPTY: Final[Mapping[str, Any]] = {}
_MAPPING: Final = FieldShape(FieldKind.OBJECT)
_LIST: Final = FieldShape(FieldKind.LIST)
_TEXT: Final = FieldShape(FieldKind.TEXT)
_FLAG: Final = FieldShape(FieldKind.FLAG)


class Fields:
    """Mapping of a manifest at a path.

    Absent parts read as empty; wrong types are reported once.
    """

    def __init__(
        self, manifest: Manifest, findings: list[Problem], data: Mapping[str, Any], *path: str | int
    ) -> None:
        """Read `data`, the mapping at this path of the manifest's body.

        Problems are added to `findings`.
        """
        self.manifest = manifest
        self.findings = findings
        self.data = data
        self.path = path

    def __contains__(self, key: str) -> bool:
        return self.data.get(key) is not None

    def report(
        self,
        key: str,
        detail: str,
        severity: Severity = Severity.ERROR,
        *,
        summary: str = "",
        id: str = INVALID,  # noqa: A002 - as diagnostics call it
    ) -> None:
        """Record a problem of a key with the name of the object; `summary` is its short form."""
        path = (*self.path, key) if key else self.path
        name = ".".join(map(str, path))
        position = self.manifest.find_position(*path)
        text = f"{self.manifest.title}: {name} {detail}"
        short_text = f"{self.manifest.title}: {summary or f'{key} {detail}'.strip()}"
        self.findings.append(
            build_problem(self.manifest.file, position, id, text, severity, short_text)
        )

    def get_mapping(self, key: str) -> Fields:
        """Return the mapping under a key, empty if absent; another value is reported."""
        value = self._get_valid_value(key, _MAPPING)
        return Fields(self.manifest, self.findings, value or _EMPTY, *self.path, key)

    def _get_valid_value(self, key: str, shape: FieldShape) -> Any:
        """Return a value; None if it is absent, or has another shape (then with a finding)."""
        value = self.data.get(key)
        violation = None if value is None else validate_value(value, shape)
        if violation is None:
            return value
        # A scalar with an obvious meaning is converted, with a warning.
        self.report(
            key, violation.detail, Severity.WARNING if violation.intended_text else Severity.ERROR
        )
        return violation.intended_text or None

    def list_mappings(self, key: str) -> Iterator[Fields]:
        """Yield the mappings of a list under a key.

        A single mapping counts as one item; other items are reported.
        """
        value = self.data.get(key)
        if isinstance(value, dict):
            self.report(key, "must be a list; used the mapping as its only item.", Severity.WARNING)
            yield Fields(self.manifest, self.findings, value, *self.path, key)
            return
        for index, item in enumerate(self.get_list(key)):
            if isinstance(item, dict):
                yield Fields(self.manifest, self.findings, item, *self.path, key, index)
            else:
                self.report(key, f"must be a list of mappings (item {index + 1} is not).")

    def get_list(self, key: str) -> list[Any]:
        """Return the items of a list under a key."""
        items: list[Any] | None = self._get_valid_value(key, _LIST)
        return items or []

    def get_texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts.

        Other scalars are converted; mappings and lists are left out. Both give a finding.
        """
        items = self.get_list(key)
        scalars = [item for item in items if not isinstance(item, (dict, list))]
        if len(scalars) < len(items):
            self.report(key, "must be a list of texts.")
        elif not all(isinstance(item, str) for item in scalars):
            self.report(key, "must be a list of texts; quote its items.", Severity.WARNING)
        return tuple(map(format_scalar, scalars))

    def get_text(self, key: str, default: str = "") -> str:
        """Return a text; other scalars are converted."""
        value: str | None = self._get_valid_value(key, _TEXT)
        return default if value is None else value

    def get_integer(self, key: str, default: int, minimum: int = 0) -> int:
        """Return an int32 of at least `minimum`; the default for an absent or wrong value."""
        if key not in self:
            return default
        value: int | None = self._get_valid_value(
            key, FieldShape(FieldKind.WHOLE, minimum=minimum, maximum=MAX_INT32)
        )
        return default if value is None else value

    def get_flag(self, key: str) -> bool:
        """Return a boolean; absent is false."""
        return self._get_valid_value(key, _FLAG) is True

    def get_choice(self, key: str, choices: tuple[str, ...], default: str) -> str:
        """Return one of the choices; the default for an absent or wrong value."""
        value = self.get_text(key, default)
        violation = (
            None
            if value in choices
            else validate_value(value, FieldShape(FieldKind.TEXT, choices=choices))
        )
        if violation is not None:
            self.report(key, violation.detail)
            return default
        return value

    def get_text_mapping(self, key: str) -> dict[str, str]:
        """Return a mapping of texts, such as labels."""
        fields = self.get_mapping(key)
        return {name: fields.get_text(name) for name in fields.data}


def read_silently(manifest: Manifest, key: str) -> Fields:
    """Return a part of an object read as context: its own problems are reported elsewhere."""
    return Fields(manifest, [], manifest.body).get_mapping(key)


def format_canonical_json(value: Any) -> bytes:
    """Return a document as canonical JSON, independent of its formatting."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")
