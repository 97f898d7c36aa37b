"""JUnit XML of checks, lint rules and separation rules, for the test reports of CI systems."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from nexusform.advice.registry import RULE_IDS
from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.levels import Level
from nexusform.diagnostics.phrases import format_count, group_by
from nexusform.plans.plan import CheckResult, Plan, SeparationVerdict
from nexusform.rendering.notation.markup import Markup, build_svg_element
from nexusform.rendering.report.finding_entries import (
    PREEXISTING_NOTE,
    Finding,
    collect_findings_and_risks,
    format_location,
)
from nexusform.rendering.report.plan_sentences import describe_assumptions
from nexusform.rendering.report.plan_verdict import format_violation


class JunitCase(Struct, frozen=True):
    """One test case: `outcome` is empty, failure, error or skipped.

    `note` is the text of a passed case.
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
    """Render a plan as JUnit XML, a suite per kind of result."""
    findings = collect_findings_and_risks(plan)
    by_id = group_by(findings, lambda finding: finding.id)
    # Passed cases with a note do not fail the suite.
    warnings = []
    for finding in findings:
        diagnostic = finding.diagnostic
        # Not in suites lint and plan.
        if diagnostic.id not in RULE_IDS and finding.level is not Level.ERROR:
            warnings.append(
                JunitCase(
                    diagnostic.id, _format_finding_name(diagnostic), note=_format_finding(finding)
                )
            )
    planning_cases: list[JunitCase] = []
    for finding in findings:
        # An exceeded guard rail is not a planning error.
        if finding.level is Level.ERROR and not finding.limit:
            error = finding.diagnostic
            name = _format_finding_name(error)
            planning_cases.append(JunitCase("plan", name, "error", error.summary, error.detail))
    suites = {
        # One passed case.
        "plan": planning_cases or [JunitCase("plan", "planning")],
        "guard rails": [
            JunitCase(
                "guard rail",
                finding.limit,
                "failure",
                finding.diagnostic.summary,
                finding.diagnostic.detail,
            )
            for finding in findings
            if finding.limit
        ],
        "checks": [_build_check_case(check, plan.diagnostics) for check in plan.verdicts.checks],
        "lint": [_build_lint_case(rule, by_id.get(rule, ()), plan) for rule in RULE_IDS],
        "warnings": warnings,
        "separation rules": list(map(_build_separation_case, plan.verdicts.separation_verdicts)),
    }
    return render_suites(suites.items(), describe_assumptions(plan) or "nexusform")


def _build_check_case(check: CheckResult, diagnostics: Iterable[Diagnostic]) -> JunitCase:
    """Build the JUnit case of a check of the configuration, with a line per broken condition.

    An example of a line is `check.racks at main.nf.hcl:9: Add racks.` A line has the diagnostics
    inside of the condition, or without any the messages of the check.
    """
    # A plan evaluates conditions on predictions; apply evaluates them on results.
    status = "cannot be evaluated" if check.status == "error" else f"{check.status}, predicted"
    details = []
    for position in check.positions:
        problems = []
        for diagnostic in diagnostics:
            span = diagnostic.subject
            if span is None or span.filename != position.filename:
                continue  # elsewhere
            if position.start.byte <= span.start.byte <= position.end.byte:
                problems.append(diagnostic.detail)
        # A problem may be reported elsewhere: of a variable, at its value.
        texts = problems or check.messages
        details.append(f"{check.address} at {format_location(position)}: {'; '.join(texts)}")
    message = "; ".join(check.messages) or status
    return JunitCase(
        check.kind, check.address, _OUTCOMES[check.status], message, "\n".join(details)
    )


def render_suites(
    suites: Iterable[tuple[str, Sequence[JunitCase]]], title: str = "nexusform"
) -> str:
    """Render suites of cases as XML, without empty suites."""
    all_cases: list[JunitCase] = []
    parts: list[Markup | str] = ["\n"]
    for name, cases in suites:
        if cases:
            all_cases += cases
            rendered_cases: list[Markup | str] = []
            for case in cases:
                rendered_cases += ["  ", _render_case(case), "\n"]
            suite = build_svg_element(
                "testsuite", "\n", rendered_cases, name=name, **_count_case_outcomes(cases)
            )
            parts += [suite, "\n"]
    # The Jenkins schema has no count of skipped cases here, only in suites.
    counts = {
        name: count for name, count in _count_case_outcomes(all_cases).items() if name != "skipped"
    }
    document = build_svg_element("testsuites", parts, name=title, **counts)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{document}\n'


def _render_case(case: JunitCase) -> Markup:
    """Return the testcase element.

    An empty outcome means passed, and None seconds leave out the time.
    """
    parts: list[Markup] = []
    if case.outcome:  # "": passed
        parts.append(build_svg_element(case.outcome, case.detail, message=case.message))
    if case.note:
        parts.append(build_svg_element("system-out", case.note))
    time = None if case.seconds is None else f"{case.seconds:.3f}"
    return build_svg_element("testcase", parts, classname=case.group, name=case.name, time=time)


def _count_case_outcomes(cases: Sequence[JunitCase]) -> dict[str, int]:
    counts = Counter(case.outcome for case in cases)
    return {
        "tests": len(cases),
        "failures": counts["failure"],
        "errors": counts["error"],
        "skipped": counts["skipped"],
    }


def _format_finding_name(diagnostic: Diagnostic) -> str:
    """Return the summary with its address or line."""
    return (
        f"{diagnostic.summary} {diagnostic.address or format_location(diagnostic.subject)}".strip()
    )


def _build_lint_case(rule: str, findings: Sequence[Finding], plan: Plan) -> JunitCase:
    """Build the case of a lint rule.

    It passes, with its findings as a note, or is skipped if the rule did not run.
    """
    if findings:
        lines = [f"{format_count(len(findings), 'finding')}:"]
        lines += [
            f"{_format_finding_name(finding.diagnostic)}: {_format_finding(finding)}"
            for finding in findings
        ]
        return JunitCase("lint", rule, note="\n".join(lines))
    if rule in plan.verdicts.disabled_rules:
        return JunitCase("lint", rule, "skipped", "disabled in the configuration")
    if plan.errored:
        return JunitCase("lint", rule, "skipped", "not checked: planning failed")
    if not plan.verdicts.is_linted:
        return JunitCase("lint", rule, "skipped", "not checked: this plan places no VM of a pool")
    return JunitCase("lint", rule)


def _format_finding(finding: Finding) -> str:
    """Format a finding as `Warning: DETAIL`, with a second line if it is pre-existing."""
    level = finding.level.value.capitalize()
    text = f"{level}: {finding.diagnostic.detail or finding.diagnostic.summary}"
    return f"{text}\n{PREEXISTING_NOTE}" if finding.is_preexisting else text


def _build_separation_case(verdict: SeparationVerdict) -> JunitCase:
    """Build the case of a separation rule: skipped, not failed, if it only warns or is unknown."""
    name = str(verdict.address)
    if verdict.satisfied == "always":
        return JunitCase("separation", name)
    if verdict.satisfied == "unknown":
        return JunitCase(
            "separation", name, "skipped", message=f"is unknown: {'; '.join(verdict.unchecked)}"
        )
    violations = "\n".join(map(format_violation, verdict.violations))
    outcome = "failure" if verdict.enforcement == "deny" else "skipped"
    # Always (above), sometimes or never.
    message = f"holds {verdict.satisfied} ({verdict.enforcement})"
    return JunitCase("separation", name, outcome, message=message, detail=violations)
