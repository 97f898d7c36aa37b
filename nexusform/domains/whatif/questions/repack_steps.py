"""The order of a repacking: which VMs are re-created together, what is cordoned meanwhile, and where the rule
of racks then puts each, whatever the tie-breaks.

A window is one plan with `-replace`: all its VMs leave, then they are placed in order of pool and number,
their own machine being tried last. That is what is played here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from itertools import chain
from math import ceil
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.domains.whatif.questions.repack_ground import (
    Constraint,
    RepackGround,
    RepackRequest,
    Source,
    demand_of,
    drain_is_held_up,
    starving,
)
from nexusform.domains.whatif.questions.repack_moves import Intention
from nexusform.domains.whatif.questions.repack_time import ENDLESS, Patience
from nexusform.kubernetes.quantity import amount_of
from nexusform.scheduling.racks.engine import RackScheduler
from nexusform.scheduling.racks.explanation import Ranking
from nexusform.scheduling.racks.vms import Demand, Hint, HintScope, Placement
from nexusform.worlds.availability import quorum_of

TIE_BREAKS: Final = 100
CORDONED: Final = "cordoned"


class RepackStep(Struct, frozen=True):
    """One VM that is re-created: it lands there in `lands` of `of` tie-breaks."""

    source: Source
    to: Placement
    lands: int = 0
    of: int = 0


class FollowedPod(Struct, frozen=True):
    """A pod of a node that is re-created: where it runs `meanwhile` and once all nodes are back (`then`), ""
    for nowhere. `certain`: any run of the scheduler would decide so.
    """

    cluster_id: str
    workload: str
    pod: str
    was: str
    meanwhile: str
    then: str
    certain: bool


class RepackWindow(Struct, frozen=True):
    """VMs that are re-created together while these machines take no VM, and their pods."""

    steps: tuple[RepackStep, ...]
    cordons: tuple[str, ...]
    pods: tuple[FollowedPod, ...] = ()


class Walk(Struct, frozen=True):
    """The windows in order, and the site after them."""

    windows: tuple[RepackWindow, ...]
    after: RackScheduler


def find_walk(
    ground: RepackGround, request: RepackRequest, intention: Intention, patience: Patience = ENDLESS
) -> Walk | None:
    """An order in which everybody lands and the demand has its room; None where none was found.

    First everybody lands where the rule has it among the machines that are not kept for the demand: that
    takes the fewest cordons. Where that does not leave the room, everybody is led to the place that was
    counted on, if one was counted on for all. An order in which a tie-break or a split of unknown cells may
    have somebody elsewhere is the last choice.
    """
    surest, most = None, 0.0
    for manner, is_strict in _ways(ground, intention):
        walk = _Walker(ground, request, intention, manner, is_strict=is_strict).walk(patience)
        if walk is None or not has_room(walk.after, request):
            continue
        certainty = least_certain(prove(ground, walk, patience)) if ground.scheduler.is_drawn else 1.0
        if certainty == 1.0:
            return walk
        if certainty > most or surest is None:
            surest, most = walk, certainty
    return surest


def _ways(ground: RepackGround, intention: Intention) -> list[tuple[_Manner, bool]]:
    """The manners to try, and whether whoever is led to a place must come there in every legal split."""
    if intention.crowded or not intention.targets:
        return [(_Manner.FREE, True)]
    if not ground.scheduler.is_drawn:
        return [(manner, True) for manner in _Manner if manner not in _FOR_UNKNOWN_CELLS]
    led = [manner for manner in _Manner if manner is not _Manner.FREE]
    return [(manner, True) for manner in _Manner] + [(manner, False) for manner in led]


class _Manner(Enum):
    """How an order is looked for: everybody lands where the rule has it, or is led to the place that was
    counted on. The others are for machines that are emptied for their cells to be known, and must be empty
    before anybody comes there: whoever goes elsewhere goes first, then those who come back, all at once, then
    whoever else comes there (`BY_TURNS`); or all at once who may be away together (`AT_ONCE`); or the largest
    go first, so that small ones do not take of a cell what a large one needs whole (`LARGEST`).
    """

    FREE = "free"
    STEERED = "steered"
    BY_TURNS = "by turns"
    AT_ONCE = "at once"
    LARGEST = "largest"


_COMES_BACK: Final = 1
_FOR_UNKNOWN_CELLS: Final = frozenset({_Manner.BY_TURNS, _Manner.AT_ONCE, _Manner.LARGEST})


def has_room(scheduler: RackScheduler, request: RepackRequest) -> bool:
    """Whether the rule takes all VMs of the demand, in every legal split."""
    return scheduler.count_free(request.demand).least >= request.want


class _Window:
    """A window on its way: the site in it, its VMs, where they land and who is cordoned."""

    def __init__(self, scheduler: RackScheduler, handles: Mapping[int, int]) -> None:
        self.scheduler = scheduler
        self.handles = dict(handles)
        self.landed: dict[int, tuple[Source, int, Placement]] = {}
        self.cordons: set[str] = set()

    @property
    def targets(self) -> set[str]:
        """The machines where somebody lands."""
        return {place.machine for _, _, place in self.landed.values()}


class _Walker:
    """Fills window after window."""

    def __init__(
        self,
        ground: RepackGround,
        request: RepackRequest,
        intention: Intention,
        manner: _Manner,
        *,
        is_strict: bool,
    ) -> None:
        self._ground = ground
        self._request = request
        self._intention = intention
        self._manner = manner
        self._steered = manner is not _Manner.FREE
        self._is_strict = is_strict and ground.scheduler.is_drawn
        self._emptied = {
            source.vm.placement.machine for source in intention.sources if not source.vm.placement.cells
        }
        self._scheduler = ground.scheduler.copy()
        self._anywhere: set[int] = set()
        # Who is where, or was given up, of those that were counted on.
        self._arrived: dict[int, str] = {}
        self._handles = {source.handle: source.handle for source in intention.sources}
        self._racks = {machine.name: machine.rack for machine in ground.scheduler.machines}
        self._standing = Counter(ground.standing)
        for source in intention.sources:
            self._standing[source.pool, source.vm.placement.rack] -= 1

    def walk(self, patience: Patience = ENDLESS) -> Walk | None:
        """All windows; None where nobody that is left can go, or time is over."""
        waiting = list(self._intention.sources)
        windows: list[RepackWindow] = []
        while waiting:
            if patience.is_over:
                return None
            chosen = self._fill(waiting, patience)
            window = None if patience.is_over else self._settle(chosen)
            if window is None:
                return None
            windows.append(self._close(window))
            gone = {step.source.handle for step in windows[-1].steps}
            waiting = [source for source in waiting if source.handle not in gone]
        return Walk(tuple(windows), self._scheduler)

    def _fill(self, waiting: Sequence[Source], patience: Patience) -> list[Source]:
        """As many VMs as may go together and find their places one after the other."""
        if self._manner is _Manner.AT_ONCE:
            return self._all_that_may(waiting)
        if self._manner is _Manner.LARGEST:
            sizes = [self._ground.kinds[source.kind].sku.memory_gib for source in waiting]
            waiting = [source for source, size in zip(waiting, sizes, strict=True) if size == max(sizes)]
        if self._manner is _Manner.BY_TURNS:
            turns = [self._turn(source) for source in waiting]
            waiting = [source for source, turn in zip(waiting, turns, strict=True) if turn == min(turns)]
            if min(turns) == _COMES_BACK:
                return self._all_that_may(waiting)
        window = _Window(self._scheduler.copy(), self._handles)
        chosen: list[Source] = []
        for source in waiting:
            if patience.is_over:
                break
            if self._may_join(chosen, source) and self._land(window, source):
                chosen.append(source)
        return chosen or self._one_elsewhere(waiting) or self._all_that_may(waiting)

    def _turn(self, source: Source) -> int:
        """When a VM goes: before, with, or after those who come back to machines that are emptied."""
        if self._comes_back(source):
            return _COMES_BACK
        target = self._intention.targets.get(source.handle, "")
        return _COMES_BACK + 1 if target in self._emptied else _COMES_BACK - 1

    def _one_elsewhere(self, waiting: Sequence[Source]) -> list[Source]:
        """Where nobody reaches the place that was counted on: one VM that finds another one."""
        if not self._steered:
            return []
        for source in waiting:
            self._anywhere.add(source.handle)
            self._arrived[source.handle] = self._intention.targets.get(source.handle, "")
            if self._land(_Window(self._scheduler.copy(), self._handles), source):
                return [source]
            self._anywhere.remove(source.handle)
            del self._arrived[source.handle]
        return []

    def _all_that_may(self, waiting: Sequence[Source]) -> list[Source]:
        """Two that stand in each other's way leave at once."""
        chosen: list[Source] = []
        for source in waiting:
            if self._may_join(chosen, source):
                chosen.append(source)
        return chosen

    def _settle(self, chosen: Sequence[Source]) -> _Window | None:
        """The window as its plan takes it: all leave first. A part of it where that changes too much."""
        size = len(chosen)
        while size:
            window = self._together(sorted(chosen[:size], key=lambda source: source.handle))
            if window is not None:
                return window
            size //= 2
        return None

    def _together(self, sources: Sequence[Source]) -> _Window | None:
        window = _Window(self._scheduler.copy(), self._handles)
        for source in sources:
            window.scheduler.release(window.handles.pop(source.handle))
        for source in sources:
            if not self._land(window, source):
                return None
        return window

    def _close(self, window: _Window) -> RepackWindow:
        """What the window leaves is the site of the next one."""
        self._scheduler = window.scheduler
        steps = []
        for source, handle, place in window.landed.values():
            self._handles[source.handle] = handle
            self._arrived[source.handle] = self._intention.targets.get(source.handle, "")
            self._standing[source.pool, place.rack] += 1
            steps.append(RepackStep(source, place))
        return RepackWindow(tuple(steps), tuple(sorted(window.cordons, key=str.encode)))

    # --- who goes together ---------------------------------------------------------------------

    def _may_join(self, chosen: Sequence[Source], source: Source) -> bool:
        """Whether one more VM may be away at the same time."""
        if self._request.window is not None and len(chosen) >= self._request.window:
            return False
        away = 1 + sum(other.pool == source.pool for other in chosen)
        if away > most_away(self._ground, source.pool):
            return False
        return not self._troubles_pods(chosen, source)

    def _troubles_pods(self, chosen: Sequence[Source], source: Source) -> bool:
        """Whether the nodes that are away together leave a PodDisruptionBudget too little, or pods without
        hugepages or devices.
        """
        cluster = self._ground.clusters[source.pool]
        pods = self._ground.pods.get(cluster.id)
        if pods is None:
            return False
        nodes = {source.vm.name}
        nodes |= {other.vm.name for other in chosen if self._ground.clusters[other.pool].id == cluster.id}
        if len(nodes) == 1:
            return False
        return drain_is_held_up(pods, nodes) or bool(starving(pods, pods.standing, nodes))

    # --- where a VM lands ----------------------------------------------------------------------

    def _land(self, window: _Window, source: Source) -> bool:
        """Have a VM land where it should, by cordoning whatever the rule would rather take."""
        if source.handle in window.handles:
            window.scheduler.release(window.handles.pop(source.handle))
        demand = demand_of(self._ground.pools[source.pool], source.vm)
        cordons = set(window.cordons)
        own = source.vm.placement.machine
        if self._is_out_of_reach(window, source, away_from(demand, cordons)):
            return self._stays(window, source)
        ranking = window.scheduler.ranking(demand)
        cordons |= self._rivals(ranking, source)
        if cordons & window.targets:
            return self._stays(window, source)
        while True:
            # Its own machine is tried last, and only where nothing else is left: that helps nobody, unless
            # it was emptied for its cells to be known.
            away = cordons if self._comes_back(source) else {*cordons, own}
            best = ranking.best(away).in_some
            target = self._choose(window, source, best)
            if target and not self._is_sure(window, ranking, away | best, target):
                target = ""
            unwanted = best - {target}
            if not best or unwanted & window.targets:
                return self._stays(window, source)
            cordons |= unwanted
            if target:
                break
        answer = self._led(window, demand, cordons, target)
        if answer is None:
            return self._stays(window, source)
        window.cordons = cordons
        window.landed[source.handle] = (source, *answer)
        return True

    @staticmethod
    def _led(window: _Window, demand: Demand, cordons: set[str], target: str) -> tuple[int, Placement] | None:
        """Have a VM placed; machines that the rule takes rather are cordoned, too. A VM comes back to its own
        machine only where no other one takes it.
        """
        while (answer := window.scheduler.attempt(away_from(demand, cordons))) is not None:
            handle, place = answer
            if place.machine == target:
                return answer
            window.scheduler.release(handle)
            if place.machine in window.targets:
                return None
            cordons.add(place.machine)
        return None

    def _rivals(self, ranking: Ranking, source: Source) -> set[str]:
        """Whoever takes, in any split, a VM that comes back to its machine: the draw shows those of one."""
        rivals: set[str] = set()
        if self._is_strict and self._comes_back(source):
            own = source.vm.placement.machine
            while others := ranking.best({*rivals, own}).in_some:
                rivals |= others
        return rivals

    def _is_sure(self, window: _Window, ranking: Ranking, away: AbstractSet[str], target: str) -> bool:
        """Whether the VM lands there in every legal split, once the other best machines are cordoned."""
        if not self._is_strict or not window.scheduler.is_drawn:
            return True
        return target in ranking.best(away - {target}).in_all

    def _stays(self, window: _Window, source: Source) -> bool:
        """The VM cannot go in this window: back to where it stood."""
        pool = self._ground.pools[source.pool]
        name = demand_of(pool, source.vm).vm
        window.handles[source.handle] = window.scheduler.occupy(name, pool.sku, source.vm.placement)
        return False

    def _choose(self, window: _Window, source: Source, best: Collection[str]) -> str:
        """Which of the best machines it should be, "" for none of them."""
        off = self._kept_off(window, source)
        best = {machine for machine in best if not {machine, self._rack(machine)} & off}
        if self._steered:
            target = self._intention.targets.get(source.handle, "")
            if target in best and self._keeps_spread(window, source, target):
                return target
            if source.handle not in self._anywhere:
                return ""
        best -= self._expected() if self._steered else frozenset()
        allowed = (machine for machine in best if self._is_allowed(window, source, machine))
        return min(allowed, key=str.encode, default="")

    def _expected(self) -> frozenset[str]:
        """The machines that others were counted on to come to."""
        waiting = self._intention.targets.items() - self._arrived.items()
        return frozenset(machine for _, machine in waiting)

    def _kept_off(self, window: _Window, source: Source) -> frozenset[str]:
        """The machines and racks where separation rules do not want it."""
        if not self._request.apart:
            return frozenset()
        name = demand_of(self._ground.pools[source.pool], source.vm).vm
        standing = list(window.scheduler.vms())
        vm = name.owner, name.pool, name.number
        off = (rule.keeps_off(vm, standing) for rule in self._request.apart)
        return frozenset(chain.from_iterable(off))

    def _rack(self, machine: str) -> str:
        return self._racks[machine]

    def _is_allowed(self, window: _Window, source: Source, machine: str) -> bool:
        """Whether a VM may land there without taking the demand's room, or crowding a rack."""
        if machine in self._intention.demanded or machine == source.vm.placement.machine:
            return False
        return self._keeps_spread(window, source, machine)

    def _keeps_spread(self, window: _Window, source: Source, machine: str) -> bool:
        """Whether the rack of a machine may have one more VM of the pool."""
        rack = self._rack(machine)
        there = self._standing[source.pool, rack]
        there += sum(
            other.pool == source.pool and place.rack == rack for other, _, place in window.landed.values()
        )
        limit = max(self._ground.limits[source.pool], self._ground.standing.get((source.pool, rack), 0))
        return there + 1 <= limit

    def _comes_back(self, source: Source) -> bool:
        """Whether a VM was counted on to come back to its machine."""
        own = source.vm.placement.machine
        return self._steered and self._intention.targets.get(source.handle) == own

    def _is_out_of_reach(self, window: _Window, source: Source, asked: Demand) -> bool:
        """Whether the place that was counted on is taken still."""
        if not self._steered or source.handle in self._anywhere:
            return False
        target = self._intention.targets.get(source.handle, "")
        return not target or bool(window.scheduler.refusal(target, asked))


def away_from(demand: Demand, machines: Iterable[str]) -> Demand:
    """The demand while these machines take no VM."""
    names = frozenset(machines)
    if not names:
        return demand
    cordon = Hint(
        affinity=False, hard=True, scope=HintScope.MACHINE, machines=names, racks=frozenset(), target=CORDONED
    )
    return replace(demand, terms=replace(demand.terms, hints=(*demand.terms.hints, cordon)))


def most_away(ground: RepackGround, number: int) -> int:
    """How many VMs of a pool may be away at once, 1 at least."""
    pool = ground.pools[number]
    count = len(pool.vms)
    if pool.control_plane:
        return max(count - quorum_of(count), 1)
    if Constraint.MAX_UNAVAILABLE in ground.lifted:
        return count
    return max(amount_of(pool.demand.max_unavailable, count), 1)


def fewest_windows(ground: RepackGround, request: RepackRequest, windows: Sequence[RepackWindow]) -> int:
    """With fewer windows the VMs of these could not go, whatever their order."""
    going = Counter(step.source.pool for window in windows for step in window.steps)
    fewest = [ceil(count / most_away(ground, pool)) for pool, count in going.items()]
    if request.window is not None:
        fewest.append(ceil(sum(going.values()) / request.window))
    return max(fewest, default=0)


# --- the proof ---------------------------------------------------------------------------------


def prove(ground: RepackGround, walk: Walk, patience: Patience = ENDLESS) -> tuple[RepackWindow, ...]:
    """Play every window through the rule with its machines cordoned, under 100 tie-breaks, or under as many
    as there is time for.
    """
    standing = {vm.handle: vm for vm in ground.scheduler.vms()}
    proved: list[RepackWindow] = []
    for number, window in enumerate(walk.windows):
        machines = [
            replace(machine, refusal=CORDONED) if machine.name in window.cordons else machine
            for machine in ground.scheduler.machines
        ]
        base = RackScheduler(
            machines, ground.scheduler.spread, ground.scheduler.seed, split_seed=ground.scheduler.split_seed
        )
        leaving = {step.source.handle for step in window.steps}
        for handle, vm in standing.items():
            if handle not in leaving:
                base.occupy(vm.vm, vm.sku, vm.placement)
        part = patience.part(1 / (len(walk.windows) - number))
        proved.append(replace(window, steps=tuple(_lands(ground, base, window, part))))
        for step in window.steps:
            handle = step.source.handle
            standing[handle] = replace(standing[handle], placement=step.to)
    return tuple(proved)


def least_certain(windows: Iterable[RepackWindow]) -> float:
    """In which share of the tie-breaks that were played the least certain VM lands where it should."""
    return min((step.lands / step.of for window in windows for step in window.steps if step.of), default=1.0)


def _lands(
    ground: RepackGround, base: RackScheduler, window: RepackWindow, patience: Patience
) -> Iterable[RepackStep]:
    """How often each VM of a window lands where it should."""
    if _is_decided(ground, base, window):
        yield from (replace(step, lands=TIE_BREAKS, of=TIE_BREAKS) for step in window.steps)
        return
    hits: Counter[int] = Counter()
    runs = 0
    for run in range(TIE_BREAKS):
        scheduler = base.copy(run, run)
        for step in window.steps:
            answer = scheduler.attempt(demand_of(ground.pools[step.source.pool], step.source.vm))
            if answer is not None and answer[1].machine == step.to.machine:
                hits[step.source.handle] += 1
        runs += 1
        if patience.is_over:
            break
    for step in window.steps:
        yield replace(step, lands=hits[step.source.handle], of=runs)


def _is_decided(ground: RepackGround, base: RackScheduler, window: RepackWindow) -> bool:
    """Whether the rule leaves tie-breaks nothing to decide: one machine is best for every VM of the window,
    the one where it should land. Then all tie-breaks come to the same, and one walk is as good as a hundred.
    """
    if base.is_drawn:
        return False
    scheduler = base.copy()
    for step in window.steps:
        demand = demand_of(ground.pools[step.source.pool], step.source.vm)
        ranking = scheduler.ranking(demand)
        own = {demand.last_resort} if demand.last_resort is not None else set()
        best = ranking.best(own).in_some or ranking.best().in_some
        answer = scheduler.attempt(demand)
        if best != {step.to.machine} or answer is None or answer[1].machine != step.to.machine:
            return False
    return True
