"""The updateStrategy of a Nexus cluster: taken over with its site, and followed by a simulated upgrade."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.domains.azure.providers.arm_server import NEXUS, ArmServer
from tests.domains.azure.providers.azure_sites import Told, project, standing_site

STRATEGY = {
    "strategyType": "PauseAfterRack",
    "maxUnavailable": 2,
    "thresholdType": "PercentSuccess",
    "thresholdValue": 60,
    "waitTimeMinutes": 15,
}


def says(server: ArmServer, strategy: Any) -> None:
    server.site.resources[NEXUS.lower()]["properties"]["updateStrategy"] = strategy


@pytest.fixture
def empty(
    server: ArmServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Told:
    """A site that is there, and nobody took over."""
    monkeypatch.chdir(tmp_path)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    server.site = standing_site()
    project(tmp_path)
    return Told(server, capsys)


def test_a_sites_own_strategy_is_taken_over_and_followed(empty: Told, server: ArmServer) -> None:
    says(server, STRATEGY)
    assert empty("import", "-from=azure", "-generate-config-out=site.nf.hcl") == 0, empty.said
    written = " ".join(Path("site.nf.hcl").read_text().split())
    assert 'update_strategy { type = "PauseAfterRack" max_unavailable = 2' in written
    assert empty("plan", "-detailed-exitcode") == 0, empty.said
    empty("simulate", "runtime-upgrade")
    assert "at most 2 machines of a rack at once: 4 waves" in empty.said, empty.said
    assert "After each rack it waits 15 minutes" in empty.said
    assert "fewer than 60 per cent of the machines come back: 1 machine of a rack may stay away" in empty.said
    assert "PauseAfterRack: it waits" in empty.said
    empty("simulate", "runtime-upgrade", "-strategy=Rack", "-max-unavailable=3")
    assert "at most 3 machines of a rack at once: 2 waves" in empty.said
    assert "PauseAfterRack" not in empty.said


@pytest.mark.parametrize("strategy", [None, "Rack", {"strategyType": 7}, {"maxUnavailable": "many"}, []])
def test_a_strategy_that_cannot_be_read_is_none(strategy: Any, empty: Told, server: ArmServer) -> None:
    says(server, strategy)
    assert empty("import", "-from=azure", "-generate-config-out=site.nf.hcl") == 0, empty.said
    assert "update_strategy" not in Path("site.nf.hcl").read_text()
    assert empty("plan", "-detailed-exitcode") == 0, empty.said


def test_a_site_that_was_taken_over_before_does_not_change(nexusform: Told, server: ArmServer) -> None:
    says(server, STRATEGY)
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said
