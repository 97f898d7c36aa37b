"""Compare both hubs of the tests with the recorded answers of a real hub.

One is our own, the other a real API server.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.domains.hub import hub_webhooks
from tests.domains.hub.hub_controller import build_member
from tests.domains.hub.hub_front import Body, Front
from tests.domains.hub.hub_server import HubServer

CASES = os.environ.get("NEXUSFORM_HUB_CASES", "")
APPLY = "application/apply-patch+yaml"
TOKENS = {401: "nobody-token", 403: "bob-token"}
# The product creates objects by server-side apply and never replaces them, so our own server does
# not support these methods.
NOT_OURS = {"POST", "PUT"}
# A version too old at recording time never existed on a newly started API server.
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
def recorded_server(bed: Front) -> Front:
    """Return a hub in its state at the start of the story."""
    recorded_server = bed
    for name in ("shop", "cell", "core", "bare"):
        recorded_server.put(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, "setup"
        )
    recorded_server.put(build_member("lon1", env="prod", region="uk"), "join")
    two = {"placementType": "PickN", "numberOfClusters": 2}
    one = {"placementType": "PickN", "numberOfClusters": 1}
    for body in (
        _placement("shop", policy=two, strategy={"type": "RollingUpdate"}),
        _placement("cell", policy={"placementType": "PickAll"}, strategy={"type": "External"}),
        _placement("bare", policy=one),
    ):
        _send_request(recorded_server, "PATCH", _path(body), {"fieldManager": "nexusform"}, body)
    bare = _placement("bare")
    recorded_server.put({**bare, "spec": {"strategy": {"type": "RollingUpdate"}}}, "hubagent")
    core = _placement("core", policy=one)
    core["metadata"]["name"] = "bykubectl"
    core["spec"]["resourceSelectors"][0]["selectionScope"] = "NamespaceWithResources"
    recorded_server.put(core, "kubectl-client-side-apply")
    return recorded_server


def _path(body: Body) -> str:
    name = body["metadata"]["name"]
    return f"/apis/placement.kubernetes-fleet.io/v1/clusterresourceplacements/{name}"


def _send_request(
    recorded_server: Front,
    method: str,
    path: str,
    query: Body | None,
    body: Any,
    token: str = "admin-token",
    kind: str = APPLY,
) -> tuple[int, Any]:
    words = urlencode({**(query or {}), "#type": "apply" if "apply" in kind else "merge"})
    return recorded_server.answer(
        method, f"{path}?{words}", token, json.dumps(body).encode() if body else b""
    )


def _summarize_answer(status: int, answer: Any) -> tuple[int, str, list[tuple[str, str]]]:
    """Return the compared parts: the status, the reason and the fields of the causes."""
    if status < 400 or not isinstance(answer, dict):
        return status, "", []
    causes = (answer.get("details") or {}).get("causes") or ()
    told = [
        (str(c.get("reason")), str(c.get("field"))) for c in causes if c.get("field") != "<nil>"
    ]
    return status, answer.get("reason") or "", sorted(told)


@pytest.mark.skipif(not CASES, reason="NEXUSFORM_HUB_CASES names no recordings of a running hub")
def test_each_answer_equals_that_of_a_real_hub(recorded_server: Front) -> None:
    story = json.loads((Path(CASES) / "answers.json").read_text())
    note = ""
    wrong = []
    asked = 0
    for event in story["events"]:
        note = event.get("note", note)
        request = event.get("request")
        if request is None or "watch" in (request.get("query") or {}):
            continue
        if isinstance(recorded_server, HubServer) and request["method"] in NOT_OURS:
            continue
        if not isinstance(recorded_server, HubServer) and note == NOT_OF_A_NEW_ONE:
            continue
        token = TOKENS.get(event["status"], "admin-token")
        kind = request.get("content_type") or APPLY
        parts = (request["method"], request["path"], request.get("query"), request.get("body"))
        status, answer = _send_request(recorded_server, *parts, token, kind)
        expected = _summarize_answer(event["status"], event["answer"])
        got = _summarize_answer(status, answer)
        asked += 1
        if expected != got:
            wrong.append((note, expected, got))
    assert wrong == []
    assert asked > 20


@pytest.mark.skipif(not CASES, reason="NEXUSFORM_HUB_CASES names no recordings of a running hub")
def test_each_webhook_denies_as_on_a_real_hub() -> None:
    recorded_server = HubServer()
    hub_webhooks.enable_webhooks(recorded_server)
    recorded_server.powerless = set()
    for name in ("work", "fleet-member-lon1"):
        recorded_server.put(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, "setup"
        )
    recorded_server.put(build_member("lon1", env="prod"), "join")
    story = json.loads((Path(CASES) / "webhooks.json").read_text())
    asked = 0
    wrong = []
    for event in story["events"]:
        request = event.get("request")
        if request is None:
            continue
        parts = (request["method"], request["path"], request.get("query"), request.get("body"))
        status, answer = _send_request(recorded_server, *parts, f"{event['user']}-token")
        expected = (
            *_summarize_answer(event["status"], event["answer"]),
            _get_denial(event["status"], event["answer"]),
        )
        got = (*_summarize_answer(status, answer), _get_denial(status, answer))
        asked += 1
        if expected != got:
            wrong.append((event["note"], expected, got))
    recorded_server.close()
    assert wrong == []
    assert asked > 25


def _get_denial(status: int, answer: Any) -> str:
    """Return the message of a webhook, word by word."""
    return str(answer.get("message")) if status == 403 else ""
