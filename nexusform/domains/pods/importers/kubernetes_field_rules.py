"""Validation rules of the API server for single fields of pods and workloads: a table. A line is a type of
assets/kubernetes_fields.txt and its fields: `!` required (no empty text, list or mapping), `=A|B` allowed values,
`1..9` bounds (32 bits without an upper one, `..L` 64 bits), `:form` the form of its value, or of each item,
by FORMS. Contains only rules of every API server. Source: the validation of Kubernetes' API
(pkg/apis/*/validation), 1.37.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from nexusform.documents.field_validation import FieldKind, FieldShape
from nexusform.kubernetes.matching import validate_dns_label, validate_dns_subdomain, validate_qualified_name
from nexusform.kubernetes.quantity import MAX_INT32, MAX_INT64, InvalidQuantity, parse_quantity

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
"""
_FIELD: Final = re.compile(
    r"(?P<name>[A-Za-z]+)(?P<required>!?)(?:=(?P<choices>[^:]+))?"
    r"(?:(?P<least>[0-9]+)\.\.(?P<most>[0-9]*|L))?(?::(?P<form>\w+))?\Z"
)


@cache
def parse_field_rules() -> Mapping[str, Mapping[str, FieldShape]]:
    """Return the rules by type and field, without the value types."""
    table: dict[str, dict[str, FieldShape]] = {}
    for line in _RULES.replace("\n    ", " ").splitlines():
        name, *fields = line.split(" ")
        table[name] = dict(map(_parse_field_rule, fields))
    return table


def _parse_field_rule(text: str) -> tuple[str, FieldShape]:
    parts = _FIELD.match(text)
    assert parts is not None, text
    minimum, maximum = parts["least"], parts["most"]
    upper = None
    if minimum is not None:
        upper = MAX_INT64 if maximum == "L" else int(maximum) if maximum else MAX_INT32
    return parts["name"], FieldShape(
        FieldKind.ANY,
        is_required=bool(parts["required"]),
        choices=tuple(parts["choices"].split("|")) if parts["choices"] else (),
        minimum=int(minimum) if minimum else None,
        maximum=upper,
        check_form=FORMS[parts["form"]] if parts["form"] else None,
    )


_DATA_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}\Z")
_PORT_NAME: Final = re.compile(r"(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?\Z")
_PERCENT: Final = re.compile(r"[0-9]+%\Z")
_CRON_MACROS: Final = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_LARGEST_PORT: Final = 65535
_CRON_FIELDS: Final = 5


def _get_first_problem(problems: tuple[str, ...]) -> str:
    return problems[0] if problems else ""


def _check_port_name(value: Any) -> str:
    if isinstance(value, str) and _PORT_NAME.match(value):
        return ""
    return "a port's name has at most 15 lower-case letters, digits and single dashes, and a letter among them"


def _check_target_port(value: Any) -> str:
    if not isinstance(value, int):
        return _check_port_name(value)
    return "" if 1 <= value <= _LARGEST_PORT else f"a port is a number from 1 to {_LARGEST_PORT}"


def _check_pod_count_or_percentage(value: Any) -> str:
    if isinstance(value, str):
        return "" if _PERCENT.match(value) else "it is a number of pods, or a percentage such as 25%"
    return "" if 0 <= value <= MAX_INT32 else f"it is a number from 0 to {MAX_INT32}"


def check_quantity(value: Any) -> str:
    """Return why a value is no quantity, as a clause; "" if it is one."""
    is_quantity = not isinstance(parse_quantity(str(value)), InvalidQuantity)
    return "" if is_quantity else f"it must be {FieldKind.QUANTITY.value}"


def _check_resource_amount(value: Any) -> str:
    quantity = parse_quantity(str(value))
    if isinstance(quantity, InvalidQuantity):
        return check_quantity(value)
    return "" if quantity.nano >= 0 else "an amount must not be below 0"


def _check_cron_schedule(value: Any) -> str:
    text = str(value)
    if text.startswith("@every ") or text in _CRON_MACROS:
        return ""
    if "TZ" in text:
        return "a time zone belongs in timeZone"
    return "" if len(text.split()) == _CRON_FIELDS else "a schedule has five fields, such as 0 3 * * *"


# Checks by name: each returns why a value is invalid, "" if it is valid.
FORMS: Final[Mapping[str, Callable[[Any], str]]] = {
    "label": lambda value: _get_first_problem(validate_dns_label(value)),
    "subdomain": lambda value: _get_first_problem(validate_dns_subdomain(value)),
    "key": lambda value: _get_first_problem(validate_qualified_name(value)),
    "port": _check_port_name,
    "target": _check_target_port,
    "share": _check_pod_count_or_percentage,
    "amount": _check_resource_amount,
    "cron": _check_cron_schedule,
    "datakey": lambda value: (
        "" if _DATA_KEY.match(value) and value not in (".", "..") else "a key has letters, digits, - _ or ."
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
    if form == "segment":
        return 'a name has no "/" or "%", and is not . or ..' if re.search(r"[/%]|^\.\.?$", name) else ""
    if kind == "CronJob" and len(name) > _MAX_CRON_JOB_NAME:
        return f"must be no more than {_MAX_CRON_JOB_NAME} characters"
    return FORMS[form](name) if form else ""
