"""Placement hints from a plan of the saved files."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.diagnostics.name_ranges import format_names
from nexusform.diagnostics.phrases import enclose, format_count, group_by, select_word_form
from nexusform.domains.editor.editor_sandbox import open_editor_sandbox
from nexusform.domains.editor.module_files import ModuleText, get_native_body
from nexusform.language.syntax.syntax_nodes import Block
from nexusform.placement_kinds.registry import format_location_text
from nexusform.plans.plan import Mode, PlacementTable, Plan
from nexusform.scheduling.racks.vms import Interval
from nexusform.workflow.opening.command_context import CommandContext, create_editor_context
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.runs.run import PlanOptions, begin_run
from nexusform.workflow.runs.state_locking import LockOptions

_MAX_NAMES = 4


class PlacementPreview(Struct, frozen=True):
    """Placement by block (`nexus_kubernetes_cluster.a`) and pool, "" for the whole block.

    `hints` are short, `texts` detailed. `findings` are the plan's diagnostics about lines
    of the files.
    """

    hints: Mapping[tuple[str, str], str] = field(default_factory=dict)
    texts: Mapping[tuple[str, str], str] = field(default_factory=dict)
    findings: tuple[Diagnostic, ...] = ()


def build_saved_preview(directory: str) -> PlacementPreview:
    """Return the preview of a plan over the state, made without a lock and providers.

    It is empty if planning fails.
    """
    context = create_editor_context(directory, dict(os.environ))
    with open_editor_sandbox(context):
        plan = _plan_saved_files(context)
    return PlacementPreview() if plan is None else build_preview(plan)


def _plan_saved_files(context: CommandContext) -> Plan | None:
    """Return the plan of a directory's files; None if planning fails."""
    project = open_project(context).project
    if project is None:
        return None
    # No lock, and no warning without one.
    locking = LockOptions(enabled=False, is_exclusive=True)
    with begin_run(project, "OperationTypePlan", locking, records_recovery=False) as run:
        if not run.is_ready:
            return None
        return run.plan(PlanOptions(mode=Mode.NORMAL, refresh=False, samples=0)).plan


def build_preview(plan: Plan) -> PlacementPreview:
    """Return the preview of a plan: hints and texts by block and pool.

    Texts of instances of one block are joined.
    """
    # By address of the block and pool ("": no pool), a text per instance. `a.b[0]` belongs to
    # the block `a.b`.
    hints: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    texts: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    # By address of the instance and pool.
    zones: dict[tuple[str, str], list[str]] = {}
    for site in plan.site_records.sites:
        for pool in site.pools:
            vms = (*pool.unchanged, *pool.added)
            zones[str(pool.address), pool.pool] = sorted(
                {vm.placement.availability_zone for vm in vms}
            )
    for table in plan.figures.placement_tables:
        key = (str(table.address.config_address), table.pool)
        pool_zones = zones.get((str(table.address), table.pool), [])
        hints[key].append(_format_vms_per_rack(table))
        texts[key].append(_format_pool(table, plan, pool_zones))
    for row in plan.placements:
        # VMs and bindings without a pool are in no table; a hint has the location of each.
        if row.target is not None and not row.pool and row.kind in ("vm", "binding"):
            hints[str(row.address.config_address), ""].append(format_location_text(row.target))
    return PlacementPreview(
        hints={key: _join_first_texts(parts, "; ") for key, parts in hints.items()},
        texts={key: _join_first_texts(parts, "\n\n") for key, parts in texts.items()},
        findings=tuple(finding for finding in plan.diagnostics if finding.subject is not None),
    )


def _format_vms_per_rack(table: PlacementTable) -> str:
    """Format the VMs per rack: `rack1..8: 3 each`, `rack1,2: 3, rack3: 2`."""
    vms_per_rack = table.rack_counts
    racks_by_count = group_by(vms_per_rack, lambda rack: vms_per_rack[rack])
    texts = [
        f"{format_names(names)}: {Interval(*count)}"
        for count, names in sorted(racks_by_count.items(), reverse=True)
    ]
    has_equal_racks = len(racks_by_count) == 1 and len(vms_per_rack) > 1
    return f"{texts[0]} each" if has_equal_racks else ", ".join(texts)


def _format_pool(table: PlacementTable, plan: Plan, zones: list[str]) -> str:
    """Format a pool, with its VMs per rack.

    An example is `cluster1/pool1: 12 VMs on zones 1, 4; capacity for 7 more`.
    """
    capacity = next(
        (
            row.after
            for row in plan.site_records.capacity
            if (row.site_id, row.sku) == (table.site_id, table.vm_sku_name)
        ),
        None,
    )
    capacity_text = f"; capacity for {capacity.free:,} more" if capacity is not None else ""
    zones_text = enclose(f" on {select_word_form(len(zones), 'zone')} ", ", ".join(zones))
    return (
        f"{table.cluster}/{table.pool}: "
        f"{format_count(table.total_count, 'VM')}{zones_text}{capacity_text}\n\n"
        f"{_format_vms_per_rack(table)} (predicted)"
    )


def _join_first_texts(texts: list[str], separator: str) -> str:
    """Join the texts of the instances of a block, at most four of them: `a; b; c; d; 3 more`."""
    shown_texts = texts[:_MAX_NAMES]
    if len(texts) > _MAX_NAMES:
        shown_texts.append(f"{len(texts) - _MAX_NAMES} more")
    return separator.join(shown_texts)


def list_placement_blocks(module: ModuleText, path: str) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield the key of each resource and of each block in it, with a byte position.

    An example is `(("nexus_kubernetes_cluster.a", "pool1"), 120)`. The key in a preview is address
    and pool ("" for a resource). The byte is at the end of the header.
    """
    for block in module.list_blocks(path):
        if block.type != "resource":
            continue
        address = ".".join(label.value for label in block.labels)
        yield (address, ""), block.header_span.end.byte
        for inner_block in get_native_body(block).blocks:
            yield (address, get_pool_name(inner_block)), inner_block.header_span.end.byte


def get_pool_name(block: Block) -> str:
    """Return the pool declared by a nested block, as named in placements.

    Without a label, return the block type.
    """
    if block.type == "control_plane":
        return "control-plane"
    return block.labels[0].value if block.labels else block.type
