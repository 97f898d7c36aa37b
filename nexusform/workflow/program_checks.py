"""`plan -check-with`: predicted decisions, repeated by programs of the user."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, build_error, build_warning
from nexusform.diagnostics.phrases import format_count, select_word_form
from nexusform.domain_table import LazyTable, collect_loaders
from nexusform.doubts.doubt import Doubt
from nexusform.files.directories import make_directories
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.plan import Plan
from nexusform.plans.plan_checks import DecisionDifference, ProgramCheck
from nexusform.state import json_codec
from nexusform.workflow.opening.system_io import write_output

# Seconds for the check by one program.
_SECONDS: Final = 600.0
_FOLDER: Final = "checks"
_MAX_LISTED: Final = 10
_MAX_REASONS: Final = 3
# The assumption behind an object that a program did not get whole.
_NOT_CHECKED: Final = "a check that does not cover it"


class ProgramCheckProblem(Exception):
    """Check without a result; the message is the reason."""


class ProgramCheckOutcome(Struct, frozen=True):
    """Result of a check, with the different decisions as recorded cases.

    `incomplete_objects` are the reasons why an object could not be sent whole, by its address
    and its name. `unchecked_reasons` are those of all objects that were not checked.
    """

    check: ProgramCheck
    cases: tuple[Mapping[str, Any], ...] = ()
    has_timed_out: bool = False
    incomplete_objects: Mapping[tuple[str, str], str] = {}
    unchecked_reasons: tuple[str, ...] = ()


# (plan, locations of all programs by name, seconds) -> result, None if the check of another program
# has it. Raises ProgramCheckProblem.
Checker: TypeAlias = Callable[[PlanResult, Mapping[str, str], float], ProgramCheckOutcome | None]
CHECKERS: Final[Mapping[str, Checker]] = LazyTable(collect_loaders("checkers"))


def add_program_checks(result: PlanResult, programs: Mapping[str, str], directory: str) -> Plan:
    """Check a plan by `programs` (name to location).

    Return it with the results; write differences to `directory`.
    """
    plan = result.plan
    if plan.errored:
        return plan
    checks: list[ProgramCheck] = []
    diagnostics: list[Diagnostic] = []
    for name, location in programs.items():
        try:
            outcome = CHECKERS[name](result, programs, _SECONDS)
        except ProgramCheckProblem as problem:
            detail = (
                f"The plan was not checked by {name}. {problem} Correct "
                f"-check-with={name}={location}, or omit it."
            )
            diagnostics.append(build_error("program-check-failed", detail))
            # The other programs still run.
            continue
        if outcome is None:
            continue
        checks.append(outcome.check)
        plan = _mark_incomplete_objects(plan, outcome)
        diagnostics += _warn_about_unchecked_objects(outcome)
        diagnostics += _write_cases_of_differences(outcome, directory)
    return replace(
        plan,
        verdicts=replace(plan.verdicts, checks_by=tuple(checks)),
        diagnostics=(*plan.diagnostics, *diagnostics),
    )


def _mark_incomplete_objects(plan: Plan, outcome: ProgramCheckOutcome) -> Plan:
    """Return a plan without certainty about the objects that were not sent whole.

    The program may decide otherwise on what it did not get.
    """
    if not outcome.incomplete_objects:
        return plan
    return replace(
        plan,
        placements=tuple(
            row.add_doubt(Doubt(row.kind, row.object, reason=_NOT_CHECKED))
            if (str(row.address), row.object) in outcome.incomplete_objects
            else row
            for row in plan.placements
        ),
    )


def _warn_about_unchecked_objects(outcome: ProgramCheckOutcome) -> list[Diagnostic]:
    """Return a warning about objects not covered by the check or not reached in time.

    The list is empty if all objects were checked.
    """
    check = outcome.check
    unchecked_count = outcome.check.total - outcome.check.checked
    if unchecked_count <= 0:
        return []
    time_reason = f"the check ended early, at its limit of {_SECONDS:.0f} s"
    reason = time_reason if outcome.has_timed_out else "this check does not cover them"
    if outcome.incomplete_objects:
        problems = sorted(set(outcome.incomplete_objects.values()))
        reason = f"not sent as they are: {'; '.join(problems[:_MAX_REASONS])}"
    elif outcome.unchecked_reasons and not outcome.has_timed_out:
        reason = "; ".join(outcome.unchecked_reasons[:_MAX_REASONS])
    verb = select_word_form(unchecked_count, "was", "were")
    detail = (
        f"{check.program} {check.version} has checked {check.checked:,} of "
        f"{format_count(check.total, check.noun)}; {unchecked_count:,} {verb} not checked: "
        f"{reason}."
    )
    return [build_warning("incomplete-program-check", detail)]


def _write_cases_of_differences(outcome: ProgramCheckOutcome, directory: str) -> list[Diagnostic]:
    """Write cases of the wrongly predicted decisions.

    Return an error for each of the first, and one for the rest.
    """
    check = outcome.check
    errors = [
        _build_reading_error(check, difference)
        for difference in check.differences
        if difference.is_reading
    ]
    errors += [
        _build_refusal_error(check, difference)
        for difference in check.differences
        if difference.refusal
    ]
    decisions = [
        difference
        for difference in check.differences
        if not (difference.is_reading or difference.refusal)
    ]
    if not decisions:
        return _limit_errors(check, errors, "")
    path = Path(directory, _FOLDER, f"{check.program}.jsonl")
    try:
        make_directories(path.parent)
        write_output(
            str(path),
            b"".join(json_codec.render_json(dict(case)) + b"\n" for case in outcome.cases),
        )
        hint = f"{path} has it as a case for a report."
    except OSError as problem:
        hint = f'The cases cannot be written to "{path}": {problem.strerror}.'
    for difference in decisions:
        detail = (
            f"{difference.address}: {difference.object} is predicted "
            f"{_format_location(difference.predicted)}; {check.program} {check.version} decides "
            f"{_format_location(difference.actual)}. {hint}"
        )
        errors.append(build_error("predicted-decision-differs", detail))
    return _limit_errors(check, errors, hint)


def _limit_errors(check: ProgramCheck, errors: list[Diagnostic], hint: str) -> list[Diagnostic]:
    """Return the first errors, and one with the number of the others."""
    rest = len(errors) - _MAX_LISTED
    if rest <= 0:
        return errors
    detail = (
        f"{check.program} {check.version} decides differently on "
        f"{format_count(rest, 'more object')}. {hint}"
    ).strip()
    return [*errors[:_MAX_LISTED], build_error("predicted-decision-differs", detail)]


def _build_refusal_error(check: ProgramCheck, difference: DecisionDifference) -> Diagnostic:
    """Build the error of an object that a program refuses to create."""
    reason = difference.refusal.removesuffix(".")
    detail = (
        f"{difference.address}: {difference.object} does not run: {reason} "
        f"({check.program} {check.version}). Change the documents or the objects that they name."
    )
    return build_error("predicted-decision-differs", detail)


def _build_reading_error(check: ProgramCheck, difference: DecisionDifference) -> Diagnostic:
    """Build the error of a document that the program reads in another way."""
    detail = (
        f"{difference.address}: nexusform and {check.program} {check.version} read "
        f"{difference.object} differently: {difference.predicted or 'none'}; "
        f"{check.program}: {difference.actual or 'none'}. Predictions follow the reading of "
        "nexusform. Report it with the template, or change the template."
    )
    return build_error("predicted-decision-differs", detail)


def _format_location(name: str) -> str:
    """Format the machine or cluster of a decision; "" is pending."""
    return f"on {name}" if name else "pending"
