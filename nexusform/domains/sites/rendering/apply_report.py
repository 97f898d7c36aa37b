"""Report of applying a fleet's plan."""

from __future__ import annotations

from nexusform.diagnostics.phrases import format_count, format_list, select_word_form
from nexusform.domains.sites.rendering.fleet_summary import group_by_reason
from nexusform.domains.sites.rendering.name_list import format_names
from nexusform.domains.sites.rendering.undeclared_report import build_undeclared_sections
from nexusform.domains.sites.types.fleet_plan import FleetPlan
from nexusform.domains.sites.types.site_tasks import SiteStatus
from nexusform.rendering.report.report_tree import Report, Row, Section, Table

_REPORTED_STATUSES = (
    SiteStatus.APPLIED,
    SiteStatus.UNCHANGED,
    SiteStatus.REFUSED,
    SiteStatus.FAILED,
    SiteStatus.SKIPPED,
)


def build_apply_report(plan: FleetPlan, *, is_stopped: bool) -> Report:
    """Build the report: counts, failures with reasons, and waves."""
    failed = plan.select_by_status(SiteStatus.REFUSED, SiteStatus.FAILED)
    sections = []
    if failed:
        lines = [f"{format_names(names)}: {reason}" for reason, names in group_by_reason(failed)]
        title = f"{format_count(len(failed), 'site')} {select_word_form(len(failed), 'was', 'were')} not applied"
        sections.append(Section(title, tuple(lines), is_finding=True))
    sections += build_undeclared_sections(plan.undeclared, len(plan.undeclared))
    sections.append(_build_wave_section(plan))
    figures = [
        f"{len(plan.select_by_status(status)):,} {status.value}"
        for status in _REPORTED_STATUSES
        if plan.select_by_status(status)
    ]
    if plan.undeclared:
        figures.append(f"{len(plan.undeclared):,} no longer declared")
    title = f"Applied {len(plan.select_by_status(SiteStatus.APPLIED)):,} of {format_count(len(plan.sites), 'site')}"
    return Report(title, f"{format_list(figures)}.", is_stopped or bool(failed), (), tuple(sections))


def _build_wave_section(plan: FleetPlan) -> Section:
    """Build the section with one row per wave."""
    heads = ("wave", "sites", *(status.value for status in _REPORTED_STATUSES))
    rows = []
    for wave in plan.waves:
        statuses = [site.result.status for site in plan.select_wave(wave.name)]
        if statuses:
            figures = [len(statuses), *(statuses.count(status) for status in _REPORTED_STATUSES)]
            rows.append(Row((wave.name, *(f"{figure:,}" for figure in figures))))
    return Section("Waves", table=Table(heads, tuple(rows), frozenset(range(1, len(heads)))))
