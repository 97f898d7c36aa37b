"""Rule by rule, with figures worked out by hand: what Kubernetes' own tables decide, told in our words."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.pod_explanation import evaluate_nodes
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.workloads import (
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
from nexusform.kubernetes.matching import (
    LabelSelector,
    NodeSelectorTerm,
    Requirement,
    Taint,
    Toleration,
    build_label_selector,
)

HOST = "kubernetes.io/hostname"
A, B = build_label_selector({"app": "a"}), build_label_selector({"app": "b"})
EVERYTHING = build_label_selector({})
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
SKEWED = "node(s) didn't match pod topology spread constraints"
MISSING = SKEWED + " (missing required label)"


def node(name: str, **labels: str) -> Node:
    return Node(name, {HOST: name, **labels}, cpu=4000, memory=8 << 30)


def pod(app: str = "a", **more: object) -> PodSpec:
    return replace(PodSpec(labels=(("app", app),)), **more)  # type: ignore[arg-type]


def near(key: str, selector: object = A, namespaces: tuple[str, ...] = ("default",), **more: object) -> PodTerm:
    return PodTerm(key, selector, namespaces, **more)  # type: ignore[arg-type]


def reasons(nodes: list[Node], standing: list[tuple[PodSpec, str]], new: PodSpec, **more: object) -> dict[str, str]:
    """Per node the first reason, "" where it is feasible."""
    cluster = Cluster("k", tuple(nodes), **more)  # type: ignore[arg-type]
    pods = [ExistingPod("default/Pod/x", at, name, spec) for at, (spec, name) in enumerate(standing)]
    verdicts = evaluate_nodes(cluster, pods, new)
    return {v.node: v.rejections[0].reason if v.rejections else "" for v in verdicts}


def points(nodes: list[Node], standing: list[tuple[PodSpec, str]], new: PodSpec, rule: str) -> dict[str, int]:
    cluster = Cluster("k", tuple(nodes))
    pods = [ExistingPod("default/Pod/x", at, name, spec) for at, (spec, name) in enumerate(standing)]
    return {v.node: v.points.get(rule, 0) for v in evaluate_nodes(cluster, pods, new)}


TWO_ZONES = [node("n1", zone="z1"), node("n2", zone="z1"), node("n3", zone="z2")]


# --- inter-pod affinity ---------------------------------------------------------------------------


def test_affinity_wants_its_company_in_the_domain() -> None:
    refused = reasons(TWO_ZONES, [(pod("b"), "n1")], pod("a", affinity=(near("zone", B),)))
    assert refused == {"n1": "", "n2": "", "n3": AFFINITY}


def test_affinity_does_not_see_other_namespaces() -> None:
    elsewhere = pod("b", namespace="other")
    assert set(reasons(TWO_ZONES, [(elsewhere, "n1")], pod("a", affinity=(near("zone", B),))).values()) == {AFFINITY}
    wide = near("zone", B, ("default", "other"))
    assert reasons(TWO_ZONES, [(elsewhere, "n1")], pod("a", affinity=(wide,)))["n2"] == ""


def test_one_pod_must_match_all_affinity_terms() -> None:
    """Two pods that match one term each are no company."""
    both = (near("zone", B), near("zone", build_label_selector({"tier": "db"})))
    apart = [(pod("b"), "n1"), (PodSpec(labels=(("tier", "db"),)), "n1")]
    assert set(reasons(TWO_ZONES, apart, pod("a", affinity=both)).values()) == {AFFINITY}
    together = [(PodSpec(labels=(("app", "b"), ("tier", "db"))), "n1")]
    assert reasons(TWO_ZONES, together, pod("a", affinity=both)) == {"n1": "", "n2": "", "n3": AFFINITY}


def test_the_first_pod_of_a_group_may_go_anywhere_with_the_keys() -> None:
    nodes = [*TWO_ZONES, node("bare")]
    own = pod("a", affinity=(near("zone"),))
    assert reasons(nodes, [], own) == {"n1": "", "n2": "", "n3": "", "bare": AFFINITY}
    assert reasons(nodes, [(own, "n3")], own) == {"n1": AFFINITY, "n2": AFFINITY, "n3": "", "bare": AFFINITY}
    # Company on a node without the key is no company: nobody has been found yet.
    assert reasons(nodes, [(own, "bare")], own)["n1"] == ""


def test_the_exception_needs_a_pod_that_matches_all_its_own_terms() -> None:
    assert set(reasons(TWO_ZONES, [], pod("a", affinity=(near("zone"), near("zone", B)))).values()) == {AFFINITY}


def test_anti_affinity_refuses_the_domain_and_never_a_node_without_the_key() -> None:
    nodes = [*TWO_ZONES, node("bare")]
    own = pod("a", anti_affinity=(near("zone"),))
    assert reasons(nodes, [(pod("a"), "n1")], own) == {"n1": ANTI, "n2": ANTI, "n3": "", "bare": ""}
    assert reasons(nodes, [(own, "bare")], own)["bare"] == ""


def test_any_anti_affinity_term_refuses() -> None:
    own = pod("a", anti_affinity=(near("zone", B), near(HOST, A)))
    refused = reasons(TWO_ZONES, [(pod("a"), "n3"), (pod("b"), "n1")], own)
    assert refused == {"n1": ANTI, "n2": ANTI, "n3": ANTI}


def test_pods_that_stand_keep_others_away() -> None:
    """Symmetry: the new pod has no rule of its own."""
    guard = pod("b", anti_affinity=(near("zone", A),))
    assert reasons(TWO_ZONES, [(guard, "n1")], pod("a")) == {"n1": EXISTING, "n2": EXISTING, "n3": ""}
    assert reasons(TWO_ZONES, [(guard, "n1")], pod("c")) == {"n1": "", "n2": "", "n3": ""}
    there = replace(guard, namespace="other")
    assert reasons(TWO_ZONES, [(there, "n1")], pod("a"))["n1"] == EXISTING  # its term names default
    assert reasons(TWO_ZONES, [(there, "n1")], replace(pod("a"), namespace="other"))["n1"] == ""


@pytest.mark.parametrize(
    "selector",
    [
        EVERYTHING,
        build_label_selector({}, (Requirement("app", "NotIn", ("b",)),)),
        build_label_selector({}, (Requirement("app", "Exists"),)),
        build_label_selector({}, (Requirement("app", "In", ("a", "x")),)),
    ],
)
def test_pods_that_stand_keep_others_away_by_any_selector(selector: LabelSelector) -> None:
    guard = pod("b", anti_affinity=(near("zone", B), near("zone", selector)))
    assert reasons(TWO_ZONES, [(guard, "n1")], pod("a")) == {"n1": EXISTING, "n2": EXISTING, "n3": ""}


def test_required_affinity_of_standing_pods_does_not_refuse() -> None:
    assert set(reasons(TWO_ZONES, [(pod("b", affinity=(near("zone", B),)), "n1")], pod("a")).values()) == {""}


def test_selectors_null_empty_and_over_namespaces() -> None:
    stands = [(pod("b", namespace="blue"), "n1")]
    labels = {"blue": {"team": "x"}}

    def refused(term: PodTerm) -> bool:
        return reasons(TWO_ZONES, stands, pod("a", anti_affinity=(term,)), namespaces=labels)["n1"] == ANTI

    assert not refused(near("zone", None, ("blue",)))
    assert refused(near("zone", EVERYTHING, ("blue",)))
    assert not refused(near("zone", EVERYTHING))
    assert refused(near("zone", EVERYTHING, (), namespace_selector=EVERYTHING))
    assert refused(near("zone", EVERYTHING, ("red",), namespace_selector=build_label_selector({"team": "x"})))
    assert not refused(near("zone", EVERYTHING, ("red",), namespace_selector=build_label_selector({"team": "y"})))
    by_name = build_label_selector({"kubernetes.io/metadata.name": "blue"})
    assert refused(near("zone", EVERYTHING, (), namespace_selector=by_name))


def test_the_reasons_come_in_kube_schedulers_order() -> None:
    own = pod("a", affinity=(near("zone", B),), anti_affinity=(near("zone", A),))
    assert reasons(TWO_ZONES, [(pod("a"), "n1")], own)["n1"] == AFFINITY


def test_preferred_terms_pull_and_push_both_ways() -> None:
    stands = [(pod("b"), "n1"), (pod("c", preferred_anti_affinity=(near("zone", A, weight=5),)), "n3")]
    new = pod("a", preferred_affinity=(near("zone", B, weight=15),))
    # 15 in z1, -5 in z2: the least becomes 0 and the most 100, weight 2.
    assert points(TWO_ZONES, stands, new, "inter_pod_affinity") == {"n1": 200, "n2": 200, "n3": 0}


def test_required_affinity_of_standing_pods_is_worth_one_point() -> None:
    stands = [
        (pod("b", affinity=(near("zone", A),)), "n1"),
        (pod("b", preferred_affinity=(near("zone", A, weight=3),)), "n3"),
    ]
    assert points(TWO_ZONES, stands, pod("a"), "inter_pod_affinity") == {"n1": 0, "n2": 0, "n3": 200}
    third = [node("n4", zone="z3")]
    assert points([*TWO_ZONES, *third], stands, pod("a"), "inter_pod_affinity")["n1"] == 2 * 33


# --- topology spread --------------------------------------------------------------------------------

FOUR = [node("a1", zone="z1"), node("a2", zone="z1"), node("b1", zone="z2"), node("b2", zone="z2")]


def spread(key: str = "zone", skew: int = 1, selector: object = A, **more: object) -> SpreadConstraint:
    return SpreadConstraint(key, skew, **{"is_hard": True, "selector": selector, **more})  # type: ignore[arg-type]


def spreading(*constraints: SpreadConstraint, **more: object) -> PodSpec:
    return pod("a", spread=constraints, **more)


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
def test_spread_holds_back_the_fuller_zone(placed: list[str], skew: int, open_nodes: str) -> None:
    refused = reasons(FOUR, [(pod("a"), name) for name in placed], spreading(spread(skew=skew)))
    assert " ".join(name for name, reason in sorted(refused.items()) if not reason) == open_nodes
    assert set(refused.values()) <= {"", SKEWED}


def test_spread_refuses_nodes_without_the_key_and_ignores_them_as_domains() -> None:
    nodes = [*FOUR, node("bare")]
    refused = reasons(nodes, [(pod("a"), "bare"), (pod("a"), "a1")], spreading(spread()))
    assert refused == {"a1": SKEWED, "a2": SKEWED, "b1": "", "b2": "", "bare": MISSING}


def test_a_pod_that_does_not_count_itself_only_looks_at_others() -> None:
    new = spreading(spread(selector=B))
    assert reasons(FOUR, [(pod("b"), "a1")], new)["a1"] == ""
    assert reasons(FOUR, [(pod("b"), "a1"), (pod("b"), "a2")], new)["a1"] == SKEWED


def test_min_domains_keeps_the_least_at_zero() -> None:
    stands = [(pod("a"), "a1"), (pod("a"), "b1")]
    assert reasons(FOUR, stands, spreading(spread(min_domains=2)))["a1"] == ""
    assert set(reasons(FOUR, stands, spreading(spread(min_domains=3))).values()) == {SKEWED}


def test_other_namespaces_and_empty_selectors_count_nobody() -> None:
    stands = [(pod("a", namespace="other"), "a1")] * 3
    assert set(reasons(FOUR, stands, spreading(spread())).values()) == {""}
    assert set(reasons(FOUR, [(pod("a"), "a1")] * 3, spreading(spread(selector=EVERYTHING))).values()) == {""}


def test_inclusion_policies() -> None:
    """Zone z2 can only be reached by toleration, or is cut off by nodeSelector."""
    nodes = [
        node("a1", zone="z1", disk="ssd"),
        replace(node("b1", zone="z2"), taints=(Taint("keep", "out", "NoSchedule"),)),
    ]
    stands = [(pod("a"), "a1")]
    assert reasons(nodes, stands, spreading(spread()))["a1"] == SKEWED
    assert reasons(nodes, stands, spreading(spread(honor_taints=True)))["a1"] == ""
    picky = {"node_selector": (("disk", "ssd"),)}
    assert reasons(nodes, stands, spreading(spread(), **picky))["a1"] == ""
    assert reasons(nodes, stands, spreading(spread(honor_affinity=False), **picky))["a1"] == SKEWED


def test_two_constraints_must_both_hold() -> None:
    both = spreading(spread("zone"), spread(HOST))
    refused = reasons(FOUR, [(pod("a"), "a1"), (pod("a"), "a2"), (pod("a"), "b1")], both)
    assert refused == {"a1": SKEWED, "a2": SKEWED, "b1": SKEWED, "b2": ""}


def test_soft_spread_points() -> None:
    # Hostname counts 2, 1, 0, 3: weighed by ln(6) they are 4, 2, 0, 5 points; turned round 20, 60, 100, 0.
    stands = [(pod("a"), name) for name in ("a1", "a1", "a2", "b2", "b2", "b2")]
    by_node = points(FOUR, stands, spreading(spread(HOST, is_hard=False)), "topology_spread")
    assert by_node == {"a1": 40, "a2": 120, "b1": 200, "b2": 0}


def test_soft_spread_gives_nothing_to_nodes_without_the_key() -> None:
    by_node = points([*FOUR, node("bare")], [(pod("a"), "a1")], spreading(spread(is_hard=False)), "topology_spread")
    assert by_node == {"a1": 0, "a2": 0, "b1": 200, "b2": 200, "bare": 0}


def test_default_spread_counts_hosts_and_zones() -> None:
    zone = "topology.kubernetes.io/zone"
    nodes = [node("n1", **{zone: "z1"}), node("n2", **{zone: "z1"}), node("n3", **{zone: "z2"})]
    by_node = points(nodes, [(pod("a"), "n1")], pod("a", default_spread=A), "topology_spread")
    # n1: ln5 + 2 + ln4 + 4 = 9; n2: 2 + ln4 + 4 = 7; n3: 6. Turned round over 9: 66, 88, 100.
    assert by_node == {"n1": 2 * 66, "n2": 2 * 88, "n3": 2 * 100}


# --- nodes and resources ------------------------------------------------------------------------------


def test_resources_name_all_that_is_short() -> None:
    small = Node("s", cpu=1000, memory=1 << 30, pods=1, other_resources={"gpu": 1})
    big = pod(requests=Requests(1001, (1 << 30) + 1, (("gpu", 2), ("fpga", 1))))
    assert reasons([small], [], big)["s"] == (
        "Insufficient cpu, Insufficient memory, Insufficient gpu, Insufficient fpga"
    )
    assert reasons([small], [], pod(requests=Requests(1000, 1 << 30, (("gpu", 1),))))["s"] == ""
    assert reasons([small], [(pod(), "s")], pod())["s"] == "Too many pods"


def test_unknown_ephemeral_storage_is_not_held_against_a_node() -> None:
    asks = pod(requests=Requests(0, 0, (("ephemeral-storage", 1 << 30),)))
    assert reasons([node("n")], [], asks)["n"] == ""
    known = replace(node("n"), other_resources={"ephemeral-storage": 1})
    assert reasons([known], [], asks)["n"] == "Insufficient ephemeral-storage"


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
def test_host_ports(mine: HostPort, theirs: HostPort, clash: bool) -> None:
    reason = reasons([node("n")], [(pod(host_ports=(theirs,)), "n")], pod(host_ports=(mine,)))["n"]
    assert bool(reason) is clash


def test_taints_and_cordons() -> None:
    tainted = replace(node("n"), taints=(Taint("k", "v", "NoExecute"),))
    assert reasons([tainted], [], pod())["n"] == "node(s) had untolerated taint(s)"
    assert reasons([tainted], [], pod(tolerations=(Toleration("k", "Exists"),)))["n"] == ""
    cordoned = replace(node("n"), unschedulable=True)
    assert reasons([cordoned], [], pod())["n"] == "node(s) were unschedulable"
    assert reasons([cordoned], [], pod(tolerations=(Toleration("", "Exists"),)))["n"] == ""


def test_soft_taints_cost_points() -> None:
    one, two = Taint("x", "", "PreferNoSchedule"), Taint("y", "", "PreferNoSchedule")
    nodes = [node("n0"), replace(node("n1"), taints=(one,)), replace(node("n2"), taints=(one, two))]
    assert points(nodes, [], pod(), "taints") == {"n0": 300, "n1": 150, "n2": 0}


def test_node_affinity_is_or_of_terms_and_of_expressions_in_a_term() -> None:
    new = pod(
        node_selector=(("disk", "ssd"),),
        node_terms=(
            NodeSelectorTerm((Requirement("zone", "In", ("z1",)), Requirement("cores", "Gt", ("4",)))),
            NodeSelectorTerm((), (Requirement("metadata.name", "In", ("n3",)),)),
        ),
    )
    nodes = [
        node("n1", disk="ssd", zone="z1", cores="8"),
        node("n2", disk="ssd", zone="z1", cores="4"),
        node("n3", disk="ssd"),
        node("n4", zone="z1", cores="8"),
    ]
    refused = "node(s) didn't match Pod's node affinity/selector"
    assert reasons(nodes, [], new) == {"n1": "", "n2": refused, "n3": "", "n4": refused}
    assert set(reasons(nodes, [], pod(node_terms=())).values()) == {refused}


def test_terms_that_no_node_can_satisfy_are_told_without_a_number_of_nodes() -> None:
    """A term that names two nodes at once; one that another term saves is no conflict."""
    both = NodeSelectorTerm(
        (), (Requirement("metadata.name", "In", ("n1",)), Requirement("metadata.name", "In", ("n2",)))
    )
    new = pod(node_terms=(both,))
    outcomes = predict(Cluster("c", (node("n1"), node("n2"))), [], [Workload("Pod", "default", "p", 1, new)])
    (outcome,) = outcomes.outcomes
    assert outcome.reason.startswith("0/2 nodes are available: pod affinity terms conflict.")
    saved = pod(node_terms=(both, NodeSelectorTerm((), (Requirement("metadata.name", "In", ("n2",)),))))
    assert reasons([node("n1"), node("n2")], [], saved)["n2"] == ""


def test_preferred_node_affinity_points() -> None:
    wish = (
        (20, NodeSelectorTerm((Requirement("zone", "Exists"),))),
        (80, NodeSelectorTerm((Requirement("disk", "Exists"),))),
    )
    nodes = [node("n1", zone="z"), node("n2", disk="d"), node("n3")]
    assert points(nodes, [], pod(preferred_nodes=wish), "node_affinity") == {"n1": 2 * 25, "n2": 200, "n3": 0}


def test_node_name() -> None:
    refused = reasons([node("n1"), node("n2")], [], pod(node_name="n1"))
    assert refused == {"n1": "", "n2": "node(s) didn't match the requested node name"}


def test_emptier_and_balanced_nodes_score_higher() -> None:
    nodes = [Node("n1", cpu=4000, memory=10000), Node("n2", cpu=6000, memory=10000)]
    new = pod(requests=Requests(3000, 5000), scored_requests=Requests(3000, 5000))
    assert points(nodes, [], new, "least_allocated") == {"n1": 37, "n2": 50}
    assert points(nodes, [], new, "balanced_allocation") == {"n1": 87, "n2": 100}


def test_pods_without_requests_count_in_scores_and_not_for_fitting() -> None:
    nothing = pod(scored_requests=Requests(100, 200 << 20))
    tiny = Node("n1", cpu=50, memory=100 << 20)
    large = Node("n2", cpu=1000, memory=2000 << 20)
    assert set(reasons([tiny, large], [], nothing).values()) == {""}
    assert points([tiny, large], [], nothing, "least_allocated") == {"n1": 0, "n2": 90}
    assert points([tiny, large], [], nothing, "balanced_allocation") == {"n1": 0, "n2": 0}
