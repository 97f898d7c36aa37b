"""Tests of an apply that checks all steps on the hub before the first one writes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Front
from tests.domains.hub.test_fleet_provider import list_writes
from tests.domains.hub.test_hub_races import apply_plan, make_plan, scale


def refuse_placements(hub: Front) -> None:
    """Let a webhook refuse all placements from now on."""
    hub.judge(lambda body: "no placements on Fridays" if body["kind"].endswith("Placement") else "")


@pytest.mark.parametrize(
    ("intervene", "message"),
    [
        (refuse_placements, "no placements on Fridays"),
        (scale, "has spec.policy.numberOfClusters 4 on the hub; the plan started from 2"),
    ],
)
def test_nothing_is_written_before_a_refused_step(
    hub: Front, run_command: CommandRunner, intervene: Callable[[Front], None], message: str
) -> None:
    # Content, and a placement that takes it to another cluster.
    make_plan(hub, run_command, "change")
    intervene(hub)
    hub.log.clear()
    code, said = apply_plan(run_command)
    assert code == 1
    assert message in said
    assert list_writes(hub) == []
    content = hub.get("ConfigMap", "settings", "web")
    assert content is not None
    assert content["data"] == {"a": "1"}


def test_a_new_plan_continues_after_a_refusal(hub: Front, run_command: CommandRunner) -> None:
    make_plan(hub, run_command, "change")
    scale(hub)
    _code, said = apply_plan(run_command)
    assert "Another step was refused before the first write" in said, said
    # Nothing has to be resumed or discarded.
    assert run_command("apply", "-auto-approve")[0] == 0
    content = hub.get("ConfigMap", "settings", "web")
    assert content is not None
    assert content["data"] == {"a": "2"}
