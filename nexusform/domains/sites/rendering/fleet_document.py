"""The plan of a fleet for machines: JSON, and SARIF for code hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

import nexusform
from nexusform.diagnostic_kinds import summary_of
from nexusform.diagnostics import Severity, diagnostic
from nexusform.domains.sites.rendering.at_stake import fleet_stake, heaviest, losses, site_level, site_stake
from nexusform.domains.sites.rendering.summary import groups_of
from nexusform.domains.sites.rendering.undeclared import UNDECLARED, undeclared_document, undeclared_findings
from nexusform.domains.sites.types.fleet_plan import FleetPlan, PlannedSite
from nexusform.domains.sites.types.work import Status, Trouble
from nexusform.json_forms import Form
from nexusform.rendering.pull_request.sarif import findings_document
from nexusform.rendering.report.entries import Finding
from nexusform.source import Position, Span
from nexusform.weights import Level, Stake, level_of, level_of_warning

FORMAT_VERSION: Final = "1.0"


def fleet_document(plan: FleetPlan) -> dict[str, Any]:
    """The whole plan as JSON data."""
    groups = groups_of(site.answer for site in plan.sites)
    return {
        "format_version": FORMAT_VERSION,
        "nexusform_version": nexusform.__version__,
        "digest": plan.digest,
        "level": heaviest(_levels(plan)).value,
        "stake": fleet_stake(plan).value,
        "waves": [wave.name for wave in plan.waves],
        "groups": [{"rows": list(group.rows), "sites": list(group.sites)} for group in groups],
        "sites": [SITE(site) for site in plan.sites],
        "undeclared": undeclared_document(plan.undeclared),
    }


def _levels(plan: FleetPlan) -> Iterator[Level]:
    """How much each site weighs, and that sites were left out."""
    yield from (site_level(site.answer) for site in plan.sites)
    if plan.undeclared:
        yield level_of_warning(UNDECLARED)


SITE: Final = Form(
    PlannedSite,
    "name wave status=answer.status reason=answer.reason digest=answer.digest level=answer stake=answer "
    "placed=answer.placed moved=answer.moved removed=answer.removed loses_machine=answer.lost "
    "forgotten=answer.forgotten at_stake=answer labels redundancy_lost=answer.redundancy_lost after "
    "diagnostics=answer.troubles",
    level=lambda answer: site_level(answer).value,
    stake=lambda answer: site_stake(answer).value,
    at_stake=lambda answer: list(losses(answer)),
    diagnostics="severity level held_before id summary detail file line address",
)


def fleet_sarif(plan: FleetPlan) -> dict[str, Any]:
    """What is wrong with sites and what they lose, at the lines that it speaks of, else at the site's own."""
    missing = [Finding(each, level_of(each)) for each in undeclared_findings(plan.undeclared)]
    findings = [*_findings(plan.sites), *missing]
    findings.sort(key=lambda finding: (finding.level.order, finding.held_before))
    return findings_document(findings, nexusform.__version__)


def _findings(sites: Iterable[PlannedSite]) -> list[Finding]:
    """Errors of every site, and warnings once for all sites that share them."""
    findings: list[Finding] = []
    seen: set[tuple[str, str, int, bool]] = set()
    for site in sites:
        for trouble in site.answer.troubles:
            is_error = trouble.severity == Severity.ERROR
            key = (trouble.id, trouble.file, trouble.line, trouble.held_before)
            if not trouble.id or (key in seen and not is_error):
                continue
            seen.add(key)
            findings.append(_finding(site, trouble))
        if site.answer.status in (Status.REFUSED, Status.FAILED) and not site.answer.troubles:
            findings.append(_finding(site, Trouble("error", "site-is-refused", "", site.answer.reason)))
        elif site_stake(site.answer) is Stake.LOSES and site.answer.status is Status.PLANNED:
            words = "; ".join((*losses(site.answer), *site.answer.redundancy_lost))
            lost = Trouble("warning", "site-loses-what-runs", "", f"{words}.", level=Level.WARNING.value)
            findings.append(_finding(site, lost))
    return findings


def _finding(site: PlannedSite, trouble: Trouble) -> Finding:
    """A trouble as a finding that names its site."""
    file, line = (trouble.file, trouble.line) if trouble.file else (site.file, site.line)
    at = Position(max(line, 1), 1, 0)
    told = diagnostic(
        Severity(trouble.severity),
        trouble.id,
        trouble.detail,
        Span(file, at, at),
        headline=f"{site.name}: {trouble.summary or summary_of(trouble.id)}",
    )
    return Finding(replace(told, held_before=trouble.held_before), Level(trouble.level))
