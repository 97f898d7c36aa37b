"""NoExecute taints evict what does not tolerate them, at once or when the time is over."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from nexusform.domains.pods.scheduling import workload_warnings
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.pod_warnings import collect_pod_warnings
from nexusform.domains.pods.scheduling.workloads import Cluster
from nexusform.kubernetes.matching import Taint, Toleration
from tests.domains.pods.scheduling.test_pod_prediction import cluster, standing, workload

DOWN = Taint("maintenance", "yes", "NoExecute")


def tainted(nodes: int, *names: str) -> Cluster:
    """A cluster of which these nodes are tainted."""
    made = cluster(nodes)
    of_nodes = [replace(each, taints=(DOWN,)) if each.name in names else each for each in made.nodes]
    return replace(made, nodes=tuple(of_nodes))


def tolerating(seconds: int | None = None) -> dict[str, Any]:
    return {"tolerations": (Toleration("maintenance", "Exists", "", "NoExecute", seconds),)}


def places(where: Cluster, *nodes: str, cpu: int = 0, kind: str = "Deployment", **more: Any) -> list[str]:
    """What becomes of the pods of a workload that stood on these nodes."""
    work = workload("web", len(nodes), cpu=cpu, kind=kind, **more)
    outcomes = predict(where, standing(work, *nodes), [work]).list_outcomes(work.key)
    return [f"{each.action} {each.node or 'nowhere'} {each.trigger}".strip() for each in outcomes]


def test_a_taint_evicts_what_does_not_tolerate_it() -> None:
    where = tainted(3, "n1")
    assert places(where, "n1", "n2") == ["move n3 no_execute", "keep n2"]
    assert places(where, "n1", "n2", pod=tolerating()) == ["keep n1", "keep n2"]
    soft = replace(where, nodes=tuple(replace(each, taints=()) for each in where.nodes))
    assert places(soft, "n1", "n2") == ["keep n1", "keep n2"]


def test_whoever_finds_no_other_node_waits() -> None:
    assert places(tainted(1, "n1"), "n1") == ["move nowhere no_execute"]
    assert places(tainted(2, "n1"), "n1", "n2", cpu=600) == ["move nowhere no_execute", "keep n2"]


def test_a_toleration_for_a_time_lets_pods_come_back_only_where_no_other_node_is_better() -> None:
    busy = workload("busy", 1, cpu=500, pod=tolerating())
    where = tainted(2, "n1")
    work = workload("web", 1, cpu=100, pod=tolerating(60))
    elsewhere = predict(where, [*standing(busy, "n1"), *standing(work, "n1")], [work]).list_outcomes(work.key)
    assert [(each.action, each.node, each.trigger) for each in elsewhere] == [("move", "n2", "no_execute")]
    back = predict(where, [*standing(busy, "n2"), *standing(work, "n1")], [work]).list_outcomes(work.key)
    assert [(each.action, each.node, each.trigger) for each in back] == [("keep", "n1", "")]
    at_once = workload("web", 1, cpu=100, pod=tolerating(0))
    assert [each.action for each in predict(where, standing(at_once, "n1"), [at_once]).list_outcomes(work.key)] == [
        "move"
    ]


def test_others_are_evicted_too_and_come_to_rest() -> None:
    other, bare = workload("other", 2, cpu=300), workload("bare", 1, kind="Pod")
    work = workload("web", 1, cpu=100)
    where = tainted(3, "n1")
    before = [*standing(other, "n1", "n2"), *standing(bare, "n1")]
    result = predict(where, before, [work])
    assert [(each.name, each.action, each.node) for each in result.displaced_outcomes] == [
        ("other-0", "move", "n3"),
        ("bare", "remove", ""),
    ]
    again = predict(where, result.list_existing_pods(), [work])
    assert not again.displaced_outcomes
    assert {each.action for each in again.outcomes} == {"keep"}


def test_daemons_are_left_to_their_controller() -> None:
    work = workload("agent", 0, kind="DaemonSet")
    result = predict(tainted(2, "n1"), standing(work, "n1", "n2"), [work])
    assert [(each.action, each.trigger) for each in result.list_outcomes(work.key)] == [
        ("remove", "scale_in"),
        ("keep", ""),
    ]


def test_it_is_said_who_is_evicted_by_what_and_when() -> None:
    for seconds, more in ((None, ""), (60, ", after 60 s")):
        pod = {} if seconds is None else tolerating(seconds)
        work = workload("web", 2, cpu=100, pod=pod)
        busy = workload("busy", 1, cpu=500, pod=tolerating())
        where = tainted(3, "n1")
        result = predict(where, [*standing(work, "n1", "n2"), *standing(busy, "n1")], [busy, work])
        (told,) = [
            each
            for each in collect_pod_warnings(where, result)
            if each.kind == workload_warnings.NO_EXECUTE_EVICTS and each.workload == work.key
        ]
        assert f"1 of its pods is evicted by NoExecute taints: web-0 from n1 (maintenance=yes:NoExecute{more})" in (
            told.detail
        )
