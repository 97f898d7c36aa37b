"""Journal of one apply and the resulting state; its first records precede any provider call."""

from collections.abc import Mapping

from msgspec.structs import replace

from nexusform.applying.provider_calls import (
    ProviderCall,
    build_object_state,
    compute_deposed_key,
    get_provider_name,
    replace_current_object,
)
from nexusform.interfaces.plugins import ObjectKey
from nexusform.interfaces.state_storage import BatchJournalBackend, CheckpointBackend, StateBackend
from nexusform.json_data.plain_data import replace_unknown
from nexusform.plans.plan import Action, Change, Plan, StepKind
from nexusform.resources.address import Address
from nexusform.state import state_codec
from nexusform.state.journal import (
    NO_STEP,
    ApplyStart,
    InstanceMoves,
    InstanceOutcome,
    Intent,
    Record,
    RunningOperation,
    encode_journal_record,
)
from nexusform.state.objects import InstanceState, State, get_current_object
from nexusform.state.state_draft import StateDraft, UnfinishedApply


class ApplyRecorder:
    """Recorder of records one by one; `flush` makes all of them durable at once. A step may start only after
    a flush that follows its intent. Outcomes may wait for the next flush: the journal is ordered, so nothing
    can follow an outcome that is not on disk.
    """

    def __init__(self, backend: StateBackend, base: State, remaining: UnfinishedApply | None = None) -> None:
        self._backend = backend
        self._draft = StateDraft(base, remaining)
        self._lines: list[bytes] = []
        self.has_written = False  # whether anything may follow the previous content

    def get_state(self) -> State:
        """Return the current state."""
        return self._draft.build_state()

    def get_unfinished_apply(self) -> UnfinishedApply | None:
        """Return the remaining part of the plan."""
        return self._draft.build_unfinished_apply()

    def get_instance(self, address: Address) -> InstanceState | None:
        """Return the current instance at an address."""
        return self._draft.get_instance(address)

    def add_record(self, record: Record) -> None:
        """Add one record; it is durable after the next flush."""
        self._draft.apply_record(record)
        self._lines.append(encode_journal_record(record))

    def record_intent(self, call: ProviderCall) -> None:
        """Record that a step is about to start. Written before the provider call: an intent without an effect
        costs one read after a crash, an effect without an intent would be an unknown object.
        """
        change, step = call.change, call.step
        planned = None
        if step.kind is not StepKind.DELETE:
            # Values known only afterwards are null; resolving an intent takes the attributes from the provider.
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
        """Record the provider's operation of a running step, to find it again if this run ends first."""
        self.add_record(RunningOperation(call.step.id, operation))

    def list_open_intents(self) -> list[Record]:
        """Return the intents of steps without an outcome, which a journal must keep."""
        return [open_intent.intent for open_intent in self._draft.list_open_intents()]

    def list_operations(self) -> Mapping[int, str]:
        """Return the operations of unfinished steps started by an earlier run, by step id."""
        remaining = self._draft.build_unfinished_apply()
        return remaining.running_operations if remaining else {}

    def record_outcome(self, call: ProviderCall, instance: InstanceState | None, error: str) -> None:
        """Record the end of a step and the instance at its address. The whole instance is written, not the
        difference: replaying an outcome twice gives the same state.
        """
        number = NO_STEP if error else call.step.id
        self.add_record(InstanceOutcome(call.change.address, call.key.creation, instance, error, number))

    def flush(self) -> None:
        """Write all pending records in order, so a journal cut off by a crash has a prefix of the events; then write a
        checkpoint if it is time. Raises BackendProblem; the records stay pending then.
        """
        if not self._lines:
            return  # nothing is pending
        if isinstance(self._backend, BatchJournalBackend):
            self._backend.append_all(self._lines)
        else:
            for line in self._lines:
                self._backend.append(line)
        self._lines = []
        self.has_written = True
        if isinstance(self._backend, CheckpointBackend) and self._backend.needs_checkpoint():
            # Some servers reject two documents with one serial: the next document after this one gets the next serial.
            state = self.get_state()
            remaining = self._draft.build_unfinished_apply()
            kept_records = self.list_open_intents()
            kept_records += remaining.replace_serial(state.serial + 1).build_records() if remaining else []
            self._backend.write_checkpoint(
                state_codec.encode_state(state), [encode_journal_record(record) for record in kept_records]
            )
            next_serial = ApplyStart(
                state.lineage, state.serial + 1, state.nexusform_version, state.catalogue, providers=state.providers
            )
            self.add_record(next_serial)

    def _find_or_create_deposed_key(self, call: ProviderCall) -> str:
        """Return the key of the object becoming deposed in a step, or of the deposed one removed by it; "" for none."""
        if not call.keeps_old:  # no create before destroy: a deposed object may only be removed
            return call.deposed
        instance = self._draft.get_instance(call.change.address)
        if instance is None or instance.current is None:  # the old object is missing: none becomes deposed
            return ""
        # The key derives from the object, so that the run which resolves this intent uses the same key.
        old = instance.current
        return compute_deposed_key(ObjectKey(call.key.type, str(old.attributes.get("id", "")), old.creation))


def build_start_record(plan: Plan, state: State, lineage: str, plan_digest: str = "") -> ApplyStart:
    """Return the first record of an apply. A new state gets this `lineage`; `plan_digest` is that of a saved plan."""
    return ApplyStart(
        lineage=state.lineage or lineage,
        serial=state.serial + 1,
        nexusform_version=plan.nexusform_version,
        catalogue=plan.catalogue,
        plan_digest=plan_digest,
        providers=state.providers,
    )


def build_opening_records(plan: Plan, state: State) -> list[Record]:
    """Return the records between the start and the first step: moves, observed objects, and changes without a provider.

    A change without a provider is an import, or new metadata such as the dependencies of an object.
    """
    draft = StateDraft(state)  # with the records so far
    records: list[Record] = []
    pairs = dict.fromkeys(plan.address_moves)  # (old, new address), each once and in order; values are unused
    for change in plan.changes:
        if change.previous_address:
            pairs[change.previous_address, change.address] = None
    moves = tuple((old, new) for old, new in pairs if old in state.instances and old != new)
    if moves:
        records.append(InstanceMoves(moves))
        draft.apply_record(records[-1])
    new_addresses = dict(moves)
    for observed_address, current in plan.refreshed_objects.items():
        address = new_addresses.get(observed_address, observed_address)
        instance = draft.get_instance(address)
        if current != get_current_object(instance):
            creation = current.creation if current else _get_creation_number(instance)  # None: gone
            records.append(InstanceOutcome(address, creation, replace_current_object(instance, current)))
            draft.apply_record(records[-1])
    for change in plan.changes:
        updated = _apply_metadata_change(change, draft.get_instance(change.address))
        if updated is not None:
            records.append(InstanceOutcome(change.address, change.creation, updated))
    return records


def _get_creation_number(instance: InstanceState | None) -> int:
    current = get_current_object(instance)
    return current.creation if current is not None else 0


def _apply_metadata_change(change: Change, instance: InstanceState | None) -> InstanceState | None:
    """Return the instance after the part of a change without a provider call; None if this part changes nothing."""
    if change.deposed:  # only the provider deletes it
        return None
    current = get_current_object(instance)
    is_unrecorded = current is None or current.provider != get_provider_name(change)
    if change.importing and change.before is not None and is_unrecorded:
        # The import comes first, even if the plan replaces the imported object.
        imported = replace(build_object_state(change, change.before), creation=change.prior_creation)
        return replace_current_object(instance, imported)
    if current is None or change.action is not Action.NO_OP:  # the steps of an action record everything
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
