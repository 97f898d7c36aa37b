"""Placements as rows for people: runs of similar ones folded, per pool. Decides nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from nexusform.address import Address
from nexusform.planning.plan import PlacementAction, PlacementChange, PlacementTable, Plan

# A run of up to this many names its machines one by one; more moves than this are folded.
NAMED_MACHINES = 5
SINGLE_MOVES = 10
NAMED_RACKS = 4


class Detail(StrEnum):
    """The `-placements` flag."""

    CHANGED = "changed"
    ALL = "all"
    NONE = "none"


_SYMBOLS = {
    PlacementAction.PLACE: "+",
    PlacementAction.MOVE: "~",
    PlacementAction.REMOVE: "-",
    PlacementAction.KEEP: "=",
    PlacementAction.UPDATE: "~",
}


class PlacementLine(Struct, frozen=True):
    """One line: symbol, which objects (`cluster-d-pool1-0..23`), from where, to where, why.

    `count` is how many objects it stands for; `origin` and `target` are "" when there is none.
    """

    symbol: str
    action: PlacementAction
    label: str
    origin: str
    target: str
    trigger: str
    count: int = 1


class PlacementGroup(Struct, frozen=True):
    """The lines of one pool (or placement, or workload); `table` None when it has none.

    `name` is `cluster/pool` (of a binding the placement's address). `certainty` is a clause such as
    `racks certain for 24 of 24, machines for 4 of 24`, "" when nothing was placed or no repetition
    was run.
    """

    name: str
    kind: str
    lines: tuple[PlacementLine, ...]
    table: PlacementTable | None = None
    certainty: str = ""


class PlacementSummary(Struct, frozen=True):
    """How many objects of a kind ("vm", "binding", "pod"; "" = all) do what."""

    kind: str
    place: int = 0
    move: int = 0
    remove: int = 0
    keep: int = 0
    update: int = 0

    @property
    def anything(self) -> bool:
        """Whether there is any object at all."""
        return bool(self.place or self.move or self.remove or self.keep or self.update)


KINDS = ("vm", "binding", "pod")


def summaries(plan: Plan) -> tuple[PlacementSummary, ...]:
    """The total first, then one per kind that is present (only when there are several)."""
    counts = Counter((row.kind, row.action) for row in plan.placements)
    listed = sum(n for (_, action), n in counts.items() if action is PlacementAction.KEEP)
    kinds = [k for k in KINDS if any(kind == k for kind, _ in counts)]
    found = [_summary(kind, counts) for kind in kinds]
    # The plan counts what stays; rows for it exist only on request. What no row tells is VMs.
    unlisted = max(0, plan.kept - listed)
    if unlisted:
        rest = found[0] if kinds[:1] == ["vm"] else PlacementSummary("vm")
        others = found[1:] if kinds[:1] == ["vm"] else found
        more = PlacementSummary("vm", rest.place, rest.move, rest.remove, rest.keep + unlisted, rest.update)
        found = [more, *others]
    total = PlacementSummary(
        "",
        sum(s.place for s in found),
        sum(s.move for s in found),
        sum(s.remove for s in found),
        sum(s.keep for s in found),
        sum(s.update for s in found),
    )
    return (total, *found) if len(found) > 1 else (total,)


def _summary(kind: str, counts: Mapping[tuple[str, PlacementAction], int]) -> PlacementSummary:
    a = PlacementAction
    return PlacementSummary(
        kind,
        place=counts.get((kind, a.PLACE), 0),
        move=counts.get((kind, a.MOVE), 0),
        remove=counts.get((kind, a.REMOVE), 0),
        keep=counts.get((kind, a.KEEP), 0),
        update=counts.get((kind, a.UPDATE), 0),
    )


# --- groups ------------------------------------------------------------------------------------


def placement_groups(plan: Plan, detail: Detail) -> tuple[PlacementGroup, ...]:
    """The pools that the plan touches (all of them with `all`), in the plan's order.

    Observations (kept, with a trigger) are always shown; plain kept rows only with `all`.
    """
    if detail is Detail.NONE:
        return ()
    tables = {_group_of(t.site_id, t.address, t.cluster, "vm", t.pool): t for t in plan.placement_tables}
    rows: dict[tuple[str, ...], list[PlacementChange]] = {}
    for row in plan.placements:
        if row.action is not PlacementAction.KEEP or row.trigger or detail is Detail.ALL:
            group = _group_of(row.site_id, row.address, row.cluster, row.kind, row.pool)
            rows.setdefault(group, []).append(row)
    order = list(tables) if detail is Detail.ALL else [k for k in tables if k in rows]
    keys = [*order, *(k for k in rows if k not in tables)]
    return tuple(_group(rows.get(k, []), tables.get(k), plan.tie_breaks, detail) for k in keys)


def _group_of(site_id: str, address: Address, cluster: str, kind: str, pool: str) -> tuple[str, ...]:
    """The pool that a row belongs to: all VMs of a block of plain VMs are one."""
    if cluster == str(address.config):
        return (site_id, cluster, kind, pool)
    return ("", str(address), kind, pool)


def _group(
    rows: Sequence[PlacementChange], table: PlacementTable | None, tie_breaks: int, detail: Detail
) -> PlacementGroup:
    runs: dict[tuple[str, str, str, str], list[PlacementChange]] = {}
    for row in rows:
        runs.setdefault((row.action.value, row.trigger, *_states(row)), []).append(row)
    lines = [line for run in runs.values() for line in _lines(run, detail)]
    first = rows[0] if rows else None
    if table is not None:
        name = f"{table.cluster}/{table.pool}"
    else:
        assert first is not None, "a group has rows or a table"
        parts = [] if first.kind == "binding" else [first.cluster, first.pool]
        name = "/".join(part for part in parts if part) or str(first.address)
    certainty = certainty_text(table) if table is not None and table.placed and tie_breaks else ""
    return PlacementGroup(name, first.kind if first else "vm", tuple(lines), table, certainty)


def certainty_text(table: PlacementTable) -> str:
    """`racks certain for 24 of 24, machines for 4 of 24`."""
    racks = f"racks certain for {table.racks_certain} of {table.placed}"
    return f"{racks}, machines for {table.machines_certain} of {table.placed}"


def _lines(run: list[PlacementChange], detail: Detail) -> list[PlacementLine]:
    moves = run[0].action is PlacementAction.MOVE
    if detail is Detail.ALL or len(run) == 1 or (moves and len(run) <= SINGLE_MOVES):
        return [_single(row) for row in run]
    ordered = sorted(run, key=_by_number)
    first = ordered[0]
    before, after = _states(first)
    target = _many(ordered, "target") if _has_target(first) else ""
    return [
        PlacementLine(
            _SYMBOLS[first.action],
            first.action,
            _run_label(ordered),
            before or (_many(ordered, "source") if not _has_target(first) or moves else ""),
            f"{after}: {target}" if after else target,
            first.trigger,
            len(ordered),
        )
    ]


def _states(row: PlacementChange) -> tuple[str, str]:
    """The states before and after of a binding that stays and changes its state; else both are empty."""
    if row.kind != "binding" or row.action is not PlacementAction.UPDATE:
        return "", ""
    before, after = ((place or {}).get("state") or "" for place in (row.source, row.target))
    return ("", "") if before == after else (str(before), str(after))


def _by_number(row: PlacementChange) -> tuple[int, int, str]:
    number = _number(row)
    return (0, number, "") if isinstance(number, int) else (1, 0, number)


def _number(row: PlacementChange) -> int | str:
    """The number in the pool; of a plain VM, its index or key in its block."""
    key = row.address.key
    return row.number if key is None or row.cluster != str(row.address.config) else key


def _has_target(row: PlacementChange) -> bool:
    return row.target is not None


def _single(row: PlacementChange) -> PlacementLine:
    origin = _place(row, row.source) if row.source else ""
    target = _place(row, row.target) if row.target else ""
    staying = row.action is PlacementAction.UPDATE and origin == target
    if row.action in (PlacementAction.PLACE, PlacementAction.KEEP) or staying:
        origin = ""
    return PlacementLine(_SYMBOLS[row.action], row.action, row.object, origin, target, row.trigger)


def _place(row: PlacementChange, place: Mapping[str, Any]) -> str:
    # A binding is called by its cluster: only its state is worth saying beside it.
    if row.kind == "binding" and row.object == place.get("cluster"):
        return str(place.get("state") or row.object)
    return place_text(row.kind, place)


def place_text(kind: str, place: Mapping[str, Any]) -> str:
    """One place: `rack4 / rack4-bm07 / cell 1`, `east (Bound)`, `node-1 / rack4-bm07 / zone 4`."""
    if kind == "binding":
        state = place.get("state")
        return f"{place.get('cluster', '')}{f' ({state})' if state else ''}"
    if kind == "pod":
        zone = place.get("availability_zone")
        parts = [place.get("node") or "Pending", place.get("machine"), f"zone {zone}" if zone else ""]
        return " / ".join(str(p) for p in parts if p)
    cells = place.get("numa_cells") or []
    word = "cell" if len(cells) == 1 else "cells"
    numbers = f"{word} {'+'.join(str(c) for c in cells)}" if cells else ""
    return " / ".join(str(p) for p in (place.get("rack"), place.get("machine"), numbers) if p)


# --- folding -----------------------------------------------------------------------------------


def _run_label(rows: Sequence[PlacementChange]) -> str:
    # `prefix-0..3,5`: names that are one prefix and a number; anything else is listed or counted.
    if rows[0].kind == "binding":
        return f"{len(rows)} clusters"
    prefixes = {_prefix(row) for row in rows}
    if len(prefixes) == 1 and None not in prefixes:
        numbers = [_number(row) for row in rows]
        return f"{next(iter(prefixes))}{_ranges([n for n in numbers if isinstance(n, int)])}"
    if len(rows) <= NAMED_MACHINES:
        return ", ".join(row.object for row in rows)
    return f"{rows[0].object} and {len(rows) - 1} more"


def _prefix(row: PlacementChange) -> str | None:
    number = _number(row)
    if isinstance(number, int) and row.object.endswith(str(number)):
        return row.object[: -len(str(number))]
    return None


def _ranges(numbers: Iterable[int]) -> str:
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}..{b}" for a, b in parts)


def _many(rows: Sequence[PlacementChange], side: str) -> str:
    places: list[Mapping[str, Any]] = [p for p in (getattr(row, side) for row in rows) if p]
    if rows[0].kind == "binding":
        return ", ".join(str(p.get("cluster", "")) for p in places)
    if rows[0].kind == "pod":
        return _many_pods(places)
    machines = [str(p.get("machine", "")) for p in places]
    if len(machines) <= NAMED_MACHINES:
        return ", ".join(machines)
    return _per_rack(places)


def _many_pods(places: Sequence[Mapping[str, Any]]) -> str:
    pending = sum(1 for p in places if not p.get("node"))
    counts = Counter(str(p.get("machine") or p.get("node")) for p in places if p.get("node"))
    shown = [f"{name}: {n}" for name, n in sorted(counts.items())]
    if len(shown) > NAMED_MACHINES:
        low, high = min(counts.values()), max(counts.values())
        each = f"{low}" if low == high else f"{low} to {high}"
        shown = [f"{each} on each of {len(counts)} machines"]
    return ", ".join([*shown, *([f"{pending} Pending"] if pending else [])])


def _per_rack(places: Sequence[Mapping[str, Any]]) -> str:
    vms: Counter[str] = Counter()
    machines: dict[str, set[str]] = {}
    for place in places:
        rack = str(place.get("rack", ""))
        vms[rack] += 1
        machines.setdefault(rack, set()).add(str(place.get("machine", "")))
    texts = {rack: _on_machines(vms[rack], len(machines[rack])) for rack in sorted(vms, key=natural)}
    if len(texts) <= NAMED_RACKS:
        return ", ".join(f"{rack}: {text}" for rack, text in texts.items())
    alike: dict[str, list[str]] = {}
    for rack, text in texts.items():
        alike.setdefault(text, []).append(rack)
    if len(alike) == 1:
        return f"{next(iter(alike))} in each of {len(texts)} racks"
    ordered = sorted(alike.items(), key=lambda item: natural(item[0]))
    return "; ".join(f"{text} in {_rack_names(racks)}" for text, racks in ordered)


def natural(text: str) -> list[tuple[int, int, str]]:
    """The sort key of a name in which digits count as numbers: rack2 before rack10."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def _rack_names(racks: Sequence[str]) -> str:
    if len(racks) > 2 * NAMED_RACKS:
        return f"each of {len(racks)} racks"
    return f"{'each of ' if len(racks) > 1 else ''}{', '.join(racks)}"


def _on_machines(vms: int, machines: int) -> str:
    word = "machine" if machines == 1 else "machines"
    return f"{machines} {word}" if vms == machines else f"{vms} VMs on {machines} {word}"


# --- tables ------------------------------------------------------------------------------------


def either_text(numbers: Iterable[int]) -> str:
    """`3`, `3 or 4`, `3, 4 or 5`: different figures, ascending."""
    texts = [str(n) for n in sorted(set(numbers))]
    if len(texts) <= 1:
        return texts[0] if texts else "0"
    return f"{', '.join(texts[:-1])} or {texts[-1]}"


def table_row(table: PlacementTable) -> tuple[str, ...]:
    """The eight columns of the document's table.

    Cluster, pool, SKU, total count, expected racks, actual racks, expected and actual VMs per rack.
    """
    return (
        table.cluster,
        table.pool,
        table.vm_sku_name,
        str(table.total_count),
        str(table.expected_racks),
        str(table.actual_racks),
        either_text(table.expected_vms_per_rack),
        either_text(table.actual_vms_per_rack.values()),
    )
