"""State that a backend did not save at the end of an apply: kept on this machine and saved before the next
operation on the site.
"""

from __future__ import annotations

from pathlib import Path

from nexusform.diagnostics.diagnostic import Diagnostic, build_error, has_errors
from nexusform.interfaces.plugins import FileProblem
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.state import state_codec
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.plan_files.saved_plans import decrypt_document, read_limited_file
from nexusform.workflow.runs.run import Run
from nexusform.workflow.states.state_commands import check_lineage

_ID = "unsaved-state"


def check_unsaved_state(location: CommandContext) -> list[Diagnostic]:
    """Return an error if an unsaved state exists; a plan without it would create existing objects again."""
    if not Path(location.rescue_path).exists():
        return []
    detail = (
        "An earlier apply of this site could not save its state to the backend: "
        f'"{location.rescue_path}". `nexusform sites apply -resume FILE` with the applied plan saves '
        "it. Only that file records what was applied."
    )
    return [build_error(_ID, detail)]


def save_unsaved_state(run: Run) -> list[Diagnostic]:
    """Write the unsaved state to the locked backend; return diagnostics on failure."""
    location = run.project.context
    try:
        data = read_limited_file(location.rescue_path, location)
    except FileProblem as problem:
        return [build_error(_ID, str(problem))]
    document, problems = decrypt_document(data, location.rescue_path, location)
    if has_errors(problems):
        return problems
    state, problems = state_codec.decode_state(document, location.rescue_path)
    if state is None:
        return problems
    rejection = check_lineage(run.stored.state, state, location.rescue_path)
    if rejection is not None:
        return [rejection]
    try:
        run.project.backend.write_merged_state(state_codec.encode_state(state), ())
        Path(location.rescue_path).unlink()
    except (BackendProblem, OSError) as problem:
        detail = f'The state in "{location.rescue_path}" still cannot be saved: {problem}'
        return [build_error("state-save-failed", detail)]
    return []
