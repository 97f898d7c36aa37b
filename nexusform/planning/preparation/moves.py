"""moved blocks: prior objects under their new addresses, before anything is planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import (
    Address,
    AddressPattern,
    Key,
    Mode,
    ModulePath,
    ModuleStep,
    address_order,
    key_order,
    module_text,
)
from nexusform.configuration.declared.configuration import Configuration, ResourceBlock
from nexusform.diagnostics import Diagnostic, warning
from nexusform.planning.preparation.move_statements import Statement, in_order, written_statements
from nexusform.planning.preparation.order import modules, resource_blocks
from nexusform.state.objects import InstanceState, ObjectState, State

_Resource = tuple[Mode, str, str]


class MovedState(Struct, frozen=True):
    """The state under its new addresses; `previous` maps a new address to the old one."""

    state: State
    previous: Mapping[Address, Address]


def apply_moves(configuration: Configuration, state: State) -> tuple[MovedState, list[Diagnostic]]:
    """Follow moved blocks, each once and in their order, and where none speaks of a block that gained or lost
    its count, the move between its only and its first instance. Nothing moves onto what stands.
    """
    written = written_statements(configuration)
    statements = in_order([*written, *_implied(configuration, state, written)])
    if not statements:
        return MovedState(state, {}), []
    moving = _Moving(state.instances)
    for statement in statements:
        moving.follow(statement)
    problems = moving.problems()
    previous = {new: old for new, old in moving.origins.items() if new != old}
    if not previous:
        return MovedState(state, {}), problems
    return MovedState(replace(state, instances=moving.instances(state.instances)), previous), problems


def _implied(configuration: Configuration, state: State, written: Sequence[Statement]) -> Iterator[Statement]:
    """The moves that follow from a count that came or went."""
    blocks = {block.address: block for block in resource_blocks(configuration)}
    spoken_of: dict[Address, bool] = {}
    for address in state.instances:
        if address.key not in (None, 0):
            continue
        block = blocks.get(address.config)
        key = _implied_key(address, block) if block is not None else address.key
        if block is None or key == address.key:
            continue
        resource = address.resource
        if resource not in spoken_of:
            spoken_of[resource] = any(each.speaks_of(resource) for each in written)
        if not spoken_of[resource]:
            source = AddressPattern(address.module, address.mode, address.type, address.name, address.key)
            yield Statement((), source, replace(source, key=key), block.header_span)


def _implied_key(address: Address, block: ResourceBlock) -> Key:
    """The key of an object as its block gains or loses its count."""
    if block.count is not None:
        return 0
    return None if block.for_each is None else address.key


class _Moving:
    # The addresses in state while statements are followed: per module and resource its keys, and where each
    # object stood before (`origins`, by its new address).

    def __init__(self, instances: Mapping[Address, InstanceState]) -> None:
        self.places: dict[ModulePath, dict[_Resource, set[Key]]] = {}
        self.origins: dict[Address, Address] = {}
        self._refused: dict[str, str] = {}
        for address in instances:
            resources = self.places.setdefault(address.module, {})
            resources.setdefault((address.mode, address.type, address.name), set()).add(address.key)

    def follow(self, statement: Statement) -> None:
        """Move what one statement speaks of."""
        for path in sorted(self.places, key=_path_order):
            depth = len(statement.module)
            if path not in self.places or tuple(step.name for step in path[:depth]) != statement.module:
                continue
            if statement.source.type:
                self._move_resource(statement, path, depth)
            else:
                target = _module_moved(path[depth:], statement)
                if target is not None:
                    self._move_module(path, (*path[:depth], *target))

    def _move_module(self, source: ModulePath, target: ModulePath) -> None:
        if target in self.places:
            self._refused[module_text(source)] = module_text(target)
            return
        for (mode, kind, name), keys in self.places[source].items():
            for key in sorted(keys, key=key_order):
                old = Address(source, mode, kind, name, key)
                self._note(old, replace(old, module=target))
        self.places[target] = self.places.pop(source)

    def _move_resource(self, statement: Statement, path: ModulePath, depth: int) -> None:
        source, target = statement.source, statement.target
        keys = self.places[path].get((source.mode or "managed", source.type, source.name))
        if path[depth:] != source.module or keys is None:
            return
        all_instances = statement.of_all_instances
        if not all_instances and source.key not in keys:
            return
        old = Address(path, source.mode or "managed", source.type, source.name)
        new = Address((*path[:depth], *target.module), target.mode or "managed", target.type, target.name)
        if source.type != target.type:
            return  # which is an error of the statement
        present = self.places.get(new.module, {}).get((new.mode, new.type, new.name), set())
        if all_instances and present:
            self._refused[str(old)] = str(new)
        elif not all_instances and target.key in present:
            self._refused[str(replace(old, key=source.key))] = str(replace(new, key=target.key))
        else:
            pairs = [(key, key) for key in keys] if all_instances else [(source.key, target.key)]
            for old_key, new_key in sorted(pairs, key=lambda pair: key_order(pair[0])):
                self._relocate(replace(old, key=old_key), replace(new, key=new_key))

    def _relocate(self, old: Address, new: Address) -> None:
        named = (old.mode, old.type, old.name)
        resources = self.places[old.module]
        resources[named].discard(old.key)
        if not resources[named]:
            del resources[named]
        if not resources:
            del self.places[old.module]
        there = self.places.setdefault(new.module, {})
        there.setdefault((new.mode, new.type, new.name), set()).add(new.key)
        self._note(old, new)

    def _note(self, old: Address, new: Address) -> None:
        self.origins[new] = self.origins.pop(old, old)

    def instances(self, before: Mapping[Address, InstanceState]) -> dict[Address, InstanceState]:
        """The instances under their new addresses: what stays as it stood, then what moved."""
        moved = set(self.origins.values())
        after = {address: instance for address, instance in before.items() if address not in moved}
        for new in sorted(self.origins, key=address_order):
            after[new] = before[self.origins[new]]
        return after

    def problems(self) -> list[Diagnostic]:
        """What did not move, and why."""
        return [_occupied(source, target) for source, target in sorted(self._refused.items())]


def _path_order(path: ModulePath) -> tuple[object, ...]:
    return tuple((step.name, key_order(step.key)) for step in path)


def refreshed_after(
    refreshed: Mapping[Address, ObjectState | None], previous: Mapping[Address, Address]
) -> dict[Address, ObjectState | None]:
    """What the providers found, under the new addresses."""
    renamed = {old: new for new, old in previous.items()}
    return {renamed.get(address, address): observed for address, observed in refreshed.items()}


def _module_moved(path: ModulePath, statement: Statement) -> ModulePath | None:
    """Where one statement moves a module path, None when it speaks of another."""
    source, target = statement.source.module, statement.target.module
    if len(path) < len(source) or path[: len(source) - 1] != source[:-1]:
        return None
    step, from_step, to_step = path[len(source) - 1], source[-1], target[-1]
    if step.name != from_step.name:
        return None
    all_instances = statement.of_all_instances
    if not all_instances and step.key != from_step.key:
        return None
    new_step = ModuleStep(to_step.name, step.key) if all_instances else to_step
    return (*target[:-1], new_step, *path[len(source) :])


def _occupied(source: str, target: str) -> Diagnostic:
    return warning(
        "unresolved-resource-instance-address-changes",
        f"{source} could not move to {target}, because an object stands there already. It is planned "
        "under its old address. Remove one of the two from the state, or correct the moved block.",
        address=source,
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
