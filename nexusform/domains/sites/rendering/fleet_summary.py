"""Summary of a fleet's plan: equal rows once, rejections by reason, differences by site."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.levels import PlacementImpact
from nexusform.diagnostics.phrases import (
    format_count,
    format_first_items,
    format_list,
    group_by,
    join_texts,
    select_word_form,
)
from nexusform.domains.sites.rendering.fleet_decision import build_fleet_decision_lines, get_records
from nexusform.domains.sites.rendering.fleet_impact import (
    build_finding_sections,
    build_undeclared_sections,
    compute_fleet_impact,
    limit_lines,
)
from nexusform.domains.sites.rendering.site_change_rows import format_names
from nexusform.domains.sites.types.fleet_plan import FleetPlan, PlannedSite
from nexusform.domains.sites.types.site_tasks import (
    SiteResult,
    SiteStatus,
    describe_diagnostic,
    select_results,
)
from nexusform.rendering.pull_request.report_markdown import render_report_markdown
from nexusform.rendering.report.decision_lines import describe_expiry
from nexusform.rendering.report.folding import SITE, replace_site
from nexusform.rendering.report.report_tree import (
    Report,
    Row,
    Section,
    Style,
    StyledText,
    Table,
    Text,
)
from nexusform.rendering.report.summed_decision import describe_interruptions, has_lasting_risks

# Number of rows of a table on a terminal.
_MAX_DIFFERENCES: Final = 12
_MAX_ROWS: Final = 4
_SYMBOLS: Final = frozenset(("+", "-", "~", "-/+", "+/-", ">", "."))
_COMPLETE_TEXT: Final = "-report=html:FILE and -json show all"
_DATA_LOCATION: Final = re.compile(rf'("{SITE}" is set in [^\n]+), line \d+\.')
# Code hosts cut comments off at 65,536 characters.
MAX_BYTES: Final = 65_000


class SitesWithEqualChanges(Struct, frozen=True):
    """Sites with equal changes: their rows, with SITE as name."""

    rows: tuple[str, ...]
    sites: tuple[str, ...]

    @property
    def title(self) -> str:
        """Numbers of sites and rows: `412 sites: the same 3 rows`."""
        same_text = "the same " if len(self.sites) > 1 else ""
        return (
            f"{format_count(len(self.sites), 'site')}: "
            f"{same_text}{format_count(len(self.rows), 'row')}"
        )


def group_sites(results: Iterable[SiteResult]) -> list[SitesWithEqualChanges]:
    """Group changed sites by rows, largest group first."""
    changed = select_results(results, SiteStatus.PLANNED, SiteStatus.APPLIED)
    by_rows = group_by(changed, lambda result: result.rows)
    groups = [
        SitesWithEqualChanges(rows, tuple(each.site for each in group))
        for rows, group in by_rows.items()
    ]
    return sorted(groups, key=lambda group: -len(group.sites))


def group_by_reason(sites: Iterable[PlannedSite]) -> list[tuple[str, list[str]]]:
    """Return reasons with site names, most sites first.

    Only a single site's reason keeps its name and line number.
    """
    # The group 1 of the pattern is the text before the line number.
    grouped = group_by(
        sites, lambda site: _DATA_LOCATION.sub(r"\1.", replace_site(site.result.reason, site.name))
    )
    reasons: list[tuple[str, list[str]]] = []
    for general_reason, same_reason in grouped.items():
        # With the name of the site and a line number.
        own_reason = same_reason[0].result.reason
        names = [site.name for site in same_reason]
        reasons.append((own_reason if len(names) == 1 else general_reason, names))
    return sorted(reasons, key=lambda reason_and_names: -len(reason_and_names[1]))


def build_fleet_summary(plan: FleetPlan, max_rows: int = _MAX_DIFFERENCES) -> Report:
    """Build the summary of a plan, with at most `max_rows` rows of differences by site."""
    merge = describe_fleet_merge(plan) if plan.after_merge else ""
    if plan.errors:
        section = Section("Errors", tuple(map(describe_diagnostic, plan.errors)), is_finding=True)
        verdict = f"Planning failed: {format_count(len(plan.errors), 'error')}."
        return Report(
            "Plan of sites",
            verdict,
            is_finding=True,
            sections=(section,),
            impact=PlacementImpact.LOSES,
            decision=build_fleet_decision_lines(plan, merge),
        )
    groups = group_sites(site.result for site in plan.sites)
    rejected_statuses = (SiteStatus.REJECTED, SiteStatus.FAILED, SiteStatus.SKIPPED)
    rejected = plan.select_by_status(*rejected_statuses)
    heads = ("wave", "sites", "change", "rejected", "unchanged", "placed", "moved", "removed")
    rows = []
    compact_rows = []
    for wave in plan.waves:
        results = [site.result for site in plan.select_wave(wave.name)]
        statuses = [result.status for result in results]
        counts = [
            len(results),
            statuses.count(SiteStatus.PLANNED),
            sum(map(statuses.count, rejected_statuses)),
            statuses.count(SiteStatus.UNCHANGED),
            sum(result.impact.placed for result in results),
            sum(result.impact.interrupted for result in results),
            sum(result.impact.removed for result in results),
        ]
        rows.append(Row((wave.name, *(f"{count:,}" for count in counts))))
        # A comment has no space for a table with so many columns.
        clauses = [
            f"{count:,} {head}" for head, count in zip(heads[2:], counts[1:], strict=True) if count
        ]
        compact_rows.append(
            f"{wave.name}: {join_texts((format_count(counts[0], 'site'), *clauses), ', ')}"
        )
    # All but the wave.
    number_columns = frozenset(range(1, len(heads)))
    table = Table(heads, tuple(rows), number_columns=number_columns, compact=tuple(compact_rows))
    rejected_title = (
        f"{format_count(len(rejected), 'site')} {select_word_form(len(rejected), 'is', 'are')} "
        "rejected"
    )
    sections = (
        *_build_blocked_section(plan),
        *build_reason_sections(rejected_title, rejected, max_rows),
        *build_undeclared_sections(plan.undeclared, max_rows),
        *build_finding_sections(plan.sites, max_rows),
        *_build_group_sections(groups, max_rows),
        *build_waiting_sections(plan),
        Section("Waves, in order", table=table),
    )
    title = f"Plan of {format_count(len(plan.sites), 'site')}"
    return Report(
        title,
        build_verdict(plan),
        is_finding=bool(rejected) or plan.is_blocked,
        sections=sections,
        impact=compute_fleet_impact(plan),
        decision=build_fleet_decision_lines(plan, merge),
    )


def describe_fleet_merge(plan: FleetPlan) -> str:
    """Return the waves that a merge applies, and when the plan expires.

    A wave with too many rejected sites, and those after it, do not start.
    """
    if plan.errors or plan.is_blocked:
        return "a merge applies nothing: this plan cannot be applied"
    if plan.after_merge == "none":
        return "a merge applies nothing"
    wave = plan.after_merge.removeprefix("wave:")
    names = [entry.name for entry in plan.waves if plan.has_pending_sites(entry.name)]
    if wave != plan.after_merge:
        names = [name for name in names if name == wave]
    if not names:
        return "a merge changes nothing"
    blocked = plan.find_blocked_wave()
    startable = plan.waves[: plan.waves.index(blocked)] if blocked is not None else plan.waves
    started_names = [entry.name for entry in startable if entry.name in names]
    if not started_names:
        assert blocked is not None, "every wave can start"
        return f"a merge applies nothing: wave {blocked.name} cannot start"
    subject = "this plan"
    if wave != plan.after_merge or started_names != names:
        waves = select_word_form(len(started_names), "wave", "waves")
        subject = f"{waves} {format_list(started_names)} of this plan"
    return f"a merge applies {subject}; {describe_expiry(plan.now, plan.max_age)}"


def build_verdict(plan: FleetPlan) -> str:
    """Build one sentence.

    An example is `412 of 1,000 sites change; lasting risks on lon1; 5 rejected: State is locked`.
    """
    changed_count = len(plan.select_by_status(SiteStatus.PLANNED, SiteStatus.APPLIED))
    share = f"{changed_count:,} of {format_count(len(plan.sites), 'site')}"
    if changed_count == len(plan.sites):
        share = format_count(changed_count, "site")
    verb = select_word_form(changed_count, "changes", "change")
    clauses = [f"{share} {verb}"] if changed_count else []
    records = get_records(plan)
    losing = [name for name, record in records.items() if has_lasting_risks(record)]
    clauses += [f"lasting risks on {format_names(losing)}"] if losing else []
    clauses += describe_interruptions(records)
    rejected = plan.select_by_status(SiteStatus.REJECTED)
    if rejected:
        # The most frequent reason.
        reason, sites = group_by_reason(rejected)[0]
        suffix = "" if len(sites) == len(rejected) else ", and others"
        # Of SUMMARY: DETAIL, or FILE:LINE: SUMMARY: DETAIL.
        parts = reason.split(": ", 2)
        summary = parts[1] if len(parts) > 1 and re.search(r":\d+$", parts[0]) else parts[0]
        clauses.append(f"{len(rejected):,} rejected: {summary.rstrip('.')}{suffix}")
    counts = (
        (len(plan.select_by_status(SiteStatus.SKIPPED, SiteStatus.FAILED)), "not planned"),
        (
            len(plan.undeclared),
            f"{select_word_form(len(plan.undeclared), 'is', 'are')} no longer declared",
        ),
        (len(plan.select_by_status(SiteStatus.UNCHANGED)), "unchanged"),
    )
    clauses += [f"{count:,} {text}" for count, text in counts if count]
    verdict = f"{'; '.join(clauses)}."
    return f"Blocked: {verdict}" if plan.is_blocked else verdict


def _build_blocked_section(plan: FleetPlan) -> Iterable[Section]:
    """Build the section about the first wave unable to start.

    It also has the waves applied before it by `sites apply`.
    """
    blocked = plan.find_blocked_wave()
    if blocked is None:
        return
    count = plan.count_rejected(blocked.name)
    verb = select_word_form(count, "is", "are")
    title = (
        f'The wave "{blocked.name}" cannot start: {format_count(count, "site")} {verb} rejected, '
        f"max_failures is {blocked.max_failures}"
    )
    position = plan.waves.index(blocked)
    earlier = [wave.name for wave in plan.waves[:position] if plan.has_pending_sites(wave.name)]
    later = [wave.name for wave in plan.waves[position + 1 :] if plan.has_pending_sites(wave.name)]
    lines = [
        f"Before it, `sites apply` would apply: {format_list(earlier)}."
        if earlier
        else "No site would be applied."
    ]
    if later:
        lines.append(f"Later waves would not start: {format_list(later)}.")
    yield Section(title, tuple(lines), is_finding=True)


def build_reason_sections(title: str, sites: Sequence[PlannedSite], max_rows: int) -> list[Section]:
    """Build the section of sites without success, a line for each of at most `max_rows` reasons.

    Return [] without sites.
    """
    if not sites:
        return []
    lines = [f"{format_names(names)}: {reason}" for reason, names in group_by_reason(sites)]
    return [
        Section(title, limit_lines(lines, max_rows, "more reason", _COMPLETE_TEXT), is_finding=True)
    ]


def _build_group_sections(
    groups: Sequence[SitesWithEqualChanges], max_rows: int
) -> Iterable[Section]:
    """Build a section with the rows of the largest group, and one with the differences.

    These are the differences of the other groups from it.
    """
    if not groups:
        return
    first, *other_groups = groups
    rows = map(_highlight_symbol, first.rows)
    yield Section(first.title, (*rows, f"Sites: {format_names(first.sites)}."))
    if not other_groups:
        return
    lines = []
    for group in other_groups:
        additional = [row for row in group.rows if row not in first.rows]
        missing_count = len([row for row in first.rows if row not in group.rows])
        parts = [format_first_items(additional, _MAX_ROWS, "; ")]
        # Not just other rows in their place.
        if missing_count > len(additional):
            parts.append(f"{missing_count} {select_word_form(missing_count, 'row', 'rows')} fewer")
        lines.append(f"{format_names(group.sites)}: {join_texts(parts, '; ')}")
    count = sum(len(group.sites) for group in other_groups)
    title = (
        f"{format_count(count, 'site')} with changes of {select_word_form(count, 'its', 'their')} "
        "own"
    )
    yield Section(title, limit_lines(lines, max_rows, "more such row", _COMPLETE_TEXT))


def _highlight_symbol(row: str) -> Text:
    """Return a row with its symbol as code: in Markdown, a minus or plus would be a list."""
    symbol, _, rest = row.partition(" ")
    return (StyledText(symbol, Style.CODE), f" {rest}") if symbol in _SYMBOLS else row


def build_fleet_markdown(plan: FleetPlan) -> str:
    """Build the summary as Markdown with as many rows as fit into a comment.

    Cut it off if even one row does not.
    """
    for max_rows in (500, 200, 80, 30, 12, 4, 1):
        text = render_report_markdown(build_fleet_summary(plan, max_rows))
        if len(text.encode()) <= MAX_BYTES:
            return text
    return text.encode()[:MAX_BYTES].decode(errors="ignore")


def build_waiting_sections(plan: FleetPlan) -> Iterator[Section]:
    """Build a section for each wave with dependencies between its sites.

    It shows them as a tree.
    """
    for wave in plan.waves:
        sites = plan.select_wave(wave.name)
        names = {site.name for site in sites}
        dependencies = {site.name: frozenset(site.dependencies) & names for site in sites}
        waiting = sum(map(bool, dependencies.values()))
        if waiting:
            title = (
                f'Order in the wave "{wave.name}": {waiting:,} of {len(sites):,} sites wait for '
                "others"
            )
            yield Section(title, commands=tuple(_render_site_tree(sites, dependencies)))


def _render_site_tree(
    sites: Sequence[PlannedSite], dependencies: dict[str, frozenset[str]]
) -> list[str]:
    """Draw the sites below their dependencies.

    Sites with equal dependencies and dependents share a node.

    If lon1 and lon2 read the state of hub, and ldn reads theirs, the lines are:
        ╙── hub
            └─╼ lon1, lon2
                └─╼ ldn
    """
    # Few plans have dependencies between sites.
    import networkx as nx

    dependents: dict[str, set[str]] = {}
    for name, dependency_names in dependencies.items():
        for dependency in dependency_names:
            dependents.setdefault(dependency, set()).add(name)
    # By dependencies, dependents.
    groups: dict[tuple[frozenset[str], frozenset[str]], list[str]] = {}
    for site in sites:
        neighbours = dependencies[site.name], frozenset(dependents.get(site.name, ()))
        # Sites without any are not drawn.
        if any(neighbours):
            groups.setdefault(neighbours, []).append(site.name)
    labels = {name: format_names(names) for names in groups.values() for name in names}
    graph: Any = nx.DiGraph()
    for (dependency_names, _), names in groups.items():
        # Of all sites in the group.
        label = labels[names[0]]
        graph.add_node(label)
        graph.add_edges_from((labels[dependency], label) for dependency in sorted(dependency_names))
    ordered: Any = nx.DiGraph()
    ordered.add_nodes_from(graph)
    # Without edges implied by others.
    ordered.add_edges_from(sorted(nx.transitive_reduction(graph).edges))
    return list(nx.generate_network_text(ordered))
