"""`nexusform sites apply`."""

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from typing import Final

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.cli.apply import parse_verification
from nexusform.cli.arguments import (
    declare_flag_group,
    declare_optional_positional,
    declare_repeatable_text,
    declare_report_flags,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.interrupts import handle_interrupts
from nexusform.cli.report_flag import has_stdout_report, parse_reports
from nexusform.cli.shared_flags import (
    ViewFlags,
    create_context,
    declare_revocations_flag,
    parse_duration,
    parse_max_age,
)
from nexusform.cli.terminal_screen import Screen, is_input_allowed
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    SourceFile,
    build_error,
    build_warning,
    has_errors,
)
from nexusform.diagnostics.phrases import format_count, select_word_form
from nexusform.domains.sites.cli.plan import FORMATS, write_plan_reports
from nexusform.domains.sites.cli.site_flags import PROCESSES, TaskEngineFlags, make_engine
from nexusform.domains.sites.rendering.site_reports import build_apply_report
from nexusform.domains.sites.types.fleet_plan import FleetPlan, Wave
from nexusform.domains.sites.types.site_tasks import SiteResult, SiteStatus, TaskEngineError
from nexusform.domains.sites.workflow.fleet_plan_file import read_fleet_plan
from nexusform.domains.sites.workflow.fleet_tasks import Fleet, open_fleet
from nexusform.domains.sites.workflow.undeclared_states import (
    find_undeclared_sites,
    record_state_locations,
)
from nexusform.domains.sites.workflow.wave_progress import FleetApplyProgress, read_wave_progress
from nexusform.domains.sites.workflow.wave_runner import (
    ApplyObserver,
    FleetApply,
    WaveStop,
    apply_waves,
    stop_after_lost_engine,
)
from nexusform.files.external_files import AllowedWriter, ArgumentFile, PathValueForm
from nexusform.interfaces.plugins import FileProblem
from nexusform.rendering.text.report_text import render_report_text
from nexusform.workflow.opening.command_context import CommandContext, parse_confinement
from nexusform.workflow.opening.system_io import SystemClock
from nexusform.workflow.plan_files.plan_acceptance import (
    PlanIdentity,
    PlanVerification,
    check_plan_acceptance,
)
from nexusform.workflow.runs.evaluation_record import build_plan_origin

# Number of sites up to which each has a line.
_MAX_LISTED_SITES: Final = 30


class ApplyArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `sites apply`."""

    planfile: str | None = declare_optional_positional(None, file=ArgumentFile("plan of sites"))
    wave: str = declare_text_flag("Approve and apply only this wave", metavar="WAVE")
    resume: bool = declare_switch_flag("Continue an interrupted apply")
    verify: tuple[str, ...] = declare_repeatable_text(
        "Reject a plan without this signature",
        metavar="key:FILE",
        file=ArgumentFile("public key of signers", AllowedWriter.OPERATOR, PathValueForm.KEY),
    )
    max_age: str = declare_text_flag("Reject a plan older than this", metavar="DURATION")
    revocations: tuple[str, ...] = declare_revocations_flag()
    lock_timeout: str = declare_text_flag(
        "Wait this long for the lock of a site", metavar="DURATION", default="0s"
    )
    input: bool = declare_switch_flag("Stop before a wave without approval", default=True)
    as_json: bool = declare_switch_flag("Print a JSON document", flag="json")
    report: tuple[str, ...] = declare_report_flags()
    engine: TaskEngineFlags = declare_flag_group(TaskEngineFlags)
    view: ViewFlags = declare_flag_group(ViewFlags)


class _ApplyJob(Struct, frozen=True):
    """Plan of sites to apply."""

    plan: FleetPlan
    fleet: Fleet
    progress: FleetApplyProgress
    waves: tuple[Wave, ...]


@define_command("apply", ApplyArguments)
def apply(arguments: ApplyArguments) -> int:
    """Apply a plan saved by `sites plan -out=FILE`, wave by wave.

    Before a wave, all its sites are locked and planned again. A plan that differs from the approved
    one stops the wave before its first write. Exit code 0, or 1 if a site is rejected or fails, or
    a wave stops.
    """
    reports = parse_reports(arguments.report, FORMATS.keys())
    is_stdout_for_data = arguments.as_json or has_stdout_report(reports)
    screen = arguments.view.create_screen(is_aside=is_stdout_for_data)
    # Values for plans of one site.
    verification = replace(
        parse_verification(arguments.verify),
        max_age=parse_max_age(arguments.max_age),
        revocation_files=arguments.revocations,
    )
    if verification.replan:
        raise click.UsageError("-verify=replan: every wave plans its sites again.")
    if verification.is_ancestor:
        raise click.UsageError("-verify=ancestor is for plans of one site.")
    if arguments.revocations and not verification.key_files:
        raise click.UsageError("-revocations needs -verify=key:FILE, the key that signed the file.")
    arguments.engine.check_usable(screen)
    job, problems, sources = _open_apply_job(arguments, verification)
    screen.print_diagnostics(problems, sources)
    if job is None:
        return 1
    # Before the first write: it may fail.
    undeclared = find_undeclared_sites(job.fleet, create_context())
    fleet_apply, stop = _apply_job(job, arguments, screen)
    problems = record_state_locations(job.fleet, create_context(), fleet_apply.results.values())
    screen.print_diagnostics(problems, sources={})
    outcome = replace(_build_plan_with_results(job, fleet_apply), undeclared=undeclared)
    write_plan_reports(outcome, reports, as_json=arguments.as_json)
    if not is_stdout_for_data:
        report = build_apply_report(outcome, is_stopped=stop is not None)
        screen.print_text(
            render_report_text(report, colour=screen.colour, width=screen.width), end=""
        )
    if stop is not None:
        separator = "\n\n" if "\n" in stop.reason else " "
        hint = (
            f"{separator}`nexusform sites apply -resume {arguments.planfile}` continues once that "
            "is fixed."
        )
        screen.print_diagnostics(
            [build_error(stop.id, f"{stop.reason}{hint if stop.is_resumable else ''}")], {}
        )
        return 1
    return (
        1
        if outcome.select_by_status(SiteStatus.REJECTED, SiteStatus.FAILED, SiteStatus.SKIPPED)
        else 0
    )


def _open_apply_job(
    arguments: ApplyArguments, verification: PlanVerification
) -> tuple[_ApplyJob | None, list[Diagnostic], Mapping[str, SourceFile]]:
    """Open the plan, the definition and the progress of earlier applies, and select the waves.

    Return them as a job (None after an error), the problems, and the source files to
    show with them.
    """
    if arguments.planfile is None:
        detail = (
            "No plan given. Write one with nexusform sites plan -out=FILE, then run nexusform "
            "sites apply FILE."
        )
        return None, [build_error("approval-required", detail)], {}
    location = create_context()
    plan, problems = read_fleet_plan(arguments.planfile, location, verification.key_files)
    if plan is not None:
        problems += _check_acceptance(plan, verification, location)
    if plan is None or has_errors(problems):
        return None, problems, {}
    if plan.is_confined and not location.confinement.root:
        # To the work tree, as for the plan.
        confinement = parse_confinement("true", location.environment)
        location = replace(location, confinement=confinement, allow_remote=plan.allow_remote)
    timeout = parse_duration(arguments.lock_timeout)
    opened = open_fleet(
        location, plan.now, lock_timeout=timeout, allowed_sources=plan.allowed_sources
    )
    problems += opened.diagnostics
    if opened.fleet is None:
        return None, problems, opened.sources
    if opened.fleet.definition.digest != plan.definition_digest:
        detail = (
            "nexusform.sites.hcl, or a file that it reads, changed after the plan. Sites with an "
            "unchanged plan are applied as approved. Waves run as planned."
        )
        problems.append(build_warning("sites-changed-since-plan", detail))
    try:
        progress = read_wave_progress(arguments.planfile, plan.identity)
    except FileProblem as problem:
        return None, [*problems, build_error("unreadable-plan", str(problem))], opened.sources
    waves = [wave for wave in plan.waves if plan.select_wave(wave.name)]  # with sites
    obstacle = _find_wave_obstacle(arguments, plan, [wave.name for wave in waves], progress)
    if obstacle is not None:
        return None, [*problems, obstacle], opened.sources
    requested_waves = tuple(wave for wave in waves if arguments.wave in ("", wave.name))
    return _ApplyJob(plan, opened.fleet, progress, requested_waves), problems, opened.sources


def _check_acceptance(
    plan: FleetPlan, verification: PlanVerification, location: CommandContext
) -> list[Diagnostic]:
    """Return errors for a plan of sites that is withdrawn, too old, or of another place.

    The states of the sites have their own backends, so only the directory is compared.
    """
    identity = PlanIdentity(plan.identity, plan.origin, plan.now, plan.max_age)
    find_current = partial(build_plan_origin, location, backend="", location="")
    return check_plan_acceptance(identity, verification, location, find_current)


def _find_wave_obstacle(
    arguments: ApplyArguments, plan: FleetPlan, names: Sequence[str], progress: FleetApplyProgress
) -> Diagnostic | None:
    """Return the error if the requested wave may not be applied now, else None.

    Without -wave, all waves of the plan (`names`) are requested. An unfinished wave with changes is
    pending: it has to be applied before later waves. A wave in progress ("started") needs -resume.
    """
    wave = arguments.wave
    planfile = arguments.planfile
    unfinished = [name for name in names if not progress.is_finished(name)]
    pending = list(filter(plan.has_pending_sites, unfinished))
    # "": no wave is in progress.
    started_wave = progress.find_unfinished_wave()
    # All is applied, except for waves without changes.
    needs_no_run = bool(progress.lines) and not pending and not started_wave
    if not unfinished or needs_no_run:
        return build_error(
            "saved-plan-already-applied", "The whole plan was applied already. Plan again."
        )
    if wave in names and wave not in unfinished:
        remaining = pending or unfinished
        count = sum(len(plan.select_wave(name)) for name in remaining)
        detail = (
            f'The wave "{wave}" of this plan was applied already. {format_count(count, "site")} in '
            f"other waves {select_word_form(count, 'is', 'are')} not applied. Continue with "
            f"`nexusform sites apply -wave={remaining[0]} {planfile}`."
        )
        return build_error("wave-already-applied", detail)
    if started_wave and not arguments.resume:
        detail = (
            f'The wave "{started_wave}" was started and did not finish. `nexusform sites apply '
            f"-resume {planfile}` continues."
        )
        return build_error("sites-apply-already-started", detail)
    if arguments.resume and not started_wave and unfinished == names:
        return build_error("nothing-to-resume", "No apply of this plan was started.")
    if wave not in ("", *names):
        wave_list = ", ".join(f'"{name}"' for name in names)
        return build_error(
            "unknown-wave", f'-wave: the plan has no wave "{wave}". It has: {wave_list}.'
        )
    # An earlier wave is pending.
    if wave in pending[1:]:
        detail = (
            f'The wave "{pending[0]}" is before "{wave}" and was not applied yet. To skip it, '
            f"plan -wave={wave} alone."
        )
        return build_error("stopped-wave", detail)
    return None


def _apply_job(
    job: _ApplyJob, arguments: ApplyArguments, screen: Screen
) -> tuple[FleetApply, WaveStop | None]:
    """Apply the waves; a lost engine stops them.

    End the command if no engine opens, or a file cannot be written.
    """
    with (
        arguments.engine.open_engine(screen) as engine,
        handle_interrupts(screen.print_error) as interrupts,
    ):
        observer = _build_observer(
            job, arguments, screen, interrupts.is_stopping, interrupts.end_question
        )
        fleet_apply = FleetApply(
            job.plan, job.fleet.context, engine, job.progress, SystemClock(), observer
        )
        try:
            try:
                return fleet_apply, apply_waves(fleet_apply, job.waves)
            except TaskEngineError as problem:
                # A lost engine cannot release locks.
                with closing(make_engine(PROCESSES)) as local_engine:
                    return fleet_apply, stop_after_lost_engine(fleet_apply, local_engine, problem)
        except FileProblem as problem:
            screen.print_diagnostics([build_error("stopped-wave", str(problem))], sources={})
            raise click.exceptions.Exit(1) from None


def _build_observer(
    job: _ApplyJob,
    arguments: ApplyArguments,
    screen: Screen,
    is_stopping: Callable[[], bool],
    end_question: Callable[[], AbstractContextManager[None]],
) -> ApplyObserver:
    """Build the observer of an apply: it prints messages and results, and requests approvals.

    `end_question` lets an interrupt end the question asked inside its block.
    """
    lists_every_site = len(job.plan.sites) <= _MAX_LISTED_SITES

    def print_result(result: SiteResult) -> None:
        is_failed = result.status in (SiteStatus.REJECTED, SiteStatus.FAILED)
        if lists_every_site or is_failed:
            reason_text = f": {result.reason}" if result.reason else ""
            screen.print_text(f"  {result.site}: {result.status.value}{reason_text}")

    can_ask = is_input_allowed(arguments.input) and not arguments.as_json and sys.stdin.isatty()

    def approve_wave(wave: Wave, count: int) -> bool:
        """Approve the wave named by -wave; ask the user about others, if a terminal allows it."""
        if arguments.wave == wave.name:
            return True
        if not can_ask:
            return False
        question = f'Do you want to apply the wave "{wave.name}" ({format_count(count, "site")})?'
        try:
            with end_question():
                answer = screen.prompt_user(question, "  Only 'yes' will be accepted to approve.")
        except KeyboardInterrupt:
            screen.print_text()
            return False
        return answer == "yes"

    return ApplyObserver(screen.print_text, print_result, approve_wave, is_stopping, can_ask)


def _build_plan_with_results(job: _ApplyJob, fleet_apply: FleetApply) -> FleetPlan:
    """Build the plan with the results of its sites.

    Sites without one are left out if their wave was not requested. A result without rows gets the
    planned rows. The result of an applied site also gets the planned impact.
    """
    requested_waves = {wave.name for wave in job.waves}
    sites = []
    for site in job.plan.sites:
        if site.name in fleet_apply.results:
            result = fleet_apply.results[site.name]
        elif site.wave not in requested_waves:
            continue
        elif not job.progress.is_finished(site.wave):
            result = SiteResult(site.name, SiteStatus.SKIPPED, "Its wave was not started.")
        elif site.result.status is SiteStatus.PLANNED:
            # An earlier run applied it.
            result = replace(site.result, status=SiteStatus.APPLIED)
        else:
            # The site is unchanged or rejected.
            result = site.result
        planned = site.result
        result = replace(result, rows=result.rows or planned.rows)
        if result.status is SiteStatus.APPLIED:
            result = replace(result, decision=planned.decision)
        sites.append(replace(site, result=result))
    return replace(job.plan, sites=tuple(sites))
