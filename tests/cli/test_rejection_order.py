"""Test of the order of messages.

Error boxes precede the entries of a rejected plan, also if stdout and stderr are the same.
"""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

SITE = """\
resource "nexus_site" "lab" {}

resource "nexus_rack" "rack" {
  site_id       = nexus_site.lab.id
  name          = "rack1"
  machine_count = 2
}

variable "spare_racks" {
  default = 0
}

check "habit" {
  assert {
    condition     = var.spare_racks > 0
    error_message = "Keep a rack free."
  }
}

resource "nexus_kubernetes_cluster" "large" {
  site_id = nexus_site.lab.id
  control_plane {
    count       = 30
    vm_sku_name = "NC_G12_56_v1"
  }
}
"""


def test_error_boxes_precede_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(SITE)
    screen = io.StringIO()
    with redirect_stdout(screen), redirect_stderr(screen):
        assert run_command_line(["plan", "-no-color", "-samples=0"]) == 1
    text = screen.getvalue()
    places = [
        text.index(words)
        for words in ("Planning failed.", "Error: ", "\n! check-block-assertion-failed")
    ]
    assert places == sorted(places)
    assert text.count("Error: ") == 1
