"""Plan of a fleet as JSON data, and its findings at lines of its definition."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

import nexusform
from nexusform.diagnostics.diagnostic import (
    Position,
    Severity,
    Span,
    build_diagnostic,
    build_error,
    build_warning,
)
from nexusform.diagnostics.levels import (
    Level,
    PlacementImpact,
    get_diagnostic_level,
    get_warning_level,
)
from nexusform.diagnostics.summaries import get_summary
from nexusform.domains.sites.rendering.fleet_decision import get_records
from nexusform.domains.sites.rendering.fleet_impact import (
    UNDECLARED,
    build_undeclared_document,
    build_undeclared_findings,
    compute_fleet_impact,
    compute_site_impact,
    compute_site_level,
)
from nexusform.domains.sites.rendering.fleet_summary import group_sites
from nexusform.domains.sites.types.fleet_plan import FILE_NAME, FleetPlan, PlannedSite
from nexusform.domains.sites.types.site_tasks import SiteDiagnostic, SiteStatus
from nexusform.plans.impact.guard_rails import GUARD_RAIL, GUARD_RAIL_REVIEW, format_limit
from nexusform.plans.plan_checks import GuardRailOutcome, GuardRailResult
from nexusform.rendering.json.json_placements import build_summed_decision_document
from nexusform.rendering.notation.json_values import omit_empty
from nexusform.rendering.report.finding_entries import Finding
from nexusform.rendering.report.summed_decision import list_record_risks

FORMAT_VERSION: Final = "1.0"


def build_fleet_document(plan: FleetPlan) -> dict[str, Any]:
    """Build the JSON data of a plan of several sites."""
    groups = group_sites(site.result for site in plan.sites)
    levels = [compute_site_level(site.result) for site in plan.sites]
    if plan.undeclared:
        levels.append(get_warning_level(UNDECLARED))
    if plan.errors:
        levels.append(Level.ERROR)
    worst_level = min(levels, key=lambda level: level.order, default=Level.NOTE)
    # None: every wave may start.
    blocked = plan.find_blocked_wave()
    return {
        "format_version": FORMAT_VERSION,
        "nexusform_version": nexusform.__version__,
        "errored": bool(plan.errors),
        "diagnostics": list(map(_build_diagnostic_document, plan.errors)),
        "digest": plan.digest,
        "level": worst_level.value,
        "impact": compute_fleet_impact(plan).value,
        "decision": build_summed_decision_document(get_records(plan), plan.guard_rails),
        "waves": [wave.name for wave in plan.waves],
        "blocked_wave": blocked.name if blocked is not None else None,
        "groups": [{"rows": list(group.rows), "sites": list(group.sites)} for group in groups],
        "sites": list(map(_build_site_document, plan.sites)),
        **omit_empty({"after_merge": plan.after_merge}),
        "undeclared": list(map(build_undeclared_document, plan.undeclared)),
    }


def _build_diagnostic_document(diagnostic: SiteDiagnostic) -> dict[str, Any]:
    """Build the JSON object of a site diagnostic."""
    return {
        "severity": diagnostic.severity,
        "level": diagnostic.level,
        "preexisting": diagnostic.is_preexisting,
        "id": diagnostic.id,
        "summary": diagnostic.summary,
        "detail": diagnostic.detail,
        "file": diagnostic.file,
        "line": diagnostic.line,
        "address": diagnostic.address,
    }


def _build_site_document(site: PlannedSite) -> dict[str, Any]:
    """Build the JSON object of a planned site."""
    return {
        "name": site.name,
        "wave": site.wave,
        "status": site.result.status.value,
        "reason": site.result.reason,
        "digest": site.result.digest,
        "level": compute_site_level(site.result).value,
        "impact": compute_site_impact(site.result).value,
        "placed": site.result.impact.placed,
        "moved": site.result.impact.interrupted,
        "removed": site.result.impact.removed,
        "host_lost": site.result.impact.host_lost,
        "forgotten": site.result.impact.forgotten,
        "risks": list_record_risks(site.result.decision),
        "labels": dict(site.labels),
        "after": list(site.dependencies),
        "diagnostics": [
            _build_diagnostic_document(diagnostic) for diagnostic in site.result.diagnostics
        ],
    }


def list_fleet_findings(plan: FleetPlan) -> list[Finding]:
    """Return the findings and losses of sites, errors first and existing ones last.

    They are located at their own line, else at the block of their site.
    """
    findings = [_build_finding(error, error.file, error.line) for error in plan.errors]
    known_keys: set[tuple[str, str, int, bool]] = set()
    for site in plan.sites:
        # List the errors of every site. Sites with the same source share warnings, listed once.
        for site_diagnostic in site.result.diagnostics:
            is_error = site_diagnostic.severity == Severity.ERROR
            key = (
                site_diagnostic.id,
                site_diagnostic.file,
                site_diagnostic.line,
                site_diagnostic.is_preexisting,
            )
            # No id, or reported for another site.
            if not site_diagnostic.id or (key in known_keys and not is_error):
                continue
            known_keys.add(key)
            findings.append(_build_site_finding(site, site_diagnostic))
        if (
            site.result.status in (SiteStatus.REJECTED, SiteStatus.FAILED)
            and not site.result.diagnostics
        ):
            rejection = SiteDiagnostic(
                severity="error", id="site-rejected", summary="", detail=site.result.reason
            )
            findings.append(_build_site_finding(site, rejection))
        elif (
            compute_site_impact(site.result) is PlacementImpact.LOSES
            and site.result.status is SiteStatus.PLANNED
        ):
            loss_text = "; ".join(list_record_risks(site.result.decision)) + "."
            loss_diagnostic = SiteDiagnostic(
                severity="warning",
                id="site-loses-workloads",
                summary="",
                detail=loss_text,
                level=Level.WARNING.value,
            )
            findings.append(_build_site_finding(site, loss_diagnostic))
    findings += _build_limit_findings(plan.guard_rails)
    undeclared = build_undeclared_findings(plan.undeclared)
    findings += [Finding(diagnostic, get_diagnostic_level(diagnostic)) for diagnostic in undeclared]
    return sorted(findings, key=lambda finding: (finding.level.order, finding.is_preexisting))


def _build_limit_findings(results: Iterable[GuardRailResult]) -> Iterator[Finding]:
    """Yield a finding for each limit that blocks the plan, or asks for a review."""
    position = Position(1, 1, 0)
    for result in results:
        if result.result is not GuardRailOutcome.PASSED:
            build, finding_id, flag = build_warning, GUARD_RAIL_REVIEW, "-warn-on"
            if result.blocks:
                build, finding_id, flag = build_error, GUARD_RAIL, "-fail-on"
            detail = f"{flag}={format_limit(result.name, result.limit)}: {result.reason}."
            diagnostic = build(finding_id, detail, Span(FILE_NAME, position, position))
            yield Finding(diagnostic, get_diagnostic_level(diagnostic))


def _build_site_finding(site: PlannedSite, site_diagnostic: SiteDiagnostic) -> Finding:
    """Build a finding with its site's name.

    At its own file and line, else at the declaration of the site.
    """
    located = site_diagnostic if site_diagnostic.file else site
    return _build_finding(site_diagnostic, located.file, located.line, f"{site.name}: ")


def _build_finding(
    site_diagnostic: SiteDiagnostic, file: str, line: int, prefix: str = ""
) -> Finding:
    """Build a finding at a line; `prefix` precedes its headline.

    It is the first line for 0, an unknown one.
    """
    position = Position(max(line, 1), 1, 0)
    site_finding = build_diagnostic(
        Severity(site_diagnostic.severity),
        site_diagnostic.id,
        site_diagnostic.detail,
        Span(file, position, position),
        headline=f"{prefix}{site_diagnostic.summary or get_summary(site_diagnostic.id)}",
    )
    return Finding(
        replace(site_finding, is_preexisting=site_diagnostic.is_preexisting),
        Level(site_diagnostic.level),
    )
