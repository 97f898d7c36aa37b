"""`nexusform plan`, and what apply and destroy share with it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import click
from msgspec import Struct

from nexusform.cli.arguments import group, ignored, switch, text
from nexusform.cli.commands import command
from nexusform.cli.flags import LockFlags, ViewFlags, ownership_flag, place_of, state_flag, variable_flags
from nexusform.cli.planning_flags import PlacementFlags, PlanningFlags
from nexusform.cli.voice import PlanView, TextVoice, Voice
from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.plans.impact.guard_rails import Limit, guarded, limits_of
from nexusform.plans.plan import Plan
from nexusform.state.json_text import collector_paused
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.opening.surroundings import unwritable
from nexusform.workflow.runs.run import Notices, PlanOptions, Run, begin

if TYPE_CHECKING:  # most plans are not saved, and have no reports
    from nexusform.cli.report_flag import ReportFlag
    from nexusform.workflow.plan_files.saved_plans import Signer

_CHANGES: Final = 2  # exit code of -detailed-exitcode


class PlanArguments(Struct, frozen=True, kw_only=True):
    """What `plan` takes."""

    out: str = text("Save the plan to a file", metavar="FILE")
    sign: str = text("Sign the saved plan with a private key (Ed25519, PEM)", metavar="KEYFILE")
    detailed_exitcode: bool = switch("Exit with 2 if there are changes")
    generate_config_out: str = text("Write configuration for imported objects", metavar="FILE")
    as_json: bool = switch("Print a stream of JSON events", flag="json")
    fail_on: str = text("Exit with 1 if the plan exceeds a guard rail", metavar="NAME:LIMIT,...")
    planning: PlanningFlags = group(PlanningFlags)
    shown: PlacementFlags = group(PlacementFlags)
    variables: tuple[tuple[str, str], ...] = variable_flags()
    lock: LockFlags = group(LockFlags)
    state: str = state_flag()
    take_ownership: bool = ownership_flag()
    view: ViewFlags = group(ViewFlags)
    show_sensitive: bool = switch("Show sensitive values")


class Showing(Struct, frozen=True):
    """How a run tells its plan: by which voice, which placements, in which reports."""

    voice: Voice
    shown: PlacementFlags
    reports: tuple[ReportFlag, ...]
    show_sensitive: bool = False

    @property
    def notices(self) -> Notices:
        """What a run tells in passing, told by the voice."""
        voice = self.voice
        return Notices(
            waiting=voice.notice, reading=voice.reading, locking=voice.locked, progress=voice.planned
        )

    def tell(self, plan: Plan, run: Run, *, saved_to: str = "", next_step: bool = True) -> None:
        """Tell the plan, unless a report takes the place of the text on stdout; write the reports."""
        project = run.project
        if not self.is_replaced:
            view = PlanView(project.registries, self.shown, saved_to, next_step, project.place.take_ownership)
            self.voice.plan(plan, project.sources, view)
        elif plan.denied:
            self.voice.diagnostics(plan.diagnostics, project.sources)
        self.write_reports(plan, run)

    @property
    def is_replaced(self) -> bool:
        """Whether a report takes the place of the text on stdout."""
        return any(report.path == "-" for report in self.reports)

    def write_reports(self, plan: Plan, run: Run) -> None:
        """Write the reports alone."""
        if not self.reports:
            return
        from nexusform.cli.report_flag import Subject, write_reports

        project = run.project
        subject = Subject(
            plan=plan,
            sources=project.sources,
            registries=project.registries,
            shown=self.shown,
            configuration=project.configuration,
            prior=run.stored.state,
            show_sensitive=self.show_sensitive,
        )
        write_reports(self.reports, subject)


@command("plan", PlanArguments, accepts=(ignored("input", switch=True), ignored("parallelism")))
@collector_paused()  # to the end: what was planned is walked in vain while it is saved and shown, too
def plan(arguments: PlanArguments) -> int:
    """Show planned changes and the placement of every VM, binding and pod.

    Exit code 0, or 1 for errors. With -detailed-exitcode, 2 if there are changes.

    -fail-on=NAME:LIMIT sets guard rails. `moved:0`: no placement may move or lose its machine.
    `removed:0`: none may be removed or forgotten. `room:5`: capacity for 5 of the largest VM must
    remain per site. `certainty:0.9`: 90 % of the VMs need a certain rack count. Every report shows
    the result, and apply rejects the saved plan.
    """
    if arguments.sign.startswith("key:"):
        file = arguments.sign.removeprefix("key:") or "KEYFILE"
        raise click.UsageError(
            f"-sign takes the file alone: -sign={file}. (key: is for apply -verify=key:FILE.)"
        )
    if arguments.sign and not arguments.out:
        raise click.UsageError("-sign signs a plan that is saved: add -out=FILE.")
    limits = limits_in(arguments.fail_on)
    options = arguments.planning.options(
        generate_config_out=arguments.generate_config_out,
        want_rejected=arguments.shown.placements == "all",
    )
    locking = arguments.lock.locking()
    showing = showing_of(
        arguments.shown,
        arguments.view,
        as_json=arguments.as_json,
        show_sensitive=arguments.show_sensitive,
    )
    voice = showing.voice
    if arguments.out and (reason := unwritable(arguments.out)):
        voice.diagnostics([error("the-plan-cannot-be-saved", reason)], {})
        return 1
    signer, problems = _signer_of(arguments.sign)
    if problems:
        voice.diagnostics(problems, {})
        return 1
    place = place_of(arguments.state, arguments.variables, take_ownership=arguments.take_ownership)
    opened = open_project(place)
    voice.diagnostics(opened.diagnostics, opened.sources)
    if opened.project is None:
        return 1
    with begin(opened.project, "OperationTypePlan", locking, notices=showing.notices, settles=False) as run:
        already_told = len(run.diagnostics)
        voice.diagnostics([*run.diagnostics, *_remarks_on_rest(run)], opened.sources)
        made = _plan_and_tell(run, options, limits, showing, arguments, signer) if run.ready else None
    voice.diagnostics(run.diagnostics[already_told:], opened.sources)
    return exit_code(made, run.diagnostics, detailed=arguments.detailed_exitcode)


def exit_code(plan: Plan | None, diagnostics: Iterable[Diagnostic], *, detailed: bool) -> int:
    """What a command that plans ends with; `detailed` is -detailed-exitcode. None: there is no plan."""
    if plan is None or plan.denied or has_errors(diagnostics):
        return 1
    return _CHANGES if detailed and plan.has_changes else 0


def _signer_of(key_file: str) -> tuple[Signer | None, list[Diagnostic]]:
    """What -sign=KEYFILE asks for, looked at before anything is planned."""
    if not key_file:
        return None, []
    from nexusform.workflow.plan_files.signed_plans import signer_of

    return signer_of(key_file, place_of().confinement)


def limits_in(flag: str) -> tuple[Limit, ...]:
    """-fail-on. Raises a usage error."""
    try:
        return limits_of(flag) if flag else ()
    except ValueError as problem:
        raise click.UsageError(f"-fail-on: {problem}") from None


def _plan_and_tell(
    run: Run,
    options: PlanOptions,
    limits: Iterable[Limit],
    showing: Showing,
    arguments: PlanArguments,
    signer: Signer | None,
) -> Plan:
    """Make the plan, save it where asked, and show it."""
    with showing.voice.planning():
        made = guarded(run.plan(options).plan, limits)
    saved_to = ""
    if arguments.out and not made.errored:
        from nexusform.workflow.plan_files.saved_plans import save_plan

        run.diagnostics += save_plan(made, run, arguments.out, signer)
        saved_to = "" if has_errors(run.diagnostics) else arguments.out
    showing.tell(made, run, saved_to=saved_to)
    return made


def showing_of(
    shown: PlacementFlags, view: ViewFlags, *, as_json: bool, show_sensitive: bool, concise: bool = False
) -> Showing:
    """How a plan is told as the flags ask for it. Raises usage errors."""
    return Showing(_voice(view, as_json=as_json, concise=concise), shown, _reports(shown), show_sensitive)


def _voice(view: ViewFlags, *, as_json: bool, concise: bool) -> Voice:
    if as_json:
        from nexusform.cli.json_voice import JsonVoice

        return JsonVoice()
    return TextVoice(view.screen(), concise=concise)


def _remarks_on_rest(run: Run) -> list[Diagnostic]:
    """What is to be said of an apply that did not come to its end."""
    if run.stored.remaining is None:
        return []
    from nexusform.workflow.plan_files.resuming import remarks_on_rest

    return remarks_on_rest(run.stored, run.project.place)


def _reports(shown: PlacementFlags) -> tuple[ReportFlag, ...]:
    """The reports that are asked for. Raises usage errors."""
    if not shown.report and not shown.source_url:
        return ()
    from nexusform.cli.report_flag import plan_reports

    return plan_reports(shown)
