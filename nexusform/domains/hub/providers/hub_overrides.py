"""Whether an override has come to the clusters of the placement that it names.

A hub makes a snapshot of an override, and a rollout brings that to the clusters one by one. Until then the
placement is as available as it was before, so its own conditions tell nothing: each binding has to name the
snapshot, or none of an override that is gone. An override that names no placement reaches nobody by itself,
and where a rollout may take nothing down, nobody gets it until somebody makes room.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from nexusform.domains.fleet.importers.fleet_export import is_going, override_names, read_placements
from nexusform.domains.fleet.importers.fleet_model import FleetOverride
from nexusform.domains.fleet.planning.overrides import picked
from nexusform.domains.hub.api.hub import Hub
from nexusform.domains.hub.api.hub_kinds import KINDS, MEMBER
from nexusform.domains.hub.providers.hub_bodies import KIND_OF
from nexusform.domains.hub.providers.hub_standing import (
    LATEST,
    Shown,
    held_up,
    manifests_of,
    name_of,
    why_not_ready,
)
from nexusform.domains.hub.providers.hub_watch import has_been_scheduled, is_external, shown_placement
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest
from nexusform.resource_types.registry import RESOURCE_TYPES
from nexusform.words import first_of

OVERRIDES: Final = frozenset({"fleet_cluster_resource_override", "fleet_resource_override"})
_TRACKED: Final = "kubernetes-fleet.io/parent-resource-override"
_MOST_NAMED: Final = 4
Body = Mapping[str, Any]
Objects = Mapping[int, Sequence[Manifest]]


class OverrideLook:
    """Looks at how far a hub is with an override, or with one that was deleted (`gone`)."""

    def __init__(self, hub: Hub, type_name: str, attributes: Body, *, gone: bool) -> None:
        self._hub = hub
        self._gone = gone
        self._kind = KIND_OF[type_name]
        fleet = RESOURCE_TYPES[type_name].fleet
        assert fleet is not None
        override = fleet(attributes)
        assert isinstance(override, FleetOverride)
        self._override = override
        self._snapshot = ""  # the latest, as bindings name it
        self._labels: Mapping[str, Mapping[str, str]] | None = None  # of members
        self.stops = ""  # that a rollout brings it no further, "" where it goes on

    def look(self, _elapsed: float = 0.0) -> tuple[bool, str]:
        """Whether it is done, and what is still to come. Raises Refused and HubProblem."""
        if not self._gone:
            self._snapshot = self._snapshot or self._latest_snapshot()
            if not self._snapshot:
                return False, f"the hub has not taken a snapshot of {self._override.key} yet"
        if not self._override.placement:
            return True, ""
        namespace, _, name = self._override.placement.rpartition("/")
        kind = "ResourcePlacement" if namespace else "ClusterResourcePlacement"
        shown = shown_placement(self._hub, kind, namespace, name)
        if shown is None or is_external(shown.placement):
            return True, ""
        if not has_been_scheduled(shown.placement):
            return False, f"the hub has not picked clusters of {name} yet"
        if any(why_not_ready(each)[0] for each in shown.bindings if _is_bound(each)):
            return True, ""  # a rollout stops there: who looks at the placement is told
        left = dict(self._left(shown))
        stop = held_up(shown, left.keys()) if left else None
        if stop is not None:
            self.stops = stop.words
            return True, ""
        return not left, first_of([f"{cluster}{words}" for cluster, words in left.items()], _MOST_NAMED)

    def _latest_snapshot(self) -> str:
        """The name of the snapshot that the hub made of the override as it stands now, "" before."""
        namespace, name = self._override.namespace, self._override.name
        body = self._hub.get(KINDS[self._kind].path(name, namespace))
        table = KINDS[f"{self._kind}Snapshot"]
        head, _, plural = table.collection.rpartition("/")
        within = f"/namespaces/{namespace}" if namespace else ""
        snapshots = self._hub.list(f"{head}{within}/{plural}", labelSelector=f"{_TRACKED}={name}")
        for each in snapshots if body is not None else ():
            is_latest = ((each.get("metadata") or {}).get("labels") or {}).get(LATEST) == "true"
            if is_latest and (each.get("spec") or {}).get("overrideSpec") == (body or {}).get("spec"):
                return f"{namespace}/{name_of(each)}" if namespace else name_of(each)
        return ""

    def _left(self, shown: Shown) -> Iterator[tuple[str, str]]:
        """The clusters that have yet to get it, or to lose it, each with words."""
        placement = next(iter(read_placements(manifests_of(shown)).values()), None)
        if placement is None:
            return
        objects: Objects = {each.index: each.objects for each in placement.snapshots}
        own = re.compile(rf"{re.escape(self._override.key)}-\d+")
        for body in filter(_is_bound, shown.bindings):
            cluster = str((body.get("spec") or {}).get("targetCluster"))
            index = placement.bindings[cluster].resource_snapshot if cluster in placement.bindings else None
            if index is None or index not in objects:
                continue
            named = {each for each in override_names(body.get("spec") or {}) if own.fullmatch(each)}
            wanted = {self._snapshot} if self._is_for(cluster, objects[index]) else set()
            if named != wanted:
                yield cluster, f" {'does not have it yet' if wanted else 'still has it'}"
            elif reason := why_not_ready(body)[1]:
                yield cluster, f": {reason}"

    def _is_for(self, cluster: str, objects: Sequence[Manifest]) -> bool:
        if self._gone:
            return False
        if self._labels is None:
            members = self._hub.list(MEMBER.collection)
            self._labels = {
                name_of(each): (each.get("metadata") or {}).get("labels") or {} for each in members
            }
        return bool(picked((self._override,), objects, self._labels.get(cluster, {})))


def _is_bound(binding: Body) -> bool:
    return (binding.get("spec") or {}).get("state") == "Bound" and not is_going(binding)
