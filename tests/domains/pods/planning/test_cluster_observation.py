"""Tests of plans on clusters in the output of kubectl: real nodes, and running pods."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.domains.pods.importers.kubectl_snapshot import parse_kubectl_files, parse_snapshot
from nexusform.domains.pods.planning.cluster_observation import match_cluster_snapshot
from nexusform.domains.pods.planning.node_clusters import NodeCluster
from nexusform.domains.pods.planning.pod_feasibility import list_pool_nodes
from nexusform.domains.pods.scheduling.cluster_records import Node
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.plan_request import ValueOverride
from nexusform.scheduling.racks.vms import VmSku
from nexusform.state.objects import EMPTY, State
from tests.domains.pods.importers.cluster_objects import (
    DEFAULT_NAMESPACE,
    build_node,
    build_pod,
    print_objects,
)
from tests.domains.pods.planning.test_pods import (
    WEB_AND_DB_APART,
    build_deployment,
    build_manifest,
    build_workers,
    read_current_pods,
    read_pod_changes,
)
from tests.planning.harness import (
    RACKS,
    build_state_after,
    is_empty,
    list_errors,
    list_warnings,
    plan,
    require_success,
)

pytestmark = pytest.mark.of_domains("fleet")
DATA = 'data "kubernetes_nodes" "a" {{\n  files = ["n.json"]\n  cluster_id = {of}\n}}\n'
OF_A = DATA.format(of="nexus_kubernetes_cluster.a.id")
NODES = (build_node("a-np-0"), build_node("a-np-1"))
WEB = {"pod-template-hash": "5d", "app": "web"}


def plan_observed(
    text: str, *objects: dict[str, Any], state: State = EMPTY, **options: Any
) -> PlanResult:
    """Plan with these objects as output of kubectl."""
    # Without any pod, the dump would count as one without pods.
    objects = (*objects, build_pod("setup", "", phase="Succeeded"))
    reading = parse_kubectl_files([("n.json", print_objects(*objects))])
    values = ValueOverride(None, "kubernetes_nodes", {"objects": reading.encode()})
    return plan(text, state, data_overrides=(values,), **options)


def build_configuration(count: int, cpu: str = "1", **more: Any) -> str:
    return (
        RACKS
        + build_workers(2)
        + OF_A
        + build_manifest("m", build_deployment("web", count, cpu=cpu, **more))
    )


def list_places(result: PlanResult) -> dict[str, str | None]:
    return {
        name: place["node"] for name, place in read_current_pods(build_state_after(result)).items()
    }


def test_running_pods_take_capacity() -> None:
    other = build_pod("coredns", "a-np-0", "7500m", owner=("ReplicaSet", "coredns-1"))
    assert list_places(require_success(plan_observed(build_configuration(1), *NODES, other))) == {
        "web-0": "a-np-1"
    }
    over = build_pod("coredns", "a-np-0", "7500m", phase="Succeeded")
    assert set(
        list_places(require_success(plan_observed(build_configuration(16), *NODES, over))).values()
    ) == {"a-np-0", "a-np-1"}


def test_pods_of_a_workload_stay_on_observed_nodes() -> None:
    there = [
        build_pod(f"web-5d-{name}", "a-np-1", owner=("ReplicaSet", "web-5d"), labels=WEB)
        for name in "xy"
    ]
    result = require_success(plan_observed(build_configuration(3), *NODES, *there))
    state = build_state_after(result)
    assert read_pod_changes(result) == {"web-2": ("place", "scale_out")}
    observed = read_current_pods(state)
    assert [observed[f"web-{n}"]["provenance"] for n in range(3)] == [
        "observed",
        "observed",
        "predicted",
    ]
    assert (observed["web-0"]["node"], observed["web-2"]["node"]) == ("a-np-1", "a-np-0")
    # Data in the state but not in the files is newer than the dump.
    assert is_empty(
        require_success(plan_observed(build_configuration(3), *NODES, *there, state=state))
    )


def test_real_labels_and_figures_replace_derived_ones() -> None:
    ssd = {"nodeSelector": {"disk": "ssd"}}
    objects = (build_node("a-np-0", labels={"disk": "ssd"}), build_node("a-np-1"))
    assert list_places(
        require_success(plan_observed(build_configuration(1, spec=ssd), *objects))
    ) == {"web-0": "a-np-0"}
    assert list_places(
        require_success(
            plan_observed(
                build_configuration(1, cpu="15"), build_node("a-np-0"), build_node("a-np-1", "16")
            )
        )
    ) == {"web-0": "a-np-1"}


def test_nodes_are_matched_by_provider_id_and_others_are_named() -> None:
    result = require_success(
        plan_observed(
            build_configuration(1, cpu="15"),
            build_node("real", "16", provider_id="x:///vm/a-np-1"),
            build_node("b", "16"),
        )
    )
    (told,) = [each for each in list_warnings(result) if each.id == "node-without-vm"]
    assert "(b)" in told.detail
    assert set(list_places(result).values()) <= {"a-np-1", "b"}
    all_matched = require_success(plan_observed(build_configuration(1), *NODES))
    assert "node-without-vm" not in {warning.id for warning in list_warnings(all_matched)}


def test_node_without_vm_is_in_no_pool_of_the_plan() -> None:
    vm = Node("vm1")
    planned = NodeCluster(
        "c",
        "c",
        "",
        (vm,),
        (VmSku("small", 2, 0, 4, 0),),
        node_by_name={"vm1": vm},
        pools=("pool1",),
    )
    output = parse_kubectl_files(
        [("n.json", print_objects(build_node("vm1"), build_node("stranger")))]
    )
    snapshot = parse_snapshot(output.encode())
    observed = match_cluster_snapshot("c", planned, snapshot, frozenset())
    assert observed.unknown_nodes == ("stranger",)
    assert {pool: node.name for pool, node in list_pool_nodes(observed.cluster).items()} == {
        "pool1": "vm1"
    }


def test_terminating_pod_keeps_its_capacity_and_ports() -> None:
    going = build_pod(
        "web-5d-x", "a-np-0", "8", owner=("ReplicaSet", "web-5d"), labels=WEB, terminating=True
    )
    result = require_success(plan_observed(build_configuration(1), *NODES, going))
    assert list_places(result) == {"web-0": "a-np-1"}
    assert read_pod_changes(result) == {"web-0": ("place", "new")}


def test_last_started_pod_is_evicted() -> None:
    times = ("2026-01-01T10:00:00Z", "2026-01-02T09:00:00Z", "")
    for first, second in [(0, 1), (1, 0), (0, 2), (2, 0)]:
        there = [
            build_pod(name, f"a-np-{at}", "8", started=times[time], priority=0)
            for at, (name, time) in enumerate((("one", first), ("two", second)))
        ]
        text = build_configuration(1, cpu="2", spec={"priorityClassName": "gold"})
        result = require_success(plan_observed(text, *add_standard_objects(*NODES, *there)))
        # Of equal pods, the one with the shortest run time is evicted; a pod without a start time
        # counts as just started.
        newest = 0 if first > second else 1
        assert list_places(result) == {"web-0": f"a-np-{newest}"}
        assert read_current_pods(build_state_after(result))["web-0"]["certain"]


def test_separation_rule_checks_running_pods_of_others() -> None:
    text = build_configuration(1) + WEB_AND_DB_APART
    (rule,) = require_success(plan_observed(text, *NODES)).plan.verdicts.separation_verdicts
    assert rule.unchecked == ("group 2 selects no VM and no running pod",)
    database = build_pod("db-0", "a-np-0", owner=("StatefulSet", "db"), labels={"app": "db"})
    web = build_pod("web-5d-x", "a-np-0", owner=("ReplicaSet", "web-5d"), labels=WEB)
    (rule,) = plan_observed(text, *NODES, database, web).plan.verdicts.separation_verdicts
    assert rule.satisfied == "never"
    (violation,) = rule.violations
    assert violation.members == ("default/web-0 on a-np-0", "default/db-0 on a-np-0")
    elsewhere = build_pod("web-5d-x", "a-np-1", owner=("ReplicaSet", "web-5d"), labels=WEB)
    (rule,) = require_success(
        plan_observed(text, *NODES, database, elsewhere)
    ).plan.verdicts.separation_verdicts
    assert (rule.satisfied, rule.unchecked) == ("always", ())
    on_unknown_node = build_pod("db-1", "b", owner=("StatefulSet", "db"), labels={"app": "db"})
    result = require_success(
        plan_observed(text, *NODES, build_node("b"), database, elsewhere, on_unknown_node)
    )
    (rule,) = result.plan.verdicts.separation_verdicts
    assert rule.unchecked == ("no machine is known for default/db-1 on s/a",)


def test_daemons_are_created_on_new_nodes() -> None:
    daemon = build_pod("agent-x", "a-np-0", "3500m", owner=("DaemonSet", "agent"))
    # Without its pod on a-np-1, two pods of two CPUs would fit there.
    result = require_success(
        plan_observed(build_configuration(1, cpu="2"), build_node("a-np-0", "3500m"), daemon)
    )
    assert list_places(result) == {"web-0": None}


def test_removed_node_takes_its_pods_along() -> None:
    state = build_state_after(require_success(plan(RACKS + build_workers(2))))
    there = build_pod("other", "a-np-1", "1")
    text = RACKS + build_workers(1) + OF_A + build_manifest("m", build_deployment("web", 1))
    result = require_success(plan_observed(text, *NODES, there, state=state))
    assert list_places(result) == {"web-0": "a-np-0"}
    assert "pods-on-lost-nodes" in {each.id for each in list_warnings(result)}


def test_unknown_cluster_is_rejected_at_its_line() -> None:
    text = build_configuration(1).replace(OF_A, DATA.format(of='"s/b"'))
    (problem,) = list_errors(plan_observed(text, *NODES))
    assert (problem.id, problem.subject is not None) == ("unknown-cluster", True)
    twice = build_configuration(1) + OF_A.replace('"a" {', '"b" {')
    assert [each.id for each in list_errors(plan_observed(twice, *NODES))] == [
        "duplicate-observed-cluster"
    ]


def test_members_with_given_figures_get_nodes() -> None:
    text = (
        (
            'resource "fleet_member_cluster" "m1" {\n  resources {\n    total = { cpu = "16" }\n  '
            "}\n}\n"
        )
        + DATA.format(of='"m1"')
        + build_manifest("m", build_deployment("web", 1), of='"m1"')
    )
    labels = {"topology.kubernetes.io/baremetalmachine": "bm1"}
    state = build_state_after(require_success(plan_observed(text, build_node("n1", labels=labels))))
    place = read_current_pods(state)["web-0"]
    assert (place["node"], place["machine"], place["state"]) == ("n1", "bm1", "Scheduled")


def add_standard_objects(*objects: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return these objects with those of every cluster."""
    always = (
        DEFAULT_NAMESPACE,
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "gold"},
            "value": 1000,
        },
    )
    return (*always, *objects)


def add_images(body: dict[str, Any], **images: int) -> dict[str, Any]:
    listed = [{"names": [f"{name}:latest"], "sizeBytes": size} for name, size in images.items()]
    return {**body, "status": {**body["status"], "images": listed}}


def test_pod_with_local_image_is_certain() -> None:
    there = add_images(build_node("a-np-1"), web=600 << 20)
    container = {"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}
    text = build_configuration(1, spec={"containers": [container]})
    control = build_node("a-control-plane-0", unschedulable=True)
    place = read_current_pods(
        build_state_after(
            require_success(plan_observed(text, build_node("a-np-0"), there, control))
        )
    )["web-0"]
    assert (place["node"], place["certain"]) == ("a-np-1", True)


def test_capacity_nominated_for_a_pod_is_reserved() -> None:
    waiting = build_pod("vip", "", "6", priority=5)
    waiting["status"] = {"phase": "Pending", "nominatedNodeName": "a-np-0"}
    assert list_places(
        require_success(
            plan_observed(
                build_configuration(1, cpu="4"),
                build_node("a-np-0"),
                build_node("a-np-1", "4"),
                waiting,
            )
        )
    ) == {"web-0": "a-np-1"}
    # A pod with higher priority ignores the nomination.
    above = build_configuration(1, cpu="5", spec={"priority": 9})
    assert list_places(
        require_success(
            plan_observed(above, build_node("a-np-0"), build_node("a-np-1", "4"), waiting)
        )
    ) == {"web-0": "a-np-0"}


def test_pod_in_resize_holds_the_larger_amount() -> None:
    smaller = build_pod("other", "a-np-0", "1")
    smaller["status"]["containerStatuses"] = [
        {"name": "c", "allocatedResources": {"cpu": "7500m"}, "resources": {}}
    ]
    assert list_places(require_success(plan_observed(build_configuration(1), *NODES, smaller))) == {
        "web-0": "a-np-1"
    }


def test_allocation_without_actual_resources_is_ignored() -> None:
    """kube-scheduler reads the spec of such a container."""
    smaller = build_pod("other", "a-np-0", "1")
    without = list_places(require_success(plan_observed(build_configuration(1), *NODES, smaller)))
    smaller["status"]["containerStatuses"] = [{"name": "c", "allocatedResources": {"cpu": "7500m"}}]
    assert (
        list_places(require_success(plan_observed(build_configuration(1), *NODES, smaller)))
        == without
    )


def test_quotas_and_priorities_of_the_cluster_apply() -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"hard": {"pods": "2"}},
    }
    text = build_configuration(3, spec={"priorityClassName": "gold"})
    result = require_success(plan_observed(text, *add_standard_objects(*NODES, quota)))
    assert len(list_places(result)) == 2
    assert {each.id for each in list_warnings(result)} & {"pods-not-created"}


def test_objects_missing_in_a_complete_dump_do_not_exist() -> None:
    """A claim or a PriorityClass is not defined.

    With a dump of nodes and pods alone it might exist.
    """
    claim = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    told = read_current_pods(
        build_state_after(
            require_success(
                plan_observed(build_configuration(1, spec=claim), *add_standard_objects(*NODES))
            )
        )
    )["web-0"]
    assert told["state"] == "Pending"
    assert 'available: persistentvolumeclaim "data" not found.' in told["reason"]
    assert list_places(require_success(plan_observed(build_configuration(1, spec=claim), *NODES)))[
        "web-0"
    ]
    urgent = {"priorityClassName": "urgent"}
    assert not list_places(
        require_success(
            plan_observed(build_configuration(1, spec=urgent), *add_standard_objects(*NODES))
        )
    )
    assert list_places(require_success(plan_observed(build_configuration(1, spec=urgent), *NODES)))


def test_request_above_default_limit_prevents_pod_creation() -> None:
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "l", "namespace": "default"},
        "spec": {"limits": [{"type": "Container", "default": {"cpu": "500m"}}]},
    }
    result = require_success(
        plan_observed(build_configuration(1, cpu="1"), *add_standard_objects(*NODES, limits))
    )
    assert not list_places(result)
    assert any(
        "must be less than or equal to the limit of 500m" in each.detail
        for each in list_warnings(result)
    )


def test_pods_with_missing_priority_class_are_rejected() -> None:
    text = build_configuration(2, spec={"priorityClassName": "urgent"})
    result = require_success(plan_observed(text, *add_standard_objects(*NODES)))
    rows = [row for row in result.plan.placements if row.kind == "pod"]
    assert [(row.object, row.action, row.trigger) for row in rows] == [
        ("web-0", "keep", "rejected"),
        ("web-1", "keep", "rejected"),
    ]
    assert {row.reason for row in rows} == {"no PriorityClass with name urgent was found"}
    assert {(row.source, row.target) for row in rows} == {(None, None)}
    assert "pod" not in {total.kind for total in result.plan.figures.placement_totals}
    state = build_state_after(result)
    assert not list_places(result)
    again = require_success(plan_observed(text, *add_standard_objects(*NODES), state=state))
    assert is_empty(again)
    assert [row.trigger for row in again.plan.placements] == ["rejected", "rejected"]


def test_rollout_to_rejected_pods_keeps_old_ones() -> None:
    state = build_state_after(
        require_success(plan_observed(build_configuration(2), *add_standard_objects(*NODES)))
    )
    result = require_success(
        plan_observed(
            build_configuration(2, spec={"priorityClassName": "urgent"}),
            *add_standard_objects(*NODES),
            state=state,
        )
    )
    told = {
        (row.object, str(row.action), row.trigger)
        for row in result.plan.placements
        if row.kind == "pod"
    }
    assert told == {("web-0", "keep", ""), ("web-1", "keep", ""), ("web-2", "keep", "rejected")}


def test_daemon_set_with_rejected_pods_loses_at_most_the_allowed() -> None:
    daemons = [
        build_deployment("d", 0, cpu="1", kind="DaemonSet", spec=spec)
        for spec in ({}, {"priorityClassName": "x"})
    ]
    base = RACKS + build_workers(2) + OF_A
    state = build_state_after(
        require_success(
            plan_observed(base + build_manifest("m", daemons[0]), *add_standard_objects(*NODES))
        )
    )
    after = require_success(
        plan_observed(
            base + build_manifest("m", daemons[1]), *add_standard_objects(*NODES), state=state
        )
    )
    actions = sorted(
        (str(row.action), row.trigger) for row in after.plan.placements if row.kind == "pod"
    )
    assert actions.count(("remove", "template_changed")) == 1
    assert actions.count(("keep", "rejected")) == 1
    kept = build_state_after(after)
    again = require_success(
        plan_observed(
            base + build_manifest("m", daemons[1]), *add_standard_objects(*NODES), state=kept
        )
    )
    assert is_empty(again)


def build_revision_pod(revision: str, image: str, cpu: str, on: str, name: str) -> dict[str, Any]:
    """Return a pod of Deployment web created from one of its templates."""
    labels = {"pod-template-hash": revision, "app": "web"}
    made = build_pod(name, on, cpu, owner=("ReplicaSet", f"web-{revision}"), labels=labels)
    made["spec"]["containers"][0]["image"] = image
    return made


def test_first_plan_rolls_out_changed_image_but_not_requests() -> None:
    text = build_configuration(2, image="web:2")
    for image, cpu, outcome in (
        ("web:2", "1", {}),
        (
            "web:1",
            "1",
            {"web-0": ("move", "template_changed"), "web-1": ("move", "template_changed")},
        ),
        # Different requests in all pods may come from admission, or from a VerticalPodAutoscaler.
        ("web:2", "2", {}),
    ):
        there = [
            build_revision_pod("5d", image, cpu, f"a-np-{at}", f"web-5d-{at}") for at in range(2)
        ]
        result = require_success(plan_observed(text, *add_standard_objects(*NODES, *there)))
        assert read_pod_changes(result) == outcome
        # The files are older than the last apply: no change is repeated.
        state = build_state_after(result)
        assert is_empty(
            require_success(plan_observed(text, *add_standard_objects(*NODES, *there), state=state))
        )
        # A new dump after the rollout has the predicted pods.
        new = [
            build_revision_pod("6f", "web:2", "1", place["node"], name)
            for name, place in read_current_pods(state).items()
        ]
        assert not read_pod_changes(
            require_success(plan_observed(text, *add_standard_objects(*NODES, *new), state=state))
        )


def test_pods_of_manifest_template_hash_are_kept() -> None:
    """A rollout is in progress: the newer one is the template.

    This also holds if all comparable fields are equal.
    """
    for old_image in ("web:1", "web:2"):
        old = build_revision_pod("5d", old_image, "1", "a-np-0", "web-5d-x")
        new = build_revision_pod("6f", "web:2", "1", "a-np-1", "web-6f-x")
        old["status"]["startTime"] = "2026-01-01T10:00:00Z"
        new["status"]["startTime"] = "2026-01-02T10:00:00Z"
        result = require_success(
            plan_observed(
                build_configuration(2, image="web:2"), *add_standard_objects(*NODES, old, new)
            )
        )
        assert read_pod_changes(result) == {"web-0": ("move", "template_changed")}


def test_blocked_rollout_keeps_resources_of_observed_pods() -> None:
    there = [
        build_revision_pod("5d", "web:1", "6", f"a-np-{at}", f"web-5d-{at}") for at in range(2)
    ]
    text = build_configuration(2, image="web:2", cpu="7")
    result = require_success(plan_observed(text, *add_standard_objects(*NODES, *there)))
    assert read_pod_changes(result) == {"web-2": ("place", "template_changed")}
    state = build_state_after(result)
    assert [place.get("former_template") for place in read_current_pods(state).values()][:2] == [
        "seen-5d"
    ] * 2
    assert is_empty(
        require_success(plan_observed(text, *add_standard_objects(*NODES, *there), state=state))
    )


def test_resized_pods_and_foreign_sidecars_are_no_rollout() -> None:
    resized = build_revision_pod("5d", "web:2", "1", "a-np-0", "web-5d-0")
    resized["status"]["containerStatuses"] = [
        {"name": "c", "allocatedResources": {"cpu": "7500m"}, "resources": {}}
    ]
    sidecar = build_revision_pod("5d", "web:2", "1", "a-np-1", "web-5d-1")
    sidecar["spec"]["containers"].append(
        {"name": "mesh", "image": "mesh:1", "resources": {"requests": {"cpu": "6"}}}
    )
    there = [resized, sidecar]
    assert not read_pod_changes(
        require_success(
            plan_observed(
                build_configuration(2, image="web:2"), *add_standard_objects(*NODES, *there)
            )
        )
    )
    # Their current usage leaves no capacity for the third one.
    third = require_success(
        plan_observed(
            build_configuration(3, image="web:2", cpu="1"), *add_standard_objects(*NODES, *there)
        )
    )
    assert list_places(third)["web-2"] == "a-np-1"
