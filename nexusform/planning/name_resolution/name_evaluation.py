"""Values of names during planning: variables, locals, modules, and planned resources.

Values are computed on first use and cached; a second pass over the same configuration is a fork.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, MutableMapping
from copy import copy
from typing import Final, NamedTuple

from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import (
    Condition,
    ModuleCall,
    Output,
    ResourceBlock,
    Variable,
)
from nexusform.configuration.declarations.limits import build_limit_error
from nexusform.diagnostics.diagnostic import Diagnostic, build_error, has_errors
from nexusform.interfaces.plugins import DataResult
from nexusform.json_data.plain_data import ConversionProblem, Path
from nexusform.language.evaluator import Scope, evaluate_expression
from nexusform.language.syntax.syntax_nodes import Expression
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.planning.name_resolution.instance_scope import (
    EvaluationSettings,
    InstanceScope,
    ModuleInstance,
)
from nexusform.planning.name_resolution.repetition import (
    DISABLED,
    LIST,
    MAP,
    SINGLE,
    SINGLE_INSTANCE,
    BlockExpansion,
    InstanceView,
    RepetitionData,
    ResourceView,
    expand_repetition,
)
from nexusform.resources.address import (
    ROOT_MODULE,
    Address,
    ConfigAddress,
    Key,
    ModulePath,
    ModulePathStep,
    format_module,
)
from nexusform.schemas.block_schema import BlockSchema
from nexusform.schemas.value_types import DYNAMIC, SetType
from nexusform.values.typed_value import (
    DYNAMIC_UNKNOWN,
    NULL,
    Value,
    build_null,
    build_object,
    build_string,
    build_tuple,
    build_unknown,
)

# Problem ids of the repetition argument. They are separate ids so that consequences of unread data
# can be filtered by them.
UNKNOWN_REPETITION = {
    "count": "unknown-count-argument",
    "for_each": "unknown-for-each-argument",
    "enabled": "unknown-enabled-argument",
}

ResourceKey = tuple[ModulePath, str, str, str]

# Maximum depth of nested locals and outputs before the deepest one is evaluated separately: calls
# nest no deeper for any length of chain.
MAXIMUM_DEPTH: Final = 25


class _LocalOrOutput(NamedTuple):
    # A local or an output of a module instance; `kind` is "local" or "output".
    instance: ModuleInstance
    kind: str
    name: str

    @property
    def key(self) -> tuple[ModulePath, str, str]:
        return (self.instance.path, self.kind, self.name)


class _MaximumDepthExceeded(Exception):
    """Nested calls too deep: this value must be evaluated first."""

    def __init__(self, named: _LocalOrOutput) -> None:
        super().__init__(named.name)
        self.named = named


class Evaluation:
    """Values of variables, locals, outputs and resources in one pass of planning.

    Each value is computed at its first use. `diagnostics` collects the problems of evaluation.
    """

    def __init__(self, settings: EvaluationSettings) -> None:
        """Start from the root module with an empty cache; a value is computed at its first use."""
        self.settings = settings
        self.root = ModuleInstance(ROOT_MODULE, settings.configuration.root)
        self.diagnostics: list[Diagnostic] = []
        self.resources: MutableMapping[ResourceKey, ResourceView] = {}
        # By module, kind ("local"), name.
        self._cache: MutableMapping[tuple[ModulePath, str, str], Value] = {}
        # Values rejected by a validation, or a precondition of an output, by module and name
        # (`output.NAME`). All other expressions read them as unknown.
        self.rejected_values: dict[tuple[ModulePath, str], Value] = {}
        # By path without keys.
        self._modules: dict[tuple[str, ...], list[ModuleInstance]] = {(): [self.root]}
        # By parent and name of the call.
        self._module_shapes: dict[tuple[ModulePath, str], BlockExpansion] = {}
        self._by_path: dict[ModulePath, ModuleInstance] = {ROOT_MODULE: self.root}
        # Of nested evaluations of locals and outputs.
        self._depth = 0

    def create_tentative_copy(self) -> Evaluation:
        """Return an evaluation that starts with the known values.

        New values and diagnostics are kept to itself.

        Values added to this one later are known to the copy, too, unless it has values of its own.
        """
        fork = Evaluation(self.settings)
        fork.resources = ChainMap({}, self.resources)
        fork._cache = ChainMap({}, self._cache)
        fork.rejected_values = self.rejected_values
        return fork

    def create_reporting_copy(self, diagnostics: Iterable[Diagnostic] = ()) -> Evaluation:
        """Return an evaluation of the same names, with its own diagnostics and nesting depth.

        The copy starts with `diagnostics`.
        """
        evaluation = copy(self)
        evaluation.diagnostics = list(diagnostics)
        evaluation._depth = 0  # noqa: SLF001 - a copy of the same class
        return evaluation

    def list_module_instances(self, path: tuple[str, ...]) -> list[ModuleInstance]:
        """Return the instances of a module by its static path, in order of their keys.

        The path has names of module calls, without keys.
        """
        if path in self._modules:
            return self._modules[path]
        instances: list[ModuleInstance] = []
        for parent in self.list_module_instances(path[:-1]):
            call = parent.module.calls[path[-1]]
            for repetition in self.get_module_expansion(parent, call).repetitions:
                step = ModulePathStep(call.name, repetition.key)
                instance = ModuleInstance(
                    (*parent.path, step), call.module, call, parent, repetition
                )
                self._by_path[instance.path] = instance
                instances.append(instance)
            if len(instances) > self.settings.maximum_instances:
                raise build_limit_error(
                    "module instances", "instances", self.settings.maximum_instances
                )
        self._modules[path] = instances
        return instances

    def build_removed_module_instance(self, path: ModulePath) -> ModuleInstance | None:
        """Return the instance at a path that count, for_each or `enabled` no longer creates.

        Its arguments are those of the call, with its own each.key or count.index. Return None if
        the configuration has no such call.
        """
        instance = self.root
        for step in path:
            call = instance.module.calls.get(step.name)
            if call is None:
                return None
            repetition = self._build_removed_repetition(call, step.key, self.build_scope(instance))
            instance = ModuleInstance(
                (*instance.path, step), call.module, call, instance, repetition
            )
        return instance

    def _build_removed_repetition(self, call: ModuleCall, key: Key, scope: Scope) -> RepetitionData:
        """Return the names of a removed instance: its key, and each.value if for_each is a set.

        The value of a key that is no longer in a map is unknown.
        """
        value = None
        if call.for_each is not None and isinstance(key, str):
            # Its errors are reported by the expansion of the block.
            collection = self.create_reporting_copy().evaluate_expression(call.for_each, scope)
            if collection is not None and isinstance(collection.type, SetType):
                value = build_string(key)
        return RepetitionData(key, value)

    def has_known_modules(self, path: tuple[str, ...]) -> bool:
        """Return whether count and for_each of all modules on a path are known.

        The path has names of module calls, without keys.
        """
        for depth, name in enumerate(path):
            for parent in self.list_module_instances(path[:depth]):
                if self.get_module_expansion(parent, parent.module.calls[name]).unknown:
                    return False
        return True

    def get_module_expansion(self, parent: ModuleInstance, call: ModuleCall) -> BlockExpansion:
        """Return the expansion of a module call, computed once; without instances on errors."""
        key = (parent.path, call.name)
        expansion = self._module_shapes.get(key)
        if expansion is None:
            expansion, problems = self.expand_block(call, self.build_scope(parent))
            self.diagnostics += problems
            self._check_repetition(expansion, call, parent)
            self._module_shapes[key] = expansion
        return expansion

    def _check_repetition(
        self, expansion: BlockExpansion, block: ResourceBlock | ModuleCall, instance: ModuleInstance
    ) -> None:
        """Report an unknown count or for_each, unless the evaluation is tentative.

        It is repeated with known values.
        """
        if expansion.unknown and not self.settings.is_tentative:
            self.diagnostics.append(
                self.build_unknown_repetition_error(expansion.unknown, block, instance)
            )

    def build_unknown_repetition_error(
        self, argument: str, block: ModuleCall | ResourceBlock, instance: ModuleInstance
    ) -> Diagnostic:
        """Build the error for a count or for_each that stays unknown.

        `instance` is the module instance of the block.
        """
        # Loaded on first use.
        from nexusform.planning.name_resolution.value_origins import describe_unknown_origin

        expression: Expression = getattr(block, argument)
        origin = describe_unknown_origin(self.create_reporting_copy(), expression, instance)
        return build_error(
            UNKNOWN_REPETITION[argument],
            f'The "{argument}" value is known only after apply, so the instances cannot be '
            f"planned. {origin}{' ' if origin else ''}Use values that are known in the plan: "
            "literals, variables, or attributes that nexusform computes.",
            expression.span,
            block=get_header(block),
        )

    def build_scope(
        self,
        instance: ModuleInstance,
        repetition: RepetitionData = SINGLE_INSTANCE,
        this: InstanceView | None = None,
    ) -> InstanceScope:
        """Return the names visible in a block of a module instance.

        `this` is the object named `self`.
        """
        return InstanceScope(self, instance, repetition, this)

    def evaluate_expression(self, expression: Expression, scope: Scope) -> Value | None:
        """Return a value, or None if the expression has errors (reported)."""
        value, problems = evaluate_expression(expression, scope)
        self.diagnostics += problems
        return None if has_errors(problems) else value

    def expand_block(
        self, block: ModuleCall | ResourceBlock, scope: Scope
    ) -> tuple[BlockExpansion, list[Diagnostic]]:
        """Return the expansion of count or for_each of a block; without instances on errors."""
        maximum = self.settings.maximum_instances
        return expand_repetition(
            block.count,
            block.for_each,
            lambda expression: self._evaluate_in_block(expression, scope, get_header(block)),
            get_header(block),
            maximum,
            enabled=block.enabled,
        )

    def _evaluate_in_block(self, expression: Expression, scope: Scope, header: str) -> Value | None:
        """Return a value like `evaluate_expression`; its problems name the block."""
        value, problems = evaluate_expression(expression, scope)
        self.diagnostics += [replace(problem, block=header) for problem in problems]
        return None if has_errors(problems) else value

    def list_repetitions(
        self, instance: ModuleInstance, block: ModuleCall | ResourceBlock
    ) -> tuple[RepetitionData, ...]:
        """Return the instances of a block in a module instance.

        There are none on errors, which are reported elsewhere.
        """
        expansion, _ = self.expand_block(block, self.build_scope(instance))
        return expansion.repetitions

    def get_variable(self, instance: ModuleInstance, declared: Variable) -> Value:
        """Return an input variable's value: set, passed by the call, or its default.

        A rejected value is unknown.
        """
        key = (instance.path, "var", declared.name)
        if key not in self._cache:
            value = self._evaluate_variable_value(instance, declared)
            # Validation rules refer to it.
            self._cache[key] = value.add_marks(declared.marks)
            try:
                is_valid = self.is_every_condition_met(
                    declared.validations, self.build_scope(instance)
                )
            except _MaximumDepthExceeded:
                # It is evaluated again, after the deeper value.
                del self._cache[key]
                raise
            if not is_valid:
                self.rejected_values[instance.path, declared.name] = self._cache[key]
                self._cache[key] = build_unknown(declared.type)
        return self._cache[key]

    def is_every_condition_met(self, conditions: Iterable[Condition], scope: Scope) -> bool:
        """Return whether no condition is false, null or invalid.

        The checks of conditions report the reasons. An unknown condition may still hold. Conditions
        may be text: "true" is true, as in Terraform.
        """
        # The console uses rejected values, too.
        checked = conditions if self.settings.validates_variables else ()
        for condition in checked:
            value = self.create_reporting_copy().evaluate_expression(condition.condition, scope)
            # It is invalid.
            if value is None:
                return False
            is_met = value.raw is True or value.raw == "true"
            # The condition is null or false.
            if value.is_known and not is_met:
                return False
        return True

    def _evaluate_variable_value(self, instance: ModuleInstance, declared: Variable) -> Value:
        """Return the value of a variable.

        In the root module set by the user, in other modules passed by the call. An unset variable
        has its default. An invalid value is reported, and read as unknown.
        """
        default = declared.default if declared.default is not None else build_null(declared.type)
        if instance.parent is None or instance.call is None:
            return self.settings.variables.get(declared.name, default)
        call_input = instance.call.inputs.get(declared.name)
        # The call omits it.
        if call_input is None:
            return default
        expression, span = call_input
        value = self.evaluate_expression(
            expression, self.build_scope(instance.parent, instance.repetition)
        )
        if value is None:
            return build_unknown(declared.type)
        subject = f'variable "{declared.name}" of module "{instance.call.name}"'
        # A null argument means the default.
        if value.is_null and not declared.nullable:
            if declared.default is not None:
                return default
            kind = "required-variable-not-set"
            detail = (
                f"The {subject} may not be null and has no default. Pass a value, or give the "
                "variable a default."
            )
        elif value.has_ephemeral and not declared.ephemeral:
            kind = "ephemeral-value-not-allowed"
            detail = (
                f"The {subject} takes no ephemeral values. Add ephemeral = true to the variable."
            )
        else:
            try:
                return convert_value(value, declared.type)
            except ConversionProblem as problem:
                kind = "invalid-value-for-input-variable"
                reason = describe_problem(problem)
                detail = f"The given value is not suitable for the {subject}: {reason}."
        # Names the instance if there are several.
        has_key = any(step.key is not None for step in instance.path)
        self.diagnostics.append(
            build_error(
                kind,
                detail,
                span,
                block=get_header(instance.call),
                address=format_module(instance.path) if has_key else "",
            )
        )
        return build_unknown(declared.type)

    def set_variable(self, instance: ModuleInstance, name: str, value: Value) -> None:
        """Set a variable's value, ignoring the module call."""
        self._cache[instance.path, "var", name] = value

    def get_local(self, instance: ModuleInstance, name: str) -> Value:
        """Return a local value."""
        return self._get_or_compute(_LocalOrOutput(instance, "local", name))

    def get_output(self, instance: ModuleInstance, name: str) -> Value:
        """Return an output of a module instance, marked if it is declared sensitive."""
        value = self._get_or_compute(_LocalOrOutput(instance, "output", name))
        return value.add_marks(instance.module.outputs[name].marks)

    def _get_or_compute(self, named_value: _LocalOrOutput) -> Value:
        """Return the value of a local or an output, computed once.

        Too long a chain raises _MaximumDepthExceeded.
        """
        if named_value.key in self._cache:
            return self._cache[named_value.key]
        if self._depth >= MAXIMUM_DEPTH:
            raise _MaximumDepthExceeded(named_value)
        # It is nested in the evaluation of another value.
        if self._depth:
            self._compute_and_cache(named_value)
        else:
            self._compute_long_chain(named_value)
        return self._cache[named_value.key]

    def _compute_long_chain(self, named_value: _LocalOrOutput) -> None:
        """Evaluate a local or an output that may be at the end of a long chain of references.

        Beyond the maximum depth, an exception names the deepest value. It is evaluated first, then
        its users again. Example: `local.a` needs `local.b`, and so on to a value too deep,
        `local.z`. Then `local.z` is evaluated alone, and `local.a` again, now with the value of
        `local.z` in the cache.
        """
        # Each needs the one after it.
        pending = {named_value.key: named_value}
        while pending:
            key, deepest_value = next(reversed(pending.items()))
            reported_count = len(self.diagnostics)
            try:
                if key not in self._cache:
                    self._compute_and_cache(deepest_value)
                del pending[key]
            except _MaximumDepthExceeded as exceeded:
                # They are reported on re-evaluation.
                del self.diagnostics[reported_count:]
                if exceeded.named.key in pending:
                    # A cycle, reported elsewhere.
                    self._cache[exceeded.named.key] = build_unknown(DYNAMIC)
                else:
                    pending[exceeded.named.key] = exceeded.named

    def _compute_and_cache(self, named_value: _LocalOrOutput) -> None:
        """Evaluate a local or an output, and put its value into the cache: unknown on errors."""
        # A reference to itself (reported before) reads an unknown value.
        self._cache[named_value.key] = build_unknown(DYNAMIC)
        self._depth += 1
        earlier_count = len(self.diagnostics)
        scope = self.build_scope(named_value.instance)
        module = named_value.instance.module
        output = None
        if named_value.kind == "output":
            output = module.outputs[named_value.name]
            expression = output.expression
            header = f'output "{named_value.name}"'
        else:
            expression = module.locals[named_value.name].expression
            header = "locals"
        # As in Terraform, a failed precondition of a plan hides the problems of the value.
        preconditions = (
            output.preconditions if output is not None and not self.settings.is_applying else ()
        )
        try:
            if not self.is_every_condition_met(preconditions, scope):
                self.rejected_values[named_value.instance.path, f"output.{named_value.name}"] = (
                    DYNAMIC_UNKNOWN
                )
                return
            value = self.evaluate_expression(expression, scope)
        except _MaximumDepthExceeded:
            # It is evaluated again, after the deeper value.
            del self._cache[named_value.key]
            raise
        finally:
            self._depth -= 1
        # The new diagnostics get the block.
        self.diagnostics[earlier_count:] = [
            diagnostic if diagnostic.block else replace(diagnostic, block=header)
            for diagnostic in self.diagnostics[earlier_count:]
        ]
        if value is not None and output is not None:
            value, problems = convert_output(output, value)
            if named_value.instance.parent is not None:
                problems += check_ephemeral_output(output, value)
            self.diagnostics += problems
        if value is not None:
            self._cache[named_value.key] = value

    def find_module_instance(
        self, parent: ModuleInstance, name: str, key: Key
    ) -> ModuleInstance | None:
        """Return the instance of a call with this key."""
        # It indexes them in `_by_path`.
        self.list_module_instances((*(step.name for step in parent.path), name))
        return self._by_path.get((*parent.path, ModulePathStep(name, key)))

    def find_module_path(self, path: ModulePath) -> ModuleInstance | None:
        """Return the module instance at a path, which is the root for an empty one."""
        instance: ModuleInstance | None = self.root
        for step in path:
            if instance is None or step.name not in instance.module.calls:
                return None
            instance = self.find_module_instance(instance, step.name, step.key)
        return instance

    def build_module_value(self, parent: ModuleInstance, call: ModuleCall) -> Value:
        """Return the outputs of a call: an object per instance, alone, in a tuple or by key.

        The value is unknown on errors.
        """
        expansion = self.get_module_expansion(parent, call)
        # An invalid or unknown count or for_each.
        if not expansion.shape or expansion.unknown:
            return build_unknown(DYNAMIC)
        # By enabled = false.
        if expansion.shape == DISABLED:
            return NULL
        # An object per instance.
        outputs_by_key: dict[Key, Value] = {}
        for repetition in expansion.repetitions:
            instance = self.find_module_instance(parent, call.name, repetition.key)
            # Outputs of an unreadable module, which is reported.
            outputs = build_unknown(DYNAMIC)
            if instance is not None and call.module.directory:
                outputs = build_object(
                    {name: self.get_output(instance, name) for name in call.module.outputs}
                )
            outputs_by_key[repetition.key] = outputs
        if expansion.shape == SINGLE:
            return outputs_by_key[None]
        if expansion.shape == LIST:
            return build_tuple(outputs_by_key.values())
        return build_object({str(key): value for key, value in outputs_by_key.items()})

    def get_resource(self, instance: ModuleInstance, block: ResourceBlock) -> ResourceView:
        """Return the instances of a block; data blocks are read on first use."""
        key = (instance.path, block.mode, block.type, block.name)
        view = self.resources.get(key)
        if view is None:
            # A resource not planned yet is unknown ("").
            view = (
                self._read_data_block(instance, block) if block.mode == "data" else ResourceView("")
            )
            self.resources[key] = view
        return view

    def get_resource_view(self, address: Address) -> ResourceView:
        """Return the instances of a block.

        If they are unknown, start an empty view in the shape of the key.
        """
        key = (address.module, address.mode, address.type, address.name)
        view = self.resources.get(key)
        if view is None or not view.shape:
            shape = SINGLE if address.key is None else LIST if isinstance(address.key, int) else MAP
            view = self.resources[key] = ResourceView(shape)
        return view

    def _read_data_block(self, instance: ModuleInstance, block: ResourceBlock) -> ResourceView:
        """Read the instances of a data block.

        An instance with errors has unknown attributes. The instances of an invalid
        block are unknown.
        """
        expansion, problems = self.expand_block(block, self.build_scope(instance))
        self.diagnostics += problems
        prepared = self.settings.get_body(block)
        if prepared is None:
            # Its instances are unknown.
            return ResourceView(shape="")
        self._check_repetition(expansion, block, instance)
        view = ResourceView(expansion.shape)
        schema = self.settings.schemas["data"][block.type]
        for repetition in expansion.repetitions:
            arguments, sensitive, problems = prepared.evaluate(
                self.build_scope(instance, repetition)
            )
            self.diagnostics += problems
            answer: DataResult | None = None
            if not has_errors(problems):
                address = str(
                    Address(instance.path, "data", block.type, block.name, repetition.key)
                )
                answer, problems = self.settings.read_data(block, arguments, address)
                self.diagnostics += problems
            view.items[repetition.key] = _build_data_view(answer, sensitive, schema)
        return view


def _build_data_view(
    answer: DataResult | None, sensitive: tuple[Path, ...], schema: BlockSchema
) -> InstanceView:
    """Return the data as seen by expressions; unknown without an answer.

    Types of the answer replace declared ones.
    """
    if answer is None:
        return InstanceView(attributes=None, sensitive=sensitive, schema=schema)
    # Of attributes with an open type in the schema.
    if answer.types:
        typed = {
            name: replace(schema.attributes[name], type=known_type)
            for name, known_type in answer.types.items()
        }
        schema = replace(schema, attributes={**schema.attributes, **typed})
    return InstanceView(answer.attributes, (*sensitive, *answer.sensitive_paths), schema)


def get_header(block: ModuleCall | ResourceBlock) -> str:
    """Return the header of a block for messages."""
    return block.header if isinstance(block, ResourceBlock) else f'module "{block.name}"'


def convert_output(output: Output, value: Value) -> tuple[Value, list[Diagnostic]]:
    """Convert the value of an output to its declared type; unknown if it does not fit."""
    try:
        return convert_value(value, output.type), []
    except ConversionProblem as problem:
        reason = describe_problem(problem)
        detail = f'The value of output "{output.name}" is not suitable for its type: {reason}.'
        header = f'output "{output.name}"'
        return build_unknown(output.type), [
            build_error("invalid-output-value", detail, output.expression.span, block=header)
        ]


def check_ephemeral_output(output: Output, value: Value) -> list[Diagnostic]:
    """Return the error of an output if only its value or only its declaration is ephemeral."""
    if value.has_ephemeral and not output.ephemeral:
        detail = (
            f'The value of output "{output.name}" is derived from an ephemeral value. Add '
            "ephemeral = true to an "
            "output of a child module, or wrap the value in ephemeralasnull()."
        )
        kind = "ephemeral-value-not-allowed"
    elif output.ephemeral and value.is_known and not value.has_ephemeral:
        # An unknown one may lack its marks.
        detail = (
            f'The output "{output.name}" is ephemeral, but its value is not. Remove ephemeral = '
            "true."
        )
        kind = "value-not-allowed-in-ephemeral-output"
    else:
        return []
    return [build_error(kind, detail, output.expression.span, block=f'output "{output.name}"')]


def build_resource_key(address: ConfigAddress, path: ModulePath) -> ResourceKey:
    """Return the key of a block's instances in one module instance."""
    return (path, address.mode, address.type, address.name)
