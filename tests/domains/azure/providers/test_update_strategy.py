"""The updateStrategy of a Nexus cluster: taken over with its site, and followed by a simulated upgrade."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.domains.azure.providers.arm_server import HOSTED, NEXUS, ArmServer
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


@pytest.mark.of_domains("whatif")
def test_a_sites_own_strategy_is_taken_over_and_followed(empty: Told, server: ArmServer) -> None:
    says(server, STRATEGY)
    assert empty("import", "-from=azure", "-generate-config-out=site.nf.hcl") == 0, empty.said
    written = " ".join(Path("site.nf.hcl").read_text().split())
    assert 'update_strategy { type = "PauseAfterRack" max_unavailable = 2' in written
    assert empty("plan", "-detailed-exitcode") == 0, empty.said
    empty("simulate", "runtime-upgrade")
    assert "at most 2 machines of a rack at once: 4 waves" in empty.said, empty.said
    assert "After each rack it waits 15 minutes" in empty.said
    assert "fewer than 60 per cent of the machines return: 1 machine of a rack may stay down" in empty.said
    assert "PauseAfterRack: the upgrade waits" in empty.said
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


@pytest.mark.of_domains("whatif")
def test_a_strategy_that_somebody_changed_is_drift_and_is_followed(empty: Told, server: ArmServer) -> None:
    """The platform goes by what it has, whatever the configuration says; nothing is sent for it."""
    says(server, STRATEGY)
    assert empty("import", "-from=azure", "-generate-config-out=site.nf.hcl") == 0, empty.said
    says(server, {**STRATEGY, "thresholdValue": 80})
    assert empty("plan", "-detailed-exitcode") == 2
    assert "update_strategy threshold_value 80 -> 60" in empty.said, empty.said
    assert empty("apply", "-auto-approve") == 0
    assert "nexus_site lab is not changed yet" in empty.said
    assert "(update_strategy differ" in empty.said
    assert not server.site.taken
    written = Path("site.nf.hcl").read_text().replace("= 60", "= 80")
    Path("site.nf.hcl").write_text(written)
    assert empty("plan", "-detailed-exitcode") == 0, empty.said
    empty("simulate", "runtime-upgrade")
    assert "fewer than 80 per cent" in empty.said


@pytest.mark.of_domains("whatif")
def test_the_versions_of_machines_are_told_with_an_upgrade(empty: Told, server: ArmServer) -> None:
    properties = server.site.resources[NEXUS.lower()]["properties"]
    properties["clusterVersion"] = "4.1.0"
    properties["availableUpgradeVersions"] = [
        {
            "controlImpact": "True",
            "expectedDuration": "10-12 hours",
            "impactDescription": "Machines restart.",
            "supportExpiryDate": "2026-12-31",
            "targetClusterVersion": "4.4.1",
            "workloadImpact": "True",
        },
        {"targetClusterVersion": "4.5.0"},
    ]
    assert empty("import", "-from=azure", "-generate-config-out=site.nf.hcl") == 0, empty.said
    assert empty("plan", "-detailed-exitcode") == 0, empty.said
    empty("simulate", "runtime-upgrade")
    assert "The machines run version 4.1.0." in empty.said, empty.said
    assert (
        "Azure offers version 4.4.1 (expected to take 10-12 hours; workloads are affected; supported "
        "until 2026-12-31; Machines restart)." in empty.said
    )
    assert "Azure offers version 4.5.0." in empty.said
    empty("simulate", "runtime-upgrade", "-format=json")
    told = json.loads(empty.text)["sites"][0]["runtime"]
    assert told["version"] == "4.1.0"
    assert [offer["version"] for offer in told["offers"]] == ["4.4.1", "4.5.0"]
    properties["availableUpgradeVersions"] = []
    assert empty("apply", "-auto-approve") == 0, empty.said
    assert empty("plan", "-refresh-only") == 0


@pytest.mark.of_domains("whatif")
def test_an_upgrade_that_would_stop_is_told_with_the_rack_and_why(empty: Told, server: ArmServer) -> None:
    """Two of three machines must come back; one is down, and then another."""
    says(server, {**STRATEGY, "thresholdType": "CountSuccess", "thresholdValue": 2})
    down = server.site.resources[f"{HOSTED}/bareMetalMachines/m5".lower()]["properties"]
    down |= {"powerState": "Off", "readyState": "False"}
    assert empty("import", "-from=azure", "-generate-config-out=site.nf.hcl") == 0, empty.said
    empty("simulate", "runtime-upgrade")
    assert "It would stop now at" not in empty.said
    assert "fewer than 2 of the machines return: 1 machine of a rack may stay down" in empty.said
    server.site.resources[f"{HOSTED}/bareMetalMachines/m6".lower()]["properties"]["readyState"] = "False"
    assert empty("apply", "-auto-approve", "-refresh-only") == 0, empty.said
    assert empty("simulate", "runtime-upgrade") == 2
    assert (
        "It would stop now at r2, after wave 4: 2 of its 3 machines are unhealthy and not expected "
        "back; 1 may stay down: m5 (powered off, not ready) and m6 (not ready)." in empty.said
    ), empty.said
    empty("simulate", "runtime-upgrade", "-format=json")
    assert json.loads(empty.text)["sites"][0]["stops"]["rack"] == "r2"
