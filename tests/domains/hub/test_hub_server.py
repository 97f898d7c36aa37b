"""Both hubs of the tests, our own and a real API server, answer what a real hub was recorded to answer."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.domains.hub import hub_webhooks
from tests.domains.hub.hub_controller import member
from tests.domains.hub.hub_front import Body, Front
from tests.domains.hub.hub_server import HubServer

CASES = os.environ.get("NEXUSFORM_HUB_CASES", "")
APPLY = "application/apply-patch+yaml"
TOKENS = {401: "nobody-token", 403: "bob-token"}
# The product makes objects by server-side apply, and never replaces: of that our own server knows nothing.
NOT_OURS = {"POST", "PUT"}
# A version that was too old when it was recorded is none that an API server has had since it was started.
NOT_OF_A_NEW_ONE = "continue token that is too old"


def _placement(name: str, **spec: Any) -> Body:
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": name}
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": name},
        "spec": {"resourceSelectors": [selector], **spec},
    }


@pytest.fixture
def server(bed: Front) -> Front:
    """A hub as it stood when the story began."""
    server = bed
    for name in ("shop", "cell", "core", "bare"):
        server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, "setup")
    server.put(member("lon1", env="prod", region="uk"), "join")
    two = {"placementType": "PickN", "numberOfClusters": 2}
    one = {"placementType": "PickN", "numberOfClusters": 1}
    for body in (
        _placement("shop", policy=two, strategy={"type": "RollingUpdate"}),
        _placement("cell", policy={"placementType": "PickAll"}, strategy={"type": "External"}),
        _placement("bare", policy=one),
    ):
        _ask(server, "PATCH", _path(body), {"fieldManager": "nexusform"}, body)
    bare = _placement("bare")
    server.put({**bare, "spec": {"strategy": {"type": "RollingUpdate"}}}, "hubagent")
    core = _placement("core", policy=one)
    core["metadata"]["name"] = "bykubectl"
    core["spec"]["resourceSelectors"][0]["selectionScope"] = "NamespaceWithResources"
    server.put(core, "kubectl-client-side-apply")
    return server


def _path(body: Body) -> str:
    return f"/apis/placement.kubernetes-fleet.io/v1/clusterresourceplacements/{body['metadata']['name']}"


def _ask(
    server: Front, method: str, path: str, query: Body | None, body: Any, token: str = "admin-token", kind: str = APPLY
) -> tuple[int, Any]:
    words = urlencode({**(query or {}), "#type": "apply" if "apply" in kind else "merge"})
    return server.answer(method, f"{path}?{words}", token, json.dumps(body).encode() if body else b"")


def _brief(status: int, answer: Any) -> tuple[int, str, list[tuple[str, str]]]:
    """What is compared: the status, the reason and where the causes are."""
    if status < 400 or not isinstance(answer, dict):
        return status, "", []
    causes = (answer.get("details") or {}).get("causes") or ()
    told = [(str(c.get("reason")), str(c.get("field"))) for c in causes if c.get("field") != "<nil>"]
    return status, answer.get("reason") or "", sorted(told)


@pytest.mark.skipif(not CASES, reason="NEXUSFORM_HUB_CASES names no recordings of a running hub")
def test_each_answer_is_that_of_a_real_hub(server: Front) -> None:
    story = json.loads((Path(CASES) / "answers.json").read_text())
    note, wrong, asked = "", [], 0
    for event in story["events"]:
        note = event.get("note", note)
        request = event.get("request")
        if request is None or "watch" in (request.get("query") or {}):
            continue
        if isinstance(server, HubServer) and request["method"] in NOT_OURS:
            continue
        if not isinstance(server, HubServer) and note == NOT_OF_A_NEW_ONE:
            continue
        token = TOKENS.get(event["status"], "admin-token")
        kind = request.get("content_type") or APPLY
        parts = (request["method"], request["path"], request.get("query"), request.get("body"))
        status, answer = _ask(server, *parts, token, kind)
        expected, got = _brief(event["status"], event["answer"]), _brief(status, answer)
        asked += 1
        if expected != got:
            wrong.append((note, expected, got))
    assert wrong == []
    assert asked > 20


@pytest.mark.skipif(not CASES, reason="NEXUSFORM_HUB_CASES names no recordings of a running hub")
def test_each_webhook_denies_what_that_of_a_real_hub_denied() -> None:
    server = HubServer()
    hub_webhooks.turn_on(server)
    server.powerless = set()
    for name in ("work", "fleet-member-lon1"):
        server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, "setup")
    server.put(member("lon1", env="prod"), "join")
    story = json.loads((Path(CASES) / "webhooks.json").read_text())
    asked, wrong = 0, []
    for event in story["events"]:
        request = event.get("request")
        if request is None:
            continue
        parts = (request["method"], request["path"], request.get("query"), request.get("body"))
        status, answer = _ask(server, *parts, f"{event['user']}-token")
        expected = (*_brief(event["status"], event["answer"]), _denied(event["status"], event["answer"]))
        got = (*_brief(status, answer), _denied(status, answer))
        asked += 1
        if expected != got:
            wrong.append((event["note"], expected, got))
    server.close()
    assert wrong == []
    assert asked > 25


def _denied(status: int, answer: Any) -> str:
    """What a webhook says, word by word."""
    return str(answer.get("message")) if status == 403 else ""
