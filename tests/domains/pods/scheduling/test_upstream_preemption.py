"""Cases of preemption that Kubernetes decides in its own tests, in our words: who may evict, where, and whom.

Source: kubernetes v1.34.4, pkg/scheduler/framework/plugins/defaultpreemption/default_preemption_test.go
(TestPostFilter, TestDryRunPreemption, TestPodEligibleToPreemptOthers, TestPreempt; TestSelectBestCandidate
is in test_upstream_tables.py). Left out: plugins that fail, extenders, filters that never change their mind,
and how many nodes are looked at when other arguments say so.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.workloads import (
    Cluster,
    DisruptionBudget,
    ExistingPod,
    Node,
    PodSpec,
    Requests,
    SpreadConstraint,
    Workload,
)
from nexusform.kubernetes.matching import EXISTS, LabelSelector, Requirement, build_label_selector

SIZES = {"none": 0, "small": 100, "medium": 200, "large": 300, "huge": 500}
WEIGHTS = {"negative": -100, "low": 0, "mid": 100, "high": 1000, "top": 10_000}
FOO = LabelSelector(match_expressions=(Requirement("foo", EXISTS, ()),))


def spec_of(priority: str, size: str = "none", **more: Any) -> PodSpec:
    requests = Requests(SIZES[size], SIZES[size])
    return replace(PodSpec(priority=WEIGHTS[priority], requests=requests, scored_requests=requests), **more)


def stands(text: str, **more: Any) -> list[ExistingPod]:
    """`a1 on n1: low small` for each pod; the rest are its labels."""
    pods = []
    for part in filter(None, (each.strip() for each in text.split(";"))):
        name, _, rest = part.partition(" on ")
        where, _, words = rest.partition(": ")
        priority, size, *labels = words.split()
        pairs = tuple((key, value) for key, _, value in (label.partition("=") for label in sorted(labels)))
        spec = spec_of(priority, size, labels=pairs, **more)
        pods.append(ExistingPod(f"default/Pod/{name}", 0, where, spec))
    return pods


def decided(spec: PodSpec, nodes: tuple[Node, ...], pods: list[ExistingPod], **more: Any) -> tuple[PodOutcome, str]:
    """What becomes of a pod, and `n1: a b` where it goes to n1 when a and b have left."""
    found = predict(Cluster("k", nodes, **more), pods, [Workload("Pod", "default", "p", 1, spec)])
    (outcome,) = [each for each in found.outcomes if each.name == "p"]
    names = sorted(pod.name for pod in outcome.victims)
    return outcome, f"{outcome.node}: {' '.join(names)}" if names else outcome.node


def one_pod(*names: str) -> tuple[Node, ...]:
    """Nodes that take one pod each, and all that it asks for."""
    return tuple(Node(name, {"hostname": name}, cpu=64_000, memory=1 << 40, pods=1) for name in names)


def roomy(*names: str, amount: int = 500) -> tuple[Node, ...]:
    return tuple(Node(name, {"hostname": name}, cpu=amount, memory=amount) for name in names)


# --- where there is a candidate ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "nodes", "pods", "expected"),
    [
        (spec_of("high"), one_pod("n1"), "a on n1: low none", "n1: a"),
        (spec_of("low"), one_pod("n1"), "a on n1: low none", ""),
        # Only where those leave that are less important.
        (spec_of("mid"), one_pod("n1", "n2"), "a on n1: high none; b on n2: low none", "n2: b"),
        # No node has the room, whoever leaves.
        (
            spec_of("high", "large"),
            (Node("n1", cpu=200, memory=400), Node("n2", cpu=200, memory=400)),
            "a on n1: low none; b on n2: low none",
            "",
        ),
        (spec_of("low", "large"), roomy("n1", "n2"), "a on n1: mid large; b on n2: mid large", ""),
        # The small one of low priority may stay, as there is room without its place.
        (spec_of("high", "large"), roomy("n1"), "a on n1: low small; b on n1: mid large", "n1: b"),
        # Two small ones of low priority count less than one of middle priority, and one of high stays.
        (
            spec_of("high", "huge"),
            roomy("n1", "n2", "n3"),
            "a on n1: low small; b on n1: low small; c on n2: high large; d on n3: mid medium",
            "n1: a b",
        ),
        (
            replace(spec_of("high", "huge"), can_preempt=False),
            roomy("n1", "n2", "n3"),
            "a on n1: low small; b on n1: low small; c on n2: high large; d on n3: mid medium",
            "",
        ),
        # The sum of what leaves n1 is the larger one.
        (
            spec_of("high", "huge"),
            roomy("n1", "n2"),
            "a on n1: mid small; b on n1: low small; c on n2: mid large",
            "n2: c",
        ),
    ],
)
def test_where_room_is_made(spec: PodSpec, nodes: tuple[Node, ...], pods: str, expected: str) -> None:
    assert decided(spec, nodes, stands(pods))[1] == expected


def test_nodes_that_refuse_for_good_are_no_candidates() -> None:
    """Whoever leaves a node, it has no label that is asked for."""
    spec = replace(spec_of("high"), node_selector=(("disk", "ssd"),))
    nodes = (*one_pod("n1"), *(replace(each, labels={"disk": "ssd"}) for each in one_pod("n2")))
    pods = stands("a on n1: low none; b on n2: high none")
    assert decided(spec, nodes, pods)[1] == ""
    assert decided(spec, nodes, stands("a on n1: low none; b on n2: mid none"))[1] == "n2: b"


def test_reasons_of_a_mixture_of_nodes() -> None:
    """Of three nodes two take one pod each, which is important, and one is too small."""
    nodes = (*one_pod("n1"), Node("n2", cpu=200, memory=400), *one_pod("n3"))
    pods = stands("a on n1: high none; b on n2: low none; c on n3: high none")
    outcome, where = decided(spec_of("high", "large"), nodes, pods)
    assert where == ""
    assert outcome.reason == "0/3 nodes are available: 1 Insufficient cpu, 2 Too many pods."


def test_pods_of_a_spread_leave_where_that_helps() -> None:
    zones = {"a": "1", "b": "1", "x": "2"}
    nodes = tuple(Node(name, {"hostname": name, "zone": zone}, cpu=500) for name, zone in zones.items())
    spread = tuple(SpreadConstraint(key, 1, is_hard=True, selector=FOO) for key in ("zone", "hostname"))
    spec = replace(spec_of("high"), labels=(("foo", ""),), spread=spread)
    important = [f"{name} on {name[0]}: high none foo" for name in ("a1", "a2", "x1", "x2")]
    pods = stands("; ".join([*important, "b1 on b: low none foo"]))
    assert decided(spec, nodes, pods)[1] == "b: b1"


# --- budgets ---------------------------------------------------------------------------------------------


def guarding(name: str, label: str, **more: Any) -> DisruptionBudget:
    key, _, value = label.partition("=")
    return DisruptionBudget("default", name, build_label_selector({key: value}), **more)


def test_a_budget_that_is_broken_weighs_more_than_priorities() -> None:
    """One pod has to leave either node: of high priority under a budget that lets all go, or else of middle
    priority under one that lets none go. On the first there is a second one, under the strict budget.
    """
    budgets = (
        guarding("strict", "pdb=strict", min_available="100%"),
        guarding("loose", "pdb=loose", min_available="0"),
    )
    pods = stands("a on n1: high none pdb=loose; b on n1: low none pdb=strict; c on n2: mid none pdb=strict")
    assert decided(spec_of("top"), one_pod("n1", "n2"), pods, budgets=budgets)[1] == "n2: c"


@pytest.mark.parametrize(
    ("let_go", "expected"),
    [
        # One of two may go. n2 takes one violation, too, and there the victim is more important.
        ((), "n1: a b"),
        (("b",), "n1: a b"),
    ],
)
def test_violations_are_counted(let_go: tuple[str, ...], expected: str) -> None:
    budgets = (guarding("foo", "app=foo", max_unavailable="1"), guarding("bar", "app=bar", min_available="100%"))
    pods = stands("a on n1: mid medium app=foo; b on n1: mid medium app=foo; c on n2: high large app=bar")
    pods = [replace(pod, charged_budgets=("foo",)) if pod.name in let_go else pod for pod in pods]
    assert decided(spec_of("top", "huge"), roomy("n1", "n2"), pods, budgets=budgets)[1] == expected


@pytest.mark.parametrize(
    ("names", "let_go", "violations"),
    [
        ("ab", "", 1),
        # Who is named there is another pod.
        ("ab", "x", 1),
        # One of the two has been let go before: its eviction is no violation, and takes nothing away.
        ("ab", "b", 0),
        ("abc", "c", 1),
    ],
)
def test_pods_that_were_let_go_are_no_violation(names: str, let_go: str, violations: int) -> None:
    """Whether a node with such violations loses against one whose victim is more important, without any."""
    budgets = (guarding("foo", "app=foo", min_available=str(len(names) - 1)),)
    text = "; ".join(f"{name} on n1: low {'medium' if name < 'c' else 'small'} app=foo" for name in names)
    pods = stands(text + "; y on n2: mid huge")
    pods = [replace(pod, charged_budgets=("foo",)) if pod.name in let_go else pod for pod in pods]
    where = decided(spec_of("high", "huge"), roomy("n1", "n2"), pods, budgets=budgets)[1]
    assert where == (f"n1: {' '.join(names)}" if not violations else "n2: y")


def test_a_node_without_violations_is_found_among_many() -> None:
    guarded = [f"p{at} on n{at}: mid large app=foo" for at in (1, 2, 5)]
    pods = stands("; ".join([*guarded, "p3 on n3: mid large", "p4 on n4: mid large"]))
    budgets = (guarding("foo", "app=foo", max_unavailable="0"),)
    nodes = roomy(*(f"n{at}" for at in range(1, 6)))
    outcome, where = decided(spec_of("high", "large"), nodes, pods, budgets=budgets)
    assert where in ("n3: p3", "n4: p4")
    assert not outcome.is_certain


# --- who may evict at all ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "there", "expected"),
    [
        # Pods that terminate anyway make nobody wait who was promised no node of theirs.
        ({}, "low", "n1: a"),
        ({"can_preempt": False}, "low", ""),
    ],
)
def test_who_may_evict(more: dict[str, Any], there: str, expected: str) -> None:
    spec = replace(spec_of("high", "huge"), **more)
    assert decided(spec, roomy("n1"), stands(f"a on n1: {there} huge"))[1] == expected


def test_a_pod_that_terminates_is_a_victim_like_others() -> None:
    (going,) = stands("a on n1: low huge", is_terminating=True)
    going = replace(going, workload="default/Terminating/a")
    assert decided(spec_of("high", "huge"), roomy("n1"), [going])[1] == "n1: a"
