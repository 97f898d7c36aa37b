"""Tests of pods created by placements on members with known nodes."""

from __future__ import annotations

import json

import pytest

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.state.objects import State
from tests.domains.fleet.planning.fleet_harness import build_member, build_pick_n, build_placement
from tests.domains.pods.importers.cluster_objects import build_node
from tests.domains.pods.planning.test_cluster_observation import DATA, plan_observed
from tests.domains.pods.planning.test_pods import (
    WEB_AND_DB_APART,
    build_deployment,
    build_manifest,
    read_current_pods,
    read_pod_changes,
)
from tests.planning.harness import (
    RACKS,
    attributes,
    build_state,
    build_state_after,
    cluster,
    is_empty,
    list_warnings,
    plan,
    plan_without_certainty,
    pool,
    replace_passage,
    require_success,
)

NAMES = "ab"
POOLS = {name: pool("np", 1) for name in NAMES}
CLUSTERS = "".join(cluster(name, pools=POOLS[name]) for name in NAMES)
MEMBERS = "".join(
    (
        f'resource "fleet_member_cluster" "{name}" {{\n  kubernetes_cluster_id = '
        f"nexus_kubernetes_cluster.{name}.id\n}}\n"
    )
    for name in NAMES
)


def build_hub_manifest(*objects: str) -> str:
    space = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}})
    body = "\n---\n".join([space, *objects])
    return f'resource "fleet_hub_manifest" "hub" {{\n  yaml_body = <<-EOT\n{body}\nEOT\n}}\n'


def build_web_deployment(replicas: int = 1, cpu: str = "1", image: str = "web:1") -> str:
    return build_deployment("web", replicas, namespace="web", cpu=cpu, image=image)


def read_pod_nodes(state: State, name: str = "p") -> dict[str, dict[str, str | None]]:
    """Return member -> pod -> node."""
    found = attributes(state, f"fleet_cluster_resource_placement.{name}")["workloads"]
    return {
        member: {
            pod: place["node"] for placed in workloads.values() for pod, place in placed.items()
        }
        for member, workloads in found.items()
    }


def read_available_cpu(result: PlanResult) -> dict[str, str]:
    """Return member -> remaining CPU as recorded by the plan."""
    found = {}
    for change in result.plan.changes:
        if change.address.type == "fleet_member_cluster" and change.private is not None:
            found[change.address.name] = change.private["resources"]["available"]["cpu"]
    return found


def test_every_selected_member_gets_the_pods() -> None:
    text = (
        RACKS + CLUSTERS + MEMBERS + build_hub_manifest(build_web_deployment(2)) + build_placement()
    )
    result = require_success(plan(text))
    state = build_state_after(result)
    assert read_pod_nodes(state) == {
        name: {f"web-{n}": f"{name}-np-0" for n in range(2)} for name in NAMES
    }
    rows = [
        (r.object, r.target.cluster) for r in result.plan.placements if r.kind == "pod" and r.target
    ]
    assert sorted(rows) == [("web-0", "a"), ("web-0", "b"), ("web-1", "a"), ("web-1", "b")]
    assert is_empty(plan(text, state))


def test_pods_lower_available_cpu_of_member() -> None:
    without_pods = read_available_cpu(
        require_success(plan(RACKS + CLUSTERS + MEMBERS + build_hub_manifest() + build_placement()))
    )
    with_pods = read_available_cpu(
        require_success(
            plan(
                RACKS
                + CLUSTERS
                + MEMBERS
                + build_hub_manifest(build_web_deployment(2))
                + build_placement()
            )
        )
    )
    assert {n: int(without_pods[n]) - int(with_pods[n]) for n in NAMES} == {"a": 2, "b": 2}


def test_available_cpu_of_member_counts_containers_only() -> None:
    web = json.loads(build_web_deployment())
    web["spec"]["template"]["spec"] |= {
        "resources": {"requests": {"cpu": "2500m"}},
        "initContainers": [
            {"name": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
        ],
    }
    text = RACKS + CLUSTERS + MEMBERS + build_placement()
    without_pods = read_available_cpu(require_success(plan(text + build_hub_manifest())))
    with_pods = read_available_cpu(
        require_success(plan(text + build_hub_manifest(json.dumps(web))))
    )
    assert {n: int(without_pods[n]) - int(with_pods[n]) for n in NAMES} == {"a": 1, "b": 1}


def test_separation_rule_is_unknown_on_members_without_nodes() -> None:
    database = build_manifest("db", build_deployment("db", 1), of="nexus_kubernetes_cluster.b.id")
    member_of_a, *_ = MEMBERS.split("resource", 2)[1:]
    members = f"resource{member_of_a}" + build_member("far")
    text = (
        RACKS
        + CLUSTERS
        + members
        + build_hub_manifest(build_web_deployment())
        + build_placement()
        + database
    )
    (rule,) = require_success(
        plan_without_certainty(text + WEB_AND_DB_APART, samples=5)
    ).plan.verdicts.separation_verdicts
    assert rule.satisfied == "unknown"
    assert rule.unchecked == ("no machine is known for web/web on far",)


def test_objects_with_cluster_id_are_placed_first() -> None:
    direct = (
        'resource "fleet_hub_manifest" "z" {\n  cluster_id = nexus_kubernetes_cluster.a.id\n'
        f"  yaml_body = <<-EOT\n{build_deployment('first', 1, cpu='3')}\nEOT\n}}\n"
    )
    # Four vCPUs on each worker.
    state = build_state(
        RACKS
        + CLUSTERS
        + MEMBERS
        + build_hub_manifest(build_web_deployment(cpu="2"))
        + build_placement()
        + direct
    )
    assert read_pod_nodes(state) == {"a": {"web-0": None}, "b": {"web-0": "b-np-0"}}


def test_namespace_of_a_placement_without_pods_exists_outside_the_target() -> None:
    direct = (
        'resource "fleet_hub_manifest" "z" {\n  cluster_id = nexus_kubernetes_cluster.a.id\n'
        f"  yaml_body = <<-EOT\n{build_web_deployment()}\nEOT\n}}\n"
    )
    text = RACKS + CLUSTERS + MEMBERS + build_hub_manifest() + build_placement()
    result = require_success(
        plan(text + direct, build_state(text), targets=("fleet_hub_manifest.z",))
    )
    assert "Missing cluster namespace" not in {warning.summary for warning in list_warnings(result)}


def test_deleted_binding_removes_pods_and_frees_capacity() -> None:
    text = (
        RACKS
        + CLUSTERS
        + MEMBERS
        + build_hub_manifest(build_web_deployment())
        + build_placement(build_pick_n(2))
    )
    state = build_state(text)
    result = require_success(
        plan(replace_passage(text, "number_of_clusters = 2", "number_of_clusters = 1"), state)
    )
    assert read_pod_changes(result) == {"web-0": ("remove", "binding_removed")}
    assert len(read_pod_nodes(build_state_after(result, state))) == 1
    gone = require_success(
        plan(RACKS + CLUSTERS + MEMBERS + build_hub_manifest(build_web_deployment()), state)
    )
    assert [(str(r.action), r.trigger) for r in gone.plan.placements if r.kind == "pod"] == [
        ("remove", "binding_removed")
    ] * 2


def test_new_image_is_rolled_out_to_every_member() -> None:
    text = (
        RACKS + CLUSTERS + MEMBERS + build_hub_manifest(build_web_deployment()) + build_placement()
    )
    state = build_state(text)
    result = require_success(plan(text.replace("web:1", "web:2"), state))
    rows = [(str(r.action), r.trigger) for r in result.plan.placements if r.kind == "pod"]
    assert rows == [("move", "template_changed")] * 2
    assert is_empty(plan(text.replace("web:1", "web:2"), build_state_after(result, state)))


def test_lost_worker_moves_only_its_pods() -> None:
    two = RACKS + CLUSTERS.replace(
        'count       = 1\n    vm_sku_name = "NC_G6_28_v1"\n    \n',
        'count       = 2\n    vm_sku_name = "NC_G6_28_v1"\n    \n',
    )
    text = (
        two + MEMBERS + build_hub_manifest(build_web_deployment(2, cpu="100m")) + build_placement()
    )
    state = build_state(text)
    heal = plan(text, state, replaces=("nexus_kubernetes_cluster.a:a-np-0",))
    lost = {pod for pod, node in read_pod_nodes(state)["a"].items() if node == "a-np-0"}
    assert lost
    rows = [
        r for r in require_success(heal).plan.placements if r.kind == "pod" and r.action != "keep"
    ]
    assert {r.object for r in rows} == lost
    assert {(str(r.action), r.trigger) for r in rows} == {("move", "node_removed")}


def test_placed_pods_use_capacity_on_re_created_node() -> None:
    direct = build_manifest(
        "m", build_deployment("big", 1, cpu="3"), of="nexus_kubernetes_cluster.a.id"
    )
    text = (
        RACKS
        + CLUSTERS
        + MEMBERS
        + direct
        + build_hub_manifest(build_web_deployment(1, cpu="3"))
        + build_placement()
    )
    state = build_state(text)
    big = read_current_pods(state)["big-0"]["node"]
    small = read_pod_nodes(state)["a"]["web-0"]
    assert (big, small) == ("a-np-0", None), "one of them fits"
    result = require_success(plan(text, state, replaces=("nexus_kubernetes_cluster.a:a-np-0",)))
    assert read_pod_nodes(build_state_after(result, state))["a"]["web-0"] is None


def test_member_without_known_nodes_has_no_pod_rows() -> None:
    given = 'resource "fleet_member_cluster" "far" {}\n'
    state = build_state(
        RACKS
        + CLUSTERS
        + MEMBERS
        + given
        + build_hub_manifest(build_web_deployment())
        + build_placement()
    )
    assert set(read_pod_nodes(state)) == {"a", "b"}


def test_override_changes_only_pods_of_its_cluster() -> None:
    override = """
resource "fleet_resource_override" "o" {
  namespace = "web"
  placement {
    name = "p"
  }
  resource_selector {
    group   = "apps"
    version = "v1"
    kind    = "Deployment"
    name    = "web"
  }
  policy {
    override_rule {
      cluster_selector {
        cluster_selector_term {
          label_selector {
            match_labels = { "kubernetes-fleet.io/member-name" = "b" }
          }
        }
      }
      json_patch_override {
        op    = "replace"
        path  = "/spec/template/spec/containers/0/image"
        value = "web:9"
      }
    }
  }
}
"""
    text = (
        RACKS + CLUSTERS + MEMBERS + build_hub_manifest(build_web_deployment()) + build_placement()
    )
    state = build_state(text)
    result = require_success(plan(text + override, state))
    rows = [r for r in result.plan.placements if r.kind == "pod" and r.action != "keep"]
    assert [(r.object, r.target.cluster, str(r.action), r.trigger) for r in rows] == [
        ("web-0", "b", "move", "override_changed")
    ]
    later = build_state_after(result, state)
    assert is_empty(plan(text + override, later))
    # A new image on the hub does not reach the cluster with an image override.
    renewed = require_success(plan(text.replace("web:1", "web:2") + override, later))
    moved = [r for r in renewed.plan.placements if r.kind == "pod" and r.action != "keep"]
    assert [(r.target.cluster, r.trigger) for r in moved] == [("a", "template_changed")]


def test_risk_on_several_members_names_each_member() -> None:
    body = build_deployment(
        "web", 3, namespace="web", apart="topology.kubernetes.io/baremetalmachine"
    )
    text = RACKS + CLUSTERS + MEMBERS + build_hub_manifest(body) + build_placement()
    (told,) = [w for w in list_warnings(require_success(plan(text))) if w.summary == "Pending pods"]
    assert told.detail.startswith("On clusters a, b: Deployment web/web: 2 of 3 pods")


def test_different_risks_per_member_are_reported_separately() -> None:
    body = build_deployment(
        "web", 3, namespace="web", apart="topology.kubernetes.io/baremetalmachine"
    )
    larger = cluster("a", pools=POOLS["a"].replace("count       = 1", "count       = 2"))
    text = (
        RACKS
        + CLUSTERS.replace(cluster("a", pools=POOLS["a"]), larger)
        + MEMBERS
        + build_hub_manifest(body)
        + build_placement()
    )
    risks = {w.id: w for w in list_warnings(require_success(plan(text)))}
    many = risks["unsatisfiable-pod-anti-affinity"].detail
    assert "On cluster a: Deployment web/web: 3 replicas" in many
    assert "have only 2: at most 2 can run" in many
    assert "On cluster b: 3 replicas" in many
    assert "have only 1: at most 1 can run" in many
    assert "The same" not in many
    assert risks["pending-pods"].brief.startswith("web/web: 1 Pending on a; 2 Pending on b: ")


GOLD = json.dumps(
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "gold", "labels": {"team": "web"}},
        "value": 1000,
    }
)


def test_placement_pods_evict_pods_of_objects_planned_earlier() -> None:
    """The manifest of the evicted pod is planned in an earlier phase.

    Its value is updated nevertheless.
    """
    low = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "low"}})
    first = build_deployment("first", 1, cpu="3", namespace="low")
    base = RACKS + CLUSTERS + MEMBERS + build_manifest("z", low, GOLD, first)
    state = build_state(base)
    assert attributes(state, "fleet_hub_manifest.z")["workloads"]["low/Deployment/first"][
        "first-0"
    ]["node"]
    important = build_deployment(
        "web", 1, namespace="web", cpu="3", spec={"priorityClassName": "gold"}
    )
    text = base + build_hub_manifest(important) + build_placement()
    result = require_success(plan(text, state))
    assert read_pod_changes(result)["first-0"] == ("move", "preempted")
    after = build_state_after(result, state)
    assert read_pod_nodes(after)["a"] == {"web-0": "a-np-0"}
    evicted = attributes(after, "fleet_hub_manifest.z")["workloads"]["low/Deployment/first"][
        "first-0"
    ]
    assert evicted["node"] is None
    assert evicted["state"] == "Pending"
    assert is_empty(plan(text, after))


@pytest.mark.parametrize("figures", ["", 'resources {\n    available = { cpu = "1" }\n  }'])
@pytest.mark.parametrize("name", ['"m"', "fleet_member_cluster.m.id"])
def test_member_without_cluster_id_has_the_nodes_read_by_its_name(figures: str, name: str) -> None:
    text = (
        build_member("m", more=figures)
        + DATA.format(of=name)
        + build_hub_manifest(build_web_deployment())
    )
    result = require_success(plan_observed(text + build_placement(), build_node("n", "4")))
    assert read_pod_nodes(build_state_after(result)) == {"m": {"web-0": "n"}}
    assert read_available_cpu(result) == {"m": "1" if figures else "3"}
    assert is_empty(
        plan_observed(
            text + build_placement(), build_node("n", "4"), state=build_state_after(result)
        )
    )


def test_class_of_a_later_placement_applies_to_the_pods_of_an_earlier_one() -> None:
    """Controllers create the pods when their PriorityClass exists.

    The class is on the clusters in later plans, too.
    """
    classes = """
resource "fleet_cluster_resource_placement" "classes" {
  resource_selector {
    group   = "scheduling.k8s.io"
    version = "v1"
    kind    = "PriorityClass"
    name    = "gold"
  }
  depends_on = [fleet_cluster_resource_placement.p]
}
"""

    def build(replicas: int, base: str = classes) -> str:
        web = build_deployment("web", replicas, namespace="web", spec={"priorityClassName": "gold"})
        return RACKS + CLUSTERS + MEMBERS + build_hub_manifest(web, GOLD) + build_placement() + base

    first = require_success(plan(build(1)))
    assert "invalid-kubernetes-manifest" not in {warning.id for warning in list_warnings(first)}
    state = build_state_after(first)
    assert read_pod_nodes(state) == {name: {"web-0": f"{name}-np-0"} for name in NAMES}
    assert is_empty(plan(build(1), state))
    scaled = require_success(plan(build(2), state))
    assert {warning.id for warning in list_warnings(scaled)} == {"pods-share-machine"}
    assert set(read_pod_nodes(build_state_after(scaled, state))["a"]) == {"web-0", "web-1"}
    without = require_success(plan(build(1, base="")))
    assert {"invalid-kubernetes-manifest", "pods-not-created"} <= {
        warning.id for warning in list_warnings(without)
    }
