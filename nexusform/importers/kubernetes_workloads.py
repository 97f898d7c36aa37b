"""Manifests -> workloads: who runs how many pods of which template."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity
from nexusform.importers.kubernetes_manifests import Fields, Manifest
from nexusform.importers.kubernetes_pod_spec import (
    Owner,
    Priorities,
    read_pod_spec,
    read_priorities,
    read_selector,
    template_hash,
    template_labels,
)
from nexusform.importers.yaml_text import problem_at
from nexusform.scheduling.matching import LabelSelector, matches
from nexusform.scheduling.pods.workloads import Strategy, Workload

NOT_PREDICTED: Final = "pods-are-not-predicted"
# What Kubernetes names as the most that one cluster carries.
MOST_PODS: Final = 150_000
AUTOSCALED: Final = "replicas-are-changed-by-an-autoscaler"

_KINDS: Final = frozenset(
    {
        ("apps", "Deployment"),
        ("apps", "StatefulSet"),
        ("apps", "ReplicaSet"),
        ("apps", "DaemonSet"),
        ("batch", "Job"),
        ("", "Pod"),
    }
)
_UNPREDICTED: Final = frozenset({("batch", "CronJob"), ("", "ReplicationController")})
# The label that a controller gives all pods of one template.
_TEMPLATE_LABEL: Final = {
    "Deployment": "pod-template-hash",
    "StatefulSet": "controller-revision-hash",
    "DaemonSet": "controller-revision-hash",
}
_PERCENT: Final = re.compile(r"([0-9]{1,4})%\Z")


class WorkloadReading(Struct, frozen=True):
    """The workloads of some manifests in their order, and what is wrong with or left out of them."""

    workloads: tuple[Workload, ...]
    findings: tuple[Problem, ...]


def is_workload(manifest: Manifest) -> bool:
    """Whether pods of an object are predicted."""
    return (manifest.group, manifest.kind) in _KINDS


def workloads_of(manifests: Sequence[Manifest], others: Sequence[Manifest] = ()) -> WorkloadReading:
    """The workloads among the objects of one cluster.

    Services, PriorityClasses and autoscalers are looked up among `manifests` and `others` (objects of the
    same cluster whose workloads are read elsewhere).
    """
    everything = (*manifests, *others)
    reader = _WorkloadReader(read_priorities(everything), _services(everything), _autoscalers(everything))
    workloads = [reader.read(manifest) for manifest in manifests if is_workload(manifest)]
    for manifest in manifests:
        if (manifest.group, manifest.kind) in _UNPREDICTED:
            detail = f"{manifest.title}: pods of a {manifest.kind} come and go; they are left out."
            note = problem_at(manifest.file, manifest.place, NOT_PREDICTED, detail, Severity.WARNING)
            reader.findings.append(note)
    return WorkloadReading(tuple(workloads), tuple(reader.findings))


def _services(manifests: Iterable[Manifest]) -> dict[str, list[Mapping[str, str]]]:
    # Per namespace, what the Services select.
    selectors: dict[str, list[Mapping[str, str]]] = {}
    for manifest in manifests:
        if (manifest.group, manifest.kind) == ("", "Service"):
            spec = manifest.body.get("spec")
            selector = spec.get("selector") if isinstance(spec, dict) else None
            if isinstance(selector, dict) and selector:
                selectors.setdefault(manifest.namespace, []).append({k: str(v) for k, v in selector.items()})
    return selectors


def _autoscalers(manifests: Iterable[Manifest]) -> dict[tuple[str, str, str], Manifest]:
    # By namespace, kind and name of what they scale.
    autoscalers: dict[tuple[str, str, str], Manifest] = {}
    for manifest in manifests:
        if (manifest.group, manifest.kind) == ("autoscaling", "HorizontalPodAutoscaler"):
            spec = manifest.body.get("spec")
            target = spec.get("scaleTargetRef") if isinstance(spec, dict) else None
            if isinstance(target, dict):
                autoscalers[manifest.namespace, str(target.get("kind")), str(target.get("name"))] = manifest
    return autoscalers


class _WorkloadReader:
    def __init__(
        self,
        priorities: Priorities,
        services: Mapping[str, Sequence[Mapping[str, str]]],
        autoscalers: Mapping[tuple[str, str, str], Manifest],
    ) -> None:
        self.priorities = priorities
        self.services = services
        self.autoscalers = autoscalers
        self.findings: list[Problem] = []

    def read(self, manifest: Manifest) -> Workload:
        root = Fields(manifest, self.findings, manifest.body)
        spec = root.at("spec")
        if manifest.kind == "Pod":
            template, body = root, {"metadata": root.data.get("metadata"), "spec": root.data.get("spec")}
        else:
            template, body = spec.at("template"), dict(spec.at("template").data)
        hashed = template_hash(body)
        labels = template_labels(template.at("metadata"))
        label = _TEMPLATE_LABEL.get(manifest.kind)
        added = {label: hashed} if label else {}
        if manifest.kind == "Job":
            added = {"batch.kubernetes.io/job-name": manifest.name, "job-name": manifest.name}
        selector = self._selector(manifest.kind, spec, labels)
        owner = Owner(
            namespace=manifest.namespace,
            kind=manifest.kind,
            added=added,
            spreads=self._spreads(manifest, selector, {**labels, **added}),
            template=hashed,
        )
        pod = read_pod_spec(template.at("metadata"), template.at("spec"), owner, self.priorities)
        workload = Workload(
            kind=manifest.kind,
            namespace=manifest.namespace,
            name=manifest.name,
            replicas=_replicas(manifest.kind, spec),
            pod=pod,
            line=manifest.line,
        )
        return self._scaled(manifest, _with_updates(workload, spec))

    def _selector(self, kind: str, spec: Fields, labels: Mapping[str, str]) -> LabelSelector | None:
        # Which pods a controller counts as its own.
        if kind in ("Pod", "Job"):
            return None
        selector = read_selector(spec, "selector")
        if selector is None or not (selector.match_labels or selector.match_expressions):
            spec.say("selector", "must be set: it says which pods are the controller's own.")
        elif not matches(selector, labels):
            spec.say("selector", "does not match the labels of the template.")
        return selector

    def _spreads(
        self, manifest: Manifest, selector: LabelSelector | None, labels: Mapping[str, str]
    ) -> LabelSelector | None:
        # What kube-scheduler's default spreading counts: the pods of the Services and of the set.
        pairs: dict[str, str] = {}
        for chosen in self.services.get(manifest.namespace, ()):
            if all(labels.get(key) == value for key, value in chosen.items()):
                pairs |= chosen
        expressions: tuple[Any, ...] = ()
        if manifest.kind in ("Deployment", "ReplicaSet", "StatefulSet") and selector is not None:
            pairs |= dict(selector.match_labels)
            expressions = selector.match_expressions
            if manifest.kind == "Deployment":
                # Its pods belong to a ReplicaSet, which selects one template only.
                pairs["pod-template-hash"] = labels["pod-template-hash"]
        if not pairs and not expressions:
            return None
        return LabelSelector(tuple(sorted(pairs.items())), expressions)

    def _scaled(self, manifest: Manifest, workload: Workload) -> Workload:
        scaler = self.autoscalers.get((manifest.namespace, manifest.kind, manifest.name))
        if scaler is None:
            return workload
        detail = (
            f"{manifest.title} is scaled by HorizontalPodAutoscaler {scaler.name}; the {workload.replicas} "
            "replicas as written are predicted."
        )
        self.findings.append(
            problem_at(manifest.file, manifest.find("spec"), AUTOSCALED, detail, Severity.WARNING)
        )
        return replace(workload, autoscaler=scaler.name)


def _replicas(kind: str, spec: Fields) -> int:
    if kind == "Job":
        if spec.flag("suspend"):
            return 0
        pods = spec.whole("parallelism", 1)
        together = min(pods, spec.whole("completions", pods))
        return together if _within(spec, "parallelism", together) else 1
    if kind in ("Pod", "DaemonSet"):
        return 1
    pods = spec.whole("replicas", 1)
    return pods if _within(spec, "replicas", pods) else 1


def _within(spec: Fields, key: str, pods: int) -> bool:
    if pods > MOST_PODS:
        spec.say(key, f"is {pods:,}; a Kubernetes cluster is built for at most {MOST_PODS:,} pods.")
    return pods <= MOST_PODS


def _with_updates(workload: Workload, spec: Fields) -> Workload:
    match workload.kind:
        case "Deployment":
            return _deployment(workload, spec.at("strategy"))
        case "StatefulSet":
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
        case "DaemonSet":
            kind = spec.at("updateStrategy").one_of("type", ("RollingUpdate", "OnDelete"), "RollingUpdate")
            return replace(workload, strategy=Strategy(kind))
        case "Pod" | "Job":
            return replace(workload, strategy=Strategy.RECREATE)
    return workload


def _deployment(workload: Workload, strategy: Fields) -> Workload:
    kind = strategy.one_of("type", ("RollingUpdate", "Recreate"), "RollingUpdate")
    rolling = strategy.at("rollingUpdate")
    surge = _share(rolling, "maxSurge", workload.replicas, up=True)
    unavailable = _share(rolling, "maxUnavailable", workload.replicas, up=False)
    written = rolling.data.get("maxUnavailable")
    if surge == 0 and unavailable == 0:
        # Kubernetes lets one pod go where rounding left nothing at all.
        unavailable = 1
    return replace(
        workload,
        strategy=Strategy(kind),
        max_surge=surge,
        max_unavailable=unavailable,
        unavailable_written="25%" if written is None else str(written),
    )


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
