"""Tests of recorded rollouts of a real hub, checked after each event.

A placement counts as done once the hub has no further work for it, and not before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.domains.hub.api.hub_cache import PARENT_LABEL
from nexusform.domains.hub.providers.hub_wait import has_been_scheduled
from nexusform.domains.hub.providers.rollout_progress import (
    ObservedPlacementObjects,
    build_observed_bindings,
    check_placement_progress,
    get_generation,
    get_observed_index,
    is_latest_snapshot_outdated,
)

CASES = os.environ.get("NEXUSFORM_HUB_CASES", "")
Body = dict[str, Any]
# Stories with a finished rollout for each generation. Of the second one only changes are recorded,
# so only the partial check is possible.
STORIES = [("create-scale-policy", False), ("create-scale-policy", True), ("content-change", True)]
PLACEMENT = "shop"
MADE = ("ClusterResourceBinding", "ClusterSchedulingPolicySnapshot", "ClusterResourceSnapshot")


def list_observed_states(events: list[Body], name: str) -> Iterator[ObservedPlacementObjects]:
    """Yield the observed objects of a placement after each event."""
    objects: dict[tuple[str, str, str], Body] = {}
    for event in events:
        body = event.get("object")
        if body is None:
            continue
        key = (body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"])
        objects[key] = body
        if event["event"] == "DELETED":
            del objects[key]
        if ("ClusterResourcePlacement", "", name) in objects:
            yield _observe(objects, name)


def _observe(objects: Mapping[tuple[str, str, str], Body], name: str) -> ObservedPlacementObjects:
    placement = objects["ClusterResourcePlacement", "", name]
    mine = [
        b for b in objects.values() if (b["metadata"].get("labels") or {}).get(PARENT_LABEL) == name
    ]
    bindings, policies, snapshots = ([b for b in mine if b["kind"] == kind] for kind in MADE)
    return ObservedPlacementObjects(placement, bindings, policies, snapshots)


def _is_done(shown: ObservedPlacementObjects, planned: Mapping[str, Any], *, glance: bool) -> bool:
    """Return whether an apply with these predicted bindings would end now."""
    if not has_been_scheduled(shown.placement):
        return False
    if glance and get_observed_index(shown.placement) is not None:
        shown = replace(shown, policies=(), snapshots=(), is_partial=True)
    standing = check_placement_progress(shown, planned, is_external=False)
    return standing.is_done and not is_latest_snapshot_outdated(planned, standing.latest_snapshot)


@pytest.mark.skipif(not CASES, reason="NEXUSFORM_HUB_CASES names no recordings of a running hub")
@pytest.mark.parametrize(("story", "glance"), STORIES)
def test_rollout_is_done_exactly_when_hub_was(story: str, *, glance: bool) -> None:
    events = json.loads((Path(CASES) / f"{story}.json").read_text())["events"]
    phases: dict[int, list[ObservedPlacementObjects]] = {}
    for shown in list_observed_states(events, PLACEMENT):
        phases.setdefault(get_generation(shown.placement), []).append(shown)
    for generation, phase in phases.items():
        last = build_observed_bindings(phase[-1])
        done = [_is_done(shown, last, glance=glance) for shown in phase]
        assert True in done, generation
        for later in phase[done.index(True) :]:
            bindings = build_observed_bindings(later)
            assert _summarize_bindings(bindings) == _summarize_bindings(last), generation


def _summarize_bindings(bindings: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[Any, Any]]:
    return {cluster: (one["state"], one["resource_snapshot"]) for cluster, one in bindings.items()}
