"""Content of a namespace on a hub: its deletion removes what others put there, too."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from nexusform.diagnostics.phrases import format_first_items
from nexusform.domains.hub.api.api_errors import ApiError, ApiErrorKind
from nexusform.domains.hub.api.hub_client import MAX_CONCURRENT, HubClient
from nexusform.domains.hub.api.hub_kinds import build_collection_path
from nexusform.json_data.plain_data import get_list, get_text
from nexusform.network.parallel_calls import call_in_parallel

# Made by the control plane for other objects, without a reference to these.
_DERIVED_KINDS: Final = frozenset({"Event", "Endpoints"})
_WITHOUT_LIST: Final = frozenset({404, 405})
_CORE_VERSION: Final = "v1"
_MAX_NAMES: Final = 4


def list_namespace_content(hub: HubClient, namespace: str) -> dict[str, str]:
    """Return the objects of a namespace by uid: `Deployment web/api`.

    Objects that belong to another one, and kinds that the client may not list, are left out.
    Raises ApiError and HubProblem.
    """
    collections = {
        build_collection_path(version, plural, namespace): kind
        for version in (_CORE_VERSION, *hub.list_group_versions())
        for kind, (plural, is_namespaced) in hub.get_api_kinds(version).items()
        if is_namespaced and kind not in _DERIVED_KINDS
    }
    lists = call_in_parallel(partial(_list_objects, hub), list(collections), MAX_CONCURRENT)
    content: dict[str, str] = {}
    for kind, bodies in zip(collections.values(), lists, strict=True):
        for body in bodies:
            uid = get_text(body, "metadata", "uid")
            if uid and not get_list(body, "metadata", "ownerReferences"):
                name = get_text(body, "metadata", "name")
                content.setdefault(uid, f"{kind} {namespace}/{name}")
    return content


def _list_objects(hub: HubClient, collection: str) -> list[dict[str, Any]]:
    """List a collection; [] for one without lists, or without permission."""
    try:
        return hub.list_objects(collection)
    except ApiError as api_error:
        if api_error.kind is ApiErrorKind.PERMISSION or api_error.status in _WITHOUT_LIST:
            return []
        raise


def find_new_content(hub: HubClient, namespace: str, recorded: Mapping[str, str] | None) -> str:
    """Return the message about objects that others put into a namespace to delete; "" for none.

    `recorded` are the objects that the plan read, by uid; None if it did not read them. Raises
    ApiError and HubProblem.
    """
    if recorded is None:
        return ""
    content = list_namespace_content(hub, namespace)
    names = [title for uid, title in content.items() if uid not in recorded]
    if not names:
        return ""
    return (
        f"Namespace {namespace} has {format_first_items(sorted(names), _MAX_NAMES)} on the hub, "
        "which the plan did not show. Plan again."
    )
