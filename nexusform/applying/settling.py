"""What became of steps that a killed run had begun: look the objects up.

Before a step called its provider its intent was written down. An intent without an outcome means
that the run ended in between: the object may have been made, changed or removed, or not. Reading
it by its key tells, and nothing else does: the state is as before the step, the plan says what was
hoped for, and only the provider knows what is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from nexusform.address import Address
from nexusform.applying.standing import (
    unfinished_of,
    with_current,
    with_note,
    with_successor,
    without_deposed,
)
from nexusform.configuration.declared.configuration import DEFAULT_PROVIDER
from nexusform.plans.plan import StepKind
from nexusform.ports import UNFINISHED, ObjectKey, Provider, ProviderProblem, ReadAnswer, ReadRequest
from nexusform.state.journal import NO_STEP, Done, Intent, OpenIntent, UnderWay
from nexusform.state.objects import InstanceState, ObjectState


def settle(
    intents: Sequence[OpenIntent],
    providers: Mapping[str, Provider],
    operations: Mapping[int, str] | None = None,
) -> list[Done | UnderWay]:
    """An outcome for every open intent, in their order.

    `providers` are by the name that the objects carry. `operations` are those that providers told of steps
    before the run ended. Whoever does a step once more, because it did not take effect or goes on still, is
    told that it was begun, and of its operation. Raises ProviderProblem when a provider cannot be asked: then
    nothing is known, and nothing may be planned.
    """
    answers: dict[int, ReadAnswer] = {}
    for name, numbers in _by_provider(intents).items():
        provider = providers.get(name)
        if provider is None:
            raise ProviderProblem(f'There is no provider "{name}" to ask what an interrupted apply did.')
        requests = [_request(intents[number]) for number in numbers]
        answers.update(zip(numbers, provider.read(requests), strict=True))
    instances: dict[Address, InstanceState | None] = {}
    outcomes: list[Done | UnderWay] = []
    for number, opened in enumerate(intents):
        intent = opened.intent
        # Two intents of one address can be open (a replaced deposed object and its successor): the
        # second outcome builds on the first, for an outcome says in full what stands at its address.
        before = instances.get(intent.address, opened.prior)
        after = _after(intent, before, answers[number].attributes)
        if not intent.deposed:
            after = _noted(after, intent, answers[number])
        instances[intent.address] = after
        step = intent.number if _took_effect(intent, answers[number]) else NO_STEP
        outcomes.append(Done(intent.address, intent.creation, after, "The apply was interrupted.", step))
        if step == NO_STEP and intent.number != NO_STEP:
            outcomes.append(UnderWay(intent.number, (operations or {}).get(intent.number, "")))
    return outcomes


def _took_effect(intent: Intent, answer: ReadAnswer) -> bool:
    """Whether the step need not be done again. An update that may be half done is: it says what is to be."""
    if intent.kind == StepKind.CREATE:
        return answer.attributes is not None and answer.settled
    return intent.kind == StepKind.DELETE and answer.attributes is None


def _by_provider(intents: Sequence[OpenIntent]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for number, opened in enumerate(intents):
        # A delete plans nothing; the object that was to leave knows who keeps it.
        concerned = opened.intent.planned or _leaving(opened)
        groups.setdefault(concerned.provider if concerned else DEFAULT_PROVIDER, []).append(number)
    return groups


def _leaving(opened: OpenIntent) -> ObjectState | None:
    """The object that an open delete was to remove."""
    if opened.prior is None:
        return None
    return opened.prior.deposed.get(opened.intent.deposed, opened.prior.current)


def _request(opened: OpenIntent) -> ReadRequest:
    """What to look for: the object that the step acted on, by the key that it gave to the provider."""
    intent = opened.intent
    # A new object is not remembered by anything yet. What stands at its address is another one (of the
    # same id under create_before_destroy): a provider that only echoes what it is told would find that one
    # and call the create done.
    remembered: Mapping[str, Any] = {}
    planned = intent.planned.attributes if intent.planned else None
    if intent.kind != StepKind.CREATE:
        acted_on = _leaving(opened)
        remembered = acted_on.attributes if acted_on else {}
    return ReadRequest(
        ObjectKey(intent.key_type, intent.key_id, intent.creation),
        remembered,
        str(intent.address),
        planned,
        unfinished=unfinished_of(_leaving(opened)),
        going=intent.kind == StepKind.DELETE,
    )


def _noted(instance: InstanceState | None, intent: Intent, answer: ReadAnswer) -> InstanceState | None:
    """What stands, with what its provider notes of it: that the hub, say, is not done with it yet. What
    failed while it was made is tainted, as where the apply lived to see it.
    """
    if instance is None or instance.current is None:
        return instance
    unfinished = answer.note.get(UNFINISHED) or {"goes_on": True}
    if intent.kind == StepKind.CREATE and not answer.settled and not unfinished.get("goes_on"):
        return with_current(instance, replace(instance.current, tainted=True))
    return with_current(instance, with_note(instance.current, answer.note))


def _after(
    intent: Intent, before: InstanceState | None, attributes: Mapping[str, Any] | None
) -> InstanceState | None:
    """What stands at the intent's address, given what the provider found under its key (None: nothing)."""
    if intent.kind == StepKind.DELETE:
        return before if attributes is not None else _after_delete(intent, before)
    if intent.kind == StepKind.CREATE:
        return before if attributes is None else _after_create(intent, before, attributes)
    # An update or release may have taken effect, in part or not at all: what was found counts. An object
    # that is gone was removed by somebody else meanwhile, as a refresh would notice, too.
    if attributes is None:
        return with_current(before, None)
    if before is None or before.current is None:
        return before
    return with_current(before, replace(before.current, attributes=attributes))


def _after_delete(intent: Intent, before: InstanceState | None) -> InstanceState:
    """Only the object that was to leave is taken out: beside a deposed one its successor stands."""
    if intent.deposed:
        return without_deposed(before, intent.deposed)
    return with_current(before, None)


def _after_create(
    intent: Intent, before: InstanceState | None, attributes: Mapping[str, Any]
) -> InstanceState:
    """The new object as it was found, not as it was planned: what the platform chose is in there.

    Dependencies, sensitivity and the like are the configuration's and were written with the intent.
    """
    planned = intent.planned or ObjectState({}, intent.creation)
    made = replace(planned, attributes=attributes)
    # With create_before_destroy the old object still stands; it is kept until its own delete is recorded.
    return with_successor(before, made, intent.key_type) if intent.deposed else with_current(before, made)
