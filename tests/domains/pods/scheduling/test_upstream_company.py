"""Upstream test cases of filtering nodes by required pod (anti-)affinity, in short forms.

Source: kubernetes v1.34.4, pkg/scheduler/framework/plugins/interpodaffinity/filtering_test.go
(TestRequiredAffinitySingleNode, TestRequiredAffinityMultipleNodes), scoring_test.go (default score
of required affinity of existing pods), and pkg/registry/core/pod/strategy_test.go
(mutatePodAffinity). Left out: another hardPodAffinityWeight, internal counters, and label values
rejected by the API server.
"""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.domains.pods.scheduling.cluster_records import Cluster, PodSpec
from nexusform.domains.pods.scheduling.pod_explanation import evaluate_nodes
from nexusform.domains.pods.scheduling.rules.inter_pod_affinity import (
    AFFINITY,
    ANTI_AFFINITY,
    EXISTING,
)
from nexusform.kubernetes.matching import IN, NOT_IN, Requirement
from tests.domains.pods.scheduling.upstream_forms import (
    HARD,
    SOFT,
    build_existing_pods,
    build_node,
    build_pod_spec,
    evaluate_rule,
    parse_selector,
)

TEAMS = {"team1a": {"team": "team1"}, "team1b": {"team": "team1"}, "team2a": {"team": "team2"}}
WORDS = {"": None, "company": AFFINITY, "away": ANTI_AFFINITY, "others": EXISTING}


def parse_term(chosen: str, key: str, **more: Any) -> dict[str, Any]:
    return {"labelSelector": parse_selector(chosen), "topologyKey": key, **more}


def parse_terms(text: str, **more: Any) -> list[dict[str, Any]]:
    """Parse terms such as `foo in a / zone; bar / region`: selector / topology key."""
    parts = [part.split(" / ") for part in text.split(";") if part.strip()]
    return [parse_term(chosen.strip(), key.strip(), **more) for chosen, key in parts]


def build_affinity_pod(
    labels: str = "", near: str = "", away: str = "", namespace: str = "default", **more: Any
) -> PodSpec:
    """Return a pod with required affinity (`near`) and anti-affinity (`away`)."""
    affinity = {
        "podAffinity": {HARD: parse_terms(near, **more)},
        "podAntiAffinity": {HARD: parse_terms(away, **more)},
    }
    return build_pod_spec(
        labels, namespace, affinity={key: each for key, each in affinity.items() if each[HARD]}
    )


SCAN = "service=securityscan"
S1 = "security=S1"
NEAR_SCAN = "service in securityscan,value2 / region"
FAR_FROM_VIRUS = "service in antivirusscan,value2 / node"
FAR_FROM_SCAN = "service in securityscan,value2 / zone"
STANDS = build_affinity_pod(SCAN)
TEAM1 = {"namespaceSelector": parse_selector("team in team1")}
TWO = "service / zone; security / zone"


@pytest.mark.parametrize(
    ("pod", "other", "refused"),
    [
        (build_affinity_pod(), None, ""),
        (build_affinity_pod(S1, NEAR_SCAN), STANDS, ""),
        (build_affinity_pod(S1, "service not-in securityscan3,value3 / region"), STANDS, ""),
        # Pods of other namespaces do not match.
        (
            build_affinity_pod(S1, NEAR_SCAN, namespaces=["diff-namespace"]),
            build_affinity_pod(SCAN, namespace="ns"),
            "company",
        ),
        (build_affinity_pod(SCAN, "service in antivirusscan,value2 / region"), STANDS, "company"),
        # All requirements of a term must hold, and all terms.
        (
            build_affinity_pod(
                S1,
                (
                    "service and !wrongkey / region; service in securityscan and service not-in "
                    "Wrong / region"
                ),
            ),
            STANDS,
            "",
        ),
        (
            build_affinity_pod(
                S1,
                (
                    "service and !wrongkey / region;service in securityscan2 and service not-in "
                    "Wrong / region"
                ),
            ),
            STANDS,
            "company",
        ),
        # Both at once, with rules of existing pods.
        (build_affinity_pod(S1, NEAR_SCAN, FAR_FROM_VIRUS), STANDS, ""),
        (
            build_affinity_pod(S1, NEAR_SCAN, FAR_FROM_VIRUS),
            build_affinity_pod(SCAN, away=FAR_FROM_VIRUS),
            "",
        ),
        (build_affinity_pod(S1, NEAR_SCAN, FAR_FROM_SCAN), STANDS, "away"),
        (
            build_affinity_pod(SCAN, NEAR_SCAN, FAR_FROM_VIRUS),
            build_affinity_pod(SCAN, away=FAR_FROM_SCAN),
            "others",
        ),
        # Neither the pod nor the existing pod matches its own term.
        (
            build_affinity_pod(SCAN, "service not-in securityscan,value2 / region"),
            STANDS,
            "company",
        ),
        (build_affinity_pod(SCAN), build_affinity_pod(SCAN, away=FAR_FROM_SCAN), "others"),
        (
            build_affinity_pod(SCAN),
            build_affinity_pod(SCAN, away="service not-in securityscan,value2 / zone"),
            "",
        ),
        # If both sides find_rejection, the reason of the new pod comes first.
        (
            build_affinity_pod(SCAN, away="service / region; security / region"),
            build_affinity_pod(S1, away="security / zone"),
            "away",
        ),
        (
            build_affinity_pod(SCAN, away=TWO),
            build_affinity_pod(S1, away="security / zone"),
            "away",
        ),
        (
            build_affinity_pod(S1, away="security / zone"),
            build_affinity_pod(SCAN, away=TWO),
            "others",
        ),
        (
            build_affinity_pod("abc xyz", away="abc / zone; def / zone"),
            build_affinity_pod("def xyz", away="abc / zone; def / zone"),
            "away",
        ),
        (
            build_affinity_pod("def xyz", away="abc / zone; def / zone"),
            build_affinity_pod("abc xyz", away="abc / zone; def / zone"),
            "away",
        ),
        # Selected namespaces.
        (
            build_affinity_pod(S1, NEAR_SCAN, **TEAM1),
            build_affinity_pod(SCAN, namespace="team1a"),
            "",
        ),
        (
            build_affinity_pod(S1, NEAR_SCAN, **TEAM1),
            build_affinity_pod(SCAN, namespace="team2a"),
            "company",
        ),
        (
            build_affinity_pod(S1, away=FAR_FROM_SCAN, namespace="team1a", **TEAM1),
            build_affinity_pod(SCAN, namespace="team1b"),
            "away",
        ),
        (
            build_affinity_pod(S1, away=FAR_FROM_SCAN, namespace="team1a", namespaceSelector={}),
            build_affinity_pod(SCAN, namespace="team1b"),
            "away",
        ),
        (
            build_affinity_pod(S1, away=FAR_FROM_SCAN, namespace="team1a", **TEAM1),
            build_affinity_pod(SCAN, namespace="team2a"),
            "",
        ),
    ],
)
def test_one_node(pod: PodSpec, other: PodSpec | None, refused: str) -> None:
    there = [] if other is None else [("node1", other)]
    found = evaluate_rule(
        "inter_pod_affinity",
        pod,
        [build_node("node1", "region=r1 zone=z11")],
        there,
        namespaces=TEAMS,
    )
    assert [each.reason for each in found["node1"]] == ([WORDS[refused]] if refused else [])


def format_first_reason(reasons: list[Any]) -> str:
    names = {AFFINITY: "C", ANTI_AFFINITY: "A", EXISTING: "O"}
    return names[reasons[0].reason] if reasons else "."


CHINA = ("region=China", "region=China az=az1", "region=India")
R1 = ("region=r1",) * 2
TWO_ZONES = ("region=r1 zone=z1", "region=r1 zone=z2")
ONE_ZONE = ("region=r1 zone=z1",) * 2
BOTH_SERVICES = build_affinity_pod(
    "foo=bar service=securityscan", "foo in bar / zone; service in securityscan / zone"
)
FAR_FROM_ABC = build_affinity_pod(away="foo in abc / region")


@pytest.mark.parametrize(
    ("pod", "nodes", "there", "expected"),
    [
        (
            build_affinity_pod(near="foo in bar / region"),
            CHINA,
            [(0, build_affinity_pod("foo=bar"))],
            "..C",
        ),
        # The first pod of a self-affine group may use any node with the key, and only those.
        (BOTH_SERVICES, ("zone=az1", "zone=az2"), [(0, build_affinity_pod("foo=bar"))], ".."),
        (
            BOTH_SERVICES,
            ("zoneLabel=az1", "zoneLabel=az2"),
            [(0, build_affinity_pod("foo=bar"))],
            "CC",
        ),
        (FAR_FROM_ABC, R1, [(0, build_affinity_pod("foo=abc"))], "AA"),
        # One matching anti-affinity term is enough.
        (
            build_affinity_pod(away="foo in abc / region; service in securityscan / zone"),
            TWO_ZONES,
            [(0, build_affinity_pod("foo=abc service=securityscan"))],
            "AA",
        ),
        (FAR_FROM_ABC, CHINA, [(0, build_affinity_pod("foo=abc"))], "AA."),
        (
            build_affinity_pod("foo=123", away="foo in bar / region", namespace="ns1"),
            CHINA,
            [
                (0, build_affinity_pod("foo=bar", namespace="ns1")),
                (2, build_affinity_pod(away="foo in 123 / region", namespace="ns2")),
            ],
            "AA.",
        ),
        # A key missing on all nodes repels no pods, in either direction.
        (
            build_affinity_pod("foo"),
            ONE_ZONE,
            [(0, build_affinity_pod(away="foo / invalid-node-label"))],
            "..",
        ),
        (
            build_affinity_pod(away="foo / invalid-node-label"),
            ONE_ZONE,
            [(0, build_affinity_pod("foo"))],
            "..",
        ),
        (
            build_affinity_pod("foo bar"),
            TWO_ZONES,
            [
                (0, build_affinity_pod(away="foo / zone")),
                (0, build_affinity_pod(away="bar / region")),
            ],
            "OO",
        ),
        (
            build_affinity_pod(away="foo / zone; bar / region"),
            TWO_ZONES,
            [(0, build_affinity_pod("foo")), (1, build_affinity_pod("bar"))],
            "AA",
        ),
        (
            build_affinity_pod("foo bar"),
            TWO_ZONES,
            [(0, build_affinity_pod(away="foo / invalid-node-label; bar / zone"))],
            "O.",
        ),
        (
            build_affinity_pod(away="foo / invalid-node-label; bar / zone"),
            TWO_ZONES,
            [(0, build_affinity_pod("foo bar"))],
            "A.",
        ),
        (
            build_affinity_pod("foo bar"),
            TWO_ZONES,
            [(0, build_affinity_pod(away="foo / region; bar / zone"))],
            "OO",
        ),
        (
            build_affinity_pod(away="foo / region; bar / zone"),
            TWO_ZONES,
            [(0, build_affinity_pod("foo bar"))],
            "AA",
        ),
        (
            build_affinity_pod("foo bar"),
            (*TWO_ZONES, "region=r1 zone=z3"),
            [
                (0, build_affinity_pod(away="foo / zone; labelA / zone")),
                (1, build_affinity_pod(away="bar / zone; labelB / zone")),
            ],
            "OO.",
        ),
        # One pod has to match all terms of affinity.
        (
            build_affinity_pod(near="foo / region; bar / zone"),
            ONE_ZONE,
            [(0, build_affinity_pod("foo bar"))],
            "..",
        ),
        (
            build_affinity_pod(near="foo / region; bar / zone"),
            TWO_ZONES,
            [(0, build_affinity_pod("foo")), (1, build_affinity_pod("bar"))],
            "CC",
        ),
    ],
)
def test_several_nodes(
    pod: PodSpec, nodes: tuple[str, ...], there: list[tuple[int, PodSpec]], expected: str
) -> None:
    here = [build_node(f"n{at}", f"hostname=n{at} {labels}") for at, labels in enumerate(nodes)]
    pods = [(f"n{at}", spec) for at, spec in there]
    found = evaluate_rule("inter_pod_affinity", pod, here, pods)
    assert "".join(format_first_reason(found[each.name]) for each in here) == expected


# --- matchLabelKeys and mismatchLabelKeys as merged by the API server -----------------------------

KYOTO = "country=Japan city=Kyoto"
ASIA = {"labelSelector": {"matchLabels": {"region": "Asia"}}, "topologyKey": "zone"}
KEYS = {**ASIA, "matchLabelKeys": ["country"], "mismatchLabelKeys": ["city"]}


def test_label_keys_are_merged_into_every_term_selector() -> None:
    both = {HARD: [KEYS], SOFT: [{"weight": 1, "podAffinityTerm": KEYS}]}
    pod = build_pod_spec(KYOTO, affinity={"podAffinity": both, "podAntiAffinity": both})
    merged = (Requirement("country", IN, ("Japan",)), Requirement("city", NOT_IN, ("Kyoto",)))
    for (read,) in (
        pod.affinity,
        pod.preferred_affinity,
        pod.anti_affinity,
        pod.preferred_anti_affinity,
    ):
        assert read.selector is not None
        assert read.selector.match_labels == (("region", "Asia"),)
        assert read.selector.match_expressions == merged


def test_label_keys_missing_on_pod_are_ignored() -> None:
    keys = {**ASIA, "matchLabelKeys": ["city", "not-found"]}
    (read,) = build_pod_spec(KYOTO, affinity={"podAffinity": {HARD: [keys]}}).affinity
    assert read.selector is not None
    assert read.selector.match_expressions == (Requirement("city", IN, ("Kyoto",)),)


@pytest.mark.parametrize(
    ("keys", "there", "expected"),
    [
        # Tenants: co-located with pods of the same tenant, separate from all others.
        ({"matchLabelKeys": ["tenant"]}, ["app tenant=t1", "app tenant=t2"], "A."),
        ({"mismatchLabelKeys": ["tenant"]}, ["app tenant=t1", "app tenant=t2"], ".A"),
        # Pods without the label belong to no tenant, so they count as others.
        ({"matchLabelKeys": ["tenant"]}, ["app", "app tenant=t1"], ".A"),
        ({"mismatchLabelKeys": ["tenant"]}, ["app", "app tenant=t1"], "A."),
        ({"matchLabelKeys": ["none"]}, ["app", "other"], "A."),
    ],
)
def test_label_keys_in_filters(keys: dict[str, Any], there: list[str], expected: str) -> None:
    pod = build_affinity_pod("app tenant=t1", away="app / host", **keys)
    here = [build_node(f"n{at}", f"host=n{at}") for at in range(2)]
    found = evaluate_rule(
        "inter_pod_affinity",
        pod,
        here,
        [(f"n{at}", build_pod_spec(each)) for at, each in enumerate(there)],
    )
    assert "".join(format_first_reason(found[each.name]) for each in here) == expected


# --- score of required affinity of existing pods --------------------------------------------------


@pytest.mark.parametrize(
    ("there", "namespace", "expected"),
    [
        # One point each: equal, and fewer than for any preferred term.
        (
            [(0, "security in S1 / region"), (1, "security in S1 / region")],
            "default",
            [100, 100, 0],
        ),
        ([(0, "security in S1 / region"), (1, "security in S2 / region")], "default", [100, 0, 0]),
        (
            [
                (0, "security in S1 / region"),
                (0, "security in S1 / region"),
                (1, "security in S1 / region"),
            ],
            "default",
            [100, 50, 0],
        ),
        # Terms of another namespace select other pods.
        ([(0, "security in S1 / region")], "team1a", [0, 0, 0]),
    ],
)
def test_points_for_required_affinity_of_existing_pods(
    there: list[tuple[int, str]], namespace: str, expected: list[int]
) -> None:
    here = [
        build_node(f"n{at}", each)
        for at, each in enumerate(("region=China", "region=India", "az=az1"))
    ]
    pods = [(f"n{at}", build_affinity_pod("security=S2", near=near)) for at, near in there]
    cluster = Cluster("k", tuple(here), namespaces=TEAMS)
    verdicts = evaluate_nodes(
        cluster, build_existing_pods(pods), build_pod_spec("security=S1", namespace)
    )
    points = {each.node: each.points.get("inter_pod_affinity", 0) // 2 for each in verdicts}
    assert [points[each.name] for each in here] == expected
