"""Tests of programs with limits."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from nexusform.files import limited_program
from nexusform.files.limited_program import run_program

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def test_output_and_exit_code_are_returned() -> None:
    script = "cat; echo warning >&2; exit 3"
    result = run_program(["sh", "-c", script], ENVIRONMENT, 20, b"question")
    assert (result.returncode, result.stdout, result.stderr) == (3, b"question", b"warning\n")
    assert run_program(["cat"], ENVIRONMENT, 20).stdout == b""


def test_endless_output_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_program, "_MAX_OUTPUT_BYTES", 1 << 20)
    for script in ("yes", "yes >&2"):
        with pytest.raises(OSError, match="it prints more than 1 MiB"):
            run_program(["sh", "-c", script], ENVIRONMENT, 60)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system has no /proc")
def test_silent_program_ends_with_its_children(tmp_path: Path) -> None:
    started_at = time.monotonic()
    script = f"sleep 60 & echo $! > {tmp_path}/child; wait"
    with pytest.raises(subprocess.TimeoutExpired):
        run_program(["sh", "-c", script], ENVIRONMENT, 1)
    assert time.monotonic() - started_at < 20
    status = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")
    # Ended, or not yet collected by its new parent.
    while status.exists() and status.read_text().split()[2] != "Z":
        assert time.monotonic() - started_at < 20
        time.sleep(0.05)


def test_program_that_keeps_the_output_open_is_not_awaited() -> None:
    started_at = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        run_program(["sh", "-c", "setsid sleep 30 & echo a"], ENVIRONMENT, 1)
    assert time.monotonic() - started_at < 20
