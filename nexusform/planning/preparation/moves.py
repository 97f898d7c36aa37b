"""moved blocks: prior objects under their new addresses, before anything is planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Address, AddressPattern, ModulePath, ModuleStep
from nexusform.configuration.configuration import Configuration, Moved, ResourceBlock
from nexusform.diagnostics import Diagnostic, error, warning
from nexusform.planning.preparation.order import modules, resource_blocks
from nexusform.state.objects import ObjectState, State

MOST_ROUNDS = 100


class _Statement(Struct, frozen=True):
    module: tuple[str, ...]
    moved: Moved


class MovedState(Struct, frozen=True):
    """The state under its new addresses; `previous` maps a new address to the old one."""

    state: State
    previous: Mapping[Address, Address]


def apply_moves(configuration: Configuration, state: State) -> tuple[MovedState, list[Diagnostic]]:
    """Follow moved blocks (chains too), then the implicit moves between a block with count and one
    without. An object does not move onto one that stands.
    """
    statements: list[_Statement] = []
    for module in modules(configuration.root):
        statements += [_Statement(module.path, moved) for moved in module.moved]
    blocks = {block.address: block for block in resource_blocks(configuration)}
    instances = dict(state.instances)
    previous: dict[Address, Address] = {}
    problems: list[Diagnostic] = []
    for address in list(instances):
        target = _explicit(address, statements)
        if target is None:
            problems.append(_circle(address))
            continue
        if target == address:
            target = _implicit(address, blocks.get(address.config))
        if target == address:
            continue
        if target in instances:
            if next(_matching(address, statements), None) is not None:
                problems.append(_occupied(address, target))
            continue
        instances[target] = instances.pop(address)
        previous[target] = address
    if not previous:
        return MovedState(state, {}), problems
    return MovedState(replace(state, instances=instances), previous), problems


def refreshed_after(
    refreshed: Mapping[Address, ObjectState | None], previous: Mapping[Address, Address]
) -> dict[Address, ObjectState | None]:
    """What the providers found, under the new addresses."""
    renamed = {old: new for new, old in previous.items()}
    return {renamed.get(address, address): observed for address, observed in refreshed.items()}


def _explicit(address: Address, statements: list[_Statement]) -> Address | None:
    """Where moved blocks lead from an address; None when they lead round in a circle."""
    current, passed = address, {address}
    for _ in range(MOST_ROUNDS):
        target = next(_matching(current, statements), current)
        if target == current:
            return current
        if target in passed:
            return None
        passed.add(target)
        current = target
    return None


def _matching(address: Address, statements: list[_Statement]) -> Iterator[Address]:
    """The addresses to which the statements move an address, outside of their modules included."""
    for statement in statements:
        depth = len(statement.module)
        if tuple(step.name for step in address.module[:depth]) != statement.module:
            continue
        inner = replace(address, module=address.module[depth:])
        target = _moved(inner, statement.moved.source, statement.moved.target)
        if target is not None and target != inner:
            yield replace(target, module=address.module[:depth] + target.module)


def _moved(address: Address, source: AddressPattern, target: AddressPattern) -> Address | None:
    """Where one statement moves an address, None when it speaks of another."""
    if not source.type:
        path = _module_moved(address.module, source.module, target.module)
        return None if path is None else replace(address, module=path)
    named = (address.module, address.mode, address.type, address.name)
    if named != (source.module, source.mode, source.type, source.name):
        return None
    all_instances = source.key is None and target.key is None
    if not all_instances and address.key != source.key:
        return None
    key = address.key if all_instances else target.key
    return Address(target.module, target.mode or "managed", target.type, target.name, key)


def _module_moved(path: ModulePath, source: ModulePath, target: ModulePath) -> ModulePath | None:
    """Where one statement moves a module path, None when it speaks of another."""
    if len(path) < len(source) or path[: len(source) - 1] != source[:-1]:
        return None
    step, from_step, to_step = path[len(source) - 1], source[-1], target[-1]
    if step.name != from_step.name:
        return None
    all_instances = from_step.key is None and to_step.key is None
    if not all_instances and step.key != from_step.key:
        return None
    new_step = ModuleStep(to_step.name, step.key) if all_instances else to_step
    return (*target[:-1], new_step, *path[len(source) :])


def _implicit(address: Address, block: ResourceBlock | None) -> Address:
    """Where an object goes as its block gains or loses its count: to the first instance and back."""
    if block is None:
        return address
    single = block.count is None and block.for_each is None
    if address.key is None and block.count is not None:
        return replace(address, key=0)
    if address.key == 0 and single:
        return replace(address, key=None)
    return address


def _circle(address: Address) -> Diagnostic:
    return error(
        "cyclic-dependency-in-move-statements",
        f"The moved blocks lead from {address} back to where they began, so nobody can tell where the object "
        "belongs. To exchange two objects, move one to a third name in a plan of its own first.",
        address=str(address),
    )


def _occupied(address: Address, target: Address) -> Diagnostic:
    return warning(
        "unresolved-resource-instance-address-changes",
        f"{address} could not move to {target}, because an object stands there already. It is planned "
        "under its old address. Remove one of the two from the state, or correct the moved block.",
        address=str(address),
    )


def only_forgets(configuration: Configuration, address: Address) -> bool:
    """Whether a `removed` block names the address and lets the object be."""
    for module in modules(configuration.root):
        depth = len(module.path)
        if tuple(step.name for step in address.module[:depth]) != module.path:
            continue
        inner = replace(address, module=address.module[depth:])
        for removed in module.removed:
            if removed.source.matches(inner):
                return not removed.destroy
    return False
