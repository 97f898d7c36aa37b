"""Tests of the Deployment in the hardware-aware affinity specification.

It is parsed exactly as printed.
"""

from __future__ import annotations

import pytest

from nexusform.domains.pods.importers.kubernetes_workloads import collect_workloads
from nexusform.domains.pods.importers.manifest_parser import parse_manifests
from nexusform.domains.pods.scheduling.cluster_records import Cluster, Node, Workload
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.pod_warnings import collect_pod_warnings
from nexusform.domains.pods.scheduling.workload_warnings import (
    DEADLOCK,
    PENDING,
    SHARED_MACHINE,
    STUCK,
    TOO_MANY,
)
from tests.domains.pods.scheduling.outcomes import list_pending_pods

KEY = "default/Deployment/redis-cache"
REQUIRED = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: redis-cache
spec:
  selector:
    matchLabels:
      app: store
  replicas: 2
  template:
    metadata:
      labels:
        app: store
    spec:
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - labelSelector:
              matchExpressions:
              - key: app
                operator: In
                values:
                - store
            topologyKey: kubernetes.io/zone
      containers:
      - name: redis-server
        image: redis:3.2-alpine
"""
PREFERRED = REQUIRED.replace(
    """\
          requiredDuringSchedulingIgnoredDuringExecution:
          - labelSelector:
              matchExpressions:
              - key: app
                operator: In
                values:
                - store
            topologyKey: kubernetes.io/zone
""",
    """\
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            podAffinityTerm:
              labelSelector:
                matchLabels:
                  app: store
              topologyKey: kubernetes.io/zone
""",
)


def read_workloads(text: str = REQUIRED) -> list[Workload]:
    manifests = parse_manifests("redis.yaml", text)
    assert manifests.findings == ()
    reading = collect_workloads(manifests.manifests)
    assert reading.findings == ()
    return list(reading.workloads)


def build_workers(*servers: str) -> Cluster:
    nodes = []
    for number, server in enumerate(servers, 1):
        name = f"Worker{number:02}"
        labels = {"kubernetes.io/hostname": name, "kubernetes.io/zone": server, "CIS-node": server}
        nodes.append(Node(name, labels, cpu=4000, memory=8 << 30, machine=server))
    return Cluster("vnf-a", tuple(nodes))


@pytest.mark.parametrize("seed", range(5))
def test_two_servers_run_one_pod_each(seed: int) -> None:
    cluster = build_workers("Compute01", "Compute02")
    prediction = predict(cluster, (), read_workloads(), seed=seed)
    forecast = prediction.forecasts[KEY]
    assert forecast.per_machine == {"Compute01": 1, "Compute02": 1}
    assert (
        forecast.placeable_range.minimum,
        forecast.placeable_range.maximum,
        forecast.placeable_range.is_exact,
    ) == (2, 2, True)
    assert [o.name for o in prediction.outcomes] == ["redis-cache-0", "redis-cache-1"]
    # kube-scheduler samples the assignment of pods to servers.
    assert [o.is_certain for o in prediction.outcomes] == [False, False]
    assert [w.kind for w in collect_pod_warnings(cluster, prediction)] == [DEADLOCK]


@pytest.mark.parametrize("seed", range(5))
def test_one_server_leaves_second_pod_pending(seed: int) -> None:
    cluster = build_workers("Compute01", "Compute01")
    prediction = predict(cluster, (), read_workloads(), seed=seed)
    (waiting,) = list_pending_pods(prediction)
    assert waiting.name == "redis-cache-1"
    assert (
        waiting.reason == "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
    )
    forecast = prediction.forecasts[KEY]
    assert (
        forecast.placeable_range.minimum,
        forecast.placeable_range.maximum,
        forecast.placeable_range.is_exact,
    ) == (1, 1, True)
    assert {w.kind for w in collect_pod_warnings(cluster, prediction)} == {
        TOO_MANY,
        DEADLOCK,
        PENDING,
    }


def test_preferred_rule_places_both_on_one_server_with_warning() -> None:
    cluster = build_workers("Compute01", "Compute01")
    prediction = predict(cluster, (), read_workloads(PREFERRED))
    assert list_pending_pods(prediction) == []
    (warning,) = collect_pod_warnings(cluster, prediction)
    assert (warning.kind, warning.location) == (SHARED_MACHINE, "Compute01")
    assert "only preferred" in warning.detail


def test_preferred_rule_uses_second_server() -> None:
    prediction = predict(
        build_workers("Compute01", "Compute01", "Compute02"), (), read_workloads(PREFERRED)
    )
    assert prediction.forecasts[KEY].per_machine == {"Compute01": 1, "Compute02": 1}


def test_hostname_anti_affinity_has_risk_named_in_specification() -> None:
    cluster = build_workers("Compute01", "Compute01")
    by_host = read_workloads(
        REQUIRED.replace("topologyKey: kubernetes.io/zone", "topologyKey: kubernetes.io/hostname")
    )
    prediction = predict(cluster, (), by_host)
    assert list_pending_pods(prediction) == []
    warning = collect_pod_warnings(cluster, prediction)[0]
    assert (warning.kind, warning.location) == (SHARED_MACHINE, "Compute01")
    assert "2 of 2 pods (redis-cache-0, redis-cache-1)" in warning.detail
    assert "CIS-node" in warning.detail


def test_new_image_blocks_rollout_as_warned_and_next_plan_is_unchanged() -> None:
    cluster = build_workers("Compute01", "Compute02")
    before = predict(cluster, (), read_workloads())
    newer = read_workloads(REQUIRED.replace("3.2", "4.0"))
    hung = predict(cluster, before.list_existing_pods(), newer)
    assert [(o.action, o.node != "") for o in hung.list_outcomes(KEY)] == [
        ("keep", True),
        ("keep", True),
        ("place", False),
    ]
    assert hung.forecasts[KEY].is_blocked
    assert STUCK in {w.kind for w in collect_pod_warnings(cluster, hung)}
    again = predict(cluster, hung.list_existing_pods(), newer)
    assert {o.action for o in again.outcomes} == {"keep"}
    assert again.list_existing_pods() == hung.list_existing_pods()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("  replicas: 2\n", "  replicas: 2\n  strategy: {rollingUpdate: {maxUnavailable: 1}}\n"),
        (
            "            topologyKey:",
            "            matchLabelKeys: [pod-template-hash]\n            topologyKey:",
        ),
    ],
)
def test_fix_proposed_in_warning_works(old: str, new: str) -> None:
    cluster = build_workers("Compute01", "Compute02")
    text = REQUIRED.replace(old, new)
    before = predict(cluster, (), read_workloads(text))
    assert collect_pod_warnings(cluster, before) == ()
    after = predict(
        cluster, before.list_existing_pods(), read_workloads(text.replace("3.2", "4.0"))
    )
    assert list_pending_pods(after) == []
    assert not after.forecasts[KEY].is_blocked
    assert after.forecasts[KEY].per_machine == {"Compute01": 1, "Compute02": 1}
    assert {o.trigger for o in after.outcomes} == {"template_changed"}
    assert [o.name for o in after.outcomes] == ["redis-cache-0", "redis-cache-1"]
