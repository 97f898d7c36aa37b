"""A plan as a file: a ZIP of JSON documents that is applied exactly as it was reviewed.

`nexusform.json` comes first and names the format, its version and the SHA-256 of every other
member; `values.json`, what the others share; `plan.json` and its large parts; the configuration as it was
read; the prior state, whose objects are mostly those of the changes; last of all `signature.json`, when the
plan was signed. The same plan gives the same bytes on every machine. Sensitive values stand in it in plain
text, as they do in the state.

The archive has exactly one form: members stored as they are, in order, at one fixed time. Any unzip program
opens it. Nothing is compressed: the bytes then depend on the content alone, not on the version of a
compression library, and a small file cannot unfold into a large one. What is equal stands once instead
(shared_values.py, tables.py), within bounds.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from types import MappingProxyType
from typing import Any, BinaryIO, Final
from zlib import crc32

from msgspec import Struct

import nexusform
from nexusform.diagnostics import Diagnostic, Refused, development_file, error
from nexusform.plain_data import ConversionProblem
from nexusform.plans.plan import Plan
from nexusform.plans.saved.record_codec import read_record, write_record
from nexusform.plans.saved.shared_values import Misshapen, Sharing, Unsharing
from nexusform.ports import FileProblem
from nexusform.state import json_text
from nexusform.state.codec import path_text
from nexusform.values import Unknown

FORMAT: Final = "nexusform"
KIND: Final = "plan"
VERSION: Final = 1
_OF_DEVELOPMENT: Final = "nexusform-plan"  # the format of plans before the first release

_MANIFEST: Final = "nexusform.json"
_VALUES: Final = "values.json"
_PLAN: Final = "plan.json"
_CONFIGURATION: Final = "configuration.json"
_PRIOR: Final = "prior-state.json"
_SIGNATURE: Final = "signature.json"
PLAN_OF_SITES: Final = "sites.json"  # the first part of what `sites plan -out` writes
_OF_SITES: Final = (
    "is a plan of many sites: `nexusform sites sign` signs it, `nexusform sites apply` applies it. The plan "
    "of one site is a part of it, for show, explain and all others: `unzip -p F.nfsites plans/SITE.nfplan > "
    "SITE.nfplan`."
)
# Fields of Plan that are members of their own.
_LARGE: Final = ("changes", "steps", "placements", "sites")
_MEMBERS: Final = (_VALUES, _PLAN, *[f"{name}.json" for name in _LARGE], _CONFIGURATION, _PRIOR)


class SavedPlan(Struct, frozen=True):
    """What a plan file holds.

    `snapshot` maps the names of the configuration's files to their text; `prior_state` is the
    state document that the plan was made from, as plain data (empty: there was none); `digest` names this
    very plan, signed or not (state remembers the digests of applied plans). `signature` (None: not signed)
    was made of `signed_digest`.
    """

    plan: Plan
    snapshot: Mapping[str, str]
    prior_state: Mapping[str, Any]
    digest: str
    signed_digest: str = ""
    signature: Mapping[str, Any] | None = None


def digest(data: bytes) -> str:
    """The digest of a plan file: SHA-256, as hex. Equal plans have equal files, so equal digests."""
    return hashlib.sha256(data).hexdigest()


def _signed_digest(members: Mapping[str, bytes]) -> str:
    """What a signature is made of: a digest over the names and digests of all parts, in whatever order."""
    return _digest_over({name: digest(content) for name, content in members.items()})


def _digest_over(digests: Mapping[str, str]) -> str:
    listed = sorted(f"{each}  {name}\n" for name, each in digests.items())
    return digest("".join(listed).encode())


# --- writing -----------------------------------------------------------------------------------


def write(
    plan: Plan,
    snapshot: Mapping[str, str],
    prior_state: Mapping[str, Any] = MappingProxyType({}),
    sign: Callable[[str], Mapping[str, str]] | None = None,
) -> bytes:
    """The plan file. Raises FileProblem. `sign` makes a signature of a digest.

    The defaults of optional object attributes in the types of variables are not kept: values
    have them filled in already.
    """
    with json_text.collector_paused():
        record = write_record(plan)
        documents: dict[str, Any] = {f"{name}.json": record.pop(name, []) for name in _LARGE}
        documents = {_PLAN: record, **documents, _CONFIGURATION: dict(sorted(snapshot.items()))}
        documents[_PRIOR] = dict(prior_state)
        mark, members = _written(documents)
    manifest = {
        "format": FORMAT,
        "kind": KIND,
        "version": VERSION,
        "nexusform_version": plan.nexusform_version or nexusform.__version__,
        "mark": mark,
        "members": {name: digest(content) for name, content in members.items()},
    }
    members = {_MANIFEST: json_text.dumps(manifest, indent=True) + b"\n", **members}
    return pack(members) if sign is None else pack(with_signature(members, sign))


def with_signature(
    members: Mapping[str, bytes], sign: Callable[[str], Mapping[str, str]]
) -> dict[str, bytes]:
    """The members of an archive with a signature over all of them, in the place of one that was there."""
    parts = {name: content for name, content in members.items() if name != _SIGNATURE}
    name, signature = signature_over({each: digest(content) for each, content in parts.items()}, sign)
    return {**parts, name: signature}


def signature_over(digests: Mapping[str, str], sign: Callable[[str], Mapping[str, str]]) -> tuple[str, bytes]:
    """The member that signs members with these digests: its name and its content."""
    signature = sign(_digest_over(digests))
    return _SIGNATURE, json_text.dumps(signature, indent=True) + b"\n"


def signature_of(
    digests: Mapping[str, str], last: tuple[str, bytes], name: str
) -> tuple[dict[str, Any] | None, str]:
    """The signature of an archive whose members have these digests, None when the last of them is none, and
    the digest that it is made of. Raises Refused.
    """
    parts = {part: each for part, each in digests.items() if part != _SIGNATURE}
    content = last[1] if last[0] == _SIGNATURE else None
    return _signature(content, name), _digest_over(parts)


def _written(documents: Mapping[str, Any]) -> tuple[str, dict[str, bytes]]:
    """The documents as JSON, after the values that they share, and the mark of what stands for others."""
    sharing = Sharing(documents)

    def as_mark(value: Any) -> Any:
        return sharing.unknown if isinstance(value, Unknown) else json_text.plain_mapping(value)

    parts = {_VALUES: sharing.shared, **sharing.documents}
    return sharing.mark, {name: json_text.dumps(value, default=as_mark) for name, value in parts.items()}


# --- reading -----------------------------------------------------------------------------------


def read(
    data: bytes, name: str = "the plan file", running: str = nexusform.__version__
) -> tuple[SavedPlan | None, list[Diagnostic]]:
    """What a plan file holds, or None and why it is refused.

    `name` is what to call it, `running` the version of this nexusform.
    """
    try:
        with json_text.collector_paused():
            return _read(data, name, running), []
    except Refused as refused:
        return None, refused.diagnostics


def _read(data: bytes, name: str, running: str) -> SavedPlan:
    """The plan in these bytes. Raises Refused: no plan, damaged, or of another version."""
    manifest = _manifest(data, name)
    _check_version(manifest, name, running)
    members = unpack(data)
    if members is None:
        raise _damaged(name, "Bytes are missing, changed or added.")
    signature = _signature(members.pop(_SIGNATURE, None), name)
    _check_parts(manifest, members, name)
    documents = _documents(manifest, members, name)
    record = documents.pop(_PLAN)
    if not isinstance(record, dict):
        raise _damaged(name, f'Its part "{_PLAN}" is not an object.')
    snapshot = documents.pop(_CONFIGURATION)
    if not isinstance(snapshot, dict) or not all(isinstance(text, str) for text in snapshot.values()):
        raise _damaged(name, f'Its part "{_CONFIGURATION}" does not hold files.')
    prior_state = documents.pop(_PRIOR)
    if not isinstance(prior_state, dict):
        raise _damaged(name, f'Its part "{_PRIOR}" is not an object.')
    try:
        plan = read_record(Plan, record | {part: documents.pop(f"{part}.json") for part in _LARGE})
    except ConversionProblem as problem:
        where = path_text(problem.path)
        raise _damaged(name, f"It does not fit at {where}: {problem.message}.") from None
    unsigned = data if signature is None else pack(members)
    return SavedPlan(plan, snapshot, prior_state, digest(unsigned), _signed_digest(members), signature)


def _check_parts(manifest: Mapping[str, Any], members: Mapping[str, bytes], name: str) -> None:
    """Raise Refused where a plan has other parts than it should, or others than were saved."""
    digests = manifest.get("members")
    if (
        not isinstance(digests, dict)
        or tuple(members) != (_MANIFEST, *_MEMBERS)
        or set(digests) != set(_MEMBERS)
    ):
        raise _damaged(name, "Its parts are not those of a plan.")
    for member in _MEMBERS:
        if digests[member] != digest(members[member]):
            raise _damaged(name, f'Its part "{member}" is not what was saved.')


def _signature(content: bytes | None, name: str) -> dict[str, Any] | None:
    if content is None:
        return None
    try:
        signature = json_text.loads(content)
    except json_text.JsonProblem:
        signature = None
    if not isinstance(signature, dict):
        raise _damaged(name, "Its signature is not one that nexusform wrote.")
    return signature


def _manifest(data: bytes, name: str) -> dict[str, Any]:
    """The first part, which says what the others are. Raises Refused when this is no plan."""
    first = member_at(data, 0)
    if first is None or first[0] != _MANIFEST:
        if not data.startswith(b"PK"):
            raise _refused("not-a-plan-file", f"{name} is not a plan that nexusform plan -out wrote.")
        if b"tfplan" in data[:200]:
            why = "It is a saved plan of Terraform or OpenTofu."
            raise _refused("not-a-plan-file", f"{name} cannot be used. {why}")
        if first is not None and first[0] == PLAN_OF_SITES:
            raise _refused("not-a-plan-file", f"{name} {_OF_SITES}")
        raise _damaged(name, "It is a ZIP file, but not one that nexusform wrote.")
    try:
        manifest = json_text.loads(first[1])
    except json_text.JsonProblem:
        manifest = None
    if isinstance(manifest, dict) and manifest.get("format") == _OF_DEVELOPMENT:
        raise Refused(development_file(name, "run plan again"))
    if not isinstance(manifest, dict) or (manifest.get("format"), manifest.get("kind")) != (FORMAT, KIND):
        raise _damaged(name, "Its first part does not say what it is.")
    return manifest


def _check_version(manifest: Mapping[str, Any], name: str, running: str) -> None:
    version, by = manifest.get("version"), manifest.get("nexusform_version")
    if not isinstance(version, int) or version < 1 or not isinstance(by, str):
        raise _damaged(name, "Its first part does not say which version it is of.")
    if version > VERSION or _numbers(by) > _numbers(running):
        raise _refused(
            "plan-of-a-newer-nexusform",
            f"{name} was made by nexusform {by}; this is nexusform {running}. Apply it with the version that "
            "made it, or plan again with this one.",
        )


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers at the start of a version, comparable: `1.2.3rc1` counts as 1.2.3."""
    match = re.match(r"\d{1,9}(\.\d{1,9}){0,4}", version)
    return tuple(int(number) for number in match.group().split(".")) if match else ()


def _documents(manifest: Mapping[str, Any], members: Mapping[str, bytes], name: str) -> dict[str, Any]:
    """The parts of a plan with every shared or unknown value in its place. Raises Refused."""
    mark = manifest.get("mark")
    if not isinstance(mark, str) or not mark:
        raise _damaged(name, "It does not say how shared and unknown values are written.")
    parts = [part for part in _MEMBERS if part != _VALUES]
    try:
        sharing = Unsharing(mark, _document(members, _VALUES, name))
        return {part: sharing.whole(_document(members, part, name)) for part in parts}
    except Misshapen as problem:
        raise _damaged(name, str(problem)) from None


def _document(members: Mapping[str, bytes], member: str, name: str) -> Any:
    try:
        return json_text.loads(members[member])
    except json_text.JsonProblem as problem:
        raise _damaged(name, f'Its part "{member}" is not JSON: {problem.message}.') from None


def _refused(kind: str, detail: str) -> Refused:
    return Refused(error(kind, detail))


def _damaged(name: str, why: str) -> Refused:
    return _refused("damaged-plan-file", f"{name} cannot be used. {why} Fetch it again, or plan again.")


LARGEST: Final = 0xFFFF_FFFE  # sizes and offsets are 32 bits wide

_LOCAL: Final = struct.Struct("<4s5H3I2H")
_CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
_END: Final = struct.Struct("<4s4H2IH")
_VERSION: Final = 20  # what it takes to read: version 2.0
_MADE_BY: Final = (3 << 8) | _VERSION  # Unix, so that the file mode below counts
_MODE: Final = 0o100600 << 16
_UTF8: Final = 1 << 11
_STORED: Final = 0
_TIME: Final = 0
_DATE: Final = (1 << 5) | 1  # 1 January 1980, the first day there is


class Torn(Exception):
    """Bytes of an archive are missing, changed or added."""


def pack(members: Mapping[str, bytes]) -> bytes:
    """The archive of these members. Raises FileProblem when it is beyond the format's 4 GiB."""
    return b"".join(packed(members.items()))


def packed(members: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    """The archive in pieces, each member asked for when it is its turn. Raises FileProblem as `pack` does."""
    index = _Index()
    for name, content in members:
        if index.offset + len(content) > LARGEST:
            raise FileProblem(
                "A plan file holds 4 GiB at most, and this plan has more. Plan a part: -target."
            )
        yield from (index.add(name.encode(), content), content)
    yield index.end()


class _Index:
    """What stands around the members of an archive: a head before each, and the directory at the end."""

    def __init__(self) -> None:
        self.offset = 0
        self._directory: list[bytes] = []

    def add(self, label: bytes, content: bytes) -> bytes:
        """The head of one more member."""
        check = (crc32(content), len(content), len(content))
        head = _LOCAL.pack(b"PK\3\4", _VERSION, _UTF8, _STORED, _TIME, _DATE, *check, len(label), 0) + label
        self._directory.append(
            _CENTRAL.pack(
                b"PK\1\2", _MADE_BY, _VERSION, _UTF8, _STORED, _TIME, _DATE, *check,
                len(label), 0, 0, 0, 0, _MODE, self.offset,
            )
            + label
        )  # fmt: skip
        self.offset += len(head) + len(content)
        return head

    def end(self) -> bytes:
        """The directory."""
        count, listed = len(self._directory), b"".join(self._directory)
        return listed + _END.pack(b"PK\5\6", 0, 0, count, count, len(listed), self.offset, 0)


def unpack(data: bytes) -> dict[str, bytes] | None:
    """The members of an archive as `pack` makes it, or None when any byte is not as it would be."""
    try:
        return dict(each_member(BytesIO(data), len(data))) or None
    except Torn:
        return None


def each_member(file: BinaryIO, size: int) -> Iterator[tuple[str, bytes]]:
    """The members of an archive of so many bytes, one after the other; none where it is no archive.

    Raises Torn, at the end at the latest, when any byte is not as `pack` would write it.
    """
    index, names = _Index(), set[str]()
    while (head := file.read(_LOCAL.size))[:4] == b"PK\3\4" and len(head) == _LOCAL.size:
        content_size, label_size = _LOCAL.unpack(head)[8:10]
        if index.offset + len(head) + label_size + content_size > size:
            raise Torn
        label = file.read(label_size)
        name, content = label.decode("utf-8", "replace"), file.read(content_size)
        if name in names or index.add(name.encode(), content) != head + label:
            raise Torn
        names.add(name)
        yield name, content
    end = index.end()
    if names and head + file.read(len(end)) != end:
        raise Torn


def member_at(data: bytes, at: int) -> tuple[str, bytes, int] | None:
    """The member that begins at an offset: name, content and the offset after it."""
    if data[at : at + 4] != b"PK\3\4" or len(data) < at + _LOCAL.size:
        return None
    fields = _LOCAL.unpack_from(data, at)
    method, size, label_size = fields[3], fields[8], fields[9]
    start = at + _LOCAL.size + label_size
    if method != _STORED or start + size > len(data):
        return None
    name = data[at + _LOCAL.size : start].decode("utf-8", "replace")
    return name, data[start : start + size], start + size
