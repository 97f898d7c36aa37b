"""What a run of a test file works on: the names that its expressions see, the values that stand in for
real ones, and the configuration as loaded, with what the file puts in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Address, AddressPattern
from nexusform.configuration.declared.configuration import (
    DEFAULT_PROVIDER,
    Configuration,
    Module,
    ModuleCall,
    Output,
    ProviderBlock,
    Variable,
)
from nexusform.diagnostics import Diagnostic, Problem, did_you_mean, error, has_errors
from nexusform.domains.testing.configuration.testing_blocks import Mock, Override, RunBlock, RunFile
from nexusform.language.conversion import convert, describe
from nexusform.language.evaluator import evaluate
from nexusform.language.syntax.nodes import (
    Expression,
    Literal,
    ObjectCons,
    StringLiteral,
    Traversal,
    TraverseAttribute,
)
from nexusform.plain_data import ConversionProblem, Path, known_parts, to_plain
from nexusform.planning.names.scope import InstanceScope
from nexusform.planning.request import DataValues
from nexusform.ports import ChangeRequest, ObjectKey, Provider, ProviderAnswer, ReadAnswer, ReadRequest
from nexusform.providers.simulated import with_answer
from nexusform.values import DYNAMIC_UNKNOWN, SENSITIVE, Value

Answer = tuple[Value, int, list[Diagnostic]]


# --- names -------------------------------------------------------------------------------------


class OutsideScope(Struct, frozen=True):
    """Outside of a configuration: `var.` with the values from outside, and `run.NAME` of earlier runs."""

    functions: Mapping[str, Any]
    variables: Mapping[str, Value]
    runs: Mapping[str, Value]

    def lookup(self, traversal: Traversal) -> Answer:
        """The value that a traversal begins with."""
        root, name = traversal.root.name, _first(traversal)
        if root == "run":
            return run_outputs(self.runs, traversal)
        if root == "var" and name in self.variables:
            return self.variables[name], 1, []
        if root == "var":
            near = did_you_mean(name, self.variables)
            detail = f'There is no value for a variable named "{name}" here.{near}'
            problem = error("reference-to-unavailable-variable", detail, traversal.span)
        else:
            detail = "Here a test file may refer to var.NAME and run.NAME.OUTPUT only."
            problem = error("invalid-reference", detail, traversal.span)
        return DYNAMIC_UNKNOWN, len(traversal.steps), [problem]


class AssertScope(Struct, frozen=True):
    """Inside of the configuration that was run: its names, `output.NAME`, and `run.NAME`."""

    inner: InstanceScope
    runs: Mapping[str, Value]

    @property
    def functions(self) -> Mapping[str, Any]:
        """Every function."""
        return self.inner.functions

    def lookup(self, traversal: Traversal) -> Answer:
        """The value that a traversal begins with."""
        root = traversal.root.name
        if root == "run":
            return run_outputs(self.runs, traversal)
        if root != "output":
            return self.inner.lookup(traversal)
        name, declared = _first(traversal), self.inner.instance.module.outputs
        if name in declared:
            return self.inner.names.output(self.inner.instance, name), 1, []
        detail = f'An output with the name "{name}" has not been declared.{did_you_mean(name, declared)}'
        problem = error("reference-to-undeclared-output-value", detail, traversal.span)
        return DYNAMIC_UNKNOWN, len(traversal.steps), [problem]


def run_outputs(runs: Mapping[str, Value], traversal: Traversal) -> Answer:
    """`run.NAME`: the outputs of a run that came before."""
    name = _first(traversal)
    if name in runs:
        return runs[name], 1, []
    detail = f'No run block named "{name}" has run before this one.{did_you_mean(name, runs)}'
    problem = error("reference-to-unknown-run-block", detail, traversal.span)
    return DYNAMIC_UNKNOWN, len(traversal.steps), [problem]


def _first(traversal: Traversal) -> str:
    step = traversal.steps[0] if traversal.steps else None
    return step.name if isinstance(step, TraverseAttribute) else ""


def variable_value(
    declared: Variable, expression: Expression, scope: OutsideScope
) -> tuple[Value | None, list[Diagnostic]]:
    """The value of a `variables` block for a variable; None when it is in error."""
    value, problems = evaluate(expression, scope)
    if has_errors(problems):
        return None, problems
    if value.is_known and value.is_null and not declared.nullable:
        if declared.default is None:
            detail = f'The variable "{declared.name}" may not be set to null.'
            return None, [error("required-variable-not-set", detail, expression.span)]
        value = declared.default
    try:
        value = convert(value, declared.type)
    except ConversionProblem as problem:
        detail = f"The given value is not suitable for var.{declared.name}: {describe(problem)}."
        return None, [error("invalid-value-for-input-variable", detail, expression.span)]
    return (value.with_marks(SENSITIVE) if declared.sensitive else value), problems


# --- values that stand in ----------------------------------------------------------------------


class StandIns(Struct, frozen=True):
    """Values given beforehand: for resources by pattern, for all resources of a type by provider, and
    for data sources.
    """

    resources: tuple[tuple[AddressPattern, Mapping[str, Any]], ...] = ()
    mocked: tuple[tuple[str, Mapping[str, Mapping[str, Any]]], ...] = ()
    data: tuple[DataValues, ...] = ()

    def over(self, providers: Mapping[str, Provider]) -> dict[str, Provider]:
        """The providers, with these values in front of them."""
        mocks = dict(self.mocked)
        return {
            name: OverridingProvider(provider, self._answers(mocks.get(name)))
            if self.resources or name in mocks
            else provider
            for name, provider in providers.items()
        }

    def _answers(self, defaults: Mapping[str, Mapping[str, Any]] | None) -> Any:
        """What is answered for an address: an override, a default of its type, or None."""
        from nexusform.address import parse_address

        def answer(text: str) -> Mapping[str, Any] | None:
            address: Address = parse_address(text)
            for pattern, values in self.resources:
                if pattern.matches(address):
                    return values
            return None if defaults is None else defaults.get(address.type, {})

        return answer


def stand_ins(file: RunFile, run: RunBlock, scope: OutsideScope) -> tuple[StandIns, list[Diagnostic]]:
    """What the file and the run put in place of real values, the run's first."""
    problems: list[Diagnostic] = []

    def values(expression: Expression | None) -> Mapping[str, Any]:
        return _values(expression, scope, problems)

    resources = [
        (override.target, values(override.values))
        for override in _last_first(run.overrides.resources, file.overrides.resources)
    ]
    data = [
        DataValues(override.target, override.target.type, values(override.values))
        for override in _last_first(run.overrides.data, file.overrides.data)
    ]
    mocked = []
    for name, key in {**{key: key for key in file.mocks}, **run.providers}.items():
        mock = file.mocks.get(key)
        if mock is None:
            continue
        mocked.append((name, {kind: values(written) for kind, written in mock.resources.items()}))
        data += [DataValues(None, kind, values(written)) for kind, written in mock.data.items()]
    return StandIns(tuple(resources), tuple(mocked), tuple(data)), problems


def _last_first(first: Sequence[Override], second: Sequence[Override]) -> list[Override]:
    return [*reversed(first), *reversed(second)]


def _values(
    expression: Expression | None, scope: OutsideScope, problems: list[Diagnostic]
) -> Mapping[str, Any]:
    """The values of an override as plain data."""
    if expression is None:
        return {}
    value, wrong = evaluate(expression, scope)
    problems += wrong
    plain = to_plain(value)[0]
    if isinstance(plain, dict) or has_errors(wrong):
        return plain if isinstance(plain, dict) else {}
    problems.append(
        error("invalid-override-values", "An object is required: { NAME = VALUE }.", expression.span)
    )
    return {}


# --- the configuration -------------------------------------------------------------------------


def as_tested(
    configuration: Configuration, file: RunFile, run: RunBlock
) -> tuple[Configuration, list[Diagnostic]]:
    """The configuration with the file's providers, and without the modules that it overrides."""
    problems: list[Diagnostic] = []
    root = replace(configuration.root, providers=_providers(configuration, file, run, problems))
    for override in [*file.overrides.modules, *run.overrides.modules]:
        path = tuple(step.name for step in override.target.module)
        root = _without(root, path, override, problems)
    return replace(configuration, root=root), problems


def _providers(
    configuration: Configuration, file: RunFile, run: RunBlock, problems: list[Diagnostic]
) -> dict[str, ProviderBlock]:
    """The providers of a run by the names that the configuration uses, mocks among them."""
    providers = {**configuration.root.providers, **file.providers}
    for mock in file.mocks.values():
        providers[mock.key] = _mocked(mock, providers)
    for name, used in run.providers.items():
        block = providers.get(used)
        if block is not None:
            providers[name] = replace(block, key=name)
        elif used != DEFAULT_PROVIDER:
            detail = f'There is no provider configuration "{used}".{did_you_mean(used, providers)}'
            problems.append(error("provider-configuration-not-present", detail, run.span, block=run.header))
    return providers


def _mocked(mock: Mock, known: Mapping[str, ProviderBlock]) -> ProviderBlock:
    """A provider without settings: it looks at no site."""
    from nexusform.language.syntax.nodes import Body

    name, _, alias = mock.key.partition(".")
    earlier = known.get(mock.key)
    body = Body((), (), mock.span, mock.span)
    return ProviderBlock(
        key=mock.key, name=name, alias=alias, body=body, span=earlier.span if earlier else mock.span
    )


def _without(module: Module, path: tuple[str, ...], override: Override, problems: list[Diagnostic]) -> Module:
    """The module with the call at a path replaced by its overridden outputs."""
    call = module.calls.get(path[0])
    if call is None:
        detail = f'There is no module call "{path[0]}" to override.{did_you_mean(path[0], module.calls)}'
        problems.append(error("invalid-override-target", detail, override.span))
        return module
    inner = (
        _outputs_only(call, override, problems)
        if len(path) == 1
        else _without(call.module, path[1:], override, problems)
    )
    return replace(module, calls={**module.calls, path[0]: replace(call, module=inner)})


def _outputs_only(call: ModuleCall, override: Override, problems: list[Diagnostic]) -> Module:
    """A module of which only outputs are left, with the values of the override."""
    overridden = _overridden_outputs(override, problems)
    for name in overridden:
        if name not in call.module.outputs:
            detail = (
                f'The module "{call.name}" has no output "{name}".{did_you_mean(name, call.module.outputs)}'
            )
            problems.append(error("invalid-override-outputs", detail, override.span))
    outputs: dict[str, Output] = {
        name: replace(
            output,
            expression=overridden.get(name, Literal(None, override.span)),
            depends_on=(),
            preconditions=(),
        )
        for name, output in call.module.outputs.items()
    }
    variables = {name: replace(v, validations=()) for name, v in call.module.variables.items()}
    return Module(call.module.path, call.module.directory, variables=variables, outputs=outputs)


def _overridden_outputs(override: Override, problems: list[Diagnostic]) -> dict[str, Expression]:
    """The outputs that an override gives, by name."""
    written = override.values
    if written is None:
        return {}
    if not isinstance(written, ObjectCons):
        problems.append(error("invalid-override-outputs", "A map of outputs is required.", written.span))
        return {}
    outputs: dict[str, Expression] = {}
    for key, value in written.items:
        expression = key.expression
        if isinstance(expression, StringLiteral):
            outputs[expression.value] = value
        elif isinstance(expression, Traversal) and not expression.steps:
            outputs[expression.root.name] = value
    return outputs


# --- providers with answers given beforehand ----------------------------------------------------


# The values for an object by its address, None when its provider is to be asked.
Answers = Callable[[str], Mapping[str, Any] | None]


class OverridingProvider:
    """Asks another provider, except about objects whose values are given: those exist only in state."""

    def __init__(self, inner: Provider, answers: Answers) -> None:
        self._inner = inner
        self._answers = answers
        self.name = inner.name
        self.sends = inner.sends
        self.observes = inner.observes

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadAnswer]:
        """What stands; overridden objects as state remembers them. Raises ProviderProblem."""
        asked = [r for r in requests if self._answers(r.address) is None]
        answers = iter(self._inner.read(asked) if asked else [])
        return [
            next(answers) if self._answers(r.address) is None else ReadAnswer(r.attributes or None)
            for r in requests
        ]

    def create(self, request: ChangeRequest) -> ProviderAnswer:
        """Make the object. Raises ProviderProblem."""
        values = self._answers(request.address)
        return self._inner.create(request) if values is None else _answered(request, values)

    def update(self, request: ChangeRequest) -> ProviderAnswer:
        """Change it. Raises ProviderProblem."""
        values = self._answers(request.address)
        return self._inner.update(request) if values is None else _answered(request, values)

    def delete(self, request: ChangeRequest) -> None:
        """Remove it. Raises ProviderProblem."""
        if self._answers(request.address) is None:
            self._inner.delete(request)

    def find(self, resource_type: str, object_id: str) -> tuple[ObjectKey, Mapping[str, Any]] | None:
        """For import: as the other provider finds it."""
        return self._inner.find(resource_type, object_id)

    def remarks(self) -> list[Problem]:
        """What the other provider says of what it read."""
        return self._inner.remarks()


def _answered(request: ChangeRequest, answers: Mapping[str, Any]) -> ProviderAnswer:
    """What is planned, with the given values in their places."""
    values = tuple(_leaves(answers, ()))
    planned = known_parts(request.planned or {})
    return ProviderAnswer(with_answer(planned, values), tuple(path for path, _ in values))


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping) and (value or not path):
        for name, part in value.items():
            yield from _leaves(part, (*path, name))
    else:
        yield path, value
