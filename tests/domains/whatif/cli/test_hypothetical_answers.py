"""Tests of all questions of `simulate`: each answer says that it is hypothetical."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Final

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.whatif.cli.command_table import COMMANDS
from tests.domains.fleet.planning.test_feasibility import SITE
from tests.domains.fleet.workload_texts import build_deployment

# By question: words after it.
WORDS: Final = {
    "capacity": (),
    "failure": ("-rack=rack1",),
    "fleet": ("-leave=south",),
    "kubernetes-upgrade": ("west",),
    "placement": ("-f=orders.yaml",),
    "rebalance": (),
    "repack": ("-sku=NC_P10_56_v1",),
    "runtime-upgrade": (),
}
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def applied_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("lab")
    text = SITE.replace("MACHINES", "3").replace("CLUSTERS", '"west"')
    (directory / "main.nf.hcl").write_text(text)
    for name in ("payments", "orders"):
        (directory / f"{name}.yaml").write_text(build_deployment(name, 2, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        assert run_command_line(["apply", "-auto-approve"]) == 0
    return directory


@pytest.fixture
def lab(applied_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(applied_directory, tmp_path / "lab")
    monkeypatch.chdir(tmp_path / "lab")
    monkeypatch.setenv("NO_COLOR", "1")


def test_each_question_is_asked() -> None:
    assert set(WORDS) == set(COMMANDS)


@pytest.mark.parametrize("question", WORDS)
@pytest.mark.usefixtures("lab")
def test_every_format_begins_with_hypothetical_plan(question: str, capsys: Capture) -> None:
    reports = [f"-report={name}:answer.{name}" for name in ("json", "markdown", "html", "text")]
    capsys.readouterr()
    code = run_command_line(["simulate", question, *WORDS[question], *reports])
    printed = capsys.readouterr()
    assert code in (0, 2), printed
    assert printed.out.lstrip().startswith("Hypothetical plan: ")
    assert Path("answer.text").read_text().startswith("Hypothetical plan: ")
    assert Path("answer.markdown").read_text().startswith("### Hypothetical plan: ")
    assert re.search(r"<h1>Hypothetical plan: ", Path("answer.html").read_text())
    assert json.loads(Path("answer.json").read_text())["hypothetical"] is True


@pytest.mark.parametrize("flag", ["-out=saved.nfplan", "-sign=key"])
@pytest.mark.parametrize("question", [*WORDS, "explore"])
@pytest.mark.usefixtures("lab")
def test_answer_cannot_be_saved_or_signed_as_a_plan(
    question: str, flag: str, capsys: Capture
) -> None:
    before = sorted(Path().rglob("*"))
    words = ["explore"] if question == "explore" else ["simulate", question, *WORDS[question]]
    assert run_command_line([*words, flag]) == 1
    reason = "A hypothetical plan cannot be saved or signed."
    assert f"Unknown flag {flag.partition('=')[0]}. {reason}" in capsys.readouterr().err
    assert sorted(Path().rglob("*")) == before
