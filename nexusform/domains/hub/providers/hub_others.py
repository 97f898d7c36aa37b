"""What others own of an object of ours: noted for the forecast, which obeys it, and told.

A server-side apply lays our fields over those of others. So a plan foretells by both together, and what it
never wrote is shown and not fought.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from shlex import quote
from typing import Any, Final

from nexusform.diagnostics import Problem, Severity
from nexusform.domains.fleet.importers.fleet_documents import read_fleet_document
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.fleet.planning.beside_others import OF_OTHERS, ON_HUB, OWNERS, UID
from nexusform.domains.hub.providers.hub_bodies import (
    KIND_OF,
    MANIFESTS,
    MEMBERS,
    PLACEMENTS,
    Sent,
    spec_schema,
)
from nexusform.domains.hub.providers.hub_objects import uid_of
from nexusform.domains.hub.providers.hub_owners import owned_by_others, owned_by_us
from nexusform.plain_data import Path, part_at
from nexusform.ports import ReadRequest
from nexusform.resource_types.registry import RESOURCE_TYPES
from nexusform.words import first_of

FIELDS: Final = "fields-of-others"
MADE_ANEW: Final = "object-was-made-anew"
_MOST_NAMED: Final = 4
# Who owns, to an API server, what stood before it noted owners: Namespaces of which nobody says anything.
_NOBODY: Final = "before-first-apply"
# Under which key the note of a manifest holds the uids of its objects.
UIDS: Final = "uids"
Body = Mapping[str, Any]
OnHub = tuple[Sent, Body]  # an object as it is sent, and as it stands


def noted_of(
    type_name: str, shown: Iterable[OnHub], manager: str, before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What a resource notes of its objects on the hub: which ones they are, and of a placement what others
    own of it, and who they are. Of the note `before` all else stays.
    """
    standing = [(each, body) for each, body in shown if uid_of(body)]
    if type_name == MANIFESTS:
        uids = {_name_of(each): uid_of(body) for each, body in standing}
        return {ON_HUB: {UIDS: uids}} if uids else {}
    if not standing:
        return {}
    body = standing[0][1]
    kept = dict((before or {}).get(ON_HUB) or {})
    theirs = owned_by_others(body, manager) if type_name in PLACEMENTS else {}
    of_others: dict[str, Any] = {}
    if theirs:
        parts = _arguments(type_name, _parts(body, theirs))
        of_others = {OF_OTHERS: parts, OWNERS: {_path_words(path): who for path, who in theirs.items()}}
    rest = {name: value for name, value in kept.items() if name not in (OF_OTHERS, OWNERS)}
    return {ON_HUB: {**rest, UID: uid_of(body), **of_others}}


# --- fields of others --------------------------------------------------------------------------------


def told_of_others(type_name: str, standing: Iterable[OnHub], manager: str) -> str:
    """The fields that others set of the objects of a resource and that we never wrote, and who did; "" where
    there are none. Labels and annotations are left out, and what is as it would be anyway.
    """
    if type_name == MEMBERS:  # its agent and whoever joined it own the rest
        return ""
    said: dict[str, list[str]] = {}
    for each, body in standing:
        title = f"{each.title} " if type_name == MANIFESTS else ""
        for path, who in _beside(type_name, each.body, body, manager):
            said.setdefault(who, []).append(f"{title}{_path_words(path)}")
    return "; ".join(f"{who} sets {first_of(paths, _MOST_NAMED)}" for who, paths in sorted(said.items()))


def _beside(type_name: str, sent: Body, shown: Body, manager: str) -> Iterator[tuple[Path, str]]:
    """What others own of an object beside what is sent."""
    ours = owned_by_us(shown, manager)
    for path, who in owned_by_others(shown, manager).items():
        if who == _NOBODY:
            continue
        is_ours = any(path[: len(one)] == one or one[: len(path)] == path for one in ours)
        if not is_ours and part_at(sent, path) is None and _says_something(type_name, shown, path):
            yield path, who


def remark_on_fields(address: str, words: str) -> Problem:
    """The note on an object of which others set fields."""
    detail = f"{address}: {words}. This configuration does not write that, and it stays as it is there."
    return Problem((), FIELDS, detail, Severity.WARNING, brief=f"{address}: {words}", about=address)


def _says_something(type_name: str, body: Body, path: Path) -> bool:
    """Whether a field is more than its default, as far as its kind is known."""
    fleet_object = RESOURCE_TYPES[type_name].fleet
    if type_name == MANIFESTS or fleet_object is None:
        return True
    named = {"name": "any", "namespace": "any"}
    arguments = _arguments(type_name, _parts(body, {path: ""}))
    return bool(fleet_object({**named, **arguments}) != fleet_object(named))


def _arguments(type_name: str, spec: Body) -> dict[str, Any]:
    """A part of a spec as arguments."""
    kind = KIND_OF[type_name]
    head = {"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind, "metadata": {"name": "any"}}
    text = json.dumps({**head, "spec": spec})
    return _said(read_fleet_document("manifest", text, API_KINDS[kind], spec_schema(type_name)).values)


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments without those that are left out."""
    said = {name: _said(each) if isinstance(each, Mapping) else each for name, each in values.items()}
    return {name: each for name, each in said.items() if each not in (None, [], {})}


def _parts(body: Body, paths: Mapping[Path, str]) -> dict[str, Any]:
    """What stands at paths of a spec, and nothing else of it."""
    parts: dict[str, Any] = {}
    for path in paths:
        if path[:1] != ("spec",) or not path[1:]:
            continue
        holder = parts
        for step in path[1:-1]:
            holder = holder.setdefault(str(step), {})
        holder[str(path[-1])] = part_at(body, path)
    return parts


def _path_words(path: Path) -> str:
    return ".".join(map(str, path))


# --- objects that others made anew ---------------------------------------------------------------------


def known_uid(type_name: str, each: Sent, noted: Mapping[str, Any]) -> str:
    """The uid that state notes of an object, "" where it notes none."""
    of_hub = noted.get(ON_HUB) or {}
    uid = (of_hub.get(UIDS) or {}).get(_name_of(each)) if type_name == MANIFESTS else of_hub.get(UID)
    return str(uid or "")


def is_another(type_name: str, each: Sent, body: Body, noted: Mapping[str, Any]) -> bool:
    """Whether an object is another one than that of which state has the note, under the same name. A member
    is nobody's to make: one that left and joined again is the same.
    """
    known = known_uid(type_name, each, noted)
    return bool(known) and type_name != MEMBERS and uid_of(body) not in ("", known)


def _name_of(each: Sent) -> str:
    """An object of a manifest, as a note names it: group, kind, namespace and name."""
    return "/".join(each.identity)


def made_anew(request: ReadRequest, each: Sent, body: Body, *, taken: bool) -> Problem:
    """The warning about an object that others made anew; `taken`: the operator takes it over."""
    metadata = body.get("metadata") or {}
    entries = [one for one in metadata.get("managedFields") or () if not one.get("subresource")]
    managers = list(dict.fromkeys(str(one.get("manager")) for one in entries if one.get("manager")))
    when = (
        f"{metadata.get('creationTimestamp')}{f' by {first_of(managers, _MOST_NAMED)}' if managers else ''}"
    )
    history = f"the {each.title} that nexusform made is gone; the one on the hub was made at {when}"
    brief = f"{request.address}: made anew on the hub at {when}"
    what = "It is taken over, and written as this configuration says."
    if taken:
        brief += "; it is taken over"
    elif request.key.type == MANIFESTS:
        brief = f"{request.address}: {each.title} was made anew on the hub at {when}"
        what = (
            "It is not ours, and stays when this block goes. Take it out of the block, delete it there, or "
            "write over it: nexusform apply -take-ownership."
        )
    else:
        what = (
            f"It is not ours. Let go of the former by `nexusform state rm {quote(request.address)}` and take "
            f'this one over as it stands: import {{ to = {request.address}, id = "{request.key.id}" }}, or '
            "write over it: nexusform apply -take-ownership."
        )
    return Problem((), MADE_ANEW, f"{request.address}: {history}. {what}", Severity.WARNING, brief=brief)
