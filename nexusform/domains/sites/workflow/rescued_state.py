"""A state that a site's backend did not take when its apply ended: kept on this machine, and put where it
belongs before anything else is done with the site.
"""

from __future__ import annotations

from pathlib import Path

from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.ports import FileProblem
from nexusform.state import codec
from nexusform.state_ports import BackendProblem
from nexusform.workflow.opening.place import Place
from nexusform.workflow.plan_files.saved_plans import read_limited, unsealed
from nexusform.workflow.runs.run import Run
from nexusform.workflow.states.state_commands import unrelated

_ID = "state-waits-to-be-saved"


def waiting_state(place: Place) -> list[Diagnostic]:
    """An error where a state waits: without it a plan would make once more what stands already."""
    if not Path(place.rescue).exists():
        return []
    detail = (
        f'An earlier apply of this site ended in a state that its backend did not take: "{place.rescue}". '
        "`nexusform sites apply -resume FILE` with the plan that was applied puts it there. What is in that "
        "file stands, and no other state knows of it."
    )
    return [error(_ID, detail)]


def bring_back(run: Run) -> list[Diagnostic]:
    """Write the state that waits to the backend, whose lock is held; why it cannot be."""
    place = run.project.place
    try:
        data = read_limited(place.rescue, place)
    except FileProblem as problem:
        return [error(_ID, str(problem))]
    document, problems = unsealed(data, place.rescue, place)
    if has_errors(problems):
        return problems
    state, problems = codec.decode(document, place.rescue)
    if state is None:
        return problems
    refusal = unrelated(run.stored.state, state, place.rescue)
    if refusal is not None:
        return [refusal]
    try:
        run.project.backend.compact(codec.encode(state), ())
        Path(place.rescue).unlink()
    except (BackendProblem, OSError) as problem:
        detail = f'The state in "{place.rescue}" still cannot be saved: {problem}'
        return [error("the-state-could-not-be-saved", detail)]
    return []
