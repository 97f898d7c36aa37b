"""A destroy plan: everything selected goes, and all that depends on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from nexusform.address import Address, address_order
from nexusform.graph import reached
from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.preparation.selection import Selection
from nexusform.planning.vms import vm_phase
from nexusform.planning.vms.surroundings import PlanSurroundings
from nexusform.planning.vms.vm_object import VmObject
from nexusform.planning.vms.vm_world import emptied_world


def destroy(blocks: Blocks) -> tuple[dict[Address, VmObject], PlanSurroundings]:
    """Everything selected goes, and all that depends on it. Gives the VMs of what stands, and what prior
    arguments meant.
    """
    _decide(blocks)
    world = emptied_world(blocks)
    objects: dict[Address, VmObject] = {}
    for address, instance in blocks.instances.items():
        if instance.type.vms is None or instance.prior is None:
            continue
        vms = objects[address] = vm_phase.stand(instance, world)
        if vms.going:
            vm_phase.consider(vms, None, world)
        else:
            vms.stay_as_they_are()
    return objects, world.before


def _decide(blocks: Blocks) -> None:
    """Every instance that stands goes or is left alone."""
    configured = {block.address: block for block in blocks.order.blocks}
    doomed = _doomed(blocks.selection, blocks.prior)
    for address in sorted(blocks.prior.instances, key=address_order):
        if address.type not in blocks.request.registries.resource_types:
            continue
        instance = blocks.going(address, "") if address in doomed else blocks.left_alone(address)
        instance.block = configured.get(address.config)
        blocks.instances[address] = instance


def _doomed(selection: Selection, prior: Prior) -> AbstractSet[Address]:
    """The instances that go: the selected ones and what depends on them."""
    if not selection.partial:
        return prior.instances.keys()
    if selection.targets:
        named = [address for address in prior.instances if selection.targets_itself(address)]
        return _with_dependents(named, prior)
    return prior.instances.keys() - _with_needs([a for a in prior.instances if not selection.has(a)], prior)


def _with_dependents(named: Iterable[Address], prior: Prior) -> set[Address]:
    dependents: dict[str, list[Address]] = {}
    for address in prior.instances:
        for need in prior.dependencies(address, "", ()):
            dependents.setdefault(need, []).append(address)

    def next_to(address: Address) -> Iterator[Address]:
        return (other for other in dependents.get(str(address.config), ()) if _may_meet(address, other))

    return reached(named, next_to)


def _with_needs(kept: Iterable[Address], prior: Prior) -> set[Address]:
    by_text = {str(block): addresses for block, addresses in prior.by_block.items()}

    def next_to(address: Address) -> Iterator[Address]:
        for need in prior.dependencies(address, "", ()):
            yield from (other for other in by_text.get(need, ()) if _may_meet(address, other))

    return reached(kept, next_to)


def _may_meet(one: Address, other: Address) -> bool:
    """Whether one may depend on the other. State records dependencies without instance keys, and
    instances of one module know nothing of each other.
    """
    for mine, its in zip(one.module, other.module, strict=False):
        if mine.name != its.name:
            return True
        if mine.key != its.key:
            return False
    return True
