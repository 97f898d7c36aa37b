"""Manual changes of a state: move, remove, taint.

The edits are pure: nothing is written.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import DiagnosticsError, build_error
from nexusform.diagnostics.phrases import format_list
from nexusform.resources.address import (
    Address,
    AddressPattern,
    ModulePath,
    ModulePathStep,
    compute_address_order,
)
from nexusform.state.objects import InstanceState, ObjectState, State


def select_instances(
    state: State, patterns: Sequence[AddressPattern], object_id: str = ""
) -> list[Address]:
    """Return the instances with the object id and a matching pattern, in order of address.

    Without an object id (""), instances with any id are selected, and without patterns those
    at any address.
    """
    addresses = list(state.instances)
    if object_id:
        objects = state.list_current_objects()
        addresses = [
            address for address, current in objects if current.attributes.get("id") == object_id
        ]
    if patterns:
        addresses = [
            address
            for address in addresses
            if any(pattern.is_match(address) for pattern in patterns)
        ]
    return sorted(addresses, key=compute_address_order)


def remove_instances(state: State, addresses: Iterable[Address]) -> State:
    """Return the state without these instances (with their deposed objects).

    Dependencies on a block are removed if none of its instances remains.
    """
    removed = set(addresses)
    instances = {
        address: instance for address, instance in state.instances.items() if address not in removed
    }
    remaining_blocks = {str(address.config_address) for address in instances}
    empty_blocks = {str(address.config_address) for address in removed} - remaining_blocks
    # Each is replaced by no block.
    no_new_blocks = dict.fromkeys(empty_blocks, frozenset[str]())
    return replace(state, instances=_rename_dependencies(instances, no_new_blocks))


Pairs = tuple[tuple[Address, Address], ...]


def plan_moves(state: State, source: AddressPattern, target: AddressPattern) -> Pairs:
    """Return the (from, to) pair of every instance moved from `source` to `target`, in order.

    An instance keeps its key if neither pattern has one. Raises DiagnosticsError.
    """
    if source == target:
        raise _build_error("nothing-to-move", f"Source and target are both {source}.")
    if bool(source.type) != bool(target.type):
        source_kind, target_kind = (
            ("a resource", "a module") if source.type else ("a module", "a resource")
        )
        detail = f"{source_kind} ({source}) cannot become {target_kind} ({target})."
        raise _build_error("moved-between-kinds", detail)
    if (source.mode, source.type) != (target.mode, target.type):
        raise _build_error(
            "moved-between-types", f"{source} and {target} must have the same resource type."
        )
    sources = select_instances(state, [source])
    if not sources:
        detail = f"The state has no object at {source}. `nexusform state list` lists all."
        raise _build_error("nothing-to-move", detail)
    pairs = tuple((address, _compute_moved_address(address, source, target)) for address in sources)
    if source.type and source.key is None and target.key is not None and sources[0].key is not None:
        raise _build_error(
            "ambiguous-instance-address",
            f"{source} is a whole resource with instance keys, {target} is one instance. Write "
            "one full address, "
            f"such as {sources[0]}.",
        )
    _check_move_targets(state, pairs, target)
    return pairs


def _compute_moved_address(
    address: Address, source: AddressPattern, target: AddressPattern
) -> Address:
    """Replace the parts of an address given by `source` by those of `target`.

    Keys absent from both are kept.
    """
    depth = len(source.module)
    module = (
        *_rename_module_steps(address.module[:depth], source.module, target.module),
        *address.module[depth:],
    )
    # A whole module moves.
    if not target.type:
        return replace(address, module=module)
    keeps_key = source.key is None and target.key is None
    return replace(
        address, module=module, name=target.name, key=address.key if keeps_key else target.key
    )


def _rename_module_steps(actual: ModulePath, source: ModulePath, target: ModulePath) -> ModulePath:
    """Return the new path of the module at `actual`, if `source` is moved to `target`.

    A key of `actual` is kept if neither gives a key in its place: moving `module.a` to `module.b`
    moves `module.a["x"]` to `module.b["x"]`.
    """
    # The steps do not correspond, so no key is kept.
    if len(source) != len(target):
        return target
    new_steps: list[ModulePathStep] = []
    for actual_step, source_step, target_step in zip(actual, source, target, strict=True):
        keeps_key = source_step.key is None and target_step.key is None
        new_steps.append(replace(target_step, key=actual_step.key) if keeps_key else target_step)
    return tuple(new_steps)


def _check_move_targets(state: State, pairs: Pairs, target: AddressPattern) -> None:
    """Raise DiagnosticsError if new addresses collide.

    Two of them are equal, or another instance of the state is in the way.
    """
    moved_addresses = {old for old, _ in pairs}
    targets = {new for _, new in pairs}
    if len(targets) < len(pairs):
        raise _build_error(
            "ambiguous-instance-address",
            "More than one instance would get the same address. Write one full address, or move "
            f"them one by one to keys of {target}.",
        )
    # An address that is moved away, too, is free: a swap or a chain is possible.
    occupied_addresses = sorted(
        (targets & state.instances.keys()) - moved_addresses, key=compute_address_order
    )
    # A resource has either one instance without a key, or several with keys. So a new address
    # without a key conflicts with every instance of that resource with a key, and the other way
    # round. A conflict is (resource, has a key).
    conflicts = {(new.resource, new.key is None) for new in targets}
    # A whole resource moves: no instance may be there at all.
    if target.type and target.key is None:
        conflicts |= {(new.resource, new.key is not None) for new in targets}
    for address in state.instances:
        if (
            address.resource,
            address.key is not None,
        ) in conflicts and address not in moved_addresses:
            occupied_addresses.append(address)
    if occupied_addresses:
        detail = (
            f"The state holds {occupied_addresses[0]} already. Move or remove that first (state "
            "mv, state rm)."
        )
        raise _build_error("move-target-exists", detail)


def move_instances(state: State, pairs: Pairs) -> State:
    """Return the state with instances moved by `pairs`, and with dependencies on them updated.

    A pair has the old and the new address.
    """
    new_addresses = dict(pairs)
    instances: dict[Address, InstanceState] = {}
    # Map every block to the blocks with its former instances, itself included if some stay.
    new_blocks: dict[str, set[str]] = {}
    for address, instance in state.instances.items():
        new_address = new_addresses.get(address, address)
        instances[new_address] = instance
        new_blocks.setdefault(str(address.config_address), set()).add(
            str(new_address.config_address)
        )
    return replace(state, instances=_rename_dependencies(instances, new_blocks))


def _rename_dependencies(
    instances: Mapping[Address, InstanceState], new_blocks: Mapping[str, AbstractSet[str]]
) -> dict[Address, InstanceState]:
    """Return the instances with each dependency on a block replaced by its `new_blocks`.

    A dependency on a block without new blocks is dropped.
    """
    renamed: dict[Address, InstanceState] = {}
    for address, instance in instances.items():
        deposed = {
            key: _rename_object_dependencies(old, new_blocks)
            for key, old in instance.deposed.items()
        }
        current = instance.current
        if current is not None:
            current = _rename_object_dependencies(current, new_blocks)
        renamed[address] = InstanceState(current, deposed)
    return renamed


def _rename_object_dependencies(
    object_state: ObjectState, new_blocks: Mapping[str, AbstractSet[str]]
) -> ObjectState:
    """Return an object with the new blocks in its dependencies.

    Return the same object if none of them changes.
    """
    if new_blocks.keys().isdisjoint(object_state.dependencies):
        return object_state
    dependencies: set[str] = set()
    for name in object_state.dependencies:
        dependencies |= new_blocks.get(name, {name})
    return replace(object_state, dependencies=tuple(sorted(dependencies)))


def find_instance(state: State, pattern: AddressPattern) -> Address | None:
    """Return the only matching instance with a current (not deposed) object, or None.

    Raises DiagnosticsError.
    """
    if not pattern.type:
        raise _build_error(
            "not-a-resource", f"{pattern} is a module; name one resource instance in it."
        )
    if pattern.mode == "data":
        raise _build_error(
            "not-a-resource", f"{pattern} is a data source; every plan reads it again."
        )
    selected_addresses = select_instances(state, [pattern])
    matches = [
        address for address in selected_addresses if state.instances[address].current is not None
    ]
    if len(matches) > 1:
        address_list = format_list((str(address) for address in matches), max_items=5)
        raise _build_error(
            "several-instances",
            f"{pattern} names {len(matches)} instances; name one: {address_list}.",
        )
    return matches[0] if matches else None


def remove_taint(state: State, address: Address) -> State:
    """Return the state with the taint of the current object removed.

    Raises DiagnosticsError if it has none.
    """
    instance = state.instances[address]
    assert instance.current is not None
    if not instance.current.tainted:
        raise _build_error("not-tainted", f"{address} is not tainted.")
    changed = replace(instance.current, tainted=False)
    return state.replace_instance(address, replace(instance, current=changed))


def _build_error(diagnostic_id: str, detail: str) -> DiagnosticsError:
    return DiagnosticsError(build_error(diagnostic_id, detail))
