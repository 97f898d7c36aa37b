"""Progress of an override on the clusters of its placement.

A hub creates a snapshot of an override, and a rollout distributes it to the clusters one by one.
Conditions of the placement do not change meanwhile, so each binding has to name the snapshot, or
none of a deleted override. An override without a placement name starts no rollout, and a rollout
without spare budget is blocked.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from nexusform.diagnostics.phrases import format_first_items, join_texts
from nexusform.domains.fleet.importers.fleet_export import is_deleting, list_override_names
from nexusform.domains.fleet.importers.fleet_records import FleetOverride
from nexusform.domains.fleet.planning.override_rendering import (
    collect_selection_keys,
    select_overrides,
)
from nexusform.domains.hub.api.hub_client import HubClient
from nexusform.domains.hub.api.hub_kinds import KINDS, MEMBER, get_scoped_kind
from nexusform.domains.hub.providers.hub_bodies import KINDS_BY_TYPE, build_fleet_object
from nexusform.domains.hub.providers.hub_wait import (
    has_been_scheduled,
    has_external_rollout,
    read_placement_objects,
)
from nexusform.domains.hub.providers.rollout_progress import (
    LATEST_LABEL,
    NOT_AVAILABLE,
    ObservedPlacementObjects,
    explain_unready_cluster,
    find_blocked_rollout,
    get_labels,
    get_name,
    get_target_cluster,
    is_bound,
    read_placement_export,
)
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.json_data.plain_data import get_mapping

OVERRIDE_TYPES: Final = frozenset({"fleet_cluster_resource_override", "fleet_resource_override"})
_PARENT_LABEL: Final = "kubernetes-fleet.io/parent-resource-override"
_MAX_NAMES: Final = 4
Body = Mapping[str, Any]
# Objects of resource snapshots.
ObjectsByIndex = Mapping[int | None, Sequence[Manifest]]


class OverrideRollout:
    """Progress of an override, or of a deleted one (`is_deleted`)."""

    def __init__(
        self, hub: HubClient, type_name: str, attributes: Body, *, is_deleted: bool
    ) -> None:
        """Build the override from its attributes.

        Its snapshot and the member labels are not read yet.
        """
        self._hub = hub
        self._is_deleted = is_deleted
        self._kind = KINDS_BY_TYPE[type_name]
        self._override: FleetOverride = build_fleet_object(type_name, attributes)
        # Name of the latest snapshot, as in bindings.
        self._snapshot = ""
        # Labels of members by name.
        self._labels: Mapping[str, Mapping[str, str]] | None = None
        # Message about a blocked rollout, "" if it continues.
        self.blocked_message = ""

    def check_progress(self, _elapsed: float = 0.0) -> tuple[bool, str]:
        """Return (done, pending work).

        First the override's snapshot, then the pick of clusters, then the rollouts. (True, "") also
        means a useless wait, as for a blocked rollout. Raises ApiError and HubProblem.
        """
        if not self._is_deleted:
            self._snapshot = self._snapshot or self._find_latest_snapshot()
            if not self._snapshot:
                return False, f"the hub has not taken a snapshot of {self._override.key} yet"
        if not self._override.placement:
            # It starts no rollout.
            return True, ""
        namespace, _, name = self._override.placement.rpartition("/")
        kind = get_scoped_kind("ResourcePlacement", namespace)
        placement_objects = read_placement_objects(self._hub, kind, namespace, name)
        if placement_objects is None:
            # No cluster gets it.
            return True, ""
        placement = placement_objects.placement
        if has_external_rollout(placement) or is_deleting(placement):
            # A later staged run distributes it, or nothing does.
            return True, ""
        if not has_been_scheduled(placement):
            return False, f"the hub has not picked clusters of {name} yet"
        bound = [binding for binding in placement_objects.bindings if is_bound(binding)]
        # "" for a ready cluster.
        unready_reasons = {explain_unready_cluster(binding) for binding in bound}
        if unready_reasons - {"", NOT_AVAILABLE}:
            # A cluster has failed, so the rollout is blocked; reported for the placement.
            return True, ""
        # Messages by cluster.
        pending = dict(self._find_pending_clusters(placement_objects))
        if not pending:
            # Each cluster has it, or has lost it.
            return True, ""
        blocked = find_blocked_rollout(placement_objects, pending.keys())
        if blocked is not None:
            self.blocked_message = blocked.message
            # It cannot continue.
            return True, ""
        return False, format_first_items(
            [f"{cluster}{message}" for cluster, message in pending.items()], _MAX_NAMES
        )

    def _find_latest_snapshot(self) -> str:
        """Return the name of the snapshot of the current override, "" if it does not exist yet."""
        namespace = self._override.namespace
        name = self._override.name
        body = self._hub.get(KINDS[self._kind].build_path(name, namespace))
        if body is None:
            # No such override.
            return ""
        collection = KINDS[f"{self._kind}Snapshot"].build_collection(namespace)
        for snapshot in self._hub.list_objects(collection, labelSelector=f"{_PARENT_LABEL}={name}"):
            is_latest = get_labels(snapshot).get(LATEST_LABEL) == "true"
            if is_latest and get_mapping(snapshot, "spec").get("overrideSpec") == body.get("spec"):
                return join_texts((namespace, get_name(snapshot)), "/")
        # Still to be created.
        return ""

    def _find_pending_clusters(
        self, placement_objects: ObservedPlacementObjects
    ) -> Iterator[tuple[str, str]]:
        """Yield the clusters still to get or lose the override.

        Each has a message to append to its name.
        """
        placement = read_placement_export(placement_objects)
        if placement is None:
            # The object is in deletion, or malformed.
            return
        objects: ObjectsByIndex = {item.index: item.objects for item in placement.snapshots}
        # Names of its snapshots.
        own_pattern = re.compile(rf"{re.escape(self._override.key)}-\d+")
        for binding in filter(is_bound, placement_objects.bindings):
            cluster = get_target_cluster(binding)
            index = getattr(placement.bindings.get(cluster), "resource_snapshot", None)
            if index not in objects:
                # Its objects are unknown.
                continue
            names = list_override_names(get_mapping(binding, "spec"))
            bound_snapshots = {name for name in names if own_pattern.fullmatch(name)}
            expected = (
                {self._snapshot}
                if self._is_override_for_cluster(cluster, objects[index])
                else set()
            )
            if bound_snapshots != expected:
                yield cluster, f" {'does not have it yet' if expected else 'still has it'}"
            elif reason := explain_unready_cluster(binding):
                yield cluster, f": {reason}"

    def _is_override_for_cluster(self, cluster: str, objects: Sequence[Manifest]) -> bool:
        """Return True if the override selects one of these objects on a cluster.

        A deleted override selects nothing.
        """
        if self._is_deleted:
            return False
        if self._labels is None:
            members = self._hub.list_objects(MEMBER.collection)
            self._labels = {get_name(member): get_labels(member) for member in members}
        labels = self._labels.get(cluster, {})
        return bool(select_overrides((self._override,), collect_selection_keys(objects), labels))
