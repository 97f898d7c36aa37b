"""Upstream test cases of the scheduler, in short forms: input and expected result.

Source: kubernetes v1.34.4, pkg/scheduler/framework/plugins/<plugin>/*_test.go, named at each
table. Left out: everything outside the default profile (other weights or resources,
MostAllocated, added affinity).
"""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.cluster_records import HOSTNAME as HOST
from nexusform.domains.pods.scheduling.cluster_records import (
    Cluster,
    ExistingPod,
    Node,
    NodeSelectorTerm,
    PodDisruptionBudget,
    PodSpec,
    PodTerm,
    Requests,
    SpreadConstraint,
    Workload,
)
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.rules import (
    image_locality,
    node_affinity,
    node_usage,
    taints,
)
from nexusform.domains.pods.scheduling.scheduler_cache import NodeUsage
from nexusform.kubernetes.matching import (
    EXISTS,
    IN,
    LabelSelector,
    Requirement,
    Taint,
    Toleration,
    build_label_selector,
)

ANY_FOO = LabelSelector(match_expressions=(Requirement("foo", EXISTS, ()),))
MB = 1 << 20
# cpu and memory.
Size = tuple[int, int]


def build_spec(cpu: int, memory: int) -> PodSpec:
    return PodSpec(requests=Requests(cpu, memory), scored_requests=Requests(cpu, memory))


def build_usage(*sizes: Size) -> NodeUsage:
    usage = NodeUsage()
    for size in sizes:
        usage.add(build_spec(*size), 1)
    return usage


# --- noderesources: least_allocated_test.go, balanced_allocation_test.go --------------------------


@pytest.mark.parametrize(
    ("pod", "node", "there", "score"),
    [
        # No requests, on an empty or nearly empty node.
        ((0, 0), (4000, 10000), [], 100),
        ((0, 0), (4000, 10000), [(0, 0), (0, 0)], 100),
        # Two containers of 1000 and 2000, on nodes of two sizes.
        ((3000, 5000), (4000, 10000), [], 37),
        ((3000, 5000), (6000, 10000), [], 50),
        # Existing pods count like the new pod.
        ((0, 0), (10000, 20000), [(3000, 0), (3000, 0)], 70),
        ((0, 0), (10000, 20000), [(3000, 0), (3000, 5000)], 57),
        ((3000, 5000), (10000, 20000), [(3000, 0)], 57),
        ((3000, 5000), (10000, 20000), [(3000, 5000)], 45),
        ((3000, 5000), (10000, 50000), [(3000, 5000)], 60),
        # More usage than capacity counts as no remaining capacity.
        ((3000, 0), (4000, 10000), [(3000, 0)], 50),
        ((3000, 0), (4000, 10000), [(3000, 5000)], 25),
        # A node without any capacity.
        ((0, 0), (0, 0), [(3000, 5000)], 0),
        # Resources other than cpu and memory are not scored unless the pod requests them.
        ((3000, 4000), (6000, 10000), [], 55),
    ],
)
def test_least_allocated(pod: Size, node: Size, there: list[Size], score: int) -> None:
    here = Node("n", cpu=node[0], memory=node[1])
    assert node_usage.score_free_resources(build_spec(*pod), here, build_usage(*there)) == score


@pytest.mark.parametrize(
    ("pod", "node", "there", "score"),
    [
        ((3000, 5000), (4000, 10000), [], 87),
        ((3000, 5000), (6000, 10000), [], 100),
        ((3000, 5000), (10000, 20000), [(3000, 0)], 82),
        ((3000, 5000), (10000, 20000), [(3000, 5000)], 95),
        ((3000, 5000), (10000, 50000), [(3000, 5000)], 80),
        ((3000, 0), (6000, 10000), [(3000, 0)], 50),
        ((3000, 0), (6000, 10000), [(3000, 5000)], 75),
        # A further resource not requested by the pod makes no difference.
        ((3000, 5000), (3500, 40000), [], 63),
    ],
)
def test_balanced_allocation(pod: Size, node: Size, there: list[Size], score: int) -> None:
    here = Node("n", cpu=node[0], memory=node[1])
    assert node_usage.score_balance(build_spec(*pod), here, build_usage(*there)) == score


# --- imagelocality: image_locality_test.go --------------------------------------------------------

_A = (40, 300, 2000)
_B = (250, 10)
_C = (4000, 30)
_D = (600, 40, 900)
_E = (300, 600, 900)
_F = (20, 30, 40)


@pytest.mark.parametrize(
    ("pod", "nodes", "scores"),
    [
        # An image counts with its size (in its name, in MB) times the fraction of nodes
        # with the image.
        ((40, 250), [_A, _B], [0, 5]),
        ((40, 300), [_A, _B], [7, 0]),
        # At most 1000 MB for each container.
        ((10, 4000), [_C, _B], [100, 0]),
        ((10, 4000), [_C, _B, ()], [66, 0, 0]),
        ((300, 600, 900), [_D, _E, ()], [32, 36, 0]),
        # At least 23 MB in total.
        ((30, 40), [_F, _C], [1, 0]),
        # Images of init containers count like all others.
        ((30, 300), [_A, _F], [6, 0]),
    ],
)
def test_image_locality(
    pod: tuple[int, ...], nodes: list[tuple[int, ...]], scores: list[int]
) -> None:
    sizes = [{f"gcr.io/{size}:latest": size * MB for size in node} for node in nodes]
    here = [Node("n", images=images) for images in image_locality.compute_image_values(sizes)]
    spec = PodSpec(images=tuple(image_locality.add_default_tag(f"gcr.io/{size}") for size in pod))
    assert [image_locality.score(spec, node) for node in here] == scores


# --- tainttoleration: taint_toleration_test.go ----------------------------------------------------

SOFT = "PreferNoSchedule"
HARD = "NoSchedule"
EVICTING = "NoExecute"
ARM = ("cpu-type", "arm64")
SSD = ("disk-type", "ssd")


def build_tainted_node(*pairs: tuple[tuple[str, str], str]) -> Node:
    return Node("n", taints=tuple(Taint(key, value, effect) for (key, value), effect in pairs))


def build_tolerating_pod(*pairs: tuple[tuple[str, str], str]) -> PodSpec:
    return PodSpec(
        tolerations=tuple(Toleration(key, "Equal", value, effect) for (key, value), effect in pairs)
    )


@pytest.mark.parametrize(
    ("pod", "nodes", "scores"),
    [
        (
            build_tolerating_pod((("foo", "bar"), SOFT)),
            [
                build_tainted_node((("foo", "bar"), SOFT)),
                build_tainted_node((("foo", "blah"), SOFT)),
            ],
            [100, 0],
        ),
        # The number of tolerated taints does not matter,
        (
            build_tolerating_pod((ARM, SOFT), (SSD, SOFT)),
            [
                build_tainted_node(),
                build_tainted_node((ARM, SOFT)),
                build_tainted_node((ARM, SOFT), (SSD, SOFT)),
            ],
            [100, 100, 100],
        ),
        # only the number of untolerated taints.
        (
            build_tolerating_pod((("foo", "bar"), SOFT)),
            [
                build_tainted_node(),
                build_tainted_node((ARM, SOFT)),
                build_tainted_node((ARM, SOFT), (SSD, SOFT)),
            ],
            [100, 50, 0],
        ),
        # Only taints and tolerations of this one effect count.
        (
            build_tolerating_pod((ARM, HARD), (SSD, HARD)),
            [
                build_tainted_node(),
                build_tainted_node((ARM, HARD)),
                build_tainted_node((ARM, SOFT), (SSD, SOFT)),
            ],
            [100, 100, 0],
        ),
        (build_tolerating_pod(), [build_tainted_node(), build_tainted_node((ARM, SOFT))], [100, 0]),
    ],
)
def test_taints_in_scores(pod: PodSpec, nodes: list[Node], scores: list[int]) -> None:
    assert taints.normalize_scores([taints.score(pod, node) for node in nodes]) == scores


USER = ("dedicated", "user1")


@pytest.mark.parametrize(
    ("pod", "node", "refused"),
    [
        (build_tolerating_pod(), build_tainted_node((USER, HARD)), True),
        (build_tolerating_pod((USER, HARD)), build_tainted_node((USER, HARD)), False),
        (
            build_tolerating_pod((("dedicated", "user2"), HARD)),
            build_tainted_node((USER, HARD)),
            True,
        ),
        (
            PodSpec(tolerations=(Toleration("foo", "Exists", "", HARD),)),
            build_tainted_node((("foo", "bar"), HARD)),
            False,
        ),
        (
            build_tolerating_pod((("dedicated", "user2"), HARD), (("foo", "bar"), HARD)),
            build_tainted_node((("dedicated", "user2"), HARD), (("foo", "bar"), HARD)),
            False,
        ),
        # A toleration of another effect, and a taint with an effect on scores only.
        (
            build_tolerating_pod((("foo", "bar"), SOFT)),
            build_tainted_node((("foo", "bar"), HARD)),
            True,
        ),
        (
            PodSpec(tolerations=(Toleration("foo", "Equal", "bar"),)),
            build_tainted_node((("foo", "bar"), HARD)),
            False,
        ),
        (build_tolerating_pod((USER, HARD)), build_tainted_node((USER, SOFT)), False),
        (build_tolerating_pod(), build_tainted_node((USER, SOFT)), False),
        (build_tolerating_pod(), build_tainted_node((USER, EVICTING)), True),
    ],
)
def test_taints_in_filters(pod: PodSpec, node: Node, refused: bool) -> None:
    assert (taints.find_rejection(pod, node) is not None) == refused


# --- nodeaffinity: node_affinity_test.go ----------------------------------------------------------


def build_preference(weight: int, **labels: str) -> tuple[int, NodeSelectorTerm]:
    return weight, NodeSelectorTerm(
        tuple(Requirement(key, IN, (value,)) for key, value in labels.items())
    )


FOO = {"foo": "bar"}
KEY = {"key": "value"}
AZ = {"az": "az1"}
THREE = (
    build_preference(2, **FOO),
    build_preference(4, **KEY),
    build_preference(5, **FOO, **KEY, **AZ),
)


@pytest.mark.parametrize(
    ("wishes", "nodes", "scores"),
    [
        ((), [FOO, KEY, AZ], [0, 0, 0]),
        ((build_preference(2, **FOO),), [{"abc": "az11", "def": "az22"}, KEY, AZ], [0, 0, 0]),
        ((build_preference(2, **FOO),), [FOO, KEY, AZ], [100, 0, 0]),
        (THREE, [FOO, {**FOO, **KEY, **AZ}, KEY], [18, 100, 36]),
    ],
)
def test_preferred_nodes(
    wishes: tuple[tuple[int, NodeSelectorTerm], ...], nodes: list[dict[str, str]], scores: list[int]
) -> None:
    spec = PodSpec(preferred_nodes=wishes)
    assert (
        node_affinity.normalize_scores(
            [node_affinity.score(spec, Node("n", labels)) for labels in nodes]
        )
        == scores
    )


# --- defaultpreemption: default_preemption_test.go, choice of the node ----------------------------

S = 100
M = 200
L = 300
XL = 500
NEGATIVE = -100
LOW = 0
MID = 100
HIGH = 1000
VERY_HIGH = 10000
# Pods by node: priority, size, start.
Stands = dict[str, list[tuple[int, int, int]]]


def add_start(*pods: tuple[int, int]) -> list[tuple[int, int, int]]:
    return [(*pod, 0) for pod in pods]


@pytest.mark.parametrize(
    ("stands", "size", "priority", "chosen"),
    [
        ({"n1": add_start((MID, L)), "n2": add_start((MID, L))}, L, HIGH, "n1 n2"),
        # The lowest of the highest priorities,
        (
            {
                "n1": add_start((MID, M), (MID, L)),
                "n2": add_start((MID, M), (LOW, M)),
                "n3": add_start((LOW, M), (LOW, M)),
            },
            XL,
            HIGH,
            "n3",
        ),
        # then the smallest sum,
        (
            {
                "n1": add_start((MID, M), (MID, L)),
                "n2": add_start((MID, L), (LOW, M)),
                "n3": add_start((MID, M), (MID, M)),
            },
            XL,
            HIGH,
            "n2",
        ),
        # then the fewest; for the sum all priorities are raised above zero.
        (
            {
                "n1": add_start((MID, S), (NEGATIVE, S), (MID, S), (NEGATIVE, S)),
                "n2": add_start((MID, L), (NEGATIVE, M)),
                "n3": add_start((MID, M), (NEGATIVE, S), (LOW, S)),
            },
            XL,
            HIGH,
            "n2",
        ),
        (
            {
                "n1": add_start((MID, S), (NEGATIVE, S), (NEGATIVE, S)),
                "n2": add_start((MID, L), (NEGATIVE, M)),
                "n3": add_start((MID, M), (NEGATIVE, S), (LOW, S)),
            },
            XL,
            HIGH,
            "n2",
        ),
        (
            {
                "n1": add_start((MID, S), (LOW, S), (LOW, S)),
                "n2": add_start((HIGH, L)),
                "n3": add_start((MID, M), (LOW, S), (LOW, S), (LOW, M)),
                "n4": add_start((MID, M), (MID, S), (MID, S), (NEGATIVE, S)),
            },
            XL,
            VERY_HIGH,
            "n1",
        ),
        # Among equals, the node with the latest start of its most important victim.
        (
            {"n1": [(MID, M, 2)] * 2, "n2": [(MID, M, 3)] * 2, "n3": [(MID, M, 1)] * 2},
            XL,
            HIGH,
            "n2",
        ),
        (
            {
                "n1": [(MID, M, 4), (MID, M, 2)],
                "n2": [(MID, M, 5), (MID, M, 1)],
                "n3": [(MID, M, 3), (MID, M, 6)],
            },
            XL,
            HIGH,
            "n3",
        ),
        (
            {
                "n1": [(LOW, M, 4), (MID, M, 2)],
                "n2": [(MID, M, 6), (LOW, M, 1)],
                "n3": [(LOW, M, 3), (MID, M, 5)],
            },
            XL,
            HIGH,
            "n2",
        ),
    ],
)
def test_node_of_victims(stands: Stands, size: int, priority: int, chosen: str) -> None:
    nodes = tuple(Node(name, cpu=XL, memory=XL) for name in stands)
    standing = [
        ExistingPod(
            f"default/Pod/{name}-{at}",
            0,
            name,
            replace(build_spec(size, size), priority=importance),
            start,
        )
        for name, pods in stands.items()
        for at, (importance, size, start) in enumerate(pods)
    ]
    Random(7).shuffle(standing)
    comer = Workload("Pod", "default", "p", 1, replace(build_spec(size, size), priority=priority))
    (outcome,) = [
        each
        for each in predict(Cluster("k", nodes), standing, [comer]).outcomes
        if each.name == "p"
    ]
    assert outcome.node in chosen.split()
    assert {pod.node for pod in outcome.victims} == {outcome.node}
    assert outcome.is_certain == (" " not in chosen)


# --- defaultpreemption: default_preemption_test.go, who leaves a node
# ------------------------------- Left out: eviction that was begun and is not over
# (status.disruptedPods), and fewer candidates than nodes.


@pytest.mark.parametrize(
    ("stands", "size", "priority", "leave"),
    [
        (add_start((MID, L)), L, HIGH, {0}),
        # No pod of the same or a higher priority.
        (add_start((MID, L)), L, LOW, set()),
        (add_start((HIGH, L)), L, HIGH, set()),
        # The small pod of low priority fits next to the new pod.
        (add_start((LOW, S), (MID, L)), L, HIGH, {1}),
        (add_start((MID, S), (LOW, S), (MID, M), (HIGH, S)), L, HIGH, {1, 2}),
        # Among equals, the pods started last are evicted.
        ([(LOW, S, 5), (LOW, S, 4), (MID, M, 3), (HIGH, S, 2)], L, HIGH, {0, 2}),
    ],
)
def test_victims_on_one_node(
    stands: list[tuple[int, int, int]], size: int, priority: int, leave: set[int]
) -> None:
    node = Node("n", cpu=XL, memory=XL)
    standing = [
        ExistingPod(
            f"default/Pod/{at}", 0, "n", replace(build_spec(its, its), priority=importance), start
        )
        for at, (importance, its, start) in enumerate(stands)
    ]
    comer = Workload("Pod", "default", "p", 1, replace(build_spec(size, size), priority=priority))
    found = predict(Cluster("k", (node,)), standing, [comer]).outcomes
    (outcome,) = [each for each in found if each.name == "p"]
    assert {int(pod.name) for pod in outcome.victims} == leave
    assert bool(outcome.node) == bool(leave)


def test_pods_with_anti_affinity_to_new_pod_are_evicted() -> None:
    apart = PodTerm(HOST, ANY_FOO, ("default",))
    foo = (("foo", ""),)
    standing = [
        ExistingPod(
            "default/Pod/0", 0, "n", replace(build_spec(S, S), labels=foo, anti_affinity=(apart,))
        ),
        ExistingPod("default/Pod/1", 0, "n", replace(build_spec(S, S), priority=MID)),
        ExistingPod("default/Pod/2", 0, "n", replace(build_spec(S, S), priority=HIGH)),
    ]
    comer = Workload("Pod", "default", "p", 1, replace(build_spec(S, S), labels=foo, priority=HIGH))
    node = Node("n", {HOST: "n"}, cpu=XL, memory=XL)
    outcome = predict(Cluster("k", (node,)), standing, [comer]).outcomes[0]
    assert [pod.name for pod in outcome.victims] == ["0"]


def test_pods_are_evicted_to_spread_others() -> None:
    foo = (("foo", ""),)
    zones = (("a", "1"), ("b", "1"), ("x", "2"))
    nodes = [Node(name, {HOST: name, "zone": zone}, cpu=XL) for name, zone in zones]
    by_zone, by_host = (
        SpreadConstraint(key, 1, is_hard=True, selector=ANY_FOO) for key in ("zone", HOST)
    )
    there = [("a", MID), ("a", LOW), ("b", LOW), ("x", HIGH), ("x", HIGH)]
    standing = [
        ExistingPod(f"default/Pod/{at}", 0, name, PodSpec(labels=foo, priority=importance))
        for at, (name, importance) in enumerate(there)
    ]
    spec = PodSpec(labels=foo, priority=HIGH, spread=(by_zone, by_host))
    comer = Workload("Pod", "default", "p", 1, spec)
    outcome = predict(Cluster("k", tuple(nodes)), standing, [comer]).outcomes[0]
    assert (outcome.node, [pod.name for pod in outcome.victims]) in (("a", ["1"]), ("b", ["2"]))


def test_allowed_evictions_of_budget_are_used_up() -> None:
    """One of two may be evicted: the second is a violation, and a node without violations wins."""
    app = (("app", "foo"),)
    budget = PodDisruptionBudget(
        "default", "b", build_label_selector({"app": "foo"}), max_unavailable="1"
    )
    pods = [
        ExistingPod(
            f"default/Pod/{at}", 0, node, replace(build_spec(M, M), labels=app, priority=MID)
        )
        for at, node in enumerate(("n1", "n1"))
    ]
    others = [
        ExistingPod(f"default/Pod/{at}", 0, "n2", replace(build_spec(M, M), priority=HIGH))
        for at in (2, 3)
    ]
    nodes = tuple(Node(name, cpu=XL, memory=XL) for name in ("n1", "n2"))
    comer = Workload("Pod", "default", "p", 1, replace(build_spec(XL, XL), priority=VERY_HIGH))
    outcome = predict(Cluster("k", nodes, budgets=(budget,)), [*pods, *others], [comer]).outcomes[0]
    assert outcome.node == "n2"
