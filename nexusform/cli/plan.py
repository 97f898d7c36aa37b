"""`nexusform plan`."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from nexusform.cli import flags
from nexusform.cli.commands import command, option, switch
from nexusform.cli.reports import Subject, Wanted, to_stdout, wanted_reports, write_reports
from nexusform.cli.screen import Screen
from nexusform.cli.voice import JsonVoice, PlanView, TextVoice, Voice
from nexusform.diagnostics import has_errors
from nexusform.planning.plan import Plan
from nexusform.rendering.report.placement_rows import Detail
from nexusform.workflow.project import Project, open_project
from nexusform.workflow.run import Notices, PlanOptions, Run, begin
from nexusform.workflow.saved_plans import save_plan

CHANGES = 2  # exit code of -detailed-exitcode


@command("plan", summary="Show what would change, and where everything would land")
@option("out", "Save the plan to a file, to be applied as it is", metavar="FILE")
@switch("detailed-exitcode", "Exit with 2 when there are changes")
@option(
    "generate-config-out",
    "Write configuration for imported objects that have none",
    metavar="FILE",
    default="",
)
@switch("json", "As a stream of JSON events", parameter="as_json")
@flags.planning_flags
@flags.placement_flags
@flags.variable_flags
@flags.lock_flags
@flags.state_flags
@flags.view_flags
@switch("show-sensitive", "Show sensitive values in reports")
@option(
    "parallelism", "Taken for likeness with other tools; planning needs no threads", kind=int, metavar="N"
)
@switch("input", "Taken for likeness with other tools; plan asks nothing", default=True)
def plan(**given: Any) -> int:
    """Show what apply would change, and where every VM, binding and pod would land.

    Exit code 0, or 1 for errors; with -detailed-exitcode 2 when there are changes.
    """
    options = replace(flags.plan_options_of(given), generate_config_out=given["generate_config_out"])
    locking = flags.locking_of(given)
    reports = wanted_reports(given["report"])
    voice = voice_of(given)
    opened = open_project(flags.place_of(given))
    voice.diagnostics(opened.diagnostics, opened.sources)
    if opened.project is None:
        return 1
    with begin(opened.project, "OperationTypePlan", locking, notices=notices_of(voice)) as run:
        told = len(run.diagnostics)
        voice.diagnostics(run.diagnostics, opened.sources)
        made = _planned(run, options, given, voice, reports) if run.ready else None
    voice.diagnostics(run.diagnostics[told:], opened.sources)
    if made is None or made.errored or has_errors(run.diagnostics):
        return 1
    return CHANGES if given["detailed_exitcode"] and made.has_changes else 0


def _planned(
    run: Run, options: PlanOptions, given: dict[str, Any], voice: Voice, reports: tuple[Wanted, ...]
) -> Plan | None:
    with voice.planning():
        made = run.plan(options).plan
    project = run.project  # with the configuration that planning may have written
    out = given["out"] or ""
    if out and not made.errored:
        run.diagnostics += save_plan(made, project.configuration, project.backend.read(), out)
        out = "" if has_errors(run.diagnostics) else out
    show_plan(voice, made, project, given, reports, saved_to=out)
    write_reports(reports, subject_of(made, run, given))
    return made


def show_plan(
    voice: Voice,
    made: Plan,
    project: Project,
    given: dict[str, Any],
    reports: tuple[Wanted, ...] = (),
    *,
    saved_to: str = "",
    hints: bool = True,
) -> None:
    """Tell the plan, unless a report takes the place of the text on stdout."""
    if to_stdout(reports):
        if made.errored:
            voice.diagnostics(made.diagnostics, project.sources)
        return
    how = PlanView(project.registries, given.get("placements", "changed"), saved_to, hints=hints)
    voice.plan(made, project.sources, how)


def subject_of(made: Plan, run: Run, given: dict[str, Any]) -> Subject:
    """What reports are written about."""
    project = run.project
    return Subject(
        plan=made,
        sources=project.sources,
        registries=project.registries,
        detail=Detail(given.get("placements", "changed")),
        configuration=project.configuration,
        prior=run.stored.state,
        show_sensitive=given.get("show_sensitive", False),
    )


def voice_of(given: dict[str, Any]) -> Voice:
    """The voice that the flags ask for."""
    if given.get("as_json"):
        return JsonVoice()
    screen = Screen(no_color=given["no_color"], compact_warnings=given["compact_warnings"])
    return TextVoice(screen, concise=given.get("concise", False))


def notices_of(voice: Voice) -> Notices:
    """What the run tells in passing, told by the voice."""
    return Notices(
        waiting=voice.notice, reading=voice.reading, locking=voice.locked, planned=voice.planned_one
    )
