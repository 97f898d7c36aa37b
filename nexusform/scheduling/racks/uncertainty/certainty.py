"""How much of a plan's placements hangs on ties: the same operations under other seeds.

A plan's walk is kept as a list of operations; `repeat` plays it again from the situation before the
walk with the seeds 0, 1, 2, ... and compares every VM's place with the plan's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from nexusform.scheduling.decision import Certainty
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.uncertainty.splits import Way
from nexusform.scheduling.racks.vms import Demand, Placement, VmName, VmSku

Token = Hashable
PoolId = tuple[str, str]


class VmPlaced(Struct, frozen=True):
    """A VM was placed. `token` names it for later operations and in the answer."""

    token: Token
    demand: Demand


class VmReleased(Struct, frozen=True):
    """A VM left: one placed by an earlier operation (by token), or one that stood before (by handle)."""

    token: Token = None
    handle: int | None = None


class Stand(Struct, frozen=True):
    """A VM was set on a machine that the plan did not choose (a pinned one).

    With `by_rule` it takes the cells that the rule gives it there, otherwise those of `placement`. It has
    no certainty of its own.
    """

    token: Token
    vm: VmName
    sku: VmSku
    placement: Placement
    by_rule: bool = False


Operation = VmPlaced | VmReleased | Stand


class PoolCertainty(Struct, frozen=True):
    """What held for the VMs that the plan placed for one pool.

    `machine_certain` VMs stood on one machine in every run. `counts` are VMs per rack in the plan,
    `certain_racks` the racks whose count was the same in every run.
    """

    owner: str
    pool: str
    machine_certain: int
    counts: Mapping[str, int]
    certain_racks: tuple[str, ...]

    @property
    def vms_on_certain_counts(self) -> int:
        """VMs on racks whose count held in every run ("VMs per rack certain for 24 of 24")."""
        return sum(self.counts.get(rack, 0) for rack in self.certain_racks)


class RepeatedRuns(Struct, frozen=True):
    """The outcome of repetitions.

    `outcomes[run][token]` is where the VM stood, None where it did not fit; it is kept only when asked
    for. `fits[run]` says whether every VM found a place. `drawn` are the machines of which it hangs on cells
    that nobody told whether they take one of the VMs.
    """

    vms: Mapping[Token, Certainty]
    pools: tuple[PoolCertainty, ...]
    outcomes: tuple[Mapping[Token, Placement | None], ...] = ()
    fits: tuple[bool, ...] = ()
    drawn: tuple[str, ...] = ()


FEWEST_RUNS = 10
MOST_RUNS = 100
MOST_PLACEMENTS = 200_000


def default_runs(vms: int) -> int:
    """How often to repeat a plan that places this many VMs: 100 times, less for large plans, or never."""
    if vms <= 0:
        return 0
    runs = min(MOST_RUNS, MOST_PLACEMENTS // vms)
    return runs if runs >= FEWEST_RUNS else 0


def replay(
    base: RackScheduler,
    operations: Sequence[Operation],
    seed: int | None = None,
    split_seed: Way | None = None,
) -> dict[Token, Placement | None]:
    """Play the operations on a copy of `base`: where each placed VM stands, None where it did not fit.

    The release of a VM that did not fit is passed over.
    """
    scheduler = base.copy(seed, split_seed)
    handles: dict[Token, int] = {}
    placed: dict[Token, Placement | None] = {}
    for operation in operations:
        if isinstance(operation, VmPlaced):
            answer = scheduler.attempt(operation.demand)
            placed[operation.token] = None
            if answer is not None:
                handles[operation.token], placed[operation.token] = answer
        elif isinstance(operation, Stand):
            handles[operation.token] = _stand(scheduler, operation)
        elif operation.handle is not None:
            scheduler.release(operation.handle)
        elif operation.token in handles:
            scheduler.release(handles.pop(operation.token))
    return placed


def _stand(scheduler: RackScheduler, operation: Stand) -> int:
    """A VM comes without being placed; its handle."""
    placement = operation.placement
    if operation.by_rule:
        placement = replace(placement, cells=scheduler.cells_for(operation.sku, placement.machine))
    return scheduler.occupy(operation.vm, operation.sku, placement)


def repeat(
    base: RackScheduler,
    operations: Sequence[Operation],
    runs: int,
    *,
    first: int = 0,
    keep_outcomes: bool = False,
    played: Callable[[int], None] = lambda _runs: None,
) -> RepeatedRuns:
    """Play the operations with so many seeds from `first` on, each of which draws ties and splits, and
    compare with those of `base`'s own seeds.

    `base` is as it was before the first operation, and stays so. With no runs nothing is known and
    the answer is empty. A VM that the plan could not place has no certainty; one that a run could not
    place does not match in that run. `played` is told how many runs are over.
    """
    if runs <= 0:
        return RepeatedRuns({}, ())
    actual = replay(base, operations)
    demands = {
        operation.token: operation.demand for operation in operations if isinstance(operation, VmPlaced)
    }
    tallies = _Tallies(demands, actual)
    cells = _UnknownCells(base, operations, demands)
    cells.take(actual)
    outcomes = []
    fits: list[bool] = []
    for seed in range(first, first + runs):
        outcome = replay(base, operations, seed, seed)
        fits.append(None not in outcome.values())
        tallies.compare(outcome)
        cells.take(outcome)
        if keep_outcomes:
            outcomes.append(outcome)
        played(len(fits))
    return RepeatedRuns(tallies.vms(runs), tallies.pools(runs), tuple(outcomes), tuple(fits), cells.drawn())


class _UnknownCells:
    """Which machines with VMs whose cells nobody told make a difference: one that takes every VM of the plan
    in every legal split, with all that any run put there, makes none, and neither does one that takes none.
    """

    def __init__(
        self, base: RackScheduler, operations: Sequence[Operation], demands: Mapping[Token, Demand]
    ) -> None:
        self._base = base
        self._demands = demands
        self._loose = base.loose_machines()
        self._coming: dict[str, set[tuple[VmSku, ...]]] = {name: {()} for name in self._loose}
        self._leaving: set[str] = set()
        self._standing: dict[str, list[VmSku]] = {}
        for operation in operations if self._loose else ():
            if isinstance(operation, VmReleased) and operation.handle is not None:
                self._leaving.add(base.vm(operation.handle).placement.machine)
            elif isinstance(operation, Stand):
                self._standing.setdefault(operation.placement.machine, []).append(operation.sku)

    def take(self, outcome: Mapping[Token, Placement | None]) -> None:
        """Take one run into account."""
        if not self._loose:
            return
        coming: dict[str, list[VmSku]] = {}
        for token, place in outcome.items():
            if place is not None and place.machine in self._coming:
                coming.setdefault(place.machine, []).append(self._demands[token].sku)
        for machine, skus in coming.items():
            self._coming[machine].add(tuple(sorted(skus, key=lambda sku: sku.name)))

    def drawn(self) -> tuple[str, ...]:
        """The machines that make one, in site order."""
        skus = list(dict.fromkeys(demand.sku for demand in self._demands.values()))
        return tuple(name for name in self._loose if any(self._is_drawn(name, sku) for sku in skus))

    def _is_drawn(self, machine: str, sku: VmSku) -> bool:
        if machine not in self._leaving and self._base.never_fits(machine, sku):
            return False
        standing = self._standing.get(machine, [])
        return not all(
            self._base.always_fits(machine, sku, [*coming, *standing]) for coming in self._coming[machine]
        )


class _Tallies:
    """What matched so far."""

    def __init__(self, demands: Mapping[Token, Demand], actual: Mapping[Token, Placement | None]) -> None:
        self._pool_of: dict[Token, PoolId] = {
            token: (demand.vm.owner, demand.vm.pool) for token, demand in demands.items()
        }
        self._actual = {token: place for token, place in actual.items() if place is not None}
        self._racks: Counter[Token] = Counter()
        self._machines: Counter[Token] = Counter()
        self._counts = self._per_rack(self._actual)
        # In how many runs a rack had as many VMs of a pool, and which other numbers it had.
        self._same_counts: dict[PoolId, Counter[str]] = {pool: Counter() for pool in self._counts}
        self._other_counts: dict[tuple[PoolId, str], set[int]] = {}
        self._places_seen: dict[Token, tuple[set[str], set[str]]] = {
            token: ({place.rack}, {place.machine}) for token, place in self._actual.items()
        }

    def _per_rack(self, outcome: Mapping[Token, Placement | None]) -> dict[PoolId, Counter[str]]:
        """How many VMs of each pool a rack has."""
        counts: dict[PoolId, Counter[str]] = {}
        for token, place in outcome.items():
            tally = counts.setdefault(self._pool_of[token], Counter())
            if place is not None:
                tally[place.rack] += 1
        return counts

    def compare(self, outcome: Mapping[Token, Placement | None]) -> None:
        """Take one run into account."""
        for token, place in self._actual.items():
            place_in_run = outcome[token]
            if place_in_run is None:
                continue
            if place_in_run.machine != place.machine:
                racks, machines = self._places_seen[token]
                racks.add(place_in_run.rack)
                machines.add(place_in_run.machine)
            else:
                self._machines[token] += 1
            self._racks[token] += place_in_run.rack == place.rack
        counts_in_run = self._per_rack(outcome)
        for pool, counts in self._counts.items():
            pool_counts: Mapping[str, int] = counts_in_run.get(pool, {})
            same_counts = self._same_counts[pool]
            for rack, count in counts.items():
                count_in_run = pool_counts.get(rack, 0)
                if count_in_run == count:
                    same_counts[rack] += 1
                else:
                    self._other_counts.setdefault((pool, rack), set()).add(count_in_run)

    def vms(self, runs: int) -> dict[Token, Certainty]:
        """Shares per VM, in the order of the operations."""
        shares: dict[Token, Certainty] = {}
        for token, place in self._actual.items():
            pool = self._pool_of[token]
            racks, machines = self._places_seen[token]
            other_counts = self._other_counts.get((pool, place.rack), ())
            shares[token] = Certainty(
                rack=self._racks[token] / runs,
                machine=self._machines[token] / runs,
                rack_count=self._same_counts[pool][place.rack] / runs,
                tied=(len(racks), len(machines), 1 + len(other_counts)),
            )
        return shares

    def pools(self, runs: int) -> tuple[PoolCertainty, ...]:
        """One entry per pool, in the order of their first VM."""
        members: dict[PoolId, list[Token]] = {}
        for token in self._actual:
            members.setdefault(self._pool_of[token], []).append(token)
        return tuple(self._pool(pool, tokens, runs) for pool, tokens in members.items())

    def _pool(self, pool: PoolId, tokens: Sequence[Token], runs: int) -> PoolCertainty:
        """The certainty of one pool over so many runs."""
        counts, same_counts = self._counts[pool], self._same_counts[pool]
        owner, name = pool
        return PoolCertainty(
            owner=owner,
            pool=name,
            machine_certain=sum(self._machines[token] == runs for token in tokens),
            counts=dict(sorted(counts.items())),
            certain_racks=tuple(sorted(rack for rack in counts if same_counts[rack] == runs)),
        )
