"""`relevant_attributes` of a plan document: what the plan's changes were worked out from.

As Terraform has it: from what objects that change, changed outputs of the root module and all outputs of
other modules are written with, through locals, variables, outputs, `each` and `count` back to attributes of
resources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal

from msgspec import Struct

from nexusform.address import Address, Key, ModulePath, ModuleStep
from nexusform.configuration.declared.configuration import Configuration, Module, ResourceBlock
from nexusform.language.bodies import BodySchema, content
from nexusform.language.references import body_traversals, traversals
from nexusform.language.syntax.nodes import Expression, Step, Traversal, TraverseAttribute
from nexusform.plans.plan import Action, Change, Mode, OutputChange, Plan
from nexusform.state.objects import State

_ResourceKey = tuple[Literal["managed", "data"], str, str]  # mode, type, name
_Steps = tuple[str | int, ...]


class _Reference(Struct, frozen=True):
    """A traversal, and where it stands: in a module, and for `each` and `count` in a resource."""

    module: ModulePath
    root: str
    steps: _Steps
    block: _ResourceKey | None = None


class _Attribute(Struct, frozen=True, order=True):
    resource: str
    attribute: _Steps


def relevant_attributes(
    configuration: Configuration, plan: Plan, acted_on: Sequence[Change], prior: State
) -> list[dict[str, Any]]:
    """The elements of `relevant_attributes`, sorted. Plan and state tell which instances modules have."""
    analysis = _Analysis(configuration.root)
    beginnings = [*_of_changes(analysis, acted_on), *_of_outputs(analysis, plan.outputs)]
    if plan.mode is not Mode.DESTROY:
        objects = chain((change.address for change in plan.changes), prior.instances)
        beginnings += _of_module_outputs(analysis, {address.module for address in objects})
    found = analysis.contributing(beginnings)
    ordered = sorted(found, key=lambda each: (each.resource, tuple(map(str, each.attribute))))
    return [{"resource": each.resource, "attribute": list(each.attribute)} for each in ordered]


def _of_changes(analysis: _Analysis, changes: Iterable[Change]) -> Iterator[_Reference]:
    """What the blocks of objects that change refer to."""
    blocks: dict[tuple[ModulePath, _ResourceKey], None] = {}
    for change in changes:
        if change.action is not Action.NO_OP:
            address = change.address
            blocks[address.module, (address.mode, address.type, address.name)] = None
    for module, block in blocks:
        yield from analysis.of_block(module, block, ())


def _of_outputs(analysis: _Analysis, outputs: Iterable[OutputChange]) -> Iterator[_Reference]:
    for output in outputs:
        if output.action is not Action.NO_OP:
            yield from analysis.of_output((), output.name)


def _of_module_outputs(analysis: _Analysis, modules: Iterable[ModulePath]) -> Iterator[_Reference]:
    """What outputs of modules refer to: no state keeps their values, so they count as new in every plan."""
    paths: dict[ModulePath, None] = dict.fromkeys(_single_modules(analysis.root, ()))
    for path in modules:
        while path and path not in paths:
            paths[path] = None
            path = path[:-1]  # noqa: PLW2901 - upwards
    for path in paths:
        module = analysis.module(path)
        for name in module.outputs if module else ():
            yield from analysis.of_output(path, name)


def _single_modules(module: Module, path: ModulePath) -> Iterator[ModulePath]:
    """The modules that are called once, by calls that are made once."""
    for call in module.calls.values():
        if call.count is None and call.for_each is None:
            inner = (*path, ModuleStep(call.name))
            yield inner
            yield from _single_modules(call.module, inner)


class _Analysis:
    """Goes from references to what they were worked out from."""

    def __init__(self, root: Module) -> None:
        self.root = root

    def module(self, path: ModulePath) -> Module | None:
        """The module of an instance; None where the configuration has none of that name any more."""
        module = self.root
        for step in path:
            call = module.calls.get(step.name)
            if call is None:
                return None
            module = call.module
        return module

    def contributing(self, beginnings: Iterable[_Reference]) -> set[_Attribute]:
        """The attributes of resources that are referred to, directly or through anything else."""
        found: set[_Attribute] = set()
        pending = list(dict.fromkeys(beginnings))
        visited = set(pending)
        while pending:
            reference = pending.pop()
            attribute = self._attribute(reference)
            if attribute is not None:
                found.add(attribute)
            for further in self._behind(reference):
                if further not in visited:
                    visited.add(further)
                    pending.append(further)
        return found

    def _attribute(self, reference: _Reference) -> _Attribute | None:
        """The attribute that a reference names; None where it names no resource that is declared."""
        named = self._named(reference)
        if named is None:
            return None
        block, key, rest = named
        address = Address(reference.module, block.mode, block.type, block.name, key)
        return _Attribute(str(address), rest)

    def _behind(self, reference: _Reference) -> Iterable[_Reference]:
        """What the named thing itself refers to."""
        module = self.module(reference.module)
        if module is None:
            return ()
        name = str(reference.steps[0]) if reference.steps else ""
        match reference.root:
            case "var":
                return self._of_variable(reference.module, name)
            case "local":
                local = module.locals.get(name)
                return _references(reference.module, local.expression) if local else ()
            case "module":
                return self._of_call(reference, module)
            case "each" | "count":
                return _of_repetition(reference, module)
        named = self._named(reference)
        if named is None:
            return ()
        block, _, attribute = named
        return self.of_block(reference.module, (block.mode, block.type, block.name), attribute)

    def _named(self, reference: _Reference) -> tuple[ResourceBlock, Key, _Steps] | None:
        """The block, the instance key and the attribute that a reference names; None for other things."""
        steps = reference.steps
        mode: Literal["managed", "data"] = "managed"
        of_type = reference.root
        if of_type == "data" and steps:
            mode, of_type, steps = "data", str(steps[0]), steps[1:]
        module = self.module(reference.module)
        block = module.resources.get((mode, of_type, str(steps[0]))) if module and steps else None
        if block is None:
            return None
        rest = steps[1:]
        repeated = block.count is not None or block.for_each is not None
        return (block, rest[0], rest[1:]) if repeated and rest else (block, None, rest)

    def _of_variable(self, path: ModulePath, name: str) -> Iterable[_Reference]:
        """What the caller gives for a variable; nothing for one of the root module."""
        caller = self.module(path[:-1]) if path else None
        call = caller.calls.get(path[-1].name) if caller else None
        given = call.inputs.get(name) if call else None
        return _references(path[:-1], given[0]) if given else ()

    def _of_call(self, reference: _Reference, module: Module) -> Iterable[_Reference]:
        """What an output of a called module refers to; of all of them where none is named."""
        name, *rest = reference.steps
        key: Key = None
        if rest and module.calls.get(str(name)) and _is_repeated(module, str(name)):
            key, rest = rest[0], rest[1:]
        inner = (*reference.module, ModuleStep(str(name), key))
        callee = self.module(inner)
        names = (str(rest[0]),) if rest else tuple(callee.outputs) if callee else ()
        return [each for output in names for each in self.of_output(inner, output)]

    def of_output(self, path: ModulePath, name: str) -> Iterable[_Reference]:
        """What an output refers to."""
        module = self.module(path)
        output = module.outputs.get(name) if module else None
        return _references(path, output.expression) if output else ()

    def of_block(self, path: ModulePath, key: _ResourceKey, attribute: _Steps) -> Iterable[_Reference]:
        """What a resource is written with; of an attribute or nested blocks, where one is named."""
        module = self.module(path)
        block = module.resources.get(key) if module else None
        if block is None:
            return ()
        free = _written(block, str(attribute[0])) if attribute else body_traversals(block.body)
        return [_reference(path, each, key) for each in free]


def _is_repeated(module: Module, name: str) -> bool:
    call = module.calls[name]
    return call.count is not None or call.for_each is not None


def _of_repetition(reference: _Reference, module: Module) -> Iterable[_Reference]:
    """What `count` or `for_each` of the resource refers to in which `count` or `each` stands."""
    block = module.resources.get(reference.block) if reference.block else None
    if block is None:
        return ()
    expression = block.count or block.for_each
    return _references(reference.module, expression) if expression else ()


def _written(block: ResourceBlock, name: str) -> Iterator[Traversal]:
    """The references in an argument, or in the nested blocks, of that name."""
    for labels in ((), ("label",)):
        parts, _ = content(block.body, BodySchema({name: False}, {name: labels}), partial=True)
        for argument in parts.attributes.values():
            yield from traversals(argument.expression)
            return
        for nested in parts.blocks:
            yield from body_traversals(nested.body)
    made, _ = content(block.body, BodySchema(blocks={"dynamic": ("label",)}), partial=True)
    for each in made.blocks:
        if each.labels[0].value == name:
            yield from body_traversals(each.body)


def _references(path: ModulePath, expression: Expression) -> list[_Reference]:
    return [_reference(path, each) for each in traversals(expression)]


def _reference(path: ModulePath, traversal: Traversal, block: _ResourceKey | None = None) -> _Reference:
    """A traversal in a module; the block matters to `each` and `count` alone."""
    root = traversal.root.name
    within = block if root in ("each", "count") else None
    return _Reference(path, root, tuple(map(_step, traversal.steps)), within)


def _step(step: Step) -> str | int:
    if isinstance(step, TraverseAttribute):
        return int(step.name) if step.name.isdecimal() else step.name
    return step.key if isinstance(step.key, str) else int(step.key)
