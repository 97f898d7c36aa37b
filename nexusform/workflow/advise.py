"""The lint findings of a plan: what is allowed and still unwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nexusform.advice.registry import RULE_IDS
from nexusform.diagnostics import Diagnostic, has_errors
from nexusform.planning.plan import Plan
from nexusform.planning.planner import make_plan
from nexusform.source import SourceFile
from nexusform.workflow.project import Place, open_project
from nexusform.workflow.run import base_request
from nexusform.workflow.saved_plans import read_plan
from nexusform.workflow.stored import read_stored


@dataclass(frozen=True)
class Advice:
    """The findings; `diagnostics` are other problems, errors among them when nothing was found out."""

    findings: tuple[Diagnostic, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] = field(default_factory=dict)


def find_advice(place: Place, plan_path: str = "") -> Advice:
    """Ask every rule about a saved plan, or about a plan made now."""
    if plan_path:
        saved, problems = read_plan(plan_path)
        if saved is None:
            return Advice(diagnostics=tuple(problems))
        sources = {name: SourceFile(name, text) for name, text in saved.snapshot.items()}
        return _sorted_out(saved.plan, sources)
    opened = open_project(place)
    if opened.project is None:
        return Advice(diagnostics=opened.diagnostics, sources=opened.sources)
    stored, problems = read_stored(opened.project.backend)
    if stored is None:
        return Advice(diagnostics=tuple(problems), sources=opened.sources)
    return _sorted_out(make_plan(base_request(opened.project, stored)).plan, opened.sources)


def _sorted_out(plan: Plan, sources: Mapping[str, SourceFile]) -> Advice:
    findings = tuple(d for d in plan.diagnostics if d.id in RULE_IDS)
    others = tuple(d for d in plan.diagnostics if d.id not in RULE_IDS)
    return Advice(findings, others if has_errors(others) else (), sources)
