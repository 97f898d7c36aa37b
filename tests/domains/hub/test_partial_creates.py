"""A create that fails after its first object: the state has what exists, and plan, apply and -resume go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("lightkube")
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_server import HubServer, Refuse
from tests.domains.hub.test_fleet_crashes import CREATED, Change, Story, beat
from tests.kill_points import select_cases

APPLY = ("apply", "-auto-approve", "-parallelism=1")


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    hub = HubServer()
    hub.controller = Controller()
    beat(hub)
    story = Story(tmp_path, hub, Change("", CREATED))
    yield story
    story.runner.end()
    hub.close()


@pytest.fixture
def where(story: Story) -> Path:
    """Return a work directory after an apply whose ConfigMap was denied. Its Namespace exists."""
    where = story.begin("denied")

    def deny(_method: str, path: str) -> None:
        if "/configmaps/" in path and ("", "Namespace", "", "web") in story.hub.objects:
            raise Refuse(403, 'admission webhook "policy.example" denied the request: no')

    story.hub.faults = deny
    code, told = story.runner.run(where, *APPLY)
    assert code == 1
    assert "ConfigMap web/settings: the hub refuses it (403)" in told
    story.answer_all()
    return where


def test_a_plan_after_a_denied_object_has_only_that_one_to_create(story: Story, where: Path) -> None:
    code, told = story.runner.run(where, "plan")
    assert code == 0
    assert "~ fleet_hub_manifest.web +ConfigMap settings" in told
    assert "Plan: 1 to add, 1 to change, 0 to destroy." in told


@pytest.mark.parametrize("words", [APPLY, ("apply", "-resume")])
def test_an_apply_after_a_denied_object_completes_it(story: Story, where: Path, words: tuple[str, ...]) -> None:
    story.good(where, *words)
    assert story.read_hub() == story.result
    story.good(where, "plan", "-detailed-exitcode")


@pytest.mark.parametrize("call", select_cases(range(9, 14)))  # the journal's calls around the two objects of the block
def test_a_full_disk_between_two_objects_is_no_obstacle(story: Story, call: int) -> None:
    story.break_disk(("ENOSPC", call))
