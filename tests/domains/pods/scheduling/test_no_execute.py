"""Tests of NoExecute taints.

Pods without a toleration are evicted at once, others after tolerationSeconds.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from nexusform.domains.pods.scheduling import workload_warnings
from nexusform.domains.pods.scheduling.cluster_records import Cluster, ExistingPod
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.pod_warnings import collect_pod_warnings
from nexusform.kubernetes.matching import Taint, Toleration
from tests.domains.pods.scheduling.test_pod_prediction import (
    build_cluster,
    build_existing_pods,
    build_workload,
)

DOWN = Taint("maintenance", "yes", "NoExecute")


def build_tainted_cluster(nodes: int, *names: str) -> Cluster:
    """Return a cluster with taints on the named nodes."""
    made = build_cluster(nodes)
    of_nodes = [
        replace(each, taints=(DOWN,)) if each.name in names else each for each in made.nodes
    ]
    return replace(made, nodes=tuple(of_nodes))


def build_toleration(seconds: int | None = None) -> dict[str, Any]:
    return {"tolerations": (Toleration("maintenance", "Exists", "", "NoExecute", seconds),)}


def predict_places(
    where: Cluster, *nodes: str, cpu: int = 0, kind: str = "Deployment", **more: Any
) -> list[str]:
    """Return the predicted actions for the pods of a workload running on these nodes."""
    work = build_workload("web", len(nodes), cpu=cpu, kind=kind, **more)
    outcomes = predict(where, build_existing_pods(work, *nodes), [work]).list_outcomes(work.key)
    return [f"{each.action} {each.node or 'nowhere'} {each.trigger}".strip() for each in outcomes]


def test_taint_evicts_pods_without_toleration() -> None:
    where = build_tainted_cluster(3, "n1")
    assert predict_places(where, "n1", "n2") == ["move n3 no_execute", "keep n2"]
    assert predict_places(where, "n1", "n2", pod=build_toleration()) == ["keep n1", "keep n2"]
    soft = replace(where, nodes=tuple(replace(each, taints=()) for each in where.nodes))
    assert predict_places(soft, "n1", "n2") == ["keep n1", "keep n2"]


def test_evicted_pod_without_other_node_is_pending() -> None:
    assert predict_places(build_tainted_cluster(1, "n1"), "n1") == ["move nowhere no_execute"]
    assert predict_places(build_tainted_cluster(2, "n1"), "n1", "n2", cpu=600) == [
        "move nowhere no_execute",
        "keep n2",
    ]


def test_temporary_toleration_returns_pod_only_without_better_node() -> None:
    busy = build_workload("busy", 1, cpu=500, pod=build_toleration())
    where = build_tainted_cluster(2, "n1")
    work = build_workload("web", 1, cpu=100, pod=build_toleration(60))
    elsewhere = predict(
        where, [*build_existing_pods(busy, "n1"), *build_existing_pods(work, "n1")], [work]
    ).list_outcomes(work.key)
    assert [(each.action, each.node, each.trigger) for each in elsewhere] == [
        ("move", "n2", "no_execute")
    ]
    back = predict(
        where, [*build_existing_pods(busy, "n2"), *build_existing_pods(work, "n1")], [work]
    ).list_outcomes(work.key)
    assert [(each.action, each.node, each.trigger) for each in back] == [("keep", "n1", "")]
    at_once = build_workload("web", 1, cpu=100, pod=build_toleration(0))
    assert [
        each.action
        for each in predict(where, build_existing_pods(at_once, "n1"), [at_once]).list_outcomes(
            work.key
        )
    ] == ["move"]


def test_other_workloads_are_evicted_too_and_plan_converges() -> None:
    other = build_workload("other", 2, cpu=300)
    bare = build_workload("bare", 1, kind="Pod")
    work = build_workload("web", 1, cpu=100)
    where = build_tainted_cluster(3, "n1")
    before = [*build_existing_pods(other, "n1", "n2"), *build_existing_pods(bare, "n1")]
    result = predict(where, before, [work])
    assert [(each.name, each.action, each.node) for each in result.displaced_outcomes] == [
        ("other-0", "move", "n3"),
        ("bare", "remove", ""),
    ]
    again = predict(where, result.list_existing_pods(), [work])
    assert not again.displaced_outcomes
    assert {each.action for each in again.outcomes} == {"keep"}


def test_daemon_pods_are_removed_by_their_controller() -> None:
    work = build_workload("agent", 0, kind="DaemonSet")
    result = predict(build_tainted_cluster(2, "n1"), build_existing_pods(work, "n1", "n2"), [work])
    assert [(each.action, each.trigger) for each in result.list_outcomes(work.key)] == [
        ("remove", "scale_in"),
        ("keep", ""),
    ]


def test_eviction_warning_names_pod_taint_and_time() -> None:
    for seconds, more in ((None, ""), (60, ", after 60 s")):
        pod = {} if seconds is None else build_toleration(seconds)
        work = build_workload("web", 2, cpu=100, pod=pod)
        busy = build_workload("busy", 1, cpu=500, pod=build_toleration())
        where = build_tainted_cluster(3, "n1")
        result = predict(
            where,
            [*build_existing_pods(work, "n1", "n2"), *build_existing_pods(busy, "n1")],
            [busy, work],
        )
        (told,) = [
            each
            for each in collect_pod_warnings(where, result)
            if each.kind == workload_warnings.NO_EXECUTE_EVICTS and each.workload == work.key
        ]
        assert (
            "1 of its pods is evicted by NoExecute taints: web-0 from n1 "
            f"(maintenance=yes:NoExecute{more})"
        ) in (told.detail)


def test_unmanaged_pods_leave_after_their_toleration() -> None:
    bare = build_workload("bare", 1, cpu=600, kind="Pod", pod=build_toleration(60))
    other = build_workload("other", 1, cpu=300, pod=build_toleration(60))
    busy = build_workload("busy", 1, cpu=100, pod=build_toleration())
    before = [pod for work in (bare, other, busy) for pod in build_existing_pods(work, "n1")]
    result = predict(build_tainted_cluster(2, "n1"), before, [])
    # A Pod without a controller is only removed, and reserves nothing on another node.
    assert [(each.name, each.action, each.node) for each in result.displaced_outcomes] == [
        ("other-0", "move", "n2"),
        ("bare", "remove", ""),
    ]


def test_outdated_pod_leaves_after_its_toleration() -> None:
    """Pods of a former template are evicted like all others.

    A pod below the partition keeps its template.
    """
    tolerant = build_workload(
        "db", 2, kind="StatefulSet", cpu=300, partition=2, pod=build_toleration(60)
    )
    new = replace(tolerant, pod=replace(tolerant.pod, template="2"))
    cluster = build_tainted_cluster(3, "n1")
    outcomes = predict(cluster, build_existing_pods(tolerant, "n1", "n2"), [new]).outcomes
    changes = [
        (outcome.action, outcome.node, outcome.spec.template)
        for outcome in outcomes
        if outcome.spec
    ]
    assert changes == [("move", "n3", "1"), ("keep", "n2", "1")]


def test_current_pod_below_partition_gets_the_former_template_after_its_toleration() -> None:
    former = build_workload(
        "db", 2, kind="StatefulSet", cpu=300, partition=2, pod=build_toleration(60)
    )
    new = replace(former, pod=replace(former.pod, template="2"))
    pods = [ExistingPod(new.key, 0, "n1", new.pod), ExistingPod(new.key, 1, "n2", former.pod)]
    outcomes = predict(build_tainted_cluster(3, "n1"), pods, [new]).outcomes
    changes = [
        (outcome.action, outcome.node, outcome.spec.template)
        for outcome in outcomes
        if outcome.spec
    ]
    assert changes == [("move", "n3", "1"), ("keep", "n2", "1")]
