"""Tests of calls in parallel: their order, and that a silent call holds up nothing."""

from __future__ import annotations

import subprocess
import sys
from threading import Event

import pytest

from nexusform.network.parallel_calls import call_in_parallel

# A call that never returns, and the end of the program by an error or an interrupt.
# A shell disables interrupts for programs in the background. An interrupt ends a wait of the main
# thread that began before it.
PROGRAM = """
import signal, threading, time
from nexusform.network.parallel_calls import call_in_parallel

signal.signal(signal.SIGINT, signal.default_int_handler)
main_thread = threading.get_ident()

def interrupt():
    time.sleep(0.3)
    signal.pthread_kill(main_thread, signal.SIGINT)
    threading.Event().wait()

def call(number):
    if number:
        threading.Event().wait()
    END

call_in_parallel(call, range(3), 2)
"""


def test_results_have_the_order_of_the_items() -> None:
    second_ran = Event()

    def wait_for_second(number: int) -> int:
        if number == 0:
            assert second_ran.wait(20)
        second_ran.set()
        return number * 2

    assert call_in_parallel(wait_for_second, range(5), 2) == [0, 2, 4, 6, 8]
    assert call_in_parallel(wait_for_second, [], 2) == []


def test_no_call_begins_after_an_error() -> None:
    begun: list[int] = []

    def fail(number: int) -> None:
        begun.append(number)
        raise ValueError(number)

    with pytest.raises(ValueError, match="0"):
        call_in_parallel(fail, range(100), 1)
    assert begun == [0]


@pytest.mark.parametrize("end", ["raise ValueError", "interrupt()"])
def test_silent_call_does_not_hold_up_the_end_of_a_program(end: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("END", end)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode != 0
    assert ("ValueError" if "raise" in end else "KeyboardInterrupt") in done.stderr
