"""Tests of the example of many sites, following its README and docs/many-sites.md."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from nexusform.cli.main import run_command_line
from nexusform.domains.sites.rendering import fleet_summary
from nexusform.domains.sites.rendering.fleet_summary import MAX_BYTES, build_fleet_markdown
from nexusform.domains.sites.types.fleet_plan import FILE_NAME, FleetPlan, PlannedSite, Wave
from nexusform.domains.sites.types.site_tasks import SiteResult, SiteStatus
from nexusform.domains.sites.workflow.definition_file import read_definition
from nexusform.files.regular_files import UNCONFINED

ROOT = Path(__file__).parents[3]
Command = Callable[..., tuple[int, str, str]]


def test_example_runs_as_in_its_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    shutil.copytree(ROOT / "examples" / "three-sites", tmp_path / "e")
    monkeypatch.chdir(tmp_path / "e")
    readme = Path("README.md").read_text()
    commands = [
        line.split()[3:] for line in re.findall(r"^\$ nexusform sites .*$", readme, re.MULTILINE)
    ]
    assert [words[0] for words in commands] == ["plan", "apply", "apply", "status"]
    code, out, _ = command(*commands[0])
    assert (code, out.splitlines()[1]) == (0, "12 sites change.")
    for words in commands[1:]:
        assert command(*words)[0] == 0
    sites = json.loads(Path("sites.json").read_text())
    sites["mar1"]["workers"] = 5
    Path("sites.json").write_text(json.dumps(sites))
    code, out, _ = command("plan")
    assert (code, out.splitlines()[1]) == (
        0,
        "1 of 12 sites changes; 2 VMs are removed on 1 site; 11 unchanged.",
    )


def test_file_shown_in_docs_is_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "many-sites.md").read_text()
    # The second one is the backend of one site.
    text, _ = re.findall(r"```hcl\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path(FILE_NAME).write_text(text)
    Path("sites.json").write_text('{"par1": {"racks": 2}}')
    definition, problems, _ = read_definition(".", UNCONFINED, "2026-01-01T00:00:00Z")
    assert problems == []
    assert definition is not None
    assert [site.name for site in definition.sites] == ["lon1", "par1"]


def test_comment_fits_summary_of_thousands_of_sites() -> None:
    answer = SiteResult("", SiteStatus.PLANNED, rows=("+ nexus_site.this: SITE",))
    sites = [
        PlannedSite(
            "all",
            replace(answer, site=f"s{n}", rows=(*answer.rows, f"row {n} of its own " + "x" * 60)),
        )
        for n in range(3000)
    ]
    plan = FleetPlan(tuple(sites), (Wave("all"),), "", "")
    text = build_fleet_markdown(plan)
    assert len(text.encode()) <= MAX_BYTES
    assert "more such rows: -report=html:FILE and -json show all." in text
    assert text.rstrip().splitlines()[-1].startswith("- all: 3,000 sites, 3,000 change")


def test_comment_is_cut_by_bytes_at_a_character(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = FleetPlan((), (Wave("Köln-Süd"),), "", "")
    for limit in range(1, len(build_fleet_markdown(plan).encode())):
        monkeypatch.setattr(fleet_summary, "MAX_BYTES", limit)
        assert len(build_fleet_markdown(plan).encode()) <= limit


def test_plan_in_directory_of_sites_suggests_sites_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(FILE_NAME).write_text("")
    assert run_command_line(["plan"]) == 1
    assert "Run `nexusform sites plan` to plan them" in " ".join(
        capsys.readouterr().err.replace("│", "").split()
    )
