"""Page sections without scripts: overview, diagnostics, tables, fleet and separation rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final
from urllib.parse import quote

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.levels import Impact, Level
from nexusform.diagnostics.phrases import format_count
from nexusform.diagnostics.source import SourceFile
from nexusform.placement_kinds.kinds import get_title
from nexusform.plans.cluster_upgrades import PoolUpgrade, Upgrade
from nexusform.plans.plan import CheckResult, PlacementTable, Plan, SeparationVerdict
from nexusform.rendering.notation.markup import Markup, Part, build_breakable_name, build_element, join_parts
from nexusform.rendering.report import wording
from nexusform.rendering.report.capacity_table import CapacityRow
from nexusform.rendering.report.decision_lines import DecisionLine, build_decision_lines
from nexusform.rendering.report.difference_tree import Difference
from nexusform.rendering.report.entries import Finding, limit_per_id
from nexusform.rendering.report.folding import MAX_ROWS, format_instances, format_names
from nexusform.rendering.report.object_rows import ObjectFold
from nexusform.rendering.report.overview import Overview, ResourceCount, TriggerCount, count_findings, format_violation
from nexusform.rendering.report.placement_rows import build_count_clauses, build_table_row
from nexusform.rendering.report.plan_report import Report, Stanza
from nexusform.rendering.report.rollout_rows import HEADERS
from nexusform.rendering.report.short_report import INVENTORY, build_notes
from nexusform.rendering.report.site_rows import SiteRow, build_site_rows, describe_other_sites, select_changed_rows
from nexusform.rendering.report.upgrade_sentences import describe_upgrade_course, format_upgrade_heading
from nexusform.rendering.text.diagnostic_text import extract_snippet
from nexusform.rendering.text.stanza_text import mark_text_lines, render_outputs, render_stanza

TABLE_HEADERS: Final = (
    "Cluster",
    "Pool",
    "SKU",
    "Total count",
    "Expected racks",
    "Actual racks",
    "Expected VMs per rack",
    "Actual VMs per rack",
)


def build_section(identifier: str, title: str, *parts: Part, **attributes: Any) -> Markup:
    """Build a titled section."""
    heading = build_element("h2", title, id=f"{identifier}-title")
    return build_element("section", heading, *parts, id=identifier, aria_labelledby=f"{identifier}-title", **attributes)


_MAX_ROWS: Final = 20  # rows
_HIDDEN_HEADER: Final = build_element("span", "note", class_="unseen")
_MAX_HEADER_LENGTH: Final = 40  # letters of all headers that fit on a phone
_MAX_COLUMNS: Final = 5  # columns that fit on a phone, at most two of them with text


def build_table(
    caption: str, headers: Sequence[str], rows: Iterable[Sequence[Part]], figures: int = 0, *, is_firm: bool = False
) -> Markup:
    """Build a table with a caption; the last `figures` columns are numbers. With `is_firm` every cell stays
    on one line.
    """
    columns = frozenset(range(len(headers) - figures, len(headers)))
    head = build_element("caption", caption, class_="quiet")
    lines = [build_row(headers, cells, columns) for cells in rows]
    return build_framed_table(caption, headers, lines, columns, head, is_firm=is_firm)


def build_framed_table(
    title: str,
    headers: Sequence[str],
    rows: Sequence[Markup],
    figures: AbstractSet[int],
    caption: Part = None,
    *,
    is_firm: bool = False,
) -> Markup:
    """Build a table in a scrollable box. On a phone each row of a wide table becomes a few lines. A table of
    many rows is at most one screen high.
    """
    is_wide = (
        len(headers) > _MAX_COLUMNS or len(headers) - len(figures) > 2 or len("  ".join(headers)) > _MAX_HEADER_LENGTH
    )
    kinds = {
        "scroll": True,
        "firm": is_firm,
        "stack": is_wide,
        "grid": len(figures) > _MAX_COLUMNS,
        "tall": len(rows) > _MAX_ROWS,
    }
    header_cells = [
        build_element("th", head or _HIDDEN_HEADER, scope="col", class_=_get_cell_class(column, figures))
        for column, head in enumerate(headers)
    ]
    table_element = build_element(
        "table", caption, build_element("thead", build_element("tr", header_cells)), build_element("tbody", rows)
    )
    return build_element(
        "div",
        table_element,
        class_=" ".join(kind for kind, is_active in kinds.items() if is_active),
        tabindex="0",
        role="region",
        aria_label=title,
    )


def build_row(
    headers: Sequence[str], cells: Sequence[Part], figures: AbstractSet[int], kind: str | None = None
) -> Markup:
    """Build a row with its first cell as header. `data-head` is the column name for cells shown as lines."""
    row_head, *other_cells = cells
    data_cells = [
        build_element("td", cell, class_=_get_cell_class(column, figures), data_head=headers[column] or None)
        for column, cell in enumerate(other_cells, start=1)
    ]
    return build_element("tr", build_element("th", row_head, scope="row"), data_cells, class_=kind)


def _get_cell_class(column: int, figures: AbstractSet[int]) -> str | None:
    """Return the class of a cell: "n" for figures."""
    return "n" if column in figures else None


# --- what changes ---------------------------------------------------------------------------------


def build_changes_section(folds: Sequence[ObjectFold], tree: Part) -> Part:
    """Build the list of changed objects, one line per fold; `tree` has each object with its difference."""
    lines = [_build_object_item(fold) for fold in folds[:_MAX_OBJECTS]]
    hidden_count = sum(len(fold.rows) for fold in folds[_MAX_OBJECTS:])
    if hidden_count:
        lines.append(
            build_element("li", f"and {format_count(hidden_count, 'more object')}, listed below", class_="quiet")
        )
    summary = build_element("summary", "Each object, with its difference")
    details = build_element("details", summary, tree, class_="every")
    summary_list = build_element("ul", lines, class_="objects") if lines else build_element("p", "No object changes.")
    return build_section("changes", "Changes", summary_list, details)


_MAX_OBJECTS: Final = 60


def _build_object_item(fold: ObjectFold) -> Markup:
    """Build an item such as `+ nexus_rack.rack["1".."8"]  rack1..8: 16 machines each`."""
    clauses = ", ".join(clause for clause in fold.clauses if clause)
    description = ": ".join(text for text in (fold.name, clauses) if text)
    sign = build_element("span", fold.symbol, class_=f"sign {_SIGN_CLASSES.get(fold.symbol, '')}".rstrip())
    label = build_element("code", build_breakable_name(fold.label))
    return build_element("li", sign, build_element("div", label, f" {description}" if description else None))


_SIGN_CLASSES: Final = {"+": "added", "-": "removed", "~": "changed", "-/+": "removed", "+/-": "removed"}


# --- overview ----------------------------------------------------------------------------------


def build_verdict(plan: Plan, report: Report, overview: Overview) -> Markup:
    """Build the decision block with placements and changes, and the notes."""
    lines = [*build_decision_lines(plan), *_build_count_lines(report)]
    block = [
        (build_element("dt", line.label), [build_element("dd", build_breakable_name(text)) for text in line.texts])
        for line in lines
    ]
    kind = "denied" if overview.rejection else _IMPACT_CLASSES[overview.impact]
    notes = [] if report.is_errored else build_notes(plan)
    items = [
        build_element(
            "li",
            build_element("b", f"{heading}: "),
            sentence,
            class_="old" if heading == INVENTORY and overview.has_stale_inventory else None,
        )
        for heading, sentence in notes
    ]
    if overview.finding_counts:
        items.append(build_element("li", build_element("a", ", ".join(overview.finding_counts), href="#diagnostics")))
    return build_element(
        "div",
        build_element("dl", block, class_=f"decision {kind}"),
        build_element("ul", items, class_="figures") if items else None,
        id="verdict",
    )


def _build_count_lines(report: Report) -> list[DecisionLine]:
    """Return the lines of placements by kind, and of changed objects."""
    if report.is_errored:
        return []
    summaries = report.summaries if report.summaries[0].has_objects else ()
    texts = [
        f"{f'{get_title(summary.kind)}: ' if summary.kind else ''}{', '.join(build_count_clauses(summary))}"
        for summary in summaries
    ]
    placements = [DecisionLine("Placements", tuple(texts))] if texts else []
    return [*placements, DecisionLine("Plan", (wording.format_thousands(report.verdict).removeprefix("Plan: "),))]


def build_sites_section(rows: Sequence[SiteRow]) -> Part:
    """Build a row per changed site and a line for the others; None for a single site."""
    rows_with_changes = select_changed_rows(rows)
    if not rows_with_changes:
        return None
    headers = ("site", "changes", "VMs")
    cells = [(_link_site(row), row.summary, row.delta) for row in rows_with_changes]
    other_text = "; ".join(describe_other_sites(rows))
    other_paragraph = build_element("p", f"{other_text}.") if other_text else None
    return build_section("sites", "Sites", build_table("Sites that change", headers, cells, figures=1), other_paragraph)


def _link_site(row: SiteRow) -> Part:
    return build_element("a", row.name, href=f"#site={quote(row.name)}") if row.sites == 1 else row.name


def build_overview_section(overview: Overview) -> Part:
    """Build tables of spare capacity and of changes."""
    tables = [*_build_capacity_tables(overview), *_build_count_tables(overview)]
    content = build_element("div", tables, class_="columns")
    return build_section("overview", "Capacity and counts", content, data_short="Capacity") if tables else None


_IMPACT_CLASSES: Final = {Impact.NONE: "safe", Impact.MOVES: "look", Impact.LOSES: "caution"}


def _build_capacity_tables(overview: Overview) -> list[Markup]:
    """Build the capacity table of the changed sites, or of all sites without changes."""
    if not overview.capacity:
        return []
    positions = range(len(overview.sites))
    changed_positions = [
        index for index in positions if any(row.values[index][0] != row.values[index][1] for row in overview.capacity)
    ]
    visible_positions = changed_positions or list(positions)
    headers = [""]
    for position in visible_positions:
        prefix = f"{overview.sites[position]} " if len(overview.sites) > 1 else ""
        headers += [f"{prefix}before", f"{prefix}after"]
    rows = [_build_capacity_cells(row, visible_positions) for row in overview.capacity]
    # Equal sites share a column.
    sites_note = f" on {overview.sites[0]}" if overview.sites[0].endswith("(each)") and len(overview.sites) == 1 else ""
    return [build_table(f"Capacity before and after{sites_note}", headers, rows, figures=len(headers) - 1)]


def _build_capacity_cells(row: CapacityRow, positions: Sequence[int]) -> list[Part]:
    cells: list[Part] = [row.label]
    for position in positions:
        before, after = row.values[position]
        cells += [before, build_element("strong", after) if row.worse[position] else after]
    return cells


def _build_count_tables(overview: Overview) -> list[Markup]:
    """Build tables of resources by type and of placements by trigger."""
    tables: list[Markup] = []
    if overview.resources:
        rows = [_build_resource_row(resource) for resource in overview.resources]
        tables.append(build_table("Resources", ("Type", "Add", "Change", "Destroy"), rows, figures=3))
    if overview.triggers:
        headers = ("Kind", "Action", "Trigger", "Count")
        rows = [_build_trigger_row(trigger) for trigger in overview.triggers]
        tables.append(build_table("Placements by trigger", headers, rows, figures=1))
    return tables


def _build_resource_row(resource: ResourceCount) -> tuple[Part, ...]:
    return (build_breakable_name(resource.type), f"{resource.add:,}", f"{resource.change:,}", f"{resource.destroy:,}")


def _build_trigger_row(trigger: TriggerCount) -> tuple[str, str, str, str]:
    kind = get_title(trigger.kind)
    return kind, trigger.action.value, trigger.trigger, f"{trigger.count:,}"


# --- diagnostics -------------------------------------------------------------------------------


def build_findings_section(findings: Sequence[Finding], sources: Mapping[str, SourceFile]) -> Part:
    """Build every finding with its source lines."""
    if not findings:
        return None
    title = ", ".join(count_findings(findings))
    errors = [finding for finding in findings if finding.level is Level.ERROR]
    listed_findings, remaining_findings = limit_per_id(
        finding for finding in findings if finding.level is not Level.ERROR
    )
    articles = [_build_finding(finding, sources) for finding in (*errors, *listed_findings)]
    remaining_parts = [_build_remaining_findings(similar) for similar in remaining_findings.values()]
    return build_section("diagnostics", f"Findings: {title}", articles, remaining_parts, data_short="Findings")


def _build_remaining_findings(findings: Sequence[Finding]) -> Markup:
    """Build a folded list of the subjects of further findings of one kind."""
    diagnostic = findings[0].diagnostic
    summary = f"{_LEVEL_TAGS[findings[0].level]} {diagnostic.summary}: {len(findings):,} more"
    names = format_instances((finding.diagnostic.address for finding in findings), len(findings))
    hint = ["Details: ", build_element("code", "nexusform plan -details"), "."]
    name_list = build_element("p", build_element("code", build_breakable_name(names))) if names else None
    return build_element(
        "details", build_element("summary", summary), name_list, build_element("p", hint), class_="reasons"
    )


_LEVEL_TAGS: Final = {Level.ERROR: "Error", Level.WARNING: "Warning", Level.ADVICE: "Advice", Level.NOTE: "Note"}


def _build_finding(finding: Finding, sources: Mapping[str, SourceFile]) -> Markup:
    """Build one finding: title, location, source lines and detail."""
    diagnostic = finding.diagnostic
    subject = diagnostic.subject
    line = f"{subject.filename}:{subject.start.line}" if subject else ""
    location = " \N{MIDDLE DOT} ".join(text for text in (diagnostic.address, line) if text)
    existing_note = ", not caused by this plan" if finding.is_preexisting else ""
    tag = build_element("span", f"{_LEVEL_TAGS[finding.level]}{existing_note}", class_="tag")
    return build_element(
        "article",
        build_element("h3", tag, " ", diagnostic.summary),
        build_element("p", build_element("code", build_breakable_name(location)), class_="quiet") if location else None,
        _build_source_lines(diagnostic, sources),
        [build_element("p", _split_code(text)) for text in diagnostic.detail.split("\n") if text.strip()],
        class_=f"finding {finding.level.value}",
    )


_CODE: Final = re.compile(r"`([^`]+)`")


def _split_code(text: str) -> list[Part]:
    """Split a sentence and mark text in backticks as code."""
    # Splitting by a group gives the matches at odd positions.
    parts = _CODE.split(text)
    return [build_element("code", part) if number % 2 else part for number, part in enumerate(parts)]


def _build_source_lines(diagnostic: Diagnostic, sources: Mapping[str, SourceFile]) -> Part:
    """Build numbered source lines with the subject highlighted."""
    snippet = extract_snippet(diagnostic, sources)
    if snippet is None:
        return None
    lines: list[Markup] = []
    for number, (before, highlight, after) in enumerate(snippet.split_lines(), start=snippet.start_line):
        margin = build_element("span", f"{number:>4} ", class_="line-number")
        mark = build_element("mark", highlight) if highlight else None
        lines.append(join_parts(margin, before, mark, after, "\n"))
    return build_element("pre", lines, class_="source", tabindex="0", role="group", aria_label="Source lines")


# --- tables ------------------------------------------------------------------------------------


def build_pools_section(plan: Plan) -> Part:
    """Build the Nexus placement table with one row per pool, and certainty if computed. With very many pools,
    equal ones share a row and the full list is folded.
    """
    tables = plan.placement_tables
    if not tables:
        return None
    has_certainty = bool(plan.samples) and any(pool.placed for pool in tables)
    headers = (*TABLE_HEADERS, *_CERTAINTY_HEADERS) if has_certainty else TABLE_HEADERS
    all_rows = _build_pool_rows(plan, has_certainty=has_certainty)
    caption = "How each pool is spread over the racks"
    if len(all_rows) <= MAX_ROWS:
        return build_section("pools", "Pools", build_table(caption, headers, all_rows, is_firm=True))
    rows = _merge_equal_rows(all_rows)
    summary = build_element("summary", f"Each of {len(all_rows):,} pools{_format_limit_note(len(all_rows))}")
    return build_section(
        "pools",
        "Pools",
        build_table(caption, headers, rows[:_MAX_LINES], is_firm=True),
        _build_hidden_note(len(rows) - _MAX_LINES),
        build_element(
            "details", summary, build_table(caption, headers, all_rows[:_MAX_LISTED], is_firm=True), class_="screen"
        ),
    )


def _build_pool_rows(plan: Plan, *, has_certainty: bool) -> list[tuple[str, ...]]:
    """Build a row per pool; with several sites, clusters have a site prefix and changed sites come first."""
    sites = build_site_rows(plan)
    names = {site.id: site.name for site in plan.sites} if sites else {}
    changed_sites = {row.name for row in sites if row.has_changes}
    tables = sorted(plan.placement_tables, key=lambda pool: names.get(pool.site_id) not in changed_sites)
    rows: list[tuple[str, ...]] = []
    for pool in tables:
        cluster, *other_cells = build_table_row(pool)
        site_prefix = f"{names[pool.site_id]}/" if pool.site_id in names else ""
        rows.append((f"{site_prefix}{cluster}", *other_cells, *(_build_certainty_cells(pool) if has_certainty else ())))
    return rows


_CERTAINTY_HEADERS: Final = ("VMs per rack certain", "Machines certain")
_MAX_LINES: Final = 80  # of different pools: two printed pages
_MAX_LISTED: Final = 2000


def _merge_equal_rows(rows: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Merge rows that differ in their cluster only, in the order of the first of each."""
    clusters: dict[tuple[str, ...], list[str]] = {}
    for cluster, *other_cells in rows:
        clusters.setdefault(tuple(other_cells), []).append(cluster)
    return [(_format_clusters(names), *other_cells) for other_cells, names in clusters.items()]


def _format_clusters(names: Sequence[str]) -> str:
    """Format the clusters of a row."""
    return format_names(names) if len(names) == 1 else f"{format_names(names)} (each of {len(names):,})"


def _format_limit_note(count: int) -> str:
    """Return a note if only some of the pools are listed."""
    return f" (the first {_MAX_LISTED:,})" if count > _MAX_LISTED else ""


def _build_hidden_note(count: int) -> Part:
    """Build a note about omitted rows, or None."""
    if count <= 0:
        return None
    return build_element("p", f"{format_count(count, 'more row')}; the list of all pools has them.", class_="quiet")


def _build_certainty_cells(pool: PlacementTable) -> tuple[str, str]:
    """Return the numbers of VMs of a pool with a certain rack and a certain machine."""
    if not pool.placed:
        return "", ""
    return f"{pool.racks_certain:,} of {pool.placed:,}", f"{pool.machines_certain:,} of {pool.placed:,}"


def build_upgrades_section(upgrades: Sequence[Upgrade]) -> Part:
    """Build tables of upgraded clusters and of clusters with re-created pools."""
    if not upgrades:
        return None
    headers = ("Pool", "SKU", "Nodes", "Batches", "Down at a time", "Minimum up")
    parts: list[Part] = []
    for upgrade in upgrades:
        caption = f"{format_upgrade_heading(upgrade)}: {describe_upgrade_course(upgrade)}"
        parts.append(
            build_table(caption, headers, [_build_pool_upgrade_row(pool) for pool in upgrade.pools], figures=4)
        )
    return build_section(
        "upgrades",
        "Upgrades" if all(cluster_upgrade.is_rolling for cluster_upgrade in upgrades) else "Re-created",
        parts,
    )


def _build_pool_upgrade_row(pool: PoolUpgrade) -> tuple[str, ...]:
    """Build the row of a pool; with surge, new nodes start first and none is missing."""
    batches = f"{pool.batches:,}" + (f", stops at {pool.failed_batch:,}" if pool.failed_batch else "")
    unavailable = "none" if pool.surges else f"{pool.concurrent_vms:,}"
    return pool.pool, pool.sku, f"{pool.vms:,}", batches, unavailable, f"{pool.minimum_up:,}"


def build_rules_section(verdicts: Sequence[SeparationVerdict]) -> Part:
    """Build the separation rules and their results."""
    if not verdicts:
        return None
    headers = ("Rule", "Enforcement", "Holds", "Violations")
    rows = [_build_rule_row(verdict) for verdict in verdicts]
    lists = [_build_violations(verdict) for verdict in verdicts if verdict.violations]
    return build_section(
        "separation", "Separation rules", build_table("Tenants that must not share hardware", headers, rows), lists
    )


def _build_rule_row(verdict: SeparationVerdict) -> tuple[str, str, str, str]:
    count = str(len(verdict.violations) or "none")
    return str(verdict.address), verdict.enforcement, verdict.satisfied, count


def _build_violations(verdict: SeparationVerdict) -> Markup:
    """Build the list of violations of a rule at full page width."""
    lines = [build_element("li", format_violation(violation)) for violation in verdict.violations]
    title = f"{verdict.address}: {format_count(len(lines), 'violation')}"
    return build_element(
        "details", build_element("summary", title), build_element("ul", lines, class_="violations"), class_="reasons"
    )


def build_checks_section(checks: Sequence[CheckResult]) -> Part:
    """Build the conditions and their results."""
    if not checks:
        return None
    headers = ("Address", "Kind", "Verdict", "Problems")
    return build_section(
        "checks", "Checks", build_table("Conditions", headers, [_build_check_row(check) for check in checks])
    )


def _build_check_row(check: CheckResult) -> tuple[str, str, str, str]:
    return check.address, check.kind.replace("_", " "), check.status, "; ".join(check.messages)


def build_outputs_section(outputs: Sequence[Difference]) -> Part:
    """Build the changed outputs, folded if long."""
    if not outputs:
        return None
    title, text = "Outputs that change", "\n".join(render_outputs(outputs))
    lines = text.count("\n") + 1
    content = render_diff(text, "Outputs")
    if lines <= _MAX_ROWS:
        return build_section("outputs", title, content, data_short="Outputs")
    summary = build_element("summary", f"{format_count(len(outputs), 'output')}, {lines:,} lines")
    return build_section(
        "outputs", title, build_element("details", summary, content, class_="long"), data_short="Outputs"
    )


def build_drift_section(stanzas: Sequence[Stanza]) -> Part:
    """Build the changes made outside of nexusform."""
    if not stanzas:
        return None
    title = "Changed outside of nexusform"
    text = "\n\n".join(render_stanza(stanza) for stanza in stanzas)
    return build_section("drift", title, render_diff(text, title))


def render_diff(text: str, label: str) -> Markup:
    """Render lines coloured by their sign."""
    spans = []
    for line, is_text in mark_text_lines(text):
        sign = "" if is_text else line.lstrip()[:1]
        kind = {"+": "added", "-": "removed", "~": "changed"}.get(sign)
        spans.append(build_element("span", f"{line}\n", class_=kind) if kind else join_parts(f"{line}\n"))
    return build_element("pre", spans, class_="diff", tabindex="0", role="group", aria_label=label)


def build_rollouts_section(report: Report) -> Part:
    """Build the rollout steps of placements; None without any."""
    tables = [build_table(rollout.title, HEADERS, rollout.rows) for rollout in report.rollouts]
    note = "Earliest start; update time not included."
    return (
        build_section("rollouts", "Rollout", build_element("p", note), tables, data_short="Rollouts")
        if tables
        else None
    )
