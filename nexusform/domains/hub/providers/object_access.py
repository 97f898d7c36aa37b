"""Access to the objects of a resource on a hub.

The module has options, metadata, and messages about rejected requests.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.phrases import enclose
from nexusform.domains.fleet.importers.fleet_export import find_external_manager, list_conditions
from nexusform.domains.hub.api.api_errors import ApiError, ApiErrorKind
from nexusform.domains.hub.api.hub_cache import CACHE_THRESHOLD, get_namespaced_name
from nexusform.domains.hub.api.hub_client import MAX_CONCURRENT, HubClient, HubProblem
from nexusform.domains.hub.api.hub_kinds import (
    HubKind,
    build_collection_path,
    join_path,
    split_path,
)
from nexusform.domains.hub.providers.hub_bodies import KINDS_BY_TYPE, MANIFEST_TYPE, HubObject
from nexusform.domains.pods.importers.manifest_parser import build_manifest
from nexusform.interfaces.plugins import ChangeRequest, ObjectKey, ProviderProblem, StepPending
from nexusform.json_data.plain_data import (
    get_mapping,
    get_part,
    get_text,
    list_mappings,
    list_texts,
)
from nexusform.network.parallel_calls import call_in_parallel

Body = Mapping[str, Any]
# A list may be so many times as long as the number of its objects that are wanted.
_MOST_LISTED: Final = 20
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
    """Return the path of an object on a hub; "" for an unserved kind.

    Raises ApiError.
    """
    if hub_object.path:
        return hub_object.path
    version = str(hub_object.body.get("apiVersion"))
    plural, is_namespaced = hub.get_api_kinds(version).get(
        str(hub_object.body.get("kind")), ("", False)
    )
    if not plural:
        return ""  # unserved kind
    metadata = get_mapping(hub_object.body, "metadata")
    namespace = metadata.get("namespace") or "default"
    collection = build_collection_path(version, plural, namespace if is_namespaced else "")
    return f"{collection}/{metadata.get('name')}"


def require_object_path(hub: HubClient, hub_object: HubObject) -> str:
    """Return the path of an object.

    Read the kinds again for an unserved kind; raise ProviderProblem if it stays so.
    """
    path = find_object_path(hub, hub_object)
    if not path:
        hub.forget_api_kinds(str(hub_object.body.get("apiVersion")))
        path = find_object_path(hub, hub_object)
    if not path:
        detail = (
            f"{hub_object.title}: the hub serves no {hub_object.body.get('apiVersion')} of that "
            "kind."
        )
        raise ProviderProblem(detail)
    return path


def read_existing_bodies(
    hub: HubClient, hub_objects: Iterable[HubObject]
) -> dict[str, dict[str, Any] | None]:
    """Return the bodies of objects by path, None for a missing one; many requests are in flight.

    Many objects of a kind are read by one list of all namespaces, or by lists of their namespaces
    if that is forbidden or much longer. The others are read one by one. An object that the hub
    refuses is left out. Raises HubProblem.
    """
    wanted: dict[str, dict[str, list[str]]] = {}
    for hub_object in hub_objects:
        try:
            path = find_object_path(hub, hub_object)
        except ApiError:
            continue
        if path:
            collection, namespace, _ = split_path(path)
            wanted.setdefault(collection, {}).setdefault(namespace, []).append(path)
    bodies: dict[str, dict[str, Any] | None] = {}
    whole_kinds = {
        collection: list(chain.from_iterable(by_namespace.values()))
        for collection, by_namespace in wanted.items()
        if len(by_namespace) > 1
    }
    bodies |= _list_wanted(hub, whole_kinds)
    in_namespaces = {
        paths[0].rpartition("/")[0]: paths
        for by_namespace in wanted.values()
        for paths in by_namespace.values()
        if paths[0] not in bodies
    }
    bodies |= _list_wanted(hub, in_namespaces)
    paths = chain.from_iterable(in_namespaces.values())
    return bodies | _read_one_by_one(hub, [path for path in paths if path not in bodies])


def _list_wanted(
    hub: HubClient, wanted: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, Any] | None]:
    """Return the bodies of the paths of collections that are listed: those with many paths."""

    def list_collection(collection: str) -> dict[str, dict[str, Any] | None]:
        most = _MOST_LISTED * len(wanted[collection])
        try:
            listed = hub.list_short_collection(collection, most)
        except ApiError:
            return {}
        if listed is None:
            return {}
        # Missing, unless listed.
        bodies: dict[str, dict[str, Any] | None] = dict.fromkeys(wanted[collection])
        for body in listed:
            path = join_path(collection, *get_namespaced_name(body))
            if path in bodies:
                bodies[path] = body
        return bodies

    collections = [name for name, paths in wanted.items() if len(paths) >= CACHE_THRESHOLD]
    results = call_in_parallel(list_collection, collections, MAX_CONCURRENT)
    return {path: body for result in results for path, body in result.items()}


def _read_one_by_one(hub: HubClient, paths: Sequence[str]) -> dict[str, dict[str, Any] | None]:
    """Return the bodies at paths; those that the hub refuses are left out."""

    def read(path: str) -> list[dict[str, Any] | None]:
        try:
            return [hub.get(path)]
        except ApiError:
            return []

    results = call_in_parallel(read, paths, MAX_CONCURRENT)
    return {path: body for path, found in zip(paths, results, strict=True) for body in found}


def list_in_namespaces(
    hub: HubClient, kind: HubKind, namespaces: Collection[str], **query: str
) -> list[dict[str, Any]]:
    """Return the objects of a kind; of a namespaced kind at least those in `namespaces`.

    Several namespaces are read by one list of all namespaces, if permitted, else one by one. Raises
    ApiError and HubProblem.
    """
    collections = [kind.build_collection(namespace) for namespace in sorted(namespaces)]
    if not kind.is_namespaced:
        return hub.list_objects(kind.collection, **query)
    if len(collections) > 1:
        bodies = list_objects_if_permitted(partial(hub.list_objects, kind.collection, **query))
        if bodies is not None:
            return bodies
    return [body for collection in collections for body in hub.list_objects(collection, **query)]


def list_objects_if_permitted(
    read: Callable[[], list[dict[str, Any]]],
) -> list[dict[str, Any]] | None:
    """Return the objects of a list; None without permission.

    Raises ApiError.
    """
    try:
        return read()
    except ApiError as api_error:
        if api_error.kind is not ApiErrorKind.PERMISSION:
            raise
        return None


def get_uid(body: Body | None) -> str:
    """Return the uid of an object, "" for none."""
    return get_text(body, "metadata", "uid")


def describe_deletion_blockers(body: Body) -> str:
    """Return the end of a sentence about the blockers of a deletion, or "".

    These are finalizers, and the content of a namespace.
    """
    blockers = enclose(", held by ", ", ".join(list_texts(body, "metadata", "finalizers")))
    for condition in list_conditions(body):
        if condition.get("status") == "True" and condition.get("type") in _NAMESPACE_CONDITIONS:
            blockers += f"; {condition.get('message')}"
    return blockers


def list_managed_fields(body: Body | None) -> list[Mapping[str, Any]]:
    """Return the entries of an object's `managedFields`.

    Each entry is a manager with its fields and operation.
    """
    return list_mappings(body, "metadata", "managedFields")


def list_applied_fields(body: Body, manager: str) -> list[Mapping[str, Any]]:
    """Return the sets of fields applied by a manager; none if it never applied the object."""
    return [
        get_mapping(entry, "fieldsV1")
        for entry in list_managed_fields(body)
        if (entry.get("manager"), entry.get("operation")) == (manager, "Apply")
    ]


def find_tool_manager(body: Body) -> str:
    """Return the Flux or Argo CD manager of an object, "" without one."""
    manifest = build_manifest(body)
    return find_external_manager(manifest) if manifest is not None else ""


def get_identity(type_name: str, attributes: Body) -> tuple[str, str, str]:
    """Return kind, namespace and name of a resource with one object."""
    return KINDS_BY_TYPE[type_name], get_text(attributes, "namespace"), str(attributes.get("name"))


class HubOptions(Struct, frozen=True):
    """Options of the provider block and the operator.

    `allows_dry_run` returns for the hub's URL whether this run may do more than read; a sandboxed
    run may not by default. `keeps_missing` means that missing objects count as unchanged.
    """

    manager: str
    validate_changes: str
    is_read_only: bool
    timeout: float
    allows_dry_run: Callable[[str], bool] = lambda _server: True
    takes_ownership: bool = False
    keeps_missing: bool = False


def get_ownership_source(options: HubOptions, request: ChangeRequest) -> str:
    """Return the flag or argument that permits taking over fields; "" for none."""
    if options.takes_ownership:
        return "-take-ownership"
    return "force_conflicts" if get_part(request.planned, ("force_conflicts",)) is True else ""


def reject_tool_managed_object(options: HubOptions, body: Mapping[str, Any], command: str) -> None:
    """Raise ProviderProblem for an object managed by Flux or Argo CD.

    There is none if the operator takes the object over. `command` is apply, destroy or import; a
    rejected apply can be resumed.
    """
    manager = find_tool_manager(body)
    if manager and not options.takes_ownership:
        name = get_mapping(body, "metadata").get("name")
        takeover_command = (
            f"nexusform {'apply -resume' if command == 'apply' else command} -take-ownership"
        )
        if command == "import":
            takeover_command += ", or an import block, planned and applied with -take-ownership"
        raise ProviderProblem(
            f"{body.get('kind')} {name} is applied by {manager}, which would change it back. "
            f"Change it there, or take it over: {takeover_command}."
        )


def describe_existing_object(hub_object: HubObject, key: ObjectKey, address: str) -> str:
    """Return why an existing object is not overwritten, and the remedy."""
    if key.type == MANIFEST_TYPE:
        return (
            f"{hub_object.title} already exists on the hub, and this plan would overwrite it. If "
            "this state has it at "
            "another address, add a moved block. Otherwise import all objects of the block "
            f'(import {{ to = {address}, id = "{key.id}" }}, with each argument on a line of its '
            "own), or remove it "
            "from the block."
        )
    return (
        f"{hub_object.title} already exists on the hub and is not in state. Import it: "
        f'import {{ to = {address}, id = "{key.id}" }} with each argument on a line of its own.'
    )


def describe_missing_member(hub_object: HubObject) -> str:
    """Return why a missing member's labels and taints are not written."""
    return (
        f"The hub has no member {hub_object.body['metadata']['name']}. A plan makes none: it "
        "joins by KubeFleet's "
        "join script (hack/membership/joinMC.sh), or by `az fleet member create`. "
        "If it left for good, take its block out of the configuration."
    )


def suggest_azure_command(hub_object: HubObject) -> str:
    """Return the Azure command to change a member's labels after a denial, else "".

    It is the end of a sentence.
    """
    metadata = get_mapping(hub_object.body, "metadata")
    labels = get_mapping(metadata, "labels")
    if hub_object.body.get("kind") != "MemberCluster" or not labels:
        return ""
    group = labels.get("fleet.azure.com/resource-group", "RG")
    pairs: list[str] = []
    for name, value in sorted(labels.items()):
        if not name.startswith("fleet.azure.com/"):
            pairs.append(f"{name}={value}")
    return (
        ". On Azure Kubernetes Fleet Manager labels of members belong to Azure: take them out "
        "here, and run: "
        f"az fleet member update --resource-group {group} --fleet-name FLEET --name "
        f"{metadata.get('name')} "
        f'--labels "{" ".join(pairs)}"'
    )


def is_sensitive_object(hub_object: HubObject, request: ChangeRequest) -> bool:
    """Return True if messages must not repeat values of an object; a Secret is always sensitive."""
    return request.is_sensitive or hub_object.body.get("kind") == "Secret"


def hide_sensitive_values(
    api_error: ApiError, hub_object: HubObject, request: ChangeRequest
) -> ApiError:
    """Return the error without values if the object is sensitive."""
    return api_error.hide_values() if is_sensitive_object(hub_object, request) else api_error


def describe_owners(api_error: ApiError) -> str:
    """Return the conflicting fields of a server-side apply with their owners, as text."""
    return "; ".join(
        f"{cause.field} belongs to {cause.manager}" for cause in api_error.causes if cause.manager
    )


def format_request_rejection(api_error: ApiError, hub_object: HubObject) -> str:
    """Format the rejection of a step's request.

    The cause is another owner of fields, a missing permission, or any other.
    """
    title = hub_object.title
    if api_error.kind is ApiErrorKind.OTHER_MANAGER:
        return (
            f"{title}: {describe_owners(api_error)}. Leave the field out of the configuration, or "
            "take it over: once "
            "by nexusform apply -resume -take-ownership, for good by force_conflicts = true."
        )
    if api_error.missing_permission:
        return f"{title}: {api_error.missing_permission}."
    advice = suggest_azure_command(hub_object) if api_error.kind is ApiErrorKind.WEBHOOK else ""
    return f"{title}: the hub refuses it ({api_error.status}): {api_error.server_message}{advice}"


@contextmanager
def convert_lost_connection(address: str) -> Iterator[None]:
    """Raise StepPending for a connection lost during a step.

    The result of the step is unknown.
    """
    try:
        yield
    except HubProblem as problem:
        raise StepPending(f"{address}: {problem} `nexusform apply -resume` continues it.") from None
    except ApiError as api_error:
        if api_error.kind is not ApiErrorKind.TEMPORARY:
            raise
        reason = f"the hub does not answer ({api_error.status}: {api_error.server_message})"
        raise StepPending(f"{address}: {reason}. `nexusform apply -resume` continues it.") from None


@contextmanager
def convert_rejected_read(hub_object: HubObject) -> Iterator[None]:
    """Raise StepPending for a rejected read after a write.

    The object exists, but the step is not verified.
    """
    try:
        yield
    except ApiError as api_error:
        if api_error.kind is ApiErrorKind.TEMPORARY:
            # The caller converts it (convert_lost_connection).
            raise
        raise StepPending(
            f"{hub_object.title} was written, but its result cannot be read ({api_error.status}): "
            f"{api_error.reason}. Allow that, and `nexusform apply -resume` continues it."
        ) from None


@contextmanager
def convert_hub_errors(*, requires_hub: bool = True) -> Iterator[None]:
    """Convert errors of a hub to ProviderProblem.

    Without `requires_hub`, an unusable hub and rejected credentials set its `is_unreachable`: a
    plan may start from the state.
    """
    try:
        yield
    except HubProblem as problem:
        raise ProviderProblem(str(problem), is_unreachable=not requires_hub) from None
    except ApiError as api_error:
        if api_error.kind is ApiErrorKind.UNAUTHENTICATED:
            detail = "The hub rejected the credentials (401). Sign in again."
            raise ProviderProblem(detail, is_unreachable=not requires_hub) from None
        raise ProviderProblem(f"The hub refuses ({api_error.status}): {api_error.reason}") from None
