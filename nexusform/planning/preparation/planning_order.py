"""Total order of planning resource blocks: phases, then source order as far as dependencies allow.

Dependencies follow locals, variables, module inputs and outputs, and data blocks.
"""

from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import Configuration, Module, ResourceBlock
from nexusform.configuration.reference_checks import Declaration, build_dependencies
from nexusform.diagnostics.diagnostic import Diagnostic, Span, build_error
from nexusform.interfaces.plugins import ResourceType
from nexusform.resources.address import ConfigAddress
from nexusform.resources.graph import find_cycles, sort_topologically

# Planning phases with a stage of their own.
VM_PHASE = 4
FLEET_PHASE = 5
PLACEMENT_PHASE = 6
PHASES_BEFORE_VMS = range(VM_PHASE)
PHASES_AFTER_PLACEMENTS = range(PLACEMENT_PHASE + 1, PLACEMENT_PHASE + 10)


class PlanningOrder(Struct, frozen=True):
    """Blocks in planning order.

    `needs` maps each to its direct dependencies in that order, `phases` to its phase.
    """

    blocks: tuple[ResourceBlock, ...]
    needs: Mapping[ConfigAddress, tuple[ConfigAddress, ...]]
    phases: Mapping[ConfigAddress, int]

    def get_direct_dependencies(self, block: ConfigAddress) -> tuple[ConfigAddress, ...]:
        """Return the blocks that a block directly depends on; none if it is not in the order."""
        return self.needs.get(block, ())

    def list_phases(self, phases: Container[int]) -> list[ResourceBlock]:
        """Return the blocks of these phases."""
        return [block for block in self.blocks if self.phases[block.address] in phases]

    def list_phase(self, phase: int) -> list[ResourceBlock]:
        """Return the blocks of one phase."""
        return self.list_phases((phase,))


def iterate_modules(module: Module) -> Iterator[Module]:
    """Yield a module and all below it, callers first."""
    yield module
    for call in module.calls.values():
        yield from iterate_modules(call.module)


def iterate_resource_blocks(configuration: Configuration) -> Iterator[ResourceBlock]:
    """Yield the resource and data blocks of all modules."""
    for module in iterate_modules(configuration.root):
        yield from module.resources.values()


def compute_planning_order(
    configuration: Configuration, resource_types: Mapping[str, ResourceType]
) -> tuple[PlanningOrder, list[Diagnostic]]:
    """Return the order in which to plan the managed resource blocks, and errors.

    With errors, the order is empty. Blocks are ordered by the phase of their type, then after the
    blocks they need. Cycles and references to blocks of a later phase are errors.
    """
    empty_order = PlanningOrder(blocks=(), needs={}, phases={})
    dependencies = build_dependencies(configuration)
    graph = {node: tuple(needs) for node, needs in dependencies.items()}
    cycle_errors = _build_dependency_cycle_errors(graph, configuration)
    if cycle_errors:
        return empty_order, cycle_errors
    all_blocks = iterate_resource_blocks(configuration)
    managed = [
        block for block in all_blocks if block.mode == "managed" and block.type in resource_types
    ]
    blocks = sorted(
        managed, key=lambda block: tuple((name.encode(), offset) for name, offset in block.position)
    )
    phases: dict[ConfigAddress, int] = {}
    source_order: dict[ConfigAddress, int] = {}
    for index, block in enumerate(blocks):
        phases[block.address] = resource_types[block.type].phase
        source_order[block.address] = index
    reachability = _Reachability(graph)
    needs = {
        block.address: reachability.find_blocks(block.address, source_order) for block in blocks
    }  # dependencies
    problems = _build_later_phase_reference_errors(
        blocks, needs, phases, dependencies, reachability
    )
    if problems:
        return empty_order, problems
    addresses = _order_by_phase(needs, phases, source_order)
    position = {address: index for index, address in enumerate(addresses)}
    blocks.sort(key=lambda block: position[block.address])
    sorted_needs = {
        address: tuple(sorted(needs[address], key=position.__getitem__)) for address in addresses
    }
    return PlanningOrder(tuple(blocks), sorted_needs, phases), []


def _order_by_phase(
    needs: Mapping[ConfigAddress, tuple[ConfigAddress, ...]],
    phases: Mapping[ConfigAddress, int],
    position: Mapping[ConfigAddress, int],
) -> list[ConfigAddress]:
    """Return the addresses by phase; within one, dependencies first, then by position."""
    addresses: list[ConfigAddress] = []
    for phase in sorted(set(phases.values())):
        phase_needs = {}
        for block in phases:
            if phases[block] == phase:
                phase_needs[block] = [need for need in needs[block] if phases[need] == phase]
        addresses += sort_topologically(phase_needs, position)
    return addresses


_Owner = TypeVar("_Owner")
_Need = TypeVar("_Need", bound=Hashable)


def index_owners(needs: Iterable[tuple[_Owner, Iterable[_Need]]]) -> dict[_Need, list[_Owner]]:
    """Return the owners of each need, in order, from pairs of an owner and its needs."""
    owners: dict[_Need, list[_Owner]] = {}
    for owner, own_needs in needs:
        for need in own_needs:
            owners.setdefault(need, []).append(owner)
    return owners


def move_blocks_to_front(order: PlanningOrder, first: Sequence[ConfigAddress]) -> PlanningOrder:
    """Return the order with the blocks of `first` at the start of their phase.

    They keep their order if references allow it.
    """
    if not first:
        return order
    front = {address: index for index, address in enumerate(first)}
    position = {
        block.address: front.get(block.address, len(front) + index)
        for index, block in enumerate(order.blocks)
    }
    addresses = _order_by_phase(order.needs, order.phases, position)
    new_position = {address: index for index, address in enumerate(addresses)}
    return replace(
        order, blocks=tuple(sorted(order.blocks, key=lambda block: new_position[block.address]))
    )


class _Reachability:
    """Resource blocks reachable from a node through other declarations, but not through a block.

    The other declarations are, for example, locals.
    """

    def __init__(self, graph: Mapping[Declaration, tuple[Declaration, ...]]) -> None:
        self._graph = graph
        # Resource blocks reachable from a node.
        self._cache: dict[Declaration, frozenset[ConfigAddress]] = {}

    def find_blocks(
        self, address: ConfigAddress, position: Mapping[ConfigAddress, int]
    ) -> tuple[ConfigAddress, ...]:
        """Return the dependencies of a block among the blocks with a position.

        They are sorted by position.
        """
        blocks = self.find_reachable_blocks(self._graph.get(build_block_node(address), ()))
        return tuple(
            sorted((block for block in blocks if block in position), key=position.__getitem__)
        )

    def find_reachable_blocks(self, nodes: Iterable[Declaration]) -> set[ConfigAddress]:
        """Return the resource blocks of these nodes, or reachable from them."""
        return set[ConfigAddress]().union(*map(self._find_reachable_resources, nodes))

    def _find_reachable_resources(self, start: Declaration) -> frozenset[ConfigAddress]:
        """Return the resource blocks reachable from a node.

        A stack, not recursion, allows long chains of locals.
        """
        stack = [start]
        while stack:
            node = stack[-1]
            if node in self._cache:
                stack.pop()
                continue
            if node.kind == "resource":
                self._cache[node] = frozenset((build_block_address(node),))
                stack.pop()
                continue
            inner = self._graph.get(node, ())
            pending = [need for need in inner if need not in self._cache]
            # These are needed first; the node stays on the stack.
            if pending:
                stack += pending
                continue
            self._cache[node] = frozenset().union(*(self._cache[need] for need in inner))
            stack.pop()
        return self._cache[start]


def build_block_node(address: ConfigAddress) -> Declaration:
    """Return the dependency graph node of a managed block."""
    name = f"{address.type}.{address.name}"
    return Declaration(address.module, "resource", name)


def build_block_address(node: Declaration) -> ConfigAddress:
    """Return the address of the block of a node, named `<type>.<name>`."""
    kind, _, name = node.name.partition(".")
    return ConfigAddress(node.module, "data" if node.kind == "data" else "managed", kind, name)


def _build_dependency_cycle_errors(
    graph: Mapping[Declaration, tuple[Declaration, ...]], configuration: Configuration
) -> list[Diagnostic]:
    """Return an error per cycle, at the first block in the order of the graph."""
    position = {node: index for index, node in enumerate(graph)}
    errors = []
    for cycle in find_cycles(graph, position):
        names = [describe_block_node(node) for node in cycle]
        cause = f"These blocks refer to each other in a cycle: {' -> '.join([*names, names[0]])}."
        detail = f"{cause} Replace one reference by a literal value, or remove it."
        errors.append(build_error("cycle", detail, _find_declaration_span(cycle[0], configuration)))
    return errors


def describe_block_node(node: Declaration) -> str:
    """Return a declaration as expressions refer to it: `module.a.var.zone`."""
    path = "".join(f"module.{name}." for name in node.module)
    # Its name is <type>.<name>
    if node.kind == "resource":
        return path + node.name
    prefix = {"variable": "var"}.get(node.kind, node.kind)
    return f"{path}{prefix}.{node.name}"


def _find_declaration_span(node: Declaration, configuration: Configuration) -> Any:
    """Return the span of the declaration of a node in a cycle."""
    module = configuration.root
    for name in node.module:
        module = module.calls[name].module
    if node.kind in ("resource", "data"):
        address = build_block_address(node)
        return module.resources[address.mode, address.type, address.name].header_span
    table: dict[str, Mapping[str, Any]] = {
        "variable": module.variables,
        "local": module.locals,
        "output": module.outputs,
        "module": module.calls,
        "provider": module.providers,
    }
    return table[node.kind][node.name].span


def _build_later_phase_reference_errors(
    blocks: list[ResourceBlock],
    needs: Mapping[ConfigAddress, tuple[ConfigAddress, ...]],
    phases: Mapping[ConfigAddress, int],
    dependencies: Mapping[Declaration, Mapping[Declaration, Span]],
    reachability: _Reachability,
) -> list[Diagnostic]:
    """Build an error for each reference to values of a block of a later phase.

    `depends_on` alone is allowed.
    """
    errors = []
    for block in blocks:
        later = [need for need in needs[block.address] if phases[need] > phases[block.address]]
        if later:
            # They use no values.
            order_spans = {traversal.span for traversal in block.depends_on}
            nodes = dependencies[build_block_node(block.address)].items()
            value_nodes = [node for node, span in nodes if span not in order_spans]
            value_needs = reachability.find_reachable_blocks(value_nodes)
            for need in later:
                if need not in value_needs:
                    continue
                detail = (
                    f"{block.address} refers to {need}, but every {need.type} is planned after all "
                    f"{block.type} blocks: {block.address} -> {need} -> {block.address}. The order "
                    "is sites, racks, machines, clusters and VMs, fleet objects. Use a literal "
                    "value, or reverse the reference."
                )
                errors.append(build_error("cycle", detail, block.header_span, block=block.header))
    return errors
