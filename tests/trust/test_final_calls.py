"""Tests of applies interrupted during their last writes: all steps are done, and applying the plan again is no
error."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nexusform.backends.local_file import LocalBackend
from nexusform.cli.main import run_command_line
from nexusform.interfaces.state_storage import BackendProblem


def interrupt_apply(when: str) -> None:
    """Apply in a process ending at its last write of the state, or right after it."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    compact = LocalBackend.write_merged_state

    def exit_at_write(self: LocalBackend, *words: Any) -> None:
        if when == "refused":
            raise BackendProblem("No room.")
        if when == "after":
            compact(self, *words)
        os._exit(9)

    LocalBackend.write_merged_state = exit_at_write  # type: ignore[method-assign]
    run_command_line(["apply", "p"])
    os._exit(0)


@pytest.mark.parametrize("when", ["before", "after", "refused"])
def test_completed_plan_can_be_applied_again(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text('resource "nexus_site" "lab" {\n  name = "lab"\n}\n')
    assert run_command_line(["plan", "-out=p"]) == 0
    interrupt_apply(when)
    capfd.readouterr()
    assert run_command_line(["apply", "p"]) == 0
    assert "when its apply was interrupted" in capfd.readouterr().out
    assert run_command_line(["apply", "p"]) == 1  # this one is an error of the user
    assert run_command_line(["plan", "-detailed-exitcode"]) == 0
