"""Canary test: requests to Azure have no secret of the job and of other systems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.crowded_server import PlainRequestHandler
from tests.domains.azure.providers import arm_server
from tests.domains.azure.providers.azure_sites import NEW, CommandRunner, write_configuration
from tests.foreign_secrets import find_secrets, set_foreign_secrets

OWN = "own-password-7d21"


@pytest.fixture
def sign_in() -> None:
    """Request the token of the managed identity, as every command does."""


def test_azure_gets_no_foreign_secret(
    nexusform: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_foreign_secrets(monkeypatch)
    monkeypatch.setenv("IDENTITY_HEADER", "own-identity-header")
    requests: list[tuple[str, str]] = []
    parse = PlainRequestHandler.parse_request
    act = arm_server._Handler.act

    def parse_and_record(handler: PlainRequestHandler) -> bool:
        is_valid = parse(handler)
        if is_valid:
            requests.append((handler.path, f"{handler.requestline}\n{handler.headers}"))
        return is_valid

    def act_and_record(handler: Any, path: str, body: Any) -> Any:
        requests.append((path, json.dumps(body)))
        return act(handler, path, body)

    monkeypatch.setattr(PlainRequestHandler, "parse_request", parse_and_record)
    monkeypatch.setattr(arm_server._Handler, "act", act_and_record)
    write_configuration(NEW)
    with Path("more.nf.hcl").open("a") as file:
        file.write(f'variable "password" {{\n  sensitive = true\n  default = "{OWN}"\n}}\n')
    assert nexusform("apply", "-auto-approve") in (0, 2), nexusform.said
    sent = "\n".join(content for _, content in requests)
    assert "Authorization: Bearer token" in sent
    assert find_secrets(sent) == set()
    # A variable that no resource uses stays here.
    assert OWN not in sent
    # The sign-in of this machine reaches its own address alone.
    paths = {path.partition("?")[0] for path, text in requests if "own-identity-header" in text}
    assert paths == {"/msi/token"}
