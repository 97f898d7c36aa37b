"""Tests of new objects that Azure rejects, in `predict`, `validate` and `plan`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.azure.importers.az_changes import CLUSTERS, POOLS, VMS, AzAction, ToolChange
from nexusform.domains.azure.importers.creation_rules import check_created_objects


def list_details(kind: str, name: str = "core-a", **more: Any) -> list[str]:
    """Return the details of the findings about one change."""
    action = more.pop("action", AzAction.CREATE)
    change = ToolChange(kind, (name,), action, "azapi_resource.x", "plan.json", **more)
    return [problem.detail for problem in check_created_objects([change])]


def build_pools(**more: Any) -> dict[str, Any]:
    pool = {"name": "system", "mode": "System", "vmSkuName": "NC_P22_112_v1", **more}
    return {"properties": {"initialAgentPoolConfigurations": [pool]}}


def test_good_objects_have_no_finding() -> None:
    assert list_details(CLUSTERS, body=build_pools()) == []
    assert list_details(POOLS, "a_pool-1") == []
    assert list_details(VMS, "v" * 64) == []


@pytest.mark.parametrize(
    ("kind", "name"),
    [(CLUSTERS, "a"), (CLUSTERS, "core-"), (CLUSTERS, "c" * 31), (POOLS, "p.1"), (VMS, "v" * 65)],
)
def test_names_outside_of_the_pattern(kind: str, name: str) -> None:
    [detail] = list_details(kind, name)
    assert name in detail
    assert "must have 2 to" in detail
    # An existing object has a name that Azure accepted.
    assert list_details(kind, name, action=AzAction.UPDATE) == []


def test_names_of_initial_pools_are_checked() -> None:
    [detail] = list_details(CLUSTERS, body=build_pools(name="pool.1"))
    assert '"pool.1"' in detail


def test_cluster_without_system_pool() -> None:
    [detail] = list_details(CLUSTERS, body=build_pools(mode="User"))
    assert "none of its pools has mode System" in detail
    pools = ("properties", "initialAgentPoolConfigurations")
    for path in [(*pools, 0, "mode"), pools, ("properties",), ()]:
        unknown = {path: "known after apply"}
        assert list_details(CLUSTERS, body=build_pools(mode=None), unknown=unknown) == []


@pytest.mark.parametrize(("count", "size", "is_rejected"), [(112, "1G", False), (113, "1G", True)])
def test_hugepages_within_the_memory_of_a_node(count: int, size: str, is_rejected: bool) -> None:
    options = {"hugepagesCount": count, "hugepagesSize": size}
    details = list_details(CLUSTERS, body=build_pools(agentOptions=options))
    assert bool(details) == is_rejected
    assert all("113 hugepages of 1G are 113 GiB" in detail for detail in details)


CONFIGURATION = """provider "azure" {
  subscription_id = "00000000-0000-0000-0000-000000000001"
}
resource "nexus_site" "lab" {
  provider = azure
  name     = "lab"
}
resource "nexus_rack" "r1" {
  provider          = azure
  site_id           = nexus_site.lab.id
  name              = "r1"
  availability_zone = "1"
  machine_count     = 2
  machine_sku       = "bom-1.7.3"
}
resource "nexus_kubernetes_cluster" "c" {
  provider           = azure
  site_id            = nexus_site.lab.id
  name               = "core-a"
  kubernetes_version = "v1.29"
  control_plane {
    count       = 1
    vm_sku_name = "NC_P10_56_v1"
  }
  agent_pool "np1" {
    count       = 1
    vm_sku_name = "NC_P22_112_v1"
    mode        = "System"
    kubelet {
      extended_resources = { hugepages-1Gi = "100Gi" }
    }
  }
}
"""
CHANGED = {
    "name": ('"core-a"', '"core-"', 'the name "core-" is invalid'),
    "pool": ('agent_pool "np1"', 'agent_pool "p.1"', 'the name "p.1" is invalid'),
    "mode": ('"System"', '"User"', "none of its pools has mode System"),
    "hugepages": ('"100Gi"', '"113Gi"', "pool np1: hugepages of 113 GiB"),
}


@pytest.mark.parametrize("case", ["good", *CHANGED])
def test_configuration_that_azure_rejects_is_a_warning_of_validate(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new, reason = CHANGED.get(case, ("", "", ""))
    monkeypatch.chdir(tmp_path)
    text = CONFIGURATION.replace(old, new) if old else CONFIGURATION
    Path("main.nf.hcl").write_text(text)
    for command in (["validate"], ["plan", "-refresh=false", "-details"]):
        assert run_command_line(command) == 0
        captured = capsys.readouterr()
        said = " ".join((captured.out + captured.err).replace("│", " ").split())
        assert ("Azure will reject its creation" in said) == bool(reason), said
        assert reason in said
    # The simulated provider creates everything.
    Path("main.nf.hcl").write_text(re.sub(r"(?m)^  provider .*\n", "", text))
    run_command_line(["validate"])
    captured = capsys.readouterr()
    assert "Azure will reject" not in captured.out + captured.err
