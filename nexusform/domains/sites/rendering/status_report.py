"""Reports of the status of all sites, of their locks, and of applying their plan, folded."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from nexusform.diagnostics.phrases import format_count, format_duration, format_list, select_word_form
from nexusform.domains.sites.rendering.fleet_impact import build_undeclared_document, build_undeclared_sections
from nexusform.domains.sites.rendering.fleet_summary import group_by_reason
from nexusform.domains.sites.rendering.question_report import (
    build_question_document,
    build_question_report,
    select_failed_results,
)
from nexusform.domains.sites.rendering.site_change_rows import format_names
from nexusform.domains.sites.types.fleet_plan import FleetPlan, PlannedSite, Wave
from nexusform.domains.sites.types.site_tasks import QuestionKind, SiteLock, SiteResult, SiteStatus
from nexusform.json_data.record_forms import RecordForm
from nexusform.rendering.report.report_tree import Report, Row, Section, Table

_STATUS_TEXTS = {
    SiteStatus.APPLIED: "applied",
    SiteStatus.FAILED: "interrupted",
    SiteStatus.REJECTED: "cannot be read",
    SiteStatus.SKIPPED: "nothing applied yet",
}
_APPLY_TEXTS = {
    SiteStatus.APPLIED: "applied",
    SiteStatus.UNCHANGED: "unchanged",
    SiteStatus.REJECTED: "rejected",
    SiteStatus.FAILED: "failed",
    SiteStatus.SKIPPED: "skipped",
}
_PROGRESS_TEXTS = {True: "started", False: "not started"}


def build_status_report(plan: FleetPlan, now: datetime, certainty: Sequence[SiteResult] = ()) -> Report:
    """Build the report: counts by wave, problems, locks, and certainty of placements if requested."""
    failed = plan.select_by_status(SiteStatus.REJECTED, SiteStatus.FAILED)
    sections = _build_failed_section("To review", failed)
    sections += build_undeclared_sections(plan.undeclared, len(plan.undeclared))
    sections.append(_build_wave_section(plan, plan.waves, _STATUS_TEXTS))
    rows = []
    for site in plan.sites:
        lock = site.result.lock
        if lock is not None:
            age, progress = format_age(lock.created, now), _PROGRESS_TEXTS[lock.has_started]
            rows.append(Row((site.name, lock.id, lock.host, lock.who, age, progress)))
    if rows:
        heads = ("site", "lock ID", "host", "who", "age", "apply")
        sections.append(Section("Locks", table=Table(heads, tuple(rows))))
    if certainty:
        certainty_report = build_question_report(QuestionKind.CERTAINTY, certainty)
        sections += (Section(certainty_report.title, (certainty_report.verdict,)), *certainty_report.sections)
    title = f"States of {format_count(len(plan.sites), 'site')}"
    verdict = f"{', '.join(_format_status_counts(plan, _STATUS_TEXTS))}."
    is_finding = bool(failed or select_failed_results(certainty))
    return Report(title, verdict, is_finding=is_finding, sections=tuple(sections))


def build_apply_report(plan: FleetPlan, *, is_stopped: bool) -> Report:
    """Build the report of an apply: counts, failures with reasons, and waves."""
    failed = plan.select_by_status(SiteStatus.REJECTED, SiteStatus.FAILED)
    failed_title = f"{format_count(len(failed), 'site')} {select_word_form(len(failed), 'was', 'were')} not applied"
    sections = _build_failed_section(failed_title, failed)
    sections += build_undeclared_sections(plan.undeclared, len(plan.undeclared))
    waves = [wave for wave in plan.waves if plan.select_wave(wave.name)]
    sections.append(_build_wave_section(plan, waves, _APPLY_TEXTS))
    title = f"Applied {len(plan.select_by_status(SiteStatus.APPLIED)):,} of {format_count(len(plan.sites), 'site')}"
    verdict = f"{format_list(_format_status_counts(plan, _APPLY_TEXTS))}."
    return Report(title, verdict, is_finding=is_stopped or bool(failed), sections=tuple(sections))


def _build_failed_section(title: str, failed: Sequence[PlannedSite]) -> list[Section]:
    """Build the section of failed sites by reason, none without failures."""
    lines = tuple(f"{format_names(names)}: {reason}" for reason, names in group_by_reason(failed))
    return [Section(title, lines, is_finding=True)] if failed else []


def _build_wave_section(plan: FleetPlan, waves: Iterable[Wave], status_texts: Mapping[SiteStatus, str]) -> Section:
    """Build the section with one row per wave: its number of sites, and of sites with each status."""
    heads = ("wave", "sites", *status_texts.values())
    rows = []
    for wave in waves:
        statuses = [site.result.status for site in plan.select_wave(wave.name)]
        counts = [len(statuses), *(statuses.count(status) for status in status_texts)]
        rows.append(Row((wave.name, *(f"{count:,}" for count in counts))))
    return Section("Waves", table=Table(heads, tuple(rows), figures=frozenset(range(1, len(heads)))))


def _format_status_counts(plan: FleetPlan, status_texts: Mapping[SiteStatus, str]) -> list[str]:
    """Return the number of sites of each status, and of those no longer declared."""
    counts = {text: len(plan.select_by_status(status)) for status, text in status_texts.items()}
    counts["no longer declared"] = len(plan.undeclared)
    return [f"{count:,} {text}" for text, count in counts.items() if count]


_SITE: Final = RecordForm(
    PlannedSite,
    "name wave status=result.status reason=result.reason serial=result.serial state=result.state_location labels",
)
_LOCK: Final = RecordForm(SiteLock, "id host who created started=has_started unlock_command")


def build_status_document(plan: FleetPlan, certainty: Sequence[SiteResult] = ()) -> dict[str, Any]:
    """Build the report as JSON data."""
    document = {
        "format_version": "1.0",
        "sites": [
            {**_SITE(site), "lock": _LOCK(site.result.lock) if site.result.lock is not None else None}
            for site in plan.sites
        ],
        "undeclared": build_undeclared_document(plan.undeclared),
    }
    if certainty:
        document["certainty"] = build_question_document(QuestionKind.CERTAINTY, certainty)["sites"]
    return document


def format_locked_sites(results: Sequence[SiteResult], now: datetime) -> str:
    """Format the locks of these locked sites as a table below a sentence, with the command to release them, or ""."""
    if not results:
        return ""
    rows = [_format_lock(result, result.lock, now) for result in results if result.lock is not None]
    hints = [
        f"If no process on {host} runs any more, release the locks of sites that were not started:\n"
        f"  nexusform sites unlock -host={host}"
        for host in list_lock_hosts(results)
    ]
    verb = select_word_form(len(results), "is", "are")
    title = f"{format_count(len(results), 'site')} {verb} locked:"
    return "\n\n".join(["", "\n".join([title, *rows]), *hints])  # it begins with an empty line


def list_lock_hosts(results: Sequence[SiteResult]) -> list[str]:
    """List the known hosts of locks, sorted."""
    return sorted({result.lock.host for result in results if result.lock is not None} - {""})


def format_age(created: str, now: datetime) -> str:
    """Format the time since a lock was taken, "unknown" if its time cannot be read."""
    try:
        return format_duration(max((now - datetime.fromisoformat(created)).total_seconds(), 0))
    except (ValueError, TypeError):
        return "unknown"


def _format_lock(result: SiteResult, lock: SiteLock, now: datetime) -> str:
    progress = _PROGRESS_TEXTS[lock.has_started]
    host = f"host {lock.host}" if lock.host else lock.who
    return f"  {result.site}: ID {lock.id}, {host}, age {format_age(lock.created, now)}, apply {progress}"
