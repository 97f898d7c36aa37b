"""Upstream test cases of preemption, in short forms: eligible preemptors, nodes and victims.

Source: kubernetes v1.34.4,
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption_test.go (TestPostFilter,
TestDryRunPreemption, TestPodEligibleToPreemptOthers, TestPreempt; TestSelectBestCandidate is in
test_upstream_tables.py). Left out: failing plugins, extenders, filters with constant results, and
numbers of examined nodes under other arguments.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.cluster_records import (
    Cluster,
    ExistingPod,
    Node,
    PodDisruptionBudget,
    PodSpec,
    Requests,
    SpreadConstraint,
    Workload,
)
from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.kubernetes.matching import EXISTS, LabelSelector, Requirement, build_label_selector

SIZES = {"none": 0, "small": 100, "medium": 200, "large": 300, "huge": 500}
WEIGHTS = {"negative": -100, "low": 0, "mid": 100, "high": 1000, "top": 10_000}
FOO = LabelSelector(match_expressions=(Requirement("foo", EXISTS, ()),))


def build_spec(priority: str, size: str = "none", **more: Any) -> PodSpec:
    requests = Requests(SIZES[size], SIZES[size])
    return replace(
        PodSpec(priority=WEIGHTS[priority], requests=requests, scored_requests=requests), **more
    )


def parse_existing_pods(text: str, **more: Any) -> list[ExistingPod]:
    """Parse one pod per part such as `a1 on n1: low small`; the rest are its labels."""
    pods = []
    for part in filter(None, (each.strip() for each in text.split(";"))):
        name, _, rest = part.partition(" on ")
        where, _, words = rest.partition(": ")
        priority, size, *labels = words.split()
        pairs = tuple(
            (key, value) for key, _, value in (label.partition("=") for label in sorted(labels))
        )
        spec = build_spec(priority, size, labels=pairs, **more)
        pods.append(ExistingPod(f"default/Pod/{name}", 0, where, spec))
    return pods


def predict_preemption(
    spec: PodSpec, nodes: tuple[Node, ...], pods: list[ExistingPod], **more: Any
) -> tuple[PodOutcome, str]:
    """Return the outcome of a pod, and `n1: a b` if it runs on n1 after the eviction of a and b."""
    found = predict(Cluster("k", nodes, **more), pods, [Workload("Pod", "default", "p", 1, spec)])
    (outcome,) = [each for each in found.outcomes if each.name == "p"]
    names = sorted(pod.name for pod in outcome.victims)
    return outcome, f"{outcome.node}: {' '.join(names)}" if names else outcome.node


def build_one_pod_nodes(*names: str) -> tuple[Node, ...]:
    """Return nodes with capacity for one pod each and no other limit."""
    return tuple(
        Node(name, {"hostname": name}, cpu=64_000, memory=1 << 40, pods=1) for name in names
    )


def build_nodes_with_capacity(*names: str, amount: int = 500) -> tuple[Node, ...]:
    return tuple(Node(name, {"hostname": name}, cpu=amount, memory=amount) for name in names)


# --- candidates -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "nodes", "pods", "expected"),
    [
        (build_spec("high"), build_one_pod_nodes("n1"), "a on n1: low none", "n1: a"),
        (build_spec("low"), build_one_pod_nodes("n1"), "a on n1: low none", ""),
        # Only if the victims are less important.
        (
            build_spec("mid"),
            build_one_pod_nodes("n1", "n2"),
            "a on n1: high none; b on n2: low none",
            "n2: b",
        ),
        # No node has the capacity, whichever pods are evicted.
        (
            build_spec("high", "large"),
            (Node("n1", cpu=200, memory=400), Node("n2", cpu=200, memory=400)),
            "a on n1: low none; b on n2: low none",
            "",
        ),
        (
            build_spec("low", "large"),
            build_nodes_with_capacity("n1", "n2"),
            "a on n1: mid large; b on n2: mid large",
            "",
        ),
        # The small pod of low priority may stay because the capacity suffices with it.
        (
            build_spec("high", "large"),
            build_nodes_with_capacity("n1"),
            "a on n1: low small; b on n1: mid large",
            "n1: b",
        ),
        # Two small pods of low priority count less than one of middle priority, and the pod of
        # high priority stays.
        (
            build_spec("high", "huge"),
            build_nodes_with_capacity("n1", "n2", "n3"),
            "a on n1: low small; b on n1: low small; c on n2: high large; d on n3: mid medium",
            "n1: a b",
        ),
        (
            replace(build_spec("high", "huge"), can_preempt=False),
            build_nodes_with_capacity("n1", "n2", "n3"),
            "a on n1: low small; b on n1: low small; c on n2: high large; d on n3: mid medium",
            "",
        ),
        # The sum of the victims on n1 is the larger one.
        (
            build_spec("high", "huge"),
            build_nodes_with_capacity("n1", "n2"),
            "a on n1: mid small; b on n1: low small; c on n2: mid large",
            "n2: c",
        ),
    ],
)
def test_node_and_victims(spec: PodSpec, nodes: tuple[Node, ...], pods: str, expected: str) -> None:
    assert predict_preemption(spec, nodes, parse_existing_pods(pods))[1] == expected


def test_unresolvable_rejections_are_no_candidates() -> None:
    """No eviction gives the node the required label."""
    spec = replace(build_spec("high"), node_selector=(("disk", "ssd"),))
    nodes = (
        *build_one_pod_nodes("n1"),
        *(replace(each, labels={"disk": "ssd"}) for each in build_one_pod_nodes("n2")),
    )
    pods = parse_existing_pods("a on n1: low none; b on n2: high none")
    assert predict_preemption(spec, nodes, pods)[1] == ""
    assert (
        predict_preemption(
            spec, nodes, parse_existing_pods("a on n1: low none; b on n2: mid none")
        )[1]
        == "n2: b"
    )


def test_reasons_of_mixed_nodes() -> None:
    """Of three nodes, two have capacity for one pod each, taken by an important pod.

    One is too small.
    """
    nodes = (
        *build_one_pod_nodes("n1"),
        Node("n2", cpu=200, memory=400),
        *build_one_pod_nodes("n3"),
    )
    pods = parse_existing_pods("a on n1: high none; b on n2: low none; c on n3: high none")
    outcome, where = predict_preemption(build_spec("high", "large"), nodes, pods)
    assert where == ""
    assert outcome.reason == "0/3 nodes are available: 1 Insufficient cpu, 2 Too many pods."


def test_pods_are_evicted_to_satisfy_spread_constraint() -> None:
    zones = {"a": "1", "b": "1", "x": "2"}
    nodes = tuple(
        Node(name, {"hostname": name, "zone": zone}, cpu=500) for name, zone in zones.items()
    )
    spread = tuple(
        SpreadConstraint(key, 1, is_hard=True, selector=FOO) for key in ("zone", "hostname")
    )
    spec = replace(build_spec("high"), labels=(("foo", ""),), spread=spread)
    important = [f"{name} on {name[0]}: high none foo" for name in ("a1", "a2", "x1", "x2")]
    pods = parse_existing_pods("; ".join([*important, "b1 on b: low none foo"]))
    assert predict_preemption(spec, nodes, pods)[1] == "b: b1"


# --- budgets --------------------------------------------------------------------------------------


def build_budget(name: str, label: str, **more: Any) -> PodDisruptionBudget:
    key, _, value = label.partition("=")
    return PodDisruptionBudget("default", name, build_label_selector({key: value}), **more)


def test_budget_violation_outweighs_priorities() -> None:
    """One pod has to leave either node.

    One of high priority under a budget without limits, or one of middle priority under a budget
    with no allowed evictions. On the first node there is a second pod under the strict budget.
    """
    budgets = (
        build_budget("strict", "pdb=strict", min_available="100%"),
        build_budget("loose", "pdb=loose", min_available="0"),
    )
    pods = parse_existing_pods(
        "a on n1: high none pdb=loose; b on n1: low none pdb=strict; c on n2: mid none pdb=strict"
    )
    assert (
        predict_preemption(
            build_spec("top"), build_one_pod_nodes("n1", "n2"), pods, budgets=budgets
        )[1]
        == "n2: c"
    )


@pytest.mark.parametrize(
    ("let_go", "expected"),
    [
        # One of two may be evicted. n2 also has one violation, with a more important victim.
        ((), "n1: a b"),
        (("b",), "n1: a b"),
    ],
)
def test_violations_are_counted(let_go: tuple[str, ...], expected: str) -> None:
    budgets = (
        build_budget("foo", "app=foo", max_unavailable="1"),
        build_budget("bar", "app=bar", min_available="100%"),
    )
    pods = parse_existing_pods(
        "a on n1: mid medium app=foo; b on n1: mid medium app=foo; c on n2: high large app=bar"
    )
    pods = [replace(pod, charged_budgets=("foo",)) if pod.name in let_go else pod for pod in pods]
    assert (
        predict_preemption(
            build_spec("top", "huge"), build_nodes_with_capacity("n1", "n2"), pods, budgets=budgets
        )[1]
        == expected
    )


@pytest.mark.parametrize(
    ("names", "let_go", "violations"),
    [
        ("ab", "", 1),
        # The named pod is another one.
        ("ab", "x", 1),
        # One of the two was evicted before: its eviction is no violation and does not use
        # up the budget.
        ("ab", "b", 0),
        ("abc", "c", 1),
    ],
)
def test_already_evicted_pods_are_no_violation(names: str, let_go: str, violations: int) -> None:
    """A node with violations loses against a node with a more important victim and no violation."""
    budgets = (build_budget("foo", "app=foo", min_available=str(len(names) - 1)),)
    text = "; ".join(
        f"{name} on n1: low {'medium' if name < 'c' else 'small'} app=foo" for name in names
    )
    pods = parse_existing_pods(text + "; y on n2: mid huge")
    pods = [replace(pod, charged_budgets=("foo",)) if pod.name in let_go else pod for pod in pods]
    where = predict_preemption(
        build_spec("high", "huge"), build_nodes_with_capacity("n1", "n2"), pods, budgets=budgets
    )[1]
    assert where == (f"n1: {' '.join(names)}" if not violations else "n2: y")


def test_node_without_violations_is_found_among_many() -> None:
    guarded = [f"p{at} on n{at}: mid large app=foo" for at in (1, 2, 5)]
    pods = parse_existing_pods("; ".join([*guarded, "p3 on n3: mid large", "p4 on n4: mid large"]))
    budgets = (build_budget("foo", "app=foo", max_unavailable="0"),)
    nodes = build_nodes_with_capacity(*(f"n{at}" for at in range(1, 6)))
    outcome, where = predict_preemption(build_spec("high", "large"), nodes, pods, budgets=budgets)
    assert where in ("n3: p3", "n4: p4")
    assert not outcome.is_certain


# --- eligible preemptors --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "there", "expected"),
    [
        # A pod without a nominated node does not wait for terminating pods.
        ({}, "low", "n1: a"),
        ({"can_preempt": False}, "low", ""),
    ],
)
def test_eligible_preemptors(more: dict[str, Any], there: str, expected: str) -> None:
    spec = replace(build_spec("high", "huge"), **more)
    assert (
        predict_preemption(
            spec, build_nodes_with_capacity("n1"), parse_existing_pods(f"a on n1: {there} huge")
        )[1]
        == expected
    )


def test_terminating_pod_is_an_ordinary_victim() -> None:
    (going,) = parse_existing_pods("a on n1: low huge", is_terminating=True)
    going = replace(going, workload="default/Terminating/a")
    assert (
        predict_preemption(build_spec("high", "huge"), build_nodes_with_capacity("n1"), [going])[1]
        == "n1: a"
    )
