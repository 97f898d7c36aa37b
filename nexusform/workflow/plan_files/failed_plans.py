"""Plan files of failed runs: each replaces an older plan, so apply cannot use the older one."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import nexusform
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile, build_error, has_errors, select_errors
from nexusform.diagnostics.phrases import format_count
from nexusform.encryption.document_cipher import PLAN, read_encryption_purpose
from nexusform.files.regular_files import read_regular
from nexusform.plans.plan import Plan, PlanInputs
from nexusform.plans.saved import plan_file
from nexusform.plans.saved.plan_file import SavedPlan
from nexusform.providers.clock import read_clock
from nexusform.workflow.opening.command_context import CommandContext, load_project_configuration
from nexusform.workflow.opening.encryption_settings import encrypt_plan
from nexusform.workflow.opening.system_io import (
    explain_unwritable_file,
    find_commit,
    is_stream_or_directory,
    remove_older_output,
    write_output,
)
from nexusform.workflow.runs.run import PlanOptions

UNFINISHED: Final = "The command that writes this file ended before the plan was complete. Plan again."


def build_failed_plan(context: CommandContext, options: PlanOptions, diagnostics: Sequence[Diagnostic]) -> Plan:
    """Build the plan of a run failed before planning: its options and errors, without changes."""
    return Plan(
        mode=options.mode,
        diagnostics=tuple(diagnostics),
        errored=True,
        nexusform_version=nexusform.__version__,
        workspace=context.workspace,
        targets=options.targets,
        excludes=options.excludes,
        replaces=options.replaces,
        timestamp=options.now or read_clock(context.environment),
        basis=PlanInputs(commit=find_commit(context.directory, context.environment, context.directory_confinement)),
    )


def save_failed_plan(
    plan: Plan, path: str, context: CommandContext, sources: Mapping[str, SourceFile]
) -> list[Diagnostic]:
    """Write the plan of a failed run, encrypted if configured; an encryption error leaves `path` as it is."""
    document = plan_file.write_plan_file(plan, {name: source.text for name, source in sources.items()})
    if sources:  # else the plan has no configuration, only options and errors
        configuration, _ = load_project_configuration(context)
        document, problems = encrypt_plan(document, configuration, context)
        if has_errors(problems):
            return problems
    try:
        write_output(path, document, private=True)
    except OSError as problem:
        error = build_error("plan-save-failed", f'"{path}" cannot be written: {problem.strerror}.')
        with suppress(OSError):
            remove_older_output(path)  # so apply cannot use an older plan
        return [error]
    return []


def prepare_plan_file(path: str, context: CommandContext, options: PlanOptions) -> list[Diagnostic]:
    """Replace an older plan with a failed one at the start of a run. Return errors if no plan may be written there."""
    if reason := explain_unwritable_file(path):
        return [build_error("plan-save-failed", reason)]
    if is_stream_or_directory(Path(path)) or not os.path.lexists(path):  # there is no older plan
        return []
    if not is_replaceable(path, context):
        return [build_file_rejection(path)]
    plan = build_failed_plan(context, options, [build_error("unfinished-plan", UNFINISHED)])
    return save_failed_plan(plan, path, context, {})


def is_replaceable(path: str, context: CommandContext, first_member: str = plan_file.MANIFEST) -> bool:
    """Return whether a plan may be written to a path: anything but an unreadable or non-empty file of another kind."""
    target = Path(path)
    if target.is_symlink() or is_stream_or_directory(target) or not target.exists():
        return True
    try:
        content = read_regular(target, context.get_max_file_size(), follow=False)
    except OSError:
        return False
    if not content or read_encryption_purpose(content) == PLAN:
        return True
    member = plan_file.read_member_at(content, 0)  # its name and data
    return member is not None and member[0] == first_member


def build_file_rejection(path: str) -> Diagnostic:
    """Build the error for an output path with a file of another kind."""
    return build_error(
        "plan-save-failed",
        f'"{path}" is not a plan file, so it is not overwritten. Choose another name, or delete the file.',
    )


def check_failed_plan(saved: SavedPlan, path: str) -> list[Diagnostic]:
    """Return an error for the saved plan of a failed run, with its first error; [] for a complete plan."""
    if not saved.plan.errored:
        return []
    errors = select_errors(saved.plan.diagnostics)
    reason = f": {errors[0].summary.removesuffix('.')}" if errors else ""
    return [
        build_error(
            "errored-saved-plan",
            f"Planning failed with {format_count(len(errors), 'error')}{reason}. `nexusform show {path}` lists "
            f"them. Fix them and run `nexusform plan -out={path}` again.",
        )
    ]
