"""Check of a saved plan against the site, while another process may apply the plan."""

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, has_errors
from nexusform.plans.saved.plan_file import SavedPlan
from nexusform.workflow.opening.project import Project
from nexusform.workflow.opening.stored_state import read_stored_state
from nexusform.workflow.plan_files.remaining_steps import find_remaining_steps
from nexusform.workflow.runs.run import begin_run
from nexusform.workflow.runs.site_checks import check_approved_consequences
from nexusform.workflow.runs.state_locking import LockOptions

# The apply of the plan has the lock, and waits for the answer.
_UNLOCKED = LockOptions(enabled=False, is_exclusive=True)


def check_saved_plan_beside_apply(project: Project, saved: SavedPlan) -> list[Diagnostic]:
    """Replay the remaining steps of a plan on the site as it is now, without a lock.

    Steps that are complete in the journal are part of the site. Nothing is recorded.
    """
    plan = saved.plan
    stored, problems = read_stored_state(project.backend)
    if stored is None:
        return problems
    remaining, _ = find_remaining_steps(stored, project.context)
    if remaining is not None and remaining.plan_digest == saved.digest:
        plan = replace(plan, steps=remaining.plan.steps)
    with begin_run(project, "OperationTypePlan", _UNLOCKED, records_recovery=False) as run:
        problems = list(run.diagnostics)
        if not has_errors(problems):
            problems += check_approved_consequences(run, plan, is_started=True)
    return problems
