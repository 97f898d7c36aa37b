"""Where the objects of a resource stand on a hub, and what they say of themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from nexusform.domains.fleet.importers.fleet_export import conditions_of, manager_of
from nexusform.domains.hub.api.hub import Hub
from nexusform.domains.hub.api.hub_mirror import MANY, Mirrors
from nexusform.domains.hub.api.hub_words import Refused
from nexusform.domains.hub.providers.hub_bodies import KIND_OF, Sent
from nexusform.domains.pods.importers.kubernetes_manifests import manifest_of
from nexusform.ports import ProviderProblem

Body = Mapping[str, Any]
# Conditions by which a namespace tells why it is still there.
_NAMESPACE_HOLDS: Final = frozenset(
    {
        "NamespaceContentRemaining",
        "NamespaceFinalizersRemaining",
        "NamespaceDeletionContentFailure",
        "NamespaceDeletionDiscoveryFailure",
    }
)


def path_on(hub: Hub, each: Sent) -> str:
    """Where an object stands on a hub; "" for a kind that it does not serve. Raises Refused."""
    if each.path:
        return each.path
    version = str(each.body.get("apiVersion"))
    plural, namespaced = hub.kinds_of(version).get(str(each.body.get("kind")), ("", False))
    if not plural:
        return ""
    metadata = each.body.get("metadata") or {}
    head = f"/apis/{version}" if "/" in version else f"/api/{version}"
    within = f"/namespaces/{metadata.get('namespace') or 'default'}" if namespaced else ""
    return f"{head}{within}/{plural}/{metadata.get('name')}"


def path_needed(hub: Hub, each: Sent) -> str:
    """Where an object stands. Raises ProviderProblem for a kind that the hub does not serve."""
    path = path_on(hub, each)
    if not path:
        raise ProviderProblem(f"{each.title}: the hub serves no {each.body.get('apiVersion')} of that kind.")
    return path


def object_on(hub: Hub, mirrors: Mirrors, each: Sent) -> dict[str, Any] | None:
    """An object as it stands, None where there is none. Raises Refused."""
    path = path_on(hub, each)
    return mirrors.get(path) if path else None


def standing_of_many(hub: Hub, sent: Iterable[Sent]) -> dict[str, dict[str, Any] | None]:
    """What stands of objects of which many stand in one place, by path: a list of all there instead of a
    request for each. A place that may not be listed is left out. Raises HubProblem.
    """
    places: dict[str, list[str]] = {}
    for each in sent:
        try:
            path = path_on(hub, each)
        except Refused:
            continue
        if path:
            places.setdefault(path.rpartition("/")[0], []).append(path)
    standing: dict[str, dict[str, Any] | None] = {}
    for place, paths in places.items():
        if len(paths) < MANY:
            continue
        try:
            listed = hub.list(place)
        except Refused:
            continue
        standing |= dict.fromkeys(paths)
        standing |= {f"{place}/{(body.get('metadata') or {}).get('name')}": body for body in listed}
    return standing


def uid_of(body: Body) -> str:
    """The uid of an object."""
    return str((body.get("metadata") or {}).get("uid") or "")


def is_deleted(body: Body) -> bool:
    """Whether an object still stands although it was deleted."""
    return bool((body.get("metadata") or {}).get("deletionTimestamp"))


def held_by(body: Body) -> str:
    """What keeps an object that is deleted: finalizers, or what a namespace still holds."""
    finalizers = (body.get("metadata") or {}).get("finalizers") or ()
    held = f", held by {', '.join(finalizers)}" if finalizers else ""
    said = [
        str(each.get("message"))
        for each in conditions_of(body)
        if each.get("status") == "True" and str(each.get("type")) in _NAMESPACE_HOLDS
    ]
    return held + "".join(f"; {words}" for words in said)


def is_applied_by(body: Body, manager: str) -> bool:
    """Whether a manager applied something of an object."""
    return any(
        one.get("manager") == manager and one.get("operation") == "Apply"
        for one in (body.get("metadata") or {}).get("managedFields") or ()
    )


def managed_by(body: Body) -> str:
    """What of Flux or Argo CD applies an object, "" for neither."""
    manifest = manifest_of(dict(body))
    return manager_of(manifest) if manifest is not None else ""


def named(type_name: str, attributes: Body) -> tuple[str, str, str]:
    """Kind, namespace and name of a resource that is one object."""
    return KIND_OF[type_name], str(attributes.get("namespace") or ""), str(attributes.get("name"))
