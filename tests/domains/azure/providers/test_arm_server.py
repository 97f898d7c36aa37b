"""The local Azure Resource Manager says what the real one was recorded to say: same status codes, headers,
keys and shapes of bodies. What the provider does against it is worth no more than that.
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

from tests.domains.azure.providers.arm_server import GROUP, PROVIDER, ROOT, VERSION, ArmServer, Faults
from tests.domains.azure.providers.azure_sites import CLUSTER_ID, standing_site

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
    server.site = standing_site()
    server.site.tells_etags = False  # as the API versions of the recordings
    server.site.faults = Faults(polls=3)
    return server


def ask(arm: ArmServer, method: str, address: str, body: Any = None) -> Any:
    at = address if address.startswith("https://") else f"{arm.address}{address}?api-version={VERSION}"
    token = {"Authorization": "Bearer token"}
    return requests.request(method, at, json=body, headers=token, verify=str(arm.certificate), timeout=120)


def judge(answer: Any, recorded: dict[str, Any]) -> None:
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
    assert (body if body is None else sorted(body)) == (recorded["body"] and sorted(recorded["body"]))


@pytest.mark.parametrize(
    ("method", "path", "sent"), [("PUT", NEW, BODY), ("PATCH", POOL, CHANGE), ("DELETE", POOL, None)]
)
def test_a_change_is_answered_and_followed_as_recorded(method: str, path: str, sent: Any, arm: ArmServer) -> None:
    answer = ask(arm, method, path, sent)
    judge(answer, RECORDED["answers"][method])
    if method == "PUT":
        assert answer.json()["properties"]["provisioningState"] == "Accepted"
        assert list(answer.json()["systemData"]) == RECORDED["systemData"]
        assert answer.json()["type"] == RECORDED["type"]
    address = answer.headers["Azure-AsyncOperation"]
    told = [ask(arm, "GET", address) for _ in range(3)]
    assert [one.status_code for one in told] == [200, 200, 200]
    assert [one.json()["status"] for one in told] == [*OPERATIONS["running"]["status"], "Succeeded"]
    assert [list(one.json()) for one in told[:2]] == [OPERATIONS["running"]["body"]] * 2
    assert list(told[2].json()) == [*OPERATIONS["running"]["body"], "endTime", "properties"]
    shown = ask(arm, "GET", path)
    assert shown.status_code == 404 if method == "DELETE" else 200
    if method == "PUT":
        judge(shown, RECORDED["answers"]["GET"])


def test_an_operation_is_looked_at_by_its_location_as_recorded(arm: ArmServer) -> None:
    address = ask(arm, "DELETE", POOL).headers["Location"]
    codes, addresses = [], [address]
    for _ in range(3):
        answer = ask(arm, "GET", addresses[-1])
        codes.append(answer.status_code)
        addresses += [answer.headers["Location"]] if "Location" in answer.headers else []
    assert codes == [202, 202, 200]
    assert len(set(addresses)) == 3  # another one with each answer


@pytest.mark.parametrize("outcome", ["Failed", "Canceled"])
def test_an_operation_that_ends_badly_says_code_and_message(outcome: str, arm: ArmServer) -> None:
    arm.site.faults = Faults(fails=1, outcome=outcome)
    told = ask(arm, "GET", ask(arm, "PATCH", POOL, CHANGE).headers["Azure-AsyncOperation"]).json()
    assert told["status"] == outcome
    assert list(told) == OPERATIONS["failed"]["body"]
    assert list(told["error"]) == OPERATIONS["failed"]["error"]
    assert told["properties"] is None


def test_what_is_not_signed_as_given_out_is_refused(arm: ArmServer) -> None:
    address = ask(arm, "PATCH", POOL, CHANGE).headers["Azure-AsyncOperation"]
    assert ask(arm, "GET", re.sub("t=[0-9]+", "t=1", address)).status_code == 403
    assert ask(arm, "GET", address.split("?")[0] + f"?api-version={VERSION}").status_code == 403


def test_lists_come_in_pages(arm: ArmServer) -> None:
    listed = ask(arm, "GET", f"{CLUSTER_ID}/agentPools")
    judge(listed, RECORDED["answers"]["list"])
    arm.page_size, before = 1, arm.page_size
    try:
        first = ask(arm, "GET", f"{CLUSTER_ID}/agentPools").json()
        last = ask(arm, "GET", first["nextLink"]).json()
    finally:
        arm.page_size = before
    assert sorted(first) == ["nextLink", "value"]
    assert [one["name"] for one in first["value"] + last["value"]] == ["np1", "web"]


@pytest.mark.skipif(not BODIES, reason="NEXUSFORM_AZURE_BODIES names no bodies of real servers")
@pytest.mark.parametrize("kind", ["kubernetes_clusters", "bare_metal_machines", "racks"])
def test_bodies_have_no_key_that_real_ones_have_not(kind: str, arm: ArmServer) -> None:
    real = [body for path in Path(BODIES).glob(f"*/*/{kind}.json") for body in _bodies(path)]
    types = {"kubernetes_clusters": "kubernetesClusters", "bare_metal_machines": "bareMetalMachines"}
    ours = ask(arm, "GET", f"{ROOT}/{PROVIDER}/{types.get(kind, kind)}").json()["value"]
    assert ours
    for body in ours:
        # Of racks only parts were recorded.
        partly = {"systemData", "extendedLocation"} if kind == "racks" else set()
        assert set(body) <= {key for one in real for key in one} | partly
        known = {key for one in real for key in one["properties"]}
        assert set(body["properties"]) - {"clusterId"} <= known
        nodes = {key for one in real for node in one["properties"].get("nodes") or () for key in node}
        assert {key for node in body["properties"].get("nodes") or () for key in node} <= nodes


def _bodies(path: Path) -> list[Any]:
    read = json.loads(path.read_text())
    return list(read["value"] if isinstance(read, dict) else read)


def test_a_machine_takes_an_action_and_keeps_its_version(arm: ArmServer) -> None:
    machine = f"{GROUP.replace('tenants', 'hosted')}/{PROVIDER}/bareMetalMachines/m1"
    before = ask(arm, "GET", machine).headers["ETag"]
    answer = ask(arm, "POST", f"{machine}/cordon", {"evacuate": "False"})
    assert answer.status_code == 202
    for _ in range(3):
        ask(arm, "GET", answer.headers["Azure-AsyncOperation"])
    assert ask(arm, "GET", machine).headers["ETag"] == before
