"""Reports on all sites: their status, locks, an apply of their plan, and the answers to a question.

Sites with equal results share a row.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from nexusform.diagnostics.phrases import (
    format_count,
    format_duration,
    format_list,
    group_by,
    select_word_form,
)
from nexusform.domains.sites.rendering.fleet_impact import (
    build_undeclared_document,
    build_undeclared_sections,
)
from nexusform.domains.sites.rendering.fleet_summary import build_reason_sections
from nexusform.domains.sites.rendering.site_change_rows import format_names
from nexusform.domains.sites.types.fleet_plan import FleetPlan, PlannedSite, Wave
from nexusform.domains.sites.types.site_tasks import (
    QuestionKind,
    SiteLock,
    SiteQuestionFinding,
    SiteResult,
    SiteStatus,
    select_results,
)
from nexusform.rendering.notation.json_values import omit_empty
from nexusform.rendering.report.folding import replace_site
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


def build_status_report(
    plan: FleetPlan, now: datetime, certainty: Sequence[SiteResult] = ()
) -> Report:
    """Build the report: counts by wave, problems, locks, and certainty of placements.

    The certainty is shown if requested.
    """
    failed = plan.select_by_status(SiteStatus.REJECTED, SiteStatus.FAILED)
    sections = build_reason_sections("To review", failed, max_rows=len(failed))
    sections += build_undeclared_sections(plan.undeclared, len(plan.undeclared))
    sections.append(_build_wave_section(plan, plan.waves, _STATUS_TEXTS))
    rows = []
    for site in plan.sites:
        lock = site.result.lock
        if lock is not None:
            age = format_age(lock.created, now)
            progress = _PROGRESS_TEXTS[lock.has_started]
            rows.append(Row((site.name, lock.id, lock.host, lock.who, age, progress)))
    if rows:
        heads = ("site", "lock ID", "host", "who", "age", "apply")
        sections.append(Section("Locks", table=Table(heads, tuple(rows))))
    if certainty:
        certainty_report = build_question_report(QuestionKind.CERTAINTY, certainty)
        sections += (
            Section(certainty_report.title, (certainty_report.verdict,)),
            *certainty_report.sections,
        )
    title = f"States of {format_count(len(plan.sites), 'site')}"
    verdict = f"{', '.join(_format_status_counts(plan, _STATUS_TEXTS))}."
    is_finding = bool(failed or select_failed_results(certainty))
    return Report(title, verdict, is_finding=is_finding, sections=tuple(sections))


def build_apply_report(plan: FleetPlan, *, is_stopped: bool) -> Report:
    """Build the report of an apply: counts, failures with reasons, and waves.

    A stopped wave makes it a finding.
    """
    failed = plan.select_by_status(SiteStatus.REJECTED, SiteStatus.FAILED)
    failed_title = (
        f"{format_count(len(failed), 'site')} {select_word_form(len(failed), 'was', 'were')} not "
        "applied"
    )
    sections = build_reason_sections(failed_title, failed, max_rows=len(failed))
    sections += build_undeclared_sections(plan.undeclared, len(plan.undeclared))
    waves = [wave for wave in plan.waves if plan.select_wave(wave.name)]
    sections.append(_build_wave_section(plan, waves, _APPLY_TEXTS))
    title = (
        f"Applied {len(plan.select_by_status(SiteStatus.APPLIED)):,} of "
        f"{format_count(len(plan.sites), 'site')}"
    )
    verdict = f"{format_list(_format_status_counts(plan, _APPLY_TEXTS))}."
    return Report(title, verdict, is_finding=is_stopped or bool(failed), sections=tuple(sections))


def _build_wave_section(
    plan: FleetPlan, waves: Iterable[Wave], status_texts: Mapping[SiteStatus, str]
) -> Section:
    """Build the section with one row per wave.

    It has its number of sites, and of sites with each status.
    """
    heads = ("wave", "sites", *status_texts.values())
    rows = []
    for wave in waves:
        statuses = [site.result.status for site in plan.select_wave(wave.name)]
        counts = [len(statuses), *map(statuses.count, status_texts)]
        rows.append(Row((wave.name, *(f"{count:,}" for count in counts))))
    # All but the wave.
    number_columns = frozenset(range(1, len(heads)))
    return Section("Waves", table=Table(heads, tuple(rows), number_columns=number_columns))


def _format_status_counts(plan: FleetPlan, status_texts: Mapping[SiteStatus, str]) -> list[str]:
    """Return the number of sites of each status, and of those no longer declared."""
    counts = {text: len(plan.select_by_status(status)) for status, text in status_texts.items()}
    counts["no longer declared"] = len(plan.undeclared)
    return [f"{count:,} {text}" for text, count in counts.items() if count]


def _build_site_document(site: PlannedSite) -> dict[str, Any]:
    """Build the JSON object of a planned site."""
    return {
        "name": site.name,
        "wave": site.wave,
        "status": site.result.status.value,
        "reason": site.result.reason,
        "serial": site.result.serial,
        "state": site.result.state_location,
        "labels": dict(site.labels),
    }


def _build_lock_document(lock: SiteLock) -> dict[str, Any]:
    """Build the JSON object of a site lock."""
    return {
        "id": lock.id,
        "host": lock.host,
        "owner": lock.who,
        "created": lock.created,
        "started": lock.has_started,
        "unlock_command": lock.unlock_command,
    }


def build_status_document(plan: FleetPlan, certainty: Sequence[SiteResult] = ()) -> dict[str, Any]:
    """Build the report as JSON data.

    `certainty` has answers about the certainty of locations, if requested.
    """
    document = {
        "format_version": "1.0",
        "sites": [
            {
                **_build_site_document(site),
                "lock": _build_lock_document(site.result.lock)
                if site.result.lock is not None
                else None,
            }
            for site in plan.sites
        ],
        "undeclared": list(map(build_undeclared_document, plan.undeclared)),
    }
    if certainty:
        document["certainty"] = build_question_document(QuestionKind.CERTAINTY, certainty)["sites"]
    return document


def format_locked_sites(results: Sequence[SiteResult], now: datetime) -> str:
    """Format the locks of these locked sites as a list, then the commands to release them.

    Return "" without sites.
    """
    if not results:
        return ""
    rows = []
    for result in results:
        lock = result.lock
        if lock is not None:
            host = f"host {lock.host}" if lock.host else lock.who
            age = format_age(lock.created, now)
            progress = _PROGRESS_TEXTS[lock.has_started]
            rows.append(f"  {result.site}: ID {lock.id}, {host}, age {age}, apply {progress}")
    hints = [
        f"If no process on {host} runs any more, release the locks of sites that were not "
        "started:\n"
        f"  nexusform sites unlock -host={host}"
        for host in list_lock_hosts(results)
    ]
    verb = select_word_form(len(results), "is", "are")
    title = f"{format_count(len(results), 'site')} {verb} locked:"
    # It begins with an empty line.
    return "\n\n".join(["", "\n".join([title, *rows]), *hints])


def list_lock_hosts(results: Sequence[SiteResult]) -> list[str]:
    """List the hosts of locks, sorted, without "" (an unknown host)."""
    return sorted({result.lock.host for result in results if result.lock is not None} - {""})


def format_age(created: str, now: datetime) -> str:
    """Format the time since a lock was taken, "unknown" if its time cannot be read."""
    try:
        return format_duration(max((now - datetime.fromisoformat(created)).total_seconds(), 0))
    except (ValueError, TypeError):
        return "unknown"


_MAX_ROWS: Final = 40
_TITLES: Final[Mapping[QuestionKind, str]] = {
    QuestionKind.CERTAINTY: "Certainty of the plans of {}",
    QuestionKind.FAILURE: "Loss of each rack of {}, one at a time",
    QuestionKind.REPLAY: "{} placed again",
}
_FAILED_STATUSES: Final = (SiteStatus.REJECTED, SiteStatus.SKIPPED, SiteStatus.FAILED)
TableLine = tuple[tuple[str, ...], bool]


def build_question_report(question_kind: QuestionKind, results: Sequence[SiteResult]) -> Report:
    """Build the report: a summary, the failed sites, and one row per distinct result.

    Failed sites are by reason. The row of a result has its sites.
    """
    failed = select_failed_results(results)
    successful = [result for result in results if result.status not in _FAILED_STATUSES]
    verdict = "No result."
    sections: list[Section] = []
    if successful:
        verdict = _SUMMARIES[question_kind](successful)
        sections.append(_build_result_section(question_kind, successful))
    if failed:
        verdict = f"{verdict.rstrip('.')}; {format_count(len(failed), 'site')} failed."
        lines = []
        # Reasons that differ only in the name of the site are one reason.
        by_reason = group_by(failed, lambda result: replace_site(result.reason, result.site))
        for reason, same_reason in by_reason.items():
            names = format_names([result.site for result in same_reason])
            # Of a single site: with its name.
            text = reason if len(same_reason) > 1 else same_reason[0].reason
            lines.append(f"{names}: {text}")
        sections.insert(0, Section("Failed sites", tuple(lines), is_finding=True))
    title = _TITLES[question_kind].format(format_count(len(results), "site"))
    return Report(
        title,
        verdict,
        is_finding=any(section.is_finding for section in sections),
        facts=tuple(_list_warning_facts(successful)),
        sections=tuple(sections),
    )


def _list_warning_facts(results: Iterable[SiteResult]) -> Iterator[str]:
    """Yield each distinct warning, after the names of its sites."""
    sites_by_text: dict[str, list[str]] = {}
    for result in results:
        for warning in result.warnings:
            text = replace_site(warning, result.site)
            sites_by_text.setdefault(text, []).append(result.site)
    for text, sites in sites_by_text.items():
        yield f"{format_names(sites, max_names=4)}: {text}"


def _build_result_section(question_kind: QuestionKind, results: Sequence[SiteResult]) -> Section:
    """Build the section with the table of results, problems first.

    Sites with the same cells share a row.
    """
    heads, build_rows = _TABLES[question_kind]
    sites_by_line: dict[TableLine, list[str]] = {}
    for result in results:
        for cells, is_problem in build_rows(result):
            line = (tuple(replace_site(cell, result.site) for cell in cells), is_problem)
            sites_by_line.setdefault(line, []).append(result.site)
    rows = [
        Row((format_names(sites, max_names=4), *cells), is_finding=is_problem)
        for (cells, is_problem), sites in sites_by_line.items()
    ]
    rows.sort(key=lambda row: not row.is_finding)
    hidden_count = len(rows) - _MAX_ROWS
    lines = (
        (f"{format_count(hidden_count, 'more row')}: -format=json has all.",)
        if hidden_count > 0
        else ()
    )
    table = Table(("sites", *heads), tuple(rows[:_MAX_ROWS]))
    return Section("By site", lines, table=table, is_finding=any(row.is_finding for row in rows))


def select_failed_results(results: Iterable[SiteResult]) -> list[SiteResult]:
    """Select the results of failed sites."""
    return select_results(results, *_FAILED_STATUSES)


def _build_result_document(result: SiteResult) -> dict[str, Any]:
    """Build the JSON object of the answer of a site."""
    return {
        "name": result.site,
        "status": "rejected" if result.status in _FAILED_STATUSES else "answered",
        "reason": result.reason,
        "findings": [
            {
                "name": finding.name,
                **finding.figures,
                "texts": list(finding.texts),
                "is_problem": finding.is_problem,
            }
            for finding in result.findings
        ],
        **omit_empty({"warnings": list(result.warnings)}),
    }


def build_question_document(
    question_kind: QuestionKind, results: Sequence[SiteResult]
) -> dict[str, Any]:
    """Build the report as JSON data."""
    return {"question": question_kind.value, "sites": list(map(_build_result_document, results))}


def _count_constant_vms(findings: Iterable[SiteQuestionFinding], figure_name: str) -> int:
    """Count the VMs with their planned "machine", "rack" or "rack_count" in every run.

    `figure_name` is one of these three. A VM counts if the figure is equal in all runs.
    """
    return sum(finding.figures[figure_name] == finding.figures["runs"] for finding in findings)


def _summarize_certainty(results: Sequence[SiteResult]) -> str:
    """Summarize the VMs with one machine or rack in all samples, and the least certain VM.

    A finding is one VM.
    """
    # Of the samples with the VM on its machine.
    shares: list[tuple[float, str, SiteQuestionFinding]] = []
    for result in results:
        for finding in result.findings:
            share = finding.figures["machine"] / finding.figures["runs"]
            shares.append((share, result.site, finding))
    if not shares:
        return "No VM to place. Certainty is computed for VMs to place, not for existing ones."
    findings = [finding for _, _, finding in shares]
    # The count is equal for all VMs.
    sample_count = round(findings[0].figures["runs"])
    machine_count = _count_constant_vms(findings, "machine")
    least_share, site, least_certain = min(shares, key=lambda share_of_vm: share_of_vm[0])
    constant_text = (
        f"{machine_count:,} of {format_count(len(findings), 'VM')} "
        f"{select_word_form(machine_count, 'is', 'are')} "
        f"on one machine in all {sample_count:,} samples, "
        f"{_count_constant_vms(findings, 'rack'):,} in one rack."
    )
    target_machine = least_certain.texts[0]
    vm_text = f"{least_certain.name} of {site} on {target_machine}"
    return f"{constant_text} Least certain: {vm_text}, in {_format_percent(least_share)} of them."


def _format_percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def _build_certainty_rows(result: SiteResult) -> Iterable[TableLine]:
    """Build one row: the number of VMs, and of those with equal figures in all runs.

    The figures are machine, rack and rack count. A finding is one VM.
    """
    if not result.findings:
        yield (("0 to place", "", "", ""), False)
        return
    vms = len(result.findings)
    counts = (
        _count_constant_vms(result.findings, figure_name)
        for figure_name in ("machine", "rack", "rack_count")
    )
    yield ((f"{vms:,}", *(f"{count:,} of {vms:,}" for count in counts)), False)


def _summarize_failures(results: Sequence[SiteResult]) -> str:
    """Summarize the racks with a problem if lost, and the number of their sites.

    A finding is one rack.
    """
    rack_count = format_count(sum(len(result.findings) for result in results), "rack")
    problem_counts = [len(result.problem_findings) for result in results]
    problem_count = sum(problem_counts)
    unharmed_count = problem_counts.count(0)
    if not problem_count:
        return f"No site loses a control plane or a pool with any one of {rack_count}."
    return (
        f"Losing {problem_count:,} of {rack_count} breaks availability or "
        f"leaves VMs without capacity, on {format_count(len(results) - unharmed_count, 'site')}."
    )


def _build_failure_rows(result: SiteResult) -> Iterable[TableLine]:
    """Build one row for all harmless racks, and one for each rack with a problem if lost."""
    problems = result.problem_findings
    harmless_count = len(result.findings) - len(problems)
    if harmless_count or not problems:
        yield ((format_count(harmless_count, "rack"), "availability is kept"), False)
    for finding in problems:
        # The name is `<site>/<rack>`.
        yield ((finding.name.rpartition("/")[2], finding.texts[0]), True)


def _summarize_replay(results: Sequence[SiteResult]) -> str:
    """Summarize the VMs observed on the machine chosen by the placement rule.

    Each site has its best rack_spread.
    """
    best_findings = [
        max(result.findings, key=lambda finding: finding.figures["hits"])
        for result in results
        if result.findings
    ]
    checked = round(sum(finding.figures["verified"] for finding in best_findings))
    hits = round(sum(finding.figures["hits"] for finding in best_findings))
    if not checked:
        return "Nothing could be checked."
    chance_hits = sum(finding.figures["by_chance"] for finding in best_findings)
    return (
        f"{hits:,} of {format_count(checked, 'checked VM')} ({_format_percent(hits / checked)}) "
        "are where the rule "
        "places them (best rack_spread per site); expected by chance: "
        f"{_format_percent(chance_hits / checked)}."
    )


def _build_replay_rows(result: SiteResult) -> Iterable[TableLine]:
    """Build a row for each rack_spread.

    The row counts VMs placed as by the rule, certain ones, those expected by chance, and
    those not checked.
    """
    for finding in result.findings:
        figures = finding.figures
        hits_text = f"{round(figures['hits']):,} of {round(figures['verified']):,}"
        # The name ends with `, rack_spread SPREAD`.
        spread = finding.name.rpartition(" ")[2]
        certain_text = f"{round(figures['certain_hits']):,}"
        unchecked_text = f"{round(figures['unverified']):,}"
        yield (
            (spread, hits_text, certain_text, f"{figures['by_chance']:.1f}", unchecked_text),
            finding.is_problem,
        )


_SUMMARIES: Final[Mapping[QuestionKind, Callable[[Sequence[SiteResult]], str]]] = {
    QuestionKind.CERTAINTY: _summarize_certainty,
    QuestionKind.FAILURE: _summarize_failures,
    QuestionKind.REPLAY: _summarize_replay,
}
_TABLES: Final[
    Mapping[QuestionKind, tuple[tuple[str, ...], Callable[[SiteResult], Iterable[TableLine]]]]
] = {
    QuestionKind.CERTAINTY: (
        ("VMs", "same machine", "same rack", "rack count"),
        _build_certainty_rows,
    ),
    QuestionKind.FAILURE: (("rack", "effect of losing it"), _build_failure_rows),
    QuestionKind.REPLAY: (
        ("rack_spread", "explained", "certain", "by chance", "not checked"),
        _build_replay_rows,
    ),
}
