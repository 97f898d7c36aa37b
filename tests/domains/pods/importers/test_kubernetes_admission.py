"""Tests of pod changes by the API server's admission.

The expected results follow Kubernetes' own documentation.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from nexusform.domains.pods.importers.kubernetes_workloads import ParsedWorkloads, collect_workloads
from nexusform.domains.pods.importers.manifest_parser import parse_manifests
from nexusform.domains.pods.importers.pod_admission import collect_resource_quotas
from nexusform.domains.pods.scheduling.cluster_records import (
    PodSpec,
    Requests,
    ResourceQuota,
    ResourceQuotaScope,
)
from nexusform.kubernetes.matching import EXISTS, Toleration

MIB = 1 << 20


def build_pod(resources: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    annotations = spec.pop("annotations", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "shop", "annotations": annotations},
        "spec": {"containers": [{"name": "c", "resources": resources or {}}], **spec},
    }


def parse_workloads(*objects: dict[str, Any]) -> ParsedWorkloads:
    return collect_workloads(
        parse_manifests("m.yaml", yaml.safe_dump_all(objects, sort_keys=False)).manifests
    )


def parse_pod(*objects: dict[str, Any]) -> PodSpec:
    reading = parse_workloads(*objects)
    assert reading.findings == ()
    return reading.workloads[0].pod


def get_finding(*objects: dict[str, Any]) -> str:
    (finding,) = parse_workloads(*objects).findings
    return f"{finding.severity.value}: {finding.detail}"


def build_object(version: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "shop"},
        **more,
    }


# --- LimitRange (kubernetes.io/docs/tasks/administer-cluster/manage-resources) --------------------


def build_limit_range(name: str = "limits", **item: Any) -> dict[str, Any]:
    return build_object("v1", "LimitRange", name, spec={"limits": [{"type": "Container", **item}]})


@pytest.mark.parametrize(
    ("resources", "milli"),
    [
        ({}, 500),
        # A limit without a request is also the request.
        ({"limits": {"cpu": "2"}}, 2000),
        ({"requests": {"cpu": "750m"}}, 750),
    ],
)
def test_limit_range_sets_requests(resources: dict[str, Any], milli: int) -> None:
    ranges = build_limit_range(default={"cpu": "1"}, defaultRequest={"cpu": "500m"})
    assert parse_pod(build_pod(resources), ranges).requests.cpu == milli


@pytest.mark.parametrize(
    ("item", "milli"),
    [
        ({"default": {"cpu": "1"}}, 1000),
        ({"max": {"cpu": "800m"}, "min": {"cpu": "200m"}}, 800),
        ({"min": {"cpu": "200m"}}, 200),
    ],
)
def test_limit_range_without_default_requests_uses_limits_or_bounds(item: Any, milli: int) -> None:
    assert parse_pod(build_pod(), build_limit_range(**item)).requests.cpu == milli


def test_limit_range_sets_init_containers_in_its_namespace_only() -> None:
    ranges = build_limit_range(defaultRequest={"memory": "64Mi"})
    starting = build_pod({"requests": {"memory": "1Mi"}}, initContainers=[{"name": "i"}])
    assert parse_pod(starting, ranges).requests.memory == 64 * MIB
    ranges["metadata"]["namespace"] = "elsewhere"
    assert parse_pod(build_pod(), ranges).requests == Requests()


@pytest.mark.parametrize(
    ("of", "resources", "reason"),
    [
        ("Container", {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}}, ""),
        (
            "Container",
            {"requests": {"cpu": "50m"}},
            "minimum cpu usage per Container is 100m, but request is 0.05",
        ),
        (
            "Container",
            {"limits": {"cpu": "3"}},
            "maximum cpu usage per Container is 2, but limit is 3",
        ),
        (
            "Pod",
            {"requests": {"cpu": "1"}},
            "maximum cpu usage per Pod is 2. No limit is specified",
        ),
    ],
)
def test_limit_range_rejects_values_out_of_bounds(
    of: str, resources: dict[str, Any], reason: str
) -> None:
    ranges = build_limit_range(type=of, min={"cpu": "100m"}, max={"cpu": "2"})
    assert parse_workloads(build_pod(resources), ranges).workloads[0].admission_error == reason


def test_limit_range_of_pods_counts_init_containers_and_sidecars() -> None:
    ranges = build_limit_range(type="Pod", max={"cpu": "2"})
    starting = [{"name": "i", "resources": {"limits": {"cpu": "3"}}}]
    sidecar = [{"name": "s", "restartPolicy": "Always", "resources": {"limits": {"cpu": "1500m"}}}]
    without_limit = [{"name": "i"}]
    expected = {3: starting, 2.5: sidecar, 0: without_limit}
    for total, init_containers in expected.items():
        pod = build_pod({"limits": {"cpu": "1"}}, initContainers=init_containers)
        reason = f"maximum cpu usage per Pod is 2, but limit is {total}" if total else ""
        assert parse_workloads(pod, ranges).workloads[0].admission_error == reason


def test_limit_range_of_pods_counts_limits_of_the_whole_pod_as_requests() -> None:
    pods = build_limit_range(type="Pod", min={"cpu": "1"})
    whole = build_pod()
    whole["spec"]["resources"] = {"limits": {"cpu": "2"}}
    assert parse_workloads(whole, pods).workloads[0].admission_error == ""


def test_limit_range_of_pods_adds_requests_of_containers_without_limits() -> None:
    two = [
        {"name": "a", "resources": {"limits": {"cpu": "1"}}},
        {"name": "b", "resources": {"requests": {"cpu": "2"}}},
    ]
    pods = build_limit_range(type="Pod", max={"cpu": "2"})
    reason = "maximum cpu usage per Pod is 2, but request is 3"
    assert parse_workloads(build_pod(containers=two), pods).workloads[0].admission_error == reason


@pytest.mark.parametrize(
    ("values", "resources", "is_in_doubt"),
    [
        (["1", "2"], {}, True),
        # Each may come first.
        (["1", "2", "1"], {}, True),
        (["1", "1"], {}, False),
        (["1", "2"], {"limits": {"cpu": "1"}}, False),
    ],
)
def test_different_defaults_of_several_limit_ranges_apply_in_random_order(
    values: list[str], resources: dict[str, Any], is_in_doubt: bool
) -> None:
    limit_ranges = [
        build_limit_range(f"limits-{number}", default={"cpu": value})
        for number, value in enumerate(values)
    ]
    reading = parse_workloads(build_pod(resources), *limit_ranges)
    assert [each.id for each in reading.findings] == ["different-limit-ranges"] * is_in_doubt
    assert reading.workloads[0].pod.has_unknown_rules == is_in_doubt
    assert reading.workloads[0].pod.requests.cpu == 1000


def test_finished_pods_in_quotas_of_count_pods_are_unknown() -> None:
    (workload,) = parse_workloads(
        build_pod(), build_object("v1", "ResourceQuota", "q", spec={"hard": {"pods": 1}})
    ).workloads
    assert not workload.pod.has_unknown_rules
    quota = build_object("v1", "ResourceQuota", "q", spec={"hard": {"count/pods": 1}})
    assert parse_workloads(build_pod(), quota).workloads[0].pod.has_unknown_rules
    assert "counts finished pods, too" in get_finding(build_pod(), quota)


def test_quotas_and_their_pod_fields() -> None:
    quota = build_object(
        "v1",
        "ResourceQuota",
        "compute",
        spec={
            "hard": {"requests.cpu": "1500m", "limits.memory": "1Gi", "pods": 4},
            "scopes": ["NotTerminating"],
            "scopeSelector": {
                "matchExpressions": [
                    {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
                ]
            },
        },
    )
    scopes = (
        ResourceQuotaScope("NotTerminating"),
        ResourceQuotaScope("PriorityClass", "In", ("high",)),
    )
    hard = (("requests.cpu", 1500), ("limits.memory", 1024 * MIB), ("pods", 4))
    text = yaml.safe_dump(quota, sort_keys=False)
    assert collect_resource_quotas(parse_manifests("q.yaml", text).manifests) == (
        ResourceQuota("shop", "compute", hard, scopes),
    )
    asked = parse_pod(
        build_pod({"requests": {"cpu": "1"}, "limits": {"memory": "1Mi"}}, activeDeadlineSeconds=5)
    ).quota_figures
    assert (asked.limits, asked.unspecified, asked.has_deadline) == (
        (("memory", MIB),),
        ("limits.cpu",),
        True,
    )


def test_quotas_read_requests_and_limits_of_the_whole_pod() -> None:
    whole = {"requests": {"cpu": "1"}, "limits": {"memory": "1Mi"}}
    pod = build_pod({"limits": {"cpu": "2"}})
    pod["spec"]["resources"] = whole
    figures = parse_pod(pod).quota_figures
    assert (figures.unspecified, figures.limits) == ((), (("cpu", 2000), ("memory", MIB)))


def test_limits_of_quotas_include_the_overhead() -> None:
    kata = build_kata_class(overhead={"podFixed": {"cpu": "250m", "memory": "1Mi"}})
    pod = parse_pod(build_pod({"limits": {"cpu": "1"}}, runtimeClassName="kata"), kata)
    # memory stays unlimited.
    assert pod.quota_figures.limits == (("cpu", 1250),)


def test_scope_of_a_quota_reads_the_default_priority_class() -> None:
    common = build_object(
        "scheduling.k8s.io/v1", "PriorityClass", "common", value=9, globalDefault=True
    )
    assert parse_pod(build_pod(), common).quota_figures.priority_class == "common"


def test_scheduling_gates() -> None:
    assert parse_pod(build_pod(schedulingGates=[{"name": "a"}, {"name": "b"}])).gates == ("a", "b")


# --- RuntimeClass (kubernetes.io/docs/concepts/containers/runtime-class) --------------------------


def build_kata_class(**more: Any) -> dict[str, Any]:
    return build_object("node.k8s.io/v1", "RuntimeClass", "kata", handler="kata", **more)


def test_runtime_class_adds_overhead_selector_and_tolerations() -> None:
    found = parse_pod(
        build_pod(
            {"requests": {"cpu": "1"}}, runtimeClassName="kata", nodeSelector={"disk": "ssd"}
        ),
        build_kata_class(
            overhead={"podFixed": {"cpu": "250m", "memory": "120Mi"}},
            scheduling={
                "nodeSelector": {"runtime": "kata"},
                "tolerations": [{"key": "kata", "operator": "Exists"}],
            },
        ),
    )
    assert found.requests == Requests(1250, 120 * MIB)
    assert found.node_selector == (("disk", "ssd"), ("runtime", "kata"))
    assert Toleration("kata", EXISTS, "", "") in found.tolerations


def test_undefined_or_contradicting_runtime_class_is_reported() -> None:
    assert (
        'warning: Pod shop/p: spec.runtimeClassName names the RuntimeClass "kata", but no'
        in get_finding(build_pod(runtimeClassName="kata"))
    )
    assert parse_workloads(build_pod(runtimeClassName="kata")).workloads[0].pod.has_unknown_rules
    against = build_kata_class(scheduling={"nodeSelector": {"disk": "ssd"}})
    text = get_finding(build_pod(runtimeClassName="kata", nodeSelector={"disk": "hdd"}), against)
    assert text.startswith("error: Pod shop/p: spec.nodeSelector has disk=hdd")


@pytest.mark.parametrize(
    ("overhead", "class_overhead", "reason"),
    [
        ({"cpu": "0.25"}, {"podFixed": {"cpu": "250m"}}, ""),
        (
            {"cpu": "1"},
            {"podFixed": {"cpu": "250m"}},
            "Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        ({"cpu": "1"}, {}, "Pod Overhead set without corresponding RuntimeClass defined Overhead"),
    ],
)
def test_overhead_other_than_that_of_the_runtime_class_is_rejected(
    overhead: dict[str, str], class_overhead: dict[str, Any], reason: str
) -> None:
    pod = build_pod(runtimeClassName="kata", overhead=overhead)
    (workload,) = parse_workloads(pod, build_kata_class(overhead=class_overhead)).workloads
    assert workload.admission_error == (reason and f"pod rejected: {reason}")
    without_class = parse_workloads(build_pod(overhead=overhead)).workloads[0].admission_error
    assert (
        without_class
        == "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    )


# --- Namespaces, Pod Security Standards (kubernetes.io/docs/concepts/security) and kubelet --------


def build_namespace(name: str = "shop", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def test_terminating_namespace_gets_no_pods() -> None:
    namespace = build_namespace(deletionTimestamp="2026-01-01T00:00:00Z")
    assert parse_workloads(build_pod(), namespace).workloads[0].admission_error == (
        "unable to create new content in namespace shop because it is being terminated"
    )
    assert parse_workloads(build_pod(), build_namespace()).workloads[0].admission_error == ""


@pytest.mark.parametrize("level", ["privileged", "baseline", "restricted"])
def test_level_of_the_namespace_rejects_pods(level: str) -> None:
    namespace = build_namespace(labels={"pod-security.kubernetes.io/enforce": level})
    workload = parse_workloads(build_pod(hostNetwork=True), namespace).workloads[0]
    reason = f'violates PodSecurity "{level}:latest": host namespaces (hostNetwork=true)'
    is_rejected = level != "privileged"
    assert workload.admission_error.startswith(reason) == is_rejected
    assert workload.rejected_by == ("PodSecurity" if is_rejected else "")
    # Other rules than those of the level have no say.
    safe = parse_workloads(build_pod(), namespace).workloads[0]
    assert bool(safe.admission_error) == (level == "restricted")


def test_windows_pod_may_get_a_node_of_another_os() -> None:
    windows = {"os": {"name": "windows"}}
    assert "error" not in get_finding(build_pod(**windows))
    assert parse_workloads(build_pod(**windows)).workloads[0].pod.has_unknown_rules
    assert not parse_pod(
        build_pod(**windows, nodeSelector={"kubernetes.io/os": "windows"})
    ).has_unknown_rules
    assert not parse_pod(build_pod(os={"name": "linux"})).has_unknown_rules


# --- PriorityClass --------------------------------------------------------------------------------


def test_lowest_default_priority_applies() -> None:
    classes = [
        build_object("scheduling.k8s.io/v1", "PriorityClass", name, value=value, globalDefault=True)
        for name, value in (("high", 1000), ("low", 10))
    ]
    assert parse_pod(build_pod(), *classes).priority == 10


def test_pods_with_preemption_policy_never_cannot_preempt() -> None:
    polite = build_object(
        "scheduling.k8s.io/v1", "PriorityClass", "polite", value=9, preemptionPolicy="Never"
    )
    assert not parse_pod(build_pod(priorityClassName="polite"), polite).can_preempt
    assert parse_pod(build_pod(), polite).can_preempt
    assert not parse_pod(build_pod(), {**polite, "globalDefault": True}).can_preempt
    assert not parse_pod(build_pod(preemptionPolicy="Never")).can_preempt


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"priority": 0}, ""),
        ({"priorityClassName": "polite", "priority": 9, "preemptionPolicy": "Never"}, ""),
        (
            {"priority": 1000},
            "the integer value of priority (1000) must not be provided in pod spec; ",
        ),
        (
            {"priorityClassName": "polite", "priority": 8},
            "the integer value of priority (8) must not be provided",
        ),
        (
            {"preemptionPolicy": "Never"},
            "the string value of PreemptionPolicy (Never) must not be provided",
        ),
        (
            {"priorityClassName": "polite", "preemptionPolicy": "PreemptLowerPriority"},
            "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided",
        ),
    ],
)
def test_values_other_than_those_of_the_class_are_rejected(
    spec: dict[str, Any], reason: str
) -> None:
    polite = build_object(
        "scheduling.k8s.io/v1", "PriorityClass", "polite", value=9, preemptionPolicy="Never"
    )
    error = parse_workloads(build_pod(**spec), polite).workloads[0].admission_error
    assert error.startswith(reason)
    assert bool(error) == bool(reason)


# --- Multus (network-resources-injector) ----------------------------------------------------------


def build_network(name: str, resource: str = "", namespace: str = "shop") -> dict[str, Any]:
    body = build_object(
        "k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", name, spec={"config": "{}"}
    )
    body["metadata"] |= {"namespace": namespace}
    if resource:
        body["metadata"]["annotations"] = {"k8s.v1.cni.cncf.io/resourceName": resource}
    return body


NETS = (
    build_network("fast", "intel.com/sriov"),
    build_network("far", "intel.com/sriov", "infra"),
    build_network("plain"),
)


@pytest.mark.parametrize(
    ("names", "count"),
    [
        ("fast", 1),
        ("fast, infra/far@net2, plain", 2),
        # An empty namespace is that of the pod.
        ("/fast", 1),
        ('[{"name": "fast"}, {"name": "far", "namespace": "infra"}, {"name": "fast"}]', 3),
    ],
)
def test_networks_request_their_resource_once_per_interface(names: str, count: int) -> None:
    annotated = build_pod(annotations={"k8s.v1.cni.cncf.io/networks": names})
    assert parse_pod(annotated, *NETS).requests.other_resources == (("intel.com/sriov", count),)


def test_null_resources_are_completed_like_absent_ones() -> None:
    pod = build_pod(annotations={"k8s.v1.cni.cncf.io/networks": "fast"})
    pod["spec"]["containers"] = [{"name": "c", "resources": None}]
    requests = parse_pod(pod, build_limit_range(defaultRequest={"cpu": "500m"}), *NETS).requests
    assert (requests.cpu, requests.other_resources) == (500, (("intel.com/sriov", 1),))


def test_networks_do_not_double_container_requests() -> None:
    asking = build_pod(
        {"requests": {"intel.com/sriov": 2}},
        annotations={"k8s.v1.cni.cncf.io/networks": "fast,fast"},
    )
    assert parse_pod(asking, *NETS).requests.other_resources == (("intel.com/sriov", 2),)


def test_undefined_networks_are_reported() -> None:
    text = get_finding(build_pod(annotations={"k8s.v1.cni.cncf.io/networks": "other"}), *NETS)
    assert "names the network shop/other, but no manifest defines it" in text
