"""The graph of steps that apply follows.

A step waits for the steps that make what it refers to or uses; destroys run in reverse; whatever
takes room waits for what frees it. A `release` gives up VMs of a kept object and waits for
nothing. What goes beside something (`ResourceType.goes_beside`) waits only for what that waits for. Where
many steps wait for all of many, one gate stands between.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any

from nexusform.address import Address
from nexusform.plain_data import has_unknown
from nexusform.planning.conclusion.step_graph import MachineUse, StepGraph, machine_use, wait_for_room
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.vm_object import VmObject
from nexusform.plans.plan import Action, Change, Step, StepKind
from nexusform.ports import Kind, ResourceType, Surroundings
from nexusform.schema import Reference

Types = Mapping[str, ResourceType]
Values = Mapping[str, Any]
_DELETES = (Action.DELETE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_CREATES = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


def build_steps(
    changes: Sequence[Change],
    objects: Mapping[Address, VmObject],
    sites: Mapping[str, SitePlan],
    prior: Prior,
    surroundings: Surroundings,
    types: Mapping[str, ResourceType],
) -> list[Step]:
    """The steps of a plan; `surroundings` are those of the prior objects."""
    remaining: dict[Address, Values] = {}
    for change in changes:
        vms = objects.get(change.address)
        if change.action is Action.UPDATE and vms is not None and _makes_room(vms):
            remaining[change.address] = _without_leaving(vms, surroundings)
    machines = {address: machine_use(vms) for address, vms in objects.items()}
    graph = draft_steps(changes, remaining, prior, machines, types)
    wait_for_room(graph, machines, objects, sites)
    return graph.steps()


def draft_steps(
    changes: Sequence[Change],
    remaining: Mapping[Address, Values],
    prior: Prior,
    machines: Mapping[Address, MachineUse],
    types: Types,
) -> StepGraph:
    """The steps of changes with all waits but those for room. `remaining` are the attributes of updated
    objects once their VMs have left that make room for others; `machines` are those of their VMs.
    """
    graph = StepGraph(changes)
    for index, change in enumerate(changes):
        _own_steps(graph, index, change, remaining.get(change.address))
    beside = _besides(changes, types)
    _wait_for_references(graph, beside)
    _wait_for_dependents(graph, prior)
    _wait_for_uses(graph, _Uses(changes, machines, types))
    _begin_together(graph, beside)
    return graph


def _makes_room(vms: VmObject) -> bool:
    return any(vms.leaves_early(key) for key in (*vms.asked.moves.leave, *vms.asked.moves.again))


def _own_steps(graph: StepGraph, index: int, change: Change, remaining: Values | None) -> None:
    """The steps of one change, in their own order."""
    action, address = change.action, change.address
    if action is Action.FORGET:
        graph.add(StepKind.FORGET, index, change.before, None)
        return
    if action is Action.UPDATE:
        _update_steps(graph, index, change, remaining)
        return
    block = str(address.config)
    delete = create = None
    if action in _DELETES:
        delete = graph.add(StepKind.DELETE, index, change.before, None)
        graph.deleting[address, change.deposed] = delete
        graph.destroyed_by.setdefault(block, []).append(delete)
    if action in _CREATES:
        create = graph.add(StepKind.CREATE, index, None, change.after)
        graph.making[address] = create
        graph.made_by.setdefault(block, []).append(create)
    if delete is not None and create is not None:
        create_first = action is Action.REPLACE_CREATE_FIRST
        first, second = (create, delete) if create_first else (delete, create)
        graph.wait(second, [first])


def _update_steps(graph: StepGraph, index: int, change: Change, remaining: Values | None) -> None:
    """An update, after a release where VMs of the object make room for others."""
    address, prior = change.address, change.before
    if remaining is not None:
        graph.releasing[address] = graph.add(StepKind.RELEASE, index, prior, remaining, main=False)
        prior = remaining
    update = graph.add(StepKind.UPDATE, index, prior, change.after)
    graph.making[address] = update
    graph.made_by.setdefault(str(address.config), []).append(update)
    if address in graph.releasing:
        graph.wait(update, [graph.releasing[address]])


def _without_leaving(vms: VmObject, surroundings: Surroundings) -> dict[str, Any]:
    """The object's prior attributes with the VMs that stay."""
    instance = vms.instance
    assert instance.prior is not None
    assert instance.type.vms is not None
    attributes = dict(instance.prior.attributes)
    return attributes | instance.type.vms.assemble(
        attributes, surroundings, vms.remaining_vms(), vms.before.unplaced
    )


def _besides(changes: Sequence[Change], types: Types) -> Mapping[Address, AbstractSet[str]]:
    """The blocks that a change refers to and goes beside. Where part of it is unknown until these are made,
    it waits for them.
    """
    used = {change.address.type for change in changes}  # looking at all would load every domain
    beside = {name: types[name].goes_beside for name in used if name in types and types[name].goes_beside}
    going = [
        change
        for change in changes
        if change.address.type in beside and change.after is not None and not has_unknown(change.after)
    ]
    if not going:
        return {}
    type_of = {str(change.address.config): change.address.type for change in changes}
    return {
        change.address: {
            block for block in change.dependencies if type_of.get(block) in beside[change.address.type]
        }
        for change in going
    }


def _wait_for_references(graph: StepGraph, beside: Mapping[Address, AbstractSet[str]]) -> None:
    """Makers wait for what their configuration refers to, but for what they go beside."""
    for change in graph.changes:
        making = graph.making.get(change.address)
        if making is not None:
            for block in change.dependencies:
                if block not in beside.get(change.address, ()):
                    graph.wait(making, graph.gate(("made", block), graph.made_by.get(block, [])))


def _begin_together(graph: StepGraph, beside: Mapping[Address, AbstractSet[str]]) -> None:
    """What goes beside something begins when that does: it waits for the same."""
    for address, blocks in beside.items():
        making = graph.making.get(address)
        if making is None:
            continue
        for block in sorted(blocks):
            awaited = {wait for made in graph.made_by.get(block, []) for wait in graph.drafts[made].waits}
            graph.wait(making, graph.gate(("beside", block), sorted(awaited)))


def _wait_for_dependents(graph: StepGraph, prior: Prior) -> None:
    """What is destroyed waits until those that referred to it are gone, or no longer refer to it."""
    gone: dict[str, list[int]] = {}  # block -> deletes of what referred to it
    updated: dict[str, list[int]] = {}  # block -> creates and updates of what referred to it
    for change in graph.changes:
        if change.before is None:
            continue
        delete = graph.deleting.get((change.address, change.deposed))
        making = graph.making.get(change.address)
        for block in prior.dependencies(change.address, change.deposed, change.dependencies):
            if block not in graph.destroyed_by:
                continue
            if delete is not None:
                gone.setdefault(block, []).append(delete)
            if making is not None:
                updated.setdefault(block, []).append(making)
    for block, deletes in graph.destroyed_by.items():
        for delete in deletes:
            graph.wait(delete, graph.gate(("gone", block), gone.get(block, [])))
            if not graph.replaces(delete):
                graph.wait(delete, graph.gate(("updated", block), updated.get(block, [])))


def _wait_for_uses(graph: StepGraph, uses: _Uses) -> None:
    """Makers wait for what they use; what is destroyed waits for those that used it."""
    for change in graph.changes:
        making = graph.making.get(change.address)
        if making is not None:
            makers = [graph.making[used] for used in uses.after(change) if used in graph.making]
            graph.wait(making, makers)
        if change.before is not None and not change.deposed:
            _wait_for_former_user(graph, change, uses)


def _wait_for_former_user(graph: StepGraph, change: Change, uses: _Uses) -> None:
    """What an object used before is destroyed only once the object is gone, or uses something else."""
    making = graph.making.get(change.address)
    delete = graph.deleting.get((change.address, ""))
    release = graph.releasing.get(change.address)
    leaving = [step for step in (delete, release) if step is not None]
    for used in uses.before(change):
        destroy = graph.deleting.get((used, ""))
        if destroy is None or used == change.address:
            continue
        graph.wait(destroy, leaving)
        if delete is None and making is not None and not graph.replaces(destroy):
            graph.wait(destroy, [making])


# --- what objects use --------------------------------------------------------------------------


class _Uses:
    """What the objects of a plan use before and after it. Something may be named twice."""

    def __init__(
        self, changes: Sequence[Change], machines: Mapping[Address, MachineUse], types: Types
    ) -> None:
        before: dict[Address, Values] = {}
        after: dict[Address, Values] = {}
        for change in changes:
            if change.before is not None and not change.deposed:
                before[change.address] = change.before
            if change.after is not None and not change.deposed:
                after[change.address] = change.after
        present = dict.fromkeys(change.address.type for change in changes)
        references = {name: _references(types[name]) for name in present if name in types}
        self._before = _NamedObjects(before, references)
        self._after = _NamedObjects(after, references)
        self._places_before = _racks_and_machines(before, types)
        self._by_text_after = {str(address): address for address in after}
        self._machines = machines

    def after(self, change: Change) -> Iterator[Address]:
        """What the object uses once it is made."""
        if change.after is not None:
            yield from self._after.named_by(change.address.type, change.after)
        yield from self._machines_taken(change.address)

    def before(self, change: Change) -> Iterator[Address]:
        """What the object used."""
        if change.before is not None:
            yield from self._before.named_by(change.address.type, change.before)
        yield from self._machines_held(change.address)

    def _machines_taken(self, address: Address) -> Iterator[Address]:
        """The racks and machines that make room for the VMs which this plan places."""
        use = self._machines.get(address)
        for maker in use.makers if use is not None else ():
            if maker in self._by_text_after:
                yield self._by_text_after[maker]

    def _machines_held(self, address: Address) -> Iterator[Address]:
        """The racks and machines on which its VMs stood, by the ids that these had."""
        use = self._machines.get(address)
        if use is None:
            return
        racks = {f"{site}/{rack}" for site, rack, _ in use.held}
        machines = {f"{site}/{rack}/{machine}" for site, rack, machine in use.held}
        for maker in racks | machines:
            if maker in self._places_before:
                yield self._places_before[maker]


def _racks_and_machines(objects: Mapping[Address, Values], types: Types) -> dict[str, Address]:
    """What offers machines by its id: `<site>/<rack>`, `<site>/<rack>/<machine>`."""
    places: dict[str, Address] = {}
    for address, values in objects.items():
        resource_type = types.get(address.type)
        if resource_type is not None and resource_type.kind in (Kind.RACK, Kind.MACHINE):
            places[str(values.get("id"))] = address
    return places


# --- what arguments name -----------------------------------------------------------------------


def _references(resource_type: ResourceType) -> list[tuple[str, Reference]]:
    """The attributes of a type that name objects, and whose."""
    attributes = resource_type.schema.attributes.items()
    return [(name, attribute.refers_to) for name, attribute in attributes if attribute.refers_to is not None]


class _NamedObjects:
    """The objects on one side of a plan, by what references may call them."""

    def __init__(
        self, objects: Mapping[Address, Values], references: Mapping[str, Sequence[tuple[str, Reference]]]
    ) -> None:
        self._references = references
        self._named: dict[tuple[str, str], dict[Hashable, Address]] = {}
        asked: dict[str, dict[str, tuple[str, ...]]] = {}  # type -> attribute that names it -> fields
        for _, reference in chain.from_iterable(references.values()):
            for kind in reference.types:
                asked.setdefault(kind, {})[reference.by] = reference.fields
                self._named[kind, reference.by] = {}
        for address, values in objects.items():
            for attribute, fields in asked.get(address.type, {}).items():
                named = self._named[address.type, attribute]
                for name in _names(values.get(attribute), fields):
                    named.setdefault(name, address)

    def named_by(self, kind: str, values: Values) -> Iterator[Address]:
        """The objects that an object of this type names."""
        for argument, reference in self._references.get(kind, ()):
            for name in _names(values.get(argument), reference.fields):
                address = self._find(name, reference)
                if address is not None:
                    yield address

    def _find(self, name: Hashable, reference: Reference) -> Address | None:
        for target in reference.types:
            address = self._named[target, reference.by].get(name)
            if address is not None:
                return address
        return None


def _names(value: Any, fields: Iterable[str]) -> Iterator[Hashable]:
    """The names in a value (see schema.Reference); none while it is unknown."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
    elif isinstance(value, list):
        for item in value:
            yield _fields_of(item, fields) if isinstance(item, dict) else item


def _fields_of(item: Mapping[str, Any], fields: Iterable[str]) -> tuple[str, ...]:
    return tuple(str(item.get(field) or "") for field in fields)
