"""Tests of applies interrupted during their last writes.

All steps are done, and applying the plan again is no error.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

# Its argument is the moment at which the process ends.
APPLY = """
import os, sys
from nexusform.backends.local_file import LocalBackend
from nexusform.cli.main import run_command_line
from nexusform.interfaces.state_storage import BackendProblem

write_merged_state = LocalBackend.write_merged_state

def exit_at_write(backend, *values):
    if sys.argv[1] == "refused":
        raise BackendProblem("No room.")
    if sys.argv[1] == "after":
        write_merged_state(backend, *values)
    os._exit(9)

LocalBackend.write_merged_state = exit_at_write
run_command_line(["apply", "p"])
"""


def interrupt_apply(when: str) -> None:
    """Apply in a process ending at its last write of the state, or right after it."""
    result = subprocess.run([sys.executable, "-c", APPLY, when], capture_output=True, check=False)
    assert result.returncode == (0 if when == "refused" else 9)


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
    # This one is an error of the user.
    assert run_command_line(["apply", "p"]) == 1
    assert run_command_line(["plan", "-detailed-exitcode"]) == 0
