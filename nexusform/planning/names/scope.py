"""The names visible in one instance of a block, and what a reference there leads to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from msgspec import Struct, field

from nexusform.address import Key, Mode, ModulePath
from nexusform.configuration.body_evaluation import PreparedBody
from nexusform.configuration.declared.configuration import (
    Configuration,
    Module,
    ModuleCall,
    ResourceBlock,
    Variable,
)
from nexusform.configuration.declared.limits import DEFAULT
from nexusform.diagnostics import Diagnostic
from nexusform.language.evaluator import Scope
from nexusform.language.syntax.nodes import Expression, Traversal, TraverseAttribute, TraverseIndex
from nexusform.planning.names.repetition import (
    LIST,
    ONCE,
    SINGLE,
    Expansion,
    ObjectView,
    Repetition,
    ResourceView,
)
from nexusform.plans.plan import Basis
from nexusform.ports import DataAnswer, Files
from nexusform.schema import BlockSchema
from nexusform.value_types import DYNAMIC
from nexusform.values import Value, boolean, number, string, unknown


class ModuleInstance(Struct, frozen=True):
    """One instance of a module: the root, or a call's with its key."""

    path: ModulePath
    module: Module
    call: ModuleCall | None = None
    parent: ModuleInstance | None = None
    repetition: Repetition = ONCE


class Reads(Struct):
    """What was read while values were worked out; see plan.Basis."""

    files: dict[str, str] = field(default_factory=dict)
    data_files: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)

    def basis(self, commit: str) -> Basis:
        """All of it, as a plan keeps it."""
        files, data_files = dict(sorted(self.files.items())), dict(sorted(self.data_files.items()))
        states, answers = dict(sorted(self.states.items())), dict(sorted(self.answers.items()))
        return Basis(commit, files, data_files, states, answers)


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


class Names(Protocol):
    """What a scope asks of whoever works values out: what names stand for in one instance of a module."""

    @property
    def setting(self) -> Setting:
        """What all passes of the plan share."""

    def evaluated(self, expression: Expression, scope: Scope) -> Value | None:
        """A value, or None when the expression is in error (reported)."""

    def variable(self, instance: ModuleInstance, declared: Variable) -> Value:
        """An input variable's value."""

    def local(self, instance: ModuleInstance, name: str) -> Value:
        """A local value."""

    def output(self, instance: ModuleInstance, name: str) -> Value:
        """An output of a module instance."""

    def resource(self, instance: ModuleInstance, block: ResourceBlock) -> ResourceView:
        """The instances of a block."""

    def module_expansion(self, parent: ModuleInstance, call: ModuleCall) -> Expansion:
        """The instances of a call."""

    def called_module(self, parent: ModuleInstance, name: str, key: Key) -> ModuleInstance | None:
        """The instance of a call with this key."""

    def module_value(self, parent: ModuleInstance, call: ModuleCall) -> Value:
        """All outputs of all instances of a call."""


# The value that the first steps of a traversal name, how many steps these are, and what is wrong with it.
Lookup: TypeAlias = tuple[Value, int, list[Diagnostic]]


class InstanceScope(Struct, frozen=True):
    """The names visible in one block instance (a Scope of the evaluator)."""

    names: Names
    instance: ModuleInstance
    repetition: Repetition
    this: ObjectView | None

    @property
    def functions(self) -> Mapping[str, Any]:
        """Every function."""
        return self.names.setting.functions()

    def lookup(self, traversal: Traversal) -> Lookup:
        """The value that the first steps of a traversal name, and how many were used."""
        name = traversal.root.name
        reader = _READERS.get(name)
        if reader is not None:
            return reader(self, traversal)
        return _resource(self, "managed", name, traversal, 0)


def _resource(scope: InstanceScope, mode: Mode, kind: str, traversal: Traversal, used: int) -> Lookup:
    """A resource as far as a reference leads into it, and how many of the steps are used up."""
    steps = traversal.steps
    named = steps[used] if used < len(steps) else None
    if not isinstance(named, TraverseAttribute):
        return _leads_nowhere(traversal)
    used += 1
    block = scope.instance.module.resources.get((mode, kind, named.name))
    if block is None:
        return _leads_nowhere(traversal)
    view = scope.names.resource(scope.instance, block)
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
        attribute = item.attribute(steps[used].name)  # type: ignore[union-attr]
        if attribute is not None:
            return attribute, used + 1, []
    return item.value(), used, []


def _variable(scope: InstanceScope, traversal: Traversal) -> Lookup:
    declared = scope.instance.module.variables.get(_first(traversal))
    if declared is None:
        return _leads_nowhere(traversal)
    return scope.names.variable(scope.instance, declared), 1, []


def _local(scope: InstanceScope, traversal: Traversal) -> Lookup:
    name = _first(traversal)
    if name not in scope.instance.module.locals:
        return _leads_nowhere(traversal)
    return scope.names.local(scope.instance, name), 1, []


def _data(scope: InstanceScope, traversal: Traversal) -> Lookup:
    return _resource(scope, "data", _first(traversal), traversal, 1)


def _module(scope: InstanceScope, traversal: Traversal) -> Lookup:
    """A module, or one of its outputs, as far as a reference leads, and how many of the steps are used
    up.
    """
    call = scope.instance.module.calls.get(_first(traversal))
    if call is None:
        return _leads_nowhere(traversal)
    shape = scope.names.module_expansion(scope.instance, call).shape
    used, key = 1, None
    if shape != SINGLE and len(traversal.steps) > 1:
        key = _literal_key(traversal.steps[1], shape)
        used = 2
    output = traversal.steps[used] if used < len(traversal.steps) else None
    if isinstance(output, TraverseAttribute) and (shape == SINGLE or key is not None):
        called = scope.names.called_module(scope.instance, call.name, key)
        if called is not None and output.name in called.module.outputs:
            return scope.names.output(called, output.name), used + 1, []
    return scope.names.module_value(scope.instance, call), 1, []


def _path(scope: InstanceScope, traversal: Traversal) -> Lookup:
    setting = scope.names.setting
    texts = {
        "module": scope.instance.module.directory,
        "root": setting.configuration.root.directory,
        "cwd": setting.working_directory,
    }
    return _named(texts.get(_first(traversal)), traversal)


def _product(scope: InstanceScope, traversal: Traversal) -> Lookup:
    setting = scope.names.setting
    if _first(traversal) == "applying":
        return boolean(setting.applying), 1, []
    return _named(setting.workspace if _first(traversal) == "workspace" else None, traversal)


def _count(scope: InstanceScope, traversal: Traversal) -> Lookup:
    key = scope.repetition.key
    return (number(key), 1, []) if isinstance(key, int) else _leads_nowhere(traversal)


def _each(scope: InstanceScope, traversal: Traversal) -> Lookup:
    name, each = _first(traversal), scope.repetition
    if name == "key" and isinstance(each.key, str):
        return string(each.key), 1, []
    if name == "value" and each.value is not None:
        return each.value, 1, []
    return _leads_nowhere(traversal)


def _self(scope: InstanceScope, traversal: Traversal) -> Lookup:
    """The object that a condition of its block is about, or one of its attributes."""
    if scope.this is None:
        return _leads_nowhere(traversal)
    attribute = scope.this.attribute(_first(traversal)) if traversal.steps else None
    return (attribute, 1, []) if attribute is not None else (scope.this.value(), 0, [])


_READERS: dict[str, Callable[[InstanceScope, Traversal], Lookup]] = {
    "var": _variable,
    "local": _local,
    "data": _data,
    "module": _module,
    "path": _path,
    "nexusform": _product,
    "count": _count,
    "each": _each,
    "self": _self,
}


def _leads_nowhere(traversal: Traversal) -> Lookup:
    """What a reference in error comes to: all of it is unknown. It has been complained about elsewhere."""
    return unknown(DYNAMIC), len(traversal.steps), []


def _first(traversal: Traversal) -> str:
    """The name in the first step after the root, "" where none stands there."""
    step = traversal.steps[0] if traversal.steps else None
    return step.name if isinstance(step, TraverseAttribute) else ""


def _named(text: str | None, traversal: Traversal) -> Lookup:
    """A text under the first step; None: there is no such name."""
    return (string(text), 1, []) if text is not None else _leads_nowhere(traversal)


def _literal_key(step: Any, shape: str) -> Key:
    """The key that a step writes out, as instances of a block of this shape have them; None: no such key."""
    if not isinstance(step, TraverseIndex):
        return None
    if shape == LIST:
        return int(step.key) if not isinstance(step.key, str) and step.key == int(step.key) else None
    return step.key if isinstance(step.key, str) else None
