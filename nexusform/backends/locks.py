"""Locks: LockInfo as JSON in lock files and state servers.

`Lease` is a lock that expires unless its renewal thread renews it. A process can be stopped for
minutes (SIGSTOP, a sleeping laptop) and continue afterwards. Therefore the holder calls
`check_valid` before each write. It uses a clock that continues meanwhile, and the time at which the
last renewal was sent.
"""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from nexusform.interfaces.state_storage import BackendProblem, LockInfo
from nexusform.json_data.plain_data import get_mapping

_MAXIMUM_ID_LENGTH: Final = 128
# Member in JSON -> field. The first seven are also written by Terraform.
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


def format_lock(info: LockInfo, **extra_members: str) -> bytes:
    """Return the lock as indented JSON; `extra_members` are additional members of the backend."""
    members: dict[str, Any] = {
        member: getattr(info, name) for member, name in _TEXT_MEMBERS.items()
    }
    return json.dumps(members | {"Pid": info.pid} | extra_members, indent=2).encode() + b"\n"


def parse_lock(data: bytes) -> LockInfo:
    """Parse the lock from JSON; absent members are empty.

    A lock without a readable holder, or with an ID that cannot be typed, gets an ID derived from
    its content, so that it can be named and broken.
    """
    members = _parse_lock_document(data)
    texts = {name: members.get(member, "") for member, name in _TEXT_MEMBERS.items()}
    pid = members.get("Pid", 0)
    # True is an int, too.
    if type(pid) is not int:
        pid = 0
    if all(isinstance(text, str) for text in texts.values()):
        lock_id = texts["id"]
        maximum_length = 128
        is_typeable = (
            0 < len(lock_id) <= maximum_length
            and lock_id.isprintable()
            and not lock_id.startswith("-")
        )
        if is_typeable:
            return LockInfo(**texts, pid=pid)
    texts = dict.fromkeys(_TEXT_MEMBERS.values(), "")
    texts["id"] = f"unreadable-{hashlib.sha256(data).hexdigest()[:8]}"
    texts["info"] = "The holder of the lock is unknown."
    return LockInfo(**texts, pid=0)


def read_lock_member(data: bytes, name: str) -> str:
    """Return one member as text, "" if it is missing or no text."""
    value = _parse_lock_document(data).get(name, "")
    return value if isinstance(value, str) else ""


def _parse_lock_document(data: bytes) -> Mapping[str, Any]:
    """Return the members of a lock document; {} if it is not a JSON object."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        # Without members the lock is unreadable.
        return {}
    return get_mapping(document)


def describe_lock_holder(info: LockInfo) -> str:
    """Describe the holder of the lock as part of a sentence."""
    if not info.who:
        return f"somebody (ID {info.id})"
    since = f" since {info.created}" if info.created else ""
    # Terraform's spelling is for programs.
    operation = info.operation.removeprefix("OperationType").lower()
    return f"{info.who} (process {info.pid} on {info.host}, {operation}{since}, ID {info.id})"


def format_unlock_failure(lock_id: str, holder: LockInfo | None) -> str:
    """Format the reason that a lock could not be released."""
    current_state = f"it is held by {describe_lock_holder(holder)}" if holder else "it is not held"
    return (
        f'The lock "{lock_id}" was not released: {current_state} now. It was broken, or it expired.'
    )


def check_breakable(lock_id: str, holder: LockInfo | None) -> LockInfo:
    """Return the holder of the lock with this id.

    Raises BackendProblem if the lock has none or another one.
    """
    if holder is None:
        raise BackendProblem(f'Not unlocked: the lock "{lock_id}" is not held.')
    if holder.id != lock_id:
        raise BackendProblem(
            f'Not unlocked: the lock is held by {describe_lock_holder(holder)}, not by "{lock_id}".'
        )
    return holder


LEASE_VARIABLE: Final = "NF_LEASE_SECONDS"
# A dead holder frees the lock within a minute.
LEASE_SECONDS: Final = 45
# Minimum lease of Azure.
MINIMUM_SECONDS: Final = 15
MAXIMUM_SECONDS: Final = 60
# Number of renewals sent during one lease.
_RENEWALS: Final = 3
_RETRY_SECONDS: Final = 1.0
# A lease counts as expired this long in advance.
_MARGIN_SECONDS: Final = 1.0


def read_lease_seconds() -> int:
    """Return the duration of a lease: NF_LEASE_SECONDS (15 to 60), else 45.

    Raises BackendProblem.
    """
    from nexusform.network.deadlines import read_seconds

    return read_seconds(LEASE_VARIABLE, LEASE_SECONDS, MINIMUM_SECONDS, MAXIMUM_SECONDS)


def read_monotonic_clock() -> float:
    """Return the seconds of a clock that continues during sleep, if the system has one."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class LeaseLost(Exception):
    """Lease lost to another process, reported by the server."""


class LockLease:
    """One lease of `seconds`, renewed by `renew` from `begin` to `stop`.

    `renew` raises LeaseLost if another process has the lock; any other exception counts as
    temporary and is retried until the lease has expired.
    """

    def __init__(self, seconds: float, renew: Callable[[], None]) -> None:
        """Prepare a lease without renewing it; the thread starts in `begin`."""
        self._seconds = seconds
        self._renew = renew
        # Time of the last successful renewal.
        self._sent_at = read_monotonic_clock()
        # As long as it is held.
        self._loss_reason = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._run_periodic_lease_renewals, name="nexusform-lease", daemon=True
        )

    def begin(self, sent_at: float) -> None:
        """Start renewing the lease.

        It was requested at `sent_at`, by the clock of `read_monotonic_clock`.
        """
        self._sent_at = sent_at
        self._thread.start()

    def stop(self) -> None:
        """Stop renewing; returns when no renewal is in progress any more."""
        self._ended.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=self._seconds)

    def check_valid(self) -> None:
        """Raise a BackendProblem unless the lease is certainly valid."""
        if self._loss_reason:
            raise BackendProblem(_format_lease_loss(self._loss_reason))
        age = read_monotonic_clock() - self._sent_at
        if age >= self._seconds - _MARGIN_SECONDS:
            raise BackendProblem(_format_lease_loss(f"it could not be renewed for {age:.0f} s"))

    def _run_periodic_lease_renewals(self) -> None:
        """Renew the lease until the lock is released or the lease is lost."""
        usual_pause = pause = self._seconds / _RENEWALS
        while not self._ended.wait(pause):
            pause = usual_pause
            sent_at = read_monotonic_clock()
            try:
                self._renew()
            except LeaseLost as problem:
                self._loss_reason = str(problem) or "another process holds it now"
                return
            except Exception:  # noqa: BLE001
                # Any error: `check_valid` detects the expiry.
                pause = min(_RETRY_SECONDS, usual_pause)
            else:
                self._sent_at = sent_at


def _format_lease_loss(reason: str) -> str:
    return (
        f"The lock of the state was lost: {reason}. Another run may hold it. This run starts and "
        "writes nothing more. Its finished steps are in the journal for the next run."
    )
