"""Tests of workers killed during apply: every site is applied exactly once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.sites.cli.site_flags import check_engine_name
from nexusform.domains.sites.types.site_tasks import TaskEngineError
from tests.kill_points import long_case

Command = Callable[..., tuple[int, str, str]]
Fleet = Callable[..., None]
NAMES = [f"par{number}" for number in range(8)]
SLOW = """
variable "name" {
  type = string
}

resource "nexus_site" "this" {
  name = var.name
}

provider "simulated" {
  fault {
    address   = "nexus_site.this"
    operation = "create"
    delay     = "0.4s"
  }
}
"""


@contextmanager
def kill_workers(pids: Callable[[], list[int]], times: int) -> Iterator[list[int]]:
    """Kill workers during apply, each in the middle of a site."""
    over = threading.Event()
    killed: list[int] = []

    def kill_in_loop() -> None:
        while len(killed) < times and not over.wait(0.05):
            if list(Path("states").glob("*.journal")):
                victims = [pid for pid in pids() if pid not in killed]
                if victims:
                    killed.append(victims[0])
                    os.kill(victims[0], signal.SIGKILL)
                    over.wait(0.5)

    thread = threading.Thread(target=kill_in_loop)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()


def read_serials() -> dict[str, int]:
    paths = sorted(Path("states").glob("*.nfstate"))
    return {path.stem: json.loads(path.read_text())["serial"] for path in paths}


def list_worker_pids(parent: int = os.getpid()) -> list[int]:
    """Return the process ids of the warm workers of a process."""
    words = ["ps", "ww", "--ppid", str(parent), "-o", "pid=,args="]
    listed = subprocess.run(words, capture_output=True, text=True, check=False).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if "local_worker" in line]


def test_killed_warm_worker_damages_no_site(fleet: Fleet, command: Command) -> None:
    fleet({name: {} for name in NAMES}, site=SLOW)
    assert command("plan", "-out=f.nfsites")[0] == 0
    with kill_workers(list_worker_pids, times=2) as killed:
        code, out, err = command("apply", "f.nfsites")
    assert code == 0, (out, err)
    assert killed
    assert read_serials() == {"lon1": 1, **dict.fromkeys(NAMES, 1)}
    assert command("plan", "-detailed-exitcode")[0] == 0


def test_killed_command_is_resumed(fleet: Fleet, command: Command) -> None:
    fleet({name: {} for name in NAMES}, site=SLOW)
    assert command("plan", "-out=f.nfsites")[0] == 0
    words = [sys.executable, "-m", "nexusform", "sites", "apply", "-workers=2", "f.nfsites"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        lines = iter(running.stdout.readline, b"")
        assert any(b'Wave "rest"' in line for line in lines)
        # One of its sites is finished.
        next(lines)
        running.kill()
        # The workers exit without output.
        assert running.stderr.read() == b""
    code, _, err = command("apply", "f.nfsites")
    assert (code, "-resume" in err) == (1, True)
    code, out, err = command("apply", "-resume", "-lock-timeout=60s", "f.nfsites")
    assert code == 0, (out, err)
    assert read_serials() == {"lon1": 1, **dict.fromkeys(NAMES, 1)}


@pytest.mark.slow
@long_case
@pytest.mark.filterwarnings("ignore")
def test_killed_cluster_workers_are_replaced(
    fleet: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    distributed = pytest.importorskip("distributed")
    fleet({name: {} for name in NAMES}, site=SLOW)
    options = {
        "n_workers": 3,
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": None,
    }
    with distributed.LocalCluster(host="127.0.0.1", **options) as cluster:
        engine = f"-engine={cluster.scheduler_address.replace('tcp', 'dask')}"
        assert run_command_line(["sites", "plan", engine, "-out=f.nfsites"]) == 0
        with_processes = json.loads(_plan_as_json(capsys, run_command_line, engine))["digest"]

        def list_pids() -> list[int]:
            """Return the ids of the workers, then of their processes for the command."""
            pids = [nanny.pid for nanny in cluster.workers.values() if nanny.pid]
            children = [pid for parent in pids for pid in list_worker_pids(parent)]
            return pids if len(killed) % 2 else children

        with kill_workers(list_pids, times=3) as killed:
            code = run_command_line(["sites", "apply", engine, "f.nfsites"])
    assert code == 0, capsys.readouterr()
    assert len(killed) > 1
    assert read_serials() == {"lon1": 1, **dict.fromkeys(NAMES, 1)}
    assert len(with_processes) == 64


def _plan_as_json(
    capsys: pytest.CaptureFixture[str], command: Callable[[list[str]], int], engine: str
) -> str:
    capsys.readouterr()
    command(["sites", "plan", engine, "-json"])
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("ray", "There is no engine"),
        ("dask://", "is not a scheduler"),
        ("tcp://10.0.0.1:8786", "let anyone on the network run code here"),
        ("dask://user@localhost:8786", "is not a scheduler"),
    ],
)
def test_unusable_engine_is_reported_before_anything_is_read(word: str, words: str) -> None:
    with pytest.raises(TaskEngineError, match=words):
        check_engine_name(word)


def test_remote_scheduler_accepts_certificates(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setenv("NF_CLUSTER_CA", "ca.pem")
    monkeypatch.delenv("NF_CLUSTER_CERT", raising=False)
    monkeypatch.delenv("NF_CLUSTER_KEY", raising=False)
    fleet()
    assert run_command_line(["sites", "plan", "-engine=dask://192.0.2.1:8786"]) == 1
    assert "NF_CLUSTER_CERT, NF_CLUSTER_KEY" in " ".join(
        capsys.readouterr().err.replace("│", "").split()
    )
