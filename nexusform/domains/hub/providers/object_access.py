"""Access to the objects of a resource on a hub, and their metadata."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Final

from nexusform.diagnostics.phrases import enclose
from nexusform.domains.fleet.importers.fleet_export import find_external_manager, list_conditions
from nexusform.domains.hub.api.api_errors import ApiError, ApiErrorKind
from nexusform.domains.hub.api.hub_cache import CACHE_THRESHOLD
from nexusform.domains.hub.api.hub_client import HubClient
from nexusform.domains.hub.api.hub_kinds import HubKind, build_collection_path
from nexusform.domains.hub.providers.hub_bodies import KINDS_BY_TYPE, HubObject
from nexusform.domains.pods.importers.manifest_parser import build_manifest
from nexusform.interfaces.plugins import ProviderProblem
from nexusform.json_data.plain_data import get_mapping, get_text, list_mappings, list_texts

Body = Mapping[str, Any]
# Conditions of a namespace that explain its pending deletion.
_NAMESPACE_CONDITIONS: Final = frozenset(
    {
        "NamespaceContentRemaining",
        "NamespaceFinalizersRemaining",
        "NamespaceDeletionContentFailure",
        "NamespaceDeletionDiscoveryFailure",
    }
)


def find_object_path(hub: HubClient, hub_object: HubObject) -> str:
    """Return the path of an object on a hub; "" for an unserved kind. Raises ApiError."""
    if hub_object.path:
        return hub_object.path
    version = str(hub_object.body.get("apiVersion"))
    plural, is_namespaced = hub.get_api_kinds(version).get(str(hub_object.body.get("kind")), ("", False))
    if not plural:
        return ""  # unserved kind
    metadata = get_mapping(hub_object.body, "metadata")
    namespace = metadata.get("namespace") or "default"
    collection = build_collection_path(version, plural, namespace if is_namespaced else "")
    return f"{collection}/{metadata.get('name')}"


def require_object_path(hub: HubClient, hub_object: HubObject) -> str:
    """Return the path of an object, after new kinds are read. Raises ProviderProblem for an unserved kind."""
    path = find_object_path(hub, hub_object)
    if not path:
        hub.forget_api_kinds(str(hub_object.body.get("apiVersion")))
        path = find_object_path(hub, hub_object)
    if not path:
        detail = f"{hub_object.title}: the hub serves no {hub_object.body.get('apiVersion')} of that kind."
        raise ProviderProblem(detail)
    return path


def list_existing_object_bodies(hub: HubClient, hub_objects: Iterable[HubObject]) -> dict[str, dict[str, Any] | None]:
    """List collections with many of the objects, and return the bodies by path, None for a missing object. Omit small
    collections, and those impossible to list. Raises HubProblem.
    """
    paths_by_collection: dict[str, list[str]] = {}
    for hub_object in hub_objects:
        try:
            path = find_object_path(hub, hub_object)
        except ApiError:
            continue
        if path:
            paths_by_collection.setdefault(path.rpartition("/")[0], []).append(path)
    existing: dict[str, dict[str, Any] | None] = {}
    for collection, paths in paths_by_collection.items():
        if len(paths) < CACHE_THRESHOLD:
            continue  # read one by one
        try:
            bodies = hub.list_objects(collection)
        except ApiError:
            continue
        existing |= dict.fromkeys(paths)  # missing, unless listed
        existing |= {f"{collection}/{get_mapping(body, 'metadata').get('name')}": body for body in bodies}
    return existing


def list_in_namespaces(
    hub: HubClient, kind: HubKind, namespaces: Collection[str], **query: str
) -> list[dict[str, Any]]:
    """Return the objects of a kind, of a namespaced one at least those in `namespaces`: several are read by one list of
    all namespaces if permitted, else one by one. Raises ApiError and HubProblem.
    """
    collections = [kind.build_collection(namespace) for namespace in sorted(namespaces)]
    if not kind.is_namespaced:
        return hub.list_objects(kind.collection, **query)
    if len(collections) > 1:
        bodies = list_objects_if_permitted(partial(hub.list_objects, kind.collection, **query))
        if bodies is not None:
            return bodies
    return [body for collection in collections for body in hub.list_objects(collection, **query)]


def list_objects_if_permitted(read: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]] | None:
    """Return the objects of a list; None without permission. Raises ApiError."""
    try:
        return read()
    except ApiError as api_error:
        if api_error.kind is not ApiErrorKind.PERMISSION:
            raise
        return None


def get_uid(body: Body | None) -> str:
    """Return the uid of an object, "" for none."""
    return get_text(body, "metadata", "uid")


def list_finalizers(body: Body) -> list[str]:
    """Return the finalizers of an object."""
    return list_texts(body, "metadata", "finalizers")


def describe_deletion_blockers(body: Body) -> str:
    """Return the blockers of a deletion as the end of a sentence: finalizers, content of a namespace; "" for none."""
    blockers = enclose(", held by ", ", ".join(list_finalizers(body)))
    for condition in list_conditions(body):
        if condition.get("status") == "True" and condition.get("type") in _NAMESPACE_CONDITIONS:
            blockers += f"; {condition.get('message')}"
    return blockers


def list_managed_fields(body: Body | None) -> list[Mapping[str, Any]]:
    """Return the entries of an object's `managedFields`: a manager with its fields and operation each."""
    return list_mappings(body, "metadata", "managedFields")


def list_applied_fields(body: Body, manager: str) -> list[Mapping[str, Any]]:
    """Return the sets of fields applied by a manager; none if it never applied the object."""
    return [
        get_mapping(entry, "fieldsV1")
        for entry in list_managed_fields(body)
        if entry.get("manager") == manager and entry.get("operation") == "Apply"
    ]


def is_applied_by(body: Body, manager: str) -> bool:
    """Return True if a manager applied fields of an object."""
    return bool(list_applied_fields(body, manager))


def find_tool_manager(body: Body) -> str:
    """Return the Flux or Argo CD manager of an object, "" without one."""
    manifest = build_manifest(body)
    return find_external_manager(manifest) if manifest is not None else ""


def get_identity(type_name: str, attributes: Body) -> tuple[str, str, str]:
    """Return kind, namespace and name of a resource with one object."""
    return KINDS_BY_TYPE[type_name], get_text(attributes, "namespace"), str(attributes.get("name"))
