"""The fewest re-creations that make room, as an integer program for HiGHS (the extra `optimize`).

Cells with equal contents are one row with a number; what may become of them are columns. Its optimum never
exceeds what is truly needed: whatever is left out of it (order, and rules that look at single VMs) can only
cost more, so its bound is a proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import ceil, isfinite
from typing import Any, Final, cast

from msgspec import Struct, field

from nexusform.domains.whatif.questions.repack_ground import Host, RepackGround, RepackRequest, Source
from nexusform.domains.whatif.questions.repack_rooms import (
    CellAt,
    CellKey,
    Group,
    Option,
    Pattern,
    RoomBook,
    Sink,
    groups_of,
)
from nexusform.scheduling.racks.vms import VmSku

# What the search may take where no time is given: the answer is then the same on every machine.
MOST_NODES: Final = 20_000
_INFINITE: Final = float("inf")
_DEMAND: Final = -1
# In the place of a cell: the whole machine.
WHOLE: Final = -1


class Taken(Struct, frozen=True):
    """A choice of the program: so many of the cells of a unit become this. `machines` is the type of machine
    where cells of one machine hang together, -1 where they do not.
    """

    machines: int
    cells: tuple[CellAt, ...]
    option: Option
    count: int


class Cleared(Struct, frozen=True):
    """So many of these machines with unknown cells are emptied of everybody whose cells are not known."""

    hosts: tuple[Host, ...]
    count: int


class Filled(Struct, frozen=True):
    """So many rooms of a sink take this pattern."""

    sink: Sink
    pattern: Pattern
    count: int


class Solution(Struct, frozen=True):
    """What the program found. `bound`: fewer re-creations cannot do."""

    recreations: int
    bound: int
    taken: tuple[Taken, ...] = ()
    cleared: tuple[Cleared, ...] = ()
    filled: tuple[Filled, ...] = ()
    spanning: tuple[Source, ...] = ()


class NoSolution(Struct, frozen=True):
    """None exists (`proved`), or none was found within the limits. `bound`: fewer re-creations cannot do."""

    proved: bool
    bound: int = 0


class Column(Struct):
    """What may be chosen, up to so often: its cost, its part of each row, and what it stands for."""

    cost: float
    upper: float
    entries: dict[int, float]
    about: object = None


class Program(Struct):
    """Columns and rows on their way to the solver; rows have names."""

    columns: list[Column] = field(default_factory=list)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    names: dict[Hashable, int] = field(default_factory=dict)

    def row(self, name: Hashable, lower: float = -_INFINITE, upper: float = 0.0) -> int:
        """The row with this name; made with these bounds where it is new."""
        number = self.names.get(name)
        if number is None:
            number = self.names[name] = len(self.lower)
            self.lower.append(lower)
            self.upper.append(upper)
        return number

    def column(
        self, cost: float, upper: float, entries: Iterable[tuple[int, float]], about: object
    ) -> Column:
        """One more column; entries of one row are added up."""
        summed: dict[int, float] = {}
        for row, value in entries:
            summed[row] = summed.get(row, 0.0) + value
        column = Column(cost, upper, summed, about)
        self.columns.append(column)
        return column


class _Unit(Struct, frozen=True):
    """Cells with equal contents. `machines` is the type of machine where cells of one hang together."""

    key: CellKey
    cells: tuple[CellAt, ...]
    machines: int = -1
    at: int = 0
    is_cleared: bool = False


class Limits(Struct, frozen=True):
    """What the search may take: seconds (None: nodes alone)."""

    seconds: float | None = None


class RepackProgram:
    """The program of one ground. `followed` are pools whose spread over racks is a row, `solo` machines that
    stand for themselves, with their disk.
    """

    def __init__(
        self,
        ground: RepackGround,
        request: RepackRequest,
        *,
        followed: frozenset[int] = frozenset(),
        solo: frozenset[str] = frozenset(),
        fine: bool = False,
    ) -> None:
        self._ground = ground
        self._request = request
        self._followed = followed
        self._solo = solo
        self._fine = fine
        self._book = RoomBook(ground.kinds, request.sku)
        self._groups = groups_of(ground, followed)
        self._program = Program()
        self._sinks: Counter[Sink] = Counter()
        self._used_sinks: dict[Sink, int] = {}
        # The cells (or whole machines) that are such a room as they stand.
        self.rooms: dict[Sink, list[CellAt]] = {}
        self._arrivals: list[tuple[int, VmSku]] = [
            (kind, each.sku) for kind, each in enumerate(ground.kinds) if each.sku.numa_cells > 1
        ]
        if request.sku.numa_cells > 1:
            self._arrivals.append((_DEMAND, request.sku))
        self._build()

    @property
    def capped(self) -> bool:
        """Whether something was too much to be listed, so that the bound is no proof."""
        return self._book.capped

    @property
    def size_of(self) -> Sequence[int]:
        """The size of the VMs of each kind, by the numbers of both."""
        return self._book.size_of

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self._program.lower), len(self._program.columns)

    # --- rows and columns ----------------------------------------------------------------------

    def _build(self) -> None:
        program = self._program
        program.row("demand", self._request.want, _INFINITE)
        for host in self._ground.hosts:
            if host.machine.name in self._solo:
                program.row(("disk", host.machine.name), upper=float(max(host.disk, 0)))
        known: dict[Hashable, list[Host]] = {}
        unknown: dict[Hashable, list[Host]] = {}
        for host in self._ground.hosts:
            book = unknown if host.unknown else known
            book.setdefault(self._machine_key(host), []).append(host)
        if self._arrivals:
            for number, hosts in enumerate(known.values()):
                self._add_machines(number, hosts)
        else:
            self._add_cells(host for hosts in known.values() for host in hosts)
        for number, hosts in enumerate(unknown.values()):
            fewest_pods = sorted(hosts, key=lambda host: sum(source.pods for source in host.loose))
            self._add_unknown(-2 - number, fewest_pods)
        for sink in list(self._used_sinks):
            self._add_sink(sink)
        self._add_spread()

    def _cell_key(self, host: Host, cell: int) -> CellKey:
        """What makes this cell equal to others."""
        sources = host.sources[cell]
        free = host.cells[cell]
        pods: dict[Group, list[int]] = {}
        for source in sources:
            if self._sku(source).numa_cells == 1:
                pods.setdefault(self._groups[source.handle], []).append(source.pods if self._fine else 0)
        machine = host.machine
        return CellKey(
            free=free,
            leaving=tuple(sorted((group, tuple(sorted(counts))) for group, counts in pods.items())),
            admits=host.admits,
            demanded=host.demanded,
            rack=machine.rack if self._followed else "",
            solo=machine.name if machine.name in self._solo else "",
            spanning=self._spanning_of(host, cell),
        )

    def _spanning_of(self, host: Host, cell: int) -> tuple[tuple[int, int], ...]:
        """The VMs of several cells that may leave this one: (place among those of the machine, kind)."""
        wide = self._wide(host)
        return tuple((wide.index(source), source.kind) for source in host.sources[cell] if source in wide)

    def _wide(self, host: Host) -> list[Source]:
        """The VMs of several cells of a machine that may leave it."""
        found = {source.handle: source for cell in host.sources for source in cell}
        return [source for _, source in sorted(found.items()) if self._sku(source).numa_cells > 1]

    def _sku(self, source: Source) -> VmSku:
        return self._ground.kinds[source.kind].sku

    def _machine_key(self, host: Host) -> Hashable:
        """What makes this machine equal to others."""
        cells = tuple(self._cell_key(host, cell) for cell in range(len(host.cells)))
        loose = tuple(sorted(self._groups[source.handle] for source in host.loose))
        pods = tuple(sorted(source.pods for source in host.loose)) if self._fine else ()
        wide = tuple(self._groups[source.handle] for source in self._wide(host))
        return cells, loose, pods, wide, host.splits, host.disk if host.unknown else 0

    def _add_cells(self, hosts: Iterable[Host]) -> None:
        """Cells that hang on nothing of their machine (its disk apart): one unit for all equal ones."""
        units: dict[CellKey, list[CellAt]] = {}
        for host in hosts:
            for cell in range(len(host.cells)):
                units.setdefault(self._cell_key(host, cell), []).append(
                    CellAt(host, cell, host.sources[cell])
                )
        for key, cells in units.items():
            self._add_unit(_Unit(key, tuple(cells)))

    def _add_machines(self, number: int, hosts: Sequence[Host]) -> None:
        """Equal machines; VMs of several cells come to and leave all of theirs at once."""
        first = hosts[0]
        for cell in range(len(first.cells)):
            cells = tuple(CellAt(host, cell, host.sources[cell]) for host in hosts)
            self._add_unit(_Unit(self._cell_key(first, cell), cells, number, cell))
        self._add_arrivals(number, first, len(hosts))
        for wide, source in enumerate(self._wide(first)):
            same = tuple(self._wide(host)[wide] for host in hosts)
            entries = [
                (self._program.row(("leaves", number, cell, wide), 0.0, 0.0), -1.0)
                for cell, sources in enumerate(first.sources)
                if source in sources
            ]
            entries += self._leaves(self._groups[source.handle], 1, first)
            self._program.column(1.0, len(hosts), entries, same)

    def _add_arrivals(self, number: int, first: Host, size: int) -> None:
        """A column for each VM of several cells that may come to machines of this type."""
        program = self._program
        for kind, sku in self._arrivals:
            if not (first.demanded if kind == _DEMAND else kind in first.admits):
                continue
            entries = [(program.row(("wide", number, kind), 0.0, 0.0), -float(sku.numa_cells))]
            entries += [
                (program.row(("wide cell", number, kind, cell)), -1.0) for cell in range(len(first.cells))
            ]
            if kind == _DEMAND:
                entries.append((program.row("demand"), 1.0))
            else:
                rack = first.machine.rack if self._followed else ""
                entries.append((self._slot(rack, first.admits, self._book.size_of[kind]), -1.0))
            program.column(0.0, size * len(first.cells), entries, ("arrival", number, kind))

    def _add_unit(self, unit: _Unit) -> None:
        """The row of a unit and the columns of its options."""
        program, size = self._program, len(unit.cells)
        first = unit.cells[0].host
        row = program.row(
            ("unit", unit.machines, unit.at, unit.key, unit.is_cleared),
            upper=0.0 if unit.is_cleared else size,
        )
        default = self._book.sink(((unit.key.free,),), unit.key)
        if default is not None and not unit.is_cleared:
            self._sinks[default] += size
            self._touch(default)
            self.rooms.setdefault(default, []).extend(unit.cells)
        skus = {
            self._groups[source.handle]: self._sku(source) for cell in unit.cells for source in cell.sources
        }
        spanning = {place: self._ground.kinds[kind].sku for place, kind in unit.key.spanning}
        for option in self._book.options(unit.key, skus, self._arrivals, spanning):
            entries: list[tuple[int, float]] = [(row, 1.0)]
            entries += self._exchange(default, option.sink)
            for group, count in option.leaving:
                entries += self._leaves(group, count, first)
            if option.demand:
                entries.append((program.row("demand"), float(option.demand)))
            if option.arrival is not None:
                entries.append((program.row(("wide", unit.machines, option.arrival), 0.0, 0.0), 1.0))
                entries.append((program.row(("wide cell", unit.machines, option.arrival, unit.at)), 1.0))
            for place in option.spanning:
                entries.append((program.row(("leaves", unit.machines, unit.at, place), 0.0, 0.0), 1.0))
            if unit.key.solo:
                entries += self._disk(first, option)
            program.column(option.recreations, size, entries, (unit, option))

    def _add_unknown(self, number: int, hosts: Sequence[Host]) -> None:
        """Machines with VMs whose cells are not known: they stay, and what fits in every split may come; or
        all of them go.
        """
        first, size = hosts[0], len(hosts)
        program = self._program
        sink = None
        if first.splits:
            key = self._cell_key(first, 0)
            sink = self._book.sink(first.splits, key, first.disk)
            if sink is not None:
                self._sinks[sink] += size
                self._touch(sink)
                self.rooms.setdefault(sink, []).extend(CellAt(host, WHOLE, ()) for host in hosts)
        if not first.loose:
            return
        cells = list(first.cells)
        entries = self._exchange(sink, None)
        for source in first.loose:
            entries += self._leaves(self._groups[source.handle], 1, first)
        for cell in range(len(cells)):
            key = self._cell_key(first, cell)
            unit = _Unit(
                key, tuple(CellAt(host, cell, host.sources[cell]) for host in hosts), number, cell, True
            )
            self._add_unit(unit)
            row = program.row(("unit", number, cell, key, True))
            entries.append((row, -1.0))
            entries += self._exchange(None, self._book.sink(((key.free,),), key))
        self._add_arrivals(number, first, size)
        if first.machine.name in self._solo:
            left = sum(self._sku(source).disk_gib for source in first.loose)
            entries.append((program.row(("disk", first.machine.name)), -float(left)))
        program.column(float(len(first.loose)), size, entries, tuple(hosts))

    def sink_when_cleared(self, host: Host, cell: int) -> Sink | None:
        """The room of a cell once everybody whose cell is not known has left its machine."""
        key = self._cell_key(host, cell)
        return self._book.sink(((key.free,),), key)

    def _touch(self, sink: Sink) -> int:
        """The row of a sink: rooms filled are no more than rooms there are."""
        row = self._used_sinks.get(sink)
        if row is None:
            row = self._used_sinks[sink] = self._program.row(("sink", sink))
        return row

    def _exchange(self, before: Sink | None, after: Sink | None) -> list[tuple[int, float]]:
        """A room of one kind becomes one of another kind."""
        if before == after:
            return []
        entries = []
        if before is not None:
            entries.append((self._touch(before), 1.0))
        if after is not None:
            entries.append((self._touch(after), -1.0))
        return entries

    def _leaves(self, group: Group, count: int, host: Host) -> list[tuple[int, float]]:
        """So many VMs of a group leave this rack, and must come somewhere."""
        entries = [(self._program.row(("comes", group), 0.0, _INFINITE), -float(count))]
        if group[0] == "pool":
            entries.append((self._spread_row(group[1], host.machine.rack), -float(count)))
        return entries

    def _spread_row(self, pool: int, rack: str) -> int:
        ground = self._ground
        room = ground.limits[pool] - ground.standing.get((pool, rack), 0)
        return self._program.row(("spread", pool, rack), -_INFINITE, float(max(room, 0)))

    def _slot(self, rack: str, admits: frozenset[int], size: int) -> int:
        """Room for VMs of one size where these kinds may come."""
        return self._program.row(("slots", rack, admits, size))

    def _add_sink(self, sink: Sink) -> None:
        """The columns of a sink's patterns."""
        program = self._program
        row = self._touch(sink)
        program.upper[row] = float(self._sinks[sink])
        for pattern in sink.patterns:
            entries = [(row, 1.0)]
            entries += [(self._slot(sink.rack, sink.admits, size), -float(count)) for size, count in pattern]
            if sink.solo:
                disk = sum(count * self._book.sizes[size].disk for size, count in pattern)
                entries.append((program.row(("disk", sink.solo)), float(disk)))
            program.column(0.0, _INFINITE, entries, (sink, pattern))

    def _add_spread(self) -> None:
        """VMs that leave come to a rack: of a kind, or of a pool that is followed rack by rack."""
        program = self._program
        kinds = {group: self._kind_of(group) for group in set(self._groups.values())}
        slots = [name for name in program.names if isinstance(name, tuple) and name[0] == "slots"]
        for group in sorted(kinds):
            comes = program.row(("comes", group), 0.0, _INFINITE)
            for name in slots:
                _, rack, admits, size = name
                kind = kinds[group]
                if kind not in admits or self._book.size_of[kind] != size:
                    continue
                entries = [(comes, 1.0), (program.row(name), 1.0)]
                if group[0] == "pool":
                    entries.append((self._spread_row(group[1], rack), 1.0))
                program.column(0.0, _INFINITE, entries, None)

    def _kind_of(self, group: Group) -> int:
        if group[0] == "kind":
            return group[1]
        return next(source.kind for source in self._ground.sources if source.pool == group[1])

    def _disk(self, host: Host, option: Option) -> list[tuple[int, float]]:
        """What an option takes of the disk of a machine that stands for itself."""
        skus = {self._groups[source.handle]: self._sku(source) for cell in host.sources for source in cell}
        taken = option.demand * self._request.sku.disk_gib
        taken -= sum(count * skus[group].disk_gib for group, count in option.leaving)
        return [(self._program.row(("disk", host.machine.name)), float(taken))]

    # --- solving -------------------------------------------------------------------------------

    def solve(self, limits: Limits) -> Solution | NoSolution:
        """The fewest re-creations; then, where cells are told apart, the fewest pods and pools."""
        answer = solve(self._program.columns, self._program.lower, self._program.upper, limits)
        if answer.values is None:
            return NoSolution(answer.finished and not self.capped, 0 if self.capped else answer.bound)
        bound = 0 if self.capped else answer.bound
        values = answer.values
        if self._fine and answer.bound >= answer.objective:
            values = self._fewest_pods(round(answer.objective), values, limits)
        return self._solution(round(answer.objective), bound, values)

    def _fewest_pods(self, recreations: int, values: Sequence[int], limits: Limits) -> Sequence[int]:
        """Among the solutions with so few re-creations one with the fewest pods, of the fewest pools."""
        pools = {group: number for number, group in enumerate(sorted(set(self._groups.values())))}
        program = self._program
        rows_lower, rows_upper = [*program.lower, -_INFINITE], [*program.upper, float(recreations)]
        few = len(rows_lower) - 1
        touched = {group: few + 1 + number for group, number in pools.items()}
        rows_lower += [-_INFINITE] * len(pools)
        rows_upper += [0.0] * len(pools)
        columns = []
        weight = len(pools) + 1
        for column in program.columns:
            entries = dict(column.entries)
            cost = 0.0
            if column.cost:
                entries[few] = column.cost
            leaving = _leaving_of(column.about, self._groups)
            for group, count in leaving.items():
                entries[touched[group]] = float(count)
            cost = float(_pods_of(column.about)) * weight
            columns.append(Column(cost, column.upper, entries, column.about))
        sizes = Counter(self._groups.values())
        for group, row in touched.items():
            columns.append(Column(1.0, 1.0, {row: -float(sizes[group])}, None))
        answer = solve(columns, rows_lower, rows_upper, limits)
        return values if answer.values is None else answer.values

    def _solution(self, recreations: int, bound: int, values: Sequence[int]) -> Solution:
        taken: list[Taken] = []
        cleared: list[Cleared] = []
        filled: list[Filled] = []
        spanning: list[Source] = []
        for column, value in zip(self._program.columns, values, strict=False):
            if not value:
                continue
            match column.about:
                case (_Unit() as unit, Option() as option):
                    taken.append(Taken(unit.machines, unit.cells, option, value))
                case (Sink() as sink, tuple() as pattern):
                    filled.append(Filled(sink, pattern, value))
                case (Host(), *_) as hosts:
                    cleared.append(Cleared(cast("tuple[Host, ...]", hosts), value))
                case (Source(), *_) as sources:
                    spanning += cast("tuple[Source, ...]", sources)[:value]
        return Solution(recreations, bound, tuple(taken), tuple(cleared), tuple(filled), tuple(spanning))


def _leaving_of(about: object, groups: Mapping[int, Group]) -> Counter[Group]:
    """How many VMs of each group a column has leave."""
    match about:
        case (_Unit(), Option() as option):
            return Counter(dict(option.leaving))
        case (Host() as host, *_):
            return Counter(groups[source.handle] for source in host.loose)
        case (Source() as source, *_):
            return Counter([groups[source.handle]])
    return Counter()


def _pods_of(about: object) -> int:
    """How many pods a column restarts."""
    match about:
        case (_Unit(), Option() as option):
            return option.pods
        case (Host() as host, *_):
            return sum(source.pods for source in host.loose)
        case (Source() as source, *_):
            return source.pods
    return 0


class Answer(Struct, frozen=True):
    """What the solver says: whole numbers by column (None: nothing found), and what cannot be undercut."""

    values: Sequence[int] | None
    objective: float
    bound: int
    finished: bool


def solve(
    columns: Sequence[Column], lower: Sequence[float], upper: Sequence[float], limits: Limits
) -> Answer:
    """Ask HiGHS, with one thread and a fixed seed."""
    if not columns:
        return Answer(None, 0.0, 0, finished=True)
    import highspy
    import numpy as np

    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(columns), len(lower)
    lp.col_cost_ = np.array([column.cost for column in columns], dtype=np.double)
    lp.col_lower_ = np.zeros(len(columns))
    lp.col_upper_ = np.array([column.upper for column in columns], dtype=np.double)
    lp.row_lower_ = np.array(lower, dtype=np.double)
    lp.row_upper_ = np.array(upper, dtype=np.double)
    starts = np.zeros(len(columns) + 1, dtype=np.int32)
    starts[1:] = np.cumsum([len(column.entries) for column in columns])
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = starts
    lp.a_matrix_.index_ = np.array([row for column in columns for row in column.entries], dtype=np.int32)
    lp.a_matrix_.value_ = np.array(
        [value for column in columns for value in column.entries.values()], dtype=np.double
    )
    lp.integrality_ = [highspy.HighsVarType.kInteger] * len(columns)
    highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    options: dict[str, Any] = {
        "output_flag": False,
        "threads": 1,
        "random_seed": 0,
        "mip_abs_gap": 0.999,
        "mip_rel_gap": 0.0,
        "mip_max_nodes": MOST_NODES,
    }
    if limits.seconds is not None:
        options["time_limit"] = max(limits.seconds, 0.1)
    for name, value in options.items():
        highs.setOptionValue(name, value)
    highs.passModel(lp)
    highs.run()
    status = highs.getModelStatus()
    info = highs.getInfo()
    if status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible):
        return Answer(None, 0.0, 0, finished=True)
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Answer(None, 0.0, _least(info.mip_dual_bound), finished=False)
    values = [round(value) for value in highs.getSolution().col_value]
    objective = round(info.objective_function_value)
    return Answer(values, objective, min(objective, _least(info.mip_dual_bound)), finished=True)


def _least(bound: float) -> int:
    """The whole number that a bound of the solver leaves; one that is not there yet is 0."""
    return max(ceil(bound - 1e-6), 0) if isfinite(bound) else 0
