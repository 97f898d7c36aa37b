"""The graph of steps that apply follows.

A step waits for the steps that make what it refers to or uses; destroys run in reverse; whatever
takes room waits for what frees it. A `release` gives up VMs of a kept object and waits for
nothing. Where many steps wait for all of many, one gate stands between.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from msgspec import Struct, field

from nexusform.address import Address
from nexusform.planning.conclusion.uses import FleetUses
from nexusform.planning.plan import Action, Change, Step, StepKind
from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.triggers import VmKey
from nexusform.planning.vms.vm_phase import ROLLING, VmObject
from nexusform.ports import Surroundings
from nexusform.scheduling.racks.certainty import Release

GATE_ABOVE = 4


class _Draft(Struct):
    id: int
    kind: StepKind
    change: int
    prior: Mapping[str, Any] | None
    planned: Mapping[str, Any] | None
    main: bool = True
    waits: set[int] = field(default_factory=set)


class _Graph:
    def __init__(
        self, changes: Sequence[Change], former: Mapping[tuple[Address, str], tuple[str, ...]]
    ) -> None:
        self.changes = changes
        self.former = former
        self._gates: dict[tuple[str, str], list[int]] = {}
        self.drafts: list[_Draft] = []
        self.makes: dict[str, list[int]] = {}  # resource (text) -> its create and update steps
        self.making: dict[Address, int] = {}
        self.deleting: dict[tuple[Address, str], int] = {}
        self.releasing: dict[Address, int] = {}
        self.destroys: dict[str, list[int]] = {}  # resource (text) -> its delete steps

    def add(self, kind: StepKind, change: int, prior: Any, planned: Any, *, main: bool = True) -> int:
        draft = _Draft(len(self.drafts), kind, change, prior, planned, main)
        self.drafts.append(draft)
        return draft.id

    def gate(self, name: tuple[str, str], steps: list[int]) -> list[int]:
        """All of these steps as few things to wait for."""
        known = self._gates.get(name)
        if known is None:
            known = steps
            if len(steps) > GATE_ABOVE:
                known = [self.add(StepKind.GATE, self.drafts[steps[0]].change, None, None, main=False)]
                self.wait(known[0], steps)
            self._gates[name] = known
        return known

    def wait(self, step: int, others: Sequence[int]) -> None:
        self.drafts[step].waits.update(other for other in others if other != step)


def build_steps(
    changes: Sequence[Change],
    objects: Mapping[Address, VmObject],
    sites: Mapping[str, SitePlan],
    former: Mapping[tuple[Address, str], tuple[str, ...]],
    surroundings: Surroundings,
) -> list[Step]:
    """The steps of a plan. `former` are the dependencies that state recorded, by address and
    deposed key; `surroundings` those of the prior objects.
    """
    graph = _Graph(changes, former)
    for index, change in enumerate(changes):
        _own_steps(graph, index, change, objects.get(change.address), surroundings)
    for change in changes:
        _reference_waits(graph, change)
    _destroy_waits(graph)
    uses = _Uses(changes, objects, sites, FleetUses(changes))
    for change in changes:
        _use_waits(graph, change, uses)
    waits = _room_waits(graph, objects)
    for step, others in _rolling_waits(graph, objects, sites).items():
        waits.setdefault(step, set()).update(others)
    _add_room_waits(graph, waits)
    return [
        Step(d.id, d.kind, d.change, tuple(sorted(d.waits)), d.prior, d.planned, d.main) for d in graph.drafts
    ]


def _own_steps(
    graph: _Graph, index: int, change: Change, vms: VmObject | None, surroundings: Surroundings
) -> None:
    """The steps of one change, in their own order."""
    action, address = change.action, change.address
    if action is Action.NO_OP or action is Action.READ:
        return
    if action is Action.FORGET:
        graph.add(StepKind.FORGET, index, change.before, None)
        return
    delete = create = None
    if action in (Action.DELETE, Action.REPLACE, Action.REPLACE_CREATE_FIRST):
        delete = graph.add(StepKind.DELETE, index, change.before, None)
        graph.deleting[address, change.deposed] = delete
        graph.destroys.setdefault(str(address.config), []).append(delete)
    if action in (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST):
        create = graph.add(StepKind.CREATE, index, None, change.after)
    if action is Action.UPDATE:
        before = change.before
        if vms is not None and _gives_up(vms):
            remaining = _remaining(vms, surroundings)
            release = graph.add(StepKind.RELEASE, index, before, remaining, main=False)
            graph.releasing[address] = release
            before = remaining
        create = graph.add(StepKind.UPDATE, index, before, change.after)
        if address in graph.releasing:
            graph.wait(create, [graph.releasing[address]])
    if create is not None:
        graph.making[address] = create
        graph.makes.setdefault(str(address.config), []).append(create)
    if delete is not None and create is not None:
        first, second = (create, delete) if action is Action.REPLACE_CREATE_FIRST else (delete, create)
        graph.wait(second, [first])


def _gives_up(vms: VmObject) -> bool:
    return bool(vms.moves.leave) or any(t != ROLLING for t in vms.moves.again.values())


def _remaining(vms: VmObject, surroundings: Surroundings) -> dict[str, Any]:
    """The object's prior attributes with the VMs that stay."""
    instance = vms.instance
    assert instance.prior is not None
    assert instance.type.vms is not None
    attributes = dict(instance.prior.attributes)
    return attributes | instance.type.vms.assemble(attributes, surroundings, vms.remaining_vms())


def _reference_waits(graph: _Graph, change: Change) -> None:
    """Makers wait for what they refer to."""
    making = graph.making.get(change.address)
    if making is not None:
        for need in change.dependencies:
            graph.wait(making, graph.gate(("made", need), graph.makes.get(need, [])))


def _destroy_waits(graph: _Graph) -> None:
    """What is destroyed waits until those that referred to it are gone, or no longer refer to it."""
    gone: dict[str, list[int]] = {}
    updated: dict[str, list[int]] = {}
    for change in graph.changes:
        if change.before is None:
            continue
        delete = graph.deleting.get((change.address, change.deposed))
        making = graph.making.get(change.address)
        for need in graph.former.get((change.address, change.deposed), change.dependencies):
            if need not in graph.destroys:
                continue
            if delete is not None:
                gone.setdefault(need, []).append(delete)
            if making is not None:
                updated.setdefault(need, []).append(making)
    for need, steps in graph.destroys.items():
        for step in steps:
            graph.wait(step, graph.gate(("gone", need), gone.get(need, [])))
            if graph.changes[graph.drafts[step].change].action is not Action.REPLACE:
                graph.wait(step, graph.gate(("updated", need), updated.get(need, [])))


class _Uses(Struct):
    """Who uses what without referring to it: by ids in arguments, and by the machines of VMs."""

    changes: Sequence[Change]
    objects: Mapping[Address, VmObject]
    sites: Mapping[str, SitePlan]
    fleet: FleetUses
    by_id_after: dict[tuple[str, str], Address] = field(default_factory=dict)
    by_id_before: dict[tuple[str, str], Address] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for change in self.changes:
            kind = change.address.type
            for values, table in ((change.after, self.by_id_after), (change.before, self.by_id_before)):
                if values is not None and isinstance(values.get("id"), str) and not change.deposed:
                    table[kind, values["id"]] = change.address

    def after(self, change: Change) -> list[Address]:
        """What the object uses once it is made."""
        found = _by_ids(change.after, self.by_id_after) + self.fleet.of(change, after=True)
        vms = self.objects.get(change.address)
        if vms is not None and vms.site is not None:
            texts = {vms.site.offered_by.get(vms.places[key].machine, "") for key in vms.tokens}
            known = {str(a): a for a in self.by_id_after.values() if a.type in _MACHINE_MAKERS}
            found += [known[t] for t in sorted(texts) if t in known]
        return found

    def before(self, change: Change) -> list[Address]:
        """What the object used."""
        used = _by_ids(change.before, self.by_id_before) + self.fleet.of(change, after=False)
        return used + self._racks_before(change)

    def _racks_before(self, change: Change) -> list[Address]:
        vms = self.objects.get(change.address)
        if vms is None or vms.before is None:
            return []
        site = vms.before.site_id
        names = {vm.placement.rack for vm in vms.standing.values()}
        racks = [self.by_id_before.get(("nexus_rack", f"{site}/{name}")) for name in sorted(names)]
        places = {(vm.placement.rack, vm.placement.machine) for vm in vms.standing.values()}
        machines = [
            self.by_id_before.get(("nexus_bare_metal_machine", f"{site}/{rack}/{machine}"))
            for rack, machine in sorted(places)
        ]
        return [a for a in (*racks, *machines) if a is not None]


_MACHINE_MAKERS = ("nexus_rack", "nexus_bare_metal_machine")
_ID_ARGUMENTS = {
    "site_id": ("nexus_site",),
    "rack_id": ("nexus_rack",),
    "kubernetes_cluster_id": ("nexus_kubernetes_cluster", "tacker_vnf"),
    "cluster_id": ("nexus_kubernetes_cluster", "tacker_vnf"),
}


def _by_ids(values: Mapping[str, Any] | None, table: Mapping[tuple[str, str], Address]) -> list[Address]:
    if values is None:
        return []
    found = [
        [table[kind, values[name]] for kind in kinds if (kind, values[name]) in table][:1]
        for name, kinds in _ID_ARGUMENTS.items()
        if isinstance(values.get(name), str)
    ]
    return [address for one in found for address in one]


def _use_waits(graph: _Graph, change: Change, uses: _Uses) -> None:
    making = graph.making.get(change.address)
    if making is not None:
        for used in uses.after(change):
            step = graph.making.get(used)
            if step is not None and used != change.address:
                graph.wait(making, [step])
    if change.before is None or change.deposed:
        return
    delete, release = graph.deleting.get((change.address, "")), graph.releasing.get(change.address)
    leaving = [s for s in (delete, release) if s is not None]
    for used in uses.before(change):
        gone = graph.deleting.get((used, ""))
        if gone is None or used == change.address:
            continue
        graph.wait(gone, leaving)
        replaced = graph.changes[graph.drafts[gone].change].action is Action.REPLACE
        if delete is None and making is not None and not replaced:
            graph.wait(gone, [making])


def _room_waits(graph: _Graph, objects: Mapping[Address, VmObject]) -> dict[int, set[int]]:
    """Whatever takes room on a machine waits for what frees room there."""
    freed: dict[tuple[str, str], set[int]] = {}
    for address, vms in objects.items():
        delete = graph.deleting.get((address, ""))
        step = delete if delete is not None else graph.releasing.get(address)
        if step is None or vms.before is None:
            continue
        for key, vm in vms.standing.items():
            if delete is not None or _leaves(vms, key):
                freed.setdefault((vms.before.site_id, vm.placement.machine), set()).add(step)
    waits: dict[int, set[int]] = {}
    for address, vms in objects.items():
        making = graph.making.get(address)
        if making is None or vms.wanted is None or not freed:
            continue
        own = graph.deleting.get((address, "")) if vms.keeps_old else None
        for key in vms.tokens:
            room = freed.get((vms.wanted.site_id, vms.places[key].machine), set())
            waits.setdefault(making, set()).update(s for s in room if s not in {making, own})
    return waits


def _rolling_waits(
    graph: _Graph, objects: Mapping[Address, VmObject], sites: Mapping[str, SitePlan]
) -> dict[int, set[int]]:
    """Rolling VMs free their room only as their object is updated: whatever was placed there afterwards
    waits for that update, except an object that rolled earlier itself.
    """
    rolling = {a: o for a, o in objects.items() if ROLLING in o.moves.again.values()}
    if not rolling:
        return {}
    turn = {a: o.instance.prior.creation for a, o in rolling.items() if o.instance.prior is not None}
    old = {
        (o.before.owner, *key): address
        for address, o in rolling.items()
        if o.before is not None
        for key, trigger in o.moves.again.items()
        if trigger == ROLLING
    }
    waits: dict[int, set[int]] = {}
    for site in sites.values():
        placed: dict[Hashable, tuple[Address, str]] = {
            token: (address, o.places[key].machine)
            for address, o in objects.items()
            if o.site is site
            for key, token in o.tokens.items()
        }
        for owner, taker in _successions(site, old, placed):
            made, making = graph.making.get(owner), graph.making.get(taker)
            if made is None or making is None or made == making or turn.get(taker, inf) < turn[owner]:
                continue
            waits.setdefault(making, set()).add(made)
    return waits


def _successions(
    site: SitePlan,
    old: Mapping[tuple[str, str, int | str], Address],
    placed: Mapping[Hashable, tuple[Address, str]],
) -> Iterator[tuple[Address, Address]]:
    """Whose rolling VM left a machine, and who was placed on it after that."""
    if site.base is None:
        return
    left: dict[str, set[Address]] = {}
    for operation in site.operations:
        if isinstance(operation, Release) and operation.handle is not None:
            vm = site.base.vm(operation.handle)
            owner = old.get((vm.vm.owner, vm.vm.pool, vm.vm.number))
            if owner is not None:
                left.setdefault(vm.placement.machine, set()).add(owner)
        elif not isinstance(operation, Release) and operation.token in placed:
            taker, machine = placed[operation.token]
            yield from ((owner, taker) for owner in sorted(left.get(machine, ()), key=str))


def _add_room_waits(graph: _Graph, waits: Mapping[int, set[int]]) -> None:
    """Add them, except where references already say the opposite order (an object that used to
    refer to the one whose room it takes): references win.
    """
    for step, others in waits.items():
        graph.drafts[step].waits |= others
    stuck = _stuck(graph)
    for step in stuck:
        graph.drafts[step].waits -= {other for other in waits.get(step, ()) if other in stuck}


def _stuck(graph: _Graph) -> set[int]:
    """Steps that wait for each other in a circle, or for one that does."""
    followers: dict[int, list[int]] = {}
    open_ = {}
    for draft in graph.drafts:
        open_[draft.id] = len(draft.waits)
        for other in draft.waits:
            followers.setdefault(other, []).append(draft.id)
    ready = [step for step, count in open_.items() if count == 0]
    while ready:
        for follower in followers.get(ready.pop(), ()):
            open_[follower] -= 1
            if open_[follower] == 0:
                ready.append(follower)
    return {step for step, count in open_.items() if count > 0}


def _leaves(vms: VmObject, key: VmKey) -> bool:
    return key in vms.moves.leave or (key in vms.moves.again and vms.moves.again[key] != ROLLING)
