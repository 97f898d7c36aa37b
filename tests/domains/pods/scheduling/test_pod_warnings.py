"""Tests of warnings with combined facts of pods, workers and servers."""

from __future__ import annotations

from msgspec.structs import replace

from nexusform.domains.pods.scheduling import workload_warnings
from nexusform.domains.pods.scheduling.cluster_records import (
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
from nexusform.domains.pods.scheduling.pod_prediction import predict
from nexusform.domains.pods.scheduling.pod_warnings import (
    collect_pod_warnings,
    find_location_label_key,
)
from nexusform.domains.pods.scheduling.workload_warnings import WorkloadWarning
from nexusform.kubernetes.matching import Requirement, build_label_selector

HOST = "kubernetes.io/hostname"
BARE = "topology.kubernetes.io/baremetalmachine"
OWN = build_label_selector({"app": "web"})


def build_node(name: str, machine: str, rack: str = "", **labels: str) -> Node:
    return Node(name, {HOST: name, **labels}, cpu=4000, memory=8 << 30, machine=machine, rack=rack)


def build_web_workload(
    replicas: int = 2, *, over: str = "", hard: bool = True, **more: object
) -> Workload:
    term = PodTerm(over, OWN, ("default",), None, 0 if hard else 100)
    pod = PodSpec(
        labels=(("app", "web"), ("pod-template-hash", "1")),
        anti_affinity=(term,) if over and hard else (),
        preferred_anti_affinity=(term,) if over and not hard else (),
        template="1",
        default_spread=OWN,
    )
    return replace(
        Workload("Deployment", "default", "web", replicas, pod, max_unavailable=1), **more
    )  # type: ignore[arg-type]


def list_warnings(nodes: list[Node], *workloads: Workload) -> list[WorkloadWarning]:
    cluster = Cluster("k", tuple(nodes))
    return list(collect_pod_warnings(cluster, predict(cluster, (), workloads)))


def list_warning_kinds(nodes: list[Node], *workloads: Workload) -> list[str]:
    return [warning.kind for warning in list_warnings(nodes, *workloads)]


ONE_MACHINE = [build_node("w1", "m1", **{BARE: "m1"}), build_node("w2", "m1", **{BARE: "m1"})]


def test_pods_without_rules_on_one_machine_are_reported() -> None:
    (warning,) = list_warnings(ONE_MACHINE, build_web_workload())
    assert warning.kind == workload_warnings.SHARED_MACHINE
    assert warning.location == "m1"
    assert warning.detail == (
        "Deployment default/web: 2 of 2 pods (web-0, web-1) would run on machine m1 (2 workers w1, "
        "w2). Losing the machine stops them. All its workers are there, so no rule can separate "
        f"its pods. Add workers elsewhere and a rule with topologyKey: {BARE}."
    )


def test_hostname_key_does_not_distinguish_machines() -> None:
    machines = [*ONE_MACHINE, build_node("w3", "m2", **{BARE: "m2"})]
    full = replace(
        build_web_workload(1), name="full", pod=PodSpec(node_name="w3", requests=Requests(4000))
    )
    over_host = build_web_workload(over=HOST)
    small = replace(over_host, pod=replace(over_host.pod, requests=Requests(100)))
    (warning,) = list_warnings(machines, full, small)
    assert (
        f"Its rules use {HOST}, which does not distinguish machines. Use topologyKey: {BARE}."
        in warning.detail
    )


def test_anti_affinity_is_not_proposed_if_pods_would_stay_pending() -> None:
    machines = [*ONE_MACHINE, build_node("w3", "m2", **{BARE: "m2"})]
    detail = list_warnings(machines, build_web_workload(3, over=HOST))[0].detail
    assert "Its workers run on 2 machines, fewer than its 3 pods" in detail
    assert f"a topologySpreadConstraint with topologyKey: {BARE}." in detail
    wish = list_warnings(machines, build_web_workload(3, over=BARE, hard=False))[0].detail
    assert f"a required topologySpreadConstraint with topologyKey: {BARE}" in wish


def test_no_key_is_proposed_for_worker_on_unknown_machine() -> None:
    (warning,) = list_warnings([*ONE_MACHINE, build_node("stranger", "")], build_web_workload(4))
    assert "machine m1" in warning.detail


def test_machine_spread_constraint_counts_as_a_rule() -> None:
    spread = SpreadConstraint(BARE, 1, True, OWN)
    machines = [*ONE_MACHINE, build_node("w3", "m2", **{BARE: "m2"})]
    assert (
        list_warning_kinds(
            machines, build_web_workload(pod=replace(build_web_workload().pod, spread=(spread,)))
        )
        == []
    )
    (warning,) = list_warnings(
        machines, build_web_workload(3, pod=replace(build_web_workload().pod, spread=(spread,)))
    )
    assert (
        "Its workers run on 2 machines, fewer than its 3 pods: some must share." in warning.detail
    )
    wide = replace(spread, max_skew=2)
    full = replace(
        build_web_workload(1), name="full", pod=PodSpec(node_name="w3", requests=Requests(4000))
    )
    two = build_web_workload(
        pod=replace(build_web_workload().pod, spread=(wide,), requests=Requests(100))
    )
    (warning,) = list_warnings(machines, full, two)
    assert "Use anti-affinity over it to separate them" in warning.detail


def test_single_pods_daemon_sets_and_separate_machines_have_no_warning() -> None:
    assert list_warning_kinds(ONE_MACHINE, build_web_workload(1)) == []
    assert list_warning_kinds(ONE_MACHINE, build_web_workload(kind="DaemonSet")) == []
    assert (
        list_warning_kinds(
            [build_node("w1", "m1"), build_node("w2", "m2")], build_web_workload(over=HOST)
        )
        == []
    )
    assert (
        list_warning_kinds(
            [build_node("w1", ""), build_node("w2", "")], build_web_workload(over=HOST)
        )
        == []
    )


def test_missing_hardware_labels_are_proposed_first() -> None:
    (warning,) = list_warnings(
        [build_node("w1", "m1"), build_node("w2", "m1")], build_web_workload(over=HOST)
    )
    assert "no label of its workers distinguishes machines. Add hardware labels" in warning.detail


def test_proposed_key_exists_on_the_nodes() -> None:
    def get_machine(node: Node) -> str:
        return node.machine

    both = [
        build_node("w1", "m1", **{"CIS-node": "m1", "x": "1"}),
        build_node("w2", "m2", **{"CIS-node": "m2", "x": "1"}),
    ]
    assert find_location_label_key(both, get_machine) == "CIS-node"
    assert find_location_label_key([*both, build_node("w3", "m3")], get_machine) == ""
    custom = [
        build_node("w1", "m1", host="a"),
        build_node("w2", "m1", host="a"),
        build_node("w3", "m2", host="b"),
    ]
    assert find_location_label_key(custom, get_machine) == "host"
    split = [build_node("w1", "m1", host="a"), build_node("w2", "m1", host="b")]
    assert find_location_label_key(split, get_machine) == ""


def test_all_pods_in_one_rack_despite_other_racks_are_reported() -> None:
    nodes = [
        build_node("w1", "m1", "r1", zone="1"),
        build_node("w2", "m2", "r1", zone="1"),
        build_node("w3", "m3", "r2", zone="2"),
    ]
    full = replace(
        build_web_workload(1), name="full", pod=PodSpec(node_name="w3", requests=Requests(4000))
    )
    small = build_web_workload(
        pod=replace(build_web_workload(over=HOST).pod, requests=Requests(100))
    )
    (warning,) = list_warnings(nodes, full, small)
    assert (warning.kind, warning.location) == (workload_warnings.SHARED_RACK, "r1")
    assert "Use topologyKey: zone." in warning.detail


def test_object_file_for_workers_of_tacker_needs_an_anti_affinity() -> None:
    """Pods on two machines share none now, and nothing keeps them apart."""
    nodes = [build_node(f"w{n}", f"m{n}", "r1", **{"CIS-node": f"m{n}"}) for n in (1, 2)]
    apart = build_web_workload(2, pod=replace(build_web_workload().pod, requests=Requests(4000)))
    plain = replace(apart, pod=replace(apart.pod, anti_affinity=(), preferred_anti_affinity=()))
    (warning,) = list_warnings(nodes, plain)
    assert warning.kind == workload_warnings.NO_ANTI_AFFINITY
    assert "needs a podAntiAffinity with topologyKey: CIS-node." in warning.detail
    # Other clusters, a single pod, and pods with a rule need no advice.
    assert list_warnings([build_node("w1", "m1"), build_node("w2", "m2")], plain) == []
    assert list_warnings(nodes, replace(plain, replicas=1)) == []
    ruled = build_web_workload(2, over="CIS-node")
    assert list_warnings(nodes, ruled) == []


def test_unlabelled_worker_breaks_required_anti_affinity() -> None:
    nodes = [
        build_node("w1", "m1", **{BARE: "m1"}),
        build_node("w2", "m2", **{BARE: "m2"}),
        build_node("w3", "m3"),
    ]
    (warning,) = list_warnings(nodes, build_web_workload(over=BARE))
    assert warning.kind == workload_warnings.UNLABELLED
    assert f"1 worker w3 lacks the label {BARE}" in warning.detail
    assert "has no effect there" in warning.detail
    assert list_warning_kinds(nodes, build_web_workload(over=BARE, hard=False)) == []


def test_key_missing_on_all_nodes_is_reported() -> None:
    nodes = [build_node("w1", "m1", **{BARE: "m1"}), build_node("w2", "m2", **{BARE: "m2"})]
    (anti,) = list_warnings(nodes, build_web_workload(over="kubernetes.io/zone"))
    assert anti.kind == workload_warnings.UNKNOWN_KEY
    assert f"Workers have the label {BARE}." in anti.detail
    assert "rejects no node" in anti.detail
    spread = SpreadConstraint("kubernetes.io/zone", 1, True, OWN)
    both = list_warnings(
        nodes, build_web_workload(pod=replace(build_web_workload().pod, spread=(spread,)))
    )
    assert [w.kind for w in both] == [workload_warnings.UNKNOWN_KEY, workload_warnings.PENDING]
    assert "stay Pending" in both[0].detail


def test_more_replicas_than_machines_are_reported() -> None:
    nodes = [build_node("w1", "m1", **{BARE: "m1"}), build_node("w2", "m2", **{BARE: "m2"})]
    both = list_warnings(nodes, build_web_workload(3, over=BARE))
    assert [w.kind for w in both] == [workload_warnings.TOO_MANY, workload_warnings.PENDING]
    assert "at most 2 can run" in both[0].detail
    assert "1 of 3 pods (web-2) would stay Pending" in both[1].detail


def test_rollout_deadlock_is_reported() -> None:
    nodes = [build_node("w1", "m1", **{BARE: "m1"}), build_node("w2", "m2", **{BARE: "m2"})]
    stiff = build_web_workload(over=BARE, max_unavailable=0)
    (warning,) = list_warnings(nodes, stiff)
    assert warning.kind == workload_warnings.DEADLOCK
    assert (
        "Set maxUnavailable: 1, or add matchLabelKeys: [pod-template-hash] to the term."
        in warning.detail
    )
    assert list_warning_kinds([*nodes, build_node("w3", "m3", **{BARE: "m3"})], stiff) == []
    assert list_warning_kinds(nodes, replace(stiff, strategy=Strategy.RECREATE)) == []
    own_template = Requirement("pod-template-hash", "In", ("1",))
    term = PodTerm(BARE, replace(OWN, match_expressions=(own_template,)), ("default",))
    assert (
        list_warning_kinds(nodes, replace(stiff, pod=replace(stiff.pod, anti_affinity=(term,))))
        == []
    )


def test_rollout_without_surge_capacity_is_reported_as_deadlock() -> None:
    nodes = [build_node("w1", "m1", "r1"), build_node("w2", "m2", "r2")]
    full = replace(
        build_web_workload(max_unavailable=0), pod=PodSpec(requests=Requests(3000), template="1")
    )
    (warning,) = list_warnings(nodes, full)
    assert warning.kind == workload_warnings.DEADLOCK
    assert warning.detail == (
        "Deployment default/web: the next change of its template will hang. A new pod must run "
        "before an old one may stop: maxUnavailable (25% of 2) rounds down to 0. There is no "
        "capacity for one more pod: 0/2 nodes are available: 2 Insufficient cpu. Set "
        "maxUnavailable: 1, or add capacity."
    )
    assert list_warning_kinds(nodes, replace(full, max_unavailable=1)) == []
    assert list_warning_kinds([*nodes, build_node("w3", "m3", "r3")], full) == []
    # Preemption would free capacity, and Pending pods have their own warning.
    low = replace(build_web_workload(1), name="low", pod=PodSpec(requests=Requests(1000)))
    one = replace(full, replicas=1)
    assert list_warning_kinds([nodes[0]], one, low) == [workload_warnings.DEADLOCK]
    assert list_warning_kinds([nodes[0]], replace(one, pod=replace(one.pod, priority=7)), low) == []
    assert list_warning_kinds([nodes[0]], full) == [workload_warnings.PENDING]
    quota = ResourceQuota("default", "compute", (("pods", 2),))
    roomy = replace(full, pod=replace(full.pod, requests=Requests(100)))
    cluster = Cluster("k", tuple(nodes), quotas=(quota,))
    (warning,) = collect_pod_warnings(cluster, predict(cluster, (), [roomy]))
    assert (
        "exceeded quota: compute, requested: pods=1, used: pods=2, limited: pods=2"
        in warning.detail
    )


def test_preempting_pods_name_their_victims() -> None:
    low = replace(build_web_workload(1), name="low", pod=PodSpec(requests=Requests(4000)))
    high = replace(
        build_web_workload(1), name="high", pod=PodSpec(requests=Requests(4000), priority=7)
    )
    polite = replace(high, pod=replace(high.pod, can_preempt=False))
    cluster = Cluster("k", (build_node("w1", "m1"),))
    standing = predict(cluster, (), [low]).list_existing_pods()

    def read_warnings(workload: Workload) -> dict[str, str]:
        found = collect_pod_warnings(cluster, predict(cluster, standing, [low, workload]))
        return {f"{w.kind} of {w.workload}": w.detail for w in found}

    pending = f"{workload_warnings.PENDING} of {low.key}"
    evicted = read_warnings(high)
    assert list(evicted) == [f"{workload_warnings.PREEMPTS} of {high.key}", pending]
    assert (
        "its pods (priority 7) fit on no node, so 1 pod of lower priority is evicted: high-0 "
        "(low-0)."
    ) in (evicted[f"{workload_warnings.PREEMPTS} of {high.key}"])
    assert list(read_warnings(polite)) == [f"{workload_warnings.PENDING} of {high.key}"]


def test_summary_of_pending_pod_fits_on_one_line() -> None:
    tight = replace(build_web_workload(1), name="tight", pod=PodSpec(requests=Requests(9000)))
    picky = replace(
        build_web_workload(1), name="picky", pod=PodSpec(node_selector=(("disk", "ssd"),))
    )
    cluster = Cluster("k", (build_node("w1", "m1"), build_node("w2", "m2")))
    briefs = [
        warning.summary
        for warning in collect_pod_warnings(cluster, predict(cluster, (), [tight, picky]))
    ]
    assert briefs == [
        "default/tight: 1 Pending: 2 Insufficient cpu",
        "default/picky: 1 Pending: No node has the label disk=ssd.",
    ]
