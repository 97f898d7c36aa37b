"""Tests of examples/brownfield: import of a site of 900 nodes with a history."""

from __future__ import annotations

import json
import re
import runpy
import shutil
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

EXAMPLE = Path(__file__).parents[2] / "examples" / "brownfield"


def test_script_writes_the_existing_export(tmp_path: Path) -> None:
    runpy.run_path(str(EXAMPLE / "generate.py"))["export"](tmp_path)
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert written == {path.name: path.read_bytes() for path in (EXAMPLE / "export").iterdir()}


@pytest.mark.of_domains("azure")
def test_entire_site_is_imported_and_one_pool_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXAMPLE / "export", "export")
    assert run_command_line(["import", "-from=export", "-generate-config-out=site.nf.hcl"]) == 0
    out = capsys.readouterr().out
    assert (
        "8 racks, 128 machines, 15 clusters; 898 VMs imported, 2 without a machine, 0 occupied"
    ) in " ".join(out.split())
    assert run_command_line(["plan", "-detailed-exitcode"]) == 0
    assert "No changes." in capsys.readouterr().out
    text = Path("site.nf.hcl").read_text()
    assert "count       = 88" in text
    Path("site.nf.hcl").write_text(text.replace("count       = 88", "count       = 89", 1))
    assert run_command_line(["plan", "-out=p", "-samples=0", "-report=markdown:c.md"]) == 0
    assert re.search(r"Inventory: +[0-9]+ days old\.", capsys.readouterr().out)
    assert re.search(r"\*\*inventory [0-9]+ days old\*\*", Path("c.md").read_text())
    assert run_command_line(["show", "-json", "p"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["placement_changes"]
    assert (row["object"], row["trigger"]) == ("ran-cu-a-cu-88", "scale_out")
