"""A claim that runs out unless it is renewed, and the thread that renews it while it is held.

A process can be stopped for minutes (SIGSTOP, a sleeping laptop) and go on as if nothing had happened.
So whoever holds a claim asks `check` before each write: it goes by a clock that runs on meanwhile, and
by when the last renewal was *sent*, never by what the thread last believed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Final

from nexusform.ports import BackendProblem

LEASE_VARIABLE: Final = "NF_LEASE_SECONDS"
LEASE_SECONDS: Final = 45  # a dead holder frees the lock within a minute
SHORTEST: Final = 15  # the least that Azure leases
LONGEST: Final = 60
_RENEWALS: Final = 3  # so many renewals are sent in the time of one claim
_RETRY_SECONDS: Final = 1.0
_MARGIN_SECONDS: Final = 1.0  # a claim counts as run out this long before it does


def lease_seconds() -> int:
    """How long a claim lasts: NF_LEASE_SECONDS (15 to 60), else 45. Raises BackendProblem."""
    text = os.environ.get(LEASE_VARIABLE, "")
    if not text:
        return LEASE_SECONDS
    if not text.isdigit() or not SHORTEST <= int(text) <= LONGEST:
        raise BackendProblem(
            f'{LEASE_VARIABLE}="{text}": a whole number from {SHORTEST} to {LONGEST} is needed.'
        )
    return int(text)


def now() -> float:
    """Seconds of a clock that runs on while the machine sleeps, where the system has one."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class LeaseLost(Exception):
    """The server says that the claim is no longer ours."""


class Lease:
    """One claim of `seconds`, renewed by `renew` from `begin` to `end`.

    `renew` raises LeaseLost when somebody else has the lock by now; any other exception is taken for a
    disturbance and tried again until the claim has run out.
    """

    def __init__(self, seconds: float, renew: Callable[[], None]) -> None:
        self._seconds = seconds
        self._renew = renew
        self._sent_at = now()
        self._lost = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nexusform-lease", daemon=True)

    def begin(self, sent_at: float) -> None:
        """Start renewing a claim that was asked for at this time (see `now`)."""
        self._sent_at = sent_at
        self._thread.start()

    def end(self) -> None:
        """Stop renewing; returns when no renewal is under way any more."""
        self._ended.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=self._seconds)

    def check(self) -> None:
        """Raise a BackendProblem unless the claim certainly still holds."""
        if self._lost:
            raise BackendProblem(_stopped(self._lost))
        held_for = now() - self._sent_at
        if held_for >= self._seconds - _MARGIN_SECONDS:
            raise BackendProblem(_stopped(f"it could not be renewed for {held_for:.0f} s"))

    def _run(self) -> None:
        pause = self._seconds / _RENEWALS
        while not self._ended.wait(pause):
            sent_at = now()
            try:
                self._renew()
            except LeaseLost as lost:
                self._lost = str(lost) or "somebody else holds it now"
                return
            except Exception:  # noqa: BLE001 - whatever it was: `check` says when it is too late
                pause = min(_RETRY_SECONDS, self._seconds / _RENEWALS)
            else:
                self._sent_at = sent_at
                pause = self._seconds / _RENEWALS


def _stopped(why: str) -> str:
    return (
        f"The lock of the state was lost: {why}. Another run may hold it, so this one starts nothing more "
        "and writes nothing more. What it did is in the journal; the next run looks it up."
    )
