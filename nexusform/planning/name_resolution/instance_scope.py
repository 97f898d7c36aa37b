"""Names visible in one instance of a block, and resolution of references there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, field

from nexusform.configuration.body_preparation import PreparedBody
from nexusform.configuration.declarations.configuration import (
    Configuration,
    Module,
    ModuleCall,
    ResourceBlock,
    Variable,
)
from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.doubts.doubt import Doubt
from nexusform.interfaces.plugins import DataResult, Files
from nexusform.language.evaluator import Scope
from nexusform.language.syntax.syntax_nodes import (
    Expression,
    Traversal,
    TraverseAttribute,
    TraverseIndex,
)
from nexusform.planning.name_resolution.repetition import (
    LIST,
    SINGLE,
    SINGLE_INSTANCE,
    BlockExpansion,
    InstanceView,
    RepetitionData,
    ResourceView,
)
from nexusform.plans.plan import PlanInputs
from nexusform.resources.address import Key, Mode, ModulePath
from nexusform.schemas.block_schema import BlockSchema
from nexusform.schemas.value_types import DYNAMIC
from nexusform.values.typed_value import (
    Value,
    build_boolean,
    build_number,
    build_string,
    build_unknown,
)


class ModuleInstance(Struct, frozen=True):
    """One instance of a module: the root, or a call's with its key."""

    path: ModulePath
    module: Module
    call: ModuleCall | None = None
    parent: ModuleInstance | None = None
    repetition: RepetitionData = SINGLE_INSTANCE


class EvaluationReads(Struct):
    """Files, states and answers read during evaluation; a plan keeps them in its `PlanInputs`.

    `unread` are facts of documents of data sources that are not read.
    """

    files: dict[str, str] = field(default_factory=dict)
    data_files: dict[str, str] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    searches: dict[str, str] = field(default_factory=dict)
    unread: list[Doubt] = field(default_factory=list)

    def build_inputs(self, commit: str) -> PlanInputs:
        """Return the recorded reads for the plan, sorted, with the commit of the configuration."""
        files = dict(sorted(self.files.items()))
        data_files = dict(sorted(self.data_files.items()))
        states = dict(sorted(self.states.items()))
        answers = dict(sorted(self.answers.items()))
        searches = dict(sorted(self.searches.items()))
        return PlanInputs(commit, files, data_files, states, answers, searches=searches)


class EvaluationSettings(Struct, frozen=True):
    """Settings shared by all passes of one plan.

    With `is_tentative`, unset values are unknown, so that an unknown repetition is no error. With
    `validates_variables`, rejected values are unknown. `reads` records reads as they happen.
    `files` are those named by arguments of resources.
    """

    configuration: Configuration
    variables: Mapping[str, Value]
    functions: Callable[[], Mapping[str, Any]]
    get_body: Callable[[ResourceBlock], PreparedBody | None]
    schemas: Mapping[Mode, Mapping[str, BlockSchema]]
    read_data: Callable[
        [ResourceBlock, Mapping[str, Any], str], tuple[DataResult | None, list[Diagnostic]]
    ]
    working_directory: str
    workspace: str
    reads: EvaluationReads
    maximum_instances: int
    files: Files
    is_applying: bool = False
    is_tentative: bool = False
    validates_variables: bool = True


class NameResolver(Protocol):
    """Resolver of names in one instance of a module, as required by a scope."""

    @property
    def settings(self) -> EvaluationSettings:
        """Settings shared by all passes of the plan."""

    @property
    def root(self) -> ModuleInstance:
        """The root module."""

    @property
    def rejected_values(self) -> Mapping[tuple[ModulePath, str], Value]:
        """Values rejected by the validation of their variables, by module and name."""

    def evaluate_expression(self, expression: Expression, scope: Scope) -> Value | None:
        """Return a value, or None if the expression has errors (reported)."""

    def get_variable(self, instance: ModuleInstance, declared: Variable) -> Value:
        """Return an input variable's value."""

    def get_local(self, instance: ModuleInstance, name: str) -> Value:
        """Return a local value."""

    def get_output(self, instance: ModuleInstance, name: str) -> Value:
        """Return an output of a module instance."""

    def get_resource(self, instance: ModuleInstance, block: ResourceBlock) -> ResourceView:
        """Return the instances of a resource or data block, as seen by expressions.

        They are those of a module instance.
        """

    def get_module_expansion(self, parent: ModuleInstance, call: ModuleCall) -> BlockExpansion:
        """Return the instances of a module call: the expansion of its count or for_each."""

    def find_module_instance(
        self, parent: ModuleInstance, name: str, key: Key
    ) -> ModuleInstance | None:
        """Return the module instance with this key of the call with this name in `parent`.

        Return None if there is none.
        """

    def build_module_value(self, parent: ModuleInstance, call: ModuleCall) -> Value:
        """Return the outputs of all instances of a module call as one value."""


class Lookup(NamedTuple):
    """Value named by the first steps of a traversal, their number, and its problems."""

    value: Value
    used_steps: int
    diagnostics: Sequence[Diagnostic] = ()


class InstanceScope(Struct, frozen=True):
    """Names visible in one block instance (a Scope of the evaluator)."""

    names: NameResolver
    instance: ModuleInstance
    repetition: RepetitionData
    this: InstanceView | None

    @property
    def functions(self) -> Mapping[str, Any]:
        """All functions by name."""
        return self.names.settings.functions()

    def lookup(self, traversal: Traversal) -> Lookup:
        """Return the value named by the first steps of a traversal.

        The result also has the number of these steps, and the problems.
        """
        name = traversal.root.name
        reader = _READERS.get(name)
        if reader is not None:
            return reader(self, traversal)
        return _resolve_resource(self, "managed", name, traversal, used=0)


def _resolve_resource(
    scope: InstanceScope, mode: Mode, kind: str, traversal: Traversal, used: int
) -> Lookup:
    """Return the value of a reference to a resource, an instance or one attribute.

    The result never has problems. `used` is the number of steps before the name of the block: none
    in `nexus_rack.r1[0].id`, and one in `data.nexus_site.s.id`. The result has the number of steps
    used for the value. The evaluator resolves the others.
    """
    steps = traversal.steps
    name_step = steps[used] if used < len(steps) else None
    if not isinstance(name_step, TraverseAttribute):
        return _build_unknown_lookup(traversal)
    used += 1
    block = scope.instance.module.resources.get((mode, kind, name_step.name))
    if block is None:
        return _build_unknown_lookup(traversal)
    view = scope.names.get_resource(scope.instance, block)
    # Its count or for_each is unknown or invalid.
    if not view.shape:
        return _build_unknown_lookup(traversal)
    # Key of a single instance.
    key: Key = None
    if view.shape != SINGLE:
        key_step = steps[used] if used < len(steps) else None
        key = _parse_literal_key(key_step, view.shape)
        # The evaluator indexes the whole value, or reports a missing key.
        if key is None or key not in view.items:
            return Lookup(view.get_value(), used)
        used += 1
    item = view.items.get(key)
    if item is None:
        return _build_unknown_lookup(traversal)
    attribute_step = steps[used] if used < len(steps) else None
    if isinstance(attribute_step, TraverseAttribute):
        attribute = item.get_attribute(attribute_step.name)
        if attribute is not None:
            return Lookup(attribute, used + 1)
    return Lookup(item.get_value(), used)


def _resolve_variable_reference(scope: InstanceScope, traversal: Traversal) -> Lookup:
    """Resolve var.NAME to the value of the variable, with one used step after `var`."""
    declared = scope.instance.module.variables.get(traversal.first_name)
    if declared is None:
        return _build_unknown_lookup(traversal)
    return Lookup(scope.names.get_variable(scope.instance, declared), 1)


def _resolve_local_reference(scope: InstanceScope, traversal: Traversal) -> Lookup:
    """Resolve local.NAME to the value of the local, with one used step after `local`."""
    name = traversal.first_name
    if name not in scope.instance.module.locals:
        return _build_unknown_lookup(traversal)
    return Lookup(scope.names.get_local(scope.instance, name), 1)


def _resolve_module_reference(scope: InstanceScope, traversal: Traversal) -> Lookup:
    """Resolve a reference to a module or one of its outputs, with the number of used steps.

    `module.edge["a"].id` uses three steps: the name of the call, the key and the output. Without a
    known key or output, the value is that of the whole call, and one step is used.
    """
    call = scope.instance.module.calls.get(traversal.first_name)
    if call is None:
        return _build_unknown_lookup(traversal)
    shape = scope.names.get_module_expansion(scope.instance, call).shape
    steps = traversal.steps
    # One step is used: the name of the call.
    used = 1
    key = None
    if shape != SINGLE:
        # None: a computed key, or none.
        key = _parse_literal_key(steps[1] if len(steps) > 1 else None, shape)
        used = 2
    output = steps[used] if used < len(steps) else None
    if isinstance(output, TraverseAttribute) and (shape == SINGLE or key is not None):
        module_instance = scope.names.find_module_instance(scope.instance, call.name, key)
        if module_instance is not None and output.name in module_instance.module.outputs:
            return Lookup(scope.names.get_output(module_instance, output.name), used + 1)
    return Lookup(scope.names.build_module_value(scope.instance, call), 1)


def _resolve_path_reference(scope: InstanceScope, traversal: Traversal) -> Lookup:
    """Resolve path.module, path.root or path.cwd: a directory."""
    settings = scope.names.settings
    texts = {
        "module": scope.instance.module.directory,
        "root": settings.configuration.root.directory,
        "cwd": settings.working_directory,
    }
    return _build_text_result(texts.get(traversal.first_name), traversal)


def _resolve_nexusform_name(scope: InstanceScope, traversal: Traversal) -> Lookup:
    """Resolve nexusform.applying (a bool) or nexusform.workspace (a text).

    One step is used after `nexusform`.
    """
    settings = scope.names.settings
    if traversal.first_name == "applying":
        return Lookup(build_boolean(settings.is_applying), 1)
    return _build_text_result(
        {"workspace": settings.workspace}.get(traversal.first_name), traversal
    )


def _resolve_count_index_reference(scope: InstanceScope, traversal: Traversal) -> Lookup:
    """Resolve count.index to a number, with one used step after `count`."""
    key = scope.repetition.key
    # The reference is outside of a block with `count`.
    if not isinstance(key, int):
        return _build_unknown_lookup(traversal)
    return Lookup(build_number(key), 1)


def _resolve_each_reference(scope: InstanceScope, traversal: Traversal) -> Lookup:
    """Resolve each.key or each.value (one step after `each`).

    The value is unknown outside of a block with for_each.
    """
    name = traversal.first_name
    repetition = scope.repetition
    if name == "key" and repetition.key_value is not None:
        return Lookup(repetition.key_value, 1)
    if name == "key" and isinstance(repetition.key, str):
        return Lookup(build_string(repetition.key), 1)
    if name == "value" and repetition.value is not None:
        return Lookup(repetition.value, 1)
    return _build_unknown_lookup(traversal)


def _resolve_self_reference(scope: InstanceScope, traversal: Traversal) -> Lookup:
    """Resolve an attribute of `self`, the subject of a condition (one step used), or all of it.

    No step used.
    """
    if scope.this is None:
        return _build_unknown_lookup(traversal)
    attribute = scope.this.get_attribute(traversal.first_name)
    if attribute is None:
        return Lookup(scope.this.get_value(), 0)
    return Lookup(attribute, 1)


_READERS: dict[str, Callable[[InstanceScope, Traversal], Lookup]] = {
    "var": _resolve_variable_reference,
    "local": _resolve_local_reference,
    "data": lambda scope, traversal: _resolve_resource(
        scope, "data", traversal.first_name, traversal, used=1
    ),
    "resource": lambda scope, traversal: _resolve_resource(
        scope, "managed", traversal.first_name, traversal, used=1
    ),
    "module": _resolve_module_reference,
    "path": _resolve_path_reference,
    "nexusform": _resolve_nexusform_name,
    "count": _resolve_count_index_reference,
    "each": _resolve_each_reference,
    "self": _resolve_self_reference,
}


def _build_unknown_lookup(traversal: Traversal) -> Lookup:
    """Return an unknown value for the whole of an invalid reference.

    It is reported elsewhere.
    """
    return Lookup(build_unknown(DYNAMIC), used_steps=len(traversal.steps))


def _build_text_result(text: str | None, traversal: Traversal) -> Lookup:
    """Return a text as the value of the first step; unknown for None, if there is no such name."""
    if text is None:
        return _build_unknown_lookup(traversal)
    return Lookup(build_string(text), 1)


def _parse_literal_key(step: Any, shape: str) -> Key:
    """Return the instance key in a step `[key]`, a number for a LIST block, else a text.

    Return None for other steps.
    """
    # `.name`, not `[key]`.
    if not isinstance(step, TraverseIndex):
        return None
    key = step.key
    if shape == LIST:
        is_whole_number = not isinstance(key, str) and key == int(key)
        return int(key) if is_whole_number else None
    return key if isinstance(key, str) else None
