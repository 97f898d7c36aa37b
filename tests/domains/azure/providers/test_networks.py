"""Tests of plan warnings about networks of pools that are missing on the site or not usable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.domains.azure.providers.arm_server import GROUP, LOCATION, PROVIDER, ArmServer
from tests.domains.azure.providers.azure_sites import NEW, CommandRunner, write_configuration

TRUNKS = f"{GROUP}/{PROVIDER}/trunkedNetworks"
L3 = f"{GROUP}/{PROVIDER}/l3Networks"


def attach_network(network: str) -> str:
    """Return a new pool with its own trunked network, in the configuration of a new cluster."""
    block = f"""
  azure {{
    body = {{
      properties = {{
        attachedNetworkConfiguration = {{
          trunkedNetworks = [{{ networkId = "{network}", pluginType = "SRIOV" }}]
        }}
      }}
    }}
  }}
}}"""
    line = '  vm_sku_name           = "NC_P22_112_v1"\n}'
    assert line in NEW
    return NEW.replace(line, line.removesuffix("}") + block)


@pytest.fixture
def trunked_networks(server: ArmServer, nexusform: CommandRunner) -> CommandRunner:
    """Return a site with one usable trunked network and one failed network."""
    place = {"extendedLocation": LOCATION, "location": "eastus"}
    fabric = {"isolationDomainIds": ["/fabric/domain"], "vlans": [7]}
    for name, state in (("good", "Succeeded"), ("bad", "Failed")):
        properties = {
            **fabric,
            "provisioningState": state,
            "detailedStatusMessage": "the fabric rejected it",
        }
        server.site.put(f"{TRUNKS}/{name}", {**place, "properties": properties})
    return nexusform


def test_no_warning_for_network_of_the_site(trunked_networks: CommandRunner) -> None:
    write_configuration(attach_network(f"{TRUNKS}/good"))
    assert trunked_networks("plan", "-details") == 0, trunked_networks.said
    assert "network-not-on-site" not in trunked_networks.text


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (
            f"{TRUNKS}/other",
            "The network other is not on this site. Azure accepts the request, and fails it after",
        ),
        (f"{TRUNKS}/bad", "The network bad is in the state Failed: the fabric rejected it."),
    ],
)
def test_missing_or_failed_network_is_reported_with_line(
    trunked_networks: CommandRunner, network: str, reason: str
) -> None:
    write_configuration(attach_network(network))
    assert trunked_networks("plan", "-details") == 0, trunked_networks.said
    assert reason in trunked_networks.said
    assert "Usable networks: good." in trunked_networks.said
    assert 'resource "nexus_agent_pool" "more"' in trunked_networks.said
    # Azure fails the pool, so the hosts of its VMs are not certain.
    assert trunked_networks("plan", "-report=json:plan.json") == 0
    rows = json.loads(Path("plan.json").read_text())["placement_changes"]
    assert [row["certainty"] for row in rows if row["address"] == "nexus_agent_pool.more"] == [None]


@pytest.mark.parametrize(
    ("configuration", "missing"),
    [
        (attach_network(f"{TRUNKS}/good"), "no data on isolation domains and their racks"),
        (
            NEW.replace(
                '  vm_sku_name           = "NC_P22_112_v1"\n}',
                '  vm_sku_name           = "NC_P22_112_v1"\n'
                '  kubelet {\n    extended_resources = { "hugepages-1Gi" = "4Gi" }\n  }\n}',
            ),
            "no data on hugepages of machines",
        ),
        (NEW, ""),
    ],
    ids=["network", "hugepages", "neither"],
)
def test_plan_names_required_facts_missing_from_export(
    trunked_networks: CommandRunner, configuration: str, missing: str
) -> None:
    write_configuration(configuration)
    assert trunked_networks("plan") == 0, trunked_networks.said
    assert missing in trunked_networks.said
    assert ("no data on" in trunked_networks.said) is bool(missing), trunked_networks.said


VM = """resource "nexus_virtual_machine" "v1" {
  provider   = azure_export
  site_id    = nexus_site.SITE.id
  name       = "v1"
  cpu_cores  = 2
  memory_gib = 4
  disk_gib   = 8
  azure {
    body = {
      properties = { networkAttachments = [{ attachedNetworkId = "NETWORK" }] }
    }
  }
}
"""
SIMULATED = """resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.s.id
  name          = "r"
  machine_count = 2
}
"""
BODIES = Path(__file__).parents[1] / "importers" / "cases" / "azure" / "sites-007"


def test_export_without_networks_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nexusform: CommandRunner
) -> None:
    """The bodies of most sites have no list of networks.

    Nothing was checked, and the plan reports it.
    """
    (tmp_path / "exported").mkdir()
    monkeypatch.chdir(tmp_path / "exported")
    assert nexusform("import", f"-from={BODIES}", "-generate-config-out=site.nf.hcl") == 0, (
        nexusform.said
    )
    site = Path("site.nf.hcl").read_text().partition('resource "nexus_site" "')[2].partition('"')[0]
    Path("vm.nf.hcl").write_text(VM.replace("SITE", site).replace("NETWORK", f"{L3}/blue"))
    assert nexusform("plan", "-samples=0") == 0, nexusform.said
    assert "no data on L3 networks, isolation domains and their racks" in nexusform.said
    assert "network-not-on-site" not in nexusform.said
    # A simulated site has no export.
    simulated = VM.replace("  provider   = azure_export\n", "").replace("NETWORK", f"{L3}/blue")
    Path("vm.nf.hcl").write_text(SIMULATED + simulated.replace("SITE", "s"))
    assert nexusform("plan", "-samples=0") == 0, nexusform.said
    assert "no data on" not in nexusform.said
