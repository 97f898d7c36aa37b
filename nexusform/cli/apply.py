"""`nexusform apply`, and what destroy and refresh share with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from msgspec import Struct

from nexusform.cli import flags
from nexusform.cli.commands import command, option, switch
from nexusform.cli.interrupts import graceful_interrupts
from nexusform.cli.plan import notices_of, show_plan, subject_of, voice_of
from nexusform.cli.reports import Wanted, wanted_reports, write_reports
from nexusform.cli.screen import Screen, input_allowed
from nexusform.cli.voice import TextVoice, Voice
from nexusform.diagnostics import error, has_errors
from nexusform.planning.plan import Mode, Plan, StepKind
from nexusform.planning.saved.plan_file import SavedPlan
from nexusform.workflow.apply import ApplyOptions, apply_plan
from nexusform.workflow.project import Opened, open_project
from nexusform.workflow.run import PlanOptions, Run, begin
from nexusform.workflow.saved_plans import judge, open_saved, read_plan

_PLANNING = (
    "destroy",
    "refresh_only",
    "target",
    "target_file",
    "exclude",
    "exclude_file",
    "replace",
    "tie_breaks",
)


def apply_flags(function: flags.Function) -> flags.Function:
    """What apply, destroy and refresh take beyond planning flags."""
    for flag in reversed(
        (
            switch("auto-approve", "Do not ask before changing anything"),
            switch("input", "Never ask: fail where a question would be needed", default=True),
            option("parallelism", "Steps at a time", kind=click.IntRange(min=1), metavar="N", default=10),
            switch("fail-fast", "Start no further step after one failed"),
            switch(
                "json", "As a stream of JSON events; needs -auto-approve or a plan file", parameter="as_json"
            ),
            switch("concise", "Without a line per step"),
            switch("show-sensitive", "Show sensitive values in reports"),
            flags.placement_flags,
            flags.variable_flags,
            flags.lock_flags,
            flags.state_flags,
            flags.view_flags,
        )
    ):
        function = flag(function)
    return function


@command("apply", summary="Carry out a plan")
@click.argument("planfile", required=False)
@switch("resume", "Do what an interrupted or failed apply left to do")
@flags.planning_flags
@apply_flags
def apply(planfile: str | None, **given: Any) -> int:
    """Plan, ask, and carry the plan out; or carry out the saved plan PLANFILE as it was reviewed."""
    if planfile is None:
        return apply_fresh(given, flags.plan_options_of(given))
    refused = [name for name in _PLANNING if given[name]]
    if refused or not given["refresh"]:
        name = (refused or ["refresh"])[0].replace("_", "-")
        raise click.UsageError(f"-{name} shapes a plan, and {planfile} is one already. Plan again with it.")
    return _apply_saved(planfile, given)


class _Job(Struct, frozen=True):
    """One apply: its flags, its voice, its reports."""

    given: dict[str, Any]
    voice: Voice
    reports: tuple[Wanted, ...]

    @property
    def approved(self) -> bool:
        return bool(self.given["auto_approve"])


def apply_fresh(given: dict[str, Any], options: PlanOptions) -> int:
    """Plan, ask and apply."""
    locking = flags.locking_of(given)
    job = _Job(given, voice_of(given), wanted_reports(given["report"]))
    if not job.approved and not _may_ask(job):
        job.voice.diagnostics([_cannot_ask()], {})
        return 1
    opened = open_project(flags.place_of(given))
    job.voice.diagnostics(opened.diagnostics, opened.sources)
    if opened.project is None:
        return 1
    with begin(opened.project, "OperationTypeApply", locking, notices=notices_of(job.voice)) as run:
        told = len(run.diagnostics)
        job.voice.diagnostics(run.diagnostics, opened.sources)
        code = _plan_ask_apply(run, job, options) if run.ready else 1
    job.voice.diagnostics(run.diagnostics[told:], opened.sources)
    return 1 if has_errors(run.diagnostics) else code


def _plan_ask_apply(run: Run, job: _Job, options: PlanOptions) -> int:
    with job.voice.planning():
        plan = run.plan(options).plan
    show_plan(job.voice, plan, run.project, job.given, job.reports, hints=False)
    write_reports(job.reports, subject_of(plan, run, job.given))
    if plan.errored:
        return 1
    if plan.has_changes and not job.approved and not _agreed(job.voice, plan):
        return 1
    return _carry_out(run, job, plan)


def _apply_saved(path: str, given: dict[str, Any]) -> int:
    locking = flags.locking_of(given)
    job = _Job(given, voice_of(given), wanted_reports(given["report"]))
    saved, problems = read_plan(path)
    opened = open_saved(flags.place_of(given), saved) if saved else Opened(None, (), {})
    job.voice.diagnostics([*problems, *opened.diagnostics], opened.sources)
    if saved is None or opened.project is None:
        return 1
    with begin(opened.project, "OperationTypeApply", locking, notices=notices_of(job.voice)) as run:
        told = len(run.diagnostics)
        job.voice.diagnostics(run.diagnostics, opened.sources)
        code = _judge_and_apply(run, job, saved) if run.ready else 1
    job.voice.diagnostics(run.diagnostics[told:], opened.sources)
    return 1 if has_errors(run.diagnostics) else code


def _judge_and_apply(run: Run, job: _Job, saved: SavedPlan) -> int:
    verdict = judge(run, saved, resume=job.given["resume"])
    job.voice.diagnostics(verdict.diagnostics, run.project.sources)
    if verdict.plan is None:
        return 1
    write_reports(job.reports, subject_of(verdict.plan, run, job.given))
    return _carry_out(run, job, verdict.plan, saved.digest)


def _carry_out(run: Run, job: _Job, plan: Plan, digest: str = "") -> int:
    """Apply an approved plan; a plan without changes leaves the state alone."""
    voice = job.voice
    with graceful_interrupts(voice.notice) as interrupts:
        options = ApplyOptions(
            job.given["parallelism"], job.given["fail_fast"], interrupts.stopping, plan_digest=digest
        )
        with voice.applying(sum(1 for step in plan.steps if step.kind is not StepKind.GATE)):
            outcome = apply_plan(run, plan, voice, options)
    voice.applied(outcome, plan.mode)
    voice.diagnostics(outcome.diagnostics, run.project.sources)
    if plan.mode is not Mode.DESTROY:
        voice.outputs(outcome.applied.state.outputs)
    return 0 if outcome.complete else 1


def _may_ask(job: _Job) -> bool:
    return job.voice.asks and input_allowed(job.given["input"])


def _cannot_ask() -> Any:
    return error(
        "approval-is-needed",
        "The plan must be approved, and no question may be asked here. Add -auto-approve, or save a plan "
        "with `nexusform plan -out=FILE` and apply that file.",
    )


_QUESTIONS: Mapping[Mode, tuple[str, str]] = {
    Mode.NORMAL: (
        "Do you want to perform these actions",
        "nexusform will perform the actions described above.",
    ),
    Mode.DESTROY: (
        "Do you really want to destroy all resources",
        "nexusform will destroy all that is listed above. There is no undo.",
    ),
    Mode.REFRESH_ONLY: (
        "Would you like to update the state to reflect these detected changes",
        "nexusform will write these changes to the state without changing any object.",
    ),
}


def _agreed(voice: Voice, plan: Plan) -> bool:
    assert isinstance(voice, TextVoice), "only people are asked"
    question, explanation = _QUESTIONS[plan.mode]
    where = f' in workspace "{plan.workspace}"' if plan.workspace != "default" else ""
    screen: Screen = voice.screen
    answer = screen.ask(f"{question}{where}?", f"  {explanation}\n  Only 'yes' will be accepted to approve.")
    if answer == "yes":
        screen.out()
        return True
    screen.out(f"\n{'Destroy' if plan.mode is Mode.DESTROY else 'Apply'} cancelled.")
    return False
