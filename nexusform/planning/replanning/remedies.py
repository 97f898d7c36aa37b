"""Ways out when VMs do not fit: each is tried as a whole plan before it is offered.

In the order of the Nexus document's advice: fewer VMs of the same SKU, more zones, a planned rack,
larger clusters first, and a smaller SKU last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.diagnostics import Diagnostic, Severity
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.plan import Action, PlacementAction, Plan
from nexusform.planning.request import Adjustment, PlanRequest
from nexusform.planning.verdicts.fit import Unplaced
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST
from nexusform.scheduling.racks.model import CONTROL_PLANE, VmSku

# Each trial is a whole plan: enough for the zones of the largest sites one by one and in pairs.
MOST_ZONE_TRIALS = 40
MOST_COUNT_TRIALS = 12


class WayOut(Struct, frozen=True):
    """One way out: what kind it is, in words, and as data (`change`) for machines."""

    kind: str
    text: str
    change: dict[str, Any] = field(default_factory=dict)


Trial = Callable[[Sequence[Adjustment], Sequence[Address]], PlanResult]


def with_ways_out(
    request: PlanRequest, result: PlanResult, plan: Callable[[PlanRequest], PlanResult]
) -> PlanResult:
    """The result, its errors about room followed by what would help."""
    others = [d for d in result.plan.diagnostics if d.severity is Severity.ERROR and d.id != "does-not-fit"]
    if others:
        return result
    quiet = replace(request, tie_breaks=0, ways_out=False, lint=False, want_rejected=False, explain=())

    def tried(adjustments: Sequence[Adjustment], first: Sequence[Address] = ()) -> PlanResult:
        return plan(replace(quiet, adjustments=tuple(adjustments), first=tuple(first)))

    ways: list[WayOut] = []
    for search in (_fewer, _wider, _more_racks, _other_order, _smaller):
        ways += search(result, tried)
    return replace(result, plan=_told(result.plan, ways))


def _told(plan: Plan, ways: Sequence[WayOut]) -> Plan:
    lines = [f" {number}. {way.text}" for number, way in enumerate(ways, 1)]
    advice = "\n".join(["Ways out, tried just now:", *lines]) if ways else "No way out was found: " + _TRIED
    data = [{"kind": way.kind, "text": way.text, **way.change} for way in ways]
    found: list[Diagnostic] = []
    first = True
    for diagnostic in plan.diagnostics:
        told = diagnostic
        if diagnostic.id == "does-not-fit":
            fit = {**diagnostic.extra.get("fit", {}), "ways_out": data}
            closing = f"\n\n{advice}\nNothing was changed." if first else ""
            told = replace(
                diagnostic, detail=diagnostic.detail + closing, extra={**diagnostic.extra, "fit": fit}
            )
            first = False
        found.append(told)
    return replace(plan, diagnostics=tuple(found))


_TRIED = "fewer VMs, more zones, planned racks, another order and smaller SKUs were tried."


def _works(result: PlanResult) -> bool:
    return not result.plan.errored


# --- fewer VMs ---------------------------------------------------------------------------------


def _fewer(result: PlanResult, tried: Trial) -> Iterator[WayOut]:
    """The largest counts that fit with the same SKUs, searched downwards from what was placed."""
    counts: dict[tuple[Address, str], int] = {}
    pools: dict[tuple[Address, str], Unplaced] = {}
    failed: Sequence[Unplaced] = result.unplaced
    for _ in range(MOST_COUNT_TRIALS):
        for item in failed:
            key = (item.address, item.pool.pool)
            pools.setdefault(key, item)
            counts[key] = item.placed if key not in counts else min(item.placed, counts[key] - 1)
        if not all(item.pool.count_path for item in pools.values()):
            return
        if any(counts[key] < _least(item) for key, item in pools.items()):
            return
        adjusted = [Adjustment(i.address, i.pool.count_path, counts[k]) for k, i in pools.items()]
        outcome = tried(adjusted, ())
        if _works(outcome):
            yield _counts_way(pools, counts)
            return
        if not outcome.unplaced:
            return
        failed = outcome.unplaced


def _least(item: Unplaced) -> int:
    return max(item.standing, 1)


def _counts_way(pools: dict[tuple[Address, str], Unplaced], counts: dict[tuple[Address, str], int]) -> WayOut:
    parts, data = [], []
    for key, item in pools.items():
        where = "" if len(pools) == 1 else f"{item.cluster}/{item.pool.pool}: "
        count, sku = counts[key], item.pool.sku
        argument = str(item.pool.count_path[-1])
        parts.append(f"{where}{argument} = {count}")
        data.append({"address": str(item.address), "pool": item.pool.pool, argument: count, "sku": sku.name})
    verb = "fits" if len(parts) == 1 else "fit"
    vcpus = sum(counts[k] * i.pool.sku.vcpus for k, i in pools.items())
    same = "this SKU" if len(parts) == 1 else "these SKUs"
    return WayOut("count", f"{', '.join(parts)} {verb} with {same} ({vcpus:,} vCPUs).", {"counts": data})


# --- more zones --------------------------------------------------------------------------------


def _wider(result: PlanResult, tried: Trial) -> Iterator[WayOut]:
    """The smallest widening of availability_zones with which everything fits."""
    pinned = [i for i in result.unplaced if i.pool.zones and i.pool.count_path]
    if len(pinned) != len(result.unplaced):
        return
    racks = _racks(result.plan)
    zones = sorted({zone for item in pinned for zone in racks.get(item.site_id, ())}, key=str.encode)
    missing = [zone for zone in zones if any(zone not in (i.pool.zones or ()) for i in pinned)]
    trials = 0
    for size in range(1, len(missing) + 1):
        for added in combinations(missing, size):
            if trials >= MOST_ZONE_TRIALS:
                added = tuple(missing)  # noqa: PLW2901 - the last try: all of them
            trials += 1
            adjusted = [_zones_adjustment(item, added) for item in pinned]
            outcome = tried(adjusted, ())
            if _works(outcome):
                yield _zones_way(pinned, added, outcome.plan)
                return
            if trials > MOST_ZONE_TRIALS:
                return


def _zones_adjustment(item: Unplaced, added: Sequence[str]) -> Adjustment:
    zones = sorted((item.pool.zones or frozenset()) | set(added))
    return Adjustment(item.address, (*item.pool.path, "availability_zones"), zones)


def _zones_way(pinned: Sequence[Unplaced], added: Sequence[str], plan: Plan) -> WayOut:
    parts, data = [], []
    for item in pinned:
        zones = sorted((item.pool.zones or frozenset()) | set(added), key=str.encode)
        text = ", ".join(f'"{z}"' for z in zones)
        where = "" if len(pinned) == 1 else f"{item.cluster}/{item.pool.pool}: "
        parts.append(f"{where}availability_zones = [{text}]")
        data.append({"address": str(item.address), "pool": item.pool.pool, "availability_zones": zones})
    moved = sum(
        1 for p in plan.placements if p.trigger == "zones_changed" and p.action is PlacementAction.MOVE
    )
    cost = f" {moved} VMs that stand are re-placed by it." if moved else ""
    whole = f"all {len(pinned[0].pool.numbers)} fit" if len(pinned) == 1 else "everything fits"
    return WayOut("zones", f"{'; '.join(parts)}: {whole}.{cost}", {"zones": data, "replaced_vms": moved})


def _racks(plan: Plan) -> dict[str, set[str]]:
    """The zones of every site, from the racks of the plan."""
    found: dict[str, set[str]] = {}
    for change in plan.changes:
        after = change.after
        if change.address.type == "nexus_rack" and after is not None and after.get("status") != "planned":
            found.setdefault(str(after["site_id"]), set()).add(str(after["availability_zone"]))
    return found


# --- planned racks -----------------------------------------------------------------------------


def _more_racks(result: PlanResult, tried: Trial) -> Iterator[WayOut]:
    """A planned rack made active: one by one, then all."""
    sites = {item.site_id for item in result.unplaced}
    planned = [
        (change.address, str(change.after["name"]))
        for change in result.plan.changes
        if change.address.type == "nexus_rack"
        and change.after is not None
        and change.after.get("status") == "planned"
        and change.after.get("site_id") in sites
    ]
    choices = [[rack] for rack in planned] + ([planned] if len(planned) > 1 else [])
    for racks in choices:
        if _works(tried([Adjustment(address, ("status",), "active") for address, _ in racks], ())):
            names = ", ".join(name for _, name in racks)
            data = {"racks": [{"address": str(address), "status": "active"} for address, _ in racks]}
            yield WayOut("racks", f"{names} (planned) active: {_all_fit(result)}.", data)
            return


def _all_fit(result: PlanResult) -> str:
    only = result.unplaced[0]
    return f"all {len(only.pool.numbers)} fit" if len(result.unplaced) == 1 else "everything fits"


# --- another order -----------------------------------------------------------------------------


def _other_order(result: PlanResult, tried: Trial) -> Iterator[WayOut]:
    """The failing clusters before the other new ones, else all new ones larger first."""
    sizes = _new_sizes(result.plan)
    if len(sizes) < 2:
        return
    failing = list(dict.fromkeys(item.address for item in result.unplaced if item.address in sizes))
    larger_first = sorted(sizes, key=lambda a: -sizes[a][1])
    for order in (failing, larger_first):
        if order and list(sizes)[: len(order)] != order and _works(tried((), order)):
            names = [sizes[a][0] for a in order]
            rest = [sizes[a][0] for a in sizes if a not in order]
            if order is failing and rest:
                text = f"Create {', '.join(names)} before {', '.join(rest)}: {_all_fit(result)}."
            else:
                text = f"Create larger ones first, in the order {', '.join(names)}: {_all_fit(result)}."
            yield WayOut("order", text, {"order": [str(a) for a in order]})
            return


def _new_sizes(plan: Plan) -> dict[Address, tuple[str, int]]:
    """New clusters in planning order: name, and host memory in GiB in total."""
    skus = CATALOGUES[NEWEST].vm_skus
    found: dict[Address, tuple[str, int]] = {}
    new = {c.address for c in plan.changes if c.action is Action.CREATE}
    for table in plan.placement_tables:
        if table.address in new:
            sku = skus.get(table.vm_sku_name)
            memory = table.total_count * (sku.memory_gib if sku is not None else 1)
            found[table.address] = (table.cluster, found.get(table.address, ("", 0))[1] + memory)
    return found


# --- a smaller SKU -----------------------------------------------------------------------------


def _smaller(result: PlanResult, tried: Trial) -> Iterator[WayOut]:
    """The largest smaller SKU of the same type with which all VMs of the failing pools fit."""
    first = result.unplaced[0]
    if any(i.pool.sku != first.pool.sku or not i.pool.count_path or i.standing for i in result.unplaced):
        return
    for sku in _smaller_skus(first.pool.sku, control_plane=first.pool.pool == CONTROL_PLANE):
        adjusted = [Adjustment(i.address, (*i.pool.path, "vm_sku_name"), sku.name) for i in result.unplaced]
        if _works(tried(adjusted, ())):
            text = f'vm_sku_name = "{sku.name}" with the same count fits ({_vcpus(result, sku):,} vCPUs).'
            yield WayOut("sku", text, {"vm_sku_name": sku.name})
            return


def _vcpus(result: PlanResult, sku: VmSku) -> int:
    return sum(len(item.pool.numbers) * sku.vcpus for item in result.unplaced)


def _smaller_skus(sku: VmSku, *, control_plane: bool) -> list[VmSku]:
    known = CATALOGUES[NEWEST].vm_skus.values()
    same = [
        s
        for s in known
        if s.kind == sku.kind and (s.host_vcpus, s.memory_gib) < (sku.host_vcpus, sku.memory_gib)
    ]
    allowed = [s for s in same if not control_plane or s.numa_cells == 1]
    return sorted(allowed, key=lambda s: (-s.host_vcpus, -s.memory_gib, s.name))
