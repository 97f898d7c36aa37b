"""From numbers to names: which VMs a solution re-creates, which machines it keeps for the demand, and a place
for everybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from nexusform.domains.whatif.questions.repack_ground import Host, RepackGround, Source
from nexusform.domains.whatif.questions.repack_places import assign
from nexusform.domains.whatif.questions.repack_program import Filled, RepackProgram, Solution, Taken
from nexusform.domains.whatif.questions.repack_rooms import CellAt, Group, Option, Sink, groups_of


class Intention(Struct, frozen=True):
    """The VMs to re-create, by pool and number; a machine for each, by handle; the machines that get VMs of
    the demand. `crowded` are pools of which a rack would get too many.
    """

    sources: tuple[Source, ...]
    targets: Mapping[int, str]
    demanded: frozenset[str]
    crowded: frozenset[int]

    @property
    def machines(self) -> frozenset[str]:
        """Every machine that something comes to or leaves."""
        left = {source.vm.placement.machine for source in self.sources}
        return self.demanded | left | set(self.targets.values())


def intend(
    ground: RepackGround, program: RepackProgram, solution: Solution, followed: frozenset[int]
) -> Intention:
    """Name what a solution counts: of equal cells those first whose VMs run the fewest pods, of pools that
    are touched already.
    """
    groups = groups_of(ground, followed)
    rooms = {sink: list(cells) for sink, cells in program.rooms.items()}
    chosen = _Chosen(groups, rooms, program.size_of)
    for source in solution.spanning:
        chosen.go(source)
    cleared = {host.machine.name for clear in solution.cleared for host in clear.hosts[: clear.count]}
    for clear in solution.cleared:
        for host in clear.hosts[: clear.count]:
            chosen.clear(host, program)
    for cells, options in _by_unit(solution.taken):
        chosen.take(cells, options, cleared)
    slots = chosen.slots(solution.filled)
    sources = tuple(sorted(chosen.sources, key=lambda source: source.handle))
    targets, crowded = assign(ground, sources, slots, program.size_of)
    return Intention(sources, targets, frozenset(chosen.demanded), crowded)


def _by_unit(taken: Iterable[Taken]) -> Iterable[tuple[Taken, list[Option]]]:
    """The options of each unit, one for each cell that takes one; shares of wide VMs first, in one order."""
    units: dict[tuple[int, int], tuple[Taken, list[Option]]] = {}
    for choice in taken:
        key = id(choice.cells), choice.machines
        units.setdefault(key, (choice, []))[1].extend([choice.option] * choice.count)
    for choice, options in units.values():
        options.sort(key=lambda option: (option.arrival is None, option.arrival or 0, option.spanning))
        yield choice, options


class _Chosen:
    """What was named so far."""

    def __init__(
        self, groups: Mapping[int, Group], rooms: dict[Sink, list[CellAt]], size_of: Sequence[int]
    ) -> None:
        self._groups = groups
        self._size_of = size_of
        self._rooms = rooms
        self._touched: set[int] = set()
        self.sources: list[Source] = []
        self.demanded: set[str] = set()
        self.wide_slots: list[tuple[int, Host]] = []

    def go(self, source: Source) -> None:
        """This VM is re-created."""
        if source not in self.sources:
            self.sources.append(source)
            self._touched.add(source.pool)

    def clear(self, host: Host, program: RepackProgram) -> None:
        """Everybody whose cell is not known leaves this machine; its cells are rooms by themselves then."""
        for source in host.loose:
            self.go(source)
        for cells in self._rooms.values():
            cells[:] = [cell for cell in cells if cell.host is not host]
        for cell in range(len(host.cells)):
            sink = program.sink_when_cleared(host, cell)
            if sink is not None:
                self._rooms.setdefault(sink, []).append(CellAt(host, cell, host.sources[cell]))

    def take(self, unit: Taken, options: Sequence[Option], cleared: set[str]) -> None:
        """Give each option a cell of the unit."""
        cells = list(unit.cells)
        if unit.machines != -1:
            if unit.machines < -1:
                cells = [cell for cell in cells if cell.host.machine.name in cleared]
            for cell, option in zip(cells, options, strict=False):
                self._become(cell, option)
            return
        for option in options:
            cell = min(cells, key=lambda one: self._price(one, option))
            cells.remove(cell)
            self._become(cell, option)

    def _price(self, cell: CellAt, option: Option) -> tuple[int, int]:
        """The pods that go, and the pools that are touched beside those that are already."""
        leaving = self._leaving(cell, option)
        return sum(source.pods for source in leaving), len(
            {source.pool for source in leaving} - self._touched
        )

    def _leaving(self, cell: CellAt, option: Option) -> list[Source]:
        """Who leaves this cell: of each group the VMs with the fewest pods."""
        leaving: list[Source] = []
        for group, count in option.leaving:
            alike = [source for source in cell.sources if self._groups[source.handle] == group]
            alike.sort(key=lambda source: (source.pods, source.pool not in self._touched, source.handle))
            leaving += alike[:count]
        return leaving

    def _become(self, cell: CellAt, option: Option) -> None:
        for source in self._leaving(cell, option):
            self.go(source)
        if option.demand or option.arrival == -1:
            self.demanded.add(cell.host.machine.name)
        for cells in self._rooms.values():
            cells[:] = [one for one in cells if (one.host, one.cell) != (cell.host, cell.cell)]
        if option.sink is not None:
            self._rooms.setdefault(option.sink, []).append(cell)
        if option.arrival is not None and option.arrival >= 0 and cell.cell == 0:
            self.wide_slots.append((self._size_of[option.arrival], cell.host))

    def slots(self, filled: Iterable[Filled]) -> list[tuple[int, Host]]:
        """Room for one VM each: its size and the machine."""
        slots = list(self.wide_slots)
        for fill in filled:
            rooms = self._rooms.get(fill.sink, [])
            for cell in rooms[: fill.count]:
                slots += [(size, cell.host) for size, count in fill.pattern for _ in range(count)]
            del rooms[: fill.count]
        return slots
