"""The lint findings of a plan: what is allowed and still unwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.advice.registry import RULE_IDS
from nexusform.diagnostics import Diagnostic, has_errors
from nexusform.planning.conclusion.room_left import with_room
from nexusform.planning.conclusion.running_out import RUNS_OUT
from nexusform.planning.planner import make_plan
from nexusform.source import SourceFile
from nexusform.workflow.opening.linting import lint
from nexusform.workflow.opening.place import Place
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.opening.stored import read_stored
from nexusform.workflow.plan_files.saved_plans import read_plan, sources_of
from nexusform.workflow.runs.run import base_request

# What a platform says of itself, and what was asked of it and failed: found by plans, of use to advice.
_HEALTH: Final = frozenset({"platform-reports-failure", "change-failed-before"})
_OF_PLANS: Final = _HEALTH | {RUNS_OUT}


class Advice(Struct, frozen=True):
    """The findings; `diagnostics` are other problems, errors among them when nothing was found out.

    `origin` says in words what was looked at.
    """

    findings: tuple[Diagnostic, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)
    origin: str = ""


def find_advice(place: Place, plan_path: str = "") -> Advice:
    """Ask every rule about what a saved plan places, or about all that stands or would be added now."""
    if plan_path:
        saved, problems = read_plan(plan_path, place)
        if saved is None:
            return Advice(diagnostics=tuple(problems))
        sources = sources_of(saved)
        findings = tuple(d for d in saved.plan.diagnostics if d.id in {*RULE_IDS, *_OF_PLANS})
        return Advice(findings, _errors(saved.plan.diagnostics), sources, f"plan {plan_path}")
    opened = open_project(place)
    if opened.project is None:
        return Advice(diagnostics=opened.diagnostics, sources=opened.sources)
    stored, problems = read_stored(opened.project.backend)
    if stored is None:
        return Advice(diagnostics=tuple(problems), sources=opened.sources)
    request = replace(base_request(opened.project, stored), tie_breaks=0, lint=False)
    result = make_plan(request)
    if result.plan.errored:
        return Advice(diagnostics=_errors(result.plan.diagnostics), sources=opened.sources)
    roomed = with_room(result, opened.project.registries).plan
    due = (problem for problem in roomed.diagnostics if problem.id in _OF_PLANS)
    findings = (*due, *lint(result, opened.project.configuration, everything=True))
    origin = f"state serial {stored.state.serial}" if stored.state.lineage else "nothing applied yet"
    if result.plan.has_changes:
        origin += ", and what the configuration would change"
    return Advice(findings, sources=opened.sources, origin=origin)


def _errors(diagnostics: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """All but the findings when there are errors among them; otherwise nothing that advice is about."""
    others = tuple(each for each in diagnostics if each.id not in RULE_IDS)
    return others if has_errors(others) else ()
