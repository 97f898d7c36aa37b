"""Objects on a hub for the selectors of a configuration: of other owners, and in no resource snapshot yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from nexusform.documents.field_validation import list_mappings
from nexusform.domains.hub.api.api_errors import ApiError, ApiErrorKind
from nexusform.domains.hub.api.hub_client import HubClient

_UNSELECTABLE_KINDS: Final = frozenset({"Pod", "Event", "Lease", "Endpoints", "EndpointSlice", "PodMetrics"})
_FLEET_SUFFIX: Final = "kubernetes-fleet.io"
_SECRET_FIELDS: Final = ("data", "stringData")
ObjectKey = tuple[str, str, str, str]  # group, kind, namespace and name


class SelectedObjects(Struct):
    """Objects read for selectors, and kinds without permission to list them."""

    items: list[dict[str, Any]] = field(default_factory=list)
    forbidden: list[str] = field(default_factory=list)


def read_selected_objects(
    hub: HubClient, selectors: Sequence[Mapping[str, str]], dump: Iterable[Mapping[str, Any]]
) -> SelectedObjects:
    """Read the objects of selectors: one list per kind, and the content of selected namespaces. `selectors` have
    `group`, `version`, `kind`, `name`, `namespace` and `scope`; objects in a snapshot of the `dump` are known.
    Raises HubProblem.
    """
    known = {_build_key(body) for item in dump for body in list_mappings(item, "spec", "selectedResources")}
    selected = SelectedObjects()
    namespaces: dict[str, None] = {}
    for collection, wanted in _group_by_collection(hub, selectors, known).items():
        for body in _list_objects(hub, collection, selected):
            matches = [selector for selector in wanted if selector["name"] in ("", body["metadata"].get("name"))]
            if not matches or _build_key(body) in known:
                continue
            selected.items.append(_remove_secrets(body))
            if body["kind"] == "Namespace" and any(selector["scope"] != "NamespaceOnly" for selector in matches):
                namespaces[str(body["metadata"]["name"])] = None
    for namespace in namespaces:
        for collection in _list_namespaced_collections(hub, namespace):
            selected.items += map(_remove_secrets, _list_objects(hub, collection, selected))
    return selected


def _group_by_collection(
    hub: HubClient, selectors: Sequence[Mapping[str, str]], known: set[ObjectKey]
) -> dict[str, list[Mapping[str, str]]]:
    """Return the selectors by the path of their collection, without those of known objects."""
    grouped: dict[str, list[Mapping[str, str]]] = {}
    for selector in selectors:
        if (selector["group"], selector["kind"], selector["namespace"], selector["name"]) in known:
            continue
        version = "/".join(filter(None, (selector["group"], selector["version"])))
        plural, is_namespaced = hub.get_api_kinds(version).get(selector["kind"], ("", False))
        if plural and is_namespaced == bool(selector["namespace"]):
            grouped.setdefault(_build_collection_path(version, plural, selector["namespace"]), []).append(selector)
    return grouped


def _list_namespaced_collections(hub: HubClient, namespace: str) -> Iterator[str]:
    """Yield the paths of a namespace's collections."""
    for version in ("v1", *hub.list_group_versions()):
        if version.partition("/")[0].endswith(_FLEET_SUFFIX):
            continue
        for kind, (plural, is_namespaced) in hub.get_api_kinds(version).items():
            if is_namespaced and kind not in _UNSELECTABLE_KINDS:
                yield _build_collection_path(version, plural, namespace)


def _build_collection_path(version: str, plural: str, namespace: str) -> str:
    head = f"/apis/{version}" if "/" in version else f"/api/{version}"
    return f"{head}/namespaces/{namespace}/{plural}" if namespace else f"{head}/{plural}"


def _list_objects(hub: HubClient, collection: str, selected: SelectedObjects) -> list[dict[str, Any]]:
    """List a collection; a missing permission is recorded, and kinds without lists are empty."""
    try:
        return hub.list_objects(collection)
    except ApiError as api_error:
        if api_error.kind is ApiErrorKind.PERMISSION:
            selected.forbidden.append(collection.rpartition("/")[2])
        elif api_error.status not in (404, 405):
            raise
        return []


def _remove_secrets(body: dict[str, Any]) -> dict[str, Any]:
    """Return a body without the values of a Secret: plans record what they read."""
    return {name: value for name, value in body.items() if body["kind"] != "Secret" or name not in _SECRET_FIELDS}


def _build_key(body: Mapping[str, Any]) -> ObjectKey:
    group = str(body.get("apiVersion") or "").rpartition("/")[0]
    metadata = body.get("metadata") or {}
    return group, str(body.get("kind")), str(metadata.get("namespace") or ""), str(metadata.get("name"))
