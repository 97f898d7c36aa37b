"""JSON of `relevant_attributes`: the inputs of the changes of a plan.

As in Terraform, these are attributes of resources referenced by changed objects, changed root
outputs and all outputs of other modules, directly or through locals, variables, outputs,
`each` and `count`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, Literal

from msgspec import Struct

from nexusform.configuration.declarations.configuration import (
    Configuration,
    Module,
    ModuleCall,
    ResourceBlock,
)
from nexusform.language.body_decoding import BodySchema, decode_body
from nexusform.language.references import list_body_traversals, list_traversals
from nexusform.language.syntax.syntax_nodes import Expression, Step, Traversal, TraverseAttribute
from nexusform.plans.plan import Action, Change, Mode, Plan
from nexusform.resources.address import Address, Key, ModulePath, ModulePathStep
from nexusform.state.objects import State

# Mode, type, name.
_ResourceKey = tuple[Literal["managed", "data"], str, str]
_Steps = tuple[str | int, ...]
_NO_MODULE: Final = Module(path=(), directory="")


class _Reference(Struct, frozen=True):
    """A traversal with its module and, for `each` and `count`, its resource."""

    module: ModulePath
    root: str
    steps: _Steps
    block: _ResourceKey | None = None


class _Attribute(Struct, frozen=True, order=True):
    """An attribute of a resource."""

    resource: str
    attribute: _Steps


def collect_relevant_attributes(
    configuration: Configuration, plan: Plan, changes: Sequence[Change], prior: State
) -> list[dict[str, Any]]:
    """Return the resource attributes used by a plan, sorted.

    An example is `{"resource": "rack.a", "attribute": ["name"]}`. They are read by expressions of
    changed objects, changed outputs and module outputs, also through variables and locals. The
    instances of modules are known from the addresses in `plan` and in the `prior` state.
    """
    analysis = _ReferenceAnalysis(configuration.root)
    references = list(_list_change_references(analysis, changes))
    for output in plan.root_values.outputs:
        if output.action is not Action.NO_OP:
            references += analysis.list_output_references(path=(), name=output.name)
    if plan.options.mode is not Mode.DESTROY:
        addresses = chain((change.address for change in plan.changes), prior.instances)
        # Module outputs are not in the state, so every plan evaluates them. A module without
        # resources has no address.
        module_paths = set(_list_single_modules(analysis.root, path=()))
        for path in {address.module for address in addresses}:
            # The modules around it count, too.
            module_paths.update(path[:length] for length in range(1, len(path) + 1))
        for path in module_paths:
            module = analysis.find_module(path)
            for name in module.outputs:
                references.extend(analysis.list_output_references(path, name))
    attributes = analysis.collect_attributes(references)
    ordered = sorted(
        attributes, key=lambda attribute: (attribute.resource, tuple(map(str, attribute.attribute)))
    )
    return [
        {"resource": attribute.resource, "attribute": list(attribute.attribute)}
        for attribute in ordered
    ]


def _list_change_references(
    analysis: _ReferenceAnalysis, changes: Iterable[Change]
) -> Iterator[_Reference]:
    """Yield the references in the blocks of changed objects."""
    # Each once, in order.
    blocks: dict[tuple[ModulePath, _ResourceKey], None] = {}
    for change in changes:
        if change.action is not Action.NO_OP:
            address = change.address
            blocks[address.module, (address.mode, address.type, address.name)] = None
    for module, block in blocks:
        # Of all attributes.
        yield from analysis.list_block_references(module, block, attribute=())


def _list_single_modules(module: Module, path: ModulePath) -> Iterator[ModulePath]:
    """Yield the paths of called modules with a single instance, at any depth."""
    for call in module.calls.values():
        if not _is_repeated(call):
            inner = (*path, ModulePathStep(call.name))
            yield inner
            yield from _list_single_modules(call.module, inner)


class _ReferenceAnalysis:
    """Resolver of references to the resource attributes behind them."""

    def __init__(self, root: Module) -> None:
        self.root = root

    def find_module(self, path: ModulePath) -> Module:
        """Find the module of an instance; an empty one if it is no longer configured."""
        module = self.root
        for step in path:
            call = module.calls.get(step.name)
            if call is None:
                return _NO_MODULE
            module = call.module
        return module

    def collect_attributes(self, references: Iterable[_Reference]) -> set[_Attribute]:
        """Collect the resource attributes that are referenced directly or indirectly."""
        attributes: set[_Attribute] = set()
        unfollowed = list(dict.fromkeys(references))
        visited = set(unfollowed)
        while unfollowed:
            reference = unfollowed.pop()
            resource = self._resolve_resource(reference)
            if resource is not None:
                block, key, steps = resource
                address = Address(reference.module, block.mode, block.type, block.name, key)
                attributes.add(_Attribute(str(address), steps))
            for next_reference in self._follow_reference(reference):
                if next_reference not in visited:
                    visited.add(next_reference)
                    unfollowed.append(next_reference)
        return attributes

    def _follow_reference(self, reference: _Reference) -> Iterable[_Reference]:
        """Return the references in the definition of a referenced value.

        `var.size` leads to those in the expression for `size` in the module call. A local or an
        output is defined by its expression, a resource by its block, `each` and `count` by the
        repeated block. Return () for an undeclared value.
        """
        module = self.find_module(reference.module)
        name = str(reference.steps[0]) if reference.steps else ""
        match reference.root:
            case "var":
                path = reference.module
                # No module block calls the root module.
                if not path:
                    return ()
                calling_module = path[:-1]
                call = self.find_module(calling_module).calls.get(path[-1].name)
                input_value = call.inputs.get(name) if call else None
                return (
                    _build_references(calling_module, input_value[0]) if input_value else ()
                )  # its expression
            case "local":
                local = module.locals.get(name)
                return _build_references(reference.module, local.expression) if local else ()
            case "module":
                return self._follow_call(reference, module)
            case "each" | "count":
                # The reference leads to the `for_each` or `count` of the block around it.
                block_with_each = module.resources.get(reference.block) if reference.block else None
                if block_with_each is None:
                    return ()
                expression = block_with_each.count or block_with_each.for_each
                return _build_references(reference.module, expression) if expression else ()
        resource = self._resolve_resource(reference)
        # `path.module` and the like.
        if resource is None:
            return ()
        block, _, attribute = resource
        return self.list_block_references(
            reference.module, (block.mode, block.type, block.name), attribute
        )

    def _resolve_resource(self, reference: _Reference) -> tuple[ResourceBlock, Key, _Steps] | None:
        """Return the block named by a reference, the instance key, and the further steps.

        The key may be None. The steps lead to the attribute. For `rack.a["x"].name` the key is
        `"x"` and the steps are `("name",)`. Return None for no resource.
        """
        steps = reference.steps
        mode: Literal["managed", "data"] = "managed"
        resource_type = reference.root
        if resource_type == "data" and steps:
            mode = "data"
            resource_type = str(steps[0])
            steps = steps[1:]
        name = str(steps[0]) if steps else ""
        attribute = steps[1:]
        block = self.find_module(reference.module).resources.get((mode, resource_type, name))
        if block is None:
            return None
        # The first step is the instance key.
        if attribute and _is_repeated(block):
            return block, attribute[0], attribute[1:]
        return block, None, attribute

    def _follow_call(self, reference: _Reference, module: Module) -> Iterable[_Reference]:
        """Return the references in a module output, or in all outputs.

        `module.NAME.OUTPUT` names one output, `module.NAME` alone all of them. The call may have an
        instance key: `module.NAME[KEY].OUTPUT`.
        """
        name, *steps = reference.steps
        call = module.calls.get(str(name))
        key: Key = None
        if steps and call is not None and _is_repeated(call):
            key, *steps = steps
        inner = (*reference.module, ModulePathStep(str(name), key))
        if steps:
            return self.list_output_references(inner, str(steps[0]))
        outputs = call.module.outputs if call is not None else ()
        return chain.from_iterable(self.list_output_references(inner, output) for output in outputs)

    def list_output_references(self, path: ModulePath, name: str) -> Iterable[_Reference]:
        """Return the references of an output."""
        output = self.find_module(path).outputs.get(name)
        return _build_references(path, output.expression) if output else ()

    def list_block_references(
        self, path: ModulePath, key: _ResourceKey, attribute: _Steps
    ) -> Iterable[_Reference]:
        """Return the references of a resource, or of its part `attribute` (steps of a path).

        Return () if the resource is undeclared.
        """
        block = self.find_module(path).resources.get(key)
        if block is None:
            return ()
        traversals = (
            _list_argument_references(block, str(attribute[0]))
            if attribute
            else list_body_traversals(block.body)
        )
        return [_build_reference(path, traversal, key) for traversal in traversals]


def _is_repeated(block: ModuleCall | ResourceBlock) -> bool:
    """Return whether a block has several instances."""
    return block.count is not None or block.for_each is not None


def _list_argument_references(block: ResourceBlock, name: str) -> Iterator[Traversal]:
    """Yield the references in the argument of that name.

    Without this argument, yield the references in the nested or dynamic blocks of that name.
    """
    # Without a schema, look for nested blocks without a label, then with one.
    for labels in ((), ("label",)):
        parts, _ = decode_body(
            block.body, BodySchema(attributes={name: False}, blocks={name: labels}), partial=True
        )
        argument = parts.attributes.get(name)
        # Then no block has its name.
        if argument is not None:
            yield from list_traversals(argument.expression)
            return
        for nested in parts.blocks:
            yield from list_body_traversals(nested.body)
    dynamic_parts, _ = decode_body(
        block.body, BodySchema(blocks={"dynamic": ("label",)}), partial=True
    )
    for dynamic_block in dynamic_parts.blocks:
        if dynamic_block.labels[0].value == name:
            yield from list_body_traversals(dynamic_block.body)


def _build_references(path: ModulePath, expression: Expression) -> list[_Reference]:
    return [_build_reference(path, traversal) for traversal in list_traversals(expression)]


def _build_reference(
    path: ModulePath, traversal: Traversal, block: _ResourceKey | None = None
) -> _Reference:
    """Build the reference of a traversal.

    Only for `each` and `count`, it includes the enclosing resource `block`.
    """
    root = traversal.root.name
    resource = block if root in ("each", "count") else None
    return _Reference(path, root, tuple(map(_convert_step, traversal.steps)), resource)


def _convert_step(step: Step) -> str | int:
    """Return the name, key or index of a step."""
    if isinstance(step, TraverseAttribute):
        # `a.0` is `a[0]`.
        return int(step.name) if step.name.isdecimal() else step.name
    return step.key if isinstance(step.key, str) else int(step.key)
