"""Tests of unknown cluster facts and of version-specific deviations from documented behaviour."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.importers.manifest_parser import parse_manifests
from nexusform.domains.pods.scheduling.cluster_records import (
    HOSTNAME,
    Cluster,
    ExistingPod,
    Node,
    PodSpec,
    PodTerm,
    Requests,
    Workload,
)
from nexusform.domains.pods.scheduling.pod_explanation import evaluate_nodes
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.scheduler_versions import (
    VERSION_DIFFERENCES,
    apply_version_differences,
)
from nexusform.kubernetes.matching import LabelSelector, Requirement

GIB = 1 << 30
APP = (("app", "a"),)
SPEC = PodSpec(
    labels=APP, requests=Requests(1000, GIB), scored_requests=Requests(1000, GIB), images=("i:1",)
)
APART = replace(SPEC, container_scored_requests=Requests(100, GIB // 5))
NOT_ITS_OWN = LabelSelector(
    (), (Requirement("kubernetes.io/metadata.name", "NotIn", ("default",)),)
)
ALONE = replace(SPEC, anti_affinity=(PodTerm(HOSTNAME, LabelSelector(APP), (), NOT_ITS_OWN),))


def build_nodes(**more: object) -> tuple[Node, ...]:
    sizes = {"n0": 8000, "n1": 3000}
    return tuple(
        Node(name, {HOSTNAME: name}, cpu=cpu, memory=8 * GIB, **more)  # type: ignore[arg-type]
        for name, cpu in sizes.items()
    )


def predict_outcome(cluster: Cluster, spec: PodSpec, *standing: ExistingPod) -> tuple[str, bool]:
    """Return the node of one pod, and its certainty."""
    (pod,) = predict(cluster, standing, [Workload("Pod", "default", "p", 1, spec)]).outcomes
    return pod.node, pod.is_certain


def test_small_lead_is_not_certain_without_image_lists() -> None:
    assert predict_outcome(Cluster("c", build_nodes(images={})), SPEC) == ("n0", True)
    assert predict_outcome(Cluster("c", build_nodes()), SPEC) == ("n0", False)
    # A single feasible node is certain regardless of its images.
    assert predict_outcome(
        Cluster("c", build_nodes()), replace(SPEC, node_selector=((HOSTNAME, "n1"),))
    ) == ("n1", True)


@pytest.mark.parametrize(
    "difference", VERSION_DIFFERENCES[:2], ids=lambda difference: difference.name
)
def test_difference_starts_and_ends_with_a_version(difference: object) -> None:
    spec = APART if difference is VERSION_DIFFERENCES[0] else ALONE
    changed_spec = apply_version_differences(spec, (1, 34))
    assert changed_spec != spec
    assert apply_version_differences(spec, (1, 33)) == spec
    assert apply_version_differences(SPEC, (1, 34)) == SPEC
    until = VERSION_DIFFERENCES[0 if spec is APART else 1].until
    newest = replace(changed_spec, compares_balance=True)
    assert apply_version_differences(spec, (1, 37)) == (
        replace(spec, compares_balance=True) if until else newest
    )


def test_balance_is_compared_from_1_36_on() -> None:
    """Both nodes are balanced with the pod; only the other one was unbalanced before."""
    nodes = (
        Node("n0", cpu=4000, memory=4 * GIB, images={}),
        Node("n1", cpu=4000, memory=4 * GIB, images={}),
    )
    here = ExistingPod("default/Pod/other", 0, "n1", PodSpec(requests=Requests(0, GIB)))
    cluster = Cluster("c", nodes, version=(1, 35))
    spec = PodSpec(requests=Requests(1000, GIB), scored_requests=Requests(1000, GIB))
    lopsided = PodSpec(requests=Requests(1000, 0), scored_requests=Requests(1000, 0))
    assert get_balance(cluster, here, spec) == {"n0": 100, "n1": 87}
    assert get_balance(cluster, here, lopsided) == {"n0": 87, "n1": 100}
    newer = replace(cluster, version=(1, 36))
    assert get_balance(newer, here, spec) == {"n0": 75, "n1": 75}
    assert get_balance(newer, here, lopsided) == {"n0": 68, "n1": 81}


def get_balance(cluster: Cluster, here: ExistingPod, spec: PodSpec) -> dict[str, int]:
    verdicts = evaluate_nodes(cluster, (here,), spec)
    return {verdict.node: verdict.points["balanced_allocation"] for verdict in verdicts}


def test_unknown_version_uses_documented_rule_and_is_not_certain() -> None:
    here = ExistingPod("default/Pod/other", 0, "n0", replace(SPEC, images=()))
    cluster = Cluster("c", build_nodes(images={}))
    assert predict_outcome(cluster, ALONE, here) == ("n0", False)
    # Versions with the deviation also keep it away from pods of its own namespace.
    assert predict_outcome(replace(cluster, version=(1, 35)), ALONE, here) == ("n1", True)
    assert predict_outcome(replace(cluster, version=(1, 37)), ALONE, here) == ("n0", True)
    assert predict_outcome(replace(cluster, version=(1, 38)), replace(APART, images=())) == (
        "n0",
        False,
    )


@pytest.mark.parametrize(
    ("spec", "certain"),
    [
        ({}, True),
        ({"schedulerName": "default-scheduler"}, True),
        ({"schedulerName": "volcano"}, False),
        ({"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu-0"}]}, False),
    ],
)
def test_pod_of_another_scheduler_is_not_certain(spec: dict[str, Any], certain: bool) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"a": "b"}, **spec},
    }
    reading = collect_workloads(parse_manifests("m.yaml", json.dumps(body)).manifests)
    nodes = (Node("n1", {"a": "b"}, cpu=4000, memory=8 << 30), Node("n2", cpu=4000, memory=8 << 30))
    (outcome,) = predict(Cluster("k", nodes, version=(1, 34)), (), reading.workloads).outcomes
    assert (outcome.node, outcome.is_certain) == ("n1", certain)
