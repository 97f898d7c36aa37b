"""Cases of required pod affinity and anti-affinity that Kubernetes filters nodes by in its own tests, told in
our words.

Source: kubernetes v1.34.4, pkg/scheduler/framework/plugins/interpodaffinity/filtering_test.go
(TestRequiredAffinitySingleNode, TestRequiredAffinityMultipleNodes), of scoring_test.go what required affinity
of standing pods is worth by default, and pkg/registry/core/pod/strategy_test.go (mutatePodAffinity). Left
out: label values that the API server refuses, counters that no answer shows, another hardPodAffinityWeight.
"""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.domains.pods.scheduling.pod_explanation import evaluate_nodes
from nexusform.domains.pods.scheduling.rules.inter_pod_affinity import AFFINITY, ANTI_AFFINITY, EXISTING
from nexusform.domains.pods.scheduling.workloads import Cluster, PodSpec
from nexusform.kubernetes.matching import IN, NOT_IN, Requirement
from tests.domains.pods.scheduling.upstream_forms import HARD, SOFT, node, pod_of, said, selector, standing

TEAMS = {"team1a": {"team": "team1"}, "team1b": {"team": "team1"}, "team2a": {"team": "team2"}}
WORDS = {"": None, "company": AFFINITY, "away": ANTI_AFFINITY, "others": EXISTING}


def term(chosen: str, key: str, **more: Any) -> dict[str, Any]:
    return {"labelSelector": selector(chosen), "topologyKey": key, **more}


def terms(text: str, **more: Any) -> list[dict[str, Any]]:
    """`foo in a / zone; bar / region`: what is chosen, and over which key."""
    parts = [part.split(" / ") for part in text.split(";") if part.strip()]
    return [term(chosen.strip(), key.strip(), **more) for chosen, key in parts]


def wanting(labels: str = "", near: str = "", away: str = "", namespace: str = "default", **more: Any) -> PodSpec:
    """A pod that must be near some pods and away from others."""
    affinity = {"podAffinity": {HARD: terms(near, **more)}, "podAntiAffinity": {HARD: terms(away, **more)}}
    return pod_of(labels, namespace, affinity={key: each for key, each in affinity.items() if each[HARD]})


SCAN, S1 = "service=securityscan", "security=S1"
NEAR_SCAN = "service in securityscan,value2 / region"
FAR_FROM_VIRUS = "service in antivirusscan,value2 / node"
FAR_FROM_SCAN = "service in securityscan,value2 / zone"
STANDS = wanting(SCAN)
TEAM1 = {"namespaceSelector": selector("team in team1")}
TWO = "service / zone; security / zone"


@pytest.mark.parametrize(
    ("pod", "other", "refused"),
    [
        (wanting(), None, ""),
        (wanting(S1, NEAR_SCAN), STANDS, ""),
        (wanting(S1, "service not-in securityscan3,value3 / region"), STANDS, ""),
        # Pods of other namespaces are no company.
        (wanting(S1, NEAR_SCAN, namespaces=["diff-namespace"]), wanting(SCAN, namespace="ns"), "company"),
        (wanting(SCAN, "service in antivirusscan,value2 / region"), STANDS, "company"),
        # All requirements of a term hold, and all terms.
        (
            wanting(S1, "service and !wrongkey / region; service in securityscan and service not-in Wrong / region"),
            STANDS,
            "",
        ),
        (
            wanting(S1, "service and !wrongkey / region;service in securityscan2 and service not-in Wrong / region"),
            STANDS,
            "company",
        ),
        # Both at once, and what those say that stand.
        (wanting(S1, NEAR_SCAN, FAR_FROM_VIRUS), STANDS, ""),
        (wanting(S1, NEAR_SCAN, FAR_FROM_VIRUS), wanting(SCAN, away=FAR_FROM_VIRUS), ""),
        (wanting(S1, NEAR_SCAN, FAR_FROM_SCAN), STANDS, "away"),
        (wanting(SCAN, NEAR_SCAN, FAR_FROM_VIRUS), wanting(SCAN, away=FAR_FROM_SCAN), "others"),
        # It matches itself no more than the pod there does.
        (wanting(SCAN, "service not-in securityscan,value2 / region"), STANDS, "company"),
        (wanting(SCAN), wanting(SCAN, away=FAR_FROM_SCAN), "others"),
        (wanting(SCAN), wanting(SCAN, away="service not-in securityscan,value2 / zone"), ""),
        # Who is refused from both sides hears the own side first.
        (wanting(SCAN, away="service / region; security / region"), wanting(S1, away="security / zone"), "away"),
        (wanting(SCAN, away=TWO), wanting(S1, away="security / zone"), "away"),
        (wanting(S1, away="security / zone"), wanting(SCAN, away=TWO), "others"),
        (wanting("abc xyz", away="abc / zone; def / zone"), wanting("def xyz", away="abc / zone; def / zone"), "away"),
        (wanting("def xyz", away="abc / zone; def / zone"), wanting("abc xyz", away="abc / zone; def / zone"), "away"),
        # Namespaces that are selected.
        (wanting(S1, NEAR_SCAN, **TEAM1), wanting(SCAN, namespace="team1a"), ""),
        (wanting(S1, NEAR_SCAN, **TEAM1), wanting(SCAN, namespace="team2a"), "company"),
        (wanting(S1, away=FAR_FROM_SCAN, namespace="team1a", **TEAM1), wanting(SCAN, namespace="team1b"), "away"),
        (
            wanting(S1, away=FAR_FROM_SCAN, namespace="team1a", namespaceSelector={}),
            wanting(SCAN, namespace="team1b"),
            "away",
        ),
        (wanting(S1, away=FAR_FROM_SCAN, namespace="team1a", **TEAM1), wanting(SCAN, namespace="team2a"), ""),
    ],
)
def test_one_node(pod: PodSpec, other: PodSpec | None, refused: str) -> None:
    there = [] if other is None else [("node1", other)]
    found = said("inter_pod_affinity", pod, [node("node1", "region=r1 zone=z11")], there, namespaces=TEAMS)
    assert [each.reason for each in found["node1"]] == ([WORDS[refused]] if refused else [])


def letter(reasons: list[Any]) -> str:
    names = {AFFINITY: "C", ANTI_AFFINITY: "A", EXISTING: "O"}
    return names[reasons[0].reason] if reasons else "."


CHINA = ("region=China", "region=China az=az1", "region=India")
R1, TWO_ZONES, ONE_ZONE = (("region=r1",) * 2, ("region=r1 zone=z1", "region=r1 zone=z2"), ("region=r1 zone=z1",) * 2)
BOTH_SERVICES = wanting("foo=bar service=securityscan", "foo in bar / zone; service in securityscan / zone")
FAR_FROM_ABC = wanting(away="foo in abc / region")


@pytest.mark.parametrize(
    ("pod", "nodes", "there", "expected"),
    [
        (wanting(near="foo in bar / region"), CHINA, [(0, wanting("foo=bar"))], "..C"),
        # The first of a collection that wants its own company goes anywhere with the key, and only there.
        (BOTH_SERVICES, ("zone=az1", "zone=az2"), [(0, wanting("foo=bar"))], ".."),
        (BOTH_SERVICES, ("zoneLabel=az1", "zoneLabel=az2"), [(0, wanting("foo=bar"))], "CC"),
        (FAR_FROM_ABC, R1, [(0, wanting("foo=abc"))], "AA"),
        # Any term of anti-affinity is enough.
        (
            wanting(away="foo in abc / region; service in securityscan / zone"),
            TWO_ZONES,
            [(0, wanting("foo=abc service=securityscan"))],
            "AA",
        ),
        (FAR_FROM_ABC, CHINA, [(0, wanting("foo=abc"))], "AA."),
        (
            wanting("foo=123", away="foo in bar / region", namespace="ns1"),
            CHINA,
            [(0, wanting("foo=bar", namespace="ns1")), (2, wanting(away="foo in 123 / region", namespace="ns2"))],
            "AA.",
        ),
        # A key that no node has keeps nobody away, from either side.
        (wanting("foo"), ONE_ZONE, [(0, wanting(away="foo / invalid-node-label"))], ".."),
        (wanting(away="foo / invalid-node-label"), ONE_ZONE, [(0, wanting("foo"))], ".."),
        (wanting("foo bar"), TWO_ZONES, [(0, wanting(away="foo / zone")), (0, wanting(away="bar / region"))], "OO"),
        (wanting(away="foo / zone; bar / region"), TWO_ZONES, [(0, wanting("foo")), (1, wanting("bar"))], "AA"),
        (wanting("foo bar"), TWO_ZONES, [(0, wanting(away="foo / invalid-node-label; bar / zone"))], "O."),
        (wanting(away="foo / invalid-node-label; bar / zone"), TWO_ZONES, [(0, wanting("foo bar"))], "A."),
        (wanting("foo bar"), TWO_ZONES, [(0, wanting(away="foo / region; bar / zone"))], "OO"),
        (wanting(away="foo / region; bar / zone"), TWO_ZONES, [(0, wanting("foo bar"))], "AA"),
        (
            wanting("foo bar"),
            (*TWO_ZONES, "region=r1 zone=z3"),
            [(0, wanting(away="foo / zone; labelA / zone")), (1, wanting(away="bar / zone; labelB / zone"))],
            "OO.",
        ),
        # One pod has to match all terms of affinity.
        (wanting(near="foo / region; bar / zone"), ONE_ZONE, [(0, wanting("foo bar"))], ".."),
        (wanting(near="foo / region; bar / zone"), TWO_ZONES, [(0, wanting("foo")), (1, wanting("bar"))], "CC"),
    ],
)
def test_several_nodes(pod: PodSpec, nodes: tuple[str, ...], there: list[tuple[int, PodSpec]], expected: str) -> None:
    here = [node(f"n{at}", f"hostname=n{at} {labels}") for at, labels in enumerate(nodes)]
    pods = [(f"n{at}", spec) for at, spec in there]
    found = said("inter_pod_affinity", pod, here, pods)
    assert "".join(letter(found[each.name]) for each in here) == expected


# --- what the API server makes of matchLabelKeys and mismatchLabelKeys ------------------------------

KYOTO = "country=Japan city=Kyoto"
ASIA = {"labelSelector": {"matchLabels": {"region": "Asia"}}, "topologyKey": "zone"}
KEYS = {**ASIA, "matchLabelKeys": ["country"], "mismatchLabelKeys": ["city"]}


def test_label_keys_join_every_selector_of_terms() -> None:
    both = {HARD: [KEYS], SOFT: [{"weight": 1, "podAffinityTerm": KEYS}]}
    pod = pod_of(KYOTO, affinity={"podAffinity": both, "podAntiAffinity": both})
    merged = (Requirement("country", IN, ("Japan",)), Requirement("city", NOT_IN, ("Kyoto",)))
    for (read,) in (pod.affinity, pod.preferred_affinity, pod.anti_affinity, pod.preferred_anti_affinity):
        assert read.selector is not None
        assert read.selector.match_labels == (("region", "Asia"),)
        assert read.selector.match_expressions == merged


def test_label_keys_that_the_pod_lacks_are_ignored() -> None:
    keys = {**ASIA, "matchLabelKeys": ["city", "not-found"]}
    (read,) = pod_of(KYOTO, affinity={"podAffinity": {HARD: [keys]}}).affinity
    assert read.selector is not None
    assert read.selector.match_expressions == (Requirement("city", IN, ("Kyoto",)),)


@pytest.mark.parametrize(
    ("keys", "there", "expected"),
    [
        # Tenants: beside pods of the same one, away from all others.
        ({"matchLabelKeys": ["tenant"]}, ["app tenant=t1", "app tenant=t2"], "A."),
        ({"mismatchLabelKeys": ["tenant"]}, ["app tenant=t1", "app tenant=t2"], ".A"),
        # Pods without the label are none of the same, and so are of others.
        ({"matchLabelKeys": ["tenant"]}, ["app", "app tenant=t1"], ".A"),
        ({"mismatchLabelKeys": ["tenant"]}, ["app", "app tenant=t1"], "A."),
        ({"matchLabelKeys": ["none"]}, ["app", "other"], "A."),
    ],
)
def test_label_keys_in_filters(keys: dict[str, Any], there: list[str], expected: str) -> None:
    pod = wanting("app tenant=t1", away="app / host", **keys)
    here = [node(f"n{at}", f"host=n{at}") for at in range(2)]
    found = said("inter_pod_affinity", pod, here, [(f"n{at}", pod_of(each)) for at, each in enumerate(there)])
    assert "".join(letter(found[each.name]) for each in here) == expected


# --- what required affinity of those that stand is worth ------------------------------------------------


@pytest.mark.parametrize(
    ("there", "namespace", "expected"),
    [
        # One point each: equal, and less than any preferred term.
        ([(0, "security in S1 / region"), (1, "security in S1 / region")], "default", [100, 100, 0]),
        ([(0, "security in S1 / region"), (1, "security in S2 / region")], "default", [100, 0, 0]),
        (
            [(0, "security in S1 / region"), (0, "security in S1 / region"), (1, "security in S1 / region")],
            "default",
            [100, 50, 0],
        ),
        # Those of another namespace want others.
        ([(0, "security in S1 / region")], "team1a", [0, 0, 0]),
    ],
)
def test_points_for_those_that_want_company(there: list[tuple[int, str]], namespace: str, expected: list[int]) -> None:
    here = [node(f"n{at}", each) for at, each in enumerate(("region=China", "region=India", "az=az1"))]
    pods = [(f"n{at}", wanting("security=S2", near=near)) for at, near in there]
    cluster = Cluster("k", tuple(here), namespaces=TEAMS)
    verdicts = evaluate_nodes(cluster, standing(pods), pod_of("security=S1", namespace))
    points = {each.node: each.points.get("inter_pod_affinity", 0) // 2 for each in verdicts}
    assert [points[each.name] for each in here] == expected
