"""Pods in plans: what objects with a cluster_id bring, what stays, what moves and why, and what is risky."""

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
    pool,
    replace_passage,
    require_success,
)

# What a manifest brings to a cluster is a block of fleet.
pytestmark = pytest.mark.of_domains("fleet")
HOSTNAME = "kubernetes.io/hostname"
MACHINE = "topology.kubernetes.io/baremetalmachine"
ZONE = "topology.kubernetes.io/zone"
ONE_RACK = RACKS.replace("count         = 3\n", "count = 1\n", 1)


def deployment(
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
    """The object as JSON, which is YAML too. `apart` is the topology key of its anti-affinity."""
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
            key, rule = "requiredDuringSchedulingIgnoredDuringExecution", [term]
        pod["affinity"] = {"podAntiAffinity": {key: rule}}
    body: dict[str, Any] = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
        **more,
    }
    if kind != "DaemonSet":
        body["replicas"] = replicas
    return json.dumps(
        {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": body}
    )


def manifest(name: str, *objects: str, of: str = "nexus_kubernetes_cluster.a.id") -> str:
    body = "\n---\n".join(objects)
    text = f"  cluster_id = {of}\n  yaml_body = <<-EOT\n{body}\nEOT\n"
    return f'resource "fleet_hub_manifest" "{name}" {{\n{text}}}\n'


def workers(count: int, more: str = "", arguments: str = "") -> str:
    return cluster("a", arguments=arguments, pools=pool("np", count, more=more))


def pods(result: PlanResult) -> dict[str, tuple[str, str]]:
    """(action, trigger) per pod that something happens to."""
    rows = [r for r in result.plan.placements if r.kind == "pod" and r.action != "keep"]
    return {r.object: (str(r.action), r.trigger) for r in rows}


def standing(state: State, name: str = "m") -> dict[str, dict[str, Any]]:
    """Pod -> where it stands, of all workloads of a manifest."""
    found = attributes(state, f"fleet_hub_manifest.{name}")["workloads"]
    return {pod: dict(place) for workload in found.values() for pod, place in workload.items()}


def machines(state: State, name: str = "m") -> list[str]:
    return sorted(str(p["machine"]) for p in standing(state, name).values())


def summaries(result: PlanResult) -> set[str]:
    return {w.summary for w in list_warnings(result)}


# --- where -------------------------------------------------------------------------------------


def test_pods_show_where_they_run_and_a_second_plan_is_empty() -> None:
    text = RACKS + workers(3) + manifest("m", deployment("web", 3))
    result = require_success(plan(text))
    state = build_state_after(result)
    nodes = attributes(state, "nexus_kubernetes_cluster.a")["nodes"]
    workloads = attributes(state, "fleet_hub_manifest.m")["workloads"]
    assert set(workloads) == {"default/Deployment/web"}
    assert set(workloads["default/Deployment/web"]) == {"web-0", "web-1", "web-2"}
    for place in standing(state).values():
        told = {"node", "machine", "availability_zone", "certain", "provenance", "state", "reason"}
        assert set(place) == told
        assert place["provenance"] == "predicted"
        node = nodes[place["node"]]
        assert node["role"] == "Worker"
        assert (place["machine"], place["availability_zone"]) == (node["machine"], node["availability_zone"])
    assert pods(result) == {f"web-{n}": ("place", "new") for n in range(3)}
    (row,) = [r for r in result.plan.placements if r.object == "web-0"]
    assert row.source is None
    assert isinstance(row.target, PodLocation)
    assert row.target.cluster == "a"
    assert nodes[row.target.node]["machine"] == row.target.machine
    again = plan(text, state)
    assert is_empty(again)
    assert again.plan.unchanged_count == 4 + 3


def test_a_pod_is_certain_only_where_nothing_else_is_possible() -> None:
    picky = {"nodeSelector": {HOSTNAME: "a-np-1"}}
    text = ONE_RACK + workers(2)
    one = standing(build_state(text + manifest("m", deployment("one", 1, spec=picky))))["one-0"]
    assert (one["node"], one["certain"]) == ("a-np-1", True)
    assert not standing(build_state(text + manifest("m", deployment("any", 1))))["any-0"]["certain"]


@pytest.mark.parametrize(("together", "preferred", "running"), [(False, False, 2), (True, False, 1), (True, True, 2)])
def test_two_replicas_kept_apart_by_server(together: bool, preferred: bool, running: int) -> None:
    # Two workers on two servers, or (the other servers being cordoned) both on one.
    rack = ONE_RACK
    if together:
        blocks = "".join(f'machine_override "r0-bm{slot:02d}" {{\n cordoned = true\n }}\n' for slot in range(2, 5))
        rack = replace_passage(ONE_RACK, "  machine_count = 4\n", f"  machine_count = 4\n{blocks}")
    keys = 'hardware_label_keys = ["kubernetes.io/zone"]'
    redis = deployment("redis-cache", 2, apart="kubernetes.io/zone", preferred=preferred)
    text = rack + workers(2, arguments=keys) + manifest("m", redis)
    result = require_success(plan(text))
    places = standing(build_state_after(result))
    hosts = [place["machine"] for place in places.values() if place["node"]]
    assert len(hosts) == running
    assert len(set(hosts)) == (1 if together else 2)
    if running < 2:
        assert "Pending pods" in summaries(result)
        (row,) = [r for r in result.plan.placements if r.kind == "pod" and not r.target.node]
        assert "anti-affinity" in row.reason
    if preferred and together:
        assert "Pods share machine" in summaries(result)


def test_hostname_spreads_over_workers_and_not_over_servers() -> None:
    cordoned = "".join(f'machine_override "r0-bm{slot:02d}" {{\n cordoned = true\n }}\n' for slot in range(2, 5))
    rack = replace_passage(ONE_RACK, "  machine_count = 4\n", f"  machine_count = 4\n{cordoned}")
    text = rack + workers(2) + manifest("m", deployment("redis-cache", 2, apart=HOSTNAME))
    result = require_success(plan(text))
    places = standing(build_state_after(result))
    assert len({p["node"] for p in places.values()}) == 2
    assert {p["machine"] for p in places.values()} == {"r0-bm01"}
    (told,) = [w for w in list_warnings(result) if w.summary == "Pods share machine"]
    assert "r0-bm01" in told.detail
    assert MACHINE in told.detail
    assert told.subject is not None


def test_a_key_that_workers_lack_is_told_and_so_is_a_rollout_that_will_hang() -> None:
    text = RACKS + workers(2) + manifest("m", deployment("r", 2, apart="kubernetes.io/zone"))
    assert {"Workers without topology label", "Unknown topology key"} & summaries(require_success(plan(text)))
    apart = RACKS + workers(2) + manifest("m", deployment("r", 2, apart=MACHINE))
    (told,) = [w for w in list_warnings(require_success(plan(apart))) if w.summary == "Rollout deadlock"]
    assert "maxUnavailable: 1" in told.detail
    assert "matchLabelKeys" in told.detail


def test_taints_keep_pods_away_and_pools_of_their_own_take_them() -> None:
    taint = 'taint {\n key = "gpu"\n effect = "NoSchedule"\n }'
    extra = (
        'resource "nexus_agent_pool" "extra" {\n kubernetes_cluster_id = nexus_kubernetes_cluster.a.id\n'
        ' node_count = 1\n vm_sku_name = "NC_G6_28_v1"\n}\n'
    )
    keys = 'hardware_label_keys = ["kubernetes.io/zone"]'
    text = RACKS + workers(2, more=taint, arguments=keys) + extra
    text += manifest("m", deployment("r", 1, apart="kubernetes.io/zone"))
    result = require_success(plan(text))
    assert [p["node"] for p in standing(build_state_after(result)).values()] == ["a-extra-0"]
    assert not {"Workers without topology label", "Unknown topology key"} & summaries(result)


def test_daemons_and_priorities_come_first_also_across_manifests() -> None:
    # Each worker has 4 vCPUs left for pods.
    high = json.dumps(
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    )
    first = manifest("m", deployment("low", 2, cpu="3"))
    second = manifest(
        "n",
        high,
        deployment("high", 1, cpu="3", spec={"priorityClassName": "high"}),
        deployment("agent", 0, kind="DaemonSet", cpu="500m"),
    )
    state = build_state(RACKS + workers(2) + first + second)
    others = standing(state, "n")
    assert {others[f"agent-{n}"]["node"] for n in range(2)} == {"a-np-0", "a-np-1"}
    assert others["high-0"]["node"]
    assert sorted(bool(p["node"]) for p in standing(state).values()) == [False, True]


def test_a_manifest_may_refer_to_where_the_pods_of_another_run() -> None:
    place = 'fleet_hub_manifest.m.workloads["default/Deployment/web"]["web-0"].node'
    beside = deployment("beside", 1, spec={"nodeSelector": {HOSTNAME: f"${{{place}}}"}})
    # The brackets and quotes of the reference stand in a template.
    beside = beside.replace('\\"', '"')
    second = manifest("n", beside)
    state = build_state(RACKS + workers(3) + second + manifest("m", deployment("web", 1)))
    assert standing(state, "n")["beside-0"]["node"] == standing(state)["web-0"]["node"]


# --- over time ---------------------------------------------------------------------------------


def test_replicas_up_and_down_touch_no_other_pod() -> None:
    text = RACKS + workers(3) + manifest("m", deployment("web", 3), deployment("db", 2))
    state = build_state(text)
    before = standing(state)
    more = text.replace('"replicas": 3', '"replicas": 5')
    result = require_success(plan(more, state))
    assert pods(result) == {"web-3": ("place", "scale_out"), "web-4": ("place", "scale_out")}
    after = standing(build_state_after(result, state))
    assert {name: after[name] for name in before} == before
    down = require_success(plan(text, build_state_after(result, state)))
    assert sorted(pods(down).values()) == [("remove", "scale_in")] * 2
    assert all(name.startswith("web-") for name in pods(down))


def test_a_new_image_replaces_every_pod_of_the_workload() -> None:
    text = RACKS + workers(3) + manifest("m", deployment("web", 2), deployment("db", 1))
    state = build_state(text)
    renewed = text.replace("redis:3.2-alpine", "redis:7", 1)
    assert pods(require_success(plan(renewed, state))) == {
        "web-0": ("move", "template_changed"),
        "web-1": ("move", "template_changed"),
    }


def test_a_rollout_that_hangs_hangs_in_the_next_plan_too() -> None:
    text = RACKS + workers(2) + manifest("m", deployment("web", 2, apart=HOSTNAME))
    renewed = text.replace("redis:3.2-alpine", "redis:7")
    first = build_state(text)
    state = build_state(renewed, first)
    assert standing(state)["web-2"]["node"] is None
    again = require_success(plan(renewed, state))
    assert is_empty(again)
    assert "Stuck rollout" in summaries(again)
    # One more worker lets it go on, and the older pods are replaced at last.
    grown = require_success(plan(renewed.replace("count       = 2", "count       = 3"), state))
    done = build_state_after(grown, state)
    assert len(standing(done)) == 2
    assert all("former_template" not in place for place in standing(done).values())
    # Going back to the older template drops what waits.
    back = require_success(plan(text, state))
    assert pods(back) == {"web-2": ("remove", "scale_in")}


@pytest.mark.parametrize("replicas", [3, 5])
@pytest.mark.parametrize("image_first", [False, True])
def test_pods_of_an_older_template_hold_what_they_asked_for(replicas: int, image_first: bool) -> None:
    """They fill their workers until the rollout reaches them, whatever the new template asks for."""
    strategy = {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}}

    def text(cpu: str, image: str, pods: int = 3) -> str:
        brought = manifest("m", deployment("w", pods, cpu=cpu, image=image, **strategy))
        return RACKS + workers(3).replace("NC_G6_28_v1", "NC_P10_56_v1") + brought

    state = build_state_after(require_success(plan(text("6", "i:1"))))
    if image_first:
        state = build_state_after(require_success(plan(text("6", "i:2"), state)), state)
    changed = text("3", "i:3", replicas)
    result = require_success(plan(changed, state))
    assert "Stuck rollout" in summaries(result)
    state = build_state_after(result, state)
    again = require_success(plan(changed, state))
    assert is_empty(again)
    assert "Stuck rollout" in summaries(again)
    # The next change starts from what runs: nothing has left its worker.
    later = text("2500m", "i:4", replicas)
    result = require_success(plan(later, state))
    assert "Stuck rollout" in summaries(result)
    state = build_state_after(result, state)
    assert is_empty(plan(later, state))


def test_pods_below_a_partition_keep_their_template_until_it_falls() -> None:
    def text(image: str, partition: int) -> str:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
        body = deployment("db", 3, kind="StatefulSet", image=image, updateStrategy=rolling)
        return RACKS + workers(2) + manifest("m", body)

    state = build_state(text("redis:7", 2), build_state(text("redis:6", 2)))
    assert is_empty(require_success(plan(text("redis:7", 2), state)))
    fallen = require_success(plan(text("redis:7", 0), state))
    assert pods(fallen) == {"db-0": ("move", "template_changed"), "db-1": ("move", "template_changed")}
    assert is_empty(require_success(plan(text("redis:7", 0), build_state_after(fallen, state))))


def test_a_pod_whose_node_is_healed_came_from_the_machine_that_the_node_stood_on() -> None:
    text = RACKS + workers(1) + manifest("m", deployment("web", 1))
    state = build_state(text)
    was = standing(state)["web-0"]["machine"]
    result = require_success(plan(text, state, replaces=("nexus_kubernetes_cluster.a:a-np-0",)))
    (row,) = [r for r in result.plan.placements if r.kind == "pod" and r.action == "move"]
    assert row.source is not None
    assert row.target is not None
    assert row.source.machine == was
    (node,) = [r for r in result.plan.placements if r.object == "a-np-0"]
    assert node.target is not None
    assert row.target.machine == node.target.machine != was


def test_pods_of_a_node_that_goes_are_placed_again() -> None:
    text = RACKS + workers(3) + manifest("m", deployment("web", 3, apart=HOSTNAME))
    state = build_state(text)
    (lost,) = [name for name, p in standing(state).items() if p["node"] == "a-np-2"]
    fewer = text.replace("count       = 3\n", "count       = 2\n")
    result = require_success(plan(fewer, state))
    assert pods(result) == {lost: ("move", "node_removed")}
    assert standing(build_state_after(result, state))[lost]["node"] is None
    (row,) = [r for r in result.plan.placements if r.object == lost]
    assert row.source.node == "a-np-2"


def test_pods_of_a_node_made_anew_are_placed_again() -> None:
    text = RACKS + workers(3) + manifest("m", deployment("web", 3, apart=HOSTNAME))
    state = build_state(text)
    (lost,) = [name for name, p in standing(state).items() if p["node"] == "a-np-1"]
    result = require_success(plan(text, state, replaces=("nexus_kubernetes_cluster.a:a-np-1",)))
    assert pods(result) == {lost: ("move", "node_removed")}
    assert is_empty(plan(text, build_state_after(result, state)))


def test_pods_of_a_cluster_that_state_forgot_are_placed_again() -> None:
    text = RACKS + workers(3) + manifest("m", deployment("web", 3, apart=HOSTNAME))
    state = build_state(text)
    address = next(each for each in state.instances if each.type == "nexus_kubernetes_cluster")
    forgotten = replace(state, instances={name: each for name, each in state.instances.items() if name != address})
    result = require_success(plan(text, forgotten))
    assert pods(result) == {f"web-{n}": ("move", "node_removed") for n in range(3)}
    assert is_empty(plan(text, build_state_after(result, forgotten)))


def test_a_pending_pod_is_placed_once_there_is_room() -> None:
    text = RACKS + workers(2) + manifest("m", deployment("web", 3, apart=HOSTNAME))
    state = build_state(text)
    assert is_empty(plan(text, state))
    more = text.replace("count       = 2\n", "count       = 3\n")
    result = require_success(plan(more, state))
    (name,) = pods(result)
    assert standing(build_state_after(result, state))[name]["node"] == "a-np-2"


def test_a_workload_and_a_manifest_that_go_take_their_pods() -> None:
    web, db = deployment("web", 1), deployment("db", 1)
    both = RACKS + workers(2) + manifest("m", web, db)
    state = build_state(both)
    one = RACKS + workers(2) + manifest("m", web)
    assert pods(require_success(plan(one, state))) == {"db-0": ("remove", "workload_removed")}
    none = require_success(plan(RACKS + workers(2), state))
    assert pods(none) == dict.fromkeys(("web-0", "db-0"), ("remove", "workload_removed"))
    assert list_actions(none) == {"fleet_hub_manifest.m": "delete"}


def test_what_leaves_makes_room_for_what_comes() -> None:
    # Room for one pod of 3 vCPUs on the only worker.
    state = build_state(RACKS + workers(1) + manifest("m", deployment("old", 1, cpu="3")))
    result = require_success(plan(RACKS + workers(1) + manifest("n", deployment("new", 1, cpu="3")), state))
    assert pods(result) == {"old-0": ("remove", "workload_removed"), "new-0": ("place", "new")}
    assert standing(build_state_after(result, state), "n")["new-0"]["node"] == "a-np-0"


def test_two_manifests_on_one_cluster_know_of_each_other() -> None:
    first = RACKS + workers(2) + manifest("m", deployment("one", 2, cpu="3"))
    state = build_state(first)
    result = require_success(plan(first + manifest("n", deployment("two", 2, cpu="1500m")), state))
    assert [p["node"] for p in standing(build_state_after(result, state), "n").values()] == [None, None]
    assert pods(result) == {f"two-{n}": ("place", "new") for n in range(2)}


def test_another_cluster_means_other_pods() -> None:
    two = RACKS + workers(1) + cluster("b", pools=pool("np", 1))
    state = build_state(two + manifest("m", deployment("web", 1)))
    moved = two + manifest("m", deployment("web", 1), of="nexus_kubernetes_cluster.b.id")
    result = require_success(plan(moved, state))
    rows = [(str(r.action), r.trigger) for r in result.plan.placements if r.object == "web-0"]
    assert rows == [("remove", "binding_removed"), ("place", "new")]
    assert standing(build_state_after(result, state))["web-0"]["node"] == "b-np-0"


def test_destroying_removes_pods() -> None:
    text = RACKS + workers(1) + manifest("m", deployment("web", 1))
    result = require_success(plan(text, build_state(text), mode=Mode.DESTROY))
    assert pods(result) == {"web-0": ("remove", "workload_removed")}


def test_what_cannot_be_read_or_found_is_an_error() -> None:
    wrong = plan(RACKS + workers(1) + manifest("m", deployment("web", 1), of='"s/nobody"'))
    assert [e.summary for e in list_errors(wrong)] == ["Unknown cluster"]


def test_an_autoscaler_is_told() -> None:
    scaler = json.dumps(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h", "namespace": "default"},
            "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 1},
        }
    )
    result = require_success(plan(RACKS + workers(1) + manifest("m", deployment("web", 1), scaler)))
    assert "Autoscaled replicas" in summaries(result)


# --- separation --------------------------------------------------------------------------------


def test_workloads_are_kept_apart_by_a_rule() -> None:
    cordoned = "".join(f'machine_override "r0-bm{slot:02d}" {{\n cordoned = true\n }}\n' for slot in range(2, 5))
    rule = """
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
    text = workers(2) + manifest("m", deployment("web", 1), deployment("db", 1)) + rule
    together = replace_passage(ONE_RACK, "  machine_count = 4\n", f"  machine_count = 4\n{cordoned}") + text
    (verdict,) = plan(together, samples=5).plan.separation_verdicts
    assert verdict.satisfied == "never"
    (violation,) = verdict.violations
    assert violation.machine == "r0-bm01"
    assert {name.split(" on ")[0] for name in violation.members} == {"default/web-0", "default/db-0"}
    (problem,) = list_errors(plan(together, suggested_fixes=True))
    assert "No zones were found" in problem.detail
    elsewhere = together.replace('["default"]', '["elsewhere"]')
    (verdict,) = plan(elsewhere, samples=5).plan.separation_verdicts
    assert (verdict.satisfied, verdict.violations) == ("always", ())


# --- what placements bring ---------------------------------------------------------------------


def read(*objects: str) -> tuple[Manifest, ...]:
    return parse_manifests("hub", "\n---\n".join(objects)).manifests


@pytest.fixture(scope="module")
def clusters() -> Mapping[str, NodeCluster]:
    text = RACKS + workers(3)
    return build_planned_clusters(require_success(plan(text, build_state(text))).objects.values())


PLACEMENT = "fleet_cluster_resource_placement.p"


def after(phase: PodPhase) -> dict[str, tuple[str, str]]:
    return {r.object: (str(r.action), r.trigger) for r in phase.rows}


def test_a_placements_pods_count_for_the_figures_of_the_member(clusters: Mapping[str, NodeCluster]) -> None:
    phase = PodPhase(clusters, members={"east": "s/a"})
    assert phase.sum_requests("east") == (0, 0)
    shown = phase.place_pods(PLACEMENT, "east", read(deployment("web", 2, cpu="1")), {})
    assert set(shown["default/Deployment/web"]) == {"web-0", "web-1"}
    assert phase.sum_requests("east") == (2000, 0)
    assert phase.sum_requests("s/a") == (2000, 0)
    assert phase.place_pods(PLACEMENT, "elsewhere", read(deployment("web", 2)), {}) == {}


def test_a_later_call_of_the_same_plan_changes_nothing(clusters: Mapping[str, NodeCluster]) -> None:
    phase = PodPhase(clusters)
    objects = read(deployment("web", 2))
    first = json.dumps(phase.place_pods(PLACEMENT, "s/a", objects, {}))
    other = "fleet_cluster_resource_placement.q"
    phase.place_pods(other, "s/a", read(deployment("db", 1)), {})
    assert json.dumps(phase.place_pods(PLACEMENT, "s/a", objects, json.loads(first))) == first
    assert after(phase) == dict.fromkeys(("web-0", "web-1", "db-0"), ("place", "new"))


def test_an_override_that_changes_the_template_is_called_so(clusters: Mapping[str, NodeCluster]) -> None:
    hub = read(deployment("web", 2))
    prior = PodPhase(clusters).place_pods(PLACEMENT, "s/a", hub, {})
    phase = PodPhase(clusters)
    changed = read(deployment("web", 2, image="redis:7"))
    phase.place_pods(PLACEMENT, "s/a", changed, prior, previous=hub, overrides_changed=True)
    assert after(phase) == {f"web-{n}": ("move", "override_changed") for n in range(2)}
    same = PodPhase(clusters)
    same.place_pods(PLACEMENT, "s/a", changed, prior, previous=changed)
    assert after(same) == {f"web-{n}": ("keep", "") for n in range(2)}


def test_a_binding_that_goes_takes_its_pods(clusters: Mapping[str, NodeCluster]) -> None:
    objects = read(deployment("web", 2))
    prior = PodPhase(clusters).place_pods(PLACEMENT, "s/a", objects, {})
    phase = PodPhase(clusters, [PriorPods(PLACEMENT, "s/a", prior, objects)])
    phase.remove_pods(PLACEMENT, "s/a")
    assert after(phase) == {f"web-{n}": ("remove", "binding_removed") for n in range(2)}
    assert phase.list_scheduled_workloads() == []


def test_company_that_comes_later_is_found(clusters: Mapping[str, NodeCluster]) -> None:
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
    web = phase.place_pods(PLACEMENT, "s/a", read(deployment("web", 1, spec=wants)), {})
    assert web["default/Deployment/web"]["web-0"]["node"] is None
    db = phase.place_pods("fleet_cluster_resource_placement.q", "s/a", read(deployment("db", 1)), {})
    assert web["default/Deployment/web"]["web-0"]["node"] == db["default/Deployment/db"]["db-0"]["node"]


# --- what kubelet refuses ----------------------------------------------------------------------


def test_a_pod_that_kubelet_refuses_is_failed_and_stays_so() -> None:
    big = deployment("big", 1, cpu="40", spec={"nodeName": "a-np-0"})
    text = RACKS + workers(2) + manifest("m", big)
    result = require_success(plan(text))
    assert pods(result) == {"big-0": ("place", "rejected")}
    assert "pods-rejected-by-kubelet" in {w.id for w in list_warnings(result)}
    state = build_state_after(result)
    place = standing(state)["big-0"]
    assert (place["state"], place["node"]) == ("Failed", None)
    assert place["reason"].startswith("on a-np-0: OutOfcpu: ")
    assert is_empty(require_success(plan(text, state)))


def test_a_declared_topology_manager_refuses_what_lies_in_two_cells() -> None:
    amounts = {"cpu": "4", "memory": "1Gi"}
    containers = [{"name": "c", "image": "c", "resources": {"requests": amounts, "limits": amounts}}]
    text = deployment("pinned", 1, spec={"containers": containers})
    declared = 'kubelet {\n topology_manager_policy = "single-numa-node"\n numa_nodes = 2\n}'
    for more, expected in (("", "Scheduled"), (declared, "Failed")):
        state = build_state(RACKS + workers(1, more) + manifest("m", text))
        assert standing(state)["pinned-0"]["state"] == expected


def test_what_a_pool_declares_can_be_asked_for_and_what_nobody_has_is_named() -> None:
    wants = {"requests": {"intel.com/sriov": 2}, "limits": {"intel.com/sriov": 2}}
    text = deployment("web", 2, spec={"containers": [{"name": "c", "image": "c", "resources": wants}]})
    without = build_state(RACKS + workers(1) + manifest("m", text))
    assert standing(without)["web-0"]["state"] == "Pending"
    assert " No node has the resource intel.com/sriov. " in standing(without)["web-0"]["reason"]
    pools = 'kubelet {\n extended_resources = { "intel.com/sriov" = [1, 1] }\n}'
    declared = build_state(RACKS + workers(1, pools) + manifest("m", text))
    assert [standing(declared)[f"web-{n}"]["state"] for n in (0, 1)] == ["Scheduled", "Pending"]


def test_a_wrong_kubelet_block_is_refused_at_its_place() -> None:
    wrong = 'kubelet {\n reserved_cpus = "two"\n extended_resources = { gpu = 1 }\n eviction_memory = "x"\n}'
    found = list_errors(plan(RACKS + workers(1, wrong)))
    assert [problem.id for problem in found] == ["invalid-kubelet"] * 3


@pytest.mark.of_domains("vnf")
def test_workers_of_a_vnf_carry_the_labels_and_taints_that_are_declared() -> None:
    hot = "heat_template_version: 2013-05-23\nresources:\n  workerNode:\n    type: OS::Nova::Server\n"
    vnf = (
        'resource "tacker_vnf" "v" {\n  site_id = nexus_site.s.id\n'
        f"  base_hot = <<-EOT\n{hot}EOT\n"
        '  labels = { disk = "ssd" }\n  taints = [{ key = "t", effect = "NoSchedule" }]\n'
        '  vdu "workerNode" {\n    vcpus = 4\n    memory_gib = 8\n  }\n}\n'
    )
    wants = {"nodeSelector": {"disk": "ssd", "kubernetes.io/os": "linux"}}
    kept_off = deployment("web", 1, spec=wants)
    tolerant = deployment("web", 1, spec=wants | {"tolerations": [{"key": "t", "operator": "Exists"}]})
    for text, state in ((kept_off, "Pending"), (tolerant, "Scheduled")):
        brought = build_state(RACKS + vnf + manifest("m", text, of="tacker_vnf.v.id"))
        assert standing(brought)["web-0"]["state"] == state
    written = '[{ key = "t", effect = "NoSchedule" }]'
    for taints in (
        '[{ key = "t", effect = "Never" }]',
        '[{ key = "t" }]',
        '[{ effect = "NoSchedule" }]',
        '["t:NoSchedule"]',
        '{ t = ["NoSchedule"] }',
        '"t:NoSchedule"',
    ):
        brought = manifest("m", tolerant, of="tacker_vnf.v.id")
        wrong = list_errors(plan(RACKS + vnf.replace(written, taints) + brought))
        assert [problem.id for problem in wrong] == ["invalid-taint"], taints


def test_a_namespace_that_nothing_brings_is_told_of_objects_of_single_clusters() -> None:
    def told(text: str) -> set[str]:
        summary = "Missing cluster namespace"
        return {each.brief for each in list_warnings(require_success(plan(text))) if each.summary == summary}

    namespace = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mon"}})
    site = RACKS + workers(1)
    bare = site + manifest("m", deployment("web", 1, namespace="mon"), deployment("db", 1, namespace="mon"))
    assert told(bare) == {"mon: missing on a"}
    # Another object brings it, also one that comes later; or it is there already.
    assert told(bare + manifest("n", namespace)) == set()
    later = manifest("n", namespace).replace('"n" {', '"n" {\n  depends_on = [fleet_hub_manifest.m]', 1)
    assert told(bare + later) == set()
    member = (
        'resource "fleet_member_cluster" "a" {\n  name = "a"\n  namespaces = ["mon"]\n'
        "  kubernetes_cluster_id = nexus_kubernetes_cluster.a.id\n}\n"
    )
    assert told(bare + member) == set()
    assert told(bare + member.replace("mon", "other")) == {"mon: missing on a"}
    # What the plan does not look at stands all the same.
    state = build_state_after(require_success(plan(bare + manifest("n", namespace))))
    one = plan(bare + manifest("n", namespace), state, targets=("fleet_hub_manifest.m",))
    assert "Missing cluster namespace" not in summaries(require_success(one))
    gone = plan(bare + manifest("n", deployment("x", 1)), state)
    assert "Missing cluster namespace" in summaries(require_success(gone))
    for given in ("default", "kube-system"):
        assert told(site + manifest("m", deployment("web", 1, namespace=given))) == set()


def test_pods_of_objects_that_the_plan_leaves_out_are_not_evicted() -> None:
    low = manifest("low", deployment("low", 1, cpu="3"))
    high = manifest("high", deployment("high", 1, cpu="3", spec={"priority": 9}))
    text = RACKS + workers(1) + low + high
    state = build_state_after(require_success(plan(RACKS + workers(1) + low)))
    for options in ({"targets": ("fleet_hub_manifest.high",)}, {"excludes": ("fleet_hub_manifest.low",)}):
        part = require_success(plan(text, state, **options))
        assert pods(part) == {"high-0": ("place", "new")}
        meanwhile = build_state_after(part)
        # Else both would stand where there is room for one.
        assert standing(meanwhile, "high")["high-0"]["node"] is None
        assert pods(require_success(plan(text, meanwhile))) == {
            "high-0": ("move", "new"),
            "low-0": ("move", "preempted"),
        }


def test_who_is_evicted_is_told_though_pods_are_looked_at_again() -> None:
    low = deployment("low", 1, cpu="3")
    high = deployment("high", 2, cpu="3", spec={"priority": 9})
    state = build_state_after(require_success(plan(RACKS + workers(1) + manifest("low", low))))
    # One of them waits, and so all are looked at again.
    result = require_success(plan(RACKS + workers(1) + manifest("low", low) + manifest("high", high), state))
    assert {"pods-evicted", "pending-pods"} <= {each.id for each in list_warnings(result)}


def test_what_objects_name_and_nobody_brings_is_told_in_a_few_words() -> None:
    """A line of the default plan has little room: what matters comes first in it."""
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    volumes = {"volumes": [claim]}
    objects = [
        deployment("hi", 1, spec={"priorityClassName": "high"}),
        deployment("kata", 1, spec={"runtimeClassName": "kata"}),
        deployment("db", 1, spec=volumes),
        json.dumps({"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "r"}}),
    ]
    result = require_success(plan(RACKS + workers(1) + manifest("m", *objects)))
    briefs = {warning.brief.partition(": ")[::2] for warning in list_warnings(result)}
    assert {
        ("Deployment default/hi", "PriorityClass high is not on the cluster"),
        ("Deployment default/kata", "RuntimeClass kata is not on the cluster"),
        ("Deployment default/db", "claim data is not on the cluster"),
    } <= briefs
    assert all(warning.brief for warning in list_warnings(result))


def test_a_paused_deployment_is_scaled_with_the_template_that_it_has() -> None:
    start = RACKS + workers(2) + manifest("m", deployment("web", 2, image="web:1"))
    state = build_state(start)
    paused = RACKS + workers(2) + manifest("m", deployment("web", 3, image="web:2", paused=True))
    after = build_state_after(require_success(plan(paused, state)), state)
    assert {name: place["node"] is not None for name, place in standing(after).items()} == {
        "web-0": True,
        "web-1": True,
        "web-2": True,
    }
    assert all(place["former_template"] for place in standing(after).values())
    assert is_empty(require_success(plan(paused, after)))
    # Let go, all of them get the template that waited.
    rolled = build_state_after(require_success(plan(paused.replace('"paused": true', '"paused": false'), after)), after)
    assert not any(place.get("former_template") for place in standing(rolled).values())
    first = RACKS + workers(2) + manifest("m", deployment("web", 2, paused=True))
    assert standing(build_state(first)) == {}


@pytest.mark.parametrize(
    ("replicas", "after", "old", "new"),
    # As kube-controller-manager 1.34 shares them out: 4 pods hang at 3 old and 2 new ones, 8 at 6 and 4.
    [(4, 8, 6, 4), (4, 12, 9, 6), (8, 4, 3, 2), (8, 6, 5, 3), (10, 3, 2, 2), (5, 7, 5, 4), (7, 5, 4, 3), (3, 10, 8, 5)],
)
def test_a_rollout_that_hangs_is_scaled_set_by_set(replicas: int, after: int, old: int, new: int) -> None:
    base = RACKS + workers(3)
    hung = {"nodeSelector": {"nobody": "has-it"}}
    state = build_state(base + manifest("m", deployment("web", replicas, cpu="100m")))
    text = base + manifest("m", deployment("web", replicas, cpu="100m", spec=hung))
    state = build_state_after(require_success(plan(text, state)), state)
    scaled = base + manifest("m", deployment("web", after, cpu="100m", spec=hung))
    state = build_state_after(require_success(plan(scaled, state)), state)
    running = [place for place in standing(state).values() if place["node"]]
    assert all(place["former_template"] for place in running)
    assert (len(running), len(standing(state)) - len(running)) == (old, new)
    assert is_empty(require_success(plan(scaled, state)))


def test_a_paused_rollout_is_scaled_set_by_set_too() -> None:
    """As kube-controller-manager 1.34 does it: 3 old and 2 new pods of 4 become 6 and 4 of 8."""
    base = RACKS + workers(3)
    state = build_state(base + manifest("m", deployment("web", 4, cpu="100m")))
    hung = {"nodeSelector": {"nobody": "has-it"}}
    for replicas, paused in ((4, False), (4, True), (8, True)):
        text = base + manifest("m", deployment("web", replicas, cpu="100m", spec=hung, paused=paused))
        state = build_state_after(require_success(plan(text, state)), state)
    nodes = [place["node"] for place in standing(state).values()]
    assert (len(nodes), nodes.count(None)) == (10, 4)
    assert is_empty(require_success(plan(text, state)))
