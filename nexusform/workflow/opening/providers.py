"""The providers of a run: set up from `provider` blocks, and asked what stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from msgspec.structs import replace

from nexusform.address import Address, address_order
from nexusform.configuration.body_evaluation import prepare_body
from nexusform.configuration.declared.configuration import DEFAULT_PROVIDER, ProviderBlock
from nexusform.configuration.reference_checks import unknown_providers
from nexusform.diagnostics import Diagnostic, diagnostic_of, error, has_errors
from nexusform.plain_data import Path, path_text
from nexusform.planning.modules.outputs import inventory_read
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.names.setting import PreparedBodies, setting_for
from nexusform.planning.request import PlanRequest
from nexusform.plans.plan import Action, InventoryRead, Plan
from nexusform.ports import (
    MindsTerms,
    Provider,
    ProviderProblem,
    ReadsCaptures,
    RemembersObjects,
)
from nexusform.providers.registry import PROVIDERS, ProviderKind
from nexusform.source import Span
from nexusform.state.objects import ObjectState, State
from nexusform.values import UNKNOWN
from nexusform.workflow.opening.place import Place

# How inventories are named that providers read.
OF_PROVIDERS: Final = "provider."


# --- setting up --------------------------------------------------------------------------------


def make_providers(
    request: PlanRequest, place: Place, leaving: ExitStack
) -> tuple[dict[str, Provider], list[Diagnostic]]:
    """Every provider by the name that resources use (`name` or `name.alias`).

    `request` gives the configuration and what its expressions may refer to, `place` what settings may lead
    to; `leaving` closes the providers when the run ends. The default provider is there even without a block.
    """
    made: dict[str, Provider] = {}
    problems = list(unknown_providers(request.configuration, PROVIDERS))
    evaluation: Evaluation | None = None
    for key, block in request.configuration.root.providers.items():
        kind = PROVIDERS.get(block.name)
        if kind is None:
            continue
        evaluation = evaluation or Evaluation(
            setting_for(request, PreparedBodies({"managed": {}, "data": {}}), request.state)
        )
        settings, wrong, sensitive = _settings(block, kind, evaluation)
        problems += wrong
        if settings is None:
            continue
        try:
            strangers = strange_addresses(block, settings, place, sensitive=sensitive)
            if strangers:
                problems += strangers
                continue
            provider = kind.make(settings, place.directory, leaving, place.confinement)
            _prepare(provider, key, request.state, place)
            made[key] = _discreet(provider) if sensitive else provider
        except ProviderProblem as problem:
            detail = _hidden() if sensitive else str(problem)
            problems.append(error("invalid-provider-configuration", detail, block.span, block=_header(block)))
    if DEFAULT_PROVIDER not in request.configuration.root.providers:
        simulated = PROVIDERS[DEFAULT_PROVIDER]
        made[DEFAULT_PROVIDER] = simulated.make({}, place.directory, leaving, place.confinement)
    return made, problems


def _discreet(provider: Provider) -> Provider:
    from nexusform.workflow.opening.discreet import discreet

    return discreet(provider)


def _hidden() -> str:
    from nexusform.workflow.opening.discreet import HIDDEN

    return HIDDEN


def _prepare(provider: Provider, key: str, state: State, place: Place) -> None:
    """Tell a provider what it wants to know first: what state holds, and on what terms it acts."""
    if isinstance(provider, RemembersObjects):
        its_own = (known.attributes for _, known in objects_of(state, key))
        provider.remember(its_own, managed_objects(state))
    if isinstance(provider, MindsTerms):
        provider.mind(place.allows, take_ownership=place.take_ownership)


def strange_addresses(
    block: ProviderBlock, settings: Mapping[str, Any], place: Place, *, sensitive: bool = False
) -> list[Diagnostic]:
    """Where a confined run is not to take its credentials, though the block's settings lead there. Raises
    ProviderProblem.
    """
    kind = PROVIDERS[block.name]
    strangers = [address for address in kind.addresses(settings) if not place.allows(address)]
    named = ["An address" if sensitive else f'The address "{address}"' for address in strangers]
    return [
        error(
            "remote-address-is-not-allowed",
            f"{place.refusal_of(name)} {kind.instead}",
            block.span,
            block=_header(block),
        )
        for name in named
    ]


def provider_problems(request: PlanRequest) -> list[Diagnostic]:
    """What is wrong with providers and their settings, as far as can be said without making them."""
    from nexusform.planning.modules.validation import unknowing

    configuration = request.configuration
    problems = list(unknown_providers(configuration, PROVIDERS))
    setting = setting_for(request, PreparedBodies({"managed": {}, "data": {}}), request.state)
    evaluation = Evaluation(unknowing(setting, configuration, request.variables))
    for block in configuration.root.providers.values():
        kind = PROVIDERS.get(block.name)
        if kind is None:
            continue
        body, wrong = prepare_body(block.body, kind.settings, block.span)
        if not has_errors(wrong):
            _, _, evaluated = body.evaluate(evaluation.scope(evaluation.root))
            wrong += evaluated
        problems += [d if d.block else replace(d, block=_header(block)) for d in wrong]
    return [*problems, *evaluation.diagnostics]


def _settings(
    block: ProviderBlock, kind: ProviderKind, evaluation: Evaluation
) -> tuple[Mapping[str, Any] | None, list[Diagnostic], bool]:
    """The settings, what is wrong with them, and whether any is sensitive."""
    body, problems = prepare_body(block.body, kind.settings, block.span)
    if has_errors(problems):
        return None, problems, False
    known = len(evaluation.diagnostics)
    values, sensitive, wrong = body.evaluate(evaluation.scope(evaluation.root))
    problems += [*evaluation.diagnostics[known:], *wrong]
    # What a provider answers is shown as an attribute: it may not be sensitive.
    shown = next((path for path in sensitive if kind.answers & set(path)), None)
    if shown is not None:
        problems.append(_sensitive_answer(block, shown, body.locate(shown)))
    if has_errors(problems):
        return None, problems, bool(sensitive)
    unsure = sorted(name for name, value in values.items() if _has_unknown(value))
    if unsure:
        problems.append(_not_known_yet(block, unsure, body.locate((unsure[0],))))
        return None, problems, bool(sensitive)
    return values, problems, bool(sensitive)


def _sensitive_answer(block: ProviderBlock, path: Path, place: Span) -> Diagnostic:
    detail = (
        f'"{path_text(path)}" is sensitive, and what a provider answers is shown as an attribute of its '
        "object. Answer with a value that may be seen; nonsensitive() says that one may."
    )
    return error("invalid-provider-configuration", detail, place, block=_header(block))


def _not_known_yet(block: ProviderBlock, names: Sequence[str], place: Span) -> Diagnostic:
    detail = (
        "The settings of a provider must be known before anything is planned; "
        f"{', '.join(names)} depends on something that is decided later. Use variables, locals and literals."
    )
    return error("provider-configuration-is-not-known", detail, place, block=_header(block))


def _has_unknown(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_unknown(part) for part in value.values())
    if isinstance(value, list):
        return any(_has_unknown(part) for part in value)
    return value is UNKNOWN


def _header(block: ProviderBlock) -> str:
    return f'provider "{block.name}"'


# --- asking ------------------------------------------------------------------------------------


def objects_of(state: State, provider: str) -> list[tuple[Address, ObjectState]]:
    """The objects of a state that a provider made, in the order of their addresses."""
    objects = [
        (address, instance.current)
        for address, instance in state.instances.items()
        if instance.current is not None and instance.current.provider == provider
    ]
    return sorted(objects, key=lambda pair: address_order(pair[0]))


def managed_objects(state: State) -> Iterator[tuple[str, str]]:
    """Type and id of everything that a state holds."""
    for address, instance in state.instances.items():
        if instance.current is not None:
            yield address.type, str(instance.current.attributes.get("id"))


def remarks(plan: Plan, providers: Mapping[str, Provider]) -> list[Diagnostic]:
    """What providers say of what they read, beside what the plan says and of what it lets stand."""
    told = {(each.id, each.brief) for each in plan.diagnostics}
    leaving = {str(change.address) for change in plan.changes if change.action is Action.DELETE}
    return [
        diagnostic_of(problem)
        for provider in providers.values()
        for problem in provider.remarks()
        if (problem.id, problem.brief) not in told and problem.about not in leaving
    ]


def captures_read(providers: Mapping[str, Provider], now: str) -> tuple[InventoryRead, ...]:
    """The captured sites that providers read, as inventories that a plan stands on."""
    return tuple(
        inventory_read(f"{OF_PROVIDERS}{key} ({site})", taken_at, now)
        for key, provider in sorted(providers.items())
        if isinstance(provider, ReadsCaptures)
        for site, taken_at in provider.captures()
    )


# A site shows these inside of another object, so that a plan may hold them there and ask for them anew.
_PARTS: Final = frozenset({"nexus_agent_pool"})


def stand_already(plan: Plan, providers: Mapping[str, Provider]) -> list[Diagnostic]:
    """Refusals of what a plan would make and a site shows already."""
    problems: list[Diagnostic] = []
    for change in plan.changes:
        provider = providers.get(change.provider)
        if change.address.type not in _PARTS or change.action is not Action.CREATE or provider is None:
            continue
        try:
            stands = provider.observes and provider.find(change.address.type, change.id) is not None
        except ProviderProblem as problem:
            return [*problems, error("reading-what-stands-failed", str(problem))]
        if not stands:
            continue
        detail = (
            f"{change.id} stands on the site already, and this plan would make its VMs anew. Take it over "
            f'as it stands, by a block import {{ to = {change.address}, id = "{change.id}" }} with each '
            "argument on a line of its own, and without an agent_pool block of that name in the cluster."
        )
        problems.append(error("object-stands-already", detail, change.source, block=change.block))
    return problems
