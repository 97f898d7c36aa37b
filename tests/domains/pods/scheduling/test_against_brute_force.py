"""Tests of the engine against a brute-force scheduler.

They agree on every reason, score and choice.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nexusform.domains.pods.scheduling import pod_spec_scheduler
from nexusform.domains.pods.scheduling.cluster_records import (
    Cluster,
    ExistingPod,
    HostPort,
    InlineVolume,
    Node,
    PodSpec,
    PodTerm,
    Requests,
    SpreadConstraint,
    Workload,
)
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.scheduling_session import SchedulingSession
from nexusform.kubernetes.matching import (
    NodeSelectorTerm,
    Requirement,
    Taint,
    Toleration,
    build_label_selector,
)
from tests.domains.pods.scheduling import brute_force
from tests.domains.pods.scheduling.outcomes import count_running_pods, list_pending_pods
from tests.kill_points import scale_count

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
KEYS = (HOST, ZONE, "CIS-node", "rare")
APPS = ("a", "b")


@st.composite
def nodes(draw: Any) -> tuple[Node, ...]:
    made = []
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
        made.append(
            Node(
                f"n{number}",
                labels,
                tuple(taints),
                cpu=draw(st.sampled_from((0, 1000, 2500, 4000))),
                memory=draw(st.sampled_from((1 << 30, 3 << 30))),
                pods=draw(st.sampled_from((2, 110))),
                unschedulable=not draw(st.integers(0, 9)),
                other_resources=draw(st.sampled_from(({}, {"gpu": 2}))),
            )
        )
    return tuple(made)


selectors = st.sampled_from(
    (
        None,
        build_label_selector({}),
        build_label_selector({"app": "a"}),
        build_label_selector({"app": "b"}),
        build_label_selector({}, (Requirement("app", "In", APPS),)),
        build_label_selector({}, (Requirement("app", "NotIn", ("a",)),)),
        build_label_selector({"app": "a"}, (Requirement("tier", "Exists"),)),
    )
)
namespaces = st.sampled_from(
    (
        (("one",), None),
        (("two",), None),
        ((), build_label_selector({})),
        ((), build_label_selector({"k": "v"})),
    )
)


@st.composite
def terms(draw: Any, weight: int = 0) -> PodTerm:
    names, selector = draw(namespaces)
    return PodTerm(
        draw(st.sampled_from(KEYS)),
        draw(selectors),
        names,
        selector,
        weight and draw(st.integers(1, 100)),
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


def build_short_lists(strategy: Any, most: int = 1) -> Any:
    return st.one_of(st.just(()), st.lists(strategy, max_size=most).map(tuple))


node_terms = st.sampled_from(
    (
        NodeSelectorTerm((Requirement(ZONE, "In", ("x", "y")),)),
        NodeSelectorTerm((Requirement("CIS-node", "Exists"), Requirement(ZONE, "NotIn", ("x",)))),
        NodeSelectorTerm((), (Requirement("metadata.name", "In", ("n0", "n1")),)),
        NodeSelectorTerm(),
    )
)


@st.composite
def specs(draw: Any) -> PodSpec:
    cpu = draw(st.sampled_from((0, 0, 300, 1200)))
    memory = draw(st.sampled_from((0, 200 << 20, 1 << 30)))
    labels = {"app": draw(st.sampled_from(APPS))}
    if draw(st.booleans()):
        labels["tier"] = "db"
    own = build_label_selector({"app": labels["app"]})
    return PodSpec(
        namespace=draw(st.sampled_from(("one", "two"))),
        labels=tuple(sorted(labels.items())),
        requests=Requests(cpu, memory, draw(st.sampled_from(((), (("gpu", 1),))))),
        scored_requests=Requests(cpu or 100, memory or 200 << 20),
        node_selector=draw(st.sampled_from(((), (), ((ZONE, "x"),)))),
        node_terms=draw(st.sampled_from((None, None, True)))
        and draw(st.lists(node_terms, max_size=2).map(tuple)),
        preferred_nodes=draw(build_short_lists(st.tuples(st.integers(1, 100), node_terms), 2)),
        tolerations=draw(
            st.sampled_from(((), (Toleration("t", "Exists"),), (Toleration("", "Exists"),)))
        ),
        affinity=draw(build_short_lists(terms(), 2)),
        anti_affinity=draw(build_short_lists(terms(), 2)),
        preferred_affinity=draw(build_short_lists(terms(1))),
        preferred_anti_affinity=draw(build_short_lists(terms(1))),
        spread=draw(build_short_lists(spreads(), 2)),
        default_spread=draw(st.sampled_from((None, own, build_label_selector({})))),
        host_ports=draw(
            st.sampled_from(((), (), (HostPort(80),), (HostPort(80, "TCP", "10.0.0.1"),)))
        ),
        disks=draw(
            st.sampled_from(((), (), (InlineVolume("d"),), (InlineVolume("d", is_read_only=True),)))
        ),
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
            ExistingPod(f"x/Pod/p{at}", 0, name, spec)
            for at, (spec, name) in enumerate(self.placed)
        ]


cases = st.builds(
    Case,
    nodes(),
    st.lists(specs(), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=6),
    st.sampled_from(({}, {"one": {"k": "v"}})),
)
quick = settings(
    max_examples=scale_count(240), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@quick
@given(cases)
def test_reasons_and_scores_agree_with_brute_force(case: Case) -> None:
    session = SchedulingSession(case.cluster, case.standing)
    peer = brute_force.Cluster(case.cluster.nodes, case.placed, case.cluster.namespaces)
    for spec in case.specs:
        view = session.get_scheduler(spec)
        for at, node in enumerate(case.cluster.nodes):
            assert [r.reason for r in view.list_rejections(at)] == peer.reasons(spec, node)
        scored = {
            case.cluster.nodes[at].name: sum(parts.values())
            for at, parts in view.score_nodes().items()
        }
        assert scored == peer.totals(spec)


@quick
@given(cases, st.integers(1, 5))
def test_every_chosen_node_has_best_score(case: Case, replicas: int) -> None:
    """Checked pod by pod, also after the engine has updated its counters for many pods."""
    workloads = [
        Workload("ReplicaSet", spec.namespace, f"w{at}", replicas, spec)
        for at, spec in enumerate(case.specs)
    ]
    prediction = predict(case.cluster, case.standing, workloads)
    # A NoExecute taint evicts existing pods.
    remaining = {pod.workload for pod in prediction.list_existing_pods() if pod.node}
    placed = [
        pod
        for pod, existing in zip(case.placed, case.standing, strict=True)
        if existing.workload in remaining
    ]
    first_round = [outcome for outcome in prediction.outcomes if outcome.node]
    for outcome in first_round:
        spec = outcome.spec
        assert spec is not None
        totals = brute_force.Cluster(case.cluster.nodes, placed, case.cluster.namespaces).totals(
            spec
        )
        if not totals and any(other.is_pending for other in prediction.outcomes):
            # The pod was tried again after later pods.
            return
        if (spec.affinity or spec.spread) and outcome.node not in totals:
            return  # Same case.
        best = [name for name, total in totals.items() if total == max(totals.values())]
        assert outcome.node in best
        assert outcome.feasible_nodes == len(totals)
        if outcome.is_certain:
            assert best == [outcome.node]
        placed.append((spec, outcome.node))


@quick
@given(cases, st.integers(1, 4))
def test_pending_pods_fit_nowhere_and_placed_pods_fit(case: Case, replicas: int) -> None:
    """Pods still Pending at the end fit on no node; no node is overcommitted."""
    workloads = [
        Workload("ReplicaSet", spec.namespace, f"w{at}", replicas, spec)
        for at, spec in enumerate(case.specs)
    ]
    prediction = predict(case.cluster, case.standing, workloads)
    after = [(p.spec, p.node) for p in prediction.list_existing_pods() if p.node]
    peer = brute_force.Cluster(case.cluster.nodes, after, case.cluster.namespaces)
    for outcome in list_pending_pods(prediction):
        assert outcome.spec is not None
        assert all(peer.reasons(outcome.spec, node) for node in case.cluster.nodes)
        assert {r.candidate for r in outcome.rejections} == {
            node.name for node in case.cluster.nodes
        }
    for key, forecast in prediction.forecasts.items():
        assert (
            forecast.placeable_range.minimum
            <= count_running_pods(prediction, key)
            <= forecast.placeable_range.maximum
        )


@quick
@given(cases, st.integers(1, 6))
def test_buckets_by_counts_choose_like_buckets_by_domain(case: Case, replicas: int) -> None:
    """Keys with many domains are grouped by counts, keys with few by domain.

    Both give the same result.
    """
    workloads = [
        Workload("ReplicaSet", spec.namespace, f"w{at}", replicas, spec)
        for at, spec in enumerate(case.specs)
    ]
    by_domain = predict(case.cluster, case.standing, workloads)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod_spec_scheduler, "_FEW_DOMAINS", 0)
        by_counts = predict(case.cluster, case.standing, workloads)
    assert by_counts == by_domain


@quick
@given(cases, st.integers(1, 5))
def test_required_anti_affinity_holds_in_every_outcome(case: Case, replicas: int) -> None:
    """Starting from an empty cluster, no two pods share a domain against a rule of either pod."""
    workloads = [
        Workload("ReplicaSet", spec.namespace, f"w{at}", replicas, spec)
        for at, spec in enumerate(case.specs)
    ]
    pods = [
        (p.spec, p.node)
        for p in predict(case.cluster, (), workloads).list_existing_pods()
        if p.node
    ]
    peer = brute_force.Cluster(case.cluster.nodes, pods, case.cluster.namespaces)
    for at, (one, here) in enumerate(pods):
        for other, there in pods[:at] + pods[at + 1 :]:
            for term in one.anti_affinity:
                together = peer.is_same_domain(
                    term.topology_key, peer.nodes[here], peer.nodes[there]
                )
                assert not (together and peer.is_selected_by_term(term, other))


def test_choices_on_many_nodes_have_highest_total() -> None:
    """300 nodes, 150 machines, pods of four workloads: each chosen node has the highest total."""
    nodes = tuple(
        Node(
            f"n{at:03}",
            {HOST: f"n{at:03}", "CIS-node": f"m{at // 2}", ZONE: f"z{at % 3}"}
            | ({} if at % 7 else {"rare": "r"}),
            cpu=2000 + 1000 * (at % 4),
            memory=8 << 30,
        )
        for at in range(300)
    )

    def build_workload(name: str, **more: Any) -> Workload:
        spec = PodSpec(
            labels=(("app", name),),
            requests=Requests(300, 1 << 28),
            scored_requests=Requests(300, 1 << 28),
        )
        return Workload("Deployment", "default", name, 60, replace(spec, template=name, **more))

    a = build_label_selector({"app": "a"})
    b = build_label_selector({"app": "b"})
    workloads = [
        build_workload(
            "a", anti_affinity=(PodTerm("CIS-node", a, ("default",)),), default_spread=a
        ),
        build_workload(
            "b",
            preferred_anti_affinity=(PodTerm("CIS-node", a, ("default",), None, 50),),
            default_spread=b,
        ),
        build_workload(
            "c",
            spread=(SpreadConstraint(ZONE, 1, True, b), SpreadConstraint("CIS-node", 1, False, a)),
        ),
        build_workload(
            "d", preferred_affinity=(PodTerm(ZONE, b, ("default",), None, 9),), default_spread=a
        ),
    ]
    cluster = Cluster("k", nodes)
    prediction = predict(cluster, (), workloads)
    assert not list_pending_pods(prediction)
    session = SchedulingSession(cluster, ())
    for outcome in prediction.outcomes:
        assert outcome.spec is not None
        if outcome.number % 10 == 3:
            totals = {
                at: sum(p.values())
                for at, p in session.get_scheduler(outcome.spec).score_nodes().items()
            }
            best = max(totals.values())
            assert best == totals[session.cache.index[outcome.node]]
            assert outcome.feasible_nodes == len(totals)
        session.cache.place(
            session.cache.get_group(outcome.spec), session.cache.index[outcome.node]
        )
