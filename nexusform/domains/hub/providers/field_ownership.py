"""Field ownership of hub objects by `managedFields`."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from nexusform.json_data.plain_data import Path, get_part

Body = Mapping[str, Any]
_UNTRACKED_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
_IDENTITY_PATHS: Final = frozenset({("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")})


def remove_ignored_fields(
    hub_objects: Body, existing: Body | None, ignored_arguments: Sequence[Path], manager: str
) -> dict[str, Any]:
    """Return a body without the fields in ignore_changes owned by others. Fields without another owner stay:
    omitting them would delete them.
    """
    body = copy.deepcopy(dict(hub_objects))
    for argument in ignored_arguments if existing is not None else ():
        body_path = _find_body_path(argument, body)
        value = get_part(body, body_path)
        for path in [] if value is None else list(_list_sent_paths(value, body_path)):
            if _find_other_owners(existing or {}, path, manager):
                _remove_field(body, path)
    return body


def _find_body_path(argument: Path, body: Body) -> Path:
    """Return the path of an argument in a body. Labels have keys of their own; repeated blocks are plural."""
    if argument[:1] == ("labels",):
        return ("metadata", *argument)
    body_path: Path = ("spec",)
    for step in argument:
        first_word, *further_words = str(step).split("_")
        key = first_word + "".join(word.capitalize() for word in further_words)
        body_path = (*body_path, key if get_part(body, (*body_path, key)) is not None else f"{key}s")
    return body_path


def is_already_applied(hub_objects: Body, existing: Body, manager: str) -> bool:
    """Return True if an object contains the sent fields and the manager owns exactly these, so another apply
    changes nothing. False if list elements have owners.
    """
    owned_paths = _collect_applied_paths(existing, manager)
    if not owned_paths:
        return owned_paths is not None and is_identity_only(hub_objects)
    if any(get_part(hub_objects, path) != get_part(existing, path) for path in owned_paths):
        return False
    return all(
        any(path[:end] in owned_paths for end in range(1, len(path) + 1)) for path in _list_sent_paths(hub_objects)
    )


def is_identity_only(hub_objects: Body) -> bool:
    """Return True if a body contains only the object's identity: applying it owns nothing."""
    return next(_list_sent_paths(hub_objects), None) is None


def find_own_fields(existing: Body, manager: str) -> set[Path]:
    """Return the paths applied by a manager; a list with owned elements counts as a whole."""
    entries = (existing.get("metadata") or {}).get("managedFields") or ()
    own_entries = (entry for entry in entries if entry.get("manager") == manager and entry.get("operation") == "Apply")
    return {path for entry in own_entries for path in _list_owned_paths(entry.get("fieldsV1") or {})}


def find_foreign_fields(existing: Body, manager: str) -> dict[Path, str]:
    """Return the paths owned by other managers, except labels, annotations and status, with the managers."""
    owners: dict[Path, list[str]] = {}
    for entry in (existing.get("metadata") or {}).get("managedFields") or ():
        owner = str(entry.get("manager") or "unknown")
        if owner == manager or entry.get("subresource"):
            continue
        for path in _list_owned_paths(entry.get("fieldsV1") or {}):
            if path[0] not in _UNTRACKED_FIELDS and get_part(existing, path) is not None:
                owners.setdefault(path, []).append(owner)
    return {path: " and ".join(dict.fromkeys(owner)) for path, owner in sorted(owners.items())}


def _list_owned_paths(fields: Body, parent: tuple[str, ...] = ()) -> Iterator[Path]:
    """Yield the paths of fields owned as a whole or by elements."""
    if parent and not fields:
        yield parent
    subfields = {name: value for name, value in fields.items() if name != "."}
    if any(not name.startswith("f:") for name in subfields):
        yield parent
        return
    for name, value in subfields.items():
        yield from _list_owned_paths(value or {}, (*parent, name[2:]))


def _collect_applied_paths(existing: Body, manager: str) -> set[Path] | None:
    """Return the paths applied by a manager; None if list elements have owners."""
    applied_paths: set[Path] = set()
    for entry in (existing.get("metadata") or {}).get("managedFields") or ():
        if entry.get("manager") == manager and entry.get("operation") == "Apply":
            paths = list(_list_managed_field_paths(entry.get("fieldsV1") or {}))
            if None in paths:
                return None
            applied_paths.update(path for path in paths if path is not None)
    return applied_paths


def _list_managed_field_paths(fields: Body, parent: tuple[str, ...] = ()) -> Iterator[Path | None]:
    """Yield the paths of fields with owners; None for a list element."""
    subfields = {name: value for name, value in fields.items() if name != "."}
    if parent and not subfields:
        yield parent
    for name, value in subfields.items():
        if not name.startswith("f:"):
            yield None
        else:
            yield from _list_managed_field_paths(value or {}, (*parent, name[2:]))


def _list_sent_paths(hub_objects: Any, parent: Path = ()) -> Iterator[Path]:
    """Yield the paths in a body except its identity."""
    if isinstance(hub_objects, Mapping) and (hub_objects or not parent):
        for name, value in hub_objects.items():
            path = (*parent, str(name))
            if path not in _IDENTITY_PATHS:
                yield from _list_sent_paths(value, path)
    else:
        yield parent


def find_released_fields(hub_objects: Body, existing: Body, manager: str) -> dict[Path, tuple[str, ...]]:
    """Return the fields no longer applied by a manager, with their other owners: with an owner a field stays,
    without one it is removed.
    """
    paths = sorted(path for path in find_own_fields(existing, manager) if get_part(hub_objects, path) is None)
    return {path: _find_other_owners(existing, path, manager) for path in paths if get_part(existing, path) is not None}


def _find_other_owners(existing: Body, path: Path, manager: str) -> tuple[str, ...]:
    """Return the other owners of a field."""
    owners = [
        str(entry.get("manager") or "unknown")
        for entry in (existing.get("metadata") or {}).get("managedFields") or ()
        if (entry.get("manager"), entry.get("operation")) != (manager, "Apply")
        and _contains_field_path(entry.get("fieldsV1"), path)
    ]
    return tuple(dict.fromkeys(owners))


def _contains_field_path(fields: Any, path: Path) -> bool:
    """Return True if fields contain a path, by itself or in a whole."""
    for step in path:
        if not fields or f"f:{step}" not in fields:
            return False
        fields = fields[f"f:{step}"]
        if not fields:
            return True
    return True


def _remove_field(body: dict[str, Any], path: Path) -> None:
    """Remove a field, and parents left empty."""
    for end in range(len(path), 1, -1):
        holder = get_part(body, path[: end - 1])
        del holder[path[end - 1]]
        if holder:
            return
