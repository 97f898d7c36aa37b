"""Cases of hard topology spread constraints that Kubernetes filters nodes by in its own tests, in our words.

Source: kubernetes v1.34.4, pkg/scheduler/framework/plugins/podtopologyspread/filtering_test.go
(TestSingleConstraint, TestMultipleConstraints; of TestPreFilterState and scoring_test.go what matchLabelKeys
select) and pkg/registry/core/pod/strategy_test.go (mutateTopologySpreadConstraints). Left out: counters that
no answer shows, feature gates that are on for good, and defaults other than a cluster's own.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.pod_explanation import evaluate_nodes
from nexusform.domains.pods.scheduling.workloads import Cluster, Node, PodSpec
from nexusform.kubernetes.matching import Taint
from tests.domains.pods.scheduling.upstream_forms import HARD, node, pod_of, said, selector, standing, told

FOO, BAR = "foo", "bar"
GONE = "terminating"


def spread(key: str, chosen: str | None = FOO, skew: int = 1, hard: bool = True, **more: Any) -> dict[str, Any]:
    when = "DoNotSchedule" if hard else "ScheduleAnyway"
    selected = {} if chosen is None else {"labelSelector": selector(chosen)}
    return {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": when, **selected, **more}


def nodes_of(text: str) -> list[Node]:
    """`a/1` in zone 1, `b/-` in none; `+` has the label foo, `~` a taint, `?` no label that names it."""
    nodes = []
    for word in text.split():
        name, _, zone = word.rstrip("+~?").partition("/")
        labels = f"node={name}" if "?" not in word else ""
        labels += f" zone={zone}" if zone.isdecimal() else ""
        taints = (Taint("taint-key", "taint-value", "NoSchedule"),) if "~" in word else ()
        nodes.append(node(name, labels + (" foo" if "+" in word else ""), taints=taints))
    return nodes


def pods_of(text: str) -> list[tuple[str, PodSpec]]:
    """`a: foo, foo bar; b: foo`: by node, the labels of each pod."""
    pods: list[tuple[str, PodSpec]] = []
    for part in filter(None, text.split(";")):
        name, _, of_node = part.partition(":")
        pods += [(name.strip(), pod_of(labels)) for labels in of_node.split(",")]
    return pods


def answer(pod: PodSpec, nodes: str, pods: str) -> str:
    return told(said("topology_spread", pod, nodes_of(nodes), pods_of(pods)))


FOUR, NODES = "a/1 b/1 x/2 y/2", "a b x y"
ZONE, NODE = spread("zone"), spread("node")
IGNORED, HONORED = {"nodeAffinityPolicy": "Ignore"}, {"nodeTaintsPolicy": "Honor"}
UNEVEN = "a: foo, foo; b: foo; y: foo, foo, foo"
ONE_EACH = "a: foo; b: foo; y: foo"
ON_FOO = {"nodeSelector": {"foo": ""}}


def where(text: str) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {HARD: {"nodeSelectorTerms": [selector(text)]}}}}


@pytest.mark.parametrize(
    ("constraint", "pod", "nodes", "pods", "expected"),
    [
        (ZONE, {}, FOUR, "", "a b x y"),
        # Who does not match itself changes no skew.
        (spread("zone", BAR), {}, FOUR, "", "a b x y"),
        (spread("zone", None), {}, FOUR, "x: foo; y: foo", "a b x y"),
        (ZONE, {}, FOUR, UNEVEN, "a b x y"),
        # A typing error in a node's label, and a key that no node has.
        (ZONE, {}, "a/1 b/- x/2 y/2", "a: foo; b: foo; x: foo; y: foo", "a !!b !x !y"),
        (spread("rack"), {}, "a/1 x/2", "", "!!a !!x"),
        (NODE, {}, FOUR, UNEVEN, "!a !b x !y"),
        (spread("node", skew=2), {}, FOUR, UNEVEN, "!a b x !y"),
        (NODE, {"labels": "bar"}, FOUR, UNEVEN, "!a b x !y"),
        # Nodes that affinity leaves out do not count (and are refused by another rule).
        (NODE, where("node in a,y"), FOUR, UNEVEN, "a b x !y"),
        (ZONE, where("node not-in b"), FOUR, "b: foo, foo; y: foo", "a b !x !y"),
        # Fewer domains than minDomains: the emptiest counts as empty.
        (spread("node", skew=2, minDomains=4), {}, "a b c", "a: foo, foo; b: foo, foo; c: foo", "!a !b c"),
        (spread("node", skew=2, minDomains=2), {}, "a b c", "a: foo, foo; b: foo, foo; c: foo", "a b c"),
        (spread("zone", skew=2, minDomains=3), {}, FOUR, "a: foo; b: foo; y: foo", "!a !b x y"),
        (spread("zone", skew=2, minDomains=1), {}, FOUR, "a: foo; b: foo; y: foo", "a b x y"),
        # Both policies about which nodes count.
        (NODE, ON_FOO, "a+ b+ x+ y", ONE_EACH, "!a !b x y"),
        (spread("node", **IGNORED), ON_FOO, "a+ b+ x+ y", ONE_EACH, "!a !b x !y"),
        (NODE, where("foo"), "a+ b+ x+ y", ONE_EACH, "!a !b x y"),
        (spread("node", **IGNORED), where("foo"), "a+ b+ x+ y", ONE_EACH, "!a !b x !y"),
        (spread("node", **HONORED), {}, "a+ b+ x+ y~", ONE_EACH, "!a !b x y"),
        (NODE, {}, "a+ b+ x+ y~", ONE_EACH, "!a !b x !y"),
    ],
)
def test_one_constraint(constraint: dict[str, Any], pod: dict[str, Any], nodes: str, pods: str, expected: str) -> None:
    spec = pod_of(**{"labels": FOO, "topologySpreadConstraints": [constraint], **pod})
    assert answer(spec, nodes, pods) == expected


def test_pods_of_other_namespaces_and_those_that_terminate_do_not_count() -> None:
    pod = pod_of(FOO, topologySpreadConstraints=[ZONE])
    pods = [("a", pod_of(FOO, "ns1")), ("a", pod_of(FOO, "ns2")), *pods_of("x: foo; y: foo")]
    assert told(said("topology_spread", pod, nodes_of(FOUR), pods)) == "a b !x !y"
    pod = pod_of(FOO, topologySpreadConstraints=[NODE])
    (going, stays) = pods_of("a: foo; b: foo")
    pods = [(going[0], replace(going[1], is_terminating=True)), stays]
    assert told(said("topology_spread", pod, nodes_of("a b"), pods)) == "a !b"


BY_FOO_AND_BAR = [ZONE, spread("node", BAR)]


@pytest.mark.parametrize(
    ("constraints", "pod", "nodes", "pods", "expected"),
    [
        ([ZONE, NODE], {}, FOUR, UNEVEN, "!a !b x !y"),
        ([ZONE, NODE], {}, FOUR, UNEVEN + ", foo", "!a !b !x !y"),
        (BY_FOO_AND_BAR, {}, FOUR, "a: foo; y: bar", "!a !b x !y"),
        (BY_FOO_AND_BAR, {}, FOUR, "a: foo; x: bar; y: bar", "!a !b !x !y"),
        (BY_FOO_AND_BAR, {}, FOUR, "a: foo, foo bar; y: foo, foo bar, foo", "!a b !x !y"),
        (BY_FOO_AND_BAR, {"labels": "bar"}, FOUR, "a: foo; x: bar; y: bar", "a b !x !y"),
        # A node that lacks one of the keys.
        ([ZONE, NODE], {}, "a/1 b/1 x/2? y/2", "a: foo; y: foo", "!a b !!x !y"),
        # Policies that differ from one to the other.
        ([ZONE, spread("node", **IGNORED)], ON_FOO, "a/1+ b/1+ x/2+ y/2", ONE_EACH, "!a !b x !y"),
        ([spread("zone", **HONORED), NODE], {}, "a/1+ b/1+ x/2+ y/2+~", ONE_EACH, "!a !b x !y"),
        ([ZONE, NODE], ON_FOO, "a/1+ b/1 x/2+ y/2+~", ONE_EACH, "!a b x !y"),
        ([spread("zone", **HONORED), spread("node", **IGNORED)], ON_FOO, "a/1+ b/1 x/2+ y/2+~", ONE_EACH, "!a !b x !y"),
        # Two of one key.
        ([spread("zone", BAR), ZONE], {}, FOUR, "a: foo bar, foo; b: foo bar; y: foo, foo bar, foo", "!a !b x y"),
        (
            [spread("zone", BAR), ZONE],
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
    spec = pod_of(**{"labels": labels, "topologySpreadConstraints": constraints, **pod})
    assert answer(spec, nodes, pods) == expected


THREE_AND_TWO = "a: foo=a, foo=a; b: foo=a; y: foo=a, foo=a"


@pytest.mark.parametrize(
    ("constraint", "labels", "pods", "expected"),
    [
        # One pod of either zone has both.
        (spread("zone", matchLabelKeys=["bar"]), "foo bar=a", "a: foo, foo bar=a; b: foo; y: foo bar=a", NODES),
        (spread("zone", matchLabelKeys=["bar"]), "foo bar=a", "a: foo bar=b, foo bar=a; b: foo; y: bar", "!a !b x y"),
        (spread("zone", "", matchLabelKeys=["foo"]), "foo=a", THREE_AND_TWO, "!a !b x y"),
        # Keys that the pod does not have ask for nothing.
        (spread("zone", matchLabelKeys=["bar"]), "foo", THREE_AND_TWO, "!a !b x y"),
        (spread("zone", matchLabelKeys=["bar"]), "foo bar", THREE_AND_TWO, NODES),
    ],
)
def test_label_keys_of_the_pod(constraint: dict[str, Any], labels: str, pods: str, expected: str) -> None:
    assert answer(pod_of(labels, topologySpreadConstraints=[constraint]), FOUR, pods) == expected


@pytest.mark.parametrize(
    ("constraint", "selected"),
    [
        (spread("zone", "", matchLabelKeys=["country", "city"]), {"country": ("Japan",), "city": ("Tokyo",)}),
        (spread("zone", "", matchLabelKeys=["country", "not-found"]), {"country": ("Japan",)}),
    ],
)
def test_label_keys_join_the_selector(constraint: dict[str, Any], selected: dict[str, tuple[str, ...]]) -> None:
    pod = pod_of("country=Japan city=Tokyo", topologySpreadConstraints=[constraint])
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
    constraints = [spread(key, chosen, hard=False, matchLabelKeys=keys) for key, chosen, keys in pairs]
    places = (("a", 1), ("b", 1), ("c", 2), ("d", 2))
    here = [node(name, f"zone={zone} {HOST}={name}") for name, zone in places]
    pod = pod_of(labels, topologySpreadConstraints=constraints)
    verdicts = evaluate_nodes(Cluster("k", tuple(here)), standing(pods_of(pods)), pod)
    assert {each.node: each.points["topology_spread"] // 2 for each in verdicts} == SOFTLY
