"""Report of a question to sites, as text and as data. Sites with equal results share a row."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from nexusform.diagnostics.phrases import format_count, group_by, select_word_form
from nexusform.domains.sites.rendering.site_change_rows import format_names, replace_site_name
from nexusform.domains.sites.types.site_tasks import (
    QuestionKind,
    SiteQuestionFinding,
    SiteResult,
    SiteStatus,
    select_results,
)
from nexusform.json_data.record_forms import RecordForm
from nexusform.rendering.report.report_tree import Report, Row, Section, Table

_MAX_ROWS: Final = 40
_TITLES: Final[Mapping[QuestionKind, str]] = {
    QuestionKind.CERTAINTY: "Certainty of the plans of {}",
    QuestionKind.FAILURE: "Loss of each rack of {}, one at a time",
    QuestionKind.REPLAY: "{} placed again",
}
_FAILED_STATUSES: Final = (SiteStatus.REJECTED, SiteStatus.SKIPPED, SiteStatus.FAILED)
TableLine = tuple[tuple[str, ...], bool]


def build_question_report(question_kind: QuestionKind, results: Sequence[SiteResult]) -> Report:
    """Build the report: a summary, the failed sites by reason, and one row per distinct result with its sites."""
    failed = select_failed_results(results)
    successful = [result for result in results if result.status not in _FAILED_STATUSES]
    verdict = _SUMMARIES[question_kind](successful) if successful else "No result."
    if failed:
        verdict = f"{verdict.rstrip('.')}; {format_count(len(failed), 'site')} failed."
    has_problems = bool(failed) or any(result.problem_findings for result in successful)
    sections: list[Section] = []
    if failed:
        # A reason is shared if it differs only in the site name. The reason of a single site keeps its name.
        by_reason = group_by(failed, lambda result: replace_site_name(result.reason, result.site))
        failed_lines = [
            f"{format_names([result.site for result in same_reason])}: "
            f"{reason if len(same_reason) > 1 else same_reason[0].reason}"
            for reason, same_reason in by_reason.items()
        ]
        sections.append(Section("Failed sites", tuple(failed_lines), is_finding=True))
    if successful:
        # A line is the cells of a result without site names, and whether it is a problem.
        heads, build_rows = _TABLES[question_kind]
        sites_by_line: dict[TableLine, list[str]] = {}
        for result in successful:
            for cells, is_problem in build_rows(result):
                line = (tuple(replace_site_name(cell, result.site) for cell in cells), is_problem)
                sites_by_line.setdefault(line, []).append(result.site)
        rows = [
            Row((format_names(sites, max_names=4), *cells), is_finding=is_problem)
            for (cells, is_problem), sites in sites_by_line.items()
        ]
        rows.sort(key=lambda row: not row.is_finding)  # problems first
        hidden_count = len(rows) - _MAX_ROWS
        lines = (f"{format_count(hidden_count, 'more row')}: -format=json has all.",) if hidden_count > 0 else ()
        table = Table(("sites", *heads), tuple(rows[:_MAX_ROWS]))
        sections.append(Section("By site", lines, table=table, is_finding=any(row.is_finding for row in rows)))
    title = _TITLES[question_kind].format(format_count(len(results), "site"))
    return Report(title, verdict, is_finding=has_problems, sections=tuple(sections))


def select_failed_results(results: Iterable[SiteResult]) -> list[SiteResult]:
    """Select the results of failed sites."""
    return select_results(results, *_FAILED_STATUSES)


_RESULT: Final = RecordForm(
    SiteResult,
    "name=site status reason findings",
    status=lambda status: "rejected" if status in _FAILED_STATUSES else "answered",
    findings=RecordForm(
        SiteQuestionFinding, "name *figures=. texts is_problem", figures=lambda finding: finding.figures
    ),
)


def build_question_document(question_kind: QuestionKind, results: Sequence[SiteResult]) -> dict[str, Any]:
    """Build the report as JSON data."""
    return {"asked": question_kind.value, "sites": [_RESULT(result) for result in results]}


def _list_findings(results: Iterable[SiteResult]) -> list[SiteQuestionFinding]:
    return [finding for result in results for finding in result.findings]


def _count_constant_vms(findings: Iterable[SiteQuestionFinding], figure_name: str) -> int:
    """Count the VMs with the same rack, machine or count in every run."""
    return sum(finding.figures[figure_name] == finding.figures["runs"] for finding in findings)


def _summarize_certainty(results: Sequence[SiteResult]) -> str:
    """Summarize the VMs with one machine or rack in all samples, and the least certain VM. A finding is one VM."""
    findings = _list_findings(results)
    if not findings:
        return "No VM to place. Certainty is computed for VMs to place, not for existing ones."
    sample_count = round(findings[0].figures["runs"])  # equal for all VMs
    machine_count = _count_constant_vms(findings, "machine")
    site_findings = ((result.site, finding) for result in results for finding in result.findings)
    site, least_certain = min(site_findings, key=lambda site_and_finding: _compute_share(site_and_finding[1]))
    constant_text = (
        f"{machine_count:,} of {format_count(len(findings), 'VM')} {select_word_form(machine_count, 'is', 'are')} "
        f"on one machine in all {sample_count:,} samples, {_count_constant_vms(findings, 'rack'):,} in one rack."
    )
    target_machine = least_certain.texts[0]
    vm_text = f"{least_certain.name} of {site} on {target_machine}"
    return f"{constant_text} Least certain: {vm_text}, in {_format_percent(_compute_share(least_certain))} of them."


def _compute_share(finding: SiteQuestionFinding) -> float:
    """Compute the share of samples with the VM on its machine."""
    return finding.figures["machine"] / finding.figures["runs"]


def _format_percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def _build_certainty_rows(result: SiteResult) -> Iterable[TableLine]:
    """Build one row: the number of VMs (findings), and of those with one machine, rack and rack count in all runs."""
    if not result.findings:
        yield (("0 to place", "", "", ""), False)
        return
    vms = len(result.findings)
    counts = (_count_constant_vms(result.findings, figure_name) for figure_name in ("machine", "rack", "rack_count"))
    yield ((f"{vms:,}", *(f"{count:,} of {vms:,}" for count in counts)), False)


def _summarize_failures(results: Sequence[SiteResult]) -> str:
    """Summarize the racks with a problem if lost, and the number of their sites. A finding is one rack."""
    rack_count = format_count(len(_list_findings(results)), "rack")
    problem_counts = [len(result.problem_findings) for result in results]
    problem_count, unharmed_count = sum(problem_counts), problem_counts.count(0)
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
        yield ((finding.name.rpartition("/")[2], finding.texts[0]), True)  # the name is `<site>/<rack>`


def _summarize_replay(results: Sequence[SiteResult]) -> str:
    """Summarize the VMs observed on the machine chosen by the placement rule; per site by its best rack_spread."""
    best_findings = [
        max(result.findings, key=lambda finding: finding.figures["hits"]) for result in results if result.findings
    ]
    checked = round(sum(finding.figures["verified"] for finding in best_findings))
    hits = round(sum(finding.figures["hits"] for finding in best_findings))
    if not checked:
        return "Nothing could be checked."
    chance_hits = sum(finding.figures["by_chance"] for finding in best_findings)
    return (
        f"{hits:,} of {format_count(checked, 'checked VM')} ({_format_percent(hits / checked)}) are where the rule "
        f"places them (best rack_spread per site); expected by chance: {_format_percent(chance_hits / checked)}."
    )


def _build_replay_rows(result: SiteResult) -> Iterable[TableLine]:
    """Build a row for each rack_spread: VMs explained by the rule, certain ones, by chance, and not checked."""
    for finding in result.findings:
        figures = finding.figures
        hits_text = f"{round(figures['hits']):,} of {round(figures['verified']):,}"
        spread = finding.name.rpartition(" ")[2]  # the name ends with `, rack_spread SPREAD`
        certain_text, unchecked_text = f"{round(figures['certain_hits']):,}", f"{round(figures['unverified']):,}"
        yield ((spread, hits_text, certain_text, f"{figures['by_chance']:.1f}", unchecked_text), False)


_SUMMARIES: Final[Mapping[QuestionKind, Callable[[Sequence[SiteResult]], str]]] = {
    QuestionKind.CERTAINTY: _summarize_certainty,
    QuestionKind.FAILURE: _summarize_failures,
    QuestionKind.REPLAY: _summarize_replay,
}
_TABLES: Final[Mapping[QuestionKind, tuple[tuple[str, ...], Callable[[SiteResult], Iterable[TableLine]]]]] = {
    QuestionKind.CERTAINTY: (("VMs", "same machine", "same rack", "rack count"), _build_certainty_rows),
    QuestionKind.FAILURE: (("rack", "effect of losing it"), _build_failure_rows),
    QuestionKind.REPLAY: (("rack_spread", "explained", "certain", "by chance", "not checked"), _build_replay_rows),
}
