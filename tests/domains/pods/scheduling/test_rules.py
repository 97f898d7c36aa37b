"""Tests of single scheduling rules with manually computed figures.

Based on the test tables of Kubernetes.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.cluster_records import (
    Cluster,
    ExistingPod,
    HostPort,
    Node,
    PodSpec,
    PodTerm,
    Requests,
    SpreadConstraint,
    Workload,
)
from nexusform.domains.pods.scheduling.pod_explanation import evaluate_nodes
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.kubernetes.matching import (
    LabelSelector,
    NodeSelectorTerm,
    Requirement,
    Taint,
    Toleration,
    build_label_selector,
)

HOST = "kubernetes.io/hostname"
A = build_label_selector({"app": "a"})
B = build_label_selector({"app": "b"})
EVERYTHING = build_label_selector({})
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
SKEWED = "node(s) didn't match pod topology spread constraints"
MISSING = SKEWED + " (missing required label)"


def build_node(name: str, **labels: str) -> Node:
    return Node(name, {HOST: name, **labels}, cpu=4000, memory=8 << 30)


def build_pod(app: str = "a", **more: object) -> PodSpec:
    return replace(PodSpec(labels=(("app", app),)), **more)  # type: ignore[arg-type]


def build_term(
    key: str, selector: object = A, namespaces: tuple[str, ...] = ("default",), **more: object
) -> PodTerm:
    return PodTerm(key, selector, namespaces, **more)  # type: ignore[arg-type]


def evaluate_reasons(
    nodes: list[Node], standing: list[tuple[PodSpec, str]], new: PodSpec, **more: object
) -> dict[str, str]:
    """Return the first reason per node, or "" for a feasible node."""
    cluster = Cluster("k", tuple(nodes), **more)  # type: ignore[arg-type]
    pods = [
        ExistingPod("default/Pod/x", at, name, spec) for at, (spec, name) in enumerate(standing)
    ]
    verdicts = evaluate_nodes(cluster, pods, new)
    return {v.node: v.rejections[0].reason if v.rejections else "" for v in verdicts}


def evaluate_points(
    nodes: list[Node], standing: list[tuple[PodSpec, str]], new: PodSpec, rule: str
) -> dict[str, int]:
    cluster = Cluster("k", tuple(nodes))
    pods = [
        ExistingPod("default/Pod/x", at, name, spec) for at, (spec, name) in enumerate(standing)
    ]
    return {v.node: v.points.get(rule, 0) for v in evaluate_nodes(cluster, pods, new)}


TWO_ZONES = [build_node("n1", zone="z1"), build_node("n2", zone="z1"), build_node("n3", zone="z2")]


# --- inter-pod affinity ---------------------------------------------------------------------------


def test_affinity_requires_matching_pod_in_domain() -> None:
    refused = evaluate_reasons(
        TWO_ZONES, [(build_pod("b"), "n1")], build_pod("a", affinity=(build_term("zone", B),))
    )
    assert refused == {"n1": "", "n2": "", "n3": AFFINITY}


def test_affinity_ignores_other_namespaces() -> None:
    elsewhere = build_pod("b", namespace="other")
    assert set(
        evaluate_reasons(
            TWO_ZONES, [(elsewhere, "n1")], build_pod("a", affinity=(build_term("zone", B),))
        ).values()
    ) == {AFFINITY}
    wide = build_term("zone", B, ("default", "other"))
    assert (
        evaluate_reasons(TWO_ZONES, [(elsewhere, "n1")], build_pod("a", affinity=(wide,)))["n2"]
        == ""
    )


def test_one_pod_must_match_all_affinity_terms() -> None:
    """Two pods with one matching term each do not satisfy the rule."""
    both = (build_term("zone", B), build_term("zone", build_label_selector({"tier": "db"})))
    apart = [(build_pod("b"), "n1"), (PodSpec(labels=(("tier", "db"),)), "n1")]
    assert set(evaluate_reasons(TWO_ZONES, apart, build_pod("a", affinity=both)).values()) == {
        AFFINITY
    }
    together = [(PodSpec(labels=(("app", "b"), ("tier", "db"))), "n1")]
    assert evaluate_reasons(TWO_ZONES, together, build_pod("a", affinity=both)) == {
        "n1": "",
        "n2": "",
        "n3": AFFINITY,
    }


def test_first_pod_of_group_may_use_any_node_with_the_keys() -> None:
    nodes = [*TWO_ZONES, build_node("bare")]
    own = build_pod("a", affinity=(build_term("zone"),))
    assert evaluate_reasons(nodes, [], own) == {"n1": "", "n2": "", "n3": "", "bare": AFFINITY}
    assert evaluate_reasons(nodes, [(own, "n3")], own) == {
        "n1": AFFINITY,
        "n2": AFFINITY,
        "n3": "",
        "bare": AFFINITY,
    }
    # A matching pod on a node without the key does not count, so the pod is still the first
    # of its group.
    assert evaluate_reasons(nodes, [(own, "bare")], own)["n1"] == ""


def test_first_pod_exception_requires_self_match_on_all_terms() -> None:
    assert set(
        evaluate_reasons(
            TWO_ZONES, [], build_pod("a", affinity=(build_term("zone"), build_term("zone", B)))
        ).values()
    ) == {AFFINITY}


def test_anti_affinity_rejects_domain_but_no_node_without_key() -> None:
    nodes = [*TWO_ZONES, build_node("bare")]
    own = build_pod("a", anti_affinity=(build_term("zone"),))
    assert evaluate_reasons(nodes, [(build_pod("a"), "n1")], own) == {
        "n1": ANTI,
        "n2": ANTI,
        "n3": "",
        "bare": "",
    }
    assert evaluate_reasons(nodes, [(own, "bare")], own)["bare"] == ""


def test_each_anti_affinity_term_rejects() -> None:
    own = build_pod("a", anti_affinity=(build_term("zone", B), build_term(HOST, A)))
    refused = evaluate_reasons(TWO_ZONES, [(build_pod("a"), "n3"), (build_pod("b"), "n1")], own)
    assert refused == {"n1": ANTI, "n2": ANTI, "n3": ANTI}


def test_existing_pods_repel_new_pods() -> None:
    """Symmetry: the new pod has no rule of its own."""
    guard = build_pod("b", anti_affinity=(build_term("zone", A),))
    assert evaluate_reasons(TWO_ZONES, [(guard, "n1")], build_pod("a")) == {
        "n1": EXISTING,
        "n2": EXISTING,
        "n3": "",
    }
    assert evaluate_reasons(TWO_ZONES, [(guard, "n1")], build_pod("c")) == {
        "n1": "",
        "n2": "",
        "n3": "",
    }
    there = replace(guard, namespace="other")
    # The term names the namespace default.
    assert evaluate_reasons(TWO_ZONES, [(there, "n1")], build_pod("a"))["n1"] == EXISTING
    assert (
        evaluate_reasons(TWO_ZONES, [(there, "n1")], replace(build_pod("a"), namespace="other"))[
            "n1"
        ]
        == ""
    )


@pytest.mark.parametrize(
    "selector",
    [
        EVERYTHING,
        build_label_selector({}, (Requirement("app", "NotIn", ("b",)),)),
        build_label_selector({}, (Requirement("app", "Exists"),)),
        build_label_selector({}, (Requirement("app", "In", ("a", "x")),)),
    ],
)
def test_existing_pods_repel_with_any_selector(selector: LabelSelector) -> None:
    guard = build_pod("b", anti_affinity=(build_term("zone", B), build_term("zone", selector)))
    assert evaluate_reasons(TWO_ZONES, [(guard, "n1")], build_pod("a")) == {
        "n1": EXISTING,
        "n2": EXISTING,
        "n3": "",
    }


def test_required_affinity_of_existing_pods_does_not_reject() -> None:
    assert set(
        evaluate_reasons(
            TWO_ZONES, [(build_pod("b", affinity=(build_term("zone", B),)), "n1")], build_pod("a")
        ).values()
    ) == {""}


def test_null_empty_and_namespace_selectors() -> None:
    stands = [(build_pod("b", namespace="blue"), "n1")]
    labels = {"blue": {"team": "x"}}

    def is_rejected(term: PodTerm) -> bool:
        return (
            evaluate_reasons(
                TWO_ZONES, stands, build_pod("a", anti_affinity=(term,)), namespaces=labels
            )["n1"]
            == ANTI
        )

    assert not is_rejected(build_term("zone", None, ("blue",)))
    assert is_rejected(build_term("zone", EVERYTHING, ("blue",)))
    assert not is_rejected(build_term("zone", EVERYTHING))
    assert is_rejected(build_term("zone", EVERYTHING, (), namespace_selector=EVERYTHING))
    assert is_rejected(
        build_term(
            "zone", EVERYTHING, ("red",), namespace_selector=build_label_selector({"team": "x"})
        )
    )
    assert not is_rejected(
        build_term(
            "zone", EVERYTHING, ("red",), namespace_selector=build_label_selector({"team": "y"})
        )
    )
    by_name = build_label_selector({"kubernetes.io/metadata.name": "blue"})
    assert is_rejected(build_term("zone", EVERYTHING, (), namespace_selector=by_name))


def test_reasons_have_kube_scheduler_order() -> None:
    own = build_pod("a", affinity=(build_term("zone", B),), anti_affinity=(build_term("zone", A),))
    assert evaluate_reasons(TWO_ZONES, [(build_pod("a"), "n1")], own)["n1"] == AFFINITY


def test_preferred_terms_attract_and_repel_in_both_directions() -> None:
    stands = [
        (build_pod("b"), "n1"),
        (build_pod("c", preferred_anti_affinity=(build_term("zone", A, weight=5),)), "n3"),
    ]
    new = build_pod("a", preferred_affinity=(build_term("zone", B, weight=15),))
    # 15 in z1, -5 in z2: the minimum becomes 0 and the maximum 100, weight 2.
    assert evaluate_points(TWO_ZONES, stands, new, "inter_pod_affinity") == {
        "n1": 200,
        "n2": 200,
        "n3": 0,
    }


def test_required_affinity_of_existing_pods_scores_one_point() -> None:
    stands = [
        (build_pod("b", affinity=(build_term("zone", A),)), "n1"),
        (build_pod("b", preferred_affinity=(build_term("zone", A, weight=3),)), "n3"),
    ]
    assert evaluate_points(TWO_ZONES, stands, build_pod("a"), "inter_pod_affinity") == {
        "n1": 0,
        "n2": 0,
        "n3": 200,
    }
    third = [build_node("n4", zone="z3")]
    assert (
        evaluate_points([*TWO_ZONES, *third], stands, build_pod("a"), "inter_pod_affinity")["n1"]
        == 2 * 33
    )


# --- topology spread ------------------------------------------------------------------------------

FOUR = [
    build_node("a1", zone="z1"),
    build_node("a2", zone="z1"),
    build_node("b1", zone="z2"),
    build_node("b2", zone="z2"),
]


def build_constraint(
    key: str = "zone", skew: int = 1, selector: object = A, **more: object
) -> SpreadConstraint:
    return SpreadConstraint(key, skew, **{"is_hard": True, "selector": selector, **more})  # type: ignore[arg-type]


def build_spread_pod(*constraints: SpreadConstraint, **more: object) -> PodSpec:
    return build_pod("a", spread=constraints, **more)


@pytest.mark.parametrize(
    ("placed", "skew", "open_nodes"),
    [
        ([], 1, "a1 a2 b1 b2"),
        (["a1"], 1, "b1 b2"),
        (["a1", "b1"], 1, "a1 a2 b1 b2"),
        (["a1", "a2", "b1"], 1, "b1 b2"),
        (["a1", "a2"], 2, "b1 b2"),
        (["a1", "a2", "a2"], 2, "b1 b2"),
        (["a1"], 2, "a1 a2 b1 b2"),
    ],
)
def test_spread_rejects_fuller_zone(placed: list[str], skew: int, open_nodes: str) -> None:
    refused = evaluate_reasons(
        FOUR,
        [(build_pod("a"), name) for name in placed],
        build_spread_pod(build_constraint(skew=skew)),
    )
    assert " ".join(name for name, reason in sorted(refused.items()) if not reason) == open_nodes
    assert set(refused.values()) <= {"", SKEWED}


def test_spread_rejects_nodes_without_key_and_ignores_their_domains() -> None:
    nodes = [*FOUR, build_node("bare")]
    refused = evaluate_reasons(
        nodes,
        [(build_pod("a"), "bare"), (build_pod("a"), "a1")],
        build_spread_pod(build_constraint()),
    )
    assert refused == {"a1": SKEWED, "a2": SKEWED, "b1": "", "b2": "", "bare": MISSING}


def test_pod_outside_own_selector_counts_only_other_pods() -> None:
    new = build_spread_pod(build_constraint(selector=B))
    assert evaluate_reasons(FOUR, [(build_pod("b"), "a1")], new)["a1"] == ""
    assert (
        evaluate_reasons(FOUR, [(build_pod("b"), "a1"), (build_pod("b"), "a2")], new)["a1"]
        == SKEWED
    )


def test_min_domains_keeps_global_minimum_at_zero() -> None:
    stands = [(build_pod("a"), "a1"), (build_pod("a"), "b1")]
    assert (
        evaluate_reasons(FOUR, stands, build_spread_pod(build_constraint(min_domains=2)))["a1"]
        == ""
    )
    assert set(
        evaluate_reasons(FOUR, stands, build_spread_pod(build_constraint(min_domains=3))).values()
    ) == {SKEWED}


def test_other_namespaces_and_empty_selectors_count_no_pods() -> None:
    stands = [(build_pod("a", namespace="other"), "a1")] * 3
    assert set(evaluate_reasons(FOUR, stands, build_spread_pod(build_constraint())).values()) == {
        ""
    }
    assert set(
        evaluate_reasons(
            FOUR,
            [(build_pod("a"), "a1")] * 3,
            build_spread_pod(build_constraint(selector=EVERYTHING)),
        ).values()
    ) == {""}


def test_node_inclusion_policies() -> None:
    """Zone z2 is reachable only with a toleration, or excluded by nodeSelector."""
    nodes = [
        build_node("a1", zone="z1", disk="ssd"),
        replace(build_node("b1", zone="z2"), taints=(Taint("keep", "out", "NoSchedule"),)),
    ]
    stands = [(build_pod("a"), "a1")]
    assert evaluate_reasons(nodes, stands, build_spread_pod(build_constraint()))["a1"] == SKEWED
    assert (
        evaluate_reasons(nodes, stands, build_spread_pod(build_constraint(honor_taints=True)))["a1"]
        == ""
    )
    picky = {"node_selector": (("disk", "ssd"),)}
    assert (
        evaluate_reasons(nodes, stands, build_spread_pod(build_constraint(), **picky))["a1"] == ""
    )
    assert (
        evaluate_reasons(
            nodes, stands, build_spread_pod(build_constraint(honor_affinity=False), **picky)
        )["a1"]
        == SKEWED
    )


def test_two_constraints_must_both_hold() -> None:
    both = build_spread_pod(build_constraint("zone"), build_constraint(HOST))
    refused = evaluate_reasons(
        FOUR, [(build_pod("a"), "a1"), (build_pod("a"), "a2"), (build_pod("a"), "b1")], both
    )
    assert refused == {"a1": SKEWED, "a2": SKEWED, "b1": SKEWED, "b2": ""}


def test_soft_spread_points() -> None:
    # Hostname counts 2, 1, 0, 3: weighted by ln(6) they are 4, 2, 0, 5 points; inverted 20,
    # 60, 100, 0.
    stands = [(build_pod("a"), name) for name in ("a1", "a1", "a2", "b2", "b2", "b2")]
    by_node = evaluate_points(
        FOUR, stands, build_spread_pod(build_constraint(HOST, is_hard=False)), "topology_spread"
    )
    assert by_node == {"a1": 40, "a2": 120, "b1": 200, "b2": 0}


def test_soft_spread_scores_zero_for_nodes_without_key() -> None:
    by_node = evaluate_points(
        [*FOUR, build_node("bare")],
        [(build_pod("a"), "a1")],
        build_spread_pod(build_constraint(is_hard=False)),
        "topology_spread",
    )
    assert by_node == {"a1": 0, "a2": 0, "b1": 200, "b2": 200, "bare": 0}


def test_default_spread_counts_hosts_and_zones() -> None:
    zone = "topology.kubernetes.io/zone"
    nodes = [
        build_node("n1", **{zone: "z1"}),
        build_node("n2", **{zone: "z1"}),
        build_node("n3", **{zone: "z2"}),
    ]
    by_node = evaluate_points(
        nodes, [(build_pod("a"), "n1")], build_pod("a", default_spread=A), "topology_spread"
    )
    # n1: ln5 + 2 + ln4 + 4 = 9; n2: 2 + ln4 + 4 = 7; n3: 6. Inverted relative to 9: 66, 88, 100.
    assert by_node == {"n1": 2 * 66, "n2": 2 * 88, "n3": 2 * 100}


# --- nodes and resources --------------------------------------------------------------------------


def test_all_insufficient_resources_are_named() -> None:
    small = Node("s", cpu=1000, memory=1 << 30, pods=1, other_resources={"gpu": 1})
    big = build_pod(requests=Requests(1001, (1 << 30) + 1, (("gpu", 2), ("fpga", 1))))
    assert evaluate_reasons([small], [], big)["s"] == (
        "Insufficient cpu, Insufficient memory, Insufficient gpu, Insufficient fpga"
    )
    assert (
        evaluate_reasons([small], [], build_pod(requests=Requests(1000, 1 << 30, (("gpu", 1),))))[
            "s"
        ]
        == ""
    )
    assert evaluate_reasons([small], [(build_pod(), "s")], build_pod())["s"] == "Too many pods"


def test_unknown_ephemeral_storage_does_not_reject_node() -> None:
    asks = build_pod(requests=Requests(0, 0, (("ephemeral-storage", 1 << 30),)))
    assert evaluate_reasons([build_node("n")], [], asks)["n"] == ""
    known = replace(build_node("n"), other_resources={"ephemeral-storage": 1})
    assert evaluate_reasons([known], [], asks)["n"] == "Insufficient ephemeral-storage"


@pytest.mark.parametrize(
    ("mine", "theirs", "clash"),
    [
        (HostPort(80), HostPort(80), True),
        (HostPort(80), HostPort(81), False),
        (HostPort(80), HostPort(80, "UDP"), False),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80, "TCP", "10.0.0.2"), False),
        (HostPort(80, "TCP", "10.0.0.1"), HostPort(80), True),
    ],
)
def test_host_port_conflict_rejects_node(mine: HostPort, theirs: HostPort, clash: bool) -> None:
    reason = evaluate_reasons(
        [build_node("n")], [(build_pod(host_ports=(theirs,)), "n")], build_pod(host_ports=(mine,))
    )["n"]
    assert bool(reason) is clash


def test_taints_and_cordons_reject_node() -> None:
    tainted = replace(build_node("n"), taints=(Taint("k", "v", "NoExecute"),))
    assert evaluate_reasons([tainted], [], build_pod())["n"] == "node(s) had untolerated taint(s)"
    assert (
        evaluate_reasons([tainted], [], build_pod(tolerations=(Toleration("k", "Exists"),)))["n"]
        == ""
    )
    cordoned = replace(build_node("n"), unschedulable=True)
    assert evaluate_reasons([cordoned], [], build_pod())["n"] == "node(s) were unschedulable"
    assert (
        evaluate_reasons([cordoned], [], build_pod(tolerations=(Toleration("", "Exists"),)))["n"]
        == ""
    )


def test_soft_taints_lower_score() -> None:
    one = Taint("x", "", "PreferNoSchedule")
    two = Taint("y", "", "PreferNoSchedule")
    nodes = [
        build_node("n0"),
        replace(build_node("n1"), taints=(one,)),
        replace(build_node("n2"), taints=(one, two)),
    ]
    assert evaluate_points(nodes, [], build_pod(), "taints") == {"n0": 300, "n1": 150, "n2": 0}


def test_node_affinity_ors_terms_and_ands_expressions() -> None:
    new = build_pod(
        node_selector=(("disk", "ssd"),),
        node_terms=(
            NodeSelectorTerm(
                (Requirement("zone", "In", ("z1",)), Requirement("cores", "Gt", ("4",)))
            ),
            NodeSelectorTerm((), (Requirement("metadata.name", "In", ("n3",)),)),
        ),
    )
    nodes = [
        build_node("n1", disk="ssd", zone="z1", cores="8"),
        build_node("n2", disk="ssd", zone="z1", cores="4"),
        build_node("n3", disk="ssd"),
        build_node("n4", zone="z1", cores="8"),
    ]
    refused = "node(s) didn't match Pod's node affinity/selector"
    assert evaluate_reasons(nodes, [], new) == {"n1": "", "n2": refused, "n3": "", "n4": refused}
    assert set(evaluate_reasons(nodes, [], build_pod(node_terms=())).values()) == {refused}


def test_unsatisfiable_terms_are_reported_without_node_count() -> None:
    """The term requires two node names at once.

    With an alternative term there is no conflict.
    """
    both = NodeSelectorTerm(
        (),
        (Requirement("metadata.name", "In", ("n1",)), Requirement("metadata.name", "In", ("n2",))),
    )
    new = build_pod(node_terms=(both,))
    outcomes = predict(
        Cluster("c", (build_node("n1"), build_node("n2"))),
        [],
        [Workload("Pod", "default", "p", 1, new)],
    )
    (outcome,) = outcomes.outcomes
    assert outcome.reason.startswith("0/2 nodes are available: pod affinity terms conflict.")
    saved = build_pod(
        node_terms=(both, NodeSelectorTerm((), (Requirement("metadata.name", "In", ("n2",)),)))
    )
    assert evaluate_reasons([build_node("n1"), build_node("n2")], [], saved)["n2"] == ""


def test_preferred_node_affinity_points() -> None:
    wish = (
        (20, NodeSelectorTerm((Requirement("zone", "Exists"),))),
        (80, NodeSelectorTerm((Requirement("disk", "Exists"),))),
    )
    nodes = [build_node("n1", zone="z"), build_node("n2", disk="d"), build_node("n3")]
    assert evaluate_points(nodes, [], build_pod(preferred_nodes=wish), "node_affinity") == {
        "n1": 2 * 25,
        "n2": 200,
        "n3": 0,
    }


def test_node_name_rejects_other_nodes() -> None:
    refused = evaluate_reasons([build_node("n1"), build_node("n2")], [], build_pod(node_name="n1"))
    assert refused == {"n1": "", "n2": "node(s) didn't match the requested node name"}


def test_emptier_and_balanced_nodes_score_higher() -> None:
    nodes = [Node("n1", cpu=4000, memory=10000), Node("n2", cpu=6000, memory=10000)]
    new = build_pod(requests=Requests(3000, 5000), scored_requests=Requests(3000, 5000))
    assert evaluate_points(nodes, [], new, "least_allocated") == {"n1": 37, "n2": 50}
    assert evaluate_points(nodes, [], new, "balanced_allocation") == {"n1": 87, "n2": 100}


def test_pods_without_requests_count_for_scores_but_not_for_fit() -> None:
    nothing = build_pod(scored_requests=Requests(100, 200 << 20))
    tiny = Node("n1", cpu=50, memory=100 << 20)
    large = Node("n2", cpu=1000, memory=2000 << 20)
    assert set(evaluate_reasons([tiny, large], [], nothing).values()) == {""}
    assert evaluate_points([tiny, large], [], nothing, "least_allocated") == {"n1": 0, "n2": 90}
    assert evaluate_points([tiny, large], [], nothing, "balanced_allocation") == {"n1": 0, "n2": 0}
