"""The providers that a configuration sets up, made from its `provider` blocks."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from nexusform.configuration.evaluation import prepare_body
from nexusform.configuration.model import ProviderBlock
from nexusform.diagnostics import Diagnostic, did_you_mean, error, has_errors
from nexusform.planning.names.bodies import PreparedBodies
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.names.setting import setting_for
from nexusform.planning.request import PlanRequest
from nexusform.ports import Provider, ProviderProblem
from nexusform.providers.registry import DEFAULT, PROVIDERS
from nexusform.schema import BlockSchema
from nexusform.values import UNKNOWN


def make_providers(
    request: PlanRequest, directory: str, leaving: ExitStack
) -> tuple[dict[str, Provider], list[Diagnostic]]:
    """Every provider by the name that resources use (`name` or `name.alias`).

    `request` gives the configuration and what its expressions may refer to; `leaving` closes the
    providers when the run ends. The default provider is there even without a block.
    """
    made: dict[str, Provider] = {}
    problems: list[Diagnostic] = []
    evaluation: Evaluation | None = None
    for key, block in request.configuration.root.providers.items():
        kind = PROVIDERS.get(block.name)
        if kind is None:
            problems.append(_unknown(block))
            continue
        evaluation = evaluation or Evaluation(setting_for(request, PreparedBodies({})))
        settings, wrong = _settings(block, kind.settings, evaluation)
        problems += wrong
        if settings is None:
            continue
        try:
            made[key] = kind.make(settings, directory, leaving)
        except ProviderProblem as problem:
            problems.append(
                error("invalid-provider-configuration", str(problem), block.span, block=_header(block))
            )
    if DEFAULT not in made and DEFAULT not in request.configuration.root.providers:
        made[DEFAULT] = PROVIDERS[DEFAULT].make({}, directory, leaving)
    return made, problems


def _settings(
    block: ProviderBlock, schema: BlockSchema, evaluation: Evaluation
) -> tuple[Mapping[str, Any] | None, list[Diagnostic]]:
    body, problems = prepare_body(block.body, schema, block.span)
    if has_errors(problems):
        return None, problems
    known = len(evaluation.diagnostics)
    values, _, wrong = body.evaluate(evaluation.scope(evaluation.root))
    problems += [*evaluation.diagnostics[known:], *wrong]
    if has_errors(problems):
        return None, problems
    unsure = sorted(name for name, value in values.items() if _has_unknown(value))
    if unsure:
        problems.append(
            error(
                "provider-configuration-is-not-known",
                "The settings of a provider must be known before anything is planned; "
                f"{', '.join(unsure)} depends on something that is decided later. Use variables, locals and "
                "literals.",
                body.locate((unsure[0],)),
                block=_header(block),
            )
        )
        return None, problems
    return values, problems


def _has_unknown(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_unknown(part) for part in value.values())
    if isinstance(value, list):
        return any(_has_unknown(part) for part in value)
    return value is UNKNOWN


def _header(block: ProviderBlock) -> str:
    return f'provider "{block.name}"'


def _unknown(block: ProviderBlock) -> Diagnostic:
    near = did_you_mean(block.name, PROVIDERS)
    return error(
        "unknown-provider",
        f'There is no provider "{block.name}". Known are: {", ".join(PROVIDERS)}.{near}',
        block.span,
        block=_header(block),
    )
