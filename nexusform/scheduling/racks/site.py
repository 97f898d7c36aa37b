"""Site with its tables from SKUs, capacities and pools to small integers.

All of it is shared by a scheduler and its copies; the tables only grow, and growth
changes no decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from nexusform.scheduling.racks import profile as profiles
from nexusform.scheduling.racks.layout import CapacityTable, FreeCapacity, NumberedSite, Share
from nexusform.scheduling.racks.rule import (
    CapacityFilter,
    CountFilter,
    DemandFilter,
    Filter,
    MachineFilter,
    PoolKey,
)
from nexusform.scheduling.racks.rules import cells as cell_rules
from nexusform.scheduling.racks.vms import NONE_FITS, Interval, Machine, Placement, VmName, VmSku

if TYPE_CHECKING:
    from nexusform.scheduling.racks.uncertainty.splits import Cells, FreeCells

CELLS_BITS = 16
CELLS_MASK = (1 << CELLS_BITS) - 1
MACHINE_BITS = 28
MACHINE_MASK = (1 << MACHINE_BITS) - 1
SKU_BITS = 20
SKU_MASK = (1 << SKU_BITS) - 1


class CapacityStep(NamedTuple):
    """Effect of one more VM of a SKU on a capacity.

    It is the number of the cells of the VM, and the number of the remaining capacity.
    """

    cells: int
    capacity: int


class CapacitySteps(dict[int, CapacityStep | None]):
    """Capacity number -> effect of one more VM of the SKU, None if it does not fit.

    Filled on demand.
    """

    __slots__ = ("_capacity_table", "_checks", "_share")

    def __init__(
        self, capacity_table: CapacityTable, sku: VmSku, filters: Sequence[Filter]
    ) -> None:
        """Start without steps.

        A step is the effect of one more VM of the SKU on a capacity, by its number.
        """
        super().__init__()
        self._capacity_table = capacity_table
        self._share = Share.compute(sku)
        self._checks = [
            rule.build_check(sku) for rule in filters if isinstance(rule, CapacityFilter)
        ]

    def __missing__(self, number: int) -> CapacityStep | None:
        # At the first use of this capacity number.
        step = self[number] = self._compute_capacity_after_vm(number)
        return step

    def count(self, number: int) -> int:
        """Count how many VMs of the SKU fit in a capacity, one after the other."""
        count = 0
        # Its `capacity` is what one more VM leaves.
        step = self[number]
        while step is not None:
            count += 1
            step = self[step.capacity]
        return count

    def _compute_capacity_after_vm(self, number: int) -> CapacityStep | None:
        """Compute the cells and the remaining capacity of one more VM.

        Return None if a capacity filter rejects it.
        """
        capacity = self._capacity_table.free_capacities[number]
        if any(find_rejection(capacity) is not None for find_rejection in self._checks):
            return None
        share = self._share
        cells = tuple(sorted(rank_cells(share, capacity)[: share.cells]))
        capacity_after = self._capacity_table.apply_share(number, share, cells, sign=-1)
        return CapacityStep(self._capacity_table.add_cells(cells), capacity_after)


def rank_cells(share: Share, capacity: FreeCapacity) -> list[int]:
    """Return the cells with capacity for their share of a VM.

    Cells with the lowest keys come first, then those with the lowest number.
    """
    fitting = cell_rules.select_fitting_cells(share, capacity)
    if share.vfs:
        # If no cell has them, rank all: the filter "vfs" rejects the machine, not this ranking.
        fitting = cell_rules.select_cells_with_vfs(share, capacity, fitting) or fitting
    # Nothing to rank.
    if len(fitting) == 1:
        return fitting
    return sorted(
        fitting, key=lambda cell: (*(key(capacity, cell) for key in profiles.CELL_KEYS), cell)
    )


class SplitCapacities:
    """Possible capacities of a machine.

    There is one for each split, a possible assignment of its VMs in unknown cells to NUMA cells.
    `capacities` are empty without a split, and with too many (then `splits.is_known` is False).
    """

    def __init__(
        self, table: CapacityTable, known_capacity: int, shares: tuple[Share, ...]
    ) -> None:
        """Enumerate the capacities of a machine with VMs in unknown cells.

        These VMs have `shares`; `known_capacity` is the number of the capacity without them.
        """
        from nexusform.scheduling.racks.uncertainty.splits import CellSplits

        free = table.free_capacities[known_capacity]
        self._table = table
        self._known_capacity = known_capacity
        self._number_by_cells: dict[tuple[Cells, ...], int] = {}
        self.splits = CellSplits(tuple(zip(free.cpus, free.memory, strict=True)), shares)
        # VFs are no part of a split. Two extremes replace all cases: no VF is taken in any cell,
        # or those of all `shares` in each. With 3 VFs of all shares, the VFs (8, 2) are (8, 2)
        # or (5, 0).
        taken_vfs = min(sum(share.vfs for share in shares), max(free.vfs, default=0))
        fewest_vfs = tuple(max(cell_vfs - taken_vfs, 0) for cell_vfs in free.vfs)
        self._free_vfs = sorted({free.vfs, fewest_vfs})
        self.capacities = [
            self._get_capacity_number(split, vfs)
            for split in self.splits.legal_splits
            for vfs in self._free_vfs
        ]

    def _get_capacity_number(self, cells: FreeCells, vfs: tuple[int, ...]) -> int:
        """Return the index in the capacity table of a split, with these VFs in each cell.

        A split is a possible NUMA layout.
        """
        # Its hardware, disk and records stay.
        capacity = self._table.free_capacities[self._known_capacity]
        cpus = tuple(free_cpus for free_cpus, _ in cells)
        memory = tuple(free_memory for _, free_memory in cells)
        return self._table.add(capacity._replace(cpus=cpus, memory=memory, vfs=vfs))

    def compute_capacity(self, cells: tuple[Cells, ...]) -> int:
        """Return the number of the capacity left by the VMs in these cells.

        `cells` has the cells of the VM of each share.
        """
        number = self._number_by_cells.get(cells)
        if number is None:
            number = self._known_capacity
            for share, vm_cells in zip(self.splits.shares, cells, strict=True):
                number = self._table.apply_share(number, share.cells_share, vm_cells, -1)
            self._number_by_cells[cells] = number
        return number

    def list_possible(self) -> list[int]:
        """Return the numbers of the capacities of all possible NUMA layouts.

        Without a layout, nothing is free. With too many to enumerate, return two bounds: nothing is
        free, or all but what other VMs take.
        """
        if self.capacities:
            return self.capacities
        full = self._table.get_exhausted_capacity_number(self._known_capacity)
        return [full] if self.splits.is_known else [full, self._known_capacity]

    def count(self, shape: VmShape) -> Interval:
        """Count how many VMs of a SKU fit, at least and at most, over all splits.

        Splits are possible NUMA layouts. With too many splits to enumerate, the result has safe
        bounds in place of exact numbers.
        """
        from nexusform.scheduling.racks.uncertainty.splits import compute_bounds

        if self.capacities:
            counts = [shape.steps.count(capacity) for capacity in self.capacities]
            return Interval(min(counts), max(counts))
        if self.splits.is_known or shape.steps[self._known_capacity] is None:
            # There is no split, or none with capacity.
            return NONE_FITS
        return compute_bounds(
            self._table.free_capacities[self._known_capacity], self.splits.shares, shape.share
        )

    def find_roomiest(self, shapes: Sequence[VmShape]) -> tuple[Cells, ...] | None:
        """Return the cells of the VMs in the split with capacity for most VMs, SKU by SKU.

        Return None without a split.
        """
        if not self.splits.legal_splits:
            return None
        return self.splits.find_split_cells(
            max(self.splits.legal_splits, key=lambda cells: self._count_maximum(cells, shapes))
        )

    def _count_maximum(self, cells: FreeCells, shapes: Sequence[VmShape]) -> tuple[int, ...]:
        """Count how many VMs of each SKU fit alone in a split (NUMA layout).

        Free VFs per cell are those of the best case.
        """
        capacities = [self._get_capacity_number(cells, vfs) for vfs in self._free_vfs]
        return tuple(
            max(shape.steps.count(capacity) for capacity in capacities) for shape in shapes
        )


class VmShape:
    """VM SKU of a site: its number there, and figures for placement."""

    __slots__ = ("is_extra_large", "memory", "number", "share", "sku", "steps")

    def __init__(self, number: int, sku: VmSku, steps: CapacitySteps) -> None:
        """Keep the figures of the SKU; `steps` are the effects of one more VM on each capacity."""
        self.number = number
        self.sku = sku
        self.share = Share.compute(sku)
        self.memory = sku.memory_mib
        self.is_extra_large = sku.extra_large
        # The effect of one more VM on each capacity.
        self.steps = steps


class SiteTables(NumberedSite):
    """Layout with its tables.

    `open_machines_by_rack` are the machines of each rack not excluded from new VMs at all.
    `demand_filters` are the profile's demand and count filters.
    """

    def __init__(
        self, machines: Sequence[Machine], profile: profiles.SchedulerProfile | None = None
    ) -> None:
        """Assign numbers to machines and racks, and prepare the shared tables.

        All schedulers of the site share them.
        """
        super().__init__(machines)
        self.profile = profile or profiles.NEXUS
        self.demand_filters = [
            rule for rule in self.profile.filters if isinstance(rule, DemandFilter | CountFilter)
        ]
        machine_filters = [rule for rule in self.profile.filters if isinstance(rule, MachineFilter)]
        # To new VMs: no machine filter rejects the machine.
        self.is_open = [
            all(rule.find_rejection(machine) is None for rule in machine_filters)
            for machine in self.machines
        ]
        self.open_machines_by_rack = [
            [machine for machine in rack if self.is_open[machine]] for rack in self.machines_by_rack
        ]
        self.capacity_table = CapacityTable()
        self.start_capacities = [
            self.capacity_table.add_machine(machine) for machine in self.machines
        ]
        # One per SKU, by number.
        self.shapes: list[VmShape] = []
        self.pools: list[PoolKey] = []  # by number
        self._pool_ids: dict[PoolKey, int] = {}  # the numbers
        self._shape_by_sku: dict[VmSku, VmShape] = {}
        # By identity: hashing a SKU costs as much as placing a VM. The entry holds the SKU to keep
        # the id valid.
        self._shape_by_id: dict[int, tuple[VmSku, VmShape]] = {}
        # By the numbers of machine and cells, packed.
        self._placements: dict[int, Placement] = {}
        # By free capacity (its number) and the shares of the VMs in unknown cells.
        self._split_capacities: dict[tuple[int, tuple[Share, ...]], SplitCapacities] = {}

    def select_cells(self, sku: VmSku, capacity: int) -> tuple[int, ...]:
        """Return the NUMA cells, ascending, assigned to a VM on a machine of this free capacity.

        For a VM too large for it, they are the least used cells (at most as many as there are).
        """
        cells = rank_cells(Share.compute(sku), self.capacity_table.free_capacities[capacity])
        if len(cells) < sku.numa_cells:
            memory = self.capacity_table.capacities[capacity].memory
            cells = sorted(range(len(memory)), key=lambda cell: (-memory[cell], cell))
        return tuple(sorted(cells[: sku.numa_cells]))

    def get_shape(self, sku: VmSku) -> VmShape:
        """Return the shape of a SKU: its figures for placement, and its number.

        Equal SKUs share a shape.
        """
        # By identity: faster than by value.
        _, shape = self._shape_by_id.get(id(sku), (sku, None))
        if shape is not None:
            return shape
        shape = self._shape_by_sku.get(sku)
        if shape is None:
            shape = VmShape(
                len(self.shapes), sku, CapacitySteps(self.capacity_table, sku, self.profile.filters)
            )
            self._shape_by_sku[sku] = shape
            self.shapes.append(shape)
        self._shape_by_id[id(sku)] = (sku, shape)
        return shape

    def find_splits(self, capacity: int, shares: tuple[Share, ...]) -> SplitCapacities:
        """Return the possible NUMA layouts of VMs with these shares.

        `capacity` is the number of the capacity left by all other VMs of the machine.
        """
        key = (capacity, shares)
        layouts = self._split_capacities.get(key)
        if layouts is None:
            layouts = self._split_capacities[key] = SplitCapacities(
                self.capacity_table, capacity, shares
            )
        return layouts

    def add_pool(self, vm: VmName) -> int:
        """Return the number of a VM's pool, adding it if it is new."""
        key = PoolKey(vm.owner, vm.cluster, vm.pool)
        number = self._pool_ids.get(key)
        if number is None:
            number = self._pool_ids[key] = len(self.pools)
            self.pools.append(key)
        return number

    def get_placement(self, machine: int, cells: int) -> Placement:
        """Return the placement on a machine and cells (both by number).

        All VMs there share one object.
        """
        key = machine << CELLS_BITS | cells
        placement = self._placements.get(key)
        if placement is None:
            record = self.machines[machine]
            cell_numbers = self.capacity_table.cells[cells]
            placement = Placement(record.name, record.rack, record.availability_zone, cell_numbers)
            self._placements[key] = placement
        return placement
