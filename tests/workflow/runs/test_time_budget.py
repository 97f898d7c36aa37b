"""Tests of the planning time limit, in the main thread and in others."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from nexusform.diagnostics.diagnostic import DiagnosticsError
from nexusform.workflow.runs.planning_time_limit import limit_time


def work(seconds: float) -> None:
    """Keep the processor busy for some seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(500))


def work_with_limit(seconds: int, at_work: float, told: list[str]) -> None:
    try:
        with limit_time(seconds):
            work(at_work)
        told.append("done")
    except DiagnosticsError as refused:
        told += [problem.id for problem in refused.diagnostics]
    work(0.3)  # no interrupt arrives afterwards


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize(("seconds", "ends"), [(1, ["time-budget"]), (0, ["done"]), (600, ["done"])])
def test_planning_ends_at_its_time_limit(*, elsewhere: bool, seconds: int, ends: list[str]) -> None:
    told: list[str] = []
    at_work = 60.0 if seconds == 1 else 0.2
    begun = time.monotonic()
    if elsewhere:
        thread = threading.Thread(target=work_with_limit, args=(seconds, at_work, told))
        thread.start()
        thread.join()
    else:
        work_with_limit(seconds, at_work, told)
    assert told == ends
    assert time.monotonic() - begun < 50


def test_time_limit_caught_by_mistake_is_raised_again() -> None:
    told: list[str] = []

    def catch_time_limit() -> None:
        try:
            with limit_time(1):
                for _ in range(2):
                    try:
                        work(60)
                    except DiagnosticsError:
                        told.append("taken")
        except DiagnosticsError:
            told.append("ended")

    thread = threading.Thread(target=catch_time_limit)
    thread.start()
    thread.join()
    assert told == ["taken", "taken"] or told[-1] == "ended"


def test_interpreter_state_is_restored_after_planning() -> None:
    """CPython 3.11 keeps looking for a withdrawn interrupt at every step, and under a profiler never ends."""
    told: list[str] = []

    def work_under_profiler() -> None:
        work_with_limit(600, 0.1, told)
        sys.setprofile(lambda *_: None)
        work(0.1)
        sys.setprofile(None)
        told.append("profiled")

    thread = threading.Thread(target=work_under_profiler, daemon=True)
    thread.start()
    thread.join(60)
    assert told == ["done", "profiled"]
