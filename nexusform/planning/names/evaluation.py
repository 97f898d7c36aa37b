"""What names mean while a plan is made: variables, locals, modules, and resources as far as they
are planned. Values are worked out when first asked for and remembered; a second pass over the
same configuration is a `fork`.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from copy import copy
from typing import Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.address import ROOT, Address, ConfigAddress, Key, Mode, ModulePath, ModuleStep
from nexusform.configuration.body_evaluation import PreparedBody
from nexusform.configuration.configuration import Configuration, Module, ModuleCall, ResourceBlock, Variable
from nexusform.configuration.limits import DEFAULT, beyond
from nexusform.diagnostics import Diagnostic, error, has_errors
from nexusform.language.conversion import convert
from nexusform.language.evaluator import Scope, evaluate
from nexusform.language.syntax import Expression, Traversal, TraverseAttribute, TraverseIndex
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
from nexusform.planning.plan import Basis
from nexusform.ports import DataAnswer, Files
from nexusform.schema import BlockSchema
from nexusform.source import Span
from nexusform.value_types import DYNAMIC
from nexusform.values import Value, boolean, null, number, object_value, string, tuple_value, unknown

SENSITIVE = frozenset({"sensitive"})
# What is wrong with the argument that repeats a block.
# Ids of their own: what follows from data that could not be read is left out by them.
UNKNOWN_REPETITION = {"count": "unknown-count-argument", "for_each": "unknown-for-each-argument"}


class ModuleInstance(Struct, frozen=True):
    """One instance of a module: the root, or a call's with its key."""

    path: ModulePath
    module: Module
    call: ModuleCall | None = None
    parent: ModuleInstance | None = None
    repetition: Repetition = ONCE


ResourceKey = tuple[ModulePath, str, str, str]


class Reads(Struct):
    """What was read while values were worked out; see plan.Basis."""

    files: dict[str, str] = field(default_factory=dict)
    data_files: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)

    def basis(self, commit: str) -> Basis:
        """All of it, as a plan keeps it."""
        parts = (self.files, self.data_files, self.states)
        return Basis(commit, *(dict(sorted(part.items())) for part in parts))


class Setting(Struct, frozen=True):
    """What all passes of one plan share.

    `tentative`: values that are not given yet are unknown, so that a repetition which is not known
    is no error. `reads` fills as they go on. `files` are those that arguments of resources name.
    """

    configuration: Configuration
    variables: Mapping[str, Value]
    functions: Callable[[], Mapping[str, Any]]
    prepared: Callable[[ResourceBlock], PreparedBody | None]
    schemas: Mapping[Mode, Mapping[str, BlockSchema]]
    read_data: Callable[[ResourceBlock, Mapping[str, Any], str], tuple[DataAnswer | None, list[Diagnostic]]]
    working_directory: str
    workspace: str
    applying: bool = False
    tentative: bool = False
    reads: Reads = field(default_factory=Reads)
    most_instances: int = DEFAULT.instances
    files: Files | None = None


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

    def fork(self) -> Evaluation:
        """A pass that starts from what is known now and keeps what it works out, and its diagnostics, to
        itself.
        """
        return Evaluation(self.setting, ChainMap({}, self._memo), ChainMap({}, self.resources))

    def reporting(self, diagnostics: Iterable[Diagnostic] = ()) -> Evaluation:
        """An evaluation of the same names, with diagnostics of its own that begin with these."""
        evaluation = copy(self)
        evaluation.diagnostics = list(diagnostics)
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
        for repetition in self._module_expansion(parent, call).repetitions:
            step = ModuleStep(call.name, repetition.key)
            instance = ModuleInstance((*parent.path, step), call.module, call, parent, repetition)
            self._by_path[instance.path] = instance
            yield instance

    def knows_modules(self, path: tuple[str, ...]) -> bool:
        """Whether it is known by now how often the modules on a static path are called."""
        for depth, name in enumerate(path):
            for parent in self.module_instances(path[:depth]):
                if self._module_expansion(parent, parent.module.calls[name]).unknown:
                    return False
        return True

    def _module_expansion(self, parent: ModuleInstance, call: ModuleCall) -> Expansion:
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
        """The value of a local or an output, worked out once; diagnostics on the way name its block."""
        key = (instance.path, kind, name)
        if key not in self._memo:
            # What refers to itself finds this; the reference has been complained about.
            self._memo[key] = unknown(DYNAMIC)
            before = len(self.diagnostics)
            value = self.evaluated(expression(), self.scope(instance))
            header = "locals" if kind == "local" else f'output "{name}"'
            self.diagnostics[before:] = [
                diagnostic if diagnostic.block else replace(diagnostic, block=header)
                for diagnostic in self.diagnostics[before:]
            ]
            if value is not None:
                self._memo[key] = value
        return self._memo[key]

    # --- modules and resources as values ---

    def called_module(self, parent: ModuleInstance, name: str, key: Key) -> ModuleInstance | None:
        """The instance of a call with this key."""
        self.module_instances((*(step.name for step in parent.path), name))
        return self._by_path.get((*parent.path, ModuleStep(name, key)))

    def module_value(self, parent: ModuleInstance, call: ModuleCall) -> Value:
        """All outputs of all instances of a call."""
        expansion = self._module_expansion(parent, call)
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

    def module_shape(self, parent: ModuleInstance, call: ModuleCall) -> Expansion:
        """How a call is repeated."""
        return self._module_expansion(parent, call)

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


# The value that the first steps of a traversal name, how many steps these are, and what is wrong with it.
Lookup: TypeAlias = tuple[Value, int, list[Diagnostic]]


class InstanceScope(Struct, frozen=True):
    """The names visible in one block instance (a Scope of the evaluator)."""

    evaluation: Evaluation
    instance: ModuleInstance
    repetition: Repetition
    this: ObjectView | None

    @property
    def functions(self) -> Mapping[str, Any]:
        """Every function."""
        return self.evaluation.setting.functions()

    def lookup(self, traversal: Traversal) -> Lookup:
        """The value that the first steps of a traversal name, and how many were used."""
        name = traversal.root.name
        reader = _READERS.get(name)
        if reader is not None:
            return reader(self, traversal)
        return self._resource("managed", name, traversal, 0)

    def _resource(self, mode: Mode, kind: str, traversal: Traversal, used: int) -> Lookup:
        """A resource as far as a reference leads into it, and how many of the steps are used up."""
        steps = traversal.steps
        named = steps[used] if used < len(steps) else None
        if not isinstance(named, TraverseAttribute):
            return _leads_nowhere(traversal)
        used += 1
        block = self.instance.module.resources.get((mode, kind, named.name))
        if block is None:
            return _leads_nowhere(traversal)
        view = self.evaluation.resource(self.instance, block)
        if not view.shape:
            return _leads_nowhere(traversal)
        key: Key = None
        if view.shape != SINGLE:
            if used >= len(steps):
                return view.value(), used, []
            key = _literal_key(steps[used], view.shape)
            if key is None or key not in view.items:
                return view.value(), used, []
            used += 1
        item = view.items.get(key)
        if item is None:
            return _leads_nowhere(traversal)
        if used < len(steps) and isinstance(steps[used], TraverseAttribute):
            part = item.attribute(steps[used].name)  # type: ignore[union-attr]
            if part is not None:
                return part, used + 1, []
        return item.value(), used, []

    def _variable(self, traversal: Traversal) -> Lookup:
        declared = self.instance.module.variables.get(_first(traversal))
        if declared is None:
            return _leads_nowhere(traversal)
        return self.evaluation.variable(self.instance, declared), 1, []

    def _local(self, traversal: Traversal) -> Lookup:
        name = _first(traversal)
        if name not in self.instance.module.locals:
            return _leads_nowhere(traversal)
        return self.evaluation.local(self.instance, name), 1, []

    def _data(self, traversal: Traversal) -> Lookup:
        return self._resource("data", _first(traversal), traversal, 1)

    def _module(self, traversal: Traversal) -> Lookup:
        """A module, or one of its outputs, as far as a reference leads, and how many of the steps are used
        up.
        """
        call = self.instance.module.calls.get(_first(traversal))
        if call is None:
            return _leads_nowhere(traversal)
        shape = self.evaluation.module_shape(self.instance, call).shape
        used, key = 1, None
        if shape != SINGLE and len(traversal.steps) > 1:
            key = _literal_key(traversal.steps[1], shape)
            used = 2
        output = traversal.steps[used] if used < len(traversal.steps) else None
        if isinstance(output, TraverseAttribute) and (shape == SINGLE or key is not None):
            called = self.evaluation.called_module(self.instance, call.name, key)
            if called is not None and output.name in called.module.outputs:
                return self.evaluation.output(called, output.name), used + 1, []
        return self.evaluation.module_value(self.instance, call), 1, []

    def _path(self, traversal: Traversal) -> Lookup:
        setting = self.evaluation.setting
        texts = {
            "module": self.instance.module.directory,
            "root": setting.configuration.root.directory,
            "cwd": setting.working_directory,
        }
        return _named(texts.get(_first(traversal)), traversal)

    def _product(self, traversal: Traversal) -> Lookup:
        setting = self.evaluation.setting
        if _first(traversal) == "applying":
            return boolean(setting.applying), 1, []
        return _named(setting.workspace if _first(traversal) == "workspace" else None, traversal)

    def _count(self, traversal: Traversal) -> Lookup:
        key = self.repetition.key
        return (number(key), 1, []) if isinstance(key, int) else _leads_nowhere(traversal)

    def _each(self, traversal: Traversal) -> Lookup:
        name, each = _first(traversal), self.repetition
        if name == "key" and isinstance(each.key, str):
            return string(each.key), 1, []
        if name == "value" and each.value is not None:
            return each.value, 1, []
        return _leads_nowhere(traversal)

    def _self(self, traversal: Traversal) -> Lookup:
        if self.this is None:
            return _leads_nowhere(traversal)
        part = self.this.attribute(_first(traversal)) if traversal.steps else None
        return (part, 1, []) if part is not None else (self.this.value(), 0, [])


_READERS: dict[str, Callable[[InstanceScope, Traversal], Lookup]] = {
    "var": InstanceScope._variable,  # noqa: SLF001 - the table of this class
    "local": InstanceScope._local,  # noqa: SLF001 - as above
    "data": InstanceScope._data,  # noqa: SLF001 - as above
    "module": InstanceScope._module,  # noqa: SLF001 - as above
    "path": InstanceScope._path,  # noqa: SLF001 - as above
    "nexusform": InstanceScope._product,  # noqa: SLF001 - as above
    "count": InstanceScope._count,  # noqa: SLF001 - as above
    "each": InstanceScope._each,  # noqa: SLF001 - as above
    "self": InstanceScope._self,  # noqa: SLF001 - as above
}


def _leads_nowhere(traversal: Traversal) -> Lookup:
    """What a reference in error comes to: all of it is unknown. It has been complained about elsewhere."""
    return unknown(DYNAMIC), len(traversal.steps), []


def _first(traversal: Traversal) -> str:
    """The name in the first step after the root, "" where none stands there."""
    step = traversal.steps[0] if traversal.steps else None
    return step.name if isinstance(step, TraverseAttribute) else ""


def _named(text: str | None, traversal: Traversal) -> Lookup:
    return (string(text), 1, []) if text is not None else _leads_nowhere(traversal)


def _literal_key(step: Any, shape: str) -> Key:
    if not isinstance(step, TraverseIndex):
        return None
    if shape == LIST:
        return int(step.key) if not isinstance(step.key, str) and step.key == int(step.key) else None
    return step.key if isinstance(step.key, str) else None


def address_key(address: ConfigAddress, path: ModulePath) -> ResourceKey:
    """Where a block's instances in one module instance are kept."""
    return (path, address.mode, address.type, address.name)
