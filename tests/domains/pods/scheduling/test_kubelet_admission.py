"""Tests of kubelet admission: a pod with a node runs, or it is Failed and uses no capacity."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.scheduling.cluster_records import (
    Cluster,
    ExistingPod,
    HostPort,
    Node,
    PodSpec,
    PodState,
    Requests,
    Workload,
)
from nexusform.domains.pods.scheduling.kubelet_admission import NodeNumaCells, compute_cells
from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.kubernetes.matching import Taint
from nexusform.scheduling.kubelet import TopologyPolicy

GPU = "nvidia.com/gpu"
SINGLE = TopologyPolicy.SINGLE_NUMA_NODE
RESTRICTED = TopologyPolicy.RESTRICTED


def build_node(name: str = "n", **more: Any) -> Node:
    return Node(name, {"kubernetes.io/os": "linux"}, cpu=4000, memory=4 << 30, **more)


def build_node_with_two_cells(
    policy: TopologyPolicy = SINGLE, gpus: tuple[int, ...] = (1, 1)
) -> Node:
    cells = compute_cells(8, frozenset({0}), {GPU: gpus}, 2)
    return Node(
        "n", cpu=7000, memory=64 << 30, other_resources={GPU: sum(gpus)}, policy=policy, cells=cells
    )


def predict_pods(
    spec: PodSpec, *nodes: Node, standing: tuple[ExistingPod, ...] = (), pods: int = 1
) -> list[PodOutcome]:
    kind = "Pod" if pods == 1 else "ReplicaSet"
    return list(
        predict(
            Cluster("c", nodes), standing, [Workload(kind, "default", "p", pods, spec)]
        ).outcomes
    )


def list_states(spec: PodSpec, *nodes: Node, **more: Any) -> list[str]:
    return [str(outcome.state) for outcome in predict_pods(spec, *nodes, **more)]


@pytest.mark.parametrize(
    ("spec", "more", "reason"),
    [
        (PodSpec(requests=Requests(cpu=5000)), {}, "OutOfcpu"),
        (PodSpec(requests=Requests(memory=5 << 30)), {}, "OutOfmemory"),
        (
            PodSpec(requests=Requests(other_resources=((GPU, 2),))),
            {"other_resources": {GPU: 1}},
            f"OutOf{GPU}",
        ),
        (PodSpec(node_selector=(("disk", "ssd"),)), {}, "NodeAffinity"),
        (
            PodSpec(node_selector=(("kubernetes.io/os", "windows"),)),
            {},
            "PodOSSelectorNodeLabelDoesNotMatch",
        ),
        (PodSpec(), {"taints": (Taint("t", "", "NoExecute"),)}, "TaintToleration"),
        (PodSpec(), {"pods": 0}, "OutOfpods"),
    ],
)
def test_pod_with_node_name_is_failed_if_kubelet_rejects_it(
    spec: PodSpec, more: dict[str, Any], reason: str
) -> None:
    (outcome,) = predict_pods(_set_node_name(spec), build_node(**more), build_node("other"))
    assert (outcome.state, outcome.node) == (PodState.FAILED, "")
    assert outcome.reason.startswith(f"on n: {reason}")
    assert not outcome.is_pending


def _set_node_name(spec: PodSpec, name: str = "n") -> PodSpec:
    return PodSpec(requests=spec.requests, node_selector=spec.node_selector, node_name=name)


def test_kubelet_skips_checks_of_kube_scheduler() -> None:
    cordoned = build_node(taints=(Taint("t", "", "NoSchedule"),), unschedulable=True)
    assert list_states(_set_node_name(PodSpec()), cordoned) == ["Scheduled"]
    # kubelet ignores a resource the node does not offer at all.
    assert list_states(
        _set_node_name(PodSpec(requests=Requests(other_resources=((GPU, 1),)))), build_node()
    ) == ["Scheduled"]


def test_port_conflict_and_missing_node_are_reported() -> None:
    web = PodSpec(node_name="n", host_ports=(HostPort(80),))
    there = ExistingPod("default/Deployment/other", 0, "n", PodSpec(host_ports=(HostPort(80),)))
    assert "NodePorts" in predict_pods(web, build_node(), standing=(there,))[0].reason
    assert (
        predict_pods(_set_node_name(PodSpec(), "gone"), build_node())[0].reason
        == "on gone: no such node."
    )


def test_failed_pod_uses_no_capacity() -> None:
    spec = PodSpec(requests=Requests(cpu=3000), node_name="n")
    assert list_states(spec, build_node(), pods=3) == ["Scheduled", "Failed", "Failed"]


# --- NUMA cells --------------------------------------------------------------------------------


def build_exclusive_spec(cpus: int, gpus: int = 0, node_name: str = "") -> PodSpec:
    wants = (("cpu", cpus), *(((GPU, gpus),) if gpus else ()))
    others = ((GPU, gpus),) if gpus else ()
    return PodSpec(
        requests=Requests(1000 * cpus, other_resources=others),
        aligned_requests=(wants,),
        node_name=node_name,
    )


def test_single_numa_node_limits_pod_to_one_cell() -> None:
    # Cell 0 has CPUs 1 to 3, cell 1 has 4 to 7.
    assert list_states(build_exclusive_spec(4), build_node_with_two_cells()) == ["Scheduled"]
    (outcome,) = predict_pods(build_exclusive_spec(5), build_node_with_two_cells())
    assert outcome.state is PodState.FAILED
    assert "TopologyAffinityError" in outcome.reason
    assert list_states(build_exclusive_spec(3), build_node_with_two_cells(), pods=2) == [
        "Scheduled",
        "Scheduled",
    ]
    assert list_states(build_exclusive_spec(2), build_node_with_two_cells(), pods=3) == [
        "Scheduled",
        "Scheduled",
        "Scheduled",
    ]


def test_devices_come_from_cell_of_cpus() -> None:
    assert list_states(build_exclusive_spec(4, 1), build_node_with_two_cells(gpus=(1, 0))) == [
        "Failed"
    ]
    assert list_states(build_exclusive_spec(3, 1), build_node_with_two_cells(gpus=(1, 0))) == [
        "Scheduled"
    ]
    assert list_states(build_exclusive_spec(4, 1), build_node_with_two_cells(gpus=(1,))) == [
        "Failed"
    ]


def test_restricted_policy_requires_narrowest_cell_set() -> None:
    # Five CPUs never fit into one cell, so two are the narrowest; a GPU fits into one.
    assert list_states(build_exclusive_spec(5), build_node_with_two_cells(RESTRICTED)) == [
        "Scheduled"
    ]
    assert list_states(build_exclusive_spec(5, 1), build_node_with_two_cells(RESTRICTED)) == [
        "Failed"
    ]
    # Two pods of two CPUs take cell 0 and cell 1 in part; four CPUs would then need both.
    assert (
        list_states(build_exclusive_spec(4), build_node_with_two_cells(RESTRICTED), pods=2)[0]
        == "Scheduled"
    )
    there = ExistingPod("default/Deployment/o", 0, "n", build_exclusive_spec(1))
    beside = ExistingPod("default/Deployment/o", 1, "n", build_exclusive_spec(3))
    assert list_states(
        build_exclusive_spec(3), build_node_with_two_cells(RESTRICTED), standing=(there, beside)
    ) == ["Failed"]


def test_cells_do_not_matter_without_topology_policy() -> None:
    free = Node("n", cpu=7000, memory=64 << 30, policy=TopologyPolicy.BEST_EFFORT)
    assert list_states(build_exclusive_spec(7), free) == ["Scheduled"]


def test_kube_scheduler_ignores_cells() -> None:
    # It picks the emptier node, and kubelet rejects the pod there; the other node would
    # have run it.
    narrow = build_node_with_two_cells()
    wide = Node("w", cpu=6000, memory=64 << 30, other_resources={GPU: 2})
    spec = build_exclusive_spec(5)
    assert predict_pods(spec, narrow, wide)[0].state is PodState.FAILED


def test_removed_pod_frees_its_cell() -> None:
    old = PodSpec(requests=Requests(4000), aligned_requests=((("cpu", 4),),), template="old")
    new = PodSpec(requests=Requests(4000), aligned_requests=((("cpu", 4),),), template="new")
    standing = (ExistingPod("default/Deployment/p", 0, "n", old),)
    workload = Workload("Deployment", "default", "p", 1, new, max_surge=0, max_unavailable=1)
    (outcome,) = predict(
        Cluster("c", (build_node_with_two_cells(),)), standing, [workload]
    ).outcomes
    assert outcome.state is PodState.SCHEDULED


# --- reasons of Pending pods -------------------------------------------------------------------


def predict_reason(**spec: Any) -> str:
    return predict_pods(PodSpec(**spec), build_node(), build_node("m"))[0].reason


def test_missing_label_or_resource_is_named() -> None:
    assert predict_reason(node_selector=(("kubernetes.io/os", "windows"),)).endswith(
        "No node has the label kubernetes.io/os=windows (there is linux)."
    )
    assert predict_reason(node_selector=(("disk", "ssd"),)).endswith(
        "No node has the label disk=ssd."
    )
    assert predict_reason(requests=Requests(other_resources=(("intel.com/sriov", 1),))).endswith(
        "2 Insufficient intel.com/sriov. No node has the resource intel.com/sriov."
    )
    assert (
        predict_reason(requests=Requests(cpu=9000))
        == "0/2 nodes are available: 2 Insufficient cpu."
    )


def test_end_of_a_terminating_pod_frees_its_cells() -> None:
    cells = NodeNumaCells(build_node_with_two_cells())
    spec = PodSpec(aligned_requests=(((GPU, 1),),))
    assert [cells.allocate(spec), cells.allocate(spec)] == ["", ""]
    assert cells.allocate(spec) != ""
    cells.release(replace(spec, is_terminating=True))
    assert cells.allocate(spec) == ""
