"""Lock of a state: acquire, release, show the holder, break."""

import getpass
import os
import shlex
import uuid
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

import nexusform
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error, build_warning
from nexusform.files.run_log import log_event
from nexusform.interfaces.plugins import Clock
from nexusform.interfaces.state_storage import BackendProblem, LockInfo, StateBackend, StateLocked
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.project import find_backend

# Seconds of waiting before a notice.
NOTICE_DELAY: Final = 0.4
_NOT_LOCKED: Final = (
    "-lock=false: another run may change the state at the same time; if both write it, changes are "
    "lost."
)
_FIRST_PAUSE: Final = 0.1
_MAX_PAUSE: Final = 16.0
_LINK_VARIABLES: Final = (
    "CI_JOB_URL",
    "BUILD_URL",
    "CIRCLE_BUILD_URL",
    "BUILDKITE_BUILD_URL",
    "TRAVIS_JOB_WEB_URL",
    "DRONE_BUILD_LINK",
)

STALE_LOCK_TAKEN: Final = "stale-lock-removed"


class LockOptions(Struct, frozen=True):
    """Whether to lock, and the seconds to wait for another process's lock.

    With `is_exclusive`, no other process can reach the state, so no lock is needed. `info` is
    recorded in the lock.
    """

    enabled: bool = True
    timeout: float = 0.0
    is_exclusive: bool = False
    info: str = ""


class StateLock(Struct):
    """An acquired lock."""

    backend: StateBackend
    id: str

    def release(self) -> list[Diagnostic]:
        """Release the lock; return an error if it fails."""
        try:
            self.backend.unlock(self.id)
        except BackendProblem as problem:
            return [build_error("state-unlock-error", str(problem))]
        return []


def build_lock_info(
    operation: str,
    backend: StateBackend,
    clock: Clock,
    environment: Mapping[str, str],
    info: str = "",
) -> LockInfo:
    """Build the description of this process, shown to others waiting for the lock.

    `info` is any text to show.
    """
    host = os.uname().nodename
    return LockInfo(
        id=str(uuid.uuid4()),
        operation=operation,
        who=f"{_get_user_name()}@{host}",
        version=nexusform.__version__,
        created=clock.read_time().isoformat(timespec="seconds").replace("+00:00", "Z"),
        path=backend.describe(),
        host=host,
        pid=os.getpid(),
        info=info,
        link=_find_job_link(environment),
    )


def acquire_lock(
    backend: StateBackend,
    operation: str,
    locking: LockOptions,
    *,
    clock: Clock,
    environment: Mapping[str, str],
    on_wait: Callable[[str], None],
    remedy: str = "break its lock with `nexusform force-unlock ID`",
) -> tuple[StateLock | None, list[Diagnostic]]:
    """Acquire the lock within the timeout.

    Return None with an error, or if locking is off. If it is off, also return a warning, unless no
    other process can reach the state (`is_exclusive`). `on_wait` is called once after a short wait.
    `remedy` is the advice for a lock of a dead process.
    """
    if not locking.enabled:
        return None, [] if locking.is_exclusive else [build_warning("unlocked-state", _NOT_LOCKED)]
    info = build_lock_info(operation, backend, clock, environment, locking.info)
    started = clock.read_time().timestamp()
    pause = _FIRST_PAUSE
    is_notified = False
    while True:
        try:
            warnings = backend.lock(info)
        except StateLocked as conflict:
            waited = clock.read_time().timestamp() - started
            if waited >= locking.timeout:
                return None, [_build_lock_error(conflict.holder, locking.timeout, remedy)]
            if waited >= NOTICE_DELAY and not is_notified:
                is_notified = True
                holder = conflict.holder
                holder_text = (
                    f" It is held by {holder.who} ({holder.operation}, ID {holder.id})."
                    if holder
                    else ""
                )
                on_wait(f"Acquiring state lock. This may take a few moments...{holder_text}")
            # The pause ends at the timeout.
            clock.sleep(min(pause, max(locking.timeout - waited, 0.01)))
            pause = min(pause * 2, _MAX_PAUSE)
            continue
        except BackendProblem as problem:
            return None, [build_error("state-lock-error", str(problem))]
        log_event("info", "state locked", operation=operation, state=backend.describe(), id=info.id)
        # The lock is of a dead process.
        takeover_warnings = [build_warning(STALE_LOCK_TAKEN, text) for text in warnings]
        return StateLock(backend, info.id), takeover_warnings


def find_lock_holder(
    context: CommandContext,
) -> tuple[LockInfo | None, list[Diagnostic], Mapping[str, SourceFile]]:
    """Return the holder of the lock of the selected workspace.

    Return None if the lock is free, or with errors.
    """
    backend, problems, sources = find_backend(context)
    if backend is None:
        return None, problems, sources
    try:
        return backend.read_lock(), problems, sources
    except BackendProblem as problem:
        return None, [*problems, build_error("unreadable-lock", str(problem))], sources


def break_lock(
    context: CommandContext, lock_id: str
) -> tuple[list[Diagnostic], Mapping[str, SourceFile]]:
    """Break the lock with this id; return an error if there is none with it."""
    backend, problems, sources = find_backend(context)
    if backend is None:
        return problems, sources
    try:
        backend.force_unlock(lock_id)
    except BackendProblem as problem:
        problems.append(build_error("failed-to-unlock-state", str(problem)))
    return problems, sources


def describe_lock_holder(holder: LockInfo) -> str:
    """Return lines about the holder of a lock, without empty facts."""
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


def _build_lock_error(holder: LockInfo | None, timeout: float, remedy: str) -> Diagnostic:
    """Build the error for a lock held by another process.

    `remedy` contains the placeholder ID.
    """
    holder_text = ""
    if holder:
        holder_text = f"\n\nLock Info:\n{describe_lock_holder(holder)}"
        remedy = remedy.replace(" ID`", f" {shlex.quote(holder.id)}`")
    wait_text = f" after waiting {timeout:g} s" if timeout else ""
    return build_error(
        "state-lock-error",
        f"Another process holds the state lock{wait_text}. No changes were made. Wait for that "
        "run to end, "
        f"or retry with -lock-timeout=60s. If that run is dead, {remedy}.{holder_text}",
    )


def _get_user_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _find_job_link(environment: Mapping[str, str]) -> str:
    """Return the link to the CI job from the environment; "" outside of known CI systems."""
    run_id = environment.get("GITHUB_RUN_ID")
    if run_id:
        server = environment.get("GITHUB_SERVER_URL", "https://github.com")
        return f"{server}/{environment.get('GITHUB_REPOSITORY', '')}/actions/runs/{run_id}"
    return next((environment[name] for name in _LINK_VARIABLES if environment.get(name)), "")
