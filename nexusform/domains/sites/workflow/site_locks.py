"""Locks of sites: read one, or release it if the apply has not started."""

import os
import shlex
import socket
from pathlib import Path

from nexusform.diagnostics.diagnostic import Diagnostic, build_error
from nexusform.domains.sites.types.fleet_plan import SiteEntry
from nexusform.domains.sites.types.site_tasks import (
    FleetContext,
    SiteLock,
    SiteResult,
    SiteStatus,
    Task,
)
from nexusform.domains.sites.workflow.site_project import (
    load_cached_configuration,
    make_site_location,
    open_state,
)
from nexusform.domains.sites.workflow.site_results import build_rejected_result
from nexusform.interfaces.state_storage import BackendProblem, LockInfo, StateBackend


def describe_session(session: str) -> str:
    """Return the `Info` in the locks of a run of `sites apply`."""
    return f"sites apply, session {session}"


def read_site_lock(backend: StateBackend, site: SiteEntry, fleet: FleetContext) -> SiteLock | None:
    """Return the lock of a site's state, None without one.

    Raises BackendProblem.
    """
    holder = backend.read_lock()
    if holder is None:
        return None
    # The `force-unlock` command for the state of a site, to be run next to nexusform.sites.hcl.
    words = ["nexusform", f"-chdir={site.source}", "force-unlock"]
    if site.backend == "local":
        path = Path(fleet.root, str(site.settings.get("path", "")))
        words.append(f"-state={os.path.relpath(path, Path(fleet.root, site.source))}")
    else:
        words += [f"-backend-config={name}={value}" for name, value in site.settings.items()]
    return SiteLock(
        id=holder.id,
        host=holder.host,
        who=holder.who,
        created=holder.created,
        # An apply in progress has a journal.
        has_started=bool(backend.read_journal()),
        unlock_command=shlex.join([*words, holder.id]),
        info=holder.info,
        is_running=_is_lock_process_running(holder),
    )


def _is_lock_process_running(holder: LockInfo) -> bool:
    """Return whether the process of the lock is a living process of this machine."""
    # On another host, or not known.
    if holder.host != socket.gethostname() or holder.pid <= 0:
        return False
    try:
        os.kill(holder.pid, 0)  # only checks
    except OSError as problem:
        # A process of another user exists.
        return not isinstance(problem, ProcessLookupError)
    return True


def unlock_site(task: Task, site: SiteEntry) -> SiteResult:
    """Release the lock of a site held by the host or the run of the task.

    It is kept if its apply has started. The result has the lock, None if there is none. Its status
    is `applied` if the lock was released, `skipped` if not.
    """
    backend, problems = open_current_state(task, site)
    if backend is None:
        return build_rejected_result(site.name, problems)
    try:
        lock = read_site_lock(backend, site, task.fleet)
        if lock is None or lock.has_started or not _is_lock_of_task(lock, task):
            return SiteResult(site.name, SiteStatus.SKIPPED, lock=lock)
        backend.force_unlock(lock.id)
    except BackendProblem as problem:
        return build_rejected_result(site.name, [build_error("unreadable-lock", str(problem))])
    return SiteResult(site.name, SiteStatus.APPLIED, lock=lock)


def _is_lock_of_task(lock: SiteLock, task: Task) -> bool:
    """Return True if a dead process on the task's `unlock_host` holds the lock.

    Without a host, the task's own run must hold it.
    """
    if not task.unlock_host:
        return lock.info == describe_session(task.fleet.session)
    return lock.host == task.unlock_host and not lock.is_running


def open_current_state(task: Task, site: SiteEntry) -> tuple[StateBackend | None, list[Diagnostic]]:
    """Open the state of a site; its root module is the current directory.

    Return None, with diagnostics, on failure.
    """
    location = make_site_location(task.fleet, site, os.environ)
    configuration, _ = load_cached_configuration(location)
    return open_state(task.fleet, location, site, configuration.settings)
