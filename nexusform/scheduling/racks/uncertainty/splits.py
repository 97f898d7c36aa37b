"""Splits: possible assignments of VMs in unknown NUMA cells to the cells of their machine.

A split gives the free resources of each cell. It is legal if some assignment of those VMs to cells
gives it within every cell's bounds. Splits are enumerated, not assignments: VM after VM, each split
once. A swap of cells with equal resources gives the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import combinations
from typing import Final, NamedTuple, TypeAlias, TypeVar

from nexusform.scheduling.racks.layout import FreeCapacity, Share
from nexusform.scheduling.racks.vms import Interval, VmSku, convert_to_gib

# Free vCPUs and MiB of each cell.
FreeCells: TypeAlias = tuple[tuple[int, int], ...]
Cells: TypeAlias = tuple[int, ...]


class LargestSplit(NamedTuple):
    """Split of each machine with most capacity for VMs of the first SKU, then of the next, ..."""

    skus: tuple[VmSku, ...]


# Two split rules that are no samples. PACKED: as Azure packs VMs in order of creation, in the cells
# with the least memory left. SPREAD: in the cells with the most memory left.
PACKED: Final = "packed"
SPREAD: Final = "spread"

# Assumed cells of VMs on unknown cells: a number selects a sample, all else is a rule.
SplitChoice: TypeAlias = int | str | LargestSplit


# Descriptions of the split rules in plan output.
ROOMIEST: Final = "roomiest"
RULE_DESCRIPTIONS: Final = {
    PACKED: "with VMs packed as Azure packs them",
    SPREAD: "with VMs spread over their cells",
    ROOMIEST: "with the most capacity left on each machine",
}


def format_split_choice(choice: SplitChoice) -> int | str:
    """Return a choice for a document.

    It is the number of a sample, or ROOMIEST for the split with most capacity.
    """
    return ROOMIEST if isinstance(choice, LargestSplit) else choice


# Machines of so many cells are always enumerated.
EXACT_CELLS: Final = 2
MAX_SPLITS: Final = 10_000
MAX_TRANSITIONS: Final = 200_000
MAX_TRIES: Final = 10_000
_DIGEST_BYTES: Final = 8

_Cell = TypeVar("_Cell", bound=tuple[int, ...])


class CellSplits:
    """Legal splits of one machine.

    `shares` are those of its VMs in unknown cells. `legal_splits` has the free cells of each split,
    in a fixed order; empty: no split is legal. `is_known` is False if there are too many to
    enumerate; then `legal_splits` is empty, too.
    """

    def __init__(self, base: FreeCells, shares: tuple[Share, ...]) -> None:
        """Enumerate the splits (assignments to cells) of VMs with `shares`.

        `base` has the cells left by other VMs.
        """
        self.shares = shares
        self._base = base
        cells_by_capacity: dict[tuple[int, int], list[int]] = {}
        for cell, free_cell in enumerate(base):
            cells_by_capacity.setdefault(free_cell, []).append(cell)
        self._cells_by_split: dict[FreeCells, tuple[Cells, ...]] = {}
        self._equal_cells = [cells for cells in cells_by_capacity.values() if len(cells) > 1]
        # The splits of the first 0, 1, 2 ... VMs.
        self._layers = list(self._enumerate())
        # False: there are too many splits to enumerate.
        self.is_known = len(self._layers) == len(shares) + 1
        self.legal_splits: tuple[FreeCells, ...] = (
            tuple(sorted(self._layers[-1])) if self.is_known else ()
        )

    def _enumerate(self) -> Iterator[_Layer]:
        """Yield the splits of no VM, of the first VM, of the first two, and so on.

        End early if there are too many. A layer has all splits of as many VMs. Each split has its
        predecessor (without the last VM) and the cells of the last VM, so an assignment can be read
        backwards from any split.
        """
        layer: _Layer = {self._base: (self._base, ())}
        yield layer
        # Smaller machines have few splits.
        is_bounded = len(self._base) > EXACT_CELLS
        transitions = 0
        for share in self.shares:
            following: _Layer = {}
            for split in layer:
                for cells in self._list_choices(split, share):
                    next_split = self._sort_equal_cells(_take_share(split, share, cells))
                    # The first way to it.
                    following.setdefault(next_split, (split, cells))
                    transitions += 1
                    if is_bounded and (
                        len(following) > MAX_SPLITS or transitions > MAX_TRANSITIONS
                    ):
                        return
            layer = following
            yield layer

    def _list_choices(self, split: FreeCells, share: Share) -> Iterator[Cells]:
        """Yield the choices of cells for a share.

        `split` has their free capacity. Equal cells are taken in order.
        """
        # By capacity at first and now.
        equal_cells: dict[tuple[tuple[int, int], tuple[int, int]], list[int]] = {}
        for cell, (cpus, memory) in enumerate(split):
            if cpus >= share.cpus and memory >= share.memory:
                equal_cells.setdefault((self._base[cell], split[cell]), []).append(cell)
        return _iterate_cell_choices(list(equal_cells.values()), share.cells)

    def _sort_equal_cells(self, cells: list[_Cell]) -> tuple[_Cell, ...]:
        """Sort cells with equal base resources by their free resources.

        Such cells are interchangeable: of the splits that differ in their order, one is left.
        `cells` is changed.
        """
        for positions in self._equal_cells:
            sorted_resources = sorted([cells[position] for position in positions])
            for position, free in zip(positions, sorted_resources, strict=True):
                cells[position] = free
        return tuple(cells)

    def sample_cells(self, prefix: str, vm_names: Iterable[str]) -> tuple[Cells, ...] | None:
        """Return the cells of each share in a random split.

        Return None without a split, or if none is found. The random split is the one with the
        lowest digest of `prefix` (it has the number of the sample) and the split as text.
        `vm_names` are in the order of `shares`. They are read only if there are too many
        splits to enumerate.
        """
        # One assignment is searched, with VMs and cells in the order of their digests.
        if not self.is_known:
            vm_digests = [_compute_digest(f"{prefix}{name}") for name in vm_names]
            cell_digests = [_compute_digest(f"{prefix}{cell}") for cell in range(len(self._base))]
            vms = sorted(range(len(vm_digests)), key=vm_digests.__getitem__)
            cells = sorted(range(len(cell_digests)), key=cell_digests.__getitem__)
            return _SplitSearch(self._base, self.shares, vms, lambda _left: cells).find_cells()
        if not self.legal_splits:
            return None
        # The usual case needs no digest.
        if len(self.legal_splits) == 1:
            return self.find_split_cells(self.legal_splits[0])
        return self.find_split_cells(self.legal_splits[self._find_lowest_digest(prefix.encode())])

    def _find_lowest_digest(self, prefix: bytes) -> int:
        """Return the index of the split with the lowest digest of `prefix` and its text."""
        start = blake2b(prefix, digest_size=_DIGEST_BYTES)
        digests = []
        for text in self._split_texts:
            digest = start.copy()
            digest.update(text)
            digests.append(digest.digest())
        return digests.index(min(digests))

    @cached_property
    def _split_texts(self) -> tuple[bytes, ...]:
        """The resources taken by each legal split, as text."""
        return tuple(self._format_taken_resources(split).encode() for split in self.legal_splits)

    def assign_cells_in_order(
        self, order: Sequence[int], *, packed: bool
    ) -> tuple[Cells, ...] | None:
        """Return the cells of each VM if they arrive in this order (positions in `shares`).

        Return None if none was found. Each VM takes the cells with the least free memory if
        `packed`, else those with the most. If a later VM does not fit then, an earlier one takes
        other cells (backtracking).
        """
        if self.is_known and not self.legal_splits:
            return None
        sign = 1 if packed else -1
        search = _SplitSearch(
            self._base,
            self.shares,
            order,
            # By free memory.
            lambda split: sorted(range(len(split)), key=lambda cell: (sign * split[cell][1], cell)),
        )
        cells = search.find_cells()
        # The search is bounded: if it found none, take the first of the known
        # splits (possible assignments).
        return (
            self.find_split_cells(self.legal_splits[0])
            if cells is None and self.is_known
            else cells
        )

    def _format_taken_resources(self, split: FreeCells) -> str:
        """Format the resources taken by a split from each cell.

        `12:56,36:168` are vCPUs and GiB of two cells.
        """
        return ",".join(
            f"{base_cpus - free_cpus}:{convert_to_gib(base_memory - free_memory)}"
            for (base_cpus, base_memory), (free_cpus, free_memory) in zip(
                self._base, split, strict=True
            )
        )

    def find_split_cells(self, split: FreeCells) -> tuple[Cells, ...]:
        """Return the cells of each share in one assignment with the result `split`.

        `split` is one of `legal_splits`.
        """
        if split not in self._cells_by_split:
            self._cells_by_split[split] = self._trace_assignment(split)
        return self._cells_by_split[split]

    def _trace_assignment(self, split: FreeCells) -> tuple[Cells, ...]:
        """Trace a split through the layers: return the cells of each share."""
        # Cells of the last share first.
        steps: list[Cells] = []
        for layer in reversed(self._layers[1:]):
            split, cells = layer[split]
            steps.append(cells)
        # Each step sorted equal cells, so its `cells` are positions after sorting. Repeat the steps
        # with cell numbers.
        numbered = [(*free, number) for number, free in enumerate(self._base)]
        chosen: list[Cells] = []
        for share, cells in zip(self.shares, reversed(steps), strict=True):
            numbers = []
            for cell in cells:
                cpus, memory, number = numbered[cell]
                numbers.append(number)
                numbered[cell] = (cpus - share.cpus, memory - share.memory, number)
            chosen.append(tuple(sorted(numbers)))
            numbered = list(self._sort_equal_cells(numbered))
        return tuple(chosen)


# A layer: the splits of the first VMs, each with a predecessor and the cells taken last.
_Layer: TypeAlias = dict[FreeCells, tuple[FreeCells, Cells]]


def _iterate_cell_choices(kinds: Sequence[Sequence[int]], count: int) -> Iterator[Cells]:
    """Yield every choice of `count` cells, as far as they differ.

    `kinds` are lists of equal cells, and of equal cells the first ones are chosen. For
    example, kinds [[0, 1], [2]] and 2 cells give (0, 1) and (0, 2). Yield nothing if there are
    too few cells.
    """
    if count == 0:
        yield ()
        return
    if sum(map(len, kinds)) < count:
        return
    first_kind = kinds[0]
    other_kinds = kinds[1:]
    for number in range(min(count, len(first_kind)), -1, -1):
        for other_cells in _iterate_cell_choices(other_kinds, count - number):
            yield (*first_kind[:number], *other_cells)


def _take_share(split: FreeCells, share: Share, cells: Cells) -> list[tuple[int, int]]:
    """Return the free resources of each cell after a share was taken of these cells."""
    remaining = list(split)
    for cell in cells:
        cpus, memory = remaining[cell]
        remaining[cell] = (cpus - share.cpus, memory - share.memory)
    return remaining


def _compute_digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()


# Sorts the cells of a machine, given their free capacity: a VM tries the first one first.
_Ranked: TypeAlias = Callable[[FreeCells], Sequence[int]]


class _SplitSearch:
    """Search for one legal assignment, VM by VM in this `order`, with backtracking.

    `order` has positions in `shares`.
    """

    def __init__(
        self, base: FreeCells, shares: Sequence[Share], order: Sequence[int], ranked: _Ranked
    ) -> None:
        """Prepare a search.

        `order` are the positions of VMs in `shares`, `ranked` sorts the cells, preferred first.
        """
        self._shares = shares
        self._order = order
        self._ranked = ranked
        self._base = base
        self._tries = 0

    def find_cells(self) -> tuple[Cells, ...] | None:
        """Return the cells of each share, or None if none was found within MAX_TRIES steps."""
        chosen: dict[int, Cells] = {}
        # Per VM placed so far: the free cells before it, and the remaining choices.
        open_choices: list[tuple[FreeCells, Iterator[Cells]]] = [
            (self._base, self._list_choices(self._base, 0))
        ]
        while open_choices:
            split, choices = open_choices[-1]
            cells = next(choices, None)
            self._tries += 1
            if self._tries > MAX_TRIES:
                return None
            # No choice is left: change that of the VM before.
            if cells is None:
                open_choices.pop()
                continue
            index = len(open_choices) - 1
            # Its position in the shares.
            vm = self._order[index]
            chosen[vm] = tuple(sorted(cells))
            if index + 1 == len(self._order):
                return tuple(chosen[number] for number in range(len(self._order)))
            next_split = tuple(_take_share(split, self._shares[vm], cells))
            open_choices.append((next_split, self._list_choices(next_split, index + 1)))
        return None

    def _list_choices(self, split: FreeCells, index: int) -> Iterator[Cells]:
        """Yield possible cells of the VM at `index` of the order, preferred first.

        `split` is the free capacity of each cell.
        """
        share = self._shares[self._order[index]]
        fitting = []
        for cell in self._ranked(split):
            cpus, memory = split[cell]
            if cpus >= share.cpus and memory >= share.memory:
                fitting.append(cell)
        return combinations(fitting, share.cells)


def compute_bounds(capacity: FreeCapacity, shares: Sequence[Share], share: Share) -> Interval:
    """Return safe bounds of the number of VMs of one size that fit on a machine.

    `share` is the size. The machine has too many layouts to count. VMs with `shares` run there in
    unknown cells. `capacity` is left by all other VMs, and its disk by these too. A part is the
    share of a VM in one cell. For the maximum, VMs in unknown cells take from the machine as a
    whole, not from single cells. For the minimum, each blocks as many parts as it can.
    """
    cells = list(zip(capacity.cpus, capacity.memory, strict=True))
    maximum_parts = sum(_count_cell_parts(share, cpus, memory) for cpus, memory in cells)
    # Free CPUs of the machine; negative if short.
    cpus = sum(capacity.cpus)
    memory = sum(capacity.memory)
    for other in shares:
        cpus -= other.cpus * other.cells
        memory -= other.memory * other.cells
    parts_of_machine = _count_cell_parts(share, max(cpus, 0), max(memory, 0))
    maximum = min(maximum_parts, parts_of_machine) // share.cells
    if share.disk:
        maximum = min(maximum, capacity.disk // share.disk)
    if share.cells > 1:
        # All free parts may be in one cell, where such a VM has no capacity.
        return Interval(0, maximum)
    blocked_parts = sum(_count_blocked_parts(other, share) for other in shares)
    return Interval(min(max(maximum_parts - blocked_parts, 0), maximum), maximum)


def _count_cell_parts(share: Share, cpus: int, memory: int) -> int:
    """Count how often the part of a share in one cell fits into these free CPUs and memory."""
    return min(cpus // max(share.cpus, 1), memory // max(share.memory, 1))


def count_blocked_vms(other: Share, share: Share) -> int:
    """Return how many VMs of one size at most lose their capacity to one `other` VM.

    `share` is the size. They are on one machine.
    """
    by_disk = -(-other.disk // share.disk) if share.disk else 0  # rounded up
    return max(_count_blocked_parts(other, share), by_disk)


def _count_blocked_parts(other: Share, share: Share) -> int:
    """Return how many parts of VMs at most lose their capacity to one `other` VM in its cells.

    Shares in one cell.
    """
    # Rounded up: a part with only some of its vCPUs or memory taken is blocked, too.
    blocked_by_cpus = -(-other.cpus // max(share.cpus, 1))
    blocked_by_memory = -(-other.memory // max(share.memory, 1))
    return other.cells * max(blocked_by_cpus, blocked_by_memory)
