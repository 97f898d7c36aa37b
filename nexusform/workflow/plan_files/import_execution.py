"""Execution of `import -from`: a new configuration file, and its objects in the state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from nexusform.applying.events import StepListener
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error, select_errors
from nexusform.plans.plan import Plan
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.plan_files.plan_execution import PlanApplyOptions, apply_plan
from nexusform.workflow.runs.run import Run, RunCallbacks, begin_run
from nexusform.workflow.runs.state_locking import LockOptions


def import_with_new_file(
    location: CommandContext,
    path: str,
    locking: LockOptions,
    notices: RunCallbacks,
    write_objects: Callable[[Run], list[Diagnostic]],
) -> tuple[list[Diagnostic], Mapping[str, SourceFile]]:
    """Open the configuration with its new file `path`, and let `write_objects` write the objects to the locked state.
    If that fails, the file is deleted, unless the state may have the objects: without blocks, a plan would delete them.
    """
    opened = open_project(location)
    problems = list(opened.diagnostics)
    if opened.project is None:
        Path(path).unlink()
        return problems, opened.sources
    with begin_run(opened.project, "OperationTypeImport", locking, notices=notices) as run:
        written_problems = write_objects(run) if run.is_ready else []
        failed_ids = {problem.id for problem in select_errors([*run.diagnostics, *written_problems])}
        # After a failed begin of the run, nothing was written.
        if failed_ids & {"unwritable-state", "state-save-failed"} and run.is_ready:
            detail = (
                f'The state may have the objects although writing it failed, so "{path}" was kept. When the backend '
                f'works again, run `nexusform plan`. If it creates objects, delete "{path}" and import again.'
            )
            written_problems.append(build_error("import-result-unknown", detail))
        elif failed_ids:
            Path(path).unlink()
    # A failed release of the lock is added to the run at its end. The objects are in the state then.
    return [*problems, *written_problems, *run.diagnostics], opened.sources


def apply_import_plan(run: Run, plan: Plan) -> list[Diagnostic]:
    """Write the objects of a plan without changes to the state."""
    return list(apply_plan(run, plan, StepListener(), PlanApplyOptions()).diagnostics)
