"""Tests of process limits: closed output, missing memory and deep modules end in a message."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nexusform.cli.main import _is_out_of_memory, run_command_line

_COUNT_SEARCHES = """
import gc, sys
from nexusform.cli.main import main
searches = []
gc.callbacks.append(lambda phase, _info: searches.append(phase))
sys.argv = ["nexusform", "validate"]
try:
    main()
finally:
    print(len(searches), file=sys.stderr)
"""


def test_small_command_does_not_search_for_garbage(tmp_path: Path) -> None:
    # By default, Python searches after each 700 new objects.
    sites = 'resource "nexus_site" "s" {\n  count = 500\n  name  = "s-${count.index}"\n}\n'
    (tmp_path / "main.nf.hcl").write_text(sites)
    command = [sys.executable, "-c", _COUNT_SEARCHES]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert result.stderr == "0\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes as Unix has them")
def test_apply_with_closed_output_reports_it(tmp_path: Path) -> None:
    sites = "".join(
        f'resource "nexus_site" "s{number}" {{\n  name = "s{number}"\n}}\n' for number in range(41)
    )
    (tmp_path / "main.nf.hcl").write_text(sites)
    for command, read_bytes, message in (
        ("apply -auto-approve", 100, "Error: stdout was closed, so the command stopped."),
        ("plan", 0, ""),
    ):
        reader, writer = os.pipe()
        # Less than the output, so the command waits for the reader.
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        if not read_bytes:
            os.close(reader)
        with (tmp_path / "told").open("w") as told_file:
            words = [sys.executable, "-m", "nexusform", *command.split()]
            process = subprocess.Popen(words, cwd=tmp_path, stdout=writer, stderr=told_file)
        os.close(writer)
        if read_bytes:
            os.read(reader, read_bytes)
            os.close(reader)
        assert process.wait() == 1
        told = " ".join((tmp_path / "told").read_text().split())
        assert told.startswith(message)
        assert ("apply -resume" in told) is bool(message)


MANY_VMS = """resource "nexus_site" "lab" {}
resource "nexus_rack" "r" {
  count         = 40
  site_id       = nexus_site.lab.id
  name          = "r${count.index}"
  machine_count = 40
}
resource "nexus_virtual_machine" "v" {
  count      = 3000
  name       = "v${count.index}"
  site_id    = nexus_site.lab.id
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 20
  depends_on = [nexus_rack.r]
}
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_plan_out_of_memory_prints_one_message(tmp_path: Path) -> None:
    (tmp_path / "main.nf.hcl").write_text(MANY_VMS)
    ends = []
    # KiB of address space.
    for limit in (36_000, 60_000):
        words = f"ulimit -v {limit} && exec {sys.executable} -m nexusform plan"
        done = subprocess.run(
            ["bash", "-c", words], cwd=tmp_path, check=False, capture_output=True, text=True
        )
        if done.returncode == -signal.SIGSEGV:
            # CPython 3.11 itself crashes if memory ends while it calls a function.
            continue
        assert "Traceback" not in done.stderr, limit
        assert "Internal error" not in done.stderr, limit
        ends.append((done.returncode, "Error: Out of memory." in done.stderr))
    assert (1, True) in ends
    assert set(ends) <= {(1, True), (0, False)}


def test_deeply_nested_modules_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(1200):
        (tmp_path / f"m{number}").mkdir()
        text = (
            f'module "m" {{\n  source = "../m{number + 1}"\n}}\n'
            if number < 1199
            else 'output "x" {\n  value = 1\n}\n'
        )
        (tmp_path / f"m{number}" / "main.nf.hcl").write_text(text)
    (tmp_path / "main.nf.hcl").write_text('module "m" {\n  source = "./m0"\n}\n')
    assert run_command_line(["validate"]) == 1
    assert "The modules nest deeper than 100 levels." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("problem", "is_missing"),
    [
        (MemoryError(), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (ImportError("x.so: failed to map segment from shared object"), True),
        (RuntimeError("can't start new thread"), True),
        (RuntimeError("something else"), False),
        (OSError(errno.ENOENT, "No such file"), False),
    ],
)
def test_out_of_memory_is_no_internal_error(problem: Exception, is_missing: bool) -> None:
    assert _is_out_of_memory(problem) is is_missing
