"""Statements of moved blocks, in the order of their application. A statement applies to all instances of its
module. One that starts at the target of another, or inside an object moved by another, follows it; unrelated
statements keep source order.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from msgspec import Struct

from nexusform.configuration.declarations.configuration import Configuration
from nexusform.diagnostics.diagnostic import Span
from nexusform.planning.preparation.planning_order import index_owners, iterate_modules
from nexusform.resources.address import Address, AddressPattern, Key, Mode
from nexusform.resources.graph import find_cycles, sort_topologically


class AnyInstanceKey(Struct, frozen=True):
    """Wildcard for every instance key, and for none."""


ANY = AnyInstanceKey()
EndpointPath = tuple[tuple[str, Key | AnyInstanceKey], ...]


class MoveEndpoint(Struct, frozen=True):
    """One end of a statement: a module (`resource` is None) or a resource in one. The keys of the modules
    around the statement are ANY; so is the last key, if the statement applies to all instances.
    """

    path: EndpointPath
    resource: tuple[str, str, str] | None = None
    key: Key | AnyInstanceKey = ANY

    def may_refer_to_same_object(self, endpoint: MoveEndpoint) -> bool:
        """Return whether both endpoints can refer to one module, resource or instance."""
        if len(self.path) != len(endpoint.path) or not _is_path_prefix_compatible(endpoint.path, self.path):
            return False  # in different modules
        if self.resource is None or endpoint.resource is None:
            return self.resource is endpoint.resource
        return (self.resource, self.key) == (endpoint.resource, endpoint.key)

    def is_inside(self, endpoint: MoveEndpoint) -> bool:
        """Return whether this end is a part of `endpoint`: inside its module, or one instance of its resource."""
        if len(endpoint.path) > len(self.path) or not _is_path_prefix_compatible(endpoint.path, self.path):
            return False  # outside of its module
        if endpoint.resource is None:
            return self.resource is not None or len(self.path) > len(endpoint.path)
        is_instance = self.resource == endpoint.resource and self.key != ANY
        return is_instance and endpoint.key == ANY and len(self.path) == len(endpoint.path)


def _is_path_prefix_compatible(first: EndpointPath, second: EndpointPath) -> bool:
    """Return whether the second path, no shorter, can start with the first one; ANY equals every key."""
    return all(
        name == other_name and (ANY in (key, other_key) or key == other_key)
        for (name, key), (other_name, other_key) in zip(first, second, strict=False)
    )


class MoveStatement(Struct, frozen=True):
    """Move in one module: a moved block, or the implied move of a block that gained or lost its count."""

    module: tuple[str, ...]
    source: AddressPattern
    target: AddressPattern
    span: Span

    @property
    def is_for_all_instances(self) -> bool:
        """Whether instances keep their keys: neither end names one."""
        return _get_last_key(self.source) is None and _get_last_key(self.target) is None

    @property
    def start(self) -> MoveEndpoint:
        """Endpoint that it moves from."""
        return self._build_endpoint(self.source)

    @property
    def end(self) -> MoveEndpoint:
        """Endpoint that it moves to."""
        return self._build_endpoint(self.target)

    def _build_endpoint(self, pattern: AddressPattern) -> MoveEndpoint:
        """Build the endpoint of a source or target, with its path from the root module; ANY means every key."""
        prefix = tuple((name, ANY) for name in self.module)
        steps: EndpointPath = tuple((step.name, step.key) for step in pattern.module)
        if pattern.type:
            key = ANY if self.is_for_all_instances else pattern.key  # without keys at both ends all instances move
            return MoveEndpoint((*prefix, *steps), get_resource_name(pattern), key)
        if self.is_for_all_instances:  # the pattern is a module, here without a key
            steps = (*steps[:-1], (pattern.module[-1].name, ANY))
        return MoveEndpoint((*prefix, *steps))

    def has_endpoint(self, resource: Address) -> bool:
        """Return whether one of its ends names the resource in its module instance, with any instance key."""
        depth = len(self.module)
        if tuple(step.name for step in resource.module[:depth]) != self.module:  # in another module
            return False
        name = (resource.module[depth:], (resource.mode, resource.type, resource.name))
        names = [(pattern.module, get_resource_name(pattern)) for pattern in (self.source, self.target)]
        return name in names

    def __str__(self) -> str:
        prefix = "".join(f"module.{name}[*]." for name in self.module)
        return f"{prefix}{self.source} -> {prefix}{self.target}"


def get_resource_name(pattern: AddressPattern) -> tuple[Mode, str, str]:
    """Return the mode, type and name of a resource pattern."""
    return pattern.mode, pattern.type, pattern.name


def _get_last_key(pattern: AddressPattern) -> Key:
    return pattern.key if pattern.type else pattern.module[-1].key


def list_move_statements(configuration: Configuration) -> list[MoveStatement]:
    """Return the statements of moved blocks in source order."""
    statements: list[MoveStatement] = []
    for module in iterate_modules(configuration.root):
        statements += [
            MoveStatement(module.path, block.source, block.target, block.span) for block in module.moved_blocks
        ]
    return statements


def order_move_statements(statements: Sequence[MoveStatement]) -> list[MoveStatement]:
    """Return the statements in order of application; [] if they form a cycle, an error reported by the checks."""
    needs = _index_earlier_statements(statements)
    position = {index: index for index in needs}
    if find_cycles(needs, position):
        return []
    return [statements[index] for index in sort_topologically(needs, position)]


def find_move_cycles(statements: Sequence[MoveStatement]) -> list[list[MoveStatement]]:
    """Return the statements that form cycles."""
    needs = _index_earlier_statements(statements)
    cycle_nodes = find_cycles(needs, {index: index for index in needs})
    return [[statements[index] for index in sorted(cycle)] for cycle in cycle_nodes]


def _index_earlier_statements(statements: Sequence[MoveStatement]) -> dict[int, list[int]]:
    """Return for each statement (its index) the indices of the statements to apply before it."""
    ends = [(statement.start, statement.end) for statement in statements]
    roots = [{_get_outermost(start), _get_outermost(end)} for start, end in ends]  # only equal roots can be related
    statements_by_root = index_owners(enumerate(roots))
    needs: dict[int, list[int]] = {}
    for index, statement in enumerate(statements):
        candidates = set(chain.from_iterable(statements_by_root[root] for root in roots[index])) - {index}
        needs[index] = [
            candidate
            for candidate in sorted(candidates)
            if _must_follow_statement(statement, statements[candidate], ends[index], ends[candidate])
        ]
    return needs


def _get_outermost(end: MoveEndpoint) -> object:
    """Return the outermost part of an endpoint: statements without a common one are unrelated."""
    return end.path[0][0] if end.path else end.resource


def _must_follow_statement(
    statement: MoveStatement,
    other_statement: MoveStatement,
    ends: tuple[MoveEndpoint, MoveEndpoint],
    other_ends: tuple[MoveEndpoint, MoveEndpoint],
) -> bool:
    """Return whether the first statement must be applied after the other one: it moves the result of the other one, or
    one is about a part of the other.
    """
    (begin, end), (other_begin, other_end) = ends, other_ends
    if begin.may_refer_to_same_object(other_end):
        return True
    is_inside = begin.is_inside(other_end) or end.is_inside(other_end)
    contains_other = other_begin.is_inside(begin) or other_end.is_inside(begin)
    if not (is_inside or contains_other):  # independent statements
        return False
    # If an outer statement only changes module keys, inner moves are inside both its ends: it goes first (no cycle).
    is_outer = len(statement.module) < len(other_statement.module)
    return not (is_outer and _is_instance_key_change(statement))


def _is_instance_key_change(statement: MoveStatement) -> bool:
    """Return whether a statement moves a module to itself with other instance keys."""
    begin, end = statement.start, statement.end
    has_same_names = [name for name, _ in begin.path] == [name for name, _ in end.path]
    return begin.resource is None and end.resource is None and has_same_names
