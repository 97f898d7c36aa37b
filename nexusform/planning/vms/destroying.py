"""A destroy plan: everything selected goes, and all that depends on it."""

from __future__ import annotations

from nexusform.address import Address, address_order
from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.preparation.order import Order
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.preparation.selection import Selection
from nexusform.planning.vms.surroundings import PlanSurroundings, surroundings_before, vm_skus
from nexusform.planning.vms.vm_phase import VmObject, VmPhase, Wishes
from nexusform.scheduling.world import Inventory


def destroy(
    blocks: Blocks, order: Order, selection: Selection, inventory: Inventory
) -> tuple[dict[Address, VmObject], PlanSurroundings]:
    """Everything selected goes, and all that depends on it."""
    objects: dict[Address, VmObject] = {}
    by_address = {b.address: b for b in order.blocks}
    doomed = _with_dependents(selection, blocks.prior)
    for address in sorted(blocks.prior.instances, key=address_order):
        if address.type not in blocks.request.registries.resource_types:
            continue
        block = by_address.get(address.config)
        if doomed is None or address in doomed:
            instance = blocks.going(address, None)
            instance.reason = ""
        else:
            instance = blocks.left_alone(address)
        blocks.instances[address] = instance
        if block is not None:
            instance.block = block
        family = instance.type.vms
        if family is not None and instance.prior is not None:
            vms = VmObject(instance)
            vms.standing = {(v.pool, v.number): v for v in family.standing(instance.prior.attributes)}
            objects[address] = vms
    skus, _ = vm_skus(blocks.request, inventory)
    before = surroundings_before(blocks.prior, skus, blocks.request.registries.resource_types)
    phase = VmPhase({}, before, before, Wishes({}))
    for vms in objects.values():
        if vms.instance.prior is not None and vms.instance.type.vms is not None:
            vms.before, _ = vms.instance.type.vms.demand(
                vms.instance.prior.attributes, before, vms.instance.address
            )
        if vms.going:
            phase.consider(vms, None)
        else:
            vms.placed = dict(vms.standing)
            vms.moves.stay = list(vms.standing)
    return objects, before


def _with_dependents(selection: Selection, prior: Prior) -> set[Address] | None:
    """The instances that a targeted destroy takes: the named ones and what depends on them."""
    if not selection.partial:
        return None
    if not selection.targets:
        return set(prior.instances) - _with_needs({a for a in prior.instances if not selection.has(a)}, prior)
    started = {a for a in prior.instances if any(p.matches(a) for p in selection.targets)}
    dependents: dict[str, set[Address]] = {}
    for address, state in prior.instances.items():
        for need in state.current.dependencies if state.current else ():
            dependents.setdefault(need, set()).add(address)
    stack, found = list(started), set(started)
    while stack:
        at = stack.pop()
        for address in dependents.get(str(at.config), ()):
            if address not in found and _may_meet(at, address):
                found.add(address)
                stack.append(address)
    return found


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


def _with_needs(kept: set[Address], prior: Prior) -> set[Address]:
    """What is kept, and all that it depends on."""
    by_text = {str(config): addresses for config, addresses in prior.by_block.items()}
    stack, found = list(kept), set(kept)
    while stack:
        at = stack.pop()
        current = prior.instances[at].current
        for need in current.dependencies if current is not None else ():
            more = {a for a in by_text.get(need, ()) if a not in found and _may_meet(at, a)}
            found |= more
            stack += more
    return found
