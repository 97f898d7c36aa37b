"""Mark of a creation on a hub: proof of its author while the creation has no recorded answer.

A creation is applied by a field manager of its own, and the fields are then handed over to the
configured one. So an equal object of another state with the same field manager has no such mark.
Records of field managers reach neither snapshots nor members.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nexusform.domains.hub.providers.field_ownership import is_identity_only
from nexusform.domains.hub.providers.object_access import (
    get_uid,
    list_applied_fields,
    list_managed_fields,
)
from nexusform.interfaces.plugins import ChangeRequest, ReadRequest
from nexusform.json_data.plain_data import get_mapping

Body = Mapping[str, Any]
# An API server takes names of 128 characters.
_MAX_MANAGER: Final = 80
_DIGITS: Final = 32


def build_creation_manager(manager: str, request: ChangeRequest | ReadRequest) -> str:
    """Return the field manager of a creation: that of no other state, address or creation."""
    creation = f"{request.lineage}/{request.address}#{request.key.creation}"
    digest = hashlib.sha256(creation.encode()).hexdigest()[:_DIGITS]
    return f"{manager[:_MAX_MANAGER]}-creation-{digest}"


def format_creation(title: str) -> str:
    """Return the start of the recorded operation of a creation with an answer; the uid follows."""
    return f"created {title} "


def determine_creation(
    operation: str, titles: Sequence[str], title: str, body: Body
) -> bool | None:
    """Determine from the recorded operation of a step if it created an object, without its mark.

    `titles` are those of the step's objects, in the order of their creation. None for an object
    before the recorded one: it was created with an answer, and may have been re-created since.
    """
    for position, candidate in enumerate(titles):
        creation = format_creation(candidate)
        is_answered = operation.startswith(creation)
        if not is_answered and operation != f"apply {candidate}":
            continue
        if title == candidate:
            return is_answered and operation == f"{creation}{get_uid(body)}"
        return None if title in titles[:position] else False
    return False


def build_marked_body(body: Body) -> Body:
    """Return a body to create with a field to own.

    An apply of an identity alone records no field manager. Empty annotations are owned, and not
    kept.
    """
    if not is_identity_only(body):
        return body
    return {**body, "metadata": {**get_mapping(body, "metadata"), "annotations": {}}}


def has_creation_mark(existing: Body | None, creation_manager: str) -> bool:
    """Return True if this creation made an object, and its fields are not handed over."""
    return existing is not None and bool(list_applied_fields(existing, creation_manager))


def hand_over_fields(
    sent_body: Body, existing: Body, creation_manager: str, manager: str
) -> list[dict[str, Any]]:
    """Return the records of field managers with the fields of a creation for the configured one."""
    entries: list[dict[str, Any]] = []
    for entry in list_managed_fields(existing):
        if entry.get("manager") != creation_manager:
            entries.append(dict(entry))
        elif not is_identity_only(sent_body):
            entries.append({**entry, "manager": manager})
    return entries


def is_applied_by(manager: str, sent_body: Body, existing: Body) -> bool:
    """Return True if a manager applied an object; an apply of an identity alone leaves no trace."""
    return bool(list_applied_fields(existing, manager)) or is_identity_only(sent_body)
