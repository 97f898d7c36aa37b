import io
import os
import socket
from pathlib import Path

import pytest

from nexusform.backends.local_file import LocalBackend
from nexusform.cli.main import run_command_line
from nexusform.interfaces.state_storage import LockInfo


@pytest.fixture
def backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalBackend:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NF_INPUT", raising=False)
    backend = LocalBackend("state/nexusform.nfstate")
    backend.lock(LockInfo("id-1", "apply", "them", "0", "now", "p", socket.gethostname(), os.getpid()))
    return backend


def set_answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def test_force_unlock_asks_for_confirmation(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_answer(monkeypatch, "no\n")
    assert run_command_line(["force-unlock", "id-1"]) == 1
    shown = capsys.readouterr().out
    assert "Do you really want to force-unlock?" in shown
    assert "force-unlock cancelled." in shown
    assert backend.read_lock() is not None
    set_answer(monkeypatch, "yes\n")
    assert run_command_line(["force-unlock", "id-1"]) == 0
    assert "successfully unlocked" in capsys.readouterr().out
    assert backend.read_lock() is None


def test_force_unlock_requires_force_without_input(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NF_INPUT", "0")
    assert run_command_line(["force-unlock", "id-1"]) == 1
    assert "-force" in capsys.readouterr().err
    assert run_command_line(["force-unlock", "-force", "id-1"]) == 0
    assert backend.read_lock() is None


def test_force_unlock_with_other_id_keeps_the_lock(backend: LocalBackend, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["force-unlock", "-force", "id-2"]) == 1
    assert "id-1" in capsys.readouterr().err
    assert backend.read_lock() is not None


def test_force_unlock_without_lock_asks_no_confirmation(
    backend: LocalBackend, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    backend.unlock("id-1")
    set_answer(monkeypatch, "yes\n")
    assert run_command_line(["force-unlock", "id-1"]) == 1
    both = capsys.readouterr()
    assert "The state is not locked" in both.err
    assert "Do you really" not in both.out
