"""Results of one site as data: plan with its digest, rejection and diagnostics."""

import re
from collections.abc import Iterable
from hashlib import sha256
from itertools import chain
from typing import Any, Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Severity, has_errors
from nexusform.diagnostics.levels import get_diagnostic_level
from nexusform.domains.sites.rendering.site_change_rows import build_site_rows
from nexusform.domains.sites.types.fleet_plan import SiteEntry
from nexusform.domains.sites.types.site_tasks import SiteDiagnostic, SiteResult, SiteStatus
from nexusform.domains.sites.workflow.site_project import normalize_state_location
from nexusform.plans.plan import Action, Plan
from nexusform.plans.saved.record_codec import write_record
from nexusform.rendering.report.decision_record import build_decision_record
from nexusform.rendering.report.finding_entries import Finding, collect_findings
from nexusform.state import json_codec
from nexusform.values.typed_value import Unknown
from nexusform.workflow.runs.run import Run

LOCKED: Final = "state-lock-error"
_LOCK_HOLDER: Final = re.compile(r"^ *Who:(.*)$", re.MULTILINE)


def build_plan_result(
    run: Run,
    plan: Plan,
    site: SiteEntry,
    problems: Iterable[Diagnostic],
    guard_rails: Iterable[str] = (),
) -> SiteResult:
    """Build the result of a plan.

    Its errors if it is rejected, else its digest, changes, decision and findings. `guard_rails` are
    the names of the limits to measure.
    """
    problems = list(problems)
    state_location = describe_state_location(run, site)
    # Locations of the states of other sites read by the plan.
    read_states: tuple[str, ...] = ()
    if run.project.remote_states is not None:
        locations = run.project.remote_states.locations
        read_states = tuple(
            sorted(normalize_state_location(backend, path) for backend, path in locations)
        )
    if plan.is_rejected or has_errors([*problems, *plan.diagnostics]):
        rejected = build_rejected_result(site.name, [*problems, *plan.diagnostics])
        return replace(
            rejected,
            state_location=state_location,
            read_states=read_states,
            decision=build_decision_record(replace(plan, errored=True), guard_rails),
        )
    decision = build_decision_record(plan, guard_rails)
    return SiteResult(
        site=site.name,
        status=SiteStatus.PLANNED if plan.has_changes else SiteStatus.UNCHANGED,
        digest=compute_plan_digest(plan),
        rows=build_site_rows(plan, site.name, run.project.registries),
        impact=decision.figures.impact,
        decision=decision,
        diagnostics=(
            *build_site_diagnostics(problems),
            *map(_convert_finding, collect_findings(plan)),
        ),
        state_location=state_location,
        read_states=read_states,
        serial=plan.start.serial,
        machines=sum(len(planned_site.machines) for planned_site in plan.site_records.sites),
        vms=sum(
            len(pool.unchanged) + len(pool.added)
            for planned_site in plan.site_records.sites
            for pool in planned_site.pools
        ),
    )


def describe_state_location(run: Run, site: SiteEntry) -> str:
    """Describe the location of a site's state."""
    return normalize_state_location(site.backend, run.project.backend.describe())


def build_rejected_result(name: str, problems: Iterable[Diagnostic]) -> SiteResult:
    """Build the result of a rejected site; the first error is the reason."""
    problem_list = list(problems)
    first_error = next(
        (problem for problem in problem_list if problem.severity is Severity.ERROR), None
    )
    reason = summarize_problem(first_error)
    site_diagnostics = build_site_diagnostics(problem_list)
    return SiteResult(name, SiteStatus.REJECTED, reason, diagnostics=site_diagnostics)


def summarize_problem(problem: Diagnostic | None) -> str:
    """Summarize an error in a sentence or two."""
    # No error states a reason.
    if problem is None:
        return "It cannot be planned."
    # Its first paragraph.
    detail = problem.detail.split("\n\n", 1)[0].strip()
    # Only the holder is named.
    if problem.id == LOCKED:
        holder = _LOCK_HOLDER.search(problem.detail)
        detail = f"{holder[1].strip()} holds it." if holder else detail
    return problem.summary + (f": {detail}" if detail else ".")


def build_site_diagnostics(problems: Iterable[Diagnostic]) -> tuple[SiteDiagnostic, ...]:
    """Convert diagnostics to data."""
    return tuple(
        _convert_finding(Finding(problem, get_diagnostic_level(problem))) for problem in problems
    )


def _convert_finding(finding: Finding) -> SiteDiagnostic:
    """Convert a finding to data; without a location, `file` is "" and `line` 0."""
    problem = finding.diagnostic
    file, line = (
        (problem.subject.filename, problem.subject.start.line) if problem.subject else ("", 0)
    )
    return SiteDiagnostic(
        severity=problem.severity.value,
        id=problem.id,
        summary=problem.summary,
        detail=problem.detail,
        file=file,
        line=line,
        address=problem.address,
        level=finding.level.value,
        is_preexisting=finding.is_preexisting,
    )


def compute_plan_digest(plan: Plan) -> str:
    """Compute the SHA-256 of changes, placements and outputs.

    Serial, time, diagnostics and source lines are left out. All plans without changes have
    the same digest.
    """
    # The records approved by a reviewer, without creation numbers; a NO_OP move or import changes
    # the state, too.
    changes = (
        write_record(replace(change, creation=0, prior_creation=0, source=None))
        for change in plan.changes
        if change.action is not Action.NO_OP or change.previous_address or change.importing
    )
    outputs = (
        write_record(output)
        for output in plan.root_values.outputs
        if output.action is not Action.NO_OP
    )
    moves = ([str(old), str(new)] for old, new in plan.address_moves)
    digest = sha256()
    for record in chain(changes, map(write_record, plan.placements), outputs, moves):
        digest.update(json_codec.render_json(record, sort=True, default=_convert_to_plain))
        digest.update(b"\n")
    return digest.hexdigest()


def _convert_to_plain(value: Any) -> Any:
    """Convert unknown values and other mappings to plain data."""
    if isinstance(value, Unknown):
        return {"unknown": True}
    return json_codec.convert_mapping(value)
