"""Locks: LockInfo as the JSON that lock files and state servers hold; and `Lease`, a claim that runs out
unless it is renewed, with the thread that renews it while it is held.

A process can be stopped for minutes (SIGSTOP, a sleeping laptop) and go on as if nothing had happened. So
whoever holds a claim asks `check` before each write: it goes by a clock that runs on meanwhile, and by
when the last renewal was *sent*, never by what the thread last believed.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from nexusform.state_ports import BackendProblem, LockInfo

_LONGEST_ID: Final = 128
# Member in JSON -> field. The first seven are what Terraform writes too.
_TEXT_MEMBERS: Final = {
    "ID": "id",
    "Operation": "operation",
    "Info": "info",
    "Who": "who",
    "Version": "version",
    "Created": "created",
    "Path": "path",
    "Host": "host",
    "Link": "link",
}


def to_json(info: LockInfo, **more: str) -> bytes:
    """The lock as indented JSON; `more` are members of the backend's own."""
    members: dict[str, Any] = {member: getattr(info, name) for member, name in _TEXT_MEMBERS.items()}
    return json.dumps(members | {"Pid": info.pid} | more, indent=2).encode() + b"\n"


def from_json(data: bytes) -> LockInfo:
    """The lock that the JSON tells of; absent members are empty.

    One that does not say who holds it, or by an ID that nobody could type, gets an ID from its content, so
    that it can be named and broken.
    """
    members = _members(data)
    texts = {name: members.get(member, "") for member, name in _TEXT_MEMBERS.items()}
    pid = members.get("Pid", 0)
    if not all(isinstance(text, str) for text in texts.values()) or not _can_be_typed(texts["id"]):
        return _unreadable(data)
    return LockInfo(**texts, pid=pid if isinstance(pid, int) and not isinstance(pid, bool) else 0)


def _can_be_typed(lock_id: str) -> bool:
    """Whether a command may name the lock so."""
    return 0 < len(lock_id) <= _LONGEST_ID and lock_id.isprintable() and not lock_id.startswith("-")


def _unreadable(data: bytes) -> LockInfo:
    return LockInfo(
        id=f"unreadable-{hashlib.sha256(data).hexdigest()[:8]}",
        operation="",
        who="",
        version="",
        created="",
        path="",
        host="",
        pid=0,
        info="The lock does not say who holds it.",
    )


def member(data: bytes, name: str) -> str:
    """One member as text, "" when there is none."""
    value = _members(data).get(name, "")
    return value if isinstance(value, str) else ""


def _members(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def describe(info: LockInfo) -> str:
    """Who holds the lock, as part of a sentence."""
    if not info.who:
        return f"somebody (ID {info.id})"
    since = f" since {info.created}" if info.created else ""
    operation = info.operation.removeprefix("OperationType").lower()  # Terraform's spelling is for programs
    return f"{info.who} (process {info.pid} on {info.host}, {operation}{since}, ID {info.id})"


def not_released(lock_id: str, holder: LockInfo | None) -> str:
    """Why a lock could not be given back."""
    now = f"it is held by {describe(holder)}" if holder else "nobody holds it"
    return f'The lock "{lock_id}" was not released: {now} now. Somebody broke it, or it ran out.'


def not_broken(lock_id: str, holder: LockInfo | None) -> str:
    """Why a lock could not be broken."""
    if holder is None:
        return f'Not unlocked: nobody holds the lock "{lock_id}".'
    return f'Not unlocked: the lock is held by {describe(holder)}, not by "{lock_id}".'


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
        """Renew the lease until the lock is given back or the lease is lost."""
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
