"""Racks, machines and NUMA cells with their VMs before and after a plan: what maps draw.

Format-neutral, put together from the plan alone. VMs are numbered per site; machines list them by
number in the order in which they take up room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.demands import PlacedVm, number_order
from nexusform.placement_kinds.kinds import VM
from nexusform.plans.plan import PlacementAction, PlacementChange, Plan
from nexusform.plans.room.occupancy import PoolVms, SiteMachine, SiteRack, SiteVms
from nexusform.scheduling.racks.vms import Machine, Placement, VmSku
from nexusform.words import natural

# Stands for a cluster in maps: VMs that `occupied` blocks describe.
OUTSIDE: Final = "(not managed here)"


class Mark(StrEnum):
    """What the plan does with a VM."""

    KEPT = "kept"
    PLACED = "placed"
    MOVED = "moved"
    REMOVED = "removed"


class Sureness(StrEnum):
    """How sure the place is that a plan gives to a VM, over the repeated tie-breaks.

    COUNT: its rack gets that many VMs of its pool in every one. LIKELY: in half of them or more. LOT: in
    fewer. UNKNOWN: no tie-break was repeated, or the plan places it not.
    """

    UNKNOWN = ""
    COUNT = "count"
    LIKELY = "likely"
    LOT = "lot"


_LIKELY: Final = 0.5


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
    sure: Sureness = Sureness.UNKNOWN

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
    """A site: racks in natural order of name, clusters in the plan's order (outsiders last). `refused`: it
    shows what stands, and nothing of a plan.
    """

    id: str
    name: str
    racks: tuple[MapRack, ...]
    vms: tuple[MapVm, ...]
    clusters: tuple[str, ...]
    refused: bool = False

    @property
    def machines(self) -> int:
        """How many machines it has."""
        return sum(len(rack.machines) for rack in self.racks)

    def count(self, mark: Mark) -> int:
        """How many VMs have this mark."""
        return sum(1 for vm in self.vms if vm.mark is mark)


def build_rack_maps(plan: Plan) -> tuple[SiteMap, ...]:
    """The map of every site, by id. Of a plan in error, which does nothing, what stands and nothing else."""
    if plan.errored:
        standing = [site for site in map(_standing, plan.sites) if site.machines]
        return tuple(replace(_SiteDraft(site, {}, frozenset()).drawn(), refused=True) for site in standing)
    rows = _rows(plan)
    certain: set[tuple[str, str, str]] = set()
    for pool in plan.placement_tables:
        certain |= {(str(pool.address), pool.pool, rack) for rack in pool.counts_certain}
    return tuple(_SiteDraft(site, rows, certain).drawn() for site in plan.sites)


def short_names(clusters: Sequence[str]) -> dict[str, str]:
    """A key of at most four characters per cluster: what tells the names apart, else a number."""
    names = [name for name in clusters if name != OUTSIDE]
    front = _common_front(names)
    keys = {name: name[front:] for name in names}
    are_short = all(1 <= len(key) <= _LONGEST_KEY for key in keys.values())
    if not are_short:
        keys = {name: str(number) for number, name in enumerate(keys, start=1)}
    if OUTSIDE in clusters:
        keys[OUTSIDE] = "\N{MIDDLE DOT}"
    return keys


_LONGEST_KEY: Final = 4


def _common_front(names: Sequence[str]) -> int:
    """How many characters at the front all names share, in whole words."""
    if len(names) < 2:
        return 0
    shared = 0
    for characters in zip(*names, strict=False):
        if len(set(characters)) > 1:
            break
        shared += 1
    # Only whole words are left out: cluster-a10 and cluster-a11 stay a10 and a11.
    return max(names[0].rfind(mark, 0, shared) + 1 for mark in "-_. /")


# --- putting together --------------------------------------------------------------------------

_VmKey: TypeAlias = tuple[str, str]  # address, name
_PoolRack: TypeAlias = tuple[str, str, str]  # address, pool, rack


def _standing(site: SiteVms) -> SiteVms:
    """A site as it was before the plan."""
    machines = tuple(replace(machine, after=True) for machine in site.machines if machine.before)
    racks = {machine.facts.rack for machine in machines}
    names = {machine.facts.name for machine in machines}
    pools = [replace(pool, kept=tuple(pool.before), left=(), came=()) for pool in site.pools]
    return replace(
        site,
        racks=tuple(rack for rack in site.racks if rack.name in racks),
        machines=machines,
        pools=tuple(pool for pool in pools if pool.kept),
        outsiders=tuple(replace(vm, lost=False) for vm in site.outsiders if vm.placement.machine in names),
    )


def _rows(plan: Plan) -> dict[_VmKey, list[PlacementChange]]:
    """The plan's rows of VMs, by whose they are."""
    rows: dict[_VmKey, list[PlacementChange]] = {}
    for row in plan.placements:
        if row.kind == VM:
            rows.setdefault((str(row.address), row.object), []).append(row)
    return rows


class _SiteDraft(Struct):
    """One site on its way to a map. `before` and `after` are the numbers of VMs by machine."""

    site: SiteVms
    rows: Mapping[_VmKey, list[PlacementChange]]
    certain: AbstractSet[_PoolRack]
    vms: list[MapVm] = field(default_factory=list)
    before: dict[str, list[int]] = field(default_factory=dict)
    after: dict[str, list[int]] = field(default_factory=dict)

    def drawn(self) -> SiteMap:
        """The finished map."""
        self._add_managed()
        # An inventory read for the first time shows what stood before: nothing is placed by it.
        for vm in self.site.outsiders:
            self._add(
                MapVm(
                    name=vm.name,
                    address="",
                    cluster=OUTSIDE,
                    pool="",
                    sku=vm.sku,
                    mark=Mark.REMOVED if vm.lost else Mark.KEPT,
                    before=vm.placement,
                    after=None if vm.lost else vm.placement,
                )
            )
        clusters = dict.fromkeys(vm.cluster for vm in self.vms)
        return SiteMap(self.site.id, self.site.name, self._racks(), tuple(self.vms), tuple(clusters))

    def _add_managed(self) -> None:
        """Add the VMs of pools, those that go too."""
        old: dict[_VmKey, tuple[PoolVms, PlacedVm]] = {}
        new: dict[_VmKey, tuple[PoolVms, PlacedVm]] = {}
        for pool in self.site.pools:
            old.update((_key(pool, vm), (pool, vm)) for vm in pool.before)
            new.update((_key(pool, vm), (pool, vm)) for vm in pool.after)
        for key in _in_order(self.site.pools):
            vm = _map_vm(old.get(key), new.get(key), self.rows.get(key, ()))
            self._add(replace(vm, sure=self._sureness(vm)))

    def _sureness(self, vm: MapVm) -> Sureness:
        """How sure its new place is."""
        if vm.row is None or vm.row.certainty is None or vm.after is None or vm.mark is Mark.KEPT:
            return Sureness.UNKNOWN
        if (vm.address, vm.pool, vm.after.rack) in self.certain:
            return Sureness.COUNT
        return Sureness.LIKELY if vm.row.certainty.rack_count >= _LIKELY else Sureness.LOT

    def _add(self, vm: MapVm) -> None:
        """Number a VM and list it on its machines."""
        number = len(self.vms)
        self.vms.append(vm)
        if vm.before is not None:
            self.before.setdefault(vm.before.machine, []).append(number)
        if vm.after is not None:
            self.after.setdefault(vm.after.machine, []).append(number)

    def _racks(self) -> tuple[MapRack, ...]:
        """The racks in natural order, with those that only machines name."""
        machines: dict[str, list[MapMachine]] = {rack.name: [] for rack in self.site.racks}
        for machine in self.site.machines:
            machines.setdefault(machine.facts.rack, []).append(self._machine(machine))
        racks = {rack.name: rack for rack in self.site.racks}
        return tuple(
            _map_rack(racks.get(name) or SiteRack(name, ""), machines[name])
            for name in sorted(machines, key=natural)
        )

    def _machine(self, machine: SiteMachine) -> MapMachine:
        name = machine.facts.name
        before, after = self.before.get(name, ()), self.after.get(name, ())
        return MapMachine(machine.facts, _machine_mark(machine), tuple(before), tuple(after))


def _machine_mark(machine: SiteMachine) -> Mark:
    """Whether a machine comes, goes or stays."""
    if not machine.after:
        return Mark.REMOVED
    return Mark.KEPT if machine.before else Mark.PLACED


def _map_rack(rack: SiteRack, machines: Iterable[MapMachine]) -> MapRack:
    by_slot = sorted(machines, key=lambda machine: (machine.facts.slot, machine.facts.name))
    return MapRack(rack.name, rack.zone, rack.planned, tuple(by_slot))


def _key(pool: PoolVms, vm: PlacedVm) -> _VmKey:
    return str(pool.address), vm.name


def _in_order(pools: Iterable[PoolVms]) -> dict[_VmKey, None]:
    """Every VM once: pool by pool, by number."""
    keys: dict[_VmKey, None] = {}
    for pool in pools:
        vms = (*pool.kept, *pool.left, *pool.came)
        for vm in sorted(vms, key=lambda vm: number_order(vm.number)):
            keys[_key(pool, vm)] = None
    return keys


_Side: TypeAlias = "tuple[PoolVms, PlacedVm] | None"


def _map_vm(before: _Side, after: _Side, rows: Sequence[PlacementChange]) -> MapVm:
    """A VM from its sides before and after, one of which may be missing."""
    present = after or before
    assert present is not None, "a VM stands on one side at least"
    pool, vm = present
    old = before[1].placement if before else None
    new = after[1].placement if after else None
    row = _row_for(rows, old, new)
    return MapVm(
        name=vm.called,
        address=str(pool.address),
        cluster=pool.cluster,
        pool=pool.pool,
        sku=pool.sku,
        mark=_mark(old, new, row),
        before=old,
        after=new,
        provenance=vm.provenance,
        row=row,
    )


def _row_for(
    rows: Sequence[PlacementChange], before: Placement | None, after: Placement | None
) -> PlacementChange | None:
    """The row that tells of a VM; None where there is none."""
    # A replaced cluster on another site has a row that leaves and one that arrives.
    for row in rows:
        leaves = after is None and row.action in (PlacementAction.REMOVE, PlacementAction.LOSE)
        arrives = before is None and after is not None and row.action is PlacementAction.PLACE
        if leaves or arrives:
            return row
    return rows[0] if rows else None


def _mark(before: Placement | None, after: Placement | None, row: PlacementChange | None) -> Mark:
    """What the plan does with a VM."""
    if before is None:
        return Mark.PLACED
    if after is None:
        return Mark.REMOVED
    again = row is not None and row.action in (PlacementAction.MOVE, PlacementAction.PLACE)
    return Mark.MOVED if again or before != after else Mark.KEPT
