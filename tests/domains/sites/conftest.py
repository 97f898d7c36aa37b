"""Fixtures of a fleet of small sites and of golden files."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.sites.engines import local_workers
from tests import commands

GOLDEN = Path(__file__).parent / "golden"
SITE = """
variable "name" {
  type = string
}

variable "workers" {
  type    = number
  default = 2
}

variable "racks" {
  type    = number
  default = 2
}

resource "nexus_site" "this" {
  name = var.name
}

resource "nexus_rack" "rack" {
  count         = var.racks
  name          = "rack${count.index + 1}"
  site_id       = nexus_site.this.id
  machine_count = 1
}

resource "nexus_kubernetes_cluster" "edge" {
  name    = var.name
  site_id = nexus_site.this.id

  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "workers" {
    count       = var.workers
    vm_sku_name = "NC_P10_56_v1"
  }

  depends_on = [nexus_rack.rack]
}

output "cluster_id" {
  value = nexus_kubernetes_cluster.edge.id
}
"""
DEFINITION = """
defaults {
  source = "./site"

  backend "local" {
    path = "states/${site.name}.nfstate"
  }
}

site "lon1" {
  inputs = { name = "lon1" }
  labels = { region = "uk" }
  wave   = "canary"
}

sites {
  for_each = jsondecode(file("sites.json"))
  name     = each.key
  inputs   = merge({ name = each.key }, each.value)
}

strategy {
  wave "canary" {}
  wave "rest" {}
}
"""


@pytest.fixture(autouse=True)
def forked_workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork worker processes from one preloaded process.

    Tests with killed workers start new processes.
    """
    if request.path.name == "test_lost_workers.py":
        return

    def start_process(words: list[str], **streams: Any) -> subprocess.Popen[bytes]:
        assert words[1:3] == ["-P", "-m"]
        return subprocess.Popen(commands.build_module_command(words[3]), **streams)

    monkeypatch.setattr(
        local_workers, "subprocess", SimpleNamespace(Popen=start_process, PIPE=subprocess.PIPE)
    )


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that writes a fleet into an empty working directory.

    The fleet has lon1, and the sites of a JSON file.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1767225600")
    monkeypatch.setenv("NF_CACHE_DIR", str(tmp_path.parent / "cache"))

    def write_fleet(
        sites: Mapping[str, Any] | None = None, definition: str = DEFINITION, site: str = SITE
    ) -> None:
        Path("site").mkdir(exist_ok=True)
        Path("site", "main.nf.hcl").write_text(site)
        Path("sites.json").write_text(json.dumps(sites or {"par1": {}, "par2": {}}))
        Path("nexusform.sites.hcl").write_text(definition)

    return write_fleet


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs `nexusform sites ...` on one worker.

    It returns exit code, stdout and stderr.
    """

    def run_sites_command(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run_command_line(["sites", words[0], "-workers=1", *words[1:]])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_sites_command


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Return a function that compares a text with a reviewed file."""

    def compare_with_golden(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("NEXUSFORM_REWRITE_GOLDEN"):
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text

    return compare_with_golden
