"""A working copy of a state: what an apply changes step by step, and what a journal is replayed on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from nexusform.address import Address
from nexusform.state.journal import (
    NO_STEP,
    Begun,
    Done,
    Finished,
    Intent,
    Moved,
    OpenIntent,
    Planned,
    Progress,
    Record,
    UnderWay,
)
from nexusform.state.objects import InstanceState, OutputState, State
from nexusform.state.remaining import Following, Remaining

APPLIED_PLANS_KEPT = 256


class StateDraft:
    """A state that takes journal records one after another.

    Not frozen and not for several threads at once: its owner calls `take` in turn and hands out
    `state()`. Every record says what is so afterwards, not what to add.
    """

    def __init__(self, base: State, remaining: Remaining | None = None) -> None:
        self._base = base
        self._following = Following(remaining)
        self._instances: dict[Address, InstanceState] = dict(base.instances)
        self._outputs: Mapping[str, OutputState] = base.outputs
        self._check_results: tuple[Mapping[str, Any], ...] = base.check_results
        self._last_creation = base.last_creation
        self._open: dict[tuple[Address, int], OpenIntent] = {}

    def instance(self, address: Address) -> InstanceState | None:
        """What stands at an address now."""
        return self._instances.get(address)

    def open_intents(self) -> list[OpenIntent]:
        """Intents without an outcome, oldest first."""
        return list(self._open.values())

    def remaining(self) -> Remaining | None:
        """What an apply has left to do, None when none was begun."""
        return self._following.remaining()

    def state(self) -> State:
        """The state as it is now; later records do not change it."""
        return replace(
            self._base,
            instances=dict(self._instances),
            outputs=self._outputs,
            check_results=self._check_results,
            last_creation=self._last_creation,
        )

    def take(self, record: Record) -> None:
        """Apply one record."""
        if isinstance(record, Intent):
            self._note_creation(record.creation)
            opened = OpenIntent(record, self._instances.get(record.address))
            self._open[record.address, record.creation] = opened
        elif isinstance(record, Done):
            self._put(record.address, record.instance)
            closed = self._open.pop((record.address, record.creation), None)
            if closed is not None:
                self._following.is_over(closed.intent.number)
            if record.number != NO_STEP:
                self._following.did([record.number])
        elif isinstance(record, Moved):
            self._move(record)
        elif isinstance(record, Begun):
            self._following.began(record.serial)
            self._begin(record)
        elif isinstance(record, Planned):
            self._following.begin(record)
        elif isinstance(record, Progress):
            self._following.reached(record)
        elif isinstance(record, UnderWay):
            self._following.goes_on(record.number, record.operation)
        else:
            self._finish(record)

    def _note_creation(self, creation: int) -> None:
        # A number with an intent may have reached a provider: it is never given again.
        self._last_creation = max(self._last_creation, creation)

    def _put(self, address: Address, instance: InstanceState | None) -> None:
        if instance is None or (instance.current is None and not instance.deposed):
            self._instances.pop(address, None)
            return
        self._instances[address] = instance
        for standing in (instance.current, *instance.deposed.values()):
            if standing is not None:
                self._note_creation(standing.creation)

    def _move(self, record: Moved) -> None:
        # All at once, so that a chain or a swap does not run over itself.
        taken = [(target, self._instances.pop(source, None)) for source, target in record.pairs]
        for target, instance in taken:
            if instance is not None:
                self._instances[target] = instance

    def _begin(self, record: Begun) -> None:
        plans = self._base.applied_plans
        if record.plan_digest and record.plan_digest not in plans:
            plans = (*plans, record.plan_digest)[-APPLIED_PLANS_KEPT:]
        self._base = replace(
            self._base,
            lineage=record.lineage,
            serial=record.serial,
            nexusform_version=record.nexusform_version,
            catalogue=record.catalogue,
            applied_plans=plans,
        )

    def _finish(self, record: Finished) -> None:
        self._following.end()
        self._outputs = dict(record.outputs)
        self._check_results = record.check_results


def replayed(state: State, records: Iterable[Record], remaining: Remaining | None = None) -> StateDraft:
    """The state with all records of a journal taken."""
    draft = StateDraft(state, remaining)
    for record in records:
        draft.take(record)
    return draft


def replay(state: State, records: Iterable[Record]) -> tuple[State, list[OpenIntent]]:
    """The state with all outcomes of a journal applied, and the intents without an outcome."""
    draft = replayed(state, records)
    return draft.state(), draft.open_intents()
