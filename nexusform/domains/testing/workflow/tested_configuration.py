"""Configuration of a test run: names in expressions, overrides, and the file's providers."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import (
    DEFAULT_PROVIDER,
    Configuration,
    Module,
    ModuleCall,
    Output,
    ProviderBlock,
    Variable,
)
from nexusform.configuration.static_arguments import evaluate_constant
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Problem,
    SourceFile,
    Span,
    build_error,
    has_errors,
    suggest_name,
)
from nexusform.domains.testing.configuration.test_file_blocks import Override, RunBlock, TestFile
from nexusform.interfaces.plugins import (
    ChangeRequest,
    ChangeResult,
    ObjectKey,
    Provider,
    ReadRequest,
    ReadResult,
)
from nexusform.json_data.plain_data import (
    ConversionProblem,
    Path,
    convert_to_plain,
    replace_unknown,
)
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.parser import parse_expression
from nexusform.language.syntax.syntax_nodes import (
    Body,
    Expression,
    Literal,
    ObjectCons,
    StringLiteral,
    Traversal,
)
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.planning.name_resolution.instance_scope import InstanceScope
from nexusform.planning.plan_request import ValueOverride
from nexusform.providers.registry import PROVIDERS
from nexusform.providers.simulated import apply_answer
from nexusform.resources.address import AddressPattern, parse_address
from nexusform.schemas.value_types import DYNAMIC
from nexusform.values.typed_value import DYNAMIC_UNKNOWN, NULL, UNKNOWN, Value

LookupResult = tuple[Value, int, Sequence[Diagnostic]]
Overrides = tuple[tuple[AddressPattern, Mapping[str, Any]], ...]


class TestFileScope(Struct, frozen=True):
    """Scope outside of the configuration.

    The scope has `var.` with external values, and `run.NAME` of earlier runs.
    """

    functions: Mapping[str, Any]
    variables: Mapping[str, Value]
    runs: Mapping[str, Value]

    def lookup(self, traversal: Traversal) -> LookupResult:
        """Return the value at the start of a reference, its steps, and problems.

        The steps are counted after the root: `var.NAME` has 1.
        """
        root = traversal.root.name
        name = traversal.first_name
        if root == "run":
            return lookup_run_outputs(self.runs, traversal)
        if root == "var" and name in self.variables:
            return self.variables[name], 1, []
        if root == "var":
            hint = suggest_name(name, self.variables)
            detail = f'The variable "{name}" has no value here.{hint}'
            problem = build_error("reference-to-unavailable-variable", detail, traversal.span)
        else:
            detail = "A test file may only refer to var.NAME and run.NAME.OUTPUT here."
            problem = build_error("invalid-reference", detail, traversal.span)
        # An unknown value for the whole reference.
        return DYNAMIC_UNKNOWN, len(traversal.steps), [problem]


class AssertionScope(Struct, frozen=True):
    """Scope inside of the tested configuration: its names, `output.NAME`, and `run.NAME`.

    `failed_outputs` are null. `test_variables` are those that only the test file knows.
    """

    inner: InstanceScope
    runs: Mapping[str, Value]
    failed_outputs: frozenset[str] = frozenset()
    test_variables: Mapping[str, Value] = field(default_factory=dict)

    @property
    def functions(self) -> Mapping[str, Any]:
        """All functions."""
        return self.inner.functions

    def lookup(self, traversal: Traversal) -> LookupResult:
        """Return the value at the start of a reference, its steps, and problems.

        The steps are counted after the root: `var.NAME` has 1.
        """
        root = traversal.root.name
        name = traversal.first_name
        if root == "run":
            return lookup_run_outputs(self.runs, traversal)
        if root == "var" and name in self.test_variables:
            return self.test_variables[name], 1, []
        if root != "output":
            value, step_count, problems = self.inner.lookup(traversal)
            # A variable rejected as expected is unknown in the plan; assertions read its value.
            rejected = (
                self.inner.names.rejected_values.get((self.inner.instance.path, name))
                if root == "var"
                else None
            )
            return value if rejected is None else rejected, step_count, problems
        # An expected failure left it without a value.
        if name in self.failed_outputs:
            return NULL, 1, []
        declared_outputs = self.inner.instance.module.outputs
        if name in declared_outputs:
            return self.inner.names.get_output(self.inner.instance, name), 1, []
        detail = f'No output "{name}" is declared.{suggest_name(name, declared_outputs)}'
        problem = build_error("reference-to-undeclared-output-value", detail, traversal.span)
        # An unknown value for the whole reference.
        return DYNAMIC_UNKNOWN, len(traversal.steps), [problem]


def lookup_run_outputs(runs: Mapping[str, Value], traversal: Traversal) -> LookupResult:
    """Return the outputs of an earlier run, the number of steps used, and problems.

    The run is referred to by `run.NAME`. The steps are those of the reference used by the outputs.
    """
    name = traversal.first_name
    if name in runs:
        return runs[name], 1, []
    detail = f'No run block named "{name}" has run before this one.{suggest_name(name, runs)}'
    problem = build_error("reference-to-unknown-run-block", detail, traversal.span)
    return DYNAMIC_UNKNOWN, len(traversal.steps), [problem]


def evaluate_test_variable(
    variable: Variable, expression: Expression, scope: TestFileScope
) -> tuple[Value | None, list[Diagnostic]]:
    """Return the value for a variable from a `variables` block; None if it is invalid."""
    value, problems = evaluate_expression(expression, scope)
    if has_errors(problems):
        return None, problems
    if value.is_known and value.is_null and not variable.nullable:
        if variable.default is None:
            detail = f'The variable "{variable.name}" may not be set to null.'
            return None, [build_error("required-variable-not-set", detail, expression.span)]
        # Null means the default of a variable with nullable = false.
        value = variable.default
    try:
        value = convert_value(value, variable.type)
    except ConversionProblem as problem:
        detail = (
            f"The given value is not suitable for var.{variable.name}: {describe_problem(problem)}."
        )
        return None, [build_error("invalid-value-for-input-variable", detail, expression.span)]
    return value.add_marks(variable.marks), problems


def apply_declared_defaults(
    configuration: Configuration, file: TestFile
) -> tuple[Configuration, list[Diagnostic]]:
    """Return the configuration with the defaults of the file's `variable` blocks.

    A default that does not suit the type of the configuration is an error.
    """
    problems: list[Diagnostic] = []
    variables = dict(configuration.root.variables)
    for name, declared in file.declared_variables.items():
        if name not in variables or declared.default is None:
            continue
        try:
            default = convert_value(declared.default, variables[name].type)
        except ConversionProblem as problem:
            detail = f"The default is not suitable for var.{name}: {describe_problem(problem)}."
            problems.append(build_error("invalid-default-value", detail, declared.span))
            continue
        variables[name] = replace(variables[name], default=default)
    root = replace(configuration.root, variables=variables)
    return replace(configuration, root=root), problems


def remove_ephemeral_outputs(configuration: Configuration) -> Configuration:
    """Return the configuration as it is planned: no state has its ephemeral outputs.

    A root module cannot have them, but a child module may be tested alone.
    """
    outputs = {
        name: output for name, output in configuration.root.outputs.items() if not output.ephemeral
    }
    return replace(configuration, root=replace(configuration.root, outputs=outputs))


def allow_destruction(module: Module) -> Module:
    """Return the module without `prevent_destroy`, which does not protect objects of a test."""
    resources = {
        address: replace(
            block,
            lifecycle=replace(
                block.lifecycle, prevent_destroy=False, prevent_destroy_condition=None
            ),
        )
        for address, block in module.resources.items()
    }
    calls = {
        name: replace(call, module=allow_destruction(call.module))
        for name, call in module.calls.items()
    }
    return replace(module, resources=resources, calls=calls)


def build_untyped_variable(name: str, span: Span) -> Variable:
    """Build the declaration of a variable of any type that only a test file uses."""
    return Variable(name, DYNAMIC, None, "", False, True, (), span, is_typed=False)


def evaluate_text(text: Value) -> Value:
    """Return the value of a constant expression; a text that is none stays a text."""
    if not isinstance(text.raw, str):
        return text
    expression, problems = parse_expression(SourceFile("variable", text.raw))
    if expression is None or has_errors(problems):
        return text
    value, problems = evaluate_constant(expression)
    return text if has_errors(problems) else value


class ValueOverrides(Struct, frozen=True):
    """Override values by resource pattern, provider and type, or data source.

    Also override computed values in the plan.
    """

    resources: Overrides = ()
    mock_defaults: tuple[tuple[str, Mapping[str, Mapping[str, Any]]], ...] = ()
    data: tuple[ValueOverride, ...] = ()
    planned: tuple[ValueOverride, ...] = ()

    def wrap_providers(self, providers: Mapping[str, Provider]) -> dict[str, Provider]:
        """Return the providers with these overrides applied."""
        mocks = dict(self.mock_defaults)
        return {
            name: OverridingProvider(provider, self.resources, mocks.get(name))
            if self.resources or name in mocks
            # Without overrides or mocks.
            else provider
            for name, provider in providers.items()
        }


def collect_value_overrides(
    file: TestFile, run: RunBlock, scope: TestFileScope
) -> tuple[ValueOverrides, list[Diagnostic]]:
    """Return the overrides of the file and the run; those of the run take precedence."""
    problems: list[Diagnostic] = []

    def evaluate_values(expression: Expression | None) -> Mapping[str, Any]:
        return _evaluate_override(expression, scope, problems)

    resources: list[tuple[AddressPattern, Mapping[str, Any]]] = []
    planned: list[ValueOverride] = []
    # The first one of a target counts: those of the run before those of the file, and later blocks
    # before earlier ones.
    for override in (*reversed(run.overrides.resources), *reversed(file.overrides.resources)):
        values = evaluate_values(override.values)
        resources.append((override.target, values))
        planned_values = values if override.during_plan else _hide_values(values)
        planned.append(ValueOverride(override.target, override.target.type, planned_values))
    data = [
        ValueOverride(override.target, override.target.type, evaluate_values(override.values))
        for override in (*reversed(run.overrides.data), *reversed(file.overrides.data))
    ]
    mock_defaults = []
    # Names of providers in the configuration, and their keys in the test file. Defaults apply to
    # all objects of a type.
    for name, key in {**{key: key for key in file.mocks}, **run.providers}.items():
        mock = file.mocks.get(key)
        # A real provider.
        if mock is None:
            continue
        defaults = {
            kind: evaluate_values(expression) for kind, expression in mock.resources.items()
        }
        mock_defaults.append((name, defaults))
        planned += [
            ValueOverride(
                None, kind, values if kind in mock.planned_types else _hide_values(values)
            )
            for kind, values in defaults.items()
        ]
        data += [
            ValueOverride(None, kind, evaluate_values(expression))
            for kind, expression in mock.data.items()
        ]
    return ValueOverrides(
        tuple(resources), tuple(mock_defaults), tuple(data), tuple(planned)
    ), problems


def _hide_values(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return unknown values in place of those that only the apply sets."""
    return dict.fromkeys(values, UNKNOWN)


def _evaluate_override(
    expression: Expression | None, scope: TestFileScope, problems: list[Diagnostic]
) -> Mapping[str, Any]:
    """Return the values of an override as plain data; {} without values.

    A value other than an object is reported.
    """
    if expression is None:
        return {}
    value, new_problems = evaluate_expression(expression, scope)
    problems += new_problems
    plain_value, _ = convert_to_plain(value)
    if isinstance(plain_value, dict):
        return plain_value
    if not has_errors(new_problems):
        detail = "An object is required: { NAME = VALUE }."
        problems.append(build_error("invalid-override-values", detail, expression.span))
    return {}


def build_tested_configuration(
    configuration: Configuration, file: TestFile, run: RunBlock
) -> tuple[Configuration, list[Diagnostic]]:
    """Return the configuration with overridden modules.

    It has the providers and mocks of the file as selected by the run.
    """
    problems: list[Diagnostic] = []
    providers = {**configuration.root.providers, **file.providers}
    for mock in file.mocks.values():
        name, _, alias = mock.key.partition(".")
        # A mock becomes a simulated provider without settings: no system is called. Unknown names
        # are reported later.
        name = DEFAULT_PROVIDER if name in PROVIDERS else name
        span = providers[mock.key].span if mock.key in providers else mock.span
        body = Body((), (), mock.span, mock.span)
        providers[mock.key] = ProviderBlock(
            key=mock.key, name=name, alias=alias, body=body, span=span
        )
    # The name in the configuration, and the key of the selected provider.
    for name, provider_key in run.providers.items():
        block = providers.get(provider_key)
        if block is not None:
            providers[name] = replace(block, key=name)
        elif provider_key != DEFAULT_PROVIDER:
            # The default one needs no block.
            detail = (
                "There is no provider configuration "
                f'"{provider_key}".{suggest_name(provider_key, providers)}'
            )
            problems.append(
                build_error(
                    "provider-configuration-not-present", detail, run.span, block=run.header
                )
            )
    root = replace(configuration.root, providers=providers)
    for override in [*file.overrides.modules, *run.overrides.modules]:
        path = tuple(step.name for step in override.target.module)
        root = _replace_module(root, path, override, problems)
    return replace(configuration, root=root), problems


def _replace_module(
    module: Module, path: tuple[str, ...], override: Override, problems: list[Diagnostic]
) -> Module:
    """Return the module with the call at a path of names replaced by overridden outputs.

    Report an unknown name.
    """
    call = module.calls.get(path[0])
    if call is None:
        detail = (
            f'There is no module call "{path[0]}" to override.{suggest_name(path[0], module.calls)}'
        )
        problems.append(build_error("invalid-override-target", detail, override.span))
        return module
    if len(path) == 1:
        inner_module = _create_output_module(call, override, problems)
    else:
        inner_module = _replace_module(call.module, path[1:], override, problems)
    return replace(module, calls={**module.calls, path[0]: replace(call, module=inner_module)})


def _create_output_module(
    call: ModuleCall, override: Override, problems: list[Diagnostic]
) -> Module:
    """Return a module without resources and checks; its outputs have the values of the override."""
    output_expressions = _get_overridden_outputs(override, problems)
    for name in output_expressions:
        if name not in call.module.outputs:
            detail = (
                f'The module "{call.name}" has no output '
                f'"{name}".{suggest_name(name, call.module.outputs)}'
            )
            problems.append(build_error("invalid-override-outputs", detail, override.span))
    outputs: dict[str, Output] = {}
    for name, output in call.module.outputs.items():
        # The value is null without an override.
        expression = output_expressions.get(name, Literal(None, override.span))
        outputs[name] = replace(output, expression=expression, depends_on=(), preconditions=())
    variables = {
        name: replace(variable, validations=()) for name, variable in call.module.variables.items()
    }
    return Module(call.module.path, call.module.directory, variables=variables, outputs=outputs)


def _get_overridden_outputs(
    override: Override, problems: list[Diagnostic]
) -> dict[str, Expression]:
    """Return the outputs of an override by name; {} without values.

    Report a value other than a map.
    """
    expression_map = override.values
    if expression_map is None:
        return {}
    if not isinstance(expression_map, ObjectCons):
        problems.append(
            build_error(
                "invalid-override-outputs", "A map of outputs is required.", expression_map.span
            )
        )
        return {}
    # Entries with computed names are ignored.
    outputs: dict[str, Expression] = {}
    for key, value in expression_map.items:
        name = key.expression
        if isinstance(name, StringLiteral):
            outputs[name.value] = value
        elif isinstance(name, Traversal) and not name.steps:
            # A name without quotes.
            outputs[name.root.name] = value
    return outputs


class OverridingProvider:
    """Provider with override values for some objects, from their patterns or types.

    Other requests are passed on.
    """

    def __init__(
        self,
        inner: Provider,
        resources: Overrides,
        defaults: Mapping[str, Mapping[str, Any]] | None,
    ) -> None:
        """Wrap a provider.

        `defaults` are values by resource type in a mock of it, None without a mock.
        """
        self._inner = inner
        self._resources = resources
        self._defaults = defaults
        self.name = inner.name
        self.sends_changes = inner.sends_changes
        self.observes_objects = inner.observes_objects

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadResult]:
        """Read the objects; overridden ones are returned as in state.

        Raises ProviderProblem.
        """
        inner_requests: list[ReadRequest] = []
        # By position of the request.
        overridden: list[bool] = []
        for request in requests:
            overridden.append(self._find_values(request.address) is not None)
            if not overridden[-1]:
                inner_requests.append(request)
        answers = iter(self._inner.read(inner_requests) if inner_requests else [])
        results: list[ReadResult] = []
        for request, is_overridden in zip(requests, overridden, strict=True):
            results.append(
                ReadResult(request.attributes or None) if is_overridden else next(answers)
            )
        return results

    def _find_values(self, object_address: str) -> Mapping[str, Any] | None:
        """Return the override values of an object.

        They are those of a pattern, else the defaults of its type in the mock. Return None for an
        object of a real provider without a pattern.
        """
        address = parse_address(object_address)
        for pattern, values in self._resources:
            if pattern.is_match(address):
                return values
        return None if self._defaults is None else self._defaults.get(address.type, {})

    def create(self, request: ChangeRequest) -> ChangeResult:
        """Create the object.

        An overridden one only gets its values. Raises ProviderProblem.
        """
        values = self._find_values(request.address)
        return (
            self._inner.create(request)
            if values is None
            else _build_override_answer(request, values)
        )

    def update(self, request: ChangeRequest) -> ChangeResult:
        """Update the object.

        An overridden one only gets its values. Raises ProviderProblem.
        """
        values = self._find_values(request.address)
        return (
            self._inner.update(request)
            if values is None
            else _build_override_answer(request, values)
        )

    def delete(self, request: ChangeRequest) -> None:
        """Delete the object, unless it is overridden and so was never created.

        Raises ProviderProblem.
        """
        if self._find_values(request.address) is None:
            self._inner.delete(request)

    def find(
        self, resource_type: str, object_id: str
    ) -> tuple[ObjectKey, Mapping[str, Any]] | None:
        """Find an object to import with the wrapped provider."""
        return self._inner.find(resource_type, object_id)

    def list_warnings(self) -> list[Problem]:
        """Return the warnings of the wrapped provider."""
        return self._inner.list_warnings()


def _build_override_answer(request: ChangeRequest, answers: Mapping[str, Any]) -> ChangeResult:
    """Return the planned values with the override values inserted, and their paths.

    `answers` are the override values; the paths are those of the inserted ones.
    """
    values = tuple(_list_leaves(answers, path=()))
    planned = replace_unknown(request.planned or {})
    return ChangeResult(apply_answer(planned, values), tuple(path for path, _ in values))


def _list_leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield path and value of each part of nested mappings.

    An empty mapping is a part, unless it is the whole.
    """
    if isinstance(value, Mapping) and (value or not path):
        for name, part in value.items():
            yield from _list_leaves(part, (*path, name))
    else:
        yield path, value
