"""What moved blocks say, in the order in which they are followed.

A statement speaks of all instances of the module that holds it. One that begins where another ends, or inside
of what another moves, comes after it; where statements say nothing of one another, they come as they are
written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from nexusform.address import Address, AddressPattern, Key
from nexusform.configuration.declared.configuration import Configuration, Module
from nexusform.graph import cycles, ordered
from nexusform.planning.preparation.order import modules
from nexusform.source import Span


class AnyKey(Struct, frozen=True):
    """Stands for every instance key, and for none."""


ANY = AnyKey()
Place = tuple[tuple[str, Key | AnyKey], ...]


class Endpoint(Struct, frozen=True):
    """One end of a statement: a module (`resource` is None) or a resource in one. The keys of the modules
    around the statement are ANY; so is the last key, where the statement speaks of all instances alike.
    """

    path: Place
    resource: tuple[str, str, str] | None = None
    key: Key | AnyKey = ANY

    def may_meet(self, other: Endpoint) -> bool:
        """Whether both can mean one object."""
        if len(self.path) != len(other.path) or not _paths_meet(other.path, self.path):
            return False
        if self.resource is None or other.resource is None:
            return self.resource is other.resource
        return (self.resource, self.key) == (other.resource, other.key)

    def is_inside(self, other: Endpoint) -> bool:
        """Whether it means a part of what the other can mean."""
        if len(other.path) > len(self.path) or not _paths_meet(other.path, self.path):
            return False
        if other.resource is None:
            return self.resource is not None or len(self.path) > len(other.path)
        is_instance = self.resource == other.resource and self.key != ANY
        return is_instance and other.key == ANY and len(self.path) == len(other.path)


def _paths_meet(first: Place, second: Place) -> bool:
    """Whether the beginning of the second path can be the first one."""
    pairs = zip(first, second, strict=False)
    return all(one[0] == two[0] and (ANY in (one[1], two[1]) or one[1] == two[1]) for one, two in pairs)


class Statement(Struct, frozen=True):
    """A move in one module: one that is written, or that a block brings which gained or lost its count."""

    module: tuple[str, ...]
    source: AddressPattern
    target: AddressPattern
    span: Span

    @property
    def of_all_instances(self) -> bool:
        """Whether instances keep their keys: neither end names one."""
        return _last_key(self.source) is None and _last_key(self.target) is None

    @property
    def begins(self) -> Endpoint:
        """Where it moves from."""
        return self._endpoint(self.source)

    @property
    def ends(self) -> Endpoint:
        """Where it moves to."""
        return self._endpoint(self.target)

    def _endpoint(self, pattern: AddressPattern) -> Endpoint:
        around = tuple((name, ANY) for name in self.module)
        steps: Place = tuple((step.name, step.key) for step in pattern.module)
        if pattern.type:
            resource = (pattern.mode or "managed", pattern.type, pattern.name)
            key = ANY if self.of_all_instances else pattern.key
            return Endpoint((*around, *steps), resource, key)
        if self.of_all_instances:
            steps = (*steps[:-1], (steps[-1][0], ANY))
        return Endpoint((*around, *steps))

    def speaks_of(self, resource: Address) -> bool:
        """Whether one of its ends is the resource in this instance of its module, or an instance of it."""
        depth = len(self.module)
        if tuple(step.name for step in resource.module[:depth]) != self.module:
            return False
        named = (resource.module[depth:], resource.mode, resource.type, resource.name)
        return any(
            (pattern.module, pattern.mode or "managed", pattern.type, pattern.name) == named
            for pattern in (self.source, self.target)
        )

    def __str__(self) -> str:
        around = "".join(f"module.{name}[*]." for name in self.module)
        return f"{around}{self.source} -> {around}{self.target}"


def _last_key(pattern: AddressPattern) -> Key:
    return pattern.key if pattern.type else pattern.module[-1].key


def written_statements(configuration: Configuration) -> list[Statement]:
    """What moved blocks say, in source order."""
    statements: list[Statement] = []
    for module in modules(configuration.root):
        statements += _of(module)
    return statements


def _of(module: Module) -> Iterator[Statement]:
    for moved in module.moved:
        yield Statement(module.path, moved.source, moved.target, moved.span)


def in_order(statements: Sequence[Statement]) -> list[Statement]:
    """The statements, those that others go on from first; none where some go round in a circle."""
    needs = _needs(statements)
    position = {at: at for at in needs}
    if cycles(needs, position):
        return []
    return [statements[at] for at in ordered(needs, position)]


def circles(statements: Sequence[Statement]) -> list[list[Statement]]:
    """The statements that go round in circles."""
    needs = _needs(statements)
    walks = cycles(needs, {at: at for at in needs})
    return [[statements[at] for at in sorted(walk)] for walk in walks]


def _needs(statements: Sequence[Statement]) -> dict[int, list[int]]:
    """Which statements, by their number, come before each."""
    ends = [(statement.begins, statement.ends) for statement in statements]
    lying_in: dict[object, list[int]] = {}
    for at, both in enumerate(ends):
        for name in {_outermost(end) for end in both}:
            lying_in.setdefault(name, []).append(at)
    needs: dict[int, list[int]] = {}
    for at, statement in enumerate(statements):
        near = {other for end in ends[at] for other in lying_in[_outermost(end)]} - {at}
        needs[at] = [
            other
            for other in sorted(near)
            if _comes_after(statement, statements[other], ends[at], ends[other])
        ]
    return needs


def _outermost(end: Endpoint) -> object:
    """What an end lies in, as seen from the root: two statements without a common one are strangers."""
    return end.path[0][0] if end.path else end.resource


def _comes_after(
    one: Statement, other: Statement, ends: tuple[Endpoint, Endpoint], other_ends: tuple[Endpoint, Endpoint]
) -> bool:
    """Whether one statement is to be followed after the other."""
    (begin, end), (other_begin, other_end) = ends, other_ends
    if begin.may_meet(other_end):
        return True
    inside = (
        begin.is_inside(other_end)
        or end.is_inside(other_end)
        or other_begin.is_inside(begin)
        or other_end.is_inside(begin)
    )
    if not inside:
        return False
    # A module that only changes its keys: what moves inside of it lies at both of its ends, and would come
    # before it and after it.
    outside = len(one.module) < len(other.module)
    return not (outside and _only_changes_keys(one))


def _only_changes_keys(statement: Statement) -> bool:
    begin, end = statement.begins, statement.ends
    same = [name for name, _ in begin.path] == [name for name, _ in end.path]
    return begin.resource is None and end.resource is None and same
