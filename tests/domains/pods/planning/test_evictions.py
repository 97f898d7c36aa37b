"""Tests of plans with NoExecute taints.

Pods on VNF workers and on nodes from kubectl output are evicted.
"""

from __future__ import annotations

from nexusform.domains.pods.planning.object_pods import ObjectPods
from nexusform.domains.pods.scheduling.workload_warnings import (
    NO_EXECUTE_EVICTS,
    PENDING,
    WorkloadWarning,
)
from tests.domains.pods.importers.cluster_objects import build_node, build_pod
from tests.domains.pods.planning.test_cluster_observation import (
    NODES,
    WEB,
    build_configuration,
    list_places,
    plan_observed,
)
from tests.domains.pods.planning.test_pods import read_pod_changes
from tests.planning.harness import build_state_after, is_empty, list_warnings, require_success

DOWN = [{"key": "maintenance", "effect": "NoExecute"}]


def test_own_pods_are_evicted_from_tainted_node_in_kubectl_output() -> None:
    there = [build_pod("web-5d-x", "a-np-1", "1", owner=("ReplicaSet", "web-5d"), labels=WEB)]
    state = build_state_after(
        require_success(plan_observed(build_configuration(1), *NODES, *there))
    )
    tainted = (NODES[0], build_node("a-np-1", taints=DOWN))
    result = require_success(plan_observed(build_configuration(1), *tainted, *there, state=state))
    assert read_pod_changes(result) == {"web-0": ("move", "no_execute")}
    assert list_places(result) == {"web-0": "a-np-0"}
    (told,) = [each for each in list_warnings(result) if each.id == "no-execute-eviction"]
    assert "web-0 from a-np-1 (maintenance:NoExecute)" in told.detail
    # The files show the state before the eviction.
    state = build_state_after(result)
    assert is_empty(
        require_success(plan_observed(build_configuration(1), *tainted, *there, state=state))
    )


def test_evicted_unmanaged_pods_are_named() -> None:
    other = build_pod("dns-1", "a-np-1", "2", owner=("ReplicaSet", "dns-1"))
    full = build_pod("db-0", "a-np-0", "7", owner=("StatefulSet", "db"))
    tainted = (NODES[0], build_node("a-np-1", taints=DOWN))
    result = require_success(plan_observed(build_configuration(1), *tainted, other, full))
    assert read_pod_changes(result) == {"web-0": ("place", "new")}
    (told,) = [each for each in list_warnings(result) if each.id == "no-execute-eviction"]
    assert "dns" in told.detail


def test_each_workload_has_one_eviction_warning_after_several_passes() -> None:
    def build_eviction_warning(workload: str, detail: str) -> WorkloadWarning:
        return WorkloadWarning(NO_EXECUTE_EVICTS, workload, detail, "")

    brought = ObjectPods()
    pending = WorkloadWarning(PENDING, "a", "a-0 stays Pending", "")
    brought.update_warnings(
        [build_eviction_warning("a", "first"), build_eviction_warning("b", "first"), pending]
    )
    # b runs elsewhere now, and no pod is Pending.
    brought.update_warnings([build_eviction_warning("a", "second")])
    assert brought.warnings == (
        build_eviction_warning("a", "second"),
        build_eviction_warning("b", "first"),
    )
