"""Placements unchanged by a plan that select objects it writes: a hub rolls these objects out too."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import format_first_items
from nexusform.documents.field_validation import list_mappings
from nexusform.domains.hub.api.api_errors import ApiError
from nexusform.domains.hub.api.hub_client import HubClient
from nexusform.domains.hub.api.hub_kinds import KINDS
from nexusform.domains.hub.providers.hub_bodies import HubObject
from nexusform.domains.hub.providers.hub_wait import has_external_rollout
from nexusform.domains.hub.providers.rollout_progress import get_name

OTHER_PLACEMENTS: Final = "selected-by-other-placements"
_KINDS: Final = ("ClusterResourcePlacement", "ResourcePlacement")
_MAX_NAMES: Final = 4
Body = Mapping[str, Any]
ObjectKey = tuple[str, str, str]  # kind, namespace and name
# by selected object; a namespace with its content has no name
SelectionIndex = Mapping[ObjectKey, Sequence[Body]]


def find_affected_placements(
    hub: HubClient, changed_objects: Mapping[int, Sequence[HubObject]], planned_placements: Collection[ObjectKey]
) -> Iterator[tuple[int, Problem]]:
    """Yield a warning for each manifest with objects selected by unchanged placements. `changed_objects` are
    the changed objects by number of their change, `planned_placements` the placements of the plan. Raises
    HubProblem.
    """
    if not any(changed_objects.values()):
        return
    placements = (item for item in _list_rolling_placements(hub) if _get_key(item) not in planned_placements)
    index: dict[ObjectKey, list[Body]] = {}
    for placement in placements:
        includes_content = any(
            selector.get("kind") == "Namespace" and selector.get("selectionScope") != "NamespaceOnly"
            for selector in list_mappings(placement, "spec", "resourceSelectors")
        )
        for selector in list_mappings(placement, "status", "selectedResources"):
            kind, namespace, name = (str(selector.get(part) or "") for part in ("kind", "namespace", "name"))
            index.setdefault((kind, namespace, name), []).append(placement)
            if includes_content and kind == "Namespace":
                index.setdefault(("", name, ""), []).append(placement)
    for number, objects in changed_objects.items():
        descriptions = [
            _describe_selection(item, placement)
            for item in objects
            for placement in _find_selecting_placements(item, index)
        ]
        if descriptions:
            detail = (
                f"{format_first_items(descriptions, _MAX_NAMES, separator='; ')}. The hub applies the changes "
                "to these clusters; this plan does not predict how."
            )
            yield number, Problem((), OTHER_PLACEMENTS, detail, Severity.WARNING)


def _list_rolling_placements(hub: HubClient) -> Iterator[Body]:
    """Yield the listable placements rolled out by the hub automatically."""
    for kind in _KINDS:
        try:
            placements = hub.list_objects(KINDS[kind].collection)
        except ApiError:
            continue
        yield from (
            {"kind": kind, **placement}
            for placement in placements
            if not has_external_rollout(placement) and _list_clusters(placement)
        )


def _list_clusters(placement: Body) -> list[str]:
    statuses = list_mappings(placement, "status", "placementStatuses")
    return sorted(str(status["clusterName"]) for status in statuses if status.get("clusterName"))


def _get_key(placement: Body) -> ObjectKey:
    namespace = str((placement.get("metadata") or {}).get("namespace") or "")
    return str(placement.get("kind")), namespace, get_name(placement)


def _find_selecting_placements(hub_object: HubObject, index: SelectionIndex) -> Iterator[Body]:
    """Yield the placements that select an object or its whole namespace, once each."""
    _, kind, namespace, name = hub_object.identity
    placements = [*index.get((kind, namespace, name), ())]
    if namespace:
        placements += index.get(("", namespace, ""), ())
    yield from {_get_key(placement): placement for placement in placements}.values()


def _describe_selection(hub_object: HubObject, placement: Body) -> str:
    kind, namespace, name = _get_key(placement)
    clusters = format_first_items(_list_clusters(placement), _MAX_NAMES)
    return f"{hub_object.title} is selected by {kind} {f'{namespace}/' if namespace else ''}{name} ({clusters})"
