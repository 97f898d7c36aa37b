"""Samples of plain placements, with tables that all samples of a plan share.

The operations of a plan place VMs by the rule, remove existing ones, or put them on given machines.

Opening the session of a pool costs more than the placement of its only VM. Here the machines of a
rack are in bitsets of equal memory use, free capacity and use by extra-large VMs, and the racks in
bitsets of equal rank, so that a tie costs no list of machines or racks. The decisions are those of
session.py, for the keys of the Nexus profile: tests compare both on random sites.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from nexusform.scheduling.racks import demand_rules
from nexusform.scheduling.racks.layout import NO_VMS, OwnerVmCounts
from nexusform.scheduling.racks.rule import RankedItemKind
from nexusform.scheduling.racks.rules import tie_break
from nexusform.scheduling.racks.site import CapacitySteps, VmShape
from nexusform.scheduling.racks.uncertainty.bit_tables import (
    Bitsets,
    OwnerCounters,
    VmCounters,
    VmTables,
    build_bits,
    count_on_machine,
    iterate_by_count,
    select_bit,
)
from nexusform.scheduling.racks.uncertainty.operations import (
    OccupyOperation,
    Operation,
    PlaceOperation,
)
from nexusform.scheduling.racks.vms import Demand, Placement, PlacementConstraints, RackSpread

if TYPE_CHECKING:
    from nexusform.scheduling.racks.rack_scheduler import RackScheduler

# The level of a rack: its VMs, above its memory in MiB.
_VM_SHIFT: Final = 42
# The level of a machine: its used memory in MiB, above the number of its free capacity.
_MEMORY_SHIFT: Final = 32
_CAPACITY_MASK: Final = (1 << _MEMORY_SHIFT) - 1
# A VM without a machine; the last entry of the placements by machine is None.
_NOWHERE: Final = -1
_PoolId: TypeAlias = tuple[str, str]


class _Row(Struct, frozen=True):
    """One VM to place.

    `text` is that of the VM in digests. `owner` and `pool` are numbers of this module, and
    `closed_racks` is a bitset of the forbidden ones. `machine_step` and `rack_step` are what it
    adds to the level of its machine, apart from the capacity, and of its rack.
    """

    text: bytes
    owner: int
    pool: int
    shape: int
    capacities: CapacitySteps
    machine_step: int
    rack_step: int
    is_extra_large: bool
    closed_racks: int


class _Change(Struct, frozen=True):
    """A VM that leaves its machine (`count` -1), or runs on a given one (+1).

    `owner` and `pool` are numbers of this module. `cells` is None for those assigned by the rule.
    """

    count: int
    owner: int
    pool: int
    shape: VmShape
    rack: int
    machine: int
    cells: tuple[int, ...] | None


class PlainSamples:
    """Samples of the operations of a plan, one after the other, independent of names."""

    def __init__(self, base: RackScheduler, operations: Iterable[Operation]) -> None:
        """Build the tables of the situation before the first operation.

        Released VMs exist in it.
        """
        ledger = base.copy_ledger()
        site = ledger.site
        self.ledger = ledger
        self.site = site
        self.has_cluster_spread = base.spread is not RackSpread.POOL
        # The bit of a machine among those of its rack.
        self.bits = [0] * len(site.machines)
        for machines in site.machines_by_rack:
            for position, machine in enumerate(machines):
                self.bits[machine] = 1 << position
        owners: dict[str, int] = {}
        pools: dict[_PoolId, int] = {}
        self._closed_racks: dict[PlacementConstraints, int] = {}
        self.rows = [self._build_row(operation, owners, pools) for operation in operations]
        # By number of a cluster: that of its last VM.
        self._last_rows = {row.owner: number for number, row in enumerate(self.rows)}
        self.levels = [
            memory << _MEMORY_SHIFT | capacity
            for memory, capacity in zip(ledger.memory, ledger.capacities, strict=True)
        ]
        self.sides = [self._build_sides(machines) for machines in site.open_machines_by_rack]
        self.racks = Bitsets({}, [])
        self.rack_levels = [
            vms << _VM_SHIFT | memory
            for vms, memory in zip(ledger.rack_vms, ledger.rack_memory, strict=True)
        ]
        for rack, level in enumerate(self.rack_levels):
            self.racks.add(1 << rack, level)
        self.owners = [self._build_tables(ledger.clusters.get(owner, NO_VMS)) for owner in owners]
        self.pools = [self._build_tables(ledger.pools.get(pool, NO_VMS)) for pool in pools]
        # The tied machines of all samples by pool, as bits: those of the first rack are the lowest.
        self.ties = [0] * len(pools)
        sizes = [len(machines) for machines in site.machines_by_rack]
        self.first_bits = list(accumulate(sizes, initial=0))
        self._pool_numbers = pools
        # By machine; samples compare no cells.
        self._placements: list[Placement | None] = [
            *(site.get_placement(machine, 0) for machine in range(len(self.bits))),
            None,
        ]

    def _build_row(
        self, operation: Operation, owners: dict[str, int], pools: dict[_PoolId, int]
    ) -> _Row | _Change:
        """Build the row of an operation, and number its cluster and pool."""
        if isinstance(operation, PlaceOperation):
            return self._build_placement(operation.demand, owners, pools)
        site = self.site
        if isinstance(operation, OccupyOperation):
            vm = operation.vm
            shape = site.get_shape(operation.sku)
            machine = site.machine_index[operation.placement.machine]
            cells = None if operation.uses_rule_cells else operation.placement.cells
        else:
            record = self.ledger.get_record(operation.handle)
            vm = self.ledger.get_vm_name(record)
            shape = site.shapes[record.shape]
            machine = record.machine
            cells = site.capacity_table.cells[record.cells]
        return _Change(
            1 if isinstance(operation, OccupyOperation) else -1,
            owners.setdefault(vm.owner, len(owners)),
            pools.setdefault((vm.owner, vm.pool), len(pools)),
            shape,
            site.rack_by_machine[machine],
            machine,
            cells,
        )

    def _build_placement(
        self, demand: Demand, owners: dict[str, int], pools: dict[_PoolId, int]
    ) -> _Row:
        """Build the row of a VM to place, and number its cluster and pool."""
        vm = demand.vm
        shape = self.site.get_shape(demand.sku)
        return _Row(
            tie_break.format_vm_text(vm),
            owners.setdefault(vm.owner, len(owners)),
            pools.setdefault((vm.owner, vm.pool), len(pools)),
            shape.number,
            shape.steps,
            shape.memory << _MEMORY_SHIFT,
            (1 << _VM_SHIFT) + shape.memory,
            shape.is_extra_large,
            self._find_closed_racks(demand),
        )

    def _find_closed_racks(self, demand: Demand) -> int:
        """Return the racks forbidden by the filters of a demand, as bits."""
        constraints = demand.constraints
        if constraints not in self._closed_racks:
            self._closed_racks[constraints] = self._filter_racks(demand)
        return self._closed_racks[constraints]

    def _filter_racks(self, demand: Demand) -> int:
        """Apply the filters of a demand to the racks; return the forbidden ones, as bits."""
        usage = self.ledger.get_pool_usage(demand.vm.owner, demand.vm.pool)
        filters = demand_rules.prepare_filters(self.ledger, usage, demand)
        assert all(rule.item is RankedItemKind.RACK for rule, _ in filters)
        passes = demand_rules.build_combined_check([check for _, check in filters])
        if passes is None:
            return 0
        racks = range(len(self.site.rack_name))
        return build_bits(rack for rack in racks if not passes(rack))

    def _build_sides(self, machines: Sequence[int]) -> tuple[Bitsets, Bitsets]:
        """Build the bitsets of the machines of a rack, without and with extra-large VMs."""
        sides = (Bitsets({}, []), Bitsets({}, []))
        for machine in machines:
            has_extra_large = self.ledger.extra_large[machine] > 0
            sides[has_extra_large].add(self.bits[machine], self.levels[machine])
        return sides

    def _build_tables(self, existing: OwnerVmCounts) -> VmTables:
        """Build the tables of the existing VMs of a cluster or pool."""
        machine_bits: dict[int, list[int]] = {}
        for machine, vms in existing.machines.items():
            rack_bits = machine_bits.setdefault(self.site.rack_by_machine[machine], [])
            for _ in range(vms):
                count_on_machine(rack_bits, self.bits[machine])
        return VmTables(dict(existing.racks), dict(existing.extra_large), machine_bits)

    def run(self, seed: int) -> list[Placement | None]:
        """Return the placements of VMs to place in a sample, without cells.

        They are in the order of the operations, None if a VM does not fit.
        """
        sample = _Sample(self, seed)
        placements: list[Placement | None] = []
        for number, row in enumerate(self.rows):
            if isinstance(row, _Row):
                placements.append(self._placements[sample.place(row)])
            else:
                sample.change(row)
            if number == self._last_rows[row.owner]:
                sample.forget_owner(row.owner)
        return placements

    def get_tied_machines(self, pool: _PoolId) -> int:
        """Return the machines tied for a pool in any sample so far, as bits, rack by rack."""
        return self.ties[self._pool_numbers[pool]]


class _Sample:
    """Placement of all VMs in one sample."""

    def __init__(self, samples: PlainSamples, seed: int) -> None:
        """Copy the situation before the first VM."""
        self._samples = samples
        self._seed = str(seed).encode()
        self._levels = samples.levels.copy()
        self._extra_large = samples.ledger.extra_large.copy()
        self._rack_levels = samples.rack_levels.copy()
        self._racks = samples.racks.copy()
        self._sides = [(plain.copy(), shared.copy()) for plain, shared in samples.sides]
        # From the first VM of a cluster on.
        self._owners: dict[int, OwnerCounters] = {}
        # By SKU: racks without a machine for one more VM, as bits.
        self._full_racks: dict[int, int] = {}

    def place(self, row: _Row) -> int:
        """Place a VM, and return its machine; _NOWHERE if it does not fit."""
        owner, pool = self._get_counts(row)
        closed_racks = row.closed_racks | self._full_racks.get(row.shape, 0)
        rack_number, machine_number = tie_break.draw_sample_numbers(
            blake2b(self._seed + row.text, digest_size=tie_break.DIGEST_BYTES)
        )
        while racks := self._find_tied_racks(closed_racks, owner, pool):
            rack = select_bit(racks, rack_number)
            if machines := self._find_tied_machines(row, rack, owner, pool):
                self._samples.ties[row.pool] |= machines << self._samples.first_bits[rack]
                position = select_bit(machines, machine_number)
                machine = self._samples.site.machines_by_rack[rack][position]
                self._count(row, rack, machine, owner, pool)
                return machine
            closed_racks |= 1 << rack
            self._full_racks[row.shape] = self._full_racks.get(row.shape, 0) | 1 << rack
        return _NOWHERE

    def change(self, change: _Change) -> None:
        """Remove a VM, or add one on its given machine."""
        owner, pool = self._get_counts(change)
        shape = change.shape
        rack = change.rack
        machine = change.machine
        site = self._samples.site
        capacity = self._levels[machine] & _CAPACITY_MASK
        cells = change.cells
        if cells is None:
            cells = site.select_cells(shape.sku, capacity)
        new_capacity = site.capacity_table.apply_share(capacity, shape.share, cells, -change.count)
        memory = change.count * shape.memory
        self._move(
            rack,
            machine,
            (memory << _MEMORY_SHIFT) + new_capacity - capacity,
            (change.count << _VM_SHIFT) + memory,
            change.count if shape.is_extra_large else 0,
        )
        vm = (rack, machine, self._samples.bits[machine], shape.is_extra_large)
        for counts in (owner, pool):
            if change.count > 0:
                counts.add(vm)
            else:
                counts.remove(vm)
        if change.count < 0:
            for full_shape in self._full_racks:
                self._full_racks[full_shape] &= ~(1 << rack)

    def _get_counts(self, row: _Row | _Change) -> tuple[OwnerCounters, VmCounters]:
        """Return the counts of the cluster and of the pool of a VM."""
        owner = self._owners.get(row.owner)
        if owner is None:
            owner = self._owners[row.owner] = OwnerCounters(self._samples.owners[row.owner])
        pool = owner.pools.get(row.pool)
        if pool is None:
            pool = owner.pools[row.pool] = VmCounters(self._samples.pools[row.pool])
        return owner, pool

    def forget_owner(self, owner: int) -> None:
        """Forget the counts of a cluster after its last VM.

        The counts of many clusters exceed the caches of the processor.
        """
        del self._owners[owner]

    def _find_tied_racks(self, closed_racks: int, owner: VmCounters, pool: VmCounters) -> int:
        """Return the racks with the lowest keys, as bits."""
        counts = owner if self._samples.has_cluster_spread else pool
        open_racks = ~(closed_racks | counts.rack_bits)
        # Racks without VMs of the pool or cluster, in the order shared by all demands.
        for level in self._racks.levels:
            racks = self._racks.bits[level] & open_racks
            if racks:
                return racks
        return self._find_lowest_counted_racks(closed_racks, owner, pool)

    def _find_lowest_counted_racks(
        self, closed_racks: int, owner: VmCounters, pool: VmCounters
    ) -> int:
        """Return the racks with the lowest keys among those with VMs of the pool or cluster."""
        pool_racks = pool.count_tables().racks
        owner_racks = owner.count_tables().racks if self._samples.has_cluster_spread else None
        lowest: tuple[int, ...] | None = None
        tied = 0
        for rack in pool_racks if owner_racks is None else owner_racks:
            if closed_racks >> rack & 1:
                continue
            key: tuple[int, ...] = (pool_racks.get(rack, 0), self._rack_levels[rack])
            if owner_racks is not None:
                key = (owner_racks[rack], *key)
            if lowest is None or key < lowest:
                lowest = key
                tied = 1 << rack
            elif key == lowest:
                tied |= 1 << rack
        return tied

    def _find_tied_machines(self, row: _Row, rack: int, owner: VmCounters, pool: VmCounters) -> int:
        """Return the machines of a rack with the lowest keys, as bits.

        Machines with fewer VMs of the cluster have lower keys, then those with fewer of the pool.
        """
        if not owner.rack_bits >> rack & 1:
            return self._find_lowest_machines(row, rack, -1)
        owner_tables = owner.count_tables()
        pool_tables = pool.count_tables()
        for machines_of_owner in iterate_by_count(owner_tables.machine_bits[rack]):
            for machines_of_pool in iterate_by_count(pool_tables.machine_bits.get(rack, ())):
                allowed = machines_of_owner & machines_of_pool
                if not allowed:
                    continue
                if machines := self._find_lowest_machines(row, rack, allowed, owner_tables):
                    return machines
        return 0

    def _find_lowest_machines(
        self, row: _Row, rack: int, allowed: int, owner: VmTables | None = None
    ) -> int:
        """Return the allowed machines of a rack with the lowest memory use and capacity for a VM.

        A machine with extra-large VMs of clusters but the owner comes first for another one.
        """
        plain, shared = self._sides[rack]
        if not shared.levels:
            return _find_lowest_bits(plain, row, allowed)[1]
        allowed_shared = allowed
        if row.is_extra_large:
            own_machines = self._find_machines_without_others(rack, owner) if owner else 0
            if machines := _find_lowest_bits(shared, row, allowed & ~own_machines)[1]:
                return machines
            allowed_shared = allowed & own_machines
        memory, machines = _find_lowest_bits(plain, row, allowed)
        shared_memory, shared_machines = _find_lowest_bits(shared, row, allowed_shared)
        if not machines or (shared_machines and shared_memory < memory):
            return shared_machines
        return machines | shared_machines if shared_memory == memory else machines

    def _find_machines_without_others(self, rack: int, owner: VmTables) -> int:
        """Return the machines of a rack whose extra-large VMs are all of a cluster, as bits."""
        found = 0
        bits = owner.machine_bits[rack][0]
        while bits:
            bit = bits & -bits
            bits ^= bit
            machine = self._samples.site.machines_by_rack[rack][bit.bit_length() - 1]
            if self._extra_large[machine] == owner.extra_large.get(machine, 0):
                found |= bit
        return found

    def _count(
        self, row: _Row, rack: int, machine: int, owner: VmCounters, pool: VmCounters
    ) -> None:
        """Count a VM on its machine and rack."""
        capacity = self._levels[machine] & _CAPACITY_MASK
        step = row.capacities[capacity]
        assert step is not None
        machine_step = row.machine_step + step.capacity - capacity
        self._move(rack, machine, machine_step, row.rack_step, int(row.is_extra_large))
        vm = (rack, machine, self._samples.bits[machine], row.is_extra_large)
        owner.add(vm)
        pool.add(vm)

    def _move(
        self, rack: int, machine: int, machine_step: int, rack_step: int, extra_large: int
    ) -> None:
        """Move a machine and its rack to new levels, and count extra-large VMs."""
        sides = self._sides[rack]
        side = sides[self._extra_large[machine] > 0]
        self._extra_large[machine] += extra_large
        target = sides[self._extra_large[machine] > 0]
        level = self._levels[machine]
        new_level = level + machine_step
        self._levels[machine] = new_level
        if self._samples.site.is_open[machine]:
            side.move(self._samples.bits[machine], level, target, new_level)
        rack_level = self._rack_levels[rack]
        new_rack_level = rack_level + rack_step
        self._rack_levels[rack] = new_rack_level
        self._racks.move(1 << rack, rack_level, self._racks, new_rack_level)


def _find_lowest_bits(machines: Bitsets, row: _Row, allowed: int) -> tuple[int, int]:
    """Return the lowest memory use of allowed machines with capacity for a VM, and these machines.

    Both bitsets are of one rack. Without such a machine, the machines are 0.
    """
    lowest_memory = -1
    tied = 0
    for level in machines.levels:
        memory = level >> _MEMORY_SHIFT
        if tied and memory != lowest_memory:
            break
        if row.capacities[level & _CAPACITY_MASK] is not None:
            tied |= machines.bits[level] & allowed
            lowest_memory = memory
    return lowest_memory, tied
