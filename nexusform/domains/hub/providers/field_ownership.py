"""Ownership of hub objects and their fields by `managedFields`.

A server-side apply merges our fields with those of others, so predictions use both, and foreign
fields are reported but not overwritten.
"""

import copy
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import enclose, format_first_items
from nexusform.domains.fleet.importers.fleet_documents import read_fleet_document
from nexusform.domains.fleet.importers.fleet_export import is_deleting
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.fleet.planning.foreign_field_merge import (
    DELETING,
    FOREIGN_FIELDS,
    ON_HUB,
    OWNERS,
    UID,
)
from nexusform.domains.fleet.types.block_bodies import convert_to_camel_case
from nexusform.domains.hub.providers.hub_bodies import (
    KINDS_BY_TYPE,
    MANIFEST_TYPE,
    MEMBER_TYPE,
    PLACEMENT_TYPES,
    HubObject,
    get_spec_schema,
)
from nexusform.domains.hub.providers.object_access import (
    get_uid,
    list_applied_fields,
    list_managed_fields,
)
from nexusform.domains.pods.types.fleet_object_type import FleetObjectType
from nexusform.interfaces.plugins import ReadRequest
from nexusform.json_data.plain_data import Path, get_mapping, get_part, get_text
from nexusform.resource_types.registry import RESOURCE_TYPES

OBJECT_RECREATED: Final = "object-recreated-by-others"
_MAX_NAMES: Final = 4
# An API server's owner of fields from before it recorded owners, as in Namespaces.
_UNKNOWN_MANAGER: Final = "before-first-apply"
# Key of the uids of a manifest's objects in its private note.
UIDS: Final = "uids"
Body = Mapping[str, Any]
# An object to send, and its existing body.
ExistingObject = tuple[HubObject, Body]
_UNTRACKED_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
_IDENTITY_PATHS: Final = frozenset(
    {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")}
)


def remove_ignored_fields(
    sent_body: Body, existing: Body | None, ignored_arguments: Sequence[Path], manager: str
) -> dict[str, Any]:
    """Return a body without the fields of ignore_changes owned by others in `existing`.

    `existing` is None for a new object. Fields without another owner stay: omitting them from an
    apply would delete them.
    """
    body = copy.deepcopy(dict(sent_body))
    for argument in ignored_arguments:
        body_path = find_body_path(argument, body)
        value = get_part(body, body_path)
        if value is None:
            continue  # not sent
        for path in list(list_sent_paths(value, body_path)):
            if _find_other_owners(existing, path, manager):
                _remove_field(body, path)
    return body


def find_body_path(argument: Path, body: Body) -> Path:
    """Return the path of an argument in a body.

    Labels have keys of their own; repeated blocks are plural. With tolerations in the body,
    ("policy", "toleration") is ("spec", "policy", "tolerations") there.
    """
    if argument[:1] == ("labels",):
        return ("metadata", *argument)
    body_path: Path = ("spec",)
    for step in argument:
        key = convert_to_camel_case(str(step))
        # No such field.
        is_plural = get_part(body, (*body_path, key)) is None
        body_path = (*body_path, f"{key}s" if is_plural else key)
    return body_path


def is_already_applied(sent_body: Body, existing: Body, manager: str) -> bool:
    """Return True if the manager owns exactly the sent fields, with their values.

    Another apply changes nothing. `existing` is the object on the hub. If the manager owns no
    field, only the identity may be sent.
    """
    applied_fields = list_applied_fields(existing, manager)
    owned_paths = {path for fields in applied_fields for path in _list_managed_field_paths(fields)}
    if not owned_paths:
        return is_identity_only(sent_body)
    if any(get_part(sent_body, path) != get_part(existing, path) for path in owned_paths):
        # Also for an owned list element: its path (), the whole object, always differs.
        return False
    # Each sent path, or one above it, has to be owned.
    for path in list_sent_paths(sent_body):
        prefixes = [path[:end] for end in range(1, len(path) + 1)]
        if owned_paths.isdisjoint(prefixes):
            return False
    return True


def is_identity_only(sent_body: Body) -> bool:
    """Return True if a body contains only the object's identity: applying it owns nothing."""
    return next(list_sent_paths(sent_body), None) is None


def find_own_fields(existing: Body, manager: str) -> set[Path]:
    """Return the paths applied by a manager; a list with owned elements counts as a whole."""
    return {
        path
        for fields in list_applied_fields(existing, manager)
        for path in _list_owned_paths(fields)
    }


def find_foreign_fields(existing: Body, manager: str) -> dict[Path, str]:
    """Return the paths of fields owned by other managers than `manager`.

    Each has these managers, joined by "and". Metadata and status do not count. An example is
    {("spec", "policy"): "kubectl and argocd"}.
    """
    managers: dict[Path, list[str]] = {}
    for entry in list_managed_fields(existing):
        other_manager = get_text(entry, "manager") or "unknown"
        if other_manager == manager or entry.get("subresource"):
            # Of `manager`, or of the status.
            continue
        for path in _list_owned_paths(get_mapping(entry, "fieldsV1")):
            is_tracked = path[0] not in _UNTRACKED_FIELDS
            if is_tracked and get_part(existing, path) is not None:
                managers.setdefault(path, []).append(other_manager)
    return {path: " and ".join(dict.fromkeys(names)) for path, names in sorted(managers.items())}


def _list_owned_paths(fields: Body, parent: tuple[str, ...] = ()) -> Iterator[Path]:
    """Yield the paths of fields owned as a whole, and of lists with owned elements.

    `fields` are a part of managedFields: {"f:spec": {"f:policy": {}}} owns ("spec", "policy"). List
    elements have names with `k:` or `v:`.
    """
    if parent and not fields:
        yield parent
    # ".": the parent itself.
    names = sorted(fields.keys() - {"."})
    # The names are those of owned elements of a list.
    if any(not name.startswith("f:") for name in names):
        yield parent
        return
    for name in names:
        yield from _list_owned_paths(get_mapping(fields, name), (*parent, name[2:]))


def _list_managed_field_paths(fields: Body, parent: tuple[str, ...] = ()) -> Iterator[Path]:
    """Yield the paths of owned fields.

    `()`, the whole object, for an owned list element (`k:`, `v:`). Of {"f:spec": {"f:policy":
    {"f:placementType": {}}}} it is ("spec", "policy", "placementType").
    """
    # ".": the parent itself.
    names = sorted(fields.keys() - {"."})
    if parent and not names:
        yield parent
    for name in names:
        # A path cannot name a list element.
        if not name.startswith("f:"):
            yield ()
        else:
            yield from _list_managed_field_paths(get_mapping(fields, name), (*parent, name[2:]))


def list_sent_paths(sent: Any, parent: Path = ()) -> Iterator[Path]:
    """Yield the paths of values in a body (lists whole), except those of its identity.

    Kind, name and namespace. Of {"kind": "ConfigMap", "data": {"a": "1", "b": "2"}} they are
    ("data", "a") and ("data", "b").
    """
    if isinstance(sent, Mapping) and sent:
        for name, value in sent.items():
            path = (*parent, str(name))
            if path not in _IDENTITY_PATHS:
                yield from list_sent_paths(value, path)
    else:
        yield parent


def find_released_fields(
    sent_body: Body, existing: Body, manager: str
) -> dict[Path, tuple[str, ...]]:
    """Return the fields no longer applied by a manager, each with its other owners.

    An apply removes the fields without another owner.
    """
    released: dict[Path, tuple[str, ...]] = {}
    for path in sorted(find_own_fields(existing, manager)):
        if get_part(sent_body, path) is None and get_part(existing, path) is not None:
            released[path] = _find_other_owners(existing, path, manager)
    return released


def _find_other_owners(existing: Body | None, path: Path, manager: str) -> tuple[str, ...]:
    """Return the owners of a field except the server-side applies of `manager`."""
    owners: dict[str, None] = {}
    for entry in list_managed_fields(existing):
        is_own = (entry.get("manager"), entry.get("operation")) == (manager, "Apply")
        if not is_own and _contains_field_path(get_mapping(entry, "fieldsV1"), path):
            owners[get_text(entry, "manager") or "unknown"] = None
    return tuple(owners)


def _contains_field_path(fields: Body, path: Path) -> bool:
    """Return True if managed fields (`f:NAME` keys) contain a path.

    The path is there by itself or in a field owned as a whole.
    """
    for step in path:
        if f"f:{step}" not in fields:
            return False
        fields = get_mapping(fields, f"f:{step}")
        if not fields:
            return True
    return True


def _remove_field(body: dict[str, Any], path: Path) -> None:
    """Remove the field at a path, and parents left empty, except the first."""
    for end in range(len(path), 1, -1):
        holder = get_part(body, path[: end - 1])
        del holder[path[end - 1]]
        if holder:
            # Other fields remain.
            return


def build_hub_record(
    type_name: str,
    existing: Iterable[ExistingObject],
    manager: str,
    prior_note: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Build the record for state about the existing objects of a resource on the hub.

    Existing objects have a uid. The record is {} without any. It has their uids, the objects being
    deleted, and for a placement the fields applied by other managers. Unless the resource is a
    manifest, other entries of the record in `prior_note` are kept.
    """
    identified = [(hub_object, body) for hub_object, body in existing if get_uid(body)]
    if not identified:
        return {}
    # An object has the key GROUP/KIND/NAMESPACE/NAME.
    deleting = [
        "/".join(hub_object.identity) for hub_object, body in identified if is_deleting(body)
    ]
    deletion_record = {DELETING: deleting} if deleting and type_name != MEMBER_TYPE else {}
    if type_name == MANIFEST_TYPE:
        uids = {"/".join(hub_object.identity): get_uid(body) for hub_object, body in identified}
        return {ON_HUB: {UIDS: uids, **deletion_record}}
    # Other resources have one object.
    _, body = identified[0]
    managers = find_foreign_fields(body, manager) if type_name in PLACEMENT_TYPES else {}
    foreign_record: dict[str, Any] = {}
    if managers:
        foreign_record[FOREIGN_FIELDS] = _convert_spec_to_arguments(
            type_name, _select_spec_paths(body, managers)
        )
        foreign_record[OWNERS] = {
            ".".join(map(str, path)): name for path, name in managers.items()
        }  # `spec.policy`
    prior_entries = get_mapping(prior_note, ON_HUB).items()
    kept = {
        name: entry
        for name, entry in prior_entries
        if name not in (FOREIGN_FIELDS, OWNERS, DELETING)
    }
    return {ON_HUB: {**kept, UID: get_uid(body), **foreign_record, **deletion_record}}


def describe_foreign_fields(
    type_name: str, existing: Iterable[ExistingObject], manager: str
) -> str:
    """Return the fields set by other managers only, with the managers; "" without any.

    Default values are omitted.
    """
    if type_name == MEMBER_TYPE:
        # Its agent and the join script own the rest.
        return ""
    fields_by_manager: dict[str, list[str]] = {}
    for hub_object, body in existing:
        title = f"{hub_object.title} " if type_name == MANIFEST_TYPE else ""
        own_paths = find_own_fields(body, manager)
        for path, other_manager in find_foreign_fields(body, manager).items():
            # A field above or below an own one is own, too: one path is a prefix of the other.
            is_applied = any(
                path[: len(own_path)] == own_path[: len(path)] for own_path in own_paths
            )
            is_sent = get_part(hub_object.body, path) is not None
            if is_applied or is_sent:
                continue
            if other_manager != _UNKNOWN_MANAGER and _has_non_default_value(type_name, body, path):
                # Such as spec.policy.
                field_name = ".".join(map(str, path))
                fields_by_manager.setdefault(other_manager, []).append(f"{title}{field_name}")
    return "; ".join(
        f"{other_manager} sets {format_first_items(paths, _MAX_NAMES)}"
        for other_manager, paths in sorted(fields_by_manager.items())
    )


def _has_non_default_value(type_name: str, body: Body, path: Path) -> bool:
    """Return True if a field differs from its default.

    This is also True if the defaults of its kind are unknown.
    """
    resource_type = RESOURCE_TYPES[type_name]
    if type_name == MANIFEST_TYPE or not isinstance(resource_type, FleetObjectType):
        # Its defaults are unknown.
        return True
    # An object cannot be built without a name and a namespace.
    identity = {"name": "any", "namespace": "any"}
    arguments = _convert_spec_to_arguments(type_name, _select_spec_paths(body, [path]))
    build_object = resource_type.build_fleet_object
    return bool(build_object({**identity, **arguments}) != build_object(identity))


def _convert_spec_to_arguments(type_name: str, spec: Body) -> dict[str, Any]:
    """Convert a part of a spec to arguments of a type, as the spec of an object with any name."""
    kind = KINDS_BY_TYPE[type_name]
    head = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": kind,
        "metadata": {"name": "any"},
    }
    text = json.dumps({**head, "spec": spec})
    return _remove_empty(
        read_fleet_document("manifest", text, API_KINDS[kind], get_spec_schema(type_name)).values
    )


def _remove_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments without empty ones, also in nested blocks.

    0, False and "" are no empty arguments.
    """
    cleaned: dict[str, Any] = {}
    for name, value in values.items():
        cleaned_value = _remove_empty(value) if isinstance(value, Mapping) else value
        if cleaned_value not in (None, [], {}):
            cleaned[name] = cleaned_value
    return cleaned


def _select_spec_paths(body: Body, paths: Iterable[Path]) -> Body:
    """Return the part of a spec at the `paths` of its body.

    With [("spec", "policy", "placementType")] it is {"policy": {"placementType": "PickAll"}}.
    """
    parts: dict[str, Any] = {}
    for path in paths:
        # Below the spec.
        if path[1:]:
            holder = parts
            for step in path[:-1]:
                holder = holder.setdefault(str(step), {})
            holder[str(path[-1])] = get_part(body, path)
    return get_mapping(parts, "spec")


def get_recorded_uid(type_name: str, hub_object: HubObject, note: Mapping[str, Any]) -> str:
    """Return the uid of an object in the private data of its resource, "" without one.

    `note` is this data in state.
    """
    hub_record = get_mapping(note, ON_HUB)
    if type_name == MANIFEST_TYPE:
        return get_text(
            hub_record, UIDS, "/".join(hub_object.identity)
        )  # GROUP/KIND/NAMESPACE/NAME
    return get_text(hub_record, UID)


def is_recreated(
    type_name: str, hub_object: HubObject, body: Body, note: Mapping[str, Any]
) -> bool:
    """Return True if an object has another uid than in `note`.

    The result is False for a member: it may leave and join again.
    """
    recorded_uid = get_recorded_uid(type_name, hub_object, note)
    return (
        bool(recorded_uid) and type_name != MEMBER_TYPE and get_uid(body) not in ("", recorded_uid)
    )


def build_recreation_warning(
    request: ReadRequest, hub_object: HubObject, body: Body, *, is_taken_over: bool
) -> Problem:
    """Build the warning about an object re-created by others.

    `is_taken_over` means that the operator takes it over.
    """
    # An ordered set.
    managers: dict[str, None] = {}
    for entry in list_managed_fields(body):
        manager = get_text(entry, "manager")
        # The status has other managers.
        if manager and not entry.get("subresource"):
            managers[manager] = None
    by_managers = enclose(" by ", format_first_items(list(managers), _MAX_NAMES))
    creation_text = f"{get_mapping(body, 'metadata').get('creationTimestamp')}{by_managers}"
    history = (
        f"the {hub_object.title} that nexusform made is gone; the one on the hub was made at "
        f"{creation_text}"
    )
    summary = f"{request.address}: re-created on the hub at {creation_text}"
    if is_taken_over:
        summary += "; it is imported"
        remedy = "It is imported and updated to this configuration."
    elif request.key.type == MANIFEST_TYPE:
        summary = (
            f"{request.address}: {hub_object.title} was re-created on the hub at {creation_text}"
        )
        remedy = (
            "It is not ours, and stays when this block is removed. Remove it from the block, "
            "delete it on the hub, or "
            "overwrite it: nexusform apply -take-ownership."
        )
    else:
        remedy = (
            "It is not ours. Forget the former object with `nexusform state rm "
            f"{quote(request.address)}` and import "
            f'this one: import {{ to = {request.address}, id = "{request.key.id}" }}, or '
            "overwrite it: nexusform apply -take-ownership."
        )
    return Problem(
        (),
        OBJECT_RECREATED,
        f"{request.address}: {history}. {remedy}",
        Severity.WARNING,
        brief=summary,
    )
