"""Tests of uncreated and gated pods.

They are based on the Kubernetes documentation of quotas and scheduling gates.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.scheduling import workload_warnings
from nexusform.domains.pods.scheduling.cluster_records import (
    Cluster,
    ExistingPod,
    Node,
    PodQuotaFields,
    PodSpec,
    PodState,
    Requests,
    ResourceQuota,
    ResourceQuotaScope,
    Strategy,
    Workload,
)
from nexusform.domains.pods.scheduling.pod_outcomes import PodsPrediction
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.pod_warnings import collect_pod_warnings
from nexusform.kubernetes.matching import Taint
from tests.domains.pods.scheduling.outcomes import count_running_pods, list_pending_pods

NODES = tuple(
    Node(f"n{at}", {"kubernetes.io/hostname": f"n{at}"}, cpu=4000, memory=8 << 30) for at in (1, 2)
)


def build_web_workload(
    name: str = "web", replicas: int = 3, cpu: int = 500, **spec: Any
) -> Workload:
    pod = PodSpec(
        labels=(("app", name),), requests=Requests(cpu), scored_requests=Requests(cpu), **spec
    )
    return Workload("Deployment", "default", name, replicas, pod)


def build_quota(
    *hard: tuple[str, int], scopes: tuple[ResourceQuotaScope, ...] = (), namespace: str = "default"
) -> ResourceQuota:
    return ResourceQuota(namespace, "compute", hard, scopes)


def predict_with_quotas(
    quotas: list[ResourceQuota], *works: Workload, standing: tuple[ExistingPod, ...] = ()
) -> PodsPrediction:
    return predict(Cluster("k", NODES, quotas=tuple(quotas)), standing, works)


def count_created_pods(prediction: PodsPrediction) -> dict[str, tuple[int, int]]:
    return {
        f.workload.name: (count_running_pods(prediction, f.workload.key), f.uncreated)
        for f in prediction.forecasts.values()
    }


@pytest.mark.parametrize(
    ("hard", "running"),
    [
        (("pods", 2), 2),
        (("count/pods", 1), 1),
        (("requests.cpu", 1000), 2),
        (("cpu", 1499), 2),
        (("limits.cpu", 1000), 1),
        (("requests.nvidia.com/gpu", 0), 3),
        (("persistentvolumeclaims", 0), 3),
    ],
)
def test_quota_limits_number_of_created_pods(hard: tuple[str, int], running: int) -> None:
    work = build_web_workload(quota_figures=PodQuotaFields(limits=(("cpu", 700),)))
    assert count_created_pods(predict_with_quotas([build_quota(hard)], work)) == {
        "web": (running, 3 - running)
    }


def test_existing_pods_count_and_stay() -> None:
    old = build_web_workload("old", replicas=2)
    standing = tuple(ExistingPod(old.key, at, "n1", old.pod) for at in range(2))
    prediction = predict_with_quotas(
        [build_quota(("pods", 1))], old, build_web_workload(), standing=standing
    )
    assert count_created_pods(prediction) == {"old": (2, 0), "web": (0, 3)}


def test_older_workloads_are_created_first_regardless_of_priority() -> None:
    prediction = predict_with_quotas(
        [build_quota(("pods", 3))],
        build_web_workload("first", 2),
        build_web_workload("second", 2, priority=100),
    )
    assert count_created_pods(prediction) == {"first": (2, 0), "second": (1, 1)}


def test_cpu_quota_requires_cpu_requests_of_every_container() -> None:
    prediction = predict_with_quotas(
        [build_quota(("requests.cpu", 8000))],
        build_web_workload(quota_figures=PodQuotaFields(unspecified=("requests.cpu",))),
    )
    (forecast,) = prediction.forecasts.values()
    assert (
        forecast.rejection == "failed quota: compute: must specify requests.cpu for every container"
    )


@pytest.mark.parametrize(
    ("scope", "running"),
    [
        (ResourceQuotaScope("BestEffort"), 3),
        (ResourceQuotaScope("NotBestEffort"), 0),
        (ResourceQuotaScope("Terminating"), 3),
        (ResourceQuotaScope("NotTerminating"), 0),
        (ResourceQuotaScope("PriorityClass", "In", ("high",)), 0),
        (ResourceQuotaScope("PriorityClass", "NotIn", ("high",)), 3),
        (ResourceQuotaScope("CrossNamespacePodAffinity"), 3),
    ],
)
def test_quota_applies_to_pods_in_its_scopes(scope: ResourceQuotaScope, running: int) -> None:
    work = build_web_workload(quota_figures=PodQuotaFields(priority_class="high"))
    assert count_created_pods(
        predict_with_quotas([build_quota(("pods", 0), scopes=(scope,))], work)
    ) == {"web": (running, 3 - running)}
    elsewhere = build_quota(("pods", 0), namespace="other")
    assert count_created_pods(predict_with_quotas([elsewhere], work)) == {"web": (3, 0)}


def test_pod_with_a_gpu_alone_is_best_effort() -> None:
    figures = PodQuotaFields(limits=(("nvidia.com/gpu", 1),))
    work = build_web_workload(cpu=0, quota_figures=figures)
    quota = build_quota(("pods", 0), scopes=(ResourceQuotaScope("BestEffort"),))
    assert count_created_pods(predict_with_quotas([quota], work)) == {"web": (0, 3)}
    limited = build_web_workload(cpu=0, quota_figures=PodQuotaFields(limits=(("cpu", 1),)))
    assert count_created_pods(predict_with_quotas([quota], limited)) == {"web": (3, 0)}


def test_uncreated_pods_are_reported_with_kubernetes_message() -> None:
    cluster = Cluster("k", NODES, quotas=(build_quota(("requests.cpu", 1200)),))
    (warning,) = collect_pod_warnings(cluster, predict(cluster, (), [build_web_workload()]))
    assert warning.kind == workload_warnings.NOT_MADE
    assert warning.detail == (
        "Deployment default/web: 1 of 3 pods would not be created: exceeded quota: compute, "
        "requested: requests.cpu=500m, used: requests.cpu=1, limited: requests.cpu=1200m."
    )


def test_pods_forbidden_by_limit_range_are_not_created() -> None:
    work = replace(
        build_web_workload(), admission_error="maximum cpu usage per Container is 1, but limit is 2"
    )
    assert count_created_pods(predict_with_quotas([], work)) == {"web": (0, 3)}


def test_gated_pods_exist_but_are_not_scheduled() -> None:
    work = build_web_workload(gates=("example.com/quota",))
    cluster = Cluster("k", NODES)
    prediction = predict(cluster, (), [work])
    assert [outcome.state for outcome in prediction.outcomes] == [PodState.GATED] * 3
    assert list_pending_pods(prediction) == []
    again = predict(cluster, prediction.list_existing_pods(), [work])
    assert {(outcome.action, outcome.state) for outcome in again.outcomes} == {
        ("keep", PodState.GATED)
    }
    (warning,) = collect_pod_warnings(cluster, prediction)
    assert warning.detail.endswith("SchedulingGated: scheduling is blocked by example.com/quota.")


def test_daemon_set_without_eligible_nodes_is_reported() -> None:
    tainted = tuple(replace(node, taints=(Taint("gpu", "", "NoSchedule"),)) for node in NODES)
    agent = replace(build_web_workload("agent", 1), kind="DaemonSet")
    cluster = Cluster("k", tainted)
    (warning,) = collect_pod_warnings(cluster, predict(cluster, (), [agent]))
    assert warning.kind == workload_warnings.NOWHERE
    assert (
        "it would get no pod: 0/2 nodes are available: 2 node(s) had untolerated" in warning.detail
    )
    assert not collect_pod_warnings(Cluster("k", NODES), predict(Cluster("k", NODES), (), [agent]))


# --- rollouts -------------------------------------------------------------------------------------


def predict_rollout(
    most: int, kind: str = "Deployment", strategy: Strategy = Strategy.ROLLING, **more: Any
) -> PodsPrediction:
    """Return the prediction for two pods of an older template under a quota on pods."""
    work = replace(
        build_web_workload(replicas=2, template="2"), kind=kind, strategy=strategy, **more
    )
    old = replace(work.pod, template="1")
    standing = tuple(ExistingPod(work.key, at, f"n{at + 1}", old) for at in range(2))
    return predict_with_quotas([build_quota(("pods", most))], work, standing=standing)


def list_new_pods(prediction: PodsPrediction) -> list[str]:
    return [o.name for o in prediction.outcomes if o.node and o.spec and o.spec.template == "2"]


def test_rollout_is_blocked_if_quota_rejects_its_surge() -> None:
    hung = predict_rollout(2, max_surge=1, max_unavailable=0)
    assert list_new_pods(hung) == []
    (forecast,) = hung.forecasts.values()
    assert (
        count_running_pods(hung, forecast.workload.key),
        forecast.is_blocked,
        forecast.uncreated,
    ) == (2, True, 1)
    (warning,) = collect_pod_warnings(Cluster("k", NODES), hung)
    assert warning.kind == workload_warnings.STUCK
    assert warning.detail == (
        "Deployment default/web: 1 new pod would not be created while the old pods run: exceeded "
        "quota: compute, requested: pods=1, used: pods=2, limited: pods=2."
    )
    # The next prediction has the same result.
    again = predict_with_quotas(
        [build_quota(("pods", 2))], forecast.workload, standing=hung.list_existing_pods()
    )
    assert [o.action for o in again.outcomes] == ["keep", "keep"]
    assert again.forecasts[forecast.workload.key].is_blocked


@pytest.mark.parametrize(
    ("most", "more"),
    [
        (3, {"max_surge": 1, "max_unavailable": 0}),
        (2, {"max_surge": 1, "max_unavailable": 1}),
        (2, {"strategy": Strategy.RECREATE}),
        (2, {"kind": "StatefulSet"}),
    ],
)
def test_rollout_within_quota_completes(most: int, more: dict[str, Any]) -> None:
    through = predict_rollout(most, **more)
    assert sorted(list_new_pods(through)) == ["web-0", "web-1"]
    assert not next(iter(through.forecasts.values())).is_blocked


def test_stateful_set_rollout_over_quota_stops_at_first_pod() -> None:
    work = replace(build_web_workload(replicas=2, cpu=900, template="2"), kind="StatefulSet")
    old = replace(build_web_workload(cpu=500).pod, template="1")
    standing = tuple(ExistingPod(work.key, at, f"n{at + 1}", old) for at in range(2))
    limit = build_quota(("requests.cpu", 1000))
    first = predict_with_quotas([limit], work, standing=standing)
    assert [(o.name, o.action) for o in first.outcomes] == [("web-0", "keep"), ("web-1", "remove")]
    assert next(iter(first.forecasts.values())).uncreated == 1
    again = predict_with_quotas([limit], work, standing=first.list_existing_pods())
    assert [(o.name, o.action) for o in again.outcomes] == [("web-0", "keep")]


def test_pending_pod_of_former_template_counts_with_its_own_requests() -> None:
    work = replace(
        build_web_workload(replicas=2, cpu=2000, template="2"), kind="StatefulSet", is_ordered=True
    )
    old = replace(build_web_workload(cpu=100).pod, template="1", node_selector=(("zone", "none"),))
    standing = (ExistingPod(work.key, 0, "", old),)
    other = build_web_workload("other", 1, cpu=500)
    prediction = predict_with_quotas(
        [build_quota(("requests.cpu", 1000))], other, work, standing=standing
    )
    assert count_created_pods(prediction)["other"] == (1, 0)
