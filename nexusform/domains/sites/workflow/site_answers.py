"""What a worker says of one site: a plan, a refusal and diagnostics as data."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import starmap
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic, Severity, has_errors
from nexusform.domains.sites.rendering.site_rows import placement_figures, redundancy_lost, site_rows
from nexusform.domains.sites.types.definition import SiteEntry
from nexusform.domains.sites.types.work import Answer, Status, Trouble
from nexusform.domains.sites.workflow.site_digest import plan_digest
from nexusform.domains.sites.workflow.site_project import whereabouts
from nexusform.plans.impact.effects import LEAVING, effect_counts
from nexusform.plans.plan import Plan
from nexusform.rendering.report.entries import Finding, plan_findings
from nexusform.rendering.report.overview import stake_of
from nexusform.rendering.report.stakes import endangered, ending_rules
from nexusform.weights import level_of
from nexusform.workflow.runs.run import Run

LOCKED: Final = "error-acquiring-the-state-lock"
_WHO: Final = re.compile(r"^ *Who:(.*)$", re.MULTILINE)


def planned_answer(run: Run, plan: Plan, site: SiteEntry, problems: Iterable[Diagnostic]) -> Answer:
    """A plan as an answer."""
    problems = list(problems)
    if plan.denied or has_errors([*problems, *plan.diagnostics]):
        return replace(
            refused_answer(site.name, [*problems, *plan.diagnostics]),
            state=state_of(run, site),
            reads=_read_by(run),
        )
    counts = effect_counts(plan.placements)
    answer = Answer(
        site=site.name,
        status=Status.PLANNED if plan.has_changes else Status.UNCHANGED,
        digest=plan_digest(plan),
        rows=site_rows(plan, site.name, run.project.registries),
        stake=stake_of(plan, counts),
        leaving=tuple(each for each in counts if each.effect in LEAVING),
        at_stake=(*ending_rules(plan), *endangered(plan)),
        redundancy_lost=redundancy_lost(plan),
        troubles=(*troubles_of(problems), *map(_trouble, plan_findings(plan))),
        state=state_of(run, site),
        reads=_read_by(run),
        serial=plan.serial,
        machines=sum(len(each.machines) for each in plan.sites),
        vms=sum(len(pool.kept) + len(pool.came) for each in plan.sites for pool in each.pools),
    )
    return replace(answer, **placement_figures(plan))


def state_of(run: Run, site: SiteEntry) -> str:
    """Where the state of a site is."""
    return whereabouts(site.backend, run.project.backend.describe())


def _read_by(run: Run) -> tuple[str, ...]:
    """The states of others that a plan was made from."""
    states = run.project.remote_states
    return tuple(sorted(starmap(whereabouts, states.places))) if states is not None else ()


def refused_answer(name: str, problems: Iterable[Diagnostic], status: Status = Status.REFUSED) -> Answer:
    """The answer for a site with which nothing can be done: the first error is the reason."""
    listed = list(problems)
    first = next((each for each in listed if each.severity is Severity.ERROR), None)
    return Answer(name, status, reason_of(first), troubles=troubles_of(listed))


def reason_of(problem: Diagnostic | None) -> str:
    """An error in a sentence or two."""
    if problem is None:
        return "It cannot be planned."
    detail = problem.detail.split("\n\n", 1)[0].strip()
    if problem.id == LOCKED:
        holder = _WHO.search(problem.detail)
        detail = f"{holder[1].strip()} holds it." if holder else detail
    return problem.summary + (f": {detail}" if detail else ".")


def troubles_of(problems: Iterable[Diagnostic]) -> tuple[Trouble, ...]:
    """Diagnostics as data."""
    return tuple(_trouble(Finding(problem, level_of(problem))) for problem in problems)


def _trouble(finding: Finding) -> Trouble:
    problem = finding.diagnostic
    return Trouble(
        severity=problem.severity.value,
        id=problem.id,
        summary=problem.summary,
        detail=problem.detail,
        file=problem.subject.filename if problem.subject else "",
        line=problem.subject.start.line if problem.subject else 0,
        address=problem.address,
        level=finding.level.value,
        held_before=finding.held_before,
    )
