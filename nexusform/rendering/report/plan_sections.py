"""Sections of the report of a plan.

Each is built once for terminal, comment and page. Empty ones are not shown.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, groupby
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics.levels import Level
from nexusform.diagnostics.name_ranges import format_names
from nexusform.diagnostics.phrases import (
    enclose,
    format_count,
    format_duration,
    format_first_items,
    group_by,
    join_texts,
    select_word_form,
)
from nexusform.placement_kinds.placement_kind import VM
from nexusform.placement_kinds.registry import get_kind_order, get_kind_title
from nexusform.placements.vm_demands import MACHINE_LOST
from nexusform.plans.impact.object_effects import Effect, count_effects, format_effect_clauses
from nexusform.plans.maintenance import PoolNodeRecreation
from nexusform.plans.plan import Action, Change, PlacementAction, PlacementChange, Plan, RolloutStep
from nexusform.rendering.report.finding_entries import (
    Finding,
    FindingEntries,
    format_location,
    list_destructive_renames,
    merge_equal_findings,
    merge_renames,
)
from nexusform.rendering.report.folding import (
    PoolRow,
    SitePools,
    build_site_pools,
    merge_equal_groups,
)
from nexusform.rendering.report.object_rows import ObjectFold
from nexusform.rendering.report.placement_rows import (
    PlacementLine,
    PlacementLineGroup,
    ShownPlacements,
    build_placement_groups,
    get_action_text,
    get_leaving_verb,
    select_vm_rows,
)
from nexusform.rendering.report.plan_report_data import PlanReportData
from nexusform.rendering.report.plan_verdict import build_notes, count_findings, format_violation
from nexusform.rendering.report.report_tree import (
    ARROW,
    NO_SECTION,
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
from nexusform.resources.address import Address
from nexusform.scheduling.listing.site_listing import LISTED_TITLE, list_site_sentences
from nexusform.scheduling.racks.vms import Placement

ROLLOUT_NOTE: Final = "Earliest start; update time not included."
# Limit of moved and new VMs, or pools, in a comment.
MAX_LISTED_VMS: Final = 15
# Up to this number, new VMs are listed individually.
MAX_NEW_VMS: Final = 12
_MAX_CAUSES: Final = 5
_NEW_TRIGGER: Final = "new"
_HEADERS: Final = ("cluster", "pool", "SKU", "VMs", "racks", "per rack")
_CERTAINTY_HEADERS: Final = ("exact racks", "exact machines")


def build_note_section(view: PlanReportData) -> Section:
    """Build the notes about upgrades, samples, rules and inputs."""
    notes = () if view.plan.is_failed else tuple(build_notes(view.plan))
    return Section("", notes=notes, name="notes")


def build_machine_and_feasibility_section(view: PlanReportData) -> Section:
    """Build lines on machines out of service, their planned actions and feasible placements."""
    plan = view.plan
    machines = chain.from_iterable(site.machines for site in plan.site_records.sites)
    has_statuses = any(machine.facts.status is not None for machine in machines)
    if not (has_statuses or plan.impact.machine_actions or plan.workloads.feasibility):
        # Without importing the sentences.
        return NO_SECTION
    from nexusform.rendering.report import plan_conditions

    lines = [
        *plan_conditions.describe_out_of_service(plan),
        *plan_conditions.describe_machine_actions(plan),
    ]
    return Section(
        "", lines=(*lines, *plan_conditions.describe_feasibility(plan)), name="conditions"
    )


def build_loss_section(view: PlanReportData) -> Section:
    """Build the section of the machines that a hypothetical plan assumes to be lost."""
    losses = view.plan.losses
    if not losses:
        return NO_SECTION
    from nexusform.rendering.report.loss_sections import build_loss_section as build_section

    sections = [build_section(loss) for loss in losses]
    first = sections[0]
    return replace(
        first,
        lines=tuple(chain.from_iterable(section.lines for section in sections)),
        commands=tuple(chain.from_iterable(section.commands for section in sections)),
        tables=tuple(chain.from_iterable(section.tables for section in sections)),
    )


def build_listed_section(view: PlanReportData) -> Section:
    """Build an item per difference between a site as its platform lists it and as configured."""
    items: list[Item] = []
    for site in view.plan.observed.listed:
        items += [Item("!", site.site, sentence) for sentence in list_site_sentences(site)]
    return Section(LISTED_TITLE, groups=(ItemGroup(name="", items=tuple(items)),), name="listed")


def build_site_section(view: PlanReportData) -> Section:
    """Build a row per changed site and a line for unchanged sites.

    Return NO_SECTION for a single site or without changes.
    """
    from nexusform.rendering.report.site_rows import describe_other_sites, select_changed_rows

    rows = select_changed_rows(view.sites)
    # `view.sites` is empty for a single site.
    if not rows:
        return NO_SECTION
    table_rows = []
    # One site, or several similar ones; only the name of a single site is a link.
    for row in rows:
        name = StyledText(row.name, Style.SITE if row.sites == 1 else Style.STRONG)
        table_rows.append(Row((name, row.delta, row.summary)))
    table = Table(("site", "VMs", "changes"), tuple(table_rows))
    lines = tuple(f"{sentence}." for sentence in describe_other_sites(view.sites))
    return Section("Sites", lines, table=table, name="sites")


def describe_actor(plan: Plan) -> str:
    """Return the title of the changes of a plan; Terraform makes those of a prediction."""
    actor = "Terraform" if plan.basis.is_external else "nexusform"
    return f"{actor} will perform the following actions:"


def build_change_section(view: PlanReportData) -> Section:
    """Build an item per changed object, similar ones together."""
    return Section("Changes", groups=_build_items(view.objects), name="changes")


def build_drift_section(view: PlanReportData) -> Section:
    """Build an item per object changed outside of nexusform."""
    return Section("Changed outside of nexusform", groups=_build_items(view.drift), name="drift")


def _build_items(folds: Iterable[ObjectFold]) -> tuple[ItemGroup, ...]:
    """Build an item per fold with the name and the clauses of its objects.

    An example is `rack1..8: 16 machines each`.
    """
    items = []
    for fold in folds:
        text = join_texts((fold.name, join_texts(fold.clauses)), ": ")
        items.append(Item(fold.symbol, fold.label, text, count=len(fold.rows)))
    return (ItemGroup(name="", items=tuple(items)),)


# The columns of the table of objects that count a change.
_COUNT_COLUMNS: Final[Mapping[Action, tuple[str, ...]]] = {
    Action.CREATE: ("add",),
    Action.UPDATE: ("change",),
    Action.DELETE: ("destroy",),
    Action.REPLACE: ("add", "destroy"),
    Action.REPLACE_CREATE_FIRST: ("add", "destroy"),
}


def build_count_section(view: PlanReportData) -> Section:
    """Build tables of changed objects by type and of placements by trigger."""
    tables = (_build_resource_count_table(view.plan), _build_trigger_count_table(view.plan))
    filled_tables = tuple(table for table in tables if table.rows)
    # The decision has the totals.
    return Section("Counts", tables=filled_tables, name="counts", is_folded=True)


def _build_resource_count_table(plan: Plan) -> Table:
    """Build the table of added, changed and destroyed objects, with a row per resource type."""
    counts_by_type: dict[str, Counter[str]] = {}
    for change in plan.changes:
        # A replacement counts in two columns.
        if change.action in _COUNT_COLUMNS:
            counts_by_type.setdefault(change.address.type, Counter()).update(
                _COUNT_COLUMNS[change.action]
            )
    rows = []
    for resource_type, counts in sorted(counts_by_type.items()):
        rows.append(
            Row(
                (
                    resource_type,
                    f"{counts['add']:,}",
                    f"{counts['change']:,}",
                    f"{counts['destroy']:,}",
                )
            )
        )
    return Table(
        ("type", "add", "change", "destroy"),
        tuple(rows),
        number_columns=frozenset({1, 2, 3}),
        caption="Resources",
    )


def _build_trigger_count_table(plan: Plan) -> Table:
    """Build the table of objects by kind, action and trigger, in the order of kinds and actions."""
    actions = tuple(PlacementAction)
    # Counts by order of the kind, order of the action, trigger and kind.
    counts: Counter[tuple[int, int, str, str]] = Counter()
    for row in plan.placements:
        if row.trigger:
            counts[get_kind_order(row.kind), actions.index(row.action), row.trigger, row.kind] += 1
    rows = []
    for (_, action_index, trigger, kind), count in sorted(counts.items()):
        rows.append(Row((get_kind_title(kind), actions[action_index].value, trigger, f"{count:,}")))
    heads = ("kind", "action", "trigger", "count")
    # 3: the count.
    return Table(heads, tuple(rows), number_columns=frozenset({3}), caption="Placements by trigger")


def build_capacity_section(view: PlanReportData) -> Section:
    """Build the spare capacity of the changed sites, or of all sites without changes."""
    from nexusform.rendering.report.capacity_table import build_capacity_table

    table, other_note = build_capacity_table(
        view.plan.site_records.capacity, view.plan.site_records.other_capacity
    )
    return Section(
        "Spare capacity", (other_note,) if other_note else (), table=table, name="capacity"
    )


def build_all_capacity_section(view: PlanReportData) -> Section:
    """Build the folded spare capacity of every site, if the decision has not all of it.

    The decision has no unchanged sites, and no capacity for claims and nodes.
    """
    from nexusform.rendering.report.capacity_table import build_capacity_table

    plan = view.plan
    _, other_note = build_capacity_table(
        plan.site_records.capacity, plan.site_records.other_capacity
    )
    if not other_note and not plan.site_records.other_capacity:
        return NO_SECTION
    table, _ = build_capacity_table(
        plan.site_records.capacity, plan.site_records.other_capacity, has_unchanged=True
    )
    return Section("Spare capacity of every site", table=table, is_folded=True)


def build_upgrade_section(view: PlanReportData) -> Section:
    """Build a table per upgraded or re-created cluster, or several equal ones: a row per pool.

    The title says if all are upgrades. The notes have the sentences about it.
    """
    from nexusform.rendering.report.upgrade_sentences import build_upgrade_notes, fold_upgrades

    heads = ("pool", "SKU", "nodes", "batches", "down at a time", "minimum up")
    tables = []
    for upgrades, (heading, _) in zip(
        fold_upgrades(view.plan.impact.upgrades),
        build_upgrade_notes(view.plan.impact.upgrades),
        strict=True,
    ):
        rows = tuple(map(_build_upgrade_row, upgrades[0].pools))
        tables.append(Table(heads, rows, number_columns=frozenset({2, 3, 4, 5}), caption=heading))
    # Rolling upgrades change the version of Kubernetes; otherwise pools are re-created
    # for another reason.
    title = (
        "Upgrades"
        if all(upgrade.is_rolling for upgrade in view.plan.impact.upgrades)
        else "Re-created"
    )
    return Section(title, tables=tuple(tables), name="upgrades")


def _build_upgrade_row(pool: PoolNodeRecreation) -> Row:
    """Build the row of a pool; with surge, new nodes start first and none is missing."""
    batches = f"{pool.batches:,}"
    if pool.failed_batch:
        batches += f", stops at {pool.failed_batch:,}"
    unavailable = "none" if pool.surges else f"{pool.concurrent_vms:,}"
    return Row((pool.pool, pool.sku, f"{pool.vms:,}", batches, unavailable, f"{pool.minimum_up:,}"))


def build_rule_section(view: PlanReportData) -> Section:
    """Build an item per separation rule with its result, then a group per rule with its violations.

    The result is `(machine, deny) holds always, in the plan and in 100 samples`, or `... sometimes;
    2 machines shared`.
    """
    rules: list[Item] = []
    violation_groups: list[ItemGroup] = []
    for verdict in view.plan.verdicts.separation_verdicts:
        samples = f"{verdict.sample_count:,} samples" if verdict.sample_count else ""
        # The scope is machines, racks or sites.
        shared = format_count(len(verdict.violations), verdict.scope)
        if verdict.satisfied == "always":
            result = f", in the plan{enclose(' and in ', samples)}"
        elif verdict.satisfied == "unknown":
            result = f": {'; '.join(verdict.unchecked)}"
        else:
            result = f"{enclose(f', in {verdict.satisfied_count:,} of ', samples)}; {shared} shared"
        verb = "is" if verdict.satisfied == "unknown" else "holds"
        text = f"({verdict.scope}, {verdict.enforcement}) {verb} {verdict.satisfied}{result}"
        rules.append(Item(symbol="", label=str(verdict.address), text=text))
        if verdict.violations:
            title = f"{verdict.address}: {format_count(len(verdict.violations), 'violation')}"
            items = tuple(
                Item(symbol="", label="", text=format_violation(entry))
                for entry in verdict.violations
            )
            violation_groups.append(ItemGroup(title, items))
    # "": without a heading.
    groups = (ItemGroup(name="", items=tuple(rules)), *violation_groups)
    return Section("Separation rules", groups=groups, name="separation")


def build_check_section(view: PlanReportData) -> Section:
    """Build the conditions and their results."""
    rows = []
    for check in view.plan.verdicts.checks:
        kind = check.kind.replace("_", " ")
        problems = "; ".join(check.messages)
        rows.append(Row((check.address, kind, check.status, problems)))
    table = Table(("address", "kind", "verdict", "problems"), tuple(rows), caption="Conditions")
    return Section("Checks", table=table, name="checks")


def build_rollout_section(view: PlanReportData) -> Section:
    """Build a table per rollout with a row per step.

    The times are the earliest: updates themselves take no time. A failed plan has none.
    """
    if view.plan.is_failed or not view.plan.workloads.rollouts:
        # Otherwise the note alone would be content.
        return NO_SECTION
    tables = []
    for rollout in view.plan.workloads.rollouts:
        snapshot = (
            ""
            if rollout.resource_snapshot is None
            else f", resource snapshot {rollout.resource_snapshot}"
        )
        doubt = (
            ""
            if rollout.previous_snapshot is None
            else f" (or {rollout.previous_snapshot}, if the hub collects changes)"
        )
        caption = f"{rollout.address}: {rollout.cause}{snapshot}{doubt}"
        tables.append(
            Table(
                ("from", "stage", "what"),
                tuple(map(_build_step_row, rollout.steps)),
                caption=caption,
            )
        )
    return Section("Rollout", (ROLLOUT_NOTE,), tables=tuple(tables), name="rollouts")


def _build_step_row(step: RolloutStep) -> Row:
    """Build the row of a rollout step.

    Its earliest start, its stage (of a rolling update: wave), and its action.
    """
    start = f"+{format_duration(step.start_seconds)}" if step.start_seconds else "start"
    # A rolling update instead of a staged run.
    if not step.stage:
        stage = f"wave {step.group}"
    elif step.kind == "delete":
        stage = "delete stage"
    else:
        # 0: no clusters.
        stage = f"{step.stage}{enclose(', group ', step.group)}"
    # The wait, the approval, or the clusters to delete or update.
    if step.kind == "wait":
        text = f"wait {format_duration(step.wait_seconds)}"
    elif step.kind == "approval":
        approval_text = {"waiting": "waits for approval", "later": "approval"}.get(
            step.status, "approved:"
        )
        text = f"{approval_text} {step.waits_for}"
    else:
        verb = "delete" if step.kind == "delete" else "update"
        text = f"{verb} {format_first_items(step.clusters, _MAX_CLUSTERS)}"
    return Row((start, stage, f"{text}{_STATUSES.get(step.status, '')}"))


def build_entry_section(view: PlanReportData) -> Section:
    """Build the warnings and advice in short form."""
    if view.entries == FindingEntries():
        return NO_SECTION
    return Section("Warnings and advice", entries=view.entries, name="entries")


def build_finding_section(view: PlanReportData) -> Section:
    """Build every finding with its source lines."""
    title = f"Findings: {', '.join(count_findings(view.findings))}"
    findings = Findings(merge_equal_findings(view.findings), view.sources)
    return Section(title, findings=findings, name="diagnostics")


def build_error_section(view: PlanReportData) -> Section:
    """Build the errors of a plan."""
    errors = [finding for finding in view.findings if finding.level is Level.ERROR]
    findings = Findings(merge_equal_findings(errors), view.sources)
    return Section("Errors", findings=findings, name="errors")


def build_rename_section(view: PlanReportData) -> Section:
    """Build the renames with VMs to destroy; reports show them before everything else."""
    renames = list_destructive_renames(view.plan)
    levels = {finding.diagnostic.id: finding.level for finding in view.findings}
    selected = tuple(Finding(item, levels[item.id]) for item in merge_renames(renames))
    return Section("Renames", findings=Findings(selected, view.sources), name="renames")


def build_pool_section(view: PlanReportData) -> Section:
    """Build a table per site with a row per changed pool; equal sites share a table."""
    return _build_pools(view, build_site_pools(view.plan, view.changed_tables))


def build_new_pool_section(view: PlanReportData) -> Section:
    """Build the pools if many VMs are new.

    Few VMs are listed elsewhere: then build only pools of unexpected spread.
    """
    section = _build_pools(view, build_site_pools(view.plan, view.changed_tables))
    if len(select_vm_rows(view.plan, PlacementAction.PLACE)) > MAX_NEW_VMS:
        return section
    # The note of a row describes an unexpected spread.
    unexpected = tuple(table for table in section.tables if any(row.note for row in table.rows))
    if not unexpected:
        return NO_SECTION
    return replace(section, tables=unexpected)


def build_all_pools_section(view: PlanReportData) -> Section:
    """Build a table per site with a row per pool, changed or not, those of changed sites first."""
    changed_sites = {row.name for row in view.sites if row.has_changes}
    sites = build_site_pools(view.plan, view.plan.figures.placement_tables)
    # False (changed) first.
    ordered = sorted(sites, key=lambda site: changed_sites.isdisjoint(site.names))
    return _build_pools(view, ordered)


def _build_pools(view: PlanReportData, sites: Sequence[SitePools]) -> Section:
    """Build the section with a table per site.

    It also has the number of pools beyond the maximum of rows.
    """
    # A choice: locations of placed VMs, or the VMs to remove from a smaller pool.
    has_removal_choice = any(
        table.minimum_remaining_on_rack is not None for table in view.plan.figures.placement_tables
    )
    has_choice = view.placed_vms > 0 or has_removal_choice
    tables = tuple(_build_pool_table(site, has_choice=has_choice) for site in sites)
    hidden_count = sum(site.hidden_pools for site in sites)
    lines = (f"and {format_count(hidden_count, 'more pool')}",) if hidden_count else ()
    return Section("Pools", lines, tables=tables, name="pools")


def _build_pool_table(site: SitePools, *, has_choice: bool) -> Table:
    """Build the table of one site with a row per pool.

    It has columns of certainty if a row has any. If VMs are placed or a platform picks those to
    remove (`has_choice`), the caption ends with `(predicted)` or `(by the grants of nexusform)`.
    """
    has_certainty = any(row.exact_counts for row in site.rows)
    headers = (*_HEADERS, *_CERTAINTY_HEADERS) if has_certainty else _HEADERS
    rows = tuple(_build_pool_row(row, len(headers)) for row in site.rows)
    caption = f"VM placement on {site.site}"
    if has_choice:
        caption += " (by the grants of nexusform)" if site.is_decided else " (predicted)"
    return Table(
        headers,
        rows,
        # VMs, per rack.
        number_columns=frozenset({3, 5}),
        caption=caption,
        details=frozenset({6, 7}),  # the certainty
        # The compact form is for comments.
        compact=tuple(map(_build_pool_line, site.rows)),
        is_grouped=True,  # by cluster
        # Each cell on one line.
        is_unwrapped=True,
    )


def _build_pool_row(row: PoolRow, columns: int) -> Row:
    """Build the row of a pool with its first `columns` cells.

    A table without certainty lacks the last two columns.
    """
    cells = (
        row.cluster,
        row.pool,
        row.sku,
        row.count,
        row.racks,
        row.per_rack,
        row.exact_counts,
        row.exact_machines,
    )
    return Row(cells[:columns], note=row.note)


def _build_pool_line(row: PoolRow) -> Text:
    """Build the line of a pool for comments: `web/p: 24 VMs, 3 on rack1..8`.

    An uneven spread is followed by the even one.
    """
    if row.spread:
        # The spread shows the deviating racks.
        spread = row.spread
        # The racks are in the row.
        expected = row.note.rpartition("; ")[2]
    else:
        spread = f"{row.per_rack} on {row.racks}"
        expected = row.note
    note = enclose(" (", expected, ")")
    noun = "VM" if row.count == "1" else "VMs"
    name = StyledText(f"{row.cluster}/{row.pool}", Style.CODE)
    return (name, f": {row.count} {noun}, {spread}{note}")


def build_vm_section(view: PlanReportData) -> Section:
    """Build the changed VMs, similar ones together.

    Many new VMs appear in the table of pools only.
    """
    groups = _select_listed(view, _select_vm_groups(view.groups))
    return _build_placement_group_section("VMs", "vm-changes", groups)


def build_listed_vm_section(view: PlanReportData) -> Section:
    """Build the section of changed VMs with an item per moved or new VM.

    If there are too many, or if an upgrade re-creates nodes, an item has similar VMs together, or
    counts those of a cluster. New VMs alone may be too many: then only moved ones have items.
    """
    section = build_vm_section(view)
    listed = _select_single_lines(view)
    items = tuple(chain.from_iterable(group.items for group in section.groups))
    if not listed:
        # A table has a row per VM.
        return section if len(items) <= MAX_LISTED_VMS else _count_moved_vms(view, section)
    # Such as removed VMs.
    other_items = [item for item in items if item.symbol not in ("~", "+")]
    single_items = [_build_item(_add_certainty(line)) for line in listed]
    return replace(section, groups=(ItemGroup(name="", items=(*single_items, *other_items)),))


def _count_moved_vms(view: PlanReportData, section: Section) -> Section:
    """Return the section of changed VMs with an item per cluster with moved VMs.

    `oslo-amf: 16 VMs are re-created on other machines (cluster_replaced)`.
    """
    items: list[Item] = []
    other_groups: list[PlacementLineGroup] = []
    moves: dict[tuple[str, str], list[PlacementChange]] = {}
    for group in _select_listed(view, _select_vm_groups(view.groups)):
        others = []
        for line in group.lines:
            if line.action is not PlacementAction.MOVE:
                others.append(line)
                continue
            for row in line.rows:
                moves.setdefault((row.cluster, line.trigger), []).append(row)
        other_groups.append(replace(group, lines=tuple(others)))
    for (cluster, trigger), rows in moves.items():
        clauses = ", ".join(format_effect_clauses(count_effects(rows), Effect))
        items.append(Item("~", cluster, f"{clauses} ({trigger})", is_strong=True, count=len(rows)))
    others_section = _build_placement_group_section(section.title, section.name, other_groups)
    return replace(section, groups=(ItemGroup("", tuple(items)), *others_section.groups))


def build_unlisted_section(view: PlanReportData, listed: Section) -> Section:
    """Build the changed VMs, bindings and pods that another section does not list."""
    labels = {item.label for group in listed.groups for item in group.items}
    section = build_placement_section(view)
    groups = [
        replace(group, items=tuple(item for item in group.items if item.label not in labels))
        for group in section.groups
    ]
    return replace(section, groups=tuple(group for group in groups if group.items))


def _select_single_lines(view: PlanReportData) -> list[PlacementLine]:
    """Return the moved VMs, and the new ones if they are few, that a comment lists one by one.

    Return [] if these are too many, or if an upgrade re-creates nodes: they stay
    together as batches.
    """
    if view.plan.impact.upgrades or not build_vm_section(view).has_content:
        return []
    lines_by_action = group_by(_list_vm_lines(view), lambda line: line.action)
    lines = lines_by_action.get(PlacementAction.MOVE, [])
    new = lines_by_action.get(PlacementAction.PLACE, [])
    if len(new) <= MAX_NEW_VMS:
        lines = [*lines, *new]
    return lines if len(lines) <= MAX_LISTED_VMS else []


def _list_vm_lines(view: PlanReportData) -> list[PlacementLine]:
    """Return a line per changed VM."""
    groups = build_placement_groups(view.plan, ShownPlacements.ALL, view.location_formatter)
    return list(chain.from_iterable(group.lines for group in _select_vm_groups(groups)))


def _add_certainty(line: PlacementLine) -> PlacementLine:
    """Return a line with the certainty of its machine in the remark, if it is known."""
    certainty = enclose(
        "", _format_share(line) if line.machine_share is not None else "", " certain"
    )
    return replace(line, doubt=join_texts((line.doubt, certainty), "; "))


def build_workload_section(view: PlanReportData) -> Section:
    """Build the changed clusters of placements, and the changed pods by workload."""
    groups = [group for group in view.groups if group.kind != VM]
    return _build_placement_group_section("Placements", "workloads", groups)


def build_placement_section(view: PlanReportData) -> Section:
    """Build the changed VMs, then the changed clusters of placements and pods."""
    groups = (*build_vm_section(view).groups, *build_workload_section(view).groups)
    return Section("Placement changes", groups=groups, name="placements")


def build_single_vm_section(view: PlanReportData) -> Section:
    """Build a table with a row per moved VM, and per new VM unless they are many.

    The last column has the share of the plan's samples with the VM on the same machine. VMs listed
    one by one by `build_listed_vm_section` have no row.
    """
    groups = build_placement_groups(view.plan, ShownPlacements.ALL, view.location_formatter)
    selected = _select_listed(view, _select_vm_groups(groups))
    actions = (PlacementAction.MOVE, PlacementAction.PLACE)
    listed_labels = {line.label for line in _select_single_lines(view)}
    all_lines = chain.from_iterable(group.lines for group in selected)
    lines = [
        line for line in all_lines if line.action in actions and line.label not in listed_labels
    ]
    rows = tuple(
        Row((StyledText(line.label, Style.CODE), describe_line(line), _format_share(line)))
        for line in lines
    )
    table = Table(("VM", "from → to", "machine certainty"), rows, number_columns=frozenset({2}))
    title = f"{'Other VMs' if listed_labels else 'Every VM'}, with machine certainty"
    return Section(title, table=table, is_folded=True)


def _select_vm_groups(groups: Iterable[PlacementLineGroup]) -> list[PlacementLineGroup]:
    return [group for group in groups if group.kind == VM]


def _format_share(line: PlacementLine) -> str:
    """Format the share of samples with the same machine: `96 %`; `-` if unknown."""
    return f"{line.machine_share * 100:.0f} %" if line.machine_share is not None else "-"


def _select_listed(
    view: PlanReportData, groups: Sequence[PlacementLineGroup]
) -> list[PlacementLineGroup]:
    """Return the groups.

    Without a request for details, many new VMs are left out: the table of pools has them.
    """
    new_vms = select_vm_rows(view.plan, PlacementAction.PLACE)
    if view.vm_detail is ShownPlacements.ALL or view.is_long or len(new_vms) <= MAX_NEW_VMS:
        return list(groups)
    selected = []
    for group in groups:
        lines = group.lines
        # With a row in the table of pools.
        if group.table is not None:
            lines = tuple(line for line in lines if line.trigger != _NEW_TRIGGER)
        selected.append(replace(group, lines=lines))
    return selected


def _build_placement_group_section(
    title: str, name: str, groups: Iterable[PlacementLineGroup]
) -> Section:
    """Build an item per line below the names of their groups; equal groups are merged.

    Groups of single sites come first, and among them those with moves.
    """
    merged = [group for group in merge_equal_groups(groups) if group.lines]
    moves = PlacementAction.MOVE
    # Only merged groups have sites.
    merged.sort(
        key=lambda group: (bool(group.sites), all(line.action is not moves for line in group.lines))
    )
    item_groups = []
    for group_name, members in groupby(merged, _name_group):
        lines = chain.from_iterable(group.lines for group in members)
        item_groups.append(ItemGroup(group_name, tuple(map(_build_item, lines))))
    return Section(title, groups=tuple(item_groups), name=name)


def build_moved_vm_rows(plan: Plan) -> Mapping[str, list[Item]]:
    """Build a row per moved or removed VMs of the sites with many, similar ones together."""
    groups = _select_vm_groups(build_placement_groups(plan, ShownPlacements.CHANGED))
    by_site = group_by(
        (group for group in groups if group.lines), lambda group: group.lines[0].rows[0].site_id
    )
    rows: dict[str, list[Item]] = {}
    for site_id, site_groups in by_site.items():
        lines = [
            line
            for group in merge_equal_groups(site_groups)
            for line in group.lines
            if line.action not in (PlacementAction.PLACE, PlacementAction.KEEP)
        ]
        if sum(line.count for line in lines) > MAX_NEW_VMS:
            rows[site_id] = list(map(_build_item, lines))
    return rows


def _name_group(group: PlacementLineGroup) -> str:
    """Return the name of a group; for merged pools of several sites, the sites."""
    if group.sites:
        return f"{format_names(group.sites)}, each"
    # VM names contain their cluster.
    return "" if group.kind == VM else group.name


def _build_item(line: PlacementLine) -> Item:
    """Build the item of a line; moves are highlighted."""
    is_move = line.action is PlacementAction.MOVE
    return Item(line.symbol, line.label, describe_line(line), is_strong=is_move, count=line.count)


def describe_line(line: PlacementLine) -> Text:
    """Return the text of a line after its name.

    It is `-> target`, `removed from origin`, `origin -> target` or `stays: target`. The trigger and
    an uncertain result follow in brackets.
    """
    remark = enclose(" ", line.remark)
    target = StyledText(line.target, Style.STRONG)
    if line.effect is Effect.PLACED:
        return (ARROW, " ", target, remark)
    if line.is_left_cluster:
        # A folded label only counts the clusters.
        names = enclose(": ", format_names(row.object for row in line.rows[1:] and line.rows))
        if line.rows[0].leaves_objects:
            objects = select_word_form(len(line.rows), "its objects stay", "their objects stay")
            return f"left{names}; {objects}, unmanaged{remark}"
        return f"deleted{names}{remark}"
    # "" if the object is not removed, lost or forgotten.
    leaving_verb = get_leaving_verb(line)
    if leaving_verb:
        return f"{f'{leaving_verb} {line.origin}'.rstrip()}{remark}"
    if line.origin:
        return (f"{line.origin} ", ARROW, " ", target, remark)
    return (enclose("", get_action_text(line), " "), target, remark)


def build_cause_section(view: PlanReportData) -> Section:
    """Build one line with the first causes of moved VMs, and their number.

    An example is `Cause: main.nf.hcl:26, -replace.`
    """
    source_lines = dict.fromkeys(
        format_location(change.source) for change in find_move_causes(view.plan)
    )
    causes = [StyledText(line, Style.LOCATION) for line in source_lines if line]
    triggers = {row.trigger for row in _list_moves(view.plan)}
    if not triggers.isdisjoint(_FLAG_TRIGGERS):
        # No line of the configuration.
        causes.append(StyledText("-replace", Style.CODE))
    if not causes:
        return NO_SECTION
    # Of one line, with their styles.
    parts: list[str | StyledText] = []
    for cause in causes[:_MAX_CAUSES]:
        parts += [", ", cause]
    # It replaces the first comma.
    parts[0] = "Cause: "
    hidden_count = len(causes) - _MAX_CAUSES
    parts.append(f" and {hidden_count:,} more." if hidden_count > 0 else ".")
    return Section(title="", lines=(tuple(parts),), name="causes")


def _list_moves(plan: Plan) -> list[PlacementChange]:
    """Return the rows of moved VMs, except VMs that had no machine."""
    return [row for row in select_vm_rows(plan, PlacementAction.MOVE) if row.source]


def find_move_causes(plan: Plan) -> tuple[Change, ...]:
    """Return the changes of resources behind moves of VMs, in plan order.

    If a VM loses its machine, this is the change of the machine or its rack. Otherwise it is the
    change of the VM's own resource. A move requested by a flag, such as -replace, has no cause
    in the configuration.
    """
    moves = _list_moves(plan)
    hardware_ids: set[str] = set()
    # Addresses of resources of VMs.
    addresses: set[Address] = set()
    for row in moves:
        if row.trigger in _HARDWARE_TRIGGERS:
            assert isinstance(row.source, Placement), "only a VM moves because of hardware"
            # Ids of racks and machines are paths.
            rack = f"{row.site_id}/{row.source.rack}"
            hardware_ids |= {rack, f"{rack}/{row.source.machine}"}
        elif row.trigger not in _FLAG_TRIGGERS:
            addresses.add(row.address)
    changes = (change for change in plan.changes if change.action is not Action.NO_OP)
    return tuple(
        change for change in changes if change.address in addresses or change.id in hardware_ids
    )


_HARDWARE_TRIGGERS = frozenset(
    {"machine_evacuated", "machine_removed", "machine_replaced", "machine_forgotten"}
)
_FLAG_TRIGGERS = frozenset({"requested", "heal", MACHINE_LOST})

_MAX_CLUSTERS: Final = 6
_STATUSES: Final = {"done": " (done before)", "stuck": " (fails there)", "later": " (later)"}
