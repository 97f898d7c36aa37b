"""Verification of completed runs and evictions against the plan: a hub may have evaluated them with older
objects than the planned ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from msgspec import Struct

from nexusform.diagnostics.phrases import format_first_items
from nexusform.documents.field_validation import list_mappings
from nexusform.domains.fleet.importers.fleet_export import list_conditions, read_snapshot_objects
from nexusform.domains.fleet.importers.hub_records import read_runs
from nexusform.domains.fleet.scheduling.eviction import PREDICTED_EVICTION
from nexusform.domains.hub.providers.hub_bodies import HubObject, find_differences
from nexusform.domains.pods.importers.manifest_parser import Manifest, build_manifest
from nexusform.placements.prediction_scores import VerifiedPrediction

EVICTION_PREDICTION: Final = "eviction"
RUN_END_PREDICTION: Final = "run_end"
RUN_ORDER_PREDICTION: Final = "run_order"
_MAX_NAMES: Final = 4
Body = Mapping[str, Any]
# Objects applied so far in this run of the program, by identity.
AppliedObjects = Mapping[tuple[str, str, str, str], HubObject]


class _StagePosition(Struct, frozen=True):
    """Place of a cluster in the order of its stage, from 1."""

    stage: str
    number: int
    size: int

    @property
    def text(self) -> str:
        """Display text."""
        return f"{self.number} of {self.size} in stage {self.stage}"


def find_wrong_run_resources(run: Body, note: Body, snapshots: Sequence[Body], applied: AppliedObjects) -> str:
    """Return how the resources of a completed run differ from the planned ones; "" if they do not. `note` is
    the planned private note of the run, `snapshots` are the resource snapshots of its placement.
    """
    planned_index = note.get("resource_snapshot")
    used_text = str((run.get("status") or {}).get("resourceSnapshotIndexUsed") or "")
    if planned_index is None or not used_text.isdecimal():
        return ""
    if int(used_text) != planned_index:
        return f"it used resource snapshot {used_text}; planned: {planned_index}"
    return find_wrong_objects(int(used_text), set(note.get("objects") or ()), snapshots, applied)


def find_wrong_objects(
    index: int,
    planned_titles: AbstractSet[str],
    snapshots: Sequence[Body],
    applied: AppliedObjects,
    kept_titles: AbstractSet[str] = frozenset(),
) -> str:
    """Return how the objects of a resource snapshot differ from the planned ones; "" if they do not, or if
    the hub has deleted it. `snapshots` are all of its placement. `kept_titles` are objects of others, kept by a step.
    """
    manifests = [manifest for manifest in map(build_manifest, map(dict, snapshots)) if manifest is not None]
    objects = read_snapshot_objects(manifests, index)
    if not objects:
        return ""
    titles = {manifest.title for manifest in objects}
    if planned_titles and (differing_titles := (titles ^ planned_titles) - kept_titles):
        names = format_first_items(sorted(differing_titles), _MAX_NAMES)
        return f"its resource snapshot {index} differs from the plan in {names}"
    outdated = [manifest.title for manifest in objects if _is_older_than_applied(manifest, applied)]
    if outdated and index == max(_list_snapshot_indexes(manifests), default=index):
        return f"its resource snapshot {index} has older content of {format_first_items(outdated, _MAX_NAMES)}"
    return ""


def verify_run(name: str, note: Body, run: Body) -> tuple[VerifiedPrediction, ...]:
    """Return the verified predictions of a run: its end, the clusters of a stopping run, and the place of each
    cluster in the order of its stage.
    """
    manifest = build_manifest(dict(run))
    observed = next(iter(read_runs([manifest] if manifest is not None else [])), None)
    if observed is None or not note.get("stages"):
        return ()
    has_ended = note.get("ended") is True
    ends = [("all stages complete" if is_complete else "it stops") for is_complete in (has_ended, observed.succeeded)]
    predictions = [_build_prediction(RUN_END_PREDICTION, name, 0.5, *ends)]
    stages = []
    for stage in list_mappings(run, "status", "stagesStatus"):
        clusters = list_mappings(stage, "clusters")
        times = {str(item.get("clusterName")): _read_update_start(item) for item in clusters}
        stages.append((str(stage.get("stageName")), sorted(times, key=lambda name: times[name] or "~")))
    planned_places, places = _index_stage_positions(note["stages"]), _index_stage_positions(stages)
    is_partial = not has_ended or not observed.succeeded
    for cluster, planned_place in planned_places.items():
        title = f"{name}: {cluster}"
        updates = [
            ("updated" if cluster in done else "not updated") for done in (note.get("done") or (), observed.done)
        ]
        if is_partial or updates[0] != updates[1]:
            predictions.append(_build_prediction(RUN_END_PREDICTION, title, 0.5, *updates))
        place = places.get(cluster)
        if place is not None and (planned_place.size > 1 or place != planned_place):
            chance = 1 / planned_place.size
            predictions.append(_build_prediction(RUN_ORDER_PREDICTION, title, chance, planned_place.text, place.text))
    return tuple(predictions)


def _read_update_start(cluster: Body) -> str:
    """Return the start of a cluster's update; "" before it."""
    conditions = list_conditions({"status": cluster})
    return next((str(item.get("lastTransitionTime") or "") for item in conditions if item.get("type") == "Started"), "")


def _index_stage_positions(stages: Iterable[tuple[str, Sequence[str]]]) -> dict[str, _StagePosition]:
    """Return the place of each cluster."""
    return {
        cluster: _StagePosition(stage, number, len(clusters))
        for stage, clusters in stages
        for number, cluster in enumerate(clusters, 1)
    }


def _build_prediction(subject: str, name: str, chance: float, predicted: str, observed: str) -> VerifiedPrediction:
    text = f"{name}: predicted: {predicted}; observed: {observed}"
    return VerifiedPrediction(subject, 1.0, chance, predicted == observed, text=text)


def _is_older_than_applied(manifest: Manifest, applied: AppliedObjects) -> bool:
    applied_object = applied.get((manifest.group, manifest.kind, manifest.namespace, manifest.name))
    if applied_object is None:
        return False
    return next(find_differences(applied_object.body, manifest.body), None) is not None


def _list_snapshot_indexes(manifests: Sequence[Manifest]) -> list[int]:
    labels = [manifest.labels.get("kubernetes-fleet.io/resource-index", "") for manifest in manifests]
    return [int(label) for label in labels if label.isdecimal()]


def verify_eviction(name: str, note: Body, reason: str) -> tuple[VerifiedPrediction, ...]:
    """Return the verified prediction of an eviction; `reason` is why the hub did not execute it, or ""."""
    predicted = note.get(PREDICTED_EVICTION)
    if not isinstance(predicted, Mapping):
        return ()
    was_executed, is_executed = predicted.get("executed") is True, not reason
    text = (
        f"{name}: predicted to be {_format_result(executed=was_executed)} ({predicted.get('message')}), but was "
        f"{_format_result(executed=is_executed)}{f' ({reason})' if reason else ''}"
    )
    is_correct, is_certain = was_executed == is_executed, predicted.get("certain") is True
    return (VerifiedPrediction(EVICTION_PREDICTION, 1.0, 0.5, is_correct, is_certain=is_certain, text=text),)


def _format_result(*, executed: bool) -> str:
    return "executed" if executed else "blocked"
