"""Site with one cluster in a local Azure Resource Manager, and projects with changes to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from tests.domains.azure.providers.arm_server import (
    GROUP,
    LOCATION,
    NEXUS,
    PROVIDER,
    ArmServer,
    Site,
    add_hardware,
)

CLUSTER_ID = f"{GROUP}/{PROVIDER}/kubernetesClusters/c"
CLUSTER = CLUSTER_ID.lower()
FEW_SAMPLES = {"nexusform.scheduling.racks.uncertainty.certainty.MAX_RUNS": 10}
PROVIDER_BLOCK = (
    'provider "azure" {\n  subscription_id = "00000000-0000-0000-0000-000000000001"\n}\n'
)
# Configuration in addition to imported files: as overrides, it leaves those unchanged.
SCALED = """resource "nexus_kubernetes_cluster" "c" {
  agent_pool "np1" {
    count       = 4
    vm_sku_name = "NC_P22_112_v1"
    mode        = "System"
  }
  agent_pool "web" {
    count       = 2
    vm_sku_name = "NC_P22_112_v1"
  }
}
"""
# One pool is replaced for its labels, one shrinks, one is added.
MIXED = """resource "nexus_kubernetes_cluster" "c" {
  agent_pool "np1" {
    count       = 1
    vm_sku_name = "NC_P22_112_v1"
    mode        = "System"
  }
  agent_pool "web" {
    count       = 2
    vm_sku_name = "NC_P22_112_v1"
    labels      = { tier = "web" }
    upgrade_settings {
      max_unavailable = "100%"
    }
  }
  agent_pool "other" {
    count       = 1
    vm_sku_name = "NC_P22_112_v1"
  }
}
"""
NEW = """resource "nexus_kubernetes_cluster" "d" {
  provider           = azure
  site_id            = nexus_site.lab.id
  name               = "d"
  kubernetes_version = "v1.29"
  control_plane {
    count       = 1
    vm_sku_name = "NC_P10_56_v1"
  }
  agent_pool "np1" {
    count       = 2
    vm_sku_name = "NC_P22_112_v1"
    mode        = "System"
  }
  azure {
    resource_group = "tenants"
    body = {
      properties = { networkConfiguration = { cniNetworkId = "/n/cni", cloudServicesNetworkId = "/n/csn" } }
    }
  }
}
resource "nexus_agent_pool" "more" {
  provider              = azure
  kubernetes_cluster_id = nexus_kubernetes_cluster.d.id
  name                  = "more"
  node_count            = 1
  vm_sku_name           = "NC_P22_112_v1"
}
resource "nexus_virtual_machine" "v" {
  provider   = azure
  site_id    = nexus_site.lab.id
  name       = "v"
  cpu_cores  = 4
  memory_gib = 8
  disk_gib   = 64
  azure {
    resource_group = "tenants"
    body = {
      properties = {
        vmImage = "images/one", adminUsername = "admin"
        cloudServicesNetworkAttachment = { attachedNetworkId = "/n/csn", ipAllocationMethod = "Dynamic" }
      }
    }
  }
}
"""  # noqa: E501


def build_existing_site() -> Site:
    """Build a site with six machines in two racks and a cluster `c`.

    The cluster has a control plane of one, and a System pool `np1` and a User pool `web`
    of two each.
    """
    site = Site()
    add_hardware(site)
    plane = {"count": 1, "vmSkuName": "NC_P10_56_v1"}
    pools = [
        {"name": name, "count": 2, "mode": mode, "vmSkuName": "NC_P22_112_v1"}
        for name, mode in (("np1", "System"), ("web", "User"))
    ]
    properties = {
        "clusterId": NEXUS,
        "provisioningState": "Succeeded",
        "kubernetesVersion": "v1.29",
        "controlPlaneNodeConfiguration": plane,
        "initialAgentPoolConfigurations": pools,
    }
    created = {"createdAt": "2025-01-01T00:00:00Z"}
    body = {"extendedLocation": LOCATION, "location": "eastus", "systemData": created}
    site.put(CLUSTER_ID, {**body, "properties": properties})
    site.adjust_nodes(CLUSTER_ID)
    return site


def write_project(where: Path, configuration: str = "") -> None:
    """Write a directory with the provider, and configuration in addition to imported files."""
    where.mkdir(parents=True, exist_ok=True)
    if configuration.startswith('resource "nexus_kubernetes_cluster" "c"'):
        (where / "more_override.nf.hcl").write_text(configuration)
    elif configuration:
        (where / "more.nf.hcl").write_text(configuration)
    else:
        (where / "main.nf.hcl").write_text(PROVIDER_BLOCK)


def write_configuration(configuration: str) -> None:
    write_project(Path(), configuration)


def import_site() -> None:
    words = ["import", "-from=azure", "-generate-config-out=site.nf.hcl"]
    assert run_command_line(words) == 0


class RequestedToken:
    """Credential with the token that the server accepts."""

    def __init__(self, **_options: Any) -> None: ...

    def get_token(self, *_scopes: str, **_options: Any) -> Any:
        from azure.core.credentials import AccessToken

        return AccessToken("token", 4_000_000_000)

    def close(self) -> None: ...


class CommandRunner:
    """Run commands and keep their output on one line.

    The server chooses machines freely: a complete apply with wrong certain predictions counts as
    successful, and is `alarmed`.
    """

    def __init__(self, server: ArmServer, capsys: pytest.CaptureFixture[str]) -> None:
        self.server = server
        self.capsys = capsys
        self.said = ""
        self.alarmed = False
        self.text = ""

    def __call__(self, *words: str) -> int:
        code = run_command_line(list(words))
        captured = self.capsys.readouterr()
        self.text = captured.out + captured.err
        self.said = " ".join(self.text.replace("│", " ").split())
        self.alarmed = (
            words[0] == "apply" and code == 2 and "Wrong certain predictions" in self.said
        )
        return 0 if self.alarmed else code

    def changes(self) -> list[tuple[str, str]]:
        """Return the changes accepted by Azure: method and the last two parts of the path."""
        return [
            (method, "/".join(path.rsplit("/", 2)[1:])) for method, path in self.server.site.taken
        ]

    def nodes(self, name: str = "c") -> list[dict[str, Any]]:
        properties = self.server.site.properties(f"{GROUP}/{PROVIDER}/kubernetesClusters/{name}")
        return list(properties["nodes"])
