"""Tests of StatefulSets with OrderedReady pods, compared with kube-controller-manager 1.34.4."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.scheduling import pod_outcomes, workload_warnings
from nexusform.domains.pods.scheduling.cluster_records import ExistingPod, Workload
from nexusform.domains.pods.scheduling.pod_outcomes import PodsPrediction
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.pod_warnings import collect_pod_warnings
from tests.domains.pods.scheduling.test_pod_prediction import (
    build_cluster,
    build_existing_pods,
    build_workload,
)

# Of the 1000 milli-CPUs of a node: a second pod does not fit.
FULL = 800


def build_ordered_set(count: int, template: str = "1", cpu: int = FULL) -> Workload:
    return build_workload(
        "db", count, kind="StatefulSet", cpu=cpu, template=template, is_ordered=True
    )


def build_unschedulable_set(of: Workload, template: str = "2") -> Workload:
    return replace(of, pod=replace(of.pod, template=template, node_selector=(("disk", "ssd"),)))


def list_changes(prediction: PodsPrediction) -> list[tuple[str, str, bool]]:
    return [(each.name, each.action, bool(each.node)) for each in prediction.outcomes]


def test_pod_is_created_only_after_its_predecessor_runs() -> None:
    work = build_ordered_set(4)
    prediction = predict(build_cluster(1), (), [work])
    assert list_changes(prediction) == [("db-0", "place", True), ("db-1", "place", False)]
    assert prediction.outcomes[1].reason == "0/1 nodes are available: 1 Insufficient cpu."
    told = prediction.forecasts[work.key]
    assert (told.uncreated, told.rejection) == (2, "db-1 must run first")
    # A repeated plan changes nothing, and each new node allows one more pod.
    again = predict(build_cluster(1), prediction.list_existing_pods(), [work])
    assert list_changes(again) == [("db-0", "keep", True), ("db-1", "keep", False)]
    further = predict(build_cluster(2), prediction.list_existing_pods(), [work])
    assert list_changes(further)[1:] == [("db-1", "place", True), ("db-2", "place", False)]
    assert further.forecasts[work.key].uncreated == 1


def test_first_of_several_lost_pods_is_re_created_first() -> None:
    work = build_ordered_set(3)
    there = build_existing_pods(work, "gone", "gone-too", "n1")
    prediction = predict(build_cluster(1), there, [work])
    assert list_changes(prediction) == [
        ("db-0", "move", False),
        ("db-2", "keep", True),
        ("db-1", "remove", False),
    ]
    assert prediction.forecasts[work.key].uncreated == 1
    # The last remaining pod keeps its place until its turn.
    again = predict(build_cluster(3), prediction.list_existing_pods(), [work])
    assert sorted(list_changes(again)) == [
        ("db-0", "place", True),
        ("db-1", "place", True),
        ("db-2", "keep", True),
    ]


def test_no_pod_is_removed_before_all_others_run() -> None:
    before = build_ordered_set(3)
    there = build_existing_pods(before, "gone", "n1", "n2")
    fewer = predict(build_cluster(2), there, [replace(before, replicas=2)])
    assert list_changes(fewer) == [
        ("db-0", "move", False),
        ("db-1", "keep", True),
        ("db-2", "keep", True),
    ]
    parallel = replace(before, replicas=2, is_ordered=False)
    assert ("db-2", "remove", False) in list_changes(predict(build_cluster(2), there, [parallel]))
    # After the first pod has capacity, the last one is removed.
    after = predict(build_cluster(3), fewer.list_existing_pods(), [replace(before, replicas=2)])
    assert list_changes(after) == [
        ("db-0", "place", True),
        ("db-1", "keep", True),
        ("db-2", "remove", False),
    ]


def test_blocked_set_is_not_scaled_out() -> None:
    work = build_unschedulable_set(build_ordered_set(3))
    first = predict(
        build_cluster(4), build_existing_pods(build_ordered_set(3), "n1", "n2", "n3"), [work]
    )
    assert list_changes(first) == [
        ("db-0", "keep", True),
        ("db-1", "keep", True),
        ("db-2", "move", False),
    ]
    out = predict(build_cluster(6), first.list_existing_pods(), [replace(work, replicas=5)])
    assert list_changes(out) == [
        ("db-0", "keep", True),
        ("db-1", "keep", True),
        ("db-2", "keep", False),
    ]
    told = out.forecasts[work.key]
    assert (told.uncreated, told.rejection) == (2, "db-2 must run first")


def test_pending_pod_of_wrong_template_is_kept() -> None:
    work = build_unschedulable_set(build_ordered_set(3))
    first = predict(
        build_cluster(3), build_existing_pods(build_ordered_set(3), "n1", "n2", "n3"), [work]
    )
    mended = build_ordered_set(3, "3")
    after = predict(build_cluster(3), first.list_existing_pods(), [mended])
    assert list_changes(after) == [
        ("db-0", "keep", True),
        ("db-1", "keep", True),
        ("db-2", "keep", False),
    ]
    assert after.outcomes[2].spec == work.pod
    assert after.forecasts[work.key].is_blocked
    # If one gets a node after all, it is replaced, and so are the others.
    pods = [
        pod if pod.node else replace(pod, spec=replace(pod.spec, node_selector=()))
        for pod in first.list_existing_pods()
    ]
    rolled = predict(build_cluster(3), pods, [mended])
    assert {(each.node != "", each.spec) for each in rolled.outcomes} == {(True, mended.pod)}


def test_pending_pod_is_scheduled_in_parallel_with_its_predecessor() -> None:
    work = build_ordered_set(3)
    waits = [ExistingPod(work.key, number, "", work.pod) for number in (1, 2)]
    there = [
        *build_existing_pods(work, "n1"),
        waits[0],
        replace(waits[1], spec=replace(work.pod, node_selector=())),
    ]
    prediction = predict(build_cluster(3), there, [work])
    assert [bool(each.node) for each in prediction.outcomes] == [True, True, True]


def read_warnings(prediction: PodsPrediction, nodes: int) -> dict[str, str]:
    return {
        each.kind: each.detail for each in collect_pod_warnings(build_cluster(nodes), prediction)
    }


def test_warning_counts_uncreated_pods_and_names_fix() -> None:
    work = build_unschedulable_set(build_ordered_set(3))
    alone = read_warnings(predict(build_cluster(1), (), [build_ordered_set(4)]), 1)
    assert alone[workload_warnings.NOT_MADE].endswith(
        "2 of 4 pods would not be created: db-1 must run first."
    )
    first = predict(
        build_cluster(3), build_existing_pods(build_ordered_set(3), "n1", "n2", "n3"), [work]
    )
    out = read_warnings(
        predict(build_cluster(3), first.list_existing_pods(), [replace(work, replicas=5)]), 3
    )
    assert (
        "2 of 5 pods would not be created: db-2 must run first." in out[workload_warnings.NOT_MADE]
    )
    mended = read_warnings(
        predict(build_cluster(3), first.list_existing_pods(), [build_ordered_set(3, "3")]), 3
    )
    assert mended[workload_warnings.STUCK].endswith(
        "delete it (kubectl delete pod -n default db-2)."
    )


def build_set_of_higher_priority(work: Workload, cpu: int) -> Workload:
    pod = build_workload(work.name, cpu=cpu, template="2", priority=1000).pod
    return replace(work, pod=pod)


def test_new_pod_of_higher_priority_evicts_a_pod_of_its_own_set() -> None:
    """The evicted pod is created again with the new template, and waits for capacity."""
    old = build_workload("db", 3, kind="StatefulSet", cpu=300)
    new = build_set_of_higher_priority(old, cpu=FULL)
    prediction = predict(build_cluster(1), build_existing_pods(old, "n1", "n1", "n1"), [new])
    placed = {outcome.name: (outcome.action, bool(outcome.node)) for outcome in prediction.outcomes}
    assert placed == {"db-0": ("move", False), "db-1": ("move", False), "db-2": ("move", True)}
    assert {outcome.spec for outcome in prediction.outcomes} == {new.pod}
    after = predict(build_cluster(3), prediction.list_existing_pods(), [new])
    assert all(has_node for _, _, has_node in list_changes(after))


def test_new_daemon_pod_of_higher_priority_evicts_the_old_one() -> None:
    """With maxSurge the old pod would stay until the new one runs.

    But the new one needs its capacity.
    """
    old = build_workload("agent", kind="DaemonSet", cpu=600)
    new = replace(build_set_of_higher_priority(old, cpu=FULL), max_surge_text="1")
    large = build_workload("web", cpu=700)
    prediction = predict(build_cluster(1), build_existing_pods(old, "n1"), [new, large])
    assert list_changes(prediction) == [("agent-0", "move", True), ("web-0", "place", False)]
    assert prediction.outcomes[0].spec == new.pod


def build_partitioned_set(
    count: int, partition: int, *, is_ordered: bool = True
) -> tuple[Workload, Workload]:
    """Return a set before and after a change of its template, rolled out down to the partition."""
    old = build_workload(
        "db", count, kind="StatefulSet", cpu=300, partition=partition, is_ordered=is_ordered
    )
    return old, replace(old, pod=replace(old.pod, template="2"))


def list_templates(prediction: PodsPrediction) -> dict[str, str]:
    """Return the template of each pod with a node, by name."""
    return {
        outcome.name: outcome.spec.template
        for outcome in prediction.outcomes
        if outcome.node and outcome.spec
    }


@pytest.mark.parametrize("is_ordered", [True, False])
def test_pod_below_partition_is_created_again_with_its_former_template(is_ordered: bool) -> None:
    """Source: newVersionedStatefulSetPod of kube-controller-manager."""
    old, new = build_partitioned_set(3, 2, is_ordered=is_ordered)
    # The nodes of pods 0 and 2 are lost.
    lost = predict(build_cluster(2), build_existing_pods(old, "gone", "n1", "gone"), [new])
    assert list_templates(lost) == {"db-0": "1", "db-1": "1", "db-2": "2"}
    # A Pending pod below the partition keeps its template after it got a node.
    pods = [*build_existing_pods(old, "", "n1"), ExistingPod(new.key, 2, "n2", new.pod)]
    assert list_templates(predict(build_cluster(2), pods, [new])) == {
        "db-0": "1",
        "db-1": "1",
        "db-2": "2",
    }
    again = predict(build_cluster(2), lost.list_existing_pods(), [new])
    assert {outcome.action for outcome in again.outcomes} == {"keep"}


def test_new_pods_below_partition_get_the_former_template() -> None:
    """A partition above the replicas stages a new template.

    Scaling out creates pods of the former one.
    """
    old, new = build_partitioned_set(2, 4)
    out = predict(
        build_cluster(3), build_existing_pods(old, "n1", "n1"), [replace(new, replicas=5)]
    )
    assert list_templates(out) == {"db-0": "1", "db-1": "1", "db-2": "1", "db-3": "1", "db-4": "2"}
    # Without a pod of a former template, all pods get the current one.
    assert set(list_templates(predict(build_cluster(2), (), [new])).values()) == {"2"}


def test_partition_counts_from_the_first_ordinal() -> None:
    """Source: updateStatefulSet counts replicas from spec.ordinals.start."""
    old, new = (replace(workload, first_ordinal=5) for workload in build_partitioned_set(3, 2))
    pods = [
        replace(pod, number=pod.number + 5) for pod in build_existing_pods(old, "n1", "n1", "n1")
    ]
    assert list_templates(predict(build_cluster(1), pods, [new])) == {
        "db-5": "1",
        "db-6": "1",
        "db-7": "2",
    }


def test_pod_below_partition_evicted_by_its_own_set_keeps_its_template() -> None:
    old, _ = build_partitioned_set(3, 2)
    new = build_set_of_higher_priority(old, cpu=FULL)
    prediction = predict(build_cluster(1), build_existing_pods(old, "n1", "n1", "n1"), [new])
    states = {outcome.name: (outcome.spec, bool(outcome.node)) for outcome in prediction.outcomes}
    assert states == {"db-0": (old.pod, False), "db-1": (old.pod, False), "db-2": (new.pod, True)}
    reasons = {outcome.trigger for outcome in prediction.outcomes if not outcome.node}
    assert reasons == {pod_outcomes.PREEMPTED}
    after = predict(build_cluster(3), prediction.list_existing_pods(), [new])
    assert list_templates(after) == {"db-0": "1", "db-1": "1", "db-2": "2"}


def test_pod_below_partition_evicted_by_another_workload_keeps_its_template() -> None:
    old, new = build_partitioned_set(2, 2)
    large = build_workload("web", cpu=FULL, priority=1000)
    prediction = predict(build_cluster(2), build_existing_pods(old, "n1", "n2"), [large, new])
    assert set(list_templates(prediction).values()) == {"1"}
    assert len(prediction.outcomes) == 3


def test_current_pod_below_partition_gets_the_former_template_after_eviction() -> None:
    """The former template is that of another pod, also if this one is evicted first."""
    old, new = build_partitioned_set(2, 2)
    large = build_workload("web", 2, cpu=FULL, priority=1000)
    pods = [ExistingPod(new.key, 0, "n1", new.pod), ExistingPod(new.key, 1, "n2", old.pod)]
    prediction = predict(build_cluster(2), pods, [large, new])
    evicted = [outcome for outcome in prediction.outcomes if outcome.workload == new.key]
    assert [(outcome.node, outcome.spec and outcome.spec.template) for outcome in evicted] == [
        ("", "1"),
        ("", "1"),
    ]
