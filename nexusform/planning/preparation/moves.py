"""Moved blocks: the order of their statements, and their application.

Prior objects get their new addresses before planning. A statement applies to all instances of its
module. One that starts at the target of another, or inside an object moved by another, follows it;
unrelated statements keep source order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import (
    Configuration,
    ModuleCall,
    ResourceBlock,
)
from nexusform.diagnostics.diagnostic import Diagnostic, Span, build_warning
from nexusform.planning.preparation.planning_order import (
    index_owners,
    iterate_modules,
    iterate_resource_blocks,
)
from nexusform.resources.address import (
    Address,
    AddressPattern,
    Key,
    Mode,
    ModulePath,
    ModulePathStep,
    compute_address_order,
    compute_key_sort_key,
    format_module,
)
from nexusform.resources.graph import find_cycles, sort_topologically
from nexusform.state.objects import InstanceState, State


class AnyInstanceKey(Struct, frozen=True):
    """Wildcard for every instance key, and for none."""


ANY = AnyInstanceKey()
# A module path, and the resource in it; None for the module.
EndpointName = tuple[tuple[str, ...], tuple[str, str, str] | None]
EndpointPath = tuple[tuple[str, Key | AnyInstanceKey], ...]


class MoveEndpoint(Struct, frozen=True):
    """One end of a statement: a module (`resource` is None) or a resource in one.

    The keys of the modules around the statement are ANY; so is the last key, if the statement
    applies to all instances.
    """

    path: EndpointPath
    resource: tuple[str, str, str] | None = None
    key: Key | AnyInstanceKey = ANY

    def may_refer_to_same_object(self, endpoint: MoveEndpoint) -> bool:
        """Return whether both endpoints can refer to one module, resource or instance."""
        if len(self.path) != len(endpoint.path) or not _is_path_prefix_compatible(
            endpoint.path, self.path
        ):
            # They are in different modules.
            return False
        return (self.resource, self.key) == (endpoint.resource, endpoint.key)

    def is_inside(self, endpoint: MoveEndpoint) -> bool:
        """Return whether this end is a part of `endpoint`, and not the same thing.

        Resources and modules inside of a module are its parts, such as module.a.T.N of
        module.a. One instance is a part of a resource, such as T.N["k"] of T.N. ANY as a key
        means all instances.
        """
        if len(endpoint.path) > len(self.path) or not _is_path_prefix_compatible(
            endpoint.path, self.path
        ):
            # The address is outside of its module.
            return False
        if endpoint.resource is None:
            return self.resource is not None or len(self.path) > len(endpoint.path)
        is_instance = self.resource == endpoint.resource and self.key != ANY
        return is_instance and endpoint.key == ANY and len(self.path) == len(endpoint.path)


def _is_path_prefix_compatible(first: EndpointPath, second: EndpointPath) -> bool:
    """Return whether the second path (no shorter) can start with the first one.

    ANY as a key equals every key.
    """
    return all(
        name == other_name and (ANY in (key, other_key) or key == other_key)
        for (name, key), (other_name, other_key) in zip(first, second, strict=False)
    )


class MoveStatement(Struct, frozen=True):
    """Move in one module.

    A moved block, or the implied move of a block that gained or lost its count.
    """

    module: tuple[str, ...]
    source: AddressPattern
    target: AddressPattern
    span: Span

    @property
    def is_for_all_instances(self) -> bool:
        """Whether all instances move and keep their keys: neither end of the move names a key."""
        ends = (self.source, self.target)
        last_keys = [pattern.key if pattern.type else pattern.module[-1].key for pattern in ends]
        return last_keys == [None, None]

    def build_endpoint(self, pattern: AddressPattern) -> MoveEndpoint:
        """Build the endpoint of a source or target, with its path from the root module.

        The pattern is an address below the module with the statement. The key ANY means every
        instance: of the modules around the statement, and of the last part if neither end of the
        statement has a key.
        """
        prefix = tuple((name, ANY) for name in self.module)
        steps: EndpointPath = tuple((step.name, step.key) for step in pattern.module)
        if pattern.type:
            key = ANY if self.is_for_all_instances else pattern.key
            return MoveEndpoint((*prefix, *steps), get_resource_name(pattern), key)
        # The pattern is a module, here without a key.
        if self.is_for_all_instances:
            steps = (*steps[:-1], (pattern.module[-1].name, ANY))
        return MoveEndpoint((*prefix, *steps))

    def get_endpoint_name(self, pattern: AddressPattern) -> EndpointName:
        """Return the module path and the resource of an end, without any instance keys.

        The resource of a module is None.
        """
        path = (*self.module, *(step.name for step in pattern.module))
        return path, get_resource_name(pattern) if pattern.type else None

    def __str__(self) -> str:
        prefix = "".join(f"module.{name}[*]." for name in self.module)
        return f"{prefix}{self.source} -> {prefix}{self.target}"


def get_resource_name(pattern: AddressPattern) -> tuple[Mode, str, str]:
    """Return the mode, type and name of a resource pattern."""
    return pattern.mode, pattern.type, pattern.name


def list_move_statements(configuration: Configuration) -> list[MoveStatement]:
    """Return the statements of moved blocks in source order."""
    statements: list[MoveStatement] = []
    for module in iterate_modules(configuration.root):
        statements += [
            MoveStatement(module.path, block.source, block.target, block.span)
            for block in module.moved_blocks
        ]
    return statements


def order_move_statements(statements: Sequence[MoveStatement]) -> list[MoveStatement]:
    """Return the statements in order of application.

    Return [] if they form a cycle, which is an error reported by the checks.
    """
    needs = _index_earlier_statements(statements)
    position = {index: index for index in needs}
    if find_cycles(needs, position):
        return []
    return [statements[index] for index in sort_topologically(needs, position)]


def find_move_cycles(statements: Sequence[MoveStatement]) -> list[list[MoveStatement]]:
    """Return each cycle of statements, with its statements in source order."""
    needs = _index_earlier_statements(statements)
    cycle_nodes = find_cycles(needs, position={index: index for index in needs})
    return [[statements[index] for index in sorted(cycle)] for cycle in cycle_nodes]


def _index_earlier_statements(statements: Sequence[MoveStatement]) -> dict[int, list[int]]:
    """Return for each statement (its index) the indices of the statements to apply before it."""
    # The start and end of each statement.
    ends = [
        (statement.build_endpoint(statement.source), statement.build_endpoint(statement.target))
        for statement in statements
    ]
    # Only equal roots can be related.
    roots = [{_get_outermost(start), _get_outermost(end)} for start, end in ends]
    statements_by_root = index_owners(enumerate(roots))
    needs: dict[int, list[int]] = {}
    for index, statement in enumerate(statements):
        candidates = set(chain.from_iterable(statements_by_root[root] for root in roots[index])) - {
            index
        }
        needs[index] = [
            candidate
            for candidate in sorted(candidates)
            if _must_follow_statement(
                statement, statements[candidate], ends[index], ends[candidate]
            )
        ]
    return needs


def _get_outermost(end: MoveEndpoint) -> object:
    """Return the name of the outermost module, else the resource.

    Statements without a common one are unrelated.
    """
    return end.path[0][0] if end.path else end.resource


def _must_follow_statement(
    statement: MoveStatement,
    other_statement: MoveStatement,
    ends: tuple[MoveEndpoint, MoveEndpoint],
    other_ends: tuple[MoveEndpoint, MoveEndpoint],
) -> bool:
    """Return whether the first statement must be applied after the other one.

    It moves the result of the other one, or one is about a part of the other. `ends` and
    `other_ends` are the start and the end of each. Example: `b -> c` follows `a -> b`. It also
    follows `module.x -> module.y` if `b` is in module.y.
    """
    (begin, end), (other_begin, other_end) = ends, other_ends
    if begin.may_refer_to_same_object(other_end):
        return True
    is_inside = begin.is_inside(other_end) or end.is_inside(other_end)
    contains_other = other_begin.is_inside(begin) or other_end.is_inside(begin)
    if not (is_inside or contains_other):  # independent statements
        return False
    # An outer statement changing only module keys has both ends around an inner one: each would
    # follow the other. It goes first.
    is_outer = len(statement.module) < len(other_statement.module)
    is_module_move = begin.resource is None and end.resource is None
    has_same_names = [name for name, _ in begin.path] == [name for name, _ in end.path]
    return not (is_outer and is_module_move and has_same_names)


_Resource = tuple[Mode, str, str]


class MovedState(Struct, frozen=True):
    """State with new addresses; `previous` maps a new address to the old one."""

    state: State
    previous: Mapping[Address, Address]


def apply_moves(configuration: Configuration, state: State) -> tuple[MovedState, list[Diagnostic]]:
    """Apply moved blocks, each once and in order, and implied moves.

    An added or removed count of a resource or module implies a move from a.b to a.b[0], or back.
    An object does not move onto an existing one: a warning reports the rejected move.
    """
    explicit_statements = list_move_statements(configuration)
    statements = order_move_statements(
        [*explicit_statements, *_iterate_implied_moves(configuration, state, explicit_statements)]
    )
    if not statements:
        return MovedState(state, previous={}), []
    mover = _StateMover(state.instances)
    for statement in statements:
        mover.apply_statement(statement)
    problems = mover.list_problems()
    previous = {new: old for new, old in mover.origins.items() if new != old}
    # Each object is back at its address.
    if not previous:
        return MovedState(state, previous={}), problems
    return MovedState(
        replace(state, instances=mover.build_instances(state.instances)), previous
    ), problems


def _iterate_implied_moves(
    configuration: Configuration, state: State, explicit_statements: Sequence[MoveStatement]
) -> Iterator[MoveStatement]:
    """Yield the moves implied by an added or removed count of a resource or module.

    The only instance without a key moves to key 0, or back. A for_each implies no move.
    """
    explicit_names = {
        statement.get_endpoint_name(pattern)
        for statement in explicit_statements
        for pattern in (statement.source, statement.target)
    }
    blocks = {block.address: block for block in iterate_resource_blocks(configuration)}
    calls = {
        call.module.path: call
        for module in iterate_modules(configuration.root)
        for call in module.calls.values()
    }
    # Several instances of a module have one statement.
    for path, key in _list_module_keys(state):
        call = calls.get(path)
        if call is None or (path, None) in explicit_names or not _has_other_key(call, key):
            continue
        source = AddressPattern((ModulePathStep(path[-1], key),))
        target = AddressPattern((ModulePathStep(path[-1], _get_implied_key(call)),))
        yield MoveStatement(path[:-1], source, target, call.source_span)
    resources = {(address.config_address, address.key): address for address in state.instances}
    for (config_address, key), address in resources.items():
        block = blocks.get(config_address)
        if block is None or not _has_other_key(block, key):
            continue
        path = tuple(step.name for step in address.module)
        resource = AddressPattern((), address.mode, address.type, address.name, key)
        if (path, get_resource_name(resource)) not in explicit_names:
            target = replace(resource, key=_get_implied_key(block))
            yield MoveStatement(path, resource, target, block.header_span)


def _list_module_keys(state: State) -> list[tuple[tuple[str, ...], Key]]:
    """Return the paths of all modules in the state, each with its instance keys, callers first."""
    module_keys = {
        (tuple(step.name for step in path[: depth + 1]), path[depth].key)
        for path in {address.module for address in state.instances}
        for depth in range(len(path))
    }
    return sorted(module_keys, key=lambda item: (item[0], compute_key_sort_key(item[1])))


def _has_other_key(block: ResourceBlock | ModuleCall, key: Key) -> bool:
    """Return whether the first instance of a block gets another key than in the state."""
    if block.for_each is not None or key not in (None, 0):
        return False
    return key != _get_implied_key(block)


def _get_implied_key(block: ResourceBlock | ModuleCall) -> Key:
    """Return the key of the first instance of a block without for_each: 0 with count, or none."""
    return 0 if block.count is not None else None


class _StateMover:
    # Addresses in state while statements are applied: per module and resource its keys, and the
    # previous address of each object (`origins`, by its new address).

    def __init__(self, instances: Mapping[Address, InstanceState]) -> None:
        """Index the instance keys in state by module and resource; no instance has moved yet."""
        # Instance keys of each resource.
        self.keys_by_module: dict[ModulePath, dict[_Resource, set[Key]]] = {}
        # Previous address by new address.
        self.origins: dict[Address, Address] = {}
        # Target by source, as texts: moves onto existing objects.
        self._rejected: dict[str, str] = {}
        for address in instances:
            resources = self.keys_by_module.setdefault(address.module, {})
            resources.setdefault((address.mode, address.type, address.name), set()).add(address.key)

    def apply_statement(self, statement: MoveStatement) -> None:
        """Apply the moves of one statement."""
        paths = sorted(
            self.keys_by_module,
            key=lambda path: [(step.name, compute_key_sort_key(step.key)) for step in path],
        )
        for path in paths:
            depth = len(statement.module)
            # The path is outside of the statement's module.
            if tuple(step.name for step in path[:depth]) != statement.module:
                continue
            # "": it moves a module.
            if statement.source.type:
                self._move_resource(statement, path, depth)
            else:
                target = _compute_module_target(path[depth:], statement)
                if target is not None:
                    self._move_module(path, (*path[:depth], *target))

    def _move_module(self, source: ModulePath, target: ModulePath) -> None:
        """Move all objects of a module instance; reject the move if the target has objects."""
        if target in self.keys_by_module:
            # A warning reports it.
            self._rejected[format_module(source)] = format_module(target)
            return
        for (mode, kind, name), keys in self.keys_by_module[source].items():
            for key in sorted(keys, key=compute_key_sort_key):
                old = Address(source, mode, kind, name, key)
                # An object moved before keeps its first address.
                self.origins[replace(old, module=target)] = self.origins.pop(old, old)
        self.keys_by_module[target] = self.keys_by_module.pop(source)

    def _move_resource(self, statement: MoveStatement, path: ModulePath, depth: int) -> None:
        """Move one or all instances of a resource, if the statement applies there.

        `path` is the module instance. Its first `depth` steps lead to the module with the
        statement, the rest is the module path in its source. A move onto an existing
        object is rejected.
        """
        source = statement.source
        target = statement.target
        keys = self.keys_by_module[path].get(get_resource_name(source))
        if path[depth:] != source.module or keys is None:
            return
        if source.type != target.type:
            # `check_moved_blocks` reports it.
            return
        old = Address(path, *get_resource_name(source))
        new = Address((*path[:depth], *target.module), *get_resource_name(target))
        # At the target.
        occupied_keys = self.keys_by_module.get(new.module, {}).get(
            get_resource_name(target), set()
        )
        if statement.is_for_all_instances:
            if occupied_keys:
                self._rejected[str(old)] = str(new)
                return
            for key in sorted(keys, key=compute_key_sort_key):
                self._move_instance(replace(old, key=key), replace(new, key=key))
        elif source.key in keys:
            old = replace(old, key=source.key)
            new = replace(new, key=target.key)
            if target.key in occupied_keys:
                self._rejected[str(old)] = str(new)
            else:
                self._move_instance(old, new)

    def _move_instance(self, old: Address, new: Address) -> None:
        """Move the key of one instance to another resource or module.

        No empty entries are left.
        """
        resource_key = (old.mode, old.type, old.name)
        resources = self.keys_by_module[old.module]
        resources[resource_key].discard(old.key)
        if not resources[resource_key]:
            del resources[resource_key]
        if not resources:
            del self.keys_by_module[old.module]
        target_resources = self.keys_by_module.setdefault(new.module, {})
        target_resources.setdefault((new.mode, new.type, new.name), set()).add(new.key)
        # An object moved before keeps its first address.
        self.origins[new] = self.origins.pop(old, old)

    def build_instances(
        self, before: Mapping[Address, InstanceState]
    ) -> dict[Address, InstanceState]:
        """Return the instances under their new addresses: unchanged ones, then moved ones."""
        after = dict(before)
        for old in self.origins.values():
            del after[old]
        return after | {
            new: before[self.origins[new]]
            for new in sorted(self.origins, key=compute_address_order)
        }

    def list_problems(self) -> list[Diagnostic]:
        """Return a warning for each rejected move."""
        return [
            build_warning(
                "unresolved-resource-instance-address-changes",
                f"{source} could not move to {target}, because an object already exists there. It "
                "is planned under its old address. Remove one of the two from the state, or "
                "correct the moved block.",
                address=source,
            )
            for source, target in sorted(self._rejected.items())
        ]


def _compute_module_target(path: ModulePath, statement: MoveStatement) -> ModulePath | None:
    """Return the new path of a module after one statement.

    Return None if the statement does not apply to it.
    """
    source = statement.source.module
    target = statement.target.module
    # Of the moved module in the path; those after it are inside it.
    position = len(source) - 1
    # The path is outside of the moved module.
    if len(path) <= position or path[:position] != source[:-1]:
        return None
    step = path[position]
    from_step = source[-1]
    to_step = target[-1]
    # Another module call.
    if step.name != from_step.name:
        return None
    keeps_keys = statement.is_for_all_instances
    if not keeps_keys and step.key != from_step.key:  # another instance
        return None
    new_step = ModulePathStep(to_step.name, step.key) if keeps_keys else to_step
    return (*target[:-1], new_step, *path[position + 1 :])


def is_object_kept(configuration: Configuration, address: Address) -> bool | None:
    """Return whether a `removed` block keeps the object; None without a block for the address.

    As in Terraform, the first of several blocks of one address counts. An object is kept if a block
    of it, or of a module around it, keeps it.
    """
    # By module path, type and name.
    decisions: dict[tuple[tuple[str, ...], str, str], bool] = {}
    for module in iterate_modules(configuration.root):
        depth = len(module.path)
        # The object is in another module.
        if tuple(step.name for step in address.module[:depth]) != module.path:
            continue
        inner = replace(address, module=address.module[depth:])
        for block in module.removed_blocks:
            if block.source.is_match(inner):
                path = (*module.path, *(step.name for step in block.source.module))
                decisions.setdefault(
                    (path, block.source.type, block.source.name), not block.destroy
                )
    return any(decisions.values()) if decisions else None
