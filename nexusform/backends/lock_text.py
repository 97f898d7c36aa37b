"""LockInfo as the JSON that lock files and state servers hold."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from nexusform.ports import LockInfo

# Member in JSON -> field. The first seven are what Terraform writes too.
_TEXT_MEMBERS: Final = {
    "ID": "id",
    "Operation": "operation",
    "Info": "info",
    "Who": "who",
    "Version": "version",
    "Created": "created",
    "Path": "path",
    "Host": "host",
    "Link": "link",
}


def to_json(info: LockInfo, **more: str) -> bytes:
    """The lock as indented JSON; `more` are members of the backend's own."""
    members: dict[str, Any] = {member: getattr(info, name) for member, name in _TEXT_MEMBERS.items()}
    return json.dumps(members | {"Pid": info.pid} | more, indent=2).encode() + b"\n"


def from_json(data: bytes) -> LockInfo:
    """The lock that the JSON tells of; absent members are empty.

    One that does not say who holds it gets an ID from its content, so that it can be named and broken.
    """
    members = _members(data)
    texts = {name: members.get(member, "") for member, name in _TEXT_MEMBERS.items()}
    pid = members.get("Pid", 0)
    if not texts["id"] or not all(isinstance(text, str) for text in texts.values()):
        return _unreadable(data)
    return LockInfo(**texts, pid=pid if isinstance(pid, int) and not isinstance(pid, bool) else 0)


def _unreadable(data: bytes) -> LockInfo:
    return LockInfo(
        id=f"unreadable-{hashlib.sha256(data).hexdigest()[:8]}",
        operation="",
        who="",
        version="",
        created="",
        path="",
        host="",
        pid=0,
        info="The lock does not say who holds it.",
    )


def member(data: bytes, name: str) -> str:
    """One member as text, "" when there is none."""
    value = _members(data).get(name, "")
    return value if isinstance(value, str) else ""


def _members(data: bytes) -> dict[str, Any]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def describe(info: LockInfo) -> str:
    """Who holds the lock, as part of a sentence."""
    if not info.who:
        return f"somebody (ID {info.id})"
    since = f" since {info.created}" if info.created else ""
    operation = info.operation.removeprefix("OperationType").lower()  # Terraform's spelling is for programs
    return f"{info.who} (process {info.pid} on {info.host}, {operation}{since}, ID {info.id})"


def not_released(lock_id: str, holder: LockInfo | None) -> str:
    """Why a lock could not be given back."""
    now = f"it is held by {describe(holder)}" if holder else "nobody holds it"
    return f'The lock "{lock_id}" was not released: {now} now. Somebody broke it, or it ran out.'


def not_broken(lock_id: str, holder: LockInfo | None) -> str:
    """Why a lock could not be broken."""
    if holder is None:
        return f'Not unlocked: nobody holds the lock "{lock_id}".'
    return f'Not unlocked: the lock is held by {describe(holder)}, not by "{lock_id}".'
