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

_AGAIN: Final = 1.0  # seconds until it is said again, should anybody have taken it for a problem of theirs


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

    def over(_number: int, _frame: FrameType | None) -> None:
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
