"""Tests of observed claims in the output of kubectl.

They are lost claims, claims of others, and claims kept by a StatefulSet. The reasons are those of
kube-scheduler 1.34.4 and the controllers of its version for the same objects.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.domains.pods.importers.cluster_objects import DEFAULT_NAMESPACE, build_node, build_pod
from tests.domains.pods.planning.test_cluster_observation import DATA, plan_observed
from tests.domains.pods.planning.test_pods import (
    build_deployment,
    build_manifest,
    read_current_pods,
    read_pod_changes,
)
from tests.planning.harness import build_state_after, list_warnings, require_success

pytestmark = pytest.mark.of_domains("fleet")
MEMBER = (
    'resource "fleet_member_cluster" "m1" {\n  resources {\n    total = { cpu = "16" }\n  }\n}\n'
    + DATA.format(of='"m1"')
)
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
HOST = "kubernetes.io/hostname"
REST = (
    DEFAULT_NAMESPACE,
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "p"},
        "value": 5,
    },
    build_node("n0"),
    build_node("n1"),
    build_node("n2"),
)


def build_pvc(name: str, volume: str = "", phase: str = "Bound", **metadata: Any) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec |= {"storageClassName": "", **({"volumeName": volume} if volume else {})}
    metadata = {"name": name, "namespace": "default", **metadata}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": phase},
    }


def build_pv(
    name: str, on: str = "", claim: str = "", uid: str = "", size: str = "1Gi"
) -> dict[str, Any]:
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}}
    if on:
        terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [on]}]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if claim:
        spec["claimRef"] = {"namespace": "default", "name": claim, **({"uid": uid} if uid else {})}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": spec,
    }


def build_workload_with_claims(*claims: str) -> str:
    volumes = [
        {"name": f"v{at}", "persistentVolumeClaim": {"claimName": name}}
        for at, name in enumerate(claims)
    ]
    return MEMBER + build_manifest(
        "m", build_deployment("web", 1, spec={"volumes": volumes}), of='"m1"'
    )


LOST = 'persistentvolumeclaim "data" bound to non-existent persistentvolume "x"'
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([build_pvc("data", "x", "Lost", annotations=BOUND)], LOST),
        ([build_pvc("data", "x", "Lost", annotations=BOUND), build_pv("x", claim="other")], LOST),
        ([build_pvc("data", "x", annotations=BOUND)], 'persistentvolume "x" not found'),
        ([build_pvc("data", "x", "Pending")], UNBOUND),
        ([build_pvc("data", "x", "Pending"), build_pv("x", claim="other")], UNBOUND),
        ([build_pvc("data", "x", "Pending"), build_pv("x", size="1Mi")], UNBOUND),
        (
            [
                build_pvc("data", "x", annotations=BOUND, deletionTimestamp="2026-01-01T00:00:00Z"),
                build_pv("x"),
            ],
            'persistentvolumeclaim "data" is being deleted',
        ),
        # The volume belongs to a deleted claim of this name; no other claim gets it.
        (
            [build_pvc("data", phase="Pending", uid="new"), build_pv("x", claim="data", uid="old")],
            UNBOUND,
        ),
        ([], 'persistentvolumeclaim "data" not found'),
    ],
)
def test_claim_without_its_volume_leaves_pod_pending(
    objects: list[dict[str, Any]], reason: str
) -> None:
    result = require_success(plan_observed(build_workload_with_claims("data"), *REST, *objects))
    pending = read_current_pods(build_state_after(result))["web-0"]
    assert (pending["node"], pending["reason"]) == (None, f"0/3 nodes are available: {reason}.")
    told = {each.id: each for each in list_warnings(result)}
    assert told["pending-pods"].brief == f"default/web: 1 Pending: {reason}"


@pytest.mark.parametrize(
    ("phase", "volumes", "is_certain"),
    [("Bound", (), False), ("Bound", ("x",), True), ("Lost", (), True)],
)
def test_claim_without_its_volume_is_certain_only_if_lost(
    phase: str, volumes: tuple[str, ...], is_certain: bool
) -> None:
    """The phase of a claim is Lost if its volume is gone: otherwise the files lack the volume."""
    objects = [build_pvc("data", "x", phase, annotations=BOUND)]
    objects += [build_pv(name, on="n1", claim="data") for name in volumes]
    result = require_success(plan_observed(build_workload_with_claims("data"), *REST, *objects))
    (pod,) = [row for row in result.plan.placements if row.kind == "pod"]
    assert pod.scores["certain"] is is_certain, pod.scores
    assert ("storage-not-listed" in {item.id for item in list_warnings(result)}) is not is_certain


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        (("named", "data", "missing"), 'persistentvolumeclaim "missing" not found'),
        (("going", "data"), 'persistentvolumeclaim "going" is being deleted'),
        (("named", "data"), LOST),
        (("orphan", "named"), UNBOUND),
    ],
)
def test_first_failed_check_is_the_reason(claims: tuple[str, ...], reason: str) -> None:
    objects = [
        build_pvc("data", "x", "Lost", annotations=BOUND),
        build_pvc("named", "y", "Pending"),
        build_pvc("going", "z", annotations=BOUND, deletionTimestamp="2026-01-01T00:00:00Z"),
        build_pvc("orphan", "w", annotations=BOUND),
        build_pv("z"),
    ]
    result = require_success(plan_observed(build_workload_with_claims(*claims), *REST, *objects))
    assert (
        read_current_pods(build_state_after(result))["web-0"]["reason"]
        == f"0/3 nodes are available: {reason}."
    )


def build_stateful_set(replicas: int) -> str:
    template = {"metadata": {"name": "data"}, "spec": build_pvc("data")["spec"]}
    spec = {
        "replicas": replicas,
        "serviceName": "db",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "db"}},
        "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
            },
        },
        "volumeClaimTemplates": [template],
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": spec,
    }
    body["metadata"] = {"name": "db", "namespace": "default"}
    return MEMBER + build_manifest("m", json.dumps(body), of='"m1"')


def test_stateful_pod_returns_to_volume_of_its_kept_claim() -> None:
    objects = [
        *(build_pvc(f"data-db-{at}", f"v{at}", annotations=BOUND, uid=f"u{at}") for at in range(3)),
        build_pvc("data-db-3", "v3", "Lost", annotations=BOUND),
        *(build_pv(f"v{at}", f"n{2 - at}", f"data-db-{at}", f"u{at}") for at in range(3)),
        # Its claim is deleted, so no claim gets it.
        build_pv("v4", "n0", "data-db-4", "u4"),
    ]
    result = require_success(plan_observed(build_stateful_set(5), *REST, *objects))
    found = read_current_pods(build_state_after(result))
    assert [found[f"db-{at}"]["node"] for at in range(5)] == ["n2", "n1", "n0", None, None]
    assert 'persistentvolumeclaim "data-db-3" bound to non-existent' in found["db-3"]["reason"]
    assert UNBOUND in found["db-4"]["reason"]


# --- preemption and disruption budgets -----------------------------------------------------------


def build_budget(allowed: int | None, at_least: int = 1) -> dict[str, Any]:
    spec = {"minAvailable": at_least, "selector": {"matchLabels": {"app": "old"}}}
    status = (
        {} if allowed is None else {"status": {"disruptionsAllowed": allowed, "expectedPods": 2}}
    )
    metadata = {"name": "b", "namespace": "default"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": spec,
    } | status


@pytest.mark.parametrize(
    ("allowed", "evicted_from"),
    # One of two pods must stay, so one may be evicted, unless their controller reports that one
    # is not ready.
    [(None, "n0"), (1, "n0"), (0, "n2")],
)
def test_victims_respect_allowed_disruptions_of_a_budget(
    allowed: int | None, evicted_from: str
) -> None:
    there = [
        build_pod(
            "old-x", "n0", "8", owner=("ReplicaSet", "old-1"), labels={"app": "old"}, priority=0
        ),
        build_pod(
            "old-y", "n1", "8", owner=("ReplicaSet", "old-1"), labels={"app": "old"}, priority=0
        ),
        build_pod(
            "other", "n2", "8", owner=("ReplicaSet", "other-1"), labels={"app": "other"}, priority=1
        ),
    ]
    text = MEMBER + build_manifest(
        "m", build_deployment("web", 1, cpu="6", spec={"priorityClassName": "p"}), of='"m1"'
    )
    result = require_success(plan_observed(text, *REST, *there, build_budget(allowed)))
    went = read_current_pods(build_state_after(result))["web-0"]["node"]
    assert (went in ("n0", "n1")) == (evicted_from == "n0")
    assert read_pod_changes(result)["web-0"] == ("place", "new")


@pytest.mark.parametrize(
    ("let_go", "evicted_from"),
    # A budget no longer applies to a pod after it allowed the disruption of that pod.
    [((), "n2"), (("old-x",), "n0"), (("old-y",), "n1"), (("another",), "n2")],
)
def test_already_allowed_disruptions_are_no_violation(
    let_go: tuple[str, ...], evicted_from: str
) -> None:
    there = [
        build_pod(
            "old-x", "n0", "8", owner=("ReplicaSet", "old-1"), labels={"app": "old"}, priority=0
        ),
        build_pod(
            "old-y", "n1", "8", owner=("ReplicaSet", "old-1"), labels={"app": "old"}, priority=0
        ),
        build_pod(
            "other", "n2", "8", owner=("ReplicaSet", "other-1"), labels={"app": "other"}, priority=1
        ),
    ]
    spared = build_budget(0)
    spared["status"]["disruptedPods"] = dict.fromkeys(let_go, "2026-11-22T00:00:00Z")
    text = MEMBER + build_manifest(
        "m", build_deployment("web", 1, cpu="6", spec={"priorityClassName": "p"}), of='"m1"'
    )
    result = require_success(plan_observed(text, *REST, *there, spared))
    assert read_current_pods(build_state_after(result))["web-0"]["node"] == evicted_from
