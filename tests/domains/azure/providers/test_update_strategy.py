"""Tests of the updateStrategy of a Nexus cluster.

Import with its site, and use in a simulated upgrade.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from tests.domains.azure.providers.arm_server import HOSTED, NEXUS, ArmServer
from tests.domains.azure.providers.azure_sites import (
    CommandRunner,
    build_existing_site,
    write_project,
)

STRATEGY = {
    "strategyType": "PauseAfterRack",
    "maxUnavailable": 2,
    "thresholdType": "PercentSuccess",
    "thresholdValue": 60,
    "waitTimeMinutes": 15,
}


def set_strategy(server: ArmServer, strategy: Any) -> None:
    server.site.resources[NEXUS.lower()]["properties"]["updateStrategy"] = strategy


@pytest.fixture
def unimported_site(
    server: ArmServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> CommandRunner:
    """Return an existing site without an import."""
    monkeypatch.chdir(tmp_path)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    server.site = build_existing_site()
    write_project(tmp_path)
    return CommandRunner(server, capsys)


@pytest.mark.of_domains("whatif")
def test_strategy_of_site_is_imported_and_used(
    unimported_site: CommandRunner, server: ArmServer
) -> None:
    set_strategy(server, STRATEGY)
    assert unimported_site("import", "-from=azure", "-generate-config-out=site.nf.hcl") == 0, (
        unimported_site.said
    )
    written = " ".join(Path("site.nf.hcl").read_text().split())
    assert 'update_strategy { type = "PauseAfterRack" max_unavailable = 2' in written
    assert unimported_site("plan", "-detailed-exitcode") == 0, unimported_site.said
    unimported_site("simulate", "runtime-upgrade")
    assert "at most 2 machines of a rack at once: 4 waves" in unimported_site.said, (
        unimported_site.said
    )
    assert "After each rack it waits 15 minutes" in unimported_site.said
    assert (
        "fewer than 60 per cent of the machines return: 1 machine of a rack may stay down"
        in unimported_site.said
    )
    assert "PauseAfterRack: the upgrade waits" in unimported_site.said
    unimported_site("simulate", "runtime-upgrade", "-strategy=Rack", "-max-unavailable=3")
    assert "at most 3 machines of a rack at once: 2 waves" in unimported_site.said
    assert "PauseAfterRack" not in unimported_site.said


@pytest.mark.parametrize(
    "strategy", [None, "Rack", {"strategyType": 7}, {"maxUnavailable": "many"}, []]
)
def test_unreadable_strategy_is_ignored(
    strategy: Any, unimported_site: CommandRunner, server: ArmServer
) -> None:
    set_strategy(server, strategy)
    assert unimported_site("import", "-from=azure", "-generate-config-out=site.nf.hcl") == 0, (
        unimported_site.said
    )
    assert "update_strategy" not in Path("site.nf.hcl").read_text()
    assert unimported_site("plan", "-detailed-exitcode") == 0, unimported_site.said


def test_earlier_import_does_not_change(nexusform: CommandRunner, server: ArmServer) -> None:
    set_strategy(server, STRATEGY)
    assert nexusform("plan", "-detailed-exitcode") == 0, nexusform.said


@pytest.mark.of_domains("whatif")
def test_changed_strategy_is_drift_and_is_used(
    unimported_site: CommandRunner, server: ArmServer
) -> None:
    """The platform follows its own setting, not the configuration; no request is sent for it."""
    set_strategy(server, STRATEGY)
    assert unimported_site("import", "-from=azure", "-generate-config-out=site.nf.hcl") == 0, (
        unimported_site.said
    )
    set_strategy(server, {**STRATEGY, "thresholdValue": 80})
    assert unimported_site("plan", "-detailed-exitcode") == 2
    assert "update_strategy threshold_value 80 -> 60" in unimported_site.said, unimported_site.said
    assert unimported_site("apply", "-auto-approve") == 0
    assert "nexus_site lab is not changed yet" in unimported_site.said
    assert "still has the old update_strategy" in unimported_site.said
    assert not server.site.taken
    written = Path("site.nf.hcl").read_text().replace("= 60", "= 80")
    Path("site.nf.hcl").write_text(written)
    assert unimported_site("plan", "-detailed-exitcode") == 0, unimported_site.said
    unimported_site("simulate", "runtime-upgrade")
    assert "fewer than 80 per cent" in unimported_site.said


@pytest.mark.of_domains("whatif")
def test_upgrade_reports_machine_versions(
    unimported_site: CommandRunner, server: ArmServer
) -> None:
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
    assert unimported_site("import", "-from=azure", "-generate-config-out=site.nf.hcl") == 0, (
        unimported_site.said
    )
    assert unimported_site("plan", "-detailed-exitcode") == 0, unimported_site.said
    unimported_site("simulate", "runtime-upgrade")
    assert "The machines run version 4.1.0." in unimported_site.said, unimported_site.said
    assert (
        "Azure offers version 4.4.1 (expected to take 10-12 hours; workloads are affected; "
        "supported until 2026-12-31; Machines restart)." in unimported_site.said
    )
    assert "Azure offers version 4.5.0." in unimported_site.said
    unimported_site("simulate", "runtime-upgrade", "-format=json")
    facts = json.loads(unimported_site.text)["facts"]
    assert "The machines run version 4.1.0." in facts
    assert "Azure offers version 4.5.0." in facts
    properties["availableUpgradeVersions"] = []
    assert unimported_site("apply", "-auto-approve") == 0, unimported_site.said
    assert unimported_site("plan", "-refresh-only") == 0


@pytest.mark.of_domains("whatif")
def test_stopping_upgrade_is_reported_with_rack_and_reason(
    unimported_site: CommandRunner, server: ArmServer
) -> None:
    """Two of three machines must return; first one is down, then another."""
    set_strategy(server, {**STRATEGY, "thresholdType": "CountSuccess", "thresholdValue": 2})
    down = server.site.resources[f"{HOSTED}/bareMetalMachines/m5".lower()]["properties"]
    down |= {"powerState": "Off", "readyState": "False"}
    assert unimported_site("import", "-from=azure", "-generate-config-out=site.nf.hcl") == 0, (
        unimported_site.said
    )
    unimported_site("simulate", "runtime-upgrade")
    assert "It would stop now at" not in unimported_site.said
    assert (
        "fewer than 2 of the machines return: 1 machine of a rack may stay down"
        in unimported_site.said
    )
    server.site.resources[f"{HOSTED}/bareMetalMachines/m6".lower()]["properties"]["readyState"] = (
        "False"
    )
    assert unimported_site("apply", "-auto-approve", "-refresh-only") == 0, unimported_site.said
    assert unimported_site("simulate", "runtime-upgrade") == 2
    assert (
        "It would stop now at r2, after wave 4: 2 of its 3 machines are unhealthy and not expected "
        "back; 1 may stay down: m5 (powered off, not ready) and m6 (not ready)."
        in unimported_site.said
    ), unimported_site.said
    unimported_site("simulate", "runtime-upgrade", "-format=json")
    assert "It would stop now at r2" in json.loads(unimported_site.text)["verdict"]
