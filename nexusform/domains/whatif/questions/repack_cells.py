"""Possible changes of a cell or machine: leaving VMs, VMs of the demand, other VMs added.

Cells with equal contents are one row of the program, with a count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import compress, product
from typing import Final, TypeAlias

from msgspec import Struct

from nexusform.domains.whatif.questions.repack_context import (
    FreeCell,
    MovableVm,
    RepackContext,
    RepackMachine,
    VmClass,
)
from nexusform.scheduling.racks.layout import Share
from nexusform.scheduling.racks.vms import VmSku

# VMs of one group are equal in the program: those of a class, or of one tracked pool.
Group: TypeAlias = tuple[str, int]
# Free capacity of the cells of a machine or of one cell; and the same for every split.
Cells: TypeAlias = tuple[FreeCell, ...]
CellSplits: TypeAlias = tuple[Cells, ...]
# Possible remains of the cells after additions, for every split.
Remains: TypeAlias = Sequence[frozenset[Cells]]
# Number of VMs added by size: (size, count).
Pattern: TypeAlias = tuple[tuple[int, int], ...]
# Number of VMs leaving a cell by group: (group, count).
Leaving: TypeAlias = tuple[tuple[Group, int], ...]

# In place of the number of a class: the requested VMs.
DEMAND: Final = -1
MAX_PATTERNS: Final = 4_000
MAX_LEAVINGS: Final = 4_000


class CellChange(Struct, frozen=True):
    """Possible change of a cell.

    The change has leaving VMs, VMs of the demand, and the capacity left for re-created VMs.
    `arrival` is the class of a multi-cell VM with a share here (DEMAND: a requested one), None for
    none. `spanning` are the indexes of leaving multi-cell VMs of the machine.
    """

    leaving: Leaving
    demand: int
    capacity: CellPatterns | None
    pods: int = 0
    arrival: int | None = None
    spanning: tuple[int, ...] = ()


class CellPatterns(Struct, frozen=True):
    """Capacity for re-created VMs: all maximal combinations.

    `admitted` are the feasible classes. `rack` is "" without tracked pools. `single_machine` is set
    for an individually modelled machine.
    """

    patterns: tuple[Pattern, ...]
    admitted: frozenset[int]
    rack: str
    single_machine: str = ""


class CellKey(Struct, frozen=True):
    """Key of equal cells.

    `leaving` are the pods of the VMs of every group, fewest first.
    """

    free: FreeCell
    leaving: tuple[tuple[Group, tuple[int, ...]], ...]
    admitted: frozenset[int]
    admits_demand: bool
    rack: str
    single_machine: str = ""
    spanning: tuple[tuple[int, int], ...] = ()


class CellCatalogue:
    """Cached capacities and options.

    With `is_capped`, some were dropped. Classes of equal size share a size: `sizes` are by number,
    and `size_numbers_by_class` by class number.
    """

    def __init__(self, vm_classes: Sequence[VmClass], sku: VmSku) -> None:
        """Assign numbers to the sizes of VMs (one per distinct share of a cell).

        `sku` is the requested one.
        """
        self._vm_classes = vm_classes
        self._sku = sku
        # Cached patterns (combinations of VMs fitting together) by layouts of the cells, numbers of
        # sizes, and disk.
        self._patterns: dict[
            tuple[CellSplits, frozenset[int], int | None], tuple[Pattern, ...]
        ] = {}
        numbers: dict[Share, int] = {}
        shares = [Share.compute(vm_class.sku) for vm_class in vm_classes]
        self.size_numbers_by_class = [numbers.setdefault(share, len(numbers)) for share in shares]
        self.sizes = tuple(numbers)
        # True once combinations are left out because there are too many.
        self.is_capped = False

    def find_cell_capacity(
        self, splits: CellSplits, key: CellKey, disk: int | None = None
    ) -> CellPatterns | None:
        """Find the maximal combinations of single-cell VMs for these cells, None if no VM fits.

        `key` has the classes of VMs accepted there. `splits` are the possible free capacities: one,
        or with VMs in unknown cells one per possible layout. A combination fits in each of them.
        `disk` is GiB for all VMs together, None without a limit.
        """
        single_cell_classes = [
            number for number in key.admitted if self._vm_classes[number].sku.numa_cells == 1
        ]
        sizes = frozenset(self.size_numbers_by_class[number] for number in single_cell_classes)
        cache_key = (splits, sizes, disk)
        patterns = self._patterns.get(cache_key)
        if patterns is None:
            # By split: the possible free cells (one possibility).
            remains = [frozenset({cells}) for cells in splits]
            # Sizes without capacity for one VM in every split need no search.
            fitting_sizes = [
                size
                for size in sizes
                if _subtract_vm_share(remains, None, self.sizes[size]) is not None
            ]
            # The largest memory comes first.
            fitting_sizes.sort(key=lambda size: (-self.sizes[size].memory, size))
            search = _PatternSearch([(size, self.sizes[size]) for size in fitting_sizes])
            search.extend(0, pattern=(), remains=remains, disk=disk)
            self.is_capped |= search.is_capped
            patterns = self._patterns[cache_key] = tuple(search.patterns)
        return (
            CellPatterns(patterns, key.admitted, key.rack, key.single_machine) if patterns else None
        )

    def list_cell_changes(
        self,
        key: CellKey,
        group_skus: Mapping[Group, VmSku],
        arrivals: Sequence[tuple[int, VmSku]],
        spanning: Mapping[int, VmSku],
    ) -> Iterator[CellChange]:
        """Yield the possible changes of a cell with this key.

        Any of its VMs leave, and others may arrive. `group_skus` are the SKUs of its single-cell
        VMs. `arrivals` are class (or DEMAND) and SKU of multi-cell VMs to add. `spanning` are the
        SKUs of the multi-cell VMs with a share in this cell, by their index on the machine.
        """
        # Of each group (equal VMs) any number leaves, and each multi-cell VM stays (0) or leaves
        # (1). `pods`: number of pods of each VM.
        group_choices = [range(len(pods) + 1) for _, pods in key.leaving]
        # (index, class) of a multi-cell VM.
        spanning_indexes = [index for index, _ in key.spanning]
        spanning_choices = [range(2)] * len(spanning_indexes)
        for count_so_far, counts in enumerate(product(*group_choices, *spanning_choices)):
            if count_so_far >= MAX_LEAVINGS:
                # Without the other changes, no bound is proved.
                self.is_capped = True
                return
            group_counts = list(zip(key.leaving, counts[: len(group_choices)], strict=True))
            leaving_indexes = tuple(compress(spanning_indexes, counts[len(group_choices) :]))
            free = key.free
            for (group, _), count in group_counts:
                # This adds the shares of the leaving VMs.
                free = free.subtract(group_skus[group], -count)
            for index in leaving_indexes:
                free = free.subtract(spanning[index], -1)
            leaving = tuple((group, count) for (group, _), count in group_counts if count)
            # Pods of the leaving VMs: they are sorted, so the VMs with the fewest pods leave.
            pods = sum(sum(all_pods[:count]) for (_, all_pods), count in group_counts)
            yield from self._list_arrival_options(
                key, free, leaving, pods, leaving_indexes, arrivals
            )

    def _list_arrival_options(
        self,
        key: CellKey,
        free: FreeCell,
        leaving: Leaving,
        pods: int,
        leaving_indexes: tuple[int, ...],
        arrivals: Sequence[tuple[int, VmSku]],
    ) -> Iterator[CellChange]:
        """Yield the changes of a cell with these leaving VMs.

        There is one change per VM of `arrivals`, one without arrivals, and one per number of added
        VMs of the demand. `free` is the capacity after the VMs left, and `pods` their number of
        pods. `leaving_indexes` are the leaving multi-cell VMs.
        """

        def build_change(
            remaining_cell: FreeCell, demand: int = 0, arrival: int | None = None
        ) -> CellChange:
            """Build the change of these VMs with this capacity left in the cell."""
            # One possible layout, of one cell.
            capacity = self.find_cell_capacity(((remaining_cell,),), key)
            return CellChange(
                leaving, demand, capacity, pods, arrival=arrival, spanning=leaving_indexes
            )

        # A class is a number, or DEMAND.
        for vm_class, sku in arrivals:
            is_admitted = key.admits_demand if vm_class == DEMAND else vm_class in key.admitted
            if is_admitted and free.has_capacity(sku):
                yield build_change(free.subtract(sku), arrival=vm_class)
        # Otherwise, nothing changes.
        if leaving or leaving_indexes:
            yield build_change(free)
        # A multi-cell demand is one of the `arrivals`.
        if not key.admits_demand or self._sku.numa_cells > 1:
            return
        count = 1
        # So many VMs of the demand fit.
        while min(remaining_cell := free.subtract(self._sku, count)) >= 0:
            yield build_change(remaining_cell, demand=count)
            count += 1


class _PatternSearch:
    """Depth-first search of combinations, size by size, largest counts first."""

    def __init__(self, sizes: Sequence[tuple[int, Share]]) -> None:
        """Start without patterns.

        `sizes` are pairs of the number of a size and its share of a cell.
        """
        self._sizes = sizes
        self.patterns: list[Pattern] = []
        # True if there are more than MAX_PATTERNS.
        self.is_capped = False

    def extend(self, size_index: int, pattern: Pattern, remains: Remains, disk: int | None) -> None:
        """Add 0 or more VMs of the size at this index to a pattern, then of later sizes.

        Pairs of size number and count. `remains` and `disk` are the capacity left by it. Record it
        if it is maximal: no further VM fits.
        """
        if len(self.patterns) >= MAX_PATTERNS:
            self.is_capped = True
            return
        # Each size has its number of VMs; a pattern is maximal if no VM fits now.
        if size_index == len(self._sizes):
            if pattern and not any(
                _subtract_vm_share(remains, disk, share) is not None for _, share in self._sizes
            ):
                self.patterns.append(tuple(sorted(pattern)))
            return
        number, share = self._sizes[size_index]
        # Capacities left by 0, 1, 2 ... VMs of this size.
        capacities = [(remains, disk)]
        while (next_capacity := _subtract_vm_share(*capacities[-1], share)) is not None:
            capacities.append(next_capacity)
        for count in range(len(capacities) - 1, -1, -1):
            added = (*pattern, (number, count)) if count else pattern
            self.extend(size_index + 1, added, *capacities[count])


def _subtract_vm_share(
    remains: Remains, disk: int | None, share: Share
) -> tuple[Remains, int | None] | None:
    """Return remains and disk with one more VM.

    `remains` has the possible free cells for every layout of VMs in unknown cells. Return None if
    the VM does not fit in one of the layouts, or lacks disk.
    """
    remaining_disk = None if disk is None else disk - share.disk
    # The disk is not enough.
    if remaining_disk is not None and remaining_disk < 0:
        return None
    results = []
    for layout_remains in remains:
        new_remains = _compute_remaining_cell_capacity(layout_remains, share)
        if not new_remains:
            return None
        results.append(new_remains)
    return results, remaining_disk


def _compute_remaining_cell_capacity(
    split_remains: frozenset[Cells], share: Share
) -> frozenset[Cells]:
    """Compute the possible free cells after one more VM took `share` of one of them.

    The result is empty if none has capacity.
    """
    results: set[Cells] = set()
    for cells in split_remains:
        for number, (cpus, memory, vfs) in enumerate(cells):
            if cpus >= share.cpus and memory >= share.memory and vfs >= share.vfs:
                remaining_cell = FreeCell(cpus - share.cpus, memory - share.memory, vfs - share.vfs)
                results.add((*cells[:number], remaining_cell, *cells[number + 1 :]))
    return frozenset(results)


class CellPosition(Struct, frozen=True):
    """One cell: machine, cell number (-1: whole machine), and its movable VMs."""

    host: RepackMachine
    cell: int
    sources: tuple[MovableVm, ...]


def assign_groups(context: RepackContext, tracked_pools: frozenset[int]) -> dict[int, Group]:
    """Return the group of each movable VM by handle.

    The group is its pool if tracked, such as ("pool", 3), else its class, such as ("class", 1).
    """
    return {
        source.handle: ("pool", source.pool)
        if source.pool in tracked_pools
        else ("class", source.vm_class)
        for source in context.all_movable_vms
    }
