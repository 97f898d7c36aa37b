"""The graph that steps are drafted in: each change's steps, what each waits for, and the room that others
must free first; for that, on which racks and machines the VMs of an object stand before and after.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, TypeAlias

from msgspec import Struct, field

from nexusform.address import Address
from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.vm_object import MACHINE_EVACUATED, ROLLING, VmObject
from nexusform.plans.plan import Action, Change, Step, StepKind
from nexusform.scheduling.racks.uncertainty.certainty import VmReleased

OnSite: TypeAlias = tuple[str, str]  # site and machine


class MachineUse(Struct, frozen=True):
    """`held` are (site, rack, machine) of the VMs before, `left_early` the machines whose room is free
    before anything is placed, `taken` those of VMs that the plan places, `makers` the addresses (text) of
    what offers these, `emptied` of what offers the machines that its VMs leave as these are evacuated.
    `keeps_old`: the old VMs hold their room until the new ones stand.
    """

    held: frozenset[tuple[str, str, str]] = frozenset()
    left_early: frozenset[OnSite] = frozenset()
    taken: frozenset[OnSite] = frozenset()
    makers: frozenset[str] = frozenset()
    emptied: frozenset[str] = frozenset()
    keeps_old: bool = False


def machine_use(vms: VmObject) -> MachineUse:
    """What the VMs of an object use."""
    held: set[tuple[str, str, str]] = set()
    left_early: set[OnSite] = set()
    if vms.before.demand is not None:
        site_id = vms.before.demand.site_id
        for key in vms.before.standing:
            place = vms.place_before(key)
            held.add((site_id, place.rack, place.machine))
            if vms.leaves_early(key):
                left_early.add((site_id, place.machine))
    taken = set()
    if vms.asked.demand is not None:
        taken = {(vms.asked.demand.site_id, vms.place_after(key).machine) for key in vms.housing.tokens}
    makers: set[str] = set()
    emptied: set[str] = set()
    if vms.asked.site is not None:
        makers = {vms.asked.site.offered_by.get(machine, "") for _, machine in taken}
        evacuated = [key for key, why in vms.asked.moves.again.items() if why == MACHINE_EVACUATED]
        emptied = {vms.asked.site.offered_by.get(vms.place_before(key).machine, "") for key in evacuated}
    return MachineUse(
        frozenset(held),
        frozenset(left_early),
        frozenset(taken),
        frozenset(makers),
        frozenset(emptied),
        vms.keeps_old,
    )


Waits: TypeAlias = dict[int, set[int]]  # step -> the steps it waits for
# More steps than these are waited for through a gate: many that wait for many would make n x m edges.
GATE_ABOVE = 4


class Draft(Struct):
    """A step whose waits are not complete yet."""

    id: int
    kind: StepKind
    change: int
    prior: Mapping[str, Any] | None
    planned: Mapping[str, Any] | None
    main: bool = True
    waits: set[int] = field(default_factory=set)


class StepGraph:
    """Steps by id, and which step makes, deletes or releases what.

    `made_by` and `destroyed_by` list the steps of a block (its address as text): its creates and updates,
    and its deletes.
    """

    def __init__(self, changes: Sequence[Change]) -> None:
        self.changes = changes
        self.drafts: list[Draft] = []
        self.making: dict[Address, int] = {}
        self.deleting: dict[tuple[Address, str], int] = {}  # by address and deposed key
        self.releasing: dict[Address, int] = {}
        self.made_by: dict[str, list[int]] = {}
        self.destroyed_by: dict[str, list[int]] = {}
        self._gates: dict[tuple[str, str], list[int]] = {}

    def add(
        self,
        kind: StepKind,
        change: int,
        prior: Mapping[str, Any] | None,
        planned: Mapping[str, Any] | None,
        *,
        main: bool = True,
    ) -> int:
        """A new step, its id."""
        draft = Draft(len(self.drafts), kind, change, prior, planned, main)
        self.drafts.append(draft)
        return draft.id

    def wait(self, step: int, awaited: Iterable[int]) -> None:
        """Let a step wait for others; never for itself."""
        self.drafts[step].waits |= set(awaited) - {step}

    def gate(self, name: tuple[str, str], steps: list[int]) -> list[int]:
        """All of these steps as few things to wait for; `name` tells the gate from others."""
        if name not in self._gates:
            self._gates[name] = self._gated(steps) if len(steps) > GATE_ABOVE else steps
        return self._gates[name]

    def _gated(self, steps: list[int]) -> list[int]:
        """A gate that waits for all of these steps."""
        first = self.drafts[steps[0]]
        gate = self.add(StepKind.GATE, first.change, None, None, main=False)
        self.wait(gate, steps)
        return [gate]

    def replaces(self, step: int) -> bool:
        """Whether a delete is the first half of a replacement: its create waits for it, so it must not
        wait for those that wait for the create.
        """
        return self.changes[self.drafts[step].change].action is Action.REPLACE

    def steps(self) -> list[Step]:
        """What apply follows."""
        return [
            Step(
                id=draft.id,
                kind=draft.kind,
                change=draft.change,
                waits_for=tuple(sorted(draft.waits)),
                prior=draft.prior,
                planned=draft.planned,
                main=draft.main,
            )
            for draft in self.drafts
        ]


# --- room that must be freed first -------------------------------------------------------------


def wait_for_room(
    graph: StepGraph,
    machines: Mapping[Address, MachineUse],
    objects: Mapping[Address, VmObject],
    sites: Mapping[str, SitePlan],
) -> None:
    """Add these waits, and those for machines that are evacuated, except where references already say the
    opposite order (an object that used to refer to the one whose room it takes): references win.
    """
    waits = _waits_for_leaving(graph, machines)
    for step, updates in _waits_for_rolling(graph, objects, sites).items():
        waits.setdefault(step, set()).update(updates)
    for step, awaited in waits.items():
        graph.drafts[step].waits |= awaited
    stuck = _stuck_steps(graph)
    for step in stuck:
        against_references = waits.get(step, set()) & stuck
        graph.drafts[step].waits -= against_references


def _waits_for_leaving(graph: StepGraph, machines: Mapping[Address, MachineUse]) -> Waits:
    """Makers wait for the deletes and releases that free room on their machines, and what leaves a machine
    that is evacuated waits until that takes no new VMs.
    """
    freeing: dict[OnSite, set[int]] = {}
    for address, use in machines.items():
        delete = graph.deleting.get((address, ""))
        step = delete if delete is not None else graph.releasing.get(address)
        if step is None:
            continue
        everything = {(site, machine) for site, _, machine in use.held}
        for machine in everything if delete is not None else use.left_early:
            freeing.setdefault(machine, set()).add(step)
    waits: Waits = {}
    for address, use in machines.items():
        making = graph.making.get(address)
        if making is None or not freeing:
            continue
        # Under create_before_destroy the old VMs hold their room until the new ones stand.
        own_delete = graph.deleting.get((address, "")) if use.keeps_old else None
        for machine in use.taken:
            steps = freeing.get(machine, set())
            waits.setdefault(making, set()).update(steps - {making, own_delete})
    for step, updates in _waits_for_cordons(graph, machines):
        waits.setdefault(step, set()).update(updates)
    return waits


def _waits_for_cordons(
    graph: StepGraph, machines: Mapping[Address, MachineUse]
) -> Iterator[tuple[int, set[int]]]:
    """VMs leave a machine that is evacuated once it takes no new ones: or they might come there again."""
    by_text = {str(change.address): change.address for change in graph.changes}
    for address, use in machines.items():
        updates = {graph.making[by_text[text]] for text in use.emptied if by_text.get(text) in graph.making}
        for step in (graph.releasing.get(address), graph.making.get(address)):
            if step is not None and updates:
                yield step, updates - {step}


def _waits_for_rolling(
    graph: StepGraph, objects: Mapping[Address, VmObject], sites: Mapping[str, SitePlan]
) -> Waits:
    """Rolling VMs free their room only as their object is updated: whatever was placed there afterwards
    waits for that update, except an object that rolled earlier itself.
    """
    rolling = {address: vms for address, vms in objects.items() if ROLLING in vms.asked.moves.again.values()}
    turn = {
        address: vms.instance.prior.creation
        for address, vms in rolling.items()
        if vms.instance.prior is not None
    }
    owners = _owners_of_rolling(rolling)
    waits: Waits = {}
    for site in sites.values() if rolling else ():
        for owner, taker in _successions(site, owners, _placed_on(site, objects)):
            update, making = graph.making.get(owner), graph.making.get(taker)
            if update is None or making is None or update == making:
                continue
            if turn.get(taker, inf) >= turn[owner]:
                waits.setdefault(making, set()).add(update)
    return waits


def _owners_of_rolling(rolling: Mapping[Address, VmObject]) -> dict[tuple[str, str, int | str], Address]:
    """Whose the rolling VMs are, by owner, pool and number as the placement rule knows them."""
    owners = {}
    for address, vms in rolling.items():
        for key, trigger in vms.asked.moves.again.items():
            if trigger == ROLLING and vms.before.demand is not None:
                owners[vms.before.demand.owner, *key] = address
    return owners


def _placed_on(site: SitePlan, objects: Mapping[Address, VmObject]) -> dict[Hashable, tuple[Address, str]]:
    """The VMs that this plan places on a site, by handle: whose they are, and the machine."""
    placed: dict[Hashable, tuple[Address, str]] = {}
    for address, vms in objects.items():
        if vms.asked.site is site:
            for key, token in vms.housing.tokens.items():
                placed[token] = (address, vms.place_after(key).machine)
    return placed


def _successions(
    site: SitePlan,
    owners: Mapping[tuple[str, str, int | str], Address],
    placed: Mapping[Hashable, tuple[Address, str]],
) -> Iterator[tuple[Address, Address]]:
    """Whose rolling VM left a machine, and who was placed on it after that."""
    if site.base is None:
        return
    owners_rolled_off: dict[str, set[Address]] = {}  # by machine: whose VMs rolled away from it
    for operation in site.operations:
        if not isinstance(operation, VmReleased):
            if operation.token in placed:
                taker, machine = placed[operation.token]
                for owner in sorted(owners_rolled_off.get(machine, ()), key=str):
                    yield owner, taker
        elif operation.handle is not None:
            vm = site.base.vm(operation.handle)
            owner_of_vm = owners.get((vm.vm.owner, vm.vm.pool, vm.vm.number))
            if owner_of_vm is not None:
                owners_rolled_off.setdefault(vm.placement.machine, set()).add(owner_of_vm)


def _stuck_steps(graph: StepGraph) -> set[int]:
    """Steps that wait for each other in a circle, or for one that does."""
    followers: dict[int, list[int]] = {}
    open_waits: dict[int, int] = {}
    for draft in graph.drafts:
        open_waits[draft.id] = len(draft.waits)
        for awaited in draft.waits:
            followers.setdefault(awaited, []).append(draft.id)
    ready = [step for step, count in open_waits.items() if count == 0]
    while ready:
        for follower in followers.get(ready.pop(), ()):
            open_waits[follower] -= 1
            if open_waits[follower] == 0:
                ready.append(follower)
    return {step for step, count in open_waits.items() if count > 0}
