"""The journal of one apply and the state that follows from it, kept together.

`opening_records` are what an apply writes down before any provider is asked.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from nexusform.address import Address
from nexusform.applying.standing import ProviderCall, deposed_key, provider_of, remembered, with_current
from nexusform.plain_data import known_parts
from nexusform.plans.plan import Action, Change, Plan, StepKind
from nexusform.ports import ObjectKey
from nexusform.state import codec
from nexusform.state.draft import Remaining, StateDraft
from nexusform.state.journal import NO_STEP, Begun, Done, Intent, Moved, Record, UnderWay, encode
from nexusform.state.objects import InstanceState, State
from nexusform.state_ports import AppendsMany, StateBackend, WantsCheckpoints


class Recorder:
    """Takes records one by one; `flush` makes all of them durable in one go.

    A step may start only after a flush that came after its intent. Outcomes may wait for the next
    flush: the journal is in order, so nothing can follow from an outcome that is not on disk.
    """

    def __init__(self, backend: StateBackend, base: State, remaining: Remaining | None = None) -> None:
        self._backend = backend
        self._draft = StateDraft(base, remaining)
        self._lines: list[bytes] = []
        self.has_written = False  # whether anything may have come after what stood before

    def state(self) -> State:
        """The state as it is now."""
        return self._draft.state()

    def remaining(self) -> Remaining | None:
        """What is left of the plan that is followed."""
        return self._draft.remaining()

    def instance(self, address: Address) -> InstanceState | None:
        """What stands at an address now."""
        return self._draft.instance(address)

    def note(self, record: Record) -> None:
        """Take one record; it is durable after the next flush."""
        self._draft.take(record)
        self._lines.append(encode(record))

    def intend(self, call: ProviderCall) -> None:
        """A step is about to start.

        Written before the provider is asked: an intent without an effect costs one look-up after a crash, an
        effect without an intent would be an object that nobody knows of.
        """
        change, step = call.change, call.step
        planned = None
        if step.kind is not StepKind.DELETE:
            # What will be known only afterwards is null; settling takes the attributes from the provider.
            planned = remembered(change, known_parts(step.planned or {}))
        self.note(
            Intent(
                change.address,
                step.kind.value,
                call.key.type,
                call.key.id,
                call.key.creation,
                planned,
                self._deposed(call),
                step.id,
            )
        )

    def goes_on(self, call: ProviderCall, operation: str) -> None:
        """A step goes on at its provider, and this is what it will be known by when this run ends first."""
        self.note(UnderWay(call.step.id, operation))

    def unsettled(self) -> list[Record]:
        """What a journal must still hold of steps without an outcome."""
        return [each.intent for each in self._draft.open_intents()]

    def begun(self) -> Mapping[int, str]:
        """The operations of the steps that an earlier run began and that are not over, by their ids."""
        remaining = self._draft.remaining()
        return remaining.under_way if remaining else {}

    def conclude(self, call: ProviderCall, instance: InstanceState | None, error: str) -> None:
        """A step ended, leaving this at its address.

        The whole instance is written and not what changed: replaying an outcome twice, or onto a state that
        holds it already, gives the same.
        """
        number = NO_STEP if error else call.step.id
        self.note(Done(call.change.address, call.key.creation, instance, error, number))

    def flush(self) -> None:
        """Make everything noted durable. Raises BackendProblem; what was noted is then kept.

        The order is kept, too: a journal that was cut off by a crash holds a first part of what happened.
        """
        if not self._lines:
            return
        if isinstance(self._backend, AppendsMany):
            self._backend.append_all(self._lines)
        else:
            for line in self._lines:
                self._backend.append(line)
        self._lines = []
        self.has_written = True
        if isinstance(self._backend, WantsCheckpoints) and self._backend.checkpoint_due():
            self._checkpoint(self._backend)

    def _checkpoint(self, backend: WantsCheckpoints) -> None:
        """Give the backend the state of this moment, and go on under the next serial.

        Servers keep a version per serial: two documents of one serial are refused by some of them.
        """
        state = self.state()
        remaining = self._draft.remaining()
        kept = self.unsettled()
        kept += remaining.under(state.serial + 1).records() if remaining else []
        backend.checkpoint(codec.encode(state), [encode(record) for record in kept])
        next_serial = Begun(state.lineage, state.serial + 1, state.nexusform_version, state.catalogue)
        self.note(next_serial)

    def _deposed(self, call: ProviderCall) -> str:
        """The key of the deposed object that a step leaves behind or removes."""
        if not call.keeps_old:
            return call.deposed
        instance = self._draft.instance(call.change.address)
        if instance is None or instance.current is None:
            return ""
        # Named by what it is, so that the run which settles this intent keeps it under the same key.
        old = instance.current
        return deposed_key(ObjectKey(call.key.type, str(old.attributes.get("id", "")), old.creation))


def opening_records(plan: Plan, state: State, lineage: str, plan_digest: str = "") -> list[Record]:
    """What an apply records before any provider is asked, in order.

    `lineage` is for a state that has none yet; `plan_digest` that of the saved plan, "" when there
    is none.
    """
    draft = StateDraft(state)
    records: list[Record] = [
        Begun(
            state.lineage or lineage,
            state.serial + 1,
            plan.nexusform_version,
            plan.catalogue,
            plan_digest,
        )
    ]
    moves = _moves(plan, state)
    if moves:
        records.append(Moved(moves))
        draft.take(records[-1])
    # Under their new addresses: at the old ones nothing stands any more.
    renamed = dict(moves)
    for observed, current in plan.refreshed.items():
        address = renamed.get(observed, observed)
        instance = draft.instance(address)
        if instance is None or current != instance.current:
            creation = current.creation if current else _creation(instance)
            records.append(Done(address, creation, with_current(instance, current)))
            draft.take(records[-1])
    for change in plan.changes:
        annotated = _annotated(change, draft.instance(change.address))
        if annotated is not None:
            records.append(Done(change.address, change.creation, annotated))
    return records


def _moves(plan: Plan, state: State) -> tuple[tuple[Address, Address], ...]:
    pairs = dict.fromkeys(plan.moved)
    for change in plan.changes:
        if change.previous_address:
            pairs[change.previous_address, change.address] = None
    return tuple((old, new) for old, new in pairs if old in state.instances and old != new)


def _creation(instance: InstanceState | None) -> int:
    return instance.current.creation if instance and instance.current else 0


def _annotated(change: Change, instance: InstanceState | None) -> InstanceState | None:
    """What stands after noting a change that needs no provider, or None when nothing is noted."""
    if change.deposed:
        return None
    current = instance.current if instance else None
    is_elsewhere = current is not None and current.provider != provider_of(change)
    if change.importing and change.before is not None and (current is None or is_elsewhere):
        # What is replaced at once is taken over as it stands first.
        taken = replace(remembered(change, change.before), creation=change.prior_creation)
        return with_current(instance, taken)
    if current is None or change.action is not Action.NO_OP:
        return None
    annotated = replace(
        current,
        sensitive=change.sensitive_after,
        dependencies=change.dependencies,
        create_before_destroy=change.create_before_destroy,
        private=change.private if change.private is not None else current.private,
    )
    return with_current(instance, annotated) if annotated != current else None
