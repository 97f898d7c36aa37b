"""Status of all sites from their states, read without locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nexusform.domains.sites.task_engine import TaskEngine
from nexusform.domains.sites.types.fleet_plan import FleetPlan, build_planned_site
from nexusform.domains.sites.types.site_tasks import SiteResult, SiteTaskKind, Task
from nexusform.domains.sites.workflow.fleet_planning import OpenedFleet


def read_fleet_status(
    opened: OpenedFleet, names: Sequence[str], engine: TaskEngine, is_stopping: Callable[[], bool]
) -> FleetPlan:
    """Read the status of each site: applied, interrupted, or not applied yet."""
    definition, fleet = opened.definition, opened.fleet
    assert definition is not None, "a fleet that was read"
    assert fleet is not None, "a fleet that was read"
    results: dict[str, SiteResult] = {}

    def record_result(task: Task, result: SiteResult) -> None:
        results[task.site] = result

    tasks = [Task(SiteTaskKind.STATUS, name, fleet) for name in names]
    engine.run_tasks_until_stopped(
        tasks, record_result, max_running=lambda: engine.parallelism, is_stopping=is_stopping
    )
    entries = {site.name: site for site in definition.sites}
    sites = tuple(build_planned_site(entries[name], results[name], ()) for name in names if name in results)
    return FleetPlan(sites, definition.waves, fleet.now, definition.digest)
