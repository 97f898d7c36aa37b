"""Checks, lint rules and separation rules as JUnit XML, for the test reports of CI systems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from nexusform.advice.registry import RULE_IDS
from nexusform.diagnostics import Diagnostic, Severity
from nexusform.planning.guard_rails import GUARD_RAIL, limit_of
from nexusform.planning.plan import CheckResult, Plan, SeparationVerdict
from nexusform.rendering.notation.markup import Markup, shape
from nexusform.rendering.report.entries import ADVICE
from nexusform.rendering.report.overview import violation_text
from nexusform.words import form


class Case(Struct, frozen=True):
    """One test case: `outcome` is "" when it passed, else failure, error or skipped; how many
    `seconds` it took where that is known. `note` is said of a case that passed.
    """

    group: str
    name: str
    outcome: str = ""
    message: str = ""
    detail: str = ""
    seconds: float | None = None
    note: str = ""


_OUTCOMES: Final = {"pass": "", "fail": "failure", "error": "error", "unknown": "skipped"}


def render_junit(plan: Plan) -> str:
    """The XML document of a plan."""
    suites = {
        "plan": _planning(plan.diagnostics),
        "guard rails": _guard_rails(plan.diagnostics),
        "checks": [_check(check) for check in plan.checks],
        "lint": [_lint(rule, plan.diagnostics) for rule in RULE_IDS],
        "warnings": _warnings(plan.diagnostics),
        "separation rules": [_separation(verdict) for verdict in plan.separation_rules],
    }
    return junit_document(suites.items())


def _check(check: CheckResult) -> Case:
    outcome = _OUTCOMES.get(check.status, "error")
    # What a plan holds a condition against is predicted; apply holds it against what came.
    message = "; ".join(check.problems) or f"{check.status}, as far as the plan predicts"
    return Case(check.kind, check.address, outcome, message)


def junit_document(suites: Iterable[tuple[str, Sequence[Case]]]) -> str:
    """Suites of cases as XML; empty suites are left out."""
    every_case: list[Case] = []
    drawn: list[Markup | str] = ["\n"]
    for name, cases in suites:
        if cases:
            every_case += cases
            drawn += [_suite(name, cases), "\n"]
    # Jenkins' schema has no count of what was skipped here, only in suites.
    counts = {name: count for name, count in _counts(every_case).items() if name != "skipped"}
    whole = shape("testsuites", drawn, name="nexusform", **counts)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{whole}\n'


def _counts(cases: Sequence[Case]) -> dict[str, int]:
    return {
        "tests": len(cases),
        "failures": sum(case.outcome == "failure" for case in cases),
        "errors": sum(case.outcome == "error" for case in cases),
        "skipped": sum(case.outcome == "skipped" for case in cases),
    }


def _suite(name: str, cases: Sequence[Case]) -> Markup:
    drawn = [["  ", _case(case), "\n"] for case in cases]
    return shape("testsuite", "\n", drawn, name=name, **_counts(cases))


def _case(case: Case) -> Markup:
    outcome = shape(case.outcome, case.detail, message=case.message) if case.outcome else None
    time = {} if case.seconds is None else {"time": f"{case.seconds:.3f}"}
    note = shape("system-out", case.note) if case.note else None
    return shape("testcase", outcome, note, classname=case.group, name=case.name, **time)


def _planning(diagnostics: Iterable[Diagnostic]) -> list[Case]:
    """Planning itself: one case that passed, or one per error. What breaks a guard rail was planned."""
    errors = [
        diagnostic
        for diagnostic in diagnostics
        if diagnostic.severity is Severity.ERROR and diagnostic.id != GUARD_RAIL
    ]
    if not errors:
        return [Case("plan", "planning")]
    return [Case("plan", _name(error), "error", error.summary, error.detail) for error in errors]


def _guard_rails(diagnostics: Iterable[Diagnostic]) -> list[Case]:
    """The guard rails that the plan breaks."""
    broken = [diagnostic for diagnostic in diagnostics if diagnostic.id == GUARD_RAIL]
    return [Case("guard rail", limit_of(each), "failure", each.summary, each.detail) for each in broken]


def _name(diagnostic: Diagnostic) -> str:
    """The summary and what it speaks of: an address, or else a line."""
    subject = diagnostic.subject
    line = f"{subject.filename}:{subject.start.line}" if subject else ""
    what = diagnostic.address or line
    return f"{diagnostic.summary} {what}".strip()


def _lint(rule: str, diagnostics: Iterable[Diagnostic]) -> Case:
    """One lint rule: passed, failed, or passed with advice by which nothing fails."""
    findings = [diagnostic for diagnostic in diagnostics if diagnostic.id == rule]
    if not findings:
        return Case("lint", rule)
    message = f"{len(findings)} {form(len(findings), 'finding')}"
    lines = [f"{_name(finding)}: {finding.detail}" for finding in findings]
    if rule in ADVICE:
        return Case("lint", rule, note="\n".join([f"{message}:", *lines]))
    return Case("lint", rule, "failure", message, "\n".join(lines))


def _warnings(diagnostics: Iterable[Diagnostic]) -> list[Case]:
    """Every other warning: what does not work fails, the rest is said of a case that passes."""
    cases = []
    for diagnostic in diagnostics:
        if diagnostic.severity is not Severity.WARNING or diagnostic.id in RULE_IDS:
            continue
        name = _name(diagnostic)
        if diagnostic.id in ADVICE:
            cases.append(Case(diagnostic.id, name, note=diagnostic.detail or diagnostic.summary))
        else:
            cases.append(Case(diagnostic.id, name, "failure", diagnostic.summary, diagnostic.detail))
    return cases


def _separation(verdict: SeparationVerdict) -> Case:
    """One separation rule; where it may be broken, skipped rather than failed."""
    name = str(verdict.address)
    if verdict.holds == "always":
        return Case("separation", name)
    violations = "\n".join(violation_text(violation) for violation in verdict.violations)
    outcome = "failure" if verdict.enforcement == "deny" else "skipped"
    return Case("separation", name, outcome, f"holds {verdict.holds} ({verdict.enforcement})", violations)
