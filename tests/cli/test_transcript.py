"""Test of the outputs of commands about states, workspaces, outputs and modules.

`transcript.txt` has command lines, each with its output. Other programs prepare files. With
NEXUSFORM_REWRITE_GOLDEN the outputs are written again.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

TRANSCRIPT = Path(__file__).with_name("transcript.txt")
PROMPT = "$ "
COMMAND = "nexusform "
CONFIGURATION = """
resource "nexus_site" "lab" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.lab.id
  name          = "r"
  machine_count = 2
}
output "rack" {
  value = { name = nexus_rack.r.name }
}
"""


def test_each_command_prints_the_reviewed_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reviewed = TRANSCRIPT.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setenv("NF_INPUT", "false")
    Path("main.nf.hcl").write_text(CONFIGURATION)
    printed = ""
    for line in reviewed.splitlines():
        words = line.removeprefix(PROMPT)
        if words == line:
            continue
        if words.startswith(COMMAND):
            code = run_command_line(shlex.split(words.removeprefix(COMMAND)))
            captured = capsys.readouterr()
            result = f"exit code {code}\n" if code else ""
            output = re.sub(r"after \d+s", "after 0s", captured.out + captured.err)
            output = re.sub(r"20\d\d-\d\d-\d\dT[\d:]{8}Z", "2026-01-31T12:00:00Z", output)
            printed += f"{line}\n{output}{result}\n"
        else:
            subprocess.run(words, shell=True, check=True)
            printed += f"{line}\n\n"
    if "NEXUSFORM_REWRITE_GOLDEN" in os.environ:
        TRANSCRIPT.write_text(printed, encoding="utf-8")
    assert printed == reviewed
