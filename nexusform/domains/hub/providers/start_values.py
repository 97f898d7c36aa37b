"""Values on a hub that a change starts from, and their comparison with the hub before a write.

A plan records the fields that its changes send, as read for it. A server-side apply protects fields
of other managers; this comparison also protects those overwritten by consent, those removed by
others, and those written by another configuration with the same field manager.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from nexusform.domains.hub.providers.field_ownership import (
    find_body_path,
    find_own_fields,
    list_sent_paths,
)
from nexusform.domains.hub.providers.hub_bodies import HubObject, index_hub_objects
from nexusform.interfaces.plugins import ChangeRequest
from nexusform.json_data.plain_data import Path, format_path, get_mapping, get_part

Body: TypeAlias = Mapping[str, Any]
# Start values of the objects of a resource, by GROUP/KIND/NAMESPACE/NAME.
StartValues: TypeAlias = Mapping[str, Any]
_FIELDS: Final = "fields"
_VERSION: Final = "version"
_SERVER_FIELDS: Final = ("status",)
_HIDDEN_KINDS: Final = ("Secret",)
# Characters of a value in a message.
_MAX_TEXT: Final = 60


def prune_body(body: Body) -> dict[str, Any]:
    """Return a body without its status and the owners of its fields, to be kept until the plan."""
    metadata = {
        name: value
        for name, value in get_mapping(body, "metadata").items()
        if name != "managedFields"
    }
    kept = {name: value for name, value in body.items() if name not in _SERVER_FIELDS}
    return {**kept, "metadata": metadata}


def build_start_values(
    request: ChangeRequest, observed: Iterable[tuple[HubObject, Body]]
) -> dict[str, Any]:
    """Build the start values of a change from the objects read for the plan.

    Only the version is kept of an object with sensitive values.
    """
    type_name = request.key.type
    prior = index_hub_objects(type_name, request.prior)
    planned = index_hub_objects(type_name, request.planned)
    values: dict[str, Any] = {}
    for hub_object, body in observed:
        sent_bodies = [
            side[hub_object.identity].body
            for side in (prior, planned)
            if hub_object.identity in side
        ]
        paths = {path: None for sent in sent_bodies for path in list_sent_paths(sent)}
        is_hidden = request.is_sensitive or hub_object.body.get("kind") in _HIDDEN_KINDS
        record: dict[str, Any] = {_VERSION: _get_version(body)}
        # Without a field the object has a body that no plan file contains.
        if paths and not is_hidden:
            record = {_FIELDS: [[list(path), get_part(body, path)] for path in paths]}
        values["/".join(hub_object.identity)] = record
    return values


def find_start_difference(
    request: ChangeRequest,
    hub_object: HubObject,
    sent_body: Body | None,
    existing: Body,
    manager: str,
) -> str:
    """Return the message about the first field changed on the hub since the plan, "" for none.

    `sent_body` are the fields to apply, None for a deletion. A field with its start value or the
    value to apply is unchanged. Fields of ignore_changes do not count for a deletion. A resumed
    step may have applied the fields of its manager. Without start values, as after a plan without
    the hub, nothing is compared.
    """
    record = get_mapping(request.start_values, "/".join(hub_object.identity))
    own_fields = (
        find_own_fields(existing, manager) if request.resumed_operation is not None else set()
    )
    if _VERSION in record:
        is_changed = _get_version(existing) != record[_VERSION] and not own_fields
        # The values are sensitive.
        return _describe_difference(hub_object, "", "") if is_changed else ""
    # Of an update, ignored fields are not sent.
    ignored_arguments = request.ignored_paths if sent_body is None else ()
    ignored = [find_body_path(argument, hub_object.body) for argument in ignored_arguments]
    for path, start in _list_start_fields(record, sent_body):
        if any(path[: len(prefix)] == prefix for prefix in ignored):
            continue
        value = get_part(existing, path)
        is_own = any(path[: len(own)] == own for own in own_fields)
        is_target = sent_body is not None and value == get_part(sent_body, path)
        if not (value == start or is_target or is_own):
            fact = f"has {format_path(path)} {_format_value(value)}"
            return _describe_difference(hub_object, fact, _format_value(start))
    return ""


def _list_start_fields(record: Body, sent_body: Body | None) -> Iterator[tuple[Path, Any]]:
    """Yield the fields with a start value that a step sends; all of them for a deletion."""
    sent_paths = set(list_sent_paths(sent_body)) if sent_body is not None else None
    for steps, start in record.get(_FIELDS, ()):
        path: Path = tuple(steps)
        if sent_paths is None or path in sent_paths:
            yield path, start


def _get_version(body: Body) -> Any:
    """Return the generation of an object with a spec, else its resource version.

    A status changes only the latter.
    """
    return get_mapping(body, "metadata").get("generation" if "spec" in body else "resourceVersion")


def _format_value(value: Any) -> str:
    """Return a value as text, shortened."""
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


def _describe_difference(hub_object: HubObject, fact: str, start: str) -> str:
    """Return the message about a field; without a `fact`, the one about a sensitive object."""
    if not fact:
        return f"{hub_object.title} was changed on the hub since the plan. Plan again."
    return f"{hub_object.title} {fact} on the hub; the plan started from {start}. Plan again."
