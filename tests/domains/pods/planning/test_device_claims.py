"""Tests of dynamic resource allocation (DRA): claims of pods, and the devices of nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nexusform.domains.pods.importers.kubectl_snapshot import parse_kubectl_files
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.plan_request import ValueOverride
from tests.domains.pods.importers.cluster_objects import build_node, build_pod, print_objects
from tests.domains.pods.planning.test_cluster_observation import (
    OF_A,
    add_standard_objects,
    plan_observed,
)
from tests.domains.pods.planning.test_csi_limits import list_places
from tests.domains.pods.planning.test_dump_doubts import list_certainties
from tests.domains.pods.planning.test_pods import build_deployment, build_manifest, build_workers
from tests.planning.harness import RACKS, plan, require_success

pytestmark = pytest.mark.of_domains("fleet")
Body = dict[str, Any]
DRIVER = "gpu.example.com"
NO_DEVICES = "cannot allocate all claims"
A100 = 'device.attributes["gpu.example.com"].model == "a100"'


def build_device_object(
    kind: str, name: str, spec: Body, *, is_namespaced: bool = False, **more: Any
) -> Body:
    metadata = {"name": name, **({"namespace": "default"} if is_namespaced else {})}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
        **more,
    }


CLASS = build_device_object("DeviceClass", "gpu", {})


def build_device(name: str, model: str = "a100", cell: int = 0, **more: Any) -> Body:
    attributes = {"model": {"string": model}, "cell": {"int": cell}}
    return {
        "name": name,
        "attributes": attributes,
        "capacity": {"memory": {"value": "40Gi"}},
        **more,
    }


def build_device_slice(name: str, *devices: Body, **more: Any) -> Body:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return build_device_object(
        "ResourceSlice",
        f"{name}-gpu",
        {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices, **more},
    )


def build_versioned_node(name: str, version: str = "v1.34.4") -> Body:
    body = build_node(name)
    return {**body, "status": {**body["status"], "nodeInfo": {"kubeletVersion": version}}}


NODES = (build_versioned_node("a-np-0"), build_versioned_node("a-np-1"))


def build_claim_spec(*requests: Body, **more: Any) -> Body:
    return {"devices": {"requests": list(requests), **more}}


def build_exact_request(name: str = "q", *selectors: str, **more: Any) -> Body:
    cel = [{"cel": {"expression": text}} for text in selectors]
    return {
        "name": name,
        "exactly": {"deviceClassName": "gpu", **({"selectors": cel} if cel else {}), **more},
    }


def build_template(spec: Body, name: str = "t") -> Body:
    return build_device_object("ResourceClaimTemplate", name, {"spec": spec}, is_namespaced=True)


def build_claiming_workload(replicas: int, reference: Body | None = None) -> str:
    body = json.loads(build_deployment("web", replicas, cpu="1"))
    body["spec"]["template"]["spec"]["resourceClaims"] = [
        {"name": "d", **(reference or {"resourceClaimTemplateName": "t"})}
    ]
    return json.dumps(body)


def plan_devices(text: str, *objects: Body, nodes: tuple[Body, ...] = NODES) -> PlanResult:
    return require_success(
        plan_observed(
            RACKS + build_workers(2) + OF_A + build_manifest("m", text),
            *add_standard_objects(*nodes, CLASS, *objects),
        )
    )


def list_nodes(result: PlanResult) -> list[str]:
    return sorted(list_places(result).values())


def find_warning(result: PlanResult) -> str:
    return " ".join(
        warning.detail for warning in result.plan.diagnostics if warning.id == "device-claims"
    )


def test_each_pod_uses_devices_of_its_node() -> None:
    slices = (
        build_device_slice("a-np-0", build_device("g0")),
        build_device_slice("a-np-1", build_device("g0"), build_device("g1")),
    )
    result = plan_devices(
        build_claiming_workload(4), build_template(build_claim_spec(build_exact_request())), *slices
    )
    pending, *running = list_nodes(result)
    assert f"2 {NO_DEVICES}" in pending
    assert running == ["a-np-0", "a-np-1", "a-np-1"]
    assert find_warning(result) == ""


def test_pod_with_one_possible_node_is_certain() -> None:
    result = plan_devices(
        build_claiming_workload(1),
        build_template(build_claim_spec(build_exact_request(count=2))),
        build_device_slice("a-np-1", *map(build_device, "ab")),
    )
    assert list_places(result) == {"web-0": "a-np-1"}
    assert list_certainties(result) == {"web-0": (True, None)}


def test_all_devices_of_a_node_are_allocated_or_none() -> None:
    held = build_device_object(
        "ResourceClaim",
        "old",
        build_claim_spec(build_exact_request()),
        is_namespaced=True,
        status={
            "allocation": {
                "devices": {
                    "results": [{"driver": DRIVER, "pool": "a-np-0", "device": "a", "request": "q"}]
                }
            }
        },
    )
    slices = (
        build_device_slice("a-np-0", *map(build_device, "ab")),
        build_device_slice("a-np-1", build_device("a")),
    )
    there = build_pod("old", "a-np-0", resourceClaims=[{"name": "d", "resourceClaimName": "old"}])
    result = plan_devices(
        build_claiming_workload(1),
        build_template(build_claim_spec(build_exact_request(allocationMode="All"))),
        *slices,
        held,
        there,
    )
    assert list_places(result) == {"web-0": "a-np-1"}


def test_first_available_alternative_is_used() -> None:
    alternatives = [
        {"name": "two", "deviceClassName": "gpu", "count": 2},
        {"name": "one", "deviceClassName": "gpu"},
    ]
    request = {"name": "q", "firstAvailable": alternatives}
    result = plan_devices(
        build_claiming_workload(2),
        build_template(build_claim_spec(request)),
        build_device_slice("a-np-0", *map(build_device, "abc")),
    )
    assert list_nodes(result) == ["a-np-0", "a-np-0"]
    result = plan_devices(
        build_claiming_workload(2),
        build_template(build_claim_spec(request)),
        build_device_slice("a-np-0", *map(build_device, "ab")),
    )
    assert list_nodes(result)[1] == "a-np-0"
    assert NO_DEVICES in list_nodes(result)[0]


def test_constraint_needs_devices_with_one_value() -> None:
    constraint = {"matchAttribute": f"{DRIVER}/cell"}
    slices = (
        build_device_slice("a-np-0", build_device("a", cell=0), build_device("b", cell=1)),
        build_device_slice(
            "a-np-1",
            build_device("a", cell=0),
            build_device("b", cell=1),
            build_device("c", cell=1),
        ),
    )
    spec = build_claim_spec(
        build_exact_request("p"), build_exact_request("q"), constraints=[constraint]
    )
    assert list_places(plan_devices(build_claiming_workload(1), build_template(spec), *slices)) == {
        "web-0": "a-np-1"
    }


def test_admin_access_needs_no_free_device() -> None:
    slices = build_device_slice("a-np-0", build_device("a"))
    result = plan_devices(
        build_claiming_workload(3),
        build_template(build_claim_spec(build_exact_request(adminAccess=True))),
        slices,
    )
    assert list_nodes(result) == ["a-np-0"] * 3


def test_pods_of_one_claim_share_its_devices() -> None:
    claim = build_device_object(
        "ResourceClaim", "shared", build_claim_spec(build_exact_request()), is_namespaced=True
    )
    slices = (
        build_device_slice("a-np-0", build_device("a")),
        build_device_slice("a-np-1", build_device("a")),
    )
    nodes = list_nodes(
        plan_devices(build_claiming_workload(2, {"resourceClaimName": "shared"}), claim, *slices)
    )
    assert nodes in (["a-np-0"] * 2, ["a-np-1"] * 2)


@pytest.mark.parametrize(
    ("reference", "objects", "reason"),
    [
        ({"resourceClaimName": "gone"}, (), 'resourceclaim.resource.k8s.io "gone" not found'),
        (
            {"resourceClaimTemplateName": "gone"},
            (),
            'resourceclaimtemplate.resource.k8s.io "gone" not found',
        ),
        (
            None,
            (
                build_template(
                    build_claim_spec({"name": "q", "exactly": {"deviceClassName": "fast"}})
                ),
            ),
            "request q: device class fast does not exist",
        ),
    ],
)
def test_missing_objects_are_named(
    reference: Body | None, objects: tuple[Body, ...], reason: str
) -> None:
    result = plan_devices(
        build_claiming_workload(1, reference),
        build_device_slice("a-np-0", build_device("a")),
        *objects,
    )
    assert reason in list_places(result)["web-0"]
    assert reason in find_warning(result)


def test_unread_claims_leave_pods_uncertain() -> None:
    reading = parse_kubectl_files(
        [
            (
                "n.json",
                print_objects(
                    *add_standard_objects(
                        *NODES, CLASS, build_device_slice("a-np-1", build_device("a"))
                    ),
                    build_pod("s", "", phase="Succeeded"),
                ),
            )
        ]
    )
    reading.unread_kinds = ["ResourceClaim"]
    text = (
        RACKS
        + build_workers(2)
        + OF_A
        + build_manifest(
            "m",
            build_claiming_workload(1),
            json.dumps(build_template(build_claim_spec(build_exact_request()))),
        )
    )
    result = require_success(
        plan(
            text,
            data_overrides=(
                ValueOverride(None, "kubernetes_nodes", {"objects": reading.encode()}),
            ),
        )
    )
    assert list_certainties(result) == {"web-0": (False, "objects that were not read")}


def test_devices_without_slices_are_unknown() -> None:
    result = plan_devices(
        build_claiming_workload(1), build_template(build_claim_spec(build_exact_request()))
    )
    assert list_certainties(result)["web-0"][0] is False
    assert "no ResourceSlice is known" in find_warning(result)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"capacity": {"requests": {"memory": "1Gi"}}}, "uses capacity"),
        ({"selectors": [{"cel": {"expression": "device.unknown("}}]}, 'selector "device.unknown("'),
    ],
)
def test_unsupported_fields_are_named(more: Body, named: str) -> None:
    result = plan_devices(
        build_claiming_workload(1),
        build_template(build_claim_spec(build_exact_request(**more))),
        build_device_slice("a-np-0", build_device("a")),
    )
    assert list_certainties(result)["web-0"][0] is False
    assert named in find_warning(result)


def test_taints_and_counters_of_devices_depend_on_feature_gates_before_1_36() -> None:
    taint = {"key": "bad", "effect": "NoSchedule"}
    slices = (
        build_device_slice("a-np-0", build_device("a", taints=[taint])),
        build_device_slice("a-np-1", build_device("a")),
    )
    result = plan_devices(
        build_claiming_workload(1), build_template(build_claim_spec(build_exact_request())), *slices
    )
    assert list_places(result) == {"web-0": "a-np-1"}
    assert list_certainties(result) == {"web-0": (False, "feature gates of devices")}


def test_devices_share_counters() -> None:
    counters = [{"name": "card", "counters": {"memory": {"value": "4"}}}]
    parts = [
        build_device(
            name,
            consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": amount}}}],
        )
        for name, amount in (("full", "4"), ("half", "2"), ("other", "2"))
    ]
    slices = build_device_slice("a-np-0", *parts[1:], parts[0], sharedCounters=counters)
    result = plan_devices(
        build_claiming_workload(3), build_template(build_claim_spec(build_exact_request())), slices
    )
    assert list_nodes(result)[1:] == ["a-np-0", "a-np-0"]


def test_selectors_read_attributes_and_capacity() -> None:
    pytest.importorskip("cel_expr_python")
    slices = (
        build_device_slice("a-np-0", build_device("a", model="h100")),
        build_device_slice("a-np-1", build_device("a")),
    )
    assert list_places(
        plan_devices(
            build_claiming_workload(1),
            build_template(build_claim_spec(build_exact_request("q", A100))),
            *slices,
        )
    ) == {"web-0": "a-np-1"}
    large = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("80Gi")) >= 0'
    result = plan_devices(
        build_claiming_workload(1),
        build_template(build_claim_spec(build_exact_request("q", large))),
        *slices,
    )
    assert NO_DEVICES in list_places(result)["web-0"]
    assert list_certainties(result) == {"web-0": (True, None)}


def test_failing_selector_is_not_certain() -> None:
    pytest.importorskip("cel_expr_python")
    wrong = f'device.attributes["{DRIVER}"].none == "x"'
    result = plan_devices(
        build_claiming_workload(1),
        build_template(build_claim_spec(build_exact_request("q", wrong))),
        build_device_slice("a-np-0", build_device("a")),
    )
    assert "fails on a device" in list_places(result)["web-0"]
    assert list_certainties(result)["web-0"][0] is False


@pytest.mark.parametrize(
    "expression",
    [
        "1 + 1",
        "1 / 0 == 1",
        '"a".matches("(")',
        pytest.param("true && " * 2_000 + "true", id="16,004 bytes"),
    ],
)
def test_selector_that_kubernetes_rejects_is_an_error(expression: str) -> None:
    pytest.importorskip("cel_expr_python")
    with pytest.raises(
        AssertionError, match="ResourceClaimTemplate default/t has an invalid selector"
    ):
        plan_devices(
            build_claiming_workload(1),
            build_template(build_claim_spec(build_exact_request("q", expression))),
            build_device_slice("a-np-0", build_device("a")),
        )


def test_selector_without_the_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from nexusform.domains.pods.scheduling import cel_device_selectors

    monkeypatch.setitem(__import__("sys").modules, "cel_expr_python", None)
    cel_device_selectors.find_selector_problem.cache_clear()
    result = plan_devices(
        build_claiming_workload(1),
        build_template(build_claim_spec(build_exact_request("q", A100))),
        build_device_slice("a-np-0", build_device("a")),
    )
    assert list_certainties(result)["web-0"][0] is False
    assert "pip install '.[devices]'" in find_warning(result)
