"""Rankings: the machines of a rack, the racks of a site, in the order of the profile's keys.

A ranking is an ascending list of whole numbers `key << INDEX_BITS | item`; a lower key is preferred.
It is everybody's: its keys are those of a demand whose cluster has no VM on the site, so that all pools
share it. A machine or rack whose VMs changed is doubtful, and ranked anew when the ranking is next used.

While one pool is being placed (a session), what holds VMs of its cluster or pool, so that its own figures
may differ (rule.Differs), waits in a heap of the session under the pool's own keys.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from nexusform.scheduling.racks import opened, profile
from nexusform.scheduling.racks.layout import Counts, Figure
from nexusform.scheduling.racks.ledger import Ledger
from nexusform.scheduling.racks.opened import OpenFilter, Packed
from nexusform.scheduling.racks.site import Shape
from nexusform.scheduling.racks.vms import Demand, RackSpread, Terms

INDEX_BITS = 28
INDEX_MASK = (1 << INDEX_BITS) - 1
OWN = -1  # the front came, at least in part, from the session's own heap
FEW = 8  # so many entries are inserted one by one; more are sorted in


class Ranking:
    """Everybody's ranking of some machines or racks."""

    __slots__ = ("_entries", "_items", "_key_of", "doubtful")

    def __init__(self, items: Sequence[int], key_of: Figure) -> None:
        self._items = frozenset(items)
        self._key_of = key_of
        self._entries = sorted(map(self.entry, items))
        self.doubtful: set[int] = set()

    def entry(self, item: int) -> int:
        """Where the item stands now."""
        return self._key_of(item) << INDEX_BITS | item

    def entries(self) -> list[int]:
        """All of them, right as of now; a session takes them off the front and gives them back."""
        if self.doubtful:
            doubtful = self.doubtful & self._items
            self.doubtful = set()
            self._entries = [entry for entry in self._entries if entry & INDEX_MASK not in doubtful]
            self._entries += map(self.entry, doubtful)
            self._entries.sort()
        return self._entries


# Of some entries, the items that take the demand now.
Passing = Callable[[list[int]], list[int]]


class Everybodys(NamedTuple):
    """Everybody's keys of racks and machines."""

    of_racks: Packed
    of_machines: Packed


class Queues:
    """The rankings of one scheduler, each made when first asked for.

    One of its racks for whatever a demand says of racks and every set of keys that bear on it; one of
    each rack's open machines for every such set of keys. Which racks are full for a SKU is noted beside.
    """

    __slots__ = ("_everybody", "_everybodys", "_full", "_machines", "_machines_of", "_racks", "ledger")

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._everybody = ledger.everybodys_usage()
        self._everybodys: dict[tuple[int, Terms], Everybodys] = {}
        self._machines: dict[tuple[int, int], Ranking] = {}
        self._machines_of: dict[int, list[Ranking]] = {}
        self._racks: dict[Hashable, Ranking] = {}
        self._full: dict[int, set[int]] = {}

    def everybodys(self, demand: Demand, spread: RackSpread) -> Everybodys:
        """Everybody's keys, as far as they bear on the demand: the same for all of its SKU and terms."""
        key = (self.ledger.site.shape(demand.sku).number, demand.terms)
        keys = self._everybodys.get(key)
        if keys is None:
            keys = self._everybodys[key] = Everybodys(
                opened.pack(profile.RACK_KEYS[spread], self._everybody, demand),
                opened.pack(profile.MACHINE_KEYS, self._everybody, demand),
            )
        return keys

    def racks(self, keys: Everybodys, demand: Demand, filters: Sequence[OpenFilter]) -> Ranking:
        """The racks that these filters leave, full or not, by everybody's keys."""
        name = (keys.of_racks.which, opened.what_is_read(filters, demand) if filters else ())
        ranking = self._racks.get(name)
        if ranking is None:
            passes = opened.passes_all([refuse for _, refuse in filters])
            racks = range(len(self.ledger.site.rack_name))
            passing_racks = [rack for rack in racks if passes is None or passes(rack)]
            ranking = self._racks[name] = Ranking(passing_racks, keys.of_racks.figure)
        return ranking

    def machines(self, keys: Everybodys, rack: int) -> Ranking:
        """The open machines of a rack, full or not, by everybody's keys."""
        name = rack, keys.of_machines.which
        ranking = self._machines.get(name)
        if ranking is None:
            machines = self.ledger.site.open_in[rack]
            ranking = self._machines[name] = Ranking(machines, keys.of_machines.figure)
            self._machines_of.setdefault(rack, []).append(ranking)
        return ranking

    def full(self, shape: Shape) -> set[int]:
        """The racks that were found to have no room for the SKU, to be added to."""
        return self._full.setdefault(shape.number, set())

    def changed(self, machine: int, *, room_again: bool) -> None:
        """A VM came to the machine or left it (then its rack may have room again)."""
        rack = self.ledger.site.rack_of[machine]
        self.doubt_machines(rack, (machine,))
        self.doubt_racks((rack,))
        if room_again:
            for full in self._full.values():
                full.discard(rack)

    def doubt_machines(self, rack: int, machines: Iterable[int], but: Ranking | None = None) -> None:
        """VMs came to these machines; the ranking `but` knows it already."""
        for ranking in self._machines_of.get(rack, ()):
            if ranking is not but:
                ranking.doubtful.update(machines)

    def doubt_racks(self, racks: Iterable[int], but: Ranking | None = None) -> None:
        """VMs came to these racks; the ranking `but` knows it already."""
        for ranking in self._racks.values():
            if ranking is not but:
                ranking.doubtful.update(racks)


class Front:
    """Machines of a rack, or racks, in a session: `front` are those that tie for the next VM.

    `counted` has those whose own keys may differ from everybody's, `key_of` gives the own keys. Whoever
    `passing` leaves out does not take the demand until the session ends. Who is taken off `front` must be
    given to `offer` or to `refuse`.
    """

    __slots__ = (
        "_counted",
        "_entries",
        "_first",
        "_gone",
        "_key",
        "_key_of",
        "_own",
        "_passing",
        "_refused",
        "_skipped",
        "_start",
        "front",
        "ranking",
    )

    def __init__(self, ranking: Ranking, key_of: Figure, counted: Counts, passing: Passing) -> None:
        self.ranking = ranking
        self.front: list[int] = []
        self._entries = ranking.entries()
        self._first = 0  # where the group begins that `front` was taken from
        self._start = 0  # and where it ends: the next group
        self._key = OWN  # of that group
        self._gone: list[int] = []  # who of that group left it
        self._skipped: list[int] = []  # entries of the groups before it that do not take the demand
        self._own: list[int] = []
        self._refused: list[int] = []  # off the own heap, or by `refuse`
        self._passing = passing
        self._key_of = key_of
        self._counted = counted

    def offer(self, item: int) -> None:
        """Rank an item that holds VMs of the demand's cluster or pool, or that has just got one.

        Whether it still takes the demand is looked at when its turn comes.
        """
        if self._key != OWN:
            self._gone.append(item)
        heappush(self._own, self._key_of(item) << INDEX_BITS | item)

    def refuse(self, item: int) -> None:
        """An item that was taken off the front does not take the demand after all."""
        if self._key != OWN:
            self._gone.append(item)
        self._refused.append(item)

    def refill(self) -> list[int]:
        """Those that tie for the next VM; empty when none is left."""
        own_heap, entries = self._own, self._entries
        while not self.front:
            if self._start < len(entries) and (
                not own_heap or entries[self._start] <= own_heap[0] | INDEX_MASK
            ):
                self._take_everybodys()
            elif own_heap:
                self._take_own()
            else:
                break
        return self.front

    def _take_everybodys(self) -> None:
        """Take the next group of equal keys; those that are counted are offered under their own."""
        if self._key != OWN:
            self._leave_group()
        entries, first = self._entries, self._start
        next_group = (entries[first] | INDEX_MASK) + 1  # the lowest entry of a higher key
        end = first + 1
        if end < len(entries) and entries[end] < next_group:
            end = bisect_left(entries, next_group, end)
        self._first, self._start, self._key = first, end, entries[first] >> INDEX_BITS
        self.front = self._passing(entries[first:end])
        if self._counted and not self._counted.keys().isdisjoint(self.front):
            passing, self.front = self.front, []
            for item in passing:
                if item in self._counted:
                    self.offer(item)
                else:
                    self.front.append(item)
        if self._own and self.front and self._own[0] < next_group:
            self._gone += self.front
            self._take_own()

    def _leave_group(self) -> None:
        """Nothing of the group is in the front any more: what did not go was skipped."""
        gone = self._gone
        if len(gone) < self._start - self._first:
            gone_ones = set(gone)
            group = self._entries[self._first : self._start]
            self._skipped += [entry for entry in group if entry & INDEX_MASK not in gone_ones]
        if gone:
            self._gone = []
        self._first = self._start
        self._key = OWN

    def _take_own(self) -> None:
        """Take the first group of equal keys off the own heap, each item once."""
        if self._key != OWN:
            self._leave_group()
        own_heap = self._own
        next_group = (own_heap[0] | INDEX_MASK) + 1
        entries = []
        while own_heap and own_heap[0] < next_group:
            entries.append(heappop(own_heap))
        passing = self._passing(entries)
        if len(passing) < len(entries):
            items = [entry & INDEX_MASK for entry in entries]
            self._refused += [item for item in items if item not in passing]
        self.front += passing

    def give_back(self) -> list[int]:
        """The session ends: all are ranked with the others again. Gives those whose VMs may have changed."""
        entries = self._entries
        changed = [entry & INDEX_MASK for entry in self._own]
        changed += self._refused
        if self._key == OWN:
            changed += self.front
        # The group that the front is from stays where it is, but for who left it.
        for item in self._gone:
            del entries[bisect_left(entries, self._key << INDEX_BITS | item, self._first)]
        entries[: self._first] = self._skipped
        if len(changed) > FEW:
            entries += map(self.ranking.entry, changed)
            entries.sort()
        else:
            for item in changed:
                insort(entries, self.ranking.entry(item))
        return changed
