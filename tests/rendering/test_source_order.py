"""Tests of the order of differences in an object: it is the order of the configuration."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

pytestmark = pytest.mark.of_domains("fleet")
WRITTEN = """
resource "nexus_vm_sku" "k" {
  vcpus      = 4
  name       = "z"
  memory_gib = 16
  disk_gib   = 20
}
resource "fleet_member_cluster" "m" {
  name = "m"
  taint {
    value  = "v1"
    key    = "k"
    effect = "NoSchedule"
  }
  labels = merge({ zone = "a", env = "prod", "app" = "web" }, { (upper("b")) = "1" })
}
"""
CHANGED = (
    WRITTEN.replace("16", "32").replace("20", "25").replace('"a"', '"b"').replace('"web"', '"www"')
)


@pytest.fixture
def applied_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    monkeypatch.chdir(tmp_path)
    main = Path("main.nf.hcl")
    main.write_text(WRITTEN)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    main.write_text(CHANGED)
    capsys.readouterr()
    return main


SAID = ["memory_gib 16 -> 32, disk_gib 20 -> 25", 'labels zone "a" -> "b", app "web" -> "www"']


def test_new_and_saved_plan_use_source_order(
    applied_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["plan", "-out=p"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert [words for words in SAID if words not in said] == [], said
    applied_directory.write_text("")
    assert run_command_line(["show", "p"]) == 0
    later = " ".join(capsys.readouterr().out.split())
    assert [words for words in SAID if words not in later] == [], later


def test_comment_uses_source_order(applied_directory: Path) -> None:
    applied_directory.write_text(CHANGED.replace('"1"', '"2"'))
    assert run_command_line(["plan", "-report=markdown:r.md"]) == 0
    comment = Path("r.md").read_text().replace("\\", "")
    assert all(said in comment for said in SAID), comment


@pytest.mark.usefixtures("applied_directory")
def test_details_keep_the_order_of_terraform(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["plan", "-details", "-no-color"]) == 0
    names = re.findall(r"^ +~ (\S+) += \d", capsys.readouterr().out, re.MULTILINE)
    assert names == ["disk_gib", "memory_gib"]


def test_json_uses_source_order(
    applied_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = {
        "resource": {
            "nexus_vm_sku": {"k": {"name": "z", "memory_gib": 32, "vcpus": 5, "disk_gib": 25}},
            "fleet_member_cluster": {
                "m": {
                    "labels": {"zone": "b", "env": "test", "app": "web", "B": "1"},
                    "taint": {"key": "k", "value": "v1", "effect": "NoSchedule"},
                    "name": "m",
                }
            },
        }
    }
    applied_directory.unlink()
    Path("main.nf.json").write_text(json.dumps(changed))
    assert run_command_line(["plan"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "memory_gib 16 -> 32, vcpus 4 -> 5, disk_gib 20 -> 25" in said
    assert 'labels zone "a" -> "b", env "prod" -> "test"' in said


def test_reordered_arguments_are_no_change(
    applied_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["plan", "-out=p"]) == 0
    lines = applied_directory.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if "memory_gib" in line)
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    applied_directory.write_text("\n".join(lines))
    assert run_command_line(["plan", "-out=q"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert SAID[0] in said
    assert "disk_gib 20 -> 25, memory_gib 16 -> 32" in said
