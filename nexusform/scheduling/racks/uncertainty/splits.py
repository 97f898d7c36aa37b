"""Splits: how VMs whose NUMA cells nobody told may lie on their machine.

A split says what is left of each cell. It is legal if some assignment of those VMs to cells gives it within
every cell's bounds. Splits are enumerated, not assignments: VM after VM, each split once, and splits that
differ by swapping cells of which the other VMs leave the same are one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import combinations
from typing import Final, NamedTuple, TypeAlias, TypeVar

from nexusform.scheduling.racks.layout import Room, Share
from nexusform.scheduling.racks.vms import Interval, VmSku, gib

# What is left of each cell: vCPUs and GiB.
Left: TypeAlias = tuple[tuple[int, int], ...]
Cells: TypeAlias = tuple[int, ...]


class Roomiest(NamedTuple):
    """The way in which each machine has most room for VMs of the first SKU, of all such of the next, ..."""

    skus: tuple[VmSku, ...]


# The two ways in which VMs may lie that are no draw: as the platform's own rule packs them in the order of
# their creation, each in the cells with the least memory left; and each in those with the most.
PACKED: Final = "packed"
SPREAD: Final = "spread"

# How VMs whose cells nobody told are taken to lie: a number draws, all else follows a rule.
Way: TypeAlias = int | str | Roomiest


# What is said of a plan that is shown in a way that is no draw.
ROOMIEST: Final = "roomiest"
RULES: Final = {
    PACKED: "where VMs lie packed, as the platform's own rule packs them",
    SPREAD: "where VMs lie spread over their cells",
    ROOMIEST: "where VMs leave each machine most room for what comes",
}


def name_of(way: Way) -> int | str:
    """A draw's number, or what a rule is called."""
    return ROOMIEST if isinstance(way, Roomiest) else way


EXACT_CELLS: Final = 2  # machines of so many cells are always enumerated
MOST_SPLITS: Final = 10_000
MOST_TRANSITIONS: Final = 200_000
MOST_TRIES: Final = 10_000

_Cell = TypeVar("_Cell", bound=tuple[int, ...])


class Splits:
    """The legal splits of one machine. `shares` are those of its VMs without known cells.

    `left` has what each split leaves, in a fixed order; empty: no split is legal. `known` is False where
    there are too many to be enumerated; then `left` is empty, too.
    """

    __slots__ = ("_alike", "_base", "_layers", "known", "left", "shares")

    def __init__(self, base: Left, shares: tuple[Share, ...]) -> None:
        """`base` is what the VMs with known cells leave."""
        self.shares = shares
        self._base = base
        self._alike = _alike(base)
        self._layers = list(self._enumerate())
        self.known = len(self._layers) == len(shares) + 1
        self.left: tuple[Left, ...] = tuple(sorted(self._layers[-1])) if self.known else ()

    def _enumerate(self) -> Iterator[_Layer]:
        """One layer more than VMs; ends early where there are too many splits."""
        layer: _Layer = {self._base: (self._base, ())}
        yield layer
        bounded = len(self._base) > EXACT_CELLS
        transitions = 0
        for share in self.shares:
            following: _Layer = {}
            for left in layer:
                for cells in self._choices(left, share):
                    following.setdefault(self._in_order(_taken(left, share, cells)), (left, cells))
                    transitions += 1
                    if bounded and (len(following) > MOST_SPLITS or transitions > MOST_TRANSITIONS):
                        return
            layer = following
            yield layer

    def _choices(self, left: Left, share: Share) -> Iterator[Cells]:
        """The cells that can take a share; of those that are alike in every way the first."""
        kinds: dict[tuple[tuple[int, int], tuple[int, int]], list[int]] = {}
        for cell, (cpus, memory) in enumerate(left):
            if cpus >= share.cpus and memory >= share.memory:
                kinds.setdefault((self._base[cell], left[cell]), []).append(cell)
        return _of_kinds(list(kinds.values()), share.cells)

    def _in_order(self, cells: list[_Cell]) -> tuple[_Cell, ...]:
        """Cells of which the others leave the same in order of what is left of them."""
        for places in self._alike:
            for cell, free in zip(places, sorted([cells[cell] for cell in places]), strict=True):
                cells[cell] = free
        return tuple(cells)

    def drawn(self, text: str, names: Callable[[], Sequence[str]]) -> tuple[Cells, ...] | None:
        """The cells of each share in the split whose digest is lowest; None when there is no split.

        `text` begins what is digested. `names` gives those of the VMs, as `shares` has them; it is asked only
        where there are too many splits to be enumerated.
        """
        if not self.known:
            return _search_by_digests(self._base, self.shares, text, names()).cells()
        if not self.left:
            return None
        if len(self.left) == 1:
            return self._cells(self.left[0])
        return self._cells(min(self.left, key=lambda left: _digest(text + self._taken_text(left))))

    def leaving(self, left: Left) -> tuple[Cells, ...]:
        """The cells of each share in the split that leaves this; it is one of `left`."""
        return self._cells(left)

    def ordered(self, come: Sequence[int], *, packed: bool) -> tuple[Cells, ...] | None:
        """The cells of each share when they come in this order (numbers of `shares`), each in the cells with
        the least memory left, or else the most; a step back where one finds none. None when there is no
        split, or none was found.
        """
        if self.known and not self.left:
            return None
        found = _Search(self._base, self.shares, come, _by_memory(packed=packed)).cells()
        # Looking is bounded, and where splits are enumerated there is one.
        return self._cells(self.left[0]) if found is None and self.known else found

    def _taken_text(self, left: Left) -> str:
        """What a split takes of each cell: `12:56,36:168` are vCPUs and GiB."""
        cells = zip(self._base, left, strict=True)
        return ",".join(f"{has[0] - free[0]}:{gib(has[1] - free[1])}" for has, free in cells)

    def _cells(self, left: Left) -> tuple[Cells, ...]:
        """The cells of each share in one assignment that gives this split."""
        steps: list[Cells] = []
        for layer in reversed(self._layers[1:]):
            left, cells = layer[left]
            steps.append(cells)
        # Cells were swapped on the way, so that equal splits meet: the same steps again, with their numbers.
        numbered = [(*free, number) for number, free in enumerate(self._base)]
        chosen: list[Cells] = []
        for share, cells in zip(self.shares, reversed(steps), strict=True):
            chosen.append(tuple(sorted(numbered[cell][2] for cell in cells)))
            for cell in cells:
                cpus, memory, number = numbered[cell]
                numbered[cell] = (cpus - share.cpus, memory - share.memory, number)
            numbered = list(self._in_order(numbered))
        return tuple(chosen)


# A layer: the splits of the first VMs, each with one that it came from and the cells taken last.
_Layer: TypeAlias = dict[Left, tuple[Left, Cells]]


def _alike(base: Left) -> list[list[int]]:
    """The cells of which the same is left, where there are two or more."""
    places: dict[tuple[int, int], list[int]] = {}
    for cell, has in enumerate(base):
        places.setdefault(has, []).append(cell)
    return [cells for cells in places.values() if len(cells) > 1]


def _of_kinds(kinds: Sequence[Sequence[int]], count: int) -> Iterator[Cells]:
    """So many cells, the first of each kind: every way once."""
    if count == 0:
        yield ()
        return
    if sum(map(len, kinds)) < count:
        return
    first_kind, other_kinds = kinds[0], kinds[1:]
    for number in range(min(count, len(first_kind)), -1, -1):
        for other_cells in _of_kinds(other_kinds, count - number):
            yield (*first_kind[:number], *other_cells)


def _taken(left: Left, share: Share, cells: Cells) -> list[tuple[int, int]]:
    """What is left of each cell once a share was taken of these."""
    remaining = list(left)
    for cell in cells:
        cpus, memory = remaining[cell]
        remaining[cell] = (cpus - share.cpus, memory - share.memory)
    return remaining


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=8).digest()


# The cells of a machine, as they are left, in the order in which a VM tries them.
_Ranked: TypeAlias = Callable[[Left], Sequence[int]]


def _by_memory(*, packed: bool) -> _Ranked:
    """The cells with the least memory left first, or else the last; the lowest number among equals."""
    sign = 1 if packed else -1
    return lambda left: sorted(range(len(left)), key=lambda cell: (sign * left[cell][1], cell))


def _search_by_digests(base: Left, shares: Sequence[Share], text: str, names: Sequence[str]) -> _Search:
    """VMs and cells in the order of their digests."""
    order = sorted(range(len(shares)), key=lambda vm: (_digest(f"{text}{names[vm]}"), vm))
    cells = sorted(range(len(base)), key=lambda cell: (_digest(f"{text}{cell}"), cell))
    return _Search(base, shares, order, lambda _left: cells)


class _Search:
    """One legal assignment, looked for VM by VM, and a step back where a VM fits nowhere."""

    def __init__(self, base: Left, shares: Sequence[Share], order: Sequence[int], ranked: _Ranked) -> None:
        self._shares = shares
        self._order = order
        self._ranked = ranked
        self._base = base
        self._tries = 0

    def cells(self) -> tuple[Cells, ...] | None:
        """The cells of each share; None when none was found within MOST_TRIES steps."""
        chosen: dict[int, Cells] = {}
        # Per VM placed so far: what was left before it, and the choices that are still to be tried.
        open_choices: list[tuple[Left, Iterator[Cells]]] = [(self._base, self._choices(self._base, 0))]
        while open_choices:
            left, choices = open_choices[-1]
            cells = next(choices, None)
            self._tries += 1
            if self._tries > MOST_TRIES:
                return None
            if cells is None:
                open_choices.pop()
                continue
            at = len(open_choices) - 1
            vm = self._order[at]
            chosen[vm] = tuple(sorted(cells))
            if at + 1 == len(self._order):
                return tuple(chosen[number] for number in range(len(self._order)))
            after = tuple(_taken(left, self._shares[vm], cells))
            open_choices.append((after, self._choices(after, at + 1)))
        return None

    def _choices(self, left: Left, at: int) -> Iterator[Cells]:
        share = self._shares[self._order[at]]
        fitting = [
            cell
            for cell in self._ranked(left)
            if left[cell][0] >= share.cpus and left[cell][1] >= share.memory
        ]
        return combinations(fitting, share.cells)


def bounds(room: Room, shares: Sequence[Share], share: Share) -> Interval:
    """How often a share fits beside `shares` in unknown cells, at least and at most: for too many splits.

    `room` is what the VMs with known cells leave, and its disk what all leave. Sound, not exact: at most as
    if those VMs took from no cell more than from the machine as a whole; at least as if each kept as many
    away as its size can.
    """
    cells = list(zip(room.cpus, room.memory, strict=True))
    without = sum(_times(share, cpus, memory) for cpus, memory in cells)
    without_them = without - sum(_parts_kept_away(other, share) for other in shares)
    cpus = sum(room.cpus) - sum(other.cpus * other.cells for other in shares)
    memory = sum(room.memory) - sum(other.memory * other.cells for other in shares)
    by_disk = room.disk // share.disk if share.disk else without
    as_a_whole = _times(share, max(cpus, 0), max(memory, 0))
    most = min(without // share.cells, as_a_whole // share.cells, by_disk)
    least = min(max(without_them, 0), most) if share.cells == 1 else 0
    return Interval(least, most)


def _times(share: Share, cpus: int, memory: int) -> int:
    """How often one cell's part of a share fits."""
    return min(cpus // max(share.cpus, 1), memory // max(share.memory, 1))


def kept_away(other: Share, share: Share) -> int:
    """How many VMs of a share one VM keeps away from a machine at most."""
    by_disk = -(-other.disk // share.disk) if share.disk else 0
    return max(_parts_kept_away(other, share), by_disk)


def _parts_kept_away(other: Share, share: Share) -> int:
    """How many VMs of a share one VM's cells keep away at most, each part of it in a cell of its own."""
    by_cpus, by_memory = -(-other.cpus // max(share.cpus, 1)), -(-other.memory // max(share.memory, 1))
    return other.cells * max(by_cpus, by_memory)
