"""Exact search of orders: VMs to re-create one after another, each with its machine.

The integer program ignores order: a VM may need a cell freed by an earlier re-creation. On small
sites this module tries every order, depth first, with a growing number of re-creations. Two or
three VMs are down at once if they exchange machines. A branch ends if more VMs must leave than
re-creations remain, or if an equal site was searched before.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, combinations, permutations, product
from typing import Final

from msgspec import Struct

from nexusform.domains.whatif.questions.repack_context import (
    NO_TIME_LIMIT,
    FreeCell,
    MovableVm,
    RepackContext,
    RepackMachine,
    RepackRequest,
    TimeBudget,
    build_pool_demand,
)
from nexusform.domains.whatif.questions.repack_windows import (
    RepackWindowSequence,
    build_ordered_sequence,
    can_be_down_together,
)
from nexusform.scheduling.racks.vms import Demand, Placement, VmSku

# Maximum of movable VMs of a site that is searched.
MAX_VMS: Final = 60
MAX_RECREATIONS: Final = 12
# Limit of examined states of the site: the answer does not depend on the computer.
_MAX_EXAMINED_STATES: Final = 3_000
_IMPOSSIBLE: Final = 1_000_000


class _Relocation(Struct, frozen=True):
    """Re-creation of one VM on this machine."""

    source: MovableVm
    machine: str


class OrderSearchResult(Struct, frozen=True):
    """Result of a search.

    `sequence` is None if no order was found. No order with up to `searched` re-creations
    exists. `cut_at` is the number of re-creations at the end of an incomplete search, None for
    a complete one.
    """

    sequence: RepackWindowSequence | None = None
    searched: int = 0
    cut_at: int | None = None


class _SearchLimitReached(Exception):
    """The limit of steps or time was reached."""


def is_searchable(context: RepackContext) -> bool:
    """Return whether the site is small, with known NUMA cells and one rule.

    All machines have the same rule.
    """
    return len(context.all_movable_vms) <= MAX_VMS and not context.scheduler.is_sampled


def search_orders(
    context: RepackContext,
    request: RepackRequest,
    minimum: int,
    maximum: int,
    time_budget: TimeBudget = NO_TIME_LIMIT,
    sources: Sequence[MovableVm] | None = None,
) -> OrderSearchResult:
    """Search an order with `minimum` to `maximum` re-creations, fewest first, of `sources`.

    None for `sources` means all movable VMs.
    """
    search = _OrderSearch(
        context, request, time_budget, context.all_movable_vms if sources is None else sources
    )
    for count in range(max(minimum, 1), maximum + 1):
        try:
            sequence = search.find_sequence(count)
        except _SearchLimitReached:
            # Of states or time: larger numbers are not searched.
            return OrderSearchResult(searched=count - 1, cut_at=count)
        if sequence is not None:
            return OrderSearchResult(sequence, searched=count - 1)
    return OrderSearchResult(searched=maximum)


class _MachineState(Struct):
    """Machine during a search: its free cells and disk, and its VMs.

    `vms` are those not re-created yet, and `arrived` its re-created ones. `costs` and `key` are
    computed once per state.
    """

    machine: RepackMachine
    cells: list[FreeCell]
    disk: int
    vms: dict[int, MovableVm]
    arrived: dict[int, MovableVm]
    costs: tuple[int, ...] | None = None
    key: object = None

    def has_capacity(
        self, sku: VmSku, leaving: Iterable[tuple[Collection[int], VmSku]] = ()
    ) -> bool:
        """Return whether a VM of the SKU fits after the departure of `leaving`.

        A leaving VM is a pair of its cells and its SKU.
        """
        free = list(self.cells)
        disk = self.disk
        for cells, leaving_sku in leaving:
            disk += leaving_sku.disk_gib
            for cell in cells:
                # It returns its share.
                free[cell] = free[cell].subtract(leaving_sku, -1)
        return (
            disk >= sku.disk_gib and sum(cell.has_capacity(sku) for cell in free) >= sku.numa_cells
        )


class _OrderSearch:
    """Search on one scheduler: every step is applied, searched below, and undone."""

    def __init__(
        self,
        context: RepackContext,
        request: RepackRequest,
        time_budget: TimeBudget,
        sources: Sequence[MovableVm],
    ) -> None:
        """Start a search at the current site.

        Only `sources` may be re-created; all other VMs stay.
        """
        self._context = context
        self._request = request
        self._time_budget = time_budget
        self._scheduler = context.scheduler.copy()
        self._examined_states = 0
        handles = {source.handle for source in sources}
        self._states: dict[str, _MachineState] = {}
        for host in context.hosts:
            vms: dict[int, MovableVm] = {}
            # A multi-cell VM is in several cells.
            for vm in chain.from_iterable(host.movable_vms_by_cell):
                if vm.handle in handles:
                    vms[vm.handle] = vm
            self._states[host.machine.name] = _MachineState(
                host, list(host.cells), host.disk, vms, arrived={}
            )
        self._locations = {
            source.handle: source.vm.placement for source in context.all_movable_vms
        }  # current ones
        # The current handle of a VM by its first one: a VM added again gets a new handle.
        self._handles = {source.handle: source.handle for source in context.all_movable_vms}
        # Current VMs by pool and rack.
        self._rack_counts = Counter(context.existing)
        self._demands = {
            source.handle: build_pool_demand(context.pools[source.pool], source.vm)
            for source in context.all_movable_vms
        }
        has_hints = any(pool.demand.hints or pool.demand.groups for pool in context.pools)
        # Without hints and rules, which name machines and VMs, equal machines are interchangeable.
        self._is_symmetric = not (has_hints or request.separation_rules)
        # Most re-creations left at a state, by its key.
        self._searched: dict[object, int] = {}

    def find_sequence(self, count: int) -> RepackWindowSequence | None:
        """Find an order with at most this many re-creations.

        Raises _SearchLimitReached.
        """
        self._searched = {}
        return self._extend_solution(count, order=[])

    def _extend_solution(
        self, remaining: int, order: list[tuple[_Relocation, ...]]
    ) -> RepackWindowSequence | None:
        """Try up to `remaining` re-creations after those of `order` (groups of VMs down at once).

        Return the windows of the first order with capacity for the demand, or
        None. Raises _SearchLimitReached.
        """
        self._examined_states += 1
        if self._examined_states > _MAX_EXAMINED_STATES or self._time_budget.is_exhausted:
            raise _SearchLimitReached
        departures = self._compute_missing_departures()
        if (
            departures == 0
            and self._scheduler.count_free_slots(self._request.demand).minimum >= self._request.want
        ):
            return self._build_sequence(order)
        # At least 1, as the demand does not fit yet.
        if max(departures, 1) > remaining:
            return None
        # Equal sites have equal numbers of machines with the same key.
        key_counts = Counter(self._build_machine_key(machine) for machine in self._states)
        state_key = frozenset(key_counts.items())
        # An equal site had as many or more re-creations left.
        if self._searched.get(state_key, 0) >= remaining:
            return None
        self._searched[state_key] = remaining
        for source in self._list_vms_to_recreate():
            for machine in self._list_targets(source, remaining):
                # Move the VM, search below, and undo it.
                old_location = self._remove_vm(source)
                self._add_vm(source, machine)
                sequence = self._extend_solution(
                    remaining - 1, [*order, (_Relocation(source, machine),)]
                )
                self._remove_vm(source)
                self._restore_vm(source, old_location)
                if sequence is not None:
                    return sequence
        # An exchange takes two VMs down at once.
        return (
            self._try_exchanges(remaining, order)
            if remaining >= 2 and self._request.window != 1
            else None
        )

    def _build_sequence(
        self, order: Sequence[tuple[_Relocation, ...]]
    ) -> RepackWindowSequence | None:
        """Build a window per group of VMs, in any order of the VMs in a group.

        Return None if no windows are possible.
        """
        # The groups stay in order, the VMs of each in any order.
        for groups in product(*map(permutations, order)):
            targets = [{step.source.handle: step.machine for step in group} for group in groups]
            sequence = build_ordered_sequence(self._context, self._request, targets)
            if sequence is not None:
                return sequence
        return None

    def _list_vms_to_recreate(self) -> list[MovableVm]:
        """List the VMs not re-created yet.

        Only one of those alike in pool, class, machine and cells.
        """
        unique: dict[object, MovableVm] = {}
        # One per machine; its `vms` are not re-created yet.
        for state in self._states.values():
            for source in state.vms.values():
                location = self._locations[source.handle]
                unique.setdefault(
                    (source.pool, source.vm_class, location.machine, location.cells), source
                )
        return sorted(unique.values(), key=lambda source: source.handle)

    def _list_targets(self, source: MovableVm, remaining: int) -> Iterator[str]:
        """List the machines for a VM, the first of equal ones.

        List none if too few re-creations remain afterwards.
        """
        if not self._is_departure_useful(source, remaining):
            return
        old = self._remove_vm(source)
        machines = self._find_feasible_machines(source, old)
        self._restore_vm(source, old)
        yield from machines

    def _is_departure_useful(self, source: MovableVm, remaining: int) -> bool:
        """Return whether the `remaining` re-creations suffice for this VM and all later ones.

        Later VMs are those that move after it.
        """
        state = self._states[self._locations[source.handle].machine]
        # This departure frees no capacity for the demand.
        if not state.machine.admits_demand:
            return self._compute_missing_departures() < remaining
        old = self._remove_vm(source)
        further_departures = self._compute_missing_departures()
        self._restore_vm(source, old)
        return further_departures < remaining

    def _find_feasible_machines(self, source: MovableVm, old: Placement) -> list[str]:
        """Find the machines for a VM removed from `old`.

        Of several machines with an equal state, only the first one counts.
        """
        demand = self._demands[source.handle]
        unique: dict[object, str] = {}
        for name, state in self._states.items():
            if source.vm_class not in state.machine.admitted:  # never feasible
                continue
            pool_rack = source.pool, state.machine.machine.rack
            # A rack above its limit may keep its present number of VMs of the pool.
            limit = max(self._context.limits[source.pool], self._context.existing.get(pool_rack, 0))
            if self._rack_counts[pool_rack] >= limit:
                continue
            if not state.has_capacity(demand.sku) or self._is_machine_forbidden(
                demand, state.machine
            ):
                # No capacity, or forbidden by a hint or a rule.
                continue
            if name == old.machine and self._scheduler.select_cells(demand.sku, name) == old.cells:
                # It would return to its old cells.
                continue
            unique.setdefault(self._build_machine_key(name), name)
        return list(unique.values())

    def _try_exchanges(
        self, remaining: int, order: list[tuple[_Relocation, ...]]
    ) -> RepackWindowSequence | None:
        """Try exchanges of up to `remaining` VMs after `order`.

        Return the first windows found, or None.
        """
        sources = [
            source
            for source in self._list_vms_to_recreate()
            if self._is_departure_useful(source, remaining)
        ]
        for group in self._list_exchanges(sources, remaining):
            sequence = self._try_exchange(group, remaining, order)
            if sequence is not None:
                return sequence
        return None

    def _list_exchanges(
        self, sources: Sequence[MovableVm], remaining: int
    ) -> Iterator[tuple[_Relocation, ...]]:
        """List the groups of VMs to re-create together, because some fit only after others left.

        A group is two or three VMs that swap machines, or one VM and the two in its way.
        `remaining` is the number of re-creations still allowed.
        """
        for first, second in combinations(sources, 2):
            is_blocked = self._needs_departure(first, second) or self._needs_departure(
                second, first
            )
            # An exchange of equal VMs changes nothing.
            if is_blocked and first.vm_class != second.vm_class:
                yield self._build_ring_exchange(first, second)
        # Enough re-creations for three VMs.
        if remaining >= 3:
            yield from self._list_rings_of_three(sources)
            yield from self._list_exchanges_of_one_for_two(sources)

    def _list_rings_of_three(
        self, sources: Sequence[MovableVm]
    ) -> Iterator[tuple[_Relocation, ...]]:
        """List the rings of three VMs.

        Each fits on the machine of the next VM only after that VM has left.
        """
        # By handle of a VM: those on machines where it fits once they left.
        blockers: dict[int, list[MovableVm]] = {}
        for vm in sources:
            blockers[vm.handle] = [other for other in sources if self._needs_departure(vm, other)]
        for first in sources:
            for second in blockers[first.handle]:
                for third in blockers[second.handle]:
                    # Of the three rotations of a ring, list the one with the lowest handle first.
                    if (
                        first.handle < min(second.handle, third.handle)
                        and first in blockers[third.handle]
                    ):
                        yield self._build_ring_exchange(first, second, third)

    def _list_exchanges_of_one_for_two(
        self, sources: Sequence[MovableVm]
    ) -> Iterator[tuple[_Relocation, ...]]:
        """List the exchanges of a VM for two VMs.

        If it fits on their machine only after both of them have left.
        """
        for source, state in product(sources, list(self._states.values())):
            old_machine = self._locations[source.handle].machine
            for first, second in combinations(list(state.vms.values()), 2):
                if not self._needs_departure(source, first, second):
                    continue
                if self._needs_departure(source, first) or self._needs_departure(source, second):
                    # One of them is enough.
                    continue
                new_machine = state.machine.machine.name
                yield (
                    _Relocation(source, new_machine),
                    _Relocation(first, old_machine),
                    _Relocation(second, old_machine),
                )

    def _build_ring_exchange(self, *sources: MovableVm) -> tuple[_Relocation, ...]:
        """Build an exchange.

        Each VM moves to the machine of the next one, the last to that of the first.
        """
        machines = [self._locations[source.handle].machine for source in (*sources[1:], sources[0])]
        return tuple(
            _Relocation(source, machine) for source, machine in zip(sources, machines, strict=True)
        )

    def _try_exchange(
        self, group: tuple[_Relocation, ...], remaining: int, order: list[tuple[_Relocation, ...]]
    ) -> RepackWindowSequence | None:
        """Apply an exchange, search below, and undo it.

        Return None if it is not allowed, or leads to no order.
        """
        sources = [relocation.source for relocation in group]
        for number, source in enumerate(sources):
            if not can_be_down_together(self._context, self._request, sources[:number], source):
                return None
        old_locations = [self._remove_vm(source) for source in sources]
        sequence = None
        # Enough re-creations remain.
        if self._compute_missing_departures() <= remaining - len(group):
            added: list[MovableVm] = []
            for relocation, location in zip(group, old_locations, strict=True):
                if relocation.machine not in self._find_feasible_machines(
                    relocation.source, location
                ):
                    break
                self._add_vm(relocation.source, relocation.machine)
                added.append(relocation.source)
            if len(added) == len(group):
                sequence = self._extend_solution(remaining - len(group), [*order, group])
            for source in added:
                self._remove_vm(source)
        for source, location in zip(sources, old_locations, strict=True):
            self._restore_vm(source, location)
        return sequence

    def _needs_departure(self, source: MovableVm, *others: MovableVm) -> bool:
        """Return whether a VM fits on the machine of the others only after all of them left."""
        locations = [self._locations[other.handle] for other in others]
        # All are on one machine.
        machine = locations[0].machine
        state = self._states[machine]
        sku = self._demands[source.handle].sku
        if (
            machine == self._locations[source.handle].machine
            or source.vm_class not in state.machine.admitted
        ):
            # It is there already, or never may be.
            return False
        leaving = [
            (location.cells, self._demands[other.handle].sku)
            for location, other in zip(locations, others, strict=True)
        ]
        return not state.has_capacity(sku) and state.has_capacity(sku, leaving)

    def _remove_vm(self, source: MovableVm) -> Placement:
        """Remove a VM from its machine; return its old location."""
        location = self._locations.pop(source.handle)
        self._scheduler.release(self._handles.pop(source.handle))
        state = self._update_machine_counts(source, location, -1)
        state.vms.pop(source.handle, None)
        state.arrived.pop(source.handle, None)
        return location

    def _add_vm(self, source: MovableVm, machine: str) -> None:
        """Add a re-created VM to a machine, in the cells selected by the rule."""
        cells = self._scheduler.select_cells(self._demands[source.handle].sku, machine)
        host = self._states[machine].machine.machine
        self._place_vm(source, Placement(machine, host.rack, host.availability_zone, cells))
        self._states[machine].arrived[source.handle] = source

    def _restore_vm(self, source: MovableVm, location: Placement) -> None:
        """Restore a removed VM as one not re-created yet."""
        self._place_vm(source, location)
        self._states[location.machine].vms[source.handle] = source

    def _place_vm(self, source: MovableVm, location: Placement) -> None:
        """Add a VM to the scheduler and the counts.

        The caller records it as re-created or not yet re-created.
        """
        demand = self._demands[source.handle]
        self._handles[source.handle] = self._scheduler.add_existing(demand.vm, demand.sku, location)
        self._locations[source.handle] = location
        self._update_machine_counts(source, location, 1)

    def _update_machine_counts(
        self, source: MovableVm, location: Placement, count: int
    ) -> _MachineState:
        """Count a VM on its machine and rack (`count` is 1), or remove it from the counts (-1).

        Return the machine.
        """
        sku = self._demands[source.handle].sku
        state = self._states[location.machine]
        for cell in location.cells:
            state.cells[cell] = state.cells[cell].subtract(sku, count)
        state.disk -= count * sku.disk_gib
        # Both are computed again when needed.
        state.costs = state.key = None
        self._rack_counts[source.pool, location.rack] += count
        return state

    def _is_machine_forbidden(self, demand: Demand, host: RepackMachine) -> bool:
        """Return True if a hint or a separation rule forbids the machine or its rack."""
        # A symmetric site has no hints to reject a machine; capacity was checked before.
        if not self._is_symmetric and self._scheduler.find_rejection(host.machine.name, demand):
            return True
        vm = demand.vm.owner, demand.vm.pool, demand.vm.number
        existing = list(self._scheduler.list_vms()) if self._request.separation_rules else []
        places = {host.machine.name, host.machine.rack}
        return any(
            places & rule.find_forbidden_locations(vm, existing)
            for rule in self._request.separation_rules
        )

    def _build_machine_key(self, name: str) -> object:
        """Build the key of a machine and its VMs, shared by equal machines.

        Equal machines are in one rack, with equal free capacity, and with VMs alike in pool, class
        and cells. With hints or rules no machines are equal.
        """
        # No machine equals another one.
        if not self._is_symmetric:
            return name, frozenset(self._states[name].vms), frozenset(self._states[name].arrived)
        state = self._states[name]
        if state.key is None:
            host = state.machine
            contents = [
                sorted(
                    (vm.pool, vm.vm_class, self._locations[vm.handle].cells) for vm in vms.values()
                )
                for vms in (state.vms, state.arrived)
            ]
            place = host.machine.rack, host.machine.availability_zone
            state.key = (
                *place,
                host.admitted,
                host.admits_demand,
                state.disk,
                tuple(state.cells),
                tuple(tuple(content) for content in contents),
            )
        return state.key

    def _compute_missing_departures(self) -> int:
        """Compute a lower bound of the VMs still to move out of their cells for the demand to fit.

        Machine by machine, `best[n]` is the fewest departures to place n VMs of the demand on the
        machines so far.
        """
        best = [0] + [_IMPOSSIBLE] * self._request.want
        # One per machine; its `vms` are not re-created yet.
        for state in self._states.values():
            # No VM of the demand may run there.
            if not state.machine.admits_demand:
                continue
            if state.costs is None:
                state.costs = self._compute_minimum_departures(state)
            # Departures from this machine for 0, 1, 2 ... VMs of the demand on it.
            costs = state.costs
            best = [
                min(
                    best[wanted - slots] + cost
                    for slots, cost in enumerate(costs)
                    if slots <= wanted
                )
                for wanted in range(len(best))
            ]
        return best[-1]

    def _compute_minimum_departures(self, state: _MachineState) -> tuple[int, ...]:
        """Compute lower bounds of the VMs to move off the machine for some VMs of the demand.

        The bounds are for 0, 1, 2 and more VMs of the demand, while they fit.
        """
        # SKUs of VMs not re-created yet.
        skus_by_cell: list[list[VmSku]] = [[] for _ in state.cells]
        for handle in state.vms:
            for cell in self._locations[handle].cells:
                skus_by_cell[cell].append(self._demands[handle].sku)
        # Free capacity, and shares of the VMs.
        cells = (
            (
                free,
                tuple(sorted((sku.cpus_in_cell, sku.mib_in_cell, sku.vfs_in_cell) for sku in skus)),
            )
            for free, skus in zip(state.cells, skus_by_cell, strict=True)
        )
        vm_cells = max((self._demands[handle].sku.numa_cells for handle in state.vms), default=1)
        sku = self._request.sku
        share = FreeCell(sku.cpus_in_cell, sku.mib_in_cell, sku.vfs_in_cell)
        # The result is cached for equal cells in any order.
        return _compute_machine_costs(
            tuple(sorted(cells)),
            share,
            demand_cells=sku.numa_cells,
            vm_cells=vm_cells,
            want=self._request.want,
        )


@lru_cache(maxsize=100_000)
def _compute_machine_costs(
    cells: tuple[tuple[FreeCell, tuple[tuple[int, int, int], ...]], ...],
    share: FreeCell,
    demand_cells: int,
    vm_cells: int,
    want: int,
) -> tuple[int, ...]:
    """Compute lower bounds of the VMs to move off a machine for 0 to `want` VMs of the demand.

    For example, they are (0, 0, 2) if one VM fits now, and a second one after two departures.
    `cells` are (free capacity, shares of movable VMs); each VM of the demand needs `share` in
    `demand_cells` cells. A VM that leaves up to `vm_cells` cells counts in each of them, so the
    sums are divided by `vm_cells`.
    """
    # Departures by number of slots (free shares) in the cells so far.
    total = [0]
    for free, movable in cells:
        costs = _compute_cell_costs(free, movable, share, maximum=want * demand_cells)
        size = len(total) + len(costs) - 1
        total = [
            min(
                total[slots - taken] + costs[taken]
                for taken in range(len(costs))
                if 0 <= slots - taken < len(total)
            )
            for slots in range(size)
        ]
    # Each VM of the demand takes `demand_cells` slots.
    slot_costs = total[::demand_cells][: want + 1]
    return tuple(-(-cost // vm_cells) for cost in slot_costs)  # rounded up


def _compute_cell_costs(
    free: FreeCell, movable: Iterable[tuple[int, int, int]], share: FreeCell, maximum: int
) -> list[int]:
    """Compute lower bounds of the VMs to move out of a cell.

    The list is for 0, 1, 2 ... free slots of `share`, while possible.

    A bound is the largest of three numbers: the fewest VMs (largest first) for vCPUs, for memory,
    and for VFs alone.
    """
    shares = list(movable)
    costs = [0]
    for slots in range(1, maximum + 1):
        cost = 0
        # The dimensions are vCPUs, memory and VFs.
        for dimension in range(len(share)):
            lacking = slots * share[dimension] - free[dimension]
            count = 0
            for amount in sorted((vm_share[dimension] for vm_share in shares), reverse=True):
                # Enough VMs have left.
                if lacking <= 0:
                    break
                lacking -= amount
                count += 1
            cost = max(cost, count if lacking <= 0 else _IMPOSSIBLE)
        # More slots are impossible, too.
        if cost >= _IMPOSSIBLE:
            break
        costs.append(cost)
    return costs
