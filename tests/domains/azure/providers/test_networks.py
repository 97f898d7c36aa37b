"""Networks of pools that are not on the site, or not usable: said by the plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.domains.azure.providers.arm_server import GROUP, LOCATION, PROVIDER, ArmServer
from tests.domains.azure.providers.azure_sites import NEW, Told, write

TRUNKS = f"{GROUP}/{PROVIDER}/trunkedNetworks"
L3 = f"{GROUP}/{PROVIDER}/l3Networks"


def attach(network: str) -> str:
    """A new pool with its own trunked network, over the configuration of a new cluster."""
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
def trunks(server: ArmServer, nexusform: Told) -> Told:
    """A site with one usable trunked network and one that failed."""
    place = {"extendedLocation": LOCATION, "location": "eastus"}
    fabric = {"isolationDomainIds": ["/fabric/domain"], "vlans": [7]}
    for name, state in (("good", "Succeeded"), ("bad", "Failed")):
        properties = {**fabric, "provisioningState": state, "detailedStatusMessage": "the fabric rejected it"}
        server.site.put(f"{TRUNKS}/{name}", {**place, "properties": properties})
    return nexusform


def test_a_network_of_the_site_is_no_finding(trunks: Told) -> None:
    write(attach(f"{TRUNKS}/good"))
    assert trunks("plan", "-details") == 0, trunks.said
    assert "network-not-on-site" not in trunks.text


@pytest.mark.parametrize(
    ("network", "reason"),
    [
        (f"{TRUNKS}/other", "The network other is not on this site. Azure accepts the request, and fails it after"),
        (f"{TRUNKS}/bad", "The network bad is in the state Failed: the fabric rejected it."),
    ],
)
def test_a_missing_or_failed_network_is_said_with_its_line(trunks: Told, network: str, reason: str) -> None:
    write(attach(network))
    assert trunks("plan", "-details") == 0, trunks.said
    assert reason in trunks.said
    assert "Usable networks: good." in trunks.said
    assert 'resource "nexus_agent_pool" "more"' in trunks.said


@pytest.mark.parametrize(
    ("configuration", "missing"),
    [
        (attach(f"{TRUNKS}/good"), "no data on isolation domains and their racks"),
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
def test_facts_outside_of_an_export_are_named_by_plans_that_use_them(
    trunks: Told, configuration: str, missing: str
) -> None:
    write(configuration)
    assert trunks("plan") == 0, trunks.said
    assert missing in trunks.said
    assert ("no data on" in trunks.said) is bool(missing), trunks.said


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


def test_an_export_without_networks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nexusform: Told) -> None:
    """The bodies of most sites have no list of networks: nothing was checked, and the plan says so."""
    (tmp_path / "exported").mkdir()
    monkeypatch.chdir(tmp_path / "exported")
    assert nexusform("import", f"-from={BODIES}", "-generate-config-out=site.nf.hcl") == 0, nexusform.said
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
