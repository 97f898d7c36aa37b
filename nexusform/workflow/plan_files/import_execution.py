"""Execution of `import -from`: a new configuration file, and its objects in the state."""

from collections.abc import Callable, Mapping

from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error, select_errors
from nexusform.files.regular_files import remove_file
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.runs.run import Run, RunCallbacks, begin_run
from nexusform.workflow.runs.state_locking import LockOptions


def import_with_new_file(
    location: CommandContext,
    path: str,
    locking: LockOptions,
    notices: RunCallbacks,
    write_objects: Callable[[Run], list[Diagnostic]],
) -> tuple[list[Diagnostic], Mapping[str, SourceFile]]:
    """Open the configuration with its new file `path`, and write the objects to the state.

    `write_objects` writes them. The state is locked.

    If that fails, the file is deleted, unless the state may have the objects: without blocks, a
    plan would delete them.
    """
    opened = open_project(location)
    problems = list(opened.diagnostics)
    if opened.project is None:
        remove_file(path)
        return problems, opened.sources
    with begin_run(opened.project, "OperationTypeImport", locking, notices=notices) as run:
        written_problems = write_objects(run) if run.is_ready else []
        failed_ids = {
            problem.id for problem in select_errors([*run.diagnostics, *written_problems])
        }
        if (
            failed_ids & {"unwritable-journal", "unwritable-state", "state-save-failed"}
            and run.is_ready
        ):
            detail = (
                f'The state may have the objects although writing it failed, so "{path}" was kept. '
                "When the backend works again, run `nexusform plan`. If it creates objects, delete "
                f'"{path}" and import again.'
            )
            written_problems.append(build_error("import-result-unknown", detail))
        elif failed_ids:
            remove_file(path)
    # At its end, the block above may add a failed release of the lock. The state has the objects,
    # so the file stays.
    return [*problems, *written_problems, *run.diagnostics], opened.sources
