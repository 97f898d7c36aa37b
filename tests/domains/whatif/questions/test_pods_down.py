"""Tests of the document's runtime upgrade with pods, and of failures.

Failures are shown with their effect on workloads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from nexusform.domains.pods.scheduling.cluster_records import PodDisruptionBudget
from nexusform.domains.pods.scheduling.preemption import compute_allowed_disruptions
from nexusform.domains.whatif.questions.failure_simulation import simulate_cluster_loss
from nexusform.domains.whatif.questions.kubernetes_upgrade import simulate_kubernetes_upgrade
from nexusform.domains.whatif.questions.pod_outage import (
    ClusterPods,
    PodMove,
    WorkloadImpact,
    WorkloadOutcome,
    WorkloadVerdict,
    simulate_nodes_down,
)
from nexusform.domains.whatif.questions.pod_snapshot import build_pods
from nexusform.domains.whatif.questions.runtime_upgrade import (
    RuntimeUpgrade,
    UpgradeOptions,
    simulate_runtime_upgrade,
)
from nexusform.domains.whatif.rendering.runtime_upgrade_report import (
    build_pending_lines,
    build_workload_table,
)
from nexusform.kubernetes.matching import build_label_selector
from nexusform.planning.hypothesis.start_points import build_snapshot_request
from nexusform.planning.vm_planning.site_plans import SiteObject
from nexusform.resources.address import parse_address
from nexusform.snapshots.snapshot import SiteSnapshot, build_snapshot, list_state_objects
from nexusform.state.objects import State
from tests.domains.whatif.questions.failures import build_start, simulate_loss
from tests.planning.harness import NOW, build_all_types, cluster, pool
from tests.worlds.small_worlds import build_applied_state, build_document_state, build_racks

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: web
        resources: {requests: {cpu: "CPU", memory: 1Gi}}
"""
SPREAD = """
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: DoNotSchedule
        labelSelector: {matchLabels: {app: web}}
"""
ALONE = """
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: kubernetes.io/hostname
            labelSelector: {matchLabels: {app: web}}
"""
AGENT = """
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: shop}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: agent, image: agent}]}
---
apiVersion: v1
kind: Pod
metadata: {name: lonely, namespace: shop, labels: {app: lonely}}
spec: {containers: [{name: lonely, image: lonely}]}
"""
BUDGET = """
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec:
  minAvailable: MIN
  selector: {matchLabels: {app: web}}
"""


def render_web(replicas: int, cpu: str = "1", more: str = "") -> str:
    return WEB.replace("REPLICAS", str(replicas)).replace("CPU", cpu) + more


def build_manifest(
    text: str, cluster_id: str, workloads: Mapping[str, Any] | None = None
) -> SiteObject:
    attributes = {"yaml_body": text, "cluster_id": cluster_id, "workloads": workloads or {}}
    return SiteObject(parse_address("fleet_hub_manifest.m"), attributes, 1000)


def build_pods_of(things: Sequence[SiteObject]) -> Mapping[str, ClusterPods]:
    types = build_all_types()
    return build_pods(build_snapshot_request(things, types, State(), NOW).state, types)


def build_site_and_pods(
    state: State, text: str, cluster_id: str = "s/a", **more: Any
) -> tuple[SiteSnapshot, Mapping[str, ClusterPods]]:
    things = (*list_state_objects(state), build_manifest(text, cluster_id, **more))
    world = build_snapshot(things, build_all_types())
    [site] = world.sites.values()
    return site, build_pods_of(things)


def simulate_upgrade(
    state: State, text: str, cluster_id: str = "s/a", *, drain: bool = True
) -> RuntimeUpgrade:
    site, pods = build_site_and_pods(state, text, cluster_id)
    return simulate_runtime_upgrade(build_start(state), site, UpgradeOptions(drain=drain), pods)


def get_only_verdict(verdicts: Sequence[WorkloadVerdict]) -> WorkloadVerdict:
    [verdict] = verdicts
    return verdict


def build_small_site(*machines: int, workers: int = 3) -> State:
    return build_applied_state(
        build_racks(*machines) + cluster("a", count=3, pools=pool("p", workers, "NC_G12_56_v1"))
    )


# --- example of the document
# -----------------------------------------------------------------------


def test_deployment_on_cluster_a_rack_by_rack() -> None:
    """24 replicas, one per worker of pool1, three workers per rack.

    Three replicas are down per wave.
    """
    text = render_web(24, "40", ALONE)
    found = simulate_upgrade(build_document_state("nearly-full"), text, "lab/cluster-a")
    verdict = get_only_verdict(found.workloads)
    # A worker has 44 CPUs for pods: no other worker has capacity for a second replica, so
    # three stay Pending.
    assert [
        (w.workloads[0].before, w.workloads[0].running, w.workloads[0].pending) for w in found.waves
    ] == [(24, 21, 3)] * 8
    assert (verdict.outcome, verdict.minimum_running, verdict.maximum_pending) == (
        WorkloadOutcome.REDUCED,
        21,
        3,
    )
    assert verdict.waves == tuple(range(1, 9))
    assert not found.has_findings


def test_replicas_with_capacity_elsewhere_move_and_stay_there() -> None:
    found = simulate_upgrade(
        build_document_state("nearly-full"), render_web(8, "4", SPREAD), "lab/cluster-a"
    )
    verdict = get_only_verdict(found.workloads)
    assert (verdict.outcome, verdict.maximum_pending, verdict.minimum_running) == (
        WorkloadOutcome.KEPT,
        0,
        8,
    )
    first = found.waves[0].workloads[0]
    assert (len(first.moves), first.at_once) == (1, 7)
    assert first.moves[0].node


def test_previously_pending_pods_stay_pending_during_upgrade() -> None:
    # Three workers run one replica each. Of four replicas, one is pending before and two while a
    # worker is down.
    found = simulate_upgrade(build_small_site(4, 4, 4), render_web(4, "1", ALONE))
    left = found.waves[0].workloads[0]
    assert (left.before, left.running, left.pending) == (3, 2, 2)


def test_no_vms_are_created_during_upgrade() -> None:
    # One worker per rack, one replica per worker: no other worker is free although
    # machines are empty.
    found = simulate_upgrade(build_small_site(4, 4, 4), render_web(3, "1", ALONE))
    assert get_only_verdict(found.workloads).outcome is WorkloadOutcome.REDUCED
    left = found.waves[0].workloads[0]
    assert (left.running, left.pending) == (2, 1)
    assert "didn't match pod anti-affinity rules" in left.moves[0].reason
    # The control plane nodes accept no ordinary pods.
    assert "had untolerated taint" in left.moves[0].reason


def test_single_movable_replica_restarts_if_drained_and_is_lost_otherwise() -> None:
    state = build_small_site(2, 2, 2)
    assert (
        get_only_verdict(simulate_upgrade(state, render_web(1)).workloads).outcome
        is WorkloadOutcome.RESTARTED
    )
    cut = simulate_upgrade(state, render_web(1), drain=False)
    assert get_only_verdict(cut.workloads).outcome is WorkloadOutcome.LOST
    assert cut.has_findings


def test_workload_without_capacity_elsewhere_is_lost() -> None:
    text = render_web(1).replace(
        "    spec:\n      containers",
        "    spec:\n      nodeSelector: {kubernetes.io/hostname: a-p-0}\n      containers",
    )
    found = simulate_upgrade(build_small_site(2, 2, 2), text)
    assert get_only_verdict(found.workloads).outcome is WorkloadOutcome.LOST
    assert len(get_only_verdict(found.workloads).waves) == 1
    assert found.has_findings


def test_preemption_by_replacements_is_reported_for_both_workloads() -> None:
    """If one of two workers is lost, its important pod evicts a small one on the other.

    Each worker has ten CPUs.
    """
    urgent = """
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 100
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: urgent, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: urgent}}
  template:
    metadata: {labels: {app: urgent}}
    spec:
      priorityClassName: urgent
      containers: [{name: u, image: u, resources: {requests: {cpu: 4}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: lonely, namespace: shop, labels: {app: lonely}}
spec: {containers: [{name: lonely, image: lonely, resources: {requests: {cpu: 4}}}]}
"""
    found = simulate_upgrade(build_small_site(2, 2, 2, workers=2), render_web(1, "4", urgent))
    by_wave = [{left.workload: left for left in wave.workloads} for wave in found.waves]
    lost = [left for wave in by_wave for left in wave.values()]
    assert all(left.running == 2 for left in lost if left.workload == "shop/Deployment/urgent")
    reasons = {move.reason for left in lost for move in left.moves if move.pod == "lonely"}
    assert reasons <= {"a bare Pod waits for its node", "a bare Pod is evicted and not re-created"}
    evicted = [move for left in lost for move in left.moves if move.pod in ("lonely", "web-0")]
    assert any(not move.node for move in evicted)


def test_daemons_and_bare_pods_wait_for_their_node() -> None:
    state = build_small_site(2, 2, 2)
    site, pods = build_site_and_pods(state, render_web(3) + AGENT)
    found = simulate_runtime_upgrade(build_start(state), site, UpgradeOptions(), pods)
    by_name = {v.workload.rpartition("/")[2]: v for v in found.workloads}
    assert (by_name["agent"].outcome, by_name["agent"].minimum_running) == (WorkloadOutcome.KEPT, 2)
    assert by_name["lonely"].outcome is WorkloadOutcome.LOST
    # It returned to its node.
    assert len(by_name["lonely"].waves) == 1


# --- budgets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "most", "pods", "healthy", "allowed"),
    [
        ("2", "", 3, 3, 1),
        ("50%", "", 3, 3, 1),
        ("", "1", 3, 3, 1),
        ("", "34%", 3, 2, 1),
        ("3", "", 3, 3, 0),
        ("", "", 2, 2, 0),
    ],
)
def test_allowed_disruptions(least: str, most: str, pods: int, healthy: int, allowed: int) -> None:
    budget = PodDisruptionBudget("shop", "web", build_label_selector(), least, most)
    assert compute_allowed_disruptions(budget, pods, healthy) == allowed


@pytest.mark.parametrize(("least", "held"), [("2", ()), ("3", ("shop/web",))])
def test_budget_without_allowed_disruptions_blocks_drain(least: str, held: tuple[str, ...]) -> None:
    text = render_web(3, "1", SPREAD) + BUDGET.replace("MIN", least)
    state = build_small_site(2, 2, 2)
    assert get_only_verdict(simulate_upgrade(state, text).workloads).blocking_budgets == held
    assert (
        get_only_verdict(simulate_upgrade(state, text, drain=False).workloads).blocking_budgets
        == ()
    )
    site, pods = build_site_and_pods(state, text)
    found = simulate_kubernetes_upgrade(build_start(state), site, site.clusters[0], pods["s/a"])
    assert (found.course.budgets, found.has_findings) == (held, bool(held))


# --- failures ------------------------------------------------------------------------------------


def test_failure_names_lost_pods_and_their_targets() -> None:
    state = build_small_site(2, 2, 2)
    site, pods = build_site_and_pods(state, render_web(3, "1", SPREAD))
    [before] = [p for p in pods["s/a"].existing if p.number == 0]
    node = next(vm for p in site.clusters[0].pools for vm in p.vms if vm.name == before.node)
    found = simulate_loss(state, [node.placement.machine], pods=pods)
    [left] = found.workloads
    assert (left.before, left.at_once, left.moves[0].pod, left.moves[0].old_node) == (
        3,
        2,
        "web-0",
        node.name,
    )
    assert not found.lost_workloads
    gone = simulate_cluster_loss(build_start(state), site, site.clusters[0], pods)
    assert [(w.running, w.pending) for w in gone.lost_workloads] == [(0, 3)]


# --- input ---------------------------------------------------------------------------------------


def test_planned_pod_nodes_are_used_unchanged() -> None:
    state = build_small_site(2, 2, 2)
    pods_of = {"shop/Deployment/web": {"web-0": {"node": "a-p-2"}, "web-1": {"node": "a-p-2"}}}
    _, pods = build_site_and_pods(state, render_web(2), workloads=pods_of)
    assert [(p.number, p.node) for p in pods["s/a"].existing] == [(0, "a-p-2"), (1, "a-p-2")]


def test_planned_pod_on_a_removed_node_has_no_node() -> None:
    pods_of = {"shop/Deployment/web": {"web-0": {"node": "a-p-99"}, "web-1": {"node": "a-p-2"}}}
    _, pods = build_site_and_pods(build_small_site(2, 2, 2), render_web(2), workloads=pods_of)
    assert [pod.node for pod in pods["s/a"].existing] == ["", "a-p-2"]


def test_pod_that_failed_for_good_gets_no_node_in_an_outage() -> None:
    job = render_web(1).replace("apps/v1", "batch/v1").replace("Deployment", "Job")
    job = job.replace("  replicas: 1\n  selector: {matchLabels: {app: web}}\n", "")
    record = {"node": None, "state": "Failed", "reason": "BackoffLimitExceeded"}
    _, pods = build_site_and_pods(
        build_small_site(2, 2, 2), job, workloads={"shop/Job/web": {"web-0": record}}
    )
    _, after = simulate_nodes_down(pods["s/a"], pods["s/a"].existing, {"a-p-0"}, is_drained=False)
    assert [pod.node for pod in after] == [""]


def test_placement_adds_hub_objects_to_its_members() -> None:
    state = build_small_site(2, 2, 2)
    hub = SiteObject(
        parse_address("fleet_hub_manifest.m"), {"yaml_body": render_web(1) + AGENT}, 1000
    )
    member = SiteObject(
        parse_address("fleet_member_cluster.m"),
        {"name": "member-a", "kubernetes_cluster_id": "s/a"},
        1001,
    )
    shown = {"member-a": {"shop/Deployment/web": {"web-0": {"node": "a-p-1"}}}}
    placement = SiteObject(
        parse_address("fleet_cluster_resource_placement.p"), {"workloads": shown}, 1002
    )
    things = (*list_state_objects(state), hub, member, placement)
    pods = build_pods_of(things)
    assert [w.key for w in pods["s/a"].workloads] == ["shop/Deployment/web"]
    assert [p.node for p in pods["s/a"].existing] == ["a-p-1"]


def test_nodes_have_allocatable_capacity_of_their_sku() -> None:
    _, pods = build_site_and_pods(build_small_site(2, 2, 2), render_web(1))
    nodes = {node.name: node for node in pods["s/a"].cluster.nodes}
    worker = nodes["a-p-0"]
    # The kernel's 1/64 and 128 MiB, and the eviction threshold of kubelet.
    kept = (896 + 128 + 100) * 2**20
    assert (worker.cpu, worker.memory) == (10_000, 56 * 2**30 - kept)
    assert worker.labels["topology.kubernetes.io/baremetalmachine"] == worker.machine
    assert [t.key for t in nodes["a-control-plane-0"].taints] == [
        "node-role.kubernetes.io/control-plane"
    ]


def test_no_pods_are_known_without_manifests() -> None:
    state = build_small_site(2, 2, 2)
    things = list_state_objects(state)
    assert build_pods_of(things) == {}


def test_every_table_of_workloads_marks_uncertain_outcomes() -> None:
    certain = WorkloadImpact("s/a", "shop/Deployment/web", 1, 1, 1, 1, ())
    moves = (PodMove("api-0", "n0", "n1", is_certain=False),)
    uncertain = WorkloadImpact("s/a", "shop/Deployment/api", 1, 1, 0, 1, moves)
    table = build_workload_table((certain, uncertain), is_drained=True)
    assert [row.cells[-1] for row in table.rows] == [
        WorkloadOutcome.KEPT.value,
        f"{WorkloadOutcome.RESTARTED.value} *",
    ]
    (line,) = build_pending_lines((certain, uncertain))
    assert line.startswith("* One possible outcome")
    assert build_pending_lines((certain,)) == []
