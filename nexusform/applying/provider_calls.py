"""Instances before and after a change, and steps as provider calls.

They are small pure functions on InstanceState.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.applying.events import DEFAULT_OPTIONS, ExecutionOptions
from nexusform.configuration.declarations.configuration import DEFAULT_PROVIDER
from nexusform.interfaces.plugins import (
    ChangeRequest,
    ChangeResult,
    ObjectKey,
    Provider,
    StepProgress,
)
from nexusform.plans.plan import Action, Change, Step, StepKind
from nexusform.schemas.block_schema import UNFINISHED_KEY
from nexusform.state.objects import (
    EMPTY_INSTANCE,
    InstanceState,
    ObjectState,
    get_current_object,
    replace_note_entry,
)


def compute_deposed_key(key: ObjectKey) -> str:
    """Return the 8-hex key of a deposed object, the same in a repeated run."""
    return sha256(f"{key.type}\0{key.id}\0{key.creation}".encode()).hexdigest()[:8]


def replace_current_object(
    instance: InstanceState | None, current: ObjectState | None
) -> InstanceState:
    """Return the instance with another current object (None: none); deposed ones stay."""
    return InstanceState(current, (instance or EMPTY_INSTANCE).deposed)


def add_new_current_object(
    instance: InstanceState | None, new: ObjectState, object_type: str
) -> InstanceState:
    """Return the instance with a new current object; the previous one becomes deposed."""
    before = instance or EMPTY_INSTANCE
    # None, or `new` itself while being created.
    if before.current is None or before.current.creation == new.creation:
        return InstanceState(new, before.deposed)
    old = before.current
    key = compute_deposed_key(
        ObjectKey(object_type, str(old.attributes.get("id", "")), old.creation)
    )
    return InstanceState(new, {**before.deposed, key: old})


def remove_object(instance: InstanceState | None, key: str) -> InstanceState:
    """Return the instance without the deposed object of this key; "" removes the current object."""
    before = instance or EMPTY_INSTANCE
    if not key:
        return InstanceState(current=None, deposed=before.deposed)
    remaining = dict(before.deposed)
    remaining.pop(key, None)
    return InstanceState(before.current, remaining)


def get_provider_name(change: Change) -> str:
    """Return the name of the provider of a change."""
    return change.provider or DEFAULT_PROVIDER


def build_object_state(
    change: Change, attributes: Mapping[str, Any], *, is_tainted: bool = False
) -> ObjectState:
    """Build the object of a change as recorded in state."""
    return ObjectState(
        attributes=attributes,
        creation=change.creation,
        sensitive=change.sensitive_after,
        dependencies=change.dependencies,
        tainted=is_tainted,
        create_before_destroy=change.create_before_destroy,
        provider=get_provider_name(change),
        private=change.private,
        skip_destroy=change.skip_destroy,
    )


class ProviderCall(Struct, frozen=True):
    """Step with all data for its provider call.

    `deposed` is the key of the deposed object that a delete removes, "" for the current one.
    `resumed_operation` was started by an earlier run, `unfinished` is an earlier failed change.
    `recorded_objects` are the attributes of the objects at the address in the state.
    """

    step: Step
    change: Change
    provider: Provider
    key: ObjectKey
    deposed: str = ""
    resumed_operation: str | None = None
    options: ExecutionOptions = DEFAULT_OPTIONS
    unfinished: Mapping[str, Any] | None = None
    note: Mapping[str, Any] = field(default_factory=dict)
    is_repeated_create: bool = False
    recorded_objects: tuple[Mapping[str, Any], ...] = ()

    @property
    def keeps_old(self) -> bool:
        """Whether the existing object becomes deposed when the new one exists."""
        return (
            self.step.kind is StepKind.CREATE and self.change.action is Action.REPLACE_CREATE_FIRST
        )


def build_call(
    step: Step,
    change: Change,
    provider: Provider,
    resumed_operation: str | None = None,
    options: ExecutionOptions = DEFAULT_OPTIONS,
    before: InstanceState | None = None,
) -> ProviderCall:
    """Build the call of a step.

    `before` is the instance at its address: updates and deletes get their private note from
    it. An update also finishes an earlier change that failed. `resumed_operation` was started
    by an earlier run.
    """
    deposed_key = get_deposed_key(step, change)
    failed_change: Mapping[str, Any] | None = None
    private_note: Mapping[str, Any] = {}
    current = get_current_object(before)
    # The object of a failed create is tainted and has the creation number of this step; a
    # predecessor has another one.
    is_repeated_create = False
    if step.kind is StepKind.CREATE and current is not None:
        is_repeated_create = current.tainted and current.creation == change.creation
    if before is not None and step.kind is not StepKind.CREATE:
        target = before.deposed.get(deposed_key, before.current)
        private_note = target.note if target is not None else {}
        failed_change = (
            get_failed_change(before.current) if step.kind is StepKind.UPDATE else None
        )  # to finish
    return ProviderCall(
        step=step,
        change=change,
        provider=provider,
        key=build_object_key(step, change),
        deposed=deposed_key,
        resumed_operation=resumed_operation,
        options=options,
        unfinished=failed_change,
        note=private_note,
        is_repeated_create=is_repeated_create,
        recorded_objects=_list_recorded_objects(before),
    )


def _list_recorded_objects(instance: InstanceState | None) -> tuple[Mapping[str, Any], ...]:
    """Return the attributes of the current and the deposed objects of an instance."""
    if instance is None:
        return ()
    deposed = [recorded.attributes for recorded in instance.deposed.values()]
    current = [instance.current.attributes] if instance.current is not None else []
    return (*current, *deposed)


def get_failed_change(current: ObjectState | None) -> Mapping[str, Any] | None:
    """Return the recorded failed change of an object; None without one."""
    unfinished = current.note.get(UNFINISHED_KEY) if current is not None else None
    return unfinished if isinstance(unfinished, Mapping) else None


def set_failed_change(current: ObjectState, unfinished: Mapping[str, Any] | None) -> ObjectState:
    """Return an object with this failed change in its private note; None removes the entry."""
    return replace(
        current, private=replace_note_entry(current.private, UNFINISHED_KEY, unfinished or {})
    )


def merge_note(current: ObjectState, note: Mapping[str, Any]) -> ObjectState:
    """Return an object with these entries added to its private note.

    They replace entries of the same name; an entry of None removes it. An empty note is
    recorded as None.
    """
    if not note:
        return current
    merged = {**current.note, **note}
    entries = {name: value for name, value in merged.items() if value is not None}
    return replace(current, private=entries or None)


def build_object_key(step: Step, change: Change) -> ObjectKey:
    """Return the key of a step's object, with the prior creation number if it is destroyed."""
    is_removal = step.kind in (StepKind.DELETE, StepKind.FORGET)
    creation = change.prior_creation if is_removal else change.creation
    return ObjectKey(change.address.type, str(step.attributes.get("id", change.id)), creation)


def get_deposed_key(step: Step, change: Change) -> str:
    """Return the key of the deposed object that a step removes, "" for the current one."""
    # Deposed by an earlier step.
    if step.kind is StepKind.DELETE and change.action is Action.REPLACE_CREATE_FIRST:
        return compute_deposed_key(build_object_key(step, change))
    return change.deposed


def build_request(
    call: ProviderCall, report: Callable[[StepProgress], None] = lambda _progress: None
) -> ChangeRequest:
    """Build the request of a call, which reports progress meanwhile."""
    write_only = call.options.write_only.get(str(call.change.address), {})
    return ChangeRequest(
        key=call.key,
        address=str(call.change.address),
        prior=call.step.prior,
        planned=call.step.planned,
        is_release=call.step.kind is StepKind.RELEASE,
        final_attributes=call.change.after,
        resumed_operation=call.resumed_operation,
        report_progress=report,
        has_operator=call.options.waits_for_user,
        should_stop=call.options.should_stop,
        unfinished_change=call.unfinished,
        private_note=call.note,
        ignored_paths=call.change.ignored_paths,
        planned_note=call.change.note,
        is_repeated_create=call.is_repeated_create,
        is_sensitive=bool(
            call.change.sensitive_before or call.change.sensitive_after or write_only
        ),
        write_only=write_only,
        lineage=call.options.lineage,
        recorded_objects=call.recorded_objects,
        start_values=call.options.start_values.get(str(call.change.address), {}),
    )


def call_provider(
    call: ProviderCall, report: Callable[[StepProgress], None]
) -> ChangeResult | None:
    """Call the provider, which reports progress meanwhile; None after a delete.

    Raises ProviderProblem.
    """
    request = build_request(call, report)
    if call.step.kind is StepKind.CREATE:
        return call.provider.create(request)
    if call.step.kind is StepKind.DELETE:
        call.provider.delete(request)
        return None
    # Or a release: an update by fewer VMs.
    return call.provider.update(request)
