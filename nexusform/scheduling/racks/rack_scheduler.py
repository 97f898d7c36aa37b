"""Rack scheduler: VM locations on one site, and the location of the next VM."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import TYPE_CHECKING

from msgspec.structs import replace

from nexusform.scheduling.racks import demand_rules
from nexusform.scheduling.racks.candidate_rankings import CandidateQueues
from nexusform.scheduling.racks.layout import UNKNOWN_CELLS, VmCounts
from nexusform.scheduling.racks.ledger import Ledger, VmRecord
from nexusform.scheduling.racks.profile import SchedulerProfile
from nexusform.scheduling.racks.rule import CountFilter, DemandFilter, Filter
from nexusform.scheduling.racks.session import NOWHERE, PoolPlacementSession
from nexusform.scheduling.racks.site import CELLS_BITS, CELLS_MASK, MACHINE_MASK, SiteTables
from nexusform.scheduling.racks.vms import (
    DEFAULT_SEED,
    Demand,
    Interval,
    Machine,
    NoFitReason,
    Placement,
    RackSpread,
    ScheduledVm,
    VmName,
    VmSku,
    sum_count_intervals,
)

if TYPE_CHECKING:
    from nexusform.scheduling.racks.explanation import (
        DecisionExplanation,
        MachineRanking,
        TiedMachines,
    )
    from nexusform.scheduling.racks.uncertainty.splits import SplitChoice


class RackScheduler:
    """Scheduler of VMs on the machines of one site, one VM at a time.

    It follows the rules of racks/profile.py.

    Machine names are unique. VMs get handles (numbers) in the order of their addition; a copy knows
    the handles of its original. Schedulers with equal calls return equal results. The NUMA cells of
    existing VMs may be unknown. Placement and explanation then use one split (possible assignment
    of these VMs to cells) of each such machine, selected by `split_choice` (splits.py); counts
    cover all splits.
    """

    def __init__(
        self,
        machines: Sequence[Machine],
        spread: RackSpread = RackSpread.POOL,
        seed: int = DEFAULT_SEED,
        *,
        is_sample: bool = False,
        split_choice: SplitChoice = 0,
        ledger: Ledger | None = None,
        profile: SchedulerProfile | None = None,
    ) -> None:
        """Create a scheduler without VMs, or for those in `ledger`.

        The default placement rule (`profile`) is Nexus.
        """
        self.spread = spread
        # Of tie-breaks, the number of the sample if `is_sample`.
        self.seed = seed
        self.is_sample = is_sample
        # It selects the assumed cells of VMs in unknown NUMA cells.
        self.split_choice = split_choice
        # A copy passes its ledger, and with it the site.
        self._ledger = Ledger(SiteTables(machines, profile)) if ledger is None else ledger
        self._site = self._ledger.site
        self._queues = CandidateQueues(self._ledger)
        self._session: PoolPlacementSession | None = None
        # The tied machines of the VMs of each pool, by owner and pool; None if they
        # are not collected.
        self.tied_machines: dict[tuple[str, str], set[int]] | None = None
        # By count key: why no machine fits, valid until capacity is freed.
        self._shortages: dict[Hashable, NoFitReason] = {}

    def copy(
        self, sample: int | None = None, split_choice: SplitChoice | None = None
    ) -> RackScheduler:
        """Return an independent copy.

        The copy gets the number of a sample or another choice of NUMA layouts if given.
        """
        # Of successive VMs of a pool: its counts are valid only until the ledger is copied.
        self._close_session()
        ledger = self._ledger.copy()
        if split_choice is not None and split_choice != self.split_choice:
            for unknown_vms in ledger.unknown_cells.values():
                # Its split (assumed NUMA layout) is to be chosen again.
                unknown_vms.is_stale = True
        return RackScheduler(
            self.machines,
            self.spread,
            self.seed if sample is None else sample,
            is_sample=self.is_sample or sample is not None,
            split_choice=self.split_choice if split_choice is None else split_choice,
            ledger=ledger,
        )

    def copy_ledger(self) -> Ledger:
        """Return an independent copy of the VMs with their capacities and counts."""
        self._close_session()
        return self._ledger.copy()

    def add_existing(self, vm: VmName, sku: VmSku, placement: Placement) -> int:
        """Record an existing VM, whether it fits or not, and return its handle.

        No cells mean unknown cells.
        """
        self._close_session()
        site = self._site
        machine = site.machine_index[placement.machine]
        cells = site.capacity_table.add_cells(placement.cells)
        return self._add(
            VmRecord(site.add_pool(vm), site.get_shape(sku).number, machine, cells, vm.number)
        )

    def release(self, handle: int) -> None:
        """Remove the VM."""
        self._close_session()
        self._shortages.clear()
        self._queues.mark_machine_changed(self._ledger.remove(handle).machine, capacity_freed=True)

    def place(self, demand: Demand) -> tuple[int, Placement] | NoFitReason:
        """Place one more VM.

        Return its handle and placement, or why no machine fits.
        """
        placed_vm = self.try_place(demand)
        if placed_vm is not None:
            return placed_vm
        # For successive VMs of one pool; None: a VM was placed alone.
        session = self._session
        if session is not None and session.shortage is not None:
            # The reason holds for all later VMs of the pool.
            return session.shortage
        # Equal demands of many pools have the reason of the first: further VMs free no capacity.
        key = self._build_count_key(demand)
        shortage = self._shortages.get(key)
        if shortage is None:
            from nexusform.scheduling.racks.explanation import find_shortage

            shortage = find_shortage(self._ledger, demand)
            if key is not None:
                self._shortages[key] = shortage
        if session is not None:
            session.shortage = shortage
        return shortage

    def try_place(self, demand: Demand) -> tuple[int, Placement] | None:
        """Place one more VM and return its handle and placement, like `place`.

        If no machine fits, return None without reasons. Successive VMs of a pool share a session
        (with rankings of the machines), if their rules permit it.
        """
        session = self._session
        if session is None or not session.is_for_session(demand):
            self._choose_missing_splits()
            session = self._session = self._open_session(demand)
        if session is None:
            return self._place_by_scan(demand)
        number = demand.vm.number
        # Pool, SKU, machine and cells in one whole number.
        packed = session.place(number)
        # No machine fits.
        if packed == NOWHERE:
            return None
        machine = packed >> CELLS_BITS & MACHINE_MASK
        # Next to VMs in unknown cells, those of the new VM are only assumed.
        if machine in self._ledger.unknown_cells:
            return self._ledger.write_without_cells(packed, number), self._site.get_placement(
                machine, UNKNOWN_CELLS
            )
        return self._ledger.write(packed, number), self._site.get_placement(
            machine, packed & CELLS_MASK
        )

    def _place_by_scan(self, demand: Demand) -> tuple[int, Placement] | None:
        """Place one more VM by a scan of every machine, without a session.

        Return None if no machine fits.
        """
        ledger = self._ledger
        pool_ties = self._get_tied_machines(demand)
        record = demand_rules.choose_placement(
            ledger, demand, self.spread, self.seed, is_sample=self.is_sample, pool_ties=pool_ties
        )
        if record is None:
            return None
        # For weighers: their profiles always scan.
        ledger.new_vms[record.machine] += 1
        if record.machine not in ledger.unknown_cells:
            return self._add(record), self._site.get_placement(record.machine, record.cells)
        # Next to VMs in unknown cells, those of the new VM are only assumed.
        handle = ledger.add_sampled(record)
        self._queues.mark_machine_changed(record.machine, capacity_freed=False)
        return handle, self._site.get_placement(record.machine, UNKNOWN_CELLS)

    def finish_build(self, machine: str) -> None:
        """Count one VM less that this plan placed on a machine and that still builds."""
        self._ledger.new_vms[self._site.machine_index[machine]] -= 1

    def list_tied_machines(
        self, demand: Demand, building: Iterable[Mapping[str, int]]
    ) -> list[list[str]]:
        """Return the machines tied for a VM by their weights, for several numbers of new VMs.

        Each of `building` has the VMs that still build, by machine. With one machine that fits, or
        none, the first answer is the only one.
        """
        ledger = self._ledger
        site = self._site
        machines = demand_rules.list_fitting_machines(ledger, demand)
        kept = ledger.new_vms
        answers: list[list[str]] = []
        for counts in building:
            ledger.new_vms = VmCounts(
                {site.machine_index[name]: count for name, count in counts.items()}
            )
            tied = demand_rules.select_heaviest_machines(ledger, demand, machines)
            answers.append([site.machines[number].name for number in tied])
            if len(machines) < 2:
                break
        ledger.new_vms = kept
        return answers

    def place_all(self, demands: Iterable[Demand]) -> list[tuple[int, Placement] | NoFitReason]:
        """Place VMs one after the other, as by calls of `place`."""
        return [self.place(demand) for demand in demands]

    def select_cells(self, sku: VmSku, machine: str) -> tuple[int, ...]:
        """Return the NUMA cells, ascending, assigned to a VM on this machine.

        Return () if VMs in unknown cells run there. For a VM too large for it, they are the least
        used cells (at most as many as the machine has).
        """
        self._choose_missing_splits()
        if self._site.machine_index[machine] in self._ledger.unknown_cells:
            return ()
        capacity = self._ledger.capacities[self._site.machine_index[machine]]
        return self._site.select_cells(sku, capacity)

    def count_free_slots(
        self, demand: Demand, known_counts: dict[Hashable, Interval] | None = None
    ) -> Interval:
        """Count how many more VMs like this one fit on the site.

        The result is the minimum and maximum over all layouts of VMs in unknown cells.
        `known_counts` keeps the counts for further calls, so that equal demands are counted once.
        It is valid until a VM is added or removed.
        """
        self._choose_missing_splits()
        key = self._build_count_key(demand)
        # The key None (not reusable) is never in it.
        if known_counts is not None and key in known_counts:
            return known_counts[key]
        free_slots = sum_count_intervals(self.count_free_slots_by_rack(demand).values())
        if known_counts is not None and key is not None:
            known_counts[key] = free_slots
        return free_slots

    def _build_count_key(self, demand: Demand) -> Hashable:
        """Return all facts of a demand with an effect on `count_free_slots`.

        Equal ones have the same count. Return None if other VMs affect the count, through a limit
        on numbers of VMs.
        """
        usage = self._ledger.get_pool_usage(demand.vm.owner, demand.vm.pool)
        inputs: list[Hashable] = [demand.sku]
        for rule in self._site.demand_filters:
            if isinstance(rule, DemandFilter):
                inputs.append(rule.select_input(demand))
            elif rule.build_check(usage, demand) is not None:
                # A count filter with an effect: it counts other VMs.
                return None
        return tuple(inputs)

    def count_free_slots_by_rack(self, demand: Demand) -> Mapping[str, Interval]:
        """Count how many more VMs like this one fit on each rack alone.

        The result has the racks allowed by the demand, by name in site order.

        Without limits on numbers of VMs (count filters), machines do not depend on each other:
        their free capacities are added up. With such limits each VM may exclude others, so VMs are
        placed until none fits.
        """
        passes_rack, passes_machine, has_count_filter = self._prepare_count(demand)
        if has_count_filter:
            intervals = self._count_slots_by_placement(demand)
        else:
            intervals = self._count_slots_by_capacity(demand.sku, passes_machine)
        names = enumerate(self._site.rack_name)
        return {
            name: intervals[rack]
            for rack, name in names
            if passes_rack is None or passes_rack(rack)
        }

    def create_machine_counter(self, demand: Demand) -> Callable[[str], Interval] | None:
        """Return a function that counts how many more VMs like this one fit on a machine now.

        The count follows later changes of the site. Return None with limits on numbers of VMs: then
        machines depend on each other.
        """
        passes_rack, passes_machine, has_count_filter = self._prepare_count(demand)
        if has_count_filter:
            return None
        ledger = self._ledger
        site = self._site
        shape = site.get_shape(demand.sku)
        open_machines = frozenset(chain.from_iterable(site.open_machines_by_rack))

        def count_slots(name: str) -> Interval:
            machine = site.machine_index[name]
            if machine not in open_machines:
                return Interval(0, 0)
            if passes_rack is not None and not passes_rack(site.rack_by_machine[machine]):
                return Interval(0, 0)
            if passes_machine is not None and not passes_machine(machine):
                return Interval(0, 0)
            if machine in ledger.unknown_cells:
                return ledger.find_split_capacities(machine).count(shape)
            count = shape.steps.count(ledger.capacities[machine])
            return Interval(count, count)

        return count_slots

    def _prepare_count(
        self, demand: Demand
    ) -> tuple[Callable[[int], bool] | None, Callable[[int], bool] | None, bool]:
        """Return the checks of racks and machines for a demand (None: all pass).

        Also return whether the demand has a limit on numbers of VMs.
        """
        self._choose_missing_splits()
        usage = self._ledger.get_pool_usage(demand.vm.owner, demand.vm.pool)
        filters = demand_rules.prepare_filters(self._ledger, usage, demand)
        rack_selections, _, machine_checks = demand_rules.split_filters(filters)
        passes_rack = demand_rules.build_combined_check(
            [find_rejection for _, find_rejection in rack_selections]
        )
        has_count_filter = any(isinstance(rule, CountFilter) for rule, _ in filters)
        return passes_rack, demand_rules.build_combined_check(machine_checks), has_count_filter

    def _count_slots_by_placement(self, demand: Demand) -> dict[int, Interval]:
        """Count how many more VMs like this one fit on each rack.

        They are placed in two copies of the site.
        """
        minimum_counts, maximum_counts = (
            _fill(scheduler, demand) for scheduler in self._copy_extremes(demand.sku)
        )
        intervals: dict[int, Interval] = {}
        for rack in range(len(self._site.rack_name)):
            maximum = maximum_counts[rack]
            # A rack may take more VMs in the smaller copy, because other racks took fewer there.
            intervals[rack] = Interval(min(minimum_counts[rack], maximum), maximum)
        return intervals

    def _count_slots_by_capacity(
        self, sku: VmSku, passes: Callable[[int], bool] | None
    ) -> dict[int, Interval]:
        """Return how many more VMs of a SKU fit on each rack, by rack number.

        Only machines passing the check `passes` count (None: all). Machines with the same capacity
        number have the same answer.
        """
        ledger = self._ledger
        shape = self._site.get_shape(sku)
        vms_by_capacity: dict[int, int] = {}
        counts: dict[int, Interval] = {}
        for rack, machines in enumerate(self._site.open_machines_by_rack):
            minimum = maximum = 0
            for machine in machines:
                if passes is not None and not passes(machine):
                    continue
                # Its possible NUMA layouts leave different capacities.
                if machine in ledger.unknown_cells:
                    interval = ledger.find_split_capacities(machine).count(shape)
                    minimum += interval.minimum
                    maximum += interval.maximum
                    continue
                capacity = ledger.capacities[machine]
                if capacity not in vms_by_capacity:
                    vms_by_capacity[capacity] = shape.steps.count(capacity)
                minimum += vms_by_capacity[capacity]
                maximum += vms_by_capacity[capacity]
            counts[rack] = Interval(minimum, maximum)
        return counts

    def _copy_extremes(self, sku: VmSku) -> tuple[RackScheduler, RackScheduler]:
        """Return two copies of the scheduler with known NUMA cells for all VMs.

        The first has the smallest capacity, the second the largest.

        VMs in unknown cells get the layout with capacity for the fewest VMs of the SKU in the first
        copy, for the most in the second.
        """
        shape = self._site.get_shape(sku)
        minimum_capacities: dict[int, int] = {}  # by machine
        maximum_capacities: dict[int, int] = {}
        for machine in self._ledger.unknown_cells:
            capacities = self._ledger.find_split_capacities(machine).list_possible()
            minimum_capacities[machine] = min(capacities, key=shape.steps.count)
            maximum_capacities[machine] = max(capacities, key=shape.steps.count)
        return self._copy_with_capacities(minimum_capacities), self._copy_with_capacities(
            maximum_capacities
        )

    def _copy_with_capacities(self, capacities: Mapping[int, int]) -> RackScheduler:
        """Return a copy in which machines with unknown cells have these fixed capacities."""
        ledger = self._ledger.copy()
        for machine, capacity in capacities.items():
            ledger.capacities[machine] = capacity
        ledger.unknown_cells.clear()
        return RackScheduler(self.machines, self.spread, self.seed, ledger=ledger)

    def explain(self, demand: Demand) -> DecisionExplanation:
        """Explain the location `place` would give this VM now, and why not others.

        Places nothing.
        """
        from nexusform.scheduling.racks.explanation import explain_placement

        self._choose_missing_splits()
        return explain_placement(self._ledger, demand, self.spread, self.seed)

    def find_best_machines(self, demand: Demand) -> TiedMachines:
        """Return the machines tied for this VM (the random choice decides).

        The result has those tied in some NUMA layouts, and those tied in all.
        """
        return self.rank_machines(demand).find_best_excluding()

    def rank_machines(self, demand: Demand) -> MachineRanking:
        """Rank the machines for a VM now.

        The ranking can be read without some machines.
        """
        from nexusform.scheduling.racks.explanation import MachineRanking

        self._close_session()
        return MachineRanking(self._ledger, demand, self.spread)

    def find_rejection(self, machine: str, demand: Demand) -> str:
        """Return the reason why a filter rejects this machine for the demand now, or ""."""
        return next((reason for _, reason in self.list_rejections(machine, demand)), "")

    def list_rejections(self, machine: str, demand: Demand) -> Iterator[tuple[Filter, str]]:
        """Yield every filter rejecting this machine for the demand now, with the reason."""
        from nexusform.scheduling.racks.explanation import list_rejections

        self._choose_missing_splits()
        return list_rejections(self._ledger, demand, self._site.machine_index[machine])

    def count_fitting_machines(self, demand: Demand, machines: Iterable[str]) -> int:
        """Return how many of the machines no filter rejects for the demand now."""
        self._choose_missing_splits()
        checks = [check for _, check in demand_rules.list_rejecting_checks(self._ledger, demand)]
        numbers = map(self._site.machine_index.__getitem__, machines)
        return sum(all(check(number) is None for check in checks) for number in numbers)

    def find_rejections_by_vms(self, demand: Demand) -> Mapping[str, str]:
        """Return the machines rejected by limits on numbers of VMs, with the reason.

        Their capacity does not matter.
        """
        self._choose_missing_splits()
        rejections: dict[str, str] = {}
        for rule, find_rejection in demand_rules.list_rejecting_checks(self._ledger, demand):
            if not isinstance(rule, CountFilter):
                # It does not read other VMs.
                continue
            for number, machine in enumerate(self.machines):
                reason = find_rejection(number)
                if reason is not None:
                    rejections.setdefault(machine.name, reason)
        return rejections

    @property
    def is_sampled(self) -> bool:
        """Whether some VMs run in unknown cells.

        Placements then depend on an assumed NUMA layout.
        """
        return bool(self._ledger.unknown_cells)

    def list_machines_with_unknown_cells(self) -> tuple[str, ...]:
        """Return the names of machines with VMs on unknown cells, in site order."""
        return tuple(self.machines[machine].name for machine in sorted(self._ledger.unknown_cells))

    def can_fit_in_every_split(self, machine: str, sku: VmSku, added_skus: Sequence[VmSku]) -> bool:
        """Return whether a VM fits on a machine with unknown cells in every NUMA layout.

        VMs of `added_skus` are placed before it.
        """
        site = self._site
        unknown_vms = self._ledger.unknown_cells[self._site.machine_index[machine]]
        shares = [site.shapes[shape].share for shape in unknown_vms.shapes.values()]
        shares += [site.get_shape(added_sku).share for added_sku in added_skus]
        splits = site.find_splits(unknown_vms.known_capacity, tuple(sorted(shares)))
        return splits.count(site.get_shape(sku)).minimum > 0

    def has_no_fitting_split(self, machine: str, sku: VmSku) -> bool:
        """Return whether a VM fits in no NUMA layout of a machine with unknown cells."""
        split_capacities = self._ledger.find_split_capacities(self._site.machine_index[machine])
        return split_capacities.count(self._site.get_shape(sku)).maximum == 0

    def list_overfull_machines(self) -> tuple[str, ...]:
        """Return the machines with more VMs in unknown cells than fit in any NUMA layout.

        They count as full.
        """
        split_capacities = {
            machine: self._ledger.find_split_capacities(machine)
            for machine in sorted(self._ledger.unknown_cells)
        }
        return tuple(
            self.machines[machine].name
            for machine, split in split_capacities.items()
            # All layouts are enumerated: there is none.
            if split.splits.is_known and not split.capacities
        )

    @property
    def profile(self) -> SchedulerProfile:
        """Placement rule of the site."""
        return self._site.profile

    @property
    def machines(self) -> tuple[Machine, ...]:
        """Machines, in the order given."""
        return self._site.machines

    @property
    def racks(self) -> tuple[str, ...]:
        """Names of the racks with machines, in the order of their first machine."""
        return tuple(self._site.rack_name)

    @property
    def zones(self) -> tuple[str, ...]:
        """Availability zones of the racks with machines, in the order of their first machine."""
        return tuple(dict.fromkeys(self._site.rack_zone))

    def get_vm(self, handle: int) -> ScheduledVm:
        """Return the VM of a handle; raise KeyError if it was removed."""
        return self._ledger.build_vm(handle, self._ledger.get_record(handle))

    def list_sampled_vms(self) -> Iterator[ScheduledVm]:
        """Yield every VM, those in unknown cells with assumed cells.

        If no NUMA layout is possible, they have no cells.
        """
        self._choose_missing_splits()
        for vm in self.list_vms():
            unknown_vms = self._ledger.unknown_cells.get(
                self._site.machine_index[vm.placement.machine]
            )
            if unknown_vms is None or vm.handle not in unknown_vms.cells:
                yield vm
            else:
                yield replace(
                    vm, placement=replace(vm.placement, cells=unknown_vms.cells[vm.handle])
                )

    def list_vms(self) -> Iterator[ScheduledVm]:
        """Yield every VM in the order of addition."""
        for handle, record in self._ledger.list_vms():
            yield self._ledger.build_vm(handle, record)

    def _open_session(self, demand: Demand) -> PoolPlacementSession | None:
        """Open a session for the pool of the demand.

        Return None if its rules need a scan of every machine.
        """
        if demand.last_resort is not None or self.profile.weigh is not None:
            # The rankings kept by a session include no last resort and no weights.
            return None
        usage = self._ledger.get_live_usage(demand.vm.owner, demand.vm.pool)
        rules = demand_rules.DemandRules(self._ledger, usage, demand, self.spread)
        if not rules.may_use_session():
            return None
        tied_machines = self._get_tied_machines(demand)
        return PoolPlacementSession(
            self._queues,
            rules,
            self.spread,
            self.seed,
            is_sample=self.is_sample,
            tied_machines=tied_machines,
        )

    def _get_tied_machines(self, demand: Demand) -> set[int] | None:
        """Return the set to which tied machines of the demand's pool are added.

        Return None if the caller collects none.
        """
        if self.tied_machines is None:
            return None
        return self.tied_machines.setdefault((demand.vm.owner, demand.vm.pool), set())

    def _add(self, record: VmRecord) -> int:
        """Add a VM on known cells, and return its handle."""
        handle = self._ledger.add(record)
        self._queues.mark_machine_changed(record.machine, capacity_freed=False)
        return handle

    def _choose_missing_splits(self) -> None:
        """Choose NUMA cells for the VMs in unknown cells of changed machines.

        This comes before capacities are read, because other cells than before may leave more
        capacity. It closes the session, which keeps old capacities.
        """
        self._close_session()
        for machine in self._ledger.choose_cell_splits(self.split_choice):
            self._queues.mark_machine_changed(machine, capacity_freed=True)
            self._shortages.clear()

    # For successive VMs of a pool; it keeps rankings of the machines.
    def _close_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def _fill(scheduler: RackScheduler, demand: Demand) -> VmCounts:
    """Place VMs like this one until none fits, and return their number by rack number."""
    racks = {name: number for number, name in enumerate(scheduler.racks)}
    counts = VmCounts()
    for number in count():
        # The number differs from every real number.
        vm = replace(demand.vm, number=f"{demand.vm.number}+{number}")
        handle_and_placement = scheduler.try_place(replace(demand, vm=vm))
        if handle_and_placement is None:
            break
        _, placement = handle_and_placement
        counts[racks[placement.rack]] += 1
    return counts
