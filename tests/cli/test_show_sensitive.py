"""Tests of sensitive values in the JSON of plans and states.

They are hidden by default, and shown on request as in Terraform.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line

CONFIGURATION = """
variable "k" {
  default   = "s3cret"
  sensitive = true
}
output "s" {
  value     = var.k
  sensitive = true
}
output "n" {
  value     = sensitive(7)
  sensitive = true
}
output "o" {
  value     = { a = var.k, b = 1, l = [true, var.k] }
  sensitive = true
}
output "open" {
  value = "x"
}
"""
# Output of Terraform 1.11.4 for the same configuration, in the planned values of the plan and
# in the state.
OF_TERRAFORM: dict[str, Any] = {
    "n": {"sensitive": True, "type": "number", "value": 7},
    "o": {
        "sensitive": True,
        "type": ["object", {"a": "string", "b": "number", "l": ["tuple", ["bool", "string"]]}],
        "value": {"a": "s3cret", "b": 1, "l": [True, "s3cret"]},
    },
    "open": {"sensitive": False, "type": "string", "value": "x"},
    "s": {"sensitive": True, "type": "string", "value": "s3cret"},
}
HIDDEN: dict[str, Any] = {
    "n": {"sensitive": True, "type": "number", "value": None},
    "o": {"sensitive": True, "type": "dynamic", "value": {}},
    "open": {"sensitive": False, "type": "string", "value": "x"},
    "s": {"sensitive": True, "type": "string", "value": "(sensitive value)"},
}


@pytest.fixture(autouse=True)
def _apply_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(CONFIGURATION)
    assert run_command_line(["plan", "-out=p"]) == 0
    assert run_command_line(["apply", "p"]) == 0
    capsys.readouterr()


def read_json_output(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run_command_line([*arguments]) == 0
    parsed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return parsed


def test_sensitive_outputs_hide_value_and_type(capsys: pytest.CaptureFixture[str]) -> None:
    plan = read_json_output(capsys, "show", "-json", "p")
    assert plan["planned_values"]["outputs"] == HIDDEN
    assert read_json_output(capsys, "show", "-json")["values"]["outputs"] == HIDDEN
    assert "s3cret" not in json.dumps(plan["output_changes"]) + json.dumps(plan["variables"])


def test_show_sensitive_prints_values_like_terraform(capsys: pytest.CaptureFixture[str]) -> None:
    plan = read_json_output(capsys, "show", "-json", "-show-sensitive", "p")
    assert plan["planned_values"]["outputs"] == OF_TERRAFORM
    assert plan["variables"] == {"k": {"value": "s3cret"}}
    changes = plan["output_changes"]
    assert {name: change["after"] for name, change in changes.items()} == {
        name: output["value"] for name, output in OF_TERRAFORM.items()
    }
    assert (
        read_json_output(capsys, "show", "-json", "-show-sensitive")["values"]["outputs"]
        == OF_TERRAFORM
    )
    assert read_json_output(capsys, "output", "-json") == OF_TERRAFORM


def test_show_sensitive_can_be_set_in_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_CLI_ARGS_show", "-show-sensitive")
    assert read_json_output(capsys, "show", "-json")["values"]["outputs"] == OF_TERRAFORM
