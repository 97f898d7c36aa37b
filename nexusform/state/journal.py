"""The records of the journal: what an apply is about to do, and what came of it.

One record is one line of JSON with a checksum. Before a step calls its provider the intent is
written down, after the answer the outcome: whatever happens in between, the next run knows which
object to look for. `draft.replay` puts records onto a state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, TypeAlias, TypedDict

from msgspec import Meta, Struct, ValidationError, convert, field
from msgspec.structs import asdict

from nexusform.address import Address, AddressProblem, parse_address
from nexusform.diagnostics import Diagnostic, development_file, error
from nexusform.state import json_text
from nexusform.state.codec import output_members, read_output
from nexusform.state.object_codec import OBJECT_RULES, check_members, object_from_members, object_members
from nexusform.state.objects import InstanceState, ObjectState, OutputState

VERSION: Final = 1
_HEAD: Final = b'{"journal":%d,"digest":"' % VERSION
_OF_DEVELOPMENT: Final = b'{"check":"'  # begins the lines of journals before the first release
_MIDDLE: Final = b'","record":'
_CHECK_LENGTH: Final = 16
NO_STEP: Final = -1  # the number of what is no step of a plan


class Begun(Struct, frozen=True):
    """An apply makes its first change: the state gets this lineage and serial.

    `plan_digest` is the digest of the saved plan, "" when there is none.
    """

    lineage: str
    serial: int
    nexusform_version: str = ""
    catalogue: str = ""
    plan_digest: str = ""


class Intent(Struct, frozen=True):
    """A step is about to call its provider.

    `kind` is the step's kind ("create", "update", "delete", "release"). `key_type`, `key_id` and
    `creation` are the object as the provider knows it. `planned` is what will stand if the step
    succeeds (None for a delete): with it an object that is found can be recorded in full.
    `deposed` is the key of the deposed object that is deleted; with a create, the key under
    which the old object is kept. `number` is the step's id in its plan.
    """

    address: Address
    kind: str
    key_type: str
    key_id: str
    creation: int
    planned: ObjectState | None = None
    deposed: str = ""
    number: int = NO_STEP


class Done(Struct, frozen=True):
    """What stands at an address now, in full (None: nothing).

    It closes the intent with this address and creation number. A step that failed and changed
    nothing repeats what stood before, with the `error`. A record without an intent before it is
    fine: an adopted drift, a forgotten object. `number` is the id of the step that is done by it;
    a failed step is not.
    """

    address: Address
    creation: int
    instance: InstanceState | None
    error: str = ""
    number: int = NO_STEP


class Moved(Struct, frozen=True):
    """Instances got new addresses, all at once: (from, to) pairs."""

    pairs: tuple[tuple[Address, Address], ...]


class Finished(Struct, frozen=True):
    """An apply came to its end, with failed steps or without: the root outputs and the checks."""

    outputs: Mapping[str, OutputState] = field(default_factory=dict)
    check_results: tuple[Mapping[str, Any], ...] = ()


class Planned(Struct, frozen=True):
    """A part of the plan that an apply follows: what a crash leaves to do is found in it.

    `data` is part `part` of `parts` of the plan file, compressed, as base64. `plan_digest` is the
    digest of the saved plan that the user applied, "" when there was none. `lineage` and `serial`
    are the state's while it is followed; `steps` is how many steps have an outcome of their own.
    """

    part: int
    parts: int
    steps: int
    plan_digest: str
    lineage: str
    serial: int
    data: str


class Progress(Struct, frozen=True):
    """How far the plan before it was followed: ids of the steps that are done.

    Written when a journal is begun anew while steps are left. `ended`: the apply came to its end by
    itself, with failed steps. `under_way` are the steps that were begun and are not over: id and
    operation, as in UnderWay.
    """

    done: tuple[int, ...]
    ended: bool
    under_way: tuple[tuple[int, str], ...] = ()


class UnderWay(Struct, frozen=True):
    """Step `number` was begun and is not over, and this is the operation that its provider follows, in its
    own words ("": not known). What settles the step (a Done that closes its intent) ends that.
    """

    number: int
    operation: str


Record: TypeAlias = Begun | Intent | Done | Moved | Finished | Planned | Progress | UnderWay


class OpenIntent(Struct, frozen=True):
    """An intent without an outcome, and what the state knew of its address at that time."""

    intent: Intent
    prior: InstanceState | None


# --- lines -------------------------------------------------------------------------------------

_Count: TypeAlias = Annotated[int, Meta(ge=0)]
_Members: TypeAlias = dict[str, Any]


class _Line(Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """The members of a line, which its kind tells."""


class _BegunLine(_Line, frozen=True, tag="begun"):
    lineage: str
    serial: _Count
    nexusform_version: str
    catalogue: str
    plan_digest: str


class _IntentLine(_Line, frozen=True, tag="intent"):
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


class _DoneLine(_Line, frozen=True, tag="done"):
    address: str
    creation: _Count
    instance: _InstanceMembers | None
    error: str
    number: int


class _MovedLine(_Line, frozen=True, tag="moved"):
    pairs: list[tuple[str, str]]


class _FinishedLine(_Line, frozen=True, tag="finished"):
    outputs: dict[str, _Members]
    check_results: list[_Members]


class _PlannedLine(_Line, frozen=True, tag="planned"):
    part: _Count
    parts: _Count
    steps: _Count
    plan_digest: str
    lineage: str
    serial: _Count
    data: str


class _ProgressLine(_Line, frozen=True, tag="progress"):
    done: list[_Count]
    ended: bool
    under_way: list[tuple[_Count, str]]


class _UnderWayLine(_Line, frozen=True, tag="under_way"):
    number: _Count
    operation: str


_AnyLine: TypeAlias = (
    _BegunLine
    | _IntentLine
    | _DoneLine
    | _MovedLine
    | _FinishedLine
    | _PlannedLine
    | _ProgressLine
    | _UnderWayLine
)


# --- writing -----------------------------------------------------------------------------------


def encode(record: Record) -> bytes:
    """The record as one line, without the newline."""
    line = _line_of(record)
    body = json_text.dumps({"kind": line.__struct_config__.tag, **asdict(line)}, sort=True)
    return _HEAD + _check(body) + _MIDDLE + body + b"}"


def _check(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:_CHECK_LENGTH].encode()


def _line_of(record: Record) -> _AnyLine:
    if isinstance(record, Begun):
        return _BegunLine(**asdict(record))
    if isinstance(record, Intent):
        planned = None if record.planned is None else object_members(record.planned)
        return _IntentLine(
            str(record.address),
            record.kind,
            record.key_type,
            record.key_id,
            record.creation,
            planned,
            record.deposed,
            record.number,
        )
    if isinstance(record, Done):
        instance = None if record.instance is None else _instance_members(record.instance)
        return _DoneLine(str(record.address), record.creation, instance, record.error, record.number)
    if isinstance(record, Moved):
        return _MovedLine([(str(source), str(target)) for source, target in record.pairs])
    if isinstance(record, Planned):
        return _PlannedLine(**asdict(record))
    if isinstance(record, Progress):
        return _ProgressLine(list(record.done), record.ended, list(record.under_way))
    if isinstance(record, UnderWay):
        return _UnderWayLine(**asdict(record))
    outputs = {name: output_members(output) for name, output in record.outputs.items()}
    return _FinishedLine(outputs, [dict(check) for check in record.check_results])


def _instance_members(instance: InstanceState) -> _InstanceMembers:
    return {
        "current": None if instance.current is None else object_members(instance.current),
        "deposed": {key: object_members(old) for key, old in instance.deposed.items()},
    }


# --- reading -----------------------------------------------------------------------------------


def read(lines: Iterable[bytes], name: str = "the journal") -> tuple[list[Record], list[Diagnostic]]:
    """The records of a journal and what is wrong with it.

    A torn last line is passed over: its write never came to an end, so nothing was built on it.
    A damaged line before others is an error, for what it held is not known.
    """
    records: list[Record] = []
    problems: list[Diagnostic] = []
    rows = list(lines)
    if any(line.startswith(_OF_DEVELOPMENT) for line in rows):
        return [], [development_file(name[:1].upper() + name[1:], "import the resources again")]
    with json_text.collector_paused():
        for number, line in enumerate(rows, start=1):
            record = _decode(line)
            if record is not None:
                records.append(record)
            elif number < len(rows):
                problems.append(_damaged(name, number))
    return records, problems


def _damaged(name: str, number: int) -> Diagnostic:
    return error(
        "damaged-journal",
        f"Record {number} of {name} is damaged, and records follow it, so it was not cut off by a crash. "
        "Nothing was changed. What it said about one step of an interrupted apply is lost: take that line "
        "out and compare what stands with the state (plan -refresh-only), or restore the file from a copy.",
    )


def _decode(line: bytes) -> Record | None:
    """The record of a line, or None when it is damaged."""
    start = len(_HEAD) + _CHECK_LENGTH
    body = line[start + len(_MIDDLE) : -1]
    whole = _HEAD + _check(body) + _MIDDLE + body + b"}"
    if line != whole:
        return None
    try:
        return _record_of(convert(json_text.loads(body), _AnyLine))
    except (json_text.JsonProblem, ValidationError, AddressProblem):
        return None


def _record_of(line: _AnyLine) -> Record:
    """The record of a line. Raises AddressProblem and ValidationError."""
    match line:
        case _BegunLine():
            return Begun(**asdict(line))
        case _IntentLine():
            planned = None if line.planned is None else _object_of(line.planned)
            return Intent(
                parse_address(line.address),
                line.step,
                line.type,
                line.id,
                line.creation,
                planned,
                line.deposed,
                line.number,
            )
        case _DoneLine():
            instance = None if line.instance is None else _instance_of(line.instance)
            return Done(parse_address(line.address), line.creation, instance, line.error, line.number)
        case _MovedLine():
            pairs = [(parse_address(source), parse_address(target)) for source, target in line.pairs]
            return Moved(tuple(pairs))
        case _PlannedLine():
            return Planned(**asdict(line))
        case _ProgressLine():
            return Progress(tuple(line.done), line.ended, tuple(line.under_way))
        case _UnderWayLine():
            return UnderWay(**asdict(line))
        case _FinishedLine():
            outputs = {name: _output_of(members) for name, members in line.outputs.items()}
            return Finished(outputs, tuple(line.check_results))


def _instance_of(members: _InstanceMembers) -> InstanceState:
    current = None if members["current"] is None else _object_of(members["current"])
    return InstanceState(current, {key: _object_of(old) for key, old in members["deposed"].items()})


def _object_of(members: _Members) -> ObjectState:
    if not check_members(members, OBJECT_RULES, (), []):
        raise ValidationError("no object of a state")
    return object_from_members(members)


def _output_of(members: _Members) -> OutputState:
    output = read_output(members, (), [])
    if output is None:
        raise ValidationError("no output of a state")
    return output
