"""Tests of kube-scheduler's default preemption.

There are manual cases, and a comparison with a brute-force scheduler.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.cluster_records import (
    Cluster,
    ExistingPod,
    HostPort,
    Node,
    PodDisruptionBudget,
    PodSpec,
    PodTerm,
    Requests,
    SpreadConstraint,
    Workload,
)
from nexusform.domains.pods.scheduling.pod_orders import ArrivalOrder
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.preemption import (
    compute_eviction_limits,
    find_drain_obstacles,
)
from nexusform.domains.pods.scheduling.random_choices import RandomChoices, RandomFacts
from nexusform.domains.pods.scheduling.scheduling_session import SchedulingSession
from nexusform.kubernetes.matching import Taint, Toleration, build_label_selector
from tests.domains.pods.scheduling import brute_force

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
CPUS = 4000


def build_node(name: str, **more: Any) -> Node:
    return Node(name, {HOST: name}, cpu=CPUS, memory=1 << 34, **more)


def build_spec(app: str, cpu: int, priority: int = 0, **more: Any) -> PodSpec:
    requests = Requests(cpu, 0)
    return PodSpec(
        labels=(("app", app),),
        requests=requests,
        scored_requests=requests,
        priority=priority,
        template=app,
        **more,
    )


def build_deployment(pod: PodSpec, replicas: int = 1, kind: str = "Deployment") -> Workload:
    return Workload(kind, "default", dict(pod.labels)["app"], replicas, pod)


def build_existing_pods(pod: PodSpec, *places: tuple[str, int]) -> list[ExistingPod]:
    key = build_deployment(pod).key
    return [ExistingPod(key, at, name, pod, age) for at, (name, age) in enumerate(places)]


def predict_changes(
    cluster: Cluster, pods: list[ExistingPod], *works: Workload, **more: Any
) -> dict[str, tuple[str, str]]:
    """Return pod -> (node or "", trigger), of all changed pods."""
    outcomes = predict(cluster, pods, works, **more)
    every = (*outcomes.outcomes, *outcomes.displaced_outcomes)
    return {o.name: (o.node, o.trigger) for o in every if o.action != "keep"}


# --- manual cases ---------------------------------------------------------------------------------


def test_node_with_least_important_victims_is_chosen() -> None:
    cluster = Cluster("k", (build_node("n0"), build_node("n1"), build_node("n2")))
    high = build_spec("high", 4000, 100)
    mid = build_spec("mid", 4000, 5)
    low = build_spec("low", 2000, 1)
    pods = [
        *build_existing_pods(mid, ("n0", 1), ("n1", 2)),
        *build_existing_pods(low, ("n2", 1), ("n2", 2)),
    ]
    assert predict_changes(
        cluster, pods, build_deployment(high), build_deployment(mid, 2), build_deployment(low, 2)
    ) == {"high-0": ("n2", "new"), "low-0": ("", "preempted"), "low-1": ("", "preempted")}


def test_most_important_victims_are_reprieved_first() -> None:
    cluster = Cluster("k", (build_node("n0"),))
    old = build_spec("old", 1000)
    young = build_spec("young", 1000)
    better = build_spec("better", 1000, 1)
    pods = [
        *build_existing_pods(young, ("n0", 9)),
        *build_existing_pods(old, ("n0", 1)),
        *build_existing_pods(better, ("n0", 9)),
    ]
    taker = build_spec("taker", 2500, 50)
    works = [build_deployment(each) for each in (taker, old, young, better)]
    # 1500m remain next to the new pod: only the pod of higher priority stays.
    assert predict_changes(cluster, pods, *works) == {
        "taker-0": ("n0", "new"),
        "old-0": ("", "preempted"),
        "young-0": ("", "preempted"),
    }
    # With capacity for two, the longer-running pod stays as well.
    smaller = [build_deployment(build_spec("taker", 1500, 50)), *works[1:]]
    assert predict_changes(cluster, pods, *smaller) == {
        "taker-0": ("n0", "new"),
        "young-0": ("", "preempted"),
    }


def test_victims_move_to_free_capacity_and_may_preempt_in_turn() -> None:
    cluster = Cluster(
        "k", (build_node("n0"), build_node("n1", taints=(Taint("t", "", "NoSchedule"),)))
    )
    anywhere = (Toleration("t", "Exists"),)
    high = build_spec("high", 4000, 100)
    mid = build_spec("mid", 4000, 50, tolerations=anywhere)
    low = build_spec("low", 4000, 1, tolerations=anywhere)
    pods = [*build_existing_pods(mid, ("n0", 1)), *build_existing_pods(low, ("n1", 1))]
    assert predict_changes(
        cluster, pods, build_deployment(high), build_deployment(mid), build_deployment(low)
    ) == {"high-0": ("n0", "new"), "mid-0": ("n1", "preempted"), "low-0": ("", "preempted")}


def test_protected_pods_are_not_evicted() -> None:
    cluster = Cluster("k", (build_node("n0"), build_node("n1")))
    high = build_spec("high", 4000, 100)
    low = build_spec("low", 4000, 1)
    on_n0, on_n1 = build_existing_pods(low, ("n0", 1), ("n1", 2))
    waits = {"high-0": ("", "new")}
    works = (build_deployment(high), build_deployment(low, 2))
    assert (
        predict_changes(
            cluster, [replace(on_n0, is_protected=True), replace(on_n1, is_protected=True)], *works
        )
        == waits
    )
    chosen = predict_changes(cluster, [on_n0, replace(on_n1, is_protected=True)], *works)
    assert chosen == {"high-0": ("n0", "new"), "low-0": ("", "preempted")}


def test_budget_changes_the_choice() -> None:
    cheap = build_spec("cheap", 4000, 1)
    dear = build_spec("dear", 4000, 5)
    pods = [*build_existing_pods(cheap, ("n0", 1)), *build_existing_pods(dear, ("n1", 1))]
    works = [
        build_deployment(build_spec("high", 4000, 100)),
        build_deployment(cheap),
        build_deployment(dear),
    ]
    two = (build_node("n0"), build_node("n1"))
    assert predict_changes(Cluster("k", two), pods, *works)["high-0"][0] == "n0"
    budget = PodDisruptionBudget(
        "default", "cheap", build_label_selector({"app": "cheap"}), min_available="1"
    )
    assert predict_changes(Cluster("k", two, budgets=(budget,)), pods, *works)["high-0"][0] == "n1"
    # A budget does not prevent preemption: if every candidate violates one, the
    # other criteria decide.
    both = (
        budget,
        PodDisruptionBudget(
            "default", "dear", build_label_selector({"app": "dear"}), max_unavailable="0"
        ),
    )
    assert predict_changes(Cluster("k", two, budgets=both), pods, *works)["high-0"][0] == "n0"
    # A budget with an empty selector protects no pod from preemption.
    everybody = PodDisruptionBudget("default", "all", build_label_selector(), min_available="100%")
    assert (
        predict_changes(Cluster("k", two, budgets=(everybody,)), pods, *works)["high-0"][0] == "n0"
    )


@pytest.mark.parametrize(("minimum", "is_protected"), [("0", False), ("1", True), ("2", True)])
def test_workload_is_protected_unless_its_budget_allows_to_evict_all_pods(
    minimum: str, *, is_protected: bool
) -> None:
    pods = build_existing_pods(build_spec("web", 1000, 1), ("n0", 1), ("n1", 2))
    budget = PodDisruptionBudget(
        "default", "web", build_label_selector({"app": "web"}), min_available=minimum
    )
    obstacles = find_drain_obstacles([budget], pods, {"n0"})
    assert obstacles.protected_workloads == ((pods[0].workload,) if is_protected else ())
    assert obstacles.budgets == (("default/web",) if minimum == "2" else ())


def test_drain_evicts_no_pods_of_a_daemon_set() -> None:
    """A budget that covers only such pods blocks no drain, in plans as in simulations."""
    pods = [
        replace(pod, workload="default/DaemonSet/web")
        for pod in build_existing_pods(build_spec("web", 1000, 1), ("n0", 1), ("n1", 1))
    ]
    budget = PodDisruptionBudget(
        "default", "web", build_label_selector({"app": "web"}), max_unavailable="0"
    )
    assert find_drain_obstacles([budget], pods, {"n0"}).budgets == ()
    assert compute_eviction_limits([budget], pods, pods).violations == {}


def test_non_preempting_and_equal_priority_pods_wait() -> None:
    cluster = Cluster("k", (build_node("n0"),))
    low = build_spec("low", 4000, 5)
    for waiting in (
        build_spec("high", 4000, 100, can_preempt=False),
        build_spec("high", 4000, 5),
        build_spec("high", 4000, 4),
    ):
        outcome = predict_changes(
            cluster,
            build_existing_pods(low, ("n0", 1)),
            build_deployment(waiting),
            build_deployment(low),
        )
        assert outcome == {"high-0": ("", "new")}


def test_nodes_without_benefit_from_eviction_are_not_tried() -> None:
    elsewhere = build_node("n0", taints=(Taint("t", "", "NoSchedule"),))
    cluster = Cluster("k", (elsewhere, build_node("n1", unschedulable=True)))
    low = build_spec("low", 4000)
    pods = build_existing_pods(low, ("n0", 1), ("n1", 1))
    high = build_deployment(build_spec("high", 4000, 100))
    assert predict_changes(cluster, pods, high, build_deployment(low, 2)) == {"high-0": ("", "new")}


def test_preemption_resolves_anti_affinity_in_both_directions() -> None:
    cluster = Cluster("k", (build_node("n0"), build_node("n1")))
    apart = (PodTerm(HOST, build_label_selector({"app": "low"}), ("default",)),)
    away = (PodTerm(HOST, build_label_selector({"app": "high"}), ("default",)),)
    for low, high in (
        (build_spec("low", 10), build_spec("high", 10, 9, anti_affinity=apart)),
        (build_spec("low", 10, anti_affinity=away), build_spec("high", 10, 9)),
    ):
        outcome = predict_changes(
            cluster,
            build_existing_pods(low, ("n0", 1), ("n1", 2)),
            build_deployment(high),
            build_deployment(low, 2),
        )
        # The younger pod moves to the node of the older one.
        assert outcome == {"high-0": ("n1", "new"), "low-1": ("n0", "preempted")}


def test_daemon_pod_preempts_on_its_own_node_and_returns_to_it() -> None:
    cluster = Cluster("k", (build_node("n0"), build_node("n1")))
    low = build_spec("low", 4000)
    agent = build_deployment(build_spec("agent", 100, 2_000_000_000), kind="DaemonSet")
    outcome = predict_changes(
        cluster, build_existing_pods(low, ("n0", 1), ("n1", 1)), agent, build_deployment(low, 2)
    )
    assert outcome == {
        "agent-0": ("n0", "new"),
        "agent-1": ("n1", "new"),
        "low-0": ("", "preempted"),
        "low-1": ("", "preempted"),
    }
    small = build_deployment(build_spec("small", 100), kind="DaemonSet")
    big = build_deployment(build_spec("big", 4000, 9))
    daemons = [ExistingPod(small.key, at, name, small.pod) for at, name in enumerate(("n0", "n1"))]
    outcome = predict_changes(cluster, daemons, small, big)
    evicted = [name for name, (_, trigger) in outcome.items() if trigger == "preempted"]
    assert len(evicted) == 1
    assert outcome[evicted[0]] == ("", "preempted")


def test_evicted_unmanaged_pods_are_re_created_except_bare_pods() -> None:
    cluster = Cluster("k", (build_node("n0"), build_node("n1")))
    theirs = build_spec("theirs", 3000)
    bare = build_spec("bare", 3000)
    stands = [
        *build_existing_pods(theirs, ("n0", 1)),
        ExistingPod("default/Pod/bare", 0, "n1", bare, 2),
    ]
    high = build_deployment(build_spec("high", 4000, 9), 2)
    prediction = predict(cluster, stands, [high])
    assert {o.name: (o.node, o.action, o.trigger) for o in prediction.displaced_outcomes} == {
        "theirs-0": ("", "move", "preempted"),
        "bare": ("", "remove", "preempted"),
    }
    assert prediction.unmanaged_pods == ()
    assert {pod.name: pod.node for pod in prediction.list_existing_pods()}["theirs-0"] == ""
    assert "bare" not in {pod.name for pod in prediction.list_existing_pods()}


def test_a_second_prediction_changes_nothing_after_evictions() -> None:
    cluster = Cluster("k", (build_node("n0"), build_node("n1"), build_node("n2")))
    low = build_deployment(build_spec("low", 1500), 6)
    high = build_deployment(build_spec("high", 2000, 9), 4)
    before = predict(cluster, (), [low]).list_existing_pods()
    first = predict(cluster, before, [low, high])
    assert sum(bool(outcome.victims) for outcome in first.outcomes)
    again = predict(cluster, first.list_existing_pods(), [low, high])
    assert {outcome.action for outcome in again.outcomes} == {"keep"}


def test_only_sampled_choices_are_uncertain() -> None:
    low = build_spec("low", 4000)
    high = build_deployment(build_spec("high", 4000, 9))
    cluster = Cluster("k", (build_node("n0"), build_node("n1")))

    def is_certain_choice(*ages: int) -> bool:
        places = [(f"n{at}", age) for at, age in enumerate(ages)]
        outcomes = predict(
            cluster, build_existing_pods(low, *places), [high, build_deployment(low, len(ages))]
        ).outcomes
        return next(outcome.is_certain for outcome in outcomes if outcome.name == "high-0")

    assert is_certain_choice(1, 2)
    assert not is_certain_choice(1, 1)
    # There are more nodes than kube-scheduler examines, so the examined subset is random.
    many = Cluster("k", tuple(build_node(f"n{at}") for at in range(120)))
    pods = build_existing_pods(low, *[(f"n{at}", at) for at in range(120)])
    outcome = predict(many, pods, [high, build_deployment(low, 120)]).outcomes
    assert not next(each.is_certain for each in outcome if each.name == "high-0")


def test_pod_evicted_before_its_workload_is_complete_leaves_its_node() -> None:
    low = build_deployment(build_spec("low", CPUS), 2)
    high = build_deployment(build_spec("high", CPUS, 10))
    for sample in range(1, 40):
        arrival = ArrivalOrder(sample, (low.key, high.key))
        outcomes = predict(
            Cluster("m", (build_node("n0"),)), [], (low, high), arrival=arrival
        ).outcomes
        assert [outcome.name for outcome in outcomes if outcome.node] == ["high-0"], sample


def test_fast_controller_replaces_evicted_pod_before_next_pod_arrives() -> None:
    cluster = Cluster("m", (build_node("n0"), replace(build_node("n1"), cpu=CPUS // 2)))
    first = build_deployment(build_spec("first", CPUS // 2))
    high = build_deployment(build_spec("high", CPUS, 10))
    last = build_deployment(build_spec("last", CPUS // 2))
    works = (first, high, last)
    ranks = (first.key, high.key, last.key)
    slow = predict_changes(cluster, [], *works, arrival=ArrivalOrder(ranks=ranks))
    assert {name: at for name, (at, _) in slow.items()} == {
        "first-0": "",
        "high-0": "n0",
        "last-0": "n1",
    }
    fast = predict_changes(
        cluster, [], *works, arrival=ArrivalOrder(ranks=ranks, has_fast_replacements=True)
    )
    assert {name: at for name, (at, _) in fast.items()} == {
        "first-0": "n1",
        "high-0": "n0",
        "last-0": "",
    }


def test_template_of_higher_priority_preempts_its_own_old_pods() -> None:
    cluster = Cluster("k", (build_node("n0"),))
    old = build_spec("web", 2000)
    new = replace(old, priority=9, template="new")
    work = replace(build_deployment(new, 2), max_surge=1, max_unavailable=0)
    outcomes = predict(cluster, build_existing_pods(old, ("n0", 1), ("n0", 2)), [work]).outcomes
    assert {(o.name, o.node) for o in outcomes if o.action != "remove"} == {
        ("web-0", "n0"),
        ("web-1", "n0"),
    }
    assert all(outcome.spec == new for outcome in outcomes if outcome.node)


# --- comparison with brute force ------------------------------------------------------------------


SELECTORS = (
    build_label_selector({"app": "a"}),
    build_label_selector({"app": "b"}),
    build_label_selector({"tier": "db"}),
)
World = tuple[tuple[Node, ...], list[brute_force.Tenant], PodSpec, list[PodDisruptionBudget]]


def build_random_world(chance: Random) -> World:
    """Return a crowded cluster with pods of several priorities, budgets, and a new pod."""
    made = []
    for at in range(chance.randint(1, 5)):
        labels = {HOST: f"n{at}", ZONE: chance.choice("xy")}
        if not chance.randrange(5):
            del labels[ZONE]
        taints = (Taint("t", "", "NoSchedule"),) if not chance.randrange(6) else ()
        made.append(
            Node(f"n{at}", labels, taints, cpu=CPUS, memory=1 << 33, pods=chance.choice((4, 9)))
        )
    kinds = [build_random_spec(chance) for _ in range(3)]
    tenants = []
    for at in range(chance.randint(2, 14)):
        kind = replace(chance.choice(kinds), priority=chance.choice((-5, 0, 0, 1, 3)))
        tenants.append((f"p{at}", kind, chance.choice(made).name, at))
    budgets = [
        PodDisruptionBudget(
            chance.choice(("one", "two")),
            "b",
            chance.choice((*SELECTORS, build_label_selector())),
            chance.choice(("1", "2", "50%", "100%")),
        )
        for _ in range(chance.randint(0, 2))
    ]
    pod = replace(
        build_random_spec(chance),
        priority=chance.choice((1, 3, 9)),
        requests=Requests(2500, 1 << 29),
    )
    return tuple(made), tenants, pod, budgets


def build_random_spec(chance: Random) -> PodSpec:
    labels = {"app": chance.choice("ab")} | ({"tier": "db"} if chance.randrange(2) else {})
    requests = Requests(chance.choice((0, 600, 1300)), chance.choice((0, 1 << 30)))

    def build_terms() -> tuple[PodTerm, ...]:
        if chance.randrange(4):
            return ()
        return (PodTerm(chance.choice((HOST, ZONE)), chance.choice(SELECTORS), ("one", "two")),)

    spread = SpreadConstraint(
        chance.choice((HOST, ZONE)), chance.randint(1, 2), True, chance.choice(SELECTORS)
    )
    return PodSpec(
        namespace=chance.choice(("one", "two")),
        labels=tuple(sorted(labels.items())),
        requests=requests,
        scored_requests=requests,
        node_selector=((ZONE, "x"),) if not chance.randrange(8) else (),
        tolerations=(Toleration("t", "Exists"),) if chance.randrange(3) else (),
        affinity=build_terms() if not chance.randrange(3) else (),
        anti_affinity=build_terms(),
        spread=(spread,) if not chance.randrange(3) else (),
        host_ports=(HostPort(80),) if not chance.randrange(6) else (),
    )


def test_victims_and_nodes_match_brute_force() -> None:
    chance = Random(13)
    seen = Counter(compare_with_brute_force(build_random_world(chance)) for _ in range(1500))
    assert seen["evicts"] > 300
    assert seen["evicts against a budget"] > 30
    assert seen["nobody helps"] > 100


def compare_with_brute_force(world: World) -> str:
    some_nodes, tenants, pod, budgets = world
    cluster = Cluster("k", some_nodes, budgets=tuple(budgets))
    peer = brute_force.Cluster(some_nodes, [(kind, name) for _, kind, name, _ in tenants])
    if any(not peer.reasons(pod, each) for each in some_nodes):
        return "fits"
    guards = []
    for budget in budgets:
        covered = [
            kind
            for _, kind, _, _ in tenants
            if kind.namespace == budget.namespace
            and brute_force.is_selected(budget.selector, dict(kind.labels))
        ]
        text = budget.min_available
        total = len(covered)
        least = -(-total * int(text[:-1]) // 100) if text.endswith("%") else int(text)
        guards.append((budget.namespace, budget.selector, max(0, total - least)))
    best = brute_force.find_best_evictions(some_nodes, tenants, pod, guards)
    pods = [
        ExistingPod(f"x/Deployment/{name}", 0, at, kind, age) for name, kind, at, age in tenants
    ]
    expected = [count_guarded_pods(budget, pods) for budget in budgets]
    session = SchedulingSession(cluster, pods, expected_counts=expected)
    verdict = session.place_pod(pod, "x/Deployment/taker", 0)
    if not best:
        assert not verdict.node
        assert not session.evictions
        return "nobody helps"
    assert {each.workload.rsplit("/", 1)[1] for each in verdict.victims} == best[verdict.node]
    assert [each.pod for each in session.evictions] == list(verdict.victims)
    assert verdict.is_certain == (len(best) == 1)
    # The cluster snapshot excludes the victims and includes the new pod.
    here = session.cache.index[verdict.node]
    left = [
        kind
        for name, kind, at, _ in tenants
        if at == verdict.node and name not in best[verdict.node]
    ]
    assert session.cache.usage[here].cpu == sum(kind.requests.cpu for kind in (*left, pod))
    taken = next(each for each in some_nodes if each.name == verdict.node)
    _, violations = brute_force.find_victims(some_nodes, tenants, pod, taken, guards) or ([], 0)
    return "evicts against a budget" if violations else "evicts"


def count_guarded_pods(budget: PodDisruptionBudget, pods: list[ExistingPod]) -> int:
    return sum(
        pod.spec.namespace == budget.namespace
        and brute_force.is_selected(budget.selector, dict(pod.spec.labels))
        for pod in pods
    )


@pytest.mark.parametrize(
    ("timing", "lingering"), [(0, {0}), (1, {40}), (2, range(10, 31)), (3, {0})]
)
def test_removed_pods_linger_by_timing(timing: int, lingering: Any) -> None:
    """None linger, all do, or about half of them, until capacity is needed."""
    one = build_spec("a", 100)
    pods = build_existing_pods(one, *[("n0", number) for number in range(40)])
    choices = RandomChoices(RandomFacts(timing=timing))
    session = SchedulingSession(Cluster("k", (build_node("n0"),)), pods, choices)
    for pod in pods:
        session.remove_pod(pod, may_linger=True)
    used_cpu = session.cache.usage[0].cpu
    assert used_cpu // 100 in lingering
    assert session.remove_lingering_pods() is (used_cpu > 0)
    assert session.cache.usage[0].cpu == 0
