"""The VMs of one instance while a plan is made, and why each comes, goes, or is placed anew.

What state remembers of each VM's coming, the trigger and the serial of the apply that placed it, is kept
in the object's private note as {"placed": [[serial, trigger, [names...]], ...]}, oldest first: one entry
for all VMs that came together, so that a large pool costs little more than its names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import Address
from nexusform.demands import PlacedVm, PoolDemand, VmDemand
from nexusform.planning.instances.instance import Instance
from nexusform.planning.vms.sites import SitePlan
from nexusform.plans.plan import Action
from nexusform.ports import Unplaced
from nexusform.scheduling.racks.explanation import Explanation, Shortage
from nexusform.scheduling.racks.vms import Hint, Placement

ROLLING = "kubernetes_version_changed"
MACHINE_REMOVED = "machine_removed"
MACHINE_REPLACED = "machine_replaced"
MACHINE_FORGOTTEN = "machine_forgotten"

VmKey: TypeAlias = tuple[str, "int | str"]  # pool, number
MACHINE_EVACUATED = "machine_evacuated"
HEAL = "heal"
PLACED = "placed"
LEFT = "left"


class Moves(Struct, frozen=True):
    """What happens to the VMs of one resource instance, each with its trigger.

    `leave`: gone for good. `again`: placed anew under the same name (they leave first, but
    for an upgrade of Kubernetes). `arrive`: new. `stay`: untouched. Pools in the order of the demand,
    numbers ascending.

    `wait` are VMs that the platform has without a machine, and that nothing asks to be placed anew.
    `lost`: nothing is asked of them, and their machine is not there after the plan, or is another one.
    `forgotten`: they run on where they stand, and nobody manages them any more.
    """

    leave: dict[VmKey, str] = field(default_factory=dict)
    again: dict[VmKey, str] = field(default_factory=dict)
    arrive: dict[VmKey, str] = field(default_factory=dict)
    stay: list[VmKey] = field(default_factory=list)
    wait: list[VmKey] = field(default_factory=list)
    lost: dict[VmKey, str] = field(default_factory=dict)
    forgotten: dict[VmKey, str] = field(default_factory=dict)


class HardHint(Struct, frozen=True):
    """A hard hint that bears on where a VM may go: its own, or that of another VM which names it.

    `address` is the VM whose hint it is, `name` what it is called, `index` its place among the
    `placement_hint` blocks. `stands`: that VM is another one and stays where it is.
    """

    address: Address
    name: str
    index: int
    hint: Hint
    stands: bool


class VmsBefore(Struct, frozen=True):
    """The VMs of one instance before the plan.

    `demand` is what the prior arguments asked for, `standing` are the VMs read from state, `unplaced` those
    that have no machine, `recorded` the places in state of those that were observed elsewhere.
    """

    demand: VmDemand | None = None
    standing: Mapping[VmKey, PlacedVm] = field(default_factory=dict)
    unplaced: Unplaced = field(default_factory=dict)
    recorded: Mapping[VmKey, Placement] = field(default_factory=dict)


class VmsAsked(Struct, frozen=True):
    """What is asked for now (`demand`: None while that cannot be told), on which `site`, and so what happens
    to each VM.
    """

    demand: VmDemand | None = None
    site: SitePlan | None = None
    moves: Moves = field(default_factory=Moves)


class Housing(Struct, frozen=True):
    """Where VMs come to stand, filled VM by VM as they are placed, by vm_phase.py alone.

    `held` is the room that VMs of before hold: site and handle. `placed` are the VMs after the plan, `tokens`
    the handles of those that it placed itself, `failed` those that found no place, `short` the pools that
    are exhausted, `bound_by` the hard hints because of which VMs found no place. `explained` are the
    decisions asked about, `crowded` the reasons why pinned VMs do not fit. `renamed_around` are those that
    stay and whose machine has got another rack or zone around it. `put_back` are those that come again where
    they stood, on machines that are made anew: nobody chose their places.
    """

    held: dict[VmKey, tuple[SitePlan, int]] = field(default_factory=dict)
    placed: dict[VmKey, PlacedVm] = field(default_factory=dict)
    tokens: dict[VmKey, int] = field(default_factory=dict)
    failed: dict[VmKey, Shortage] = field(default_factory=dict)
    short: dict[str, Shortage] = field(default_factory=dict)
    bound_by: list[HardHint] = field(default_factory=list)
    explained: dict[VmKey, Explanation] = field(default_factory=dict)
    crowded: list[str] = field(default_factory=list)
    renamed_around: set[VmKey] = field(default_factory=set)
    put_back: set[VmKey] = field(default_factory=set)


class VmObject(Struct):
    """The VMs of one instance, from where they stand (`before`) over what is `asked` for them to where they
    will be (`housing`). The instance of a block that has to wait is known only when its turn comes.
    """

    instance: Instance
    before: Final[VmsBefore] = field(default_factory=VmsBefore)
    asked: VmsAsked = field(default_factory=VmsAsked)
    housing: Final[Housing] = field(default_factory=Housing)

    @property
    def pools(self) -> tuple[PoolDemand, ...]:
        """The pools that are asked for now; none while that cannot be told."""
        return self.asked.demand.pools if self.asked.demand is not None else ()

    @property
    def prior_pools(self) -> tuple[PoolDemand, ...]:
        """The pools that the prior arguments asked for; none of what is new."""
        return self.before.demand.pools if self.before.demand is not None else ()

    @property
    def waiting(self) -> Unplaced:
        """The VMs without a machine that are there after the plan."""
        return {key: self.before.unplaced[key] for key in self.asked.moves.wait}

    @property
    def standing_names(self) -> Iterator[str]:
        """What the VMs read from state are called, by us and by the platform."""
        return chain.from_iterable(vm.names for vm in self.before.standing.values())

    @property
    def untouched(self) -> bool:
        """Whether the same object stays, with every VM exactly as it is."""
        moves = self.asked.moves
        return not (
            self.instance.replaced
            or moves.leave
            or moves.again
            or moves.arrive
            or moves.forgotten
            or self.housing.renamed_around
            or len(moves.wait) < len(self.before.unplaced)
        )

    @property
    def keeps_old(self) -> bool:
        """Whether the old VMs hold their room while the new are placed."""
        return self.instance.action is Action.REPLACE_CREATE_FIRST

    @property
    def going(self) -> bool:
        """Whether the whole instance goes."""
        return self.instance.going

    def trigger_of(self, key: VmKey) -> str:
        """Why this plan places a VM, "" for one that stays."""
        return self.asked.moves.again.get(key) or self.asked.moves.arrive.get(key) or ""

    def place_before(self, key: VmKey) -> Placement:
        """Where a VM stood before the plan."""
        return self.before.standing[key].placement

    def place_after(self, key: VmKey) -> Placement:
        """Where a VM stands after the plan."""
        return self.housing.placed[key].placement

    def names_before(self) -> list[str]:
        """What the VMs that stood before the plan may be called, those without a machine too."""
        names = list(chain.from_iterable(vm.names for vm in self.before.standing.values()))
        for record in self.before.unplaced.values():
            names += [name for name in (record["name"], record.get("platform_name")) if name]
        return names

    def names_after(self) -> list[str]:
        """The VMs that stand after the plan, pools in order, numbers ascending."""
        return [vm.name for vm in self.placed_vms()]

    def names_failed(self) -> list[str]:
        """The VMs that found no place."""
        if not self.housing.failed:
            return []
        names: list[str] = []
        for pool in self.pools:
            numbered = zip(pool.numbers, pool.names, strict=True)
            names += [name for number, name in numbered if (pool.pool, number) in self.housing.failed]
        return names

    def names_placed(self) -> list[tuple[str, str]]:
        """The VMs that this plan placed, in the order in which it did, and why."""
        return [(self.housing.placed[key].name, self.trigger_of(key)) for key in self.housing.tokens]

    def machines_left(self) -> dict[str, str]:
        """The machines that VMs of this plan leave because these are gone or emptied, or the VM is not well
        there, by the VM's name.
        """
        of_hardware = (MACHINE_REMOVED, MACHINE_EVACUATED, HEAL)
        return {
            self.housing.placed[key].name: self.before.standing[key].placement.machine
            for key in self.housing.tokens
            if key in self.before.standing and self.trigger_of(key) in of_hardware
        }

    def stay_as_they_are(self, demand: VmDemand | None = None) -> None:
        """Every VM stays where it is, whatever stands around it; `demand`: what goes on being asked for."""
        self.housing.placed.clear()
        self.housing.placed.update(self.before.standing)
        moves = Moves(stay=list(self.before.standing), wait=list(self.before.unplaced))
        self.asked = replace(self.asked, demand=demand or self.asked.demand, moves=moves)

    def be_left_behind(self, machine_trigger: Callable[[str], str]) -> None:
        """The plan leaves this object alone: its VMs stay, but for those whose machine is not there after it,
        or is made anew.
        """
        self.stay_as_they_are()
        lost = {}
        for key, vm in self.before.standing.items():
            trigger = machine_trigger(vm.placement.machine)
            if trigger in (MACHINE_REMOVED, MACHINE_REPLACED, MACHINE_FORGOTTEN):
                lost[key] = trigger
        stay = [key for key in self.before.standing if key not in lost]
        self.asked = replace(self.asked, moves=replace(self.asked.moves, stay=stay, lost=lost))

    def be_forgotten(self, trigger: str, machine_trigger: Callable[[str], str]) -> None:
        """The object leaves the state and its VMs run on: they hold their room. Those do not whose machine
        this plan takes away, or makes anew.
        """
        before = self.before
        moves = Moves(forgotten=dict.fromkeys((*before.standing, *before.unplaced), trigger))
        for key, vm in before.standing.items():
            of_machine = machine_trigger(vm.placement.machine)
            if of_machine in (MACHINE_REMOVED, MACHINE_REPLACED):
                moves.lost[key] = of_machine
                del moves.forgotten[key]
        self.asked = VmsAsked(moves=moves)

    def placed_vms(self) -> list[PlacedVm]:
        """Every VM after the plan, pools in order, numbers ascending."""
        vms: list[PlacedVm] = []
        for pool in self.pools:
            keys = [(pool.pool, number) for number in pool.numbers]
            vms += [self.housing.placed[key] for key in keys if key in self.housing.placed]
        return vms

    def vms_after(self) -> Sequence[PlacedVm]:
        """Every VM after the plan, also where it cannot be told what is asked for: then all stay."""
        if self.going:
            return ()
        return tuple(self.before.standing.values()) if self.asked.demand is None else self.placed_vms()

    def racks_before(self) -> frozenset[str]:
        """The racks on which its VMs stood."""
        return frozenset(vm.placement.rack for vm in self.before.standing.values())

    def racks_after(self) -> frozenset[str]:
        """The racks on which its VMs come to stand."""
        return frozenset(vm.placement.rack for vm in self.vms_after())

    def remaining_vms(self) -> list[PlacedVm]:
        """The prior VMs as a release step leaves them: those that stay, and those that roll later."""
        return [vm for key, vm in self.before.standing.items() if not self.leaves_early(key)]

    def leaves_early(self, key: VmKey) -> bool:
        """Whether a VM of a kept object leaves before anything is placed. A rolling one does not: it makes
        room as its own object is updated.
        """
        return key in self.asked.moves.leave or self.asked.moves.again.get(key, ROLLING) != ROLLING


# --- what happens to each VM, and why ------------------------------------------------------------


class Situation(Struct, frozen=True):
    """What bears on the VMs of one instance besides its arguments.

    `whole` is the trigger that concerns every VM ("cluster_replaced", "requested", or the one of
    a removal), "" when there is none. `healed` are the names the user wants placed anew.
    `machine_trigger(machine)` is "machine_removed", "machine_forgotten", "machine_evacuated",
    "machine_replaced" or "".
    `unplaced` are the VMs that are there without a machine.
    """

    whole: str = ""
    healed: frozenset[str] = frozenset()
    machine_trigger: Callable[[str], str] = lambda _machine: ""
    unplaced: Unplaced = field(default_factory=dict)


def compare(
    standing: tuple[PlacedVm, ...],
    prior_demand: VmDemand | None,
    demand: VmDemand | None,
    situation: Situation,
) -> Moves:
    """Sort the VMs of one instance by what happens to them.

    `prior_demand` is what the prior arguments asked for (to see which of them changed, and which nodes
    were deleted behind our back); `demand` None means that the resource goes.
    """
    moves = Moves()
    standing_by_key = {(vm.pool, vm.number): vm for vm in standing}
    pools = {pool.pool: pool for pool in demand.pools} if demand else {}
    numbers = {name: frozenset(pool.numbers) for name, pool in pools.items()}
    for key in (*standing_by_key, *situation.unplaced):
        pool_name, vm_number = key
        if pool_name not in pools:
            moves.leave[key] = "pool_removed" if demand else situation.whole
        elif vm_number not in numbers[pool_name]:
            moves.leave[key] = situation.whole or "scale_in"
    prior_pools = {pool.pool: pool for pool in prior_demand.pools} if prior_demand else {}
    upgraded = bool(demand and prior_demand and demand.version != prior_demand.version)
    for pool in pools.values():
        prior = prior_pools.get(pool.pool)
        changed = changed_argument(prior, pool)
        prior_numbers = set(prior.numbers) if prior else set()
        for number in pool.numbers:
            key = (pool.pool, number)
            vm_there = standing_by_key.get(key)
            if vm_there is not None:
                _present(moves, key, _trigger(vm_there, situation, upgraded, changed))
            elif key in situation.unplaced:
                _waiting(moves, key, situation, upgraded, changed)
            else:
                _arrival(moves, key, situation, prior, was_there=number in prior_numbers)
    return moves


def _present(moves: Moves, key: VmKey, trigger: str) -> None:
    """A VM that stands stays, unless something makes it anew."""
    if trigger:
        moves.again[key] = trigger
    else:
        moves.stay.append(key)


def _arrival(
    moves: Moves, key: VmKey, situation: Situation, prior: PoolDemand | None, was_there: bool
) -> None:
    """A VM that does not stand: new, or made again where the prior arguments asked for it already."""
    if situation.whole:
        moves.again[key] = situation.whole
    elif was_there:
        moves.again[key] = "node_deleted"
    else:
        moves.arrive[key] = "scale_out" if prior else "new"


def _waiting(moves: Moves, key: VmKey, situation: Situation, upgraded: bool, changed: str) -> None:
    """A VM that waits for a machine goes on waiting, unless something makes it anew."""
    again = situation.whole or (ROLLING if upgraded else changed)
    record = situation.unplaced[key]
    if not situation.healed.isdisjoint({record["name"], record.get("platform_name")}):
        again = HEAL
    if again:
        moves.again[key] = again
    else:
        moves.wait.append(key)


def _trigger(vm: PlacedVm, situation: Situation, upgraded: bool, changed: str) -> str:
    """Why a VM that stands is placed anew, "" when it is not: the first of these that holds."""
    if not situation.healed.isdisjoint(vm.names):
        return HEAL
    if situation.whole:
        return situation.whole
    by_machine = situation.machine_trigger(vm.placement.machine)
    if by_machine:
        return by_machine
    return ROLLING if upgraded else changed


def changed_argument(prior: PoolDemand | None, pool: PoolDemand) -> str:
    """The first of the pool's arguments, in order of precedence, that differs from before; "" when none
    does, or the pool is new.
    """
    if prior is None:
        return ""
    prior_values = dict(prior.triggers)
    return next((name for name, value in pool.triggers if prior_values.get(name) != value), "")


def note_placed(
    prior: Mapping[str, Any] | None, came: Sequence[tuple[str, str]], present: Collection[str], serial: int
) -> dict[str, Any] | None:
    """The object's note after a plan: `came` are (name, trigger) of VMs that the plan places, `present` all
    that stand afterwards, `serial` the one that applying it will give. None when nothing is known.
    """
    stayed = set(present) - {name for name, _ in came}
    note = dict(prior) if isinstance(prior, Mapping) else {}
    groups: list[list[Any]] = []
    for prior_serial, trigger, names in _noted(note.pop(PLACED, ())):
        names_that_stayed = [name for name in names if name in stayed]
        if names_that_stayed:
            groups.append([prior_serial, trigger, names_that_stayed])
    came_by_trigger: dict[str, list[str]] = {}
    for name, trigger in came:
        came_by_trigger.setdefault(trigger, []).append(name)
    groups += [[serial, trigger, names] for trigger, names in came_by_trigger.items()]
    if groups:
        note[PLACED] = groups
    return note or None


def note_left(
    note: Mapping[str, Any] | None, left: Mapping[str, str], came: Collection[str], present: Collection[str]
) -> dict[str, Any] | None:
    """The note with the machines that VMs `left` because these failed or were emptied, by name, for as long
    as they do not come to another place (`came`).
    """
    kept = {name: machine for name, machine in _left(note).items() if name in present and name not in came}
    machines = {**kept, **left}
    others = {key: value for key, value in (note or {}).items() if key != LEFT}
    return {**others, **({LEFT: machines} if machines else {})} or None


def left_by(private: Mapping[str, Any] | None, name: str) -> str:
    """The machine that a VM had to leave to come to where it is; "" where it did not."""
    return _left(private).get(name, "")


def _left(private: Mapping[str, Any] | None) -> dict[str, str]:
    """What a note says of that, as far as it is as nexusform writes it: state may have been edited."""
    noted = private.get(LEFT) if isinstance(private, Mapping) else None
    if not isinstance(noted, Mapping):
        return {}
    return {name: machine for name, machine in noted.items() if isinstance(machine, str)}


def placed_by(private: Mapping[str, Any] | None, name: str) -> tuple[str, int] | None:
    """The trigger and serial under which a VM came to where it is; None when that is not known."""
    noted = private.get(PLACED, ()) if isinstance(private, Mapping) else ()
    for serial, trigger, names in reversed(_noted(noted)):
        if name in names:
            return trigger, serial
    return None


def _noted(entries: Any) -> list[tuple[int, str, list[str]]]:
    """The entries of a note that are as nexusform writes them: state may have been edited."""
    noted: list[tuple[int, str, list[str]]] = []
    for entry in entries if isinstance(entries, list | tuple) else ():
        match entry:
            case [int(serial), str(trigger), [*names]] if all(isinstance(name, str) for name in names):
                noted.append((serial, trigger, names))
    return noted
