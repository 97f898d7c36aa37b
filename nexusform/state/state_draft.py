"""Working copy of a state during an apply, and the remaining steps of an interrupted one.

An apply or a journal changes the copy step by step. The plan file itself is in the journal, so a
resumed apply follows the reviewed steps. It stays there until it is completed, or dropped.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.resources.address import Address
from nexusform.state import journal
from nexusform.state.objects import InstanceState, OutputState, State

_PART_LENGTH: Final = 1 << 20  # characters of one record


class UnfinishedApply(Struct, frozen=True):
    """Started and unfinished apply.

    `build_records` returns it as journal records. `completed_steps` are step ids; `has_ended` means
    that it ended normally, with failed steps. `running_operations` are the operations of started
    and unfinished steps, by their ids.
    """

    parts: tuple[journal.PlanPart, ...]
    completed_steps: frozenset[int]
    has_ended: bool
    running_operations: Mapping[int, str] = field(default_factory=dict)

    @property
    def plan_digest(self) -> str:
        """Digest of the applied saved plan, "" without one."""
        return self.parts[0].plan_digest

    @property
    def serial(self) -> int:
        """Return the serial of the state during the apply.

        Another serial means a change by another process.
        """
        return self.parts[0].serial

    @property
    def remaining_steps(self) -> int:
        """Number of steps that are not completed."""
        return self.parts[0].steps - len(self.completed_steps)

    @property
    def lineage(self) -> str:
        """Lineage of the state of the plan."""
        return self.parts[0].lineage

    def replace_serial(self, serial: int) -> UnfinishedApply:
        """Return the same apply with another serial."""
        return replace(self, parts=tuple(replace(part, serial=serial) for part in self.parts))

    def decode_plan_file(self, max_bytes: int) -> bytes | None:
        """Decode the plan file of at most `max_bytes`; None if the records do not contain it."""
        try:
            packed = base64.b64decode("".join(part.data for part in self.parts), validate=True)
            decompressor = zlib.decompressobj()
            document = decompressor.decompress(packed, max_bytes)
        except (binascii.Error, ValueError, zlib.error):
            return None  # damaged
        # Else it is cut off, or larger.
        return document if decompressor.eof else None

    def build_records(self) -> list[journal.Record]:
        """Build the journal records of the same unfinished apply."""
        operations = tuple(sorted(self.running_operations.items()))
        return [
            *self.parts,
            journal.ApplyProgress(tuple(sorted(self.completed_steps)), self.has_ended, operations),
        ]


def build_plan_parts(
    document: bytes, steps: int, plan_digest: str, lineage: str, serial: int
) -> list[journal.PlanPart]:
    """Build the records of a plan file, written before its apply: the parts of its text.

    `steps` is the number of steps with an outcome of their own.
    """
    text = base64.b64encode(zlib.compress(document)).decode()
    pieces = [text[start : start + _PART_LENGTH] for start in range(0, len(text), _PART_LENGTH)]
    count = len(pieces)
    return [
        journal.PlanPart(index, count, steps, plan_digest, lineage, serial, piece)
        for index, piece in enumerate(pieces)
    ]


class _ApplyTracker(Struct):
    """Tracker of the remaining steps of the last plan in a journal.

    The fields are those of UnfinishedApply.
    """

    parts: list[journal.PlanPart] = field(default_factory=list)
    completed_steps: set[int] = field(default_factory=set)
    has_ended: bool = False
    running_operations: dict[int, str] = field(default_factory=dict)
    has_started: bool = False
    # Of the last apply that began.
    serial: int = 0

    def add_plan_part(self, part: journal.PlanPart) -> None:
        """Add a part of a plan; the first one replaces the earlier plan."""
        if part.part == 0:
            self.parts = []
            self.completed_steps = set()
            self.running_operations = {}
            self.has_ended = self.has_started = False
        self.parts.append(part)

    def restore_progress(self, progress: journal.ApplyProgress) -> None:
        """Restore the progress made before this journal."""
        self.completed_steps = set(progress.completed_steps)
        self.has_ended = progress.has_ended
        self.running_operations = dict(progress.running_operations)
        # Completed steps imply that it was started.
        self.has_started = True

    def add_operation(self, record: journal.RunningOperation) -> None:
        """Record the operation of a step: after the earlier ones, or in place of them."""
        is_continued = record.operation.startswith(journal.OPERATION_CONTINUATION)
        earlier = self.running_operations.get(record.number, "") if is_continued else ""
        self.running_operations[record.number] = f"{earlier}{record.operation}"

    def complete_step(self, step: int) -> None:
        """Mark a step as completed and forget its operation.

        If the apply had ended before, it was resumed.
        """
        self.completed_steps.add(step)
        self.running_operations.pop(step, None)
        self.has_ended = False

    def build_unfinished_apply(self) -> UnfinishedApply | None:
        """Build the unfinished apply.

        Return None without a plan, or if its apply is completed or not started yet. Every part of
        the plan has the number of all parts and the serial of the state during the apply.
        """
        if not self.parts or len(self.parts) != self.parts[0].parts:
            # Nothing is done before the plan is in the journal as a whole.
            return None
        if not self.has_started and self.serial != self.parts[0].serial:
            # Interrupted before its first change: the plan is not started.
            return None
        if self.has_ended and len(self.completed_steps) == self.parts[0].steps:
            return None  # completed
        completed_steps = frozenset(self.completed_steps)
        running_operations = dict(self.running_operations)
        return UnfinishedApply(
            tuple(self.parts), completed_steps, self.has_ended, running_operations
        )


MAX_APPLIED_PLANS = 256


class StateDraft:
    """State that applies journal records one after another.

    It is neither frozen nor thread-safe: its owner calls `apply_record` in turn and returns
    `build_state()`. Every record contains the result, not a difference.
    """

    def __init__(self, base: State, unfinished: UnfinishedApply | None = None) -> None:
        """Start from the state `base`, and from the progress of an unfinished apply."""
        self._base = base
        self._tracker = _ApplyTracker()
        for record in unfinished.build_records() if unfinished is not None else ():
            self.apply_record(record)
        self._instances: dict[Address, InstanceState] = dict(base.instances)
        self._outputs: Mapping[str, OutputState] = base.outputs
        self._check_results: tuple[Mapping[str, Any], ...] = base.check_results
        self._last_creation = base.last_creation
        # By address and creation number.
        self._open: dict[tuple[Address, int], journal.OpenStepIntent] = {}

    def get_instance(self, address: Address) -> InstanceState | None:
        """Return the current instance at an address."""
        return self._instances.get(address)

    def list_open_intents(self) -> list[journal.OpenStepIntent]:
        """List the intents without an outcome."""
        return list(self._open.values())

    def build_unfinished_apply(self) -> UnfinishedApply | None:
        """Build the plan of the apply with its completed steps; None if no apply is unfinished."""
        return self._tracker.build_unfinished_apply()

    def build_state(self) -> State:
        """Build the current state; later records do not change it."""
        return replace(
            self._base,
            instances=dict(self._instances),
            outputs=self._outputs,
            check_results=self._check_results,
            last_creation=self._last_creation,
        )

    def apply_record(self, record: journal.Record) -> None:
        """Apply one record to the state.

        It changes instances, outputs and metadata, and tracks open intents and steps.
        """
        if isinstance(record, journal.Intent):
            # An intent without an outcome uses up its creation number, too: it may have
            # reached a provider.
            self._last_creation = max(self._last_creation, record.creation)
            open_intent = journal.OpenStepIntent(record, self._instances.get(record.address))
            self._open[record.address, record.creation] = open_intent
        elif isinstance(record, journal.InstanceOutcome):
            self._set_or_remove_instance(record.address, record.instance)
            closed_intent = self._open.pop((record.address, record.creation), None)
            if closed_intent is not None:
                self._tracker.running_operations.pop(closed_intent.intent.number, None)
            # The record belongs to a step of a plan.
            if record.number != journal.NO_STEP:
                self._tracker.complete_step(record.number)
        elif isinstance(record, journal.InstanceMoves):
            self._move_instances(record)
        elif isinstance(record, journal.ApplyStart):
            self._tracker.serial = record.serial
            self._record_apply_start(record)
        elif isinstance(record, journal.PlanPart):
            self._tracker.add_plan_part(record)
        elif isinstance(record, journal.ApplyProgress):
            self._tracker.restore_progress(record)
        elif isinstance(record, journal.RunningOperation):
            self._tracker.add_operation(record)
        else:  # ApplyEnd
            self._tracker.has_ended = True
            self._outputs = dict(record.outputs)
            self._check_results = record.check_results

    def _set_or_remove_instance(self, address: Address, instance: InstanceState | None) -> None:
        """Set the instance at an address, or remove it (None, or without any object)."""
        if instance is None or instance.is_empty:
            self._instances.pop(address, None)
            return
        self._instances[address] = instance
        for _, recorded in instance.all_objects:
            # Its number is not given to another.
            self._last_creation = max(self._last_creation, recorded.creation)

    def _move_instances(self, record: journal.InstanceMoves) -> None:
        """Move all instances at once: in a chain or a swap, none is overwritten."""
        moved_instances = [
            (target, self._instances.pop(source, None)) for source, target in record.pairs
        ]
        for target, instance in moved_instances:
            if instance is not None:
                self._instances[target] = instance

    def _record_apply_start(self, record: journal.ApplyStart) -> None:
        """Set the metadata of the state to those of an apply.

        Add its saved plan, once, to the applied ones.
        """
        plans = self._base.applied_plans
        if record.plan_digest and record.plan_digest not in plans:
            # The oldest are dropped.
            plans = (*plans, record.plan_digest)[-MAX_APPLIED_PLANS:]
        self._base = replace(
            self._base,
            lineage=record.lineage,
            serial=record.serial,
            nexusform_version=record.nexusform_version,
            catalogue=record.catalogue,
            applied_plans=plans,
            providers=record.providers,
        )


def build_draft(
    state: State, records: Iterable[journal.Record], unfinished: UnfinishedApply | None = None
) -> StateDraft:
    """Build a draft of the state with all records of a journal applied."""
    draft = StateDraft(state, unfinished)
    for record in records:
        draft.apply_record(record)
    return draft
