"""What ends with an object of a cluster, by its Kubernetes kind: severity, and fate of its data.

Source of the fates: Kubernetes, persistent volumes (the reclaim policy of dynamic provisioning is
Delete by default) and StatefulSets (their persistentVolumeClaimRetentionPolicy is Retain by
default).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, TypeAlias

from msgspec import Struct

from nexusform.diagnostics.phrases import enclose, format_list
from nexusform.domains.pods.importers.kubernetes_volumes import is_local_volume
from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.domains.pods.scheduling.cluster_records import HOSTNAME, Workload
from nexusform.json_data.plain_data import get_list, get_mapping, get_text, list_mappings
from nexusform.kubernetes.matching import IN
from nexusform.kubernetes.quantity import (
    IntegerOrPercent,
    Quantity,
    find_weaker_amount,
    parse_int_or_percent,
    read_quantity,
)
from nexusform.placements.consequences import ConsequenceSeverity, DataFate, Outcome, combine_fates

_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_DELETE: Final = "Delete"
_RETAIN: Final = "Retain"
_MIN_AVAILABLE: Final = "minAvailable"
_BUDGET_AMOUNTS: Final = (_MIN_AVAILABLE, "maxUnavailable")
# Weaker limits in a text.
_MAX_LIMITS: Final = 3


class EndCondition(StrEnum):
    """When the end of an object is a lasting loss.

    `pods`: while it runs pods. `need`: while remaining pods of the cluster need it.
    """

    ALWAYS = "always"
    PODS = "pods"
    NEED = "need"


class DataOwner(StrEnum):
    """Where an object has its data: it is a claim or a volume, or has templates of claims."""

    CLAIM = "claim"
    VOLUME = "volume"
    CLAIM_TEMPLATES = "claim templates"
    DATA_VOLUME_TEMPLATES = "data volume templates"


class Limit(Struct, frozen=True):
    """Amount that an object sets for pods: a maximum, or a minimum."""

    amount: IntegerOrPercent | Quantity
    is_minimum: bool = False


Limits: TypeAlias = Mapping[str, Limit]


def _list_no_limits(_manifest: Manifest) -> Limits:
    return {}


def _list_budget_limits(budget: Manifest) -> Limits:
    amounts = {
        name: parse_int_or_percent(get_mapping(budget.body, "spec")[name])
        for name in _BUDGET_AMOUNTS
        if get_mapping(budget.body, "spec").get(name) is not None
    }
    return {
        name: Limit(amount, is_minimum=name == _MIN_AVAILABLE)
        for name, amount in amounts.items()
        if isinstance(amount, IntegerOrPercent)
    }


def _list_quota_limits(quota: Manifest) -> Limits:
    return _read_limits("", get_mapping(quota.body, "spec", "hard"))


def _list_range_limits(limit_range: Manifest) -> Limits:
    limits: dict[str, Limit] = {}
    for item in list_mappings(limit_range.body, "spec", "limits"):
        kind = get_text(item, "type")
        for bound in ("max", "min", "maxLimitRequestRatio"):
            limits |= _read_limits(
                f"{kind} {bound} ", get_mapping(item, bound), is_minimum=bound == "min"
            )
    return limits


def _list_priority(priority_class: Manifest) -> Limits:
    value = priority_class.body.get("value")
    if not isinstance(value, int):
        return {}
    return {"value": Limit(IntegerOrPercent(value), is_minimum=True)}


def _read_limits(prefix: str, amounts: Mapping[str, Any], *, is_minimum: bool = False) -> Limits:
    quantities = {name: read_quantity(amount) for name, amount in amounts.items()}
    return {
        f"{prefix}{name}": Limit(quantity, is_minimum)
        for name, quantity in quantities.items()
        if quantity is not None
    }


class KindOutcome(Struct, frozen=True):
    """Row of the table of kinds. `extent` says what an object takes along.

    `list_limits` returns the amounts that it sets for pods; the object is weakened if one of them
    becomes weaker.
    """

    condition: EndCondition
    data: DataOwner | None = None
    extent: str = ""
    list_limits: Callable[[Manifest], Limits] = _list_no_limits


_RULE: Final = KindOutcome(EndCondition.ALWAYS)
_WORKLOAD: Final = KindOutcome(EndCondition.PODS)
_NEEDED: Final = KindOutcome(EndCondition.NEED)
_CLAIM: Final = KindOutcome(EndCondition.ALWAYS, DataOwner.CLAIM)
_VIRTUAL_MACHINE: Final = KindOutcome(EndCondition.ALWAYS, DataOwner.DATA_VOLUME_TEMPLATES)
# The end of an object of another kind hurts nothing.
KIND_OUTCOMES: Final[Mapping[tuple[str, str], KindOutcome]] = {
    ("", "Namespace"): KindOutcome(EndCondition.ALWAYS, extent="everything in it"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): KindOutcome(
        EndCondition.ALWAYS, extent="all its objects"
    ),
    ("", "PersistentVolumeClaim"): _CLAIM,
    ("cdi.kubevirt.io", "DataVolume"): _CLAIM,
    ("", "PersistentVolume"): KindOutcome(EndCondition.ALWAYS, DataOwner.VOLUME),
    ("apps", "StatefulSet"): KindOutcome(EndCondition.PODS, DataOwner.CLAIM_TEMPLATES),
    ("apps", "Deployment"): _WORKLOAD,
    ("apps", "DaemonSet"): _WORKLOAD,
    ("apps", "ReplicaSet"): _WORKLOAD,
    ("extensions", "Deployment"): _WORKLOAD,
    ("extensions", "DaemonSet"): _WORKLOAD,
    ("extensions", "ReplicaSet"): _WORKLOAD,
    ("", "ReplicationController"): _WORKLOAD,
    ("", "Pod"): _WORKLOAD,
    ("batch", "Job"): _WORKLOAD,
    ("batch", "CronJob"): _RULE,
    ("kubevirt.io", "VirtualMachine"): _VIRTUAL_MACHINE,
    ("kubevirt.io", "VirtualMachineInstance"): _VIRTUAL_MACHINE,
    ("policy", "PodDisruptionBudget"): KindOutcome(
        EndCondition.ALWAYS, list_limits=_list_budget_limits
    ),
    ("", "ResourceQuota"): KindOutcome(EndCondition.ALWAYS, list_limits=_list_quota_limits),
    ("", "LimitRange"): KindOutcome(EndCondition.ALWAYS, list_limits=_list_range_limits),
    ("networking.k8s.io", "NetworkPolicy"): _RULE,
    ("", "Secret"): _NEEDED,
    ("", "ConfigMap"): _NEEDED,
    ("", "Service"): _NEEDED,
    ("", "ServiceAccount"): _NEEDED,
    ("scheduling.k8s.io", "PriorityClass"): KindOutcome(
        EndCondition.NEED, list_limits=_list_priority
    ),
    ("node.k8s.io", "RuntimeClass"): _NEEDED,
    ("storage.k8s.io", "StorageClass"): _NEEDED,
    ("k8s.cni.cncf.io", "NetworkAttachmentDefinition"): _NEEDED,
}


def describe_extent(manifest: Manifest) -> str:
    """Return what ends with an object: `everything in it`; "" for the object alone."""
    row = KIND_OUTCOMES.get((manifest.group, manifest.kind))
    return row.extent if row is not None else ""


def describe_weaker_limits(before: Manifest, after: Manifest) -> str:
    """Return `changes from minAvailable 2 to 1` for limits that become weaker, else ""."""
    row = KIND_OUTCOMES.get((before.group, before.kind))
    if row is None or before is after:
        return ""
    limits = row.list_limits(after)
    changes = [
        find_weaker_amount(
            name,
            limit.amount,
            limits[name].amount if name in limits else None,
            is_minimum=limit.is_minimum,
        )
        for name, limit in row.list_limits(before).items()
    ]
    return enclose("changes from ", format_list(filter(None, changes), _MAX_LIMITS))


class NeededObjects:
    """Objects that the workloads of a cluster need: those that their pods name, and Services."""

    def __init__(self, manifests: Sequence[Manifest]) -> None:
        self._workloads = [
            workload for workload in collect_workloads(manifests).workloads if workload.replicas
        ]

    @cached_property
    def _names(self) -> frozenset[tuple[str, str, str]]:
        """Kind, namespace and name of each object that a pod names."""
        return frozenset(
            (need.kind, need.namespace, need.name)
            for workload in self._workloads
            for need in workload.needs
        )

    @cached_property
    def _workloads_by_namespace(self) -> Mapping[str, list[Workload]]:
        by_namespace: dict[str, list[Workload]] = {}
        for workload in self._workloads:
            by_namespace.setdefault(workload.namespace, []).append(workload)
        return by_namespace

    def has_need(self, manifest: Manifest) -> bool:
        """Return whether a workload needs an object; a Service is needed by the pods it selects."""
        if manifest.kind == "Service":
            selector = get_mapping(manifest.body, "spec", "selector")
            workloads = self._workloads_by_namespace.get(manifest.namespace, ())
            return bool(selector) and any(
                selector.items() <= dict(workload.pod.labels).items() for workload in workloads
            )
        return (manifest.kind, manifest.namespace, manifest.name) in self._names


class LocalVolume(Struct, frozen=True):
    """PersistentVolume on the disk of a node: its nodes by host name, and its claim.

    `claim` is the namespace and name, empty texts if the volume names none.
    """

    manifest: Manifest
    nodes: tuple[str, ...]
    claim: tuple[str, str]

    def is_bound_to(self, claim: Manifest) -> bool:
        """Return whether a claim has this volume."""
        names_volume = get_text(claim.body, "spec", "volumeName") == self.manifest.name
        is_claim = claim.kind == "PersistentVolumeClaim"
        return is_claim and (names_volume or self.claim == (claim.namespace, claim.name))


def list_local_volumes(manifests: Iterable[Manifest]) -> Iterator[LocalVolume]:
    """Yield the volumes whose data is on the disk of nodes that they name."""
    for manifest in manifests:
        if manifest.kind != "PersistentVolume" or not is_local_volume(manifest):
            continue
        spec = get_mapping(manifest.body, "spec")
        nodes = [
            str(node)
            for term in list_mappings(spec, "nodeAffinity", "required", "nodeSelectorTerms")
            for expression in list_mappings(term, "matchExpressions")
            if (expression.get("key"), expression.get("operator")) == (HOSTNAME, IN)
            for node in get_list(expression, "values")
        ]
        claim = get_mapping(spec, "claimRef")
        key = (get_text(claim, "namespace"), get_text(claim, "name"))
        yield LocalVolume(manifest, tuple(nodes), key)


class StorageObjects:
    """StorageClasses and PersistentVolumes of a cluster: they decide on the data of its claims."""

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        # Reclaim policies by name. The last one wins.
        self._classes: dict[str, str] = {}
        self._volumes: dict[str, str] = {}
        # By namespace and name of the claim.
        self._claimed_volumes: dict[tuple[str, str], str] = {}
        self._default_class = ""
        for manifest in manifests:
            if manifest.kind == "StorageClass":
                self._classes[manifest.name] = get_text(manifest.body, "reclaimPolicy") or _DELETE
                annotations = get_mapping(manifest.body, "metadata", "annotations")
                if annotations.get(_DEFAULT_CLASS) == "true":
                    self._default_class = manifest.name
            elif manifest.kind == "PersistentVolume":
                self._volumes[manifest.name] = _get_volume_policy(manifest)
                claim = get_mapping(manifest.body, "spec", "claimRef")
                key = (get_text(claim, "namespace"), get_text(claim, "name"))
                self._claimed_volumes[key] = manifest.name

    def find_claim_fate(
        self, spec: Mapping[str, Any], claim: tuple[str, str] = ("", "")
    ) -> DataFate:
        """Return the fate of the data of a deleted claim, by its spec, namespace and name.

        It is unknown if the claim names a class that was not read.
        """
        volume = get_text(spec, "volumeName") or self._claimed_volumes.get(claim, "")
        if volume in self._volumes:
            return _convert_policy(self._volumes[volume])
        class_name = spec.get("storageClassName")
        if class_name is None and not self._default_class:
            # The default class of the cluster, which was not read.
            return DataFate.LOST
        policy = self._classes.get(class_name or self._default_class)
        if class_name == "" or policy is None:
            return DataFate.UNKNOWN
        return _convert_policy(policy)


def _get_volume_policy(volume: Manifest) -> str:
    """Return the reclaim policy of a volume; Retain is the default of one made by hand."""
    return get_text(volume.body, "spec", "persistentVolumeReclaimPolicy") or _RETAIN


def _convert_policy(policy: str) -> DataFate:
    return DataFate.KEPT if policy == _RETAIN else DataFate.LOST


def compute_end(
    manifest: Manifest,
    storage: StorageObjects,
    *,
    runs_pods: bool,
    is_needed: bool,
    ends_with_namespace: bool = False,
) -> Outcome:
    """Return the outcome of the end of an object of a cluster.

    `is_needed` means that remaining pods need it. The claims of a StatefulSet stay, unless its
    Namespace ends, too.
    """
    row = KIND_OUTCOMES.get((manifest.group, manifest.kind))
    if row is None:
        return Outcome()
    data = _find_data_fate(manifest, row.data, storage, deletes_claims=ends_with_namespace)
    is_lasting = {
        EndCondition.ALWAYS: True,
        EndCondition.PODS: runs_pods or data in (DataFate.LOST, DataFate.UNKNOWN),
        EndCondition.NEED: is_needed,
    }[row.condition]
    return Outcome(_get_severity(is_lasting=is_lasting), data)


def needs_pods_to_hurt(manifest: Manifest) -> bool:
    """Return whether the end of an object hurts only while remaining pods need it."""
    row = KIND_OUTCOMES.get((manifest.group, manifest.kind))
    return row is not None and row.condition is EndCondition.NEED


def compute_scale_in(manifest: Manifest, storage: StorageObjects, *, remaining: int) -> Outcome:
    """Return the outcome of fewer replicas of a workload; the last one has no redundancy.

    A StatefulSet deletes the claims of its ended pods only if `whenScaled` is Delete.
    """
    data: DataFate | None = None
    if _get_retention(manifest, "whenScaled") == _DELETE:
        data = combine_fates(_list_template_fates(manifest, storage))
    is_lasting = remaining <= 1 or data in (DataFate.LOST, DataFate.UNKNOWN)
    return Outcome(_get_severity(is_lasting=is_lasting), data)


def _get_severity(*, is_lasting: bool) -> ConsequenceSeverity:
    return ConsequenceSeverity.LASTING if is_lasting else ConsequenceSeverity.NONE


def _find_data_fate(
    manifest: Manifest, owner: DataOwner | None, storage: StorageObjects, *, deletes_claims: bool
) -> DataFate | None:
    """Return the fate of the data of an ended object; None if it has none."""
    match owner:
        case DataOwner.CLAIM:
            spec = get_mapping(manifest.body, "spec")
            # Of a DataVolume, the claim is inside.
            for part in ("pvc", "storage"):
                spec = get_mapping(spec, part) or spec
            return storage.find_claim_fate(spec, (manifest.namespace, manifest.name))
        case DataOwner.VOLUME:
            return _convert_policy(_get_volume_policy(manifest))
        case DataOwner.CLAIM_TEMPLATES:
            fate = combine_fates(_list_template_fates(manifest, storage))
            is_deleted = deletes_claims or _get_retention(manifest, "whenDeleted") == _DELETE
            return fate if is_deleted or fate is None else DataFate.KEPT
        case DataOwner.DATA_VOLUME_TEMPLATES:
            templates = list_mappings(manifest.body, "spec", "dataVolumeTemplates")
            specs = [get_mapping(template, "spec") for template in templates]
            claims = [get_mapping(spec, "pvc") or get_mapping(spec, "storage") for spec in specs]
            return combine_fates(map(storage.find_claim_fate, claims))
    return None


def _list_template_fates(stateful_set: Manifest, storage: StorageObjects) -> Iterator[DataFate]:
    """Yield the fate of the data of each claim template, if its claims are deleted."""
    for template in list_mappings(stateful_set.body, "spec", "volumeClaimTemplates"):
        yield storage.find_claim_fate(get_mapping(template, "spec"))


def _get_retention(manifest: Manifest, field: str) -> str:
    if manifest.kind != "StatefulSet":
        return ""
    return get_text(manifest.body, "spec", "persistentVolumeClaimRetentionPolicy", field)
