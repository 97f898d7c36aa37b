"""Planning ends when its time is over, in whichever thread it is done."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from nexusform.diagnostics.diagnostic import DiagnosticsError
from nexusform.workflow.runs.planning_time_limit import limit_time


def busy(seconds: float) -> None:
    """Works, and takes problems of its own for what they are not."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(500))


def spend(seconds: int, at_work: float, told: list[str]) -> None:
    try:
        with limit_time(seconds):
            busy(at_work)
        told.append("done")
    except DiagnosticsError as refused:
        told += [problem.id for problem in refused.diagnostics]
    busy(0.6)  # nothing comes afterwards


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize(("seconds", "ends"), [(1, ["time-budget"]), (0, ["done"]), (600, ["done"])])
def test_it_ends_in_time(*, elsewhere: bool, seconds: int, ends: list[str]) -> None:
    told: list[str] = []
    at_work = 60.0 if seconds == 1 else 0.2
    begun = time.monotonic()
    if elsewhere:
        thread = threading.Thread(target=spend, args=(seconds, at_work, told))
        thread.start()
        thread.join()
    else:
        spend(seconds, at_work, told)
    assert told == ends
    assert time.monotonic() - begun < 50


def test_what_is_taken_for_a_problem_of_its_own_is_said_again() -> None:
    told: list[str] = []

    def stubborn() -> None:
        try:
            with limit_time(1):
                for _ in range(2):
                    try:
                        busy(60)
                    except DiagnosticsError:
                        told.append("taken")
        except DiagnosticsError:
            told.append("ended")

    thread = threading.Thread(target=stubborn)
    thread.start()
    thread.join()
    assert told == ["taken", "taken"] or told[-1] == "ended"


def test_an_interpreter_works_on_as_before_once_a_plan_was_made_in_time() -> None:
    """CPython 3.11 looks at every step for what was taken back, and under a profiler never ends."""
    told: list[str] = []

    def profiled() -> None:
        spend(600, 0.1, told)
        sys.setprofile(lambda *_: None)
        busy(0.1)
        sys.setprofile(None)
        told.append("profiled")

    thread = threading.Thread(target=profiled, daemon=True)
    thread.start()
    thread.join(60)
    assert told == ["done", "profiled"]
