"""Orders and times in which VMs may arrive at a platform that places several at the same time.

Heat starts independent resources at once, so Nova gets their servers in any order. A VM that still
builds counts for Nova's io_ops weigher, one that has finished does not. `search_arrivals` places
the VMs of a plan in every order, with every earlier VM in both states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.scheduling.racks.vms import Demand, Hint, HintScope, Placement, VmName

if TYPE_CHECKING:
    from nexusform.scheduling.racks.rack_scheduler import RackScheduler

# VMs that are requested at once: the address of their object, and their pool.
Stage = tuple[str, str]
# Decisions of one search, and the machines that they weigh in all; more are not tried.
MAX_DECISIONS: Final = 2_000
MAX_WEIGHED_MACHINES: Final = 200_000
UNTRIED: Final = "more orders of arrival are possible than were tried"
REMOVALS: Final = "VMs that the plan removes may still run when new VMs arrive"
_FINISHED: Final = "if earlier VMs have finished building"
_PARTLY_FINISHED: Final = "if some earlier VMs have finished building"
_NO_HOST: Final = "no host"


class GroupMembership(Struct, frozen=True):
    """Placement group of a VM; its other members may be placed before or after it.

    `existing` are the machines, racks and numbers of members that exist before the plan. `name` is
    the one of hints. `max_vms` members may share a location with anti-affinity.
    """

    key: Hashable
    name: str
    is_affinity: bool
    is_hard: bool
    scope: HintScope
    max_vms: int = 1
    existing: tuple[tuple[str, str, int], ...] = ()

    def build_hint(self, machines: Mapping[str, int], racks: Mapping[str, int]) -> Hint | None:
        """Build the hint for the next VM from the numbers of members, None without members.

        Affinity prefers the locations of all members. Anti-affinity avoids those with the maximum.
        """
        if not machines:
            return None
        threshold = 1 if self.is_affinity else self.max_vms
        return Hint(
            is_affinity=self.is_affinity,
            is_hard=self.is_hard,
            scope=self.scope,
            machines=_select_frequent_names(machines, threshold),
            racks=_select_frequent_names(racks, threshold),
            target=self.name,
            vms_by_machine=tuple(sorted(machines.items())),
        )


def _select_frequent_names(counts: Mapping[str, int], minimum: int) -> frozenset[str]:
    return frozenset(name for name, count in counts.items() if count >= minimum)


class Arrival(Struct, frozen=True):
    """Arrival of a VM at the platform.

    All VMs of the `awaited` stages are complete before. The other VMs of a plan may arrive before
    or after it.
    """

    stage: Stage
    awaited: frozenset[Stage] = frozenset()
    groups: tuple[GroupMembership, ...] = ()


class ArrivingVm(Struct, frozen=True):
    """VM to place, in the order of the plan."""

    demand: Demand
    arrival: Arrival

    @property
    def name(self) -> str:
        """Name of the VM."""
        return format_vm_name(self.demand.vm)

    @property
    def kind(self) -> Hashable:
        """Key that equal VMs share: these may arrive in place of each other."""
        return (self.arrival.stage, self.demand.sku, self.demand.last_resort)


def format_vm_name(vm: VmName) -> str:
    """Return the displayed name of a VM outside of sessions: `vnf-worker-0`."""
    return f"{vm.cluster}-{vm.pool}-{vm.number}"


class GroupMembers:
    """Members of placement groups so far, by the key of the group."""

    def __init__(self) -> None:
        """Start without members."""
        self._counts: dict[Hashable, tuple[Counter[str], Counter[str]]] = {}

    def add(self, arrival: Arrival, machine: str, rack: str) -> None:
        """Count a placed VM in its groups."""
        for group in arrival.groups:
            machines, racks = self._get_counts(group)
            machines[machine] += 1
            racks[rack] += 1

    def adapt_demand(self, demand: Demand, arrival: Arrival) -> Demand:
        """Return the demand with the hints of its groups as they are now."""
        if not arrival.groups:
            return demand
        names = {group.name for group in arrival.groups}
        hints = [hint for hint in demand.hints if hint.target not in names]
        hints += filter(
            None, (group.build_hint(*self._get_counts(group)) for group in arrival.groups)
        )
        return replace(demand, constraints=replace(demand.constraints, hints=tuple(hints)))

    def _get_counts(self, group: GroupMembership) -> tuple[Counter[str], Counter[str]]:
        if group.key not in self._counts:
            machines: Counter[str] = Counter()
            racks: Counter[str] = Counter()
            for machine, rack, number in group.existing:
                machines[machine] += number
                racks[rack] += number
            self._counts[group.key] = (machines, racks)
        return self._counts[group.key]


class BuildingVms:
    """VMs of a plan that still build, by their stage."""

    def __init__(self) -> None:
        """Start without VMs."""
        self._machines: dict[Stage, list[str]] = {}

    def finish_awaited(self, arrival: Arrival, scheduler: RackScheduler) -> None:
        """Finish the VMs that are complete before a VM arrives."""
        for stage in self._machines.keys() & arrival.awaited:
            for machine in self._machines.pop(stage):
                scheduler.finish_build(machine)

    def add(self, arrival: Arrival, machine: str) -> None:
        """Add a VM that was placed, and builds."""
        self._machines.setdefault(arrival.stage, []).append(machine)


def draw_order(arrivals: Sequence[Arrival], sample: int) -> list[int]:
    """Draw an order of arrival that the stages allow; return positions in `arrivals`."""
    positions: dict[Stage, list[int]] = {}
    for position, arrival in enumerate(arrivals):
        positions.setdefault(arrival.stage, []).append(position)
    unplaced = {stage: len(members) for stage, members in positions.items()}
    waiting: dict[Stage, set[Stage]] = {}
    dependents: dict[Stage, list[Stage]] = {}
    for stage, members in positions.items():
        waiting[stage] = {
            awaited
            for member in members[:1]
            for awaited in arrivals[member].awaited & unplaced.keys()
        } - {stage}
        for awaited in waiting[stage]:
            dependents.setdefault(awaited, []).append(stage)
    ready = [
        (_draw_number(sample, position), position)
        for stage, members in positions.items()
        if not waiting[stage]
        for position in members
    ]
    heapify(ready)
    order: list[int] = []
    while ready:
        _, position = heappop(ready)
        order.append(position)
        stage = arrivals[position].stage
        unplaced[stage] -= 1
        for dependent in dependents.get(stage, ()) if not unplaced[stage] else ():
            waiting[dependent].discard(stage)
            if not waiting[dependent]:
                for member in positions[dependent]:
                    heappush(ready, (_draw_number(sample, member), member))
    return order


def draws_finished(position: int, sample: int) -> bool:
    """Return whether a sample assumes that a VM finishes before the next one arrives.

    All VMs build in one of three samples, none in another one, and half of them in the rest.
    """
    if sample % 3 < 2:
        return sample % 3 == 1
    return _draw_number(-sample - 1, position)[0] % 2 == 1


def _draw_number(sample: int, position: int) -> bytes:
    return blake2b(f"{sample}|{position}".encode(), digest_size=8).digest()


class ArrivalResults(Struct, frozen=True):
    """Results of all tried orders and times.

    `placements` are different results for all VMs, in the order of the plan. `alternatives` are
    other locations by position of the VM, with their condition: `c3 if b arrives first`.
    `untried` is a clause on what was not tried, "" if all was.
    """

    placements: tuple[tuple[Placement | None, ...], ...] = ()
    alternatives: Mapping[int, str] = field(default_factory=dict)
    untried: str = ""


class _PlacedVm(NamedTuple):
    """Position of a VM in the plan, and its placement, None if no host fits."""

    position: int
    placement: Placement | None


class _Situation(Struct, frozen=True):
    """Situation after some VMs arrived, in this order."""

    scheduler: RackScheduler
    placed: tuple[_PlacedVm, ...] = ()


class _Outcome(NamedTuple):
    """Possible machine of a VM, "" without one, and the condition on the time of earlier VMs."""

    machine: str
    condition: str


def search_arrivals(
    base: RackScheduler,
    vms: Sequence[ArrivingVm],
    planned: Sequence[Placement | None],
    maximum: int | None = None,
) -> ArrivalResults:
    """Place the VMs in every order that their stages allow, at every time of earlier VMs.

    `base` is the scheduler before the first VM. `planned` are the placements of the plan. Equal VMs
    of a stage arrive in one order, then take each other's place. The search ends after `maximum`
    decisions, by default fewer on a site of many machines.
    """
    if maximum is None:
        maximum = min(MAX_DECISIONS, MAX_WEIGHED_MACHINES // max(len(base.machines), 1))
    return _ArrivalSearch(base, vms, planned, maximum).run()


class _ArrivalSearch:
    """Breadth-first search: the situations after one VM, after two, and so on."""

    def __init__(
        self,
        base: RackScheduler,
        vms: Sequence[ArrivingVm],
        planned: Sequence[Placement | None],
        maximum: int,
    ) -> None:
        self._base = base
        self._vms = vms
        self._planned = planned
        self._left = maximum
        self._machines = {machine.name: machine for machine in base.machines}
        self._alternatives: dict[int, str] = {}
        # The positions of equal VMs, by their first one, and those of each stage.
        positions_by_kind: dict[Hashable, list[int]] = {}
        self._positions_by_stage: dict[Stage, list[int]] = {}
        for position, vm in enumerate(vms):
            positions_by_kind.setdefault(vm.kind, []).append(position)
            self._positions_by_stage.setdefault(vm.arrival.stage, []).append(position)
        self._equal_vms = list(positions_by_kind.values())

    def run(self) -> ArrivalResults:
        """Search until all orders are tried, or too many decisions were made."""
        situations = [_Situation(self._base.copy())]
        is_complete = True
        for _ in self._vms:
            found: dict[Hashable, _Situation] = {}
            for situation in situations:
                if self._left <= 0:
                    is_complete = False
                    break
                self._add_next_situations(situation, found)
            situations = list(found.values())
        if not is_complete:
            self._exchange_equal_vms(())
            return ArrivalResults((), self._alternatives, UNTRIED)
        results = [self._list_placements(situation) for situation in situations]
        self._exchange_equal_vms(results)
        all_results = dict.fromkeys([*results, *map(self._rotate_equal_vms, results)])
        all_results.pop(tuple(self._planned), None)
        return ArrivalResults(tuple(all_results), self._alternatives)

    def _add_next_situations(
        self, situation: _Situation, found: dict[Hashable, _Situation]
    ) -> None:
        """Add the situations after one more VM."""
        arrived = {placed.position for placed in situation.placed}
        for position in self._list_next(arrived):
            for outcome in self._list_outcomes(situation, position):
                self._record_alternative(situation, position, outcome)
                placement = self._build_placement(situation, position, outcome.machine)
                placed = (*situation.placed, _PlacedVm(position, placement))
                key = self._build_key(placed)
                if key not in found:
                    found[key] = self._place(situation, placed)

    def _list_next(self, arrived: set[int]) -> Iterator[int]:
        """Yield the VMs that may arrive next: of equal ones the first."""
        for positions in self._equal_vms:
            position = next((number for number in positions if number not in arrived), None)
            if position is not None and all(
                member in arrived
                for stage in self._vms[position].arrival.awaited
                for member in self._positions_by_stage.get(stage, ())
            ):
                yield position

    def _list_outcomes(self, situation: _Situation, position: int) -> list[_Outcome]:
        """Return the machines that a VM may get, each once."""
        vm = self._vms[position]
        members = GroupMembers()
        for placed in situation.placed:
            if placed.placement is not None:
                members.add(
                    self._vms[placed.position].arrival,
                    placed.placement.machine,
                    placed.placement.rack,
                )
        demand = members.adapt_demand(vm.demand, vm.arrival)
        times = self._list_times(situation, position)
        tied_machines = situation.scheduler.list_tied_machines(demand, [time for time, _ in times])
        self._left -= len(tied_machines)
        outcomes: dict[str, str] = {}
        for (_, condition), machines in zip(times, tied_machines, strict=False):
            for machine in machines:
                outcomes.setdefault(machine, condition)
        return [_Outcome(*item) for item in outcomes.items()] or [_Outcome("", "")]

    def _list_times(
        self, situation: _Situation, position: int
    ) -> list[tuple[Mapping[str, int], str]]:
        """Return the numbers of VMs that build by machine, as of the plan first, with conditions.

        Nova scales the numbers to 0 to 1. So a host is at its best or worst if only its VMs build,
        or only those of all others.
        """
        finished = set(self._vms[position].arrival.awaited)
        for placed in situation.placed:
            finished |= self._vms[placed.position].arrival.awaited
        building = Counter(
            placed.placement.machine
            for placed in situation.placed
            if placed.placement is not None
            and self._vms[placed.position].arrival.stage not in finished
        )
        times: list[tuple[Mapping[str, int], str]] = [(building, "")]
        if building:
            times.append(({}, _FINISHED))
            times.append((dict.fromkeys(building, 1), _PARTLY_FINISHED))
        for machine in building if len(building) > 1 else ():
            others = {other: 1 for other in building if other != machine}
            times += [({machine: 1}, _PARTLY_FINISHED), (others, _PARTLY_FINISHED)]
        return times

    def _build_placement(
        self, situation: _Situation, position: int, machine_name: str
    ) -> Placement | None:
        if not machine_name:
            return None
        machine = self._machines[machine_name]
        cells = situation.scheduler.select_cells(self._vms[position].demand.sku, machine_name)
        return Placement(machine.name, machine.rack, machine.availability_zone, cells)

    def _build_key(self, placed: Sequence[_PlacedVm]) -> Hashable:
        """Return what decides about later VMs: the VMs of each machine, in their order.

        The order matters only for VMs with a record, whose cells and devices depend on it.
        """
        positions: dict[str, list[int]] = {}
        for position, placement in placed:
            positions.setdefault("" if placement is None else placement.machine, []).append(
                position
            )
        for members in positions.values():
            if not any(self._vms[position].demand.sku.record for position in members):
                members.sort()
        return tuple(sorted((name, tuple(members)) for name, members in positions.items()))

    def _place(self, situation: _Situation, placed: tuple[_PlacedVm, ...]) -> _Situation:
        position, placement = placed[-1]
        scheduler = situation.scheduler.copy()
        if placement is not None:
            demand = self._vms[position].demand
            scheduler.add_existing(demand.vm, demand.sku, placement)
        return _Situation(scheduler, placed)

    def _record_alternative(self, situation: _Situation, position: int, outcome: _Outcome) -> None:
        """Record a machine other than that of the plan, with its condition, if it is the first."""
        if position in self._alternatives or outcome.machine == self._get_planned(position):
            return
        condition = self._describe_condition(situation, position) or outcome.condition
        self._set_alternative(position, outcome.machine, condition or "with equal weight")

    def _set_alternative(self, position: int, machine: str, condition: str) -> None:
        self._alternatives[position] = f"{machine or _NO_HOST} {condition}"

    def _describe_condition(self, situation: _Situation, position: int) -> str:
        """Return how the VMs before a VM differ from the plan, "" if they do not."""
        arrived = {placed.position: placed.placement for placed in situation.placed}
        later = [other for other in arrived if other > position]
        if later:
            return f"if {self._vms[later[0]].name} arrives first"
        missing = [other for other in range(position) if other not in arrived]
        if missing:
            return f"if it arrives before {self._vms[missing[0]].name}"
        for other, placement in arrived.items():
            machine = "" if placement is None else placement.machine
            if machine != self._get_planned(other):
                return f"if {self._vms[other].name} is on {machine or _NO_HOST}"
        return ""

    def _get_planned(self, position: int) -> str:
        placement = self._planned[position]
        return "" if placement is None else placement.machine

    def _list_placements(self, situation: _Situation) -> tuple[Placement | None, ...]:
        """Return the placements of a situation with all VMs, in the order of the plan."""
        by_position = dict(situation.placed)
        return tuple(by_position[position] for position in range(len(self._vms)))

    def _exchange_equal_vms(self, results: Iterable[Sequence[Placement | None]]) -> None:
        """Add the machines of equal VMs to the alternatives of each: any may arrive first."""
        all_results = [self._planned, *results]
        for positions in self._equal_vms:
            if len(positions) == 1:
                continue
            for position in positions:
                if position in self._alternatives:
                    continue
                for other in positions:
                    machines = [
                        "" if result[other] is None else result[other].machine  # type: ignore[union-attr]
                        for result in all_results
                    ]
                    other_machine = next(
                        (name for name in machines if name != self._get_planned(position)), None
                    )
                    if other_machine is not None and other != position:
                        condition = f"if {self._vms[max(position, other)].name} arrives first"
                        self._set_alternative(position, other_machine, condition)
                        break

    def _rotate_equal_vms(
        self, result: tuple[Placement | None, ...]
    ) -> tuple[Placement | None, ...]:
        """Return the result with equal VMs in each other's place."""
        placements = list(result)
        for positions in self._equal_vms:
            rotated = [*positions[1:], positions[0]]
            for position, other in zip(positions, rotated, strict=True):
                placements[position] = result[other]
        return tuple(placements)
