"""What the states of all sites say, read without their locks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nexusform.domains.sites.ports import Engine
from nexusform.domains.sites.types.fleet_plan import FleetPlan, planned_site
from nexusform.domains.sites.types.work import Answer, Kind, Task
from nexusform.domains.sites.workflow.fleet_planning import OpenedFleet


def fleet_status(
    opened: OpenedFleet, names: Sequence[str], engine: Engine, stopping: Callable[[], bool]
) -> FleetPlan:
    """A row for each site: applied, begun and not ended, or nothing yet."""
    definition, fleet = opened.definition, opened.fleet
    assert definition is not None, "a fleet that was read"
    assert fleet is not None, "a fleet that was read"
    answers: dict[str, Answer] = {}

    def done(task: Task, answer: Answer) -> None:
        answers[task.site] = answer

    tasks = [Task(Kind.STATUS, name, fleet) for name in names]
    engine.run(tasks, done, at_once=lambda: engine.workers, stopping=stopping)
    entries = {site.name: site for site in definition.sites}
    sites = tuple(planned_site(entries[name], answers[name], ()) for name in names if name in answers)
    return FleetPlan(sites, definition.waves, fleet.now, definition.digest)
