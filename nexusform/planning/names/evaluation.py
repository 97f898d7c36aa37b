"""What names mean while a plan is made: variables, locals, modules, and resources as far as they
are planned. Values are worked out when first asked for and remembered; a second pass over the
same configuration is a `fork`.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from copy import copy
from typing import Final, NamedTuple

from msgspec.structs import replace

from nexusform.address import ROOT, Address, ConfigAddress, Key, ModulePath, ModuleStep
from nexusform.configuration.declared.configuration import ModuleCall, ResourceBlock, Variable
from nexusform.configuration.declared.limits import beyond
from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.language.conversion import convert
from nexusform.language.evaluator import Scope, evaluate
from nexusform.language.syntax.nodes import Expression
from nexusform.plain_data import ConversionProblem, Path
from nexusform.planning.names.repetition import (
    LIST,
    MAP,
    ONCE,
    SINGLE,
    Expansion,
    ObjectView,
    Repetition,
    ResourceView,
    expand,
)
from nexusform.planning.names.scope import InstanceScope, ModuleInstance, Setting
from nexusform.ports import DataAnswer
from nexusform.schema import BlockSchema
from nexusform.source import Span
from nexusform.value_types import DYNAMIC
from nexusform.values import Value, null, object_value, tuple_value, unknown

SENSITIVE = frozenset({"sensitive"})
# What is wrong with the argument that repeats a block. The ids are its own: what follows from data that could
# not be read is left out by them.
UNKNOWN_REPETITION = {"count": "unknown-count-argument", "for_each": "unknown-for-each-argument"}

ResourceKey = tuple[ModulePath, str, str, str]

# How many locals and outputs may ask for one another before the last of them is worked out by itself: calls
# nest no deeper, however long the chain is.
MOST_DEEP: Final = 25


class _Named(NamedTuple):
    # A local or an output of a module instance (`kind`), and how to get at its expression.
    instance: ModuleInstance
    kind: str
    name: str
    expression: Callable[[], Expression]

    @property
    def key(self) -> tuple[ModulePath, str, str]:
        return (self.instance.path, self.kind, self.name)


class _TooDeep(Exception):
    """Calls nest too deep: this is to be worked out first."""

    def __init__(self, named: _Named) -> None:
        super().__init__(named.name)
        self.named = named


class Evaluation:
    """The names of one pass. `diagnostics` collects what evaluation found."""

    def __init__(
        self,
        setting: Setting,
        memo: MutableMapping[tuple[ModulePath, str, str], Value] | None = None,
        resources: MutableMapping[ResourceKey, ResourceView] | None = None,
    ) -> None:
        self.setting = setting
        self.root = ModuleInstance(ROOT, setting.configuration.root)
        self.diagnostics: list[Diagnostic] = []
        self.resources: MutableMapping[ResourceKey, ResourceView] = {} if resources is None else resources
        self._memo: MutableMapping[tuple[ModulePath, str, str], Value] = {} if memo is None else memo
        self._modules: dict[tuple[str, ...], list[ModuleInstance]] = {(): [self.root]}
        self._module_shapes: dict[tuple[ModulePath, str], Expansion] = {}
        self._by_path: dict[ModulePath, ModuleInstance] = {ROOT: self.root}
        self._depth = 0

    def fork(self) -> Evaluation:
        """A pass that starts from what is known now and keeps what it works out, and its diagnostics, to
        itself.
        """
        return Evaluation(self.setting, ChainMap({}, self._memo), ChainMap({}, self.resources))

    def reporting(self, diagnostics: Iterable[Diagnostic] = ()) -> Evaluation:
        """An evaluation of the same names, with diagnostics of its own that begin with these."""
        evaluation = copy(self)
        evaluation.diagnostics = list(diagnostics)
        evaluation._depth = 0  # noqa: SLF001 - a copy of the same class
        return evaluation

    # --- modules ---

    def module_instances(self, path: tuple[str, ...]) -> list[ModuleInstance]:
        """The instances of a module by its static path, in order of their keys."""
        instances = self._modules.get(path)
        if instances is None:
            instances = []
            for parent in self.module_instances(path[:-1]):
                instances += self._called(parent, parent.module.calls[path[-1]])
                if len(instances) > self.setting.most_instances:
                    raise beyond("module instances", "instances", self.setting.most_instances)
            self._modules[path] = instances
        return instances

    def _called(self, parent: ModuleInstance, call: ModuleCall) -> Iterator[ModuleInstance]:
        """The instances that one call makes."""
        for repetition in self.module_expansion(parent, call).repetitions:
            step = ModuleStep(call.name, repetition.key)
            instance = ModuleInstance((*parent.path, step), call.module, call, parent, repetition)
            self._by_path[instance.path] = instance
            yield instance

    def knows_modules(self, path: tuple[str, ...]) -> bool:
        """Whether it is known by now how often the modules on a static path are called."""
        for depth, name in enumerate(path):
            for parent in self.module_instances(path[:depth]):
                if self.module_expansion(parent, parent.module.calls[name]).unknown:
                    return False
        return True

    def module_expansion(self, parent: ModuleInstance, call: ModuleCall) -> Expansion:
        """The instances of a call, worked out once; none when they are in error."""
        key = (parent.path, call.name)
        expansion = self._module_shapes.get(key)
        if expansion is None:
            expanded, problems = self.expansion(call, self.scope(parent))
            self.diagnostics += problems
            expansion = expanded or Expansion("", ())
            if expansion.unknown and not self.setting.tentative:
                self.diagnostics.append(unknown_repetition(expansion.unknown, call))
            self._module_shapes[key] = expansion
        return expansion

    # --- values ---

    def scope(
        self, instance: ModuleInstance, repetition: Repetition = ONCE, this: ObjectView | None = None
    ) -> InstanceScope:
        """The names visible in a block of a module instance."""
        return InstanceScope(self, instance, repetition, this)

    def evaluated(self, expression: Expression, scope: Scope) -> Value | None:
        """A value, or None when the expression is in error (reported)."""
        value, problems = evaluate(expression, scope)
        self.diagnostics += problems
        return None if has_errors(problems) else value

    def expansion(
        self, block: ModuleCall | ResourceBlock, scope: Scope
    ) -> tuple[Expansion | None, list[Diagnostic]]:
        """The instances that count or for_each of a block stand for; None when they are in error."""
        most = self.setting.most_instances
        return expand(
            block.count, block.for_each, lambda each: self.evaluated(each, scope), header_of(block), most
        )

    def variable(self, instance: ModuleInstance, declared: Variable) -> Value:
        """An input variable's value: given, passed by the module call, or its default."""
        key = (instance.path, "var", declared.name)
        if key not in self._memo:
            value = self._variable(instance, declared)
            self._memo[key] = value.with_marks(SENSITIVE) if declared.sensitive else value
        return self._memo[key]

    def _variable(self, instance: ModuleInstance, declared: Variable) -> Value:
        """The value of a variable: from outside for the root module, otherwise what the call passes."""
        default = declared.default if declared.default is not None else null(declared.type)
        if instance.parent is None or instance.call is None:
            return self.setting.variables.get(declared.name, default)
        passed = instance.call.inputs.get(declared.name)
        if passed is None:
            return default
        expression, span = passed
        value = self.evaluated(expression, self.scope(instance.parent, instance.repetition))
        if value is None:
            return unknown(declared.type)
        # A null that is passed stands for the default, unless the variable may be null.
        if value.is_known and value.is_null and not declared.nullable:
            if declared.default is None:
                self.diagnostics.append(_null_passed(declared, instance.call, span))
                return unknown(declared.type)
            value = default
        try:
            return convert(value, declared.type)
        except ConversionProblem as problem:
            self.diagnostics.append(_unsuitable(declared, instance.call, problem, span))
            return unknown(declared.type)

    def assume(self, instance: ModuleInstance, name: str, value: Value) -> None:
        """Take a variable's value as given, without asking the module call."""
        self._memo[instance.path, "var", name] = value

    def local(self, instance: ModuleInstance, name: str) -> Value:
        """A local value."""
        return self._remembered(instance, "local", name, lambda: instance.module.locals[name].expression)

    def output(self, instance: ModuleInstance, name: str) -> Value:
        """An output of a module instance, marked when it is declared sensitive."""
        value = self._remembered(instance, "output", name, lambda: instance.module.outputs[name].expression)
        return value.with_marks(SENSITIVE) if instance.module.outputs[name].sensitive else value

    def _remembered(
        self, instance: ModuleInstance, kind: str, name: str, expression: Callable[[], Expression]
    ) -> Value:
        """The value of a local or an output, worked out once."""
        named = _Named(instance, kind, name, expression)
        if named.key in self._memo:
            return self._memo[named.key]
        if self._depth >= MOST_DEEP:
            raise _TooDeep(named)
        if self._depth:
            self._work_out(named)
        else:
            self._work_out_from_below(named)
        return self._memo[named.key]

    def _work_out_from_below(self, named: _Named) -> None:
        """Work out a value that may stand at the end of a long chain: whenever calls nest too deep, what they
        came to is worked out first, and then once more what asked for it.
        """
        waiting = [named]
        while waiting:
            told = len(self.diagnostics)
            try:
                if waiting[-1].key not in self._memo:
                    self._work_out(waiting[-1])
                waiting.pop()
            except _TooDeep as deep:
                del self.diagnostics[told:]  # they are told when it is worked out again
                if any(deep.named.key == each.key for each in waiting):
                    self._memo[deep.named.key] = unknown(DYNAMIC)  # a circle, which was complained about
                else:
                    waiting.append(deep.named)

    def _work_out(self, named: _Named) -> None:
        """Work out a value; diagnostics on the way name its block."""
        # What refers to itself finds this; the reference has been complained about.
        self._memo[named.key] = unknown(DYNAMIC)
        self._depth += 1
        before = len(self.diagnostics)
        try:
            value = self.evaluated(named.expression(), self.scope(named.instance))
        except _TooDeep:
            del self._memo[named.key]
            raise
        finally:
            self._depth -= 1
        header = "locals" if named.kind == "local" else f'output "{named.name}"'
        self.diagnostics[before:] = [
            diagnostic if diagnostic.block else replace(diagnostic, block=header)
            for diagnostic in self.diagnostics[before:]
        ]
        if value is not None:
            self._memo[named.key] = value

    # --- modules and resources as values ---

    def called_module(self, parent: ModuleInstance, name: str, key: Key) -> ModuleInstance | None:
        """The instance of a call with this key."""
        self.module_instances((*(step.name for step in parent.path), name))
        return self._by_path.get((*parent.path, ModuleStep(name, key)))

    def module_value(self, parent: ModuleInstance, call: ModuleCall) -> Value:
        """All outputs of all instances of a call."""
        expansion = self.module_expansion(parent, call)
        if not expansion.shape or expansion.unknown:
            return unknown(DYNAMIC)
        if expansion.shape == SINGLE:
            return self._outputs(parent, call, None)
        keys = [repetition.key for repetition in expansion.repetitions]
        if expansion.shape == LIST:
            return tuple_value([self._outputs(parent, call, key) for key in keys])
        return object_value({str(key): self._outputs(parent, call, key) for key in keys})

    def _outputs(self, parent: ModuleInstance, call: ModuleCall, key: Key) -> Value:
        instance = self.called_module(parent, call.name, key)
        # Of a module that could not be read nothing more is said.
        if instance is None or not call.module.directory:
            return unknown(DYNAMIC)
        return object_value({name: self.output(instance, name) for name in call.module.outputs})

    def resource(self, instance: ModuleInstance, block: ResourceBlock) -> ResourceView:
        """The instances of a block; data blocks are read when first asked for."""
        key = (instance.path, block.mode, block.type, block.name)
        view = self.resources.get(key)
        if view is None:
            view = self._read(instance, block) if block.mode == "data" else ResourceView("")
            self.resources[key] = view
        return view

    def resource_view(self, address: Address) -> ResourceView:
        """Where the instances of an address's block are kept, made when there is none yet."""
        key = (address.module, address.mode, address.type, address.name)
        view = self.resources.get(key)
        if view is None or not view.shape:
            shape = SINGLE if address.key is None else LIST if isinstance(address.key, int) else MAP
            view = self.resources[key] = ResourceView(shape)
        return view

    def _read(self, instance: ModuleInstance, block: ResourceBlock) -> ResourceView:
        """Read the data block: a view per instance, without one where its arguments are in error."""
        expansion, problems = self.expansion(block, self.scope(instance))
        self.diagnostics += problems
        prepared = self.setting.prepared(block)
        if expansion is None or prepared is None:
            return ResourceView("")
        if expansion.unknown and not self.setting.tentative:
            self.diagnostics.append(unknown_repetition(expansion.unknown, block))
        view = ResourceView(expansion.shape)
        schema = self.setting.schemas["data"][block.type]
        for repetition in expansion.repetitions:
            arguments, sensitive, problems = prepared.evaluate(self.scope(instance, repetition))
            self.diagnostics += problems
            answer: DataAnswer | None = None
            if not has_errors(problems):
                address = str(Address(instance.path, "data", block.type, block.name, repetition.key))
                answer, problems = self.setting.read_data(block, arguments, address)
                self.diagnostics += problems
            view.items[repetition.key] = _data_view(answer, sensitive, schema)
        return view


def _data_view(answer: DataAnswer | None, sensitive: tuple[Path, ...], schema: BlockSchema) -> ObjectView:
    """What was read as expressions see it."""
    if answer is None:
        return ObjectView(None, sensitive, schema)
    if answer.types:
        known = {name: replace(schema.attributes[name], type=of) for name, of in answer.types.items()}
        schema = replace(schema, attributes={**schema.attributes, **known})
    return ObjectView(answer.attributes, (*sensitive, *answer.sensitive), schema)


def header_of(block: ModuleCall | ResourceBlock) -> str:
    """How messages name a block."""
    return block.header if isinstance(block, ResourceBlock) else f'module "{block.name}"'


def _unsuitable(declared: Variable, call: ModuleCall, problem: ConversionProblem, span: Span) -> Diagnostic:
    return error(
        "invalid-value-for-input-variable",
        f'The given value is not suitable for the variable "{declared.name}" of module '
        f'"{call.name}": {problem}.',
        span,
        block=header_of(call),
    )


def _null_passed(declared: Variable, call: ModuleCall, span: Span) -> Diagnostic:
    detail = (
        f'The variable "{declared.name}" of module "{call.name}" may not be null and has no default. '
        "Pass a value, or give the variable a default."
    )
    return error("required-variable-not-set", detail, span, block=header_of(call))


def unknown_repetition(argument: str, block: ModuleCall | ResourceBlock) -> Diagnostic:
    """The error for a count or for_each that stays unknown."""
    expression = block.count if argument == "count" else block.for_each
    return error(
        UNKNOWN_REPETITION[argument],
        f'The "{argument}" value is known only after apply, so the plan cannot tell how many '
        "instances there will be or where they land. Use values that are known in the plan: literals, "
        "variables, or attributes that nexusform computes.",
        expression.span if expression is not None else None,
        block=header_of(block),
    )


def address_key(address: ConfigAddress, path: ModulePath) -> ResourceKey:
    """Where a block's instances in one module instance are kept."""
    return (path, address.mode, address.type, address.name)
