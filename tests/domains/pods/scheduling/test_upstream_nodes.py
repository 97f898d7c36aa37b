"""Cases of node affinity and of resources that Kubernetes filters nodes by in its own tests, in our words.

Source: kubernetes v1.34.4, pkg/scheduler/framework/plugins/nodeaffinity/node_affinity_test.go
(TestNodeAffinity) and noderesources/fit_test.go (TestEnoughRequests, TestNotEnoughRequests,
TestStorageRequests, TestRestartableInitContainers). Left out: affinity that is added for a whole profile,
resources that are to be ignored, extended resources of device classes, and what a switched-off feature
gate does.
"""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.rules.node_affinity import CONFLICT, EXCLUDED, REASON
from nexusform.domains.pods.scheduling.workloads import Cluster, Node, PodSpec, Workload
from tests.domains.pods.scheduling.upstream_forms import HARD, labels_of, pod_of, requirement, standing

# --- nodeaffinity ----------------------------------------------------------------------------------


def outcome(node: Node, spec: PodSpec, pods: list[tuple[str, PodSpec]]) -> str:
    """Kubernetes' reason why the node does not take the pod, "" where it does."""
    found = predict(Cluster("k", (node,)), standing(pods), [Workload("Pod", "default", "p", 1, spec)])
    (pod,) = [each for each in found.outcomes if each.name == "p"]
    reason = pod.reason.removeprefix("0/1 nodes are available: ")
    # What follows is a line of our own.
    return "" if pod.node else reason.split(". No node")[0].split(". Every node")[0].removesuffix(".")


def term(*requirements: str, names: tuple[str, ...] = ()) -> dict[str, Any]:
    """Requirements on labels, and one on the node's name for each of `names`."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]
    labels = [requirement(each) for each in requirements]
    return {key: value for key, value in (("matchExpressions", labels), ("matchFields", fields)) if value}


def to(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {HARD: {"nodeSelectorTerms": list(terms)}}}


GPU = "GPU=NVIDIA-GRID-K1"
NOT_THIS = f"1 {REASON}"
NOT_ASKED = f"1 {EXCLUDED}"
BAR = term("foo in bar")


@pytest.mark.parametrize(
    ("selects", "affinity", "labels", "refused"),
    [
        ("foo=bar", None, "", NOT_THIS),
        ("foo=bar", None, "foo=bar", ""),
        ("foo=bar", None, "foo=bar baz=blah", ""),
        ("foo=bar baz=blah", None, "foo=bar", NOT_THIS),
        # Each operator.
        ("", to(term("foo in bar,value2")), "foo=bar", ""),
        ("", to(term("kernel-version > 0204")), "kernel-version=0206", ""),
        ("", to(term("mem-type not-in DDR,DDR2")), "mem-type=DDR3", ""),
        ("", to(term("GPU")), GPU, ""),
        ("", to(term("foo in value1,value2")), "foo=bar", NOT_THIS),
        # Nothing asked for at all.
        ("", None, "foo=bar", ""),
        ("", {"nodeAffinity": {}}, "foo=bar", ""),
        # All requirements of one term, any of the terms, and the selector besides.
        ("", to(term("GPU", "GPU not-in AMD,INTER")), GPU, ""),
        ("", to(term("GPU", "GPU in AMD,INTER")), GPU, NOT_THIS),
        ("", to(term("foo in bar,value2"), term("diffkey in wrong,value2")), "foo=bar", ""),
        ("foo=bar", to(term("foo")), "foo=bar", ""),
        ("foo=bar", to(term("foo")), "foo=barrrrrr", NOT_THIS),
        # By name: the node is called node2.
        ("", to(term(names=("node2",))), "", ""),
        ("", to(term(names=("node1",))), "", NOT_ASKED),
        ("", to(term(names=("node1", "node2")), BAR), "foo=bar", ""),
        ("", to(term("foo in bar", names=("node1",))), "foo=bar", NOT_ASKED),
        ("", to(term("foo in bar", names=("node2",))), "foo=bar", ""),
        ("", to(term(names=("node1",)), term("foo in not-match-to-bar")), "foo=bar", NOT_THIS),
        ("", to(term(names=("node1",)), term(names=("node2",))), "", ""),
        ("", to(term(names=("node1", "node2"))), "foo=bar", CONFLICT),
    ],
)
def test_node_affinity(selects: str, affinity: dict[str, Any] | None, labels: str, refused: str) -> None:
    spec: dict[str, Any] = {"nodeSelector": labels_of(selects)} if selects else {}
    spec |= {"affinity": affinity} if affinity is not None else {}
    node = Node("node2", labels_of(labels), cpu=4000, memory=8 << 30)
    assert outcome(node, pod_of(**spec), []) == refused


def test_a_term_without_requirements_matches_no_node() -> None:
    node = Node("node2", {"foo": "bar"}, cpu=4000, memory=8 << 30)
    assert outcome(node, pod_of(affinity=to({"matchExpressions": []})), []) == NOT_THIS


# --- noderesources ---------------------------------------------------------------------------------

# What a node has, and amounts as "milli-CPUs memory", with more by name.
A, B, HUGE = "example.com/aaa", "example.com/bbb", "hugepages-2Mi"
K8S, SUB = "kubernetes.io/something", "subdomain.kubernetes.io/something"
HERE = Node("n", cpu=10, memory=20, pods=32, other_resources={A: 5, "ephemeral-storage": 20, HUGE: 5})


def amounts(text: str) -> dict[str, str]:
    """`1 2 example.com/aaa=3` as requests."""
    words = text.split()
    plain = [word for word in words if "=" not in word]
    sizes = dict(zip(("cpu", "memory"), (f"{plain[0]}m", plain[1]), strict=True)) if plain else {}
    return {**sizes, **labels_of(" ".join(word for word in words if "=" in word))}


def containers(texts: str, prefix: str) -> list[dict[str, Any]]:
    """`1 1; 2 1`: a container for each part; one that begins with `*` goes on beside the others."""
    made: list[dict[str, Any]] = []
    for at, text in enumerate(texts.split(";")):
        asked = amounts(text.strip().lstrip("*"))
        limits = {name: amount for name, amount in asked.items() if "/" in name or name == HUGE}
        resources = {"requests": asked, **({"limits": limits} if limits else {})}
        one: dict[str, Any] = {"name": f"{prefix}{at}", "image": "i", "resources": resources}
        made.append({**one, "restartPolicy": "Always"} if text.strip().startswith("*") else one)
    return made


def asking(texts: str = "", first: str = "", overhead: str = "", whole: str = "") -> PodSpec:
    """A pod of these containers, after those that come `first`; `whole` is asked for the pod itself."""
    spec: dict[str, Any] = {"containers": containers(texts, "c")}
    if first:
        spec["initContainers"] = containers(first, "i")
    if overhead:
        spec["overhead"] = amounts(overhead)
    if whole:
        asked = amounts(whole)
        limits = {name: amount for name, amount in asked.items() if name == HUGE}
        spec["resources"] = {"requests": asked, **({"limits": limits} if limits else {})}
    return pod_of(**spec)


def short(*names: str) -> str:
    return ", ".join(f"1 Insufficient {name}" for name in names)


@pytest.mark.parametrize(
    ("pod", "there", "refused"),
    [
        (asking(), "10 20", ""),
        (asking("1 1"), "10 20", short("cpu", "memory")),
        # Of init containers the largest counts, and what runs later where that is more.
        (asking("1 1", first="3 1"), "8 19", short("cpu")),
        (asking("1 1", first="3 1; 2 1"), "8 19", short("cpu")),
        (asking("1 1", first="1 3"), "9 19", short("memory")),
        (asking("1 1", first="1 3; 1 2"), "9 19", short("memory")),
        (asking("1 1", first="1 1"), "9 19", ""),
        (asking("1 1", first="1 1; 1 1"), "9 19", ""),
        (asking("1 1"), "5 5", ""),
        (asking("2 1"), "9 5", short("cpu")),
        (asking("1 2"), "5 19", short("memory")),
        (asking("5 1"), "5 19", ""),
        (asking("4 1", first="5 1"), "5 19", ""),
        # Resources of other kinds.
        (asking(f"{A}=1"), "0 0", ""),
        (asking("", first=f"{A}=1"), "0 0", ""),
        (asking(f"1 1 {A}=10"), f"0 0 {A}=0", short(A)),
        (asking("", first=f"1 1 {A}=10"), f"0 0 {A}=0", short(A)),
        (asking(f"1 1 {A}=1"), f"0 0 {A}=5", short(A)),
        (asking("", first=f"1 1 {A}=1"), f"0 0 {A}=5", short(A)),
        (asking(f"1 1 {A}=3; 1 1 {A}=3"), f"0 0 {A}=2", short(A)),
        (asking("", first=f"1 1 {A}=3; 1 1 {A}=3"), f"0 0 {A}=2", ""),
        (asking("", first=f"1 1 {A}=6; 1 1 {A}=3"), f"0 0 {A}=2", short(A)),
        (asking(f"1 1 {B}=1"), "0 0", short(B)),
        (asking("", first=f"1 1 {B}=1"), "0 0", short(B)),
        (asking(f"1 1 {K8S}=10"), "0 0", short(K8S)),
        (asking("", first=f"1 1 {SUB}=10"), "0 0", short(SUB)),
        (asking(f"1 1 {HUGE}=10"), f"0 0 {HUGE}=0", short(HUGE)),
        (asking("", first=f"1 1 {HUGE}=10"), f"0 0 {HUGE}=0", short(HUGE)),
        (asking(f"1 1 {HUGE}=3; 1 1 {HUGE}=3"), f"0 0 {HUGE}=2", short(HUGE)),
        (asking(f"1 1 {A}=0"), f"0 0 {A}=6", ""),
        # Nothing of cpu and memory is asked for, of which more is taken than there is.
        (asking(f"{A}=1"), f"20 30 {A}=1", ""),
        # What the sandbox costs.
        (asking("1 1", overhead="3 13"), "5 5", ""),
        (asking("1 1", overhead="1 15"), "5 5", short("memory")),
        # What is asked for the pod counts in the place of its containers'.
        (asking("1 1", whole="1 2"), "5 5", ""),
        (asking("1 1", whole="7 2"), "5 5", short("cpu")),
        (asking("1 1", whole="3 2"), "5 19", short("memory")),
        (asking("", whole=f"3 2 {HUGE}=5"), "", ""),
        (asking(f"1 1 {HUGE}=3", whole=f"3 2 {HUGE}=5"), "", ""),
        (asking("", whole=f"3 2 {HUGE}=10"), "", short(HUGE)),
        (asking("1 1", first="1 1", whole="3 2"), "5 19", short("memory")),
        # Ephemeral storage.
        (asking("1 1"), "2 10", ""),
        (asking("ephemeral-storage=25"), "2 2", short("ephemeral-storage")),
        (asking("ephemeral-storage=5"), "2 2 ephemeral-storage=10", ""),
        (asking("ephemeral-storage=10"), "2 2", ""),
    ],
)
def test_resources(pod: PodSpec, there: str, refused: str) -> None:
    others = [("n", asking(there))] if there else []
    assert outcome(HERE, pod, others) == refused


@pytest.mark.parametrize(
    ("pod", "there"),
    [(asking(), "10 20"), (asking("1 1"), "5 5"), (asking("5 1"), "5 19"), (asking("5 1", first="5 1"), "5 19")],
)
def test_as_many_pods_as_the_node_takes(pod: PodSpec, there: str) -> None:
    full = Node("n", cpu=10, memory=20, pods=1)
    assert outcome(full, pod, [("n", asking(there))]) == "1 Too many pods"


@pytest.mark.parametrize(
    ("pod", "refused"),
    [
        (asking(), ""),
        (asking("", first="*"), ""),
        (asking("1 0", first="*1 0"), ""),
        (asking("1 0", first="*2 0"), short("cpu")),
    ],
)
def test_containers_that_run_beside_all_others(pod: PodSpec, refused: str) -> None:
    assert outcome(Node("n", cpu=2, memory=0, pods=1), pod, []) == refused
