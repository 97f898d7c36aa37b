"""What a plan says of its sites: machines, who stands on them before and after, and the room that is left.

Frozen, and part of a saved plan: nothing that reads a plan works any of it out again. What reports count
in it (racks that change, machines that are shared) is counted here, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import astuple, replace

from nexusform.address import Address
from nexusform.demands import PlacedVm
from nexusform.ports import FORGOTTEN, UNMANAGED, Kind, ResourceType
from nexusform.scheduling.racks.vms import Interval, Machine, Placement, VmSku
from nexusform.scheduling.world import Inventory, Occupied
from nexusform.words import natural


class PoolVms(Struct, frozen=True):
    """The VMs of one pool of a resource that have one SKU.

    `kept` stand on both sides of the plan, `left` only before it, `came` only after it: a VM that moves is
    in both of the latter, under one name. Each by number.
    """

    address: Address
    cluster: str
    pool: str
    sku: VmSku
    kept: tuple[PlacedVm, ...] = ()
    left: tuple[PlacedVm, ...] = ()
    came: tuple[PlacedVm, ...] = ()

    @property
    def before(self) -> Iterator[PlacedVm]:
        """The VMs that stand before the plan."""
        yield from self.kept
        yield from self.left

    @property
    def after(self) -> Iterator[PlacedVm]:
        """The VMs that stand after it."""
        yield from self.kept
        yield from self.came


class OutsideVm(Struct, frozen=True):
    """A VM that nexusform does not manage: capacity that an `occupied` block holds, or that a provider saw
    taken. `lost`: it was forgotten, and the plan takes its machine away.
    """

    name: str
    sku: VmSku
    placement: Placement
    lost: bool = False


class SiteRack(Struct, frozen=True):
    """A rack, as the plan leaves it (as it was, when it goes); `planned` racks take no VM yet."""

    name: str
    zone: str
    planned: bool = False


class SiteMachine(Struct, frozen=True):
    """A machine, as the plan leaves it (as it was, when it goes), and on which sides it is there."""

    facts: Machine
    before: bool = True
    after: bool = True


class SiteVms(Struct, frozen=True):
    """A site with all that stands on it, pools in the plan's order. After a plan in error stand those, too,
    that it would have placed.
    """

    id: str
    name: str
    racks: tuple[SiteRack, ...] = ()
    machines: tuple[SiteMachine, ...] = ()
    pools: tuple[PoolVms, ...] = ()
    outsiders: tuple[OutsideVm, ...] = ()

    @property
    def lost_outsiders(self) -> int:
        """How many VMs lose their machine that nobody manages any more."""
        return sum(vm.lost for vm in self.outsiders)


class Room(Struct, frozen=True):
    """What is free for one VM SKU on a site at one moment, nothing else being placed.

    `free` VMs fit; `rack_lost` of them are left when the rack that holds most of them is lost
    (`worst_rack`, "" when no rack holds any): the VMs of a lost rack are not created again elsewhere.
    Where the cells of VMs are not known these are the least, and `most_free` and `most_rack_lost` fit in
    the split that leaves the most room (None: as many).
    `clusters` are those with a pool of the SKU, in the plan's order, and `no_surge` those of them in
    which such a pool would not find room for the VMs that an upgrade adds first; `unsure_surge` those
    where that hangs on the cells that nobody knows.
    """

    free: int
    rack_lost: int
    worst_rack: str = ""
    clusters: tuple[str, ...] = ()
    no_surge: tuple[str, ...] = ()
    most_free: int | None = None
    most_rack_lost: int | None = None
    unsure_surge: tuple[str, ...] = ()

    @property
    def fitting(self) -> Interval:
        """How many VMs fit."""
        return Interval(self.free, self.free if self.most_free is None else self.most_free)

    @property
    def fitting_with_a_rack_lost(self) -> Interval:
        """How many of them are left whichever rack is lost."""
        most = self.rack_lost if self.most_rack_lost is None else self.most_rack_lost
        return Interval(self.rack_lost, most)


class SiteRoom(Struct, frozen=True):
    """The room of one site for one VM SKU in play, which spans `cells` NUMA cells; None where the site
    does not stand.
    """

    site_id: str
    site: str
    sku: str
    cells: int
    before: Room | None = None
    after: Room | None = None


class MachineCount(Struct, frozen=True):
    """The VMs on one machine, None on a side where it is not there; `closed` machines take no new VM."""

    before: int | None
    after: int | None
    closed: bool


class RackCounts(Struct, frozen=True):
    """A rack with its machines by slot; `leaving` VMs that stand there before the plan go."""

    site: str
    name: str
    machines: tuple[MachineCount, ...]
    leaving: int

    @property
    def stood(self) -> bool:
        """Whether it has a machine before the plan."""
        return any(machine.before is not None for machine in self.machines)


def changed_racks(sites: Iterable[SiteVms]) -> tuple[RackCounts, ...]:
    """The racks on which a VM comes or goes: those that most VMs leave first, then by name."""
    racks: list[RackCounts] = []
    for site in sites:
        racks += _changed_racks(site)
    return tuple(sorted(racks, key=_order))


def _order(rack: RackCounts) -> tuple[object, ...]:
    return -rack.leaving, rack.site, natural(rack.name)


def _changed_racks(site: SiteVms) -> list[RackCounts]:
    """The changed racks of one site."""
    standing = Counter(vm.placement.machine for vm in site.outsiders if not vm.lost)
    left: Counter[str] = Counter(vm.placement.machine for vm in site.outsiders if vm.lost)
    came: Counter[str] = Counter()
    for pool in site.pools:
        standing.update(_machines_of(pool.kept))
        left.update(_machines_of(pool.left))
        came.update(_machines_of(pool.came))
    machines: dict[str, list[SiteMachine]] = {}
    for machine in site.machines:
        machines.setdefault(machine.facts.rack, []).append(machine)
    racks = []
    for rack, members in machines.items():
        names = [machine.facts.name for machine in members]
        if not any(left[name] or came[name] for name in names):
            continue
        counts = [_count(machine, standing, left, came) for machine in sorted(members, key=_by_slot)]
        racks.append(RackCounts(site.name, rack, tuple(counts), sum(left[name] for name in names)))
    return racks


def _by_slot(machine: SiteMachine) -> tuple[object, ...]:
    return machine.facts.slot, natural(machine.facts.name)


def _count(
    machine: SiteMachine, standing: Counter[str], left: Counter[str], came: Counter[str]
) -> MachineCount:
    """The VMs of one machine before and after (None: it is not there); the counters are by machine."""
    name = machine.facts.name
    before = standing[name] + left[name] if machine.before else None
    after = standing[name] + came[name] if machine.after else None
    return MachineCount(before, after, bool(machine.facts.refusal))


def sharing_as_before(sites: Iterable[SiteVms]) -> frozenset[str]:
    """Resources none of whose VMs comes to a machine that houses another of them."""
    standing: dict[str, Counter[tuple[str, str]]] = {}
    came: dict[str, set[tuple[str, str]]] = {}
    for site in sites:
        for pool in site.pools:
            address = str(pool.address)
            arrivals = [(site.id, machine) for machine in _machines_of(pool.came)]
            kept = [(site.id, machine) for machine in _machines_of(pool.kept)]
            standing.setdefault(address, Counter()).update([*arrivals, *kept])
            came.setdefault(address, set()).update(arrivals)
    alone = set()
    for address, machines in came.items():
        most_on_a_machine = max((standing[address][machine] for machine in machines), default=0)
        if most_on_a_machine <= 1:
            alone.add(address)
    return frozenset(alone)


def _machines_of(vms: Iterable[PlacedVm]) -> list[str]:
    """The machines of VMs, one entry for each."""
    return [vm.placement.machine for vm in vms]


# --- who was seen on machines -------------------------------------------------------------------


def take_note(
    inventory: Inventory, kind: ResourceType, attributes: Mapping[str, Any], note: Mapping[str, Any] | None
) -> None:
    """Take in what a provider noted of a rack or machine: who else stands there."""
    for site_id, outsider in noted(kind, attributes, note):
        inventory.unmanaged.setdefault(site_id, []).append(outsider)


def noted(
    kind: ResourceType, attributes: Mapping[str, Any], note: Mapping[str, Any] | None
) -> list[tuple[str, Occupied]]:
    """Who else stands on a rack or machine, as its note says it, each with the id of the site."""
    rows = [*((note or {}).get(UNMANAGED) or ()), *((note or {}).get(FORGOTTEN) or ())]
    if not rows or kind.kind not in {Kind.RACK, Kind.MACHINE}:
        return []
    place = str(attributes.get("id" if kind.kind is Kind.RACK else "rack_id"))
    site_id = place.partition("/")[0]
    return [(site_id, _outsider(row)) for row in rows]


def _outsider(row: Sequence[Any]) -> Occupied:
    return replace(Occupied(*row[:_FIELDS]), cell_numbers=tuple(*row[_FIELDS:]))


def note_of(seen: Iterable[Occupied]) -> Mapping[str, Any]:
    """The note of a rack or machine that says who else stands there."""
    return {UNMANAGED: _rows_of(seen)}


def _rows_of(seen: Iterable[Occupied]) -> list[list[Any]]:
    """VMs on machines as a note has them."""
    rows: list[list[Any]] = []
    for each in seen:
        cells = [list(each.cell_numbers)] if each.cell_numbers else []
        rows.append([*astuple(each)[:_FIELDS], *cells])
    return rows


_FIELDS: Final = 6  # of such a row, before the numbers of the cells
