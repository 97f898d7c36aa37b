"""Kinds that create or change pods outside of predictions: one warning per kind. A table of well-known kinds,
by API group and kind ("*" = every kind of the group); the last rows are groups without effect on pods. For
kinds in no row and outside of Kubernetes' own groups an operator may exist.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import select_word_form
from nexusform.documents.yaml_documents import build_problem
from nexusform.domains.pods.importers.manifest_parser import Manifest, is_fleet_group
from nexusform.json_data.plain_data import get_list, list_mappings

NOT_PREDICTED: Final = "pods-not-predicted"
_ANY: Final = "*"

_CREATES: Final = "their pods and the capacity they use are not predicted"
_MAY_CREATE: Final = "unknown kind: pods that an operator may create for it are not predicted"
_TRANSIENT: Final = "their pods are short-lived and not predicted"
_SCALES: Final = "it changes replicas; the configured number is predicted"
_RESIZES: Final = "it changes resource requests; the configured ones are predicted"
_CHANGES: Final = (
    "it may change pods (add containers, labels, tolerations) before they are scheduled; this is not predicted"
)
_NO_EFFECT: Final = ""

_EFFECTS: Final[Mapping[tuple[str, str], str]] = {
    ("batch", "CronJob"): _TRANSIENT,
    ("argoproj.io", "Application"): _CREATES,
    ("argoproj.io", "ApplicationSet"): _CREATES,
    ("argoproj.io", "CronWorkflow"): _CREATES,
    ("argoproj.io", "Rollout"): _CREATES,
    ("argoproj.io", "Workflow"): _CREATES,
    ("argoproj.io", _ANY): _NO_EFFECT,
    ("helm.toolkit.fluxcd.io", "HelmRelease"): _CREATES,
    ("kustomize.toolkit.fluxcd.io", "Kustomization"): _CREATES,
    ("helm.cattle.io", "HelmChart"): _CREATES,
    ("kubevirt.io", "VirtualMachine"): _CREATES,
    ("kubevirt.io", "VirtualMachineInstance"): _CREATES,
    ("kubevirt.io", "VirtualMachineInstanceReplicaSet"): _CREATES,
    ("pool.kubevirt.io", "VirtualMachinePool"): _CREATES,
    ("monitoring.coreos.com", "Alertmanager"): _CREATES,
    ("monitoring.coreos.com", "Prometheus"): _CREATES,
    ("monitoring.coreos.com", "PrometheusAgent"): _CREATES,
    ("monitoring.coreos.com", "ThanosRuler"): _CREATES,
    ("serving.knative.dev", "Service"): _CREATES,
    ("serving.knative.dev", "Configuration"): _CREATES,
    ("batch.volcano.sh", "Job"): _CREATES,
    ("jobset.x-k8s.io", "JobSet"): _CREATES,
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _CREATES,
    ("kubeflow.org", _ANY): _CREATES,
    ("ray.io", _ANY): _CREATES,
    ("postgresql.cnpg.io", "Cluster"): _CREATES,
    ("kafka.strimzi.io", "Kafka"): _CREATES,
    ("keda.sh", "ScaledJob"): _CREATES,
    ("keda.sh", "ScaledObject"): _SCALES,
    ("keda.sh", _ANY): _NO_EFFECT,
    ("autoscaling.k8s.io", "VerticalPodAutoscaler"): _RESIZES,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): _CHANGES,
    ("monitoring.coreos.com", _ANY): _NO_EFFECT,
    ("cert-manager.io", _ANY): _NO_EFFECT,
    ("acme.cert-manager.io", _ANY): _NO_EFFECT,
    ("external-secrets.io", _ANY): _NO_EFFECT,
    ("helm.toolkit.fluxcd.io", _ANY): _NO_EFFECT,
    ("source.toolkit.fluxcd.io", _ANY): _NO_EFFECT,
    ("k8s.cni.cncf.io", "NetworkAttachmentDefinition"): _NO_EFFECT,
    ("networking.istio.io", _ANY): _NO_EFFECT,
    ("security.istio.io", _ANY): _NO_EFFECT,
    ("telemetry.istio.io", _ANY): _NO_EFFECT,
    ("metallb.io", _ANY): _NO_EFFECT,
    ("cilium.io", _ANY): _NO_EFFECT,
    ("crd.projectcalico.org", _ANY): _NO_EFFECT,
    ("projectcalico.org", _ANY): _NO_EFFECT,
    ("traefik.containo.us", _ANY): _NO_EFFECT,
    ("traefik.io", _ANY): _NO_EFFECT,
}


def list_unpredicted_problems(manifests: Iterable[Manifest], known_kinds: Collection[tuple[str, str]]) -> list[Problem]:
    """Return a warning per kind with an effect on pods, at its first object. `known_kinds`: group and kind of the
    objects read elsewhere, without a warning.
    """
    manifests_by_effect: dict[tuple[str, str, str], list[Manifest]] = {}  # by group, kind and effect
    for manifest in manifests:
        if (manifest.group, manifest.kind) not in known_kinds:
            effect = _describe_effect_on_pods(manifest)
            if effect:
                manifests_by_effect.setdefault((manifest.group, manifest.kind, effect), []).append(manifest)
    problems: list[Problem] = []
    for (_, _, effect), objects in manifests_by_effect.items():
        first, further = objects[0], len(objects) - 1
        further_text = f" and {further} more {select_word_form(further, 'object')} of this kind" if further else ""
        detail = f"{first.title}{further_text} ({first.group or first.version}): {effect}."
        summary = f"{first.title}{further_text}: {effect}"
        problems.append(build_problem(first.file, first.position, NOT_PREDICTED, detail, Severity.WARNING, summary))
    return problems


def _describe_effect_on_pods(manifest: Manifest) -> str:
    """Return the effect of an object on pods, "" if it has none: by the table of kinds, for a mutating webhook by its
    rules, for other kinds by their group (objects of a custom kind may create pods).
    """
    group, kind = manifest.group, manifest.kind
    effect = _EFFECTS.get((group, kind), _EFFECTS.get((group, _ANY)))
    if effect is not None:
        return effect
    if kind == "MutatingWebhookConfiguration":
        has_pod_rules = any(
            {"*", "*/*", "pods"} & set(map(str, get_list(rule, "resources")))
            for hook in list_mappings(manifest.body, "webhooks")
            for rule in list_mappings(hook, "rules")
        )
        return _CHANGES if has_pod_rules else _NO_EFFECT
    # Kubernetes' own groups are short or end in k8s.io; fleet groups are read elsewhere.
    is_built_in = "." not in group or group.endswith(".k8s.io")
    return _NO_EFFECT if is_built_in or is_fleet_group(group) else _MAY_CREATE
