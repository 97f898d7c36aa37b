"""The parts of the page that need no script: overview, diagnostics, tables, fleet, separation rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final
from urllib.parse import quote

from nexusform.diagnostics import Diagnostic
from nexusform.placement_kinds.kinds import titled
from nexusform.plans.plan import CheckResult, PlacementTable, Plan, PoolUpgrade, SeparationVerdict, Upgrade
from nexusform.rendering.notation.markup import Markup, Part, breakable, element, joined
from nexusform.rendering.report import wording
from nexusform.rendering.report.difference_tree import Difference
from nexusform.rendering.report.entries import Finding, few_of_each
from nexusform.rendering.report.folding import MOST_ROWS, instances_text, names_text
from nexusform.rendering.report.object_rows import ObjectFold
from nexusform.rendering.report.overview import (
    Overview,
    ResourceCount,
    TriggerCount,
    finding_counts,
    violation_text,
)
from nexusform.rendering.report.placement_rows import table_row
from nexusform.rendering.report.report import Report, Stanza
from nexusform.rendering.report.rollout_rows import HEADS
from nexusform.rendering.report.room_table import RoomRow
from nexusform.rendering.report.site_rows import SiteRow, changed_rows, other_sites, site_rows
from nexusform.rendering.report.upgrade_words import upgrade_heading, upgrade_text
from nexusform.rendering.text.diagnostic_text import snippet_of
from nexusform.rendering.text.stanza_text import output_lines, own_lines, stanza_text
from nexusform.source import SourceFile
from nexusform.weights import Level, Stake
from nexusform.words import counted

TABLE_HEADS: Final = (
    "Cluster",
    "Pool",
    "SKU",
    "Total count",
    "Expected racks",
    "Actual racks",
    "Expected VMs per rack",
    "Actual VMs per rack",
)


def section(identifier: str, title: str, *parts: Part, **attributes: Any) -> Markup:
    """A titled part of the page."""
    head = element("h2", title, id=f"{identifier}-title")
    return element(
        "section", head, *parts, id=identifier, aria_labelledby=f"{identifier}-title", **attributes
    )


_TALL: Final = 20  # rows
_NAMELESS: Final = element("span", "note", class_="unseen")
_SHORT: Final = 40  # letters of all heads that a phone has room for
_NARROW: Final = 5  # columns that a phone has room for, where two at most are words


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[Part]],
    figures: int = 0,
    *,
    firm: bool = False,
) -> Markup:
    """A table under its caption; the last `figures` columns are numbers. A `firm` one keeps every cell on one
    line.
    """
    columns = frozenset(range(len(heads) - figures, len(heads)))
    head = element("caption", caption, class_="quiet")
    lines = [table_row_of(heads, cells, columns) for cells in rows]
    return framed_table(caption, heads, lines, columns, head, firm=firm)


def framed_table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Markup],
    figures: AbstractSet[int],
    caption: Part = None,
    *,
    firm: bool = False,
) -> Markup:
    """A table in a box that scrolls where it must. On a phone, one with more columns than that has room for
    shows every row as a few lines. One of many rows is no taller than a screen.
    """
    is_wide = len(heads) > _NARROW or len(heads) - len(figures) > 2 or len("  ".join(heads)) > _SHORT
    kinds = {
        "scroll": True,
        "firm": firm,
        "stack": is_wide,
        "grid": len(figures) > _NARROW,
        "tall": len(rows) > _TALL,
    }
    tops = [
        element("th", head or _NAMELESS, scope="col", class_=_kind(column, figures))
        for column, head in enumerate(heads)
    ]
    inner = element("table", caption, element("thead", element("tr", tops)), element("tbody", rows))
    return element(
        "div",
        inner,
        class_=" ".join(kind for kind, holds in kinds.items() if holds),
        tabindex="0",
        role="region",
        aria_label=title,
    )


def table_row_of(
    heads: Sequence[str], cells: Sequence[Part], figures: AbstractSet[int], kind: str | None = None
) -> Markup:
    """A row, headed by its first cell. `data-head` is what a cell is called where cells stand in lines."""
    row_head, *other_cells = cells
    data_cells = [
        element("td", cell, class_=_kind(column, figures), data_head=heads[column] or None)
        for column, cell in enumerate(other_cells, start=1)
    ]
    return element("tr", element("th", row_head, scope="row"), data_cells, class_=kind)


def _kind(column: int, figures: AbstractSet[int]) -> str | None:
    """The class of a cell: one for figures."""
    return "n" if column in figures else None


# --- what changes ---------------------------------------------------------------------------------


def changes_part(folds: Sequence[ObjectFold], tree: Part) -> Part:
    """What becomes of objects, those that are alike in one line; `tree` has each with its difference."""
    lines = [_object_line(fold) for fold in folds[:_MOST_OBJECTS]]
    left_out = sum(len(fold.rows) for fold in folds[_MOST_OBJECTS:])
    if left_out:
        lines.append(element("li", f"and {counted(left_out, 'more object')}, listed below", class_="quiet"))
    summary = element("summary", "Each object, with its difference")
    every = element("details", summary, tree, class_="every")
    short = element("ul", lines, class_="objects") if lines else element("p", "No object changes.")
    return section("changes", "Changes", short, every)


_MOST_OBJECTS: Final = 60


def _object_line(fold: ObjectFold) -> Markup:
    """`+ nexus_rack.rack["1".."8"]  rack1..8: 16 machines each`."""
    words = ", ".join(word for word in fold.words if word)
    description = ": ".join(text for text in (fold.name, words) if text)
    sign = element("span", fold.symbol, class_=f"sign {_SIGN_KINDS.get(fold.symbol, '')}".rstrip())
    label = element("code", breakable(fold.label))
    return element("li", sign, element("div", label, f" {description}" if description else None))


_SIGN_KINDS: Final = {"+": "added", "-": "removed", "~": "changed", "-/+": "removed", "+/-": "removed"}


# --- overview ----------------------------------------------------------------------------------


def verdict_part(
    report: Report, overview: Overview, sentences: Sequence[tuple[str, str]], tiles: Part = None
) -> Markup:
    """What a reviewer reads first: the verdict, the figures behind it, sentences with their headings. `tiles`
    say what moves, what is at risk, and the room of one site.
    """
    lines: list[Part] = []
    beside = [_verdict(overview, told=bool(tiles))]
    if not report.errored:
        beside.append(element("p", wording.for_people(report.verdict), class_="plan-line"))
        if overview.placements and not tiles:
            lines.append(element("li", overview.placements))
        in_tiles = ("At stake", "Denied") if tiles else ()
        lines += [
            element("li", element("b", f"{heading}: "), sentence)
            for heading, sentence in sentences
            if heading not in in_tiles
        ]
    if overview.inventory:
        kind = "old" if overview.inventory_is_old else None
        lines.append(element("li", f"Inventory: {overview.inventory}", class_=kind))
    if overview.findings and not tiles:
        risks = f": {'; '.join(overview.risks)}" if overview.risks else ""
        words = f"{', '.join(overview.findings)}{risks}"
        lines.append(element("li", element("a", words, href="#diagnostics")))
    return element("div", beside, tiles, element("ul", lines, class_="figures"), id="verdict")


def sites_part(rows: Sequence[SiteRow]) -> Part:
    """A row per site that changes, the others in a line; nothing of a single site."""
    changed = changed_rows(rows)
    if not changed:
        return None
    heads = ("site", "what happens", "VMs")
    cells = [_site_cells(row) for row in changed]
    others = "; ".join(other_sites(rows))
    rest = element("p", f"{others}.") if others else None
    return section("sites", "Sites", table("Sites that change", heads, cells, figures=1), rest)


def _site_cells(row: SiteRow) -> tuple[Part, ...]:
    return element("a", row.name, href=f"#site={quote(row.name)}"), row.words, row.delta


def overview_part(overview: Overview) -> Part:
    """The room that is left, and what changes, in tables."""
    tables = [*_room(overview), *_counts(overview)]
    drawn = element("div", tables, class_="columns")
    return section("overview", "Room and counts", drawn, data_short="Room") if tables else None


_STAKES: Final = {Stake.NOTHING: "allowed", Stake.MOVES: "look", Stake.LOSES: "caution"}


def _verdict(overview: Overview, *, told: bool) -> Markup:
    """Whether it may be applied; a plan that is refused says where that is explained. What is at risk stands
    elsewhere where it is `told`.
    """
    if overview.denied:
        return element("p", element("strong", "Denied"), f" by {overview.denied}", class_="verdict denied")
    reasons = [] if told else [*overview.ending_rules, *overview.endangered]
    reasons += [*overview.reasons, *([overview.warned] if overview.warned and not told else [])]
    because = f" ({'; '.join(reasons)})" if reasons else ""
    kind = _STAKES[overview.stake]
    return element("p", element("strong", "Allowed"), because, class_=f"verdict {kind}")


def _room(overview: Overview) -> list[Markup]:
    """The room table with the sites whose room changes, or all where none does."""
    if not overview.room:
        return []
    positions = range(len(overview.sites))
    changing = [
        at for at in positions if any(row.values[at][0] != row.values[at][1] for row in overview.room)
    ]
    shown = changing or list(positions)
    heads = [""]
    for position in shown:
        prefix = f"{overview.sites[position]} " if len(overview.sites) > 1 else ""
        heads += [f"{prefix}before", f"{prefix}after"]
    rows = [_room_cells(row, shown) for row in overview.room]
    return [table("Room before and after", heads, rows, figures=len(heads) - 1)]


def _room_cells(row: RoomRow, shown: Sequence[int]) -> list[Part]:
    cells: list[Part] = [row.label]
    for position in shown:
        before, after = row.values[position]
        cells += [before, element("strong", after) if row.worse[position] else after]
    return cells


def _counts(overview: Overview) -> list[Markup]:
    """Tables of resources by type and of placements by trigger."""
    tables: list[Markup] = []
    if overview.resources:
        rows = [_resource_row(resource) for resource in overview.resources]
        tables.append(table("Resources", ("Type", "Add", "Change", "Destroy"), rows, figures=3))
    if overview.triggers:
        heads = ("Kind", "Action", "Trigger", "Count")
        rows = [_trigger_row(trigger) for trigger in overview.triggers]
        tables.append(table("Placements by trigger", heads, rows, figures=1))
    return tables


def _resource_row(resource: ResourceCount) -> tuple[Part, ...]:
    return breakable(resource.type), f"{resource.add:,}", f"{resource.change:,}", f"{resource.destroy:,}"


def _trigger_row(trigger: TriggerCount) -> tuple[str, str, str, str]:
    kind = titled(trigger.kind)
    return kind, trigger.action.value, trigger.trigger, f"{trigger.count:,}"


# --- diagnostics -------------------------------------------------------------------------------


def diagnostics_part(findings: Sequence[Finding], sources: Mapping[str, SourceFile]) -> Part:
    """Every finding with the source lines it speaks of."""
    if not findings:
        return None
    title = ", ".join(finding_counts(findings))
    errors = [finding for finding in findings if finding.level is Level.ERROR]
    told, others = few_of_each(finding for finding in findings if finding.level is not Level.ERROR)
    articles = [_diagnostic(finding, sources) for finding in (*errors, *told)]
    rest = [_others(alike) for alike in others.values()]
    return section("diagnostics", f"Findings: {title}", articles, rest, data_short="Findings")


def _others(alike: Sequence[Finding]) -> Markup:
    """More findings of a kind of which some were told: of whom they are, folded."""
    first = alike[0].diagnostic
    summary = f"{_TAGS[alike[0].level]} {first.summary}: {len(alike):,} more"
    names = instances_text((finding.diagnostic.address for finding in alike), len(alike))
    more = ["What each says: ", element("code", "nexusform plan -details"), "."]
    listed = element("p", element("code", breakable(names))) if names else None
    return element("details", element("summary", summary), listed, element("p", more), class_="reasons")


_TAGS: Final = {Level.ERROR: "Error", Level.WARNING: "Warning", Level.ADVICE: "Advice", Level.NOTE: "Note"}


def _diagnostic(finding: Finding, sources: Mapping[str, SourceFile]) -> Markup:
    """One finding: title, place, source lines, detail."""
    diagnostic = finding.diagnostic
    subject = diagnostic.subject
    line = f"{subject.filename}:{subject.start.line}" if subject else ""
    place = " \N{MIDDLE DOT} ".join(text for text in (diagnostic.address, line) if text)
    standing = ", not caused by this plan" if finding.held_before else ""
    tag = element("span", f"{_TAGS[finding.level]}{standing}", class_="tag")
    return element(
        "article",
        element("h3", tag, " ", diagnostic.summary),
        element("p", element("code", breakable(place)), class_="quiet") if place else None,
        _source_lines(diagnostic, sources),
        [element("p", _with_code(text)) for text in diagnostic.detail.split("\n") if text.strip()],
        class_=f"finding {finding.level.value}",
    )


_CODE: Final = re.compile(r"`([^`]+)`")


def _with_code(text: str) -> list[Part]:
    """A sentence; what it has between backticks is code."""
    # Splitting by a group puts what it matched at the odd places.
    parts = _CODE.split(text)
    return [element("code", part) if number % 2 else part for number, part in enumerate(parts)]


def _source_lines(diagnostic: Diagnostic, sources: Mapping[str, SourceFile]) -> Part:
    """Numbered lines of source with the subject marked."""
    snippet = snippet_of(diagnostic, sources)
    if snippet is None:
        return None
    lines: list[Markup] = []
    for number, (before, marked, after) in enumerate(snippet.highlighted(), start=snippet.start_line):
        margin = element("span", f"{number:>4} ", class_="line-number")
        mark = element("mark", marked) if marked else None
        lines.append(joined(margin, before, mark, after, "\n"))
    return element("pre", lines, class_="source", tabindex="0", role="group", aria_label="Source lines")


# --- tables ------------------------------------------------------------------------------------


def tables_part(plan: Plan) -> Part:
    """The document's table, one row per pool; with certainty where it was computed for any. Of very many
    pools those that are spread alike are one row, and all are listed in a part that is folded.
    """
    tables = plan.placement_tables
    if not tables:
        return None
    sure = bool(plan.tie_breaks) and any(pool.placed for pool in tables)
    heads = (*TABLE_HEADS, *_SURE) if sure else TABLE_HEADS
    every = _pool_rows(plan, sure=sure)
    caption = "How each pool is spread over the racks"
    if len(every) <= MOST_ROWS:
        return section("pools", "Pools", table(caption, heads, every, firm=True))
    rows = _alike(every)
    summary = element("summary", f"Each of {len(every):,} pools{_first(len(every))}")
    return section(
        "pools",
        "Pools",
        table(caption, heads, rows[:_MOST_LINES], firm=True),
        _left_out(len(rows) - _MOST_LINES),
        element("details", summary, table(caption, heads, every[:_MOST_LISTED], firm=True), class_="screen"),
    )


def _pool_rows(plan: Plan, *, sure: bool) -> list[tuple[str, ...]]:
    """A row per pool; beside other sites each cluster with its own, those of sites that change first."""
    sites = site_rows(plan)
    names = {site.id: site.name for site in plan.sites} if sites else {}
    changing = {row.name for row in sites if row.changes}
    tables = sorted(plan.placement_tables, key=lambda pool: names.get(pool.site_id) not in changing)
    rows: list[tuple[str, ...]] = []
    for pool in tables:
        cluster, *other_cells = table_row(pool)
        whose = f"{names[pool.site_id]}/" if pool.site_id in names else ""
        rows.append((f"{whose}{cluster}", *other_cells, *(_certainty(pool) if sure else ())))
    return rows


_SURE: Final = ("VMs per rack certain", "Machines certain")
_MOST_LINES: Final = 80  # of pools that are not alike: two sheets
_MOST_LISTED: Final = 2000


def _alike(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Rows that differ in their cluster alone as one, in the order of the first of each."""
    clusters: dict[tuple[str, ...], list[str]] = {}
    for cluster, *other_cells in rows:
        clusters.setdefault(tuple(other_cells), []).append(cluster)
    return [(_clusters(names), *other_cells) for other_cells, names in clusters.items()]


def _clusters(names: Sequence[str]) -> str:
    """The clusters of which a row speaks."""
    return names_text(names) if len(names) == 1 else f"{names_text(names)} (each of {len(names):,})"


def _first(count: int) -> str:
    """How many of the pools are listed, where that is not all."""
    return f" (the first {_MOST_LISTED:,})" if count > _MOST_LISTED else ""


def _left_out(count: int) -> Part:
    """How many rows are not shown; nothing where all are."""
    if count <= 0:
        return None
    return element("p", f"{counted(count, 'more row')}; the list of all pools has them.", class_="quiet")


def _certainty(pool: PlacementTable) -> tuple[str, str]:
    """How many VMs of a pool have a certain rack, and a certain machine."""
    if not pool.placed:
        return "", ""
    return f"{pool.racks_certain:,} of {pool.placed:,}", f"{pool.machines_certain:,} of {pool.placed:,}"


def upgrades_part(upgrades: Sequence[Upgrade]) -> Part:
    """The clusters that are upgraded, or of which whole pools are made anew, with what that takes."""
    if not upgrades:
        return None
    heads = ("Pool", "SKU", "Nodes", "Batches", "Away at once", "Fewest up")
    parts: list[Part] = []
    for upgrade in upgrades:
        caption = f"{upgrade_heading(upgrade)}: {upgrade_text(upgrade)}"
        parts.append(table(caption, heads, [_pool_upgrade_row(pool) for pool in upgrade.pools], figures=4))
    return section("upgrades", "Upgrades" if all(each.rolls for each in upgrades) else "Made anew", parts)


def _pool_upgrade_row(pool: PoolUpgrade) -> tuple[str, ...]:
    """With surge no node is away: new ones come before old ones leave."""
    batches = f"{pool.batches:,}" + (f", stops at {pool.stops_at:,}" if pool.stops_at else "")
    away = "none" if pool.surges else f"{pool.at_once:,}"
    return pool.pool, pool.sku, f"{pool.vms:,}", batches, away, f"{pool.fewest_up:,}"


def rules_part(verdicts: Sequence[SeparationVerdict]) -> Part:
    """The separation rules and whether they hold."""
    if not verdicts:
        return None
    heads = ("Rule", "Enforcement", "Holds", "Violations")
    rows = [_rule_row(verdict) for verdict in verdicts]
    lists = [_violations(verdict) for verdict in verdicts if verdict.violations]
    return section("separation", "Separation rules", table("Who must not share hardware", heads, rows), lists)


def _rule_row(verdict: SeparationVerdict) -> tuple[str, str, str, str]:
    count = str(len(verdict.violations) or "none")
    return str(verdict.address), verdict.enforcement, verdict.holds, count


def _violations(verdict: SeparationVerdict) -> Markup:
    """What is shared against a rule, as wide as the page is: in a column it would be a thread of text."""
    lines = [element("li", violation_text(violation)) for violation in verdict.violations]
    title = f"{verdict.address}: {counted(len(lines), 'violation')}"
    return element(
        "details", element("summary", title), element("ul", lines, class_="violations"), class_="reasons"
    )


def checks_part(checks: Sequence[CheckResult]) -> Part:
    """Conditions and their verdicts."""
    if not checks:
        return None
    heads = ("Address", "Kind", "Verdict", "Problems")
    return section("checks", "Checks", table("Conditions", heads, [_check_row(check) for check in checks]))


def _check_row(check: CheckResult) -> tuple[str, str, str, str]:
    return check.address, check.kind.replace("_", " "), check.status, "; ".join(check.problems)


def outputs_part(outputs: Sequence[Difference]) -> Part:
    """Outputs that change, folded where they are long."""
    if not outputs:
        return None
    title, text = "Outputs that change", "\n".join(output_lines(outputs))
    lines = text.count("\n") + 1
    drawn = diff_lines(text, "Outputs")
    if lines <= _TALL:
        return section("outputs", title, drawn, data_short="Outputs")
    summary = element("summary", f"{counted(len(outputs), 'output')}, {lines:,} lines")
    return section("outputs", title, element("details", summary, drawn, class_="long"), data_short="Outputs")


def drift_part(stanzas: Sequence[Stanza]) -> Part:
    """What changed outside nexusform."""
    if not stanzas:
        return None
    title = "Changed outside of nexusform"
    text = "\n\n".join(stanza_text(stanza) for stanza in stanzas)
    return section("drift", title, diff_lines(text, title))


def diff_lines(text: str, label: str) -> Markup:
    """Lines coloured by the sign they start with."""
    shown = []
    for line, is_own in own_lines(text):
        sign = "" if is_own else line.lstrip()[:1]
        kind = {"+": "added", "-": "removed", "~": "changed"}.get(sign)
        shown.append(element("span", f"{line}\n", class_=kind) if kind else joined(f"{line}\n"))
    return element("pre", shown, class_="diff", tabindex="0", role="group", aria_label=label)


def rollouts_part(report: Report) -> Part:
    """How placements get their resources, step by step; nothing where that is one step."""
    tables = [table(rollout.title, HEADS, rollout.rows) for rollout in report.rollouts]
    note = "Times are the earliest: what waits tell, without the time that updates take."
    return (
        section("rollouts", "How it rolls out", element("p", note), tables, data_short="Rollouts")
        if tables
        else None
    )
