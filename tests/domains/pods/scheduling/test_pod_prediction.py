"""What becomes of pods over time: who is tried first, who stays, who goes, who is placed anew."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.pod_explanation import evaluate_nodes, explain
from nexusform.domains.pods.scheduling.pod_outcomes import Prediction
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.workloads import (
    Cluster,
    ExistingPod,
    Node,
    PodSpec,
    PodTerm,
    Requests,
    Strategy,
    Workload,
)
from nexusform.kubernetes.matching import NodeSelectorTerm, Requirement, Taint, Toleration, build_label_selector
from tests.domains.pods.scheduling.outcomes import pending, running

HOST = "kubernetes.io/hostname"


def cluster(count: int, **more: object) -> Cluster:
    nodes = [
        Node(f"n{at}", {HOST: f"n{at}"}, cpu=1000, memory=4 << 30, machine=f"m{at}", **more)  # type: ignore[arg-type]
        for at in range(1, count + 1)
    ]
    return Cluster("k", tuple(nodes))


def workload(
    name: str = "web", replicas: int = 1, *, kind: str = "Deployment", cpu: int = 0, **more: object
) -> Workload:
    pod = PodSpec(
        labels=(("app", name),),
        requests=Requests(cpu),
        scored_requests=Requests(cpu or 100, 200 << 20),
        template=str(more.pop("template", "1")),
        priority=int(str(more.pop("priority", 0))),
        anti_affinity=(PodTerm(HOST, build_label_selector({"app": name}), ("default",)),)
        if more.pop("apart", False)
        else (),
    )
    return Workload(kind, "default", name, replicas, replace(pod, **more.pop("pod", {})), **more)  # type: ignore[arg-type]


def standing(work: Workload, *nodes: str) -> tuple[ExistingPod, ...]:
    return tuple(ExistingPod(work.key, at, node, work.pod) for at, node in enumerate(nodes))


def moves(prediction: Prediction) -> list[tuple[str, str, str]]:
    return [(o.name, o.action, o.node or o.previous) for o in prediction.outcomes]


# --- the queue ----------------------------------------------------------------------------------------


def test_daemons_come_first_then_priority_then_the_given_order() -> None:
    workloads = [
        workload("low", cpu=600),
        workload("high", cpu=600, priority=10),
        workload("also", cpu=600, priority=10),
        workload("agent", kind="DaemonSet", cpu=300),
    ]
    prediction = predict(cluster(1), (), workloads)
    assert [(o.name, o.node) for o in prediction.outcomes] == [
        ("agent-0", "n1"),
        ("high-0", "n1"),
        ("also-0", ""),
        ("low-0", ""),
    ]


def test_a_pod_that_waits_for_company_is_tried_again() -> None:
    company = (PodTerm(HOST, build_label_selector({"app": "late"}), ("default",)),)
    workloads = [workload("early", pod={"affinity": company}), workload("late")]
    prediction = predict(cluster(3), (), workloads)
    early, late = prediction.outcomes
    assert early.node == late.node != ""


# --- stability ------------------------------------------------------------------------------------------


def test_pods_that_stand_stay_even_where_rules_would_refuse_them_now() -> None:
    work = workload(replicas=2, apart=True)
    tainted = cluster(3, taints=(Taint("k"),))
    prediction = predict(tainted, standing(work, "n1", "n1"), [work])
    assert moves(prediction) == [("web-0", "keep", "n1"), ("web-1", "keep", "n1")]


def test_a_second_prediction_changes_nothing() -> None:
    workloads = [workload("web", 5, cpu=300), workload("db", 4, apart=True), workload("agent", kind="DaemonSet")]
    first = predict(cluster(3), (), workloads)
    again = predict(cluster(3), first.list_existing_pods(), workloads)
    assert {o.action for o in again.outcomes} == {"keep"}
    assert again.list_existing_pods() == first.list_existing_pods()


def test_the_same_seed_gives_the_same_nodes_and_another_one_others() -> None:
    workloads = [workload("web", 8)]
    nodes = [tuple(o.node for o in predict(cluster(9), (), workloads, seed=seed).outcomes) for seed in (1, 1, 2, 3)]
    assert nodes[0] == nodes[1]
    assert len(set(nodes)) > 1


def test_scaling_out_moves_nobody_and_takes_the_lowest_free_numbers() -> None:
    work = workload(replicas=4)
    pods = (ExistingPod(work.key, 0, "n1", work.pod), ExistingPod(work.key, 2, "n2", work.pod))
    prediction = predict(cluster(3), pods, [work])
    assert [(o.name, o.trigger) for o in prediction.outcomes if o.action == "place"] == [
        ("web-1", "scale_out"),
        ("web-3", "scale_out"),
    ]
    assert moves(prediction)[0] == ("web-0", "keep", "n1")


def test_pods_of_lost_or_recreated_nodes_are_placed_anew() -> None:
    work = workload(replicas=3)
    pods = standing(work, "n1", "n2", "gone")
    prediction = predict(
        cluster(3), pods, [work], lost_pods={(pod.workload, pod.number) for pod in pods if pod.node == "n2"}
    )
    assert [(o.action, o.previous, o.trigger) for o in prediction.outcomes] == [
        ("keep", "n1", ""),
        ("move", "n2", "node_removed"),
        ("move", "gone", "node_removed"),
    ]
    assert all(o.node for o in prediction.outcomes)


def test_other_workloads_stay_unless_they_are_removed() -> None:
    big, small = workload("big", cpu=800), workload("small", cpu=800)
    there = standing(big, "n1")
    assert pending(predict(cluster(1), there, [small]))[0].name == "small-0"
    freed = predict(cluster(1), there, [small], removed_workloads={big.key})
    assert moves(freed) == [("small-0", "place", "n1"), ("big-0", "remove", "n1")]
    assert freed.outcomes[1].trigger == "workload_removed"
    assert [pod.workload for pod in freed.list_existing_pods()] == [small.key]


# --- scaling in -----------------------------------------------------------------------------------------


def removed(prediction: Prediction) -> list[str]:
    return sorted(o.name for o in prediction.outcomes if o.action == "remove")


@pytest.mark.parametrize(
    ("nodes", "left", "gone"),
    [
        (("n1", "n2", ""), 2, ["web-2"]),
        (("", "n1", "n1"), 2, ["web-0"]),
        (("n1", "n2", "n2", "n3"), 3, ["web-2"]),
        (("n1", "n1", "n1", "n2"), 2, ["web-1", "web-2"]),
        (("n1", "n1", "n1", "n2", "n2"), 2, ["web-0", "web-1", "web-2"]),
        (("n1", "n2", "n3"), 1, ["web-1", "web-2"]),
    ],
)
def test_a_set_loses_pending_pods_then_crowded_nodes_then_the_newest(
    nodes: tuple[str, ...], left: int, gone: list[str]
) -> None:
    work = workload(replicas=left)
    prediction = predict(cluster(3), standing(work, *nodes), [work])
    assert removed(prediction) == gone
    assert all(o.trigger == "scale_in" for o in prediction.outcomes if o.action == "remove")


def test_age_counts_before_number() -> None:
    work = workload(replicas=1)
    pods = (ExistingPod(work.key, 0, "n1", work.pod, age=9), ExistingPod(work.key, 1, "n2", work.pod, age=1))
    assert removed(predict(cluster(3), pods, [work])) == ["web-0"]


def test_a_statefulset_loses_its_highest_ordinals() -> None:
    work = workload("db", 1, kind="StatefulSet")
    assert removed(predict(cluster(3), standing(work, "n1", "n2", "n2"), [work])) == ["db-1", "db-2"]


def test_room_that_is_freed_is_used_at_once() -> None:
    shrinks, grows = workload("a", 0, cpu=900), workload("b", 1, cpu=900)
    prediction = predict(cluster(1), standing(shrinks, "n1"), [grows, shrinks])
    assert ("b-0", "place", "n1") in moves(prediction)


# --- kinds ----------------------------------------------------------------------------------------------


def test_a_daemonset_runs_on_every_node_that_permits_it() -> None:
    nodes = (*cluster(2).nodes, Node("n3", {HOST: "n3"}, (Taint("k"),), 1000, 4 << 30))
    here = Cluster("k", nodes)
    agent = workload("agent", kind="DaemonSet", cpu=400)
    prediction = predict(here, (), [agent])
    assert [(o.name, o.node, o.is_certain) for o in prediction.outcomes] == [
        ("agent-0", "n1", True),
        ("agent-1", "n2", True),
    ]
    everywhere = replace(agent, pod=replace(agent.pod, tolerations=(Toleration("", "Exists"),)))
    assert len(predict(here, (), [everywhere]).outcomes) == 3
    fewer = predict(Cluster("k", nodes[:1]), prediction.list_existing_pods(), [agent])
    assert moves(fewer) == [("agent-0", "keep", "n1"), ("agent-1", "remove", "n2")]


def test_a_full_node_leaves_its_daemon_pending_there() -> None:
    agent = workload("agent", kind="DaemonSet", cpu=400)
    full = workload("full", cpu=800)
    prediction = predict(cluster(2), standing(full, "n1"), [agent])
    waiting = pending(prediction)
    assert [(o.rejections[0].candidate, o.rejections[0].reason) for o in waiting] == [("n1", "Insufficient cpu")]


@pytest.mark.parametrize(("effect", "action"), [("NoSchedule", "keep"), ("NoExecute", "remove")])
def test_a_daemon_stays_under_a_taint_that_evicts_nobody_until_its_template_changes(effect: str, action: str) -> None:
    agent = workload("agent", kind="DaemonSet", cpu=400, template="1")
    n1, n2 = cluster(2).nodes
    here = Cluster("k", (replace(n1, taints=(Taint("k", "", effect),)), n2))
    stands = standing(agent, "n1", "n2")
    assert set(moves(predict(here, stands, [agent]))) == {("agent-0", action, "n1"), ("agent-1", "keep", "n2")}
    changed = replace(agent, pod=replace(agent.pod, template="2"))
    assert set(moves(predict(here, stands, [changed]))) == {("agent-0", "remove", "n1"), ("agent-1", "move", "n2")}


@pytest.mark.parametrize(("written", "replaced"), [("1", 1), ("2", 2), ("25%", 1), ("50%", 2)])
def test_an_update_of_daemons_stops_where_successors_hang(written: str, replaced: int) -> None:
    old = workload("agent", kind="DaemonSet", cpu=400, template="1")
    new = replace(workload("agent", kind="DaemonSet", cpu=4000, template="2"), max_unavailable_text=written)
    here = cluster(4)
    prediction = predict(here, standing(old, "n1", "n2", "n3", "n4"), [new])
    assert len(pending(prediction)) == replaced
    assert sum(pod.spec.template == "1" and bool(pod.node) for pod in prediction.list_existing_pods()) == 4 - replaced
    assert prediction.forecasts[new.key].is_blocked
    again = predict(here, prediction.list_existing_pods(), [new])
    assert {outcome.action for outcome in again.outcomes} == {"keep"}


def test_with_max_surge_an_old_daemon_stays_until_its_successor_runs() -> None:
    old = workload("agent", kind="DaemonSet", cpu=600, template="1")
    new = replace(workload("agent", kind="DaemonSet", cpu=600, template="2"), max_surge_text="1")
    here, stands = cluster(2), standing(old, "n1", "n2")
    prediction = predict(here, stands, [new])
    assert moves(prediction) == [("agent-0", "keep", "n1"), ("agent-1", "keep", "n2"), ("agent-2", "place", "")]
    again = predict(here, prediction.list_existing_pods(), [new])
    assert {outcome.action for outcome in again.outcomes} == {"keep"}
    smaller = replace(new, pod=replace(new.pod, requests=Requests(100, 1)))
    assert moves(predict(here, stands, [smaller])) == [("agent-0", "move", "n1"), ("agent-1", "move", "n2")]


# --- changed templates ----------------------------------------------------------------------------------


def test_a_rolling_update_keeps_within_surge_and_numbers() -> None:
    old = workload(replicas=3, cpu=300, template="1")
    new = workload(replicas=3, cpu=300, template="2", max_surge=1)
    prediction = predict(cluster(2), standing(old, "n1", "n1", "n2"), [new])
    assert [(o.name, o.action, o.trigger) for o in prediction.outcomes] == [
        ("web-0", "move", "template_changed"),
        ("web-1", "move", "template_changed"),
        ("web-2", "move", "template_changed"),
    ]
    assert {pod.spec.template for pod in prediction.list_existing_pods()} == {"2"}


def test_the_old_set_is_scaled_out_first_where_template_and_replicas_change_at_once() -> None:
    old = workload(replicas=4, cpu=100, template="1")
    new = workload(replicas=8, cpu=9000, template="2", max_surge=2, max_unavailable=2)
    prediction = predict(cluster(2), standing(old, "n1", "n1", "n2", "n2"), [new])
    ran = [outcome for outcome in prediction.outcomes if outcome.node]
    assert [outcome.spec.template for outcome in ran if outcome.spec] == ["1"] * 6
    assert len(pending(prediction)) == 4
    assert sorted(o.trigger for o in ran if o.action == "place") == ["scale_out"] * 2
    again = predict(cluster(2), prediction.list_existing_pods(), [new])
    assert {outcome.action for outcome in again.outcomes} == {"keep"}
    # Where the new ones fit, nobody hears of those that came between.
    fits = workload(replicas=8, cpu=50, template="2", max_surge=2, max_unavailable=2)
    done = predict(cluster(2), standing(old, "n1", "n1", "n2", "n2"), [fits])
    assert sorted((o.action, o.trigger) for o in done.outcomes) == [
        *[("move", "template_changed")] * 4,
        *[("place", "scale_out")] * 4,
    ]
    assert {pod.spec.template for pod in done.list_existing_pods()} == {"2"}


def test_a_paused_deployment_makes_and_replaces_nothing_and_is_scaled() -> None:
    old = workload(replicas=2, cpu=100, template="1")
    paused = replace(workload(replicas=3, cpu=100, template="2"), is_paused=True)
    here = cluster(2)
    assert predict(here, (), [paused]).outcomes == ()
    prediction = predict(here, standing(old, "n1", "n2"), [paused])
    assert [(o.action, o.trigger) for o in prediction.outcomes] == [("keep", ""), ("keep", ""), ("place", "scale_out")]
    assert {pod.spec.template for pod in prediction.list_existing_pods()} == {"1"}
    fewer = replace(paused, replicas=1)
    assert sorted(o.action for o in predict(here, standing(old, "n1", "n2"), [fewer]).outcomes) == ["keep", "remove"]


def test_a_rolling_update_without_room_for_one_more_hangs() -> None:
    old = workload(replicas=1, cpu=800, template="1")
    new = workload(replicas=1, cpu=800, template="2")
    here = cluster(1)
    prediction = predict(here, standing(old, "n1"), [new])
    assert moves(prediction) == [("web-0", "keep", "n1"), ("web-1", "place", "")]
    assert prediction.forecasts[new.key].is_blocked
    assert running(prediction, new.key) == 1
    recreate = replace(new, strategy=Strategy.RECREATE)
    assert moves(predict(here, standing(old, "n1"), [recreate])) == [("web-0", "move", "n1")]


def test_a_template_that_comes_back_leaves_no_pod_too_many() -> None:
    """A rollout hung, and its template is what it was: one pod beyond the replicas was there for its sake."""
    old = workload(replicas=1, template="1", max_surge=1)
    new = replace(old, pod=replace(old.pod, template="2"))
    pods = (*standing(old, "n1", "n1"), ExistingPod(old.key, 2, "n1", new.pod))
    prediction = predict(cluster(2), pods, [old])
    assert len(prediction.list_existing_pods()) == 1
    assert {o.action for o in predict(cluster(2), prediction.list_existing_pods(), [old]).outcomes} == {"keep"}


def test_replica_sets_and_on_delete_keep_their_old_pods() -> None:
    for kind, strategy in (("ReplicaSet", Strategy.ROLLING), ("StatefulSet", Strategy.ON_DELETE)):
        old = workload(replicas=2, kind=kind, template="1", strategy=strategy)
        new = replace(old, pod=replace(old.pod, template="2"))
        assert {o.action for o in predict(cluster(2), standing(old, "n1", "n2"), [new]).outcomes} == {"keep"}


def test_a_statefulset_rolls_from_the_top_down_to_its_partition() -> None:
    old = workload("db", 3, kind="StatefulSet", template="1", partition=1)
    new = replace(old, pod=replace(old.pod, template="2"))
    prediction = predict(cluster(3), standing(old, "n1", "n2", "n3"), [new])
    assert [o.action for o in prediction.outcomes] == ["keep", "move", "move"]


def test_a_statefulset_that_hangs_keeps_the_rest_and_stays_so() -> None:
    old = workload("db", 3, kind="StatefulSet", cpu=800, template="1", is_ordered=True)
    new = replace(old, pod=replace(old.pod, template="2", node_selector=(("disk", "ssd"),)))
    first = predict(cluster(3), standing(old, "n1", "n2", "n3"), [new])
    assert [(o.action, bool(o.node)) for o in first.outcomes] == [("keep", True), ("keep", True), ("move", False)]
    assert first.forecasts[new.key].is_blocked
    again = predict(cluster(3), first.list_existing_pods(), [new])
    assert [(o.action, bool(o.node)) for o in again.outcomes] == [("keep", True), ("keep", True), ("keep", False)]
    assert again.forecasts[new.key].is_blocked


# --- certainty ------------------------------------------------------------------------------------------


def test_a_single_candidate_and_a_strict_winner_are_certain() -> None:
    assert predict(cluster(1), (), [workload()]).outcomes[0].is_certain
    big = Node("big", {HOST: "big"}, cpu=64_000, memory=256 << 30)
    uneven = Cluster("k", (*cluster(2).nodes, big))
    outcome = predict(uneven, (), [workload(cpu=500)]).outcomes[0]
    assert (outcome.node, outcome.is_certain) == ("big", True)


def test_a_lot_is_not_certain_and_neither_is_what_depends_on_it() -> None:
    first, second = predict(cluster(2), (), [workload(replicas=2, apart=True)]).outcomes
    assert (first.feasible_nodes, first.is_certain) == (2, False)
    assert (second.feasible_nodes, second.is_certain) == (1, False)


def test_what_a_lot_cannot_touch_stays_certain() -> None:
    nodes = (*cluster(2).nodes, Node("n9", {HOST: "n9", "pool": "own"}, cpu=1000, memory=4 << 30))
    others = (NodeSelectorTerm((Requirement("pool", "DoesNotExist"),)),)
    lot = workload("lot", pod={"node_terms": others})
    away = workload("away", pod={"node_selector": (("pool", "own"),)})
    beside = workload("beside", pod={"node_selector": ((HOST, "n1"),)})
    prediction = predict(Cluster("k", nodes), (), [lot, away, beside])
    assert {o.name: o.is_certain for o in prediction.outcomes} == {
        "lot-0": False,
        "away-0": True,
        "beside-0": False,  # only n1 can take it, if the lot leaves room there
    }


@pytest.mark.parametrize("seed", range(6))
def test_what_a_lot_might_push_aside_is_not_certain(seed: int) -> None:
    """The lot falls on n1 or n2; "next" goes to n1 if that is free and else to n3, which "last" wants too."""
    n1, n2 = cluster(2).nodes
    here = Cluster("k", (n1, n2, Node("n3", {HOST: "n3"}, cpu=700, memory=4 << 30)))

    def among(name: str, cpu: int, *nodes: str) -> Workload:
        return workload(name, cpu=cpu, pod={"node_terms": (NodeSelectorTerm((Requirement(HOST, "In", nodes),)),)})

    workloads = [among("lot", 600, "n1", "n2"), among("next", 500, "n1", "n3"), among("last", 100, "n3")]
    assert [o.is_certain for o in predict(here, (), workloads, seed=seed).outcomes] == [False, False, False]


def test_large_clusters_sample_their_nodes_so_a_winner_is_not_certain() -> None:
    big = Node("big", {HOST: "big"}, cpu=64_000, memory=256 << 30)
    outcome = predict(Cluster("k", (*cluster(400).nodes, big)), (), [workload(cpu=500)]).outcomes[0]
    assert (outcome.node, outcome.is_certain) == ("big", False)


# --- telling --------------------------------------------------------------------------------------------


def test_pending_says_how_many_nodes_for_which_reason() -> None:
    nodes = (*cluster(2).nodes, Node("n3", {}, (Taint("gpu", "yes"),), 9000, 4 << 30))
    (outcome,) = predict(Cluster("k", nodes), (), [workload(cpu=2000)]).outcomes
    assert outcome.reason == (
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "
        "Not tolerated: gpu=yes:NoSchedule (1 node)."
    )
    assert [(r.candidate, r.rule) for r in outcome.rejections] == [
        ("n1", "resources"),
        ("n2", "resources"),
        ("n3", "taints"),
    ]
    assert outcome.is_certain


def test_no_nodes_at_all() -> None:
    (outcome,) = predict(Cluster("k", ()), (), [workload()]).outcomes
    assert outcome.reason == "no nodes available to schedule pods"


def test_explaining_replays_the_choice() -> None:
    work = workload(replicas=2, apart=True)
    prediction = predict(cluster(2), (), [work])
    verdicts = explain(cluster(2), (), [work], (work.key, 1))
    assert verdicts[0].node == prediction.outcomes[1].node
    assert verdicts[0].total == sum(verdicts[0].points.values())
    assert [r.rule for r in verdicts[1].rejections] == ["inter_pod_affinity"]
    assert explain(cluster(2), prediction.list_existing_pods(), [work], (work.key, 1)) == ()
    others = [pod for pod in prediction.list_existing_pods() if pod.number != 1]
    assert evaluate_nodes(cluster(2), others, work.pod) == verdicts


def test_names_and_numbers() -> None:
    assert workload("web").format_pod_name(3) == "web-3"
    assert workload("one", kind="Pod").format_pod_name(0) == "one"
