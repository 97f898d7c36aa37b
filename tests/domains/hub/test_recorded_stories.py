"""Compare both hubs of the tests with the recorded events of a real hub.

One is our own, the other a real API server.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.domains.hub import story
from tests.domains.hub.hub_front import Front

CASES = os.environ.get("NEXUSFORM_HUB_CASES", "")
STORIES = (
    "create-scale-policy",
    "content-change",
    "eviction",
    "external-run",
    "failed-apply",
    "member-leaves",
    "delete-held",
)
THINNED = (
    "override-without-placement",
    "override-fails-on-one",
    "override-of-defaulted-paths",
    "run-resumes-after-another",
    "run-applied-with-its-placement",
    "run-aborted-by-changes",
    "eviction-while-a-run-waits",
    "evictions-with-budgets",
    "rollout-with-failing-members",
    "snapshot-pruning",
)
pytestmark = pytest.mark.skipif(
    not CASES, reason="NEXUSFORM_HUB_CASES names no recordings of a running hub"
)


def replay_story(bed: Front, events: list[Any]) -> tuple[Any, Any]:
    """Return the events of each object in the replay of a story, and the recorded ones."""
    of_events = story.StoryReplay(events, bed)
    of_events.seed()
    expected = story.list_recorded_events(of_events, events)
    since = story.read_versions(bed, {kind for kind, _, _ in expected})
    of_events.play()
    assert [each for each in of_events.answers if each[1] != each[2]] == []
    return story.list_observed_events(of_events, bed, since, set(expected)), expected


@pytest.mark.parametrize("name", STORIES)
def test_replayed_story_has_recorded_events(bed: Front, name: str) -> None:
    came, expected = replay_story(
        bed, json.loads((Path(CASES) / f"{name}.json").read_text())["events"]
    )
    for key, seen in expected.items():
        for number, (one, other) in enumerate(zip(came.get(key, []), seen, strict=False)):
            assert one == other, (key, number)
        assert len(came.get(key, [])) == len(seen), key


@pytest.mark.parametrize("name", THINNED)
def test_remaining_steps_of_shortened_story_run_in_order(bed: Front, name: str) -> None:
    recording = json.loads((Path(CASES) / f"{name}.json").read_text())
    assert recording["thinned"]
    came, expected = replay_story(bed, story.add_transition_times(recording["events"]))
    for key, seen in expected.items():
        assert story.find_missing_events(came.get(key, []), seen) == [], key
        assert came[key][-1].reduce_to_sparse() == seen[-1].reduce_to_sparse(), key
        assert [e.event for e in came[key]].count("DELETED") == [e.event for e in seen].count(
            "DELETED"
        ), key
