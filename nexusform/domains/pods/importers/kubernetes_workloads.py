"""Manifests -> workloads: who runs how many pods of which template."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity
from nexusform.documents.shapes import mapping_at, value_at
from nexusform.documents.yaml_text import problem_at
from nexusform.domains.pods.importers.kubernetes_admission import (
    PodRules,
    admitted,
    forbidden,
    read_pod_rules,
)
from nexusform.domains.pods.importers.kubernetes_makers import not_forecast
from nexusform.domains.pods.importers.kubernetes_manifests import Fields, Manifest
from nexusform.domains.pods.importers.kubernetes_pod_spec import (
    Owner,
    Priorities,
    read_containers,
    read_pod_spec,
    read_priorities,
    read_selector,
    template_hash,
    template_labels,
    unknown_priority,
)
from nexusform.domains.pods.importers.kubernetes_volumes import Storage, read_storage, read_volumes
from nexusform.domains.pods.scheduling.workloads import Strategy, Workload
from nexusform.kubernetes.matching import LabelSelector, matches

# What Kubernetes names as the most that one cluster carries.
MOST_PODS: Final = 150_000
AUTOSCALED: Final = "replicas-are-changed-by-an-autoscaler"

_PERCENT: Final = re.compile(r"([0-9]{1,4})%\Z")


class WorkloadReading(Struct, frozen=True):
    """The workloads of some manifests in their order, and what is wrong with or left out of them."""

    workloads: tuple[Workload, ...]
    findings: tuple[Problem, ...]


def workloads_of(
    manifests: Sequence[Manifest], others: Sequence[Manifest] = (), *, is_whole: bool = True
) -> WorkloadReading:
    """The workloads among the objects of one cluster. `is_whole`: what is not among them is not there.

    Services, autoscalers and what else changes pods are looked up among `manifests` and `others` (objects
    of the same cluster whose workloads are read elsewhere).
    """
    everything = (*manifests, *others)
    reader = _WorkloadReader(
        read_priorities(everything, is_whole=is_whole),
        read_pod_rules(everything),
        read_storage(everything, is_whole=is_whole),
        _services(everything),
        _autoscalers(everything),
    )
    workloads = []
    for manifest in manifests:
        controller = _CONTROLLERS.get((manifest.group, manifest.kind))
        if controller is not None:
            workloads.append(reader.read(_modern(manifest, reader.findings), controller))
        elif (manifest.group, manifest.kind) == ("batch", "CronJob"):
            job = Fields(manifest, reader.findings, manifest.body).at("spec").at("jobTemplate")
            _restarts(job.at("spec").at("template").at("spec"), _ENDING)
    reader.findings += not_forecast(manifests, known=_CONTROLLERS.keys())
    return WorkloadReading(tuple(workloads), tuple(reader.findings))


def _services(manifests: Iterable[Manifest]) -> dict[str, list[Mapping[str, str]]]:
    # Per namespace, what the Services select.
    selectors: dict[str, list[Mapping[str, str]]] = {}
    for manifest in manifests:
        if (manifest.group, manifest.kind) == ("", "Service"):
            selector = mapping_at(manifest.body, "spec", "selector")
            if selector:
                selectors.setdefault(manifest.namespace, []).append({k: str(v) for k, v in selector.items()})
    return selectors


def _autoscalers(manifests: Iterable[Manifest]) -> dict[tuple[str, str, str], Manifest]:
    # By namespace, kind and name of what they scale.
    autoscalers: dict[tuple[str, str, str], Manifest] = {}
    for manifest in manifests:
        if (manifest.group, manifest.kind) == ("autoscaling", "HorizontalPodAutoscaler"):
            target = value_at(manifest.body, "spec", "scaleTargetRef")
            if isinstance(target, dict):
                autoscalers[manifest.namespace, str(target.get("kind")), str(target.get("name"))] = manifest
    return autoscalers


class _WorkloadReader:
    def __init__(
        self,
        priorities: Priorities,
        rules: PodRules,
        storage: Storage,
        services: Mapping[str, Sequence[Mapping[str, str]]],
        autoscalers: Mapping[tuple[str, str, str], Manifest],
    ) -> None:
        self.priorities = priorities
        self.rules = rules
        self.storage = storage
        self.services = services
        self.autoscalers = autoscalers
        self.findings: list[Problem] = []

    def read(self, manifest: Manifest, controller: _Controller) -> Workload:
        """The workload that a manifest describes, its pods as admission changes them."""
        root = Fields(manifest, self.findings, manifest.body)
        spec = root.at("spec")
        if manifest.kind == "Pod":
            template, body = root, {"metadata": root.data.get("metadata"), "spec": root.data.get("spec")}
        else:
            template, body = spec.at("template"), dict(spec.at("template").data)
        hashed = template_hash(body)
        labels = template_labels(template.at("metadata"))
        added = {controller.label: hashed} if controller.label else {}
        if manifest.kind == "Job":
            added = {"batch.kubernetes.io/job-name": manifest.name, "job-name": manifest.name}
        selector = _selector(spec, labels) if controller.selects else None
        owner = Owner(
            namespace=manifest.namespace,
            kind=manifest.kind,
            added=added,
            spreads=self._spreads(manifest, selector, {**labels, **added}),
            template=hashed,
        )
        _restarts(template.at("spec"), controller.restarts)
        metadata = template.at("metadata")
        pod_spec = admitted(manifest.namespace, metadata, template.at("spec"), self.rules)
        volumes = read_volumes(manifest, pod_spec, spec.each("volumeClaimTemplates"), self.storage)
        pod = read_pod_spec(metadata, pod_spec, owner, self.priorities)
        workload = Workload(
            kind=manifest.kind,
            namespace=manifest.namespace,
            name=manifest.name,
            replicas=controller.replicas(spec),
            pod=replace(
                pod,
                volumes=volumes.needs,
                claims=volumes.claims,
                exclusive=volumes.exclusive,
                disks=volumes.disks,
                claimed=volumes.claimed,
                unmet=volumes.unmet,
            ),
            line=manifest.line,
            containers=read_containers(pod_spec),
            forbidden=unknown_priority(pod_spec, self.priorities)
            or forbidden(manifest.namespace, pod_spec, self.rules),
        )
        return controller.updates(self._scaled(manifest, workload), spec)

    def _spreads(
        self, manifest: Manifest, selector: LabelSelector | None, labels: Mapping[str, str]
    ) -> LabelSelector | None:
        # What kube-scheduler's default spreading counts: the pods of the Services and of the set.
        pairs: dict[str, str] = {}
        for chosen in self.services.get(manifest.namespace, ()):
            if all(labels.get(key) == value for key, value in chosen.items()):
                pairs |= chosen
        expressions: tuple[Any, ...] = ()
        if manifest.kind != "DaemonSet" and selector is not None:
            pairs |= dict(selector.match_labels)
            expressions = selector.match_expressions
            if manifest.kind == "Deployment":
                # Its pods belong to a ReplicaSet, which selects one template only.
                pairs["pod-template-hash"] = labels["pod-template-hash"]
        if not pairs and not expressions:
            return None
        return LabelSelector(tuple(sorted(pairs.items())), expressions)

    def _scaled(self, manifest: Manifest, workload: Workload) -> Workload:
        # What an autoscaler makes of the replicas before it has measured anything.
        scaler = self.autoscalers.get((manifest.namespace, manifest.kind, manifest.name))
        if scaler is None:
            return workload
        bounds = Fields(scaler, self.findings, scaler.body).at("spec")
        least = bounds.whole("minReplicas", 1)
        written = workload.replicas
        most = max(least, bounds.whole("maxReplicas", written, least=1))
        replicas = min(max(written, least), most) if written else 0
        if not written:
            outcome = "0 replicas switch it off, and none are predicted"
        elif replicas == written:
            outcome = f"the {written} as written are predicted"
        else:
            outcome = f"{replicas} are predicted, not the {written} as written"
        detail = (
            f"{manifest.title} is scaled by HorizontalPodAutoscaler {scaler.name} between {least} and {most} "
            f"replicas; {outcome}."
        )
        brief = f"{manifest.title}: {replicas} replicas, by its autoscaler {least} to {most}"
        self.findings.append(
            problem_at(manifest.file, manifest.find("spec"), AUTOSCALED, detail, Severity.WARNING, brief)
        )
        return replace(workload, replicas=replicas)


def _selector(spec: Fields, labels: Mapping[str, str]) -> LabelSelector | None:
    # Which pods a controller counts as its own.
    selector = read_selector(spec, "selector")
    if selector is None or not (selector.match_labels or selector.match_expressions):
        spec.say("selector", "must be set: it says which pods are the controller's own.")
    elif not matches(selector, labels):
        spec.say("selector", "does not match the labels of the template.")
    return selector


def _restarts(spec: Fields, allowed: tuple[str, ...]) -> None:
    if "restartPolicy" in spec:
        spec.one_of("restartPolicy", allowed, "")


# --- how many ----------------------------------------------------------------------------------


def _one(_: Fields) -> int:
    return 1


def _desired(spec: Fields) -> int:
    pods = spec.whole("replicas", 1)
    return pods if _within(spec, "replicas", pods) else 1


def _together(spec: Fields) -> int:
    # A Job's pods that run at the same time.
    pods = spec.whole("parallelism", 1)
    together = min(pods, spec.whole("completions", pods))
    mode = spec.one_of("completionMode", ("NonIndexed", "Indexed"), "NonIndexed")
    if mode == "Indexed" and "completions" not in spec:
        spec.say("completions", "must be set when completionMode is Indexed.")
    if spec.flag("suspend"):
        return 0
    return together if _within(spec, "parallelism", together) else 1


def _within(spec: Fields, key: str, pods: int) -> bool:
    if pods > MOST_PODS:
        spec.say(key, f"is {pods:,}; a Kubernetes cluster is built for at most {MOST_PODS:,} pods.")
    return pods <= MOST_PODS


# --- how pods are replaced ---------------------------------------------------------------------


def _deployment(workload: Workload, spec: Fields) -> Workload:
    """A Deployment's strategy, and how many pods an update may add and take, as numbers."""
    strategy = spec.at("strategy")
    kind = strategy.one_of("type", ("RollingUpdate", "Recreate"), "RollingUpdate")
    rolling = strategy.at("rollingUpdate")
    surge = _share(rolling, "maxSurge", workload.replicas, up=True)
    unavailable = _share(rolling, "maxUnavailable", workload.replicas, up=False)
    written = rolling.data.get("maxUnavailable")
    if kind == "Recreate" and "rollingUpdate" in strategy:
        strategy.say("rollingUpdate", "must not be set when type is Recreate.")
    _can_replace(rolling, surge="25%", unavailable="25%")
    if surge == 0 and unavailable == 0:
        # Kubernetes lets one pod go where rounding left nothing at all.
        unavailable = 1
    return replace(
        workload,
        strategy=Strategy(kind),
        max_surge=surge,
        max_unavailable=unavailable,
        unavailable_written="25%" if written is None else str(written),
        paused=spec.flag("paused"),
    )


def _stateful_set(workload: Workload, spec: Fields) -> Workload:
    """A StatefulSet's strategy, order and first number."""
    updates = spec.at("updateStrategy")
    kind = updates.one_of("type", ("RollingUpdate", "OnDelete"), "RollingUpdate")
    policy = spec.one_of("podManagementPolicy", ("OrderedReady", "Parallel"), "OrderedReady")
    return replace(
        workload,
        strategy=Strategy(kind),
        partition=updates.at("rollingUpdate").whole("partition", 0),
        first=spec.at("ordinals").whole("start", 0),
        ordered=policy == "OrderedReady",
    )


def _daemon_set(workload: Workload, spec: Fields) -> Workload:
    updates = spec.at("updateStrategy")
    kind = updates.one_of("type", ("RollingUpdate", "OnDelete"), "RollingUpdate")
    rolling = updates.at("rollingUpdate")
    surge, unavailable = (rolling.data.get(key) for key in ("maxSurge", "maxUnavailable"))
    if kind == "RollingUpdate":
        _can_replace(rolling, surge=0, unavailable=1)
    return replace(
        workload,
        strategy=Strategy(kind),
        max_surge=0,
        surge_written="0" if surge is None else str(surge),
        unavailable_written="1" if unavailable is None else str(unavailable),
    )


def _recreated(workload: Workload, _: Fields) -> Workload:
    return replace(workload, strategy=Strategy.RECREATE)


def _left_alone(workload: Workload, _: Fields) -> Workload:
    return replace(workload, strategy=Strategy.ON_DELETE)


def _can_replace(rolling: Fields, *, surge: str | int, unavailable: str | int) -> None:
    # As written, before it is rounded: the API server refuses a rollout that may neither add nor remove.
    amounts = (rolling.data.get("maxSurge"), surge), (rolling.data.get("maxUnavailable"), unavailable)
    written = [default if amount is None else amount for amount, default in amounts]
    if all(str(amount) in ("0", "0%") for amount in written):
        rolling.say("maxUnavailable", "must not be 0 while maxSurge is 0: no pod could ever be replaced.")


def _share(fields: Fields, key: str, replicas: int, *, up: bool) -> int:
    # A number of pods, or a percentage of the replicas: surge rounds up, unavailability down.
    value = fields.data.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    percent = _PERCENT.match("25%" if value is None else str(value))
    if percent is None:
        fields.say(key, f'is "{value}"; it must be a number of pods or a percentage such as 25%.')
        return 1 if up else 0
    share = replicas * int(percent[1])
    return -(-share // 100) if up else share // 100


# --- what is read ------------------------------------------------------------------------------


class _Controller(Struct, frozen=True):
    # How one kind is read: its replicas, how it replaces its pods, the label that it gives all pods of one
    # template, whether it has a selector, the restart policies that its pods may have ("": none is written,
    # which stands for Always).
    replicas: Callable[[Fields], int]
    updates: Callable[[Workload, Fields], Workload]
    label: str = ""
    selects: bool = True
    restarts: tuple[str, ...] = ("Always", "")


_ENDING: Final = ("OnFailure", "Never")
_DEPLOYMENT: Final = _Controller(_desired, _deployment, "pod-template-hash")
_DAEMON_SET: Final = _Controller(_one, _daemon_set, "controller-revision-hash")
_REPLICA_SET: Final = _Controller(_desired, _left_alone)
_CONTROLLERS: Final[Mapping[tuple[str, str], _Controller]] = {
    ("apps", "Deployment"): _DEPLOYMENT,
    ("apps", "StatefulSet"): _Controller(_desired, _stateful_set, "controller-revision-hash"),
    ("apps", "ReplicaSet"): _REPLICA_SET,
    ("apps", "DaemonSet"): _DAEMON_SET,
    ("batch", "Job"): _Controller(_together, _recreated, selects=False, restarts=_ENDING),
    ("", "Pod"): _Controller(_one, _recreated, selects=False, restarts=("Always", *_ENDING, "")),
    ("", "ReplicationController"): _REPLICA_SET,
    ("extensions", "Deployment"): _DEPLOYMENT,
    ("extensions", "ReplicaSet"): _REPLICA_SET,
    ("extensions", "DaemonSet"): _DAEMON_SET,
}
# Versions that Kubernetes 1.16 took away, and what they filled in otherwise than apps/v1 does.
_OLD_VERSIONS: Final[Mapping[tuple[str, str], Mapping[str, Mapping[str, Any]]]] = {
    ("extensions", "v1beta1"): {
        "Deployment": {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}},
        "DaemonSet": {"updateStrategy": {"type": "OnDelete"}},
    },
    ("apps", "v1beta1"): {"StatefulSet": {"updateStrategy": {"type": "OnDelete"}}},
    ("apps", "v1beta2"): {},
}


def _modern(manifest: Manifest, findings: list[Problem]) -> Manifest:
    """An object of an old version with what that version fills in; all others as they are."""
    spec = manifest.body.get("spec")
    old = _OLD_VERSIONS.get((manifest.group, manifest.version))
    bare = manifest.kind == "ReplicationController"
    if not isinstance(spec, dict) or (old is None and not bare):
        return manifest
    if old is not None:
        detail = f"{manifest.group}/{manifest.version} is served by no Kubernetes since 1.16; write apps/v1."
        Fields(manifest, findings, manifest.body).say("apiVersion", detail, Severity.WARNING)
    changed = {**(old or {}).get(manifest.kind, {}), **spec}
    selector = changed.get("selector")
    if bare and isinstance(selector, dict) and selector:
        changed["selector"] = {"matchLabels": selector}
    elif not selector and manifest.version != "v1beta2":
        labels = Fields(manifest, [], spec).at("template").at("metadata").pairs("labels")
        changed["selector"] = {"matchLabels": labels}
    return replace(manifest, body={**manifest.body, "spec": changed})
