"""`nexusform sites apply`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.cli.apply import verification_of
from nexusform.cli.arguments import group, optional, switch, text, texts
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, duration, place_of
from nexusform.cli.interrupts import graceful_interrupts
from nexusform.cli.report_flag import parse_reports, to_stdout, write_report, write_to_stdout
from nexusform.cli.screen import Screen, input_allowed
from nexusform.diagnostics import Diagnostic, error, has_errors, warning
from nexusform.domains.sites.cli.flags import EngineFlags
from nexusform.domains.sites.cli.plan import FORMATS
from nexusform.domains.sites.rendering.outcome import outcome_outline
from nexusform.domains.sites.types.definition import Wave
from nexusform.domains.sites.types.fleet_plan import FleetPlan
from nexusform.domains.sites.types.work import Answer, Status
from nexusform.domains.sites.workflow.fleet_file import read_fleet_plan
from nexusform.domains.sites.workflow.fleet_planning import FleetTerms, OpenedFleet, open_fleet
from nexusform.domains.sites.workflow.progress import Progress, read_progress
from nexusform.domains.sites.workflow.undeclared import remember_states, undeclared_sites
from nexusform.domains.sites.workflow.waves import Applying, Stop, Watching, apply_waves
from nexusform.ports import FileProblem
from nexusform.rendering.answers.outline import outline_text
from nexusform.source import SourceFile
from nexusform.words import counted, form
from nexusform.workflow.opening.place import confinement_of
from nexusform.workflow.opening.surroundings import SystemClock

_FEW_SITES: Final = 30  # so many are told of one by one


class ApplyArguments(Struct, frozen=True, kw_only=True):
    """What `sites apply` takes."""

    planfile: str | None = optional(None)
    wave: str = text("Approve and apply only this wave", metavar="WAVE")
    resume: bool = switch("Continue an interrupted apply")
    verify: tuple[str, ...] = texts("Reject a plan without this signature", metavar="key:FILE")
    lock_timeout: str = text("Wait this long for the lock of a site", metavar="DURATION", default="0s")
    input: bool = switch("Stop before a wave without approval", default=True)
    as_json: bool = switch("Print a JSON document", flag="json")
    report: tuple[str, ...] = texts("Write a report to a file (- is stdout)", metavar="FORMAT:PATH")
    engine: EngineFlags = group(EngineFlags)
    view: ViewFlags = group(ViewFlags)


class _Job(Struct, frozen=True):
    """A plan of sites that is to be applied."""

    plan: FleetPlan
    opened: OpenedFleet
    progress: Progress
    waves: tuple[Wave, ...]


@command("apply", ApplyArguments)
def apply(arguments: ApplyArguments) -> int:
    """Apply a plan saved by `sites plan -out=FILE`, wave by wave.

    Before a wave, all its sites are locked and planned again. A plan that differs from the approved
    one stops the wave before its first write. Exit code 0, or 1 if a site is rejected or fails, or
    a wave stops.
    """
    screen = arguments.view.screen()
    reports = parse_reports(arguments.report, FORMATS.keys())
    if verification_of(arguments.verify).replan:
        raise click.UsageError("-verify=replan: plans of sites are made anew before every wave.")
    aside = arguments.as_json or to_stdout(reports)
    if not arguments.engine.usable(screen):
        return 1
    job, problems, sources = _opened(arguments)
    screen.diagnostics(problems, sources, aside=aside)
    if job is None:
        return 1
    applying, stop = _applied(job, arguments, screen)
    if applying is None:
        return 1
    remember_states(job.opened, place_of(), applying.answers.values())
    outcome = _outcome(job, applying)
    for report in reports:
        write_report(FORMATS[report.format](outcome), report)
    if arguments.as_json:
        write_to_stdout(FORMATS["json"](outcome) + b"\n", "json")
    elif not to_stdout(reports):
        outline = outcome_outline(outcome, bad=stop is not None)
        screen.out(outline_text(outline, colour=screen.colour, width=screen.width), end="")
    if stop is not None:
        resume = f" `nexusform sites apply -resume {arguments.planfile}` goes on once that is mended."
        screen.diagnostics([error(stop.id, f"{stop.why}{resume if stop.resumable else ''}")], {})
        return 1
    return 1 if outcome.of_status(Status.REFUSED, Status.FAILED, Status.SKIPPED) else 0


def _opened(
    arguments: ApplyArguments,
) -> tuple[_Job | None, list[Diagnostic], Mapping[str, SourceFile]]:
    """The plan, the sites as they are now, how far it was applied before, and the text of the sites' file."""
    if arguments.planfile is None:
        detail = (
            "Name the plan: nexusform sites plan -out=FILE makes one, nexusform sites apply FILE applies it."
        )
        return None, [error("approval-is-needed", detail)], {}
    place = place_of()
    plan, problems = read_fleet_plan(arguments.planfile, place, verification_of(arguments.verify).key_files)
    if plan is None:
        return None, problems, {}
    if plan.confined and not place.confinement.root:
        # It stays as far trusted as it was reviewed.
        confinement = confinement_of("true", place.environment)
        place = replace(place, confinement=confinement, allow_remote=plan.allow_remote)
    terms = FleetTerms(lock_timeout=duration(arguments.lock_timeout), allowed_sources=plan.allowed_sources)
    opened = open_fleet(place, terms, plan.now)
    problems += opened.diagnostics
    if opened.definition is None:
        return None, problems, opened.sources
    if opened.definition.digest != plan.definition:
        detail = (
            "nexusform.sites.hcl, or a file that it reads, is another one than the plan was made of. Sites "
            "whose plan comes to the same are applied as they were approved; waves run as they were planned."
        )
        problems.append(warning("sites-changed-since-the-plan", detail))
    try:
        progress = read_progress(arguments.planfile, plan.identity)
    except FileProblem as problem:
        return None, [*problems, error("the-plan-cannot-be-read", str(problem))], opened.sources
    waves, wrong = _waves(arguments, plan, progress)
    problems += wrong
    job = _Job(plan, opened, progress, waves)
    return (None if has_errors(problems) else job), problems, opened.sources


def _waves(
    arguments: ApplyArguments, plan: FleetPlan, progress: Progress
) -> tuple[tuple[Wave, ...], list[Diagnostic]]:
    """The waves that are to be applied now."""
    peopled = tuple(wave for wave in plan.waves if plan.of_wave(wave.name))
    names = [wave.name for wave in peopled]
    left = [name for name in names if not progress.is_finished(name)]
    # A wave in which nothing changes holds up nobody.
    due = [name for name in left if plan.has_work(name)]
    unfinished = progress.unfinished()
    if not left or (progress.lines and not due and not unfinished):
        detail = "All of it was applied already. Plan again to see what else there is to do."
        return (), [error("saved-plan-was-applied-already", detail)]
    if arguments.wave in names and arguments.wave not in left:
        return (), [_applied_before(arguments, plan, due or left)]
    if unfinished and not arguments.resume:
        detail = (
            f'The wave "{unfinished}" was begun and did not come to its end. '
            f"`nexusform sites apply -resume {arguments.planfile}` goes on with it."
        )
        return (), [error("fleet-apply-was-begun-before", detail)]
    if not unfinished and arguments.resume and len(left) == len(names):
        return (), [error("nothing-to-resume", "No apply of this plan was begun.")]
    if not arguments.wave:
        return peopled, []
    if arguments.wave not in names:
        known = ", ".join(f'"{name}"' for name in names)
        return (), [
            error("unknown-wave", f'-wave: the plan has no wave "{arguments.wave}". It has: {known}.')
        ]
    if due and arguments.wave in due[1:]:
        detail = (
            f'The wave "{due[0]}" comes before "{arguments.wave}" and was not applied yet. To do '
            f"without it, plan -wave={arguments.wave} alone."
        )
        return (), [error("wave-was-stopped", detail)]
    return (plan.wave_named(arguments.wave),), []


def _applied_before(arguments: ApplyArguments, plan: FleetPlan, due: Sequence[str]) -> Diagnostic:
    """That the wave which was named is done, and what of the plan is left."""
    count = sum(len(plan.of_wave(name)) for name in due)
    detail = (
        f'The wave "{arguments.wave}" of this plan was applied already. {counted(count, "site")} of it '
        f"{form(count, 'waits', 'wait')} in other waves: `nexusform sites apply -wave={due[0]} "
        f"{arguments.planfile}` goes on."
    )
    return error("wave-was-applied-already", detail)


def _applied(job: _Job, arguments: ApplyArguments, screen: Screen) -> tuple[Applying | None, Stop | None]:
    """Apply, telling what happens; None where no engine or no file can be used."""
    assert job.opened.fleet is not None, "a fleet that was read"
    with arguments.engine.opened(screen) as engine, graceful_interrupts(screen.err) as interrupts:
        if engine is None:
            return None, None
        watching = _watching(job, arguments, screen, interrupts.stopping)
        applying = Applying(job.plan, job.opened.fleet, engine, job.progress, SystemClock(), watching)
        try:
            return applying, apply_waves(applying, job.waves)
        except FileProblem as problem:
            screen.diagnostics([error("wave-was-stopped", str(problem))], {})
    return None, None


def _watching(job: _Job, arguments: ApplyArguments, screen: Screen, stopping: object) -> Watching:
    """Who looks on: the screen."""
    assert callable(stopping), "asked before each site"
    few = len(job.plan.sites) <= _FEW_SITES
    say = screen.err if arguments.as_json else screen.out

    def told(answer: Answer) -> None:
        bad = answer.status in (Status.REFUSED, Status.FAILED)
        if few or bad:
            why = f": {answer.reason}" if answer.reason else ""
            say(f"  {answer.site}: {answer.status.value}{why}")

    def approves(wave: Wave, count: int) -> bool:
        if arguments.wave == wave.name:
            return True
        if not input_allowed(arguments.input) or arguments.as_json or not _somebody_answers():
            return False
        question = f'Do you want to apply the wave "{wave.name}" ({counted(count, "site")})?'
        return screen.ask(question, "  Only 'yes' will be accepted to approve.") == "yes"

    return Watching(say, told, approves, stopping)


def _somebody_answers() -> bool:
    import sys

    return sys.stdin.isatty()


def _outcome(job: _Job, applying: Applying) -> FleetPlan:
    """The plan with what came of its sites; those of waves that were not begun are skipped."""
    wanted = {wave.name for wave in job.waves}
    sites = []
    for site in job.plan.sites:
        answer = applying.answers.get(site.name)
        if answer is None and site.wave not in wanted:
            continue
        if answer is None and job.progress.is_finished(site.wave):
            answer = replace(site.answer, status=Status.APPLIED)
            if site.answer.status is not Status.PLANNED:
                answer = site.answer
        elif answer is None:
            answer = Answer(site.name, Status.SKIPPED, "Its wave was not begun.")
        sites.append(replace(site, answer=_as_planned(answer, site.answer)))
    undeclared = undeclared_sites(job.opened, place_of())
    return replace(job.plan, sites=tuple(sites), undeclared=undeclared)


def _as_planned(answer: Answer, planned: Answer) -> Answer:
    """What came of a site, with what its plan said that it does."""
    if answer.status is not Status.APPLIED:
        return replace(answer, rows=answer.rows or planned.rows)
    return replace(
        answer,
        rows=answer.rows or planned.rows,
        stake=planned.stake,
        leaving=planned.leaving,
        at_stake=planned.at_stake,
        redundancy_lost=planned.redundancy_lost,
    )
