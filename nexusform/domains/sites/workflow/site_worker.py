"""Tasks of a worker.

A worker runs tasks of many sites in turn, and keeps only locks between tasks: a wave takes all of
its locks before its first write.
"""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.applying.events import StepListener
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Severity,
    build_error,
    has_errors,
    select_errors,
)
from nexusform.domains.azure.providers.azure_rate_limit import BUDGET_VARIABLE
from nexusform.domains.sites.rendering.site_change_rows import build_site_rows
from nexusform.domains.sites.types.fleet_plan import FILE_NAME, FleetDefinition, SiteEntry
from nexusform.domains.sites.types.site_tasks import (
    FleetContext,
    SiteResult,
    SiteStatus,
    SiteTaskKind,
    Task,
)
from nexusform.domains.sites.workflow.definition_file import read_definition
from nexusform.domains.sites.workflow.site_locks import (
    describe_session,
    open_current_state,
    read_site_lock,
    unlock_site,
)
from nexusform.domains.sites.workflow.site_project import (
    build_fleet_context,
    normalize_state_location,
    open_site_project,
)
from nexusform.domains.sites.workflow.site_results import (
    build_plan_result,
    build_rejected_result,
    build_site_diagnostics,
    compute_plan_digest,
    describe_state_location,
)
from nexusform.files.access_record import start_access_record
from nexusform.files.regular_files import remove_file
from nexusform.interfaces.plugins import FileProblem
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.plans.impact.decision_figures import build_decision
from nexusform.plans.plan import Mode, Plan
from nexusform.plans.saved import plan_file
from nexusform.state import state_codec
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.garbage_collection import collect_garbage_rarely
from nexusform.workflow.opening.project import Project
from nexusform.workflow.opening.stored_state import read_stored_state
from nexusform.workflow.plan_files.plan_execution import (
    PlanApplyOptions,
    apply_plan,
    apply_remaining_steps,
)
from nexusform.workflow.plan_files.remaining_steps import RemainingSteps, find_remaining_steps
from nexusform.workflow.plan_files.saved_plans import decrypt_document, read_limited_file, save_plan
from nexusform.workflow.runs.run import PlanOptions, Run, begin_run
from nexusform.workflow.runs.site_checks import (
    MAXIMUM_WAIT_SECONDS,
    check_approved_consequences,
    check_consequences_again,
)
from nexusform.workflow.runs.state_locking import LockOptions
from nexusform.workflow.states.state_commands import (
    StateCommandContext,
    change_locked_state,
    create_push_change,
)

PLAN_SUFFIX: Final = ".nfplan"
_LINE: Final = re.compile(r"""(?<![^\s"'(])([^\s"'():,]+):(\d+,\d+)""")
_MAX_RECURSION: Final = 3_000
_MAX_WRONG_PREDICTIONS: Final = 5  # named per site
_UNSAVED: Final = "unsaved-state"
_CHANGED_MESSAGE: Final = (
    "nexusform.sites.hcl, or a file that it reads, changed since the command started. Run the "
    "command again."
)


class _LockedSite(Struct):
    """Site locked by this worker, and the monotonic time of its check."""

    run: Run
    plan: Plan | None
    remaining: RemainingSteps | None
    exit_stack: ExitStack
    checked_at: float


class FleetTaskWorker:
    """Process that runs tasks of fleets, one at a time, since they share directory and memory."""

    def __init__(self) -> None:
        """Start without definitions and sites.

        Python's recursion limit is raised to at least _MAX_RECURSION, and garbage
        is collected rarely.
        """
        # By root directory and digest.
        self._definitions: dict[tuple[str, str], FleetDefinition] = {}
        # By site name.
        self._entries: dict[str, SiteEntry] = {}
        # By session and site name.
        self._prepared_sites: dict[tuple[str, str], _LockedSite] = {}
        sys.setrecursionlimit(max(sys.getrecursionlimit(), _MAX_RECURSION))
        collect_garbage_rarely()

    def run_task(self, task: Task) -> SiteResult:
        """Run a task.

        Errors of its site are part of the result; exceptions are bugs.
        """
        os.chdir(task.fleet.root)
        # This fills `_entries`, the sites by name.
        definition, problems = self._load_definition(task.fleet)
        if definition is None:
            return build_rejected_result(task.site, problems)
        site = self._entries.get(task.site)
        if site is None:
            reason = "nexusform.sites.hcl no longer declares it. Nothing was done."
            return SiteResult(task.site, SiteStatus.REJECTED, reason)
        # The file was edited since the run started.
        if definition.digest != task.fleet.definition_digest:
            return SiteResult(task.site, SiteStatus.REJECTED, _CHANGED_MESSAGE)
        try:
            # As for `nexusform plan`: paths are relative to the root module.
            os.chdir(site.source)
        except OSError as problem:
            detail = f'The source "{site.source}" of the site cannot be opened: {problem.strerror}.'
            error = build_error("unreadable-configuration-directory", detail, site.span)
            result = build_rejected_result(site.name, [error])
        else:
            result = self._run_task_by_kind(task, site)
        return _make_paths_relative_to_fleet(result, site.source, task.fleet.root)

    def _load_definition(
        self, fleet: FleetContext
    ) -> tuple[FleetDefinition | None, Sequence[Diagnostic]]:
        """Load the definition, once for each digest; None with diagnostics if it is invalid."""
        root_and_digest = (fleet.root, fleet.definition_digest)
        if root_and_digest not in self._definitions:
            location = build_fleet_context(fleet, os.environ)
            definition, problems, _ = read_definition(
                ".", location.confinement, fleet.now, fleet.allowed_sources
            )
            if definition is None:
                return None, problems
            # Only the last one is kept.
            self._definitions = {root_and_digest: definition}
            self._entries = definition.sites_by_name
            # A limit over all workers, counted in a common directory.
            if definition.requests_per_minute:
                budget_directory = Path(fleet.root, location.data_directory, "requests")
                os.environ[BUDGET_VARIABLE] = f"{definition.requests_per_minute}:{budget_directory}"
        return self._definitions[root_and_digest], ()

    def _run_task_by_kind(self, task: Task, site: SiteEntry) -> SiteResult:
        """Run a task by the function for its kind, with a new record of accessed files."""
        start_access_record()
        runners: Mapping[SiteTaskKind, Callable[[Task, SiteEntry], SiteResult]] = {
            SiteTaskKind.PLAN: _plan_site,
            SiteTaskKind.PREPARE: self._prepare_site,
            SiteTaskKind.APPLY: self._apply_site,
            SiteTaskKind.RELEASE: self._release_site,
            SiteTaskKind.UNLOCK: unlock_site,
            SiteTaskKind.STATUS: _read_site_status,
            SiteTaskKind.ASK: _run_question,
        }
        return runners[task.kind](task, site)

    def _prepare_site(self, task: Task, site: SiteEntry) -> SiteResult:
        """Lock the site and plan it again.

        Keep lock and plan if the plan is the approved one and changes anything.
        """
        # The lock of an earlier attempt is released.
        self._release_lock(task)
        opened = open_site_project(task.fleet, site, os.environ)
        if opened.project is None:
            return build_rejected_result(site.name, opened.diagnostics)
        # Its end releases the lock.
        exit_stack = ExitStack()
        locking = LockOptions(
            timeout=task.fleet.lock_timeout, info=describe_session(task.fleet.session)
        )
        # An earlier apply left it: it is saved first.
        if check_unsaved_state(opened.project.context):
            problems = save_unsaved_state(opened.project, locking)
            if problems:
                return build_rejected_result(site.name, problems)
        run = exit_stack.enter_context(begin_run(opened.project, "OperationTypeApply", locking))
        # The comparison below adds the rest.
        prepared = _LockedSite(
            run, plan=None, remaining=None, exit_stack=exit_stack, checked_at=monotonic()
        )
        result = build_rejected_result(site.name, run.diagnostics)
        if run.is_ready:
            result = _compare_with_approval(task, site, prepared, opened.diagnostics)
        if result.is_locked:
            self._prepared_sites[task.fleet.session, site.name] = prepared
        else:
            exit_stack.close()
        return result

    def _release_site(self, task: Task, site: SiteEntry) -> SiteResult:
        """Unlock a site, also if the preparing worker is lost."""
        if (task.fleet.session, site.name) not in self._prepared_sites:
            # Another worker took the lock.
            unlock_site(task, site)
        self._release_lock(task)
        return SiteResult(site.name, SiteStatus.SKIPPED)

    def _apply_site(self, task: Task, site: SiteEntry) -> SiteResult:
        """Apply a prepared site; prepare it here if the preparing worker is lost."""
        if (task.fleet.session, site.name) not in self._prepared_sites:
            # If this fails, _prepare_site reports the lock.
            unlock_site(task, site)
            result = self._prepare_site(task, site)
            # Nothing to apply (any more), or rejected.
            if not result.is_locked:
                return result
        prepared = self._prepared_sites.pop((task.fleet.session, site.name))
        with prepared.exit_stack:
            return _apply_prepared(task, site, prepared)

    def _release_lock(self, task: Task) -> None:
        """Release the lock of a site if this worker holds it."""
        prepared = self._prepared_sites.pop((task.fleet.session, task.site), None)
        if prepared is not None:
            prepared.exit_stack.close()

    def release_locks(self) -> None:
        """Release the locks of prepared sites that were not applied."""
        while self._prepared_sites:
            _, prepared = self._prepared_sites.popitem()
            prepared.exit_stack.close()


def _run_question(task: Task, site: SiteEntry) -> SiteResult:
    """Run the part of a question; questions import modules without use for plans."""
    from nexusform.domains.sites.workflow.site_questions import run_question_part

    return run_question_part(task, site)


def _plan_site(task: Task, site: SiteEntry) -> SiteResult:
    """Plan a site.

    If the task has a spool directory, save the plan there if it has changes and is not rejected.
    """
    fleet = task.fleet
    opened = open_site_project(fleet, site, os.environ)
    if opened.project is None:
        return build_rejected_result(site.name, opened.diagnostics)
    if unsaved := check_unsaved_state(opened.project.context):
        return build_rejected_result(site.name, unsaved)
    locking = LockOptions(
        enabled=fleet.has_lock, timeout=fleet.lock_timeout, is_exclusive=not fleet.has_lock
    )
    # The run writes no state.
    with begin_run(opened.project, "OperationTypePlan", locking, records_recovery=False) as run:
        if not run.is_ready:
            return build_rejected_result(site.name, [*opened.diagnostics, *run.diagnostics])
        plan = run.plan(_build_options(task, site)).plan
        file_digest = ""
        problems: list[Diagnostic] = []
        if fleet.spool and not plan.is_rejected and plan.has_changes:
            path = Path(fleet.spool, f"{site.name}{PLAN_SUFFIX}")
            # A temporary file.
            problems = save_plan(plan, run, str(path), durable=False)
            file_digest = (
                "" if has_errors(problems) else plan_file.compute_digest(path.read_bytes())
            )
        result = build_plan_result(
            run, plan, site, [*opened.diagnostics, *run.diagnostics, *problems], fleet.guard_rails
        )
    return replace(result, plan_digest=file_digest)


def _build_options(task: Task, site: SiteEntry) -> PlanOptions:
    """Build the plan options of a site."""
    return PlanOptions(mode=Mode.DESTROY if site.destroy else Mode.NORMAL, now=task.fleet.now)


def _make_paths_relative_to_fleet(result: SiteResult, source: str, root: str) -> SiteResult:
    """Convert file names in a result to paths relative to the fleet's directory."""
    diagnostics = tuple(
        replace(
            problem,
            file=_make_path_relative_to_fleet(problem.file, source),
            detail=_make_paths_in_text_relative(problem.detail, source),
        )
        for problem in result.diagnostics
    )
    located_errors = [
        problem for problem in diagnostics if problem.severity == Severity.ERROR and problem.file
    ]
    reason = _make_paths_in_text_relative(result.reason, source)
    if located_errors and result.reason.startswith(located_errors[0].summary):
        # The reason is the text of the first error, without its location: add this.
        reason = f"{located_errors[0].file}:{located_errors[0].line}: {reason}"
    # Absolute paths are replaced, too.
    return replace(result, diagnostics=diagnostics, reason=reason.replace(f"{root}/", ""))


def _make_path_relative_to_fleet(name: str, source: str) -> str:
    """Return the name of a file below `source`.

    An absolute one, or the one of the sites file, stays as it is.
    """
    if name in ("", FILE_NAME) or Path(name).is_absolute():
        return name
    return os.path.normpath(Path(source, name))


def _make_paths_in_text_relative(text: str, source: str) -> str:
    """Convert the file names with a position in a text, such as `main.nf.hcl:14,1-19`.

    Other text stays unchanged.
    """

    def convert_match(match: re.Match[str]) -> str:
        path, position = match.groups()
        return (
            f"{_make_path_relative_to_fleet(path, source)}:{position}"
            if Path(path).is_file()
            else match[0]
        )

    return _LINE.sub(convert_match, text)


def _compare_with_approval(
    task: Task, site: SiteEntry, prepared: _LockedSite, problems: Sequence[Diagnostic]
) -> SiteResult:
    """Compare the current plan of a locked site with the approved one.

    If they are equal (by digest) and change anything, return a locked result and keep the plan in
    `prepared`. After an interrupted apply of the same plan file, keep its remaining steps instead.
    Other results are applied (by an earlier run), unchanged or rejected.
    """
    run = prepared.run
    name = task.site
    result = SiteResult(
        name,
        SiteStatus.PLANNED,
        digest=task.digest,
        plan_digest=task.plan_digest,
        state_location=describe_state_location(run, site),
        is_locked=True,
    )
    # None: no apply was interrupted.
    remaining, read_problems = find_remaining_steps(run.stored, run.project.context)
    if has_errors(read_problems):
        return build_rejected_result(name, read_problems)
    if remaining is not None and task.plan_digest and remaining.plan_digest == task.plan_digest:
        # An apply of this plan file was interrupted.
        prepared.remaining = remaining
        broken: list[Diagnostic] = []
        # Else only its end is to be recorded.
        if remaining.step_count:
            broken = select_errors(
                check_approved_consequences(run, remaining.plan, is_started=True)
            )
        return build_rejected_result(name, broken) if broken else result
    if task.plan_digest and task.plan_digest in run.stored.state.applied_plans:
        return replace(
            result, status=SiteStatus.APPLIED, is_locked=False, serial=run.stored.state.serial
        )
    if remaining is not None and remaining.was_interrupted:
        cause = (
            f"An earlier apply of this site was interrupted. {remaining.summary}. Continue that "
            "apply with -resume."
        )
        return SiteResult(name, SiteStatus.REJECTED, cause)
    plan = run.plan(_build_options(task, site)).plan
    if plan.is_rejected or has_errors(run.diagnostics):
        return build_rejected_result(name, [*problems, *run.diagnostics, *plan.diagnostics])
    digest = compute_plan_digest(plan)
    if digest != task.digest:
        rows = build_site_rows(plan, name, run.project.registries)
        current_rows = "; ".join(rows[:3]) or "nothing"
        reason = (
            f"The new plan differs from the approved one. New plan: {current_rows}. Plan again."
        )
        return SiteResult(name, SiteStatus.REJECTED, reason, digest=digest, rows=rows)
    prepared.plan = plan
    return (
        result
        if plan.has_changes
        else replace(result, status=SiteStatus.UNCHANGED, is_locked=False)
    )


def _apply_prepared(task: Task, site: SiteEntry, prepared: _LockedSite) -> SiteResult:
    """Apply a prepared (locked) site.

    Its approved plan, or the remaining steps of an interrupted apply.
    """
    run = prepared.run
    if monotonic() - prepared.checked_at > MAXIMUM_WAIT_SECONDS:
        # Other sites of the wave were applied first.
        saved_plan = prepared.remaining.saved_plan.plan if prepared.remaining else prepared.plan
        assert saved_plan is not None, "a site that was compared"
        broken = select_errors(check_consequences_again(run, saved_plan, run.stored.state))
        if broken:
            return build_rejected_result(task.site, broken)
    options = PlanApplyOptions(plan_digest=task.plan_digest)
    if prepared.remaining is not None:
        outcome = apply_remaining_steps(run, prepared.remaining, StepListener(), options)
        plan = prepared.remaining.plan
    else:
        assert prepared.plan is not None, "a site that was compared"
        plan = prepared.plan
        outcome = apply_plan(run, plan, StepListener(), options)
    applied = outcome.applied
    problems = [*run.diagnostics, *outcome.diagnostics]
    result = SiteResult(
        site=task.site,
        status=SiteStatus.APPLIED if outcome.is_complete else SiteStatus.FAILED,
        digest=task.digest,
        plan_digest=task.plan_digest,
        impact=build_decision(plan).impact,
        diagnostics=build_site_diagnostics(problems),
        state_location=describe_state_location(run, site),
        serial=applied.state.serial,
        correct_predictions=applied.hits,
        wrong_predictions=len(applied.wrong_predictions),
        wrong_certain=outcome.wrong_certain_predictions[:_MAX_WRONG_PREDICTIONS],
    )
    if outcome.is_complete:
        return result
    failed_step = next((event for event in applied.end_events if event.error), None)
    if failed_step is not None:
        return replace(result, reason=f"{failed_step.address}: {failed_step.error}")
    # The reason is that of the first error.
    return replace(result, reason=build_rejected_result(task.site, problems).reason)


def _read_site_status(task: Task, site: SiteEntry) -> SiteResult:
    """Read the status of a site without a lock.

    The status is `applied`, `skipped` (never applied) or `failed` (interrupted).
    """
    backend, problems = open_current_state(task, site)
    if backend is None:
        return build_rejected_result(site.name, problems)
    stored, read_problems = read_stored_state(backend, checks_objects=False)
    if stored is None:
        return build_rejected_result(site.name, [*problems, *read_problems])
    try:
        lock = read_site_lock(backend, site, task.fleet)
    except BackendProblem as problem:
        return build_rejected_result(site.name, [build_error("unreadable-lock", str(problem))])
    state = stored.state
    status = SiteStatus.APPLIED
    reason = ""
    # There is no state.
    if not state.lineage:
        status = SiteStatus.SKIPPED
        reason = "Nothing was applied yet."
    elif stored.remaining is not None:
        status = SiteStatus.FAILED
        reason = f"An apply was started and left {stored.remaining.remaining_steps} steps."
    return SiteResult(
        site.name,
        status,
        reason,
        plan_digest=state.applied_plans[-1] if state.applied_plans else "",
        state_location=normalize_state_location(site.backend, backend.describe()),
        serial=state.serial,
        lock=lock,
    )


def check_unsaved_state(location: CommandContext) -> list[Diagnostic]:
    """Return an error if an unsaved state exists.

    A plan without it would create existing objects again.
    """
    if not Path(location.rescue_path).exists():
        return []
    detail = (
        "An earlier apply of this site could not save its state to the backend: "
        f'"{location.rescue_path}". `nexusform sites apply -resume FILE` with the applied plan '
        "saves it. Only that file records what was applied."
    )
    return [build_error(_UNSAVED, detail)]


def save_unsaved_state(project: Project, locking: LockOptions) -> list[Diagnostic]:
    """Move the unsaved state from its rescue file to the backend, under its lock.

    It comes before the recovery of the journal, which may lack the last records of that apply.
    Return errors on failure, else [].
    """
    location = project.context
    try:
        data = read_limited_file(location.rescue_path, location)
    except FileProblem as problem:
        return [build_error(_UNSAVED, str(problem))]
    document, problems = decrypt_document(data, location.rescue_path, location)
    if has_errors(problems):
        return problems
    state, problems = state_codec.decode_state(document, location.rescue_path)
    if state is None:
        return problems
    lock, lock_problems = StateCommandContext().acquire_lock(
        location, project.backend, "OperationTypeApply", locking
    )
    if has_errors(lock_problems):
        return lock_problems
    change = create_push_change(state, location.rescue_path, force=False)
    try:
        result = change_locked_state(project.backend, change, force=False, rescued=state)
    finally:
        release_problems = lock.release() if lock is not None else []
    errors = select_errors([*result.diagnostics, *release_problems])
    if errors:
        return errors
    try:
        remove_file(location.rescue_path)
    except OSError as problem:
        detail = f'"{location.rescue_path}" is saved, but cannot be removed: {problem.strerror}.'
        return [build_error(_UNSAVED, f"{detail} Remove it, then run this command again.")]
    return []
