"""Tests of prompts for required variables."""

from __future__ import annotations

import io
import os
import select
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

TEXT = """
variable "racks" {
  type        = number
  description = "Number of racks."
}
variable "token" {
  sensitive = true
}
variable "names" {
  type = list(string)
}
variable "set" {
  default = 1
}
output "all" {
  value     = [var.racks, var.names, length(var.token)]
  sensitive = true
}
"""
Run = Callable[..., tuple[int, str, str]]


class Terminal(io.StringIO):
    """Standard input that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function for a command with answers typed at a terminal.

    It returns code, stdout and stderr. Hidden answers come from the same input.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NF_INPUT", raising=False)
    (tmp_path / "main.nf.hcl").write_text(TEXT)

    def run_nexusform(answers: str, *arguments: str) -> tuple[int, str, str]:
        terminal = Terminal(answers)

        def read_hidden(prompt: str) -> str:
            print(f"{prompt}[hidden]")
            line = terminal.readline()
            if not line:
                raise EOFError
            return line.removesuffix("\n")

        monkeypatch.setattr("sys.stdin", terminal)
        monkeypatch.setattr("getpass.getpass", read_hidden)
        code = run_command_line(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_nexusform


def test_missing_variables_are_asked_for_by_name(run: Run) -> None:
    code, out, err = run('["a"]\n4\ns3cret\n', "plan", "-show-sensitive")
    assert code == 0
    # Stdout is for the plan if it is not the terminal.
    assert err.index("var.names (list of string)") < err.index("var.racks (number)")
    assert "var.racks (number)\n  Number of racks.\n\n  Enter a value: " in err
    # No description.
    assert "var.token (any type)\n  Enter a value: " in err
    assert out.count("[hidden]") == 1
    assert "var.set" not in err
    assert "Plan: 0 to add" in out
    assert "s3cret" not in out + err


def test_apply_asks_once_and_records_the_answer(run: Run) -> None:
    code, _, err = run('["a"]\n4\ns3cret\nyes\n', "apply")
    assert code == 0
    assert err.count("var.racks") == 1
    assert run("", "output", "-json", "all")[1].replace("\n", "").replace(" ", "") == '[4,["a"],6]'


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (("plan", "-input=false"), {}),
        (("plan",), {"NF_INPUT": "0"}),
        (("plan", "-json"), {}),
        (("apply", "-input=false", "-auto-approve"), {}),
        (("validate",), {}),
        (("test",), {}),
    ],
)
def test_nothing_is_asked_without_input(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    environment: dict[str, str],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    _, out, err = run('["a"]\n4\ns3cret\n', *arguments)
    assert "Enter a value" not in out + err


def test_no_terminal_means_the_usual_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Terminal, "isatty", lambda _self: False)
    code, _, err = run('["a"]\n4\ns3cret\n', "plan")
    assert code == 1
    assert err.count("No value for required variable") == 3


def test_end_of_input_and_invalid_answers_are_errors(run: Run) -> None:
    code, out, err = run('["a"]\n', "plan")
    assert code == 1
    assert err.count("Enter a value") == 2
    assert err.count("No value for required variable") == 2
    assert "[hidden]" not in out
    code, _, err = run('["a"]\nmany\ns3cret\n', "plan")
    assert code == 1
    assert "(from the prompt)" in err
    assert "a number is required" in err


def test_nothing_is_asked_for_a_broken_configuration(run: Run) -> None:
    Path("more.nf.hcl").write_text("resource {}\n")
    code, out, err = run('["a"]\n4\ns3cret\n', "plan")
    assert code == 1
    assert "Enter a value" not in out + err


def test_sensitive_answer_is_not_echoed_on_a_terminal(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    termios = pytest.importorskip("termios")
    (tmp_path / "main.nf.hcl").write_text(
        'variable "token" {\n  sensitive = true\n}\noutput "n" {\n'
        "  value = nonsensitive(length(var.token))\n}\n"
    )
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "nexusform", "plan"])
    shown = b""
    is_answered = False
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            part = os.read(terminal, 4096)
        except OSError:
            # The program ended.
            break
        if not part:
            break
        shown += part
        if b"Enter a value" in shown and not is_answered:
            # A line typed before is echoed, and dropped.
            while termios.tcgetattr(terminal)[3] & termios.ECHO and time.monotonic() < deadline:
                time.sleep(0.05)
            is_answered = True
            os.write(terminal, b"s3cret\n")
    os.close(terminal)
    os.waitpid(process, 0)
    assert is_answered
    assert b"n = 6" in shown
    assert b"s3cret" not in shown
