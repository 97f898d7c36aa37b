"""Tests of workloads from manifests: the scheduler's input, with the API server's defaults."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import yaml

from nexusform.domains.pods.importers.kubernetes_workloads import ParsedWorkloads, collect_workloads
from nexusform.domains.pods.importers.manifest_parser import parse_manifests
from nexusform.domains.pods.scheduling.cluster_records import (
    HostPort,
    PodSpec,
    Requests,
    Strategy,
    Workload,
)
from nexusform.kubernetes.matching import (
    LabelSelector,
    NodeSelectorTerm,
    Requirement,
    Taint,
    Toleration,
    build_label_selector,
    is_matching_toleration,
)

MIB = 1 << 20
GIB = 1 << 30
ONE = [{"name": "c"}]
NEITHER = {"maxSurge": 0, "maxUnavailable": 0}


def build_deployment(spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": more.pop("kind", "Deployment"),
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": ONE, **(spec or {})},
            },
            **more,
        },
    }


def build_job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": ONE}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": template, **spec},
    }


def parse_workloads(*objects: dict[str, Any]) -> ParsedWorkloads:
    reading = parse_manifests("m.yaml", yaml.safe_dump_all(objects, sort_keys=False))
    assert reading.findings == ()
    return collect_workloads(reading.manifests)


def parse_workload(*objects: dict[str, Any]) -> Workload:
    reading = parse_workloads(*objects)
    assert reading.findings == ()
    return reading.workloads[0]


def parse_pod(spec: dict[str, Any]) -> PodSpec:
    return parse_workload(build_deployment(spec)).pod


def get_finding(*objects: dict[str, Any]) -> str:
    (finding,) = parse_workloads(*objects).findings
    assert finding.line > 0
    return f"{finding.severity.value}: {finding.detail}"


# --- requests -------------------------------------------------------------------------------------


def build_container(cpu: str = "", memory: str = "", **more: Any) -> dict[str, Any]:
    amounts = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value}
    return {"name": "c", "resources": {"requests": amounts}, **more}


def test_requests_are_summed_over_containers() -> None:
    found = parse_pod({"containers": [build_container("250m", "64Mi"), build_container("1", "1G")]})
    assert found.requests == Requests(1250, 64 * MIB + 10**9)
    assert found.scored_requests == found.requests


def test_container_without_requests_counts_in_scores_only() -> None:
    found = parse_pod({"containers": [build_container("250m"), {"name": "d"}]})
    assert found.requests == Requests(250, 0)
    assert found.scored_requests == Requests(350, 400 * MIB)


def test_largest_init_container_sets_the_minimum() -> None:
    found = parse_pod(
        {
            "containers": [build_container("500m", "1Gi")],
            "initContainers": [build_container("2", "10Mi"), build_container("1", "3Gi")],
        }
    )
    assert found.requests == Requests(2000, 3 * GIB)


def test_sidecars_are_added_to_all_later_containers() -> None:
    sidecar = build_container("100m", restartPolicy="Always")
    found = parse_pod(
        {
            "containers": [build_container("500m")],
            "initContainers": [build_container("590m"), sidecar, build_container("550m")],
        }
    )
    # 550m + sidecar exceeds 500m + sidecar, and 590m alone.
    assert found.requests.cpu == 650


def test_limits_replace_missing_requests_and_overhead_is_added() -> None:
    limited = {
        "name": "c",
        "resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}},
    }
    found = parse_pod({"containers": [limited], "overhead": {"cpu": "250m", "memory": "120Mi"}})
    assert found.requests == Requests(1250, GIB + 120 * MIB)


def test_other_resources_and_pod_level_requests() -> None:
    gpu = {"name": "c", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    assert parse_pod({"containers": [gpu]}).requests.other_resources == (("nvidia.com/gpu", 2),)
    assert (
        parse_pod(
            {"containers": [build_container("1")], "resources": {"requests": {"cpu": "3"}}}
        ).requests.cpu
        == 3000
    )
    # A limit of the whole pod is its request only if no container has a request.
    limit = {"resources": {"limits": {"cpu": "4", "memory": "2Gi"}}}
    assert parse_pod(
        {"containers": [build_container("1"), build_container("500m")], **limit}
    ).requests == Requests(1500, 2 * GIB)


def test_malformed_amount_is_reported_once() -> None:
    assert get_finding(build_deployment({"containers": [build_container("lots")]})) == (
        "error: Deployment shop/web: spec.template.spec.containers.0.resources.requests.cpu is "
        '"lots", not an amount such as 500m or 2Gi.'
    )


# --- node and pod rules ---------------------------------------------------------------------------


def test_node_rules() -> None:
    found = parse_pod(
        {
            "nodeSelector": {"disk": "ssd", "arch": "x"},
            "nodeName": "n1",
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "cores", "operator": "Gt", "values": ["4"]}
                                ]
                            },
                            {
                                "matchFields": [
                                    {"key": "metadata.name", "operator": "In", "values": ["n1"]}
                                ]
                            },
                        ]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 7,
                            "preference": {
                                "matchExpressions": [{"key": "z", "operator": "Exists"}]
                            },
                        }
                    ],
                }
            },
        }
    )
    assert found.node_selector == (("arch", "x"), ("disk", "ssd"))
    assert found.node_name == "n1"
    assert found.node_terms == (
        NodeSelectorTerm((Requirement("cores", "Gt", ("4",)),)),
        NodeSelectorTerm((), (Requirement("metadata.name", "In", ("n1",)),)),
    )
    assert found.preferred_nodes == ((7, NodeSelectorTerm((Requirement("z", "Exists"),))),)


def build_anti_affinity(**term: Any) -> dict[str, Any]:
    whole = {"topologyKey": "zone", **term}
    return {
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [whole]}}
    }


def test_pod_terms() -> None:
    own = {"matchLabels": {"app": "web"}}
    (term,) = parse_pod(build_anti_affinity(labelSelector=own)).anti_affinity
    assert (term.topology_key, term.selector, term.namespaces) == (
        "zone",
        build_label_selector({"app": "web"}),
        ("shop",),
    )
    (term,) = parse_pod(build_anti_affinity(labelSelector=own, namespaces=["b", "a"])).anti_affinity
    assert term.namespaces == ("a", "b")
    (term,) = parse_pod(build_anti_affinity(labelSelector=own, namespaceSelector={})).anti_affinity
    assert (term.namespaces, term.namespace_selector) == ((), LabelSelector())
    (term,) = parse_pod(build_anti_affinity()).anti_affinity
    assert term.selector is None


def test_label_keys_are_merged_from_own_pod_labels() -> None:
    own = {"matchLabels": {"app": "web"}}
    (term,) = parse_pod(
        build_anti_affinity(
            labelSelector=own, matchLabelKeys=["app", "none"], mismatchLabelKeys=["app"]
        )
    ).anti_affinity
    assert term.selector is not None
    assert term.selector.match_expressions == (
        Requirement("app", "In", ("web",)),
        Requirement("app", "NotIn", ("web",)),
    )
    found = parse_pod(build_anti_affinity(labelSelector=own, matchLabelKeys=["pod-template-hash"]))
    assert found.anti_affinity[0].selector is not None
    assert found.anti_affinity[0].selector.match_expressions[0].values == (
        dict(found.labels)["pod-template-hash"],
    )


def test_spread_constraints() -> None:
    (bare,) = parse_pod(
        {
            "topologySpreadConstraints": [
                {"maxSkew": 2, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}
            ]
        }
    ).spread
    assert (bare.max_skew, bare.is_hard, bare.selector, bare.min_domains) == (2, False, None, 1)
    assert (bare.honor_affinity, bare.honor_taints) == (True, False)
    (full,) = parse_pod(
        {
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "z",
                    "whenUnsatisfiable": "DoNotSchedule",
                    "minDomains": 3,
                    "nodeAffinityPolicy": "Ignore",
                    "nodeTaintsPolicy": "Honor",
                    "labelSelector": {"matchLabels": {"app": "web"}},
                }
            ]
        }
    ).spread
    assert (full.is_hard, full.min_domains, full.honor_affinity, full.honor_taints) == (
        True,
        3,
        False,
        True,
    )


def test_tolerations_and_default_tolerations() -> None:
    found = parse_pod(
        {
            "tolerations": [
                {"key": "a", "value": "b", "effect": "NoSchedule"},
                {"operator": "Exists"},
            ]
        }
    )
    assert found.tolerations[:2] == (
        Toleration("a", "Equal", "b", "NoSchedule"),
        Toleration("", "Exists"),
    )
    cordon = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    lost = Taint("node.kubernetes.io/unreachable", "", "NoExecute")
    plain = parse_workload(build_deployment()).pod
    daemon = parse_workload(build_deployment(kind="DaemonSet")).pod
    assert any(is_matching_toleration(t, lost) for t in plain.tolerations)
    assert not any(is_matching_toleration(t, cordon) for t in plain.tolerations)
    assert any(is_matching_toleration(t, cordon) for t in daemon.tolerations)


def test_host_ports() -> None:
    ports = [
        {"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"},
        {"containerPort": 53, "protocol": "UDP"},
    ]
    container = {"name": "c", "ports": ports}
    assert parse_pod({"containers": [container]}).host_ports == (HostPort(8080, "TCP", "10.0.0.1"),)
    shared = parse_pod({"containers": [container], "hostNetwork": True}).host_ports
    assert shared == (HostPort(8080, "TCP", "10.0.0.1"), HostPort(53, "UDP"))


def test_priorities() -> None:
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 9,
    }
    usual = {**urgent, "metadata": {"name": "usual"}, "value": 3, "globalDefault": True}
    assert (
        parse_workload(build_deployment({"priorityClassName": "urgent"}), urgent).pod.priority == 9
    )
    assert parse_workload(build_deployment(), usual).pod.priority == 3
    assert parse_pod({"priorityClassName": "system-node-critical"}).priority == 2_000_001_000
    assert "but no manifest defines it" in get_finding(
        build_deployment({"priorityClassName": "who"})
    )


def test_default_spreading_counts_replica_set_and_its_services() -> None:
    found = parse_workload(build_deployment()).pod
    hashed = dict(found.labels)["pod-template-hash"]
    assert found.default_spread == build_label_selector({"app": "web", "pod-template-hash": hashed})
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "shop"},
        "spec": {"selector": {"app": "web"}},
    }
    daemon = build_deployment(kind="DaemonSet")
    assert parse_workload(daemon).pod.default_spread is None
    assert parse_workload(daemon, service).pod.default_spread == build_label_selector(
        {"app": "web"}
    )


# --- kinds ----------------------------------------------------------------------------------------


def test_replicas_by_kind() -> None:
    assert parse_workload(build_deployment()).replicas == 1
    assert parse_workload(build_deployment(replicas=0)).replicas == 0
    assert parse_workload(build_deployment(kind="ReplicaSet", replicas=4)).replicas == 4
    single = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "one"},
        "spec": {"containers": ONE},
    }
    assert parse_workload(single).key == "default/Pod/one"
    parallel = {"parallelism": 5, "completions": 3}
    assert parse_workload(build_job(**parallel)).replicas == 3
    assert dict(parse_workload(build_job(**parallel)).pod.labels)["job-name"] == "j"
    assert (
        parse_workload(build_job(**parallel, managedBy="kubernetes.io/job-controller")).replicas
        == 3
    )


@pytest.mark.parametrize(
    ("replicas", "rolling", "surge", "unavailable"),
    [
        (2, {}, 1, 0),
        (4, {}, 1, 1),
        (10, {}, 3, 2),
        (10, {"maxSurge": "50%", "maxUnavailable": 3}, 5, 3),
        # 25 % of 3 rounds to none; Kubernetes then allows one unavailable pod.
        (3, {"maxSurge": 0}, 0, 1),
    ],
)
def test_rolling_updates(
    replicas: int, rolling: dict[str, Any], surge: int, unavailable: int
) -> None:
    found = parse_workload(build_deployment(replicas=replicas, strategy={"rollingUpdate": rolling}))
    assert (found.strategy, found.max_surge, found.max_unavailable) == (
        Strategy.ROLLING,
        surge,
        unavailable,
    )


def test_other_strategies() -> None:
    assert (
        parse_workload(build_deployment(strategy={"type": "Recreate"})).strategy
        is Strategy.RECREATE
    )
    stateful = parse_workload(
        build_deployment(
            kind="StatefulSet",
            updateStrategy={"rollingUpdate": {"partition": 2}},
            ordinals={"start": 5},
            podManagementPolicy="Parallel",
        )
    )
    assert (stateful.partition, stateful.first_ordinal, stateful.is_ordered) == (2, 5, False)
    assert parse_workload(build_deployment(kind="StatefulSet")).is_ordered
    daemon = parse_workload(build_deployment(kind="DaemonSet", updateStrategy={"type": "OnDelete"}))
    assert daemon.strategy is Strategy.ON_DELETE


def test_equal_templates_have_equal_hashes() -> None:
    assert parse_pod({}).template == parse_workload(build_deployment(replicas=7)).pod.template
    assert (
        parse_pod({}).template != parse_pod({"containers": [{"name": "c", "image": "x"}]}).template
    )


@pytest.mark.parametrize(
    ("replicas", "predicted", "outcome"),
    [
        (3, 3, "the configured 3 are predicted"),
        (1, 2, "2 are predicted, not the configured 1"),
        (9, 5, "5 are predicted, not the configured 9"),
        (0, 0, "0 replicas disable it, and none are predicted"),
    ],
)
def test_autoscaler_keeps_replicas_within_its_bounds(
    replicas: int, predicted: int, outcome: str
) -> None:
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "web"},
            "minReplicas": 2,
            "maxReplicas": 5,
        },
    }
    reading = parse_workloads(build_deployment(replicas=replicas), scaler)
    assert reading.workloads[0].replicas == predicted
    assert reading.findings[0].detail == (
        "Deployment shop/web is scaled by HorizontalPodAutoscaler h between 2 and 5 replicas; "
        + outcome
        + "."
    )


def test_transient_kinds_are_omitted_with_a_warning() -> None:
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": {}}
    reading = parse_workloads(cron)
    assert reading.workloads == ()
    assert "their pods are short-lived" in reading.findings[0].detail


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (
            build_deployment({"containers": []}),
            "error: Deployment shop/web: spec.template.spec.containers needs at least one",
        ),
        (
            build_deployment({"nodeSelector": ["x"]}),
            "spec.template.spec.nodeSelector must be a mapping",
        ),
        (
            build_deployment({"tolerations": {"operator": "Exists"}}),
            "warning: Deployment shop/web: spec.template.spec.toler",
        ),
        (
            build_deployment({"tolerations": [{"operator": "Like", "key": "k"}]}),
            'is "Like"; it must be one of Equal, Exists',
        ),
        (
            build_deployment({"tolerations": [{"operator": "Gt", "key": "k", "value": "1"}]}),
            "tolerations.0.operator Gt needs the feature gate TaintTolerationComparisonOperators.",
        ),
        (
            build_deployment({"tolerations": [{"operator": "Lt", "key": "k", "value": "x"}]}),
            "tolerations.0.value must be a whole number for Lt.",
        ),
        (
            build_deployment({"tolerations": [{"effect": "Foo", "key": "k"}]}),
            'effect is "Foo"; it must be one of NoSchedule, NoExecute, PreferNoSchedule.',
        ),
        (
            build_deployment({"nodeSelector": {"disk": 1}}),
            'nodeSelector.disk must be a text; write "1"',
        ),
        (build_deployment(replicas=-1), "spec.replicas must be 0 or more, not -1"),
        (
            build_deployment(replicas=999_999_999),
            "spec.replicas is 999,999,999; a Kubernetes cluster is built",
        ),
        (
            build_deployment(replicas=2**31),
            "spec.replicas must be at most 2147483647, not 2147483648",
        ),
        (build_deployment(replicas="3"), "spec.replicas must be a whole number"),
        (
            build_deployment(selector={"matchLabels": {"app": "other"}}),
            "does not match the labels of the template",
        ),
        (build_deployment(selector=None), "spec.selector must be set"),
        (build_deployment(build_anti_affinity(topologyKey="")), "topologyKey must not be empty"),
        (
            build_deployment(build_anti_affinity(matchLabelKeys=["app"])),
            "labelSelector must be set when matchLabelKeys",
        ),
        (build_deployment({"schedulerName": "mine"}), "its rules are unknown"),
        (
            build_deployment(strategy={"rollingUpdate": {"maxSurge": "a lot"}}),
            "a number of pods or a percentage",
        ),
        (
            build_deployment(strategy={"rollingUpdate": NEITHER}),
            "maxUnavailable must not be 0 while maxSurge is 0",
        ),
        (
            build_deployment(strategy={"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": 0}}),
            "error: Deployment shop/web: spec.strategy.rollingUpdate.maxUnavailable must not be 0",
        ),
        (
            build_deployment(
                kind="DaemonSet", updateStrategy={"rollingUpdate": {"maxUnavailable": 0}}
            ),
            "spec.updateStrategy.rollingUpdate.maxUnavailable must not be 0",
        ),
        (
            build_deployment(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}),
            "rollingUpdate must not be set when type is Recreate",
        ),
        (
            build_job(parallelism=0, completions=-3, suspend=True),
            "spec.completions must be 0 or more, not -3",
        ),
        (build_job(parallelism=-1), "spec.parallelism must be 0 or more, not -1"),
        (
            build_job(completionMode="Foo"),
            'completionMode is "Foo"; it must be one of NonIndexed, Indexed',
        ),
        (
            build_job(completionMode="Indexed"),
            "completions must be set when completionMode is Indexed",
        ),
        (
            build_job(template={"spec": {"restartPolicy": "Always", "containers": ONE}}),
            'restartPolicy is "Always"; it must be one of OnFailure, Never.',
        ),
        (
            build_deployment({"restartPolicy": "OnFailure"}),
            'is "OnFailure"; it must be one of Always.',
        ),
        (
            build_job(template={"spec": None}),
            "spec.template.spec.containers needs at least one container",
        ),
    ],
)
def test_invalid_or_misread_manifests_are_rejected(broken: dict[str, Any], words: str) -> None:
    assert words in get_finding(broken)


def test_jobs_of_a_cron_job_end_like_others() -> None:
    spec = build_job()["spec"]
    cron = {
        **build_job(),
        "kind": "CronJob",
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": spec}},
    }
    # Its pods are omitted.
    assert [each.severity.value for each in parse_workloads(cron).findings] == ["warning"]
    spec["template"]["spec"]["restartPolicy"] = "Always"
    words = "CronJob default/j: spec.jobTemplate.spec.template.spec.restartPolicy"
    assert any(each.detail.startswith(words) for each in parse_workloads(cron).findings)


# --- other kinds and versions ---------------------------------------------------------------------


def test_replication_controller_selects_by_plain_labels() -> None:
    old = build_deployment(kind="ReplicationController", replicas=3)
    old["apiVersion"] = "v1"
    old["spec"]["selector"] = {"app": "web"}
    found = parse_workload(old)
    assert (found.kind, found.replicas, found.strategy) == (
        "ReplicationController",
        3,
        Strategy.ON_DELETE,
    )
    assert found.pod.default_spread == build_label_selector({"app": "web"})


@pytest.mark.parametrize(
    ("version", "kind", "updates"),
    [
        ("extensions/v1beta1", "Deployment", (Strategy.ROLLING, 1, 1)),
        ("extensions/v1beta1", "DaemonSet", (Strategy.ON_DELETE, 0, 0)),
        ("apps/v1beta1", "StatefulSet", (Strategy.ON_DELETE, 1, 1)),
        ("apps/v1beta1", "Deployment", (Strategy.ROLLING, 2, 1)),
    ],
)
def test_old_api_versions_have_their_own_defaults(
    version: str, kind: str, updates: tuple[Strategy, int, int]
) -> None:
    old = build_deployment(kind=kind, replicas=5)
    old["apiVersion"] = version
    del old["spec"]["selector"]
    reading = parse_workloads(old)
    (found,) = reading.workloads
    assert (found.strategy, found.max_surge, found.max_unavailable) == updates
    (finding,) = reading.findings
    assert finding.severity.value == "warning"
    assert f"{version} is not served since Kubernetes 1.16; write apps/v1." in finding.detail


@pytest.mark.parametrize(
    ("strategy", "surge", "unavailable"),
    [
        ({"type": "RollingUpdate"}, 1, 1),
        ({"rollingUpdate": {"maxSurge": 2}}, 2, 1),
        ({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": None}}, 0, 1),
    ],
)
def test_defaults_of_old_api_versions_complete_a_strategy(
    strategy: Any, surge: int, unavailable: int
) -> None:
    old = build_deployment(replicas=8)
    old["apiVersion"] = "extensions/v1beta1"
    old["spec"]["strategy"] = strategy
    (found,) = parse_workloads(old).workloads
    assert (found.strategy, found.max_surge, found.max_unavailable) == (
        Strategy.ROLLING,
        surge,
        unavailable,
    )
    old["spec"]["strategy"] = {"type": "Recreate"}
    (found,) = parse_workloads(old).workloads
    assert found.strategy is Strategy.RECREATE


def test_defaults_of_old_api_versions_leave_the_document_unchanged() -> None:
    old = build_deployment(replicas=8)
    old["apiVersion"] = "extensions/v1beta1"
    # No field of a Deployment.
    old["spec"]["type"] = "Recreate"
    del old["spec"]["selector"]
    (manifest,) = parse_manifests("a.yaml", yaml.safe_dump(old)).manifests
    body = deepcopy(manifest.body)
    for _ in range(2):
        (found,) = collect_workloads([manifest]).workloads
        assert (found.max_surge, found.max_unavailable) == (1, 1)
    assert manifest.body == body


def build_object(version: str, kind: str, name: str = "x", **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


def test_kinds_without_predicted_pods_are_named_once() -> None:
    reading = parse_workloads(
        build_object("argoproj.io/v1alpha1", "Rollout", "a"),
        build_object("argoproj.io/v1alpha1", "Rollout", "b"),
        build_object("kubevirt.io/v1", "VirtualMachine"),
        build_object("resource.k8s.io/v1", "ResourceClaim"),
        build_object("database.example.com/v1", "Cluster"),
        build_object("cert-manager.io/v1", "Certificate"),
        build_object("v1", "ConfigMap"),
        build_object("networking.k8s.io/v1", "Ingress"),
    )
    assert [(finding.id, finding.detail.partition(":")[0]) for finding in reading.findings] == [
        ("pods-not-predicted", "Rollout a and 1 more object of this kind (argoproj.io)"),
        ("pods-not-predicted", "VirtualMachine x (kubevirt.io)"),
        ("pods-not-predicted", "Cluster x (database.example.com)"),
    ]


@pytest.mark.parametrize(
    ("field", "cause"),
    [
        ({"suspend": True}, "spec.suspend is true: 3 pods may be created after the Job is resumed"),
        (
            {"managedBy": "example.com/multi"},
            'spec.managedBy is "example.com/multi": 3 pods may be created by it',
        ),
    ],
)
def test_jobs_without_predicted_pods_are_named(field: dict[str, Any], cause: str) -> None:
    reading = parse_workloads(build_job(parallelism=5, completions=3, **field))
    assert reading.workloads[0].replicas == 0
    (finding,) = reading.findings
    assert (finding.id, finding.detail) == (
        "pods-not-predicted",
        f"Job default/j: {cause}; none are predicted.",
    )
    assert parse_workloads(build_job(parallelism=3)).findings == ()


def test_webhooks_for_pods_are_named() -> None:
    def build_webhook(resource: str) -> dict[str, Any]:
        hooks = [{"rules": [{"resources": [resource]}]}]
        return build_object(
            "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", webhooks=hooks
        )

    assert "may change pods" in get_finding(build_webhook("pods"))
    assert parse_workloads(build_webhook("secrets")).findings == ()


def test_uncounted_claimed_devices_are_reported() -> None:
    assert "requests devices (DRA), which are not counted" in get_finding(
        build_deployment({"resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}]})
    )
