"""Upstream test cases of scoring by topology spread and inter-pod affinity, in short forms.

Source: kubernetes v1.34.4, pkg/scheduler/framework/plugins/podtopologyspread/scoring_test.go and
interpodaffinity/scoring_test.go. Left out: nodes scored there although the scheduler would have
rejected them before, and arguments outside the default profile (ignorePreferredTermsOfExistingPods
and another hardPodAffinityWeight).
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.cluster_records import (
    Cluster,
    ExistingPod,
    Node,
    PodSpec,
    PodTerm,
    SpreadConstraint,
)
from nexusform.domains.pods.scheduling.pod_explanation import evaluate_nodes
from nexusform.kubernetes.matching import (
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    NOT_IN,
    LabelSelector,
    Requirement,
)

HOST = "kubernetes.io/hostname"
# Weight of either rule in the default profile.
WEIGHT = 2


def build_exists_selector(*keys: str) -> LabelSelector:
    return LabelSelector(match_expressions=tuple(Requirement(key, EXISTS, ()) for key in keys))


FOO = build_exists_selector("foo")
BAR = build_exists_selector("bar")


def build_soft_constraint(
    key: str, selector: LabelSelector | None = FOO, skew: int = 1
) -> SpreadConstraint:
    return SpreadConstraint(key, skew, is_hard=False, selector=selector)


def build_labelled_pod(keys: str, **more: object) -> PodSpec:
    """Return a pod with these labels, each without a value."""
    return replace(PodSpec(labels=tuple((key, "") for key in sorted(keys.split()))), **more)  # type: ignore[arg-type]


def evaluate_scores(
    nodes: list[Node], standing: list[tuple[str, PodSpec]], pod: PodSpec, rule: str, **more: object
) -> dict[str, int]:
    pods = [
        ExistingPod(f"default/Pod/x{at}", 0, node, spec) for at, (node, spec) in enumerate(standing)
    ]
    cluster = Cluster("k", tuple(nodes), **more)  # type: ignore[arg-type]
    verdicts = evaluate_nodes(cluster, pods, pod)
    return {
        each.node: each.points.get(rule, 0) // WEIGHT for each in verdicts if each.total is not None
    }


# --- podtopologyspread ----------------------------------------------------------------------------

# Pods as "node: labels of one, labels of the next", nodes as "name=zone"; "!" marks
# an infeasible node.
HOSTS = "a b c d"
ZONED = "a=z1 b=z1 x=z2 y=z2"


def parse_nodes(text: str) -> list[Node]:
    nodes = []
    for word in text.split():
        name, _, zone = word.lstrip("!").partition("=")
        labels = {HOST: name} if not name.endswith("?") else {}
        name = name.rstrip("?")
        labels |= {"zone": zone} if zone else {}
        nodes.append(
            Node(name, labels, cpu=64_000, memory=1 << 40, unschedulable=word.startswith("!"))
        )
    return nodes


def parse_pods(text: str) -> list[tuple[str, PodSpec]]:
    pods: list[tuple[str, PodSpec]] = []
    for part in filter(None, text.split(";")):
        node, _, of_node = part.partition(":")
        pods += [(node.strip(), build_labelled_pod(keys)) for keys in of_node.split(",")]
    return pods


TWO = (build_soft_constraint("zone"), build_soft_constraint(HOST, BAR))


@pytest.mark.parametrize(
    ("constraints", "nodes", "standing", "expected"),
    [
        ([build_soft_constraint(HOST)], "a b", "", {"a": 100, "b": 100}),
        # The only candidate, and equal candidates.
        ([build_soft_constraint(HOST)], "a !b", "a:foo,foo;b:foo", {"a": 100}),
        ([build_soft_constraint(HOST)], "a b", "a:foo;b:foo", {"a": 100, "b": 100}),
        # 2, 1, 0 and 3 pods.
        (
            [build_soft_constraint(HOST)],
            HOSTS,
            "a:foo,foo;b:foo;d:foo,foo,foo",
            {"a": 20, "b": 60, "c": 100, "d": 0},
        ),
        (
            [build_soft_constraint(HOST, None)],
            HOSTS,
            "a:foo,foo;b:foo;d:foo,foo,foo",
            dict.fromkeys("abcd", 100),
        ),
        # A larger maxSkew makes differences smaller.
        (
            [build_soft_constraint(HOST, skew=2)],
            HOSTS,
            "a:foo,foo;b:foo;d:foo,foo,foo",
            {"a": 33, "b": 66, "c": 100, "d": 16},
        ),
        (
            [build_soft_constraint(HOST, skew=3)],
            HOSTS,
            "a:foo,foo,foo,foo;b:foo,foo,foo;c:foo,foo;d:foo",
            {"a": 44, "b": 66, "c": 77, "d": 100},
        ),
        # Pods on infeasible nodes count for whole domains, but not per host.
        (
            [build_soft_constraint(HOST)],
            "a b x !y",
            "a:foo,foo,foo,foo;b:foo,foo;x:foo;y:foo,foo,foo",
            {"a": 33, "b": 83, "x": 100},
        ),
        # A node without the key scores zero.
        (
            [build_soft_constraint(HOST)],
            "a b? x !y",
            "a:foo,foo,foo,foo;b:foo,foo;x:foo;y:foo,foo,foo",
            {"a": 16, "b": 0, "x": 100},
        ),
        (
            [build_soft_constraint("zone")],
            "a=z1 b=z1 x=z2 !y=z2",
            "a:foo,foo,foo,foo;b:foo,foo;x:foo;y:foo,foo,foo",
            {"a": 75, "b": 75, "x": 100},
        ),
        (
            [build_soft_constraint("zone"), build_soft_constraint(HOST)],
            "a=z1 !b=z1 x=z2 !y=z2",
            "a:foo,foo;b:foo;x:foo,foo;y:foo,foo,foo,foo",
            {"a": 100, "x": 63},
        ),
        (
            [build_soft_constraint("zone"), build_soft_constraint("zone", BAR)],
            "a=z1 !b=z1 x=z2 !y=z2",
            "a:foo bar,foo;b:foo bar;y:foo,foo bar,foo",
            {"a": 85, "x": 100},
        ),
        (TWO, ZONED, "a:foo;b:foo bar;y:foo,bar", {"a": 60, "b": 20, "x": 100, "y": 60}),
        (TWO, ZONED, "b:bar;x:foo;y:foo bar", {"a": 100, "b": 60, "x": 40, "y": 0}),
        (TWO, "a=z1 b=z1 x=z2 !y=z2", "a:foo;b:foo bar;y:foo,bar", {"a": 50, "b": 25, "x": 100}),
    ],
)
def test_soft_spread(
    constraints: list[SpreadConstraint], nodes: str, standing: str, expected: dict[str, int]
) -> None:
    pod = build_labelled_pod("foo bar", spread=tuple(constraints))
    assert (
        evaluate_scores(parse_nodes(nodes), parse_pods(standing), pod, "topology_spread")
        == expected
    )


def test_terminating_pods_and_other_namespaces_do_not_count() -> None:
    pod = build_labelled_pod("foo", spread=(build_soft_constraint(HOST),))
    one = build_labelled_pod("foo")
    elsewhere = [("a", replace(one, namespace="ns1")), ("a", one), ("b", one), ("b", one)]
    assert evaluate_scores(parse_nodes("a b"), elsewhere, pod, "topology_spread") == {
        "a": 100,
        "b": 33,
    }
    going = [("a", replace(one, is_terminating=True)), ("b", one)]
    assert evaluate_scores(parse_nodes("a b"), going, pod, "topology_spread") == {"a": 100, "b": 0}


def test_min_domains_does_not_affect_soft_constraint() -> None:
    constraint = replace(build_soft_constraint("zone", skew=2), min_domains=10)
    standing = parse_pods("a:foo,foo;b:foo,foo;c:foo")
    found = evaluate_scores(
        parse_nodes("a=1 b=2 c=3"),
        standing,
        build_labelled_pod("foo", spread=(constraint,)),
        "topology_spread",
    )
    assert found == {"a": 75, "b": 75, "c": 100}


# --- interpodaffinity -----------------------------------------------------------------------------

S1 = (("security", "S1"),)
S2 = (("security", "S2"),)
CHINA = {"region": "China"}
INDIA = {"region": "India"}
AZ1 = {"az": "az1"}
AZ2 = {"az": "az2"}
IN_S1 = LabelSelector(match_expressions=(Requirement("security", IN, ("S1",)),))
IN_S2 = LabelSelector(match_expressions=(Requirement("security", IN, ("S2",)),))
NOT_S1_BUT_S2 = LabelSelector(
    match_expressions=(Requirement("security", NOT_IN, ("S1",)), *IN_S2.match_expressions)
)
ANY = LabelSelector(
    match_expressions=(
        Requirement("security", EXISTS, ()),
        Requirement("wrongkey", DOES_NOT_EXIST, ()),
    )
)
S1_OR = LabelSelector(match_expressions=(Requirement("security", IN, ("S1", "value2")),))
OF_TEAM1 = LabelSelector(match_expressions=(Requirement("team", IN, ("team1",)),))
NAMESPACES = {
    "subteam1.team1": {"team": "team1"},
    "subteam2.team1": {"team": "team1"},
    "subteam1.team2": {"team": "team2"},
    "subteam2.team2": {"team": "team2"},
}


def build_pod_term(selector: LabelSelector, key: str, weight: int = 0) -> PodTerm:
    return PodTerm(key, selector, ("default",), None, weight)


def build_secured_pod(labels: tuple[tuple[str, str], ...], **more: object) -> PodSpec:
    return replace(PodSpec(labels=labels), **more)  # type: ignore[arg-type]


WITH_S1 = {"preferred_affinity": (build_pod_term(IN_S1, "region", 5),)}
WITH_S2 = {"preferred_affinity": (build_pod_term(IN_S2, "region", 6),)}
MANY = {
    "preferred_affinity": (
        build_pod_term(NOT_S1_BUT_S2, "region", 8),
        build_pod_term(ANY, "region", 2),
    )
}
HARD = {"affinity": (build_pod_term(S1_OR, "region"), build_pod_term(ANY, "region"))}
FROM_S1 = {"preferred_anti_affinity": (build_pod_term(IN_S1, "az", 5),)}
FROM_S2 = {"preferred_anti_affinity": (build_pod_term(IN_S2, "az", 5),)}
BOTH = {"preferred_affinity": (build_pod_term(IN_S1, "region", 8),), **FROM_S2}
OVER_TEAMS = PodTerm("region", IN_S1, ("subteam2.team2",), OF_TEAM1, 5)
Stands = list[tuple[int, PodSpec]]


@pytest.mark.parametrize(
    ("pod", "nodes", "standing", "expected"),
    [
        (build_secured_pod(S1), [CHINA, INDIA, AZ1], [], [0, 0, 0]),
        # Matching pods count in their domain; a node without the key has none.
        (
            build_secured_pod(S1, **WITH_S1),
            [CHINA, INDIA, AZ1],
            [(0, build_secured_pod(S1)), (1, build_secured_pod(S2)), (2, build_secured_pod(S1))],
            [100, 0, 0],
        ),
        (
            PodSpec(**WITH_S1),
            [CHINA, {**CHINA, **AZ1}, INDIA],
            [(0, build_secured_pod(S1))],
            [100, 100, 0],
        ),
        (
            build_secured_pod(S1, **WITH_S2),
            [CHINA, INDIA, CHINA, CHINA, INDIA],
            [(at, build_secured_pod(S2)) for at in (0, 0, 1, 2, 3, 4)],
            [100, 0, 100, 100, 0],
        ),
        (
            build_secured_pod(S1, **MANY),
            [CHINA, INDIA, AZ1],
            [(0, build_secured_pod(S1)), (1, build_secured_pod(S2)), (2, build_secured_pod(S1))],
            [20, 100, 0],
        ),
        # Terms of existing pods count as well: preferred ones with their weight, required ones
        # with one point.
        (
            build_secured_pod(S2),
            [CHINA, INDIA, AZ1],
            [(0, build_secured_pod(S1, **WITH_S1)), (1, build_secured_pod(S2, **WITH_S2))],
            [0, 100, 0],
        ),
        (
            build_secured_pod(S1),
            [CHINA, INDIA, AZ1],
            [(0, build_secured_pod(S1, **HARD)), (1, build_secured_pod(S2, **HARD))],
            [100, 100, 0],
        ),
        # Terms with a namespace selector.
        (
            build_secured_pod(S1, namespace="subteam1.team1"),
            [CHINA, INDIA, AZ1],
            [
                (0, build_secured_pod(S1, preferred_affinity=(OVER_TEAMS,))),
                (1, build_secured_pod(S2, **WITH_S2)),
            ],
            [100, 0, 0],
        ),
        (
            build_secured_pod(S1, namespace="subteam1.team1"),
            [CHINA, INDIA, AZ1],
            [
                (0, build_secured_pod(S1, preferred_anti_affinity=(OVER_TEAMS,))),
                (1, build_secured_pod(S2, **WITH_S2)),
            ],
            [0, 100, 100],
        ),
        # Preferred anti-affinity.
        (
            build_secured_pod(S1, **FROM_S1),
            [AZ1, CHINA],
            [(0, build_secured_pod(S1)), (1, build_secured_pod(S2))],
            [0, 100],
        ),
        (
            build_secured_pod(S1, **FROM_S1),
            [AZ1, CHINA],
            [(0, build_secured_pod(S1)), (1, build_secured_pod(S1))],
            [0, 100],
        ),
        (
            build_secured_pod(S1, **FROM_S1),
            [AZ1, INDIA],
            [(0, build_secured_pod(S1)), (0, build_secured_pod(S1)), (1, build_secured_pod(S2))],
            [0, 100],
        ),
        (
            build_secured_pod(S2),
            [AZ1, AZ2],
            [(0, build_secured_pod(S1, **FROM_S2)), (1, build_secured_pod(S2, **FROM_S1))],
            [0, 100],
        ),
        # Both at once.
        (
            build_secured_pod(S1, **BOTH),
            [CHINA, AZ1],
            [(0, build_secured_pod(S1)), (1, build_secured_pod(S1))],
            [100, 0],
        ),
    ],
)
def test_preferred_pod_affinity(
    pod: PodSpec, nodes: list[dict[str, str]], standing: Stands, expected: list[int]
) -> None:
    here = [Node(f"n{at}", labels, cpu=64_000, memory=1 << 40) for at, labels in enumerate(nodes)]
    pods = [(f"n{at}", spec) for at, spec in standing]
    found = evaluate_scores(here, pods, pod, "inter_pod_affinity", namespaces=NAMESPACES)
    assert [found[node.name] for node in here] == expected
