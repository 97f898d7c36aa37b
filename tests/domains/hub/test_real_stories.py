"""Tests of fleets on a real hub: random changes, and a run that starts with new content."""

from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.state.objects import EMPTY
from tests.domains.hub.api_programs import CRDS, PROGRAMS, find_obstacle
from tests.domains.hub.real_hub import RealHub
from tests.kill_points import long_case
from tests.nightly.hub_stories import Story, Twin, run_stories
from tests.planning.harness import build_state_after, list_errors, plan

NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "hubagent")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(find_obstacle(*NEEDED)), reason=find_obstacle(*NEEDED) or "-"),
]
# A short fleet; .ci/nightly draws new ones.
SEED = 920010


@long_case
def test_random_fleet_is_as_predicted() -> None:
    assert run_stories(minutes=1, count=1, first=SEED) == 0


@long_case
def test_run_with_new_content_uses_one_of_the_predicted_snapshots(tmp_path: Path) -> None:
    """A hub that collects changes uses the previous content; one that does not, the new one."""
    used: dict[str, int] = {}
    for collection in ("0s", "15s"):
        (tmp_path / collection).mkdir()
        hub = RealHub(PROGRAMS, CRDS, tmp_path / collection, collection=collection)
        try:
            twin = Twin(hub)
            story = next(
                story
                for story in map(Story, range(100))
                if (story.is_external, story.has_approvals, story.kind) == (True, False, "PickAll")
            )
            state = EMPTY
            for number in range(3):
                story.number = number
                if number == 2:
                    story.change_data()
                if number:
                    story.start_run()
                result = plan(story.render(), state)
                assert list_errors(result) == []
                state = build_state_after(result, state)
                twin.apply(story)
            (rollout,) = result.plan.workloads.rollouts
            assert (rollout.resource_snapshot, rollout.previous_snapshot) == (1, 0)
            name = f"{story.name}-2"
            runs = hub.call(
                "GET", "/apis/placement.kubernetes-fleet.io/v1beta1/clusterstagedupdateruns"
            )["items"]
            (run,) = [run for run in runs if run["metadata"]["name"] == name]
            used[collection] = int(run["status"]["resourceSnapshotIndexUsed"])
        finally:
            hub.close()
    assert used == {"0s": 1, "15s": 0}
