"""Why a cluster or a pool is where it is, as an answer: the table, the racks, and whom to ask about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.rendering.json.json_placements import table_document
from nexusform.rendering.report.placement_rows import natural, table_row
from nexusform.whatif.pools import Coming, PoolReason
from nexusform.words import counted, listed

_HEADS = ("pool", "SKU", "count", "racks", "VMs per rack")
_RULE = (
    'A rack is chosen by the fewest VMs of the pool (with rack_spread = "cluster": of the cluster first), '
    "then a machine by the fewest VMs of the cluster."
)


def pools_outline(address: str, pools: Sequence[PoolReason]) -> Outline:
    """One or several pools at an address. The first object of each is named as one to ask about."""
    racks = {rack for pool in pools for rack in pool.table.actual_vms_per_rack}
    placed = sum(_placed(pool) for pool in pools)
    wanted = sum(pool.table.total_count for pool in pools)
    vms = counted(wanted, "VM") if placed == wanted else f"{placed:,} of {counted(wanted, 'VM')}"
    several = len({pool.address for pool in pools}) > 1
    table = Table(
        (*(("cluster",) if several else ()), *_HEADS),
        tuple(_row(pool, several) for pool in pools),
        frozenset({2 + several}),
    )
    title = "How its pools spread (expected / actual)"
    sections = [Section(title, table=table), *(_pool(pool, several) for pool in pools)]
    asked = listed([pool.objects[0] for pool in pools if pool.objects], 4)
    ask = (
        f"Why one stands where it does, rule by rule: nexusform explain '{address}' OBJECT, such as {asked}."
    )
    verdict = f"{vms} on {counted(len(racks), 'rack')}"
    return Outline(address, verdict, placed < wanted, (_RULE, ask), tuple(sections))


def _placed(pool: PoolReason) -> int:
    return sum(pool.table.actual_vms_per_rack.values())


def _row(pool: PoolReason, several: bool) -> Row:
    cluster, name, sku, count, expected, actual, floor, each = table_row(pool.table)
    front = (cluster,) if several else ()
    return Row(
        (*front, name, sku, count, f"{expected} / {actual}", f"{floor} / {each}"),
        _placed(pool) < pool.table.total_count,
    )


def _pool(pool: PoolReason, several: bool) -> Section:
    racks = sorted(pool.table.actual_vms_per_rack.items(), key=lambda item: natural(item[0]))
    zones = "all" if not pool.zones else ", ".join(sorted(pool.zones, key=natural))
    lines = [
        f"Racks: {', '.join(f'{rack} {count}' for rack, count in racks) or 'none'}.",
        f"Availability zones: {zones}.",
    ]
    if pool.came:
        lines.append(f"Why they came: {'; '.join(_came(each) for each in pool.came)}.")
    lines.append(f"Objects: {listed(pool.objects, 5)}.")
    name = f"{pool.table.cluster}/{pool.table.pool}" if several else pool.table.pool
    return Section(name, tuple(lines))


def _came(coming: Coming) -> str:
    when = "by this plan" if coming.serial is None else f"at serial {coming.serial}"
    return f"{coming.trigger} ({counted(coming.count, 'VM')} {when})"


def pools_document(address: str, pools: Sequence[PoolReason]) -> dict[str, Any]:
    """The same as data."""
    return {
        "address": address,
        "kind": "pools",
        "pools": [
            {
                "address": str(pool.address),
                **table_document(pool.table),
                "availability_zones": None if pool.zones is None else list(pool.zones),
                "came": [
                    {"trigger": each.trigger, "serial": each.serial, "count": each.count}
                    for each in pool.came
                ],
                "objects": list(pool.objects),
            }
            for pool in pools
        ],
    }
