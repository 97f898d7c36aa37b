"""Certainty of a plan's placements: the same operations repeated in samples.

The placement pass of a plan is kept as a list of operations. `repeat_with_samples` repeats it
from the situation before the pass in the samples 0, 1, 2, ... and compares every VM's location
with the plan's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.scheduling.placement_decision import PlacementCertainty
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.uncertainty.arrivals import (
    UNTRIED,
    Arrival,
    ArrivalResults,
    ArrivingVm,
    BuildingVms,
    GroupMembers,
    draw_order,
    draws_finished,
    search_arrivals,
)
from nexusform.scheduling.racks.uncertainty.machine_classes import (
    MachineClasses,
    is_independent_of_names,
)
from nexusform.scheduling.racks.uncertainty.operations import (
    OccupyOperation,
    Operation,
    PlaceOperation,
    ReleaseOperation,
    Token,
)
from nexusform.scheduling.racks.vms import Demand, Placement, VmSku

if TYPE_CHECKING:
    from nexusform.scheduling.racks.uncertainty.plain_samples import PlainSamples
    from nexusform.scheduling.racks.uncertainty.splits import SplitChoice

PoolId = tuple[str, str]


class PoolCertainty(Struct, frozen=True):
    """Certainty of the VMs placed by the plan for one pool.

    `vms_on_certain_machines` VMs had the same machine in every run. `counts` are VMs per rack in
    the plan, `certain_racks` the racks with the same count in every run. `tied_classes` are the
    classes of the machines allowed by the rule in any run, a bit per class, 0 after too few runs;
    `is_tie_certain` means that no earlier certain prediction was wrong.
    """

    owner: str
    pool: str
    vms_on_certain_machines: int
    counts: Mapping[str, int]
    certain_racks: tuple[str, ...]
    tied_classes: int = 0
    is_tie_certain: bool = True

    @property
    def vms_on_certain_counts(self) -> int:
        """VMs on racks with the same count in every run ("VMs per rack certain for 24 of 24")."""
        return sum(self.counts.get(rack, 0) for rack in self.certain_racks)


class SamplingResult(Struct, frozen=True):
    """Result of repetitions of one site, per VM (its handle) and per pool.

    `outcomes[run][token]` is the VM's placement, None if it did not fit; kept only on request. Its
    cells may be missing.
    `fits[run]` tells whether every VM was placed. On `uncertain_machines` the unknown cells of VMs
    decide if one of the VMs fits. `machine_classes` are those of `tied_classes` by name of a
    machine, in site order, {} after too few runs. `alternatives` are other locations of VMs with
    their condition: `c3 if b arrives first`. `untried` is a clause on orders of arrival that were
    not tried, "" if all were.
    """

    vms: Mapping[Token, PlacementCertainty] = field(default_factory=dict)
    pools: Mapping[PoolId, PoolCertainty] = field(default_factory=dict)
    machine_classes: Mapping[str, int] = field(default_factory=dict)
    outcomes: tuple[Mapping[Token, Placement | None], ...] = ()
    fits: tuple[bool, ...] = ()
    uncertain_machines: tuple[str, ...] = ()
    alternatives: Mapping[Token, str] = field(default_factory=dict)
    untried: str = ""


MIN_RUNS = 10
# With fewer runs tied machines may be missing.
MIN_RUNS_FOR_TIES = 50
MAX_RUNS = 100
MAX_PLACEMENTS = 200_000
# Longer sessions are faster than tables: they rank the machines once for all their VMs.
MAX_PLAIN_SESSION_SIZE = 32


def compute_default_runs(vms: int) -> int:
    """Return how often to repeat a plan of this many VMs.

    The result is MAX_RUNS, or less for large plans. It is 0 for a plan too large for MIN_RUNS.
    """
    if vms <= 0:
        return 0
    runs = min(MAX_RUNS, MAX_PLACEMENTS // vms)
    return runs if runs >= MIN_RUNS else 0


def run_operations(
    base: RackScheduler,
    operations: Sequence[Operation],
    sample: int | None = None,
    split_choice: SplitChoice | None = None,
    tied_machines: dict[PoolId, set[int]] | None = None,
) -> dict[Token, Placement | None]:
    """Run the operations on a copy of `base`, in the sample with this number if given.

    Return the placement of each VM to place, None if it did not fit. `split_choice` selects the
    assumed cells of VMs in unknown cells. `tied_machines` collects the tied machines by pool.
    In a sample, VMs arrive in another order, and some finish at once.
    """
    scheduler = base.copy(sample, split_choice)
    scheduler.tied_machines = tied_machines
    placed: dict[Token, Placement | None] = {}
    members = GroupMembers()
    building = BuildingVms()
    if sample is not None:
        operations = _draw_operations(operations, sample)
    for position, operation in enumerate(operations):
        if isinstance(operation, PlaceOperation):
            demand = operation.demand
            arrival = operation.arrival
            if arrival is not None:
                building.finish_awaited(arrival, scheduler)
                demand = members.adapt_demand(demand, arrival)
            # Its handle and placement, None if no machine fits.
            placed_vm = scheduler.try_place(demand)
            placement = placed_vm[1] if placed_vm is not None else None
            placed[operation.token] = placement
            if arrival is not None and placement is not None:
                members.add(arrival, placement.machine, placement.rack)
                if sample is not None and draws_finished(position, sample):
                    scheduler.finish_build(placement.machine)
                else:
                    building.add(arrival, placement.machine)
        elif isinstance(operation, OccupyOperation):
            # Its machine is decided already, perhaps not its cells.
            placement = operation.placement
            if operation.uses_rule_cells:
                placement = replace(
                    placement, cells=scheduler.select_cells(operation.sku, placement.machine)
                )
            scheduler.add_existing(operation.vm, operation.sku, placement)
        else:
            scheduler.release(operation.handle)
    return placed


def _draw_operations(operations: Sequence[Operation], sample: int) -> Sequence[Operation]:
    """Return the operations in another order of arrival.

    Operations that are no arrival come first.
    """
    arrivals: list[Arrival] = []
    arriving: list[Operation] = []
    others: list[Operation] = []
    for operation in operations:
        if isinstance(operation, PlaceOperation) and operation.arrival is not None:
            arrivals.append(operation.arrival)
            arriving.append(operation)
        else:
            others.append(operation)
    return [*others, *(arriving[position] for position in draw_order(arrivals, sample))]


def _search_arrivals(
    base: RackScheduler, operations: Sequence[Operation], planned: Mapping[Token, Placement | None]
) -> ArrivalResults:
    """Place the VMs of a plan in every order of arrival.

    Not all orders are tried if the plan also has other operations on the site.
    """
    arriving = [
        operation
        for operation in operations
        if isinstance(operation, PlaceOperation) and operation.arrival is not None
    ]
    if not arriving:
        return ArrivalResults()
    if len(arriving) < len(operations):
        return ArrivalResults(untried=UNTRIED)
    vms = [
        ArrivingVm(operation.demand, operation.arrival)
        for operation in arriving
        if operation.arrival is not None
    ]
    return search_arrivals(base, vms, [planned[operation.token] for operation in arriving])


def repeat_with_samples(
    base: RackScheduler,
    operations: Sequence[Operation],
    runs: int,
    *,
    first: int = 0,
    keep_outcomes: bool = False,
    on_progress: Callable[[int], None] = lambda _runs: None,
) -> SamplingResult:
    """Run the operations of a plan again in `runs` samples, and compare each with the plan.

    Samples are numbered from `first` on. A sample breaks ties between machines by another random
    number, and assumes other cells for VMs in unknown cells. `base` is the scheduler before the
    first operation, and is not changed. A VM without a place in the plan has no certainty. A VM
    without a place in a sample counts as different there. With `keep_outcomes` the result has the
    placements of every sample. `on_progress` gets the number of finished runs.
    """
    if runs <= 0:
        return SamplingResult()
    planned = run_operations(base, operations)
    demands = {
        operation.token: operation.demand
        for operation in operations
        if isinstance(operation, PlaceOperation)
    }
    sample_matches = _SampleMatches(demands, planned)
    unknown_cells = _UnknownCells(base, operations, demands)
    unknown_cells.add_run([planned[token] for token in demands])
    outcomes = []
    fits: list[bool] = []
    # Fewer runs report no ties, so none are collected.
    tied_machines: dict[PoolId, set[int]] | None = {} if runs >= MIN_RUNS_FOR_TIES else None
    has_no_names = is_independent_of_names(base, demands.values())
    has_tables = has_no_names and _can_use_tables(operations) and _has_short_sessions(operations)
    plain_samples = _build_plain_samples(base, operations) if has_tables else None
    for seed in range(first, first + runs):
        if plain_samples is None:
            outcome = run_operations(
                base, operations, sample=seed, split_choice=seed, tied_machines=tied_machines
            )
            placements = [outcome[token] for token in demands]
        else:
            placements = plain_samples.run(seed)
        if keep_outcomes:
            outcomes.append(dict(zip(demands, placements, strict=True)))
        fits.append(None not in placements)
        sample_matches.add_run(placements)
        unknown_cells.add_run(placements)
        on_progress(len(fits))
    arrivals = _search_arrivals(base, operations, planned)
    for results in arrivals.placements:
        sample_matches.add_run(results)
    runs += len(arrivals.placements)
    matches = sample_matches.compare_vms()
    pools = sample_matches.compute_pool_certainties(matches, runs)
    class_by_machine: Mapping[str, int] = {}
    if tied_machines is not None:
        # Other operations place no VM by the rule, or release one.
        is_plain = has_no_names and len(operations) == len(demands)
        machine_classes = MachineClasses(base, demands.values() if is_plain else None)
        class_by_machine = machine_classes.class_by_machine
        pools_with_ties: list[PoolCertainty] = []
        for pool in pools:
            key = (pool.owner, pool.pool)
            tied_classes = (
                machine_classes.select_classes(tied_machines.get(key, ()))
                if plain_samples is None
                else machine_classes.select_classes_of_bits(plain_samples.get_tied_machines(key))
            )
            pools_with_ties.append(replace(pool, tied_classes=tied_classes))
        pools = tuple(pools_with_ties)
    return SamplingResult(
        vms=sample_matches.compute_vm_certainties(matches, runs),
        pools={(pool.owner, pool.pool): pool for pool in pools},
        machine_classes=class_by_machine,
        outcomes=tuple(outcomes),
        fits=tuple(fits),
        uncertain_machines=unknown_cells.list_uncertain_machines(),
        alternatives={
            token: arrivals.alternatives[position]
            for position, token in enumerate(demands)
            if position in arrivals.alternatives
        },
        untried=arrivals.untried,
    )


def _can_use_tables(operations: Sequence[Operation]) -> bool:
    """Return whether tables know all that the operations of a plan depend on.

    They know no cells of VMs in unknown ones, and release no VM that the plan placed.
    """
    tokens = {
        operation.token for operation in operations if not isinstance(operation, ReleaseOperation)
    }
    for operation in operations:
        if isinstance(operation, PlaceOperation):
            is_known = operation.arrival is None
        elif isinstance(operation, OccupyOperation):
            is_known = operation.uses_rule_cells or bool(operation.placement.cells)
        else:
            is_known = operation.handle not in tokens
        if not is_known:
            return False
    return True


def _has_short_sessions(operations: Sequence[Operation]) -> bool:
    """Return whether shared tables are faster than a session for each row of equal VMs."""
    vms = 0
    sessions = 0
    for key, row in groupby(operations, _get_session_key):
        if key is not None:
            vms += sum(1 for _ in row)
            sessions += 1
    return vms <= MAX_PLAIN_SESSION_SIZE * sessions


def _get_session_key(operation: Operation) -> Hashable:
    """Return what the VMs of a session have in common; None for another operation."""
    if not isinstance(operation, PlaceOperation):
        return None
    demand = operation.demand
    return demand.vm.owner, demand.vm.pool, demand.sku, demand.constraints


def _build_plain_samples(base: RackScheduler, operations: Sequence[Operation]) -> PlainSamples:
    """Return tables for all samples of the operations of a plan."""
    from nexusform.scheduling.racks.uncertainty.plain_samples import PlainSamples

    return PlainSamples(base, operations)


class _UnknownCells:
    """Machines with VMs in unknown cells and an effect on the result.

    A machine has no effect if it fits every VM of the plan in every split, with all VMs placed
    there by any run. A machine without capacity for any has none either.
    """

    def __init__(
        self, base: RackScheduler, operations: Sequence[Operation], demands: Mapping[Token, Demand]
    ) -> None:
        """Record the machines of `base` with unknown cells, and the plan's changes.

        What its operations change on machines.
        """
        self._base = base
        self._demands = demands
        self._machines = base.list_machines_with_unknown_cells()
        # By machine: each collection of SKUs placed on it by a run, () for none.
        self._added_skus: dict[str, set[tuple[VmSku, ...]]] = {
            name: {()} for name in self._machines
        }
        self._released_machines: set[str] = set()
        # By machine: those of VMs staying on it.
        self._occupying_skus: dict[str, list[VmSku]] = {}
        for operation in operations:
            if isinstance(operation, ReleaseOperation):
                self._released_machines.add(base.get_vm(operation.handle).placement.machine)
            elif isinstance(operation, OccupyOperation):
                self._occupying_skus.setdefault(operation.placement.machine, []).append(
                    operation.sku
                )

    def add_run(self, placements: Sequence[Placement | None]) -> None:
        """Record the SKUs placed by one run on each of the machines with unknown cells.

        Placements are in the order of the demands.
        """
        # All cells are known.
        if not self._machines:
            return
        added_skus: dict[str, list[VmSku]] = {}
        for demand, placement in zip(self._demands.values(), placements, strict=True):
            if placement is not None and placement.machine in self._added_skus:
                added_skus.setdefault(placement.machine, []).append(demand.sku)
        for machine, skus in added_skus.items():
            self._added_skus[machine].add(tuple(sorted(skus, key=lambda sku: sku.name)))

    def list_uncertain_machines(self) -> tuple[str, ...]:
        """Return the machines where unknown NUMA cells decide if a VM of the plan fits.

        Machines are in site order.
        """
        skus = list(dict.fromkeys(demand.sku for demand in self._demands.values()))
        return tuple(
            name for name in self._machines if any(self._is_uncertain(name, sku) for sku in skus)
        )

    def _is_uncertain(self, machine: str, sku: VmSku) -> bool:
        """Return whether the unknown NUMA layout decides if a VM of the SKU fits there.

        The VMs placed by a run may decide it as well.
        """
        if machine not in self._released_machines and self._base.has_no_fitting_split(machine, sku):
            # It never fits: no VM leaves the machine.
            return False
        occupying_skus = self._occupying_skus.get(machine, [])
        return not all(
            self._base.can_fit_in_every_split(machine, sku, [*added_skus, *occupying_skus])
            # Those placed by a run.
            for added_skus in self._added_skus[machine]
        )


class _VmMatches(NamedTuple):
    """Runs with a VM on the same rack and machine as in the plan, and the numbers of both."""

    same_rack: int
    same_machine: int
    racks: int
    machines: int


class _SampleMatches:
    """Matches of all runs so far with the plan (`planned`), by VM, and by pool and rack."""

    def __init__(
        self, demands: Mapping[Token, Demand], planned: Mapping[Token, Placement | None]
    ) -> None:
        """Start to compare runs with the planned placements, by token of the VM.

        A placement of None is that of a VM without a machine.
        """
        self._pool_by_token = {
            token: (demand.vm.owner, demand.vm.pool) for token, demand in demands.items()
        }
        self._planned = {
            token: placement for token, placement in planned.items() if placement is not None
        }
        # Of each run, in the order of `demands`.
        self._placements_by_run: list[Sequence[Placement | None]] = []
        # VMs in the plan, by pool and rack.
        self._planned_counts: dict[PoolId, Counter[str]] = {}
        for token, pool in self._pool_by_token.items():
            counts = self._planned_counts.setdefault(pool, Counter())
            if token in self._planned:
                counts[self._planned[token].rack] += 1
        # Number of runs with the same count of a pool's VMs on a rack, and the other counts.
        self._same_counts: dict[PoolId, Counter[str]] = {}
        # By pool and rack.
        self._other_counts: dict[tuple[PoolId, str], set[int]] = {}

    def add_run(self, placements: Sequence[Placement | None]) -> None:
        """Add the placements of one run, in the order of the demands."""
        self._placements_by_run.append(placements)

    def compare_vms(self) -> dict[Token, _VmMatches]:
        """Compare all runs with the plan, and return the matches of each planned VM."""
        matches: dict[Token, _VmMatches] = {}
        positions_by_pool: dict[PoolId, list[int]] = {pool: [] for pool in self._planned_counts}
        columns = enumerate(zip(*self._placements_by_run, strict=True))
        for (token, pool), (position, placements) in zip(
            self._pool_by_token.items(), columns, strict=True
        ):
            positions_by_pool[pool].append(position)
            planned = self._planned.get(token)
            if planned is None:
                continue
            racks = [placement.rack for placement in placements if placement is not None]
            machines = [placement.machine for placement in placements if placement is not None]
            matches[token] = _VmMatches(
                racks.count(planned.rack),
                machines.count(planned.machine),
                len({planned.rack, *racks}),
                len({planned.machine, *machines}),
            )
        for pool, positions in positions_by_pool.items():
            self._compare_counts(pool, positions)
        return matches

    def _compare_counts(self, pool: PoolId, positions: Sequence[int]) -> None:
        """Compare the numbers of a pool's VMs per rack in each run with the plan.

        The VMs are at these positions of the placements of a run.
        """
        planned_counts = self._planned_counts[pool]
        same_counts = self._same_counts[pool] = Counter()
        for placements in self._placements_by_run:
            counts_in_run: dict[str, int] = {}
            for position in positions:
                placement = placements[position]
                if placement is not None:
                    rack = placement.rack
                    counts_in_run[rack] = counts_in_run.get(rack, 0) + 1
            for rack, planned_count in planned_counts.items():
                count_in_run = counts_in_run.get(rack, 0)
                if count_in_run == planned_count:
                    same_counts[rack] += 1
                else:
                    self._other_counts.setdefault((pool, rack), set()).add(count_in_run)

    def compute_vm_certainties(
        self, matches: Mapping[Token, _VmMatches], runs: int
    ) -> dict[Token, PlacementCertainty]:
        """Return by VM the shares of runs with its planned rack and machine.

        VMs are in plan order. A further share is that of runs with the planned number of its pool's
        VMs on that rack.

        `tied` are the numbers of different racks, machines and such numbers in all runs.
        """
        shares: dict[Token, PlacementCertainty] = {}
        for token, placement in self._planned.items():
            pool = self._pool_by_token[token]
            vm_matches = matches[token]
            other_counts = self._other_counts.get((pool, placement.rack), ())
            shares[token] = PlacementCertainty(
                rack=vm_matches.same_rack / runs,
                machine=vm_matches.same_machine / runs,
                rack_count=self._same_counts[pool][placement.rack] / runs,
                # 1: the planned number.
                tied=(vm_matches.racks, vm_matches.machines, 1 + len(other_counts)),
            )
        return shares

    def compute_pool_certainties(
        self, matches: Mapping[Token, _VmMatches], runs: int
    ) -> tuple[PoolCertainty, ...]:
        """Return one entry per pool, in the order of their first VM."""
        certain_vms: dict[PoolId, int] = {}
        for token in self._planned:
            pool = self._pool_by_token[token]
            is_certain = matches[token].same_machine == runs
            certain_vms[pool] = certain_vms.get(pool, 0) + is_certain
        return tuple(
            self._compute_pool_certainty(pool, count, runs) for pool, count in certain_vms.items()
        )

    def _compute_pool_certainty(self, pool: PoolId, certain_vms: int, runs: int) -> PoolCertainty:
        """Return the certainty of one pool over these runs."""
        planned_counts = self._planned_counts[pool]
        same_counts = self._same_counts[pool]  # by rack
        owner, name = pool
        return PoolCertainty(
            owner=owner,
            pool=name,
            vms_on_certain_machines=certain_vms,
            counts=dict(sorted(planned_counts.items())),
            certain_racks=tuple(
                sorted(rack for rack in planned_counts if same_counts[rack] == runs)
            ),
        )
