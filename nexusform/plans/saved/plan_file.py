"""Plan file: a ZIP of JSON documents, applied exactly as reviewed.

`nexusform.json` is the first member and holds the format, the version and the SHA-256 of every
other member; then `values.json`, shared by the others; `plan.json` and its large parts; the
configuration as read; the prior state, with objects mostly shared with the changes; last
`signature.json`, if the plan was signed. The same plan gives the same bytes on every machine.
Sensitive values are stored in plain text, as in the state.

The archive has exactly one form: uncompressed members, in order, at one fixed time. Any unzip
program opens it. Without compression the bytes depend on the content alone, not on the version of a
compression library, and a small file cannot expand into a large one. Equal values are stored once
instead (shared_values.py, record_codec.py), within limits.
"""

import hashlib
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from types import MappingProxyType
from typing import Any, BinaryIO, Final
from zlib import crc32

from msgspec import Struct, ValidationError, convert

import nexusform
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    DiagnosticsError,
    build_development_file_error,
    build_error,
)
from nexusform.interfaces.plugins import FileProblem
from nexusform.json_data.plain_data import ConversionProblem
from nexusform.plans.plan import PLAN_PARTS, Plan
from nexusform.plans.saved.record_codec import read_record, write_record
from nexusform.plans.saved.shared_values import (
    DocumentDeduplicator,
    DocumentExpander,
    SharedValuesError,
)
from nexusform.plans.saved.tied_machines import has_valid_ties, replace_ties_by_sets
from nexusform.state import json_codec
from nexusform.state.state_codec import format_json_path
from nexusform.values.typed_value import Unknown

FORMAT: Final = "nexusform"
KIND: Final = "plan"
VERSION: Final = 1
# The format of plans before the first release.
_DEVELOPMENT_FORMAT: Final = "nexusform-plan"

MANIFEST: Final = "nexusform.json"
_VALUES: Final = "values.json"
_PLAN: Final = "plan.json"
_CONFIGURATION: Final = "configuration.json"
_PRIOR: Final = "prior-state.json"
_SIGNATURE: Final = "signature.json"
# The first member of the file written by `sites plan -out`.
MULTI_SITE_PLAN: Final = "sites.json"
_MULTI_SITE_MESSAGE: Final = (
    "is a plan of many sites: `nexusform sites sign` signs it, `nexusform sites apply` applies it. "
    "For show, explain and others, extract the plan of one site: `unzip -p F.nfsites "
    "plans/SITE.nfplan.gz | gunzip > SITE.nfplan`."
)
# Fields that are members of their own.
_LARGE: Final = ("changes", "steps", "placements", "sites")
_MEMBERS: Final = (_VALUES, _PLAN, *[f"{name}.json" for name in _LARGE], _CONFIGURATION, _PRIOR)


class SavedPlan(Struct, frozen=True):
    """Content of a plan file.

    `configuration_files` maps the names of the configuration's files to their text; `prior_state`
    is the state document behind the plan, as plain data (empty: none); `digest` identifies this
    plan, signed or not (state records the digests of applied plans). `signature` (None: not
    signed) covers `signed_digest`.
    """

    plan: Plan
    configuration_files: Mapping[str, str]
    prior_state: Mapping[str, Any]
    digest: str
    signed_digest: str = ""
    signature: Mapping[str, Any] | None = None


def compute_digest(data: bytes) -> str:
    """Return the digest of a plan file: SHA-256, as hex.

    Equal plans have equal files, so equal digests.
    """
    return hashlib.sha256(data).hexdigest()


def _compute_digest_of_digests(digests: Mapping[str, str]) -> str:
    """Return the digest covered by a signature.

    Over the names and digests of all members, in any order.
    """
    lines = sorted(f"{member_digest}  {name}\n" for name, member_digest in digests.items())
    return compute_digest("".join(lines).encode())


def write_plan_file(
    plan: Plan,
    configuration_files: Mapping[str, str],
    prior_state: Mapping[str, Any] = MappingProxyType({}),
) -> bytes:
    """Return the bytes of the plan file.

    Raises FileProblem, and TypeError for a hypothetical plan.
    """
    plan.reject_assumptions()
    # The mark is the prefix of references to values written once.
    mark, members = _serialize_documents(_build_documents(plan, configuration_files, prior_state))
    manifest = {
        "format": FORMAT,
        "kind": KIND,
        "version": VERSION,
        "nexusform_version": plan.start.nexusform_version or nexusform.__version__,
        "mark": mark,
        "members": {name: compute_digest(content) for name, content in members.items()},
    }
    members = {MANIFEST: json_codec.render_json(manifest, indent=True) + b"\n", **members}
    return pack_archive(members)


def _build_documents(
    plan: Plan, configuration_files: Mapping[str, str], prior_state: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the documents of a plan file by member."""
    record = write_record(replace_ties_by_sets(plan))
    for part in PLAN_PARTS:
        record |= record.pop(part, {})
    # Each is a member of its own.
    large_fields = {f"{name}.json": record.pop(name, []) for name in _LARGE}
    return {
        _PLAN: record,
        **large_fields,
        _CONFIGURATION: dict(sorted(configuration_files.items())),
        _PRIOR: dict(prior_state),
    }


def sign_archive(archive: bytes, sign: Callable[[str], Mapping[str, str]]) -> bytes:
    """Return the archive of a valid plan file with a signature.

    Raises FileProblem.
    """
    # None only for an invalid plan file.
    members = unpack_archive(archive) or {}
    return pack_archive(sign_members(members, sign))


def sign_members(
    members: Mapping[str, bytes], sign: Callable[[str], Mapping[str, str]]
) -> dict[str, bytes]:
    """Return the members of an archive with a signature over all of them.

    It replaces an existing one.
    """
    parts = {name: content for name, content in members.items() if name != _SIGNATURE}
    name, signature = build_signature_member(
        {part: compute_digest(content) for part, content in parts.items()}, sign
    )
    return {**parts, name: signature}


def build_signature_member(
    digests: Mapping[str, str], sign: Callable[[str], Mapping[str, str]]
) -> tuple[str, bytes]:
    """Return the name and content of the signature of members with these digests.

    `sign` signs the digest of all.
    """
    signature = sign(_compute_digest_of_digests(digests))
    return _SIGNATURE, json_codec.render_json(signature, indent=True) + b"\n"


def read_signature(
    digests: Mapping[str, str], last: tuple[str, bytes], name: str
) -> tuple[dict[str, Any] | None, str]:
    """Return the signature of a file, and the digest to compare it with.

    The signature is in the `last` member (None: unsigned). The digest is over the `digests` of the
    others. `name` is the file. Raises DiagnosticsError.
    """
    signed_digests = {
        part: part_digest for part, part_digest in digests.items() if part != _SIGNATURE
    }
    # A signature is always the last member.
    last_name, content = last
    signature = _parse_signature(content if last_name == _SIGNATURE else None, name)
    return signature, _compute_digest_of_digests(signed_digests)


def _serialize_documents(documents: Mapping[str, Any]) -> tuple[str, dict[str, bytes]]:
    """Return the mark, and these values and the documents as JSON by member.

    Prefix of references to shared values.
    """
    sharing = DocumentDeduplicator(documents)
    mark, unknown_reference = sharing.mark, sharing.unknown_reference

    def encode_value(value: Any) -> Any:
        return (
            unknown_reference if isinstance(value, Unknown) else json_codec.convert_mapping(value)
        )

    parts = {_VALUES: sharing.shared, **sharing.documents}
    # Each part is freed once it is rendered.
    del sharing, documents
    return mark, {
        name: json_codec.render_json(parts.pop(name), default=encode_value) for name in list(parts)
    }


def read_plan_file(
    data: bytes, name: str = "the plan file", own_version: str = nexusform.__version__
) -> tuple[SavedPlan | None, list[Diagnostic]]:
    """Return the content of a plan file, or None and diagnostics.

    `own_version` is the version of this nexusform.
    """
    try:
        return _parse_plan(data, name, own_version), []
    except DiagnosticsError as problem:
        return None, problem.diagnostics


def _parse_plan(data: bytes, name: str, own_version: str) -> SavedPlan:
    """Return the plan in a file named `name`, with its configuration, prior state and signature.

    The members must be the known ones with the digests in the manifest. Raises DiagnosticsError: no
    plan, damaged, or of another version.
    """
    manifest = _read_manifest(data, name)
    _check_plan_format_version(manifest, name, own_version)
    members = unpack_archive(data)
    if members is None:
        raise _build_damaged_file_error(name, "Bytes are missing, changed or added.")
    signature = _parse_signature(members.pop(_SIGNATURE, None), name)
    digests = manifest.get("members")
    if (
        not isinstance(digests, dict)
        or tuple(members) != (MANIFEST, *_MEMBERS)
        or set(digests) != set(_MEMBERS)
    ):
        raise _build_damaged_file_error(name, "Its parts are not those of a plan.")
    for member in _MEMBERS:
        if digests[member] != compute_digest(members[member]):
            raise _build_damaged_file_error(
                name, f'Its part "{member}" was changed after it was saved.'
            )
    documents = _parse_plan_documents(manifest, members, name)
    record = _pop_object(documents, _PLAN, name)
    try:
        configuration_files = convert(documents.pop(_CONFIGURATION), dict[str, str])
    except ValidationError:
        raise _build_damaged_file_error(
            name, f'Its part "{_CONFIGURATION}" does not contain files.'
        ) from None
    prior_state = _pop_object(documents, _PRIOR, name)
    # Each is a member of its own.
    large_fields = {part: documents.pop(f"{part}.json") for part in _LARGE}
    try:
        plan = read_record(Plan, _group_by_part(record | large_fields))
    except ConversionProblem as problem:
        location = format_json_path(problem.path)
        raise _build_damaged_file_error(
            name, f"It is invalid at {location}: {problem.message}."
        ) from None
    if not has_valid_ties(plan):
        raise _build_damaged_file_error(name, "Its tied machines are invalid.")
    # Files of earlier versions have names or classes instead of sets.
    plan = replace_ties_by_sets(plan)
    # The file before it was signed.
    unsigned = data if signature is None else pack_archive(members)
    return SavedPlan(
        plan=plan,
        configuration_files=configuration_files,
        prior_state=prior_state,
        digest=compute_digest(unsigned),
        signed_digest=_compute_digest_of_digests(
            {part: compute_digest(content) for part, content in members.items()}
        ),
        signature=signature,
    )


def _group_by_part(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a plan from the fields of all of its parts side by side."""
    fields = dict(record)
    parts = {
        part: {name: fields.pop(name) for name in kind.__struct_fields__ if name in fields}
        for part, kind in PLAN_PARTS.items()
    }
    # A part of an untrusted file would replace that of its fields.
    for name in set(fields).intersection(PLAN_PARTS):
        raise ConversionProblem((name,), f'"{name}" is not known here')
    return fields | parts


def _pop_object(documents: dict[str, Any], part: str, name: str) -> dict[str, Any]:
    """Remove a part from the documents of the plan file `name` and return it.

    Raises DiagnosticsError for no object.
    """
    document = documents.pop(part)
    if not isinstance(document, dict):
        raise _build_damaged_file_error(name, f'Its part "{part}" is not an object.')
    return document


def _parse_signature(content: bytes | None, name: str) -> dict[str, Any] | None:
    """Parse the signature of the plan file `name`; None for an unsigned plan.

    Raises DiagnosticsError.
    """
    if content is None:
        return None
    signature = _parse_json_object(content)
    if signature is None:
        raise _build_damaged_file_error(name, "Its signature was not written by nexusform.")
    return signature


def _parse_json_object(content: bytes) -> dict[str, Any] | None:
    """Parse a JSON object; None if the content is something else."""
    try:
        document = json_codec.parse_json(content)
    except json_codec.JsonProblem:
        return None
    return document if isinstance(document, dict) else None


def _read_manifest(data: bytes, name: str) -> dict[str, Any]:
    """Return the manifest (first member) of the plan file `name`.

    Raises DiagnosticsError if it is no plan.
    """
    first_name, content, _ = read_member_at(data, 0) or ("", b"", 0)
    if first_name != MANIFEST:
        if not data.startswith(b"PK"):
            raise _build_rejection(
                "not-a-plan-file", f"{name} was not written by nexusform plan -out."
            )
        # The name of its first member.
        if b"tfplan" in data[:200]:
            reason = "It is a saved plan of Terraform or OpenTofu."
            raise _build_rejection("not-a-plan-file", f"{name} cannot be used. {reason}")
        if first_name == MULTI_SITE_PLAN:
            raise _build_rejection("not-a-plan-file", f"{name} {_MULTI_SITE_MESSAGE}")
        raise _build_damaged_file_error(name, "It is a ZIP file, but was not written by nexusform.")
    manifest = _parse_json_object(content) or {}
    if manifest.get("format") == _DEVELOPMENT_FORMAT:
        raise DiagnosticsError(build_development_file_error(name, "run plan again"))
    if (manifest.get("format"), manifest.get("kind")) != (FORMAT, KIND):
        raise _build_damaged_file_error(name, "Its manifest does not describe a plan.")
    return manifest


def _check_plan_format_version(manifest: Mapping[str, Any], name: str, own_version: str) -> None:
    """Check the versions in a manifest.

    Raises DiagnosticsError if one is missing, or newer than this nexusform's.
    """
    version = manifest.get("version")
    writer_version = manifest.get("nexusform_version")
    if not isinstance(version, int) or version < 1 or not isinstance(writer_version, str):
        raise _build_damaged_file_error(name, "Its manifest has no format version.")
    if version > VERSION or _parse_version_numbers(writer_version) > _parse_version_numbers(
        own_version
    ):
        raise _build_rejection(
            "newer-plan-format",
            f"{name} was created by nexusform {writer_version}; this is nexusform {own_version}. "
            "Apply it with that version, or plan again with this one.",
        )


def _parse_version_numbers(version: str) -> tuple[int, ...]:
    """Return the numbers at the start of a version, comparable: `1.2.3rc1` counts as 1.2.3."""
    match = re.match(r"\d{1,9}(\.\d{1,9}){0,4}", version)
    return tuple(map(int, match.group().split("."))) if match else ()


def _parse_plan_documents(
    manifest: Mapping[str, Any], members: Mapping[str, bytes], name: str
) -> dict[str, Any]:
    """Return the documents of a plan file by name, from its members (JSON texts) and its manifest.

    Equal values are stored once in a file, in a member of their own. The documents refer to them by
    texts with the prefix `mark` (in the manifest). The values replace these texts. Raises
    DiagnosticsError for a damaged file.
    """
    # Texts with this prefix refer to shared and unknown values.
    mark = manifest.get("mark")
    if not isinstance(mark, str) or not mark:
        raise _build_damaged_file_error(
            name, "It does not define the notation of shared and unknown values."
        )
    parts = [part for part in _MEMBERS if part != _VALUES]
    try:
        sharing = DocumentExpander(mark, _parse_plan_document(members, _VALUES, name))
        return {part: sharing.expand(_parse_plan_document(members, part, name)) for part in parts}
    except SharedValuesError as problem:
        raise _build_damaged_file_error(name, str(problem)) from None


def _parse_plan_document(members: Mapping[str, bytes], member: str, name: str) -> Any:
    """Return the JSON data of a member of the plan file `name`.

    Raises DiagnosticsError for other data.
    """
    try:
        return json_codec.parse_json(members[member])
    except json_codec.JsonProblem as problem:
        raise _build_damaged_file_error(
            name, f'Its part "{member}" is not JSON: {problem.message}.'
        ) from None


def _build_rejection(kind: str, detail: str) -> DiagnosticsError:
    return DiagnosticsError(build_error(kind, detail))


def _build_damaged_file_error(name: str, reason: str) -> DiagnosticsError:
    return _build_rejection(
        "damaged-plan-file", f"{name} cannot be used. {reason} Download it again, or plan again."
    )


# Sizes and offsets are 32 bits wide.
MAXIMUM_SIZE: Final = 0xFFFF_FFFE

_LOCAL: Final = struct.Struct("<4s5H3I2H")
_CENTRAL: Final = struct.Struct("<4s6H3I5H2I")
_END: Final = struct.Struct("<4s4H2IH")
# Version needed to extract: 2.0.
_VERSION: Final = 20
# Unix, so that the file mode below counts.
_MADE_BY: Final = (3 << 8) | _VERSION
_MODE: Final = 0o100600 << 16
_UTF8: Final = 1 << 11
_STORED: Final = 0
_TIME: Final = 0
# 1 January 1980, the earliest date of the format.
_DATE: Final = (1 << 5) | 1


class CorruptArchiveError(Exception):
    """Missing, changed or added bytes in an archive."""


def pack_archive(members: Mapping[str, bytes]) -> bytes:
    """Return the archive of these members.

    Raises FileProblem if it exceeds the format's 4 GiB.
    """
    return b"".join(stream_archive(members.items()))


def stream_archive(members: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    """Yield the archive of members (name, content) in pieces.

    Raises FileProblem if it exceeds the format's 4 GiB.
    """
    index = _ZipHeaderBuilder()
    for name, content in members:
        if index.offset + len(content) > MAXIMUM_SIZE:
            raise FileProblem(
                "This plan exceeds 4 GiB, the maximum of a plan file. Plan a part of it with "
                "-target."
            )
        yield from (index.add_member(name.encode(), content), content)
    yield index.build_directory()


class _ZipHeaderBuilder:
    """Archive structure around the members: a header before each, and the directory at the end."""

    def __init__(self) -> None:
        # Of the next member in the archive.
        self.offset = 0
        # An entry per member, written after all of them.
        self._directory: list[bytes] = []

    def add_member(self, label: bytes, content: bytes) -> bytes:
        """Return the header of the next member, and add the member to the directory.

        `label` is its name.
        """
        # Without compression both sizes are equal.
        check = (crc32(content), len(content), len(content))
        head = (
            _LOCAL.pack(b"PK\3\4", _VERSION, _UTF8, _STORED, _TIME, _DATE, *check, len(label), 0)
            + label
        )
        self._directory.append(
            _CENTRAL.pack(
                b"PK\1\2", _MADE_BY, _VERSION, _UTF8, _STORED, _TIME, _DATE, *check,
                len(label), 0, 0, 0, 0, _MODE, self.offset,
            )
            + label
        )  # fmt: skip
        self.offset += len(head) + len(content)
        return head

    def build_directory(self) -> bytes:
        """Return the directory of all members, with the end record of the archive."""
        count = len(self._directory)
        entries = b"".join(self._directory)
        return entries + _END.pack(b"PK\5\6", 0, 0, count, count, len(entries), self.offset, 0)


def unpack_archive(data: bytes) -> dict[str, bytes] | None:
    """Return the members of an archive written by `pack_archive`, or None if any byte differs."""
    try:
        return dict(iterate_members(BytesIO(data), len(data))) or None
    except CorruptArchiveError:
        return None


def iterate_members(file: BinaryIO, size: int) -> Iterator[tuple[str, bytes]]:
    """Yield the members of a ZIP archive of this size in order, as name and content.

    Yield nothing if it is not an archive. The headers are built again from the members, and
    compared with those in the file. Raises CorruptArchiveError, at the end at the latest, if any
    byte differs from the output of `pack_archive`.
    """
    index = _ZipHeaderBuilder()
    names = set[str]()
    while (head := file.read(_LOCAL.size))[:4] == b"PK\3\4" and len(head) == _LOCAL.size:
        # The label is the name of the member.
        *_, content_size, label_size, _extra_size = _LOCAL.unpack(head)
        # More than the file can hold.
        if index.offset + len(head) + label_size + content_size > size:
            raise CorruptArchiveError
        label = file.read(label_size)
        name = label.decode("utf-8", "replace")
        content = file.read(content_size)
        # `add_member` returns the header written by `pack_archive`.
        if name in names or index.add_member(name.encode(), content) != head + label:
            raise CorruptArchiveError
        names.add(name)
        yield name, content
    # After the members; `head` holds its first bytes.
    end = index.build_directory()
    # Without a member it is no archive.
    if names and head + file.read(len(end)) != end:
        raise CorruptArchiveError


def read_member_at(data: bytes, offset: int) -> tuple[str, bytes, int] | None:
    """Return the member of a ZIP file at an offset: its name, its content, and the offset after it.

    Return None if there is no member, or if it is truncated or compressed.
    """
    if data[offset : offset + 4] != b"PK\3\4" or len(data) < offset + _LOCAL.size:
        return None
    # Header of a ZIP member.
    _, _, _, method, _, _, _, _, size, label_size, _ = _LOCAL.unpack_from(data, offset)
    start = offset + _LOCAL.size + label_size
    if method != _STORED or start + size > len(data):
        return None
    name = data[offset + _LOCAL.size : start].decode("utf-8", "replace")
    return name, data[start : start + size], start + size
