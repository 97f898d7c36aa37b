"""Placements that a plan does not change and that select what it writes: a hub rolls that out as well."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from nexusform.diagnostics import Problem, Severity
from nexusform.documents.shapes import mappings_at
from nexusform.domains.hub.api.hub import Hub
from nexusform.domains.hub.api.hub_kinds import KINDS
from nexusform.domains.hub.api.hub_words import Refused
from nexusform.domains.hub.providers.hub_bodies import Sent
from nexusform.domains.hub.providers.hub_standing import name_of
from nexusform.domains.hub.providers.hub_watch import is_external
from nexusform.words import first_of

BROUGHT: Final = "brought-by-other-placements"
_KINDS: Final = ("ClusterResourcePlacement", "ResourcePlacement")
_MOST_NAMED: Final = 4
Body = Mapping[str, Any]
Key = tuple[str, str, str]  # kind, namespace and name
Selecting = Mapping[Key, Sequence[Body]]  # by what is selected; a namespace with all in it has no name


def bystanders(
    hub: Hub, written: Mapping[int, Sequence[Sent]], changed: Collection[Key]
) -> Iterator[tuple[int, Problem]]:
    """A warning for each manifest of which placements bring something to clusters although the plan changes
    none of them. `written` are the objects that are to be otherwise, by the number of their change, `changed`
    the placements of the plan. Raises HubProblem.
    """
    if not any(written.values()):
        return
    selecting = _selecting(each for each in _rolling(hub) if _key_of(each) not in changed)
    for number, objects in written.items():
        told = [_told(each, placement) for each in objects for placement in _that_select(each, selecting)]
        if told:
            detail = (
                f"{first_of(told, _MOST_NAMED, separator='; ')}. The hub brings what is written to these "
                "clusters, and this plan does not say how."
            )
            yield number, Problem((), BROUGHT, detail, Severity.WARNING)


def _rolling(hub: Hub) -> Iterator[Body]:
    """The placements whose content the hub rolls out by itself, where they may be listed."""
    for kind in _KINDS:
        try:
            listed = hub.list(KINDS[kind].collection)
        except Refused:
            continue
        yield from ({"kind": kind, **each} for each in listed if not is_external(each) and _clusters_of(each))


def _clusters_of(placement: Body) -> list[str]:
    statuses = mappings_at(placement, "status", "placementStatuses")
    return sorted(str(each["clusterName"]) for each in statuses if each.get("clusterName"))


def _key_of(placement: Body) -> Key:
    namespace = str((placement.get("metadata") or {}).get("namespace") or "")
    return str(placement.get("kind")), namespace, name_of(placement)


def _selecting(placements: Iterable[Body]) -> Selecting:
    selecting: dict[Key, list[Body]] = {}
    for placement in placements:
        bring_all = any(
            one.get("kind") == "Namespace" and one.get("selectionScope") != "NamespaceOnly"
            for one in mappings_at(placement, "spec", "resourceSelectors")
        )
        for one in mappings_at(placement, "status", "selectedResources"):
            kind, namespace, name = (str(one.get(part) or "") for part in ("kind", "namespace", "name"))
            selecting.setdefault((kind, namespace, name), []).append(placement)
            if bring_all and kind == "Namespace":
                selecting.setdefault(("", name, ""), []).append(placement)
    return selecting


def _that_select(each: Sent, selecting: Selecting) -> Iterator[Body]:
    """The placements that select an object, or all that is in its namespace, once each."""
    _, kind, namespace, name = each.identity
    found = [*selecting.get((kind, namespace, name), ())]
    if namespace:
        found += selecting.get(("", namespace, ""), ())
    yield from {_key_of(placement): placement for placement in found}.values()


def _told(each: Sent, placement: Body) -> str:
    kind, namespace, name = _key_of(placement)
    clusters = first_of(_clusters_of(placement), _MOST_NAMED)
    return f"{each.title} is selected by {kind} {f'{namespace}/' if namespace else ''}{name} ({clusters})"
