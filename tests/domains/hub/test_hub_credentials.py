"""Tests of hub credentials: kubeconfigs, renewed tokens, plug-ins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Front
from tests.domains.hub.test_fleet_provider import write_configuration


def test_renewed_credentials_are_read_again(
    hub: Front, run_command: CommandRunner, tmp_path: Path
) -> None:
    write_configuration()

    def renew_token(method: str, path: str) -> int | None:
        if method == "PATCH" and path.endswith("/settings") and "renewed-token" not in hub.tokens:
            hub.tokens = {"renewed-token"}
            hub.kubeconfig(tmp_path)
            kubeconfig = tmp_path / "kubeconfig.admin"
            kubeconfig.write_text(kubeconfig.read_text().replace("admin-token", "renewed-token"))
        return None

    run_command("plan")
    hub.faults = renew_token
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert hub.tokens == {"renewed-token"}
    assert "2 of 2 predictions correct" in said


PLUG_IN = """#!/bin/sh
printf %s "$KUBERNETES_EXEC_INFO" > {heard}
echo '{{"kind": "ExecCredential", "status": {{"token": "admin-token"}}}}'
"""


@pytest.mark.parametrize("version", ["v1beta1", "v1"])
def test_exec_plugin_of_any_version_gets_its_request(
    hub: Front, run_command: CommandRunner, tmp_path: Path, version: str
) -> None:
    heard = tmp_path / "heard"
    plug_in = tmp_path / "plug-in"
    plug_in.write_text(PLUG_IN.format(heard=heard))
    plug_in.chmod(0o755)
    kubeconfig = Path(hub.kubeconfig(tmp_path))
    document = json.loads(kubeconfig.read_text())
    api = f"client.authentication.k8s.io/{version}"
    document["users"][0]["user"] = {"exec": {"apiVersion": api, "command": str(plug_in)}}
    kubeconfig.write_text(json.dumps(document))
    write_configuration()
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    asked = json.loads(heard.read_text())
    assert asked == {"kind": "ExecCredential", "apiVersion": api, "spec": {"interactive": False}}


def test_expired_token_is_reported(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    hub.tokens.clear()
    code, said = run_command("plan")
    assert code == 1
    assert "rejected the credentials (401)" in said


def test_missing_kubeconfig_is_not_replaced_by_the_default(
    hub: Front, run_command: CommandRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(hub.kubeconfig(tmp_path).read_text())
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NF_FLEET_KUBECONFIG")
    write_configuration()
    assert run_command("plan")[0] == 0
    monkeypatch.setenv("KUBECONFIG", "gone:gone-too")
    code, said = run_command("plan")
    assert code == 1
    assert "No kubeconfig named by KUBECONFIG exists." in said
    assert 'data "fleet_hub" does not use the settings of provider "fleet"' in " ".join(
        said.split()
    )
    monkeypatch.setenv("KUBECONFIG", f"gone:{tmp_path}/.kube/config")
    assert run_command("plan")[0] == 0


def test_messages_of_hub_with_sensitive_settings_are_hidden(
    hub: Front, run_command: CommandRunner
) -> None:
    write_configuration()
    main = Path("main.nf.hcl")
    secret = 'variable "t" {\n  sensitive = true\n  default   = "30m"\n}\n'
    main.write_text(main.read_text().replace('"30m"', "var.t") + secret)
    code, said = run_command("plan")
    assert code == 0, said
    assert "Dry run: The message of the provider is hidden" in said
    hub.faults = lambda method, _path: 403 if method == "PATCH" else None
    code, said = run_command("plan")
    assert (code, "Hub rejection" in said) == (1, True), said
    assert "The message of the provider is hidden" in said
    hub.faults = lambda _method, _path: None
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert "2 of 2 predictions correct" in said
