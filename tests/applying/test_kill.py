"""Tests of applies killed at random moments, as separate processes.

NEXUSFORM_KILL_OBJECTS and NEXUSFORM_KILL_ROUNDS increase their size.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.commands import nexusform

OBJECTS = int(os.environ.get("NEXUSFORM_KILL_OBJECTS", "60"))
ROUNDS = int(os.environ.get("NEXUSFORM_KILL_ROUNDS", "1"))

CONFIGURATION = """
provider "simulated" {
  reality = "site.json"
  fault {
    address   = "nexus_rack.*"
    operation = "create"
    delay     = "%dms"
    times     = 0
  }
}
resource "nexus_site" "lab" {}
resource "nexus_rack" "r" {
  count         = %d
  site_id       = nexus_site.lab.id
  name          = "r${count.index}"
  machine_count = 2
}
"""


def start_command(
    directory: Path, *arguments: str, program: Sequence[str] = (sys.executable, "-m", "nexusform")
) -> subprocess.Popen[bytes]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NF_")}
    # Under nohup the test run ignores SIGHUP, and child processes would inherit this.
    heard = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        return subprocess.Popen(
            [*program, *arguments],
            cwd=directory,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    finally:
        signal.signal(signal.SIGHUP, heard)


def run_to_end(directory: Path, *arguments: str) -> tuple[int, str]:
    process = start_command(directory, *arguments, program=nexusform())
    told, _ = process.communicate(timeout=120)
    return process.returncode, told.decode()


def write_project(directory: Path, objects: int = OBJECTS, delay: int = 15) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "main.nf.hcl").write_text(CONFIGURATION % (delay, objects))
    return directory


def list_state_objects(directory: Path) -> set[tuple[str, str, int]]:
    state: dict[str, Any] = json.loads((directory / "state" / "nexusform.nfstate").read_text())
    return {
        (resource["type"], instance["attributes"]["id"], instance["creation"])
        for resource in state["resources"]
        for instance in resource["instances"]
    }


def list_real_objects(directory: Path) -> list[tuple[str, str, int]]:
    rows = json.loads((directory / "site.json").read_text())
    return [(row["type"], row["id"], row["creation"]) for row in rows]


def test_killed_apply_loses_and_repeats_nothing(tmp_path: Path) -> None:
    for number in range(ROUNDS):
        chance = random.Random(number)
        directory = write_project(tmp_path / str(number))
        for _ in range(4):
            process = start_command(
                directory, "apply", "-auto-approve", "-parallelism=3", program=nexusform()
            )
            assert process.stdout is not None
            for _ in range(chance.randint(3, OBJECTS)):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            # Until the command has ended, too: it holds the other end of the pipe.
            process.communicate()
        code, told = run_to_end(directory, "apply", "-auto-approve")
        assert code == 0, told
        reality = list_real_objects(directory)
        names = [(kind, name) for kind, name, _ in reality]
        assert len(names) == len(set(names)) == OBJECTS + 1
        assert list_state_objects(directory) == set(reality)
        code, told = run_to_end(directory, "plan", "-detailed-exitcode")
        assert code == 0, told
        assert not list((directory / "state").glob("*.journal"))


def test_second_parallel_apply_waits_or_is_rejected(tmp_path: Path) -> None:
    directory = write_project(tmp_path, 10, delay=300)
    first = start_command(directory, "apply", "-auto-approve", "-parallelism=1")
    assert first.stdout is not None
    while b"Creating" not in first.stdout.readline():
        continue
    # It holds the lock for the rest of this step of the test.
    first.send_signal(signal.SIGSTOP)
    code, told = run_to_end(directory, "apply", "-auto-approve")
    assert code == 1
    assert "State lock error" in told
    assert f"Pid:       {first.pid}" in told
    second = start_command(directory, "apply", "-auto-approve", "-lock-timeout=600s")
    assert second.stdout is not None
    while b"Acquiring state lock. This may take a few moments..." not in second.stdout.readline():
        assert second.poll() is None
    first.send_signal(signal.SIGCONT)
    told = second.communicate(timeout=120)[0].decode()
    assert second.returncode == 0, told
    assert "0 added, 0 changed, 0 destroyed" in told
    first.communicate(timeout=60)
    assert first.returncode == 0
    assert len(list_real_objects(directory)) == 11


def test_interrupt_lets_running_steps_end(tmp_path: Path) -> None:
    directory = write_project(tmp_path, 30)
    process = start_command(directory, "apply", "-auto-approve", "-parallelism=2")
    assert process.stdout is not None
    while b"r[1]: Creation complete" not in process.stdout.readline():
        continue
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 1
    assert "Interrupt received" in told
    assert "skipped" in told
    reality = list_real_objects(directory)
    assert 2 < len(reality) < 31
    assert list_state_objects(directory) == set(reality)
    assert not list((directory / "state").glob("*.lock.info"))
    # The remaining steps are kept, and applied on request.
    code, told = run_to_end(directory, "apply", "-resume")
    assert code == 0, told
    assert f"{31 - len(reality)} added" in told
    assert len(list_real_objects(directory)) == 31
    assert not list((directory / "state").glob("*.journal"))


def test_second_interrupt_ends_apply_and_next_plan_reports_it(tmp_path: Path) -> None:
    directory = write_project(tmp_path, 2, delay=60_000)
    process = start_command(directory, "apply", "-auto-approve")
    assert process.stdout is not None
    while b"r[1]: Creating" not in process.stdout.readline():
        continue
    process.send_signal(signal.SIGINT)
    while b"Interrupt received" not in process.stdout.readline():
        continue
    process.send_signal(signal.SIGINT)
    told = process.communicate(timeout=120)[0].decode()
    assert process.returncode == 1
    assert "Two interrupts received" in told
    code, told = run_to_end(directory, "plan")
    assert code == 0
    assert "Apply interrupted" in told
    assert "nexus_rack.r[0]" in told
    assert "Plan: 2 to add" in told


def test_terminal_shows_progress_bar_and_every_line(tmp_path: Path) -> None:
    directory = write_project(tmp_path, 2, delay=1)
    ours, theirs = os.openpty()
    environment = {**os.environ, "TERM": "xterm"}
    environment.pop("NF_IN_AUTOMATION", None)
    with subprocess.Popen(
        [sys.executable, "-m", "nexusform", "apply", "-auto-approve"],
        cwd=directory,
        env=environment,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        told = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                # The process has closed its end.
                break
            if not part:
                break
            told += part
        assert process.wait(timeout=30) == 0
    os.close(ours)
    assert b"Applying" in told
    assert b"3/3" in told
    assert told.count(b"Creation complete") == 3


def test_closed_output_lets_running_steps_end(tmp_path: Path) -> None:
    directory = write_project(tmp_path, 30)
    process = start_command(directory, "apply", "-auto-approve", "-parallelism=1")
    assert process.stdout is not None
    while b"r[1]: Creation complete" not in process.stdout.readline():
        continue
    process.stdout.close()
    assert process.wait(timeout=60) != 0
    reality = list_real_objects(directory)
    assert 2 < len(reality) < 31
    assert list_state_objects(directory) == set(reality)


def test_hangup_of_terminal_lets_running_steps_end(tmp_path: Path) -> None:
    directory = write_project(tmp_path, 30)
    process = start_command(directory, "apply", "-auto-approve", "-parallelism=1")
    assert process.stdout is not None
    while b"r[1]: Creation complete" not in process.stdout.readline():
        continue
    process.send_signal(signal.SIGHUP)
    told = process.communicate(timeout=60)[0].decode()
    assert process.returncode == 1
    assert "Unfinished apply" in told
    assert 2 < len(list_real_objects(directory)) < 31
