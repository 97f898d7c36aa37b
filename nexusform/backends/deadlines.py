"""How long a conversation with a server may take in all, whatever the other side does.

An operation runs in a thread of its own, and whoever asked for it waits until it is over, until its time is
up, or until the lease under which it runs is lost: a server that keeps silent, or drips, holds up nobody for
longer. What was given up goes on in its thread as far as its client lets it, and tries nothing anew
(`still_wanted`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import Final, TypeVar

from nexusform.state_ports import BackendProblem

VARIABLE: Final = "NF_NET_DEADLINE"
SECONDS: Final = 180.0  # of one operation, retries included, beside a second for each MiB
SILENCE: Final = 60.0  # seconds without a byte until one request counts as failed
_ASKED_AGAIN: Final = 15.0  # seconds for a server that kept silent for its whole time before
_LOOKS_EVERY: Final = 0.5  # seconds between looks at whether a lease still holds
_MIB: Final = 1 << 20
_Result = TypeVar("_Result")


class GivenUp(BackendProblem):
    """An operation did not come to its end in its time, or its lease was lost while it ran."""


def deadline_seconds() -> float:
    """How long an operation may take: NF_NET_DEADLINE, else 180 s. Raises BackendProblem."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return SECONDS
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 86_400:
        raise BackendProblem(f'{VARIABLE}="{text}": a whole number of seconds from 1 to 86400 is needed.')
    return float(text)


def silence_seconds() -> float:
    """How long one request may stay without a byte."""
    return min(SILENCE, deadline_seconds())


class _Operation:
    """One operation: when it must be over, and whether somebody still waits for it."""

    __slots__ = ("ends_at", "is_wanted", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.ends_at = time.monotonic() + seconds
        self.is_wanted = True

    def allow(self, size: int) -> None:
        """More time, for so many bytes."""
        self.seconds += size / _MIB
        self.ends_at += size / _MIB


_current: ContextVar[_Operation | None] = ContextVar("operation", default=None)


def allow_for(size: int) -> None:
    """Give the operation of this thread the time that so many bytes take."""
    operation = _current.get()
    if operation is not None:
        operation.allow(size)


def still_wanted() -> bool:
    """Whether somebody waits for the operation of this thread: what nobody waits for is not tried again."""
    operation = _current.get()
    return operation is None or operation.is_wanted


@contextmanager
def not_counted() -> Iterator[None]:
    """What the operation of this thread waits for in here is our own doing, and takes nothing of its time."""
    operation = _current.get()
    if operation is None:
        yield
        return
    begun, ends_at = time.monotonic(), operation.ends_at
    operation.ends_at = inf
    try:
        yield
    finally:
        operation.ends_at = ends_at + time.monotonic() - begun


class Deadline:
    """The time that operations on one backend have. `place` is the backend in words.

    `check_lease` raises a BackendProblem when the lease of its lock is lost.
    """

    def __init__(self, place: Callable[[], str], check_lease: Callable[[], None] = lambda: None) -> None:
        self._place = place
        self._check_lease = check_lease
        self._has_been_silent = False

    def within(self, what: str, work: Callable[[], _Result], size: int = 0) -> _Result:
        """The result of some work on so many bytes, or what it raised. `what` reads "read the state".

        Raises GivenUp when it is not over in time.
        """
        seconds = deadline_seconds()
        operation = _Operation(min(seconds, _ASKED_AGAIN) if self._has_been_silent else seconds)
        operation.allow(size)
        results: list[_Result] = []
        failures: list[BaseException] = []
        over = threading.Event()

        def run() -> None:
            _current.set(operation)
            try:
                results.append(work())
            except BaseException as failure:  # noqa: BLE001 - raised again where it is waited for
                failures.append(failure)
            finally:
                over.set()

        threading.Thread(target=run, name=f"nexusform: {what}", daemon=True).start()
        try:
            self._wait(what, operation, over)
        finally:
            operation.is_wanted = False
        if failures:
            raise failures[0]
        return results[0]

    def _wait(self, what: str, operation: _Operation, over: threading.Event) -> None:
        """Until the work is over. Raises GivenUp."""
        while not over.wait(min(_LOOKS_EVERY, max(operation.ends_at - time.monotonic(), 0.0))):
            if time.monotonic() >= operation.ends_at:
                self._has_been_silent = True
                raise GivenUp(
                    f"Cannot {what} at {self._place()}: it was not done within {operation.seconds:.0f} s "
                    f"and was given up. Is the server well? {VARIABLE}=SECONDS gives it more time."
                )
            try:
                self._check_lease()
            except BackendProblem as problem:
                raise GivenUp(f"Cannot {what} at {self._place()}, it was given up. {problem}") from None
