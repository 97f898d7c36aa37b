"""The engine and a brute-force scheduler agree on every reason, every score and every choice."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nexusform.scheduling.matching import Requirement, Taint, Toleration, label_selector
from nexusform.scheduling.pods.model import (
    Cluster,
    HostPort,
    Node,
    NodeTerm,
    PodSpec,
    PodTerm,
    Requests,
    SpreadConstraint,
    StandingPod,
    Workload,
)
from nexusform.scheduling.pods.scheduler import predict
from nexusform.scheduling.pods.session import Session
from tests.scheduling.pods import brute_force

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
KEYS = (HOST, ZONE, "CIS-node", "rare")
APPS = ("a", "b")


@st.composite
def nodes(draw: Any) -> tuple[Node, ...]:
    found = []
    for number in range(draw(st.integers(1, 6))):
        labels = {}
        if draw(st.integers(0, 9)):
            labels[HOST] = f"n{number}"
        for key, values in ((ZONE, "xyz"), ("CIS-node", "pq"), ("rare", "r")):
            value = draw(st.sampled_from([*values, None, *values]))
            if value is not None:
                labels[key] = value
        taints = []
        if not draw(st.integers(0, 4)):
            effect = draw(st.sampled_from(("NoSchedule", "PreferNoSchedule", "NoExecute")))
            taints.append(Taint("t", draw(st.sampled_from(("", "v"))), effect))
        if not draw(st.integers(0, 4)):
            taints.append(Taint("soft", "", "PreferNoSchedule"))
        found.append(
            Node(
                f"n{number}",
                labels,
                tuple(taints),
                cpu=draw(st.sampled_from((0, 1000, 2500, 4000))),
                memory=draw(st.sampled_from((1 << 30, 3 << 30))),
                pods=draw(st.sampled_from((2, 110))),
                unschedulable=not draw(st.integers(0, 9)),
                others=draw(st.sampled_from(({}, {"gpu": 2}))),
            )
        )
    return tuple(found)


selectors = st.sampled_from(
    (
        None,
        label_selector({}),
        label_selector({"app": "a"}),
        label_selector({"app": "b"}),
        label_selector({}, (Requirement("app", "In", APPS),)),
        label_selector({}, (Requirement("app", "NotIn", ("a",)),)),
        label_selector({"app": "a"}, (Requirement("tier", "Exists"),)),
    )
)
namespaces = st.sampled_from(
    ((("one",), None), (("two",), None), ((), label_selector({})), ((), label_selector({"k": "v"})))
)


@st.composite
def terms(draw: Any, weight: int = 0) -> PodTerm:
    names, selector = draw(namespaces)
    return PodTerm(
        draw(st.sampled_from(KEYS)), draw(selectors), names, selector, weight and draw(st.integers(1, 100))
    )


@st.composite
def spreads(draw: Any) -> SpreadConstraint:
    return SpreadConstraint(
        draw(st.sampled_from(KEYS)),
        draw(st.integers(1, 3)),
        hard := draw(st.booleans()),
        draw(selectors),
        min_domains=draw(st.integers(1, 3)) if hard else 1,
        honor_affinity=draw(st.booleans()),
        honor_taints=draw(st.booleans()),
    )


def few(strategy: Any, most: int = 1) -> Any:
    return st.one_of(st.just(()), st.lists(strategy, max_size=most).map(tuple))


node_terms = st.sampled_from(
    (
        NodeTerm((Requirement(ZONE, "In", ("x", "y")),)),
        NodeTerm((Requirement("CIS-node", "Exists"), Requirement(ZONE, "NotIn", ("x",)))),
        NodeTerm((), (Requirement("metadata.name", "In", ("n0", "n1")),)),
        NodeTerm(),
    )
)


@st.composite
def specs(draw: Any) -> PodSpec:
    cpu = draw(st.sampled_from((0, 0, 300, 1200)))
    memory = draw(st.sampled_from((0, 200 << 20, 1 << 30)))
    labels = {"app": draw(st.sampled_from(APPS))}
    if draw(st.booleans()):
        labels["tier"] = "db"
    own = label_selector({"app": labels["app"]})
    return PodSpec(
        namespace=draw(st.sampled_from(("one", "two"))),
        labels=tuple(sorted(labels.items())),
        requests=Requests(cpu, memory, draw(st.sampled_from(((), (("gpu", 1),))))),
        scored=Requests(cpu or 100, memory or 200 << 20),
        node_selector=draw(st.sampled_from(((), (), ((ZONE, "x"),)))),
        node_terms=draw(st.sampled_from((None, None, True)))
        and draw(st.lists(node_terms, max_size=2).map(tuple)),
        preferred_nodes=draw(few(st.tuples(st.integers(1, 100), node_terms), 2)),
        tolerations=draw(st.sampled_from(((), (Toleration("t", "Exists"),), (Toleration("", "Exists"),)))),
        affinity=draw(few(terms(), 2)),
        anti_affinity=draw(few(terms(), 2)),
        preferred_affinity=draw(few(terms(1))),
        preferred_anti_affinity=draw(few(terms(1))),
        spread=draw(few(spreads(), 2)),
        default_spread=draw(st.sampled_from((None, own, label_selector({})))),
        host_ports=draw(st.sampled_from(((), (), (HostPort(80),), (HostPort(80, "TCP", "10.0.0.1"),)))),
    )


class Case:
    def __init__(
        self,
        nodes: tuple[Node, ...],
        specs: list[PodSpec],
        placed: list[tuple[int, int]],
        labels: dict[str, dict[str, str]],
    ) -> None:
        self.cluster = Cluster("k", nodes, labels)
        self.specs = specs
        self.placed = [(specs[s % len(specs)], nodes[n % len(nodes)].name) for s, n in placed]
        self.standing = [
            StandingPod(f"x/Pod/p{at}", 0, name, spec) for at, (spec, name) in enumerate(self.placed)
        ]


cases = st.builds(
    Case,
    nodes(),
    st.lists(specs(), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=6),
    st.sampled_from(({}, {"one": {"k": "v"}})),
)
quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@quick
@given(cases)
def test_reasons_and_scores_agree(case: Case) -> None:
    session = Session(case.cluster, case.standing, 8)
    peer = brute_force.Cluster(case.cluster.nodes, case.placed, case.cluster.namespaces)
    for spec in case.specs:
        run = session.run_of(spec)
        for at, node in enumerate(case.cluster.nodes):
            assert [r.reason for r in run.refusals(at)] == peer.reasons(spec, node)
        scored = {case.cluster.nodes[at].name: sum(parts.values()) for at, parts in run.scored().items()}
        assert scored == peer.totals(spec)


@quick
@given(cases, st.integers(1, 5))
def test_every_choice_is_among_the_best(case: Case, replicas: int) -> None:
    """Pod by pod, also after the engine has kept its counters up over many pods."""
    workloads = [
        Workload("ReplicaSet", spec.namespace, f"w{at}", replicas, spec) for at, spec in enumerate(case.specs)
    ]
    prediction = predict(case.cluster, case.standing, workloads)
    placed = list(case.placed)
    first_round = [outcome for outcome in prediction.outcomes if outcome.node]
    for outcome in first_round:
        spec = outcome.spec
        assert spec is not None
        totals = brute_force.Cluster(case.cluster.nodes, placed, case.cluster.namespaces).totals(spec)
        if not totals and any(other.pending for other in prediction.outcomes):
            return  # it was tried again after later pods
        if (spec.affinity or spec.spread) and outcome.node not in totals:
            return  # the same
        best = [name for name, total in totals.items() if total == max(totals.values())]
        assert outcome.node in best
        assert outcome.score == max(totals.values())
        assert outcome.feasible == len(totals)
        if outcome.certain:
            assert best == [outcome.node]
        placed.append((spec, outcome.node))


@quick
@given(cases, st.integers(1, 4))
def test_pending_pods_are_refused_everywhere_and_placed_ones_obey(case: Case, replicas: int) -> None:
    """Whoever is Pending in the end fits nowhere; nobody takes more than a node has."""
    workloads = [
        Workload("ReplicaSet", spec.namespace, f"w{at}", replicas, spec) for at, spec in enumerate(case.specs)
    ]
    prediction = predict(case.cluster, case.standing, workloads)
    after = [(p.spec, p.node) for p in prediction.standing() if p.node]
    peer = brute_force.Cluster(case.cluster.nodes, after, case.cluster.namespaces)
    for outcome in prediction.pending():
        assert outcome.spec is not None
        assert all(peer.reasons(outcome.spec, node) for node in case.cluster.nodes)
        assert {r.candidate for r in outcome.refusals} == {node.name for node in case.cluster.nodes}
    for forecast in prediction.forecasts.values():
        assert forecast.reach.least <= forecast.running <= forecast.reach.most
