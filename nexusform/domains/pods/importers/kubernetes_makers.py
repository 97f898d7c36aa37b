"""Objects that make or change pods and that nobody reads here: one warning per kind says so.

A table of well-known ones, by API group and kind ("*" = every kind of the group); the last rows are groups
whose objects make no pods. What stands in no row and is not Kubernetes' own may have an operator that does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from nexusform.diagnostics import Problem, Severity
from nexusform.documents.shapes import list_at, mappings_at
from nexusform.documents.yaml_text import problem_at
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest, is_fleet_group
from nexusform.words import form

NOT_PREDICTED: Final = "pods-are-not-predicted"
_ANY: Final = "*"

_MAKES: Final = "their pods are not forecast, and the room that they take is not counted"
_MAY_MAKE: Final = "nexusform does not know this kind; pods that an operator may make of it are not forecast"
_GOES: Final = "their pods come and go; they are left out"
_SCALES: Final = "it changes replicas, which are forecast as they are written"
_RESIZES: Final = "it changes what pods ask for, which is forecast as it is written"
_CHANGES: Final = (
    "it may change pods (add containers, labels, tolerations) before they are scheduled, unseen here"
)
_DEVICES: Final = "devices that are claimed (DRA) are not counted; pods that claim some may stay Pending"
_NOTHING: Final = ""

_WHAT: Final[Mapping[tuple[str, str], str]] = {
    ("batch", "CronJob"): _GOES,
    ("argoproj.io", "Application"): _MAKES,
    ("argoproj.io", "ApplicationSet"): _MAKES,
    ("argoproj.io", "CronWorkflow"): _MAKES,
    ("argoproj.io", "Rollout"): _MAKES,
    ("argoproj.io", "Workflow"): _MAKES,
    ("argoproj.io", _ANY): _NOTHING,
    ("helm.toolkit.fluxcd.io", "HelmRelease"): _MAKES,
    ("kustomize.toolkit.fluxcd.io", "Kustomization"): _MAKES,
    ("helm.cattle.io", "HelmChart"): _MAKES,
    ("kubevirt.io", "VirtualMachine"): _MAKES,
    ("kubevirt.io", "VirtualMachineInstance"): _MAKES,
    ("kubevirt.io", "VirtualMachineInstanceReplicaSet"): _MAKES,
    ("pool.kubevirt.io", "VirtualMachinePool"): _MAKES,
    ("monitoring.coreos.com", "Alertmanager"): _MAKES,
    ("monitoring.coreos.com", "Prometheus"): _MAKES,
    ("monitoring.coreos.com", "PrometheusAgent"): _MAKES,
    ("monitoring.coreos.com", "ThanosRuler"): _MAKES,
    ("serving.knative.dev", "Service"): _MAKES,
    ("serving.knative.dev", "Configuration"): _MAKES,
    ("batch.volcano.sh", "Job"): _MAKES,
    ("jobset.x-k8s.io", "JobSet"): _MAKES,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _MAKES,
    ("kubeflow.org", _ANY): _MAKES,
    ("ray.io", _ANY): _MAKES,
    ("postgresql.cnpg.io", "Cluster"): _MAKES,
    ("kafka.strimzi.io", "Kafka"): _MAKES,
    ("keda.sh", "ScaledJob"): _MAKES,
    ("keda.sh", "ScaledObject"): _SCALES,
    ("keda.sh", _ANY): _NOTHING,
    ("autoscaling.k8s.io", "VerticalPodAutoscaler"): _RESIZES,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): _CHANGES,
    ("resource.k8s.io", "ResourceClaim"): _DEVICES,
    ("resource.k8s.io", "ResourceClaimTemplate"): _DEVICES,
    ("monitoring.coreos.com", _ANY): _NOTHING,
    ("cert-manager.io", _ANY): _NOTHING,
    ("acme.cert-manager.io", _ANY): _NOTHING,
    ("external-secrets.io", _ANY): _NOTHING,
    ("helm.toolkit.fluxcd.io", _ANY): _NOTHING,
    ("source.toolkit.fluxcd.io", _ANY): _NOTHING,
    ("k8s.cni.cncf.io", "NetworkAttachmentDefinition"): _NOTHING,
    ("networking.istio.io", _ANY): _NOTHING,
    ("security.istio.io", _ANY): _NOTHING,
    ("telemetry.istio.io", _ANY): _NOTHING,
    ("metallb.io", _ANY): _NOTHING,
    ("cilium.io", _ANY): _NOTHING,
    ("crd.projectcalico.org", _ANY): _NOTHING,
    ("projectcalico.org", _ANY): _NOTHING,
    ("traefik.containo.us", _ANY): _NOTHING,
    ("traefik.io", _ANY): _NOTHING,
}


def not_forecast(manifests: Iterable[Manifest], known: Collection[tuple[str, str]]) -> list[Problem]:
    """A warning per kind, at its first object. `known`: group and kind of what is read."""
    alike: dict[tuple[str, str, str], list[Manifest]] = {}
    for manifest in manifests:
        if (manifest.group, manifest.kind) not in known:
            what = _what(manifest)
            if what:
                alike.setdefault((manifest.group, manifest.kind, what), []).append(manifest)
    return [_warning(objects, what) for (_, _, what), objects in alike.items()]


def _what(manifest: Manifest) -> str:
    """What an object of this kind does to pods, by the table; of others by their group."""
    group, kind = manifest.group, manifest.kind
    for row in ((group, kind), (group, _ANY)):
        if row in _WHAT:
            return _WHAT[row]
    if kind == "MutatingWebhookConfiguration":
        return _CHANGES if _sees_pods(manifest.body) else _NOTHING
    # Kubernetes' own groups are short or end in k8s.io; those of the fleet are read elsewhere.
    its_own = "." not in group or group.endswith(".k8s.io")
    return _NOTHING if its_own or is_fleet_group(group) else _MAY_MAKE


def _sees_pods(body: Mapping[str, Any]) -> bool:
    rules = [rule for hook in mappings_at(body, "webhooks") for rule in mappings_at(hook, "rules")]
    return any({"*", "*/*", "pods"} & set(map(str, list_at(rule, "resources"))) for rule in rules)


def _warning(objects: list[Manifest], what: str) -> Problem:
    first, count = objects[0], len(objects)
    more = f" and {count - 1} more {form(count - 1, 'object')} of this kind" if count > 1 else ""
    detail = f"{first.title}{more} ({first.group or first.version}): {what}."
    brief = f"{first.title}{more}: {what}"
    return problem_at(first.file, first.place, NOT_PREDICTED, detail, Severity.WARNING, brief)
