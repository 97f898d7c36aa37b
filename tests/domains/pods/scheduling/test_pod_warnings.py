"""What only somebody who knows pods, workers and servers can say."""

from __future__ import annotations

from msgspec.structs import replace

from nexusform.domains.pods.scheduling import workload_warnings
from nexusform.domains.pods.scheduling.hardware_risks import find_hardware_key
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.pod_warnings import collect_pod_warnings
from nexusform.domains.pods.scheduling.workload_warnings import WorkloadWarning
from nexusform.domains.pods.scheduling.workloads import (
    Cluster,
    Node,
    PodSpec,
    PodTerm,
    Requests,
    ResourceQuota,
    SpreadConstraint,
    Strategy,
    Workload,
)
from nexusform.kubernetes.matching import Requirement, build_label_selector

HOST = "kubernetes.io/hostname"
BARE = "topology.kubernetes.io/baremetalmachine"
OWN = build_label_selector({"app": "web"})


def node(name: str, machine: str, rack: str = "", **labels: str) -> Node:
    return Node(name, {HOST: name, **labels}, cpu=4000, memory=8 << 30, machine=machine, rack=rack)


def web(replicas: int = 2, *, over: str = "", hard: bool = True, **more: object) -> Workload:
    term = PodTerm(over, OWN, ("default",), None, 0 if hard else 100)
    pod = PodSpec(
        labels=(("app", "web"), ("pod-template-hash", "1")),
        anti_affinity=(term,) if over and hard else (),
        preferred_anti_affinity=(term,) if over and not hard else (),
        template="1",
        default_spread=OWN,
    )
    return replace(Workload("Deployment", "default", "web", replicas, pod, max_unavailable=1), **more)  # type: ignore[arg-type]


def warnings_about(nodes: list[Node], *workloads: Workload) -> list[WorkloadWarning]:
    cluster = Cluster("k", tuple(nodes))
    return list(collect_pod_warnings(cluster, predict(cluster, (), workloads)))


def kinds(nodes: list[Node], *workloads: Workload) -> list[str]:
    return [warning.kind for warning in warnings_about(nodes, *workloads)]


ONE_MACHINE = [node("w1", "m1", **{BARE: "m1"}), node("w2", "m1", **{BARE: "m1"})]


def test_pods_without_any_rule_on_one_machine() -> None:
    (warning,) = warnings_about(ONE_MACHINE, web())
    assert warning.kind == workload_warnings.SHARED_MACHINE
    assert warning.location == "m1"
    assert warning.detail == (
        "Deployment default/web: 2 of 2 pods (web-0, web-1) would run on machine m1 (2 workers w1, w2). "
        "Losing the machine stops them. All its workers are there, so no rule can separate its pods. Add "
        f"workers elsewhere and a rule with topologyKey: {BARE}."
    )


def test_hostname_tells_workers_apart_and_not_machines() -> None:
    machines = [*ONE_MACHINE, node("w3", "m2", **{BARE: "m2"})]
    full = replace(web(1), name="full", pod=PodSpec(node_name="w3", requests=Requests(4000)))
    over_host = web(over=HOST)
    small = replace(over_host, pod=replace(over_host.pod, requests=Requests(100)))
    (warning,) = warnings_about(machines, full, small)
    assert f"Its rules use {HOST}, which does not distinguish machines. Use topologyKey: {BARE}." in warning.detail


def test_anti_affinity_is_no_advice_where_it_would_leave_pods_pending() -> None:
    machines = [*ONE_MACHINE, node("w3", "m2", **{BARE: "m2"})]
    detail = warnings_about(machines, web(3, over=HOST))[0].detail
    assert "Its workers run on 2 machines, fewer than its 3 pods" in detail
    assert f"a topologySpreadConstraint with topologyKey: {BARE}." in detail
    wish = warnings_about(machines, web(3, over=BARE, hard=False))[0].detail
    assert f"a required topologySpreadConstraint with topologyKey: {BARE}" in wish


def test_a_worker_of_which_nobody_knows_the_machine_has_no_key() -> None:
    (warning,) = warnings_about([*ONE_MACHINE, node("stranger", "")], web(4))
    assert "machine m1" in warning.detail


def test_spread_over_the_machine_is_a_rule_too() -> None:
    spread = SpreadConstraint(BARE, 1, True, OWN)
    machines = [*ONE_MACHINE, node("w3", "m2", **{BARE: "m2"})]
    assert kinds(machines, web(pod=replace(web().pod, spread=(spread,)))) == []
    (warning,) = warnings_about(machines, web(3, pod=replace(web().pod, spread=(spread,))))
    assert "Its workers run on 2 machines, fewer than its 3 pods: some must share." in warning.detail
    wide = replace(spread, max_skew=2)
    full = replace(web(1), name="full", pod=PodSpec(node_name="w3", requests=Requests(4000)))
    two = web(pod=replace(web().pod, spread=(wide,), requests=Requests(100)))
    (warning,) = warnings_about(machines, full, two)
    assert "Use anti-affinity over it to separate them" in warning.detail


def test_one_pod_or_a_daemonset_or_separate_machines_are_fine() -> None:
    assert kinds(ONE_MACHINE, web(1)) == []
    assert kinds(ONE_MACHINE, web(kind="DaemonSet")) == []
    assert kinds([node("w1", "m1"), node("w2", "m2")], web(over=HOST)) == []
    assert kinds([node("w1", ""), node("w2", "")], web(over=HOST)) == []


def test_workers_without_hardware_labels_need_some_first() -> None:
    (warning,) = warnings_about([node("w1", "m1"), node("w2", "m1")], web(over=HOST))
    assert "no label of its workers distinguishes machines. Add hardware labels" in warning.detail


def test_the_proposed_key_is_one_that_the_nodes_have() -> None:
    def machine(node: Node) -> str:
        return node.machine

    both = [node("w1", "m1", **{"CIS-node": "m1", "x": "1"}), node("w2", "m2", **{"CIS-node": "m2", "x": "1"})]
    assert find_hardware_key(both, machine) == "CIS-node"
    assert find_hardware_key([*both, node("w3", "m3")], machine) == ""
    custom = [node("w1", "m1", host="a"), node("w2", "m1", host="a"), node("w3", "m2", host="b")]
    assert find_hardware_key(custom, machine) == "host"
    split = [node("w1", "m1", host="a"), node("w2", "m1", host="b")]
    assert find_hardware_key(split, machine) == ""


def test_all_pods_in_one_rack_when_others_were_open() -> None:
    nodes = [node("w1", "m1", "r1", zone="1"), node("w2", "m2", "r1", zone="1"), node("w3", "m3", "r2", zone="2")]
    full = replace(web(1), name="full", pod=PodSpec(node_name="w3", requests=Requests(4000)))
    small = web(pod=replace(web(over=HOST).pod, requests=Requests(100)))
    (warning,) = warnings_about(nodes, full, small)
    assert (warning.kind, warning.location) == (workload_warnings.SHARED_RACK, "r1")
    assert "Use topologyKey: zone." in warning.detail


def test_an_unlabelled_worker_defeats_required_anti_affinity() -> None:
    nodes = [node("w1", "m1", **{BARE: "m1"}), node("w2", "m2", **{BARE: "m2"}), node("w3", "m3")]
    (warning,) = warnings_about(nodes, web(over=BARE))
    assert warning.kind == workload_warnings.UNLABELLED
    assert f"1 worker w3 lacks the label {BARE}" in warning.detail
    assert "has no effect there" in warning.detail
    assert kinds(nodes, web(over=BARE, hard=False)) == []


def test_a_key_that_nobody_has() -> None:
    nodes = [node("w1", "m1", **{BARE: "m1"}), node("w2", "m2", **{BARE: "m2"})]
    (anti,) = warnings_about(nodes, web(over="kubernetes.io/zone"))
    assert anti.kind == workload_warnings.UNKNOWN_KEY
    assert f"Workers have the label {BARE}." in anti.detail
    assert "rejects no node" in anti.detail
    spread = SpreadConstraint("kubernetes.io/zone", 1, True, OWN)
    both = warnings_about(nodes, web(pod=replace(web().pod, spread=(spread,))))
    assert [w.kind for w in both] == [workload_warnings.UNKNOWN_KEY, workload_warnings.PENDING]
    assert "stay Pending" in both[0].detail


def test_more_replicas_than_machines() -> None:
    nodes = [node("w1", "m1", **{BARE: "m1"}), node("w2", "m2", **{BARE: "m2"})]
    both = warnings_about(nodes, web(3, over=BARE))
    assert [w.kind for w in both] == [workload_warnings.TOO_MANY, workload_warnings.PENDING]
    assert "at most 2 can run" in both[0].detail
    assert "1 of 3 pods (web-2) would stay Pending" in both[1].detail


def test_a_rollout_that_will_hang() -> None:
    nodes = [node("w1", "m1", **{BARE: "m1"}), node("w2", "m2", **{BARE: "m2"})]
    stiff = web(over=BARE, max_unavailable=0)
    (warning,) = warnings_about(nodes, stiff)
    assert warning.kind == workload_warnings.DEADLOCK
    assert "Set maxUnavailable: 1, or add matchLabelKeys: [pod-template-hash] to the term." in warning.detail
    assert kinds([*nodes, node("w3", "m3", **{BARE: "m3"})], stiff) == []
    assert kinds(nodes, replace(stiff, strategy=Strategy.RECREATE)) == []
    own_template = Requirement("pod-template-hash", "In", ("1",))
    term = PodTerm(BARE, replace(OWN, match_expressions=(own_template,)), ("default",))
    assert kinds(nodes, replace(stiff, pod=replace(stiff.pod, anti_affinity=(term,)))) == []


def test_a_rollout_for_whose_surge_there_is_no_room_will_hang() -> None:
    nodes = [node("w1", "m1", "r1"), node("w2", "m2", "r2")]
    full = replace(web(max_unavailable=0), pod=PodSpec(requests=Requests(3000), template="1"))
    (warning,) = warnings_about(nodes, full)
    assert warning.kind == workload_warnings.DEADLOCK
    assert warning.detail == (
        "Deployment default/web: the next change of its template will hang. A new pod must run before an "
        "old one may stop: maxUnavailable (25% of 2) rounds down to 0. There is no capacity for one more "
        "pod: 0/2 nodes are available: 2 Insufficient cpu. Set maxUnavailable: 1, or add capacity."
    )
    assert kinds(nodes, replace(full, max_unavailable=1)) == []
    assert kinds([*nodes, node("w3", "m3", "r3")], full) == []
    # What it would evict makes room, and what stays Pending is told as that.
    low = replace(web(1), name="low", pod=PodSpec(requests=Requests(1000)))
    one = replace(full, replicas=1)
    assert kinds([nodes[0]], one, low) == [workload_warnings.DEADLOCK]
    assert kinds([nodes[0]], replace(one, pod=replace(one.pod, priority=7)), low) == []
    assert kinds([nodes[0]], full) == [workload_warnings.PENDING]
    quota = ResourceQuota("default", "compute", (("pods", 2),))
    roomy = replace(full, pod=replace(full.pod, requests=Requests(100)))
    cluster = Cluster("k", tuple(nodes), quotas=(quota,))
    (warning,) = collect_pod_warnings(cluster, predict(cluster, (), [roomy]))
    assert "exceeded quota: compute, requested: pods=1, used: pods=2, limited: pods=2" in warning.detail


def test_pods_that_evict_others_say_whom() -> None:
    low = replace(web(1), name="low", pod=PodSpec(requests=Requests(4000)))
    high = replace(web(1), name="high", pod=PodSpec(requests=Requests(4000), priority=7))
    polite = replace(high, pod=replace(high.pod, can_preempt=False))
    cluster = Cluster("k", (node("w1", "m1"),))
    standing = predict(cluster, (), [low]).list_existing_pods()

    def said(workload: Workload) -> dict[str, str]:
        found = collect_pod_warnings(cluster, predict(cluster, standing, [low, workload]))
        return {f"{w.kind} of {w.workload}": w.detail for w in found}

    pending = f"{workload_warnings.PENDING} of {low.key}"
    evicted = said(high)
    assert list(evicted) == [f"{workload_warnings.PREEMPTS} of {high.key}", pending]
    assert (
        "its pods (priority 7) fit on no node, so 1 pod of lower priority is evicted: high-0 (low-0)."
        in (evicted[f"{workload_warnings.PREEMPTS} of {high.key}"])
    )
    assert list(said(polite)) == [f"{workload_warnings.PENDING} of {high.key}"]


def test_the_point_of_a_pending_pod_fits_a_line() -> None:
    tight = replace(web(1), name="tight", pod=PodSpec(requests=Requests(9000)))
    picky = replace(web(1), name="picky", pod=PodSpec(node_selector=(("disk", "ssd"),)))
    cluster = Cluster("k", (node("w1", "m1"), node("w2", "m2")))
    briefs = [warning.summary for warning in collect_pod_warnings(cluster, predict(cluster, (), [tight, picky]))]
    assert briefs == [
        "default/tight: 1 Pending: 2 Insufficient cpu",
        "default/picky: 1 Pending: No node has the label disk=ssd.",
    ]
