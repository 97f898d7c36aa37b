"""Tests of minimum and maximum replicas against all possible sequences of choices."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nexusform.domains.pods.scheduling import pod_outcomes
from nexusform.domains.pods.scheduling.cluster_records import (
    Cluster,
    ExistingPod,
    HostPort,
    Node,
    PodSpec,
    PodTerm,
    Requests,
    SpreadConstraint,
)
from nexusform.domains.pods.scheduling.scheduling_session import SchedulingSession
from nexusform.kubernetes.matching import build_label_selector
from tests.domains.pods.scheduling import brute_force
from tests.kill_points import scale_count

HOST = "kubernetes.io/hostname"
ZONE = "zone"
MACHINE = "machine"
OWN = build_label_selector({"app": "a"})
OTHERS = build_label_selector({"app": "b"})
selectors = st.sampled_from((OWN, OWN, OWN, OTHERS, None, build_label_selector({})))


def build_node(number: int, zone: str, machine: str, pods: int) -> Node:
    labels = {HOST: f"n{number}"}
    if zone:
        labels[ZONE] = zone
    if machine:
        labels[MACHINE] = machine
    return Node(f"n{number}", labels, cpu=1000, memory=1 << 30, pods=pods)


nodes = st.lists(
    st.tuples(
        st.sampled_from(("x", "y", "x", "y", "")),
        st.sampled_from(("p", "q", "p", "q", "")),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=4,
).map(lambda rows: tuple(build_node(at, *row) for at, row in enumerate(rows)))
keys = st.sampled_from((HOST, ZONE, MACHINE))
terms = st.builds(lambda key, selector: PodTerm(key, selector, ("default",)), keys, selectors)
spreads = st.builds(
    lambda key, skew, selector, least: SpreadConstraint(
        key, skew, True, selector, min_domains=least
    ),
    keys,
    st.integers(1, 2),
    selectors,
    st.integers(1, 3),
)
maybe = st.sampled_from((0, 0, 1))


@st.composite
def specs(draw: st.DrawFn) -> PodSpec:
    return PodSpec(
        labels=(("app", "a"),),
        requests=Requests(cpu=draw(st.sampled_from((0, 400, 600)))),
        anti_affinity=tuple(draw(st.lists(terms, max_size=draw(st.integers(0, 2))))),
        affinity=tuple(draw(st.lists(terms, max_size=draw(maybe)))),
        spread=tuple(draw(st.lists(spreads, max_size=draw(st.integers(0, 2))))),
        host_ports=draw(st.sampled_from(((), (), (HostPort(80),)))),
    )


def list_possible_counts(
    cluster: Cluster, spec: PodSpec, placed: tuple[tuple[PodSpec, str], ...], left: int
) -> set[int]:
    """Return the numbers of placed pods over all possible sequences of choices."""
    seen: dict[tuple[str, ...], set[int]] = {}

    def count_from(names: tuple[str, ...]) -> set[int]:
        if len(names) == left:
            return {left}
        known = seen.get(names)
        if known is None:
            peer = brute_force.Cluster(cluster.nodes, [*placed, *((spec, name) for name in names)])
            feasible = [n.name for n in cluster.nodes if not peer.reasons(spec, n)]
            known = {len(names)} if not feasible else set()
            for name in feasible:
                known |= count_from(tuple(sorted((*names, name))))
            seen[names] = known
        return known

    return count_from(())


@settings(
    max_examples=scale_count(400), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    nodes,
    specs(),
    st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=3),
    st.integers(1, 4),
)
def test_range_covers_every_outcome(
    nodes: tuple[Node, ...], spec: PodSpec, standing: list[tuple[bool, int]], further: int
) -> None:
    other = PodSpec(labels=(("app", "b"),))
    placed = tuple((spec if own else other, nodes[at % len(nodes)].name) for own, at in standing)
    cluster = Cluster("k", nodes)
    pods = [ExistingPod("d/Pod/x", at, name, what) for at, (what, name) in enumerate(placed)]
    reach = pod_outcomes.compute_placeable_range(
        SchedulingSession(cluster, pods).get_scheduler(spec), further
    )
    placed_pods = list_possible_counts(cluster, spec, placed, further)
    assert reach.minimum <= min(placed_pods)
    assert max(placed_pods) <= reach.maximum
    if reach.is_exact:
        assert (reach.minimum, reach.maximum) == (min(placed_pods), max(placed_pods))


def test_range_is_exact_for_one_key_and_a_bound_for_two() -> None:
    nodes = tuple(build_node(at, "xxyy"[at], "pqpq"[at], 9) for at in range(4))
    one = PodSpec(labels=(("app", "a"),), anti_affinity=(PodTerm(ZONE, OWN, ("default",)),))
    both = PodSpec(
        labels=(("app", "a"),),
        anti_affinity=(PodTerm(ZONE, OWN, ("default",)),),
        spread=(SpreadConstraint(MACHINE, 1, True, OWN),),
    )
    cluster = Cluster("k", nodes)
    assert pod_outcomes.compute_placeable_range(
        SchedulingSession(cluster, ()).get_scheduler(one), 9
    ) == pod_outcomes.PlaceablePodRange(2, 2, is_exact=True)
    reach = pod_outcomes.compute_placeable_range(
        SchedulingSession(cluster, ()).get_scheduler(both), 9
    )
    assert not reach.is_exact
    assert reach.maximum == 2


def test_own_affinity_with_rules_over_different_keys_is_bounded_by_each_rule() -> None:
    nodes = tuple(
        Node(
            f"n{at}",
            {HOST: f"n{at}", ZONE: "x", MACHINE: f"m{at // 2}", "half": "lr"[at % 2]},
            cpu=1000,
            memory=1 << 30,
        )
        for at in range(12)
    )
    spec = PodSpec(
        labels=(("app", "a"),),
        affinity=(PodTerm(ZONE, OWN, ("default",)),),
        anti_affinity=(PodTerm(MACHINE, OWN, ("default",)),),
        spread=(SpreadConstraint("half", 1, True, OWN),),
    )
    reach = pod_outcomes.compute_placeable_range(
        SchedulingSession(Cluster("k", nodes), ()).get_scheduler(spec), 9
    )
    assert reach == pod_outcomes.PlaceablePodRange(1, 6, is_exact=False)
