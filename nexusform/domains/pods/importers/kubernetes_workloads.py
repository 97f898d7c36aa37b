"""Conversion of manifests to workloads with their pod templates and replicas."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import format_count, group_by
from nexusform.documents.object_schemas import FIELD_NOT_IN_VERSION
from nexusform.documents.yaml_documents import build_problem
from nexusform.domains.pods.importers import device_objects, kubernetes_pod_spec, pod_admission
from nexusform.domains.pods.importers.device_objects import DeviceObjects
from nexusform.domains.pods.importers.kubernetes_pod_spec import (
    DEVICE_CLAIMS,
    GANGS,
    PodOwner,
    Priorities,
)
from nexusform.domains.pods.importers.kubernetes_schemas import find_kind_type, list_unread_parts
from nexusform.domains.pods.importers.kubernetes_volumes import (
    Storage,
    collect_storage,
    parse_volumes,
)
from nexusform.domains.pods.importers.live_workloads import (
    LiveWorkload,
    find_current_revisions,
    merge_live_fields,
    select_placement_fields,
)
from nexusform.domains.pods.importers.manifest_parser import (
    Fields,
    Manifest,
    read_silently,
    select_manifests,
)
from nexusform.domains.pods.importers.object_needs import (
    DATA_VOLUME,
    SERVICE_ACCOUNT,
    ClusterInventory,
    NeedAnswer,
    list_pod_needs,
)
from nexusform.domains.pods.importers.pod_admission import AdmissionRejection, AdmissionRules
from nexusform.domains.pods.importers.unpredicted_kinds import (
    NOT_PREDICTED,
    list_unpredicted_problems,
)
from nexusform.domains.pods.scheduling.cluster_records import (
    NEWEST_REVISION,
    ObjectNeed,
    PodSpec,
    Strategy,
    Workload,
)
from nexusform.json_data.plain_data import get_mapping, get_text, get_value_at_path, list_mappings
from nexusform.kubernetes.matching import LabelSelector, is_selected

# Maximum of pods in one cluster by the Kubernetes documentation.
MAX_PODS: Final = 150_000
# Kinds without an object per template: a rollback uses the revision of an earlier template again.
_REVISION_KINDS: Final = ("StatefulSet", "DaemonSet")
AUTOSCALED: Final = "autoscaled-replicas"
_JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
# Prefix of the resource that each device class provides under its own name.
_IMPLICIT_RESOURCE: Final = "deviceclass.resource.kubernetes.io/"
LIVE_REPLICAS: Final = "replicas-of-cluster"

_PERCENT: Final = re.compile(r"([0-9]{1,4})%\Z")
# Default of maxSurge and maxUnavailable of a Deployment.
_DEFAULT_SHARE: Final = "25%"


# Words of the admission plugins about absent objects.
_ABSENCES: Final = {
    SERVICE_ACCOUNT: (
        "error looking up service account {need.namespace}/{need.name}: serviceaccount "
        '"{need.name}" not found'
    ),
    "RuntimeClass": 'pod rejected: RuntimeClass "{need.name}" not found',
}


class ParsedWorkloads(Struct, frozen=True):
    """Workloads of manifests in order, and the problems and omissions found."""

    workloads: tuple[Workload, ...]
    findings: tuple[Problem, ...]

    @property
    def by_key(self) -> dict[str, Workload]:
        """The workloads by key."""
        return {workload.key: workload for workload in self.workloads}


class WorkloadContext(Struct, frozen=True):
    """Objects of a cluster that decide on the pods of workloads, read once for all of them.

    `services` are selectors by namespace, `autoscalers` those of a workload by its namespace, kind
    and name, `device_classes` the classes by resource. `is_complete` means that objects missing
    here do not exist. `version` is the one of Kubernetes, () if unknown.
    """

    priorities: Priorities
    rules: AdmissionRules
    inventory: ClusterInventory
    storage: Storage
    services: Mapping[str, Sequence[Mapping[str, str]]]
    autoscalers: Mapping[tuple[str, str, str], Sequence[Manifest]]
    device_classes: Mapping[str, str]
    devices: DeviceObjects
    is_complete: bool
    version: tuple[int, ...]


def collect_workload_context(
    manifests: Iterable[Manifest],
    *,
    is_complete: bool = True,
    has_all_classes: bool = False,
    read_kinds: Collection[str] = (),
    version: tuple[int, ...] = (),
) -> WorkloadContext:
    """Return what the objects of a cluster decide on pods.

    `is_complete` means that objects missing here do not exist, `has_all_classes` that
    StorageClasses missing here do not exist. Objects of `read_kinds` missing here do not exist.
    `version` is the one of Kubernetes, () if unknown.
    """
    objects = _merge_objects(manifests)
    services: dict[str, list[Mapping[str, str]]] = {}
    for manifest in select_manifests(objects, "", "Service"):
        selector = read_silently(manifest, "spec").get_text_mapping("selector")
        services.setdefault(manifest.namespace, []).append(selector)
    return WorkloadContext(
        priorities=kubernetes_pod_spec.collect_priority_classes(objects, is_complete=is_complete),
        rules=pod_admission.collect_admission_rules(objects, version),
        inventory=ClusterInventory(
            (item for item in objects if item.kind in _ABSENCES), read_kinds
        ),
        storage=collect_storage(
            objects,
            is_complete=is_complete,
            has_all_classes=has_all_classes,
            # Without a dump, no DataVolume is expected.
            has_all_claims=not read_kinds or DATA_VOLUME in read_kinds,
        ),
        services=services,
        autoscalers=_collect_autoscalers(objects),
        device_classes=_collect_device_classes(objects),
        devices=device_objects.collect_device_objects(objects),
        is_complete=is_complete,
        version=version,
    )


def collect_workloads(
    manifests: Sequence[Manifest],
    context_manifests: Sequence[Manifest] = (),
    *,
    is_complete: bool = True,
    has_all_classes: bool = False,
) -> ParsedWorkloads:
    """Return the workloads among `manifests`, the objects of one cluster.

    Services, autoscalers and admission rules are also read from `context_manifests`: other objects
    of the cluster. `is_complete` and `has_all_classes` are those of `collect_workload_context`.
    """
    context = collect_workload_context(
        (*manifests, *context_manifests), is_complete=is_complete, has_all_classes=has_all_classes
    )
    return read_workloads(manifests, context)


def read_workloads(
    manifests: Sequence[Manifest],
    context: WorkloadContext,
    *,
    live_workloads: Mapping[str, LiveWorkload] = MappingProxyType({}),
    previous_manifests: Sequence[Manifest] = (),
) -> ParsedWorkloads:
    """Return the workloads among `manifests`, some of the objects of a context.

    `live_workloads` (by key) have the fields of other managers; `previous_manifests` are
    those applied before.
    """
    # ReplicaSets of a Deployment: each names it as its owner.
    replica_sets = [workload for workload in live_workloads.values() if workload.owner]
    previous_by_title = {
        (item.kind, item.namespace, item.name): item for item in previous_manifests
    }
    reader = _WorkloadReader(
        context=context,
        live_workloads=live_workloads,
        replica_sets=group_by(replica_sets, lambda replica_set: replica_set.owner),
        previous_manifests=previous_by_title,
    )
    workloads = []
    for manifest in manifests:
        has_absent_fields = reader.report_absent_fields(manifest)
        controller = _CONTROLLERS.get((manifest.group, manifest.kind))
        if controller is not None:
            workload = reader.parse_workload(
                _convert_old_api_version(manifest, reader.findings), controller
            )
            if has_absent_fields:
                workload = replace(workload, pod=replace(workload.pod, has_unknown_rules=True))
            workloads.append(workload)
        elif (manifest.group, manifest.kind) == ("batch", "CronJob"):
            job = (
                Fields(manifest, reader.findings, manifest.body)
                .get_mapping("spec")
                .get_mapping("jobTemplate")
            )
            pod_spec = job.get_mapping("spec").get_mapping("template").get_mapping("spec")
            # Nothing else: its pods are not predicted.
            _check_restart_policy(pod_spec, _FINITE_RESTART_POLICIES)
    reader.findings += list_unpredicted_problems(manifests, known_kinds=_CONTROLLERS.keys())
    return ParsedWorkloads(tuple(workloads), tuple(reader.findings))


def _merge_objects(manifests: Iterable[Manifest]) -> tuple[Manifest, ...]:
    """Return each object once: the first of those with the same identity.

    A dump lists an object that the plan applies again, or the same object in several versions.
    """
    objects: dict[tuple[str, str, str, str], Manifest] = {}
    for manifest in manifests:
        identity = (manifest.group, manifest.kind, manifest.namespace, manifest.name)
        objects.setdefault(identity, manifest)
    return tuple(objects.values())


def _collect_device_classes(manifests: Iterable[Manifest]) -> dict[str, str]:
    """Return the device classes by the names of their extended resources."""
    classes: dict[str, str] = {}
    for manifest in select_manifests(manifests, "resource.k8s.io", "DeviceClass"):
        # Each class has a resource by its name.
        classes[f"{_IMPLICIT_RESOURCE}{manifest.name}"] = manifest.name
        # "": it names none.
        classes[get_text(manifest.body, "spec", "extendedResourceName")] = manifest.name
    return classes


def _collect_autoscalers(
    manifests: Iterable[Manifest],
) -> dict[tuple[str, str, str], list[Manifest]]:
    """Return the HorizontalPodAutoscalers by namespace, kind and name of the scaled workload."""
    autoscalers: dict[tuple[str, str, str], list[Manifest]] = {}
    for manifest in select_manifests(manifests, "autoscaling", "HorizontalPodAutoscaler"):
        target = get_mapping(manifest.body, "spec", "scaleTargetRef")
        # The target is not a custom resource.
        if get_text(target, "apiVersion").rpartition("/")[0] in ("apps", "extensions", ""):
            key = (manifest.namespace, get_text(target, "kind"), get_text(target, "name"))
            autoscalers.setdefault(key, []).append(manifest)
    return autoscalers


class _WorkloadReader(Struct):
    context: WorkloadContext
    live_workloads: Mapping[str, LiveWorkload]
    replica_sets: Mapping[str, Sequence[LiveWorkload]]
    previous_manifests: Mapping[tuple[str, str, str], Manifest]
    findings: list[Problem] = field(default_factory=list)

    def report_absent_fields(self, manifest: Manifest) -> bool:
        """Report the fields of an object that the version of Kubernetes lacks; return if any."""
        api_version = "/".join(filter(None, (manifest.group, manifest.version)))
        if find_kind_type(api_version, manifest.kind) is None:
            # Of a custom resource, or of an old API version: it is converted.
            return False
        absent_parts = [
            (path, doubt)
            for path, doubt in list_unread_parts(manifest.body, self.context.version)
            if doubt.finding == FIELD_NOT_IN_VERSION
        ]
        for path, doubt in absent_parts:
            detail = (
                f"{manifest.title} has {doubt.field}, but {doubt.reason}. Its API server drops "
                "the field, or rejects the object."
            )
            self.findings.append(
                build_problem(
                    manifest.file,
                    manifest.find_position(*path),
                    FIELD_NOT_IN_VERSION,
                    detail,
                    Severity.WARNING,
                )
            )
        return bool(absent_parts)

    def parse_workload(self, applied: Manifest, controller: _WorkloadKind) -> Workload:
        """Return the workload of an applied manifest after admission, with live fields.

        Report invalid fields.
        """
        context = self.context
        manifest, has_unknown_fields = self._merge_live_fields(applied)
        root = Fields(manifest, self.findings, manifest.body)
        spec = root.get_mapping("spec")
        template = root if manifest.kind == "Pod" else spec.get_mapping("template")
        metadata = template.get_mapping("metadata")
        pod_fields = template.get_mapping("spec")
        # Without live fields.
        applied_hash = kubernetes_pod_spec.compute_template_hash(_get_template(applied))
        owner = self._build_pod_owner(manifest, controller, spec, metadata, applied_hash)
        _check_restart_policy(pod_fields, controller.restart_policies)
        admitted_fields = pod_admission.apply_pod_admission(
            manifest.namespace, metadata, pod_fields, context.rules
        )
        volumes = parse_volumes(
            manifest, admitted_fields, spec.list_mappings("volumeClaimTemplates"), context.storage
        )
        pod = kubernetes_pod_spec.parse_pod_spec(
            metadata, admitted_fields, owner, context.priorities
        )
        has_devices = self._report_device_classes(pod_fields, pod)
        is_gang = manifest.kind == "Job" and "scheduling" in spec
        if is_gang:
            detail = "schedules its pods as a gang: together or not at all, which is not predicted."
            spec.report("scheduling", detail, Severity.WARNING, id=GANGS)
        device_claims = device_objects.parse_device_claims(
            manifest.namespace, pod_fields, context.devices, is_complete=context.is_complete
        )
        pod = replace(
            device_objects.add_claims(pod, volumes, device_claims),
            missing_objects=volumes.missing_objects,
        )
        # Rules for these are not simulated.
        if is_gang or has_devices or has_unknown_fields:
            pod = replace(pod, has_unknown_rules=True)
        needs = list_pod_needs(
            manifest.namespace,
            admitted_fields.data,
            pod_admission.parse_network_names(_read_annotations(manifest), manifest.namespace),
            list_mappings(spec.data, "volumeClaimTemplates"),
        )
        rejection = self._find_rejection(manifest.namespace, metadata, admitted_fields, needs)
        workload = Workload(
            kind=manifest.kind,
            namespace=manifest.namespace,
            name=manifest.name,
            replicas=controller.parse_replicas(spec),
            pod=pod,
            line=manifest.line,
            containers=kubernetes_pod_spec.parse_containers(admitted_fields),
            admission_error=rejection.reason,
            rejected_by=rejection.plugin,
            needs=needs,
            # Set by another manager.
            keeps_replicas=_get_replicas(manifest) != _get_replicas(applied),
        )
        workload = self._add_revisions(manifest, workload, _get_template(manifest))
        # A snapshot shows the old template as equal, but its pods are replaced.
        if self._has_hidden_changes(applied):
            # No observed pod has the new template.
            workload = replace(workload, current_revisions=())
        return controller.apply_strategy(self._apply_autoscaler(manifest, workload), spec)

    def _find_rejection(
        self, namespace: str, metadata: Fields, spec: Fields, needs: Iterable[ObjectNeed]
    ) -> AdmissionRejection:
        """Return the first admission plugin that rejects a pod, and why; both "" if none does."""
        context = self.context
        priority_rejection = kubernetes_pod_spec.find_priority_rejection(spec, context.priorities)
        has_class = not priority_rejection.startswith(kubernetes_pod_spec.NO_CLASS)
        plugin = "Priority" if has_class else "PriorityClass"
        rejections = [AdmissionRejection(plugin, priority_rejection)]
        rejections += [
            AdmissionRejection(need.kind, _ABSENCES[need.kind].format(need=need))
            for need in needs
            if need.kind in _ABSENCES
            and context.inventory.find_answer(need) is NeedAnswer.NOT_THERE
        ]
        rejections += pod_admission.list_admission_rejections(
            namespace, metadata, spec, context.rules
        )
        return next((item for item in rejections if item.reason), AdmissionRejection("", ""))

    def _build_pod_owner(
        self,
        manifest: Manifest,
        controller: _WorkloadKind,
        spec: Fields,
        metadata: Fields,
        template_hash: str,
    ) -> PodOwner:
        """Return what a pod takes from its workload.

        Namespace, labels added by the controller, and the selector of default spread constraints.
        `metadata` is the one of the pod template.
        """
        labels = metadata.get_text_mapping("labels")
        added_labels = (
            {controller.template_label: template_hash} if controller.template_label else {}
        )
        if manifest.kind == "Job":
            added_labels = {
                "batch.kubernetes.io/job-name": manifest.name,
                "job-name": manifest.name,
            }
        selector = _parse_workload_selector(spec, labels) if controller.has_selector else None
        spread_selector = self._build_spread_selector(
            manifest, selector, {**labels, **added_labels}
        )
        return PodOwner(
            manifest.namespace, manifest.kind, added_labels, spread_selector, template_hash
        )

    def _report_device_classes(self, spec: Fields, pod: PodSpec) -> bool:
        """Report a pod's extended resources from device classes (DRA); return if any."""
        classes = {
            name: self.context.device_classes[name]
            for name, _ in pod.requests.other_resources
            if name in self.context.device_classes
        }
        for resource, device_class in classes.items():
            detail = (
                f"request {resource}, and DeviceClass {device_class} may provide it (DRA, from "
                "Kubernetes 1.36 on). "
                "Its devices are not counted."
            )
            spec.report("containers", detail, Severity.WARNING, id=DEVICE_CLAIMS)
        return bool(classes)

    def _add_revisions(
        self, manifest: Manifest, workload: Workload, template: Mapping[str, Any]
    ) -> Workload:
        """Return a workload with facts from its live objects.

        A Job with the number of its remaining pods, others with the revision labels of pods with
        this template, or of the template replaced by the plan. A Deployment scaled since its last
        sync also gets the maximum of pods before, 0 if unknown.
        """
        key = manifest.workload_key
        live = self.live_workloads.get(key, LiveWorkload(key))
        replica_sets = self.replica_sets.get(key, ())
        # A Job; its pods keep their template.
        if live.remaining_pods is not None:
            return replace(workload, replicas=min(workload.replicas, live.remaining_pods))
        revisions = find_current_revisions(template, live, replica_sets)
        # None means that the live template is unknown, () that it is another one.
        if revisions == () and manifest.kind in _REVISION_KINDS:
            return replace(workload, replaced_revision=live.revision or NEWEST_REVISION)
        # A ReplicaSet notes the replicas of its Deployment at the last sync (0: unknown).
        is_scaled = any(item.desired_pods not in (0, workload.replicas) for item in replica_sets)
        maximum = max((item.max_pods for item in replica_sets), default=0) if is_scaled else 0
        return replace(workload, current_revisions=revisions, previous_max_pods=maximum)

    def _has_hidden_changes(self, manifest: Manifest) -> bool:
        """Return whether the plan changes only template fields that snapshots omit.

        Environments are an example.
        """
        previous = self.previous_manifests.get((manifest.kind, manifest.namespace, manifest.name))
        if previous is None or _get_template(previous) == _get_template(manifest):
            return False
        return select_placement_fields(_get_template(previous)) == select_placement_fields(
            _get_template(manifest)
        )

    def _merge_live_fields(self, manifest: Manifest) -> tuple[Manifest, bool]:
        """Return a manifest with live fields of other managers, and warn.

        The second result is whether it has fields of unknown owners.
        """
        live = self.live_workloads.get(manifest.workload_key, LiveWorkload(manifest.workload_key))
        previous = self.previous_manifests.get((manifest.kind, manifest.namespace, manifest.name))
        merged, unknown = merge_live_fields(manifest, live, previous)
        kept_replicas = _get_replicas(merged)
        if kept_replicas != _get_replicas(manifest):
            detail = (
                f"{manifest.title} sets no replicas, so the {kept_replicas} of the cluster are "
                "kept."
            )
            summary = f"{manifest.title}: keeps {kept_replicas} replicas of the cluster"
            self._warn(manifest, LIVE_REPLICAS, detail, summary)
        if unknown:
            names = ", ".join(sorted(unknown))
            detail = (
                f"{manifest.title}: {names} may belong to another manager; show it with "
                "--show-managed-fields."
            )
            self._warn(manifest, "unknown-field-managers", detail)
        return merged, bool(unknown)

    def _warn(self, manifest: Manifest, warning_id: str, detail: str, summary: str = "") -> None:
        """Add a warning about the spec of a manifest."""
        position = manifest.find_position("spec")
        self.findings.append(
            build_problem(manifest.file, position, warning_id, detail, Severity.WARNING, summary)
        )

    def _build_spread_selector(
        self, manifest: Manifest, selector: LabelSelector | None, labels: Mapping[str, str]
    ) -> LabelSelector | None:
        """Return the selector of pods for kube-scheduler's default spreading; None without any.

        It joins the selectors of the Services of the pod and of its controller (but not
        of a DaemonSet).
        """
        pairs: dict[str, str] = {}
        for service_selector in self.context.services.get(manifest.namespace, ()):
            if all(labels.get(key) == value for key, value in service_selector.items()):
                pairs |= service_selector
        expressions: tuple[Any, ...] = ()
        if manifest.kind != "DaemonSet" and selector is not None:
            pairs |= dict(selector.match_labels)
            expressions = selector.match_expressions
            if manifest.kind == "Deployment":
                # Its pods belong to a ReplicaSet, which selects one template only.
                pairs["pod-template-hash"] = labels["pod-template-hash"]
        spread_selector = LabelSelector(tuple(sorted(pairs.items())), expressions)
        return None if spread_selector.is_empty else spread_selector

    def _apply_autoscaler(self, manifest: Manifest, workload: Workload) -> Workload:
        """Return a workload with the replicas set by its HorizontalPodAutoscaler.

        Report its bounds. As no metrics are known, the configured replicas are limited to these
        bounds. 0 configured replicas disable the autoscaler.
        """
        scalers = self.context.autoscalers.get(
            (manifest.namespace, manifest.kind, manifest.name), ()
        )
        # If the cluster shows the effect of one, it is reported.
        if not scalers:
            live = self.live_workloads.get(workload.key, LiveWorkload(workload.key))
            if live.scaled_replicas in (None, workload.replicas):
                # No autoscaler has set the replicas (None), or it has set the same number.
                return workload
            detail = (
                f"{manifest.title}: a HorizontalPodAutoscaler has set {live.scaled_replicas} "
                "replicas, "
            )
            self._warn(
                manifest,
                "missing-autoscaler",
                f"{detail}not the {workload.replicas} here. It is not listed.",
            )
            return replace(workload, configured_replicas=workload.replicas)
        scaler = scalers[-1]
        if len(scalers) > 1:
            names = " and ".join(item.name for item in scalers)
            self._warn(
                manifest,
                "several-autoscalers",
                f"{manifest.title} has HorizontalPodAutoscalers {names}.",
            )
            workload = replace(workload, pod=replace(workload.pod, has_unknown_rules=True))
        bounds = Fields(scaler, self.findings, scaler.body).get_mapping("spec")
        minimum = bounds.get_integer("minReplicas", 1)
        configured_replicas = workload.replicas
        maximum = max(minimum, bounds.get_integer("maxReplicas", configured_replicas, minimum=1))
        replicas = 0
        outcome = "0 replicas disable it, and none are predicted"
        if configured_replicas:
            replicas = min(max(configured_replicas, minimum), maximum)
            outcome = f"{replicas} are predicted, not the configured {configured_replicas}"
            if replicas == configured_replicas:
                outcome = f"the configured {replicas} are predicted"
        detail = (
            f"{manifest.title} is scaled by HorizontalPodAutoscaler {scaler.name} between "
            f"{minimum} and {maximum} replicas; {outcome}."
        )
        summary = (
            f"{manifest.title}: {replicas} replicas; its autoscaler allows {minimum} to {maximum}"
        )
        self._warn(manifest, AUTOSCALED, detail, summary)
        return replace(workload, replicas=replicas, configured_replicas=configured_replicas)


def _read_annotations(manifest: Manifest) -> Fields:
    """Return the annotations of a workload's pods; problems were reported before."""
    path = () if manifest.kind == "Pod" else ("spec", "template")
    annotations = get_mapping(manifest.body, *path, "metadata", "annotations")
    return Fields(manifest, [], annotations)


def _get_template(manifest: Manifest) -> dict[str, Any]:
    """Return the pod template of a workload; a Pod is its own."""
    if manifest.kind == "Pod":
        return {"metadata": manifest.body.get("metadata"), "spec": manifest.body.get("spec")}
    return dict(get_mapping(manifest.body, "spec", "template"))


def _get_replicas(manifest: Manifest) -> Any:
    return get_value_at_path(manifest.body, "spec", "replicas")


def _parse_workload_selector(spec: Fields, labels: Mapping[str, str]) -> LabelSelector | None:
    """Return the selector of a controller.

    Report a missing one, or one that does not select the pods of the template.
    """
    selector = kubernetes_pod_spec.parse_selector(spec, "selector")
    if selector is None or selector.is_empty:
        spec.report("selector", "must be set: it selects the pods of the controller.")
    elif not is_selected(selector, labels):
        spec.report("selector", "does not match the labels of the template.")
    return selector


def _check_restart_policy(spec: Fields, allowed: tuple[str, ...]) -> None:
    if "restartPolicy" in spec:
        # This reports any other policy.
        spec.get_choice("restartPolicy", allowed, default="")


def _parse_replicas(spec: Fields) -> int:
    return _limit_pods(spec, "replicas", spec.get_integer("replicas", 1))


def _parse_parallelism(spec: Fields) -> int:
    """Return the number of pods of a Job running at the same time.

    It is 0 if the Job is suspended or managed by another controller.
    """
    pods = spec.get_integer("parallelism", 1)
    replicas = min(pods, spec.get_integer("completions", pods))
    mode = spec.get_choice("completionMode", ("NonIndexed", "Indexed"), "NonIndexed")
    if mode == "Indexed" and "completions" not in spec:
        spec.report("completions", "must be set when completionMode is Indexed.")
    is_suspended = spec.get_flag("suspend")
    controller = spec.get_text("managedBy", _JOB_CONTROLLER)
    pods_text = format_count(replicas, "pod")
    if replicas and controller != _JOB_CONTROLLER:
        _report_unpredicted_pods(
            spec, "managedBy", f'is "{controller}": {pods_text} may be created by it'
        )
        return 0
    if replicas and is_suspended:
        _report_unpredicted_pods(
            spec, "suspend", f"is true: {pods_text} may be created after the Job is resumed"
        )
        return 0
    return _limit_pods(spec, "parallelism", replicas)


def _report_unpredicted_pods(spec: Fields, key: str, cause: str) -> None:
    spec.report(key, f"{cause}; none are predicted.", Severity.WARNING, id=NOT_PREDICTED)


def _limit_pods(spec: Fields, key: str, pods: int) -> int:
    """Return a number of pods.

    A number above the maximum of one cluster is reported, and replaced by 1.
    """
    if pods <= MAX_PODS:
        return pods
    spec.report(key, f"is {pods:,}; a Kubernetes cluster is built for at most {MAX_PODS:,} pods.")
    return 1


def _apply_deployment_strategy(workload: Workload, spec: Fields) -> Workload:
    """Return a Deployment's update strategy and whether it is paused.

    Report invalid fields.
    """
    strategy = spec.get_mapping("strategy")
    kind = strategy.get_choice("type", ("RollingUpdate", "Recreate"), "RollingUpdate")
    rolling_update = strategy.get_mapping("rollingUpdate")
    surge = _parse_count_or_percentage(
        rolling_update, "maxSurge", workload.replicas, rounds_up=True
    )
    unavailable = _parse_count_or_percentage(
        rolling_update, "maxUnavailable", workload.replicas, rounds_up=False
    )
    surge_text = _get_amount_text(rolling_update, "maxSurge", _DEFAULT_SHARE)
    unavailable_text = _get_amount_text(rolling_update, "maxUnavailable", _DEFAULT_SHARE)
    if kind == "Recreate" and "rollingUpdate" in strategy:
        strategy.report("rollingUpdate", "must not be set when type is Recreate.")
    _check_rollout_limits(rolling_update, surge_text, unavailable_text)
    if surge == 0 and unavailable == 0:
        # As Kubernetes, if both values round to 0.
        unavailable = 1
    return replace(
        workload,
        strategy=Strategy(kind),
        max_surge=surge,
        max_unavailable=unavailable,
        max_unavailable_text=unavailable_text,
        is_paused=spec.get_flag("paused"),
    )


def _apply_stateful_set_strategy(workload: Workload, spec: Fields) -> Workload:
    """Return a StatefulSet with its update strategy, its first ordinal and its order."""
    updates = spec.get_mapping("updateStrategy")
    kind = updates.get_choice("type", ("RollingUpdate", "OnDelete"), "RollingUpdate")
    policy = spec.get_choice("podManagementPolicy", ("OrderedReady", "Parallel"), "OrderedReady")
    rolling_update = updates.get_mapping("rollingUpdate")
    # The default is 1.
    has_maximum = rolling_update.data.get("maxUnavailable") is not None
    unavailable = _parse_count_or_percentage(
        rolling_update, "maxUnavailable", workload.replicas, rounds_up=True
    )
    return replace(
        workload,
        strategy=Strategy(kind),
        max_unavailable=unavailable if has_maximum else 1,
        partition=rolling_update.get_integer("partition", 0),
        first_ordinal=spec.get_mapping("ordinals").get_integer("start", 0),
        is_ordered=policy == "OrderedReady",
    )


def _apply_daemon_set_strategy(workload: Workload, spec: Fields) -> Workload:
    """Return a DaemonSet with its update strategy.

    Percentages stay texts, as they depend on the number of nodes.
    """
    updates = spec.get_mapping("updateStrategy")
    kind = updates.get_choice("type", ("RollingUpdate", "OnDelete"), "RollingUpdate")
    rolling_update = updates.get_mapping("rollingUpdate")
    surge_text = _get_amount_text(rolling_update, "maxSurge", "0")
    unavailable_text = _get_amount_text(rolling_update, "maxUnavailable", "1")
    if kind == "RollingUpdate":
        _check_rollout_limits(rolling_update, surge_text, unavailable_text)
    return replace(
        workload,
        strategy=Strategy(kind),
        max_surge=0,
        max_surge_text=surge_text,
        max_unavailable_text=unavailable_text,
    )


def _apply_strategy(strategy: Strategy, workload: Workload, _: Fields) -> Workload:
    """Return a workload of a kind with one fixed strategy.

    Its spec has no strategy, and is not read.
    """
    return replace(workload, strategy=strategy)


def _get_amount_text(fields: Fields, key: str, default: str) -> str:
    """Return a configured amount of pods as text, such as 25% or 1."""
    amount = fields.data.get(key)
    return default if amount is None else str(amount)


def _check_rollout_limits(rolling_update: Fields, surge_text: str, unavailable_text: str) -> None:
    """Report a rollout without surge and unavailability.

    The API server compares the values before rounding.
    """
    if {surge_text, unavailable_text} <= {"0", "0%"}:
        rolling_update.report(
            "maxUnavailable", "must not be 0 while maxSurge is 0: no pod could ever be replaced."
        )


def _parse_count_or_percentage(fields: Fields, key: str, replicas: int, *, rounds_up: bool) -> int:
    """Return a number of pods, or a percentage of the replicas as pods (default 25%).

    An invalid value is reported.
    """
    value = fields.data.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    percent = _PERCENT.match(_get_amount_text(fields, key, _DEFAULT_SHARE))
    if percent is None:
        fields.report(
            key, f'is "{value}"; it must be a number of pods or a percentage such as 25%.'
        )
        # 1 of surge, 0 unavailable: a valid rollout.
        return int(rounds_up)
    share = replicas * int(percent[1])
    # Two negations round up.
    return -(-share // 100) if rounds_up else share // 100


class _WorkloadKind(Struct, frozen=True):
    # `template_label` is added to all pods of one template; "" in `restart_policies` is
    # the default, Always.
    parse_replicas: Callable[[Fields], int]
    apply_strategy: Callable[[Workload, Fields], Workload]
    template_label: str = ""
    has_selector: bool = True
    restart_policies: tuple[str, ...] = ("Always", "")


_FINITE_RESTART_POLICIES: Final = ("OnFailure", "Never")
_DEPLOYMENT: Final = _WorkloadKind(_parse_replicas, _apply_deployment_strategy, "pod-template-hash")
_DAEMON_SET: Final = _WorkloadKind(
    lambda _: 1, _apply_daemon_set_strategy, "controller-revision-hash"
)
_REPLICA_SET: Final = _WorkloadKind(_parse_replicas, partial(_apply_strategy, Strategy.ON_DELETE))
_RECREATE: Final = partial(_apply_strategy, Strategy.RECREATE)
_CONTROLLERS: Final[Mapping[tuple[str, str], _WorkloadKind]] = {
    ("apps", "Deployment"): _DEPLOYMENT,
    ("apps", "StatefulSet"): _WorkloadKind(
        _parse_replicas, _apply_stateful_set_strategy, "controller-revision-hash"
    ),
    ("apps", "ReplicaSet"): _REPLICA_SET,
    ("apps", "DaemonSet"): _DAEMON_SET,
    ("batch", "Job"): _WorkloadKind(
        _parse_parallelism, _RECREATE, has_selector=False, restart_policies=_FINITE_RESTART_POLICIES
    ),
    ("", "Pod"): _WorkloadKind(
        lambda _: 1,
        _RECREATE,
        has_selector=False,
        restart_policies=("Always", *_FINITE_RESTART_POLICIES, ""),
    ),
    ("", "ReplicationController"): _REPLICA_SET,
    ("extensions", "Deployment"): _DEPLOYMENT,
    ("extensions", "ReplicaSet"): _REPLICA_SET,
    ("extensions", "DaemonSet"): _DAEMON_SET,
}
# Versions removed in Kubernetes 1.16, and their defaults that differ from apps/v1.
_OLD_VERSIONS: Final[Mapping[tuple[str, str], Mapping[str, Mapping[str, Any]]]] = {
    ("extensions", "v1beta1"): {
        "Deployment": {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}},
        "DaemonSet": {"updateStrategy": {"type": "OnDelete"}},
    },
    ("apps", "v1beta1"): {"StatefulSet": {"updateStrategy": {"type": "OnDelete"}}},
    ("apps", "v1beta2"): {},
}


def _convert_old_api_version(manifest: Manifest, findings: list[Problem]) -> Manifest:
    """Return a workload of an old API version as one of apps/v1, and report it.

    Fields get the defaults of the old version. The selector of a ReplicationController becomes a
    label selector. Other objects stay unchanged.
    """
    spec = manifest.body.get("spec")
    # Such as ("extensions", "v1beta1").
    version = (manifest.group, manifest.version)
    is_replication_controller = manifest.kind == "ReplicationController"
    if not isinstance(spec, dict) or (
        version not in _OLD_VERSIONS and not is_replication_controller
    ):
        # It is current, or is reported as invalid later.
        return manifest
    if version in _OLD_VERSIONS:
        detail = (
            f"{manifest.group}/{manifest.version} is not served since Kubernetes 1.16; write "
            "apps/v1."
        )
        Fields(manifest, findings, manifest.body).report("apiVersion", detail, Severity.WARNING)
    # Fields with their old defaults.
    strategies = {
        name: _add_defaults({} if spec.get(name) is None else spec[name], defaults)
        for name, defaults in _OLD_VERSIONS.get(version, {}).get(manifest.kind, {}).items()
    }
    changed_spec = {**spec, **strategies}
    selector = changed_spec.get("selector")
    if is_replication_controller and isinstance(selector, dict) and selector:
        changed_spec["selector"] = {"matchLabels": selector}
    elif not selector and manifest.version != "v1beta2":
        # All but v1beta2 select the template's labels by default.
        labels = (
            Fields(manifest, [], spec)
            .get_mapping("template")
            .get_mapping("metadata")
            .get_text_mapping("labels")
        )
        changed_spec["selector"] = {"matchLabels": labels}
    return replace(manifest, body={**manifest.body, "spec": changed_spec})


def _add_defaults(values: Any, defaults: Mapping[str, Any]) -> Any:
    """Return a mapping with missing fields set to their defaults, nested ones as well.

    Another value is returned unchanged.
    """
    # Without parameters of a rolling update.
    if not isinstance(values, dict) or values.get("type") == "Recreate":
        return values
    completed = dict(values)
    for name, default in defaults.items():
        if values.get(name) is None:
            completed[name] = default
        elif isinstance(default, dict):
            completed[name] = _add_defaults(values[name], default)
    return completed
