"""Outcomes of steps that an interrupted run started, found by reading the objects. The intent of a step is
written before its provider call. An intent without an outcome means that the run ended in between: the object
may have been created, changed or deleted, or not. Only reading it by its key decides: the state is from
before the step, the plan has the intended values, and the provider knows the actual ones.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from nexusform.applying.provider_calls import (
    add_new_current_object,
    get_failed_change,
    merge_note,
    remove_object,
    replace_current_object,
)
from nexusform.configuration.declarations.configuration import DEFAULT_PROVIDER
from nexusform.interfaces.plugins import UNFINISHED_KEY, ObjectKey, Provider, ProviderProblem, ReadRequest, ReadResult
from nexusform.plans.plan import StepKind
from nexusform.resources.address import Address
from nexusform.state.journal import NO_STEP, InstanceOutcome, Intent, OpenStepIntent, RunningOperation
from nexusform.state.objects import InstanceState, ObjectState, get_current_object


def recover_step_outcomes(
    intents: Sequence[OpenStepIntent],
    providers: Mapping[str, Provider],
    operations: Mapping[int, str] = MappingProxyType({}),
) -> list[InstanceOutcome | RunningOperation]:
    """Return the outcome of every open intent, in order, as read now. The outcome of an unfinished step is followed by
    its running operation, as reported earlier (in `operations` by step). Raises ProviderProblem if a provider cannot be
    read: then nothing may be planned.
    """
    answers: dict[int, ReadResult] = {}  # by position in `intents`
    positions_by_provider: dict[str, list[int]] = {}
    for position, open_intent in enumerate(intents):
        target = open_intent.intent.planned or _get_target_object(open_intent)  # a delete plans no object
        positions_by_provider.setdefault(target.provider if target else DEFAULT_PROVIDER, []).append(position)
    for name, positions in positions_by_provider.items():
        provider = providers.get(name)
        if provider is None:
            raise ProviderProblem(f'There is no provider "{name}" to check the result of an interrupted apply.')
        requests = [_build_read_request(intents[position]) for position in positions]
        answers.update(zip(positions, provider.read(requests), strict=True))
    instances: dict[Address, InstanceState | None] = {}
    outcomes: list[InstanceOutcome | RunningOperation] = []
    for position, open_intent in enumerate(intents):
        intent = open_intent.intent
        # Two intents of one address can be open (a replaced deposed object and its successor): the second
        # outcome builds on the first, because an outcome contains the complete instance at its address.
        before = instances.get(intent.address, open_intent.prior)
        instance = _build_instance_as_read(intent, before, answers[position].attributes)
        if not intent.deposed:  # the note belongs to the current object
            instance = _merge_provider_note(instance, intent, answers[position])
        instances[intent.address] = instance
        step = intent.number if _is_step_completed(intent, answers[position]) else NO_STEP  # NO_STEP: not done
        outcomes.append(InstanceOutcome(intent.address, intent.creation, instance, "The apply was interrupted.", step))
        if step == NO_STEP and intent.number != NO_STEP:  # the next apply repeats or continues the step
            outcomes.append(RunningOperation(intent.number, operations.get(intent.number, "")))
    return outcomes


def _is_step_completed(intent: Intent, answer: ReadResult) -> bool:
    """Return whether the step need not be repeated. An update that may be incomplete is repeated."""
    if intent.kind == StepKind.CREATE:
        return answer.attributes is not None and answer.is_settled
    return intent.kind == StepKind.DELETE and answer.attributes is None


def _get_target_object(open_intent: OpenStepIntent) -> ObjectState | None:
    """Return the recorded object of a step: the deposed one of its key, else the current one; None without any."""
    if open_intent.prior is None:
        return None
    return open_intent.prior.deposed.get(open_intent.intent.deposed, open_intent.prior.current)


def _build_read_request(open_intent: OpenStepIntent) -> ReadRequest:
    """Build the read request for the object of the step, by its key at the provider."""
    intent = open_intent.intent
    target = _get_target_object(open_intent)
    planned = intent.planned.attributes if intent.planned else None
    attributes: Mapping[str, Any] = {}
    # A create's object is not recorded yet. The recorded one is its predecessor: a provider with only the state as its
    # source would return the predecessor, and the create would count as done.
    if target is not None and intent.kind != StepKind.CREATE:
        attributes = target.attributes
    return ReadRequest(
        key=ObjectKey(intent.key_type, intent.key_id, intent.creation),
        attributes=attributes,
        address=str(intent.address),
        planned=planned,
        unfinished_change=get_failed_change(target),
        is_being_deleted=intent.kind == StepKind.DELETE,
    )


def _merge_provider_note(instance: InstanceState | None, intent: Intent, answer: ReadResult) -> InstanceState | None:
    """Return the instance with the note of the provider's answer, and tainted after a failed create."""
    current = get_current_object(instance)
    if current is None:  # the object does not exist
        return instance
    unfinished_change = answer.note.get(UNFINISHED_KEY)
    is_running = not unfinished_change or unfinished_change.get("in_progress")  # without a note it may still run
    if intent.kind == StepKind.CREATE and not answer.is_settled and not is_running:  # the create failed
        return replace_current_object(instance, replace(current, tainted=True))
    return replace_current_object(instance, merge_note(current, answer.note))


def _build_instance_as_read(
    intent: Intent, before: InstanceState | None, attributes: Mapping[str, Any] | None
) -> InstanceState | None:
    """Return the instance of the intent from the attributes that were read (None: missing)."""
    if intent.kind == StepKind.DELETE:
        # Only the deleted object is removed: the successor of a deposed one stays.
        return before if attributes is not None else remove_object(before, intent.deposed)
    if intent.kind == StepKind.CREATE:
        return before if attributes is None else _compute_after_create(intent, before, attributes)
    # An update or release may be complete, partial or missing: the attributes as read count. A missing object
    # was removed by another process meanwhile.
    if attributes is None:
        return replace_current_object(before, current=None)
    current = get_current_object(before)
    return before if current is None else replace_current_object(before, replace(current, attributes=attributes))


def _compute_after_create(intent: Intent, before: InstanceState | None, attributes: Mapping[str, Any]) -> InstanceState:
    """Return the new object as read, not as planned, because it includes the platform's values. Dependencies,
    sensitivity and similar belong to the configuration and were written with the intent.
    """
    planned = intent.planned or ObjectState(attributes={}, creation=intent.creation)
    new_object = replace(planned, attributes=attributes)
    if intent.deposed:  # create_before_destroy: the old object is kept until its own delete is recorded
        return add_new_current_object(before, new_object, intent.key_type)
    return replace_current_object(before, new_object)
