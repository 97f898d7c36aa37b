"""The one total order in which resource blocks are planned: phases, then source order as far as
dependencies allow. Everything a block needs is found through locals, variables, module inputs
and outputs, and data blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from nexusform.address import ConfigAddress
from nexusform.configuration.model import Configuration, Module, ResourceBlock
from nexusform.configuration.references import Node, dependencies
from nexusform.diagnostics import Diagnostic, error
from nexusform.graph import cycles, ordered
from nexusform.ports import ResourceType


class Order(Struct, frozen=True):
    """Blocks in planning order; `needs` gives, for each, the blocks it directly depends on
    (in planning order); `data_needs` the same for data blocks.
    """

    blocks: tuple[ResourceBlock, ...]
    needs: Mapping[ConfigAddress, tuple[ConfigAddress, ...]]
    data_needs: Mapping[ConfigAddress, tuple[ConfigAddress, ...]]


def modules(module: Module) -> Iterator[Module]:
    """A module and all below it, callers first."""
    yield module
    for call in module.calls.values():
        yield from modules(call.module)


def planning_order(
    configuration: Configuration, resource_types: Mapping[str, ResourceType]
) -> tuple[Order, list[Diagnostic]]:
    """Order the resource blocks; cycles and references against the phases are errors."""
    blocks = [b for m in modules(configuration.root) for b in m.resources.values()]
    managed = sorted((b for b in blocks if b.mode == "managed" and b.type in resource_types), key=_position)
    graph = {node: tuple(needs) for node, needs in dependencies(configuration).items()}
    knots = _cycle_errors(graph, configuration)
    if knots:
        return Order((), {}, {}), knots
    reach = _Reach(graph)
    place = {b.address: i for i, b in enumerate(managed)}
    needs = {b.address: reach.blocks(b.address, place) for b in managed}
    phase = {b.address: resource_types[b.type].phase for b in managed}
    problems = _phase_errors(managed, needs, phase)
    if problems:
        return Order((), {}, {}), problems
    by_address = {b.address: b for b in managed}
    taken: list[ConfigAddress] = []
    for number in sorted(set(phase.values())):
        here = {a: tuple(n for n in needs[a] if phase[n] == number) for a in phase if phase[a] == number}
        taken += ordered(here, place)
    rank = {address: i for i, address in enumerate(taken)}
    data = {b.address: reach.blocks(b.address, rank) for b in blocks if b.mode == "data"}
    return (
        Order(
            tuple(by_address[a] for a in taken),
            {a: tuple(sorted(needs[a], key=rank.__getitem__)) for a in taken},
            data,
        ),
        [],
    )


def _position(block: ResourceBlock) -> tuple[tuple[bytes, int], ...]:
    return tuple((name.encode(), offset) for name, offset in block.position)


class _Reach:
    """Which resource blocks a node leads to without passing through another resource block."""

    def __init__(self, graph: Mapping[Node, tuple[Node, ...]]) -> None:
        self._graph = graph
        self._known: dict[Node, frozenset[ConfigAddress]] = {}

    def blocks(self, address: ConfigAddress, place: Mapping[ConfigAddress, int]) -> tuple[ConfigAddress, ...]:
        found: set[ConfigAddress] = set()
        for node in self._graph.get(node_of(address), ()):
            found |= self._through(node)
        return tuple(sorted((a for a in found if a in place), key=place.__getitem__))

    def _through(self, start: Node) -> frozenset[ConfigAddress]:
        """Depth first with an explicit stack: chains of locals may be long."""
        stack = [start]
        while stack:
            node = stack[-1]
            if node in self._known:
                stack.pop()
                continue
            if node.kind == "resource":
                self._known[node] = frozenset((address_of(node),))
                stack.pop()
                continue
            inner = self._graph.get(node, ())
            waiting = [n for n in inner if n not in self._known]
            if waiting:
                stack += waiting
                continue
            self._known[node] = frozenset().union(*(self._known[n] for n in inner))
            stack.pop()
        return self._known[start]


def node_of(address: ConfigAddress) -> Node:
    """The node of the dependency graph that stands for a block."""
    name = f"{address.type}.{address.name}"
    return Node(address.module, "data" if address.mode == "data" else "resource", name)


def address_of(node: Node) -> ConfigAddress:
    """The block that a node stands for."""
    kind, _, name = node.name.partition(".")
    return ConfigAddress(node.module, "data" if node.kind == "data" else "managed", kind, name)


def _cycle_errors(graph: Mapping[Node, tuple[Node, ...]], configuration: Configuration) -> list[Diagnostic]:
    position = {node: i for i, node in enumerate(graph)}
    closed = {node: tuple(n for n in needs if n in position) for node, needs in graph.items()}
    found = []
    for walk in cycles(closed, position):
        names = [describe(node) for node in walk]
        text = " -> ".join([*names, names[0]])
        found.append(
            error(
                "cycle",
                f"These refer to each other in a circle: {text}. Nothing in the circle can be planned "
                "first; break it by writing one of the values out or by removing one reference.",
                _span_of(walk[0], configuration),
            )
        )
    return found


def describe(node: Node) -> str:
    """A node as users write it."""
    path = "".join(f"module.{name}." for name in node.module)
    if node.kind == "resource":
        return path + node.name
    prefix = {"variable": "var"}.get(node.kind, node.kind)
    return f"{path}{prefix}.{node.name}"


def _span_of(node: Node, configuration: Configuration) -> Any:
    module = configuration.root
    for name in node.module:
        module = module.calls[name].module
    if node.kind in ("resource", "data"):
        address = address_of(node)
        return module.resources[address.mode, address.type, address.name].header_span
    table: dict[str, Mapping[str, Any]] = {
        "variable": module.variables,
        "local": module.locals,
        "output": module.outputs,
        "module": module.calls,
        "provider": module.providers,
    }
    thing = table.get(node.kind, {}).get(node.name)
    return thing.span if thing is not None else None


def _phase_errors(
    blocks: list[ResourceBlock],
    needs: Mapping[ConfigAddress, tuple[ConfigAddress, ...]],
    phase: Mapping[ConfigAddress, int],
) -> list[Diagnostic]:
    return [
        error(
            "cycle",
            f"{block.address} refers to {need}, but every {need.type} is planned after all "
            f"{block.type} blocks: {block.address} -> {need} -> {block.address}. Placement runs from "
            "sites and racks to machines, then clusters and VMs, then fleet objects; write the value "
            "out or turn the reference round.",
            block.header_span,
            block=block.header,
        )
        for block in blocks
        for need in needs[block.address]
        if phase[need] > phase[block.address]
    ]
