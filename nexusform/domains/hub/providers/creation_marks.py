"""Mark of a creation on a hub: proof of its author while the creation has no recorded answer.

A creation is applied by a field manager of its own, and the fields are then handed over to the
configured one. So an equal object of another state with the same field manager has no such mark.
Records of field managers reach neither snapshots nor members.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from nexusform.domains.hub.providers.field_ownership import is_identity_only
from nexusform.domains.hub.providers.hub_bodies import HubObject
from nexusform.domains.hub.providers.object_access import (
    get_uid,
    list_applied_fields,
    list_managed_fields,
)
from nexusform.interfaces.plugins import ChangeRequest, ReadRequest
from nexusform.json_data.plain_data import get_mapping
from nexusform.state.journal import OPERATION_CONTINUATION

Body = Mapping[str, Any]
# An API server takes names of 128 characters.
_MAX_MANAGER: Final = 80
_DIGITS: Final = 32


def build_creation_manager(manager: str, request: ChangeRequest | ReadRequest) -> str:
    """Return the field manager of a creation: that of no other state, address or creation."""
    creation = f"{request.lineage}/{request.address}#{request.key.creation}"
    digest = hashlib.sha256(creation.encode()).hexdigest()[:_DIGITS]
    return f"{manager[:_MAX_MANAGER]}-creation-{digest}"


def format_creation(hub_object: HubObject, created: Body) -> str:
    """Return the recorded operation of a creation with an answer: identity and uid.

    It continues the operations before: a step may create many objects.
    """
    return f"{OPERATION_CONTINUATION}{json.dumps([*hub_object.identity, get_uid(created)])}"


def is_created_by_step(
    operation: str | None, creation_manager: str, hub_object: HubObject, body: Body
) -> bool:
    """Return True if an unfinished creation made an existing object.

    It has the mark of the creation, or the uid in an answer. `operation` is the recorded one.
    """
    if has_creation_mark(body, creation_manager):
        return True
    uid = get_uid(body)
    if not uid or not operation:
        return False
    if is_operation_of_earlier_version(operation):
        return operation == f"created {hub_object.title} {uid}"
    return format_creation(hub_object, body) in _split_operation(operation)


def is_operation_of_earlier_version(operation: str | None) -> bool:
    """Return True if a version of nexusform without marks of creations recorded an operation.

    It recorded one object of a step: `apply TITLE`, then `created TITLE UID`.
    """
    return bool(operation) and not str(operation).startswith(OPERATION_CONTINUATION)


def _split_operation(operation: str) -> list[str]:
    """Return the operations of a step, each as recorded."""
    return [
        f"{OPERATION_CONTINUATION}{line}" for line in operation.split(OPERATION_CONTINUATION)[1:]
    ]


def build_marked_body(body: Body) -> Body:
    """Return a body to create with a field to own.

    An apply of an identity alone records no field manager. Empty annotations are owned,
    and not kept.
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
