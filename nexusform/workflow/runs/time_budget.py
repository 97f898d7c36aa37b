"""How long planning may take: somebody else's configuration must not keep a job forever."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

from nexusform.configuration.declared.limits import VARIABLE
from nexusform.diagnostics import Refused, error
from nexusform.words import counted

_AGAIN: Final = 0.25  # seconds until it is said again, should anybody have taken it for a problem of theirs
_PATIENCE: Final = 8  # times that it waits for code of our own: what a finaliser is told is lost


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raise Refused inside of the block once so many seconds have passed; never with 0.

    In the first thread by a signal, in any other by another thread that looks at the clock.
    """
    if not seconds:
        yield
        return
    refusal = Refused(
        error(
            "time-budget",
            f"Planning took more than {counted(seconds, 'second')}, the most of a confined run, and ended."
            f" If that is meant, raise the limit: -limit=seconds=N or {VARIABLE}SECONDS=N.",
        )
    )
    is_first = threading.current_thread() is threading.main_thread()
    by_signal = is_first and hasattr(signal, "setitimer")
    with _by_signal(seconds, refusal) if by_signal else _by_thread(seconds, refusal):
        yield


@contextmanager
def _by_signal(seconds: int, refusal: Refused) -> Iterator[None]:
    waits = _PATIENCE

    def over(_number: int, frame: FrameType | None) -> None:
        nonlocal waits
        if waits and not _is_ours(frame):
            waits -= 1
            return
        raise refusal

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _by_thread(seconds: int, refusal: Refused) -> Iterator[None]:
    planning = threading.get_ident()
    ended = threading.Event()
    speaking = threading.Lock()
    spoken = False

    class Over(Refused):
        """What is raised elsewhere is made there, without arguments."""

        def __init__(self) -> None:
            super().__init__(*refusal.diagnostics)

    def watch() -> None:
        nonlocal spoken
        wait, waits = float(seconds), _PATIENCE
        while not ended.wait(wait):
            wait = _AGAIN
            if waits and not _is_ours(sys._current_frames().get(planning)):  # noqa: SLF001 - there is no other
                waits -= 1
                continue
            with speaking:
                if not ended.is_set():
                    spoken = True
                    _raise_in(planning, Over)

    threading.Thread(target=watch, daemon=True, name="nexusform: time budget").start()
    try:
        yield
    finally:
        while not ended.is_set():
            with suppress(Over):  # what comes in this very moment, when all is done, comes too late
                ended.set()
        with speaking:
            if spoken:
                _let_come(planning)


class _Nothing(BaseException):
    """What is raised in place of what has not come yet."""


def _let_come(thread: int) -> None:
    """See to it that nothing raised in this very thread comes later on. An interpreter that is told to raise
    nothing any more goes on looking for it at every step (CPython 3.11), so something else comes, and here.
    """
    with suppress(_Nothing):
        _raise_in(thread, _Nothing)
        while True:
            pass


def _raise_in(thread: int, kind: type[BaseException]) -> None:
    """Have a thread raise an exception at its next step, in place of one that has not come yet."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))


def _is_ours(frame: FrameType | None) -> bool:
    """Whether it is the product that runs, and no library or finaliser."""
    return frame is not None and str(frame.f_globals.get("__name__", "")).startswith("nexusform.")
