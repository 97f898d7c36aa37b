from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from tests.workflow.module_packages.module_server import ModuleServer, start_module_server

CommandResult = tuple[int, str]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ModuleServer]:
    """Start a server without repositories."""
    (tmp_path / "repositories").mkdir()
    with start_module_server(tmp_path / "repositories") as running:
        yield running


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty project; git has no settings of the user."""
    directory = tmp_path / "project"
    directory.mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(directory)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("NF_IN_AUTOMATION", raising=False)
    return directory


@pytest.fixture
def nf(project: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., CommandResult]:
    """Run a command in the project; return its exit code, and its output in one line."""
    assert project.is_dir()

    def call(*arguments: str) -> CommandResult:
        code = run_command_line(arguments)
        captured = capsys.readouterr()
        text = f"{captured.out}\n{captured.err}".replace("│", " ")
        return code, " ".join(text.split())

    return call
