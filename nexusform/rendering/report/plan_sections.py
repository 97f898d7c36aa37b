"""Sections of the report of a plan. Each is built once for terminal, comment and page; none is None."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, groupby
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.levels import Level
from nexusform.diagnostics.phrases import format_count, format_duration, format_first_items
from nexusform.placement_kinds.placement_kind import VM, get_kind_order, get_kind_title
from nexusform.plans.impact.object_effects import Effect
from nexusform.plans.maintenance import PoolNodeRecreation
from nexusform.plans.plan import Action, Change, PlacementAction, PlacementChange, Plan, RolloutStep, SeparationVerdict
from nexusform.rendering.report.finding_entries import format_location, list_destructive_renames
from nexusform.rendering.report.folding import PoolRow, SitePools, build_site_pools, format_names, merge_equal_groups
from nexusform.rendering.report.object_rows import ObjectFold
from nexusform.rendering.report.placement_rows import (
    PlacementLine,
    PlacementLineGroup,
    ShownPlacements,
    build_placement_groups,
    get_action_text,
    get_leaving_verb,
)
from nexusform.rendering.report.plan_report_data import PlanReportData
from nexusform.rendering.report.plan_verdict import build_notes, count_findings, format_violation
from nexusform.rendering.report.report_tree import (
    ARROW,
    Findings,
    Item,
    ItemGroup,
    Row,
    Section,
    Style,
    StyledText,
    Table,
    Text,
)
from nexusform.scheduling.racks.vms import Placement

CHANGES_TITLE: Final = "nexusform will perform the following actions:"
ROLLOUT_NOTE: Final = "Earliest start; update time not included."


def build_note_section(view: PlanReportData) -> Section | None:
    """Build the notes about upgrades, samples, rules and inputs."""
    notes = () if view.plan.is_failed else tuple(build_notes(view.plan))
    return Section("", notes=notes, name="notes") if notes else None


def build_machine_and_feasibility_section(view: PlanReportData) -> Section | None:
    """Build the lines about machines out of service and feasible placements."""
    plan = view.plan
    has_statuses = any(machine.facts.status is not None for site in plan.sites for machine in site.machines)
    if not (has_statuses or plan.machine_actions or plan.feasibility):
        return None
    from nexusform.rendering.report.plan_conditions import describe_plan_conditions

    lines = describe_plan_conditions(plan)
    return Section("", lines, name="conditions") if lines else None


def build_site_section(view: PlanReportData) -> Section | None:
    """Build a row per changed site and a line for the others; none for a single site."""
    if not view.sites:
        return None
    from nexusform.rendering.report.site_rows import describe_other_sites, select_changed_rows

    rows = select_changed_rows(view.sites)
    if not rows:
        return None
    table_rows = []
    for row in rows:
        # Only the name of a single site is a link.
        name = StyledText(row.name, Style.SITE if row.sites == 1 else Style.STRONG)
        table_rows.append(Row((name, row.delta, row.summary)))
    table = Table(("site", "VMs", "changes"), tuple(table_rows))
    lines = tuple(f"{sentence}." for sentence in describe_other_sites(view.sites))
    return Section("Sites", lines, table=table, name="sites")


# --- objects -----------------------------------------------------------------------------------


def build_change_section(view: PlanReportData) -> Section | None:
    """Build an item per changed object, similar ones together."""
    return Section("Changes", groups=_build_items(view.objects), name="changes") if view.objects else None


def build_drift_section(view: PlanReportData) -> Section | None:
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


def build_count_section(view: PlanReportData) -> Section | None:
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


def build_capacity_section(view: PlanReportData) -> Section | None:
    """Build the spare capacity of the changed sites, or of all sites without changes."""
    from nexusform.rendering.report.capacity_table import build_capacity_table

    table, other_note = build_capacity_table(view.plan.capacity, view.plan.other_capacity)
    if table is None:
        return None
    return Section("Spare capacity", (other_note,) if other_note else (), table=table, name="capacity")


def build_all_capacity_section(view: PlanReportData) -> Section | None:
    """Build the folded spare capacity of every site, if some do not change."""
    from nexusform.rendering.report.capacity_table import build_capacity_table

    _, other_note = build_capacity_table(view.plan.capacity, view.plan.other_capacity)
    table, _ = build_capacity_table(view.plan.capacity, view.plan.other_capacity, has_unchanged=True)
    return Section("Spare capacity of every site", table=table, is_folded=True) if other_note else None


def build_upgrade_section(view: PlanReportData) -> Section | None:
    """Build tables of upgraded clusters and of clusters with re-created pools."""
    if not view.plan.upgrades:
        return None
    from nexusform.rendering.report.upgrade_sentences import describe_upgrade_course, format_upgrade_heading

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
    return Section(title, tables=tables, name="upgrades")


def _build_upgrade_row(pool: PoolNodeRecreation) -> Row:
    """Build the row of a pool; with surge, new nodes start first and none is missing."""
    batches = f"{pool.batches:,}" + (f", stops at {pool.failed_batch:,}" if pool.failed_batch else "")
    unavailable = "none" if pool.surges else f"{pool.concurrent_vms:,}"
    return Row((pool.pool, pool.sku, f"{pool.vms:,}", batches, unavailable, f"{pool.minimum_up:,}"))


def build_rule_section(view: PlanReportData) -> Section | None:
    """Build an item per separation rule with its result, then its violations."""
    verdicts = view.plan.separation_verdicts
    rules = tuple(Item("", str(verdict.address), _describe_separation_rule(verdict)) for verdict in verdicts)
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


def _describe_separation_rule(verdict: SeparationVerdict) -> str:
    """Return `(machine, deny) holds always, in the plan and in 100 samples`."""
    rule = f"({verdict.scope}, {verdict.enforcement}) holds {verdict.satisfied}"
    samples = f"{verdict.sample_count:,} samples"
    if verdict.satisfied == "always":
        return f"{rule}, in the plan and in {samples}" if verdict.sample_count else f"{rule}, in the plan"
    runs = f", in {verdict.satisfied_count:,} of {samples}" if verdict.sample_count else ""
    return f"{rule}{runs}; {format_count(len(verdict.violations), verdict.scope)} shared"


def build_check_section(view: PlanReportData) -> Section | None:
    """Build the conditions and their results."""
    rows = tuple(
        Row((check.address, check.kind.replace("_", " "), check.status, "; ".join(check.messages)))
        for check in view.plan.checks
    )
    table = Table(("address", "kind", "verdict", "problems"), rows, caption="Conditions")
    return Section("Checks", table=table, name="checks") if rows else None


def build_rollout_section(view: PlanReportData) -> Section | None:
    """Build the steps of rollouts; times are the earliest."""
    if not view.plan.rollouts:
        return None
    # A table of start time, stage or wave, and action per rollout, in plan order.
    tables = []
    for rollout in view.plan.rollouts:
        snapshot = "" if rollout.resource_snapshot is None else f", resource snapshot {rollout.resource_snapshot}"
        rows = []
        for step in rollout.steps:
            start = f"+{format_duration(step.start_seconds)}" if step.start_seconds else "start"
            action = f"{_describe_step(step)}{_STATUSES.get(step.status, '')}"
            if not step.stage:
                stage = f"wave {step.group}"
            else:
                name = "delete stage" if step.kind == "delete" else step.stage
                stage = f"{name}, group {step.group}" if step.group and step.kind != "delete" else name
            rows.append(Row((start, stage, action)))
        caption = f"{rollout.address}: {rollout.cause}{snapshot}"
        tables.append(Table(("from", "stage", "what"), tuple(rows), caption=caption))
    return Section("Rollout", (ROLLOUT_NOTE,), tables=tuple(tables), name="rollouts")


# --- findings ----------------------------------------------------------------------------------


def build_entry_section(view: PlanReportData) -> Section | None:
    """Build the warnings and advice in short form."""
    entries = view.entries
    return Section("Warnings and advice", entries=entries, name="entries") if entries != type(entries)() else None


def build_finding_section(view: PlanReportData) -> Section | None:
    """Build every finding with its source lines."""
    if not view.findings:
        return None
    title = f"Findings: {', '.join(count_findings(view.findings))}"
    return Section(title, findings=Findings(view.findings, view.sources), name="diagnostics")


def build_error_section(view: PlanReportData) -> Section | None:
    """Build the errors of a plan."""
    errors = tuple(finding for finding in view.findings if finding.level is Level.ERROR)
    return Section("Errors", findings=Findings(errors, view.sources), name="errors") if errors else None


def build_rename_section(view: PlanReportData) -> Section | None:
    """Build the renames with VMs to destroy; reports show them before everything else."""
    renames = list_destructive_renames(view.plan)
    selected = tuple(finding for finding in view.findings if finding.diagnostic in renames)
    return Section("Renames", findings=Findings(selected, view.sources), name="renames") if selected else None


MAX_LISTED_VMS: Final = 15  # moved and new VMs, or pools, in a comment
MAX_NEW_VMS: Final = 12  # up to this number, new VMs are listed individually
_MAX_CAUSES: Final = 5
_NEW_TRIGGER: Final = "new"

# --- pools -------------------------------------------------------------------------------------

_HEADERS: Final = ("cluster", "pool", "SKU", "VMs", "racks", "per rack")
_CERTAINTY_HEADERS: Final = ("exact racks", "exact machines")


def build_pool_section(view: PlanReportData) -> Section | None:
    """Build a table per site with a row per changed pool; equal sites share a table."""
    tables = [group.table for group in view.groups if group.table is not None]
    return _build_pools(view, build_site_pools(view.plan, tables))


def build_new_pool_section(view: PlanReportData) -> Section | None:
    """Build the pools with many new VMs; with fewer, the pools with an unexpected spread."""
    tables = [group.table for group in view.groups if group.table is not None]
    section = _build_pools(view, build_site_pools(view.plan, tables, MAX_LISTED_VMS))
    placed = sum(row.kind == VM and row.action is PlacementAction.PLACE for row in view.plan.placements)
    if section is None or placed > MAX_NEW_VMS:
        return section
    unexpected = tuple(table for table in section.tables if any(row.note for row in table.rows))
    return replace(section, tables=unexpected) if unexpected else None


def build_all_pools_section(view: PlanReportData) -> Section | None:
    """Build a table per site with a row per pool, changed or not, those of changed sites first."""
    changed_sites = {row.name for row in view.sites if row.has_changes}
    sites = build_site_pools(view.plan, view.plan.placement_tables)
    ordered = sorted(sites, key=lambda site: bool(changed_sites) and changed_sites.isdisjoint(site.names))
    return _build_pools(view, ordered)


def _build_pools(view: PlanReportData, sites: Sequence[SitePools]) -> Section | None:
    tables = tuple(
        _build_pool_table(site, has_placed=view.placed_vms > 0, is_only=len(view.plan.sites) < 2) for site in sites
    )
    hidden_count = sum(site.hidden_pools for site in sites)
    lines = (f"and {format_count(hidden_count, 'more pool')}",) if hidden_count else ()
    return Section("Pools", lines, tables=tables, name="pools") if tables else None


def _build_pool_table(site: SitePools, *, has_placed: bool, is_only: bool) -> Table:
    """Build the table of one site, with certainty if it was computed."""
    has_certainty = any(row.exact_counts for row in site.rows)
    headers = (*_HEADERS, *_CERTAINTY_HEADERS) if has_certainty else _HEADERS
    scope = "" if is_only else f" on {site.site}"
    source_note = (" (decided by nexusform)" if site.is_decided else " (predicted)") if has_placed else ""
    return Table(
        headers,
        tuple(_build_pool_row(row, has_certainty=has_certainty) for row in site.rows),
        frozenset({3, 5}),
        f"VM placement on {site.site}{source_note}",
        frozenset({6, 7}),
        Table((f"Pool{scope}", "VMs", "VMs per rack"), tuple(map(_build_compact_row, site.rows))),
        is_grouped=True,
        is_firm=True,
    )


def _build_pool_row(row: PoolRow, *, has_certainty: bool) -> Row:
    cells = (row.cluster, row.pool, row.sku, row.count, row.racks, row.per_rack)
    certainty = (row.exact_counts, row.exact_machines) if has_certainty else ()
    return Row((*cells, *certainty), note=row.note)


def _build_compact_row(row: PoolRow) -> Row:
    expected = row.note.partition(";")[0] if row.spread else row.note
    note = f" ({expected})" if expected else ""
    return Row((f"{row.cluster}/{row.pool}", row.count, f"{row.spread or f'{row.per_rack} on {row.racks}'}{note}"))


# --- changes one by one ------------------------------------------------------------------------


def build_vm_section(view: PlanReportData) -> Section | None:
    """Build the changed VMs, similar ones together. Many new VMs appear in the table of pools only."""
    groups = [group for group in view.groups if group.kind == VM]
    return _build_placement_group_section("VMs", "vm-changes", _select_listed(view, groups), ("VM", "from → to"))


def build_listed_vm_section(view: PlanReportData) -> Section | None:
    """Build the changed VMs, moved and new ones one by one unless there are many."""
    section = build_vm_section(view)
    single_view = PlanReportData(view.plan, detail=ShownPlacements.ALL)
    groups = [group for group in single_view.groups if group.kind == VM]
    moves = [line for group in groups for line in group.lines if line.action is PlacementAction.MOVE]
    new = [line for group in groups for line in group.lines if line.action is PlacementAction.PLACE]
    listed = [*moves, *(new if len(new) <= MAX_NEW_VMS else ())]
    if section is None or not listed or len(listed) > MAX_LISTED_VMS or view.plan.upgrades:
        return section
    others = [item for group in section.groups for item in group.items if item.symbol not in ("~", "+")]
    items = (ItemGroup("", (*map(_build_item, listed), *others)),)
    return replace(section, groups=items)


def build_workload_section(view: PlanReportData) -> Section | None:
    """Build the changed clusters of placements, and the changed pods by workload."""
    groups = [group for group in view.groups if group.kind != VM]
    return _build_placement_group_section("Placements", "workloads", groups)


def build_placement_section(view: PlanReportData) -> Section | None:
    """Build the changed VMs, then the changed clusters of placements and pods."""
    sections = (build_vm_section(view), build_workload_section(view))
    groups = [group for section in sections if section is not None for group in section.groups]
    return Section("Placement changes", groups=tuple(groups), name="placements") if groups else None


def build_single_vm_section(view: PlanReportData) -> Section | None:
    """Build the moved and few new VMs one by one, with the share of samples with the same machine."""
    listed = (PlacementAction.MOVE, PlacementAction.PLACE)
    groups = build_placement_groups(view.plan, ShownPlacements.ALL, view.location_formatter)
    selected = _select_listed(view, [group for group in groups if group.kind == VM])
    lines = [line for line in chain.from_iterable(group.lines for group in selected) if line.action in listed]
    heads = ("VM", "from → to", "machine certainty")
    rows = tuple(Row((StyledText(line.label, Style.CODE), describe_line(line), _format_share(line))) for line in lines)
    title = "Every VM, with machine certainty"
    is_needed = bool(view.plan.samples or view.plan.upgrades or len(rows) > MAX_LISTED_VMS)
    return Section(title, table=Table(heads, rows, frozenset({2})), is_folded=True) if rows and is_needed else None


def _format_share(line: PlacementLine) -> str:
    return f"{line.machine_share * 100:.0f} %" if line.machine_share is not None else "-"


def _select_listed(view: PlanReportData, groups: Sequence[PlacementLineGroup]) -> list[PlacementLineGroup]:
    """Return the groups without lines that a table of pools replaces."""
    new_vms = sum(row.kind == VM and row.action is PlacementAction.PLACE for row in view.plan.placements)
    if new_vms <= MAX_NEW_VMS or view.vm_detail is ShownPlacements.ALL or view.is_long:
        return list(groups)
    return [
        replace(group, lines=tuple(line for line in group.lines if line.trigger != _NEW_TRIGGER))
        if group.table is not None
        else group
        for group in groups
    ]


def _build_placement_group_section(
    title: str, name: str, groups: Iterable[PlacementLineGroup], headers: tuple[str, ...] = ()
) -> Section | None:
    """Build the items of groups, moves first; groups with equal lines share them."""
    merged = [group for group in merge_equal_groups(groups) if group.lines]
    merged.sort(
        key=lambda group: (bool(group.sites), not any(line.action is PlacementAction.MOVE for line in group.lines))
    )
    items = [
        ItemGroup(group_name, tuple(map(_build_item, chain.from_iterable(group.lines for group in members))))
        for group_name, members in groupby(merged, _name_group)
    ]
    return Section(title, groups=tuple(items), item_headers=headers, name=name) if items else None


def _name_group(group: PlacementLineGroup) -> str:
    """Return the name of a group. VM names contain their cluster."""
    if group.sites:
        return f"{format_names(group.sites)}, each"
    return "" if group.kind == VM else group.name


def _build_item(line: PlacementLine) -> Item:
    return Item(line.symbol, line.label, describe_line(line), line.action is PlacementAction.MOVE, line.count)


def describe_line(line: PlacementLine) -> Text:
    """Return origin, target and trigger of the objects of a line."""
    remark = f" {line.remark}" if line.remark else ""
    target = StyledText(line.target, Style.STRONG)
    match line.effect:
        case Effect.PLACED:
            return (ARROW, " ", target, remark)
        case _ if get_leaving_verb(line):
            return f"{f'{get_leaving_verb(line)} {line.origin}'.rstrip()}{remark}"
        case _ if line.origin:
            return (f"{line.origin} ", ARROW, " ", target, remark)
        case _:
            verb = get_action_text(line)
            return (f"{verb} " if verb else "", target, remark)


# --- causes ------------------------------------------------------------------------------------


def build_cause_section(view: PlanReportData) -> Section | None:
    """Build the causes of moves: `Cause: main.nf.hcl:26.`."""
    moves = _list_moves(view.plan)
    changes = find_move_causes(view.plan) if moves else ()
    locations = dict.fromkeys(format_location(change.source) for change in changes)
    causes = [StyledText(location, Style.LOCATION) for location in locations if location]
    causes += [StyledText("-replace", Style.CODE)] if any(row.trigger in _FLAG_TRIGGERS for row in moves) else []
    if not causes:
        return None
    hidden_count = len(causes) - _MAX_CAUSES
    parts: list[str | StyledText] = ["Cause: "]
    for number, cause in enumerate(causes[:_MAX_CAUSES]):
        parts += [", " if number else "", cause]
    parts.append(f" and {hidden_count:,} more." if hidden_count > 0 else ".")
    return Section("", (tuple(parts),), name="causes")


def _list_moves(plan: Plan) -> list[PlacementChange]:
    """Return the rows of VMs with another machine before."""
    return [row for row in plan.placements if row.kind == VM and row.action is PlacementAction.MOVE and row.source]


def find_move_causes(plan: Plan) -> tuple[Change, ...]:
    """Find the causes of moves of VMs, in plan order. The cause is the VM's own resource if it has the trigger, or the
    changed machine or rack if the VM loses its machine. VMs named by `-replace` have no cause in the configuration.
    """
    moves = _list_moves(plan)
    by_hardware = {row.trigger for row in moves} & _HARDWARE_TRIGGERS
    ids = set(_list_hardware_ids(row for row in moves if row.trigger in by_hardware))
    addresses = {row.address for row in moves if row.trigger not in by_hardware | _FLAG_TRIGGERS}
    return tuple(
        change
        for change in plan.changes
        if change.action is not Action.NO_OP and (change.id in ids or change.address in addresses)
    )


_HARDWARE_TRIGGERS = frozenset({"machine_evacuated", "machine_removed", "machine_replaced", "machine_forgotten"})
_FLAG_TRIGGERS = frozenset({"requested", "heal"})


def _list_hardware_ids(rows: Iterable[PlacementChange]) -> Iterable[str]:
    """List the ids of the racks and machines that these VMs leave."""
    for row in rows:
        if isinstance(row.source, Placement):
            rack = f"{row.site_id}/{row.source.rack}"
            yield rack
            yield f"{rack}/{row.source.machine}"


_MAX_CLUSTERS: Final = 6
_STATUSES: Final = {"done": " (done before)", "stuck": " (fails there)", "later": " (later)"}


def _describe_step(step: RolloutStep) -> str:
    """Return the action of a step: update, delete, wait or approval."""
    if step.kind == "wait":
        return f"wait {format_duration(step.wait_seconds)}"
    if step.kind == "approval":
        approval_text = {"waiting": "waits for approval", "later": "approval"}.get(step.status, "approved:")
        return f"{approval_text} {step.waits_for}"
    verb = "delete" if step.kind == "delete" else "update"
    return f"{verb} {format_first_items(step.clusters, _MAX_CLUSTERS)}"
