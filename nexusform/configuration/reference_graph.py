"""References of a module with owners and scopes, and direct dependencies.

They decide the order of planning.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import (
    DEFAULT_PROVIDER,
    Condition,
    Configuration,
    Module,
    ModuleCall,
    ResourceBlock,
)
from nexusform.diagnostics.diagnostic import Span
from nexusform.language.references import list_body_traversals, list_traversals
from nexusform.language.syntax.syntax_nodes import (
    Expression,
    Step,
    Traversal,
    TraverseAttribute,
    TraverseIndex,
)
from nexusform.resources.address import MODE_KEYWORDS, Mode
from nexusform.resources.graph import find_reachable

Kind: TypeAlias = Literal[
    "variable", "local", "output", "resource", "data", "module", "provider", "check", "import"
]

# Prefixes of addresses other than `KIND.`.
_PREFIXES: Final[Mapping[Kind, str]] = {"variable": "var.", "resource": ""}


class Declaration(Struct, frozen=True):
    """Declaration of a module that may depend on others.

    The module's static path, its kind, its name. The name of a resource or data block is
    `type.name`, that of a provider its key; an import's is its number.
    """

    module: tuple[str, ...]
    kind: Kind
    name: str

    def __str__(self) -> str:
        prefix = _PREFIXES.get(self.kind, f"{self.kind}.")
        return "".join(f"module.{name}." for name in self.module) + prefix + self.name


class ReferenceScope(Struct, frozen=True):
    """Names that an expression may use besides those of its module.

    `block` is the enclosing resource, and `check_data` the data block of its check. With
    `only_whole_objects`, references must be to whole objects (depends_on).
    """

    has_count: bool = False
    has_each: bool = False
    has_self: bool = False
    block: ResourceBlock | None = None
    check_data: ResourceBlock | None = None
    only_whole_objects: bool = False


class ReferenceUse(Struct, frozen=True):
    """Reference of a node; `header` is its block."""

    node: Declaration
    traversal: Traversal
    scope: ReferenceScope
    header: str = ""


# The references of every module, by its path.
ReferencesByModule: TypeAlias = Mapping[tuple[str, ...], tuple[ReferenceUse, ...]]

_MODULE_SCOPE = ReferenceScope()
_WHOLE_OBJECT_SCOPE = ReferenceScope(only_whole_objects=True)


def build_resource_declaration(block: ResourceBlock) -> Declaration:
    """Build the declaration of a resource or data block, its node in the graph of references."""
    return Declaration(
        block.address.module, MODE_KEYWORDS[block.mode], f"{block.type}.{block.name}"
    )


def list_modules(root: Module) -> Iterator[Module]:
    """List a module and all modules that it calls, callers first."""
    # The next module is the last item.
    stack = [root]
    while stack:
        module = stack.pop()
        yield module
        stack.extend(call.module for call in reversed(list(module.calls.values())))


def collect_references(configuration: Configuration) -> ReferencesByModule:
    """Return every reference of a configuration, by the path of its module."""
    return {
        module.path: tuple(list_references(module)) for module in list_modules(configuration.root)
    }


def list_references(module: Module) -> Iterator[ReferenceUse]:
    """List every reference in a module's files, each with the declaration it is in.

    Nested modules are excluded.
    """
    path = module.path
    for variable in module.variables.values():
        node = Declaration(path, "variable", variable.name)
        header = f'variable "{variable.name}"'
        yield from _list_condition_references(node, variable.validations, _MODULE_SCOPE, header)
    for local in module.locals.values():
        node = Declaration(path, "local", local.name)
        yield from _list_expression_references(node, [local.expression], _MODULE_SCOPE, "locals")
    for output in module.outputs.values():
        node = Declaration(path, "output", output.name)
        header = f'output "{output.name}"'
        yield from _list_expression_references(node, [output.expression], _MODULE_SCOPE, header)
        yield from _list_condition_references(node, output.preconditions, _MODULE_SCOPE, header)
        yield from _list_expression_references(node, output.depends_on, _WHOLE_OBJECT_SCOPE, header)
    for block in module.resources.values():
        yield from list_resource_references(build_resource_declaration(block), block)
    for call in module.calls.values():
        yield from _list_call_references(Declaration(path, "module", call.name), call)
    for provider in module.providers.values():
        header = f'provider "{provider.name}"'
        node = Declaration(path, "provider", provider.key)
        yield from (
            ReferenceUse(node, t, _MODULE_SCOPE, header)
            for t in list_body_traversals(provider.body)
        )
    for number, block_to_import in enumerate(module.imports):
        node = Declaration(path, "import", str(number))
        scope = ReferenceScope(has_each=block_to_import.for_each is not None)
        yield from _list_expression_references(
            node, [block_to_import.for_each], _MODULE_SCOPE, "import"
        )
        yield from _list_expression_references(node, [block_to_import.id], scope, "import")
        target = list(_list_expression_references(node, [block_to_import.to], scope, "import"))
        # The references in brackets; the first is the address itself.
        yield from target[1:]
    for check in module.checks:
        node = Declaration(path, "check", check.name)
        if check.data is not None:
            yield from list_resource_references(node, check.data)
        scope = ReferenceScope(check_data=check.data)
        yield from _list_condition_references(node, check.asserts, scope, f'check "{check.name}"')


def _list_expression_references(
    node: Declaration, expressions: Iterable[Expression | None], scope: ReferenceScope, header: str
) -> Iterator[ReferenceUse]:
    """List the references of expressions, with this scope and header.

    An expression that is None has no references.
    """
    for expression in expressions:
        if expression is not None:
            for traversal in list_traversals(expression):
                yield ReferenceUse(node, traversal, scope, header)


def _list_condition_references(
    node: Declaration, conditions: Iterable[Condition], scope: ReferenceScope, header: str
) -> Iterator[ReferenceUse]:
    for condition in conditions:
        yield from _list_expression_references(
            node, [condition.condition, condition.error_message], scope, header
        )


def list_resource_references(node: Declaration, block: ResourceBlock) -> Iterator[ReferenceUse]:
    """List the references of a resource or data block, with the names allowed at each.

    These names are `self`, `count` and `each`.
    """
    header = block.header
    body_scope = ReferenceScope(
        has_count=block.count is not None, has_each=block.for_each is not None, block=block
    )
    repetition = [block.count, block.for_each, block.enabled]
    # For expressions evaluated once for all instances.
    unrepeated_scope = ReferenceScope(block=block)
    yield from _list_expression_references(node, repetition, unrepeated_scope, header)
    for traversal in list_body_traversals(block.body):
        yield ReferenceUse(node, traversal, body_scope, header)
    whole_object_scope = ReferenceScope(only_whole_objects=True, block=block)
    yield from _list_expression_references(node, block.depends_on, whole_object_scope, header)
    lifecycle = block.lifecycle
    if lifecycle.span is None:
        # No `lifecycle` block.
        return
    yield from _list_expression_references(node, lifecycle.replace_triggered_by, body_scope, header)
    yield from _list_expression_references(
        node, [lifecycle.prevent_destroy_condition], unrepeated_scope, header
    )
    yield from _list_condition_references(node, lifecycle.preconditions, body_scope, header)
    postcondition_scope = replace(body_scope, has_self=True)
    yield from _list_condition_references(
        node, lifecycle.postconditions, postcondition_scope, header
    )


def _list_call_references(node: Declaration, call: ModuleCall) -> Iterator[ReferenceUse]:
    """List the references of a module call.

    The references of its inputs belong to the variables of the called module.
    """
    header = f'module "{call.name}"'
    yield from _list_expression_references(
        node, [call.count, call.for_each, call.enabled], _MODULE_SCOPE, header
    )
    yield from _list_expression_references(node, call.depends_on, _WHOLE_OBJECT_SCOPE, header)
    scope = ReferenceScope(has_count=call.count is not None, has_each=call.for_each is not None)
    for name, (expression, _) in call.inputs.items():
        variable = Declaration((*node.module, call.name), "variable", name)
        yield from _list_expression_references(variable, [expression], scope, header)


_Edges = dict[Declaration, dict[Declaration, Span]]


def build_dependencies(
    configuration: Configuration,
) -> Mapping[Declaration, Mapping[Declaration, Span]]:
    """Build the direct dependencies of every node of every module, with the span of each.

    A node inside a called module depends on the call: its count, for_each and depends_on. A
    variable of the module depends on the references of its input. A reference to a whole module
    leads to all of its outputs, in depends_on to all of its nodes. Invalid references are ignored:
    check_references reports them.
    """
    edges: _Edges = {}
    references = collect_references(configuration)
    _add_module_edges(
        configuration.root, call=None, root=configuration.root, references=references, edges=edges
    )
    return edges


def find_dependent_outputs(
    configuration: Configuration, addresses: Collection[str]
) -> frozenset[str]:
    """Return the root outputs that depend on one of these blocks.

    `addresses` are without instance keys.
    """
    edges = build_dependencies(configuration)
    dependent_outputs = set()
    for name in configuration.root.outputs:
        dependencies = find_reachable(
            [Declaration((), "output", name)], lambda node: edges.get(node, {})
        )
        if any(str(node) in addresses for node in dependencies):
            dependent_outputs.add(name)
    return frozenset(dependent_outputs)


def list_declarations(module: Module) -> list[Declaration]:
    """List all declarations of a module in source order per kind.

    Declarations of called modules are left out.
    """

    def declare(kind: Kind, names: Iterable[str]) -> list[Declaration]:
        return [Declaration(module.path, kind, name) for name in names]

    return [
        *declare("variable", module.variables),
        *declare("local", module.locals),
        *declare("output", module.outputs),
        # Resource and data blocks.
        *map(build_resource_declaration, module.resources.values()),
        *declare("module", module.calls),
        *declare("provider", module.providers),
        *declare("import", map(str, range(len(module.imports)))),  # by position
        *declare("check", [check.name for check in module.checks]),
    ]


def _add_module_edges(
    module: Module,
    call: ModuleCall | None,
    root: Module,
    references: ReferencesByModule,
    edges: _Edges,
) -> None:
    """Add the dependencies of each declaration of a module, and of the modules below it.

    `call` calls the module (None: it is the root). `edges` maps each declaration to the referenced
    ones, each with the span of its first reference. A resource also depends on its provider block
    in the root module.
    """
    for node in list_declarations(module):
        # The span of the reference, by declaration.
        dependencies = edges.setdefault(node, {})
        # Everything in a module waits for its call.
        if call is not None:
            dependencies[Declaration(module.path[:-1], "module", module.path[-1])] = (
                call.header_span
            )
    for reference in references[module.path]:
        dependencies = edges.setdefault(reference.node, {})
        is_in_depends_on = reference.scope.only_whole_objects
        for target in _list_referenced_declarations(
            module, reference.traversal, everything=is_in_depends_on
        ):
            # `check_references` reports a reference to itself.
            if target != reference.node:
                # The first reference is displayed.
                dependencies.setdefault(target, reference.traversal.span)
    for block in module.resources.values():
        provider = block.provider or DEFAULT_PROVIDER
        # The default one needs no block.
        if provider in root.providers:
            provider_node = Declaration((), "provider", provider)
            edges[build_resource_declaration(block)].setdefault(provider_node, block.header_span)
    for nested_call in module.calls.values():
        _add_module_edges(nested_call.module, nested_call, root, references, edges)


def _list_referenced_declarations(
    module: Module, traversal: Traversal, *, everything: bool
) -> Iterable[Declaration]:
    """List the declarations that a reference in a module leads to, none if it is undeclared.

    `var.x` leads to a variable, `module.m.out` into the called module. With `everything`, all
    declarations of a called module are listed.
    """
    root = traversal.root.name
    steps = traversal.steps
    path = module.path
    name = traversal.first_name
    if root == "var":
        return (Declaration(path, "variable", name),) if name in module.variables else ()
    if root == "local":
        return (Declaration(path, "local", name),) if name in module.locals else ()
    if root == "module":
        call = module.calls.get(name)
        return (
            ()
            if call is None
            else _list_module_call_declarations(call, path, steps[1:], everything=everything)
        )
    key: tuple[Mode, str, str] = ("managed", root, name)
    if root == "data":
        key = ("data", name, _get_attribute_name_at_step(steps, 1))
    return (build_resource_declaration(module.resources[key]),) if key in module.resources else ()


def _list_module_call_declarations(
    call: ModuleCall, path: tuple[str, ...], steps: tuple[Step, ...], *, everything: bool
) -> Iterator[Declaration]:
    """List the call, and the output named by `steps`, or all outputs.

    With `everything`, list all declarations below the call. `steps` follow the name of the call: an
    instance key, if it has one, and the name of an output.
    """
    yield Declaration(path, "module", call.name)
    if everything:
        for module in list_modules(call.module):
            yield from list_declarations(module)
        return
    output_steps = skip_instance_key(steps)
    name = _get_attribute_name_at_step(output_steps, position=0)
    for output in [name] if name in call.module.outputs else call.module.outputs:
        yield Declaration(call.module.path, "output", output)


def skip_instance_key(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps after an instance key in brackets; all of them without one."""
    return steps[1:] if steps and isinstance(steps[0], TraverseIndex) else steps


def _get_attribute_name_at_step(steps: tuple[Step, ...], position: int) -> str:
    """Return the attribute's name at a position; "" if there is no step or it is an index."""
    step = steps[position] if position < len(steps) else None
    return step.name if isinstance(step, TraverseAttribute) else ""
