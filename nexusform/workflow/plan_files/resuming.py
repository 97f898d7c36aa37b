"""What an apply left to do: the steps of the plan that it followed and did not come to, and whether they may
still be done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, error, has_errors, warning
from nexusform.plans.plan import Plan, StepKind
from nexusform.state import codec
from nexusform.state_ports import BackendProblem, StateBackend
from nexusform.words import counted, form
from nexusform.workflow.opening.place import Place
from nexusform.workflow.opening.project import find_backend
from nexusform.workflow.opening.stored import Stored, read_stored
from nexusform.workflow.runs.run import Run

if TYPE_CHECKING:  # most plans find nothing left
    from nexusform.plans.saved.plan_file import SavedPlan


class Rest(Struct, frozen=True):
    """The steps that are left. `saved` is the plan as it was begun; `plan` has the left steps alone.

    `killed`: the apply did not come to its end by itself.
    """

    saved: SavedPlan
    plan: Plan
    killed: bool
    plan_digest: str

    @property
    def steps(self) -> int:
        """How many steps ask a provider or forget something."""
        return sum(1 for step in self.plan.steps if step.kind is not StepKind.GATE)

    @property
    def left(self) -> str:
        """`3 steps of it are left`, as a sentence without its stop."""
        if not self.steps:
            return "All its steps were done, and its end was not recorded any more"
        return f"{counted(self.steps, 'step')} of it {form(self.steps, 'is', 'are')} left"


def rest_of(stored: Stored, place: Place) -> tuple[Rest | None, list[Diagnostic]]:
    """What the last apply left to do, None when nothing; an error when it cannot be done any more."""
    remaining = stored.remaining
    if remaining is None:
        return None, []
    from nexusform.plans.saved import plan_file

    document = remaining.document(place.largest_file())
    saved, problems = plan_file.read(document or b"", "the plan in the journal")
    if saved is None:
        return None, problems
    steps = tuple(step for step in saved.plan.steps if step.id not in remaining.done)
    rest = Rest(saved, replace(saved.plan, steps=steps), not remaining.ended, remaining.plan_digest)
    state = stored.state
    # After a checkpoint the rest already has the serial that the next record begins.
    left_at = (remaining.serial - 1, remaining.serial)
    if state.lineage != remaining.lineage or state.serial not in left_at:
        return rest, [_changed_since(rest, remaining.serial, state.serial)]
    return rest, []


def _changed_since(rest: Rest, left_at: int, now: int) -> Diagnostic:
    return error(
        "the-state-changed-since-the-apply",
        f"An earlier apply was not ended. {rest.left}. It left the state at serial {left_at}, and it has "
        f"serial {now} now, so what is left may not be right any more. `nexusform apply -discard` drops it; "
        "then plan again.",
    )


def remarks_on_rest(stored: Stored, place: Place) -> list[Diagnostic]:
    """What a plan says of an apply that was killed before."""
    rest, problems = rest_of(stored, place)
    if rest is None:
        return problems
    return [_killed(rest)] if rest.killed else []


def _killed(rest: Rest) -> Diagnostic:
    them = form(rest.steps, "it", "them")
    does = f"does {them} as planned, `nexusform apply -discard` drops {them}" if rest.steps else "records it"
    return warning(
        "an-earlier-apply-was-interrupted",
        f"{rest.left}. `nexusform apply -resume` {does}. This plan is made of what stands now.",
    )


def differences(run: Run, rest: Rest) -> list[Diagnostic]:
    """Why the rest must not be done without being asked for: another configuration, other variables."""
    from nexusform.workflow.plan_files.saved_plans import other_variables  # few plans meet a rest

    project = run.project
    texts = {name: source.text for name, source in project.configuration.files.items()}
    why = ""
    if texts != dict(rest.saved.snapshot):
        why = "The configuration is another one since."
    elif has_errors(other_variables(project.place, project.configuration, rest.plan)):
        why = "The variables are others since."
    if not why:
        return []
    return [
        error(
            "an-earlier-apply-was-interrupted",
            f"{rest.left}. {why} `nexusform apply -resume` ends what was begun, as it was planned; "
            "`nexusform apply -discard` drops it.",
        )
    ]


def find_rest(place: Place) -> tuple[Rest | None, StateBackend | None, list[Diagnostic]]:
    """What is left to do in the place's state, and the backend that holds it, for opening the project.

    The plan may name another backend: the state may have been migrated since it was made.
    """
    backend, problems, _ = find_backend(place)
    if backend is None:
        return None, None, problems
    stored, wrong = read_stored(backend, closely=False)
    if stored is None:
        return None, None, [*problems, *wrong]
    # Unsettled steps may count as left here: the run looks again, under the lock.
    rest, wrong = rest_of(stored, place)
    if rest is None and not wrong:
        wrong = [error("nothing-to-resume", "No apply left anything to do. Plan and apply as usual.")]
    return rest, backend, [*problems, *wrong]


def discard(run: Run) -> tuple[int | None, list[Diagnostic]]:
    """Drop what is left; how many steps it was, None when no apply had left anything."""
    remaining = run.stored.remaining
    if remaining is None:
        return None, []
    try:
        run.project.backend.compact(codec.encode(run.stored.state))
    except BackendProblem as problem:
        return None, [error("the-state-cannot-be-written", str(problem))]
    return remaining.left, []
