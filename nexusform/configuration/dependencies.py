"""Which things of a configuration need which others directly: the edges that planning orders by."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from nexusform.configuration.configuration import Configuration, Module, ModuleCall, ResourceBlock
from nexusform.configuration.uses import Node, Uses, all_uses, resource_node
from nexusform.graph import reached
from nexusform.language.parser import collector_off
from nexusform.language.syntax import Step, Traversal, TraverseAttribute, TraverseIndex
from nexusform.source import Span

DEFAULT_PROVIDER = "simulated"

_Edges = dict[Node, dict[Node, Span]]


@collector_off()
def dependencies(
    configuration: Configuration, known: Uses | None = None
) -> Mapping[Node, Mapping[Node, Span]]:
    """For every node of every module the nodes that it needs directly, with where it says so.

    A node inside a called module needs the call (its count, for_each and depends_on); a called
    module's variable needs what its input refers to; a reference to a whole module needs all its
    outputs, in depends_on all it holds. What leads nowhere is left out (check_references tells).
    `known` are the references when they have been found before (`all_uses`).
    """
    edges: _Edges = {}
    made = all_uses(configuration) if known is None else known
    _module_edges(configuration.root, None, configuration.root, made, edges)
    return edges


def outputs_that_need(configuration: Configuration, addresses: Collection[str]) -> frozenset[str]:
    """The root outputs that need one of these blocks, directly or not; addresses without instance keys."""
    edges = dependencies(configuration)
    needing = set()
    for name in configuration.root.outputs:
        needed = reached([Node((), "output", name)], lambda node: edges.get(node, {}))
        if any(str(node) in addresses for node in needed):
            needing.add(name)
    return frozenset(needing)


def nodes_of(module: Module) -> Iterator[Node]:
    """Everything that a module declares itself, without what it calls, in source order per kind."""
    path = module.path
    yield from (Node(path, "variable", n) for n in module.variables)
    yield from (Node(path, "local", n) for n in module.locals)
    yield from (Node(path, "output", n) for n in module.outputs)
    yield from (resource_node(b) for b in module.resources.values())
    yield from (Node(path, "module", n) for n in module.calls)
    yield from (Node(path, "provider", n) for n in module.providers)
    yield from (Node(path, "import", str(n)) for n in range(len(module.imports)))
    yield from (Node(path, "check", c.name) for c in module.checks)


def _module_edges(module: Module, call: ModuleCall | None, root: Module, made: Uses, edges: _Edges) -> None:
    caller = Node(module.path[:-1], "module", module.path[-1]) if module.path else None
    for node in nodes_of(module):
        needs = edges.setdefault(node, {})
        if caller is not None and call is not None:
            needs[caller] = call.header_span
    for use in made[module.path]:
        needs = edges.setdefault(use.node, {})
        for target in _targets(module, use.traversal, everything=use.sight.whole):
            if target != use.node:
                needs.setdefault(target, use.traversal.span)
    for block in module.resources.values():
        provider = _provider(block, module, root)
        if provider is not None:
            edges[resource_node(block)].setdefault(provider, block.header_span)
    for each in module.calls.values():
        _module_edges(each.module, each, root, made, edges)


def _provider(block: ResourceBlock, module: Module, root: Module) -> Node | None:
    """The provider block that a resource uses: its module's own, else the root's."""
    key = block.provider or DEFAULT_PROVIDER
    for holder in (module, root):
        if key in holder.providers:
            return Node(holder.path, "provider", key)
    return None


def _targets(module: Module, traversal: Traversal, *, everything: bool) -> Iterable[Node]:
    """The nodes that a reference stands for."""
    root, steps, path = traversal.root.name, traversal.steps, module.path
    name = _name(steps, 0)
    if root == "var":
        return (Node(path, "variable", name),) if name in module.variables else ()
    if root == "local":
        return (Node(path, "local", name),) if name in module.locals else ()
    if root == "module":
        call = module.calls.get(name)
        return () if call is None else _module_targets(call, path, steps[1:], everything=everything)
    if root == "data":
        second = _name(steps, 1)
        declared = ("data", name, second) in module.resources
        return (Node(path, "data", f"{name}.{second}"),) if declared else ()
    declared = ("managed", root, name) in module.resources
    return (Node(path, "resource", f"{root}.{name}"),) if declared else ()


def _module_targets(
    call: ModuleCall, path: tuple[str, ...], steps: tuple[Step, ...], *, everything: bool
) -> Iterator[Node]:
    yield Node(path, "module", call.name)
    if everything:
        yield from _all_of(call.module)
        return
    after_key = steps[1:] if steps and isinstance(steps[0], TraverseIndex) else steps
    name = _name(after_key, 0)
    inner = call.module.path
    if name in call.module.outputs:
        yield Node(inner, "output", name)
    else:
        yield from (Node(inner, "output", n) for n in call.module.outputs)


def _all_of(module: Module) -> Iterator[Node]:
    yield from nodes_of(module)
    for call in module.calls.values():
        yield from _all_of(call.module)


def _name(steps: tuple[Step, ...], position: int) -> str:
    step = steps[position] if position < len(steps) else None
    return step.name if isinstance(step, TraverseAttribute) else ""
