"""Checks, lint rules and separation rules as JUnit XML, for the test reports of CI systems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from nexusform.advice.registry import RULE_IDS
from nexusform.diagnostics import Diagnostic, Severity
from nexusform.planning.plan import Plan
from nexusform.rendering.notation.markup import Markup, shape
from nexusform.rendering.report.overview import SeparationRule, violation_text


class Case(Struct, frozen=True):
    """One test case: `outcome` is "" when it passed, else failure, error or skipped; how many
    `seconds` it took where that is known.
    """

    group: str
    name: str
    outcome: str = ""
    message: str = ""
    detail: str = ""
    seconds: float | None = None


_OUTCOMES: Final = {"pass": "", "fail": "failure", "error": "error", "unknown": "skipped"}


def render_junit(plan: Plan, rules: Sequence[SeparationRule] = ()) -> str:
    """The XML document of a plan; `rules` are its separation rules as JSON shows them."""
    suites = {
        "plan": _planning(plan.diagnostics),
        "checks": [
            Case(c.kind, c.address, _OUTCOMES.get(c.status, "error"), "; ".join(c.problems) or c.status)
            for c in plan.checks
        ],
        "lint": [_lint(rule, plan.diagnostics) for rule in RULE_IDS],
        "separation rules": [_separation(rule) for rule in rules],
    }
    return junit_document(suites.items())


def junit_document(suites: Iterable[tuple[str, Sequence[Case]]]) -> str:
    """Suites of cases as XML; empty suites are left out."""
    kept = [(name, cases) for name, cases in suites if cases]
    everything = [case for _, cases in kept for case in cases]
    whole = shape(
        "testsuites",
        "\n",
        [[_suite(name, cases), "\n"] for name, cases in kept],
        name="nexusform",
        **_counts(everything),
    )
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
    return shape("testcase", outcome, classname=case.group, name=case.name, **time)


def _planning(diagnostics: Iterable[Diagnostic]) -> list[Case]:
    """Planning itself: one case that passed, or one per error."""
    errors = [d for d in diagnostics if d.severity is Severity.ERROR]
    if not errors:
        return [Case("plan", "planning")]
    return [Case("plan", _name(d), "error", d.summary, d.detail) for d in errors]


def _name(found: Diagnostic) -> str:
    where = f"{found.subject.filename}:{found.subject.start.line}" if found.subject else ""
    return " ".join(text for text in (found.summary, found.address or where) if text)


def _lint(rule: str, diagnostics: Iterable[Diagnostic]) -> Case:
    found = [d for d in diagnostics if d.id == rule]
    if not found:
        return Case("lint", rule)
    message = f"{len(found)} finding{'' if len(found) == 1 else 's'}"
    return Case("lint", rule, "failure", message, "\n".join(f"{_name(d)}: {d.detail}" for d in found))


def _separation(rule: SeparationRule) -> Case:
    holds, enforcement = str(rule.get("holds", "")), str(rule.get("enforcement", ""))
    name = str(rule.get("address", ""))
    if holds == "always":
        return Case("separation", name)
    violations = "\n".join(violation_text(violation) for violation in rule.get("violations") or ())
    outcome = "failure" if enforcement == "deny" else "skipped"
    return Case("separation", name, outcome, f"holds {holds} ({enforcement})", violations)
