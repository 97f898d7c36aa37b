"""The room of a site in one row, beside other sites', and how long it lasts at the pace of its history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import ceil
from typing import Final

from msgspec import Struct

from nexusform.domains.whatif.questions.capacity import SkuRoom, find_capacity
from nexusform.domains.whatif.questions.fragmentation import largest_sku
from nexusform.plans.room.other_room import OtherKind, OtherRoom
from nexusform.scheduling.racks.vms import Interval, StandingVm, gib
from nexusform.worlds.world_view import SiteView

DAYS_OF_A_MONTH: Final = 365.25 / 12
# Called after how many volumes there are, and after the clusters of which claims are known.
NAMED_ANEW: Final = (OtherKind.VOLUMES, OtherKind.CLAIMS)
LEAST_DAYS: Final = 1.0  # a shorter history tells no pace


class Taken(Struct, frozen=True):
    """What the VMs of a site take of its machines, wherever their NUMA cells are: vCPUs and GiB."""

    vcpus: int
    memory_gib: float


class SiteRoom(Struct, frozen=True):
    """One site. NUMA cells are those of its active machines: `used` hold a VM, `free` hold none and are on
    machines that take VMs, `closed` hold none either, on machines that take no VM. Of the cells of machines
    that take VMs `stranded` have something free that no known SKU can take. Bounds where it is not known in
    which cells VMs are.

    `room` is that of the largest SKU, None where no machine could hold one. `homeless` VMs have no machine.
    """

    site_id: str
    cells: int
    used: Interval
    free: Interval
    closed: Interval
    stranded: Interval
    taken: Taken
    room: SkuRoom | None
    homeless: int


class Outlook(Struct, frozen=True):
    """How long the room of the largest SKU lasts: what VMs take grew from `since` on, RFC 3339, by so much a
    month, counted in VMs of that SKU. `months` None: it does not grow.
    """

    since: str
    monthly: float
    months: tuple[float, float] | None


class OtherOutlook(Struct, frozen=True):
    """How long something beside machines lasts: it was used by so much more a month. `months` None: what is
    used of it does not grow, or no history tells (`monthly` None).
    """

    row: OtherRoom
    monthly: float | None = None
    months: float | None = None


class SiteLine(Struct, frozen=True):
    """A site, from which state file and serial, and how long its room lasts (None: no history tells). `other`
    is what may run out beside machines, () where no provider looked.
    """

    state: str
    serial: int
    room: SiteRoom
    outlook: Outlook | None
    other: tuple[OtherOutlook, ...] = ()

    @property
    def other_first_out(self) -> OtherOutlook | None:
        """What runs out first beside machines, None where nothing does."""
        return first_out(self.other)


def room_of(site: SiteView) -> SiteRoom:
    """Count the cells and the room of a site."""
    machines = list(site.machines.values())
    sku = largest_sku(site, machines)
    answer = find_capacity(site, () if sku is None else (sku,))
    used, closed_used = _used_cells(site)
    closed_cells = sum(machine.cells for machine in machines if machine.refusal)
    open_cells = sum(machine.cells for machine in machines) - closed_cells
    stranded = answer.fragmentation.stranded_cells
    return SiteRoom(
        site_id=site.id,
        cells=open_cells + closed_cells,
        used=used + closed_used,
        free=_rest(open_cells, used),
        closed=_rest(closed_cells, closed_used),
        stranded=Interval(stranded, stranded + answer.fragmentation.unknown),
        taken=taken_on(site),
        room=answer.rooms[0] if answer.rooms else None,
        homeless=len(site.homeless),
    )


def _rest(cells: int, used: Interval) -> Interval:
    return Interval(cells - used.most, cells - used.least)


def taken_on(site: SiteView) -> Taken:
    """What the VMs with a machine take."""
    vcpus = mib = 0
    for vm in site.scheduler.vms():
        vcpus += vm.sku.cpus_in_cell * vm.sku.numa_cells
        mib += vm.sku.mib_in_cell * vm.sku.numa_cells
    return Taken(vcpus, gib(mib))


def _used_cells(site: SiteView) -> tuple[Interval, Interval]:
    """The cells that hold a VM: of machines that take VMs, and of the others."""
    by_machine: dict[str, list[StandingVm]] = {}
    for vm in site.scheduler.vms():
        by_machine.setdefault(vm.placement.machine, []).append(vm)
    counts = {True: Interval(0, 0), False: Interval(0, 0)}
    for name, vms in by_machine.items():
        machine = site.machines.get(name)
        if machine is not None:
            counts[not machine.refusal] += _used_on(machine.cells, machine.cpus_per_cell, vms)
    return counts[True], counts[False]


def _used_on(cells: int, cpus_per_cell: int, vms: Iterable[StandingVm]) -> Interval:
    """The cells of one machine that hold a VM. VMs whose cells nobody told may share cells or not: at least
    as many as the largest of them needs, and as all vCPUs need.
    """
    known_cells: set[int] = set()
    loose = largest = vcpus = 0
    for vm in vms:
        known_cells.update(vm.placement.cells)
        vcpus += vm.sku.cpus_in_cell * vm.sku.numa_cells
        if not vm.placement.cells:
            loose += vm.sku.numa_cells
            largest = max(largest, vm.sku.numa_cells)
    if not loose:
        return Interval(len(known_cells), len(known_cells))
    least = max(len(known_cells), largest, ceil(vcpus / max(cpus_per_cell, 1)))
    return Interval(min(least, cells), min(len(known_cells) + loose, cells))


def find_outlook(room: SiteRoom, earlier: Mapping[str, Taken], now: datetime) -> Outlook | None:
    """The pace since the oldest of the `earlier` versions, by when they were written (RFC 3339); None where
    the history is shorter than a day, or no VM can be counted.
    """
    since = min(earlier, default="")
    if not since or room.room is None:
        return None
    days = (now - datetime.fromisoformat(since)).total_seconds() / 86_400
    if days < LEAST_DAYS:
        return None
    taken_before, sku = earlier[since], room.room.sku
    by_vcpus = (room.taken.vcpus - taken_before.vcpus) / (sku.cpus_in_cell * sku.numa_cells)
    by_memory = (room.taken.memory_gib - taken_before.memory_gib) / (sku.memory_in_cell * sku.numa_cells)
    monthly = max(by_vcpus, by_memory) / days * DAYS_OF_A_MONTH
    if monthly <= 0:
        return Outlook(since, monthly, None)
    return Outlook(since, monthly, (room.room.now.least / monthly, room.room.now.most / monthly))


def find_other_outlooks(
    rows: Iterable[OtherRoom], earlier: Mapping[str, Iterable[OtherRoom]], now: datetime
) -> tuple[OtherOutlook, ...]:
    """How long each lasts at the pace since the oldest of the `earlier` versions (by when they were written,
    RFC 3339) that knows of it.
    """
    return tuple(_other_outlook(row, earlier, now) for row in rows)


def _other_outlook(row: OtherRoom, earlier: Mapping[str, Iterable[OtherRoom]], now: datetime) -> OtherOutlook:
    if row.used is None or row.free is None:
        return OtherOutlook(row)
    for since in sorted(earlier):
        days = (now - datetime.fromisoformat(since)).total_seconds() / 86_400
        for before in earlier[since]:
            alike = before.kind is row.kind and (row.kind in NAMED_ANEW or before.name == row.name)
            if not alike or before.used is None or days < LEAST_DAYS:
                continue
            monthly = (row.used - before.used) / days * DAYS_OF_A_MONTH
            months = max(row.free, 0) / monthly if monthly > 0 else None
            return OtherOutlook(row, monthly, months)
    return OtherOutlook(row)


def first_out(outlooks: Iterable[OtherOutlook]) -> OtherOutlook | None:
    """What runs out first: what lacks today, then what lasts the fewest months; None where nothing does."""
    lacking = [one for one in outlooks if one.row.lacks]
    if lacking:
        return lacking[0]
    ending = [(one.months, one) for one in outlooks if one.months is not None]
    return min(ending, key=lambda pair: pair[0])[1] if ending else None
