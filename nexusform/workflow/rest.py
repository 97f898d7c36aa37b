"""The rest of an apply: the steps of the plan that it followed and did not come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, error, warning
from nexusform.planning.plan import Plan, StepKind
from nexusform.words import counted
from nexusform.workflow.stored import Stored

if TYPE_CHECKING:  # most plans find nothing left
    from nexusform.planning.saved.plan_file import SavedPlan


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


def rest_of(stored: Stored) -> tuple[Rest | None, list[Diagnostic]]:
    """What the last apply left to do, None when nothing; an error when it cannot be done any more."""
    remaining = stored.remaining
    if remaining is None:
        return None, []
    from nexusform.planning.saved import plan_file

    document = remaining.document()
    saved, problems = plan_file.read(document or b"", "the plan in the journal")
    if saved is None:
        return None, problems
    steps = tuple(step for step in saved.plan.steps if step.id not in remaining.done)
    rest = Rest(saved, replace(saved.plan, steps=steps), not remaining.ended, remaining.plan_digest)
    state = stored.state
    if (state.lineage, state.serial) != (remaining.lineage, remaining.serial):
        return rest, [_changed_since(rest, remaining.serial, state.serial)]
    return rest, []


def _changed_since(rest: Rest, left_at: int, now: int) -> Diagnostic:
    return error(
        "the-state-changed-since-the-apply",
        f"{counted(rest.steps, 'step')} of an earlier apply are left. It left the state at serial {left_at}, "
        f"and it has serial {now} now, so they may not be right any more. `nexusform apply -discard` drops "
        "them; then plan again.",
    )


def remarks_on_rest(stored: Stored) -> list[Diagnostic]:
    """What a plan says of an apply that was killed before."""
    rest, problems = rest_of(stored)
    if rest is None:
        return problems
    return [_killed(rest)] if rest.killed else []


def _killed(rest: Rest) -> Diagnostic:
    return warning(
        "an-earlier-apply-was-interrupted",
        f"{counted(rest.steps, 'step')} of it are left. `nexusform apply -resume` does them as they were "
        "planned, `nexusform apply -discard` drops them. This plan is made of what stands now.",
    )
