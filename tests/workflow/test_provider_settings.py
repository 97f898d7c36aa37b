"""Tests of invalid provider settings: all are reported together, each with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

pytestmark = pytest.mark.of_domains("azure", "hub")
WRONG = """\
provider "fleet" {
  field_manager = "a b"
  dry_run         = "maybe"
  timeout       = "soon"
}
provider "simulated" {
  fault {
    address   = "*"
    operation = "create"
    delay     = "a while"
  }
  fault {
    address   = "*"
    operation = "dance"
  }
}
provider "azure" {
  subscription_id = "ours"
}
"""


def test_every_invalid_setting_is_reported_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(WRONG)
    assert run_command_line(["plan"]) == 1
    said = capsys.readouterr().err
    told = [number for number in range(1, 25) if f"main.nf.hcl line {number}:" in said]
    assert told == [2, 3, 4, 10, 14, 18]
    assert '"timeout" must be a duration such as 30m, not "soon".' in " ".join(
        said.replace("│", "").split()
    )


@pytest.mark.parametrize("timeout", ["0s", "", "-1m", "30", "1d"])
def test_invalid_timeout_is_rejected(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    timeout: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(f'provider "fleet" {{ timeout = "{timeout}" }}\n')
    assert run_command_line(["plan"]) == 1
    assert "must be a duration such as 30m" in capsys.readouterr().err


def test_answers_of_all_faults_are_validated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fault = (
        '  fault {{\n    address   = "*"\n    operation = "read"\n    answer    = {{ "{}" = 1 }}\n'
        "  }}\n"
    )
    blocks = fault.format("a b") + fault.format("c d")
    Path("main.nf.hcl").write_text(f'provider "simulated" {{\n{blocks}}}\n')
    assert run_command_line(["plan"]) == 1
    said = capsys.readouterr().err
    assert 'answer "a b" is not an attribute path' in said
    assert 'answer "c d" is not an attribute path' in said
