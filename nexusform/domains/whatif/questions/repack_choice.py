"""Choice of VMs and machines from the counts of a program's solution."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from nexusform.domains.whatif.questions.repack_assignment import assign_machines
from nexusform.domains.whatif.questions.repack_cells import CellChange, CellPatterns, CellPosition, Group, assign_groups
from nexusform.domains.whatif.questions.repack_context import MovableVm, RepackContext, RepackMachine
from nexusform.domains.whatif.questions.repack_program import OptionUse, PatternCount, RepackProgram, RepackSolution


class RepackChoice(Struct, frozen=True):
    """VMs to re-create by pool and number, target machine by handle, reserved machines, and pools crowding a rack."""

    sources: tuple[MovableVm, ...]
    targets: Mapping[int, str]
    reserved: frozenset[str]
    crowding_pools: frozenset[int]

    @property
    def affected_machines(self) -> frozenset[str]:
        """Machines that gain or lose a VM."""
        sources = {source.vm.placement.machine for source in self.sources}
        return self.reserved | sources | set(self.targets.values())


def choose_vms_to_recreate(
    context: RepackContext, program: RepackProgram, solution: RepackSolution, tracked_pools: frozenset[int]
) -> RepackChoice:
    """Choose the VMs for the counts of a solution; prefer cells with the fewest pods and already affected pools."""
    groups = assign_groups(context, tracked_pools)
    cells_by_sink = {sink: list(cells) for sink, cells in program.cells_by_sink.items()}
    choice = _ChoiceBuilder(groups, cells_by_sink, program.class_sizes)
    for source in solution.spanning:
        choice.add_vm_to_recreate(source)
    cleared = {host.machine.name for clear in solution.cleared for host in clear.hosts[: clear.count]}
    for clear in solution.cleared:
        for host in clear.hosts[: clear.count]:
            choice.clear_machine(host, program)
    for cells, options in _group_options_by_unit(solution.options):
        choice.assign_options(cells, options, cleared)
    slots = choice.build_slots(solution.patterns)
    sources = tuple(sorted(choice.sources, key=lambda source: source.handle))
    targets, crowded = assign_machines(context, sources, slots, program.class_sizes)
    return RepackChoice(sources, targets, frozenset(choice.reserved), crowded)


def _group_options_by_unit(selections: Iterable[OptionUse]) -> Iterable[tuple[OptionUse, list[CellChange]]]:
    """Group the options by unit, one per cell; shares of multi-cell VMs first."""
    units: dict[tuple[int, int], tuple[OptionUse, list[CellChange]]] = {}
    for choice in selections:
        key = id(choice.cells), choice.machines
        units.setdefault(key, (choice, []))[1].extend([choice.option] * choice.count)
    for choice, options in units.values():
        options.sort(key=lambda option: (option.arrival is None, option.arrival or 0, option.spanning))
        yield choice, options


class _ChoiceBuilder:
    """Builder of a choice."""

    def __init__(
        self, groups: Mapping[int, Group], cells_by_sink: dict[CellPatterns, list[CellPosition]], size_of: Sequence[int]
    ) -> None:
        self._groups = groups
        self._size_of = size_of
        self._cells_by_sink = cells_by_sink
        self._affected_pools: set[int] = set()
        self.sources: list[MovableVm] = []
        self.reserved: set[str] = set()
        self.wide_slots: list[tuple[int, RepackMachine]] = []

    def add_vm_to_recreate(self, source: MovableVm) -> None:
        """Add a VM to re-create."""
        if source not in self.sources:
            self.sources.append(source)
            self._affected_pools.add(source.pool)

    def clear_machine(self, host: RepackMachine, program: RepackProgram) -> None:
        """Move all VMs in unknown cells off this machine; its cells are then separate."""
        for source in host.unknown_cell_vms:
            self.add_vm_to_recreate(source)
        for cells in self._cells_by_sink.values():
            cells[:] = [cell for cell in cells if cell.host is not host]
        for cell in range(len(host.cells)):
            sink = program.find_cleared_sink(host, cell)
            if sink is not None:
                self._cells_by_sink.setdefault(sink, []).append(
                    CellPosition(host, cell, host.movable_vms_by_cell[cell])
                )

    def assign_options(self, unit: OptionUse, options: Sequence[CellChange], cleared: set[str]) -> None:
        """Assign a cell of the unit to each option."""
        cells = list(unit.cells)
        if unit.machines != -1:
            if unit.machines < -1:
                cells = [cell for cell in cells if cell.host.machine.name in cleared]
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
        return sum(source.pods for source in leaving), len({source.pool for source in leaving} - self._affected_pools)

    def _select_leaving_vms(self, cell: CellPosition, option: CellChange) -> list[MovableVm]:
        """Select the VMs leaving this cell: of each group those with the fewest pods."""
        leaving: list[MovableVm] = []
        for group, count in option.leaving:
            candidates = [source for source in cell.sources if self._groups[source.handle] == group]
            candidates.sort(key=lambda source: (source.pods, source.pool not in self._affected_pools, source.handle))
            leaving += candidates[:count]
        return leaving

    def _apply_option(self, cell: CellPosition, option: CellChange) -> None:
        """Apply an option to a cell."""
        for source in self._select_leaving_vms(cell, option):
            self.add_vm_to_recreate(source)
        if option.demand or option.arrival == -1:
            self.reserved.add(cell.host.machine.name)
        for cells in self._cells_by_sink.values():
            cells[:] = [candidate for candidate in cells if (candidate.host, candidate.cell) != (cell.host, cell.cell)]
        if option.sink is not None:
            self._cells_by_sink.setdefault(option.sink, []).append(cell)
        if option.arrival is not None and option.arrival >= 0 and cell.cell == 0:
            self.wide_slots.append((self._size_of[option.arrival], cell.host))

    def build_slots(self, fillings: Iterable[PatternCount]) -> list[tuple[int, RepackMachine]]:
        """Build the slots for one VM each: size and machine."""
        slots = list(self.wide_slots)
        for fill in fillings:
            cells = self._cells_by_sink.get(fill.sink, [])
            for cell in cells[: fill.count]:
                slots += [(size, cell.host) for size, count in fill.pattern for _ in range(count)]
            del cells[: fill.count]
        return slots
