"""Journal of one apply and the resulting state; its first records precede any provider call.

The module also finds the outcomes of steps that an interrupted run started, by reading the objects.
The intent of a step is written before its provider call. An intent without an outcome means that
the run ended in between: the object may have been created, changed or deleted, or not. Only reading
it by its key decides: the state is from before the step, the plan has the intended values, and the
provider knows the actual ones.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from nexusform.applying.provider_calls import (
    ProviderCall,
    add_new_current_object,
    build_object_state,
    compute_deposed_key,
    get_failed_change,
    get_provider_name,
    merge_note,
    remove_object,
    replace_current_object,
)
from nexusform.configuration.declarations.configuration import DEFAULT_PROVIDER
from nexusform.interfaces.plugins import (
    ObjectKey,
    Provider,
    ProviderProblem,
    ReadRequest,
    ReadResult,
)
from nexusform.interfaces.state_storage import (
    BackendProblem,
    BatchJournalBackend,
    CheckpointBackend,
    StateBackend,
)
from nexusform.json_data.plain_data import replace_unknown
from nexusform.plans.plan import Action, Change, Plan, StepKind
from nexusform.resources.address import Address
from nexusform.schemas.block_schema import UNFINISHED_KEY
from nexusform.state import state_codec
from nexusform.state.journal import (
    NO_STEP,
    ApplyStart,
    InstanceMoves,
    InstanceOutcome,
    Intent,
    OpenStepIntent,
    Record,
    RecordSequence,
    RunningOperation,
    encode_journal_record,
)
from nexusform.state.objects import InstanceState, ObjectState, State, get_current_object
from nexusform.state.state_draft import StateDraft, UnfinishedApply


class ApplyRecorder:
    """Recorder of records one by one; `flush` makes all of them durable at once.

    A step may start only after a flush of its intent. Outcomes may wait for the next flush: the
    journal is ordered, so nothing follows an outcome not on disk.
    """

    def __init__(
        self,
        backend: StateBackend,
        base: State,
        remaining: UnfinishedApply | None = None,
        writer: str = "",
        journal_end: str | None = None,
    ) -> None:
        """Start from the state `base`.

        `remaining` is the rest of a plan with an apply that was interrupted. `writer` is a new id:
        records have positions of this writer; "" for none. `journal_end` names the last record of
        the journal, see RecordPosition.
        """
        self._backend = backend
        self._draft = StateDraft(base, remaining)
        # Records not written yet.
        self._lines: list[bytes] = []
        # Whether a flush succeeded; no step starts before.
        self.has_written = False
        self._writer = writer
        # Of sequences of records: the journal after a checkpoint does not need those before it.
        self._sequence_count = 0
        self._sequence = RecordSequence(f"{writer}.0", journal_end)

    def get_state(self) -> State:
        """Return the current state."""
        return self._draft.build_state()

    def get_unfinished_apply(self) -> UnfinishedApply | None:
        """Return the plan of the apply with its completed steps; None if the apply is completed."""
        return self._draft.build_unfinished_apply()

    def get_instance(self, address: Address) -> InstanceState | None:
        """Return the current instance at an address."""
        return self._draft.get_instance(address)

    def add_record(self, record: Record) -> None:
        """Add one record; it is durable after the next flush."""
        self._draft.apply_record(record)
        self._lines.append(self._encode_record(record))

    def _encode_record(self, record: Record) -> bytes:
        """Encode a record with its position in the sequence."""
        if not self._writer:
            return encode_journal_record(record)
        return self._sequence.encode(record)

    def _begin_sequence(self) -> None:
        """Start a new sequence after the document: its records continue the one before it."""
        self._sequence_count += 1
        writer = f"{self._writer}.{self._sequence_count}"
        self._sequence = RecordSequence(writer, self._sequence.end, follows_document=True)

    def record_intent(self, call: ProviderCall) -> None:
        """Record that a step is about to start.

        The record is written before the provider call: an intent without an effect costs one read
        after a crash, an effect without an intent would be an unknown object.
        """
        change = call.change
        step = call.step
        planned = None
        if step.kind is not StepKind.DELETE:
            # Values known only afterwards are null; resolving an intent takes the attributes
            # from the provider.
            planned = build_object_state(change, replace_unknown(step.attributes))
        deposed_key = self._find_or_create_deposed_key(call)
        self.add_record(
            Intent(
                address=change.address,
                kind=step.kind.value,
                key_type=call.key.type,
                key_id=call.key.id,
                creation=call.key.creation,
                planned=planned,
                deposed=deposed_key,
                number=step.id,
            )
        )

    def record_operation(self, call: ProviderCall, operation: str) -> None:
        """Record the provider's operation of a running step.

        The next run finds it again if this run ends first.
        """
        self.add_record(RunningOperation(call.step.id, operation))

    def encode_kept_records(self, remaining: UnfinishedApply | None) -> list[bytes]:
        """Encode the records that a journal keeps when the document is written.

        They are the intents of steps without an outcome, and those of the `remaining` apply. A new
        sequence starts with them.
        """
        records: list[Record] = [
            open_intent.intent for open_intent in self._draft.list_open_intents()
        ]
        records += remaining.build_records() if remaining else []
        self._begin_sequence()
        return [self._encode_record(record) for record in records]

    def list_operations(self) -> Mapping[int, str]:
        """Return the operations of unfinished steps started by an earlier run, by step id."""
        remaining = self._draft.build_unfinished_apply()
        return remaining.running_operations if remaining else {}

    def record_outcome(
        self, call: ProviderCall, instance: InstanceState | None, error: str
    ) -> None:
        """Record the end of a step and the instance at its address.

        The whole instance is written, not the difference: replaying an outcome twice gives
        the same state.
        """
        # A failed step is not completed.
        number = NO_STEP if error else call.step.id
        self.add_record(
            InstanceOutcome(call.change.address, call.key.creation, instance, error, number)
        )

    def flush(self) -> None:
        """Write all pending records in order.

        A journal cut off by a crash has the first events without gaps. Then write a checkpoint if
        it is time. Raises BackendProblem; the records stay pending then.
        """
        if not self._lines:
            # Nothing is pending.
            return
        if isinstance(self._backend, BatchJournalBackend):
            self._backend.append_all(self._lines)
        else:
            for line in self._lines:
                self._backend.append(line)
        self._lines = []
        self.has_written = True
        if isinstance(self._backend, CheckpointBackend) and self._backend.needs_checkpoint():
            # Some servers reject two documents with one serial: the next document after this one
            # gets the next serial.
            state = self.get_state()
            remaining = self._draft.build_unfinished_apply()
            # Before the write: it may succeed although its answer is lost.
            kept_lines = self.encode_kept_records(
                remaining and remaining.replace_serial(state.serial + 1)
            )
            try:
                self._backend.write_checkpoint(state_codec.encode_state(state), kept_lines)
            except BackendProblem:
                # Perhaps the journal does not have all of them. A repeated record counts once.
                self._lines = kept_lines
                raise
            next_serial = ApplyStart(
                state.lineage,
                state.serial + 1,
                state.nexusform_version,
                state.catalogue,
                providers=state.providers,
            )
            self.add_record(next_serial)

    def _find_or_create_deposed_key(self, call: ProviderCall) -> str:
        """Return the key of the deposed object of a step; "" for none.

        The object becomes deposed in the step, or is a deposed one removed by it.
        """
        # No create before destroy: a deposed object may only be removed.
        if not call.keeps_old:
            return call.deposed
        instance = self._draft.get_instance(call.change.address)
        # The old object is missing: none becomes deposed.
        if instance is None or instance.current is None:
            return ""
        # The key derives from the object, so that the run which resolves this intent uses
        # the same key.
        old = instance.current
        return compute_deposed_key(
            ObjectKey(call.key.type, str(old.attributes.get("id", "")), old.creation)
        )


def build_start_record(plan: Plan, state: State, lineage: str, plan_digest: str = "") -> ApplyStart:
    """Return the first record of an apply.

    A new state gets this `lineage`; `plan_digest` is that of a saved plan.
    """
    return ApplyStart(
        lineage=state.lineage or lineage,
        serial=state.serial + 1,
        nexusform_version=plan.start.nexusform_version,
        catalogue=plan.start.catalogue,
        plan_digest=plan_digest,
        providers=state.providers,
    )


def build_opening_records(plan: Plan, state: State) -> list[Record]:
    """Return the records between the start and the first step.

    Moves, observed objects, and changes without a provider. A change without a provider is an
    import, or new metadata such as the dependencies of an object.
    """
    # With the records so far.
    draft = StateDraft(state)
    records: list[Record] = []
    # (old, new address), each once and in order; values are unused.
    pairs = dict.fromkeys(plan.address_moves)
    for change in plan.changes:
        if change.previous_address:
            pairs[change.previous_address, change.address] = None
    moves = tuple((old, new) for old, new in pairs if old in state.instances and old != new)
    if moves:
        records.append(InstanceMoves(moves))
        draft.apply_record(records[-1])
    new_addresses = dict(moves)
    for observed_address, current in plan.observed.refreshed_objects.items():
        address = new_addresses.get(observed_address, observed_address)
        instance = draft.get_instance(address)
        recorded = get_current_object(instance)
        # `current` is None if the object is gone.
        known_object = current or recorded
        if current != recorded and known_object is not None:
            records.append(
                InstanceOutcome(
                    address, known_object.creation, replace_current_object(instance, current)
                )
            )
            draft.apply_record(records[-1])
    for change in plan.changes:
        updated = _apply_metadata_change(change, draft.get_instance(change.address))
        if updated is not None:
            records.append(InstanceOutcome(change.address, change.creation, updated))
    return records


def _apply_metadata_change(change: Change, instance: InstanceState | None) -> InstanceState | None:
    """Return the instance after the part of a change without a provider call.

    Return None if this part changes nothing.
    """
    # Only the provider deletes it.
    if change.deposed:
        return None
    current = get_current_object(instance)
    is_unrecorded = current is None or current.provider != get_provider_name(change)
    if change.importing and change.before is not None and is_unrecorded:
        # The import comes first, even if the plan replaces the imported object.
        imported = replace(
            build_object_state(change, change.before), creation=change.prior_creation
        )
        return replace_current_object(instance, imported)
    # The steps of an action record everything.
    if current is None or change.action is not Action.NO_OP:
        return None
    updated = replace(
        current,
        sensitive=change.sensitive_after,
        dependencies=change.dependencies,
        create_before_destroy=change.create_before_destroy,
        skip_destroy=change.skip_destroy,
        private=change.private if change.private is not None else current.private,
    )
    return replace_current_object(instance, updated) if updated != current else None


def _read_intent_objects(
    intents: Sequence[OpenStepIntent],
    providers: Mapping[str, Provider],
    operations: Mapping[int, str] | None,
    lineage: str,
) -> dict[int, ReadResult]:
    """Read the object of each intent as it is now, by one call per provider.

    Return it by position in `intents`.
    """
    answers: dict[int, ReadResult] = {}
    positions_by_provider: dict[str, list[int]] = {}
    for position, open_intent in enumerate(intents):
        # A delete plans no object.
        target = open_intent.intent.planned or _get_target_object(open_intent)
        provider_name = target.provider if target else DEFAULT_PROVIDER
        positions_by_provider.setdefault(provider_name, []).append(position)
    for name, positions in positions_by_provider.items():
        provider = providers.get(name)
        if provider is None:
            raise ProviderProblem(
                f'There is no provider "{name}" to check the result of an interrupted apply.'
            )
        requests = [
            _build_read_request(intents[position], operations, lineage) for position in positions
        ]
        answers.update(zip(positions, provider.read(requests), strict=True))
    return answers


def recover_step_outcomes(
    intents: Sequence[OpenStepIntent],
    providers: Mapping[str, Provider],
    operations: Mapping[int, str] | None = None,
    lineage: str = "",
) -> list[InstanceOutcome | RunningOperation]:
    """Return the outcome of every open intent, in order, as read now.

    The intent of a step is open if its start is recorded, but not its end. The outcome of an
    unfinished step is followed by its running operation, taken from `operations` (by step; None if
    the journal has none). `lineage` is that of the state. Raises ProviderProblem if a provider
    cannot be read: then nothing may be planned.
    """
    # Answers by position in `intents`.
    answers = _read_intent_objects(intents, providers, operations, lineage)
    instances: dict[Address, InstanceState | None] = {}
    outcomes: list[InstanceOutcome | RunningOperation] = []
    for position, open_intent in enumerate(intents):
        intent = open_intent.intent
        # Two intents of one address can be open (a replaced deposed object and its successor):
        # the second outcome builds on the first, because an outcome contains the complete
        # instance at its address.
        before = instances.get(intent.address, open_intent.prior)
        instance = _build_instance_as_read(intent, before, answers[position].attributes)
        # Only the current object gets the private note read by the provider.
        if not intent.deposed:
            instance = _merge_provider_note(instance, intent, answers[position])
        instances[intent.address] = instance
        # NO_STEP: not done.
        step = intent.number if _is_step_completed(intent, answers[position]) else NO_STEP
        outcomes.append(
            InstanceOutcome(
                intent.address, intent.creation, instance, "The apply was interrupted.", step
            )
        )
        # The next apply repeats or continues the step.
        if step == NO_STEP and intent.number != NO_STEP:
            operation = (operations or {}).get(intent.number, "")
            outcomes.append(RunningOperation(intent.number, operation))
    return outcomes


def _is_step_completed(intent: Intent, answer: ReadResult) -> bool:
    """Return whether the step need not be repeated.

    A create is completed if the object exists and no change of it is in progress, a delete if it is
    missing (no attributes). An update that may be incomplete is repeated.
    """
    exists = answer.attributes is not None
    if intent.kind == StepKind.CREATE:
        return exists and answer.is_settled
    return intent.kind == StepKind.DELETE and not exists


def _get_target_object(open_intent: OpenStepIntent) -> ObjectState | None:
    """Return the recorded object of a step: the deposed one of its key, else the current one.

    Return None without any.
    """
    if open_intent.prior is None:
        return None
    return open_intent.prior.deposed.get(open_intent.intent.deposed, open_intent.prior.current)


def _build_read_request(
    open_intent: OpenStepIntent, operations: Mapping[int, str] | None, lineage: str
) -> ReadRequest:
    """Build the read request for the object of the step, by its key at the provider."""
    intent = open_intent.intent
    target = _get_target_object(open_intent)
    planned = intent.planned.attributes if intent.planned else None
    attributes: Mapping[str, Any] = {}
    # A create's object is not recorded yet. The recorded one is its predecessor: a provider with
    # only the state as its source would return the predecessor, and the create would count as done.
    if target is not None and intent.kind != StepKind.CREATE:
        attributes = target.attributes
    return ReadRequest(
        key=ObjectKey(intent.key_type, intent.key_id, intent.creation),
        attributes=attributes,
        address=str(intent.address),
        planned=planned,
        unfinished_change=get_failed_change(target),
        is_being_deleted=intent.kind == StepKind.DELETE,
        lineage=lineage,
        operation=operations.get(intent.number, "") if operations is not None else None,
    )


def _merge_provider_note(
    instance: InstanceState | None, intent: Intent, answer: ReadResult
) -> InstanceState | None:
    """Return the instance with the private note of the provider's answer.

    After a failed create it is tainted instead: the next plan replaces it, so its note
    is not needed.
    """
    current = get_current_object(instance)
    # The object does not exist.
    if current is None:
        return instance
    unfinished_change = answer.note.get(UNFINISHED_KEY)
    # No end is known: it may still run.
    is_running = not unfinished_change or unfinished_change.get("in_progress")
    # The create failed.
    if intent.kind == StepKind.CREATE and not answer.is_settled and not is_running:
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
    # An update or release may be complete, partial or missing: the attributes as read count. A
    # missing object was removed by another process meanwhile.
    if attributes is None:
        return replace_current_object(before, current=None)
    current = get_current_object(before)
    return (
        before
        if current is None
        else replace_current_object(before, replace(current, attributes=attributes))
    )


def _compute_after_create(
    intent: Intent, before: InstanceState | None, attributes: Mapping[str, Any]
) -> InstanceState:
    """Return the new object as read, not as planned, because it includes the platform's values.

    Dependencies, sensitivity and similar belong to the configuration and were written
    with the intent.
    """
    # Without a planned object in the intent, only the creation number is known (and the
    # attributes just read).
    planned = intent.planned or ObjectState(attributes={}, creation=intent.creation)
    new_object = replace(planned, attributes=attributes)
    # With `create_before_destroy`, the old object is kept until its own delete is recorded.
    if intent.deposed:
        return add_new_current_object(before, new_object, intent.key_type)
    return replace_current_object(before, new_object)
