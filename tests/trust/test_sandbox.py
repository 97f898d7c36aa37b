"""Tests of the wall around a sandboxed process, in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nexusform.backends.local_lock import read_process_start
from nexusform.files.regular_files import Confinement
from nexusform.files.sandbox import use_sandbox

_PROGRAM = """
import os, tempfile
from nexusform.files.regular_files import Confinement
from nexusform.files.sandbox import use_sandbox

with use_sandbox(Confinement(os.getcwd()), ()), tempfile.TemporaryDirectory() as directory:
    print(directory)
"""


def test_temporary_directory_is_outside_of_the_work_tree(tmp_path: Path) -> None:
    """The first use of it in a process may be in a sandbox."""
    tree = tmp_path / "tree"
    temporary = tmp_path / "temporary"
    tree.mkdir()
    temporary.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    result = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        cwd=tree,
        env={**environment, "TMPDIR": str(temporary)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert Path(result.stdout.strip()).parent == temporary


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system has no /proc")
def test_start_of_a_process_is_read_in_a_sandbox(tmp_path: Path) -> None:
    """A lock of an ended process is replaced, also if another one has its number since."""
    start = read_process_start(os.getpid())
    with use_sandbox(Confinement(str(tmp_path)), ()):
        assert read_process_start(os.getpid()) == start != ""
        with pytest.raises(OSError, match="-confine does not allow it"):
            Path("/proc/self/environ").read_bytes()


@pytest.mark.parametrize(
    ("name", "is_allowed"),
    [
        ("p", True),
        ("p.lock", True),
        (".p.1-0a.tmp", True),
        ("passwords", False),
        ("app.key", False),
        (".pgpass", False),
    ],
)
def test_only_files_of_a_declared_one_are_read(
    name: str, *, is_allowed: bool, tmp_path: Path
) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / name).write_text("a")
    with use_sandbox(Confinement(str(tmp_path / "tree")), (str(tmp_path / "p"),)):
        try:
            text = (tmp_path / name).read_text()
        except OSError:
            text = ""
    assert (text == "a") is is_allowed
