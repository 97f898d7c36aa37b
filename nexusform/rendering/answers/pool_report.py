"""Answer about the placement of pools: table, racks and example objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nexusform.diagnostics.phrases import compute_natural_sort_key, format_count, format_list
from nexusform.json_data.record_forms import RecordForm
from nexusform.plans.impact.pool_reason import PoolPlacement, VmCountByTrigger
from nexusform.rendering.json.json_placements import TABLE_FORM
from nexusform.rendering.report.placement_rows import build_table_row
from nexusform.rendering.report.report_tree import Report, Row, Section, Table

_HEADERS = ("pool", "SKU", "count", "racks", "VMs per rack")
_RULE = (
    'The rack with the fewest VMs of the pool wins (with rack_spread = "cluster": of the cluster first), '
    "then a machine by the fewest VMs of the cluster."
)


def build_pools_report(address: str, pools: Sequence[PoolPlacement]) -> Report:
    """Build the answer about one or several pools at an address, with the first object of each as an example."""
    has_several = len({pool.address for pool in pools}) > 1
    headers = ("cluster", *_HEADERS) if has_several else _HEADERS
    rows = tuple(_build_pool_row(pool, has_several) for pool in pools)
    table = Table(headers, rows, frozenset({headers.index("count")}))
    sections = [Section("How its pools spread (expected / actual)", table=table)]
    sections += [_build_pool_section(pool, has_several) for pool in pools]
    examples = format_list([pool.objects[0] for pool in pools if pool.objects], 4)
    hint = f"To explain one placement: nexusform explain '{address}' OBJECT, such as {examples}."
    has_missing = any(pool.missing_count for pool in pools)
    # `24 VMs on 8 racks`, or the number of existing VMs.
    racks: set[str] = set()
    for pool in pools:
        racks |= pool.table.actual_vms_per_rack.keys()
    total = sum(pool.table.total_count for pool in pools)
    missing = sum(pool.missing_count for pool in pools)
    vms = f"{total - missing:,} of {format_count(total, 'VM')}" if missing else format_count(total, "VM")
    return Report(address, f"{vms} on {format_count(len(racks), 'rack')}", has_missing, (_RULE, hint), tuple(sections))


def _build_pool_row(pool: PoolPlacement, has_several: bool) -> Row:
    """Build the figures of a pool, with its cluster first if there are several."""
    row = build_table_row(pool.table)
    cluster, name, sku, count, racks, actual_racks, vms, actual_vms = row
    cells = (name, sku, count, f"{racks} / {actual_racks}", f"{vms} / {actual_vms}")
    return Row((cluster, *cells) if has_several else cells, pool.missing_count > 0)


def _build_pool_section(pool: PoolPlacement, has_several: bool) -> Section:
    """Build racks, zones, causes and objects of one pool."""
    counts = pool.table.actual_vms_per_rack
    racks = ", ".join(f"{rack} {counts[rack]}" for rack in sorted(counts, key=compute_natural_sort_key))
    zones = ", ".join(sorted(pool.zones, key=compute_natural_sort_key)) if pool.zones else "all"
    lines = [f"Racks: {racks or 'none'}.", f"Availability zones: {zones}."]
    if pool.origins:
        lines.append(f"Triggers: {'; '.join(_format_placement_cause(cause) for cause in pool.origins)}.")
    lines.append(f"Objects: {format_list(pool.objects, 5)}.")
    name = f"{pool.table.cluster}/{pool.table.pool}" if has_several else pool.table.pool
    return Section(name, tuple(lines))


def _format_placement_cause(cause: VmCountByTrigger) -> str:
    """Format a cause: `scale_out (3 VMs at serial 7)`."""
    time_text = "by this plan" if cause.serial is None else f"at serial {cause.serial}"
    return f"{cause.trigger} ({format_count(cause.count, 'VM')} {time_text})"


_POOL_FORM: Final = RecordForm(
    PoolPlacement,
    "address *table availability_zones=zones came=origins objects",
    table=TABLE_FORM,
    came="trigger serial count",
)


def build_pools_document(address: str, pools: Sequence[PoolPlacement]) -> dict[str, Any]:
    """Build the pools of an object as JSON data."""
    return {"address": address, "kind": "pools", "pools": [_POOL_FORM(pool) for pool in pools]}
