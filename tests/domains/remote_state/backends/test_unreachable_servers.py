"""Tests of backends whose server cannot be reached: each names the cause in plain words."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.network.web_errors import find_free_port

SETTINGS = {
    "http": 'address = "{address}/state"',
    "azurerm": (
        'storage_account_name = "account"\ncontainer_name = "states"\nkey = "k"\n'
        'access_key = "a2V5"\nendpoint = "{address}"'
    ),
    "s3": (
        'bucket = "states"\nkey = "k"\nregion = "eu-west-1"\n'
        'access_key = "a"\nsecret_key = "b"\nendpoint = "{address}"'
    ),
}
PACKAGES = {"azurerm": "azure.storage.blob", "s3": "boto3"}


@pytest.mark.parametrize("name", SETTINGS)
def test_refused_connection_is_described(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name in PACKAGES:
        pytest.importorskip(PACKAGES[name])
    monkeypatch.chdir(tmp_path)
    # Retries do not wait.
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    address = f"http://127.0.0.1:{find_free_port()}"
    settings = SETTINGS[name].format(address=address)
    Path("main.nf.hcl").write_text(f'nexusform {{\nbackend "{name}" {{\n{settings}\n}}\n}}\n')
    assert run_command_line(["init"]) == 1
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert ": the connection was refused." in said, said
    assert "Max retries" not in said
