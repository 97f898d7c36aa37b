"""What stands at an address before and after a change, and a step of a plan as a call to its provider: small
pure functions on InstanceState.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.configuration.declared.configuration import DEFAULT_PROVIDER
from nexusform.plans.plan import Action, Change, Step, StepKind
from nexusform.ports import UNFINISHED, ChangeRequest, ObjectKey, Provider, ProviderAnswer, StepNews
from nexusform.state.objects import InstanceState, ObjectState

NOTHING = InstanceState(None)


def deposed_key(key: ObjectKey) -> str:
    """The 8-hex name under which an old object waits for its destruction.

    It follows from what the object is, so that a repeated run gives the same.
    """
    return sha256(f"{key.type}\0{key.id}\0{key.creation}".encode()).hexdigest()[:8]


def with_current(instance: InstanceState | None, current: ObjectState | None) -> InstanceState:
    """Another current object (None: none); deposed ones stay."""
    return InstanceState(current, (instance or NOTHING).deposed)


def with_successor(instance: InstanceState | None, new: ObjectState, object_type: str) -> InstanceState:
    """A new current object; the one before it is kept as deposed."""
    before = instance or NOTHING
    if before.current is None or before.current.creation == new.creation:
        # The same object once more: an earlier run found it while it was still being made.
        return InstanceState(new, before.deposed)
    old = before.current
    key = deposed_key(ObjectKey(object_type, str(old.attributes.get("id", "")), old.creation))
    return InstanceState(new, {**before.deposed, key: old})


def without_deposed(instance: InstanceState | None, key: str) -> InstanceState:
    """One deposed object less."""
    before = instance or NOTHING
    return InstanceState(before.current, {k: o for k, o in before.deposed.items() if k != key})


def provider_of(change: Change) -> str:
    """The name of the provider that serves a change."""
    return change.provider or DEFAULT_PROVIDER


def remembered(change: Change, attributes: Mapping[str, Any], *, tainted: bool = False) -> ObjectState:
    """The object that a change leaves, as state records it."""
    return ObjectState(
        attributes=attributes,
        creation=change.creation,
        sensitive=change.sensitive_after,
        dependencies=change.dependencies,
        tainted=tainted,
        create_before_destroy=change.create_before_destroy,
        provider=provider_of(change),
        private=change.private,
    )


class RunTerms(Struct, frozen=True):
    """What providers may know of the run: whether somebody watches who can do what they cannot, and whether
    it is to end soon.
    """

    waits_for_people: bool = False
    stopping: Callable[[], bool] = lambda: False


class ProviderCall(Struct, frozen=True):
    """A step with everything that carrying it out takes.

    `deposed` is the key of the deposed object that a delete removes, "" for the current one. `begun`: see
    ChangeRequest. `terms` are those of the run.
    """

    step: Step
    change: Change
    provider: Provider
    key: ObjectKey
    deposed: str = ""
    begun: str | None = None
    terms: RunTerms = field(default_factory=RunTerms)
    unfinished: Mapping[str, Any] | None = None
    noted: Mapping[str, Any] = field(default_factory=dict)

    @property
    def keeps_old(self) -> bool:
        """Whether the object that stands becomes deposed when the new one is there."""
        return self.step.kind is StepKind.CREATE and self.change.action is Action.REPLACE_CREATE_FIRST


def call_for(
    step: Step,
    change: Change,
    provider: Provider,
    begun: str | None = None,
    terms: RunTerms | None = None,
    before: InstanceState | None = None,
) -> ProviderCall:
    """The call of a step; `before` is what stands at its address."""
    current = before.current if before is not None and step.kind is StepKind.UPDATE else None
    left = _acted_on(step, change, before)
    return ProviderCall(
        step,
        change,
        provider,
        object_of(step, change),
        deposed_of(step, change),
        begun,
        terms or RunTerms(),
        unfinished_of(current),
        (left.private if left is not None else None) or {},
    )


def _acted_on(step: Step, change: Change, before: InstanceState | None) -> ObjectState | None:
    """The object that stands and that a step changes or deletes."""
    if before is None or step.kind is StepKind.CREATE:
        return None
    return before.deposed.get(deposed_of(step, change), before.current)


def unfinished_of(current: ObjectState | None) -> Mapping[str, Any] | None:
    """What an object notes of a change that failed."""
    noted = (current.private or {}).get(UNFINISHED) if current is not None else None
    return noted if isinstance(noted, Mapping) else None


def with_unfinished(current: ObjectState, unfinished: Mapping[str, Any] | None) -> ObjectState:
    """An object that notes this change alone as one that failed, None for none."""
    kept = {name: value for name, value in (current.private or {}).items() if name != UNFINISHED}
    private = {**kept, UNFINISHED: unfinished} if unfinished else kept
    return replace(current, private=private or None)


def with_note(current: ObjectState, note: Mapping[str, Any]) -> ObjectState:
    """An object with more in its private note; what is None there is taken out."""
    if not note:
        return current
    kept = {name: value for name, value in {**(current.private or {}), **note}.items() if value is not None}
    return replace(current, private=kept or None)


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


def carry_out(call: ProviderCall, tell: Callable[[StepNews], None]) -> ProviderAnswer | None:
    """Ask the provider, who tells what happens meanwhile; None after a delete. Raises ProviderProblem."""
    request = ChangeRequest(
        call.key,
        str(call.change.address),
        call.step.prior,
        call.step.planned,
        call.step.kind is StepKind.RELEASE,
        call.change.after,
        call.begun,
        tell,
        call.terms.waits_for_people,
        call.terms.stopping,
        call.unfinished,
        call.noted,
        call.change.ignored,
    )
    if call.step.kind is StepKind.CREATE:
        return call.provider.create(request)
    if call.step.kind is StepKind.DELETE:
        call.provider.delete(request)
        return None
    return call.provider.update(request)
