"""Tests of pods over time: scheduling order, kept pods, removed pods and moved pods."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.cluster_records import (
    Cluster,
    ExistingPod,
    Node,
    PodSpec,
    PodTerm,
    Requests,
    SpreadConstraint,
    Strategy,
    Workload,
)
from nexusform.domains.pods.scheduling.pod_explanation import evaluate_nodes, explain
from nexusform.domains.pods.scheduling.pod_outcomes import PodsPrediction
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.kubernetes.matching import (
    NodeSelectorTerm,
    Requirement,
    Taint,
    Toleration,
    build_label_selector,
)
from tests.domains.pods.scheduling.outcomes import count_running_pods, list_pending_pods

HOST = "kubernetes.io/hostname"


def build_cluster(count: int, **more: object) -> Cluster:
    nodes = [
        Node(f"n{at}", {HOST: f"n{at}"}, cpu=1000, memory=4 << 30, machine=f"m{at}", **more)  # type: ignore[arg-type]
        for at in range(1, count + 1)
    ]
    return Cluster("k", tuple(nodes))


def build_workload(
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


def build_existing_pods(work: Workload, *nodes: str) -> tuple[ExistingPod, ...]:
    return tuple(ExistingPod(work.key, at, node, work.pod) for at, node in enumerate(nodes))


def list_moves(prediction: PodsPrediction) -> list[tuple[str, str, str]]:
    return [(o.name, o.action, o.node or o.previous) for o in prediction.outcomes]


# --- the queue ------------------------------------------------------------------------------------


def test_order_is_daemons_then_priority_then_input_order() -> None:
    workloads = [
        build_workload("low", cpu=600),
        build_workload("high", cpu=600, priority=10),
        build_workload("also", cpu=600, priority=10),
        build_workload("agent", kind="DaemonSet", cpu=300),
    ]
    prediction = predict(build_cluster(1), (), workloads)
    assert [(o.name, o.node) for o in prediction.outcomes] == [
        ("agent-0", "n1"),
        ("high-0", "n1"),
        ("also-0", ""),
        ("low-0", ""),
    ]


def test_pod_waiting_for_affinity_is_tried_again() -> None:
    company = (PodTerm(HOST, build_label_selector({"app": "late"}), ("default",)),)
    workloads = [build_workload("early", pod={"affinity": company}), build_workload("late")]
    prediction = predict(build_cluster(3), (), workloads)
    early, late = prediction.outcomes
    assert early.node == late.node != ""


# --- stability ------------------------------------------------------------------------------------


def test_existing_pods_stay_despite_violated_rules() -> None:
    work = build_workload(replicas=2, apart=True)
    tainted = build_cluster(3, taints=(Taint("k"),))
    prediction = predict(tainted, build_existing_pods(work, "n1", "n1"), [work])
    assert list_moves(prediction) == [("web-0", "keep", "n1"), ("web-1", "keep", "n1")]


def test_second_prediction_changes_nothing() -> None:
    workloads = [
        build_workload("web", 5, cpu=300),
        build_workload("db", 4, apart=True),
        build_workload("agent", kind="DaemonSet"),
    ]
    first = predict(build_cluster(3), (), workloads)
    again = predict(build_cluster(3), first.list_existing_pods(), workloads)
    assert {o.action for o in again.outcomes} == {"keep"}
    assert again.list_existing_pods() == first.list_existing_pods()


def test_nodes_depend_only_on_seed() -> None:
    workloads = [build_workload("web", 8)]
    nodes = [
        tuple(o.node for o in predict(build_cluster(9), (), workloads, seed=seed).outcomes)
        for seed in (1, 1, 2, 3)
    ]
    assert nodes[0] == nodes[1]
    assert len(set(nodes)) > 1


def test_scale_out_moves_no_pod_and_uses_lowest_free_numbers() -> None:
    work = build_workload(replicas=4)
    pods = (ExistingPod(work.key, 0, "n1", work.pod), ExistingPod(work.key, 2, "n2", work.pod))
    prediction = predict(build_cluster(3), pods, [work])
    assert [(o.name, o.trigger) for o in prediction.outcomes if o.action == "place"] == [
        ("web-1", "scale_out"),
        ("web-3", "scale_out"),
    ]
    assert list_moves(prediction)[0] == ("web-0", "keep", "n1")


def test_pods_of_lost_or_re_created_nodes_are_placed_again() -> None:
    work = build_workload(replicas=3)
    pods = build_existing_pods(work, "n1", "n2", "gone")
    prediction = predict(
        build_cluster(3),
        pods,
        [work],
        lost_pods={(pod.workload, pod.number) for pod in pods if pod.node == "n2"},
    )
    assert [(o.action, o.previous, o.trigger) for o in prediction.outcomes] == [
        ("keep", "n1", ""),
        ("move", "n2", "node_removed"),
        ("move", "gone", "node_removed"),
    ]
    assert all(o.node for o in prediction.outcomes)


def test_other_workloads_stay_unless_removed() -> None:
    big = build_workload("big", cpu=800)
    small = build_workload("small", cpu=800)
    there = build_existing_pods(big, "n1")
    assert list_pending_pods(predict(build_cluster(1), there, [small]))[0].name == "small-0"
    freed = predict(build_cluster(1), there, [small], removed_workloads={big.key})
    assert list_moves(freed) == [("small-0", "place", "n1"), ("big-0", "remove", "n1")]
    assert freed.outcomes[1].trigger == "workload_removed"
    assert [pod.workload for pod in freed.list_existing_pods()] == [small.key]


# --- scaling in -----------------------------------------------------------------------------------


def list_removed_pods(prediction: PodsPrediction) -> list[str]:
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
def test_scale_in_order_is_pending_then_crowded_nodes_then_newest(
    nodes: tuple[str, ...], left: int, gone: list[str]
) -> None:
    work = build_workload(replicas=left)
    prediction = predict(build_cluster(3), build_existing_pods(work, *nodes), [work])
    assert list_removed_pods(prediction) == gone
    assert all(o.trigger == "scale_in" for o in prediction.outcomes if o.action == "remove")


def test_scale_in_prefers_age_over_number() -> None:
    work = build_workload(replicas=1)
    pods = (
        ExistingPod(work.key, 0, "n1", work.pod, age=9),
        ExistingPod(work.key, 1, "n2", work.pod, age=1),
    )
    assert list_removed_pods(predict(build_cluster(3), pods, [work])) == ["web-0"]


def test_stateful_set_loses_highest_ordinals() -> None:
    work = build_workload("db", 1, kind="StatefulSet")
    assert list_removed_pods(
        predict(build_cluster(3), build_existing_pods(work, "n1", "n2", "n2"), [work])
    ) == ["db-1", "db-2"]


def test_freed_capacity_is_used_at_once() -> None:
    shrinks = build_workload("a", 0, cpu=900)
    grows = build_workload("b", 1, cpu=900)
    prediction = predict(build_cluster(1), build_existing_pods(shrinks, "n1"), [grows, shrinks])
    assert ("b-0", "place", "n1") in list_moves(prediction)


# --- kinds ----------------------------------------------------------------------------------------


def test_daemon_set_runs_on_every_eligible_node() -> None:
    nodes = (*build_cluster(2).nodes, Node("n3", {HOST: "n3"}, (Taint("k"),), 1000, 4 << 30))
    here = Cluster("k", nodes)
    agent = build_workload("agent", kind="DaemonSet", cpu=400)
    prediction = predict(here, (), [agent])
    assert [(o.name, o.node, o.is_certain) for o in prediction.outcomes] == [
        ("agent-0", "n1", True),
        ("agent-1", "n2", True),
    ]
    everywhere = replace(agent, pod=replace(agent.pod, tolerations=(Toleration("", "Exists"),)))
    assert len(predict(here, (), [everywhere]).outcomes) == 3
    fewer = predict(Cluster("k", nodes[:1]), prediction.list_existing_pods(), [agent])
    assert list_moves(fewer) == [("agent-0", "keep", "n1"), ("agent-1", "remove", "n2")]


def test_daemon_pod_is_pending_on_full_node() -> None:
    agent = build_workload("agent", kind="DaemonSet", cpu=400)
    full = build_workload("full", cpu=800)
    prediction = predict(build_cluster(2), build_existing_pods(full, "n1"), [agent])
    waiting = list_pending_pods(prediction)
    assert [(o.rejections[0].candidate, o.rejections[0].reason) for o in waiting] == [
        ("n1", "Insufficient cpu")
    ]


@pytest.mark.parametrize(("effect", "action"), [("NoSchedule", "keep"), ("NoExecute", "remove")])
def test_tainted_daemon_pod_without_eviction_stays_until_template_change(
    effect: str, action: str
) -> None:
    agent = build_workload("agent", kind="DaemonSet", cpu=400, template="1")
    n1, n2 = build_cluster(2).nodes
    here = Cluster("k", (replace(n1, taints=(Taint("k", "", effect),)), n2))
    stands = build_existing_pods(agent, "n1", "n2")
    assert set(list_moves(predict(here, stands, [agent]))) == {
        ("agent-0", action, "n1"),
        ("agent-1", "keep", "n2"),
    }
    changed = replace(agent, pod=replace(agent.pod, template="2"))
    assert set(list_moves(predict(here, stands, [changed]))) == {
        ("agent-0", "remove", "n1"),
        ("agent-1", "move", "n2"),
    }


@pytest.mark.parametrize(("written", "replaced"), [("1", 1), ("2", 2), ("25%", 1), ("50%", 2)])
def test_daemon_set_update_stops_at_unschedulable_successors(written: str, replaced: int) -> None:
    old = build_workload("agent", kind="DaemonSet", cpu=400, template="1")
    new = replace(
        build_workload("agent", kind="DaemonSet", cpu=4000, template="2"),
        max_unavailable_text=written,
    )
    here = build_cluster(4)
    prediction = predict(here, build_existing_pods(old, "n1", "n2", "n3", "n4"), [new])
    assert len(list_pending_pods(prediction)) == replaced
    assert (
        sum(pod.spec.template == "1" and bool(pod.node) for pod in prediction.list_existing_pods())
        == 4 - replaced
    )
    assert prediction.forecasts[new.key].is_blocked
    again = predict(here, prediction.list_existing_pods(), [new])
    assert {outcome.action for outcome in again.outcomes} == {"keep"}


def test_max_surge_keeps_old_daemon_pod_until_successor_runs() -> None:
    old = build_workload("agent", kind="DaemonSet", cpu=600, template="1")
    new = replace(
        build_workload("agent", kind="DaemonSet", cpu=600, template="2"), max_surge_text="1"
    )
    here = build_cluster(2)
    stands = build_existing_pods(old, "n1", "n2")
    prediction = predict(here, stands, [new])
    assert list_moves(prediction) == [
        ("agent-0", "keep", "n1"),
        ("agent-1", "keep", "n2"),
        ("agent-2", "place", ""),
    ]
    again = predict(here, prediction.list_existing_pods(), [new])
    assert {outcome.action for outcome in again.outcomes} == {"keep"}
    smaller = replace(new, pod=replace(new.pod, requests=Requests(100, 1)))
    assert list_moves(predict(here, stands, [smaller])) == [
        ("agent-0", "move", "n1"),
        ("agent-1", "move", "n2"),
    ]


# --- changed templates ----------------------------------------------------------------------------


def test_rolling_update_respects_surge_and_replicas() -> None:
    old = build_workload(replicas=3, cpu=300, template="1")
    new = build_workload(replicas=3, cpu=300, template="2", max_surge=1)
    prediction = predict(build_cluster(2), build_existing_pods(old, "n1", "n1", "n2"), [new])
    assert [(o.name, o.action, o.trigger) for o in prediction.outcomes] == [
        ("web-0", "move", "template_changed"),
        ("web-1", "move", "template_changed"),
        ("web-2", "move", "template_changed"),
    ]
    assert {pod.spec.template for pod in prediction.list_existing_pods()} == {"2"}


def test_old_set_is_scaled_out_first_if_template_and_replicas_change() -> None:
    old = build_workload(replicas=4, cpu=100, template="1")
    new = build_workload(replicas=8, cpu=9000, template="2", max_surge=2, max_unavailable=2)
    prediction = predict(build_cluster(2), build_existing_pods(old, "n1", "n1", "n2", "n2"), [new])
    ran = [outcome for outcome in prediction.outcomes if outcome.node]
    assert [outcome.spec.template for outcome in ran if outcome.spec] == ["1"] * 6
    assert len(list_pending_pods(prediction)) == 4
    assert sorted(o.trigger for o in ran if o.action == "place") == ["scale_out"] * 2
    again = predict(build_cluster(2), prediction.list_existing_pods(), [new])
    assert {outcome.action for outcome in again.outcomes} == {"keep"}
    # If the new pods fit, the intermediate pods are not reported.
    fits = build_workload(replicas=8, cpu=50, template="2", max_surge=2, max_unavailable=2)
    done = predict(build_cluster(2), build_existing_pods(old, "n1", "n1", "n2", "n2"), [fits])
    assert sorted((o.action, o.trigger) for o in done.outcomes) == [
        *[("move", "template_changed")] * 4,
        *[("place", "scale_out")] * 4,
    ]
    assert {pod.spec.template for pod in done.list_existing_pods()} == {"2"}


def test_paused_deployment_is_scaled_but_not_updated() -> None:
    old = build_workload(replicas=2, cpu=100, template="1")
    paused = replace(build_workload(replicas=3, cpu=100, template="2"), is_paused=True)
    here = build_cluster(2)
    assert predict(here, (), [paused]).outcomes == ()
    prediction = predict(here, build_existing_pods(old, "n1", "n2"), [paused])
    assert [(o.action, o.trigger) for o in prediction.outcomes] == [
        ("keep", ""),
        ("keep", ""),
        ("place", "scale_out"),
    ]
    assert {pod.spec.template for pod in prediction.list_existing_pods()} == {"1"}
    fewer = replace(paused, replicas=1)
    assert sorted(
        o.action for o in predict(here, build_existing_pods(old, "n1", "n2"), [fewer]).outcomes
    ) == ["keep", "remove"]


def test_rolling_update_without_surge_capacity_is_blocked() -> None:
    old = build_workload(replicas=1, cpu=800, template="1")
    new = build_workload(replicas=1, cpu=800, template="2")
    here = build_cluster(1)
    prediction = predict(here, build_existing_pods(old, "n1"), [new])
    assert list_moves(prediction) == [("web-0", "keep", "n1"), ("web-1", "place", "")]
    assert prediction.forecasts[new.key].is_blocked
    assert count_running_pods(prediction, new.key) == 1
    recreate = replace(new, strategy=Strategy.RECREATE)
    assert list_moves(predict(here, build_existing_pods(old, "n1"), [recreate])) == [
        ("web-0", "move", "n1")
    ]


def test_restored_template_leaves_no_surplus_pod() -> None:
    """A blocked rollout is reverted.

    One pod beyond the replicas existed because of the rollout.
    """
    old = build_workload(replicas=1, template="1", max_surge=1)
    new = replace(old, pod=replace(old.pod, template="2"))
    pods = (*build_existing_pods(old, "n1", "n1"), ExistingPod(old.key, 2, "n1", new.pod))
    prediction = predict(build_cluster(2), pods, [old])
    assert len(prediction.list_existing_pods()) == 1
    assert {
        o.action for o in predict(build_cluster(2), prediction.list_existing_pods(), [old]).outcomes
    } == {"keep"}


def test_replica_sets_and_on_delete_keep_their_old_pods() -> None:
    for kind, strategy in (("ReplicaSet", Strategy.ROLLING), ("StatefulSet", Strategy.ON_DELETE)):
        old = build_workload(replicas=2, kind=kind, template="1", strategy=strategy)
        new = replace(old, pod=replace(old.pod, template="2"))
        assert {
            o.action
            for o in predict(build_cluster(2), build_existing_pods(old, "n1", "n2"), [new]).outcomes
        } == {"keep"}


def test_stateful_set_rolls_from_highest_ordinal_to_its_partition() -> None:
    old = build_workload("db", 3, kind="StatefulSet", template="1", partition=1)
    new = replace(old, pod=replace(old.pod, template="2"))
    prediction = predict(build_cluster(3), build_existing_pods(old, "n1", "n2", "n3"), [new])
    assert [o.action for o in prediction.outcomes] == ["keep", "move", "move"]


def test_blocked_stateful_set_keeps_other_pods_and_stays_blocked() -> None:
    old = build_workload("db", 3, kind="StatefulSet", cpu=800, template="1", is_ordered=True)
    new = replace(old, pod=replace(old.pod, template="2", node_selector=(("disk", "ssd"),)))
    first = predict(build_cluster(3), build_existing_pods(old, "n1", "n2", "n3"), [new])
    assert [(o.action, bool(o.node)) for o in first.outcomes] == [
        ("keep", True),
        ("keep", True),
        ("move", False),
    ]
    assert first.forecasts[new.key].is_blocked
    again = predict(build_cluster(3), first.list_existing_pods(), [new])
    assert [(o.action, bool(o.node)) for o in again.outcomes] == [
        ("keep", True),
        ("keep", True),
        ("keep", False),
    ]
    assert again.forecasts[new.key].is_blocked


# --- certainty ------------------------------------------------------------------------------------


def test_single_candidate_and_strict_winner_are_certain() -> None:
    assert predict(build_cluster(1), (), [build_workload()]).outcomes[0].is_certain
    big = Node("big", {HOST: "big"}, cpu=64_000, memory=256 << 30)
    uneven = Cluster("k", (*build_cluster(2).nodes, big))
    outcome = predict(uneven, (), [build_workload(cpu=500)]).outcomes[0]
    assert (outcome.node, outcome.is_certain) == ("big", True)


def test_sampled_pod_and_its_dependents_are_not_certain() -> None:
    first, second = predict(build_cluster(2), (), [build_workload(replicas=2, apart=True)]).outcomes
    assert (first.feasible_nodes, first.is_certain) == (2, False)
    assert (second.feasible_nodes, second.is_certain) == (1, False)


def test_pod_independent_of_sample_stays_certain() -> None:
    nodes = (
        *build_cluster(2).nodes,
        Node("n9", {HOST: "n9", "pool": "own"}, cpu=1000, memory=4 << 30),
    )
    others = (NodeSelectorTerm((Requirement("pool", "DoesNotExist"),)),)
    lot = build_workload("lot", pod={"node_terms": others})
    away = build_workload("away", pod={"node_selector": (("pool", "own"),)})
    beside = build_workload("beside", pod={"node_selector": ((HOST, "n1"),)})
    prediction = predict(Cluster("k", nodes), (), [lot, away, beside])
    assert {o.name: o.is_certain for o in prediction.outcomes} == {
        "lot-0": False,
        "away-0": True,
        # Only n1 can take it, if the sample leaves capacity there.
        "beside-0": False,
    }


@pytest.mark.parametrize("seed", range(6))
def test_pod_displaced_by_sample_is_not_certain(seed: int) -> None:
    """The sample is n1 or n2.

    "next" goes to n1 if it is free, otherwise to n3, the target of "last" too.
    """
    n1, n2 = build_cluster(2).nodes
    here = Cluster("k", (n1, n2, Node("n3", {HOST: "n3"}, cpu=700, memory=4 << 30)))

    def build_restricted_workload(name: str, cpu: int, *nodes: str) -> Workload:
        return build_workload(
            name,
            cpu=cpu,
            pod={"node_terms": (NodeSelectorTerm((Requirement(HOST, "In", nodes),)),)},
        )

    workloads = [
        build_restricted_workload("lot", 600, "n1", "n2"),
        build_restricted_workload("next", 500, "n1", "n3"),
        build_restricted_workload("last", 100, "n3"),
    ]
    assert [o.is_certain for o in predict(here, (), workloads, seed=seed).outcomes] == [
        False,
        False,
        False,
    ]


def test_soft_spread_from_the_zone_of_a_sampled_pod_is_not_certain() -> None:
    """The first pod runs in zone a or b, on a node closed to the second.

    The second prefers the other zone.
    """
    nodes = tuple(
        Node(
            name,
            {HOST: name, "zone": name[0]},
            (Taint("closed", "yes"),) * name.endswith("1"),
            1000,
            4 << 30,
        )
        for name in ("a1", "a2", "b1", "b2")
    )
    selector = build_label_selector({"app": "first"})
    first_pod = {
        "tolerations": (Toleration("closed", operator="Exists"),),
        "node_terms": (NodeSelectorTerm((Requirement(HOST, "In", ("a1", "b1")),)),),
    }
    second_pod = {"spread": (SpreadConstraint("zone", 1, is_hard=False, selector=selector),)}
    workloads = [build_workload("first", pod=first_pod), build_workload("second", pod=second_pod)]
    first, second = predict(Cluster("k", nodes), (), workloads).outcomes
    assert first.node[0] != second.node[0]
    assert not second.is_certain


def test_default_spread_stays_certain_if_no_counted_pod_is_sampled() -> None:
    """The first pod ties; the second counts only pods of its own."""
    nodes = tuple(
        Node(name, {HOST: name, "pool": name[0]}, cpu=1000, memory=4 << 30)
        for name in ("x1", "x2", "y1")
    )
    pools = [{"node_selector": (("pool", name),)} for name in ("x", "y")]
    own = {"default_spread": build_label_selector({"app": "own"})}
    workloads = [
        build_workload("tie", pod=pools[0]),
        build_workload("own", pod={**pools[1], **own}),
        build_workload(
            "large",
            cpu=9000,
            pod={**pools[1], "default_spread": build_label_selector({"app": "tie"})},
        ),
    ]
    assert [o.is_certain for o in predict(Cluster("k", nodes), (), workloads).outcomes] == [
        False,
        True,
        True,
    ]


def test_winner_on_large_cluster_is_not_certain_due_to_node_sampling() -> None:
    big = Node("big", {HOST: "big"}, cpu=64_000, memory=256 << 30)
    outcome = predict(
        Cluster("k", (*build_cluster(400).nodes, big)), (), [build_workload(cpu=500)]
    ).outcomes[0]
    assert (outcome.node, outcome.is_certain) == ("big", False)


# --- messages -------------------------------------------------------------------------------------


def test_pending_reason_counts_nodes() -> None:
    nodes = (*build_cluster(2).nodes, Node("n3", {}, (Taint("gpu", "yes"),), 9000, 4 << 30))
    (outcome,) = predict(Cluster("k", nodes), (), [build_workload(cpu=2000)]).outcomes
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


def test_cluster_without_nodes() -> None:
    (outcome,) = predict(Cluster("k", ()), (), [build_workload()]).outcomes
    assert outcome.reason == "no nodes available to schedule pods"


def test_explanation_replays_the_choice() -> None:
    work = build_workload(replicas=2, apart=True)
    prediction = predict(build_cluster(2), (), [work])
    verdicts = explain(build_cluster(2), (), [work], (work.key, 1))
    assert verdicts[0].node == prediction.outcomes[1].node
    assert verdicts[0].total == sum(verdicts[0].points.values())
    assert [r.rule for r in verdicts[1].rejections] == ["inter_pod_affinity"]
    assert explain(build_cluster(2), prediction.list_existing_pods(), [work], (work.key, 1)) == ()
    others = [pod for pod in prediction.list_existing_pods() if pod.number != 1]
    assert evaluate_nodes(build_cluster(2), others, work.pod) == verdicts


def test_pod_names_have_numbers() -> None:
    assert build_workload("web").format_pod_name(3) == "web-3"
    assert build_workload("one", kind="Pod").format_pod_name(0) == "one"


def test_paused_deployment_with_more_pods_than_its_share_is_predicted() -> None:
    """The old limit of nine pods leaves the current template one pod, but two are waiting."""
    spec = PodSpec(requests=Requests(cpu=100), template="c")
    paused = Workload(
        "Deployment", "default", "w", 1, spec, max_surge=3, is_paused=True, previous_max_pods=9
    )
    pods = [
        ExistingPod(paused.key, number, node, replace(spec, template=template), age)
        for number, (node, template, age) in enumerate(
            [("", "c", -2), ("", "c", -1), ("", "g", -1), ("n", "g", 0)]
        )
    ]
    prediction = predict(Cluster("c", (Node("n", cpu=4000, memory=1 << 30),)), pods, [paused])
    assert {outcome.node for outcome in prediction.outcomes if not outcome.is_removed} == {"n"}


@pytest.mark.parametrize(("replicas", "templates"), [(6, "aabbbc"), (4, "abbc")])
def test_scaled_paused_deployment_favors_the_newer_of_equal_templates(
    replicas: int, templates: str
) -> None:
    """Source: ReplicaSetsBySizeNewer and ReplicaSetsBySizeOlder of kube-controller-manager."""
    spec = PodSpec(requests=Requests(cpu=100), template="c")
    paused = Workload(
        "Deployment",
        "default",
        "w",
        replicas,
        spec,
        max_surge=0,
        is_paused=True,
        previous_max_pods=5,
    )
    pods = [
        ExistingPod(paused.key, number, "n", replace(spec, template=template), age)
        for number, (template, age) in enumerate([("a", 0), ("a", 0), ("b", 1), ("b", 1), ("c", 2)])
    ]
    prediction = predict(Cluster("c", (Node("n", cpu=4000, memory=1 << 30),)), pods, [paused])
    remaining = [outcome.spec for outcome in prediction.outcomes if not outcome.is_removed]
    assert "".join(sorted(spec.template for spec in remaining if spec)) == templates
