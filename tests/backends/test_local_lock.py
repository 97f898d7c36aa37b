import os
import subprocess
import sys

import pytest

from nexusform.backends.local_lock import is_process_dead, read_process_start

pytestmark = pytest.mark.skipif(not read_process_start(os.getpid()), reason="this system tells no start times")


def test_a_running_process_is_not_gone() -> None:
    assert not is_process_dead(os.getpid(), read_process_start(os.getpid()))
    assert not is_process_dead(os.getpid(), "")
    assert not is_process_dead(1, read_process_start(1))


def test_a_number_that_was_given_again_is_gone() -> None:
    assert is_process_dead(os.getpid(), "an earlier boot/1")


def test_no_number_tells_nothing() -> None:
    assert not is_process_dead(0, "")
    assert not is_process_dead(-1, "x")


def test_a_process_that_ended_is_gone_even_before_its_parent_notices() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mark = read_process_start(process.pid)
    assert not is_process_dead(process.pid, mark)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_process_dead(process.pid, mark)
    process.communicate()
    assert is_process_dead(process.pid, mark)
    assert read_process_start(process.pid) == ""
