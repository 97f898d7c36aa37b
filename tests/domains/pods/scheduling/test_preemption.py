"""Who is evicted for whom: kube-scheduler's default preemption, by hand and against a brute force."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from msgspec.structs import replace

from nexusform.domains.pods.scheduling.arrival_order import ArrivalOrder
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.scheduling_session import SchedulingSession
from nexusform.domains.pods.scheduling.workloads import (
    Cluster,
    DisruptionBudget,
    ExistingPod,
    HostPort,
    Node,
    PodSpec,
    PodTerm,
    Requests,
    SpreadConstraint,
    Workload,
)
from nexusform.kubernetes.matching import Taint, Toleration, build_label_selector
from tests.domains.pods.scheduling import brute_force

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
CPUS = 4000


def node(name: str, **more: Any) -> Node:
    return Node(name, {HOST: name}, cpu=CPUS, memory=1 << 34, **more)


def spec(app: str, cpu: int, priority: int = 0, **more: Any) -> PodSpec:
    requests = Requests(cpu, 0)
    return PodSpec(
        labels=(("app", app),), requests=requests, scored_requests=requests, priority=priority, template=app, **more
    )


def deployment(pod: PodSpec, replicas: int = 1, kind: str = "Deployment") -> Workload:
    return Workload(kind, "default", dict(pod.labels)["app"], replicas, pod)


def standing(pod: PodSpec, *places: tuple[str, int]) -> list[ExistingPod]:
    key = deployment(pod).key
    return [ExistingPod(key, at, name, pod, age) for at, (name, age) in enumerate(places)]


def decide(cluster: Cluster, pods: list[ExistingPod], *works: Workload, **more: Any) -> dict[str, tuple[str, str]]:
    """Pod -> (node or "", trigger), of all that something happens to."""
    outcomes = predict(cluster, pods, works, **more)
    every = (*outcomes.outcomes, *outcomes.displaced_outcomes)
    return {o.name: (o.node, o.trigger) for o in every if o.action != "keep"}


# --- by hand ------------------------------------------------------------------------------------------


def test_the_node_with_the_least_important_victims_is_taken() -> None:
    cluster = Cluster("k", (node("n0"), node("n1"), node("n2")))
    high, mid, low = spec("high", 4000, 100), spec("mid", 4000, 5), spec("low", 2000, 1)
    pods = [*standing(mid, ("n0", 1), ("n1", 2)), *standing(low, ("n2", 1), ("n2", 2))]
    assert decide(cluster, pods, deployment(high), deployment(mid, 2), deployment(low, 2)) == {
        "high-0": ("n2", "new"),
        "low-0": ("", "preempted"),
        "low-1": ("", "preempted"),
    }


def test_as_many_as_fit_beside_it_are_reprieved_the_most_important_first() -> None:
    cluster = Cluster("k", (node("n0"),))
    old, young, better = spec("old", 1000), spec("young", 1000), spec("better", 1000, 1)
    pods = [*standing(young, ("n0", 9)), *standing(old, ("n0", 1)), *standing(better, ("n0", 9))]
    taker = spec("taker", 2500, 50)
    works = [deployment(each) for each in (taker, old, young, better)]
    # Beside the taker 1500m are left: one pod stays, and that is the one of higher priority.
    assert decide(cluster, pods, *works) == {
        "taker-0": ("n0", "new"),
        "old-0": ("", "preempted"),
        "young-0": ("", "preempted"),
    }
    # With room for two, the one that runs longer stays, too.
    smaller = [deployment(spec("taker", 1500, 50)), *works[1:]]
    assert decide(cluster, pods, *smaller) == {"taker-0": ("n0", "new"), "young-0": ("", "preempted")}


def test_victims_go_where_there_is_room_and_may_evict_in_their_turn() -> None:
    cluster = Cluster("k", (node("n0"), node("n1", taints=(Taint("t", "", "NoSchedule"),))))
    anywhere = (Toleration("t", "Exists"),)
    high = spec("high", 4000, 100)
    mid = spec("mid", 4000, 50, tolerations=anywhere)
    low = spec("low", 4000, 1, tolerations=anywhere)
    pods = [*standing(mid, ("n0", 1)), *standing(low, ("n1", 1))]
    assert decide(cluster, pods, deployment(high), deployment(mid), deployment(low)) == {
        "high-0": ("n0", "new"),
        "mid-0": ("n1", "preempted"),
        "low-0": ("", "preempted"),
    }


def test_who_stays_is_evicted_for_nobody() -> None:
    cluster = Cluster("k", (node("n0"), node("n1")))
    high, low = spec("high", 4000, 100), spec("low", 4000, 1)
    on_n0, on_n1 = standing(low, ("n0", 1), ("n1", 2))
    waits = {"high-0": ("", "new")}
    works = (deployment(high), deployment(low, 2))
    assert decide(cluster, [replace(on_n0, is_protected=True), replace(on_n1, is_protected=True)], *works) == waits
    chosen = decide(cluster, [on_n0, replace(on_n1, is_protected=True)], *works)
    assert chosen == {"high-0": ("n0", "new"), "low-0": ("", "preempted")}


def test_a_budget_turns_the_choice() -> None:
    cheap, dear = spec("cheap", 4000, 1), spec("dear", 4000, 5)
    pods = [*standing(cheap, ("n0", 1)), *standing(dear, ("n1", 1))]
    works = [deployment(spec("high", 4000, 100)), deployment(cheap), deployment(dear)]
    two = (node("n0"), node("n1"))
    assert decide(Cluster("k", two), pods, *works)["high-0"][0] == "n0"
    budget = DisruptionBudget("default", "cheap", build_label_selector({"app": "cheap"}), min_available="1")
    assert decide(Cluster("k", two, budgets=(budget,)), pods, *works)["high-0"][0] == "n1"
    # A budget is no wall: where every candidate breaks one, the rest decides.
    both = (budget, DisruptionBudget("default", "dear", build_label_selector({"app": "dear"}), max_unavailable="0"))
    assert decide(Cluster("k", two, budgets=both), pods, *works)["high-0"][0] == "n0"
    # One that selects everything protects nobody from preemption.
    everybody = DisruptionBudget("default", "all", build_label_selector(), min_available="100%")
    assert decide(Cluster("k", two, budgets=(everybody,)), pods, *works)["high-0"][0] == "n0"


def test_who_never_preempts_waits_and_so_do_equals() -> None:
    cluster = Cluster("k", (node("n0"),))
    low = spec("low", 4000, 5)
    for waiting in (spec("high", 4000, 100, can_preempt=False), spec("high", 4000, 5), spec("high", 4000, 4)):
        outcome = decide(cluster, standing(low, ("n0", 1)), deployment(waiting), deployment(low))
        assert outcome == {"high-0": ("", "new")}


def test_nodes_that_no_leaving_helps_are_not_tried() -> None:
    elsewhere = node("n0", taints=(Taint("t", "", "NoSchedule"),))
    cluster = Cluster("k", (elsewhere, node("n1", unschedulable=True)))
    low = spec("low", 4000)
    pods = standing(low, ("n0", 1), ("n1", 1))
    high = deployment(spec("high", 4000, 100))
    assert decide(cluster, pods, high, deployment(low, 2)) == {"high-0": ("", "new")}


def test_anti_affinity_of_and_towards_victims_is_cured() -> None:
    cluster = Cluster("k", (node("n0"), node("n1")))
    apart = (PodTerm(HOST, build_label_selector({"app": "low"}), ("default",)),)
    away = (PodTerm(HOST, build_label_selector({"app": "high"}), ("default",)),)
    for low, high in (
        (spec("low", 10), spec("high", 10, 9, anti_affinity=apart)),
        (spec("low", 10, anti_affinity=away), spec("high", 10, 9)),
    ):
        outcome = decide(cluster, standing(low, ("n0", 1), ("n1", 2)), deployment(high), deployment(low, 2))
        # The younger one goes, to where the older one is.
        assert outcome == {"high-0": ("n1", "new"), "low-1": ("n0", "preempted")}


def test_a_daemon_takes_its_own_node_and_comes_back_to_it() -> None:
    cluster = Cluster("k", (node("n0"), node("n1")))
    low = spec("low", 4000)
    agent = deployment(spec("agent", 100, 2_000_000_000), kind="DaemonSet")
    outcome = decide(cluster, standing(low, ("n0", 1), ("n1", 1)), agent, deployment(low, 2))
    assert outcome == {
        "agent-0": ("n0", "new"),
        "agent-1": ("n1", "new"),
        "low-0": ("", "preempted"),
        "low-1": ("", "preempted"),
    }
    small = deployment(spec("small", 100), kind="DaemonSet")
    big = deployment(spec("big", 4000, 9))
    daemons = [ExistingPod(small.key, at, name, small.pod) for at, name in enumerate(("n0", "n1"))]
    outcome = decide(cluster, daemons, small, big)
    evicted = [name for name, (_, trigger) in outcome.items() if trigger == "preempted"]
    assert len(evicted) == 1
    assert outcome[evicted[0]] == ("", "preempted")


def test_pods_of_others_are_evicted_and_come_again_but_bare_ones_do_not() -> None:
    cluster = Cluster("k", (node("n0"), node("n1")))
    theirs, bare = spec("theirs", 3000), spec("bare", 3000)
    stands = [*standing(theirs, ("n0", 1)), ExistingPod("default/Pod/bare", 0, "n1", bare, 2)]
    high = deployment(spec("high", 4000, 9), 2)
    prediction = predict(cluster, stands, [high])
    assert {o.name: (o.node, o.action, o.trigger) for o in prediction.displaced_outcomes} == {
        "theirs-0": ("", "move", "preempted"),
        "bare": ("", "remove", "preempted"),
    }
    assert prediction.unmanaged_pods == ()
    assert {pod.name: pod.node for pod in prediction.list_existing_pods()}["theirs-0"] == ""
    assert "bare" not in {pod.name for pod in prediction.list_existing_pods()}


def test_a_second_prediction_changes_nothing_after_evictions() -> None:
    cluster = Cluster("k", (node("n0"), node("n1"), node("n2")))
    low, high = deployment(spec("low", 1500), 6), deployment(spec("high", 2000, 9), 4)
    before = predict(cluster, (), [low]).list_existing_pods()
    first = predict(cluster, before, [low, high])
    assert sum(bool(outcome.victims) for outcome in first.outcomes)
    again = predict(cluster, first.list_existing_pods(), [low, high])
    assert {outcome.action for outcome in again.outcomes} == {"keep"}


def test_only_what_is_drawn_by_lot_is_uncertain() -> None:
    low = spec("low", 4000)
    high = deployment(spec("high", 4000, 9))
    cluster = Cluster("k", (node("n0"), node("n1")))

    def certain(*ages: int) -> bool:
        places = [(f"n{at}", age) for at, age in enumerate(ages)]
        outcomes = predict(cluster, standing(low, *places), [high, deployment(low, len(ages))]).outcomes
        return next(outcome.is_certain for outcome in outcomes if outcome.name == "high-0")

    assert certain(1, 2)
    assert not certain(1, 1)
    # More nodes than kube-scheduler looks at: which of them it sees is a matter of chance.
    many = Cluster("k", tuple(node(f"n{at}") for at in range(120)))
    pods = standing(low, *[(f"n{at}", at) for at in range(120)])
    outcome = predict(many, pods, [high, deployment(low, 120)]).outcomes
    assert not next(each.is_certain for each in outcome if each.name == "high-0")


def test_a_pod_evicted_before_its_workload_is_complete_leaves_its_node() -> None:
    low, high = deployment(spec("low", CPUS), 2), deployment(spec("high", CPUS, 10))
    for sample in range(1, 40):
        arrival = ArrivalOrder(sample, (low.key, high.key))
        outcomes = predict(Cluster("m", (node("n0"),)), [], (low, high), arrival=arrival).outcomes
        assert [outcome.name for outcome in outcomes if outcome.node] == ["high-0"], sample


def test_a_fast_controller_replaces_an_evicted_pod_before_the_next_pod_arrives() -> None:
    cluster = Cluster("m", (node("n0"), replace(node("n1"), cpu=CPUS // 2)))
    first, high, last = (
        deployment(spec("first", CPUS // 2)),
        deployment(spec("high", CPUS, 10)),
        deployment(spec("last", CPUS // 2)),
    )
    works, ranks = (first, high, last), (first.key, high.key, last.key)
    slow = decide(cluster, [], *works, arrival=ArrivalOrder(ranks=ranks))
    assert {name: at for name, (at, _) in slow.items()} == {"first-0": "", "high-0": "n0", "last-0": "n1"}
    fast = decide(cluster, [], *works, arrival=ArrivalOrder(ranks=ranks, has_fast_replacements=True))
    assert {name: at for name, (at, _) in fast.items()} == {"first-0": "n1", "high-0": "n0", "last-0": ""}


def test_a_template_of_higher_priority_replaces_its_own_old_pods() -> None:
    cluster = Cluster("k", (node("n0"),))
    old = spec("web", 2000)
    new = replace(old, priority=9, template="new")
    work = replace(deployment(new, 2), max_surge=1, max_unavailable=0)
    outcomes = predict(cluster, standing(old, ("n0", 1), ("n0", 2)), [work]).outcomes
    assert {(o.name, o.node) for o in outcomes if o.action != "remove"} == {("web-0", "n0"), ("web-1", "n0")}
    assert all(outcome.spec == new for outcome in outcomes if outcome.node)


# --- against a brute force ----------------------------------------------------------------------------


SELECTORS = (
    build_label_selector({"app": "a"}),
    build_label_selector({"app": "b"}),
    build_label_selector({"tier": "db"}),
)
World = tuple[tuple[Node, ...], list[brute_force.Tenant], PodSpec, list[DisruptionBudget]]


def random_world(chance: Random) -> World:
    """A crowded cluster, pods of several priorities on it, budgets, and a pod that wants to get in."""
    made = []
    for at in range(chance.randint(1, 5)):
        labels = {HOST: f"n{at}", ZONE: chance.choice("xy")}
        if not chance.randrange(5):
            del labels[ZONE]
        taints = (Taint("t", "", "NoSchedule"),) if not chance.randrange(6) else ()
        made.append(Node(f"n{at}", labels, taints, cpu=CPUS, memory=1 << 33, pods=chance.choice((4, 9))))
    kinds = [random_spec(chance) for _ in range(3)]
    tenants = []
    for at in range(chance.randint(2, 14)):
        kind = replace(chance.choice(kinds), priority=chance.choice((-5, 0, 0, 1, 3)))
        tenants.append((f"p{at}", kind, chance.choice(made).name, at))
    budgets = [
        DisruptionBudget(
            chance.choice(("one", "two")),
            "b",
            chance.choice((*SELECTORS, build_label_selector())),
            chance.choice(("1", "2", "50%", "100%")),
        )
        for _ in range(chance.randint(0, 2))
    ]
    pod = replace(random_spec(chance), priority=chance.choice((1, 3, 9)), requests=Requests(2500, 1 << 29))
    return tuple(made), tenants, pod, budgets


def random_spec(chance: Random) -> PodSpec:
    labels = {"app": chance.choice("ab")} | ({"tier": "db"} if chance.randrange(2) else {})
    requests = Requests(chance.choice((0, 600, 1300)), chance.choice((0, 1 << 30)))

    def terms() -> tuple[PodTerm, ...]:
        if chance.randrange(4):
            return ()
        return (PodTerm(chance.choice((HOST, ZONE)), chance.choice(SELECTORS), ("one", "two")),)

    spread = SpreadConstraint(chance.choice((HOST, ZONE)), chance.randint(1, 2), True, chance.choice(SELECTORS))
    return PodSpec(
        namespace=chance.choice(("one", "two")),
        labels=tuple(sorted(labels.items())),
        requests=requests,
        scored_requests=requests,
        node_selector=((ZONE, "x"),) if not chance.randrange(8) else (),
        tolerations=(Toleration("t", "Exists"),) if chance.randrange(3) else (),
        affinity=terms() if not chance.randrange(3) else (),
        anti_affinity=terms(),
        spread=(spread,) if not chance.randrange(3) else (),
        host_ports=(HostPort(80),) if not chance.randrange(6) else (),
    )


def test_victims_and_nodes_are_those_of_the_brute_force() -> None:
    chance = Random(13)
    seen = Counter(compare(random_world(chance)) for _ in range(1500))
    assert seen["evicts"] > 300
    assert seen["evicts against a budget"] > 30
    assert seen["nobody helps"] > 100


def compare(world: World) -> str:
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
            if kind.namespace == budget.namespace and brute_force.is_selected(budget.selector, dict(kind.labels))
        ]
        text, total = budget.min_available, len(covered)
        least = -(-total * int(text[:-1]) // 100) if text.endswith("%") else int(text)
        guards.append((budget.namespace, budget.selector, max(0, total - least)))
    best = brute_force.best_evictions(some_nodes, tenants, pod, guards)
    pods = [ExistingPod(f"x/Deployment/{name}", 0, at, kind, age) for name, kind, at, age in tenants]
    expected = [guard_pods(budget, pods) for budget in budgets]
    session = SchedulingSession(cluster, pods, 8, expected_counts=expected)
    verdict = session.place_pod(pod, "x/Deployment/taker", 0)
    if not best:
        assert not verdict.node
        assert not session.evictions
        return "nobody helps"
    assert {each.workload.rsplit("/", 1)[1] for each in verdict.victims} == best[verdict.node]
    assert [each.pod for each in session.evictions] == list(verdict.victims)
    assert verdict.is_certain == (len(best) == 1)
    # The board is what it is without the victims and with the pod.
    here = session.cache.index[verdict.node]
    left = [kind for name, kind, at, _ in tenants if at == verdict.node and name not in best[verdict.node]]
    assert session.cache.usage[here].cpu == sum(kind.requests.cpu for kind in (*left, pod))
    taken = next(each for each in some_nodes if each.name == verdict.node)
    _, violations = brute_force.victims_on(some_nodes, tenants, pod, taken, guards) or ([], 0)
    return "evicts against a budget" if violations else "evicts"


def guard_pods(budget: DisruptionBudget, pods: list[ExistingPod]) -> int:
    return sum(
        pod.spec.namespace == budget.namespace and brute_force.is_selected(budget.selector, dict(pod.spec.labels))
        for pod in pods
    )
