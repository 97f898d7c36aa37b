"""Compare the scheduler with the brute force on thousands of random fleets.

The fleets have random policies and prior bindings.
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    BindingState,
    ClusterSelectorTerm,
    Health,
    Member,
    PlacementType,
    Policy,
    PolicySnapshot,
    PreferredTerm,
    PropertyRequirement,
    PropertySorter,
    ResourceUsage,
    TopologySpreadConstraint,
)
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.domains.fleet.scheduling.scheduling_cycle import CycleResult, run_scheduling_cycles
from nexusform.kubernetes.matching import Requirement, Taint, Toleration, build_label_selector
from nexusform.kubernetes.quantity import parse_quantity
from tests.domains.fleet.scheduling.brute_force import Answer, Model
from tests.kill_points import scale_count

NAMES = ("a", "b", "c", "d", "e", "f", "g")
QUANTITIES = (
    "0",
    "1",
    "0.2",
    "200m",
    "0.1",
    "3",
    "1500m",
    "1.5",
    "1Gi",
    "1024Mi",
    "7",
    "-2",
    "0.3",
    "300m",
)
KEYS = ("region", "day", "env")
COUNT = "kubernetes-fleet.io/node-count"
PROPERTIES = (
    COUNT,
    "kubernetes.azure.com/per-cpu-core-cost",
    "resources.kubernetes-fleet.io/available-cpu",
)

few = st.sampled_from
labels = st.dictionaries(few(KEYS), few(("x", "y", "z")), max_size=3)
taint = st.builds(Taint, few(("t1", "t2")), few(("", "v")))
amount = few(QUANTITIES).map(parse_quantity)
member = st.builds(
    Member,
    name=st.just(""),
    labels=labels,
    taints=st.lists(taint, max_size=2, unique_by=lambda t: t.key).map(tuple),
    properties=st.dictionaries(few(PROPERTIES[:2]), few(QUANTITIES), max_size=2),
    resources=st.builds(ResourceUsage, available=st.dictionaries(st.just("cpu"), amount)),
    health=few([Health.HEALTHY] * 6 + list(Health)),
    namespaces=few((None, None, frozenset(), frozenset({"web"}), frozenset({"other"}))),
)
spoilt = member.map(lambda m: replace(m, properties={**m.properties, COUNT: "five"}))
expression = st.one_of(
    st.builds(
        Requirement,
        few(KEYS),
        few(("In", "NotIn")),
        st.lists(few("xyz"), min_size=1, max_size=2).map(tuple),
    ),
    st.builds(Requirement, few(KEYS), few(("Exists", "DoesNotExist"))),
)
selector = st.none() | st.builds(build_label_selector, labels, st.lists(expression, max_size=1))
requirement = st.builds(
    PropertyRequirement,
    few(PROPERTIES),
    few(("Gt", "Ge", "Lt", "Le", "Eq", "Ne")),
    few(QUANTITIES).map(lambda q: (q,)),
)
required_term = st.builds(
    ClusterSelectorTerm, selector, st.none() | st.lists(requirement, max_size=2).map(tuple)
)
required = st.none() | st.lists(required_term, max_size=2).map(tuple)
sorter = st.builds(PropertySorter, few(PROPERTIES), few(("Ascending", "Descending")))
preferred = st.lists(
    st.builds(
        PreferredTerm,
        few((-100, -7, 0, 1, 20, 33, 100)),
        st.builds(ClusterSelectorTerm, selector, st.none(), st.none() | sorter),
    ),
    max_size=3,
).map(tuple)
spread = st.lists(
    st.builds(
        TopologySpreadConstraint,
        few(KEYS),
        st.integers(1, 2),
        few(("DoNotSchedule", "ScheduleAnyway")),
    ),
    max_size=2,
).map(tuple)
toleration = st.builds(
    Toleration, few(("t1", "t2")), few(("Equal", "Exists")), few(("", "v")), few(("", "NoSchedule"))
)
tolerations = st.lists(toleration, max_size=2).map(tuple)
pick_n = st.builds(
    Policy,
    placement_type=st.just(PlacementType.PICK_N),
    number_of_clusters=st.none() | st.integers(0, 6),
    required_terms=required,
    preferred_terms=preferred,
    spread_constraints=spread,
    tolerations=tolerations,
)
policy = st.one_of(
    pick_n,
    st.builds(
        Policy,
        placement_type=st.just(PlacementType.PICK_ALL),
        required_terms=required,
        tolerations=tolerations,
    ),
    st.builds(
        Policy,
        placement_type=st.just(PlacementType.PICK_FIXED),
        cluster_names=st.lists(few((*NAMES, "nowhere")), unique=True, max_size=4).map(tuple),
    ),
)
state = few((BindingState.SCHEDULED, BindingState.BOUND))
score = st.integers(-1, 1)
binding = st.one_of(
    st.builds(Binding, st.just(""), state, few((0, 1, 1)), score, score),
    st.builds(Binding, st.just(""), state, few((0, 1))),
    st.builds(
        Binding, st.just(""), st.just(BindingState.UNSCHEDULED), few((0, 1)), score, score, state
    ),
    st.builds(
        Binding,
        st.just(""),
        st.just(BindingState.UNSCHEDULED),
        few((0, 1)),
        score,
        score,
        st.none() | state,
    ),
    st.builds(Binding, st.just(""), state, few((0, 1)), score, score, is_deleting=st.just(True)),
)


Situation = tuple[list[Member], Policy, tuple[Binding, ...], str]


@st.composite
def situations(
    draw: st.DrawFn,
    worst: st.SearchStrategy[Member] = member,
    asks: st.SearchStrategy[Policy] = policy,
) -> Situation:
    names = draw(st.lists(few(NAMES), unique=True, max_size=7))
    members = [replace(draw(worst), name=name) for name in names]
    held = draw(st.lists(few((*NAMES, "gone")), unique=True, max_size=6))
    prior = tuple(replace(draw(binding), cluster=name) for name in sorted(held))
    asked = draw(asks)
    if asked.placement_type is PlacementType.PICK_FIXED:
        prior = tuple(replace(b, affinity_score=None, topology_spread_score=None) for b in prior)
    return members, asked, prior, draw(few(("", "", "web")))


def assert_equal(result: CycleResult, answer: Answer) -> None:
    assert result.bindings == tuple(answer.bindings)
    assert (result.abort is not None) == answer.stopped
    assert result.needs_requeue == answer.requeue
    if answer.decisions is None:
        assert result.status is None
        return
    assert result.status is not None
    condition = result.status.condition
    assert (condition.status, condition.message) == answer.condition
    assert [
        (d.cluster, d.is_selected, d.reason) for d in result.status.list_decisions()
    ] == answer.decisions


def compare_schedulers(situation: Situation) -> None:
    members, asked, prior, namespace = situation
    snapshot = PolicySnapshot(1, "", asked.number_of_clusters)
    model = Model(list(members), asked, snapshot, namespace)
    roster = MemberList(members)
    answer = model.cycle(list(prior))
    assert_equal(
        run_scheduling_cycles(prior, roster, asked, snapshot, namespace, is_single=True), answer
    )
    cycles = 1
    while answer.requeue:
        answer = model.cycle(answer.bindings)
        cycles += 1
    settled = run_scheduling_cycles(prior, roster, asked, snapshot, namespace)
    assert settled.cycles == cycles
    assert_equal(settled, answer)


@settings(
    max_examples=scale_count(1500), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(situations())
def test_results_match_brute_force(situation: Situation) -> None:
    compare_schedulers(situation)


@settings(
    max_examples=scale_count(300), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(situations(worst=member | spoilt))
def test_results_match_brute_force_with_unreadable_properties(situation: Situation) -> None:
    compare_schedulers(situation)
