"""Remaining steps of an unfinished apply, and the checks before they resume."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from nexusform.applying.provider_calls import get_provider_name
from nexusform.diagnostics.diagnostic import Diagnostic, build_error, build_warning, has_errors
from nexusform.diagnostics.phrases import format_count, select_word_form
from nexusform.interfaces.state_storage import BackendProblem, StateBackend
from nexusform.plans.plan import Plan, StepKind
from nexusform.state import state_codec
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.project import find_backend
from nexusform.workflow.opening.stored_state import StoredState, read_stored_state
from nexusform.workflow.runs.run import Run

# Most plans find no remaining steps.
if TYPE_CHECKING:
    from nexusform.plans.saved.plan_file import SavedPlan


class RemainingSteps(Struct, frozen=True):
    """The remaining steps of an apply: `plan` has only these, `saved_plan` all.

    With `was_interrupted`, the apply was killed.
    """

    saved_plan: SavedPlan
    plan: Plan
    was_interrupted: bool
    plan_digest: str

    @property
    def step_count(self) -> int:
        """Number of remaining steps."""
        return count_steps(self.plan)

    @property
    def summary(self) -> str:
        """A clause such as `3 steps remain`, without a full stop."""
        if not self.step_count:
            return "All its steps are complete, but its end is not recorded"
        return (
            f"{format_count(self.step_count, 'step')} "
            f"{select_word_form(self.step_count, 'remains', 'remain')}"
        )


def count_steps(plan: Plan) -> int:
    """Count the steps, except gates: a gate only waits for other steps, and reports no progress."""
    return sum(step.kind is not StepKind.GATE for step in plan.steps)


def find_remaining_steps(
    stored: StoredState, context: CommandContext
) -> tuple[RemainingSteps | None, list[Diagnostic]]:
    """Return the remaining steps of the last apply or None, and errors.

    An unreadable plan, or a changed state, is an error.
    """
    remaining = stored.remaining
    if remaining is None:
        return None, []
    from nexusform.plans.saved import plan_file

    document = remaining.decode_plan_file(context.get_max_file_size())
    saved, problems = plan_file.read_plan_file(document or b"", "The plan in the journal")
    if saved is None:
        remedy = "`nexusform apply -discard` drops its remaining steps."
        return None, [replace(problem, detail=f"{problem.detail} {remedy}") for problem in problems]
    steps = tuple(step for step in saved.plan.steps if step.id not in remaining.completed_steps)
    plan = replace(saved.plan, steps=steps)
    # A killed run does not record its end.
    was_interrupted = not remaining.has_ended
    remaining_steps = RemainingSteps(saved, plan, was_interrupted, remaining.plan_digest)
    state = stored.state
    # The state has the serial of the apply, or still the one before it. Any other serial belongs to
    # a later change.
    if state.lineage != remaining.lineage or state.serial not in (
        remaining.serial - 1,
        remaining.serial,
    ):
        state_changed_error = build_error(
            "state-changed-since-apply",
            f"An earlier apply is unfinished. {remaining_steps.summary}. It left the state at "
            f"serial {remaining.serial}, but the serial is now {state.serial}, so these steps may "
            "be outdated. Drop them with `nexusform apply -discard`, then plan again.",
        )
        return remaining_steps, [state_changed_error]
    return remaining_steps, []


def check_interrupted_apply(run: Run) -> list[Diagnostic]:
    """Return warnings for a new plan about an unfinished apply.

    Return a warning also if the plan of that apply is unreadable.
    """
    remaining_steps, problems = find_remaining_steps(run.stored, run.project.context)
    # Its plan is unreadable, or the state has changed.
    if remaining_steps is None or problems:
        return [build_warning("steps-not-applied", problem.detail) for problem in problems]
    if remaining_steps.was_interrupted:
        return [_build_interrupted_warning(remaining_steps)]
    # The apply is complete.
    if not remaining_steps.step_count:
        return []
    manual_count = _count_manual_changes(run, remaining_steps.plan)
    if manual_count:
        return [_build_manual_warning(manual_count)]
    detail = (
        f"The last apply did not finish: {remaining_steps.summary}. This plan starts from the "
        "current state and includes the changes that are left. `nexusform apply -resume` continues "
        "the earlier plan instead."
    )
    return [build_warning("steps-not-applied", detail)]


def _count_manual_changes(run: Run, plan: Plan) -> int:
    """Return the number of changed objects if people make all changes of a plan; otherwise 0.

    Their providers observe a site and send nothing to it.
    """
    changes = {
        plan.changes[step.change].address: plan.changes[step.change]
        for step in plan.steps
        if step.kind is not StepKind.GATE
    }
    for change in changes.values():
        provider = run.providers.get(get_provider_name(change))
        if provider is None or provider.sends_changes or not provider.observes_objects:
            return 0
    return len(changes)


def _build_manual_warning(count: int) -> Diagnostic:
    """Build the warning about changes of the last apply that people make on the site."""
    subject = f"{format_count(count, 'change')} {select_word_form(count, 'waits', 'wait')}"
    pronoun = select_word_form(count, "it", "them")
    detail = (
        f"{subject} for the site. Make {pronoun} there. If the plan reads an export, export the "
        f"site again. This plan includes the changes that it still needs."
    )
    headline = f"Waiting for {format_count(count, 'change')} on the site"
    return build_warning("waiting-for-site-changes", detail, headline=headline)


def _build_interrupted_warning(remaining_steps: RemainingSteps) -> Diagnostic:
    """Build the warning about a killed apply.

    Without remaining steps only its end is to be recorded.
    """
    pronoun = select_word_form(remaining_steps.step_count, "it", "them")
    effect = "records it"
    if remaining_steps.step_count:
        effect = f"does {pronoun} as planned; `nexusform apply -discard` drops {pronoun}"
    return build_warning(
        "apply-interrupted",
        (
            f"{remaining_steps.summary}. `nexusform apply -resume` {effect}. This plan starts "
            "from the current state."
        ),
    )


def check_inputs_unchanged(run: Run, remaining_steps: RemainingSteps) -> list[Diagnostic]:
    """Return an error if configuration or variables changed.

    Then only an explicit -resume continues the apply.
    """
    from nexusform.workflow.plan_files.saved_plans import check_variables_unchanged

    project = run.project
    if project.configuration.file_texts != dict(remaining_steps.saved_plan.configuration_files):
        changed_input = "configuration"
    elif has_errors(
        check_variables_unchanged(
            project.context,
            project.configuration,
            remaining_steps.plan,
            # A new plan would use the values of all sources.
            only_options=False,
        )
    ):
        changed_input = "variables"
    else:
        return []
    return [
        build_error(
            "apply-interrupted",
            f"{remaining_steps.summary}. The {changed_input} changed since. `nexusform apply "
            "-resume` finishes it as "
            "planned; `nexusform apply -discard` drops it.",
        )
    ]


def open_remaining_steps(
    context: CommandContext,
) -> tuple[RemainingSteps | None, StateBackend | None, list[Diagnostic]]:
    """Return the remaining steps in the state, None with errors or without any.

    Also return the backend of the state: the plan of the steps may name another one, if the state
    was migrated since.
    """
    backend, problems, _ = find_backend(context)
    if backend is None:
        return None, None, problems
    stored, new_problems = read_stored_state(backend, checks_objects=False)
    if stored is None:
        return None, None, [*problems, *new_problems]
    # Without the lock, steps with an unknown outcome may be among them. The run checks again once
    # it has the lock.
    remaining_steps, new_problems = find_remaining_steps(stored, context)
    if remaining_steps is None and not new_problems:
        new_problems = [
            build_error(
                "nothing-to-resume", "There is no unfinished apply. Plan and apply as usual."
            )
        ]
    return remaining_steps, backend, [*problems, *new_problems]


def discard_remaining_steps(run: Run) -> tuple[int | None, list[Diagnostic]]:
    """Drop the remaining steps from the journal.

    Return their number, None without an unfinished apply or on errors.
    """
    remaining = run.stored.remaining
    if remaining is None:
        return None, []
    try:
        # The merged state keeps no records.
        run.project.backend.write_merged_state(state_codec.encode_state(run.stored.state))
    except BackendProblem as problem:
        return None, [build_error("unwritable-state", str(problem))]
    return remaining.remaining_steps, []
