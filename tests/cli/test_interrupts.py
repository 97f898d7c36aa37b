"""Interrupts are heeded whatever the main thread waits for."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

# Signals go to another thread, as they may at any time: the main thread sleeps on.
WAITING = """
import signal, sys, threading, time
from nexusform.cli.interrupts import handle_interrupts

threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
with handle_interrupts(lambda text: print(text, flush=True)) as interrupts:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    print("waiting", flush=True)
    time.sleep(600)
"""

# Whoever was to read what is told does not, and the pipe is full.
UNREAD = """
import sys, threading, time
from nexusform.cli.interrupts import handle_interrupts

with handle_interrupts(lambda text: time.sleep(600)) as interrupts:
    print("waiting", flush=True)
    while not interrupts.is_stopping():
        time.sleep(0.01)
    print("stopping", flush=True)
    time.sleep(600)
"""

AFTERWARDS = """
import os, signal
from nexusform.cli.interrupts import handle_interrupts

# Who starts the tests in the background may have told them to ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

for _ in range(2):
    with handle_interrupts(print) as interrupts:
        assert not interrupts.is_stopping()
assert signal.set_wakeup_fd(-1) == -1
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted as ever")
"""


def started(program: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_two_interrupts_end_a_process_whose_main_thread_was_not_woken(number: signal.Signals) -> None:
    with started(WAITING) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        assert process.stdout.readline() == "Interrupt received.\n"
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert errors.startswith("Two interrupts received. Exiting at once")


def test_two_interrupts_end_a_process_to_which_nobody_listens() -> None:
    with started(UNREAD) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == 1


def test_afterwards_an_interrupt_is_python_s_again() -> None:
    with started(AFTERWARDS) as process:
        told, errors = process.communicate(timeout=120)
    assert (told, errors) == ("interrupted as ever\n", "")
