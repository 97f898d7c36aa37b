"""VM records of a scheduler: counts per machine, rack, cluster and pool, and the list of VMs.

A copy shares large data (counts of clusters and pools, the list of VMs) until one side writes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from msgspec import Struct

from nexusform.scheduling.racks.layout import NO_VMS, UNKNOWN_CELLS, OwnerVmCounts, Usage, VmCounts
from nexusform.scheduling.racks.site import (
    CELLS_BITS,
    CELLS_MASK,
    MACHINE_BITS,
    MACHINE_MASK,
    SKU_BITS,
    SKU_MASK,
    SiteTables,
    SplitCapacities,
    VmShape,
)
from nexusform.scheduling.racks.vms import ScheduledVm, VmName

if TYPE_CHECKING:
    from nexusform.scheduling.racks.uncertainty.splits import Cells, SplitChoice

# In place of the packed record of a removed VM.
REMOVED = -1
# A cluster, or a cluster and a pool.
_Owner = TypeVar("_Owner", str, tuple[str, str])


class VmRecord(NamedTuple):
    """One VM in the ledger: numbers of its pool, SKU, machine and cells, and its own number."""

    pool: int
    shape: int
    machine: int
    cells: int
    number: int | str


class UnknownCellVms(Struct):
    """VMs of a machine in unknown NUMA cells.

    `shapes` has their SKUs by handle, and `cells` their cells by handle in the chosen split, a
    possible assignment (empty: not chosen yet, or there is none). `known_capacity` is the
    capacity left by all other VMs; its disk is the disk left by all VMs. `is_stale` means that a
    new split is needed.
    """

    known_capacity: int
    shapes: dict[int, int] = {}
    cells: dict[int, tuple[int, ...]] = {}
    is_stale: bool = True

    def copy(self) -> UnknownCellVms:
        """Return an independent copy."""
        return UnknownCellVms(
            self.known_capacity, self.shapes.copy(), self.cells.copy(), self.is_stale
        )


class Ledger:
    """Counts and VMs.

    Handles are numbers from 0 in the order of addition. `unknown_cells` are the machines with VMs
    in unknown cells, by number; their `capacities` are right once splits are chosen. All others
    have the capacities left by their VMs.
    """

    def __init__(self, site: SiteTables) -> None:
        """Create a ledger of a site without VMs.

        Lists have a value per machine or rack, by its number.
        """
        racks = len(site.rack_name)
        self.site = site
        # Number of the free capacity of each machine.
        self.capacities = site.start_capacities.copy()
        # Used MiB of each machine.
        self.memory = [0] * len(site.machines)
        # VMs of extra large SKUs on each machine.
        self.extra_large = [0] * len(site.machines)
        # VMs by machine, and those placed by this plan. Only weighers read them, so pool sessions
        # do not count them.
        self.machine_vms = VmCounts()
        self.new_vms = VmCounts()
        self.rack_vms = [0] * racks
        self.rack_memory = [0] * racks
        self.clusters: dict[str, OwnerVmCounts] = {}
        # By cluster and pool.
        self.pools: dict[tuple[str, str], OwnerVmCounts] = {}
        # By machine, only machines with such VMs.
        self.unknown_cells: dict[int, UnknownCellVms] = {}
        # Ids of the counts not shared with a copy.
        self._own: set[int] = set()
        # VMs: older layers are shared with copies and never written; `records` and `numbers` belong
        # to this ledger.
        self.records: list[int] = []
        self.numbers: list[int | str] = []
        self._layers: list[tuple[list[int], list[int | str]]] = []
        # First handle of each layer.
        self._starts: list[int] = []
        # First handle of `records`.
        self._first = 0
        # Handles of removed VMs of the layers.
        self._removed: set[int] = set()

    def copy(self) -> Ledger:
        """Return an independent ledger; costs one pass over machines, not over VMs."""
        # From now on a layer shared with the copy.
        if self.records:
            self._layers = [*self._layers, (self.records, self.numbers)]
            self._starts = [*self._starts, self._first]
            self._first += len(self.records)
            self.records = []
            self.numbers = []
        # From now on both copy counts before a change.
        self._own = set()
        ledger = Ledger.__new__(Ledger)
        ledger.site = self.site
        ledger.capacities = self.capacities.copy()
        ledger.memory = self.memory.copy()
        ledger.extra_large = self.extra_large.copy()
        ledger.machine_vms = self.machine_vms.copy()
        ledger.new_vms = self.new_vms.copy()
        ledger.rack_vms = self.rack_vms.copy()
        ledger.rack_memory = self.rack_memory.copy()
        ledger.clusters = self.clusters.copy()
        ledger.pools = self.pools.copy()
        ledger.unknown_cells = {
            machine: unknown_vms.copy() for machine, unknown_vms in self.unknown_cells.items()
        }
        ledger._own = set()  # noqa: SLF001 - an object of the same class
        ledger.records = []
        ledger.numbers = []
        ledger._layers = self._layers  # noqa: SLF001 - of the same class
        ledger._starts = self._starts  # noqa: SLF001 - as above
        ledger._first = self._first  # noqa: SLF001 - as above
        ledger._removed = self._removed.copy()  # noqa: SLF001 - as above
        return ledger

    def _get_writable_counts(
        self, counts: dict[_Owner, OwnerVmCounts], owner: _Owner
    ) -> OwnerVmCounts:
        """Return the counts of a cluster or pool (an entry of `counts`) to be changed.

        After `copy`, two ledgers share their counts. The first change in either of them replaces
        them by a copy there.
        """
        tally = counts.get(owner, NO_VMS)
        if id(tally) not in self._own:
            tally = counts[owner] = tally.copy()
            self._own.add(id(tally))
        return tally

    def get_pool_usage(self, owner: str, pool: str) -> Usage:
        """Return the VM counts and memory of the site, with those of this cluster and pool.

        It may miss later VMs.
        """
        return self._build_usage(
            self.clusters.get(owner, NO_VMS), self.pools.get((owner, pool), NO_VMS)
        )

    def get_live_usage(self, owner: str, pool: str) -> Usage:
        """Return the VM counts and memory of the site, this cluster and pool.

        VMs added later count until a copy.
        """
        cluster_counts = self._get_writable_counts(self.clusters, owner)
        return self._build_usage(
            cluster_counts, self._get_writable_counts(self.pools, (owner, pool))
        )

    def get_neutral_usage(self) -> Usage:
        """Return the usage of the site, with the counts of a cluster without VMs."""
        return self._build_usage(NO_VMS, NO_VMS)

    def _build_usage(self, cluster: OwnerVmCounts, pool: OwnerVmCounts) -> Usage:
        return Usage(
            self.site, self.memory, self.extra_large, self.rack_vms, self.rack_memory, cluster, pool
        )

    def write(self, packed: int, number: int | str) -> int:
        """Record an already counted VM, and return its handle.

        `packed` is its record as a whole number.
        """
        self.records.append(packed)
        self.numbers.append(number)
        return self._first + len(self.records) - 1

    def write_without_cells(self, packed: int, number: int | str) -> int:
        """Record a counted VM on a machine with VMs in unknown cells, and return its handle.

        `packed` has cells of the assumed layout. The real ones are unknown, so the record replaces
        them, and `unknown_cells` keeps them.
        """
        record = _unpack_record(packed, number)
        # The cells are in the lowest bits.
        handle = self.write(packed - record.cells + UNKNOWN_CELLS, number)
        table = self.site.capacity_table
        unknown_vms = self.unknown_cells[record.machine]
        # Outside of the assumed layout, only the disk of the VM is known to be taken: it is
        # in no cell.
        disk = self.site.shapes[record.shape].share._replace(cells=0, cpus=0, memory=0, vfs=0)
        unknown_vms.known_capacity = table.apply_share(unknown_vms.known_capacity, disk, (), -1)
        assert unknown_vms.cells, "a machine without a split takes no VM"
        unknown_vms.shapes[handle] = record.shape
        unknown_vms.cells[handle] = table.cells[record.cells]
        return handle

    def add(self, record: VmRecord) -> int:
        """Count and record a VM, and return its handle.

        Its cells may be UNKNOWN_CELLS.
        """
        # The first such VM there.
        if record.cells == UNKNOWN_CELLS and record.machine not in self.unknown_cells:
            self.unknown_cells[record.machine] = UnknownCellVms(self.capacities[record.machine])
        self.count(record, 1)
        handle = self.write(_pack_record(record), record.number)
        if record.cells == UNKNOWN_CELLS:
            unknown_vms = self.unknown_cells[record.machine]
            unknown_vms.shapes[handle] = record.shape
            # A layout of all these VMs is chosen again, before capacities are read.
            unknown_vms.is_stale = True
        return handle

    def add_sampled(self, record: VmRecord) -> int:
        """Count and record a VM placed on a machine with a chosen split, and return its handle.

        Its cells are assumed by this split.
        """
        # So that `count` leaves its known capacity unchanged.
        unknown_vms = self.unknown_cells.pop(record.machine)
        self.count(record, 1)
        self.unknown_cells[record.machine] = unknown_vms
        return self.write_without_cells(_pack_record(record), record.number)

    def remove(self, handle: int) -> VmRecord:
        """Remove the VM with this handle from the counts, and return its record.

        Removing it twice is a bug.
        """
        record = self.get_record(handle)
        if handle >= self._first:
            self.records[handle - self._first] = REMOVED
        else:
            # In a layer shared with copies.
            self._removed.add(handle)
        self.count(record, -1)
        if record.cells == UNKNOWN_CELLS:
            # Release the cells assumed by the chosen split (possible assignment of such VMs
            # to NUMA cells).
            site = self.site
            machine = record.machine
            unknown_vms = self.unknown_cells[machine]
            del unknown_vms.shapes[handle]
            # The last one.
            if not unknown_vms.shapes:
                self.capacities[machine] = unknown_vms.known_capacity
                del self.unknown_cells[machine]
            elif handle not in unknown_vms.cells:
                # No split was possible, or none is chosen yet: choose one later.
                unknown_vms.is_stale = True
            else:
                share = site.shapes[record.shape].share.cells_share
                cells = unknown_vms.cells.pop(handle)
                self.capacities[machine] = site.capacity_table.apply_share(
                    self.capacities[machine], share, cells, 1
                )
        return record

    def find_split_capacities(self, machine: int) -> SplitCapacities:
        """Return the possible capacities of a machine.

        There is one per layout of its VMs in unknown NUMA cells.
        """
        unknown_vms = self.unknown_cells[machine]
        shares = tuple(
            sorted(self.site.shapes[shape].share for shape in unknown_vms.shapes.values())
        )
        return self.site.find_splits(unknown_vms.known_capacity, shares)

    def choose_cell_splits(self, choice: SplitChoice) -> list[int]:
        """Choose a split (assumed NUMA layout) for every machine that needs a new one.

        Return the numbers of these.
        """
        stale = [
            machine for machine, unknown_vms in self.unknown_cells.items() if unknown_vms.is_stale
        ]
        for machine in stale:
            site = self.site
            unknown_vms = self.unknown_cells[machine]
            # Sorted by share: a split has the cells of the VMs in this order.
            handles = sorted(
                unknown_vms.shapes, key=lambda handle: site.shapes[unknown_vms.shapes[handle]].share
            )
            split_capacities = self.find_split_capacities(machine)
            cells = self._choose_cells(machine, choice, handles, split_capacities)
            unknown_vms.is_stale = False
            # There is no split: the machine counts as full.
            if cells is None:
                unknown_vms.cells = {}
                self.capacities[machine] = site.capacity_table.get_exhausted_capacity_number(
                    unknown_vms.known_capacity
                )
            else:
                unknown_vms.cells = dict(zip(handles, cells, strict=True))
                self.capacities[machine] = split_capacities.compute_capacity(cells)
        return stale

    def _choose_cells(
        self,
        machine: int,
        choice: SplitChoice,
        handles: Sequence[int],
        split_capacities: SplitCapacities,
    ) -> tuple[Cells, ...] | None:
        """Return the NUMA cells of each VM in one split.

        A split is a possible assignment of the VMs of a machine to cells. The result is in the
        order of `handles`, or None if there is no split. `choice` selects the split. A LargestSplit
        leaves the most capacity for its SKUs. A number is a random sample. PACKED and SPREAD assign
        cells to the VMs in their order of arrival.
        """
        from nexusform.scheduling.racks.uncertainty.splits import SPREAD, LargestSplit

        splits = split_capacities.splits
        if isinstance(choice, LargestSplit):
            roomiest = split_capacities.find_roomiest(
                [self.site.get_shape(sku) for sku in choice.skus]
            )
            # Without a roomiest cell it is packed, as below.
            if roomiest is not None:
                return roomiest
        if isinstance(choice, int):
            digest_prefix = f"{choice}|split|{self.site.machines[machine].name}|"
            # `map` is lazy: most samples do not need the texts of the VMs.
            return splits.sample_cells(digest_prefix, map(self._build_digest_text, handles))
        # Handles increase in the order of arrival.
        arrival_order = sorted(range(len(handles)), key=lambda position: handles[position])
        return splits.assign_cells_in_order(arrival_order, packed=choice != SPREAD)

    def _build_digest_text(self, handle: int) -> str:
        """Return the text of a VM from which the choice of its cells is derived."""
        vm = self.get_vm_name(self.get_record(handle))
        return f"{vm.owner}|{vm.pool}|{vm.number}"

    def count(self, record: VmRecord, sign: int) -> None:
        """Add one VM to every count and take its capacity, or remove it.

        `sign` is 1 or -1. A removed VM returns its capacity.
        """
        site = self.site
        machine = record.machine
        key = site.pools[record.pool]
        shape = site.shapes[record.shape]
        rack = site.rack_by_machine[machine]
        cells = site.capacity_table.cells[record.cells]
        self.capacities[machine] = site.capacity_table.apply_share(
            self.capacities[machine], shape.share, cells, -sign
        )
        unknown_vms = self.unknown_cells.get(machine)
        # There is also the capacity without the VMs in unknown cells.
        if unknown_vms is not None:
            unknown_vms.known_capacity = site.capacity_table.apply_share(
                unknown_vms.known_capacity, shape.share, cells, -sign
            )
            # Without a chosen NUMA layout, one may be possible now.
            unknown_vms.is_stale |= not unknown_vms.cells
        self.machine_vms[machine] += sign
        self.memory[machine] += sign * shape.memory
        self.rack_memory[rack] += sign * shape.memory
        self.rack_vms[rack] += sign
        cluster = self._get_writable_counts(self.clusters, key.owner)
        pool = self._get_writable_counts(self.pools, (key.owner, key.pool))
        for counts, index in (
            (cluster.machines, machine),
            (cluster.racks, rack),
            (pool.machines, machine),
            (pool.racks, rack),
        ):
            _adjust_count_by_sign(counts, index, sign)
        if shape.is_extra_large:
            self.extra_large[machine] += sign
            _adjust_count_by_sign(cluster.extra_large, machine, sign)

    def get_record(self, handle: int) -> VmRecord:
        """Return the VM of a handle; raise KeyError if it was removed."""
        if handle >= self._first:
            records = self.records
            numbers = self.numbers
            index = handle - self._first
        else:
            # In a layer shared with copies.
            layer = bisect_right(self._starts, handle) - 1
            if handle in self._removed:
                raise KeyError(handle)
            (records, numbers), index = self._layers[layer], handle - self._starts[layer]
        if records[index] == REMOVED:
            raise KeyError(handle)
        return _unpack_record(records[index], numbers[index])

    def list_vms(self) -> Iterator[tuple[int, VmRecord]]:
        """Yield every VM with its handle, in the order of addition."""
        # Those shared with copies, then its own.
        layers = [*self._layers, (self.records, self.numbers)]
        for start, (records, numbers) in zip([*self._starts, self._first], layers, strict=True):
            for index, packed in enumerate(records):
                if packed != REMOVED and start + index not in self._removed:
                    yield start + index, _unpack_record(packed, numbers[index])

    def build_vm(self, handle: int, record: VmRecord) -> ScheduledVm:
        """Return the VM of a record, as a value."""
        placement = self.site.get_placement(record.machine, record.cells)
        return ScheduledVm(handle, self.get_vm_name(record), self.get_shape(record).sku, placement)

    def get_vm_name(self, record: VmRecord) -> VmName:
        """Return the name of the VM of a record."""
        key = self.site.pools[record.pool]
        return VmName(key.owner, key.cluster, key.pool, record.number)

    def get_shape(self, record: VmRecord) -> VmShape:
        """Return the shape (the SKU with figures for placement) of the VM of a record."""
        return self.site.shapes[record.shape]


def pack_placement_record(pool: int, shape: int) -> int:
    """Return the upper part of a packed record: pool and SKU by number."""
    return (pool << SKU_BITS | shape) << MACHINE_BITS << CELLS_BITS


def _pack_record(record: VmRecord) -> int:
    """Pack all numbers of a VM except its own in one whole number.

    They are the pool, SKU, machine and cells, the last in the lowest bits. A site has many VMs, and
    a whole number takes less memory than a record.
    """
    return (
        pack_placement_record(record.pool, record.shape)
        | record.machine << CELLS_BITS
        | record.cells
    )


def _unpack_record(packed: int, number: int | str) -> VmRecord:
    """Return the record packed by `_pack_record`.

    Take its numbers off one by one, from the lowest bits.
    """
    cells = packed & CELLS_MASK
    packed >>= CELLS_BITS
    machine = packed & MACHINE_MASK
    packed >>= MACHINE_BITS
    shape = packed & SKU_MASK
    pool = packed >> SKU_BITS
    return VmRecord(pool, shape, machine, cells, number)


def _adjust_count_by_sign(counts: VmCounts, index: int, sign: int) -> None:
    """Increment (sign 1) or decrement (sign -1) a count; zeros are removed."""
    count = counts.get(index, 0) + sign
    if count:
        counts[index] = count
    else:
        counts.pop(index, None)
