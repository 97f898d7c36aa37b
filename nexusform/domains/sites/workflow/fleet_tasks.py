"""Tasks for all sites of a fleet: status, locks, and questions. Questions are split into parts for any worker; the
answer does not depend on the workers.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, zip_longest
from math import ceil

from msgspec.structs import replace

from nexusform.domains.sites.types.fleet_plan import FleetPlan, build_planned_site
from nexusform.domains.sites.types.site_tasks import (
    FleetContext,
    QuestionKind,
    SiteQuestion,
    SiteQuestionFinding,
    SiteResult,
    SiteStatus,
    SiteTaskKind,
    Task,
    TaskEngine,
    select_results,
)
from nexusform.domains.sites.workflow.fleet_planning import OpenedFleet

RUNS_PER_PART = 100
_PARTS_PER_WORKER = 4  # parts per worker, for an even load


def run_fleet_question(
    opened: OpenedFleet,
    names: Sequence[str],
    engine: TaskEngine,
    question: SiteQuestion,
    is_stopping: Callable[[], bool],
) -> list[SiteResult]:
    """Run a question on each site; return the results in the order of names."""
    fleet = opened.fleet
    assert fleet is not None, "a fleet that was read"
    if question.kind is QuestionKind.CERTAINTY:  # equal parts of up to 100 samples
        count = ceil(question.runs / RUNS_PER_PART)
        size = question.runs // count
        parts = [replace(question, part=part, parts=count, runs=size) for part in range(count)]
    else:
        # Racks of few sites are divided among all workers; any other question is one part.
        is_divisible = question.kind is QuestionKind.FAILURE
        count = ceil(_PARTS_PER_WORKER * engine.parallelism / len(names)) if is_divisible else 1
        parts = [replace(question, part=part, parts=count) for part in range(count)]
    results: dict[str, dict[int, SiteResult]] = {name: {} for name in names}

    def record_part(task: Task, result: SiteResult) -> None:
        assert task.question is not None, "a task that asks"
        results[task.site][task.question.part] = result

    tasks = [Task(SiteTaskKind.ASK, name, fleet, question=part) for name in names for part in parts]
    engine.run_tasks_until_stopped(tasks, record_part, max_running=lambda: engine.parallelism, is_stopping=is_stopping)
    return [merge_site_results(name, results[name], len(parts)) for name in names]


def merge_site_results(name: str, parts: Mapping[int, SiteResult], count: int) -> SiteResult:
    """Merge the `count` parts of one site's result: skipped if one is missing, rejected if one is or they differ."""
    if len(parts) < count:
        return SiteResult(name, SiteStatus.SKIPPED, "It was interrupted before this site was finished.")
    ordered = [parts[part] for part in range(count)]
    rejected = select_results(ordered, SiteStatus.REJECTED)
    if rejected:
        return rejected[0]
    if len({(part_result.status, part_result.digest) for part_result in ordered}) > 1:
        reason = "Its plan input changed during the run. Run the command again."
        return SiteResult(name, SiteStatus.REJECTED, reason)
    # Racks are dealt to parts in turn; interleaving restores the site's order. Figures with the same name are added.
    merged: dict[str, SiteQuestionFinding] = {}  # by name of the finding
    rounds = zip_longest(*(part_result.findings for part_result in ordered))
    for finding in filter(None, chain.from_iterable(rounds)):  # some parts have fewer racks
        existing = merged.get(finding.name)
        if existing is None:
            merged[finding.name] = finding
        else:
            figures = {key: figure + finding.figures.get(key, 0) for key, figure in existing.figures.items()}
            is_problem = existing.is_problem or finding.is_problem
            merged[finding.name] = replace(existing, figures=figures, is_problem=is_problem)
    return replace(ordered[0], findings=tuple(merged.values()))


def read_site_locks(engine: TaskEngine, fleet: FleetContext, names: Sequence[str]) -> list[SiteResult]:
    """Return the status of each site with its lock; `rejected` if it cannot be read. Raises TaskEngineError."""
    return _run_on_all_sites(engine, fleet, names, SiteTaskKind.STATUS)


def read_locked_sites(engine: TaskEngine, fleet: FleetContext, names: Sequence[str]) -> list[SiteResult]:
    """Return the status of the locked sites, in the order of the names. Raises TaskEngineError."""
    return [result for result in read_site_locks(engine, fleet, names) if result.lock is not None]


def release_locks(
    engine: TaskEngine, fleet: FleetContext, names: Sequence[str], unlock_host: str = ""
) -> list[SiteResult]:
    """Release the locks of a host, or of this run without one, except those of started sites. The status of a result is
    `applied` if its lock was released, `skipped` if not, and `rejected` if it cannot be read. Raises TaskEngineError.
    """
    return _run_on_all_sites(engine, fleet, names, SiteTaskKind.UNLOCK, unlock_host=unlock_host)


def _run_on_all_sites(
    engine: TaskEngine,
    fleet: FleetContext,
    names: Sequence[str],
    kind: SiteTaskKind,
    *,
    unlock_host: str = "",
    is_stopping: Callable[[], bool] = lambda: False,
) -> list[SiteResult]:
    """Run a task for each site; return the results in the order of the names, without those stopped before a start."""
    results: dict[str, SiteResult] = {}
    tasks = [Task(kind, name, fleet, unlock_host=unlock_host) for name in names]
    engine.run_tasks_until_stopped(
        tasks,
        lambda task, result: results.update({task.site: result}),
        max_running=lambda: engine.parallelism,
        is_stopping=is_stopping,
    )
    return [results[name] for name in names if name in results]


def read_fleet_status(
    opened: OpenedFleet, names: Sequence[str], engine: TaskEngine, is_stopping: Callable[[], bool]
) -> FleetPlan:
    """Read the status of each site: applied, interrupted, or not applied yet."""
    definition, fleet = opened.definition, opened.fleet
    assert definition is not None, "a fleet that was read"
    assert fleet is not None, "a fleet that was read"
    results = _run_on_all_sites(engine, fleet, names, SiteTaskKind.STATUS, is_stopping=is_stopping)
    entries = definition.sites_by_name
    sites = tuple(build_planned_site(entries[result.site], result, dependencies=()) for result in results)
    return FleetPlan(sites, definition.waves, fleet.now, definition.digest)
