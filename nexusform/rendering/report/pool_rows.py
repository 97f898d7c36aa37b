"""The table of the Nexus document in short: a row per pool, expected figures only where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from nexusform.planning.plan import PlacementTable, Plan
from nexusform.rendering.report.folding import names_text
from nexusform.words import counted

MOST_ROWS: Final = 40  # beyond, pools that differ in their cluster alone are one row


class PoolRow(Struct, frozen=True):
    """A pool, or alike pools of several clusters, as texts.

    `sure` is how many VMs have a rack that holds as many of the pool in every tie-break; "" when none was
    repeated or nothing is placed. `note` says what was expected, "" where that is what is. `pools` counts
    what it stands for.
    """

    cluster: str
    pool: str
    sku: str
    count: str
    racks: str
    per_rack: str
    sure: str
    note: str = ""
    pools: int = 1


class SitePools(Struct, frozen=True):
    """The rows of one site, by its name; `left_out` pools have none."""

    site: str
    rows: tuple[PoolRow, ...]
    left_out: int = 0


def site_pools(plan: Plan, tables: Sequence[PlacementTable]) -> tuple[SitePools, ...]:
    """These tables by site, each table in one row."""
    names = {site.id: site.name for site in plan.sites}
    by_site: dict[str, list[PlacementTable]] = {}
    for table in tables:
        if table.total_count:
            by_site.setdefault(table.site_id, []).append(table)
    many = len(tables) > MOST_ROWS
    sites = []
    for site_id, its_tables in by_site.items():
        rows = _folded(its_tables, plan.tie_breaks) if many else _single(its_tables, plan.tie_breaks)
        shown = rows[:MOST_ROWS]
        left_out = sum(row.pools for row in rows[MOST_ROWS:])
        sites.append(SitePools(names.get(site_id, site_id), tuple(shown), left_out))
    return tuple(sites)


def _single(tables: Iterable[PlacementTable], tie_breaks: int) -> list[PoolRow]:
    return [_row([table], tie_breaks) for table in tables]


def _folded(tables: Iterable[PlacementTable], tie_breaks: int) -> list[PoolRow]:
    """Pools of one name, SKU and size as one row, in the order of the first of each."""
    alike: dict[tuple[str, str, int], list[PlacementTable]] = {}
    for table in tables:
        alike.setdefault((table.pool, table.vm_sku_name, table.total_count), []).append(table)
    return [_row(members, tie_breaks) for members in alike.values()]


def _row(tables: Sequence[PlacementTable], tie_breaks: int) -> PoolRow:
    first = tables[0]
    single = len(tables) == 1
    per_rack = [number for table in tables for number in table.actual_vms_per_rack.values()]
    racks = dict.fromkeys(rack for table in tables for rack in table.actual_vms_per_rack)
    return PoolRow(
        names_text(table.cluster for table in tables),
        first.pool,
        first.vm_sku_name,
        str(first.total_count) if single else f"{len(tables)} x {first.total_count}",
        names_text(racks) if single else counted(len(racks), "rack"),
        range_text(per_rack),
        _sure(tables, tie_breaks),
        _expected(first) if single else _expected_of_many(tables),
        len(tables),
    )


def _sure(tables: Iterable[PlacementTable], tie_breaks: int) -> str:
    placed = sure = total = 0
    for table in tables:
        placed += table.placed
        sure += table.racks_certain
        total += table.total_count
    if not tie_breaks or not placed:
        return ""
    return str(sure) if placed == total else f"{sure} of {placed}"


def range_text(numbers: Iterable[int]) -> str:
    """`3`, `3..5`."""
    different = sorted(set(numbers))
    if not different:
        return "-"
    low, high = different[0], different[-1]
    return str(low) if low == high else f"{low}..{high}"


def _differs(table: PlacementTable) -> bool:
    numbers = set(table.actual_vms_per_rack.values())
    return table.actual_racks != table.expected_racks or not numbers <= set(table.expected_vms_per_rack)


def _expected(table: PlacementTable) -> str:
    """`expected 4 per rack; rack3,6 get 5, rack7,8 get 3`."""
    if not _differs(table):
        return ""
    per_rack = range_text(table.expected_vms_per_rack)
    on = "" if table.actual_racks == table.expected_racks else f" on {counted(table.expected_racks, 'rack')}"
    unusual = _unusual(table.actual_vms_per_rack, table.expected_vms_per_rack)
    return f"expected {per_rack} per rack{on}{f'; {unusual}' if unusual else ''}"


def _unusual(actual: Mapping[str, int], expected: tuple[int, int]) -> str:
    racks: dict[int, list[str]] = {}
    for rack, number in actual.items():
        if number not in expected:
            racks.setdefault(number, []).append(rack)
    texts = []
    for number in sorted(racks, reverse=True):
        verb = "gets" if len(racks[number]) == 1 else "get"
        texts.append(f"{names_text(racks[number])} {verb} {number}")
    return ", ".join(texts)


def _expected_of_many(tables: Iterable[PlacementTable]) -> str:
    different = [table for table in tables if _differs(table)]
    if not different:
        return ""
    numbers = range_text(number for table in different for number in table.expected_vms_per_rack)
    return f"expected {numbers} per rack for {names_text(table.cluster for table in different)}"
