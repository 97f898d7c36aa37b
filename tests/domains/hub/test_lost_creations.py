"""Tests of a creation without an answer while another state makes the equal object."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Front
from tests.domains.hub.test_fleet_provider import write_configuration

SETTINGS = "/api/v1/namespaces/web/configmaps/settings"
WEB = "/api/v1/namespaces/web"


def apply_by_another_state(hub: Front, path: str, body: dict[str, Any]) -> None:
    """Apply an object with the field manager of this state."""
    query = urlencode({"fieldManager": "nexusform", "#type": "apply"})
    target = f"{path}?{query}"
    status, answer = hub.answer("PATCH", target, "admin-token", json.dumps(body).encode())
    assert status in (200, 201), answer


NAMESPACE_BODY = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}
SETTINGS_BODY = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings", "namespace": "web"},
    "data": {"a": "1"},
}


@pytest.mark.parametrize("is_sent", [False, True], ids=["lost", "sent"])
@pytest.mark.parametrize(
    ("path", "body"),
    [(SETTINGS, SETTINGS_BODY), (WEB, NAMESPACE_BODY)],
    ids=["configmap", "namespace"],
)
def test_creation_without_an_answer_finds_only_its_own_object(
    hub: Front, run_command: CommandRunner, path: str, body: dict[str, Any], *, is_sent: bool
) -> None:
    kind = body["kind"]
    name = body["metadata"]["name"]
    namespace = body["metadata"].get("namespace", "")
    write_configuration()
    assert run_command("plan", "-out=p.nfplan")[0] == 0

    def lose(method: str, target: str) -> None:
        if method == "PATCH" and target.partition("?")[0] == path:
            hub.faults = hub.carried_out = lambda *_: None
            if not is_sent:
                apply_by_another_state(hub, path, body)
            raise ConnectionAbortedError

    if is_sent:
        hub.carried_out = lose
    else:
        hub.faults = lose
    code, text = run_command("apply", "p.nfplan")
    existing = hub.get(kind, name, namespace)
    assert existing is not None
    if is_sent:
        assert code == 0, text
        managers = {entry["manager"] for entry in existing["metadata"].get("managedFields", ())}
        assert not [manager for manager in managers if "creation" in manager]
        assert run_command("plan", "-detailed-exitcode")[0] == 0
        return
    assert (code, "already exists on the hub" in text) == (1, True), text
    # A deletion of the own namespace takes all objects in it.
    if kind == "Namespace":
        assert run_command("destroy", "-auto-approve")[0] == 0
    assert hub.get(kind, name, namespace) == existing
