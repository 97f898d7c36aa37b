"""Why the VMs of pools are where they are, as an answer: the table, the racks, and whom to ask about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nexusform.json_forms import Form
from nexusform.plans.impact.pool_reason import Coming, PoolReason
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.rendering.json.json_placements import TABLE
from nexusform.rendering.report.placement_rows import table_row
from nexusform.words import counted, listed, natural

_HEADS = ("pool", "SKU", "count", "racks", "VMs per rack")
_RULE = (
    'A rack is chosen by the fewest VMs of the pool (with rack_spread = "cluster": of the cluster first), '
    "then a machine by the fewest VMs of the cluster."
)


def pools_outline(address: str, pools: Sequence[PoolReason]) -> Outline:
    """One or several pools at an address. The first object of each is named as one to ask about."""
    several = len({pool.address for pool in pools}) > 1
    heads = ("cluster", *_HEADS) if several else _HEADS
    rows = tuple(_row(pool, several) for pool in pools)
    table = Table(heads, rows, frozenset({heads.index("count")}))
    sections = [Section("How its pools spread (expected / actual)", table=table)]
    sections += [_pool_section(pool, several) for pool in pools]
    examples = listed([pool.objects[0] for pool in pools if pool.objects], 4)
    ask = (
        f"Why one stands where it does, rule by rule: nexusform explain '{address}' OBJECT, such as "
        f"{examples}."
    )
    falls_short = any(pool.missing for pool in pools)
    return Outline(address, _verdict(pools), falls_short, (_RULE, ask), tuple(sections))


def _verdict(pools: Sequence[PoolReason]) -> str:
    """`24 VMs on 8 racks`, or how many of them stand."""
    racks: set[str] = set()
    for pool in pools:
        racks |= pool.table.actual_vms_per_rack.keys()
    total = sum(pool.table.total_count for pool in pools)
    missing = sum(pool.missing for pool in pools)
    vms = f"{total - missing:,} of {counted(total, 'VM')}" if missing else counted(total, "VM")
    return f"{vms} on {counted(len(racks), 'rack')}"


def _row(pool: PoolReason, several: bool) -> Row:
    """The figures of a pool, its cluster first where there are several."""
    row = table_row(pool.table)
    cluster, name, sku, count, racks, actual_racks, vms, actual_vms = row
    cells = (name, sku, count, f"{racks} / {actual_racks}", f"{vms} / {actual_vms}")
    return Row((cluster, *cells) if several else cells, pool.missing > 0)


def _pool_section(pool: PoolReason, several: bool) -> Section:
    """Racks, zones, causes and objects of one pool."""
    counts = pool.table.actual_vms_per_rack
    racks = ", ".join(f"{rack} {counts[rack]}" for rack in sorted(counts, key=natural))
    zones = ", ".join(sorted(pool.zones, key=natural)) if pool.zones else "all"
    lines = [f"Racks: {racks or 'none'}.", f"Availability zones: {zones}."]
    if pool.came:
        lines.append(f"Why they came: {'; '.join(_came(coming) for coming in pool.came)}.")
    lines.append(f"Objects: {listed(pool.objects, 5)}.")
    name = f"{pool.table.cluster}/{pool.table.pool}" if several else pool.table.pool
    return Section(name, tuple(lines))


def _came(coming: Coming) -> str:
    """`scale_out (3 VMs at serial 7)`."""
    when = "by this plan" if coming.serial is None else f"at serial {coming.serial}"
    return f"{coming.trigger} ({counted(coming.count, 'VM')} {when})"


_POOL: Final = Form(
    PoolReason,
    "address *table availability_zones=zones came objects",
    table=TABLE,
    came="trigger serial count",
)


def pools_document(address: str, pools: Sequence[PoolReason]) -> dict[str, Any]:
    """The pools of an object, as JSON data."""
    return {"address": address, "kind": "pools", "pools": [_POOL(pool) for pool in pools]}
