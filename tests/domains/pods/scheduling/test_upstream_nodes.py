"""Upstream test cases of filtering nodes by node affinity and resources, in short forms.

Source: kubernetes v1.34.4, pkg/scheduler/framework/plugins/nodeaffinity/node_affinity_test.go
(TestNodeAffinity) and noderesources/fit_test.go (TestEnoughRequests, TestNotEnoughRequests,
TestStorageRequests, TestRestartableInitContainers). Left out: affinity added for a whole profile,
ignored resources, extended resources of device classes, and effects of switched-off feature gates.
"""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.domains.pods.scheduling.cluster_records import Cluster, Node, PodSpec, Workload
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.rules.node_affinity import CONFLICT, EXCLUDED, REASON
from tests.domains.pods.scheduling.upstream_forms import (
    HARD,
    build_existing_pods,
    build_pod_spec,
    parse_labels,
    parse_requirement,
)

# --- nodeaffinity ---------------------------------------------------------------------------------


def predict_rejection(node: Node, spec: PodSpec, pods: list[tuple[str, PodSpec]]) -> str:
    """Return the Kubernetes reason of the rejection by the node, or "" for a feasible node."""
    found = predict(
        Cluster("k", (node,)), build_existing_pods(pods), [Workload("Pod", "default", "p", 1, spec)]
    )
    (pod,) = [each for each in found.outcomes if each.name == "p"]
    reason = pod.reason.removeprefix("0/1 nodes are available: ")
    # The rest of the message is added by nexusform.
    return (
        "" if pod.node else reason.split(". No node")[0].split(". Every node")[0].removesuffix(".")
    )


def build_node_term(*requirements: str, names: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return a term of label requirements, and one name requirement for each of `names`."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
    labels = [parse_requirement(each) for each in requirements]
    return {
        key: value
        for key, value in (("matchExpressions", labels), ("matchFields", fields))
        if value
    }


def build_node_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {HARD: {"nodeSelectorTerms": list(terms)}}}


GPU = "GPU=NVIDIA-GRID-K1"
NOT_THIS = f"1 {REASON}"
NOT_ASKED = f"1 {EXCLUDED}"
BAR = build_node_term("foo in bar")


@pytest.mark.parametrize(
    ("selects", "affinity", "labels", "refused"),
    [
        ("foo=bar", None, "", NOT_THIS),
        ("foo=bar", None, "foo=bar", ""),
        ("foo=bar", None, "foo=bar baz=blah", ""),
        ("foo=bar baz=blah", None, "foo=bar", NOT_THIS),
        # Each operator.
        ("", build_node_affinity(build_node_term("foo in bar,value2")), "foo=bar", ""),
        (
            "",
            build_node_affinity(build_node_term("kernel-version > 0204")),
            "kernel-version=0206",
            "",
        ),
        ("", build_node_affinity(build_node_term("mem-type not-in DDR,DDR2")), "mem-type=DDR3", ""),
        ("", build_node_affinity(build_node_term("GPU")), GPU, ""),
        ("", build_node_affinity(build_node_term("foo in value1,value2")), "foo=bar", NOT_THIS),
        # Empty terms.
        ("", None, "foo=bar", ""),
        ("", {"nodeAffinity": {}}, "foo=bar", ""),
        # All requirements of one term, any of the terms, and additionally the selector.
        ("", build_node_affinity(build_node_term("GPU", "GPU not-in AMD,INTER")), GPU, ""),
        ("", build_node_affinity(build_node_term("GPU", "GPU in AMD,INTER")), GPU, NOT_THIS),
        (
            "",
            build_node_affinity(
                build_node_term("foo in bar,value2"), build_node_term("diffkey in wrong,value2")
            ),
            "foo=bar",
            "",
        ),
        ("foo=bar", build_node_affinity(build_node_term("foo")), "foo=bar", ""),
        ("foo=bar", build_node_affinity(build_node_term("foo")), "foo=barrrrrr", NOT_THIS),
        # By name: the node is called node2.
        ("", build_node_affinity(build_node_term(names=("node2",))), "", ""),
        ("", build_node_affinity(build_node_term(names=("node1",))), "", NOT_ASKED),
        ("", build_node_affinity(build_node_term(names=("node1", "node2")), BAR), "foo=bar", ""),
        (
            "",
            build_node_affinity(build_node_term("foo in bar", names=("node1",))),
            "foo=bar",
            NOT_ASKED,
        ),
        ("", build_node_affinity(build_node_term("foo in bar", names=("node2",))), "foo=bar", ""),
        (
            "",
            build_node_affinity(
                build_node_term(names=("node1",)), build_node_term("foo in not-match-to-bar")
            ),
            "foo=bar",
            NOT_THIS,
        ),
        (
            "",
            build_node_affinity(
                build_node_term(names=("node1",)), build_node_term(names=("node2",))
            ),
            "",
            "",
        ),
        ("", build_node_affinity(build_node_term(names=("node1", "node2"))), "foo=bar", CONFLICT),
    ],
)
def test_node_affinity(
    selects: str, affinity: dict[str, Any] | None, labels: str, refused: str
) -> None:
    spec: dict[str, Any] = {"nodeSelector": parse_labels(selects)} if selects else {}
    spec |= {"affinity": affinity} if affinity is not None else {}
    node = Node("node2", parse_labels(labels), cpu=4000, memory=8 << 30)
    assert predict_rejection(node, build_pod_spec(**spec), []) == refused


def test_term_without_requirements_matches_no_node() -> None:
    node = Node("node2", {"foo": "bar"}, cpu=4000, memory=8 << 30)
    assert (
        predict_rejection(
            node, build_pod_spec(affinity=build_node_affinity({"matchExpressions": []})), []
        )
        == NOT_THIS
    )


# --- noderesources --------------------------------------------------------------------------------

# Capacity of a node, and amounts as "milli-CPUs memory", with further resources by name.
A = "example.com/aaa"
B = "example.com/bbb"
HUGE = "hugepages-2Mi"
K8S = "kubernetes.io/something"
SUB = "subdomain.kubernetes.io/something"
HERE = Node(
    "n", cpu=10, memory=20, pods=32, other_resources={A: 5, "ephemeral-storage": 20, HUGE: 5}
)


def parse_amounts(text: str) -> dict[str, str]:
    """Parse `1 2 example.com/aaa=3` as requests."""
    words = text.split()
    plain = [word for word in words if "=" not in word]
    sizes = dict(zip(("cpu", "memory"), (f"{plain[0]}m", plain[1]), strict=True)) if plain else {}
    return {**sizes, **parse_labels(" ".join(word for word in words if "=" in word))}


def parse_containers(texts: str, prefix: str) -> list[dict[str, Any]]:
    """Parse `1 1; 2 1` as one container per part.

    A leading `*` marks a sidecar.
    """
    made: list[dict[str, Any]] = []
    for at, text in enumerate(texts.split(";")):
        asked = parse_amounts(text.strip().lstrip("*"))
        limits = {name: amount for name, amount in asked.items() if "/" in name or name == HUGE}
        resources = {"requests": asked, **({"limits": limits} if limits else {})}
        one: dict[str, Any] = {"name": f"{prefix}{at}", "image": "i", "resources": resources}
        made.append({**one, "restartPolicy": "Always"} if text.strip().startswith("*") else one)
    return made


def build_requesting_pod(
    texts: str = "", first: str = "", overhead: str = "", whole: str = ""
) -> PodSpec:
    """Return a pod of these containers, with init containers `first`.

    `whole` is its pod-level request.
    """
    spec: dict[str, Any] = {"containers": parse_containers(texts, "c")}
    if first:
        spec["initContainers"] = parse_containers(first, "i")
    if overhead:
        spec["overhead"] = parse_amounts(overhead)
    if whole:
        asked = parse_amounts(whole)
        limits = {name: amount for name, amount in asked.items() if name == HUGE}
        spec["resources"] = {"requests": asked, **({"limits": limits} if limits else {})}
    return build_pod_spec(**spec)


def format_insufficient(*names: str) -> str:
    return ", ".join(f"1 Insufficient {name}" for name in names)


@pytest.mark.parametrize(
    ("pod", "there", "refused"),
    [
        (build_requesting_pod(), "10 20", ""),
        (build_requesting_pod("1 1"), "10 20", format_insufficient("cpu", "memory")),
        # Of init containers the largest one counts, or the sum of the app containers if
        # it is larger.
        (build_requesting_pod("1 1", first="3 1"), "8 19", format_insufficient("cpu")),
        (build_requesting_pod("1 1", first="3 1; 2 1"), "8 19", format_insufficient("cpu")),
        (build_requesting_pod("1 1", first="1 3"), "9 19", format_insufficient("memory")),
        (build_requesting_pod("1 1", first="1 3; 1 2"), "9 19", format_insufficient("memory")),
        (build_requesting_pod("1 1", first="1 1"), "9 19", ""),
        (build_requesting_pod("1 1", first="1 1; 1 1"), "9 19", ""),
        (build_requesting_pod("1 1"), "5 5", ""),
        (build_requesting_pod("2 1"), "9 5", format_insufficient("cpu")),
        (build_requesting_pod("1 2"), "5 19", format_insufficient("memory")),
        (build_requesting_pod("5 1"), "5 19", ""),
        (build_requesting_pod("4 1", first="5 1"), "5 19", ""),
        # Other resources.
        (build_requesting_pod(f"{A}=1"), "0 0", ""),
        (build_requesting_pod("", first=f"{A}=1"), "0 0", ""),
        (build_requesting_pod(f"1 1 {A}=10"), f"0 0 {A}=0", format_insufficient(A)),
        (build_requesting_pod("", first=f"1 1 {A}=10"), f"0 0 {A}=0", format_insufficient(A)),
        (build_requesting_pod(f"1 1 {A}=1"), f"0 0 {A}=5", format_insufficient(A)),
        (build_requesting_pod("", first=f"1 1 {A}=1"), f"0 0 {A}=5", format_insufficient(A)),
        (build_requesting_pod(f"1 1 {A}=3; 1 1 {A}=3"), f"0 0 {A}=2", format_insufficient(A)),
        (build_requesting_pod("", first=f"1 1 {A}=3; 1 1 {A}=3"), f"0 0 {A}=2", ""),
        (
            build_requesting_pod("", first=f"1 1 {A}=6; 1 1 {A}=3"),
            f"0 0 {A}=2",
            format_insufficient(A),
        ),
        (build_requesting_pod(f"1 1 {B}=1"), "0 0", format_insufficient(B)),
        (build_requesting_pod("", first=f"1 1 {B}=1"), "0 0", format_insufficient(B)),
        (build_requesting_pod(f"1 1 {K8S}=10"), "0 0", format_insufficient(K8S)),
        (build_requesting_pod("", first=f"1 1 {SUB}=10"), "0 0", format_insufficient(SUB)),
        (build_requesting_pod(f"1 1 {HUGE}=10"), f"0 0 {HUGE}=0", format_insufficient(HUGE)),
        (
            build_requesting_pod("", first=f"1 1 {HUGE}=10"),
            f"0 0 {HUGE}=0",
            format_insufficient(HUGE),
        ),
        (
            build_requesting_pod(f"1 1 {HUGE}=3; 1 1 {HUGE}=3"),
            f"0 0 {HUGE}=2",
            format_insufficient(HUGE),
        ),
        (build_requesting_pod(f"1 1 {A}=0"), f"0 0 {A}=6", ""),
        # The pod requests no cpu or memory, and both are overcommitted.
        (build_requesting_pod(f"{A}=1"), f"20 30 {A}=1", ""),
        # Overhead of the sandbox.
        (build_requesting_pod("1 1", overhead="3 13"), "5 5", ""),
        (build_requesting_pod("1 1", overhead="1 15"), "5 5", format_insufficient("memory")),
        # Pod-level requests replace those of the containers.
        (build_requesting_pod("1 1", whole="1 2"), "5 5", ""),
        (build_requesting_pod("1 1", whole="7 2"), "5 5", format_insufficient("cpu")),
        (build_requesting_pod("1 1", whole="3 2"), "5 19", format_insufficient("memory")),
        (build_requesting_pod("", whole=f"3 2 {HUGE}=5"), "", ""),
        (build_requesting_pod(f"1 1 {HUGE}=3", whole=f"3 2 {HUGE}=5"), "", ""),
        (build_requesting_pod("", whole=f"3 2 {HUGE}=10"), "", format_insufficient(HUGE)),
        (
            build_requesting_pod("1 1", first="1 1", whole="3 2"),
            "5 19",
            format_insufficient("memory"),
        ),
        # Ephemeral storage.
        (build_requesting_pod("1 1"), "2 10", ""),
        (
            build_requesting_pod("ephemeral-storage=25"),
            "2 2",
            format_insufficient("ephemeral-storage"),
        ),
        (build_requesting_pod("ephemeral-storage=5"), "2 2 ephemeral-storage=10", ""),
        (build_requesting_pod("ephemeral-storage=10"), "2 2", ""),
    ],
)
def test_resources(pod: PodSpec, there: str, refused: str) -> None:
    others = [("n", build_requesting_pod(there))] if there else []
    assert predict_rejection(HERE, pod, others) == refused


@pytest.mark.parametrize(
    ("pod", "there"),
    [
        (build_requesting_pod(), "10 20"),
        (build_requesting_pod("1 1"), "5 5"),
        (build_requesting_pod("5 1"), "5 19"),
        (build_requesting_pod("5 1", first="5 1"), "5 19"),
    ],
)
def test_node_takes_its_maximum_number_of_pods(pod: PodSpec, there: str) -> None:
    full = Node("n", cpu=10, memory=20, pods=1)
    assert predict_rejection(full, pod, [("n", build_requesting_pod(there))]) == "1 Too many pods"


@pytest.mark.parametrize(
    ("pod", "refused"),
    [
        (build_requesting_pod(), ""),
        (build_requesting_pod("", first="*"), ""),
        (build_requesting_pod("1 0", first="*1 0"), ""),
        (build_requesting_pod("1 0", first="*2 0"), format_insufficient("cpu")),
    ],
)
def test_sidecar_containers(pod: PodSpec, refused: str) -> None:
    assert predict_rejection(Node("n", cpu=2, memory=0, pods=1), pod, []) == refused
