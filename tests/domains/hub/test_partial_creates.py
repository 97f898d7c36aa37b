"""Tests of a create that fails after its first object.

The state records the existing one, and plan, apply and -resume continue.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("lightkube")
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_server import HubServer, RequestRejection
from tests.domains.hub.test_fleet_crashes import CREATED, Change, CrashScenario, send_heartbeats
from tests.kill_points import select_cases

APPLY = ("apply", "-auto-approve", "-parallelism=1")


@pytest.fixture
def crash_scenario(tmp_path: Path) -> Iterator[CrashScenario]:
    hub = HubServer()
    hub.controller = Controller()
    send_heartbeats(hub)
    crash_scenario = CrashScenario(tmp_path, hub, Change("", CREATED))
    yield crash_scenario
    crash_scenario.runner.end()
    hub.close()


@pytest.fixture
def denied_directory(crash_scenario: CrashScenario) -> Path:
    """Return a work directory after an apply with a denied ConfigMap.

    Its Namespace exists.
    """
    denied_directory = crash_scenario.begin("denied")

    def deny(_method: str, path: str) -> None:
        if "/configmaps/" in path and ("", "Namespace", "", "web") in crash_scenario.hub.objects:
            raise RequestRejection(403, 'admission webhook "policy.example" denied the request: no')

    crash_scenario.hub.faults = deny
    code, told = crash_scenario.runner.run(denied_directory, *APPLY)
    assert code == 1
    assert "ConfigMap web/settings: the hub refuses it (403)" in told
    crash_scenario.answer_all()
    return denied_directory


def test_plan_after_denied_object_creates_only_that_object(
    crash_scenario: CrashScenario, denied_directory: Path
) -> None:
    code, told = crash_scenario.runner.run(denied_directory, "plan")
    assert code == 0
    assert "~ fleet_hub_manifest.web +ConfigMap settings" in told
    assert "Plan: 1 to add, 1 to change, 0 to destroy." in told


@pytest.mark.parametrize("words", [APPLY, ("apply", "-resume")])
def test_apply_after_denied_object_completes_it(
    crash_scenario: CrashScenario, denied_directory: Path, words: tuple[str, ...]
) -> None:
    crash_scenario.good(denied_directory, *words)
    assert crash_scenario.read_hub() == crash_scenario.result
    crash_scenario.good(denied_directory, "plan", "-detailed-exitcode")


# The journal's calls around the two objects of the block.
@pytest.mark.parametrize("call", select_cases(range(9, 14)))
def test_full_disk_between_two_objects_is_recoverable(
    crash_scenario: CrashScenario, call: int
) -> None:
    crash_scenario.break_disk(("ENOSPC", call))
