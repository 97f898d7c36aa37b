"""Tests of plans on incomplete dumps.

Missing data is named, and no prediction depending on it is certain.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from nexusform.domains.pods.importers.kubectl_snapshot import parse_kubectl_files
from nexusform.domains.pods.planning.pod_phase import PodPhase
from nexusform.domains.pods.scheduling import assumptions
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.plan_request import ValueOverride
from tests.domains.pods.importers.cluster_objects import (
    build_namespace,
    build_node,
    build_pod,
    print_objects,
)
from tests.domains.pods.planning.test_cluster_observation import (
    NODES,
    OF_A,
    add_standard_objects,
    build_configuration,
    plan_observed,
)
from tests.domains.pods.planning.test_pods import build_deployment, build_manifest, build_workers
from tests.planning.harness import RACKS, build_state, plan, require_success

pytestmark = pytest.mark.of_domains("fleet")
# Only one node fits, so all doubts come from the files.
ONE = build_configuration(1, cpu="15")
BIG = (build_node("a-np-0"), build_node("a-np-1", "16"))


def list_certainties(result: PlanResult) -> dict[str, tuple[bool, str | None]]:
    """Return, by pod, whether it is certain, and the assumption behind it."""
    rows = [row for row in result.plan.placements if row.kind == "pod" and "certain" in row.scores]
    return {row.object: (row.scores["certain"], row.scores.get("depends_on")) for row in rows}


def list_warning_ids(result: PlanResult) -> set[str]:
    return {warning.id for warning in result.plan.diagnostics}


def test_complete_files_leave_no_doubt() -> None:
    assert list_certainties(require_success(plan_observed(ONE, *add_standard_objects(*BIG)))) == {
        "web-0": (True, None)
    }


def test_files_without_pods_imply_nothing_about_capacity() -> None:
    reading = parse_kubectl_files([("n.json", print_objects(*BIG))])
    values = ValueOverride(None, "kubernetes_nodes", {"objects": reading.encode()})
    result = require_success(plan(ONE, data_overrides=(values,)))
    assert list_certainties(result) == {"web-0": (False, "pods that were not read")}
    assert "pods-not-listed" in list_warning_ids(result)


def set_ready_condition(
    body: dict[str, Any], status: str, heartbeat: str = "2026-01-01T00:00:00Z"
) -> dict[str, Any]:
    condition = {"type": "Ready", "status": status, "lastHeartbeatTime": heartbeat}
    return {**body, "status": {**body["status"], "conditions": [condition]}}


def test_old_files_are_named_with_their_time() -> None:
    # Plans in these tests are made on 2026-01-01 at midnight.
    old = [set_ready_condition(each, "True", "2025-12-31T14:02:00Z") for each in BIG]
    result = require_success(plan_observed(ONE, *add_standard_objects(*old)))
    (told,) = [warning for warning in result.plan.diagnostics if warning.id == "old-cluster-files"]
    assert "as of 14:02 on 2025-12-31" in told.detail
    assert list_certainties(result) == {"web-0": (False, "files older than an hour")}
    fresh = [set_ready_condition(each, "True") for each in BIG]
    assert list_certainties(require_success(plan_observed(ONE, *add_standard_objects(*fresh)))) == {
        "web-0": (True, None)
    }


def test_state_of_a_node_without_a_heartbeat_is_unknown() -> None:
    silent = json.loads(json.dumps(BIG[1]))
    del silent["status"]["conditions"]
    never = json.loads(json.dumps(BIG[1]))
    del never["status"]["conditions"][0]["lastHeartbeatTime"]
    for node in (silent, never):
        result = require_success(plan_observed(ONE, *add_standard_objects(BIG[0], node)))
        assert list_certainties(result) == {"web-0": (False, "nodes without a heartbeat")}
        (warning,) = [each for each in result.plan.diagnostics if each.id == "unknown-node-state"]
        assert "no Ready condition with a heartbeat for a-np-1" in warning.detail


def test_unready_node_may_get_a_taint() -> None:
    result = require_success(
        plan_observed(ONE, *add_standard_objects(BIG[0], set_ready_condition(BIG[1], "Unknown")))
    )
    assert list_certainties(result) == {"web-0": (False, "nodes that are not ready")}
    none = [set_ready_condition(each, "False") for each in BIG]
    assert "nodes-not-ready" in list_warning_ids(
        require_success(plan_observed(ONE, *add_standard_objects(*none)))
    )


def test_pending_pod_of_others_may_be_placed_first() -> None:
    waiting = build_pod("other", "", "15", phase="Pending")
    result = require_success(plan_observed(ONE, *add_standard_objects(*BIG, waiting)))
    assert list_certainties(result) == {"web-0": (False, "Pending pods of others")}


def test_terminating_pod_may_be_gone() -> None:
    going = build_pod("old", "a-np-1", "8", terminating=True)
    assert list_certainties(
        require_success(plan_observed(ONE, *add_standard_objects(*BIG, going)))
    ) == {"web-0": (False, "terminating pods")}


def test_duplicate_node_is_named() -> None:
    result = require_success(
        plan_observed(ONE, *add_standard_objects(*BIG, build_node("a-np-1", "32")))
    )
    assert "several-dumps" in list_warning_ids(result)
    assert list_certainties(result) == {"web-0": (False, "objects listed twice")}


def read_files(*files: str) -> PlanResult:
    """Plan with these files, named in order, as the nodes of a cluster."""
    contents = [(f"{position}.json", text.encode()) for position, text in enumerate(files)]
    reading = parse_kubectl_files(contents)
    values = ValueOverride(None, "kubernetes_nodes", {"objects": reading.encode()})
    return require_success(plan(ONE, data_overrides=(values,)))


def test_files_of_two_clusters_are_named() -> None:
    """Every cluster has the system namespace, with an own uid."""
    objects = add_standard_objects(*BIG, build_pod("setup", "", phase="Succeeded"))
    text = print_objects(*objects).decode()
    assert list_certainties(read_files(text, text)) == {"web-0": (True, None)}
    other = json.loads(text)
    for item in other["items"]:
        if item["kind"] == "Namespace":
            item["metadata"]["uid"] = "of-another-cluster"
    other["items"] = [item for item in other["items"] if item["kind"] != "Node"]
    result = read_files(text, json.dumps(other))
    assert list_certainties(result) == {"web-0": (False, "objects listed twice")}
    changed = json.loads(json.dumps(other).replace("of-another-cluster", ""))
    changed["items"] = [build_pod("x", "a-np-0", "1")]
    first = json.loads(text)
    first["items"].append(build_pod("x", "a-np-0", "2"))
    result = read_files(json.dumps(first), json.dumps(changed))
    assert list_certainties(result) == {"web-0": (False, "objects listed twice")}


def test_existing_node_missing_in_the_files_was_not_read() -> None:
    """Only VMs of this plan have no node yet."""
    state = build_state(RACKS + build_workers(2))
    result = require_success(plan_observed(ONE, *add_standard_objects(*BIG), state=state))
    assert list_certainties(result) == {"web-0": (True, None)}
    result = require_success(plan_observed(ONE, *add_standard_objects(BIG[0]), state=state))
    assert list_certainties(result) == {"web-0": (False, "nodes that were not read")}


def test_objects_outside_of_a_list_may_be_of_several_clusters() -> None:
    objects = add_standard_objects(*BIG, build_pod("setup", "", phase="Succeeded"))
    items = json.loads(print_objects(*objects))["items"]
    result = read_files(*map(json.dumps, items))
    assert list_certainties(result) == {"web-0": (False, "objects that were not read")}
    assert "kinds-not-read" in list_warning_ids(result)


@pytest.mark.parametrize("agent", ["cluster-autoscaler", "karpenter"])
def test_autoscaler_may_add_nodes_for_pending_pods(agent: str) -> None:
    there = build_pod(f"{agent}-1", "a-np-0", "1", owner=("Deployment", agent))
    result = require_success(
        plan_observed(build_configuration(1, cpu="30"), *add_standard_objects(*BIG, there))
    )
    assert list_certainties(result) == {"web-0": (False, agent)}
    assert list_certainties(
        require_success(plan_observed(ONE, *add_standard_objects(*BIG, there)))
    ) == {"web-0": (True, None)}


def build_webhook(resource: str = "/pods", **selectors: Any) -> dict[str, Any]:
    group, _, plural = resource.partition("/")
    rule = {"apiGroups": [group], "resources": [plural], "operations": ["CREATE"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "injector"},
        "webhooks": [{"name": "a.b.c", "rules": [rule], **selectors}],
    }


@pytest.mark.parametrize(
    ("constraints", "is_certain"),
    [
        (
            {
                "resourceRules": [
                    {"apiGroups": [""], "operations": ["CREATE"], "resources": ["pods"]}
                ]
            },
            False,
        ),
        ({"resourceRules": [{"resources": ["*"]}]}, False),
        (
            {
                "resourceRules": [
                    {"apiGroups": [""], "operations": ["UPDATE"], "resources": ["pods"]}
                ]
            },
            True,
        ),
        (
            {
                "resourceRules": [{"resources": ["*"]}],
                "objectSelector": {"matchLabels": {"app": "db"}},
            },
            True,
        ),
        ({}, True),
    ],
)
def test_admission_policy_may_change_selected_pods(
    constraints: dict[str, Any], is_certain: bool
) -> None:
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "sidecars"},
        "spec": {"matchConstraints": constraints},
    }
    result = require_success(plan_observed(ONE, *add_standard_objects(*BIG, policy)))
    assert list_certainties(result) == {
        "web-0": (is_certain, None if is_certain else "admission webhooks")
    }


def test_webhook_may_change_selected_pods() -> None:
    assert list_certainties(
        require_success(plan_observed(ONE, *add_standard_objects(*BIG, build_webhook())))
    ) == {"web-0": (False, "admission webhooks")}
    other = build_webhook(objectSelector={"matchLabels": {"app": "db"}})
    assert list_certainties(
        require_success(plan_observed(ONE, *add_standard_objects(*BIG, other)))
    ) == {"web-0": (True, None)}


@pytest.mark.parametrize(
    ("hook", "is_certain"),
    [
        (build_webhook("apps/deployments"), False),
        (build_webhook("batch/jobs"), True),
        (build_webhook("batch/*"), True),
        ({**build_webhook(), "kind": "ValidatingWebhookConfiguration"}, False),
        # Ignore concerns a webhook that does not answer: it rejects pods otherwise.
        (
            {**build_webhook(failurePolicy="Ignore"), "kind": "ValidatingWebhookConfiguration"},
            False,
        ),
    ],
)
def test_webhook_may_change_the_controller_or_reject_pods(
    hook: dict[str, Any], is_certain: bool
) -> None:
    result = require_success(plan_observed(ONE, *add_standard_objects(*BIG, hook)))
    assert list_certainties(result) == {
        "web-0": (is_certain, None if is_certain else "admission webhooks")
    }


@pytest.mark.parametrize(
    ("resource", "policy_name", "actions", "is_certain"),
    [
        ("pods", "limits", ["Deny"], False),
        ("pods", "limits", ["Warn", "Audit"], True),
        ("pods", "other", ["Deny"], True),
        ("services", "limits", ["Deny"], True),
    ],
)
@pytest.mark.parametrize("is_in_plan", [False, True])
def test_validating_policy_with_a_denying_binding_may_reject_pods(
    resource: str, policy_name: str, actions: list[str], is_certain: bool, is_in_plan: bool
) -> None:
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": [resource],
    }
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "limits"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "false"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "everywhere"},
        "spec": {"policyName": policy_name, "validationActions": actions},
    }
    objects = add_standard_objects(*BIG, policy, *([] if is_in_plan else [binding]))
    manifest = build_manifest("b", json.dumps(binding)) if is_in_plan else ""
    result = require_success(plan_observed(ONE + manifest, *objects))
    assert list_certainties(result) == {
        "web-0": (is_certain, None if is_certain else "admission webhooks")
    }


@pytest.mark.parametrize("is_observed", [True, False])
def test_webhook_of_the_plan_may_change_pods(is_observed: bool) -> None:
    manifest = build_manifest("m", build_deployment("web", 1, cpu="7"), json.dumps(build_webhook()))
    text = RACKS + build_workers(1) + (OF_A if is_observed else "") + manifest
    result = (
        plan_observed(text, *add_standard_objects(build_node("a-np-0")))
        if is_observed
        else plan(text)
    )
    assert list_certainties(require_success(result)) == {"web-0": (False, "admission webhooks")}


@pytest.mark.parametrize("is_in_dump", [False, True])
@pytest.mark.parametrize(
    ("group", "kind", "spec", "is_certain"),
    [
        ("keda.sh/v1alpha1", "ScaledObject", {"scaleTargetRef": {"name": "web"}}, False),
        ("keda.sh/v1alpha1", "ScaledObject", {"scaleTargetRef": {"name": "db"}}, True),
        (
            "autoscaling.k8s.io/v1",
            "VerticalPodAutoscaler",
            {"targetRef": {"kind": "Deployment", "name": "web"}},
            False,
        ),
        (
            "autoscaling.k8s.io/v1",
            "VerticalPodAutoscaler",
            {
                "targetRef": {"kind": "Deployment", "name": "web"},
                "updatePolicy": {"updateMode": "Off"},
            },
            True,
        ),
    ],
)
def test_targets_of_other_autoscalers_are_not_certain(
    is_in_dump: bool, group: str, kind: str, spec: dict[str, Any], is_certain: bool
) -> None:
    scaler = {
        "apiVersion": group,
        "kind": kind,
        "metadata": {"name": "s", "namespace": "default"},
        "spec": spec,
    }
    in_manifest, in_dump = ((), (scaler,)) if is_in_dump else ((json.dumps(scaler),), ())
    manifest = build_manifest("m", build_deployment("web", 1, cpu="15"), *in_manifest)
    result = plan_observed(
        RACKS + build_workers(2) + OF_A + manifest, *add_standard_objects(*BIG, *in_dump)
    )
    expected = (True, None) if is_certain else (False, f"a {kind}")
    assert list_certainties(require_success(result)) == {"web-0": expected}


def test_service_of_the_dump_spreads_pods() -> None:
    labels = {"app": "old", "pod-template-hash": "5d", "tier": "web"}
    there = [
        build_pod(f"old-5d-{n}", "a-np-0", "10m", owner=("ReplicaSet", "old-5d"), labels=labels)
        for n in "wxyz"
    ]
    other = build_pod("other", "a-np-1", "3")
    metadata = {"name": "web", "namespace": "default"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"selector": {"tier": "web"}},
    }
    template = {
        "metadata": {"labels": {"tier": "web"}},
        "spec": json.loads(build_deployment("j", 1, cpu="100m"))["spec"],
    }
    template["spec"] = {**template["spec"]["template"]["spec"], "restartPolicy": "Never"}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**metadata, "name": "j"},
        "spec": {"template": template},
    }
    text = RACKS + build_workers(2) + OF_A + build_manifest("m", json.dumps(job))
    for objects, node in (((), "a-np-0"), ((service,), "a-np-1")):
        result = plan_observed(
            text,
            *add_standard_objects(
                build_node("a-np-0"), build_node("a-np-1"), *there, other, *objects
            ),
        )
        assert [
            row.target.node
            for row in require_success(result).plan.placements
            if row.object == "j-0"
        ] == [node]


def test_sidecar_of_every_observed_pod_is_added_to_new_pods() -> None:
    labels = {"app": "web", "pod-template-hash": "5d"}
    there = build_pod("web-5d-1", "a-np-0", "1", owner=("ReplicaSet", "web-5d"), labels=labels)
    there["spec"]["containers"][0]["image"] = "redis:3.2-alpine"
    there["spec"]["containers"].append(
        {"name": "mesh", "image": "m", "resources": {"requests": {"cpu": "6"}}}
    )
    result = require_success(
        plan_observed(
            build_configuration(2, cpu="1"), *add_standard_objects(*NODES, there, build_webhook())
        )
    )
    # The pods have 7 CPUs each, so the second does not fit next to the first. The webhook's
    # additions are known.
    assert [row.target.node for row in result.plan.placements if row.object == "web-1"] == [
        "a-np-1"
    ]
    assert list_certainties(result) == {"web-1": (True, None)}


def test_order_of_arrival_is_named() -> None:
    text = (
        RACKS
        + build_workers(2)
        + OF_A
        + build_manifest(
            "m", build_deployment("a", 1, cpu="15"), build_deployment("b", 1, cpu="15")
        )
    )
    rows = {
        row.object: row
        for row in require_success(plan_observed(text, *add_standard_objects(*BIG))).plan.placements
        if row.kind == "pod"
    }
    assert rows["a-0"].scores["certain"] is False
    assert rows["a-0"].scores["depends_on"] == "arrival order"
    assert rows["a-0"].scores["otherwise"].startswith("no node if")


@pytest.mark.parametrize("is_in_dump", [False, True])
def test_devices_of_a_class_are_not_certain(is_in_dump: bool) -> None:
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpus"},
        "spec": {"extendedResourceName": "example.com/gpu"},
    }
    body = json.loads(build_deployment("web", 1))
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = {
        "limits": {"example.com/gpu": "1"}
    }
    in_manifest, in_dump = (
        ((), (device_class,)) if is_in_dump else ((json.dumps(device_class),), ())
    )
    text = RACKS + build_workers(2) + OF_A + build_manifest("m", json.dumps(body), *in_manifest)
    result = require_success(plan_observed(text, *add_standard_objects(*BIG, *in_dump)))
    assert list_certainties(result)["web-0"][0] is False
    (told,) = [warning for warning in result.plan.diagnostics if warning.id == "device-claims"]
    assert "DeviceClass gpus" in told.detail


@pytest.mark.parametrize(
    ("kind", "is_certain"),
    [
        ("ValidatingWebhookConfiguration", False),
        ("ScaledObject", False),
        ("VerticalPodAutoscaler", False),
        ("HorizontalPodAutoscaler", False),
        ("ReplicaSet", False),
        # Only one node fits.
        ("Service", True),
        ("Job", True),
        ("PodDisruptionBudget", True),
    ],
)
def test_unread_kind_makes_its_pods_uncertain(kind: str, is_certain: bool) -> None:
    reading = parse_kubectl_files(
        [("n.json", print_objects(*add_standard_objects(*BIG, build_pod("p", "a-np-0"))))]
    )
    reading.unread_kinds = [kind]
    values = ValueOverride(None, "kubernetes_nodes", {"objects": reading.encode()})
    result = require_success(plan(ONE, data_overrides=(values,)))
    doubt = None if is_certain else "objects that were not read"
    assert list_certainties(result) == {"web-0": (is_certain, doubt)}


def test_pods_in_a_missing_namespace_are_not_certain() -> None:
    namespace = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mon"}})
    site = RACKS + build_workers(2) + OF_A
    web = build_deployment("web", 1, cpu="15", namespace="mon")
    result = require_success(
        plan_observed(site + build_manifest("m", web), *add_standard_objects(*BIG))
    )
    assert list_certainties(result) == {"web-0": (False, "a missing namespace")}
    assert "missing-cluster-namespace" in list_warning_ids(result)
    result = require_success(
        plan_observed(site + build_manifest("m", web, namespace), *add_standard_objects(*BIG))
    )
    assert list_certainties(result) == {"web-0": (True, None)}


def test_missing_namespace_of_objects_without_pods_is_named() -> None:
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "mon"},
    }
    text = RACKS + build_workers(2) + OF_A + build_manifest("m", json.dumps(settings))
    result = require_success(plan_observed(text, *add_standard_objects(*BIG)))
    assert "missing-cluster-namespace" in list_warning_ids(result)


@pytest.mark.parametrize(
    ("replicas", "assumption"), [(2, None), (3, "the steps of a rollout beside terminating pods")]
)
def test_scaled_rollout_beside_own_terminating_pods_is_uncertain(
    replicas: int, assumption: str | None
) -> None:
    """On a running cluster its pods land elsewhere in half of the runs.

    The time when pods become ready decides on the steps.
    """
    labels = {"pod-template-hash": "5d", "app": "web"}
    pods = [
        build_pod(
            f"web-5d-{name}",
            "a-np-1",
            owner=("ReplicaSet", "web-5d"),
            labels=labels,
            terminating=name == "x",
        )
        for name in ("0", "1", "x")
    ]
    nodes = (build_node("a-np-0", unschedulable=True), build_node("a-np-1", "16"))
    text = (
        RACKS
        + build_workers(2)
        + OF_A
        + build_manifest("m", build_deployment("web", replicas, image="web:2"))
    )
    result = require_success(plan_observed(text, *add_standard_objects(*nodes, *pods)))
    assert {text for _, text in list_certainties(result).values()} == {assumption}


def count_calls_of_certainty(workloads: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the calls of functions that verify the certainty of two pods per workload."""
    nodes = [build_node(f"a-np-{number}", "100") for number in range(2)]
    objects = [build_deployment(f"web{number}", 2, cpu="10m") for number in range(workloads)]
    calls = 0

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    verify = PodPhase.verify_certainty

    def verify_counted(*arguments: Any) -> None:
        sys.setprofile(count)
        try:
            verify(*arguments)
        finally:
            sys.setprofile(None)

    monkeypatch.setattr(PodPhase, "verify_certainty", verify_counted)
    text = RACKS + build_workers(2) + OF_A + build_manifest("m", *objects)
    require_success(plan_observed(text, *add_standard_objects(*nodes)))
    monkeypatch.setattr(PodPhase, "verify_certainty", verify)
    return calls


def test_cost_of_certainty_grows_with_the_number_of_workloads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Samples have a limit of their own."""
    monkeypatch.setattr(assumptions, "_MOST_PLACEMENTS", 0)
    small = count_calls_of_certainty(20, monkeypatch)
    large = count_calls_of_certainty(40, monkeypatch)
    assert 0 < large < 2.4 * small


def change_node(section: str, **fields: Any) -> dict[str, Any]:
    body = build_node("a-np-1", "16")
    return {**body, section: {**body[section], **fields}}


@pytest.mark.parametrize(
    ("node", "assumption"),
    [
        (
            change_node("metadata", deletionTimestamp="2026-01-01T00:00:00Z"),
            "nodes that are not ready",
        ),
        (
            change_node("status", conditions=[{"type": "DiskPressure", "status": "True"}]),
            "nodes that are not ready",
        ),
        (
            change_node("spec", taints=[{"key": "a", "effect": "NoScheduleLater"}]),
            "fields that were not read",
        ),
        (change_node("status", allocatable={"cpu": "16 cores"}), "fields that were not read"),
        (change_node("status", allocatable=None), "fields that were not read"),
    ],
)
def test_node_that_may_leave_or_is_partly_unknown(node: dict[str, Any], assumption: str) -> None:
    result = require_success(plan_observed(ONE, *add_standard_objects(BIG[0], node)))
    assert list_certainties(result) == {"web-0": (False, assumption)}


def test_amount_of_a_pod_that_is_no_quantity_is_not_zero() -> None:
    pod = build_pod("other", "a-np-1", "lots")
    result = require_success(plan_observed(ONE, *add_standard_objects(*BIG, pod)))
    assert list_certainties(result) == {"web-0": (False, "fields that were not read")}


@pytest.mark.parametrize(
    ("heartbeat", "assumption"),
    [
        ("2025-06-01T00:00:00Z", "files of several times"),
        ("2026-06-01T00:00:00Z", "files of the future"),
    ],
)
def test_files_of_several_times_are_not_certain(heartbeat: str, assumption: str) -> None:
    nodes = (set_ready_condition(BIG[0], "True"), set_ready_condition(BIG[1], "True", heartbeat))
    result = require_success(plan_observed(ONE, *add_standard_objects(*nodes)))
    assert list_certainties(result) == {"web-0": (False, assumption)}
    assert "old-cluster-files" in list_warning_ids(result)


def test_custom_object_with_the_name_of_a_built_in_kind_is_another_object() -> None:
    metadata = {"name": "a-np-1", "namespace": "longhorn-system"}
    node = {"apiVersion": "longhorn.io/v1beta2", "kind": "Node", "metadata": metadata}
    pod = {**build_pod("other", "a-np-1", "15"), "apiVersion": "example.com/v1"}
    result = require_success(plan_observed(ONE, *add_standard_objects(*BIG, node, pod)))
    assert list_certainties(result) == {"web-0": (True, None)}
    assert "pending-pods" not in list_warning_ids(result)


def test_nodes_of_another_cluster_are_not_certain() -> None:
    result = require_success(
        plan_observed(ONE, *add_standard_objects(build_node("x-0", "16"), build_node("x-1")))
    )
    assert list_certainties(result) == {"web-0": (False, "nodes that match no VM")}
    (warning,) = [item for item in result.plan.diagnostics if item.id == "node-without-vm"]
    assert "may show another cluster" in warning.detail


_APART = ("spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


def build_complete_objects() -> tuple[dict[str, Any], ...]:
    expression = {"key": "app", "operator": "In", "values": ["other"]}
    term = {
        "labelSelector": {"matchExpressions": [expression]},
        "topologyKey": "kubernetes.io/hostname",
    }
    affinity = {_APART[2]: {_APART[3]: [term]}}
    taint = {"key": "special", "effect": "NoSchedule"}
    node = build_node("a-np-1", "16")
    tainted_node = build_node("a-np-0", taints=[taint])
    return add_standard_objects(node, tainted_node, build_pod("other", "a-np-0", affinity=affinity))


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Node", ("metadata", "labels")),
        ("Node", ("spec",)),
        ("Pod", ("spec",)),
        ("Pod", ("spec", "containers")),
        ("Pod", ("status",)),
        ("Pod", ("metadata", "namespace")),
        ("Namespace", ("metadata", "labels")),
        ("PriorityClass", ("value",)),
        ("Node", ("metadata", "labels", "kubernetes.io/os")),
        ("Node", ("spec", "taints", 0, "key")),
        ("Node", ("spec", "taints", 0, "effect")),
        ("Pod", (*_APART, 0, "topologyKey")),
        ("Pod", (*_APART, 0, "labelSelector", "matchExpressions", 0, "operator")),
    ],
)
@pytest.mark.parametrize("value", [None, "absent"])
def test_part_that_every_cluster_writes_was_not_read_if_absent(
    kind: str, path: tuple[str | int, ...], value: str | None
) -> None:
    objects = json.loads(json.dumps(build_complete_objects()))
    body = next(item for item in reversed(objects) if item["kind"] == kind)
    *parents, name = path
    for step in parents:
        body = body[step]
    if value is None:
        body[name] = None
    else:
        del body[name]
    result = require_success(plan_observed(ONE, *objects))
    assert list_certainties(result) == {"web-0": (False, "fields that were not read")}


def test_node_without_taints_and_provider_was_read() -> None:
    """kubectl writes its empty spec."""
    node = {**build_node("a-np-1", "16"), "spec": {}}
    objects = add_standard_objects(build_node("a-np-0"), node)
    assert list_certainties(require_success(plan_observed(ONE, *objects))) == {
        "web-0": (True, None)
    }


@pytest.mark.parametrize(
    ("key", "is_certain"),
    [
        ("node.cloudprovider.kubernetes.io/uninitialized", False),
        ("node.kubernetes.io/not-ready", False),
        ("node.kubernetes.io/disk-pressure", False),
        ("node.cilium.io/agent-not-ready", False),
        ("node.kubernetes.io/unschedulable", True),
        ("node.kubernetes.io/out-of-service", True),
        ("dedicated", True),
    ],
)
def test_pod_that_waits_for_a_ready_node_is_not_certain(key: str, is_certain: bool) -> None:
    """A controller removes the taint, and the pod gets the node."""
    taint = {"key": key, "effect": "NoSchedule"}
    small = build_node("a-np-0", taints=[taint])
    objects = add_standard_objects(small, build_node("a-np-1", "16", taints=[taint]))
    doubt = None if is_certain else "nodes that are not ready"
    assert list_certainties(require_success(plan_observed(ONE, *objects))) == {
        "web-0": (is_certain, doubt)
    }
    other = add_standard_objects(small, build_node("a-np-1", "16"))
    assert list_certainties(require_success(plan_observed(ONE, *other))) == {"web-0": (True, None)}


@pytest.mark.parametrize("is_planned", [False, True])
@pytest.mark.parametrize(
    "annotation", ["scheduler.alpha.kubernetes.io/node-selector", "openshift.io/node-selector"]
)
def test_annotation_of_a_namespace_may_restrict_its_pods(annotation: str, is_planned: bool) -> None:
    """The plugin that applies it may run or not."""
    namespace = build_namespace("default")
    namespace["metadata"]["annotations"] = {annotation: "disk=ssd"}
    other = build_namespace("other")
    other["metadata"]["annotations"] = {annotation: "disk=ssd"}
    objects = [item for item in add_standard_objects(*BIG) if item["kind"] != "Namespace"]
    if is_planned:
        text = ONE + build_manifest("space", json.dumps(namespace))
        result = plan_observed(text, build_namespace("default"), *objects)
    else:
        result = plan_observed(ONE, namespace, *objects)
    assert list_certainties(require_success(result)) == {
        "web-0": (False, "node selectors and tolerations of namespaces")
    }
    result = plan_observed(ONE, build_namespace("default"), other, *objects)
    assert list_certainties(require_success(result)) == {"web-0": (True, None)}


def build_namespaced(kind: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    metadata = {"name": "limits", "namespace": "default"}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec, **more}


@pytest.mark.parametrize(
    ("body", "is_certain"),
    [
        (build_namespaced("ResourceQuota", {"hard": {"pods": "9"}}), False),
        (build_namespaced("ResourceQuota", {"hard": {"pods": "9"}}, status={"used": {}}), False),
        (
            build_namespaced(
                "ResourceQuota", {"hard": {"pods": "9"}}, status={"used": {"pods": "0"}}
            ),
            True,
        ),
        (
            build_namespaced(
                "LimitRange",
                {"limits": [{"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}]},
            ),
            False,
        ),
        (
            build_namespaced(
                "LimitRange", {"limits": [{"type": "Container", "max": {"memory": "99Gi"}}]}
            ),
            True,
        ),
    ],
)
def test_limit_whose_effect_is_unknown_leaves_pods_in_doubt(
    body: dict[str, Any], is_certain: bool
) -> None:
    result = require_success(plan_observed(ONE, *add_standard_objects(*BIG, body)))
    certainties = list_certainties(result)
    assert {name: certain for name, (certain, _) in certainties.items()} == {"web-0": is_certain}
