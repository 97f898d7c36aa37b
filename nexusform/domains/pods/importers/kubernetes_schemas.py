"""Validation of objects of Kubernetes' own kinds against their schemas, like `kubectl apply`.

Reports unknown keys and values of the wrong type. Custom resources have unknown schemas
and are accepted.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from importlib import resources
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity, find_nearest_name, suggest_name
from nexusform.diagnostics.phrases import join_texts
from nexusform.documents.field_lists import FieldList
from nexusform.documents.field_validation import FieldKind, FieldShape, validate_value
from nexusform.documents.object_schemas import (
    CONTAINERS,
    FIELD_NOT_IN_VERSION,
    SCALARS,
    LocatedDoubt,
    ObjectSchema,
    parse_field_table,
)
from nexusform.documents.yaml_documents import Node, YamlDocument, build_problem
from nexusform.domains.pods.importers.kubernetes_cross_field_checks import (
    CHECKS,
    list_metadata_problems,
)
from nexusform.domains.pods.importers.manifest_parser import (
    INVALID,
    Manifest,
    is_envelope,
    unwrap_envelopes,
)
from nexusform.domains.pods.scheduling.scheduler_versions import parse_version
from nexusform.doubts.doubt import Doubt
from nexusform.kubernetes.matching import (
    validate_dns_label,
    validate_dns_subdomain,
    validate_qualified_name,
)
from nexusform.kubernetes.quantity import MAX_INT32, MAX_INT64, read_quantity

_MAX_LISTED_FIELDS: Final = 12
_UNLESS: Final = "An API server rejects it, unless a webhook of the hub sets it."
_NO_RULE: Final = FieldShape(FieldKind.ANY)


class _KubernetesSchemas(Struct, frozen=True):
    # Shape of each kind, and the field types of each type as in assets/kubernetes_fields.txt.
    kinds: Mapping[str, FieldShape]
    types: Mapping[str, Mapping[str, str]]


@cache
def _load_schemas() -> _KubernetesSchemas:
    """Read assets/kubernetes_fields.txt."""
    file = resources.files("nexusform.domains.pods.importers").joinpath(
        "assets", "kubernetes_fields.txt"
    )
    table = parse_field_table(file.read_text(encoding="utf-8"))
    kinds = {
        kind: FieldShape(FieldKind.OBJECT, type=type_name)
        for kind, type_name in table.kinds.items()
    }
    return _KubernetesSchemas(kinds, table.types)


@cache
def _load_versions() -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """Read assets/kubernetes_field_versions.txt: the minor versions with a kind or field."""
    file = resources.files("nexusform.domains.pods.importers").joinpath(
        "assets", "kubernetes_field_versions.txt"
    )
    rows = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        name, separator, versions = line.partition(": ")
        if separator:
            rows[name] = tuple(map(parse_version, versions.split()))
    return rows


def _explain_absence(version: tuple[int, ...], type_name: str, field: str = "") -> str:
    """Return why a version of Kubernetes lacks a field of a type, or a kind; "" if it has it.

    A kind is `apps/v1 Deployment`. An unknown version () lacks nothing. One beyond the table counts
    as the nearest in it.
    """
    name = f"{type_name}.{field}" if field else type_name
    versions = _load_versions().get(name)
    if versions is None or not version:
        return ""
    known = _load_versions()["versions"]
    if min(max(version, known[0]), known[-1]) in versions:
        return ""
    return f"Kubernetes {'.'.join(map(str, version))} does not have it"


def list_unread_parts(
    body: Mapping[str, Any],
    version: tuple[int, ...],
    get_list: Callable[[str], FieldList | None] = lambda _: None,
    *,
    is_stored: bool = False,
) -> Iterator[LocatedDoubt]:
    """List the parts of an object that a version of Kubernetes lacks, and those without a reader.

    `get_list` returns the closed list of a type. Without one, its further fields are not listed.
    Metadata and status belong to servers: their names are not checked. An object that an API server
    stored (`is_stored`) has all required fields.
    """
    api_version = str(body.get("apiVersion") or "v1")
    kind = f"{api_version} {body['kind']}"
    absence = _explain_absence(version, kind)
    if absence:
        field = f"apiVersion {api_version}"
        yield ("apiVersion",), Doubt("", field=field, reason=absence, finding=FIELD_NOT_IN_VERSION)
        return
    fields = {name: part for name, part in body.items() if name not in ("metadata", "status")}
    schema = ObjectSchema(
        get_type_fields, get_list, partial(_explain_absence, version), explain_unknown_value
    )
    if is_stored:
        schema = replace(schema, get_required_fields=_list_required_fields)
    yield from schema.list_unread_parts(fields, _load_schemas().kinds[kind].type)


@cache
def _list_required_fields(type_name: str) -> tuple[str, ...]:
    """Return the fields that each object of a type has.

    The schema of the API calls the image of a container optional, although pods need one.
    """
    rules = parse_field_rules().get(type_name, {})
    return tuple(name for name, rule in rules.items() if rule.is_required and name != "image")


def explain_unknown_value(type_name: str, field: str, kind: str, value: Any) -> str:
    """Return why a value of a field is unknown: a word of a newer version, or no quantity.

    The result is "" for a known value.
    """
    if kind == "q" and value != "":
        return check_quantity(value)
    choices = parse_field_rules().get(type_name, {}).get(field, _NO_RULE).choices
    return "" if not choices or value in (*choices, "") else f"its value {value} is unknown"


def list_kind_names() -> list[tuple[str, str]]:
    """Return the API versions and names of the known kinds: `("apps/v1", "Deployment")`."""
    names = []
    for title in _load_schemas().kinds:
        version, _, kind = title.partition(" ")
        names.append((version, kind))
    return names


def find_kind_type(version: str, kind: str) -> str | None:
    """Find the name of the type of a kind, None for an unknown kind or version."""
    shape = _load_schemas().kinds.get(f"{version} {kind}")
    return None if shape is None else shape.type


def get_type_fields(type_name: str) -> Mapping[str, str]:
    """Return the fields of a type with their kinds, as in assets/kubernetes_fields.txt."""
    return _load_schemas().types.get(type_name, {})


@cache
def _get_fields(type_name: str) -> Mapping[str, FieldShape]:
    """Return the shape of each field of a type, with the rule of the field."""
    rules = parse_field_rules().get(type_name, {})
    fields = _load_schemas().types[type_name]
    return {
        name: _build_shape(type_text, rules.get(name, _NO_RULE))
        for name, type_text in fields.items()
    }


def _build_shape(type_text: str, rule: FieldShape) -> FieldShape:
    """Return the shape of a type text.

    `[X` is a list of X, `{X` a mapping to X, one letter a scalar. Any other text is the name of a
    type. `rule` limits the value, or each item of a list or mapping. Named types ignore it.
    """
    prefix = type_text[0]
    if prefix in CONTAINERS:
        return FieldShape(CONTAINERS[prefix], items=_build_shape(type_text[1:], rule))
    if type_text not in SCALARS:
        return FieldShape(FieldKind.OBJECT, type=type_text)
    # The letter q is a quantity; without a form rule any one is valid.
    if type_text == "q" and rule.check_form is None:
        return FieldShape(FieldKind.QUANTITY, check_form=check_quantity)
    return replace(rule, kind=SCALARS[type_text])


def list_schema_problems(manifest: Manifest) -> Iterator[Problem]:
    """Yield the problems of an object by the rules of the API.

    Problems of an envelope's content are warnings.
    """
    if is_envelope(manifest):
        for content in unwrap_envelopes([manifest]).manifests:
            for problem in _list_known_kind_problems(content):
                text = (
                    f"{problem.detail} The hub accepts it unchanged; the member cluster drops or "
                    "rejects it."
                )
                yield build_problem(
                    manifest.file, content.position, INVALID, text, Severity.WARNING
                )
        return
    yield from _list_known_kind_problems(manifest)


def _list_known_kind_problems(manifest: Manifest) -> Iterator[Problem]:
    """Yield the problems of a manifest by the schema of its kind.

    There are none for a kind without a known schema.
    """
    version = f"{manifest.group}/{manifest.version}" if manifest.group else manifest.version
    shape = _load_schemas().kinds.get(f"{version} {manifest.kind}")
    if shape is None:
        return
    reader = _SchemaValidator(manifest)
    root = Node.create_document_node(YamlDocument(manifest.body, manifest.position))
    yield from reader.check_value(root, shape, path="")
    yield from reader.check_metadata(root.get_node("metadata"))


class _SchemaValidator:
    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        # Number of unknown keys so far.
        self._unknown_key_count = 0

    def check_value(self, node: Node, shape: FieldShape, path: str) -> Iterator[Problem]:
        """Yield the problems of a value by its shape; null (absent) is always valid.

        `path` names it in messages.
        """
        data = node.data
        if data is None or shape.kind is FieldKind.ANY:
            return
        is_scalar = shape.items is None and not shape.type
        if is_scalar:
            yield from self._check_scalar(node, shape, path)
        elif not shape.kind.is_valid(data):
            # No mapping or list.
            yield self._build_problem(node, f"{path} must be {shape.kind.value}.")
        elif shape.type:
            # An object with fields of its own.
            count_before = self._unknown_key_count
            yield from self._check_fields(node, shape.type, path)
            check = CHECKS.get(shape.type)
            # Skip the check between fields if keys below are unknown: it would report their right
            # names as missing.
            if check is not None and self._unknown_key_count == count_before:
                for part, path_end, detail in check(node):
                    build_problem = (
                        self._build_missing_field_warning if part.is_absent else self._build_problem
                    )
                    yield build_problem(part, f"{path}{path_end} {detail}")
        else:
            # A list, or a mapping with any keys.
            yield from self._check_items(node, shape, path)

    def _check_items(self, node: Node, shape: FieldShape, path: str) -> Iterator[Problem]:
        """Check the items of a list, or the values of a mapping with any keys (such as labels)."""
        assert shape.items is not None
        if shape.kind is FieldKind.LIST:
            for number, item in enumerate(node.list_items()):
                # `check_value` accepts null as absent, but an item must be one of the allowed
                # words, if there are some.
                is_missing_word = item.data is None and bool(shape.items.choices)
                check = self._check_scalar if is_missing_word else self.check_value
                yield from check(item, shape.items, f"{path}[{number}]")
        for key, item_node in node.list_fields():
            yield from self.check_value(item_node, shape.items, f"{path}.{key}")

    def check_metadata(self, metadata: Node) -> Iterator[Problem]:
        """Check the name, namespace and labels of the object."""
        kind = self._manifest.kind
        name = self._manifest.name
        problem_text = check_name(kind, name)
        if problem_text:
            yield self._build_problem(
                metadata.get_node("name"), f'metadata.name is "{name}": {problem_text}.'
            )
        namespace = self._manifest.namespace
        for problem in validate_dns_label(namespace) if namespace else ():
            detail = f'metadata.namespace is "{namespace}": {problem}.'
            yield self._build_problem(metadata.get_node("namespace"), detail)
        for node, _, detail in list_metadata_problems(metadata):
            yield self._build_problem(node, detail)

    def _check_fields(self, node: Node, type_name: str, path: str) -> Iterator[Problem]:
        """Yield a problem for each unknown, wrong and missing field.

        An empty value counts as missing.
        """
        fields = _get_fields(type_name)
        # Keys that are not reported as missing.
        set_keys: set[str] = set()
        for key, field_node in node.list_fields():
            inner_path = join_texts((path, key), ".")
            if key not in fields:
                known_text = (
                    f" Known here: {', '.join(fields)}."
                    if len(fields) <= _MAX_LISTED_FIELDS
                    else ""
                )
                hint = suggest_name(key, fields) or known_text
                # A misspelt key counts as set, so it is not also reported as missing.
                set_keys.add(find_nearest_name(key, fields) or "")
                self._unknown_key_count += 1
                yield self._build_problem(field_node, f'unknown field "{inner_path}".{hint}')
                continue
            problems = [*self.check_value(field_node, fields[key], inner_path)]
            yield from problems
            if problems or field_node.data not in (None, "", [], {}):
                set_keys.add(key)
        for key, rule in parse_field_rules().get(type_name, {}).items():
            if rule.is_required and key not in set_keys:
                detail = f"{join_texts((path, key), '.')} is missing."
                yield self._build_missing_field_warning(node.get_node(key), detail)

    def _check_scalar(self, node: Node, shape: FieldShape, path: str) -> Iterator[Problem]:
        """Yield the problem of a value other than a mapping or list.

        "" is accepted as a text or an amount.
        """
        data = node.data
        if data == "" and shape.kind in (FieldKind.TEXT, FieldKind.AMOUNT):
            return
        violation = validate_value(data, shape, node.position.source_text)
        # Its values must not be shown.
        is_secret = self._manifest.kind == "Secret"
        if violation is not None:
            detail = f"must be {shape.kind.value}." if is_secret else violation.detail
            yield self._build_problem(node, f"{path} {detail}")

    def _build_problem(self, node: Node, detail: str) -> Problem:
        return build_problem(
            self._manifest.file, node.position, INVALID, f"{self._manifest.title}: {detail}"
        )

    def _build_missing_field_warning(self, node: Node, detail: str) -> Problem:
        # A missing field may be set on the hub by a mutating webhook.
        return replace(self._build_problem(node, f"{detail} {_UNLESS}"), severity=Severity.WARNING)


# Validation rules of the API server for single fields. A line is a type of
# assets/kubernetes_fields.txt and its fields: `!` required (no empty text, list or mapping), `=A|B`
# allowed values, `1..9` bounds (32 bits without an upper one, `..L` 64 bits), `:form` the form of
# its value, or of each item, by FORMS. Contains only rules of every API server. Source: the
# validation of Kubernetes' API (pkg/apis/*/validation), 1.37.
_RULES: Final = """\
apps_v1.DaemonSet spec!
apps_v1.DaemonSetSpec selector! template! minReadySeconds0.. revisionHistoryLimit0..
apps_v1.DaemonSetUpdateStrategy type=RollingUpdate|OnDelete
apps_v1.Deployment spec!
apps_v1.DeploymentSpec selector! template! replicas0.. minReadySeconds0.. revisionHistoryLimit0..
    progressDeadlineSeconds0..
apps_v1.DeploymentStrategy type=Recreate|RollingUpdate
apps_v1.ReplicaSet spec!
apps_v1.ReplicaSetSpec selector! template! replicas0.. minReadySeconds0..
apps_v1.RollingUpdateDaemonSet maxSurge:share maxUnavailable:share
apps_v1.RollingUpdateDeployment maxSurge:share maxUnavailable:share
apps_v1.RollingUpdateStatefulSetStrategy partition0.. maxUnavailable:share
apps_v1.StatefulSet spec!
apps_v1.StatefulSetOrdinals start0..
apps_v1.StatefulSetPersistentVolumeClaimRetentionPolicy whenDeleted=Retain|Delete whenScaled=Retain|Delete
apps_v1.StatefulSetSpec selector! template! replicas0.. minReadySeconds0..
    podManagementPolicy=OrderedReady|Parallel
apps_v1.StatefulSetUpdateStrategy type=RollingUpdate|OnDelete
batch_v1.CronJob spec!
batch_v1.CronJobSpec schedule!:cron jobTemplate! concurrencyPolicy=Allow|Forbid|Replace
    startingDeadlineSeconds0..L successfulJobsHistoryLimit0.. failedJobsHistoryLimit0..
batch_v1.Job spec!
batch_v1.JobSpec template! parallelism0.. completions0.. activeDeadlineSeconds0..L backoffLimit0..
    backoffLimitPerIndex0.. maxFailedIndexes0.. ttlSecondsAfterFinished0.. completionMode=NonIndexed|Indexed
    podReplacementPolicy=TerminatingOrFailed|Failed
batch_v1.PodFailurePolicyRule action!=FailJob|FailIndex|Ignore|Count
core_v1.CSIPersistentVolumeSource driver! volumeHandle!
core_v1.CSIVolumeSource driver!
core_v1.ConfigMapEnvSource name!
core_v1.ConfigMapKeySelector key!:datakey
core_v1.ConfigMapVolumeSource name! defaultMode0..511
core_v1.Container name!:label image! imagePullPolicy=Always|IfNotPresent|Never
    restartPolicy=Always|OnFailure|Never terminationMessagePolicy=File|FallbackToLogsOnError
core_v1.ContainerPort containerPort!1..65535 hostPort0..65535 protocol=TCP|UDP|SCTP name:port
core_v1.DownwardAPIVolumeFile path! mode0..511
core_v1.EnvVar name!
core_v1.EphemeralVolumeSource volumeClaimTemplate!
core_v1.ExecAction command!
core_v1.GRPCAction port!1..65535
core_v1.HTTPGetAction port!:target scheme=HTTP|HTTPS
core_v1.HTTPHeader name!
core_v1.HostPathVolumeSource path!
    type=DirectoryOrCreate|Directory|FileOrCreate|File|Socket|CharDevice|BlockDevice
core_v1.KeyToPath key!:datakey path! mode0..511
core_v1.LimitRangeItem type!
core_v1.LocalVolumeSource path!
core_v1.NFSVolumeSource server! path!
core_v1.NodeSelector nodeSelectorTerms!
core_v1.NodeSelectorRequirement key!:key operator!=In|NotIn|Exists|DoesNotExist|Gt|Lt
core_v1.ObjectFieldSelector fieldPath!
core_v1.PersistentVolume spec!
core_v1.PersistentVolumeClaim spec!
core_v1.PersistentVolumeClaimSpec accessModes!=ReadWriteOnce|ReadOnlyMany|ReadWriteMany|ReadWriteOncePod
    resources! volumeMode=Block|Filesystem storageClassName:subdomain
core_v1.PersistentVolumeClaimVolumeSource claimName!
core_v1.PersistentVolumeSpec accessModes!=ReadWriteOnce|ReadOnlyMany|ReadWriteMany|ReadWriteOncePod
    capacity! persistentVolumeReclaimPolicy=Delete|Recycle|Retain volumeMode=Block|Filesystem
    storageClassName:subdomain
core_v1.Pod spec!
core_v1.PodAffinityTerm topologyKey!:key
core_v1.PodReadinessGate conditionType!:key
core_v1.PodSchedulingGate name!:key
core_v1.PodSpec containers! restartPolicy=Always|OnFailure|Never
    dnsPolicy=ClusterFirst|ClusterFirstWithHostNet|Default|None preemptionPolicy=Never|PreemptLowerPriority
    terminationGracePeriodSeconds0..L activeDeadlineSeconds1..2147483647 serviceAccountName:subdomain
    hostname:label subdomain:label nodeName:subdomain
core_v1.PodTemplateSpec spec!
core_v1.PreferredSchedulingTerm weight!1..100 preference!
core_v1.Probe initialDelaySeconds0.. timeoutSeconds0.. periodSeconds0.. successThreshold0..
    failureThreshold0.. terminationGracePeriodSeconds1..L
core_v1.ReplicationController spec!
core_v1.ReplicationControllerSpec template! replicas0.. minReadySeconds0..
core_v1.ResourceFieldSelector resource!
core_v1.ResourceQuotaSpec hard:amount
    scopes=Terminating|NotTerminating|BestEffort|NotBestEffort|PriorityClass|CrossNamespacePodAffinity|VolumeAttributesClass
core_v1.ResourceRequirements limits:amount requests:amount
core_v1.SecretEnvSource name!
core_v1.SecretKeySelector key!:datakey
core_v1.SecretVolumeSource secretName! defaultMode0..511
core_v1.TCPSocketAction port!:target
core_v1.Taint key!:key effect!=NoSchedule|PreferNoSchedule|NoExecute
core_v1.Toleration operator=Exists|Equal|Lt|Gt effect=NoSchedule|PreferNoSchedule|NoExecute key:key
core_v1.TopologySpreadConstraint maxSkew!1.. topologyKey!:key
    whenUnsatisfiable!=DoNotSchedule|ScheduleAnyway minDomains1.. nodeAffinityPolicy=Honor|Ignore
    nodeTaintsPolicy=Honor|Ignore
core_v1.Volume name!:label
core_v1.VolumeDevice name! devicePath!
core_v1.VolumeMount name! mountPath! mountPropagation=None|HostToContainer|Bidirectional
    recursiveReadOnly=Disabled|IfPossible|Enabled
core_v1.VolumeResourceRequirements requests!:amount limits:amount
core_v1.WeightedPodAffinityTerm weight!1..100 podAffinityTerm!
meta_v1.LabelSelectorRequirement key!:key operator!=In|NotIn|Exists|DoesNotExist
node_v1.RuntimeClass handler!:label
policy_v1.PodDisruptionBudgetSpec minAvailable:share maxUnavailable:share
    unhealthyPodEvictionPolicy=IfHealthyBudget|AlwaysAllow
scheduling_v1.PriorityClass preemptionPolicy=Never|PreemptLowerPriority
storage_v1.StorageClass provisioner! reclaimPolicy=Delete|Retain
    volumeBindingMode=Immediate|WaitForFirstConsumer
"""  # noqa: E501 - a row is a line
_FIELD: Final = re.compile(
    r"(?P<name>[A-Za-z]+)(?P<required>!?)(?:=(?P<choices>[^:]+))?"
    r"(?:(?P<least>[0-9]+)\.\.(?P<most>[0-9]*|L))?(?::(?P<form>\w+))?\Z"
)


# Upper bounds without a number.
_NAMED_MAXIMUMS: Final = {"": MAX_INT32, "L": MAX_INT64}


@cache
def parse_field_rules() -> Mapping[str, Mapping[str, FieldShape]]:
    """Return the rules in `_RULES` by type and field.

    Their kind is ANY: the schemas have the types of values.
    """
    table: dict[str, dict[str, FieldShape]] = {}
    # Continued lines are indented.
    for line in _RULES.replace("\n    ", " ").splitlines():
        name, *fields = line.split(" ")
        table[name] = dict(map(_parse_field_rule, fields))
    return table


def _parse_field_rule(text: str) -> tuple[str, FieldShape]:
    """Return the name of a field and its rule, such as `replicas0..`.

    _RULES explains the notation.
    """
    parts = _FIELD.match(text)
    assert parts is not None, text
    minimum: int | None = None
    maximum: int | None = None
    if parts["least"] is not None:
        minimum = int(parts["least"])
        maximum_text = parts["most"]
        maximum = (
            _NAMED_MAXIMUMS[maximum_text] if maximum_text in _NAMED_MAXIMUMS else int(maximum_text)
        )
    return parts["name"], FieldShape(
        FieldKind.ANY,
        is_required=bool(parts["required"]),
        choices=tuple(parts["choices"].split("|")) if parts["choices"] else (),
        minimum=minimum,
        maximum=maximum,
        check_form=FORMS[parts["form"]] if parts["form"] else None,
    )


_DATA_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}\Z")
_PORT_NAME: Final = re.compile(r"(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?\Z")
_PERCENT: Final = re.compile(r"[0-9]+%\Z")
_CRON_MACROS: Final = (
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
)
_LARGEST_PORT: Final = 65535
_CRON_FIELDS: Final = 5


def _check_port_name(value: Any) -> str:
    """Return the rule broken by a port name, as a clause; "" if it is valid."""
    if isinstance(value, str) and _PORT_NAME.match(value):
        return ""
    return (
        "a port's name has at most 15 lower-case letters, digits and single dashes, and a letter "
        "among them"
    )


def _check_target_port(value: Any) -> str:
    """Return the rule broken by a port number or name, as a clause; "" if it is valid."""
    if not isinstance(value, int):
        return _check_port_name(value)
    return "" if 1 <= value <= _LARGEST_PORT else f"a port is a number from 1 to {_LARGEST_PORT}"


def _check_pod_count_or_percentage(value: Any) -> str:
    """Return the rule broken by a number of pods such as 2 or "25%", as a clause.

    The result is "" if it is valid.
    """
    if isinstance(value, str):
        return (
            "" if _PERCENT.match(value) else "it is a number of pods, or a percentage such as 25%"
        )
    return "" if 0 <= value <= MAX_INT32 else f"it is a number from 0 to {MAX_INT32}"


def check_quantity(value: Any) -> str:
    """Return why a value is no quantity, as a clause; "" if it is one."""
    return f"it must be {FieldKind.QUANTITY.value}" if read_quantity(value) is None else ""


def _check_resource_amount(value: Any) -> str:
    """Return the rule broken by an amount such as "500m", as a clause; "" if it is valid."""
    quantity = read_quantity(value)
    if quantity is None:
        return check_quantity(value)
    return "" if quantity.nano >= 0 else "an amount must not be below 0"


def _check_cron_schedule(value: Any) -> str:
    """Return the rule broken by the schedule of a CronJob, as a clause; "" if it is valid."""
    text = str(value)
    if text.startswith("@every ") or text in _CRON_MACROS:
        return ""
    if "TZ" in text:
        return "a time zone belongs in timeZone"
    return (
        "" if len(text.split()) == _CRON_FIELDS else "a schedule has five fields, such as 0 3 * * *"
    )


# Checks by name: each returns why a value is invalid, "" if it is valid.
FORMS: Final[Mapping[str, Callable[[Any], str]]] = {
    "label": lambda value: next(iter(validate_dns_label(value)), ""),
    "subdomain": lambda value: next(iter(validate_dns_subdomain(value)), ""),
    "key": lambda value: next(iter(validate_qualified_name(value)), ""),
    "port": _check_port_name,
    "target": _check_target_port,
    "share": _check_pod_count_or_percentage,
    "amount": _check_resource_amount,
    "cron": _check_cron_schedule,
    "datakey": lambda value: (
        ""
        if _DATA_KEY.match(value) and value not in (".", "..")
        else "a key has letters, digits, - _ or ."
    ),
}
# Name checks of kinds without DNS subdomains as names; "" permits any name.
_NAMES: Final[Mapping[str, str]] = {
    "Namespace": "label",
    "Service": "label",
    "Role": "segment",
    "RoleBinding": "segment",
    "ClusterRole": "segment",
    "ClusterRoleBinding": "segment",
    "IPAddress": "",
    "ClusterTrustBundle": "",
    "CertificateSigningRequest": "",
    "Event": "",
}
_MAX_CRON_JOB_NAME: Final = 52


def check_name(kind: str, name: str) -> str:
    """Return why an object of this kind cannot have the name, as a clause; "" if it can."""
    form = _NAMES.get(kind, "subdomain")
    # The form of a segment of a URL path.
    if form == "segment":
        return (
            'a name has no "/" or "%", and is not . or ..'
            if re.search(r"[/%]|^\.\.?$", name)
            else ""
        )
    if kind == "CronJob" and len(name) > _MAX_CRON_JOB_NAME:
        return f"must be no more than {_MAX_CRON_JOB_NAME} characters"
    # "": any name is allowed.
    return FORMS[form](name) if form else ""
