"""The plan of a fleet for machines: JSON, and SARIF for code hosts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import nexusform
from nexusform.diagnostic_kinds import summary_of
from nexusform.diagnostics import Diagnostic, Severity, diagnostic
from nexusform.domains.sites.rendering.summary import groups_of
from nexusform.domains.sites.types.fleet_plan import FleetPlan, PlannedSite
from nexusform.domains.sites.types.work import Status, Trouble
from nexusform.rendering.pull_request.sarif import findings_document
from nexusform.source import Position, Span

FORMAT_VERSION: Final = "1.0"


def fleet_document(plan: FleetPlan) -> dict[str, Any]:
    """The whole plan as JSON data."""
    groups = groups_of(site.answer for site in plan.sites)
    return {
        "format_version": FORMAT_VERSION,
        "nexusform_version": nexusform.__version__,
        "digest": plan.digest,
        "waves": [wave.name for wave in plan.waves],
        "groups": [{"rows": list(group.rows), "sites": list(group.sites)} for group in groups],
        "sites": [site_document(site) for site in plan.sites],
    }


def site_document(site: PlannedSite) -> dict[str, Any]:
    """One site of it."""
    answer = site.answer
    return {
        "name": site.name,
        "wave": site.wave,
        "status": answer.status.value,
        "reason": answer.reason,
        "digest": answer.digest,
        "placed": answer.placed,
        "moved": answer.moved,
        "removed": answer.removed,
        "labels": dict(site.labels),
        "redundancy_lost": list(answer.redundancy_lost),
        "after": list(site.after),
        "diagnostics": [_trouble(trouble) for trouble in answer.troubles],
    }


def _trouble(trouble: Trouble) -> dict[str, Any]:
    return {
        "severity": trouble.severity,
        "id": trouble.id,
        "summary": trouble.summary,
        "detail": trouble.detail,
        "file": trouble.file,
        "line": trouble.line,
        "address": trouble.address,
    }


def fleet_sarif(plan: FleetPlan) -> dict[str, Any]:
    """What is wrong with sites, at the lines that it speaks of, else at the site's own."""
    return findings_document(_findings(plan.sites), nexusform.__version__)


def _findings(sites: Iterable[PlannedSite]) -> list[Diagnostic]:
    """Errors of every site, and warnings once for all sites that share them."""
    findings: list[Diagnostic] = []
    seen: set[tuple[str, str, int]] = set()
    for site in sites:
        for trouble in site.answer.troubles:
            is_error = trouble.severity == Severity.ERROR
            key = (trouble.id, trouble.file, trouble.line)
            if not trouble.id or (key in seen and not is_error):
                continue
            seen.add(key)
            findings.append(_finding(site, trouble))
        if site.answer.status in (Status.REFUSED, Status.FAILED) and not site.answer.troubles:
            findings.append(_finding(site, Trouble("error", "site-is-refused", "", site.answer.reason)))
    return findings


def _finding(site: PlannedSite, trouble: Trouble) -> Diagnostic:
    """A trouble as a diagnostic that names its site."""
    file, line = (trouble.file, trouble.line) if trouble.file else (site.file, site.line)
    at = Position(max(line, 1), 1, 0)
    return diagnostic(
        Severity(trouble.severity),
        trouble.id,
        trouble.detail,
        Span(file, at, at),
        headline=f"{site.name}: {trouble.summary or summary_of(trouble.id)}",
    )
