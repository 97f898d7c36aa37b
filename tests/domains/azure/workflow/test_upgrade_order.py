"""Tests of the order of an export with a Kubernetes upgrade and other changes.

Azure runs the upgrade with the counts and upgrade settings that it has at that moment.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

SITE = """\
variable "kv" { default = "1.31.5" }
variable "masters" { default = 1 }
variable "w" { default = 6 }
variable "b" { default = 1 }
variable "surge" { default = "1" }
variable "unavailable" { default = "0" }

resource "nexus_site" "lab" {}

resource "nexus_rack" "r" {
  count         = 2
  site_id       = nexus_site.lab.id
  name          = "rack${count.index + 1}"
  machine_count = 3
}

resource "nexus_kubernetes_cluster" "core" {
  site_id            = nexus_site.lab.id
  kubernetes_version = var.kv
  control_plane {
    count       = var.masters
    vm_sku_name = "NC_G12_56_v1"
  }
POOL
  depends_on = [nexus_rack.r]
}

resource "nexus_kubernetes_cluster" "zulu" {
  site_id            = nexus_site.lab.id
  kubernetes_version = "1.31.5"
  control_plane {
    count       = 1
    vm_sku_name = "NC_G12_56_v1"
  }
  agent_pool "b" {
    count       = var.b
    vm_sku_name = "NC_G12_56_v1"
  }
  depends_on = [nexus_rack.r]
}
"""
SETTINGS = """
    vm_sku_name = "NC_P46_224_v1"
    upgrade_settings {
      max_surge       = var.surge
      max_unavailable = var.unavailable
    }
"""
BLOCK = f'  agent_pool "w" {{\n    count = var.w{SETTINGS}  }}'
INITIAL = '  agent_pool "i" {\n    count = 1\n    vm_sku_name = "NC_G12_56_v1"\n  }'
SEPARATE = (
    'resource "nexus_agent_pool" "w" {\n  name = "w"\n  kubernetes_cluster_id = CLUSTER\n'
    f"  node_count = var.w{SETTINGS}  depends_on = [nexus_rack.r]\n}}\n"
)
SITES = {
    "block": SITE.replace("POOL", BLOCK),
    "resource": SITE.replace("POOL", INITIAL)
    + SEPARATE.replace("CLUSTER", "nexus_kubernetes_cluster.core.id"),
}
NEW_SETTINGS = ("surge=0", "unavailable=1")
# By the changed variables: pool or cluster, and changed property, in the order of an export.
ORDERS = {
    NEW_SETTINGS: ["w upgradeSettings", "core kubernetesVersion"],
    ("w=5",): ["w count", "core kubernetesVersion"],
    ("w=7",): ["core kubernetesVersion", "w count"],
    ("w=5", *NEW_SETTINGS): ["w count upgradeSettings", "core kubernetesVersion"],
    ("w=7", *NEW_SETTINGS): ["w upgradeSettings", "core kubernetesVersion", "w count"],
    ("b=0",): ["b count", "core kubernetesVersion"],
    ("masters=3",): ["core kubernetesVersion", "core controlPlaneNodeConfiguration"],
}
FLAGS = {
    "--count": "count",
    "--upgrade-settings": "upgradeSettings",
    "--kubernetes-version": "kubernetesVersion",
    "--control-plane-node-configuration": "controlPlaneNodeConfiguration",
}


def list_azapi_updates(text: str) -> list[str]:
    """Return the name and the changed properties of each update, in the order of dependencies."""
    updates = json.loads(text)["resource"]["azapi_update_resource"]
    addresses = [f"azapi_update_resource.{label}" for label in updates]
    awaited = [block.get("depends_on", []) for block in updates.values()]
    assert awaited == [[], *([address] for address in addresses[:-1])]
    return [
        " ".join([block["name"], *sorted(block["body"]["properties"])])
        for block in updates.values()
    ]


def list_az_updates(script: str) -> list[str]:
    """Return the name and the changed properties of each update of a script, in its order."""
    updates = []
    for command in script.split("\naz networkcloud ")[1:]:
        name = re.search(r"--name (\w+)", command)
        assert name is not None
        properties = [FLAGS[flag] for flag in re.findall(r"--[\w-]+", command) if flag in FLAGS]
        updates.append(" ".join([name[1], *sorted(properties)]))
    return updates


@pytest.mark.parametrize("variables", ORDERS)
@pytest.mark.parametrize("pool", SITES)
def test_upgrade_is_exported_between_scale_in_and_scale_out(
    pool: str,
    variables: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(SITES[pool])
    assert run_command_line(["apply", "-auto-approve"]) == 0
    flags = [f"-var={variable}" for variable in ("kv=1.32.4", *variables)]
    assert run_command_line(["plan", *flags, "-out=p.nfplan", "-samples=0"]) == 0
    for form, list_updates in (("az", list_az_updates), ("azapi", list_azapi_updates)):
        capsys.readouterr()
        assert run_command_line(["export", f"-format={form}", "p.nfplan"]) == 0
        assert list_updates(capsys.readouterr().out) == ORDERS[variables]
