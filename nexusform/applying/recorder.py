"""The journal of one apply and the state that follows from it, kept together."""

from __future__ import annotations

from nexusform.address import Address
from nexusform.applying.outcomes import known_parts
from nexusform.applying.requests import Call
from nexusform.applying.standing import deposed_key, remembered
from nexusform.planning.plan import StepKind
from nexusform.ports import AppendsMany, ObjectKey, StateBackend
from nexusform.state.draft import StateDraft
from nexusform.state.journal import Done, Intent, Record, encode
from nexusform.state.model import InstanceState, State


class Recorder:
    """Takes records one by one; `flush` makes all of them durable in one go.

    A step may start only after a flush that came after its intent. Outcomes may wait for the next
    flush: the journal is in order, so nothing can follow from an outcome that is not on disk.
    """

    def __init__(self, backend: StateBackend, base: State) -> None:
        self._backend = backend
        self._draft = StateDraft(base)
        self._lines: list[bytes] = []

    def state(self) -> State:
        """The state as it is now."""
        return self._draft.state()

    def instance(self, address: Address) -> InstanceState | None:
        """What stands at an address now."""
        return self._draft.instance(address)

    def note(self, record: Record) -> None:
        """Take one record; it is durable after the next flush."""
        self._draft.take(record)
        self._lines.append(encode(record))

    def intend(self, call: Call) -> None:
        """A step is about to start."""
        change, step = call.change, call.step
        planned = None
        if step.kind is not StepKind.DELETE:
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
            )
        )

    def conclude(self, call: Call, instance: InstanceState | None, error: str) -> None:
        """A step ended, leaving this at its address."""
        self.note(Done(call.change.address, call.key.creation, instance, error))

    def flush(self) -> None:
        """Make everything noted durable. Raises BackendProblem; what was noted is then kept."""
        if not self._lines:
            return
        if isinstance(self._backend, AppendsMany):
            self._backend.append_all(self._lines)
        else:
            for line in self._lines:
                self._backend.append(line)
        self._lines = []

    def _deposed(self, call: Call) -> str:
        """The key of the deposed object that a step leaves behind or removes."""
        if not call.keeps_old:
            return call.deposed
        instance = self._draft.instance(call.change.address)
        if instance is None or instance.current is None:
            return ""
        old = instance.current
        return deposed_key(ObjectKey(call.key.type, str(old.attributes.get("id", "")), old.creation))
