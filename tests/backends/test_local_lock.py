import os
import subprocess
import sys

import pytest

from nexusform.backends.local_lock import is_process_dead, read_process_start

pytestmark = pytest.mark.skipif(
    not read_process_start(os.getpid()), reason="this system tells no start times"
)


def test_running_process_is_not_dead() -> None:
    assert not is_process_dead(os.getpid(), read_process_start(os.getpid()))
    assert not is_process_dead(os.getpid(), "")
    assert not is_process_dead(1, read_process_start(1))


def test_process_with_reused_id_is_dead() -> None:
    assert is_process_dead(os.getpid(), "an earlier boot/1")


def test_invalid_process_id_is_not_dead() -> None:
    assert not is_process_dead(0, "")
    assert not is_process_dead(-1, "x")


def test_zombie_process_is_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mark = read_process_start(process.pid)
    assert not is_process_dead(process.pid, mark)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_process_dead(process.pid, mark)
    process.communicate()
    assert is_process_dead(process.pid, mark)
    assert read_process_start(process.pid) == ""
