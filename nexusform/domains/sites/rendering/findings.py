"""What sites answered, for people and as data. Sites that answer alike stand in one row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from nexusform.domains.sites.rendering.names import names_text
from nexusform.domains.sites.rendering.site_rows import neutral
from nexusform.domains.sites.types.work import Answer, Asked, Finding, Status
from nexusform.json_forms import Form
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.words import counted, form

_MOST_ROWS: Final = 40
_TITLES: Final[Mapping[Asked, str]] = {
    Asked.CERTAINTY: "Certainty of the plans of {}",
    Asked.FAILURE: "Each rack of {} lost, one at a time",
    Asked.REPLAY: "{} placed once more",
}
_BAD: Final = (Status.REFUSED, Status.SKIPPED, Status.FAILED)
Line = tuple[tuple[str, ...], bool]


def findings_outline(asked: Asked, answers: Sequence[Answer]) -> Outline:
    """A verdict over all sites, and a row for those that answer alike."""
    told = [answer for answer in answers if answer.status not in _BAD]
    unasked = unasked_sites(answers)
    verdict = _VERDICTS[asked](told) if told else "Nothing was found out."
    if unasked:
        verdict = f"{verdict.rstrip('.')}; {counted(len(unasked), 'site')} could not be asked."
    bad = bool(unasked) or any(finding.bad for answer in told for finding in answer.findings)
    sections = [_unasked(unasked)] if unasked else []
    if told:
        sections.append(_table(asked, told))
    title = _TITLES[asked].format(counted(len(answers), "site"))
    return Outline(title, verdict, bad, (), tuple(sections))


def unasked_sites(answers: Iterable[Answer]) -> list[Answer]:
    """Select the answers of sites that could not be asked."""
    return [answer for answer in answers if answer.status in _BAD]


_ANSWER: Final = Form(
    Answer,
    "name=site status reason findings",
    status=lambda status: "refused" if status in _BAD else "answered",
    findings=Form(Finding, "name *figures=. words bad", figures=lambda finding: finding.figures),
)


def findings_document(asked: Asked, answers: Sequence[Answer]) -> dict[str, Any]:
    """The same for machines."""
    return {"asked": asked.value, "sites": [_ANSWER(answer) for answer in answers]}


def _unasked(answers: Iterable[Answer]) -> Section:
    """Sites that gave no answer, by their reason."""
    by_reason: dict[str, list[Answer]] = {}
    for answer in answers:
        by_reason.setdefault(neutral(answer.reason, answer.site), []).append(answer)
    lines = tuple(
        f"{names_text([each.site for each in alike])}: {reason if len(alike) > 1 else alike[0].reason}"
        for reason, alike in by_reason.items()
    )
    return Section("Could not be asked", lines, bad=True)


def _table(asked: Asked, answers: Iterable[Answer]) -> Section:
    """A row for what sites answer alike."""
    heads, rows_of = _TABLES[asked]
    alike: dict[Line, list[str]] = {}
    for answer in answers:
        for cells, bad in rows_of(answer):
            line = (tuple(neutral(cell, answer.site) for cell in cells), bad)
            alike.setdefault(line, []).append(answer.site)
    rows = [Row((names_text(sites, 4), *cells), bad) for (cells, bad), sites in alike.items()]
    rows.sort(key=lambda row: not row.bad)
    left = len(rows) - _MOST_ROWS
    lines = (f"{counted(left, 'more row')}: -format=json has all.",) if left > 0 else ()
    table = Table(("sites", *heads), tuple(rows[:_MOST_ROWS]))
    return Section("By site", lines, table=table, bad=any(row.bad for row in rows))


# --- certainty ---------------------------------------------------------------------------------


def _always(findings: Iterable[Finding], what: str) -> int:
    """How many VMs have the same rack, machine or count in every run."""
    return sum(each.figures[what] == each.figures["runs"] for each in findings)


def _certainty_verdict(answers: Sequence[Answer]) -> str:
    findings = [finding for answer in answers for finding in answer.findings]
    if not findings:
        return "No VM is placed."
    runs = f"{round(findings[0].figures['runs']):,}"
    machine = _always(findings, "machine")
    site, least = min(_of_sites(answers), key=lambda pair: _share(pair[1]))
    always = (
        f"{machine:,} of {counted(len(findings), 'VM')} {form(machine, 'stands', 'stand')} on one machine in "
        f"all {runs} tie-breaks, {_always(findings, 'rack'):,} in one rack."
    )
    where = f"{least.name} of {site} on {least.words[0]}"
    return f"{always} Least sure: {where}, in {_percent(_share(least))} of them."


def _of_sites(answers: Iterable[Answer]) -> Iterable[tuple[str, Finding]]:
    return ((answer.site, finding) for answer in answers for finding in answer.findings)


def _share(finding: Finding) -> float:
    """In which share of the tie-breaks the VM has its machine."""
    return finding.figures["machine"] / finding.figures["runs"]


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def _certainty_rows(answer: Answer) -> Iterable[Line]:
    if not answer.findings:
        yield (("0", "", "", ""), False)
        return
    vms = len(answer.findings)
    shares = (_always(answer.findings, what) for what in ("machine", "rack", "rack_count"))
    machine, rack, count = (f"{share:,} of {vms:,}" for share in shares)
    yield ((f"{vms:,}", machine, rack, count), False)


# --- racks that are lost -----------------------------------------------------------------------


def _failure_verdict(answers: Sequence[Answer]) -> str:
    findings = [finding for answer in answers for finding in answer.findings]
    bad = [finding for finding in findings if finding.bad]
    sites = sum(any(finding.bad for finding in answer.findings) for answer in answers)
    if not bad:
        return f"No site loses a control plane or a pool with any one of {counted(len(findings), 'rack')}."
    return (
        f"The loss of {len(bad):,} of {counted(len(findings), 'rack')} loses availability or leaves VMs "
        f"without room, on {counted(sites, 'site')}."
    )


def _failure_rows(answer: Answer) -> Iterable[Line]:
    bad = [finding for finding in answer.findings if finding.bad]
    fine = len(answer.findings) - len(bad)
    if fine or not bad:
        yield ((counted(fine, "rack"), "nothing is lost for good"), False)
    for finding in bad:
        yield ((finding.name.rpartition("/")[2], finding.words[0]), True)


# --- replay ------------------------------------------------------------------------------------


def _replay_verdict(answers: Sequence[Answer]) -> str:
    best = [_best(answer) for answer in answers if answer.findings]
    judged = round(sum(each.figures["judged"] for each in best))
    hits = round(sum(each.figures["hits"] for each in best))
    if not judged:
        return "Nothing could be judged."
    chance = sum(each.figures["by_chance"] for each in best) / judged
    share, by_chance = _percent(hits / judged), _percent(chance)
    return (
        f"{hits:,} of {counted(judged, 'judged VM')} ({share}) stand where the rule puts them, each site "
        f"under the spread that explains most; by chance {by_chance}."
    )


def _best(answer: Answer) -> Finding:
    return max(answer.findings, key=lambda each: each.figures["hits"])


def _replay_rows(answer: Answer) -> Iterable[Line]:
    for each in answer.findings:
        figures = each.figures
        of = f"{round(figures['hits']):,} of {round(figures['judged']):,}"
        sure, left = f"{round(figures['sure']):,}", f"{round(figures['not_judged']):,}"
        yield ((each.name.rpartition(" ")[2], of, sure, f"{figures['by_chance']:.1f}", left), False)


_VERDICTS: Final[Mapping[Asked, Callable[[Sequence[Answer]], str]]] = {
    Asked.CERTAINTY: _certainty_verdict,
    Asked.FAILURE: _failure_verdict,
    Asked.REPLAY: _replay_verdict,
}
_TABLES: Final[Mapping[Asked, tuple[tuple[str, ...], Callable[[Answer], Iterable[Line]]]]] = {
    Asked.CERTAINTY: (("VMs", "same machine", "same rack", "rack count"), _certainty_rows),
    Asked.FAILURE: (("rack", "what its loss does"), _failure_rows),
    Asked.REPLAY: (("rack_spread", "explained", "surely", "by chance", "not judged"), _replay_rows),
}
