"""Kinds that create or change pods outside of predictions: one warning per kind.

A table of well-known kinds, by API group and kind ("*" = every kind of the group); the last rows
are groups without effect on pods. For kinds in no row and outside of Kubernetes' own groups an
operator may exist.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import group_by, select_word_form
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
    "it may change pods (add containers, labels, tolerations) before they are scheduled; this is "
    "not predicted"
)
_NO_EFFECT: Final = ""

_CREATING_KINDS: Final = (
    *(
        ("argoproj.io", name)
        for name in ("Application", "ApplicationSet", "CronWorkflow", "Rollout", "Workflow")
    ),
    *(("helm.toolkit.fluxcd.io", "HelmRelease"), ("kustomize.toolkit.fluxcd.io", "Kustomization")),
    ("helm.cattle.io", "HelmChart"),
    *(
        ("kubevirt.io", f"VirtualMachine{suffix}")
        for suffix in ("", "Instance", "InstanceReplicaSet")
    ),
    ("pool.kubevirt.io", "VirtualMachinePool"),
    *(
        ("monitoring.coreos.com", name)
        for name in ("Alertmanager", "Prometheus", "PrometheusAgent", "ThanosRuler")
    ),
    *(
        ("serving.knative.dev", "Service"),
        ("serving.knative.dev", "Configuration"),
        ("batch.volcano.sh", "Job"),
    ),
    *(
        ("jobset.x-k8s.io", "JobSet"),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
        ("keda.sh", "ScaledJob"),
    ),
    *(
        ("kubeflow.org", _ANY),
        ("ray.io", _ANY),
        ("postgresql.cnpg.io", "Cluster"),
        ("kafka.strimzi.io", "Kafka"),
    ),
)
_SILENT_GROUPS: Final = (
    *("argoproj.io", "keda.sh", "monitoring.coreos.com", "cert-manager.io", "acme.cert-manager.io"),
    *("external-secrets.io", "helm.toolkit.fluxcd.io", "source.toolkit.fluxcd.io"),
    *("networking.istio.io", "security.istio.io", "telemetry.istio.io", "metallb.io", "cilium.io"),
    *("crd.projectcalico.org", "projectcalico.org", "traefik.containo.us", "traefik.io"),
)
_EFFECTS: Final[Mapping[tuple[str, str], str]] = {
    ("batch", "CronJob"): _TRANSIENT,
    **dict.fromkeys(_CREATING_KINDS, _CREATES),
    ("keda.sh", "ScaledObject"): _SCALES,
    ("autoscaling.k8s.io", "VerticalPodAutoscaler"): _RESIZES,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"): _CHANGES,
    ("k8s.cni.cncf.io", "NetworkAttachmentDefinition"): _NO_EFFECT,
    **{(group, _ANY): _NO_EFFECT for group in _SILENT_GROUPS},
}


def list_unpredicted_problems(
    manifests: Iterable[Manifest], known_kinds: Collection[tuple[str, str]]
) -> list[Problem]:
    """Return a warning per kind with an effect on pods, except for `known_kinds` read elsewhere.

    `known_kinds` are pairs of group and kind.
    """
    unknown_manifests = [item for item in manifests if (item.group, item.kind) not in known_kinds]
    effects = group_by(
        unknown_manifests, lambda item: (item.group, item.kind, _describe_effect_on_pods(item))
    )
    problems: list[Problem] = []
    for (_, _, effect), objects in effects.items():
        if effect == _NO_EFFECT:
            continue
        first = objects[0]
        further = len(objects) - 1
        further_text = (
            f" and {further} more {select_word_form(further, 'object')} of this kind"
            if further
            else ""
        )
        detail = f"{first.title}{further_text} ({first.group or first.version}): {effect}."
        summary = f"{first.title}{further_text}: {effect}"
        problems.append(
            build_problem(
                first.file, first.position, NOT_PREDICTED, detail, Severity.WARNING, summary
            )
        )
    return problems


def _describe_effect_on_pods(manifest: Manifest) -> str:
    """Return the effect of an object on pods, _NO_EFFECT if it has none.

    A table of kinds decides first, then the rules of a mutating webhook. Other kinds count by their
    group: objects of a custom kind may create pods.
    """
    group = manifest.group
    kind = manifest.kind
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
