"""Tests of `nexusform show` with several plans."""

import json
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

SITE = """
resource "nexus_site" "SITE" {}

resource "nexus_rack" "r" {
  site_id       = nexus_site.SITE.id
  name          = "r"
  machine_count = 1
}

resource "nexus_virtual_machine" "v" {
  site_id    = nexus_site.SITE.id
  name       = "v"
  cpu_cores  = 4
  memory_gib = 8
  disk_gib   = 10
}
"""


@pytest.fixture(autouse=True)
def plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Save a plan for each of two sites."""
    monkeypatch.chdir(tmp_path)
    for site in ("lab", "par"):
        Path(site).mkdir()
        Path(site, "main.nf.hcl").write_text(SITE.replace("SITE", site))
        monkeypatch.chdir(tmp_path / site)
        assert run_command_line(["plan", f"-out=../{site}.nfplan"]) == 0
        monkeypatch.chdir(tmp_path)
    capsys.readouterr()


def test_several_plans_are_one_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["show", "-report=markdown:both.md", "lab.nfplan", "par.nfplan"]) == 0
    text = capsys.readouterr().out
    assert "2 of 2 have changes; 2 VMs to place, nothing moves." in text
    assert max(map(len, text.splitlines())) <= 80
    markdown = Path("both.md").read_text()
    assert "| lab.nfplan | 3 | 0 | 0 | 1 | 0 | 0 | 0 |" in markdown
    assert "| par.nfplan | 3 | 0 | 0 | 1 | 0 | 0 | 0 |" in markdown


def test_several_plans_have_the_formats_of_every_answer(capsys: pytest.CaptureFixture[str]) -> None:
    plans = ["lab.nfplan", "par.nfplan"]
    assert run_command_line(["show", "-json", "-report=html:both.html", *plans]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["plan"] for row in document["plans"]] == plans
    assert document["plans"][0]["decision"]["impact"]["moved"] == 0
    assert "2 of 2 have changes; 2 VMs to place" in Path("both.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lab.nfplan", "nexus_site.lab"], '"nexus_site.lab" is not a saved plan'),
        (
            ["-report=svg:x.svg", "lab.nfplan", "par.nfplan"],
            "-report of several plans: text, markdown, json, html.",
        ),
    ],
)
def test_other_files_than_plans_are_rejected(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("main.nf.hcl").write_text('resource "nexus_site" "lab" {}\n')
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert run_command_line(["show", *arguments]) == 1
    assert words in capsys.readouterr().err
    assert not Path("x.svg").exists()
