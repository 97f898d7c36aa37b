"""Tests of imported pools with networks, hugepages and keys.

Every export changes only their count, or is rejected by name.

NEXUSFORM_AZURE_BODIES names a folder with more of them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.azure.importers.azure_request_bodies import merge_bodies
from nexusform.domains.azure.rendering.azure_objects import (
    POOL,
    AzureResource,
    PlannedAzureResources,
    ResourceAction,
)
from nexusform.domains.azure.rendering.exports import build_azapi_document

OWN = Path(__file__).parents[1] / "importers" / "cases" / "azure"
MORE = os.environ.get("NEXUSFORM_AZURE_BODIES", "")
FOLDERS = sorted(Path(MORE).glob("clusters/*") if MORE else OWN.glob("clusters-*"))
NETWORKS = "attachedNetworkConfiguration"
# The values are from recordings; the bodies in this repository lack them.
LEFT_OUT = {
    "administratorConfiguration": {
        "adminUsername": "azureuser",
        "sshPublicKeys": [{"keyData": "ssh-rsa AAAA"}],
    },
    "agentOptions": {"hugepagesCount": 32, "hugepagesSize": "1G"},
    NETWORKS: {
        "l3Networks": [{"ipamEnabled": "False", "networkId": "/n/l3", "pluginType": "SRIOV"}],
        "trunkedNetworks": [{"networkId": "/n/trunk", "pluginType": "DPDK"}],
    },
}


def find_pool_with_networks(folder: Path) -> tuple[Any, Any, Any] | None:
    """Return the list, the first cluster with nodes and a growable pool, and that pool.

    The pool has networks of its own.
    """
    read = json.loads((folder / "kubernetes_clusters.json").read_text())
    for cluster in read["value"] if isinstance(read, dict) else read:
        properties = cluster.get("properties", cluster)
        for pool in properties.get("initialAgentPoolConfigurations") or []:
            is_free = properties.get("nodes") and not pool.get("availabilityZones")
            if is_free and (pool.get(NETWORKS) or not MORE):
                return read, cluster, pool
    return None


CASES = [folder for folder in FOLDERS if find_pool_with_networks(folder)]


def copy_site_with_networks(folder: Path) -> tuple[Any, Any]:
    """Copy a site, and give the pool all properties known from servers; return cluster and pool."""
    shutil.copytree(folder, "export")
    found = find_pool_with_networks(folder)
    assert found is not None
    read, cluster, pool = found
    for name, value in LEFT_OUT.items():
        pool.setdefault(name, value)
    Path("export/kubernetes_clusters.json").write_text(json.dumps(read))
    return cluster, pool


class CommandRunner:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.out = self.err = ""

    def __call__(self, *words: str) -> int:
        code = run_command_line(list(words))
        captured = self.capsys.readouterr()
        self.out = captured.out
        self.err = " ".join(captured.err.replace("│", " ").split())
        return code


@pytest.fixture
def nexusform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandRunner:
    monkeypatch.chdir(tmp_path)
    return CommandRunner(capsys)


def import_and_grow_pool(told: CommandRunner, name: str, more: str = "") -> None:
    """Import the site and request one more node of a pool, with more in its block."""
    assert told("import", "-from=export", "-generate-config-out=site.nf.hcl") == 0, told.err
    text = Path("site.nf.hcl").read_text()
    before, block = text.split(f'agent_pool "{name}" {{', 1)
    grown = re.sub(
        r"count( +)= (\d+)", lambda count: f"count{count[1]}= {int(count[2]) + 1}", block, count=1
    )
    Path("site.nf.hcl").write_text(f'{before}agent_pool "{name}" {{{more}{grown}')
    assert told("plan", "-out=p", "-samples=0") == 0, told.err


@pytest.mark.parametrize("folder", CASES, ids=lambda path: path.name)
def test_pool_with_networks_changes_only_its_count(folder: Path, nexusform: CommandRunner) -> None:
    cluster, pool = copy_site_with_networks(folder)
    import_and_grow_pool(nexusform, pool["name"])
    assert nexusform("export", "-format=azapi", "p") == 0, nexusform.err
    (block,) = json.loads(nexusform.out)["resource"]["azapi_update_resource"].values()
    assert block["name"] == pool["name"]
    real = {"properties": {part: value for part, value in pool.items() if part != "name"}}
    # The azapi provider merges it into the current body.
    after = merge_bodies(real, block["body"])
    assert after["properties"] == {**real["properties"], "count": pool["count"] + 1}

    assert nexusform("export", "-format=az", "p") == 0, nexusform.err
    (command,) = (
        each for each in nexusform.out.replace("\\\n", " ").splitlines() if each.startswith("az ")
    )
    words = shlex.split(command)
    flags = {word: words[at + 1] for at, word in enumerate(words) if word.startswith("--")}
    assert flags == {
        "--kubernetes-cluster-name": cluster["name"],
        "--name": pool["name"],
        "--resource-group": "$RESOURCE_GROUP",
        "--count": str(pool["count"] + 1),
    }


@pytest.mark.parametrize("folder", CASES[:1], ids=lambda path: path.name)
def test_azure_block_tags_are_exported(folder: Path, nexusform: CommandRunner) -> None:
    _, pool = copy_site_with_networks(folder)
    tags = '\n    azure {\n      body = { tags = { owner = "core" } }\n    }\n'
    import_and_grow_pool(nexusform, pool["name"], tags)
    assert nexusform("export", "-format=azapi", "p") == 0
    (block,) = json.loads(nexusform.out)["resource"]["azapi_update_resource"].values()
    assert block["body"] == {"properties": {"count": pool["count"] + 1}, "tags": {"owner": "core"}}
    assert nexusform("export", "-format=az", "p") == 0
    assert "--tags owner=core" in nexusform.out


LABELS = """resource "nexus_site" "s" {
}
resource "nexus_rack" "r1" {
  site_id       = nexus_site.s.id
  machine_count = 4
}
resource "nexus_kubernetes_cluster" "c" {
  site_id            = nexus_site.s.id
  kubernetes_version = "v1.31"
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "np" {
    count       = 1
    vm_sku_name = "NC_P4_28_v1"
    mode        = "System"
    labels      = { a = "1.10", b = "null", c = "1e3", d = "true", e = "it's", f = "1", g = "v1.10" }
  }
}
"""  # noqa: E501


def test_ambiguous_labels_are_quoted_for_az(nexusform: CommandRunner) -> None:
    """In a list, `az` reads 1.10 as the number 1.1, and null as no value."""
    Path("main.nf.hcl").write_text(LABELS)
    assert nexusform("plan", "-out=p", "-samples=0") == 0, nexusform.err
    assert nexusform("export", "-format=az", "p") == 0, nexusform.err
    words = shlex.split(nexusform.out.replace("\\\n", " ").split("az networkcloud", 1)[1])
    told = words[words.index("--initial-agent-pool-configurations") + 1]
    labels = re.findall(r"\{key:(\w),value:([^}]+)\}", told)
    assert dict(labels) == {
        "a": "'1.10'",
        "b": "'null'",
        "c": "'1e3'",
        "d": "true",
        "e": "'it'/s'",
        "f": "'1'",
        "g": "v1.10",
    }


def test_updates_with_equal_labels_are_all_written() -> None:
    updates = tuple(
        AzureResource(
            POOL, names, ResourceAction.UPDATE, "lab", "a.b", update_properties={"count": number}
        )
        for number, names in enumerate([("a", "b-c"), ("a-b", "c")], 1)
    )
    blocks = build_azapi_document(PlannedAzureResources(updates))["resource"][
        "azapi_update_resource"
    ]
    assert [block["body"]["properties"]["count"] for block in blocks.values()] == [1, 2]
    first, second = blocks
    assert blocks[second]["depends_on"] == [f"azapi_update_resource.{first}"]
