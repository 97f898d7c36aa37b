"""Rankings: the machines of a rack, the racks of a site, in the order of the profile's keys.

A ranking is an ascending list of whole numbers `key << INDEX_BITS | item`; a lower key is
preferred. It is neutral: its keys are those of a demand of a cluster without a VM on the site, so
all pools share it. A machine or rack with changed VMs is outdated, and ranked again at the next
use. During the placement of one pool (a session), items with VMs of its cluster or pool may have
other figures (rule.KeyDependence). They wait in a heap of the session under the pool's own keys.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from nexusform.scheduling.racks import demand_rules
from nexusform.scheduling.racks.demand_rules import OpenFilter, PackedSortKeys
from nexusform.scheduling.racks.layout import Figure, VmCounts
from nexusform.scheduling.racks.ledger import Ledger
from nexusform.scheduling.racks.rule import DemandFilter
from nexusform.scheduling.racks.vms import Demand, PlacementConstraints, RackSpread

INDEX_BITS = 28
INDEX_MASK = (1 << INDEX_BITS) - 1
# In place of a neutral key: the front is, at least in part, from the session's own heap.
OWN = -1
# So many entries are inserted one by one; more are sorted in.
FEW = 8


class NeutralRanking:
    """Machines or racks ranked by neutral keys: as if the cluster of the demand had no VMs."""

    def __init__(self, items: Sequence[int], key_of: Figure) -> None:
        """Rank the items, numbers of racks or machines, by their keys: the lowest first."""
        self._items = frozenset(items)
        self._key_of = key_of
        self._entries = sorted(map(self.compute_entry, items))
        # Keys of these items may have changed.
        self.outdated: set[int] = set()

    def compute_entry(self, item: int) -> int:
        """Return the sort entry of an item: its key in the upper bits, then the item itself."""
        return self._key_of(item) << INDEX_BITS | item

    def list_entries(self) -> list[int]:
        """Return the entries of all items, lowest first.

        Outdated items are ranked again before.
        """
        if self.outdated:
            # Only its own machines or racks.
            changed = self.outdated & self._items
            self.outdated = set()
            # An entry has the item in its lowest bits (INDEX_MASK), below its key.
            self._entries = [entry for entry in self._entries if entry & INDEX_MASK not in changed]
            self._entries += map(self.compute_entry, changed)
            self._entries.sort()
        return self._entries


# Function that selects, from some entries, the items that fit the demand now.
Passing = Callable[[list[int]], list[int]]


class NeutralKeys(NamedTuple):
    """Keys to rank racks and machines for a demand, as if its cluster had no VMs."""

    rack_keys: PackedSortKeys
    machine_keys: PackedSortKeys


class CandidateQueues:
    """Rankings of one scheduler, each created at first use.

    There is one of its racks for each set of rack filter inputs and active keys, and one of each
    rack's open machines for each set of active keys. The full racks of each SKU are recorded, too.
    """

    def __init__(self, ledger: Ledger) -> None:
        """Start without rankings; all are created on demand from the figures of `ledger`."""
        self.ledger = ledger
        self._neutral_usage = ledger.get_neutral_usage()
        # By SKU (number), constraints.
        self._neutral_keys: dict[tuple[int, PlacementConstraints], NeutralKeys] = {}
        # By rack and active keys (bits: those with figures).
        self._machines: dict[tuple[int, int], NeutralRanking] = {}
        # Of machines: those of `_machines`.
        self._rankings_by_rack: dict[int, list[NeutralRanking]] = {}
        # By active keys and all that filters read of a demand.
        self._racks: dict[Hashable, NeutralRanking] = {}
        # By SKU number, extended by pool sessions.
        self.full_racks: defaultdict[int, set[int]] = defaultdict(set)

    def get_neutral_keys(self, demand: Demand, spread: RackSpread) -> NeutralKeys:
        """Return the ranking keys of a demand as if its cluster had no VMs.

        They depend on SKU and constraints only.
        """
        key = (self.ledger.site.get_shape(demand.sku).number, demand.constraints)
        keys = self._neutral_keys.get(key)
        if keys is None:
            profile = self.ledger.site.profile
            usage = self._neutral_usage
            keys = self._neutral_keys[key] = NeutralKeys(
                rack_keys=demand_rules.prepare_packed_sort_keys(
                    profile.rack_keys[spread], usage, demand
                ),
                machine_keys=demand_rules.prepare_packed_sort_keys(
                    profile.machine_keys, usage, demand
                ),
            )
        return keys

    def rank_racks(
        self, keys: NeutralKeys, demand: Demand, filters: Sequence[OpenFilter]
    ) -> NeutralRanking:
        """Rank the racks passing all `filters`, also full ones, by neutral keys.

        The keys are those of a demand whose cluster has no VMs. Demands with the same keys and
        filter input share a ranking.
        """
        # All that the filters read of the demand: with equal input they select the same racks.
        filter_input = tuple(
            (rule.name, rule.select_input(demand))
            for rule, _ in filters
            if isinstance(rule, DemandFilter)
        )
        cache_key = (keys.rack_keys.active_keys, filter_input)
        ranking = self._racks.get(cache_key)
        if ranking is None:
            passes = demand_rules.build_combined_check(
                [find_rejection for _, find_rejection in filters]
            )
            racks = range(len(self.ledger.site.rack_name))
            passing_racks = [rack for rack in racks if passes is None or passes(rack)]
            ranking = self._racks[cache_key] = NeutralRanking(passing_racks, keys.rack_keys.figure)
        return ranking

    def rank_machines(self, keys: NeutralKeys, rack: int) -> NeutralRanking:
        """Rank the open machines of a rack, also full ones, by neutral keys.

        The keys are those of a demand whose cluster has no VMs. Demands with the same keys in use
        share a ranking.
        """
        cache_key = rack, keys.machine_keys.active_keys
        ranking = self._machines.get(cache_key)
        if ranking is None:
            # Those not excluded from new VMs at all.
            machines = self.ledger.site.open_machines_by_rack[rack]
            ranking = self._machines[cache_key] = NeutralRanking(machines, keys.machine_keys.figure)
            # Changed machines are ranked again.
            self._rankings_by_rack.setdefault(rack, []).append(ranking)
        return ranking

    def mark_machine_changed(self, machine: int, *, capacity_freed: bool) -> None:
        """Record that the VMs of a machine changed.

        With `capacity_freed`, its rack no longer counts as full.
        """
        rack = self.ledger.site.rack_by_machine[machine]
        self.invalidate_machines(rack, (machine,))
        self.invalidate_racks((rack,))
        if capacity_freed:
            for full_racks in self.full_racks.values():
                full_racks.discard(rack)

    def invalidate_machines(
        self, rack: int, machines: Iterable[int], up_to_date: NeutralRanking | None = None
    ) -> None:
        """Mark machines with new VMs, to be ranked again.

        They are marked in all rankings of their rack except `up_to_date`.
        """
        for ranking in self._rankings_by_rack.get(rack, ()):
            if ranking is not up_to_date:
                ranking.outdated.update(machines)

    def invalidate_racks(
        self, racks: Iterable[int], up_to_date: NeutralRanking | None = None
    ) -> None:
        """Mark racks with new VMs, to be ranked again in all rankings except `up_to_date`."""
        for ranking in self._racks.values():
            if ranking is not up_to_date:
                ranking.outdated.update(racks)


class CandidateQueue:
    """Machines of a rack, or racks, in a session: `front` are those that tie for the next VM.

    `counted` has the items with own keys that may differ from the neutral ones, `key_of` gives the
    own keys. Items excluded by `passing` do not fit the demand until the session ends. Each item
    taken off `front` must be passed to `push` or to `reject`.
    """

    def __init__(
        self, ranking: NeutralRanking, key_of: Figure, counted: VmCounts, passing: Passing
    ) -> None:
        """Start with the items (machines or racks) in the order of their neutral keys.

        The keys are those of a demand whose cluster has no VMs. Items move to a heap of own keys,
        once VMs of the cluster or pool may give them another key.
        """
        self.ranking = ranking
        # The items tied for the next VM, all from one group of equal keys.
        self.front: list[int] = []
        self._entries = ranking.list_entries()
        # Start index of the group of `front` in `_entries`.
        self._first = 0
        # Its end index: the start of the next group.
        self._next = 0
        # Key of this group.
        self._key = OWN
        # Items of this group that were removed.
        self._removed: list[int] = []
        # Entries of earlier groups that do not fit the demand.
        self._skipped: list[int] = []
        # Heap of the items ranked by their own key, as `key << INDEX_BITS | item`.
        self._own: list[int] = []
        # Items without capacity, from the own heap or by `reject`.
        self._rejected: list[int] = []
        # Function that selects the items of entries that fit the demand.
        self._passing = passing
        self._key_of = key_of
        # Items with VMs of the cluster or pool have a key of their own.
        self._counted = counted

    def push(self, item: int) -> None:
        """Rank an item by its own current key.

        It has VMs of the demand's cluster or pool, or a new VM. Whether it fits the demand is
        checked once no other item has a lower key.
        """
        # The item leaves its group of equal neutral keys.
        if self._key != OWN:
            self._removed.append(item)
        heappush(self._own, self._key_of(item) << INDEX_BITS | item)

    def reject(self, item: int) -> None:
        """Remove an item tied for the next VM until the session ends.

        It has no capacity for the demand.
        """
        # The item leaves its group of equal neutral keys.
        if self._key != OWN:
            self._removed.append(item)
        self._rejected.append(item)

    def list_tied_items(self) -> list[int]:
        """Return the live list of the items tied for the next VM (those of the lowest key).

        The list is empty if none remains.
        """
        own_heap = self._own
        entries = self._entries
        while not self.front:
            # Take the next neutral group (keys as if the demand's cluster had no VMs), unless an
            # own key is lower. With INDEX_MASK, the lowest own entry is at the end of its key, so
            # the neutral group is first at equal keys.
            if self._next < len(entries) and (
                not own_heap or entries[self._next] <= own_heap[0] | INDEX_MASK
            ):
                self._take_neutral_group()
            elif own_heap:
                self._take_own_group()
            else:
                break
        return self.front

    def _take_neutral_group(self) -> None:
        """Fill the front (items tied for the next VM) with the next group of equal neutral keys.

        These keys are computed as if the demand's cluster had no VMs. An item with VMs of the
        cluster or pool (`counted`) may have another key of its own, so it moves to the heap of own
        keys instead. An entry is `key << INDEX_BITS | item`, so the entries of one key are
        neighbours in the sorted list.
        """
        if self._key != OWN:
            self._finish_group()
        entries = self._entries
        first = self._next
        # The lowest entry of a higher key.
        next_group = (entries[first] | INDEX_MASK) + 1
        end = first + 1
        # More than one entry in the group.
        if end < len(entries) and entries[end] < next_group:
            end = bisect_left(entries, next_group, end)
        self._first = first
        self._next = end
        self._key = entries[first] >> INDEX_BITS
        self.front = self._passing(entries[first:end])
        if self._counted and not self._counted.keys().isdisjoint(self.front):
            passing = self.front
            self.front = []
            for item in passing:
                if item in self._counted:
                    self.push(item)
                else:
                    self.front.append(item)
        if self._own and self.front and self._own[0] < next_group:
            # Items of the same key wait in the own heap: they join the front, and its items leave
            # the neutral group.
            self._removed += self.front
            self._take_own_group()

    def _finish_group(self) -> None:
        """Close the neutral group of the front.

        Skip its remaining items: as they were not removed, they do not fit.
        """
        removed = self._removed
        if len(removed) < self._next - self._first:
            removed_items = set(removed)
            group = self._entries[self._first : self._next]
            self._skipped += [entry for entry in group if entry & INDEX_MASK not in removed_items]
        if removed:
            self._removed = []
        self._first = self._next
        # The front has no neutral group.
        self._key = OWN

    def _take_own_group(self) -> None:
        """Add the first group of equal keys in the heap of own keys to the front.

        An entry of the heap is `key << INDEX_BITS | item`. Items that do not fit the demand
        now are rejected.
        """
        if self._key != OWN:
            self._finish_group()
        own_heap = self._own
        # The lowest entry of a higher key.
        next_group = (own_heap[0] | INDEX_MASK) + 1
        entries = []
        while own_heap and own_heap[0] < next_group:
            entries.append(heappop(own_heap))
        passing = self._passing(entries)
        if len(passing) < len(entries):
            items = [entry & INDEX_MASK for entry in entries]
            self._rejected += [item for item in items if item not in passing]
        self.front += passing
        # In site order: a sample indexes the front.
        self.front.sort()

    def release_items(self) -> list[int]:
        """Put all items back into the neutral ranking, and return those with possibly changed VMs.

        They are ranked again: the items in the own heap, the rejected ones, and a front from
        the own heap.
        """
        entries = self._entries
        changed = [entry & INDEX_MASK for entry in self._own]
        changed += self._rejected
        # The front is from the own heap.
        if self._key == OWN:
            changed += self.front
        # The group of the front stays in place, less its removed items. Of earlier groups, the
        # skipped items remain.
        for item in self._removed:
            del entries[bisect_left(entries, self._key << INDEX_BITS | item, self._first)]
        entries[: self._first] = self._skipped
        # There are too many to insert one by one.
        if len(changed) > FEW:
            entries += map(self.ranking.compute_entry, changed)
            entries.sort()
        else:
            for item in changed:
                insort(entries, self.ranking.compute_entry(item))
        return changed
