"""Plan every site of a fleet, on all workers of an engine."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, did_you_mean, error, has_errors
from nexusform.domains.sites.ports import Engine
from nexusform.domains.sites.types.definition import FleetDefinition
from nexusform.domains.sites.types.fleet_plan import FleetPlan, UndeclaredSite, fleet_digest, planned_site
from nexusform.domains.sites.types.work import Answer, Fleet, Kind, Status, Task
from nexusform.domains.sites.workflow.definition_file import read_definition
from nexusform.domains.sites.workflow.fleet_file import save_fleet_plan
from nexusform.domains.sites.workflow.order import order_problems, sites_before
from nexusform.source import SourceFile
from nexusform.words import listed
from nexusform.workflow.opening.place import Place
from nexusform.workflow.opening.surroundings import plan_time
from nexusform.workflow.plan_files.saved_plans import Signer


class OpenedFleet(Struct, frozen=True):
    """A fleet that was read: None where it is wrong, and what is to be said of it."""

    definition: FleetDefinition | None
    fleet: Fleet | None
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]


class FleetTerms(Struct, frozen=True):
    """What the command line says of all sites: locks, and where sources may lead."""

    lock: bool = True
    lock_timeout: float = 0.0
    allowed_sources: tuple[str, ...] = ()


def open_fleet(place: Place, terms: FleetTerms, now: str = "") -> OpenedFleet:
    """Read nexusform.sites.hcl. `now` is the time that plans take as now, "" for the present."""
    now = now or plan_time(place.environment)
    allowed = tuple(str(Path(each).absolute()) for each in terms.allowed_sources)
    definition, problems, sources = read_definition(".", place.confinement, now, allowed)
    if definition is None:
        return OpenedFleet(None, None, tuple(problems), sources)
    fleet = Fleet(
        root=str(Path.cwd()),
        definition=definition.digest,
        now=now,
        session=secrets.token_hex(8),
        confine=place.confinement.root,
        hidden=place.confinement.hidden,
        allow_remote=place.allow_remote,
        allowed_sources=allowed,
        limits=dict(place.limits),
        lock=terms.lock,
        lock_timeout=terms.lock_timeout,
    )
    return OpenedFleet(definition, fleet, tuple(problems), sources)


def selected(
    definition: FleetDefinition, patterns: Sequence[str], wave: str, gone: Sequence[UndeclaredSite] = ()
) -> tuple[list[str], list[Diagnostic]]:
    """The names of the sites that are asked for; an error for what selects none, or none but `gone` ones."""
    problems: list[Diagnostic] = []
    waves = [each.name for each in definition.waves]
    if wave and wave not in waves:
        known = ", ".join(f'"{name}"' for name in waves)
        detail = f'-wave: there is no wave "{wave}". There are: {known}.{did_you_mean(wave, waves)}'
        problems.append(error("unknown-wave", detail))
    names = [site.name for site in definition.sites]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            standing = [
                f"{each.name}'s state {each.state}" for each in gone if fnmatchcase(each.name, pattern)
            ]
            hint = f" What was: {listed(standing)} stands." if standing else did_you_mean(pattern, names)
            detail = f'-site: no site is called "{pattern}".{hint}'
            problems.append(error("unknown-site", detail))
    chosen = [
        site.name
        for site in definition.sites
        if (not patterns or any(fnmatchcase(site.name, pattern) for pattern in patterns))
        and (not wave or site.wave == wave)
    ]
    if not chosen and not problems:
        detail = "No site is both in that wave and called so: nothing was planned."
        problems.append(error("unknown-site", detail))
    return chosen, problems


class Made(Struct, frozen=True):
    """The plan of a fleet, and what is wrong with it as a whole."""

    plan: FleetPlan
    diagnostics: tuple[Diagnostic, ...] = ()


def plan_fleet(
    opened: OpenedFleet,
    names: Sequence[str],
    engine: Engine,
    *,
    place: Place,
    out: str = "",
    signer: Signer | None = None,
    undeclared: tuple[UndeclaredSite, ...] = (),
    told: Callable[[Answer], None] = lambda _: None,
    planned: Callable[[FleetPlan], None] = lambda _: None,
    stopping: Callable[[], bool] = lambda: False,
) -> Made:
    """Plan these sites, and write the plan of all where `out` says, signed when a signer is there.

    `told` hears of each site, `planned` of all of them before they are written.
    """
    definition, fleet = opened.definition, opened.fleet
    assert definition is not None, "a fleet that was read"
    assert fleet is not None, "a fleet that was read"
    spool = Path(place.data_directory, f"sites-{fleet.session}").absolute()
    if out:
        try:
            spool.mkdir(mode=0o700, parents=True)
        except OSError as problem:
            detail = f'Plans cannot be gathered in "{spool}": {problem.strerror}.'
            return Made(_plan(definition, fleet, {}), (error("the-plan-cannot-be-saved", detail),))
        fleet = replace(fleet, spool=str(spool))
    answers: dict[str, Answer] = {}
    known: dict[tuple[str, ...], tuple[str, ...]] = {}

    def done(task: Task, answer: Answer) -> None:
        # Thousands of sites do the same: its rows are kept once.
        answers[task.site] = replace(answer, rows=known.setdefault(answer.rows, answer.rows))
        told(answer)

    try:
        tasks = [Task(Kind.PLAN, name, fleet) for name in names]
        left = engine.run(tasks, done, at_once=lambda: engine.workers, stopping=stopping)
        for task in left:
            answers[task.site] = Answer(task.site, Status.SKIPPED, "It was interrupted before this site.")
        made = _plan(definition, fleet, {name: answers[name] for name in names})
        made = replace(made, undeclared=undeclared)
        planned(made)
        problems = order_problems(definition, {site.name: site.after for site in made.sites})
        if left:
            problems.append(error("planning-was-interrupted", "Not all sites were planned."))
        if out and not has_errors(problems):
            problems += save_fleet_plan(made, spool, out, place.largest_file(), signer)
        return Made(made, tuple(problems))
    finally:
        if out:
            shutil.rmtree(spool, ignore_errors=True)


def _plan(definition: FleetDefinition, fleet: Fleet, answers: Mapping[str, Answer]) -> FleetPlan:
    """The answers as the plan of a fleet."""
    before = sites_before(list(answers.values()))
    entries = {site.name: site for site in definition.sites}
    sites = tuple(planned_site(entries[name], answers[name], before.get(name, ())) for name in answers)
    return FleetPlan(
        sites=sites,
        waves=definition.waves,
        now=fleet.now,
        definition=definition.digest,
        digest=fleet_digest(sites, definition.waves),
        allowed_sources=fleet.allowed_sources,
        confined=bool(fleet.confine),
        allow_remote=fleet.allow_remote,
    )
