"""Pods that are not made and pods at which nobody looks, by Kubernetes' documentation of quotas and gates."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.scheduling import workload_warnings
from nexusform.domains.pods.scheduling.pod_outcomes import Prediction
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.pod_warnings import collect_pod_warnings
from nexusform.domains.pods.scheduling.workloads import (
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
from nexusform.kubernetes.matching import Taint
from tests.domains.pods.scheduling.outcomes import pending, running

NODES = tuple(Node(f"n{at}", {"kubernetes.io/hostname": f"n{at}"}, cpu=4000, memory=8 << 30) for at in (1, 2))


def web(name: str = "web", replicas: int = 3, cpu: int = 500, **spec: Any) -> Workload:
    pod = PodSpec(labels=(("app", name),), requests=Requests(cpu), scored_requests=Requests(cpu), **spec)
    return Workload("Deployment", "default", name, replicas, pod)


def quota(
    *hard: tuple[str, int], scopes: tuple[ResourceQuotaScope, ...] = (), namespace: str = "default"
) -> ResourceQuota:
    return ResourceQuota(namespace, "compute", hard, scopes)


def foretold(quotas: list[ResourceQuota], *works: Workload, standing: tuple[ExistingPod, ...] = ()) -> Prediction:
    return predict(Cluster("k", NODES, quotas=tuple(quotas)), standing, works)


def made(prediction: Prediction) -> dict[str, tuple[int, int]]:
    return {f.workload.name: (running(prediction, f.workload.key), f.uncreated) for f in prediction.forecasts.values()}


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
def test_a_quota_lets_only_so_many_pods_be_made(hard: tuple[str, int], running: int) -> None:
    work = web(quota_figures=PodQuotaFields(limits=(("cpu", 700),)))
    assert made(foretold([quota(hard)], work)) == {"web": (running, 3 - running)}


def test_pods_that_stand_count_and_stay() -> None:
    old = web("old", replicas=2)
    standing = tuple(ExistingPod(old.key, at, "n1", old.pod) for at in range(2))
    prediction = foretold([quota(("pods", 1))], old, web(), standing=standing)
    assert made(prediction) == {"old": (2, 0), "web": (0, 3)}


def test_older_workloads_are_made_first_whatever_their_priority() -> None:
    prediction = foretold([quota(("pods", 3))], web("first", 2), web("second", 2, priority=100))
    assert made(prediction) == {"first": (2, 0), "second": (1, 1)}


def test_a_quota_on_cpu_wants_every_container_to_say_how_much() -> None:
    prediction = foretold(
        [quota(("requests.cpu", 8000))], web(quota_figures=PodQuotaFields(unspecified=("requests.cpu",)))
    )
    (forecast,) = prediction.forecasts.values()
    assert forecast.rejection == "failed quota: compute: must specify requests.cpu for every container"


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
def test_a_quota_speaks_of_the_pods_in_its_scopes(scope: ResourceQuotaScope, running: int) -> None:
    work = web(quota_figures=PodQuotaFields(priority_class="high"))
    assert made(foretold([quota(("pods", 0), scopes=(scope,))], work)) == {"web": (running, 3 - running)}
    elsewhere = quota(("pods", 0), namespace="other")
    assert made(foretold([elsewhere], work)) == {"web": (3, 0)}


def test_what_is_not_made_is_said_in_kubernetes_words() -> None:
    cluster = Cluster("k", NODES, quotas=(quota(("requests.cpu", 1200)),))
    (warning,) = collect_pod_warnings(cluster, predict(cluster, (), [web()]))
    assert warning.kind == workload_warnings.NOT_MADE
    assert warning.detail == (
        "Deployment default/web: 1 of 3 pods would not be created: exceeded quota: compute, requested: "
        "requests.cpu=500m, used: requests.cpu=1, limited: requests.cpu=1200m."
    )


def test_pods_that_a_limit_range_forbids_are_not_made() -> None:
    work = replace(web(), admission_error="maximum cpu usage per Container is 1, but limit is 2")
    assert made(foretold([], work)) == {"web": (0, 3)}


def test_gated_pods_exist_and_nobody_looks_for_a_node() -> None:
    work = web(gates=("example.com/quota",))
    cluster = Cluster("k", NODES)
    prediction = predict(cluster, (), [work])
    assert [outcome.state for outcome in prediction.outcomes] == [PodState.GATED] * 3
    assert pending(prediction) == []
    again = predict(cluster, prediction.list_existing_pods(), [work])
    assert {(outcome.action, outcome.state) for outcome in again.outcomes} == {("keep", PodState.GATED)}
    (warning,) = collect_pod_warnings(cluster, prediction)
    assert warning.detail.endswith("SchedulingGated: scheduling is blocked by example.com/quota.")


def test_a_daemonset_without_any_node_is_said() -> None:
    tainted = tuple(replace(node, taints=(Taint("gpu", "", "NoSchedule"),)) for node in NODES)
    agent = replace(web("agent", 1), kind="DaemonSet")
    cluster = Cluster("k", tainted)
    (warning,) = collect_pod_warnings(cluster, predict(cluster, (), [agent]))
    assert warning.kind == workload_warnings.NOWHERE
    assert "it would get no pod: 0/2 nodes are available: 2 node(s) had untolerated" in warning.detail
    assert not collect_pod_warnings(Cluster("k", NODES), predict(Cluster("k", NODES), (), [agent]))


# --- rollouts -------------------------------------------------------------------------------------------


def rolled(most: int, kind: str = "Deployment", strategy: Strategy = Strategy.ROLLING, **more: Any) -> Prediction:
    """Two pods of an older template, where so many may be in their namespace."""
    work = replace(web(replicas=2, template="2"), kind=kind, strategy=strategy, **more)
    old = replace(work.pod, template="1")
    standing = tuple(ExistingPod(work.key, at, f"n{at + 1}", old) for at in range(2))
    return foretold([quota(("pods", most))], work, standing=standing)


def new_ones(prediction: Prediction) -> list[str]:
    return [o.name for o in prediction.outcomes if o.node and o.spec and o.spec.template == "2"]


def test_a_rollout_whose_surge_no_quota_admits_hangs() -> None:
    hung = rolled(2, max_surge=1, max_unavailable=0)
    assert new_ones(hung) == []
    (forecast,) = hung.forecasts.values()
    assert (running(hung, forecast.workload.key), forecast.is_blocked, forecast.uncreated) == (2, True, 1)
    (warning,) = collect_pod_warnings(Cluster("k", NODES), hung)
    assert warning.kind == workload_warnings.STUCK
    assert warning.detail == (
        "Deployment default/web: 1 new pod would not be created while the old pods run: exceeded quota: "
        "compute, requested: pods=1, used: pods=2, limited: pods=2."
    )
    # The next prediction finds the same.
    again = foretold([quota(("pods", 2))], forecast.workload, standing=hung.list_existing_pods())
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
def test_a_rollout_with_room_in_its_quota_gets_through(most: int, more: dict[str, Any]) -> None:
    through = rolled(most, **more)
    assert sorted(new_ones(through)) == ["web-0", "web-1"]
    assert not next(iter(through.forecasts.values())).is_blocked


def test_a_set_whose_new_pods_ask_for_too_much_stops_at_the_first() -> None:
    work = replace(web(replicas=2, cpu=900, template="2"), kind="StatefulSet")
    old = replace(web(cpu=500).pod, template="1")
    standing = tuple(ExistingPod(work.key, at, f"n{at + 1}", old) for at in range(2))
    limit = quota(("requests.cpu", 1000))
    first = foretold([limit], work, standing=standing)
    assert [(o.name, o.action) for o in first.outcomes] == [("web-0", "keep"), ("web-1", "remove")]
    assert next(iter(first.forecasts.values())).uncreated == 1
    again = foretold([limit], work, standing=first.list_existing_pods())
    assert [(o.name, o.action) for o in again.outcomes] == [("web-0", "keep")]
