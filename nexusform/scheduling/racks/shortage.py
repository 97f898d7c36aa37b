"""Why a VM fits nowhere, as data for the error that says so."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from msgspec import Struct

from nexusform.scheduling.racks.ledger import Ledger, Record
from nexusform.scheduling.racks.model import Demand, Machine, VmSku
from nexusform.scheduling.racks.rules import hints
from nexusform.scheduling.racks.site import fitting_cells


class Binding(StrEnum):
    """The constraint that left no candidate: the first of these, in this order, that no machine passes."""

    UNKNOWN_ZONES = "unknown_zones"
    NO_MACHINE = "no_machine"
    NOT_SCHEDULABLE = "not_schedulable"
    HARDWARE = "hardware"
    DISK = "disk"
    CELLS = "cells"
    HINTS = "hints"


class BrokenBy(Struct, frozen=True):
    """A pool whose VMs were the first in cells that would otherwise hold the demand, and in how many."""

    owner: str
    cluster: str
    pool: str
    cells: int


class Shortage(Struct, frozen=True):
    """Why nothing fits. Counts are machines in the zones asked for, each after the step before.

    `broken_cells` are cells of listed, schedulable machines in these zones that would hold the
    demand's share when empty, hold only VMs that ask less of a cell than the demand, and cannot take
    it now; `broken_by` splits them by the pool whose VM came first, most cells first.
    `empty_machines` could hold it when empty (0: no machine is large enough).
    """

    demand: Demand
    binding: Binding
    site_zones: tuple[str, ...]
    unknown_zones: tuple[str, ...]
    in_zones: int
    schedulable: int
    listed: int
    with_disk: int
    with_cells: int
    empty_machines: int
    refusals: tuple[tuple[str, int], ...] = ()
    machine_skus: tuple[str, ...] = ()
    broken_cells: int = 0
    broken_by: tuple[BrokenBy, ...] = ()
    hints: tuple[str, ...] = ()


def find_shortage(ledger: Ledger, demand: Demand) -> Shortage:
    """Walk the steps once more and note where the last candidates went."""
    site, sku = ledger.site, demand.sku
    shape = site.shape(sku)
    listed_skus = frozenset(sku.machine_skus)
    here = [number for rack in site.racks_in(demand.zones) for number in site.machines_in[rack]]
    open_ = [number for number in here if not site.machines[number].refusal]
    room = {number: site.rooms.room(ledger.rooms[number]) for number in open_}
    listed = [number for number in open_ if site.rooms.hardware_passes(room[number], listed_skus)]
    with_disk = [number for number in listed if max(room[number][1], 0) >= sku.disk_gib]
    with_cells = [number for number in with_disk if shape.steps[ledger.rooms[number]] is not None]
    zones = tuple(dict.fromkeys(site.rack_zone))
    unknown = tuple(sorted((demand.zones or frozenset()) - set(zones)))
    stages = (open_, listed, with_disk, with_cells)
    broken = _broken(ledger, demand, listed)
    refusals = Counter(site.machines[number].refusal for number in here if site.machines[number].refusal)
    return Shortage(
        demand=demand,
        binding=_binding(len(here), [len(stage) for stage in stages], unknown=bool(unknown)),
        site_zones=zones,
        unknown_zones=unknown,
        in_zones=len(here),
        schedulable=len(open_),
        listed=len(listed),
        with_disk=len(with_disk),
        with_cells=len(with_cells),
        empty_machines=sum(shape.steps[site.start_rooms[number]] is not None for number in listed),
        refusals=tuple(sorted(refusals.items(), key=lambda item: (-item[1], item[0]))),
        machine_skus=tuple(sorted({name for number in open_ if (name := site.machines[number].machine_sku)})),
        broken_cells=sum(entry.cells for entry in broken),
        broken_by=broken,
        hints=tuple(dict.fromkeys(hints.sentence(hint) for hint in demand.hints if hint.hard)),
    )


def _binding(here: int, stages: list[int], *, unknown: bool) -> Binding:
    if not here:
        return Binding.UNKNOWN_ZONES if unknown else Binding.NO_MACHINE
    order = (Binding.NOT_SCHEDULABLE, Binding.HARDWARE, Binding.DISK, Binding.CELLS)
    for binding, left in zip(order, stages, strict=True):
        if not left:
            return binding
    return Binding.HINTS


def _broken(ledger: Ledger, demand: Demand, listed: list[int]) -> tuple[BrokenBy, ...]:
    """Who stood first in each cell that only VMs smaller than the demand keep from it."""
    site, sku = ledger.site, demand.sku
    suspects: set[tuple[int, int]] = set()
    for number in listed:
        free = set(fitting_cells(site.rooms.room(ledger.rooms[number]), sku))
        if _holds_when_empty(site.machines[number], sku):
            suspects.update((number, cell) for cell in range(site.machines[number].cells) if cell not in free)
    first: dict[tuple[int, int], Record] = {}
    smaller = [_is_smaller(shape.sku, sku) for shape in site.shapes]
    for _, record in ledger.vms():
        for cell in site.rooms.cells(record.cells):
            at = record.machine, cell
            if at not in suspects:
                continue
            if smaller[record.shape]:
                first.setdefault(at, record)
            else:
                suspects.discard(at)
                first.pop(at, None)
    counts = Counter(record.pool for record in first.values())
    ranked = sorted(counts.items(), key=lambda item: (-item[1], site.pools[item[0]]))
    return tuple(BrokenBy(*site.pools[pool], cells) for pool, cells in ranked)


def _holds_when_empty(machine: Machine, sku: VmSku) -> bool:
    return machine.cpus_per_cell >= sku.cpus_in_cell and machine.memory_gib_per_cell >= sku.memory_in_cell


def _is_smaller(sku: VmSku, than: VmSku) -> bool:
    return (sku.memory_in_cell, sku.cpus_in_cell) < (than.memory_in_cell, than.cpus_in_cell)
