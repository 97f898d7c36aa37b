"""Tests of `plan -next`: every report says what a merge does, and when the plan expires."""

from __future__ import annotations

import html
import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from tests.planning.harness import RACKS, cluster

SMALL = RACKS + cluster("a", count=1)
EXPIRY = r"it expires \d{4}-\d\d-\d\d \d\d:\d\d UTC"


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command in the process: its exit code, stdout and stderr."""
    monkeypatch.setenv("NF_IN_AUTOMATION", "")

    def run(*words: str) -> tuple[int, str, str]:
        code = run_command_line(list(words))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def plan_with_reports(cli: Any, directory: Path, *words: str) -> tuple[int, list[str], Any]:
    """Plan, and return the exit code, the texts of terminal, comment and page, and the JSON."""
    names = {"markdown": "plan.md", "html": "plan.html", "json": "plan.json"}
    reports = [f"-report={kind}:{directory / name}" for kind, name in names.items()]
    code, out, _ = cli(f"-chdir={directory}", "plan", "-no-color", *reports, *words)
    comment = (directory / "plan.md").read_text(encoding="utf-8").replace("\\", "")
    page = re.sub(r"<script.*?</script>|<[^>]*>", "", (directory / "plan.html").read_text("utf-8"))
    texts = [" ".join(text.split()) for text in (out, comment, html.unescape(page))]
    return code, texts, json.loads((directory / "plan.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["-next=apply", "-max-age=12h"], 0, f"a merge applies this plan; {EXPIRY}"),
        (["-next=apply"], 0, "a merge applies this plan; it does not expire"),
        (["-next=wave:2", "-max-age=1d"], 0, f"a merge applies wave 2 of this plan; {EXPIRY}"),
        (["-next=none"], 0, "a merge applies nothing"),
        (["-next=apply", "-fail-on=capacity:99999"], 1, "a merge applies nothing: this plan"),
    ],
)
def test_every_report_says_what_a_merge_does(
    cli: Any, tmp_path: Path, words: list[str], code: int, sentence: str
) -> None:
    (tmp_path / "main.nf.hcl").write_text(SMALL)
    result, texts, document = plan_with_reports(cli, tmp_path, *words)
    assert result == code
    assert [bool(re.search(sentence, text)) for text in texts] == [True, True, True]
    assert document["decision"]["after_merge"] == words[0].removeprefix("-next=")


def test_plan_expires_after_its_maximum_age(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "main.nf.hcl").write_text(SMALL)
    _, texts, document = plan_with_reports(cli, tmp_path, "-next=apply", "-max-age=12h")
    made = datetime.fromisoformat(document["timestamp"])
    expiry = (made + timedelta(hours=12)).strftime("%Y-%m-%d %H:%M UTC")
    assert all(f"it expires {expiry}" in text for text in texts)


def test_nothing_is_said_without_the_flag(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "main.nf.hcl").write_text(SMALL)
    _, texts, document = plan_with_reports(cli, tmp_path, "-max-age=12h")
    assert not any("a merge" in text for text in texts)
    assert "after_merge" not in document["decision"]


def test_saved_plan_shows_the_step(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "main.nf.hcl").write_text(SMALL)
    cli(f"-chdir={tmp_path}", "plan", "-next=apply", f"-out={tmp_path / 'a.plan'}")
    _, out, _ = cli(f"-chdir={tmp_path}", "show", "-no-color", str(tmp_path / "a.plan"))
    assert "a merge applies this plan" in " ".join(out.split())


def test_failed_plan_applies_nothing(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "main.nf.hcl").write_text(f"{SMALL}\nmistake")
    code, texts, _ = plan_with_reports(cli, tmp_path, "-next=apply")
    assert code == 1
    assert "a merge applies nothing" in texts[1]


@pytest.mark.parametrize("step", ["merge", "wave:", "wave:a b", "apply:1"])
def test_other_steps_are_rejected(cli: Any, tmp_path: Path, step: str) -> None:
    (tmp_path / "main.nf.hcl").write_text(SMALL)
    code, _, err = cli(f"-chdir={tmp_path}", "plan", f"-next={step}")
    assert code != 0
    assert "Use apply, wave:N or none." in err
