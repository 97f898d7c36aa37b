"""Snapshot of all fleet objects on a hub, and of other objects for selectors.

Kinds listed at different times are inconsistent: a deleted placement still names clusters without
bindings. So all lists request the version of the first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from typing import Any, Final

from msgspec import Struct, field

from nexusform.diagnostics.diagnostic import Problem
from nexusform.diagnostics.phrases import join_texts
from nexusform.domains.hub.api.api_errors import ApiError, ApiErrorKind
from nexusform.domains.hub.api.hub_client import (
    CONTEXT,
    KUBECONFIG,
    MAX_CONCURRENT,
    HubClient,
    HubProblem,
    resolve_hub_location,
)
from nexusform.domains.hub.api.hub_kinds import READ_KINDS, HubKind, build_collection_path
from nexusform.files.run_log import log_event
from nexusform.interfaces.plugins import ExternalQueryProblem
from nexusform.json_data.plain_data import get_list, get_mapping, get_text, list_mappings
from nexusform.network.parallel_calls import call_in_parallel
from nexusform.providers.kubeconfig import KubeconfigTrust

CANNOT_READ = "unreadable-hub"
# Attempts to read everything if the version expires.
_MAX_ATTEMPTS: Final = 3
# Status codes for an expired or unsupported version.
_EXPIRED_STATUSES: Final = frozenset({400, 410, 422})
_UNSELECTABLE_KINDS: Final = frozenset(
    {"Pod", "Event", "Lease", "Endpoints", "EndpointSlice", "PodMetrics"}
)
_FLEET_SUFFIX: Final = "kubernetes-fleet.io"
_SETTINGS_ADVICE: Final = (
    'data "fleet_hub" does not use the settings of provider "fleet": write kubeconfig and '
    "context in both, or set "
    f"{KUBECONFIG} and {CONTEXT}."
)
_HIDDEN_FIELDS: Final = {"Secret": ("data", "stringData")}  # by kind
# Group, kind, namespace and name.
ObjectKey = tuple[str, str, str, str]


def read_hub_snapshot(arguments: Mapping[str, Any], trust: KubeconfigTrust) -> str:
    """Return the objects of a hub as JSON, and those selected by placements (`selectors`).

    Raises ExternalQueryProblem. `clock_skew` is by how many seconds the local clock is ahead of the
    hub's. `heartbeat_age` is 0 unless the hub sends no clock. Without permission, `optional` kinds
    of the arguments are in `skipped`, and selected kinds in `unlisted`.
    """
    try:
        with closing(_open_hub(arguments, trust)) as hub:
            scope = _ReadScope(
                get_list(arguments, "namespaces"), get_list(arguments, "optional"), skipped={}
            )
            items = _read_objects(hub, scope)
            selected = read_selected_objects(hub, get_list(arguments, "selectors"), items)
    except HubProblem as problem:
        raise ExternalQueryProblem(Problem((), CANNOT_READ, str(problem))) from None
    except ApiError as api_error:
        detail = (
            f"{hub.server} does not list the selected objects ({api_error.status}): "
            f"{api_error.server_message}"
        )
        raise ExternalQueryProblem(Problem((), CANNOT_READ, detail)) from None
    read_at = hub.read_time(items).isoformat(timespec="seconds").replace("+00:00", "Z")
    return json.dumps(
        {
            "server": hub.server,
            "read_at": read_at,
            "clock_skew": round(hub.clock_skew),
            "heartbeat_age": round(hub.measure_heartbeat_age(items)),
            "items": [*items, *selected.items],
            "skipped": list(scope.skipped),
            "unlisted": sorted(set(selected.forbidden)),
        }
    )


def _open_hub(arguments: Mapping[str, Any], trust: KubeconfigTrust) -> HubClient:
    """Return the client of the hub of a data source.

    Raises HubProblem.
    """
    location = resolve_hub_location(arguments, trust)
    try:
        return HubClient(location)
    except HubProblem as problem:
        # The location is configured here, and needs no advice.
        if location.kubeconfig:
            raise
        raise HubProblem(f"{problem} {_SETTINGS_ADVICE}") from None


def _read_objects(hub: HubClient, scope: _ReadScope) -> list[dict[str, Any]]:
    """Return all objects at one version, or each kind at its latest if versions expire too soon.

    Without permission for all namespaces, return the objects in those of `scope`. Raises
    ExternalQueryProblem and HubProblem.
    """
    for _ in range(_MAX_ATTEMPTS):
        try:
            return _list_all_kinds(hub, scope, is_fixed=True)
        except _ResourceVersionExpired as expired:
            log_event("debug", "hub read again", why=str(expired))
    # Each kind at its latest version.
    return _list_all_kinds(hub, scope, is_fixed=False)


class _ReadScope(Struct, frozen=True):
    """Scope of a read.

    It has the `namespaces` of a tenant, and `optional` kinds, which are `skipped` if there is no
    permission for them.
    """

    namespaces: Sequence[str]
    optional: Sequence[str]
    skipped: dict[str, None]


class _ResourceVersionExpired(Exception):
    """Expired resource version."""


class _ListForbidden(Exception):
    """Missing permission to list a kind, as text."""


def _list_all_kinds(hub: HubClient, scope: _ReadScope, *, is_fixed: bool) -> list[dict[str, Any]]:
    """Return the objects of all kinds.

    With `is_fixed`, all at the resource version of the first list. A tenant, with namespaces in its
    scope, reads a kind by namespace if it may not list the whole kind. All missing permissions are
    in one ExternalQueryProblem. Raises _ResourceVersionExpired and HubProblem as well.
    """
    # Lists until the first permitted one: their version is that of all others.
    lists: list[_KindList] = []
    for kind in READ_KINDS:
        lists.append(_read_kind(hub, scope, kind, version=""))
        if lists[-1].version or not is_fixed:
            break
    version = lists[-1].version if is_fixed else ""
    lists += call_in_parallel(
        lambda kind: _read_kind(hub, scope, kind, version), READ_KINDS[len(lists) :], MAX_CONCURRENT
    )
    forbidden = [kind_list.forbidden for kind_list in lists if kind_list.forbidden]
    if forbidden:
        detail = (
            f"{hub.server} does not let {'; '.join(forbidden)}. Reading needs get and list of them."
        )
        raise ExternalQueryProblem(Problem((), CANNOT_READ, detail))
    scope.skipped.update((each.skipped_kind, None) for each in lists if each.skipped_kind)
    return [body for kind_list in lists for body in kind_list.objects]


class _KindList(Struct, frozen=True):
    """Objects of a kind, and the version of their list, "" without permission for all namespaces.

    `forbidden` is the missing permission, and `skipped_kind` the plural of an optional kind.
    """

    objects: Sequence[dict[str, Any]] = ()
    version: str = ""
    forbidden: str = ""
    skipped_kind: str = ""


def _read_kind(hub: HubClient, scope: _ReadScope, kind: HubKind, version: str) -> _KindList:
    """List a kind at `version` ("": the latest), else in the namespaces of the scope.

    Raises _ResourceVersionExpired, ExternalQueryProblem and HubProblem.
    """
    try:
        return _KindList(*_list_kind(hub, kind, version))
    except _ListForbidden as problem:
        if kind.kind in scope.optional:
            return _KindList(skipped_kind=kind.plural)
        if not scope.namespaces:
            return _KindList(forbidden=str(problem))
    # A tenant needs no cluster-scoped kinds.
    collections = map(kind.build_collection, scope.namespaces) if kind.is_namespaced else ()
    objects: list[dict[str, Any]] = []
    try:
        for collection in collections:
            objects += _list_kind(hub, kind, version="", collection=collection)[0]
    except _ListForbidden as problem:
        return _KindList(forbidden=str(problem))
    return _KindList(objects)


def _list_kind(
    hub: HubClient, kind: HubKind, version: str, collection: str = ""
) -> tuple[list[dict[str, Any]], str]:
    """Return all objects of a kind, and their version.

    They are at `version` ("": the latest) and in one `collection` ("": everywhere). Raises
    _ResourceVersionExpired, _ListForbidden, ExternalQueryProblem and HubProblem.
    """
    try:
        object_list = hub.list_at_version(collection or kind.collection, version)
    except ApiError as api_error:
        if version and api_error.status in _EXPIRED_STATUSES:
            raise _ResourceVersionExpired(str(api_error)) from None
        if api_error.kind is ApiErrorKind.PERMISSION:
            # The second half of a sentence: SERVER does not let KIND be listed.
            raise _ListForbidden(f"{kind.plural} be listed: {api_error.reason}") from None
        if api_error.status == 404:
            detail = (
                f"{hub.server} serves no {kind.plural}: it is not a hub of KubeFleet, or of an "
                f"older version. Name the context of the hub. {_SETTINGS_ADVICE}"
            )
        elif api_error.kind is ApiErrorKind.UNAUTHENTICATED:
            detail = (
                f"{hub.server} rejected the credentials (401). Sign in again, or renew the token."
            )
        else:
            detail = (
                f"{hub.server} does not list {kind.plural} ({api_error.status}): "
                f"{api_error.server_message}"
            )
        raise ExternalQueryProblem(Problem((), CANNOT_READ, detail)) from None
    return object_list.items, object_list.version


class SelectedObjects(Struct):
    """Objects read for selectors, and kinds without permission to list them."""

    items: list[dict[str, Any]] = field(default_factory=list)
    forbidden: list[str] = field(default_factory=list)


def read_selected_objects(
    hub: HubClient, selectors: Sequence[Mapping[str, str]], dump: Iterable[Mapping[str, Any]]
) -> SelectedObjects:
    """Read the objects of selectors: one list per kind, and the content of selected namespaces.

    `selectors` have `group`, `version`, `kind`, `name`, `namespace` and `scope`; objects in
    resource snapshots of `dump` are omitted. The scope NamespaceOnly selects a namespace without
    its content. Raises HubProblem.
    """
    dumped_keys = {
        _build_key(body)
        for item in dump
        for body in list_mappings(item, "spec", "selectedResources")
    }
    selected = SelectedObjects()
    # Namespaces that are selected with their content.
    namespaces: dict[str, None] = {}
    grouped = _group_by_collection(hub, selectors, dumped_keys)
    lists = _list_collections(hub, list(grouped), selected)
    for collection_selectors, bodies in zip(grouped.values(), lists, strict=True):
        for body in bodies:
            name = get_text(body, "metadata", "name")
            # A selector without a name selects all of the collection.
            scopes = {
                selector["scope"]
                for selector in collection_selectors
                if selector["name"] in ("", name)
            }
            if not scopes:
                continue  # not selected
            if _build_key(body) in dumped_keys:
                # The object is in the dump.
                continue
            selected.items.append(_remove_secrets(body))
            is_namespace = (body.get("apiVersion"), body["kind"]) == ("v1", "Namespace")
            if is_namespace and scopes != {"NamespaceOnly"}:
                namespaces[name] = None
    collections = [
        collection
        for namespace in namespaces
        for collection in _list_namespaced_collections(hub, namespace)
    ]
    content = chain.from_iterable(_list_collections(hub, collections, selected))
    selected.items += map(_remove_secrets, content)
    return selected


def _group_by_collection(
    hub: HubClient, selectors: Sequence[Mapping[str, str]], dumped_keys: set[ObjectKey]
) -> dict[str, list[Mapping[str, str]]]:
    """Return the selectors by the path of their collection.

    Selectors for objects in the dump (`dumped_keys`) are omitted.
    """
    grouped: dict[str, list[Mapping[str, str]]] = {}
    for selector in selectors:
        # "" for a cluster-scoped kind.
        namespace = selector["namespace"]
        if (selector["group"], selector["kind"], namespace, selector["name"]) in dumped_keys:
            # The dump has it.
            continue
        # The version is apps/v1, or v1 of the core group.
        version = join_texts((selector["group"], selector["version"]), "/")
        plural, is_namespaced = hub.get_api_kinds(version).get(selector["kind"], ("", None))
        if is_namespaced != bool(namespace):
            # Of the other scope, or (None) an unserved kind: it selects nothing.
            continue
        collection = build_collection_path(version, plural, namespace)
        grouped.setdefault(collection, []).append(selector)
    return grouped


def _list_namespaced_collections(hub: HubClient, namespace: str) -> Iterator[str]:
    """Yield the paths of a namespace's collections of objects selectable by placements."""
    for version in ("v1", *hub.list_group_versions()):
        group = version.partition("/")[0]
        if group.endswith(_FLEET_SUFFIX):
            # A hub never distributes its own objects.
            continue
        for kind, (plural, is_namespaced) in hub.get_api_kinds(version).items():
            if is_namespaced and kind not in _UNSELECTABLE_KINDS:
                yield build_collection_path(version, plural, namespace)


def _list_collections(
    hub: HubClient, collections: Sequence[str], selected: SelectedObjects
) -> list[list[dict[str, Any]]]:
    """List collections; [] for one without lists, or without permission, which is recorded."""

    def list_objects(collection: str) -> list[dict[str, Any]]:
        try:
            return hub.list_objects(collection)
        except ApiError as api_error:
            if api_error.kind is ApiErrorKind.PERMISSION:
                selected.forbidden.append(collection.rpartition("/")[2])
            elif api_error.status not in (404, 405):
                raise
            return []

    return call_in_parallel(list_objects, collections, MAX_CONCURRENT)


def _remove_secrets(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body without the values of a Secret: plans record what they read."""
    hidden_fields = _HIDDEN_FIELDS.get(get_text(body, "kind"), ())
    return {name: value for name, value in body.items() if name not in hidden_fields}


def _build_key(body: Mapping[str, Any]) -> ObjectKey:
    """Return group, kind, namespace and name of an object."""
    group = get_text(body, "apiVersion").rpartition("/")[0]
    metadata = get_mapping(body, "metadata")
    return group, str(body.get("kind")), get_text(metadata, "namespace"), str(metadata.get("name"))
