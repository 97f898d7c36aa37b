"""A question is a parser of edits and a list of sections: one file, and one line in a table."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.command_entry import CommandEntry
from nexusform.domains.whatif.cli import command_table
from tests.domains.whatif.toy_question import busy_machines
from tests.planning.harness import cluster
from tests.worlds.small_worlds import build_racks


def test_new_question_is_one_file_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(build_racks(2, 2) + cluster("a", count=3))
    assert run_command_line(["apply", "-auto-approve"]) == 0
    words = ["simulate", "busy-machines", "-without=r1-bm01"]
    assert run_command_line(words) == 1
    entry = CommandEntry("List the VMs per machine", load=lambda: busy_machines)
    monkeypatch.setitem(command_table.COMMANDS, "busy-machines", entry)  # the line
    capsys.readouterr()
    assert run_command_line(["simulate", "-help"]) == 0
    assert "busy-machines" in capsys.readouterr().out
    # Each format draws the same report, and JSON has its sections.
    for name in ("text", "markdown", "html", "json"):
        assert run_command_line([*words, f"-report={name}:{name}.out"]) == 0
    for name in ("text", "markdown", "html"):
        text = Path(f"{name}.out").read_text()
        assert re.search(r"Hypothetical plan: Busy machines of s\b", text)
        assert "machines run VMs." in text
    document = json.loads(Path("json.out").read_text())
    [section] = document["sections"]
    assert (document["question"], document["hypothetical"]) == ("busy-machines", True)
    assert section["name"] == "busy_machines"
    rows = section["tables"][0]["rows"]
    assert sum(row["vms"] for row in rows) == 3
    # The planner has answered: no VM stays on the lost machine.
    assert "r1-bm01" not in {row["machine"] for row in rows}
