"""A step of a plan as a call to its provider."""

from __future__ import annotations

from msgspec import Struct

from nexusform.applying.standing import deposed_key
from nexusform.planning.plan import Action, Change, Step, StepKind
from nexusform.ports import ChangeRequest, ObjectKey, Provider, ProviderAnswer


class ProviderCall(Struct, frozen=True):
    """A step with everything that carrying it out takes.

    `deposed` is the key of the deposed object that a delete removes, "" for the current one.
    """

    step: Step
    change: Change
    provider: Provider
    key: ObjectKey
    deposed: str = ""

    @property
    def keeps_old(self) -> bool:
        """Whether the object that stands becomes deposed when the new one is there."""
        return self.step.kind is StepKind.CREATE and self.change.action is Action.REPLACE_CREATE_FIRST


def call_for(step: Step, change: Change, provider: Provider) -> ProviderCall:
    """The call of a step."""
    return ProviderCall(step, change, provider, object_of(step, change), deposed_of(step, change))


def object_of(step: Step, change: Change) -> ObjectKey:
    """What a step acts on: what is destroyed has the prior creation number, all else the new."""
    leaves = step.kind in (StepKind.DELETE, StepKind.FORGET)
    attributes = step.prior if leaves or step.planned is None else step.planned
    creation = (change.prior_creation if leaves else change.creation) or change.creation
    return ObjectKey(change.address.type, str((attributes or {}).get("id", change.id)), creation)


def deposed_of(step: Step, change: Change) -> str:
    """The key of the deposed object that a step removes, "" when it is about the current one."""
    if step.kind is StepKind.DELETE and change.action is Action.REPLACE_CREATE_FIRST:
        return deposed_key(object_of(step, change))
    return change.deposed


def carry_out(call: ProviderCall) -> ProviderAnswer | None:
    """Ask the provider; None after a delete. Raises ProviderProblem."""
    request = ChangeRequest(call.key, str(call.change.address), call.step.prior, call.step.planned)
    if call.step.kind is StepKind.CREATE:
        return call.provider.create(request)
    if call.step.kind is StepKind.DELETE:
        call.provider.delete(request)
        return None
    return call.provider.update(request)
