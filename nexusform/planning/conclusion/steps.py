"""Graph of steps for apply.

A step waits for the steps that create the objects it refers to or uses; destroys run in reverse;
steps that need capacity wait for those that free it. A create waits for the deletes of objects with
its id. A `release` removes VMs of an updated object and waits for nothing. Objects that start
together with another one (`ResourceType.concurrent_types`) wait only for the same steps as that
one. If many steps wait for all of many, a gate connects them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, Final

from nexusform.interfaces.plugins import PlanningKind, ResourceContext, ResourceType
from nexusform.json_data.plain_data import get_mapping, get_text, has_unknown_part
from nexusform.planning.conclusion.step_graph import (
    StepGraph,
    UsedMachines,
    add_capacity_waits,
    compute_machine_use,
    list_step,
    remove_cyclic_waits,
)
from nexusform.planning.preparation.prior_state import PriorState
from nexusform.planning.vm_planning.site_plans import SitePlan
from nexusform.planning.vm_planning.vm_object import ROLLING, VmObject
from nexusform.plans.plan import Action, Change, Step, StepKind
from nexusform.resources.address import Address
from nexusform.schemas.block_schema import ObjectReference

Types = Mapping[str, ResourceType]
Values = Mapping[str, Any]
StepOrder = Mapping[Address, Sequence[Address]]
_NO_MACHINES = UsedMachines()
_SETTINGS: Final = "upgrade_settings"
_DELETES = (Action.DELETE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_CREATES = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


def build_plan_steps(
    changes: Sequence[Change],
    objects: Mapping[Address, VmObject],
    sites: Mapping[str, SitePlan],
    prior: PriorState,
    context: ResourceContext,
    types: Mapping[str, ResourceType],
    step_order: StepOrder,
) -> list[Step]:
    """Build the steps of a plan.

    `step_order` lists the addresses to complete before the step of an address.
    """
    # The attributes of an updated object after its release step (early removal of VMs),
    # before its update.
    remaining_attributes: dict[Address, Values] = {}
    for change in changes:
        vm_object = objects.get(change.address)
        if change.action is not Action.UPDATE or vm_object is None:
            continue
        leaving_vms = (*vm_object.request.actions.removals, *vm_object.request.actions.recreations)
        early_arguments = _find_early_arguments(change, vm_object)
        # A release step frees their capacity.
        if early_arguments or any(vm_object.is_released_early(key) for key in leaving_vms):
            instance = vm_object.instance
            assert instance.prior is not None
            assert instance.type.vms is not None
            attributes = {**instance.prior.attributes, **early_arguments}
            # The unchanged VMs remain, and those upgraded later, batch by batch.
            remaining_vms = [
                vm
                for key, vm in vm_object.prior.existing.items()
                if not vm_object.is_released_early(key)
            ]
            remaining_attributes[change.address] = (
                attributes
                | instance.type.vms.build_computed_attributes(
                    attributes, context, remaining_vms, vm_object.prior.unplaced
                )
            )
    machines = {address: compute_machine_use(vm_object) for address, vm_object in objects.items()}
    graph = build_step_graph(changes, remaining_attributes, prior, machines, types, step_order)
    add_capacity_waits(graph, machines, objects, sites)
    return graph.build_steps()


def _find_early_arguments(change: Change, vm_object: VmObject) -> Values:
    """Return the arguments of a separate pool to change before an upgrade of its cluster.

    The platform runs the upgrade with the settings of its moment.
    """
    is_upgraded = ROLLING in vm_object.request.actions.recreations.values()
    settings = get_mapping(change.after).get(_SETTINGS)
    if (
        not vm_object.request.demand.parent_id
        or not is_upgraded
        or settings == get_mapping(change.before).get(_SETTINGS)
    ):
        return {}
    return {_SETTINGS: settings}


def build_step_graph(
    changes: Sequence[Change],
    remaining: Mapping[Address, Values],
    prior: PriorState,
    machines: Mapping[Address, UsedMachines],
    types: Types,
    step_order: StepOrder,
) -> StepGraph:
    """Build the steps of changes, with all waits except those for capacity.

    `remaining` are the attributes of updated objects between their release step (early removal of
    VMs) and their update. `machines` are those used by VMs. A gate is one step in place of many
    to wait for.
    """
    graph = StepGraph(changes)
    for index, change in enumerate(changes):
        _add_steps_of_change(graph, index, change, remaining.get(change.address))
    concurrent_blocks = _find_concurrent_blocks(changes, types)
    # Let creates and updates wait for referenced objects, except those created at the same time.
    for change in changes:
        apply_step = graph.apply_step.get(change.address)
        if apply_step is None:
            continue
        for block in change.dependencies:
            if block not in concurrent_blocks.get(change.address, ()):
                graph.add_waits(
                    apply_step,
                    graph.get_gate(("created", block), graph.creation_steps.get(block, [])),
                )
    waits_for_updates = _add_dependent_waits(graph, prior, step_order)
    _add_used_object_waits(graph, _UsedObjectIndex(changes, machines, types), step_order)
    waits_for_ids = _add_waits_for_ids(graph)
    if waits_for_ids:
        remove_cyclic_waits(graph, waits_for_updates)
        remove_cyclic_waits(graph, waits_for_ids)
    _add_domain_order_waits(graph, step_order)
    # Objects created at the same time start together: let each wait for the steps awaited by
    # the referenced ones.
    for address, blocks in concurrent_blocks.items():
        apply_step = graph.apply_step.get(address)
        if apply_step is None:
            continue
        for block in sorted(blocks):
            shared_waits = {
                wait
                for step in graph.creation_steps.get(block, [])
                for wait in graph.drafts[step].waits
            }
            graph.add_waits(apply_step, graph.get_gate(("concurrent", block), sorted(shared_waits)))
    return graph


def _add_steps_of_change(
    graph: StepGraph, index: int, change: Change, remaining: Values | None
) -> None:
    """Add the steps of the change at `index` of the plan.

    With `remaining`, a release step removes VMs before the update, and the object has these
    attributes between the two. A replacement has a delete and a create step.
    """
    action = change.action
    address = change.address
    if action is Action.FORGET:
        graph.add_step(StepKind.FORGET, index, change.before, planned=None)
        return
    block = str(address.config_address)
    if action is Action.UPDATE:
        release_steps: list[int] = []
        # VMs of the object free capacity before its update.
        if remaining is not None:
            release = graph.add_step(StepKind.RELEASE, index, change.before, remaining)
            graph.release_step[address] = release
            release_steps = [release]
        update = graph.add_step(StepKind.UPDATE, index, remaining or change.before, change.after)
        graph.add_waits(update, release_steps)
        graph.apply_step[address] = update
        graph.creation_steps.setdefault(block, []).append(update)
        return
    delete_step = create_step = None
    if action in _DELETES:
        delete_step = graph.add_step(StepKind.DELETE, index, change.before, planned=None)
        graph.delete_step[address, change.deposed] = delete_step
        graph.deletion_steps.setdefault(block, []).append(delete_step)
    if action in _CREATES:
        create_step = graph.add_step(StepKind.CREATE, index, prior=None, planned=change.after)
        graph.apply_step[address] = create_step
        graph.creation_steps.setdefault(block, []).append(create_step)
    if delete_step is not None and create_step is not None:
        create_first = action is Action.REPLACE_CREATE_FIRST
        first, second = (create_step, delete_step) if create_first else (delete_step, create_step)
        graph.add_waits(second, [first])


def _find_concurrent_blocks(
    changes: Sequence[Change], types: Types
) -> Mapping[Address, AbstractSet[str]]:
    """Return for each address the blocks it refers to without waiting for them.

    Their objects complete only after its own step (`concurrent_types`), as a run after its
    approval. An object with unknown values waits for all blocks.
    """
    type_of = {str(change.address.config_address): change.address.type for change in changes}
    # A look-up of all types would load every domain.
    known_types = set(type_of.values()).intersection(types)
    concurrent_types = {name: types[name].concurrent_types for name in known_types}
    concurrent_blocks: dict[Address, AbstractSet[str]] = {}
    for change in changes:
        own_types = concurrent_types.get(change.address.type)
        if own_types and not has_unknown_part(change.after):
            blocks = {block for block in change.dependencies if type_of.get(block) in own_types}
            concurrent_blocks[change.address] = blocks
    return concurrent_blocks


def _add_domain_order_waits(graph: StepGraph, step_order: StepOrder) -> None:
    """Add waits for changes that a domain or a machine action orders earlier.

    No wait is added that would form a cycle with other waits.
    """
    ordered_waits: dict[int, set[int]] = {}
    for address, awaited_addresses in step_order.items():
        steps = graph.list_steps(address)
        # Without a step in this plan.
        if not steps:
            continue
        # Its create or update; the delete of a removed object.
        step = steps[0]
        awaited_steps = {
            wait for awaited in awaited_addresses for wait in graph.list_steps(awaited)
        } - {step}
        if awaited_steps:
            # Equal steps share a gate.
            gate_name = ("ordered", ",".join(map(str, sorted(awaited_steps))))
            ordered_waits[step] = (
                set(graph.get_gate(gate_name, sorted(awaited_steps))) - graph.drafts[step].waits
            )
            graph.add_waits(step, ordered_waits[step])
    remove_cyclic_waits(graph, ordered_waits)


def _add_waits_for_ids(graph: StepGraph) -> dict[int, set[int]]:
    """Let a create wait for the deletes of objects with its id at other addresses.

    They are one object for a provider: it would be updated, and then deleted. Such ids move along
    a list of `count`, and by renames. Return the added waits by step.
    """
    deletes: dict[tuple[str, str, str], dict[int, Address]] = {}
    for change in graph.changes:
        for step in list_step(graph.delete_step, (change.address, change.deposed)):
            key = (change.address.type, change.provider, get_text(change.before or {}, "id"))
            deletes.setdefault(key, {})[step] = change.address
    waits: dict[int, set[int]] = {}
    for change in graph.changes:
        object_id = get_text(change.after or {}, "id")
        if change.action not in _CREATES or change.deposed or not object_id:
            continue
        same = deletes.get((change.address.type, change.provider, object_id), {})
        awaited = {step for step, address in same.items() if address != change.address}
        if awaited:
            waits[graph.apply_step[change.address]] = awaited
    for step, awaited in waits.items():
        graph.add_waits(step, awaited)
    return waits


def _add_dependent_waits(
    graph: StepGraph, prior: PriorState, step_order: StepOrder
) -> dict[int, set[int]]:
    """Let the destroy of an object wait for the deletes and updates of its dependents.

    It does not wait for an update ordered after it by a domain, nor for the create of a replaced
    dependent. The destroy of a replaced object comes before all updates of its dependents. Return
    the waits for updates by step.
    """
    waits_for_updates: dict[int, set[int]] = {}
    # Deletes of the dependents of each block.
    deletes_by_block: dict[str, list[int]] = {}
    # Updates of the dependents of each block.
    updates_by_block: dict[str, list[int]] = {}
    for change in graph.changes:
        # A new object was never a dependent.
        if change.before is None:
            continue
        deletes = list_step(graph.delete_step, (change.address, change.deposed))
        earlier_blocks = {
            str(earlier.config_address) for earlier in step_order.get(change.address, ())
        }
        for block in prior.get_dependencies(change.address, change.deposed, change.dependencies):
            if block not in graph.deletion_steps:
                continue
            deletes_by_block.setdefault(block, []).extend(deletes)
            if block not in earlier_blocks and not deletes:
                updates_by_block.setdefault(block, []).extend(
                    list_step(graph.apply_step, change.address)
                )
    for block, deletes in graph.deletion_steps.items():
        for delete in deletes:
            graph.add_waits(
                delete, graph.get_gate(("deleted", block), deletes_by_block.get(block, []))
            )
            if not graph.is_replacement(delete):
                updates = graph.get_gate(("updated", block), updates_by_block.get(block, []))
                graph.add_waits(delete, updates)
                waits_for_updates[delete] = set(updates)
    return waits_for_updates


def _add_used_object_waits(graph: StepGraph, uses: _UsedObjectIndex, step_order: StepOrder) -> None:
    """Add waits of creates and updates for objects in use, and of destroys for their users.

    A create or update uses objects; a destroy waits for the former users of its object. A domain
    may order two objects differently.
    """
    for change in graph.changes:
        apply_step = graph.apply_step.get(change.address)
        if apply_step is not None:
            used_steps = [
                graph.apply_step[used]
                for used in uses.list_after(change)
                # The change is not ordered after it.
                if used in graph.apply_step and change.address not in step_order.get(used, ())
            ]
            graph.add_waits(apply_step, used_steps)
        # A former user; uses of deposed ones are not tracked.
        if change.before is not None and not change.deposed:
            used_before = uses.list_before(change.address, change.before)
            _add_former_user_wait(graph, change, used_before, step_order.get(change.address, ()))


def _add_former_user_wait(
    graph: StepGraph, change: Change, used_before: Iterable[Address], earlier: Sequence[Address]
) -> None:
    """Let the destroy of each used object wait for its user.

    For its delete and release, and for its update unless the object is in `earlier`, the addresses
    ordered before the update.
    """
    updates = list_step(graph.apply_step, change.address)
    deletes = list_step(graph.delete_step, (change.address, ""))
    releases = list_step(graph.release_step, change.address)
    for used in used_before:
        destroy = graph.delete_step.get((used, ""))
        # It stays, or uses itself.
        if destroy is None or used == change.address:
            continue
        graph.add_waits(destroy, [*deletes, *releases])
        # A user needs the object until its update. But users of a replaced object are updated
        # after its delete.
        if not deletes and used not in earlier and not graph.is_replacement(destroy):
            graph.add_waits(destroy, updates)


class _UsedObjectIndex:
    """Objects used by the objects of a plan before and after it.

    Duplicates are possible.
    """

    def __init__(
        self, changes: Sequence[Change], machines: Mapping[Address, UsedMachines], types: Types
    ) -> None:
        """Index the current (not deposed) objects by the names and ids that other objects refer to.

        `machines` are those used by the VMs of each object.
        """
        before: dict[Address, Values] = {}
        after: dict[Address, Values] = {}
        created: set[Address] = set()
        # Each once, in order.
        type_names: dict[str, None] = {}
        for change in changes:
            # Only to delete.
            if change.deposed:
                continue
            type_names[change.address.type] = None
            if change.before is not None:
                before[change.address] = change.before
            if change.after is not None:
                after[change.address] = change.after
            if change.action in _CREATES:
                created.add(change.address)
        references = {name: _list_references(types[name]) for name in type_names}
        self._before = _ObjectIndex(before, references)
        self._after = _ObjectIndex(after, references)
        # Racks and machines by id: `<site>/<rack>`, `<site>/<rack>/<machine>`.
        self._places_before: dict[str, Address] = {}
        for address, values in before.items():
            if types[address.type].kind in (PlanningKind.RACK, PlanningKind.MACHINE):
                self._places_before[str(values.get("id"))] = address
        # Racks and machines created or enlarged by this plan, by address as text: new VMs on them
        # wait for their step.
        self._new_hardware: dict[str, Address] = {}
        for address, values in after.items():
            if address in created or _can_add_machine_capacity(before.get(address), values):
                self._new_hardware[str(address)] = address
        self._machines = machines

    def list_after(self, change: Change) -> Iterator[Address]:
        """Yield the objects used after the plan.

        These are referenced objects, and racks or machines with new capacity for VMs.
        """
        if change.after is not None:
            yield from self._after.find_referenced(change.address.type, change.after)
        use = self._machines.get(change.address, _NO_MACHINES)
        for owner in use.offering_addresses:
            if owner in self._new_hardware:
                yield self._new_hardware[owner]

    def list_before(self, address: Address, values: Values) -> Iterator[Address]:
        """Yield the objects used before the plan.

        These are referenced objects, and the racks and machines of prior VMs.
        """
        yield from self._before.find_referenced(address.type, values)
        use = self._machines.get(address, _NO_MACHINES)
        # Ids of the racks and machines.
        place_ids: set[str] = set()
        for site, rack, machine in use.occupied:
            place_ids |= {f"{site}/{rack}", f"{site}/{rack}/{machine}"}
        for place_id in place_ids:
            if place_id in self._places_before:
                yield self._places_before[place_id]


def _list_references(resource_type: ResourceType) -> list[tuple[str, ObjectReference]]:
    """Return the attributes of a type that refer to other objects, each with its reference."""
    attributes = resource_type.schema.attributes.items()
    return [
        (name, attribute.refers_to)
        for name, attribute in attributes
        if attribute.refers_to is not None
    ]


def _can_add_machine_capacity(before: Values | None, after: Values) -> bool:
    """Return whether the step of a rack or machine may add capacity.

    Then steps of new VMs wait for it. New or unknown machines and changed hardware may add
    capacity, and so may a change of existing cordons. No VM waits for a first cordon. `before` is
    None for a new rack or machine.
    """
    machines = get_mapping(after, "machines")
    machines_before = get_mapping(before, "machines")
    has_new_machines = bool(machines.keys() - machines_before.keys())
    if before is None or has_new_machines or has_unknown_part(machines):
        return True
    compared_names = list(_OFFERED)
    compared_names += [name for name in _CORDONS if before.get(name)]
    return any(before.get(name) != after.get(name) for name in compared_names)


# Attributes of racks and machines that decide on offered capacity and closed machines.
_OFFERED: Final = (
    "availability_zone",
    "detailed_status",
    "machine",
    "machine_sku",
    "occupied",
    "power_state",
    "ready_state",
    "roles",
    "slot",
    "status",
)
_CORDONS: Final = ("cordoned", "evacuate", "machine_override")


class _ObjectIndex:
    """Objects on one side of a plan, by the names used in references."""

    def __init__(
        self,
        objects: Mapping[Address, Values],
        references: Mapping[str, Sequence[tuple[str, ObjectReference]]],
    ) -> None:
        """Index objects by the attributes used to refer to them, such as `id` or `name`.

        `references` are the referring arguments by resource type.
        """
        self._references = references
        # (type, naming attribute) -> name -> object.
        self._named: dict[tuple[str, str], dict[Hashable, Address]] = {}
        # Fields of a name, by type and naming attribute.
        fields_by_attribute: dict[str, dict[str, tuple[str, ...]]] = {}
        for _, reference in chain.from_iterable(references.values()):
            for kind in reference.types:
                fields_by_attribute.setdefault(kind, {})[reference.by] = reference.fields
                self._named[kind, reference.by] = {}
        for address, values in objects.items():
            for attribute, fields in fields_by_attribute.get(address.type, {}).items():
                addresses_by_name = self._named[address.type, attribute]
                for name in _list_referenced_names(values.get(attribute), fields):
                    # The first object with this name.
                    addresses_by_name.setdefault(name, address)

    def find_referenced(self, kind: str, values: Values) -> Iterator[Address]:
        """Yield the objects referenced by an object of this type."""
        for argument, reference in self._references.get(kind, ()):
            for name in _list_referenced_names(values.get(argument), reference.fields):
                for target in reference.types:
                    if name in self._named[target, reference.by]:
                        yield self._named[target, reference.by][name]
                        # The first type with an object of this name.
                        break


def _list_referenced_names(value: Any, fields: Iterable[str]) -> Iterator[Hashable]:
    """Yield the names in the value of a naming or referring attribute.

    An unknown value has no names. Names are a text itself, the keys of a map, or the elements of a
    list. An object in a list is named by the values of `fields`: {"namespace": "a", "name": "b"} by
    ("a", "b"), with "" for a missing value.
    """
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict):
                yield tuple(str(item.get(field) or "") for field in fields)
            else:
                yield item
