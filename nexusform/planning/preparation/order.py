"""The one total order in which resource blocks are planned: phases, then source order as far as
dependencies allow. Everything a block needs is found through locals, variables, module inputs
and outputs, and data blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import ConfigAddress
from nexusform.configuration.declared.configuration import Configuration, Module, ResourceBlock
from nexusform.configuration.reference_checks import Declaration, dependencies
from nexusform.diagnostics import Diagnostic, error
from nexusform.graph import cycles, ordered, reached
from nexusform.ports import ResourceType

# The planning phases that have a stage of their own.
VM_PHASE = 4
FLEET_PHASE = 5
PLACEMENT_PHASE = 6


class Order(Struct, frozen=True):
    """Blocks in planning order; `needs` gives, for each, the blocks it directly depends on
    (in planning order), `phases` its planning phase.
    """

    blocks: tuple[ResourceBlock, ...]
    needs: Mapping[ConfigAddress, tuple[ConfigAddress, ...]]
    phases: Mapping[ConfigAddress, int]

    def direct_needs(self, block: ConfigAddress) -> tuple[ConfigAddress, ...]:
        """The blocks that a block directly depends on; none for one that is not in the order."""
        return self.needs.get(block, ())

    def before(self, phase: int) -> list[ResourceBlock]:
        """The blocks of the phases before this one."""
        return [block for block in self.blocks if self.phases[block.address] < phase]

    def of(self, phase: int) -> list[ResourceBlock]:
        """The blocks of this phase."""
        return [block for block in self.blocks if self.phases[block.address] == phase]

    def after(self, phase: int) -> list[ResourceBlock]:
        """The blocks of the phases after this one."""
        return [block for block in self.blocks if self.phases[block.address] > phase]


def modules(module: Module) -> Iterator[Module]:
    """A module and all below it, callers first."""
    yield module
    for call in module.calls.values():
        yield from modules(call.module)


def resource_blocks(configuration: Configuration) -> Iterator[ResourceBlock]:
    """The resource and data blocks of all modules."""
    for module in modules(configuration.root):
        yield from module.resources.values()


def planning_order(
    configuration: Configuration, resource_types: Mapping[str, ResourceType]
) -> tuple[Order, list[Diagnostic]]:
    """Order the resource blocks; cycles and references against the phases are errors."""
    nothing = Order((), {}, {})
    graph = {node: tuple(needs) for node, needs in dependencies(configuration).items()}
    knots = _cycle_errors(graph, configuration)
    if knots:
        return nothing, knots
    blocks = _managed_blocks(configuration, resource_types)
    phases = {block.address: resource_types[block.type].phase for block in blocks}
    source_order = {block.address: index for index, block in enumerate(blocks)}
    reach = _Reach(graph)
    needs = {block.address: reach.blocks(block.address, source_order) for block in blocks}
    problems = _phase_errors(blocks, needs, phases)
    if problems:
        return nothing, problems
    turns = _in_turn(needs, phases, source_order)
    by_address = {block.address: block for block in blocks}
    position = {address: index for index, address in enumerate(turns)}
    in_order = {address: tuple(sorted(needs[address], key=position.__getitem__)) for address in turns}
    return Order(tuple(by_address[address] for address in turns), in_order, phases), []


def _managed_blocks(
    configuration: Configuration, resource_types: Mapping[str, ResourceType]
) -> list[ResourceBlock]:
    """The resource blocks of known types, in source order."""
    blocks = resource_blocks(configuration)
    managed = [block for block in blocks if block.mode == "managed" and block.type in resource_types]
    return sorted(managed, key=_position)


def _in_turn(
    needs: Mapping[ConfigAddress, tuple[ConfigAddress, ...]],
    phases: Mapping[ConfigAddress, int],
    position: Mapping[ConfigAddress, int],
) -> list[ConfigAddress]:
    """Phase after phase; within one, each block after what it needs, otherwise by position."""
    turns: list[ConfigAddress] = []
    for phase in sorted(set(phases.values())):
        needs_here = {}
        for block in phases:
            if phases[block] == phase:
                needs_here[block] = [need for need in needs[block] if phases[need] == phase]
        turns += ordered(needs_here, position)
    return turns


def created_first(order: Order) -> frozenset[ConfigAddress]:
    """Blocks under create_before_destroy: those that say so, and all they depend on."""
    named = [block.address for block in order.blocks if block.lifecycle.create_before_destroy]
    return frozenset(reached(named, order.direct_needs))


def brought_forward(order: Order, first: Sequence[ConfigAddress]) -> Order:
    """These blocks before the others of their phase, as far as references allow: how a way out is tried."""
    if not first:
        return order
    rank = {address: index for index, address in enumerate(first)}
    turn = {
        block.address: rank.get(block.address, len(rank) + index) for index, block in enumerate(order.blocks)
    }
    phases = {block.address: order.phases[block.address] for block in order.blocks}
    by_address = {block.address: block for block in order.blocks}
    turns = _in_turn(order.needs, phases, turn)
    return replace(order, blocks=tuple(by_address[address] for address in turns))


def _position(block: ResourceBlock) -> tuple[tuple[bytes, int], ...]:
    return tuple((name.encode(), offset) for name, offset in block.position)


class _Reach:
    """Which resource blocks a node leads to without passing through another resource block."""

    def __init__(self, graph: Mapping[Declaration, tuple[Declaration, ...]]) -> None:
        self._graph = graph
        self._known: dict[Declaration, frozenset[ConfigAddress]] = {}

    def blocks(self, address: ConfigAddress, place: Mapping[ConfigAddress, int]) -> tuple[ConfigAddress, ...]:
        blocks: set[ConfigAddress] = set()
        for node in self._graph.get(node_of(address), ()):
            blocks |= self._through(node)
        return tuple(sorted((block for block in blocks if block in place), key=place.__getitem__))

    def _through(self, start: Declaration) -> frozenset[ConfigAddress]:
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
            waiting = [need for need in inner if need not in self._known]
            if waiting:
                stack += waiting
                continue
            self._known[node] = frozenset().union(*(self._known[need] for need in inner))
            stack.pop()
        return self._known[start]


def node_of(address: ConfigAddress) -> Declaration:
    """The node of the dependency graph that stands for a block."""
    name = f"{address.type}.{address.name}"
    return Declaration(address.module, "data" if address.mode == "data" else "resource", name)


def address_of(node: Declaration) -> ConfigAddress:
    """The block that a node stands for."""
    kind, _, name = node.name.partition(".")
    return ConfigAddress(node.module, "data" if node.kind == "data" else "managed", kind, name)


def _cycle_errors(
    graph: Mapping[Declaration, tuple[Declaration, ...]], configuration: Configuration
) -> list[Diagnostic]:
    """An error per circle, at the block that stands first in the order of the graph."""
    position = {node: index for index, node in enumerate(graph)}
    closed = {}
    for node, needs in graph.items():
        closed[node] = [need for need in needs if need in graph]
    errors = []
    for walk in cycles(closed, position):
        names = [describe(node) for node in walk]
        text = " -> ".join([*names, names[0]])
        errors.append(
            error(
                "cycle",
                f"These refer to each other in a circle: {text}. Nothing in the circle can be planned "
                "first; break it by writing one of the values out or by removing one reference.",
                _span_of(walk[0], configuration),
            )
        )
    return errors


def describe(node: Declaration) -> str:
    """A node as users write it."""
    path = "".join(f"module.{name}." for name in node.module)
    if node.kind == "resource":
        return path + node.name
    prefix = {"variable": "var"}.get(node.kind, node.kind)
    return f"{path}{prefix}.{node.name}"


def _span_of(node: Declaration, configuration: Configuration) -> Any:
    """Where the thing that a node stands for is declared; None when it is nowhere."""
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
    phases: Mapping[ConfigAddress, int],
) -> list[Diagnostic]:
    errors = []
    for block in blocks:
        later = [need for need in needs[block.address] if phases[need] > phases[block.address]]
        errors += [_phase_error(block, need) for need in later]
    return errors


def _phase_error(block: ResourceBlock, need: ConfigAddress) -> Diagnostic:
    return error(
        "cycle",
        f"{block.address} refers to {need}, but every {need.type} is planned after all "
        f"{block.type} blocks: {block.address} -> {need} -> {block.address}. Placement runs from "
        "sites and racks to machines, then clusters and VMs, then fleet objects; write the value "
        "out or turn the reference round.",
        block.header_span,
        block=block.header,
    )
