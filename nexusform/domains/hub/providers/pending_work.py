"""Pending work of a hub: steps of an earlier apply, and rollouts of placements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexusform.domains.fleet.scheduling.rolling_update import BlockedRollout
from nexusform.domains.hub.providers.hub_bodies import EVICTION_TYPE, RUN_TYPES
from nexusform.domains.hub.providers.hub_wait import has_external_rollout, read_eviction_result
from nexusform.domains.hub.providers.rollout_progress import (
    ObservedPlacementObjects,
    check_placement_progress,
    check_run_progress,
    find_blocked_rollout,
)
from nexusform.interfaces.plugins import UNFINISHED_KEY, ReadRequest

Values = Mapping[str, Any]


def find_pending_rollout(placement_objects: ObservedPlacementObjects) -> str | BlockedRollout:
    """Return the pending work of a placement, "" if done; or its blocked rollout."""
    progress = check_placement_progress(
        placement_objects, {}, is_external=has_external_rollout(placement_objects.placement)
    )
    blocked = find_blocked_rollout(placement_objects) if progress.is_decided and not progress.is_done else None
    return blocked or ("" if progress.is_done else progress.message)


def describe_pending_work(type_name: str, body: Values) -> str:
    """Return the pending work of a run or an eviction, "" if done."""
    if type_name in RUN_TYPES:
        progress = check_run_progress(body, ())
        return "" if progress.has_ended else progress.message
    if type_name == EVICTION_TYPE:
        return "" if read_eviction_result(body)[0] else "the hub has not processed it yet"
    return ""


def is_deletion_in_progress(request: ReadRequest) -> bool:
    """Return True if an earlier apply started the deletion of an object."""
    return request.is_being_deleted or bool((request.unfinished_change or {}).get("deletes"))


def build_unfinished_note(request: ReadRequest, title: str, message: str) -> dict[str, Any]:
    """Return the note about an object changed by an earlier apply: in progress, or done."""
    if request.planned is None and not request.unfinished_change and not request.is_being_deleted:
        return {}
    if not message:
        return {UNFINISHED_KEY: None}
    is_deletion = is_deletion_in_progress(request)
    action = "to delete it" if is_deletion else "to write it"
    sentence = f"An earlier apply began {action}, and the hub is not done with {title} yet: {message}."
    note = {"words": sentence, "brief": f"{title} waits: {message}", "in_progress": True}
    return {UNFINISHED_KEY: {**note, "deletes": True} if is_deletion else note}
