"""Minimum number of re-creations as an integer program for HiGHS (the extra `optimize`).

Equal cells are one row with a count; their possible changes are columns. The optimum is a lower
bound: omitted constraints (order, rules on single VMs) can only add cost.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from math import isfinite
from typing import Any, Final, cast

from msgspec import Struct, convert, field

from nexusform.domains.whatif.questions.highs_engine import SolverRequest, SolverResult
from nexusform.domains.whatif.questions.repack_cells import (
    DEMAND,
    CellCatalogue,
    CellChange,
    CellKey,
    CellPatterns,
    CellPosition,
    Group,
    Pattern,
    assign_groups,
)
from nexusform.domains.whatif.questions.repack_context import (
    MovableVm,
    RepackContext,
    RepackMachine,
    RepackRequest,
)
from nexusform.files.limited_worker import LimitedWorker, WorkerFailure
from nexusform.scheduling.racks.vms import VmSku

# Node limit without a time limit, so that the answer is the same on every computer.
MAX_NODES: Final = 20_000
_INFINITE: Final = float("inf")
# The node limit ends a program before: these limits are for one that exceeds the machine.
_SOLVER: Final = LimitedWorker(
    "nexusform.domains.whatif.questions.highs_engine",
    cpu_seconds=900,
    memory_mib=4096,
    seconds=1200,
)
# In place of the number of a machine type; lower numbers are of types with unknown cells.
ANY_MACHINE: Final = -1
_DEMAND_ROW: Final = ("demand",)
# Cell number of a whole machine.
WHOLE_MACHINE: Final = -1


class OptionUse(Struct, frozen=True):
    """Selected option for so many cells of a unit.

    `machines` is the machine type of linked cells, or ANY_MACHINE.
    """

    machines: int
    cells: tuple[CellPosition, ...]
    option: CellChange
    count: int


class ClearedMachineCount(Struct, frozen=True):
    """Number of these machines to empty of all VMs in unknown cells."""

    hosts: tuple[RepackMachine, ...]
    count: int


class PatternCount(Struct, frozen=True):
    """Number of cells of a capacity to get the VMs of this pattern."""

    capacity: CellPatterns
    pattern: Pattern
    count: int


class RepackSolution(Struct, frozen=True):
    """Solution of the program.

    `bound` is the lower bound of re-creations.
    """

    recreations: int
    bound: int
    options: tuple[OptionUse, ...] = ()
    cleared: tuple[ClearedMachineCount, ...] = ()
    patterns: tuple[PatternCount, ...] = ()
    spanning: tuple[MovableVm, ...] = ()


class NoRepackSolution(Struct, frozen=True):
    """No solution exists (`is_proved`), or none was found within the limits.

    `bound` is the lower bound of re-creations.
    """

    is_proved: bool
    bound: int = 0


class ProgramColumn(Struct):
    """Column of the program: cost, upper bound, entries by row, and subject."""

    cost: float
    upper: float
    entries: dict[int, float]
    subject: object = None


class LinearProgram(Struct):
    """Columns and named rows for the solver."""

    columns: list[ProgramColumn] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    names: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def add_row(self, name: tuple[Any, ...], lower: float = -_INFINITE, upper: float = 0.0) -> int:
        """Return the number of the row with this name, such as ("spread", 3, "rack-1").

        Add it with these bounds if it is new; an existing row keeps its bounds.
        """
        number = self.names.get(name)
        if number is None:
            number = self.names[name] = len(self.lower)
            self.lower.append(lower)
            self.upper.append(upper)
        return number

    def add_column(
        self, cost: float, upper: float, entries: Iterable[tuple[int, float]], subject: object
    ) -> None:
        """Add a column with `entries` (row number, coefficient), summed by row.

        `subject` are the objects it counts.
        """
        summed: dict[int, float] = {}
        for row, value in entries:
            summed[row] = summed.get(row, 0.0) + value
        self.columns.append(ProgramColumn(cost, upper, summed, subject))


class _CellGroup(Struct, frozen=True):
    """Cells with equal contents.

    `machines` is the machine type if cells of one machine are linked.
    """

    key: CellKey
    cells: tuple[CellPosition, ...]
    machines: int = ANY_MACHINE
    cell_number: int = 0
    # Cells after VMs in unknown cells left.
    is_cleared: bool = False


class RepackProgram:
    """Program of one context, built on creation."""

    def __init__(
        self,
        context: RepackContext,
        request: RepackRequest,
        *,
        tracked_pools: frozenset[int] = frozenset(),
        single_machines: frozenset[str] = frozenset(),
        is_fine: bool = False,
    ) -> None:
        """Build all rows and columns.

        `tracked_pools` have rows for their spread over racks. `single_machines` are modelled
        individually, with their disk; others with all equal ones. With `is_fine`, minimize
        restarted pods, too.
        """
        self._context = context
        self._request = request
        self._tracked_pools = tracked_pools
        self._single_machines = single_machines
        self._is_fine = is_fine
        self._catalogue = CellCatalogue(context.vm_classes, request.sku)
        # Groups of movable VMs by handle.
        self._groups = assign_groups(context, tracked_pools)
        self._program = LinearProgram()
        # Number of cells by current capacity.
        self._cell_counts: Counter[CellPatterns] = Counter()
        # Row number by capacity.
        self._capacity_rows: dict[CellPatterns, int] = {}
        # Cells (or whole machines) by their current capacity.
        self.cells_by_capacity: dict[CellPatterns, list[CellPosition]] = {}
        # Class number (or DEMAND) and SKU of multi-cell VMs.
        self._arrivals: list[tuple[int, VmSku]] = [
            (number, vm_class.sku)
            for number, vm_class in enumerate(context.vm_classes)
            if vm_class.sku.numa_cells > 1
        ]
        if request.sku.numa_cells > 1:
            self._arrivals.append((DEMAND, request.sku))
        self._build_program()

    @property
    def is_capped(self) -> bool:
        """Whether options were left out, as there were too many.

        The bound is no proof then.
        """
        return self._catalogue.is_capped

    @property
    def size_numbers_by_class(self) -> Sequence[int]:
        """Number of the size of each VM class, by the number of the class."""
        return self._catalogue.size_numbers_by_class

    @property
    def size(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return len(self._program.lower), len(self._program.columns)

    def _build_program(self) -> None:
        """Build all rows and columns.

        Machines with linked or unknown cells are grouped by equal machines, others by equal cells.
        """
        program = self._program
        program.add_row(_DEMAND_ROW, self._request.want, _INFINITE)
        for host in self._context.hosts:
            if host.machine.name in self._single_machines:
                program.add_row(("disk", host.machine.name), upper=float(max(host.disk, 0)))
        known_groups: dict[Hashable, list[RepackMachine]] = {}
        unknown_groups: dict[Hashable, list[RepackMachine]] = {}
        for host in self._context.hosts:
            # Groups of equal machines.
            groups = unknown_groups if host.has_unknown_cells else known_groups
            groups.setdefault(self._build_machine_key(host), []).append(host)
        # A multi-cell VM links cells of one machine.
        if self._arrivals:
            for number, hosts in enumerate(known_groups.values()):
                self._add_machines(number, hosts)
        else:
            # Without such VMs: cells count, not machines.
            self._add_cells(chain.from_iterable(known_groups.values()))
        # Machine types have the numbers 0, 1 ... with known, and -2, -3 ... with unknown cells.
        for number, hosts in enumerate(unknown_groups.values(), 1):
            # A solution empties the first machines of a type: those with the fewest pods.
            ordered_hosts = sorted(
                hosts, key=lambda host: sum(source.pods for source in host.unknown_cell_vms)
            )
            self._add_unknown_machines(ANY_MACHINE - number, ordered_hosts)
        for capacity in list(self._capacity_rows):
            self._add_cell_capacity(capacity)
        self._add_rack_arrivals()

    def _build_machine_key(self, host: RepackMachine) -> Hashable:
        """Build the key of a machine, the same for equal ones.

        Its disk only counts if cells of VMs are unknown: then the machine is used as a whole.
        Numbers of pods only count if restarted pods are minimized (`_is_fine`).
        """
        cells = tuple(self._build_cell_key(host, cell) for cell in range(len(host.cells)))
        unknown_cell_groups = tuple(
            sorted(self._groups[source.handle] for source in host.unknown_cell_vms)
        )
        pods = (
            tuple(sorted(source.pods for source in host.unknown_cell_vms)) if self._is_fine else ()
        )
        multi_cell_groups = tuple(
            self._groups[source.handle] for source in self._list_multi_cell_vms(host)
        )
        disk = host.disk if host.has_unknown_cells else 0
        return cells, unknown_cell_groups, pods, multi_cell_groups, host.splits, disk

    def _build_cell_key(self, host: RepackMachine, cell: int) -> CellKey:
        """Build the key of a cell, equal for equal contents.

        Numbers of pods are 0 unless they are minimized, too.
        """
        sources = host.movable_vms_by_cell[cell]
        # Numbers of single-cell VMs by group.
        pod_counts: dict[Group, list[int]] = {}
        for source in sources:
            if self._get_sku(source).numa_cells == 1:
                pod_counts.setdefault(self._groups[source.handle], []).append(
                    source.pods if self._is_fine else 0
                )
        machine = host.machine
        multi_cell = self._list_multi_cell_vms(host)
        return CellKey(
            free=host.cells[cell],
            # The single-cell VMs by group, each with its number of pods.
            leaving=tuple(
                sorted((group, tuple(sorted(counts))) for group, counts in pod_counts.items())
            ),
            admitted=host.admitted,
            admits_demand=host.admits_demand,
            # The rack matters for the spread of tracked pools only.
            rack=machine.rack if self._tracked_pools else "",
            # If its disk has a row.
            single_machine=machine.name if machine.name in self._single_machines else "",
            # Each multi-cell VM with a share in this cell: its index among those of the machine,
            # and its class.
            spanning=tuple(
                (multi_cell.index(source), source.vm_class)
                for source in sources
                if source in multi_cell
            ),
        )

    def _list_multi_cell_vms(self, host: RepackMachine) -> list[MovableVm]:
        """List the movable multi-cell VMs of a machine once each, by handle."""
        by_handle: dict[int, MovableVm] = {}
        # A multi-cell VM is in several cells.
        for source in chain.from_iterable(host.movable_vms_by_cell):
            if self._get_sku(source).numa_cells > 1:
                by_handle[source.handle] = source
        return [source for _, source in sorted(by_handle.items())]

    def _get_sku(self, source: MovableVm) -> VmSku:
        return self._context.vm_classes[source.vm_class].sku

    def _add_cells(self, hosts: Iterable[RepackMachine]) -> None:
        """Add the cells of machines to the program, equal cells as one unit."""
        units: dict[CellKey, list[CellPosition]] = {}
        for host in hosts:
            for cell in range(len(host.cells)):
                position = CellPosition(host, cell, host.movable_vms_by_cell[cell])
                units.setdefault(self._build_cell_key(host, cell), []).append(position)
        for key, cells in units.items():
            self._add_cell_unit(_CellGroup(key, tuple(cells)))

    def _add_machines(self, number: int, hosts: Sequence[RepackMachine]) -> None:
        """Add equal machines as type `number`: their cells, and their multi-cell VMs.

        A column counts how often such a VM leaves, at the cost of one re-creation. It then leaves
        all of its cells: for each of them, a row "leaves" requires equally many changes of the cell
        with the VM leaving.
        """
        first = hosts[0]
        for cell in range(len(first.cells)):
            cells = tuple(
                CellPosition(host, cell, host.movable_vms_by_cell[cell]) for host in hosts
            )
            self._add_cell_unit(
                _CellGroup(
                    self._build_cell_key(first, cell), cells, machines=number, cell_number=cell
                )
            )
        self._add_multi_cell_arrivals(number, first, len(hosts))
        # The same index on equal machines.
        for index, source in enumerate(self._list_multi_cell_vms(first)):
            equal_vms = tuple(self._list_multi_cell_vms(host)[index] for host in hosts)
            entries = [
                (self._program.add_row(("leaves", number, cell, index), lower=0.0, upper=0.0), -1.0)
                for cell, sources in enumerate(first.movable_vms_by_cell)
                if source in sources
            ]
            entries += self._build_departure_entries(self._groups[source.handle], 1, first)
            self._program.add_column(cost=1.0, upper=len(hosts), entries=entries, subject=equal_vms)

    def _add_multi_cell_arrivals(self, number: int, first: RepackMachine, size: int) -> None:
        """Add a column per class of multi-cell VMs: how many arrive.

        `size` equal machines of type `number` accept them.

        A VM of the demand counts for the demand. Any other one is a slot for a re-created VM.
        `first` is any of the machines. Entries are pairs of row number and coefficient.
        """
        program = self._program
        for vm_class, sku in self._arrivals:
            is_admitted = first.admits_demand if vm_class == DEMAND else vm_class in first.admitted
            if not is_admitted:
                # Such a VM is not feasible there.
                continue
            # Row "wide": the changes of all cells take `numa_cells` shares per arrival. Row "wide
            # cell": of each cell at most one share per arrival.
            entries = [
                (
                    program.add_row(("wide", number, vm_class), lower=0.0, upper=0.0),
                    -float(sku.numa_cells),
                )
            ]
            cells = range(len(first.cells))
            entries += [
                (program.add_row(("wide cell", number, vm_class, cell)), -1.0) for cell in cells
            ]
            if vm_class == DEMAND:
                entries.append((program.add_row(_DEMAND_ROW), 1.0))
            else:
                rack = first.machine.rack if self._tracked_pools else ""
                size_number = self._catalogue.size_numbers_by_class[vm_class]
                entries.append(
                    (program.add_row(("slots", rack, first.admitted, size_number)), -1.0)
                )
            subject = ("arrival", number, vm_class)
            program.add_column(cost=0.0, upper=size * len(cells), entries=entries, subject=subject)

    def _add_cell_unit(self, unit: _CellGroup) -> None:
        """Add the row of a unit (equal cells) and a column per option (change of a cell).

        A column is the number of cells with the option. The row limits the changes to the number of
        cells. For a cleared unit it is 0, raised by the column of emptied machines: only their
        cells can change.
        """
        program = self._program
        size = len(unit.cells)
        unit_name = ("unit", unit.machines, unit.cell_number, unit.key, unit.is_cleared)
        unit_row = program.add_row(unit_name, upper=0.0 if unit.is_cleared else size)
        capacity_now = self._catalogue.find_cell_capacity(((unit.key.free,),), unit.key)
        if capacity_now is not None and not unit.is_cleared:
            self._cell_counts[capacity_now] += size
            self._get_cell_capacity_row(capacity_now)
            self.cells_by_capacity.setdefault(capacity_now, []).extend(unit.cells)
        skus = {
            self._groups[source.handle]: self._get_sku(source)
            for cell in unit.cells
            for source in cell.sources
        }
        multi_cell_skus = {
            index: self._context.vm_classes[number].sku for index, number in unit.key.spanning
        }
        for option in self._catalogue.list_cell_changes(
            unit.key, skus, self._arrivals, multi_cell_skus
        ):
            entries = [(unit_row, 1.0), *self._build_capacity_change(capacity_now, option.capacity)]
            entries += self._build_vm_entries(unit, option)
            if unit.key.single_machine:
                used_disk = option.demand * self._request.sku.disk_gib
                used_disk -= sum(count * skus[group].disk_gib for group, count in option.leaving)
                entries.append(
                    (program.add_row(("disk", unit.key.single_machine)), float(used_disk))
                )
            # Leaving multi-cell VMs count in `_add_machines`.
            recreations = sum(count for _, count in option.leaving)
            program.add_column(
                cost=recreations, upper=size, entries=entries, subject=(unit, option)
            )

    def _build_vm_entries(self, unit: _CellGroup, option: CellChange) -> list[tuple[int, float]]:
        """Build the entries of an option for the VMs that leave a cell and those that arrive.

        An entry is a row and a coefficient.
        """
        program = self._program
        entries: list[tuple[int, float]] = []
        for group, count in option.leaving:
            entries += self._build_departure_entries(group, count, unit.cells[0].host)
        # Number of single-cell VMs of the demand that get capacity in the cell.
        if option.demand:
            entries.append((program.add_row(_DEMAND_ROW), float(option.demand)))
        # DEMAND, or the class of a re-created VM.
        if option.arrival is not None:
            # One share of an arriving multi-cell VM; _add_multi_cell_arrivals requires all shares.
            entries.append(
                (
                    program.add_row(("wide", unit.machines, option.arrival), lower=0.0, upper=0.0),
                    1.0,
                )
            )
            entries.append(
                (
                    program.add_row(("wide cell", unit.machines, option.arrival, unit.cell_number)),
                    1.0,
                )
            )
        # Multi-cell VMs leave all of their cells, see `_add_machines`.
        for index in option.spanning:
            row_name = ("leaves", unit.machines, unit.cell_number, index)
            entries.append((program.add_row(row_name, lower=0.0, upper=0.0), 1.0))
        return entries

    def _add_unknown_machines(self, number: int, hosts: Sequence[RepackMachine]) -> None:
        """Add equal machines with unknown cells as type `number`.

        A machine has two uses. Either it takes VMs that fit in every possible layout of its cells,
        or all VMs in unknown cells leave, and its cells are known then.
        """
        first = hosts[0]
        size = len(hosts)
        program = self._program
        # Capacity next to the VMs in place; None if no more VMs fit in every layout.
        capacity = None
        if first.splits:
            # Any cell: its free capacity is not used.
            key = self._build_cell_key(first, cell=0)
            capacity = self._catalogue.find_cell_capacity(first.splits, key, first.disk)
            if capacity is not None:
                self._cell_counts[capacity] += size
                self._get_cell_capacity_row(capacity)
                whole_machines = [CellPosition(host, WHOLE_MACHINE, sources=()) for host in hosts]
                self.cells_by_capacity.setdefault(capacity, []).extend(whole_machines)
        # One of them is not movable.
        if not first.unknown_cell_vms:
            return
        # A column counts the emptied machines. Of each, VMs leave, the capacity is lost, and each
        # cell becomes usable.
        entries = self._build_capacity_change(capacity, after=None)
        for source in first.unknown_cell_vms:
            entries += self._build_departure_entries(self._groups[source.handle], 1, first)
        for cell in range(len(first.cells)):
            key = self._build_cell_key(first, cell)
            positions = tuple(
                CellPosition(host, cell, host.movable_vms_by_cell[cell]) for host in hosts
            )
            self._add_cell_unit(
                _CellGroup(key, positions, machines=number, cell_number=cell, is_cleared=True)
            )
            # `_add_cell_unit` added the row with bound 0.
            unit_row = program.add_row(("unit", number, cell, key, True))
            entries.append((unit_row, -1.0))
            entries += self._build_capacity_change(
                before=None, after=self.find_cleared_capacity(first, cell)
            )
        self._add_multi_cell_arrivals(number, first, size)
        if first.machine.name in self._single_machines:
            released_disk = sum(self._get_sku(source).disk_gib for source in first.unknown_cell_vms)
            entries.append((program.add_row(("disk", first.machine.name)), -float(released_disk)))
        program.add_column(
            cost=float(len(first.unknown_cell_vms)),
            upper=size,
            entries=entries,
            subject=tuple(hosts),
        )

    def find_cleared_capacity(self, host: RepackMachine, cell: int) -> CellPatterns | None:
        """Find the capacity of a cell after all VMs in unknown cells left its machine.

        Return None without capacity.
        """
        key = self._build_cell_key(host, cell)
        # One possible layout, of one cell.
        return self._catalogue.find_cell_capacity(((key.free,),), key)

    def _get_cell_capacity_row(self, capacity: CellPatterns) -> int:
        """Return the row of a capacity, added on first use.

        Each cell of this capacity gets the VMs of one pattern, so the row limits the patterns to
        the number of these cells (set by `_add_cell_capacity`).
        """
        row = self._capacity_rows.get(capacity)
        if row is None:
            row = self._capacity_rows[capacity] = self._program.add_row(("capacity", capacity))
        return row

    def _build_capacity_change(
        self, before: CellPatterns | None, after: CellPatterns | None
    ) -> list[tuple[int, float]]:
        """Build the row entries of a changed cell.

        One cell less has the capacity `before` (+1), and one more the capacity `after` (-1).
        """
        if before == after:
            return []
        entries = []
        if before is not None:
            entries.append((self._get_cell_capacity_row(before), 1.0))
        if after is not None:
            entries.append((self._get_cell_capacity_row(after), -1.0))
        return entries

    def _build_departure_entries(
        self, group: Group, count: int, host: RepackMachine
    ) -> list[tuple[int, float]]:
        """Build the row entries of `count` VMs of a group that leave `host`.

        An entry is a row number and a coefficient.
        """
        # In row "comes", arrivals less departures are at least 0: each leaving VM must arrive.
        entries = [
            (self._program.add_row(("comes", group), lower=0.0, upper=_INFINITE), -float(count))
        ]
        group_type, pool = group
        # A tracked pool: the rack may take as many other VMs of it.
        if group_type == "pool":
            entries.append((self._get_spread_row(pool, host.machine.rack), -float(count)))
        return entries

    def _get_spread_row(self, pool: int, rack: str) -> int:
        """Return the row of a pool's additional VMs in a rack, at most up to its limit there."""
        context = self._context
        capacity = context.limits[pool] - context.existing.get((pool, rack), 0)
        return self._program.add_row(
            ("spread", pool, rack), lower=-_INFINITE, upper=float(max(capacity, 0))
        )

    def _add_cell_capacity(self, capacity: CellPatterns) -> None:
        """Add a column for each pattern of a capacity (slots of each size in one cell).

        A column is the number of the capacity's cells with this pattern. A pattern adds slots
        (entries below 0) and uses disk.
        """
        program = self._program
        capacity_row = self._get_cell_capacity_row(capacity)
        # There is one pattern per cell in total.
        program.upper[capacity_row] = float(self._cell_counts[capacity])
        for pattern in capacity.patterns:
            entries = [(capacity_row, 1.0)]
            # Arrivals must not exceed the slots added in a row "slots" (of one size,
            # for these classes).
            entries += [
                (program.add_row(("slots", capacity.rack, capacity.admitted, size)), -float(count))
                for size, count in pattern
            ]
            if capacity.single_machine:
                disk = sum(count * self._catalogue.sizes[size].disk for size, count in pattern)
                entries.append((program.add_row(("disk", capacity.single_machine)), float(disk)))
            program.add_column(
                cost=0.0, upper=_INFINITE, entries=entries, subject=(capacity, pattern)
            )

    def _add_rack_arrivals(self) -> None:
        """Add a column per group of VMs and kind of slots.

        The number of its re-created VMs that get such a slot. Slots of a kind have one rack, set of
        admitted classes, and size.
        """
        program = self._program
        class_by_group = {
            self._groups[source.handle]: source.vm_class for source in self._context.all_movable_vms
        }
        slot_rows = [(name, row) for name, row in program.names.items() if name[0] == "slots"]
        for group, vm_class in sorted(class_by_group.items()):
            # Arrivals less departures are at least 0: each VM that leaves arrives somewhere.
            arrival_row = program.add_row(("comes", group), lower=0.0, upper=_INFINITE)
            # By name: ("slots", rack, classes, size).
            for (_, rack, admitted, size), slot_row in slot_rows:
                if (
                    vm_class not in admitted
                    or self._catalogue.size_numbers_by_class[vm_class] != size
                ):
                    # Such VMs do not fit in this slot.
                    continue
                entries = [(arrival_row, 1.0), (slot_row, 1.0)]
                group_type, pool = group
                # A tracked pool: the rack has a limit.
                if group_type == "pool":
                    entries.append((self._get_spread_row(pool, rack), 1.0))
                program.add_column(cost=0.0, upper=_INFINITE, entries=entries, subject=None)

    def solve(self, seconds: float | None = None) -> RepackSolution | NoRepackSolution:
        """Solve for the fewest re-creations.

        If these are proved, `_is_fine` also minimizes restarted pods. `seconds` limits each search
        (None: node limit only). If columns were dropped, nothing is proved: the bound is 0.
        """
        answer = run_solver(
            self._program.columns, self._program.lower, self._program.upper, seconds
        )
        bound = 0 if self.is_capped else answer.bound
        if answer.values is None:
            return NoRepackSolution(
                is_proved=answer.is_finished and not self.is_capped, bound=bound
            )
        values = answer.values
        recreations = round(answer.objective)
        # The minimum is proved.
        if self._is_fine and answer.bound >= answer.objective:
            # With values of additional columns at the end.
            values = self._reduce_pods(recreations, values, seconds)
        options: list[OptionUse] = []
        cleared: list[ClearedMachineCount] = []
        patterns: list[PatternCount] = []
        spanning: list[MovableVm] = []
        for column, value in zip(self._program.columns, values, strict=False):
            # The solution does not use it.
            if not value:
                continue
            # Other subjects only count in the program.
            match column.subject:
                case (_CellGroup() as unit, CellChange() as option):
                    options.append(OptionUse(unit.machines, unit.cells, option, value))
                case (CellPatterns() as capacity, tuple() as pattern):
                    patterns.append(PatternCount(capacity, pattern, value))
                case (RepackMachine(), *_) as hosts:
                    cleared.append(
                        ClearedMachineCount(cast("tuple[RepackMachine, ...]", hosts), value)
                    )
                case (MovableVm(), *_) as sources:
                    spanning += cast("tuple[MovableVm, ...]", sources)[:value]
        return RepackSolution(
            recreations, bound, tuple(options), tuple(cleared), tuple(patterns), tuple(spanning)
        )

    def _reduce_pods(
        self, recreations: int, values: Sequence[int], seconds: float | None
    ) -> Sequence[int]:
        """Find the solution with the fewest restarted pods, then affected pools.

        It re-creates at most `recreations` VMs.

        Return its values by column, those of additional columns last. If the solver finds none,
        return `values` unchanged.
        """
        # Groups are pools, since the fine mode tracks each of them.
        groups = sorted(set(self._groups.values()))
        program = self._program
        # Additional rows: all re-creations, and per group: leaving VMs - size of the group *
        # "affected" <= 0. So its column "affected" (0 or 1) must be 1 if any VM leaves.
        rows_lower = [*program.lower, *[-_INFINITE] * (1 + len(groups))]
        rows_upper = [*program.upper, float(recreations), *[0.0] * len(groups)]
        limit_row = len(program.lower)
        group_rows = {group: limit_row + 1 + number for number, group in enumerate(groups)}
        columns = []
        # One pod outweighs all pools.
        weight = len(groups) + 1
        for column in program.columns:
            entries = dict(column.entries)
            if column.cost:
                entries[limit_row] = column.cost
            leaving, pod_count = _count_leaving(column.subject, self._groups)
            for group, count in leaving.items():
                entries[group_rows[group]] = float(count)
            columns.append(
                ProgramColumn(float(pod_count) * weight, column.upper, entries, column.subject)
            )
        sizes = Counter(self._groups.values())
        for group, row in group_rows.items():
            columns.append(ProgramColumn(cost=1.0, upper=1.0, entries={row: -float(sizes[group])}))
        answer = run_solver(columns, rows_lower, rows_upper, seconds)
        return values if answer.values is None else answer.values


def _count_leaving(subject: object, groups: Mapping[int, Group]) -> tuple[Counter[Group], int]:
    """Count the VMs of each group moved by one use of a column, and the pods restarted.

    Only this subject counts, if there is one.
    """
    sources: tuple[MovableVm, ...] = ()
    match subject:
        case (_CellGroup(), CellChange() as option):
            return Counter(dict(option.leaving)), option.pods
        case (RepackMachine() as host, *_):
            # One of equal machines gives up all of its VMs in unknown cells.
            sources = host.unknown_cell_vms
        case (MovableVm() as moved, *_):
            # One of equal VMs moves.
            sources = (moved,)
    return Counter(groups[source.handle] for source in sources), sum(
        source.pods for source in sources
    )


def run_solver(
    columns: Sequence[ProgramColumn],
    lower: Sequence[float],
    upper: Sequence[float],
    seconds: float | None = None,
) -> SolverResult:
    """Run HiGHS with one thread and a fixed seed.

    `lower` and `upper` bound the rows. `seconds` None means the node limit only. A result without
    values proves the lack of a solution if `is_finished`. Without columns the result has no values.
    """
    if not columns:
        return SolverResult(values=None, objective=0.0, bound=0, is_finished=True)
    request = SolverRequest(
        costs=[column.cost for column in columns],
        column_upper=[_encode_bound(column.upper) for column in columns],
        row_lower=[_encode_bound(value) for value in lower],
        row_upper=[_encode_bound(value) for value in upper],
        rows=[list(column.entries) for column in columns],
        coefficients=[list(column.entries.values()) for column in columns],
        maximum_nodes=MAX_NODES,
        seconds=seconds,
    )
    try:
        return convert(_SOLVER.send_request(request), SolverResult)
    except WorkerFailure:
        # Neither a solution nor a proof, as at the limit of nodes.
        return SolverResult(values=None, objective=0.0, bound=0, is_finished=False)


def _encode_bound(value: float) -> float | None:
    """Return a bound for JSON, which has no infinite numbers: None."""
    return value if isfinite(value) else None
