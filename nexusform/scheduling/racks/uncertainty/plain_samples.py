"""Samples of plain placements, with tables that all samples of a plan share.

Opening the session of a pool costs more than the placement of its only VM. Here the machines of a
rack are in buckets of equal memory use, free capacity and use by extra-large VMs, and the racks in
buckets of equal rank. A bucket has a bitset, so that a tie costs no list of machines or racks. The
decisions are those of session.py, for the keys of the Nexus profile: tests compare both on random
sites.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from nexusform.scheduling.racks import demand_rules
from nexusform.scheduling.racks.rule import RankedItemKind
from nexusform.scheduling.racks.rules import tie_break
from nexusform.scheduling.racks.site import CapacitySteps
from nexusform.scheduling.racks.vms import Demand, Placement, PlacementConstraints, RackSpread

if TYPE_CHECKING:
    from nexusform.scheduling.racks.rack_scheduler import RackScheduler

# The rank of a rack in one number: its VMs, above its memory in MiB.
_VM_SHIFT: Final = 42
# Racks have no capacity numbers.
_NO_CAPACITY: Final = 0
_NOWHERE: Final = -1
_PoolId: TypeAlias = tuple[str, str]


class _Row(NamedTuple):
    """One VM to place.

    `text` is that of the VM in digests. `owner` and `pool` are numbers of this module, and
    `closed_racks` is a bitset of the forbidden ones.
    """

    token: Hashable
    text: bytes
    owner: int
    pool: int
    shape: int
    steps: CapacitySteps
    memory: int
    is_extra_large: bool
    closed_racks: int


class _Bucket:
    """Machines of a rack with equal keys and capacity, ascending, and a bitset of them.

    Or racks of equal rank.
    """

    __slots__ = ("bits", "items")

    def __init__(self, items: list[int], bits: int) -> None:
        self.items = items
        self.bits = bits

    def copy(self) -> _Bucket:
        """Return an independent copy."""
        return _Bucket(self.items.copy(), self.bits)


class _Buckets:
    """Buckets of a rack's machines with, or without, extra-large VMs, or of all racks.

    `buckets` are by level (used memory, or the rank of racks) and number of the free capacity;
    `levels` are ascending.
    """

    __slots__ = ("buckets", "levels")

    def __init__(self, buckets: dict[int, dict[int, _Bucket]], levels: list[int]) -> None:
        self.buckets = buckets
        self.levels = levels

    def copy(self) -> _Buckets:
        """Return an independent copy."""
        buckets = {
            level: {capacity: bucket.copy() for capacity, bucket in by_capacity.items()}
            for level, by_capacity in self.buckets.items()
        }
        return _Buckets(buckets, self.levels.copy())

    def add(self, item: int, bit: int, level: int, capacity: int) -> None:
        """Add a machine or rack."""
        by_capacity = self.buckets.get(level)
        if by_capacity is None:
            by_capacity = self.buckets[level] = {}
            insort(self.levels, level)
        bucket = by_capacity.get(capacity)
        if bucket is None:
            by_capacity[capacity] = _Bucket([item], bit)
        else:
            insort(bucket.items, item)
            bucket.bits |= bit

    def remove(self, item: int, bit: int, level: int, capacity: int) -> None:
        """Remove a machine or rack."""
        by_capacity = self.buckets[level]
        bucket = by_capacity[capacity]
        del bucket.items[bisect_left(bucket.items, item)]
        bucket.bits ^= bit
        if not bucket.items:
            del by_capacity[capacity]
            if not by_capacity:
                del self.buckets[level]
                del self.levels[bisect_left(self.levels, level)]


class _OwnerCounts:
    """VMs of a cluster: per machine of each rack, per rack, and extra-large ones per machine."""

    __slots__ = ("extra_large", "machines", "racks")

    def __init__(
        self,
        machines: dict[int, dict[int, int]],
        racks: dict[int, int],
        extra_large: dict[int, int],
    ) -> None:
        self.machines = machines
        self.racks = racks
        self.extra_large = extra_large

    def copy(self) -> _OwnerCounts:
        """Return an independent copy."""
        machines = {rack: counts.copy() for rack, counts in self.machines.items()}
        return _OwnerCounts(machines, self.racks.copy(), self.extra_large.copy())


class _PoolCounts:
    """VMs of a pool, per machine and per rack."""

    __slots__ = ("machines", "racks")

    def __init__(self, machines: dict[int, int], racks: dict[int, int]) -> None:
        self.machines = machines
        self.racks = racks

    def copy(self) -> _PoolCounts:
        """Return an independent copy."""
        return _PoolCounts(self.machines.copy(), self.racks.copy())


class PlainSamples:
    """Samples of VMs that are placed one after the other, independent of names."""

    def __init__(self, base: RackScheduler, demands: Mapping[Hashable, Demand]) -> None:
        """Build the tables of the situation before the first VM."""
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
        self.rows = [
            self._build_row(token, demand, owners, pools) for token, demand in demands.items()
        ]
        self.sides = [self._build_sides(machines) for machines in site.open_machines_by_rack]
        self.racks = _Buckets({}, [])
        self.ranks = [
            vms << _VM_SHIFT | memory
            for vms, memory in zip(ledger.rack_vms, ledger.rack_memory, strict=True)
        ]
        for rack, rank in enumerate(self.ranks):
            self.racks.add(rack, 1 << rack, rank, _NO_CAPACITY)
        self.owners = [self._build_owner_counts(owner) for owner in owners]
        self.pools = [self._build_pool_counts(pool) for pool in pools]
        # The tied machines of all samples, by pool and rack, as bits.
        self.ties = [[0] * len(site.rack_name) for _ in pools]
        self._pool_numbers = pools
        # By machine; samples compare no cells.
        self._placements = [site.get_placement(machine, 0) for machine in range(len(self.bits))]

    def _build_row(
        self, token: Hashable, demand: Demand, owners: dict[str, int], pools: dict[_PoolId, int]
    ) -> _Row:
        """Build the row of a VM, and number its cluster and pool."""
        vm = demand.vm
        shape = self.site.get_shape(demand.sku)
        return _Row(
            token,
            tie_break.format_vm_text(vm),
            owners.setdefault(vm.owner, len(owners)),
            pools.setdefault((vm.owner, vm.pool), len(pools)),
            shape.number,
            shape.steps,
            shape.memory,
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
        return _build_bits(rack for rack in racks if not passes(rack))

    def _build_sides(self, machines: Sequence[int]) -> tuple[_Buckets, _Buckets]:
        """Build the buckets of the machines of a rack, without and with extra-large VMs."""
        sides = (_Buckets({}, []), _Buckets({}, []))
        ledger = self.ledger
        for machine in machines:
            sides[ledger.extra_large[machine] > 0].add(
                machine, self.bits[machine], ledger.memory[machine], ledger.capacities[machine]
            )
        return sides

    def _build_owner_counts(self, owner: str) -> _OwnerCounts:
        """Count the existing VMs of a cluster."""
        counts = _OwnerCounts({}, {}, {})
        existing = self.ledger.clusters.get(owner)
        if existing is not None:
            for machine, number in existing.machines.items():
                rack = self.site.rack_by_machine[machine]
                counts.machines.setdefault(rack, {})[machine] = number
            counts.racks = dict(existing.racks)
            counts.extra_large = dict(existing.extra_large)
        return counts

    def _build_pool_counts(self, pool: _PoolId) -> _PoolCounts:
        """Count the existing VMs of a pool."""
        existing = self.ledger.pools.get(pool)
        if existing is None:
            return _PoolCounts({}, {})
        return _PoolCounts(dict(existing.machines), dict(existing.racks))

    def run(self, seed: int) -> dict[Hashable, Placement | None]:
        """Return the placement of each VM in a sample, without cells; None if it does not fit."""
        sample = _Sample(self, seed)
        outcome: dict[Hashable, Placement | None] = {}
        for row in self.rows:
            machine = sample.place(row)
            outcome[row.token] = None if machine == _NOWHERE else self._placements[machine]
        return outcome

    def get_tied_machines(self, pool: _PoolId) -> Sequence[int]:
        """Return the machines tied for a pool in any sample so far, as bits of each rack."""
        return self.ties[self._pool_numbers[pool]]


def _build_bits(items: Iterable[int]) -> int:
    """Return the bitset of some numbers."""
    bits = 0
    for item in items:
        bits |= 1 << item
    return bits


def _select_remaining(items: Sequence[int], removed: int, position: int) -> int:
    """Return the item at a position in ascending items, without the removed ones (bits of some)."""
    while removed:
        lowest = removed & -removed
        if lowest.bit_length() - 1 > items[position]:
            break
        position += 1
        removed ^= lowest
    return items[position]


class _Sample:
    """Placement of all VMs in one sample."""

    def __init__(self, samples: PlainSamples, seed: int) -> None:
        """Copy the situation before the first VM."""
        ledger = samples.ledger
        self._samples = samples
        self._seed = str(seed).encode()
        self._capacities = ledger.capacities.copy()
        self._memory = ledger.memory.copy()
        self._extra_large = ledger.extra_large.copy()
        self._ranks = samples.ranks.copy()
        self._racks = samples.racks.copy()
        self._sides = [(plain.copy(), shared.copy()) for plain, shared in samples.sides]
        # Copied at the first VM of a cluster or pool.
        self._owners: dict[int, _OwnerCounts] = {}
        self._pools: dict[int, _PoolCounts] = {}
        # By SKU: racks without a machine for one more VM, as bits.
        self._full_racks: dict[int, int] = {}

    def place(self, row: _Row) -> int:
        """Place a VM, and return its machine; _NOWHERE if it does not fit."""
        owner = self._owners.get(row.owner)
        if owner is None:
            owner = self._owners[row.owner] = self._samples.owners[row.owner].copy()
        pool = self._pools.get(row.pool)
        if pool is None:
            pool = self._pools[row.pool] = self._samples.pools[row.pool].copy()
        closed_racks = row.closed_racks | self._full_racks.get(row.shape, 0)
        # Drawn at the first tie.
        drawn_number: int | None = None
        while True:
            racks, removed = self._find_tied_racks(closed_racks, owner, pool)
            count = len(racks) - removed.bit_count()
            if not count:
                return _NOWHERE
            position = 0
            if count > 1:
                if drawn_number is None:
                    drawn_number = tie_break.draw_number_of_text(self._seed, row.text)
                position = tie_break.select_tied_rack(drawn_number, count)
            rack = _select_remaining(racks, removed, position)
            machines, bits = self._list_tied_machines(row, rack, owner, pool)
            if machines:
                break
            closed_racks |= 1 << rack
            self._full_racks[row.shape] = self._full_racks.get(row.shape, 0) | 1 << rack
        self._samples.ties[row.pool][rack] |= bits
        machine = machines[0]
        if len(machines) > 1:
            if drawn_number is None:
                drawn_number = tie_break.draw_number_of_text(self._seed, row.text)
            machine = machines[tie_break.select_tied_machine(drawn_number, len(machines))]
        self._count(row, rack, machine, owner, pool)
        return machine

    def _find_tied_racks(
        self, closed_racks: int, owner: _OwnerCounts, pool: _PoolCounts
    ) -> tuple[Sequence[int], int]:
        """Return the racks with the lowest keys, ascending, and those not tied of them, as bits."""
        counted = owner.racks if self._samples.has_cluster_spread else pool.racks
        removable = closed_racks | _build_bits(counted)
        # Racks without VMs of the pool or cluster, in the order shared by all demands.
        for level in self._racks.levels:
            bucket = self._racks.buckets[level][_NO_CAPACITY]
            removed = bucket.bits & removable
            if removed != bucket.bits:
                return bucket.items, removed
        candidates = [rack for rack in counted if not closed_racks >> rack & 1]
        return self._list_lowest_counted_racks(candidates, owner, pool), 0

    def _list_lowest_counted_racks(
        self, candidates: Iterable[int], owner: _OwnerCounts, pool: _PoolCounts
    ) -> list[int]:
        """Return the racks with the lowest keys among those with VMs of the pool or cluster."""
        lowest: tuple[int, ...] | None = None
        tied: list[int] = []
        for rack in candidates:
            key: tuple[int, ...] = (pool.racks.get(rack, 0), self._ranks[rack])
            if self._samples.has_cluster_spread:
                key = (owner.racks[rack], *key)
            if lowest is None or key < lowest:
                lowest = key
                tied = [rack]
            elif key == lowest:
                tied.append(rack)
        tied.sort()
        return tied

    def _list_tied_machines(
        self, row: _Row, rack: int, owner: _OwnerCounts, pool: _PoolCounts
    ) -> tuple[Sequence[int], int]:
        """Return the machines of a rack with the lowest keys, ascending, and their bits."""
        own_machines = owner.machines.get(rack)
        for buckets in self._iterate_levels(row, rack):
            fitting = [bucket for bucket in buckets if row.steps[bucket[0]] is not None]
            if not fitting:
                continue
            _, first = fitting[0]
            machines = first.items
            bits = first.bits
            if len(fitting) > 1:
                machines = sorted(machine for _, bucket in fitting for machine in bucket.items)
                for _, bucket in fitting:
                    bits |= bucket.bits
            # Machines with VMs of the cluster have higher keys.
            if own_machines:
                own_bits = 0
                for machine in own_machines:
                    own_bits |= self._samples.bits[machine]
                if bits & own_bits:
                    machines = [machine for machine in machines if machine not in own_machines]
                    bits &= ~own_bits
            if machines:
                return machines, bits
        return self._list_tied_own_machines(row, own_machines or {}, owner, pool)

    def _iterate_levels(self, row: _Row, rack: int) -> Iterator[list[tuple[int, _Bucket]]]:
        """Yield the machines of a rack with equal keys, lowest first, as buckets by capacity.

        Machines with VMs of the cluster are among them, though their keys are higher.
        """
        plain, shared = self._sides[rack]
        if row.is_extra_large:
            # A machine with extra-large VMs of other clusters comes first.
            for side in (shared, plain):
                for level in side.levels:
                    yield list(side.buckets[level].items())
        elif not shared.levels:
            for level in plain.levels:
                yield list(plain.buckets[level].items())
        else:
            for level in sorted({*plain.levels, *shared.levels}):
                yield [
                    *plain.buckets.get(level, {}).items(),
                    *shared.buckets.get(level, {}).items(),
                ]

    def _list_tied_own_machines(
        self, row: _Row, own_machines: dict[int, int], owner: _OwnerCounts, pool: _PoolCounts
    ) -> tuple[list[int], int]:
        """Return the machines with the lowest keys among those with VMs of the cluster."""
        lowest: tuple[int, ...] | None = None
        tied: list[int] = []
        for machine, own_count in own_machines.items():
            if row.steps[self._capacities[machine]] is None:
                continue
            if not self._samples.site.is_open[machine]:
                continue
            has_others = self._extra_large[machine] > owner.extra_large.get(machine, 0)
            key = (
                own_count,
                pool.machines.get(machine, 0),
                int(row.is_extra_large and not has_others),
                self._memory[machine],
            )
            if lowest is None or key < lowest:
                lowest = key
                tied = [machine]
            elif key == lowest:
                tied.append(machine)
        tied.sort()
        bits = 0
        for machine in tied:
            bits |= self._samples.bits[machine]
        return tied, bits

    def _count(
        self, row: _Row, rack: int, machine: int, owner: _OwnerCounts, pool: _PoolCounts
    ) -> None:
        """Count a VM on its machine and rack."""
        sides = self._sides[rack]
        bit = self._samples.bits[machine]
        capacity = self._capacities[machine]
        sides[self._extra_large[machine] > 0].remove(machine, bit, self._memory[machine], capacity)
        step = row.steps[capacity]
        assert step is not None
        self._capacities[machine] = step.capacity
        self._memory[machine] += row.memory
        if row.is_extra_large:
            self._extra_large[machine] += 1
            owner.extra_large[machine] = owner.extra_large.get(machine, 0) + 1
        sides[self._extra_large[machine] > 0].add(
            machine, bit, self._memory[machine], step.capacity
        )
        self._rank_rack(rack, row.memory)
        own_machines = owner.machines.setdefault(rack, {})
        own_machines[machine] = own_machines.get(machine, 0) + 1
        owner.racks[rack] = owner.racks.get(rack, 0) + 1
        pool.machines[machine] = pool.machines.get(machine, 0) + 1
        pool.racks[rack] = pool.racks.get(rack, 0) + 1

    def _rank_rack(self, rack: int, memory: int) -> None:
        """Count one more VM with this memory on a rack, and rank the rack again."""
        bit = 1 << rack
        rank = self._ranks[rack]
        self._racks.remove(rack, bit, rank, _NO_CAPACITY)
        rank += (1 << _VM_SHIFT) + memory
        self._ranks[rack] = rank
        self._racks.add(rack, bit, rank, _NO_CAPACITY)
