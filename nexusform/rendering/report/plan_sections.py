"""Sections of the report of a plan. Each is built once for terminal, comment and page; none is None."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from nexusform.diagnostics.levels import Level
from nexusform.diagnostics.phrases import format_count
from nexusform.placement_kinds.kinds import get_kind_order, get_kind_title
from nexusform.plans.cluster_upgrades import PoolUpgrade
from nexusform.plans.plan import Action, PlacementAction, SeparationVerdict
from nexusform.rendering.report.conditions import describe_conditions
from nexusform.rendering.report.entries import list_destructive_renames
from nexusform.rendering.report.object_rows import ObjectFold
from nexusform.rendering.report.plan_notes import build_notes
from nexusform.rendering.report.plan_verdict import count_findings, format_violation
from nexusform.rendering.report.plan_view import PlanView
from nexusform.rendering.report.report_tree import Findings, Item, ItemGroup, Row, Section, Span, Style, Table, Text
from nexusform.rendering.report.site_rows import SiteRow, describe_other_sites, select_changed_rows
from nexusform.rendering.report.upgrade_sentences import describe_upgrade_course, format_upgrade_heading

CHANGES_TITLE: Final = "nexusform will perform the following actions:"
ROLLOUT_NOTE: Final = "Earliest start; update time not included."


def build_note_section(view: PlanView) -> Section | None:
    """Build the notes about upgrades, samples, rules and inputs."""
    notes = () if view.plan.is_failed else tuple(build_notes(view.plan))
    return Section("", notes=notes, name="notes") if notes else None


def build_condition_section(view: PlanView) -> Section | None:
    """Build the lines about machines out of service and feasible placements."""
    lines = describe_conditions(view.plan)
    return Section("", lines, name="conditions") if lines else None


def build_site_section(view: PlanView) -> Section | None:
    """Build a row per changed site and a line for the others; none for a single site."""
    rows = select_changed_rows(view.sites)
    if not rows:
        return None
    table = Table(("site", "VMs", "changes"), tuple(Row((_link_site(row), row.delta, row.summary)) for row in rows))
    lines = tuple(f"{sentence}." for sentence in describe_other_sites(view.sites))
    return Section("Sites", lines, table=table, name="sites")


def _link_site(row: SiteRow) -> Text:
    return Span(row.name, Style.SITE) if row.sites == 1 else Span(row.name, Style.STRONG)


# --- objects -----------------------------------------------------------------------------------


def build_change_section(view: PlanView) -> Section | None:
    """Build an item per changed object, similar ones together."""
    return Section("Changes", groups=_build_items(view.objects), name="changes") if view.objects else None


def build_drift_section(view: PlanView) -> Section | None:
    """Build an item per object changed outside of nexusform."""
    if not view.drift:
        return None
    return Section("Changed outside of nexusform", groups=_build_items(view.drift), name="drift")


def _build_items(folds: Iterable[ObjectFold]) -> tuple[ItemGroup, ...]:
    return (
        ItemGroup(
            "", tuple(Item(fold.symbol, fold.label, describe_fold(fold), count=len(fold.rows)) for fold in folds)
        ),
    )


def describe_fold(fold: ObjectFold) -> str:
    """Return the name and the clauses of objects: `rack1..8: 16 machines each`."""
    clauses = ", ".join(clause for clause in fold.clauses if clause)
    return ": ".join(text for text in (fold.name, clauses) if text)


_ADDING: Final = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_DESTROYING: Final = (Action.DELETE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


def build_count_section(view: PlanView) -> Section | None:
    """Build tables of changed objects by type and of placements by trigger."""
    by_type: dict[str, Counter[str]] = {}
    for change in view.plan.changes:
        count = by_type.setdefault(change.address.type, Counter())
        count["add"] += change.action in _ADDING
        count["change"] += change.action is Action.UPDATE
        count["destroy"] += change.action in _DESTROYING
    types = [
        Row((kind, *(f"{count[name]:,}" for name in ("add", "change", "destroy"))))
        for kind, count in sorted(by_type.items())
        if any(count.values())
    ]
    tables = []
    if types:
        tables.append(Table(("type", "add", "change", "destroy"), tuple(types), frozenset({1, 2, 3}), "Resources"))
    counts = Counter((row.kind, row.action, row.trigger) for row in view.plan.placements if row.trigger)
    actions = tuple(PlacementAction)
    ordered = sorted(
        counts.items(), key=lambda pair: (get_kind_order(pair[0][0]), actions.index(pair[0][1]), pair[0][2])
    )
    triggers = tuple(
        Row((get_kind_title(kind), action.value, trigger, f"{count:,}")) for (kind, action, trigger), count in ordered
    )
    if triggers:
        heads = ("kind", "action", "trigger", "count")
        tables.append(Table(heads, triggers, frozenset({3}), "Placements by trigger"))
    return Section("Counts", tables=tuple(tables), name="counts") if tables else None


# --- consequences ------------------------------------------------------------------------------


def build_capacity_section(view: PlanView) -> Section | None:
    """Build the spare capacity of the changed sites, or of all sites without changes."""
    from nexusform.rendering.report.capacity_table import build_capacity_table

    table, other_note = build_capacity_table(view.plan.capacity, view.plan.other_capacity)
    if table is None:
        return None
    return Section("Spare capacity", (other_note,) if other_note else (), table=table, name="capacity")


def build_all_capacity_section(view: PlanView) -> Section | None:
    """Build the folded spare capacity of every site, if some do not change."""
    from nexusform.rendering.report.capacity_table import build_capacity_table

    _, other_note = build_capacity_table(view.plan.capacity, view.plan.other_capacity)
    table, _ = build_capacity_table(view.plan.capacity, view.plan.other_capacity, has_unchanged=True)
    return Section("Spare capacity of every site", table=table, is_folded=True) if other_note else None


def build_upgrade_section(view: PlanView) -> Section | None:
    """Build tables of upgraded clusters and of clusters with re-created pools."""
    heads = ("pool", "SKU", "nodes", "batches", "down at a time", "minimum up")
    tables = tuple(
        Table(
            heads,
            tuple(map(_build_upgrade_row, upgrade.pools)),
            frozenset({2, 3, 4, 5}),
            f"{format_upgrade_heading(upgrade)}: {describe_upgrade_course(upgrade)}",
        )
        for upgrade in view.plan.upgrades
    )
    title = "Upgrades" if all(upgrade.is_rolling for upgrade in view.plan.upgrades) else "Re-created"
    return Section(title, tables=tables, name="upgrades") if tables else None


def _build_upgrade_row(pool: PoolUpgrade) -> Row:
    """Build the row of a pool; with surge, new nodes start first and none is missing."""
    batches = f"{pool.batches:,}" + (f", stops at {pool.failed_batch:,}" if pool.failed_batch else "")
    unavailable = "none" if pool.surges else f"{pool.concurrent_vms:,}"
    return Row((pool.pool, pool.sku, f"{pool.vms:,}", batches, unavailable, f"{pool.minimum_up:,}"))


def build_rule_section(view: PlanView) -> Section | None:
    """Build an item per separation rule with its result, then its violations."""
    verdicts = view.plan.separation_verdicts
    rules = tuple(Item("", str(verdict.address), _describe_rule(verdict)) for verdict in verdicts)
    violations = [
        ItemGroup(
            f"{verdict.address}: {format_count(len(verdict.violations), 'violation')}",
            tuple(Item("", "", format_violation(violation)) for violation in verdict.violations),
        )
        for verdict in verdicts
        if verdict.violations
    ]
    groups = (ItemGroup("", rules), *violations)
    return Section("Separation rules", groups=groups, name="separation") if rules else None


def _describe_rule(verdict: SeparationVerdict) -> str:
    """Return `(machine, deny) holds always, in the plan and in 100 samples`."""
    rule = f"({verdict.scope}, {verdict.enforcement}) holds {verdict.satisfied}"
    samples = f"{verdict.sample_count:,} samples"
    if verdict.satisfied == "always":
        return f"{rule}, in the plan and in {samples}" if verdict.sample_count else f"{rule}, in the plan"
    runs = f", in {verdict.satisfied_count:,} of {samples}" if verdict.sample_count else ""
    return f"{rule}{runs}; {format_count(len(verdict.violations), verdict.scope)} shared"


def build_check_section(view: PlanView) -> Section | None:
    """Build the conditions and their results."""
    rows = tuple(
        Row((check.address, check.kind.replace("_", " "), check.status, "; ".join(check.messages)))
        for check in view.plan.checks
    )
    table = Table(("address", "kind", "verdict", "problems"), rows, caption="Conditions")
    return Section("Checks", table=table, name="checks") if rows else None


def build_rollout_section(view: PlanView) -> Section | None:
    """Build the steps of rollouts; times are the earliest."""
    if not view.plan.rollouts:
        return None
    from nexusform.rendering.report.rollout_rows import build_rollout_tables  # few plans have rollouts

    return Section("Rollout", (ROLLOUT_NOTE,), tables=build_rollout_tables(view.plan), name="rollouts")


# --- findings ----------------------------------------------------------------------------------


def build_entry_section(view: PlanView) -> Section | None:
    """Build the warnings and advice in short form."""
    entries = view.entries
    return Section("Warnings and advice", entries=entries, name="entries") if entries != type(entries)() else None


def build_finding_section(view: PlanView) -> Section | None:
    """Build every finding with its source lines."""
    if not view.findings:
        return None
    title = f"Findings: {', '.join(count_findings(view.findings))}"
    return Section(title, findings=Findings(view.findings, view.sources), name="diagnostics")


def build_error_section(view: PlanView) -> Section | None:
    """Build the errors of a plan."""
    errors = tuple(finding for finding in view.findings if finding.level is Level.ERROR)
    return Section("Errors", findings=Findings(errors, view.sources), name="errors") if errors else None


def build_rename_section(view: PlanView) -> Section | None:
    """Build the renames with VMs to destroy; reports show them before everything else."""
    renames = list_destructive_renames(view.plan)
    selected = tuple(finding for finding in view.findings if finding.diagnostic in renames)
    return Section("Renames", findings=Findings(selected, view.sources), name="renames") if selected else None
