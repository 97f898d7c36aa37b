"""Choice of VMs and machines from the counts of a program's solution."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from nexusform.domains.whatif.questions.repack_cells import (
    DEMAND,
    CellChange,
    CellPatterns,
    CellPosition,
    Group,
    assign_groups,
)
from nexusform.domains.whatif.questions.repack_context import (
    MovableVm,
    RepackContext,
    RepackMachine,
)
from nexusform.domains.whatif.questions.repack_program import (
    ANY_MACHINE,
    LinearProgram,
    OptionUse,
    PatternCount,
    RepackProgram,
    RepackSolution,
    run_solver,
)

Slot = tuple[int, RepackMachine]
_OWN_MACHINE_COST: Final = 1.0
_CROWDING_COST: Final = 1_000.0
_UNASSIGNED_COST: Final = 100_000.0


class RepackChoice(Struct, frozen=True):
    """VMs to re-create, targets by handle, reserved machines, and pools above a limit.

    Machines are reserved for the demand. The limit is that of a rack.
    """

    sources: tuple[MovableVm, ...]
    targets: Mapping[int, str]
    reserved: frozenset[str]
    crowding_pools: frozenset[int]

    @property
    def affected_machines(self) -> frozenset[str]:
        """Machines that lose a VM or gain one.

        They gain a re-created VM, or one of the demand (`reserved`).
        """
        sources = {source.vm.placement.machine for source in self.sources}
        return self.reserved | sources | set(self.targets.values())


def choose_vms_to_recreate(
    context: RepackContext,
    program: RepackProgram,
    solution: RepackSolution,
    tracked_pools: frozenset[int],
) -> RepackChoice:
    """Choose VMs for a solution, as it has only numbers of equal VMs and cells.

    VMs with the fewest pods are preferred, then VMs of pools already affected. A VM of
    `tracked_pools` equals only VMs of its pool, and another VM those of its class.
    """
    groups = assign_groups(context, tracked_pools)
    cells_by_capacity = {
        capacity: list(cells) for capacity, cells in program.cells_by_capacity.items()
    }
    choice = _ChoiceBuilder(context, groups, cells_by_capacity, program.size_numbers_by_class)
    for multi_cell_vm in solution.spanning:
        choice.add_vm_to_recreate(multi_cell_vm)
    # Names of machines emptied of VMs in unknown cells.
    cleared: set[str] = set()
    for machines in solution.cleared:
        # They are equal: any of them.
        for host in machines.hosts[: machines.count]:
            cleared.add(host.machine.name)
            choice.clear_machine(host, program)
    for unit, options in _group_options_by_unit(solution.options):
        choice.assign_options(unit, options, cleared)
    slots = choice.build_slots(solution.patterns)
    sources = tuple(source for _, source in sorted(choice.sources.items()))
    targets, crowded = assign_machines(context, sources, slots, program.size_numbers_by_class)
    return RepackChoice(sources, targets, frozenset(choice.reserved), crowded)


def _group_options_by_unit(
    selections: Iterable[OptionUse],
) -> Iterable[tuple[OptionUse, list[CellChange]]]:
    """Yield one entry per unit (a set of equal cells).

    Any of its uses, and the option (change) of each changed cell. Options with a share of an
    arriving multi-cell VM (`arrival`: its class) come first, those without one (None) last.
    """
    units: dict[tuple[int, int], tuple[OptionUse, list[CellChange]]] = {}
    for option_use in selections:
        # The selections of a unit share one tuple of cells.
        unit_key = id(option_use.cells), option_use.machines
        _, options = units.setdefault(unit_key, (option_use, []))
        options.extend([option_use.option] * option_use.count)
    for first_use, options in units.values():
        options.sort(
            key=lambda option: (option.arrival is None, option.arrival or 0, option.spanning)
        )
        yield first_use, options


class _ChoiceBuilder(Struct):
    """Builder of a choice.

    `_size_of` is the size number by class number. `arrival_shares` is the number of cells of a
    machine with a share of re-created multi-cell VMs, by machine and class.
    """

    _context: RepackContext
    _groups: Mapping[int, Group]
    _cells_by_capacity: dict[CellPatterns, list[CellPosition]]
    _size_of: Sequence[int]
    _affected_pools: set[int] = set()
    sources: dict[int, MovableVm] = {}
    reserved: set[str] = set()
    arrival_shares: dict[tuple[str, int], int] = {}

    def add_vm_to_recreate(self, source: MovableVm) -> None:
        """Add a VM to re-create.

        Its pool counts as affected from now on.
        """
        self.sources[source.handle] = source
        self._affected_pools.add(source.pool)

    def clear_machine(self, host: RepackMachine, program: RepackProgram) -> None:
        """Move all VMs in unknown cells off a machine.

        Its cells are known then, each with a capacity of its own.
        """
        for source in host.unknown_cell_vms:
            self.add_vm_to_recreate(source)
        for cells in self._cells_by_capacity.values():
            # Without its former capacity.
            cells[:] = [cell for cell in cells if cell.host is not host]
        for cell in range(len(host.cells)):
            capacity = program.find_cleared_capacity(host, cell)
            if capacity is not None:
                position = CellPosition(host, cell, host.movable_vms_by_cell[cell])
                self._cells_by_capacity.setdefault(capacity, []).append(position)

    def assign_options(
        self, unit: OptionUse, options: Sequence[CellChange], cleared: set[str]
    ) -> None:
        """Apply each option to a separate cell of the unit (equal cells).

        If the unit is of a type of machines, use its cells in the order of the machines: all shares
        of a multi-cell VM are on one then. Otherwise use the cheapest cells.
        """
        cells = list(unit.cells)
        # The number of a type of equal machines.
        if unit.machines != ANY_MACHINE:
            # The types of such machines have numbers below ANY_MACHINE.
            has_unknown_cells = unit.machines < ANY_MACHINE
            # Only cleared machines can change.
            if has_unknown_cells:
                cells = [cell for cell in cells if cell.host.machine.name in cleared]
            # The other cells stay as they are.
            for cell, option in zip(cells, options, strict=False):
                self._apply_option(cell, option)
            return
        for option in options:
            cell = min(cells, key=lambda candidate: self._compute_cell_cost(candidate, option))
            cells.remove(cell)
            self._apply_option(cell, option)

    def _compute_cell_cost(self, cell: CellPosition, option: CellChange) -> tuple[int, int]:
        """Compute the cost: pods restarted, and additional pools affected."""
        leaving = self._select_leaving_vms(cell, option)
        return sum(source.pods for source in leaving), len(
            {source.pool for source in leaving} - self._affected_pools
        )

    def _select_leaving_vms(self, cell: CellPosition, option: CellChange) -> list[MovableVm]:
        """Select the VMs to leave a cell by group.

        VMs with the fewest pods come first, then those of pools affected already.
        """
        leaving: list[MovableVm] = []
        for group, count in option.leaving:
            candidates = [source for source in cell.sources if self._groups[source.handle] == group]
            candidates.sort(
                key=lambda source: (
                    source.pods,
                    source.pool not in self._affected_pools,
                    source.handle,
                )
            )
            leaving += candidates[:count]
        return leaving

    def _apply_option(self, cell: CellPosition, option: CellChange) -> None:
        """Apply an option (change) to a cell.

        VMs leave, others arrive, and the rest is capacity for re-created VMs.
        """
        for source in self._select_leaving_vms(cell, option):
            self.add_vm_to_recreate(source)
        # A requested VM arrives, of one cell or of several.
        if option.demand or option.arrival == DEMAND:
            self.reserved.add(cell.host.machine.name)
        # The cell no longer has its former capacity.
        for cells in self._cells_by_capacity.values():
            cells[:] = [
                candidate
                for candidate in cells
                if (candidate.host, candidate.cell) != (cell.host, cell.cell)
            ]
        if option.capacity is not None:
            self._cells_by_capacity.setdefault(option.capacity, []).append(cell)
        # The class of a re-created multi-cell VM with a share here.
        if option.arrival not in (None, DEMAND):
            key = cell.host.machine.name, option.arrival
            self.arrival_shares[key] = self.arrival_shares.get(key, 0) + 1

    def build_slots(self, pattern_counts: Iterable[PatternCount]) -> list[Slot]:
        """Build a slot (size number, machine) per re-created VM.

        A pattern has the slots of one cell: (size, count).
        """
        slots: list[Slot] = []
        hosts = {host.machine.name: host for host in self._context.hosts}
        # A re-created multi-cell VM has a share in several cells of its machine, but one slot.
        for (machine, vm_class), shares in self.arrival_shares.items():
            vm_count = shares // self._context.vm_classes[vm_class].sku.numa_cells
            slots += [(self._size_of[vm_class], hosts[machine])] * vm_count
        for pattern_count in pattern_counts:
            cells = self._cells_by_capacity.get(pattern_count.capacity, [])
            for cell in cells[: pattern_count.count]:
                for size, count in pattern_count.pattern:
                    slots += [(size, cell.host)] * count
            del cells[: pattern_count.count]  # used up
        return slots


def assign_machines(
    context: RepackContext,
    sources: Sequence[MovableVm],
    slots: Sequence[Slot],
    size_of: Sequence[int],
) -> tuple[dict[int, str], frozenset[int]]:
    """Assign VMs to slots of their size by a linear program with the least cost.

    `size_of` is the size by class number. An unassigned VM costs most, then a VM above the limit of
    a rack, then a return to the own machine. Return the names of the machines by handle of the
    assigned VMs, and the numbers of the pools with VMs above a limit.
    """
    slot_counts = Counter((size, host.machine.name) for size, host in slots)
    hosts = {host.machine.name: host for _, host in slots}  # by name
    # Number of VMs not re-created, by pool and rack.
    staying = Counter(context.existing)
    for source in sources:
        staying[source.pool, source.vm.placement.rack] -= 1
    program = LinearProgram()
    for source in sources:
        vm_row = program.add_row(("vm", source.handle), lower=1.0, upper=1.0)
        program.add_column(
            cost=_UNASSIGNED_COST, upper=1.0, entries=[(vm_row, 1.0)], subject=None
        )  # left over
        for (size, machine_name), count in slot_counts.items():
            host = hosts[machine_name]
            if size != size_of[source.vm_class] or source.vm_class not in host.admitted:
                # No slot for this VM.
                continue
            pool_rack = source.pool, host.machine.rack
            # A rack above its limit may keep its present number.
            capacity = (
                max(context.limits[source.pool], context.existing.get(pool_rack, 0))
                - staying[pool_rack]
            )
            entries = [
                (vm_row, 1.0),
                (program.add_row(("slot", size, machine_name), upper=float(count)), 1.0),
                (program.add_row(("rack", *pool_rack), upper=float(max(capacity, 0))), 1.0),
            ]
            cost = _OWN_MACHINE_COST if machine_name == source.vm.placement.machine else 0.0
            program.add_column(cost, upper=1.0, entries=entries, subject=(source, machine_name))
    for name, row in program.names.items():
        # ("rack", pool, rack): a column of VMs above the limit.
        if name[0] == "rack":
            upper = float(len(sources))
            program.add_column(
                cost=_CROWDING_COST, upper=upper, entries=[(row, -1.0)], subject=name[1]
            )
    values = run_solver(program.columns, program.lower, program.upper).values
    targets: dict[int, str] = {}
    crowded: set[int] = set()
    for column, value in zip(program.columns, values or (), strict=False):
        # The VM and machine of an assignment, or the pool of VMs above a limit.
        match column.subject:
            case (MovableVm() as source, str() as machine_name) if value:
                targets[source.handle] = machine_name
            case int() as pool if value:
                crowded.add(pool)
    return targets, frozenset(crowded)
