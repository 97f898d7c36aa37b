"""Canary test: a hub and the program of its sign-in get no foreign secret."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crowded_server import PlainRequestHandler
from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Front
from tests.domains.hub.test_fleet_provider import write_configuration
from tests.foreign_secrets import CLOUD_VARIABLES, VARIABLES, find_secrets, set_foreign_secrets

pytestmark = pytest.mark.our_hub_alone("the requests of our own server are recorded")

OWN = "own-secret-7d21"
SECRET = f"""
resource "fleet_hub_manifest" "secret" {{
  provider  = fleet
  yaml_body = <<-Y
    apiVersion: v1
    kind: Secret
    metadata: {{name: key, namespace: web}}
    stringData: {{password: {OWN}}}
  Y
  depends_on = [fleet_hub_manifest.web]
}}
"""
PROGRAM = """#!/bin/sh
env > {environment}
echo '{{"kind": "ExecCredential", "status": {{"token": "admin-token"}}}}'
"""


def record_requests(hub: Front, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return the list of later requests: the target, and the request with headers and body."""
    requests: list[tuple[str, str]] = []
    parse = PlainRequestHandler.parse_request
    answer: Callable[..., Any] = hub.answer

    def parse_and_record(handler: PlainRequestHandler) -> bool:
        is_valid = parse(handler)
        if is_valid:
            requests.append((handler.path, f"{handler.requestline}\n{handler.headers}"))
        return is_valid

    def answer_and_record(method: str, target: str, token: str, content: bytes) -> Any:
        requests.append((target, content.decode()))
        return answer(method, target, token, content)

    monkeypatch.setattr(PlainRequestHandler, "parse_request", parse_and_record)
    monkeypatch.setattr(hub, "answer", answer_and_record)
    return requests


def test_hub_and_sign_in_program_get_no_foreign_secret(
    hub: Front, run_command: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = tmp_path / "environment"
    program = tmp_path / "program"
    program.write_text(PROGRAM.format(environment=environment))
    program.chmod(0o755)
    kubeconfig = Path(hub.kubeconfig(tmp_path))
    document = json.loads(kubeconfig.read_text())
    api = "client.authentication.k8s.io/v1"
    document["users"][0]["user"] = {"exec": {"apiVersion": api, "command": str(program)}}
    kubeconfig.write_text(json.dumps(document))
    set_foreign_secrets(monkeypatch)
    requests = record_requests(hub, monkeypatch)
    write_configuration()
    with Path("main.nf.hcl").open("a") as file:
        file.write(SECRET)
    code, text = run_command("apply", "-auto-approve")
    assert code == 0, text
    code, text = run_command("destroy", "-auto-approve")
    assert code == 0, text
    sent = "\n".join(content for _, content in requests)
    assert find_secrets(sent) == set()
    assert "Authorization: Bearer admin-token" in sent
    # The own Secret reaches its object alone.
    targets = {target.partition("?")[0] for target, content in requests if OWN in content}
    assert targets == {"/api/v1/namespaces/web/secrets/key"}
    program_environment = environment.read_text()
    assert find_secrets(program_environment) == set(CLOUD_VARIABLES)
    assert find_secrets(program_environment).isdisjoint(VARIABLES)
