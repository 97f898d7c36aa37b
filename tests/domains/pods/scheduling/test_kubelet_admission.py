"""What kubelet says to a pod that has a node: it runs, or it is Failed and holds nothing."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.domains.pods.scheduling.kubelet_admission import compute_cells
from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.workloads import (
    Cluster,
    ExistingPod,
    HostPort,
    Node,
    PodSpec,
    PodState,
    Requests,
    Workload,
)
from nexusform.kubernetes.matching import Taint
from nexusform.scheduling.kubelet import TopologyPolicy

GPU = "nvidia.com/gpu"
SINGLE, RESTRICTED = TopologyPolicy.SINGLE_NUMA_NODE, TopologyPolicy.RESTRICTED


def node(name: str = "n", **more: Any) -> Node:
    return Node(name, {"kubernetes.io/os": "linux"}, cpu=4000, memory=4 << 30, **more)


def two_cells(policy: TopologyPolicy = SINGLE, gpus: tuple[int, ...] = (1, 1)) -> Node:
    cells = compute_cells(8, frozenset({0}), {GPU: gpus}, 2)
    return Node("n", cpu=7000, memory=64 << 30, other_resources={GPU: sum(gpus)}, policy=policy, cells=cells)


def run(spec: PodSpec, *nodes: Node, standing: tuple[ExistingPod, ...] = (), pods: int = 1) -> list[PodOutcome]:
    kind = "Pod" if pods == 1 else "ReplicaSet"
    return list(predict(Cluster("c", nodes), standing, [Workload(kind, "default", "p", pods, spec)]).outcomes)


def states(spec: PodSpec, *nodes: Node, **more: Any) -> list[str]:
    return [str(outcome.state) for outcome in run(spec, *nodes, **more)]


@pytest.mark.parametrize(
    ("spec", "more", "reason"),
    [
        (PodSpec(requests=Requests(cpu=5000)), {}, "OutOfcpu"),
        (PodSpec(requests=Requests(memory=5 << 30)), {}, "OutOfmemory"),
        (PodSpec(requests=Requests(other_resources=((GPU, 2),))), {"other_resources": {GPU: 1}}, f"OutOf{GPU}"),
        (PodSpec(node_selector=(("disk", "ssd"),)), {}, "NodeAffinity"),
        (PodSpec(node_selector=(("kubernetes.io/os", "windows"),)), {}, "PodOSSelectorNodeLabelDoesNotMatch"),
        (PodSpec(), {"taints": (Taint("t", "", "NoExecute"),)}, "TaintToleration"),
        (PodSpec(), {"pods": 0}, "OutOfpods"),
    ],
)
def test_a_pod_that_names_its_node_is_failed_where_kubelet_refuses_it(
    spec: PodSpec, more: dict[str, Any], reason: str
) -> None:
    (outcome,) = run(_bound(spec), node(**more), node("other"))
    assert (outcome.state, outcome.node) == (PodState.FAILED, "")
    assert outcome.reason.startswith(f"on n: {reason}")
    assert not outcome.is_pending


def _bound(spec: PodSpec, name: str = "n") -> PodSpec:
    return PodSpec(requests=spec.requests, node_selector=spec.node_selector, node_name=name)


def test_what_kube_scheduler_would_ask_is_not_asked() -> None:
    cordoned = node(taints=(Taint("t", "", "NoSchedule"),), unschedulable=True)
    assert states(_bound(PodSpec()), cordoned) == ["Scheduled"]
    # A resource that the node does not offer at all is left out by kubelet.
    assert states(_bound(PodSpec(requests=Requests(other_resources=((GPU, 1),)))), node()) == ["Scheduled"]


def test_ports_and_nodes_that_are_not_there() -> None:
    web = PodSpec(node_name="n", host_ports=(HostPort(80),))
    there = ExistingPod("default/Deployment/other", 0, "n", PodSpec(host_ports=(HostPort(80),)))
    assert "NodePorts" in run(web, node(), standing=(there,))[0].reason
    assert run(_bound(PodSpec(), "gone"), node())[0].reason == "on gone: no such node."


def test_a_failed_pod_holds_nothing() -> None:
    spec = PodSpec(requests=Requests(cpu=3000), node_name="n")
    assert states(spec, node(), pods=3) == ["Scheduled", "Failed", "Failed"]


# --- NUMA cells --------------------------------------------------------------------------------


def exclusive(cpus: int, gpus: int = 0, node_name: str = "") -> PodSpec:
    wants = (("cpu", cpus), *(((GPU, gpus),) if gpus else ()))
    others = ((GPU, gpus),) if gpus else ()
    return PodSpec(
        requests=Requests(1000 * cpus, other_resources=others), aligned_requests=(wants,), node_name=node_name
    )


def test_single_numa_node_takes_what_one_cell_has() -> None:
    # Cell 0 has CPUs 1 to 3, cell 1 has 4 to 7.
    assert states(exclusive(4), two_cells()) == ["Scheduled"]
    (outcome,) = run(exclusive(5), two_cells())
    assert outcome.state is PodState.FAILED
    assert "TopologyAffinityError" in outcome.reason
    assert states(exclusive(3), two_cells(), pods=2) == ["Scheduled", "Scheduled"]
    assert states(exclusive(2), two_cells(), pods=3) == ["Scheduled", "Scheduled", "Scheduled"]


def test_devices_come_from_the_cell_of_the_cpus() -> None:
    assert states(exclusive(4, 1), two_cells(gpus=(1, 0))) == ["Failed"]
    assert states(exclusive(3, 1), two_cells(gpus=(1, 0))) == ["Scheduled"]
    assert states(exclusive(4, 1), two_cells(gpus=(1,))) == ["Failed"]


def test_restricted_takes_the_narrowest_set_or_none() -> None:
    # Five CPUs never fit into one cell, so two are the narrowest; a GPU fits into one.
    assert states(exclusive(5), two_cells(RESTRICTED)) == ["Scheduled"]
    assert states(exclusive(5, 1), two_cells(RESTRICTED)) == ["Failed"]
    # Two pods of two CPUs take cell 0 and cell 1 in part; four CPUs would then need both.
    assert states(exclusive(4), two_cells(RESTRICTED), pods=2)[0] == "Scheduled"
    there = ExistingPod("default/Deployment/o", 0, "n", exclusive(1))
    beside = ExistingPod("default/Deployment/o", 1, "n", exclusive(3))
    assert states(exclusive(3), two_cells(RESTRICTED), standing=(there, beside)) == ["Failed"]


def test_without_such_a_policy_cells_do_not_matter() -> None:
    free = Node("n", cpu=7000, memory=64 << 30, policy=TopologyPolicy.BEST_EFFORT)
    assert states(exclusive(7), free) == ["Scheduled"]


def test_kube_scheduler_does_not_look_at_cells() -> None:
    # It takes the emptier node, whose kubelet refuses; the other would have run the pod.
    narrow = two_cells()
    wide = Node("w", cpu=6000, memory=64 << 30, other_resources={GPU: 2})
    spec = exclusive(5)
    assert run(spec, narrow, wide)[0].state is PodState.FAILED


def test_what_leaves_gives_its_cell_back() -> None:
    old = PodSpec(requests=Requests(4000), aligned_requests=((("cpu", 4),),), template="old")
    new = PodSpec(requests=Requests(4000), aligned_requests=((("cpu", 4),),), template="new")
    standing = (ExistingPod("default/Deployment/p", 0, "n", old),)
    workload = Workload("Deployment", "default", "p", 1, new, max_surge=0, max_unavailable=1)
    (outcome,) = predict(Cluster("c", (two_cells(),)), standing, [workload]).outcomes
    assert outcome.state is PodState.SCHEDULED


# --- what a Pending pod lacks ------------------------------------------------------------------


def reason(**spec: Any) -> str:
    return run(PodSpec(**spec), node(), node("m"))[0].reason


def test_the_missing_label_or_resource_is_named() -> None:
    assert reason(node_selector=(("kubernetes.io/os", "windows"),)).endswith(
        "No node has the label kubernetes.io/os=windows (there is linux)."
    )
    assert reason(node_selector=(("disk", "ssd"),)).endswith("No node has the label disk=ssd.")
    assert reason(requests=Requests(other_resources=(("intel.com/sriov", 1),))).endswith(
        "2 Insufficient intel.com/sriov. No node has the resource intel.com/sriov."
    )
    assert reason(requests=Requests(cpu=9000)) == "0/2 nodes are available: 2 Insufficient cpu."
