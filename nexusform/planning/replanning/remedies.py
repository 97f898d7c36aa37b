"""Ways out when VMs do not fit: each is tried as a whole plan before it is offered.

An upgrade that takes VMs away first, then in the order of the Nexus document's advice: fewer VMs of the
same SKU, more zones, a planned rack, larger clusters first, where hard hints stand in the way other hints,
and a smaller SKU last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations, islice
from typing import Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.diagnostics import Diagnostic, Severity
from nexusform.placement_kinds.kinds import VM
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.replanning.drawn_ways import certain_count_note, drawn_note
from nexusform.planning.request import Adjustment, PlanRequest
from nexusform.planning.verdicts.fit import DOES_NOT_FIT, Unplaced
from nexusform.planning.vms.vm_object import HardHint
from nexusform.plans.plan import Action, PlacementAction, Plan
from nexusform.ports import Kind
from nexusform.scheduling.catalogue import CATALOGUES, NEWEST
from nexusform.scheduling.racks.vms import CONTROL_PLANE, HintScope, VmSku
from nexusform.words import counted, form, listed

# Each trial is a whole plan: enough for the zones of the largest sites one by one and in pairs.
MOST_ZONE_TRIALS = 40
MOST_COUNT_TRIALS = 12
MOST_HINTS = 5


class WayOut(Struct, frozen=True):
    """One way out: what kind it is, in words, and as data (`change`) for machines. `edits` are the arguments
    to change, where that is all there is to it.
    """

    kind: str
    text: str
    change: dict[str, Any] = field(default_factory=dict)
    edits: tuple[Adjustment, ...] = ()


class Trial(Protocol):
    """Makes the plan once more with adjustments, with the new VMs of some blocks before all others, and with
    what more -replace names.
    """

    def __call__(
        self,
        adjustments: Sequence[Adjustment],
        first: Sequence[Address] = (),
        replaces: Sequence[str] = (),
    ) -> PlanResult:
        """The plan that this comes to."""
        ...


class _Shortage(Struct, frozen=True):
    # What is looked at: the plan that does not fit, its pools that fall short, and its racks as they stand.
    plan: Plan
    pools: tuple[Unplaced, ...]
    racks: tuple[tuple[Address, Mapping[str, Any]], ...]


def with_ways_out(
    request: PlanRequest, result: PlanResult, plan: Callable[[PlanRequest], PlanResult]
) -> PlanResult:
    """The result, its errors about room followed by what would help."""
    errors = [diagnostic for diagnostic in result.plan.diagnostics if diagnostic.severity is Severity.ERROR]
    if any(diagnostic.id != DOES_NOT_FIT for diagnostic in errors):
        return result
    quiet = replace(request, tie_breaks=0, ways_out=False, lint=False, want_rejected=False, explain=())

    def trial(
        adjustments: Sequence[Adjustment], first: Sequence[Address] = (), replaces: Sequence[str] = ()
    ) -> PlanResult:
        all_replaces = (*quiet.replaces, *replaces)
        adjusted = replace(quiet, adjustments=tuple(adjustments), first=tuple(first), replaces=all_replaces)
        outcome = plan(adjusted)
        # Most trials fail for want of room; in how many draws one fits is asked of those that do not.
        if outcome.plan.errored or outcome.plan.draws is None or request.tie_breaks == 0:
            return outcome
        return plan(replace(adjusted, tie_breaks=request.tie_breaks))

    kind_of = request.registries.kind_of
    racks = [
        (change.address, change.after)
        for change in result.plan.changes
        if kind_of(change.address.type) is Kind.RACK
    ]
    standing = tuple((address, rack) for address, rack in racks if rack is not None)
    shortage = _Shortage(result.plan, result.unplaced, standing)
    ways: list[WayOut] = []
    for search in (_old_first, _fewer, _wider, _more_racks, _other_order, _other_hints, _smaller):
        ways += search(shortage, trial)
    hinted = any(unplaced.bound_by for unplaced in result.unplaced)
    tried = _TRIED_HINTS if hinted else _TRIED
    return replace(result, plan=_with_advice(result.plan, ways, tried, _repacking(result)))


def _repacking(result: PlanResult) -> str:
    """What to ask about making room by re-creating VMs elsewhere; "" where none stands. A plan stays what it
    is without a solver, so it names the question and not the answer.
    """
    new = [unplaced for unplaced in result.unplaced if not unplaced.surge]
    standing = any(row.kind == VM and row.action is PlacementAction.KEEP for row in result.plan.placements)
    if not new or not standing:
        return ""
    pool = new[0].pool
    zones = "" if pool.zones is None else f" -zones={','.join(sorted(pool.zones, key=str.encode))}"
    want = len(pool.numbers) - new[0].standing
    command = f"nexusform simulate repack -sku={pool.sku.name} -want={want}{zones}"
    return f"\nWhether re-creating a few VMs elsewhere would make room: `{command}`"


def _with_advice(plan: Plan, ways: Sequence[WayOut], tried: str, repacking: str) -> Plan:
    """Every error about room holds the ways out as data; the first also says them."""
    lines = [f" {number}. {way.text}" for number, way in enumerate(ways, 1)]
    advice = "\n".join(["Ways out, tried just now:", *lines]) if ways else "No way out was found: " + tried
    advice += repacking
    data = [way_document(way) for way in ways]
    closing = f"\n\n{advice}\nNothing was changed."
    diagnostics: list[Diagnostic] = []
    for diagnostic in plan.diagnostics:
        if diagnostic.id != DOES_NOT_FIT:
            diagnostics.append(diagnostic)
            continue
        fit = {**diagnostic.extra.get("fit", {}), "ways_out": data}
        detail = diagnostic.detail + closing
        diagnostics.append(replace(diagnostic, detail=detail, extra={**diagnostic.extra, "fit": fit}))
        closing = ""
    return replace(plan, diagnostics=tuple(diagnostics))


def way_document(way: WayOut) -> dict[str, Any]:
    """A way out as plan documents show it."""
    edits = [
        {"address": str(edit.address), "path": list(edit.path), "value": edit.value} for edit in way.edits
    ]
    return {"kind": way.kind, "text": way.text, **way.change, "edits": edits}


_TRIED = "fewer VMs, more zones, planned racks, another order and smaller SKUs were tried."
_TRIED_HINTS = "fewer VMs, more zones, planned racks, another order, other hints and smaller SKUs were tried."


def _works(result: PlanResult) -> bool:
    return not result.plan.errored


# --- an upgrade that takes VMs away first --------------------------------------------------------


def _old_first(shortage: _Shortage, trial: Trial) -> Iterator[WayOut]:
    """Upgrades whose surge VMs find no room take old VMs away first instead."""
    pools = shortage.pools
    if not all(unplaced.surge and unplaced.pool.pool != CONTROL_PLANE for unplaced in pools):
        return
    settings = (("max_surge", "0"), ("max_unavailable", "1"))
    adjustments = [
        Adjustment(unplaced.address, (*unplaced.pool.path, "upgrade_settings", name), value)
        for unplaced in pools
        for name, value in settings
    ]
    outcome = trial(adjustments)
    if _works(outcome):
        names = [f"{unplaced.cluster}/{unplaced.pool.pool}" for unplaced in pools]
        where = f" for {listed(names)}" if len(names) > 1 else ""
        text = (
            f'upgrade_settings {{ max_surge = "0", max_unavailable = "1" }}{where}: the upgrade takes a VM '
            f"away before its successor comes, and fits.{drawn_note(outcome)}"
        )
        data = [
            {"address": str(unplaced.address), "pool": unplaced.pool.pool, **dict(settings)}
            for unplaced in pools
        ]
        yield WayOut("upgrade", text, {"upgrade_settings": data}, tuple(adjustments))


# --- fewer VMs ---------------------------------------------------------------------------------


def _fewer(shortage: _Shortage, trial: Trial) -> Iterator[WayOut]:
    """The largest counts that fit with the same SKUs, searched downwards from what was placed."""
    counts: dict[tuple[Address, str], int] = {}
    pools: dict[tuple[Address, str], Unplaced] = {}
    failed: Sequence[Unplaced] = shortage.pools
    for _ in range(MOST_COUNT_TRIALS):
        for unplaced in failed:
            key = (unplaced.address, unplaced.pool.pool)
            pools.setdefault(key, unplaced)
            # What did not fit with one count is tried with a smaller one at least.
            counts[key] = min(unplaced.placed, counts[key] - 1) if key in counts else unplaced.placed
        if not all(unplaced.pool.count_path for unplaced in pools.values()):
            return
        fewest = {key: max(unplaced.standing, 1) for key, unplaced in pools.items()}
        if any(counts[key] < fewest[key] for key in pools):
            return
        adjustments = [
            Adjustment(unplaced.address, unplaced.pool.count_path, counts[key])
            for key, unplaced in pools.items()
        ]
        outcome = trial(adjustments, ())
        if not outcome.plan.errored:
            way = _counts_way(pools, counts)
            certain = _certain_count(outcome, adjustments, pools.values(), trial)
            text = f"{way.text}{drawn_note(outcome)}{certain}"
            yield replace(way, text=text, edits=tuple(adjustments))
            return
        if not outcome.unplaced:
            return
        failed = outcome.unplaced


def _certain_count(
    outcome: PlanResult, adjustments: Sequence[Adjustment], pools: Iterable[Unplaced], trial: Trial
) -> str:
    """Which count is certain, where one pool alone falls short and the one that fits is not."""
    if len(adjustments) > 1:
        return ""
    [adjustment], [unplaced] = adjustments, pools
    return certain_count_note(
        outcome, adjustment.value, unplaced.standing, lambda count: trial([replace(adjustment, value=count)])
    )


def _counts_way(pools: dict[tuple[Address, str], Unplaced], counts: dict[tuple[Address, str], int]) -> WayOut:
    """The way out of fewer VMs: these pools with these counts."""
    texts, data = [], []
    for key, unplaced in pools.items():
        where = "" if len(pools) == 1 else f"{unplaced.cluster}/{unplaced.pool.pool}: "
        count, sku = counts[key], unplaced.pool.sku
        argument = str(unplaced.pool.count_path[-1])
        texts.append(f"{where}{argument} = {count}")
        data.append(
            {"address": str(unplaced.address), "pool": unplaced.pool.pool, argument: count, "sku": sku.name}
        )
    verb = "fits" if len(texts) == 1 else "fit"
    vcpus = sum(counts[key] * unplaced.pool.sku.vcpus for key, unplaced in pools.items())
    same = "this SKU" if len(texts) == 1 else "these SKUs"
    return WayOut("count", f"{', '.join(texts)} {verb} with {same} ({vcpus:,} vCPUs).", {"counts": data})


# --- more zones --------------------------------------------------------------------------------


def _wider(shortage: _Shortage, trial: Trial) -> Iterator[WayOut]:
    """The smallest widening of availability_zones with which everything fits."""
    if not all(unplaced.pool.zones and unplaced.pool.count_path for unplaced in shortage.pools):
        return
    for zones in _widenings(shortage):
        adjustments = [_zones_adjustment(unplaced, zones) for unplaced in shortage.pools]
        outcome = trial(adjustments, ())
        if not outcome.plan.errored:
            way = _zones_way(shortage.pools, zones, outcome.plan)
            yield replace(way, text=way.text + drawn_note(outcome), edits=tuple(adjustments))
            return


def _widenings(shortage: _Shortage) -> Iterator[Sequence[str]]:
    """Zones to add, the fewest first; all of them at last, when the combinations are too many."""
    zones_of_sites = _zones_of_sites(shortage)
    zones: set[str] = set()
    for unplaced in shortage.pools:
        zones.update(zones_of_sites.get(unplaced.site_id, ()))
    allowed = [unplaced.pool.zones or frozenset() for unplaced in shortage.pools]
    used_everywhere = frozenset.intersection(*allowed)
    missing = sorted(zones - used_everywhere, key=str.encode)
    sizes = range(1, len(missing) + 1)
    additions = chain.from_iterable(combinations(missing, size) for size in sizes)
    for number, added in enumerate(additions):
        if number == MOST_ZONE_TRIALS:
            yield missing
            return
        yield added


def _zones_adjustment(unplaced: Unplaced, added: Sequence[str]) -> Adjustment:
    """The zones of a pool with those that are added."""
    zones = sorted((unplaced.pool.zones or frozenset()) | set(added))
    return Adjustment(unplaced.address, (*unplaced.pool.path, "availability_zones"), zones)


def _zones_way(pinned: Sequence[Unplaced], added: Sequence[str], plan: Plan) -> WayOut:
    """The way out of more zones: `added` to those of the pools that are bound to zones."""
    texts, data = [], []
    for unplaced in pinned:
        zones = sorted((unplaced.pool.zones or frozenset()) | set(added), key=str.encode)
        text = ", ".join(f'"{zone}"' for zone in zones)
        where = "" if len(pinned) == 1 else f"{unplaced.cluster}/{unplaced.pool.pool}: "
        texts.append(f"{where}availability_zones = [{text}]")
        data.append(
            {"address": str(unplaced.address), "pool": unplaced.pool.pool, "availability_zones": zones}
        )
    moved = moved_vms(plan, "zones_changed")
    cost = f" {moved:,} VMs that stand are re-placed by it." if moved else ""
    # An upgrade re-places them as well, but batch by batch.
    at_once = sum(unplaced.standing for unplaced in pinned if unplaced.surge)
    if at_once:
        cost = f" Other zones make the pool anew: {counted(at_once, 'node')} away at once, not in batches."
    return WayOut(
        "zones", f"{'; '.join(texts)}: {_all_fit(pinned)}.{cost}", {"zones": data, "replaced_vms": moved}
    )


def moved_vms(plan: Plan, *triggers: str) -> int:
    """How many VMs that stand a plan places elsewhere for one of these reasons."""
    moves = [row for row in plan.placements if row.action is PlacementAction.MOVE]
    return sum(1 for row in moves if row.trigger in triggers)


def _zones_of_sites(shortage: _Shortage) -> dict[str, set[str]]:
    """The zones of every site, from the racks of the plan."""
    zones: dict[str, set[str]] = {}
    for _, rack in shortage.racks:
        if rack.get("status") != "planned":
            zones.setdefault(str(rack["site_id"]), set()).add(str(rack["availability_zone"]))
    return zones


# --- planned racks -----------------------------------------------------------------------------


def _more_racks(shortage: _Shortage, trial: Trial) -> Iterator[WayOut]:
    """A planned rack made active: one by one, then all."""
    sites = {unplaced.site_id for unplaced in shortage.pools}
    planned = [
        (address, str(rack["name"]))
        for address, rack in shortage.racks
        if rack.get("status") == "planned" and rack.get("site_id") in sites
    ]
    choices = [[rack] for rack in planned] + ([planned] if len(planned) > 1 else [])
    for racks in choices:
        adjustments = [Adjustment(address, ("status",), "active") for address, _ in racks]
        outcome = trial(adjustments, ())
        if not outcome.plan.errored:
            names = ", ".join(name for _, name in racks)
            data = {"racks": [{"address": str(address), "status": "active"} for address, _ in racks]}
            text = f"{names} (planned) active: {_all_fit(shortage.pools)}.{drawn_note(outcome)}"
            yield WayOut("racks", text, data, tuple(adjustments))
            return


def _all_fit(pools: Sequence[Unplaced]) -> str:
    """What a way out comes to for the pools that fell short, in words."""
    if len(pools) > 1:
        return "everything fits"
    count = len(pools[0].pool.numbers)
    return f"all {count:,} fit" if count > 1 else "it fits"


# --- another order -----------------------------------------------------------------------------


def _other_order(shortage: _Shortage, trial: Trial) -> Iterator[WayOut]:
    """The failing clusters before the other new ones, else all new ones larger first."""
    new = _new_clusters(shortage.plan)
    if len(new) < 2:
        return
    failing = list(dict.fromkeys(unplaced.address for unplaced in shortage.pools if unplaced.address in new))
    larger_first = sorted(new, key=lambda address: -new[address][1])
    for order in (failing, larger_first):
        as_it_is = list(new)[: len(order)] == order
        if not order or as_it_is:
            continue
        outcome = trial((), order)
        if outcome.plan.errored:
            continue
        names = [new[address][0] for address in order]
        others = [name for address, (name, _) in new.items() if address not in order]
        fits = _all_fit(shortage.pools)
        text = f"Create larger ones first, in the order {', '.join(names)}: {fits}."
        if order is failing and others:
            text = f"Create {', '.join(names)} before {', '.join(others)}: {fits}."
        text += drawn_note(outcome)
        yield WayOut("order", text, {"order": [str(address) for address in order]})
        return


def _new_clusters(plan: Plan) -> dict[Address, tuple[str, int]]:
    """New clusters in planning order: name, and host memory in MiB in total."""
    skus = CATALOGUES[NEWEST].vm_skus
    clusters: dict[Address, tuple[str, int]] = {}
    created = {change.address for change in plan.changes if change.action is Action.CREATE}
    for table in plan.placement_tables:
        if table.address in created:
            sku = skus.get(table.vm_sku_name)
            memory = table.total_count * (sku.memory_mib if sku is not None else 1)
            _, memory_so_far = clusters.get(table.address, ("", 0))
            clusters[table.address] = (table.cluster, memory_so_far + memory)
    return clusters


# --- other hints -------------------------------------------------------------------------------


def _other_hints(shortage: _Shortage, trial: Trial) -> Iterator[WayOut]:
    """The hard hints that stand in the way: the VM whose hint it is placed anew as well, the hint made soft,
    the hint about racks or machines instead. One hint by one, then all.
    """
    hints = list(dict.fromkeys(chain.from_iterable(unplaced.bound_by for unplaced in shortage.pools)))
    hints = hints[:MOST_HINTS]
    choices = [[hint] for hint in hints] + ([hints] if len(hints) > 1 else [])
    for search in (_replaced_too, _made_soft, _in_another_scope):
        yield from islice(chain.from_iterable(search(shortage, trial, chosen) for chosen in choices), 1)


def _replaced_too(shortage: _Shortage, trial: Trial, hints: Sequence[HardHint]) -> Iterator[WayOut]:
    """The standing VMs with the hints are placed anew in the same plan."""
    vms = list(dict.fromkeys(f"{hint.address}:{hint.name}" for hint in hints))
    if not all(hint.stands for hint in hints):
        return
    outcome = trial((), (), vms)
    if _works(outcome):
        options = " ".join(f"-replace='{vm}'" for vm in vms)
        they = form(len(vms), "that VM is", "those VMs are")
        text = f"{options}: {they} placed anew as well, and {_all_fit(shortage.pools)}."
        yield WayOut("replace", text + drawn_note(outcome), {"replace": vms})


def _made_soft(shortage: _Shortage, trial: Trial, hints: Sequence[HardHint]) -> Iterator[WayOut]:
    """The hints are preferred instead of demanded."""
    return _with_hints(shortage, trial, hints, "scheduling_execution", "Soft")


def _in_another_scope(shortage: _Shortage, trial: Trial, hints: Sequence[HardHint]) -> Iterator[WayOut]:
    """Apart on machines instead of racks, together in racks instead of on machines: what asks for less."""
    kinds = {(hint.hint.scope, hint.hint.affinity) for hint in hints}
    if kinds == {(HintScope.RACK, False)}:
        yield from _with_hints(shortage, trial, hints, "scope", HintScope.MACHINE.value)
    elif kinds == {(HintScope.MACHINE, True)}:
        yield from _with_hints(shortage, trial, hints, "scope", HintScope.RACK.value)


def _with_hints(
    shortage: _Shortage, trial: Trial, hints: Sequence[HardHint], argument: str, value: str
) -> Iterator[WayOut]:
    """One argument of the hints written otherwise; a VM whose hints change is placed anew."""
    edits = [Adjustment(hint.address, ("placement_hint", hint.index, argument), value) for hint in hints]
    outcome = trial(edits)
    if not _works(outcome):
        return
    owners = list(dict.fromkeys(str(hint.address) for hint in hints))
    moved = moved_vms(outcome.plan, "cluster_replaced", "requested")
    stands = form(moved, "stands is", "stand are")
    cost = f" {counted(moved, 'VM')} that {stands} re-placed by it." if moved else ""
    hint_of = f"the placement_hint of {' and '.join(owners)}"
    text = f'{argument} = "{value}" in {hint_of}: {_all_fit(shortage.pools)}.{cost}{drawn_note(outcome)}'
    data = [{"address": str(hint.address), "hint": hint.index, argument: value} for hint in hints]
    yield WayOut("hint", text, {"hints": data, "replaced_vms": moved}, tuple(edits))


# --- a smaller SKU -----------------------------------------------------------------------------


def _smaller(shortage: _Shortage, trial: Trial) -> Iterator[WayOut]:
    """The largest smaller SKU of the same type with which all VMs of the failing pools fit."""
    pools = shortage.pools
    sku, name = pools[0].pool.sku, pools[0].pool.pool
    if any(
        unplaced.pool.sku != sku or not unplaced.pool.count_path or unplaced.standing for unplaced in pools
    ):
        return
    for smaller in _smaller_skus(sku, control_plane=name == CONTROL_PLANE):
        adjustments = [
            Adjustment(unplaced.address, (*unplaced.pool.path, "vm_sku_name"), smaller.name)
            for unplaced in pools
        ]
        outcome = trial(adjustments, ())
        if not outcome.plan.errored:
            vcpus = sum(len(unplaced.pool.numbers) * smaller.vcpus for unplaced in pools)
            text = f'vm_sku_name = "{smaller.name}" with the same count fits ({vcpus:,} vCPUs).'
            text += drawn_note(outcome)
            yield WayOut("sku", text, {"vm_sku_name": smaller.name}, tuple(adjustments))
            return


def _smaller_skus(sku: VmSku, *, control_plane: bool) -> list[VmSku]:
    """SKUs of the same type from the largest down; a control plane's VM stands in one NUMA cell."""
    size = (sku.host_vcpus, sku.memory_gib)
    smaller = [
        other
        for other in CATALOGUES[NEWEST].vm_skus.values()
        if other.kind == sku.kind and (other.host_vcpus, other.memory_gib) < size
    ]
    allowed = [other for other in smaller if not control_plane or other.numa_cells == 1]
    return sorted(allowed, key=lambda other: (-other.host_vcpus, -other.memory_gib, other.name))
