"""Placements in a comment: moves with their causes, new VMs, cluster selections, pods and spare capacity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from nexusform.diagnostics.phrases import compute_natural_key, format_count, format_first, format_list, select_form
from nexusform.placement_kinds.kinds import KINDS, VM, PlacementKind
from nexusform.plans.impact.effects import Effect, compute_effect, is_upgrade_row, list_upgrade_pools
from nexusform.plans.plan import Action, Change, PlacementAction, PlacementChange, PlacementTable, Plan
from nexusform.rendering.pull_request.markdown_parts import (
    escape_plain_text,
    format_code,
    format_location_link,
    render_table,
)
from nexusform.rendering.report.capacity_table import CapacityRow
from nexusform.rendering.report.code_origin import CodeOrigin
from nexusform.rendering.report.folding import format_instances, format_names, format_range
from nexusform.rendering.report.overview import Overview
from nexusform.rendering.report.placement_rows import (
    PlacementGroup,
    PlacementLine,
    format_alternatives,
    get_departure_verb,
    get_line_verb,
)
from nexusform.rendering.report.plan_report import Report
from nexusform.rendering.report.rollout_rows import HEADERS
from nexusform.rendering.report.wording import VmMove, describe_trigger, list_vm_moves
from nexusform.scheduling.decision import Location
from nexusform.scheduling.racks.vms import Placement

_MAX_ROWS: Final = 15
_MAX_NEW_VMS: Final = 12  # up to this number, new VMs are listed individually
_MAX_NAMES: Final = 10
_MAX_CAUSES: Final = 5
_NEW_TRIGGER: Final = "new"  # the trigger omitted in a table of new VMs


# --- VMs one by one ----------------------------------------------------------------------------


def render_vm_table(plan: Plan) -> list[str]:
    """Render moved VMs and few new VMs with old and new locations, by pool if there are many."""
    rows = _select_listed_vms(plan)
    return _render_vms(rows, plan, has_shares=False) if len(rows) <= _MAX_ROWS else _render_moved_pools(rows)


def render_all_vms(plan: Plan) -> list[str]:
    """Render the VMs individually with the certainty of each machine, if `render_vm_table` omits any of
    it.
    """
    rows = [row for row in plan.placements if row.kind == VM and row.action is PlacementAction.MOVE]
    rows = rows if plan.upgrades else _select_listed_vms(plan)
    is_needed = len(rows) > _MAX_ROWS or plan.upgrades or plan.samples
    return _render_vms(rows, plan, has_shares=True) if is_needed else []


def _select_listed_vms(plan: Plan) -> list[PlacementChange]:
    vms = [row for row in plan.placements if row.kind == VM]
    upgrade_pools = list_upgrade_pools(plan)
    moves = [
        row
        for row in vms
        if row.action is PlacementAction.MOVE and not (upgrade_pools and is_upgrade_row(row, upgrade_pools))
    ]
    new = [row for row in vms if row.action is PlacementAction.PLACE]
    return [*moves, *(new if len(new) <= _MAX_NEW_VMS else ())]


def _render_vms(rows: Sequence[PlacementChange], plan: Plan, *, has_shares: bool) -> list[str]:
    """Render a table of moved and new VMs; none without any. `has_shares` adds the share of samples with this
    machine.
    """
    moves = list_vm_moves(rows, plan.samples)
    if not moves:
        return []
    headers = ["VM", "from → to" if any(move.origin for move in moves) else "to"]
    has_certainty = has_shares and any(move.machine_share is not None for move in moves)
    if has_certainty:
        headers.append("machine certainty")
    cells = [_build_vm_cells(move, has_certainty=has_certainty) for move in moves]
    return render_table(headers, cells, figures=1 if has_certainty else 0)


def _render_moved_pools(rows: Sequence[PlacementChange]) -> list[str]:
    """Render VMs by pool and effect, with old and new racks."""
    groups: dict[tuple[str, str, Effect], list[PlacementChange]] = {}
    for row in rows:
        groups.setdefault((row.cluster, row.pool, compute_effect(row)), []).append(row)
    cells = []
    for (cluster, pool, effect), members in groups.items():
        name = "/".join(part for part in (cluster, pool) if part) or members[0].object
        cells.append([format_code(name).replace("|", "\\|"), _format_rack_moves(members, effect), f"{len(members):,}"])
    visible_cells = cells[:_MAX_ROWS]
    if len(cells) > len(visible_cells):
        visible_cells[-1] = [f"and {len(cells) - len(visible_cells) + 1:,} more", "", ""]
    return render_table(["Pool", "from → to", "VMs"], visible_cells, figures=1)


def _format_rack_moves(rows: Sequence[PlacementChange], effect: Effect) -> str:
    origins = _format_racks(row.source for row in rows)
    targets = f"**{_format_racks(row.target for row in rows)}**"
    if effect is Effect.RECREATED:
        return f"{targets}, in place"
    if origins == targets.strip("*"):
        return f"{targets}, to other machines of the same racks"
    return f"{origins} → {targets}" if origins else targets


def _format_racks(locations: Iterable[Location | None]) -> str:
    names = {location.rack for location in locations if isinstance(location, Placement)}
    return escape_plain_text(format_names(sorted(names, key=compute_natural_key)))


def _build_vm_cells(move: VmMove, *, has_certainty: bool) -> list[str]:
    """Build the cells of a new or moved VM."""
    cells = [format_code(move.vm).replace("|", "\\|"), _format_move(move)]
    if has_certainty:
        share = move.machine_share
        cells.append(f"{share * 100:.0f} %" if share is not None else "-")
    return cells


def _format_move(move: VmMove) -> str:
    """Format the old and new location of a VM, and the trigger of a new one."""
    target = f"**{escape_plain_text(move.target)}**"
    if move.in_place:
        return f"{target}, {move.in_place}"
    if move.origin:
        return f"{escape_plain_text(move.origin)} → {target}"
    return target if move.trigger in ("", _NEW_TRIGGER) else f"{target} ({escape_plain_text(move.trigger)})"


def render_causes(plan: Plan, origin: CodeOrigin) -> list[str]:
    """Render the causes of moves: `Cause: main.nf.hcl:26.`."""
    moves = [row for row in plan.placements if row.kind == VM and row.action is PlacementAction.MOVE]
    if not moves:
        return []
    locations = dict.fromkeys(format_location_link(change.source, origin) for change in find_move_causes(plan))
    causes = [location for location in locations if location]
    causes += [format_code("-replace")] if any(row.trigger in _FLAG_TRIGGERS for row in moves) else []
    sentences = [f"Cause: {format_first(causes, _MAX_CAUSES)}."] if causes else []
    return [" ".join(sentences)] if sentences else []


# --- pools -------------------------------------------------------------------------------------


def render_new_pools(report: Report) -> list[str]:
    """Render the racks of new VMs by pool, if there are too many to list. Many pools that differ in their
    cluster only share a row.
    """
    pools: list[tuple[PlacementGroup, int]] = []
    for group in report.groups:
        new = sum(line.count for line in group.lines if line.action is PlacementAction.PLACE)
        if group.kind == VM and new:
            pools.append((group, new))
    if sum(new for _, new in pools) <= _MAX_NEW_VMS:
        return []
    if len(pools) <= _MAX_ROWS:
        return render_table(_POOL_HEADERS, [_build_pool_cells(group, new) for group, new in pools])
    rows = [_build_folded_cells(equal_pools) for equal_pools in _group_equal_pools(pools)]
    visible_rows = rows[:_MAX_ROWS]
    if len(rows) > len(visible_rows):
        visible_rows[-1] = (f"and {len(rows) - len(visible_rows) + 1:,} more", "", "")
    return render_table(_POOL_HEADERS, visible_rows)


_POOL_HEADERS: Final = ("Pool", "new", "VMs per rack")


def _group_equal_pools(pools: Iterable[tuple[PlacementGroup, int]]) -> Iterable[list[tuple[PlacementGroup, int]]]:
    """Group pools of one name, SKU and size, in the order of the first of each."""
    pools_by_key: dict[tuple[str, str, int, int], list[tuple[PlacementGroup, int]]] = {}
    for group, new in pools:
        pool = group.table
        key = (group.name, "", new, 0)
        if pool is not None:
            key = (pool.pool, pool.vm_sku_name, new, pool.total_count)
        pools_by_key.setdefault(key, []).append((group, new))
    return pools_by_key.values()


def _build_folded_cells(equal_pools: Sequence[tuple[PlacementGroup, int]]) -> tuple[str, str, str]:
    """Build the row of several equal pools."""
    group, new = equal_pools[0]
    tables = [member.table for member, _ in equal_pools if member.table is not None]
    if len(equal_pools) == 1 or not tables:
        return _build_pool_cells(group, new)
    numbers = chain.from_iterable(pool.actual_vms_per_rack.values() for pool in tables)
    racks = dict.fromkeys(chain.from_iterable(pool.actual_vms_per_rack for pool in tables))
    name = f"{format_names(pool.cluster for pool in tables)}/{tables[0].pool}"
    unexpected_count = sum(bool(_format_expected(pool)) for pool in tables)
    note = f" ({unexpected_count:,} unexpected)" if unexpected_count else ""
    count = f"{len(equal_pools):,} x {new:,}"
    if new != tables[0].total_count:
        count += f" of {tables[0].total_count:,}"
    return (
        escape_plain_text(name),
        count,
        escape_plain_text(f"{format_range(numbers)} on {format_count(len(racks), 'rack')}{note}"),
    )


def _build_pool_cells(group: PlacementGroup, new: int) -> tuple[str, str, str]:
    if group.table is None:
        targets = "; ".join(line.target for line in group.lines if line.action is PlacementAction.PLACE)
        return escape_plain_text(group.name), f"{new:,}", escape_plain_text(targets)
    count = f"{new:,}" if new == group.table.total_count else f"{new:,} of {group.table.total_count:,}"
    return escape_plain_text(group.name), count, escape_plain_text(_format_spread(group.table))


def _format_spread(pool: PlacementTable) -> str:
    """Format the VMs per rack: `12 on rack7,8`; `4 on rack1,2, 5 on rack3 (expected 4 on 3 racks)`."""
    racks: dict[int, list[str]] = {}
    for rack, number in pool.actual_vms_per_rack.items():
        racks.setdefault(number, []).append(rack)
    texts = [f"{number:,} on {format_names(racks[number])}" for number in sorted(racks, reverse=True)]
    return f"{'; '.join(texts)}{_format_expected(pool)}"


def _format_expected(pool: PlacementTable) -> str:
    """Format the expected spread if the actual one differs."""
    numbers = set(pool.actual_vms_per_rack.values())
    is_expected = numbers <= set(pool.expected_vms_per_rack) and pool.actual_racks == pool.expected_racks
    if is_expected:
        return ""
    count = pool.expected_racks
    return f" (expected {format_alternatives(pool.expected_vms_per_rack)} on {count:,} {select_form(count, 'rack')})"


def render_unexpected_pools(report: Report) -> list[str]:
    """Render pools with an unexpected spread, if no table of new VMs contains it."""
    tables = [(group.name, group.table) for group in report.groups if group.table is not None]
    return [
        f"- {escape_plain_text(name)}: {escape_plain_text(_format_spread(pool))}"
        for name, pool in tables
        if _format_expected(pool)
    ]


# --- bindings, pods, and what leaves -----------------------------------------------------------


def render_bindings(plan: Plan) -> list[str]:
    """Render the selected and dropped clusters of placements, one line for placements with equal changes."""
    by_placement: dict[str, list[PlacementChange]] = {}
    for row in plan.placements:
        is_relevant = row.action is not PlacementAction.KEEP or row.trigger
        if is_relevant and KINDS[row.kind].by_resource:
            by_placement.setdefault(str(row.address), []).append(row)
    names_by_clauses: dict[str, list[str]] = {}
    for name, rows in by_placement.items():
        names_by_clauses.setdefault("; ".join(_build_binding_clauses(rows)), []).append(name)
    return [f"- {format_code(format_instances(names))} {clauses}" for clauses, names in names_by_clauses.items()]


def _list_binding_verbs(kind: PlacementKind) -> dict[PlacementAction, str]:
    """Return the verbs of a kind by action, in display order."""
    return {
        PlacementAction.PLACE: kind.add_verb,
        PlacementAction.REMOVE: kind.remove_verb,
        PlacementAction.MOVE: "moves",
        PlacementAction.UPDATE: "updates",
        PlacementAction.KEEP: "keeps",
        PlacementAction.LOSE: "loses",
        PlacementAction.FORGET: "is forgotten on",
    }


def _build_binding_clauses(rows: Sequence[PlacementChange]) -> list[str]:
    """Build clauses such as `picks **east**` by action and trigger."""
    groups: dict[tuple[PlacementAction, str], list[str]] = {}
    for row in rows:
        groups.setdefault((row.action, describe_trigger(row)), []).append(f"**{escape_plain_text(row.object)}**")
    clauses = []
    for action, verb in _list_binding_verbs(KINDS[rows[0].kind]).items():
        for (row_action, trigger), names in groups.items():
            if row_action is action:
                trigger_note = f" ({escape_plain_text(trigger)})" if trigger else ""
                clauses.append(f"{verb} {format_list(names, _MAX_NAMES)}{trigger_note}")
    return clauses


def render_other_vms(report: Report) -> list[str]:
    """Render removed VMs and observations, a line per run. VM names contain the cluster."""
    table_actions = (PlacementAction.PLACE, PlacementAction.MOVE)
    groups = [group for group in report.groups if group.kind == VM]
    lines = chain.from_iterable(group.lines for group in groups)
    return [f"- {_render_line(line)}" for line in lines if line.action not in table_actions]


def render_pods(report: Report) -> list[str]:
    """Render pods with their workload, a line per run."""
    groups = [group for group in report.groups if KINDS[group.kind].runs_on_vms]
    lines: list[str] = []
    for group in groups:
        lines += [f"- {escape_plain_text(group.name)}: {_render_line(line)}" for line in group.lines]
    return lines


def _render_line(line: PlacementLine) -> str:
    """Render one object, or a run of them, with origin, target and trigger."""
    label = format_code(line.label)
    target, origin = escape_plain_text(line.target), escape_plain_text(line.origin)
    trigger_note = f" {escape_plain_text(line.remark)}" if line.remark else ""
    match line.effect:
        case _ if get_departure_verb(line):
            return f"{label} {f'{get_departure_verb(line)} {origin}'.rstrip()}{trigger_note}"
        case Effect.PLACED:
            return f"{label} → **{target}**{trigger_note}"
        case _ if origin:
            return f"{label} {origin} → **{target}**{trigger_note}"
        case _:
            location = f"{get_line_verb(line)} {target}".lstrip()
            return f"{label} {location}{trigger_note}"


# --- causes ------------------------------------------------------------------------------------


def find_move_causes(plan: Plan) -> tuple[Change, ...]:
    """Find the changes that cause moves of VMs, in plan order. The cause is the VM's own resource if it has
    the trigger, or the changed machine or rack if the VM loses its machine. VMs named by `-replace` have no
    cause in the configuration.
    """
    moves = [row for row in plan.placements if row.kind == VM and row.action is PlacementAction.MOVE]
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


_MAX_SITES: Final = 3  # with a visible table
_MAX_SITE_NAMES: Final = 4  # of sites with the same capacity


def render_capacity(sites: Sequence[str], rows: Sequence[CapacityRow]) -> list[str]:
    """Render the tables of the sites with changed capacity, and the number of other sites."""
    if not rows:
        return []
    selected_sites, other_note = _select_sites(len(sites), rows)
    lines: list[str] = []
    for number in selected_sites:
        lines += ["", *_render_site(sites[number], number, rows)]
    return [*lines[1:], *(["", other_note] if other_note else [])]


def _select_sites(count: int, rows: Sequence[CapacityRow]) -> tuple[list[int], str]:
    """Select the sites with less capacity, then changed sites, or the first sites without any change; and
    describe the others.
    """
    changed_sites = [number for number in range(count) if _has_changes(rows, number)]
    worse = [number for number in changed_sites if any(row.worse[number] for row in rows)]
    ranked = [*worse, *(number for number in changed_sites if number not in worse)]
    selected_sites = sorted((ranked or list(range(count)))[:_MAX_SITES])
    if not changed_sites:
        further_count = count - len(selected_sites)
        return (selected_sites, f"and {format_count(further_count, 'more site')} unchanged" if further_count else "")
    unchanged_count, hidden_count = count - len(changed_sites), len(changed_sites) - len(selected_sites)
    clauses = [f"{format_count(hidden_count, 'more site')} changed"] if hidden_count else []
    clauses += [f"{format_count(unchanged_count, 'site')} unchanged"] if unchanged_count else []
    return selected_sites, f"and {' and '.join(clauses)}" if clauses else ""


def _has_changes(rows: Sequence[CapacityRow], number: int) -> bool:
    return any(row.values[number][0] != row.values[number][1] for row in rows)


def _render_site(site: str, number: int, rows: Iterable[CapacityRow]) -> list[str]:
    """Render the capacity of one site before and after."""
    return render_table(
        (escape_plain_text(site), "before", "after"), [_build_cells(row, number) for row in rows], figures=2
    )


def _build_cells(row: CapacityRow, number: int) -> list[str]:
    """Build the cells of one figure of a site."""
    before, after = row.values[number]
    return [
        escape_plain_text(row.label),
        escape_plain_text(before),
        f"**{escape_plain_text(after)}**" if row.worse[number] else escape_plain_text(after),
    ]


def render_all_capacity(overview: Overview) -> str:
    """Render the capacity of all sites as text if only some have a table. Sites without changes and with
    equal figures share a heading.
    """
    if len(overview.sites) <= _MAX_SITES:
        return ""
    lines: list[str] = []
    unchanged_sites: dict[tuple[str, ...], list[str]] = {}
    for number, site in enumerate(overview.sites):
        figures = [(row.label, *row.values[number]) for row in overview.capacity]
        if _has_changes(overview.capacity, number):
            lines += [f"{site}:", *(f"  {label}: {before} -> {after}" for label, before, after in figures)]
        else:
            unchanged_sites.setdefault(tuple(f"  {label}: {after}" for label, _, after in figures), []).append(site)
    for figure_lines, names in unchanged_sites.items():
        lines += [f"{format_names(names, _MAX_SITE_NAMES)} (unchanged):", *figure_lines]
    return "\n".join(lines)


_MAX_STEPS: Final = 20


def render_rollouts(report: Report) -> list[str]:
    """Render the steps of rollouts; times are the earliest."""
    lines: list[str] = []
    for rollout in report.rollouts:
        rows, hidden_note = rollout.limit_rows(_MAX_STEPS)
        cells = [list(map(escape_plain_text, row)) for row in rows]
        lines += ["", format_code(rollout.title), "", *render_table(HEADERS, cells)]
        lines += ["", f"{hidden_note}."] if hidden_note else []
    return lines[1:]
