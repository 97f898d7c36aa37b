"""Samples of plain placements, with tables that all samples of a plan share.

Opening the session of a pool costs more than the placement of its only VM. Here the machines of a
rack are in buckets of equal memory use, free capacity and use by extra-large VMs, each with a
bitset of its machines, so that a tie costs no list of machines. The decisions are those of
session.py, for the keys of the Nexus profile: tests compare both on random sites.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from nexusform.scheduling.racks import demand_rules
from nexusform.scheduling.racks.profile import NEXUS
from nexusform.scheduling.racks.rule import RankedItemKind
from nexusform.scheduling.racks.rules import tie_break
from nexusform.scheduling.racks.site import CapacitySteps
from nexusform.scheduling.racks.vms import (
    Demand,
    Placement,
    PlacementConstraints,
    RackSpread,
    VmName,
)

if TYPE_CHECKING:
    from nexusform.scheduling.racks.rack_scheduler import RackScheduler

# The rank of a rack in one number: its VMs, above its memory in MiB, above the rack's number.
_VM_SHIFT: Final = 70
_MEMORY_SHIFT: Final = 28
_RACK_MASK: Final = (1 << _MEMORY_SHIFT) - 1
_NOWHERE: Final = -1
_PoolId: TypeAlias = tuple[str, str]


class _Row(NamedTuple):
    """One VM to place.

    `owner` and `pool` are numbers of this module, `racks` are those allowed (None: all).
    """

    token: Hashable
    vm: VmName
    owner: int
    pool: int
    shape: int
    steps: CapacitySteps
    memory: int
    is_extra_large: bool
    racks: frozenset[int] | None


class _Bucket:
    """Machines of a rack with equal keys and capacity, ascending, and a bitset of them."""

    __slots__ = ("bits", "machines")

    def __init__(self, machines: list[int], bits: int) -> None:
        self.machines = machines
        self.bits = bits

    def copy(self) -> _Bucket:
        """Return an independent copy."""
        return _Bucket(self.machines.copy(), self.bits)


class _Side:
    """Buckets of a rack's machines with, or without, extra-large VMs.

    `buckets` are by used memory and number of the free capacity; `levels` are the used memories,
    ascending.
    """

    __slots__ = ("buckets", "levels")

    def __init__(self, buckets: dict[int, dict[int, _Bucket]], levels: list[int]) -> None:
        self.buckets = buckets
        self.levels = levels

    def copy(self) -> _Side:
        """Return an independent copy."""
        buckets = {
            level: {capacity: bucket.copy() for capacity, bucket in by_capacity.items()}
            for level, by_capacity in self.buckets.items()
        }
        return _Side(buckets, self.levels.copy())

    def add(self, machine: int, bit: int, level: int, capacity: int) -> None:
        """Add a machine."""
        by_capacity = self.buckets.get(level)
        if by_capacity is None:
            by_capacity = self.buckets[level] = {}
            insort(self.levels, level)
        bucket = by_capacity.get(capacity)
        if bucket is None:
            by_capacity[capacity] = _Bucket([machine], bit)
        else:
            insort(bucket.machines, machine)
            bucket.bits |= bit

    def remove(self, machine: int, bit: int, level: int, capacity: int) -> None:
        """Remove a machine."""
        by_capacity = self.buckets[level]
        bucket = by_capacity[capacity]
        del bucket.machines[bisect_left(bucket.machines, machine)]
        bucket.bits ^= bit
        if not bucket.machines:
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


def build_plain_samples(
    base: RackScheduler, demands: Mapping[Hashable, Demand]
) -> PlainSamples | None:
    """Return the samples of VMs placed one after the other, or None if they need sessions.

    They do with another profile, hints, a machine of last resort, or VMs in unknown cells.
    """
    if base.profile is not NEXUS or base.is_sampled:
        return None
    for demand in demands.values():
        if demand.last_resort is not None or demand.constraints.hints:
            return None
    return PlainSamples(base, demands)


class PlainSamples:
    """Samples of VMs that are placed one after the other."""

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
        self._racks_by_constraints: dict[PlacementConstraints, frozenset[int] | None] = {}
        self.rows = [
            self._build_row(token, demand, owners, pools) for token, demand in demands.items()
        ]
        self.sides = [self._build_sides(machines) for machines in site.open_machines_by_rack]
        self.rack_ranks = sorted(
            ledger.rack_vms[rack] << _VM_SHIFT | ledger.rack_memory[rack] << _MEMORY_SHIFT | rack
            for rack in range(len(site.rack_name))
        )
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
            vm,
            owners.setdefault(vm.owner, len(owners)),
            pools.setdefault((vm.owner, vm.pool), len(pools)),
            shape.number,
            shape.steps,
            shape.memory,
            shape.is_extra_large,
            self._list_allowed_racks(demand),
        )

    def _list_allowed_racks(self, demand: Demand) -> frozenset[int] | None:
        """Return the racks allowed by the filters of a demand, None for all."""
        constraints = demand.constraints
        if constraints not in self._racks_by_constraints:
            self._racks_by_constraints[constraints] = self._filter_racks(demand)
        return self._racks_by_constraints[constraints]

    def _filter_racks(self, demand: Demand) -> frozenset[int] | None:
        """Apply the filters of a demand to the racks."""
        usage = self.ledger.get_pool_usage(demand.vm.owner, demand.vm.pool)
        filters = demand_rules.prepare_filters(self.ledger, usage, demand)
        assert all(rule.item is RankedItemKind.RACK for rule, _ in filters)
        passes = demand_rules.build_combined_check([check for _, check in filters])
        if passes is None:
            return None
        return frozenset(rack for rack in range(len(self.site.rack_name)) if passes(rack))

    def _build_sides(self, machines: Sequence[int]) -> tuple[_Side, _Side]:
        """Build the buckets of the machines of a rack, without and with extra-large VMs."""
        sides = (_Side({}, []), _Side({}, []))
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

    def list_tied_machines(self, pool: _PoolId) -> list[int]:
        """Return the numbers of the machines tied for a pool in any sample so far, ascending."""
        ties = self.ties[self._pool_numbers[pool]]
        return sorted(
            machine
            for machines, bits in zip(self.site.machines_by_rack, ties, strict=True)
            if bits
            for machine in machines
            if bits & self.bits[machine]
        )


class _Sample:
    """Placement of all VMs in one sample."""

    def __init__(self, samples: PlainSamples, seed: int) -> None:
        """Copy the situation before the first VM."""
        ledger = samples.ledger
        self._samples = samples
        self._seed = seed
        self._capacities = ledger.capacities.copy()
        self._memory = ledger.memory.copy()
        self._extra_large = ledger.extra_large.copy()
        self._rack_vms = ledger.rack_vms.copy()
        self._rack_memory = ledger.rack_memory.copy()
        self._rack_ranks = samples.rack_ranks.copy()
        self._sides = [(plain.copy(), shared.copy()) for plain, shared in samples.sides]
        # Copied at the first VM of a cluster or pool.
        self._owners: dict[int, _OwnerCounts] = {}
        self._pools: dict[int, _PoolCounts] = {}
        # By SKU: racks without a machine for one more VM.
        self._full_racks: dict[int, set[int]] = {}

    def place(self, row: _Row) -> int:
        """Place a VM, and return its machine; _NOWHERE if it does not fit."""
        owner = self._owners.get(row.owner)
        if owner is None:
            owner = self._owners[row.owner] = self._samples.owners[row.owner].copy()
        pool = self._pools.get(row.pool)
        if pool is None:
            pool = self._pools[row.pool] = self._samples.pools[row.pool].copy()
        full_racks = self._full_racks.setdefault(row.shape, set())
        # Drawn at the first tie.
        drawn_number: int | None = None
        while True:
            racks = self._list_tied_racks(row, owner, pool, full_racks)
            if not racks:
                return _NOWHERE
            rack = racks[0]
            if len(racks) > 1:
                if drawn_number is None:
                    drawn_number = self._draw_number(row)
                rack = racks[tie_break.select_tied_rack(drawn_number, len(racks))]
            machines, bits = self._list_tied_machines(row, rack, owner, pool)
            if machines:
                break
            full_racks.add(rack)
        self._samples.ties[row.pool][rack] |= bits
        machine = machines[0]
        if len(machines) > 1:
            if drawn_number is None:
                drawn_number = self._draw_number(row)
            machine = machines[tie_break.select_tied_machine(drawn_number, len(machines))]
        self._count(row, rack, machine, owner, pool)
        return machine

    def _draw_number(self, row: _Row) -> int:
        """Draw the number of a VM that decides its ties."""
        return tie_break.draw_sample_number(tie_break.build_vm_digest(self._seed, row.vm))

    def _list_tied_racks(
        self, row: _Row, owner: _OwnerCounts, pool: _PoolCounts, full_racks: set[int]
    ) -> list[int]:
        """Return the racks with the lowest keys, ascending; [] if none is left."""
        counted = owner.racks if self._samples.has_cluster_spread else pool.racks
        allowed = row.racks
        tied: list[int] = []
        tied_rank = -1
        # Racks without VMs of the pool or cluster, in the order shared by all demands.
        for entry in self._rack_ranks if len(counted) < len(self._rack_ranks) else ():
            rank = entry >> _MEMORY_SHIFT
            if rank != tied_rank:
                if tied:
                    return tied
                tied_rank = rank
            rack = entry & _RACK_MASK
            if rack in counted or rack in full_racks:
                continue
            if allowed is None or rack in allowed:
                tied.append(rack)
        if tied:
            return tied
        candidates = counted.keys() - full_racks
        return self._list_lowest_counted_racks(
            candidates if allowed is None else candidates & allowed, owner, pool
        )

    def _list_lowest_counted_racks(
        self, candidates: Iterable[int], owner: _OwnerCounts, pool: _PoolCounts
    ) -> list[int]:
        """Return the racks with the lowest keys among those with VMs of the pool or cluster."""
        lowest: tuple[int, ...] | None = None
        tied: list[int] = []
        for rack in candidates:
            key: tuple[int, ...] = (
                pool.racks.get(rack, 0),
                self._rack_vms[rack],
                self._rack_memory[rack],
            )
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
            machines = first.machines
            bits = first.bits
            if len(fitting) > 1:
                machines = sorted(machine for _, bucket in fitting for machine in bucket.machines)
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
        ranks = self._rack_ranks
        old = self._rack_vms[rack] << _VM_SHIFT | self._rack_memory[rack] << _MEMORY_SHIFT | rack
        del ranks[bisect_left(ranks, old)]
        self._rack_vms[rack] += 1
        self._rack_memory[rack] += memory
        new = self._rack_vms[rack] << _VM_SHIFT | self._rack_memory[rack] << _MEMORY_SHIFT | rack
        insort(ranks, new)
