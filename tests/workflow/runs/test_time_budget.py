"""Tests of the planning time limit, in the main thread and in others."""

from __future__ import annotations

import sys
import threading
import time

import pytest

from nexusform.diagnostics.diagnostic import DiagnosticsError
from nexusform.workflow.runs import planning_time_limit
from nexusform.workflow.runs.planning_time_limit import limit_time


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the exception again soon.

    Code of tests is not code of nexusform, so it is raised only at the ninth try.
    """
    monkeypatch.setattr(planning_time_limit, "_REPEAT_SECONDS", 0.05)


def work(seconds: float) -> None:
    """Run steps for some seconds.

    An exception for this thread arrives between two of them. Short sleeps take most of the
    processor time of these tests.
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.01)


def work_with_limit(seconds: int, at_work: float, told: list[str]) -> None:
    try:
        with limit_time(seconds):
            work(at_work)
        told.append("done")
    except DiagnosticsError as refused:
        told += [problem.id for problem in refused.diagnostics]
    # No interrupt arrives afterwards.
    work(0.3)


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize(
    ("seconds", "ends"), [(1, ["time-budget"]), (0, ["done"]), (600, ["done"])]
)
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


class _SlowLock:
    """Lock that returns to the planning thread only some time after the thread has it."""

    def __init__(self, planning_thread: threading.Thread) -> None:
        self._lock = threading.Lock()
        self._planning_thread = planning_thread
        self.acquire = self._lock.acquire
        self.release = self._lock.release
        self.was_taken = threading.Event()

    def __enter__(self) -> None:
        self._lock.acquire()
        if threading.current_thread() is self._planning_thread:
            self.was_taken.set()
            work(0.6)

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_time_limit_at_the_end_of_planning_causes_no_deadlock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The exception arrives while the planning thread holds the lock of an event.

    It arrives before the thread can release it.
    """
    told: list[str] = []
    thread = threading.Thread(target=work_with_limit, args=(1, 1.2, told), daemon=True)
    lock = _SlowLock(thread)
    start = threading.Thread.start
    raise_in_thread = planning_time_limit._raise_in_thread

    def start_with_slow_event(watcher: threading.Thread) -> None:
        for cell in watcher._target.__closure__ or ():  # type: ignore[attr-defined]
            if isinstance(cell.cell_contents, threading.Event):
                cell.cell_contents._cond = threading.Condition(lock)  # type: ignore[arg-type,attr-defined]
        start(watcher)

    def raise_late(ident: int, kind: type[BaseException]) -> None:
        lock.was_taken.wait(1)
        raise_in_thread(ident, kind)

    monkeypatch.setattr(threading.Thread, "start", start_with_slow_event)
    monkeypatch.setattr(planning_time_limit, "_raise_in_thread", raise_late)
    monkeypatch.setattr(planning_time_limit, "_MAX_WAITS", 0)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    assert told in (["done"], ["time-budget"])


def test_interpreter_state_is_restored_after_planning() -> None:
    """CPython 3.11 keeps looking for a withdrawn interrupt at every step.

    Under a profiler it never ends.
    """
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
