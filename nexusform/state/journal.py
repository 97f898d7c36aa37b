"""Journal records: the intents and outcomes of an apply.

One record is one line of JSON with a checksum. The intent is written before a step calls its
provider, the outcome after the response. After any interruption the next run knows which object to
look for. `StateDraft.apply_record` applies a record to a state.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, TypeAlias, TypedDict, TypeVar

from msgspec import Meta, Struct, ValidationError, convert, field, to_builtins
from msgspec.structs import asdict

from nexusform.diagnostics.diagnostic import Diagnostic, build_development_file_error, build_error
from nexusform.diagnostics.phrases import format_count, select_word_form
from nexusform.resources.address import Address, AddressProblem, parse_address
from nexusform.state import json_codec
from nexusform.state.object_codec import (
    OBJECT_RULES,
    build_object_members,
    check_members,
    parse_object,
)
from nexusform.state.objects import InstanceState, ObjectState, OutputState
from nexusform.state.state_codec import build_output_members, parse_output

VERSION: Final = 1
_HEAD: Final = b'{"journal":%d,"digest":"' % VERSION
# Begins the lines of journals before the first release.
_OF_DEVELOPMENT: Final = b'{"check":"'
_MIDDLE: Final = b'","record":'
_CHECK_LENGTH: Final = 16
# The member with the position of a record.
_POSITION: Final = "position"
# The number of records outside of a plan's steps.
NO_STEP: Final = -1
_Count: TypeAlias = Annotated[int, Meta(ge=0)]


class _JournalLine(Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """Members of a line, by its kind, without its position.

    Some records are written as they are.
    """


class RecordPosition(Struct, frozen=True, omit_defaults=True):
    """Position of a record in a sequence, from 0: a missing record is noticed.

    The first record of a sequence names the one before it as `previous`, "" for the first record of
    a journal, None if it is unknown. If it `follows_document`, a document was to be written before
    it, so the earlier records may be gone. Journals of earlier versions have no positions.
    """

    writer: str
    number: _Count
    previous: str | None = None
    follows_document: bool = False

    @property
    def name(self) -> str:
        """Name of the record in its journal."""
        return f"{self.writer}/{self.number}"


class ApplyStart(Struct, frozen=True):
    """First change of an apply, with lineage and serial of the new state.

    `plan_digest` is of a saved plan, or "".
    """

    lineage: str
    serial: int
    nexusform_version: str = ""
    catalogue: str = ""
    plan_digest: str = ""
    providers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Intent(Struct, frozen=True):
    """Intent of a step to call its provider.

    `kind` is the step's kind ("create", "update", "delete", "release"). `key_type`, `key_id` and
    `creation` identify the object at the provider. `planned` is the object after success (None for
    a delete): an object found later can be recorded in full with it. `deposed` is the key of the
    deposed object to delete; for a create, the new key of the old object. `number` is the step's id
    in its plan.
    """

    address: Address
    kind: str
    key_type: str
    key_id: str
    creation: int
    planned: ObjectState | None = None
    deposed: str = ""
    number: int = NO_STEP


class InstanceOutcome(Struct, frozen=True):
    """Complete instance at an address after a step (None: none).

    It closes the intent with this address and creation number. A failed step without changes
    repeats the earlier instance, with the `error`. A record without an earlier intent is valid:
    a recorded drift, a forgotten object. `number` is the id of the completed step; a failed step
    is not completed.
    """

    address: Address
    creation: int
    instance: InstanceState | None
    error: str = ""
    number: int = NO_STEP


class InstanceMoves(Struct, frozen=True):
    """New addresses of instances, all at once: (from, to) pairs."""

    pairs: tuple[tuple[Address, Address], ...]


class ApplyEnd(Struct, frozen=True):
    """End of an apply, with or without failed steps: the root outputs and the checks."""

    outputs: Mapping[str, OutputState] = field(default_factory=dict)
    check_results: tuple[Mapping[str, Any], ...] = ()


class PlanPart(_JournalLine, frozen=True, tag="planned"):
    """Part of the plan of an apply, kept to resume after a crash.

    `data` is part `part` of `parts` of the plan file, compressed, as base64. `plan_digest` is the
    digest of the saved plan applied by the user, "" without one. `lineage` and `serial` are those
    of the state during the apply; `steps` is the number of steps with an outcome of their own.
    """

    part: _Count
    parts: _Count
    steps: _Count
    plan_digest: str
    lineage: str
    serial: _Count
    data: str


class ApplyProgress(Struct, frozen=True):
    """Progress of an earlier plan: ids of the completed steps.

    It is written when a new journal is started with remaining steps. `has_ended` means that the
    apply ended normally, with failed steps. `running_operations` are the started and unfinished
    steps: id and operation, as in RunningOperation.
    """

    completed_steps: tuple[int, ...]
    has_ended: bool
    running_operations: tuple[tuple[int, str], ...] = ()


# An operation that starts with this continues the earlier ones of its step.
OPERATION_CONTINUATION: Final = "\n"


class RunningOperation(_JournalLine, frozen=True, tag="under_way"):
    """Running operation of the started step `number`, in the words of its provider ("": unknown).

    It ends with the outcome of the step (an InstanceOutcome that closes its intent). An operation
    replaces the earlier one, unless it starts with OPERATION_CONTINUATION.
    """

    number: _Count
    operation: str


Record: TypeAlias = (
    ApplyStart
    | Intent
    | InstanceOutcome
    | InstanceMoves
    | ApplyEnd
    | PlanPart
    | ApplyProgress
    | RunningOperation
)


class OpenStepIntent(Struct, frozen=True):
    """Intent without an outcome, and the recorded instance at its address at that time."""

    intent: Intent
    prior: InstanceState | None


_Members: TypeAlias = dict[str, Any]


class _ApplyStartLine(_JournalLine, frozen=True, tag="started"):
    lineage: str
    serial: _Count
    nexusform_version: str
    catalogue: str
    plan_digest: str
    providers: dict[str, _Members] = {}


class _IntentLine(_JournalLine, frozen=True, tag="intent"):
    address: str
    step: str
    type: str
    id: str
    creation: _Count
    planned: _Members | None
    deposed: str
    number: int


class _InstanceMembers(TypedDict):
    current: _Members | None
    deposed: dict[str, _Members]


class _InstanceOutcomeLine(_JournalLine, frozen=True, tag="done"):
    address: str
    creation: _Count
    instance: _InstanceMembers | None
    error: str
    number: int


class _InstanceMovesLine(_JournalLine, frozen=True, tag="moved"):
    pairs: list[tuple[str, str]]


class _ApplyEndLine(_JournalLine, frozen=True, tag="finished"):
    outputs: dict[str, _Members]
    check_results: list[_Members]


class _ProgressLine(_JournalLine, frozen=True, tag="progress"):
    done: list[_Count]
    ended: bool
    under_way: list[tuple[_Count, str]]


_AnyLine: TypeAlias = (
    _ApplyStartLine
    | _IntentLine
    | _InstanceOutcomeLine
    | _InstanceMovesLine
    | _ApplyEndLine
    | PlanPart
    | _ProgressLine
    | RunningOperation
)


def encode_journal_record(record: Record, position: RecordPosition | None = None) -> bytes:
    """Encode the record as one line, without the newline."""
    line = _convert_record_to_line(record)
    members = {"kind": line.__struct_config__.tag, **asdict(line)}
    if position is not None:
        members[_POSITION] = to_builtins(position)
    body = json_codec.render_json(members, sort=True)
    return _HEAD + _compute_checksum(body) + _MIDDLE + body + b"}"


class RecordSequence:
    """Encoder of records that one writer adds to a journal, each with its position."""

    def __init__(
        self, writer: str, previous: str | None = None, *, follows_document: bool = False
    ) -> None:
        """Begin a sequence of a new `writer`; see RecordPosition."""
        # Position of the next record.
        self._position = RecordPosition(writer, 0, previous, follows_document)
        # The name of the last record, or of the one before the first.
        self.end = previous

    def encode(self, record: Record) -> bytes:
        """Encode the next record."""
        position = self._position
        self._position = RecordPosition(position.writer, position.number + 1)
        self.end = position.name
        return encode_journal_record(record, position)


def find_journal_end(lines: Sequence[bytes]) -> str | None:
    """Return the name of the last record of a journal.

    Return "" without any record, and None if the last one is damaged or has no position.
    """
    if not lines:
        return ""
    _, position = _decode_line(lines[-1])
    return position.name if position is not None else None


def _compute_checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:_CHECK_LENGTH].encode()


_Given = TypeVar("_Given")
_Converted = TypeVar("_Converted")


def _convert_optional(
    value: _Given | None, conversion: Callable[[_Given], _Converted]
) -> _Converted | None:
    """Convert a value; None stays None."""
    return None if value is None else conversion(value)


def _convert_record_to_line(record: Record) -> _AnyLine:
    """Convert a record to the form written as a line of the journal; addresses become text."""
    if isinstance(record, ApplyStart):
        return _ApplyStartLine(**asdict(record))
    if isinstance(record, Intent):
        planned = _convert_optional(record.planned, build_object_members)
        return _IntentLine(
            address=str(record.address),
            step=record.kind,
            type=record.key_type,
            id=record.key_id,
            creation=record.creation,
            planned=planned,
            deposed=record.deposed,
            number=record.number,
        )
    if isinstance(record, InstanceOutcome):
        instance = _convert_optional(record.instance, _build_instance_members)
        return _InstanceOutcomeLine(
            str(record.address), record.creation, instance, record.error, record.number
        )
    if isinstance(record, InstanceMoves):
        return _InstanceMovesLine([(str(source), str(target)) for source, target in record.pairs])
    if isinstance(record, PlanPart | RunningOperation):
        # Also the form of its line.
        return record
    if isinstance(record, ApplyProgress):
        return _ProgressLine(
            list(record.completed_steps), record.has_ended, list(record.running_operations)
        )
    # ApplyEnd is left.
    outputs = {name: build_output_members(output) for name, output in record.outputs.items()}
    return _ApplyEndLine(outputs, [dict(check) for check in record.check_results])


def _build_instance_members(instance: InstanceState) -> _InstanceMembers:
    return {
        "current": _convert_optional(instance.current, build_object_members),
        "deposed": {key: build_object_members(old) for key, old in instance.deposed.items()},
    }


def parse_journal(
    lines: Iterable[bytes], name: str = "the journal"
) -> tuple[list[Record], list[Diagnostic]]:
    """Parse the lines of a journal.

    Return its records and the diagnostics. A truncated last line is skipped: its write never
    finished, so nothing was built on it. A damaged earlier line is an error, because its content is
    lost. So is a record that does not continue the one before it, and a last line that is whole
    JSON: no crash writes it, and its step may have run. A repeated record counts once: a writer
    repeats those whose write failed.
    """
    records: list[Record] = []
    problems: list[Diagnostic] = []
    chain = _RecordChain()
    all_lines = list(lines)
    if any(line.startswith(_OF_DEVELOPMENT) for line in all_lines):
        return [], [
            build_development_file_error(name[:1].upper() + name[1:], "import the resources again")
        ]
    for number, line in enumerate(all_lines, start=1):
        record, position = _decode_line(line)
        if record is not None:
            is_repeated, break_cause = chain.add_record(position)
            if break_cause:
                problems.append(_build_broken_chain_error(name, number, break_cause))
            if not is_repeated:
                records.append(record)
        elif number < len(all_lines) or _is_whole(line):
            # Otherwise it is the truncated last line.
            reason = (
                "It is not the last record" if number < len(all_lines) else "It is a whole line"
            )
            detail = (
                f"Record {number} of {name} is damaged. {reason}, so a crash "
                "did not cut it off. "
                "No changes were made. The record of one step of an interrupted apply is "
                "lost. Remove the line "
                "and compare the site with the state (plan -refresh-only), or restore the "
                "file from a copy."
            )
            problems.append(build_error("damaged-journal", detail))
            chain.skip_record()
    return records, problems


class _RecordChain(Struct):
    """Chain of the records of a journal: each continues the one before it.

    `end` is the last record: "" before the first, None if it is unknown. `expected_numbers` are
    those of the next records by writer.
    """

    end: str | None = ""
    writer: str = ""
    expected_numbers: dict[str, int] = field(default_factory=dict)

    def skip_record(self) -> None:
        """Skip a record without a position, or a damaged one: any record may follow it."""
        self.end = None

    def add_record(self, position: RecordPosition | None) -> tuple[bool, str]:
        """Add the next record.

        Return whether it is a repeated one, and why it breaks the chain ("": it does not).
        """
        if position is None:
            self.skip_record()
            return False, ""
        expected_number = self.expected_numbers.get(position.writer, 0)
        is_repeated = position.number < expected_number
        cause = "" if is_repeated else self._find_break(position, expected_number)
        self.end = position.name
        self.writer = position.writer
        if not is_repeated:
            self.expected_numbers[position.writer] = position.number + 1
        return is_repeated, cause

    def _find_break(self, position: RecordPosition, expected_number: int) -> str:
        """Return why a new record does not continue the last one, "" if it does."""
        if self.end is None:
            return ""
        missing_count = position.number - expected_number
        if missing_count:
            return (
                f"{format_count(missing_count, 'record')} before it "
                f"{select_word_form(missing_count, 'is', 'are')} missing"
            )
        if position.number:
            return "" if self.writer == position.writer else "Another run wrote to it meanwhile"
        is_start = not self.end and position.follows_document
        if position.previous in (None, self.end) or is_start:
            return ""
        return "Records before it are missing, or another run wrote to it meanwhile"


def _build_broken_chain_error(name: str, number: int, cause: str) -> Diagnostic:
    detail = (
        f"Record {number} of {name} does not continue the one before it. {cause}: the storage lost "
        "records, the journal was edited, or two runs used it at the same time (-lock=false). No "
        "changes were made. Restore the journal from a copy or a version of the storage. Without "
        "one, delete it and compare the site with the state (plan -refresh-only); objects that the "
        "interrupted apply created must then be imported."
    )
    return build_error("damaged-journal", detail)


def _is_whole(line: bytes) -> bool:
    """Return whether a line is whole JSON, as an edited one or one of a newer version."""
    try:
        json_codec.parse_json(line)
    except json_codec.JsonProblem:
        return False
    return True


def _decode_line(line: bytes) -> tuple[Record | None, RecordPosition | None]:
    """Decode the record of a line, None if it is damaged, and its position, None without one."""
    # A line is _HEAD, the checksum, _MIDDLE, the record and "}".
    start = len(_HEAD) + _CHECK_LENGTH
    body = line[start + len(_MIDDLE) : -1]
    expected_line = _HEAD + _compute_checksum(body) + _MIDDLE + body + b"}"
    if line != expected_line:
        # Damaged, or of another version.
        return None, None
    try:
        members = json_codec.parse_json(body)
        position = members.pop(_POSITION, None) if isinstance(members, dict) else None
        record = _convert_line_to_record(convert(members, _AnyLine))
        return record, convert(position, RecordPosition | None)
    except (json_codec.JsonProblem, ValidationError, AddressProblem):
        # The line is of another version.
        return None, None


def _convert_line_to_record(line: _AnyLine) -> Record:
    """Build the record of a line.

    Raises AddressProblem and ValidationError.
    """
    match line:
        case _ApplyStartLine():
            return ApplyStart(**asdict(line))
        case _IntentLine():
            planned = _convert_optional(line.planned, _parse_object)
            return Intent(
                address=parse_address(line.address),
                kind=line.step,
                key_type=line.type,
                key_id=line.id,
                creation=line.creation,
                planned=planned,
                deposed=line.deposed,
                number=line.number,
            )
        case _InstanceOutcomeLine():
            instance = _convert_optional(line.instance, _parse_instance)
            return InstanceOutcome(
                parse_address(line.address), line.creation, instance, line.error, line.number
            )
        case _InstanceMovesLine():
            return InstanceMoves(
                tuple(
                    (parse_address(source), parse_address(target)) for source, target in line.pairs
                )
            )
        case PlanPart() | RunningOperation():
            # Also the form of its record.
            return line
        case _ProgressLine():
            return ApplyProgress(tuple(line.done), line.ended, tuple(line.under_way))
        case _ApplyEndLine():
            outputs = {name: _parse_output(members) for name, members in line.outputs.items()}
            return ApplyEnd(outputs, tuple(line.check_results))


def _parse_instance(members: _InstanceMembers) -> InstanceState:
    current = _convert_optional(members["current"], _parse_object)
    return InstanceState(
        current, {key: _parse_object(old) for key, old in members["deposed"].items()}
    )


def _parse_object(members: _Members) -> ObjectState:
    """Parse an object from its JSON members.

    Raises ValidationError.
    """
    if not check_members(members, OBJECT_RULES, path=(), problems=[]):
        raise ValidationError("no object of a state")
    return parse_object(members)


def _parse_output(members: _Members) -> OutputState:
    """Parse an output from its JSON members.

    Raises ValidationError.
    """
    output = parse_output(members, path=(), problems=[])
    if output is None:
        raise ValidationError("no output of a state")
    return output
