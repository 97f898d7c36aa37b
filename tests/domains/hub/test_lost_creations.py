"""Tests of a creation without an answer while another state makes the equal object."""

from __future__ import annotations

import json
from pathlib import Path
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


THREE_OBJECTS = """
provider "fleet" {}
data "fleet_hub" "hub" {}
resource "fleet_hub_manifest" "web" {
  provider  = fleet
  yaml_body = <<-Y
    apiVersion: v1
    kind: Namespace
    metadata: {name: web}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: settings, namespace: web}
    data: {a: "1"}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: last, namespace: web}
    data: {a: "1"}
  Y
}
"""


@pytest.mark.parametrize(
    "remade",
    [(), ("ConfigMap",), ("Namespace", "ConfigMap")],
    ids=["none", "configmap", "namespace"],
)
@pytest.mark.parametrize("command", [("apply", "-resume"), ("apply", "-discard", "-auto-approve")])
def test_interrupted_creation_knows_each_of_its_objects(
    hub: Front, run_command: CommandRunner, remade: tuple[str, ...], command: tuple[str, ...]
) -> None:
    """Another state makes earlier objects of the block again, alike, during the interruption."""
    Path("main.nf.hcl").write_text(THREE_OBJECTS)

    def reject_last(method: str, path: str) -> int | None:
        is_last = path.endswith("/configmaps/last") and hub.get("Namespace", "web") is not None
        return 403 if method == "PATCH" and is_last else None

    hub.faults = reject_last
    code, text = run_command("apply", "-auto-approve")
    assert (code, "ConfigMap web/last" in text) == (1, True), text
    hub.faults = lambda *_: None
    made = {"Namespace": hub.get("Namespace", "web"), "ConfigMap": get_settings(hub)}
    for kind in reversed(remade):
        hub.remove(made[kind] or {})
    if "Namespace" in remade:
        hub.put(NAMESPACE_BODY, "nexusform")
    if "ConfigMap" in remade:
        apply_by_another_state(hub, SETTINGS, SETTINGS_BODY)
    existing = (hub.get("Namespace", "web"), get_settings(hub))
    code, text = run_command(*command)
    if "-discard" in command:
        assert code == 0, text
        recorded = run_command("show")[1]
        assert ("settings" in recorded, "Namespace" in recorded) == (
            not remade,
            "Namespace" not in remade,
        ), recorded
    elif remade:
        title = "Namespace web" if "Namespace" in remade else "ConfigMap web/settings"
        assert (code, f"{title} already exists on the hub" in text) == (1, True), text
    else:
        assert code == 0, text
    # Objects of another state are neither written nor recorded.
    if "Namespace" in remade:
        assert run_command("destroy", "-auto-approve")[0] == 0
    assert (hub.get("Namespace", "web"), get_settings(hub)) == existing


def get_settings(hub: Front) -> Any:
    return hub.get("ConfigMap", "settings", "web")
