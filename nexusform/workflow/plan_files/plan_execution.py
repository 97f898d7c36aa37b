"""Execution of a plan: record, execute, compute the outputs, save."""

import re
import shlex
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.applying.answer_comparison import WrongPrediction
from nexusform.applying.apply_recorder import (
    ApplyRecorder,
    build_opening_records,
    build_start_record,
)
from nexusform.applying.events import ExecutionOptions, StepEvent, StepListener, StepOutcome
from nexusform.applying.executor import ApplyResult, execute_plan
from nexusform.applying.prediction_checks import (
    build_journal_records,
    list_completed_objects,
    list_vms_without_machine,
    select_tied,
    verify_predictions,
)
from nexusform.applying.provider_calls import get_provider_name
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    build_error,
    build_warning,
    has_errors,
    select_errors,
)
from nexusform.diagnostics.levels import VMS_WITHOUT_MACHINE
from nexusform.diagnostics.phrases import format_count, format_first_items, select_word_form
from nexusform.files.access_record import get_recorded_accesses
from nexusform.files.directories import make_directories
from nexusform.interfaces.plugins import PlanAwareProvider
from nexusform.interfaces.state_storage import BackendProblem, EncryptingBackend
from nexusform.placements.prediction_scores import list_wrong_certain
from nexusform.planning.planner import make_plan
from nexusform.planning.replanning.known_after_apply import (
    FinalResults,
    WrongOutput,
    evaluate_final_results,
    evaluate_write_only,
    finalize_plan,
)
from nexusform.plans.plan import CheckResult, Mode, Plan, Step
from nexusform.plans.saved import plan_file
from nexusform.providers.clock import read_clock
from nexusform.state import state_codec
from nexusform.state.journal import ApplyEnd, ApplyStart, PlanPart
from nexusform.state.objects import State
from nexusform.state.state_draft import UnfinishedApply, build_plan_parts
from nexusform.workflow.opening.backend_choice import record_backend_choice
from nexusform.workflow.opening.stored_state import StoredState, create_writer_id
from nexusform.workflow.opening.system_io import write_output
from nexusform.workflow.plan_files.remaining_steps import RemainingSteps, count_steps
from nexusform.workflow.runs.evaluation_record import record_evaluation
from nexusform.workflow.runs.provider_identity import IdentityCheck, add_new_identities
from nexusform.workflow.runs.run import Run, build_base_request, build_plan_request, record_sources
from nexusform.workflow.runs.site_checks import (
    MAXIMUM_WAIT_SECONDS,
    check_consequences_again,
    needs_replay,
)

RESCUE: Final = "errored.nfstate"
_SENSITIVE_VALUE: Final = "(sensitive value)"
# Limit of wrong predictions in one message.
_MAX_LISTED: Final = 5


class PlanApplyOptions(ExecutionOptions, frozen=True):
    """Options of an apply.

    `plan_digest` is that of a saved plan, "" for a new one.
    """

    plan_digest: str = ""


class ApplyOutcome(Struct, frozen=True):
    """The result of an apply.

    `wrong_outputs` are outputs that changed because of wrong predictions. `sends` means that a
    provider of the plan sends to a site; `provider_names` are the short names of the involved
    providers. `wrong_certain_predictions` were certain in the plan and are wrong.
    """

    applied: ApplyResult
    diagnostics: tuple[Diagnostic, ...]
    imported: int = 0
    sends: bool = False
    provider_names: tuple[str, ...] = ()
    wrong_outputs: tuple[WrongPrediction, ...] = ()
    wrong_certain_predictions: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether all steps were done and saved."""
        return self.applied.is_complete and not has_errors(self.diagnostics)

    @property
    def is_waiting_for_site(self) -> bool:
        """Whether people have to make the remaining changes on the site.

        This requires that nothing failed.
        """
        return (
            not self.applied.problem
            and not has_errors(self.diagnostics)
            and any(end.is_delegated for end in self.applied.end_events)
        )


def apply_plan(
    run: Run, plan: Plan, listener: StepListener, options: PlanApplyOptions
) -> ApplyOutcome:
    """Apply a plan to the state of the run.

    With errors before the first step, return them with the unchanged state.
    """
    state = run.stored.state
    earlier_apply = run.stored.remaining
    unchanged = ApplyResult(state, end_events=())
    # Only steps use providers.
    identity_problems = run.check_identities(plan.observed.providers) if plan.steps else []
    if has_errors(identity_problems):
        return ApplyOutcome(unchanged, tuple(identity_problems))
    # Planning again adds values known only now, such as `timestamp()`.
    plan, problems = finalize_plan(
        plan, build_plan_request(run.project, run.stored, plan), make_plan
    )
    if problems:
        return ApplyOutcome(unchanged, tuple(problems))
    recorder = ApplyRecorder(
        run.project.backend, state, writer=create_writer_id(), journal_end=run.stored.journal_end
    )
    start = build_start_record(plan, state, str(uuid.uuid4()), options.plan_digest)
    # Records of moves, imports and changes without a step.
    opening_records = build_opening_records(plan, state)
    sources = record_sources(state, plan, read_clock(run.project.context.environment))
    # A refresh also records the time of its export.
    has_new_sources = sources.unread != state.unread or (
        plan.options.mode is Mode.REFRESH_ONLY and sources != state
    )
    if not (opening_records or plan.steps or plan.has_changes or has_new_sources):
        # Nothing to write, except re-encryption after a key change.
        return ApplyOutcome(unchanged, tuple(_rewrite_with_current_encryption(run)))
    # The plan file in pieces, for `apply -resume`.
    plan_records: list[PlanPart] = []
    if plan.steps:
        document = plan_file.write_plan_file(
            record_evaluation(plan, run.project), run.project.configuration.file_texts
        )
        plan_records = build_plan_parts(
            document, count_steps(plan), options.plan_digest, start.lineage, start.serial
        )
    # The start marks the plan as applied. Write it after the plan: a crash may cut off the journal.
    for record in (*plan_records, start, *opening_records):
        recorder.add_record(record)
    outcome = _execute_plan(run, plan, recorder, listener, options)
    if earlier_apply is None:
        return outcome
    return replace(
        outcome, diagnostics=(_build_replanned_warning(earlier_apply, plan), *outcome.diagnostics)
    )


def apply_remaining_steps(
    run: Run, remaining_steps: RemainingSteps, listener: StepListener, options: PlanApplyOptions
) -> ApplyOutcome:
    """Apply the remaining steps of an earlier apply as planned (`apply -resume`).

    The caller has replayed them on the site as observed now.
    """
    state = run.stored.state
    recorder = ApplyRecorder(
        run.project.backend, state, run.stored.remaining, create_writer_id(), run.stored.journal_end
    )
    if run.stored.remaining is not None and state.serial < run.stored.remaining.serial:
        # The start of this apply, with its serial, is not recorded in the state yet.
        serial = run.stored.remaining.serial
        start = ApplyStart(
            state.lineage,
            serial,
            state.nexusform_version,
            state.catalogue,
            providers=state.providers,
        )
        recorder.add_record(start)
    remaining_ids = {step.id for step in remaining_steps.plan.steps}
    unverified: list[Step] = []
    # A killed run did not reach the verification of its predictions.
    if remaining_steps.was_interrupted:
        unverified = [
            step for step in remaining_steps.saved_plan.plan.steps if step.id not in remaining_ids
        ]
    return _execute_plan(run, remaining_steps.plan, recorder, listener, options, unverified)


def _build_replanned_warning(remaining: UnfinishedApply, plan: Plan) -> Diagnostic:
    """Build the warning about an unfinished apply replaced by this plan."""
    content = {
        Mode.NORMAL: "it has the changes from the current state to its configuration",
        Mode.DESTROY: "it destroys objects, and the remaining changes are dropped",
        Mode.REFRESH_ONLY: "it only records what was read, and the remaining changes are dropped: "
        "plan again for them",
    }[plan.options.mode]
    target_note = (
        "; -target and -exclude skipped the rest"
        if plan.options.targets or plan.options.excludes
        else ""
    )
    step_text = (
        format_count(remaining.remaining_steps, "step") if remaining.remaining_steps else "no step"
    )
    return build_warning(
        "replanned-steps",
        f"An earlier apply (serial {remaining.serial}) left {step_text} unfinished. This plan "
        f"replaces it: {content}{target_note}.",
    )


def _execute_plan(
    run: Run,
    plan: Plan,
    recorder: ApplyRecorder,
    listener: StepListener,
    options: PlanApplyOptions,
    unverified: Sequence[Step] = (),
) -> ApplyOutcome:
    """Execute the plan, verify its predictions, compute outputs, and save the state.

    Also after a failed step, predictions are verified and the state is saved, with the results of
    the completed steps. `unverified` are the steps completed before an interruption: their
    predictions are verified now.
    """
    # Write-only arguments are not in the plan, so they are evaluated here.
    write_only, problems = evaluate_write_only(
        plan, build_plan_request(run.project, run.stored, plan)
    )
    if problems:
        return ApplyOutcome(ApplyResult(run.stored.state, end_events=()), tuple(problems))
    for provider in run.providers.values():
        if isinstance(provider, PlanAwareProvider):
            # Answers of servers to data blocks.
            provider.set_plan_responses(plan.basis.answers)
    types = run.project.registries.resource_types
    execution_options = replace(
        options,
        write_only=write_only,
        lineage=recorder.get_state().lineage,
        start_values=plan.observed.start_values,
        check_site=partial(_check_site, run, plan, recorder) if needs_replay(run, plan) else None,
        maximum_wait=MAXIMUM_WAIT_SECONDS,
    )
    applied = execute_plan(
        plan,
        recorder,
        run.providers,
        types,
        clock=run.clock,
        listener=listener,
        options=execution_options,
    )
    wrong_certain = _verify_predictions(run, plan, recorder, applied, unverified)
    # Not wrong: in a tie, the placement rules allow the observed machine as well as
    # the predicted one.
    ties = select_tied(plan, applied.wrong_predictions, recorder.get_state())
    wrong = tuple(prediction for prediction in applied.wrong_predictions if prediction not in ties)
    applied = replace(applied, wrong_predictions=wrong, ties=tuple(ties))
    results = _compute_final_results(run, plan, applied)
    recorder.add_record(ApplyEnd(results.outputs, tuple(map(_build_check_record, results.checks))))
    problems = [
        *results.diagnostics,
        *_build_prediction_warning(run, plan, recorder.get_state(), wrong_certain),
        *_list_problems(run, plan, applied),
    ]
    state = add_new_identities(
        run.providers, run.identities or IdentityCheck(), recorder.get_state()
    )
    state = record_sources(state, plan, read_clock(run.project.context.environment))
    problems += _save_state(run, recorder, state, complete=applied.is_complete)
    involved_providers = {get_provider_name(plan.changes[step.change]) for step in plan.steps}
    return ApplyOutcome(
        applied=replace(applied, state=state),
        diagnostics=tuple(problems),
        imported=sum(bool(change.importing) for change in plan.changes),
        sends=any(
            run.providers[name].sends_changes
            for name in involved_providers
            if name in run.providers
        ),
        wrong_outputs=tuple(map(_build_wrong_prediction, results.changed_outputs)),
        wrong_certain_predictions=wrong_certain,
        provider_names=tuple(sorted(name.split(".")[0] for name in involved_providers)),
    )


def _check_site(run: Run, plan: Plan, recorder: ApplyRecorder) -> str:
    """Return why the site as observed now forbids the remaining steps of a plan; "" if it does not.

    They are planned from the state after the completed steps.
    """
    problems = check_consequences_again(run, plan, recorder.get_state())
    return " ".join(problem.detail for problem in select_errors(problems))


def _list_problems(run: Run, plan: Plan, applied: ApplyResult) -> Iterator[Diagnostic]:
    """Yield the problems of the executed steps, then an error if the journal cannot be written."""
    yield from _build_unfinished_error(applied, _format_resume_command(run))
    for event in applied.end_events:
        yield from _build_step_warnings(event)
    yield from _build_missing_machine_warning(run, plan, applied)
    if applied.problem:
        detail = f"{applied.problem} Running steps have ended; no further step was started."
        yield build_error("unwritable-journal", detail)
    if applied.rejection:
        yield build_error("saved-plan-guard-rail", applied.rejection)


def _verify_predictions(
    run: Run, plan: Plan, recorder: ApplyRecorder, applied: ApplyResult, unverified: Sequence[Step]
) -> tuple[str, ...]:
    """Compare predictions with the sites and record the results.

    Return texts about wrong ones of certainty `certain`. `unverified` are the steps completed by
    an interrupted run.
    """
    state = recorder.get_state()
    completed_addresses = list_completed_objects(applied.end_events, plan, unverified)
    # Objects with a step left to a person: their VMs to move are not observed yet, so their
    # predictions are verified by a later apply.
    waiting_addresses = {event.address for event in applied.end_events if event.is_delegated}
    types = run.project.registries.resource_types
    verification = verify_predictions(
        plan, completed_addresses | waiting_addresses, state, types, waiting_addresses
    )
    for record in build_journal_records(verification, state):
        recorder.add_record(record)
    return list_wrong_certain(chain(applied.predictions, *verification.verified.values()))


def _build_step_warnings(end: StepEvent) -> Iterator[Diagnostic]:
    """Yield warnings about a step: it stopped as predicted, or its result could not be verified."""
    if end.message:
        yield build_warning("incomplete-rollout", f"{end.address}: {end.message}.")
    if end.not_verified:
        yield build_warning("not-checked", f"{end.address}: not verified: {end.not_verified}.")


def _build_missing_machine_warning(run: Run, plan: Plan, applied: ApplyResult) -> list[Diagnostic]:
    """Build a warning about VMs placed by this apply for which the provider reported no machine.

    The list is empty if the provider reported all machines.
    """
    completed = list_completed_objects(applied.end_events, plan)
    names = list_vms_without_machine(
        plan, completed, applied.state, run.project.registries.resource_types
    )
    if not names:
        return []
    return [
        build_warning(
            VMS_WITHOUT_MACHINE,
            f"The provider reported no machine for {format_first_items(names, _MAX_LISTED)}. "
            "Check that the VMs run. "
            "Then run `nexusform plan`: it reads the site again. Until then, the capacity used "
            "there is unknown.",
        )
    ]


def _build_prediction_warning(
    run: Run, plan: Plan, state: State, wrong_predictions: Sequence[str]
) -> list[Diagnostic]:
    """Build a warning about wrong predictions with the certainty `certain`; [] without any.

    The sites are read again: the scheduler follows another rule only if nothing else changed.
    """
    if not wrong_predictions:
        return []
    from nexusform.workflow.runs.site_changes import find_site_changes

    site = find_site_changes(run, plan, state)
    if site.changes:
        listed = format_first_items(site.changes, _MAX_LISTED, separator="; ")
        cause = f"The site changed since the plan: {listed}. This may be the cause."
    elif site.is_known:
        cause = (
            "Nothing else changed on the site since the plan, so the scheduler follows another "
            "rule than this plan assumes."
        )
    else:
        cause = (
            "The scheduler follows another rule than this plan assumes, or something else changed "
            "in between."
        )
        cause += f" The site cannot be read again: {site.problem}" if site.problem else ""
    return [
        build_warning(
            "wrong-certain-predictions",
            f"{format_first_items(wrong_predictions, _MAX_LISTED, separator='; ')}. {cause} Check "
            "the site before you rely on the next plan. The state has the observed values; "
            "nothing is marked for replacement.",
        )
    ]


def _format_resume_command(run: Run) -> str:
    """Return the command that continues this apply, with the flags of a sandboxed one."""
    if not run.project.context.confinement.root:
        return "nexusform apply -resume"
    addresses = sorted(get_recorded_accesses().addresses)
    flags = [f"-allow-remote={shlex.quote(address)}" for address in addresses]
    return " ".join(["nexusform apply -resume", *flags])


def _build_unfinished_error(applied: ApplyResult, resume_command: str) -> list[Diagnostic]:
    """Build a diagnostic about steps not done; [] if there are none.

    It is a warning if only manual steps are left.
    """
    counts = Counter(end.outcome for end in applied.end_events)
    waiting = counts[StepOutcome.WAITING]
    failed = counts[StepOutcome.FAILED]
    skipped = counts[StepOutcome.SKIPPED]
    # Steps by hand among the waiting steps.
    manual_addresses = [end.address for end in applied.end_events if end.is_delegated]
    # Only manual steps are left.
    if waiting == len(manual_addresses) > 0 and not failed:
        skipped_addresses = [
            end.address for end in applied.end_events if end.outcome is StepOutcome.SKIPPED
        ]
        # A manual change may have two steps: the second, skipped one is no other change.
        later_addresses = [
            address for address in skipped_addresses if address not in manual_addresses
        ]
        return [_build_manual_diagnostic(waiting, len(later_addresses))]
    if not (waiting or failed or skipped):
        # All steps are done.
        return []
    if applied.problem and not waiting:
        # The problem has a diagnostic of its own.
        return []
    clauses: list[str] = []
    if waiting:
        clauses.append(
            f"{format_count(waiting, 'step')} {select_word_form(waiting, 'waits', 'wait')}"
        )
    if failed:
        clauses.append(f"{format_count(failed, 'step')} failed")
    elif not waiting:
        # All steps left were skipped.
        clauses.append("It was interrupted")
    if skipped:
        clauses.append(f"{format_count(skipped, 'step')} not started")
    text = ", ".join(clauses)
    command = f"run `{resume_command}`"
    if waiting:
        detail = (
            f"{text}; the reasons are above. Completed steps are saved. To continue, {command}."
        )
        return [build_error("apply-waiting", detail)]
    advice = f"To continue as planned, {command}; a new plan starts from the current state."
    return [build_error("unfinished-apply", f"{text}. Completed steps are saved. {advice}")]


def _build_manual_diagnostic(count: int, skipped: int) -> Diagnostic:
    """Build the warning about `count` changes to make by hand.

    It is an error if this apply `skipped` further steps.
    """
    changes = select_word_form(count, "this change", "these changes")
    detail = (
        f"nexusform does not make {changes}. Make {changes} on the site, as listed above. If the "
        "plan reads an "
        "export, export the site again. Then run `nexusform apply`: the new plan includes the "
        "changes that it finds."
    )
    headline = f"Waiting for {format_count(count, 'change')} on the site"
    if not skipped:
        return build_warning("waiting-for-site-changes", detail, headline=headline)
    later = f"{format_count(skipped, 'later step')} not started"
    return build_error("waiting-for-site-changes", f"{later}. {detail}", headline=headline)


def _compute_final_results(run: Run, plan: Plan, applied: ApplyResult) -> FinalResults:
    """Compute the outputs and check results to record.

    A failed apply keeps the earlier outputs and planned checks.
    """
    # Objects may be unfinished.
    if not applied.is_complete:
        return FinalResults(run.stored.state.outputs, plan.verdicts.checks)
    request = build_base_request(run.project, StoredState(applied.state))
    # Outputs based on these resources (addresses without instance keys) are evaluated again.
    wrong_addresses: set[str] = set()
    for prediction in (*applied.wrong_predictions, *applied.ties):
        wrong_addresses.add(re.sub(r'\["(?:[^"\\]++|\\.)*+"\]|\[[0-9]+\]', "", prediction.address))
    return evaluate_final_results(plan, request, run.stored.state.outputs, wrong_addresses)


def _build_wrong_prediction(output: WrongOutput) -> WrongPrediction:
    """Build the record of a wrong output; sensitive values are hidden."""
    is_hidden = output.planned.sensitive or output.actual.sensitive
    values = (
        (_SENSITIVE_VALUE, _SENSITIVE_VALUE)
        if is_hidden
        else (output.planned.value, output.actual.value)
    )
    return WrongPrediction("output", (output.name,), *values)


def _build_check_record(check: CheckResult) -> dict[str, Any]:
    """Build the record of a check for the state document.

    It has Terraform's format of check results.
    """
    problems = [{"message": message} for message in check.messages]
    instance = {
        "address": {"to_display": check.address},
        "status": check.status,
        "problems": problems,
    }
    address = {"kind": check.kind, "to_display": check.address}
    return {"address": address, "status": check.status, "instances": [instance]}


def _save_state(
    run: Run, recorder: ApplyRecorder, state: State, *, complete: bool
) -> list[Diagnostic]:
    """Write the state and keep journal records of remaining steps.

    If the backend fails, write a local file.
    """
    document = state_codec.encode_state(state)
    try:
        recorder.flush()
        # For `apply -resume`.
        remaining = None if complete else recorder.get_unfinished_apply()
        run.project.backend.write_merged_state(document, recorder.encode_kept_records(remaining))
        return record_backend_choice(run.project.configuration.settings, run.project.context)
    except BackendProblem as problem:
        if not recorder.has_written:
            # No step starts before its intent is written, so no object changed. No file is needed.
            detail = f"{problem} No objects were changed; the plan can still be applied."
            return [build_error("unwritable-state", detail)]
        return [_save_rescue_file(run, document, str(problem))]


def _rewrite_with_current_encryption(run: Run) -> list[Diagnostic]:
    """Write the state again if it is encrypted by a fallback method.

    Return an error if it fails.
    """
    backend = run.project.backend
    try:
        if isinstance(backend, EncryptingBackend) and backend.is_outdated():
            backend.write_merged_state(
                state_codec.encode_state(run.stored.state), run.stored.list_preserved_lines()
            )
    except BackendProblem as problem:
        return [build_error("unwritable-state", str(problem))]
    return []


def _save_rescue_file(run: Run, document: bytes, message: str) -> Diagnostic:
    """Write a state rejected by the backend to a local file.

    Return the error with the way to recover it.
    """
    context = run.project.context
    # A run of one of several sites has a path of its own, and its next apply reads this file.
    path = Path(context.rescue_path) if context.rescue_path else Path(context.directory) / RESCUE
    try:
        if isinstance(run.project.backend, EncryptingBackend):
            document = run.project.backend.encrypt_document(document)
    except BackendProblem as problem:
        return build_error(
            "state-save-failed", f"{message} Encrypting it for a local file failed too: {problem}"
        )
    try:
        make_directories(path.parent)
        write_output(str(path), document, private=True)
    except OSError as problem:
        return build_error(
            "state-save-failed",
            f"{message} Writing it to {path} failed too ({problem.strerror}). The journal has all "
            "earlier records. When the backend works again, run `nexusform apply -resume`.",
        )
    if context.rescue_path:
        resume_note = "When the backend works again, run apply -resume to save it there."
        return build_error(
            "state-save-failed", f"{message} It was written to {path} instead. {resume_note}"
        )
    return build_error(
        "state-save-failed",
        f"{message} It was written to {path} instead. When the backend works again, run "
        f"`nexusform state push {path}`, then remove that file.",
    )
