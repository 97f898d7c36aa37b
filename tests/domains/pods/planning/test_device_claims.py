"""Dynamic resource allocation (DRA): claims of pods, and the devices of nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nexusform.domains.pods.importers.kubectl_snapshot import parse_kubectl_files
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.plan_request import ValueOverride
from tests.domains.pods.importers.cluster_objects import node, pod, printed
from tests.domains.pods.planning.test_cluster_observation import OF_A, seen, whole
from tests.domains.pods.planning.test_csi_limits import places
from tests.domains.pods.planning.test_dump_doubts import certainties
from tests.domains.pods.planning.test_pods import deployment, manifest, workers
from tests.planning.harness import RACKS, good, plan

pytestmark = pytest.mark.of_domains("fleet")
Body = dict[str, Any]
DRIVER = "gpu.example.com"
NO_DEVICES = "cannot allocate all claims"
A100 = 'device.attributes["gpu.example.com"].model == "a100"'


def device_object(kind: str, name: str, spec: Body, *, is_namespaced: bool = False, **more: Any) -> Body:
    metadata = {"name": name, **({"namespace": "default"} if is_namespaced else {})}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec, **more}


CLASS = device_object("DeviceClass", "gpu", {})


def device(name: str, model: str = "a100", cell: int = 0, **more: Any) -> Body:
    attributes = {"model": {"string": model}, "cell": {"int": cell}}
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": "40Gi"}}, **more}


def devices_of(name: str, *devices: Body, **more: Any) -> Body:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return device_object(
        "ResourceSlice", f"{name}-gpu", {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": devices, **more}
    )


def versioned_node(name: str, version: str = "v1.34.4") -> Body:
    body = node(name)
    return {**body, "status": {**body["status"], "nodeInfo": {"kubeletVersion": version}}}


NODES = (versioned_node("a-np-0"), versioned_node("a-np-1"))


def claim_spec(*requests: Body, **more: Any) -> Body:
    return {"devices": {"requests": list(requests), **more}}


def exactly(name: str = "q", *selectors: str, **more: Any) -> Body:
    cel = [{"cel": {"expression": text}} for text in selectors]
    return {"name": name, "exactly": {"deviceClassName": "gpu", **({"selectors": cel} if cel else {}), **more}}


def template(spec: Body, name: str = "t") -> Body:
    return device_object("ResourceClaimTemplate", name, {"spec": spec}, is_namespaced=True)


def claiming(replicas: int, reference: Body | None = None) -> str:
    body = json.loads(deployment("web", replicas, cpu="1"))
    body["spec"]["template"]["spec"]["resourceClaims"] = [
        {"name": "d", **(reference or {"resourceClaimTemplateName": "t"})}
    ]
    return json.dumps(body)


def planned(text: str, *objects: Body, nodes: tuple[Body, ...] = NODES) -> PlanResult:
    return good(seen(RACKS + workers(2) + OF_A + manifest("m", text), *whole(*nodes, CLASS, *objects)))


def list_nodes(result: PlanResult) -> list[str]:
    return sorted(places(result).values())


def find_warning(result: PlanResult) -> str:
    return " ".join(warning.detail for warning in result.plan.diagnostics if warning.id == "device-claims")


def test_each_pod_takes_devices_of_its_node() -> None:
    slices = (devices_of("a-np-0", device("g0")), devices_of("a-np-1", device("g0"), device("g1")))
    result = planned(claiming(4), template(claim_spec(exactly())), *slices)
    pending, *running = list_nodes(result)
    assert f"2 {NO_DEVICES}" in pending
    assert running == ["a-np-0", "a-np-1", "a-np-1"]
    assert find_warning(result) == ""


def test_a_pod_with_one_possible_node_is_certain() -> None:
    result = planned(claiming(1), template(claim_spec(exactly(count=2))), devices_of("a-np-1", *map(device, "ab")))
    assert places(result) == {"web-0": "a-np-1"}
    assert certainties(result) == {"web-0": (True, None)}


def test_all_devices_of_a_node_are_taken_or_none() -> None:
    held = device_object(
        "ResourceClaim",
        "old",
        claim_spec(exactly()),
        is_namespaced=True,
        status={
            "allocation": {
                "devices": {"results": [{"driver": DRIVER, "pool": "a-np-0", "device": "a", "request": "q"}]}
            }
        },
    )
    slices = (devices_of("a-np-0", *map(device, "ab")), devices_of("a-np-1", device("a")))
    there = pod("old", "a-np-0", resourceClaims=[{"name": "d", "resourceClaimName": "old"}])
    result = planned(claiming(1), template(claim_spec(exactly(allocationMode="All"))), *slices, held, there)
    assert places(result) == {"web-0": "a-np-1"}


def test_the_first_available_alternative_is_taken() -> None:
    alternatives = [{"name": "two", "deviceClassName": "gpu", "count": 2}, {"name": "one", "deviceClassName": "gpu"}]
    request = {"name": "q", "firstAvailable": alternatives}
    result = planned(claiming(2), template(claim_spec(request)), devices_of("a-np-0", *map(device, "abc")))
    assert list_nodes(result) == ["a-np-0", "a-np-0"]
    result = planned(claiming(2), template(claim_spec(request)), devices_of("a-np-0", *map(device, "ab")))
    assert list_nodes(result)[1] == "a-np-0"
    assert NO_DEVICES in list_nodes(result)[0]


def test_a_constraint_needs_devices_with_one_value() -> None:
    constraint = {"matchAttribute": f"{DRIVER}/cell"}
    slices = (
        devices_of("a-np-0", device("a", cell=0), device("b", cell=1)),
        devices_of("a-np-1", device("a", cell=0), device("b", cell=1), device("c", cell=1)),
    )
    spec = claim_spec(exactly("p"), exactly("q"), constraints=[constraint])
    assert places(planned(claiming(1), template(spec), *slices)) == {"web-0": "a-np-1"}


def test_admin_access_needs_no_free_device() -> None:
    slices = devices_of("a-np-0", device("a"))
    result = planned(claiming(3), template(claim_spec(exactly(adminAccess=True))), slices)
    assert list_nodes(result) == ["a-np-0"] * 3


def test_pods_of_one_claim_share_its_devices() -> None:
    claim = device_object("ResourceClaim", "shared", claim_spec(exactly()), is_namespaced=True)
    slices = (devices_of("a-np-0", device("a")), devices_of("a-np-1", device("a")))
    nodes = list_nodes(planned(claiming(2, {"resourceClaimName": "shared"}), claim, *slices))
    assert nodes in (["a-np-0"] * 2, ["a-np-1"] * 2)


@pytest.mark.parametrize(
    ("reference", "objects", "reason"),
    [
        ({"resourceClaimName": "gone"}, (), 'resourceclaim.resource.k8s.io "gone" not found'),
        ({"resourceClaimTemplateName": "gone"}, (), 'resourceclaimtemplate.resource.k8s.io "gone" not found'),
        (
            None,
            (template(claim_spec({"name": "q", "exactly": {"deviceClassName": "fast"}})),),
            "request q: device class fast does not exist",
        ),
    ],
)
def test_missing_objects_are_named(reference: Body | None, objects: tuple[Body, ...], reason: str) -> None:
    result = planned(claiming(1, reference), devices_of("a-np-0", device("a")), *objects)
    assert reason in places(result)["web-0"]
    assert reason in find_warning(result)


def test_claims_that_were_not_read_leave_pods_uncertain() -> None:
    reading = parse_kubectl_files(
        [("n.json", printed(*whole(*NODES, CLASS, devices_of("a-np-1", device("a"))), pod("s", "", phase="Succeeded")))]
    )
    reading.unread_kinds = ["ResourceClaim"]
    text = RACKS + workers(2) + OF_A + manifest("m", claiming(1), json.dumps(template(claim_spec(exactly()))))
    result = good(plan(text, data_overrides=(ValueOverride(None, "kubernetes_nodes", {"objects": reading.encode()}),)))
    assert certainties(result) == {"web-0": (False, "objects that were not read")}


def test_devices_without_slices_are_unknown() -> None:
    result = planned(claiming(1), template(claim_spec(exactly())))
    assert certainties(result)["web-0"][0] is False
    assert "no ResourceSlice is known" in find_warning(result)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"capacity": {"requests": {"memory": "1Gi"}}}, "uses capacity"),
        ({"selectors": [{"cel": {"expression": "device.unknown("}}]}, 'selector "device.unknown("'),
    ],
)
def test_what_cannot_be_evaluated_is_named(more: Body, named: str) -> None:
    result = planned(claiming(1), template(claim_spec(exactly(**more))), devices_of("a-np-0", device("a")))
    assert certainties(result)["web-0"][0] is False
    assert named in find_warning(result)


def test_taints_and_counters_of_devices_depend_on_feature_gates_before_1_36() -> None:
    taint = {"key": "bad", "effect": "NoSchedule"}
    slices = (devices_of("a-np-0", device("a", taints=[taint])), devices_of("a-np-1", device("a")))
    result = planned(claiming(1), template(claim_spec(exactly())), *slices)
    assert places(result) == {"web-0": "a-np-1"}
    assert certainties(result) == {"web-0": (False, "feature gates of devices")}


def test_devices_share_counters() -> None:
    counters = [{"name": "card", "counters": {"memory": {"value": "4"}}}]
    parts = [
        device(name, consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": amount}}}])
        for name, amount in (("full", "4"), ("half", "2"), ("other", "2"))
    ]
    slices = devices_of("a-np-0", *parts[1:], parts[0], sharedCounters=counters)
    result = planned(claiming(3), template(claim_spec(exactly())), slices)
    assert list_nodes(result)[1:] == ["a-np-0", "a-np-0"]


def test_selectors_read_attributes_and_capacity() -> None:
    pytest.importorskip("cel_expr_python")
    slices = (devices_of("a-np-0", device("a", model="h100")), devices_of("a-np-1", device("a")))
    assert places(planned(claiming(1), template(claim_spec(exactly("q", A100))), *slices)) == {"web-0": "a-np-1"}
    large = f'device.capacity["{DRIVER}"].memory.compareTo(quantity("80Gi")) >= 0'
    result = planned(claiming(1), template(claim_spec(exactly("q", large))), *slices)
    assert NO_DEVICES in places(result)["web-0"]
    assert certainties(result) == {"web-0": (True, None)}


def test_a_selector_that_fails_is_not_certain() -> None:
    pytest.importorskip("cel_expr_python")
    wrong = f'device.attributes["{DRIVER}"].none == "x"'
    result = planned(claiming(1), template(claim_spec(exactly("q", wrong))), devices_of("a-np-0", device("a")))
    assert "fails on a device" in places(result)["web-0"]
    assert certainties(result)["web-0"][0] is False


def test_a_selector_without_the_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from nexusform.domains.pods.scheduling import cel_device_selectors

    monkeypatch.setitem(__import__("sys").modules, "cel_expr_python", None)
    cel_device_selectors._compile.cache_clear()
    cel_device_selectors._create_environment.cache_clear()
    result = planned(claiming(1), template(claim_spec(exactly("q", A100))), devices_of("a-np-0", device("a")))
    assert certainties(result)["web-0"][0] is False
    assert "pip install '.[devices]'" in find_warning(result)
