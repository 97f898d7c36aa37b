"""Planning of every site of a fleet on an engine, and the order of sites: one that reads another's state is applied
after it.
"""

import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error, has_errors, suggest_name
from nexusform.diagnostics.phrases import format_list
from nexusform.domains.sites.types.fleet_plan import (
    FleetDefinition,
    FleetPlan,
    UndeclaredSite,
    build_planned_site,
    compute_fleet_digest,
)
from nexusform.domains.sites.types.site_tasks import (
    FleetContext,
    SiteResult,
    SiteStatus,
    SiteTaskKind,
    Task,
    TaskEngine,
)
from nexusform.domains.sites.workflow.definition_file import read_definition
from nexusform.domains.sites.workflow.fleet_plan_file import save_failed_plan, save_fleet_plan, write_fleet_statement
from nexusform.providers.clock import read_clock
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.plan_files.plan_statement import Signer


class OpenedFleet(Struct, frozen=True):
    """Fleet that was read, None if invalid, with diagnostics."""

    definition: FleetDefinition | None
    fleet: FleetContext | None
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]


class FleetOptions(Struct, frozen=True):
    """Command-line options common to all sites: locks, and allowed source directories."""

    has_lock: bool = True
    lock_timeout: float = 0.0
    allowed_sources: tuple[str, ...] = ()


def open_fleet(location: CommandContext, options: FleetOptions, now: str = "") -> OpenedFleet:
    """Read nexusform.sites.hcl. `now`: current time of plans, "" for the present."""
    now = now or read_clock(location.environment)
    allowed_directories = tuple(str(Path(directory).absolute()) for directory in options.allowed_sources)
    definition, problems, sources = read_definition(".", location.confinement, now, allowed_directories)
    if definition is None:
        return OpenedFleet(None, None, tuple(problems), sources)
    fleet = FleetContext(
        root=str(Path.cwd()),
        definition_digest=definition.digest,
        now=now,
        session=secrets.token_hex(8),
        confine=location.confinement.root,
        hidden_paths=location.confinement.hidden,
        allow_remote=location.allow_remote,
        allowed_sources=allowed_directories,
        limits=dict(location.limits),
        has_lock=options.has_lock,
        lock_timeout=options.lock_timeout,
    )
    return OpenedFleet(definition, fleet, tuple(problems), sources)


def select_sites(
    definition: FleetDefinition, patterns: Sequence[str], wave: str, undeclared: Sequence[UndeclaredSite] = ()
) -> tuple[list[str], list[Diagnostic]]:
    """Select the names of sites by patterns and wave (none or "": all); report a pattern or wave without a site."""
    problems: list[Diagnostic] = []
    waves = [item.name for item in definition.waves]
    if wave not in ("", *waves):
        wave_list = ", ".join(f'"{name}"' for name in waves)
        detail = f'-wave: there is no wave "{wave}". There are: {wave_list}.{suggest_name(wave, waves)}'
        problems.append(build_error("unknown-wave", detail))
    names = [site.name for site in definition.sites]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            existing_states = [  # of sites no longer declared
                f"{item.name}'s state {item.state_location}" for item in undeclared if fnmatchcase(item.name, pattern)
            ]
            hint = (
                f" Existing states: {format_list(existing_states)}."
                if existing_states
                else suggest_name(pattern, names)
            )
            detail = f'-site: there is no site "{pattern}".{hint}'
            problems.append(build_error("unknown-site", detail))
    selected_names = [
        site.name for site in definition.sites if is_site_requested(site.name, patterns) and wave in ("", site.wave)
    ]
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
    opened: OpenedFleet,
    names: Sequence[str],
    engine: TaskEngine,
    *,
    location: CommandContext,
    out: str = "",
    signer: Signer | None = None,
    undeclared: tuple[UndeclaredSite, ...] = (),
    on_result: Callable[[SiteResult], None] = lambda _: None,
    on_plan: Callable[[FleetPlan], None] = lambda _: None,
    is_stopping: Callable[[], bool] = lambda: False,
) -> FleetPlanningResult:
    """Plan the sites of `names`. Write the plan to `out` (if not ""), signed if a signer is given; after an error,
    write only the errors. `on_result` is called for each result, `on_plan` for the whole plan before the write.
    """
    definition, fleet = opened.definition, opened.fleet
    assert definition is not None, "a fleet that was read"
    assert fleet is not None, "a fleet that was read"
    spool = Path(location.data_directory, f"sites-{fleet.session}").absolute()
    if out:  # workers write the plans of sites to the spool directory, until they are in the one file `out`
        try:
            spool.mkdir(mode=0o700, parents=True)
        except OSError as problem:
            error = build_error("plan-save-failed", f'Plans cannot be stored in "{spool}": {problem.strerror}.')
            return FleetPlanningResult(_build_plan(definition, fleet, {}), (error, *save_failed_plan([error], out)))
        fleet = replace(fleet, spool=str(spool))
    results: dict[str, SiteResult] = {}
    shared_rows: dict[tuple[str, ...], tuple[str, ...]] = {}

    def record_result(task: Task, result: SiteResult) -> None:
        # Thousands of sites have equal rows; they are stored once.
        results[task.site] = replace(result, rows=shared_rows.setdefault(result.rows, result.rows))
        on_result(result)

    try:
        tasks = [Task(SiteTaskKind.PLAN, name, fleet) for name in names]
        remaining = engine.run_tasks_until_stopped(
            tasks, record_result, max_running=lambda: engine.parallelism, is_stopping=is_stopping
        )
        reason = "It was interrupted before this site was planned."
        results |= {task.site: SiteResult(task.site, SiteStatus.SKIPPED, reason) for task in remaining}
        fleet_plan = _build_plan(definition, fleet, {name: results[name] for name in names})
        fleet_plan = replace(fleet_plan, undeclared=undeclared)
        on_plan(fleet_plan)
        problems = check_site_order(definition, {site.name: site.dependencies for site in fleet_plan.sites})
        if remaining:
            problems.append(build_error("planning-interrupted", "Not all sites were planned."))
        if out and has_errors(problems):
            problems += save_failed_plan(problems, out)
        elif out:
            problems += save_fleet_plan(fleet_plan, spool, out, location.get_max_file_size(), signer)
            if signer is not None and not has_errors(problems):
                problems += write_fleet_statement(fleet_plan, out, location, signer)
        return FleetPlanningResult(fleet_plan, tuple(problems))
    finally:
        if out:
            shutil.rmtree(spool, ignore_errors=True)


def _build_plan(definition: FleetDefinition, fleet: FleetContext, results: Mapping[str, SiteResult]) -> FleetPlan:
    """Build the plan of a fleet from the results."""
    site_by_state = {result.state_location: name for name, result in results.items() if result.state_location}
    dependencies = {  # by site: the other sites with states read by it
        name: tuple(sorted({site_by_state[state] for state in result.read_states if state in site_by_state} - {name}))
        for name, result in results.items()
    }
    entries = definition.sites_by_name
    sites = tuple(build_planned_site(entries[name], results[name], dependencies[name]) for name in results)
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


def check_site_order(definition: FleetDefinition, dependencies: Mapping[str, Sequence[str]]) -> list[Diagnostic]:
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
                    f'The site "{name}" (wave "{wave}") reads the state of "{other}", which is applied '
                    f'later, in the wave "{other_wave}". Move it to that wave or a later one.'
                )
                problems.append(build_error("site-in-later-wave", detail, sites[name].span))
    return problems


def _find_cycle(dependencies: Mapping[str, Sequence[str]]) -> list[str]:
    """Find a cycle of sites, following dependencies from the first name; [] if there is none."""
    pending = {name: set(other_sites) for name, other_sites in dependencies.items()}
    while free := [name for name, other_sites in pending.items() if not other_sites & pending.keys()]:
        for name in free:
            del pending[name]
    if not pending:
        return []
    ring = [min(pending)]  # each pending site depends on a pending one, so a path of dependencies ends in a cycle
    while (following := min(pending[ring[-1]] & pending.keys())) not in ring:
        ring.append(following)
    return ring[ring.index(following) :]


def split_wave_by_dependencies(names: Sequence[str], dependencies: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Split the sites of a wave into rounds, each after its dependencies in the wave."""
    remaining = list(names)
    ordered: list[list[str]] = []
    while remaining:
        ready = [name for name in remaining if not set(dependencies.get(name, ())) & set(remaining)]
        ordered.append(ready or remaining)  # all remaining ones for a cycle, rejected by planning already
        remaining = [name for name in remaining if name not in set(ordered[-1])]
    return ordered
