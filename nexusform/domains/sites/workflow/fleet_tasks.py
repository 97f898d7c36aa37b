"""Tasks for all sites of a fleet, on an engine.

Plans and their order, status, locks, and questions.

A site that reads another's state is applied after it. Questions are split into parts for any
worker; the answer does not depend on the workers.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import chain, zip_longest
from math import ceil
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    SourceFile,
    build_error,
    has_errors,
    suggest_name,
)
from nexusform.diagnostics.phrases import format_list
from nexusform.domains.sites.rendering.fleet_decision import check_fleet_limits
from nexusform.domains.sites.types.fleet_plan import (
    FleetDefinition,
    FleetPlan,
    UndeclaredSite,
    build_planned_site,
    compute_fleet_digest,
)
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
from nexusform.domains.sites.workflow.definition_file import read_definition
from nexusform.domains.sites.workflow.fleet_plan_file import (
    save_failed_plan,
    save_fleet_plan,
    write_fleet_statement,
)
from nexusform.files.directories import make_directories, remove_tree
from nexusform.plans.impact.guard_rails import GuardRailLimit
from nexusform.providers.clock import read_clock
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.plan_files.plan_statement import Signer
from nexusform.workflow.runs.evaluation_record import build_plan_origin

RUNS_PER_PART = 100
# Number of parts per worker, for an even load.
_PARTS_PER_WORKER = 4


class Fleet(Struct, frozen=True):
    """Fleet that was read: its definition, and the context of its tasks."""

    definition: FleetDefinition
    context: FleetContext


class OpenedFleet(Struct, frozen=True):
    """Fleet in the current directory, None if it is invalid, with diagnostics."""

    fleet: Fleet | None
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]


def open_fleet(
    location: CommandContext,
    now: str = "",
    *,
    has_lock: bool = True,
    lock_timeout: float = 0.0,
    allowed_sources: Sequence[str] = (),
) -> OpenedFleet:
    """Read nexusform.sites.hcl of the current directory, and build the context of its tasks.

    `now` is the current time of plans, "" for the present. With `has_lock`, plans lock their
    states. Sources may also be below `allowed_sources`.
    """
    now = now or read_clock(location.environment)
    allowed_directories = tuple(str(Path(directory).absolute()) for directory in allowed_sources)
    definition, problems, sources = read_definition(
        ".", location.confinement, now, allowed_directories
    )
    if definition is None:
        return OpenedFleet(fleet=None, diagnostics=tuple(problems), sources=sources)
    context = FleetContext(
        root=str(Path.cwd()),
        definition_digest=definition.digest,
        now=now,
        session=secrets.token_hex(8),
        confine=location.confinement.root,
        hidden_paths=location.confinement.hidden,
        allow_remote=location.allow_remote,
        allowed_sources=allowed_directories,
        limits=dict(location.limits),
        has_lock=has_lock,
        lock_timeout=lock_timeout,
    )
    return OpenedFleet(Fleet(definition, context), tuple(problems), sources)


def select_sites(
    definition: FleetDefinition,
    patterns: Sequence[str],
    wave: str,
    undeclared: Sequence[UndeclaredSite] = (),
) -> tuple[list[str], list[Diagnostic]]:
    """Select the names of sites by patterns and wave (none or "": all).

    A pattern or wave without a site is reported. A pattern without a declared site may match sites
    with a state that are no longer declared (`undeclared`).
    """
    problems: list[Diagnostic] = []
    waves = [item.name for item in definition.waves]
    if wave not in ("", *waves):
        wave_list = ", ".join(f'"{name}"' for name in waves)
        detail = (
            f'-wave: there is no wave "{wave}". There are: {wave_list}.{suggest_name(wave, waves)}'
        )
        problems.append(build_error("unknown-wave", detail))
    names = [site.name for site in definition.sites]
    for pattern in patterns:
        if any(fnmatchcase(name, pattern) for name in names):
            # It selects sites.
            continue
        hint = suggest_name(pattern, names)
        former_sites = [item for item in undeclared if fnmatchcase(item.name, pattern)]
        if former_sites:
            states = format_list(
                f"{item.name}'s state {item.state_location}" for item in former_sites
            )
            hint = f" Existing states: {states}."
        detail = f'-site: there is no site "{pattern}".{hint}'
        problems.append(build_error("unknown-site", detail))
    selected_names = []
    for site in definition.sites:
        is_in_wave = wave in ("", site.wave)
        if is_in_wave and is_site_requested(site.name, patterns):
            selected_names.append(site.name)
    if not selected_names and not problems:
        detail = "No site of that wave has such a name. Nothing was planned."
        problems.append(build_error("unknown-site", detail))
    return selected_names, problems


def is_site_requested(name: str, patterns: Sequence[str]) -> bool:
    """Return True if a site is selected by one of these name patterns, or if there are none."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


class FleetPlanningResult(Struct, frozen=True):
    """Plan of a fleet, with diagnostics about the whole."""

    plan: FleetPlan
    diagnostics: tuple[Diagnostic, ...] = ()


def plan_fleet(
    fleet: Fleet,
    names: Sequence[str],
    engine: TaskEngine,
    *,
    location: CommandContext,
    out: str = "",
    signer: Signer | None = None,
    undeclared: tuple[UndeclaredSite, ...] = (),
    max_age: float = 0,
    after_merge: str = "",
    limits: Sequence[GuardRailLimit] = (),
    on_result: Callable[[SiteResult], None] = lambda _: None,
    on_plan: Callable[[FleetPlan], None] = lambda _: None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> FleetPlanningResult:
    """Plan the sites of `names`.

    Write the plan to `out` (if not ""), signed if a signer is given; after an error, write only the
    errors. `max_age` is its maximum age at apply in seconds, `after_merge` what a merge does. A
    broken limit of `limits` is an error, or a warning if it does not block.
    `on_result` is called for each result, `on_plan` for the whole plan before the write.
    """
    definition = fleet.definition
    context = replace(fleet.context, guard_rails=tuple(limit.name for limit in limits))
    spool = Path(location.data_directory, f"sites-{context.session}").absolute()
    # Workers write the plans of sites to the spool directory, until they are in the one file `out`.
    if out:
        try:
            make_directories(spool, 0o700)
        except OSError as problem:
            error = build_error(
                "plan-save-failed", f'Plans cannot be stored in "{spool}": {problem.strerror}.'
            )
            return FleetPlanningResult(
                _build_plan(definition, context, {}), (error, *save_failed_plan([error], out))
            )
        context = replace(context, spool=str(spool))
    results: dict[str, SiteResult] = {}
    shared_rows: dict[tuple[str, ...], tuple[str, ...]] = {}

    def record_result(task: Task, result: SiteResult) -> None:
        # Thousands of sites have equal rows; they are stored once.
        results[task.site] = replace(result, rows=shared_rows.setdefault(result.rows, result.rows))
        on_result(result)

    try:
        tasks = [Task(SiteTaskKind.PLAN, name, context) for name in names]
        remaining = engine.run_tasks_until_stopped(
            tasks, record_result, max_running=lambda: engine.parallelism, is_stopping=is_stopping
        )
        reason = "It was interrupted before this site was planned."
        results |= {
            task.site: SiteResult(task.site, SiteStatus.SKIPPED, reason) for task in remaining
        }
        fleet_plan = _build_plan(definition, context, {name: results[name] for name in names})
        # The states of sites have their own backends.
        origin = build_plan_origin(location, backend="", location="")
        fleet_plan = replace(
            fleet_plan,
            undeclared=undeclared,
            origin=origin,
            max_age=max_age,
            after_merge=after_merge,
        )
        fleet_plan, breaches = check_fleet_limits(fleet_plan, limits)
        on_plan(fleet_plan)
        problems = check_site_order(
            definition, {site.name: site.dependencies for site in fleet_plan.sites}
        )
        problems += breaches
        if remaining:
            problems.append(build_error("planning-interrupted", "Not all sites were planned."))
        if out and has_errors(problems):
            problems += save_failed_plan(problems, out)
        elif out:
            problems += save_fleet_plan(
                fleet_plan, spool, out, location.get_max_file_size(), signer
            )
            if signer is not None and not has_errors(problems):
                problems += write_fleet_statement(fleet_plan, out, location, signer)
        return FleetPlanningResult(fleet_plan, tuple(problems))
    finally:
        if out:
            with suppress(OSError):
                remove_tree(spool)


def _build_plan(
    definition: FleetDefinition, fleet: FleetContext, results: Mapping[str, SiteResult]
) -> FleetPlan:
    """Build the plan of a fleet from the results."""
    site_by_state = {
        result.state_location: name for name, result in results.items() if result.state_location
    }
    # By site: the other sites with states read by it.
    dependencies: dict[str, tuple[str, ...]] = {}
    for name, result in results.items():
        read_sites = {
            site_by_state[state] for state in result.read_states if state in site_by_state
        }
        dependencies[name] = tuple(sorted(read_sites - {name}))
    entries = definition.sites_by_name
    sites = tuple(
        build_planned_site(entries[name], results[name], dependencies[name]) for name in results
    )
    return FleetPlan(
        sites=sites,
        waves=definition.waves,
        now=fleet.now,
        definition_digest=definition.digest,
        digest=compute_fleet_digest(sites, definition.waves),
        allowed_sources=fleet.allowed_sources,
        is_confined=bool(fleet.confine),
        allow_remote=fleet.allow_remote,
    )


def check_site_order(
    definition: FleetDefinition, dependencies: Mapping[str, Sequence[str]]
) -> list[Diagnostic]:
    """Return one error for a cycle, or one for each dependency of a site on a later wave."""
    sites = definition.sites_by_name
    wave_positions = {wave.name: position for position, wave in enumerate(definition.waves)}
    cycle = _find_cycle(dependencies)
    if cycle:
        chain = " -> ".join(f'"{name}"' for name in (*cycle, cycle[0]))
        detail = f"These sites read each other's states in a cycle: {chain}."
        return [build_error("cycle", detail, sites[cycle[0]].span)]
    problems: list[Diagnostic] = []
    for name, other_sites in dependencies.items():
        wave = sites[name].wave
        for other in other_sites:
            other_wave = sites[other].wave
            if wave_positions[other_wave] > wave_positions[wave]:
                detail = (
                    f'The site "{name}" (wave "{wave}") reads the state of "{other}", which is '
                    f'applied later, in the wave "{other_wave}". Move it to that wave or a later '
                    "one."
                )
                problems.append(build_error("site-in-later-wave", detail, sites[name].span))
    return problems


def _find_cycle(dependencies: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the sites of a cycle of dependencies, in order; [] if there is none.

    Sites without pending dependencies are removed until none is left. Each remaining site depends
    on a remaining one, so a path along such dependencies, from the first name, reaches a site of
    the path again.
    """
    pending = {name: set(other_sites) for name, other_sites in dependencies.items()}
    while free := [
        name for name, other_sites in pending.items() if other_sites.isdisjoint(pending)
    ]:
        for name in free:
            del pending[name]
    if not pending:
        return []
    path = [min(pending)]
    while (following := min(pending[path[-1]] & pending.keys())) not in path:
        path.append(following)
    return path[path.index(following) :]


def split_wave_by_dependencies(
    names: Sequence[str], dependencies: Mapping[str, Sequence[str]]
) -> list[list[str]]:
    """Split the sites of a wave into rounds.

    Every site is in a later round than its dependencies in the wave. If b and c read the state of
    a, and d that of c, the rounds are [a], [b, c] and [d].
    """
    remaining = list(names)
    rounds: list[list[str]] = []
    while remaining:
        unplaced = set(remaining)
        ready = [name for name in remaining if unplaced.isdisjoint(dependencies.get(name, ()))]
        # All remaining ones for a cycle; a plan with a cycle is rejected.
        rounds.append(ready or remaining)
        unplaced.difference_update(rounds[-1])
        remaining = [name for name in remaining if name in unplaced]
    return rounds


def run_fleet_question(
    fleet: Fleet,
    names: Sequence[str],
    engine: TaskEngine,
    question: SiteQuestion,
    is_stopping: Callable[[], bool],
) -> list[SiteResult]:
    """Run a question on each site; return the results in the order of names.

    A question is split in parts: samples for certainty, racks for failures. Workers run the parts
    at the same time, and the results of a site are merged.
    """
    # Number of parts per site. The samples of a part are `runs`.
    count = 1
    runs = question.runs
    if question.kind is QuestionKind.CERTAINTY:
        count = ceil(runs / RUNS_PER_PART)
        # Without a remainder: runs above RUNS_PER_PART are a multiple of it.
        runs //= count
    elif question.kind is QuestionKind.FAILURE:
        # Some parts for every worker, even with few sites.
        count = ceil(_PARTS_PER_WORKER * engine.parallelism / len(names))
    parts = [replace(question, part=part, parts=count, runs=runs) for part in range(count)]
    results: dict[str, dict[int, SiteResult]] = {name: {} for name in names}

    def record_part(task: Task, result: SiteResult) -> None:
        assert task.question is not None, "a task that asks"
        results[task.site][task.question.part] = result

    tasks = [
        Task(SiteTaskKind.ASK, name, fleet.context, question=part)
        for name in names
        for part in parts
    ]
    engine.run_tasks_until_stopped(
        tasks, record_part, max_running=lambda: engine.parallelism, is_stopping=is_stopping
    )
    return [merge_site_results(name, results[name], len(parts)) for name in names]


def merge_site_results(name: str, parts: Mapping[int, SiteResult], count: int) -> SiteResult:
    """Merge the `count` parts of the answer for one site; `parts` has them by number.

    If a part is missing, the result is skipped. If a part was rejected, or parts are about
    different plans, the result is rejected.
    """
    if len(parts) < count:
        return SiteResult(
            name, SiteStatus.SKIPPED, "It was interrupted before this site was finished."
        )
    ordered = [parts[part] for part in range(count)]
    rejected = select_results(ordered, SiteStatus.REJECTED)
    if rejected:
        return rejected[0]
    if len({(part_result.status, part_result.digest) for part_result in ordered}) > 1:
        reason = "Its plan input changed during the run. Run the command again."
        return SiteResult(name, SiteStatus.REJECTED, reason)
    # Racks are dealt to parts in turn; interleaving restores the site's order. Figures with the
    # same name are added. By name of the finding.
    merged: dict[str, SiteQuestionFinding] = {}
    rounds = zip_longest(*(part_result.findings for part_result in ordered))
    # Some parts have fewer racks.
    for finding in filter(None, chain.from_iterable(rounds)):
        existing = merged.get(finding.name)
        if existing is None:
            merged[finding.name] = finding
        else:
            figures = {
                key: figure + finding.figures.get(key, 0)
                for key, figure in existing.figures.items()
            }
            is_problem = existing.is_problem or finding.is_problem
            merged[finding.name] = replace(existing, figures=figures, is_problem=is_problem)
    return replace(ordered[0], findings=tuple(merged.values()))


def read_site_locks(
    engine: TaskEngine, fleet: FleetContext, names: Sequence[str]
) -> list[SiteResult]:
    """Return the status of each site with its lock; `rejected` if it cannot be read.

    Raises TaskEngineError.
    """
    return _run_on_all_sites(engine, fleet, names, SiteTaskKind.STATUS)


def read_locked_sites(
    engine: TaskEngine, fleet: FleetContext, names: Sequence[str]
) -> list[SiteResult]:
    """Return the status of the locked sites, in the order of the names.

    Raises TaskEngineError.
    """
    return [result for result in read_site_locks(engine, fleet, names) if result.lock is not None]


def release_locks(
    engine: TaskEngine, fleet: FleetContext, names: Sequence[str], unlock_host: str = ""
) -> list[SiteResult]:
    """Release the locks of `unlock_host`, else those of this run.

    Locks of sites with a started apply are kept. The status of a result is `applied` for a released
    lock, `skipped` for others, `rejected` if unreadable. Raises TaskEngineError.
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
    """Run a task for each site.

    Return results in the order of the names; sites not started after a stop have none.
    """
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
    fleet: Fleet, names: Sequence[str], engine: TaskEngine, is_stopping: Callable[[], bool]
) -> FleetPlan:
    """Read the status of each site: applied, interrupted, or not applied yet."""
    definition = fleet.definition
    context = fleet.context
    results = _run_on_all_sites(
        engine, context, names, SiteTaskKind.STATUS, is_stopping=is_stopping
    )
    entries = definition.sites_by_name
    sites = tuple(
        build_planned_site(entries[result.site], result, dependencies=()) for result in results
    )
    return FleetPlan(sites, definition.waves, context.now, definition.digest)
