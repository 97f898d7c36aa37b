"""Claims of a cluster as kubectl printed it: lost ones, those of others, and those that a StatefulSet kept.

What kube-scheduler 1.34.4 with the controllers of its version said of the same objects.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.domains.pods.importers.cluster_objects import node, pod
from tests.domains.pods.planning.test_cluster_observation import DATA, seen
from tests.domains.pods.planning.test_pods import deployment, manifest, pods, standing
from tests.planning.harness import applied, good, warnings

pytestmark = pytest.mark.of_domains("fleet")
MEMBER = 'resource "fleet_member_cluster" "m1" {\n  resources {\n    total = { cpu = "16" }\n  }\n}\n' + DATA.format(
    of='"m1"'
)
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
HOST = "kubernetes.io/hostname"
REST = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}},
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "p"}, "value": 5},
    node("n0"),
    node("n1"),
    node("n2"),
)


def pvc(name: str, volume: str = "", phase: str = "Bound", **metadata: Any) -> dict[str, Any]:
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


def pv(name: str, on: str = "", claim: str = "", uid: str = "", size: str = "1Gi") -> dict[str, Any]:
    spec: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}}
    if on:
        terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [on]}]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if claim:
        spec["claimRef"] = {"namespace": "default", "name": claim, **({"uid": uid} if uid else {})}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def with_claims(*claims: str) -> str:
    volumes = [{"name": f"v{at}", "persistentVolumeClaim": {"claimName": name}} for at, name in enumerate(claims)]
    return MEMBER + manifest("m", deployment("web", 1, spec={"volumes": volumes}), of='"m1"')


LOST = 'persistentvolumeclaim "data" bound to non-existent persistentvolume "x"'
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


@pytest.mark.parametrize(
    ("objects", "reason"),
    [
        ([pvc("data", "x", "Lost", annotations=BOUND)], LOST),
        ([pvc("data", "x", "Lost", annotations=BOUND), pv("x", claim="other")], LOST),
        ([pvc("data", "x", annotations=BOUND)], 'persistentvolume "x" not found'),
        ([pvc("data", "x", "Pending")], UNBOUND),
        ([pvc("data", "x", "Pending"), pv("x", claim="other")], UNBOUND),
        ([pvc("data", "x", "Pending"), pv("x", size="1Mi")], UNBOUND),
        (
            [pvc("data", "x", annotations=BOUND, deletionTimestamp="2026-01-01T00:00:00Z"), pv("x")],
            'persistentvolumeclaim "data" is being deleted',
        ),
        # The volume is that of a claim of this name that is gone; nobody else has one.
        ([pvc("data", phase="Pending", uid="new"), pv("x", claim="data", uid="old")], UNBOUND),
        ([], 'persistentvolumeclaim "data" not found'),
    ],
)
def test_a_claim_without_its_volume_leaves_the_pod_pending(objects: list[dict[str, Any]], reason: str) -> None:
    result = good(seen(with_claims("data"), *REST, *objects))
    pending = standing(applied(result))["web-0"]
    assert (pending["node"], pending["reason"]) == (None, f"0/3 nodes are available: {reason}.")
    told = {each.id: each for each in warnings(result)}
    assert told["pending-pods"].brief == f"default/web: 1 Pending: {reason}"


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        (("named", "data", "missing"), 'persistentvolumeclaim "missing" not found'),
        (("going", "data"), 'persistentvolumeclaim "going" is being deleted'),
        (("named", "data"), LOST),
        (("orphan", "named"), UNBOUND),
    ],
)
def test_what_the_scheduler_looks_at_first_is_said(claims: tuple[str, ...], reason: str) -> None:
    objects = [
        pvc("data", "x", "Lost", annotations=BOUND),
        pvc("named", "y", "Pending"),
        pvc("going", "z", annotations=BOUND, deletionTimestamp="2026-01-01T00:00:00Z"),
        pvc("orphan", "w", annotations=BOUND),
        pv("z"),
    ]
    result = good(seen(with_claims(*claims), *REST, *objects))
    assert standing(applied(result))["web-0"]["reason"] == f"0/3 nodes are available: {reason}."


def stateful(replicas: int) -> str:
    template = {"metadata": {"name": "data"}, "spec": pvc("data")["spec"]}
    spec = {
        "replicas": replicas,
        "serviceName": "db",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {"app": "db"}},
        "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
        },
        "volumeClaimTemplates": [template],
    }
    body = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": spec}
    body["metadata"] = {"name": "db", "namespace": "default"}
    return MEMBER + manifest("m", json.dumps(body), of='"m1"')


def test_a_stateful_pod_comes_back_to_the_volume_that_its_claim_kept() -> None:
    objects = [
        *(pvc(f"data-db-{at}", f"v{at}", annotations=BOUND, uid=f"u{at}") for at in range(3)),
        pvc("data-db-3", "v3", "Lost", annotations=BOUND),
        *(pv(f"v{at}", f"n{2 - at}", f"data-db-{at}", f"u{at}") for at in range(3)),
        # The claim that had it is deleted: nobody gets it.
        pv("v4", "n0", "data-db-4", "u4"),
    ]
    result = good(seen(stateful(5), *REST, *objects))
    found = standing(applied(result))
    assert [found[f"db-{at}"]["node"] for at in range(5)] == ["n2", "n1", "n0", None, None]
    assert 'persistentvolumeclaim "data-db-3" bound to non-existent' in found["db-3"]["reason"]
    assert UNBOUND in found["db-4"]["reason"]


# --- what may be evicted -------------------------------------------------------------------------


def budget(allowed: int | None, at_least: int = 1) -> dict[str, Any]:
    spec = {"minAvailable": at_least, "selector": {"matchLabels": {"app": "old"}}}
    status = {} if allowed is None else {"status": {"disruptionsAllowed": allowed, "expectedPods": 2}}
    metadata = {"name": "b", "namespace": "default"}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec} | status


@pytest.mark.parametrize(
    ("allowed", "evicted_from"),
    # Two pods of which one has to stay let one go, unless their controller says that one is not ready.
    [(None, "n0"), (1, "n0"), (0, "n2")],
)
def test_victims_are_chosen_by_what_a_budget_says_that_it_lets_go(allowed: int | None, evicted_from: str) -> None:
    there = [
        pod("old-x", "n0", "8", owner=("ReplicaSet", "old-1"), labels={"app": "old"}, priority=0),
        pod("old-y", "n1", "8", owner=("ReplicaSet", "old-1"), labels={"app": "old"}, priority=0),
        pod("other", "n2", "8", owner=("ReplicaSet", "other-1"), labels={"app": "other"}, priority=1),
    ]
    text = MEMBER + manifest("m", deployment("web", 1, cpu="6", spec={"priorityClassName": "p"}), of='"m1"')
    result = good(seen(text, *REST, *there, budget(allowed)))
    went = standing(applied(result))["web-0"]["node"]
    assert (went in ("n0", "n1")) == (evicted_from == "n0")
    assert pods(result)["web-0"] == ("place", "new")


@pytest.mark.parametrize(
    ("let_go", "evicted_from"),
    # A budget that has let a pod go, which is still there, has no say in it any more.
    [((), "n2"), (("old-x",), "n0"), (("old-y",), "n1"), (("another",), "n2")],
)
def test_pods_that_a_budget_has_let_go_are_no_violation(let_go: tuple[str, ...], evicted_from: str) -> None:
    there = [
        pod("old-x", "n0", "8", owner=("ReplicaSet", "old-1"), labels={"app": "old"}, priority=0),
        pod("old-y", "n1", "8", owner=("ReplicaSet", "old-1"), labels={"app": "old"}, priority=0),
        pod("other", "n2", "8", owner=("ReplicaSet", "other-1"), labels={"app": "other"}, priority=1),
    ]
    spared = budget(0)
    spared["status"]["disruptedPods"] = dict.fromkeys(let_go, "2026-11-22T00:00:00Z")
    text = MEMBER + manifest("m", deployment("web", 1, cpu="6", spec={"priorityClassName": "p"}), of='"m1"')
    result = good(seen(text, *REST, *there, spared))
    assert standing(applied(result))["web-0"]["node"] == evicted_from
