"""The plan of a fleet in one summary: the same rows once, refusals by their reason, what differs by site."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from nexusform.domains.sites.rendering.at_stake import (
    findings_sections,
    fleet_stake,
    leaving_clauses,
    stake_sections,
)
from nexusform.domains.sites.rendering.names import names_text
from nexusform.domains.sites.rendering.site_rows import HERE, neutral
from nexusform.domains.sites.rendering.undeclared import undeclared_sections
from nexusform.domains.sites.types.fleet_plan import FleetPlan, PlannedSite
from nexusform.domains.sites.types.work import Answer, Status
from nexusform.rendering.answers.outline import Outline, Row, Section, Table, outline_markdown
from nexusform.words import counted, first_of, form, listed

_WHOLE_GROUPS: Final = 1  # groups whose rows are shown in full
_MOST_DIFFERING: Final = 12  # rows of a table of a terminal
_MOST_ROWS: Final = 4
_LISTED: Final = re.compile(rf'("{HERE}" stands in [^\n]+), line \d+\.')
MOST_BYTES: Final = 65_000  # code hosts cut comments off at 65,536 characters


class Group(Struct, frozen=True):
    """Sites with which the same happens: their rows, with SITE in place of their names."""

    rows: tuple[str, ...]
    sites: tuple[str, ...]


def groups_of(answers: Iterable[Answer]) -> list[Group]:
    """Sites that change, by what happens to them; the largest group first."""
    by_rows: dict[tuple[str, ...], list[str]] = {}
    for answer in answers:
        if answer.status in (Status.PLANNED, Status.APPLIED):
            by_rows.setdefault(answer.rows, []).append(answer.site)
    groups = [Group(rows, tuple(sites)) for rows, sites in by_rows.items()]
    return sorted(groups, key=lambda group: -len(group.sites))


def reasons_of(sites: Iterable[PlannedSite]) -> list[tuple[str, list[str]]]:
    """Why sites are refused or failed, and which ones for the same reason; the commonest first."""
    by_reason: dict[str, list[PlannedSite]] = {}
    for site in sites:
        reason = _LISTED.sub(r"\1.", neutral(site.answer.reason, site.name))
        by_reason.setdefault(reason, []).append(site)
    told = [
        (reason if len(alike) > 1 else alike[0].answer.reason, [site.name for site in alike])
        for reason, alike in by_reason.items()
    ]
    return sorted(told, key=lambda pair: -len(pair[1]))


# --- the outline -------------------------------------------------------------------------------


def fleet_outline(plan: FleetPlan, most: int = _MOST_DIFFERING) -> Outline:
    """The summary of a plan; at most `most` rows of what differs by site."""
    groups = groups_of(site.answer for site in plan.sites)
    refused = plan.of_status(Status.REFUSED, Status.FAILED, Status.SKIPPED)
    sections = [
        *_refused(refused, most),
        *stake_sections(plan.sites, most),
        *_redundancy(plan.sites, most),
        *undeclared_sections(plan.undeclared, most),
        *findings_sections(plan.sites, most),
        *_groups(groups, most),
        _waves(plan),
    ]
    title = f"Plan of {counted(len(plan.sites), 'site')}"
    return Outline(title, verdict(plan, groups), bool(refused), (), tuple(sections), fleet_stake(plan))


def verdict(plan: FleetPlan, groups: Sequence[Group]) -> str:
    """As `412 sites: the same 3 rows; 5 refused; 2 lose rack redundancy; 581 unchanged`, in a sentence."""
    clauses: list[str] = []
    if groups:
        first = groups[0]
        rows = f"{'the same ' if len(first.sites) > 1 else ''}{counted(len(first.rows), 'row')}"
        clauses.append(f"{counted(len(first.sites), 'site')}: {rows}")
    others = sum(len(group.sites) for group in groups[1:])
    if others:
        ways = counted(len(groups) - 1, "other way")
        clauses.append(f"{others:,} {form(others, 'changes', 'change')} in {ways}")
    clauses += leaving_clauses(plan.sites)
    refused = plan.of_status(Status.REFUSED)
    if refused:
        reason, sites = reasons_of(refused)[0]
        others_say = "" if len(sites) == len(refused) else ", and others"
        clauses.append(f"{len(refused):,} refused: {_shortened(reason)}{others_say}")
    unfinished = plan.of_status(Status.SKIPPED, Status.FAILED)
    if unfinished:
        clauses.append(f"{len(unfinished):,} not planned")
    losing = sum(bool(site.answer.redundancy_lost) for site in plan.sites)
    if losing:
        clauses.append(f"{losing:,} {form(losing, 'loses', 'lose')} rack redundancy")
    if plan.undeclared:
        gone = len(plan.undeclared)
        clauses.append(f"{gone:,} {form(gone, 'is', 'are')} no longer declared")
    unchanged = len(plan.of_status(Status.UNCHANGED))
    if unchanged:
        clauses.append(f"{unchanged:,} unchanged")
    return f"{'; '.join(clauses)}."


def _shortened(reason: str) -> str:
    """The first words of a reason, for the first line."""
    summary = reason.split(": ", 2)
    words = summary[1] if len(summary) > 1 and re.search(r":\d+$", summary[0]) else summary[0]
    return words.rstrip(".")


def _refused(sites: Sequence[PlannedSite], most: int) -> Iterable[Section]:
    """Sites that cannot be planned, by their reason."""
    if not sites:
        return
    reasons = reasons_of(sites)
    lines = [f"{names_text(names)}: {reason}" for reason, names in reasons[:most]]
    left = _left(len(reasons) - most, "more reason")
    title = f"{counted(len(sites), 'site')} {form(len(sites), 'is', 'are')} refused"
    yield Section(title, (*lines, *left), bad=True)


def _redundancy(sites: Sequence[PlannedSite], most: int) -> Iterable[Section]:
    """Sites with a pool whose VMs all come to stand on one rack."""
    losing = [site for site in sites if site.answer.redundancy_lost]
    if not losing:
        return
    lines = [f"{site.name}: {listed(site.answer.redundancy_lost)}" for site in losing[:most]]
    title = f"Warning: {counted(len(losing), 'site')} {form(len(losing), 'loses', 'lose')} rack redundancy"
    yield Section(title, (*lines, *_left(len(losing) - most, "more site")))


def _groups(groups: Sequence[Group], most: int) -> Iterable[Section]:
    """The largest groups in full, the others by what differs from the largest."""
    whole = [group for group in groups if len(group.sites) > 1][:_WHOLE_GROUPS] or list(groups[:1])
    for group in whole:
        same = "the same " if len(group.sites) > 1 else ""
        title = f"{counted(len(group.sites), 'site')}: {same}{counted(len(group.rows), 'row')}"
        names = f"Sites: {names_text(group.sites)}."
        yield Section(title, (*group.rows, names))
    others = [group for group in groups if group not in whole]
    if not others:
        return
    lines = [f"{names_text(group.sites)}: {_difference(group, whole[0])}" for group in others[:most]]
    count = sum(len(group.sites) for group in others)
    title = f"{counted(count, 'site')} with something of {form(count, 'its', 'their')} own"
    yield Section(title, (*lines, *_left(len(others) - most, "more such row")))


def _difference(group: Group, first: Group) -> str:
    """The rows of a group that the first one does not have, and those that it lacks."""
    own = [row for row in group.rows if row not in first.rows]
    lacking = len([row for row in first.rows if row not in group.rows])
    text = first_of(own, _MOST_ROWS, "; ")
    missing = f"{lacking} {form(lacking, 'row', 'rows')} fewer" if lacking > len(own) else ""
    return "; ".join(part for part in (text, missing) if part)


def _left(count: int, noun: str) -> tuple[str, ...]:
    if count <= 0:
        return ()
    return (f"{counted(count, noun)}: -report=html:FILE and -json show all.",)


def _waves(plan: FleetPlan) -> Section:
    """The waves, in the order in which they run."""
    heads = ("wave", "sites", "change", "refused", "unchanged", "placed", "moved", "removed")
    rows = []
    for wave in plan.waves:
        sites = [site.answer for site in plan.of_wave(wave.name)]
        statuses = [answer.status for answer in sites]
        figures = [
            len(sites),
            statuses.count(Status.PLANNED),
            statuses.count(Status.REFUSED),
            statuses.count(Status.UNCHANGED),
            sum(answer.placed for answer in sites),
            sum(answer.moved for answer in sites),
            sum(answer.removed for answer in sites),
        ]
        rows.append(Row((wave.name, *(f"{figure:,}" for figure in figures))))
    table = Table(heads, tuple(rows), frozenset(range(1, len(heads))))
    return Section("Waves, in their order", table=table)


def fleet_markdown(plan: FleetPlan) -> str:
    """The summary as Markdown, as much of it as a comment may hold."""
    for most in (500, 200, 80, 30, 12, 4, 1):
        text = outline_markdown(fleet_outline(plan, most))
        if len(text.encode()) <= MOST_BYTES:
            return text
    return text[:MOST_BYTES]
