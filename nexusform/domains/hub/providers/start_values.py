"""Values on a hub that a change starts from, and their comparison with the hub before a write.

A plan records the fields that its changes send, as read for it. A server-side apply protects fields
of other managers; this comparison also protects those overwritten by consent, those removed by
others, and those written by another configuration with the same field manager.
"""

import base64
import binascii
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from nexusform.domains.hub.providers.field_ownership import (
    find_body_path,
    find_released_fields,
    list_sent_paths,
)
from nexusform.domains.hub.providers.hub_bodies import HubObject, index_hub_objects, is_different
from nexusform.interfaces.plugins import ChangeRequest
from nexusform.json_data.plain_data import Path, format_path, get_mapping, get_part

Body: TypeAlias = Mapping[str, Any]
# Start values of the objects of a resource, by GROUP/KIND/NAMESPACE/NAME.
StartValues: TypeAlias = Mapping[str, Any]
# Objects of deleted namespaces, by namespace and uid.
CONTENT: Final = "content"
_FIELDS: Final = "fields"
_VERSION: Final = "version"
_SERVER_FIELDS: Final = ("status",)
_HIDDEN_KINDS: Final = ("Secret",)
_WRITE_ONLY_VERSION: Final = "yaml_body_wo_version"
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
        record: dict[str, Any] = {_VERSION: _get_version(body)}
        # Without a field the object has a body that no plan file contains.
        if paths and not _is_hidden(request, hub_object):
            record = {_FIELDS: [[list(path), get_part(body, path)] for path in paths]}
        values["/".join(hub_object.identity)] = record
    return values


def has_start_values(request: ChangeRequest, hub_object: HubObject) -> bool:
    """Return whether the plan read an object on the hub."""
    return "/".join(hub_object.identity) in request.start_values


def find_start_difference(
    request: ChangeRequest,
    hub_object: HubObject,
    sent_body: Body | None,
    existing: Body,
    manager: str,
    *,
    has_sent_values: Callable[[], bool],
) -> str:
    """Return the message about the first field changed on the hub since the plan, "" for none.

    `sent_body` are the fields to apply, None for a deletion. A field with its start value or the
    value to apply is unchanged. An apply also removes fields: those of `manager` that it does not
    send. Fields of ignore_changes do not count for a deletion. A plan without the hub started from
    the values in the state. `has_sent_values` returns whether an apply would change nothing.
    """
    record = get_mapping(request.start_values, "/".join(hub_object.identity))
    if _VERSION in record:
        is_changed = _get_version(existing) != record[_VERSION]
        # An earlier run of the step may have written it: then it has exactly the values to send.
        is_resumed = request.resumed_operation is not None and sent_body is not None
        if not is_changed or (is_resumed and has_sent_values()):
            return ""
        # The values are sensitive.
        return _describe_difference(hub_object, "", "")
    if not record and request.prior is not None and _is_write_only(request):
        return (
            f"{hub_object.title} has write-only values, and the plan did not read it on the hub. "
            "Plan again without -refresh=false."
        )
    sent_body = _encode_secret(sent_body) if sent_body is not None else None
    # Of an update, ignored fields are not sent.
    ignored_arguments = request.ignored_paths if sent_body is None else ()
    ignored = [find_body_path(argument, hub_object.body) for argument in ignored_arguments]
    for path, start in _list_start_fields(request, hub_object):
        if _has_prefix(path, ignored):
            continue
        value = get_part(existing, path)
        if sent_body is None:
            is_target = False
        elif _is_written(path, sent_body, existing, manager):
            is_target = not is_different(get_part(sent_body, path), value)
        else:
            continue
        if not is_target and is_different(start, value):
            if _is_hidden(request, hub_object):
                return _describe_difference(hub_object, "", "")
            fact = f"has {format_path(path)} {_format_value(value)}"
            return _describe_difference(hub_object, fact, _format_value(start))
    return ""


def find_result_difference(
    request: ChangeRequest, hub_object: HubObject, response: Body, existing: Body | None
) -> str:
    """Return the message about the first sent field that another client changed since its write.

    `response` is the object as written, `existing` the one on the hub. The result is ""
    without a difference.
    """
    title = hub_object.title
    if existing is None:
        return f"{title} was deleted on the hub after this apply wrote it. Plan again."
    for path in list_sent_paths(hub_object.body):
        written = get_part(response, path)
        value = get_part(existing, path)
        if is_different(written, value):
            if _is_hidden(request, hub_object):
                return f"{title} was changed on the hub after this apply wrote it. Plan again."
            return (
                f"{title} has {format_path(path)} {_format_value(value)} on the hub after this "
                f"apply wrote {_format_value(written)}. Plan again."
            )
    return ""


def _list_start_fields(request: ChangeRequest, hub_object: HubObject) -> Iterator[tuple[Path, Any]]:
    """Yield the fields of an object with a start value: as the plan read them, or of the state."""
    record = request.start_values.get("/".join(hub_object.identity))
    if record is not None:
        yield from ((tuple(steps), start) for steps, start in record.get(_FIELDS, ()))
        return
    prior_object = index_hub_objects(request.key.type, request.prior).get(hub_object.identity)
    if prior_object is not None:
        prior_body = _encode_secret(prior_object.body)
        for path in list_sent_paths(prior_body):
            yield path, get_part(prior_body, path)


def _encode_secret(body: Body) -> Body:
    """Return the body of a Secret as the hub returns it: all values in base64 in `data`.

    Other bodies are returned unchanged.
    """
    if body.get("kind") not in _HIDDEN_KINDS:
        return body
    texts = get_mapping(body, "stringData")
    data = {name: _normalize_base64(value) for name, value in get_mapping(body, "data").items()}
    data |= {name: base64.b64encode(str(text).encode()).decode() for name, text in texts.items()}
    kept = {name: value for name, value in body.items() if name not in ("data", "stringData")}
    return {**kept, "data": data} if data else kept


def _normalize_base64(value: Any) -> Any:
    """Return base64 text in the form of an API server; other values are returned unchanged."""
    try:
        return base64.b64encode(base64.b64decode(str(value))).decode()
    except (binascii.Error, ValueError):
        return value


def _is_written(path: Path, sent_body: Body, existing: Body, manager: str) -> bool:
    """Return whether an apply of a body writes a field, or removes it."""
    if path in set(list_sent_paths(sent_body)):
        return True
    if get_part(sent_body, path) is not None:
        # A part of the body has the field, in other parts than before.
        return True
    removed = [
        released
        for released, owners in find_released_fields(sent_body, existing, manager).items()
        if not owners
    ]
    return _has_prefix(path, removed) or any(released[: len(path)] == path for released in removed)


def _has_prefix(path: Path, prefixes: Iterable[Path]) -> bool:
    return any(path[: len(prefix)] == prefix for prefix in prefixes)


def _is_hidden(request: ChangeRequest, hub_object: HubObject) -> bool:
    """Return whether values of an object must not be in a message or in a plan."""
    is_hidden_kind = hub_object.body.get("kind") in _HIDDEN_KINDS
    return request.is_sensitive or is_hidden_kind or _is_write_only(request)


def _is_write_only(request: ChangeRequest) -> bool:
    """Return whether the state has no values of the objects of a change."""
    sides = (request.prior_attributes, request.planned_attributes)
    return any(side.get(_WRITE_ONLY_VERSION) is not None for side in sides)


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
