"""Tests of the wall around a sandboxed process, in its own process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from nexusform.backends.local_lock import read_process_start
from nexusform.files.regular_files import Confinement
from nexusform.files.sandbox import declare_server, use_sandbox

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


def test_only_declared_servers_are_used(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as declared,
        socket.create_server(("127.0.0.1", 0)) as other,
        use_sandbox(Confinement(str(tmp_path)), ()),
    ):
        declare_server(f"http://127.0.0.1:{declared.getsockname()[1]}")
        socket.create_connection(declared.getsockname(), 5).close()
        with pytest.raises(OSError, match=r"no client declared the server 127\.0\.0\.1"):
            socket.create_connection(other.getsockname(), 5)
        for name in ("secrets.example.com", b"secrets.example.com", "10.0.0.1"):
            with pytest.raises(OSError, match="no client declared the server"):
                socket.getaddrinfo(name, 443)
        # An address of another server on the same port.
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
            pytest.raises(OSError, match=r"no client declared the server 127\.0\.0\.2"),
        ):
            sender.sendto(b"secret", ("127.0.0.2", declared.getsockname()[1]))


def test_proxy_of_the_operator_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        port = proxy.getsockname()[1]
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
        with use_sandbox(Confinement(str(tmp_path)), ()):
            declare_server("https://hub.example.com")
            socket.create_connection(("127.0.0.1", port), 5).close()
