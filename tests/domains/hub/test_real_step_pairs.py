"""Tests of the pairs of steps on a running hub.

Each write is delayed by NEXUSFORM_HUB_DELAY seconds in turn.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.domains.hub.api_programs import find_obstacle
from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.running_hub import PROGRAMS_OF_A_HUB, RunningHub, start_running_hub
from tests.domains.hub.test_hub_step_pairs import FOLLOWERS, check_pairs

DELAY = float(os.environ.get("NEXUSFORM_HUB_DELAY") or 0)
_REASON = find_obstacle(*PROGRAMS_OF_A_HUB) or (
    "" if DELAY else "NEXUSFORM_HUB_DELAY is not set (.ci/nightly sets it)"
)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(_REASON), reason=_REASON or "-")]


@pytest.fixture(scope="module")
def running_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    with start_running_hub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub


@pytest.mark.parametrize("path", FOLLOWERS)
def test_readers_follow_a_slow_write(
    running_hub: RunningHub,
    run_command: CommandRunner,
    path: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(running_hub.kubeconfig(tmp_path)))
    try:
        check_pairs(running_hub, run_command, path, DELAY)
    finally:
        # The next case needs it.
        run_command("state", "rm", "fleet_member_cluster.fra1")
        code, said = run_command("destroy", "-auto-approve")
    assert code == 0, said
