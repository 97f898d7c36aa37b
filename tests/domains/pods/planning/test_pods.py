"""Tests of pods in plans: new pods, kept pods, moves with their reasons, and risks.

New pods are of objects with a cluster_id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.domains.pods.importers.manifest_parser import Manifest, parse_manifests
from nexusform.domains.pods.planning.node_clusters import NodeCluster, build_planned_clusters
from nexusform.domains.pods.planning.object_pods import PriorPods
from nexusform.domains.pods.planning.pod_phase import PodPhase
from nexusform.domains.pods.pod_kind import PodLocation
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.plan import Mode
from nexusform.state.objects import State
from tests.planning.harness import (
    RACKS,
    attributes,
    build_state,
    build_state_after,
    cluster,
    is_empty,
    list_actions,
    list_errors,
    list_warnings,
    plan,
    plan_without_certainty,
    pool,
    replace_passage,
    require_success,
)

# The manifest of a cluster is a block of fleet.
pytestmark = pytest.mark.of_domains("fleet")
HOSTNAME = "kubernetes.io/hostname"
MACHINE = "topology.kubernetes.io/baremetalmachine"
ZONE = "topology.kubernetes.io/zone"
ONE_RACK = RACKS.replace("count         = 3\n", "count = 1\n", 1)


def build_deployment(
    name: str,
    replicas: int,
    *,
    apart: str = "",
    preferred: bool = False,
    image: str = "redis:3.2-alpine",
    cpu: str = "",
    kind: str = "Deployment",
    namespace: str = "default",
    spec: Mapping[str, Any] | None = None,
    **more: Any,
) -> str:
    """Return the object as JSON, a subset of YAML.

    `apart` is the topology key of its anti-affinity.
    """
    labels = {"app": name}
    container: dict[str, Any] = {"name": "c", "image": image}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    pod: dict[str, Any] = {"containers": [container], **(spec or {})}
    if apart:
        term = {"labelSelector": {"matchLabels": labels}, "topologyKey": apart}
        key = "preferredDuringSchedulingIgnoredDuringExecution"
        rule: Any = [{"weight": 100, "podAffinityTerm": term}]
        if not preferred:
            key = "requiredDuringSchedulingIgnoredDuringExecution"
            rule = [term]
        pod["affinity"] = {"podAntiAffinity": {key: rule}}
    body: dict[str, Any] = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
        **more,
    }
    if kind != "DaemonSet":
        body["replicas"] = replicas
    return json.dumps(
        {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": body,
        }
    )


def build_manifest(name: str, *objects: str, of: str = "nexus_kubernetes_cluster.a.id") -> str:
    body = "\n---\n".join(objects)
    text = f"  cluster_id = {of}\n  yaml_body = <<-EOT\n{body}\nEOT\n"
    return f'resource "fleet_hub_manifest" "{name}" {{\n{text}}}\n'


def build_workers(count: int, more: str = "", arguments: str = "") -> str:
    return cluster("a", arguments=arguments, pools=pool("np", count, more=more))


def read_pod_changes(result: PlanResult) -> dict[str, tuple[str, str]]:
    """Return (action, trigger) of each changed pod."""
    rows = [r for r in result.plan.placements if r.kind == "pod" and r.action != "keep"]
    return {r.object: (str(r.action), r.trigger) for r in rows}


def read_current_pods(state: State, name: str = "m") -> dict[str, dict[str, Any]]:
    """Return pod -> current place, of all workloads of a manifest."""
    found = attributes(state, f"fleet_hub_manifest.{name}")["workloads"]
    return {pod: dict(place) for workload in found.values() for pod, place in workload.items()}


def list_machines(state: State, name: str = "m") -> list[str]:
    return sorted(str(p["machine"]) for p in read_current_pods(state, name).values())


def list_warning_summaries(result: PlanResult) -> set[str]:
    return {w.summary for w in list_warnings(result)}


# --- placement ---------------------------------------------------------------------------------


def test_pods_have_nodes_and_second_plan_is_empty() -> None:
    text = RACKS + build_workers(3) + build_manifest("m", build_deployment("web", 3))
    result = require_success(plan_without_certainty(text))
    state = build_state_after(result)
    nodes = attributes(state, "nexus_kubernetes_cluster.a")["nodes"]
    workloads = attributes(state, "fleet_hub_manifest.m")["workloads"]
    assert set(workloads) == {"default/Deployment/web"}
    assert set(workloads["default/Deployment/web"]) == {"web-0", "web-1", "web-2"}
    for place in read_current_pods(state).values():
        told = {"node", "machine", "availability_zone", "certain", "provenance", "state", "reason"}
        assert set(place) == told
        assert place["provenance"] == "predicted"
        node = nodes[place["node"]]
        assert node["role"] == "Worker"
        assert (place["machine"], place["availability_zone"]) == (
            node["machine"],
            node["availability_zone"],
        )
    assert read_pod_changes(result) == {f"web-{n}": ("place", "new") for n in range(3)}
    (row,) = [r for r in result.plan.placements if r.object == "web-0"]
    assert row.source is None
    assert isinstance(row.target, PodLocation)
    assert row.target.cluster == "a"
    assert nodes[row.target.node]["machine"] == row.target.machine
    again = plan_without_certainty(text, state)
    assert is_empty(again)
    assert again.plan.figures.unchanged_count == 4 + 3


def test_pod_is_certain_only_without_alternatives() -> None:
    picky = {"nodeSelector": {HOSTNAME: "a-np-1"}}
    text = ONE_RACK + build_workers(2)
    one = read_current_pods(
        build_state(text + build_manifest("m", build_deployment("one", 1, spec=picky)))
    )["one-0"]
    assert (one["node"], one["certain"]) == ("a-np-1", True)
    assert not read_current_pods(
        build_state(text + build_manifest("m", build_deployment("any", 1)))
    )["any-0"]["certain"]


@pytest.mark.parametrize(
    ("together", "preferred", "running"), [(False, False, 2), (True, False, 1), (True, True, 2)]
)
def test_two_replicas_are_separated_by_server(
    together: bool, preferred: bool, running: int
) -> None:
    # The two workers run on two servers. If the other servers are cordoned, both run on one.
    rack = ONE_RACK
    if together:
        blocks = "".join(
            f'machine_override "r0-bm{slot:02d}" {{\n cordoned = true\n }}\n'
            for slot in range(2, 5)
        )
        rack = replace_passage(ONE_RACK, "  machine_count = 4\n", f"  machine_count = 4\n{blocks}")
    keys = 'hardware_label_keys = ["kubernetes.io/zone"]'
    redis = build_deployment("redis-cache", 2, apart="kubernetes.io/zone", preferred=preferred)
    text = rack + build_workers(2, arguments=keys) + build_manifest("m", redis)
    result = require_success(plan_without_certainty(text))
    places = read_current_pods(build_state_after(result))
    hosts = [place["machine"] for place in places.values() if place["node"]]
    assert len(hosts) == running
    assert len(set(hosts)) == (1 if together else 2)
    if running < 2:
        assert "Pending pods" in list_warning_summaries(result)
        (row,) = [r for r in result.plan.placements if r.kind == "pod" and not r.target.node]
        assert "anti-affinity" in row.reason
    if preferred and together:
        assert "Pods share machine" in list_warning_summaries(result)


def test_hostname_key_spreads_over_workers_instead_of_servers() -> None:
    cordoned = "".join(
        f'machine_override "r0-bm{slot:02d}" {{\n cordoned = true\n }}\n' for slot in range(2, 5)
    )
    rack = replace_passage(ONE_RACK, "  machine_count = 4\n", f"  machine_count = 4\n{cordoned}")
    text = (
        rack
        + build_workers(2)
        + build_manifest("m", build_deployment("redis-cache", 2, apart=HOSTNAME))
    )
    result = require_success(plan_without_certainty(text))
    places = read_current_pods(build_state_after(result))
    assert len({p["node"] for p in places.values()}) == 2
    assert {p["machine"] for p in places.values()} == {"r0-bm01"}
    (told,) = [w for w in list_warnings(result) if w.summary == "Pods share machine"]
    assert "r0-bm01" in told.detail
    assert MACHINE in told.detail
    assert told.subject is not None


def test_missing_topology_key_and_rollout_deadlock_are_reported() -> None:
    text = (
        RACKS
        + build_workers(2)
        + build_manifest("m", build_deployment("r", 2, apart="kubernetes.io/zone"))
    )
    assert {"Workers without topology label", "Unknown topology key"} & list_warning_summaries(
        require_success(plan_without_certainty(text))
    )
    apart = RACKS + build_workers(2) + build_manifest("m", build_deployment("r", 2, apart=MACHINE))
    (told,) = [
        w
        for w in list_warnings(require_success(plan_without_certainty(apart)))
        if w.summary == "Rollout deadlock"
    ]
    assert "maxUnavailable: 1" in told.detail
    assert "matchLabelKeys" in told.detail


def test_taints_repel_pods_and_dedicated_pools_accept_them() -> None:
    taint = 'taint {\n key = "gpu"\n effect = "NoSchedule"\n }'
    extra = (
        'resource "nexus_agent_pool" "extra" {\n kubernetes_cluster_id = '
        "nexus_kubernetes_cluster.a.id\n"
        ' node_count = 1\n vm_sku_name = "NC_G6_28_v1"\n}\n'
    )
    keys = 'hardware_label_keys = ["kubernetes.io/zone"]'
    text = RACKS + build_workers(2, more=taint, arguments=keys) + extra
    text += build_manifest("m", build_deployment("r", 1, apart="kubernetes.io/zone"))
    result = require_success(plan_without_certainty(text))
    assert [p["node"] for p in read_current_pods(build_state_after(result)).values()] == [
        "a-extra-0"
    ]
    assert not {"Workers without topology label", "Unknown topology key"} & list_warning_summaries(
        result
    )


def test_daemons_and_priorities_come_first_across_manifests() -> None:
    # Each worker has 4 vCPUs left for pods.
    high = json.dumps(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "high"},
            "value": 1000,
        }
    )
    first = build_manifest("m", build_deployment("low", 2, cpu="3"))
    second = build_manifest(
        "n",
        high,
        build_deployment("high", 1, cpu="3", spec={"priorityClassName": "high"}),
        build_deployment("agent", 0, kind="DaemonSet", cpu="500m"),
    )
    state = build_state(RACKS + build_workers(2) + first + second)
    others = read_current_pods(state, "n")
    assert {others[f"agent-{n}"]["node"] for n in range(2)} == {"a-np-0", "a-np-1"}
    assert others["high-0"]["node"]
    assert sorted(bool(p["node"]) for p in read_current_pods(state).values()) == [False, True]


@pytest.mark.parametrize(
    ("more", "pods_of_group_a"),
    [
        # Only the pod's own node counts.
        ({}, 3),
        # The own node is one domain of two, so none may have two pods: one has the pod "busy".
        ({"minDomains": 2}, 2),
        # group b has one pod, so group a has two with the pod "busy".
        ({"nodeAffinityPolicy": "Ignore"}, 1),
    ],
)
def test_spread_constraint_of_daemon_set_counts_only_the_own_node(
    more: dict[str, Any], pods_of_group_a: int
) -> None:
    """The controller adds an affinity to the node of each pod.

    nodeAffinityPolicy Honor counts only such nodes.
    """
    constraint = {
        "maxSkew": 1,
        "topologyKey": "group",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {
            "matchExpressions": [{"key": "app", "operator": "In", "values": ["agent", "busy"]}]
        },
        **more,
    }
    pools = pool("a", 3, more='labels = { group = "a" }') + pool(
        "b", 1, more='labels = { group = "b" }'
    )
    busy = build_deployment("busy", 1, spec={"nodeName": "a-a-0"})
    agent = build_deployment(
        "agent", 0, kind="DaemonSet", spec={"topologySpreadConstraints": [constraint]}
    )
    second = build_manifest("n", agent).replace(
        '"n" {', '"n" {\n  depends_on = [fleet_hub_manifest.m]', 1
    )
    state = build_state(RACKS + cluster("a", pools=pools) + build_manifest("m", busy) + second)
    nodes = [pod["node"] for pod in read_current_pods(state, "n").values()]
    assert len(nodes) == 4
    assert nodes.count(None) == 3 - pods_of_group_a
    assert "a-b-0" in nodes
    assert ("a-a-0" in nodes) == ("minDomains" not in more)


def test_manifest_can_refer_to_nodes_of_pods_of_another_manifest() -> None:
    place = 'fleet_hub_manifest.m.workloads["default/Deployment/web"]["web-0"].node'
    beside = build_deployment("beside", 1, spec={"nodeSelector": {HOSTNAME: f"${{{place}}}"}})
    # The template contains the brackets and quotes of the reference.
    beside = beside.replace('\\"', '"')
    second = build_manifest("n", beside)
    state = build_state(
        RACKS + build_workers(3) + second + build_manifest("m", build_deployment("web", 1))
    )
    assert (
        read_current_pods(state, "n")["beside-0"]["node"]
        == read_current_pods(state)["web-0"]["node"]
    )


# --- changes ----------------------------------------------------------------------------------


def test_scaling_touches_no_other_pod() -> None:
    text = (
        RACKS
        + build_workers(3)
        + build_manifest("m", build_deployment("web", 3), build_deployment("db", 2))
    )
    state = build_state(text)
    before = read_current_pods(state)
    more = text.replace('"replicas": 3', '"replicas": 5')
    result = require_success(plan_without_certainty(more, state))
    assert read_pod_changes(result) == {
        "web-3": ("place", "scale_out"),
        "web-4": ("place", "scale_out"),
    }
    after = read_current_pods(build_state_after(result, state))
    assert {name: after[name] for name in before} == before
    down = require_success(plan_without_certainty(text, build_state_after(result, state)))
    assert sorted(read_pod_changes(down).values()) == [("remove", "scale_in")] * 2
    assert all(name.startswith("web-") for name in read_pod_changes(down))


def test_new_image_replaces_every_pod_of_workload() -> None:
    text = (
        RACKS
        + build_workers(3)
        + build_manifest("m", build_deployment("web", 2), build_deployment("db", 1))
    )
    state = build_state(text)
    renewed = text.replace("redis:3.2-alpine", "redis:7", 1)
    assert read_pod_changes(require_success(plan_without_certainty(renewed, state))) == {
        "web-0": ("move", "template_changed"),
        "web-1": ("move", "template_changed"),
    }


def test_blocked_rollout_stays_blocked_in_next_plan() -> None:
    text = (
        RACKS + build_workers(2) + build_manifest("m", build_deployment("web", 2, apart=HOSTNAME))
    )
    renewed = text.replace("redis:3.2-alpine", "redis:7")
    first = build_state(text)
    state = build_state(renewed, first)
    assert read_current_pods(state)["web-2"]["node"] is None
    again = require_success(plan_without_certainty(renewed, state))
    assert is_empty(again)
    assert "Stuck rollout" in list_warning_summaries(again)
    # One more worker unblocks it, and the older pods are replaced.
    grown = require_success(
        plan_without_certainty(renewed.replace("count       = 2", "count       = 3"), state)
    )
    done = build_state_after(grown, state)
    assert len(read_current_pods(done)) == 2
    assert all("former_template" not in place for place in read_current_pods(done).values())
    # A return to the older template drops the pending pods.
    back = require_success(plan_without_certainty(text, state))
    assert read_pod_changes(back) == {"web-2": ("remove", "scale_in")}


@pytest.mark.parametrize("replicas", [3, 5])
@pytest.mark.parametrize("image_first", [False, True])
def test_pods_of_older_template_keep_their_requests(replicas: int, image_first: bool) -> None:
    """They fill their workers until the rollout reaches them.

    This also holds if the new template has other requests.
    """
    strategy = {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}

    def build_text(cpu: str, image: str, pods: int = 3) -> str:
        brought = build_manifest("m", build_deployment("w", pods, cpu=cpu, image=image, **strategy))
        return RACKS + build_workers(3).replace("NC_G6_28_v1", "NC_P10_56_v1") + brought

    state = build_state_after(require_success(plan_without_certainty(build_text("6", "i:1"))))
    if image_first:
        state = build_state_after(
            require_success(plan_without_certainty(build_text("6", "i:2"), state)), state
        )
    changed = build_text("3", "i:3", replicas)
    result = require_success(plan_without_certainty(changed, state))
    assert "Stuck rollout" in list_warning_summaries(result)
    state = build_state_after(result, state)
    again = require_success(plan_without_certainty(changed, state))
    assert is_empty(again)
    assert "Stuck rollout" in list_warning_summaries(again)
    # The next change starts from the running pods: none has left its worker.
    later = build_text("2500m", "i:4", replicas)
    result = require_success(plan_without_certainty(later, state))
    assert "Stuck rollout" in list_warning_summaries(result)
    state = build_state_after(result, state)
    assert is_empty(plan_without_certainty(later, state))


def test_pods_below_partition_keep_template_until_it_is_lowered() -> None:
    def text(image: str, partition: int) -> str:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
        body = build_deployment("db", 3, kind="StatefulSet", image=image, updateStrategy=rolling)
        return RACKS + build_workers(2) + build_manifest("m", body)

    state = build_state(text("redis:7", 2), build_state(text("redis:6", 2)))
    assert is_empty(require_success(plan_without_certainty(text("redis:7", 2), state)))
    fallen = require_success(plan_without_certainty(text("redis:7", 0), state))
    assert read_pod_changes(fallen) == {
        "db-0": ("move", "template_changed"),
        "db-1": ("move", "template_changed"),
    }
    assert is_empty(
        require_success(
            plan_without_certainty(text("redis:7", 0), build_state_after(fallen, state))
        )
    )


def test_pod_of_healed_node_moves_from_old_machine_of_node() -> None:
    text = RACKS + build_workers(1) + build_manifest("m", build_deployment("web", 1))
    state = build_state(text)
    was = read_current_pods(state)["web-0"]["machine"]
    result = require_success(
        plan_without_certainty(text, state, replaces=("nexus_kubernetes_cluster.a:a-np-0",))
    )
    (row,) = [r for r in result.plan.placements if r.kind == "pod" and r.action == "move"]
    assert row.source is not None
    assert row.target is not None
    assert row.source.machine == was
    (node,) = [r for r in result.plan.placements if r.object == "a-np-0"]
    assert node.target is not None
    assert row.target.machine == node.target.machine != was


def test_pods_of_deleted_node_are_placed_again() -> None:
    text = (
        RACKS + build_workers(3) + build_manifest("m", build_deployment("web", 3, apart=HOSTNAME))
    )
    state = build_state(text)
    (lost,) = [name for name, p in read_current_pods(state).items() if p["node"] == "a-np-2"]
    fewer = text.replace("count       = 3\n", "count       = 2\n")
    result = require_success(plan_without_certainty(fewer, state))
    assert read_pod_changes(result) == {lost: ("move", "node_removed")}
    assert read_current_pods(build_state_after(result, state))[lost]["node"] is None
    (row,) = [r for r in result.plan.placements if r.object == lost]
    assert row.source.node == "a-np-2"


def test_pods_of_re_created_node_are_placed_again() -> None:
    text = (
        RACKS + build_workers(3) + build_manifest("m", build_deployment("web", 3, apart=HOSTNAME))
    )
    state = build_state(text)
    (lost,) = [name for name, p in read_current_pods(state).items() if p["node"] == "a-np-1"]
    result = require_success(
        plan_without_certainty(text, state, replaces=("nexus_kubernetes_cluster.a:a-np-1",))
    )
    assert read_pod_changes(result) == {lost: ("move", "node_removed")}
    assert is_empty(plan_without_certainty(text, build_state_after(result, state)))


def test_pods_of_cluster_missing_from_state_are_placed_again() -> None:
    text = (
        RACKS + build_workers(3) + build_manifest("m", build_deployment("web", 3, apart=HOSTNAME))
    )
    state = build_state(text)
    address = next(each for each in state.instances if each.type == "nexus_kubernetes_cluster")
    forgotten = replace(
        state, instances={name: each for name, each in state.instances.items() if name != address}
    )
    result = require_success(plan_without_certainty(text, forgotten))
    assert read_pod_changes(result) == {f"web-{n}": ("move", "node_removed") for n in range(3)}
    assert is_empty(plan_without_certainty(text, build_state_after(result, forgotten)))


def test_pending_pod_is_placed_after_capacity_is_added() -> None:
    text = (
        RACKS + build_workers(2) + build_manifest("m", build_deployment("web", 3, apart=HOSTNAME))
    )
    state = build_state(text)
    assert is_empty(plan_without_certainty(text, state))
    more = text.replace("count       = 2\n", "count       = 3\n")
    result = require_success(plan_without_certainty(more, state))
    (name,) = read_pod_changes(result)
    assert read_current_pods(build_state_after(result, state))[name]["node"] == "a-np-2"


def test_deleted_workload_and_manifest_remove_their_pods() -> None:
    web = build_deployment("web", 1)
    db = build_deployment("db", 1)
    both = RACKS + build_workers(2) + build_manifest("m", web, db)
    state = build_state(both)
    one = RACKS + build_workers(2) + build_manifest("m", web)
    assert read_pod_changes(require_success(plan_without_certainty(one, state))) == {
        "db-0": ("remove", "workload_removed")
    }
    none = require_success(plan_without_certainty(RACKS + build_workers(2), state))
    assert read_pod_changes(none) == dict.fromkeys(
        ("web-0", "db-0"), ("remove", "workload_removed")
    )
    assert list_actions(none) == {"fleet_hub_manifest.m": "delete"}


def test_removed_pods_free_capacity_for_new_pods() -> None:
    # The only worker has capacity for one pod of 3 vCPUs.
    state = build_state(
        RACKS + build_workers(1) + build_manifest("m", build_deployment("old", 1, cpu="3"))
    )
    result = require_success(
        plan_without_certainty(
            RACKS + build_workers(1) + build_manifest("n", build_deployment("new", 1, cpu="3")),
            state,
        )
    )
    assert read_pod_changes(result) == {
        "old-0": ("remove", "workload_removed"),
        "new-0": ("place", "new"),
    }
    assert read_current_pods(build_state_after(result, state), "n")["new-0"]["node"] == "a-np-0"


def test_two_manifests_on_one_cluster_share_capacity() -> None:
    first = RACKS + build_workers(2) + build_manifest("m", build_deployment("one", 2, cpu="3"))
    state = build_state(first)
    result = require_success(
        plan_without_certainty(
            first + build_manifest("n", build_deployment("two", 2, cpu="1500m")), state
        )
    )
    assert [
        p["node"] for p in read_current_pods(build_state_after(result, state), "n").values()
    ] == [None, None]
    assert read_pod_changes(result) == {f"two-{n}": ("place", "new") for n in range(2)}


def test_cluster_change_replaces_pods() -> None:
    two = RACKS + build_workers(1) + cluster("b", pools=pool("np", 1))
    state = build_state(two + build_manifest("m", build_deployment("web", 1)))
    moved = two + build_manifest(
        "m", build_deployment("web", 1), of="nexus_kubernetes_cluster.b.id"
    )
    result = require_success(plan_without_certainty(moved, state))
    rows = [(str(r.action), r.trigger) for r in result.plan.placements if r.object == "web-0"]
    assert rows == [("remove", "binding_removed"), ("place", "new")]
    assert read_current_pods(build_state_after(result, state))["web-0"]["node"] == "b-np-0"


def test_destroy_removes_pods() -> None:
    text = RACKS + build_workers(1) + build_manifest("m", build_deployment("web", 1))
    result = require_success(plan_without_certainty(text, build_state(text), mode=Mode.DESTROY))
    assert read_pod_changes(result) == {"web-0": ("remove", "workload_removed")}


def test_unknown_cluster_is_an_error() -> None:
    wrong = plan_without_certainty(
        RACKS + build_workers(1) + build_manifest("m", build_deployment("web", 1), of='"s/nobody"')
    )
    assert [e.summary for e in list_errors(wrong)] == ["Unknown cluster"]


def test_autoscaler_is_reported() -> None:
    scaler = json.dumps(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h", "namespace": "default"},
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 1},
        }
    )
    result = require_success(
        plan_without_certainty(
            RACKS + build_workers(1) + build_manifest("m", build_deployment("web", 1), scaler)
        )
    )
    assert "Autoscaled replicas" in list_warning_summaries(result)


# --- separation --------------------------------------------------------------------------------


WEB_AND_DB_APART = """
resource "nexus_separation_rule" "apart" {
  scope = "machine"
  group {
    workload_selector {
      match_labels = { app = "web" }
    }
  }
  group {
    workload_selector {
      match_labels = { app = "db" }
      namespaces   = ["default"]
    }
  }
}
"""


def test_separation_rule_separates_workloads() -> None:
    cordoned = "".join(
        f'machine_override "r0-bm{slot:02d}" {{\n cordoned = true\n }}\n' for slot in range(2, 5)
    )
    manifest = build_manifest("m", build_deployment("web", 1), build_deployment("db", 1))
    text = build_workers(2) + manifest + WEB_AND_DB_APART
    together = (
        replace_passage(ONE_RACK, "  machine_count = 4\n", f"  machine_count = 4\n{cordoned}")
        + text
    )
    (verdict,) = plan_without_certainty(together, samples=5).plan.verdicts.separation_verdicts
    assert verdict.satisfied == "never"
    (violation,) = verdict.violations
    assert violation.machine == "r0-bm01"
    assert {name.split(" on ")[0] for name in violation.members} == {
        "default/web-0",
        "default/db-0",
    }
    (problem,) = list_errors(plan_without_certainty(together, suggested_fixes=True))
    assert "No zones were found" in problem.detail
    elsewhere = together.replace('["default"]', '["elsewhere"]')
    result = plan_without_certainty(elsewhere, samples=5)
    (verdict,) = result.plan.verdicts.separation_verdicts
    assert (verdict.satisfied, verdict.violations) == ("unknown", ())
    (warning,) = [
        warning for warning in list_warnings(result) if warning.id == "separation-unknown"
    ]
    assert "group 2 selects no VM and no running pod" in warning.detail


def test_separation_rule_is_unknown_for_uncertain_pods() -> None:
    tied = build_manifest("m", build_deployment("web", 1)) + build_manifest(
        "n", build_deployment("db", 1)
    )
    (verdict,) = require_success(
        plan(RACKS + build_workers(2) + tied + WEB_AND_DB_APART)
    ).plan.verdicts.separation_verdicts
    assert verdict.satisfied == "unknown"
    assert verdict.unchecked == ("2 uncertain pods may run on a machine of another group",)
    pinned = build_manifest(
        "m", build_deployment("web", 1, spec={"nodeName": "a-np-0"})
    ) + build_manifest("n", build_deployment("db", 1, spec={"nodeName": "a-np-1"}))
    (verdict,) = require_success(
        plan(RACKS + build_workers(2) + pinned + WEB_AND_DB_APART)
    ).plan.verdicts.separation_verdicts
    assert (verdict.satisfied, verdict.unchecked) == ("always", ())


# --- pods of placements ---------------------------------------------------------------------


def parse_objects(*objects: str) -> tuple[Manifest, ...]:
    return parse_manifests("hub", "\n---\n".join(objects)).manifests


@pytest.fixture(scope="module")
def clusters() -> Mapping[str, NodeCluster]:
    text = RACKS + build_workers(3)
    return build_planned_clusters(
        require_success(plan_without_certainty(text, build_state(text))).objects.values()
    )


PLACEMENT = "fleet_cluster_resource_placement.p"


def read_phase_changes(phase: PodPhase) -> dict[str, tuple[str, str]]:
    return {r.object: (str(r.action), r.trigger) for r in phase.build_rows()}


def test_placement_pods_count_as_requests_of_member(clusters: Mapping[str, NodeCluster]) -> None:
    phase = PodPhase(clusters, members={"east": "s/a"})
    assert phase.sum_requests("east") == (0, 0)
    shown = phase.place_pods(
        PLACEMENT, "east", parse_objects(build_deployment("web", 2, cpu="1")), {}
    )
    assert set(shown["default/Deployment/web"]) == {"web-0", "web-1"}
    assert phase.sum_requests("east") == (2000, 0)
    assert phase.sum_requests("s/a") == (2000, 0)
    assert (
        phase.place_pods(PLACEMENT, "elsewhere", parse_objects(build_deployment("web", 2)), {})
        == {}
    )


def test_later_call_in_same_plan_changes_nothing(clusters: Mapping[str, NodeCluster]) -> None:
    phase = PodPhase(clusters)
    objects = parse_objects(build_deployment("web", 2))
    first = json.dumps(phase.place_pods(PLACEMENT, "s/a", objects, {}))
    other = "fleet_cluster_resource_placement.q"
    phase.place_pods(other, "s/a", parse_objects(build_deployment("db", 1)), {})
    assert json.dumps(phase.place_pods(PLACEMENT, "s/a", objects, json.loads(first))) == first
    assert read_phase_changes(phase) == dict.fromkeys(("web-0", "web-1", "db-0"), ("place", "new"))


def test_template_change_by_override_has_override_trigger(
    clusters: Mapping[str, NodeCluster],
) -> None:
    hub = parse_objects(build_deployment("web", 2))
    prior = PodPhase(clusters).place_pods(PLACEMENT, "s/a", hub, {})
    phase = PodPhase(clusters)
    changed = parse_objects(build_deployment("web", 2, image="redis:7"))
    phase.place_pods(PLACEMENT, "s/a", changed, prior, previous=hub, overrides_changed=True)
    assert read_phase_changes(phase) == {f"web-{n}": ("move", "override_changed") for n in range(2)}
    same = PodPhase(clusters)
    same.place_pods(PLACEMENT, "s/a", changed, prior, previous=changed)
    assert read_phase_changes(same) == {f"web-{n}": ("keep", "") for n in range(2)}


def test_deleted_binding_removes_its_pods(clusters: Mapping[str, NodeCluster]) -> None:
    objects = parse_objects(build_deployment("web", 2))
    prior = PodPhase(clusters).place_pods(PLACEMENT, "s/a", objects, {})
    phase = PodPhase(clusters, [PriorPods(PLACEMENT, "s/a", prior, objects)])
    phase.remove_pods(PLACEMENT, "s/a")
    assert read_phase_changes(phase) == {
        f"web-{n}": ("remove", "binding_removed") for n in range(2)
    }
    assert phase.list_scheduled_pods() == []


def test_pod_affinity_is_met_by_later_workload(clusters: Mapping[str, NodeCluster]) -> None:
    wants = {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": HOSTNAME}
                ]
            }
        }
    }
    phase = PodPhase(clusters)
    web = phase.place_pods(
        PLACEMENT, "s/a", parse_objects(build_deployment("web", 1, spec=wants)), {}
    )
    assert web["default/Deployment/web"]["web-0"]["node"] is None
    db = phase.place_pods(
        "fleet_cluster_resource_placement.q", "s/a", parse_objects(build_deployment("db", 1)), {}
    )
    assert (
        web["default/Deployment/web"]["web-0"]["node"]
        == db["default/Deployment/db"]["db-0"]["node"]
    )


# --- rejections by kubelet ----------------------------------------------------------------------


def test_pod_rejected_by_kubelet_stays_failed() -> None:
    big = build_deployment("big", 1, cpu="40", spec={"nodeName": "a-np-0"})
    text = RACKS + build_workers(2) + build_manifest("m", big)
    result = require_success(plan_without_certainty(text))
    assert read_pod_changes(result) == {"big-0": ("place", "rejected")}
    assert "pods-rejected-by-kubelet" in {w.id for w in list_warnings(result)}
    state = build_state_after(result)
    place = read_current_pods(state)["big-0"]
    assert (place["state"], place["node"]) == ("Failed", None)
    assert place["reason"].startswith("on a-np-0: OutOfcpu: ")
    assert is_empty(require_success(plan_without_certainty(text, state)))


def test_declared_topology_manager_rejects_pods_across_two_cells() -> None:
    amounts = {"cpu": "4", "memory": "1Gi"}
    containers = [
        {"name": "c", "image": "c", "resources": {"requests": amounts, "limits": amounts}}
    ]
    text = build_deployment("pinned", 1, spec={"containers": containers})
    declared = 'kubelet {\n topology_manager_policy = "single-numa-node"\n numa_nodes = 2\n}'
    for more, expected in (("", "Scheduled"), (declared, "Failed")):
        state = build_state(RACKS + build_workers(1, more) + build_manifest("m", text))
        assert read_current_pods(state)["pinned-0"]["state"] == expected


def test_declared_pool_resources_can_be_requested_and_others_are_named() -> None:
    wants = {"requests": {"intel.com/sriov": 2}, "limits": {"intel.com/sriov": 2}}
    text = build_deployment(
        "web", 2, spec={"containers": [{"name": "c", "image": "c", "resources": wants}]}
    )
    without = build_state(RACKS + build_workers(1) + build_manifest("m", text))
    assert read_current_pods(without)["web-0"]["state"] == "Pending"
    assert (
        " No node has the resource intel.com/sriov. "
        in read_current_pods(without)["web-0"]["reason"]
    )
    pools = 'kubelet {\n extended_resources = { "intel.com/sriov" = [1, 1] }\n}'
    declared = build_state(RACKS + build_workers(1, pools) + build_manifest("m", text))
    assert [read_current_pods(declared)[f"web-{n}"]["state"] for n in (0, 1)] == [
        "Scheduled",
        "Pending",
    ]


def test_invalid_kubelet_block_is_rejected_at_its_line() -> None:
    wrong = (
        'kubelet {\n reserved_cpus = "two"\n extended_resources = { gpu = 1 }\n eviction_memory = '
        '"x"\n}'
    )
    found = list_errors(plan_without_certainty(RACKS + build_workers(1, wrong)))
    assert [problem.id for problem in found] == ["invalid-kubelet"] * 3


@pytest.mark.of_domains("vnf")
def test_vnf_workers_have_declared_labels_and_taints() -> None:
    hot = (
        "heat_template_version: 2013-05-23\nresources:\n  workerNode:\n    type: OS::Nova::Server\n"
    )
    vnf = (
        'resource "tacker_vnf" "v" {\n  site_id = nexus_site.s.id\n'
        f"  base_hot = <<-EOT\n{hot}EOT\n"
        '  labels = { disk = "ssd" }\n  taints = [{ key = "t", effect = "NoSchedule" }]\n'
        '  vdu "workerNode" {\n    vcpus = 4\n    memory_gib = 8\n  }\n}\n'
    )
    wants = {"nodeSelector": {"disk": "ssd", "kubernetes.io/os": "linux"}}
    kept_off = build_deployment("web", 1, spec=wants)
    tolerant = build_deployment(
        "web", 1, spec=wants | {"tolerations": [{"key": "t", "operator": "Exists"}]}
    )
    for text, state in ((kept_off, "Pending"), (tolerant, "Scheduled")):
        brought = build_state(RACKS + vnf + build_manifest("m", text, of="tacker_vnf.v.id"))
        assert read_current_pods(brought)["web-0"]["state"] == state
    written = '[{ key = "t", effect = "NoSchedule" }]'
    for taints in (
        '[{ key = "t", effect = "Never" }]',
        '[{ key = "t" }]',
        '[{ effect = "NoSchedule" }]',
        '["t:NoSchedule"]',
        '{ t = ["NoSchedule"] }',
        '"t:NoSchedule"',
    ):
        brought = build_manifest("m", tolerant, of="tacker_vnf.v.id")
        wrong = list_errors(plan_without_certainty(RACKS + vnf.replace(written, taints) + brought))
        assert [problem.id for problem in wrong] == ["invalid-taint"], taints


def test_missing_namespace_of_cluster_objects_is_reported() -> None:
    def list_missing_namespaces(text: str) -> set[str]:
        summary = "Missing cluster namespace"
        return {
            each.brief
            for each in list_warnings(require_success(plan_without_certainty(text)))
            if each.summary == summary
        }

    namespace = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mon"}})
    site = RACKS + build_workers(1)
    bare = site + build_manifest(
        "m", build_deployment("web", 1, namespace="mon"), build_deployment("db", 1, namespace="mon")
    )
    assert list_missing_namespaces(bare) == {"mon: missing on a"}
    # Another object creates it, even a later one, or it exists already.
    assert list_missing_namespaces(bare + build_manifest("n", namespace)) == set()
    later = build_manifest("n", namespace).replace(
        '"n" {', '"n" {\n  depends_on = [fleet_hub_manifest.m]', 1
    )
    assert list_missing_namespaces(bare + later) == set()
    member = (
        'resource "fleet_member_cluster" "a" {\n  name = "a"\n  namespaces = ["mon"]\n'
        "  kubernetes_cluster_id = nexus_kubernetes_cluster.a.id\n}\n"
    )
    assert list_missing_namespaces(bare + member) == set()
    assert list_missing_namespaces(bare + member.replace("mon", "other")) == {"mon: missing on a"}
    # Objects outside the plan still exist.
    state = build_state_after(
        require_success(plan_without_certainty(bare + build_manifest("n", namespace)))
    )
    one = plan_without_certainty(
        bare + build_manifest("n", namespace), state, targets=("fleet_hub_manifest.m",)
    )
    assert "Missing cluster namespace" not in list_warning_summaries(require_success(one))
    gone = plan_without_certainty(bare + build_manifest("n", build_deployment("x", 1)), state)
    assert "Missing cluster namespace" in list_warning_summaries(require_success(gone))
    for given in ("default", "kube-system"):
        assert (
            list_missing_namespaces(
                site + build_manifest("m", build_deployment("web", 1, namespace=given))
            )
            == set()
        )


def test_pods_of_untargeted_objects_are_not_evicted() -> None:
    low = build_manifest("low", build_deployment("low", 1, cpu="3"))
    high = build_manifest(
        "high",
        build_deployment("high", 1, cpu="3", spec={"priorityClassName": "system-node-critical"}),
    )
    text = RACKS + build_workers(1) + low + high
    state = build_state_after(
        require_success(plan_without_certainty(RACKS + build_workers(1) + low))
    )
    for options in (
        {"targets": ("fleet_hub_manifest.high",)},
        {"excludes": ("fleet_hub_manifest.low",)},
    ):
        part = require_success(plan_without_certainty(text, state, **options))
        assert read_pod_changes(part) == {"high-0": ("place", "new")}
        meanwhile = build_state_after(part)
        # Otherwise both pods would run on capacity for one.
        assert read_current_pods(meanwhile, "high")["high-0"]["node"] is None
        assert read_pod_changes(require_success(plan_without_certainty(text, meanwhile))) == {
            "high-0": ("move", "new"),
            "low-0": ("move", "preempted"),
        }


def test_eviction_is_reported_after_second_pass() -> None:
    low = build_deployment("low", 1, cpu="3")
    high = build_deployment("high", 2, cpu="3", spec={"priorityClassName": "system-node-critical"})
    state = build_state_after(
        require_success(
            plan_without_certainty(RACKS + build_workers(1) + build_manifest("low", low))
        )
    )
    # One of them is pending, so the plan makes a second pass over all pods.
    result = require_success(
        plan_without_certainty(
            RACKS + build_workers(1) + build_manifest("low", low) + build_manifest("high", high),
            state,
        )
    )
    assert {"pods-evicted", "pending-pods"} <= {each.id for each in list_warnings(result)}


def test_missing_referenced_objects_have_short_warnings() -> None:
    """A line of the default plan is short, so the missing object comes first."""
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    volumes = {"volumes": [claim]}
    objects = [
        build_deployment("hi", 1, spec={"priorityClassName": "high"}),
        build_deployment("kata", 1, spec={"runtimeClassName": "kata"}),
        build_deployment("db", 1, spec=volumes),
        json.dumps(
            {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "r"}}
        ),
    ]
    result = require_success(
        plan_without_certainty(RACKS + build_workers(1) + build_manifest("m", *objects))
    )
    briefs = {warning.brief.partition(": ")[::2] for warning in list_warnings(result)}
    assert {
        ("Deployment default/hi", "PriorityClass high is not on the cluster"),
        ("Deployment default/kata", "RuntimeClass kata is not on the cluster"),
        ("Deployment default/db", "claim data is not on the cluster"),
    } <= briefs
    assert all(warning.brief for warning in list_warnings(result))


def test_paused_deployment_is_scaled_with_its_current_template() -> None:
    start = (
        RACKS + build_workers(2) + build_manifest("m", build_deployment("web", 2, image="web:1"))
    )
    state = build_state(start)
    paused = (
        RACKS
        + build_workers(2)
        + build_manifest("m", build_deployment("web", 3, image="web:2", paused=True))
    )
    after = build_state_after(require_success(plan_without_certainty(paused, state)), state)
    assert {
        name: place["node"] is not None for name, place in read_current_pods(after).items()
    } == {"web-0": True, "web-1": True, "web-2": True}
    assert all(place["former_template"] for place in read_current_pods(after).values())
    assert is_empty(require_success(plan_without_certainty(paused, after)))
    # After resume all pods get the new template.
    rolled = build_state_after(
        require_success(
            plan_without_certainty(paused.replace('"paused": true', '"paused": false'), after)
        ),
        after,
    )
    assert not any(place.get("former_template") for place in read_current_pods(rolled).values())
    first = RACKS + build_workers(2) + build_manifest("m", build_deployment("web", 2, paused=True))
    assert read_current_pods(build_state(first)) == {}


@pytest.mark.parametrize(
    ("replicas", "after", "old", "new"),
    # kube-controller-manager 1.34 distributes them like this: 4 pods are blocked at 3 old and 2 new
    # ones, 8 at 6 and 4.
    [
        (4, 8, 6, 4),
        (4, 12, 9, 6),
        (8, 4, 3, 2),
        (8, 6, 5, 3),
        (10, 3, 2, 2),
        (5, 7, 5, 4),
        (7, 5, 4, 3),
        (3, 10, 8, 5),
    ],
)
def test_blocked_rollout_is_scaled_per_replica_set(
    replicas: int, after: int, old: int, new: int
) -> None:
    base = RACKS + build_workers(3)
    hung = {"nodeSelector": {"nobody": "has-it"}}
    state = build_state(base + build_manifest("m", build_deployment("web", replicas, cpu="100m")))
    text = base + build_manifest("m", build_deployment("web", replicas, cpu="100m", spec=hung))
    state = build_state_after(require_success(plan_without_certainty(text, state)), state)
    scaled = base + build_manifest("m", build_deployment("web", after, cpu="100m", spec=hung))
    state = build_state_after(require_success(plan_without_certainty(scaled, state)), state)
    running = [place for place in read_current_pods(state).values() if place["node"]]
    assert all(place["former_template"] for place in running)
    assert (len(running), len(read_current_pods(state)) - len(running)) == (old, new)
    assert is_empty(require_success(plan_without_certainty(scaled, state)))


def test_paused_rollout_is_scaled_per_replica_set() -> None:
    """As in kube-controller-manager 1.34: 3 old and 2 new pods of 4 become 6 and 4 of 8."""
    base = RACKS + build_workers(3)
    state = build_state(base + build_manifest("m", build_deployment("web", 4, cpu="100m")))
    hung = {"nodeSelector": {"nobody": "has-it"}}
    for replicas, paused in ((4, False), (4, True), (8, True)):
        text = base + build_manifest(
            "m", build_deployment("web", replicas, cpu="100m", spec=hung, paused=paused)
        )
        state = build_state_after(require_success(plan_without_certainty(text, state)), state)
    nodes = [place["node"] for place in read_current_pods(state).values()]
    assert (len(nodes), nodes.count(None)) == (10, 4)
    assert is_empty(require_success(plan_without_certainty(text, state)))


@pytest.mark.parametrize(
    ("api_version", "kind", "served"),
    [
        ("extensions/v1beta1", "Deployment", "apps/v1"),
        ("apps/v1beta2", "StatefulSet", "apps/v1"),
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler", "autoscaling/v1 or autoscaling/v2"),
        ("policy/v1beta1", "PodDisruptionBudget", "policy/v1"),
        ("batch/v1beta1", "CronJob", "batch/v1"),
    ],
)
def test_object_of_a_removed_version_places_no_pod(
    api_version: str, kind: str, served: str
) -> None:
    """An API server answers: no matches for kind."""
    old = json.loads(build_deployment("old", 2)) | {"apiVersion": api_version, "kind": kind}
    old["spec"]["scaleTargetRef"] = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    old["spec"]["minReplicas"] = 4
    manifests = build_manifest("m", build_deployment("web", 1), json.dumps(old))
    result = plan_without_certainty(RACKS + build_workers(3) + manifests)
    (error,) = list_errors(result)
    assert error.id == "invalid-kubernetes-manifest"
    assert f"{kind} is not served as {api_version}; write {served}." in error.detail
    assert not [row for row in result.plan.placements if row.kind == "pod"]
