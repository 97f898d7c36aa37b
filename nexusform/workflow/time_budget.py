"""How long planning may take: somebody else's configuration must not keep a job forever."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from nexusform.configuration.limits import VARIABLE
from nexusform.diagnostics import Refused, error
from nexusform.words import counted

_AGAIN: Final = 0.25  # seconds until it is said again, should anybody have taken it for a problem of theirs
_PATIENCE: Final = 8  # times that it waits for code of our own: what a finaliser is told is lost


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raise Refused inside of the block once so many seconds have passed; never with 0.

    By a signal, which reaches the first thread of a process alone: another one has no such end.
    """
    if (
        not seconds
        or not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    waits = _PATIENCE

    def over(_number: int, frame: FrameType | None) -> None:
        nonlocal waits
        if waits and not _is_ours(frame):
            waits -= 1
            return
        detail = (
            f"Planning took more than {counted(seconds, 'second')}, the most of a confined run, and ended."
            f" If that is meant, raise the limit: -limit=seconds=N or {VARIABLE}SECONDS=N."
        )
        raise Refused(error("time-budget", detail))

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _is_ours(frame: FrameType | None) -> bool:
    """Whether it is the product that runs, and no library or finaliser."""
    return frame is not None and str(frame.f_globals.get("__name__", "")).startswith("nexusform.")
