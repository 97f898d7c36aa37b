"""A working copy of a state, which an apply changes step by step and a journal is replayed on;
and what an apply has left to do, as its journal tells it: the plan that it follows, and how far it got.

The plan file itself is in the journal, so whoever goes on after a crash follows the very steps that were
reviewed. It stays there until it is followed to its end, or dropped.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
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
    encode,
)
from nexusform.state.objects import InstanceState, OutputState, State

_PART: Final = 1 << 20  # characters of one record


class Remaining(Struct, frozen=True):
    """An apply that was begun.

    `records` hold it in a journal. `done` are the ids of the steps that are done; `ended`: it came to
    its end by itself, with failed steps. `under_way` are the operations of steps that were begun and are
    not over, by their ids.
    """

    parts: tuple[Planned, ...]
    done: frozenset[int]
    ended: bool
    under_way: Mapping[int, str] = field(default_factory=dict)

    @property
    def plan_digest(self) -> str:
        """The digest of the saved plan that was applied, "" when there was none."""
        return self.parts[0].plan_digest

    @property
    def serial(self) -> int:
        """The serial of the state while the plan is followed; another one: somebody changed it since."""
        return self.parts[0].serial

    @property
    def left(self) -> int:
        """How many steps are not done."""
        return self.parts[0].steps - len(self.done)

    @property
    def lineage(self) -> str:
        """The lineage of the state that the plan belongs to."""
        return self.parts[0].lineage

    def under(self, serial: int) -> Remaining:
        """The same, going on under another serial."""
        return replace(self, parts=tuple(replace(part, serial=serial) for part in self.parts))

    def document(self, most: int) -> bytes | None:
        """The plan file of at most so many bytes, None when the records do not hold one."""
        try:
            packed = base64.b64decode("".join(part.data for part in self.parts), validate=True)
            unpacking = zlib.decompressobj()
            document = unpacking.decompress(packed, most)
        except (binascii.Error, ValueError, zlib.error):
            return None
        return document if unpacking.eof else None

    def records(self) -> list[Record]:
        """What a journal must hold so that the same is left to do."""
        under_way = tuple(sorted(self.under_way.items()))
        return [*self.parts, Progress(tuple(sorted(self.done)), self.ended, under_way)]

    def lines(self) -> list[bytes]:
        """The same as lines of a journal."""
        return [encode(record) for record in self.records()]


def planned_records(
    document: bytes, steps: int, plan_digest: str, lineage: str, serial: int
) -> list[Planned]:
    """The records of a plan file with so many steps that is about to be followed; see Planned."""
    text = base64.b64encode(zlib.compress(document)).decode()
    pieces = [text[start : start + _PART] for start in range(0, len(text), _PART)]
    count = len(pieces)
    return [Planned(at, count, steps, plan_digest, lineage, serial, piece) for at, piece in enumerate(pieces)]


class Following:
    """Takes the records of a journal and knows what is left of the plan that it followed last."""

    def __init__(self, remaining: Remaining | None = None) -> None:
        self._parts: list[Planned] = list(remaining.parts) if remaining else []
        self._done: set[int] = set(remaining.done) if remaining else set()
        self._under_way: dict[int, str] = dict(remaining.under_way) if remaining else {}
        self._ended = remaining.ended if remaining else False
        self._known_to_count = remaining is not None  # what it has done says that it was begun
        self._serial = 0  # of the last apply that began

    def began(self, serial: int) -> None:
        """An apply made its first change, under this serial."""
        self._serial = serial

    def begin(self, part: Planned) -> None:
        """A part of a plan; the first one takes the place of what was followed before."""
        if part.part == 0:
            self._parts, self._done, self._ended = [], set(), False
            self._under_way = {}
            self._known_to_count = False
        self._parts.append(part)

    def reached(self, progress: Progress) -> None:
        """How far it was followed before this journal began."""
        self._done, self._ended = set(progress.done), progress.ended
        self._under_way = dict(progress.under_way)
        self._known_to_count = True

    def did(self, steps: Sequence[int]) -> None:
        """These steps are done. The apply goes on, whatever became of it before."""
        self._done.update(steps)
        for step in steps:
            self.is_over(step)
        self._ended = False

    def goes_on(self, step: int, operation: str) -> None:
        """This step was begun, and this goes on for it."""
        self._under_way[step] = operation

    def is_over(self, step: int) -> None:
        """Nothing goes on for this step any more."""
        self._under_way.pop(step, None)

    def end(self) -> None:
        """The apply came to its end."""
        self._ended = True

    def remaining(self) -> Remaining | None:
        """What was begun; None when there is no plan, or it was followed to its end."""
        if not self._parts or len(self._parts) != self._parts[0].parts:
            return None  # nothing is done before the plan is in the journal as a whole
        if not self._known_to_count and self._serial != self._parts[0].serial:
            return None  # cut off before its first change: the plan stands for itself still
        if self._ended and len(self._done) == self._parts[0].steps:
            return None
        return Remaining(tuple(self._parts), frozenset(self._done), self._ended, dict(self._under_way))


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
