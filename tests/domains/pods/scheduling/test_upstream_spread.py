"""Upstream test cases of filtering nodes by hard topology spread constraints, in short forms.

Source: kubernetes v1.34.4, pkg/scheduler/framework/plugins/podtopologyspread/filtering_test.go
(TestSingleConstraint, TestMultipleConstraints; TestPreFilterState and scoring_test.go for the
selection by matchLabelKeys) and pkg/registry/core/pod/strategy_test.go
(mutateTopologySpreadConstraints). Left out: internal counters, feature gates locked to on, and
defaults other than those of a cluster.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.cluster_records import Cluster, Node, PodSpec
from nexusform.domains.pods.scheduling.pod_explanation import evaluate_nodes
from nexusform.kubernetes.matching import Taint
from tests.domains.pods.scheduling.upstream_forms import (
    HARD,
    build_existing_pods,
    build_node,
    build_pod_spec,
    evaluate_rule,
    format_rejections,
    parse_selector,
)

FOO = "foo"
BAR = "bar"
GONE = "terminating"


def build_constraint(
    key: str, chosen: str | None = FOO, skew: int = 1, hard: bool = True, **more: Any
) -> dict[str, Any]:
    when = "DoNotSchedule" if hard else "ScheduleAnyway"
    selected = {} if chosen is None else {"labelSelector": parse_selector(chosen)}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, **selected, **more}


def parse_nodes(text: str) -> list[Node]:
    """Parse nodes: `a/1` in zone 1, `b/-` in none.

    `+` adds the label foo, `~` a taint, `?` removes the name label.
    """
    nodes = []
    for word in text.split():
        name, _, zone = word.rstrip("+~?").partition("/")
        labels = f"node={name}" if "?" not in word else ""
        labels += f" zone={zone}" if zone.isdecimal() else ""
        taints = (Taint("taint-key", "taint-value", "NoSchedule"),) if "~" in word else ()
        nodes.append(build_node(name, labels + (" foo" if "+" in word else ""), taints=taints))
    return nodes


def parse_pods(text: str) -> list[tuple[str, PodSpec]]:
    """Parse `a: foo, foo bar; b: foo`: by node, the labels of each pod."""
    pods: list[tuple[str, PodSpec]] = []
    for part in filter(None, text.split(";")):
        name, _, of_node = part.partition(":")
        pods += [(name.strip(), build_pod_spec(labels)) for labels in of_node.split(",")]
    return pods


def evaluate_spread(pod: PodSpec, nodes: str, pods: str) -> str:
    return format_rejections(
        evaluate_rule("topology_spread", pod, parse_nodes(nodes), parse_pods(pods))
    )


FOUR = "a/1 b/1 x/2 y/2"
NODES = "a b x y"
ZONE = build_constraint("zone")
NODE = build_constraint("node")
IGNORED = {"nodeAffinityPolicy": "Ignore"}
HONORED = {"nodeTaintsPolicy": "Honor"}
UNEVEN = "a: foo, foo; b: foo; y: foo, foo, foo"
ONE_EACH = "a: foo; b: foo; y: foo"
ON_FOO = {"nodeSelector": {"foo": ""}}


def build_node_affinity(text: str) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {HARD: {"nodeSelectorTerms": [parse_selector(text)]}}}}


@pytest.mark.parametrize(
    ("constraint", "pod", "nodes", "pods", "expected"),
    [
        (ZONE, {}, FOUR, "", "a b x y"),
        # A pod outside its own selector does not change the skew.
        (build_constraint("zone", BAR), {}, FOUR, "", "a b x y"),
        (build_constraint("zone", None), {}, FOUR, "x: foo; y: foo", "a b x y"),
        (ZONE, {}, FOUR, UNEVEN, "a b x y"),
        # A typo in a node label, and a key missing on all nodes.
        (ZONE, {}, "a/1 b/- x/2 y/2", "a: foo; b: foo; x: foo; y: foo", "a !!b !x !y"),
        (build_constraint("rack"), {}, "a/1 x/2", "", "!!a !!x"),
        (NODE, {}, FOUR, UNEVEN, "!a !b x !y"),
        (build_constraint("node", skew=2), {}, FOUR, UNEVEN, "!a b x !y"),
        (NODE, {"labels": "bar"}, FOUR, UNEVEN, "!a b x !y"),
        # Nodes excluded by affinity do not count (and are rejected by another rule).
        (NODE, build_node_affinity("node in a,y"), FOUR, UNEVEN, "a b x !y"),
        (ZONE, build_node_affinity("node not-in b"), FOUR, "b: foo, foo; y: foo", "a b !x !y"),
        # Fewer domains than minDomains: the global minimum counts as zero.
        (
            build_constraint("node", skew=2, minDomains=4),
            {},
            "a b c",
            "a: foo, foo; b: foo, foo; c: foo",
            "!a !b c",
        ),
        (
            build_constraint("node", skew=2, minDomains=2),
            {},
            "a b c",
            "a: foo, foo; b: foo, foo; c: foo",
            "a b c",
        ),
        (
            build_constraint("zone", skew=2, minDomains=3),
            {},
            FOUR,
            "a: foo; b: foo; y: foo",
            "!a !b x y",
        ),
        (
            build_constraint("zone", skew=2, minDomains=1),
            {},
            FOUR,
            "a: foo; b: foo; y: foo",
            "a b x y",
        ),
        # Both node inclusion policies.
        (NODE, ON_FOO, "a+ b+ x+ y", ONE_EACH, "!a !b x y"),
        (build_constraint("node", **IGNORED), ON_FOO, "a+ b+ x+ y", ONE_EACH, "!a !b x !y"),
        (NODE, build_node_affinity("foo"), "a+ b+ x+ y", ONE_EACH, "!a !b x y"),
        (
            build_constraint("node", **IGNORED),
            build_node_affinity("foo"),
            "a+ b+ x+ y",
            ONE_EACH,
            "!a !b x !y",
        ),
        (build_constraint("node", **HONORED), {}, "a+ b+ x+ y~", ONE_EACH, "!a !b x y"),
        (NODE, {}, "a+ b+ x+ y~", ONE_EACH, "!a !b x !y"),
    ],
)
def test_one_constraint(
    constraint: dict[str, Any], pod: dict[str, Any], nodes: str, pods: str, expected: str
) -> None:
    spec = build_pod_spec(**{"labels": FOO, "topologySpreadConstraints": [constraint], **pod})
    assert evaluate_spread(spec, nodes, pods) == expected


def test_terminating_pods_and_other_namespaces_do_not_count() -> None:
    pod = build_pod_spec(FOO, topologySpreadConstraints=[ZONE])
    pods = [
        ("a", build_pod_spec(FOO, "ns1")),
        ("a", build_pod_spec(FOO, "ns2")),
        *parse_pods("x: foo; y: foo"),
    ]
    assert (
        format_rejections(evaluate_rule("topology_spread", pod, parse_nodes(FOUR), pods))
        == "a b !x !y"
    )
    pod = build_pod_spec(FOO, topologySpreadConstraints=[NODE])
    (going, stays) = parse_pods("a: foo; b: foo")
    pods = [(going[0], replace(going[1], is_terminating=True)), stays]
    assert (
        format_rejections(evaluate_rule("topology_spread", pod, parse_nodes("a b"), pods)) == "a !b"
    )


BY_FOO_AND_BAR = [ZONE, build_constraint("node", BAR)]


@pytest.mark.parametrize(
    ("constraints", "pod", "nodes", "pods", "expected"),
    [
        ([ZONE, NODE], {}, FOUR, UNEVEN, "!a !b x !y"),
        ([ZONE, NODE], {}, FOUR, UNEVEN + ", foo", "!a !b !x !y"),
        (BY_FOO_AND_BAR, {}, FOUR, "a: foo; y: bar", "!a !b x !y"),
        (BY_FOO_AND_BAR, {}, FOUR, "a: foo; x: bar; y: bar", "!a !b !x !y"),
        (BY_FOO_AND_BAR, {}, FOUR, "a: foo, foo bar; y: foo, foo bar, foo", "!a b !x !y"),
        (BY_FOO_AND_BAR, {"labels": "bar"}, FOUR, "a: foo; x: bar; y: bar", "a b !x !y"),
        # A node without one of the keys.
        ([ZONE, NODE], {}, "a/1 b/1 x/2? y/2", "a: foo; y: foo", "!a b !!x !y"),
        # Different policies per constraint.
        (
            [ZONE, build_constraint("node", **IGNORED)],
            ON_FOO,
            "a/1+ b/1+ x/2+ y/2",
            ONE_EACH,
            "!a !b x !y",
        ),
        (
            [build_constraint("zone", **HONORED), NODE],
            {},
            "a/1+ b/1+ x/2+ y/2+~",
            ONE_EACH,
            "!a !b x !y",
        ),
        ([ZONE, NODE], ON_FOO, "a/1+ b/1 x/2+ y/2+~", ONE_EACH, "!a b x !y"),
        (
            [build_constraint("zone", **HONORED), build_constraint("node", **IGNORED)],
            ON_FOO,
            "a/1+ b/1 x/2+ y/2+~",
            ONE_EACH,
            "!a !b x !y",
        ),
        # Two constraints with the same key.
        (
            [build_constraint("zone", BAR), ZONE],
            {},
            FOUR,
            "a: foo bar, foo; b: foo bar; y: foo, foo bar, foo",
            "!a !b x y",
        ),
        (
            [build_constraint("zone", BAR), ZONE],
            {},
            FOUR,
            "a: foo bar, foo; b: foo bar; y: foo, foo bar, foo, foo",
            "!a !b !x !y",
        ),
    ],
)
def test_several_constraints(
    constraints: list[dict[str, Any]], pod: dict[str, Any], nodes: str, pods: str, expected: str
) -> None:
    labels = "foo" if constraints[1] == NODE or pod == ON_FOO else "foo bar"
    spec = build_pod_spec(**{"labels": labels, "topologySpreadConstraints": constraints, **pod})
    assert evaluate_spread(spec, nodes, pods) == expected


THREE_AND_TWO = "a: foo=a, foo=a; b: foo=a; y: foo=a, foo=a"


@pytest.mark.parametrize(
    ("constraint", "labels", "pods", "expected"),
    [
        # One pod of either zone has both.
        (
            build_constraint("zone", matchLabelKeys=["bar"]),
            "foo bar=a",
            "a: foo, foo bar=a; b: foo; y: foo bar=a",
            NODES,
        ),
        (
            build_constraint("zone", matchLabelKeys=["bar"]),
            "foo bar=a",
            "a: foo bar=b, foo bar=a; b: foo; y: bar",
            "!a !b x y",
        ),
        (build_constraint("zone", "", matchLabelKeys=["foo"]), "foo=a", THREE_AND_TWO, "!a !b x y"),
        # Keys missing on the pod have no effect.
        (build_constraint("zone", matchLabelKeys=["bar"]), "foo", THREE_AND_TWO, "!a !b x y"),
        (build_constraint("zone", matchLabelKeys=["bar"]), "foo bar", THREE_AND_TWO, NODES),
    ],
)
def test_match_label_keys_of_pod(
    constraint: dict[str, Any], labels: str, pods: str, expected: str
) -> None:
    assert (
        evaluate_spread(build_pod_spec(labels, topologySpreadConstraints=[constraint]), FOUR, pods)
        == expected
    )


@pytest.mark.parametrize(
    ("constraint", "selected"),
    [
        (
            build_constraint("zone", "", matchLabelKeys=["country", "city"]),
            {"country": ("Japan",), "city": ("Tokyo",)},
        ),
        (
            build_constraint("zone", "", matchLabelKeys=["country", "not-found"]),
            {"country": ("Japan",)},
        ),
    ],
)
def test_label_keys_are_merged_into_selector(
    constraint: dict[str, Any], selected: dict[str, tuple[str, ...]]
) -> None:
    pod = build_pod_spec("country=Japan city=Tokyo", topologySpreadConstraints=[constraint])
    (read,) = pod.spread
    assert read.selector is not None
    assert {each.key: each.values for each in read.selector.match_expressions} == selected


SOFTLY = {"a": 60, "b": 20, "c": 60, "d": 100}
HOST = "kubernetes.io/hostname"


@pytest.mark.parametrize(
    ("zones", "hosts", "labels", "pods"),
    [
        (("", ["foo"]), ("", ["bar"]), "foo bar", "a: foo; b: foo bar; c: foo, bar"),
        ((FOO, []), (BAR, ["baz"]), "foo bar baz", "a: foo; b: foo bar baz; c: foo, bar, bar baz"),
    ],
)
def test_label_keys_in_scores(
    zones: tuple[str, list[str]], hosts: tuple[str, list[str]], labels: str, pods: str
) -> None:
    pairs = (("zone", *zones), (HOST, *hosts))
    constraints = [
        build_constraint(key, chosen, hard=False, matchLabelKeys=keys)
        for key, chosen, keys in pairs
    ]
    places = (("a", 1), ("b", 1), ("c", 2), ("d", 2))
    here = [build_node(name, f"zone={zone} {HOST}={name}") for name, zone in places]
    pod = build_pod_spec(labels, topologySpreadConstraints=constraints)
    verdicts = evaluate_nodes(Cluster("k", tuple(here)), build_existing_pods(parse_pods(pods)), pod)
    assert {each.node: each.points["topology_spread"] // 2 for each in verdicts} == SOFTLY
