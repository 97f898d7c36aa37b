"""Tests of the local Azure Resource Manager against recordings of the real one.

Status codes, headers, keys and shapes of bodies must be the same. Other tests of the provider are
only as good as this server.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("requests")
import requests

from tests.domains.azure.providers.arm_server import (
    GROUP,
    PROVIDER,
    ROOT,
    VERSION,
    ArmServer,
    Faults,
)
from tests.domains.azure.providers.azure_sites import CLUSTER_ID, build_existing_site

RECORDED = json.loads(Path(__file__).with_name("recorded_answers.json").read_text())
OPERATIONS = RECORDED["operations"]
POOL = f"{CLUSTER_ID}/agentPools/web"
NEW = f"{CLUSTER_ID}/agentPools/more"
BODY = {
    "location": "eastus",
    "extendedLocation": {"name": "/x", "type": "CustomLocation"},
    "tags": {"tag1": "tag1"},
    "properties": {"count": 1, "mode": "User", "vmSkuName": "NC_P22_112_v1"},
}
CHANGE = {"tags": {"tag1": "tag1"}, "properties": {"count": 1}}
BODIES = os.environ.get("NEXUSFORM_AZURE_BODIES", "")


@pytest.fixture
def arm(server: ArmServer) -> ArmServer:
    server.site = build_existing_site()
    # As in the API versions of the recordings.
    server.site.tells_etags = False
    server.site.faults = Faults(polls=3)
    return server


def send_request(arm: ArmServer, method: str, address: str, body: Any = None) -> Any:
    at = (
        address
        if address.startswith("https://")
        else f"{arm.address}{address}?api-version={VERSION}"
    )
    token = {"Authorization": "Bearer token"}
    return requests.request(
        method, at, json=body, headers=token, verify=str(arm.certificate), timeout=120
    )


def compare_answer(answer: Any, recorded: dict[str, Any]) -> None:
    assert answer.status_code == recorded["status"]
    for name in recorded["headers"]:
        assert name in answer.headers, name
    for name in recorded["no_headers"]:
        assert name not in answer.headers, name
    assert answer.headers["Content-Type"].startswith("application/json")
    if "ETag" in recorded["headers"]:
        assert re.search(RECORDED["etag"], answer.headers["ETag"])
    for name in {"Azure-AsyncOperation", "Location"} & set(recorded["headers"]):
        assert re.search(OPERATIONS["address"], answer.headers[name]), answer.headers[name]
    body = answer.json()
    assert (body if body is None else sorted(body)) == (
        recorded["body"] and sorted(recorded["body"])
    )


@pytest.mark.parametrize(
    ("method", "path", "sent"),
    [("PUT", NEW, BODY), ("PATCH", POOL, CHANGE), ("DELETE", POOL, None)],
)
def test_change_and_its_operation_are_answered_as_recorded(
    method: str, path: str, sent: Any, arm: ArmServer
) -> None:
    answer = send_request(arm, method, path, sent)
    compare_answer(answer, RECORDED["answers"][method])
    if method == "PUT":
        assert answer.json()["properties"]["provisioningState"] == "Accepted"
        assert list(answer.json()["systemData"]) == RECORDED["systemData"]
        assert answer.json()["type"] == RECORDED["type"]
    address = answer.headers["Azure-AsyncOperation"]
    told = [send_request(arm, "GET", address) for _ in range(3)]
    assert [one.status_code for one in told] == [200, 200, 200]
    assert [one.json()["status"] for one in told] == [*OPERATIONS["running"]["status"], "Succeeded"]
    assert [list(one.json()) for one in told[:2]] == [OPERATIONS["running"]["body"]] * 2
    assert list(told[2].json()) == [*OPERATIONS["running"]["body"], "endTime", "properties"]
    shown = send_request(arm, "GET", path)
    assert shown.status_code == 404 if method == "DELETE" else 200
    if method == "PUT":
        compare_answer(shown, RECORDED["answers"]["GET"])


def test_operation_is_polled_by_location_as_recorded(arm: ArmServer) -> None:
    address = send_request(arm, "DELETE", POOL).headers["Location"]
    codes = []
    addresses = [address]
    for _ in range(3):
        answer = send_request(arm, "GET", addresses[-1])
        codes.append(answer.status_code)
        addresses += [answer.headers["Location"]] if "Location" in answer.headers else []
    assert codes == [202, 202, 200]
    # A new one with each response.
    assert len(set(addresses)) == 3


@pytest.mark.parametrize("outcome", ["Failed", "Canceled"])
def test_failed_operation_has_code_and_message(outcome: str, arm: ArmServer) -> None:
    arm.site.faults = Faults(fails=1, outcome=outcome)
    told = send_request(
        arm, "GET", send_request(arm, "PATCH", POOL, CHANGE).headers["Azure-AsyncOperation"]
    ).json()
    assert told["status"] == outcome
    assert list(told) == OPERATIONS["failed"]["body"]
    assert list(told["error"]) == OPERATIONS["failed"]["error"]
    assert told["properties"] is None


def test_address_with_wrong_signature_is_rejected(arm: ArmServer) -> None:
    address = send_request(arm, "PATCH", POOL, CHANGE).headers["Azure-AsyncOperation"]
    assert send_request(arm, "GET", re.sub("t=[0-9]+", "t=1", address)).status_code == 403
    assert (
        send_request(arm, "GET", address.split("?")[0] + f"?api-version={VERSION}").status_code
        == 403
    )


def test_lists_have_pages(arm: ArmServer) -> None:
    listed = send_request(arm, "GET", f"{CLUSTER_ID}/agentPools")
    compare_answer(listed, RECORDED["answers"]["list"])
    arm.page_size, before = 1, arm.page_size
    try:
        first = send_request(arm, "GET", f"{CLUSTER_ID}/agentPools").json()
        last = send_request(arm, "GET", first["nextLink"]).json()
    finally:
        arm.page_size = before
    assert sorted(first) == ["nextLink", "value"]
    assert [one["name"] for one in first["value"] + last["value"]] == ["np1", "web"]


@pytest.mark.skipif(not BODIES, reason="NEXUSFORM_AZURE_BODIES names no bodies of real servers")
@pytest.mark.parametrize("kind", ["kubernetes_clusters", "bare_metal_machines", "racks"])
def test_bodies_have_only_keys_of_real_bodies(kind: str, arm: ArmServer) -> None:
    real = [body for path in Path(BODIES).glob(f"*/*/{kind}.json") for body in _read_bodies(path)]
    types = {
        "kubernetes_clusters": "kubernetesClusters",
        "bare_metal_machines": "bareMetalMachines",
    }
    ours = send_request(arm, "GET", f"{ROOT}/{PROVIDER}/{types.get(kind, kind)}").json()["value"]
    assert ours
    for body in ours:
        # Racks were recorded only in part.
        partly = {"systemData", "extendedLocation"} if kind == "racks" else set()
        assert set(body) <= {key for one in real for key in one} | partly
        known = {key for one in real for key in one["properties"]}
        assert set(body["properties"]) - {"clusterId"} <= known
        nodes = {
            key for one in real for node in one["properties"].get("nodes") or () for key in node
        }
        assert {key for node in body["properties"].get("nodes") or () for key in node} <= nodes


def _read_bodies(path: Path) -> list[Any]:
    read = json.loads(path.read_text())
    return list(read["value"] if isinstance(read, dict) else read)


def test_machine_accepts_an_action_and_keeps_its_etag(arm: ArmServer) -> None:
    machine = f"{GROUP.replace('tenants', 'hosted')}/{PROVIDER}/bareMetalMachines/m1"
    before = send_request(arm, "GET", machine).headers["ETag"]
    answer = send_request(arm, "POST", f"{machine}/cordon", {"evacuate": "False"})
    assert answer.status_code == 202
    for _ in range(3):
        send_request(arm, "GET", answer.headers["Azure-AsyncOperation"])
    assert send_request(arm, "GET", machine).headers["ETag"] == before
