"""Tests of the example fleet-dump, run as in its README and with errors."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

pytestmark = pytest.mark.of_domains("fleet")
EXAMPLE = Path(__file__).parents[2] / "examples" / "fleet-dump"
COMMAND = re.compile(r"\$ nexusform (.+?)(?: # exit code (\d))?\n(.*?)(?=\$ |\Z)", re.DOTALL)


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "e", ignore=shutil.ignore_patterns("state", ".nexusform"))
    monkeypatch.chdir(tmp_path / "e")


@pytest.mark.of_domains("whatif")
def test_commands_of_readme_print_its_output(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```console\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    commands = [found for block in blocks for found in COMMAND.findall(block)]
    assert len(commands) == 6
    for words, code, shown in commands:
        assert run_command_line(shlex.split(words)) == int(code or 0), words
        told = capsys.readouterr().out
        for part in re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE):
            assert part in told, words


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("plan", "-var", "dump=my-hub"), "my-hub"),
        pytest.param(
            ("simulate", "fleet", "-leave=par2"),
            'Did you mean "par1"?',
            marks=pytest.mark.of_domains("whatif"),
        ),
    ],
)
def test_errors_are_reported(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(list(arguments)) == 1
    assert says in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.of_domains("whatif")
@pytest.mark.parametrize(
    "words", [("fleet", "-leave=par1"), ("fleet", "-drain=par1"), ("rebalance", "-from=fra1")]
)
def test_bindings_that_the_state_lacks_do_not_seem_to_stay(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the first apply, only the dump has the bindings."""
    assert run_command_line(["simulate", *words]) == 1
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert 'fleet_cluster_resource_placement.all["probes"] on ' in said
    assert run_command_line(["simulate", "fleet", "-label=par1:env=test"]) == 0


def test_dump_without_bindings_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    dump = Path("hub/hub.json")
    dump.write_text(
        dump.read_text().replace('"kind": "ClusterResourceBinding"', '"kind": "Secret"')
    )
    assert run_command_line(["plan"]) == 1
    assert "clusterresourcebindings" in capsys.readouterr().err.lower()
