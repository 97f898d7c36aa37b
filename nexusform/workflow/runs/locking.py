"""The lock of a state: taking it, giving it back, looking who holds it, breaking it."""

from __future__ import annotations

import getpass
import os
import shlex
import socket
import uuid
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

import nexusform
from nexusform.diagnostics import Diagnostic, error, warning
from nexusform.log import log
from nexusform.ports import Clock
from nexusform.source import SourceFile
from nexusform.state_ports import BackendProblem, LockHeld, LockInfo, StateBackend
from nexusform.workflow.opening.place import Place
from nexusform.workflow.opening.project import find_backend

TOLD_AFTER: Final = 0.4  # seconds of waiting before anything is said of it
_NOT_LOCKED: Final = (
    "-lock=false: another run may change the state while this one works; when both write it, what one of "
    "them did is lost."
)
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 16.0
_LINKS: Final = (
    "GITHUB_RUN_ID",
    "CI_JOB_URL",
    "BUILD_URL",
    "CIRCLE_BUILD_URL",
    "BUILDKITE_BUILD_URL",
    "TRAVIS_JOB_WEB_URL",
    "DRONE_BUILD_LINK",
)

TAKEN_OVER: Final = "the-lock-of-a-dead-run-was-taken-over"


class Locking(Struct, frozen=True):
    """Whether to lock, and how many seconds to wait for somebody else's lock.

    `alone`: nobody else can reach the state, so that it need not be locked.
    """

    enabled: bool = True
    timeout: float = 0.0
    alone: bool = False


class HeldLock(Struct):
    """A lock that was taken."""

    backend: StateBackend
    id: str

    def release(self) -> list[Diagnostic]:
        """Give it back."""
        try:
            self.backend.unlock(self.id)
        except BackendProblem as problem:
            return [error("error-releasing-the-state-lock", str(problem))]
        return []


def lock_info(
    operation: str, backend: StateBackend, clock: Clock, environment: Mapping[str, str]
) -> LockInfo:
    """Who we are, for others that meet our lock."""
    host = socket.gethostname()
    return LockInfo(
        id=str(uuid.uuid4()),
        operation=operation,
        who=f"{_user()}@{host}",
        version=nexusform.__version__,
        created=clock.now().isoformat(timespec="seconds").replace("+00:00", "Z"),
        path=backend.describe(),
        host=host,
        pid=os.getpid(),
        link=_link(environment),
    )


def acquire(
    backend: StateBackend,
    operation: str,
    locking: Locking,
    *,
    clock: Clock,
    environment: Mapping[str, str],
    waiting: Callable[[str], None],
    way_out: str = "break its lock with `nexusform force-unlock ID`",
) -> tuple[HeldLock | None, list[Diagnostic]]:
    """Take the lock, waiting as long as `locking` says; None when locking is off or another run holds it.

    `waiting` is told once when it takes longer than a moment. `way_out`: what to do where the holder is dead.
    """
    if not locking.enabled:
        return None, [] if locking.alone else [warning("the-state-is-not-locked", _NOT_LOCKED)]
    info = lock_info(operation, backend, clock, environment)
    started = clock.now().timestamp()
    pause, already_told = _FIRST_PAUSE, False
    while True:
        try:
            warnings = backend.lock(info)
        except LockHeld as held:
            waited = clock.now().timestamp() - started
            if waited >= locking.timeout:
                return None, [_held(held.holder, locking.timeout, way_out)]
            if waited >= TOLD_AFTER and not already_told:
                already_told = True
                waiting(_waiting_text(held.holder))
            clock.sleep(min(pause, max(locking.timeout - waited, 0.01)))
            pause = min(pause * 2, _LONGEST_PAUSE)
            continue
        except BackendProblem as problem:
            return None, [error("error-acquiring-the-state-lock", str(problem))]
        log("info", "state locked", operation=operation, state=backend.describe(), id=info.id)
        taken_over = [warning(TAKEN_OVER, text) for text in warnings]
        return HeldLock(backend, info.id), taken_over


# --- other runs' locks --------------------------------------------------------------------------


def find_holder(place: Place) -> tuple[LockInfo | None, list[Diagnostic], Mapping[str, SourceFile]]:
    """Who holds the lock of the selected workspace, None when nobody does."""
    backend, problems, sources = find_backend(place)
    if backend is None:
        return None, problems, sources
    try:
        return backend.holder(), problems, sources
    except BackendProblem as problem:
        return None, [*problems, error("the-lock-cannot-be-read", str(problem))], sources


def break_lock(place: Place, lock_id: str) -> tuple[list[Diagnostic], Mapping[str, SourceFile]]:
    """Break the lock with this id; a diagnostic when another or none is held."""
    backend, problems, sources = find_backend(place)
    if backend is None:
        return problems, sources
    try:
        backend.force_unlock(lock_id)
    except BackendProblem as problem:
        problems.append(error("failed-to-unlock-state", str(problem)))
    return problems, sources


def describe_holder(holder: LockInfo) -> str:
    """The block of lines that tells who holds a lock."""
    rows = {
        "ID": holder.id,
        "Path": holder.path,
        "Operation": holder.operation,
        "Who": holder.who,
        "Version": holder.version,
        "Created": holder.created,
        "Host": holder.host,
        "Pid": str(holder.pid) if holder.pid else "",
        "Info": holder.info,
        "Link": holder.link,
    }
    return "\n".join(f"  {name + ':':<11}{value}" for name, value in rows.items() if value)


def _held(holder: LockInfo | None, timeout: float, way_out: str) -> Diagnostic:
    who = f"\n\nLock Info:\n{describe_holder(holder)}" if holder else ""
    if holder:
        way_out = way_out.replace(" ID`", f" {shlex.quote(holder.id)}`")
    waited = f" after waiting {timeout:g} s" if timeout else ""
    return error(
        "error-acquiring-the-state-lock",
        f"Somebody else holds the lock of the state{waited}, and nothing was changed. Wait for that run to "
        f"end, or let this one wait for it with -lock-timeout=60s. If that run is dead, {way_out}.{who}",
    )


def _waiting_text(holder: LockInfo | None) -> str:
    who = f" It is held by {holder.who} ({holder.operation}, ID {holder.id})." if holder else ""
    return f"Acquiring state lock. This may take a few moments...{who}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _link(environment: Mapping[str, str]) -> str:
    """Where the CI job can be looked at, when the environment tells."""
    for name in _LINKS:
        value = environment.get(name, "")
        if value and name == "GITHUB_RUN_ID":
            server = environment.get("GITHUB_SERVER_URL", "https://github.com")
            return f"{server}/{environment.get('GITHUB_REPOSITORY', '')}/actions/runs/{value}"
        if value:
            return value
    return ""
