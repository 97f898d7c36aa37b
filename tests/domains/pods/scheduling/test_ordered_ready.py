"""StatefulSets that make their pods one after the other: what kube-controller-manager 1.34.4 does."""

from __future__ import annotations

from msgspec.structs import replace

from nexusform.domains.pods.scheduling import workload_warnings
from nexusform.domains.pods.scheduling.pod_outcomes import Prediction
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.pod_warnings import collect_pod_warnings
from nexusform.domains.pods.scheduling.workloads import ExistingPod, Workload
from tests.domains.pods.scheduling.test_pod_prediction import cluster, standing, workload

FULL = 800  # of the 1000 milli-CPUs of a node: a second pod finds no room there


def ordered(count: int, template: str = "1", cpu: int = FULL) -> Workload:
    return workload("db", count, kind="StatefulSet", cpu=cpu, template=template, is_ordered=True)


def hanging(of: Workload, template: str = "2") -> Workload:
    return replace(of, pod=replace(of.pod, template=template, node_selector=(("disk", "ssd"),)))


def seen(prediction: Prediction) -> list[tuple[str, str, bool]]:
    return [(each.name, each.action, bool(each.node)) for each in prediction.outcomes]


def test_no_pod_is_made_before_the_one_below_it_runs() -> None:
    work = ordered(4)
    prediction = predict(cluster(1), (), [work])
    assert seen(prediction) == [("db-0", "place", True), ("db-1", "place", False)]
    assert prediction.outcomes[1].reason == "0/1 nodes are available: 1 Insufficient cpu."
    told = prediction.forecasts[work.key]
    assert (told.uncreated, told.rejection) == (2, "db-1 must run first")
    # Nothing is asked for anew, and one more comes with each node.
    again = predict(cluster(1), prediction.list_existing_pods(), [work])
    assert seen(again) == [("db-0", "keep", True), ("db-1", "keep", False)]
    further = predict(cluster(2), prediction.list_existing_pods(), [work])
    assert seen(further)[1:] == [("db-1", "place", True), ("db-2", "place", False)]
    assert further.forecasts[work.key].uncreated == 1


def test_the_first_of_several_that_lost_their_nodes_comes_again() -> None:
    work = ordered(3)
    there = standing(work, "gone", "gone-too", "n1")
    prediction = predict(cluster(1), there, [work])
    assert seen(prediction) == [("db-0", "move", False), ("db-2", "keep", True), ("db-1", "remove", False)]
    assert prediction.forecasts[work.key].uncreated == 1
    # The last one that is left keeps its place until its turn has come.
    again = predict(cluster(3), prediction.list_existing_pods(), [work])
    assert sorted(seen(again)) == [("db-0", "place", True), ("db-1", "place", True), ("db-2", "keep", True)]


def test_none_goes_before_all_others_run() -> None:
    before = ordered(3)
    there = standing(before, "gone", "n1", "n2")
    fewer = predict(cluster(2), there, [replace(before, replicas=2)])
    assert seen(fewer) == [("db-0", "move", False), ("db-1", "keep", True), ("db-2", "keep", True)]
    parallel = replace(before, replicas=2, is_ordered=False)
    assert ("db-2", "remove", False) in seen(predict(cluster(2), there, [parallel]))
    # Once there is room for the first one, the last one goes.
    after = predict(cluster(3), fewer.list_existing_pods(), [replace(before, replicas=2)])
    assert seen(after) == [("db-0", "place", True), ("db-1", "keep", True), ("db-2", "remove", False)]


def test_a_set_that_hangs_is_not_scaled_out() -> None:
    work = hanging(ordered(3))
    first = predict(cluster(4), standing(ordered(3), "n1", "n2", "n3"), [work])
    assert seen(first) == [("db-0", "keep", True), ("db-1", "keep", True), ("db-2", "move", False)]
    out = predict(cluster(6), first.list_existing_pods(), [replace(work, replicas=5)])
    assert seen(out) == [("db-0", "keep", True), ("db-1", "keep", True), ("db-2", "keep", False)]
    told = out.forecasts[work.key]
    assert (told.uncreated, told.rejection) == (2, "db-2 must run first")


def test_a_pending_pod_of_a_wrong_template_stays() -> None:
    work = hanging(ordered(3))
    first = predict(cluster(3), standing(ordered(3), "n1", "n2", "n3"), [work])
    mended = ordered(3, "3")
    after = predict(cluster(3), first.list_existing_pods(), [mended])
    assert seen(after) == [("db-0", "keep", True), ("db-1", "keep", True), ("db-2", "keep", False)]
    assert after.outcomes[2].spec == work.pod
    assert after.forecasts[work.key].is_blocked
    # One that finds a node after all is replaced, and so are the others.
    pods = [
        pod if pod.node else replace(pod, spec=replace(pod.spec, node_selector=()))
        for pod in first.list_existing_pods()
    ]
    rolled = predict(cluster(3), pods, [mended])
    assert {(each.node != "", each.spec) for each in rolled.outcomes} == {(True, mended.pod)}


def test_a_pod_that_waits_already_is_tried_beside_the_one_below_it() -> None:
    work = ordered(3)
    waits = [ExistingPod(work.key, number, "", work.pod) for number in (1, 2)]
    there = [*standing(work, "n1"), waits[0], replace(waits[1], spec=replace(work.pod, node_selector=()))]
    prediction = predict(cluster(3), there, [work])
    assert [bool(each.node) for each in prediction.outcomes] == [True, True, True]


def told(prediction: Prediction, nodes: int) -> dict[str, str]:
    return {each.kind: each.detail for each in collect_pod_warnings(cluster(nodes), prediction)}


def test_what_is_not_made_is_counted_and_what_it_takes_is_said() -> None:
    work = hanging(ordered(3))
    alone = told(predict(cluster(1), (), [ordered(4)]), 1)
    assert alone[workload_warnings.NOT_MADE].endswith("2 of 4 pods would not be created: db-1 must run first.")
    first = predict(cluster(3), standing(ordered(3), "n1", "n2", "n3"), [work])
    out = told(predict(cluster(3), first.list_existing_pods(), [replace(work, replicas=5)]), 3)
    assert "2 of 5 pods would not be created: db-2 must run first." in out[workload_warnings.NOT_MADE]
    mended = told(predict(cluster(3), first.list_existing_pods(), [ordered(3, "3")]), 3)
    assert mended[workload_warnings.STUCK].endswith("delete it (kubectl delete pod -n default db-2).")
