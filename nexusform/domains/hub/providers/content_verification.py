"""Verification of the objects distributed by a hub: those of resource snapshots and, after overrides, of Works.
A hub takes a snapshot when it sees a change, so several writes may come in several snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from nexusform.domains.fleet.planning.placement_records import (
    AppliedResources,
    compute_body_hash,
    read_applied_resources,
    read_bindings,
)
from nexusform.domains.hub.api.hub_client import HubClient
from nexusform.domains.hub.api.hub_kinds import MEMBER
from nexusform.domains.hub.providers.hub_bodies import build_hub_objects
from nexusform.domains.hub.providers.hub_wait import (
    has_external_rollout,
    list_created_kinds,
    list_created_objects,
    list_works,
)
from nexusform.domains.hub.providers.object_access import get_identity, list_objects_if_permitted
from nexusform.domains.hub.providers.prediction_verification import VerificationResult
from nexusform.domains.hub.providers.rollout_progress import PlacementProgress
from nexusform.domains.hub.providers.run_verification import AppliedObjects, find_wrong_objects
from nexusform.domains.hub.providers.work_verification import (
    describe_missing_works,
    find_wrong_works,
    has_cluster_content,
    render_run_content,
)
from nexusform.interfaces.plugins import ChangeRequest, StepProgress
from nexusform.json_data.plain_data import Path

NO_SNAPSHOTS: Final = "the hub does not let resource snapshots be listed, so their objects are unknown"
_NO_LABELS: Final = "the hub does not let members be listed, so the results of overrides are unknown"
Values = Mapping[str, Any]


class ContentVerifier:
    """Verifier of the objects of a placement or a run. `applied` are the objects applied so far, `kept_titles` the
    kept objects of others.
    """

    def __init__(
        self, hub: HubClient, step: ChangeRequest, applied: AppliedObjects, kept_titles: AbstractSet[str]
    ) -> None:
        self._hub, self._step, self._applied, self._kept_titles = hub, step, applied, kept_titles
        self._planned = step.planned or {}
        self._differences: dict[int, str | None] = {}  # of resource snapshots, by index

    # --- placements ----------------------------------------------------------------------------

    def describe_outdated(self, progress: PlacementProgress) -> str:
        """Return a message if the latest resource snapshot has older objects than applied; "" otherwise."""
        index = self._find_index_to_verify(progress)
        if index is None or not self._find_snapshot_difference(index):
            return ""
        del self._differences[index]
        return "the hub has not taken a snapshot of all changes yet"

    def verify_placement(self, verification: VerificationResult, final: PlacementProgress) -> VerificationResult:
        """Return the result with the clusters at a resource snapshot with other objects than planned, and with
        other objects after overrides. Staged runs have checks of their own. The snapshots of a new placement
        are not read.
        """
        resources, index = self._get_planned_resources(), final.latest_snapshot
        is_complete = final.is_done and not final.message and not self._is_run_managed
        if is_complete and index is not None and has_cluster_content(resources):
            verification = self._verify_works(verification, resources, index)
        index = self._find_index_to_verify(final)
        if index is None:
            return verification
        difference = self._find_snapshot_difference(index)
        if difference is None:
            unread = "; ".join(filter(None, (verification.not_verified, NO_SNAPSHOTS)))
            return replace(verification, not_verified=unread)
        return verification.add_wrong_content(_list_clusters_at(final, index) if difference else (), index, difference)

    def report_renumbered_snapshots(self, final: PlacementProgress) -> tuple[Path, ...]:
        """Report several snapshots of the changes of a plan, and return the paths of the snapshot numbers of clusters
        with the planned objects.
        """
        index = self._find_index_to_verify(final)
        if index is None or self._find_snapshot_difference(index) != "":
            return ()
        predicted_index = self._get_planned_resources().snapshots[-1].index
        added_count = index - predicted_index
        if not 0 < added_count < self._count_object_changes():
            return ()
        message = f"the hub has taken {added_count + 1} resource snapshots of the changes; the last one is {index}"
        self._step.report_progress(StepProgress(message=message))
        predicted = self._planned.get("bindings") or {}
        names = (name for name in _list_clusters_at(final, index) if name in predicted)
        names = (name for name in names if predicted[name].get("resource_snapshot") == predicted_index)
        return tuple(("bindings", name, "resource_snapshot") for name in names)

    @property
    def _is_run_managed(self) -> bool:
        return has_external_rollout(build_hub_objects(self._step.key.type, self._planned)[0].body)

    def _find_index_to_verify(self, progress: PlacementProgress) -> int | None:
        """Return the index of the latest resource snapshot to verify; None without one."""
        index, planned = progress.latest_snapshot, self._get_planned_resources().snapshots
        if self._step.prior is None or self._is_run_managed or not planned or index is None:
            return None
        return index if index >= planned[-1].index else None

    def _get_planned_resources(self) -> AppliedResources:
        return read_applied_resources(self._step.planned_note, read_bindings(self._planned))

    def _count_object_changes(self) -> int:
        """Return the number of objects added, changed and removed since the previous snapshot."""
        recorded = read_applied_resources(self._step.private_note, ()).snapshots
        snapshots = [*recorded[-1:], *self._get_planned_resources().snapshots][-2:]
        hashes = [{(item.title, compute_body_hash(item)) for item in each.objects} for each in snapshots]
        return len({title for title, _ in set.symmetric_difference(*hashes)}) if len(hashes) > 1 else 0

    def _find_snapshot_difference(self, index: int) -> str | None:
        """Return how the objects of a resource snapshot differ from the planned ones; None without permission."""
        if index not in self._differences:
            kind, namespace, name = get_identity(self._step.key.type, self._planned)
            bodies = self.list_snapshots(list_created_kinds(kind)[2], namespace, name)
            titles = {manifest.title for manifest in self._get_planned_resources().snapshots[-1].objects}
            found = (
                None if bodies is None else find_wrong_objects(index, titles, bodies, self._applied, self._kept_titles)
            )
            self._differences[index] = found
        return self._differences[index]

    # --- runs ----------------------------------------------------------------------------------

    def verify_run(
        self, verification: VerificationResult, snapshots: Sequence[Values], namespace: str, placement: str
    ) -> VerificationResult:
        """Return the result with the clusters of a completed run with other objects after overrides."""
        note = self._step.planned_note
        if not note.get("picked"):
            return verification
        members = list_objects_if_permitted(partial(self._hub.list_objects, MEMBER.collection))
        if members is None:
            return replace(verification, not_verified=_NO_LABELS)
        resources = render_run_content(note, snapshots, members)
        return self._verify_works(verification, resources, int(note["resource_snapshot"]), (namespace, placement))

    # --- observed objects ----------------------------------------------------------------------

    def list_snapshots(self, kind: str, namespace: str, placement: str) -> list[dict[str, Any]] | None:
        """Return the resource snapshots of a placement; None without permission."""
        return list_objects_if_permitted(partial(list_created_objects, self._hub, kind, namespace, placement))

    def _verify_works(
        self,
        verification: VerificationResult,
        resources: AppliedResources,
        index: int,
        placement: tuple[str, str] | None = None,
    ) -> VerificationResult:
        """Return the result with the clusters with other objects in their Works than planned."""
        works = list_works(self._hub, *(placement or get_identity(self._step.key.type, self._planned)[1:]))
        verification = replace(verification, not_verified=describe_missing_works(resources, works))
        for cluster, difference in find_wrong_works(resources, works or ()):
            verification = verification.add_wrong_content([cluster], index, difference)
        return verification


def _list_clusters_at(progress: PlacementProgress, index: int) -> list[str]:
    """Return the clusters at a resource snapshot."""
    return [cluster for cluster, item in progress.bindings.items() if item.get("resource_snapshot") == index]
