"""The records of the journal: what an apply is about to do, and what came of it.

One record is one line of JSON with a checksum. Before a step calls its provider the intent is
written down, after the answer the outcome: whatever happens in between, the next run knows which
object to look for. `draft.replay` puts records onto a state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct, field

from nexusform.address import Address, AddressProblem, parse_address
from nexusform.diagnostics import Diagnostic, Problem, error
from nexusform.state import json_text
from nexusform.state.codec import output_members, read_output
from nexusform.state.model import InstanceState, ObjectState, OutputState
from nexusform.state.object_codec import (
    OBJECT_RULES,
    Rule,
    check_members,
    is_count,
    is_list,
    is_object,
    is_objects,
    is_text,
    object_from_members,
    object_members,
)

_HEAD: Final = b'{"check":"'
_MIDDLE: Final = b'","record":'
_CHECK_LENGTH: Final = 16


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
    which the old object is kept.
    """

    address: Address
    kind: str
    key_type: str
    key_id: str
    creation: int
    planned: ObjectState | None = None
    deposed: str = ""


class Done(Struct, frozen=True):
    """What stands at an address now, in full (None: nothing).

    It closes the intent with this address and creation number. A step that failed and changed
    nothing repeats what stood before, with the `error`. A record without an intent before it is
    fine: an adopted drift, a forgotten object.
    """

    address: Address
    creation: int
    instance: InstanceState | None
    error: str = ""


class Moved(Struct, frozen=True):
    """Instances got new addresses, all at once: (from, to) pairs."""

    pairs: tuple[tuple[Address, Address], ...]


class Finished(Struct, frozen=True):
    """An apply came to its end, with failed steps or without: the root outputs and the checks."""

    outputs: Mapping[str, OutputState] = field(default_factory=dict)
    check_results: tuple[Mapping[str, Any], ...] = ()


Record: TypeAlias = Begun | Intent | Done | Moved | Finished


class OpenIntent(Struct, frozen=True):
    """An intent without an outcome, and what the state knew of its address at that time."""

    intent: Intent
    prior: InstanceState | None


# --- writing -----------------------------------------------------------------------------------


def encode(record: Record) -> bytes:
    """The record as one line, without the newline."""
    body = json_text.dumps(_members(record), sort=True)
    return _HEAD + _check(body) + _MIDDLE + body + b"}"


def _check(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:_CHECK_LENGTH].encode()


def _members(record: Record) -> dict[str, Any]:
    if isinstance(record, Intent):
        return {
            "kind": "intent",
            "address": str(record.address),
            "step": record.kind,
            "type": record.key_type,
            "id": record.key_id,
            "creation": record.creation,
            "planned": None if record.planned is None else object_members(record.planned),
            "deposed": record.deposed,
        }
    if isinstance(record, Done):
        return {
            "kind": "done",
            "address": str(record.address),
            "creation": record.creation,
            "instance": None if record.instance is None else _instance_members(record.instance),
            "error": record.error,
        }
    if isinstance(record, Moved):
        return {"kind": "moved", "pairs": [[str(source), str(target)] for source, target in record.pairs]}
    if isinstance(record, Begun):
        return {
            "kind": "begun",
            "lineage": record.lineage,
            "serial": record.serial,
            "nexusform_version": record.nexusform_version,
            "catalogue": record.catalogue,
            "plan_digest": record.plan_digest,
        }
    return {
        "kind": "finished",
        "outputs": {name: output_members(output) for name, output in record.outputs.items()},
        "check_results": record.check_results,
    }


def _instance_members(instance: InstanceState) -> dict[str, Any]:
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
        members = json_text.loads(body)
    except json_text.JsonProblem:
        return None
    if not is_object(members):
        return None
    reader = _READERS.get(str(members.get("kind")))
    return None if reader is None else reader(members)


_TEXT: Final = Rule(is_text, "a string", required=True)
_COUNT: Final = Rule(is_count, "a whole number from 0", required=True)
_ANY: Final = Rule(lambda _: True, "a value", required=True)
_KIND: Final[Mapping[str, Rule]] = {"kind": _TEXT}
_BEGUN: Final = {
    **_KIND,
    "lineage": _TEXT,
    "serial": _COUNT,
    "nexusform_version": _TEXT,
    "catalogue": _TEXT,
    "plan_digest": _TEXT,
}
_INTENT: Final = {
    **_KIND,
    "address": _TEXT,
    "step": _TEXT,
    "type": _TEXT,
    "id": _TEXT,
    "creation": _COUNT,
    "planned": _ANY,
    "deposed": _TEXT,
}
_DONE: Final = {**_KIND, "address": _TEXT, "creation": _COUNT, "instance": _ANY, "error": _TEXT}
_INSTANCE: Final = {"current": _ANY, "deposed": Rule(is_object, "an object", required=True)}
_MOVED: Final = {**_KIND, "pairs": Rule(is_list, "a list", required=True)}
_FINISHED: Final = {
    **_KIND,
    "outputs": Rule(is_object, "an object", required=True),
    "check_results": Rule(is_objects, "a list of objects", required=True),
}


def _obeys(members: Any, rules: Mapping[str, Rule]) -> bool:
    return check_members(members, rules, (), [])


def _read_begun(members: dict[str, Any]) -> Record | None:
    if not _obeys(members, _BEGUN):
        return None
    fields = [
        members[name] for name in ("lineage", "serial", "nexusform_version", "catalogue", "plan_digest")
    ]
    return Begun(*fields)


def _read_intent(members: dict[str, Any]) -> Record | None:
    if not _obeys(members, _INTENT):
        return None
    address = _address(members["address"])
    planned = members["planned"]
    if address is None or not (planned is None or _obeys(planned, OBJECT_RULES)):
        return None
    return Intent(
        address,
        members["step"],
        members["type"],
        members["id"],
        members["creation"],
        None if planned is None else object_from_members(planned),
        members["deposed"],
    )


def _read_done(members: dict[str, Any]) -> Record | None:
    if not _obeys(members, _DONE):
        return None
    address = _address(members["address"])
    if address is None:
        return None
    entry = members["instance"]
    if entry is None:
        return Done(address, members["creation"], None, members["error"])
    instance = _read_instance(entry)
    return None if instance is None else Done(address, members["creation"], instance, members["error"])


def _read_instance(members: Any) -> InstanceState | None:
    if not _obeys(members, _INSTANCE):
        return None
    current, deposed = members["current"], members["deposed"]
    standing = [*deposed.values()] if current is None else [current, *deposed.values()]
    if not all(_obeys(entry, OBJECT_RULES) for entry in standing):
        return None
    return InstanceState(
        None if current is None else object_from_members(current),
        {key: object_from_members(entry) for key, entry in deposed.items()},
    )


def _read_moved(members: dict[str, Any]) -> Record | None:
    if not _obeys(members, _MOVED):
        return None
    pairs = []
    for pair in members["pairs"]:
        addresses = [_address(text) for text in pair] if is_list(pair) else []
        if len(addresses) != 2 or addresses[0] is None or addresses[1] is None:
            return None
        pairs.append((addresses[0], addresses[1]))
    return Moved(tuple(pairs))


def _read_finished(members: dict[str, Any]) -> Record | None:
    if not _obeys(members, _FINISHED):
        return None
    mistakes: list[Problem] = []
    outputs = {}
    for name, entry in members["outputs"].items():
        output = read_output(entry, (), mistakes)
        if output is None:
            return None
        outputs[name] = output
    return Finished(outputs, tuple(members["check_results"]))


def _address(text: Any) -> Address | None:
    if not is_text(text):
        return None
    try:
        return parse_address(text)
    except AddressProblem:
        return None


_READERS: Final = {
    "begun": _read_begun,
    "intent": _read_intent,
    "done": _read_done,
    "moved": _read_moved,
    "finished": _read_finished,
}
