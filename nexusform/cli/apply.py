"""`nexusform apply` and `nexusform destroy`."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.applying.events import StepEvent, StepListener
from nexusform.cli.apply_progress import ApplyReporter
from nexusform.cli.arguments import (
    declare_flag_group,
    declare_number,
    declare_optional_positional,
    declare_output_path_flag,
    declare_repeatable_text,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.interrupts import Interrupts, handle_interrupts
from nexusform.cli.plan import PlanDisplay, create_plan_display
from nexusform.cli.planning_flags import PlanDisplayFlags, PlanningFlags
from nexusform.cli.run_reporter import RunReporter
from nexusform.cli.shared_flags import (
    StateLockFlags,
    ViewFlags,
    create_context,
    declare_migration_flag,
    declare_ownership_flag,
    declare_revocations_flag,
    declare_state_flag,
    declare_variable_flags,
    parse_max_age,
)
from nexusform.cli.terminal_screen import is_input_allowed
from nexusform.diagnostics.diagnostic import Diagnostic, build_error, has_errors
from nexusform.diagnostics.phrases import format_count, format_first_items, format_list
from nexusform.files.external_files import PLAN_FILE, AllowedWriter, ArgumentFile, PathValueForm
from nexusform.placement_kinds.registry import get_kind_noun
from nexusform.plans.impact.object_effects import Effect, count_effects
from nexusform.plans.plan import Action, Mode, Plan
from nexusform.plans.saved.plan_file import SavedPlan
from nexusform.rendering.report.plan_sentences import describe_plan_evaluation
from nexusform.resources.graph import DEFAULT_PARALLELISM
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.project import OpenResult, Project, open_project
from nexusform.workflow.opening.stored_state import StoredState, compute_state_digest
from nexusform.workflow.plan_files.plan_acceptance import (
    PlanVerification,
    build_plan_identity,
    check_plan_acceptance,
    check_plan_signatures,
)
from nexusform.workflow.plan_files.plan_execution import (
    ApplyOutcome,
    PlanApplyOptions,
    apply_plan,
    apply_remaining_steps,
)
from nexusform.workflow.plan_files.remaining_steps import (
    RemainingSteps,
    check_inputs_unchanged,
    count_steps,
    discard_remaining_steps,
    find_remaining_steps,
    open_remaining_steps,
)
from nexusform.workflow.plan_files.saved_plans import check_failed_plan, open_saved_plan, read_plan
from nexusform.workflow.runs.evaluation_record import find_plan_origin
from nexusform.workflow.runs.run import FOREIGN_JOURNAL_MOVED, PlanOptions, Run, begin_run
from nexusform.workflow.runs.saved_plan_checks import check_saved_plan
from nexusform.workflow.runs.site_checks import (
    MAXIMUM_WAIT_SECONDS,
    check_after_approval,
    check_approved_consequences,
    needs_replay,
    read_drift_again,
    record_unchecked_site,
)
from nexusform.workflow.runs.state_locking import LockOptions

# Exit code if all steps were done, and a certain prediction is wrong.
EXIT_WRONG_PREDICTION: Final = 2


class ApplyFlags(Struct, frozen=True, kw_only=True):
    """Flags of apply, destroy and refresh besides planning flags."""

    auto_approve: bool = declare_switch_flag("Skip the confirmation")
    input: bool = declare_switch_flag("Fail instead of asking", default=True)
    parallelism: int = declare_number(
        "Limit the number of concurrent steps", default=DEFAULT_PARALLELISM, minimum=1
    )
    fail_fast: bool = declare_switch_flag("Start no further step after a failure")
    as_json: bool = declare_switch_flag(
        "Print JSON events (with -auto-approve or PLANFILE)", flag="json"
    )
    json_into: str = declare_output_path_flag("Also write the JSON events to a file")
    concise: bool = declare_switch_flag("Print no line per step")
    show_sensitive: bool = declare_switch_flag("Show sensitive values")
    take_ownership: bool = declare_ownership_flag()
    allow_other_hub: str = declare_migration_flag()
    allow_unchecked_site: bool = declare_switch_flag("Apply if the site cannot be read again")
    placement_flags: PlanDisplayFlags = declare_flag_group(PlanDisplayFlags)
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()
    lock: StateLockFlags = declare_flag_group(StateLockFlags)
    state: str = declare_state_flag()
    view: ViewFlags = declare_flag_group(ViewFlags)

    def create_context(self, *, can_ask: bool = False) -> CommandContext:
        """Create the context of the command; with `can_ask` it may ask for missing variables."""
        return create_context(
            self.state,
            self.variables,
            take_ownership=self.take_ownership,
            allow_other_hub=self.allow_other_hub,
            allow_unchecked_site=self.allow_unchecked_site,
            can_ask=can_ask and self.input and not self.as_json,
        )


class ApplyArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `apply`; without `planfile` it makes a new plan."""

    planfile: str | None = declare_optional_positional(None, file=PLAN_FILE)
    resume: bool = declare_switch_flag("Continue an interrupted or failed apply")
    discard: bool = declare_switch_flag("Drop the rest of an interrupted or failed apply")
    verify: tuple[str, ...] = declare_repeatable_text(
        "Reject an outdated plan, or one without this signature",
        metavar="replan|ancestor|key:FILE",
        file=ArgumentFile("public key of signers", AllowedWriter.OPERATOR, PathValueForm.KEY),
    )
    max_age: str = declare_text_flag("Reject a plan older than this", metavar="DURATION")
    revocations: tuple[str, ...] = declare_revocations_flag()
    planning: PlanningFlags = declare_flag_group(PlanningFlags)
    flags: ApplyFlags = declare_flag_group(ApplyFlags)


@define_command("apply", ApplyArguments)
def apply(arguments: ApplyArguments) -> int:
    """Plan, ask for approval and apply; or apply the saved plan PLANFILE.

    Exit code 0 if all steps succeeded or the last ones wait for changes by another tool
    (azure_export, read_only), 1 for errors and other waiting steps. Exit code 2: applied, but a
    certain prediction was wrong.
    """
    # Names of flags, to report the first one.
    planning_flags = arguments.planning.list_flags_set()
    verification = replace(
        parse_verification(arguments.verify),
        max_age=parse_max_age(arguments.max_age),
        revocation_files=arguments.revocations,
    )
    _check_verification_flags(arguments, verification)
    if arguments.discard and arguments.resume:
        raise click.UsageError("-resume and -discard cannot be combined.")
    if arguments.discard:
        return _discard_steps_of_earlier_apply(arguments.flags)
    if arguments.resume:
        if planning_flags:
            reason = "-resume continues a saved plan"
            raise click.UsageError(
                f"-{planning_flags[0]} and -resume cannot be combined: {reason}."
            )
        return _resume_last_apply(arguments.flags, arguments.planfile, verification)
    if arguments.planfile is None:
        return apply_new_plan(arguments.flags, arguments.planning.build_options())
    if planning_flags:
        raise click.UsageError(
            f"-{planning_flags[0]} is a planning flag, and {arguments.planfile} is a saved plan. "
            f"Plan again with the flag."
        )
    return _apply_saved_plan(arguments.planfile, verification, arguments.flags)


def _check_verification_flags(arguments: ApplyArguments, verification: PlanVerification) -> None:
    """Raise a usage error for flags about a saved plan without one.

    -resume has the plan of its journal. Its signatures are in the file.
    """
    for name in ("verify", "max_age", "revocations"):
        if not getattr(arguments, name):
            continue
        flag = name.replace("_", "-")
        has_plan = arguments.planfile is not None or (arguments.resume and name != "verify")
        if arguments.discard:
            raise click.UsageError(f"-{flag} and -discard cannot be combined.")
        if not has_plan:
            raise click.UsageError(f"-{flag} needs a plan file.")
    if verification.revocation_files and not verification.key_files:
        raise click.UsageError("-revocations needs -verify=key:FILE, the key that signed the file.")
    for text in arguments.verify if arguments.resume else ():
        if not text.startswith("key:"):
            raise click.UsageError(
                f"-verify={text} and -resume cannot be combined: the plan has started."
            )


def parse_verification(values: Sequence[str]) -> PlanVerification:
    """Parse the values of -verify.

    Raises a usage error.
    """
    key_files: list[str] = []
    for text in values:
        kind, _, value = text.partition(":")
        if kind == "key" and value:
            key_files.append(value)
        elif text not in ("replan", "ancestor"):
            raise click.UsageError(
                f'-verify: invalid value "{text}". Use -verify=replan, -verify=ancestor or '
                "-verify=key:FILE."
            )
    return PlanVerification(
        tuple(key_files), replan="replan" in values, is_ancestor="ancestor" in values
    )


class _ApplyCommandRun(Struct, frozen=True):
    """One apply: its flags, its display and its lock options."""

    flags: ApplyFlags
    display: PlanDisplay
    locking: LockOptions

    @property
    def reporter(self) -> RunReporter:
        return self.display.reporter

    def can_prompt(self) -> bool:
        return self.reporter.screen is not None and is_input_allowed(self.flags.input)


def _create_apply_job(flags: ApplyFlags) -> _ApplyCommandRun:
    """Create the run of an apply command with its display and lock options.

    Raises usage errors.
    """
    display = create_plan_display(
        flags.placement_flags,
        flags.view,
        as_json=flags.as_json,
        event_file=flags.json_into,
        show_sensitive=flags.show_sensitive,
        create_text_reporter=partial(ApplyReporter, concise=flags.concise),
    )
    return _ApplyCommandRun(flags, display, flags.lock.build_options())


def apply_new_plan(flags: ApplyFlags, options: PlanOptions) -> int:
    """Plan, ask for approval and apply; return the exit code."""
    job = _create_apply_job(flags)
    if not flags.auto_approve and not job.can_prompt():
        detail = f"The plan needs approval, and input is disabled. {_APPROVAL_HINT}"
        job.reporter.report_diagnostics([build_error("approval-required", detail)], sources={})
        return 1
    context = flags.create_context(can_ask=True)
    opened = open_project(context)
    if opened.project is None:
        job.display.report_failure(context, options, opened.diagnostics, opened.sources)
        return 1
    job.reporter.report_diagnostics(opened.diagnostics, opened.sources)
    return _run_with_lock(job, opened.project, lambda run: _plan_and_apply(run, job, options))


def _plan_and_apply(run: Run, job: _ApplyCommandRun, options: PlanOptions) -> int:
    """Plan, ask for approval if needed, and apply; return the exit code."""
    code = _finish_interrupted_apply(run, job) if options.mode is Mode.NORMAL else 0
    # The earlier apply did not finish.
    if code:
        return code
    started_at = run.clock.read_time()
    with job.reporter.track_planning():
        plan = run.plan(options).plan
    job.display.report_plan(plan, run, next_step=False)
    if plan.errored:
        # The plan was reported with its errors.
        return 1
    is_prompted = plan.has_changes and not job.flags.auto_approve
    if is_prompted and not _prompt_to_approve_plan(job.reporter, plan):
        return 1
    # A plan that is applied at once has just read the site.
    planning_seconds = (run.clock.read_time() - started_at).total_seconds()
    if is_prompted or planning_seconds > MAXIMUM_WAIT_SECONDS:
        plan, problems = check_after_approval(run, plan)
        job.reporter.report_diagnostics(problems, run.project.sources)
        if has_errors(problems):
            return 1
        plan = record_unchecked_site(plan, problems)
    return _apply_approved_plan(run, job, plan)


def _finish_interrupted_apply(run: Run, job: _ApplyCommandRun) -> int:
    """Finish an interrupted apply before a new plan.

    Return 0 if the new plan can follow, else an exit code.
    """
    remaining_steps, problems = find_remaining_steps(run.stored, run.project.context)
    if remaining_steps is None:
        # No apply was interrupted, or its journal is unreadable: a problem to solve with -discard.
        job.reporter.report_diagnostics(problems, run.project.sources)
        return 1 if has_errors(problems) else 0
    if not remaining_steps.was_interrupted:
        # The apply ended, with failed or waiting steps: the new plan has them again.
        return 0
    can_prompt = job.can_prompt() and not job.flags.auto_approve
    # A person may decide about changed inputs, but with them no step can be replayed on a site.
    if not can_prompt or needs_replay(run, remaining_steps.plan):
        problems += check_inputs_unchanged(run, remaining_steps)
    if not has_errors(problems):
        problems += _check_remaining_steps(run, remaining_steps, PlanVerification())
    if has_errors(problems):
        job.reporter.report_diagnostics(problems, run.project.sources)
        return 1
    if can_prompt and not _prompt_to_finish_earlier_apply(job.reporter, remaining_steps):
        return 1
    job.reporter.report_notice(f"Finishing an earlier apply first. {remaining_steps.summary}.")
    outcome = _apply_remaining_steps(run, job, remaining_steps)
    run.stored = StoredState(
        outcome.applied.state, digest=compute_state_digest(outcome.applied.state)
    )
    return _get_exit_code(outcome)


def _resume_last_apply(
    flags: ApplyFlags, planfile: str | None, verification: PlanVerification
) -> int:
    """Resume the last apply; with `planfile` only if it applied that plan.

    Return the exit code.
    """
    job = _create_apply_job(flags)
    context = flags.create_context()
    remaining_steps, backend, problems = open_remaining_steps(context)
    if planfile is not None and remaining_steps is not None:
        saved, new_problems = read_plan(planfile, context)
        problems += new_problems
        if saved is not None and saved.digest != remaining_steps.plan_digest:
            problems.append(
                build_error("nothing-to-resume", f'"{planfile}" is not the plan of the last apply.')
            )
        elif saved is not None:
            problems += check_plan_signatures(
                saved, planfile, verification.key_files, context.confinement
            )
    opened = OpenResult(project=None, diagnostics=(), sources={})
    if remaining_steps is not None and not has_errors(problems):
        # The saved plan comes from the journal.
        opened = open_saved_plan(context, remaining_steps.saved_plan, backend, is_verified=True)
    job.reporter.report_diagnostics([*problems, *opened.diagnostics], opened.sources)
    if opened.project is None:
        return 1
    return _run_with_lock(
        job, opened.project, lambda run: _apply_steps_of_earlier_apply(run, job, verification)
    )


def _apply_steps_of_earlier_apply(
    run: Run, job: _ApplyCommandRun, verification: PlanVerification
) -> int:
    """Apply the remaining steps of an earlier apply; return the exit code, 0 if there are none."""
    remaining_steps, problems = find_remaining_steps(run.stored, run.project.context)
    if remaining_steps is not None and not has_errors(problems):
        problems += _check_remaining_steps(run, remaining_steps, verification)
    job.reporter.report_diagnostics(problems, run.project.sources)
    if has_errors(problems):
        return 1
    if remaining_steps is None:
        job.reporter.report_notice("No steps left.")
        return 0
    return _get_exit_code(_apply_remaining_steps(run, job, remaining_steps))


def _check_remaining_steps(
    run: Run, remaining_steps: RemainingSteps, verification: PlanVerification
) -> list[Diagnostic]:
    """Check the rest of a plan as a whole plan: withdrawals, place, age, and the observed site.

    Its journal is in the state, so the state is the planned one, even after a migration. An end
    that is only to be recorded changes nothing.
    """
    if not remaining_steps.step_count:
        return []
    plan = remaining_steps.saved_plan.plan
    identity = build_plan_identity(plan, remaining_steps.plan_digest)
    current = find_plan_origin(run.project)
    if identity.origin is not None:
        origin = replace(identity.origin, backend=current.backend, location=current.location)
        identity = replace(identity, origin=origin)
    problems = check_plan_acceptance(identity, verification, run.project.context, lambda: current)
    if not has_errors(problems):
        problems += check_approved_consequences(run, remaining_steps.plan, is_started=True)
    # A new plan is no way out: its apply finishes the earlier one first.
    way_out = f"{remaining_steps.summary}. `nexusform apply -discard` drops the rest of that apply."
    return [
        replace(problem, detail=f"{problem.detail} {way_out}") if has_errors([problem]) else problem
        for problem in problems
    ]


def _discard_steps_of_earlier_apply(flags: ApplyFlags) -> int:
    """Drop the remaining steps of an earlier apply; return the exit code."""
    job = _create_apply_job(flags)
    opened = open_project(flags.create_context())
    job.reporter.report_diagnostics(opened.diagnostics, opened.sources)
    if opened.project is None:
        return 1

    def drop_steps(run: Run) -> int:
        """Drop the steps, report the result and return the exit code.

        An unfinished apply can have 0 steps left.
        """
        step_count, problems = discard_remaining_steps(run)
        job.reporter.report_diagnostics(problems, run.project.sources)
        if problems:
            return 1
        # No unfinished apply, or one on another state: its warning says so.
        if step_count is None:
            if all(problem.id != FOREIGN_JOURNAL_MOVED for problem in run.diagnostics):
                job.reporter.report_notice("No unfinished apply.")
        elif step_count:
            job.reporter.report_notice(
                f"Dropped {format_count(step_count, 'step')} of an earlier apply."
            )
        else:
            job.reporter.report_notice(
                "Recorded the end of an earlier apply. All of its steps were complete."
            )
        return 0

    return _run_with_lock(job, opened.project, drop_steps, moves_foreign_journal=True)


def _apply_saved_plan(path: str, verification: PlanVerification, flags: ApplyFlags) -> int:
    """Apply a saved plan after verifying its signatures; return the exit code."""
    job = _create_apply_job(flags)
    context = flags.create_context()
    saved, problems = read_plan(path, context)
    # So far, and after an error.
    opened = OpenResult(project=None, diagnostics=(), sources={})
    if saved is not None:
        # A plan with errors cannot be applied.
        problems += check_failed_plan(saved, path)
        problems += check_plan_signatures(saved, path, verification.key_files, context.confinement)
        if not has_errors(problems):
            opened = open_saved_plan(context, saved, is_verified=bool(verification.key_files))
    problems += opened.diagnostics
    if saved is not None and opened.project is not None:
        identity = build_plan_identity(saved.plan, saved.digest)
        find_current = partial(find_plan_origin, opened.project)
        problems += check_plan_acceptance(identity, verification, context, find_current)
    job.reporter.report_diagnostics(problems, opened.sources)
    if saved is None or opened.project is None or has_errors(problems):
        return 1
    if verification.key_files:
        job.reporter.report_notice(
            f"Signature verified. Evaluation: {describe_plan_evaluation(saved.plan)}."
        )
    return _run_with_lock(
        job, opened.project, lambda run: _check_and_apply(run, job, saved, verification)
    )


def _check_and_apply(
    run: Run, job: _ApplyCommandRun, saved: SavedPlan, verification: PlanVerification
) -> int:
    """Apply a saved plan after its checks, or only record its end if all steps were done.

    Return the exit code.
    """
    complete_notice = "All steps of this plan were complete when its apply was interrupted."
    # None: no readable journal of an apply.
    remaining_steps, _ = find_remaining_steps(run.stored, run.project.context)
    if (
        remaining_steps is not None
        and remaining_steps.was_interrupted
        and remaining_steps.plan_digest == saved.digest
        and not remaining_steps.step_count
    ):
        job.reporter.report_notice(f"{complete_notice} Recording its end.")
        return _get_exit_code(_apply_remaining_steps(run, job, remaining_steps))
    is_last_applied_plan = run.stored.state.applied_plans[-1:] == (saved.digest,)
    # Beginning this run has recovered and recorded the end of an interrupted apply.
    if remaining_steps is None and run.has_unfinished_apply and is_last_applied_plan:
        job.reporter.report_notice(f"{complete_notice} Recorded its end.")
        return 0
    verdict = check_saved_plan(run, saved, verification.requirements)
    job.reporter.report_diagnostics(verdict.diagnostics, run.project.sources)
    if verdict.plan is None:
        return 1
    # A plan made again has no limits of its own.
    plan = replace(
        verdict.plan,
        verdicts=replace(verdict.plan.verdicts, guard_rails=saved.plan.verdicts.guard_rails),
    )
    problems = check_approved_consequences(run, saved.plan)
    if not has_errors(problems):
        plan, new_problems = read_drift_again(run, plan)
        problems += new_problems
    job.reporter.report_diagnostics(problems, run.project.sources)
    if has_errors(problems):
        return 1
    plan = record_unchecked_site(plan, problems)
    job.display.write_reports(plan, run)
    return _apply_approved_plan(run, job, plan, saved.digest)


def _run_with_lock(
    job: _ApplyCommandRun,
    project: Project,
    work: Callable[[Run], int],
    *,
    moves_foreign_journal: bool = False,
) -> int:
    """Run the work while the lock is held.

    Return its exit code, or 1 if the run cannot begin or has errors.
    """
    with begin_run(
        project,
        "OperationTypeApply",
        job.locking,
        notices=job.display.notices,
        moves_foreign_journal=moves_foreign_journal,
    ) as run:
        reported_count = len(run.diagnostics)
        job.reporter.report_diagnostics(run.diagnostics, project.sources)
        code = work(run) if run.is_ready else 1
    # Report new problems, of the release of the lock, too; an error outweighs the code of the work.
    job.reporter.report_diagnostics(run.diagnostics[reported_count:], project.sources)
    return 1 if has_errors(run.diagnostics) else code


def _apply_approved_plan(run: Run, job: _ApplyCommandRun, plan: Plan, digest: str = "") -> int:
    """Apply an approved plan and return the exit code.

    `digest` is the digest of a saved plan, "" for a new one.
    """
    outcome = _apply_with_progress(
        job, plan, lambda events, options: apply_plan(run, plan, events, options), digest
    )
    return _get_exit_code(_report_result(run, job, plan, outcome))


def _get_exit_code(outcome: ApplyOutcome) -> int:
    # To wait for another tool is no failure.
    if not outcome.is_complete and not outcome.is_waiting_for_site:
        return 1
    return EXIT_WRONG_PREDICTION if outcome.wrong_certain_predictions else 0


def _apply_remaining_steps(
    run: Run, job: _ApplyCommandRun, remaining_steps: RemainingSteps
) -> ApplyOutcome:
    """Apply the remaining steps of an earlier apply.

    The result is reported in the same way as for a plan.
    """
    outcome = _apply_with_progress(
        job,
        remaining_steps.plan,
        lambda events, options: apply_remaining_steps(run, remaining_steps, events, options),
    )
    return _report_result(run, job, remaining_steps.plan, outcome)


def _apply_with_progress(
    job: _ApplyCommandRun,
    plan: Plan,
    execute: Callable[[StepListener, PlanApplyOptions], ApplyOutcome],
    digest: str = "",
) -> ApplyOutcome:
    """Execute the steps with a progress display and interrupt handling.

    `digest` identifies a saved plan ("": new).
    """
    reporter = job.reporter
    flags = job.flags
    with (
        handle_interrupts(reporter.report_notice) as interrupts,
        reporter.track_apply(count_steps(plan)),
    ):
        options = PlanApplyOptions(
            flags.parallelism,
            flags.fail_fast,
            interrupts.is_stopping,
            waits_for_user=job.can_prompt(),
            plan_digest=digest,
        )
        return execute(_PipeSafeListener(reporter, interrupts), options)


def _report_result(
    run: Run, job: _ApplyCommandRun, plan: Plan, outcome: ApplyOutcome
) -> ApplyOutcome:
    """Report the counts, the diagnostics and the outputs of an apply; return the same outcome."""
    job.reporter.report_result(outcome, plan.options.mode)
    job.reporter.report_diagnostics(outcome.diagnostics, run.project.sources)
    # No output remains.
    if plan.options.mode is not Mode.DESTROY:
        job.reporter.report_outputs(outcome.applied.state.outputs)
    return outcome


_APPROVAL_HINT: Final = (
    "Add -auto-approve, or save a plan with `nexusform plan -out=FILE` and apply that file."
)
_QUESTIONS: Final[Mapping[Mode, tuple[str, str]]] = {
    Mode.NORMAL: (
        "Do you want to perform these actions",
        "nexusform will perform the actions described above.",
    ),
    Mode.DESTROY: (
        "Do you really want to destroy all resources",
        "nexusform will destroy all objects listed above. There is no undo.",
    ),
    Mode.REFRESH_ONLY: (
        "Would you like to update the state to reflect these detected changes",
        "nexusform will write these changes to the state without changing any object.",
    ),
}


def _prompt_to_approve_plan(reporter: RunReporter, plan: Plan) -> bool:
    """Prompt whether to apply the plan.

    Return whether the answer is `yes`: False without an answer on stdin.
    """
    screen = reporter.screen
    assert screen is not None, "prompts need a terminal"
    question, explanation = _QUESTIONS[plan.options.mode]
    if plan.options.mode is Mode.DESTROY and (plan.options.targets or plan.options.excludes):
        question = f"Do you really want to destroy {_describe_destroyed_objects(plan)}"
    workspace_note = (
        f' in workspace "{plan.options.workspace}"' if plan.options.workspace != "default" else ""
    )
    answer = screen.prompt_user(
        f"{question}{workspace_note}?",
        f"  {explanation}\n  Only 'yes' will be accepted to approve.",
    )
    if answer == "yes":
        screen.print_text()
        return True
    screen.print_text(f"\n{'Destroy' if plan.options.mode is Mode.DESTROY else 'Apply'} cancelled.")
    if answer is None:
        screen.print_text(f"No answer on stdin. {_APPROVAL_HINT}")
    return False


def _describe_destroyed_objects(plan: Plan) -> str:
    """Describe the objects of a partial destroy plan: `2 objects (a.b, c.d) with 33 VMs`."""
    addresses = [str(change.address) for change in plan.changes if change.action is Action.DELETE]
    description = (
        f"{format_count(len(addresses), 'object')} ({format_first_items(addresses, _MAX_NAMES)})"
    )
    removals = [
        # Such as "33 VMs".
        format_count(effect_count.count, get_kind_noun(effect_count.kind))
        for effect_count in count_effects(plan.placements)
        if effect_count.effect is Effect.REMOVED
    ]
    return f"{description} with {format_list(removals)}" if removals else description


_MAX_NAMES: Final = 4


def _prompt_to_finish_earlier_apply(reporter: RunReporter, remaining_steps: RemainingSteps) -> bool:
    """Prompt whether to finish an earlier apply first."""
    screen = reporter.screen
    assert screen is not None, "prompts need a terminal"
    answer = screen.prompt_user(
        f"Apply interrupted. {remaining_steps.summary}. Finish it first?",
        "  nexusform will apply its remaining steps. Only 'yes' will be accepted;\n"
        "  `nexusform apply -discard` drops them.",
    )
    if answer != "yes":
        screen.print_text("\nApply cancelled.")
        return False
    screen.print_text()
    return True


class _PipeSafeListener(StepListener):
    """Listener that reports steps until the output pipe is closed (`apply | head`).

    Then no further step starts.
    """

    def __init__(self, reporter: RunReporter, interrupts: Interrupts) -> None:
        self._reporter = reporter
        self._interrupts = interrupts
        self._is_open = True

    def report_step_start(self, event: StepEvent) -> None:
        """Report the start of a step."""
        self._forward_event(self._reporter.report_step_start, event)

    def report_step_progress(self, event: StepEvent) -> None:
        """Report the progress of a step."""
        self._forward_event(self._reporter.report_step_progress, event)

    def report_step_end(self, event: StepEvent) -> None:
        """Report the end of a step."""
        self._forward_event(self._reporter.report_step_end, event)

    def _forward_event(self, report: Callable[[StepEvent], None], event: StepEvent) -> None:
        """Forward an event while the pipe is open."""
        if not self._is_open:
            return
        try:
            report(event)
        except BrokenPipeError:
            self._is_open = False
            # Like an interrupt: no further step starts.
            self._interrupts.count += 1


class DestroyArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `destroy`."""

    planning: PlanningFlags = declare_flag_group(PlanningFlags)
    flags: ApplyFlags = declare_flag_group(ApplyFlags)


@define_command("destroy", DestroyArguments)
def destroy(arguments: DestroyArguments) -> int:
    """Destroy all resources in the state.

    This is the same as `apply -destroy`.
    """
    if arguments.planning.refresh_only:
        raise click.UsageError("destroy does not support -refresh-only.")
    return apply_new_plan(
        arguments.flags, replace(arguments.planning, destroy=True).build_options()
    )
