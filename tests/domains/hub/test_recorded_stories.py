"""Both hubs of the tests, our own and a real API server, tell what a real hub was recorded to tell."""

from __future__ import annotations

import json
import os
from pathlib import Path

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
pytestmark = pytest.mark.skipif(not CASES, reason="NEXUSFORM_HUB_CASES names no recordings of a running hub")


@pytest.mark.parametrize("name", STORIES)
def test_a_story_is_told_as_it_was_recorded(bed: Front, name: str) -> None:
    events = json.loads((Path(CASES) / f"{name}.json").read_text())["events"]
    played = story.Story(events, bed)
    played.seed()
    expected = story.recorded(played, events)
    since = story.versions(bed, {kind for kind, _, _ in expected})
    played.play()
    assert [each for each in played.answers if each[1] != each[2]] == []
    came = story.told(played, bed, since, set(expected))
    for key, seen in expected.items():
        for number, (one, other) in enumerate(zip(came.get(key, []), seen, strict=False)):
            assert one == other, (key, number)
        assert len(came.get(key, [])) == len(seen), key
