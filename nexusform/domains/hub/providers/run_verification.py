"""Verification of completed runs and evictions against the plan: a hub may have evaluated them with older
objects than the planned ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from nexusform.diagnostics.phrases import format_first
from nexusform.domains.fleet.importers.fleet_export import read_snapshot_objects
from nexusform.domains.fleet.scheduling.eviction import PREDICTED_EVICTION
from nexusform.domains.hub.providers.hub_bodies import HubObject, find_differences
from nexusform.domains.pods.importers.manifest_parser import Manifest, build_manifest
from nexusform.placements.prediction_scores import VerifiedPrediction

EVICTION_PREDICTION: Final = "eviction"
_MAX_NAMES: Final = 4
Body = Mapping[str, Any]
# Objects applied so far in this run of the program, by identity.
AppliedObjects = Mapping[tuple[str, str, str, str], HubObject]


def find_wrong_content(run: Body, note: Body, snapshots: Sequence[Body], applied: AppliedObjects) -> str:
    """Return how the resources of a completed run differ from the planned ones; "" if they do not. `note` is
    the planned private note of the run, `snapshots` are the resource snapshots of its placement.
    """
    planned_index = note.get("resource_snapshot")
    used_text = str((run.get("status") or {}).get("resourceSnapshotIndexUsed") or "")
    if planned_index is None or not used_text.isdecimal():
        return ""
    if int(used_text) != planned_index:
        return f"it used resource snapshot {used_text}; planned: {planned_index}"
    manifests = [manifest for manifest in map(build_manifest, map(dict, snapshots)) if manifest is not None]
    objects = read_snapshot_objects(manifests, int(used_text))
    if not objects:
        return ""  # the hub has deleted the snapshot
    titles, planned_titles = {manifest.title for manifest in objects}, set(note.get("objects") or ())
    if planned_titles and titles != planned_titles:
        names = format_first(sorted(titles ^ planned_titles), _MAX_NAMES)
        return f"its resource snapshot {used_text} differs from the plan in {names}"
    outdated = [manifest.title for manifest in objects if _is_outdated(manifest, applied)]
    if outdated and planned_index == max(_list_indexes(manifests), default=planned_index):
        return f"its resource snapshot {used_text} has older content of {format_first(outdated, _MAX_NAMES)}"
    return ""


def _is_outdated(manifest: Manifest, applied: AppliedObjects) -> bool:
    applied_object = applied.get((manifest.group, manifest.kind, manifest.namespace, manifest.name))
    if applied_object is None:
        return False
    return next(find_differences(applied_object.body, manifest.body), None) is not None


def _list_indexes(manifests: Sequence[Manifest]) -> list[int]:
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
    is_correct = was_executed == is_executed
    return (VerifiedPrediction(EVICTION_PREDICTION, 1.0, 0.5, is_correct, is_certain=True, text=text),)


def _format_result(*, executed: bool) -> str:
    return "executed" if executed else "blocked"
