"""Tests of interrupts: they are handled even if the main thread is blocked."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

# Signals are delivered to another thread, as is possible at any time: the main thread sleeps on.
WAITING = """
import signal, sys, threading, time
from nexusform.cli.interrupts import handle_interrupts

threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
with handle_interrupts(lambda text: print(text, flush=True)) as interrupts:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    print("waiting", flush=True)
    time.sleep(600)
"""

# The reader of the messages does not read, and the pipe is full.
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


def start_program(program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_two_interrupts_end_process_with_sleeping_main_thread(number: signal.Signals) -> None:
    with start_program(WAITING) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(number)
        assert process.stdout.readline() == "Interrupt received.\n"
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 1
    assert errors.startswith("Two interrupts received. Exiting at once")


def test_two_interrupts_end_process_with_unread_output() -> None:
    with start_program(UNREAD) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    assert process.returncode == 1


def test_default_interrupt_handler_is_restored() -> None:
    with start_program(AFTERWARDS) as process:
        told, errors = process.communicate(timeout=120)
    assert (told, errors) == ("interrupted as ever\n", "")
