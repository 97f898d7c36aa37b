"""Racks, machines and NUMA cells with their VMs before and after a plan: what maps draw.

Format-neutral, put together from the plan alone. VMs are numbered per site; machines list them by
number in the order in which they take up room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct, field

from nexusform.planning.plan import PlacementAction, PlacementChange, Plan
from nexusform.ports import Registries
from nexusform.rendering.report.placement_rows import natural
from nexusform.scheduling.racks.model import Machine, Placement, VmSku
from nexusform.scheduling.world import RackOffer
from nexusform.whatif.plan_sites import HousedVm, OutsideVm, PlanSite, sites_after, sites_before

# Stands for a cluster in maps: VMs that `occupied` blocks describe.
OUTSIDE: Final = "(not managed here)"


class Mark(StrEnum):
    """What the plan does with a VM."""

    KEPT = "kept"
    PLACED = "placed"
    MOVED = "moved"
    REMOVED = "removed"


class MapVm(Struct, frozen=True):
    """One VM; `row` is what the plan says of it (None for what it leaves alone without a row).

    `before` and `after` are where it stands on each side, None where it does not.
    """

    name: str
    address: str
    cluster: str
    pool: str
    sku: VmSku
    mark: Mark
    before: Placement | None
    after: Placement | None
    provenance: str = ""
    row: PlacementChange | None = None

    @property
    def trigger(self) -> str:
        """Why it is touched, "" when it is not."""
        return self.row.trigger if self.row is not None else ""


class MapMachine(Struct, frozen=True):
    """A machine with the numbers of its VMs on each side.

    `mark` is PLACED for one that comes, REMOVED for one that goes.
    """

    facts: Machine
    mark: Mark
    before: tuple[int, ...]
    after: tuple[int, ...]


class MapRack(Struct, frozen=True):
    """A rack and its machines by slot; `planned` racks take no VM yet."""

    name: str
    zone: str
    planned: bool
    machines: tuple[MapMachine, ...]


class SiteMap(Struct, frozen=True):
    """A site: racks in natural order of name, clusters in the plan's order (outsiders last)."""

    id: str
    name: str
    racks: tuple[MapRack, ...]
    vms: tuple[MapVm, ...]
    clusters: tuple[str, ...]

    @property
    def machines(self) -> int:
        """How many machines it has."""
        return sum(len(rack.machines) for rack in self.racks)

    def count(self, mark: Mark) -> int:
        """How many VMs have this mark."""
        return sum(1 for vm in self.vms if vm.mark is mark)


def build_rack_maps(plan: Plan, registries: Registries) -> tuple[SiteMap, ...]:
    """The map of every site, by id. A plan in error shows what stands."""
    before = sites_before(plan, registries)
    after = before if plan.errored else sites_after(plan, registries)
    rows = {} if plan.errored else _rows(plan)
    return tuple(_SiteDraft(before.get(i), after.get(i), rows).drawn() for i in sorted({*before, *after}))


def short_names(clusters: Sequence[str]) -> dict[str, str]:
    """A key of at most four characters per cluster: what tells the names apart, else a number."""
    front = _common_front([name for name in clusters if name != OUTSIDE])
    keys = {name: name[front:] for name in clusters if name != OUTSIDE}
    if any(not 1 <= len(key) <= _LONGEST_KEY for key in keys.values()):
        keys = {name: str(number) for number, name in enumerate(keys, start=1)}
    return keys | {name: "\N{MIDDLE DOT}" for name in clusters if name == OUTSIDE}


_LONGEST_KEY: Final = 4


def _common_front(names: Sequence[str]) -> int:
    if not names:
        return 0
    low, high = min(names), max(names)
    same = next((at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))
    # Only whole words are left out: cluster-a10 and cluster-a11 stay a10 and a11.
    return max(low.rfind(mark, 0, same) + 1 for mark in "-_. /") if len(names) > 1 else 0


# --- putting together --------------------------------------------------------------------------

_Key = tuple[str, str]


def _rows(plan: Plan) -> dict[_Key, list[PlacementChange]]:
    found: dict[_Key, list[PlacementChange]] = {}
    for row in plan.placements:
        if row.kind == "vm":
            found.setdefault((str(row.address), row.object), []).append(row)
    return found


class _SiteDraft(Struct):
    """One site on its way to a map."""

    old: PlanSite | None
    new: PlanSite | None
    rows: Mapping[_Key, list[PlacementChange]]
    vms: list[MapVm] = field(default_factory=list)
    on_old: dict[str, list[int]] = field(default_factory=dict)
    on_new: dict[str, list[int]] = field(default_factory=dict)

    def drawn(self) -> SiteMap:
        """The finished map."""
        site = self.new or self.old
        assert site is not None, "a site stands on one side at least"
        self._managed()
        self._outside()
        clusters = dict.fromkeys(vm.cluster for vm in self.vms if vm.cluster != OUTSIDE)
        if any(vm.cluster == OUTSIDE for vm in self.vms):
            clusters[OUTSIDE] = None
        return SiteMap(site.site.id, site.site.name, self._racks(), tuple(self.vms), tuple(clusters))

    def _managed(self) -> None:
        old = {(str(vm.address), vm.name): vm for vm in _vms(self.old)}
        new = {(str(vm.address), vm.name): vm for vm in _vms(self.new)}
        for key in _merged(list(old), list(new)):
            before, after = old.get(key), new.get(key)
            vm = after or before
            assert vm is not None, "every key has a VM"
            row = _row_for(self.rows.get(key, ()), before, after)
            drawn = MapVm(
                vm.name,
                key[0],
                vm.cluster,
                vm.pool,
                vm.sku,
                _mark(before, after, row),
                before.placement if before else None,
                after.placement if after else None,
                vm.provenance,
                row,
            )
            self._add(drawn)

    def _outside(self) -> None:
        old = {(vm.placement.machine, vm.name): vm for vm in _outsiders(self.old)}
        new = {(vm.placement.machine, vm.name): vm for vm in _outsiders(self.new)}
        # An inventory read for the first time shows what stood before: nothing is placed by it.
        for key in {**old, **new}:
            vm = new.get(key) or old[key]
            place = vm.placement
            self._add(MapVm(vm.name, "", OUTSIDE, "", vm.sku, Mark.KEPT, place, place))

    def _add(self, vm: MapVm) -> None:
        number = len(self.vms)
        self.vms.append(vm)
        if vm.before is not None:
            self.on_old.setdefault(vm.before.machine, []).append(number)
        if vm.after is not None:
            self.on_new.setdefault(vm.after.machine, []).append(number)

    def _racks(self) -> tuple[MapRack, ...]:
        old, new = _machines(self.old), _machines(self.new)
        by_rack: dict[str, list[MapMachine]] = {}
        for name in {**old, **new}:
            facts = new.get(name) or old[name]
            mark = Mark.KEPT if name in old and name in new else Mark.PLACED if name in new else Mark.REMOVED
            machine = MapMachine(
                facts, mark, tuple(self.on_old.get(name, ())), tuple(self.on_new.get(name, ()))
            )
            by_rack.setdefault(facts.rack, []).append(machine)
        zones = {rack.name: (rack.availability_zone, rack.planned) for rack in _offers(self.old)}
        zones |= {rack.name: (rack.availability_zone, rack.planned) for rack in _offers(self.new)}
        return tuple(
            MapRack(
                name,
                *zones.get(name, ("", False)),
                tuple(sorted(by_rack.get(name, ()), key=lambda m: (m.facts.slot, m.facts.name))),
            )
            for name in sorted({**zones, **by_rack}, key=natural)
        )


def _vms(site: PlanSite | None) -> Sequence[HousedVm]:
    return site.vms if site is not None else ()


def _outsiders(site: PlanSite | None) -> Sequence[OutsideVm]:
    return site.outsiders if site is not None else ()


def _machines(site: PlanSite | None) -> Mapping[str, Machine]:
    return site.site.machines if site is not None else {}


def _offers(site: PlanSite | None) -> Iterable[RackOffer]:
    return site.site.racks if site is not None else ()


def _merged(old: list[_Key], new: list[_Key]) -> list[_Key]:
    """The new order, with what is only old after its former neighbour."""
    present = set(new)
    followers: dict[_Key | None, list[_Key]] = {}
    last: _Key | None = None
    for key in old:
        if key in present:
            last = key
        else:
            followers.setdefault(last, []).append(key)
    merged = list(followers.get(None, ()))
    for key in new:
        merged.append(key)
        merged += followers.get(key, ())
    return merged


def _row_for(
    rows: Sequence[PlacementChange], before: HousedVm | None, after: HousedVm | None
) -> PlacementChange | None:
    # A replaced cluster on another site has a row that leaves and one that arrives.
    wanted = PlacementAction.REMOVE if after is None else PlacementAction.PLACE if before is None else None
    return next((row for row in rows if row.action is wanted), rows[0] if rows else None)


def _mark(before: HousedVm | None, after: HousedVm | None, row: PlacementChange | None) -> Mark:
    if before is None:
        return Mark.PLACED
    if after is None:
        return Mark.REMOVED
    again = row is not None and row.action in (PlacementAction.MOVE, PlacementAction.PLACE)
    return Mark.MOVED if again or before.placement != after.placement else Mark.KEPT
