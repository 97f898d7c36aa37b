"""What an API server says when it refuses, sorted and in words."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from nexusform.documents.shapes import mappings_at

_WEBHOOK: Final = re.compile(r'admission webhook "([^"]*)" denied the request: ?(.*)', re.DOTALL)
_SILENT: Final = re.compile(
    r'failed calling webhook "([^"]*)": ?(?:failed to call webhook: ?)?(.*)', re.DOTALL
)
_POLICY: Final = re.compile(r"ValidatingAdmissionPolicy '([^']*)'.*denied request: ?(.*)", re.DOTALL)
_MANAGER: Final = re.compile(r'conflict with "([^"]*)"')
_TYPED: Final = re.compile(r"failed to create typed patch object \(.*?\): (.*)", re.DOTALL)
_RIGHTS: Final = re.compile(r'User "([^"]*)" cannot (\w+) resource "([^"]*)"(?: in API group "([^"]*)")?')
_UNCHECKED: Final = "<nil>: Invalid value: null: some validation rules were not checked"


class Refusal(StrEnum):
    """Why a request was refused."""

    SCHEMA = "schema"  # a field that is not there, a wrong type, a rule
    WEBHOOK = "webhook"
    SILENT_WEBHOOK = "webhook that does not answer"
    RIGHTS = "rights"
    OTHER_MANAGER = "other manager"
    CONFLICT = "conflict"  # another version or uid than was meant
    NOT_SIGNED_IN = "not signed in"
    NO_KIND = "no such kind"
    NO_OBJECT = "no such object"
    GONE = "too old"
    LATER = "later"
    OTHER = "other"


class Cause(Struct, frozen=True):
    """One reason of a refusal: where, and the words. `manager` is who owns the field."""

    field: str
    words: str
    manager: str = ""


class Refused(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, body: Any, retry_after: float | None = None) -> None:
        self.status = status
        self.body = body
        self.retry_after = retry_after
        self.message = _message(body)
        self.causes = _causes(body)
        self.kind = _kind(status, body, self.message, self.causes)
        super().__init__(f"{status}: {self.message}")

    @property
    def words(self) -> str:
        """What the server says, without what it could not check for that."""
        webhook = _WEBHOOK.search(self.message)
        if webhook is not None:
            return f'webhook "{webhook[1]}": {webhook[2].strip()}'
        silent = _SILENT.search(self.message)
        if silent is not None:
            return f'its webhook "{silent[1]}" does not answer ({silent[2].strip()})'
        policy = _POLICY.search(self.message)
        if policy is not None:
            return f'policy "{policy[1]}": {policy[2].strip()}'
        typed = _TYPED.search(self.message)
        if typed is not None:
            return typed[1].strip()
        return self.message.strip()

    @property
    def missing_right(self) -> str:
        """`User "bob" may not patch clusterresourceplacements`, "" where rights are not why."""
        said = _RIGHTS.search(self.message)
        if said is None:
            return ""
        group = f".{said[4]}" if said[4] else ""
        return f'user "{said[1]}" may not {said[2]} {said[3]}{group}'


def _message(body: Any) -> str:
    if isinstance(body, Mapping):
        return str(body.get("message") or body.get("reason") or "it does not say why")
    return str(body).strip() or "it does not say why"


def _causes(body: Any) -> Sequence[Cause]:
    causes: list[Cause] = []
    for each in mappings_at(body, "details", "causes"):
        if _UNCHECKED in f"{each.get('field')}: {each.get('message')}":
            continue
        words, manager = str(each.get("message") or ""), ""
        if each.get("reason") == "FieldManagerConflict":
            match = _MANAGER.search(words)
            manager = match[1] if match is not None else words
        causes.append(Cause(str(each.get("field") or ""), words, manager))
    return causes


def _kind(status: int, body: Any, message: str, causes: Sequence[Cause]) -> Refusal:
    if status == 409:
        return Refusal.OTHER_MANAGER if any(each.manager for each in causes) else Refusal.CONFLICT
    if status in (400, 422) or _TYPED.search(message) is not None:
        return Refusal.WEBHOOK if _POLICY.search(message) else Refusal.SCHEMA
    if status == 403:
        return Refusal.RIGHTS if _RIGHTS.search(message) or "forbidden: User" in message else Refusal.WEBHOOK
    if status == 404:
        return Refusal.NO_OBJECT if isinstance(body, Mapping) else Refusal.NO_KIND
    if _SILENT.search(message) is not None:
        return Refusal.SILENT_WEBHOOK
    if status in (429, 500, 502, 503, 504):
        return Refusal.LATER
    simple = {401: Refusal.NOT_SIGNED_IN, 410: Refusal.GONE}
    return simple.get(status, Refusal.OTHER)
