"""The graph of steps that apply follows.

A step waits for the steps that make what it refers to or uses; destroys run in reverse; whatever
takes room waits for what frees it. A `release` gives up VMs of a kept object and waits for
nothing. Where many steps wait for all of many, one gate stands between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nexusform.address import Address
from nexusform.planning.conclusion.freed_room import wait_for_room
from nexusform.planning.conclusion.step_graph import StepGraph
from nexusform.planning.conclusion.uses import Uses
from nexusform.planning.plan import Action, Change, Step, StepKind
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.vms.sites import SitePlan
from nexusform.planning.vms.vm_object import VmObject
from nexusform.ports import ResourceType, Surroundings

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
    graph = StepGraph(changes)
    for index, change in enumerate(changes):
        _own_steps(graph, index, change, objects.get(change.address), surroundings)
    _wait_for_references(graph)
    _wait_for_dependents(graph, prior)
    _wait_for_uses(graph, Uses(changes, objects, types))
    wait_for_room(graph, objects, sites)
    return graph.steps()


def _own_steps(
    graph: StepGraph, index: int, change: Change, vms: VmObject | None, surroundings: Surroundings
) -> None:
    """The steps of one change, in their own order."""
    action, address = change.action, change.address
    if action is Action.FORGET:
        graph.add(StepKind.FORGET, index, change.before, None)
        return
    if action is Action.UPDATE:
        _update_steps(graph, index, change, vms, surroundings)
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


def _update_steps(
    graph: StepGraph, index: int, change: Change, vms: VmObject | None, surroundings: Surroundings
) -> None:
    """An update, after a release where VMs of the object make room for others."""
    address, prior = change.address, change.before
    if vms is not None and any(vms.leaves_early(key) for key in (*vms.moves.leave, *vms.moves.again)):
        remaining = _without_leaving(vms, surroundings)
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
    return attributes | instance.type.vms.assemble(attributes, surroundings, vms.remaining_vms())


def _wait_for_references(graph: StepGraph) -> None:
    """Makers wait for what their configuration refers to."""
    for change in graph.changes:
        making = graph.making.get(change.address)
        if making is not None:
            for block in change.dependencies:
                graph.wait(making, graph.gate(("made", block), graph.made_by.get(block, [])))


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


def _wait_for_uses(graph: StepGraph, uses: Uses) -> None:
    """Makers wait for what they use; what is destroyed waits for those that used it."""
    for change in graph.changes:
        making = graph.making.get(change.address)
        if making is not None:
            makers = [graph.making[used] for used in uses.after(change) if used in graph.making]
            graph.wait(making, makers)
        if change.before is not None and not change.deposed:
            _wait_for_former_user(graph, change, uses)


def _wait_for_former_user(graph: StepGraph, change: Change, uses: Uses) -> None:
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
