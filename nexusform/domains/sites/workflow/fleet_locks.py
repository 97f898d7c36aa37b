"""Locks of many sites: read them, and release them."""

from __future__ import annotations

from collections.abc import Sequence

from nexusform.domains.sites.task_engine import TaskEngine
from nexusform.domains.sites.types.site_tasks import FleetContext, SiteResult, SiteTaskKind, Task


def read_site_locks(engine: TaskEngine, fleet: FleetContext, names: Sequence[str]) -> list[SiteResult]:
    """Return the status of each site with its lock; `refused` if it cannot be read. Raises EngineError."""
    return _run_on_all_sites(engine, fleet, names, SiteTaskKind.STATUS)


def read_locked_sites(engine: TaskEngine, fleet: FleetContext, names: Sequence[str]) -> list[SiteResult]:
    """Return the status of the locked sites, in the order of the names. Raises EngineError."""
    return [result for result in read_site_locks(engine, fleet, names) if result.lock is not None]


def release_locks(
    engine: TaskEngine, fleet: FleetContext, names: Sequence[str], unlock_host: str = ""
) -> list[SiteResult]:
    """Release the locks of a host, or of this run without one, except those of started sites. The status of a
    result is `applied` if its lock was released, `skipped` if not, and `refused` if it cannot be read. Raises
    EngineError.
    """
    return _run_on_all_sites(engine, fleet, names, SiteTaskKind.UNLOCK, unlock_host)


def _run_on_all_sites(
    engine: TaskEngine, fleet: FleetContext, names: Sequence[str], kind: SiteTaskKind, unlock_host: str = ""
) -> list[SiteResult]:
    results: dict[str, SiteResult] = {}
    tasks = [Task(kind, name, fleet, unlock_host=unlock_host) for name in names]
    engine.run_tasks_until_stopped(
        tasks,
        lambda task, result: results.update({task.site: result}),
        max_running=lambda: engine.parallelism,
        is_stopping=lambda: False,
    )
    return [results[name] for name in names if name in results]
