"""Checks, lint rules and separation rules as JUnit XML, for the test reports of CI systems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from nexusform.advice.registry import RULE_IDS
from nexusform.diagnostics import Diagnostic, Severity
from nexusform.plans.impact.guard_rails import GUARD_RAIL, limit_of
from nexusform.plans.plan import CheckResult, Plan, SeparationVerdict
from nexusform.rendering.notation.markup import Markup, shape
from nexusform.rendering.report.entries import HELD_BEFORE, Finding, plan_findings
from nexusform.rendering.report.overview import violation_text
from nexusform.weights import Level
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
    findings = plan_findings(plan)
    suites = {
        "plan": _planning(plan.diagnostics),
        "guard rails": _guard_rails(plan.diagnostics),
        "checks": [_check(check) for check in plan.checks],
        "lint": [_lint(rule, findings, _unjudged(rule, plan)) for rule in RULE_IDS],
        "warnings": _warnings(findings),
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
    return [
        Case("guard rail", limit_of(diagnostic), "failure", diagnostic.summary, diagnostic.detail)
        for diagnostic in broken
    ]


def _name(diagnostic: Diagnostic) -> str:
    """The summary and what it speaks of: an address, or else a line."""
    subject = diagnostic.subject
    line = f"{subject.filename}:{subject.start.line}" if subject else ""
    what = diagnostic.address or line
    return f"{diagnostic.summary} {what}".strip()


def _unjudged(rule: str, plan: Plan) -> str:
    """Why a lint rule says nothing of a plan; "" where it was asked."""
    if rule in plan.rules_at_rest:
        return "switched off in the configuration"
    return "not judged, as planning failed" if plan.errored else ""


def _lint(rule: str, findings: Iterable[Finding], unjudged: str) -> Case:
    """One lint rule: it passes with what it found, by which no plan fails."""
    of_rule = [finding for finding in findings if finding.diagnostic.id == rule]
    if not of_rule and unjudged:
        return Case("lint", rule, "skipped", unjudged)
    note = "\n".join([f"{_counted(of_rule)}:", *map(_line, of_rule)]) if of_rule else ""
    return Case("lint", rule, note=note)


def _counted(findings: Sequence[Finding]) -> str:
    return f"{len(findings):,} {form(len(findings), 'finding')}"


def _line(finding: Finding) -> str:
    return f"{_name(finding.diagnostic)}: {_said(finding)}"


def _said(finding: Finding) -> str:
    word = finding.level.value.capitalize()
    text = f"{word}: {finding.diagnostic.detail or finding.diagnostic.summary}"
    return f"{text}\n{HELD_BEFORE}" if finding.held_before else text


def _warnings(findings: Iterable[Finding]) -> list[Case]:
    """Every other finding that is no error: it is said of a case that passes."""
    cases = []
    for finding in findings:
        diagnostic = finding.diagnostic
        if diagnostic.id in RULE_IDS or finding.level is Level.ERROR:
            continue
        cases.append(Case(diagnostic.id, _name(diagnostic), note=_said(finding)))
    return cases


def _separation(verdict: SeparationVerdict) -> Case:
    """One separation rule; where it may be broken, skipped rather than failed."""
    name = str(verdict.address)
    if verdict.holds == "always":
        return Case("separation", name)
    violations = "\n".join(violation_text(violation) for violation in verdict.violations)
    outcome = "failure" if verdict.enforcement == "deny" else "skipped"
    return Case("separation", name, outcome, f"holds {verdict.holds} ({verdict.enforcement})", violations)
