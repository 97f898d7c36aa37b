"""The configuration that a run of a test file works on: as loaded, with what the file puts in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from nexusform.address import Address, AddressPattern
from nexusform.configuration.model import Configuration, Module, ModuleCall, Output, ProviderBlock
from nexusform.configuration.testing_blocks import Mock, Override, RunBlock, RunFile
from nexusform.diagnostics import Diagnostic, did_you_mean, error, has_errors
from nexusform.language.evaluator import evaluate
from nexusform.language.syntax import Expression, Literal, ObjectCons, StringLiteral, Traversal
from nexusform.plain_data import to_plain
from nexusform.planning.request import DataValues
from nexusform.ports import Provider
from nexusform.providers.overriding import OverridingProvider
from nexusform.providers.registry import DEFAULT
from nexusform.workflow.testing_scope import GivenScope


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
        from nexusform.address import parse_address

        def answer(text: str) -> Mapping[str, Any] | None:
            address: Address = parse_address(text)
            for pattern, values in self.resources:
                if pattern.matches(address):
                    return values
            return None if defaults is None else defaults.get(address.type, {})

        return answer


def stand_ins(file: RunFile, run: RunBlock, scope: GivenScope) -> tuple[StandIns, list[Diagnostic]]:
    """What the file and the run put in place of real values, the run's first."""
    problems: list[Diagnostic] = []

    def values(given: Expression | None) -> Mapping[str, Any]:
        return _values(given, scope, problems)

    resources = [
        (o.target, values(o.values)) for o in _last_first(run.overrides.resources, file.overrides.resources)
    ]
    data = [
        DataValues(o.target, o.target.type, values(o.values))
        for o in _last_first(run.overrides.data, file.overrides.data)
    ]
    used = {**{key: key for key in file.mocks}, **run.providers}
    mocked = []
    for name, mock in [(name, file.mocks[key]) for name, key in used.items() if key in file.mocks]:
        mocked.append((name, {kind: values(given) for kind, given in mock.resources.items()}))
        data += [DataValues(None, kind, values(given)) for kind, given in mock.data.items()]
    return StandIns(tuple(resources), tuple(mocked), tuple(data)), problems


def _last_first(first: Sequence[Override], second: Sequence[Override]) -> list[Override]:
    return [*reversed(first), *reversed(second)]


def _values(given: Expression | None, scope: GivenScope, problems: list[Diagnostic]) -> Mapping[str, Any]:
    if given is None:
        return {}
    value, wrong = evaluate(given, scope)
    problems += wrong
    plain = to_plain(value)[0]
    if isinstance(plain, dict) or has_errors(wrong):
        return plain if isinstance(plain, dict) else {}
    problems.append(error("invalid-override-values", "An object is required: { NAME = VALUE }.", given.span))
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
    found = {**configuration.root.providers, **file.providers}
    for mock in file.mocks.values():
        found[mock.key] = _mocked(mock, found)
    for name, used in run.providers.items():
        block = found.get(used)
        if block is not None:
            found[name] = replace(block, key=name)
        elif used != DEFAULT:
            detail = f'There is no provider configuration "{used}".{did_you_mean(used, found)}'
            problems.append(error("provider-configuration-not-present", detail, run.span, block=run.header))
    return found


def _mocked(mock: Mock, known: Mapping[str, ProviderBlock]) -> ProviderBlock:
    """A provider without settings: it looks at no site."""
    from nexusform.language.syntax import Body

    name, _, alias = mock.key.partition(".")
    earlier = known.get(mock.key)
    body = Body((), (), mock.span, mock.span)
    return ProviderBlock(mock.key, name, alias, body, earlier.span if earlier else mock.span)


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
    given = _named(override, problems)
    for name in given:
        if name not in call.module.outputs:
            detail = (
                f'The module "{call.name}" has no output "{name}".{did_you_mean(name, call.module.outputs)}'
            )
            problems.append(error("invalid-override-outputs", detail, override.span))
    outputs: dict[str, Output] = {
        name: replace(
            output, expression=given.get(name, Literal(None, override.span)), depends_on=(), preconditions=()
        )
        for name, output in call.module.outputs.items()
    }
    variables = {name: replace(v, validations=()) for name, v in call.module.variables.items()}
    return Module(call.module.path, call.module.directory, variables=variables, outputs=outputs)


def _named(override: Override, problems: list[Diagnostic]) -> dict[str, Expression]:
    given = override.values
    if given is None:
        return {}
    if not isinstance(given, ObjectCons):
        problems.append(error("invalid-override-outputs", "A map of outputs is required.", given.span))
        return {}
    found: dict[str, Expression] = {}
    for key, value in given.items:
        expression = key.expression
        if isinstance(expression, StringLiteral):
            found[expression.value] = value
        elif isinstance(expression, Traversal) and not expression.steps:
            found[expression.root.name] = value
    return found
