"""What became of steps that a killed run had begun: look the objects up.

Before a step called its provider its intent was written down. An intent without an outcome means
that the run ended in between: the object may have been made, changed or removed, or not. Reading
it by its key tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from nexusform.applying.standing import DEFAULT_PROVIDER, with_current, with_successor, without_deposed
from nexusform.planning.plan import StepKind
from nexusform.ports import ObjectKey, Provider, ProviderProblem, ReadAnswer, ReadRequest
from nexusform.state.journal import Done, OpenIntent
from nexusform.state.model import InstanceState, ObjectState


def settle(intents: Sequence[OpenIntent], providers: Mapping[str, Provider]) -> list[Done]:
    """An outcome for every open intent, in their order.

    `providers` are by the name that the objects carry. Raises ProviderProblem when a provider
    cannot be asked: then nothing is known, and nothing may be planned.
    """
    answers: dict[int, ReadAnswer] = {}
    for name, numbers in _by_provider(intents).items():
        provider = providers.get(name)
        if provider is None:
            raise ProviderProblem(f'There is no provider "{name}" to ask what an interrupted apply did.')
        found = provider.read([_request(intents[n]) for n in numbers])
        answers.update(zip(numbers, found, strict=True))
    standing: dict[object, InstanceState | None] = {}
    outcomes: list[Done] = []
    for number, opened in enumerate(intents):
        intent = opened.intent
        before = standing.get(intent.address, opened.prior)
        after = _after(opened, before, answers[number].attributes)
        standing[intent.address] = after
        outcomes.append(Done(intent.address, intent.creation, after, "The apply was interrupted."))
    return outcomes


def _by_provider(intents: Sequence[OpenIntent]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for number, opened in enumerate(intents):
        concerned = opened.intent.planned or _leaving(opened)
        groups.setdefault(concerned.provider if concerned else DEFAULT_PROVIDER, []).append(number)
    return groups


def _leaving(opened: OpenIntent) -> ObjectState | None:
    """The object that an open delete was to remove."""
    if opened.prior is None:
        return None
    return opened.prior.deposed.get(opened.intent.deposed, opened.prior.current)


def _request(opened: OpenIntent) -> ReadRequest:
    """A new object is not remembered by anything yet; the others are as state has them."""
    intent = opened.intent
    remembered: Mapping[str, Any] = {}
    if intent.kind != StepKind.CREATE:
        leaving = _leaving(opened)
        remembered = leaving.attributes if leaving else {}
    return ReadRequest(
        ObjectKey(intent.key_type, intent.key_id, intent.creation), remembered, str(intent.address)
    )


def _after(
    opened: OpenIntent, before: InstanceState | None, found: Mapping[str, Any] | None
) -> InstanceState | None:
    intent = opened.intent
    if intent.kind == StepKind.DELETE:
        if found is not None:
            return before
        return without_deposed(before, intent.deposed) if intent.deposed else with_current(before, None)
    if found is None:
        return before if intent.kind == StepKind.CREATE else with_current(before, None)
    if intent.kind == StepKind.CREATE:
        planned = intent.planned or ObjectState({}, intent.creation)
        made = replace(planned, attributes=found)
        return with_successor(before, made, intent.key_type) if intent.deposed else with_current(before, made)
    current = before.current if before else None
    return with_current(before, replace(current, attributes=found)) if current else before
