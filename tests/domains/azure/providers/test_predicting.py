"""Tests of `predict -inventory=azure`: another tool's plan on a site read from Azure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.domains.azure.providers.arm_server import GROUP, ArmServer, Faults
from tests.domains.azure.providers.azure_sites import CommandRunner

PLAN = {
    "format_version": "1.2",
    "planned_values": {},
    "resource_changes": [
        {
            "address": "azapi_resource.new",
            "mode": "managed",
            "type": "azapi_resource",
            "name": "new",
            "change": {
                "actions": ["create"],
                "before": None,
                "after": {
                    "type": "Microsoft.NetworkCloud/kubernetesClusters@2026-07-01",
                    "name": "new",
                    "parent_id": GROUP,
                    "body": {
                        "properties": {
                            "controlPlaneNodeConfiguration": {
                                "count": 1,
                                "vmSkuName": "NC_P10_56_v1",
                            }
                        }
                    },
                },
                "after_unknown": {},
            },
        }
    ],
    "configuration": {"root_module": {}},
}
COMMAND = ("predict", "-terraform-plan=plan.json", "-inventory=azure", "-samples=0")


@pytest.fixture(autouse=True)
def write_plan(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))


def test_site_is_read_from_azure(nexusform: CommandRunner, server: ArmServer) -> None:
    sent = len(server.site.taken)
    assert nexusform(*COMMAND) == 0, nexusform.said
    assert "+ nexus_kubernetes_cluster.new 1 VM in 1 pool" in nexusform.said
    assert "1 to place, 0 to move, 0 to remove, 5 kept." in nexusform.said
    # No file is written.
    assert len(server.site.taken) == sent


def test_subscription_from_environment_is_sufficient(
    nexusform: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("empty").mkdir()
    Path("plan.json").rename("empty/plan.json")
    monkeypatch.chdir("empty")
    monkeypatch.delenv("AZURE_SUBSCRIPTION_ID", raising=False)
    assert nexusform(*COMMAND) == 1
    assert "No subscription given: set AZURE_SUBSCRIPTION_ID" in nexusform.said
    monkeypatch.setenv("AZURE_SUBSCRIPTION_ID", "00000000-0000-0000-0000-000000000001")
    assert nexusform(*COMMAND) == 0, nexusform.said


def test_unreadable_subscription_gives_no_prediction(
    nexusform: CommandRunner, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_NET_DEADLINE", "1")
    server.site.faults = Faults(throttled_reads=1_000_000)
    assert nexusform(*COMMAND) == 1
    assert "to place" not in nexusform.said
