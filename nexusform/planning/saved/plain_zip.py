"""ZIP archives with exactly one form: members stored as they are, in order, at one fixed time.

Any unzip program opens them. Nothing is compressed: the bytes then depend on the content alone,
not on the version of a compression library, and a small file cannot unfold into a large one.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final
from zlib import crc32

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


def pack(members: Mapping[str, bytes]) -> bytes:
    """The archive of these members. Raises ValueError when it is beyond the format's 4 GiB."""
    body: list[bytes] = []
    directory: list[bytes] = []
    offset = 0
    for name, content in members.items():
        label = name.encode()
        check = (crc32(content), len(content), len(content))
        if offset + len(content) > LARGEST:
            raise ValueError("an archive holds 4 GiB at most")
        head = _LOCAL.pack(b"PK\3\4", _VERSION, _UTF8, _STORED, _TIME, _DATE, *check, len(label), 0)
        body += [head, label, content]
        directory.append(
            _CENTRAL.pack(
                b"PK\1\2", _MADE_BY, _VERSION, _UTF8, _STORED, _TIME, _DATE, *check,
                len(label), 0, 0, 0, 0, _MODE, offset,
            )
            + label
        )  # fmt: skip
        offset += len(head) + len(label) + len(content)
    listed = b"".join(directory)
    end = _END.pack(b"PK\5\6", 0, 0, len(members), len(members), len(listed), offset, 0)
    return b"".join([*body, listed, end])


def unpack(data: bytes) -> dict[str, bytes] | None:
    """The members of an archive as `pack` makes it, or None when any byte is not as it would be."""
    members = {}
    at = 0
    while (member := member_at(data, at)) is not None:
        name, content, at = member
        members[name] = content
    try:
        return members if members and pack(members) == data else None
    except ValueError:
        return None


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
