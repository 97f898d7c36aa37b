"""What an apply left to do: the rest of the plan that it followed, and whether it may still be done."""

from __future__ import annotations

from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.ports import BackendProblem, StateBackend
from nexusform.state import codec
from nexusform.words import counted
from nexusform.workflow.place import Place
from nexusform.workflow.project import find_backend
from nexusform.workflow.rest import Rest, rest_of
from nexusform.workflow.run import Run
from nexusform.workflow.saved_plans import other_variables
from nexusform.workflow.stored import read_stored


def differences(run: Run, rest: Rest) -> list[Diagnostic]:
    """Why the rest must not be done without being asked for: another configuration, other variables."""
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
            f"{counted(rest.steps, 'step')} of it are left. {why} `nexusform apply -resume` does what was "
            "begun, as it was planned; `nexusform apply -discard` drops it.",
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
    rest, wrong = rest_of(stored)
    if rest is None and not wrong:
        wrong = [error("nothing-to-resume", "No apply left anything to do. Plan and apply as usual.")]
    return rest, backend, [*problems, *wrong]


def discard(run: Run) -> tuple[int, list[Diagnostic]]:
    """Drop what is left; how many steps it was."""
    remaining = run.stored.remaining
    if remaining is None:
        return 0, []
    try:
        run.project.backend.compact(codec.encode(run.stored.state))
    except BackendProblem as problem:
        return 0, [error("the-state-cannot-be-written", str(problem))]
    return remaining.left, []
