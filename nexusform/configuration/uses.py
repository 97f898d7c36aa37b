"""Who refers to what: every reference of a module with the thing that makes it and what it may see; and
which things need which others directly, the edges that planning orders by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from nexusform.configuration.declared.configuration import (
    DEFAULT_PROVIDER,
    Check,
    Condition,
    Configuration,
    ImportBlock,
    Module,
    ModuleCall,
    Output,
    ResourceBlock,
)
from nexusform.graph import reached
from nexusform.language.parser import collector_off
from nexusform.language.references import body_traversals, traversals
from nexusform.language.syntax.nodes import Expression, Step, Traversal, TraverseAttribute, TraverseIndex
from nexusform.source import Span

Kind: TypeAlias = Literal[
    "variable", "local", "output", "resource", "data", "module", "provider", "check", "import"
]


class Declaration(Struct, frozen=True):
    """One thing of a module that may need others: the module's static path, what it is, its name.

    The name of a resource or data block is `type.name`, that of a provider its key; an import's is
    its number.
    """

    module: tuple[str, ...]
    kind: Kind
    name: str

    def __str__(self) -> str:
        words = {"variable": "var.", "local": "local.", "data": "data.", "module": "module."}
        prefix = words.get(self.kind, "" if self.kind == "resource" else f"{self.kind}.")
        return "".join(f"module.{m}." for m in self.module) + prefix + self.name


class Sight(Struct, frozen=True):
    """Which names an expression may use beyond those of its module.

    `block` is the resource that it stands in, `scoped` the data block of its check, `whole` tells
    that references must be to whole objects (depends_on).
    """

    count: bool = False
    each: bool = False
    itself: bool = False
    block: ResourceBlock | None = None
    scoped: ResourceBlock | None = None
    whole: bool = False


class Use(Struct, frozen=True):
    """A reference made by a node; `header` is the block it stands in."""

    node: Declaration
    traversal: Traversal
    sight: Sight
    header: str = ""


# The references of every module, by its path.
Uses: TypeAlias = Mapping[tuple[str, ...], tuple[Use, ...]]

_NOTHING = Sight()
_WHOLE = Sight(whole=True)


def resource_node(block: ResourceBlock) -> Declaration:
    """The node of a resource or data block."""
    kind: Kind = "resource" if block.mode == "managed" else "data"
    return Declaration(block.address.module, kind, f"{block.type}.{block.name}")


def modules(root: Module) -> Iterator[Module]:
    """A module and all that it calls, callers first."""
    stack = [root]
    while stack:
        module = stack.pop()
        yield module
        stack.extend(call.module for call in reversed(list(module.calls.values())))


@collector_off()
def all_uses(configuration: Configuration) -> Uses:
    """Every reference of a configuration, found once for all who ask."""
    return {module.path: tuple(uses(module)) for module in modules(configuration.root)}


def uses(module: Module) -> Iterator[Use]:
    """Every reference that stands in a module's files, nested modules left out."""
    path = module.path
    for variable in module.variables.values():
        node, header = Declaration(path, "variable", variable.name), f'variable "{variable.name}"'
        yield from _conditions(node, variable.validations, _NOTHING, header)
    for local in module.locals.values():
        yield from _expressions(
            Declaration(path, "local", local.name), [local.expression], _NOTHING, "locals"
        )
    for output in module.outputs.values():
        yield from _output(Declaration(path, "output", output.name), output)
    for block in module.resources.values():
        yield from resource_uses(resource_node(block), block)
    for call in module.calls.values():
        yield from _call(Declaration(path, "module", call.name), call)
    for provider in module.providers.values():
        header = f'provider "{provider.name}"'
        node = Declaration(path, "provider", provider.key)
        yield from (Use(node, t, _NOTHING, header) for t in body_traversals(provider.body))
    for number, block_to_import in enumerate(module.imports):
        yield from _import(Declaration(path, "import", str(number)), block_to_import)
    for check in module.checks:
        yield from _check(Declaration(path, "check", check.name), check)


def _expressions(
    node: Declaration, expressions: Iterable[Expression | None], sight: Sight, header: str
) -> Iterator[Use]:
    for expression in expressions:
        if expression is not None:
            for traversal in traversals(expression):
                yield Use(node, traversal, sight, header)


def _conditions(
    node: Declaration, conditions: Iterable[Condition], sight: Sight, header: str
) -> Iterator[Use]:
    for each in conditions:
        yield from _expressions(node, [each.condition, each.error_message], sight, header)


def _output(node: Declaration, output: Output) -> Iterator[Use]:
    header = f'output "{output.name}"'
    yield from _expressions(node, [output.expression], _NOTHING, header)
    yield from _conditions(node, output.preconditions, _NOTHING, header)
    yield from _expressions(node, output.depends_on, _WHOLE, header)


def resource_uses(node: Declaration, block: ResourceBlock) -> Iterator[Use]:
    """The references of a resource or data block."""
    header = block.header
    inside = Sight(count=block.count is not None, each=block.for_each is not None, block=block)
    yield from _expressions(node, [block.count, block.for_each], Sight(block=block), header)
    for traversal in body_traversals(block.body):
        yield Use(node, traversal, inside, header)
    yield from _expressions(node, block.depends_on, Sight(whole=True, block=block), header)
    lifecycle = block.lifecycle
    if lifecycle.span is None:
        return
    yield from _expressions(node, lifecycle.replace_triggered_by, inside, header)
    yield from _conditions(node, lifecycle.preconditions, inside, header)
    after = Sight(count=inside.count, each=inside.each, itself=True, block=block)
    yield from _conditions(node, lifecycle.postconditions, after, header)


def _call(node: Declaration, call: ModuleCall) -> Iterator[Use]:
    header = f'module "{call.name}"'
    yield from _expressions(node, [call.count, call.for_each], _NOTHING, header)
    yield from _expressions(node, call.depends_on, _WHOLE, header)
    yield from input_uses(call, (*node.module, call.name))


def input_uses(call: ModuleCall, path: tuple[str, ...]) -> Iterator[Use]:
    """The references of a call's inputs, made by the variables of the called module."""
    sight = Sight(count=call.count is not None, each=call.for_each is not None)
    for name, (expression, _) in call.inputs.items():
        yield from _expressions(
            Declaration(path, "variable", name), [expression], sight, f'module "{call.name}"'
        )


def _import(node: Declaration, block: ImportBlock) -> Iterator[Use]:
    sight = Sight(each=block.for_each is not None)
    yield from _expressions(node, [block.for_each], _NOTHING, "import")
    yield from _expressions(node, [block.id], sight, "import")
    target = list(_expressions(node, [block.to], sight, "import"))
    yield from target[1:]  # what stands in the brackets; the first is the address itself


def _check(node: Declaration, check: Check) -> Iterator[Use]:
    if check.data is not None:
        yield from resource_uses(node, check.data)
    yield from _conditions(node, check.asserts, Sight(scoped=check.data), f'check "{check.name}"')


_Edges = dict[Declaration, dict[Declaration, Span]]


@collector_off()
def dependencies(
    configuration: Configuration,
) -> Mapping[Declaration, Mapping[Declaration, Span]]:
    """For every node of every module the nodes that it needs directly, with where it says so.

    A node inside a called module needs the call (its count, for_each and depends_on); a called
    module's variable needs what its input refers to; a reference to a whole module needs all its
    outputs, in depends_on all it holds. What leads nowhere is left out (check_references tells).
    """
    edges: _Edges = {}
    _module_edges(configuration.root, None, configuration.root, all_uses(configuration), edges)
    return edges


def outputs_that_need(configuration: Configuration, addresses: Collection[str]) -> frozenset[str]:
    """The root outputs that need one of these blocks, directly or not; addresses without instance keys."""
    edges = dependencies(configuration)
    needing = set()
    for name in configuration.root.outputs:
        needed = reached([Declaration((), "output", name)], lambda node: edges.get(node, {}))
        if any(str(node) in addresses for node in needed):
            needing.add(name)
    return frozenset(needing)


def nodes_of(module: Module) -> Iterator[Declaration]:
    """Everything that a module declares itself, without what it calls, in source order per kind."""
    path = module.path
    yield from (Declaration(path, "variable", n) for n in module.variables)
    yield from (Declaration(path, "local", n) for n in module.locals)
    yield from (Declaration(path, "output", n) for n in module.outputs)
    yield from (resource_node(b) for b in module.resources.values())
    yield from (Declaration(path, "module", n) for n in module.calls)
    yield from (Declaration(path, "provider", n) for n in module.providers)
    yield from (Declaration(path, "import", str(n)) for n in range(len(module.imports)))
    yield from (Declaration(path, "check", c.name) for c in module.checks)


def _module_edges(module: Module, call: ModuleCall | None, root: Module, made: Uses, edges: _Edges) -> None:
    """Note what each declaration of a module, and of those that it calls, needs and where it says so."""
    caller = Declaration(module.path[:-1], "module", module.path[-1]) if module.path else None
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


def _provider(block: ResourceBlock, module: Module, root: Module) -> Declaration | None:
    """The provider block that a resource uses: its module's own, else the root's."""
    key = block.provider or DEFAULT_PROVIDER
    for holder in (module, root):
        if key in holder.providers:
            return Declaration(holder.path, "provider", key)
    return None


def _targets(module: Module, traversal: Traversal, *, everything: bool) -> Iterable[Declaration]:
    """The nodes that a reference stands for."""
    root, steps, path = traversal.root.name, traversal.steps, module.path
    name = _name(steps, 0)
    if root == "var":
        return (Declaration(path, "variable", name),) if name in module.variables else ()
    if root == "local":
        return (Declaration(path, "local", name),) if name in module.locals else ()
    if root == "module":
        call = module.calls.get(name)
        return () if call is None else _module_targets(call, path, steps[1:], everything=everything)
    if root == "data":
        second = _name(steps, 1)
        declared = ("data", name, second) in module.resources
        return (Declaration(path, "data", f"{name}.{second}"),) if declared else ()
    declared = ("managed", root, name) in module.resources
    return (Declaration(path, "resource", f"{root}.{name}"),) if declared else ()


def _module_targets(
    call: ModuleCall, path: tuple[str, ...], steps: tuple[Step, ...], *, everything: bool
) -> Iterator[Declaration]:
    """What a reference to a call leads to: the call, and the output that it names, or all of them."""
    yield Declaration(path, "module", call.name)
    if everything:
        yield from _all_of(call.module)
        return
    after_key = steps[1:] if steps and isinstance(steps[0], TraverseIndex) else steps
    name = _name(after_key, 0)
    inner = call.module.path
    if name in call.module.outputs:
        yield Declaration(inner, "output", name)
    else:
        yield from (Declaration(inner, "output", n) for n in call.module.outputs)


def _all_of(module: Module) -> Iterator[Declaration]:
    yield from nodes_of(module)
    for call in module.calls.values():
        yield from _all_of(call.module)


def _name(steps: tuple[Step, ...], position: int) -> str:
    step = steps[position] if position < len(steps) else None
    return step.name if isinstance(step, TraverseAttribute) else ""
