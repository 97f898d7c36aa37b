"""What a worker does for one site. A worker lives long and does this for many sites, one after the other:
whatever is one site's is opened for it and let go of after it.

Only locks are kept between tasks: a wave takes all of its locks before its first write.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import RLock
from time import monotonic
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.applying.events import StepEvent
from nexusform.diagnostics import Diagnostic, Severity, error, has_errors
from nexusform.domains.azure.providers.azure_budget import BUDGET_VARIABLE
from nexusform.domains.sites.rendering.site_rows import placement_figures, site_rows
from nexusform.domains.sites.types.definition import FILE_NAME, FleetDefinition, SiteEntry
from nexusform.domains.sites.types.work import Answer, Fleet, Kind, Status, Task
from nexusform.domains.sites.workflow.definition_file import read_definition
from nexusform.domains.sites.workflow.rescued_state import bring_back, waiting_state
from nexusform.domains.sites.workflow.site_answers import (
    planned_answer,
    refused_answer,
    state_of,
    troubles_of,
)
from nexusform.domains.sites.workflow.site_digest import plan_digest
from nexusform.domains.sites.workflow.site_project import (
    known_configuration,
    open_site,
    open_state,
    place_of_fleet,
    place_of_site,
    whereabouts,
)
from nexusform.plans.plan import Mode, Plan
from nexusform.plans.saved import plan_file
from nexusform.workflow.opening.stored import read_stored
from nexusform.workflow.plan_files.apply import ApplyOptions, ApplyOutcome, apply_plan, apply_rest
from nexusform.workflow.plan_files.resuming import Rest, rest_of
from nexusform.workflow.plan_files.saved_plans import save_plan
from nexusform.workflow.runs.locking import Locking
from nexusform.workflow.runs.run import PlanOptions, Run, begin

PLAN_SUFFIX: Final = ".nfplan"
KEPT_FOR: Final = 120.0  # seconds that a lock is kept for a command that is not heard of any more
_LINE: Final = re.compile(r"""(?<![^\s"'(])([^\s"'():,]+):(\d+,\d+)""")
_MOST_CALLS: Final = 3_000
_MOST_BROKEN: Final = 5  # that are named for each site
_CHANGED: Final = (
    "nexusform.sites.hcl, or a file that it reads, is another one here than when this began. Run the command "
    "again."
)
_DROPPED: Final = "nexusform.sites.hcl does not name it any more: nothing is done to it."


class _Kept(Struct):
    """A site whose lock this worker holds."""

    run: Run
    plan: Plan | None
    rest: Rest | None
    leaving: ExitStack


class Worker:
    """One process that works for fleets. One task at a time: they share directory and memory."""

    def __init__(self) -> None:
        self._one_at_a_time = RLock()
        self._definitions: dict[tuple[str, str], FleetDefinition] = {}
        self._entries: dict[str, SiteEntry] = {}
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._heard: dict[str, float] = {}
        sys.setrecursionlimit(max(sys.getrecursionlimit(), _MOST_CALLS))

    def do(self, task: Task) -> Answer:
        """Do a task. What is wrong with its site is part of the answer; exceptions are bugs."""
        with self._one_at_a_time:
            self._heard[task.fleet.session] = monotonic()
            os.chdir(task.fleet.root)
            definition, problems = self._definition(task.fleet)
            if definition is None:
                return refused_answer(task.site, problems)
            site = self._entries.get(task.site)
            if site is None:
                return Answer(task.site, Status.REFUSED, _DROPPED)
            if definition.digest != task.fleet.definition:
                return Answer(task.site, Status.REFUSED, _CHANGED)
            try:
                os.chdir(site.source)  # as for `nexusform plan`: paths of a root module start there
            except OSError as problem:
                return _placed(
                    refused_answer(site.name, [_no_source(site, problem)]), site.source, task.fleet.root
                )
            return _placed(self._work(task, site), site.source, task.fleet.root)

    def _definition(self, fleet: Fleet) -> tuple[FleetDefinition | None, Sequence[Diagnostic]]:
        """The sites, read once by each worker."""
        key = (fleet.root, fleet.definition)
        if key not in self._definitions:
            place = place_of_fleet(fleet, os.environ)
            read, problems, _ = read_definition(".", place.confinement, fleet.now, fleet.allowed_sources)
            if read is None:
                return None, problems
            self._definitions = {key: read}
            self._entries = {site.name: site for site in read.sites}
            if read.requests:
                shared = Path(fleet.root, place.data_directory, "requests")
                os.environ[BUDGET_VARIABLE] = f"{read.requests}:{shared}"
        return self._definitions[key], ()

    def _work(self, task: Task, site: SiteEntry) -> Answer:
        match task.kind:
            case Kind.PLAN:
                return _plan(task, site)
            case Kind.PREPARE:
                return self._prepare(task, site)
            case Kind.APPLY:
                return self._apply(task, site)
            case Kind.RELEASE:
                return self._release(task)
            case Kind.STATUS:
                return _status(task, site)
            case Kind.ASK:
                # questions load what no plan has use for
                from nexusform.domains.sites.workflow.site_questions import answer_question

                return answer_question(task, site)

    # --- applying ------------------------------------------------------------------------------

    def _prepare(self, task: Task, site: SiteEntry) -> Answer:
        """Take the lock and plan anew; keep both where that is what was approved."""
        self._let_go(task)
        opened = open_site(task.fleet, site, os.environ)
        if opened.project is None:
            return refused_answer(site.name, opened.diagnostics)
        leaving = ExitStack()
        locking = Locking(timeout=task.fleet.lock_timeout)
        if waiting_state(opened.project.place):
            with begin(opened.project, "OperationTypeApply", locking) as run:
                problems = bring_back(run) if run.ready else list(run.diagnostics)
            if problems:
                return refused_answer(site.name, problems)
        run = leaving.enter_context(begin(opened.project, "OperationTypeApply", locking))
        kept = _Kept(run, None, None, leaving)
        answer = (
            _compared(task, site, kept, opened.diagnostics)
            if run.ready
            else refused_answer(site.name, run.diagnostics)
        )
        if answer.held:
            self._kept[task.fleet.session, site.name] = kept
        else:
            leaving.close()
        return answer

    def _apply(self, task: Task, site: SiteEntry) -> Answer:
        """Carry out what was prepared; prepare it here where another worker did that and is gone."""
        if (task.fleet.session, site.name) not in self._kept:
            answer = self._prepare(task, site)  # the worker that did it is gone
            if not answer.held:
                return answer
        kept = self._kept.pop((task.fleet.session, site.name))
        with kept.leaving:
            return _carried_out(task, site, kept)

    def _release(self, task: Task) -> Answer:
        self._let_go(task)
        return Answer(task.site, Status.SKIPPED)

    def _let_go(self, task: Task) -> None:
        kept = self._kept.pop((task.fleet.session, task.site), None)
        if kept is not None:
            kept.leaving.close()

    def hear(self, session: str) -> None:
        """Note that the command of a session goes on: its locks are kept for it."""
        self._heard[session] = monotonic()

    def forget_the_unheard(self) -> None:
        """Let go of the locks that are kept for commands which are gone."""
        with self._one_at_a_time:
            for session, name in list(self._kept):
                if monotonic() - self._heard.get(session, 0.0) > KEPT_FOR:
                    self._kept.pop((session, name)).leaving.close()


# --- planning ----------------------------------------------------------------------------------


def _plan(task: Task, site: SiteEntry) -> Answer:
    """Plan a site, and write its plan where the fleet's plan gathers them."""
    fleet = task.fleet
    opened = open_site(fleet, site, os.environ)
    if opened.project is None:
        return refused_answer(site.name, opened.diagnostics)
    if waiting := waiting_state(opened.project.place):
        return refused_answer(site.name, waiting)
    locking = Locking(enabled=fleet.lock, timeout=fleet.lock_timeout, alone=not fleet.lock)
    with begin(opened.project, "OperationTypePlan", locking, settles=False) as run:
        if not run.ready:
            return refused_answer(site.name, [*opened.diagnostics, *run.diagnostics])
        plan = run.plan(_options(task, site)).plan
        written = ""
        problems: list[Diagnostic] = []
        if fleet.spool and not plan.denied and plan.has_changes:
            path = Path(fleet.spool, f"{site.name}{PLAN_SUFFIX}")
            problems = save_plan(plan, run, str(path), durable=False)
            written = "" if has_errors(problems) else plan_file.digest(path.read_bytes())
        answer = planned_answer(run, plan, site, [*opened.diagnostics, *run.diagnostics, *problems])
    return replace(answer, plan=written)


def _options(task: Task, site: SiteEntry) -> PlanOptions:
    """What shapes the plan of a site."""
    return PlanOptions(mode=Mode.DESTROY if site.destroy else Mode.NORMAL, now=task.fleet.now)


def _no_source(site: SiteEntry, problem: OSError) -> Diagnostic:
    detail = f'The source "{site.source}" of the site cannot be entered: {problem.strerror}.'
    return error("unreadable-configuration-directory", detail, site.span)


def _placed(answer: Answer, source: str, root: str) -> Answer:
    """The answer with the names of the root module's files as they are from the fleet's directory."""
    troubles = tuple(
        replace(each, file=_from_fleet(each.file, source), detail=_placed_text(each.detail, source))
        for each in answer.troubles
    )
    where = next((each for each in troubles if each.severity == Severity.ERROR and each.file), None)
    bare = where is not None and answer.reason.startswith(f"{where.summary}")
    reason = _placed_text(answer.reason, source)
    if where is not None and bare:
        reason = f"{where.file}:{where.line}: {reason}"
    return replace(answer, troubles=troubles, reason=reason.replace(f"{root}/", ""))


def _from_fleet(name: str, source: str) -> str:
    if name in ("", FILE_NAME) or Path(name).is_absolute():
        return name
    return os.path.normpath(Path(source, name))


def _placed_text(text: str, source: str) -> str:
    """A text that may speak of lines of the root module's files, as `main.nf.hcl:14,1-19`."""

    def placed(found: re.Match[str]) -> str:
        there = _from_fleet(found[1], source)
        return f"{there}:{found[2]}" if Path(found[1]).is_file() else found[0]

    return _LINE.sub(placed, text)


# --- applying ------------------------------------------------------------------------------------


class _Silent:
    """Listens to an apply and tells nobody: what came of it is in the answer."""

    def started(self, event: StepEvent) -> None:
        """A step began."""

    def progressed(self, event: StepEvent) -> None:
        """A step goes on."""

    def ended(self, event: StepEvent) -> None:
        """A step ended."""


def _compared(task: Task, site: SiteEntry, kept: _Kept, problems: Sequence[Diagnostic]) -> Answer:
    """Whether what is to be done now is what was approved; `kept` then holds it."""
    run, name = kept.run, task.site
    found = Answer(
        name,
        Status.PLANNED,
        digest=task.digest,
        plan=task.plan,
        state=state_of(run, site),
        held=True,
    )
    rest, wrong = rest_of(run.stored, run.project.place)
    if has_errors(wrong):
        return refused_answer(name, wrong)
    if rest is not None and task.plan and rest.plan_digest == task.plan:
        kept.rest = rest  # this very plan was begun and not ended
        return found
    if task.plan and task.plan in run.stored.state.applied_plans:
        return replace(found, status=Status.APPLIED, held=False, serial=run.stored.state.serial)
    if rest is not None and rest.killed:
        why = (
            f"An earlier apply of this site was interrupted. {rest.left}. Go on with the plan that was begun "
            "(-resume)."
        )
        return Answer(name, Status.REFUSED, why)
    plan = run.plan(_options(task, site)).plan
    if plan.denied or has_errors(run.diagnostics):
        return refused_answer(name, [*problems, *run.diagnostics, *plan.diagnostics])
    digest = plan_digest(plan)
    if digest != task.digest:
        rows = site_rows(plan, name, run.project.registries)
        now = "; ".join(rows[:3]) or "nothing"
        why = f"Planning again gives something else than was approved. Now it is: {now}. Plan again."
        return Answer(name, Status.REFUSED, why, digest=digest, rows=rows)
    kept.plan = plan
    return found if plan.has_changes else replace(found, status=Status.UNCHANGED, held=False)


def _carried_out(task: Task, site: SiteEntry, kept: _Kept) -> Answer:
    """Apply what was kept."""
    run, options = kept.run, ApplyOptions(plan_digest=task.plan)
    if kept.rest is not None:
        outcome = apply_rest(run, kept.rest, _Silent(), options)
        plan = kept.rest.plan
    else:
        assert kept.plan is not None, "a site that was compared"
        plan = kept.plan
        if not plan.has_changes:
            return Answer(
                task.site,
                Status.UNCHANGED,
                digest=task.digest,
                state=state_of(run, site),
            )
        outcome = apply_plan(run, plan, _Silent(), options)
    return _outcome(task, site, run, plan, outcome)


def _outcome(task: Task, site: SiteEntry, run: Run, plan: Plan, outcome: ApplyOutcome) -> Answer:
    """What came of an apply."""
    applied = outcome.applied
    problems = [*run.diagnostics, *outcome.diagnostics]
    answer = Answer(
        site=task.site,
        status=Status.APPLIED if outcome.complete else Status.FAILED,
        digest=task.digest,
        plan=task.plan,
        troubles=troubles_of(problems),
        state=state_of(run, site),
        serial=applied.state.serial,
        hits=applied.hits,
        misses=len(applied.misses),
        broken_sure=outcome.broken_sure[:_MOST_BROKEN],
    )
    answer = replace(answer, **placement_figures(plan))
    if outcome.complete:
        return answer
    failure = next((end for end in applied.ends if end.error), None)
    why = (
        f"{failure.address}: {failure.error}" if failure is not None else refused_answer("", problems).reason
    )
    return replace(answer, reason=why)


# --- looking ---------------------------------------------------------------------------------------


def _status(task: Task, site: SiteEntry) -> Answer:
    """What the state of a site says, read without its lock."""
    place = place_of_site(task.fleet, site, os.environ)
    configuration, _ = known_configuration(place)
    backend, problems = open_state(task.fleet, place, site, configuration)
    if backend is None:
        return refused_answer(site.name, problems)
    stored, wrong = read_stored(backend, closely=False)
    if stored is None:
        return refused_answer(site.name, [*problems, *wrong])
    state = stored.state
    reason = ""
    status = Status.APPLIED if state.lineage else Status.SKIPPED
    if not state.lineage:
        reason = "Nothing was applied yet."
    elif stored.remaining is not None:
        status, reason = Status.FAILED, f"An apply was begun and left {stored.remaining.left} steps undone."
    return Answer(
        site.name,
        status,
        reason,
        plan=state.applied_plans[-1] if state.applied_plans else "",
        state=whereabouts(site.backend, backend.describe()),
        serial=state.serial,
    )
