"""Tests of a hub in Azure.

Azure Resource Manager manages its member labels and some placements.
"""

from __future__ import annotations

from pathlib import Path

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Front

MEMBER = """
provider "fleet" {}
data "fleet_hub" "hub" {}
resource "fleet_member_cluster" "lon1" {
  provider = fleet
  name     = "lon1"
  labels   = { tier = "gold" }
}
"""


def test_denied_label_change_names_the_az_command(hub: Front, run_command: CommandRunner) -> None:
    Path("main.nf.hcl").write_text(MEMBER)
    hub.judge(lambda body: "labels are managed by Azure" if body["kind"] == "MemberCluster" else "")
    code, said = run_command("plan")
    assert code == 1
    wanted = "az fleet member update --resource-group RG --fleet-name FLEET --name lon1 --labels"
    assert f'{wanted} "tier=gold"' in said


def test_objects_of_managed_namespace_are_read_but_not_imported(
    hub: Front, run_command: CommandRunner
) -> None:
    hub.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}, "arm")
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "team"}
    body = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "team", "labels": {"fleet.azure.com/managed-by": "arm"}},
        "spec": {"resourceSelectors": [selector], "policy": {"placementType": "PickAll"}},
    }
    hub.put(body, "arm")
    hub.act()
    Path("main.nf.hcl").write_text('provider "fleet" {}\ndata "fleet_hub" "hub" {}\n')
    code, said = run_command(
        "import", "-from=hub", "-generate-config-out=hub.nf.hcl", "-take-ownership"
    )
    assert code == 0, said
    assert "team (Azure Resource Manager)" in said
    assert not Path("hub.nf.hcl").exists()
