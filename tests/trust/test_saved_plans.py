"""A plan that was changed after it was saved, its digests with it, is refused before anything is done."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run
from nexusform.planning.saved import plan_file
from nexusform.planning.saved.plan_file import digest

CONFIGURATION = """
resource "nexus_site" "lab" {}
resource "nexus_rack" "r" {
  count         = 2
  site_id       = nexus_site.lab.id
  name          = "r${count.index}"
  machine_count = 2
}
"""


def forge(path: Path, member: str, change: Callable[[Any], None]) -> None:
    """Change one part of a plan file, and the digest that the file has of it."""
    members = plan_file.unpack(path.read_bytes())
    assert members is not None
    content = json.loads(members[member])
    change(content)
    members[member] = json.dumps(content).encode()
    manifest = json.loads(members["nexusform.json"])
    manifest["members"][member] = digest(members[member])
    path.write_bytes(plan_file.pack({**members, "nexusform.json": json.dumps(manifest).encode()}))


def more_machines(steps: Any) -> None:
    rack = next(step for step in steps if (step.get("planned") or {}).get("name") == "r1")
    rack["planned"]["machine_count"] = 200


def a_change_that_is_not_there(steps: Any) -> None:
    steps[1]["change"] = 77


def no_change(steps: Any) -> None:
    steps[1]["change"] = -1


def a_circle(steps: Any) -> None:
    steps[0]["waits_for"] = [steps[-1]["id"]]
    steps[-1]["waits_for"] = [steps[0]["id"]]


def a_step_less(steps: Any) -> None:
    del steps[-1]


@pytest.mark.parametrize(
    "change", [more_machines, a_change_that_is_not_there, no_change, a_circle, a_step_less]
)
def test_a_forged_plan_is_refused_and_nothing_is_written(
    change: Callable[[Any], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(CONFIGURATION)
    assert run(["plan", "-out=p.nfplan"]) == 0
    forge(Path("p.nfplan"), "steps.json", change)
    capsys.readouterr()
    assert run(["apply", "p.nfplan"]) == 1
    told = capsys.readouterr().err
    assert told.count("Error:") == 1
    assert "Saved plan does not mean what it shows" in told
    assert not Path("state/nexusform.nfstate").exists()


def test_a_plan_as_it_was_saved_is_applied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(CONFIGURATION)
    assert run(["plan", "-out=p.nfplan"]) == 0
    forge(Path("p.nfplan"), "steps.json", lambda _steps: None)
    assert run(["apply", "p.nfplan"]) == 0
